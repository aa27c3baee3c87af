"""The request for advice, checked: loads, sizes, targets and devices."""

import math
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import array_within, number_within
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect, refuse
from specroof.hardware import IDEAL_ENGINE, HardwareProfile, Placement
from specroof.latency import Setup, check_placement, engine_setup
from specroof.policies.schedule import Traffic
from specroof.questions.advised import Targets
from specroof.questions.lists import listed
from specroof.questions.loads import refuse_one_token
from specroof.questions.predict import lengths_of
from specroof.questions.request import (
    DrafterLike,
    HardwareLike,
    ModelLike,
    OptionsLike,
    ServerLike,
    Values,
    drafters_of,
    engine_name,
    model_of,
    options_of,
    server_of,
)
from specroof.questions.traffic import Mix, TrafficFile, traffic_of
from specroof.serving.capacity import in_server, served_room
from specroof.serving.launch import DRAFT_MODEL, LAUNCHERS
from specroof.serving.workload import Workload

__all__ = ["LAUNCHERS"]

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
    loads = _usual_loads(traffic) if request.concurrency is None else listed(request.concurrency)
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
    room = served_room(asked.model, setup, context_len=held, drafter=drafter, verify_len=positions)
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
