"""Where passes run: one chip, an engine, a placement and the formulas; built once, passed whole.

With it goes how the server's kernels read the cache in a verification, and where a drafter runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.architecture.base import (
    KERNELS,
    LATENT_KERNELS,
    MIXES_BY_FILE,
    WEIGHT_FORMATS,
    WEIGHT_MIXES,
    CacheReading,
    Core,
    Linear,
)
from specroof.architecture.model import Architecture
from specroof.arrays import Array
from specroof.cost import Options, Shard, Storage, stored_as
from specroof.errors import refuse, reject
from specroof.frameworks import STAND_IN, Release, known_releases, release, those_where
from specroof.hardware.engine import EngineProfile, Server, ServerSettings
from specroof.hardware.profile import HardwareProfile, Placement


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a pass runs and which formulas count it.

    Parameters
    ----------
    hardware
        One device.
    engine
        What an engine reaches of it, and loses around it.
    placement
        Over how many devices, and how.
    options
        Granularity and the other choices.
    server
        Settings of the server; None for a prediction without a server.
    decodes_only
        Whether other workers compute the prompts.
    on_host
        Whether the CPU beside the chip computes all of a pass.
    """

    hardware: HardwareProfile
    engine: EngineProfile
    placement: Placement
    options: Options
    server: Server | None = None
    decodes_only: bool = False
    on_host: bool = False

    @property
    def user_settings(self) -> ServerSettings:
        """Settings of the server that the user gave."""
        return ServerSettings() if self.server is None else self.server.stated

    @property
    def passes_in_flight(self) -> int:
        """Passes over other sequences that are in the stages of a pipeline at a time."""
        return 1 if self.release.stages_take_turns else self.placement.pipeline_parallel

    @property
    def release(self) -> Release:
        """What is known of the server whose rules count, in its version; else of its newest."""
        rules, server = self.engine.rules, self.server
        version = "" if server is None or server.framework != rules else server.version
        return release(f"{rules}@{version}" if version else rules)


def release_in(setup: Setup, framework: str) -> str:
    """Return the name of a server's release: that whose rules a setup has, else the newest.

    Parameters
    ----------
    setup
        Within a server, or not.
    framework
        Any server software, also without files.

    Source
        The names of the files in `specroof.frameworks`.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> setup = engine_setup(load_hardware("h100"), "vllm", None, None)
    >>> release_in(setup, "vllm"), release_in(setup, "sglang"), release_in(setup, "ollama")
    ('vllm@0.33.0', 'sglang@0.5.23', 'ollama')
    """
    if framework == setup.engine.rules:
        version = setup.release.version
    else:
        version = next(iter(known_releases(framework)), "")
    return f"{framework}@{version}" if version else framework


def engine_setup(
    hardware: HardwareProfile,
    engine: str | None,
    placement: Placement | None,
    options: Options | None,
) -> Setup:
    """Return where passes run, with the defaults of the engine for what is None.

    Raises
    ------
    OptionError
        If the profile has no such engine, no node holds the placement, its server reads no files
        with such weights, or experts are to be computed by a CPU that is not named, or in an
        engine that cannot.

    Source
        The choices of this library: one device, as few nodes as the links allow, the defaults of
        `Options`, and the way in which an engine keeps recurrent state.

    Examples
    --------
    >>> from specroof.hardware.profile import Peak
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> engine_setup(chip, None, None, None).placement.devices
    1
    """
    profile = hardware.engine(engine)
    chosen = options or Options()
    if chosen.recurrent_state is None and profile.recurrent_state is not None:
        chosen = replace(chosen, recurrent_state=profile.recurrent_state)
    facts, weights = release(profile.rules), chosen.weight_dtype
    readable = MIXES_BY_FILE.get(facts.files, WEIGHT_MIXES)
    if weights in WEIGHT_MIXES and weights not in readable:
        refuse("weight_dtype", weights, f"{', '.join(readable)}, with {facts.title}")
    if chosen.n_cpu_moe:
        expect_host(f"n_cpu_moe is {chosen.n_cpu_moe}", hardware, profile.name, facts)
    place, link = placement or Placement(), hardware.interconnect
    most = place.devices if link is None else link.max_devices
    return Setup(hardware, profile, place.in_nodes(most), chosen)


