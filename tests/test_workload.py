"""Requests: prefills counted, shares that add up, and the way back to decoding alone."""

from dataclasses import dataclass, replace
from itertools import combinations, product
from math import ceil, comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import (
    constant_acceptance,
    forward_latency,
    load_drafter,
    load_hardware,
    load_model,
    predict,
    speedup_curve,
)
from specroof.acceptance.published import load_profiles
from specroof.architecture.base import Routing
from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.cost.forward import joined_routing
from specroof.drafters import ideal_drafter
from specroof.drafters.kinds import autoregressive_drafter
from specroof.hardware.engine import EngineProfile, ServerSettings
from specroof.hardware.profile import Placement
from specroof.latency.model import Work, model_latency
from specroof.latency.setup import Deployment, engine_setup
from specroof.questions.predict import Prediction
from specroof.serving.capacity import (
    PrefillRules,
    in_server,
    prefill_rules,
    running_curve,
    running_requests,
)
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.pass_prices import Grid, PassPrices
from specroof.serving.played import play
from specroof.serving.prefills import (
    RequestLoad,
    RequestTimes,
    answer_rounds,
    end_to_end,
    end_to_end_tokens_per_s,
    piece_pass,
    prompt_groups,
    prompts_together,
    request_s,
    request_timing,
    shared_passes,
)
from specroof.serving.workload import Load, Workload, closed_loop, prefill_pass, trace
from specroof.speedup.curve import acceptance_of, decoding_curve, prompt_read_s
from specroof.speedup.result import SpeedupCurve
from tables import present, rows

MODEL, CHIP = load_model("Qwen/Qwen3-8B"), load_hardware("b200")
IDEAL = ideal_drafter()


def test_a_request_waits_for_one_pass_over_its_prompt() -> None:
    setup = engine_setup(CHIP, "ideal", None, None)
    prefill = ForwardPass(1, 2048, 0, head_len=1, settled=True)
    expected = float(forward_latency(MODEL, CHIP, prefill, engine="ideal").total_s)
    assert request_s(Deployment(MODEL, setup), prefill_pass(2048), 0) == expected
    # 2 flops x 6.9e9 weights in matmuls x 2048 tokens over 2.25 PFLOP/s, attention on top.
    assert expected == pytest.approx(2 * 6.95e9 * 2048 / 2.25e15, rel=0.1)
    # Of a prompt in the cache the rest is computed, which attends to all of it.
    rest = ForwardPass(1, 512, 1536, head_len=1, settled=True)
    expected = float(forward_latency(MODEL, CHIP, rest, engine="ideal").total_s)
    alone_s = request_s(Deployment(MODEL, setup), prefill_pass(512, context_len=1536), 0)
    assert alone_s == pytest.approx(expected, rel=1e-12)
    # Of four prompts two share a pass of twice their length, and the others follow.
    pair = ForwardPass(2, 512, 0, head_len=1, settled=True)
    two_s = float(forward_latency(MODEL, CHIP, pair, engine="ideal").total_s)
    four_s = request_s(Deployment(MODEL, setup), prefill_pass(512, batch_size=4), 1024)
    assert four_s == pytest.approx(2 * two_s, rel=1e-12)


def test_a_cached_prompt_leaves_its_last_token() -> None:
    assert (Workload(1000, 9, 1).new_len, Workload(1000, 9, 1).cached_len) == (1, 999)
    assert (Workload(1000, 9, 0.5).new_len, Workload(1000, 9, 0.5).cached_len) == (500, 500)
    assert Workload(1, 9, 0.5).cached_len == 0


