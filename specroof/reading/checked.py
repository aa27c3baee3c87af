"""Files from outside against pydantic classes, every refusal in one line.

The line names the source, the dotted key, the value and what is allowed. pydantic is slow to
import, so whoever needs this room only for some files imports it there.
"""

import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ValidationError

from specroof.errors import SpecroofError
from specroof.reading.yaml_text import number_spelling, parse_yaml, shortened, shown

__all__ = [
    "Count",
    "FirstVersion",
    "NonNegative",
    "Positive",
    "Text",
    "accept",
    "parse_model",
]

_LARGEST: Final = sys.float_info.max

#: What is allowed where one of pydantic's own checks fails, if its words would not do.
_EXPECTED: Final = {
    "model_type": "allowed: a mapping of keys to values",
    "dict_type": "allowed: a mapping of keys to values",
    "dataclass_exact_type": "allowed: a mapping of keys to values",
    "tuple_type": "allowed: a list",
    "list_type": "allowed: a list",
    "bool_type": "allowed: true or false",
    "string_type": "allowed: text",
    "too_short": "allowed: one or more",
}

_Model = TypeVar("_Model", bound=BaseModel)


def accept(allowed: str, fits: Callable[[Any], bool], *kinds: type) -> BeforeValidator:
    """Return a pydantic validator that lets values of `kinds` which fit through unchanged.

    Its messages go on where `parse_model` has written the key: "is 0; allowed: …", with `allowed`
    at the end. Bools are no numbers here, and a number that YAML reads as text is spelt out.

    Examples
    --------
    >>> accept("a number above 0", lambda figure: figure > 0, int, float).func("1e-6")
    Traceback (most recent call last):
    ValueError: is '1e-6', which YAML reads as text; write 1.0e-6
    """

    def check(value: object) -> object:
        # A bool is a number to Python, and `yes` is a bool to YAML.
        if isinstance(value, kinds) and not isinstance(value, bool) and fits(value):
            return value
        spelling = number_spelling(value) if isinstance(value, str) and str not in kinds else None
        if spelling is not None:
            message = f"is {shown(value)}, which YAML reads as text; write {spelling}"
        else:
            message = f"is {shown(value)}; allowed: {allowed}"
        raise ValueError(message)

    return BeforeValidator(check)


# NaN fails every comparison, and infinity the upper bound.
Positive = Annotated[
    float, accept("a number above 0", lambda figure: 0 < figure <= _LARGEST, int, float)
]
NonNegative = Annotated[
    float, accept("a number of at least 0", lambda figure: 0 <= figure <= _LARGEST, int, float)
]
Count = Annotated[int, accept("a whole number of at least 1", lambda count: count >= 1, int)]
Text = Annotated[str, accept("text, and not empty", lambda text: text.strip() != "", str)]
FirstVersion = Annotated[
    Literal[1], accept("1, the only version so far", lambda version: version == 1, int)
]


def parse_model(
    text: str, model: type[_Model], *, source: str, error: type[SpecroofError]
) -> _Model:
    """Return the `model` that the YAML in `text` describes.

    Parameters
    ----------
    text
        The whole file.
    model
        A pydantic class; with `accept` as validator of its fields, messages say what is allowed.
    source
        How messages name the file.
    error
        The exception to raise.

    Raises
    ------
    SpecroofError
        Of the type `error`, with one line for the first thing that is wrong: the source, the
        dotted key, the value and what is allowed.

    Examples
    --------
    >>> from specroof.errors import ProfileError
    >>> class Point(BaseModel, extra="forbid"):
    ...     x: float
    >>> parse_model("{x: 1.5, y: 2.0}", Point, source="p.yaml", error=ProfileError)
    Traceback (most recent call last):
    specroof.errors.ProfileError: p.yaml: y is not a known key; allowed: x
    """
    content = parse_yaml(text, source=source, error=error)
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        # Keys come from the file and may be of any length.
        message = f"{source}: {shortened(_explanation(problem, model), 500)}"
        raise error(message) from None


def _explanation(problem: ValidationError, model: type[BaseModel]) -> str:
    """Return one sentence for the first thing that is wrong: key, value and what is allowed."""
    # A misspelt key is an unknown key and a missing one: the unknown one shows the mistake.
    found = min(problem.errors(), key=lambda error: error["type"] != "extra_forbidden")
    path = [step for step in found["loc"] if step != "[key]"]
    key = ".".join(str(step) for step in path)
    match found["type"]:
        case "value_error":
            # A check across the keys of a block names the one it means in its message.
            in_block = path == list(found["loc"]) and _is_block(_annotation(path, model))
            return f"{key}{'.' if in_block else ' '}{found['ctx']['error']}".lstrip(" .")
        case "extra_forbidden":
            return f"{key} is not a known key; allowed: {_keys_beside(path, model)}"
        case "missing":
            return f"{key} is missing; the keys there are {_keys_beside(path, model)}"
        case kind:
            said = found["msg"].replace("Input should be", "allowed:", 1)
            return f"{key} is {shown(found['input'])}; {_EXPECTED.get(kind, said)}"


def _keys_beside(path: list[int | str], model: type[BaseModel]) -> str:
    """Return all keys of the block within `model` that the last step of `path` is a key of."""
    return ", ".join(_annotation(path[:-1], model).model_fields)


def _annotation(path: list[int | str], model: type[BaseModel]) -> Any:
    """Return what stands at `path` within `model`: a block, or the type of a value."""
    block: Any = model
    for step in path:
        if _is_block(block):
            block = block.model_fields[str(step)].annotation
        else:
            block = get_args(block)[-1]  # the values of a mapping or list
        # `Block | None` may be left out, and is a Block where it is not.
        if NoneType in get_args(block):
            block = next(kind for kind in get_args(block) if kind is not NoneType)
    return block


def _is_block(annotation: Any) -> bool:
    """Tell whether what stands at a key is a block with keys."""
    return isinstance(annotation, type) and (
        issubclass(annotation, BaseModel) or is_dataclass(annotation)
    )
