"""What do passes cost on my own machine, and what does that change?"""

import os
import shlex
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array, number_within, whole_within
from specroof.catalog import read_text
from specroof.engines import calibrated_yaml, predicted_tokens_per_s
from specroof.errors import MeasurementError, expect, optional_library, refuse
from specroof.evidence import Measurement
from specroof.evidence.time_passes import LIBRARIES
from specroof.evidence.timed_here import SCRIPT, timed_here
from specroof.latency.setup import engine_setup
from specroof.questions import parameters as p
from specroof.questions.answer import Noted, rows_table
from specroof.questions.calibrate import Calibrated, ResidualRow, calibrate, residual_fields
from specroof.questions.objects import (
    DrafterLike,
    as_list,
    drafter_of,
    hardware_of,
    model_of,
    options_of,
)
from specroof.questions.request import Command, Output, question
from specroof.reading.words import whole_numbers
from specroof.report.layout import format_table
from specroof.speedup.curve import acceptance_of, decoding_curve
from specroof.speedup.result import SpeedupCurve
from specroof.units import Bounds

#: Cached tokens, and the longest draft, of the speedups that are compared.
_CONTEXT: Final = 1024
_MOST_DRAFTS: Final = 8
#: Stands for the file that the tools of llama.cpp read, where the model is named otherwise.
_YOUR_FILE: Final = "<YOUR-FILE>.gguf"


@dataclass(frozen=True)
class MeasureRequest:
    """Ask what passes of a model cost on this machine.

    Examples
    --------
    >>> from specroof import measure
    >>> measure("model.gguf", "rtx-4090", script=True)
    <TimingScript: time_passes.py, which times passes on another machine>
    """

    model: Annotated[
        str | os.PathLike[str],
        p.Parameter(
            "What is timed: a GGUF file, or for libraries a folder or a Hub name.",
            "MODEL",
        ),
    ]
    hardware: p.Hardware
    _: KW_ONLY
    tool: Annotated[
        str,
        p.Parameter(
            "What times the passes: llama-bench, llama-batched-bench or the path of one of them; "
            "transformers or mlx-lm, where they are installed beside specroof.",
            "--tool --llama-bench",
            metavar="TOOL",
        ),
    ] = "llama-bench"
    tool_args: Annotated[
        str,
        p.Parameter("More arguments of the tool, as in '-t 8 -ngl 99'.", metavar="WORDS"),
    ] = ""
    seconds: Annotated[
        float,
        p.Parameter("How long passes are timed, about; loading weights, twice, comes on top."),
    ] = 60.0
    context_len: Annotated[
        int | list[int],
        p.Parameter(
            "Tokens that are cached before the passes, a number or a list.",
            "--context",
            about_flag="Tokens that are cached before the passes, comma-separated.",
            read=whole_numbers,
            default=None,
        ),
    ] = 0
    results: Annotated[
        str | os.PathLike[str] | None,
        p.Parameter(
            "Read what the tool or the script has printed, and run nothing.",
            metavar="FILE",
            kind=Path,
        ),
    ] = None
    script: Annotated[
        bool,
        p.Parameter(
            "Return the script that times the passes on another machine, and run nothing.",
            about_flag="Print the script that times the passes on another machine, or write it to "
            "--output, and run nothing.",
        ),
    ] = False
    drafter: Annotated[
        DrafterLike,
        p.like(p.OneDrafter, about="Drafter whose speedups are compared, with its acceptance."),
    ] = "ngram,accept=0.7"
    engine: Annotated[
        str | None,
        p.Parameter(
            "Engine of the hardware profile to start from.",
            metavar="NAME",
            shown="named like the tool",
        ),
    ] = None
    engine_name: p.EngineName = "measured"
    family: p.Family = None
    options: p.OptionsGiven = None