def test_prefills_take_from_the_speedup_and_bound_the_free_lunch() -> None:
    workload = Workload(4096, 512)
    curve = speedup_curve(
        MODEL, CHIP, drafter=autoregressive_drafter(0.05), acceptance=constant_acceptance(0.5),
        batch_size=[1, 16], context_len=workload.mean_context_len, max_draft_len=2, engine="ideal",
    )  # fmt: skip
    found = end_to_end(
        curve, Deployment(MODEL, engine_setup(CHIP, "ideal", None, None)), workload, IDEAL
    )
    assert found.speedup[..., 0] == pytest.approx(1)
    assert np.all(found.speedup[..., 1:] < curve.speedup[..., 1:])
    assert found.tokens_per_s.shape == curve.round_s.shape
    # By hand at batch 1 without drafts: one prefill, which gives the first token, and 511 steps.
    seconds = 511 * float(curve.decode_s[0, 0]) + found.wait_s
    assert float(found.tokens_per_s[0, 0, 0]) == pytest.approx(512 / seconds)
    assert float(found.effective_batch[0, 0, 0]) == pytest.approx(1 - found.wait_s / seconds)
    # Sixteen answers of 512 tokens, 1.75 a round, each round as long as a plain step.
    np.testing.assert_array_equal(curve.free_lunch, curve.tokens_per_round)
    step_s, prefills_s = float(curve.decode_s[0, 1]), 16 * float(found.delay_s[0, 1, 0])
    lunch = (511 * step_s + prefills_s) / (511 / 1.75 * step_s + prefills_s)
    assert float(found.curve.free_lunch[0, 1, 2]) == pytest.approx(lunch)
    assert np.all(found.speedup <= found.curve.free_lunch)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_prompt_is_read_by_the_drafter_too(engine: str) -> None:
    served = Deployment(MODEL, engine_setup(load_hardware("h100"), engine, None, None))
    drafter, workload = load_drafter("eagle3,accept=0.6"), Workload(3000, 100)
    curve = decoding_curve(
        served, drafter, acceptance_of(drafter), [4], context_len=[3050], max_draft_len=1
    )
    without, found = (end_to_end(curve, served, workload, one) for one in (IDEAL, drafter))
    # Two chunks of 1500, or one prompt; while one is answered, each of four is read once. Beside
    # rounds, whose drafts begin with the same weights, these cost nothing.
    rules = prefill_rules(served, "eagle3")
    pieces = ceil(3000 / rules.chunk)
    piece = prefill_pass(3000 / pieces, context_len=1500 - 1500 / pieces)
    read_s = pieces * float(prompt_read_s(served, drafter, piece))
    assert read_s > 0
    longer_s = 4 * 100 / found.tokens_per_s[0, 0] - 4 * 100 / without.tokens_per_s[0, 0]
    least_s = pieces * float(prompt_read_s(served, drafter, prefill_pass(1)))
    others_s = read_s - least_s * (engine == "vllm")
    assert longer_s == pytest.approx([0, 3 * others_s + read_s])
    assert (found.ttft_s - without.ttft_s)[0, 0] == pytest.approx([0, read_s])


def test_shares_with_drafts_by_hand() -> None:
    # 2.8 s and 200 tokens of 1 ms: each request loses 3 s.
    slow = EngineProfile(
        name="slow", request_overhead_s=0.25, request_latency_s=2.8, tokenize_s=1e-3
    )
    hardware = replace(CHIP, engines={"slow": slow})
    curve = speedup_curve(
        MODEL, hardware, drafter=autoregressive_drafter(0.05), batch_size=[2, 4],
        acceptance=constant_acceptance(0.5), context_len=[250, 1000], max_draft_len=2,
        engine="slow",
    )  # fmt: skip
    setup = engine_setup(hardware, "slow", None, None)
    stops = in_server(MODEL, setup, ServerSettings(mixed=False))
    found = end_to_end(curve, Deployment(MODEL, stops), Workload(200, 100), IDEAL)
    assert found.wait_s > 0.25

    def prompts_s(count: float) -> float:
        prompts = ForwardPass(count, 200, 0, head_len=1, settled=True)
        alone = forward_latency(MODEL, hardware, prompts, engine="slow")
        return float(alone.total_s) + 0.25 * count

    def answer_s(running: int, rounds: float, round_s: float) -> float:
        ends = 1 / rounds
        together = running * ends / (1 - (1 - ends) ** running)
        return rounds * round_s + running * prompts_s(together) / together + 3.0

    # Four answers of 100 tokens, the first by the prefill, then 1.75 a round of which the last is
    # left half used, at the longer context.
    rounds = (99 + 0.75 / 2) / 1.75
    round_s = float(curve.round_s[1, 1, 2])
    whole_s = answer_s(4, rounds, round_s)
    assert float(found.tokens_per_s[1, 1, 2]) == pytest.approx(400 / whole_s)
    assert float(found.requests_per_s[1, 1, 2]) == pytest.approx(4 / whole_s)
    assert float(found.decoding_round_s[1, 1, 2]) == pytest.approx(1.75 * rounds * round_s / 100)
    delayed = whole_s - 3.0 - rounds * round_s
    assert float(found.prefill_frac[1, 1, 2]) == pytest.approx(delayed / whole_s)
    # A request finds the chance of three others beside it.
    first_s = prompts_s(1 + 3 / rounds) + 3.0
    assert float(found.ttft_s[1, 1, 2]) == pytest.approx(first_s)
    assert float(found.tpot_s[1, 1, 2]) == pytest.approx((whole_s - first_s) / 99)
    assert float(found.effective_batch[1, 1, 2]) == pytest.approx(4 - 4 * first_s / whole_s)
    # Two of them at the shorter context, over the same without drafts.
    plain_s = answer_s(2, 99, float(curve.decode_s[0, 0]))
    drafting_s = answer_s(2, rounds, float(curve.round_s[0, 0, 2]))
    assert float(found.speedup[0, 0, 2]) == pytest.approx(plain_s / drafting_s)


