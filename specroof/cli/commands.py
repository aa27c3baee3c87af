"""Commands from the rows of questions, whose parameters are the flags."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from inspect import Parameter as Signed
from inspect import Signature, getdoc, signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import typer

from specroof.cli.output import (
    STANDARD_OUTPUT,
    check_file,
    check_files,
    check_folder,
    figure_files,
    progress,
    say,
    say_aside,
    say_json,
    text_file,
    write,
    write_folder,
)
from specroof.cli.schema import schema
from specroof.errors import OptionError, OutputError, refuse, reject
from specroof.questions.objects import as_list
from specroof.questions.parameters import (
    OPTION_FIELDS,
    OPTIONS,
    PLACEMENT,
    Parameter,
    parameters_of,
)
from specroof.questions.request import Command, Output
from specroof.questions.work import Budget, limited
from specroof.reading.words import in_seconds
from specroof.report.layout import name_sources, show_notes
from specroof.units import GIBIBYTE, MILLISECOND

#: What was given of the parameters of a question.
Given: TypeAlias = dict[str, Any]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on one line.")]
CsvFile = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write the rows as CSV; `-` is standard output."),
]
PointsFile = Annotated[
    Path | None,
    typer.Option("--points", metavar="FILE", help="Write every draft length of every load as CSV."),
]
AsGrid = Annotated[
    bool,
    typer.Option("--grid", help="Print JSON that holds every draft length of every load, too."),
]
#: Flags that change reports, what they say and what they do; no command sees them.
_REPORTS: Final[dict[str, tuple[str, Callable[[], None]]]] = {
    "notes": ("Print the notes, and the tables behind the answer.", show_notes),
    "sources": ("Print the notes with every source in full.", name_sources),
}
#: The panels of the fields of `specroof.Options`, and those that stand in the second.
_OPTIONS_PANEL: Final = "Formats and formulas"
_TEXTBOOK_PANEL: Final = "Textbook choices"
_TEXTBOOK: Final = ("granularity", "experts", "count", "v4_attention", "recurrent_state", "cost_of")
#: Steps of an answer from which a bar shows how far it is: some seconds.
_LONG: Final = 200_000
#: What a command takes without `--no-limit`.
_BUDGET: Final = Budget(600.0, 2 * GIBIBYTE, more=", or more with --no-limit")
#: Types that a word is read as.
_PLAIN: Final = (str, int, float, bool)


def command(row: Command) -> Callable[..., None]:
    """Return the command of a question: flags in; text, JSON, CSV and charts out."""

    def answer(**values: Any) -> None:
        _give_answers(row, **values)

    parameters = [_signed("given", Given)]
    if row.output is not None:
        spelt = typer.Option("--output", "-o", metavar=row.output.metavar, help=row.output.about)
        kind: Any = Path if row.output.required else Path | None
        default = Signed.empty if row.output.required else None
        parameters.insert(0, _signed("output", Annotated[kind, spelt], default))
    if row.prints:
        parameters.append(_signed("as_json", AsJson, default=False))
        about = "Print the JSON Schema of what --json prints."
        parameters.append(_eager("--json-schema", _json_schema, about))
    if row.csv:
        parameters.append(_signed("csv_file", CsvFile, default=None))
    if row.points:
        parameters.append(_signed("points_file", PointsFile, default=None))
    if row.grid:
        parameters.append(_signed("with_grid", AsGrid, default=False))
    if row.chart:
        spelt = typer.Option("--plot", metavar="FILE", help=row.chart)
        parameters.append(_signed("plot_file", Annotated[Path | None, spelt], default=None))
    if {"requests", "results"} & parameters_of(row.question).keys():
        spelt = typer.Option("--no-limit", help="Play loads that take long, or much memory.")
        parameters.append(_signed("no_limit", Annotated[bool, spelt], default=False))
    if row.commands:
        parameters.insert(0, _signed("context", typer.Context))
    _take(answer, parameters)
    first = str(getdoc(row.question)).partition("\n\n")[0]
    example = row.example and f"Example: {row.example}"
    answer.__doc__ = "\n\n".join(filter(None, [first, row.about, example]))
    return flags(row.question, row.options, prints=row.prints)(answer)


def _give_answers(  # noqa: PLR0913 - what a command takes
    row: Command,
    *,
    given: Given,
    as_json: bool = False,
    csv_file: Path | None = None,
    points_file: Path | None = None,
    with_grid: bool = False,
    plot_file: Path | None = None,
    output: Path | None = None,
    context: typer.Context | None = None,
    no_limit: bool = False,
) -> None:
    """Ask a question; write the files of the answer, then print it."""
    if context is not None and context.invoked_subcommand is not None:
        return
    if row.output is not None and output is None:
        for name in row.output.parameters:
            if name in given:
                refuse(name, given[name], f"with --output {row.output.metavar}")
    _check_places(row, given, output, (csv_file, points_file, plot_file))
    with _bar() as tell, limited(None if no_limit else _BUDGET, tell):
        answer = row.question(**given)
    for form, is_wanted in {"": True, "JSON": with_grid, "CSV": points_file is not None}.items():
        if is_wanted:
            answer.refuse_many(1, form)
    written = dict[Path, bytes]()
    if output is not None and row.output is not None:
        written = _output_files(row.output, output, answer)
    if not row.prints:
        write(written, as_json=False)
        return
    as_json = as_json or with_grid
    found = answer.to_dict() if as_json else {}
    if with_grid:
        found |= {"grid": answer.grid}
    write(
        text_file(csv_file, answer.to_csv),
        text_file(points_file, lambda: answer.to_csv("points")),
        {} if plot_file is None else figure_files(plot_file, answer.figures()),
        written,
        as_json=as_json,
    )
    if as_json:
        say_json(found)
    else:
        say(row.text(answer), to_paste=row.to_paste)


#: Parameters that may name a file, or a folder with a config; SPECs of drafters name theirs.
_READ: Final = frozenset(
    {"model", "models", "hardware", "results", "trace", "lengths", "traffic", "pages", "names"}
    | {"drafter", "drafters", "against", "engine_from", "prefill", "decode"}
)
_IN_SPEC: Final = re.compile(r"(?:config|profile)=([^,]+)")


def _check_places(
    row: Command, given: Given, output: Path | None, files: Sequence[Path | None]
) -> None:
    """Refuse places that cannot be written to, or hold what would be lost.

    Parameters
    ----------
    row, given
        What is asked.
    output, files
        Where the answer goes; tables and charts.
    """
    if output is not None and row.output is not None and _is_file(row.output, output):
        check_file(output)
        if row.output.is_edited and output.is_file():
            reject(f"{output} is there already", "a new file", OutputError)
    *tables, chart = files
    check_files(*tables, chart=chart)
    _refuse_read(given, *files)
    # A hardware file may be calibrated in its own place; a script is none.
    kept = set() if given.get("script") else {"hardware"}
    _refuse_read({name: one for name, one in given.items() if name not in kept}, output)


def _refuse_read(given: Given, *written: Path | None) -> None:
    """Refuse to write a file that the question reads.

    Raises
    ------
    OutputError
        With the file.
    """
    words = [str(one) for name in given.keys() & _READ for one in as_list(given[name])]
    words += [one for word in words for one in _IN_SPEC.findall(word)]
    words += [part for word in words for part in (word.rpartition(":")[0], word.partition("@")[2])]
    words += [os.path.join(word, "config.json") for word in words]  # noqa: PTH118 - as below
    # Path.is_file raises for names that are too long.
    read = [word for word in words if os.path.isfile(word)]  # noqa: PTH113
    for path in written:
        if path is not None and path.is_file() and any(map(path.samefile, read)):
            reject(f"{path} is read, and would be written over", "another file", OutputError)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None] | None]:
    """Yield what shows on a terminal how far a long answer is; None elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():  # it may be closed
        yield None
        return
    with ExitStack() as shown:
        bars: list[Any] = []

        def tell(done: int, steps: int) -> None:
            if not done and steps >= _LONG:
                bar = typer.progressbar(length=steps, label="requests", file=sys.stderr)
                bars.append(shown.enter_context(bar))
            if bars:
                bars[-1].update(done - bars[-1].pos)

        yield tell


