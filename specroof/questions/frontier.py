"""What can each user and each device get, and what is the cheapest point fast enough?"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array, fields_of, number_within, whole_within
from specroof.drafters import Drafter
from specroof.errors import Note, OptionError, refuse
from specroof.hardware import HardwareProfile
from specroof.latency import Deployment
from specroof.outcomes.rows import OfLoad, costs_of, load_columns
from specroof.questions.answer import Charted, rows_table
from specroof.questions.case import asked_case, asked_load, refuse_one_token
from specroof.questions.curve_tables import compared_on
from specroof.questions.objects import (
    Values,
    as_list,
    drafters_of,
    hardware_of,
    model_of,
    money_of,
    price_notes,
    unique_list,
)
from specroof.questions.parameters import (
    FORMULAS,
    BatchSize,
    ContextLen,
    MaxDraftLen,
    Parameter,
    PricePerHour,
    TpotS,
    TtftS,
    like,
)
from specroof.questions.played_loads import (
    beyond_warnings,
    largest_rates_line,
    told,
)
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import ChipsRequest, Command, LoadsRequest, question
from specroof.reading.words import numbers
from specroof.report.layout import ABSENT, figure, format_table, in_line, page
from specroof.serving.played import largest_rate, played_server
from specroof.serving.workload import Load, Workload, workload_json
from specroof.speedup.price import Frontier, Money, frontier_of
from specroof.speedup.reach import nearness
from specroof.speedup.result import within_measured
from specroof.units import MILLISECOND, format_price

if TYPE_CHECKING:
    from specroof.serving.split import Split

#: Default batch sizes.
USUAL_BATCHES: Final = tuple(
    sorted({step * 2.0**power for power in range(12) for step in (1.0, 2.0, 3.0)} - {6144.0})
)


#: The series without drafts.
PLAIN: Final = "plain"


@dataclass(frozen=True, kw_only=True)
class FrontierRequest(ChipsRequest, LoadsRequest):
    """Ask what each user and each device can get.

    Examples
    --------
    >>> from specroof import frontier
    >>> found = frontier("Qwen/Qwen3-8B", "h100", drafters="eagle3,accept=0.7", tpot_s=0.005)
    >>> [one.name for one in found.series]
    ['plain', 'eagle3,accept=0.7']
    """

    batch_size: Annotated[
        Values | None,
        like(
            BatchSize,
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
    max_draft_len: MaxDraftLen = None
    tpot_s: Annotated[
        float | None,
        like(TpotS, about="Seconds per output token that a user may wait, for the cheapest point."),
    ] = None
    ttft_s: Annotated[
        float | None,
        like(
            TtftS,
            about="Seconds to the first token of a request that a user may wait: slower points do "
            "not count. Of played requests both targets are of p99.",
        ),
    ] = None
    price_per_hour: PricePerHour = None


@dataclass(frozen=True, kw_only=True)
class FrontierPoint(OfLoad):
    """One way to serve: what each user gets of it, and each device.

    Times are means; targets of played requests are of p99. `running_limit` is None where the
    default of the server is enough.
    """

    drafter: Annotated[str, q.DRAFTER]
    draft_len: Annotated[int, q.DRAFT_LEN]
    devices: Annotated[int, q.DEVICES]
    speedup: Annotated[float, q.SPEEDUP]
    tokens_per_s_per_user: Annotated[float, q.USER_TOKENS]
    tokens_per_s_per_device: Annotated[float, q.DEVICE_TOKENS]
    usd_per_million_tokens: Annotated[float | None, q.PRICE]
    joules_per_million_tokens: Annotated[float | None, q.ENERGY]
    ttft_s: Annotated[float | None, q.TTFT] = None
    running: Annotated[float | None, q.RUNNING] = None
    running_limit: Annotated[int | None, q.RUNNING_LIMIT] = None
    largest_stable_rate: Annotated[float | None, q.STABLE_RATE] = None
    reason: Annotated[str | None, q.REASON] = None
    is_cheapest: Annotated[bool, q.IS_CHEAPEST] = False

    @property
    def at_once(self) -> float:
        """Requests at a time: the clients, the batch, or those that run on average."""
        given = (self.concurrency, self.batch_size, self.running)
        return next(one for one in given if one is not None)


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


def _most_tokens(points: Iterable[FrontierPoint | None]) -> FrontierPoint | None:
    known = [point for point in points if point is not None]
    return max(known, key=lambda point: point.tokens_per_s_per_device, default=None)


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
    def cheapest(self) -> FrontierPoint | None:
        """The point with most tokens of each device that is fast enough."""
        return _most_tokens(one.cheapest for one in self.series)

    @property
    def by_default(self) -> FrontierPoint | None:
        """The same under the default limits of the server."""
        return _most_tokens(one.by_default for one in self.series)


_CHART: Final = q.Lines(
    ("tokens_per_s_per_user",),
    ("tokens_per_s_per_device",),
    by=("hardware", "drafter"),
    ringed="is_cheapest",
    titles={
        "tokens_per_s_per_user": "Tokens/s of each user",
        "tokens_per_s_per_device": "Tokens/s of each device",
        "is_cheapest": "cheapest that is fast enough",
    },
)


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
        """Return the chart of the frontiers, with the slowest tokens that users may have."""
        limit = None
        if self.tpot_s is not None:
            limit = 1 / self.tpot_s, "slowest that users may have"
        found, best = "No point is fast enough", self.cheapest
        if best is not None:
            found = (
                f"Cheapest: {best.tokens_per_s_per_device:.0f} tokens/s of each device and "
                f"{best.tokens_per_s_per_user:.0f} of each user, {best.hardware}, {best.drafter}"
            )
        chart = replace(_CHART, limit=limit)
        return {"": self.rows_chart(chart, self.rows, found=found)}

    @property
    def series(self) -> tuple[Series, ...]:
        """Plain decoding and each drafter, chip by chip."""
        return tuple(one for chip in self.chips for one in chip.series)

    @property
    def cheapest(self) -> FrontierPoint | None:
        """The point of the cheapest tokens that come fast enough."""
        return self.chips[0].cheapest

    @property
    def rows(self) -> tuple[FrontierPoint, ...]:
        """Every point of every frontier."""
        return tuple(point for one in self.series for point in one.points)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of that table, which has no rows where no batch has room."""
        return super().columns if self.rows else [*FrontierPoint.column_names()]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        load = {"context_len": self.context_len, **workload_json(self.workload).get("workload", {})}
        case = {
            "model": self.model,
            "chips": [fields_of(chip, "hardware", "engine", "usd_per_hour") for chip in self.chips],
            "load": load,
            **fields_of(self, "tpot_s", "ttft_s"),
        }
        choice = [
            {
                "hardware": chip.hardware,
                "cheapest": chip.cheapest and chip.cheapest.record,
                "by_default": chip.by_default and chip.by_default.record,
                "largest_rates": [
                    {"drafter": one.name, **asdict(largest)}
                    for one in chip.series
                    for largest in one.largest_rates
                ],
                "reach": chip.reach,
            }
            for chip in self.chips
        ]
        return self.envelope(case, {"chips": choice})


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
        chips.append(_chip(here, found))
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


