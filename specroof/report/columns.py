"""Points and loads of speedup curves as columns: arrays, and one value where all rows share it."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.arrays import fields_of, to_json_array
from specroof.errors import OutputError, optional_library
from specroof.report.layout import columns_csv
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.workload import Workload, workload_json
from specroof.speedup.curve import REQUEST_WEIGHT, TEXT_WEIGHT, refuse_many_points
from specroof.speedup.result import SpeedupCurve

#: A value that all rows share, or a number for each row; NaN is a missing figure.
Columns = dict[str, Any]

ALL_ROWS: Final = slice(None)

#: What of a curve has a value at each point, in the order of the columns.
CURVE_ARRAYS: Final = (
    "tokens_per_round",
    "draft_s",
    "verify_s",
    "round_s",
    "speedup",
    "tokens_per_s",
    "tokens_per_s_per_user",
)
#: And where prefills are counted.
COUNTED_ARRAYS: Final = (
    "tokens_per_s",
    "speedup",
    "requests_per_s",
    "ttft_s",
    "tpot_s",
    "prefill_frac",
    "effective_batch",
)
_OF_REQUESTS: Final = ("input_len", "output_len", "prefix_hit_rate", "waves")
#: Columns of counts, which are spelt without a point where they are whole.
_COUNTS: Final = {
    "context_len",
    "batch_size",
    "draft_len",
    "verify_len",
    "input_len",
    "output_len",
    "running",
    "best_draft_len",
    "near_best_shortest",
    "near_best_longest",
    "largest_batch",
    "largest_batch_drafting",
    "running_drafting",
}

#: Units by what the name of a column ends in, the first that fits; all others are names, flags or
#: ratios.
_UNITS: Final = {
    "requests_per_s": "requests/s",
    "_per_s": "tokens/s",
    "_per_user": "tokens/s",
    "_s": "s",
    "verify_len": "positions",
    "_len": "tokens",
    "_per_round": "tokens",
    "_shortest": "tokens",
    "_longest": "tokens",
    "batch_size": "sequences",
    "_batch": "sequences",
    "running": "sequences",
    "_drafting": "sequences",
    "concurrency": "requests",
    "usd_per_million_tokens": "USD",
    "joules_per_million_tokens": "J",
}


def unit_of(name: str) -> str | None:
    """Return the unit of a column; None where it has none.

    Examples
    --------
    >>> unit_of("end_to_end_tpot_s"), unit_of("tokens_per_s"), unit_of("speedup")
    ('s', 'tokens/s', None)
    """
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), None)


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
    found: list[Any] = values.tolist()
    if values.dtype.kind == "b":
        return [int(value) for value in found]
    if values.dtype.kind == "U":
        return [value or None for value in found]
    if values.dtype.kind != "f":
        return found
    if name.removeprefix("end_to_end_") in _COUNTS:
        found = [int(value) if value.is_integer() else value for value in found]
    if np.isnan(values).any():
        found = [None if value != value else value for value in found]  # noqa: PLR0124 - only NaN differs from itself
    return found


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
        pandas.DataFrame(listed_columns(columns)).astype(dict.fromkeys(_flags(columns), bool))
        for columns in tables
    ]
    return pandas.concat(frames, ignore_index=True)


def _flags(columns: Columns) -> list[str]:
    """Return the columns that pick rows of a frame; CSV has them as 0 and 1."""
    return [name for name, values in columns.items() if np.asarray(values).dtype.kind == "b"]


def point_columns(
    curve: SpeedupCurve, whole: EndToEnd | None = None, rows: slice = ALL_ROWS
) -> Columns:
    """Return every point of some contexts of a curve, draft lengths innermost.

    Parameters
    ----------
    curve
        Of decoding alone.
    whole
        The same with prefills, in columns that begin with ``end_to_end_``; None without.
    rows
        Which contexts.
    """
    shape = curve.speedup[rows].shape
    runs = np.broadcast_to(curve.running_batch, curve.round_s.shape)[rows]
    axes = {
        "context_len": curve.context_len[rows, None, None],
        "batch_size": curve.batch_size[:, None],
        "draft_len": curve.draft_len,
        "verify_len": np.asarray(curve.verify_len, dtype=np.float64),
        "running": runs,
    }
    values = {name: getattr(curve, name)[rows] for name in CURVE_ARRAYS}
    values |= {name: band[rows] for name, band in band_columns(curve).items()}
    return {
        **curve_names(curve),
        **{name: flat_column(array, shape) for name, array in {**axes, **values}.items()},
        "has_room": flat_column(np.isfinite(runs), shape),
        "is_best": flat_column(_is_best(curve)[rows], shape),
        **({} if whole is None else _counted(whole, rows)),
    }


def curve_names(curve: SpeedupCurve) -> Columns:
    """Return the names that all points of a curve share."""
    place = fields_of(curve, "model", "hardware", "engine")
    return place | asdict(curve.placement) | {"drafter": curve.drafter}


def flat_column(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an array as a column: broadcast to the shape of the grid, and flat."""
    return np.broadcast_to(array, shape).ravel()


def _is_best(curve: SpeedupCurve) -> npt.NDArray[np.bool_]:
    """Return the points with the best draft length: none where nothing runs."""
    best = curve.draft_len == curve.best_draft_len[..., None]
    return np.asarray(best & np.isfinite(curve.best_speedup)[..., None])


def request_columns(workload: Workload) -> Columns:
    """Return the tokens of a request, how many of them are cached, and how requests come."""
    return {name: getattr(workload, name) for name in _OF_REQUESTS}


