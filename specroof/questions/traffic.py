"""Traffic files: the load of each hour, and the sizes of requests."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specroof.catalog.files import read_text
from specroof.errors import MeasurementError, expect, refuse
from specroof.policies.schedule import Traffic
from specroof.serving.workload import Workload

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
            sum(w * getattr(size, name) for w, size in zip(self.weights, self.sizes, strict=True))
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
        decoded = [w * size.output_len for w, size in zip(self.weights, self.sizes, strict=True)]
        contexts = (size.mean_context_len for size in self.sizes)
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
    # Imported here: pydantic would slow the start of every advice.
    from specroof.questions.traffic_file import read_day  # noqa: PLC0415

    traffic, sizes = read_day(text, source=source, is_yaml=is_yaml)
    if not sizes:
        return TrafficFile(traffic)
    workloads, weights = zip(*sizes, strict=True)
    return TrafficFile(traffic, Mix(workloads, weights))
