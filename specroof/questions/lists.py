"""One value or several, and things that are named twice."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from specroof.arrays import n_entries
from specroof.errors import OptionError
from specroof.units import MOST_POINTS

_Named = TypeVar("_Named")


def listed(values: Any) -> list[Any]:
    """Return one value as a list of it, several as their list; text is one value.

    More values than any grid holds stay as they are, for the reader of the list to refuse: a range
    or an array that repeats one number is small until it is a list.

    Examples
    --------
    >>> listed(1), listed([1, 8]), listed(np.array([1, 8])), listed("ideal")
    ([1], [1, 8], [1, 8], ['ideal'])
    """
    if n_entries(values, axes=0) > MOST_POINTS:
        return [values]
    if isinstance(values, np.ndarray):
        return list(np.atleast_1d(values).tolist())
    if isinstance(values, Sequence) and not isinstance(values, str):
        return list(values)
    return [values]


def several(
    name: str,
    given: Any,
    load: Callable[[Any], _Named],
    *,
    key: Callable[[_Named], object] = lambda one: one,
) -> list[_Named]:
    """Return what one name or several stand for; a thing is not compared with itself.

    Parameters
    ----------
    name
        How refusals call the list.
    given
        A name or object, or several.
    load
        From one of them to what it stands for.
    key
        What is the same in two names of one thing.

    Raises
    ------
    OptionError
        For a thing that is given twice, and whatever `load` refuses.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> several("hardware", ["h100", "H100-SXM"], load_hardware, key=lambda one: one.name)
    Traceback (most recent call last):
    specroof.errors.OptionError: hardware: 'H100-SXM' is 'h100' by another name; allowed: once
    """
    words, keys, found = listed(given), list[object](), list[_Named]()
    for word in words:
        one = load(word)
        if key(one) in keys:
            message = f"{name}: {given_twice(word, words[keys.index(key(one))])}"
            raise OptionError(message)
        keys.append(key(one))
        found.append(one)
    return found


def given_twice(word: object, before: object) -> str:
    """Return why a list is refused that has one thing twice, under one name or under two.

    Examples
    --------
    >>> given_twice("h100", "h100")
    "'h100' is given twice; allowed: once"
    """
    again, first = (getattr(one, "name", one) for one in (word, before))
    how = "given twice" if again == first else f"{first!r} by another name"
    return f"{again!r} is {how}; allowed: once"
