"""JSON from outside: one value or many, in time that grows with the text and no faster."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from specroof.arrays import real_number
from specroof.errors import ConfigError, SpecroofError, reject
from specroof.reading.yaml_text import all_said, shortened

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


# --- JSON text to typed values: every refusal is one line with file, key, value and what is
#     allowed
# A config comes from strangers. Nothing is converted on the way in (`true` is not 1, `"32"` is not
# 32, `32.0` is not 32), and every number has an upper bound, so that a formula never meets a value
# it was not written for.

#: The longest file that is read. The longest published ones list the format of every expert: for
#: the 49 152 matrices of Nemotron 3 Ultra about 7 MB.
MAX_TEXT_LEN: Final = 16_777_216
#: More layers, and larger widths and counts, than any model that could be built.
MAX_LAYERS: Final = 2000
MAX_SIZE: Final = 2**24

#: How often a config is read to find its mistakes.
_MOST_READS: Final = 24
#: A size, and layers, while the mistakes of other keys are looked for.
_USUAL_SIZE: Final = 4096
_USUAL_LAYERS: Final = 64

_Read = TypeVar("_Read")

_MAX_SHOWN_LEN: Final = 60
_MAX_NAME_LEN: Final = 120
#: No value was given: null is one.
_UNSET: Final = object()


class AskedObject(dict[str, object]):
    """A JSON object that remembers the keys that were asked for.

    A key that no parser asked for was not understood, and may change what the model costs.

    Examples
    --------
    >>> values = AskedObject([("hidden_size", 64), ("n_streams", 4)])
    >>> values.get("hidden_size"), "head_dim" in values, sorted(values.asked)
    (64, False, ['head_dim', 'hidden_size'])
    """

    __slots__ = ("asked", "passed")

    def __init__(self, values: Iterable[tuple[str, object]] = ()) -> None:
        super().__init__(values)
        self.asked: set[str] = set()
        self.passed: set[str] = set()

    def __getitem__(self, key: str) -> object:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: object = None) -> object:
        """Return the value of `key`, or `default`."""
        self.asked.add(key)
        return super().get(key, default)


class KeyMistakeError(ConfigError):
    """A key of a config whose value is missing, or not what is allowed there.

    Attributes
    ----------
    source, said
        What messages call the file, and what is wrong.
    mend
        Puts there what may stand there, so that reading can go on.
    alone
        Whether it is wrong whatever other keys say.
    """

    def __init__(self, source: str, said: str, mend: Callable[[], None], *, alone: bool) -> None:
        super().__init__(f"{source}: {said}")
        self.source, self.said, self.mend, self.alone = source, said, mend, alone

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str]]:
        return ConfigError, (str(self),)


def read_whole(read: Callable[[], _Read]) -> _Read:
    """Return what a function reads from a config, or refuse all mistakes of its keys in one line.

    Once a value stands in for a mistake, only other keys whose own value is wrong are mistakes:
    what does not fit together may not fit the stand-in.

    Parameters
    ----------
    read
        Reads the whole config by `Reader`.

    Raises
    ------
    ConfigError
        If the config has a mistake.

    Examples
    --------
    >>> keys = Reader("x.json", {"heads": "8", "width": 0})
    >>> read_whole(lambda: keys.positive_int("heads") * keys.positive_int("width", maximum=9))
    Traceback (most recent call last):
    specroof.errors.ConfigError: x.json: heads is "8"; allowed: a whole number from 1 to 16777216;
    width is 0; allowed: a whole number from 1 to 9
    """
    mistakes: list[KeyMistakeError] = []
    for _ in range(_MOST_READS):
        try:
            found = read()
        except KeyMistakeError as mistake:
            if mistake.alone or not mistakes:
                mistakes.append(mistake)
            mistake.mend()
        except ConfigError:
            if not mistakes:
                raise
            break
        else:
            if not mistakes:
                return found
            break
    message = f"{mistakes[0].source}: {all_said([mistake.said for mistake in mistakes])}"
    raise ConfigError(message)


@dataclass(frozen=True, slots=True)
class Reader:
    """One JSON object of a config, read by key with a type and bounds.

    Parameters
    ----------
    source
        What messages call the file.
    values
        The object.
    prefix
        Where the object stands in the file, such as ``"text_config."``.
    spelled
        The file's own names of numbers that are asked for by their usual ones.
    """

    source: str
    values: Mapping[str, object]
    prefix: str = ""
    spelled: Mapping[str, str] = field(default_factory=dict)

    def _own(self, key: str) -> str:
        """Return what the file calls a key, unless it has it under its usual name."""
        own = self.spelled.get(key)
        return key if own is None or (key in self.values and own not in self.values) else own

    def value(self, key: str) -> object:
        """Return the value of `key`, of any type; None where it is absent or null."""
        return self.values.get(self._own(key))

    def has(self, key: str) -> bool:
        """Whether `key` is there and not null."""
        return self.values.get(self._own(key)) is not None

    def pass_over(self, keys: str) -> None:
        """Say of some keys, with spaces between, that nobody needs to read them."""
        if isinstance(self.values, AskedObject):
            self.values.passed.update(keys.split())

    def positive_int(
        self,
        *keys: str,
        maximum: int = MAX_SIZE,
        minimum: int = 1,
        default: int | None = None,
    ) -> int:
        """Return the whole number under the first of `keys` that is present and not null.

        Without a `default`, a missing key is refused.
        """
        key = self._first(keys)
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        usual = max(minimum, min(_USUAL_LAYERS if maximum == MAX_LAYERS else _USUAL_SIZE, maximum))
        instead = usual if default is None else default
        if value is None:
            self.mistake(
                key,
                _whole_number(minimum, maximum),
                called=" or ".join(map(self._own, keys)),
                instead=instead,
            )
        if type(value) is not int or not minimum <= value <= maximum:
            self.mistake(key, _whole_number(minimum, maximum), instead=instead)
        return value

    def optional_int(self, key: str, *, missing: int | None = None) -> int | None:
        """Return a whole number from 1, None where `key` is null, `missing` where it is absent."""
        if key not in self.values:
            return missing
        return self.positive_int(key) if self.has(key) else None

    def divisor(self, *keys: str, of: int, called: str, default: int | None = None) -> int:
        """Return a whole number that divides the number `of`, which messages know as `called`."""
        number = self.positive_int(*keys, default=default)
        if of % number:
            allowed = f"a divisor of {called} ({of})"
            self.mistake(self._first(keys), allowed, instead=of, alone=False)
        return number

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false; `default` where `key` is absent or null."""
        key = self._own(key)
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.mistake(key, "true or false", instead=default)
        return value

    def expect_flags(self, keys: str, *, value: bool) -> None:
        """Refuse a config in which a flag, of `keys` with spaces between, has the other value."""
        for key in keys.split():
            if self.flag(key, default=value) is not value:
                self.refuse(key, "true" if value else "false")

    def text(
        self, *keys: str, allowed: Collection[str] | None = None, default: str | None = None
    ) -> str:
        """Return the text under the first of `keys` that is present and not null."""
        key = self._first(keys)
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            self.refuse(" or ".join(keys), _one_of(allowed))
        if not isinstance(value, str) or (allowed is not None and value not in allowed):
            if default is None:  # what nobody can stand in for
                self.refuse(key, _one_of(allowed))
            self.mistake(key, _one_of(allowed))
        return value

    def texts(
        self, key: str, *, allowed: Collection[str] | None = None, at_least: int = 0
    ) -> tuple[str, ...]:
        """Return a list of texts; an absent or null key is an empty list.

        `at_least` is the number of layers that the list must cover; further entries describe
        draft layers and are the caller's to cut.
        """

        def fits(value: object) -> bool:
            return isinstance(value, str) and (allowed is None or value in allowed)

        usual = next(filter(fits, self._list(key, 0)), min(allowed or [""]))
        return tuple(self._entries(key, at_least, fits, _one_of(allowed), usual))

    def ints(
        self,
        key: str,
        *,
        minimum: int = 0,
        allowed: Collection[int] | None = None,
        at_least: int = 0,
    ) -> tuple[int, ...]:
        """Return a list of whole numbers; an absent or null key is an empty list."""
        named, usual = _whole_number(minimum, MAX_SIZE), minimum
        if allowed is not None:
            named, usual = ", ".join(map(str, sorted(allowed))), min(allowed)

        def fits(value: Any) -> bool:
            if type(value) is not int:
                return False
            return minimum <= value <= MAX_SIZE if allowed is None else value in allowed

        return tuple(self._entries(key, at_least, fits, named, usual))

    def section(self, key: str) -> "Reader | None":
        """Return the object under `key`; None where it is absent or null."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.mistake(key, "an object")
        return Reader(self.source, value, f"{self.prefix}{key}.")

    def required_section(self, key: str, allowed: str = "an object") -> "Reader":
        """Return the object under `key`, or refuse a config without."""
        section = self.section(key)
        if section is None:
            self.refuse(key, allowed)
        return section

    def sections(self, key: str) -> "dict[str, Reader]":
        """Return an object of objects as readers by name; absent or null is empty."""
        parent = self.section(key)
        if parent is None:
            return {}
        return {
            name: parent.section(name) or Reader(self.source, {}, f"{parent.prefix}{name}.")
            for name in parent.values
        }

    def objects(self, key: str, *, at_least: int = 0) -> "tuple[Reader, ...]":
        """Return a list of objects as readers; an absent or null key is an empty list."""
        objects = self._entries(
            key, at_least, lambda value: isinstance(value, dict), "an object", {}
        )
        return tuple(
            Reader(self.source, value, f"{self.prefix}{key}[{index}].")
            for index, value in enumerate(objects)
        )

    # Lists with an entry per layer, which several families spell alike. What stands beyond the last
    # layer describes draft layers.

    def listed_kinds(
        self, key: str, allowed: Collection[str], n_layers: int
    ) -> tuple[str, ...] | None:
        """Return each layer's kind by a list of texts; None where it is not given."""
        if not self.has(key):
            return None
        return self.texts(key, allowed=allowed, at_least=n_layers)[:n_layers]

    def layer_kinds(self, n_layers: int, usual: Sequence[str], *more: str) -> Sequence[str]:
        """Return each layer's kind: by ``layer_types``, or the `usual` ones by turns.

        A list may have kinds that are not usual, `more` of them.

        Examples
        --------
        >>> Reader("c.json", {}).layer_kinds(5, ("mamba", "mamba", "attention"))
        ['mamba', 'mamba', 'attention', 'mamba', 'mamba']
        """
        return self.listed_kinds("layer_types", {*usual, *more}, n_layers) or [
            usual[index % len(usual)] for index in range(n_layers)
        ]

    def flagged_layers(self, key: str, n_layers: int) -> list[bool] | None:
        """Return which layers a list of 0 and 1 marks; None where it is not given.

        Examples
        --------
        >>> Reader("c.json", {"moe_layer_freq": [0, 1, 1, 1]}).flagged_layers("moe_layer_freq", 3)
        [False, True, True]
        """
        if not self.has(key):
            return None
        return [flag == 1 for flag in self.ints(key, allowed=(0, 1), at_least=n_layers)[:n_layers]]

    def sliding_layers(self, n_layers: int) -> list[bool] | None:
        """Return whether each layer slides by ``layer_types``; None where it is not given."""
        allowed = ("full_attention", "sliding_attention")
        kinds = self.listed_kinds("layer_types", allowed, n_layers)
        return None if kinds is None else [kind == "sliding_attention" for kind in kinds]

    def layer_overrides(self, n_layers: int, allowed: Collection[str]) -> "list[Reader] | None":
        """Return what ``per_layer_config`` says of each layer; None where it is not given.

        transformers 5.23 writes layers that differ from the rest as an object by number of layer,
        with zeros in front: ``{"05": {"head_dim": 512}, "11": ...}``. A layer that is not named has
        the sizes of the file. A key that is not among `allowed` is refused: it would change a size.

        Source
            transformers 5.23, `integrations/heterogeneity/configuration_utils.py`.

        Examples
        --------
        >>> keys = Reader("c.json", {"per_layer_config": {"01": {"head_dim": 512}}})
        >>> [dict(layer.values) for layer in keys.layer_overrides(2, ("head_dim",))]
        [{}, {'head_dim': 512}]
        """
        section = self.section("per_layer_config")
        if section is None:
            return None
        layers: dict[int, Reader] = {}
        for name, layer in self.sections("per_layer_config").items():
            index = int(name) if name.isascii() and name.isdecimal() and len(name) < 9 else n_layers
            if index >= n_layers or index in layers:
                section.refuse(name, f"numbers of layers below {n_layers}, each once")
            for key in layer.values.keys() - set(allowed):
                layer.refuse(key, f"in this family only {', '.join(sorted(allowed))}")
            layers[index] = layer
        plain = Reader(self.source, {}, section.prefix)
        return [layers.get(index, plain) for index in range(n_layers)]

    def positive_number(self, key: str, *, maximum: float) -> float:
        """Return a number above 0, whole or not."""
        value = real_number(self.values.get(key))
        if not 0 < value <= maximum:
            allowed = f"a number above 0, up to {maximum:g}"
            self.mistake(key, allowed, instead=min(1.0, maximum))
        return value

    def refuse(self, key: str, allowed: str, value: object = _UNSET) -> NoReturn:
        """Raise the `ConfigError` of `key`; its value is looked up where none is given."""
        if value is _UNSET:
            value = self.values.get(key, _UNSET)
        reject(f"{self.source}: {self._named(key, value)}", allowed, ConfigError)

    def mistake(
        self,
        key: str,
        allowed: str,
        *,
        called: str | None = None,
        index: int | None = None,
        instead: object = None,
        alone: bool = True,
    ) -> NoReturn:
        """Raise the `KeyMistakeError` of a key, or of an entry of its list.

        Parameters
        ----------
        key, allowed
            The key, and what is allowed there.
        called
            What messages call the key, if not by its name.
        index
            Which entry of its list is wrong.
        instead
            What may be the value of the key; None is as good as no value.
        alone
            Whether it is wrong whatever other keys say.
        """
        value: Any = self.values.get(called or key, _UNSET)
        if index is not None:
            value, called = value[index], f"{key}[{index}]"
        said = f"{self._named(called or key, value)}; allowed: {allowed}"
        mended: Any = self.values
        mend = partial(mended.__setitem__, key, instead)
        raise KeyMistakeError(self.source, said, mend, alone=alone)

    def _named(self, key: str, value: object) -> str:
        """Return a key and its value, as messages show them."""
        stated = "is missing" if value is _UNSET else f"is {_shown(value)}"
        return f"{printable(self.prefix + key)} {stated}"

    def _first(self, keys: Sequence[str]) -> str:
        """Return the first of alternative spellings that has a value, else the usual one."""
        return self._own(next((key for key in keys if self.has(key)), keys[0]))

    def _entries(
        self, key: str, at_least: int, fits: Callable[[Any], bool], allowed: str, usual: object
    ) -> list[Any]:
        """Return the entries of a list; those that do not fit are a mistake."""
        entries = self._list(key, at_least)
        wrong = next((index for index, entry in enumerate(entries) if not fits(entry)), None)
        if wrong is not None:
            instead = [entry if fits(entry) else usual for entry in entries]
            self.mistake(key, allowed, index=wrong, instead=instead)
        return entries

    def _list(self, key: str, at_least: int) -> list[object]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.mistake(key, "a list")
        if len(value) < at_least:
            missing = at_least - len(value)
            allowed = f"a list of at least {at_least} entries, one a layer"
            longer = [*value, *(value[-1:] or [None]) * missing]
            self.mistake(key, allowed, instead=longer, alone=False)
        return value


