"""`specroof sweep`: a study of several models, chips and drafters."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specroof import catalog, report
from specroof.cli.flags import figure_files, joined_files, say, say_written
from specroof.cli.predict import curve_figures
from specroof.errors import OptionError, OutputError

if TYPE_CHECKING:
    from specroof.questions.study import Outcome, Study  # needs pydantic

__all__ = ["sweep"]


def sweep(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY.yaml", help="A study file, or the bundled study `demo`."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write CSV, JSON and charts here."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of a study file.")
    ] = False,
) -> None:
    """Run a study: several models x hardware x drafters.

    The file is validated whole before anything is computed. Its keys: format_version (1), targets
    (a list of model, hardware, family, tensor_parallel, expert_parallel,
    attention_data_parallel), drafters (SPECs), batch_size, context_len or workload (input_len and
    output_len of requests, whose prefills are then counted; batch_size is how many are in flight),
    max_draft_len, engine, options.
    """
    from specroof.questions.study import load_study, study_schema  # noqa: PLC0415 - pydantic

    if schema:
        say(report.json_line(study_schema()))
        return
    if study is None:
        message = "STUDY.yaml is missing; allowed: a study file, or --schema"
        raise OptionError(message)
    loaded = load_study(study)
    if output is not None:
        _check_folder(output)
    outcomes = _run(loaded)
    files = {} if output is None else _study_files(output, outcomes)
    if output is not None:
        # Before the tables, which whoever reads them may stop reading.
        catalog.write_folder(output, {path.name: data for path, data in files.items()})
    _say_outcomes(outcomes)
    say_written(files)


def _say_outcomes(outcomes: "Sequence[Outcome]") -> None:
    """Print a table for each target and load, and each note once."""
    for one in outcomes:
        say(report.curves_table(one.curves) + "\n")
        if one.counted:
            say(report.counted_table(one.curves, one.counted) + "\n")
    notes = [note for one in outcomes for curve in one.curves for note in curve.notes]
    for note in dict.fromkeys(notes):
        say(f"note: {note}")


def _check_folder(output: Path) -> None:
    """Refuse a folder that cannot be made, before minutes are spent on what would go there."""
    try:
        there = next(path for path in (output, *output.absolute().parents) if path.exists())
        if not there.is_dir():
            message = f"{output}: {there} is a file; allowed: a folder, which is made if need be"
            raise OutputError(message)
    except OSError as failure:  # a name that is too long
        raise _unwritable(output, failure) from None


def _unwritable(output: Path, failure: OSError) -> OutputError:
    message = f"{output}: {failure.strerror}; allowed: a folder that can be written to"
    return OutputError(message)


def _run(study: "Study") -> "list[Outcome]":
    """Return what a study finds; where people look on, a bar shows how far it is."""
    from specroof.questions.study import run_study  # noqa: PLC0415 - pydantic

    if not sys.stderr.isatty():
        return run_study(study)
    steps = len(study.targets) * len(study.loads) * len(study.drafters)
    with typer.progressbar(length=steps, label="curves", file=sys.stderr) as bar:
        return run_study(study, lambda: bar.update(1))


def _study_files(output: Path, outcomes: "Sequence[Outcome]") -> dict[Path, bytes]:
    """Return every file of a study: tables, a chart of all targets, and charts of each.

    A target has charts of its own where it compares several drafters or context lengths. The
    chart of all is over batch sizes; over draft lengths where there is one batch size, unless it
    would be that of the only target again.
    """
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    # Two targets may have the same names, such as a chip and a calibrated copy of it.
    parts = (
        {"target": [one.target] * len(columns["model"]), **columns}
        for one in outcomes
        for columns in report.curve_columns(one.curves, one.counted)
    )
    objects = [report.curves_json(one.curves, one.counted) for one in outcomes]
    groups = [
        {
            output / "results.csv": report.columns_csv(parts).encode(),
            output / "results.json": report.json_line(objects).encode() + b"\n",
        }
    ]
    several = outcomes[-1].workload > 1
    for one in outcomes:
        if len(one.curves) == len(one.curves[0].context_len) == 1:
            continue
        workload = f"-workload-{one.workload}" if several else ""
        name = output / f"target-{one.target}{workload}.png"
        groups.append(figure_files(name, curve_figures(one.drawn)))
    drawn = [curve for one in outcomes for curve in one.drawn]
    if len(drawn[0].batch_size) > 1:
        by_batch = {"": plot.plot_speedup_by_batch(drawn)}
        groups.append(figure_files(output / "best-speedup-by-batch-size.png", by_batch))
    elif len(outcomes) > 1 or len(groups) == 1:
        by_draft_len = {"": plot.plot_speedup_by_draft_len(drawn)}
        groups.append(figure_files(output / "speedup-by-draft-length.png", by_draft_len))
    return joined_files(*groups)
