"""Commands from the flags of a question: types and defaults of the flags are the question's own."""

import re
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, TypeAlias, get_args, get_type_hints

import typer

from specroof.cli.flags import PLACE, AsJson, CsvFile, Flag, Panel, plot_option
from specroof.cli.output import figure_files, give, text_file
from specroof.errors import OptionError
from specroof.questions.words import Options
from specroof.report.fitting import name_sources
from specroof.report.layout import rows_csv

#: What was given of the parameters of a question.
Asked: TypeAlias = dict[str, Any]

#: A flag that changes reports; no command sees it.
_SOURCES: Final = Annotated[
    bool, typer.Option("--sources", help="Name the source of every figure, in full.")
]
#: Types that a word is read as.
_PLAIN: Final = (str, int, float, bool)


def command(
    question: Callable[..., Any],
    own: dict[str, Flag],
    *panels: Panel,
    example: str,
    text: Callable[[Any], str],
    csv: bool = True,
    charts: str = "",
) -> Callable[..., None]:
    """Return the command of a question: flags in; text, JSON, CSV and charts out.

    Parameters
    ----------
    question
        The first sentence of its docstring is the command's help.
    own, panels
        Its flags: see `flags`.
    example
        A call, which help ends with.
    text
        The answer as people read it.
    csv
        Whether ``--csv`` writes the answer's records.
    charts
        The help of ``--plot``, which draws the answer; without it there is no ``--plot``.
    """

    def answer(
        *, ask: Asked, as_json: bool, csv_file: Path | None = None, plot_file: Path | None = None
    ) -> None:
        found = question(**ask)
        give(
            found.to_dict,
            lambda: text(found),
            text_file(csv_file, lambda: rows_csv(found.records, found.columns)),
            {} if plot_file is None else figure_files(plot_file, found.figures),
            as_json=as_json,
        )

    parameters = [_parameter("ask", Asked), _parameter("as_json", AsJson, default=False)]
    if csv:
        parameters.append(_parameter("csv_file", CsvFile, default=None))
    if charts:
        drawn = Annotated[Path | None, plot_option(charts)]
        parameters.append(_parameter("plot_file", drawn, default=None))
    _be_called(answer, parameters)
    answer.__doc__ = f"{str(getdoc(question)).partition(_END)[0]}\n\nExample: {example}"
    return flags(question, own, *panels)(answer)


#: What ends the first sentence of a docstring.
_END: Final = "\n\n"


def flags(
    question: Callable[..., Any], own: dict[str, Flag], *panels: Panel
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of a question; what was given of them becomes its parameter `ask`.

    What was not given is left to the question, and fields of `specroof.Options` are in `options`.
    A refusal that begins with a parameter of the question names the flag instead. A command that
    has a setup, and so sources, takes ``--sources``.

    Parameters
    ----------
    question
        Whose parameters they are, with types and defaults.
    own
        Flags by the names of parameters.
    panels
        The same, below titles of their own.
    """
    every: dict[str, Flag] = {}
    shown: list[Parameter] = []
    known = {**signature(Options).parameters, **signature(question).parameters}
    for title, some in (Panel(None, own), *panels):
        every |= some
        shown += [_flag_parameter(name, one, known[name], title) for name, one in some.items()]

    def flagged(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[Parameter] = []
        for one in signature(command).parameters.values():
            parameters += [one.replace(annotation=hints[one.name])] if one.name != "ask" else shown
        if any(panel.title == PLACE.title for panel in panels):
            parameters.append(_parameter("sources", _SOURCES, default=False))

        def called(**given: Any) -> None:
            if given.pop("sources", False):
                name_sources()
            told = {name: given.pop(name) for name in every}
            try:
                command(ask=_asked(every, told), **given)
            except OptionError as refusal:
                raise OptionError(_in_flags(str(refusal), every)) from None

        called.__doc__ = command.__doc__
        called.__name__ = command.__name__
        return _be_called(called, sorted(parameters, key=lambda one: one.default is not one.empty))

    return flagged


def _be_called(command: Callable[..., None], parameters: list[Parameter]) -> Callable[..., None]:
    """Let Typer see these parameters of a function."""
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # functions take it
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _parameter(name: str, hint: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hint)


def _flag_parameter(name: str, flag: Flag, known: Parameter, panel: str | None) -> Parameter:
    """Return the parameter of a command for one of the question."""
    default = known.default if flag.default is Parameter.empty else flag.default
    if not isinstance(default, (*_PLAIN, type(Parameter.empty))):
        default = None  # which the question has in its own way
    kind = _kind(known.annotation) if flag.kind is None else flag.kind
    return _parameter(name, flag.hint(name, kind, panel), default)


def _kind(hint: Any) -> type:
    """Return the type that a word is read as: of a question's plain type that, else text."""
    kinds = {*(get_args(hint) or [hint])} - {NoneType}
    return next(iter(kinds)) if len(kinds) == 1 and kinds <= {*_PLAIN} else str


def _asked(every: Mapping[str, Flag], given: Mapping[str, Any]) -> Asked:
    """Return the values of flags as parameters of the question."""
    found, options = Asked(), Asked()
    for name, flag in every.items():
        value = given[name]
        if flag.read is not None and value is not None:
            value = flag.read(flag.word(name), value)
        if value is not None and value != []:
            (options if name in signature(Options).parameters else found)[name] = value
    return found | ({"options": options} if options else {})


_NAME: Final = re.compile(r"[a-z]\w*")


def _in_flags(message: str, every: Mapping[str, Flag]) -> str:
    """Return a refusal that names flags instead of parameters.

    Parameters
    ----------
    message
        The refusal.
    every
        The flag of each parameter.
    """
    first = _NAME.match(message)
    if first is None or first[0] not in every:
        return message

    def in_flags(found: re.Match[str]) -> str:
        name = found[0]
        # Inside a sentence, a name of one word is plain English, unless it joins another name.
        joined = found.start() == 0 or message[: found.start()].endswith((" and ", " or "))
        is_told = name in every and (joined or "_" in name)
        return every[name].word(name) if is_told else name

    return _NAME.sub(in_flags, message)
