"""What can each user and each device get, and what is the cheapest point fast enough?"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from specroof.arrays import Array, fields_of, number_within, whole_within
from specroof.errors import OptionError, refuse
from specroof.hardware import HardwareProfile
from specroof.questions.answer import Charted
from specroof.questions.played_loads import beyond_warnings, played_load, told
from specroof.questions.predict import Prediction, predicted
from specroof.questions.request import (
    BATCH,
    FORMULAS,
    PLAYED,
    TPOT,
    TTFT,
    Command,
    ContextLen,
    Drafters,
    MemoryLimits,
    Parameter,
    PlayedRequest,
    PricePerHour,
    Values,
    as_list,
    drafters_of,
    hardware_of,
    load_of,
    model_of,
    numbers,
    price_notes,
    question,
    refuse_one_token,
    usd_per_hour,
)
from specroof.report.layout import figure, format_table, in_line, page
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.played import PlayedLoads, largest_rate, played_loads, played_server
from specroof.serving.served import room_rule
from specroof.serving.workload import Load, Workload, workload_json
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN
from specroof.speedup.price import Frontier, frontier_of, price_and_energy
from specroof.speedup.result import SpeedupCurve
from specroof.units import MILLION, MILLISECOND, format_price, format_seconds

#: Default batch sizes.
USUAL_BATCHES: Final = tuple(
    sorted({step * 2.0**power for power in range(12) for step in (1.0, 2.0, 3.0)} - {6144.0})
)


@dataclass(frozen=True, kw_only=True)
class FrontierRequest(PlayedRequest):
    """Ask what each user and each device can get.

    Examples
    --------
    >>> from specroof import frontier
    >>> found = frontier("Qwen/Qwen3-8B", "h100", drafters="eagle3,accept=0.7", tpot_s=0.005)
    >>> [one.name for one in found.series]
    ['plain', 'eagle3,accept=0.7']
    """

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
    usd_per_million_tokens, joules_per_million_tokens
        Of output tokens; None where price or watts are unknown.
    ttft_s
        Seconds to the first token of a request; None where a context was asked about.
    rate
        Requests that arrive in a second; None of a closed loop. Of requests that are played
        through, `batch_size` is how many run on average, and time to the first token and tokens
        per second of a user are those that 99% have at least.
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
        ``"plain"``, or the drafter's.
    points
        Those that no other of the series beats, from many users to fast ones.
    cheapest
        The cheapest of them within the wanted time per token; None where none is as fast.
    largest_rates
        Of requests at a rate, with targets: the largest on each number of devices that serves any.
    """

    name: str
    points: tuple[FrontierPoint, ...]
    cheapest: FrontierPoint | None
    largest_rates: tuple[LargestRate, ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class FrontierAnswer(Charted):
    """What each user and each device can get.

    Attributes
    ----------
    model, hardware, engine
        Names.
    context_len, tpot_s, ttft_s, workload
        What was asked about; `workload` is None unless these were requests.
    series
        Plain decoding, then each drafter.
    notes, warnings
        Sentences for the reader.
    """

    model: str
    hardware: str
    engine: str
    context_len: float
    tpot_s: float | None
    ttft_s: float | None
    workload: Workload | None
    series: tuple[Series, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        load = self.workload.requests if self.workload else f"context {self.context_len:g}"
        return f"{self.model} on {self.hardware}, engine {self.engine}, {load}"

    def text(self) -> str:
        """Return a frontier for each series with its cheapest point marked, and the cheapest."""
        return frontier_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of the frontiers."""
        return {"": frontier_chart(self)}

    @property
    def cheapest(self) -> tuple[str, FrontierPoint] | None:
        """The series and the point with most tokens of each device that is fast enough."""
        fast = [(one.name, one.cheapest) for one in self.series if one.cheapest is not None]
        return max(fast, key=lambda one: one[1].tokens_per_s_per_device, default=None)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Every point of every frontier, with the name of its series."""
        return [
            {"series": one.name, **asdict(point), "is_cheapest": point == one.cheapest}
            for one in self.series
            for point in one.points
        ]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of that table, which has no rows where no batch has room."""
        return ["series", *(one.name for one in fields(FrontierPoint)), "is_cheapest"]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        best = self.cheapest
        return {
            **fields_of(self, "model", "hardware", "engine", "context_len", "tpot_s", "ttft_s"),
            **workload_json(self.workload),
            "points": self.records,
            "cheapest": None if best is None else {"series": best[0], **asdict(best[1])},
            "largest_rates": [
                {"series": one.name, **asdict(largest)}
                for one in self.series
                for largest in one.largest_rates
            ],
            **self.messages,
        }


@question(FrontierRequest)
def frontier(request: FrontierRequest) -> FrontierAnswer:
    """Find the best speeds per user and per device, with speculation and without."""
    load = _load(request)
    chip = hardware_of(request.hardware)
    usd = usd_per_hour(chip, request.price_per_hour)
    found, left_out = _frontiers(replace(request, hardware=chip), load)
    watts = None if chip.power is None else chip.power.watts
    series = tuple(
        replace(
            _series(name, [one.columns[i] for one in found], request, usd, watts),
            largest_rates=tuple(rate for one in found if (rate := one.largest_rates[i])),
        )
        for i, name in enumerate(found[0].names)
    )
    notes = dict.fromkeys(note for one in found for note in one.notes)
    return FrontierAnswer(
        **fields_of(found[0], "model", "hardware", "engine"),
        context_len=load.context_len[0],
        **fields_of(request, "tpot_s", "ttft_s"),
        workload=load.workload,
        series=series,
        notes=(*_money_notes(chip, usd), *notes),
        warnings=tuple(
            dict.fromkeys([*left_out, *(warning for one in found for warning in one.warnings)])
        ),
    )


def _load(request: FrontierRequest) -> Load:
    """Return the loads that are compared, and refuse targets that none can meet.

    Raises
    ------
    OptionError
        For targets out of bounds, several contexts, and a target of requests without any.
    """
    batches: Any = USUAL_BATCHES if request.batch_size is None else request.batch_size
    load = load_of(request, batches, request.context_len)
    if any(getattr(request, name) is not None for name in PLAYED):
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
    model, hardware, engine
        Names.
    names, columns, largest_rates
        Of each series: plain decoding, then the drafters; the points on its frontier, and the
        largest rate that meets targets, if there is any.
    notes, warnings
        Sentences for the reader.
    """

    model: str
    hardware: str
    engine: str
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
    model = model_of(request.model, request.family)
    found: list[_DeviceFrontiers] = []
    refusals: list[str] = []
    for devices in placements:
        here = replace(request, model=model, family=None, tensor_parallel=devices // stages)
        try:
            deployment = here.resolved()
            prediction = predicted(
                deployment,
                drafters,
                replace(load.steady, batch_size=[1.0]) if load.requests else load,
                max_draft_len=request.max_draft_len,
                room=room_rule(deployment.setup, request.capacity),
            )
        except OptionError as refusal:  # these devices do not divide the heads
            if len(placements) == 1:
                raise
            refusals.append(f"{devices} devices left out: {refusal}")
        else:
            found.append(
                _played_on_devices(prediction, request, load)
                if load.requests
                else _on_devices(prediction, request)
            )
    if not placements:
        refuse("devices", request.devices, "one number of devices or more")
    if not found:
        raise OptionError(refusals[0])
    return found, refusals


def _on_devices(found: Prediction, request: FrontierRequest) -> _DeviceFrontiers:
    """Return the frontiers of plain decoding and of each drafter on one number of devices."""
    first, wholes = found.curves[0], found.end_to_end or (None,) * len(found.curves)
    columns = [_of_devices(first, wholes[0], slice(1))]
    for curve, whole in zip(found.curves, wholes, strict=True):
        columns.append(_of_devices(curve, whole, slice(1, None)))
    return _DeviceFrontiers(
        **fields_of(first, "model", "hardware", "engine"),
        names=("plain", *(curve.drafter for curve in found.curves)),
        columns=tuple(_unbeaten(points, request) for points in columns),
        largest_rates=(None,) * len(columns),
        notes=(*found.notes, *_default_limits(found)),
    )


def _default_limits(found: Prediction) -> Iterator[str]:
    """Yield where a default of the server ends the frontier of a drafter before memory does."""
    for curve, room in zip(found.curves, found.limits, strict=False):
        most = float(curve.batch_size.max())
        yield from (f"{curve.drafter}: {limit}" for limit in room.default_limit(most))


def _played_on_devices(found: Prediction, request: FrontierRequest, load: Load) -> _DeviceFrontiers:
    """Return the same of requests that are played through, and the largest rates within targets."""
    lengths, devices = range(1, found.max_draft_len + 1), found.setup.placement.devices
    servers = [
        played_server(found.deployment, drafter, load, found.room, found.max_draft_len)
        for drafter in found.drafters
    ]
    played = [played_loads(server, load, lengths) for server in servers]
    columns = [_of_played(played[0], devices, slice(1))]
    columns += [_of_played(one, devices, slice(1, None)) for one in played]
    rates: list[LargestRate | None] = [None] * len(columns)
    targets = [np.inf if wait is None else wait for wait in (request.ttft_s, request.tpot_s)]
    if load.rate and min(targets) < np.inf:
        series = [(servers[0], [0]), *((server, [*lengths]) for server in servers)]
        largest = [
            largest_rate(server, load, choice, (targets[0], targets[1]))
            for server, choice in series
        ]
        rates = [None if rate is None else LargestRate(devices, *rate) for rate in largest]
    return _DeviceFrontiers(
        **fields_of(found.curves[0], "model", "hardware", "engine"),
        names=("plain", *(one.drafter for one in played)),
        columns=tuple(_unbeaten(points, request) for points in columns),
        largest_rates=tuple(rates),
        notes=found.notes,
        warnings=tuple(beyond_warnings(played)),
    )


def _of_played(one: PlayedLoads, devices: int, drafts: slice) -> _Columns:
    """Return the points of some draft lengths of loads that were played through."""
    rate, n_loads = one.load.rate, len(one.load.requests)
    seen = {name: values[:, drafts].T for name, values in one.figures.items()}
    columns = {
        "devices": np.array(devices),
        "batch_size": seen["mean_running"],
        "draft_len": one.draft_len[drafts, None],
        "tokens_per_s_per_user": 1.0 / seen["p99_tpot_s"],
        "tokens_per_s_per_device": seen["tokens_per_s"] / devices,
        "ttft_s": seen["p99_ttft_s"],
        "rate": np.array(rate or [np.nan] * n_loads),
    }
    grids = np.broadcast_arrays(*columns.values())
    return {name: grid.ravel() for name, grid in zip(columns, grids, strict=True)}


def _unbeaten(points: _Columns, request: FrontierRequest) -> _Columns:
    """Return the points that no other beats, in their order."""
    index = np.sort(_frontier(points, request).index)
    return {name: column[index] for name, column in points.items()}


def _frontier(columns: _Columns, request: FrontierRequest) -> Frontier:
    """Return the frontier of points whose first token comes in time."""
    soon_s = np.inf if request.ttft_s is None else request.ttft_s
    users = np.where(columns["ttft_s"] > soon_s, np.nan, columns["tokens_per_s_per_user"])
    return frontier_of(users, columns["tokens_per_s_per_device"])


def _of_devices(curve: SpeedupCurve, whole: EndToEnd | None, drafts: slice) -> _Columns:
    """Return the points of some draft lengths on as many devices as a curve is of."""
    users, rates = curve.tokens_per_s_per_user, curve.tokens_per_s
    waits_s = np.full_like(users, np.nan)
    if whole is not None:
        users, rates, waits_s = 1.0 / whole.tpot_s, whole.tokens_per_s, whole.ttft_s
    columns = {
        "devices": np.array(curve.placement.devices),
        "batch_size": curve.batch_size,
        "draft_len": curve.draft_len[drafts, None],
        "tokens_per_s_per_user": users[0, :, drafts].T,
        "tokens_per_s_per_device": rates[0, :, drafts].T / curve.placement.devices,
        "ttft_s": waits_s[0, :, drafts].T,
    }
    grids = np.broadcast_arrays(*columns.values())
    return {name: grid.ravel() for name, grid in zip(columns, grids, strict=True)}


def _series(
    name: str,
    parts: Sequence[_Columns],
    request: FrontierRequest,
    usd: float | None,
    watts: float | None,
) -> Series:
    """Return the points that no other beats on any devices, and the cheapest fast enough."""
    columns = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
    best = _frontier(columns, request)
    points = {i: _point(columns, i, usd, watts) for i in best.index.tolist()}
    at = best.cheapest_within(np.inf if request.tpot_s is None else request.tpot_s)
    return Series(name, tuple(points.values()), None if at is None else points[at])


def _point(columns: _Columns, i: int, usd: float | None, watts: float | None) -> FrontierPoint:
    """Return one of the points, with its price and energy."""
    known = {name: column[i].item() for name, column in columns.items()}
    rate, wait_s = known["tokens_per_s_per_device"], known.pop("ttft_s")
    arrivals = known.pop("rate", np.nan)
    costs = {
        name: None if value is None else float(value)
        for name, value in price_and_energy(rate, devices=1, usd_per_hour=usd, watts=watts).items()
    }
    return FrontierPoint(
        **known,
        usd_per_million_tokens=costs["usd_per_million_tokens"],
        joules_per_million_tokens=costs["joules_per_million_tokens"],
        ttft_s=None if np.isnan(wait_s) else wait_s,
        rate=None if np.isnan(arrivals) else arrivals,
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
    """Return a frontier for each series with its cheapest point marked, and the cheapest of all."""
    header = ["per user", "per device", "devices", "batch", "γ", "$/Mtok", "MJ/Mtok"]
    points = [point for one in answer.series for point in one.points]
    header += ["TTFT"] if answer.workload else []
    header += ["req/s in"] if any(point.rate for point in points) else []
    header += [""]
    parts = []
    for one in answer.series:
        rows = [[*_cells(point), "cheapest" * (point == one.cheapest)] for point in one.points]
        table = format_table(header, rows, left=[len(header) - 1]) if rows else "no batch has room"
        parts.append(f"{in_line(one.name)} (tokens/s)\n{table}")
    return page(answer, *parts, _cheapest(answer), _largest_rates(answer))


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
    price = point.usd_per_million_tokens
    told = "" if price is None else f", ${format_price(price)} per million tokens"
    return in_line(
        f"cheapest{wanted}: {name}, γ = {point.draft_len}, batch {round(point.batch_size, 1):g} on "
        f"{point.devices} device{'s' * (point.devices > 1)}: {point.tokens_per_s_per_device:.0f} tokens/s each{told}"
    )


def _largest_rates(answer: FrontierAnswer) -> str:
    """Return the largest rate of each series that meets the targets at p99, in a line each."""
    waits = {"TTFT": answer.ttft_s, "TPOT": answer.tpot_s}
    wanted = " and ".join(f"{name} {format_seconds(s)}" for name, s in waits.items() if s)
    return "\n".join(
        in_line(
            f"largest rate within p99 of {wanted}: {one.name}"
            f"{f', γ = {largest.draft_len}' if largest.draft_len else ''}, on {largest.devices} "
            f"device{'s' * (largest.devices > 1)}: {largest.rate:.3g} requests/s"
        )
        for one in answer.series
        for largest in one.largest_rates
    )


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
        for i, series in enumerate(answer.series):
            users = [point.tokens_per_s_per_user for point in series.points]
            rates = [point.tokens_per_s_per_device for point in series.points]
            axes.plot(users, rates, **style.look(i))
            handles.append(style.line_key(style.wrapped(series.name), **style.look(i)))
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
    each_chip=True,
    told=told,
    chart="Draw tokens/s per device against per user.",
    example="specroof frontier Qwen/Qwen3-32B -H h100 --devices 1,2,4 --drafter eagle3,accept=0.7\n"
    "--tpot 20 --plot frontier.png",
)
