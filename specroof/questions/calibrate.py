"""Which engine profile fits my own benchmark?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from specroof.arrays import fields_of
from specroof.engines.calibration import Calibration, Fitted, Residual
from specroof.evidence import Measurement
from specroof.hardware import HardwareProfile
from specroof.questions.answer import Noted
from specroof.questions.benchmark import Benchmark, BenchmarkRequest
from specroof.questions.request import question
from specroof.report.layout import figure, format_table
from specroof.units import format_seconds

DEFAULT_ENGINE_NAME: Final = "calibrated"


@dataclass(frozen=True, kw_only=True)
class CalibrateRequest(BenchmarkRequest):
    """Ask for the engine profile that fits a benchmark.

    Parameters
    ----------
    engine_name
        What the hardware file calls the fitted engine.
    """

    engine_name: str = DEFAULT_ENGINE_NAME


@dataclass(frozen=True, repr=False, eq=False)
class Calibrated(Noted):
    """The engine profile that fits a benchmark.

    Attributes
    ----------
    benchmark
        What was measured.
    found
        What was fitted, what was not and why, and each point beside its prediction.
    yaml
        A hardware file with the fitted engine as its default.
    notes, warnings
        Sentences for the reader.
    """

    benchmark: Benchmark
    found: "Calibration"
    yaml: str

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        measured, found = self.benchmark, self.found
        return (
            f"{len(found.residuals)} points of {measured.served.model.name} on "
            f"{measured.served.setup.hardware.name}, from engine {found.base}"
        )

    @property
    def hardware(self) -> HardwareProfile:
        """The hardware with the fitted engine as its default."""
        from specroof.hardware import parse_hardware  # noqa: PLC0415 - needs pydantic

        return parse_hardware(self.yaml, source="the calibrated file")

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return calibration_json(self.found) | self.messages

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each result, beside what the fitted profile predicts for it."""
        return list(self.to_dict()["points"])

    def plot(self) -> Any:
        """Draw predicted against measured throughput."""
        from specroof.plot import plot_throughput_accuracy  # noqa: PLC0415 - matplotlib is slow

        rates = [(one.point.source, one) for one in self.found.residuals]
        return plot_throughput_accuracy(rates, [], engine=self.found.engine.name)


@question(CalibrateRequest)
def calibrate(request: CalibrateRequest) -> Calibrated:
    """Fit an engine profile to your own benchmark, and write a hardware file with it.

    What the points cannot determine stays as it was.
    """
    from specroof import engines  # noqa: PLC0415 - few questions fit anything

    measured = request.benchmark()
    found = engines.calibrate(measured.points, measured.served, measured.drafter)
    yaml = engines.calibrated_yaml(
        measured.served.setup.hardware,
        found.engine,
        name=request.engine_name,
        source=_described(found, measured),
    )
    return Calibrated(
        measured,
        found,
        yaml,
        notes=(*measured.notes, *_of_plain_points(measured.points)),
        warnings=tuple(
            f"{one.name}: the points cannot tell it from its starting value in {found.base}; to "
            f"determine it, add {_MEASURED_BY.get(one.name, _WIDER)}"
            for one in found.fitted
            if one.is_prior
        ),
    )


#: Which points say more of a figure than a few of the usual ones do.
_MEASURED_BY: Final = {
    "compute_frac": "points with larger batches, or passes of more positions",
    "memory_frac": "points with longer contexts",
    **dict.fromkeys(
        ("round_overhead_s", "round_sequence_overhead_s", "draft_pass_overhead_s"),
        "points with drafts, at several draft lengths",
    ),
    "request_overhead_s": "results of short answers",
}
_WIDER: Final = "points at other batch sizes"


def _of_plain_points(points: "Sequence[Measurement]") -> list[str]:
    """Return a note where results fix the times of steps and leave the speedup open."""
    if any(point.drafts for point in points):
        return []
    if any((point.verify_len or 1) > 1 for point in points):
        left = "timed passes calibrate verification, not the overhead of a round"
    else:
        left = "plain results calibrate step times, not the speedup"
    return [f"no result has drafts: {left}; add results with drafts"]


def _described(found: "Calibration", measured: Benchmark) -> str:
    """Return the source of a calibrated engine's figures, for `sources` of the file."""
    names = ", ".join(one.name for one in found.fitted)
    return (
        f"specroof calibrate: {len(found.residuals)} points of {measured.served.model.name} on "
        f"{measured.served.setup.placement.devices} devices in {', '.join(measured.labels)}; "
        f"fitted {names}, the rest as in {found.base}; mean error {found.mean_error:.1%} over "
        f"these points"
    )


# --- A calibration in words: what was fitted, what was not and why, and how far off each point
#     is

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
