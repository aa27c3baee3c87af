"""Does it pay, with which drafter, how many drafts, up to which load, and what do I type?"""

import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np

from specroof.acceptance import Acceptance
from specroof.acceptance.curve import constant_law
from specroof.acceptance.typical import FAMILIES, SHAPES, falling_odds_acceptance
from specroof.architecture import Architecture
from specroof.arrays import Array, array_within, fields_of, number_within, to_json_array
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect, refuse, reject
from specroof.hardware import IDEAL_ENGINE, LOCAL_FRAMEWORKS, HardwareProfile, Placement
from specroof.latency import Deployment, Setup
from specroof.outcomes.case import Case
from specroof.outcomes.rows import LoadRow
from specroof.policies.decision import (
    INPUTS,
    WORTH_A_RESTART,
    Decision,
    LoadDecision,
    decided,
    least_settled,
    paying_up_to,
    swings,
)
from specroof.policies.schedule import Day, Traffic
from specroof.quantities import records_of
from specroof.questions.advised_loads import (
    AdvisedRow,
    BreakEven,
    LoadPlan,
    Mix,
    Outcome,
    Targets,
    TrafficFile,
    Wanted,
    break_even_of,
    load_plan,
    plain_figures,
    schedule_loads,
)
from specroof.questions.answer import Charted, case_of, rows_table, title_of
from specroof.questions.case import played_load
from specroof.questions.curve_tables import (
    WORKER_ARRAYS,
    compared_on,
    served_bands_line,
)
from specroof.questions.played_loads import (
    PlayedPlan,
    largest_rates_line,
    plan_table,
    played_plan,
    told,
)
from specroof.questions.predict import Prediction, absent_layers, lengths_of, predicted
from specroof.questions.request import (
    CHIPS,
    FORMULAS,
    PLAYED_ON_ONE,
    RUNS,
    SHARED,
    Command,
    Drafters,
    HardwareLike,
    MemoryLimits,
    Parameter,
    PlayedRequest,
    PolicyParameters,
    PricePerHour,
    Values,
    WorkerRequest,
    as_list,
    drafters_of,
    engine_name,
    hardware_of,
    model_of,
    money_of,
    numbers,
    options_of,
    question,
    refuse_one_token,
    server_of,
    split_of,
    unique_list,
    whole_numbers,
    words,
)
from specroof.questions.speculation import speculation_of
from specroof.report.layout import ABSENT, figure, folded, note_lines, wrapped
from specroof.serving.benchmark_commands import FRAMEWORKS, MockPoint, mock_commands
from specroof.serving.capacity import in_server, served_room
from specroof.serving.launch import (
    DRAFT_MODEL,
    FIRST_HOST,
    LOOKUPS,
    OTHER_HOSTS,
    SERVED_KINDS,
    Launch,
    Speculation,
    follows_load,
    launch,
    server_command,
    worker_launches,
)
from specroof.serving.played import PlayedServer, played_server
from specroof.serving.served import room_rule
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN
from specroof.speedup.reach import evidence_engine, nearness
from specroof.speedup.result import SpeedupCurve
from specroof.units import format_drafts, format_price, format_seconds, plain_number

if TYPE_CHECKING:
    from specroof.questions.adaptive import Adaptive
    from specroof.serving.split import Split

#: Frameworks whose flags are written by default.
USUAL_FRAMEWORKS: Final = ("vllm", "sglang")
#: Default requests in flight.
USUAL_LOADS: Final = (1, 8, 32, 64, 128)
#: Devices that are tried, beside those that a link joins.
_MOST_DEVICES: Final = 64


