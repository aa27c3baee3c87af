"""What does it take for speculation to pay: which acceptance, drafter cost, batch or context?"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.acceptance import ContextAcceptance, constant_acceptance
from specroof.architecture import Architecture
from specroof.arrays import Array, IntArray, fields_of, number_within, whole_within
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import OptionError, expect, refuse
from specroof.latency import Setup
from specroof.outcomes.case import Case
from specroof.outcomes.choose import choose
from specroof.outcomes.outcomes import STEADY_NOTE, Outcomes, outcomes
from specroof.outcomes.rows import LOAD_KEYS, OfLoad, load_columns
from specroof.policies.decision import LoadDecision
from specroof.quantities import cell_of
from specroof.questions.answer import Charted, case_of, rows_table, title_of
from specroof.questions.capacity import usual_drafts
from specroof.questions.case import asked_case, asked_load
from specroof.questions.objects import DrafterLike, Values, drafter_of
from specroof.questions.parameters import FORMULAS, BatchSize, DraftLen, OneDrafter, Parameter, like
from specroof.questions.played_loads import beyond_warnings, told
from specroof.questions.request import Command, LoadsRequest, question
from specroof.questions.splits import split_notes
from specroof.report.layout import format_table, page
from specroof.serving.capacity import RoomRule
from specroof.serving.served import raised_notes
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, acceptance_of, drafting_gain
from specroof.speedup.inverses import (
    Threshold,
    crossing,
    largest_cost,
    least_length,
    least_rate,
    paying_runs,
)
from specroof.speedup.result import SpeedupCurve

#: What has one answer at each load; batches and contexts are solved for over loads.
_PER_LOAD: Final = ("accept", "accept-length", "cost")
#: Relative width in which what is solved for is left where requests are played through, and rates.
_PLAYED_WITHIN: Final = 1e-3
_MOST_PLAYS: Final = 5
_RATE_WITHIN: Final = 0.01
#: What gains of such requests are.
_PLAYED: Final = (
    "requests are played through: their speedup is how much sooner the same work is done"
)
#: Quantities that can be solved for, and their names in words.
SOLVED: Final = {
    "accept": "least acceptance rate",
    "accept-length": "least acceptance length",
    "cost": "largest cost of drafting",
    "batch": "largest batch",
    "context": "largest context",
    "rate": "largest rate",
}
#: Default loads.
USUAL_BATCHES: Final = tuple(2.0**power for power in range(9))
#: Default ends of the search over batches and contexts.
_MOST: Final = {"batch": 4096, "context": 1 << 20}
_AXES: Final = {"batch": "batch_size", "context": "context_len"}
#: Up to this many are priced one by one; of more, some in each doubling, and the ends of runs are
#: bisected.
_EACH: Final = 4096
_PER_OCTAVE: Final = 16


@dataclass(frozen=True, kw_only=True)
class BreakevenRequest(LoadsRequest):
    """Ask what it takes for speculation to pay, or to reach a speedup.

    Examples
    --------
    >>> from specroof import breakeven
    >>> drafter = "autoregressive,cost=0.1"
    >>> found = breakeven("Qwen/Qwen3-8B", "b200", drafter=drafter, batch_size=1, engine="ideal")
    >>> round(found.rows[0].value, 2)  # one draft: 0.1 of a step for α tokens
    0.1
    """

    drafter: Annotated[
        DrafterLike,
        like(
            OneDrafter,
            about="KIND[,key=value…], as in predict. Needs no acceptance to solve for one.",
        ),
    ]
    solve: Annotated[
        str,
        Parameter(
            "What to find: accept, the least acceptance rate; accept-length, with draft_len "
            "drafts, bonus included; cost, the largest cost of drafting, a share of the plain step "
            "for drafters that are given as one and a factor on the drafting time of others; batch "
            "or context, the largest, and all runs of them that pay: that load is left out; rate, "
            "the largest of requests that are played through, between the least and the most of "
            "`rate`.",
            about_flag="What to find: accept, the least acceptance rate; accept-length, with "
            "--draft-len drafts; the largest cost of drafting, batch, context or rate.",
            metavar="WORD",
            names=lambda: SOLVED,
        ),
    ] = "accept"
    speedup: Annotated[float, Parameter("Speedup that is wanted; 1 breaks even.")] = 1.0
    batch_size: Annotated[Values | None, like(BatchSize, shown="1,2,4,…,256")] = None
    draft_len: Annotated[
        int | None,
        like(
            DraftLen,
            in_python="For an acceptance length the drafter's block or 3 if None.",
            shown="the best of 1 to 16",
        ),
    ] = None
    most: Annotated[
        int | None,
        Parameter(
            "Largest batch or context to try.",
            in_python="Of larger ones nothing is known: `Row.unknown_from`.",
            shown="4096; 1048576",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class BreakevenRow(OfLoad):
    """The answer at one load.

    `speedup` and `decision` are of the drafter as it is; None where it has no acceptance, and
    where the load is solved for. Of a larger load than `unknown_from` nothing is known; it is None
    where the server has no room for it, and where another figure is solved for.

    Parameters
    ----------
    room_ends
        Whether the server has no room for larger loads, or for any.
    """

    drafter: Annotated[str, q.DRAFTER]
    solve: Annotated[str, q.SOLVE]
    wanted_speedup: Annotated[float, q.WANTED_SPEEDUP]
    answer: Annotated[str, q.ANSWER]
    value: Annotated[float | None, q.VALUE]
    draft_len: Annotated[int | None, q.DRAFT_LEN]
    ceiling: Annotated[float, q.CEILING]
    speedup: Annotated[float | None, q.SPEEDUP] = None
    decision: Annotated[LoadDecision | None, q.DECISION] = None
    runs: Annotated[tuple[tuple[int, int], ...], q.RUNS] = ()
    unknown_from: Annotated[int | None, q.UNKNOWN_FROM] = None
    reason: Annotated[str | None, q.REASON] = None
    largest_stable_rate: Annotated[float | None, q.STABLE_RATE] = None
    plain_largest_stable_rate: Annotated[float | None, q.PLAIN_STABLE_RATE] = None
    room_ends: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class Breakeven(Charted):
    """What it takes for speculation to pay, or to reach a speedup.

    Attributes
    ----------
    model, setup, drafter
        What is served, where, and what drafts.
    solve, speedup, draft_len
        What was asked for; `draft_len` is None for the best.
    workload
        The requests whose prefills count; None where contexts were asked about.
    rows
        An answer for each load.
    notes, warnings
        Sentences for the reader.
    """

    model: Architecture
    setup: Setup
    drafter: Drafter
    solve: str
    speedup: float
    draft_len: int | None
    workload: Workload | None
    rows: tuple[BreakevenRow, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        requests = f", {self.workload.requests}" if self.workload else ""
        return f"{title_of(self.model, self.setup)}{requests}: {self.drafter.name}"

    def text(self) -> str:
        """Return the answer at each load as a table, with the most that could be reached."""
        return breakeven_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of the answer against the load: values, or the runs that pay."""
        figure, label, spelt = "value", SOLVED[self.solve].capitalize(), "{:.3g}"
        if self.solve in ("batch", "context"):
            figure, label, spelt = "runs", f"{self.solve.capitalize()} that pays", "{:.0f}"
        chart = q.Lines(
            ("context_len",) if self.solve == "batch" else (*LOAD_KEYS, "context_len"),
            (figure,),
            by=("context_len",) if figure == "value" else (),
            why="answer",
            titles={figure: label},
        )
        values = sorted(row.value for row in self.rows if row.value is not None)
        ends = dict.fromkeys(spelt.format(end) for end in values[:1] + values[-1:])
        found = f"{self.sought}: {' to '.join(ends) or 'nowhere'}"
        return {"": self.rows_chart(chart, self.rows, found=found)}

    @property
    def sought(self) -> str:
        """What is solved for, and under which drafts, in a few words."""
        drafts = (
            "at the best draft length" if self.draft_len is None else f"at γ = {self.draft_len}"
        )
        what = SOLVED[self.solve]
        if self.solve == "cost":
            priced = self.drafter.with_cost is None
            what += " (factor on its time)" if priced else " (share of a plain step)"
        return f"{what} for a speedup of {self.speedup:g} {drafts}"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        case = case_of(self.model, self.setup, self.workload)
        return self.envelope(
            case
            | {
                "drafter": self.drafter.name,
                "solve": self.solve,
                "wanted_speedup": self.speedup,
                "draft_len": self.draft_len,
            }
        )


