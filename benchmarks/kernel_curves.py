"""Kernels as they are timed alone, in the place of shares of the peaks, beside dense servers.

    python benchmarks/kernel_curves.py FOLDER

Reads the tables of aiconfigurator (``pip download --no-deps aiconfigurator-core==0.12.0``, unzip
it) and prints three things.

First, curves of dense matrices by format and of decode attention by cache, of a chip and framework:

    t = floor + ((n step)^p + (M / (q W))^p + (F / (s C))^p)^(1/p)

with M bytes at the memory's W bytes/s and F FLOP at the peak C; n is the inner dimension of a
matrix, and of attention, whose p is 1, the sequences times KV heads. The errors are those of shapes
held out: three in ten, whatever their rows, batch and context.

Second, time per token of dense models under vLLM and SGLang, each model left out in turn:
by the profiles that ship for models left out; with six overheads fitted anew around the shares of
the peaks of these profiles; and with as many around the curves. The floor of a matrix is that of
bf16: in those of other formats a server's quantising of tokens is timed as well, which it does in
the norm before. Loads are played through by the first; the others are corrected by as much as that
moves the first.

Third, what the errors of all loads are, and what is left of them with one factor for each model in
each set-up, which has then seen it. Needs SciPy and pyarrow.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.parquet
from packaging.version import Version
from scipy.optimize import least_squares

from fitting.served_fit import _Group
from specroof import load_hardware
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.experts import Experts
from specroof.arrays import grouped
from specroof.cost import ForwardPass
from specroof.engines.record import Record
from specroof.engines.record import _Group as PublishedGroup
from specroof.evidence import (
    Measurement,
    base_model,
    kind_of,
    load_measurements,
    load_served,
    measured_of,
    request_lengths,
)
from specroof.evidence.measurement import model_of
from specroof.hardware.engine import EngineProfile
from specroof.hardware.profile import HardwareProfile
from specroof.latency.model import Work, model_work
from specroof.latency.pass_seconds import OpWork, PassWork, pass_time
from specroof.latency.setup import Deployment, ways
from specroof.scoring.left_out import left_out_engine, left_out_served, published_cases
from specroof.scoring.scores import TRUSTED
from specroof.scoring.served import SETUP, implausible, plain_scores

Floats: TypeAlias = npt.NDArray[np.float64]
Columns: TypeAlias = dict[str, npt.NDArray[Any]]
#: Floor, step, shares of memory and peak, norm, by kind and dtype: ``"dense.bf16"``.
Curves: TypeAlias = dict[str, Floats]

FRAMEWORKS: Final = ("vllm", "sglang")
#: Folders of the data, the chips that they were measured on, and bytes of their second-level cache.
CHIPS: Final = {
    "h100_sxm": ("h100-sxm", 50e6),
    "h200_sxm": ("h200", 50e6),
    "b200_sxm": ("b200", 126e6),
}
#: Whose kernels a measured chip has.
NEAREST: Final = {
    "h100": "h100-sxm",
    "h20": "h200",
    "gh200": "h200",
    "h200": "h200",
    "b200": "b200",
}
#: Formats in the data: dtypes, and bytes of an element with its scales.
FORMATS: Final = {"bfloat16": ("bf16", 2.0), "fp8": ("fp8", 1.0), "nvfp4": ("fp4", 0.5625)}
#: Rows as graphs are captured for them: odd ones run slower, and no server has them.
ROWS: Final = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512, 1024)
#: Fewest elements, and fewest in each direction, of the matrices.
ELEMENTS, SIDE = 2**20, 256
BATCH, HEAD_DIMS = 512, (64, 128, 256)
#: Caches are timed again and again: what fits the second-level cache stays in it, and does not
#: between the layers of a model. Of such only what is next to nothing counts, as a floor.
NOTHING, BEYOND = 0.02, 1.3
HELD_OUT: Final = 0.3
#: Where curves start, and their bounds.
START: Final = (5e-6, 1e-9, 0.85, 0.5, 1.5)
BOUNDS: Final = ((1e-7, 1e-16, 0.1, 0.02, 1.0), (1e-3, 1e-6, 1.0, 1.0, 6.0))

#: Matrices in one kernel with the one before, and those whose inputs devices share.
JOINED: Final = ("k_proj", "v_proj")
ROW_PARALLEL: Final = ("o_proj", "down_proj")
#: Overheads that are fitted: where they start. Standard deviations of their logarithms are 1.
OVERHEADS: Final = {
    "pass_s.vllm": 0.2e-3,
    "pass_s.sglang": 0.2e-3,
    "layer_s": 30e-6,
    "layer_token_s": 0.1e-6,
    "sequence_s": 5e-6,
    "collective_s": 5e-6,
}
#: An ordinary residual, and loads of one model in one set-up that count in full.
ORDINARY, FULL_LOADS = 0.08, 16


def kernel_s(curve: Floats, steps: Any, memory_s: Any, compute_s: Any) -> Floats:
    """Return the seconds of kernels without their floor: see the module."""
    _, step_s, memory, compute, norm = curve
    parts = np.broadcast_arrays(steps * step_s, memory_s / memory, compute_s / compute)
    largest = np.maximum.reduce([*parts, np.full(parts[0].shape, 1e-30)])
    return np.asarray(largest * sum((part / largest) ** norm for part in parts) ** (1 / norm))


def fitted_curve(amounts: Sequence[Floats], norm: float | None) -> Floats:
    """Return the curve that fits steps, seconds at both peaks, and seconds taken, best."""
    low, high = (np.log(bounds) for bounds in BOUNDS)
    if norm is not None:
        low[-1], high[-1] = np.log(norm) - 1e-9, np.log(norm) + 1e-9

    def off(logs: Floats) -> Floats:
        curve = np.exp(logs)
        return np.asarray(np.log((kernel_s(curve, *amounts[:3]) + curve[0]) / amounts[3]))

    start = np.clip(np.log(START), low, high)
    found = least_squares(off, start, loss="soft_l1", f_scale=0.05, bounds=(low, high))
    return np.asarray(np.exp(found.x))


def curve_of(
    shapes: npt.NDArray[Any], amounts: Sequence[Floats], norm: float | None
) -> tuple[Floats, Floats]:
    """Return a curve, and its relative errors on the shapes that were held out, absolute."""
    known, which = np.unique(shapes, axis=0, return_inverse=True)
    held = (np.random.default_rng(0).random(len(known)) < HELD_OUT)[which.ravel()]
    seen = fitted_curve([part[~held] for part in amounts], norm)
    unseen = [part[held] for part in amounts]
    off = (kernel_s(seen, *unseen[:3]) + seen[0]) / unseen[3] - 1
    return fitted_curve(amounts, norm), np.abs(off)


def columns(path: Path) -> Columns:
    """Return the columns of a table."""
    table = pyarrow.parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def newest(folder: Path, place: str, kernels: str, framework: str, name: str) -> Path:
    """Return the table of the newest release."""
    found = folder.glob(f"**/data/{place}/{kernels}/{framework}/*/{name}_perf.parquet")
    return max(found, key=lambda path: Version(path.parts[-2]))


def chosen(table: Columns, rows: npt.NDArray[np.bool_], *names: str) -> list[Floats]:
    """Return columns where rows are asked for, as numbers."""
    return [table[name][rows].astype(np.float64) for name in names]


def dense_curves(table: Columns, chip: HardwareProfile) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the name of each format's curve, the curve and its errors."""
    n, k = table["n"], table["k"]
    suited = np.isin(table["m"], ROWS) & (np.minimum(n, k) >= SIDE) & (n * k >= ELEMENTS)
    for name, (dtype, element_bytes) in FORMATS.items():
        rows = suited & (table["gemm_dtype"] == name)
        if dtype not in chip.peak.flops_per_s or not rows.any():
            continue
        m, n, k, taken_ms = chosen(table, rows, "m", "n", "k", "latency")
        moved_s = (element_bytes * n * k + 2 * m * (n + k)) / chip.peak.memory_bytes_per_s
        amounts = (k, moved_s, 2 * m * n * k / chip.peak.flops_per_s[dtype], taken_ms * 1e-3)
        yield f"dense.{dtype}", *curve_of(np.stack([n, k], axis=1), amounts, None)


