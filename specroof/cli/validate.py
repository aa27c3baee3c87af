"""`specroof validate`: predictions against published measurements."""

from pathlib import Path
from typing import Annotated

import typer

from specroof import catalog, report
from specroof.cli.words import AsJson, figure_files, say, say_written

__all__ = ["validate"]


def validate(
    as_json: AsJson = False,
    plot_file: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw predicted against measured speedup, by source."),
    ] = None,
) -> None:
    """Compare predictions with every bundled measurement, source by source.

    Each source is predicted by engine profiles that were fitted without it. Speedups count where
    a source states the acceptance length; other tables of speedups are compared by shape.
    """
    from specroof.validate import validation  # noqa: PLC0415 - reads all measurements
    from specroof.validate.tables import validation_json, validation_table  # noqa: PLC0415

    found = validation()
    if plot_file is not None:
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        files = figure_files(plot_file, {"": plot.plot_accuracy(found.points)})
        catalog.write_files(files)
        say_written(files)
    if as_json:
        say(report.json_line(validation_json(found)))
        return
    say(validation_table(found))
