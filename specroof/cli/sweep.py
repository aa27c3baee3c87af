"""`specroof sweep`: a study of several models, chips and drafters."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from specroof import report
from specroof.cli.flags import flags
from specroof.cli.output import check_folder, folder_of_figures, say, say_json, write_folder
from specroof.errors import OptionError
from specroof.questions.sweep import Study, Sweep
from specroof.questions.sweep import sweep as asked

__all__ = ["sweep"]

StudyFile = Annotated[
    str | None,
    typer.Argument(metavar="STUDY.yaml", help="A study file, or the bundled study `demo`."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Write CSV, JSON and charts here."),
]
Schema = Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a study file.")]


@flags
def sweep(study: StudyFile = None, output: Output = None, schema: Schema = False) -> None:
    """Run a study: several models x hardware x drafters.

    The file is checked whole before anything is computed. Its keys: format_version (1), targets
    (a list of model, hardware, family, tensor_parallel, expert_parallel,
    attention_data_parallel), drafters (SPECs), batch_size, context_len or workload (input_len and
    output_len of requests, whose prefills then count; batch_size is how many are in flight),
    max_draft_len, engine, options.
    """
    from specroof.questions.study import load_study, study_schema  # noqa: PLC0415 - pydantic

    if schema:
        say_json(study_schema())
        return
    if study is None:
        message = "STUDY.yaml is missing; allowed: a study file, or --schema"
        raise OptionError(message)
    loaded = load_study(study)
    if output is not None:
        check_folder(output)
    found = _run(loaded)
    if output is not None:
        tables = {
            output / "results.csv": report.sweep_csv(found).encode(),
            output / "results.json": report.sweep_json(found).encode(),
        }
        charts = folder_of_figures(output, lambda plot: plot.study_figures(found))
        # Before the tables, which whoever reads them may stop reading.
        write_folder(output, tables, charts)
    say(report.sweep_text(found))


def _run(study: Study) -> Sweep:
    """Return what a study finds; on a terminal, a bar shows how far it is."""
    if not sys.stderr.isatty():
        return asked(study)
    with typer.progressbar(length=study.n_curves, label="curves", file=sys.stderr) as bar:
        return asked(study, advance=lambda: bar.update(1))
