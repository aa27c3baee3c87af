"""What can each user and each device get, and what is the cheapest point fast enough?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import numpy as np

from specroof.arrays import Array, fields_of, number_within, whole_within
from specroof.drafters import Drafter
from specroof.errors import Note, OptionError, refuse
from specroof.hardware import HardwareProfile
from specroof.latency import Deployment
from specroof.questions.answer import Charted
from specroof.questions.curve_tables import compared_on
from specroof.questions.played_loads import (
    beyond_warnings,
    largest_rates_line,
    played_load,
    told,
)
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import (
    BATCH,
    CHIPS,
    FORMULAS,
    TPOT,
    TTFT,
    Command,
    ContextLen,
    Drafters,
    HardwareLike,
    MemoryLimits,
    Parameter,
    PlayedRequest,
    PricePerHour,
    Values,
    WorkerRequest,
    as_list,
    drafters_of,
    hardware_of,
    load_of,
    model_of,
    numbers,
    price_notes,
    question,
    refuse_one_token,
    unique_list,
    usd_per_hour,
    words,
)
from specroof.report.layout import ABSENT, figure, format_table, in_line, page
from specroof.serving.played import largest_rate, played_server
from specroof.serving.served import room_rule
from specroof.serving.workload import Load, Workload, workload_json
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN
from specroof.speedup.price import Frontier, frontier_of, price_and_energy
from specroof.speedup.reach import nearness
from specroof.speedup.result import within_measured
from specroof.units import MILLION, MILLISECOND, format_price, format_seconds

if TYPE_CHECKING:
    from specroof.serving.split import Split

#: Default batch sizes.
USUAL_BATCHES: Final = tuple(
    sorted({step * 2.0**power for power in range(12) for step in (1.0, 2.0, 3.0)} - {6144.0})
)


#: The series without drafts.
PLAIN: Final = "plain"


@dataclass(frozen=True)
class FrontierRequest(WorkerRequest, PlayedRequest):
    """Ask what each user and each device can get.

    Examples
    --------
    >>> from specroof import frontier
    >>> found = frontier("Qwen/Qwen3-8B", "h100", drafters="eagle3,accept=0.7", tpot_s=0.005)
    >>> [one.name for one in found.series]
    ['plain', 'eagle3,accept=0.7']
    """

    hardware: Annotated[  # type: ignore[assignment]  # chips to compare, of which each is asked about
        HardwareLike | Sequence[HardwareLike],
        replace(CHIPS, in_python="Or `HardwareProfile` objects; in Python a list.", read=words),
    ]
    _: KW_ONLY
    drafters: Drafters
    batch_size: Annotated[
        Values | None,
        replace(
            BATCH,
            shown="1,2,3,4,6,8,…,4096",
            in_python="Only those count that the server has room for.",
        ),
    ] = None
    context_len: ContextLen = None
    devices: Annotated[
        Values | None,
        Parameter(
            "Numbers of devices (tensor parallelism) to compare, a number or a list.",
            about_flag="Numbers of devices to compare, comma-separated.",
            read=numbers,
            shown="--tp",
        ),
    ] = None
    max_draft_len: Annotated[
        int | None, Parameter("Longest draft tried.", shown=str(DEFAULT_MAX_DRAFT_LEN))
    ] = None
    tpot_s: Annotated[
        float | None,
        replace(
            TPOT, about="Seconds per output token that a user may wait, for the cheapest point."
        ),
    ] = None
    ttft_s: Annotated[
        float | None,
        replace(
            TTFT,
            about="Seconds to the first token of a request that a user may wait: slower points do "
            "not count. Of played requests both targets are of p99.",
        ),
    ] = None
    price_per_hour: PricePerHour = None
    capacity: MemoryLimits = None


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One way to serve.

    Parameters
    ----------
    devices, batch_size, draft_len
        Over how many devices, how many sequences together, how many drafts per round.
    tokens_per_s_per_user, tokens_per_s_per_device
        What each gets: of requests, a user after the first token and a device with prefills.
    tokens_per_s_per_device_low, tokens_per_s_per_device_high
        Ends of the band that holds 80% of measurements; None where there is no band.
    usd_per_million_tokens, joules_per_million_tokens
        Of output tokens; None where price or watts are unknown.
    ttft_s
        Seconds to the first token of a request; None where a context was asked about.
    rate
        Requests that arrive in a second; None of a closed loop. `batch_size` is then how many run
        on average. Times are means; targets of played requests are of p99.
    running
        The limit of running requests that the server is told for this point; None where its
        default is enough.
    largest_stable_rate
        Requests per second that the server answers at most with these drafts; None where none
        arrive.
    reason
        ``unsustained`` where it answers fewer than arrive: times then grow with the length of the
        load. Else empty.
    """

    devices: int
    batch_size: float
    draft_len: int
    tokens_per_s_per_user: float
    tokens_per_s_per_device: float
    usd_per_million_tokens: float | None
    joules_per_million_tokens: float | None
    ttft_s: float | None
    rate: float | None = None
    tokens_per_s_per_device_low: float | None = None
    tokens_per_s_per_device_high: float | None = None
    running: int | None = None
    largest_stable_rate: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LargestRate:
    """The most requests that a series serves within the targets on so many devices.

    Parameters
    ----------
    devices, draft_len
        Over how many devices, and with how many drafts per round.
    rate
        Requests that arrive in a second, to 1%.
    """

    devices: int
    rate: float
    draft_len: int


