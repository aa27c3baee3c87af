"""Kernels that layers with experts have, distilled from published timings of TensorRT-LLM.

    python benchmarks/expert_kernels.py FOLDER [--write]

Reads the tables of aiconfigurator (``pip download --no-deps aiconfigurator-core==0.12.0``, unzip
it) and prints, chip by chip, what `fitting.kernels` reads; with ``--write`` it also writes
``benchmarks/fitting/expert_kernels.json``:

- the fused experts of a layer by the dtype of their arithmetic, with routing by a power law, as
  `specroof.hardware.engine.ExpertKernel` has them:

      t = t0 + E t1 + hypot(M / (q W), F / (f C))

  with E the experts that the device holds; M and F are those of the fullest device where experts
  are spread. The errors are those of models held out: each hidden width, number of experts and top
  k in turn. Then how f grows with the rows of each expert beyond 512 tokens: of 8192 that decode,
  and, of experts that are not spread, of prompts of up to 16384, as
  `specroof.hardware.engine.ExpertTile` has it;
- what a layer of latent attention takes on top of one of grouped queries: the two products that
  absorb its up-projection, one matrix more, and the longer kernel;
- the floor of a matrix, of which layers with experts have others than those with a dense
  feed-forward;
- of other servers, experts whose weights alone are int4, over the chips of a family;
- the indexer of a layer of DeepSeek-V3.2 or GLM-5.

Needs SciPy and pyarrow.
"""

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from fitting.parameters import ENGINES, FAMILIES
from kernel_curves import columns, newest
from specroof import load_hardware
from specroof.architecture.base import WEIGHT_FORMATS, Routing
from specroof.architecture.experts import distinct_experts, fullest_device
from specroof.hardware.engine import ExpertTile
from specroof.hardware.profile import HardwareProfile
from specroof.latency.pass_seconds import FULL_TILE, tiled_share

Floats: TypeAlias = npt.NDArray[np.float64]
Table: TypeAlias = dict[str, npt.NDArray[Any]]

SOURCE: Final = "aiconfigurator-core 0.12.0, https://pypi.org/project/aiconfigurator-core/0.12.0"
FRAMEWORK: Final = "trtllm"
#: Kernels that it runs and tables of others time. Experts in fp8 blocks on Blackwell are
#: TRTLLM-Gen's from 1.2 on, too: 0.050 ms (DeepSeek-R1 on 8 B200, 4 tokens) where DeepGEMM, of its
#: own table and of former releases, takes 0.134. Spread over 8, 1024 tokens take DeepGEMM 0.287 ms
#: and TRTLLM-Gen 0.457: servers are taken to run the faster one. Those in mxfp4 on Hopper are
#: Triton's, of which its own table has no tensor-parallel parts. Those in nvfp4 on Blackwell are
#: TRTLLM-Gen's, which its own tables of B300 and GB300 lack: the same kernel takes 0.95 to 0.98 of
#: its time on B200 and GB200 there, and CUTLASS's, which they have, 1.6 to 2.2 times as long as it.
BLOCKS = ("fp8", "sglang", "sglang_flashinfer_trtllm_moe")
GENERATED: Final = "moe_torch_flow_min_latency"
MXFP4 = ("fp4", "vllm", "vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic")
OUTPUT: Final = Path(__file__).parent / "fitting" / "expert_kernels.json"
#: Folders of the data, and the chips that they were measured on.
CHIPS: Final = {
    "a100_sxm": "a100-80gb",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
    "gb200": "gb200",
    "gb300": "gb300",
}
#: Formats in the data that count for a dtype of arithmetic, and bytes of a weight with its scales.
#: Chips without fp4 multiply such weights in bf16.
FORMATS: Final = {
    "bf16": {"bfloat16": 2.0},
    "fp8": {"fp8_block": 1.0},
    "fp4": {"nvfp4": 0.5625, "w4a8_mxfp4_mxfp8": 0.53125, "w4a16_mxfp4": 0.53125},
}
#: Of weights that are multiplied in a wider dtype by kernels of their own, Marlin's on Hopper. The
#: one model that the newest tables have, Kimi-K2.5, has a bf16 scale for each 32 of them.
WEIGHT_ONLY: Final = {"int4": {"int4_wo": 0.5625}}
WITHOUT_FP4: Final = ("w4a16_mxfp4",)
ROUTING: Final = "power_law_1.01"
#: Tokens routed by a power law visit as many experts as so many unrelated ones.
EXPONENT: Final = 0.909
#: Tokens that the curve is fitted to, its growth as requests decode, and that over prompts: more
#: than the first number, and no more than the second.
FEW: Final = (0, 512)
DECODED: Final = (512, 8192)
#: Of prompts with experts that are spread by a power law, where a device has most of them, models
#: held out would be 12 to 57 % off at the median, not 6 to 38.
PROMPTS: Final = (512, 16384)
#: The fewest experts and rows of a device's part of one.
EXPERTS, WIDTH = 32, 128
#: Where fits of tiles start, in rows and share of the peak, and their bounds.
TILE: Final = (30.0, 0.3)
TILE_BOUNDS: Final = ((0.1, 0.02), (1e4, 1.0))
#: Where fits start, and their bounds: floor, seconds per expert, shares of memory and peak.
START: Final = (15e-6, 0.1e-6, 0.8, 0.2)
BOUNDS: Final = ((1e-6, 1e-10, 0.1, 1e-3), (2e-4, 2e-6, 1.1, 1.0))
#: Sequences up to which indexers count.
INDEXED: Final = 32
#: Products of so few rows with so few weights take their floor.
FLOOR_ROWS, FLOOR_WEIGHTS = 8, 3e6


