"""Files from outside as pydantic classes, every refusal in one line.

The line names the source, the dotted key, the value and what is allowed. A user's file, whose keys
must all be known, derives from `FileBlock`, the output of another tool from `Extract`; a number is
`within` the bounds of its quantity, anything else is what `accept` lets through. pydantic is slow
to import, so rooms that need it only for some files import it late.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from specroof.arrays import real_number
from specroof.errors import SpecroofError
from specroof.reading.yaml_text import all_said, number_spelling, parse_yaml, shortened, shown
from specroof.units import BOUNDS, Bounds

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

#: The keys and positions that lead to a place in a file.
KeyPath: TypeAlias = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong at one place of a file.

    Parameters
    ----------
    path
        The place.
    said
        One sentence: the dotted key, the value and what is allowed.
    """

    path: KeyPath
    said: str


class FileBlock(BaseModel):
    """A mapping of a user's file: every key is known, and no value is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Extract(BaseModel):
    """The keys of another tool's output that are read; all others are passed over.

    A key that must be there has the default `REQUIRED`.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, validate_default=True)


#: The default of a key of an `Extract` that must be there: its type refuses null.
REQUIRED: Final[Any] = None


def accept(
    allowed: str, fits: Callable[[Any], bool], *kinds: type, yaml: bool = True
) -> BeforeValidator:
    """Return a pydantic validator that lets values of `kinds` which fit through unchanged.

    Its messages go on where `parse_model` has written the key: "is 0; allowed: …", with `allowed`
    at the end. Bools are not numbers here, and a number that YAML reads as text is spelt out.

    Parameters
    ----------
    allowed
        What may stand there, for messages.
    fits
        Whether a value of one of the `kinds` may.
    kinds
        Its classes.
    yaml
        Whether YAML may have read a number as text.

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
        is_text = yaml and isinstance(value, str) and str not in kinds
        spelling = number_spelling(str(value)) if is_text else None
        if spelling is not None:
            message = f"is {shown(value)}, which YAML reads as text; write {spelling}"
        else:
            message = f"is {shown(value)}; allowed: {allowed}"
        raise ValueError(message)

    return BeforeValidator(check)


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
        Of the type `error`, with one line for all that is wrong: the source, and of each mistake
        the dotted key, the value and what is allowed.

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
    return read_model(content, model, place=source, error=error)


def read_model(
    content: object, model: type[_Model], *, place: str, error: type[SpecroofError]
) -> _Model:
    """Return the `model` that a content of plain values describes.

    Parameters
    ----------
    content
        A mapping, as YAML, JSON or a row of a table has it.
    model
        As for `parse_model`.
    place
        How messages name the file, and the line where there is one.
    error
        The exception to raise.

    Raises
    ------
    SpecroofError
        As `parse_model` does.

    Examples
    --------
    >>> from specroof.errors import MeasurementError
    >>> class Result(Extract):
    ...     completed: Count = REQUIRED
    >>> read_model({"completed": 3, "x": 1}, Result, place="a.json", error=MeasurementError)
    Result(completed=3)
    >>> read_model({}, Result, place="a.json, line 2", error=MeasurementError)
    Traceback (most recent call last):
    specroof.errors.MeasurementError: a.json, line 2: completed is empty; allowed: a whole number
    of at least 1
    """
    block, mistakes = checked(content, model)
    if block is None:
        message = f"{place}: {all_said([mistake.said for mistake in mistakes])}"
        raise error(message)
    return block


def checked(content: object, model: type[_Model]) -> tuple[_Model | None, list[Mistake]]:
    """Return the `model` that a content describes, or None and all that is wrong with it.

    Parameters
    ----------
    content
        What `parse_yaml` returns.
    model
        As for `parse_model`.

    Examples
    --------
    >>> class Point(BaseModel, extra="forbid"):
    ...     x: float
    ...     y: float
    >>> _, mistakes = checked({"x": [], "z": 2.0}, Point)
    >>> [mistake.said for mistake in mistakes]
    ['z is not a known key; allowed: x, y', 'x is []; allowed: a valid number']
    """
    try:
        return model.model_validate(content), []
    except ValidationError as problem:
        errors = problem.errors(include_url=False)
        # A misspelt key is an unknown key and a missing one: the unknown one shows the mistake.
        blocks = Counter((error["type"], error["loc"][:-1]) for error in errors)
        errors = [
            error
            for error in errors
            if error["type"] != "missing"
            or blocks["missing", error["loc"][:-1]] > blocks["extra_forbidden", error["loc"][:-1]]
        ]
        errors.sort(key=lambda error: error["type"] != "extra_forbidden")
        return None, [_mistake(error, model) for error in errors]


def _mistake(error: Any, model: type[BaseModel]) -> Mistake:
    """Return the mistake behind an error of pydantic's."""
    path = tuple(step for step in error["loc"] if step != "[key]")
    key = ".".join(str(step) for step in path)
    match error["type"]:
        case "value_error":
            # A check across the keys of a block names the one it means in its message.
            said = str(error["ctx"]["error"])
            if path and said.startswith(f"{path[-1]}: "):  # it names its own key
                key = ".".join(map(str, path[:-1]))
            in_block = path == error["loc"] and _is_block(_annotation(path, model))
            said = f"{key}{'.' if in_block else ' '}{said}".lstrip(" .")
        case "extra_forbidden":
            said = f"{key} is not a known key; allowed: {_keys_beside(path, model)}"
        case "missing":
            said = f"{key} is missing; allowed keys: {_keys_beside(path, model)}"
        case kind:
            expected = error["msg"].replace("Input should be", "allowed:", 1)
            said = f"{key} is {shown(error['input'])}; {_EXPECTED.get(kind, expected)}".lstrip()
    # Keys come from the file and may be of any length.
    return Mistake(path, shortened(said, 800))


