"""Safe YAML: a text becomes a mapping, or one line that says why it cannot.

Files come from strangers and from tired people. Plain PyYAML keeps the last of two equal keys,
reads `010` as 8 and `1:30` as 90, and lets nine short lines of aliases grow into gigabytes.
"""

import collections.abc
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, UnionType
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


def bundled_yaml(module: str, name: str) -> dict[str, Any]:
    """Return what a file of the package holds, by its name and the file of the module beside it.

    Examples
    --------
    >>> from specroof import frameworks
    >>> bundled_yaml(frameworks.__file__, "names.yaml")["mlx"]
    {'one_user': True}
    """
    text = Path(module).with_name(name).read_text("utf-8")
    return parse_yaml(text, source=name, error=SpecroofError)


class _Dumper(yaml.SafeDumper):
    """Writes an object out wherever it stands: an alias of it would not be read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - what PyYAML calls it with
        return True


def dump_yaml(content: dict[str, Any]) -> str:
    r"""Return a mapping of plain values as YAML that `parse_yaml` reads back, in its order.

    Examples
    --------
    >>> dump_yaml({"peak": {"memory_bytes": 24e9}, "sizes": [1, 2]})
    'peak:\n  memory_bytes: 24000000000.0\nsizes:\n- 1\n- 2\n'
    """
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
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
# Keys and quantities of a file are spelled once: in the classes that hold what it says.

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


def read_plain(  # noqa: PLR0913 - how a file is read, by name
    content: Mapping[str, Any],
    kind: type[_T],
    *,
    source: str,
    error: type[SpecroofError],
    trusted: bool = False,
    words: Mapping[str, Callable[[Any], str]] = MappingProxyType({}),
    hidden: Collection[str] = (),
) -> _T:
    """Return the dataclass that a content of plain values describes.

    Parameters
    ----------
    content
        What `specroof.reading.yaml_text.parse_yaml` returns.
    kind
        A dataclass. Its fields are texts, numbers from 0 on, truth values, tuples, mappings by
        text, and dataclasses; ``Any`` takes anything. ``Annotated`` holds the name of a quantity of
        `specroof.units.BOUNDS` or of `words`, a collection of words or whole numbers, or a function
        from a value to what is allowed in its place, empty for a value that is.
    source
        How messages name the file.
    error
        The exception to raise.
    trusted
        Take values as they stand: they were checked before. Keys are checked all the same.
    words
        For names of annotations, such functions.
    hidden
        Fields that are no keys.

    Raises
    ------
    SpecroofError
        Of the type `error`, with one line: the source, and of each mistake, up to eight of them,
        the dotted key, the value and what is allowed.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from specroof.errors import ProfileError
    >>> @dataclass
    ... class Limits:
    ...     share: Annotated[float, "share"]
    ...     sizes: tuple[int, ...] = ()
    ...     least: tuple[str, int] | None = None
    >>> content = {"share": 0.5, "sizes": [1, 2], "least": ["a", 1]}
    >>> read_plain(content, Limits, source="x", error=ProfileError)
    Limits(share=0.5, sizes=(1, 2), least=('a', 1))
    >>> read_plain(
    ...     {"share": 0.5, "size": 1, "least": ["a"]}, Limits, source="x", error=ProfileError
    ... )
    Traceback (most recent call last):
    specroof.errors.ProfileError: x: size is not a known key; allowed: share, sizes, least; least is
    ['a']; allowed: a list of 2
    """
    reading = _Reading(trusted, words, hidden)
    read: _T = _read(content, kind, "", reading)
    if reading.mistakes:
        # A key that is not known tells more than what goes wrong without it.
        said = sorted(reading.mistakes, key=lambda mistake: "is not a known key" not in mistake)
        message = f"{source}: {all_said(said)}"
        raise error(message)
    return read


#: Mistakes of a file that one message names.
_MOST_SAID: Final = 8


def all_said(mistakes: Sequence[str]) -> str:
    """Return mistakes as one line says them."""
    more = f"; and {len(mistakes) - _MOST_SAID} more" * (len(mistakes) > _MOST_SAID)
    return f"{'; '.join(mistakes[:_MOST_SAID])}{more}"


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a content is read, and what is wrong with it so far."""

    trusted: bool
    words: Mapping[str, Callable[[Any], str]]
    hidden: Collection[str]
    mistakes: list[str] = field(default_factory=list)

    def mistake(self, key: str, value: object, allowed: str, *, is_number: bool = False) -> None:
        spelling = number_spelling(value) if is_number and isinstance(value, str) else None
        said = f"{key} is {shown(value)}; allowed: {allowed}"
        if spelling is not None:
            said = f"{key} is {shown(value)}, which YAML reads as text; write {spelling}"
        # Keys come from the file and may be of any length.
        self.mistakes.append(shortened(said, 800))


