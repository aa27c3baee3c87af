"""How mkdocstrings reads our docstrings: their own sections, and questions as they are called."""

import inspect
import re
import textwrap
from importlib import import_module
from typing import Any, Final

import griffe

#: Sections that numpy's style does not know: a title, and a block below it.
_SECTION: Final = re.compile(
    r"^(Counts|Ignores|Source)\n((?:[ ]{4}[^\n]*\n?|\n(?=[ ]{4}))+)", re.MULTILINE
)
_MATH: Final = re.compile(r"^\.\. math::[ ]*([^\n]*)\n((?:[ ]+[^\n]*\n?|\n(?=[ ]))*)", re.MULTILINE)
_ROLE: Final = re.compile(r":(?:func|class|meth|math|mod|attr):`~?([^`]+)`")
_LITERAL: Final = re.compile(r"(?<!`)``([^`]+)``(?!`)")
_TITLE: Final = re.compile(r"^\w+\n-+$|\Z", re.MULTILINE)


def as_markdown(docstring: str) -> str:
    """Return a docstring of ours as Markdown under numpy's titles.

    Our sections come before those of numpy, which end at its own titles alone.
    """
    text = _MATH.sub(_formula, docstring)
    sections = "".join(
        f"\n\n**{title}**: {' '.join(textwrap.dedent(block).split())}"
        for title, block in _SECTION.findall(text)
    )
    text = _TITLE.sub(lambda found: f"{sections}\n\n{found[0]}", _SECTION.sub("", text), count=1)
    return _LITERAL.sub(r"`\1`", _ROLE.sub(r"`\1`", text))


def _formula(found: re.Match[str]) -> str:
    lines = [found[1], *textwrap.dedent(found[2]).splitlines()]
    return "```text\n" + "\n".join(line for line in lines if line.strip()) + "\n```\n\n"


class Sections(griffe.Extension):
    """Rewrites every docstring before mkdocstrings parses it."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            if isinstance(obj, griffe.Function) and _is_question(obj):
                _as_called(obj, obj.docstring)
            obj.docstring.value = as_markdown(obj.docstring.value)


def _is_question(function: griffe.Function) -> bool:
    return any(str(one.value).startswith("question(") for one in function.decorators)


def _as_called(function: griffe.Function, written: griffe.Docstring) -> None:
    """Give a question the parameters and the docstring of its request, as Python's help does."""
    called = getattr(import_module(function.module.path), function.name)
    parameters = inspect.signature(called).parameters.values()
    function.parameters = griffe.Parameters(
        *(
            griffe.Parameter(
                one.name,
                kind=griffe.ParameterKind(one.kind.description),
                default=None if one.default is one.empty else repr(one.default),
            )
            for one in parameters
        )
    )
    function.docstring = griffe.Docstring(
        inspect.getdoc(called) or "",
        parent=function,
        parser=written.parser,
        parser_options=written.parser_options,
    )
