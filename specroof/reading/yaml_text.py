"""Safe YAML: a text becomes a mapping, or one line that says why it cannot.

Files come from strangers and from tired people. Plain PyYAML keeps the last of two equal keys,
reads `010` as 8 and `1:30` as 90, and lets nine short lines of aliases grow into gigabytes.
"""

import collections.abc
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from specroof.errors import SpecroofError, reject
from specroof.units import BOUNDS

#: Bytes of the longest text that is read: a hundred times the longest file that makes sense.
MAX_TEXT_BYTES: Final = 262_144

#: Levels of mappings and lists within one another; a hardware file needs four.
MAX_NESTING: Final = 32

# libyaml is ten times faster, and not part of every build of PyYAML. Both run the same checks,
# since these look at events and nodes, which the two loaders share.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG: Final = "tag:yaml.org,2002:"
_DECIMAL_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_SCIENTIFIC: Final = re.compile(
    r"(?P<sign>[-+]?)(?=\.?\d)(?P<whole>\d*)(?:\.(?P<part>\d*))?(?:e(?P<esign>[-+]?)(?P<power>\d+))?",
    re.ASCII | re.IGNORECASE,
)


class _RefusedError(Exception):
    """Valid YAML that is not read, with the place where it stands."""

    def __init__(self, problem: str, where: yaml.Event | yaml.Node) -> None:
        super().__init__(problem)
        self.mark = where.start_mark


def parse_yaml(text: str, *, source: str, error: type[SpecroofError]) -> dict[str, Any]:
    r"""Return the one mapping that `text` holds, built of plain Python values only.

    Refused are: anything but a mapping at the top, an empty text, a key twice in one mapping at
    any level, keys that are not text, anchors, aliases and merge keys (nothing can then expand
    without end), tags, numbers that are not plain decimals, more than one document, texts longer
    than `MAX_TEXT_BYTES` and nesting deeper than `MAX_NESTING`.

    Parameters
    ----------
    text
        The whole file.
    source
        How messages name it: a path, usually.
    error
        The exception to raise.

    Raises
    ------
    SpecroofError
        Of the type `error`, with one line that names the source and, where known, the line.

    Examples
    --------
    >>> from specroof.errors import ProfileError
    >>> parse_yaml("peak: {memory_bytes: 24.0e+9}", source="x.yaml", error=ProfileError)
    {'peak': {'memory_bytes': 24000000000.0}}
    >>> parse_yaml("name: a\nname: b", source="x.yaml", error=ProfileError)
    Traceback (most recent call last):
    specroof.errors.ProfileError: x.yaml, line 2: key 'name' appears twice in one mapping
    """
    n_bytes = len(text.encode("utf-8", "replace"))
    if n_bytes > MAX_TEXT_BYTES:
        message = f"{source}: is {n_bytes} bytes long; at most {MAX_TEXT_BYTES} are read"
        raise error(message)
    try:
        content = _document(text)
    except RecursionError:
        # Within the allowed nesting this takes a caller that has used up the stack itself.
        message = f"{source}: is nested too deeply to be read"
        raise error(message) from None
    except _RefusedError as refused:
        message = f"{_place(source, refused.mark)}: {refused}"
        raise error(message) from None
    except (yaml.YAMLError, ValueError) as problem:
        mark, reason = getattr(problem, "problem_mark", None), _reason(problem)
        message = f"{_place(source, mark)}: cannot be read as YAML: {reason}"
        if "nesting depth" in reason:  # newer parsers have a bound of their own, far beyond ours
            message = f"{_place(source, mark)}: is nested deeper than {MAX_NESTING} levels"
        raise error(message) from None
    if content is None:
        reject(f"{source}: is empty", "a mapping of keys to values", error)
    if not isinstance(content, dict):
        kind = "list" if isinstance(content, list) else type(content).__name__
        reject(f"{source}: holds a {kind} at the top level", "a mapping of keys to values", error)
    return content


def dump_yaml(content: dict[str, Any]) -> str:
    r"""Return a mapping of plain values as YAML that `parse_yaml` reads back, in its order.

    Examples
    --------
    >>> dump_yaml({"peak": {"memory_bytes": 24e9}, "sizes": [1, 2]})
    'peak:\n  memory_bytes: 24000000000.0\nsizes:\n- 1\n- 2\n'
    """
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    return text


def shown(value: object) -> str:
    """Return a value the way a file spells it, cut off where it is long.

    Examples
    --------
    >>> shown(True), shown(None), shown("4.8e12"), len(shown("x" * 1000))
    ('true', 'empty', "'4.8e12'", 61)
    """
    if value is None or isinstance(value, bool):
        return {None: "empty", True: "true", False: "false"}[value]
    return shortened(repr(value), 60)


