"""Fitted parameters, and the engine profiles that they make for a family of chips.

The parameters are shared: by every model, by the chips of a family (peaks differ, shares do not),
by engines but for what a speculative round costs. `benchmarks/fit_engines.py` fits them.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from specroof.errors import ProfileError
from specroof.hardware.engine import (
    CapturedGraphs,
    Collective,
    EngineProfile,
    ExpertKernel,
    ExpertLocality,
    ExpertTile,
    SparseKernel,
)
from specroof.hardware.profile import HardwareProfile

_Kernel = TypeVar("_Kernel", ExpertKernel, SparseKernel)

#: Measured chips of one kind of matrix unit, by their hardware files. The first of a family holds
#: what its engines have in common.
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "ampere": ("a100-80gb", "a100-40gb"),
    "hopper": ("h100-sxm", "h200", "gh200"),
    "blackwell": ("b200", "b300", "gb200", "gb300"),
    "cdna3": ("mi300x", "mi325x"),
    "cdna4": ("mi355x", "mi350x"),
    "gaudi": ("gaudi3",),
}
#: Families that drafts were measured on.
FITTED_WITH_DRAFTS: Final = ("ampere", "hopper", "blackwell")
#: Families that only served loads speak for, and whose figures a fit starts from.
_LIKE: Final = {"cdna3": "hopper", "cdna4": "blackwell", "gaudi": "hopper"}

#: Engines that measurements were found for, with the way they keep recurrent state.
ENGINES: Final = {"sglang": "snapshot-copy", "vllm": "snapshot"}

#: Servers by the families of chips that they were measured on, with drafts or by served loads.
SERVERS: Final[dict[str, tuple[str, ...]]] = {
    "sglang": ("ampere", "hopper", "blackwell", "cdna3", "cdna4"),
    "vllm": ("ampere", "hopper", "blackwell", "cdna3", "cdna4", "gaudi"),
    "tensorrt-llm": ("ampere", "hopper", "blackwell"),
    "atom": ("cdna3", "cdna4"),
}

#: What each of them has a parameter of its own for.
OWN: Final = ("round_s", "draft_pass_s")

#: Share of the peak of a narrow dtype relative to bf16 with up to 2048 rows: medians over 20 (fp8)
#: and 6 (fp4) sets of timed kernels, 0.47 to 0.87 and 0.32 to 0.63 (benchmarks/timed_kernels.py).
#: int8 reaches as much as bf16 on A100 (aiconfigurator, commit 095f58a); fp6 runs at fp8's rate.
DTYPE_SHARES: Final = {
    "fp32": 1.0,
    "bf16": 1.0,
    "fp16": 1.0,
    "int8": 1.0,
    "fp8": 0.64,
    "fp6": 0.64,
    "fp4": 0.48,
}

#: How arithmetic and memory traffic of an operation overlap
#: (`specroof.latency.pass_seconds.overlapped_s`). Fits to the same kernels have 1.7 on A100, 2.3 to
#: 2.7 on Hopper and 1.9 to 2.1 on Blackwell; sources that a fit has not seen are predicted as well
#: with one for all.
_OVERLAP_NORM: Final = 2.0

#: Share of the bf16 peak, relative to large matmuls, of attention in passes over a prompt:
#: 230 of 312 TFLOP/s on A100, 740 of 989 on H100, 1605 of 2250 on B200 (FlashAttention-2, -3 and
#: -4: arXiv:2307.08691, arXiv:2407.08608, and its announcement), 0.87 to 1.06 of what is fitted
#: here.
_PREFILL_SHARES: Final = {"attention": 0.9, "latent_attention": 0.9}

#: The same of latent attention in decoding, where 128 heads leave memory behind: 0.36 on A100,
#: 0.86 to 1.39 on Hopper and more on Blackwell (benchmarks/timed_kernels.py, on kernels of SGLang
#: and TensorRT-LLM that aiconfigurator-core 0.12.0 has timed).
_LATENT_SHARES: Final = {"ampere": 0.36, "hopper": 1.0, "blackwell": 1.0}

#: Experts with many rows each, relative to large matmuls, and the rows that take half of the way
#: there: medians over 15 fits to kernels of SGLang and vLLM (benchmarks/timed_kernels.py).
_MANY_ROWS_SHARE: Final = 0.52
_HALF_ROWS: Final = 16.0

#: Exponents of routing locality: Finn 2026, "Width vs. depth"; not fitted here.
_LOCALITY: Final = ExpertLocality(run=0.737, batch=0.909)

#: Seconds of a short all-reduce in a captured graph, and those that each further device adds: least
#: squares over 1 to 64 KiB on 2 to 8 devices, which vLLM 0.14 to 0.24 and SGLang 0.5.9 and 0.5.10
#: are 4 % apart in (aiconfigurator-core 0.12.0, ``comm/*/custom_allreduce_perf.parquet``). SGLang
#: 0.5.14 takes 2.5 and 4.1 microseconds on Hopper and Blackwell; loads of it are few.
_SHORT_ALL_REDUCE_S: Final = {
    "ampere": (5.2e-6, 0.25e-6),
    "hopper": (4.4e-6, 0.14e-6),
    "blackwell": (7.0e-6, 0.14e-6),
}

#: Seconds of a short all-reduce between nodes (doublewordai/inference-lab, commit 24d4011).
SCALE_OUT_LATENCY_S: Final = 20e-6

#: What the host adds to a pass where it does not schedule while the device runs: the pair of runs
#: that differ in nothing else (SGLang pull request 23000, Qwen3-8B with DFlash on one B200) has
#: rounds of 7.50 and 5.47 ms for one request, of 18.20 and 13.53 ms for 32. A second pair has 4.63
#: ms between its rounds of 32 requests (pull request 20547, at the first one's acceptance length).
#: Three times as much lies between plain steps of DeepSeek-V3 on 16 H200: 6.1 ms (LMSYS,
#: 2025-07-17). Sources that do not say whether their rounds overlapped have a tenth to three tenths
#: of it beyond rounds that did (SpecBundle, and doubleword-gh200 to 4 requests:
#: `benchmarks/drafting_time.py`).
#: Of vLLM 0.10.1, which waited in every step, shares are printed (arXiv:2601.11580, figure 4,
#: Llama-3.1-8B): 13.9, 10.4, 9.2 and 7.7 % of a step of 1, 64, 128 and 512 requests, beside passes
#: of 5.92, 7.77, 9.65 and 20.9 ms by the constants of the authors' simulator.
_HOST_S: Final = {"sglang": (1.95e-3, 85e-6), "vllm": (0.85e-3, 1.7e-6)}

#: Seconds that a host takes to make a token of a prompt's text, which benchmarks of servers send:
#: tokenizers 0.23.3 on one core of an AMD EPYC, of five models, 2.0 to 2.9 us over prompts of 8192
#: drawn tokens (`benchmarks/tokenizing.py`).
TOKENIZE_S: Final = 2.6e-6

#: What rounds of look-ups have of what the engine adds to a round. vLLM takes as much of theirs as
#: of plain steps: 14.1 and 13.9 % with one request, 9.3 and 9.2 % with 128, 8.0 and 7.7 % with 512
#: (arXiv:2601.11580, figure 4). That is vLLM 0.10.1, which searches on the host and schedules each
#: step synchronously; 0.33.0 searches on the device (v1/worker/gpu/spec_decode/ngram/speculator.py)
#: and schedules ahead, and nobody has printed its shares. Of SGLang they are not known.
_LOOKUP_ROUND_FRAC: Final = {"sglang": 1.0, "vllm": 0.0}

#: Sizes that vLLM captures, as a published step-time table samples them (vLLM blog, 2026-08-14).
_VLLM_SIZES: Final = (1, 2, 4, *range(8, 257, 8), *range(272, 1025, 16))

#: Sizes that SGLang captures for verification, in sequences:
#: `generate_decode_cuda_graph_batch_sizes` in the sources of sglang 0.5.23. Beyond 256 only on
#: large or on several devices; servers without drafts skip some below 72, where padding costs next
#: to nothing.
_SGLANG_SIZES: Final = (
    *range(1, 8), *range(8, 33, 2), *range(40, 64, 4), *range(64, 256, 8), *range(256, 513, 16)
)  # fmt: skip

#: Kinds whose share of the memory's bytes/s is another's: a cache is a cache.
_MEMORY_OF: Final = {
    "experts": "experts",
    "attention": "attention",
    "latent_attention": "attention",
    "state": "state",
}

#: Every parameter: where a fit starts, how far from there it may be taken to lie (standard
#: deviation of its logarithm), and what it is. Shares start at medians of measured kernels
#: (aiconfigurator, commit 095f58a) and may lie as far as those of three engines on the chips of a
#: family do; attention at kernels of latent attention with 64 to 128 heads, which are as
#: many rows as 16 queries of 4 to 8 grouped heads. Overheads start at round numbers, and may lie
#: anywhere near.
_ROWS: Final = {
    "memory_frac": (0.85, 0.05, "share of memory bytes/s, weights of dense matmuls"),
    "memory_frac.experts": (0.85, 0.08, "the same of experts"),
    "memory_frac.attention": (0.85, 0.15, "the same of cached keys and values"),
    "memory_frac.state": (0.85, 0.15, "the same of recurrent state"),
    "compute_frac.ampere": (0.78, 0.08, "share of the bf16 peak, dense matmuls"),
    "compute_frac.hopper": (0.83, 0.08, "share of the bf16 peak, dense matmuls"),
    "compute_frac.blackwell": (0.75, 0.08, "share of the bf16 peak, dense matmuls"),
    "compute_share.experts": (0.09, 0.6, "the same of experts with few rows, relative to dense"),
    "compute_share.attention": (0.6, 0.3, "the same of attention, relative to dense matmuls"),
    "layer_s": (50e-6, 1.0, "seconds per layer"),
    "layer_share.ampere": (1.0, 0.2, "seconds per layer on Ampere, relative to newer chips"),
    "layer_s.experts": (10e-6, 1.0, "seconds per layer with experts, on top"),
    "layer_s.linear_attention": (10e-6, 1.0, "seconds per layer of linear attention, on top"),
    "layer_s.latent_attention": (10e-6, 1.0, "seconds per layer of latent attention, on top"),
    "layer_s.sparse_index": (10e-6, 1.0, "seconds per layer with an indexer, on top"),
    # Two kernels of a few microseconds; few measurements with drafts have such blocks, and served
    # loads have factors of both.
    "layer_s.fp8_blocks": (4e-6, 0.3, "seconds per block scaled to fp8, on top"),
    "layer_s.fp4_blocks": (4e-6, 0.3, "seconds per block scaled to fp4, on top"),
    # Measurements with drafts say nothing of both: factors of servers move them.
    "prefill_kernel_s": (1e-6, 0.01, "seconds per kernel of a pass that takes prompts, on top"),
    "prefill_share": (0.97, 0.01, "share of those of decoding that passes with prompts reach"),
    # As the bytes/s of their memories are: 1.6, 1 and 0.4 to the second.
    "layer_token_s": (100e-9, 1.0, "seconds per layer and token"),
    "layer_token_share.ampere": (1.6, 0.3, "the same on Ampere, relative to Hopper"),
    "layer_token_share.blackwell": (0.5, 0.3, "the same on Blackwell, relative to Hopper"),
    "activation_frac": (0.4, 0.5, "share of memory bytes/s, activations of prompts"),
    "state_token_s": (3e-6, 1.0, "seconds per layer of linear attention and further token"),
    "pass_s": (0.2e-3, 1.0, "seconds per pass"),
    "sequence_s": (10e-6, 1.0, "seconds per sequence and pass"),
    "draft_pass_s.sglang": (0.1e-3, 1.0, "seconds per pass of a drafter"),
    "draft_pass_s.vllm": (0.1e-3, 1.0, "seconds per pass of a drafter"),
    # A gather, a matmul, a sum and a sample are a quarter of the kernels of a layer.
    "serial_step_s": (13e-6, 1.0, "seconds per step of a serial head"),
    # DSpark paper, section 4: 0.7 % of rounds of 190 ms for 8 more steps of 128 sequences are
    # 0.17 ms a step, of which its launches and its weights take some 0.04.
    "serial_sequence_s": (1e-6, 1.0, "seconds per sequence and step of a serial head"),
    "round_s.sglang": (1e-3, 1.0, "seconds per round"),
    "round_s.vllm": (1e-3, 1.0, "seconds per round"),
    "round_sequence_s": (10e-6, 1.0, "seconds per sequence and round"),
    "tree_round_s": (0.5e-3, 1.0, "seconds per round whose drafts are a tree"),
    "request_s": (2e-3, 1.0, "seconds per request that all others wait, its prefill apart"),
    "request_latency_s": (10e-3, 1.0, "seconds per request that it loses alone"),
    # Above 1 where the switch adds, which halves what crosses a link.
    "link_frac": (0.5, 0.5, "share of the link's bytes/s"),
    # 16.7 ms a token of 32 layers of 41 kernels, launched one by one (CAST, Llama-3.1-8B, H100);
    # the same model takes 14.7 to 24.7 ms on two hosts (Qwen3-8B).
    "eager_kernel_s": (12.4e-6, 0.5, "seconds per kernel outside of captured graphs"),
}


@dataclass(frozen=True, slots=True)
class SharedParameter:
    """A figure that all measurements share.

    Parameters
    ----------
    name
        What tables and files call it.
    typical
        Where a fit starts.
    spread
        How far from there it may be taken to lie: the standard deviation of its logarithm.
    meaning
        What it is, in a few words.
    """

    name: str
    typical: float
    spread: float
    meaning: str

    def value(self, x: float) -> float:
        """Return the figure `x` spreads from its usual value."""
        return self.typical * math.exp(self.spread * x)

    def coordinate(self, value: float) -> float:
        """Return how many spreads a value lies from the usual one: the inverse of `value`."""
        return math.log(value / self.typical) / self.spread


PARAMETERS: Final = tuple(SharedParameter(name, *row) for name, row in _ROWS.items())

#: What servers and families of chips may differ in from what all share: a factor of each.
FACTORS: Final = {
    "layer": "seconds of a pass and of its layers",
    "experts_s": "seconds of layers with experts, on top",
    "fp8_blocks": "seconds of blocks scaled to fp8, on top",
    "fp4_blocks": "seconds of blocks scaled to fp4, on top",
    "memory": "share of the memory's bytes/s",
    "experts_memory": "the same of experts, besides",
    "compute": "share of the peak",
    "token": "seconds of a token in a layer",
    "sequence": "seconds of a sequence in a pass",
    "collective": "seconds of a short all-reduce",
    "link": "share of the link's bytes/s",
    "request": "seconds that a request keeps others waiting",
    "latency": "seconds that a request loses alone",
    "prefill_kernel": "seconds of a kernel in a pass that takes prompts",
    "prefill": "share of the peak in passes that take prompts",
}
#: Factors of servers and families whose rounds were measured, and of chips in general: few of these
#: have experts or scale their inputs block by block, and what a request loses alone is mostly of
#: the client that sends it. All others are as they say; of the sets that were tried, this one
#: leaves the least error of plain throughput, of speedups and of first tokens together, sources and
#: models left out. Without blocks of fp8 TPOT is 8.3 % off, models left out, and 7.4 % with them,
#: speedups as much; sequences besides leave speedups' median at 4.3 % (4.2), layers TPOT at 8.2 %.
FACTORS_BESIDE_ROUNDS: Final = ("experts_s", "latency", "fp8_blocks")
#: Those that such servers are fitted with: what loads say of the others stays out of `experts_s`,
#: which without them leaves TPOT 13.9 % off on Hopper and Blackwell, models left out.
FITTED_BESIDE_ROUNDS: Final = (*FACTORS_BESIDE_ROUNDS, "experts_memory", "fp4_blocks")
#: Whose factors all servers have: what served loads say otherwise than measurements with drafts.
EVERYONE: Final = "all"
#: No kernel reaches more of a peak or of a memory.
_MOST: Final = 0.97
#: What a hardware file may say: above 1 where experts are read less often than is counted.
_MOST_OF_MEMORY: Final = 1.2
#: Above 1 where the switch adds.
_MOST_OF_LINKS: Final = 1.2

#: What served loads say of launching prompts: see `fitting.served_fit.prefill_launch_s`.
PREFILL_LAUNCH: Final = "prefill_launch_s"

#: The fits that `benchmarks/fit_engines.py` stores, by what each was made without.
FITS: Final = Path(__file__).with_name("fits.json")
#: The fit to all sources, which the hardware files hold.
ALL: Final = "all"
#: Experts, and layers of latent attention (`benchmarks/expert_kernels.py`).
EXPERT_KERNELS: Final = Path(__file__).with_name("expert_kernels.json")
#: Attention to picked tokens (`benchmarks/sparse_kernels.py`).
SPARSE_KERNELS: Final = Path(__file__).with_name("sparse_kernels.json")
#: Formats of weights that have kernels of their own in all passes.
_WEIGHT_ONLY: Final = ("int4",)
#: The floor of a router's matrix: on all chips that were timed, of TensorRT-LLM.
_ROUTER_S: Final = 4e-6


@cache
def stored_fits() -> dict[str, dict[str, float]]:
    """Return the parameters of every stored fit, by the source or group that it has not seen."""
    content = json.loads(FITS.read_text(encoding="utf-8"))
    whose = content["whose"]
    return {
        name: {
            key: value
            for parameter, stored in fit.items()
            for key, value in (
                zip([f"{parameter} of {one}" for one in whose], stored, strict=True)
                if isinstance(stored, list)
                else [(parameter, stored)]
            )
        }
        for name, fit in content["fits"].items()
    }


def fits_text(fits: Mapping[str, Mapping[str, float]]) -> str:
    """Return the text of the file of fits: a line for each parameter, factors by whose they are."""
    names = [name.partition(" of ") for name in fits[ALL] if " of " in name]
    whose, factors = (list(dict.fromkeys(parts)) for parts in list(zip(*names, strict=True))[::-2])
    blocks = []
    for name, fit in fits.items():
        rows = {key: value for key, value in fit.items() if " of " not in key}
        rows |= {key: [fit[f"{key} of {one}"] for one in whose] for key in factors}
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items())
        blocks.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    head = {"made_by": "benchmarks/fit_engines.py, from specroof/evidence", "whose": whose}
    start = json.dumps(head)[:-1]
    return f'{start},\n"fits": {{\n' + ",\n".join(blocks) + "\n}}\n"


def fitted_parameters(without: str = ALL) -> Mapping[str, float]:
    """Return the parameters that were fitted to all measurements, or to all but one source.

    Parameters
    ----------
    without
        The source that was left out; that of all for a source that no fit has seen.

    Examples
    --------
    >>> 0 < fitted_parameters()["memory_frac"] <= 1
    True
    """
    fits = stored_fits()
    return fits.get(without, fits[ALL])


def family_of(hardware: HardwareProfile) -> str | None:
    """Return the family of a chip; None if no engine was fitted to it."""
    names = set(hardware.aliases)
    return next((family for family, chips in FAMILIES.items() if names & set(chips)), None)


def chip_family(hardware: HardwareProfile) -> str:
    """Return the family of a chip whose engines were fitted.

    Raises
    ------
    ProfileError
        For a chip that no measurement speaks for.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> chip_family(load_hardware("gb200"))
    'blackwell'
    """
    family = family_of(hardware)
    if family is not None:
        return family
    known = ", ".join(chip for chips in FAMILIES.values() for chip in chips)
    message = f"{hardware.name} is of no family with a fitted engine; those are {known}"
    raise ProfileError(message)


def own(name: str, engine: str, parameters: Mapping[str, float]) -> float:
    """Return what an engine has of its own; the geometric mean of all for one without a fit.

    Parameters
    ----------
    name
        One of `OWN`.
    engine, parameters
        As of `fitted_engine`.

    Examples
    --------
    >>> own("round_s", "tensorrt-llm", {"round_s.sglang": 4.0, "round_s.vllm": 1.0})
    2.0
    """
    if engine in ENGINES:
        return parameters[f"{name}.{engine}"]
    return math.prod(parameters[f"{name}.{other}"] for other in ENGINES) ** (1 / len(ENGINES))


def fitted_engine(
    name: str,
    family: str,
    parameters: Mapping[str, float],
    beside_rounds: Collection[str] = FACTORS_BESIDE_ROUNDS,
) -> EngineProfile:
    """Return the engine profile that fitted parameters make.

    Parameters
    ----------
    name
        One of `ENGINES`.
    family
        One of `FAMILIES`.
    parameters
        A value for each of `PARAMETERS`.
    beside_rounds
        The factors that count where rounds were measured.

    Examples
    --------
    >>> engine = fitted_engine("sglang", "hopper", {one.name: one.typical for one in PARAMETERS})
    >>> engine.layer_overhead_s, engine.recurrent_state
    (5e-05, 'snapshot-copy')
    """
    # ATOM is AMD's, on vLLM's scheduler and rules.
    like = name if name in ENGINES else "vllm"
    shared = shared_engine(like, _LIKE.get(family, family), parameters)
    whose = (EVERYONE, name, family, f"{name} {family}")
    measured = name in ENGINES and family in FITTED_WITH_DRAFTS
    said = beside_rounds if measured else tuple(FACTORS)
    engine = own_engine(replace(shared, name=name), whose, parameters, said)
    if not measured:
        return engine
    tiles = prompt_tiles(timed_layers()["servers"][name].get(family, {}))
    experts = _weight_only(engine, family)
    timed = replace(engine, expert_kernels=experts, prefill_expert_tiles=tiles)
    return with_sparse(timed, family)


def with_sparse(engine: EngineProfile, family: str) -> EngineProfile:
    """Return a profile with attention to picked tokens as it is timed, where it was."""
    timed = _timed(SPARSE_KERNELS)
    kernels = timed_kernels(SparseKernel, timed["servers"][engine.name].get(family, {}))
    shares = dict(engine.prefill_compute_frac)
    if family in timed["indexers"]:
        shares["indexer"] = timed["indexers"][family]
    return replace(engine, sparse_kernels=kernels, prefill_compute_frac=shares)


def prompt_tiles(kernels: Mapping[str, Any]) -> dict[str, ExpertTile]:
    """Return the tiles of experts over prompts, by what the file has them by.

    With few rows they reach what the same kernels do of few tokens.
    """
    return {
        key: ExpertTile(**kernel["prompts"]["tile"], few_frac=kernel["compute_frac"])
        for key, kernel in kernels.items()
        if "prompts" in kernel
    }


def _weight_only(engine: EngineProfile, family: str) -> dict[str, ExpertKernel]:
    """Return the experts whose weights alone are narrow, as they are timed.

    What a layer with experts is fitted to take on top holds the floor of its kernels: they have
    what is left of theirs and of the router's.
    """
    servers = timed_layers()["servers"]
    own = servers[engine.name].get(family) or servers["sglang"][family]
    timed = timed_kernels(ExpertKernel, {form: own[form] for form in _WEIGHT_ONLY if form in own})
    fitted_s = engine.layer_kind_overhead_s["experts"]
    return {
        form: replace(kernel, floor_s=max(kernel.floor_s + _ROUTER_S - fitted_s, 0.0))
        for form, kernel in timed.items()
    }


def timed_kernels(kind: type[_Kernel], kernels: Mapping[str, Any]) -> dict[str, _Kernel]:
    """Return timed kernels of a kind, by what the file has them by."""
    names = {field.name for field in fields(kind)}
    flat = {
        key: {**kernel, **kernel.get("decoded", {}).get("tile", {})}
        for key, kernel in kernels.items()
    }
    return {
        key: kind(**{name: kernel[name] for name in names & kernel.keys()})
        for key, kernel in flat.items()
    }


@cache
def _timed(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def timed_layers() -> Mapping[str, Any]:
    """Return what layers with experts and of latent attention take: `EXPERT_KERNELS`."""
    layers: Mapping[str, Any] = _timed(EXPERT_KERNELS)
    return layers


def own_engine(
    engine: EngineProfile,
    names: Sequence[str],
    parameters: Mapping[str, float],
    said: Collection[str] = tuple(FACTORS),
) -> EngineProfile:
    """Return an engine with the factors of a server, of a family of chips, and of both together.

    Parameters
    ----------
    engine
        What all share.
    names
        Whose factors count.
    parameters
        With factors by name, as ``"layer of vllm"``; those that are not there are 1.
    said
        The factors that count.
    """

    def factor(name: str) -> float:
        if name not in said:
            return 1.0
        return math.prod(parameters.get(f"{name} of {whose}", 1.0) for whose in names)

    memory, compute = factor("memory"), factor("compute")
    experts = engine.kind_memory_frac.get("experts", engine.memory_frac)
    tile, collective = engine.expert_tile, engine.collective
    layer = factor("layer")
    own_kinds = {"experts": "experts_s", "fp8_blocks": "fp8_blocks", "fp4_blocks": "fp4_blocks"}
    return replace(
        engine,
        compute_frac=_scaled(engine.compute_frac, compute),
        kind_compute_frac=_scaled(engine.kind_compute_frac, compute),
        expert_tile=tile and replace(tile, compute_frac=_within(tile.compute_frac, compute)),
        prefill_frac=_within(engine.prefill_frac, factor("prefill"), 1.0),
        memory_frac=_within(engine.memory_frac, memory),
        kind_memory_frac={
            kind: min(share, _MOST_OF_MEMORY)
            for kind, share in _scaled(
                {**engine.kind_memory_frac, "experts": experts * factor("experts_memory")}, memory
            ).items()
        },
        pass_overhead_s=engine.pass_overhead_s * layer,
        layer_overhead_s=engine.layer_overhead_s * layer,
        layer_kind_overhead_s={
            kind: seconds * (factor(own_kinds[kind]) if kind in own_kinds else layer)
            for kind, seconds in engine.layer_kind_overhead_s.items()
        },
        layer_token_overhead_s=engine.layer_token_overhead_s * factor("token"),
        activation_frac=engine.activation_frac
        and _within(engine.activation_frac, 1 / factor("token"), 1.0),
        prefill_kernel_overhead_s=engine.prefill_kernel_overhead_s * factor("prefill_kernel"),
        sequence_overhead_s=engine.sequence_overhead_s * factor("sequence"),
        request_overhead_s=engine.request_overhead_s * factor("request"),
        request_latency_s=engine.request_latency_s * factor("latency"),
        collective=collective
        and replace(
            collective,
            latency_s=collective.latency_s * factor("collective"),
            device_latency_s=collective.device_latency_s * factor("collective"),
            link_frac=_within(collective.link_frac, factor("link"), _MOST_OF_LINKS),
        ),
    )


def _scaled(shares: Mapping[str, float], factor: float) -> dict[str, float]:
    return {key: _within(share, factor) for key, share in shares.items()}


def _within(share: float, factor: float, most: float = _MOST) -> float:
    """Return a share times a factor, no more than kernels reach unless it was more before."""
    return min(share * factor, max(share, most))


def shared_engine(name: str, family: str, parameters: Mapping[str, float]) -> EngineProfile:
    """Return the engine profile that fitted parameters make before any server's own factors.

    Parameters
    ----------
    name, family, parameters
        As of `fitted_engine`; one of `ENGINES`, and a family that was measured with drafts.
    """
    latency_s, device_latency_s = _SHORT_ALL_REDUCE_S[family]
    host_s, host_sequence_s = _HOST_S[name]
    dense, eager_kernel_s = parameters[f"compute_frac.{family}"], parameters["eager_kernel_s"]
    layers = [key for key in parameters if key.startswith("layer_s.")]
    graphs = CapturedGraphs(sizes=_VLLM_SIZES, eager_kernel_s=eager_kernel_s)
    if name != "vllm":
        graphs = replace(graphs, sizes=_SGLANG_SIZES, counts="sequences")
    return EngineProfile(
        name=name,
        overlap_norm=_OVERLAP_NORM,
        # What the kernels of a family reach.
        compute_frac={dtype: dense * share for dtype, share in DTYPE_SHARES.items()},
        kind_compute_frac={
            "experts": dense * parameters["compute_share.experts"],
            "attention": dense * parameters["compute_share.attention"],
            "latent_attention": dense * _LATENT_SHARES[family],
        },
        prefill_frac=parameters["prefill_share"],
        prefill_compute_frac={kind: dense * share for kind, share in _PREFILL_SHARES.items()},
        memory_frac=parameters["memory_frac"],
        kind_memory_frac={
            kind: parameters[f"memory_frac.{part}"] for kind, part in _MEMORY_OF.items()
        },
        expert_tile=ExpertTile(rows=_HALF_ROWS, compute_frac=dense * _MANY_ROWS_SHARE),
        activation_frac=parameters["activation_frac"],
        # What the engine adds.
        pass_overhead_s=parameters["pass_s"],
        layer_overhead_s=parameters.get(f"layer_share.{family}", 1.0) * parameters["layer_s"],
        layer_kind_overhead_s={
            **{key.removeprefix("layer_s."): parameters[key] for key in layers},
            "token_index": timed_layers()["token_index_s"],
        },
        layer_token_overhead_s=parameters.get(f"layer_token_share.{family}", 1.0)
        * parameters["layer_token_s"],
        prefill_kernel_overhead_s=parameters["prefill_kernel_s"],
        sequence_overhead_s=parameters["sequence_s"],
        state_token_overhead_s=parameters["state_token_s"],
        draft_pass_overhead_s=own("draft_pass_s", name, parameters),
        serial_step_overhead_s=parameters["serial_step_s"],
        serial_sequence_overhead_s=parameters["serial_sequence_s"],
        host_s=host_s,
        host_sequence_s=host_sequence_s,
        round_overhead_s=own("round_s", name, parameters),
        round_sequence_overhead_s=parameters["round_sequence_s"],
        tree_round_overhead_s=parameters["tree_round_s"],
        lookup_round_frac=_LOOKUP_ROUND_FRAC[name],
        request_overhead_s=parameters["request_s"],
        request_latency_s=parameters["request_latency_s"],
        tokenize_s=TOKENIZE_S,
        collective=Collective(
            latency_s=latency_s,
            device_latency_s=device_latency_s,
            link_frac=parameters["link_frac"],
            scale_out_latency_s=SCALE_OUT_LATENCY_S,
        ),
        expert_locality=_LOCALITY,
        graphs=graphs,
        recurrent_state=ENGINES[name],
    )
