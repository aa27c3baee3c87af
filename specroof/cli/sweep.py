"""`specroof sweep`: a study of several models, chips and drafters."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from specroof.arrays import whole_within
from specroof.cli.commands import Given, flags
from specroof.cli.output import check_folder, progress, say, say_aside, say_json
from specroof.errors import StudyError, refuse, reject
from specroof.questions.parameters import Parameter
from specroof.questions.study import Study, load_study, study_schema
from specroof.questions.sweep import study_text, sweep_text
from specroof.sweeps.places import best_format
from specroof.sweeps.plan import estimate
from specroof.sweeps.run import WORKERS, write_sweep
from specroof.units import format_binary_bytes

#: The exit code that shells expect after an interrupt.
_INTERRUPTED: Final = 130

#: Mistakes that are shown at a terminal; into a file or a pipe go all.
_SCREEN: Final = 30


@dataclass(frozen=True)
class RunRequest:
    """What is run, and where its files go."""

    study: Annotated[
        str | None, Parameter("A study file, or the bundled study `demo`.", "STUDY.yaml")
    ] = None
    output: Annotated[
        str | None,
        Parameter(
            "Write files here, or continue a run of the same study. A folder, or a URL such as "
            "s3://bucket/folder.",
            "--output -o",
            metavar="DIR",
        ),
    ] = None
    form: Annotated[
        str | None,
        Parameter(
            "Format of the files.",
            "--format",
            metavar="parquet|csv|jsonl",
            shown="the folder's, else parquet where pyarrow is installed, else csv",
        ),
    ] = None
    workers: Annotated[int, Parameter("Processes.", metavar="N")] = 1
    on: Annotated[
        str | None,
        Parameter("A Dask cluster, instead of local processes.", metavar="dask://HOST:PORT"),
    ] = None
    plot: Annotated[bool, Parameter("Draw charts into the folder.")] = False
    dry_run: Annotated[bool, Parameter("Estimate points, time and size, and write nothing.")] = (
        False
    )
    quiet: Annotated[bool, Parameter("Show no progress and no summary.")] = False
    schema: Annotated[bool, Parameter("Print the JSON Schema of a study file.")] = False


@flags(RunRequest)
def sweep(given: Given) -> None:
    """Run a study: several models x hardware x drafters.

    The whole file is checked first, and every mistake is reported. Its keys: format_version (1);
    targets, a list of model, hardware, family, engine, framework, tensor_parallel,
    expert_parallel, attention_data_parallel, decode_context_parallel, pipeline_parallel, nodes,
    prefill, decode and link; drafters (SPECs); batch_size; context_len, or workload (input_len,
    output_len and prefix_hit_rate of requests, whose prefills then count; batch_size is how many
    are in flight; of simulated requests also rate, arrivals, requests, length_range and seed, or a
    trace or lengths); max_draft_len, engine, framework, options, server, capacity.

    DIR gets points/, a file for each target and drafter; summary, the best of each load; and
    manifest.json. The same command continues an interrupted run.
    """
    run = RunRequest(**given)
    if run.schema:
        say_json(study_schema())
        return
    if run.study is None:
        reject("STUDY.yaml is missing", "a study file, or --schema")
    _check(run)
    try:
        loaded = load_study(run.study)
    except StudyError as refusal:
        shown = refusal.mistakes[:_SCREEN] if sys.stderr.isatty() else refusal.mistakes
        hidden = len(refusal.mistakes) - len(shown)
        rest = [f"and {hidden} more; 2> FILE keeps all of them"] if hidden else []
        say_aside("\n".join([*shown, *rest]))
        raise
    if run.dry_run:
        say(_expected(loaded, run.form))
        return
    if run.output is None:
        with progress(loaded.n_points, "points", hidden=run.quiet) as advance:
            text = study_text(loaded, advance)
        say(text)
        return
    if "://" not in run.output:
        check_folder(Path(run.output))
    _write(loaded, run.output, run)


def _check(run: RunRequest) -> None:
    """Refuse how a study is to be run, before it is read."""
    if run.output == "":
        refuse("output", run.output, "a folder, or a URL")
    if run.output is None:
        of_files = {"on": run.on, "plot": run.plot, "form": not run.dry_run and run.form}
        for name, value in of_files.items():
            if value:
                refuse(name, value, "with --output, where files are written")
    whole_within("workers", run.workers, WORKERS)
    if run.form is not None:
        best_format(run.form)


def _span(seconds: float, off: float) -> str:
    """Return seconds and how far they may be off, as "42 s (29 to 55 s)"."""
    low, high = seconds * (1 - min(off, 1)), seconds * (1 + off)
    digits = 0 if seconds >= 10 else 1
    return f"{seconds:.{digits}f} s ({low:.{digits}f} to {high:.{digits}f} s)"


def _expected(study: Study, form: str | None) -> str:
    """Return the size and the expected time of a study, in four lines or five."""
    cost = estimate(study, form)
    each = study.n_played // study.n_points
    played = f"played      {each} requests a point, about {study.played_point_s:.2g} s each"
    return "\n".join(
        (
            *([played] if each else []),
            f"points      {cost.points}",
            f"partitions  {cost.partitions}, a {cost.form} file each",
            f"expected    {_span(cost.seconds, cost.seconds_off)} of one process here",
            f"            {format_binary_bytes(cost.size_bytes)}",
        )
    )


def _write(study: Study, output: str, how: RunRequest) -> None:
    """Run a study into a folder, and say what it found."""
    try:
        with progress(study.n_points, "points", hidden=how.quiet) as advance, _interrupts() as stop:
            run = write_sweep(
                study,
                output,
                form=how.form,
                workers=how.workers,
                on=how.on,
                advance=advance,
                stop=stop,
            )
    except KeyboardInterrupt:
        say_aside("stopped at once: what was in hand is lost; the same command goes on")
        raise typer.Exit(_INTERRUPTED) from None
    if not run.done:
        done, of = len(run.records), len(run.plan.partitions)
        say_aside(f"stopped: {done} of {of} files are done; the same command goes on")
        raise typer.Exit(_INTERRUPTED)
    if how.plot:
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        figures = plot.study_figures(run.overviews)
        files = {f"{name}.png": figure for name, figure in figures.items()}
        run.write_charts({name: plot.figure_bytes(chart, name) for name, chart in files.items()})
    if not how.quiet:
        say(
            sweep_text(
                run.overviews, run.notes, points=run.plan.points, without_room=run.without_room
            )
        )
        say_aside(f"wrote {len(run.records)} {run.form} files, a summary and a manifest: {output}")


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether an interrupt came; the first lets a file be finished."""
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