@question(BreakevenRequest)
def breakeven(request: BreakevenRequest) -> Breakeven:
    """Find the acceptance, cost, batch or context at which speculation starts or stops paying."""
    expect("solve", request.solve, str, ", ".join(SOLVED))
    if request.solve not in SOLVED:
        refuse("solve", request.solve, ", ".join(SOLVED))
    drafter = drafter_of(request.drafter)
    sought = _sought(request, drafter)
    wanted = _wanted(request, sought)
    # Refuses a model or a depth that does not fit, before anything is solved; where acceptance is
    # solved for, any will do.
    by_acceptance = request.solve.startswith("accept")
    known = constant_acceptance(0.5) if by_acceptance else acceptance_of(drafter)
    steady = sought.case.load.steady
    curve = sought.outcomes(steady, known, room="ignore").curve
    rows, notes, warnings = _load_rows(sought, wanted, request, curve)
    return Breakeven(
        model=sought.case.deployment.model,
        setup=sought.case.deployment.setup,
        drafter=drafter,
        solve=request.solve,
        speedup=wanted,
        draft_len=sought.draft_len,
        workload=steady.workload,
        rows=tuple(rows),
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _load_rows(
    sought: "_Threshold", wanted: float, request: BreakevenRequest, curve: SpeedupCurve
) -> tuple[list[BreakevenRow], list[str], list[str]]:
    """Return the answers at loads, notes on them, and warnings."""
    load, notes = sought.case.load, [*split_notes(sought.case), *curve.notes]
    if load.requests:
        notes.append(_PLAYED)
    elif load.workload is not None:
        notes.append(STEADY_NOTE)
    if request.solve == "rate":
        return [_rate_row(sought, wanted)], notes, []
    if request.solve in _PER_LOAD:
        parts = [load.part(place) for place in range(len(load.batch_size))]
        loads = [replace(part, context_len=[at]) for at in load.context_len for part in parts]
        answers = [_row(sought, one, wanted, request.solve) for one in loads]
        notes += dict.fromkeys(note for _, raised, _ in answers[::-1] for note in raised)
        if any(row.room_ends for row, _, _ in answers):
            notes.append("no room: with drafting, memory does not hold this many requests")
        warnings = dict.fromkeys(text for _, _, own in answers for text in own)
        return [row for row, _, _ in answers], notes, [*warnings]
    pairs = product(curve.context_len.tolist(), curve.batch_size.tolist())
    rows = [_run(sought, pair, wanted, request) for pair in pairs]
    beyond = next((row.unknown_from for row in rows if row.unknown_from is not None), None)
    if beyond is not None:
        tried = f"largest {request.solve} tried: {beyond - 1} (most)"
        notes.append(f"{tried}; from {beyond} on nothing is known")
    if sought.case.room != "ignore":
        notes.append(f"only a {request.solve} that has room in the server counts")
    return rows, notes, []


@dataclass(frozen=True, slots=True)
class _Threshold:
    """What a threshold is sought in: one drafter at some loads.

    Parameters
    ----------
    case, drafter
        What is served where, for which requests, and what drafts.
    max_draft_len
        The longest draft that is priced.
    draft_len
        Drafts per round; None for the best of 1 to `max_draft_len`.
    solve
        What is solved for.
    """

    case: Case
    drafter: Drafter
    max_draft_len: int
    draft_len: int | None
    solve: str

    def row(self, wanted: float, threshold: Threshold, **known: Any) -> BreakevenRow:
        """Return the row of a load, from where the speedup is reached."""
        return BreakevenRow(
            drafter=self.drafter.name,
            solve=self.solve,
            wanted_speedup=wanted,
            **fields_of(threshold, "answer", "value", "ceiling"),
            draft_len=threshold.draft_len if np.isfinite(threshold.ceiling) else None,
            **known,
        )

    def outcomes(
        self,
        load: Load,
        acceptance: TokensPerRound | ContextAcceptance,
        *,
        room: RoomRule | None = None,
        drafter: Drafter | None = None,
    ) -> Outcomes:
        """Return what is gained at a load under an acceptance, with a drafter of another cost."""
        return outcomes(
            self.case.at(load=load, room=self.case.room if room is None else room),
            drafter or self.drafter,
            max_draft_len=self.max_draft_len,
            acceptance=acceptance,
            draft_lens=() if self.draft_len is None else (self.draft_len,),
        )


def _sought(request: BreakevenRequest, drafter: Drafter) -> _Threshold:
    """Return the loads that are asked about; what is solved for has one place among them.

    Raises
    ------
    OptionError
        For a load that is solved for, and a limit of what is not.
    """
    given = {"batch": ("batch_size", "concurrency"), "context": ("context_len",)}
    for name in given.get(request.solve, ()):
        if getattr(request, name) is not None:
            refuse(name, getattr(request, name), f"left out with solve {request.solve!r}")
    if request.most is not None and request.solve not in _MOST:
        refuse("most", request.most, "with solve 'batch' or 'context'")
    load = asked_load(request, USUAL_BATCHES)
    if request.solve == "rate" and not load.rate:
        refuse("solve", request.solve, "with rates, between which the largest is looked for")
    if load.requests and request.solve in _AXES:
        refuse("solve", request.solve, ", ".join((*_PER_LOAD, "rate")))
    if request.solve == "context" and load.workload is not None:
        refuse("input_len", request.input_len, "left out with solve 'context'")
    case = asked_case(
        request,
        replace(
            load,
            batch_size=[1.0] if request.solve == "batch" else load.batch_size,
            context_len=[1.0] if request.solve == "context" else load.context_len,
        ),
    )
    drafts = request.draft_len
    if drafts is not None or request.solve == "accept-length":
        drafts = usual_drafts(drafter, case.deployment.model, drafts)
    deepest = drafter.max_draft_len or DEFAULT_MAX_DRAFT_LEN
    return _Threshold(
        case=case,
        drafter=drafter,
        max_draft_len=min(deepest, DEFAULT_MAX_DRAFT_LEN) if drafts is None else drafts,
        draft_len=drafts,
        solve=request.solve,
    )


def _wanted(request: BreakevenRequest, sought: _Threshold) -> float:
    """Return the speedup that is wanted.

    Raises
    ------
    OptionError
        For a speedup that no acceptance gives, and a drafter that has nothing to solve for.
    """
    wanted = number_within("speedup", request.speedup, "wanted_speedup")
    if wanted > sought.max_draft_len + 1:
        most = sought.max_draft_len + 1
        refuse("speedup", request.speedup, f"at most {most}, the tokens of {most - 1} drafts and 1")
    if sought.drafter.is_ideal and request.solve in _PER_LOAD:
        message = f"drafter is 'ideal', whose {request.solve} is given; allowed: another drafter"
        raise OptionError(message)
    return wanted


def _row(
    sought: _Threshold, load: Load, wanted: float, solve: str
) -> tuple[BreakevenRow, list[str], list[str]]:
    """Return the answer at one load beside the speedup of the drafter as it is, notes, warnings.

    What is solved for is solved in closed form. Where requests are played through, the speedup
    that is wanted there is moved until that which is played is the one wanted here.
    """
    first, drafter = sought.draft_len or 1, sought.drafter
    accepted = constant_acceptance(0.5) if drafter.acceptance is None else drafter.acceptance
    now = sought.outcomes(load, accepted)
    runs = np.broadcast_to(now.decoding.running_batch[0, 0], sought.max_draft_len + 1)
    warnings = [] if now.played is None else [*beyond_warnings([now.played])]
    notes = raised_notes(now, now.curve.batch_size.tolist())
    own: dict[str, Any] = {
        "context_len": float(load.context_len[0]),
        **{
            name: values[0].item()
            for name, values in load_columns(load, np.array(load.batch_size)).items()
        },
    }
    have_room = first + np.flatnonzero(np.isfinite(runs[first:]))
    if not have_room.size:
        no_room = Threshold("no room", None, first, -np.inf)
        return sought.row(wanted, no_room, room_ends=True, **own), notes, warnings
    choice, decision = next(choose(now))
    own["reason"] = choice.reason or None
    if drafter.acceptance is not None:
        gains, drafts = drafting_gain(now.curve, sought.draft_len)
        known = np.isfinite(gains[0, 0])
        own |= {"speedup": float(gains[0, 0]) if known else np.nan, "decision": decision}
        own["bands"] = {"speedup": _band(now.curve, int(drafts[0, 0]))}
        rates = now.stable_rates(sought.draft_len or choice.tried) or (None, None)
        own |= {"plain_largest_stable_rate": rates[0], "largest_stable_rate": rates[1]}
    if choice.reason:
        unsustained = Threshold(choice.reason, None, first, -np.inf)
        return sought.row(wanted, unsustained, **own), notes, warnings
    here = replace(sought, max_draft_len=int(have_room[-1]))
    steady = replace(load.steady, batch_size=now.curve.batch_size.tolist())

    def gain(
        acceptance: TokensPerRound | ContextAcceptance, other: Drafter, at: Load = steady
    ) -> tuple[float, int]:
        curve = here.outcomes(at, acceptance, drafter=other).curve
        speedups, drafts = drafting_gain(curve, sought.draft_len)
        return float(speedups[0, 0]), int(drafts[0, 0])

    def solved(target: float) -> tuple[Threshold, float]:
        """Return the threshold in closed form, and the speedup that is played there."""
        tried: dict[float, tuple[Any, Drafter]] = {}

        def noted(acceptance: Any, other: Drafter) -> tuple[float, int]:
            gained = gain(acceptance, other)
            tried[abs(gained[0] / target - 1)] = acceptance, other
            return gained

        threshold = _threshold(sought, solve, target, noted)
        if not load.requests or threshold.answer != "at":
            return threshold, wanted
        return threshold, gain(*tried[min(tried)], load)[0]

    target, plays = wanted, 1
    threshold, played = solved(target)
    while abs(played / wanted - 1) > _PLAYED_WITHIN and plays < _MOST_PLAYS:
        target *= wanted / played
        threshold, played = solved(target)
        plays += 1
    return sought.row(wanted, threshold, **own), notes, warnings


def _band(curve: SpeedupCurve, drafts: int) -> tuple[float, float]:
    """Return the band of the speedup of so many drafts at the only load; NaN without one."""
    low, high = curve.speedup_low, curve.speedup_high
    if low is None or high is None:
        return np.nan, np.nan
    return float(low[0, 0, drafts]), float(high[0, 0, drafts])


def _rate_row(sought: _Threshold, wanted: float) -> BreakevenRow:
    """Return the largest rate that a plain server keeps up with at which a speedup is reached."""
    accepted, load = acceptance_of(sought.drafter), sought.case.load.part(0)

    def gain(rate: float) -> tuple[float, int]:
        curve = sought.outcomes(replace(load, rate=[rate]), accepted).curve
        speedups, drafts = drafting_gain(curve, sought.draft_len)
        return float(speedups[0, 0]), int(drafts[0, 0])

    least, first = min(sought.case.load.rate), sought.draft_len or 1
    rates = sought.outcomes(replace(load, rate=[least]), accepted).stable_rates(first) or (
        least,
        0.0,
    )
    ends, context = (min(max(sought.case.load.rate), rates[0]), least), load.context_len[0]
    if rates[0] < least:
        none = Threshold("unsustained", None, first, -np.inf)
        return sought.row(wanted, none, context_len=context, reason=none.answer)
    return sought.row(wanted, crossing(gain, wanted, ends, _RATE_WITHIN), context_len=context)


#: From an acceptance and a drafter to the speedup of drafting at one load, and its draft length.
_Gain: TypeAlias = Callable[[TokensPerRound | ContextAcceptance, Drafter], tuple[float, int]]


def _threshold(sought: _Threshold, solve: str, wanted: float, gain: _Gain) -> Threshold:
    """Return the acceptance or the cost that is solved for at one load."""
    drafter = sought.drafter

    def gain_of_acceptance(acceptance: TokensPerRound) -> tuple[float, int]:
        return gain(acceptance, drafter)

    if solve == "accept":
        return least_rate(gain_of_acceptance, wanted)
    if solve == "accept-length":
        first, kind = sought.draft_len or 1, drafter.kind
        return least_length(gain_of_acceptance, wanted, draft_len=first, kind=kind)
    accepted = acceptance_of(drafter)
    return largest_cost(lambda other: gain(accepted, other), wanted, drafter=drafter)


# --- batch and context ---------------------------------------------------------------------------


def _run(
    sought: _Threshold, load: tuple[float, float], wanted: float, request: BreakevenRequest
) -> BreakevenRow:
    """Return the runs of batches or contexts that reach a speedup, at one load."""
    solve = request.solve
    asked = _MOST[solve] if request.most is None else request.most
    places = _places(whole_within("most", asked, f"most_{solve}"))
    known: dict[str, Any] = {"context_len": load[0], "batch_size": load[1], _AXES[solve]: None}
    accepted = acceptance_of(sought.drafter)

    def at(numbers: IntArray) -> tuple[Array, IntArray]:
        axes: dict[str, Any] = {
            name: numbers.tolist() if one is None else [one] for name, one in known.items()
        }
        load = Load(**axes, workload=sought.case.load.workload)
        served = sought.outcomes(
            load, accepted, room="ignore" if sought.case.room == "ignore" else "drop"
        )
        gains, drafts = drafting_gain(served.curve, sought.draft_len)
        return gains.ravel(), drafts.ravel()

    runs = paying_runs(lambda numbers: at(numbers)[0], places, wanted)
    gains, drafts = at(places)
    ceiling = float(gains.max())
    beyond = int(places[-1]) + 1
    ends = bool(np.isinf(at(np.array([beyond]))[0][0]))
    none = "never" if np.isfinite(ceiling) else "no room"
    threshold = Threshold(none, None, int(drafts[np.argmax(gains)]), ceiling)
    if runs:
        last = runs[-1][1]
        there = int(at(np.array([last]))[1][0])
        pays = bool(np.all((gains >= wanted) | np.isinf(gains)))
        threshold = Threshold("always" if pays else "at", float(last), there, ceiling)
        if not ends and last == places[-1]:
            threshold = Threshold("beyond", None, there, ceiling)
    return sought.row(
        wanted,
        threshold,
        **{name: one for name, one in known.items() if one is not None},
        runs=tuple(runs),
        room_ends=bool(runs) and ends,
        unknown_from=None if ends else beyond,
    )


def _places(most: int) -> IntArray:
    """Return the numbers to look at: all of few, ever fewer of many."""
    if most <= _EACH:
        return np.arange(1, most + 1)
    octaves = np.log2(most)
    steps = 2 ** np.linspace(0.0, octaves, int(octaves * _PER_OCTAVE) + 1)
    return np.unique(np.append(np.round(steps).astype(np.int64), most))


# --- Break-even points, as a table ---------------------------------------------------------------

_SEVERAL: Final = {"batch": "batches", "context": "contexts"}


def breakeven_text(answer: Breakeven) -> str:
    """Return the answer at each load as a table, with the most that could be reached."""
    if answer.solve in _SEVERAL:
        header = [
            "context" if answer.solve == "batch" else "batch",
            *(f"largest {answer.solve}", "γ", "at best", f"{_SEVERAL[answer.solve]} that pay"),
        ]
        table = format_table(header, [_run_cells(row) for row in answer.rows], left=[4])
    else:
        told = {"answer": "", "speedup": "now", "value": answer.solve}
        shown = [replace(row, answer="") if row.answer == "at" else row for row in answer.rows]
        table = rows_table(shown, _SHOWN, **told)
    return page(answer, table, below_title=answer.sought)


_SHOWN: Final = (
    *("context_len", "concurrency", "batch_size", "rate", "value", "draft_len", "ceiling"),
    *("speedup", "answer"),
)


def _run_cells(row: BreakevenRow) -> list[str]:
    none = "no room" if row.answer == "no room" else "never"
    value, runs = cell_of(q.VALUE, row.value), q.RUNS.spelt(row.runs) or none
    if row.value is not None:
        value = f"{row.value:.0f}"
    if row.answer == "always":
        runs += " (all that have room)"
    elif row.answer == "beyond" and row.runs:
        value = f"> {row.runs[-1][1]}"
        runs += f" (from {row.unknown_from} on unknown)"
    most = cell_of(q.DRAFT_LEN, row.draft_len), cell_of(q.CEILING, row.ceiling)
    return [f"{row.load:g}", value, *most, runs]


COMMAND: Final = Command(
    question=breakeven,
    options=FORMULAS,
    each_chip=True,
    told=told,
    chart="Draw the answer against the load.",
    example="specroof breakeven Qwen/Qwen3-8B -H b200 --drafter eagle3 --batch 1,8,32,128 for the\n"
    "least acceptance; with --drafter eagle3,accept=0.7 --solve batch for the largest batch.",
)
