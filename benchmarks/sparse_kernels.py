"""Attention to picked tokens, distilled from published timings: tiles of heads, share of the peak.

    python benchmarks/sparse_kernels.py FOLDER [--write]

Reads the tables of aiconfigurator (``pip download --no-deps aiconfigurator-core==0.12.0``, unzip
it): whole attention modules of prompts, of DeepSeek-V3.2 and GLM-5 by the format of their cache and
of DeepSeek-V4. Prints what `specroof.hardware.engine.SparseKernel` has, by server and family of
chips; with ``--write`` it also writes ``benchmarks/fitting/sparse_kernels.json``.

A module takes

    t = a + p P + C / f + i I

with a of each model on each chip, and P, C and I the seconds at the peak of projections, attention
and indexer, C with the heads of a device in whole tiles. The tile, and whether each query takes as
many tokens as may be picked, are those with which the squares are least. Decoding runs in such a
kernel where its own timings are as long with few cached tokens; others wait for memory. Of
indexers the share 1 / i is that of SGLang's, which were timed behind long contexts.

Needs SciPy and pyarrow.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import nnls

from expert_kernels import CHIPS, SOURCE, Floats, Table
from fitting.parameters import FAMILIES
from kernel_curves import columns, newest
from specroof import load_hardware, load_model
from specroof.architecture.base import OpCost, PassSettings
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Block
from specroof.cost import ForwardPass, Options
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import ways

OUTPUT: Final = Path(__file__).parent / "fitting" / "sparse_kernels.json"
#: By the folders of the data.
SERVERS: Final = {"sglang": "sglang", "vllm": "vllm", "trtllm": "tensorrt-llm"}
#: Bundled models by the last words of those in the data.
MODELS: Final = {
    "DeepSeek-V3.2": "deepseek-ai/DeepSeek-V3.2",
    "GLM-5": "zai-org/GLM-5",
    "GLM-5-FP8": "zai-org/GLM-5",
    "DeepSeek-V4-Flash-FP8": "deepseek-ai/DeepSeek-V4-Flash",
    "DeepSeek-V4-Pro": "deepseek-ai/DeepSeek-V4-Pro",
    "DeepSeek-V4-Pro-FP8": "deepseek-ai/DeepSeek-V4-Pro",
}
#: Names of the tables, and tokens per compressed entry of the layers that they time.
TABLES: Final = {"dsa": None, "dsv4_csa": 4, "dsv4_hca": 128}
CACHES: Final = {"bfloat16": "bf16", "fp8": "fp8"}
TILES: Final = (1, 16, 32, 64, 128)
#: Tokens that the indexers of these models pick, and the share of a time that is as long.
PICKED: Final = 2048
ALIKE: Final = 0.75
#: What a choice must improve the error by, to be taken before a plainer one.
BETTER: Final = 0.95
#: The fewest tokens of a prompt: indexers are slower with many sequences of a few each.
LENGTH: Final = 1024
#: Timings that count, in units of the shortest: those of a few tokens are of the host.
LONGER: Final = 1.5


@dataclass(frozen=True, eq=False)
class Timed:
    """Modules that were timed on a chip, by the kernel that an engine has them by."""

    key: str
    heads: Floats
    projected_s: Floats
    attended_s: Floats
    slots: Floats
    indexed_s: Floats
    taken_s: Floats

    def shared_terms(self, tile: int, *, all_slots: bool) -> Floats:
        """Return seconds at the peak of projections, attention and indexer, shape (3, timings)."""
        tiles = np.ceil(self.heads / tile) * tile / self.heads
        attended_s = self.attended_s * tiles * (self.slots if all_slots else 1.0)
        return np.stack([self.projected_s, attended_s, self.indexed_s])


def modules(table: Table, chip: str, ratio: int | None) -> Iterator[Timed]:
    """Yield the modules of a table by kernel and model."""
    hardware = load_hardware(chip)
    names = np.array([str(name).rpartition("/")[2] for name in table["model"]])
    kept = (table["gemm_type"] == "fp8_block") & np.isin(names, [*MODELS])
    kept &= ~np.char.endswith(table["op_name"].astype(str), "skip_indexer")
    # SGLang attends short prompts densely.
    kept &= np.char.find(table["kernel_source"].astype(str), "dense") < 0
    kept &= table["isl"] >= LENGTH
    caches = table["kv_cache_dtype"].astype(str)
    for name, cache in product(dict.fromkeys(names), dict.fromkeys(caches)):
        rows = kept & (names == name) & (caches == cache)
        if not rows.any():
            continue
        rows &= table["latency"] > LONGER * table["latency"][rows].min()
        block, core = attention_of(MODELS[name], ratio)
        batch, length, step, heads, taken_ms = (
            table[column][rows].astype(np.float64)
            for column in ("batch_size", "isl", "step", "num_heads", "latency")
        )
        forward = ForwardPass(batch, length, step, settled=True)
        dtype = CACHES.get(cache, "fp8")
        ops = core.costs(PassSettings(forward, Options(index_dtype="fp8"), dtype, "fp32", "bf16"))
        attention = next(op for op in ops if op.picked is not None)
        indexer = [op for op in ops if op.kind == "indexer"]

        picked = attention.picked
        if picked is None:  # for the types alone
            continue
        multiplied = sum(
            linear.in_features
            * linear.out_features
            / linear.groups
            * (1.0 if ways(linear.shard, Placement(2))[0] == 1 else heads / core.n_heads)
            for linear in block.linears
        )
        fp8 = hardware.peak.flops_per_s["fp8"]
        yield Timed(
            picked.kernel,
            heads,
            np.asarray(2 * batch * length * multiplied / fp8),
            at_peak(attention, hardware) * heads / core.n_heads,
            np.broadcast_to(picked.slots, batch.shape),
            at_peak(indexer[0], hardware) if indexer else np.zeros(batch.shape),
            taken_ms * 1e-3,
        )


def at_peak(op: OpCost, hardware: HardwareProfile) -> Floats:
    """Return the seconds of an operation's arithmetic at the peak."""
    return np.asarray(op.flops / hardware.arithmetic(op.compute_dtype, strict=False)[1])


