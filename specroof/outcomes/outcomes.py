"""One load, one answer: every question asks here what drafts gain on a server."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from specroof import quantities as q
from specroof.acceptance import ContextAcceptance
from specroof.arrays import Array, BoolArray, fields_of
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import Raised, Urgent, refuse, reject
from specroof.hardware.engine import played_figure
from specroof.outcomes.case import Case
from specroof.outcomes.replays import Replays
from specroof.serving.capacity import RoomRule, ServerRoom, devices_that_hold
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.played import (
    FIGURES,
    PlayedLoads,
    PlayedServer,
    part_of,
    played_loads,
    played_server,
)
from specroof.serving.served import Limits, ServedCurve, reserved_len, served_curve
from specroof.serving.workload import Load
from specroof.speedup.result import within_measured
from specroof.units import format_drafts, plain_number, three_digits

#: How sentences about limits begin that replace defaults.
RAISED_LIMIT: Final = "raised limit"
#: What is said of requests that are not played through.
STEADY_NOTE: Final = Urgent(
    "requests are in a steady state, computed in closed form instead of simulated"
)


def simulated_note(*requests: int) -> str:
    """Return that so many requests were simulated, of each load."""
    return f"simulated {', '.join(map(str, requests))} requests, accepted drafts drawn (--seed)"


#: From so many times the throughput of a steady state on, requests of one length are in step.
_STEP_GAIN: Final = 1.1
_IN_STEP: Final = Urgent(
    "without drafts, requests of one length end together and their prompts share passes; with "
    "drafts they do not: --length-range 0.5..1.0 mixes lengths"
)


def steady_note(*, is_split: bool) -> Urgent:
    """Return what is said of a steady state: without workers for prompts, its bands are wider.

    They take all of a request for decoding.
    """
    return STEADY_NOTE if is_split else Urgent(f"{STEADY_NOTE}: bands are wider")


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes(ServedCurve):
    """What drafts gain on a server under loads; axes (context_len, load, draft_len).

    Parameters
    ----------
    played
        What clients see of requests that are played through; None of a steady state. `end_to_end`
        then says the same by the names that it has of a steady state.
    replays
        The same requests at the ends of bands; None of a steady state.
    in_step
        Whether a server without drafts answers many more requests of one length than in a steady
        state, where they end at different times.
    """

    played: PlayedLoads | None = None
    replays: Replays | None = None
    in_step: bool = False

    @property
    def running(self) -> Array:
        """Requests that run at a time, on average."""
        if self.played is None or self.played.sums_work:
            return self.curve.running_batch
        return self.played.figures["mean_running"][None]

    @property
    def unsustained(self) -> BoolArray:
        """The loads that arrive faster than a server without drafts answers them."""
        if self.played is None or self.played.sums_work:
            return np.zeros(len(self.curve.batch_size), dtype=bool)
        return self.played.unsustained

    @property
    def deciding(self) -> tuple[Array, Array, Array]:
        """What lengths are chosen by, and the ends of its band, axes as in the curve.

        The speedup; of loads that are `unsustained`, what the largest rate gains: see
        `specroof.serving.played.PlayedLoads.deciding`.
        """
        gain = self.curve.speedup
        ends = gain, *(self.speedup_ends or (gain, gain))
        if self.played is None or not self.unsustained.any():
            return ends
        place = self.unsustained[:, None]
        middle, least, most = (
            np.where(place, other, one)
            for other, one in zip(self.played.deciding, ends, strict=True)
        )
        return middle, least, most

    @property
    def speedup_ends(self) -> tuple[Array, Array] | None:
        """The ends of the band of each speedup; None without a band."""
        low, high = self.curve.speedup_low, self.curve.speedup_high
        if low is None or high is None:
            return None
        if self.replays is None:
            return low, high
        return self.replays.ends("speedup", self.curve.speedup, (low, high))

    @property
    def figure_ends(self) -> dict[str, tuple[Array, Array] | None]:
        """The ends of the bands of throughput, TPOT and TTFT by name; None without a band."""
        ends = super(Outcomes, self).figure_ends
        if self.replays is None or self.end_to_end is None:
            return ends
        return {
            name: self.replays.ends(name, getattr(self.end_to_end, name), pair)
            for name, pair in ends.items()
        }

    @property
    def state_notes(self) -> list[str]:
        """How requests are answered: one by one, or in the closed form of their steady state."""
        if self.end_to_end is None:
            return []
        if self.played is None:
            return [steady_note(is_split=bool(np.any(self.end_to_end.curve.decoding_share != 1)))]
        load = self.played.load
        notes = [simulated_note(*dict.fromkeys(load.requests))]
        if load.kind == "concurrency":
            if self.in_step:
                notes.append(_IN_STEP)
            notes += [
                Urgent(f"a run of {count} keeps at most {count} of {clients:g} clients busy")
                for count, clients in zip(load.requests, load.batch_size, strict=True)
                if count < clients
            ]
        return notes

    @property
    def raised_notes(self) -> list[str]:
        """What a server is told so that its default limits do not bind, at the largest load."""
        runs: list[bool] = np.isfinite(self.decoding.round_s).any(axis=(0, 2)).tolist()  # type: ignore[assignment]
        loads, at = self.curve.batch_size.tolist(), " at a load of {}"
        spelt: Callable[[float], str] = plain_number
        if self.played is not None and self.played.load.kind != "concurrency":
            loads, at = [*self.played.load.arrival_rates], " at {} requests/s"
            spelt = three_digits
            if not loads:  # of a job, which is one load
                loads, at = [1.0], ""
        raised = [
            (load, max(filter(None, pair)))
            for pair, load, has_room in zip(self.told, loads, runs, strict=False)
            if any(pair) and has_room
        ]
        if not raised or self.room is None:
            return []
        load, most = max(raised)
        framework = self.room.drafting.server.framework
        return [
            Raised(
                f"{RAISED_LIMIT}: --server running={most}{at.format(spelt(load))}, since memory holds more "
                f"requests than {framework} runs by default"
            )
        ]

    @property
    def rate_warnings(self) -> list[str]:
        """That requests arrive faster than the server answers them; nothing where they do not."""
        if not self.unsustained.any():
            return []
        played = cast("PlayedLoads", self.played)  # else nothing is unsustained
        most = within_measured(played.stable_rate, played.measured_draft_len)
        drafts = int(np.nanargmax(most))
        gain = f" and {three_digits(most[drafts])}/s with {format_drafts(drafts)} of {self.curve.drafter}"
        return [
            f"the server answers at most about {three_digits(most[0])} requests/s without drafts"
            f"{gain if drafts else ''}: at a higher rate requests pile up, and there is no speedup"
        ]

    def with_schedule(self, drafts: Sequence[int]) -> "Outcomes":
        """Return this with bands of requests around the drafts of a schedule, load by load."""
        if self.replays is None:
            return self
        return replace(self, replays=replace(self.replays, scheduled=drafts))

    def warnings(self, case: Case) -> list[str]:
        """Return what a server does not answer in time: rates, and requests beyond its memory."""
        if self.room is None:
            return self.rate_warnings
        workers = 1 if case.split is None else case.split.decode_workers
        each = replace(self.decoding, batch_size=self.decoding.batch_size / workers)
        beyond = "the rest wait" if case.room == "queue" else "larger batches have no room"
        devices = self._devices_needed(case)
        enough = "" if devices is None else f", and --tp {devices} has room"
        return [*self.rate_warnings, *self.room.warnings(each, beyond, enough)]

    def _devices_needed(self, case: Case) -> int | None:
        """Return how many devices hold a request, if these hold none and others do."""
        if case.split is not None or cast("ServerRoom", self.room).largest[0, 0]:
            return None
        held = self.curve.context_len.min() + reserved_len(case.deployment.setup, case.load)
        return devices_that_hold(case.deployment, float(held))

    def refuse_full(self, case: Case) -> None:
        """Refuse a load that the server has no memory for, even without drafts."""
        if np.isfinite(self.curve.speedup[..., 0]).all():
            return
        place = f"{self.curve.placement.devices} x {self.curve.hardware}"
        room = cast("ServerRoom", self.room)
        if case.load.requests or not room.largest[0, 0]:
            devices = self._devices_needed(case)
            more = "more devices" if devices is None else f"--tp {devices}"
            reject(f"{self.curve.model} leaves no room for a request on {place}", more)
        name = "concurrency" if case.room == "queue" else "batch_size"
        enough = f"what {place} have memory for"
        if room.bound_by_setting[:, 0].any():
            enough = f"at most {plain_number(room.largest[:, 0].min())}, the limit of the server"
        refuse(name, max(case.load.batch_size), f"{enough}, or --no-capacity")

    def stable_rates(self, draft_len: int) -> tuple[float, float] | None:
        """Return requests/s answered at most without and with drafts; None of no arrivals."""
        if self.played is None or not self.played.load.arrival_rates:
            return None
        rates = self.played.stable_rate
        return float(rates[0]), float(rates[draft_len])


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class PlayedRequests(EndToEnd):
    """Requests that were played through, by the names of the steady state.

    Its `curve` has the rounds that requests see, prompts and waits included: tokens of all that run
    over tokens per second, so that its speedup is that of `PlayedLoads`.

    Parameters
    ----------
    tokens_per_s, requests_per_s
        Output tokens, and requests that end, in a second of the whole run, ramp and drain included;
        these and what follows with axes (context_len, load, draft_len).
    answer_s, queue_s, ttft_s, p99_ttft_s
        Mean seconds from sending a request to its last token, its first pass and its first token;
        and what 99 of 100 stay within.
    tpot_s, p99_tpot_s
        Mean seconds of a token after the first, and what 99 of 100 requests stay within; NaN for
        answers of one token.
    sums_work
        Whether more tokens per second are made as the server gets faster, or as many as come.
    """

    tokens_per_s: Array = field()
    requests_per_s: Array = field()
    answer_s: Array = field()
    queue_s: Array = field()
    ttft_s: Array = field()
    p99_ttft_s: Array = field()
    tpot_s: Array = field()
    p99_tpot_s: Array = field()
    sums_work: bool = True

    @property
    def figure_ends(self) -> dict[str, tuple[Array, Array] | None]:
        """The ends of bands: of requests that come by themselves none of throughput."""
        ends = super(PlayedRequests, self).figure_ends
        return ends if self.sums_work else ends | {q.TOKENS_PER_S.name: None}

    def _banded_as(self, figure: str) -> str:
        bands = self.curve.served_bands
        known = played_figure(bands, figure)
        # Throughput that nobody measured has the band of the steps that make it.
        is_rate = figure == q.TOKENS_PER_S.name and known not in bands
        return played_figure(bands, q.TPOT.name) if is_rate else known

    @property
    def service_s(self) -> Array:
        """Mean seconds of a request from the first pass over its prompt to its last token."""
        return self.answer_s - self.queue_s


#: What outcomes have of a served curve.
_SERVED: Final = tuple(field.name for field in fields(ServedCurve))


def outcomes(
    case: Case,
    drafter: Drafter,
    *,
    max_draft_len: int,
    acceptance: TokensPerRound | ContextAcceptance | None = None,
    draft_lens: Collection[int] = (),
    only: bool = False,
) -> Outcomes:
    """Return what drafts gain on a server under loads.

    Requests are played through one by one; a batch at a context, and loads that say so, are in
    their steady state.

    Parameters
    ----------
    case
        What is served, where, for whom. Loads with `requests` are played through, but those of
        which there are none; each on a server of its own, so that what else is asked changes
        nothing.
    drafter, max_draft_len, acceptance
        As of `specroof.serving.served.served_curve`.
    draft_lens
        Lengths that are played besides those that may win. Of clients without targets, others have
        the figures of the closed form, and NaN in `Outcomes.played`; of other loads all are played.
    only
        Whether no others than these lengths are played, whatever may win.

    Raises
    ------
    SpecroofError
        As `served_curve` and `specroof.serving.played.played_server` do.
    """
    deployment, load, room = case.deployment, case.load, case.room
    drafting = drafter if acceptance is None else replace(drafter, acceptance=acceptance)
    in_closed_form = partial(
        served_curve,
        deployment,
        drafting,
        max_draft_len=max_draft_len,
        raises=case.raises,
    )
    if not load.requests:
        steady = in_closed_form(load.steady, room, split=case.split)
        return Outcomes(**fields_of(steady, *_SERVED))
    waits: RoomRule = "queue" if room == "drop" else room
    # What arrives runs as it is played: its batches are not known before.
    served = in_closed_form(load.steady, waits) if load.kind == "concurrency" else None
    places = [place for place, count in enumerate(load.requests) if count]
    lengths = {
        place: {*draft_lens}
        if only
        else _can_win(served.curve.choices[0, place]).union(draft_lens)
        if served is not None and min(case.targets) == np.inf
        else {*range(1, max_draft_len + 1)}
        for place in places
    }
    seen, servers, done = list[PlayedLoads](), list[PlayedServer](), 0
    steps = [(1 + len(lengths[place])) * load.requests[place] for place in places]
    for place, count in zip(places, steps, strict=True):
        part = load.part(place)
        server = played_server(deployment, drafting, part, room, max_draft_len, raises=case.raises)
        servers.append(server)
        with part_of(done, sum(steps)):
            seen.append(played_loads(server, part, [*lengths[place]], case.targets))
        done += count
    played = _joined(seen, load)
    in_step = False
    if served is not None and load.length_range[0] == load.length_range[1]:
        tokens_per_s = cast("EndToEnd", served.end_to_end).tokens_per_s[0, places, 0]
        gain = played.figures[q.TOKENS_PER_S.name][:, 0] / tokens_per_s
        in_step = bool(np.any(gain[served.curve.batch_size[places] > 1] >= _STEP_GAIN))
    if served is None:
        running = np.nan_to_num(played.figures["mean_running"][:, 0])
        batches = np.maximum(running, 1.0).tolist()
        served = in_closed_form(replace(load.steady, batch_size=batches), waits)
        # More than on average may run at a time, and only as many are told.
        if any(server.is_raised for server in servers):
            served = replace(served, told=_told_at_peaks(in_closed_form, played, waits))
    whole = _requests(served, played, places)
    replays = Replays(whole.curve, played, tuple(servers), tuple(places))
    known = fields_of(served, *_SERVED) | {"end_to_end": whole}
    return Outcomes(**known, played=played, replays=replays, in_step=in_step)


def _told_at_peaks(
    in_closed_form: Callable[..., ServedCurve], played: PlayedLoads, room: RoomRule
) -> tuple[Limits, ...]:
    """Return the limits of running requests that loads take, which never run more at once."""
    loads = np.arange(len(played.load.requests))
    peaks = [played.most_running[loads, drafts] for drafts in (0, played.best_draft_len)]
    its_own: tuple[Limits, ...] = ((None, None),) * len(loads)  # told nothing at any load
    plain, drafted = (
        in_closed_form(
            replace(played.load.steady, batch_size=np.fmax(peak, 1.0).tolist()), room
        ).told
        or its_own
        for peak in peaks
    )
    return tuple((off, on) for (off, _), (_, on) in zip(plain, drafted, strict=True))


#: Lengths whose speedup in closed form is at most this share below the best may win when played.
_NEAR: Final = 0.04


def _can_win(choices: Array) -> set[int]:
    """Return the draft lengths that may be best, from their speedups in closed form."""
    drafted = np.where(np.isnan(choices), -np.inf, choices)[1:]
    near = drafted >= (1 - _NEAR) * drafted.max(initial=-np.inf)
    return {int(length) + 1 for length in np.flatnonzero(near)}


def _joined(seen: Sequence[PlayedLoads], load: Load) -> PlayedLoads:
    """Return loads that were played one by one as one."""
    if len(seen) == 1:
        return seen[0]
    played = [place for place, count in enumerate(load.requests) if count]
    kept = replace(
        load,
        batch_size=[load.batch_size[place] for place in played],
        requests=[load.requests[place] for place in played],
        rate=[load.rate[place] for place in played] if load.rate else (),
    )
    return replace(
        seen[0],
        load=kept,
        figures={name: np.concatenate([one.figures[name] for one in seen]) for name in FIGURES},
        running=np.concatenate([one.running for one in seen]),
        most_running=np.concatenate([one.most_running for one in seen]),
        stable_rate=np.fmax.reduce([one.stable_rate for one in seen]),
    )


def _requests(served: ServedCurve, played: PlayedLoads, places: Sequence[int]) -> PlayedRequests:
    """Return played requests by the names of the steady state, which stays where none are."""
    whole = cast("EndToEnd", served.end_to_end)  # requests have lengths
    curve, shape = whole.curve, whole.curve.round_s.shape
    seen = {
        name: values
        for name, values in played.figures.items()
        if values.shape == (len(places), shape[2])
    }
    known = np.zeros(shape, dtype=bool)
    known[0, places] = np.isfinite(seen[q.TOKENS_PER_S.name])

    def mixed(closed: npt.ArrayLike, values: Array) -> Array:
        """Return what was played; elsewhere the closed form, times what playing changed nearby."""
        filled = np.array(np.broadcast_to(closed, shape), dtype=np.float64)
        for place, found, is_known in zip(places, values, known[0, places], strict=True):
            there = filled[0, place]
            with np.errstate(invalid="ignore", divide="ignore"):
                changed = np.where(there > 0, found / there, 1.0)
            near = np.flatnonzero(is_known & np.isfinite(changed))
            if near.any():
                near = near[near > 0]  # drafts, which playing changes otherwise than plain decoding
            if len(near):
                there *= np.interp(np.arange(len(there)), near, changed[near])
            there[is_known] = found[is_known]
        return filled

    tokens = curve.tokens_per_round[0, places]
    running = seen["mean_running"]
    if played.sums_work:
        round_s = tokens * running / seen[q.TOKENS_PER_S.name]
    else:  # of requests that come whatever the server does: as long as an answer takes
        running = running[:, :1] + 0.0 * running
        round_s = tokens * seen["mean_latency_s"] / whole.workload.output_len
        round_s[played.unsustained, 1:] = np.nan  # drafts gain what the length of the load says
    runs, rounds = mixed(curve.running_batch, running), mixed(curve.round_s, round_s)
    token_s = (rounds - whole.decoding_round_s) / curve.tokens_per_round
    delay_s = (token_s * whole.workload.output_len - whole.latency_s) / runs
    added = np.array(np.broadcast_to(curve.request_token_s, shape[:2]))
    added[0, places] = token_s[0, places, 0]
    return PlayedRequests(
        workload=whole.workload,
        wait_s=whole.wait_s,
        latency_s=whole.latency_s,
        curve=replace(curve, round_s=rounds, running=runs, request_token_s=added),
        decoding_round_s=whole.decoding_round_s,
        delay_s=mixed(whole.delay_s, np.maximum(delay_s[0, places], 0.0)),
        first_s=mixed(whole.first_s, seen["mean_ttft_s"] - seen["mean_queue_s"]),
        rules=whole.rules,
        tokens_per_s=mixed(whole.tokens_per_s, seen["tokens_per_s"]),
        requests_per_s=mixed(whole.requests_per_s, seen["requests_per_s"]),
        answer_s=mixed(whole.answer_s, seen["mean_latency_s"]),
        queue_s=mixed(whole.queue_s, seen["mean_queue_s"]),
        ttft_s=mixed(whole.ttft_s, seen["mean_ttft_s"]),
        p99_ttft_s=mixed(whole.ttft_s, seen["p99_ttft_s"]),
        tpot_s=mixed(whole.tpot_s, seen["mean_tpot_s"]),
        p99_tpot_s=mixed(whole.tpot_s, seen["p99_tpot_s"]),
        sums_work=played.sums_work,
    )
