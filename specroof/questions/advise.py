"""Does it pay, with which drafter, how many drafts, up to which load, and what is there to type?"""

import math
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import array_within, number_within, whole_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, refuse
from specroof.hardware import HardwareProfile, Placement
from specroof.latency import Setup, check_placement, engine_setup
from specroof.policies.decision import Decision, Verdict, decided, paying_up_to
from specroof.policies.traffic import Day, Traffic
from specroof.questions.advised_loads import Advised, Row, Targets, Times, advised_rows
from specroof.questions.answer import Answer
from specroof.questions.predict import limited_by, predicted
from specroof.questions.request import (
    DrafterLike,
    HardwareLike,
    ModelLike,
    OptionsLike,
    ServerLike,
    Values,
    drafter_of,
    hardware_of,
    listed,
    model_of,
    options_of,
    question,
    server_of,
)
from specroof.questions.traffic import Mix, TrafficFile, traffic_of
from specroof.serving.capacity import in_server, served_room
from specroof.serving.launch import LAUNCHERS, Launch, Speculation, launch
from specroof.serving.requests import Load, Workload

__all__ = ["Advice", "AdviseRequest", "Day", "Launch", "Row", "Served", "Times", "advise"]

#: Whose flags are written where nobody names a framework.
USUAL_FRAMEWORKS: Final = ("vllm", "sglang")
#: Requests in flight where nobody says.
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
    concurrency
        Requests in flight, a number or a list; if None, the least, median and largest of
        `traffic`, else 1, 8, 32, 64 and 128.
    draft_len
        The drafts per round that there are to choose from; any number if None.
    framework
        The server software, whose engine predicts and whose flags are written; if None, the
        chip's default engine, and flags of vLLM and SGLang.
    draft_model
        A Hub name or folder with the drafter's weights, for the flags.
    ttft_ms, tpot_ms, min_speedup
        Targets: the wait for the first token, the time of each token after it, the speedup.
    price_per_hour
        US dollars for an hour of one device; those of the hardware file if None.
    traffic
        A file with the load of each hour, or a `TrafficFile`; None for the loads alone.
    tensor_parallel
        Devices; as few as the model fits on if None.
    expert_parallel, attention_data_parallel
        Devices that share the experts, and groups of devices that attend to separate sequences.
    engine
        An engine of the hardware profile, in the place of the framework's.
    options
        `Options`, or a mapping of their names.
    server
        What the server is told, as of ``--server``.
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


