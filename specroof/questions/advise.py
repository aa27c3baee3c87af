"""Does it pay, with which drafter, how many drafts, up to which load, and what do I type?"""

import math
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.acceptance.typical import LOOKUPS
from specroof.architecture.model import Architecture
from specroof.arrays import array_within, fields_of, grouped, to_json_array
from specroof.drafters import SERVED_KINDS, Drafter
from specroof.errors import OptionError, Raised, Urgent, expect, refuse, reject
from specroof.frameworks import LOCAL_FRAMEWORKS, RUNS, SERVERS, release_of
from specroof.hardware.engine import IDEAL_ENGINE, ServerSettings
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import Deployment, Setup, release_in
from specroof.outcomes.case import Case, served_case
from specroof.outcomes.outcomes import RAISED_LIMIT, outcomes
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
from specroof.policies.schedule import Day
from specroof.quantities import records_of
from specroof.questions import parameters as p
from specroof.questions.advised_loads import (
    MISSED,
    AdvisedRow,
    BreakEven,
    LoadPlan,
    Mix,
    Plain,
    Targets,
    TrafficFile,
    Wanted,
    break_even_of,
    grid_of,
    load_plan,
    plain_figures,
    refused_lengths,
    schedule_loads,
)
from specroof.questions.answer import (
    UNSURE,
    Charted,
    case_of,
    compared_on,
    decision_line,
    is_told,
    rows_table,
    sure_of,
    title_of,
)
from specroof.questions.case import load_of, played_load
from specroof.questions.objects import (
    HardwareLike,
    Values,
    as_list,
    framework_of,
    hardware_of,
    name_of,
    options_of,
    server_of,
    unique_list,
    usd_per_hour,
)
from specroof.questions.played_loads import (
    PlayedPlan,
    largest_rates_line,
    plan_table,
    played_plan,
)
from specroof.questions.predict import (
    SPEEDUPS,
    Prediction,
    lengths_of,
    measured_near,
    predicted,
)
from specroof.questions.request import (
    ChipsRequest,
    Command,
    PlayedRequest,
    WorkerRequest,
    expect_runs_on,
    missing_code_notes,
    question,
    refuse_played_workers,
)
from specroof.questions.speculation import can_follow_load, is_recurrent, speculation_of
from specroof.questions.splits import (
    WORKER_ARRAYS,
    candidate_splits,
    dividing_setups,
    split_json,
    split_name,
    split_text,
    worker_schedule,
)
from specroof.reading.words import whole_numbers
from specroof.report.layout import ABSENT, figure, folded, in_line, shows_notes, wrapped
from specroof.serving.benchmark_commands import MockPoint, mock_commands, mocked_frameworks
from specroof.serving.capacity import expect_chip, in_server, served_room
from specroof.serving.launch import (
    DRAFT_MODEL,
    FIRST_HOST,
    Launch,
    launch,
    other_hosts,
    server_command,
    worker_launches,
)
from specroof.serving.played import played_server
from specroof.serving.served import room_rule
from specroof.serving.split import Split
from specroof.serving.workload import Load, Workload, refuse_one_token
from specroof.speedup.reach import nearness
from specroof.units import format_drafts, format_price, format_seconds, plain_number

if TYPE_CHECKING:
    from specroof.questions.adaptive import Adaptive

#: Frameworks whose flags are written by default.
USUAL_FRAMEWORKS: Final = ("vllm", "sglang")
#: Default requests in flight.
USUAL_LOADS: Final = (1, 8, 32, 64, 128)
#: Devices that are tried, beside those that a link joins.
_MOST_DEVICES: Final = 64


@dataclass(frozen=True, kw_only=True)
class AdviseRequest(ChipsRequest, p.PolicyParameters, WorkerRequest, PlayedRequest):
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

    input_len: Annotated[
        float | None, p.like(p.InputLen, about="Tokens of a prompt.", about_flag="")
    ] = None
    output_len: Annotated[
        float | None, p.like(p.OutputLen, about="Tokens of an answer.", about_flag="")
    ] = None
    concurrency: Annotated[
        Values | None,
        p.like(
            p.Concurrency,
            about="Requests in flight, a number or a list.",
            in_python="With `traffic` by default the least, median and largest load of the day.",
            about_flag="Requests in flight, comma-separated; 1..128 doubles.",
            shown=",".join(map(str, USUAL_LOADS)),
        ),
    ] = None
    draft_len: Annotated[
        int | Sequence[int] | None,
        p.Parameter(
            "Drafts per round to choose from, as in 1,2,3.",
            "--choose-draft-len",
            former="--draft-len",
            read=whole_numbers,
            shown="any",
        ),
    ] = None
    framework: Annotated[
        str | None,
        p.like(
            p.Framework,
            about="The server: its engine predicts, its flags are printed.",
            shown="the profile's default engine; flags of vllm and sglang",
        ),
    ] = None
    draft_model: p.DraftModel = None
    ttft_ms: Annotated[
        float | None,
        p.Parameter(
            "Target: time to the first token.",
            "--ttft",
            in_python="Milliseconds.",
            metavar="MS",
        ),
    ] = None
    tpot_ms: Annotated[
        float | None,
        p.Parameter(
            "Target: time per later token.", "--tpot", in_python="Milliseconds.", metavar="MS"
        ),
    ] = None
    min_speedup: Annotated[
        float | None, p.Parameter("Target: the smallest speedup that is worth it.")
    ] = None
    price_per_hour: p.PricePerHour = None
    traffic: Annotated[
        str | os.PathLike[str] | TrafficFile | None,
        p.Parameter(
            "Load over the day: CSV with hour and concurrency or requests_per_s, or YAML with "
            "hours and a mix of input_len, output_len and weight.",
            in_python="Or a `TrafficFile`.",
            metavar="FILE",
        ),
    ] = None
    tensor_parallel: Annotated[
        int | None,
        p.like(p.TensorParallel, shown="as few as the model fits on"),
    ] = None  # type: ignore[assignment]  # as few as hold the model
    devices: Annotated[
        int | None,
        p.Parameter("Devices to split between prefill and decode workers as is best."),
    ] = None
    capacity: p.Capacity = None
    bench: Annotated[
        bool,
        p.Parameter(
            "Print commands that measure the least certain point, without trained weights: random "
            "ones, and a forced acceptance length."
        ),
    ] = False
    policies: Annotated[
        bool,
        p.Parameter(
            "Compare drafts that follow the load or the drafter's confidence with one length for "
            "all loads."
        ),
    ] = False

    @property
    def has_clients(self) -> bool:
        """Whether requests of clients are asked about, on one server, and no day of traffic."""
        others = (self.traffic, self.prefill, self.decode, self.devices)
        return all(other is None for other in others)

    @cached_property
    def wanted(self) -> Wanted:
        """What is asked about, checked, less the drafters that the named server does not run.

        Raises
        ------
        SpecroofError
            For a value that is not allowed, a traffic file that cannot be read, and where no
            drafter is left.
        """
        traffic, mix, clients = None, None, list[float](USUAL_LOADS)
        if self.traffic is not None:
            from specroof.questions.traffic import traffic_of  # noqa: PLC0415 - needs pydantic

            day = traffic_of(self.traffic)
            traffic, mix = day.traffic, day.mix
        if self.concurrency is not None:
            clients = as_list(self.concurrency)
        elif traffic is not None and traffic.unit == "concurrency":
            busy = [max(1.0, load) for load in traffic.loads if load]
            clients = [min(busy), round(np.median(busy)), max(busy)]
        clients = array_within("concurrency", clients, "batch_size").tolist()
        draft_lens = lengths_of(self.draft_len)
        expect("draft_model", self.draft_model, str | None, DRAFT_MODEL)
        targets = Targets(self.ttft_ms, self.tpot_ms, self.min_speedup)
        load = _load(self, clients, mix)
        refuse_one_token(load.steady.workload)
        rules = set[str]()  # of the servers that predict
        for chip in as_list(self.hardware):
            profile = hardware_of(chip)
            here, name = self.engine_on(profile)
            rules.add(here.engine(name).rules)
            usd_per_hour(profile, self.price_per_hour)
        # A word that is not allowed is refused here: of what a chip refuses, others are tried.
        options_of(self.options), server_of(self.server)
        drafters = self.drafters_with_acceptance(self.drafters)
        if not drafters:
            reject("drafters is empty", "at least one drafter (--drafter SPEC)")
        server, version = framework_of(self.framework)
        # An engine of another server asks for it, and chips where no other one runs.
        others = {*LOCAL_FRAMEWORKS} if self.engine is None else {*SERVERS} - {*USUAL_FRAMEWORKS}
        if server is None and len(rules) == 1 and rules <= others:
            (server,) = rules
        frameworks = dict(zip(USUAL_FRAMEWORKS, USUAL_FRAMEWORKS, strict=True))
        if server is not None:
            frameworks = {server: f"{server}@{version}" if version else server}
        asked = sorted({*load.batch_size})
        if load.kind == "concurrency":
            loads, counts = schedule_loads(asked, traffic), [*load.requests]
            if counts:
                known = dict(zip(load.batch_size, counts, strict=True))
                counts = [known.get(load, 0) for load in loads]
            load = replace(load, batch_size=loads, requests=counts)
        # Drafters that are a share of time stand for any, and are kept.
        refusals = {
            one.name: refusal
            for one in drafters
            if (refusal := self.refusal(one, _draft_model(self, drafters, one)))
        }
        left = tuple(one for one in drafters if one.name not in refusals)
        if not left:
            raise OptionError("; ".join(dict.fromkeys(refusals.values())))
        return Wanted(
            *(left, load, asked, targets),
            frameworks=frameworks,
            draft_lens=draft_lens,
            traffic=traffic,
            refused={name: why.partition("; allowed")[0] for name, why in refusals.items()},
        )


