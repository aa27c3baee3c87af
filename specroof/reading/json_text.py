"""JSON from outside: one value or many, in time that grows with the text and no faster."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from specroof.errors import SpecroofError, reject
from specroof.reading.yaml_text import shortened

#: What stands between the values of a list, and between values one after another.
_BETWEEN: Final = {True: re.compile(r"[\s,]*"), False: re.compile(r"\s*")}
#: Characters of the explanation that Python gives.
_LONGEST_REASON: Final = 200


def parse_json(
    text: str,
    *,
    source: str,
    error: type[SpecroofError],
    allowed: str,
    object_type: type[dict[str, Any]] = dict,
) -> Any:
    """Return the one value that a text holds.

    A key that stands twice in an object is refused, since the value that counts would be
    a guess; so are nesting without end and whole numbers of thousands of digits.

    Parameters
    ----------
    text
        The whole file.
    source
        How messages name it.
    error
        The exception to raise.
    allowed
        What the file should hold, for messages.
    object_type
        What its objects become.

    Raises
    ------
    SpecroofError
        Of the type `error`, in one line.

    Examples
    --------
    >>> from specroof.errors import ConfigError
    >>> parse_json('{"a": 1}', source="x.json", error=ConfigError, allowed="an object")
    {'a': 1}
    >>> parse_json('{"a": 1, "a": 2}', source="x.json", error=ConfigError, allowed="an object")
    Traceback (most recent call last):
    specroof.errors.ConfigError: x.json: no readable JSON: the key "a" stands twice; allowed: an
    object
    """
    try:
        return json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=lambda pairs: object_type(_unique(pairs))
        )
    except (RecursionError, ValueError) as problem:
        reject(f"{source}: no readable JSON: {_reason(problem)}", allowed, error)


def json_values(text: str, *, source: str, error: type[SpecroofError]) -> Iterator[tuple[str, Any]]:
    r"""Yield each value of a list, or of values one after another, with its place.

    Parameters
    ----------
    text
        The whole file: a list, JSON Lines, or values that stretch over several lines.
    source
        How places name it.
    error
        The exception to raise.

    Raises
    ------
    SpecroofError
        Of the type `error`, with the line of what is wrong.

    Examples
    --------
    >>> from specroof.errors import MeasurementError
    >>> list(json_values('{"a": 1}\n{"a": 2}', source="x.json", error=MeasurementError))
    [('x.json, line 1', {'a': 1}), ('x.json, line 2', {'a': 2})]
    >>> list(json_values("[7, 8]", source="x.json", error=MeasurementError))
    [('x.json, line 1, result 1', 7), ('x.json, line 1, result 2', 8)]
    """
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    start = len(text) - len(text.lstrip())
    line = _line(text, start)
    end, is_list = len(text), text.startswith("[", start)
    if is_list:
        end = _list_end(text, start, source, decoder, error)
        start += 1
    number = 0
    while True:
        # Lines are counted from value to value: from the beginning each time, 8 MB took minutes.
        after = _BETWEEN[is_list].match(text, start, end).end()  # type: ignore[union-attr]  # both match nothing too
        line += text.count("\n", start, after)
        if after >= end:
            return
        number += 1
        place = f"{source}, line {line}{f', result {number}' if is_list else ''}"
        value, start = _decoded(text, after, place, decoder, error)
        line += text.count("\n", after, start)
        yield place, value


def _list_end(
    text: str, start: int, source: str, decoder: json.JSONDecoder, error: type[SpecroofError]
) -> int:
    """Return where the bracket stands that closes the only list of a text."""
    _, end = _decoded(text, start, f"{source}, line {_line(text, start)}", decoder, error)
    rest = text[end:].lstrip()
    if rest:
        place = f"{source}, line {_line(text, len(text) - len(rest))}"
        reject(f"{place}: stands behind a list", "one list, or one result a line", error)
    return end - 1


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _decoded(
    text: str, start: int, place: str, decoder: json.JSONDecoder, error: type[SpecroofError]
) -> tuple[Any, int]:
    """Return the value that begins at a place of the text, and where it ends."""
    try:
        return decoder.raw_decode(text, start)
    except (RecursionError, ValueError) as problem:
        reject(f"{place}: is not valid JSON ({_reason(problem)})", "one result a line", error)


def _reason(problem: Exception) -> str:
    """Return what is wrong with a text, in a few words."""
    if isinstance(problem, RecursionError):
        return "nested too deeply"
    return str(problem)[:_LONGEST_REASON]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object, refusing a key that stands twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # None goes on
        message = f"the key {shortened(json.dumps(twice), 60)} stands twice"
        raise ValueError(message)
    return values
