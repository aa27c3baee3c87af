"""What every answer can do."""

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from specroof.errors import expect, optional_library, refuse
from specroof.outcomes.rows import LOAD_KEYS
from specroof.quantities import Lines, Row, cell_of, in_cells, records_of
from specroof.report.columns import (
    Columns,
    arrow_table,
    data_frame,
    listed_columns,
    record_columns,
)
from specroof.report.layout import columns_csv, facts_html, format_table, page, rows_csv
from specroof.serving.workload import workload_json

if TYPE_CHECKING:
    from specroof.architecture import Architecture
    from specroof.latency import Setup
    from specroof.serving.workload import Workload


#: The ends of a band.
_ENDS: Final = ("low", "high")
#: What tables are of: rows, or every point of a grid.
Of: TypeAlias = Literal["rows", "points"]


def _is_of_points(of: object) -> bool:
    """Return whether a table is of points.

    Raises
    ------
    OptionError
        For any other word than these two.
    """
    if of not in get_args(Of):
        refuse("of", of, "rows or points")
    return of == "points"


class Answer:
    """An answer: its numbers, and what a reader must know about them.

    Attributes
    ----------
    rows
        What its table shows: text, CSV, frames and JSON say the same of each.
    notes
        Sentences on how the numbers came about.
    warnings
        Sentences on points that cannot be had.
    question, asked
        The name of the question, and its parameters that are not the usual ones.
    """

    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    question: str
    asked: Mapping[str, Any]

    if TYPE_CHECKING:  # a field of some answers, a property of others

        @property
        def rows(self) -> tuple[Any, ...]:
            """What its table shows."""
            ...

    @property
    @abstractmethod
    def title(self) -> str:
        """What was asked, in one line."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""

    def as_asked(self, question: str, asked: Mapping[str, Any]) -> Self:
        """Return the answer as that to a question, asked with these parameters."""
        return replace(self, question=question, asked=asked)  # type: ignore[type-var]  # each is a dataclass

    def envelope(
        self, case: Mapping[str, Any], choice: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it in version 3.

        Parameters
        ----------
        case
            What is served, where, for whom.
        choice
            What is chosen over all rows; None where nothing is.
        """
        return {
            "version": 3,
            "question": self.question,
            "asked": dict(self.asked),
            "case": dict(case),
            "rows": self.records,
            "choice": None if choice is None else dict(choice),
            **self.messages,
        }

    @property
    def messages(self) -> dict[str, list[str]]:
        """Notes and warnings as ``--json`` prints them."""
        return {"notes": list(self.notes), "warnings": list(self.warnings)}

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
        """The single values of the answer by name, which a notebook shows; those of an only row."""
        found = self.to_dict()
        facts = found.get("case", found)
        if "case" in found and len(found["rows"]) == 1:
            facts = facts | found["rows"][0]
        return {name: one for name, one in facts.items() if isinstance(one, str | int | float)}

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows by the names of their columns, as JSON has them; of none, the summary."""
        rows = getattr(self, "rows", None)
        return [self.summary] if rows is None else records_of(rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of that table."""
        records = self.records
        return list(records[0]) if records else []

    def point_columns(self) -> Iterator[Columns]:
        """Yield every point of a grid as columns, some rows at a time; the rows without a grid."""
        yield record_columns(in_cells(self.records), self.columns)

    def to_frame(self, of: Of = "rows") -> Any:
        """Return the rows of the answer as a pandas DataFrame.

        Parameters
        ----------
        of
            "points" for every point of a grid.

        Raises
        ------
        OptionError
            If pandas is not installed.
        """
        if _is_of_points(of):
            return data_frame(self.point_columns())
        pandas = optional_library("pandas", "to_frame")
        return pandas.DataFrame(in_cells(self.records), columns=self.columns)

    def to_arrow(self, of: Of = "rows") -> Any:
        """Return the rows of the answer as an Arrow table, with units; or "points", as `to_frame`.

        Raises
        ------
        OutputError
            If pyarrow is not installed.
        """
        if _is_of_points(of):
            return arrow_table(self.point_columns())
        return arrow_table([record_columns(in_cells(self.records), self.columns)])

    def to_csv(self, of: Of = "rows") -> str:
        """Return the rows as the CSV that ``--csv`` writes; "points" as ``--points`` does."""
        if _is_of_points(of):
            return columns_csv(map(listed_columns, self.point_columns()))
        return rows_csv(in_cells(self.records), self.columns)

    def _repr_html_(self) -> str:
        """Return a small table of the summary, and the notes below it."""
        return facts_html(self.title, self.summary, (*self.notes, *self.warnings))


