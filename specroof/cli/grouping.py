"""Commands from groups of flags: a parameter whose type is a group stands for all of its flags."""

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo

from specroof.cli.flags import AsJson, CsvFile, PlaceFlags, Read, plot_option
from specroof.cli.output import figure_files, give, text_file
from specroof.errors import OptionError
from specroof.questions.words import OPTIONS
from specroof.report.fitting import name_sources

#: A flag that changes reports; no command sees it.
_SOURCES: Final = Annotated[
    bool, typer.Option("--sources", help="Name the source of every figure, in full.")
]


def command(
    asked: Callable[..., Any],
    *groups: type,
    example: str,
    text: Callable[[Any], str],
    csv: Callable[[Any], str] | None = None,
    charts: tuple[str, str] | None = None,
) -> Callable[..., None]:
    """Return the command of a question: flags in; text, JSON, CSV and charts out.

    Parameters
    ----------
    asked
        The question. The first sentence of its docstring is the command's help.
    groups
        Flags whose names are the question's parameters.
    example
        A call, which help ends with.
    text, csv
        Reports of the answer; without `csv` there is no ``--csv``.
    charts
        The help of ``--plot``, and the function of `specroof.plot` that draws the answer; without
        them there is no ``--plot``.
    """

    def answer(
        *, as_json: bool, csv_file: Path | None = None, plot_file: Path | None = None, **ask: Any
    ) -> None:
        found = asked(**given(*ask.values()))
        give(
            found.to_dict,
            lambda: text(found),
            {} if csv is None else text_file(csv_file, lambda: csv(found)),
            {}
            if charts is None
            else figure_files(plot_file, lambda p: getattr(p, charts[1])(found)),
            as_json=as_json,
        )

    parameters = [_parameter(f"group_{i}", group) for i, group in enumerate(groups)]
    parameters.append(_parameter("as_json", AsJson, default=False))
    if csv is not None:
        parameters.append(_parameter("csv_file", CsvFile, default=None))
    if charts is not None:
        drawn = Annotated[Path | None, plot_option(charts[0])]
        parameters.append(_parameter("plot_file", drawn, default=None))
    answer.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # functions take it
    answer.__annotations__ = {one.name: one.annotation for one in parameters}
    answer.__doc__ = f"{str(getdoc(asked)).partition(_END)[0]}\n\nExample: {example}"
    return flags(answer)


#: What ends the first sentence of a docstring.
_END: Final = "\n\n"


def flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of the groups that its parameters are of.

    A refusal that begins with a parameter of the library names the flag instead. A command that has
    a setup, and so sources, takes ``--sources``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _group_parameters(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))

    if any(issubclass(group, PlaceFlags) for group in groups.values()):
        parameters.append(_parameter("sources", _SOURCES, default=False))

    @wraps(command)
    def called(**given: Any) -> None:
        if given.pop("sources", False):
            name_sources()
        filled = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        try:
            command(**given, **filled)
        except OptionError as refusal:
            raise OptionError(
                _in_flags(str(refusal), _words(parameters, groups.values()))
            ) from None

    ordered = sorted(parameters, key=lambda one: one.default is not Parameter.empty)
    called.__signature__ = signature(command).replace(parameters=ordered)  # type: ignore[attr-defined]  # functions take it
    called.__annotations__ = {one.name: one.annotation for one in ordered}
    del called.__wrapped__
    return called


def _hints(group: Any) -> dict[str, Any]:
    """Return the annotations of a group's flags."""
    hints = get_type_hints(group, include_extras=True)
    return {field.name: hints[field.name] for field in fields(group)}


def _group_parameters(group: Any) -> list[Parameter]:
    hints = _hints(group)
    return [
        _parameter(
            field.name,
            _in_panel(hints[field.name], group.panel),
            Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(group)
    ]


def _parameter(name: str, hint: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hint)


def _in_panel(hint: Any, title: str) -> Any:
    """Return a flag that ``--help`` shows below the command's own flags, under a title."""
    kind, info, *_ = get_args(hint)
    shown = copy(info)
    shown.rich_help_panel = title
    return Annotated[kind, shown]


def given(*groups: Any) -> dict[str, Any]:
    """Return the flags of groups as the parameters of a question.

    What was not given is left to the question. Fields of `specroof.Options` go into its `options`.
    """
    found: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for group in groups:
        for name, hint in _hints(type(group)).items():
            value, into = getattr(group, name), name
            for read in _reads(hint):
                into = read.into or name
                value = None if value is None else read.value(_flag(name, hint), value)
            if value is not None and value != []:
                (options if into in OPTIONS else found)[into] = value
    return found | ({"options": options} if options else {})


def _reads(hint: Any) -> list[Read]:
    """Return how a flag becomes a parameter, where it is not handed on as it is."""
    return [one for one in get_args(hint) if isinstance(one, Read)]


_NAME: Final = re.compile(r"[a-z]\w*")


def _words(parameters: Iterable[Parameter], groups: Iterable[Any]) -> dict[str, str]:
    """Return the flag of each parameter of a question, by its name."""
    words = {one.name: _flag(one.name, one.annotation) for one in parameters}
    hints = [pair for group in groups for pair in _hints(group).items()]
    return words | {read.into: _flag(*pair) for pair in hints for read in _reads(pair[1])}


def _in_flags(message: str, words: Mapping[str, str]) -> str:
    """Return a refusal that names flags instead of parameters.

    Parameters
    ----------
    message
        The refusal.
    words
        The flag of each parameter.
    """
    first = _NAME.match(message)
    if first is None or first[0] not in words:
        return message

    def in_flags(found: re.Match[str]) -> str:
        name = found[0]
        # Inside a sentence, a name of one word is plain English, unless it joins another name.
        joined = found.start() == 0 or message[: found.start()].endswith((" and ", " or "))
        return words.get(name, name) if joined or "_" in name else name

    return _NAME.sub(in_flags, message)


def _flag(name: str, hint: Any) -> str:
    """Return the word of a flag in the shell; an argument has none but its name."""
    for info in get_args(hint)[1:2]:
        if isinstance(info, ArgumentInfo):
            return name
        # Typer keeps the first word of an annotation as its default.
        for word in (info.default, *(info.param_decls or ())):
            if isinstance(word, str) and word.startswith("--"):
                return word
    return f"--{name.replace('_', '-')}"