@dataclass(frozen=True, slots=True)
class Series:
    """The frontier of plain decoding, or of one drafter.

    Parameters
    ----------
    name
        `PLAIN`, or the drafter's.
    points
        Those that no other of the series beats, from many users to fast ones.
    cheapest
        The cheapest of them within the wanted time per token; None where none is as fast.
    by_default
        The cheapest under the default limits of the server.
    largest_rates
        Of requests at a rate, with targets: the largest on each number of devices that serves any.
    """

    name: str
    points: tuple[FrontierPoint, ...]
    cheapest: FrontierPoint | None
    by_default: FrontierPoint | None
    largest_rates: tuple[LargestRate, ...] = ()


def _most_tokens(
    points: Sequence[tuple[str, FrontierPoint | None]],
) -> tuple[str, FrontierPoint] | None:
    known = [(name, point) for name, point in points if point is not None]
    return max(known, key=lambda one: one[1].tokens_per_s_per_device, default=None)


@dataclass(frozen=True, slots=True)
class ChipFrontier:
    """The frontiers of one chip.

    Parameters
    ----------
    hardware, engine
        Names.
    usd_per_hour
        Price of one device; None if not known.
    series
        Plain decoding, then each drafter.
    reach
        How near measurements are to the cheapest point, as `specroof.speedup.reach.nearness` says
        it; None where no point is fast enough, and for an engine that does not know its evidence.
    """

    hardware: str
    engine: str
    usd_per_hour: float | None
    series: tuple[Series, ...]
    reach: dict[str, Any] | None

    @property
    def cheapest(self) -> tuple[str, FrontierPoint] | None:
        """The series and the point with most tokens of each device that is fast enough."""
        return _most_tokens([(one.name, one.cheapest) for one in self.series])

    @property
    def by_default(self) -> tuple[str, FrontierPoint] | None:
        """The same under the default limits of the server."""
        return _most_tokens([(one.name, one.by_default) for one in self.series])

    @property
    def records(self) -> list[dict[str, Any]]:
        """Every point of every frontier, with the chip and the name of its series."""
        return [
            {
                "hardware": self.hardware,
                "series": one.name,
                **asdict(point),
                "is_cheapest": point == one.cheapest,
            }
            for one in self.series
            for point in one.points
        ]


