"""What a study will write: its partitions, its points, and how to tell it from another study."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import version
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeGuard

import numpy as np

from specroof.arrays import fields_of
from specroof.questions.played_loads import load_json
from specroof.questions.study import Study
from specroof.questions.sweep import Findings, study_slices, summary_columns
from specroof.reading.yaml_text import shortened
from specroof.speedup.overview import Overview
from specroof.sweeps.places import FORMATS, Place, best_format, place_of, sha256_of

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
    depths = np.arange(max(_TOLD_DEPTHS, study.longest + 1))
    described = {
        "specroof": version("specroof"),
        "targets": [
            {
                "model": target.model.name,
                "model_sha256": _sum(repr(target.model)),
                "hardware": target.setup.hardware.name,
                "engine": target.setup.engine.full_name,
                "tensor_parallel": target.setup.placement.tensor_parallel,
                "setup_sha256": _sum(repr(target.setup)),
                **({} if target.split is None else {"split_sha256": _sum(repr(target.split))}),
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
                "requests_sha256": _sum(repr((load.workload, _known(load)))),
                **(load_json(load) if load.requests else {}),
            }
            for load in study.loads
        ],
        "max_draft_len": study.longest,
        "capacity": study.capacity,
    }
    return Plan(study, tuple(partitions), described)


def _known(load: Any) -> list[Any]:
    """Return what is known of each request of a trace or a job; nothing of others."""
    if load.trace is None:
        return []
    return [np.asarray(getattr(load.trace, one.name)).tolist() for one in fields(load.trace)]


def _survival(drafter: Any, depths: Any) -> list[float] | None:
    if drafter.acceptance is None:  # the ideal drafter
        return None
    tokens: list[float] = np.asarray(drafter.acceptance.tokens_per_round(depths)).tolist()
    return tokens


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def changes(before: Any, now: Any) -> str:
    """Return what differs between two descriptions, in words.

    Examples
    --------
    >>> changes({"a": {"b": [1]}, "c": 1}, {"a": {"b": [1, 8]}, "c": 1})
    'a.b was [1], is [1, 8]'
    """
    differences = [
        f"{key} was {_shown(old)}, is {_shown(new)}" for key, old, new in _differences(before, now)
    ]
    more = len(differences) - _MOST_NAMED
    return "; ".join(differences[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


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


# --- One partition: computed, and written whole or not at all ------------------------------------

#: Folders: of files with points, and of what is kept until the study is done.
POINTS: Final = "points"
UNFINISHED: Final = ".unfinished"
#: Notes that are kept of a partition.
_MOST_NOTES: Final = 20

#: How a record names its partition.
_NAMED: Final = ("name", "target", "drafter", "points")
#: The keys of a record, and what they hold.
_KINDS: Final[dict[str, type]] = {
    "name": str,
    "target": int,
    "drafter": int,
    "points": int,
    "loads_without_room": int,
    "bytes": int,
    "points_sha256": str,
    "summary_sha256": str,
    "notes": list,
    "overviews": list,
}

#: Told how many points are done, each time some are.
Advance = Callable[[int], object]


def file_metadata(plan: Plan) -> dict[str, str]:
    """Return what every file says of itself."""
    return {
        "specroof_version": plan.described["specroof"],
        "specroof_study_sha256": plan.study_sha256,
        "specroof_study": plan.study.text,
    }


def finished(place: Place, partition: Partition, form: str) -> dict[str, Any] | None:
    """Return the record of a partition whose files are there; None of one that is to be done."""
    content = place.read(f"{UNFINISHED}/{partition.name}.json")
    try:
        record = json.loads(content or b"")
    except (ValueError, RecursionError):  # cut short, or no text
        return None
    if not is_record(record, partition):
        return None
    return record if _sums(place, partition, form).items() <= record.items() else None


def _sums(place: Place, partition: Partition, form: str) -> dict[str, str | None]:
    """Return the sums of a partition's files, by their keys in its record."""
    folders = {"points_sha256": POINTS, "summary_sha256": UNFINISHED}
    return {
        key: sha256_of(place, f"{folder}/{partition.name}.{form}")
        for key, folder in folders.items()
    }


def is_record(record: Any, partition: Partition) -> TypeGuard[dict[str, Any]]:
    """Tell the record of a partition from anything else that a damaged file may hold."""
    if not has_kinds(record) or not fields_of(partition, *_NAMED).items() <= record.items():
        return False
    try:
        return len(overviews_of([record])) > 0
    except ValueError:
        return False


def overviews_of(records: Iterable[Mapping[str, Any]]) -> list[Overview]:
    """Return the best of each curve that records hold.

    Raises
    ------
    ValueError
        For one that is damaged.
    """
    return [Overview.from_dict(shown) for record in records for shown in record["overviews"]]