@dataclass(frozen=True)
class AdviseRequest(PolicyParameters, WorkerRequest, PlayedRequest):
    """Ask whether speculative decoding pays, and how to set it up.

    Examples
    --------
    >>> from specroof import advise
    >>> advice = advise(
    ...     "Qwen/Qwen3-8B",
    ...     "h100",
    ...     drafters="eagle3,accept-length=2.8@3",
    ...     input_len=1000,
    ...     output_len=500,
    ...     concurrency=[1, 8],
    ... )
    >>> advice.decision
    'on'
    """

    hardware: Annotated[  # type: ignore[assignment]  # chips to compare, of which each is asked about
        HardwareLike | Sequence[HardwareLike],
        replace(CHIPS, in_python="Or `HardwareProfile` objects; in Python a list.", read=words),
    ]
    _: KW_ONLY
    drafters: Drafters
    input_len: Annotated[float | None, Parameter("Tokens of a prompt.", "--input-len --isl")] = None
    output_len: Annotated[float | None, Parameter("Tokens of an answer.", "--output-len --osl")] = (
        None
    )
    concurrency: Annotated[
        Values | None,
        Parameter(
            "Requests in flight, comma-separated; 1..128 doubles.",
            in_python="In Python a number or a list; with `traffic` by default the least, median and largest load of the day.",
            read=numbers,
            kind=str,
            shown=",".join(map(str, USUAL_LOADS)),
        ),
    ] = None
    draft_len: Annotated[
        int | Sequence[int] | None,
        Parameter(
            "Drafts per round to choose from, as in 1,2,3.",
            "--choose-draft-len",
            former="--draft-len",
            read=whole_numbers,
            kind=str,
            shown="any",
        ),
    ] = None
    framework: Annotated[
        str | None,
        replace(
            SHARED["framework"],
            about="The server: its engine predicts, its flags are printed.",
            shown="the profile's default engine; flags of vllm and sglang",
            panel=None,
        ),
    ] = None
    draft_model: Annotated[
        str | None,
        Parameter("Hub name or folder with the drafter's weights, for the flags."),
    ] = None
    ttft_ms: Annotated[
        float | None,
        Parameter(
            "Target: time to the first token.",
            "--ttft",
            in_python="Milliseconds.",
            metavar="MS",
        ),
    ] = None
    tpot_ms: Annotated[
        float | None,
        Parameter(
            "Target: time per later token.", "--tpot", in_python="Milliseconds.", metavar="MS"
        ),
    ] = None
    min_speedup: Annotated[
        float | None, Parameter("Target: the smallest speedup that is worth it.")
    ] = None
    price_per_hour: PricePerHour = None
    traffic: Annotated[
        str | os.PathLike[str] | TrafficFile | None,
        Parameter(
            "Load over the day: CSV with hour and concurrency or requests_per_s, or YAML with "
            "hours and a mix of input_len, output_len and weight.",
            in_python="Or a `TrafficFile`.",
            metavar="FILE",
            kind=str,
        ),
    ] = None
    tensor_parallel: Annotated[
        int | None,
        replace(SHARED["tensor_parallel"], shown="as few as the model fits on", panel=None),
    ] = None  # type: ignore[assignment]  # as few as hold the model
    devices: Annotated[
        int | None,
        Parameter("Devices to split between prefill and decode workers as is best."),
    ] = None
    capacity: MemoryLimits = None
    bench: Annotated[
        bool,
        Parameter(
            "Print commands that measure the least certain point, without trained weights: random "
            "ones, and a forced acceptance length."
        ),
    ] = False
    policies: Annotated[
        bool,
        Parameter(
            "Compare drafts that follow the load or the drafter's confidence with one length for "
            "all loads."
        ),
    ] = False

    @property
    def has_clients(self) -> bool:
        """Whether requests of clients are asked about, on one server, and no day of traffic."""
        others = (self.traffic, self.prefill, self.decode, self.devices)
        return all(other is None for other in others)


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request for advice, checked, and the objects that its names stand for.

    No `loads` where requests are `played` that come by themselves: those that run are asked about.
    """

    request: AdviseRequest
    model: Architecture
    drafters: tuple[Drafter, ...]
    workload: Workload
    context_len: float
    loads: tuple[float, ...]
    draft_lens: tuple[int, ...] | None
    targets: Targets
    traffic: Traffic | None
    played: Load | None = None

    @property
    def model_name(self) -> str:
        """The model as commands name it."""
        given = self.request.model
        return given.name if isinstance(given, Architecture) else os.fspath(given)


def check_request(request: AdviseRequest) -> CheckedRequest:
    """Return a request for advice, checked.

    Raises
    ------
    SpecroofError
        For a value that is not allowed, and a traffic file that cannot be read.
    """
    day = None
    if request.traffic is not None:
        from specroof.questions.traffic import traffic_of  # noqa: PLC0415 - needs pydantic

        day = traffic_of(request.traffic)
    traffic = None if day is None else day.traffic
    loads: Sequence[float] = USUAL_LOADS
    if request.concurrency is not None:
        loads = as_list(request.concurrency)
    elif traffic is not None and traffic.unit == "concurrency":
        busy = [max(1.0, load) for load in traffic.loads if load]
        loads = [min(busy), round(np.median(busy)), max(busy)]
    batches = array_within("concurrency", loads, "batch_size")
    draft_lens = lengths_of(request.draft_len) or None
    expect("draft_model", request.draft_model, str | None, DRAFT_MODEL)
    given = request.price_per_hour
    for price in given.values() if isinstance(given, Mapping) else [given] * (given is not None):
        number_within("price_per_hour", price, "usd_per_hour")
    targets = Targets(request.ttft_ms, request.tpot_ms, request.min_speedup)
    played = None
    if request.is_played:
        played = _played_load(request, batches.tolist())
        steady = played.steady
        workload, context_len = steady.workload, steady.context_len[0]
        if played.rate:
            played = replace(played, rate=sorted({*played.rate}))
            played = replace(played, requests=played.requests[: len(played.rate)])
            played = replace(played, batch_size=played.batch_size[: len(played.rate)])
        batches = np.array(played.batch_size)
    else:
        workload, context_len = _mean_request(request, None if day is None else day.mix)
    refuse_one_token(workload)
    for chip in as_list(request.hardware):
        request.engine_on(hardware_of(chip))
    request = replace(request, framework=engine_name(request.framework))
    # A word that is not allowed is refused here: of what a chip refuses, other numbers are tried.
    options_of(request.options), server_of(request.server)
    model, drafters = model_of(request.model, request.family), drafters_of(request.drafters)
    if not drafters:
        message = "drafters is empty; allowed: at least one drafter (--drafter SPEC)"
        raise OptionError(message)
    return CheckedRequest(
        request=request,
        model=model,
        drafters=tuple(drafters),
        workload=workload,  # type: ignore[arg-type]  # played requests have lengths
        context_len=context_len,
        loads=tuple(sorted({*batches.tolist()})),
        draft_lens=draft_lens,
        targets=targets,
        traffic=traffic,
        played=played,
    )


def _played_load(request: AdviseRequest, clients: Sequence[float]) -> Load:
    """Return the load of requests that are played through."""
    if request.traffic is not None:
        refuse("traffic", request.traffic, "where no requests are played through")
    if request.trace is not None or request.lengths is not None:
        return played_load(request, Load([1.0], [4096.0]))  # which the file replaces
    workload, context_len = _mean_request(request, None)
    return played_load(request, Load(clients, [context_len], workload))


def _mean_request(request: AdviseRequest, mix: Mix | None) -> tuple[Workload, float]:
    """Return the mean request, and the mean context while answers are decoded."""
    given = (request.input_len, request.output_len)
    cached = 0.0 if request.prefix_hit_rate is None else request.prefix_hit_rate
    if mix is not None:
        if given != (None, None):
            message = "input_len or output_len is given with a mix in traffic; allowed: one of both"
            raise OptionError(message)
        workload = replace(mix.workload, prefix_hit_rate=cached)
        return workload, mix.mean_context_len
    for name, value in zip(("input_len", "output_len"), given, strict=True):
        if value is None:
            message = (
                f"{name} is missing; allowed: both lengths of a request (tokens in and out), or a "
                f"mix in traffic"
            )
            raise OptionError(message)
    workload = Workload(*given, cached)  # type: ignore[arg-type]  # none of them is None
    return workload, workload.mean_context_len


def joined_devices(profile: HardwareProfile) -> int:
    """Return the largest number of devices to try: as many as one link joins."""
    link = profile.interconnect
    return 1 if link is None else min(link.max_devices, _MOST_DEVICES)


def has_room(checked: CheckedRequest, setup: Setup, drafter: Drafter | None) -> bool:
    """Tell whether a server holds the model, a drafter and one request."""
    if room_rule(setup, checked.request.capacity) == "ignore":
        return True
    room = served_room(
        Deployment(checked.model, setup),
        context_len=checked.workload.input_len + checked.workload.output_len,
        drafter=drafter,
        verify_len=1.0 + (drafter is not None),
    )
    return bool(room.largest_batch >= 1)


def setup_on(checked: CheckedRequest, profile: HardwareProfile) -> Setup | None:
    """Return the setup with the requested number of devices, or with as few as hold the model.

    None where there is no room: for the model on the requested devices, or for the model with each
    of its drafters on as many devices as can be joined.
    """
    request = checked.request
    if request.tensor_parallel is not None:
        setup = request.worker(checked.model, profile, request.tensor_parallel)
        return setup if has_room(checked, setup, None) else None
    for power in range(joined_devices(profile).bit_length()):
        try:
            setup = checked.request.worker(checked.model, profile, 2**power)
        except OptionError:  # it does not divide
            continue
        if all(has_room(checked, setup, drafter) for drafter in (None, *checked.drafters)):
            return setup
    return None


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """A way to use a budget of devices.

    Parameters
    ----------
    setup, split
        Where a server or a decode worker runs, and the workers; None where one server does both.
    servers
        Servers that share the load alike.
    """

    setup: Setup
    split: "Split | None" = None
    servers: int = 1

    @property
    def name(self) -> str:
        """The servers in words."""
        if self.split is not None:
            from specroof.questions.splits import split_name  # noqa: PLC0415 - seldom

            return split_name(self.setup, self.split)
        devices = self.setup.placement.devices
        return f"{self.servers} x {devices} {self.setup.hardware.name} unsplit"

    def predicted(
        self, checked: CheckedRequest, loads: Sequence[float], drafters: Sequence[Drafter]
    ) -> tuple[Prediction, Array]:
        """Return the prediction of one server, and how many of them work at each load."""
        each = [max(load / self.servers, 1.0) for load in loads]
        case = Case(
            Deployment(checked.model, self.setup),
            Load(each, [checked.context_len], checked.workload),
            room_rule(self.setup, checked.request.capacity, "queue"),
            split=self.split,
        )
        prediction = predicted(case, drafters)
        return prediction, np.array(loads) / each

    def plain(self, checked: CheckedRequest, loads: Sequence[float]) -> list[dict[str, Any]]:
        """Return the figures of all servers without drafts."""
        prediction, working = self.predicted(checked, loads, checked.drafters[:1])
        money = money_of(self.setup, self.split, checked.request.price_per_hour)
        money = replace(money, devices=money.devices * self.servers)
        load = prediction.load
        return plain_figures(prediction, 0, load, money, checked.targets, working)


def split_on(
    checked: CheckedRequest, profile: HardwareProfile
) -> tuple[DeviceUse | None, DeviceUse | None, str]:
    """Return the workers, as told or the best of a budget, what they are compared with, and a note.

    The best serves the loads of the question with most tokens, those first that meet the targets.
    It is compared with the best use of the budget without drafts; a note says where servers without
    a split make more. None where a worker has no room.
    """
    from specroof.questions.splits import candidate_splits  # noqa: PLC0415 - seldom

    request = checked.request
    if request.tensor_parallel is not None:
        refuse("tensor_parallel", request.tensor_parallel, "none beside workers, which say theirs")
    if checked.played is not None:
        reject("prefill has workers of its own, and the load is played through", PLAYED_ON_ONE)

    def fits(setup: Setup, is_prefill: bool) -> bool:
        drafters = (None,) if is_prefill else (None, *checked.drafters)
        return all(has_room(checked, setup, drafter) for drafter in drafters)

    worker = partial(request.worker, checked.model)
    if request.devices is None:
        setup, split = split_of(request, profile, worker)
        has_both = fits(split.prefill, True) and fits(setup, False)
        return (DeviceUse(setup, split) if has_both else None), None, ""
    if (request.prefill, request.decode) != (None, None):
        reject("devices is given with prefill or decode", "one of both")
    splits = [
        DeviceUse(*pair)
        for pair in candidate_splits(request.devices, request.link, profile, worker, fits)
    ]
    if not splits:
        return None, None, ""
    uses = [*splits, *_unsplit(checked, profile, request.devices, fits)]
    drafted, plain = zip(*(_use_worth(checked, use) for use in uses), strict=True)
    best, off = (uses[worths.index(max(worths))] for worths in (drafted, plain))
    chosen = uses[drafted.index(max(drafted[: len(splits)]))]
    notes = [f"without drafts the best is {off.name}, which speedups are over"] * (
        off is not chosen
    )
    if best is not chosen:
        more = math.exp(max(drafted)[1] - max(drafted[: len(splits)])[1])
        notes.append(
            f"{best.name} with drafts make {more:.2f} times as many tokens: no split is as good"
        )
    return chosen, None if off is chosen else off, "; ".join(notes)


def _unsplit(
    checked: CheckedRequest,
    profile: HardwareProfile,
    devices: int,
    fits: Callable[[Setup, bool], bool],
) -> Iterator[DeviceUse]:
    """Yield servers without a split, alike and as many as a budget of devices buys."""
    for power in range(min(joined_devices(profile), devices).bit_length()):
        try:
            setup = checked.request.worker(checked.model, profile, 2**power)
        except OptionError:  # it does not divide
            continue
        if fits(setup, False):
            yield DeviceUse(setup, servers=devices // 2**power)


def _use_worth(
    checked: CheckedRequest, use: DeviceUse
) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return the key of the best use of devices with drafts, and of the best without.

    Loads that meet the targets, then the mean logarithm of throughput.
    """
    prediction, working = use.predicted(checked, checked.loads, checked.drafters)
    most, met = [], []
    for whole in prediction.end_to_end:
        curve = whole.curve
        allowed = np.isfinite(curve.choices[0])
        if checked.draft_lens is not None:
            allowed &= np.isin(curve.draft_len, [0, *checked.draft_lens])
        rates = whole.tokens_per_s[0] * working[:, None]
        most.append(np.where(allowed, np.nan_to_num(rates), 0.0))
        met.append(checked.targets.met(whole.ttft_s[0], whole.tpot_s[0]))
    rates, meets = np.concatenate(most, axis=1), np.concatenate(met, axis=1)

    def worth(rates: Array, meets: Array) -> tuple[int, float]:
        reached = np.max(rates * meets, axis=1)
        known = np.where(reached > 0, reached, np.max(rates, axis=1))
        return int((reached > 0).sum()), float(np.log(np.maximum(known, 1.0)).mean())

    return worth(rates, meets), worth(rates[:, :1], meets[:, :1])


