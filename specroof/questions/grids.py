"""Seconds of one model on one chip over a grid, without acceptance, which a page adds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from specroof.acceptance import Acceptance, constant_acceptance, survival_acceptance
from specroof.architecture import Architecture
from specroof.arrays import Array
from specroof.catalog import load_drafter
from specroof.drafters import Drafter
from specroof.errors import SpecroofError
from specroof.hardware import IDEAL_ENGINE, Band
from specroof.latency import Deployment, Setup
from specroof.serving.capacity import server_room
from specroof.serving.served import served_curve
from specroof.serving.workload import Load
from specroof.speedup.result import SpeedupCurve
from specroof.speedup.round import engine_round_s

#: Drafters that the library prices, as a SPEC calls them.
PRICED_KINDS: Final = ("mtp", "eagle3", "dflash", "ngram")

#: Drafters that take nothing, or a share of the target's step.
_SHARE_KINDS: Final = ("ideal", "autoregressive", "block")

#: Tokens per round at which drafting is tabulated, since its first pass reads the tokens of the
#: round before: in steps of a quarter up to 5, then of 1.
_STEP: Final = 0.25
_N_FEW: Final = 16
KNOTS: Final = (*np.arange(1.0, 5.0, _STEP).tolist(), *np.arange(5.0, 18.0).tolist())

#: Shares of a round by which what a page makes of the grid may differ from the library.
_EXACT: Final = 3e-7

#: A share of drafts accepted at which grids are compared with the library.
_PROBE: Final = 0.7


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """The points of a grid.

    Parameters
    ----------
    context_len, batch_size
        Cached tokens of each sequence, and sequences in flight.
    max_draft_len
        The longest draft.
    """

    context_len: tuple[float, ...]
    batch_size: tuple[float, ...]
    max_draft_len: int


@dataclass(frozen=True, slots=True, eq=False)
class Drafting:
    """One drafter on a grid.

    Parameters
    ----------
    draft_s
        Seconds of drafting at one token per round, axes (context_len, batch_size,
        draft_len).
    more_s
        Seconds more at each of `KNOTS`, axes (context_len, batch_size, knot); NaN past the depth.
    largest
        The largest batch that the server runs, axes (context_len, draft_len).
    depth
        The longest draft.
    engine_round_s
        Seconds that the engine adds to each round, and to each sequence in it.
    """

    draft_s: Array
    more_s: Array
    largest: Array
    depth: int
    engine_round_s: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One model in one setup over a grid.

    Parameters
    ----------
    setup
        Where passes run.
    verify_s
        Seconds of verifying, axes (context_len, batch_size, draft_len); [..., 0] a plain step.
    largest
        The largest batch that the server runs with a drafter that needs no memory, axes
        (context_len, draft_len).
    drafting
        Drafters that the library prices, by kind.
    """

    setup: Setup
    verify_s: Array
    largest: Array
    drafting: Mapping[str, Drafting]

    @property
    def engine_round_s(self) -> tuple[float, float]:
        """Seconds that the engine adds to each round, and to each sequence in it."""
        return _engine_round_s(self.setup)

    @property
    def bands(self) -> dict[str, Band]:
        """The engine's band by kind of drafter; none where it has no band."""
        bands = ((kind, self.setup.engine.band(kind)) for kind in _SHARE_KINDS + PRICED_KINDS)
        return {kind: band for kind, band in bands if band is not None}


def cell_of(model: Architecture, setup: Setup, axes: Axes) -> Cell:
    """Return the seconds of a model in a setup.

    Parameters
    ----------
    model, setup
        What is served, and where.
    axes
        The grid.

    Raises
    ------
    SpecroofError
        For a placement that does not divide the model, and a format that the chip lacks.
    """
    deployment, ideal = Deployment(model, setup), load_drafter("ideal")
    curve = _curve(deployment, ideal, axes, constant_acceptance(1.0))
    # The textbook's seconds have corners, which no table of knots holds; a look-up has no passes.
    kinds = ("ngram",) if setup.engine == IDEAL_ENGINE else PRICED_KINDS
    found = {kind: _drafting(deployment, load_drafter(kind), axes) for kind in kinds}
    return Cell(
        setup=setup,
        verify_s=curve.verify_s,
        largest=_largest(deployment, ideal, curve),
        drafting={kind: drafting for kind, drafting in found.items() if drafting is not None},
    )


def _curve(
    deployment: Deployment, drafter: Drafter, axes: Axes, acceptance: Acceptance
) -> SpeedupCurve:
    """Return the curve of a drafter over the grid, as if memory had no end."""
    load = Load(axes.batch_size, axes.context_len)
    served = served_curve(
        deployment,
        drafter,
        load,
        "ignore",
        max_draft_len=axes.max_draft_len,
        acceptance=acceptance,
    )
    return served.decoding