@dataclass(frozen=True, repr=False, eq=False)
class Served:
    """What to do on one chip.

    Attributes
    ----------
    setup
        Chip, engine, placement.
    drafter
        The one to start the server with: the best over all loads.
    advised
        Loads, schedule and limits.
    engine_config
        Text to paste by framework; None where it has no flag for the drafter.
    launches
        The same with files and notes.
    notes, warnings
        Sentences for the reader.
    """

    setup: Setup
    drafter: Drafter
    advised: Advised
    engine_config: dict[str, str | None]
    launches: tuple[Launch, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The loads that were asked about."""
        return self.advised.rows

    @property
    def verdicts(self) -> list[Verdict]:
        """Whether drafting pays, load by load."""
        return [row.verdict for row in self.rows]

    @property
    def decision(self) -> Decision:
        """On, off, depends or unclear."""
        return decided(self.verdicts)

    @property
    def up_to(self) -> float | None:
        """The largest load up to which drafting pays; None where it does not at the first."""
        return paying_up_to([row.concurrency for row in self.rows], self.verdicts)

    @property
    def files(self) -> dict[str, str]:
        """Files that the flags name."""
        return {name: text for one in self.launches for name, text in one.files.items()}


@dataclass(frozen=True, repr=False, eq=False)
class Advice(Answer):
    """What to do.

    Attributes
    ----------
    model, workload, targets, drafters
        What was asked about; drafters by name.
    chips
        An answer for each chip that the model fits on, the best first: the cheapest tokens at the
        largest load, or the most of each device where a price is not known.
    notes, warnings
        Sentences for the reader.
    """

    model: Architecture
    workload: Workload
    targets: Targets
    drafters: tuple[str, ...]
    chips: tuple[Served, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        setup = self.chips[0].setup
        return (
            f"{self.model.name} on {setup.placement.devices} x {setup.hardware.name}, "
            f"engine {setup.engine.name}"
        )

    @property
    def decision(self) -> Decision:
        """That of the best chip."""
        return self.chips[0].decision

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        from specroof.report import advice_json  # noqa: PLC0415 - reports import answers

        return advice_json(self)


@question(AdviseRequest)
def advise(request: AdviseRequest) -> Advice:
    """Say whether speculative decoding pays, with which drafter, and what to type."""
    asked = _checked(request)
    model = model_of(request.model, request.family)
    drafters = [drafter_of(one) for one in listed(request.drafters)]
    if not drafters:
        message = "drafters is empty; allowed: at least one drafter (--drafter SPEC)"
        raise OptionError(message)
    chips, unfit = list[Served](), list[str]()
    profiles = [hardware_of(one) for one in listed(request.hardware)]
    for profile in profiles:
        setup = _setup_on(model, profile, drafters, request, asked)
        if setup is None:
            unfit.append(f"{model.name} does not fit on up to {_joined(profile)} x {profile.name}")
        else:
            chips.append(_advised(model, setup, drafters, request, asked))
    if not chips:
        message = (
            f"hardware: {'; '.join(unfit)}; allowed: a chip that it fits on, or tensor_parallel"
        )
        raise OptionError(message)
    chips.sort(key=_rank)
    return Advice(
        model=model,
        workload=asked.workload,
        targets=asked.targets,
        drafters=tuple(drafter.name for drafter in drafters),
        chips=tuple(chips),
        notes=tuple(dict.fromkeys(note for chip in chips for note in chip.notes)),
        warnings=(*unfit, *dict.fromkeys(one for chip in chips for one in chip.warnings)),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks for, checked."""

    workload: Workload
    context_len: float
    loads: tuple[float, ...]
    lengths: tuple[int, ...] | None
    targets: Targets
    traffic: Traffic | None


def _checked(request: AdviseRequest) -> _Asked:
    day = None if request.traffic is None else traffic_of(request.traffic)
    traffic = None if day is None else day.traffic
    loads = _usual_loads(traffic) if request.concurrency is None else listed(request.concurrency)
    batches = array_within("concurrency", loads, "batch_size")
    lengths = None
    if request.draft_len is not None:
        lengths = tuple(
            sorted(
                {whole_within("draft_len", one, "draft_len") for one in listed(request.draft_len)}
            )
        )
        if not lengths or lengths[-1] == 0:
            refuse("draft_len", request.draft_len, "at least one number of drafts from 1")
    if request.framework is not None and request.framework not in LAUNCHERS:
        refuse("framework", request.framework, ", ".join(LAUNCHERS))
    if request.price_per_hour is not None:
        number_within("price_per_hour", request.price_per_hour, "usd_per_hour")
    targets = Targets(request.ttft_ms, request.tpot_ms, request.min_speedup)
    workload, context_len = _sizes(request, None if day is None else day.mix)
    asked_loads = tuple(sorted({*batches.tolist()}))
    return _Asked(workload, context_len, asked_loads, lengths, targets, traffic)


def _sizes(request: AdviseRequest, mix: Mix | None) -> tuple[Workload, float]:
    """Return the mean request, and the mean context while answers are decoded."""
    given = (request.input_len, request.output_len)
    if mix is not None:
        if given != (None, None):
            message = "input_len or output_len is given with a mix in traffic; allowed: one of both"
            raise OptionError(message)
        return mix.workload, mix.mean_context_len
    for name, value in zip(("input_len", "output_len"), given, strict=True):
        if value is None:
            message = f"{name} is missing; allowed: both lengths of a request, or a mix in traffic"
            raise OptionError(message)
    workload = Workload(*given)  # type: ignore[arg-type]  # none of them is None
    return workload, workload.mean_context_len


def _usual_loads(traffic: Traffic | None) -> Sequence[float]:
    """Return the loads that are shown where nobody says: of a day the least, usual and largest."""
    if traffic is None or traffic.unit != "concurrency":
        return USUAL_LOADS
    busy = [max(1.0, load) for load in traffic.loads if load]
    return [min(busy), round(np.median(busy)), max(busy)]


def engine_of(profile: HardwareProfile, request: AdviseRequest) -> str | None:
    """Return the engine that predicts: as asked for, else that of the framework if it has one."""
    if request.engine is not None or request.framework is None:
        return request.engine
    return request.framework if request.framework in profile.engines else None


def _joined(profile: HardwareProfile) -> int:
    link = profile.interconnect
    return 1 if link is None else min(link.max_devices, _MOST_DEVICES)


def _setup_on(
    model: Architecture,
    profile: HardwareProfile,
    drafters: Sequence[Drafter],
    request: AdviseRequest,
    asked: _Asked,
) -> Setup | None:
    """Return the setup with as many devices as asked for, or as few as hold the model."""
    engine, options = engine_of(profile, request), options_of(request.options)

    def setup_of(devices: int) -> Setup:
        place = Placement(devices, request.expert_parallel, request.attention_data_parallel)
        check_placement(model, place)
        setup = engine_setup(profile, engine, place, options)
        return in_server(model, setup, server_of(request.server))

    if request.tensor_parallel is not None:
        return setup_of(request.tensor_parallel)
    for power in range(_joined(profile).bit_length()):
        try:
            setup = setup_of(2**power)
        except OptionError:  # it does not divide
            continue
        if all(_has_room(model, setup, one, asked.workload) for one in (None, *drafters)):
            return setup
    return None


def _has_room(
    model: Architecture, setup: Setup, drafter: Drafter | None, workload: Workload
) -> bool:
    held = workload.input_len + workload.output_len
    room = served_room(
        model, setup, context_len=held, drafter=drafter, verify_len=1.0 + (drafter is not None)
    )
    return bool(room.largest_batch >= 1)


def _advised(
    model: Architecture,
    setup: Setup,
    drafters: Sequence[Drafter],
    request: AdviseRequest,
    asked: _Asked,
) -> Served:
    """Return what to do on one chip."""
    load = Load(_grid(asked), [asked.context_len], asked.workload)
    longest = None if asked.lengths is None else max(asked.lengths[-1], 16)
    prediction = predicted(
        model,
        setup,
        drafters,
        load,
        max_draft_len=None if longest == 16 else longest,
        limited=limited_by(setup, None, queues=True),
    )
    price = request.price_per_hour
    if price is None and setup.hardware.price is not None:
        price = setup.hardware.price.usd_per_hour
    advised = advised_rows(
        prediction,
        asked.loads,
        lengths=asked.lengths,
        targets=asked.targets,
        usd_per_hour=price,
        traffic=asked.traffic,
    )
    frameworks = USUAL_FRAMEWORKS if request.framework is None else (request.framework,)
    drafter = drafters[advised.chosen]
    launches, config, refusals = _launches(drafter, advised, request, frameworks)
    warnings = [*refusals, *prediction.warnings, *advised.warnings]
    if advised.waits_by_default(asked.loads[-1]):
        warnings.append(
            f"the limit of running requests with drafts is a default of the server: "
            f"--server running={asked.loads[-1]:g} asks what more would give"
        )
    if price is None:
        warnings.append(
            f"no price of {setup.hardware.name} is known: give yours with --price-per-hour"
        )
    engine, several = setup.engine.name, len(listed(request.hardware)) > 1
    if request.framework not in {None, engine}:
        warnings.append(
            f"{setup.hardware.name} has no fit of {request.framework}: engine {engine} stands in"
        )
    return Served(
        setup=setup,
        drafter=drafter,
        advised=advised,
        engine_config=config,
        launches=tuple(launches),
        notes=prediction.notes,
        warnings=tuple(
            f"{setup.hardware.name}: {one}" if several else one for one in dict.fromkeys(warnings)
        ),
    )


def _grid(asked: _Asked) -> list[float]:
    """Return the loads, and two in each doubling up to the largest: a schedule needs its edges."""
    loads = [1.0, *asked.loads]
    if asked.traffic is not None:
        arrive = asked.traffic.unit != "concurrency"
        loads.append(_MOST_IN_FLIGHT if arrive else max(1.0, *asked.traffic.loads))
    doublings = int(math.log2(max(loads))) + 1
    between = {float(step * 2**power) for power in range(doublings) for step in (2, 3)}
    return sorted({*map(float, loads), *(load for load in between if load < max(loads))})


def _spec_pairs(drafter: Drafter) -> list[tuple[str, str]]:
    """Return the keys and values of a drafter's SPEC, which is its name."""
    pairs = (pair.partition("=") for pair in drafter.name.split(",")[1:])
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def _launches(
    drafter: Drafter, advised: Advised, request: AdviseRequest, frameworks: Sequence[str]
) -> tuple[list[Launch], dict[str, str | None], list[str]]:
    """Return flags by framework, and why there are none; no drafts need no flags."""
    if not any(drafts for _, _, drafts in advised.schedule):
        return [], dict.fromkeys(frameworks, ""), []
    told = server_of(request.server)
    plan = Speculation(
        kind=drafter.name.partition(",")[0],
        schedule=advised.schedule,
        draft_model=request.draft_model,
        is_tree=advised.is_tree,
        top_k=int(dict(_spec_pairs(drafter)).get("top-k", 1)),
        nodes=advised.nodes,
        running=told.running,
        memory=told.memory_frac,
        data_parallel=request.attention_data_parallel,
    )
    found, config, refusals = list[Launch](), dict[str, str | None](), list[str]()
    for framework in frameworks:
        try:
            one = launch(plan, framework)
        except OptionError as refusal:
            config[framework] = None
            refusals.append(str(refusal))
            continue
        found.append(one)
        config[framework] = one.text
        refusals += one.notes
    return found, config, refusals


def _rank(chip: Served) -> tuple[float, float]:
    """Return what chips are compared by: price at the largest load, then tokens of each device."""
    times = chip.rows[-1].times
    usd = math.inf if times.usd_per_million_tokens is None else times.usd_per_million_tokens
    return usd, -np.nan_to_num(times.tokens_per_s) / chip.setup.placement.devices
