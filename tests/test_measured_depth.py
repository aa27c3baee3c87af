"""No draft length is chosen beyond the depth at which acceptance was measured, by any question."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import specroof

MODEL, CHIP, DEPTH = "Qwen/Qwen3-8B", "h100", 3
#: Nine drafts in ten survive, so that a law for the drafts after the third makes more of them pay.
MEASURED = {
    "look-ups": "ngram,accept-length=2.6@3",
    "length": "eagle3,accept-length=3.7@3",
    "rates": "eagle3,rates=0.9/0.9/0.9,extrapolate=decay",
    "survival": "eagle3,survival=0.9/0.81/0.73,extrapolate=geometric",
    "histogram": "eagle3,histogram=10/9/8/73,extrapolate=geometric",
}
REQUESTS: dict[str, Any] = {"input_len": 1000, "output_len": 200}
CLIENTS = REQUESTS | {"requests": "20"}


def of_predict(spec: str, **more: Any) -> Iterable[Any]:
    answer = specroof.predict(MODEL, CHIP, drafters=spec, batch_size=[1, 8], **more)
    assert any(note.startswith("worth measuring") for note in answer.notes)
    for curve in answer.curves:
        yield curve.best_draft_len
        yield from (*curve.near_best(0.01), *(curve.best_within_band() or ()))
        assert (curve.worth_measuring > DEPTH).all()
    yield [one.best_draft_len for one in answer.played]


def of_advise(spec: str) -> Iterable[Any]:
    answer = specroof.advise(MODEL, CHIP, drafters=spec, concurrency=[1, 8], **REQUESTS)
    (chip,) = answer.chips
    for row, told in zip(chip.rows, answer.to_dict()["rows"], strict=True):
        assert row.decision == "on"
        assert told["worth_measuring"] > DEPTH
        yield row.draft_len, row.tried_draft_len
    yield [drafts for _, _, drafts in chip.plan.schedule]


def of_breakeven(spec: str, **more: Any) -> Iterable[Any]:
    answer = specroof.breakeven(MODEL, CHIP, drafter=spec, batch_size=1, solve="cost", **more)
    yield from (row.draft_len for row in answer.rows)


def of_frontier(spec: str, **more: Any) -> Iterable[Any]:
    answer = specroof.frontier(MODEL, CHIP, drafters=spec, batch_size=[1, 8], **more)
    (chip,) = answer.chips
    yield from (point.draft_len for series in chip.series for point in series.points)


def of_rollout(spec: str) -> Iterable[Any]:
    answer = specroof.rollout(
        MODEL, CHIP, drafters=spec, input_len=500, lengths=[100, 900], n_requests=16
    )
    for policy in answer.drafters[0].policies:
        yield [drafts for _, _, drafts in policy.ranges]


def of_adaptive(spec: str) -> Iterable[Any]:
    answer = specroof.adaptive(MODEL, CHIP, drafter=spec, batch_size=[1, 8], n_rounds=200)
    yield [answer.draft_len, *answer.load_draft_len]
    yield [row.mean_draft_len for row in answer.rows]


QUESTIONS: dict[str, Callable[[str], Iterable[Any]]] = {
    "predict": of_predict,
    "predict requests": lambda spec: of_predict(spec, **CLIENTS),
    "advise": of_advise,
    "breakeven": of_breakeven,
    "breakeven requests": lambda spec: of_breakeven(spec, **CLIENTS),
    "frontier": of_frontier,
    "frontier requests": lambda spec: of_frontier(spec, **CLIENTS),
    "rollout": of_rollout,
    "adaptive": of_adaptive,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_chooses_a_longer_draft_than_was_measured(question: str) -> None:
    chosen = [np.ravel(part) for part in QUESTIONS[question](MEASURED["length"])]
    assert 0 < np.concatenate(chosen).max() <= DEPTH


@pytest.mark.parametrize("spec", MEASURED.values(), ids=MEASURED)
def test_every_measurement_ends_at_its_depth_and_its_band_opens_beyond(spec: str) -> None:
    (curve,) = specroof.predict(MODEL, CHIP, drafters=spec, context_len=2000).curves
    assert (curve.measured_draft_len, curve.best_draft_len.item()) == (DEPTH, DEPTH)
    longest = curve.worth_measuring.item()
    assert longest > DEPTH
    low, high = curve.speedup_low, curve.speedup_high
    assert low is not None
    assert high is not None
    lengths = slice(DEPTH, longest + 1)
    assert (np.diff((high / low)[0, 0, lengths]) > 0).all()  # with every extrapolated token
    assert np.isfinite(curve.speedup[0, 0, lengths]).all()  # and they stay in sight


def test_without_a_band_a_longer_draft_is_said_alone() -> None:
    asked: dict[str, Any] = {"drafter": MEASURED["length"], "context_len": 2000, "engine": "ideal"}
    curve = specroof.speedup_curve(MODEL, CHIP, **asked)
    (note,) = curve.measuring_notes
    longest = curve.worth_measuring.item()
    assert f"{longest} drafts" in note
    assert f"{curve.speedup[0, 0, longest]:.2f}x at batch 1," in note
