"""The advice for one chip, load by load: drafter, drafts, speed, price and limits."""

import math
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.acceptance import Acceptance, constant_acceptance
from specroof.architecture import Architecture
from specroof.arrays import Array, array_within, number_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect, refuse
from specroof.hardware import IDEAL_ENGINE, HardwareProfile, Placement
from specroof.latency import Deployment, Setup, check_placement, engine_setup
from specroof.policies.bottlenecks import RoundBreakdown, bottlenecks
from specroof.policies.decision import Choice, Verdict, best_choice
from specroof.policies.schedule import Day, Traffic, advised_day, best_schedule, drafts_at
from specroof.questions.predict import Prediction, lengths_of
from specroof.questions.request import (
    DrafterLike,
    HardwareLike,
    ModelLike,
    OptionsLike,
    ServerLike,
    Values,
    as_list,
    drafters_of,
    engine_name,
    model_of,
    options_of,
    refuse_one_token,
    server_of,
)
from specroof.questions.traffic import Mix, TrafficFile, traffic_of
from specroof.serving.capacity import in_server, served_room
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.launch import DRAFT_MODEL, LAUNCHERS
from specroof.serving.served import served_curve
from specroof.serving.workload import Workload
from specroof.speedup.inverses import least_rate
from specroof.speedup.price import usd_per_million_tokens
from specroof.speedup.result import SpeedupCurve
from specroof.units import MILLISECOND

