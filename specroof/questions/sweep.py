"""What do several drafters gain on several models, chips and loads?"""

import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from specroof.architecture import Architecture
from specroof.drafters import Drafter
from specroof.errors import OptionError, expect
from specroof.latency import Setup
from specroof.questions.answer import Answer
from specroof.questions.predict import Prediction, limited_by, predicted
from specroof.questions.request import question
from specroof.reading.yaml_text import dump_yaml
from specroof.serving.requests import Load
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, SpeedupCurve
from specroof.units import MOST_POINTS

__all__ = ["Outcome", "Study", "Sweep", "SweepRequest", "Target", "check_study", "sweep"]


@dataclass(frozen=True, slots=True)
class Target:
    """One model in one setup."""

    model: Architecture
    setup: Setup


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
    """

    targets: tuple[Target, ...]
    drafters: tuple[Drafter, ...]
    loads: tuple[Load, ...]
    max_draft_len: int | None = None
    capacity: bool | None = None

    @property
    def n_curves(self) -> int:
        """How many curves the study computes."""
        return len(self.targets) * len(self.drafters) * len(self.loads)


def check_study(study: Study) -> None:
    """Refuse a study whose curves cannot be computed, before the first is.

    Raises
    ------
    SpecroofError
        As `predict` does, and for a grid that is too large.
    """
    longest = study.max_draft_len
    drafts = (DEFAULT_MAX_DRAFT_LEN if longest is None else longest) + 1
    curves = len(study.targets) * len(study.drafters)
    cells = sum(len(load.batch_size) * len(load.context_len) for load in study.loads)
    points = curves * drafts * cells
    if points > MOST_POINTS:
        message = f"the grid has {points} points; allowed: at most {MOST_POINTS}"
        raise OptionError(message)
    grid = study.loads[0]
    first = Load(grid.batch_size[:1], grid.context_len[:1])
    for target in study.targets:
        predicted(
            target.model, target.setup, study.drafters, first, max_draft_len=study.max_draft_len
        )
    target = study.targets[0]
    for load in study.loads:
        alone = replace(load, workload=None)
        predicted(target.model, target.setup, study.drafters[:1], alone, max_draft_len=0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a study found for one target under one load.

    Parameters
    ----------
    target
        The position of the target in its study, from 1.
    workload
        The position of the load in its study, from 1.
    prediction
        What each drafter gains.
    """

    target: int
    workload: int
    prediction: Prediction


@dataclass(frozen=True)
class SweepRequest:
    """Ask what several drafters gain on several models, chips and loads.

    Parameters
    ----------
    study
        A study file, the name of a bundled study, a mapping with the keys of a study file, or a
        `Study`.
    advance
        Called after each curve.
    """

    study: str | os.PathLike[str] | Mapping[str, Any] | Study
    _: KW_ONLY
    advance: Callable[[], None] = lambda: None


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(Answer):
    """What several drafters gain on several models, chips and loads.

    Attributes
    ----------
    outcomes
        A prediction for each target under each load.
    notes, warnings
        Sentences for the reader.
    """

    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = field(default=())

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{len(self.outcomes)} predictions"

    @property
    def drawn(self) -> list[SpeedupCurve]:
        """The curves of all outcomes that charts show."""
        return [curve for one in self.outcomes for curve in one.prediction.drawn]

    def rows(self) -> list[dict[str, Any]]:
        """Return each outcome as the object that ``predict --json`` prints."""
        return [one.prediction.to_dict() for one in self.outcomes]

    def to_dict(self) -> dict[str, Any]:
        """Return the predictions in a list, with the notes on all."""
        return {"predictions": self.rows(), "notes": list(self.notes)}

    def plot(self) -> Any:
        """Draw best speedup against batch size, or speedup against draft length."""
        from specroof.plot import study_figures  # noqa: PLC0415 - matplotlib is slow to import

        return next(iter(study_figures(self).values()))


@question(SweepRequest)
def sweep(request: SweepRequest) -> Sweep:
    """Run a study: several models x hardware x drafters."""
    study = _study(request.study)
    outcomes = [
        Outcome(
            number,
            order,
            predicted(
                target.model,
                target.setup,
                study.drafters,
                load,
                max_draft_len=study.max_draft_len,
                limited=limited_by(target.setup, study.capacity, queues=load.workload is not None),
                advance=request.advance,
            ),
        )
        for number, target in enumerate(study.targets, start=1)
        for order, load in enumerate(study.loads, start=1)
    ]
    notes = dict.fromkeys(note for one in outcomes for note in one.prediction.notes)
    return Sweep(tuple(outcomes), tuple(notes))


def _study(given: str | os.PathLike[str] | Mapping[str, Any] | Study) -> Study:
    """Return a study with all that it names loaded."""
    allowed = "a file, a name, a mapping or a Study"
    expect("study", given, str | os.PathLike | Mapping | Study, allowed)
    if isinstance(given, Study):
        return given
    from specroof.questions.study import load_study, parse_study  # noqa: PLC0415 - needs pydantic

    if isinstance(given, Mapping):
        return parse_study(dump_yaml(dict(given)), "study")
    return load_study(given)
