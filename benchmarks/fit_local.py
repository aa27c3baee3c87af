"""Fit llama.cpp's back ends to what owners of local machines published, and without each model.

Needs SciPy: ``pip install specroof[calibrate]``, then ``python benchmarks/fit_local.py``. It prints
the parameters and the errors; with ``--write`` it writes ``specroof/catalog/local.json``, which
``--engine llama.cpp`` and ``--engine mlx`` read. Three minutes where nothing else runs.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np

from fitting.shared_fit import in_processes
from specroof.arrays import Array
from specroof.engines.least_squares import least_squares
from specroof.evidence import Measurement, load_local
from specroof.evidence.measurement import chip_of
from specroof.hardware.engine import (
    IDEAL_ENGINE,
    Band,
    EngineProfile,
    ExpertLocality,
    Reach,
    RowKernel,
)
from specroof.hardware.written import written_engines
from specroof.scoring.left_out import served_of
from specroof.scoring.local import (
    BASELINES,
    REPORTS,
    EngineOf,
    local_errors,
    local_scores,
)
from specroof.scoring.scores import Scored
from specroof.speedup.reach import deployment_words

TARGET: Final = Path(__file__).parent.parent / "specroof" / "catalog" / "local.json"

#: Formats of weights, by the bits of one up to which each goes, whose kernels of matrices differ.
FORMATS: Final[dict[str, float | None]] = {
    "3bit": 4.0,
    "mxfp4": 4.3,
    "5bit": 5.6,
    "6bit": 7.5,
    "8bit": 9.0,
    "16bit": None,
}
#: Those whose dense matrices differ in any back end.
_DENSE: Final = ("6bit", "8bit", "16bit")


@dataclass(frozen=True)
class BackEnd:
    """What is fitted of a back end.

    Attributes
    ----------
    name
        Of the engine.
    few_rows
        Rows that kernels of vectors take, of dense matrices and of experts.
    chips
        Vendors or architectures of the chips that it runs on.
    typical
        Where parameters start that differ between back ends.
    tile, expert_tile
        Rows that kernels of matrices compute at a time, dense ones and those of experts.
    widest_tile, busy_outputs
        Of kernels of matrices that unpack weights: see `RowKernel`.
    unpacking
        What they do with a weight of a format besides, in units of which `unpack` tells the cost;
        where it is empty, nothing is known to tell formats apart.
    repeats
        Whether kernels of vectors read experts for each token, and not for one alone.
    rereads
        Whether they read dense matrices for each token, too.
    same
        Parameters that are another one, or the factor that they are.
    framework
        The software that it belongs to.
    integers
        How many times the integers a cycle its chips unpack, of those that a share is of.
    variants
        What is otherwise in builds of summer 2025, or on newer chips, by the end of their names.
        They are engines of their own, and share all parameters.
    """

    name: str
    few_rows: tuple[int, int]
    chips: tuple[str, ...]
    typical: Mapping[str, float] = field(default_factory=dict)
    tile: float = 8.0
    expert_tile: float = 32.0
    widest_tile: float | None = None
    busy_outputs: float | None = None
    unpacking: Mapping[str, float] = field(default_factory=dict)
    repeats: bool = False
    rereads: bool = False
    same: Mapping[str, str | float] = field(default_factory=dict)
    framework: str = "llama.cpp"
    integers: float = 1.0
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def builds(self) -> "tuple[BackEnd, ...]":
        """The back end in all its variants; those of newer chips first, which these prefer."""
        others = [
            replace(self, name=f"{self.name}-{end}", **changed)
            for end, changed in self.variants.items()
        ]
        return tuple(sorted([self, *others], key=lambda one: one.integers, reverse=True))


#: What an all-reduce of llama.cpp's tensor split costs. Two MI50 take 31.0 ms a token of
#: Qwen3.8-27B in Q8_0 and one 47.6 (mx-llama.cpp issue 10): 7.2 ms more than half, over two
#: all-reduces in each of 64 layers, of which launches that do not halve explain some 5 us. The
#: share of the link is that of cards on a bus in other servers: that row tells none.
COLLECTIVE: Final[dict[str, float]] = {"latency_s": 50e-6, "link_frac": 0.22}

#: Where a fit starts, and how far from there a parameter may lie (standard deviation of its
#: logarithm). Seconds a round: 20 ms a block were reported without explanation (ggml-org/llama.cpp
#: issue 25908, Vulkan on RDNA4).
PARAMETERS: Final[dict[str, tuple[float, float]]] = {
    "memory": (0.85, 0.05),
    "memory.quants": (0.95, 0.05),
    "memory.attention": (0.9, 0.15),
    "layer_s": (20e-6, 1.0),
    "layer_s.experts": (20e-6, 1.0),
    "vector.quants": (0.12, 0.7),
    "vector.8bit": (0.4, 0.7),
    "vector.16bit": (0.8, 0.7),
    "vector.wide": (1.0, 0.2),
    "matrix.quants": (0.4, 0.7),
    "matrix.16bit": (0.8, 0.7),
    "unpack": (1.0, 0.7),
    "experts.one": (0.12, 0.7),
    "experts.few": (0.2, 0.8),
    "experts.many": (0.2, 0.8),
    "locality": (0.8, 0.1),
    "draft_pass_s": (3e-3, 0.8),
    "round_s": (10e-3, 0.8),
}

_QMV: Final = {"vector.quants": 0.8, "draft_pass_s": 0.5e-3, "round_s": 2.7e-3}
_LONG_LAYERS: Final = {"layer_s": 100e-6, "layer_s.experts": 100e-6}
_MLX: Final[dict[str, Any]] = {
    "few_rows": (10, 10),
    "tile": 32.0,
    "repeats": True,
    # One template for all widths.
    "same": dict.fromkeys(("vector.8bit", "vector.16bit", "experts.one"), "vector.quants"),
    "framework": "mlx",
}
#: Builds of summer 2025 read experts by tokens where a pass has one, and in kernels of matrices
#: where it has more (llama.cpp in llama-cpp-python 0.3.16, ``ggml_cuda_mul_mat_id`` and
#: ``ggml_vk_mul_mat_id``). Those of 2026 do so for 4 tokens and more on RDNA3 and 4, by format
#: (0.3.36, ``get_mmvq_mmid_max_batch``), and for 8 in Vulkan (``ggml_vk_use_mul_mat_vec_id``).
_ONE_TOKEN: Final[dict[str, Any]] = {"repeats": False}
#: Consumer Blackwell does as many integers a cycle as floats, Ada and Ampere half as many (NVIDIA
#: RTX Blackwell GPU Architecture). If two thirds of what unpacks a weight are integers, it does 4/3
#: times as much: as drafted rounds of an RTX 5090 say beside those of an RTX 3090. A fifth row
#: costs what the others cost there.
_INTEGERS: Final[dict[str, Any]] = {
    "chips": ("blackwell-rtx",),
    "integers": 4 / 3,
    "same": {"vector.wide": 1.0},
}
BACK_ENDS: Final = (
    # One kernel of tiles for dense matrices and experts (ggml-cuda/mmq.cuh), so that fits of both
    # start alike. It multiplies bytes, to which MXFP4 and Q8_0 are unpacked; the sum of 32 products
    # is multiplied with a scale of Q4_K and Q5_K, or in halves with two of Q2_K, Q3_K and Q6_K. The
    # builds that were timed make a tile of experts as wide as the visits of all experts (mmq.cu,
    # ``ne_get_rows``); later ones go by the tokens, or by the mean visits of an expert. A thread
    # block has 128 outputs, a multiprocessor two blocks.
    BackEnd(
        "llama.cpp-hip",
        (8, 4),
        ("amd",),
        # The host's loop and the sources of kernels are those of CUDA, whose rounds have little
        # beside their passes: drafts of a 27B model tell it from nothing else.
        {"matrix.quants": 1.0, "experts.many": 1.0, "draft_pass_s": 0.5e-3, "round_s": 1e-3},
        expert_tile=8.0,
        widest_tile=64.0,
        busy_outputs=256.0,
        unpacking={"3bit": 2.0, "mxfp4": 0.0, "5bit": 1.0, "6bit": 2.0, "8bit": 0.0},
        repeats=True,
        variants={"2025": _ONE_TOKEN | {"few_rows": (8, 1)}},
    ),
    # Matrix kernels take 1.33 steps for 2 to 8 tokens of a 27B model, on a chip of 100 TFLOP/s in
    # float32 (llama.cpp pull request 26079). Rounds have little beside their passes, and experts
    # are read once for each token up to 8 (ggml-cuda/mmvq.cu, get_mmvq_mmid_max_batch).
    BackEnd(
        "llama.cpp-cuda",
        (8, 8),
        ("nvidia",),
        {
            **dict.fromkeys(("vector.quants", "experts.one"), 0.4),
            **dict.fromkeys(("matrix.quants", "matrix.16bit"), 1.3),
            "experts.many": 1.0,
            "draft_pass_s": 0.5e-3,
            "round_s": 1e-3,
        },
        repeats=True,
        variants={"blackwell": _INTEGERS},
    ),
    # 112 us for a further row of 4096 x 14336 in Q4_0 on an M4 Pro (llama.cpp issue 25250), 50 us
    # in Q8_0; matrices of experts from 32 tokens on (ggml-metal-ops.cpp).
    BackEnd(
        "llama.cpp-metal",
        (8, 31),
        ("apple",),
        {"vector.quants": 0.114, "vector.8bit": 0.25, "draft_pass_s": 1e-3, "round_s": 2e-3},
        tile=32.0,
        repeats=True,
    ),
    # Matrices of few rows are tiles of 32, of half floats whatever was unpacked. Loads for a weight
    # (vulkan-shaders/mul_mm.comp): 7 unpack two of Q3_K or Q4_K, 9 two of Q5_K, 6 two of Q6_K, and
    # 3 four of MXFP4 or Q8_0. Up to 8 tokens experts run in a variant that loads rows one by one.
    BackEnd(
        "llama.cpp-vulkan",
        (8, 8),
        ("amd", "nvidia", "battlemage"),
        tile=32.0,
        unpacking={"3bit": 3.5, "mxfp4": 0.75, "5bit": 4.0, "6bit": 3.0, "8bit": 0.75},
        repeats=True,
        variants={"2025": _ONE_TOKEN},
    ),
    # A further row takes 0.7 of a step on an M1 Ultra, as if its weights were read again, and 0.17
    # on an M3 Ultra. With an MTP layer of four bits two drafts take 2.7 ms on an M5 Max, what
    # reading their weights takes, and 2.7 are between verification and the next round
    # (lablup/mlxcel 1185; 10.6 and 10.5 with one in bf16). Layers take long on chips before the M4:
    # 0.3 ms of a mixture of experts on an M1 Max and 0.1 on an M4 Pro (bstnxbt/dflash-mlx 32,
    # mlx-dspark), 0.23 of a dense model on an M1 Ultra.
    BackEnd(
        "mlx-m1", chips=("apple-m1", "apple-m2"), typical=_QMV | _LONG_LAYERS, rereads=True, **_MLX
    ),
    BackEnd("mlx-m3", chips=("apple-m3",), typical=_QMV | _LONG_LAYERS, **_MLX),
    BackEnd("mlx-m4", chips=("apple-m4", "apple-m5"), typical=_QMV, **_MLX),
)


def engine_of(end: BackEnd, values: Mapping[str, float]) -> EngineProfile:
    """Return the engine that parameters make of a back end."""
    few, few_experts = end.few_rows
    # MLX has one template of kernels for all widths.
    widest = 9.0 if end.framework == "mlx" else 7.5
    quants: dict[str, Any] = {"bits": widest, "memory_share": values["memory.quants"]}
    values = dict(values)
    for name, other in end.same.items():
        values[name] = values[other] if isinstance(other, str) else other
    # Kernels of vectors are built for up to four rows, and for more with fewer threads for each.
    kernels = {
        f"{name}-{kind}": RowKernel(
            rows=rows,
            compute_frac=share
            * values[f"vector.{kind}"]
            * (1.0 if kind == "16bit" else end.integers),
            repeats=end.rereads,
            **of,
        )
        for name, rows, share in (("vector", 4.0, 1.0), ("wide", few, values["vector.wide"]))
        for kind, of in (("quants", quants), ("8bit", {"bits": 9.0}), ("16bit", {}))
    }
    for kind, bits in (("quants", widest), ("8bit", 9.0), ("16bit", None)):
        kernels[f"experts-vector-{kind}"] = RowKernel(
            of="experts",
            rows=float(few_experts) if end.repeats else 1.0,
            bits=bits,
            compute_frac=values["experts.one"] * (1.0 if kind == "16bit" else end.integers),
            memory_share=values["memory.quants"],
            repeats=True,
        )
    for name, bits in FORMATS.items():
        unpacking = end.unpacking.get(name, 0.0) / values["unpack"]
        grows = None if bits is None else end.widest_tile
        if name in end.unpacking or name in _DENSE:
            kernels[f"matrix-{name}"] = RowKernel(
                bits=bits,
                compute_frac=1
                / (1 / values["matrix.quants" if bits else "matrix.16bit"] + unpacking),
                memory_share=values["memory.quants"] if bits and bits <= widest else 1.0,
                tile=end.tile,
                widest_tile=grows,
                busy_outputs=end.busy_outputs if bits else None,
            )
        for size, rows in (("few", float(few_experts)), ("many", None)):
            is_taken = rows is not None and (end.repeats or rows == 1)
            if not is_taken and (name in end.unpacking or bits is None):
                kernels[f"experts-{size}-{name}"] = RowKernel(
                    of="experts",
                    rows=rows,
                    bits=bits,
                    compute_frac=1 / (1 / values[f"experts.{size}"] + unpacking),
                    tile=end.expert_tile,
                    widest_tile=grows,
                )
    return EngineProfile(
        name=end.name,
        framework=end.framework,
        memory_frac=values["memory"],
        kind_memory_frac={"attention": values["memory.attention"]},
        overlap_norm=1.0,
        layer_overhead_s=values["layer_s"],
        layer_kind_overhead_s={"experts": values["layer_s.experts"]},
        row_kernels=kernels,
        expert_locality=ExpertLocality(run=min(1.0, values["locality"]), batch=0.909),
        draft_pass_overhead_s=values["draft_pass_s"],
        round_overhead_s=values["round_s"],
    )


def builds_of(end: BackEnd, values: Mapping[str, float]) -> EngineOf:
    """Return which engine predicts a measurement, of those that parameters make of all builds."""
    engines = {build.name: engine_of(build, values) for build in end.builds}
    return lambda point: engines[point.engine or ""]


#: Models whose kernels moved by half between builds of a few weeks (76 to 50 ms a token of
#: DeepSeek-V4-Flash under Vulkan): no fit counts them.
_MOVING: Final = ("deepseek-ai/DeepSeek-V4-Flash-0731",)

#: What an ordinary residual is, as a share: builds and drivers of a few months lie so far apart. Of
#: passes it is the root of the mean square that the fits leave.
_ORDINARY: Final = {"pass": 0.14, "step": 0.05, "depth": 0.02, "speedup": 0.05}


#: The same of speedups with a file whose mix of formats is none of llama.cpp's (UD, XL): what their
#: drafts read is not known.
_ORDINARY_OF_A_MIX: Final = 0.1


def _ordinary(score: Scored) -> float:
    unknown = score.kind == "speedup" and score.point.source == BASELINES
    return _ORDINARY_OF_A_MIX if unknown else _ORDINARY[score.kind]


def _ideal(_point: Measurement) -> EngineProfile:
    return IDEAL_ENGINE


def fit(
    end: BackEnd, points: Sequence[Measurement], start: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the parameters of a back end that fit its measurements best.

    Parameters
    ----------
    end, points
        The back end, and what was measured of it.
    start
        Where to begin; what is typical if None.
    """
    groups: dict[object, list[Scored]] = defaultdict(list)
    settled = [point for point in points if point.model not in _MOVING]
    for score in local_scores(settled, _ideal):
        point = score.point
        shape = (point.model, point.hardware, point.quantization, point.method, point.draft_len)
        place = None if point.drafts else point.context_len
        build = point.engine_version if score.kind == "depth" else ""
        groups[shape, point.verify_len, place, build].append(score)
    # The one in the middle stands for all builds and prompts of a shape.
    chosen = [
        sorted(group, key=attrgetter("measured"))[(len(group) - 1) // 2]
        for group in groups.values()
    ]
    first = [score.point for score in chosen]
    measured = np.log([score.measured for score in chosen])
    noise = np.array([_ordinary(score) for score in chosen])
    if not first:
        return typical(end)
    places = {id(point): place for place, point in enumerate(first)}

    def residuals(moved: Array) -> Array:
        found = np.empty(len(first))
        for score in local_scores(first, builds_of(end, values_at(end, moved))):
            found[places[id(score.point)]] = score.predicted
        return np.asarray((np.log(found) - measured) / noise)

    widths = np.array([width for _, width in PARAMETERS.values()])
    usual = typical(end)
    begin = np.log([(start or usual)[name] / value for name, value in usual.items()])
    solution = least_squares(residuals, begin, widths, max_nfev=5 if start else 12)
    return values_at(end, solution.x)


def typical(end: BackEnd) -> dict[str, float]:
    """Return where a fit of a back end starts."""
    return {name: end.typical.get(name, value) for name, (value, _) in PARAMETERS.items()}


def values_at(end: BackEnd, moved: Array) -> dict[str, float]:
    """Return parameters by the logarithms of their distances from where the fit starts."""
    start = typical(end).items()
    return {name: value * float(np.exp(x)) for (name, value), x in zip(start, moved, strict=True)}


#: Half-width of a band that few machines speak for, in widths of what they show.
_STRANGERS: Final = 1.5


def local_content(
    fits: Mapping[tuple[str, str | None], Mapping[str, float]],
) -> dict[str, Any]:
    """Return the mapping that `specroof.hardware.profile.parse_local_engines` reads."""
    ends = {build.name: build for end in BACK_ENDS for build in end.builds}
    made = {
        (build.name, without): engine_of(
            build, {key: float(f"{x:.3g}") for key, x in found.items()}
        )
        for end in BACK_ENDS
        for (name, without), found in fits.items()
        if name == end.name
        for build in end.builds
    }

    def used(point: Measurement) -> EngineProfile:
        name = point.engine or ""
        unseen = (name, None if point.source == REPORTS else point.model)
        return made.get(unseen, made[name, None])

    scores = local_scores([point for point in load_local() if point.engine in ends], used)
    shipped = {}
    for name, end in ends.items():
        alike = [one for one in scores if ends[one.point.engine or ""].framework == end.framework]
        step = _band(alike, ("pass", "step"))
        shipped[name] = replace(
            made[name, None],
            bands={"other": _band(alike, ("speedup",))},
            served_bands={"tpot_s": {"any": step}, "tokens_per_s": {"any": step}},
            reach=_reach([score for score in scores if score.point.engine == name]),
        )
    return {
        "engines": written_engines(shipped),
        "back_ends": {name: list(end.chips) for name, end in ends.items()},
        "collective": COLLECTIVE,
        "left_out": {
            name: written_engines(
                {m: made[key] for key in made if key[0] == name and (m := key[1])}
            )
            for name in ends
        },
    }


def _band(scores: Sequence[Scored], kinds: Sequence[str]) -> Band:
    """Return where four of five measurements lie around predictions, and half as much on top."""
    misses = [abs(np.log(one.predicted / one.measured)) for one in scores if one.kind in kinds]
    errors = [one.error for one in scores if one.kind in kinds]
    width = _STRANGERS * float(np.quantile(misses, 0.8))
    return Band(
        width=round(width, 3),
        mean_error=round(float(np.mean(errors)), 3),
        points=len(misses),
        batch_size=1.0,
        context_len=32832.0,
    )


def _reach(scores: Sequence[Scored]) -> Reach:
    """Return what measurements of a back end cover."""
    words: dict[str, set[str]] = defaultdict(set)
    for score in scores:
        point = score.point
        words["chips"].add(chip_of(point.hardware or "").name)
        for name, kinds in deployment_words(served_of(point, IDEAL_ENGINE)).items():
            words[name].update(kinds)
    known: dict[str, Any] = {name: tuple(sorted(kinds)) for name, kinds in words.items()}
    if any(score.kind == "speedup" for score in scores):
        known |= {"drafters": ("mtp",), "drafted_batch_size": 1.0, "drafted_context_len": 1024.0}
    return Reach(
        engines=("llama.cpp", "mlx"),
        batch_size=1.0,
        context_len=65600.0,
        **known,
    )


def main() -> None:
    """Fit, print and, where --write is given, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write what the package reads")
    parser.add_argument("--without", metavar="TABLE", help="errors of a table that no fit has seen")
    arguments = parser.parse_args()
    points = [point for point in load_local() if point.source != REPORTS]
    own = {
        end.name: [one for one in points if one.engine in {build.name for build in end.builds}]
        for end in BACK_ENDS
    }
    if arguments.without:
        for end in BACK_ENDS:
            kept, unseen = (
                [one for one in own[end.name] if (one.source == arguments.without) is seen]
                for seen in (False, True)
            )
            if unseen:
                print(*local_errors(local_scores(unseen, builds_of(end, fit(end, kept)))), sep="\n")
        return
    whole = in_processes(lambda task: fit(BACK_ENDS[task], own[BACK_ENDS[task].name]), len(own))
    fits: dict[tuple[str, str | None], dict[str, float]] = {
        (end.name, None): values for end, values in zip(BACK_ENDS, whole, strict=True)
    }
    tasks = [
        (end, model)
        for end in BACK_ENDS
        for model in sorted(
            {str(one.point.model) for one in local_scores(own[end.name], _ideal)} - {*_MOVING}
        )
    ]

    def fitted(task: int) -> dict[str, float]:
        end, without = tasks[task]
        others = [point for point in own[end.name] if point.model != without]
        return fit(end, others, fits[end.name, None])

    found = in_processes(fitted, len(tasks))
    for (end, model), values in zip(tasks, found, strict=True):
        fits[end.name, model] = values
    for name in PARAMETERS:
        shown = [f"{fits[end.name, None][name]:10.4g}" for end in BACK_ENDS]
        print(f"{name:24s}", *shown)
    content = local_content(fits)
    if arguments.write:
        TARGET.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
