"""What the constructors of acceptance curves check, and how they refuse."""

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.arrays import real_array, real_number
from specroof.errors import refuse, reject

# What its functions do is checked where formulas call them; they are not formulas themselves.
__all__ = ["LONGEST_DRAFT", "PROBABILITY"]

#: A curve is tabled up to the longest draft asked for, so that question needs a bound.
LONGEST_DRAFT: Final = 1_000_000
PROBABILITY: Final = "a number from 0 to 1"
_NOT_LISTS: Final = (str, bytes, Mapping, AbstractSet)


def draft_lengths(draft_len: ArrayLike) -> NDArray[np.intp]:
    """Return `draft_len` as an array of whole numbers, of any shape."""
    allowed = f"whole numbers from 0 to {LONGEST_DRAFT}"
    lengths = real_array(draft_len)
    if lengths is None:
        refuse("draft_len", draft_len, allowed)
    fitting = (lengths >= 0) & (lengths <= LONGEST_DRAFT) & (lengths == np.floor(lengths))
    if not np.all(fitting):
        refuse("draft_len", lengths[~fitting].flat[0], allowed)
    return lengths.astype(np.intp)


def numbers_from(name: str, values: object, high: float, allowed: str) -> tuple[float, ...]:
    """Return `values` as floats, each finite and from 0 to `high`."""
    # Sets and mappings are iterable too, but have no positions.
    if not isinstance(values, Iterable) or isinstance(values, _NOT_LISTS):
        refuse(name, values, f"a list, each {allowed}")
    try:
        entries = tuple(islice(values, LONGEST_DRAFT + 1))  # an iterator need not end
    except TypeError:  # an array without an axis calls itself iterable
        refuse(name, values, f"a list, each {allowed}")
    if not entries:
        reject(f"{name} is empty", f"at least one entry, each {allowed}")
    if len(entries) > LONGEST_DRAFT:
        refuse(name, values, f"at most {LONGEST_DRAFT} entries, each {allowed}")
    return tuple(
        number_from(f"{name}[{index}]", entry, 0.0, high, allowed)
        for index, entry in enumerate(entries)
    )


def number_from(name: str, value: object, low: float, high: float, allowed: str) -> float:
    """Return `value` as a float, finite and from `low` to `high`."""
    number = real_number(value)
    if not (math.isfinite(number) and low <= number <= high):
        refuse(name, value, allowed)
    return number + 0.0  # a zero without a sign


def drafts_of(name: str, value: object, allowed: str) -> int:
    """Return a number of drafts, from 1 to the longest."""
    drafts = number_from(name, value, 1, LONGEST_DRAFT, allowed)
    if not drafts.is_integer():
        refuse(name, value, allowed)
    return int(drafts)


def length_of(name: str, value: object, drafts: int, called: str) -> float:
    """Return an acceptance length that so many drafts, known as `called`, can have."""
    allowed = f"a number from 1 to {drafts + 1} ({called} + 1: the bonus token counts)"
    return number_from(name, value, 1.0, drafts + 1.0, allowed)


def some(values: tuple[float, ...]) -> str:
    """Return the first few of `values`, for a line that people read."""
    if len(values) <= 4:
        return ", ".join(f"{value:g}" for value in values)
    return ", ".join(f"{value:g}" for value in values[:3]) + f", … ({len(values)} values)"
