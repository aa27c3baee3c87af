"""What a study will write: its partitions, its points, and how to tell it from another study."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import numpy as np

from specroof.questions.sweep import Study
from specroof.reading.yaml_text import shortened

#: Changes that a refusal names, and characters of each value.
_MOST_NAMED: Final = 3
_MOST_SHOWN: Final = 60
#: Draft lengths at which an acceptance is told from another.
_TOLD_DEPTHS: Final = 65


@dataclass(frozen=True, slots=True)
class Partition:
    """One target x one drafter: a file of points.

    Parameters
    ----------
    number, target, drafter
        Positions from 1: of the partition in its study, and of its parts.
    points
        Rows of its file.
    """

    number: int
    target: int
    drafter: int
    points: int

    @property
    def name(self) -> str:
        """What its files are called, before their ending."""
        return f"{self.number:05d}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A study, cut into partitions.

    Parameters
    ----------
    study
        What is asked.
    partitions
        In the order in which they are computed.
    described
        All that numbers depend on, as JSON has it.
    """

    study: Study
    partitions: tuple[Partition, ...]
    described: dict[str, Any]

    @property
    def points(self) -> int:
        """Rows of all files."""
        return sum(partition.points for partition in self.partitions)

    @property
    def study_sha256(self) -> str:
        """A sum that differs where any number may."""
        return _sum(json.dumps(self.described, sort_keys=True))


def plan_of(study: Study) -> Plan:
    """Return the partitions of a study, none of them computed."""
    points = study.n_curve_points
    partitions = [
        Partition(number, *pair, points) for number, pair in enumerate(study.pairs, start=1)
    ]
    return Plan(study, tuple(partitions), _described(study))


def _described(study: Study) -> dict[str, Any]:
    """Return what numbers depend on: names for people, sums of what stands behind them."""
    depths = np.arange(_TOLD_DEPTHS)
    return {
        "specroof": version("specroof"),
        "targets": [
            {
                "model": target.model.name,
                "model_sha256": _sum(repr(target.model)),
                "hardware": target.setup.hardware.name,
                "engine": target.setup.engine.name,
                "tensor_parallel": target.setup.placement.tensor_parallel,
                "setup_sha256": _sum(repr(target.setup)),
            }
            for target in study.targets
        ],
        "drafters": [
            {
                "name": drafter.name,
                "costs_sha256": _sum(
                    "\n".join(drafter.describe(target.model) for target in study.targets)
                ),
                "acceptance_sha256": _sum(repr(_survival(drafter, depths))),
            }
            for drafter in study.drafters
        ],
        "loads": [
            {
                "batch_size": [float(batch) for batch in load.batch_size],
                "context_len": [float(context) for context in load.context_len],
                "workload": None if load.workload is None else load.workload.requests,
            }
            for load in study.loads
        ],
        "max_draft_len": study.longest,
        "capacity": study.capacity,
    }


def _survival(drafter: Any, depths: Any) -> list[float] | None:
    if drafter.acceptance is None:  # the ideal drafter
        return None
    found: list[float] = np.asarray(drafter.acceptance.tokens_per_round(depths)).tolist()
    return found


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def changes(before: Any, now: Any) -> str:
    """Return what differs between two descriptions, in words.

    Examples
    --------
    >>> changes({"a": {"b": [1]}, "c": 1}, {"a": {"b": [1, 8]}, "c": 1})
    'a.b was [1], is [1, 8]'
    """
    found = [
        f"{key} was {_shown(old)}, is {_shown(new)}" for key, old, new in _differences(before, now)
    ]
    more = len(found) - _MOST_NAMED
    return "; ".join(found[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _shown(value: Any) -> str:
    return shortened("nothing" if value is None else json.dumps(value), _MOST_SHOWN)


def _differences(before: Any, now: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key, the old and the new value of all that differs."""
    if before == now:
        return
    old, new = _keyed(before), _keyed(now)
    if old is None or new is None:
        yield at.lstrip("."), before, now
        return
    for key in dict.fromkeys([*old, *new]):
        yield from _differences(old.get(key), new.get(key), f"{at}.{key}")


def _keyed(value: Any) -> dict[Any, Any] | None:
    """Return a mapping, or a list of mappings by position; None for a value."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return dict(enumerate(value))
    return None
