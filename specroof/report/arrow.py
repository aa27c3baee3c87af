"""Columns as Arrow tables: names as dictionaries, units in the metadata, no figure as null."""

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

from specroof.errors import OutputError
from specroof.report.columns import Columns, n_rows, unit_of


def data_library(name: str) -> ModuleType:
    """Return pyarrow or one of its modules.

    Raises
    ------
    OutputError
        If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        library = name.partition(".")[0]
        message = f"{name} is not installed; allowed: pip install {library}, or CSV, JSON"
        raise OutputError(message) from None


def arrow_batch(columns: Columns) -> Any:
    """Return columns as a record batch."""
    pa = data_library("pyarrow")
    rows = n_rows(columns)
    arrays = [_arrow_array(pa, values, rows) for values in columns.values()]
    fields = [
        pa.field(name, array.type, metadata=_unit(name))
        for name, array in zip(columns, arrays, strict=True)
    ]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _unit(name: str) -> dict[str, str] | None:
    unit = unit_of(name)
    return None if unit is None else {"unit": unit}


def _arrow_array(pa: Any, values: Any, rows: int) -> Any:
    if isinstance(values, str):
        # One entry for all rows: no object a point.
        return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [values])
    if isinstance(values, int):
        return pa.array(np.full(rows, values, dtype=np.int32))
    if isinstance(values, float):
        values = np.full(rows, values)
    if values.dtype.kind == "U":
        names, codes = np.unique(values, return_inverse=True)
        codes = pa.array(codes.astype(np.int32), mask=values == "")
        return pa.DictionaryArray.from_arrays(codes, names.tolist())
    return _numbers(pa, values) if values.dtype.kind == "f" else pa.array(values)


def _numbers(pa: Any, values: Any) -> Any:
    """Return numbers without a copy, NaN as null, by a bit for each number."""
    known = ~np.isnan(values)
    if known.all():
        return pa.array(values)
    bits = pa.py_buffer(np.packbits(known, bitorder="little"))
    missing = known.size - int(np.count_nonzero(known))
    return pa.Array.from_buffers(
        pa.float64(), known.size, [bits, pa.py_buffer(values)], null_count=missing
    )


def arrow_table(tables: Iterable[Columns]) -> Any:
    """Return the rows of several tables of the same columns as one."""
    pa = data_library("pyarrow")
    batches = [arrow_batch(columns) for columns in tables]
    return pa.Table.from_batches(batches).unify_dictionaries()