# --- The advice at each load: values -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Targets:
    """What users are promised; None for no promise.

    Parameters
    ----------
    ttft_ms, tpot_ms
        Milliseconds until the first token, and of each token after it.
    min_speedup
        The least speedup that is worth it.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    min_speedup: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft_ms", "tpot_ms", "min_speedup"):
            if getattr(self, name) is not None:
                number_within(name, getattr(self, name), "target")

    @property
    def least_speedup(self) -> float:
        """The speedup from which drafting pays."""
        return max(1.0, self.min_speedup or 1.0)

    def met(self, ttft_s: Any, tpot_s: Any) -> Any:
        """Return whether waits are short enough."""
        first = np.inf if self.ttft_ms is None else self.ttft_ms
        each = np.inf if self.tpot_ms is None else self.tpot_ms
        in_time = np.asarray(ttft_s) <= first * MILLISECOND
        return in_time & (np.asarray(tpot_s) <= each * MILLISECOND)


@dataclass(frozen=True, slots=True)
class Times:
    """What a server gives at one load.

    Parameters
    ----------
    tokens_per_s
        Output tokens of all requests, prefills counted.
    ttft_s, tpot_s
        Seconds until the first token, waiting included, and of each token after it.
    usd_per_million_tokens
        None where no price is known.
    running
        Requests that are decoded at a time.
    """

    tokens_per_s: float
    ttft_s: float
    tpot_s: float
    usd_per_million_tokens: float | None
    running: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The least acceptance that pays; None where none is enough.

    Parameters
    ----------
    rate
        Of each draft, all alike.
    tokens_per_round
        What a round commits then, bonus token included.
    """

    rate: float | None
    tokens_per_round: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One load.

    Parameters
    ----------
    concurrency
        Requests in flight.
    drafter, tried
        The best one here, by its place, None where it is off; and the one that comes nearest.
    draft_len
        Drafts per round; 0 is off.
    choice
        The best drafts, and their speedup with its band.
    times, plain
        What the server gives so, and without drafts.
    point
        The round that was tried, in seconds; None where there is none.
    meets
        Whether the targets are met.
    least
        The speedup from which drafting pays.
    own
        Speedups of the lengths that the user named, by drafter and length.
    break_even
        The least acceptance of the drafts that were tried.
    """

    concurrency: float
    drafter: int | None
    draft_len: int
    choice: Choice
    times: Times
    plain: Times
    point: RoundBreakdown | None
    meets: bool
    least: float = 1.0
    tried: int = 0
    own: dict[tuple[int, int], float] = field(default_factory=dict)
    break_even: BreakEven = field(default_factory=lambda: BreakEven(None, None))

    @property
    def verdict(self) -> Verdict:
        """Whether drafting pays here."""
        return self.choice.verdict

    @property
    def speedup(self) -> tuple[float, float, float]:
        """The speedup of the advised drafts, with its band; 1 where drafting is off."""
        if self.draft_len == 0:
            return 1.0, 1.0, 1.0
        return self.choice.speedup, self.choice.low, self.choice.high

    @property
    def bottlenecks(self) -> dict[str, float]:
        """Speedup without each thing that holds it back, the largest first."""
        return {} if self.point is None else bottlenecks(self.point)

    @property
    def bottleneck(self) -> str:
        """What holds the speedup back most; empty where nothing does."""
        return next(iter(self.bottlenecks), "")


@dataclass(frozen=True, slots=True)
class Advised:
    """What to do at all loads of a chip.

    Parameters
    ----------
    rows
        The loads that were asked about.
    chosen
        The drafter to start the server with, by its place.
    schedule
        First and last load, and drafts, from 1 on.
    lost
        Mean share of throughput that the few ranges lose, every load alike; None of a day.
    is_tree, nodes
        Whether the drafter branches, and the drafts of its tree.
    capacity
        The most requests without drafts and with, and their limits; None for endless memory.
    warnings
        Sentences for the reader.
    day
        What the traffic of a day gains; None where none was given.
    """

    rows: tuple[Row, ...]
    chosen: int
    schedule: tuple[tuple[int, int, int], ...]
    lost: float | None
    is_tree: bool
    nodes: int
    capacity: dict[str, Any] | None
    warnings: tuple[str, ...]
    day: Day | None = None

    def drafts(self, load: float) -> int:
        """Return the drafts of the schedule at a load; beyond the last range, its own."""
        return drafts_at(self.schedule, load)

    @property
    def reached(self) -> tuple[tuple[int, int, int], ...]:
        """The ranges that a server with drafts comes to, which runs what it has room for."""
        if self.capacity is None:
            return self.schedule
        most = max(self.capacity["speculative"]["largest_batch"], 1)
        return tuple(one for one in self.schedule if one[0] <= most)


# --- The request for advice, checked: loads, sizes, targets and devices --------------------------

#: Default requests in flight.
USUAL_LOADS: Final = (1, 8, 32, 64, 128)
#: Requests in flight up to which arrivals are answered.
_MOST_IN_FLIGHT: Final = 1024
#: Devices that are tried, beside those that a link joins.
_MOST_DEVICES: Final = 64


@dataclass(frozen=True)
class AdviseRequest:
    """Ask whether speculative decoding pays, and how to set it up.

    Parameters
    ----------
    model
        A path, a bundled name, a Hub name, or an `Architecture`.
    hardware
        One chip or several: paths, names, aliases, or `HardwareProfile` objects.
    drafters
        One or several: SPECs, or `Drafter` objects, each with its acceptance.
    input_len, output_len
        Tokens of a prompt and of an answer; a mix in `traffic` takes their place.
    prefix_hit_rate
        Share of a prompt's tokens that the server has cached already; 0 if None.
    waves
        Whether requests come together: all at once, and the next when all of these are answered.
        Not with `traffic`.
    concurrency
        Requests in flight, a number or a list; if None, the least, median and largest of
        `traffic`, else 1, 8, 32, 64 and 128.
    draft_len
        The drafts per round to choose from; any number if None.
    framework
        The server software, whose engine predicts and whose flags are written; if None, the
        chip's default engine, and flags of vLLM and SGLang.
    draft_model
        A Hub name or folder with the drafter's weights, for the flags.
    ttft_ms, tpot_ms, min_speedup
        Targets: the wait for the first token, the time of each token after it, the speedup.
    price_per_hour
        US dollars for an hour of one device; the hardware file's price if None.
    traffic
        A file with the load of each hour, or a `TrafficFile`; None for the loads alone.
    tensor_parallel
        Devices; as few as the model fits on if None.
    expert_parallel, attention_data_parallel
        Devices that share the experts, and groups of devices that attend to separate sequences.
    engine
        An engine of the hardware profile, instead of the framework's.
    options
        `Options`, or a mapping of their names.
    server
        Settings of the server, as for ``--server``.
    family
        Read the config as this model_type.

    Examples
    --------
    >>> from specroof import advise
    >>> found = advise(
    ...     "Qwen/Qwen3-8B",
    ...     "h100",
    ...     drafters="eagle3,accept-length=2.8@3",
    ...     input_len=1000,
    ...     output_len=500,
    ...     concurrency=[1, 8],
    ... )
    >>> found.decision
    'on'
    """

    model: ModelLike
    hardware: HardwareLike | Sequence[HardwareLike]
    _: KW_ONLY
    drafters: DrafterLike | Sequence[DrafterLike]
    input_len: float | None = None
    output_len: float | None = None
    prefix_hit_rate: float | None = None
    waves: bool = False
    concurrency: Values | None = None
    draft_len: int | Sequence[int] | None = None
    framework: str | None = None
    draft_model: str | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    min_speedup: float | None = None
    price_per_hour: float | None = None
    traffic: str | os.PathLike[str] | TrafficFile | None = None
    tensor_parallel: int | None = None
    expert_parallel: int = 1
    attention_data_parallel: int = 1
    engine: str | None = None
    options: OptionsLike | None = None
    server: ServerLike | None = None
    family: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, checked: its parameters, what they name, and what follows."""

    request: AdviseRequest
    model: Architecture
    drafters: tuple[Drafter, ...]
    workload: Workload
    context_len: float
    loads: tuple[float, ...]
    lengths: tuple[int, ...] | None
    targets: Targets
    traffic: Traffic | None