ASKED: dict[str, Any] = {
    "drafters": "eagle3,accept=0.7", "max_draft_len": 5, "input_len": 3000, "output_len": 400,
}  # fmt: skip
SERVERS = {
    "sglang": "", "vllm": "", "sglang mixed": "mixed=on", "sglang chunks": "chunk=512",
    "vllm chunks": "chunk=1024", "vllm stopped": "mixed=off", "vllm whole": "chunk=0",
    "sglang whole": "chunk=0", "sglang few": "running=16,mixed=on", "vllm few": "running=16",
}  # fmt: skip


def whole_of(name: str, **told: Any) -> EndToEnd:
    how = {"engine": name.split(maxsplit=1)[0], "server": SERVERS[name] or None}
    asked = {"concurrency": [1, 8, 64, 300], "steady": True, **ASKED, **how, **told}
    (found,) = predict("Qwen/Qwen3-8B", "h100", **asked).counted
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("answer", [1, 2, 400])
def test_requests_keep_their_identities(name: str, answer: int) -> None:
    found = whole_of(name, output_len=answer)
    clients = np.broadcast_to(found.curve.batch_size[None, :, None], found.speedup.shape)
    # Little 1961: of all that are sent, and of those that run; they wait for the rest of the time.
    np.testing.assert_allclose(found.requests_per_s * found.answer_s, clients, rtol=1e-9)
    running = np.broadcast_to(found.curve.running_batch, clients.shape)
    np.testing.assert_allclose(found.requests_per_s * found.service_s, running, rtol=1e-9)
    waits_s = found.answer_s - found.service_s
    np.testing.assert_allclose(found.ttft_s - found.first_s, waits_s, atol=1e-9)
    np.testing.assert_allclose(found.tokens_per_s, found.requests_per_s * answer, rtol=1e-9)
    if answer > 1:
        total = found.ttft_s + (answer - 1) * found.tpot_s
        np.testing.assert_allclose(total, found.answer_s, rtol=1e-9)
        assert np.all(found.tpot_s > 0)
    else:
        assert np.all(np.isnan(found.tpot_s))
        # Rounding apart, a request that is not decoded ends with its first token.
        np.testing.assert_array_less(found.ttft_s, found.answer_s * (1 + 1e-9))
    assert np.all(found.speedup[..., 0] == 1)
    assert np.all((found.prefill_frac > 0) & (found.prefill_frac < 1))
    assert np.all(found.effective_batch < found.curve.running_batch)


def test_a_drafter_that_cannot_share_passes_stops_the_batch() -> None:
    told = {"drafters": "ngram,accept=0.5", "concurrency": [8]}
    mixed, stopped = (whole_of("sglang", server=how, **told) for how in ("mixed=on", "mixed=off"))
    told["drafters"] = "eagle3,accept=0.5"
    shared = whole_of("sglang", server="mixed=on", **told)
    # Drafting it stops the batch; plain decoding shares its passes, as beside any drafter.
    for key in ("requests_per_s", "wait_s", "ttft_s", "tpot_s"):
        found, drafting, plain = (
            np.broadcast_to(getattr(one, key), mixed.speedup.shape)
            for one in (mixed, stopped, shared)
        )
        np.testing.assert_array_equal(found[..., 1:], drafting[..., 1:])
        np.testing.assert_array_equal(found[..., 0], plain[..., 0])
    assert np.all(mixed.requests_per_s[..., 0] > stopped.requests_per_s[..., 0])
    assert not mixed.rules.shares_passes


