"""The keys of one JSON result, every value checked where it is read."""

import math
from typing import Any, NoReturn, TypeVar

from specroof.arrays import real_number
from specroof.errors import MeasurementError, refuse, reject
from specroof.reading.yaml_text import shown

_Kind = TypeVar("_Kind")


class Fields:
    """A JSON object whose refusals name the place, the key and the value.

    Parameters
    ----------
    content
        What JSON made of the text.
    place
        File and line.

    Raises
    ------
    MeasurementError
        If it is not an object.

    Examples
    --------
    >>> Fields({"duration": 2}, "a.json, line 1").amount("duration")
    2.0
    >>> Fields({"duration": -2}, "a.json, line 1").amount("duration")
    Traceback (most recent call last):
    specroof.errors.MeasurementError: a.json, line 1: duration is -2; allowed: a finite number
    above 0
    """

    def __init__(self, content: Any, place: str) -> None:
        if not isinstance(content, dict):
            reject(f"{place}: is {shown(content)}", "a JSON object", MeasurementError)
        self._content = content
        self.place = place

    def has(self, key: str) -> bool:
        """Tell whether the key is there."""
        return key in self._content

    def value(self, key: str) -> Any:
        """Return the value, None where there is none."""
        return self._content.get(key)

    def inner(self, key: str) -> "Fields":
        """Return an object within, empty where there is none."""
        value = self.value(key)
        return Fields({} if value is None else value, f"{self.place}, {key}")

    def first(self, key: str) -> "Fields":
        """Return the first object of a list within, empty where there is none."""
        value = self.value(key)
        one = value[0] if isinstance(value, list) and value else {}
        return Fields(one, f"{self.place}, {key}")

    def flag_or_none(self, key: str) -> bool | None:
        """Return true or false; None where there is neither."""
        return self._of_kind(key, bool, "true or false")

    def amount(self, key: str) -> float:
        """Return a finite number above 0."""
        value = real_number(self.value(key))
        if not 0 < value < math.inf:
            self.refuse(key, "a finite number above 0")
        return value

    def amount_or_none(self, key: str) -> float | None:
        """Return a finite number above 0; None where there is none."""
        return None if self.value(key) is None else self.amount(key)

    def count(self, key: str) -> int:
        """Return a whole number of at least 1."""
        value = self.amount(key)
        if not value.is_integer():
            self.refuse(key, "a whole number of at least 1")
        return int(value)

    def count_or_none(self, key: str) -> int | None:
        """Return a whole number of at least 1; None where there is none."""
        return None if self.value(key) is None else self.count(key)

    def text_or_none(self, key: str) -> str | None:
        """Return a text; None where there is none."""
        return self._of_kind(key, str, "text")

    def _of_kind(self, key: str, kind: type[_Kind], allowed: str) -> _Kind | None:
        value = self.value(key)
        if value is not None and not isinstance(value, kind):
            self.refuse(key, allowed)
        return value

    def refuse(self, key: str, allowed: str) -> NoReturn:
        """Refuse the value of a key."""
        name = f"{self.place}: {key}"
        refuse(name, self.value(key), allowed, error=MeasurementError, show=shown)