# --- What is asked -------------------------------------------------------------------------------


def _load(request: AdviseRequest, clients: Sequence[float], mix: Mix | None) -> Load:
    """Return the loads of a question: of played requests that come at rates, these ascending."""
    is_played, given = request.is_played, (request.input_len, request.output_len)
    if is_played and request.traffic is not None:
        refuse("traffic", request.traffic, "where no requests are simulated")
    if mix is not None:
        if any(one is not None for one in given):
            reject("input_len or output_len is given with a mix in traffic", "one of both")
        cached = 0.0 if request.prefix_hit_rate is None else request.prefix_hit_rate
        workload = replace(mix.workload, prefix_hit_rate=cached)
        return Load(clients, [mix.mean_context_len], workload)
    one_by_one = request.trace is not None or request.lengths is not None
    for name in () if one_by_one else ("input_len", "output_len"):
        if getattr(request, name) is None:
            both = "both lengths of a request (tokens in and out), or a mix in traffic"
            reject(f"{name} is missing", both)
    load = load_of(request, clients, None)
    if not is_played:
        return load
    load = played_load(request, load, request.server)
    rates = sorted({*load.rate})
    return replace(load.part(0, len(rates)), rate=rates) if rates else load


def _draft_model(
    request: AdviseRequest, drafters: Sequence[Drafter], drafter: Drafter
) -> str | None:
    """Return the weights that the user named for a drafter: mtp's are its own where others are."""
    others = {other.kind for other in drafters} - {"mtp", *LOOKUPS}
    return None if drafter.kind == "mtp" and others else request.draft_model


# --- Where it runs -------------------------------------------------------------------------------


