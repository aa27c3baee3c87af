"""Bands of requests that are played through: the same load again, with times at their ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array
from specroof.hardware.engine import played_figure, served_width
from specroof.serving.played import PlayedLoads, PlayedServer
from specroof.serving.workload import Requests
from specroof.speedup.result import SpeedupCurve, best_index, within_measured

#: Figures of a play, and what has bands.
_PLAYED: Final = (q.TOKENS_PER_S.name, "mean_tpot_s", "mean_ttft_s", "mean_latency_s")
_BANDED: Final = ("speedup", q.TOKENS_PER_S.name, "tpot_s", "ttft_s")


@dataclass(frozen=True, eq=False, repr=False)
class Replays:
    """Loads that are played again at the ends of the bands of times, once these are asked for.

    Without drafts, with as many as are best at the load, and with those of a schedule: other
    lengths keep the bands of the engine around what was played.

    Parameters
    ----------
    curve
        Of the requests, with the bands of the engine.
    played
        The loads as expected.
    servers, places
        What each was played on, and its place along the curve's batch sizes.
    scheduled
        The drafts of a schedule at each of the curve's batch sizes, if there is one.
    memo
        What was played so far, by load, drafts and times of passes and rounds: copies share it.

    Counts
        errors of passes, which a server shares with and without drafts, those of rounds with
        drafts, and those of waits and throughput that measured loads have beyond the times of
        passes, as independent of one another. Where nobody measured throughput, a client's is off
        by its passes and by its first token, for as much of an answer's time as that takes.
    Source
        As `specroof.speedup.result.band_ends`: errors of products add up as squares of logarithms.
    """

    curve: SpeedupCurve
    played: PlayedLoads
    servers: Sequence[PlayedServer]
    places: Sequence[int]
    scheduled: Sequence[int] = ()
    memo: dict[tuple[int, int, float, float], Array] = field(default_factory=dict)

    def ends(
        self, name: str, middle: Array, usual: tuple[Array, Array] | None
    ) -> tuple[Array, Array] | None:
        """Return the ends of a band: of replays where there are any, else the engine's.

        Parameters
        ----------
        name
            ``speedup``, ``tokens_per_s``, ``tpot_s`` or ``ttft_s``.
        middle, usual
            The figure, and the engine's ends around it, axes as in the curve; None where it has
            none.
        """
        below, above = self._sides[name]
        known = np.isfinite(below) & np.isfinite(above)
        if usual is None and not known.any():
            return None
        low, high = usual or (np.nan, np.nan)
        return (
            np.where(known, middle * np.exp(-below), low),
            np.where(known, middle * np.exp(above), high),
        )

    @cached_property
    def _sides(self) -> dict[str, Array]:
        """The logarithms of both sides of bands, axes (side, curve's); NaN without a replay."""
        sides = np.full((len(_BANDED), 2, *self.curve.round_s.shape), np.nan)
        for number, requests in enumerate(self.played.load.played()):
            place, logs = self.places[number], partial(self._logs, number, requests)
            for drafts in {0, self._best(number), *self.scheduled[place : place + 1]}:
                sides[:, :, 0, place, drafts] = self._sides_at(number, drafts, logs)
        return dict(zip(_BANDED, sides, strict=True))

    def _best(self, number: int) -> int:
        """Return the drafts that are best at a load, off being no option; 0 without room."""
        played, gains = self.played, self.curve.speedup[0, self.places[number]]
        if played.unsustained[number]:
            gains = played.deciding[0, number]
        choices = within_measured(gains, played.measured_draft_len)[1:]
        return 1 + int(best_index(choices)) if np.isfinite(choices).any() else 0

    def _logs(
        self, number: int, requests: Requests, drafts: int, passes: float, rounds: float
    ) -> Array:
        """Return the logarithms of `_PLAYED` at a load by drafts, and times of passes and rounds.

        Each is played once; what was played as expected is not played again.
        """
        known = [self.played.figures[name][number, drafts] for name in _PLAYED]
        if passes == rounds == 1.0 and not np.isnan(known[0]):
            return np.log(known)
        server, times = self.servers[number], (number, drafts, passes, rounds)
        if not (np.isfinite(passes * rounds) and server.runs(drafts)):
            return np.full(len(_PLAYED), np.nan)
        if times not in self.memo:
            prices = [*server.prices]
            prices[drafts] = prices[drafts].times(passes, rounds)
            seen = replace(server, prices=prices).play(requests, drafts).figures()
            self.memo[times] = np.log([seen.get(name, np.nan) for name in _PLAYED])
        return self.memo[times]

    def _sides_at(
        self, number: int, drafts: int, logs: Callable[[int, float, float], Array]
    ) -> Array:
        """Return the logarithms of both sides of bands at a load, axes (`_BANDED`, side)."""
        curve, at = self.curve, (0, self.places[number])
        sums_work, server = self.played.sums_work, self.servers[number]

        def figures(passes: float = 1.0, rounds: float = 1.0) -> Array:
            plain = logs(0, passes, 1.0)
            drafted = logs(drafts, passes, rounds) if drafts else plain
            rate, *_, latency_s = drafted - plain
            return np.array([rate if sums_work else -latency_s, *drafted[:-1]])

        def sides(*times: tuple[float, float]) -> Array:
            changes = [figures(*pair) - figures() for pair in times]
            return np.array([-np.fmin.reduce(changes), np.fmax.reduce(changes)]).clip(0).T

        load, bands = (curve.batch_size[at[1]], curve.context_len[0]), curve.served_bands
        of_passes, of_rate, of_waits = (
            np.nan if width is None else float(width)
            for width in (
                served_width(bands, played_figure(bands, name), *load)
                for name in (q.TPOT.name, q.TOKENS_PER_S.name, q.TTFT.name)
            )
        )
        passes = sides((np.exp(of_passes), 1.0), (np.exp(-of_passes), 1.0))
        # Of requests that come by themselves, throughput is theirs.
        if not sums_work:
            of_rate = 0.0
        elif np.isnan(of_rate):  # nobody measured it here: clients wait for passes and first tokens
            *_, first_s, answer_s = logs(drafts, 1.0, 1.0)
            waits = np.log1p(np.exp(first_s - answer_s) * np.expm1(of_waits))
            of_rate = np.hypot(passes[1], waits).max()
        passes = np.maximum(passes.T, [0.0, of_rate, 0.0, of_waits]).T
        passes[0] = np.nan_to_num(passes[0])  # an engine may know the errors of speedups alone
        if not drafts:
            rounds = np.zeros(passes.shape)
        elif curve.ends_as_priced is None:
            rounds = np.full(passes.shape, np.nan)
        else:
            # Without a speedup at the load, by the band of the one of the full server.
            gain, low, high = (
                server.stable_gain[:, drafts]
                if self.played.unsustained[number]
                else [end[at][drafts] for end in (curve.speedup, *curve.ends_as_priced)]
            )
            rounds = sides((1.0, gain / low), (1.0, gain / high))
        launched = np.broadcast_to(curve.launched, curve.round_s.shape)[at]
        bare = sides((1 / launched[0], launched[0] / launched[drafts]))
        return np.hypot(passes, rounds) + bare