def attention_curves(
    table: Columns, chip: HardwareProfile, cache_bytes: float
) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the name of the curve of each format of the cache, the curve and its errors."""
    names = ("batch_size", "num_heads", "num_key_value_heads", "head_dim", "step", "latency")
    suited = (table["batch_size"] <= BATCH) & np.isin(table["head_dim"], HEAD_DIMS)
    # SGLang takes FlashInfer where it is told to.
    suited &= (table["window_size"] == 0) & (table["kernel_source"] != "flashinfer")
    for name, (dtype, element_bytes) in FORMATS.items():
        rows = suited & (table["kv_cache_dtype"] == name)
        batch, heads, kv_heads, width, step, taken_ms = chosen(table, rows, *names)
        cached = 2 * element_bytes * batch * kv_heads * width * (step + 1)
        cold = (cached < NOTHING * cache_bytes) | (cached > BEYOND * cache_bytes)
        if not cold.any():
            continue
        flop_s = 4 * batch * heads * width * (step + 1) / chip.peak.flops_per_s["bf16"]
        moved_s = cached / chip.peak.memory_bytes_per_s
        amounts = [part[cold] for part in (batch * kv_heads, moved_s, flop_s, taken_ms * 1e-3)]
        shapes = np.stack([heads, kv_heads], axis=1)[cold]
        yield f"attention.{dtype}", *curve_of(shapes, amounts, 1.0)


def distilled(folder: Path) -> dict[tuple[str, str], Curves]:
    """Return the curves of each framework on each chip; prints them with their errors."""
    found: dict[tuple[str, str], Curves] = defaultdict(dict)
    print(
        "curves: floor, step, shares of memory and peak, norm; median and 90% of errors, held out"
    )
    for place, (name, cache_bytes) in CHIPS.items():
        chip = load_hardware(name)
        for framework in FRAMEWORKS:
            dense = newest(folder, place, "gemm", framework, "gemm")
            attention = newest(folder, place, "attention", framework, "generation_attention")
            curves = found[framework, name]
            for key, curve, errors in (
                *dense_curves(columns(dense), chip),
                *attention_curves(columns(attention), chip, cache_bytes),
            ):
                floor_us, step_ns = curve[0] * 1e6, curve[1] * 1e9
                print(
                    f"{name:10s}{framework} {dense.parts[-2]:8s}{key:15s}{floor_us:5.1f} us"
                    f"{step_ns:7.2f} ns{curve[2]:6.2f}{curve[3]:6.2f}{curve[4]:6.2f}"
                    f"{np.median(errors):8.1%}{np.quantile(errors, 0.9):7.1%}"
                )
                curves[key] = curve
            for key in curves.keys() & {"dense.fp8", "dense.fp4"}:
                curves[key][0] = curves["dense.bf16"][0]
    return dict(found)


# --- Servers of dense models, with curves in the place of the shares of their profiles -----------


def curve_s(work: OpWork, curves: Curves, served: Deployment, batch: Floats) -> Floats | None:
    """Return the seconds of an operation by its curve; None of one without."""
    op = work.op
    role = op.name.rpartition(".")[2]
    kind = "dense" if op.kind in {"dense", "head"} else op.kind
    dtype = work.compute_dtype if kind == "dense" else served.setup.options.kv_dtype or "bf16"
    curve = curves.get(f"{kind}.{dtype}")
    if work.settled or curve is None:
        return None
    compute_ways, _, cache_ways = ways(op.shard, served.setup.placement)
    steps: Any = op.count * batch * op.shard.cache_ways / cache_ways
    if op.rows is not None:
        steps = op.count * op.flops / (2 * op.rows * op.outputs)
        steps = 0.0 if role in JOINED else steps / (compute_ways if role in ROW_PARALLEL else 1)
    floor_s = 0.0 if role in JOINED else op.count * curve[0]
    return kernel_s(curve, steps, work.memory_s, work.compute_s) + floor_s


def measured_tpot_s(load: Measurement) -> float:
    """Return the time per token, of a sequence of the batch where a throughput was measured."""
    return load.tpot_s or (load.batch_size or np.nan) / measured_of(load)[1]


class Steps:
    """Throughputs without drafts of sources that measured drafts, as `_Group` has served loads."""

    def __init__(self, points: Sequence[Measurement], engine: EngineProfile) -> None:
        self.key = (points[0].engine or "", points[0].hardware or "")
        self.running = np.array([float(point.batch_size or np.nan) for point in points])
        cases = published_cases(points, [(0, engine)] * len(points))
        self._group = PublishedGroup(range(len(points)), cases)

    def timed(self, passes: Callable[..., Floats], engine: EngineProfile) -> Floats:
        """Return seconds per token of a sequence, shape (1, points)."""
        return np.asarray(self.running / self._group.timed(passes, engine).plain)[None]


class Loads:
    """Loads of dense models, the passes behind them, and what of these the curves price.

    Parameters
    ----------
    loads
        Without drafts.
    curves
        By framework and chip; empty for the shares of the profiles.
    """

    def __init__(
        self, loads: Sequence[Measurement], curves: Mapping[tuple[str, str], Curves]
    ) -> None:
        self.loads: list[Measurement] = []
        self._groups = []
        for members in grouped(loads, SETUP).values():
            first = members[0]
            alone = kind_of(first)[0] == "plain" and first.tpot_s is None
            engine = left_out_engine(first) if alone else left_out_served(first, "model")[0]
            group = Steps(members, engine) if alone else _Group(members, engine)
            passes: list[tuple[PassWork, Floats]] = []
            own = curves.get((engine.rules, NEAREST[members[0].hardware or ""]))

            def note(
                served: Deployment,
                forward: ForwardPass,
                /,
                *beside: Work,
                group: _Group | Steps = group,
                passes: list[tuple[PassWork, Floats]] = passes,
                own: Curves | None = own,
            ) -> Floats:
                work = model_work(served.model, served.setup, forward, beside=beside)
                timed = [curve_s(op, own or {}, served, group.running) for op in work.ops]
                rest = [op for op, seconds in zip(work.ops, timed, strict=True) if seconds is None]
                alone = sum((one for one in timed if one is not None), np.zeros(len(group.running)))
                passes.append((replace(work, ops=rest), alone))
                return np.ones(len(group.running))

            group.timed(note, engine)
            self._groups.append((group, engine, passes))
            self.loads += members
        self._measured = np.log([measured_tpot_s(load) for load in self.loads])

    def off(self, overheads: Mapping[str, float]) -> Floats:
        """Return predicted over measured TPOT in a steady state, as logarithms."""
        parts = []
        for group, shipped, passes in self._groups:
            engine, recorded = with_overheads(shipped, overheads), iter(passes)

            def replay(
                *_: object,
                engine: EngineProfile = engine,
                recorded: Iterator[tuple[PassWork, Floats]] = recorded,
            ) -> Floats:
                work, alone = next(recorded)
                return np.asarray(pass_time(work, engine).total_s + alone)

            parts.append(group.timed(replay, engine)[0])
        return np.asarray(np.log(np.concatenate(parts)) - self._measured)


def with_overheads(engine: EngineProfile, overheads: Mapping[str, float]) -> EngineProfile:
    """Return an engine with overheads of passes, layers, tokens, sequences and collectives."""
    collective = engine.collective
    return replace(
        engine,
        pass_overhead_s=overheads[f"pass_s.{engine.rules}"],
        layer_overhead_s=overheads["layer_s"],
        layer_kind_overhead_s={},
        layer_token_overhead_s=overheads["layer_token_s"],
        sequence_overhead_s=overheads["sequence_s"],
        collective=collective and replace(collective, latency_s=overheads["collective_s"]),
    )


def fitted_overheads(
    loads: Loads, corrected: Callable[[Floats], Floats], counts: npt.NDArray[np.bool_]
) -> dict[str, float]:
    """Return the overheads that fit the loads that count best; a set-up of many counts as few."""
    alike = [(base_model(load), load.hardware, load.engine) for load in loads.loads]
    sizes = Counter(alike)
    weights = np.array([min(1.0, FULL_LOADS / sizes[key]) ** 0.5 for key in alike]) / ORDINARY

    def at(x: Floats) -> dict[str, float]:
        return dict(zip(OVERHEADS, (np.exp(x) * [*OVERHEADS.values()]).tolist(), strict=True))

    def residuals(x: Floats) -> Floats:
        off = corrected(loads.off(at(x)))
        return np.concatenate([(off * weights)[counts], x])

    return at(least_squares(residuals, np.zeros(len(OVERHEADS)), loss="cauchy", max_nfev=20).x)


def has_experts(load: Measurement) -> bool:
    """Tell whether the model of a load has experts."""
    cores = model_of(load.model or "").counted_cores
    return any(isinstance(core, Experts) for _, core in cores)


def dense_loads() -> list[Measurement]:
    """Return dense models on the chips that kernels were timed on: served loads, and plain steps.

    The latter are of sources that measured drafts, whose fits lack the source.
    """
    found = []
    steps = [one for one in load_measurements() if kind_of(one)[0] == "plain"]
    for load in (*load_served(), *steps):
        if load.drafts or implausible(load) or load.engine not in FRAMEWORKS:
            continue
        cores = model_of(load.model or "").counted_cores
        dense = all(isinstance(core, GroupedQueryAttention) for _, core in cores)
        if load.hardware in NEAREST and dense and (load.trust or 0) <= TRUSTED:
            prompt, answer, _ = request_lengths(load)
            served = load.tpot_s is not None
            found.append(replace(load, input_len=prompt, output_len=answer) if served else load)
    return found


def shipped_off(loads: Sequence[Measurement], *, played: bool) -> Floats:
    """Return the logarithm of predicted over measured TPOT, by profiles that ship; NaN for none."""
    served = [load for load in loads if load.tpot_s]
    off = {id(one.point): one.off["tpot_s"] for one in plain_scores(served, played=played)}
    steps = [load for load in loads if not load.tpot_s]
    if steps:
        cases = published_cases(steps, [(n, left_out_engine(step)) for n, step in enumerate(steps)])
        rates = Record(cases).rates().as_measured(steps)
        predicted_s = np.array([step.batch_size for step in steps], dtype=np.float64) / rates
        for step, seconds in zip(steps, predicted_s.tolist(), strict=True):
            off[id(step)] = np.log(seconds / measured_tpot_s(step))
    return np.array([off.get(id(load), np.nan) for load in loads])


def print_setups() -> None:
    """Print what of the errors of all loads, played through, is one factor of each set-up."""
    loads = [load for load in load_served() if not load.drafts and implausible(load) is None]
    off = shipped_off(loads, played=True)
    names = ("model", "quantization", "engine", "hardware")
    setups: dict[object, list[int]] = defaultdict(list)
    groups: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(np.isfinite(off)).tolist():
        load = loads[place]
        setups[tuple(getattr(load, name) for name in names)].append(place)
        kind = "experts" if has_experts(load) else "dense"
        for group in ("all", kind, f"{kind} {load.engine}"):
            groups[group].append(place)
    within = off.copy()
    for places in setups.values():
        within[places] -= np.median(off[places])
    print("TPOT, models left out, played; the same with one factor for each model in each set-up")
    for group, places in sorted(groups.items()):
        cells = [np.quantile(np.abs(np.expm1(one[places])), [0.5, 0.9]) for one in (off, within)]
        shown = "  ".join(f"{low:7.1%}{high:7.1%}" for low, high in cells)
        print(f"{group:24s}{len(places):5d}{shown}")


def main() -> None:
    """Print the curves, and the errors of models left out with them and without."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the package was unzipped")
    curves = distilled(parser.parse_args().folder)
    points = dense_loads()
    tables = {}
    for name, own in (("shares", {}), ("curves", curves)):
        loads = Loads(points, own)
        models = np.array([base_model(load) for load in loads.loads])
        steady, played = (shipped_off(loads.loads, played=playing) for playing in (False, True))
        tables["shipped"] = played

        def corrected(off: Floats, by: Floats = played - steady) -> Floats:
            return off + by

        off, layers_us = np.zeros(len(models)), []
        for model in dict.fromkeys(models.tolist()):
            overheads = fitted_overheads(loads, corrected, models != model)
            off[models == model] = corrected(loads.off(overheads))[models == model]
            layers_us.append(overheads["layer_s"] * 1e6)
        tables[name] = off
        print(f"{name}: {min(layers_us):.0f} to {max(layers_us):.0f} us a layer, models left out")
    print("TPOT, models left out: loads; median, 90% and bias of each")
    groups: dict[str, list[int]] = defaultdict(list)
    for place, load in enumerate(loads.loads):
        model = base_model(load).rpartition("/")[2]
        for group in ("all", load.engine, f"{load.engine} {load.hardware} {model}"):
            groups[group or ""].append(place)
    for group, places in sorted(groups.items()):
        cells = [f"{group:42s}{len(places):4d}"]
        for name, off in tables.items():
            errors = np.expm1(off[places])
            low, high = np.quantile(np.abs(errors), [0.5, 0.9])
            cells.append(f"{name} {low:.1%} {high:.1%} {np.median(errors):+.1%}")
        print("  ".join(cells))
    print_setups()


if __name__ == "__main__":
    main()
