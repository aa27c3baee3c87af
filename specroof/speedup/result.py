"""The answer where work meets probability: a curve over context, batch and draft length."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, IntArray, fields_of, number_within
from specroof.drafters import TokensPerRound
from specroof.errors import refuse
from specroof.hardware.engine import Band, EngineProfile, ServedBands, played_figure, served_width
from specroof.hardware.profile import Placement
from specroof.units import format_drafts

# --- How sure a speedup is: the band that holds 80 % of measurements, and the verdict in it ------

PAYS = "pays"
LOSES = "loses"
#: The band holds the speedup from which drafting pays.
UNCLEAR = "unclear"


def tokens_spread(acceptance: TokensPerRound, draft_len: npt.ArrayLike) -> tuple[Array, Array]:
    r"""Return how far tokens per round may lie below and above, as natural logarithms.

    .. math:: \ln \frac{N}{N_-}, \quad \ln \frac{N_+}{N}

    Parameters
    ----------
    acceptance
        One that knows no band is taken at its word.
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
    low, high = acceptance.band(draft_len)
    expected = acceptance.tokens_per_round(draft_len)
    return np.log(expected / low), np.log(high / expected)


def band_ends(
    speedup: Array, width: npt.ArrayLike, spread: tuple[npt.ArrayLike, npt.ArrayLike]
) -> tuple[Array, Array]:
    r"""Return the ends of the band around speedups.

    .. math:: s \, e^{-\sqrt{w^2 + u_-^2}}, \quad s \, e^{\sqrt{w^2 + u_+^2}}

    Parameters
    ----------
    speedup
        s; the last axis is the draft length, and no draft is exactly 1.
    width
        w, of the engine: see `specroof.hardware.engine.Band.width_at`.
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


# --- Speedups, and the draft length with the largest ---------------------------------------------

#: Speedups that differ by a smaller share are equal: a steady state is searched to some 1e-11.
TIE: Final = 1e-9


def speedup_of(
    tokens_per_round: npt.ArrayLike,
    round_s: npt.ArrayLike,
    decode_s: npt.ArrayLike,
    *,
    running: npt.ArrayLike = 1.0,
    plain_running: npt.ArrayLike = 1.0,
) -> Array:
    r"""Return tokens per second relative to plain decoding: the one formula of a speedup.

    .. math:: s = \frac{N \, t_1}{t_{round}} \, \frac{R}{R_1}

    Parameters
    ----------
    tokens_per_round
        N, bonus token included.
    round_s, decode_s
        Seconds of a round, and of a plain step; both with what requests add, or both without.
    running, plain_running
        Sequences that are decoded at a time with drafts, R, and without, R_1.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8, with the time of the verification.

    Examples
    --------
    >>> float(speedup_of(3.0, 2.0, 1.0)), float(speedup_of(3.0, 2.0, 1.0, plain_running=2.0))
    (1.5, 0.75)
    """
    per_sequence = np.asarray(tokens_per_round) * (np.asarray(decode_s) / np.asarray(round_s))
    return np.asarray(per_sequence * (np.asarray(running) / np.asarray(plain_running)))


def within_measured(values: npt.ArrayLike, measured_draft_len: int | None) -> Array:
    """Return values of the draft lengths that may be chosen: NaN beyond the measured depth.

    Parameters
    ----------
    values
        The last axis is the draft length, from 0.
    measured_draft_len
        The longest draft that acceptance was measured with; None where a law was given.

    Source
        The choice of this library: what a longer draft brings is worth measuring, and not known.

    Examples
    --------
    >>> within_measured([1.0, 1.5, 1.9], 1)
    array([1. , 1.5, nan])
    """
    known = np.array(values, dtype=np.float64)
    if measured_draft_len is not None:
        known[..., measured_draft_len + 1 :] = np.nan
    return known


def best_index(values: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Return where values over draft lengths are largest: the shorter draft of equal ones.

    Parameters
    ----------
    values
        Speedups, or tokens per second; the last axis is the draft length. NaN where it cannot be.

    Source
        The choice of this library: what differs by rounding alone is equal.

    Examples
    --------
    >>> best_index([[1.0, 1.5, 1.5 + 1e-15], [np.nan, 0.8, 0.9]]).tolist()
    [1, 2]
    """
    given = np.asarray(values, dtype=np.float64)
    known = np.where(np.isnan(given), -np.inf, given)
    most = known.max(axis=-1, keepdims=True)
    return np.asarray(np.argmax(known >= most * (1 - TIE), axis=-1))


