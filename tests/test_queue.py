"""Requests that a server does not run wait: the batch that runs has the speed."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specroof import predict
from specroof.questions.predict import Prediction
from specroof.serving.capacity import running_curve, running_requests
from specroof.speedup.curve import decoding_curve
from specroof.speedup.result import SpeedupCurve
from tables import present, rows

Array = npt.NDArray[np.float64]
SMALL = {"engine": "sglang", "max_draft_len": 4, "drafters": "mtp,accept=0.8"}


def asked(**told: Any) -> Prediction:
    return predict("Qwen/Qwen3.5-27B", "h200", **{**SMALL, **told})


def test_what_cannot_run_has_no_figures() -> None:
    assert np.isnan(running_requests([1.0, 9.0], 0.0, "queue")).all()
    assert np.isnan(running_requests([1.0, 9.0], 8.0, "drop")).tolist() == [False, True]


def test_each_side_runs_its_own_batch() -> None:
    found = asked(concurrency=[1, 16, 64])
    (curve,), (limit,) = found.curves, found.limits
    assert curve.running is not None
    most = limit.largest[0]
    assert most[0] > most[4] > 16
    assert curve.running[0, 2].tolist() == most.tolist()
    assert curve.running[0, 1].tolist() == [16] * 5
    assert found.notes.count(limit.drafting.notes[0]) == 1
    # The same batches asked for one by one, with memory without end.
    for drafts in (0, 2, 4):
        free = asked(batch_size=[most[drafts]], capacity=False).curves[0]
        assert curve.tokens_per_s[0, 2, drafts] == pytest.approx(free.tokens_per_s[0, 0, drafts])
        plain = asked(batch_size=[most[0]], capacity=False).curves[0].tokens_per_s[0, 0, 0]
        gained = free.tokens_per_s[0, 0, drafts] / plain
        assert curve.speedup[0, 2, drafts] == pytest.approx(gained)
    assert curve.speedup[0, 2, 0] == 1.0
    assert np.all(curve.running <= curve.batch_size[None, :, None])
    (warning,) = found.warnings
    assert all(f"{most[drafts]:g} with" in warning for drafts in (0, 4))


@pytest.mark.parametrize(("spec", "verified", "layers"), rows("values", "held_requests"))
def test_a_request_holds_all_that_it_may_verify(
    spec: str, verified: list[int], layers: int
) -> None:
    found = predict("Qwen/Qwen3-8B", "h100", drafters=spec, engine="sglang", max_draft_len=3)
    held = found.limits[0].drafting.room.cache_bytes[0, 1:]
    # SGLang allocates two verifications ahead; a layer keeps 8 keys and values of 128 in bf16.
    assert held.tolist() == [(4096 + 2 * one) * layers * 8 * 128 * 2 * 2 for one in verified]


def test_requests_keep_the_identity_of_little() -> None:
    found = asked(concurrency=[1, 16, 64], input_len=4000, output_len=500, steady=True)
    (whole,) = found.counted
    per_s = whole.tokens_per_s / 500
    clients = np.broadcast_to(np.array([1, 16, 64])[None, :, None], per_s.shape)
    # Little 1961: of all that are sent, and of those that run; they wait for the rest of the time.
    np.testing.assert_allclose(per_s * whole.answer_s, clients)
    running = np.broadcast_to(whole.curve.running_batch, per_s.shape)
    np.testing.assert_allclose(per_s * whole.service_s, running)
    waits_s = whole.answer_s - whole.service_s
    np.testing.assert_allclose(whole.ttft_s - whole.first_s, waits_s, atol=1e-9)
    assert np.all(whole.effective_batch <= whole.curve.running_batch)
    # Waiting is what is left: all that run share the server as 43 clients would.
    runs = float(present(whole.curve.running)[0, 2, 0])
    alone = asked(concurrency=[runs], input_len=4000, output_len=500, steady=True).counted[0]
    assert whole.tokens_per_s[0, 2, 0] == pytest.approx(alone.tokens_per_s[0, 0, 0])
    assert whole.answer_s[0, 2, 0] == pytest.approx(alone.answer_s[0, 0, 0] * 64 / runs)


def test_a_batch_beyond_capacity_has_no_figures() -> None:
    found = asked(batch_size=[1, 30, 64])
    curve = found.curves[0]
    most = found.limits[0].largest[0]
    assert curve.running is not None
    for drafts in range(5):
        fits = [1, most[drafts] >= 30, most[drafts] >= 64]
        assert np.isfinite(curve.speedup[0, :, drafts]).tolist() == [bool(one) for one in fits]
    assert np.isnan(curve.decode_s[0, 2])
    assert curve.best_draft_len[0, 2] == 0
    assert [int(end[0, 2]) for end in curve.near_best()] == [0, 0]
    free = asked(batch_size=[1, 30, 64], capacity=False)
    assert free.limits == ()
    assert free.warnings == ()
    assert free.curves[0].running is None
    np.testing.assert_array_equal(curve.round_s[0, :1], free.curves[0].round_s[0, :1])


def test_each_size_that_runs_is_priced_once_whatever_their_order() -> None:
    curve = asked(batch_size=[8, 30, 40, 64], capacity=False).curves[0]
    batches = np.array([30.0, 8, 64])
    seen: list[list[float]] = []

    def priced(sizes: Array) -> SpeedupCurve:
        seen.append(sizes.tolist())
        return asked(batch_size=sizes, capacity=False).curves[0]

    largest = np.array([[40.0, 30, 8, 8, 0]])
    in_flight, forty = batches[None, :, None], np.full((1, 1, 5), 40.0)
    held = running_curve(batches, running_requests(in_flight, largest[:, None, :], "drop"), priced)
    queued = running_curve(batches, running_requests(in_flight, forty, "queue"), priced)
    assert seen == [[8, 30], [8, 30, 40]]
    for place, alone in enumerate((1, 0)):
        fits = batches[place] <= largest[0]
        np.testing.assert_array_equal(np.isfinite(held.round_s[0, place]), fits)
        np.testing.assert_array_equal(held.round_s[0, place, fits], curve.round_s[0, alone, fits])
    assert np.isnan(held.round_s[0, 2]).all()
    np.testing.assert_array_equal(queued.round_s[0], curve.round_s[0, [1, 0, 2]])


def test_without_lengths_a_token_takes_its_share_of_a_round() -> None:
    (found,) = asked(batch_size=4).outcomes
    each = found.decoding
    np.testing.assert_allclose(found.tpot_s, each.round_s / each.tokens_per_round)


def test_the_ideal_engine_has_no_end_unless_asked_for() -> None:
    ideal = {"engine": "ideal", "batch_size": [1, 4096]}
    assert asked(**ideal).limits == ()
    counted = asked(**ideal, capacity=True)
    assert np.isnan(counted.curves[0].decode_s[0, 1])


def test_a_limited_prediction_prices_its_grid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[object] = []

    def counted(*args: Any, **asked: Any) -> SpeedupCurve:
        priced.append(args[3])
        return decoding_curve(*args, **asked)

    monkeypatch.setattr("specroof.serving.served.decoding_curve", counted)
    found = predict("Qwen/Qwen3-8B", "h100", drafters="eagle3,accept=0.7", batch_size=[1, 8])
    assert found.limits  # a server has an end
    assert [np.asarray(one).tolist() for one in priced] == [[1, 8]]
