"""Benchmark results that commands read: their files, and what was measured where."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specroof import catalog
from specroof.architecture import Architecture
from specroof.drafters import Drafter
from specroof.errors import MeasurementError
from specroof.hardware import HardwareProfile

if TYPE_CHECKING:
    from specroof.evidence import Measurement

__all__ = ["BENCH_HELP", "BenchEngine", "Benchmark", "DraftLen", "DrafterWord", "load_benchmark"]

BENCH_HELP = (
    "JSON of SGLang's bench_serving, of vllm bench serve --save-result or of InferenceX; or a CSV "
    "with batch_size, context_len, draft_len, tokens_per_s and, if known, acceptance_length, "
    "input_len, output_len."
)
BenchEngine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="An engine of the hardware profile: that of the tool which BENCH is of, if left out.",
    ),
]
DrafterWord = Annotated[
    str | None,
    typer.Option(metavar="SPEC", help="What drafted, where results have drafts."),
]
DraftLen = Annotated[
    int | None,
    typer.Option(min=1, help="Drafts per round of results that do not say."),
]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What was measured.

    Parameters
    ----------
    points
        Results.
    model, hardware, drafter
        Of what, on what, with which drafter.
    engine
        The engine that is to predict them; None for the profile's default.
    notes
        What to know about how they are read.
    labels
        Each file by its name and its content, to be found again.
    """

    points: tuple["Measurement", ...]
    model: Architecture
    hardware: HardwareProfile
    drafter: Drafter | None
    engine: str | None
    notes: tuple[str, ...]
    labels: tuple[str, ...]


def load_benchmark(  # noqa: PLR0913 - one parameter per flag
    files: Sequence[Path],
    *,
    model: str,
    hardware: str,
    family: str | None,
    engine: str | None,
    drafter: str | None,
    draft_len: int | None,
) -> Benchmark:
    """Return the results of some files, all of one model and one tool.

    Raises
    ------
    SpecroofError
        For a file, model, profile or SPEC that cannot be read, results of another model, of
        several tools or of other drafts, or a result that is there twice.
    """
    from specroof import evidence  # noqa: PLC0415 - few commands read results
    from specroof.report import calibration as words_of  # noqa: PLC0415

    loaded = catalog.load_model(model, family=family)
    profile = catalog.load_hardware(hardware)
    texts = [catalog.read_text(file, MeasurementError) for file in files]
    points = tuple(
        point
        for file, text in zip(files, texts, strict=True)
        for point in evidence.read_benchmark(text, source=str(file), draft_len=draft_len)
    )
    evidence.refuse_repeats(points)
    words_of.refuse_others(points, model)
    evidence.refuse_mixed(points)
    notes = []
    if engine is None:
        engine, note = words_of.engine_of_results(points, profile)
        notes += note
    one = None
    if drafter is not None:
        one = catalog.load_drafter(drafter)
        evidence.refuse_other_kinds(points, drafter.strip().partition(",")[0].strip())
    words = {"--drafter": drafter, "--draft-len": draft_len}
    notes += words_of.idle_notes(points, words)
    return Benchmark(
        points=points,
        model=loaded,
        hardware=profile,
        drafter=one,
        engine=engine,
        notes=tuple(notes),
        labels=tuple(
            words_of.file_label(file.name, text) for file, text in zip(files, texts, strict=True)
        ),
    )