@dataclass(frozen=True, slots=True)
class StatedReader(Reader):
    """The keys of a config of another type: sizes that it does not state are refused.

    A default of 0 or 1 stands for a part that the model does not have, and holds.

    Parameters
    ----------
    family
        The `model_type` that it is read as.
    unstated
        Where keys that are missing are listed, in order; None refuses the first.
    """

    family: str = ""
    unstated: dict[str, None] | None = None

    def expect(self, key: str, default: object) -> None:
        """Refuse a config without `key`, which has a default in its own family, or list the key."""
        if self.unstated is None:
            allowed = f"a value: no default of {self.family} holds for another type"
            self.mistake(key, allowed, instead=default)
        self.unstated[key] = None

    def positive_int(
        self, *keys: str, maximum: int = MAX_SIZE, minimum: int = 1, default: int | None = None
    ) -> int:
        """Return a whole number that the config states, or a `default` of 0 or 1."""
        if default is not None and default > 1 and not any(self.has(key) for key in keys):
            self.expect(self._own(keys[0]), default)
        # a dataclass with slots is made anew, so that super() without arguments finds another
        return Reader.positive_int(self, *keys, maximum=maximum, minimum=minimum, default=default)

    def optional_int(self, key: str, *, missing: int | None = None) -> int | None:
        """Return a whole number that the config states, or None."""
        if missing is not None and key not in self.values:
            self.expect(key, missing)
        return Reader.optional_int(self, key, missing=missing)