def checked(request: AdviseRequest) -> Asked:
    """Return a request's parameters, checked.

    Raises
    ------
    SpecroofError
        For a value that is not allowed, and a traffic file that cannot be read.
    """
    day = None if request.traffic is None else traffic_of(request.traffic)
    traffic = None if day is None else day.traffic
    loads = _usual_loads(traffic) if request.concurrency is None else as_list(request.concurrency)
    batches = array_within("concurrency", loads, "batch_size")
    expect("waves", request.waves, bool, "True or False")
    if request.waves and day is not None:
        refuse("waves", request.waves, "False with traffic, whose requests come when they come")
    lengths = lengths_of(request.draft_len) or None
    expect("draft_model", request.draft_model, str | None, DRAFT_MODEL)
    expect("framework", request.framework, str | None, ", ".join(LAUNCHERS))
    if request.framework is not None and engine_name(request.framework) not in LAUNCHERS:
        refuse("framework", request.framework, ", ".join(LAUNCHERS))
    if request.price_per_hour is not None:
        number_within("price_per_hour", request.price_per_hour, "usd_per_hour")
    targets = Targets(request.ttft_ms, request.tpot_ms, request.min_speedup)
    workload, context_len = _sizes(request, None if day is None else day.mix)
    asked_loads = tuple(sorted({*batches.tolist()}))
    request = replace(request, framework=engine_name(request.framework))
    model, drafters = model_of(request.model, request.family), drafters_of(request.drafters)
    if not drafters:
        message = "drafters is empty; allowed: at least one drafter (--drafter SPEC)"
        raise OptionError(message)
    served = request, model, tuple(drafters)
    return Asked(*served, workload, context_len, asked_loads, lengths, targets, traffic)


def _sizes(request: AdviseRequest, mix: Mix | None) -> tuple[Workload, float]:
    """Return the mean request, and the mean context while answers are decoded."""
    given = (request.input_len, request.output_len)
    cached = 0.0 if request.prefix_hit_rate is None else request.prefix_hit_rate
    if mix is not None:
        if given != (None, None):
            message = "input_len or output_len is given with a mix in traffic; allowed: one of both"
            raise OptionError(message)
        workload = replace(mix.workload, prefix_hit_rate=cached)
        refuse_one_token(workload)
        return workload, mix.mean_context_len
    for name, value in zip(("input_len", "output_len"), given, strict=True):
        if value is None:
            message = f"{name} is missing; allowed: both lengths of a request (tokens in and out), or a mix in traffic"
            raise OptionError(message)
    workload = Workload(*given, cached, request.waves)  # type: ignore[arg-type]  # none of them is None
    refuse_one_token(workload)
    return workload, workload.mean_context_len


def _usual_loads(traffic: Traffic | None) -> Sequence[float]:
    """Return the default loads: of a day the least, usual and largest."""
    if traffic is None or traffic.unit != "concurrency":
        return USUAL_LOADS
    busy = [max(1.0, load) for load in traffic.loads if load]
    return [min(busy), round(np.median(busy)), max(busy)]


def engine_of(request: AdviseRequest, profile: HardwareProfile) -> str | None:
    """Return the engine that predicts: as asked for, else the chip's for the framework."""
    if request.engine is not None:
        return engine_name(request.engine)
    return None if profile.owns(request.framework) else request.framework


