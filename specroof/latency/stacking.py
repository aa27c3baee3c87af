"""Many passes as one: operations of a kind together, whatever model and chip they are of."""

from collections.abc import Hashable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from specroof.cost import Collective
from specroof.latency.communication import Exchange
from specroof.latency.pass_seconds import OpWork, PassShape, PassWork
from specroof.latency.sums import Array, IntArray


def stacked(works: Sequence[PassWork], sizes: Sequence[int]) -> PassWork:
    """Return many passes as one value, of which `pass_time` gives the seconds of each.

    Parameters
    ----------
    works
        Passes in one engine; each is as many passes as its arrays have entries.
    sizes
        How many.

    Source
        Counting; nothing is added up before the engine is known.

    Examples
    --------
    >>> from specroof.cost import OpCost
    >>> from specroof.hardware import IDEAL_ENGINE
    >>> from specroof.latency.pass_seconds import pass_time
    >>> zero = np.zeros(())
    >>> op = OpCost("up_proj", "dense", 1, zero, zero, zero, zero, "bf16")
    >>> one = PassWork([OpWork(op, "bf16", zero, np.array([1.0, 2.0]))], [], PassShape(1, 1))
    >>> two = PassWork([OpWork(op, "bf16", np.array(4.0), zero)] * 2, [], PassShape(1, 1))
    >>> pass_time(stacked([one, two], [2, 1]), IDEAL_ENGINE).total_s.tolist()
    [1.0, 2.0, 8.0]
    """
    ops: dict[Hashable, list[tuple[OpWork, IntArray]]] = {}
    exchanges: dict[Hashable, list[tuple[Exchange, IntArray]]] = {}
    first = 0
    for work, size in zip(works, sizes, strict=True):
        where = np.arange(first, first + size)
        first += size
        for op in work.ops:
            key = (op.op.kind, op.compute_dtype, op.settled, op.op.rows is None)
            ops.setdefault(key, []).append((op, where))
        for one in work.exchanges:
            what = one.collective
            between = (one.hardware.interconnect, one.placement, what.block, what.copies)
            exchanges.setdefault(between, []).append((one, where))
    return PassWork(
        [_ops_of_a_kind(some) for some in ops.values()],
        [_exchanges_of_a_kind(some) for some in exchanges.values()],
        _shapes([work.shape for work in works], sizes),
        n_passes=first,
    )


def _joined(parts: Sequence[tuple[object, IntArray]]) -> Array:
    """Return values of several passes in one row, each as often as there are passes."""
    rows = [np.broadcast_to(np.asarray(value, dtype=np.float64), at.shape) for value, at in parts]
    return np.concatenate(rows)


def _ops_of_a_kind(parts: Sequence[tuple[OpWork, IntArray]]) -> OpWork:
    first = parts[0][0]
    rows = first.op.rows
    if rows is not None:
        rows = _joined([(one.op.rows, at) for one, at in parts])
    return OpWork(
        op=replace(first.op, rows=rows),
        compute_dtype=first.compute_dtype,
        flops=_joined([(one.compute_s, at) for one, at in parts]),
        moved_bytes=_joined([(one.memory_s, at) for one, at in parts]),
        settled=first.settled,
        passes=np.concatenate([at for _, at in parts]),
    )


def _exchanges_of_a_kind(parts: Sequence[tuple[Exchange, IntArray]]) -> Exchange:
    first = parts[0][0]
    what = first.collective
    message_bytes = _joined([(one.collective.message_bytes, at) for one, at in parts])
    return replace(
        first,
        collective=Collective(what.block, message_bytes, what.copies),
        count=_joined([(one.count, at) for one, at in parts]),
        passes=np.concatenate([at for _, at in parts]),
    )


def _shapes(shapes: Sequence[PassShape], sizes: Sequence[int]) -> PassShape:
    """Return layers and sequences of many passes, an entry for each."""
    where = [np.arange(size) for size in sizes]
    kinds = dict.fromkeys(kind for shape in shapes for kind in shape.layer_kinds)

    def joined(values: Sequence[object]) -> Array:
        return _joined(list(zip(values, where, strict=True)))

    rows: dict[str, Any] = {
        one.name: joined([getattr(shape, one.name) for shape in shapes])
        for one in fields(PassShape)
        if one.name != "layer_kinds"
    }
    layers = {kind: joined([shape.layer_kinds.get(kind, 0) for shape in shapes]) for kind in kinds}
    return PassShape(**rows, layer_kinds=layers)