def expect_host(asked: str, hardware: HardwareProfile, engine: str, facts: Release) -> None:
    """Refuse work for a CPU where none is named beside the chip, or the engine cannot use one.

    Raises
    ------
    OptionError
        With what was `asked`.

    Source
        The file of the release.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> expect_host("device is cpu", load_hardware("h100"), "vllm", release("vllm"))
    Traceback (most recent call last):
    specroof.errors.OptionError: device is cpu with engine vllm; allowed: llama.cpp or ideal
    """
    if not facts.uses_host:
        reject(f"{asked} with engine {engine}", those_where(lambda one: one.uses_host))
    if hardware.host is None:
        reject(
            f"{asked}, and no CPU is named beside {hardware.name}",
            "hardware as CHIP+CPU, as in CHIP+cpu-2ch-ddr5",
        )


def drafting_engine(engine: EngineProfile) -> EngineProfile:
    """Return what an engine reaches in the passes of a drafter.

    Source
        What is read again is a few accepted positions, no prompt; vLLM and SGLang launch a
        drafter's passes without scheduling sequences around them, so that no host is waited for.

    Examples
    --------
    >>> engine = EngineProfile(name="e", pass_overhead_s=2.0, draft_pass_overhead_s=0.5)
    >>> drafting_engine(engine).pass_overhead_s
    0.5
    """
    bare = replace(engine, graphs=None, prefill_compute_frac={}, overlap=True)
    if engine.draft_pass_overhead_s is None:
        return bare
    return replace(bare, pass_overhead_s=engine.draft_pass_overhead_s, sequence_overhead_s=0.0)


def check_placement(model: Architecture, placement: Placement) -> None:
    """Refuse a placement that does not divide every layer, or has no layers or experts to divide.

    Raises
    ------
    OptionError
        With the numbers.

    Source
        vLLM and SGLang refuse tensor parallelism that does not divide the query heads: a head is
        computed on one device. KV heads divide, or are repeated whole: vLLM
        ``model_executor/layers/linear.py``, ``QKVParallelLinear``, and ``models/qwen2.py``.
        Experts: ``config/model.py``, ``verify_with_parallel_config``. Decode context parallelism:
        `check_spread_context`. Stages need not divide the layers (``get_pp_indices`` of both).

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> attention = GroupedQueryAttention(4, n_kv_heads=2, head_dim=8, value_dim=8)
    >>> layer = Layer((Block("attention", (), attention),))
    >>> toy = Architecture("toy", "llama", 8, 9, (layer,), Linear("lm_head", 8, 9))
    >>> check_placement(toy, Placement(tensor_parallel=2))  # two heads on each of two devices
    """
    group = placement.tensor_parallel // placement.attention_data_parallel
    if placement.pipeline_parallel > model.n_layers:
        reject(
            f"pipeline_parallel is {placement.pipeline_parallel}, and {model.name} has "
            f"{model.n_layers} layers",
            f"from 1 to {model.n_layers}",
        )
    if placement.decode_context_parallel > 1:
        check_spread_context(model, placement)
    if placement.expert_parallel > 1 and not model.has_experts:
        reject(f"expert_parallel is {placement.expert_parallel}, and {model.name} is dense", "1")
    for _, core in model.counted_cores:
        heads, shared, _ = core.heads
        if heads % group or (shared % group and group % shared):
            divisors = (n for n in range(1, heads + 1) if heads % n == 0)
            allowed = [str(n) for n in divisors if shared % n == 0 or n % shared == 0]
            reject(
                f"tensor_parallel is {placement.tensor_parallel} with attention_data_parallel "
                f"{placement.attention_data_parallel}: groups of {group} devices do not divide "
                f"the {heads} query heads and {shared} KV heads of {model.name}",
                f"groups of {', '.join(allowed)}",
            )


#: Kernels whose cache frameworks spread over devices.
_SPREAD: Final = {"heads", *LATENT_KERNELS}