def joined_devices(profile: HardwareProfile) -> int:
    """Return the largest number of devices to try: as many as one link joins."""
    link = profile.interconnect
    return 1 if link is None else min(link.max_devices, _MOST_DEVICES)


def setup_on(asked: Asked, profile: HardwareProfile) -> Setup | None:
    """Return the setup with as many devices as asked for, or as few as hold the model.

    None is no room: for the model on those that were asked for, for it and any of its drafters on
    as many as can be joined.
    """
    request, model = asked.request, asked.model
    engine, options = engine_of(request, profile), options_of(request.options)

    def setup_of(devices: int) -> Setup:
        place = Placement(devices, request.expert_parallel, request.attention_data_parallel)
        check_placement(model, place)
        setup = engine_setup(profile, engine, place, options)
        return in_server(model, setup, server_of(request.server))

    if request.tensor_parallel is not None:
        setup = setup_of(request.tensor_parallel)
        endless = setup.engine == IDEAL_ENGINE  # whose memory is not counted
        return setup if endless or _has_room(asked, setup, None) else None
    for power in range(joined_devices(profile).bit_length()):
        try:
            setup = setup_of(2**power)
        except OptionError:  # it does not divide
            continue
        if all(_has_room(asked, setup, one) for one in (None, *asked.drafters)):
            return setup
    return None


def _has_room(asked: Asked, setup: Setup, drafter: Drafter | None) -> bool:
    held = asked.workload.input_len + asked.workload.output_len
    positions = 1.0 + (drafter is not None)
    room = served_room(
        Deployment(asked.model, setup), context_len=held, drafter=drafter, verify_len=positions
    )
    return bool(room.largest_batch >= 1)


def grid_of(asked: Asked) -> list[float]:
    """Return the loads, and two in each doubling up to the largest: a schedule needs its edges."""
    loads = [1.0, *asked.loads]
    if asked.traffic is not None:
        arrive = asked.traffic.unit != "concurrency"
        loads.append(_MOST_IN_FLIGHT if arrive else max(1.0, *asked.traffic.loads))
    doublings = int(math.log2(max(loads))) + 1
    between = {float(step * 2**power) for power in range(doublings) for step in (2, 3)}
    return sorted({*map(float, loads), *(load for load in between if load < max(loads))})


