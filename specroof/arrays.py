"""Array aliases, groups, and numbers of a caller: real and within the bounds of their quantity."""

import math
import numbers
import sys
from collections.abc import Callable, Hashable, Iterable, Sized
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from specroof.errors import OptionError, SpecroofError, refuse
from specroof.units import BOUNDS, MOST_POINTS, Bounds

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def array_within(name: str, values: object, quantity: str) -> Array:
    """Return a number, or numbers in lists or an array, as float64 within the quantity's bounds.

    Parameters
    ----------
    name
        How the refusal calls them.
    values
        Whatever a caller gave.
    quantity
        A key of `specroof.units.BOUNDS`.

    Raises
    ------
    OptionError
        For text, booleans, masks, lists of different lengths, an empty list, and numbers that are
        not finite or out of bounds.

    Examples
    --------
    >>> array_within("batch_size", [1, 8], "batch_size")
    array([1., 8.])
    >>> array_within("batch_size", [1, float("nan")], "batch_size")
    Traceback (most recent call last):
    specroof.errors.OptionError: batch_size is nan; allowed: a number from 1 to 10000000, or an
    array of such
    """
    bounds = BOUNDS[quantity]
    array = real_array(values)
    if array is None or not array.size:
        refuse(name, values, f"{bounds.allowed}, or an array of such")
    # Not a number is what both reductions give, and fits nothing.
    if not bounds.least <= array.min() <= array.max() <= bounds.most:
        fits = (array >= bounds.least) & (array <= bounds.most)
        refuse(name, float(array[~fits].flat[0]), f"{bounds.allowed}, or an array of such")
    return array


def number_within(
    name: str,
    value: object,
    quantity: str | Bounds,
    *,
    error: type[SpecroofError] = OptionError,
    show: Callable[[object], str] | None = None,
) -> float:
    """Return one number within the bounds of its quantity, or within other bounds.

    Parameters
    ----------
    name, value
        What the refusal says.
    quantity
        A key of `specroof.units.BOUNDS`, or bounds.
    error, show
        As for `specroof.errors.refuse`.

    Raises
    ------
    SpecroofError
        For anything else.

    Examples
    --------
    >>> number_within("overlap", 0.5, "share")
    0.5
    """
    bounds = quantity if isinstance(quantity, Bounds) else BOUNDS[quantity]
    number = real_number(value)
    if not bounds.least <= number <= bounds.most or (bounds.whole and not number.is_integer()):
        refuse(name, value, bounds.allowed, error=error, show=show)
    return number


def whole_within(name: str, value: object, quantity: str | Bounds) -> int:
    """Return one whole number, spelt as such, within the bounds of its quantity, or others.

    Raises
    ------
    OptionError
        For anything else, 2.0 included.

    Examples
    --------
    >>> whole_within("max_draft_len", 16, "draft_len")
    16
    """
    bounds = quantity if isinstance(quantity, Bounds) else BOUNDS[quantity]
    if not isinstance(value, numbers.Integral):
        refuse(name, value, bounds.allowed)
    return int(number_within(name, value, bounds))