def check_spread_context(model: Architecture, placement: Placement) -> None:
    """Refuse decode context parallelism that frameworks refuse, or that was not read in any.

    Raises
    ------
    OptionError
        With the layer, and the sizes that are allowed.

    Source
        vLLM 0.33.0 ``config/model.py``, ``verify_with_parallel_config`` (devices that would repeat
        a KV head, and query heads of each), and ``v1/kv_cache_interface.py``,
        ``SlidingWindowSpec`` (no windows, DeepSeek-V4's among them); SGLang 0.5.23
        ``configs/model_config.py``, ``get_num_kv_heads``, and ``arg_groups/deepseek_v4_hook.py``.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.latent import LatentAttention
    >>> from specroof.architecture.model import Block, Layer
    >>> core = LatentAttention(8, latent_dim=512, rope_dim=64)
    >>> layer = Layer((Block("attention", (), core),))
    >>> toy = Architecture("toy", "deepseek_v3", 8, 9, (layer,), Linear("lm_head", 8, 9))
    >>> check_spread_context(toy, Placement(8, decode_context_parallel=8))
    """
    asked, group = placement.decode_context_parallel, placement.group_size
    for _, core in model.counted_cores:
        if core.cache_kind == "tokens" and (core.window_len or core.kernel not in _SPREAD):
            reject(
                f"decode_context_parallel is {asked}, and {model.name} has layers of {core.label}: "
                f"no framework that was read spreads their cache",
                "1",
            )
        if core.kernel == "heads":
            n_heads, n_kv_heads, _ = core.heads
            copies, sharing = group // n_kv_heads, n_heads // n_kv_heads
            allowed = [1, *(n for n in range(2, copies + 1) if not (group % n or sharing % n))]
            if asked not in allowed:
                reject(
                    f"decode_context_parallel is {asked}: {group} devices for the "
                    f"{n_kv_heads} KV heads of {model.name}, each with {sharing} query heads",
                    ", ".join(map(str, allowed)),
                )


# --- How work and memory divide over devices ----------------------------------------------------


def ways(shard: Shard, placement: Placement) -> tuple[int, int, int]:
    """Return over how many devices arithmetic, weights and cached bytes are divided.

    Data-parallel attention divides the sequences, and with them arithmetic and cache, and repeats
    the weights in every group. Decode context parallelism divides a cache that devices of a group
    would repeat; arithmetic stays what it is, with more heads and a shorter context on each.

    Source
        Counting.

    Examples
    --------
    >>> ways(Shard("attention", cache_ways=1), Placement(tensor_parallel=8))
    (8, 8, 1)
    >>> ways(Shard("attention", cache_ways=1), Placement(8, decode_context_parallel=4))
    (8, 8, 4)
    """
    groups = placement.attention_data_parallel if shard.group == "attention" else 1
    group_size = placement.tensor_parallel // groups
    cache_ways = shard.cache_ways * placement.decode_context_parallel
    return (
        groups * min(group_size, shard.compute_ways),
        min(group_size, shard.weight_ways),
        groups * min(group_size, cache_ways),
    )


def divided(model: Architecture, setup: Setup) -> Architecture:
    """Return the model with the shards that its server gives dense matrices and the head.

    Where each group of data-parallel attention is a server beside the experts that all share, it
    has them whole, for its own sequences.

    Ignores
        that no tokens are gathered behind dense layers.
    Source
        vLLM 0.33.0 ``model_executor/models/deepseek_v2.py``, ``DeepseekV2MLP``: divided over
        ``--tensor-parallel-size``, which is that of a group.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> model, chip = load_model("Qwen/Qwen3-30B-A3B"), load_hardware("h100")
    >>> for engine in ("vllm", "sglang"):
    ...     setup = engine_setup(chip, engine, Placement(8, attention_data_parallel=8), None)
    ...     divided(model, setup).head.shard.group
    'attention'
    'feed_forward'
    """
    grouped = setup.release.dense_in_groups and setup.placement.attention_data_parallel > 1
    return _in_groups(model) if grouped else model


@lru_cache(maxsize=16)
def _in_groups(model: Architecture) -> Architecture:
    def moved(linear: Linear) -> Linear:
        return replace(linear, shard=replace(linear.shard, group="attention"))

    grouped = model.with_blocks(lambda block: replace(block, linears=(*map(moved, block.linears),)))
    return replace(grouped, head=moved(model.head))


