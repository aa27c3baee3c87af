"""How a server's kernels read the cache in a verification: by framework, attention and chip."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from specroof.architecture import (
    Architecture,
    CacheReading,
    Core,
)
from specroof.architecture.base import KERNELS, LATENT_KERNELS
from specroof.errors import expect_word, reject
from specroof.frameworks import STAND_IN, Release
from specroof.hardware import Placement
from specroof.latency.setup import Setup, drafting_engine, served_options

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
    >>> from specroof.architecture import GroupedQueryAttention, Layer, Linear
    >>> from specroof.cost import Options
    >>> from specroof.hardware import EngineProfile, HardwareProfile, Peak, Placement
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
        expect_word(f"kernel of {core.label}", core.kernel, KERNELS)
    wide = any(core.kernel == "heads" and core.heads.head_dim > _WIDEST for core in cores)
    kv_dtype = served_options(model, setup).kv_dtype or model.kv_dtype
    narrow_cache = kv_dtype not in {"bf16", "fp16", "fp32"}
    spread = setup.placement.decode_context_parallel > 1
    rules = [
        rule
        for rule in setup.release.verification_kernels
        if (chip.compute_major in rule.capabilities or chip.vendor in rule.vendors)
        and rule.wide in {None, wide}
        and rule.narrow_cache in {None, narrow_cache}
        and rule.spread in {None, spread}
    ]

    def reading(core: Core) -> CacheReading:
        if (
            stated is not None
            and core.kernel in {"heads", "latent"}
            and setup.engine.rules != "ideal"
        ):
            return _STATED[stated]
        for rule in rules:
            if core.kernel in rule.kernels and rule.causal in {None, core.causal}:
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
    >>> from specroof.architecture import Block, GroupedQueryAttention, Layer, Linear
    >>> from specroof.cost import Options
    >>> from specroof.hardware import EngineProfile, HardwareProfile, Peak, Placement
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
    if setup.placement.decode_context_parallel > 1:
        yield from _spread_notes(model, setup.release)


def _spread_notes(model: Architecture, facts: Release) -> Iterator[str]:
    """Yield what is not known of a spread context, or priced otherwise."""
    name, spread = facts.framework, facts.spread_context
    indexed = any("sparse_index" in core.overhead_kinds for _, core in model.counted_cores)
    if spread is None:
        yield f"what {name} exchanges for a spread context was not read; priced as {STAND_IN}'s"
    elif spread.index_keys_whole and indexed:
        yield f"{name} keeps the index keys of a spread context whole on each device; priced as spread"


def draft_placement(model: Architecture, setup: Setup) -> Placement:
    """Return how a drafter is spread over the devices of its target.

    As the target is, but for a context that is spread over devices: a drafter caches all of it on
    each, except one with latent attention under vLLM. In a pipeline it runs on the devices of the
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
        vLLM spreads too.
    Source
        vLLM 0.33.0 ``v1/worker/gpu/spec_decode/dflash/speculator.py`` (``use_mla``),
        ``v1/worker/gpu/model_runner.py``, ``get_kv_cache_spec``, and ``v1/attention/backend.py``,
        ``supports_non_causal_dcp`` (TRITON_MLA does not); SGLang 0.5.23
        ``mem_cache/kv_cache_configurator.py``, ``loc_space_scale``, and
        ``configs/model_config.py``, ``get_num_kv_heads``. Stages: vLLM ``config/speculative.py``
        (a drafter has one), SGLang ``managers/scheduler.py``, ``maybe_init_draft_worker``.

    Examples
    --------
    >>> from specroof.architecture import Block, LatentAttention, Layer, Linear
    >>> from specroof.cost import Options
    >>> from specroof.hardware import EngineProfile, HardwareProfile, Peak
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
    >>> from specroof.hardware import IDEAL_ENGINE, HardwareProfile, Peak, Placement
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(), Options(verify_attention="prefill"))
    >>> from specroof.architecture import Layer, Linear
    >>> head = Architecture("head", "llama", 8, 9, (Layer(()),), Linear("lm_head", 8, 9))
    >>> drafting_setup(head, setup).options.verify_attention is None
    True
    """
    placement = setup.placement
    if placement.decode_context_parallel > 1 or placement.pipeline_parallel > 1:
        placement = draft_placement(model, setup)
    return replace(
        setup,
        engine=drafting_engine(setup.engine),
        placement=placement,
        options=replace(
            setup.options,
            verify_attention=None,
            n_cpu_moe=0,
            # A file keeps its formats, whatever the target's are.
            weight_dtype=None if model.embedding else setup.options.weight_dtype,
        ),
    )
