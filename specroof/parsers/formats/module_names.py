"""Lists of modules, as quantisation configs write them.

The same matrix is `model.layers.3.mlp.gate` in one file, `model.language_model.layers.3.mlp.gate`
in the next and `*.mlp.gate` or `re:.*mlp.gate$` in a third. Names are compared without what
stands before `layers`, and a name stands for everything inside it.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from fnmatch import translate
from functools import cache, lru_cache
from math import factorial, prod
from typing import Final

# What checkpoints put before the names of their language model.
_PREFIXES: Final = (
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "backbone.",
    "model.",
)
_IN_LAYER: Final = re.compile(r"layers\.(\d+)(?:\.(.+))?", re.ASCII | re.DOTALL)
# Read as the glob it is: `layers.1*` covers layers 1, 10, 11 ...
_LAYERS_BY_DIGITS: Final = re.compile(r"layers\.(\d+)\*", re.ASCII)
# One module of every layer: no expression is needed, and compiling one takes longer than all else.
_EVERY_LAYER: Final = re.compile(r"layers\.\*\.([\w.]+)", re.ASCII)
_GLOB_CHARACTERS: Final = re.compile(r"[*?\[]")
# Marks a regular expression (compressed-tensors).
_REGEX_MARK: Final = "re:"
# Letters, and wildcards of any length: what cannot tell one layer from another.
_SAME_FOR_ALL_LAYERS: Final = re.compile(r"(?:\.\*|\\\.|[A-Za-z_|()$^])*")
_GLOB_FOR_ALL_LAYERS: Final = re.compile(r"[A-Za-z_.*]*")

# What expressions are made of. Python's `re` goes back and tries again, and keeps at a repeat
# within a repeat for years; so repeats are of single characters, and groups are lists of words.
_SIMPLE: Final = r"(?:\\[dDwWsS]|\\[^\w\s]|[^()|*+?{}\[\]\\^$])"
_CLASS: Final = r"\[\^?\]?(?:\\.|[^\]\\])*\]"
_REPEAT: Final = r"(?:[*+?]|\{\d\d?(?:,\d\d?)?\})\??"
_EXPRESSION: Final = re.compile(
    rf"(?:(?:{_SIMPLE}|{_CLASS})(?:{_REPEAT})?|\((?:\?:)?(?:{_SIMPLE}|\|)*\)\??|[|^$])*+"
)
# A repeat that may stop anywhere in a name; digits end soon, and what ends with `.*` is found.
_DIGITS_REPEATED: Final = re.compile(r"(?:\\d|\[0-9\])(?:[*+]|\{[\d,]+\})")
_REPEATED: Final = re.compile(r"(?<!\\)[*+{]")
_OPTIONAL: Final = re.compile(r"(?<![\\*+?}(])\?")
_GROUP: Final = re.compile(r"\([^()]*\)")
_TRAILING: Final = re.compile(r"(?:(?<!\\)\.[*+]\??)+$")
#: Longer than any module's name: the longest of 127 published lists has 53 characters.
_LONGEST_ENTRY: Final = 300
#: Steps that the expressions of a list may take on one name, reckoned with 100 characters: 300
#: expressions with one repeat each, or six with two. The largest published list has 6.
_MOST_STEPS: Final = 30_000
_NAME_LEN: Final = 100


class ModuleNames:
    """A list of module names, globs and ``re:`` expressions, to be asked about one module.

    Parameters
    ----------
    entries
        The list as the file has it.

    Raises
    ------
    re.error
        If an expression cannot be compiled, is more than a list of modules needs (a repeat of a
        group, a look ahead), or takes too long together with the others.

    Examples
    --------
    >>> names = ModuleNames(["lm_head", "model.language_model.layers.3.mlp*", "re:.*self_attn.*"])
    >>> names.match(3, "mlp.gate_proj"), names.match(4, "mlp.gate_proj")
    (True, False)
    >>> names.match(4, "self_attn.q_proj"), names.match(None, "lm_head")
    (True, True)
    """

    __slots__ = ("_in_layer", "_layer_digits", "_patterns", "_plain", "_steps", "_tells_apart")

    def __init__(self, entries: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._in_layer: dict[int, set[str]] = {}
        self._layer_digits: set[str] = set()
        self._patterns: list[re.Pattern[str]] = []
        self._steps: Counter[int | None] = Counter()  # of patterns for all layers, and for one
        self._tells_apart = False  # where a pattern may, each layer stands for itself
        for entry in dict.fromkeys(entries):
            if len(entry) > _LONGEST_ENTRY:
                message = "an entry is longer than any name"
                raise re.error(message)
            if entry.startswith(_REGEX_MARK):
                self._add_regex(entry.removeprefix(_REGEX_MARK))
            else:
                self._add_name(entry)

    def match(self, layer: int | None, name: str) -> bool:
        """Whether the list names a module, by its name within `layer` (None: outside layers)."""
        if layer is not None and self._match_in_layer(layer, name):
            return True
        if not self._plain.isdisjoint(_parts(name)):
            return True
        full = name if layer is None else f"layers.{layer}.{name}"
        spellings = [full, *(prefix + full for prefix in _PREFIXES)] if self._patterns else []
        return any(bool(pattern.match(full)) for pattern in self._patterns for full in spellings)

    def layer_key(self, layer: int) -> Hashable:
        """Return a value that two layers share only if the list treats them alike."""
        return (
            frozenset(self._in_layer.get(layer, ())),
            self._whole_layer(layer),
            layer if self._tells_apart else None,
        )

    def _add_regex(self, expression: str) -> None:
        compiled = re.compile(expression)  # its own messages are the better ones
        if not _EXPRESSION.fullmatch(expression):
            message = "more than a list of modules needs"
            raise re.error(message)
        self._count_steps(None, _steps_on_a_name(expression))
        self._patterns.append(compiled)
        self._tells_apart |= not _SAME_FOR_ALL_LAYERS.fullmatch(expression)

    def _count_steps(self, layer: int | None, steps: int) -> None:
        """Refuse patterns that take too long together: for any module, or for those of a layer."""
        self._steps[layer] += steps
        if self._steps[layer] > _MOST_STEPS:
            message = "too many patterns"
            raise re.error(message)

    def _add_name(self, entry: str) -> None:
        prefix = next((prefix for prefix in _PREFIXES if entry.startswith(prefix)), "")
        name = entry.removeprefix(prefix)
        owner, layers, _ = name.partition("layers.")
        if owner and layers and not _GLOB_CHARACTERS.search(owner):
            return  # layers of a draft head or a vision tower
        if digits := _LAYERS_BY_DIGITS.fullmatch(name):
            self._layer_digits.add(digits[1])
        elif everywhere := _EVERY_LAYER.fullmatch(name):
            self._plain.add(everywhere[1])
        elif (found := _IN_LAYER.fullmatch(name)) and len(found[1]) < 9:
            layer, inner = int(found[1]), found[2] or "*"
            if _GLOB_CHARACTERS.search(inner):
                self._count_steps(layer, _NAME_LEN)
            self._in_layer.setdefault(layer, set()).add(inner)
        elif _GLOB_CHARACTERS.search(name):
            self._count_steps(None, _NAME_LEN)
            self._patterns.append(_glob(entry))
            self._tells_apart |= not _GLOB_FOR_ALL_LAYERS.fullmatch(entry)
        else:
            self._plain.add(name)

    def _match_in_layer(self, layer: int, name: str) -> bool:
        if self._whole_layer(layer):
            return True
        entries = self._in_layer.get(layer)
        if not entries:
            return False
        return not entries.isdisjoint(_parts(name)) or any(
            _glob(entry).match(name) for entry in entries if _GLOB_CHARACTERS.search(entry)
        )

    def _whole_layer(self, layer: int) -> bool:
        return any(str(layer).startswith(digits) for digits in self._layer_digits)


def _steps_on_a_name(expression: str) -> int:
    """Return in how many ways `re` may try an expression on a name that it does not match.

    Examples
    --------
    >>> _steps_on_a_name(".*mlp[.](gate|up)_proj.*"), _steps_on_a_name(r".*a.*b$")
    (200, 5000)
    """
    open_ended = _TRAILING.sub("", _DIGITS_REPEATED.sub("", expression))
    repeats = len(_REPEATED.findall(open_ended))
    choices: int = 2 ** len(_OPTIONAL.findall(open_ended))
    branches = prod(group.count("|") + 1 for group in _GROUP.findall(open_ended))
    ways: int = _NAME_LEN**repeats // factorial(repeats)
    return int(ways * choices * branches)


@cache
def _parts(name: str) -> frozenset[str]:
    """Return every run of a dotted name's words: the module, what holds it, and short names.

    Examples
    --------
    >>> sorted(_parts("mlp.experts.0"))
    ['0', 'experts', 'experts.0', 'mlp', 'mlp.experts', 'mlp.experts.0']
    """
    return frozenset(_runs(name.split(".")))


def _runs(words: list[str]) -> Iterator[str]:
    for start in range(len(words)):
        for stop in range(start + 1, len(words) + 1):
            yield ".".join(words[start:stop])


@lru_cache(maxsize=1024)
def _glob(entry: str) -> re.Pattern[str]:
    """Return the expression of a glob that also covers what lies inside the named module."""
    return re.compile(f"{translate(entry)}|{translate(entry + '.*')}")