def has_kinds(record: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value has the keys of a record, each of its kind; overviews are not read."""
    return (
        isinstance(record, dict)
        and record.keys() | {"points_sha256"} == _KINDS.keys()  # which 0.2.0 did not write
        and all(type(value) is _KINDS[key] for key, value in record.items())
        and record["name"].isdecimal()  # no way out of the folder
        and min(record["bytes"], record["loads_without_room"]) >= 0
        and all(isinstance(note, str) for note in record["notes"])
    )


def write_partition(
    plan: Plan,
    partition: Partition,
    place: Place,
    form: str,
    advance: Advance,
    most: int | None = None,
) -> dict[str, Any]:
    """Write the points of one drafter on one target, then its record, and return the record.

    Until the record is there, nothing of the partition counts; another run does all of it again,
    and writes the same bytes.

    Parameters
    ----------
    plan, partition
        What is asked.
    place, form
        Where, in which format.
    advance
        Told of points that are done.
    most
        Write about so many points and no more, to learn what they take; None for all.
    """
    found = Findings(plan.study.loads)
    whole_of = (plan.study, partition.target, partition.drafter)
    parts = study_slices(*whole_of)
    if most is not None:
        parts = islice(study_slices(*whole_of, most=most), 1)
    name, metadata = partition.name, file_metadata(plan)
    points = f"{POINTS}/{name}.{form}"

    with (
        place.open(points) as file,
        FORMATS[form](file, metadata) as write,
        place.open(f"{UNFINISHED}/{name}.{form}") as summary_file,
        FORMATS[form](summary_file, metadata) as write_load,
    ):
        for part in parts:
            for columns in part.columns():
                write(columns)
            write_load({"target": part.target} | summary_columns(part.prediction))
            found.add(part)
            advance(part.prediction.curves[0].round_s.size)

    record = fields_of(partition, *_NAMED) | {
        "loads_without_room": found.without_room,
        "bytes": place.size(points),
        **_sums(place, partition, form),
        "notes": [*found.notes][:_MOST_NOTES],
        "overviews": [overview.to_dict() for overview in found.overviews],
    }
    with place.open(f"{UNFINISHED}/{name}.json") as file:
        file.write(json.dumps(record, allow_nan=False).encode())
    return record


# --- What a sweep will take, from a small part of it ---------------------------------------------

#: Partitions that are tried, and points of each, few and many: the cost of a file is told apart
#: from the cost of its points.
_TRIED: Final = 8
_TRIED_POINTS: Final = (1 << 14, 1 << 17)
#: How far off a clock is that met other work, or a disk with a queue.
_CLOCK_OFF: Final = 0.3


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a sweep will take.

    Parameters
    ----------
    form
        The format of the files.
    points, partitions
        Counted.
    seconds
        Expected of one process on this machine.
    seconds_off
        By what share of them they may be off: two standard errors of what the partitions that were
        tried take, and what clocks are off by on a machine with other work.
    size_bytes
        Expected of the points on disk.
    """

    form: str
    points: int
    partitions: int
    seconds: float
    seconds_off: float
    size_bytes: float


def estimate(study: Study, form: str | None) -> Estimate:
    """Return what a sweep will take: some partitions are tried, a part of each.

    They are written into a temporary folder, which goes.

    Parameters
    ----------
    study
        What is asked.
    form
        As for `write_sweep`.
    """
    plan, chosen = plan_of(study), best_format(form)
    tried = _spread(plan)
    with TemporaryDirectory() as folder:
        place = place_of(folder)
        place.prepare(POINTS, UNFINISHED)
        _trial(plan, tried[0], place, chosen, _TRIED_POINTS[0])  # imports libraries, reads files
        few, many = (
            [_trial(plan, partition, place, chosen, most) for partition in tried]
            for most in _TRIED_POINTS
        )
    seconds, sizes = (
        np.array(
            [
                extrapolated((less[0], less[of]), (more[0], more[of]), partition.points)
                for less, more, partition in zip(few, many, tried, strict=True)
            ]
        )
        for of in (1, 2)
    )
    share = len(plan.partitions) / len(tried)
    spread = 2 * float(seconds.std() / seconds.mean()) / len(tried) ** 0.5 if share > 1 else 0.0
    return Estimate(
        form=chosen,
        points=plan.points,
        partitions=len(plan.partitions),
        seconds=float(seconds.sum()) * share,
        seconds_off=float(np.hypot(_CLOCK_OFF, spread)),
        size_bytes=float(sizes.sum()) * share,
    )


def _spread(plan: Plan) -> list[Partition]:
    """Return some partitions: of targets here and there, of one drafter after another."""
    drafters = len(plan.study.drafters)
    count = min(drafters * -(-_TRIED // drafters), 2 * _TRIED)
    targets = np.linspace(0, len(plan.study.targets) - 1, count).round().astype(int).tolist()
    apart = max(drafters // count, 1)
    chosen = dict.fromkeys(
        target * drafters + k * apart % drafters for k, target in enumerate(targets)
    )
    return [plan.partitions[place] for place in chosen]


def _trial(
    plan: Plan, partition: Partition, place: Place, form: str, most: int
) -> tuple[int, float, int]:
    """Return points, seconds and bytes of the first part of a partition."""
    done: list[int] = []
    begun = time.perf_counter()
    record = write_partition(plan, partition, place, form, done.append, most)
    return sum(done), time.perf_counter() - begun, int(record["bytes"])


def extrapolated(few: tuple[float, float], many: tuple[float, float], points: float) -> float:
    """Return what so many points take, from what few take and what many take.

    Each of the two is how many points there were, and what they took; what does not grow with
    them is taken once. Where all points were tried, nothing is extrapolated.

    Examples
    --------
    >>> extrapolated((10, 3.0), (20, 4.0), 100), extrapolated((10, 3.0), (10, 2.0), 10)
    (12.0, 2.0)
    """
    more = many[0] - few[0]
    # Many that took less than few have met a machine with other work.
    each = max(many[1] - few[1], 0.0) / more if more else 0.0
    return float(many[1] + each * (points - many[0]))
