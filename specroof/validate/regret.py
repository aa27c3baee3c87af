"""What following `advise` would have lost where options were measured beside one another."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specroof.policies.decision import best_choice
from specroof.validate.scored import Scored


@dataclass(frozen=True, slots=True)
class Regret:
    """One set-up: what is advised by the predictions, and what the measurements say of it.

    Parameters
    ----------
    options
        Drafters and draft lengths that were measured there; no drafts are one more option.
    taken, best
        What is advised, and what was measured best; None is no drafts.
    """

    options: tuple[Scored, ...]
    taken: Scored | None
    best: Scored | None

    @property
    def lost(self) -> float:
        """The share of throughput that what is taken loses to what is best."""
        return 1.0 - _measured(self.taken) / _measured(self.best)

    @property
    def is_choice(self) -> bool:
        """Whether more than one way to draft was measured."""
        return len(self.options) > 1


def regrets(speedups: Iterable[Scored]) -> list[Regret]:
    """Return what following the predictions loses in each set-up.

    Parameters
    ----------
    speedups
        Beside predictions that have not seen them. Whoever measured a model on a chip at a load
        had the drafters and draft lengths of all these points to choose from.

    Counts
        the acceptance length of each option as it was measured with it.
    Ignores
        shapes: the factor that is free in a group comes from the measurements. Bands tell a
        verdict, and do not move the choice.
    Source
        `specroof.policies.decision.best_choice`, by which `advise` takes draft lengths.
    """
    setups: dict[object, list[Scored]] = defaultdict(list)
    for one in speedups:
        setups[_setup(one)].append(one)
    return [_regret(options) for options in setups.values()]


def worst_regrets(found: Iterable[Regret], n: int) -> list[Regret]:
    """Return those that lose most, at most so many, the largest first; none that lose nothing."""
    losing = [one for one in found if one.lost > 0.0]
    return sorted(losing, key=lambda one: one.lost, reverse=True)[:n]


def _setup(one: Scored) -> tuple[object, ...]:
    """Return what points share that are options of one choice."""
    point = one.point
    if one.options_of is not None:
        return (point.source, one.options_of)
    return (
        *(point.source, point.model, point.hardware, point.engine),
        *(point.tensor_parallel, point.expert_parallel, point.quantization),
        *(point.batch_size, point.context_len, point.input_len, point.output_len, point.task),
    )


def _regret(options: Sequence[Scored]) -> Regret:
    # As in `advise`, ties go to the shorter draft.
    ordered = sorted(options, key=lambda one: (one.point.draft_len or 0, one.point.verify_len or 0))
    choices = (None, *ordered)
    speedup = [1.0, *(one.predicted for one in ordered)]
    return Regret(
        options=tuple(ordered),
        taken=choices[best_choice(speedup).draft_len],
        best=max(choices, key=_measured),
    )


def _measured(one: Scored | None) -> float:
    return 1.0 if one is None else one.measured
