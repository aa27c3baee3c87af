"""Safe YAML: a text becomes a mapping or a pydantic model, or one line that says why it cannot.

Files come from strangers and from tired people. Plain PyYAML keeps the last of two equal keys,
reads `010` as 8 and `1:30` as 90, and lets nine short lines of aliases grow into gigabytes.
"""

import re
from collections.abc import Callable
from types import NoneType
from typing import Any, Final, TypeVar, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ValidationError

from specroof.errors import SpecroofError

__all__ = [
    "MAX_NESTING",
    "MAX_TEXT_BYTES",
    "accept",
    "number_spelling",
    "parse_model",
    "parse_yaml",
    "shown",
]

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


#: What is allowed where one of pydantic's own checks fails, if its words would not do.
_EXPECTED: Final = {
    "model_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of keys to values",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "string_type": "must be text",
}

_Model = TypeVar("_Model", bound=BaseModel)


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
        mark = getattr(problem, "problem_mark", None)
        message = f"{_place(source, mark)}: cannot be read as YAML: {_reason(problem)}"
        raise error(message) from None
    if content is None:
        message = f"{source}: is empty; must be a mapping of keys to values"
        raise error(message)
    if not isinstance(content, dict):
        kind = "list" if isinstance(content, list) else type(content).__name__
        message = f"{source}: holds a {kind} at the top level; must be a mapping of keys to values"
        raise error(message)
    return content


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
    specroof.errors.ProfileError: p.yaml: y is not a known key; allowed are x
    """
    content = parse_yaml(text, source=source, error=error)
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        message = f"{source}: {_explanation(problem, model)}"
        raise error(message) from None


def accept(allowed: str, fits: Callable[[Any], bool], *kinds: type) -> BeforeValidator:
    """Return a pydantic validator that lets values of `kinds` which fit through unchanged.

    Its messages go on where `parse_model` has written the key: "is 0; must be …", with `allowed`
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
            message = f"is {shown(value)}; must be {allowed}"
        raise ValueError(message)

    return BeforeValidator(check)


def shown(value: object) -> str:
    """Return a value the way a file spells it, cut off where it is long.

    Examples
    --------
    >>> shown(True), shown(None), shown("4.8e12"), len(shown("x" * 1000))
    ('true', 'empty', "'4.8e12'", 61)
    """
    if value is None or isinstance(value, bool):
        return {None: "empty", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def number_spelling(text: str) -> str | None:
    """Return how YAML wants the number written that `text` shows; None if it shows none.

    YAML 1.1 reads a number in scientific notation as text unless it has a point and a signed
    exponent, and whatever stands in quotes as text. Whoever finds text where a number should be
    tells the reader what to write.

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
        _check_event(event)
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


def _check_event(event: yaml.Event) -> None:
    """Refuse anchors, aliases and tags, whatever they are for."""
    anchor = getattr(event, "anchor", None)
    tag = getattr(event, "tag", None)
    if anchor is not None:
        kind = "alias" if isinstance(event, yaml.AliasEvent) else "anchor"
        message = f"{kind} {shown(anchor)} is not allowed; write the value out"
    elif tag is not None:
        message = f"tag {shown(tag)} is not allowed; write the plain value"
    else:
        return
    raise _RefusedError(message, event)


def _check_node(node: yaml.Node) -> None:
    """Refuse keys and numbers that would be read as something else than they look like."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            _check_key(key, seen)
            seen.add(key.value)
            _check_node(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_node(item)
    elif (node.tag == _TAG + "int" and not _DECIMAL_INT.fullmatch(node.value)) or (
        node.tag == _TAG + "float" and ":" in node.value
    ):
        message = (
            f"{shown(node.value)} is no plain decimal number; write one, or put text in quotes"
        )
        raise _RefusedError(message, node)


def _check_key(key: yaml.Node, seen: set[str]) -> None:
    """Refuse a key that is no text, merges another mapping, or has been there before."""
    if key.tag == _TAG + "merge":
        message = "merge key '<<' is not allowed; write the keys out"
    elif not isinstance(key, yaml.ScalarNode):
        message = "a key must be text, not a list or mapping"
    elif key.tag != _TAG + "str":
        message = f"key {shown(key.value)} is not text; put it in quotes"
    elif key.value in seen:
        message = f"key {shown(key.value)} appears twice in one mapping"
    else:
        return
    raise _RefusedError(message, key)


def _place(source: str, mark: Any) -> str:
    """Return the source with the line that PyYAML's `mark` points at, where it knows one."""
    return source if mark is None else f"{source}, line {mark.line + 1}"


def _reason(problem: Exception) -> str:
    """Return what PyYAML found, without its copy of the text and its own idea of the place."""
    if isinstance(problem, yaml.MarkedYAMLError):
        return " ".join(part for part in (problem.context, problem.problem) if part)
    return str(problem)


def _explanation(problem: ValidationError, model: type[BaseModel]) -> str:
    """Return one sentence for the first thing that is wrong: key, value and what is allowed."""
    # A misspelt key is an unknown key and a missing one: the unknown one shows the mistake.
    found = min(problem.errors(), key=lambda error: error["type"] != "extra_forbidden")
    path = [step for step in found["loc"] if step != "[key]"]
    key = ".".join(str(step) for step in path)
    match found["type"]:
        case "value_error":
            # A check across keys has no key of its own and names them in its message.
            return f"{key} {found['ctx']['error']}".lstrip()
        case "extra_forbidden":
            return f"{key} is not a known key; allowed are {_keys_beside(path, model)}"
        case "missing":
            return f"{key} is missing; the keys there are {_keys_beside(path, model)}"
        case kind:
            return f"{key} is {shown(found['input'])}; {_EXPECTED.get(kind, found['msg'])}"


def _keys_beside(path: list[int | str], model: type[BaseModel]) -> str:
    """Return all keys of the block within `model` that the last step of `path` is a key of."""
    block: Any = model
    for step in path[:-1]:
        if isinstance(block, type) and issubclass(block, BaseModel):
            block = block.model_fields[str(step)].annotation
        else:
            block = get_args(block)[-1]  # the values of a mapping
        # `Block | None` may be left out, and is a Block where it is not.
        if NoneType in get_args(block):
            block = next(kind for kind in get_args(block) if kind is not NoneType)
    return ", ".join(block.model_fields)