def rows_table(
    rows: Sequence[Row],
    names: Sequence[str],
    beside: Mapping[str, Sequence[str]] | None = None,
    /,
    **titles: str,
) -> str:
    """Return some columns of rows as a table for people.

    Parameters
    ----------
    rows
        Of one class; without any there is no table.
    names
        The columns, ``speedup_band`` for both ends of a band. One that no row has is left out.
        Where there is no speedup, the reason stands.
    beside
        Columns that rows do not have, by their titles.
    titles
        Other titles than those of the quantities, by the names of columns.

    Examples
    --------
    >>> from specroof import worth
    >>> found = worth("Qwen/Qwen3-8B", "h100", drafter="eagle3", accept_length=[3, 4])
    >>> print(rows_table(found.rows, ["accept_length", "decision"]))
    tokens/round  decision
               3  on
               4  on
    """
    if not rows:
        return ""
    more = {} if beside is None else beside
    records, known = records_of(rows), rows[0].quantities()
    banded = {f"{name}_band": name for name in known}
    shown = [
        name
        for name in names
        if (name == "speedup" and name in records[0])
        or any(record.get(name) is not None for record in records)
        or any(record.get(f"{banded.get(name)}_low") is not None for record in records)
    ]
    left = [
        i for i, name in enumerate(shown) if isinstance(records[0].get(name), str | list | dict)
    ]

    def cell(record: Mapping[str, Any], name: str) -> str:
        if name in banded:
            ends = [cell_of(known[banded[name]], record[f"{banded[name]}_{end}"]) for end in _ENDS]
            low, high = ends
            return high if low == high else f"{low.removesuffix('x')}-{high}"
        if name == "speedup" and record[name] is None:
            return record.get("reason") or cell_of(known[name], None)
        return cell_of(known[name], record[name])

    cells = [
        [*(cell(record, name) for name in shown), *(column[i] for column in more.values())]
        for i, record in enumerate(records)
    ]
    header = [
        titles.get(name, "80% band" if name in banded else known[banded.get(name, name)].title)
        for name in shown
    ]
    keys = len(list(takewhile(("context_len", *LOAD_KEYS).__contains__, shown)))
    return format_table([*header, *more], cells, left=left, keys=max(keys, 1))


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Noted(Answer):
    """An answer that knows its sentences from the beginning.

    Attributes
    ----------
    notes, warnings
        Sentences for the reader.
    question, asked
        The name of the question, and its parameters that are not the usual ones.
    """

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    question: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Charted(Noted):
    """An answer with charts."""

    if TYPE_CHECKING:
        #: What is drawn of its rows; charts of anything else are those of its own `figures`.
        chart: ClassVar[Lines]

    def figures(self) -> dict[str, Any]:
        """Return the charts by the endings of their files' names; the first has none."""
        return {"": self.rows_chart(self.chart, self.rows)}

    def rows_chart(
        self, chart: Lines, rows: Sequence[Row], title: str = "", found: str = ""
    ) -> Any:
        """Return a chart of rows, with what was asked and what was found in its title.

        Parameters
        ----------
        chart, rows
            What is drawn of which rows.
        title, found
            That of the answer, and the best of the first figure, if empty.
        """
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        found = found or chart.found([row.record for row in rows])
        return plot.plot_rows(rows, chart, f"{title or self.title}\n{found}")

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


def case_of(
    model: "Architecture",
    setup: "Setup",
    workload: "Workload | None",
    context_len: float | None = None,
) -> dict[str, Any]:
    """Return what is served, where and for whom, as JSON of version 3 has it."""
    server = None if setup.server is None else setup.server.to_dict()
    return place_of(model, setup) | {
        "release": None if server is None else server["version"],
        "server": server,
        "load": {"context_len": context_len, **workload_json(workload).get("workload", {})},
    }


def place_of(model: "Architecture", setup: "Setup") -> dict[str, Any]:
    """Return model, hardware, engine and placement, with which ``--json`` begins."""
    return {
        "model": model.name,
        "hardware": setup.hardware.name,
        "engine": setup.engine.name,
        "placement": asdict(setup.placement),
    }