@dataclass(frozen=True, repr=False, eq=False)
class TimingScript(Noted):
    """The script that times passes on another machine.

    Attributes
    ----------
    file
        Its text.
    notes, warnings
        How it is run, and how its output is read.
    """

    file: str

    rows: ClassVar = ()  # nothing was timed

    @property
    def title(self) -> str:
        """What it is, in one line."""
        return f"{SCRIPT.name}, which times passes on another machine"

    def text(self) -> str:
        """Return the script; the notes are comments behind it."""
        return "\n".join([self.file.rstrip(), *(f"# {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return self.envelope({"script": self.file})


@dataclass(frozen=True, kw_only=True)
class PassRow(ResidualRow):
    """A pass that was timed: of how many rows, and its seconds before and after the calibration."""

    rows: Annotated[float, q.PASS_ROWS]
    measured_s: float
    before_s: float
    before_off: float
    after_s: float


@dataclass(frozen=True, repr=False, eq=False)
class Measured(Noted):
    """What passes cost on one machine, and what that changes.

    Attributes
    ----------
    calibrated
        The passes, the engine that fits them, and the hardware file that has it.
    before_s
        Seconds of the passes in the engine that it started from, shape (passes,).
    before, after
        Speedups of the drafter in that engine, and in the one that was measured.
    notes, warnings
        Sentences for the reader.
    """

    calibrated: Calibrated
    before_s: Array
    before: SpeedupCurve
    after: SpeedupCurve

    @property
    def title(self) -> str:
        """The passes, the model and the chip, in one line."""
        return self.calibrated.title

    @property
    def file(self) -> str:
        """The hardware file, with the engine that was measured here as its default."""
        return self.calibrated.yaml

    @property
    def rows(self) -> tuple[PassRow, ...]:
        """A row for each pass: seconds measured, and predicted before and after."""
        rows, residuals = list[PassRow](), self.calibrated.calibration.residuals
        for one, before_s in zip(residuals, self.before_s.tolist(), strict=True):
            measured_s = _seconds(one.point, one.point.rate)
            row = PassRow(
                **residual_fields(one),
                rows=one.point.rows,
                measured_s=measured_s,
                before_s=before_s,
                before_off=before_s / measured_s - 1,
                after_s=_seconds(one.point, one.predicted),
            )
            rows.append(row)
        return tuple(rows)

    @property
    def speedups(self) -> list[dict[str, Any]]:
        """A row for each draft length: its speedup before and after."""
        curves = self.after.draft_len, self.before.speedup[0, 0], self.after.speedup[0, 0]
        names = ("draft_len", "before", "after")
        rows = zip(*(one.tolist() for one in curves), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows if row[0]]

    def text(self) -> str:
        """Return passes and speedups before and after, and the notes."""
        base = self.calibrated.calibration.base
        shown = ("rows", "context_len", "measured_s", "before_s", "before_off", "after_s", "off")
        passes = rows_table(self.rows, shown, before_s=base)
        cells = [
            [f"{row['draft_len']:g}", f"{row['before']:.2f}x", f"{row['after']:.2f}x"]
            for row in self.speedups
        ]
        speedups = format_table(["drafts", base, "now"], cells)
        was, now = (
            f"{float(curve.best_speedup[0, 0]):.2f}x with {int(curve.best_draft_len[0, 0])} drafts"
            for curve in (self.before, self.after)
        )
        best = f"{self.after.drafter}, {_CONTEXT} cached tokens: {was} in {base}, {now} as measured here"
        return self.as_page(passes, speedups, best)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        case = self.calibrated.to_dict()["case"]
        return self.envelope(case | {"drafter": self.after.drafter, "speedups": self.speedups})


@question(MeasureRequest)
def measure(request: MeasureRequest) -> Measured | TimingScript:
    """Time passes on this machine, write a hardware file with them, and say what changed."""
    expect("model", request.model, str | os.PathLike, "a file, a folder or a name")
    expect("tool", request.tool, str, "the name of a tool, or its path")
    expect("tool_args", request.tool_args, str, "words")
    try:
        shlex.split(request.tool_args)
    except ValueError as failure:
        refuse("tool_args", request.tool_args, f"words of a shell ({failure})")
    expect("results", request.results, str | os.PathLike | None, "a file, or None")
    seconds = number_within("seconds", request.seconds, Bounds(1, 3600))
    contexts = [
        whole_within("context_len", context, "context_len")
        for context in as_list(request.context_len)
    ]
    model = os.fspath(request.model)
    if request.script:
        is_read = request.tool in LIBRARIES or model.casefold().endswith(".gguf")
        words = ["python", SCRIPT.name, model if is_read else _YOUR_FILE, "--tool", request.tool]
        if request.tool_args:
            words.append(f"--tool-args={request.tool_args}")
        words += [f"--context={','.join(map(str, contexts))}", f"--seconds={seconds:g}"]
        options, chip, drafter = options_of(request.options), request.hardware, request.drafter
        told = {
            "-H": os.fspath(chip) if isinstance(chip, str | os.PathLike) else chip.name,
            "--weights": options.weight_dtype,
            "--kv-cache": options.kv_dtype,
            "--drafter": None if drafter == MeasureRequest.drafter else drafter_of(drafter).name,
            "--engine": request.engine,
            "--family": request.family,
        }
        pairs = [(flag, word) for flag, word in told.items() if word is not None]
        here = shlex.join([model, *chain.from_iterable(pairs)])
        return TimingScript(
            SCRIPT.read_text(encoding="utf-8"),
            notes=(
                f"there, with the name that you gave the script: {shlex.join(words)} > passes.json",
                f"here: specroof measure {here} --results passes.json -o mine.yaml",
            ),
        )
    for name in ("model", "tool", "tool_args"):
        if "\0" in os.fspath(getattr(request, name)):
            refuse(name, getattr(request, name), "text without a NUL")
    drafter = drafter_of(request.drafter)
    acceptance = acceptance_of(drafter)
    # What is refused at once is refused before minutes are spent.
    optional_library("scipy.optimize", "measure", refusal=MeasurementError)
    hardware = hardware_of(request.hardware)
    drafter.describe(model_of(model, request.family))
    start = engine_setup(hardware, request.engine, None, options_of(request.options)).engine
    calibrated_yaml(hardware, start, name=request.engine_name, source="specroof measure")
    if request.results is not None:
        name, text = os.fspath(request.results), read_text(Path(request.results), MeasurementError)
    else:
        name = Path(request.tool).name
        text = timed_here(model, request.tool, request.tool_args, contexts, seconds)
    calibrated = calibrate(
        {name: text},
        request.model,
        hardware,
        engine=request.engine,
        engine_name=request.engine_name,
        family=request.family,
        options=request.options,
    )
    points, served = calibrated.benchmark.points, calibrated.benchmark.served
    # A draft beyond the longest timed pass would be priced by kernels that nobody timed.
    timed = max(int(point.rows) for point in points)
    most = min(_MOST_DRAFTS, drafter.max_draft_len or _MOST_DRAFTS)
    rates = predicted_tokens_per_s(points, served, None).tolist()
    own = replace(served, setup=replace(served.setup, engine=calibrated.calibration.engine))
    before, after = (
        decoding_curve(
            deployment,
            drafter,
            acceptance,
            1,
            context_len=_CONTEXT,
            max_draft_len=min(most, timed - 1),
        )
        for deployment in (served, own)
    )
    warnings = [*calibrated.warnings]
    if unsteady := [point for point in points if point.note]:
        warnings.append(
            f"{len(unsteady)} of {len(points)} passes are unsteady, that of {unsteady[0].rows:g} rows "
            f"first ({unsteady[0].note}): time them again while the machine does nothing else"
        )
    if timed <= most:
        warnings.append(
            f"no pass of more than {timed} rows was timed: speedups end at {timed - 1} of {most} "
            f"drafts"
        )
    return Measured(
        calibrated,
        np.array([_seconds(point, rate) for point, rate in zip(points, rates, strict=True)]),
        before,
        after,
        notes=calibrated.notes,
        warnings=tuple(warnings),
    )


def _seconds(point: Measurement, rate: float) -> float:
    """Return the seconds of a pass, or of a step, from tokens a second: see `Measurement`."""
    return (point.batch_size or 1.0) / rate


COMMAND: Final = Command(
    question=measure,
    about="Runs your own llama-bench for about a minute, or times transformers or mlx-lm, and "
    "calibrates\nto what it prints. Where passes of 1 to 16 tokens cost in steps, each gets a "
    "kernel of its own.",
    options=p.FORMATS,
    output=Output(
        about="Write the hardware YAML here; with --script, the script.",
        metavar="FILE",
        content=lambda answer: str(answer.file),
        parameters=("engine_name",),
    ),
    example="specroof measure Qwen3-8B-Q4_K_M.gguf -H rtx-4090 -o mine.yaml",
)