def read_json(text: str, *, source: str) -> Reader:
    """Return the object that `text` holds.

    A bare ``Infinity`` is read (Nemotron configs contain it); a key that stands twice is refused,
    since readers differ in which value counts.

    Raises
    ------
    ConfigError
        If the text is too long, no JSON, nested without end, or not an object.

    Examples
    --------
    >>> read_json('{"hidden_size": 64}', source="config.json").positive_int("hidden_size")
    64
    """
    if len(text) > MAX_TEXT_LEN:
        reject(
            f"{source}: the file has {len(text)} characters", f"up to {MAX_TEXT_LEN}", ConfigError
        )
    value = parse_json(
        text,
        source=source,
        error=ConfigError,
        allowed="a config.json object",
        object_type=AskedObject,
    )
    if not isinstance(value, dict):
        reject(f"{source}: the file holds {_shown(value)}", "a config.json object", ConfigError)
    return Reader(source, value)


def _whole_number(minimum: int, maximum: int) -> str:
    return f"a whole number from {minimum} to {maximum}"


def _one_of(allowed: Collection[str] | None) -> str:
    return "text" if allowed is None else ", ".join(sorted(allowed))


def printable(name: str) -> str:
    """Return a key on one line, in printable characters and of bounded length.

    Examples
    --------
    >>> printable("hidden_size"), len(printable("x" * 5000))
    ('hidden_size', 123)
    """
    shown = json.dumps(name)[1:-1]
    return shown if len(shown) <= _MAX_NAME_LEN else f"{shown[:_MAX_NAME_LEN]}..."


def _shown(value: object) -> str:
    """Return a value as its file spells it, short, on one line and in printable characters.

    Examples
    --------
    >>> _shown(None), _shown(True), _shown("32"), _shown([1, 2]), _shown({})
    ('null', 'true', '"32"', 'a list of 2', 'an object')
    """
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    shown = json.dumps(value)
    return shown if len(shown) <= _MAX_SHOWN_LEN else f"{shown[:_MAX_SHOWN_LEN]}..."
