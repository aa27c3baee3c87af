"""What matmuls, fused expert kernels and latent attention reach, from published timings.

Reads the timings of aiconfigurator (``pip download --no-deps aiconfigurator-core==0.12.0``, unzip
it) and fits, for each chip and engine, the seconds of a kernel that `specroof` prices:

    t = hypot(bytes / (m W), FLOP / (s(r) C)) + floor,  1/s(r) = phi/few + (1 - phi)/many

with phi = r0 / (r0 + r) and r rows per expert that is hit; of plain matmuls s is one share, and the
2 of the hypotenuse is fitted once for bf16. The medians are the constants in
`benchmarks/fitting/parameters.py`. Needs SciPy and pyarrow:
``python benchmarks/timed_kernels.py FOLDER``.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet
from packaging.version import Version
from scipy.optimize import least_squares

from fitting.parameters import chip_family, fitted_parameters
from specroof import load_hardware
from specroof.architecture.experts import distinct_experts
from specroof.hardware.engine import ExpertTile
from specroof.hardware.profile import HardwareProfile
from specroof.latency.pass_seconds import overlapped_s, tiled_share

Floats = npt.NDArray[np.float64]

#: Folders of the data, and the chips that they were measured on.
CHIPS = {
    "a100_sxm": "a100-80gb",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
}
ENGINES = ("sglang", "vllm")
#: Where a fit starts: share of the memory's bytes/s, few, many, r0, seconds of the floor.
START = (0.85, 0.05, 0.5, 32.0, 1e-5)
#: Tokens were routed by a power law there: taken as an exponent across the batch, as of unrelated
#: sequences of a served model (0.909, see `specroof.architecture.experts`).
BATCH_EXPONENT = 0.9
#: Heads of latent attention that a kernel has to have before arithmetic is the limit.
HEADS = 128
LATENT_DIM, ROPE_DIM = 512, 64
#: Matmuls as verifications have them: rows, and elements of the matrix.
ROWS = 2048
ELEMENTS = (2048 * 2048, 8192 * 30_000)
#: By their names in the data: dtypes, and bytes of an element with its scales.
MATMULS = {
    "bfloat16": ("bf16", 2.0),
    "fp8": ("fp8", 1.0),
    "fp8_block": ("fp8", 1.0),
    "nvfp4": ("fp4", 0.5625),
}
#: A kernel whose floor is as long is another one that stands in (Triton, for block scales in vLLM).
STANDS_IN_S = 40e-6


def timings(folder: Path, name: str) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield chip, engine with its version, and the rows of each file of that name."""
    for place, chip in CHIPS.items():
        for path in sorted(folder.glob(f"**/data/{place}/*/*/*/{name}")):
            engine, version = path.parts[-3:-1]
            rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
            yield chip, f"{engine} {version}", rows


def dense_share(hardware: HardwareProfile) -> float:
    """Return the share of the bf16 peak that large matmuls are fitted to reach."""
    return fitted_parameters()[f"compute_frac.{chip_family(hardware)}"]


def matmul_fit(
    rows: list[dict[str, Any]], name: str, hardware: HardwareProfile, *, norm: float | None
) -> Floats | None:
    """Return share of memory, share of the peak, floor and norm; None without timings.

    Parameters
    ----------
    rows, name
        Timings of all dtypes, and which.
    hardware
        Where.
    norm
        p of `specroof.latency.pass_seconds.overlapped_s`; None to fit it too.
    """
    dtype, element_bytes = MATMULS[name]
    peak = hardware.peak.flops_per_s.get(dtype)
    asked = [
        (row["m"], row["n"], row["k"], row["latency"] * 1e-3)
        for row in rows
        if row["gemm_dtype"] == name
        and row["m"] <= ROWS
        and ELEMENTS[0] <= row["n"] * row["k"] <= ELEMENTS[1]
    ]
    if peak is None or not asked:
        return None
    m, n, k, seconds = np.array(asked, dtype=np.float64).T
    compute_s = 2 * m * n * k / peak
    moved_s = (element_bytes * n * k + 2 * m * (n + k)) / hardware.peak.memory_bytes_per_s

    def off(logs: Floats) -> Floats:
        memory, compute, floor_s, power = np.exp(logs)
        worked_s = overlapped_s(compute_s / compute, moved_s / memory, norm or power)
        return np.asarray(np.log((worked_s + floor_s) / seconds))

    start = np.log([0.85, 0.6, 4e-6, 2.0])
    return np.asarray(np.exp(least_squares(off, start, loss="soft_l1", f_scale=0.1).x))


def print_matmuls(folder: Path) -> None:
    """Print what matmuls reach with up to `ROWS` rows, and medians over each engine's newest."""
    print("matmuls: share of the memory and of the peak, floor; norm of bf16 if fitted too")
    dense, narrow = defaultdict(list), defaultdict(list)
    newest = {
        (chip, engine.split()[0]): (chip, engine, rows)
        for chip, engine, rows in sorted(
            timings(folder, "gemm_perf.parquet"), key=lambda one: Version(one[1].split()[1])
        )
    }
    for chip, engine, rows in newest.values():
        hardware = load_hardware(chip)
        free = matmul_fit(rows, "bfloat16", hardware, norm=None)
        wide = matmul_fit(rows, "bfloat16", hardware, norm=2.0)
        if free is None or wide is None:
            continue
        dense[chip_family(hardware)].append(wide[1])
        for name, (dtype, _) in MATMULS.items():
            found = wide if dtype == "bf16" else matmul_fit(rows, name, hardware, norm=2.0)
            if found is None:
                continue
            memory, share, floor_s, _ = found
            own = f"norm {free[3]:.2f}" if dtype == "bf16" else f"{share / wide[1]:.2f} of bf16"
            print(
                f"{chip:10s} {engine:20s} {name:10s} {memory:.2f} {share:.2f} "
                f"{floor_s * 1e6:3.0f} us  {own}"
            )
            if dtype != "bf16" and floor_s < STANDS_IN_S:
                narrow[dtype].append(share / wide[1])
    for family, shares in dense.items():
        print(f"median of {family}: {np.median(shares):.2f} of the bf16 peak")
    for dtype, shares in narrow.items():
        low, high = min(shares), max(shares)
        print(f"median of {dtype}: {np.median(shares):.2f} of bf16 ({low:.2f} to {high:.2f})")