def _read(value: Any, kind: Any, key: str, reading: _Reading) -> Any:  # noqa: PLR0911 - one a kind
    """Return a value as an annotation says; None for one that is not allowed."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        plain, rule = parts[:2]
        is_named = isinstance(rule, str)
        if not reading.trusted:
            allowed = _allowed(reading.words.get(rule, rule) if is_named else rule, value)
            if allowed:
                return reading.mistake(key, value, allowed, is_number=plain in {int, float})
            if is_named and get_origin(plain) not in {tuple, collections.abc.Mapping}:
                # The name stands for all that there is to check.
                return plain(value) if plain in {float, str} else value
        return _read(value, plain, key, reading)
    if origin in {Union, UnionType}:
        built = tuple if isinstance(value, list) else type(value)
        one = next((part for part in parts if _class_of(part) is built), parts[0])
        return _read(value, one, key, reading)
    if kind is Any or kind is type(None):
        return value
    if origin is tuple and isinstance(value, list | tuple):
        kinds = parts[:1] * len(value) if parts[1:] == (...,) else parts
        if len(kinds) != len(value):
            return reading.mistake(key, value, f"a list of {len(kinds)}")
        return tuple(
            _read(one, kinds[place], f"{key}.{place}", reading) for place, one in enumerate(value)
        )
    if origin is collections.abc.Mapping and isinstance(value, dict):
        return {
            _read(name, parts[0], f"{key}.{name}", reading): _read(
                one, parts[1], f"{key}.{name}", reading
            )
            for name, one in value.items()
        }
    if is_dataclass(kind) and isinstance(value, dict):
        return _dataclass(value, kind, key, reading)
    allowed, fits = _SCALARS.get(kind, _BLOCKS[origin is tuple])
    if not reading.trusted and not fits(value):
        return reading.mistake(key, value, allowed, is_number=kind in {int, float})
    # YAML reads a whole number as one, and a date as a date.
    return kind(value) if kind in {float, str} else value


def _class_of(kind: Any) -> Any:
    """Return the class of the values that an annotation is for."""
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_origin(plain) or plain


@cache
def field_kinds(kind: Any) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the annotations of a dataclass by its keys, and the keys that it needs."""
    hints = get_type_hints(kind, include_extras=True)
    needed = {
        one.name
        for one in fields(kind)
        if one.default is MISSING and one.default_factory is MISSING
    }
    return {one.name: hints[one.name] for one in fields(kind)}, frozenset(needed)


def _dataclass(content: Mapping[str, Any], kind: Any, above: str, reading: _Reading) -> Any:
    kinds, needed = field_kinds(kind)
    place, before = f"{above}.".lstrip("."), len(reading.mistakes)
    if not reading.trusted or content.keys() - kinds.keys() or needed - content.keys():
        known = [key for key in kinds if key not in reading.hidden]
        strange = [key for key in content if key not in known]
        missing = [key for key in known if key in needed and key not in content]
        for key in strange:
            said = f"{place}{key} is not a known key; allowed: {', '.join(known)}"
            reading.mistakes.append(shortened(said, 840))
        # A misspelt key is an unknown key and a missing one: the unknown one shows the mistake.
        for key in missing if len(missing) > len(strange) else ():
            reading.mistakes.append(f"{place}{key} is missing; allowed keys: {', '.join(known)}")
    values = {
        key: _read(one, kinds[key], place + key, reading)
        for key, one in content.items()
        if key in kinds
    }
    return kind(**values) if len(reading.mistakes) == before else None


def _allowed(rule: Any, value: object) -> str:
    """Return what a rule allows in the place of a value; empty for one that it allows."""
    if callable(rule):
        return str(rule(value))
    if isinstance(rule, str):
        bounds = BOUNDS[rule]
        kinds = (int,) if bounds.whole else (int, float)
        fits = _is_number(value, *kinds) and bounds.least <= value <= bounds.most  # type: ignore[operator]
        return "" if fits else bounds.allowed
    fits = isinstance(value, str | int) and value in rule
    return "" if fits else ", ".join(map(str, rule))