def joined_devices(profile: HardwareProfile) -> int:
    """Return the largest number of devices to try: as many as one link joins."""
    link = profile.interconnect
    return 1 if link is None else min(link.max_devices, _MOST_DEVICES)


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """A way to use devices.

    Parameters
    ----------
    setup, split
        Where a server or a decode worker runs, and the workers; None where one server does both.
    servers
        Servers that share the load alike.
    off
        Figures of the best use of the same devices without drafts, over which speedups are; None
        for those of this one.
    notes
        Where other uses are better.
    """

    setup: Setup
    split: Split | None = None
    servers: int = 1
    off: Sequence[Plain] | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The servers in words."""
        if self.split is not None:
            return split_name(self.setup, self.split)
        devices = self.setup.placement.devices
        return f"{self.servers} x {devices} {self.setup.hardware.name} unsplit"

    def case(self, request: AdviseRequest, load: Load) -> Case:
        """Return what is asked about, here."""
        deployment = Deployment(request.architecture, self.setup)
        targets = request.wanted.targets.seconds
        return served_case(deployment, load, request.capacity, split=self.split, targets=targets)


def has_room(request: AdviseRequest, setup: Setup, drafters: Sequence[Drafter] = ()) -> bool:
    """Tell whether a server holds the model and one request, with each of these drafters, too."""
    workload = request.wanted.workload
    rooms = (
        served_room(
            Deployment(request.architecture, setup),
            context_len=workload.input_len + workload.output_len,
            drafter=drafter,
            verify_len=1.0 + (drafter is not None),
        )
        for drafter in (None, *drafters)
    )
    is_endless = room_rule(setup, request.capacity) == "ignore"
    return is_endless or all(room.largest_batch >= 1 for room in rooms)


def server_on(
    request: AdviseRequest, profile: HardwareProfile, tensor_parallel: int | None
) -> DeviceUse | None:
    """Return the server with so many devices, or with as few as hold the model.

    None where there is no room: for the model on the requested devices, or for the model with each
    of its drafters on as many devices as can be joined.
    """
    if tensor_parallel is not None:
        setup = request.worker(profile, tensor_parallel)
        return DeviceUse(setup) if has_room(request, setup) else None
    setups = dividing_setups(profile, joined_devices(profile), request.worker)
    fitting = (one for one in setups if has_room(request, one, request.wanted.drafters))
    return next(map(DeviceUse, fitting), None)


def splits_on(
    request: AdviseRequest, profile: HardwareProfile, devices: int
) -> Iterator[tuple[Setup, Split]]:
    """Yield where a decode worker runs, and the workers, of so many devices; small ones first."""

    def fits(setup: Setup, is_prefill: bool) -> bool:
        return has_room(request, setup, () if is_prefill else request.wanted.drafters)

    return candidate_splits(devices, request.link, profile, request.worker, fits)


def workers_on(request: AdviseRequest, profile: HardwareProfile) -> DeviceUse | None:
    """Return the workers, as told or the best of a budget; None where one has no room.

    The best serves the loads of the question with most tokens, those first that meet the targets.
    It is compared with the best use of the budget without drafts; a note says where servers without
    a split make more.
    """
    if request.tensor_parallel is not None:
        refuse("tensor_parallel", request.tensor_parallel, "none beside workers, which say theirs")
    if request.wanted.load.requests:
        refuse_played_workers(request)
    if request.devices is None:
        setup, split = request.workers_on(profile)
        has_both = all(has_room(request, one) for one in (split.prefill, setup))
        return DeviceUse(setup, split) if has_both else None
    if (request.prefill, request.decode) != (None, None):
        reject("devices is given with prefill or decode", "one of both")
    splits = [DeviceUse(*pair) for pair in splits_on(request, profile, request.devices)]
    if not splits:
        return None
    most = min(joined_devices(profile), request.devices)
    unsplit = [
        DeviceUse(one, servers=request.devices // one.placement.devices)
        for one in dividing_setups(profile, most, request.worker)
        if one.placement.devices <= request.devices
        and has_room(request, one, request.wanted.drafters)
    ]
    uses = [*splits, *unsplit]
    drafted, plain, figures = zip(*(_use_worth(request, use) for use in uses), strict=True)
    best, off = (worths.index(max(worths)) for worths in (drafted, plain))
    most_split = max(drafted[: len(splits)])
    chosen, notes = drafted.index(most_split), list[str]()
    if off != chosen:
        notes.append(f"speedups are over the best use without drafts, {uses[off].name}")
    if best != chosen:
        more = math.exp(max(drafted)[1] - most_split[1])
        notes.append(
            f"no split is the best use: {uses[best].name} with drafts make {more:.2f} times as many tokens"
        )
    said = (Urgent("; ".join(notes)),) if notes else ()
    return replace(uses[chosen], off=None if off == chosen else figures[off], notes=said)


def _use_worth(
    request: AdviseRequest, use: DeviceUse
) -> tuple[tuple[int, float], tuple[int, float], list[Plain]]:
    """Return the key of the best use of devices with drafts and without, and figures without.

    Loads that meet the targets, then the mean logarithm of throughput. Servers share a load alike.
    """
    wanted, loads = request.wanted, np.array(request.wanted.load.batch_size)
    working = np.minimum(loads, use.servers)
    each = replace(wanted, load=replace(wanted.load, batch_size=(loads / working).tolist()))
    found = predicted(use.case(request, each.load), wanted.drafters)
    money = replace(found, price_per_hour=request.price_per_hour).money
    plain = plain_figures(found.outcomes[0], each, money)
    grids = [grid_of(found, d, each, plain) for d in range(len(wanted.drafters))]
    asked = np.isin(loads, wanted.asked)
    made = [np.where(one.allowed, np.nan_to_num(one.tokens_per_s), 0.0) for one in grids]
    rates = (np.concatenate(made, axis=1) * working[:, None])[asked]
    taken = [one.in_time & ~refused_lengths(one) for one in grids]
    meets = np.concatenate(taken, axis=1)[asked]

    def worth(lengths: slice) -> tuple[int, float]:
        reached = np.max(rates[:, lengths] * meets[:, lengths], axis=1)
        known = np.where(reached > 0, reached, np.max(rates[:, lengths], axis=1))
        return int((reached > 0).sum()), float(np.log(np.maximum(known, 1.0)).mean())

    for row, count in zip(plain, working.tolist(), strict=True):
        shares = dict.fromkeys((q.TOKENS_PER_S.name, q.RUNNING.name), count)
        # Those that idle cost as much.
        shares |= dict.fromkeys((q.PRICE.name, q.ENERGY.name), use.servers / count)
        for name, share in shares.items():
            row[name] = row[name] and row[name] * share
            if name in row["bands"]:
                low, high = row["bands"][name]
                row["bands"][name] = low * share, high * share
    return worth(slice(None)), worth(slice(1)), plain


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
    request, given
        What was asked, and the chip as it was named.
    setup
        Chip, engine, placement, and the server with the limits that are advised.
    drafter
        The drafter to start the server with: the best over all loads.
    plan
        Loads, schedule and limits.
    raised
        Settings that replace defaults of the server, by their keys: from, to.
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
    notes, warnings
        Sentences for the reader.
    """

    request: AdviseRequest
    given: HardwareLike
    setup: Setup
    drafter: Drafter
    plan: LoadPlan
    raised: dict[str, tuple[int, int]]
    prediction: Prediction
    played: PlayedPlan | None
    engine_config: dict[str, str | None]
    launches: tuple[Launch, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    worker_launches: dict[str, dict[str, Launch]]
    refused: dict[str, str]

    @property
    def usd_per_hour(self) -> float | None:
        """Price of one device; None if not known."""
        return self.prediction.money.usd_per_hour

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
    def decision(self) -> Decision | None:
        """On, off, depends or unclear; None where nothing is known of acceptance."""
        unknown = all(row.reason == "acceptance" for row in self.rows)
        return None if unknown else decided(self.decisions)

    @property
    def up_to(self) -> float | None:
        """The largest load up to which drafting is on; None where it is not at the first."""
        return paying_up_to([row.load for row in self.rows], self.decisions)

    @cached_property
    def break_even(self) -> list[BreakEven]:
        """The least acceptance that pays, load by load."""
        return [break_even_of(self.prediction, self.plan, place) for place in range(len(self.rows))]

    @property
    def reach(self) -> dict[str, Any] | None:
        """How near measurements are to these loads."""
        names = (drafter.name for drafter in self.request.wanted.drafters)
        return nearness(
            Deployment(self.request.architecture, self.setup),
            list(dict.fromkeys(name.partition(",")[0] for name in names)),
            self.request.wanted.workload.mean_context_len,
            [row.at_once for row in self.rows],
        )

    @cached_property
    def to_measure(self) -> ToMeasure | None:
        """The benchmark that would settle most; None of a split, and where nothing was tried."""
        plan, prediction, model = self.plan, self.prediction, self.prediction.model
        known = [
            row for row in plan.rows if row.point is not None and math.isfinite(row.tried_speedup)
        ]
        if not known or self.split is not None:  # a benchmark starts one server
            return None
        bands = []
        for row in known:
            low, high = row.bands.get("tried_speedup", (row.tried_speedup,) * 2)
            bands.append((low, row.tried_speedup, high))
        row = known[least_settled(bands, plan.targets.least_speedup)]
        # A server that is measured caches no prompts, as none are alike.
        settings = replace(prediction.setup.user_settings, prefix_cache=False)
        refused, commands = "", list[tuple[str, str]]()
        try:
            commands = _benchmark(self, settings, row)
        except OptionError as refusal:
            refused = str(refusal)
        rates: list[float | None] = [None, None]
        if row.concurrency is not None:
            one, place = prediction.outcomes[plan.chosen], row.place
            if commands and any(core.cache_kind == "state" for _, core in model.counted_cores):
                # Without a cache of prefixes memory holds more recurrent states.
                setup = in_server(model, prediction.setup, settings)
                case = prediction.about.at(deployment=Deployment(model, setup))
                drafts = row.tried_draft_len
                one = outcomes(
                    case.at(load=case.load.part(place)),
                    self.drafter,
                    max_draft_len=drafts,
                    draft_lens=(drafts,),
                    only=True,
                )
                place = 0
            rates = one.tokens_per_s[0, place, [0, row.tried_draft_len]].tolist()
        return ToMeasure(
            concurrency=row.at_once if row.rate is None else max(round(row.at_once), 1),
            drafter=self.drafter.name,
            draft_len=row.tried_draft_len,
            plain_tokens_per_s=rates[0],
            tokens_per_s=rates[1],
            swings=swings(row.point) if row.point is not None else {},
            commands=tuple(commands),
            refused=refused,
        )

    @property
    def split(self) -> Split | None:
        """The workers of prefill and of decoding; None where one server does both."""
        return self.prediction.split

    @property
    def files(self) -> dict[str, str]:
        """Files that the flags name."""
        workers = (roles.values() for roles in self.worker_launches.values())
        launches = chain(self.launches, *workers)
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
        best = self.chips[0]
        return f"{title_of(self.model, best.setup, best.split)}; {self.workload.requests}"

    @property
    def sureness(self) -> str:
        """How near measurements are to the loads on the best chip, in one sentence."""
        best = self.chips[0]
        deployment, names = Deployment(self.model, best.setup), [one.name for one in _FIGURES]
        return sure_of(deployment, [best.drafter.kind], best.rows, names)

    @property
    def decision(self) -> Decision | None:
        """The decision on the best chip; None where nothing is known of acceptance."""
        return self.chips[0].decision

    def text(self) -> str:
        """Return the page: the decision, loads, prices, and flags to paste; or the benchmark."""
        chip = self.chips[0]
        point = chip.to_measure if self.asked.get("bench") else None
        if point is None:
            return advice_text(self)
        # All but the commands of the benchmark are comments of a shell script.
        lines = [f"# {title}\n{command}\n" for title, command in point.commands]
        requests = f"{plain_number(point.concurrency)} in flight, {self.workload.requests}"
        lines.append(f"# {requests}: {format_drafts(point.draft_len)} of {point.drafter}")
        if point.plain_tokens_per_s and point.tokens_per_s:
            lines.append(
                f"# predicted by engine {chip.setup.engine.full_name}: "
                f"{point.plain_tokens_per_s:.0f} tok/s without drafts, {point.tokens_per_s:.0f} "
                f"with, {point.tokens_per_s / point.plain_tokens_per_s:.2f}x"
            )
        if chip.drafter.kind in LOOKUPS:
            lines.append(f"# note: {_MATCHES}")
        return "\n".join(lines)

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
        case, *cases = (_chip_case(chip) for chip in self.chips)
        choice, *choices = (_chip_choice(chip) for chip in self.chips)
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
        rows = [row for chip in self.chips for row in chip.rows]
        best = self.chips[0]
        drafter = in_line(best.rows[0].drafter)
        title = f"{self.title}\n{drafter}"
        # The chart has the bands.
        found = re.sub(r" \(likely [^)]*\)", "", chip_decision(best))
        found = found.removeprefix("decision: ").replace(f"; {drafter}:", ":")
        if len(self.chips) > 1:
            title = f"{self.model.name}, {self.workload.requests}\n{drafter}"
            found += f" on {best.rows[0].devices} x {best.setup.hardware.name}"
        curves = [best.prediction.curves[best.plan.chosen]]
        # Beside several chips nobody could tell whose stars they are.
        near = [*measured_near(best.prediction, curves)] if len(self.chips) == 1 else []
        return {"": self.rows_chart(SPEEDUPS, rows, title, found, near), **more}


@question(AdviseRequest)
def advise(request: AdviseRequest) -> Advice:
    """Say whether speculative decoding pays, with which drafter and which server flags."""
    wanted = request.wanted
    chips, unfit, enough = list[ChipAdvice](), list[str](), set[str]()
    profiles = unique_list("hardware", request.hardware, hardware_of)
    workers = [one for one in (request.prefill, request.decode, request.devices) if one is not None]
    if request.link is not None and not workers:
        refuse("link", request.link, "none where one server does both")
    for given, profile in zip(as_list(request.hardware), profiles, strict=True):
        if workers:
            use = workers_on(request, profile)
        else:
            use = server_on(request, profile, request.tensor_parallel)
        if use is not None:
            chips.append(_chip_advice(request, given, use))
            continue
        why, instead = _no_room(request, profile, workers)
        unfit.append(why)
        enough |= instead
    if not chips:
        allowed = " or ".join(sorted(enough)) or "a chip that holds it, or narrower --weights"
        reject(f"hardware: {'; '.join(unfit)}", allowed)
    chips.sort(key=_rank)
    if request.bench:
        point = chips[0].to_measure
        if point is None:
            unmeasured = "bench is True, and no draft can be tried on one server"
            reject(unmeasured, "another drafter or load")
        if point.refused:
            raise OptionError(point.refused)
    notes = [*chain.from_iterable(chip.notes for chip in chips)]
    policies = _policies(request, chips[0])
    if policies is not None:
        notes += policies.notes
        if wanted.targets.least_speedup > 1 or min(wanted.targets.seconds) < math.inf:
            notes.append("policies are compared by tokens per second, whatever the targets")
    return Advice(
        model=request.architecture,
        workload=wanted.workload,
        targets=wanted.targets,
        drafters=tuple(drafter.name for drafter in wanted.drafters),
        chips=tuple(chips),
        model_name=name_of(request.model),
        policies=policies,
        notes=tuple(dict.fromkeys(notes)),
        warnings=(*unfit, *_warnings_of(chips)),
    )


def _no_room(
    request: AdviseRequest, profile: HardwareProfile, workers: Sequence[object]
) -> tuple[str, set[str]]:
    """Return why a chip does not serve the model, and flags with which it does, where there are."""
    most, enough, why = request.tensor_parallel or f"up to {joined_devices(profile)}", set(), ""
    if request.devices is not None:
        most = f"a prefill and a decode worker of together {request.devices}"
        several = splits_on(request, profile, 2 * joined_devices(profile))
        for decode, split in islice(several, 1):
            least = decode.placement.devices + split.prefill.placement.devices
            enough = {f"--devices {least}"}
    elif workers:
        most = f"workers of {' and '.join(map(str, workers))}"
    elif request.tensor_parallel:
        free = server_on(request, profile, None)
        enough = set() if free is None else {f"--tp {free.setup.placement.devices}"}
    elif joined_devices(profile) > 1:
        try:
            request.worker(profile, 2)
        except OptionError as refusal:  # it is not memory that more devices lack
            most, why = "1", f", and {str(refusal).partition('; allowed')[0]}"
            for power in range(1, joined_devices(profile).bit_length()):
                staged = replace(request, pipeline_parallel=2**power)
                with suppress(OptionError):
                    if not enough and server_on(staged, profile, 1):
                        enough = {f"--pp {2**power}"}
    return f"{request.architecture.name} does not fit on {most} x {profile.name}{why}", enough


def _warnings_of(chips: Sequence[ChipAdvice]) -> Iterator[str]:
    """Yield the warnings of all chips, once, and behind the name of a chip those of a few."""
    every = dict.fromkeys(chain.from_iterable(chip.warnings for chip in chips))
    for warning in every:
        names = [chip.setup.hardware.name for chip in chips if warning in chip.warnings]
        yield warning if len(names) == len(chips) else f"{', '.join(names)}: {warning}"


def _chip_advice(request: AdviseRequest, given: HardwareLike, use: DeviceUse) -> ChipAdvice:
    """Return the advice for a chip, which the user named or gave, or for workers of a split."""
    wanted, off = request.wanted, use.off

    def predicted_on(use: DeviceUse, *, raises: bool = True) -> Prediction:
        case = use.case(request, wanted.load).at(raises=raises)
        found = predicted(case, wanted.drafters, draft_lens=wanted.draft_lens)
        return replace(found, price_per_hour=request.price_per_hour)

    prediction, by_default = predicted_on(use), None
    if any(map(any, prediction.told)):
        by_default = predicted_on(use, raises=False)
    plan = load_plan(prediction, wanted, baseline=off, by_default=by_default)
    drafter, setup, captured = wanted.drafters[plan.chosen], use.setup, None
    is_priced = any(row.default is not None for row in plan.rows)
    raised = _raised(prediction, plan, wanted.frameworks.values())
    if raised:
        # What is started, and played through: the flags of the largest load that takes them.
        settings = replace(setup.user_settings, running=raised["running"][1])
        setup = in_server(request.architecture, setup, settings)
    if setup.user_settings.capture is not None:
        free = in_server(request.architecture, setup, replace(setup.user_settings, capture=None))
        if has_room(request, free):
            captured = load_plan(predicted_on(replace(use, setup=free)), wanted, baseline=off)
    flags, of_workers, said = _launches(request, setup, prediction, plan)
    refused = dict(wanted.refused)
    if drafter.kind in SERVED_KINDS and flags and not any(flags.values()):
        problems = dict.fromkeys(why.partition("; allowed")[0] for why in said)
        refused[drafter.name] = "; ".join(problems)
    config = {name: None if own is None else own.text for name, own in flags.items()}
    played = None
    if wanted.load.kind != "concurrency":
        # Limits are raised for each side by itself: a server without drafts has its own.
        case, longest = prediction.about, max(k for _, _, k in plan.schedule)
        server = played_server(case.deployment, drafter, case.load, case.room, longest)
        played = played_plan(server, case.load, plan.schedule, wanted.targets.seconds)
    warnings = [
        *said,
        *prediction.warnings,
        *plan.warnings,
        *_missing(setup, request, priced=prediction.money.usd_per_hour is not None),
        *_unreached(plan),
        *([] if played is None else played.warnings),
        *([] if captured is None else _uncaptured(setup, plan, captured)),
        *_nodes(setup, wanted.frameworks),
    ]
    return ChipAdvice(
        request=request,
        given=given,
        setup=setup,
        drafter=drafter,
        plan=plan,
        raised=raised,
        prediction=prediction,
        played=played,
        engine_config=config or dict.fromkeys(wanted.frameworks, ""),
        launches=tuple(own for own in flags.values() if own is not None),
        # Its own lines say which limits are raised, if they say what the default would give.
        notes=(
            *(one for one in prediction.notes if not (is_priced and isinstance(one, Raised))),
            *use.notes,
        ),
        warnings=tuple(dict.fromkeys(warnings)),
        worker_launches=of_workers,
        refused=refused,
    )


def _policies(request: AdviseRequest, chip: ChipAdvice) -> "Adaptive | None":
    """Return what draft lengths gain that follow load or confidence; None if not asked.

    Raises
    ------
    OptionError
        For loads that are not requests in flight, and drafters that policies do not know.
    """
    if not request.policies:
        for one in fields(p.PolicyParameters):
            if getattr(request, one.name) != one.default:
                refuse(one.name, getattr(request, one.name), "with policies")
        return None
    from specroof.questions.adaptive import AdaptiveRequest, adaptive  # noqa: PLC0415 - seldom

    wanted = request.wanted
    if not wanted.load.requests or wanted.load.kind != "concurrency":
        refuse("policies", True, "with concurrency whose requests are simulated")
    same = {one.name for one in fields(AdaptiveRequest)} & {one.name for one in fields(request)}
    return adaptive(
        **{name: getattr(request, name) for name in same}
        | {
            "model": request.architecture,
            "family": None,
            "hardware": chip.setup.hardware,
            "tensor_parallel": chip.setup.placement.tensor_parallel,
            "drafter": chip.drafter,
            "concurrency": wanted.asked,
            "max_draft_len": max(wanted.draft_lens, default=None),
        }
    )


def _raised(
    prediction: Prediction, plan: LoadPlan, releases: Iterable[str]
) -> dict[str, tuple[int, int]]:
    """Return the default limits that bind, and what they are raised to, by the server's keys.

    To that of the largest load at which drafts are on, or that a server turns them off at by
    itself; without drafts, of the largest.
    """
    told, served = prediction.told[plan.chosen], prediction.deployment
    drafter = prediction.drafters[plan.chosen]
    follows = plan.drafts and all(can_follow_load(served, drafter, name) for name in releases)
    drafted = [row.place for row in plan.rows if row.draft_len or follows] if told else []
    limits = [told[place][1] for place in drafted] if drafted else [plain for plain, _ in told]
    most = max((limit for limit in limits if limit is not None), default=None)
    if most is None:
        return {}
    room = served_room(
        prediction.deployment,
        context_len=1.0,
        drafter=drafter if drafted else None,
    )
    return {"running": (room.server.running or most, most)}


def _unreached(plan: LoadPlan) -> Iterator[str]:
    """Warn where drafting should stop at a load that a speculating server has no memory for."""
    off = [entry for entry in plan.schedule[len(plan.reached) :] if not entry[2]]
    if off and plan.reached and plan.capacity is not None:
        most = plan.capacity["speculative"]["largest_batch"]
        requests = f"{plain_number(most)} request" + "s" * (most != 1)
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
            f"--server capture={setup.user_settings.capture} leaves passes without graphs: {plain_number(told.load, digits=4)} {told.unit} "
            f"get {rates[0]:.0f} tokens/s with {format_drafts(told.draft_len)}; by default they get "
            f"{rates[1]:.0f} with {format_drafts(free.draft_len)}"
        )


