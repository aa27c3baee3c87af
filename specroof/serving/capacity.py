"""How many requests a server runs at once, with and without speculation."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.architecture.base import TENSOR
from specroof.architecture.model import Architecture
from specroof.arrays import Array, BoolArray, distinct
from specroof.cost import stored_as
from specroof.drafters import Drafter
from specroof.errors import OptionError, Urgent, reject
from specroof.frameworks import DEGREES, BlockRelease, Release, ShareRelease, release
from specroof.hardware.engine import SERVER_KEYS, CapturedGraphs, Server, ServerSettings
from specroof.hardware.profile import Placement
from specroof.latency.model import setup_notes
from specroof.latency.setup import (
    Deployment,
    Setup,
    check_placement,
    divided,
    draft_placement,
    keeps_input_on_host,
    served_options,
)
from specroof.serving import blocks, pools
from specroof.serving.room import (
    SETTINGS,
    MemoryPlan,
    MemoryRequest,
    ServerSite,
    draft_footprint,
    target_footprint,
)
from specroof.speedup.result import SpeedupCurve
from specroof.units import (
    BOUNDS,
    GIBIBYTE,
    MEBIBYTE,
    format_binary_bytes,
    format_drafts,
    plain_number,
)

if TYPE_CHECKING:
    from specroof.serving.workload import Workload

# --- A share of the memory: the textbook, and servers whose rules are not at hand ---------------


def resolve_share(user_settings: ServerSettings, place: ServerSite, _verify_len: int = 1) -> Server:
    """Fill the settings left open with the defaults that the file of a release has.

    Source
        The file of the release.
    """
    defaults = asdict(place.facts.defaults)
    drafting = defaults.pop("running_drafting")
    if place.kind is not None and drafting:
        defaults["running"] = drafting
    return place.server(user_settings, overlap=True, **defaults)


def room_share(
    server: Server, need: MemoryRequest, context_len: Array, verify_len: Array
) -> MemoryPlan:
    """Return the room in a share of the memory that weights and a pass leave.

    Counts
        what a server measures of its largest pass, estimated as `specroof.serving.blocks` does;
        else the logits of what all slots verify, and what llama.cpp leaves free; in the textbook
        nothing beside the weights.
    Ignores
        other buffers, 0.2 to 1 GB, and what a desktop and other programs hold.
    Source
        TensorRT-LLM, documentation of ``KvCacheConfig.free_gpu_memory_fraction``; llama.cpp
        ``common/common.h``, ``fit_params_target``, and ``common/speculative.cpp``,
        ``common_speculative_get_output_limits``.
    """
    facts: ShareRelease = need.facts
    chip = need.hardware
    memory = chip.peak.memory_bytes if facts.whole_memory else chip.server_memory_bytes
    shape = np.broadcast_shapes(context_len.shape, verify_len.shape)
    reserved: Array | float = facts.margin_mib * MEBIBYTE
    if facts.part_tokens:
        reserved = reserved + 4.0 * (server.running or 1) * need.model.vocab_size * verify_len
    if facts.estimated:
        reserved += blocks.activation_bytes(
            need.model,
            tokens=server.chunk or facts.defaults.chunk,
            running=server.running or facts.defaults.running or 1,
            devices=need.placement.tensor_parallel,
        )
    pool = np.broadcast_to(
        np.asarray(server.memory_frac * (memory - reserved - need.weight_bytes)), shape
    )
    # A verification keeps a state for each position, or what replays it; a plain step one state.
    one, positions = need.target.state_bytes, verify_len if need.target.n_recurrent else 1.0
    kept = one + need.target.replay_bytes * positions if need.replays else one * positions
    states = np.broadcast_to(kept, shape)
    cache = need.stored_bytes(np.broadcast_to(context_len + verify_len, shape)) - one
    most = np.inf if server.running is None else max(1.0, float(server.running // need.limit_ranks))
    return MemoryPlan(
        memory_bytes=memory,
        reserved_bytes=memory - need.weight_bytes - pool,
        state_pool_bytes=np.zeros(shape),
        cache_pool_bytes=pool,
        state_bytes=states,
        cache_bytes=cache,
        limits={"cache": pool / (cache + states), "running": np.full(shape, most)},
        short_bytes=np.maximum(cache + states - pool, 0.0),
    )


def _captured(setup: Setup, server: Server) -> list[int]:
    facts: BlockRelease = setup.release  # type: ignore[assignment]  # by its rules
    # The tokens of a pass, when prompts are taken whole, are more than sizes are captured for.
    tokens = blocks.pass_tokens(server.chunk, setup.hardware, facts, None)
    return blocks.captured_sizes(setup.hardware, facts, server.capture, tokens=tokens)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a kind of server does that is more than a fact.

    Parameters
    ----------
    resolve
        From what a user states to what the server runs with.
    room
        From contexts and positions of a verification to the room for requests.
    captured, counts
        The sizes of captured graphs, and what they count; None where nothing is known of them.
    most_running
        From the tokens of a pass to the requests that it may be told to run, at most.
    """

    resolve: Callable[[ServerSettings, ServerSite, int], Server]
    room: Callable[[Server, MemoryRequest, Array, Array], MemoryPlan]
    captured: Callable[[Setup, Server], list[int]] | None = None
    counts: Literal["tokens", "sequences"] = "tokens"
    most_running: Callable[[float], float] = lambda _: math.inf


