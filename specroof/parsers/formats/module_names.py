"""Lists of modules, as quantisation configs write them.

The same matrix is `model.layers.3.mlp.gate` in one file, `model.language_model.layers.3.mlp.gate`
in the next and `*.mlp.gate` or `re:.*mlp.gate$` in a third. Names are compared without what
stands before `layers`, and a name stands for everything inside it.
"""

import re
from collections.abc import Hashable, Iterable, Iterator
from fnmatch import translate
from functools import cache, lru_cache
from typing import Final

from specroof.parsers.formats.module_patterns import ModulePattern

__all__ = ["ModuleNames"]

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


class ModuleNames:
    """A list of module names, globs and ``re:`` expressions, to be asked about one module.

    Parameters
    ----------
    entries
        The list as the file has it.

    Raises
    ------
    re.error, OverflowError, RecursionError
        If an expression cannot be compiled, or is refused by `ModulePattern`.

    Examples
    --------
    >>> names = ModuleNames(["lm_head", "model.language_model.layers.3.mlp*", "re:.*self_attn.*"])
    >>> names.match(3, "mlp.gate_proj"), names.match(4, "mlp.gate_proj")
    (True, False)
    >>> names.match(4, "self_attn.q_proj"), names.match(None, "lm_head")
    (True, True)
    """

    __slots__ = ("_in_layer", "_layer_digits", "_patterns", "_plain", "_tells_apart")

    def __init__(self, entries: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._in_layer: dict[int, set[str]] = {}
        self._layer_digits: set[str] = set()
        self._patterns: list[re.Pattern[str] | ModulePattern] = []
        self._tells_apart = False  # where a pattern may, each layer stands for itself
        for entry in entries:
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
        self._patterns.append(ModulePattern(expression))
        self._tells_apart |= not _SAME_FOR_ALL_LAYERS.fullmatch(expression)

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
            self._in_layer.setdefault(int(found[1]), set()).add(found[2] or "*")
        elif _GLOB_CHARACTERS.search(name):
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