def attention_of(
    model: str, ratio: int | None
) -> tuple[Block, LatentAttention | CompressedAttention]:
    """Return the block and the core of a model's attention, with entries of so many tokens."""
    for _, block in load_model(model).counted_blocks:
        core = block.core
        if isinstance(core, LatentAttention | CompressedAttention) and ratio == getattr(
            core, "ratio", None
        ):
            return block, core
    raise LookupError(model)


def fitted(timed: list[Timed], tile: int, *, all_slots: bool) -> tuple[Floats, Floats]:
    """Return inverse shares of projections, attention and indexer, and the seconds of modules."""
    terms = np.concatenate([one.shared_terms(tile, all_slots=all_slots) for one in timed], axis=1)
    which = np.concatenate([np.full(one.heads.shape, place) for place, one in enumerate(timed)])
    rows = np.concatenate([terms, which == np.arange(len(timed))[:, None]])
    taken_s = np.concatenate([one.taken_s for one in timed])
    relative = (rows / taken_s).T
    scale = np.maximum(relative.max(axis=0), 1e-300)
    found = nnls(relative / scale, np.ones(len(taken_s)))[0] / scale
    return found[:3], rows.T @ found


def kernel(timed: list[Timed]) -> dict[str, Any]:
    """Return what fits modules of a kernel best, and how far off it is."""
    taken_s = np.concatenate([one.taken_s for one in timed])
    best: tuple[float, dict[str, Any]] = (np.inf, {})
    for tile, all_slots in product(TILES, (False, True)):
        found, seconds = fitted(timed, tile, all_slots=all_slots)
        off = np.abs(seconds / taken_s - 1)
        squares = float(np.sqrt(np.mean(off**2)))
        if squares < best[0] * BETTER and found[1] > 0:
            figures = {
                "head_tile": tile,
                "compute_frac": min(float(f"{1 / found[1]:.3g}"), 1.0),
                "all_slots": all_slots,
                "matrices": float(f"{found[0]:.3g}"),
                "indexer": float(f"{found[2]:.3g}"),
                "timings": len(taken_s),
                "median": round(float(np.median(off)), 3),
                "p90": round(float(np.quantile(off, 0.9)), 3),
            }
            best = squares, figures
    return best[1]


def decodes_all_slots(table: Table) -> dict[str, bool]:
    """Return, by the format of the cache, whether decoding takes as long with a few cached tokens.

    Of as many sequences as were timed with so many tokens as may be picked.
    """
    names = np.array([str(name).rpartition("/")[2] for name in table["model"]])
    found = {}
    for cache, dtype in CACHES.items():
        rows = (table["kv_cache_dtype"] == cache) & np.isin(names, ["GLM-5", "GLM-5-FP8"])
        rows &= (table["gemm_type"] == "fp8_block") & (table["op_name"] == "dsa_generation_module")
        rows &= table["num_heads"] == table["num_heads"][rows].min(initial=1 << 20)
        full = rows & (table["step"] >= PICKED)
        if full.any():
            rows &= table["batch_size"] == table["batch_size"][full].max()
            few_ms, full_ms = (
                table["latency"][rows & which].min()
                for which in (table["step"] < PICKED, table["step"] >= PICKED)
            )
            found[dtype] = bool(few_ms > ALIKE * full_ms)
    return found


def main() -> None:
    """Print what is distilled, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the package was unzipped")
    parser.add_argument("--write", action="store_true")
    words = parser.parse_args()
    digest = hashlib.sha256()
    servers: dict[str, Any] = {}
    for (folder, server), family in product(SERVERS.items(), FAMILIES):
        by_key: dict[str, list[Timed]] = {}
        decoding: dict[str, bool] = {}
        for (place, chip), (name, ratio) in product(CHIPS.items(), TABLES.items()):
            if chip not in FAMILIES[family]:
                continue
            try:
                path = newest(
                    words.folder, place, "sparse_attention", folder, f"{name}_context_module"
                )
            except ValueError:  # nobody timed it
                continue
            digest.update(path.read_bytes())
            if ratio is None:
                decoded = path.with_name(path.name.replace("context", "generation"))
                digest.update(decoded.read_bytes())
                decoding |= decodes_all_slots(columns(decoded))
            for timed in modules(columns(path), chip, ratio):
                by_key.setdefault(timed.key, []).append(timed)
        for key, timed_ones in by_key.items():
            found = kernel(timed_ones)
            found["decodes"] = decoding.get(key, False)
            servers.setdefault(server, {}).setdefault(family, {})[key] = found
            print(server, family, key, json.dumps(found), flush=True)
    indexers = {
        family: float(f"{2 / (kernels['bf16']['indexer'] + kernels['fp8']['indexer']):.3g}")
        for family, kernels in servers["sglang"].items()
    }
    print("indexers", json.dumps(indexers))
    if words.write:
        head = {
            "made_by": "benchmarks/sparse_kernels.py",
            "source": SOURCE,
            "sha256": digest.hexdigest(),
        }
        OUTPUT.write_text(
            json.dumps({**head, "indexers": indexers, "servers": servers}, indent=1) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
