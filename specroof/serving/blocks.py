"""Servers with one pool of blocks: what they hand to their cache, and how many requests they run.

The figures of a release are in its file; each function names the file and the function of vLLM
0.33.0 that it follows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.architecture.base import LATENT_KERNELS
from specroof.architecture.compressed import Pages, pages, window_and_rings
from specroof.architecture.model import Architecture
from specroof.arrays import Array, distinct
from specroof.errors import refuse
from specroof.frameworks import BlockRelease, InputSlots, Release
from specroof.hardware.engine import Server, ServerSettings
from specroof.hardware.profile import HardwareProfile
from specroof.serving.room import MemoryPlan, MemoryRequest, ServerSite
from specroof.units import GIBIBYTE, MEBIBYTE, dtype_bytes

# --- What vLLM sizes by the chip: requests, tokens of a pass, captured graphs --------------------


def batch_defaults(hardware: HardwareProfile, facts: BlockRelease) -> tuple[int, int]:
    """Return requests that run, and tokens of a pass, of a server with no settings.

    Source
        ``engine/arg_utils.py``, ``EngineArgs.get_batch_defaults``, for a server. Its thresholds
        read what ``platforms/cuda.py``, ``get_device_total_memory``, asks of NVML (of amdsmi on
        AMD's chips): the total of nvidia-smi, which hardware files state, and not the memory that
        CUDA leaves of it.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.frameworks import release
    >>> facts = release("vllm")
    >>> [batch_defaults(load_hardware(name), facts) for name in ("b200", "h100", "a100", "l40s")]
    [(1024, 16384), (1024, 8192), (256, 2048), (256, 2048)]
    """
    limits, gib = facts.limits, hardware.peak.memory_bytes / GIBIBYTE
    limit = next(
        limit
        for limit in limits.by_memory
        if gib >= limit.least_gib and hardware.compute_capability not in limit.not_capabilities
    )
    tokens = limits.tokens_by_architecture.get(hardware.architecture or "", limit.tokens)
    return limit.running, tokens


def pass_tokens(
    chunk: int, hardware: HardwareProfile, facts: BlockRelease, positions: int | None
) -> int:
    """Return the tokens of a pass: a chunk; of whole prompts all positions, or the default.

    Source
        ``engine/arg_utils.py``, ``_set_default_max_num_seqs_and_batched_tokens_args``.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.frameworks import release
    >>> chip, facts = load_hardware("h100"), release("vllm")
    >>> [pass_tokens(chunk, chip, facts, 40960) for chunk in (0, 2048)]
    [40960, 2048]
    """
    return chunk or max(batch_defaults(hardware, facts)[1], positions or 0)


def _largest_graph(hardware: HardwareProfile, facts: BlockRelease) -> int:
    captured = facts.captured
    is_large = hardware.compute_major in captured.large_compute_majors
    return captured.large if is_large else captured.most


def largest_captured(
    hardware: HardwareProfile,
    facts: BlockRelease,
    *,
    running: int,
    tokens: int,
    verify_len: int = 1,
) -> int:
    """Return the tokens of the largest graph: an upper end, where sizes start from.

    Source
        ``config/vllm.py``, ``_set_cudagraph_sizes``.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.frameworks import release
    >>> chip, facts = load_hardware("h100"), release("vllm")
    >>> largest_captured(chip, facts, running=16, tokens=8192, verify_len=4)
    128
    """
    return min(2 * running * verify_len, _largest_graph(hardware, facts), tokens)


def captured_sizes(
    hardware: HardwareProfile,
    facts: BlockRelease,
    stated: int | None,
    *,
    tokens: int,
    running: int = 1,
    verify_len: int = 1,
) -> list[int]:
    """Return the sizes in tokens for which passes are captured.

    Parameters
    ----------
    hardware
        The chip, which says how many requests are listed.
    facts
        Of the release.
    stated
        The largest; None for `largest_captured`, and the uniform passes of all that run.
    tokens
        Of a pass.
    running
        Requests that run.
    verify_len
        Positions of each request in a pass.

    Source
        ``config/vllm.py``, ``_set_cudagraph_sizes``.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.frameworks import release
    >>> chip, facts = load_hardware("h100"), release("vllm")
    >>> captured_sizes(chip, facts, None, running=6, tokens=8192, verify_len=2)
    [1, 2, 4, 8, 12, 16, 24]
    >>> captured_sizes(chip, facts, 24, tokens=8192)
    [1, 2, 4, 8, 16, 24]
    """
    captured, counts, most = facts.captured, facts.captured.sizes.up_to, stated
    sizes = {tokens} if captured.whole_pass else set[int]()
    if most is None:
        shape = {"running": running, "tokens": tokens, "verify_len": verify_len}
        most = largest_captured(hardware, facts, **shape)
        if captured.uniform:
            requests = min(running, _largest_graph(hardware, facts))
            sizes |= {n * verify_len for n in (*counts(requests), requests)}
    sizes |= {*counts(most)}
    return sorted(size for size in sizes if size <= min(most, tokens))


def stated_capture(told: int | None, place: ServerSite) -> int | None:
    """Return the largest captured size that the user states, or else the release of a family.

    Source
        ``model_executor/models/config.py``, ``GptOssForCausalLMConfig``.
    """
    facts: BlockRelease = place.facts
    return facts.captured.by_family.get(place.model.family) if told is None else told


#: What a captured size takes besides memory that the sizes share: assumed equal to
#: what SGLang reserves for its captured prefills.
_GRAPH_BYTES: Final = 8 * MEBIBYTE


def resolve(user_settings: ServerSettings, place: ServerSite, verify_len: int = 1) -> Server:
    """Fill the settings that the user left open with the defaults of the release.

    Source
        ``engine/arg_utils.py``, ``config/cache.py``, ``config/vllm.py`` (asynchronous scheduling).
    """
    facts: BlockRelease = place.facts
    running, default = batch_defaults(place.hardware, facts)
    chunk = default if user_settings.chunk is None else user_settings.chunk
    tokens = pass_tokens(chunk, place.hardware, facts, place.model.positions)
    stated = user_settings.running
    if stated is not None and stated > most_running(chunk):
        refuse("running", stated, f"at most the {chunk} tokens of a pass (chunk=)")
    running = stated or min(running, tokens)
    synchronous = facts.memory.synchronous_kinds if user_settings.overlap is None else ()
    fixed = stated_capture(None, place)
    server = place.server(
        user_settings,
        memory_frac=facts.memory.memory_frac,
        running=running,
        capture=min(fixed, tokens)
        if fixed
        else largest_captured(
            place.hardware, facts, running=running, tokens=tokens, verify_len=verify_len
        ),
        overlap=place.kind not in synchronous,
        chunk=chunk,
        mixed=True,
        prefix_cache=True,
        synchronous=synchronous,
    )
    return replace(server, mixed=server.mixed and chunk > 0)


def most_running(chunk: float) -> float:
    """Return the requests that a server may be told to run, at most: a token of each in a pass.

    Source
        ``config/scheduler.py``, ``verify_max_model_len``.
    """
    return chunk or np.inf


def activation_bytes(model: Architecture, *, tokens: int, running: int, devices: int) -> float:
    r"""Return the peak of a pass that profiles the memory: an estimate of what vLLM measures.

    .. math:: 2 t (4 H + 2 W / n) + 2 \cdot 4 \, R \, V

    with the hidden size H, the inner width W of a token's feed-forward over n devices, and logits
    of R requests over a vocabulary V, twice in float32.

    Counts
        the residual stream four times, an inner activation twice, logits and their sorted copy.
    Ignores
        workspaces of attention and experts: some hundred MiB.
    Source
        ``v1/worker/gpu_worker.py``, ``determine_available_memory``, measures it; the estimate is
        this project's.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Layer
    >>> toy = Architecture("toy", "llama", 8, 100, (Layer(()),), Linear("lm_head", 8, 100))
    >>> activation_bytes(toy, tokens=10, running=2, devices=1)  # 2*10*32 + 8*2*100
    2240.0
    """
    inner = [0.0]
    for _, block in model.counted_blocks:
        if block.name == "feed_forward" and block.experts:
            inner.append(block.experts.top_k * block.experts.hidden_features)
        elif block.name == "feed_forward":
            inner += [linear.in_features for linear in block.linears]
    width = 4 * model.hidden_size + 2 * max(inner) / devices
    logits = 2 * dtype_bytes("fp32") * min(running, tokens) * model.vocab_size
    return dtype_bytes(model.activation_dtype) * tokens * width + logits


def state_blocks(draft_len: Array) -> Array:
    """Return the copies of its recurrent state that a request holds while it decodes.

    One, and one for each draft, with or without a cache of prefixes: as a request enters a block,
    its state before is let go of behind the pass that copied it.

    Ignores
        that copy, for a pass or two in a block: below 1% of the time without drafts; one more
        while a prompt is prefilled, where a kernel exports a checkpoint; and that a server is
        refused for a sequence of all positions that has no room for both, as
        ``v1/kv_cache_interface.py``, ``MambaSpec.max_memory_usage_bytes``, counts.
    Source
        ``v1/core/single_type_kv_cache_manager.py``, ``MambaManager.allocate_new_blocks`` and
        ``remove_skipped_blocks``.

    Examples
    --------
    >>> state_blocks(np.array([0.0, 3.0])).tolist()
    [1.0, 4.0]
    """
    return 1.0 + draft_len


def _lookahead(need: MemoryRequest, draft_len: Array) -> Array:
    """Return the tokens that a drafter writes ahead of a request's context.

    Source
        ``config/vllm.py``, ``num_lookahead_tokens``.
    """
    facts = need.facts.memory
    if need.kind is None or need.kind in facts.no_lookahead_kinds:
        return np.zeros_like(draft_len)
    return draft_len + 1 if need.kind in facts.extra_slot_kinds else draft_len


def input_slots(facts: Release, kind: str, draft_len: npt.ArrayLike) -> Array:
    """Return the tokens of a pass that a drafter takes for each request, beside those verified.

    Source
        The file of the release, ``input_slots``.

    Examples
    --------
    >>> from specroof.frameworks import release
    >>> input_slots(release("vllm"), "pard", np.array([0.0, 3.0])).tolist()
    [0.0, 3.0]
    """
    return facts.input_slots.get(kind, InputSlots()).of(np.asarray(draft_len, dtype=np.float64))


def _block_tokens(server: Server, need: MemoryRequest) -> tuple[float, float]:
    """Return the tokens of a block, and the bytes that a state of all layers is padded to.

    A block of a hybrid model grows until one layer's cache holds one layer's state, in steps of
    what kernels export states at.

    Source
        ``platforms/interface.py``, ``_align_hybrid_block_size``.
    """
    facts, target = need.facts.memory, need.target
    if not target.n_recurrent or not target.n_cached:
        return float(facts.block_tokens), target.state_bytes
    is_latent = not LATENT_KERNELS.isdisjoint(need.model.kernels)
    step, exports = (
        facts.latent_block_tokens if is_latent else facts.block_tokens,
        facts.checkpoints,
    )
    if (
        server.prefix_cache
        and need.hardware.compute_major in exports.compute_majors
        and not need.model.kernels.isdisjoint(exports.kernels)
        and need.model.family.removesuffix("_text") not in exports.not_families
    ):
        step = math.lcm(step, exports.tokens)
    token = target.token_bytes / target.n_cached
    block = step * np.ceil(target.state_bytes / target.n_recurrent / (step * token))
    return float(block), float(target.n_recurrent * block * token)


def padded_layers(*kinds: int, alike: float) -> tuple[int, ...]:
    """Return the layers of each kind that blocks are held for: whole groups of one size.

    Parameters
    ----------
    kinds
        How many layers cache all tokens, a window, a state: each at least 1.
    alike
        Layers of two kinds that differ by less are padded to the larger number.

    Source
        ``v1/core/kv_cache_planning.py``, ``_get_kv_cache_groups_uniform_page_size``.

    Examples
    --------
    >>> (
    ...     padded_layers(10, 52, alike=1.5),
    ...     padded_layers(13, 12, alike=1.5),
    ... )  # groups of 10, and of 13
    ((10, 60), (13, 13))
    """
    size = _group_layers(*kinds, alike=alike)
    return tuple(-(-layers // size) * size for layers in kinds)


def _group_layers(*kinds: int, alike: float) -> int:
    """Return the layers of a group, of which a block holds tokens or a state; see above."""
    least, most = min(kinds), max(kinds)
    return most if most < alike * least else least


def _whole_chunks(need: MemoryRequest) -> MemoryRequest:
    """Return what is asked for where layers of chunks cache the context as all others do.

    They read no more than their chunk all the same; windows beside them are kept whole, too.

    Source
        ``config/vllm.py``, where ``attention_chunk_size`` turns the hybrid cache manager off;
        ``v1/core/kv_cache_planning.py``, ``unify_hybrid_kv_cache_specs``.
    """
    target, labels = need.target, {core.label for _, core in need.model.counted_cores}
    if labels.isdisjoint(need.facts.memory.whole_beside):
        return need
    whole = replace(
        target,
        token_bytes=target.token_bytes + target.window_token_bytes,
        n_cached=target.n_cached + target.n_windowed,
        windows={},
        n_windowed=0,
        window_token_bytes=0.0,
    )
    return replace(need, target=whole)


def _padding(need: MemoryRequest) -> tuple[float, Mapping[int, float], float]:
    """Return how many layers are held for one that there is: of all tokens, windows, a state."""
    target, kinds = need.target, _layers_by_kind(need)
    there = {kind: layers for kind, layers in kinds.items() if layers}
    padded = padded_layers(*there.values(), alike=need.facts.memory.alike) if there else ()
    held = dict(zip(there, padded, strict=True))
    frac = {kind: held[kind] / there[kind] if kind in there else 1.0 for kind in kinds}
    return frac["whole"], {window: frac[window] for window in target.windows}, frac["state"]


def _layers_by_kind(need: MemoryRequest) -> dict[str | int, int]:
    """Return how many layers cache all tokens, each window and a state.

    Layers of a drafter whose tokens take as much join those of the target.
    """
    target, draft = need.target, need.draft
    whole = target.n_cached
    if draft is not None and draft.n_cached and whole:
        alike = draft.token_bytes / draft.n_cached == target.token_bytes / whole
        whole += draft.n_cached if alike else 0
    kinds: dict[str | int, int] = {"whole": whole, "state": target.n_recurrent}
    return kinds | {window: layers for window, (layers, _) in target.windows.items()}


def _most_started(server: Server, need: MemoryRequest, pool: float, padded: float) -> float:
    """Return the requests that a server may be told to run: as many as there are blocks.

    Where it captures decoding, and keeps states in blocks.

    Parameters
    ----------
    server, need
        What it runs with and serves.
    pool
        Bytes of all blocks.
    padded
        Of a state of all layers.

    Source
        ``config/compilation.py``, ``resolve_cudagraph_mode_and_sizes``: ``max_num_seqs exceeds
        available Mamba cache blocks``.
    """
    facts, recurrent = need.facts.memory, need.target.n_recurrent
    if not (recurrent and server.capture and facts.running_in_blocks):
        return np.inf
    kinds = filter(None, _layers_by_kind(need).values())
    group = _group_layers(*kinds, alike=facts.alike)
    return float(np.floor(pool / (group * padded / recurrent)))


def packed_groups(kinds: Sequence[Pages]) -> tuple[float, list[Pages]]:
    """Return the bytes of a block of all kinds of caches, and a kind for each group of layers.

    A group has blocks of its own, each as wide as those of the widest group.

    Parameters
    ----------
    kinds
        What is cached.

    Source
        ``v1/core/kv_cache_planning.py``, ``_get_packed_kv_cache_groups``.

    Examples
    --------
    >>> windows, rings = Pages(64, 128, {4.0: 43}), Pages(4, 8, {3.0: 21, 1.0: 21})
    >>> width, groups = packed_groups([Pages(256, 0, {4.0: 21, 1.0: 20}), windows, rings])
    >>> width, [one.tokens for one in groups]  # 21 * 4 + 20, while windows are 22 and 21 layers
    (104.0, [256, 64, 64, 4])
    """
    alike = [one for one in kinds if len({*one.caches.values()}) == 1]
    most = [max(one.caches.values()) for one in alike]
    least = max((max(one.caches.values()) for one in alike if len(one.caches) > 1), default=0)
    size = min(
        np.arange(least, max(most) + 1) if least else [np.inf],
        key=lambda size: (sum(-layers % size for layers in most), -size),
    )
    width, groups = 0.0, []
    for one in kinds:
        parts = math.ceil(max(one.caches.values()) / size) if one in alike else 1
        groups += [one] * parts
        own = sum(math.ceil(layers / parts) * page for page, layers in one.caches.items())
        width = max(width, float(own))
    return width, groups


def _is_packed(need: MemoryRequest) -> bool:
    return "compressed" in need.model.kernels and not need.target.by_token


def _packed_bytes(need: MemoryRequest, tokens: Array, in_flight: float) -> Array:
    """Return the bytes of a request's blocks where caches of several widths are packed in them.

    Ignores
        that windows of a drafter's layers join those of the target.
    """
    facts, cores = need.facts, need.model.counted_cores
    kinds = pages(cores, *facts.compressed_formats[:1], **asdict(facts.memory.packed))
    width, groups = packed_groups(kinds)
    held = np.zeros_like(tokens)
    for one in groups:
        blocks = np.ceil(tokens / one.tokens)
        if one.window:
            kept = np.ceil((one.window - 1 + in_flight) / one.tokens) + 1
            blocks = np.minimum(blocks, kept)
        held = held + width * blocks
    # Of the layers, rings too, a device has its stage's.
    _, *rings = window_and_rings(cores, 0)
    return np.asarray(held * need.target.state_bytes / sum(rings))


def _cached_bytes(
    need: MemoryRequest, tokens: Array, block: float, in_flight: float = 0.0
) -> Array:
    """Return the bytes of a request's cached tokens, in whole blocks.

    Parameters
    ----------
    need
        What is served.
    tokens
        Of the request.
    block
        Tokens of a block.
    in_flight
        Tokens whose passes may not have ended: what they attend to stays.

    Source
        ``v1/kv_cache_interface.py``, ``SlidingWindowSpec.max_admission_blocks_per_request``: a
        window starts anywhere in a block.
    """
    target, blocks = need.target, np.ceil(tokens / block)
    whole, windows, _ = _padding(need)
    if _is_packed(need):
        held = _packed_bytes(need, tokens, in_flight)
    elif not target.by_token:
        held = need.target.sequence_bytes(tokens) - target.state_bytes
    else:
        held = whole * target.token_bytes * block * blocks
        for window, (_, token_bytes) in target.windows.items():
            kept = np.minimum(blocks, np.ceil((window - 1 + in_flight) / block) + 1)
            held = held + windows[window] * token_bytes * block * kept
    if need.draft is not None:
        held = held + need.draft.sequence_bytes(block * blocks)
    return np.asarray(held)


def _admitted_bytes(server: Server, need: MemoryRequest, context_len: Array, block: float) -> Array:
    """Return the bytes that must be free for a request to start: those of its whole prompt.

    Windows let go of a prompt's blocks only behind passes that have ended.

    Ignores
        the window that cached tokens before a prompt keep.
    Source
        ``v1/core/sched/scheduler.py``, ``scheduler_reserve_full_isl``, with
        ``v1/core/kv_cache_manager.py``, ``allocate_slots``; ``config/vllm.py``,
        ``max_in_flight_tokens``: passes of every stage, and one more where scheduling overlaps.
    """
    prompt = context_len if need.prompt_len is None else np.asarray(need.prompt_len)
    passes = {
        "passes in flight": need.placement.pipeline_parallel + (1 if server.overlap else 0),
        "one pass": 1,
        "whole": np.inf,
    }[need.facts.memory.prompt_in_windows]
    return _cached_bytes(need, prompt, block, in_flight=passes * (server.chunk or np.inf))


def _graph_bytes(stated: int | None, need: MemoryRequest, verify_len: Array, **asked: int) -> Array:
    """Return what captured graphs take, for each number of positions of a verification."""
    counts = np.zeros(verify_len.shape)
    for positions in distinct(verify_len):
        asked["verify_len"] = int(np.ceil(positions))
        sizes = captured_sizes(need.hardware, need.facts, stated, **asked)
        counts[verify_len == positions] = len(sizes)
    return _GRAPH_BYTES * counts


def room(server: Server, need: MemoryRequest, context_len: Array, verify_len: Array) -> MemoryPlan:
    """Return the room for requests of `context_len`; `verify_len` is 1 for plain decoding.

    Counts
        one pool for cache and state; blocks; slots of a verification and for drafts ahead; the
        prompt of the last request to start, while windows hold all of it; an estimate of the
        profiled peak and of captured graphs; the tokens of a pass, which those verified and the
        drafter's input take (``v1/core/sched/scheduler.py``, ``schedule``).
        With ``replay``, no copies of the state for drafts (``layers/mamba/abstract.py``,
        ``num_speculative_blocks``), and the inputs that replay it: those of a verification, and of
        Mamba2 those of 16 tokens (``config/cache.py``, ``replayssm_buffer_len``;
        ``layers/mamba/mamba_utils.py``, ``append_replayssm_ring``). 0.33.0 replays of other kinds
        those of Kimi alone.
    Ignores
        layouts that pack states with caches of other widths, the CUDA context, and that the inputs
        of Mamba2 lie in the blocks of the state, which are padded.
    Source
        ``v1/worker/utils.py``, ``request_memory``: a share of the total of ``cudaMemGetInfo``;
        ``v1/worker/gpu_worker.py``, ``determine_available_memory``; ``v1/core/kv_cache_utils.py``.
    """
    need = _whole_chunks(need)
    memory = need.hardware.server_memory_bytes
    drafts = np.asarray(verify_len, dtype=np.float64) - 1.0
    usual, _ = batch_defaults(need.hardware, need.facts)
    tokens = pass_tokens(server.chunk, need.hardware, need.facts, need.model.positions)
    asked = {"tokens": tokens, "running": server.running or usual}
    place = need.placement
    devices = place.group_size if need.facts.dense_in_groups else place.tensor_parallel
    peak = activation_bytes(need.model, devices=devices, **asked)
    graphs = _graph_bytes(stated_capture(server.stated.capture, need), need, drafts + 1.0, **asked)
    reserved = (1 - server.memory_frac) * memory + peak + graphs
    pool = memory - reserved - need.weight_bytes
    block, padded = _block_tokens(server, need)
    facts = need.facts.memory
    replays = need.replays and bool(facts.replay_tokens)
    copied = np.zeros_like(drafts) if replays else drafts
    copies = state_blocks(copied)
    shape = np.broadcast_shapes(context_len.shape, drafts.shape)
    states = np.broadcast_to(_padding(need)[2] * padded * copies, shape)
    if _is_packed(need):
        states = np.zeros(shape)
    elif not need.target.n_recurrent:
        states = np.full(shape, need.target.state_bytes)
    elif replays:
        buffer = facts.replay_tokens if "mamba2" in need.model.kernels else 0
        states = states + need.target.replay_bytes * (drafts + 1.0 + buffer)
    # A verification has slots for its drafts, and the drafter's are beyond them; at least one token
    # of a request is cached, behind no context the first that a pass reads.
    held = np.maximum(context_len, 1.0) + drafts + _lookahead(need, drafts)
    cache = np.broadcast_to(_cached_bytes(need, held, block), shape)
    limits = {"cache": pool / (cache + states)}
    more = np.zeros(shape)
    if need.target.windows or _is_packed(need):
        more = np.maximum(_admitted_bytes(server, need, context_len, block) - cache, 0.0)
        limits["prompts"] = (pool - more) / (cache + states)
    limits["running"] = np.full(shape, float(asked["running"]))
    # Requests beyond the tokens of a pass wait for those that came before them.
    taken = drafts + 1.0 + input_slots(need.facts, need.kind or "", drafts)
    if need.kind in facts.limiting_kinds:
        taken = np.maximum(taken, _lookahead(need, drafts))
    scheduled = np.floor(asked["tokens"] / taken)
    if need.kind in facts.limiting_kinds or (scheduled < asked["running"]).any():
        limits["drafted tokens"] = np.broadcast_to(scheduled, shape)
    return MemoryPlan(
        memory_bytes=memory,
        reserved_bytes=reserved,
        state_pool_bytes=np.zeros(shape),
        cache_pool_bytes=np.broadcast_to(pool, shape),
        state_bytes=states,
        cache_bytes=cache,
        limits=limits,
        short_bytes=np.maximum(cache + states + more - pool, 0.0),
        most_started=_most_started(server, need, float(np.min(pool)), padded),
    )
