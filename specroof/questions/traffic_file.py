"""The reader of traffic files: which keys they have, and what each may be."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from specroof.errors import MeasurementError, OptionError
from specroof.policies.schedule import Traffic
from specroof.reading.checked import FileBlock, RequestLen, accept, parse_model, read_model, within
from specroof.reading.table import parse_table
from specroof.serving.workload import Workload

_Load = Annotated[float, within("offered_load")]
_UNITS: Final = "concurrency, requests_per_s"


class _Hour(FileBlock):
    """An hour and its load, in one of two units."""

    hour: Annotated[float, accept("a number", lambda _: True, int, float)]
    concurrency: _Load | None = None
    requests_per_s: _Load | None = None

    @model_validator(mode="before")
    @classmethod
    def _rates_have_one_spelling(cls, content: Any) -> Any:
        if not isinstance(content, dict) or "requests_per_s" in content:
            return content
        return {
            "requests_per_s" if key == "requests/s" else key: value
            for key, value in content.items()
        }

    @model_validator(mode="after")
    def _has_one_load(self) -> Self:
        if (self.concurrency is None) == (self.requests_per_s is None):
            how = "missing" if self.concurrency is None else "given beside requests_per_s"
            message = f"concurrency is {how}; allowed: one of {_UNITS}"
            raise ValueError(message)
        return self

    @property
    def unit(self) -> Literal["concurrency", "requests_per_s"]:
        """What the load counts."""
        return "requests_per_s" if self.concurrency is None else "concurrency"


class _Size(FileBlock):
    """Requests of one size, and how many there are."""

    input_len: RequestLen
    output_len: RequestLen
    weight: Annotated[float, within("target")] = 1.0


class _Day(FileBlock):
    """A traffic file in YAML."""

    hours: Annotated[list[_Hour], Field(min_length=1)]
    mix: Annotated[list[_Size], Field(min_length=1)] | None = None


def read_day(
    text: str, *, source: str, is_yaml: bool
) -> tuple[Traffic, tuple[tuple[Workload, float], ...]]:
    """Return the load of each hour, and the sizes of requests with their weights, if there are any.

    Parameters
    ----------
    text, source, is_yaml
        As for `specroof.questions.traffic.parse_traffic`.

    Raises
    ------
    MeasurementError
        For a key or value that is not allowed, and hours with holes.
    """
    if not is_yaml:
        columns = (*_Hour.model_fields, "requests/s")
        table = parse_table(text, source=source, columns=columns, needed=("hour",))
        hours = [
            (place, read_model(row, _Hour, place=place, error=MeasurementError))
            for place, row in table
        ]
        return _traffic(hours, source), ()
    day = parse_model(text, _Day, source=source, error=MeasurementError)
    hours = [(f"{source}: hours.{number}", hour) for number, hour in enumerate(day.hours)]
    sizes = tuple(
        (Workload(size.input_len, size.output_len), size.weight) for size in day.mix or ()
    )
    return _traffic(hours, source), sizes


def _traffic(hours: Sequence[tuple[str, _Hour]], source: str) -> Traffic:
    """Return the load of each hour, each with its place; no hour may be missing."""
    first = hours[0][1]
    for number, (place, hour) in enumerate(hours):
        if hour.hour != first.hour + number:
            message = (
                f"{place}: hour is {hour.hour:g}; allowed: {first.hour + number:g}: hours follow "
                f"one another without holes"
            )
            raise MeasurementError(message)
        if hour.unit != first.unit:
            message = (
                f"{place}: {hour.unit} is given after {first.unit}; allowed: one unit of load in "
                f"all hours"
            )
            raise MeasurementError(message)
    try:
        return Traffic(tuple(getattr(hour, hour.unit) for _, hour in hours), first.unit)
    except OptionError as refusal:
        message = f"{source}: {refusal}"
        raise MeasurementError(message) from None
