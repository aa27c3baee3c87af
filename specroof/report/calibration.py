"""A calibration in words: what was fitted, what was not and why, and how far off each point is."""

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from specroof.engines.calibration import Calibration, Fitted, Residual
from specroof.errors import MeasurementError
from specroof.evidence import Measurement
from specroof.hardware import HardwareProfile
from specroof.reading.yaml_text import shown
from specroof.report import format_table
from specroof.units import format_seconds

__all__ = [
    "RESIDUAL_HEADER",
    "calibration_json",
    "calibration_text",
    "described",
    "engine_of_results",
    "engine_of_tool",
    "file_label",
    "idle_notes",
    "in_sample_notes",
    "refuse_others",
    "residual_cells",
    "residual_json",
]

#: Titles of what `residual_cells` returns.
RESIDUAL_HEADER: Final = (
    "point", "batch", "context", "drafts", "measured tok/s", "predicted", "off",
)  # fmt: skip


def refuse_others(points: Sequence[Measurement], model: str) -> None:
    """Refuse results that name another model than the one that is meant.

    Organisations are left out, and so are paths: a local folder may be called anything.

    Parameters
    ----------
    points
        Results, which may say what they served.
    model
        What is meant, as it was asked for.

    Raises
    ------
    MeasurementError
        One line with both names.
    """
    if os.path.exists(model):  # noqa: PTH110 - Path.exists raises for a name of 256 bytes
        return
    meant = _last(model)
    for point in points:
        if point.model is not None and _last(point.model) != meant:
            message = f"{point.place}: is of model {point.model!r}; --model is {model!r}"
            raise MeasurementError(message)


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def engine_of_results(
    points: Sequence[Measurement], hardware: HardwareProfile
) -> tuple[str | None, list[str]]:
    """Return the engine that predicts results if nobody names one, and what to say about it.

    Parameters
    ----------
    points
        Of one tool, where they tell.
    hardware
        What they ran on: its engine of that name, else its default.
    """
    return engine_of_tool(
        next((point.engine for point in points if point.engine is not None), None), hardware
    )


def engine_of_tool(tool: str | None, hardware: HardwareProfile) -> tuple[str | None, list[str]]:
    """Return the engine that stands for a tool, None for the default, and what to say about it."""
    engine = hardware.engine_of(tool)
    if engine is not None or tool is None or tool in hardware.engines:
        return engine, []
    default = hardware.engine().name
    return None, [f"{hardware.name} has no engine {tool}: {default} predicts in its place"]


def idle_notes(points: Sequence[Measurement], words: Mapping[str, object]) -> list[str]:
    """Return a sentence for each word about drafts that was given for results without any."""
    if any(point.drafts for point in points):
        return []
    return [
        f"{word} is {shown(value)}, and no result has drafts: it changes nothing"
        for word, value in words.items()
        if value is not None
    ]


def file_label(name: str, text: str) -> str:
    """Return how a calibrated profile names a file of results: its name, and a sum of its content.

    Examples
    --------
    >>> file_label("a.csv", "")  # the SHA-256 of nothing
    'a.csv (sha256 e3b0c44298fc1c14)'
    """
    return f"{name} (sha256 {sha256(text.encode()).hexdigest()[:16]})"


def in_sample_notes(labels: Sequence[str], hardware: HardwareProfile, engine: str) -> list[str]:
    """Return a sentence for each file that the engine which predicts it was fitted to.

    Parameters
    ----------
    labels
        Files, as `file_label` has them; their content counts.
    hardware, engine
        A profile, whose sources say what `calibrate` fitted, and the name of its engine.
    """
    source = hardware.sources.get(f"engines.{engine}", "")
    parts = [label.rpartition(" (") for label in labels]
    return [
        f"in-sample: engine {engine} was fitted to the results of {name}, so that its errors there "
        f"are no test of it"
        for name, _, content in parts
        if content in source
    ]


def described(found: Calibration, model: str, files: Sequence[str], devices: int) -> str:
    """Return what the figures of a calibrated engine come from, for `sources` of the file.

    Parameters
    ----------
    found
        The calibration.
    model, files, devices
        What was measured, in which files (as `file_label` has them), over how many devices.
    """
    names = ", ".join(one.name for one in found.fitted)
    return (
        f"specroof calibrate: {len(found.residuals)} points of {model} on {devices} devices in "
        f"{', '.join(files)}; fitted {names}, the rest as in {found.base}; mean error "
        f"{found.mean_error:.1%} over these points"
    )


def calibration_json(found: Calibration) -> dict[str, Any]:
    """Return a calibration as the object that ``--json`` prints."""
    return {
        "base": found.base,
        "fitted": [
            {"name": one.name, "value": one.value, "error": one.error, "before": one.before}
            for one in found.fitted
        ],
        "kept": [{"name": name, "reason": reason} for name, reason in found.kept],
        "mean_error": found.mean_error,
        "points": [residual_json(one) for one in found.residuals],
    }


def residual_json(one: Residual) -> dict[str, Any]:
    """Return a point beside its prediction as ``--json`` prints it; rates in tokens per second."""
    return {
        "place": one.point.place,
        "batch_size": one.point.batch_size,
        "context_len": one.point.context_len,
        "draft_len": one.point.draft_len,
        "measured": one.point.tokens_per_s,
        "predicted": one.predicted,
        "off": one.off,
    }


def calibration_text(found: Calibration) -> str:
    """Return a calibration as people read it."""
    figures = format_table(
        ["fitted", "value", "+-", f"in {found.base}"],
        [
            [one.name, *(_figure(one, value) for value in (one.value, one.error, one.before))]
            for one in found.fitted
        ],
    )
    points = format_table(RESIDUAL_HEADER, [residual_cells(one) for one in found.residuals])
    kept = "\n".join(f"kept {name}: {reason}" for name, reason in found.kept)
    mean = f"mean error {found.mean_error:.1%} over the points that were fitted"
    return "\n\n".join(part for part in (figures, kept, points, mean) if part)


def residual_cells(one: Residual) -> list[str]:
    """Return a point beside its prediction as cells below `RESIDUAL_HEADER`."""
    return [
        one.point.place,
        f"{one.point.batch_size:g}",
        f"{one.point.context_len:g}",
        str(one.point.draft_len),
        f"{one.point.tokens_per_s:.0f}",
        f"{one.predicted:.0f}",
        f"{one.off:+.1%}",
    ]


def _figure(one: Fitted, value: float | None) -> str:
    if value is None:
        return "-"
    return format_seconds(value) if one.name.endswith("_s") else f"{value:.3f}"
