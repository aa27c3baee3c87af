"""What a study asks about: several targets, drafters and loads, each with each."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from specroof.drafters import Drafter
from specroof.latency.setup import Deployment
from specroof.questions.predict import shared_max_draft_len
from specroof.questions.work import PLAYED_REQUEST_S
from specroof.serving.workload import Load

if TYPE_CHECKING:
    from specroof.serving.split import Split

#: The most requests of a study: three hours of one process.
MOST_PLAYED: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Target(Deployment):
    """One model in one setup; of a split that of a decode worker, with all workers."""

    split: "Split | None" = None


@dataclass(frozen=True, slots=True)
class Study:
    """Several targets, drafters and loads.

    Parameters
    ----------
    targets, drafters
        What is served where, and what drafts for each.
    loads
        One grid of batch sizes and context lengths; or one for each workload.
    max_draft_len, capacity
        As for `predict`.
    text, source
        The study file that it was read from, and its name; empty for one that was built in Python.
    """

    targets: tuple[Target, ...]
    drafters: tuple[Drafter, ...]
    loads: tuple[Load, ...]
    max_draft_len: int | None = None
    capacity: bool | None = None
    text: str = field(default="", compare=False, repr=False)
    source: str = field(default="", compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of its file, or `study`."""
        return Path(self.source).name or "study"

    @property
    def longest(self) -> int:
        """The longest draft of every grid."""
        return shared_max_draft_len(self.drafters, self.max_draft_len)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Every target with every drafter, by their positions from 1."""
        targets, drafters = len(self.targets), len(self.drafters)
        return [*product(range(1, targets + 1), range(1, drafters + 1))]

    @property
    def n_curve_points(self) -> int:
        """Points of one drafter on one target, over all loads."""
        cells = sum(len(load.batch_size) * len(load.context_len) for load in self.loads)
        return cells * (self.longest + 1)

    @property
    def n_played(self) -> int:
        """Requests that are played through, over all points."""
        requests = sum(sum(load.requests) for load in self.loads)
        return len(self.pairs) * (self.longest + 1) * requests

    @property
    def played_point_s(self) -> float:
        """Seconds that a point takes whose requests are played through, about; 0 if none are."""
        return self.n_played * PLAYED_REQUEST_S / self.n_points

    @property
    def n_points(self) -> int:
        """Points of the whole study."""
        return len(self.pairs) * self.n_curve_points


#: What a study can be given as.
StudyLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Study
