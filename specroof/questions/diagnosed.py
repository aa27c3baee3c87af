"""A server's counts beside a prediction that uses them, and the gain of other draft lengths."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from specroof.acceptance import accepted_at, constant_acceptance
from specroof.acceptance.law_fits import extrapolated_acceptance
from specroof.architecture import Architecture
from specroof.arrays import fields_of, number_within
from specroof.drafters import Drafter
from specroof.drafters.kinds import matched_proposals
from specroof.latency import Setup
from specroof.policies.decision import Change, best_change
from specroof.questions.predict import limited_by
from specroof.questions.prediction import Prediction, predicted
from specroof.serving.observed import Observed, measured_acceptance
from specroof.serving.workload import Load

#: Loads at which a schedule may change its draft length, besides the present one.
LOADS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: Cached tokens of a request where neither the user nor the server says.
USUAL_CONTEXT_LEN: Final = 4096.0
#: How acceptance by position goes on past the drafts that a server makes: of the laws with a name
#: this one misses deeper positions of measured profiles least (`benchmarks/acceptance_shapes.py`).
BEYOND: Final = "geometric"


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity, measured and predicted.

    Parameters
    ----------
    quantity, unit
        What, and in which unit.
    measured, predicted
        None where there is none.
    """

    quantity: str
    unit: str
    measured: float | None
    predicted: float | None

    @property
    def off(self) -> float | None:
        """Measured by predicted, less 1; None without either."""
        if self.measured is None or not self.predicted:
            return None
        return self.measured / self.predicted - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return fields_of(self, "quantity", "unit", "measured", "predicted", "off")


def context_of(asked: float | None, seen: Observed) -> float:
    """Return the cached tokens of a request: as given, else the mean of finished requests."""
    if asked is not None:
        return number_within("context_len", asked, "context_len")
    if seen.input_len is None or seen.output_len is None:
        return USUAL_CONTEXT_LEN
    return seen.input_len + seen.output_len / 2


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A server that was read, and what it serves.

    Parameters
    ----------
    model, setup, drafter
        What is served, where, and what drafts; None if nobody says.
    seen
        What the server counted.
    context_len
        Cached tokens of a request.
    replicas
        Servers that share the load.
    """

    model: Architecture
    setup: Setup
    drafter: Drafter | None
    seen: Observed
    context_len: float
    replicas: int

    @property
    def now(self) -> int:
        """Drafts of a round: the mean, rounded."""
        return drafts_now(self.seen)

    @property
    def running(self) -> float:
        """Requests that one replica decodes at a time: one at least."""
        return max((self.seen.running or 0.0) / self.replicas, 1.0)


def drafts_now(seen: Observed) -> int:
    """Return the drafts of a round: the mean, rounded."""
    if not seen.speculates:
        return 0
    return round(seen.longest or 0 if seen.draft_len is None else seen.draft_len)


def is_tree(drafter: Drafter) -> bool:
    """Tell whether a drafter has more positions verified than a chain of its depth."""
    depths = np.array([1, 2, 3])
    proposed = drafter.propose(constant_acceptance(0.5), depths)
    return bool((np.asarray(proposed.verify_len) > depths + 1).any())


def looks_up(drafter: Drafter) -> bool:
    """Tell whether drafts are found in the text so far: at most as many as it repeats."""
    return drafter.propose(constant_acceptance(0.5), np.array([1])).looked_up


def _with_measured(drafter: Drafter, seen: Observed) -> Drafter:
    """Return a drafter with the acceptance that was counted; its own where none was.

    What was counted by position goes on past the deepest by a law. A look-up finds drafts in the
    share of rounds that was counted, where one was.
    """
    measured = measured_acceptance(seen, drafter.kind)
    if measured is None or drafter.is_ideal or is_tree(drafter):
        return drafter
    if measured.max_draft_len is not None:
        measured = extrapolated_acceptance(measured, BEYOND)
    share = seen.drafted_frac
    if share is not None and looks_up(drafter):
        found_in = partial(matched_proposals, match_rate=share)
        return replace(drafter, acceptance=measured, propose=found_in)
    return replace(drafter, acceptance=measured)


def prediction_of(case: Case) -> Prediction | None:
    """Return the prediction at this load and at others; None without any acceptance."""
    if case.drafter is None:
        return None
    with_it = _with_measured(case.drafter, case.seen)
    if with_it.acceptance is None and not with_it.is_ideal:
        return None
    loads = sorted({*map(float, LOADS), float(round(case.running)), case.running})
    limited = limited_by(case.setup, None, queues=False)
    load = Load(loads, [case.context_len])
    return predicted(case.model, case.setup, [with_it], load, limited=limited)


def change_of(case: Case, found: Prediction) -> Change | None:
    """Return the gain of another draft length; None where the load does not fit.

    How much longer look-ups would find is not known from those that were counted: nothing is said
    of lengths beyond them.
    """
    (curve,) = found.curves
    running = round(case.running)
    rates = curve.tokens_per_s[0]
    measured = curve.measured_draft_len
    if measured is not None and case.drafter is not None and looks_up(case.drafter):
        measured = max(case.seen.longest or 0, measured)
        rates = np.where(curve.draft_len <= measured, rates, np.nan)
    # A server that drafts never comes to loads for which no draft has room.
    rows = [
        row
        for row, load in enumerate(curve.batch_size)
        if load.is_integer() and np.isfinite(rates[row, 0 if load == running else 1 :]).any()
    ]
    loads = [int(curve.batch_size[row]) for row in rows]
    if running not in loads:
        return None
    row = rows[loads.index(running)]
    low, high = curve.speedup_low, curve.speedup_high
    return best_change(
        loads,
        rates[rows],
        running=running,
        now=case.now,
        speedup=curve.speedup[0, row],
        ends=None if low is None or high is None else (low[0, row], high[0, row]),
        measured=measured,
    )


def compared(case: Case, found: Prediction | None) -> Iterator[Compared]:
    """Yield measured quantities beside predicted ones, for the draft length that runs."""
    seen, drafter, now = case.seen, case.drafter, case.now
    length = round_s = rate = None
    if drafter is not None and drafter.acceptance is not None and now:
        accepted = accepted_at(drafter.acceptance, case.context_len)
        length = _finite(drafter.propose(accepted, np.array([now])).tokens_per_round[0])
    if found is not None and seen.running:
        (curve,) = found.curves
        row = list(curve.batch_size).index(case.running)
        if now < len(curve.draft_len):
            round_s = _finite(curve.round_s[0, row, now])
            rate = _finite(curve.tokens_per_s[0, row, now])
    measured = None if seen.tokens_per_s is None else seen.tokens_per_s / case.replicas
    if seen.speculates:
        yield Compared("tokens per round", "", seen.tokens_per_round, length)
    name = "round" if seen.speculates else "step"
    yield Compared(name, "s", seen.round_s, round_s)
    yield Compared("tokens per second", "tok/s", measured, rate)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
