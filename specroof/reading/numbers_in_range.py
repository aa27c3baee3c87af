"""Numbers of files from outside: finite, in range, or one line that says where."""

import math
from functools import partial
from typing import Any, Final

from specroof import errors
from specroof.arrays import real_number
from specroof.reading.yaml_text import shown

#: The longest draft that a file may hold; published ones stop at some dozens.
MOST_DRAFTS: Final = 10_000

#: The refusal of a value in a file, spelt as a file spells it.
refuse = partial(errors.refuse, show=shown)


def number(where: str, value: object, *, low: float = 0.0, high: float = math.inf) -> float:
    """Return a value as a float, finite and from `low` to `high`.

    Examples
    --------
    >>> number("x.json: mean", 2)
    2.0
    """
    allowed = (
        f"a number from {low:g} on" if math.isinf(high) else f"a number from {low:g} to {high:g}"
    )
    found = real_number(value)
    if not (math.isfinite(found) and low <= found <= high):
        refuse(where, value, allowed)
    return found


def whole(where: str, value: object, *, low: int = 0, high: int = MOST_DRAFTS) -> int:
    """Return a value, or a text of digits, as a whole number from `low` to `high`."""
    allowed = f"a whole number from {low} to {high}"
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        refuse(where, value, allowed)
    return value


def entries(where: str, value: object) -> list[Any]:
    """Return a list that is not empty and no longer than a draft can be."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_DRAFTS:
        refuse(where, value, f"a list of 1 to {MOST_DRAFTS} numbers")
    return value