#: By the name that files of releases have for them.
RULES: Final[Mapping[str, Rules]] = {
    "pools": Rules(
        pools.resolve,
        pools.room,
        # Servers that draft have the finer sizes; the profiles were fitted with them.
        lambda setup, server: pools.captured_sizes(server.capture, setup.release, drafting=True),  # type: ignore[arg-type]  # by its rules
        "sequences",
    ),
    "blocks": Rules(blocks.resolve, blocks.room, _captured, most_running=blocks.most_running),
    "share": Rules(resolve_share, room_share),
}


#: Memory that a server measures is estimated here: blocks by which its default must be exceeded.
_SURE_TO_START: Final = 1.05


@dataclass(frozen=True, eq=False)
class ServedRoom:
    """The room of one server, and what it was computed from.

    Parameters
    ----------
    server
        What it runs with.
    need
        What it serves.
    room
        Arrays over contexts and positions of a verification.
    setup, drafter
        Where it serves that, and what drafts there; None for plain decoding.
    """

    server: Server
    need: MemoryRequest
    room: MemoryPlan
    setup: Setup
    drafter: Drafter | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed of the server, and of a drafter whose size is not known."""
        model, facts, engine = self.need.model, self.need.facts, self.setup.engine
        notes: list[str] = []
        if facts.version:
            name, whose = facts.framework, f"{facts.framework} {facts.version}"
            left = [key for key in SERVER_KEYS if key not in self.server.stated.stated]
            if left:
                notes.append(f"server: defaults of {whose} for {', '.join(left)}")
            if name != (named := engine.framework or engine.name):
                notes.append(f"engine {named} is not a server: the memory rules of {whose} apply")
            if facts.unchecked:
                notes.append(f"server: rules of {name} are from its documentation, unchecked")
            if facts.estimated:
                measured = f"activations, which {name} measures at startup"
                notes.append(f"server: the memory of {measured}, is estimated")
        notes += setup_notes(model, self.setup)
        if self.drafter is not None and not self.drafter.held(model).is_known:
            notes.append(f"{self.drafter.name}: its size is unknown, its memory counted as 0")
        if (told := self.lowered_running) is not None:
            default = f"its default of {self.server.running} running requests"
            notes.append(
                Urgent(
                    f"{facts.framework} does not start with {default} here, which are more than its "
                    f"cache has blocks, one for the state of each: --server running={told}"
                )
            )
        if self._runs_again:
            notes.append(
                Urgent(
                    f"{facts.framework} keeps no states of {model.name} that a rejected draft of "
                    f"{self.need.kind} is cut back to: what was accepted runs a second time, which "
                    "is not counted, so that drafts gain less or lose"
                )
            )
        return tuple(notes)

    @property
    def lowered_running(self) -> int | None:
        """What to tell a server that does not start with its default limit of running requests.

        A power of two, but where memory holds more requests; None where it starts, the user stated
        a limit, or nothing fits.
        """
        most, running = self.room.most_started, self.server.running
        if self.server.stated.running is not None or running is None or most < 1:
            return None
        if running * _SURE_TO_START <= most:
            return None
        power = 2 ** int(math.log2(most))
        return int(most) if self.room.least(of_settings=False).max() > power else power

    @property
    def _runs_again(self) -> bool:
        """Whether states cannot be cut back, so that accepted drafts run a second time."""
        kept, kind, model = self.need.facts.snapshots, self.need.kind, self.need.model
        if kept is None or kind is None:
            return False
        is_kept = kind in kept.kinds and model.family.removesuffix("_text") in kept.families
        return not is_kept and any(core.cache_kind == "state" for _, core in model.counted_cores)

    @cached_property
    def largest_batch(self) -> Array:
        """The most requests at once; without end on an ideal server that holds nothing.

        Those of all groups of devices; 0 where none fits.
        """
        return np.minimum(self.memory_batch, self.setting_batch)

    @property
    def memory_batch(self) -> Array:
        """The most requests that memory holds, whatever the server's settings allow."""
        return self._in_groups(self.room.least(of_settings=False))

    @property
    def setting_batch(self) -> Array:
        """The most requests that the server's settings allow, whatever memory holds."""
        return self._in_groups(self.room.least(of_settings=True))

    def _in_groups(self, least: Array) -> Array:
        return np.asarray(self.need.ranks * np.maximum(np.floor(least), 0.0))


