"""Groups of flags: a parameter whose type is a group stands for all of its flags."""

import re
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer

from specroof.cli.flags import PlaceFlags
from specroof.errors import OptionError
from specroof.report.fitting import name_sources

__all__ = ["flags"]

#: A flag that no command sees: it changes what reports say.
_SOURCES: Final = Parameter(
    "sources",
    Parameter.POSITIONAL_OR_KEYWORD,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--sources", help="Name the source of every figure, in full.")
    ],
)


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
        parameters.append(_SOURCES)

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
            raise OptionError(_in_flags(str(refusal), parameters)) from None

    ordered = sorted(parameters, key=lambda one: one.default is not Parameter.empty)
    called.__signature__ = signature(command).replace(parameters=ordered)  # type: ignore[attr-defined]  # functions take it
    called.__annotations__ = {one.name: one.annotation for one in ordered}
    del called.__wrapped__
    return called


def _group_parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=field.default,
            annotation=_in_panel(hints[field.name], group.panel),
        )
        for field in fields(group)
    ]


def _in_panel(hint: Any, title: str) -> Any:
    """Return a flag that ``--help`` shows below those of the command, under a title."""
    kind, info = get_args(hint)
    shown = copy(info)
    shown.rich_help_panel = title
    return Annotated[kind, shown]


_NAME: Final = re.compile(r"[a-z]\w*")


def _in_flags(message: str, parameters: Iterable[Parameter]) -> str:
    """Return a refusal that names flags instead of parameters."""
    words = {one.name: _flag(one) for one in parameters}
    first = _NAME.match(message)
    if first is None or first[0] not in words:
        return message

    def in_flags(found: re.Match[str]) -> str:
        name = found[0]
        # Inside a sentence, a name of one word is plain English, unless it joins another name.
        joined = found.start() == 0 or message[: found.start()].endswith((" and ", " or "))
        return words.get(name, name) if joined or "_" in name else name

    return _NAME.sub(in_flags, message)


def _flag(parameter: Parameter) -> str:
    """Return the name of a parameter in the shell."""
    for info in get_args(parameter.annotation)[1:]:
        # Typer keeps the first word of an annotation as its default.
        for word in (info.default, *(info.param_decls or ())):
            if isinstance(word, str) and word.startswith("--"):
                return word
    return f"--{parameter.name.replace('_', '-')}"