def amounts(
    table: Table, chip: HardwareProfile, dtype: str, tokens_of: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Return what decides about timings of so many tokens, and what model they are of.

    Returns
    -------
    tuple of arrays
        Experts on a device, seconds at the peaks of memory and arithmetic, seconds taken, and rows
        of an expert, shape (5, timings); hidden width, experts and top k, shape (3, timings).
    """
    formats = (FORMATS | WEIGHT_ONLY)[dtype]
    if dtype == "fp4":
        own = dtype in chip.peak.flops_per_s
        formats = {name: size for name, size in formats.items() if own != (name in WITHOUT_FP4)}
    width = table["inter_size"] / table["moe_tp_size"]
    kept = np.isin(table["moe_dtype"], [*formats]) & (table["distribution"] == ROUTING)
    kept &= (table["num_experts"] >= EXPERTS) & (width >= WIDTH)
    kept &= (table["num_tokens"] > tokens_of[0]) & (table["num_tokens"] <= tokens_of[1])
    kept &= ~np.char.endswith(table["kernel_source"].astype(str), "nongated")
    if (
        tokens_of == PROMPTS or dtype in WEIGHT_ONLY
    ):  # spread ones fit no such curve: 18 % off at the median, not 12
        kept &= table["moe_ep_size"] == 1
    names = ("num_tokens", "topk", "num_experts", "hidden_size", "moe_ep_size", "latency")
    tokens, top_k, experts, hidden, spread, taken_ms = (table[name][kept] for name in names)
    each = np.array([formats[name] for name in table["moe_dtype"][kept]])
    setups = np.stack([tokens, top_k, experts, hidden, spread, width[kept], each], axis=1)
    # Of several kernels of a set-up the fastest.
    setups, which = np.unique(setups.astype(np.float64), axis=0, return_inverse=True)
    taken_s = np.full(len(setups), np.inf)
    np.minimum.at(taken_s, which.ravel(), taken_ms * 1e-3)
    tokens, top_k, experts, hidden, spread, width, each = setups.T
    visited, visits = np.zeros(len(setups)), np.zeros(len(setups))
    for n, k, devices in np.unique(setups[:, [2, 1, 4]], axis=0).astype(int).tolist():
        same = (experts == n) & (top_k == k) & (spread == devices)
        unrelated = tokens[same] ** EXPONENT
        hit = distinct_experts(unrelated, n, k)
        more = fullest_device(Routing(n, k, 0, unrelated, hit), devices)
        visited[same] = hit / devices * more[0]
        visits[same] = tokens[same] * k / devices * more[1]
    weights = 3 * hidden * width
    memory_s = each * visited * weights / chip.peak.memory_bytes_per_s
    multiplied = WEIGHT_FORMATS[dtype].compute_dtype
    compute_s = 2 * visits * weights / chip.arithmetic(multiplied, strict=False)[1]
    known = np.stack([experts / spread, memory_s, compute_s, taken_s, visits / visited])
    return known, setups[:, [3, 2, 1]].T


def seconds(curve: Floats, known: Floats, tile: Floats | None = None) -> Floats:
    """Return the seconds by a curve, and by a tile where one is given: see the module."""
    held, memory_s, compute_s, _, rows = known
    share = curve[3]
    if tile is not None:
        share = tiled_share(ExpertTile(rows=tile[0], compute_frac=tile[1]), rows, few=share)
    busy_s = np.hypot(memory_s / curve[2], compute_s / share)
    return np.asarray(curve[0] + held * curve[1] + busy_s)


def fitted(known: Floats) -> Floats:
    """Return the curve that fits timings best."""
    low, high = np.log(BOUNDS)

    def off(logs: Floats) -> Floats:
        return np.asarray(np.log(seconds(np.exp(logs), known) / known[3]))

    found = least_squares(off, np.log(START), loss="soft_l1", f_scale=0.1, bounds=(low, high))
    return np.asarray(np.exp(found.x))


def fitted_tile(curve: Floats, known: Floats) -> Floats:
    """Return rows and share of the tile that fits best, beside a curve of few tokens."""
    low, high = np.log(TILE_BOUNDS)

    def off(logs: Floats) -> Floats:
        return np.asarray(np.log(seconds(curve, known, np.exp(logs)) / known[3]))

    found = least_squares(off, np.log(TILE), loss="soft_l1", f_scale=0.1, bounds=(low, high))
    return np.asarray(np.exp(found.x))


def unseen(known: Floats, models: Floats, curve: Floats | None = None) -> dict[str, float]:
    """Return how far off models are that are held out in turn; nothing of fewer than three.

    Of more tokens, where a curve is given: it has seen the few tokens of all.
    """
    shapes, which = np.unique(models, axis=1, return_inverse=True)
    if shapes.shape[1] < 3:
        return {}
    parts = []
    for place in range(shapes.shape[1]):
        held_out = which.ravel() == place
        rest = known[:, held_out]
        others = known[:, ~held_out]
        taken_s = (
            seconds(fitted(others), rest)
            if curve is None
            else seconds(curve, rest, fitted_tile(curve, others))
        )
        parts.append(taken_s / rest[3] - 1)
    off = np.abs(np.concatenate(parts))
    shares = {"unseen_median": 0.5, "unseen_p90": 0.9}
    return {name: round(float(np.quantile(off, share)), 3) for name, share in shares.items()}


def rounded(names: Sequence[str], fit: Floats) -> dict[str, Any]:
    """Return fitted numbers by their names, to three digits."""
    return {name: float(f"{one:.3g}") for name, one in zip(names, fit, strict=True)}


def kernels(
    timed: Sequence[tuple[Table, HardwareProfile]], dtypes: Iterable[str] = FORMATS
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the experts of each dtype that was timed, on one chip or several together."""
    for dtype in dtypes:
        (known, models), *larger = (
            [np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)]
            for parts in (
                [amounts(table, chip, dtype, tokens_of) for table, chip in timed]
                for tokens_of in (FEW, DECODED, PROMPTS)
            )
        )
        if not known.size:
            continue
        curve = fitted(known)
        decoded = larger[0][0]
        decoded[4] = np.maximum(decoded[4] - FULL_TILE, 0.0)
        found = rounded(("floor_s", "expert_s", "memory_frac", "compute_frac"), curve)
        found |= {"tokens": DECODED[1], "timings": known.shape[1]} | unseen(known, models)
        names = {"decoded": ("rows", "many_frac"), "prompts": ("rows", "compute_frac")}
        for (name, fields), (more, of_more) in zip(names.items(), larger, strict=True):
            if more.size:
                tile = rounded(fields, fitted_tile(curve, more))
                found[name] = {"tile": tile, **unseen(more, of_more, curve)}
        yield dtype, found


