"""What every answer can do."""

import os
from abc import abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specroof.errors import expect, optional_library
from specroof.report.layout import facts_html, format_table, page, rows_csv

if TYPE_CHECKING:
    from specroof.architecture import Architecture
    from specroof.latency import Setup


class Answer:
    """An answer: its numbers, and what a reader must know about them.

    Attributes
    ----------
    notes
        Sentences on how the numbers came about.
    warnings
        Sentences on points that cannot be had.
    """

    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    @abstractmethod
    def title(self) -> str:
        """What was asked, in one line."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""

    def text(self) -> str:
        """Return the answer as its command prints it; the summary, line by line, where it has none.

        ``print`` shows this text. An answer sets it to the function of its file that makes the
        text, and its command prints the same.
        """
        return page(self, format_table(["", ""], [(k, str(v)) for k, v in self.summary.items()]))

    def __str__(self) -> str:
        """Return the answer as its command prints it."""
        return self.text()

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        return f"<{type(self).__name__}: {self.title}>"

    @property
    def summary(self) -> dict[str, Any]:
        """The single values of the answer by name, which a notebook shows."""
        return {
            name: value
            for name, value in self.to_dict().items()
            if isinstance(value, str | int | float)
        }

    @property
    def records(self) -> list[dict[str, Any]]:
        """The answer as rows of a table; one row where it has no more."""
        return [self.summary]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of that table."""
        return list(self.records[0])

    def to_frame(self) -> Any:
        """Return the rows of the answer as a pandas DataFrame.

        Raises
        ------
        OptionError
            If pandas is not installed.
        """
        return optional_library("pandas", "to_frame").DataFrame(self.records)

    def to_csv(self) -> str:
        """Return the rows of the answer as the CSV that ``--csv`` writes."""
        return rows_csv(self.records, self.columns)

    def _repr_html_(self) -> str:
        """Return a small table of the summary, and the notes below it."""
        return facts_html(self.title, self.summary, (*self.notes, *self.warnings))


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Noted(Answer):
    """An answer that knows its sentences from the beginning.

    Attributes
    ----------
    notes, warnings
        Sentences for the reader.
    """

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def messages(self) -> dict[str, list[str]]:
        """Notes and warnings as ``--json`` prints them."""
        return {"notes": list(self.notes), "warnings": list(self.warnings)}


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Charted(Noted):
    """An answer with charts."""

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """Return the charts by the endings of their files' names; the first has none."""

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the answer; of several charts, the first.

        Parameters
        ----------
        path
            A file to write it to, as ``--plot`` does; None for none.
        """
        expect("path", path, str | os.PathLike | None, "a file, or None")
        chart = self.figures()[""]
        if path is not None:
            from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

            Path(path).write_bytes(plot.figure_bytes(chart, Path(path)))
        return chart


def title_of(model: "Architecture", setup: "Setup") -> str:
    """Return the model, devices and engine, as titles begin with them."""
    devices, engine = setup.placement.devices, setup.engine.name
    return f"{model.name} on {devices} x {setup.hardware.name}, engine {engine}"


def place_of(model: "Architecture", setup: "Setup") -> dict[str, Any]:
    """Return model, hardware, engine and placement, with which ``--json`` begins."""
    return {
        "model": model.name,
        "hardware": setup.hardware.name,
        "engine": setup.engine.name,
        "placement": asdict(setup.placement),
    }
