"""Every point of speedup curves, as JSON and CSV."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from specroof.report.layout import rows_csv
from specroof.serving.requests import EndToEnd, Workload
from specroof.speedup.curve import SpeedupCurve

__all__ = ["curve_rows", "curves_csv", "curves_json"]

_CURVE_ARRAYS: Final = (
    "tokens_per_round",
    "draft_s",
    "verify_s",
    "round_s",
    "speedup",
    "tokens_per_s",
    "tokens_per_s_per_user",
)
_COUNTED_ARRAYS: Final = ("tokens_per_s", "speedup", "prefill_frac", "effective_batch")


def _nested(array: Any) -> Any:
    """Return an array as nested lists, NaN as None."""
    values = np.asarray(array)
    if values.ndim:
        return [_nested(part) for part in values]
    value = values.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def _plain(values: Any) -> list[int | float]:
    """Return an axis as a list, whole numbers without a point."""
    return [int(value) if float(value).is_integer() else float(value) for value in values]


def _lengths(workload: Workload) -> dict[str, int | float]:
    """Return the lengths of a request, whole numbers without a point."""
    names = ("input_len", "output_len")
    return dict(zip(names, _plain([workload.input_len, workload.output_len]), strict=True))


def curves_json(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()) -> dict[str, Any]:
    """Return several drafters on one grid as the object that ``--json`` prints.

    Parameters
    ----------
    curves
        Of decoding alone.
    counted
        The same with prefills, under ``end_to_end`` of each drafter; none for a plain context.
    """
    first = curves[0]
    found: dict[str, Any] = {
        "model": first.model,
        "hardware": first.hardware,
        "engine": first.engine,
        "placement": {
            "tensor_parallel": first.placement.tensor_parallel,
            "expert_parallel": first.placement.expert_parallel,
            "attention_data_parallel": first.placement.attention_data_parallel,
        },
        "context_len": _plain(first.context_len),
        "batch_size": _plain(first.batch_size),
        "draft_len": _plain(first.draft_len),
        "notes": list(dict.fromkeys(note for curve in curves for note in curve.notes)),
        "baseline": {
            "step_s": _nested(first.decode_s),
            "tokens_per_s": _nested(first.batch_size / first.decode_s),
        },
        "drafters": [_drafter_json(curve) for curve in curves],
    }
    if counted:
        found["workload"] = _lengths(counted[0].workload)
        for drafter, whole in zip(found["drafters"], counted, strict=True):
            arrays = {name: _nested(getattr(whole, name)) for name in _COUNTED_ARRAYS}
            times = {"wait_s": whole.wait_s, "latency_s": whole.latency_s}
            drafter["end_to_end"] = {
                **times,
                **arrays,
                "best_draft_len": _nested(whole.curve.best_draft_len),
                "best_speedup": _nested(whole.curve.best_speedup),
            }
    return found


def _drafter_json(curve: SpeedupCurve) -> dict[str, Any]:
    shortest, longest = curve.near_best(0.01)
    return {
        "name": curve.drafter,
        "cost_from": curve.cost_from,
        "acceptance_from": curve.acceptance_from,
        "verify_len": _plain(curve.verify_len),
        **{name: _nested(getattr(curve, name)) for name in _CURVE_ARRAYS},
        "best_draft_len": _nested(curve.best_draft_len),
        "best_speedup": _nested(curve.best_speedup),
        "near_best": _nested(np.stack([shortest, longest], axis=-1)),
    }


def curves_csv(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()) -> str:
    """Return every point of several curves as CSV, one row each: see `curve_rows`."""
    return rows_csv(curve_rows(curves, counted))


def curve_rows(
    curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()
) -> list[dict[str, object]]:
    """Return every point of several curves as a row of a CSV file.

    Parameters
    ----------
    curves
        Of decoding alone.
    counted
        The same with prefills, in columns called as in `curves_json` with ``end_to_end_`` before
        the name; none for a plain context.
    """
    wholes: Sequence[EndToEnd | None] = counted or [None] * len(curves)
    return [
        row
        for curve, whole in zip(curves, wholes, strict=True)
        for row in _curve_rows(curve, whole)
    ]


def _curve_rows(curve: SpeedupCurve, whole: EndToEnd | None) -> Iterable[dict[str, object]]:
    arrays = {name: getattr(curve, name) for name in _CURVE_ARRAYS}
    placement = curve.placement
    for index in np.ndindex(*curve.speedup.shape):
        i, j, k = index
        yield {
            "model": curve.model,
            "hardware": curve.hardware,
            "engine": curve.engine,
            "tensor_parallel": placement.tensor_parallel,
            "expert_parallel": placement.expert_parallel,
            "attention_data_parallel": placement.attention_data_parallel,
            "drafter": curve.drafter,
            "context_len": _plain(curve.context_len)[i],
            "batch_size": _plain(curve.batch_size)[j],
            "draft_len": int(curve.draft_len[k]),
            "verify_len": _plain(curve.verify_len)[k],
            **{name: _nested(array[index]) for name, array in arrays.items()},
            "is_best": int(curve.draft_len[k] == curve.best_draft_len[i, j]),
            **({} if whole is None else _counted_cells(whole, index)),
        }


def _counted_cells(whole: EndToEnd, index: tuple[int, ...]) -> dict[str, object]:
    """Return what the row of a point says of its requests."""
    best = whole.curve.best_draft_len[index[0], index[1]]
    return {
        **_lengths(whole.workload),
        "end_to_end_wait_s": whole.wait_s,
        "end_to_end_latency_s": whole.latency_s,
        **{f"end_to_end_{name}": _nested(getattr(whole, name)[index]) for name in _COUNTED_ARRAYS},
        "end_to_end_is_best": int(whole.curve.draft_len[index[2]] == best),
    }