def shortened(text: str, n_letters: int) -> str:
    """Return the text, or its start where it is longer than `n_letters`.

    Examples
    --------
    >>> shortened("specroof", 8), shortened("specroof", 4)
    ('specroof', 'spec…')
    """
    return text if len(text) <= n_letters else text[:n_letters] + "…"


def number_spelling(text: str) -> str | None:
    """Return how YAML wants the number written that `text` shows; None if it shows none.

    YAML 1.1 reads a number in scientific notation as text unless it has a point and a signed
    exponent, and all that stands in quotes as text. A refusal of text in the place of a number
    says what to write.

    Source
        YAML 1.1, float type, https://yaml.org/type/float.html (the regular expression).

    Examples
    --------
    >>> number_spelling("4.8e12"), number_spelling("1e-6"), number_spelling("12.5")
    ('4.8e+12', '1.0e-6', '12.5')
    >>> number_spelling("fast") is None
    True
    """
    match = _SCIENTIFIC.fullmatch(text.strip())
    if match is None:
        return None
    # A leading zero would make YAML read the number as octal.
    mantissa = match["sign"] + (match["whole"].lstrip("0") or "0")
    if match["part"] is not None or match["power"] is not None:
        mantissa += "." + (match["part"] or "0")
    if match["power"] is None:
        return mantissa
    return f"{mantissa}e{match['esign'] or '+'}{match['power']}"


def _document(text: str) -> object:
    """Return the value of the only document, once all checks have passed."""
    # The events come one at a time, so that deep or expanding texts end here, before anything
    # is built from them.
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if anchor is not None:
            kind = "alias" if isinstance(event, yaml.AliasEvent) else "anchor"
            message = f"{kind} {shown(anchor)} is not allowed; write the value out"
            raise _RefusedError(message, event)
        if tag is not None:
            message = f"tag {shown(tag)} is not allowed; write the plain value"
            raise _RefusedError(message, event)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_NESTING:
            message = f"is nested deeper than {MAX_NESTING} levels"
            raise _RefusedError(message, event)
    node = yaml.compose(text, Loader=_LOADER)
    if node is None:
        return None
    _check_node(node)
    # The constructor alone turns checked nodes into values; no loader is needed any more.
    return yaml.constructor.SafeConstructor().construct_document(node)


def _check_node(node: yaml.Node) -> None:
    """Refuse keys and numbers that would be read as something else than they look like."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            problem = None
            if key.tag == _TAG + "merge":
                problem = "merge key '<<' is not allowed; write the keys out"
            elif not isinstance(key, yaml.ScalarNode):
                problem = "a key is a list or mapping; allowed: text"
            elif key.tag != _TAG + "str":
                problem = f"key {shown(key.value)} is not text; put it in quotes"
            elif key.value in seen:
                problem = f"key {shown(key.value)} appears twice in one mapping"
            if problem is not None:
                raise _RefusedError(problem, key)
            seen.add(key.value)
            _check_node(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_node(item)
    elif (node.tag == _TAG + "int" and not _DECIMAL_INT.fullmatch(node.value)) or (
        node.tag == _TAG + "float" and ":" in node.value
    ):
        message = (
            f"{shown(node.value)} is not a plain decimal number; write one, or put text in quotes"
        )
        raise _RefusedError(message, node)


def _place(source: str, mark: Any) -> str:
    """Return the source with the line that PyYAML's `mark` points at, where it knows one."""
    return source if mark is None else f"{source}, line {mark.line + 1}"


def _reason(problem: Exception) -> str:
    """Return what PyYAML found, without its copy of the text and its own idea of the place."""
    if isinstance(problem, yaml.MarkedYAMLError):
        return " ".join(part for part in (problem.context, problem.problem) if part)
    return str(problem)


# --- Plain values → frozen dataclasses, checked by their annotations ------------------------------
#
# What `specroof.reading.checked` does for files from outside, without the import of pydantic: a
# prediction reads such files, too.

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
def field_kinds(kind: Any) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the annotations of a dataclass by its keys, and the keys that it needs."""
    hints = get_type_hints(kind, include_extras=True)
    needed = {
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }
    return {field.name: hints[field.name] for field in fields(kind)}, frozenset(needed)


def _dataclass(content: Mapping[str, Any], kind: Any, above: str, *, trusted: bool) -> Any:
    known, needed = field_kinds(kind)
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