def expert_amounts(rows: list[dict[str, Any]], hardware: HardwareProfile) -> Floats:
    """Return seconds at the peaks of arithmetic and memory, rows per expert, and seconds taken."""
    peak = hardware.peak.flops_per_s["bf16"]
    found = defaultdict(list)
    for row in rows:
        asked = row["moe_dtype"] == "bfloat16" and row["distribution"] == "power_law_1.01"
        if asked and row["moe_ep_size"] == 1 and row["moe_tp_size"] <= 4:
            n, k, experts = row["num_tokens"], row["topk"], row["num_experts"]
            if n < 16 or experts < 64:
                continue
            width = 3 * row["hidden_size"] * row["inter_size"] / row["moe_tp_size"]
            found[width, n, k, experts].append(row["latency"] * 1e-3)
    amounts = []
    for (width, n, k, experts), seconds in found.items():
        hit = float(distinct_experts(np.array(n**BATCH_EXPONENT), experts, k, "exact"))
        moved_s = 2 * hit * width / hardware.peak.memory_bytes_per_s
        amounts.append((2 * n * k * width / peak, moved_s, n * k / hit, float(np.median(seconds))))
    return np.array(amounts).T


def fitted_tile(amounts: Floats) -> tuple[Floats, float]:
    """Return share of memory, few, many, r0 and floor, and the mean error of the fit."""
    compute_s, memory_s, rows, taken_s = amounts

    def modelled(logs: Floats) -> Floats:
        memory, few, many, half, floor_s = np.exp(logs)
        share = tiled_share(ExpertTile(rows=half, compute_frac=many), rows, few=few)
        return np.asarray(np.hypot(memory_s / memory, compute_s / share) + floor_s)

    found = least_squares(
        lambda logs: np.log(modelled(logs) / taken_s), np.log(START), loss="soft_l1", f_scale=0.1
    )
    return np.exp(found.x), float(np.mean(np.abs(modelled(found.x) / taken_s - 1)))


def latent_share(rows: list[dict[str, Any]], hardware: HardwareProfile) -> float | None:
    """Return the median share of the bf16 peak of long decodes, less what memory takes."""
    shares = []
    reached = memory_share(rows, hardware)
    for row in rows:
        tokens = row["batch_size"] * (row["step"] + 1)
        if row["kv_cache_dtype"] != "bfloat16" or row["num_heads"] != HEADS or tokens < 1e6:
            continue
        flop = 2 * HEADS * (2 * LATENT_DIM + ROPE_DIM) * tokens
        seconds = row["latency"] * 1e-3
        moved_s = 2 * (LATENT_DIM + ROPE_DIM) * tokens / hardware.peak.memory_bytes_per_s
        waited = 1 - (moved_s / reached / seconds) ** 2
        if waited > 0:
            shares.append(flop / seconds / waited**0.5 / hardware.peak.flops_per_s["bf16"])
    return float(np.median(shares)) if shares else None


def memory_share(rows: list[dict[str, Any]], hardware: HardwareProfile) -> float:
    """Return the largest share of memory bytes/s in long decodes of few heads."""
    shares: list[float] = [
        2 * (LATENT_DIM + ROPE_DIM) * row["batch_size"] * (row["step"] + 1)
        / (row["latency"] * 1e-3 * hardware.peak.memory_bytes_per_s)
        for row in rows
        if row["kv_cache_dtype"] == "bfloat16" and row["num_heads"] <= 64
    ]  # fmt: skip
    return max(shares)


def main() -> None:
    """Print the fits, and their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the package was unzipped")
    folder = parser.parse_args().folder
    print_matmuls(folder)
    print("experts, bf16: memory, few and many (shares of the peak), r0, floor, mean error")
    halves, manys, fews = [], [], []
    for chip, engine, rows in timings(folder, "moe_perf.parquet"):
        hardware = load_hardware(chip)
        amounts = expert_amounts(rows, hardware)
        if engine.split()[0] not in ENGINES or amounts.size == 0:
            continue
        (memory, few, many, half, floor_s), error = fitted_tile(amounts)
        print(
            f"{chip:10s} {engine:15s} {amounts.shape[1]:4d} timings  {memory:.2f} {few:.3f} "
            f"{many:.2f} {half:4.0f} rows {floor_s * 1e6:3.0f} us  {error:.1%}"
        )
        dense = dense_share(hardware)
        halves.append(half)
        fews.append(few / dense)
        manys.append(many / dense)
    print(
        f"medians, relative to large matmuls: few {np.median(fews):.3f} (logarithms "
        f"+-{np.std(np.log(fews)):.1f}), many {np.median(manys):.2f}; r0 {np.median(halves):.0f}"
    )
    print("latent attention, bf16, 128 heads: share of the peak, and relative to large matmuls")
    for chip, engine, rows in timings(folder, "generation_mla_perf.parquet"):
        hardware = load_hardware(chip)
        share = latent_share(rows, hardware)
        if share is not None:
            print(f"{chip:10s} {engine:20s} {share:.2f} {share / dense_share(hardware):.2f}")


if __name__ == "__main__":
    main()
