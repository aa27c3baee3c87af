"""Words of flags: text of the command line to numbers, names, rates and prices."""

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

from specroof.arrays import number_within
from specroof.errors import refuse, reject
from specroof.units import HOUR, MILLISECOND

#: Seconds of the units of a rate.
RATE_UNITS: Final = {"s": 1.0, "min": 60.0, "h": HOUR}


def numbers(word: str, text: str) -> list[float]:
    """Return the numbers of a comma-separated `text`, each once; ``1..128`` doubles.

    Raises
    ------
    OptionError
        With the option's `word`, if a part is not a number.

    Examples
    --------
    >>> numbers("--batch", "1..8,8,12"), numbers("--batch", "3..10")  # the end is always there
    ([1.0, 2.0, 4.0, 8.0, 12.0], [3.0, 6.0, 10.0])
    """
    try:
        values = (value for part in text.split(",") for value in _doubled(part))
        return [*dict.fromkeys(values)]
    except ValueError:
        reject(f"{word} is {text!r}", "numbers separated by commas, such as 1,8,32 or 1..128")


def probabilities(word: str, text: str) -> list[float]:
    """Return the numbers of a comma-separated `text` as they stand.

    Raises
    ------
    OptionError
        With the option's `word`, if a part is not a number.

    Examples
    --------
    >>> probabilities("--target", "0.4,0.3,0.3")
    [0.4, 0.3, 0.3]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        reject(f"{word} is {text!r}", "numbers separated by commas, such as 0.4,0.3,0.3")


def _doubled(text: str) -> list[float]:
    """Return the number that a part of a list spells, or the numbers of a range that doubles.

    Raises
    ------
    ValueError
        For anything else.
    """
    first, is_range, last = text.partition("..")
    if not is_range:
        return [float(first)]
    low, high = float(first), float(last)
    if not (0 < low <= high < math.inf):
        raise ValueError(text)
    values = []
    while low < high:  # at most 2098 times; a quotient or a logarithm of the ends may overflow
        values.append(low)
        low *= 2.0
    return [*values, high]


def whole_numbers(word: str, text: str) -> list[int]:
    """Return the whole numbers of a comma-separated `text`.

    Raises
    ------
    OptionError
        With the option's `word`, if a part is not a whole number.

    Examples
    --------
    >>> whole_numbers("--draft-len", "1,2,3")
    [1, 2, 3]
    """
    values = numbers(word, text)
    if not all(value.is_integer() for value in values):
        reject(f"{word} is {text!r}", "whole numbers separated by commas, such as 1,2,3")
    return [int(value) for value in values]


def words(word: str, text: str) -> list[str]:
    """Return the names of a comma-separated `text`.

    Raises
    ------
    OptionError
        With the option's `word`, if a name is empty.

    Examples
    --------
    >>> words("--hardware", "h100,b200")
    ['h100', 'b200']
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        reject(f"{word} is {text!r}", "names separated by commas, such as h100,b200")
    return names


def rates(word: str, text: str) -> list[float]:
    """Return the rates per second of a comma-separated `text`, per second, minute or hour.

    Raises
    ------
    OptionError
        With the option's `word`, for anything else.

    Examples
    --------
    >>> rates("--rate", "1..4/s"), rates("--rate", "90/min"), rates("--rate", "2")
    ([1.0, 2.0, 4.0], [1.5], [2.0])
    """
    counts, _, unit = text.partition("/")
    if (unit or "s") not in RATE_UNITS:
        refuse(
            word,
            text,
            "requests per second, minute or hour, as in 4/s, 1,4,16/s, 1..64/s or 90/min",
        )
    return [count / RATE_UNITS[unit or "s"] for count in numbers(word, counts)]


#: The price of an hour of any device, or of each chip by its name.
Prices: TypeAlias = float | Mapping[str, float]


def prices(word: str, text: str) -> Prices:
    """Return the price of an hour that `text` spells, or those of chips by their names.

    Raises
    ------
    OptionError
        With the option's `word`, for anything else.

    Examples
    --------
    >>> prices("--price-per-hour", "2.5"), prices("--price-per-hour", "h100=2,b200=4")
    (2.5, {'h100': 2.0, 'b200': 4.0})
    """
    try:
        if "=" not in text:
            return float(text)
        pairs = [part.partition("=") for part in text.split(",")]
        return {name.strip(): float(price) for name, _, price in pairs}
    except ValueError:
        refuse(word, text, "a number of US dollars, or one for each chip, as in h100=2,b200=4")


def in_seconds(word: str, milliseconds: float) -> float:
    """Return a target that the shell takes in milliseconds.

    Raises
    ------
    OptionError
        With the option's `word`, for a number that no target can be.

    Examples
    --------
    >>> in_seconds("--tpot", 20)
    0.02
    """
    return number_within(word, milliseconds, "target") * MILLISECOND
