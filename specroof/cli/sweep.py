"""`specroof sweep`: a study of several models, chips and drafters."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from specroof.cli.grouping import flags
from specroof.cli.output import check_folder, folder_of_figures, say, say_json
from specroof.cli.streams import say_aside
from specroof.errors import OptionError, StudyError
from specroof.questions.overview import Overview, overviews
from specroof.questions.sweep import Slice, Study, lacking_room, study_slices
from specroof.report.sweep import sweep_text
from specroof.units import format_binary_bytes

__all__ = ["sweep"]

#: What a shell expects of a command that an interrupt ended.
_INTERRUPTED: Final = 130

#: Mistakes that are shown at a terminal; into a file or a pipe go all.
_SCREEN: Final = 30

StudyFile = Annotated[
    str | None,
    typer.Argument(metavar="STUDY.yaml", help="A study file, or the bundled study `demo`."),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Write files here, or go on where a run of the same study ended. A folder, or a URL "
        "such as s3://bucket/folder.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="parquet|csv|jsonl",
        help="Format of the files.",
        show_default="that of the folder, else parquet where pyarrow is installed, else csv",
    ),
]
Workers = Annotated[int, typer.Option("--workers", metavar="N", help="Processes.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="dask://HOST:PORT",
        help="A cluster of dask, in the place of processes here.",
    ),
]
Plot = Annotated[bool, typer.Option("--plot", help="Draw charts into the folder.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what the study takes, and write nothing.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress and no summary.")]
Schema = Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a study file.")]


@flags
def sweep(  # noqa: PLR0913, PLR0917 - flags
    study: StudyFile = None,
    output: Output = None,
    form: Format = None,
    workers: Workers = 1,
    on: Cluster = None,
    plot: Plot = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    schema: Schema = False,
) -> None:
    """Run a study: several models x hardware x drafters.

    The file is checked whole before anything is computed, and every mistake told. Its keys:
    format_version (1), targets (a list of model, hardware, family, tensor_parallel,
    expert_parallel, attention_data_parallel), drafters (SPECs), batch_size, context_len or
    workload (input_len, output_len and prefix_hit_rate of requests, whose prefills then count;
    batch_size is how many are in flight), max_draft_len, engine, options, server, capacity.

    DIR gets points/, a file for each target and drafter; summary, the best of each load; and
    manifest.json. The same command goes on where it ended, whatever ended it.
    """
    from specroof.questions.study import load_study, study_schema  # noqa: PLC0415 - pydantic

    if schema:
        say_json(study_schema())
        return
    if study is None:
        message = "STUDY.yaml is missing; allowed: a study file, or --schema"
        raise OptionError(message)
    if workers < 1:
        message = f"--workers is {workers}; allowed: a whole number of at least 1"
        raise OptionError(message)
    try:
        loaded = load_study(study)
    except StudyError as refusal:
        _say_mistakes(refusal.mistakes)
        raise
    if dry_run:
        say(_expected(loaded, form))
        return
    if output is None:
        _say_summary(loaded, quiet=quiet)
        return
    if "://" not in output:
        check_folder(Path(output))
    _write(loaded, output, form, workers, on, plot=plot, quiet=quiet)


def _say_mistakes(mistakes: Sequence[str]) -> None:
    """Print what is wrong with a study, a line each; at a terminal as many as a screen holds."""
    shown = mistakes[:_SCREEN] if sys.stderr.isatty() else mistakes
    hidden = len(mistakes) - len(shown)
    rest = [f"and {hidden} more; 2> FILE keeps all of them"] if hidden else []
    say_aside("\n".join([*shown, *rest]))


def _span(seconds: float, off: float) -> str:
    """Return seconds and how far they may be off, as "42 s (29 to 55 s)"."""
    low, high = seconds * (1 - min(off, 1)), seconds * (1 + off)
    digits = 0 if seconds >= 10 else 1
    return f"{seconds:.{digits}f} s ({low:.{digits}f} to {high:.{digits}f} s)"


def _expected(study: Study, form: str | None) -> str:
    """Return what a study takes, in four lines."""
    from specroof.sweeps.estimate import estimate  # noqa: PLC0415 - as above

    found = estimate(study, form)
    return "\n".join(
        (
            f"points      {found.points}",
            f"partitions  {found.partitions}, a {found.form} file each",
            f"expected    {_span(found.seconds, found.seconds_off)} of one process here",
            f"            {format_binary_bytes(found.size_bytes)}",
        )
    )


def _say_summary(study: Study, *, quiet: bool) -> None:
    """Compute a study and print its summary, without files."""
    shown: list[Overview] = []
    notes: dict[str, None] = {}
    without_room = 0
    with _progress(study.n_points, quiet=quiet) as advance:

        def told(slices: Iterator[Slice]) -> Iterator[Slice]:
            nonlocal without_room
            for part in slices:
                curve = part.prediction.curves[0]
                notes.update(dict.fromkeys(part.prediction.notes))
                without_room += lacking_room(curve)
                yield part
                advance(curve.round_s.size)

        for target in range(1, len(study.targets) + 1):
            for drafter in range(1, len(study.drafters) + 1):
                shown += overviews(study.loads, told(study_slices(study, target, drafter)))
    say(sweep_text(shown, [*notes], points=study.n_points, without_room=without_room))


def _write(  # noqa: PLR0913 - flags
    study: Study,
    output: str,
    form: str | None,
    workers: int,
    on: str | None,
    *,
    plot: bool,
    quiet: bool,
) -> None:
    from specroof.sweeps.run import CHARTS, write_sweep  # noqa: PLC0415 - as above

    with _progress(study.n_points, quiet=quiet) as advance, _interrupts() as stop:
        run = write_sweep(
            study, output, form=form, workers=workers, on=on, advance=advance, stop=stop
        )
    if not run.done:
        done, of = len(run.records), len(run.plan.partitions)
        say_aside(f"stopped: {done} of {of} files are done; the same command goes on")
        raise typer.Exit(_INTERRUPTED)
    if plot:
        charts = folder_of_figures(Path(CHARTS), lambda plot: plot.study_figures(run.overviews))
        run.write_charts({path.name: data for path, data in charts.items()})
    if not quiet:
        say(
            sweep_text(
                run.overviews, run.notes, points=run.plan.points, without_room=run.without_room
            )
        )
        say_aside(f"wrote {len(run.records)} {run.form} files, a summary and a manifest: {output}")


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield what tells whether an interrupt has come: the first lets the file in hand be done."""
    come = False

    def note(_signal: int, _frame: FrameType | None) -> None:
        nonlocal come
        come = True
        signal.signal(signal.SIGINT, before)  # the second ends the run at once
        say_aside("interrupted: the file in hand is being finished; again to leave it")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: come
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _progress(points: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Yield what is told of points that are done; a person at a terminal sees how far it is."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("points"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.percentage:.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), speed_estimate_period=60) as bar:
        task = bar.add_task("points", total=points)
        yield lambda done: bar.advance(task, done)
