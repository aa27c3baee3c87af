"""What every answer can do."""

import math
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, get_args

from specroof.architecture.model import Architecture
from specroof.errors import expect, optional_library, refuse
from specroof.latency.setup import Deployment, Setup
from specroof.outcomes.case import Case
from specroof.outcomes.rows import LOAD_KEYS, LoadRow, OfLoad
from specroof.quantities import (
    NOT_USEFUL,
    TTFT,
    Lines,
    Row,
    band_cell,
    cell_of,
    in_cells,
    is_useful,
    records_of,
)
from specroof.questions.splits import split_json, split_name
from specroof.report.columns import Columns, arrow_table, data_frame, listed_columns, record_columns
from specroof.report.layout import (
    closing,
    columns_csv,
    facts_html,
    format_table,
    in_line,
    rows_csv,
    shows_notes,
    wrapped,
)
from specroof.serving.workload import Workload, workload_json
from specroof.speedup.reach import how_sure
from specroof.units import format_drafts, plain_number, three_digits

if TYPE_CHECKING:
    from specroof.serving.split import Split


#: What tables have in the place of a figure that is not usefully predicted, without ``--notes``.
UNSURE: Final = "?"
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

    @property
    def sureness(self) -> str:
        """How near measurements are, in one sentence; empty where nothing is predicted."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return self.envelope({})

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

    def refuse_many(self, chips: int, form: str) -> None:
        """Refuse answers for several chips that are too large together, this being the first.

        Parameters
        ----------
        chips
            How many there are.
        form
            The form in which they are wanted: JSON, CSV, or ``""`` for the answers themselves.

        Raises
        ------
        OptionError
            For more than memory holds.
        """

    def text(self) -> str:
        """Return the answer as its command prints it; the summary, line by line, where it has none.

        ``print`` shows this text, which leaves out what ``--notes`` adds: see `notes`.
        """
        facts = [(name, str(value)) for name, value in self.summary.items()]
        return self.as_page(format_table(["", ""], facts))

    def as_page(self, *parts: str, found: Iterable[str] = (), more: Sequence[str] = ()) -> str:
        """Return the answer as people read it, an empty line between two parts.

        Its title comes first; how sure it is, and its warnings and notes, come last. Parts without
        text are left out.

        Parameters
        ----------
        parts
            Tables, and what is to be pasted.
        found
            What the answer is, below the title, a sentence on each line.
        more
            What is shown together with the notes.
        """
        head = "\n".join(map(wrapped, [self.title, *found]))
        shown = [*parts, *(more if shows_notes() else ())]
        end = closing(**self.messages, sureness=self.sureness, is_more=any(more))
        return "\n\n".join(filter(None, [head, *shown, end]))

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
        Where there is no speedup, the reason stands. A figure whose band says too little is "?"
        unless notes are shown.
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
        of_figure = banded.get(name, name)
        low, high = (record.get(f"{of_figure}_{end}") for end in ("low", "high"))
        if not is_told(low, high):
            return UNSURE
        if name in banded:
            return band_cell(known[of_figure], low, high)
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


#: Stands for a gain at contexts beyond those that acceptance was measured at.
ACCEPTANCE_UNKNOWN: Final = "nothing is known of acceptance here"
#: Loads whose decisions are told one by one.
_MOST_TOLD: Final = 12
#: What stands behind loads.
_UNITS: Final = {"rate": " requests/s", "concurrency": " in flight"}


def decision_line(rows: Sequence[LoadRow], at: Sequence[str] = (), unit: str | None = None) -> str:
    """Return the decision on a drafter at each load, and its speedup with its band at both ends.

    Parameters
    ----------
    rows
        Of one drafter, a load each.
    at
        What rows are told apart by; the loads if empty.
    unit
        Of `at`; None for that of the loads.
    """
    if not at:  # loads in order, whatever the order of the question
        rows = sorted(rows, key=lambda row: (row.context_len or 0.0, row.load))
    first, last = rows[0], rows[-1]
    if unit is None:
        unit = next((word for key, word in _UNITS.items() if getattr(first, key) is not None), "")
    batch = "batch " if not at and not unit else ""
    places = at or [plain_number(row.load, digits=4) for row in rows]
    missing = {"unsustained": "none", "acceptance": "unknown"}
    missing["limit"] = "no room (a limit of the server)"
    words: list[str] = [row.decision or missing.get(row.reason or "", "no room") for row in rows]
    told, gains = words[0], gain_words(first)
    if len({row.context_len for row in rows}) > 1 or len(rows) > _MOST_TOLD:
        counts = Counter(words).items()
        told = ", ".join(f"{word} at {count} of {len(rows)} loads" for word, count in counts)
        gains = _gain_range(rows)
    elif len(rows) > 1:
        runs = [[*run] for _, run in groupby(zip(words, places, strict=True), lambda pair: pair[0])]
        spans = (" to ".join(dict.fromkeys([run[0][1], run[-1][1]])) for run in runs)
        told = ", ".join(
            f"{run[0][0]} at {batch}{span}" for run, span in zip(runs, spans, strict=True)
        )
        told += unit
        ends = first, next((row for row in rows[::-1] if row.speedup == row.speedup), last)
        found = [_gain(row) for row in ends]
        if found[0] != found[1] or first.tried_draft_len:
            at_ends = (places[rows.index(row)] for row in ends)
            found = [f"{gain} at {place}" for gain, place in zip(found, at_ends, strict=True)]
        gains = ", ".join(dict.fromkeys(found))
    return f"decision: {told}; {in_line(first.drafter)}: {gains}"


def gain_words(row: LoadRow) -> str:
    """Return what so many drafts gain at a load, with the band; or why there is no figure."""
    drafts = format_drafts(row.tried_draft_len)
    if row.reason == "unsustained":
        rates = row.plain_largest_stable_rate, row.largest_stable_rate
        off, on = (three_digits(math.nan if rate is None else rate) for rate in rates)
        return (
            f"no speedup, since the server keeps up with at most {off} requests/s without "
            f"drafts and {on} with {drafts}"
        )
    return f"{_gain(row)} with {drafts}" if row.tried_draft_len else _gain(row)


#: Why drafts have no room, and why a load has none, by the reason of a row.
_NO_ROOM: Final = {
    "memory": ("memory holds no drafts", "memory does not hold this load"),
    "limit": ("a limit of the server allows no drafts", "a limit of the server is below this load"),
}


def _gain(row: LoadRow) -> str:
    """Return the speedup at a load with its band."""
    if row.reason == "unsustained":
        return "no speedup (the server without drafts does not keep up)"
    if row.reason == "acceptance":
        return ACCEPTANCE_UNKNOWN
    if row.reason is not None:  # without a decision there is no room without drafts either
        return _NO_ROOM[row.reason][row.decision is None]
    if not row.tried_draft_len:
        return "no draft length is within what was asked, what was measured, and what the drafter makes"
    low, high = row.bands.get("tried_speedup", (row.tried_speedup,) * 2)
    if not is_useful(low, high):
        return f"speedup {NOT_USEFUL}"
    band = f" (likely {low:.2f} to {high:.2f}x)" if low < high else ""
    return f"{row.tried_speedup:.2f}x{band}"


def _gain_range(rows: Sequence[LoadRow]) -> str:
    """Return the smallest and the largest speedup of some loads."""
    known = sorted(row.tried_speedup for row in rows if row.tried_speedup == row.tried_speedup)
    if not known:
        return gain_words(rows[0])
    return " to ".join(dict.fromkeys(f"{end:.2f}x" for end in (known[0], known[-1])))


def sure_of(
    deployment: Deployment,
    drafters: Sequence[str],
    rows: Sequence[OfLoad],
    names: Sequence[str] = (),
) -> str:
    """Return how near measurements are to the loads of rows, in one sentence.

    Parameters
    ----------
    deployment, drafters
        As of `specroof.speedup.reach.how_sure`.
    rows, names
        As of `unsure_figures`.
    """
    running = (
        (row.concurrency, row.batch_size, getattr(row, "running", None), 1.0) for row in rows
    )
    batches = [next(one for one in known if one is not None) for known in running]
    contexts = [row.context_len or 0.0 for row in rows]
    return how_sure(deployment, drafters, contexts, batches) + unsure_figures(rows, names)


def is_told(low: float | None, high: float | None) -> bool:
    """Return whether a table has the figure of this band: a useful one, or any beside notes."""
    return is_useful(low, high) or shows_notes()


def unsure_figures(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Return which of these figures have bands that say too little, as the end of a sentence.

    Where other figures of a row have bands and its time to the first token has none, that is
    said, too: nobody timed a prompt on the engine.

    Parameters
    ----------
    rows, names
        Rows of one class, and the columns that are shown of them.
    """
    titles = dict.fromkeys(
        known.title
        for row in rows
        for name, known in row.quantities().items()
        if name in names and not is_useful(*row.bands.get(name, (None, None)))
    )
    told = "" if shows_notes() else f" ({UNSURE})"
    words = f"; {', '.join(titles)}{told}: {NOT_USEFUL}" if titles else ""
    untimed = TTFT.name in names and any(
        getattr(row, TTFT.name, None) and row.bands and TTFT.name not in row.bands for row in rows
    )
    return f"{words}; {TTFT.title}: no prompt was timed on this engine" if untimed else words


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

    def figures_with(self, others: Sequence[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return charts that compare this answer with those on other chips; empty without any."""
        return {}

    def rows_chart(
        self,
        chart: Lines,
        rows: Sequence[Row],
        title: str = "",
        found: str = "",
        measured: Sequence[tuple[float, int, float, bool]] = (),
    ) -> Any:
        """Return a chart of rows, with what was asked and what was found in its title.

        Parameters
        ----------
        chart, rows
            What is drawn of which rows.
        title, found
            That of the answer, and the best of the first figure, if empty.
        measured
            Measurements of the first figure near the rows, as `specroof.plot.rows` draws them.
        """
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        found = found or chart.found([row.record for row in rows])
        found = found[:1].upper() + found[1:]
        return plot.plot_rows(rows, chart, f"{title or self.title}\n{found}", measured)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the answer; of several charts, the first.

        Parameters
        ----------
        path
            A file to write it to, as ``--plot`` does; None for none.
        """
        expect("path", path, str | os.PathLike | None, "a file, or None")
        chart = next(iter(self.figures().values()))
        if path is not None:
            from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

            Path(path).write_bytes(plot.figure_bytes(chart, Path(path)))
        return chart


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class OnChips(Charted):
    """The answers to one question on several chips, as one answer whose rows name their chips.

    Attributes
    ----------
    answers
        That on each chip, in the order that these were named in.
    """

    answers: tuple[Any, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return "; ".join(one.title for one in self.answers)

    @property
    def rows(self) -> tuple[Any, ...]:
        """The rows on each chip, chip by chip."""
        return tuple(row for one in self.answers for row in one.rows)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows by the names of their columns, with their chips."""
        return [
            {"hardware": one.setup.hardware.name, **record}
            for one in self.answers
            for record in one.records
        ]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of that table."""
        first: list[str] = self.answers[0].columns
        return first if "hardware" in first else ["hardware", *first]

    def refuse_many(self, chips: int, form: str) -> None:
        """Refuse answers that are too large together."""
        self.answers[0].refuse_many(chips * len(self.answers), form)

    def text(self) -> str:
        """Return the answers as the command prints them, one below the other."""
        return "\n\n".join(map(str, self.answers))

    def to_dict(self) -> dict[str, Any]:
        """Return the answers as one object: case and choice of the first have those of others."""
        objects: list[dict[str, Any]] = [one.to_dict() for one in self.answers]
        united = {key: _with_others([one[key] for one in objects]) for key in ("case", "choice")}
        said = {
            key: [*dict.fromkeys(text for one in objects for text in one[key])]
            for key in ("notes", "warnings")
        }
        return objects[0] | {"asked": dict(self.asked), "rows": self.records} | united | said

    @property
    def grid(self) -> dict[str, Any] | None:
        """Every draft length of every load on the first chip, and on the others."""
        return _with_others([one.grid for one in self.answers])

    def point_columns(self) -> Iterator[Columns]:
        """Yield every point on each chip as columns, some rows at a time."""
        for one in self.answers:
            chip = {"hardware": one.setup.hardware.name}
            for columns in one.point_columns():
                yield columns if "hardware" in columns else chip | columns

    def figures(self) -> dict[str, Any]:
        """Return charts of all chips, and those of each by the chip's name."""
        first, *others = self.answers
        charts: dict[str, Any] = first.figures_with(others)
        for chip, one in zip(self.asked["hardware"], self.answers, strict=True):
            own = one.figures().items()
            charts |= {f"-{Path(chip).stem}{ending}": chart for ending, chart in own}
        return charts


def _with_others(parts: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return what the first chip has, with that of the others as ``other_chips``."""
    first, *others = parts
    return first and first | {"other_chips": others}


@dataclass(frozen=True, repr=False, eq=False)
class ServedAnswer(Noted):
    """An answer about a model that is served on one server, or on workers.

    Attributes
    ----------
    about
        What is served, where, and under which loads; of workers, on one that decodes.
    """

    about: Case

    @property
    def deployment(self) -> Deployment:
        """What is served, and where."""
        return self.about.deployment

    @property
    def model(self) -> Architecture:
        """What is served."""
        return self.about.deployment.model

    @property
    def setup(self) -> Setup:
        """Where it is served."""
        return self.about.deployment.setup

    @property
    def split(self) -> "Split | None":
        """Workers of prefill and of decoding; None where one server does both."""
        return self.about.split

    @property
    def served(self) -> str:
        """What is served, and where, as titles begin with it."""
        return title_of(self.model, self.setup, self.split)

    def served_json(
        self, workload: Workload | None = None, context_len: float | None = None
    ) -> dict[str, Any]:
        """Return what is served, where and for whom, as JSON has it."""
        case = case_of(self.model, self.setup, workload, context_len)
        if self.split is not None:
            case["split"] = split_json(self.setup, self.split)
        return case


@dataclass(frozen=True, repr=False, eq=False)
class OfDrafter(ServedAnswer, Charted):
    """An answer about one drafter, load by load.

    Attributes
    ----------
    drafter
        Its name.
    """

    drafter: str

    #: Figures of its rows whose bands may say too little.
    banded: ClassVar[Sequence[str]] = ()

    @property
    def context_len(self) -> float:
        """Cached tokens of each sequence."""
        return float(self.about.load.steady.context_len[0])

    @property
    def workload(self) -> Workload | None:
        """The mean request; None unless requests were asked about."""
        return self.about.load.steady.workload

    @property
    def asked_words(self) -> str:
        """The requests or the context that was asked about."""
        return (
            self.workload.requests if self.workload else f"context {plain_number(self.context_len)}"
        )

    @property
    def sureness(self) -> str:
        """How near measurements are, in one sentence."""
        return sure_of(self.deployment, [self.drafter.partition(",")[0]], self.rows, self.banded)

    @property
    def case(self) -> dict[str, Any]:
        """What is served, where and for whom, as JSON has it."""
        return self.served_json(self.workload, self.context_len)


def compared_on(chips: Mapping[str, tuple[str, Mapping[str, Any] | None]]) -> str:
    """Return the engines of several chips, and how near measurements are to each; nothing of one.

    Parameters
    ----------
    chips
        Engine and reach by the names of the chips; a reach as `specroof.speedup.reach.nearness`
        says it.
    """
    if len(chips) == 1:
        return ""
    lines = list[str]()
    if len({engine for engine, _ in chips.values()}) > 1:
        unlike = ", ".join(f"{engine} on {chip}" for chip, (engine, _) in chips.items())
        lines.append(f"engines differ: {unlike}")
    reaches = ((chip, reach) for chip, (_, reach) in chips.items() if reach)
    lines += [f"evidence on {chip}: {reach['text']}" for chip, reach in reaches]
    return "\n".join(map(wrapped, lines))


def title_of(model: Architecture, setup: Setup, split: "Split | None" = None) -> str:
    """Return the model, devices or workers, engine and releases, as titles begin with them."""
    place = split_name(setup, split)
    return f"{model.name} on {place}, engine {setup.engine.full_name}{releases_of(setup)}"


def releases_of(setup: Setup) -> str:
    """Return the release whose rules and flags count, and the newest one that was timed.

    Beside an engine of one release, which was timed itself, the rules alone.
    """
    one = setup.release
    if setup.server is None or not one.version:
        return ""
    if setup.engine.release:
        return f" (rules of {one.version})"
    tags = () if setup.engine.reach is None else setup.engine.reach.versions
    timed = f"timed up to {tags[-1].removeprefix('v')}" if tags else ""
    if (
        setup.engine.name == one.framework and not one.known_as
    ):  # the title names the server already
        return f" {one.version}{timed and f' ({timed})'}"
    return f" ({', '.join(filter(None, [one.name, timed]))})"


def case_of(
    model: Architecture,
    setup: Setup,
    workload: Workload | None,
    context_len: float | None = None,
) -> dict[str, Any]:
    """Return what is served, where and for whom, as JSON of version 3 has it."""
    server = None if setup.server is None else setup.server.to_dict()
    return {
        "model": model.name,
        "hardware": setup.hardware.name,
        "engine": setup.engine.full_name,
        "placement": asdict(setup.placement),
        "release": None if server is None else server["version"],
        "server": server,
        "load": {"context_len": context_len, **workload_json(workload)},
    }