def _chip(request: FrontierRequest, found: Sequence["_DeviceFrontiers"]) -> ChipFrontier:
    """Return the frontiers of a chip over all numbers of devices."""
    setup, split = found[0].deployment.setup, found[0].split
    money = replace(money_of(setup, split, request.price_per_hour), devices=1)
    where = {"hardware": setup.hardware.name, "context_len": found[0].context_len}
    series = tuple(
        replace(
            _series({**where, "drafter": name}, [one.columns[i] for one in found], request, money),
            largest_rates=tuple(rate for one in found if (rate := one.largest_rates[i])),
        )
        for i, name in enumerate(found[0].names)
    )
    hourly = money.usd_per_hour
    chip = ChipFrontier(setup.hardware.name, setup.engine.name, hourly, series, None)
    point = chip.cheapest
    if point is None:
        return chip
    (deployment,) = (one.deployment for one in found if one.devices == point.devices)
    kinds = [] if point.drafter == PLAIN else [point.drafter.partition(",")[0]]
    return replace(chip, reach=nearness(deployment, kinds, found[0].context_len, [point.at_once]))


def _rank(chip: ChipFrontier) -> tuple[bool, float, float]:
    """Return the key that chips are ranked by: the price of tokens, then tokens of each device."""
    point = chip.cheapest
    if point is None:
        return True, np.inf, 0.0
    usd = point.usd_per_million_tokens
    return False, np.inf if usd is None else usd, -point.tokens_per_s_per_device


def _load(request: FrontierRequest) -> Load:
    """Return the loads that are compared, and refuse targets that none can meet.

    Raises
    ------
    OptionError
        For targets out of bounds, several contexts, and a target of requests without any.
    """
    asked = request.batch_size is not None or request.concurrency is not None
    if request.requests is not None and request.rate is None and not asked:
        refuse("requests", request.requests, "with --rate, or a list of batch sizes")
    load = asked_load(request, USUAL_BATCHES)
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
    case = asked_case(request, load, _targets(request))
    return predicted(case, drafters, max_draft_len=request.max_draft_len)


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
    every, by_default = _frontier(points, request), _frontier(_by_default(points), request)
    kept = np.unique(np.concatenate([every.index, by_default.index]))
    return {name: column[kept] for name, column in points.items()}


