"""Traffic files: the load of each hour, and the sizes of requests.

pydantic is slow to import, so only a question that has such a file imports this one.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from specroof.catalog.files import read_text
from specroof.errors import MeasurementError, OptionError, expect, refuse, reject
from specroof.policies.schedule import Traffic
from specroof.questions.advised_loads import Mix, TrafficFile
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


def traffic_of(traffic: str | os.PathLike[str] | TrafficFile) -> TrafficFile:
    """Return the content of a traffic file, CSV or YAML.

    Raises
    ------
    MeasurementError
        For a file that cannot be read, and hours with holes.
    OptionError
        For anything but a file; the empty name is none, and no other name for this folder.
    """
    expect("traffic", traffic, str | os.PathLike | TrafficFile, "a file, or a TrafficFile")
    if traffic == "":
        refuse("traffic", traffic, "a file, or a TrafficFile")
    if isinstance(traffic, TrafficFile):
        return traffic
    path = Path(traffic)
    return parse_traffic(
        read_text(path, MeasurementError),
        source=str(path),
        is_yaml=path.suffix in {".yaml", ".yml"},
    )


def parse_traffic(text: str, *, source: str, is_yaml: bool) -> TrafficFile:
    r"""Return the content of a traffic file.

    Parameters
    ----------
    text
        CSV with the columns hour, and concurrency or requests_per_s; or YAML with ``hours``, a
        list of such rows, and perhaps ``mix``, a list of input_len, output_len and weight.
    source
        How messages name it.
    is_yaml
        Which of both.

    Raises
    ------
    MeasurementError
        For a key or value that is not allowed, and hours with holes.

    Examples
    --------
    >>> parse_traffic("hour,concurrency\n0,4\n1,32\n", source="day.csv", is_yaml=False).traffic
    Traffic(loads=(4.0, 32.0), unit='concurrency', first_hour=0.0)
    """
    if not is_yaml:
        columns = (*_Hour.model_fields, "requests/s")
        table = parse_table(text, source=source, columns=columns, needed=("hour",))
        hours = [
            (place, read_model(row, _Hour, place=place, error=MeasurementError))
            for place, row in table
        ]
        return TrafficFile(_traffic(hours, source))
    day = parse_model(text, _Day, source=source, error=MeasurementError)
    hours = [(f"{source}: hours.{number}", hour) for number, hour in enumerate(day.hours)]
    traffic = _traffic(hours, source)
    if day.mix is None:
        return TrafficFile(traffic)
    sizes = tuple(Workload(size.input_len, size.output_len) for size in day.mix)
    return TrafficFile(traffic, Mix(sizes, tuple(size.weight for size in day.mix)))


def _traffic(hours: Sequence[tuple[str, _Hour]], source: str) -> Traffic:
    """Return the load of each hour, each with its place; no hour may be missing."""
    first = hours[0][1]
    for number, (place, hour) in enumerate(hours):
        if hour.hour != first.hour + number:
            reject(
                f"{place}: hour is {hour.hour:g}",
                f"{first.hour + number:g}: hours follow one another without holes",
                MeasurementError,
            )
        if hour.unit != first.unit:
            reject(
                f"{place}: {hour.unit} is given after {first.unit}",
                "one unit of load in all hours",
                MeasurementError,
            )
    try:
        loads = tuple(getattr(hour, hour.unit) for _, hour in hours)
        return Traffic(loads, first.unit, first.hour)
    except OptionError as refusal:
        message = f"{source}: {refusal}"
        raise MeasurementError(message) from None