# --- The answer ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToMeasure:
    """The benchmark that would settle most.

    Parameters
    ----------
    concurrency, drafter, draft_len
        The point whose verdict is least certain.
    plain_tokens_per_s, tokens_per_s
        What the clients are predicted to get, without drafts and with; None of requests that come
        by themselves.
    swings
        The change of its speedup, as a logarithm, where an input changes by 10 % either way; the
        largest first.
    commands
        Titles and commands: servers with random weights and a forced acceptance, their clients, and
        what reads the results.
    refused
        Why there are no commands; empty if there are.
    """

    concurrency: float
    drafter: str
    draft_len: int
    plain_tokens_per_s: float | None
    tokens_per_s: float | None
    swings: dict[str, float]
    commands: tuple[tuple[str, str], ...]
    refused: str

    @property
    def moved_by(self) -> str:
        """The input that moves the decision most."""
        return next(iter(self.swings))


@dataclass(frozen=True, repr=False, eq=False)
class ChipAdvice:
    """The advice for one chip.

    Attributes
    ----------
    setup
        Chip, engine, placement, and the server with the limits that are advised.
    drafter
        The drafter to start the server with: the best over all loads.
    plan
        Loads, schedule and limits.
    raised
        Settings that replace defaults of the server, by their keys: from, to.
    usd_per_hour
        Price of one device; None if not known.
    prediction
        The curves of all drafters that the decision is made from.
    played
        What clients see of requests that are played through, with these drafts and without; None
        where none were asked about.
    engine_config
        Flags to paste by framework; None where it has no flag for the drafter. Files that they
        name are in `files`.
    launches
        The same flags with their files and notes.
    worker_launches
        Flags of a prefill worker and of a decode worker, by framework; empty where one server does
        both.
    refused
        Drafters that the requested server does not run, and why: they are not in the choice. Where
        none is requested, the chosen one, if none of those whose flags are printed runs it.
    to_measure
        The benchmark that would settle most; None where nothing was tried.
    notes, warnings
        Sentences for the reader.
    """

    setup: Setup
    drafter: Drafter
    plan: LoadPlan
    raised: dict[str, tuple[int, int]]
    usd_per_hour: float | None
    prediction: Prediction
    played: PlayedPlan | None
    engine_config: dict[str, str | None]
    launches: tuple[Launch, ...]
    to_measure: ToMeasure | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    worker_launches: dict[str, dict[str, Launch]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def advised(self) -> LoadPlan:
        """The name of old of `plan`."""
        return self.plan

    @property
    def rows(self) -> tuple[AdvisedRow, ...]:
        """The advice at each load of the question."""
        return self.plan.rows

    @property
    def decisions(self) -> list[LoadDecision]:
        """What to do, load by load."""
        return [row.decision or "off" for row in self.rows]

    @property
    def decision(self) -> Decision:
        """On, off, depends or unclear."""
        return decided(self.decisions)

    @property
    def up_to(self) -> float | None:
        """The largest load up to which drafting is on; None where it is not at the first."""
        return paying_up_to([row.load for row in self.rows], self.decisions)

    @cached_property
    def break_even(self) -> list[BreakEven]:
        """The least acceptance that pays, load by load."""
        return [break_even_of(self.prediction, self.plan, row) for row in self.rows]

    def reach(self, answer: "Advice") -> dict[str, Any] | None:
        """Return how near measurements are to these loads."""
        return nearness(
            Deployment(answer.model, self.setup),
            list(dict.fromkeys(name.partition(",")[0] for name in answer.drafters)),
            answer.workload.mean_context_len,
            _loads(self),
        )

    @property
    def split(self) -> "Split | None":
        """The workers of prefill and of decoding; None where one server does both."""
        return self.prediction.split

    @property
    def files(self) -> dict[str, str]:
        """Files that the flags name."""
        workers = (own for roles in self.worker_launches.values() for own in roles.values())
        launches = (*self.launches, *workers)
        return {name: text for flags in launches for name, text in flags.files.items()}


@dataclass(frozen=True, repr=False, eq=False)
class Advice(Charted):
    """Whether speculative decoding pays, and how to set it up.

    Attributes
    ----------
    model, workload, targets, drafters
        The parameters of the question; drafters by name.
    chips
        An answer for each chip that the model fits on, the best first: the cheapest tokens at the
        best load that meets the targets, or the most tokens of each device where a price is not
        known. Chips that meet them at no load follow, and those without a measured engine stand at
        the end.
    model_name
        The model as the commands name it.
    policies
        What draft lengths gain on the best chip that follow load or confidence; None if not asked.
    notes, warnings
        Sentences for the reader.
    """

    model: Architecture
    workload: Workload
    targets: Targets
    drafters: tuple[str, ...]
    chips: tuple[ChipAdvice, ...]
    model_name: str
    policies: "Adaptive | None" = None

    @property
    def title(self) -> str:
        """The model, the best chip and its engine, in one line."""
        title = title_of(self.model, self.chips[0].setup)
        return f"{title}, each decode worker" if self.chips[0].split else title

    @property
    def decision(self) -> Decision:
        """The decision on the best chip."""
        return self.chips[0].decision

    def text(self) -> str:
        """Return the page: the decision, loads, prices, and flags to paste; or the benchmark."""
        point = self.chips[0].to_measure
        return bench_text(self, point) if point and self.asked.get("bench") else advice_text(self)

    @property
    def rows(self) -> tuple[AdvisedRow, ...]:
        """The loads with the drafter that is advised, then with each other, chip by chip."""
        return tuple(
            row
            for chip in self.chips
            for of_drafter in (chip.plan.rows, *chip.plan.others)
            for row in of_drafter
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints: that of the best chip first."""
        case, *cases = (_chip_case(self, chip) for chip in self.chips)
        choice, *choices = (_chip_choice(self, chip) for chip in self.chips)
        targets = fields_of(self.targets, "ttft_ms", "tpot_ms", "min_speedup")
        told = {"drafters": list(self.drafters), **targets, "other_chips": cases}
        choice |= {"other_chips": choices, "policies": None}
        if self.policies is not None:
            found = self.policies.to_dict()
            share = fields_of(self.policies, "confidence")
            choice["policies"] = {**found["choice"], **share, "rows": found["rows"]}
        return self.envelope(case | told, choice)

    def figures(self) -> dict[str, Any]:
        """Return the chart of the advised speedup against the load, and that of policies."""
        more = {} if self.policies is None else {"-policies": self.policies.figures()[""]}
        return {"": advice_chart(self), **more}


@question(AdviseRequest)
def advise(request: AdviseRequest) -> Advice:
    """Say whether speculative decoding pays, with which drafter and which server flags."""
    checked, refused = without_refused(check_request(request))
    model = checked.model
    chips, unfit = list[ChipAdvice](), list[str]()
    profiles = unique_list("hardware", request.hardware, hardware_of)
    workers = (request.prefill, request.decode, request.devices)
    is_split = any(told is not None for told in workers)
    if request.link is not None and not is_split:
        refuse("link", request.link, "none where one server does both")
    for given, profile in zip(as_list(request.hardware), profiles, strict=True):
        use, off, note = split_on(checked, profile) if is_split else (None, None, "")
        setup = use.setup if use is not None else None if is_split else setup_on(checked, profile)
        if setup is None:
            most = request.tensor_parallel or f"up to {joined_devices(profile)}"
            if is_split:
                most = "workers of " + " and ".join(
                    str(told) for told in workers if told is not None
                )
            unfit.append(f"{model.name} does not fit on {most} x {profile.name}")
        else:
            split = None if use is None else use.split
            chip = _chip_advice(checked, setup, given, split, off)
            said = (*chip.notes, *filter(None, [note]))
            chips.append(replace(chip, notes=said, refused=refused | chip.refused))
    if not chips:
        message = (
            f"hardware: {'; '.join(unfit)}; allowed: a chip that it fits on, or tensor_parallel"
        )
        raise OptionError(message)
    chips.sort(key=_rank)
    if request.bench:
        _refuse_unmeasured(chips[0].to_measure)
    policies = _policies(checked, chips[0])
    notes = [chip.notes for chip in chips] + ([] if policies is None else [policies.notes])
    return Advice(
        model=model,
        workload=checked.workload,
        targets=checked.targets,
        drafters=tuple(drafter.name for drafter in checked.drafters),
        chips=tuple(chips),
        model_name=checked.model_name,
        policies=policies,
        notes=tuple(dict.fromkeys(chain.from_iterable(notes))),
        warnings=(*unfit, *dict.fromkeys(w for chip in chips for w in chip.warnings)),
    )


def _chip_advice(
    checked: CheckedRequest,
    setup: Setup,
    given: HardwareLike,
    split: "Split | None",
    off: DeviceUse | None,
) -> ChipAdvice:
    """Return the advice for a chip, which the user named or gave, or for workers of a split.

    Speedups are over the servers of `off` without drafts; over the same servers if None.
    """
    request, draft_lens = checked.request, checked.draft_lens
    max_draft_len = None
    if draft_lens is not None and draft_lens[-1] > DEFAULT_MAX_DRAFT_LEN:
        max_draft_len = draft_lens[-1]
    loads = schedule_loads(checked.loads, checked.traffic)
    frameworks = USUAL_FRAMEWORKS if request.framework is None else (request.framework,)
    load = checked.played or Load(loads, [checked.context_len], checked.workload)
    if checked.played is not None and checked.played.kind == "concurrency":
        # Loads between those of the question move the edges of a schedule alone: in closed form.
        counts = dict(zip(checked.played.batch_size, checked.played.requests, strict=True))
        load = replace(
            checked.played,
            batch_size=loads,
            requests=[counts.get(clients, 0) for clients in loads],
        )

    def prediction_of(
        setup: Setup, drafters: Sequence[Drafter], *, raises: bool = True
    ) -> Prediction:
        case = Case(
            Deployment(checked.model, setup),
            load,
            room_rule(setup, request.capacity, "queue"),
            split=split,
            raises=raises,
            targets=checked.targets.seconds,
        )
        found = predicted(case, drafters, max_draft_len=max_draft_len, draft_lens=draft_lens or ())
        return replace(found, price_per_hour=request.price_per_hour)

    wanted = Wanted(
        load,
        checked.loads,
        checked.targets,
        draft_lens=draft_lens,
        traffic=checked.traffic,
        fixed=[_is_fixed(drafter, request, frameworks) for drafter in checked.drafters],
        baseline=None if off is None else off.plain(checked, loads),
    )
    prediction = prediction_of(setup, checked.drafters)
    price = prediction.money.usd_per_hour
    by_default = None
    if any(map(any, prediction.told)):
        by_default = prediction_of(setup, checked.drafters, raises=False)
    plan = load_plan(prediction, wanted, by_default=by_default)
    typical = [_typical(drafter) for drafter in checked.drafters]
    if typical[plan.chosen] is not None:
        pairs = zip(typical, checked.drafters, strict=True)
        shapes = [shape or drafter for shape, drafter in pairs]
        shaped = load_plan(prediction_of(setup, shapes), wanted)
        if [row.draft_len for row in shaped.rows] != [row.draft_len for row in plan.rows]:
            plan = load_plan(prediction, wanted, by_default=by_default, typical=shaped)
    raised = _raised(prediction, plan)
    if raised:
        # What is started, and played through: the flags of the largest load that takes them.
        told: dict[str, Any] = {name: most for name, (_, most) in raised.items()}
        setup = in_server(checked.model, setup, replace(setup.user_settings, **told))
    uncaptured: list[str] = []
    if setup.user_settings.capture is not None:
        settings = replace(setup.user_settings, capture=None)
        here = replace(request, server=settings, tensor_parallel=setup.placement.devices)
        by_default_sizes = setup_on(replace(checked, request=here), setup.hardware)
        free = (
            plan
            if by_default_sizes is None
            else load_plan(prediction_of(by_default_sizes, checked.drafters), wanted)
        )
        uncaptured = [*_uncaptured(setup, plan, free)]
    drafter = checked.drafters[plan.chosen]
    launches, config, refusals = _launches(
        checked, replace(prediction, setup=setup), drafter, plan, frameworks
    )
    is_refused = drafter.kind in SERVED_KINDS and set(config.values()) == {None}
    why = "; ".join(refusal.partition("; allowed")[0] for refusal in refusals)
    played = _played_plan(checked, setup, drafter, plan)
    of_workers, refused_workers = (
        ({}, []) if split is None else _worker_flags(checked, setup, drafter, launches, config)
    )
    warnings = [
        *refusals,
        *refused_workers,
        *absent_layers(checked.model, checked.drafters),
        *prediction.warnings,
        *plan.warnings,
        *_missing(setup, request, priced=price is not None),
        *_unreached(plan),
        *([] if played is None else played.warnings),
        *uncaptured,
        *_nodes(setup, frameworks),
    ]
    place = f"{setup.hardware.name}: " if len(as_list(request.hardware)) > 1 else ""
    return ChipAdvice(
        setup=setup,
        drafter=drafter,
        plan=plan,
        raised=raised,
        usd_per_hour=price,
        prediction=prediction,
        played=played,
        engine_config=config,
        launches=tuple(launches),
        # A benchmark starts one server.
        to_measure=None if split else least_certain(checked, setup, given, prediction, plan),
        notes=prediction.notes,
        warnings=tuple(f"{place}{warning}" for warning in dict.fromkeys(warnings)),
        worker_launches=of_workers,
        refused={drafter.name: why} if is_refused else {},
    )


def _policies(checked: CheckedRequest, chip: ChipAdvice) -> "Adaptive | None":
    """Return what draft lengths gain that follow load or confidence; None if not asked.

    Raises
    ------
    OptionError
        For loads that are not requests in flight, and drafters that policies do not know.
    """
    request = checked.request
    if not request.policies:
        for one in fields(PolicyParameters):
            if getattr(request, one.name) != one.default:
                refuse(one.name, getattr(request, one.name), "with policies")
        return None
    from specroof.questions.adaptive import AdaptiveRequest, adaptive  # noqa: PLC0415 - seldom

    if checked.played is None or checked.played.kind != "concurrency":
        refuse("policies", True, "with concurrency whose requests are played through")
    same = {one.name for one in fields(AdaptiveRequest)} & {one.name for one in fields(request)}
    return adaptive(
        **{name: getattr(request, name) for name in same}
        | {
            "model": checked.model,
            "family": None,
            "hardware": chip.setup.hardware,
            "tensor_parallel": chip.setup.placement.tensor_parallel,
            "drafter": chip.drafter,
            "concurrency": checked.loads,
            "max_draft_len": checked.draft_lens and checked.draft_lens[-1],
        }
    )


def _played_server(
    checked: CheckedRequest, setup: Setup, drafter: Drafter, load: Load, most: int
) -> PlayedServer:
    """Return the server on which requests are played, with so many drafts at most."""
    room = room_rule(setup, checked.request.capacity, "queue")
    return played_server(Deployment(checked.model, setup), drafter, load, room, most)


def _played_plan(
    checked: CheckedRequest, setup: Setup, drafter: Drafter, plan: LoadPlan
) -> PlayedPlan | None:
    """Return what requests that come by themselves see under the schedule that is advised."""
    if checked.played is None or checked.played.kind == "concurrency":
        return None
    most = max(k for _, _, k in plan.schedule)
    server = _played_server(checked, setup, drafter, checked.played, most)
    return played_plan(server, checked.played, plan.schedule, checked.targets.seconds)


def _is_fixed(drafter: Drafter, request: AdviseRequest, frameworks: Sequence[str]) -> bool:
    """Tell whether a server that flags are written for keeps one draft length at any load."""
    shape: dict[str, Any] = {
        "is_tree": ",tree=" in drafter.name,
        "data_parallel": request.attention_data_parallel,
        "pipeline_parallel": request.pipeline_parallel,
    }
    return not all(follows_load(drafter.kind, framework, **shape) for framework in frameworks)


def _raised(prediction: Prediction, plan: LoadPlan) -> dict[str, tuple[int, int]]:
    """Return the default limits that bind, and what they are raised to, by the server's keys.

    To that of the largest load at which drafts are on; without drafts, of the largest.
    """
    told = prediction.told[plan.chosen]
    drafted = [row.place for row in plan.rows if row.draft_len] if told else []
    limits = [told[place][1] for place in drafted] if drafted else [plain for plain, _ in told]
    most = max((limit for limit in limits if limit is not None), default=None)
    if most is None:
        return {}
    room = served_room(
        prediction.deployment,
        context_len=1.0,
        drafter=prediction.drafters[plan.chosen] if drafted else None,
    )
    return {"running": (room.server.running or most, most)}


def _typical(drafter: Drafter) -> Drafter | None:
    """Return a drafter with the usual shape of acceptance through its one rate; None if measured.

    Of trained drafters alone: what one rate says of deeper drafts was measured of none of them.
    """
    acceptance = drafter.acceptance
    if not isinstance(acceptance, Acceptance) or acceptance.law is not constant_law:
        return None
    family = FAMILIES.get(drafter.kind, drafter.kind)
    if family in LOOKUPS or family not in SHAPES or acceptance.measured_depth is not None:
        return None
    shape = falling_odds_acceptance(acceptance.parameters[0], SHAPES[family].power)
    return replace(drafter, acceptance=shape)


def _unreached(plan: LoadPlan) -> Iterator[str]:
    """Warn where drafting should stop at a load that a speculating server has no memory for."""
    off = [entry for entry in plan.schedule[len(plan.reached) :] if not entry[2]]
    if off and plan.reached and plan.capacity is not None:
        most = plan.capacity["speculative"]["largest_batch"]
        requests = f"{most:g} request" + "s" * (most != 1)
        yield (
            f"with speculation this server holds at most {requests}, so it never reaches the "
            f"{off[0][0]} at which drafting should stop; to serve {off[0][0]}, start it without "
            f"speculation"
        )


def _uncaptured(setup: Setup, plan: LoadPlan, captured: LoadPlan) -> Iterator[str]:
    """Warn where the captured sizes that the user stated cost throughput, with what they cost."""
    pairs = [*zip(plan.rows, captured.rows, strict=True)]
    told, free = max(pairs, key=lambda pair: pair[1].tokens_per_s / pair[0].tokens_per_s)
    rates = told.tokens_per_s, free.tokens_per_s
    if rates[1] > (1 + WORTH_A_RESTART) * rates[0]:
        yield (
            f"--server capture={setup.user_settings.capture} leaves passes without graphs: {told.load:.4g} {told.unit} "
            f"get {rates[0]:.0f} tokens/s with {format_drafts(told.draft_len)}; by default they get "
            f"{rates[1]:.0f} with {format_drafts(free.draft_len)}"
        )


def hosts_of(setup: Setup) -> int:
    """Return the machines that the devices of a placement are in.

    Source
        `specroof.hardware.Interconnect.host_devices`.
    """
    nodes, link = setup.placement.nodes or 1, setup.hardware.interconnect
    each = setup.placement.devices // nodes
    of_host = each if link is None else link.host_devices or each
    return nodes * -(-each // of_host)


def _nodes(setup: Setup, frameworks: Sequence[str]) -> Iterator[str]:
    """Warn where the server needs devices of several hosts, each of which has to be started.

    Source
        vllm 0.33.0, ``engine/arg_utils.py``; sglang 0.5.23, ``srt/arg_groups/fields/parallel.py``.
    """
    hosts = hosts_of(setup)
    if hosts > 1:
        others = "; ".join(f"{name}: {OTHER_HOSTS[name]}" for name in frameworks)
        yield (
            f"{setup.placement.devices} devices are in {hosts} hosts: the command is of the first, "
            f"put its address in the place of {FIRST_HOST}; on each of the others {others}"
        )


def _missing(setup: Setup, request: AdviseRequest, *, priced: bool) -> Iterator[str]:
    """Yield the facts that a chip lacks, and how to give them."""
    chip, engine = setup.hardware.name, setup.engine.name
    own = setup.engine.rules in LOCAL_FRAMEWORKS
    if not priced and not own:
        yield f"no price of {chip} is known: give yours with --price-per-hour"
    if setup.engine == IDEAL_ENGINE and request.engine is None:
        yield (
            f"{chip} has no measured engine: its figures are the ideal bound, and it is listed "
            f"after chips with an engine"
        )
    asked = {None, engine}
    if not own and request.framework not in asked and not setup.hardware.owns(request.framework):
        yield f"{chip} has no fit of {request.framework}: engine {engine} stands in"


def _draft_model(checked: CheckedRequest, drafter: Drafter) -> str | None:
    """Return the weights that the user named for a drafter: mtp's are its own where others are."""
    others = {other.kind for other in checked.drafters} - {"mtp", *LOOKUPS}
    return None if drafter.kind == "mtp" and others else checked.request.draft_model


def without_refused(checked: CheckedRequest) -> tuple[CheckedRequest, dict[str, str]]:
    """Return the question with the drafters that the requested server runs, and why not the others.

    Drafters that are a share of time stand for any, and are kept.

    Raises
    ------
    OptionError
        Where none is left.
    """
    framework, refused = checked.request.framework, dict[str, str]()
    for drafter in checked.drafters if framework is not None else ():
        longest = drafter.max_draft_len or 1
        try:
            if drafter.kind in SERVED_KINDS:
                launch(_told(checked, drafter, [(1, 1, longest)]), str(framework))
        except OptionError as refusal:
            refused[drafter.name] = str(refusal)
    left = tuple(drafter for drafter in checked.drafters if drafter.name not in refused)
    if not left:
        raise OptionError("; ".join(dict.fromkeys(refused.values())))
    return replace(checked, drafters=left), {
        name: why.partition("; allowed")[0] for name, why in refused.items()
    }


def _told(
    checked: CheckedRequest,
    drafter: Drafter,
    schedule: Sequence[tuple[int, int, int]],
    *,
    is_tree: bool = False,
    **more: Any,
) -> Speculation:
    """Return what a server is told of a drafter, whose name is its SPEC."""
    request = checked.request
    pairs = (pair.partition("=") for pair in drafter.name.split(",")[1:])
    spec = {key.strip(): value.strip() for key, _, value in pairs}
    weights, own = _draft_model(checked, drafter), spec.get("config", "")
    is_file = own.casefold().endswith(".gguf") or (":" in own and own.count("/") == 1)
    if is_file and own != str(request.model):
        weights = weights or own
    return speculation_of(
        drafter,
        checked.model,
        schedule,
        weights,
        is_tree=is_tree or "tree" in spec,
        top_k=int(spec.get("top-k", 1)),
        data_parallel=request.attention_data_parallel,
        pipeline_parallel=request.pipeline_parallel,
        kv_cache=options_of(request.options).kv_dtype,
        p_min=float(spec.get("p-min", 0)),
        n_min=int(float(spec.get("n-min", 0))),
        on_host=spec.get("device") == "cpu",
        **more,
    )


def _launches(
    checked: CheckedRequest,
    prediction: Prediction,
    drafter: Drafter,
    plan: LoadPlan,
    frameworks: Sequence[str],
) -> tuple[list[Launch], dict[str, str | None], list[str]]:
    """Return flags by framework, and why there are none; no drafts need no flags."""
    request, setup = checked.request, prediction.setup
    if not any(row.draft_len for row in plan.rows):
        return [], dict.fromkeys(frameworks, ""), []
    schedule = plan.reached
    if prediction.split is not None:
        from specroof.questions.splits import worker_schedule  # noqa: PLC0415 - asked for seldom

        schedule = worker_schedule(schedule, prediction, plan.chosen)
    launches, config, refusals = list[Launch](), dict[str, str | None](), list[str]()
    for framework in frameworks:
        try:
            speculation = _told(
                checked,
                drafter,
                schedule,
                is_tree=plan.is_tree,
                nodes=plan.nodes,
                # Limits that are raised are those of the server that was predicted.
                settings=setup.user_settings
                if framework == setup.engine.rules
                else server_of(request.server),
            )
            flags = launch(speculation, framework)
        except OptionError as refusal:
            config[framework] = None
            refusals.append(str(refusal))
            continue
        launches.append(flags)
        config[framework] = flags.text
        refusals += flags.notes
    return launches, config, refusals


def _worker_flags(
    checked: CheckedRequest,
    setup: Setup,
    drafter: Drafter,
    launches: Sequence[Launch],
    config: dict[str, str | None],
) -> tuple[dict[str, dict[str, Launch]], list[str]]:
    """Return flags of prefill and decode workers by framework, and why there are none."""
    flags = {own.framework: own for own in launches}
    found, refusals = dict[str, dict[str, Launch]](), list[str]()
    for framework, text in config.items():
        if text is None:  # refused already
            continue
        try:
            found[framework] = worker_launches(
                framework,
                flags.get(framework),
                setup.placement,
                input_len=checked.workload.input_len,
                kind=drafter.kind,
                family=checked.model.family,
            )
        except OptionError as refusal:
            refusals.append(str(refusal))
    return found, refusals


def _rank(chip: ChipAdvice) -> tuple[bool, bool, float, float]:
    """Return the key that chips are ranked by: price at the best load, then tokens per device.

    The best load meets the targets; chips that have none come after those that do. A chip without
    a measured engine comes last: no server reaches its figures, which are a bound.
    """
    row = chip.plan.best or chip.rows[-1]
    rate, usd = float(np.nan_to_num(row.tokens_per_s)), row.usd_per_million_tokens
    usd = usd if usd and rate else math.inf
    unmeasured = chip.setup.engine == IDEAL_ENGINE
    return unmeasured, chip.plan.best is None, usd, -rate / chip.prediction.devices


# --- The benchmark that would settle most, as commands -------------------------------------------

#: Whose benchmark is written where the engine's server cannot be forced to accept drafts.
_USUAL: Final = "sglang"


def least_certain(
    checked: CheckedRequest,
    setup: Setup,
    hardware: HardwareLike,
    prediction: Prediction,
    plan: LoadPlan,
) -> ToMeasure | None:
    """Return the point to measure; None where nothing was tried.

    Parameters
    ----------
    checked
        The question.
    setup, hardware
        Where passes run, and the chip as it was given.
    prediction, plan
        What the decision is made from, and the decision.
    """
    known = [row for row in plan.rows if row.point is not None and math.isfinite(row.tried_speedup)]
    if not known:
        return None
    least, drafter = plan.targets.least_speedup, checked.drafters[plan.chosen]
    bands = [
        tuple(end / least for end in (low, row.tried_speedup, high))
        for row in known
        for low, high in [_tried_band(row)]
    ]
    row = known[least_settled(bands)]  # type: ignore[arg-type]  # three of each
    rates: list[float | None] = [None, None]
    if row.concurrency is not None:
        one = prediction.outcomes[plan.chosen]
        rates = one.tokens_per_s[0, row.place, [0, row.tried_draft_len]].tolist()
    refused, commands = "", list[tuple[str, str]]()
    try:
        curve = prediction.curves[plan.chosen]
        commands = _benchmark(checked, setup, hardware, drafter, curve, row)
    except OptionError as refusal:
        refused = str(refusal)
    return ToMeasure(
        concurrency=row.at_once if row.rate is None else max(round(row.at_once), 1),
        drafter=drafter.name,
        draft_len=row.tried_draft_len,
        plain_tokens_per_s=rates[0],
        tokens_per_s=rates[1],
        swings=swings(row.point) if row.point is not None else {},
        commands=tuple(commands),
        refused=refused,
    )


def _tried_band(row: AdvisedRow) -> tuple[float, float]:
    """Return the band of the drafts that are tried, without width where none is known."""
    return row.bands.get("tried_speedup", (row.tried_speedup, row.tried_speedup))


def _benchmark(
    checked: CheckedRequest,
    setup: Setup,
    hardware: HardwareLike,
    drafter: Drafter,
    curve: SpeedupCurve,
    row: AdvisedRow,
) -> list[tuple[str, str]]:
    """Return titles and commands that measure a point, and that read the results.

    Raises
    ------
    OptionError
        For drafts that no engine can be forced to accept, and a server that is started otherwise
        than these commands do.
    """
    request, place, options = checked.request, setup.placement, setup.options
    framework = request.framework or setup.engine.rules
    if RUNS.get(framework, framework) in LOCAL_FRAMEWORKS:
        refuse("framework", framework, " or ".join(FRAMEWORKS))
    if place != Placement(place.tensor_parallel, nodes=1) or options.n_cpu_moe:
        reject("this server is no plain one to benchmark", "devices of one node that split layers")
    drafts = row.tried_draft_len
    if curve.verify_len[drafts] != drafts + 1:
        refuse("drafter", drafter.name, "a chain or block, which engines can be told to accept")
    schedule = [(1, round(row.at_once), drafts)]
    point = MockPoint(
        model=checked.model_name,
        speculation=speculation_of(
            drafter, checked.model, schedule, _draft_model(checked, drafter)
        ),
        tokens_per_round=round(float(curve.tokens_per_round[0, row.place, drafts]), 4),
        batch_size=round(row.at_once),
        input_len=round(checked.workload.input_len),
        output_len=round(checked.workload.output_len),
        tensor_parallel=place.tensor_parallel,
        weights=options.weight_dtype,
        kv_cache=options.kv_dtype,
    )
    commands = mock_commands(point, framework if framework in FRAMEWORKS else _USUAL)
    if isinstance(hardware, HardwareProfile):
        chip = min((setup.hardware.name, *setup.hardware.aliases), key=len)
    else:
        chip = os.fspath(hardware)
    words = {
        "-H": chip,
        "--model": point.model,
        "--drafter": drafter.name,
        "--draft-len": drafts,
        "--tp": place.tensor_parallel,
        "--family": request.family,
        "--engine": request.engine,
        "--kv-cache": options.kv_dtype,
        "--weights": options.weight_dtype,
    }
    pairs = [(flag, str(word)) for flag, word in words.items() if word is not None]
    results = shlex.join(["bench.jsonl", *chain.from_iterable(pairs)])
    mine = shlex.quote(f"my-{Path(chip).stem}.yaml")
    return [
        *commands,
        ("then compare", f"specroof validate {results}"),
        ("and fit, with results at several loads", f"specroof calibrate {results} -o {mine}"),
    ]


def _refuse_unmeasured(point: ToMeasure | None) -> None:
    """Refuse to print a benchmark where there is none."""
    if point is None:
        reject("bench is True, and no draft can be tried on one server", "another drafter or load")
    if point.refused:
        raise OptionError(point.refused)


def bench_text(answer: Advice, point: ToMeasure) -> str:
    """Return the commands of the benchmark that would settle most, and what it should show.

    All but the commands are comments of a shell script.
    """
    chip = answer.chips[0]
    lines = [f"# {title}\n{command}\n" for title, command in point.commands]
    requests = f"{point.concurrency:g} in flight, {answer.workload.requests}"
    lines.append(f"# {requests}: {format_drafts(point.draft_len)} of {point.drafter}")
    if point.plain_tokens_per_s and point.tokens_per_s:
        lines.append(
            f"# predicted by engine {chip.setup.engine.name}: {point.plain_tokens_per_s:.0f} tok/s "
            f"without drafts, {point.tokens_per_s:.0f} with, "
            f"{point.tokens_per_s / point.plain_tokens_per_s:.2f}x"
        )
    if chip.drafter.kind in LOOKUPS:
        lines.append(f"# note: {_MATCHES}")
    return "\n".join(lines)


#: What look-ups need besides a forced acceptance.
_MATCHES: Final = "random prompts repeat little: vLLM verifies drafts just where an n-gram is found, SGLang always"


# --- Advice on one page --------------------------------------------------------------------------

#: What the commands of a benchmark are called in JSON.
_TITLED: Final = ("title", "command")
#: Letters of a kind of drafter that it has room for.
_LONGEST_NAME: Final = 8
#: Other lengths, shapes and drafters that the table has room for, beside those advised.
_MOST_BESIDE: Final = 3


def advice_text(answer: Advice) -> str:
    """Return the page: the decision, loads, prices, bottlenecks, and flags to paste."""
    best = answer.chips[0]
    title = f"{answer.title}; {answer.workload.requests}"
    short = _short_names(answer.drafters)
    bands = served_bands_line(
        evidence_engine(Deployment(answer.model, best.setup)),
        _loads(best),
        requests=True,
        played=bool(best.prediction.played),
        can_play=not best.prediction.played and best.split is None,
    )
    parts = [
        wrapped(title),
        wrapped(decision_line(best)),
        *map(wrapped, _conditions(best)),
        *map(wrapped, _targets_lines(answer, best)),
        *([wrapped(_day_line(day))] if (day := best.plan.courses[best.plan.chosen].day) else []),
        *([_chips_table(answer)] if len(answer.chips) > 1 else []),
        _choices_table(best, short),
        _times_table(best),
        *_workers(best),
        *([] if best.played is None else _played_parts(answer, best.played)),
        *filter(None, [wrapped(bands)]),
        *_ends(best),
        *_policies_parts(answer),
        *(
            ["\n".join(wrapped(f"{short[d]}: {name}") for d, name in enumerate(answer.drafters))]
            if len(short) > 1
            else []
        ),
        *_commands(best, answer.model_name, answer.model.family),
    ]
    notes = [wrapped(note_lines([note])) for note in (*answer.warnings, *answer.notes)]
    return "\n\n".join([*parts, "\n".join(notes)])


def _played_parts(answer: Advice, plan: PlayedPlan) -> Iterator[str]:
    """Yield what clients see of requests that are played through, and the largest rates."""
    requests = ", ".join(f"{count}" for count in dict.fromkeys(plan.load.requests))
    yield (
        wrapped(f"{requests} requests played through, without drafts (off) and with these (on):")
        + f"\n{plan_table(plan)}"
    )
    if plan.largest_rates is not None:
        names = ("without drafts", "with these")
        rates = dict(zip(names, plan.largest_rates, strict=True))
        yield wrapped(largest_rates_line(rates, answer.targets.seconds))


def _policies_parts(answer: Advice) -> Iterator[str]:
    """Yield what draft lengths gain that follow load or confidence."""
    if answer.policies is not None:
        from specroof.questions.adaptive import policies_parts  # noqa: PLC0415 - asked for seldom

        yield from policies_parts(answer.policies)


def decision_line(chip: ChipAdvice) -> str:
    """Return the decision in a sentence or two, and how sure it is."""
    rows = chip.rows
    unit = rows[0].unit if rows[0].rate is not None else f"requests {rows[0].unit}"
    span = f"from {rows[0].load:.4g} to {rows[-1].load:.4g} {unit}"
    if len(rows) == 1:
        span = f"at {rows[0].load:.4g} {rows[0].unit}"
    drafted = [row for row in rows if row.draft_len]
    missed = sorted({row.missed for row in rows} - {""})
    known = [row.tried_speedup for row in drafted or rows if not row.reason]
    gain = f"the best draft reaches {max(known):.2f}x" if known else chip.drafter.name
    if drafted:
        gain = f"{chip.drafter.name}" + (f", up to {max(known):.2f}x" if known else "")
    elif missed:
        gain = f"drafts miss the {' and the '.join(missed)}"
    if chip.decision == "depends":
        groups = [
            (decision, [f"{row.load:.4g}" for row in of_decision])
            for decision, of_decision in groupby(rows, key=lambda row: row.decision or "off")
        ]
        words = [f"{decision.upper()} at {', '.join(loads)}" for decision, loads in groups]
        if chip.up_to is not None:
            words[0] = f"ON UP TO {chip.up_to:.4g}"
        span = f"{', '.join(words)} {unit}"
    else:
        span = f"{chip.decision.upper()} {span}"
    takes = [f"{key}={most}" for key, (_, most) in chip.raised.items()]
    if takes and any(row.default is not None for row in rows):
        span += f" with {chip.setup.engine.rules}'s {', '.join(takes)}"
    drafts = f" {_schedule_line(chip.plan)}" if drafted else ""
    refused = "".join(
        f" {name} {'has no flags' if name == chip.drafter.name else 'is no choice'}: {why}."
        for name, why in chip.refused.items()
    )
    return f"{span}: {gain}. {_sureness(rows)}{drafts}{refused}"


def _schedule_line(plan: LoadPlan) -> str:
    """Return the drafts by load, which are those of the table and of the flags."""
    ranges = ", ".join(
        f"{k} at " + (f"{first:g}" if first == last else f"{first:g}-{last:g}")
        for first, last, k in plan.schedule
    )
    return f"Drafts by load: {ranges}."


def _conditions(chip: ChipAdvice) -> Iterator[str]:
    """Yield what the decision takes: limits that are raised, waits, a shape of acceptance."""
    rows, server = chip.rows, chip.setup.engine.rules
    bound = [row for row in rows if row.default is not None]
    for key, (limit, most) in chip.raised.items() if bound else ():
        default = bound[-1].default
        figures = "" if default is None else _figures(default)
        yield (
            f"It takes --server {key}={most}, which the flags of {server} have: with its default of "
            f"{limit}, {bound[-1].load:.4g} {bound[-1].unit} would get {figures}."
        )
    only = [f"{row.load:.4g}" for row in rows if row.reason and row.keeps_up]
    if only:
        yield f"At {', '.join(only)} {rows[0].unit} only a server that drafts keeps up."
    waits = [row for row in rows if row.waits]
    if waits:
        loads = ", ".join(f"{row.load:.4g}" for row in waits)
        last = waits[-1].ttft_s or 0.0, waits[-1].plain_ttft_s
        capacity, load = chip.plan.capacity, waits[-1].at_once
        runs: float = load if capacity is None else capacity["speculative"]["largest_batch"]
        held = f", since {runs:g} of {load:g} run with drafts" if runs < load else ""
        yield (
            f"At {loads} {rows[0].unit} throughput is bought with waiting: a first token after "
            f"{format_seconds(last[0])} in the place of {format_seconds(last[1])}{held}. --ttft says "
            f"how long is too long."
        )
    shaped = [row for row in rows if row.typical_speedup is not None and not row.reason]
    if shaped:
        best = max(shaped, key=lambda row: row.typical_speedup or 0.0)
        yield (
            f"Draft lengths are those of the typical shape of {chip.drafter.kind}, whose later "
            f"drafts are accepted less: with it {best.load:.4g} {best.unit} gain "
            f"{best.typical_speedup:.2f}x, with one rate at every depth {best.speedup:.2f}x."
        )


def _figures(row: LoadRow) -> str:
    """Return throughput, price where it is known, and the wait for the first token."""
    usd = row.usd_per_million_tokens
    price = "" if usd is None else f" at ${format_price(usd)} a million"
    return (
        f"{row.tokens_per_s:.0f} tok/s{price} and a first token after "
        f"{format_seconds(row.ttft_s or 0.0)}"
    )


def _targets_lines(answer: Advice, chip: ChipAdvice) -> Iterator[str]:
    """Yield at which loads users wait no longer than they may, as advised and without drafts."""
    targets = answer.targets
    limits = {"TTFT": targets.ttft_ms, "TPOT": targets.tpot_ms}
    promises = [f"{name} of {ms:g} ms" for name, ms in limits.items() if ms is not None]
    if promises:
        words = []
        for plain in (False, True):
            met: dict[Outcome, list[str]] = {"yes": [], "unclear": []}
            for row in chip.rows:
                outcome = row.plain_meets_targets if plain else row.meets_targets
                met.setdefault(outcome, []).append(f"{row.load:.4g}")
            sure = f"{', '.join(met['yes'])} {chip.rows[0].unit}" if met["yes"] else "no load"
            words.append(
                f"{sure}, unclear at {', '.join(met['unclear'])}" if met["unclear"] else sure
            )
        yield f"{' and '.join(promises)}: met at {words[0]}; without drafts at {words[1]}."


def _day_line(day: Day) -> str:
    """Return the gain of the day, beside a fixed length and the best of each hour."""
    line = (
        f"Over the day: {day.gain:+.1%} {day.gain_of} against off. The best fixed length, {format_drafts(day.fixed)}, "
        f"gives {day.fixed_gain:+.1%}, a schedule {day.scheduled_gain:+.1%}, the best length of "
        f"each hour {day.oracle_gain:+.1%}."
    )
    if day.held_changes < day.changes:
        line += (
            f" Changes of drafts: {day.changes}; held until a load is {day.held_margin:.0%} past the edge of a "
            f"range: {day.held_changes}, for {day.held_gain:+.1%}."
        )
    if day.saturated:
        hours = ", ".join(map(str, day.saturated))
        line += f" More requests arrive than it answers in hours {hours}."
    return line


def _ends(chip: ChipAdvice) -> Iterator[str]:
    """Yield the break-even at the largest load, and the point to measure."""
    row = chip.rows[-1]
    if row.point is not None:
        rate, length = chip.break_even[-1].rate, chip.break_even[-1].tokens_per_round
        takes = (
            "no acceptance is enough"
            if rate is None
            else (f"an acceptance of {rate:.2f} a draft, {length:.2f} tokens per round, is enough")
        )
        yield wrapped(
            f"Break-even at {row.load:.4g} {row.unit} with {format_drafts(row.tried_draft_len)}: {takes} "
            f"(here {row.point.tokens_per_round:.2f} tokens)."
        )
    if chip.to_measure is not None:
        point = chip.to_measure
        swing = math.expm1(point.swings[point.moved_by])
        line = wrapped(
            f"To measure: {point.concurrency:g} in flight, {format_drafts(point.draft_len)} of "
            f"{point.drafter}, the least certain point. The {INPUTS[point.moved_by]} moves it most: "
            f"10% up or down swings it by {swing:.0%}."
            + (" --bench prints its commands." if point.commands else "")
        )
        yield line


def _sureness(rows: Sequence[AdvisedRow]) -> str:
    """Return the certainty of the decision, from the bands."""
    known = [_tried_band(row) for row in rows if not row.reason]
    if known and all(low == high or math.isnan(low) for low, high in known):
        return "How sure: unknown, this engine has no band."
    unclear = [f"{row.load:.4g}" for row in rows if row.is_open]
    if unclear:
        drafted = [row for row in rows if row.is_open and row.draft_len]
        expected = "; drafts are made there, as more is expected" * (len(drafted) == len(unclear))
        return (
            f"How sure: the band that holds 80% of measurements leaves {', '.join(unclear)} "
            f"open{expected}."
        )
    return "How sure: the band that holds 80% of measurements agrees at every load."


def _short_names(names: Sequence[str]) -> list[str]:
    """Return the kinds of drafters, numbered where two are of one kind."""
    kinds = [name.partition(",")[0][:_LONGEST_NAME] for name in names]
    return [
        kind if kinds.count(kind) == 1 else f"{kind} {1 + kinds[:d].count(kind)}"
        for d, kind in enumerate(kinds)
    ]


#: What rows are told apart by, and figures without drafts and with them.
_LOAD: Final = ("rate", "concurrency")
_FIGURES: Final = {
    "tokens_per_s": "tok/s",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "usd_per_million_tokens": "$/M",
}


def _load_key(rows: Sequence[AdvisedRow]) -> str:
    """Return the column that loads stand in: of a job how many requests run."""
    given = (name for name in _LOAD if getattr(rows[0], name) is not None)
    return next(given, "plain_running")


def _choices_table(chip: ChipAdvice, short: Sequence[str]) -> str:
    """Return the drafts at each load, beside the user's own lengths and other drafters."""
    rows = chip.rows
    names = [name for d, name in enumerate(short) if d != chip.plan.chosen]
    others = {
        name: [figure(row.tried_speedup, "{:.2f}".format) for row in of_drafter]
        for name, of_drafter in zip(names, chip.plan.others, strict=True)
    }
    room = _MOST_BESIDE - (rows[0].typical_speedup is not None)
    own = {f"γ={k}": [figure(row.own[k], "{:.2f}".format) for row in rows] for k in rows[0].own}
    beside = dict([*others.items(), *own.items()][:room])
    shown = ["draft_len", "tried_speedup", "tried_speedup_band", "decision", "typical_speedup"]
    shown = [_load_key(rows), *shown, "limited_by"]
    titles = {_load_key(rows): "load", "tried_speedup": "speedup"}
    table = rows_table(rows, shown, beside, **titles)
    if all(row.draft_len for row in rows):
        return table
    return f"{table}\noff: speedup and band that drafts would have there"


def _times_table(chip: ChipAdvice) -> str:
    """Return the server's figures at each load, without drafts and with."""
    titles = {_load_key(chip.rows): "load"} | {
        f"{before}{name}": title + side
        for name, title in _FIGURES.items()
        for before, side in {"plain_": " off", "": " on"}.items()
    }
    return rows_table(chip.rows, [*titles], **titles)


def _chips_table(answer: Advice) -> str:
    """Return a line for each chip, at the best of its loads, and what they are compared on."""
    chips = answer.chips
    rows = [chip.plan.best or chip.rows[-1] for chip in chips]
    hourly = [
        ABSENT if (usd := chip.usd_per_hour) is None else format_price(usd * row.devices)
        for chip, row in zip(chips, rows, strict=True)
    ]
    figures = ("tpot_s", "tokens_per_s", "usd_per_million_tokens", "usd_per_million_tokens_band")
    shown = ["hardware", "devices", _load_key(rows), "draft_len", *figures]
    lines = [rows_table(rows, shown, {"$/h": hourly})]
    lines += [
        wrapped(f"{chip.setup.hardware.name}: no load meets the targets")
        for chip in chips
        if chip.plan.best is None
    ]
    lines += compared_on(
        {chip.setup.hardware.name: chip.setup.engine.name for chip in chips},
        {chip.setup.hardware.name: chip.reach(answer) for chip in chips},
    )
    return "\n".join(lines)


def _workers(chip: ChipAdvice) -> Iterator[str]:
    """Yield the workers of a split, and how busy they are."""
    if chip.split is not None:
        from specroof.questions.splits import split_text  # noqa: PLC0415 - asked for seldom

        choices = [(chip.plan.chosen, row.place, row.draft_len) for row in chip.rows]
        yield from split_text(chip.prediction, chip.split, choices)


def _command(
    flags: Launch,
    chip: ChipAdvice,
    model: str,
    family: str,
    *,
    setup: Setup | None = None,
    what: str = "",
) -> str:
    """Return the command of a server in lines that a shell joins again.

    Parameters
    ----------
    flags, chip, model, family
        What is told, for which chip and which model of which family.
    setup
        Where a worker runs; that of the chip if None.
    what
        The kind of worker, and how many there are.
    """
    setup = chip.setup if setup is None else setup
    options, rules = setup.options, chip.setup.engine.rules
    others = "" if flags.framework == rules else f", predicted as {rules}"
    start = server_command(
        *(flags.framework, model, setup.placement),
        weights=options.weight_dtype,
        kv_cache=options.kv_dtype,
        hosts=hosts_of(setup),
        family=family,
    )
    if options.n_cpu_moe and flags.framework == "llama.cpp":
        start = f"{start} --n-cpu-moe {options.n_cpu_moe}"
    head = f"# {flags.release}{others}{what}"
    line = f"{flags.environment} {start} {flags.text}".strip()
    return "\n".join([head, *flags.file_lines, folded(line)])


def _commands(chip: ChipAdvice, model: str, family: str) -> Iterator[str]:
    """Yield the commands of a server, or of a prefill and a decode worker, for each framework."""
    split = chip.split
    if split is None:
        yield from (_command(flags, chip, model, family) for flags in chip.launches)
        return
    for roles in chip.worker_launches.values():
        for role, setup, count in (
            ("prefill", split.prefill, split.prefill_workers),
            ("decode", chip.setup, split.decode_workers),
        ):
            what = f": {role} worker, {count} of them" if count > 1 else f": {role} worker"
            yield _command(roles[role], chip, model, family, setup=setup, what=what)


# --- Advice as the object that ``--json`` prints --------------------------------------------------


def _chip_case(answer: Advice, chip: ChipAdvice) -> dict[str, Any]:
    """Return what is served on a chip."""
    split = None
    if chip.split is not None:
        from specroof.questions.splits import split_json  # noqa: PLC0415 - asked for seldom

        split = split_json(chip.setup, chip.split)
    return {
        **case_of(answer.model, chip.setup, answer.workload),
        "usd_per_hour": chip.usd_per_hour,
        "capacity": chip.plan.capacity,
        "split": split,
    }


def _chip_choice(answer: Advice, chip: ChipAdvice) -> dict[str, Any]:
    """Return what is advised for a chip."""
    plan, point = chip.plan, chip.to_measure
    course = plan.courses[plan.chosen]
    return {
        "hardware": chip.setup.hardware.name,
        "decision": chip.decision,
        "on_up_to": chip.up_to,
        "drafter": chip.drafter.name,
        "refused": chip.refused,
        "schedule": [list(entry) for entry in course.schedule],
        "schedule_lost": course.lost,
        "best": plan.best and records_of([plan.best])[0],
        "by_default": records_of([row.default for row in chip.rows if row.default is not None]),
        "own_lengths": [
            {**fields_of(row, *_LOAD), "draft_len": k, "speedup": to_json_array(speedup)}
            for row in chip.rows
            for k, speedup in row.own.items()
        ],
        "raised": {key: {"from": low, "to": high} for key, (low, high) in chip.raised.items()},
        "traffic": _day_json(course.day),
        "engine_config": chip.engine_config,
        "engine_files": chip.files,
        "workers": _workers_json(chip),
        "break_even": [
            {
                **fields_of(row, *_LOAD),
                "draft_len": row.tried_draft_len,
                "accept": least.rate,
                "accept_length": least.tokens_per_round,
            }
            for row, least in zip(chip.rows, chip.break_even, strict=True)
        ],
        "to_measure": point
        and fields_of(
            point, "concurrency", "drafter", "draft_len", "plain_tokens_per_s", "tokens_per_s"
        )
        | fields_of(point, "moved_by", "swings", "refused")
        | {"commands": [dict(zip(_TITLED, one, strict=True)) for one in point.commands]},
        "played": None if chip.played is None else chip.played.to_dict(),
        "reach": chip.reach(answer),
    }


def _workers_json(chip: ChipAdvice) -> dict[str, Any] | None:
    """Return how busy workers of a split are, and their flags; None where one server does both."""
    if chip.split is None:
        return None
    workers = chip.prediction.end_to_end[chip.plan.chosen].workers
    loads = [
        fields_of(row, *_LOAD)
        | {
            side: {
                name: to_json_array(getattr(workers, name)[0, row.place, drafts])
                for name in WORKER_ARRAYS
            }
            | {"tokens_per_s_per_device": tokens_per_s / row.devices}
            for side, drafts, tokens_per_s in (
                ("plain", 0, row.plain_tokens_per_s),
                ("advised", row.draft_len, row.tokens_per_s),
            )
        }
        for row in chip.rows
    ]
    flags = {
        framework: {role: own.text for role, own in roles.items()}
        for framework, roles in chip.worker_launches.items()
    }
    return {"loads": loads, "flags": flags}


def _loads(chip: ChipAdvice) -> list[float]:
    return [row.at_once for row in chip.rows]


def _day_json(day: Day | None) -> dict[str, Any] | None:
    if day is None:
        return None
    return {
        **fields_of(day, "gain_of", "gain", "scheduled_gain", "fixed", "fixed_gain", "oracle_gain"),
        **fields_of(day, "changes", "held_margin", "held_changes", "held_gain"),
        "running": list(day.running),
        "saturated_hours": list(day.saturated),
    }


# --- The chart -----------------------------------------------------------------------------------


def advice_chart(answer: Advice) -> Any:
    """Draw the advised speedup with its band against the load, a line for each chip.

    Where drafting is off, the speedup is 1. The length of drafts stands at each load of the best
    chip.
    """
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        chart = style.new_chart(f"{answer.model.name}: what is advised", width=8, height=4.4)
        axes = chart.subplots()
        plain = style.plain_line(axes)
        handles: list[Any] = []
        for i, chip in enumerate(answer.chips):
            loads = [row.load for row in chip.rows]
            ends = [
                (row.speedup, *row.bands.get("speedup", (row.speedup, row.speedup)))
                for row in chip.rows
            ]
            speedup, low, high = np.array(ends).T
            (line,) = axes.plot(loads, speedup, **style.look(i))
            axes.fill_between(loads, low, high, color=line.get_color(), alpha=0.15, lw=0)
            devices = chip.prediction.devices
            line.set_label(f"{devices} × {chip.setup.hardware.name}, {chip.setup.engine.name}")
            handles.append(line)
        rows = answer.chips[0].rows
        for row in rows:
            axes.annotate(
                f"γ {row.draft_len}" if row.draft_len else "off",
                (row.load, np.nan_to_num(row.speedup, nan=1.0)),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
            )
        axes.set_xscale("log", base=2)
        ticks = style.thin_ticks([row.load for row in rows], share=0.05)
        style.tick_at(axes.xaxis, ticks, [plain_number(load) for load in ticks])
        axes.set_xlabel("Requests in flight" if rows[0].rate is None else "Requests per second")
        axes.set_ylabel("Speedup over plain decoding,\nprefills counted in both (×)")
        axes.margins(y=0.15)
        style.add_legend(chart, [*handles, plain])
        return chart


COMMAND: Final = Command(
    question=advise,
    options=FORMULAS,
    to_paste=True,
    told=told,
    chart="Draw the advised speedup against the load, a line for each chip.",
    example="specroof advise Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --framework vllm --input-len 3000\n"
    "--output-len 500 --concurrency 1,8,32,64,128 --drafter eagle3,accept-length=2.8@3",
)