def real_number(value: object) -> float:
    """Return a real number as float; NaN, which fits no bounds, for anything else.

    Whole numbers of hundreds of digits, of either sign, are infinite, which fits none either.

    Examples
    --------
    >>> real_number(2), real_number(True), real_number("2"), real_number(10**400)
    (2.0, nan, nan, inf)
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    # A bool is a number to Python, and a duration of numpy calls itself a whole one.
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf


def real_array(values: object) -> Array | None:
    """Return real numbers as float64; None for text, booleans, masks, and ragged lists.

    Examples
    --------
    >>> real_array([[1, 2], [3, 4]]).shape, real_array("1"), real_array([True])
    ((2, 2), None, None)
    """
    if n_entries(values) > MOST_POINTS:
        return None
    # Most are such: nothing to find out.
    if type(values) is float or (type(values) is np.ndarray and values.dtype == np.float64):
        return np.array(values, order="C")
    # Importing what tells masked arrays is slow, and without it there are none.
    if "numpy.ma" in sys.modules and _holds_masked(values):
        return None
    try:
        array = np.asarray(values)
    except (OverflowError, TypeError, ValueError):  # lists of different lengths, odd objects
        return None
    if array.dtype.kind not in "iuf":  # whole numbers beyond 64 bits are objects
        return None
    with np.errstate(over="ignore"):  # wider floats
        return array.astype(np.float64)


def distinct(values: Array) -> Array:
    """Return the values that occur, of at least one, in order and each once.

    `numpy.unique` does this too, but imports masked arrays first: a tenth of a cold start.

    Examples
    --------
    >>> distinct(np.array([[3.0, 1.0], [1.0, 2.0]]))
    array([1., 2., 3.])
    """
    ordered = np.sort(values, axis=None)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])])


def broadcast(*values: npt.ArrayLike) -> list[Array]:
    """Return values that broadcast as float64 of one shape.

    Examples
    --------
    >>> broadcast([1, 2], 3)
    [array([1., 2.]), array([3., 3.])]
    """
    arrays = (np.asarray(value, dtype=np.float64) for value in values)
    return list(np.broadcast_arrays(*arrays))


def n_entries(values: object, axes: int = 4) -> int:
    """Return how many numbers an array of some values would hold; 1 of what has no length.

    Parameters
    ----------
    values
        Anything. A range, or an array that repeats one number, takes no memory until it is copied.
    axes
        How deep lists in lists are counted.

    Examples
    --------
    >>> n_entries(np.broadcast_to(1.0, (1, 10**8))), n_entries([range(10**15)]), n_entries(3)
    (100000000, 1000000000000000, 1)
    >>> n_entries(range(10**30)) > MOST_POINTS  # it has no length
    True
    """
    if isinstance(values, np.ndarray):
        return values.size
    if not isinstance(values, Sized) or isinstance(values, str | bytes):
        return 1
    try:
        count = len(values)
    except (OverflowError, TypeError):  # a range beyond 64 bits
        return MOST_POINTS + 1
    if count > MOST_POINTS or not axes or not isinstance(values, list | tuple):
        return count
    # By their classes, since a list may hold millions of numbers.
    if not any(issubclass(kind, Sized) for kind in set(map(type, values))):
        return count
    return sum(n_entries(value, axes - 1) for value in values)


#: Lists in lists that may hold masked arrays; no quantity has more axes.
_MOST_AXES: Final = 4


def _holds_masked(values: object, axes: int = _MOST_AXES) -> bool:
    """Return whether values are a masked array, or lists of some; numpy would drop the masks."""
    if isinstance(values, list | tuple) and axes:
        return any(_holds_masked(value, axes - 1) for value in values)
    return isinstance(values, np.ma.MaskedArray)


# --- Groups --------------------------------------------------------------------------------------

_Member = TypeVar("_Member")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(
    members: Iterable[_Member], key: Callable[[_Member], _Key]
) -> dict[_Key, list[_Member]]:
    """Return members by what they have in common, in the order in which they come.

    Examples
    --------
    >>> grouped(["h200", "b200", "h100"], lambda name: name[0])
    {'h': ['h200', 'h100'], 'b': ['b200']}
    """
    groups: dict[_Key, list[_Member]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


# --- Objects and arrays as JSON has them ----------------------------------------------------------


def fields_of(item: object, *names: str) -> dict[str, Any]:
    """Return some fields of an object by their names, as JSON has them.

    Examples
    --------
    >>> fields_of(1 + 2j, "imag", "real")
    {'imag': 2.0, 'real': 1.0}
    """
    return {name: getattr(item, name) for name in names}


def to_json_array(array: npt.ArrayLike | None) -> Any:
    """Return numbers as JSON has them: nested lists, NaN as None.

    Examples
    --------
    >>> to_json_array([[1.0, float("nan")]]), to_json_array(2.5), to_json_array(None)
    ([[1.0, None]], 2.5, None)
    """
    values = np.asarray(array)
    if values.dtype.kind == "f" and np.isnan(values).any():
        holes = np.isnan(values)
        values = values.astype(object)
        values[holes] = None
    return values.tolist()