def without(content: Any, paths: Iterable[KeyPath]) -> Any:
    """Return a content without what stands at some places; None where nothing is left of it.

    A list loses entries, a mapping keys. What has not got the key that a path ends with is what
    misses it, and goes itself.

    Parameters
    ----------
    content
        What `parse_yaml` returns.
    paths
        Where to cut.

    Examples
    --------
    >>> study = {"targets": [{"model": "a"}, {"model": "b"}], "batch_size": [1, -1, 2], "x": 3}
    >>> without(study, [("targets", 0, "hardware"), ("batch_size", 1), ("x", 0)])
    {'targets': [{'model': 'b'}], 'batch_size': [1, 2]}
    """
    cuts: dict[Any, Any] = {}
    for path in paths:
        at = cuts
        for step in path:
            at = at.setdefault(step, {})
        at[_HERE] = True
    return _cut(content, cuts)


#: What marks that a path ends in a tree of cuts.
_HERE: Final = object()


def _cut(content: Any, cuts: dict[Any, Any]) -> Any:
    if not cuts:
        return content
    if _HERE in cuts or not isinstance(content, dict | list):
        return None
    items = dict(enumerate(content)) if isinstance(content, list) else content
    if any(step not in items for step in cuts):
        return None
    kept = {step: _cut(value, cuts.get(step, {})) for step, value in items.items()}
    left = {step: value for step, value in kept.items() if step not in cuts or value is not None}
    return [*left.values()] if isinstance(content, list) else left


def _keys_beside(path: KeyPath, model: type[BaseModel]) -> str:
    """Return all keys of the block within `model` that the last step of `path` is a key of."""
    return ", ".join(_annotation(path[:-1], model).model_fields)


def _annotation(path: KeyPath, model: type[BaseModel]) -> Any:
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
        if get_origin(block) is Annotated:
            block = get_args(block)[0]
    return block


def _is_block(annotation: Any) -> bool:
    """Tell whether what stands at a key is a block with keys."""
    return isinstance(annotation, type) and (
        issubclass(annotation, BaseModel) or is_dataclass(annotation)
    )


# --- The bounds of quantities as pydantic types, for figures of YAML files -----------------------
# The table is `specroof.units.BOUNDS`: a figure is held to the same bounds in a file, by a flag and
# in Python.


def within(quantity: str | Bounds, *, yaml: bool = True) -> BeforeValidator:
    """Return a validator that lets numbers within the bounds of a quantity through unchanged.

    Parameters
    ----------
    quantity
        A key of `specroof.units.BOUNDS`, or bounds.
    yaml
        As for `accept`.

    Examples
    --------
    >>> within("draft_len").func(1.5)
    Traceback (most recent call last):
    ValueError: is 1.5; allowed: a whole number from 0 to 1024
    """
    bounds = quantity if isinstance(quantity, Bounds) else BOUNDS[quantity]
    kinds = (int,) if bounds.whole else (int, float)
    return accept(
        bounds.allowed,
        lambda value: bounds.least <= value <= bounds.most,
        *kinds,
        yaml=yaml,
    )


# Numbers of other tools' outputs, as JSON and CSV have them: 32.0 is a whole number there.
Amount = Annotated[
    float,
    accept(
        "a finite number above 0",
        lambda value: 0 < real_number(value) < math.inf,
        *(int, float),
        yaml=False,
    ),
]


def whole_amount(least: int) -> BeforeValidator:
    """Return a validator that lets whole numbers through, spelled with a point or without.

    Examples
    --------
    >>> whole_amount(1).func(32.0)
    32.0
    """
    return accept(
        f"a whole number of at least {least}",
        lambda value: least <= real_number(value) < math.inf and value == int(value),
        *(int, float),
        yaml=False,
    )


WholeAmount = Annotated[int, BeforeValidator(int), whole_amount(1)]
WholeAmountOrZero = Annotated[int, BeforeValidator(int), whole_amount(0)]


def _limits(quantity: str) -> Any:
    """Return the bounds as the JSON Schema of a study says them."""
    bounds = BOUNDS[quantity]
    return Field(ge=bounds.least, le=bounds.most)


BatchSize = Annotated[float, _limits("batch_size"), within("batch_size")]
ContextLen = Annotated[float, _limits("context_len"), within("context_len")]
RequestLen = Annotated[float, _limits("request_len"), within("request_len")]
DraftLen = Annotated[int, _limits("draft_len"), within("draft_len")]
Share = Annotated[float, _limits("share"), within("share")]