def test_lengths_of_a_steady_state_are_at_least_a_token() -> None:
    load = Load([1.0], [1.0], Workload(1, 2), length_range=(0.2, 0.4))
    assert load.steady.workload == Workload(1, 1)
    drawn = closed_loop(Workload(3, 2), 1, 60, length_range=(0.1, 1.0))  # whole numbers
    assert ({*drawn.input_len}, {*drawn.output_len}) == ({1, 2, 3}, {1, 2})
    assert closed_loop(Workload(9, 2), 1, 1, length_range=(0.2, 0.2)).output_len == 1


def test_the_rate_of_a_trace_is_that_of_its_gaps() -> None:
    seen = Load([1], [100], trace=trace([0.0, 1.0, 4.0], [100, 9, 9], [10, 50, 10]))
    assert (seen.arrival_rates, seen.steady.longest) == ([0.5], 110)  # two gaps in 4 s
    assert Load([1], [100], trace=trace([0.0, 0.0], 100, 10)).arrival_rates == ()


# --- requests that a server does not run wait -----------------------------------------------------

SMALL = {"engine": "sglang", "max_draft_len": 4, "drafters": "mtp,accept=0.8"}


def of_27b(**told: Any) -> Prediction:
    return predict("Qwen/Qwen3.5-27B", "h200", **{**SMALL, **told})


def test_what_cannot_run_has_no_figures() -> None:
    assert np.isnan(running_requests([1.0, 9.0], 0.0, "queue")).all()
    assert np.isnan(running_requests([1.0, 9.0], 8.0, "drop")).tolist() == [False, True]


def test_each_side_runs_its_own_batch() -> None:
    found = of_27b(concurrency=[1, 16, 64])
    (curve,), (limit,) = found.curves, found.limits
    assert curve.running is not None
    most = limit.largest[0]
    assert most[0] > most[4] > 16
    assert curve.running[0, 2].tolist() == most.tolist()
    assert curve.running[0, 1].tolist() == [16] * 5
    assert found.notes.count(limit.drafting.notes[0]) == 1
    # The same batches asked for one by one, with memory without end.
    for drafts in (0, 2, 4):
        free = of_27b(batch_size=[most[drafts]], capacity=False).curves[0]
        assert curve.tokens_per_s[0, 2, drafts] == pytest.approx(free.tokens_per_s[0, 0, drafts])
        plain = of_27b(batch_size=[most[0]], capacity=False).curves[0].tokens_per_s[0, 0, 0]
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


def test_those_that_run_share_the_server_as_so_many_clients_would() -> None:
    lengths: dict[str, Any] = {"input_len": 4000, "output_len": 500, "steady": True}
    (whole,) = of_27b(concurrency=[64], **lengths).counted
    runs = float(present(whole.curve.running)[0, 0, 0])
    (alone,) = of_27b(concurrency=[runs], **lengths).counted
    assert whole.tokens_per_s[0, 0, 0] == pytest.approx(alone.tokens_per_s[0, 0, 0])
    assert whole.answer_s[0, 0, 0] == pytest.approx(alone.answer_s[0, 0, 0] * 64 / runs)


def test_a_batch_beyond_capacity_has_no_figures() -> None:
    found = of_27b(batch_size=[1, 30, 64])
    curve = found.curves[0]
    most = found.limits[0].largest[0]
    assert curve.running is not None
    for drafts in range(5):
        fits = [1, most[drafts] >= 30, most[drafts] >= 64]
        assert np.isfinite(curve.speedup[0, :, drafts]).tolist() == [bool(one) for one in fits]
    assert np.isnan(curve.decode_s[0, 2])
    assert curve.best_draft_len[0, 2] == 0
    assert [int(end[0, 2]) for end in curve.near_best()] == [0, 0]
    free = of_27b(batch_size=[1, 30, 64], capacity=False)
    assert free.limits == ()
    assert free.warnings == ()
    assert free.curves[0].running is None
    np.testing.assert_array_equal(curve.round_s[0, :1], free.curves[0].round_s[0, :1])


def test_each_size_that_runs_is_priced_once_whatever_their_order() -> None:
    curve = of_27b(batch_size=[8, 30, 40, 64], capacity=False).curves[0]
    batches = np.array([30.0, 8, 64])
    seen: list[list[float]] = []

    def priced(sizes: Array) -> SpeedupCurve:
        seen.append(sizes.tolist())
        return of_27b(batch_size=sizes, capacity=False).curves[0]

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
    (found,) = of_27b(batch_size=4).outcomes
    each = found.decoding
    np.testing.assert_allclose(found.tpot_s, each.round_s / each.tokens_per_round)


