"""Regular expressions of strangers, matched in time that grows with the name and no faster.

Python's `re` backtracks, and a config may hold an expression that keeps it busy for years. Lists
of modules need little of it: characters, classes, groups, alternatives and repeats. These are
matched here by the set of states that a name can lead to, which never backtracks; all else
(look-around, back-references, possessive repeats) is refused.

Source
    Thompson 1968, CACM 11(6), "Regular expression search algorithm".
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeAlias

__all__ = ["ModulePattern"]

#: More states than any list of modules needs; repeats of repeats multiply them.
_MAX_STATES: Final = 2000
# One character: a class, an escaped sign or kind of character, or the character itself.
_CHARACTER: Final = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\[dDwWsS]|\\[^\w\s]|[^()|*+?{}\[\]\\^$]"
)
_REPEAT: Final = re.compile(r"(?:[*+?]|\{(\d{1,4})(?:(,)(\d{1,4})?)?\})\??(?![*+?{])")
_REPEATS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}

#: An operator and its operands: ``("char", test)``, ``("all", nodes)``, ``("any", nodes)``,
#: ``("repeat", node, least, most)``, ``("begin",)``, ``("end",)``.
_Node: TypeAlias = tuple[Any, ...]
_States: TypeAlias = frozenset[int]
_Test: TypeAlias = Callable[[str], object]


class _Place:
    """The states that a beginning of a name leads to, and where each character leads from there.

    Nothing more can change where the end of the expression (state 0) is among them, or none is.
    """

    __slots__ = ("is_decided", "moves", "states")

    def __init__(self, states: _States) -> None:
        self.states = states
        self.moves: dict[str, _Place] = {}
        self.is_decided = 0 in states or not states


class ModulePattern:
    """An expression, to be matched at the beginning of a name as `re.match` does.

    Parameters
    ----------
    expression
        In the syntax of `re`.

    Raises
    ------
    re.error, OverflowError, RecursionError
        If it cannot be compiled, or has what is not matched here.

    Examples
    --------
    >>> pattern = ModulePattern(r".*mlp[.](gate|up)_proj$")
    >>> pattern.match("layers.1.mlp.up_proj"), pattern.match("layers.1.mlp.up_proj.scale")
    (True, False)
    >>> ModulePattern("(a*)*b").match("a" * 1000)  # 2**1000 ways for a matcher that backtracks
    False
    """

    __slots__ = ("_edges", "_free", "_places", "_start")

    def __init__(self, expression: str) -> None:
        re.compile(expression)  # its own messages are the better ones
        # Per state: the character that leads on, and where to; and where one gets for nothing.
        self._edges: list[tuple[_Test, int] | None] = [None]
        self._free: list[list[tuple[str, int]]] = [[]]
        start = self._build(_parse(expression), 0)
        self._places: dict[_States, _Place] = {}
        self._start = self._place(self._closed({start}, "begin"))

    def match(self, name: str) -> bool:
        """Whether the expression matches a name, or its beginning."""
        place = self._start
        for character in name:
            if place.is_decided:
                break
            place = place.moves.get(character) or self._moved(place, character)
        return 0 in self._closed(place.states, "end" if name else "begin", "end")

    def _moved(self, place: "_Place", character: str) -> "_Place":
        """Return where a character leads, worked out once."""
        edges = (self._edges[state] for state in place.states)
        states = self._closed(
            {edge[1] for edge in edges if edge is not None and edge[0](character)}
        )
        place.moves[character] = self._place(states)
        return place.moves[character]

    def _place(self, states: _States) -> "_Place":
        if states not in self._places:
            self._places[states] = _Place(states)
        return self._places[states]

    def _closed(self, states: "set[int] | _States", *where: str) -> _States:
        """Return the states with those that are reached for nothing at this place of a name."""
        reached, waiting = set(states), list(states)
        while waiting:
            for condition, state in self._free[waiting.pop()]:
                if state not in reached and (not condition or condition in where):
                    reached.add(state)
                    waiting.append(state)
        return frozenset(reached)

    def _add(self, edge: "tuple[_Test, int] | None", *free: tuple[str, int]) -> int:
        if len(self._edges) >= _MAX_STATES:
            _refuse("too many repeats")
        self._edges.append(edge)
        self._free.append(list(free))
        return len(self._edges) - 1

    def _build(self, node: _Node, then: int) -> int:
        """Return the state in which `node` begins, where `then` is what follows it."""
        operator, *operands = node
        if operator == "char":
            return self._add((operands[0], then))
        if operator == "all":
            for part in reversed(operands[0]):
                then = self._build(part, then)
            return then
        if operator == "any":
            return self._add(None, *(("", self._build(part, then)) for part in operands[0]))
        if operator == "repeat":
            return self._build_repeat(operands[0], (operands[1], operands[2]), then)
        return self._add(None, (operator, then))

    def _build_repeat(self, node: _Node, bounds: tuple[int, int | None], then: int) -> int:
        least, most = bounds
        state = then
        if most is None:
            state = self._add(None, ("", then))
            self._free[state].append(("", self._build(node, state)))
        for _ in range(0 if most is None else most - least):
            state = self._add(None, ("", then), ("", self._build(node, state)))
        for _ in range(least):
            state = self._build(node, state)
        return state


def _refuse(reason: str) -> NoReturn:
    raise re.error(reason)


def _parse(expression: str) -> _Node:
    """Return the tree of an expression that `re` can compile."""
    return _parse_any(expression, 0)[0]


def _parse_any(text: str, place: int) -> tuple[_Node, int]:
    """Return alternatives, and where they end."""
    branches: list[list[_Node]] = [[]]
    while place < len(text) and text[place] != ")":
        if text[place] == "|":
            branches.append([])
            place += 1
            continue
        node, place = _parse_one(text, place)
        found = _REPEAT.match(text, place)
        if found is not None:
            node, place = ("repeat", node, *_bounds(found)), found.end()
        branches[-1].append(node)
    return ("any", [("all", branch) for branch in branches]), place


def _parse_one(text: str, place: int) -> tuple[_Node, int]:
    """Return a group, an anchor or one character, and where it ends."""
    if text[place] in "^$":
        return ("begin" if text[place] == "^" else "end",), place + 1
    if text[place] == "(":
        if text.startswith("(?", place) and not text.startswith("(?:", place):
            _refuse("a group with a meaning of its own")
        node, place = _parse_any(text, place + (3 if text.startswith("(?:", place) else 1))
        return node, place + 1
    found = _CHARACTER.match(text, place)
    if found is None:
        _refuse(f"{text[place : place + 2]!r} is more than this list needs")
    return ("char", _test(found[0])), found.end()


def _test(text: str) -> _Test:
    """Return what tells whether a character is the one, or of the kind, that `text` names."""
    if text == ".":
        return "\n".__ne__
    return text.__eq__ if len(text) == 1 else re.compile(text).fullmatch


def _bounds(repeat: re.Match[str]) -> Iterator[int | None]:
    """Yield the least and the most repeats; None is no bound."""
    least, comma, most = repeat.groups()
    if least is None:
        yield from _REPEATS[repeat[0][0]]
        return
    yield int(least)
    yield (int(most) if most else None) if comma else int(least)
