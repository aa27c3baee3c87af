"""Comma-separated words of flags."""

import math

from specroof.errors import OptionError


def numbers(word: str, text: str) -> list[float]:
    """Return the numbers of a comma-separated `text`; ``1..128`` doubles.

    Raises
    ------
    OptionError
        With the option's `word`, if a part is not a number.

    Examples
    --------
    >>> numbers("--batch", "1..8,12"), numbers("--batch", "3..10")  # the end is always there
    ([1.0, 2.0, 4.0, 8.0, 12.0], [3.0, 6.0, 10.0])
    """
    try:
        return [value for part in text.split(",") for value in _doubled(part)]
    except ValueError:
        message = (
            f"{word} is {text!r}; allowed: numbers separated by commas, such as 1,8,32 or 1..128"
        )
        raise OptionError(message) from None


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
        message = f"{word} is {text!r}; allowed: whole numbers separated by commas, such as 1,2,3"
        raise OptionError(message)
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
        message = f"{word} is {text!r}; allowed: names separated by commas, such as h100,b200"
        raise OptionError(message)
    return names
