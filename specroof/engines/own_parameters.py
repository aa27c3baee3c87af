"""What a benchmark can determine of an engine profile, in the order in which it is asked for."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from specroof.engines.parameters import Parameter
from specroof.hardware import EngineProfile

#: No kernel reaches more than this share of a peak; boost clocks add a little.
_MOST_SHARE: Final = 1.2
_LEAST_SHARE: Final = 0.05
#: Seconds may be so many times what the profile has, or so many times less.
_MOST_SECONDS: Final = 1e4
#: Seconds that a profile does not have lie within so many usual values of zero.
_USUAL_SECONDS: Final = 3.0
#: Shares that a profile does not have, as the ideal one, differ by so many times more.
_UNKNOWN_SHARE: Final = 4 / 3


@dataclass(frozen=True, slots=True)
class ProfileParameter(Parameter):
    """A figure of an engine profile that a benchmark of one's own may determine.

    Parameters
    ----------
    start
        The value that a profile has; of a mapping, its largest one stands for all.
    apply
        The profile with another value.
    needs_drafts
        Whether only points with drafts depend on it.
    least_points
        Points from which it is fitted.
    """

    start: Callable[[EngineProfile], float] = field(kw_only=True)
    apply: Callable[[EngineProfile, float], EngineProfile] = field(kw_only=True)
    needs_drafts: bool = False
    least_points: int = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Coordinate:
    r"""A parameter in the unit in which it may be taken to differ from the profile.

    .. math:: v(x) = c \, e^{s x} \quad \text{or, where the profile has none,} \quad v(x) = s \, x

    so that the prior of every x is a normal distribution around 0 with a standard deviation of 1.

    Parameters
    ----------
    parameter
        Which.
    centre
        c, the value of the profile; 0 where it has none.
    spread
        s, of the logarithm, or in the unit of the parameter where the centre is 0.
    is_known
        Whether a fit made the centre, and not a guess.
    """

    parameter: ProfileParameter
    centre: float
    spread: float
    is_known: bool

    def value(self, x: float) -> float:
        """Return the parameter's value at a coordinate."""
        return self.centre * math.exp(self.spread * x) if self.centre else self.spread * x

    def slope(self, x: float) -> float:
        """Return by how much the value changes for one unit of the coordinate."""
        return self.spread * (self.value(x) if self.centre else 1.0)

    def at(self, value: float) -> float:
        """Return the coordinate of a value, the inverse of `value`."""
        return math.log(value / self.centre) / self.spread if self.centre else value / self.spread

    @property
    def first(self) -> float:
        """Where a search starts: at the profile, or at a usual value."""
        return 0.0 if self.centre else self.parameter.typical / self.spread

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest coordinate."""
        if not self.centre:
            return 0.0, math.inf
        least, most = 1 / _MOST_SECONDS, _MOST_SECONDS
        if self.parameter.is_share:
            least, most = _LEAST_SHARE / self.centre, _MOST_SHARE / self.centre
        return math.log(least) / self.spread, math.log(most) / self.spread


def coordinate(parameter: ProfileParameter, engine: EngineProfile) -> Coordinate:
    """Return the coordinate of a parameter around what a profile has.

    Parameters
    ----------
    parameter
        One of `PARAMETERS`.
    engine
        The profile to start from. A share of 1 is the ideal one, which was never measured: a usual
        one stands in.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> layer = coordinate(PARAMETERS[0], load_hardware("b200").engine("sglang"))
    >>> layer.centre == load_hardware("b200").engine("sglang").layer_overhead_s
    True
    >>> round(layer.value(1) / layer.value(0), 2)  # e ** 0.2
    1.22
    """
    value = parameter.start(engine)
    if parameter.is_share:
        is_known = value != 1
        wider = 1.0 if is_known else _UNKNOWN_SHARE
        centre = value if is_known else parameter.typical
        return Coordinate(parameter, centre, wider * parameter.spread, is_known)
    if value:
        return Coordinate(parameter, value, parameter.spread, is_known=True)
    return Coordinate(parameter, 0.0, _USUAL_SECONDS * parameter.typical, is_known=False)


def _seconds(
    name: str, typical: float, spread: float = 0.5, *, drafts: bool = False, points: int = 3
) -> ProfileParameter:
    def start(engine: EngineProfile) -> float:
        return float(getattr(engine, name) or 0.0)

    def apply(engine: EngineProfile, value: float) -> EngineProfile:
        changed: EngineProfile = replace(engine, **{name: value})  # type: ignore[arg-type]
        return changed

    return ProfileParameter(
        name,
        typical,
        spread,
        needs_drafts=drafts,
        least_points=points,
        start=start,
        apply=apply,
    )


def _scaled(shares: Mapping[str, float], factor: float) -> dict[str, float]:
    return {key: min(share * factor, _MOST_SHARE) for key, share in shares.items()}


def _scaled_memory(engine: EngineProfile, value: float) -> EngineProfile:
    factor = value / engine.memory_frac
    kinds = _scaled(engine.kind_memory_frac, factor)
    return replace(engine, memory_frac=value, kind_memory_frac=kinds)


def _compute_share(engine: EngineProfile) -> float:
    # Most profiles list bf16 alone; dtypes that one does not list are at all of their peak.
    return engine.compute_frac.get("bf16", max(engine.compute_frac.values(), default=1.0))


_DTYPES: Final = ("fp32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4", "int4")


def _scaled_compute(engine: EngineProfile, value: float) -> EngineProfile:
    factor = value / _compute_share(engine)
    return replace(
        engine,
        compute_frac=_scaled(
            {dtype: engine.compute_frac.get(dtype, 1.0) for dtype in _DTYPES}, factor
        ),
        kind_compute_frac=_scaled(engine.kind_compute_frac, factor),
        prefill_compute_frac=_scaled(engine.prefill_compute_frac, factor),
        expert_tile=engine.expert_tile and engine.expert_tile.scaled(factor, most=_MOST_SHARE),
    )


#: Overheads first, which three points determine; shares of the peaks from more. Seconds per layer
#: are fitted where the profile has them, and those per pass where it has none: one model at one
#: placement cannot tell them apart, nor those per collective. Spreads of shares are three times
#: those between published servers (`specroof.engines.shared_parameters`): your machine may run
#: other kernels, and some computed at a fifth of their peak. Those of overheads are what plain
#: throughput is off on sources that a fit has not seen, about 10%, over their part of a pass.
PARAMETERS: Final = (
    _seconds("layer_overhead_s", 3e-5, 0.2),
    _seconds("pass_overhead_s", 3e-4),
    _seconds("sequence_overhead_s", 3e-5),
    _seconds("round_overhead_s", 8e-4, 0.4, drafts=True),
    ProfileParameter(
        "memory_frac",
        typical=0.85,
        spread=0.15,
        is_share=True,
        least_points=4,
        start=lambda engine: engine.memory_frac,
        apply=_scaled_memory,
    ),
    ProfileParameter(
        "compute_frac",
        typical=0.7,
        spread=0.45,
        is_share=True,
        least_points=5,
        start=_compute_share,
        apply=_scaled_compute,
    ),
    _seconds("round_sequence_overhead_s", 2e-5, drafts=True, points=5),
    _seconds("draft_pass_overhead_s", 2e-4, drafts=True, points=6),
    _seconds("request_overhead_s", 1e-2, points=5),
)