def _largest(deployment: Deployment, drafter: Drafter, curve: SpeedupCurve) -> Array:
    """Return the largest batch of a server; infinity for the textbook, which has no server."""
    if deployment.setup.engine == IDEAL_ENGINE:
        return np.full((len(curve.context_len), len(curve.draft_len)), np.inf)
    return server_room(deployment, drafter, curve.context_len, curve.verify_len).largest


def _engine_round_s(setup: Setup, *, looked_up: bool = False) -> tuple[float, float]:
    """Return what an engine adds to each round of a chain, and to each sequence in it."""
    none, one = engine_round_s(setup.engine, [0, 1], looked_up=looked_up).tolist()
    return none, one - none


def _drafting(deployment: Deployment, drafter: Drafter, axes: Axes) -> Drafting | None:
    """Return the seconds of a drafter; None where no grid says them exactly.

    That is so where the model cannot have such a drafter, and where its seconds have corners
    between two knots or several of its passes read what was committed.
    """
    depth = min(drafter.max_draft_len or axes.max_draft_len, axes.max_draft_len)
    try:
        none = _curve(deployment, drafter, axes, constant_acceptance(0.0))
    except SpecroofError:
        return None
    looked_up = drafter.propose(constant_acceptance(0.0), np.array([1])).looked_up
    found = Drafting(
        draft_s=none.draft_s,
        more_s=_more_s(deployment, drafter, axes, none.draft_s, depth),
        largest=_largest(deployment, drafter, none),
        depth=depth,
        engine_round_s=_engine_round_s(deployment.setup, looked_up=looked_up),
    )
    probe = _curve(deployment, drafter, axes, constant_acceptance(_PROBE))
    drafts = slice(1, depth + 1)
    read = probe.tokens_per_round[0, 0, drafts]
    draft_s = found.draft_s[..., drafts] + hermite(found.more_s, read)
    off = np.abs(draft_s - probe.draft_s[..., drafts]) / probe.round_s[..., drafts]
    return found if float(off.max()) < _EXACT else None


def _more_s(
    deployment: Deployment, drafter: Drafter, axes: Axes, none_s: Array, depth: int
) -> Array:
    """Return the added seconds of drafting at each of `KNOTS`, as far as the drafter goes."""
    # Tokens per round are then 1.25, 1.5, … and 2, 3, …, one for each draft length.
    quarters = survival_acceptance([_STEP] * axes.max_draft_len)
    few = _curve(deployment, drafter, axes, quarters).draft_s - none_s
    many = _curve(deployment, drafter, axes, constant_acceptance(1.0)).draft_s - none_s
    return np.concatenate(
        [np.zeros_like(few[..., :1]), few[..., 1:_N_FEW], many[..., 4 : depth + 1]], axis=-1
    )


def slopes(values: Array) -> Array:
    r"""Return the slopes at `KNOTS` of parabolas through each knot and its neighbours.

    Parameters
    ----------
    values
        On a last axis of knots.

    Source
        Lagrange's parabola through three points, differentiated.

    Examples
    --------
    >>> bool(np.allclose(slopes(np.square(KNOTS)), 2 * np.array(KNOTS)))
    True
    """
    steps = np.diff(KNOTS[: values.shape[-1]])
    rises = np.diff(values, axis=-1) / steps
    bends = np.diff(rises, axis=-1) / (steps[1:] + steps[:-1])
    inner = rises[..., :-1] + bends * steps[:-1]
    first = rises[..., :1] - bends[..., :1] * steps[0]
    last = rises[..., -1:] + bends[..., -1:] * steps[-1]
    return np.concatenate([first, inner, last], axis=-1)


def hermite(values: Array, tokens_read: Array) -> Array:
    r"""Return cubics through `KNOTS` with the slopes of parabolas there.

    Parameters
    ----------
    values
        On a last axis of knots.
    tokens_read
        Where, one axis; from the first knot to the last that has a value.

    Source
        Hermite's cubic on each interval.

    Examples
    --------
    >>> bool(np.allclose(hermite(np.square(KNOTS), np.array([1.1, 6.3])), [1.21, 39.69]))
    True
    """
    knots = np.array(KNOTS[: values.shape[-1]])
    left = np.clip(np.searchsorted(knots, tokens_read, side="right") - 1, 0, len(knots) - 2)
    width = knots[left + 1] - knots[left]
    t = (tokens_read - knots[left]) / width
    slope = slopes(values)
    return np.asarray(
        values[..., left] * (1 + 2 * t) * (1 - t) ** 2
        + slope[..., left] * width * t * (1 - t) ** 2
        + values[..., left + 1] * t**2 * (3 - 2 * t)
        + slope[..., left + 1] * width * t**2 * (t - 1)
    )