def _by_default(points: _Columns) -> _Columns:
    """Return the points with figures of those alone that need no limit of running requests."""
    users = np.where(np.isnan(points["running_limit"]), points["tokens_per_s_per_user"], np.nan)
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


_PER_DEVICE: Final = "tokens_per_s_per_device"
#: Figures of a point that have bands.
_BANDED: Final = ("speedup", _PER_DEVICE, "ttft_s")


def _of_devices(found: Prediction, drafter: int, drafts: slice) -> _Columns:
    """Return the points of some draft lengths of a drafter on as many devices as there are."""
    one = found.outcomes[drafter]
    curve, ends, shape = one.curve, one.figure_ends, one.curve.round_s.shape
    users, waits_s = 1.0 / one.tpot_s, np.full(shape, np.nan)
    if one.end_to_end is not None:
        waits_s = one.end_to_end.ttft_s
        workers = one.end_to_end.workers
        if workers is not None and one.room is not None:
            # More than the decode workers have room for wait, and gain nothing.
            is_full = workers.decode_batch >= one.room.largest[:, None, :]
            users = np.where(is_full, np.nan, users)
    late_s = waits_s, 1 / users
    if one.played is not None:
        late_s = one.played.figures["p99_ttft_s"][None], one.played.figures["p99_tpot_s"][None]
        users = np.where(np.isfinite(late_s[0]), users, np.nan)  # of lengths that are played
    users = within_measured(users, curve.measured_draft_len)
    low, high = curve.speedup_low, curve.speedup_high
    speedup_ends = None if low is None or high is None else (low, high)
    figures: dict[str, tuple[Array, tuple[Array, Array] | None]] = {
        "tokens_per_s_per_user": (users, None),
        "late_ttft_s": (late_s[0], None),
        "late_tpot_s": (late_s[1], None),
        "speedup": (curve.speedup, speedup_ends),
        _PER_DEVICE: (one.tokens_per_s, ends["tokens_per_s"]),
        "ttft_s": (waits_s, ends.get("ttft_s")),
    }
    load = found.load if one.played is None else one.played.load
    columns = {
        "devices": np.array(found.devices),
        "draft_len": curve.draft_len[drafts, None],
        "running_limit": _told(found, drafter, is_plain=drafts.start is None),
        **load_columns(load, curve.batch_size),
    }
    if load.kind != "concurrency":  # how many run, on average
        columns["running"] = curve.batch_size
    if one.played is not None and load.arrival_rates:
        columns["largest_stable_rate"] = one.played.stable_rate[drafts, None]
    for name, (values, pair) in figures.items():
        share = found.devices if name == _PER_DEVICE else 1
        columns[name] = values[0, :, drafts].T / share
        if name in _BANDED:
            low, high = (np.full(shape, np.nan),) * 2 if pair is None else pair
            columns[f"{name}_low"] = low[0, :, drafts].T / share
            columns[f"{name}_high"] = high[0, :, drafts].T / share
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
    names: dict[str, Any], parts: Sequence[_Columns], request: FrontierRequest, money: Money
) -> Series:
    """Return the points that no other beats on any devices, and the cheapest fast enough."""
    columns = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
    best, slowest_s = _frontier(columns, request), request.tpot_s or np.inf
    points = {i: _point(names, columns, i, money) for i in best.index.tolist()}
    at = best.cheapest_within(slowest_s)
    cheapest = by_default = None
    if at is not None:
        cheapest = by_default = points[at] = replace(points[at], is_cheapest=True)
    if cheapest is not None and cheapest.running_limit is not None:
        at = _frontier(_by_default(columns), request).cheapest_within(slowest_s)
        by_default = None if at is None else _point(names, columns, at, money)
    return Series(names["drafter"], tuple(points.values()), cheapest, by_default)


