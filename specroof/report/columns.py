"""Tables as columns, arrays or one value that all rows share: lists, data frames, Arrow."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from specroof.errors import OutputError, optional_library
from specroof.quantities import quantity_of

#: A value that all rows share, or a number for each row; NaN is a missing figure.
Columns = dict[str, Any]


def n_rows(columns: Mapping[str, Any]) -> int:
    """Return the number of rows."""
    return next(len(values) for values in columns.values() if isinstance(values, np.ndarray))


def _plain_list(name: str, values: npt.NDArray[Any]) -> list[Any]:
    """Return a column as Python's numbers: NaN as None, whole counts without a point.

    Examples
    --------
    >>> (
    ...     _plain_list("batch_size", np.array([1.0, 1.5])),
    ...     _plain_list("draft_s", np.array([1.0, np.nan])),
    ... )
    ([1, 1.5], [1.0, None])
    """
    numbers: list[Any] = values.tolist()
    if values.dtype.kind == "b":
        return [int(value) for value in numbers]
    if values.dtype.kind == "U":
        return [value or None for value in numbers]
    if values.dtype.kind != "f":
        return numbers
    one = quantity_of(name)
    if one is not None and one.is_count:  # spelt without a point where they are whole
        numbers = [int(value) if value.is_integer() else value for value in numbers]
    if np.isnan(values).any():
        numbers = [None if value != value else value for value in numbers]  # noqa: PLR0124 - only NaN differs from itself
    return numbers


def listed_columns(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return columns as lists of Python's numbers: see `_plain_list`."""
    rows = n_rows(columns)
    return {
        name: _plain_list(name, values)
        if isinstance(values, np.ndarray)
        else _plain_list(name, np.asarray([values])) * rows
        for name, values in columns.items()
    }


def data_frame(tables: Iterable[Columns]) -> Any:
    """Return the rows of several tables of the same columns as a pandas DataFrame.

    Raises
    ------
    OptionError
        If pandas is not installed.
    """
    pandas = optional_library("pandas", "to_frame")
    frames = [
        pandas.DataFrame(listed_columns(columns)).astype(
            # Columns that pick rows of a frame; CSV has them as 0 and 1.
            {name: bool for name, one in columns.items() if np.asarray(one).dtype.kind == "b"}
        )
        for columns in tables
    ]
    return pandas.concat(frames, ignore_index=True)


# --- Columns as Arrow tables: names as dictionaries, units in the metadata, no figure as null ----


def arrow_batch(columns: Columns) -> Any:
    """Return columns as a record batch."""
    pa = optional_library("pyarrow", "to_arrow", refusal=OutputError)
    rows = n_rows(columns)
    arrays = [_arrow_array(pa, values, rows) for values in columns.values()]
    known = map(quantity_of, columns)
    fields = [
        pa.field(name, array.type, metadata={"unit": one.unit} if one and one.unit else None)
        for name, array, one in zip(columns, arrays, known, strict=True)
    ]
    return pa.record_batch(arrays, schema=pa.schema(fields))


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
    return pa.array(values, from_pandas=True)  # NaN is null


def record_columns(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Columns:
    """Return records as columns: numbers, with NaN for none; text, empty for none; flags.

    Examples
    --------
    >>> record_columns([{"draft_len": 3, "drafter": None}], ["draft_len", "drafter"])
    {'draft_len': array([3.]), 'drafter': array([''], dtype='<U1')}
    >>> record_columns([{"is_cheapest": True}], ["is_cheapest"])
    {'is_cheapest': array([ True])}
    """
    columns: Columns = {}
    for name in names:
        values = [record[name] for record in records]
        known = [value for value in values if value is not None]
        if known and all(isinstance(value, bool) for value in values):
            columns[name] = np.array(values)
        elif known and all(isinstance(value, int | float) for value in known):
            columns[name] = np.array(values, dtype=np.float64)
        else:
            columns[name] = np.array(["" if value is None else str(value) for value in values])
    return columns


def arrow_table(tables: Iterable[Columns]) -> Any:
    """Return the rows of several tables of the same columns as one."""
    pa = optional_library("pyarrow", "to_arrow", refusal=OutputError)
    batches = [arrow_batch(columns) for columns in tables]
    return pa.Table.from_batches(batches).unify_dictionaries()
