"""Shares of the peaks that published kernels reach, chip by chip; what the generic profile is from.

Reads the timings of aiconfigurator (``pip download --no-deps aiconfigurator-core==0.12.0``, unzip
it) and prints, for each chip and engine, medians of measured over possible:

- memory, weights: matmuls of at most 16 rows whose weights hold at least 256 MB, more than a cache;
- memory, cache: decode attention over at least 256 MB of keys and values;
- arithmetic: matmuls of at least 4096 in each direction, by dtype; prompts of at least 4096 tokens;
- an all-reduce: seconds of a short one, seconds of each further device, share of the link.

Needs pandas and pyarrow: ``python benchmarks/kernel_shares.py FOLDER``.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from specroof import load_hardware
from specroof.hardware.profile import HardwareProfile

#: Folders of the data, and the chips that they were measured on.
CHIPS = {
    "a100_sxm": "a100-80gb",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
    "gb200": "gb200",
    "gb300": "gb300",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000",
    "b60": "arc-pro-b60",
}
DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "fp4"}
BYTES = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
MILLI = 1e-3
LARGE_BYTES = 256e6


def newest(folder: Path, place: str, name: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield engine with version, and the rows of the newest file of that name."""
    found: dict[str, Path] = {}
    for path in sorted(folder.glob(f"**/data/{place}/*/*/*/{name}")):
        found[path.parts[-3]] = path
    for engine, path in found.items():
        yield f"{engine} {path.parts[-2]}", pd.read_parquet(path)


def matmul_shares(rows: pd.DataFrame, chip: HardwareProfile) -> Iterator[tuple[str, float, int]]:
    """Yield what was measured, the median share, and of how many timings."""
    for dtype, rate in DTYPES.items():
        mine = rows[rows.gemm_dtype == dtype]
        weights = mine.n * mine.k * BYTES[dtype]
        thin = mine[(mine.m <= 16) & (weights >= LARGE_BYTES)]
        if len(thin):
            moved_s = thin.n * thin.k * BYTES[dtype] / chip.peak.memory_bytes_per_s
            yield f"memory {rate}", float((moved_s / (thin.latency * MILLI)).median()), len(thin)
        wide = mine[(mine.m >= 4096) & (mine.n >= 4096) & (mine.k >= 4096)]
        if len(wide) and rate in chip.peak.flops_per_s:
            least_s = 2.0 * wide.m * wide.n * wide.k / chip.peak.flops_per_s[rate]
            yield f"compute {rate}", float((least_s / (wide.latency * MILLI)).median()), len(wide)


def full_attention(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a bf16 cache and without a window; older tables know no windows."""
    rows = rows[rows.kv_cache_dtype == "bfloat16"]
    return rows[rows.window_size == 0] if "window_size" in rows else rows


def decode_share(rows: pd.DataFrame, chip: HardwareProfile) -> tuple[float, int] | None:
    """Return the median share of the memory in long decodes with grouped keys and values."""
    mine = full_attention(rows)
    mine = mine[(mine.num_heads <= 8 * mine.num_key_value_heads) & (mine.head_dim == 128)]
    cached = 4.0 * mine.batch_size * (mine.step + 1) * mine.num_key_value_heads * mine.head_dim
    mine, cached = mine[cached >= LARGE_BYTES], cached[cached >= LARGE_BYTES]
    if not len(mine):
        return None
    share = cached / chip.peak.memory_bytes_per_s / (mine.latency * MILLI)
    return float(share.median()), len(mine)


def prompt_share(rows: pd.DataFrame, chip: HardwareProfile) -> tuple[float, int] | None:
    """Return the median share of the bf16 peak of causal attention over long prompts."""
    mine = full_attention(rows)
    mine = mine[(mine.isl >= 4096) & (mine.head_dim == 128) & (mine.num_heads >= 8)]
    if not len(mine):
        return None
    flops = 4.0 * mine.batch_size * mine.num_heads * mine.head_dim * mine.isl**2 / 2
    share = flops / chip.peak.flops_per_s["bf16"] / (mine.latency * MILLI)
    return float(share.median()), len(mine)


def all_reduce(rows: pd.DataFrame, chip: HardwareProfile) -> tuple[float, float, float] | None:
    """Return seconds of a short all-reduce, of each further device, and the share of the link."""
    link = chip.interconnect
    graph = rows[~rows.kernel_source.str.contains("eager")]
    graph = graph[(graph.message_size >= 1024) & (graph.message_size <= 2**24)]
    if link is None or graph.num_gpus.nunique() < 2:
        return None
    seconds = graph.latency.to_numpy() * MILLI
    devices, size = graph.num_gpus.to_numpy(), graph.message_size.to_numpy()
    columns = np.array([
        np.ones(len(graph)), devices - 1.0,
        2 * (devices - 1) / devices * size / link.link_bytes_per_s,
    ])  # fmt: skip
    (short_s, device_s, slowness), *_ = np.linalg.lstsq(
        (columns / seconds).T, np.ones(len(graph)), rcond=None
    )
    return float(short_s), float(device_s), float(1 / slowness)


def lines(folder: Path, place: str, chip: HardwareProfile) -> Iterator[str]:
    """Yield what each engine's kernels reach on one chip."""
    for engine, rows in newest(folder, place, "gemm_perf.parquet"):
        for what, share, n in matmul_shares(rows, chip):
            yield f"{engine:20s} {what:14s} {share:.2f}  ({n})"
    for file, what, share_of in (
        ("generation_attention_perf.parquet", "memory cache", decode_share),
        ("context_attention_perf.parquet", "compute prompt", prompt_share),
    ):
        for engine, rows in newest(folder, place, file):
            found = share_of(rows, chip)
            if found:
                yield f"{engine:20s} {what:14s} {found[0]:.2f}  ({found[1]})"
    for engine, rows in newest(folder, place, "custom_allreduce_perf.parquet"):
        exchange = all_reduce(rows, chip)
        if exchange:
            short_s, device_s, share = exchange
            seconds = f"{short_s * 1e6:.1f} us, {device_s * 1e6:.2f} us a device"
            yield f"{engine:20s} all-reduce     {seconds}, {share:.2f} of the link"


def main() -> None:
    """Print every share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the package was unzipped")
    folder = parser.parse_args().folder
    for place, name in CHIPS.items():
        for line in lines(folder, place, load_hardware(name)):
            print(f"{name:12s} {line}")


if __name__ == "__main__":
    main()