def hosts_of(setup: Setup) -> int:
    """Return the machines that the devices of a placement are in: all have as many of them.

    Source
        `specroof.hardware.profile.Interconnect.host_devices`; servers start as many ranks on each
        machine: SGLang 0.5.23, ``srt/arg_groups/validation_hook.py``.
    """
    nodes, link = setup.placement.nodes or 1, setup.hardware.interconnect
    each = setup.placement.devices // nodes
    of_host = each if link is None else link.host_devices or each
    stage = min(setup.placement.tensor_parallel, each)  # or what of it is in one node
    in_node = Placement(stage, pipeline_parallel=each // stage).in_nodes(of_host)
    return nodes * (in_node.nodes or 1)


def _nodes(setup: Setup, frameworks: Mapping[str, str]) -> Iterator[str]:
    """Warn where the server needs devices of several hosts, each of which has to be started.

    Source
        vllm 0.33.0, ``engine/arg_utils.py``; sglang 0.5.23, ``srt/arg_groups/fields/parallel.py``.
    """
    hosts = hosts_of(setup)
    if hosts > 1:
        others = "; ".join(f"{name}: {other_hosts(own)}" for name, own in frameworks.items())
        yield (
            f"{setup.placement.devices} devices are in {hosts} hosts: run this command on the "
            f"first, with its address for {FIRST_HOST}; on each of the others {others}"
        )


def _missing(setup: Setup, request: AdviseRequest, *, priced: bool) -> Iterator[str]:
    """Yield the facts that a chip lacks, and how to give them."""
    chip, engine = setup.hardware.name, setup.engine.name
    own = setup.engine.rules in LOCAL_FRAMEWORKS
    yield from missing_code_notes(setup)
    if not priced and not own:
        yield f"no price of {chip} is known: give yours with --price-per-hour"
    if setup.engine == IDEAL_ENGINE and request.engine is None:
        yield (
            f"{chip} has no measured engine: its figures are the ideal bound, and it is listed "
            f"after chips with an engine"
        )
    framework, _ = framework_of(request.framework)
    if not own and framework not in {None, engine} and not setup.hardware.owns(framework):
        yield f"no fit of {framework} on this chip: predicted by engine {engine}"


# --- The flags of servers ------------------------------------------------------------------------


def _launches(
    request: AdviseRequest, setup: Setup, prediction: Prediction, plan: LoadPlan
) -> tuple[dict[str, Launch | None], dict[str, dict[str, Launch]], list[str]]:
    """Return flags by framework, those of workers of a split, and notes on them.

    None where a framework has none, and the note says why; no drafts need no flags.
    """
    schedule, said = plan.reached, list[str]()
    if prediction.split is not None:
        schedule = worker_schedule(schedule, prediction, plan.chosen)
    found, of_workers = dict[str, Launch | None](), dict[str, dict[str, Launch]]()
    wanted, model = request.wanted, request.architecture
    drafter = wanted.drafters[plan.chosen]
    weights = _draft_model(request, wanted.drafters, drafter)
    chip = setup.hardware.compute_capability
    told = partial(request.speculation, drafter, schedule, weights, capability=chip)
    for framework, name in wanted.frameworks.items():
        # Limits that are raised are those of the server that was predicted.
        is_predicted = RUNS.get(framework, framework) == setup.engine.rules
        settings = (
            _startable(setup, prediction, plan) if is_predicted else server_of(request.server)
        )
        flags = None
        try:
            if plan.drafts:
                found[framework] = None
            if plan.drafts or prediction.split is not None:
                expect_runs_on("framework", framework, setup.hardware)
                if facts := release_of(name):
                    expect_chip(facts, model, setup, is_started=True)
            if plan.drafts:
                flags = found[framework] = launch(told(settings=settings, nodes=plan.nodes), name)
                said += flags.notes
            if prediction.split is not None:
                chips = setup.hardware, prediction.split.prefill.hardware
                of_workers[framework] = worker_launches(
                    *(name, flags, setup.placement),
                    input_len=wanted.workload.input_len,
                    kind=drafter.kind,
                    family=model.family,
                    is_recurrent=is_recurrent(model),
                    compute_majors=[one.compute_major for one in chips],
                    settings=settings,
                    kv_cache=setup.options.kv_dtype,
                )
                said += of_workers[framework]["decode"].notes
        except OptionError as refusal:
            said.append(str(refusal))
    return found, of_workers, said


def _startable(setup: Setup, prediction: Prediction, plan: LoadPlan) -> ServerSettings:
    """Return the settings of a server, with the limit of running requests that it starts with."""
    room = served_room(
        replace(prediction.deployment, setup=setup),
        context_len=1.0,
        drafter=prediction.drafters[plan.chosen] if plan.drafts else None,
        verify_len=max(k for _, _, k in plan.schedule) + 1.0,
    )
    lowered = room.lowered_running
    settings = setup.user_settings
    return settings if lowered is None else replace(settings, running=lowered)


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


def _benchmark(chip: ChipAdvice, server: ServerSettings, row: AdvisedRow) -> list[tuple[str, str]]:
    """Return titles and commands that measure a point, and that read the results.

    Raises
    ------
    OptionError
        For drafts that no engine can be forced to accept, and a server that is started otherwise
        than these commands do.
    """
    request, drafter, setup = chip.request, chip.drafter, chip.prediction.setup
    curve, workload = chip.prediction.curves[chip.plan.chosen], request.wanted.workload
    place, options = setup.placement, setup.options
    framework = framework_of(request.framework)[0] or setup.engine.rules
    if RUNS.get(framework, framework) in LOCAL_FRAMEWORKS:
        refuse("framework", framework, " or ".join(mocked_frameworks()))
    if place != Placement(place.tensor_parallel, nodes=1) or options.n_cpu_moe:
        reject("this server is no plain one to benchmark", "devices of one node that split layers")
    if workload.prefix_hit_rate:
        refuse("prefix_hit_rate", workload.prefix_hit_rate, "prompts that share nothing")
    drafts = row.tried_draft_len
    if curve.verify_len[drafts] != drafts + 1:
        refuse("drafter", drafter.name, "a chain or block, which engines can be told to accept")
    schedule = [(1, round(row.at_once), drafts)]
    limit = server.running or _startable(setup, chip.prediction, chip.plan).running
    point = MockPoint(
        model=name_of(request.model),
        speculation=speculation_of(
            drafter,
            request.architecture,
            schedule,
            _draft_model(request, request.wanted.drafters, drafter),
            # Which commands of benchmarks say anyway.
            settings=replace(server, prefix_cache=None, running=limit),
        ),
        tokens_per_round=round(float(curve.tokens_per_round[0, row.place, drafts]), 4),
        batch_size=round(row.at_once),
        input_len=round(workload.input_len),
        output_len=round(workload.output_len),
        tensor_parallel=place.tensor_parallel,
        weights=options.weight_dtype,
        kv_cache=options.kv_dtype,
    )
    framework = framework if framework in mocked_frameworks() else _USUAL
    commands = mock_commands(point, release_in(setup, framework))
    if isinstance(chip.given, HardwareProfile):
        named = min((setup.hardware.name, *setup.hardware.aliases), key=len)
    else:
        named = os.fspath(chip.given)
    stated = [f"{key}={value}" for key, value in server.stated.items()]
    words = {
        "-H": named,
        "--model": point.model,
        "--drafter": drafter.name,
        "--draft-len": drafts,
        "--tp": place.tensor_parallel,
        "--family": request.family,
        "--engine": request.engine,
        "--server": ",".join(stated) or None,
        "--kv-cache": options.kv_dtype,
        "--weights": options.weight_dtype,
    }
    pairs = [(flag, str(word)) for flag, word in words.items() if word is not None]
    results = shlex.join(["bench.jsonl", *chain.from_iterable(pairs)])
    mine = shlex.quote(f"my-{Path(named).stem}.yaml")
    return [
        *commands,
        ("then compare", f"specroof validate {results}"),
        ("and fit, with results at several loads", f"specroof calibrate {results} -o {mine}"),
    ]


#: What look-ups need besides a forced acceptance.
_MATCHES: Final = "random prompts repeat little: vLLM verifies drafts just where an n-gram is found, SGLang always"


# --- Advice on one page --------------------------------------------------------------------------

#: Letters of a kind of drafter that it has room for.
_LONGEST_NAME: Final = 8
#: Other lengths, shapes and drafters that the table has room for, beside those advised.
_MOST_BESIDE: Final = 3


def advice_text(answer: Advice) -> str:
    """Return the page: the decision, the loads, flags to paste, and how sure it all is."""
    best = answer.chips[0]
    plan, played, short = best.plan, best.played, _short_names(answer.drafters)
    sentences = [chip_decision(best)]
    if plan.drafts:
        every = " at every load" * (len(plan.schedule) == 1)
        sentences.append(f"drafts by load: {q.ranges_spelt(plan.schedule)}{every}")
    sentences += [*_conditions(best), *_targets_lines(best)]
    sentences += _day_lines(plan.course.day)
    parts = [_chips_table(answer)] if len(answer.chips) > 1 else []
    parts.append(_choices_table(best, short))
    if len(short) > 1:
        named = map("{}: {}".format, short, answer.drafters)
        parts.append("\n".join(map(wrapped, named)))
    more = [
        compared_on(
            {
                chip.setup.hardware.name: (chip.setup.engine.full_name, chip.reach)
                for chip in answer.chips
            }
        ),
        _times_table(best),
    ]
    if best.split is not None:
        choices = [(plan.chosen, row.place, row.draft_len) for row in best.rows]
        more += split_text(best.prediction, best.split, choices)
    if played is not None:
        requests = ", ".join(f"{count}" for count in dict.fromkeys(played.load.requests))
        title = f"{requests} simulated requests, without drafts (off) and with these (on):"
        more.append(f"{wrapped(title)}\n{plan_table(played)}")
        if played.largest_rates is not None:
            rates = zip(("without drafts", "with these"), played.largest_rates, strict=True)
            parts.append(wrapped(largest_rates_line(dict(rates), answer.targets.seconds)))
    if answer.policies is not None:
        from specroof.questions.adaptive import policies_parts  # noqa: PLC0415 - asked for seldom

        parts += policies_parts(answer.policies)
    if shows_notes():
        loads, can_play = [row.at_once for row in best.rows], "traffic" not in answer.asked
        more.append(wrapped(best.prediction.bands_line(loads, can_play=can_play)))
        more += _ends(best)
    return answer.as_page(*parts, *_commands(best), found=sentences, more=more)


def _at(rows: Iterable[AdvisedRow]) -> str:
    """Return the loads of rows."""
    return ", ".join(plain_number(row.load, digits=4) for row in rows)


def chip_decision(chip: ChipAdvice) -> str:
    """Return the decision at each load, and the speedup of the drafter with its band."""
    return decision_line(chip.rows, unit=f" {chip.rows[0].unit}")


def _conditions(chip: ChipAdvice) -> Iterator[str]:
    """Yield what changes the decision: refusals, targets, limits that are raised, and waits."""
    rows, server, unit = chip.rows, chip.setup.engine.rules, chip.rows[0].unit
    for name, why in chip.refused.items():
        yield f"{name} {'has no flags' if name == chip.drafter.name else 'is left out'}: {why}"
    missed = sorted(row.limited_by for row in rows if row.limited_by in MISSED)
    if missed:
        yield f"off where drafts miss the {' and the '.join(dict.fromkeys(missed))}"
    open_at = [row for row in rows if row.is_open and row.draft_len]
    for why, at in grouped(open_at, partial(_why_on, targets=chip.plan.targets)).items():
        yield f"drafting stays on at {_at(at)} {unit}: {why}"
    bound = [(row, row.default) for row in rows if row.default is not None]
    in_flags = any(flags.framework == server for flags in chip.launches)
    told = (
        f"is in the flags of {server}" if in_flags else f"of {server} is predicted, no flag says it"
    )
    for key, (limit, most) in chip.raised.items() if bound else ():
        row, default = bound[-1]
        yield (
            f"{RAISED_LIMIT}: --server {key}={most} {told}; with its default of "
            f"{limit}, {_figures(default, f'{_at([row])} {unit}')}"
        )
    only = [row for row in rows if row.reason == "unsustained" and row.keeps_up]
    if only:
        yield f"only a server that drafts keeps up with {_at(only)} {unit}"
    waits = [row for row in rows if row.waits]
    if waits:
        last, capacity = waits[-1], chip.plan.capacity
        load = last.at_once
        runs = math.inf if capacity is None else capacity["speculative"]["largest_batch"]
        held = f", since {runs:g} of {load:g} run with drafts" if runs < load else ""
        after = ""
        if is_told(*last.bands.get(q.TTFT.name, (None, None))):
            instead = format_seconds(last.plain_ttft_s)
            after = f": after {format_seconds(last.ttft_s or 0.0)} instead of {instead}"
        yield (
            f"at {_at(waits)} {unit} the first token comes later{after}{held} (--ttft sets a limit)"
        )


def _figures(row: LoadRow, load: str) -> str:
    """Return throughput, price where it is known, and the wait for the first token; if useful."""
    told = {
        one: is_told(*row.bands.get(one.name, (None, None))) for one in (q.TOKENS_PER_S, q.TTFT)
    }
    if not told[q.TOKENS_PER_S]:
        return "the others wait"
    usd = row.usd_per_million_tokens
    price = "" if usd is None else f" at ${format_price(usd)} a million"
    wait = f" and a first token after {format_seconds(row.ttft_s or 0.0)}" * told[q.TTFT]
    return f"{load} get {row.tokens_per_s:.0f} tok/s{price}{wait}"


def _why_on(row: AdvisedRow, targets: Targets) -> str:
    """Return why drafting stays on where the band holds both a gain and a loss."""
    if 1 < row.speedup < targets.least_speedup:
        nearer = ", but waits are nearer to the targets" * (min(targets.seconds) < math.inf)
        return f"less than {targets.least_speedup:g}x{nearer}"
    if math.isnan(row.speedup):  # the server falls behind the rate without drafts
        more = (row.largest_stable_rate or 0.0) > (row.plain_largest_stable_rate or 0.0)
        told = "the server answers more requests" if more else "waits are nearer to the targets"
        return f"with them {told}"
    gain = round(row.speedup, 2) - 1
    if gain < 0:
        return "it loses there, the price of one draft length over several loads"
    return "the best estimate is a gain" if gain else "it changes nothing there"


def _targets_lines(chip: ChipAdvice) -> Iterator[str]:
    """Yield at which loads users wait no longer than they may, as advised and without drafts."""
    limits = {"TTFT": chip.plan.targets.ttft_ms, "TPOT": chip.plan.targets.tpot_ms}
    promises = [f"{name} of {ms:g} ms" for name, ms in limits.items() if ms is not None]
    of_whom = " for 99% of requests" if chip.prediction.played else ""
    words = list[str]()
    for side in (q.MEETS_TARGETS, q.PLAIN_MEETS_TARGETS):
        at = grouped(chip.rows, attrgetter(side.name))
        known = {"yes": "met", "unclear": "unclear"}
        parts = [f"{word} at {_at(at[one])}" for one, word in known.items() if one in at]
        parts[:1] = [f"{part} {chip.rows[0].unit}" for part in parts[:1]]
        words.append(", ".join(parts) or "met at no load")
    if promises:
        sides = f"{words[0]} with drafts, {words[1]} without"
        if words[0] == words[1]:
            sides = f"{words[0]}, with drafts and without"
        yield f"{' and '.join(promises)}{of_whom}: {sides}"


def _day_lines(day: Day | None) -> Iterator[str]:
    """Yield the gain of the day, beside a fixed length and the best of each hour."""
    if day is None:
        return
    line = "over the day: no gain over no drafts is known"
    if not math.isnan(day.gain):
        line = (
            f"over the day: {day.gain:+.1%} {day.gain_of} against no drafts; the best fixed "
            f"length, {format_drafts(day.fixed)}, gives {day.fixed_gain:+.1%}, a schedule "
            f"{day.scheduled_gain:+.1%}, the best length of each hour {day.oracle_gain:+.1%}"
        )
        if day.held_changes < day.changes:
            line += (
                f"; drafts change {day.changes} times, or {day.held_changes} times for "
                f"{day.held_gain:+.1%} if a change waits until the load is {day.held_margin:.0%} "
                f"past the edge of a range"
            )
    helped = [hour for hour in day.unsustained if hour not in day.saturated]
    if helped:
        line += f"; only drafts keep up in hours {_hours(helped)}"
    if day.saturated:
        line += f"; in hours {_hours(day.saturated)} more requests arrive than the server answers"
    if day.unsustained and not math.isnan(day.gain):
        line += "; gains are without these hours"
    yield line


def _hours(hours: Sequence[float]) -> str:
    return ", ".join(map(plain_number, hours))


def _ends(chip: ChipAdvice) -> Iterator[str]:
    """Yield the break-even at the largest load, and what to measure."""
    row, point = chip.rows[-1], chip.to_measure
    if row.point is not None:
        least = break_even_of(chip.prediction, chip.plan, len(chip.rows) - 1)
        takes = "no acceptance is enough"
        if least.rate is not None:
            takes = (
                f"an acceptance of {least.rate:.2f} a draft, {least.tokens_per_round:.2f} tokens per "
                f"round, is enough"
            )
        yield wrapped(
            f"break-even at {_at([row])} {row.unit} with {format_drafts(row.tried_draft_len)}: "
            f"{takes} (here {row.point.tokens_per_round:.2f} tokens)"
        )
    if point is not None:
        swing = math.expm1(point.swings[point.moved_by])
        yield wrapped(
            f"to measure: {plain_number(point.concurrency)} in flight, {format_drafts(point.draft_len)} of "
            f"{point.drafter}, the least certain point; the {INPUTS[point.moved_by]} moves it most: "
            f"10% up or down changes the speedup by {swing:.0%}"
            + " (--bench prints the commands)"
            * bool(point.commands)
        )


def _short_names(names: Sequence[str]) -> list[str]:
    """Return the kinds of drafters, numbered where two are of one kind."""
    kinds = [name.partition(",")[0][:_LONGEST_NAME] for name in names]
    return [
        kind if kinds.count(kind) == 1 else f"{kind} {1 + kinds[:d].count(kind)}"
        for d, kind in enumerate(kinds)
    ]


#: What rows are told apart by, and figures without drafts and with them.
_LOAD: Final = ("rate", "concurrency")
_FIGURES: Final = {q.TOKENS_PER_S: "tok/s", q.TTFT: "TTFT", q.TPOT: "TPOT", q.PRICE: "$/M"}


def _load_key(rows: Sequence[AdvisedRow]) -> str:
    """Return the column that loads stand in: of a job how many requests run."""
    given = (name for name in _LOAD if getattr(rows[0], name) is not None)
    return next(given, "plain_running")


def _choices_table(chip: ChipAdvice, short: Sequence[str]) -> str:
    """Return the drafts at each load, beside the user's own lengths and other drafters."""
    rows, load = chip.rows, _load_key(chip.rows)
    names = [name for d, name in enumerate(short) if d != chip.plan.chosen]
    speedups = {
        name: [_speedup_cell(row, row.tried_speedup) for row in of_drafter]
        for name, of_drafter in zip(names, chip.plan.others, strict=True)
    } | {f"γ={k}": [_speedup_cell(row, row.own[k]) for row in rows] for k in rows[0].own}
    beside = dict(list(speedups.items())[:_MOST_BESIDE])
    shown = [load, "draft_len", "tried_speedup", "tried_speedup_band", "decision"]
    shown += ["limited_by", *(one.name for one in _FIGURES)]
    titles = {one.name: title for one, title in _FIGURES.items()}
    table = rows_table(rows, shown, beside, **{load: "load", "tried_speedup": "speedup"} | titles)
    if all(row.draft_len for row in rows):
        return table
    return f"{table}\nwhere drafting is off, the speedup is that of the best draft"


def _speedup_cell(row: LoadRow, speedup: float | None) -> str:
    """Return a speedup as a cell, unless those of its row are not usefully predicted."""
    told = is_told(*row.bands.get("tried_speedup", (None, None)))
    return figure(speedup, "{:.2f}".format) if told else UNSURE


def _times_table(chip: ChipAdvice) -> str:
    """Return the server's figures at each load, without drafts and with."""
    titles = {_load_key(chip.rows): "load"} | {
        f"{before}{one.name}": title + side
        for one, title in _FIGURES.items()
        for before, side in {"plain_": " off", "": " on"}.items()
    }
    # Drafts may gain or lose there: figures without them are no figures with them.
    absent: dict[str, Any] = dict.fromkeys(one.name for one in _FIGURES)
    rows = [replace(row, **absent) if row.reason == "acceptance" else row for row in chip.rows]
    return rows_table(rows, [*titles], **titles)


def _chips_table(answer: Advice) -> str:
    """Return a line for each chip, at the best of its loads, and what they are compared on."""
    rows = [chip.plan.best or chip.rows[-1] for chip in answer.chips]
    hourly = [
        ABSENT if (usd := chip.usd_per_hour) is None else format_price(usd * row.devices)
        for chip, row in zip(answer.chips, rows, strict=True)
    ]
    shown = ["hardware", "devices", _load_key(rows), "draft_len", q.TPOT.name, q.TOKENS_PER_S.name]
    shown += [q.PRICE.name, f"{q.PRICE.name}_band"]
    none = [chip.setup.hardware.name for chip in answer.chips if chip.plan.best is None]
    lines = [wrapped(f"{name}: no load meets the targets") for name in none]
    return "\n".join([rows_table(rows, shown, {"$/h": hourly}), *lines])


def _holds_positions(setup: Setup, chip: ChipAdvice) -> bool:
    """Return whether a server holds a sequence of all positions of a model, beside its drafter."""
    model = chip.request.architecture
    if model.positions is None or not chip.prediction.limits:
        return True
    longest = max((k for _, _, k in chip.plan.schedule), default=0)
    room = served_room(
        Deployment(model, setup),
        context_len=float(model.positions),
        drafter=chip.prediction.drafters[chip.plan.chosen],
        verify_len=longest + 1.0,
    )
    return bool(room.largest_batch >= 1)


def _commands(chip: ChipAdvice) -> Iterator[str]:
    """Yield commands in lines that a shell joins again, for each framework.

    Of a server, or of a prefill and a decode worker.
    """
    split, rules, model = chip.split, chip.setup.engine.rules, chip.request.architecture
    servers = [(flags, chip.setup, "") for flags in chip.launches]
    if split is not None:
        workers = {
            "prefill": (split.prefill, split.prefill_workers),
            "decode": (chip.setup, split.decode_workers),
        }
        servers = [
            (roles[role], setup, f": {role} worker" + f", {count} of them" * (count > 1))
            for roles in chip.worker_launches.values()
            for role, (setup, count) in workers.items()
        ]
    for flags, setup, what in servers:
        options, others = setup.options, ""
        if flags.framework != rules:
            others = f", predicted as {rules}"
        start = server_command(
            release_in(chip.setup, flags.framework),
            name_of(chip.request.model),
            setup.placement,
            weights=options.weight_dtype,
            kv_cache=options.kv_dtype,
            hosts=hosts_of(setup),
            family=model.family,
            quantization=model.quantization,
            is_fitted=not _holds_positions(setup, chip),
        )
        line = f"{flags.environment} {start} {flags.text}".strip()
        head = f"# {flags.release}{others}{what}"
        yield "\n".join([head, *flags.file_lines, folded(line)])


# --- Advice as the object that ``--json`` prints --------------------------------------------------


def _chip_case(chip: ChipAdvice) -> dict[str, Any]:
    """Return what is served on a chip."""
    return {
        **case_of(chip.request.architecture, chip.setup, chip.request.wanted.workload),
        "usd_per_hour": chip.usd_per_hour,
        "capacity": chip.plan.capacity,
        "split": None if chip.split is None else split_json(chip.setup, chip.split),
    }


#: What a day gains, and how often drafts change.
_GAINS: Final = (
    *("gain_of", "gain", "scheduled_gain", "fixed", "fixed_gain", "oracle_gain", "changes"),
    *("held_margin", "held_changes", "held_gain"),
)


def _chip_choice(chip: ChipAdvice) -> dict[str, Any]:
    """Return what is advised for a chip."""
    plan, point = chip.plan, chip.to_measure
    course = plan.course
    loads = [fields_of(row, *_LOAD) for row in chip.rows]
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
            {**load, "draft_len": k, "speedup": to_json_array(speedup)}
            for load, row in zip(loads, chip.rows, strict=True)
            for k, speedup in row.own.items()
        ],
        "raised": {key: {"from": low, "to": high} for key, (low, high) in chip.raised.items()},
        "traffic": course.day
        and {
            **{name: to_json_array(one) for name, one in fields_of(course.day, *_GAINS).items()},
            "running": list(course.day.running),
            "saturated_hours": list(course.day.saturated),
            "unsustained_hours": list(course.day.unsustained),
        },
        "engine_config": chip.engine_config,
        "engine_files": chip.files,
        "workers": None if chip.split is None else _workers_json(chip, loads),
        "break_even": [
            {
                **load,
                "draft_len": row.tried_draft_len,
                "accept": least.rate,
                "accept_length": least.tokens_per_round,
            }
            for load, row, least in zip(loads, chip.rows, chip.break_even, strict=True)
        ],
        "to_measure": point
        and {
            **asdict(point),
            "moved_by": point.moved_by,
            "commands": [{"title": title, "command": words} for title, words in point.commands],
        },
        "played": chip.played and chip.played.to_dict(),
        "reach": chip.reach,
    }


def _workers_json(chip: ChipAdvice, loads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how busy workers of a split are, and their flags."""
    whole, devices = chip.prediction.end_to_end[chip.plan.chosen], chip.prediction.devices
    told = [dict(load) for load in loads]
    for row, load in zip(chip.rows, told, strict=True):
        sides = {"plain": (0, row.plain_tokens_per_s), "advised": (row.draft_len, row.tokens_per_s)}
        for side, (drafts, tokens_per_s) in sides.items():
            load[side] = {
                name: to_json_array(getattr(whole.workers, name)[0, row.place, drafts])
                for name in WORKER_ARRAYS
            } | {q.DEVICE_TOKENS.name: tokens_per_s / devices}
    flags = {
        framework: {role: own.text for role, own in roles.items()}
        for framework, roles in chip.worker_launches.items()
    }
    return {"loads": told, "flags": flags}


COMMAND: Final = Command(
    question=advise,
    options=p.FORMULAS,
    to_paste=True,
    chart="Draw the advised speedup against the load, a line for each chip.",
    example="specroof advise Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --framework vllm --input-len 3000\n"
    "--output-len 500 --concurrency 1,8,32,64,128 --drafter eagle3,accept-length=2.8@3",
)