def rows_of(table: Table, kept: npt.NDArray[np.bool_]) -> Table:
    """Return the rows of a table that are kept."""
    return {key: column[kept] for key, column in table.items()}


def median_s(table: Table, kept: npt.NDArray[np.bool_]) -> float:
    """Return the median of the timings that are kept."""
    return float(np.median(table["latency"][kept])) * 1e-3


def floors(folder: Path, place: str) -> tuple[float, float]:
    """Return the seconds of latent attention on top, and the floor of a matrix."""

    def timed(kernels: str, name: str) -> Table:
        return columns(newest(folder, place, kernels, FRAMEWORK, name))

    matrices, products = timed("gemm", "gemm"), timed("mla_bmm", "mla_bmm")
    small = (matrices["m"] <= FLOOR_ROWS) & (matrices["n"] * matrices["k"] < FLOOR_WEIGHTS)
    small &= np.minimum(matrices["n"], matrices["k"]) >= 256
    matrix_s = median_s(matrices, small & (matrices["gemm_dtype"] == "bfloat16"))
    few = (products["num_tokens"] <= 64) & (products["num_heads"] <= 32)
    dtype = "fp8" if (products["bmm_dtype"] == "fp8").any() else "bfloat16"
    few &= products["bmm_dtype"] == dtype
    absorbed_s = sum(
        median_s(products, few & (products["op_name"] == name))
        for name in ("mla_gen_pre", "mla_gen_post")
    )
    latent, grouped = timed("mla", "generation_mla"), timed("attention", "generation_attention")
    longer_s = 0.0
    for table, sign in ((latent, 1), (grouped, -1)):
        short = (table["batch_size"] <= 8) & (table["step"] <= 1100)
        short &= table["kv_cache_dtype"] == "bfloat16"
        if "head_dim" in table:
            short &= (table["num_key_value_heads"] <= 2) & (table["head_dim"] == 128)
            short &= table["window_size"] == 0
        longer_s += sign * median_s(table, short)
    return absorbed_s + matrix_s + max(longer_s, 0.0), matrix_s


