"""Servers with a pool for each kind of cache: what those hold, and how many requests run.

The figures of a release are in its file; each function names the file (below ``srt/``) and the
function of SGLang 0.5.23 that it follows.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from specroof.architecture.base import LATENT_KERNELS
from specroof.architecture.compressed import window_and_rings
from specroof.architecture.model import Architecture, VisionTower
from specroof.arrays import Array, distinct
from specroof.frameworks import PoolRelease
from specroof.hardware.engine import Server, ServerSettings
from specroof.serving.room import MemoryPlan, MemoryRequest, ServerSite
from specroof.units import GIBIBYTE, MEBIBYTE, dtype_bytes

# --- What is kept away from the pools: chunks, captured graphs, images ----------------------------


def memory_defaults(memory_mib: float, tensor_parallel: int, facts: PoolRelease) -> tuple[int, int]:
    """Return tokens of a prefill chunk and the largest captured batch of sequences.

    Source
        ``arg_groups/memory_hook.py``, ``handle_gpu_memory_settings``.

    Examples
    --------
    >>> from specroof.frameworks import release
    >>> facts = release("sglang")
    >>> memory_defaults(46068, 1, facts), memory_defaults(143771, 8, facts)
    ((4096, 32), (8192, 512))
    """
    limits, gib = facts.limits, memory_mib * MEBIBYTE / GIBIBYTE
    limit = next(limit for limit in limits.by_memory if gib >= limit.least_gib)
    few = tensor_parallel < limits.spread_from_devices
    return limit.tokens, limit.captured if few else limit.captured_spread


def captured_sizes(most: int, facts: PoolRelease, *, drafting: bool) -> list[int]:
    """Return the batch sizes, in sequences, for which decoding is captured.

    Source
        ``arg_groups/cuda_graph_hook.py``, ``generate_decode_cuda_graph_batch_sizes``.

    Examples
    --------
    >>> from specroof.frameworks import release
    >>> captured_sizes(20, release("sglang"), drafting=False)
    [1, 2, 4, 8, 12, 16, 20]
    >>> captured_sizes(12, release("sglang"), drafting=True)
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
    """
    captured = facts.captured
    sizes = (captured.drafting if drafting else captured.plain).up_to(most)
    return sizes if most in {0, *sizes} or not captured.largest else [*sizes, most]


def reserve_mib(  # noqa: PLR0913 - figures by name
    release: PoolRelease,
    *,
    memory_mib: float,
    chunk: int,
    capture: int,
    tensor_parallel: int = 1,
    prefill_graphs_mib: float = 0.0,
    ranks: int = 1,
) -> float:
    """Return the MiB that are kept for activations and captured graphs.

    Parameters
    ----------
    release
        Whose facts count.
    memory_mib
        Of the device.
    chunk, capture
        Tokens of a chunk, and the largest captured batch.
    tensor_parallel
        Devices.
    prefill_graphs_mib
        8 for each captured prefill; 1536 with latent attention; 0 where none is captured.
    ranks
        Groups of devices with separate sequences.

    Source
        ``arg_groups/memory_hook.py``, ``handle_gpu_memory_settings``, ``reserve_for_graph_mb``.

    Examples
    --------
    Qwen3.5-9B on an L40S, no prefill captured: 512 + 6144 + 128 + 64.

    >>> from specroof.frameworks import release
    >>> reserve_mib(release("sglang"), memory_mib=46068, chunk=4096, capture=32)
    6848.0

    Two groups, of which each keeps as much again for every batch: 32 * 2 * 3 more.

    >>> reserve_mib(release("sglang"), memory_mib=46068, chunk=4096, capture=32, ranks=2)
    7040.0
    """
    facts = release.memory
    tokens = max(chunk or facts.whole_prompt_tokens, facts.least_tokens)
    graphs = facts.graph_mib * capture + prefill_graphs_mib
    if ranks > 1:
        is_large = capture > facts.large_graph
        each = facts.large_group_graph_mib if is_large else facts.group_graph_mib
        graphs += capture * ranks * each
    parallel = facts.device_mib * tensor_parallel
    reserve = facts.base_mib + facts.token_mib * tokens + parallel + graphs
    is_floored = memory_mib * MEBIBYTE > facts.floor_from_gib * GIBIBYTE
    return max(reserve, facts.floor_mib) if is_floored else reserve


def vision_factor(tower: VisionTower, release: PoolRelease, family: str = "") -> float:
    """Return what is left of the memory share where a vision tower reads images.

    Source
        ``arg_groups/memory_hook.py``, ``adjust_mem_fraction_for_vlm``.

    Examples
    --------
    >>> from specroof.frameworks import release
    >>> tower = VisionTower(hidden_size=1152)
    >>> round(vision_factor(tower, release("sglang")), 3)  # 0.95 * (1 - 0.1 * 0.266)
    0.925
    """
    facts = release.memory.vision
    if family.startswith(facts.unsized_families):
        tower = VisionTower()
    size = (tower.n_layers or facts.n_layers) * (tower.hidden_size or facts.hidden_size) ** 2
    ratio = size / (facts.n_layers * facts.hidden_size**2)
    return facts.share * max(facts.least, min(facts.most, 1 - facts.slope * (ratio - 1)))


#: What the CUDA context takes before weights are loaded, and buffers for each other device of a
#: group on one board: servers on H100 log 78.8 (alone) to 77.4 GiB (of eight) free of 79.19.
#: Assumed alike on other chips, and to grow with the devices in between.
_CONTEXT_BYTES: Final = 0.4 * GIBIBYTE
_PEER_BYTES: Final = 0.2 * GIBIBYTE
_BOARD: Final = 8


def _reads_images(model: Architecture, facts: PoolRelease) -> bool:
    return model.vision is not None and not model.family.startswith(facts.memory.text_families)


def _attention_share(place: ServerSite) -> float:
    """Return what attention leaves of the static memory, also of one that the user gave.

    Ignores
        models of at most 8192 tokens, which keep all of it.
    Source
        ``arg_groups/attention_hook.py``, ``handle_attention_backend_compatibility``;
        ``arg_groups/model_override_base.py``, for the backend of ROCm.
    """
    model, devices, facts = place.model, place.placement.tensor_parallel, place.facts.memory
    share: float = facts.attention_share.get(place.hardware.vendor or "", 1.0)
    if "compressed" in model.kernels or model.family.startswith(facts.whole_share_families):
        return 1.0
    heads = {
        core.heads.n_heads / devices if core.kernel == "latent" else 0.0
        for _, core in model.counted_cores
        if core.kernel in LATENT_KERNELS
    }
    return share if heads <= {*facts.latent_share_heads} else 1.0


def _is_uncaptured(place: ServerSite) -> bool:
    """Return whether prefills are not captured, images aside.

    Source
        ``arg_groups/cuda_graph_hook.py``, ``apply_cuda_graph_compatibility`` and
        ``disable_breakable_cudagraph_if_incompatible``; ``model_executor/cuda_graph_config.py``,
        ``default_prefill_backend``.
    """
    facts, model = place.facts.memory, place.model
    if place.hardware.vendor in facts.uncaptured_vendors:
        return True
    if any(getattr(place.placement, degree) > 1 for degree in facts.uncaptured_degrees):
        return True
    hidden = not model.kernels.isdisjoint(facts.uncaptured_kernels)
    return hidden and not model.family.startswith(facts.captured_families)


def resolve(user_settings: ServerSettings, place: ServerSite, verify_len: int = 1) -> Server:
    """Fill the settings that the user left open with the defaults of the release.

    A worker that decodes alone keeps no cache of prefixes and, in releases that know it for one,
    memory for its rounds in the place of chunks, captured prefills and images.

    Source
        ``arg_groups/memory_hook.py``, ``handle_gpu_memory_settings``; ``attention_hook.py``;
        ``pd_disaggregation_hook.py``, ``handle_pd_disaggregation``; ``overrides.py``,
        ``_mamba_radix_cache_resolution``; for
        the requests that run ``deepseek_v4_hook.py``, ``apply_deepseek_v4_defaults``, which comes
        first, and ``speculative_hook.py``, ``_handle_dflash`` and those beside it; for captured
        prefills ``cuda_graph_hook.py``, ``disable_breakable_cudagraph_if_incompatible``, and
        ``memory_hook.py``, ``reserve_for_graph_mb``.
    """
    # Where no setting says how many requests run, and None is said here, memory decides.
    facts: PoolRelease = place.facts
    synchronous = facts.memory.synchronous_kinds if user_settings.overlap is None else ()
    running = None if place.kind is None else facts.limits.drafting_running
    if "compressed" in place.model.kernels:
        running = facts.limits.compressed_running
    memory_mib = place.hardware.server_memory_bytes / MEBIBYTE
    chunk, capture = memory_defaults(memory_mib, place.placement.tensor_parallel, facts)
    server = place.server(
        user_settings,
        memory_frac=0.0,
        running=running,
        # Lowered to the requests that run only where the user gave those.
        capture=min(capture, user_settings.running or capture),
        overlap=(facts.pipeline_overlaps or place.placement.pipeline_parallel == 1)
        and place.kind not in synchronous,
        chunk=chunk,
        mixed=False,
        prefix_cache=not place.decodes_only,
        synchronous=synchronous,
    )
    if server.prefix_cache and place.model.family in facts.memory.unbuffered_families:
        server = replace(server, overlap=False)
    share = user_settings.memory_frac
    if not share:
        # `reserve_for_graph_mb`; `disable_breakable_cudagraph_if_incompatible`.
        sizes = facts.captured.prefill.up_to(server.chunk)
        graphs_mib = facts.memory.prefill_graph_mib * len(sizes)
        if not LATENT_KERNELS.isdisjoint(place.model.kernels):
            graphs_mib = facts.memory.latent_prefill_mib
        decodes = place.decodes_only and facts.memory.decoding_workers
        reads_images = _reads_images(place.model, facts) and not decodes
        uncaptured = reads_images and not place.model.family.startswith(
            facts.memory.captured_towers
        )
        if uncaptured or place.decodes_only or _is_uncaptured(place):
            graphs_mib = 0.0
        # Older releases keep memory for graphs of more requests than the user lets run, too.
        kept = server.capture
        if not facts.memory.running_graphs and user_settings.capture is None:
            kept = capture
        positions = user_settings.running or server.capture or 1
        positions *= 1 if place.kind in facts.memory.block_told_kinds else verify_len
        reserve = reserve_mib(
            facts,
            memory_mib=memory_mib,
            chunk=positions if decodes else server.chunk,
            capture=kept,
            tensor_parallel=place.placement.devices,
            prefill_graphs_mib=graphs_mib,
            ranks=place.ranks,
        )
        reserve += facts.memory.drafter_mib.get(place.kind or "", 0.0)
        share = max(round((memory_mib - reserve) / memory_mib, 3), 0.0)
        if place.model.vision is not None and reads_images:
            share *= vision_factor(place.model.vision, facts, place.model.family)
    may_mix = place.kind not in facts.memory.never_mixed_kinds
    return replace(
        server, memory_frac=share * _attention_share(place), mixed=server.mixed and may_mix
    )


def state_ratio(server: Server, release: PoolRelease) -> int:
    """Return the slots of recurrent state that each running request has.

    Three, and tracking slots: two with overlap, in releases that track. Without overlap the cache
    of prefixes keeps no buffer, and three are all.

    Source
        ``mem_cache/kv_cache_configurator.py``, ``_calculate_mamba_ratio``;
        ``arg_groups/overrides.py``, ``_mamba_radix_cache_resolution``.
    """
    if not server.prefix_cache:
        return 1
    facts = release.memory
    return facts.state_slots + (facts.tracking_slots if server.overlap else 0)


def state_pool(  # noqa: PLR0913 - figures by name
    server: Server,
    release: PoolRelease,
    rest_bytes: Array | float,
    state_bytes: float,
    draft_tokens: Array,
    *,
    ranks: int = 1,
    fixed_bytes: float = 0.0,
) -> tuple[Array, Array, Array]:
    r"""Return the bytes that states and their copies take, the slots, and requests they allow.

    One slot is for padding; where copies come out of the same pool of P bytes,

    .. math:: K = \left\lfloor \frac{P - s (1 + q)}{s (1 + q / \rho)} \right\rfloor

    with s bytes of a state, q positions of a verification and :math:`\rho` slots of a request.

    Parameters
    ----------
    server
        Its overlap, cache of prefixes and running requests.
    release
        Whose facts count.
    rest_bytes
        What weights leave of the static memory.
    state_bytes
        One state of one sequence.
    draft_tokens
        Positions of a verification; 0 for plain decoding.
    ranks
        Groups of devices, each with separate sequences.
    fixed_bytes
        What replays the states of all running requests.

    Source
        ``mem_cache/kv_cache_configurator.py``, ``_handle_max_mamba_cache``.
    """
    ratio, facts = state_ratio(server, release), release.memory
    running = np.inf if server.running is None else max(1, server.running // ranks)
    if not server.prefix_cache and server.running is not None:
        slots = np.full(draft_tokens.shape, float(running))
        taken = state_bytes * (slots + 1) * (1 + draft_tokens) + fixed_bytes
        return taken, slots, np.full_like(slots, np.inf)  # as many as may run
    share = facts.state_share
    if facts.copies_first and np.isfinite(running):
        copies = state_bytes * (running + 1) * draft_tokens + fixed_bytes
        left = (rest_bytes - copies) * share / (1 + share)
        slots = np.floor(left / state_bytes) - 1
        return copies + state_bytes * (slots + 1), slots, np.floor(slots / ratio)
    left = rest_bytes * share / (1 + share) - fixed_bytes - state_bytes * (1 + draft_tokens)
    slots = np.floor(left / (state_bytes * (1 + draft_tokens / ratio)))
    requests = np.floor(slots / ratio)
    # Copies of the drafts are kept for the requests that run, and for one of padding.
    copied = np.minimum(running, requests) + 1
    taken = state_bytes * (copied * draft_tokens + slots + 1) + fixed_bytes
    return taken, slots, requests


def _replay_bytes(need: MemoryRequest) -> tuple[float, float]:
    """Return the bytes that replay the states of a slot, and of a running request.

    Both are 0 where a verification keeps copies of the state: SGLang replays those of Gated
    DeltaNet and Kimi alone.

    Counts
        16 tokens; of Gated DeltaNet keys and updates, both in two parts, and a decay; of Kimi's
        keys and values before and after, decays of every channel, and beta.
    Ignores
        trees, for which SGLang refuses to replay, and that it keeps the state in float32 then.
    Source
        ``configs/mamba_utils.py``, ``replayssm_ring_bytes_per_req``;
        ``mem_cache/kv_cache_configurator.py``, ``_handle_max_mamba_cache``.
    """
    if not need.replays:
        return 0.0, 0.0
    width, full = dtype_bytes(need.model.activation_dtype), dtype_bytes("fp32")
    slot = request = 0.0
    for count, core in need.model.counted_cores:
        inputs, gates = core.replayed
        if core.kernel == "delta_net":
            parts = 1 if width == full else 2
            request += count * (parts * inputs * width + gates // 2 * full)
        elif core.kernel == "kimi_delta":
            slot += count * (2 * inputs * width + gates * full)
    ways = need.placement.tensor_parallel // need.ranks
    tokens = need.facts.memory.replay_tokens
    return slot * tokens / ways, request * tokens / ways


def _static_frac(server: Server, need: MemoryRequest, verify_len: Array) -> Array:
    """Return the share of the memory, for each number of positions of a verification.

    A worker that decodes alone keeps memory for those that it is told of.
    """
    found = np.full(verify_len.shape, server.memory_frac)
    if need.kind is not None and need.decodes_only:
        for positions in distinct(verify_len):
            told = resolve(server.stated, need, int(np.ceil(positions)))
            found[verify_len == positions] = told.memory_frac
    return found


def room(server: Server, need: MemoryRequest, context_len: Array, verify_len: Array) -> MemoryPlan:
    """Return the room for requests of `context_len`; `verify_len` is 1 for plain decoding.

    Counts
        tokens of drafts that are allocated ahead; windows in a separate pool; padding slots.
    Ignores
        pages of more than one token but those of DeepSeek-V4; that a pool of more than four whole
        model contexts allows up to 4096 requests where no setting says how many run.
    Source
        ``mem_cache/kv_cache_configurator.py``, ``_profile_available_bytes``,
        ``resolve_max_num_reqs``; ``model_executor/pool_configurator.py``;
        ``mem_cache/allocation_sizing.py``, ``get_alloc_reserve_per_decode``.
    """
    memory = need.hardware.server_memory_bytes
    # The static share is of `pre_model_load_memory`: free before weights are loaded, and measured
    # once the group's collectives are set up.
    peers = min(need.placement.devices, _BOARD) - 1
    free = memory - _CONTEXT_BYTES - peers * _PEER_BYTES
    facts: PoolRelease = need.facts
    reads_images = _reads_images(need.model, facts)
    images = facts.memory.image_cache_mib * MEBIBYTE if reads_images else 0.0
    shape = np.broadcast_shapes(context_len.shape, verify_len.shape)
    verify = np.broadcast_to(verify_len, shape)
    static = _static_frac(server, need, verify)
    rest = static * free - need.weight_bytes - images
    # Tokens that are allocated ahead of a step: `get_alloc_reserve_per_decode`.
    ahead = verify * (2 if need.kind is not None and server.overlap else 1)
    held = context_len + ahead
    replay_slot, replay_request = _replay_bytes(need)
    replayed = replay_slot + replay_request > 0
    copies = np.zeros(shape) if need.kind is None or replayed else verify
    states = np.zeros(shape)
    limits: dict[str, Array] = {}
    # Requests that one group runs by setting; if none, what SGLang takes at least.
    most = float(facts.memory.fewest_running)
    if server.running is not None:
        most = max(1.0, float(server.running // need.ranks))
    recurrent = bool(need.target.n_recurrent)
    own = need.target.state_bytes + replay_slot if recurrent else 0.0
    fixed = replay_request * (most + 1)
    if recurrent:
        states, _, limits["state"] = state_pool(
            server, facts, rest, own, copies, ranks=need.ranks, fixed_bytes=fixed
        )
    caches, needed = np.asarray(rest - states), None
    if "compressed" in need.model.kernels:
        one, of_pools, needed = _compressed(
            need, caches, most=most, held=held, verify=verify, ahead=ahead
        )
        limits |= of_pools
    elif not need.target.by_token:
        one = need.stored_bytes(held) - (need.target.state_bytes if recurrent else 0.0)
        limits["cache"] = caches / one
    else:
        # Tokens are dropped in steps, a page behind the longest window: the pool has one.
        behind = max(need.target.windows, default=0) + facts.memory.eviction_tokens * verify
        behind = behind + facts.memory.page_tokens + ahead
        one, of_pools = _cached(server, need, caches, most=most, held=held, behind=behind)
        limits |= of_pools
    limits["running"] = np.full(shape, most)
    # What one request needs: its slots, those of padding, copies of both, its cache.
    least = one if needed is None else needed
    ratio, share = state_ratio(server, facts), facts.memory.state_share
    if recurrent and not server.prefix_cache and server.running is not None:
        least = own * (most + 1) * (1 + copies) + one + fixed
    elif recurrent:
        slots = own * (ratio * (1 + copies / ratio) + 1 + copies) + fixed
        least = np.maximum(slots * (1 + 1 / share), slots + one)
    return MemoryPlan(
        memory_bytes=memory,
        reserved_bytes=memory - static * free + images,
        state_pool_bytes=states,
        cache_pool_bytes=caches,
        state_bytes=np.asarray(own * (ratio + copies) + replay_request),
        cache_bytes=one,
        limits=limits,
        short_bytes=np.maximum(least - rest, 0.0),
    )


def _compressed(
    need: MemoryRequest,
    pool_bytes: Array,
    *,
    most: float,
    held: Array,
    verify: Array,
    ahead: Array,
) -> tuple[Array, dict[str, Array], Array]:
    """Return the bytes of a request's tokens in DeepSeek-V4's pools, and the requests they allow.

    The last are the bytes of pools that hold one request.


    Windows have a tenth of the tokens of the compressed entries, and for each page of them the
    rings of layers that merge four tokens; rings of those that merge 128 are of each request that
    may run. All of it grows by a layer where a server drafts, and rings are twice as long.

    Source
        ``model_executor/pool_configurator.py``, ``DSV4PoolConfigurator``;
        ``mem_cache/deepseek_v4_memory_pool.py``, ``get_compress_state_ring_size``.
    """
    target, facts, drafts = need.target, need.facts.memory, need.kind is not None
    window, of_pages, of_requests = window_and_rings(
        need.model.counted_cores, facts.compressed_page_ratio
    )
    longer = 2 if drafts else 1
    none, some = target.sequence_bytes(np.array([0.0, window])).tolist()
    layers = need.model.n_layers
    grown = (layers + 1) / layers if drafts else 1.0
    whole = grown * target.token_bytes
    row = (some - none) / window - target.token_bytes
    part = grown * (row + longer * of_pages / facts.compressed_page)
    fixed = longer * of_requests
    share = facts.compressed_share
    left = np.maximum(pool_bytes - fixed * (most + 2), 0.0)
    tokens = np.floor(left / (whole + share * part))
    behind = window + facts.eviction_tokens * verify + facts.compressed_page + ahead
    kept = np.minimum(held, behind)
    limits = {
        "cache": np.minimum(tokens / held, np.floor(tokens / 2)),
        "windows": np.floor(share * tokens) / kept,
    }
    least = np.maximum(held, kept / share) * (whole + share * part) + fixed * (most + 2)
    return np.asarray(whole * held + part * kept + fixed), limits, np.asarray(least)


def _cached(
    server: Server,
    need: MemoryRequest,
    pool_bytes: Array,
    *,
    most: float,
    held: Array,
    behind: Array,
) -> tuple[Array, dict[str, Array]]:
    """Return the bytes of a request's tokens, and the requests that each pool allows.

    `most` requests run by setting, each with `held` tokens, of which a window keeps `behind`.

    Source
        ``model_executor/pool_configurator.py``, ``DefaultPoolConfigurator``,
        ``HybridSWAPoolConfigurator`` (windows have 0.8 tokens for each token of the others) and
        ``compute_swa_request_cap``.
    """
    # Bytes of a token in layers of the whole context, and in those of a window.
    whole, part = need.target.token_bytes, need.target.window_token_bytes
    layers = need.target.n_cached
    facts = need.facts.memory
    if not need.model.family.startswith(facts.window_families):
        whole, part, layers = whole + part, 0.0, layers + need.target.n_windowed
    draft = need.draft
    if draft is not None and need.kind in facts.target_cell_kinds and layers:
        # Layers of the drafter are as wide, and each device caches the whole context in them.
        spread = need.placement.decode_context_parallel
        whole *= 1 + spread * draft.n_cached / layers
    elif draft is not None:
        whole = whole + draft.token_bytes + draft.window_token_bytes
    kept = np.minimum(held, behind)
    limits: dict[str, Array] = {}
    sized_by_requests = server.running is not None and not server.prefix_cache
    if part and whole and sized_by_requests and (server.chunk or need.decodes_only):
        chunk = server.chunk // need.ranks  # `handle_data_parallelism`
        in_flight = (2 if server.overlap else 1) * chunk + facts.page_tokens
        in_flight = 0 if need.decodes_only else in_flight
        windows = part * (most * behind + in_flight)
        tokens = np.floor((pool_bytes - windows) / whole)
    elif not part and not whole:
        # Recurrent layers alone cache no token: a pool that is there holds any number.
        tokens = np.where(pool_bytes < 0, 0.0, np.inf)
    elif part and whole:
        tokens = np.floor(pool_bytes / (whole + facts.window_share * part))
        limits["windows"] = np.floor(facts.window_share * tokens) / kept
    else:
        tokens = np.floor(pool_bytes / (whole + part))
    limits = {"cache": np.minimum(tokens / held, np.floor(tokens / 2)), **limits}
    return np.asarray(whole * held + part * kept), limits
