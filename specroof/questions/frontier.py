"""What can each user and each device get, and what is the cheapest point fast enough?"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array, fields_of, grouped, number_within, whole_within
from specroof.errors import Note, OptionError, Raised, Urgent, refuse
from specroof.hardware.profile import HardwareProfile
from specroof.latency.setup import Setup
from specroof.outcomes.case import Case
from specroof.outcomes.choose import pareto
from specroof.outcomes.rows import OfLoad, known_bands, load_columns, point_arrays
from specroof.outcomes.solve import largest_load
from specroof.quantities import NOT_USEFUL, band_cell
from specroof.questions import parameters as p
from specroof.questions.answer import (
    ACCEPTANCE_UNKNOWN,
    UNSURE,
    Charted,
    compared_on,
    is_told,
    releases_of,
    rows_table,
    unsure_figures,
)
from specroof.questions.case import asked_case, asked_load, on_each_chip
from specroof.questions.objects import Values, as_list, price_notes
from specroof.questions.played_loads import largest_rates_line
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import ChipsRequest, Command, LoadsRequest, question
from specroof.questions.splits import split_name
from specroof.reading.words import numbers
from specroof.report.layout import ABSENT, figure, format_table, in_line
from specroof.serving.played import played_server
from specroof.serving.workload import Load, Workload, refuse_one_token, workload_json
from specroof.speedup.reach import nearness
from specroof.speedup.result import within_measured
from specroof.units import MILLISECOND, format_price, format_seconds, plain_number

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
        p.like(
            p.BatchSize,
            shown="1,2,3,4,6,8,…,4096",
            in_python="Only those count that the server has room for.",
        ),
    ] = None
    context_len: p.ContextLen = None
    devices: Annotated[
        Values | None,
        p.Parameter(
            "Numbers of devices (tensor parallelism) to compare, a number or a list.",
            about_flag="Numbers of devices to compare, comma-separated.",
            read=numbers,
            shown="--tp",
        ),
    ] = None
    max_draft_len: p.MaxDraftLen = None
    tpot_s: Annotated[
        float | None,
        p.like(
            p.TpotS, about="Seconds per output token that a user may wait, for the cheapest point."
        ),
    ] = None
    ttft_s: Annotated[
        float | None,
        p.like(
            p.TtftS,
            about="Seconds to the first token of a request that a user may wait: slower points do "
            "not count. Of played requests both targets are of p99.",
        ),
    ] = None
    price_per_hour: p.PricePerHour = None


@dataclass(frozen=True, kw_only=True)
class FrontierPoint(OfLoad):
    """One way to serve: what each user gets of it, and each device.

    Times are means; targets of played requests are of p99. `running_limit` is None where the
    default of the server is enough.
    """

    drafter: str
    draft_len: int
    devices: int
    speedup: float
    tokens_per_s_per_user: float
    tokens_per_s_per_device: float
    usd_per_million_tokens: float | None
    joules_per_million_tokens: float | None
    ttft_s: float | None = None
    running: float | None = None
    running_limit: int | None = None
    largest_stable_rate: float | None = None
    reason: str | None = None
    is_cheapest: bool = False

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
    largest_rates
        Of requests at a rate, with targets: the largest on each number of devices that serves any.
    reason
        Why there are no points besides memory and targets: ``acceptance`` where none is known.
    """

    name: str
    points: tuple[FrontierPoint, ...]
    largest_rates: tuple[LargestRate, ...] = ()
    reason: str | None = None

    @property
    def cheapest(self) -> FrontierPoint | None:
        """The cheapest point within the wanted time per token; None where none is as fast."""
        return _cheapest_of(self.points)