def _output_files(output: Output, place: Path, answer: Any) -> dict[Path, bytes]:
    """Return the file of ``--output``; a folder is written at once."""
    if output.folder is None or _is_file(output, place):
        return text_file(place, lambda: output.content(answer))
    check_folder(place)
    with progress(output.steps(answer), output.step) as advance:
        files = dict(output.folder(answer, lambda: advance(1)))
    write_folder(place, files)
    return {}


def _is_file(output: Output, place: Path) -> bool:
    """Tell whether ``--output`` names a file rather than a folder."""
    is_named = place == STANDARD_OUTPUT or place.suffix.casefold() in output.suffixes
    return output.folder is None or is_named


def flags(
    question: Callable[..., Any],
    options: Sequence[str] = (),
    *,
    prints: bool = True,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of a question; what was given of them becomes its argument `given`.

    What was not given is left to the question, and fields of `specroof.Options` are in `options`.
    A refusal that begins with a parameter of the question names the flag instead. A command that
    prints takes ``--notes``, one that has a setup, and so sources, ``--sources``.

    Parameters
    ----------
    question
        Whose parameters they are, with types and defaults.
    options
        Fields of `specroof.Options` that are flags.
    prints
        Whether it prints an answer.
    """
    rows = {name: row for name, row in parameters_of(question).items() if row.in_shell}
    known = {**OPTION_FIELDS, **signature(question).parameters}
    has_sources = any(row.panel == PLACEMENT for row in rows.values())
    reports = [*["notes"] * prints, *["sources"] * has_sources]
    # The formats stand below the panels of the question.
    panels = {name: _TEXTBOOK_PANEL if name in _TEXTBOOK else _OPTIONS_PANEL for name in options}
    rows |= {name: replace(OPTIONS[name], panel=panel) for name, panel in panels.items()}
    shown = [
        _flag(name, row, known[name], is_hidden=row.panel == _TEXTBOOK_PANEL)
        for name, row in rows.items()
    ]
    former = {f"former_{name}": name for name, row in rows.items() if row.former}
    shown += [
        _flag(old, replace(rows[name], flag=rows[name].former), known[name], is_hidden=True)
        for old, name in former.items()
    ]

    def flagged(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[Signed] = []
        for signed in signature(command).parameters.values():
            is_given = signed.name == "given"
            parameters += shown if is_given else [signed.replace(annotation=hints[signed.name])]
        for name in reports:
            spelt = typer.Option(f"--{name}", help=_REPORTS[name][0])
            parameters.append(_signed(name, Annotated[bool, spelt], default=False))
        textbook = [name for name, panel in panels.items() if panel == _TEXTBOOK_PANEL]
        if textbook:
            words = ", ".join(rows[name].word(name) for name in textbook)
            parameters.append(
                _eager("--help-all", _help_all, f"Show {words} too.", _TEXTBOOK_PANEL)
            )

        def called(**values: Any) -> None:
            for name in [name for name in reports if values.pop(name)]:
                _REPORTS[name][1]()
            for name in ("json_schema", "help_all"):
                values.pop(name, None)
            given = {name: values.pop(name) for name in rows}
            for old, name in former.items():
                value = values.pop(old)
                if value is not None:
                    word = rows[name].word(name)
                    if given[name] is not None:
                        refuse(rows[name].former, value, f"{word} alone")
                    say_aside(f"note: {rows[name].former} is {word} now")
                    given[name] = value
            try:
                command(given=_given(rows, given), **values)
            except OptionError as refusal:
                raise OptionError(_in_flags(str(refusal), rows)) from None

        called.__doc__ = command.__doc__
        called.__name__ = command.__name__
        return _take(
            called, sorted(parameters, key=lambda signed: signed.default is not signed.empty)
        )

    return flagged


def _take(command: Callable[..., None], parameters: list[Signed]) -> Callable[..., None]:
    """Let Typer see these parameters of a function."""
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # functions take it
    command.__annotations__ = {signed.name: signed.annotation for signed in parameters}
    return command


def _signed(name: str, hint: Any, default: Any = Signed.empty) -> Signed:
    return Signed(name, Signed.KEYWORD_ONLY, default=default, annotation=hint)


def _eager(
    flag: str, call: Callable[[typer.Context, bool], None], about: str, panel: str | None = None
) -> Signed:
    """Return a flag that does something else than the command, which then ends."""
    spelt = typer.Option(flag, callback=call, is_eager=True, help=about, rich_help_panel=panel)
    return _signed(flag[2:].replace("-", "_"), Annotated[bool, spelt], default=False)


def _help_all(context: typer.Context, is_wanted: bool) -> None:
    if is_wanted:
        for one in context.command.params:
            if getattr(one, "rich_help_panel", None) == _TEXTBOOK_PANEL:
                one.hidden = False  # type: ignore[attr-defined]  # options have it
        typer.echo(context.get_help())
        raise typer.Exit


def _json_schema(context: typer.Context, is_wanted: bool) -> None:
    if is_wanted:
        place: Any = context
        names: list[str] = []
        while place.parent is not None:  # which the program itself has not
            names.insert(0, place.info_name)
            place = place.parent
        schema("-".join(names))
        raise typer.Exit


def _flag(name: str, row: Parameter, known: Signed, *, is_hidden: bool) -> Signed:
    """Return the parameter of a command for one of the question."""
    default = known.default if row.default is Signed.empty else row.default
    if not isinstance(default, (*_PLAIN, type(Signed.empty))):
        default = None  # which the question has in its own way
    kind = row.kind
    if kind is None:  # that of a question if it is one plain type, else text
        hint = known.annotation
        if get_origin(hint) is Annotated:  # of a request; questions have plain types
            hint = get_args(hint)[0]
        kinds = {*(get_args(hint) or [hint])} - {NoneType}
        kind = next(iter(kinds)) if len(kinds) == 1 and kinds <= {*_PLAIN} else str
    settings: dict[str, Any] = {"help": row.about_flag or row.about, "rich_help_panel": row.panel}
    if row.names is not None:
        settings["autocompletion"] = completion(row.names)
    if row.shown is not None:
        settings["show_default"] = row.shown
    if is_hidden:
        settings["hidden"] = True
    spelt: Any = (
        typer.Argument(metavar=row.flag, **settings)
        if row.word(name) == name
        else typer.Option(*(row.flag.split() or [row.word(name)]), metavar=row.metavar, **settings)
    )
    return _signed(name, Annotated[kind, spelt], default)


def completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a shell completion over `names` that ignores capitals."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.casefold().startswith(incomplete.casefold())]

    return complete


def _given(rows: Mapping[str, Parameter], values: Mapping[str, Any]) -> Given:
    """Return the values of flags as parameters of the question."""
    given, options = Given(), Given()
    for name, row in rows.items():
        value = values[name]
        if row.read is not None and value is not None:
            value = row.read(row.word(name), value)
        if value is not None and value != []:
            (options if name in OPTION_FIELDS else given)[name] = value
    return given | ({"options": options} if options else {})


_NAME: Final = re.compile(r"[a-z]\w*")
#: The number that a refusal is about.
_VALUE: Final = re.compile(r"(?<= is )[-+.\de]*\d")


def _in_flags(message: str, rows: Mapping[str, Parameter]) -> str:
    """Return a refusal that names flags instead of parameters."""
    first = _NAME.match(message)
    if first is None or first[0] not in rows:
        return message
    if rows[first[0]].read is in_seconds:
        message = _VALUE.sub(lambda told: f"{float(told[0]) / MILLISECOND:.12g}", message, count=1)

    def in_flags(match: re.Match[str]) -> str:
        name = match[0]
        # Inside a sentence, a name of one word is plain English, unless it joins another name.
        joins = match.start() == 0 or message[: match.start()].endswith((" and ", " or "))
        return rows[name].word(name) if name in rows and (joins or "_" in name) else name

    return _NAME.sub(in_flags, message)