def test_the_ideal_engine_has_no_end_unless_asked_for() -> None:
    ideal = {"engine": "ideal", "batch_size": [1, 4096]}
    assert of_27b(**ideal).limits == ()
    counted = of_27b(**ideal, capacity=True)
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


# --- closed forms against a server that is played, and counts by hand -----------------------------

SERVED = Deployment(
    load_model("Qwen/Qwen3-8B"), engine_setup(load_hardware("h100"), "ideal", None, None)
)
NOTHING_ADDED = EngineProfile(name="bare")


@dataclass(frozen=True)
class Toy:
    """A server of some clients, whose answers vary by half of their mean."""

    clients: int
    prompt: int
    answer: int
    tokens_per_round: float = 1.0
    positions: int = 1
    chunk: int = 2048
    shares: bool = True
    drafts_beside: bool = True
    groups: int = 1
    gathering: int = 0

    @property
    def draft_s(self) -> float:
        """Seconds of a round beside its pass."""
        return 0.004 if self.positions > 1 else 0.0

    @property
    def rules(self) -> PrefillRules:
        rules = PrefillRules(self.chunk, self.shares, self.drafts_beside, groups=self.groups)
        return replace(rules, gathering_passes=self.gathering)


def pass_s(tokens: Any) -> Any:
    """Return the seconds of a pass of so many tokens: a matrix to read, then arithmetic."""
    return np.hypot(0.01, 0.00006 * tokens)


def toy_s(
    _served: Deployment,
    forward: ForwardPass,
    /,
    *beside: Work,
    drafts: bool = False,  # noqa: ARG001 - as `PassSeconds`
) -> Array:
    """Return the seconds of a pass on the toy server: its tokens are all that counts."""
    tokens = forward.tokens + sum(one.forward_pass.tokens for one in beside)
    return np.asarray(pass_s(tokens))


def times_of(
    toy: Toy, engine: EngineProfile = NOTHING_ADDED, served: Deployment = SERVED
) -> tuple[RequestLoad, RequestTimes]:
    load = RequestLoad(
        new_len=float(toy.prompt),
        output_len=float(toy.answer),
        running=np.array([float(toy.clients)]),
        context_len=1.0,
        verify_len=float(toy.positions),
        tokens_per_round=np.array([toy.tokens_per_round]),
    )
    round_s = np.array([pass_s(toy.clients * toy.positions) + toy.draft_s])
    return load, request_timing(load, toy.rules)(served, toy_s, round_s, engine)


def predicted(toy: Toy) -> tuple[float, float, float]:
    load, times = times_of(toy)
    rate = end_to_end_tokens_per_s(
        load.running, times.token_s, wait_s=times.wait_s, output_len=toy.answer
    )
    service_s = toy.clients * toy.answer / rate
    first_s = float(times.first_s[0])
    decoding_s = float(service_s[0]) - first_s
    return float(rate[0]) / toy.answer, first_s, decoding_s / (toy.answer - 1)