#: Requests of a group from which on it holds some back.
_LEAST_HELD: Final = 8


@dataclass(frozen=True, slots=True)
class PrefillRules:
    """How a server takes prompts.

    Parameters
    ----------
    chunk
        Tokens of a pass with prompts, those of decoding included where they share it; 0 for
        prompts in one piece. Of each group of devices that has sequences of its own.
    shares_passes
        Whether requests decode in passes with prompts; otherwise these stop the batch.
    drafts_beside
        Whether they draft there too; otherwise such a pass gives each one plain token.
    receive_interval
        Rounds between two looks for new requests while there are requests to decode.
    groups
        Groups of devices, each with a chunk of its own prompts in a pass.
    holds_back
        Whether requests wait, once as many run as may, until several have ended: see `free_slots`.
    rounds_between
        Rounds that are decoded, if any request does, between two passes of prompts.
    gathering_passes
        Passes that prompts wait at most until each group has one, as long as all groups decode.
    """

    chunk: float
    shares_passes: bool
    drafts_beside: bool
    receive_interval: int = 1
    groups: int = 1
    holds_back: bool = False
    rounds_between: int = 0
    gathering_passes: int = 0

    def free_slots(self, capacity: float) -> float:
        """Return the slots that must be free before another request begins beside others.

        Parameters
        ----------
        capacity
            Requests that run at once, at most.

        Source
            SGLang 0.5.23 ``managers/min_free_slots_delayer.py``, ``resolve_min_free_slots``.

        Examples
        --------
        >>> held = PrefillRules(8192, False, False, holds_back=True)
        >>> [held.free_slots(capacity) for capacity in (7, 8, 16, 48)]
        [1.0, 2.0, 3.0, 4.0]
        """
        if not self.holds_back or not _LEAST_HELD <= capacity / self.groups < math.inf:
            return 1.0
        return float(self.groups * min(4, max(2, (capacity // self.groups + 5) // 6)))


def in_server(
    model: Architecture,
    setup: Setup,
    user_settings: ServerSettings,
    version: str | None = None,
) -> Setup:
    """Return the setup within a server: captured sizes, overlap, dtype of state.

    Settings that the user left open stay as the engine's profile has them.

    Parameters
    ----------
    model, setup
        What is served, and where; the engine's name says whose rules count.
    user_settings
        What the user tells the server.
    version
        Of the server, or how that begins: ``"0.24"``; None for that of the setup, which is the
        newest release if it has none.

    Raises
    ------
    OptionError
        For a release that there is no file of, if server and options differ in the dtype of
        recurrent state, for a placement or a chip that the release does not run the model on, or
        for experts on the host of layers without any.

    Ignores
        sizes that vLLM captures besides for uniform rounds, and uses for them alone.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.latency.setup import engine_setup
    >>> setup = engine_setup(load_hardware("h100"), "sglang", None, None)
    >>> told = in_server(load_model("Qwen/Qwen3-8B"), setup, ServerSettings(capture=4))
    >>> told.engine.graphs.sizes, told.server.overlap
    ((1, 2, 3, 4), True)
    """
    options = setup.options
    hosted = options.n_cpu_moe
    if hosted and not model.expert_layers(hosted):
        lacks = f"none of the first {hosted} layers of {model.name} has experts"
        allowed = "0, or enough layers to reach some with experts"
        reject(f"n_cpu_moe is {hosted}, and {lacks}", allowed)
    if hosted and setup.placement.pipeline_parallel > 1:
        what = f"n_cpu_moe is {hosted}, which leaves the later stages of pipeline_parallel larger"
        reject(f"{what}, and their memory is not counted", "one of the two")
    facts = release(f"{setup.engine.rules}@{version}") if version else setup.release
    place = ServerSite(
        *(model, setup.hardware, setup.placement, facts), decodes_only=setup.decodes_only
    )
    stated = user_settings.state_dtype or options.state_dtype
    if user_settings.state_dtype and options.state_dtype not in {None, stated}:
        what = f"server: state-dtype is {stated!r} and --state-dtype {options.state_dtype!r}"
        reject(what, "one of them, or the same")
    if (stated or place.state_dtype) != (options.state_dtype or model.state_dtype):
        setup = replace(setup, options=replace(options, state_dtype=stated or place.state_dtype))
    # One server for all lengths of drafts: some capture more the longer the rounds.
    longest = int(BOUNDS["draft_len"].most) + 1
    rules = RULES[facts.rules]
    server = rules.resolve(user_settings, place, longest)
    setup = replace(setup, server=server)
    expect_spreads(facts, setup.placement)
    _expect_families(facts, model, setup.placement)
    expect_chip(facts, model, setup)
    devices, experts = setup.placement.tensor_parallel, setup.placement.expert_parallel
    if facts.whole_expert_parallel and experts not in {1, devices}:
        dealt = f"{facts.name} deals experts out to all devices or none"
        reject(f"expert_parallel is {experts}, and {dealt}", f"1 or {devices}")
    _check_blocks(model, setup, facts)
    # Pools that keep no buffer of states schedule no step ahead.
    unbuffered = rules is RULES["pools"] and not server.overlap
    if unbuffered or (not facts.pipeline_overlaps and setup.placement.pipeline_parallel > 1):
        user_settings = replace(user_settings, overlap=False)
    if user_settings.overlap is not None:
        setup = replace(setup, engine=replace(setup.engine, overlap=user_settings.overlap))
    graphs = setup.engine.graphs
    # A profile without graphs is of software that captures nothing, unless it is told to.
    if rules.captured and (graphs is not None or user_settings.capture is not None):
        sizes = tuple(rules.captured(setup, server))
        graphs = replace(graphs or CapturedGraphs(sizes=()), sizes=sizes, counts=rules.counts)
    return replace(setup, engine=replace(setup.engine, graphs=graphs))


def expect_spreads(facts: Release, placement: Placement) -> None:
    """Refuse a placement that a release has no flag for.

    Raises
    ------
    OptionError
        For the first degree above 1 that its command does not say, or not beside another one.

    Source
        The file of the release; a roofline, which nobody starts, takes every placement.
    """
    keys: dict[str, str] = {}
    for degree in DEGREES if facts.command.start else ():
        key = "nodes" if degree == "hosts" else degree
        number = getattr(placement, key) or 1
        if number == 1:
            continue
        if not facts.command.spreads(degree):
            reject(f"{key} is {number}, and {facts.name} has no flag for it", "1")
        flag = (*facts.command.placement.get(degree, ()), degree)[0]
        if keys.setdefault(flag, key) != key:  # the flag takes one value
            what = f"{key} is {number}, and {facts.name} has one {flag} for it and {keys[flag]}"
            reject(what, "one of the two")


def _expect_families(facts: Release, model: Architecture, placement: Placement) -> None:
    """Refuse a placement that a release does not run a model in."""
    name, groups = facts.name, placement.attention_data_parallel
    if facts.dense_replicas and groups > 1 and not model.has_experts:
        what = f"makes of {model.name}, which is dense, as many servers that share nothing"
        allowed = f"1, tensor_parallel of {placement.group_size}, and the load of one server"
        reject(f"attention_data_parallel is {groups}, and {name} {what}", allowed)
    stages = ", or pipeline_parallel" if facts.command.spreads("pipeline_parallel") else ""
    family, grouped = model.family.removesuffix("_text"), facts.grouped_families
    for degree, what, runs, instead in (
        ("tensor_parallel", "tensor parallelism", family not in facts.whole_families, stages),
        ("pipeline_parallel", "pipeline", family not in facts.one_stage_families, ""),
        ("attention_data_parallel", "groups of attention", not grouped or family in grouped, ""),
    ):
        count = getattr(placement, degree)
        if count > 1 and not runs:
            lacks = f"{name} has no {what} for models of the family {model.family}"
            reject(f"{degree} is {count}, and {lacks}", f"1{instead}")


def expect_chip(
    facts: Release, model: Architecture, setup: Setup, *, is_started: bool = False
) -> None:
    """Refuse a chip that a release does not run a model's weights, or its kernels, on.

    Parameters
    ----------
    facts, model, setup
        The release, what is served, and where.
    is_started
        Whether a command is to start it: vendors and architectures are refused then, too. Their
        figures are of an engine that nobody may have named.

    Raises
    ------
    OptionError
        For the first limit that the chip is below; a chip of unknown capability has none.

    Source
        The file of the release: its ``chip_limits``.
    """
    form, quantization, told = model.weight_format, model.quantization, setup.options.weight_dtype
    if told is not None and told != form:  # in the place of the checkpoint's
        form, quantization = told, told if told in facts.weights else ""
    chip, cache = setup.hardware.compute_capability, setup.options.kv_dtype or model.kv_dtype
    kind = (quantization, form, cache, model.kernels, model.family.removesuffix("_text"))
    for limit in facts.chip_limits:
        limits = limit.limits(*kind)
        what = f"{quantization} weights" + f" in {form}" * bool(limit.formats)
        made = setup.hardware.architecture
        if is_started and limits and setup.hardware.vendor in limit.not_vendors:
            reject(f"{facts.name} runs {what} on no chip of {setup.hardware.vendor}", "others")
        if is_started and limits and made in limit.not_architectures:
            reject(f"{facts.name} runs {what} on no chip of {made}", "other architectures")
        if chip is None or not limits or limit.allows(chip):
            continue
        if limit.kernels:
            what = f"kernels of {' and '.join(limit.kernels)}"
        if limit.caches:
            what = f"{model.name} with a cache in {cache}"
        chips = ", ".join(map(str, limit.capabilities)) or f"from {limit.least:g} on"
        said = f"{facts.name} runs {what} on no chip of compute capability {chip:g}"
        others = ", or a cache in another format" * bool(limit.caches)
        reject(said, f"compute capabilities {chips}{others}")


def _check_blocks(model: Architecture, setup: Setup, facts: Release) -> None:
    """Refuse a placement that cuts blocks of FP8 weights, where a release refuses it.

    Ignores
        heads, of which nearly all models have whole blocks.
    """
    placement, whole = setup.placement, facts.whole_blocks
    if setup.hardware.vendor not in whole.vendors or placement.tensor_parallel == 1:
        return
    if setup.options.weight_dtype is not None:
        model = stored_as(model, setup.options.weight_dtype)
    tensor, experts = placement.tensor_parallel, placement.expert_parallel
    parts = {
        "experts": (
            tensor // experts,
            {(core.hidden_features, core.weight.block)
             for core in (block.experts for _, block in model.counted_blocks) if core},
        ),
        "dense": (
            placement.group_size if facts.dense_in_groups else tensor,
            {(linear.in_features, linear.weight.block)
             for layer in model.layers for block in layer.blocks for linear in block.matrices
             if linear.shard == TENSOR and linear.name.endswith("down_proj")},
        ),
    }  # fmt: skip
    for what in whole.parts:
        degree, widths = parts[what]
        for width, block in widths:
            if degree == 1 or not any(block) or width % (degree * max(block)) == 0:
                continue
            cuts = [n for n in range(2, tensor) if tensor % n == 0 == width % (n * max(block))]
            over = [1, *cuts]
            allowed = f"tensor_parallel of {', '.join(map(str, over))}"
            if what == "experts":
                groups = [str(tensor // n) for n in reversed(over)]
                allowed = f"expert_parallel of {' or '.join(groups)}"
            reject(
                f"tensor_parallel is {tensor} with expert_parallel {experts}: {facts.name} keeps "
                f"blocks of {max(block)} FP8 weights whole, which the width {width} of {what} matrices "
                f"in {model.name} has not over {degree} devices",
                allowed,
            )


def prefill_rules(deployment: Deployment, kind: str | None = None) -> PrefillRules:
    """Return how the server takes prompts: as it was told, else as its framework does.

    Each group of data-parallel attention has a scheduler of its own. Under SGLang a chunk is cut by
    the number of groups; those without a prompt decode beside the others, but not where they draft:
    there all wait.

    Parameters
    ----------
    deployment
        What is served, and where; what its server was told: see `in_server`.
    kind
        The drafter's kind, as a SPEC begins; None for plain decoding.

    Source
        vLLM 0.33.0 ``v1/core/sched/scheduler.py``: what is left of the tokens of a pass when all
        that decode have theirs is for prompts; ``v1/engine/core.py``, ``DPEngineCoreProc``. SGLang
        0.5.23 ``managers/scheduler.py``, ``get_next_batch_to_run``: a batch of prompts runs before
        the next step, and "prefill and decode batches will not be mixed when spec and dp-attn is
        enabled"; ``arg_groups/parallel_hook.py``, ``handle_data_parallelism``.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.latency.setup import engine_setup
    >>> model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("h100")
    >>> rules = prefill_rules(Deployment(model, engine_setup(chip, "sglang", None, None)))
    >>> rules.chunk, rules.shares_passes, rules.drafts_beside
    (8192, False, False)
    >>> prefill_rules(Deployment(model, engine_setup(chip, "vllm", None, None))).shares_passes
    True
    """
    setup, facts = deployment.setup, deployment.setup.release
    groups = setup.placement.attention_data_parallel
    place = ServerSite(
        *(deployment.model, setup.hardware, setup.placement, setup.release, kind),
        decodes_only=setup.decodes_only,
    )
    server = RULES[facts.rules].resolve(setup.user_settings, place, 1)
    beside = groups > 1 and kind is None and facts.groups_beside
    return PrefillRules(
        chunk=server.chunk // groups if facts.divides_chunks else server.chunk,
        shares_passes=(server.mixed or beside) and server.chunk > 0,
        drafts_beside=facts.drafts_beside,
        groups=groups,
        holds_back=kind in facts.held_kinds,
        rounds_between=_rounds_between(deployment),
        gathering_passes=facts.gathering_passes if groups > 1 else 0,
    )


def _rounds_between(deployment: Deployment) -> int:
    """Return the rounds between two passes of prompts, as `PrefillRules` has them."""
    spaced, chip = deployment.setup.release.spaced_prompts, deployment.setup.hardware
    if spaced is None or deployment.model.family.removesuffix("_text") not in spaced.families:
        return 0
    large = chip.server_memory_bytes >= spaced.least_gib * GIBIBYTE
    return spaced.rounds if large and chip.compute_major in spaced.capabilities else 0


def served_room(
    deployment: Deployment,
    *,
    context_len: npt.ArrayLike,
    drafter: Drafter | None = None,
    verify_len: npt.ArrayLike = 1.0,
    prompt_len: float | None = None,
) -> ServedRoom:
    """Return the room for requests on a server.

    Parameters
    ----------
    deployment
        What is served, and where; what its server was told: see `in_server`.
    context_len
        Cached tokens of each request.
    drafter
        What drafts; None for plain decoding.
    verify_len
        Positions of a verification, drafts and one; it broadcasts with `context_len`.
    prompt_len
        Tokens that a prefill computes of each request; None for all that it caches. None are
        computed where other workers do it.

    Source
        `RULES`, and the file of the release.
    """
    model, setup = deployment.model, deployment.setup
    held = None if drafter is None else drafter.held(model)
    draft = None
    if held is not None and held.head is not None:
        draft = draft_footprint(
            replace(held.head, model=divided(held.head.model, setup)),
            draft_placement(held.head.model, setup),
            served_options(held.head.model, setup),
            tensor_parallel=held.tensor_parallel,
            input_on_host=keeps_input_on_host(setup),
        )
    need = MemoryRequest(
        *(model, setup.hardware, setup.placement, setup.release),
        kind=None if drafter is None else drafter.kind,
        decodes_only=setup.decodes_only,
        target=target_footprint(
            *(divided(model, setup), setup.placement, served_options(model, setup)),
            input_on_host=keeps_input_on_host(setup),
        ),
        draft=draft,
        replays=drafter is not None and setup.options.recurrent_state == "replay",
        prompt_len=0.0 if setup.decodes_only else prompt_len,
    )
    contexts = np.asarray(context_len, dtype=np.float64)
    positions = np.asarray(verify_len, dtype=np.float64)
    rules = RULES[setup.release.rules]
    server = rules.resolve(setup.user_settings, need, int(np.ceil(positions.max())))
    room = rules.room(server, need, contexts, positions)
    return ServedRoom(server, need, room, setup, drafter)


# --- The room of a server over a grid of points, plain and with drafts, and what binds it --------

#: What becomes of requests that a server has no memory for: they ``queue``, their points are
#: ``drop``ped (no figures), or memory is ``ignore``d.
RoomRule: TypeAlias = Literal["queue", "drop", "ignore"]


@dataclass(frozen=True, eq=False)
class ServerRoom:
    """The room of a server over contexts and draft lengths.

    Parameters
    ----------
    drafter
        What drafts.
    plain, drafting
        The room without it, axes (context_len, 1), and with it, axes (context_len, draft_len).
    reserved_len
        Tokens of each request that are kept free beside its context.
    """

    drafter: str
    plain: ServedRoom
    drafting: ServedRoom
    reserved_len: float = 0.0

    def by_drafts(self, of: Callable[[ServedRoom], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return a figure of both, axes (context_len, draft_len); [..., 0] decodes plainly."""
        return np.concatenate([of(self.plain), of(self.drafting)[:, 1:]], axis=1)

    @cached_property
    def largest(self) -> Array:
        """The largest batch, axes as of `by_drafts`."""
        return self.by_drafts(lambda side: side.largest_batch)

    @cached_property
    def bound_by(self) -> npt.NDArray[np.str_]:
        """What limits it."""
        return self.by_drafts(lambda side: side.room.bound_by)

    @property
    def bound_by_setting(self) -> BoolArray:
        """Whether a setting of the server limits it, not memory."""
        return np.isin(self.bound_by, SETTINGS)

    def warnings(self, curve: SpeedupCurve, beyond: str, enough: str = "") -> Iterator[str]:
        """Yield a sentence for each context at which not all requests run that were asked for.

        Parameters
        ----------
        curve
            Over the contexts and draft lengths of this room.
        beyond
            What becomes of more requests.
        enough
            What would have room for one, behind a comma.
        """
        most, bound = self.largest, self.bound_by
        largest = curve.batch_size.max()
        known = np.flatnonzero(np.isfinite(curve.tokens_per_round[0, 0]))
        for i, context in enumerate(curve.context_len):
            if most[i, known].min() >= largest:
                continue
            # Of requests they are means, whose decimals say nothing.
            at, more = map(plain_number, np.round([context, self.reserved_len]))
            at += f", with room for {more} more tokens each" if self.reserved_len else ""
            # Plain, with the shortest draft and with the longest.
            parts = []
            for drafts in dict.fromkeys((0, *known[1:2].tolist(), int(known[-1]))):
                with_drafts = f"with {format_drafts(drafts)} of {self.drafter}"
                by = with_drafts if drafts else "without drafts"
                parts.append(f"{plain_number(most[i, drafts])} {by} ({bound[i, drafts]})")
            if most[i, 0]:
                yield f"requests at once at context {at}: {', '.join(parts)}; {beyond}"
            else:
                need = self.plain.need
                short_bytes = float(self.plain.room.short_bytes[i, 0])
                sizes = need.target.weight_bytes, need.hardware.server_memory_bytes, short_bytes
                weights, memory, short = map(format_binary_bytes, sizes)
                yield (
                    f"context {at}: not one request fits: {weights} of weights on each device, "
                    f"which has {memory}; at least {short} more would be needed{enough}"
                )
        if (raised := self.raised_running(largest, known)) is not None:
            yield Urgent(
                f"a default of {self.drafting.server.framework} limits the running requests: "
                f"--server running={raised} raises it"
            )

    @property
    def most_told(self) -> float:
        """The largest limit of running requests that the server may be told."""
        drafting = self.drafting
        return RULES[drafting.need.facts.rules].most_running(drafting.server.chunk)

    def raised_running(
        self, batch: float, lengths: npt.NDArray[np.intp] | slice = slice(None)
    ) -> int | None:
        """Return what to tell the server in the place of its default limit of running requests.

        None where memory holds a batch back, nothing does, the user stated a limit, or the server
        has no flag for it.

        Parameters
        ----------
        batch
            Requests that should run at once.
        lengths
            Draft lengths that count.
        """
        server, need = self.drafting.server, self.drafting.need
        is_told = "running" in need.facts.settings
        if server.running is None or server.stated.running is not None or not is_told:
            return None
        binds = (self.bound_by[:, lengths] == "running") & (self.largest[:, lengths] < batch)
        if not binds.any() or server.running >= self.most_told:
            return None
        return int(min(float(need.told_running(batch)), self.most_told))


def devices_that_hold(deployment: Deployment, context_len: float) -> int | None:
    """Return the fewest devices, of 1, 2, 4 … that one link joins, on which a request runs.

    None where there are none.

    Parameters
    ----------
    deployment
        What is served; its tensor parallelism is varied.
    context_len
        Tokens of the request.
    """
    model, setup = deployment.model, deployment.setup
    link = setup.hardware.interconnect
    for power in range(1 if link is None else link.max_devices.bit_length()):
        try:
            placement = replace(setup.placement, tensor_parallel=2**power)
            check_placement(model, placement)
            here = in_server(model, replace(setup, placement=placement), setup.user_settings)
        except OptionError:  # it does not divide, or is not divided by what else was asked for
            continue
        if served_room(Deployment(model, here), context_len=context_len).largest_batch >= 1:
            return placement.tensor_parallel
    return None


def server_room(
    deployment: Deployment,
    drafter: Drafter,
    context_len: Array,
    verify_len: npt.ArrayLike,
    workload: "Workload | None" = None,
    plain: ServedRoom | None = None,
) -> ServerRoom:
    """Return the room at some contexts and draft lengths, such as those of a curve.

    Parameters
    ----------
    deployment, drafter
        What is served, and where; what its server was told; and what drafts.
    context_len
        Cached tokens, shape (contexts,).
    verify_len
        Positions of a verification by draft length, from 0; what is kept is one more than drafts
        at least.
    workload
        The requests; None for contexts that may be prompts as a whole.
    plain
        The room at these contexts without drafts, where it is known already.
    """
    verified = np.asarray(verify_len, dtype=np.float64)
    kept = np.maximum(verified, np.arange(len(verified)) + 1.0)[None, :]
    prompt_len = None if workload is None else workload.new_len
    room = partial(served_room, deployment, context_len=context_len[:, None], prompt_len=prompt_len)
    return ServerRoom(drafter.name, plain or room(), room(drafter=drafter, verify_len=kept))


# --- Requests beyond what a server runs: they wait, and the batch that runs is what has a speed --


def running_requests(
    concurrency: npt.ArrayLike, largest_batch: npt.ArrayLike, room: Literal["queue", "drop"]
) -> Array:
    r"""Return the requests that are decoded at a time; NaN where there is no such batch.

    .. math:: R = \min(C, \text{cap})

    Parameters
    ----------
    concurrency
        Requests in flight, or the batch, C.
    largest_batch
        The largest batch that runs.
    room
        Whether those beyond it wait in a queue, or such a batch is dropped.

    Source
        Counting.

    Examples
    --------
    >>> running_requests([8, 64], 48, "queue"), running_requests([8, 64], 48, "drop")
    (array([ 8., 48.]), array([ 8., nan]))
    """
    wanted = np.asarray(concurrency, dtype=np.float64)
    most = np.asarray(largest_batch, dtype=np.float64)
    if room == "queue":
        return np.where(most >= 1, np.minimum(wanted, most), np.nan)
    return np.where(wanted <= most, wanted, np.nan)


def running_curve(
    batch_size: Array, running: Array, priced: Callable[[Array], SpeedupCurve]
) -> SpeedupCurve:
    """Return a curve whose points run other batches than are asked for.

    Parameters
    ----------
    batch_size
        Requests in flight.
    running
        The batch of each point, axes (context_len, batch_size, draft_len); NaN where none runs.
    priced
        From batch sizes to a curve as if memory had no end; that curve is the answer where all
        requests run.
    """
    if np.all(running == batch_size[None, :, None]):
        return priced(batch_size)
    runs = np.isfinite(running)
    sizes = distinct(running[runs]) if runs.any() else batch_size[:1]
    curve = priced(sizes)
    place = np.searchsorted(sizes, np.where(runs, running, sizes[0]))
    found: dict[str, Any] = {
        name: np.where(runs, np.take_along_axis(getattr(curve, name), place, axis=1), np.nan)
        for name in ("draft_s", "verify_s", "round_s", "launched")
    }
    tokens = np.broadcast_to(curve.tokens_per_round[:, :1], running.shape)
    return replace(curve, batch_size=batch_size, running=running, tokens_per_round=tokens, **found)