def verdict(
    low: npt.ArrayLike, high: npt.ArrayLike, *, least: npt.ArrayLike = 1.0
) -> npt.NDArray[np.str_]:
    """Return whether speedups pay, from the bands around them.

    Parameters
    ----------
    low, high
        Ends of the bands, of the same shape; both the same where none is known.
    least
        The speedup from which it pays, of all or of each.

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
    drafted = speedup[..., 1:]
    if not drafted.shape[-1]:
        return np.full(drafted.shape[:-1], "", dtype="<U7")
    best = best_index(drafted)[..., None]
    known = np.isfinite(np.take_along_axis(drafted, best, axis=-1))[..., 0]
    ends = (np.take_along_axis(end[..., 1:], best, -1)[..., 0] for end in (low, high))
    return np.asarray(np.where(known, verdict(*ends), ""))


def counted_engines(band: Band, engine: EngineProfile) -> str:
    """Return whose measurements a band counts, in parentheses; nothing where that is not known.

    Source
        `specroof.hardware.engine.Band.engines`.

    Examples
    --------
    >>> from specroof.hardware.engine import Band
    >>> band = Band(width=0.1, mean_error=0.04, points=9, engines={"sglang": 6, "vllm": 3})
    >>> counted_engines(band, EngineProfile(name="sglang"))
    ' (6 under sglang, 3 under vllm)'
    """
    server = engine.framework or engine.name
    counts = [f"{count} under {name}" for name, count in band.engines.items()]
    none = [] if server in band.engines else [f"none under {server}"]
    return f" ({', '.join([*counts, *none])})" if counts else ""


#: Rows that are turned into Python's numbers at once: they take ten times the memory of arrays.
_SLAB_ROWS: Final = 1 << 16

_AnyArray = TypeVar("_AnyArray", bound=npt.NDArray[Any])


# Without slots: what is derived from the whole grid is kept, since tables ask for it row by row.
@dataclass(frozen=True, eq=False, repr=False)
class SpeedupCurve:
    """Speculative decoding over a grid of context lengths, batch sizes and draft lengths.

    Arrays have the axes (context_len, batch_size, draft_len), in seconds and tokens. Past the
    depth of the drafter or of its acceptance they are NaN.

    Parameters
    ----------
    model, hardware, engine, drafter
        Names.
    placement
        How the model is spread.
    context_len, batch_size, draft_len
        The axes; draft_len runs from 0, plain decoding.
    verify_len
        Positions that the target verifies per sequence, axis (draft_len): draft_len + 1 of a
        chain, nodes + 1 of a tree, the mean where some sequences propose nothing.
    tokens_per_round
        Expected tokens per sequence and round, bonus token included.
    draft_s, verify_s, round_s
        Seconds of drafting, of verification, and of the round with what its engine adds.
    notes
        What the model's config left open or left out, formats that options replaced, dtypes that
        fell back, a model that does not fit.
    cost_from, acceptance_from
        Where the drafter's cost and its acceptance come from: a sentence each.
    request_lengths, request_token_s
        What is answered, such as "4000 tokens in, 1000 out", where `round_s` holds prefills too,
        and the seconds that these add to each token, axis (batch_size): see
        `specroof.serving.prefills.end_to_end`. Empty and 0 where decoding alone is counted.
    measured_draft_len
        The longest draft that acceptance was measured with, beyond which none is best; None where
        a law was given.
    running
        Sequences that are decoded at a time, where a server runs fewer than are asked for; NaN
        where it cannot run them. None where all run.
    band
        The engine's band for this kind of drafter; None where there is none, as on the ideal
        engine.
    spread
        What the acceptance adds to it below and above, axis (draft_len): see
        `specroof.speedup.result.tokens_spread`.
    launched
        How many times as long rounds take as without launches that nobody timed, to which bands
        reach; 1 where there are none: see `specroof.latency.model.without_launches`.
    decoding_share
        Share of `round_s` in which requests are decoded, where prompts have workers of their own,
        which they wait for in the rest; 1 elsewhere.
    served_bands
        The engine's bands of TPOT, TTFT and throughput without drafts; empty where it has none.
    """

    model: str
    hardware: str
    engine: str
    drafter: str
    placement: Placement
    context_len: Array
    batch_size: Array
    draft_len: IntArray
    verify_len: Array | IntArray
    tokens_per_round: Array
    draft_s: Array
    verify_s: Array
    round_s: Array
    notes: tuple[str, ...] = ()
    cost_from: str = ""
    acceptance_from: str = ""
    request_lengths: str = ""
    request_token_s: Array | float = 0.0
    measured_draft_len: int | None = None
    running: Array | None = None
    band: Band | None = None
    spread: tuple[Array | float, Array | float] = (0.0, 0.0)
    launched: Array = field(default_factory=lambda: np.ones((1, 1, 1)))
    decoding_share: Array = field(default_factory=lambda: np.ones((1, 1, 1)))
    served_bands: ServedBands = field(default_factory=dict)

    @property
    def requests(self) -> str:
        """The former name of `request_lengths`."""
        return self.request_lengths

    @property
    def running_batch(self) -> Array:
        """Sequences that are decoded at a time, axes that broadcast to those of the curve."""
        return self.batch_size[None, :, None] if self.running is None else self.running

    @property
    def title(self) -> str:
        """What the curve is of, in one line."""
        where = f"{self.placement.devices} x {self.hardware}, engine {self.engine}"
        return f"{self.model} on {where}: {self.drafter}"

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        sizes = " x ".join(str(size) for size in self.round_s.shape)
        return f"<SpeedupCurve: {self.title}; {sizes} contexts, batch sizes, draft lengths>"

    @property
    def names(self) -> dict[str, Any]:
        """The columns of names and sizes that all points share."""
        place = fields_of(self, "model", "hardware", "engine")
        return place | asdict(self.placement) | {"drafter": self.drafter}

    def slabs(self) -> Iterator[slice]:
        """Yield contexts, as many at a time as are turned into Python's numbers at once."""
        contexts, batches, drafts = self.round_s.shape
        step = max(1, _SLAB_ROWS // (batches * drafts))
        for start in range(0, contexts, step):
            yield slice(start, start + step)

    @property
    def decode_s(self) -> Array:
        """Seconds of the plain step, axes (context_len, batch_size)."""
        return np.asarray(self.round_s[..., 0])

    @cached_property
    def speedup(self) -> Array:
        """Tokens per second relative to plain decoding: see `speedup_of`; [..., 0] is 1."""
        running = np.ones(1) if self.running is None else self.running
        return _read_only(
            speedup_of(
                self.tokens_per_round,
                self.round_s,
                self.decode_s[..., None],
                running=running,
                plain_running=running[..., :1],
            )
        )

    @property
    def _width(self) -> Array | None:
        """The half-width of the band of each speedup of decoding, in natural logarithms."""
        if self.band is None:
            return None
        return self.band.width_at(self.running_batch, self.context_len[:, None, None])

    @cached_property
    def ends_as_priced(self) -> tuple[Array, Array] | None:
        r"""The ends of the band of each speedup, with launches that nobody timed as priced.

        .. math:: 1 - d_\gamma + d_\gamma e^{\pm w}

        is what an error w of decoding makes of the seconds of a request, with d the
        `decoding_share`. One of prompts moves a speedup by :math:`d_0 - d_\gamma` of it; its band
        is that of the first token of a request alone. Where none is known, the band is that of
        decoding.

        Ignores
            that a queue evens errors out: where prompts alone limit throughput, drafts change
            nothing, however fast they are.
        Source
            Counting: throughput of clients is their number over the seconds of a request, of which
            errors of decoding and of prompts move their shares.
        """
        if self._width is None:
            return None
        share, figure = self.decoding_share, played_figure(self.served_bands, "ttft_s")
        prompts = served_width(self.served_bands, figure, 1.0, self.context_len)
        if prompts is None or np.isnan(prompts).any() or not (share < 1).any():
            return band_ends(self.speedup, self._width, self.spread)
        of_prompts = (share[..., :1] - share) * prompts[:, None, None]
        below, above = (np.hypot(self._width, side) for side in self.spread)
        slower = np.log1p(share * np.expm1(below))
        faster = -np.log1p(share * np.expm1(-above))
        return band_ends(self.speedup, of_prompts, (slower, faster))

    @cached_property
    def _ends(self) -> tuple[Array, Array] | None:
        if self.ends_as_priced is None:
            return None
        low, high = self.ends_as_priced
        launched = np.broadcast_to(self.launched, self.speedup.shape)
        gain = launched / launched[..., :1]  # of the speedup, where launches take no time
        return _read_only(low * np.minimum(gain, 1.0)), _read_only(high * np.maximum(gain, 1.0))

    def figure_ends(
        self, figure: str, values: Array, *, per_speedup: Literal[-1, 0, 1]
    ) -> tuple[Array, Array] | None:
        r"""Return the ends of the bands around a figure; None where the engine has none.

        .. math:: v \, e^{-\sqrt{w^2 + u_-^2}}, \quad v \, e^{\sqrt{w^2 + u_+^2}}

        Parameters
        ----------
        figure
            One of `specroof.hardware.engine.SERVED_FIGURES`, whose band w is.
        values
            v, axes as in the curve.
        per_speedup
            1 for what grows with the speedup, -1 for what falls; u is the band of the speedup
            then. 0 for what does not depend on it.

        Counts
            errors of plain decoding and of the speedup as independent of one another. Drafts
            without a band of the speedup have NaN. Launches that nobody timed between none and all
            of what they are priced as.
        Source
            As `band_ends`.
        """
        width = served_width(self.served_bands, figure, self.batch_size, self.context_len[:, None])
        if width is None:
            return None
        below = above = np.zeros(values.shape)
        if per_speedup:
            # TPOT is of decoding alone.
            ends = self.ends_as_priced if per_speedup > 0 else None
            width_of_gain = np.nan if self._width is None else self._width
            low, high = ends or band_ends(self.speedup, width_of_gain, self.spread)
            below, above = np.log(self.speedup / low), np.log(high / self.speedup)
        if per_speedup < 0:
            below, above = above, below
        of_plain = width[..., None]
        low = values * np.exp(-np.hypot(of_plain, below))
        high = values * np.exp(np.hypot(of_plain, above))
        if per_speedup < 0:
            low = low / self.launched
        elif per_speedup:
            high = high * self.launched
        return low, high

    @property
    def speedup_low(self) -> Array | None:
        """The low end of the band that holds 80 % of measured speedups; None without a band."""
        return None if self._ends is None else self._ends[0]

    @property
    def speedup_high(self) -> Array | None:
        """The high end of the same."""
        return None if self._ends is None else self._ends[1]

    @property
    def rate_ends(self) -> tuple[Array, Array] | None:
        """The ends of the bands around `tokens_per_s`; of decoding alone it is as sure as TPOT."""
        return self.figure_ends(
            played_figure(self.served_bands, "tpot_s"), self.tokens_per_s, per_speedup=1
        )

    @cached_property
    def verdict(self) -> npt.NDArray[np.str_] | None:
        """Whether the best draft ``pays``, ``loses``, or is ``unclear``: see `verdicts`."""
        return None if self._ends is None else _read_only(verdicts(self.choices, *self._ends))

    @property
    def tokens_per_s(self) -> Array:
        """Tokens per second of the whole batch."""
        return self.tokens_per_s_per_user * self.running_batch

    @property
    def tokens_per_s_per_user(self) -> Array:
        """Tokens per second of one sequence."""
        return self.tokens_per_round / self.round_s

    @property
    def free_lunch(self) -> Array:
        r"""The speedup of rounds that cost a plain step: N, where no prefills are counted.

        .. math:: \frac{t_1 + p}{t_1 / N + p} = N \, \frac{t_1 + p}{t_1 + p + (N - 1) \, p}

        with p the prefills of a token, which drafting does not shorten.

        Source
            Amdahl 1967, AFIPS 30, 483-485.
        """
        plain_s = self.decode_s[..., None]
        waits_s = np.asarray(self.request_token_s)[..., None]
        extra_s = (self.tokens_per_round - 1) * waits_s
        return speedup_of(self.tokens_per_round, plain_s + extra_s, plain_s)

    @cached_property
    def best_draft_len(self) -> IntArray:
        """The draft length of the largest speedup, axes (context_len, batch_size).

        Ties, to rounding, go to the shorter draft.
        """
        # Where nothing runs, no draft is the answer, and its speedup unknown.
        return _read_only(self.draft_len[best_index(self.choices)])

    @cached_property
    def best_speedup(self) -> Array:
        """The largest speedup, axes (context_len, batch_size); at least 1: drafts are optional."""
        return _read_only(self.at_best(self.speedup))

    @cached_property
    def choices(self) -> Array:
        """Speedups of the lengths to choose from."""
        return _read_only(within_measured(self.speedup, self.measured_draft_len))

    @cached_property
    def worth_measuring(self) -> IntArray:
        """The longer draft than measured whose estimate is the largest of all; 0 where none is.

        Axes (context_len, batch_size).
        """
        largest = self.draft_len[best_index(self.speedup)]
        return _read_only(np.where(largest > self.best_draft_len, largest, 0))

    @property
    def measuring_notes(self) -> Iterator[str]:
        """Yield what a longer draft than measured may bring, where it gains most, if it may."""
        longer = self.worth_measuring
        if self.measured_draft_len is None or not longer.any():
            return
        reached = np.take_along_axis(self.speedup, longer[..., None], axis=-1)[..., 0]
        gains = np.where(longer > 0, reached / self.best_speedup, 0.0)
        row, column = np.unravel_index(np.argmax(gains), gains.shape)
        point = row, column, longer[row, column]
        ends = (
            ""
            if self._ends is None
            else " ({:.2f} to {:.2f}x)".format(*(end[point] for end in self._ends))
        )
        yield (
            f"worth measuring: {format_drafts(int(longer[row, column]))} of {self.drafter} may reach "
            f"{self.speedup[point]:.2f}x{ends} at batch {self.batch_size[column]:.0f}, context "
            f"{self.context_len[row]:.0f}; no draft is chosen beyond the "
            f"{self.measured_draft_len} at which acceptance was measured"
        )

    def at_best(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values at the best draft length, axes (context_len, batch_size)."""
        best: npt.NDArray[Any] = np.take_along_axis(values, self.best_draft_len[..., None], axis=-1)
        return best[..., 0]

    @property
    def acceptance_unknown(self) -> npt.NDArray[np.bool_]:
        """Where drafts may gain or lose: contexts beyond those that acceptance was measured at.

        Axes (context_len, batch_size).
        """
        tokens = within_measured(self.tokens_per_round, self.measured_draft_len)[..., 1:]
        return np.asarray(np.isnan(tokens).all(axis=-1) & (tokens.shape[-1] > 0))

    @property
    def drafts_run(self) -> npt.NDArray[np.bool_]:
        """Where a server has memory for a draft, axes (context_len, batch_size)."""
        if self.running is None:
            return np.ones(self.best_draft_len.shape, dtype=bool)
        return np.asarray(np.isfinite(self.running[..., 1:]).any(axis=-1))

    def near_best(self, share: float = 0.01) -> tuple[IntArray, IntArray]:
        """Return the shortest and the longest draft within `share` of the best speedup.

        Parameters
        ----------
        share
            0.01 for 1%.

        Returns
        -------
        tuple of int arrays
            Shortest and longest, each with axes (context_len, batch_size).

        Raises
        ------
        OptionError
            Unless 0 <= share < 1.
        """
        if number_within("share", share, "share") == 1:
            refuse("share", share, "a number of at least 0 and below 1")
        best = self.best_speedup[..., None]
        near = self.choices >= best * (1 - max(share, TIE))
        near[..., :1] |= np.isnan(best)  # where nothing runs
        return self._ends_of(near)

    def best_within_band(self) -> tuple[IntArray, IntArray] | None:
        """Return the shortest and the longest draft whose band reaches the best speedup.

        Any of them may be the best of a server that is measured. None without a band.
        """
        if self._ends is None:
            return None
        best = self.best_speedup[..., None]
        high = within_measured(self._ends[1], self.measured_draft_len)
        return self._ends_of((high >= best) | np.isnan(best))

    def _ends_of(self, near: npt.NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
        """Return the shortest and the longest draft of those that are marked."""
        longest = near.shape[-1] - 1 - np.argmax(near[..., ::-1], axis=-1)
        return self.draft_len[np.argmax(near, axis=-1)], self.draft_len[longest]


def _read_only(array: _AnyArray) -> _AnyArray:
    """Return an array that is kept and must not change between two readers."""
    array.setflags(write=False)
    return array