def _point(names: dict[str, Any], columns: _Columns, i: int, money: Money) -> FrontierPoint:
    """Return one of the points, which is told by names, with its price and energy by device."""
    figures = {name: column[i] for name, column in columns.items() if not name.startswith("late_")}
    bands = {name: (figures.pop(f"{name}_low"), figures.pop(f"{name}_high")) for name in _BANDED}
    figures |= costs_of(money, figures[_PER_DEVICE], bands, _PER_DEVICE)
    known: dict[str, Any] = {
        name: None if value is None or np.isnan(value) else value.item()
        for name, value in figures.items()
    }
    stable_rate = known.get("largest_stable_rate")
    if stable_rate is not None and known["rate"] > stable_rate:
        known["reason"] = "unsustained"
    if known["running_limit"] is not None:
        known["running_limit"] = int(known["running_limit"])
    ends = {
        name: (low.item(), high.item()) for name, (low, high) in bands.items() if np.isfinite(low)
    }
    return FrontierPoint(**names, **known, bands=ends)


def _money_notes(chip: HardwareProfile, usd: float | None) -> Iterator[str]:
    """Yield the sources of prices and energy, or say what is missing."""
    if usd is None:
        yield f"price of {chip.name} unknown: --price-per-hour USD, or price: in its hardware file"
    yield from price_notes(chip, usd)
    if chip.power is None:
        yield f"watts of {chip.name} unknown: power: in its hardware file"


# --- Frontiers, as tables ------------------------------------------------------------------------


_SHOWN: Final = (
    *("tokens_per_s_per_user", "tokens_per_s_per_device", "devices", "concurrency", "batch_size"),
    *("running", "draft_len", "usd_per_million_tokens", "joules_per_million_tokens", "ttft_s"),
    *("rate", "is_cheapest"),
)


def frontier_text(answer: FrontierAnswer) -> str:
    """Return the chips side by side, a frontier for each series, and the cheapest of all."""
    parts = [_chips_table(answer)] if len(answer.chips) > 1 else []
    for chip in answer.chips:
        place = f"{chip.hardware}: " if len(answer.chips) > 1 else ""
        for one in chip.series:
            table = rows_table(one.points, _SHOWN) if one.points else "no batch has room"
            parts.append(f"{in_line(f'{place}{one.name}')} (tokens/s)\n{table}")
    return page(answer, *parts, _cheapest(answer), _largest_rates(answer))


def _chips_table(answer: FrontierAnswer) -> str:
    """Return a line for each chip, at its cheapest point, and what they are compared on."""
    header = ["chip", "with", "γ", "batch", "per user", "per device", "$/h", "$/Mtok", "80% band"]
    rows = []
    for chip in answer.chips:
        point = chip.cheapest
        if point is None:
            rows.append([chip.hardware, *[ABSENT] * (len(header) - 1)])
            continue
        hourly = None if chip.usd_per_hour is None else chip.usd_per_hour * point.devices
        low, high = point.usd_per_million_tokens_low, point.usd_per_million_tokens_high
        rows.append(
            [
                f"{point.devices} x {chip.hardware}",
                point.drafter.partition(",")[0],
                str(point.draft_len),
                f"{round(point.at_once, 1):g}",
                f"{point.tokens_per_s_per_user:.1f}",
                f"{point.tokens_per_s_per_device:.0f}",
                figure(hourly, format_price),
                figure(point.usd_per_million_tokens, format_price),
                ABSENT if low is None else f"{format_price(low)}-{format_price(high)}",
            ]
        )
    lines = compared_on(
        {chip.hardware: chip.engine for chip in answer.chips},
        {chip.hardware: chip.reach for chip in answer.chips},
    )
    return "\n".join([format_table(header, rows, left=[0, 1]), *lines])


def _cheapest(answer: FrontierAnswer) -> str:
    """Return the cheapest point that is fast enough, in one line."""
    wanted = (
        "" if answer.tpot_s is None else f" within {answer.tpot_s / MILLISECOND:g} ms per token"
    )
    point = answer.cheapest
    if point is None:
        return f"no point{wanted}"
    told = _price(point)
    if point.running_limit is not None:
        default = answer.chips[0].by_default
        told += f"; it takes --server running={point.running_limit}, the default gives "
        told += (
            "none as fast"
            if default is None
            else f"{default.drafter} at {default.tokens_per_s_per_device:.0f} tokens/s{_price(default)}"
        )
    place = f"device{'s' * (point.devices > 1)}"
    if len(answer.chips) > 1:
        place = f"x {answer.chips[0].hardware}"
    return in_line(
        f"cheapest{wanted}: {point.drafter}, γ = {point.draft_len}, batch {round(point.at_once, 1):g} on "
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


COMMAND: Final = Command(
    question=frontier,
    options=FORMULAS,
    told=told,
    chart="Draw tokens/s per device against per user.",
    example="specroof frontier Qwen/Qwen3-32B -H h100,b200 --devices 1,2,4 --drafter eagle3,accept=0.7\n"
    "--tpot 20 --plot frontier.png",
)
