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
_GLOB_CHARACTERS: Final = re.compile(r"[*?\[]")
#: Marks a regular expression (compressed-tensors).
_REGEX_MARK: Final = "re:"


class ModuleNames:
    """A list of module names, globs and ``re:`` expressions, to be asked about one module.

    Parameters
    ----------
    entries
        The list as the file has it.

    Raises
    ------
    re.error, OverflowError, RecursionError
        If an expression cannot be compiled.

    Examples
    --------
    >>> names = ModuleNames(["lm_head", "model.language_model.layers.3.mlp*", "re:.*self_attn.*"])
    >>> names.match(3, "mlp.gate_proj"), names.match(4, "mlp.gate_proj")
    (True, False)
    >>> names.match(4, "self_attn.q_proj"), names.match(None, "lm_head")
    (True, True)
    """

    __slots__ = ("_globs", "_in_layer", "_layer_digits", "_plain", "_regexes", "_tells_apart")

    def __init__(self, entries: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._in_layer: dict[int, set[str]] = {}
        self._layer_digits: set[str] = set()
        self._globs: list[re.Pattern[str]] = []
        self._regexes: list[re.Pattern[str]] = []
        for entry in entries:
            self._add(entry)
        # A digit or class in an expression may tell layers apart: then each stands for itself.
        self._tells_apart = any(
            re.search(r"\d|\\d|\[", pattern.pattern) for pattern in (*self._globs, *self._regexes)
        )

    def match(self, layer: int | None, name: str) -> bool:
        """Whether the list names a module, by its name within `layer` (None: outside layers)."""
        if layer is not None and self._match_in_layer(layer, name):
            return True
        if not self._plain.isdisjoint(_parts(name)):
            return True
        full = name if layer is None else f"layers.{layer}.{name}"
        if any(glob.match(full) for glob in self._globs):
            return True
        spellings = [full, *(prefix + full for prefix in _PREFIXES)] if self._regexes else []
        return any(regex.match(spelling) for regex in self._regexes for spelling in spellings)

    def layer_key(self, layer: int) -> Hashable:
        """Return a value that two layers share only if the list treats them alike."""
        return (
            frozenset(self._in_layer.get(layer, ())),
            self._whole_layer(layer),
            layer if self._tells_apart else None,
        )

    def _add(self, entry: str) -> None:
        if entry.startswith(_REGEX_MARK):
            self._regexes.append(re.compile(entry.removeprefix(_REGEX_MARK)))
            return
        prefix = next((prefix for prefix in _PREFIXES if entry.startswith(prefix)), "")
        entry = entry.removeprefix(prefix)
        owner, layers, _ = entry.partition("layers.")
        if owner and layers and not _GLOB_CHARACTERS.search(owner):
            return  # layers of a draft head or a vision tower
        if digits := _LAYERS_BY_DIGITS.fullmatch(entry):
            self._layer_digits.add(digits[1])
        elif (found := _IN_LAYER.fullmatch(entry)) and len(found[1]) < 9:
            self._in_layer.setdefault(int(found[1]), set()).add(found[2] or "*")
        elif _GLOB_CHARACTERS.search(entry):
            self._globs.append(_glob(entry))
        else:
            self._plain.add(entry)

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
