"""A calibration in words: what was fitted, what was not and why, and how far off each point is."""

from collections.abc import Callable
from typing import Any, Final

from specroof.arrays import fields_of
from specroof.engines.calibration import Calibration, Fitted, Residual
from specroof.questions.calibrate import Calibrated
from specroof.report.layout import figure, format_table
from specroof.units import format_seconds

#: Titles of what `residual_cells` returns.
RESIDUAL_HEADER: Final = (
    "point", "batch", "context", "drafts", "measured tok/s", "predicted", "off",
)  # fmt: skip


def calibration_json(found: Calibration) -> dict[str, Any]:
    """Return a calibration as the object that ``--json`` prints."""
    return {
        "base": found.base,
        "fitted": [
            fields_of(one, "name", "value", "error", "before", "is_prior") for one in found.fitted
        ],
        "kept": [{"name": name, "reason": reason} for name, reason in found.kept],
        "mean_error": found.mean_error,
        "points": [residual_json(one) for one in found.residuals],
    }


def residual_json(one: Residual) -> dict[str, Any]:
    """Return a point beside its prediction as ``--json`` prints it.

    Rates are in tokens per second; of a timed pass, which has `positions`, `measured` and
    `predicted` are seconds.
    """
    point = one.point
    return {
        **fields_of(point, "place", "batch_size", "context_len", "draft_len"),
        "positions": None if point.pass_s is None else point.verify_len,
        "measured": point.rate if point.pass_s is None else point.pass_s,
        "predicted": one.shown,
        "off": one.off,
    }


def calibrated_text(answer: Calibrated) -> str:
    """Return a calibration and its notes as people read them."""
    said = [f"warning: {one}" for one in answer.warnings]
    said += [f"note: {one}" for one in answer.notes]
    return "\n".join([calibration_text(answer.found), *said])


def calibration_text(found: Calibration) -> str:
    """Return a calibration as people read it."""
    figures = format_table(
        ["fitted", "value", "+- (80%)", f"in {found.base}"],
        [
            [
                one.name,
                *(figure(value, _spelt(one)) for value in (one.value, one.error, one.before)),
            ]
            for one in found.fitted
        ],
    )
    points = format_table(RESIDUAL_HEADER, [residual_cells(one) for one in found.residuals])
    kept = "\n".join(f"kept {name}: {reason}" for name, reason in found.kept)
    mean = f"mean error {found.mean_error:.1%} over the points that were fitted"
    return "\n\n".join(part for part in (figures, kept, points, mean) if part)


def residual_cells(one: Residual) -> list[str]:
    """Return a point beside its prediction as cells below `RESIDUAL_HEADER`."""
    point, drafts, rates = one.point, str(one.point.draft_len), [one.point.rate, one.shown]
    spelt: Callable[[float], str] = "{:.0f}".format
    if point.pass_s is not None:
        drafts, rates, spelt = (
            f"pass of {point.verify_len}",
            [point.pass_s, one.shown],
            format_seconds,
        )
    return [
        point.place,
        f"{point.batch_size:g}",
        f"{point.context_len:g}",
        drafts,
        *map(spelt, rates),
        f"{one.off:+.1%}",
    ]


def _spelt(one: Fitted) -> Callable[[float], str]:
    return format_seconds if one.name.endswith("_s") else "{:.3f}".format
