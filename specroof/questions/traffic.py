"""Traffic files: the load of each hour, and the sizes of requests."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from specroof.arrays import number_within, real_number
from specroof.catalog.files import read_text
from specroof.errors import MeasurementError, OptionError, expect, refuse
from specroof.policies.schedule import Traffic
from specroof.reading.table import parse_table
from specroof.reading.yaml_text import parse_yaml, shown
from specroof.serving.workload import Workload

#: The columns of loads, as files spell them.
_UNITS: Final = {
    "concurrency": "concurrency",
    "requests_per_s": "requests_per_s",
    "requests/s": "requests_per_s",
}
_SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Mix:
    """Requests of several sizes.

    Parameters
    ----------
    sizes
        Input and output lengths.
    weights
        How many requests are of each size, in any unit.
    """

    sizes: tuple[Workload, ...]
    weights: tuple[float, ...]

    @property
    def workload(self) -> Workload:
        """The mean request.

        Ignores
            that the pass of a long prompt takes more than its share: attention, some percent.

        Examples
        --------
        >>> Mix((Workload(1000, 100), Workload(3000, 500)), (3.0, 1.0)).workload
        Workload(input_len=1500.0, output_len=200.0, prefix_hit_rate=0.0, waves=False)
        """
        total = sum(self.weights)
        means = (
            sum(w * getattr(one, name) for w, one in zip(self.weights, self.sizes, strict=True))
            for name in ("input_len", "output_len")
        )
        return Workload(*(mean / total for mean in means))

    @property
    def mean_context_len(self) -> float:
        """Cached tokens of a sequence that is being decoded, on average: long answers stay longer.

        Examples
        --------
        >>> Mix((Workload(1000, 100), Workload(3000, 500)), (5.0, 1.0)).mean_context_len
        2150.0
        """
        decoded = [w * one.output_len for w, one in zip(self.weights, self.sizes, strict=True)]
        contexts = (one.mean_context_len for one in self.sizes)
        return sum(d * c for d, c in zip(decoded, contexts, strict=True)) / sum(decoded)


@dataclass(frozen=True, slots=True)
class TrafficFile:
    """What a traffic file says.

    Parameters
    ----------
    traffic
        The load of each hour.
    mix
        The sizes of requests; None where it says none.
    """

    traffic: Traffic
    mix: Mix | None = None


def traffic_of(traffic: str | os.PathLike[str] | TrafficFile) -> TrafficFile:
    """Return the content of a traffic file, CSV or YAML.

    Raises
    ------
    MeasurementError
        For a file that cannot be read, and hours with holes.
    """
    expect("traffic", traffic, str | os.PathLike | TrafficFile, "a file, or a TrafficFile")
    if isinstance(traffic, TrafficFile):
        return traffic
    path = Path(traffic)
    return parse_traffic(
        read_text(path, MeasurementError), source=str(path), is_yaml=path.suffix in _SUFFIXES
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
    Traffic(loads=(4.0, 32.0), unit='concurrency')
    """
    if is_yaml:
        content = parse_yaml(text, source=source, error=MeasurementError)
        _known(content, ("hours", "mix"), source)
        rows = [
            (f"{source}: hours[{i}]", row)
            for i, row in enumerate(_list(content.get("hours"), f"{source}: hours"))
        ]
        mix = None if "mix" not in content else _mix(content["mix"], source)
    else:
        readers = {"hour": _cell, **dict.fromkeys(_UNITS, _cell)}
        table = parse_table(text, source=source, readers=readers, needed=("hour",))
        rows = [(f"{source}, line {line}", row) for line, row in table]
        mix = None
    return TrafficFile(_traffic(rows, source), mix)


def _cell(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = "a number"
        raise ValueError(message) from None


def _traffic(rows: Sequence[tuple[str, Mapping[str, Any]]], source: str) -> Traffic:
    """Return the load of each hour; no hour may be missing."""
    loads: list[float] = []
    units: set[str] = set()
    first = None
    for place, row in rows:
        _known(row, ("hour", *_UNITS), place)
        given = [name for name in _UNITS if row.get(name) is not None]
        if len(given) != 1:
            message = f"{place}: has {', '.join(given) or 'no load'}; allowed: one of concurrency, requests_per_s"
            raise MeasurementError(message)
        units.add(_UNITS[given[0]])
        hour, load = real_number(row.get("hour")), real_number(row[given[0]])
        if first is None:
            first = hour
        if hour != first + len(loads):
            following = f"{first + len(loads):g}: hours follow one another without holes"
            _refuse(f"{place}: hour", row.get("hour"), following)
        if not 0 <= load < 1e7:
            _refuse(f"{place}: {given[0]}", row[given[0]], "a number from 0 to 10000000")
        loads.append(load)
    if len(units) != 1:
        message = f"{source}: has {' and '.join(sorted(units)) or 'no hours'}; allowed: one unit of load in all hours"
        raise MeasurementError(message)
    try:
        return Traffic(tuple(loads), units.pop())  # type: ignore[arg-type]  # of _UNITS
    except OptionError as refusal:
        message = f"{source}: {refusal}"
        raise MeasurementError(message) from None


def _mix(value: object, source: str) -> Mix:
    sizes, weights = [], []
    for i, row in enumerate(_list(value, f"{source}: mix")):
        place = f"{source}: mix[{i}]"
        _known(row, ("input_len", "output_len", "weight"), place)
        try:
            sizes.append(Workload(row.get("input_len"), row.get("output_len")))
            weights.append(number_within("weight", row.get("weight", 1.0), "target"))
        except OptionError as refusal:
            message = f"{place}: {refusal}"
            raise MeasurementError(message) from None
    return Mix(tuple(sizes), tuple(weights))


_refuse: Final = partial(refuse, error=MeasurementError, show=shown)


def _known(row: object, allowed: Sequence[str], place: str) -> None:
    """Refuse anything but a mapping of known keys."""
    keys = f"a mapping with the keys {', '.join(allowed)}"
    if not isinstance(row, Mapping):
        _refuse(place, row, keys)
    unknown = [key for key in row if key not in allowed]
    if unknown:
        message = f"{place} has the key {shown(unknown[0])}; allowed: {keys}"
        raise MeasurementError(message)


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        _refuse(place, value, "a list with at least one entry")
    return value