def _counted(whole: EndToEnd, rows: slice) -> Columns:
    """Return the figures of requests at the points of some contexts."""
    return {
        **request_columns(whole.workload),
        "end_to_end_wait_s": float(whole.wait_s),
        "end_to_end_latency_s": float(whole.latency_s),
        **{f"end_to_end_{name}": getattr(whole, name)[rows].ravel() for name in COUNTED_ARRAYS},
        "end_to_end_is_best": _is_best(whole.curve)[rows].ravel(),
    }


def band_columns(curve: SpeedupCurve) -> dict[str, npt.NDArray[Any]]:
    """Return the ends of the band of each speedup; NaN where there is none."""
    ends = {"speedup_low": curve.speedup_low, "speedup_high": curve.speedup_high}
    unknown = np.broadcast_to(np.nan, curve.speedup.shape)
    return {name: unknown if end is None else end for name, end in ends.items()}


# --- Columns as Arrow tables: names as dictionaries, units in the metadata, no figure as null ----


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


# --- Every point of speedup curves, as JSON and CSV ----------------------------------------------

_BAND_KEYS: Final = ("speedup_low", "speedup_high", "verdict", "best_within_band")
#: Rows that are turned into Python's numbers at once: they take ten times the memory of arrays.
_SLAB_ROWS: Final = 1 << 16


def _plain(values: Any) -> list[int | float]:
    """Return an axis as a list, whole numbers without a point."""
    return [int(value) if float(value).is_integer() else float(value) for value in values]


def curves_json(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()) -> dict[str, Any]:
    """Return several drafters on one grid as the object that ``--json`` prints.

    Parameters
    ----------
    curves
        Of decoding alone.
    counted
        The same with prefills, under ``end_to_end`` of each drafter; none for a plain context.
    """
    refuse_long_texts(curves, counted, "JSON")
    first = curves[0]
    found: dict[str, Any] = {
        **fields_of(first, "model", "hardware", "engine"),
        "placement": asdict(first.placement),
        **{
            name: _plain(getattr(first, name))
            for name in ("context_len", "batch_size", "draft_len")
        },
        "notes": list(dict.fromkeys(note for curve in curves for note in curve.notes)),
        "baseline": {
            "step_s": to_json_array(first.decode_s),
            "tokens_per_s": to_json_array(first.running_batch[..., 0] / first.decode_s),
        },
        "drafters": [_drafter_json(curve) for curve in curves],
    }
    if counted:
        found |= workload_json(counted[0].workload)
        for drafter, whole in zip(found["drafters"], counted, strict=True):
            arrays = {
                name: to_json_array(getattr(whole, name)) for name in (*COUNTED_ARRAYS, "answer_s")
            }
            drafter["end_to_end"] = {
                **fields_of(whole, "wait_s", "latency_s"),
                **arrays,
                "best_draft_len": to_json_array(_known(whole.curve, whole.curve.best_draft_len)),
                "best_speedup": to_json_array(whole.curve.best_speedup),
            }
    return found


def _drafter_json(curve: SpeedupCurve) -> dict[str, Any]:
    shortest, longest = curve.near_best(0.01)
    return {
        "name": curve.drafter,
        **fields_of(curve, "cost_from", "acceptance_from"),
        "verify_len": _plain(curve.verify_len),
        **{name: to_json_array(getattr(curve, name)) for name in CURVE_ARRAYS},
        **({} if curve.running is None else {"running": to_json_array(curve.running)}),
        "best_draft_len": to_json_array(_known(curve, curve.best_draft_len)),
        "best_speedup": to_json_array(curve.best_speedup),
        "near_best": to_json_array(_known(curve, np.stack([shortest, longest], axis=-1))),
        **_band_json(curve),
    }


def _band_json(curve: SpeedupCurve) -> dict[str, Any]:
    """Return the band of a curve; null without one, as for the ideal engine."""
    within = curve.best_within_band()
    if curve.verdict is None or within is None:
        return dict.fromkeys(_BAND_KEYS)
    told = curve.verdict.astype(object)
    told[told == ""] = None
    ends = np.stack(within, axis=-1)
    values = (to_json_array(curve.speedup_low), to_json_array(curve.speedup_high), told.tolist())
    return dict(zip(_BAND_KEYS, (*values, to_json_array(_known(curve, ends))), strict=True))


def _known(curve: SpeedupCurve, best: Any) -> Any:
    """Return draft lengths where there is a best one: nothing is best of what cannot run."""
    if curve.running is None:
        return best
    missing = np.isnan(curve.best_speedup)
    values = best.astype(object)
    values[missing] = None
    return values


def curves_csv(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()) -> str:
    """Return every point of several curves as CSV, one row each: see `curve_columns`."""
    refuse_long_texts(curves, counted, "CSV")
    return columns_csv(map(listed_columns, curve_columns(curves, counted)))


def refuse_long_texts(
    curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd], form: str
) -> None:
    """Refuse curves whose text would take gigabytes, which a sweep writes part by part."""
    refuse_many_points(
        curves[0].round_s.shape,
        curves=len(curves),
        weight=TEXT_WEIGHT * (REQUEST_WEIGHT if counted else 1),
        why=f" as {form}, which takes {TEXT_WEIGHT} times the memory of arrays",
    )


def curve_columns(
    curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()
) -> Iterator[Columns]:
    """Yield every point of several curves as columns, some rows at a time.

    Parameters
    ----------
    curves
        Of decoding alone.
    counted
        The same with prefills, in columns called as in `curves_json` with ``end_to_end_`` before
        the name; none for a plain context.
    """
    wholes: Sequence[EndToEnd | None] = counted or [None] * len(curves)
    for curve, whole in zip(curves, wholes, strict=True):
        contexts, batches, drafts = curve.speedup.shape
        step = max(1, _SLAB_ROWS // (batches * drafts))
        for start in range(0, contexts, step):
            yield point_columns(curve, whole, slice(start, start + step))
