"""What a benchmark can determine of an engine profile, in the order in which it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from specroof.hardware import EngineProfile

__all__ = ["PARAMETERS", "Parameter"]

#: No kernel reaches more than this share of a peak; boost clocks add a little.
_MOST_SHARE: Final = 1.2


@dataclass(frozen=True, slots=True)
class Parameter:
    """One figure of an engine profile that can be fitted.

    Parameters
    ----------
    name
        Its key in the hardware file.
    typical
        A usual value: the unit in which the solver steps.
    most
        The largest value that it may take.
    needs_drafts
        Whether only points with drafts depend on it.
    least_points
        Points from which it is fitted.
    start
        The value that a profile has; of a mapping, its largest one stands for all.
    apply
        The profile with another value.
    """

    name: str
    typical: float
    most: float
    needs_drafts: bool
    least_points: int
    start: Callable[[EngineProfile], float]
    apply: Callable[[EngineProfile, float], EngineProfile]


def _seconds(name: str, typical: float, *, drafts: bool = False, points: int = 3) -> Parameter:
    def start(engine: EngineProfile) -> float:
        return float(getattr(engine, name) or 0.0)

    def apply(engine: EngineProfile, value: float) -> EngineProfile:
        changed: EngineProfile = replace(engine, **{name: value})  # type: ignore[arg-type]
        return changed

    return Parameter(name, typical, float("inf"), drafts, points, start, apply)


def _scaled_memory(engine: EngineProfile, value: float) -> EngineProfile:
    factor = value / engine.memory_frac
    kinds = {
        kind: min(share * factor, _MOST_SHARE) for kind, share in engine.kind_memory_frac.items()
    }
    return replace(engine, memory_frac=value, kind_memory_frac=kinds)


def _compute_share(engine: EngineProfile) -> float:
    return max(engine.compute_frac.values(), default=1.0)


_DTYPES: Final = ("fp32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4", "int4")


def _scaled_compute(engine: EngineProfile, value: float) -> EngineProfile:
    factor = value / _compute_share(engine)
    dtypes = {
        dtype: min(engine.compute_frac.get(dtype, 1.0) * factor, _MOST_SHARE) for dtype in _DTYPES
    }
    kinds = {
        kind: min(share * factor, _MOST_SHARE) for kind, share in engine.kind_compute_frac.items()
    }
    return replace(engine, compute_frac=dtypes, kind_compute_frac=kinds)


#: Overheads first, which three points determine; shares of the peaks from more. Seconds per layer
#: and per collective are not here: one model at one placement cannot tell them from those per pass.
PARAMETERS: Final = (
    _seconds("pass_overhead_s", 3e-4),
    _seconds("sequence_overhead_s", 3e-5),
    _seconds("round_overhead_s", 8e-4, drafts=True),
    Parameter(
        "memory_frac",
        1.0,
        _MOST_SHARE,
        needs_drafts=False,
        least_points=4,
        start=lambda engine: engine.memory_frac,
        apply=_scaled_memory,
    ),
    Parameter(
        "compute_frac",
        1.0,
        _MOST_SHARE,
        needs_drafts=False,
        least_points=5,
        start=_compute_share,
        apply=_scaled_compute,
    ),
    _seconds("round_sequence_overhead_s", 2e-5, drafts=True, points=5),
    _seconds("draft_pass_overhead_s", 2e-4, drafts=True, points=6),
    _seconds("request_overhead_s", 1e-2, points=5),
)
