"""How sure a speedup is: the band that holds 80 % of measurements, and the verdict in it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.drafters import TokensPerRound
from specroof.hardware import EngineProfile

PAYS = "pays"
LOSES = "loses"
#: The band holds the speedup from which drafting pays.
UNCLEAR = "unclear"


def tokens_spread(tokens: TokensPerRound, draft_len: npt.ArrayLike) -> tuple[Array, Array]:
    r"""Return how far tokens per round may lie below and above, as natural logarithms.

    .. math:: \ln \frac{N}{N_-}, \quad \ln \frac{N_+}{N}

    Parameters
    ----------
    tokens
        An acceptance; one that knows no band is taken at its word.
    draft_len
        Whole numbers from 0.

    Source
        `specroof.acceptance.Acceptance.band`.

    Examples
    --------
    >>> from specroof import rate_acceptance
    >>> tokens_spread(rate_acceptance([0.5]), [0, 1])  # as measured
    (array([0., 0.]), array([0., 0.]))
    """
    band = getattr(tokens, "band", None)
    if band is None:
        nothing = np.zeros(np.shape(draft_len))
        return nothing, nothing
    low, high = band(draft_len)
    expected = tokens.tokens_per_round(draft_len)
    return np.log(expected / low), np.log(high / expected)


def band_ends(
    speedup: Array, width: float, spread: tuple[npt.ArrayLike, npt.ArrayLike]
) -> tuple[Array, Array]:
    r"""Return the ends of the band around speedups.

    .. math:: s \, e^{-\sqrt{w^2 + u_-^2}}, \quad s \, e^{\sqrt{w^2 + u_+^2}}

    Parameters
    ----------
    speedup
        s; the last axis is the draft length, and no draft is exactly 1.
    width
        w, of the engine: see `specroof.hardware.EngineProfile.bands`.
    spread
        u below and above, of the acceptance: see `tokens_spread`.

    Counts
        errors of the engine and of the acceptance as independent of one another.
    Ignores
        that prefills, which drafting does not shorten, bring a speedup nearer to 1, and its band
        with it.
    Source
        Errors of products add up as squares of their logarithms.

    Examples
    --------
    >>> low, high = band_ends(np.array([1.0, 2.0]), 0.3, (0.0, 0.4))
    >>> low, high  # 2 / exp(0.3), and 2 * exp(0.5)
    (array([1.        , 1.48163644]), array([1.        , 3.29744254]))
    """
    below, above = (np.exp(np.hypot(width, side)) for side in spread)
    low, high = np.asarray(speedup / below), np.asarray(speedup * above)
    for end in (low, high):
        end[..., 0] = speedup[..., 0]
    return low, high


def verdict(low: npt.ArrayLike, high: npt.ArrayLike, *, least: float = 1.0) -> npt.NDArray[np.str_]:
    """Return whether speedups pay, from the bands around them.

    Parameters
    ----------
    low, high
        Ends of the bands, of the same shape; both the same where none is known.
    least
        The speedup from which it pays.

    Source
        The choice of this library: a side is told where the whole band lies on it.

    Examples
    --------
    >>> verdict([1.1, 0.8, 0.9, 1.0], [1.4, 0.95, 1.2, 1.0]).tolist()
    ['pays', 'loses', 'unclear', 'unclear']
    """
    above, below = np.asarray(low) > least, np.asarray(high) < least
    return np.where(above, PAYS, np.where(below, LOSES, UNCLEAR))


def verdicts(speedup: Array, low: Array, high: Array) -> npt.NDArray[np.str_]:
    """Return whether drafting pays at its best length, one axis less; empty where nothing runs.

    Parameters
    ----------
    speedup, low, high
        And the ends of its band; the last axis is the draft length, from 0.

    Source
        `verdict`.

    Examples
    --------
    >>> verdicts(np.array([1.0, 1.3]), np.array([1.0, 1.2]), np.array([1.0, 1.4])).item()
    'pays'
    """
    drafted = np.where(np.isnan(speedup[..., 1:]), -np.inf, speedup[..., 1:])
    if not drafted.shape[-1]:
        return np.full(drafted.shape[:-1], "", dtype="<U7")
    best = np.argmax(drafted, axis=-1)[..., None]
    known = np.isfinite(np.take_along_axis(drafted, best, axis=-1))[..., 0]
    ends = (np.take_along_axis(end[..., 1:], best, -1)[..., 0] for end in (low, high))
    return np.asarray(np.where(known, verdict(*ends), ""))


def band_notes(engine: EngineProfile, drafter: str) -> Iterator[str]:
    """Yield how far off predictions of this engine and this kind of drafter have been.

    Parameters
    ----------
    engine
        One without bands has none to speak of.
    drafter
        Its kind.

    Source
        `specroof.hardware.EngineProfile.bands`.

    Examples
    --------
    >>> from specroof.hardware import Band
    >>> mtp = Band(width=0.0953, mean_error=0.042, points=40)
    >>> list(band_notes(EngineProfile(name="e", bands={"mtp": mtp}), "mtp"))
    ['engine e, mtp: 80% of 40 measured speedups are within -9% to +10% of the prediction; mean
    error 4.2%']
    """
    band = engine.band(drafter)
    if band is None:
        return
    of = drafter if drafter in engine.bands else f"{drafter} (errors of all drafters)"
    low, high = np.expm1(-band.width), np.expm1(band.width)
    yield (
        f"engine {engine.name}, {of}: 80% of {band.points} measured speedups are within "
        f"{low:+.0%} to {high:+.0%} of the prediction; mean error {band.mean_error:.1%}"
    )
