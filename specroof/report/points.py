"""Every point of speedup curves, as JSON and CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from specroof.questions.answer import nested, picked
from specroof.questions.loads import of_requests
from specroof.questions.prediction import EndToEnd
from specroof.report.columns import (
    COUNTED_ARRAYS,
    CURVE_ARRAYS,
    Columns,
    listed_columns,
    point_columns,
)
from specroof.report.layout import columns_csv
from specroof.speedup.axes import REQUEST_WEIGHT, TEXT_WEIGHT, refuse_many_points
from specroof.speedup.curve import SpeedupCurve

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
        **picked(first, "model", "hardware", "engine"),
        "placement": asdict(first.placement),
        **{
            name: _plain(getattr(first, name))
            for name in ("context_len", "batch_size", "draft_len")
        },
        "notes": list(dict.fromkeys(note for curve in curves for note in curve.notes)),
        "baseline": {
            "step_s": nested(first.decode_s),
            "tokens_per_s": nested(first.running_batch[..., 0] / first.decode_s),
        },
        "drafters": [_drafter_json(curve) for curve in curves],
    }
    if counted:
        found |= of_requests(counted[0].workload)
        for drafter, whole in zip(found["drafters"], counted, strict=True):
            arrays = {name: nested(getattr(whole, name)) for name in (*COUNTED_ARRAYS, "answer_s")}
            drafter["end_to_end"] = {
                **picked(whole, "wait_s", "latency_s"),
                **arrays,
                "best_draft_len": nested(_known(whole.curve, whole.curve.best_draft_len)),
                "best_speedup": nested(whole.curve.best_speedup),
            }
    return found


def _drafter_json(curve: SpeedupCurve) -> dict[str, Any]:
    shortest, longest = curve.near_best(0.01)
    return {
        "name": curve.drafter,
        **picked(curve, "cost_from", "acceptance_from"),
        "verify_len": _plain(curve.verify_len),
        **{name: nested(getattr(curve, name)) for name in CURVE_ARRAYS},
        **({} if curve.running is None else {"running": nested(curve.running)}),
        "best_draft_len": nested(_known(curve, curve.best_draft_len)),
        "best_speedup": nested(curve.best_speedup),
        "near_best": nested(_known(curve, np.stack([shortest, longest], axis=-1))),
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
    values = (nested(curve.speedup_low), nested(curve.speedup_high), told.tolist())
    return dict(zip(_BAND_KEYS, (*values, nested(_known(curve, ends))), strict=True))


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
