"""What does it take for speculation to pay: which acceptance, drafter cost, batch or context?"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.acceptance import constant_acceptance
from specroof.arrays import fields_of, number_within, whole_within
from specroof.drafters import Drafter
from specroof.errors import expect_word, refuse, reject
from specroof.latency.model import position_notes
from specroof.outcomes.case import Case
from specroof.outcomes.choose import decided
from specroof.outcomes.outcomes import outcomes, steady_note
from specroof.outcomes.rows import LOAD_KEYS, OfLoad, known_bands, load_columns
from specroof.outcomes.solve import AXES, Solution, Wish, solve
from specroof.policies.decision import LoadDecision
from specroof.quantities import cell_of
from specroof.questions import parameters as p
from specroof.questions.answer import Charted, OnChips, ServedAnswer, rows_table, sure_of
from specroof.questions.capacity import usual_drafts
from specroof.questions.case import asked_case, asked_load
from specroof.questions.objects import Values, absent_layers
from specroof.questions.request import Command, LoadsRequest, question
from specroof.report.layout import format_table
from specroof.serving.workload import Workload
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, acceptance_of, drafting_gain
from specroof.units import format_drafts, plain_number

#: What has one answer at each load; batches and contexts are solved for over loads.
_PER_LOAD: Final = ("accept", "accept-length", "cost")
#: What gains of such requests are.
_PLAYED: Final = "requests are simulated: the speedup is how much sooner the same work is done"
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

    drafter: p.AnyDrafter = None
    solve: Annotated[
        str,
        p.Parameter(
            "What to find: accept, the least acceptance rate; accept-length, with draft_len "
            "drafts, bonus included; cost, the largest cost of drafting, a share of the plain step "
            "for drafters that are given as one and a factor on the drafting time of others; batch "
            "or context, the largest, and all runs of them that pay: that load is left out; rate, "
            "the largest of simulated requests, between the least and the most of "
            "`rate`.",
            about_flag="What to find: accept, the least acceptance rate; accept-length, with "
            "--draft-len drafts; the largest cost of drafting, batch, context or rate.",
            metavar="WORD",
            names=lambda: SOLVED,
        ),
    ] = "accept"
    speedup: Annotated[float, p.Parameter("Speedup that is wanted; 1 breaks even.")] = 1.0
    batch_size: Annotated[Values | None, p.like(p.BatchSize, shown="1,2,4,…,256")] = None
    draft_len: Annotated[
        int | None,
        p.like(
            p.DraftLen,
            in_python="For an acceptance length the drafter's block or 3 if None.",
            shown="the best of 1 to 16",
        ),
    ] = None
    most: Annotated[
        int | None,
        p.Parameter(
            "Largest batch or context to try.",
            in_python="Of larger ones nothing is known: `Row.unknown_from`.",
            shown="4096; 1048576",
        ),
    ] = None

    @property
    def has_clients(self) -> bool:
        """Whether requests of clients are asked about; loads are solved for in a steady state."""
        return self.solve not in AXES and super().has_clients


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

    drafter: str
    solve: str
    wanted_speedup: float
    answer: str
    value: float | None
    draft_len: int | None
    ceiling: float
    speedup: float | None = None
    decision: LoadDecision | None = None
    runs: tuple[tuple[int, int], ...] = ()
    unknown_from: int | None = None
    reason: str | None = None
    largest_stable_rate: float | None = None
    plain_largest_stable_rate: float | None = None
    room_ends: Annotated[bool, q.NO_COLUMN] = False


@dataclass(frozen=True, repr=False, eq=False)
class Breakeven(ServedAnswer, Charted):
    """What it takes for speculation to pay, or to reach a speedup.

    Attributes
    ----------
    about, drafter
        What is served, where and for whom, and what drafts.
    solve, speedup, draft_len
        What was asked for; `draft_len` is None for the best.
    rows
        An answer for each load.
    notes, warnings
        Sentences for the reader.
    """

    drafter: Drafter
    solve: str
    speedup: float
    draft_len: int | None
    rows: tuple[BreakevenRow, ...]

    @property
    def workload(self) -> Workload | None:
        """The requests whose prefills count; None where contexts were asked about."""
        return self.about.load.steady.workload

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        requests = f", {self.workload.requests}" if self.workload else ""
        return f"{self.served}{requests}: {self.drafter.name}"

    def text(self) -> str:
        """Return the answer at each load as a table, with the most that could be reached."""
        if self.solve in _SEVERAL:
            header = [
                "context" if self.solve == "batch" else "batch",
                *(f"largest {self.solve}", "γ", "at most", f"{_SEVERAL[self.solve]} that pay"),
            ]
            cells = []
            for row in self.rows:
                none = "no room" if row.answer == "no room" else "never"
                runs = q.RUNS.spelt(row.runs) or none
                value = _beyond(row) or ("-" if row.value is None else f"{row.value:.0f}")
                if row.answer == "always":
                    runs += _ALL
                elif _beyond(row):
                    runs += f" (from {row.unknown_from} on unknown)"
                most = cell_of(q.DRAFT_LEN, row.draft_len), cell_of(q.CEILING, row.ceiling)
                cells.append([plain_number(row.load), value, *most, runs])
            table = format_table(header, cells, left=[4])
        else:
            words = {"at": ""} | (_OF_RATES if self.solve == "rate" else {})
            shown = [replace(row, answer=words.get(row.answer, row.answer)) for row in self.rows]
            table = rows_table(shown, _SHOWN, answer="", speedup="now", value=self.solve)
        return self.as_page(table, found=[self.found])

    def figures(self) -> dict[str, Any]:
        """Return the chart of the answer against the load: values, or the runs that pay."""
        is_several = self.solve in _SEVERAL
        label = (
            f"{self.solve.capitalize()} that pays"
            if is_several
            else SOLVED[self.solve].capitalize()
        )
        figure = "runs" if is_several else "value"
        chart = q.Lines(
            ("context_len",) if self.solve == "batch" else (*LOAD_KEYS, "context_len"),
            (figure,),
            by=() if is_several else ("context_len",),
            why="answer",
            titles={figure: label},
        )
        return {"": self.rows_chart(chart, self.rows, found=self.found)}

    @property
    def found(self) -> str:
        """What is solved for and its values, in one line."""
        spelt = "{:.0f}" if self.solve in _SEVERAL else "{:.3g}"
        values = sorted(row.value for row in self.rows if row.value is not None)
        ends = [spelt.format(value) for value in values]
        if self.solve in _SEVERAL and ends and all(row.answer == "always" for row in self.rows):
            ends[-1] += _ALL
        ends += filter(None, map(_beyond, self.rows))  # larger than every value
        ends = list(dict.fromkeys(ends[:1] + ends[-1:]))
        nowhere = "nowhere"
        if all(row.reason == "unsustained" for row in self.rows):
            nowhere = "not found where more requests arrive than are answered without drafts"
        return f"{self.sought}: {' to '.join(ends) or nowhere}"

    @property
    def sureness(self) -> str:
        """How near measurements are, in one sentence."""
        return sure_of(self.deployment, [self.drafter.kind], self.rows)

    @property
    def sought(self) -> str:
        """What is solved for, and under which drafts, in a few words."""
        drafts = (
            "the best draft length" if self.draft_len is None else format_drafts(self.draft_len)
        )
        what = SOLVED[self.solve]
        if self.solve == "cost":
            priced = self.drafter.with_cost is None
            what += " (factor on its time)" if priced else " (share of a plain step)"
        pays = "at which drafting pays" if self.speedup == 1.0 else f"for {self.speedup:g}x"
        return f"{what} {pays}, with {drafts}"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        asked = {
            "drafter": self.drafter.name,
            "solve": self.solve,
            "wanted_speedup": self.speedup,
            "draft_len": self.draft_len,
        }
        return self.envelope(self.served_json(self.workload) | asked)


@question(BreakevenRequest, on_chips=OnChips)
def breakeven(request: BreakevenRequest) -> Breakeven:
    """Find the acceptance, cost, batch or context at which speculation starts or stops paying."""
    expect_word("solve", request.solve, SOLVED)
    parameter = request.solve
    (drafter,) = request.drafters_with_acceptance(request.drafter_or_usual(request.drafter))
    case = _case(request)
    wish = _wish(request, drafter, case)
    # Refuses a model or a depth that does not fit, before anything is solved; where acceptance is
    # solved for, any will do.
    known = drafter.acceptance
    if known is None:
        known = (
            constant_acceptance(0.5) if parameter.startswith("accept") else acceptance_of(drafter)
        )
    here = case.at(load=case.load.steady)
    grid = outcomes(here, drafter, acceptance=known, max_draft_len=wish.max_draft_len)
    answer = _at_loads if parameter in _PER_LOAD else _over_loads
    rows, own_notes, warnings = answer(case, drafter, parameter, wish)
    if case.load.requests:
        own_notes.insert(0, _PLAYED)
    elif case.load.workload:
        own_notes.insert(0, steady_note(is_split=case.split is not None))
    return Breakeven(
        case,
        drafter=drafter,
        solve=parameter,
        speedup=wish.speedup,
        draft_len=wish.draft_len,
        rows=tuple(rows),
        notes=(
            *absent_layers(case.deployment.model, [drafter]),
            *grid.curve.notes,
            *own_notes,
        ),
        warnings=tuple(dict.fromkeys([*warnings, *grid.warnings(here)])),
    )


#: Rows, notes and warnings.
_Answers: TypeAlias = tuple[list[BreakevenRow], list[str], list[str]]


def _at_loads(case: Case, drafter: Drafter, parameter: str, wish: Wish) -> _Answers:
    """Return the acceptance or the cost at each load, with notes and warnings."""
    load, rows, notes, warnings = case.load, list[BreakevenRow](), list[str](), list[str]()
    for context, place in product(load.context_len, range(len(load.batch_size))):
        here = case.at(load=replace(load.part(place), context_len=[context]))
        now = outcomes(
            here,
            drafter,
            max_draft_len=wish.max_draft_len,
            acceptance=drafter.acceptance or constant_acceptance(0.5),
            draft_lens=() if wish.draft_len is None else (wish.draft_len,),
        )
        found = solve(here, drafter, parameter, wish, now)
        columns = load_columns(here.load, np.array(here.load.batch_size))
        known: dict[str, Any] = {name: values[0].item() for name, values in columns.items()}
        if drafter.acceptance is not None and found.answer != "no room":
            decision = decided(now)
            gains, drafts = (each[0, 0] for each in drafting_gain(now.curve, wish.draft_len))
            ends = [float(end[0, 0, drafts]) for end in now.speedup_ends or ()]
            tried = wish.draft_len or decision.tried.item()
            plain_rate, rate = now.stable_rates(tried) or (None, None)
            known |= {
                "speedup": float(gains) if np.isfinite(gains) else np.nan,
                "decision": decision.decision.item(),
                "bands": known_bands({"speedup": ends} if ends else {}),
                "plain_largest_stable_rate": plain_rate,
                "largest_stable_rate": rate,
            }
        rows.append(_row(drafter, parameter, wish, found, **known, context_len=float(context)))
        notes = [*now.raised_notes] or notes  # of the largest load that raises a limit
        warnings += now.rate_warnings
    return rows, notes, warnings


def _over_loads(case: Case, drafter: Drafter, parameter: str, wish: Wish) -> _Answers:
    """Return the runs of batches or contexts at each load, or the largest rate, with notes."""
    load = case.load.steady
    if parameter == "rate":
        found = solve(case, drafter, parameter, wish)
        return [_row(drafter, parameter, wish, found, context_len=load.context_len[0])], [], []
    rows, notes = list[BreakevenRow](), list[str]()
    for context, batch in product(load.context_len, load.batch_size):
        part = replace(load, context_len=[context], batch_size=[batch])
        found = solve(case.at(load=part), drafter, parameter, wish)
        given = {"context_len": float(context), "batch_size": float(batch), AXES[parameter]: None}
        rows.append(_row(drafter, parameter, wish, found, **given))
    if parameter == "context":
        notes += position_notes(case.deployment.model, max(row.value or 0.0 for row in rows))
    if any(row.unknown_from is not None for row in rows):
        tried = f"largest {parameter} tried: {wish.most} (most)"
        notes.append(f"{tried}; from {wish.most + 1} on nothing is known")
    if case.room != "ignore":
        notes.append(f"only a {parameter} for which the server has room counts")
    return rows, notes, []


def _case(request: BreakevenRequest) -> Case:
    """Return what is asked about; a load that is solved for has one place among the loads.

    Raises
    ------
    OptionError
        For a load that is solved for, and a limit of what is not.
    """
    given = {"batch": ("batch_size", "concurrency"), "context": ("context_len",)}
    for name in given.get(request.solve, ()):
        if getattr(request, name) is not None:
            refuse(name, getattr(request, name), f"left out with solve {request.solve!r}")
    if request.most is not None and request.solve not in AXES:
        refuse("most", request.most, "with solve 'batch' or 'context'")
    load = asked_load(request, USUAL_BATCHES)
    if request.solve == "rate" and not load.rate:
        refuse("solve", request.solve, "with rate, the least and the most to look between")
    if load.requests and request.solve in AXES:
        refuse("solve", request.solve, ", ".join((*_PER_LOAD, "rate")))
    if request.solve == "context" and load.workload is not None:
        refuse("input_len", request.input_len, "left out with solve 'context'")
    solved: Any = {AXES[request.solve]: [1.0]} if request.solve in AXES else {}
    return asked_case(request, replace(load, **solved))


def _wish(request: BreakevenRequest, drafter: Drafter, case: Case) -> Wish:
    """Return the speedup that is wanted, and of which drafts.

    Raises
    ------
    OptionError
        For a speedup that no acceptance gives, and a drafter that has nothing to solve for.
    """
    drafts, parameter = request.draft_len, request.solve
    if drafts is not None or parameter == "accept-length":
        drafts = usual_drafts(drafter, case.deployment.model, drafts)
    deepest = drafter.max_draft_len or DEFAULT_MAX_DRAFT_LEN
    longest = min(deepest, DEFAULT_MAX_DRAFT_LEN) if drafts is None else drafts
    wanted = number_within("speedup", request.speedup, "wanted_speedup")
    if wanted > longest + 1:
        allowed = f"at most {longest + 1}, the tokens of {longest} drafts and 1"
        refuse("speedup", request.speedup, allowed)
    if drafter.is_ideal and parameter in _PER_LOAD:
        reject(f"drafter is 'ideal', whose {parameter} is given", "another drafter")
    most = 1
    if parameter in AXES:
        most = _MOST[parameter] if request.most is None else request.most
        most = whole_within("most", most, f"most_{parameter}")
    return Wish(max_draft_len=longest, draft_len=drafts, speedup=wanted, most=most)


def _row(
    drafter: Drafter, parameter: str, wish: Wish, found: Solution, **known: Any
) -> BreakevenRow:
    """Return the row of a load, from where the speedup is reached."""
    return BreakevenRow(
        drafter=drafter.name,
        solve=parameter,
        wanted_speedup=wish.speedup,
        **fields_of(found, "answer", "value", "ceiling", "runs", "unknown_from", "room_ends"),
        draft_len=found.draft_len if np.isfinite(found.ceiling) else None,
        **{"reason": found.answer if found.answer == "unsustained" else None} | known,
    )


# --- Break-even points, as a table ---------------------------------------------------------------

_SEVERAL: Final = {"batch": "batches", "context": "contexts"}
#: Answers where rates are solved for, in words.
_OF_RATES: Final = {
    "always": "every rate asked that the server keeps up with without drafts",
    "never": "no rate asked",
}


_SHOWN: Final = (
    *("context_len", "concurrency", "batch_size", "rate", "value", "draft_len", "ceiling"),
    *("speedup", "answer"),
)


#: What is said of loads that all pay: it is memory that ends them.
_ALL: Final = " (all that have room)"


def _beyond(row: BreakevenRow) -> str:
    """Return that all loads up to the largest one tried pay; nothing where that was not found."""
    return f"> {row.runs[-1][1]}" if row.answer == "beyond" and row.runs else ""


COMMAND: Final = Command(
    question=breakeven,
    options=p.FORMULAS,
    chart="Draw the answer against the load.",
    example="specroof breakeven Qwen/Qwen3-8B -H b200 --drafter eagle3 --batch 1,8,32,128 for the\n"
    "least acceptance; with --drafter eagle3,accept=0.7 --solve batch for the largest batch.",
)
