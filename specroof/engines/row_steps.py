"""Kernels of a few rows, fitted to passes whose times jump from one number of rows to the next."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from specroof.arrays import Array
from specroof.hardware.engine import EngineProfile, RowKernel
from specroof.units import BOUNDS

#: The most rows, tokens of all sequences of a pass, whose kernels are told apart one by one.
FEW_ROWS: Final = 16
#: The share of a pass that is not arithmetic, at most: what is left tells its rows apart.
_NOT_ARITHMETIC: Final = 0.9
#: Of an interval of e^18, to a millionth of it.
_HALVINGS: Final = 24
_WIDEST: Final = 9.0


def with_row_kernels(
    engine: EngineProfile,
    rows: Array,
    measured: Array,
    predicted: Callable[[EngineProfile], Array],
) -> EngineProfile:
    """Return an engine with a kernel for each number of rows that was timed.

    Parameters
    ----------
    engine
        A profile with row kernels.
    rows, measured
        Rows of passes, and logarithms of their rates, shape (passes,).
    predicted
        From a profile to what it predicts of them.

    Counts
        a number of rows that was not timed as a part of the next one that was, and more rows in
        the kernels that the profile has; one that was timed and goes on keeps its last share.
    Ignores
        how much of a pass of one row is arithmetic: what is not is made less where it is longer
        than a pass, which changes no sum of what was timed.
    Source
        `specroof.hardware.engine.RowKernel`, whose share is found by halving an interval.
    """
    bounds, kernels = BOUNDS["vector_share"], engine.row_kernels

    def rates(changed: Mapping[str, RowKernel]) -> Array:
        return predicted(replace(engine, row_kernels=changed))

    def at_share(share: float, *names: str) -> dict[str, RowKernel]:
        return {**kernels, **{name: replace(kernels[name], compute_frac=share) for name in names}}

    usual = rates(kernels)
    used = {name for name in kernels if np.any(rates(at_share(bounds.least, name)) != usual)}
    left = float(np.min(rates(at_share(bounds.most, *kernels)) - measured))
    if left < -math.log(_NOT_ARITHMETIC):
        engine = _with_less_else(engine, _NOT_ARITHMETIC * math.exp(left))

    counts, group = np.unique(rows, return_inverse=True)
    factors = np.ones(len(counts))
    # The head of a pass may take one row: the kernel of fewest rows is settled first.
    for fitted in (counts == counts[0], counts > counts[0]):
        low, high = np.full(len(counts), -_WIDEST), np.full(len(counts), _WIDEST)
        for _ in range(_HALVINGS):
            factors = np.where(fitted, np.exp((low + high) / 2), factors)
            off = rates(_steps(kernels, used, counts, factors)) - measured
            is_slow = np.bincount(group, off) < 0
            middle = (low + high) / 2
            low, high = np.where(is_slow, middle, low), np.where(is_slow, high, middle)
    steps = _steps(kernels, used, counts, factors)
    last = [step for step in steps.values() if step.rows == counts[-1]]
    for name, kernel in kernels.items():
        if (kernel.rows or math.inf) > counts[-1]:
            goes_on = name in used and any(kernel_of(kernels, step) is kernel for step in last)
            steps[name] = _scaled(kernel, float(factors[-1])) if goes_on else kernel
        elif not any(_takes(step, kernel) for step in last):  # else no rows are left to it
            steps[name] = kernel
    return replace(engine, row_kernels=steps)


def kernel_of(kernels: Mapping[str, RowKernel], step: RowKernel) -> RowKernel:
    """Return the kernel that takes all rows and weights of another one."""
    rows = step.rows or math.inf
    return next(
        kernel
        for kernel in kernels.values()
        if _takes(kernel, step) and (kernel.rows or math.inf) >= rows
    )


def _takes(kernel: RowKernel, other: RowKernel) -> bool:
    """Return whether a kernel takes the weights of another one."""
    return kernel.of == other.of and (kernel.bits or math.inf) >= (other.bits or math.inf)


def _with_less_else(engine: EngineProfile, share: float) -> EngineProfile:
    """Return an engine whose bytes and overheads take a share of the time that they took."""
    most = BOUNDS["reached_share"].most
    kinds = {kind: min(frac / share, most) for kind, frac in engine.kind_memory_frac.items()}
    layers = {kind: seconds * share for kind, seconds in engine.layer_kind_overhead_s.items()}
    return replace(
        engine,
        memory_frac=min(engine.memory_frac / share, most),
        kind_memory_frac=kinds,
        pass_overhead_s=engine.pass_overhead_s * share,
        layer_overhead_s=engine.layer_overhead_s * share,
        layer_kind_overhead_s=layers,
    )


def _steps(
    kernels: Mapping[str, RowKernel], used: set[str], counts: Array, factors: Array
) -> dict[str, RowKernel]:
    """Return copies of the kernels that take each number of rows, those in use at a factor.

    Others shield the formats that they take, which were not timed.
    """
    widest: dict[str, float] = {}
    for name in used:
        kernel = kernels[name]
        widest[kernel.of] = max(widest.get(kernel.of, 0.0), kernel.bits or math.inf)
    steps: dict[str, RowKernel] = {}
    for rows, factor in zip(counts.tolist(), factors.tolist(), strict=True):
        taken = dict.fromkeys(widest, 0.0)
        for name, kernel in kernels.items():
            bits = kernel.bits or math.inf
            takes = taken.get(kernel.of, math.inf) < bits <= widest.get(kernel.of, 0.0)
            if takes and rows <= (kernel.rows or math.inf):
                taken[kernel.of] = bits
                step = _scaled(kernel, factor) if name in used else kernel
                steps[f"{name.partition('-rows-')[0]}-rows-{rows:g}"] = replace(step, rows=rows)
    return steps


def _scaled(kernel: RowKernel, factor: float) -> RowKernel:
    bounds = BOUNDS["vector_share"]
    share = min(max(kernel.compute_frac * factor, bounds.least), bounds.most)
    return replace(kernel, compute_frac=share)