def played(toy: Toy, requests: int = 9000) -> tuple[float, float, float]:
    """Return what `predicted` does, of a server that is played: the first quarter is warm-up."""
    batches, tokens = np.arange(1.0, toy.clients + 2), np.linspace(0, toy.groups * toy.chunk, 129)
    beside = toy.positions if toy.drafts_beside else 1
    alone_s = pass_s(tokens)

    def grid(x: Array, y: Array, seconds: Array) -> Grid:
        return Grid(x.tolist(), y.tolist(), seconds)

    either, nothing = np.array([0.0, 1e6]), np.zeros((len(batches), 2))  # whatever the context
    # Passes that prompts share with decoding draft for those that are through, too.
    drafts_s = toy.draft_s if toy.shares and toy.drafts_beside else 0.0
    prices = PassPrices(
        round_s=grid(
            batches, either, nothing + pass_s(batches * toy.positions)[:, None] + toy.draft_s
        ),
        prompt_s=grid(tokens, either, alone_s[:, None] + np.full(2, drafts_s)),
        sharing_s=grid(batches, tokens, pass_s(batches[:, None] * beside + tokens) - alone_s),
        context_s=grid(batches, either, nothing),
        positions=beside,
        survival=(1.0, toy.tokens_per_round - 2, 0.0) if toy.positions > 1 else (),
    )
    dice = np.random.default_rng(20261122)
    load = closed_loop(Workload(toy.prompt, toy.answer), toy.clients, requests)
    answers = dice.integers(toy.answer // 2, toy.answer + toy.answer // 2 + 1, requests)
    starts = toy.answer / 20 * np.minimum(np.arange(requests) / toy.clients, 1.0)
    load = replace(load, arrival_s=starts, output_len=answers.astype(float), turnaround_s=None)
    run = play(prices, load, toy.rules, toy.clients, seed=1)
    late = np.argsort(run.end_s)[requests // 4 : -toy.clients or None]
    ends_s = run.end_s[late]
    tpot_s = np.sum((run.end_s - run.first_s)[late]) / np.sum(answers[late] - 1)
    rate = (len(late) - 1) / (ends_s[-1] - ends_s[0])
    return float(rate), float(run.ttft_s[late].mean()), float(tpot_s)


TOYS = {name: Toy(**sizes) for name, sizes in rows("values", "toy_servers").items()}
#: Just below full passes the queue of prompts is as long as the spread of answers makes it, which
#: the closed form takes for that of arrivals without memory.
SPREAD = "shared, nearly full of prompts"


@pytest.mark.long
@pytest.mark.parametrize("name", TOYS)
def test_rates_and_times_are_those_of_a_server_that_is_played(name: str) -> None:
    # 6750 answers whose lengths spread by 29 %: 0.4 % of noise, and 3 % for mean passes in the
    # place of those that differ.
    measured, (rate, ttft_s, tpot_s) = played(TOYS[name]), predicted(TOYS[name])
    assert rate == pytest.approx(measured[0], rel=0.04)
    assert tpot_s == pytest.approx(measured[2], rel=0.06 if name == SPREAD else 0.04)
    assert ttft_s == pytest.approx(measured[1], rel=0.3 if name == SPREAD else 0.08)


@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize("drafts_beside", [True, False])
def test_two_clients_share_passes_by_hand(stages: int, drafts_beside: bool) -> None:
    slow = EngineProfile(name="slow", request_overhead_s=0.001)
    placed = engine_setup(
        load_hardware("h100"), "ideal", Placement(1, pipeline_parallel=stages), None
    )
    served, rounds, round_s = Deployment(MODEL, placed), (99 + 1.5 / 2) / 2.5, pass_s(2 * 4) + 0.004
    # In a pass of any length: a request starts with a chance of x / 2. Where nobody drafts beside
    # prompts, such a pass gives each a token, 1 / 2.5 of a round.
    (positions, drafts_s), x, mixed = (4, 0.004) if drafts_beside else (1, 0.0), 0.1, 0.0
    for _ in range(99):
        mixed = 1 - (1 - x / 2) ** 2
        passes = 1 + rounds / (1 if drafts_beside else 1 - mixed + mixed / 2.5)
        x = 2 / passes
    others = (x * (passes - 1) - 2 * (1 - mixed)) / mixed
    mean_s, own_s = (pass_s(positions * others + 500 * n) for n in (x / mixed, 1 + x / 2))
    # In a pipeline the next pass has entered when a prompt is behind the first stage.
    leaves_s = float(
        model_latency(MODEL, placed, prefill_pass(500, batch_size=1 + x / 2)).filling_s
    )
    assert (leaves_s > 0) == (stages > 1)
    _, times = times_of(Toy(2, 500, 100, 2.5, 4, 10**9, True, drafts_beside), slow, served)
    whole_s = passes * (mixed * (mean_s + drafts_s) + (1 - mixed) * round_s) + leaves_s
    assert times.token_s * 100 == pytest.approx(whole_s, rel=1e-5)
    assert times.first_s == pytest.approx(own_s + drafts_s + leaves_s + 0.001, rel=1e-5)
    assert times.wait_s == 0.001  # whoever starts is taken alone
    # One client's prompt of 1000 in passes of 800 is two of 500, beside nothing.
    _, times = times_of(Toy(1, 1000, 100, 2.5, 4, 800, True, drafts_beside), slow, served)
    own_s = pass_s(500 + 0.01 * positions)
    piece = prefill_pass(500, context_len=250)
    first_s = 2 * (own_s + drafts_s) + float(model_latency(MODEL, placed, piece).filling_s)
    assert times.first_s == pytest.approx(first_s + 0.001)
    if drafts_beside:  # else its own prompts slow it
        assert times.token_s * 100 == pytest.approx(first_s + rounds * (pass_s(4) + 0.004))


@given(st.integers(1, 9), st.integers(2, 400))
def test_rounds_of_an_answer_are_the_mean_over_lengths(tokens: int, first: int) -> None:
    # The first token is the prefill's; any N lengths in a row end at each place of a round once.
    lengths = range(first, first + tokens)
    rounds = [ceil((length - 1) / tokens) for length in lengths]
    found = answer_rounds(np.array(lengths), tokens)
    assert np.all(found >= 1)
    if first > tokens:
        assert found.mean() == pytest.approx(np.mean(rounds))
    assert answer_rounds(1, [1.0, 3.0]).tolist() == [0, 0]  # not decoded
    assert answer_rounds(2, 4.0) == 1


def test_rounds_of_unequal_length_end_answers_later_as_the_docstring_says() -> None:
    # Every way to end an answer of 256 later tokens, for all published acceptance.
    later, expected = list[float](), list[float]()
    for profile in load_profiles():
        survival = [*profile.acceptance().survival(np.arange(profile.draft_len + 1)), 0.0]
        shares = -np.diff(survival)  # of rounds with 1, 2, … tokens
        rounds = [0.0]
        for _ in range(256):
            behind = rounds[: -len(shares) - 1 : -1]  # a round that ends the answer leaves none
            rounds.append(1.0 + float(shares[: len(behind)] @ behind))
        tokens = np.arange(1, len(shares) + 1)
        mean = shares @ tokens
        later.append(rounds[256] - float(answer_rounds(257, mean)))
        expected.append(float(shares @ tokens**2 / mean**2 - 1) / 2)
    assert np.mean(np.abs(np.subtract(later, expected))) < 0.01  # rounds in step with 256 differ
    assert (np.mean(later), max(later)) == pytest.approx((0.22, 0.95), abs=0.01)


@given(st.integers(1, 12), st.integers(1, 30))
def test_prompts_that_start_together_are_counted(running: int, rounds: int) -> None:
    p = 1 / rounds
    chances = [comb(running, k) * p**k * (1 - p) ** (running - k) for k in range(running + 1)]
    mean = sum(k * one for k, one in enumerate(chances))
    together, found = prompts_together(running, rounds)
    assert together == pytest.approx(mean / (1 - chances[0]))
    # Whoever starts is one of k with k times the chance.
    assert found == pytest.approx(sum(k * k * one for k, one in enumerate(chances)) / mean)


@given(
    st.integers(1, 300), st.floats(1, 400), st.floats(1, 20_000), st.floats(64, 16_384),
    st.integers(1, 9), st.floats(1, 6),
)  # fmt: skip
def test_a_steady_state_keeps_its_counts(
    running: int, rounds: float, new_len: float, budget: float, positions: int, slowed: float
) -> None:
    found = shared_passes(
        running, rounds, new_len=new_len, budget=budget, positions=positions, slowed=slowed
    )
    # Little: what starts in a pass, times the passes of each, is what runs.
    x, waited = float(found.started), float(found.waited)
    assert x * found.passes == pytest.approx(running, rel=1e-9)
    # What R - 1 others leave of a pass, and the share u of it that their prompts take.
    others, decoding = (running - 1) / running, positions * x * rounds
    left, s = max(budget - decoding, 1.0), new_len / max(budget - others * decoding, 1.0)
    pieces, u = ceil(s - 1e-9), others * x * s
    assert found.pieces == pieces
    assert x * new_len < left
    queued = s / 2 * u / (1 - u)
    assert waited >= pieces + queued - 1e-6
    if max(x * new_len / left, s / pieces) < 1 - 1e-6:  # else less x are too few, more too many
        # x is known to 1e-9, which a share near 1 makes much of.
        assert waited == pytest.approx(pieces + queued, rel=1e-6 + 1e-9 / (1 - u))
    # Of R that start with a chance of x / R any does; of pieces the last are filled up if any wait.
    mixed = (
        max(1 - (1 - x / running) ** running, x * s) if s < 1 else x * (u * s + (1 - u) * pieces)
    )
    mixed = min(mixed, 1.0)
    assert found.mixed_frac == pytest.approx(mixed, rel=1e-6)
    # A pass with prompts gives 1 / slowed of a round, and takes as many pieces as there are or fit.
    assert found.decoded * (1 - mixed + mixed / slowed) == pytest.approx(rounds)
    fit = max(left * pieces / new_len, 1.0)
    assert found.prompts == pytest.approx(min(x * pieces / mixed, fit))
    beside = others * x if s < 1 else u * (fit - 1)
    own = pieces * min(1 + beside, fit) + queued * fit
    assert found.own_prompts == pytest.approx(own / (pieces + queued))


def test_a_prompt_that_fills_a_pass_is_in_one() -> None:
    # The request decodes only after it.
    assert shared_passes(1, 100.0, new_len=4900, budget=4900, positions=4).pieces == 1


@pytest.mark.parametrize(("total", "shared"), [(5, 0), (5, 2)])
def test_experts_of_two_batches_are_counted_over_all_choices(total: int, shared: int) -> None:
    for one, other in product(range(total + 1), repeat=2):
        pairs = product(combinations(range(total), one), combinations(range(total), other))
        visited = [len({*first, *second}) for first, second in pairs]
        batches = [
            Routing(total, 1, shared, np.array(1.0), np.array(hit + shared)) for hit in (one, other)
        ]
        assert joined_routing(*batches).hit == pytest.approx(np.mean(visited) + shared)


@pytest.mark.parametrize(
    ("running", "new_len", "chunk", "all_s", "first_s"), rows("values", "prompt_groups")
)
def test_groups_of_prompts_pass_one_after_another(
    running: float, new_len: float, chunk: float, all_s: float, first_s: float
) -> None:
    # Answers of one round start together, and a pass takes a second.
    load = RequestLoad(
        new_len=new_len, output_len=2.0, running=np.array(running), context_len=1.0,
        verify_len=1.0, tokens_per_round=np.ones(()),
    )  # fmt: skip
    timing = request_timing(load, PrefillRules(chunk, shares_passes=False, drafts_beside=False))
    times = timing(SERVED, lambda *_, **__: np.ones(()), np.ones(()), NOTHING_ADDED)
    assert float(times.wait_s * running) == pytest.approx(all_s)
    assert float(times.first_s) == pytest.approx(first_s)


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("groups", [2, 8])
def test_a_group_has_its_share_of_the_requests_and_prompts_side_by_side(
    groups: int, shares: bool
) -> None:
    # Where each pass takes a second, however many groups have prompts in it, requests of each are
    # answered as if it were alone; where prompts stop all, a group waits for those of the others.
    def times(running: float, groups: int) -> RequestTimes:
        load = RequestLoad(
            new_len=3000, output_len=101.0, running=np.array(running), context_len=3050.0,
            verify_len=1.0, tokens_per_round=np.ones(()),
        )  # fmt: skip
        rules = PrefillRules(1024, shares_passes=shares, drafts_beside=True, groups=groups)
        timing = request_timing(load, rules)
        return timing(SERVED, lambda *_, **__: np.ones(()), np.ones(()), NOTHING_ADDED)

    one, many = times(4.0, 1), times(4.0 * groups, groups)
    if shares:
        assert float(many.token_s) == pytest.approx(float(one.token_s))
        assert float(many.first_s) == pytest.approx(float(one.first_s))
    else:
        # Three passes of a prompt, shared by all that start together.
        mean, _ = prompts_together(4.0 * groups, 100.0)
        assert float(many.wait_s) == pytest.approx(3 / min(float(mean), groups))


def test_equal_pieces_take_what_whole_chunks_and_a_rest_do() -> None:
    model, setup = SERVED.model, engine_setup(load_hardware("h100"), "sglang", None, None)
    chunks, done, exact_s = [2048] * 9 + [1568], 0, 0.0
    for tokens in chunks:
        chunk = prefill_pass(tokens, context_len=done)
        exact_s += float(model_latency(model, setup, chunk).total_s)
        done += tokens
    _, pieces = prompt_groups(20_000.0, 1.0, 2048)
    assert pieces == 10
    mean = piece_pass(20_000.0, 0.0, pieces, 1.0)
    assert piece_pass(1.5, 0.0, 2.0, 1.0).query_len == 1  # no piece is less than a token
    assert 10 * float(model_latency(model, setup, mean).total_s) == pytest.approx(exact_s, rel=5e-3)