@dataclass(frozen=True, repr=False, eq=False)
class FrontierAnswer(Charted):
    """What each user and each device can get.

    Attributes
    ----------
    model
        Its name.
    context_len, tpot_s, ttft_s, workload
        What was asked about; `workload` is None unless these were requests.
    chips
        The frontiers of each chip, that of the cheapest tokens first; by tokens of each device
        where a price is not known. Chips without a point that is fast enough stand at the end.
    notes, warnings
        Sentences for the reader.
    """

    model: str
    context_len: float
    tpot_s: float | None
    ttft_s: float | None
    workload: Workload | None
    chips: tuple[ChipFrontier, ...]

    @property
    def hardware(self) -> str:
        """The chips, separated by commas."""
        return ", ".join(chip.hardware for chip in self.chips)

    @property
    def engine(self) -> str:
        """The engines of the chips, separated by commas."""
        return ", ".join(dict.fromkeys(chip.engine for chip in self.chips))

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        load = self.workload.requests if self.workload else f"context {self.context_len:g}"
        engine = f"engine{'s' * (', ' in self.engine)} {self.engine}"
        return f"{self.model} on {self.hardware}, {engine}, {load}"

    def text(self) -> str:
        """Return a frontier for each series with its cheapest point marked, and the cheapest."""
        return frontier_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of the frontiers."""
        return {"": frontier_chart(self)}

    @property
    def series(self) -> tuple[Series, ...]:
        """Plain decoding and each drafter, chip by chip."""
        return tuple(one for chip in self.chips for one in chip.series)

    @property
    def cheapest(self) -> tuple[str, FrontierPoint] | None:
        """The series and the point of the cheapest tokens that come fast enough."""
        return self.chips[0].cheapest

    @property
    def records(self) -> list[dict[str, Any]]:
        """Every point of every frontier, with its chip and the name of its series."""
        return [row for chip in self.chips for row in chip.records]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of that table, which has no rows where no batch has room."""
        return ["hardware", "series", *(one.name for one in fields(FrontierPoint)), "is_cheapest"]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints; several chips stand in a list."""
        chips = [
            {
                "model": self.model,
                "hardware": chip.hardware,
                "engine": chip.engine,
                **fields_of(self, "context_len", "tpot_s", "ttft_s"),
                **workload_json(self.workload),
                "usd_per_hour": chip.usd_per_hour,
                "points": chip.records,
                **{
                    name: best and {"series": best[0], **asdict(best[1])}
                    for name, best in (
                        ("cheapest", chip.cheapest),
                        ("by_default", chip.by_default),
                    )
                },
                "largest_rates": [
                    {"series": one.name, **asdict(largest)}
                    for one in chip.series
                    for largest in one.largest_rates
                ],
                "reach": chip.reach,
            }
            for chip in self.chips
        ]
        return {**(chips[0] if len(chips) == 1 else {"chips": chips}), **self.messages}


@question(FrontierRequest)
def frontier(request: FrontierRequest) -> FrontierAnswer:
    """Find the best speeds per user and per device, with speculation and without."""
    load, model = _load(request), model_of(request.model, request.family)
    chips, notes, warnings = list[ChipFrontier](), list[str](), list[str]()
    profiles = unique_list("hardware", request.hardware, hardware_of)
    if not profiles:
        refuse("hardware", request.hardware, "one chip or more")
    for profile in profiles:
        here = replace(request, model=model, family=None, hardware=profile)
        found, left_out = _frontiers(here, load)
        chips.append(_chip(here, profile, found))
        place = f"{profile.name}: " if len(profiles) > 1 else ""
        for note in _money_notes(profile, chips[-1].usd_per_hour):
            notes.append(Note(f"{place}{note}", f"{place}{getattr(note, 'short', note)}"))
        notes += [note for one in found for note in one.notes]
        warnings += [f"{place}{warning}" for warning in left_out]
        warnings += [f"{place}{warning}" for one in found for warning in one.warnings]
    return FrontierAnswer(
        model=model.name,
        context_len=load.context_len[0],
        **fields_of(request, "tpot_s", "ttft_s"),
        workload=load.workload,
        chips=tuple(sorted(chips, key=_rank)),
        notes=tuple(dict.fromkeys(notes)),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _chip(
    request: FrontierRequest, profile: HardwareProfile, found: Sequence["_DeviceFrontiers"]
) -> ChipFrontier:
    """Return the frontiers of a chip over all numbers of devices."""
    setup, split = found[0].deployment.setup, found[0].split
    usd = usd_per_hour(profile, request.price_per_hour)
    watts = None if profile.power is None else profile.power.watts
    if split is not None:
        usd = split.mean(setup, lambda chip: usd_per_hour(chip, request.price_per_hour))
        watts = split.mean(setup, lambda chip: None if chip.power is None else chip.power.watts)
    series = tuple(
        replace(
            _series(name, [one.columns[i] for one in found], request, usd, watts),
            largest_rates=tuple(rate for one in found if (rate := one.largest_rates[i])),
        )
        for i, name in enumerate(found[0].names)
    )
    chip = ChipFrontier(setup.hardware.name, setup.engine.name, usd, series, None)
    if chip.cheapest is None:
        return chip
    name, point = chip.cheapest
    (deployment,) = (one.deployment for one in found if one.devices == point.devices)
    kinds = [] if name == PLAIN else [name.partition(",")[0]]
    return replace(
        chip, reach=nearness(deployment, kinds, found[0].context_len, [point.batch_size])
    )


def _rank(chip: ChipFrontier) -> tuple[bool, float, float]:
    """Return the key that chips are ranked by: the price of tokens, then tokens of each device."""
    if chip.cheapest is None:
        return True, np.inf, 0.0
    point = chip.cheapest[1]
    usd = point.usd_per_million_tokens
    return False, np.inf if usd is None else usd, -point.tokens_per_s_per_device


def _load(request: FrontierRequest) -> Load:
    """Return the loads that are compared, and refuse targets that none can meet.

    Raises
    ------
    OptionError
        For targets out of bounds, several contexts, and a target of requests without any.
    """
    batches: Any = USUAL_BATCHES if request.batch_size is None else request.batch_size
    load = load_of(request, batches, request.context_len)
    if request.is_played:
        if request.requests is not None and request.rate is None and request.batch_size is None:
            refuse("requests", request.requests, "with --rate, or a list of batch sizes")
        load = played_load(request, load)
    if len(load.context_len) != 1:
        refuse("context_len", request.context_len, "one number")
    for name in ("tpot_s", "ttft_s"):
        if getattr(request, name) is not None:
            number_within(name, getattr(request, name), "tpot_s")
    if load.workload is None and request.ttft_s is not None:
        refuse("ttft_s", request.ttft_s, "with the lengths of a request")
    refuse_one_token(load.workload)
    return load


#: A column of the points of a series each, by the names of `FrontierPoint`.
_Columns: TypeAlias = dict[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class _DeviceFrontiers:
    """The frontiers on one number of devices: what is kept of its grid, which may be large.

    Parameters
    ----------
    deployment, split, devices, context_len
        What is served, where, by which workers if these are split, on how many devices, and the
        context that is asked about.
    names, columns, largest_rates
        Of each series: plain decoding, then the drafters; the points on its frontier, and the
        largest rate that meets targets, if there is any.
    notes, warnings
        Sentences for the reader.
    """

    deployment: Deployment
    split: "Split | None"
    devices: int
    context_len: float
    names: tuple[str, ...]
    columns: tuple[_Columns, ...]
    largest_rates: tuple[LargestRate | None, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def _frontiers(request: FrontierRequest, load: Load) -> tuple[list[_DeviceFrontiers], list[str]]:
    """Return the frontiers on each number of devices, and what was left out.

    Raises
    ------
    OptionError
        If the model can be spread over none of them.
    """
    asked = request.tensor_parallel if request.devices is None else request.devices
    if request.devices is not None and request.prefill is not None:
        refuse("devices", request.devices, "none beside workers, which say theirs")
    placements = [
        # A list of the shell's has floats.
        whole_within(
            "devices", int(one) if isinstance(one, float) and one.is_integer() else one, "devices"
        )
        for one in as_list(asked)
    ]
    stages = 1
    if request.devices is not None:
        stages = whole_within("pipeline_parallel", request.pipeline_parallel, "devices")
    for count in placements:
        if count % stages:
            refuse("devices", count, f"multiples of pipeline_parallel, which is {stages}")
    drafters = drafters_of(request.drafters)
    found: list[_DeviceFrontiers] = []
    refusals: list[str] = []
    for devices in placements:
        here = replace(request, tensor_parallel=devices // stages)
        try:
            prediction = _prediction(here, drafters, load)
        except OptionError as refusal:  # these devices do not divide the heads
            if len(placements) == 1:
                raise
            refusals.append(f"{devices} devices left out: {refusal}")
        else:
            found.append(_on_devices(prediction, request, load))
    if not placements:
        refuse("devices", request.devices, "one number of devices or more")
    if not found:
        raise OptionError(refusals[0])
    return found, refusals


def _prediction(request: FrontierRequest, drafters: Sequence[Drafter], load: Load) -> Prediction:
    deployment, split = request.resolved_workers()
    return predicted(
        deployment,
        drafters,
        load,
        max_draft_len=request.max_draft_len,
        room=room_rule(
            deployment.setup, request.capacity, "drop" if load.workload is None else "queue"
        ),
        split=split,
        targets=_targets(request),
    )


def _targets(request: FrontierRequest) -> tuple[float, float]:
    """Return the seconds that users may wait for a first token, and for each later one."""
    first_s, later_s = (math.inf if s is None else s for s in (request.ttft_s, request.tpot_s))
    return first_s, later_s


def _on_devices(found: Prediction, request: FrontierRequest, load: Load) -> _DeviceFrontiers:
    """Return the frontiers of plain decoding and of each drafter on one number of devices."""
    notes = [*found.notes]
    if any(map(any, found.told)):
        notes.append(
            f"batches that defaults of {found.setup.engine.rules} for running requests do not allow "
            f"take --server running=BATCH"
        )
    grids = _grids(found)
    return _DeviceFrontiers(
        **fields_of(found, "deployment", "split", "devices"),
        context_len=found.load.context_len[0],
        names=(PLAIN, *(curve.drafter for curve in found.curves)),
        columns=tuple(_unbeaten(points, request) for points in grids),
        largest_rates=tuple(_rates_within(found, request, load)),
        notes=tuple(notes),
        warnings=tuple(beyond_warnings(found.played)),
    )


def _grids(found: Prediction) -> list[_Columns]:
    """Return the points of plain decoding, then those of each drafter."""
    drafted = range(len(found.curves))
    return [
        _of_devices(found, 0, slice(1)),
        *(_of_devices(found, i, slice(1, None)) for i in drafted),
    ]


def _rates_within(
    found: Prediction, request: FrontierRequest, load: Load
) -> Iterator[LargestRate | None]:
    """Yield the largest rate within the targets, without drafts and with each drafter."""
    targets = _targets(request)
    if not load.rate or min(targets) == math.inf:
        yield from [None] * (1 + len(found.drafters))
        return
    servers = [
        played_server(found.deployment, drafter, load, found.room, found.max_draft_len)
        for drafter in found.drafters
    ]
    for server, choices in [(servers[0], [0]), *((one, [*one.choices]) for one in servers)]:
        largest = largest_rate(server, load, choices, targets)
        yield None if largest is None else LargestRate(found.setup.placement.devices, *largest)


def _unbeaten(points: _Columns, request: FrontierRequest) -> _Columns:
    """Return the points that no other beats, in any server or by default, in their order."""
    index = [_frontier(points, request).index]
    if "running" in points:
        index.append(_frontier(_by_default(points), request).index)
    kept = np.unique(np.concatenate(index))
    return {name: column[kept] for name, column in points.items()}


def _by_default(points: _Columns) -> _Columns:
    """Return the points with figures of those alone that need no limit of running requests."""
    users = np.where(np.isnan(points["running"]), points["tokens_per_s_per_user"], np.nan)
    return points | {"tokens_per_s_per_user": users}


def _frontier(columns: _Columns, request: FrontierRequest) -> Frontier:
    """Return the frontier of points whose tokens come in time: of played requests, at p99."""
    users = columns["tokens_per_s_per_user"]
    first_s, later_s = _targets(request)
    late = columns["late_ttft_s"] > first_s
    if later_s < math.inf:
        # Slower points stand on the frontier, but for those that are fast enough only on average.
        late |= (columns["late_tpot_s"] > later_s) & (1 / users <= later_s)
    return frontier_of(np.where(late, np.nan, users), columns["tokens_per_s_per_device"])


#: Tokens of a device, and the ends of its band.
_PER_DEVICE: Final = (
    "tokens_per_s_per_device",
    "tokens_per_s_per_device_low",
    "tokens_per_s_per_device_high",
)


def _of_devices(found: Prediction, drafter: int, drafts: slice) -> _Columns:
    """Return the points of some draft lengths of a drafter on as many devices as there are."""
    curve = found.curves[drafter]
    users, rates, ends = curve.tokens_per_s_per_user, curve.tokens_per_s, curve.rate_ends
    waits_s = np.full_like(users, np.nan)
    if found.end_to_end:
        whole = found.end_to_end[drafter]
        users, rates, waits_s = 1.0 / whole.tpot_s, whole.tokens_per_s, whole.ttft_s
        ends = whole.figure_ends["tokens_per_s"]
        if whole.workers is not None and found.limits:
            # More than the decode workers have room for wait, and gain nothing.
            is_full = whole.workers.decode_batch >= found.limits[drafter].largest[:, None, :]
            users = np.where(is_full, np.nan, users)
    late_s = waits_s, 1 / users
    rate = np.full(len(curve.batch_size), np.nan)
    most_rate = np.full(len(curve.draft_len), np.nan)
    if found.played:
        played = found.played[drafter]
        late_s = played.figures["p99_ttft_s"][None], played.figures["p99_tpot_s"][None]
        users = np.where(np.isfinite(late_s[0]), users, np.nan)  # of lengths that are played
        if played.load.arrival_rates:
            rate, most_rate = np.array(played.load.arrival_rates), played.stable_rate
    users = within_measured(users, curve.measured_draft_len)
    low, high = (np.full_like(rates, np.nan),) * 2 if ends is None else ends
    columns = {
        "devices": np.array(found.devices),
        "batch_size": curve.batch_size,
        "draft_len": curve.draft_len[drafts, None],
        "tokens_per_s_per_user": users[0, :, drafts].T,
        "ttft_s": waits_s[0, :, drafts].T,
        "late_ttft_s": late_s[0][0, :, drafts].T,
        "late_tpot_s": late_s[1][0, :, drafts].T,
        "rate": rate,
        "largest_stable_rate": most_rate[drafts, None],
        "running": _told(found, drafter, is_plain=drafts.start is None),
        **{
            name: values[0, :, drafts].T / found.devices
            for name, values in zip(_PER_DEVICE, (rates, low, high), strict=True)
        },
    }
    grids = np.broadcast_arrays(*columns.values())
    return {name: grid.ravel() for name, grid in zip(columns, grids, strict=True)}


def _told(found: Prediction, drafter: int, *, is_plain: bool) -> Array:
    """Return the limit of running requests that a batch takes; NaN where the default is enough."""
    told = found.told[drafter] if found.told else ()
    if not told:
        return np.array(np.nan)
    ranks = found.limits[drafter].drafting.need.ranks
    limits = [math.nan if (limit := pair[not is_plain]) is None else limit for pair in told]
    if found.played and not found.played[drafter].sums_work:  # whose batches are those of a mean
        return np.array(limits)
    batches = np.array(found.load.batch_size) / found.servers
    return np.asarray(np.minimum(limits, ranks * np.ceil(batches / ranks)))


def _series(
    name: str,
    parts: Sequence[_Columns],
    request: FrontierRequest,
    usd: float | None,
    watts: float | None,
) -> Series:
    """Return the points that no other beats on any devices, and the cheapest fast enough."""
    columns = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
    best, slowest_s = _frontier(columns, request), request.tpot_s or np.inf
    points = {i: _point(columns, i, usd, watts) for i in best.index.tolist()}
    at = best.cheapest_within(slowest_s)
    cheapest = by_default = None if at is None else points[at]
    if cheapest is not None and cheapest.running is not None:
        at = _frontier(_by_default(columns), request).cheapest_within(slowest_s)
        by_default = None if at is None else _point(columns, at, usd, watts)
    return Series(name, tuple(points.values()), cheapest, by_default)


def _point(columns: _Columns, i: int, usd: float | None, watts: float | None) -> FrontierPoint:
    """Return one of the points, with its price and energy."""
    known: dict[str, Any] = {
        name: None if np.isnan(column[i]) else column[i].item()
        for name, column in columns.items()
        if not name.startswith("late_")
    }
    if known.get("running") is not None:
        known["running"] = int(known["running"])
    late = known["rate"] is not None and known["rate"] > known["largest_stable_rate"]
    costs = {
        name: None if value is None else float(value)
        for name, value in price_and_energy(
            known["tokens_per_s_per_device"], devices=1, usd_per_hour=usd, watts=watts
        ).items()
    }
    return FrontierPoint(
        **known,
        reason="unsustained" if late else "",
        usd_per_million_tokens=costs["usd_per_million_tokens"],
        joules_per_million_tokens=costs["joules_per_million_tokens"],
    )


def _money_notes(chip: HardwareProfile, usd: float | None) -> Iterator[str]:
    """Yield the sources of prices and energy, or say what is missing."""
    if usd is None:
        yield f"price of {chip.name} unknown: --price-per-hour USD, or price: in its hardware file"
    yield from price_notes(chip, usd)
    if chip.power is None:
        yield f"watts of {chip.name} unknown: power: in its hardware file"


# --- Frontiers, as tables ------------------------------------------------------------------------


def frontier_text(answer: FrontierAnswer) -> str:
    """Return the chips side by side, a frontier for each series, and the cheapest of all."""
    header = ["per user", "per device", "devices", "batch", "γ", "$/Mtok", "MJ/Mtok"]
    points = [point for one in answer.series for point in one.points]
    header += ["TTFT"] if answer.workload else []
    header += ["req/s in"] if any(point.rate for point in points) else []
    header += [""]
    parts = [_chips_table(answer)] if len(answer.chips) > 1 else []
    for chip in answer.chips:
        place = f"{chip.hardware}: " if len(answer.chips) > 1 else ""
        for one in chip.series:
            rows = [[*_cells(point), "cheapest" * (point == one.cheapest)] for point in one.points]
            table = format_table(header, rows, left=[len(header) - 1])
            parts.append(
                f"{in_line(f'{place}{one.name}')} (tokens/s)\n{table if rows else 'no batch has room'}"
            )
    return page(answer, *parts, _cheapest(answer), _largest_rates(answer))


def _chips_table(answer: FrontierAnswer) -> str:
    """Return a line for each chip, at its cheapest point, and what they are compared on."""
    header = ["chip", "with", "γ", "batch", "per user", "per device", "$/h", "$/Mtok", "80% band"]
    rows = []
    for chip in answer.chips:
        if chip.cheapest is None:
            rows.append([chip.hardware, *[ABSENT] * (len(header) - 1)])
            continue
        name, point = chip.cheapest
        rate, low, high = (getattr(point, end) for end in _PER_DEVICE)
        hourly = None if chip.usd_per_hour is None else chip.usd_per_hour * point.devices
        usd = point.usd_per_million_tokens
        band = usd and low and (usd * rate / high, usd * rate / low)
        rows.append(
            [
                f"{point.devices} x {chip.hardware}",
                name.partition(",")[0],
                str(point.draft_len),
                f"{round(point.batch_size, 1):g}",
                f"{point.tokens_per_s_per_user:.1f}",
                f"{rate:.0f}",
                figure(hourly, format_price),
                figure(usd, format_price),
                "-".join(map(format_price, band)) if band else ABSENT,
            ]
        )
    lines = compared_on(
        {chip.hardware: chip.engine for chip in answer.chips},
        {chip.hardware: chip.reach for chip in answer.chips},
    )
    return "\n".join([format_table(header, rows, left=[0, 1]), *lines])


def _cells(point: FrontierPoint) -> list[str]:
    return [
        f"{point.tokens_per_s_per_user:.1f}",
        f"{point.tokens_per_s_per_device:.0f}",
        f"{point.devices}",
        f"{round(point.batch_size, 1):g}",
        f"{point.draft_len}",
        figure(point.usd_per_million_tokens, format_price),
        figure(point.joules_per_million_tokens, lambda joules: format_price(joules / MILLION)),
        *([] if point.ttft_s is None else [format_seconds(point.ttft_s)]),
        *([] if point.rate is None else [f"{point.rate:.3g}"]),
    ]


def _cheapest(answer: FrontierAnswer) -> str:
    """Return the cheapest point that is fast enough, in one line."""
    wanted = (
        "" if answer.tpot_s is None else f" within {answer.tpot_s / MILLISECOND:g} ms per token"
    )
    best = answer.cheapest
    if best is None:
        return f"no point{wanted}"
    name, point = best
    told = _price(point)
    if point.running is not None:
        default = answer.chips[0].by_default
        told += f"; it takes --server running={point.running}, the default gives "
        told += (
            "none as fast"
            if default is None
            else f"{default[0]} at {default[1].tokens_per_s_per_device:.0f} tokens/s{_price(default[1])}"
        )
    place = f"device{'s' * (point.devices > 1)}"
    if len(answer.chips) > 1:
        place = f"x {answer.chips[0].hardware}"
    return in_line(
        f"cheapest{wanted}: {name}, γ = {point.draft_len}, batch {round(point.batch_size, 1):g} on "
        f"{point.devices} {place}: {point.tokens_per_s_per_device:.0f} tokens/s each{told}"
    )


def _price(point: FrontierPoint) -> str:
    price = point.usd_per_million_tokens
    return "" if price is None else f", ${format_price(price)} per million tokens"


def _largest_rates(answer: FrontierAnswer) -> str:
    """Return the largest rates that meet the targets at p99, in a line for each size of server."""
    targets = [math.inf if s is None else s for s in (answer.ttft_s, answer.tpot_s)]
    lines = []
    for chip in answer.chips:
        rates: dict[int, dict[str, LargestRate]] = {}
        for one in chip.series:
            for largest in one.largest_rates:
                rates.setdefault(largest.devices, {})[one.name] = largest
        for devices, found in rates.items():
            pairs = {
                "without drafts" if name == "plain" else f"with {name}": (one.rate, one.draft_len)
                for name, one in found.items()
            }
            where = f", on {devices} device{'s' * (devices > 1)}"
            if len(answer.chips) > 1:
                where += f" of {chip.hardware}"
            lines.append(largest_rates_line(pairs, (targets[0], targets[1]), where))
    return "\n".join(lines)


# --- The chart ------------------------------------------------------------------------------------


def frontier_chart(answer: FrontierAnswer) -> Any:
    """Draw a frontier for plain decoding and for each drafter, and the cheapest point of each."""
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        chart = style.new_chart(answer.title, width=8, height=4.6)
        axes = chart.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        handles = []
        several = len(answer.chips) > 1
        for i, (c, series) in enumerate(
            (c, series) for c, chip in enumerate(answer.chips) for series in chip.series
        ):
            users = [point.tokens_per_s_per_user for point in series.points]
            rates = [point.tokens_per_s_per_device for point in series.points]
            # Several chips: a color each, plain decoding dashed.
            look = style.look(i)
            name = series.name
            if several:
                look |= {"color": style.look(c)["color"], "ls": "--" if name == PLAIN else "-"}
                name = f"{answer.chips[c].hardware}: {name}"
            axes.plot(users, rates, **look)
            handles.append(style.line_key(style.wrapped(name), **look))
            if series.cheapest is not None:
                x, y = (
                    series.cheapest.tokens_per_s_per_user,
                    series.cheapest.tokens_per_s_per_device,
                )
                axes.plot(x, y, ls="", marker="o", ms=13, mfc="none", mec=style.INK, mew=1.5)
        is_fast = "" if answer.tpot_s is None else " that is fast enough"
        ring = style.line_key(
            f"cheapest{is_fast}", ls="", marker="o", ms=11, mfc="none", mec=style.INK
        )
        handles.append(ring)
        if answer.tpot_s is not None:
            axes.axvline(1 / answer.tpot_s, color=style.GREY, ls=":", lw=1.4)
            handles.append(style.line_key("slowest that users may have", color=style.GREY, ls=":"))
        for axis in (axes.xaxis, axes.yaxis):
            style.log_ticks(axis)
        axes.set_xlabel("Tokens/s of each user")
        axes.set_ylabel("Tokens/s of each device")
        style.add_legend(chart, handles)
        return chart


COMMAND: Final = Command(
    question=frontier,
    options=FORMULAS,
    told=told,
    chart="Draw tokens/s per device against per user.",
    example="specroof frontier Qwen/Qwen3-32B -H h100,b200 --devices 1,2,4 --drafter eagle3,accept=0.7\n"
    "--tpot 20 --plot frontier.png",
)
