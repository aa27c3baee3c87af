"""Published loads of prefill and decode workers beside predictions, which no fit has seen.

TPOT without drafts, and with drafts in shape: drafted loads of a group share one acceptance length
that is not known.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final

import numpy as np

from specroof.arrays import Array, grouped
from specroof.catalog import load_drafter
from specroof.evidence import Measurement, acceptance_of, drafter_of, load_splits
from specroof.evidence.measurement import chip_of
from specroof.hardware.engine import ServerSettings
from specroof.hardware.profile import Placement
from specroof.latency.setup import Deployment, engine_setup
from specroof.scoring.left_out import served_of
from specroof.scoring.served import best_off, mean_request
from specroof.serving.capacity import in_server
from specroof.serving.served import served_curve
from specroof.serving.split import Split
from specroof.serving.workload import Load

#: Bytes/s from a device to another node where a hardware file has none: one card of 400 Gb/s.
_PRESUMED_LINK: Final = 50e9
#: What drafted loads share whose acceptance length is the same number.
ACCEPTANCE: Final = attrgetter(
    "source", "model", "hardware", "engine", "method", "draft_len", "input_len"
)


@dataclass(frozen=True, slots=True)
class SplitScore:
    """A published load of prefill and decode workers beside its prediction.

    Parameters
    ----------
    point
        The load.
    tpot_s, ttft_s
        Predicted seconds; with drafts at the acceptance length of the group.
    """

    point: Measurement
    tpot_s: float
    ttft_s: float

    @property
    def off(self) -> float:
        """Predicted TPOT over the measured one, as a natural logarithm."""
        return math.log(self.tpot_s / (self.point.tpot_s or math.nan))


def split_score(point: Measurement, tokens_per_round: float | None = None) -> SplitScore:
    """Return a load beside its prediction by the profile that ships.

    Parameters
    ----------
    point
        One of `load_splits`.
    tokens_per_round
        The acceptance length of a drafted load.
    """
    chip = chip_of(point.hardware or "")
    engine = chip.engine(point.engine)
    served = served_of(point, engine)
    settings = ServerSettings(running=int(point.concurrency or 1))
    setup = in_server(served.model, served.setup, settings)
    prefill = Placement(
        point.prefill_tensor_parallel or 1,
        point.prefill_expert_parallel or 1,
        point.prefill_attention_data_parallel or 1,
    )
    link = chip.interconnect
    split = Split(
        engine_setup(setup.hardware, engine.name, prefill, setup.options),
        point.prefill_workers or 1,
        point.decode_workers or 1,
        None if link is not None and link.scale_out_bytes_per_s else _PRESUMED_LINK,
    )
    drafter, acceptance = load_drafter("ideal"), None
    if point.drafts:
        drafter = drafter_of(point)
        acceptance = acceptance_of(replace(point, tokens_per_round=tokens_per_round), drafter)
    workload = mean_request(point)
    answers: Any = served_curve(
        Deployment(served.model, setup),
        drafter,
        Load([float(point.concurrency or 1)], [workload.mean_context_len], workload),
        "queue",
        max_draft_len=point.draft_len or 0,
        acceptance=acceptance,
        split=split,
    ).end_to_end
    return SplitScore(point, float(answers.tpot_s[0, 0, -1]), float(answers.ttft_s[0, 0, -1]))


def split_scores(points: Iterable[Measurement] | None = None) -> tuple[SplitScore, ...]:
    """Return published loads of prefill and decode workers beside predictions.

    Drafted loads are predicted at the one acceptance length of their group (model, chip, engine,
    draft length, lengths of requests) that makes their mean error least.

    Parameters
    ----------
    points
        Those of `load_splits` if None.
    """
    loads = load_splits() if points is None else [*points]
    scores = [split_score(load) for load in loads if not load.drafts]
    for group in grouped((load for load in loads if load.drafts), ACCEPTANCE).values():
        scores += _drafted_scores(group)
    return tuple(scores)


def _drafted_scores(group: Sequence[Measurement]) -> list[SplitScore]:
    """Return drafted loads at the acceptance length that makes their mean error least."""
    tried: list[list[SplitScore]] = []

    def off(tokens_per_round: float) -> Array:
        tried.append([split_score(point, tokens_per_round) for point in group])
        return np.array([score.off for score in tried[-1]])

    best_off(off, None, group[0].draft_len or 0)
    return min(tried, key=lambda scores: abs(sum(score.off for score in scores)))
