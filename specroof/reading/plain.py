"""Plain values of a bundled file → frozen dataclasses, checked by their annotations.

What `specroof.reading.checked` does for files from outside, without the import of pydantic: a
prediction reads such files, too.
"""

import collections.abc
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from specroof.errors import SpecroofError, reject
from specroof.reading.yaml_text import shown
from specroof.units import BOUNDS

_T = TypeVar("_T")

#: The largest number, and the longest text, where an annotation says nothing else.
MOST: Final = 2**24
_LETTERS: Final = 600


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


_SCALARS: Final[Mapping[type, tuple[str, Callable[[Any], bool]]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: (
        f"a whole number from 0 to {MOST}",
        lambda value: _is_number(value, int) and 0 <= value <= MOST,
    ),
    float: (
        f"a number from 0 to {MOST}",
        lambda value: _is_number(value, int, float) and 0 <= value <= MOST,
    ),
    str: (
        f"text of 1 to {_LETTERS} letters",
        lambda value: isinstance(value, str) and 0 < len(value) <= _LETTERS,
    ),
}
#: What a block must be, which nothing else fits: a mapping, or a list.
_BLOCKS: Final = tuple(
    (what, lambda _value: False) for what in ("a mapping of keys to values", "a list")
)


def read_plain(
    content: Mapping[str, Any],
    kind: type[_T],
    *,
    source: str,
    error: type[SpecroofError],
    trusted: bool = False,
) -> _T:
    """Return the dataclass that a content of plain values describes.

    Parameters
    ----------
    content
        What `specroof.reading.yaml_text.parse_yaml` returns.
    kind
        A dataclass. Its fields are texts, numbers from 0 on, truth values, tuples, mappings by
        text, and dataclasses; ``Any`` takes anything. ``Annotated`` holds the name of a quantity of
        `specroof.units.BOUNDS`, a collection of words or whole numbers, or a function from a value
        to what is allowed in its place, empty for a value that is.
    source
        How messages name the file.
    error
        The exception to raise.
    trusted
        Take values as they stand: they were checked before. Keys are checked all the same.

    Raises
    ------
    SpecroofError
        Of the type `error`, with one line: the source, the dotted key, the value and what is
        allowed.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from specroof.errors import ProfileError
    >>> @dataclass
    ... class Limits:
    ...     share: Annotated[float, "share"]
    ...     sizes: tuple[int, ...] = ()
    >>> read_plain({"share": 0.5, "sizes": [1, 2]}, Limits, source="x", error=ProfileError)
    Limits(share=0.5, sizes=(1, 2))
    >>> read_plain({"share": 0.5, "size": 1}, Limits, source="x", error=ProfileError)
    Traceback (most recent call last):
    specroof.errors.ProfileError: x: size is not a known key; allowed: share, sizes
    """
    try:
        read: _T = _read(content, kind, "", trusted=trusted)
    except _WrongError as wrong:
        key, problem, allowed = wrong.args
        reject(f"{source}: {key} {problem}", allowed, error)
    return read


class _WrongError(Exception):
    """A key, what is wrong there, and what is allowed."""


def _read(value: Any, kind: Any, key: str, *, trusted: bool) -> Any:  # noqa: PLR0911 - one a kind
    """Return a value as an annotation says."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        allowed = "" if trusted else _allowed(parts[1], value)
        if allowed:
            raise _WrongError(key, f"is {shown(value)}", allowed)
        return _read(value, parts[0], key, trusted=trusted)
    if origin in {Union, UnionType}:
        one = type(value) if type(value) in parts else parts[0]
        return _read(value, one, key, trusted=trusted)
    if kind is Any or kind is type(None):
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(
            _read(one, parts[0], f"{key}.{place}", trusted=trusted)
            for place, one in enumerate(value)
        )
    if origin is collections.abc.Mapping and isinstance(value, dict):
        return {
            _read(name, parts[0], f"{key}.{name}", trusted=trusted): _read(
                one, parts[1], f"{key}.{name}", trusted=trusted
            )
            for name, one in value.items()
        }
    if is_dataclass(kind) and isinstance(value, dict):
        return _dataclass(value, kind, key, trusted=trusted)
    allowed, fits = _SCALARS.get(kind, _BLOCKS[origin is tuple])
    if not trusted and not fits(value):
        raise _WrongError(key, f"is {shown(value)}", allowed)
    # YAML reads a whole number as one, and a date as a date.
    return kind(value) if kind in {float, str} else value


@cache
def _keys(kind: Any) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the annotations of a dataclass by its keys, and the keys that it needs."""
    hints = get_type_hints(kind, include_extras=True)
    needed = {
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }
    return {field.name: hints[field.name] for field in fields(kind)}, frozenset(needed)


def _dataclass(content: Mapping[str, Any], kind: Any, above: str, *, trusted: bool) -> Any:
    known, needed = _keys(kind)
    place = f"{above}.".lstrip(".")
    for problem, keys in (
        ("is not a known key", content.keys() - known.keys()),
        ("is missing", needed - content.keys()),
    ):
        for key in sorted(keys):
            raise _WrongError(place + key, problem, ", ".join(known))
    return kind(
        **{
            key: _read(one, known[key], place + key, trusted=trusted)
            for key, one in content.items()
        }
    )


def _allowed(rule: Any, value: object) -> str:
    """Return what a rule allows in the place of a value; empty for one that it allows."""
    if callable(rule):
        return str(rule(value))
    if isinstance(rule, str):
        bounds = BOUNDS[rule]
        fits = _is_number(value, int, float) and bounds.least <= value <= bounds.most  # type: ignore[operator]
        return "" if fits else bounds.allowed
    fits = isinstance(value, str | int) and value in rule
    return "" if fits else ", ".join(map(str, rule))
