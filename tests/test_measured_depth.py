"""No draft length is chosen beyond the depth at which acceptance was measured, by any question."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import specroof
from tables import present

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
BATCHES: dict[str, Any] = {"batch_size": [1, 8]}
COST: dict[str, Any] = {"batch_size": 1, "solve": "cost"}
JOB: dict[str, Any] = {"input_len": 500, "lengths": [100, 900], "n_requests": 16}
LENGTHS = {"draft_len", "tried_draft_len", "mean_draft_len", "load_draft_len"}


def chosen(part: Any) -> Iterator[float]:
    """Yield the draft lengths that a part of an answer chooses, in schedules too."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if key in {"schedule", "ranges"}:
            yield from (drafts for _, _, drafts in value)
        elif key in LENGTHS and not isinstance(value, list):  # which is an axis
            yield from np.ravel(value).tolist()
        elif isinstance(value, dict | list):
            yield from chosen(value)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (specroof.predict, BATCHES),
        (specroof.predict, BATCHES | CLIENTS),
        (specroof.predict, REQUESTS | {"rate": 2.0, "requests": 20}),
        (specroof.advise, REQUESTS | {"concurrency": [1, 8]}),
        (specroof.breakeven, COST),
        (specroof.breakeven, COST | CLIENTS),
        (specroof.frontier, BATCHES),
        (specroof.frontier, BATCHES | CLIENTS),
        (specroof.rollout, JOB),
        (specroof.adaptive, BATCHES | {"n_rounds": 200}),
    ],
)
def test_no_question_chooses_a_longer_draft_than_was_measured(
    question: Callable[..., Any], asked: dict[str, Any]
) -> None:
    of_one = question in {specroof.breakeven, specroof.adaptive}
    drafter = {"drafter" if of_one else "drafters": MEASURED["length"]}
    found = question(MODEL, CHIP, **drafter, **asked)
    answer = found.to_dict()
    played = [one.best_draft_len.max() for one in getattr(found, "played", ())]
    lengths = [*chosen({name: answer[name] for name in ("rows", "choice")}), *played]
    assert 0 < max(lengths) <= DEPTH
    told = [row["worth_measuring"] for row in answer["rows"] if "worth_measuring" in row]
    assert all(drafts > DEPTH for drafts in told)
    assert told or question is not specroof.advise


@pytest.mark.parametrize("spec", MEASURED.values(), ids=MEASURED)
def test_every_measurement_ends_at_its_depth_and_its_band_opens_beyond(spec: str) -> None:
    (curve,) = specroof.predict(MODEL, CHIP, drafters=spec, context_len=2000).curves
    assert (curve.measured_draft_len, curve.best_draft_len.item()) == (DEPTH, DEPTH)
    near = [*curve.near_best(0.5), *present(curve.best_within_band())]
    assert max(end.item() for end in near) == DEPTH
    longest = curve.worth_measuring.item()
    assert longest > DEPTH
    low, high = present(curve.speedup_low), present(curve.speedup_high)
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


def test_of_requests_at_a_rate_the_best_measured_length_has_the_band_of_a_replay() -> None:
    asked: dict[str, Any] = REQUESTS | {"rate": 2.0, "requests": 20}
    (one,) = specroof.predict(MODEL, CHIP, drafters=MEASURED["length"], **asked).outcomes
    low, usual = present(one.speedup_ends)[0], present(one.curve.speedup_low)
    assert np.flatnonzero((low != usual)[0, 0]).tolist() == [DEPTH]
