"""Which engine profile fits my own benchmark?"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final

from specroof import quantities as q
from specroof.arrays import fields_of
from specroof.engines import calibrate as fit_engine
from specroof.engines import calibrated_yaml
from specroof.engines.calibration import Calibration, Fitted, Residual
from specroof.hardware.profile import HardwareProfile
from specroof.hardware.schema import parse_hardware
from specroof.questions import parameters as p
from specroof.questions.answer import Charted, case_of
from specroof.questions.benchmark import Benchmark, BenchmarkRequest
from specroof.questions.request import Command, Output, question
from specroof.report.layout import closing, figure, format_table
from specroof.units import format_seconds

DEFAULT_ENGINE_NAME: Final = "calibrated"


@dataclass(frozen=True, kw_only=True)
class CalibrateRequest(BenchmarkRequest):
    """Ask for the engine profile that fits a benchmark."""

    engine_name: p.EngineName = DEFAULT_ENGINE_NAME


@dataclass(frozen=True, kw_only=True)
class ResidualRow(q.Row):
    """A point beside its prediction.

    Rates are in tokens per second; of a timed pass, which has `positions`, `measured` and
    `predicted` are seconds.
    """

    place: str
    batch_size: float | None
    context_len: float | None
    draft_len: int | None
    positions: float | None
    measured: float
    predicted: float
    off: float


@dataclass(frozen=True, repr=False, eq=False)
class Calibrated(Charted):
    """The engine profile that fits a benchmark.

    Attributes
    ----------
    benchmark
        The results.
    calibration
        Fitted parameters, parameters that were kept and why, and each point beside its prediction.
    yaml
        A hardware file with the fitted engine as its default.
    notes, warnings
        Sentences for the reader.
    """

    benchmark: Benchmark
    calibration: Calibration
    yaml: str

    @property
    def found(self) -> Calibration:
        """The name of old of `calibration`."""
        return self.calibration

    @property
    def title(self) -> str:
        """The points, the model and the chip, in one line."""
        served, calibration = self.benchmark.served, self.calibration
        return (
            f"{len(calibration.residuals)} points of {served.model.name} on "
            f"{served.setup.hardware.name}, from engine {calibration.base}"
        )

    @property
    def hardware(self) -> HardwareProfile:
        """The hardware with the fitted engine as its default."""
        return parse_hardware(self.yaml, source="the calibrated file")

    def text(self) -> str:
        """Return the fitted parameters, each point beside its prediction, and the notes."""
        sentences = closing(self.notes, self.warnings)
        return "\n".join(filter(None, [calibration_text(self.calibration), sentences]))

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        served = self.benchmark.served
        return self.envelope(
            case_of(served.model, served.setup, None) | calibration_json(self.calibration)
        )

    @property
    def rows(self) -> tuple[ResidualRow, ...]:
        """A row for each result, beside what the fitted profile predicts for it."""
        return tuple(ResidualRow(**residual_fields(one)) for one in self.calibration.residuals)

    def figures(self) -> dict[str, Any]:
        """Return the chart of predicted against measured throughput."""
        rates = [(one.point.source, one) for one in self.calibration.residuals]
        return {"": throughput_chart(rates, [], engine=self.calibration.engine.name)}


@question(CalibrateRequest)
def calibrate(request: CalibrateRequest) -> Calibrated:
    """Fit an engine profile to your own benchmark, and write a hardware file with it."""
    benchmark = request.benchmark()
    served, points = benchmark.served, benchmark.points
    calibration = fit_engine(points, served, benchmark.drafter)
    names = ", ".join(parameter.name for parameter in calibration.fitted)
    largest = max(abs(residual.off) for residual in calibration.residuals)
    yaml = calibrated_yaml(
        served.setup.hardware,
        calibration.engine,
        name=request.engine_name,
        source=f"specroof calibrate: {len(calibration.residuals)} points of {served.model.name} on "
        f"{_measured_on(benchmark)} in {', '.join(benchmark.labels)}; "
        f"fitted {names}, the rest as in {calibration.base}; mean error "
        f"{calibration.mean_error:.1%} over these points, at most {largest:.1%}",
    )
    notes = benchmark.notes
    if not any(point.drafts for point in points):
        left = "plain results calibrate step times, not the speedup"
        if any((point.verify_len or 1) > 1 for point in points):
            left = "timed passes calibrate verification, not the overhead of a round"
        notes += (f"no result has drafts: {left}; add results with drafts",)
    return Calibrated(
        benchmark,
        calibration,
        yaml,
        notes=notes,
        warnings=tuple(
            f"{parameter.name}: the points cannot tell it from its starting value in "
            f"{calibration.base}; to determine it, add "
            f"{_MEASURED_BY.get(parameter.name, _OTHER_POINTS)}"
            for parameter in calibration.fitted
            if parameter.is_prior
        ),
    )


def _measured_on(benchmark: Benchmark) -> str:
    """Return devices, the releases that the results name, and what their server was told."""
    setup = benchmark.served.setup
    spread = [f"{name}={count}" for name, count in asdict(setup.placement).items() if count != 1]
    releases = {
        f"{point.engine} {point.engine_version or 'of unknown release'}"
        for point in benchmark.points
        if point.engine
    }
    told = [f"{key}={value}" for key, value in setup.user_settings.stated.items()]
    devices = f"{setup.placement.devices} x {setup.hardware.name}"
    return ", ".join([devices, *spread, *sorted(releases), *told])


#: Points that determine a parameter better than a few of the usual ones do.
_MEASURED_BY: Final = {
    "compute_frac": "points with larger batches, or passes of more positions",
    "memory_frac": "points with longer contexts",
    **dict.fromkeys(
        ("round_overhead_s", "round_sequence_overhead_s", "draft_pass_overhead_s"),
        "points with drafts, at several draft lengths",
    ),
    "request_overhead_s": "results of short answers",
}
_OTHER_POINTS: Final = "points at other batch sizes"


# --- A calibration as text and as JSON -----------------------------------------------------------

#: Titles of what `residual_cells` returns.
RESIDUAL_HEADER: Final = (
    "point", "batch", "context", "drafts", "measured tok/s", "predicted", "off",
)  # fmt: skip


def calibration_json(calibration: Calibration) -> dict[str, Any]:
    """Return what was fitted, and what was kept, as ``--json`` prints it."""
    return {
        "base": calibration.base,
        "fitted": [
            fields_of(parameter, "name", "value", "error", "before", "is_prior")
            for parameter in calibration.fitted
        ],
        "kept": [{"name": name, "reason": reason} for name, reason in calibration.kept],
        "mean_error": calibration.mean_error,
    }


def residual_fields(residual: Residual) -> dict[str, Any]:
    """Return a point beside its prediction by the names of `ResidualRow`."""
    point = residual.point
    return {
        **fields_of(point, "place", "batch_size", "context_len", "draft_len"),
        "positions": None if point.pass_s is None else point.verify_len,
        "measured": point.rate if point.pass_s is None else point.pass_s,
        "predicted": residual.shown,
        "off": residual.off,
    }


def calibration_text(calibration: Calibration) -> str:
    """Return a calibration as people read it."""
    cells = [
        [one.name, *(figure(value, _spelt(one)) for value in (one.value, one.error, one.before))]
        for one in calibration.fitted
    ]
    header = ["fitted", "value", "+- (80%)", f"in {calibration.base}"]
    parameters = format_table(header, cells)
    points = format_table(RESIDUAL_HEADER, [*map(residual_cells, calibration.residuals)])
    kept = "\n".join(f"kept {name}: {reason}" for name, reason in calibration.kept)
    mean = f"mean error {calibration.mean_error:.1%} over the points that were fitted"
    return "\n\n".join(part for part in (parameters, kept, points, mean) if part)


def residual_cells(residual: Residual) -> list[str]:
    """Return a point beside its prediction as cells below `RESIDUAL_HEADER`."""
    point = residual.point
    drafts, measured = str(point.draft_len), point.rate
    spelt: Callable[[float], str] = "{:.0f}".format
    if point.pass_s is not None:
        drafts, measured, spelt = f"pass of {point.verify_len}", point.pass_s, format_seconds
    return [
        point.place,
        f"{point.batch_size:g}",
        f"{point.context_len:g}",
        drafts,
        *map(spelt, (measured, residual.shown)),
        f"{residual.off:+.1%}",
    ]


def _spelt(parameter: Fitted) -> Callable[[float], str]:
    return format_seconds if parameter.name.endswith("_s") else "{:.3f}".format


# --- The chart -----------------------------------------------------------------------------------


def throughput_chart(
    rates: Sequence[tuple[str, Residual]], ideal: Sequence[tuple[str, Residual]], *, engine: str
) -> Any:
    """Draw predicted against measured tokens per second, a color for each file.

    Filled points are predicted by the engine's profile, hollow points by the ideal roofline.

    Parameters
    ----------
    rates, ideal
        The file of each result, and the result beside its prediction by each of the two.
    engine
        The engine of `rates`.
    """
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    points = [
        (name, residual.predicted / (1 + residual.off), residual.predicted, is_filled)
        for residuals, is_filled in ((rates, True), (ideal, False))
        for name, residual in residuals
    ]
    error = fmean(abs(residual.off) for _, residual in rates)
    return plot.plot_predicted(
        points,
        f"Predicted against measured throughput: {error:.1%} off on average",
        "tokens per second",
        meanings={True: f"engine {engine}", False: "ideal roofline"},
    )


COMMAND: Final = Command(
    question=calibrate,
    about="Three points fit the overheads; more points fit the shares of the peaks too. Figures\n"
    "that the points cannot determine keep the profile's values and are listed with the reason.\n"
    "Vary batch size and context, and include drafts: plain points calibrate step times, not\n"
    "the speedup.",
    options=p.FORMATS,
    output=Output(
        about="Write the hardware YAML here.",
        metavar="FILE",
        content=lambda answer: str(answer.yaml),
        parameters=("engine_name",),
    ),
    example="specroof calibrate bench.jsonl -H b200 --model Qwen/Qwen3-8B -o my-b200.yaml",
)