def token_index_s(folder: Path) -> float:
    """Return the seconds of an indexer of tokens, as layers without one differ from those with one.

    Its matrices and keys are left out, which passes count themselves: some 2 us.
    """
    extra_s = []
    for path in folder.glob("**/sparse_attention/sglang/*/dsa_generation_module_perf.parquet"):
        table = columns(path)
        usual = (table["batch_size"] <= INDEXED) & (table["step"] >= 1024)
        usual &= table["step"] <= 16384
        names = ("architecture", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "step")
        with_s, without_s = (
            dict(
                zip(
                    zip(*(table[name][rows] for name in names), strict=True),
                    table["latency"][rows] * 1e-3,
                    strict=True,
                )
            )
            for kind in ("dsa_generation_module", "dsa_generation_module_skip_indexer")
            for rows in [usual & (table["op_name"] == kind)]
        )
        extra_s += [with_s[key] - without_s[key] for key in with_s.keys() & without_s.keys()]
    return float(np.median(extra_s)) - 2e-6


def main() -> None:
    """Print what is distilled, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the package was unzipped")
    parser.add_argument("--write", action="store_true")
    words = parser.parse_args()
    chips: dict[str, Any] = {}
    digest = hashlib.sha256()
    for place, name in CHIPS.items():
        path = max(
            words.folder.glob(f"**/data/{place}/moe/{FRAMEWORK}/*/moe_perf.parquet"),
            key=lambda found: found.stat().st_size,
        )
        digest.update(path.read_bytes())
        chip, table = load_hardware(name), columns(path)
        experts = dict(kernels([(table, chip)]))
        latent_s, matrix_s = floors(words.folder, place)
        former = {}
        if "fp4" in experts:
            blackwell = "fp4" in chip.peak.flops_per_s
            dtype, server, kernel = BLOCKS if blackwell else MXFP4
            beside = columns(newest(words.folder, place, "moe", server, "moe"))
            own = rows_of(beside, beside["kernel_source"].astype(str) == kernel)
            former = {dtype: experts[dtype]} if blackwell else {}
            either = {key: np.concatenate([table[key], own[key]]) for key in own if key in table}
            experts |= kernels([(either if blackwell else own, chip)], [dtype])
            if blackwell and GENERATED not in table["kernel_source"]:
                parts = (
                    rows_of(table, table["moe_dtype"] != "nvfp4"),
                    rows_of(own, own["moe_dtype"] == "nvfp4"),
                )
                experts |= kernels([(part, chip) for part in parts], ["fp4"])
        chips[name] = {
            "release": path.parts[-2],
            "latent_attention_s": float(f"{latent_s:.3g}"),
            "matrix_s": float(f"{matrix_s:.3g}"),
            "experts": experts,
            **({"former_experts": former} if former else {}),
        }
        print(name, json.dumps(chips[name]))
    servers: dict[str, Any] = {}
    for server, (family, relatives) in product(ENGINES, FAMILIES.items()):
        paths = {
            name: newest(words.folder, place, "moe", server, "moe")
            for place, name in CHIPS.items()
            if name in relatives
        }
        if not paths:
            continue
        for path in paths.values():
            digest.update(path.read_bytes())
        timed = [(columns(path), load_hardware(name)) for name, path in paths.items()]
        found = dict(kernels(timed, (*FORMATS, *WEIGHT_ONLY)))
        servers.setdefault(server, {})[family] = found
        print(server, family, json.dumps(found))
    token_s = float(f"{token_index_s(words.folder):.3g}")
    print("token_index_s", token_s)
    if words.write:
        head = {
            "made_by": "benchmarks/expert_kernels.py",
            "source": SOURCE,
            "sha256": digest.hexdigest(),
        }
        OUTPUT.write_text(
            json.dumps(
                {**head, "token_index_s": token_s, "chips": chips, "servers": servers},
                indent=1,
            )
            + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