def _cheapest_of(points: Iterable[FrontierPoint]) -> FrontierPoint | None:
    known = (point for point in points if point.is_cheapest)
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
    releases
        The release of the server, and the newest one that was timed, as titles have them.
    workers
        Those of prefill and of decoding; empty where one server does both.
    by_default
        The cheapest point of the same load under the default limits of the server; None where none
        is fast enough.
    """

    hardware: str
    engine: str
    usd_per_hour: float | None
    series: tuple[Series, ...]
    reach: dict[str, Any] | None
    releases: str = ""
    workers: str = ""
    by_default: FrontierPoint | None = None

    @property
    def place(self) -> str:
        """Its workers, or its devices: how many the points are of."""
        counts = sorted({point.devices for one in self.series for point in one.points})
        many = " to ".join(dict.fromkeys(map(str, counts[:1] + counts[-1:])))
        return self.workers or (f"{many} x {self.hardware}" if counts else self.hardware)

    @property
    def cheapest(self) -> FrontierPoint | None:
        """The point with most tokens of each device that is fast enough."""
        return _cheapest_of(point for one in self.series for point in one.points)


_CHART: Final = q.Lines(
    ("tokens_per_s_per_user",),
    ("tokens_per_s_per_device",),
    by=("hardware", "drafter"),
    ringed="is_cheapest",
    titles={
        "tokens_per_s_per_user": "Tokens/s per user",
        "tokens_per_s_per_device": "Tokens/s per device",
        "is_cheapest": "cheapest within the targets",
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
        load = (
            self.workload.requests if self.workload else f"context {plain_number(self.context_len)}"
        )
        engines = dict.fromkeys(f"{chip.engine}{chip.releases}" for chip in self.chips)
        engine = f"engine{'s' * (len(engines) > 1)} {', '.join(engines)}"
        return f"{self.model} on {', '.join(chip.place for chip in self.chips)}, {engine}, {load}"

    @property
    def sureness(self) -> str:
        """How near measurements are to the cheapest point, in one sentence."""
        reach, point = self.chips[0].reach, self.cheapest
        unsure = "" if point is None else unsure_figures([point], _SHOWN)
        return "" if reach is None else f"{reach['text']}{unsure}"

    def text(self) -> str:
        """Return the cheapest point, a frontier for each series with its cheapest point marked."""
        parts = [_chips_table(self)] if len(self.chips) > 1 else []
        targets = [
            f"{token} within {format_seconds(seconds)}"
            for token, seconds in (("a first token", self.ttft_s), ("later tokens", self.tpot_s))
            if seconds is not None
        ]
        none = " and ".join(["no batch has room", *targets])
        for chip in self.chips:
            place = f"{chip.hardware}: " if len(self.chips) > 1 else ""
            for one in chip.series:
                why = ACCEPTANCE_UNKNOWN if one.reason == "acceptance" else none
                table = rows_table(one.points, _SHOWN) or why
                parts.append(f"{in_line(f'{place}{one.name}')} (tokens/s)\n{table}")
        ttft_s, tpot_s = (math.inf if s is None else s for s in (self.ttft_s, self.tpot_s))
        lines = []
        for chip in self.chips:
            found = [(one.name, largest) for one in chip.series for largest in one.largest_rates]
            for devices, own in grouped(found, lambda pair: pair[1].devices).items():
                pairs = {
                    "without drafts" if name == PLAIN else f"with {name}": (one.rate, one.draft_len)
                    for name, one in own
                }
                where = f", on {devices} device{'s' * (devices > 1)}"
                if len(self.chips) > 1:
                    where += f" of {chip.hardware}"
                lines.append(largest_rates_line(pairs, (ttft_s, tpot_s), where))
        return self.as_page(
            *parts,
            "\n".join(lines),
            found=[_cheapest(self)],
            more=[compared_on({chip.hardware: (chip.engine, chip.reach) for chip in self.chips})],
        )

    def figures(self) -> dict[str, Any]:
        """Return the chart of the frontiers, with the target of TPOT."""
        limit = None
        if self.tpot_s is not None:
            limit = 1 / self.tpot_s, f"TPOT target, {self.tpot_s / MILLISECOND:g} ms"
        found, best = "No point is fast enough", self.cheapest
        if best is not None:
            told = f"{best.devices} x {best.hardware} with {best.drafter}"
            found = f"Cheapest: {told}"
            if _is_told(best):
                found = (
                    f"Cheapest: {best.tokens_per_s_per_device:.0f} tokens/s per device and "
                    f"{best.tokens_per_s_per_user:.0f} per user, on {told}"
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
        load = {"context_len": self.context_len, **workload_json(self.workload)}
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
    load, asked = _load(request), [*on_each_chip(request)]
    chips, notes, warnings = list[ChipFrontier](), list[str](), list[str]()
    for here, place in asked:
        chip, own_notes, own_warnings = _chip(here, load)
        chips.append(chip)
        for note in _money_notes(here.hardware, chip.usd_per_hour):
            notes.append(Note(f"{place}{note}", f"{place}{getattr(note, 'short', note)}"))
        notes += own_notes
        warnings += [f"{place}{warning}" for warning in own_warnings]
    return FrontierAnswer(
        model=asked[0][0].model.name,
        context_len=load.context_len[0],
        **fields_of(request, "tpot_s", "ttft_s"),
        workload=load.workload,
        chips=tuple(sorted(chips, key=_rank)),
        notes=tuple(dict.fromkeys(notes)),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _chip(request: FrontierRequest, load: Load) -> tuple[ChipFrontier, list[str], list[str]]:
    """Return the frontiers of a chip over all numbers of devices, with notes and warnings.

    Raises
    ------
    OptionError
        If the model can be spread over none of them.
    """
    placements, every = _placements(request), request.drafters_with_acceptance(request.drafters)
    drafters, left_out = request.without_unserved(every)
    names = [PLAIN, *(drafter.name for drafter in drafters)]
    targets = request.ttft_s or math.inf, request.tpot_s or math.inf
    # Of each number of devices the points are kept that no other beats, not its grid.
    points: list[list[_Columns]] = [[] for _ in names]
    rates: list[list[LargestRate]] = [[] for _ in names]  # none of loads without a rate
    cases, usd_per_hour, workers = dict[int, Case](), None, ""
    notes, warnings, refusals, unknown = list[str](), list[str](), list[str](), dict[str, str]()

    def priced(case: Case) -> Prediction:
        found = predicted(case, drafters, max_draft_len=request.max_draft_len)
        return replace(found, price_per_hour=request.price_per_hour)

    for devices, tensor_parallel in placements.items():
        try:
            case = asked_case(replace(request, tensor_parallel=tensor_parallel), load, targets)
            if load.requests and [*load.batch_size] == [*USUAL_BATCHES]:
                case = case.at(load=_can_be_best(priced(case.at(load=load.steady)), load))
            found = priced(case)
        except OptionError as refusal:  # these devices do not divide the heads
            if len(placements) == 1:
                raise
            refusals.append(f"{devices} devices left out: {refusal}")
            continue
        cases[found.devices], usd_per_hour = case, found.money.usd_per_hour
        workers = "" if found.split is None else split_name(found.setup, found.split)
        for parts, own in zip(points, _unbeaten(found, targets), strict=True):
            parts.append(own)
        for largest, rated in zip(_rates_within(found, targets, load), rates, strict=False):
            rated.extend(largest)
        notes += _notes(found)
        if found.limits and not found.limits[0].largest[0, 0]:
            refusals += found.warnings
        warnings += [warning for one in found.outcomes for warning in one.rate_warnings]
        lacking = [one.curve for one in found.outcomes if one.curve.acceptance_unknown.all()]
        unknown |= {curve.drafter: "acceptance" for curve in lacking}
        del found
    if not cases:
        raise OptionError(refusals[0])
    setup = next(iter(cases.values())).deployment.setup
    series = tuple(
        Series(name, _points(setup, name, parts, targets[1]), tuple(rated), unknown.get(name))
        for name, parts, rated in zip(names, points, rates, strict=True)
    )
    reach, by_default = None, None
    point = _cheapest_of(point for one in series for point in one.points)
    if point is not None:
        kinds = [] if point.drafter == PLAIN else [point.drafter.partition(",")[0]]
        case, context = cases[point.devices], load.steady.context_len[0]
        reach = nearness(case.deployment, kinds, context, [point.at_once])
        if point.running_limit is not None:
            # The load of the point on a server with its default limits, at which others wait.
            each = case.load.rate or case.load.batch_size
            asked = {point.rate, point.concurrency, point.batch_size}
            place = next((i for i, load in enumerate(each) if load in asked), 0)
            room = "queue" if case.room == "drop" else case.room
            default = _unbeaten(
                priced(case.at(load=case.load.part(place), raises=False, room=room)), targets
            )
            by_default = _cheapest_of(
                other
                for name, own in zip(names, default, strict=True)
                for other in _points(setup, name, [own], targets[1])
            )
    chip = ChipFrontier(
        setup.hardware.name,
        setup.engine.full_name,
        usd_per_hour,
        series,
        reach,
        releases_of(setup),
        workers,
        by_default,
    )
    return chip, notes, [*left_out, *refusals, *warnings]


def _notes(found: Prediction) -> Iterator[str]:
    """Yield what is said of a number of devices."""
    # Which load raises one by how much may be said of a load that is on no frontier.
    yield from (note for note in found.notes if not isinstance(note, Raised))
    if any(map(any, found.told)):
        yield Urgent(
            f"batches above the default limit of {found.setup.engine.rules} for running requests "
            "need --server running=BATCH"
        )


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


def _placements(request: FrontierRequest) -> dict[int, int]:
    """Return the tensor parallelism of each number of devices that is asked about."""
    asked = request.tensor_parallel if request.devices is None else request.devices
    if request.devices is not None and request.prefill is not None:
        refuse("devices", request.devices, "none beside workers, which say theirs")
    stages = 1
    if request.devices is not None:
        stages = whole_within("pipeline_parallel", request.pipeline_parallel, "devices")
    placements = dict[int, int]()
    for one in as_list(asked):
        # A list of the shell's has floats.
        whole = int(one) if isinstance(one, float) and one.is_integer() else one
        count = whole_within("devices", whole, "devices")
        if count % stages:
            refuse("devices", count, f"multiples of pipeline_parallel, which is {stages}")
        placements[count] = count // stages
    if not placements:
        refuse("devices", request.devices, "one number of devices or more")
    return placements


def _rates_within(
    found: Prediction, targets: tuple[float, float], load: Load
) -> Iterator[list[LargestRate]]:
    """Yield the largest rate within the targets, if any, without drafts and with each drafter."""
    if not load.rate or min(targets) == math.inf:
        return
    servers = [
        played_server(found.deployment, drafter, load, found.room, found.max_draft_len)
        for drafter in found.drafters
    ]
    for server, choices in [(servers[0], [0]), *((one, [*one.choices]) for one in servers)]:
        largest = largest_load(server, load, choices, targets)
        devices = found.setup.placement.devices
        yield [] if largest is None else [LargestRate(devices, *largest)]


#: A column of the points of a series each, by the names of `FrontierPoint`.
_Columns: TypeAlias = dict[str, Array]
_PER_USER: Final = q.USER_TOKENS.name
_PER_DEVICE: Final = q.DEVICE_TOKENS.name
#: What a frontier is of.
_RATES: Final = (_PER_USER, _PER_DEVICE)
#: A user who gets as many tokens as are wanted may have less by rounding.
_ROUNDING: Final = 1e-12


def _columns(found: Prediction, place: int, targets: tuple[float, float]) -> _Columns:
    """Return every point of a drafter by the names of `FrontierPoint`, axes (load, draft_len).

    Those whose first token comes too late, of played requests at p99, have no tokens for a user;
    `is_slow` says where later ones do, and `is_late` where more come than are answered.
    """
    one, load = found.outcomes[place], found.asked_load
    curve, unknown = one.curve, np.array(np.nan)
    columns = {q.PRICE.name: unknown, q.ENERGY.name: unknown} | point_arrays(one, found.money)
    users = within_measured(columns[_PER_USER], curve.measured_draft_len)
    first_s, later_s = (
        columns.get(f"p99_{name}", columns.get(name, unknown)) for name in ("ttft_s", "tpot_s")
    )
    late = first_s > targets[0]
    if one.played is not None:
        late = late | np.isnan(first_s)  # of lengths that are not played
    for end in ("", "_low", "_high"):
        if f"tokens_per_s{end}" in columns:
            columns[_PER_DEVICE + end] = columns[f"tokens_per_s{end}"] / found.devices
    loads = load_columns(load, curve.batch_size).items()
    columns |= {"batch_size": unknown} | {name: values[:, None] for name, values in loads}
    if load.kind == "concurrency":  # else how many run, on average
        columns["running"] = unknown
    if one.played is not None and load.arrival_rates:
        columns["largest_stable_rate"] = one.played.stable_rate
        columns["is_late"] = ~one.played.keeps_up
    columns |= {
        _PER_USER: np.where(late, np.nan, users),
        "running_limit": _told(found, place),
        "devices": found.devices,
        "is_slow": later_s > targets[1],
    }
    names = (*FrontierPoint.column_names(), "is_slow", "is_late")
    return {
        name: np.broadcast_to(columns[name], curve.round_s.shape)[0]
        for name in names
        if name in columns
    }


def _told(found: Prediction, place: int) -> Array:
    """Return the limit of running requests that loads take; NaN where the default is enough.

    Axes (load, draft_len), or one for all.
    """
    told = found.told[place]
    if not told:
        return np.array(np.nan)
    limits = np.array(told, dtype=np.float64)
    if not (found.played and not found.played[place].sums_work):  # whose batches are a mean
        batches = np.array(found.load.batch_size)[:, None] / found.servers
        limits = np.minimum(limits, found.limits[place].drafting.need.told_running(batches))
    return limits[:, np.minimum(np.arange(found.max_draft_len + 1), 1)]


def _unbeaten(found: Prediction, targets: tuple[float, float]) -> Iterator[_Columns]:
    """Yield the points that no other beats: plain, then drafted."""
    grids = [_columns(found, place, targets) for place in range(len(found.drafters))]
    for grid, drafts in [(grids[0], slice(1)), *((grid, slice(1, None)) for grid in grids)]:
        points = {column: values[:, drafts].T.ravel() for column, values in grid.items()}
        kept = pareto(points, *_RATES)
        yield {column: values[kept] for column, values in points.items()}


def _can_be_best(steady: Prediction, load: Load) -> Load:
    """Return the clients, one load at least, that no others beat in their steady state.

    More than a server has room for wait, and would take most of the time to play.
    """
    kept = {
        clients
        for points in _unbeaten(steady, (math.inf, math.inf))
        for clients in points["concurrency"].tolist()
    }
    places = [place for place, clients in enumerate(load.batch_size) if clients in kept] or [0]
    return replace(
        load,
        batch_size=[load.batch_size[place] for place in places],
        requests=[load.requests[place] for place in places],
    )


def _points(
    setup: Setup, name: str, parts: Sequence[_Columns], slowest_s: float
) -> tuple[FrontierPoint, ...]:
    """Return the points that no other beats on any devices; the first fast enough is cheapest."""
    columns = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
    is_fast = (columns[_PER_USER] * slowest_s >= 1 - _ROUNDING) & ~columns["is_slow"]
    best = pareto(columns, *_RATES)
    cheapest = best[is_fast[best]][:1]
    own = {"hardware": setup.hardware.name, "drafter": name}
    return tuple(_point(columns, i, **own, is_cheapest=i in cheapest) for i in best.tolist())


def _point(columns: _Columns, i: int, **more: Any) -> FrontierPoint:
    """Return one of the points, of which more is known."""
    known: dict[str, Any] = {
        name: None if np.isnan(columns[name][i]) else columns[name][i].item()
        for name in FrontierPoint.quantities()
        if name in columns
    }
    bands = {
        name: [columns[f"{name}_{end}"][i] for end in ("low", "high")]
        for name in known
        if f"{name}_low" in columns
    }
    if "is_late" in columns and columns["is_late"][i]:
        known["reason"] = "unsustained"
    if known["running_limit"] is not None:
        known["running_limit"] = int(known["running_limit"])
    return FrontierPoint(**known, **more, bands=known_bands(bands))


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


def _chips_table(answer: FrontierAnswer) -> str:
    """Return a line for each chip, at its cheapest point."""
    header = ["chip", "with", "γ", "batch", "per user", "per device", "$/h", "$/Mtok", "80% band"]
    rows = []
    for chip in answer.chips:
        point = chip.cheapest
        if point is None:
            rows.append([chip.hardware, *[ABSENT] * (len(header) - 1)])
            continue
        hourly = None if chip.usd_per_hour is None else chip.usd_per_hour * point.devices
        low, high = point.usd_per_million_tokens_low, point.usd_per_million_tokens_high
        told = [
            f"{point.tokens_per_s_per_device:.0f}",
            figure(hourly, format_price),
            figure(point.usd_per_million_tokens, format_price),
            band_cell(q.PRICE, low, high),
        ]
        per_user = f"{point.tokens_per_s_per_user:.1f}"
        if not is_told(point.tokens_per_s_per_user_low, point.tokens_per_s_per_user_high):
            per_user = UNSURE
        if not _is_told(point):
            told = [UNSURE, told[1], *(cell if cell == ABSENT else UNSURE for cell in told[2:])]
        rows.append(
            [
                f"{point.devices} x {chip.hardware}",
                point.drafter.partition(",")[0],
                str(point.draft_len),
                f"{round(point.at_once, 1):g}",
                per_user,
                *told,
            ]
        )
    return format_table(header, rows, left=[0, 1])


def _cheapest(answer: FrontierAnswer) -> str:
    """Return the cheapest point that is fast enough, in one line."""
    limits = {"to the first token": answer.ttft_s, "per token": answer.tpot_s}
    within = [f"{s / MILLISECOND:g} ms {what}" for what, s in limits.items() if s is not None]
    wanted = f" within {' and '.join(within)}" if within else ""
    point = answer.cheapest
    if point is None:
        return f"cheapest{wanted}: none"
    told = _output(point)
    if point.running_limit is not None:
        default = answer.chips[0].by_default
        told += f"; it takes --server running={point.running_limit}, the default gives "
        told += "none as fast" if default is None else f"{default.drafter}: {_output(default)}"
    load = (
        f"batch {round(point.at_once, 1):g}" if point.rate is None else f"{point.rate:g} requests/s"
    )
    place = f"device{'s' * (point.devices > 1)}"
    if len(answer.chips) > 1:
        place = f"x {answer.chips[0].hardware}"
    return in_line(
        f"cheapest{wanted}: {point.drafter}, γ = {point.draft_len}, {load} on "
        f"{point.devices} {place}: {told}"
    )


def _is_told(point: FrontierPoint) -> bool:
    """Return whether tokens and price of a device stand in text: one follows from the other."""
    return is_told(point.tokens_per_s_per_device_low, point.tokens_per_s_per_device_high)


def _output(point: FrontierPoint) -> str:
    """Return tokens and price of a device, where they are usefully predicted."""
    if not _is_told(point):
        return f"tokens/s {NOT_USEFUL}"
    price = point.usd_per_million_tokens
    cost = "" if price is None else f", ${format_price(price)} per million tokens"
    return f"{point.tokens_per_s_per_device:.0f} tokens/s per device{cost}"


COMMAND: Final = Command(
    question=frontier,
    options=p.FORMULAS,
    chart="Draw tokens/s per device against per user.",
    example="specroof frontier Qwen/Qwen3-32B -H h100,b200 --devices 1,2,4 --drafter eagle3,accept=0.7\n"
    "--tpot 20 --plot frontier.png",
)
