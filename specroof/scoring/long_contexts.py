"""What long contexts cost a round: published figures beside predictions, which know none."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from specroof.catalog import load_drafter
from specroof.cost import ForwardPass, Options
from specroof.evidence import LongContext, load_long_contexts
from specroof.evidence.measurement import chip_of, model_of
from specroof.hardware.profile import Placement
from specroof.latency.model import model_latency
from specroof.latency.setup import Deployment, engine_setup
from specroof.speedup.curve import acceptance_of, decoding_curve

#: Tokens of the context that a long one is compared with, where a source compares two.
_SHORT: Final = 500
#: Kinds of operations that are attention over a cache.
_ATTENTION: Final = {"attention", "unsplit_attention", "latent_attention"}


@dataclass(frozen=True, slots=True)
class LongContextScore:
    """A published figure beside its prediction.

    Parameters
    ----------
    row
        What was measured.
    predicted
        As the server's kernels read the cache.
    once
        As if they read it once for all positions.
    """

    row: LongContext
    predicted: float
    once: float

    @property
    def off(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.row.measured - 1


def long_context_scores(rows: Iterable[LongContext] | None = None) -> tuple[LongContextScore, ...]:
    """Return published figures beside predictions.

    Parameters
    ----------
    rows
        Those of `load_long_contexts` if None.
    """
    return tuple(
        LongContextScore(row, _predicted(row, row.verify_attention), _predicted(row, "once"))
        for row in (load_long_contexts() if rows is None else rows)
    )


def mean_off(scores: Iterable[LongContextScore]) -> float:
    """Return the mean error without its sign, as a share of what was measured."""
    return float(np.mean([abs(score.off) for score in scores]))


def _predicted(row: LongContext, verify_attention: str | None) -> float:
    if row.quantity == "attention_s":
        served = _deployment(row, verify_attention)
        forward = ForwardPass(row.batch_size, row.draft_len + 1, row.context_len)
        ops = model_latency(served.model, served.setup, forward).ops
        return sum(float(op.seconds) / op.op.count for op in ops if op.op.kind in _ATTENTION)
    (_, short_s), (decode_s, round_s) = _steps_and_rounds(row, verify_attention)
    if row.quantity == "unsplit_over_split":
        return round_s / _steps_and_rounds(row, "once")[1][1]
    return round_s / (decode_s if row.quantity == "round_over_step" else short_s)


def _deployment(row: LongContext, verify_attention: str | None) -> Deployment:
    spread = Placement(row.tensor_parallel, decode_context_parallel=row.decode_context_parallel)
    options = Options(weight_dtype=row.weights, verify_attention=verify_attention)
    setup = engine_setup(chip_of(row.hardware), row.engine, spread, options)
    return Deployment(model_of(row.model), setup)


def _steps_and_rounds(row: LongContext, verify_attention: str | None) -> list[tuple[float, float]]:
    """Return the seconds of a plain step and of a round, over a short context and over this one."""
    drafter = load_drafter(row.drafter or "")
    curve = decoding_curve(
        _deployment(row, verify_attention),
        drafter,
        acceptance_of(drafter),
        row.batch_size,
        context_len=[_SHORT, row.context_len],
        max_draft_len=row.draft_len,
    )
    return [*zip(curve.decode_s[:, 0].tolist(), curve.round_s[:, 0, -1].tolist(), strict=True)]