#: Ranges of a schedule, at most; a further one must gain this share of throughput.
_MOST_RANGES: Final = 4
_LEAST_GAIN: Final = 0.002


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The arrays of one drafter, axes (load, draft_len)."""

    whole: EndToEnd
    allowed: npt.NDArray[np.bool_]
    ttft_s: Array
    tpot_s: Array
    low: Array
    high: Array

    @property
    def speedup(self) -> Array:
        return np.asarray(self.whole.speedup[0])

    @property
    def tokens_per_s(self) -> Array:
        return np.asarray(self.whole.tokens_per_s[0])


def advised_rows(asked: Asked, prediction: Prediction, usd_per_hour: float | None) -> Advised:
    """Return the advice for each load.

    Parameters
    ----------
    asked
        The question: loads, drafts to choose from, targets, and traffic that schedules are made
        for; without any, every load counts the same.
    prediction
        Curves with prefills counted, at these loads and others.
    usd_per_hour
        Price of one device; None if not known.
    """
    lengths, targets, traffic = asked.lengths, asked.targets, asked.traffic
    grids = [_grid_of(whole, lengths) for whole in prediction.counted]
    batches = list(prediction.load.batch_size)
    choices = [[_choice(grid, i, targets) for i in range(len(batches))] for grid in grids]
    days = [] if traffic is None else [_day(grid, batches, traffic) for grid in grids]
    chosen = _best_drafter(choices) if not days else _largest([day.gain for day in days])
    own = _own_lengths(prediction, lengths)
    hourly = None if usd_per_hour is None else usd_per_hour * prediction.setup.placement.devices
    rows = []
    for load in asked.loads:
        i = batches.index(load)
        best = _largest([of_drafter[i].speedup for of_drafter in choices])
        row = _row(grids[best], i, choices[best][i], hourly, targets)
        named = {(d, k): float(grids[d].speedup[i, k]) for d, k in own}
        row = replace(row, drafter=best if row.draft_len else None, tried=best, own=named)
        rows.append(replace(row, break_even=_break_even(prediction, row)))
    grid = grids[chosen]
    day = days[chosen] if days else None
    ranges, lost = _ranges(grid, batches, targets) if day is None else (day.schedule, None)
    drafts = max(k for _, _, k in ranges)
    verified = grid.whole.curve.verify_len
    return Advised(
        rows=tuple(rows),
        chosen=chosen,
        schedule=ranges,
        lost=lost,
        day=day,
        is_tree=bool(verified[drafts] != drafts + 1),
        nodes=int(verified[drafts]) - 1,
        capacity=_capacity(prediction, chosen, drafts),
        warnings=tuple(_warnings(rows, targets)),
    )


def _grid_of(whole: EndToEnd, lengths: Sequence[int] | None) -> _Grid:
    curve = whole.curve
    # Without a band, both ends are the speedups themselves.
    low, high = (
        curve.speedup if end is None else end for end in (curve.speedup_low, curve.speedup_high)
    )
    allowed = np.isfinite(curve.tokens_per_round[0, 0])
    if lengths is not None:
        allowed &= np.isin(curve.draft_len, [0, *lengths])
    return _Grid(whole, allowed, whole.ttft_s[0], whole.tpot_s[0], low[0], high[0])


def _choice(grid: _Grid, i: int, targets: Targets) -> Choice:
    return best_choice(
        grid.speedup[i],
        low=grid.low[i],
        high=grid.high[i],
        allowed=_allowed(grid, i, targets),
        least=targets.least_speedup,
    )


def _allowed(grid: _Grid, i: int, targets: Targets) -> npt.NDArray[np.bool_]:
    """Return the lengths to choose from at a load: those that meet the targets, if any does."""
    meets = targets.met(grid.ttft_s[i], grid.tpot_s[i]) & grid.allowed
    return np.asarray(meets if meets.any() else grid.allowed)


def _best_drafter(choices: Sequence[Sequence[Choice]]) -> int:
    """Return the drafter with the largest mean speedup over the loads, off where it loses."""
    means = [float(np.mean([max(1.0, one.speedup) for one in row])) for row in choices]
    return _largest(means)


def _largest(values: Sequence[float]) -> int:
    return values.index(max(values))


def _day(grid: _Grid, batches: Sequence[float], traffic: Traffic) -> Day:
    return advised_day(
        traffic,
        batches,
        _rates(grid),
        output_len=grid.whole.workload.output_len,
        most_ranges=_MOST_RANGES,
    )


def _rates(grid: _Grid) -> Array:
    """Return the throughput of the allowed lengths; NaN for all others."""
    return np.where(grid.allowed[None, :], grid.tokens_per_s, np.nan)


def _ranges(
    grid: _Grid, batches: Sequence[float], targets: Targets
) -> tuple[tuple[tuple[int, int, int], ...], float]:
    """Return the schedule of lengths that may be taken at each load, and what merging loses."""
    taken = np.stack([_allowed(grid, i, targets) for i in range(len(batches))])
    if targets.least_speedup > 1.0:
        taken &= grid.speedup > targets.least_speedup
    taken[:, 0] = True
    schedule = best_schedule(
        [round(batch) for batch in batches],
        np.where(taken, _rates(grid), np.nan),
        most_ranges=_MOST_RANGES,
        least_gain=_LEAST_GAIN,
    )
    return schedule.ranges, schedule.lost


def _own_lengths(prediction: Prediction, lengths: Sequence[int] | None) -> list[tuple[int, int]]:
    """Return the lengths that the user named: to choose from, or to measure acceptance with."""
    found = []
    for d, (drafter, curve) in enumerate(zip(prediction.drafters, prediction.curves, strict=True)):
        depth = getattr(drafter.acceptance, "measured_depth", None)
        own = lengths if lengths is not None else ([] if depth is None else [depth])
        found += [(d, k) for k in own if 0 < k < len(curve.draft_len)]
    return found


def _row(grid: _Grid, i: int, choice: Choice, usd_per_hour: float | None, targets: Targets) -> Row:
    times = _times(grid, i, choice.draft_len, usd_per_hour)
    return Row(
        concurrency=float(grid.whole.curve.batch_size[i]),
        drafter=None,
        draft_len=choice.draft_len,
        choice=choice,
        times=times,
        plain=_times(grid, i, 0, usd_per_hour),
        point=_point(grid, i, choice.tried) if choice.tried else None,
        meets=bool(targets.met(times.ttft_s, times.tpot_s)),
        least=targets.least_speedup,
    )


def _times(grid: _Grid, i: int, k: int, usd_per_hour: float | None) -> Times:
    rate = float(grid.tokens_per_s[i, k])
    usd = None
    if usd_per_hour is not None and np.isfinite(rate):
        usd = float(usd_per_million_tokens(rate, devices=1, usd_per_hour=usd_per_hour))
    running = np.broadcast_to(grid.whole.curve.running_batch[0], grid.speedup.shape)
    return Times(
        rate, float(grid.ttft_s[i, k]), float(grid.tpot_s[i, k]), usd, float(running[i, k])
    )


def _point(grid: _Grid, i: int, k: int) -> RoundBreakdown:
    """Return a round of some drafts beside the plain step."""
    whole, curve = grid.whole, grid.whole.curve
    running = np.broadcast_to(curve.running_batch[0], grid.speedup.shape)[i]
    tokens = curve.tokens_per_round[0, i]
    output_len = whole.workload.output_len
    delay_s, round_s = whole.delay_s[0, i], whole.decoding_round_s[0, i]
    return RoundBreakdown(
        draft_len=k,
        tokens_per_round=float(tokens[k]),
        draft_s=float(curve.draft_s[0, i, k]),
        verify_s=float(curve.verify_s[0, i, k]),
        round_s=float(round_s[k]),
        decode_s=float(round_s[0]),
        running=float(running[k]),
        plain_running=float(running[0]),
        wait_s=float(delay_s[k]),
        plain_wait_s=float(delay_s[0]),
        latency_s=whole.latency_s,
        output_len=output_len,
    )


def _break_even(prediction: Prediction, row: Row) -> BreakEven:
    """Return the least acceptance that pays, with what drafting takes at that acceptance."""
    if row.point is None:
        return BreakEven(None, None)
    drafter, drafts = prediction.drafters[row.tried], row.point.draft_len
    load = replace(prediction.load, batch_size=[row.concurrency])

    def curve(acceptance: Acceptance) -> SpeedupCurve:
        return served_curve(
            prediction.deployment,
            drafter,
            load,
            prediction.room,
            max_draft_len=drafts,
            acceptance=acceptance,
        ).curve

    rate = least_rate(
        lambda acceptance: (float(curve(acceptance).speedup[0, 0, drafts]), drafts), row.least
    ).value
    if rate is None:
        return BreakEven(None, None)
    tokens = curve(constant_acceptance(rate)).tokens_per_round[0, 0, drafts]
    return BreakEven(rate, float(tokens))


def _capacity(prediction: Prediction, chosen: int, drafts: int) -> dict[str, Any] | None:
    """Return the most requests without drafts and with; None where memory has no end."""
    if not prediction.limits:
        return None
    limits = prediction.limits[chosen]
    sides = {"plain": 0, "speculative": drafts}
    return {
        name: {
            "largest_batch": int(limits.largest[0, k]),
            "bound_by": str(limits.bound_by[0, k]),
        }
        for name, k in sides.items()
    }


def _warnings(rows: Sequence[Row], targets: Targets) -> list[str]:
    """Return the targets that no load meets, each with the best that a load reaches."""
    found = []
    for name, what in (("ttft", "TTFT"), ("tpot", "TPOT")):
        target_ms = getattr(targets, f"{name}_ms")
        waits = {row.concurrency: getattr(row.times, f"{name}_s") / MILLISECOND for row in rows}
        load = min(waits, key=lambda one: np.nan_to_num(waits[one], nan=np.inf))
        if target_ms is not None and not waits[load] <= target_ms:
            found.append(
                f"a {what} of {target_ms:g} ms is out of reach: the least is {waits[load]:.3g} ms, "
                f"at {load:g} in flight"
            )
    most = max(rows, key=lambda row: row.choice.speedup)
    if targets.min_speedup is not None and most.choice.speedup < targets.min_speedup:
        found.append(
            f"a speedup of {targets.min_speedup:g} is out of reach: the most is "
            f"{most.choice.speedup:.2f}x, at {most.concurrency:g} in flight"
        )
    return found