def keeps_input_on_host(setup: Setup) -> bool:
    """Return whether tables that only the input reads lie in a memory beside the chip's.

    Source
        The files of the release and of the chip.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> for chip in ("rtx4090", "ryzen-ai-max-395"):
    ...     keeps_input_on_host(engine_setup(load_hardware(chip), "llama.cpp", None, None))
    True
    False
    """
    return setup.release.input_on_host and not setup.hardware.peak.one_memory


def device_bytes(
    parts: Iterable[Storage], placement: Placement, batch_size: npt.ArrayLike
) -> Array:
    """Return the memory that one device needs for weights and for its share of the sequences.

    Of stages of a pipeline it is the last, which has the head; of devices that experts are dealt
    out to one with most of them, redundant ones included.

    Parameters
    ----------
    parts
        From `specroof.cost.storage`.
    placement
        How weights and caches divide.
    batch_size
        Sequences over all devices.

    Source
        Counting, divided by `ways` as the work of a pass is.

    Examples
    --------
    >>> latent = Storage(8e9, np.array(1e6), Shard("attention", cache_ways=1))
    >>> float(device_bytes([latent], Placement(tensor_parallel=8), 1000)) / 1e9  # 8 / 8 + 1
    2.0
    """
    batch = np.asarray(batch_size, dtype=np.float64)
    total = np.zeros(())
    for part in parts:
        _, weight_ways, cache_ways = ways(part.shard, placement)
        weight_bytes: Array | float = part.weight_bytes / weight_ways
        if part.n_experts:  # the fullest device: where they do not divide, one more than others
            each = -(-part.n_experts // placement.expert_parallel)
            weight_bytes *= each * placement.expert_parallel / part.n_experts
        cache_bytes = batch * part.sequence_bytes / cache_ways
        if placement.pipeline_parallel > 1:
            frac = part.stage_frac(placement.pipeline_parallel)
            weight_bytes, cache_bytes = weight_bytes * frac, cache_bytes * frac
        total = total + weight_bytes + cache_bytes
    return np.asarray(total)


# --- Formats that a server caches in by default: one rule, which times and capacity both read ----

#: Formats of a checkpoint that a default of fp8 takes the place of.
_WIDER: Final = ("bf16", "fp16", "fp32")


def served_options(model: Architecture, setup: Setup) -> Options:
    """Return the options of a setup, with the formats that its server caches in by default.

    What the user chose stays, and so does a format that the checkpoint names. The ideal engine has
    no defaults of its own.

    Parameters
    ----------
    model
        What caches: the served model, or a drafter.
    setup
        Where, and in which engine.

    Counts
        DeepSeek-V4's entries, and under SGLang the cache of Muse Spark, in fp8, on any chip;
        latents of V3.2 and GLM-5 in fp8 where the server's default is; keys of the indexers of
        both in fp8 with a scale, 132 bytes, and fp8 arithmetic on them, whatever the format of the
        cache.
    Ignores
        MXFP4 keys, which vLLM keeps for V4 on CDNA4 with aiter, and NPUs, where SGLang has bf16.
    Source
        Files of releases, ``fp8_caches``; SGLang 0.5.23 ``arg_groups/overrides.py``,
        ``_deepseek_v4_kv_cache_dtype``; ``model_executor/pool_configurator.py``,
        ``_compute_dsa_indexer_cell_size``. vLLM 0.33.0 ``models/deepseek_v4/attention.py``,
        ``_resolve_dsv4_kv_cache_dtype``, with ``nvidia/model.py``, ``_select_dsv4_attn_cls``;
        ``models/deepseek_v32/attention.py`` and ``v1/attention/backends/mla/indexer.py`` (keys).

    Examples
    --------
    >>> from specroof.hardware.engine import EngineProfile
    >>> from specroof.hardware.profile import Peak, Placement
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.compressed import CompressedAttention
    >>> from specroof.architecture.model import Block, Layer
    >>> core = CompressedAttention(128, entry_dim=512, rope_dim=64, window=128, ratio=128)
    >>> layer = Layer((Block("attention", (), core),))
    >>> v4 = Architecture("v4", "deepseek_v4", 8, 9, (layer,), Linear("lm_head", 8, 9))
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> engines = [EngineProfile(name=name) for name in ("vllm", "ideal")]
    >>> setups = [Setup(chip, engine, Placement(), Options()) for engine in engines]
    >>> [served_options(v4, setup).kv_dtype for setup in setups]
    ['fp8', None]
    """
    options, families = setup.options, setup.release.fp8_families
    compressed = "compressed" in model.kernels
    family = model.family.removesuffix("_text")
    if family in families:
        is_open = options.kv_dtype is None and model.kv_dtype in _WIDER
        return replace(options, kv_dtype="fp8") if is_open else options
    if not compressed and "sparse_latent" not in model.kernels:
        return options
    caches = setup.release.fp8_caches
    if caches is None:
        return options
    in_fp8 = compressed or any(
        setup.hardware.compute_major in row.capabilities
        and (not row.families or family in row.families)
        for row in caches
    )
    chosen = options.kv_dtype
    if chosen is None and in_fp8 and model.kv_dtype in _WIDER:
        chosen = "fp8"
    return replace(options, kv_dtype=chosen, index_dtype=options.index_dtype or "fp8")


# --- How kernels read the cache in a verification: by server, attention and chip -----------------

_ONCE: Final = CacheReading()
#: What a user may state: the tiles of FlashAttention 2, and of prompts' kernels on Blackwell.
_STATED: Final = {
    "once": _ONCE,
    "per-position": CacheReading("per-position"),
    "unsplit": CacheReading("unsplit", tile=64),
    "prefill": CacheReading("prefill", tile=128),
}


#: Head width up to which backends of keys and values per head go.
_WIDEST: Final = 256


def attention_reading(model: Architecture, setup: Setup) -> Callable[[Core], CacheReading]:
    """Return how a server's kernels read the cache of a model, as a function of its attention.

    Parameters
    ----------
    model
        The served model, or a drafter.
    setup
        Where, in which engine. What its options say of a verification comes first.

    Counts
        the backend that the framework chooses by default on the chip.
    Ignores
        backends that a user chooses, but for `Options.verify_attention`; adaptive verification;
        kernels that do not split the cache in a plain step either (FlashAttention 4 with heads of
        256, which vLLM takes on Blackwell where heads have several widths).
    Source
        The file of the server's release, ``verification_kernels``.

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Layer
    >>> from specroof.cost import Options
    >>> from specroof.hardware.engine import EngineProfile
    >>> from specroof.hardware.profile import HardwareProfile, Peak, Placement
    >>> peak = Peak(flops_per_s={"bf16": 3e14}, memory_bytes_per_s=2e12, memory_bytes=8e10)
    >>> chip = HardwareProfile(
    ...     format_version=1, name="chip", compute_capability=8.0, sources={}, peak=peak
    ... )
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> model = Architecture("toy", "llama", 8, 9, (Layer(()),), Linear("lm_head", 8, 9))
    >>> for engine in ("vllm", "sglang"):
    ...     setup = Setup(chip, EngineProfile(name=engine), Placement(), Options())
    ...     attention_reading(model, setup)(core).kind
    'unsplit'
    'once'
    """
    stated = setup.options.verify_attention
    chip = setup.hardware
    cores = [core for _, core in model.counted_cores]
    for core in cores:
        if core.kernel not in KERNELS:
            words = ", ".join(KERNELS)
            reject(
                f"kernel of {core.label} is {core.kernel!r}",
                f"{words}, or a new word in KERNELS of specroof/architecture/base.py",
            )
    wide = any(core.kernel == "heads" and core.heads.head_dim > _WIDEST for core in cores)
    kv_dtype = served_options(model, setup).kv_dtype or model.kv_dtype
    narrow_cache = kv_dtype not in {"bf16", "fp16", "fp32"}
    spread = setup.placement.decode_context_parallel > 1
    family = model.family.removesuffix("_text")
    reads_images_of = {family} if model.vision else set()
    rules = [
        rule
        for rule in setup.release.verification_kernels
        if (chip.compute_major in rule.capabilities or chip.vendor in rule.vendors)
        and rule.wide in {None, wide}
        and rule.narrow_cache in {None, narrow_cache}
        and rule.spread in {None, spread}
        and (not rule.families or family in rule.families)
        and (not rule.image_families or reads_images_of & {*rule.image_families})
    ]

    def reading(core: Core) -> CacheReading:
        if (
            stated is not None
            and core.kernel in {"heads", "latent"}
            and setup.engine.rules != "ideal"
        ):
            return _STATED[stated]
        for rule in rules:
            of_kind = core.kernel in rule.kernels and rule.causal in {None, core.causal}
            if of_kind and core.heads.head_dim not in rule.not_head_dims:
                return rule.reading
        return _ONCE

    return (lambda core: replace(reading(core), spread=True)) if spread else reading


_SAID: Final = {
    "per-position": "reads the cache once for each position",
    "unsplit": "does not split the cache of a sequence over the chip",
    "prefill": "runs as a prefill of the whole context",
}


def reading_notes(model: Architecture, setup: Setup) -> Iterator[str]:
    """Yield a note for each way in which a verification reads the cache, but for once.

    Source
        `attention_reading`.

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> from specroof.cost import Options
    >>> from specroof.hardware.engine import EngineProfile
    >>> from specroof.hardware.profile import HardwareProfile, Peak, Placement
    >>> peak = Peak(flops_per_s={"bf16": 3e14}, memory_bytes_per_s=2e12, memory_bytes=8e10)
    >>> chip = HardwareProfile(
    ...     format_version=1, name="chip", compute_capability=8.0, sources={}, peak=peak
    ... )
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> layer = Layer((Block("attention", (), core),))
    >>> model = Architecture("toy", "llama", 8, 9, (layer,), Linear("lm_head", 8, 9))
    >>> list(reading_notes(model, Setup(chip, EngineProfile(name="vllm"), Placement(), Options())))
    ['a verification does not split the cache of a sequence over the chip: full_attention in vllm']
    """
    reading = attention_reading(model, setup)
    labels: dict[tuple[str, tuple[int, ...]], dict[str, None]] = {}
    for _, core in model.counted_cores:
        how = reading(core)
        labels.setdefault((how.kind, how.once_at), {})[core.label] = None
    for kind, said in _SAID.items():
        for (known, once_at), names in labels.items():
            if known == kind:
                most = max(once_at)
                others = [f"{n} or " for n in range(2, most) if n not in once_at]
                where = f" of {''.join(others)}more than {most} positions" if most > 1 else ""
                yield f"a verification{where} {said}: {', '.join(names)} in {setup.engine.rules}"
    if setup.placement.decode_context_parallel == 1:
        return
    name, spread = setup.release.framework, setup.release.spread_context
    kinds = {kind for _, core in model.counted_cores for kind in core.overhead_kinds}
    if spread is None:
        yield f"what {name} exchanges for a spread context was not read; priced as {STAND_IN}'s"
    elif spread.index_keys_whole and kinds & {"sparse_index", "token_index"}:
        yield f"{name} keeps the index keys of a spread context whole on each device; priced as spread"


def draft_placement(model: Architecture, setup: Setup) -> Placement:
    """Return how a drafter is spread over the devices of its target.

    As the target is, but for experts, which a dense drafter has none of, and a context that is
    spread over devices: a drafter caches all of it on each, except one with latent attention under
    vLLM. In a pipeline it runs on the devices of the
    last stage alone, which has the hidden states that it reads and the head.

    Parameters
    ----------
    model
        The drafter's layers.
    setup
        The target's.

    Raises
    ------
    OptionError
        For latents of a block that is not causal on a chip whose vLLM backend cannot spread them.

    Ignores
        AITER on AMD, which can; EAGLE heads of the target's own grouped-query attention, which
        vLLM spreads too; that llama.cpp splits a draft model's layers as its target's, unless it is
        told one device (``common/speculative.cpp``, ``common_base_params_to_speculative``).
    Source
        vLLM 0.33.0 ``v1/worker/gpu/spec_decode/dflash/speculator.py`` (``use_mla``),
        ``v1/worker/gpu/model_runner.py``, ``get_kv_cache_spec``, and ``v1/attention/backend.py``,
        ``supports_non_causal_dcp`` (TRITON_MLA does not); SGLang 0.5.23
        ``mem_cache/kv_cache_configurator.py``, ``loc_space_scale``, and
        ``configs/model_config.py``, ``get_num_kv_heads``. Stages: vLLM ``config/speculative.py``
        (a drafter has one), SGLang ``managers/scheduler.py``, ``maybe_init_draft_worker``.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.latent import LatentAttention
    >>> from specroof.architecture.model import Block, Layer
    >>> from specroof.cost import Options
    >>> from specroof.hardware.engine import EngineProfile
    >>> from specroof.hardware.profile import HardwareProfile, Peak
    >>> core = LatentAttention(8, latent_dim=512, rope_dim=64)
    >>> layer = Layer((Block("attention", (), core),))
    >>> head = Architecture("head", "deepseek_v3", 8, 9, (layer,), Linear("lm_head", 8, 9))
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> place = Placement(8, decode_context_parallel=4)
    >>> for name in ("vllm", "sglang"):
    ...     setup = Setup(chip, EngineProfile(name=name), place, Options())
    ...     draft_placement(head, setup).decode_context_parallel
    4
    1
    """
    placement = setup.placement
    if not model.has_experts:
        placement = replace(placement, expert_parallel=1)
    if placement.pipeline_parallel > 1:
        placement = replace(placement, pipeline_parallel=1, nodes=None)
    if placement.decode_context_parallel == 1:
        return placement
    latent = [core for _, core in model.counted_cores if core.kernel in LATENT_KERNELS]
    facts, spread = setup.release, setup.release.spread_context
    if not latent or spread is None or not spread.draft_latents:
        return replace(placement, decode_context_parallel=1)
    majors = spread.block_capabilities
    if not all(core.causal for core in latent) and setup.hardware.compute_major not in majors:
        where = f", or a chip of compute capability {majors[0]}" if majors else ""
        reject(
            f"decode_context_parallel is {placement.decode_context_parallel}: {facts.title} spreads "
            f"the latents of {model.name}, and has no kernel for its blocks on {setup.hardware.name}",
            f"1{where}",
        )
    return placement


def drafting_setup(model: Architecture, setup: Setup) -> Setup:
    """Return where the passes of a drafter run, for the setup of its target.

    Parameters
    ----------
    model
        The drafter's layers.
    setup
        The target's.

    Source
        `drafting_engine`; a drafter has backends of its own, whatever its target's are.

    Examples
    --------
    >>> from specroof.cost import Options
    >>> from specroof.hardware.engine import IDEAL_ENGINE
    >>> from specroof.hardware.profile import HardwareProfile, Peak, Placement
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(), Options(verify_attention="prefill"))
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Layer
    >>> head = Architecture("head", "llama", 8, 9, (Layer(()),), Linear("lm_head", 8, 9))
    >>> drafting_setup(head, setup).options.verify_attention is None
    True
    """
    return replace(
        setup,
        engine=drafting_engine(setup.engine),
        placement=draft_placement(model, setup),
        options=replace(
            setup.options,
            verify_attention=None,
            n_cpu_moe=0,
            # A file keeps its formats, whatever the target's are.
            weight_dtype=None if model.embedding else setup.options.weight_dtype,
        ),
    )


# --- A model and where it is served --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model and where it is served: the two travel together.

    Parameters
    ----------
    model
        What is served.
    setup
        Where, in which engine, by which formulas.
    """

    model: Architecture
    setup: Setup

    @property
    def weight_bits(self) -> Mapping[str, int]:
        """Formats that projections and experts are counted in, and the bits of a weight."""
        chosen = self.setup.options.weight_dtype
        if chosen in WEIGHT_FORMATS:
            forms = [WEIGHT_FORMATS[chosen]]
        else:
            model = self.model if chosen is None else stored_as(self.model, chosen)
            blocks = [block for _, block in model.counted_blocks]
            forms = [linear.weight for block in blocks for linear in block.linears]
            forms += [block.experts.weight for block in blocks if block.experts]
        # Block scales add less than a bit.
        return {form.name: int(8 * form.element_bytes) for form in forms}

    @property
    def kv_dtype(self) -> str:
        """The dtype that cached keys and values are counted in."""
        return served_options(self.model, self.setup).kv_dtype or self.model.kv_dtype
