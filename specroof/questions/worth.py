"""Is a better drafter worth training: what does each further accepted token bring?"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.acceptance import acceptance_from_length
from specroof.arrays import Array, fields_of, number_within, real_number
from specroof.catalog import ACCEPTANCE_KEYS
from specroof.drafters import Drafter
from specroof.errors import Urgent, refuse, reject
from specroof.outcomes.case import Case
from specroof.outcomes.outcomes import Outcomes, outcomes
from specroof.outcomes.rows import LOAD_KEYS, LoadRow, load_fields
from specroof.outcomes.solve import LEAST_SHARE, Wish, largest_load, solve
from specroof.questions import parameters as p
from specroof.questions.answer import OfDrafter, OnChips, decision_line, rows_table
from specroof.questions.capacity import measured_drafts
from specroof.questions.case import asked_case, asked_load, in_flight_of
from specroof.questions.objects import Values, absent_layers, as_list, money_of
from specroof.questions.request import Command, LoadsRequest, question
from specroof.reading.words import numbers
from specroof.report.layout import wrapped
from specroof.serving.played import played_server
from specroof.serving.workload import refuse_one_token
from specroof.speedup.price import Money
from specroof.units import format_drafts, format_seconds, plain_number

#: The share of the best speedup that is enough.
_ENOUGH: Final = 0.99
#: Default acceptance lengths, and the most users to try.
USUAL_LENGTHS: Final = tuple(range(3, 10))
_MOST_USERS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class WorthRequest(LoadsRequest):
    """Ask what better drafters would bring.

    Examples
    --------
    >>> from specroof import worth
    >>> found = worth("Qwen/Qwen3-8B", "b200", drafter="block,cost=0.1,drafts=15", engine="ideal")
    >>> [row.accept_length for row in found.rows]
    [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    """

    drafter: p.AnyDrafter = None
    accept_length: Annotated[
        Values | None,
        p.Parameter(
            "Acceptance lengths to compare, bonus included, a number or a list.",
            about_flag="Acceptance lengths to compare, bonus included, comma-separated.",
            read=numbers,
            shown="3 to 9",
        ),
    ] = None
    draft_len: Annotated[int | None, p.like(p.MeasuredDraftLen, former="--draft-len")] = None
    context_len: p.ContextLen = None
    tpot_s: Annotated[
        float | None, p.like(p.TpotS, shown="that of plain decoding, p99 where simulated")
    ] = None
    price_per_hour: p.PricePerHour = None


@dataclass(frozen=True, kw_only=True)
class WorthRow(LoadRow):
    """What one acceptance length brings at one load.

    `users` are the most that wait no longer per token than `tpot_limit_s`; `largest_rate` is None
    but for requests at a rate.
    """

    accept_length: float
    enough_drafts: int
    gain_per_token: float | None
    users: int
    tpot_limit_s: float
    largest_rate: float | None = None


#: The columns of the table.
_SHOWN: Final = (
    *("rate", "concurrency", "batch_size", "accept_length", "speedup", "decision"),
    *("gain_per_token", "draft_len", "enough_drafts", q.TOKENS_PER_S.name, q.PRICE.name),
    *("users", "largest_rate"),
)


@dataclass(frozen=True, repr=False, eq=False)
class Worth(OfDrafter):
    """What better drafters would bring.

    Attributes
    ----------
    about, drafter
        What is served, where and for whom, and the name of what drafts.
    draft_len
        The drafts that lengths are measured with.
    rows
        By batch size and acceptance length.
    notes, warnings
        Sentences for the reader.
    """

    draft_len: int
    rows: tuple[WorthRow, ...]

    banded = _SHOWN
    chart = q.Lines(
        ("accept_length",),
        ("speedup", "users"),
        by=LOAD_KEYS,
        noted="draft_len",
        titles={"speedup": "Best speedup (×)", "users": "Users within the TPOT limit"},
    )

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return f"{self.served}, {loads_words(self)}: {self.drafter}"

    def text(self) -> str:
        """Return the decision, a row for each acceptance length, and how sure they are."""
        meaning = "gain per token: speedup for each further one; enough: drafts beyond these bring less than 1%"
        limits = {of_load(row, self.rows): format_seconds(row.tpot_limit_s) for row in self.rows}
        waits = ", ".join(f"{wait}{load}" for load, wait in limits.items())
        drafts = format_drafts(self.draft_len)
        users = f"tokens/round: as measured with {drafts}; users: the most that get a token within {waits}"
        if self.rows[0].rate:
            users += "; most req/s: the largest rate of which p99 waits no longer"
        lines = [
            decision_line(rows, [f"{row.accept_length:.4g}" for row in rows], " tokens/round")
            + of_load(rows[0], self.rows)
            for rows in self.by_load.values()
        ]
        table = rows_table(self.rows, columns_beside_loads(_SHOWN, self.rows))
        return self.as_page(table, wrapped(users), found=lines, more=[meaning])

    @property
    def by_load(self) -> dict[float, list[WorthRow]]:
        """The rows of each load."""
        return {load: [*rows] for load, rows in groupby(self.rows, lambda row: row.load)}

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return self.envelope(self.case | fields_of(self, "drafter", "draft_len"))


@question(WorthRequest, on_chips=OnChips)
def worth(request: WorthRequest) -> Worth:
    """Show the speedup, price and users of better drafters, by acceptance length."""
    case = one_context(request)
    (drafter,) = request.sampled_drafters(request.drafter_or_usual(request.drafter))
    if drafter.is_ideal:
        reject("drafter is 'ideal', which nothing improves", "another drafter")
    deployment = case.deployment
    drafts = measured_drafts(drafter, deployment.model, request.draft_len)
    # The lengths take the place of the acceptance that a SPEC states.
    parts = drafter.name.split(",")
    kept = [part for part in parts if part.partition("=")[0] not in ACCEPTANCE_KEYS]
    drafter = replace(drafter, name=",".join(kept))
    usual = [one for one in USUAL_LENGTHS if one <= drafts + 1]
    lengths = lengths_within(request, usual, drafts)
    wanted_s = request.tpot_s
    if wanted_s is not None:
        wanted_s = number_within("tpot_s", wanted_s, "tpot_s")
    money = money_of(deployment.setup, case.split, request.price_per_hour)
    notes, rows, warnings = length_notes(request), list[WorthRow](), list[str]()
    notes += absent_layers(deployment.model, [drafter])
    if money.usd_per_hour is None:
        name = deployment.setup.hardware.name
        notes.insert(0, f"price of {name} unknown: --price-per-hour USD")
    better = with_lengths(drafter, lengths, drafts)
    for here, seen in at_lengths(case, better.values(), drafts):
        notes += [*seen[0].curve.notes, *seen[0].state_notes, *seen[0].raised_notes]
        warnings += seen[0].warnings(here)
        rows += _rows(here, better, seen, wanted_s, money)
    return Worth(
        case,
        drafter=drafter.name,
        draft_len=drafts,
        rows=tuple(rows),
        notes=tuple(dict.fromkeys(notes)),
        warnings=tuple(dict.fromkeys(warnings)),
    )


# --- Drafters of several acceptance lengths, at the loads of a question --------------------------


def loads_words(answer: OfDrafter) -> str:
    """Return what loads an answer is about, in a few words."""
    loads = ", ".join(map(plain_number, dict.fromkeys(row.load for row in answer.rows)))
    first = answer.rows[0]
    words = {
        "rate": f"{loads} requests/s",
        "concurrency": f"{loads} in flight",
        "batch_size": f"batch {loads}",
        "requests": f"{first.requests} requests at once",
    }
    told = next(text for key, text in words.items() if getattr(first, key) is not None)
    return f"{told}, {answer.asked_words}"


def one_context(request: LoadsRequest) -> Case:
    """Return what is asked about: loads, one at least, at one context.

    Raises
    ------
    SpecroofError
        For no load, several contexts, answers of one token, and as `asked_case` does.
    """
    batches = in_flight_of(request, 1.0)
    if not as_list(batches):
        refuse("batch_size", batches, "at least one batch size")
    load = asked_load(request, 1.0)
    refuse_one_token(load.workload)
    if len(load.context_len) != 1:
        refuse("context_len", request.context_len, "one number")
    return asked_case(request, load)


def length_notes(request: p.SamplingParameters) -> list[str]:
    """Return what to know of lengths that no temperature or rule moves."""
    if request.temperature is None and request.rule is None:
        return []
    note = "acceptance lengths are taken as they are: temperature and rule move none of them"
    return [Urgent(note)]


def lengths_within(request: Any, usual: Sequence[float], drafts: int) -> list[float]:
    """Return the acceptance lengths that are compared, ascending; the usual ones if none is asked.

    Raises
    ------
    OptionError
        For none, and for lengths that so many drafts cannot give.
    """
    given = usual if request.accept_length is None else as_list(request.accept_length)
    for one in given:
        if not 1 <= real_number(one) <= drafts + 1:
            refuse("accept_length", one, f"numbers from 1 to {drafts + 1}")
    if not given:
        reject(f"accept_length has none up to {drafts + 1}", f"lengths of {drafts} drafts")
    return sorted({real_number(one) for one in given})


def with_lengths(
    drafter: Drafter, lengths: Iterable[float], draft_len: int
) -> dict[float, Drafter]:
    """Return a drafter with each acceptance length, bonus included.

    Parameters
    ----------
    drafter, lengths, draft_len
        What drafts, tokens per round, and the drafts that these were measured with.
    """
    return {
        length: drafter.accepted(acceptance_from_length(length, draft_len, kind=drafter.kind))
        for length in lengths
    }


def at_lengths(
    case: Case, drafters: Iterable[Drafter], draft_len: int
) -> Iterator[tuple[Case, list[Outcomes]]]:
    """Yield each load, and what becomes of a drafter with each acceptance length there.

    Parameters
    ----------
    case, drafters, draft_len
        What is asked about, and of `with_lengths`; no longer draft is tried.

    Raises
    ------
    OptionError
        For a load that the server has no memory for, even without drafts.
    """
    better = [*drafters]
    for place in range(len(case.load.batch_size)):
        here = case.at(load=case.load.part(place))
        seen = [outcomes(here, each, max_draft_len=draft_len) for each in better]
        seen[0].refuse_full(here)
        yield here, seen


def _rows(
    case: Case,
    better: Mapping[float, Drafter],
    seen: Sequence[Outcomes],
    tpot_s: float | None,
    money: Money,
) -> Iterator[WorthRow]:
    """Yield a row for each acceptance length."""
    load, first, max_draft_len = case.load, seen[0], int(seen[0].curve.draft_len[-1])
    waits_s = first.tpot_s if first.played is None else first.played.figures["p99_tpot_s"]
    plain_s = float(np.ravel(waits_s[..., 0])[0])
    tpot_s = tpot_s or plain_s
    targets = math.inf, tpot_s
    most = _most_users(case, next(iter(better.values())), max_draft_len)
    before: tuple[float, float] | None = None
    largest: tuple[float, int] | None = None
    for (length, drafter), one in zip(better.items(), seen, strict=True):
        if load.rate:
            server = played_server(case.deployment, drafter, load, case.room, max_draft_len)
            # More tokens a round take no smaller rate, but for the dice.
            start = LEAST_SHARE * server.answers(0) if largest is None else largest[0]
            rates = [start, float(np.nanmax(server.stable_rate))]
            largest = largest_load(server, replace(load, rate=rates), server.choices, targets)
        (fields,) = load_fields(one, load, money)
        deciding, reached = one.deciding[0][0, 0], fields["speedup"]
        yield WorthRow(
            **fields,
            accept_length=length,
            enough_drafts=int(np.argmax(deciding >= _ENOUGH * deciding[fields["draft_len"]])),
            gain_per_token=before and (reached - before[1]) / (length - before[0]),
            users=_users(case, drafter, one, most, tpot_s),
            tpot_limit_s=tpot_s,
            largest_rate=None if largest is None else largest[0],
        )
        before = length, reached


def _most_users(case: Case, drafter: Drafter, max_draft_len: int) -> Array:
    """Return the most users to try, by draft length: who waits for room is none."""
    load, most = case.load, np.full(max_draft_len + 1, float(_MOST_USERS))
    if not load.requests and case.split is None:  # a batch is given up where it has no room
        return most
    crowd = case.at(load=replace(load.steady, batch_size=[_MOST_USERS]))
    held = outcomes(crowd, drafter, max_draft_len=max_draft_len).largest
    workers = 1 if case.split is None else case.split.decode_workers
    return most if held is None else np.clip(workers * held[0, 0], 1, _MOST_USERS)


def _users(case: Case, drafter: Drafter, one: Outcomes, most: Array, tpot_s: float) -> int:
    """Return the most users that get a token in time: of clients by the p99 of those simulated."""
    load, max_draft_len = case.load, len(most) - 1
    if one.played is not None and load.kind == "concurrency":
        many = replace(load, batch_size=[_MOST_USERS], requests=[_MOST_USERS])
        server = played_server(case.deployment, drafter, many, case.room, max_draft_len)
        # After the best length others are looked at once, unless they are better.
        gains = np.nan_to_num(one.curve.speedup[0, 0], nan=-np.inf)
        choices = sorted([0, *server.choices], key=lambda drafts: -gains[drafts])
        found = largest_load(server, load, choices, (math.inf, tpot_s), most)
        return 0 if found is None else math.floor(found[0])
    wish = Wish(max_draft_len=max_draft_len, tpot_s=tpot_s, most=int(most.min()))
    runs = solve(case, drafter, "batch", wish).runs
    return runs[-1][1] if runs else 0


# --- The gains of better drafters, as a table ----------------------------------------------------


def of_load(row: LoadRow, rows: Sequence[LoadRow]) -> str:
    """Return the load of a row in brackets, for what is said of it; nothing if rows have no other.

    Examples
    --------
    >>> from specroof import worth
    >>> first, *others = worth("Qwen/Qwen3-8B", "h100", batch_size=[1, 8], accept_length=3).rows
    >>> of_load(first, others), of_load(first, [first])
    (' (batch 1)', '')
    """
    if {one.load for one in rows} == {row.load}:
        return ""
    key = next(key for key in LOAD_KEYS if getattr(row, key) is not None)
    return f" ({q.labelled(key, row.load)})"


def columns_beside_loads(names: Sequence[str], rows: Sequence[LoadRow]) -> list[str]:
    """Return the columns that a table has: those of loads only where there are several."""
    several = len({row.load for row in rows}) > 1
    return [name for name in names if several or name not in LOAD_KEYS]


COMMAND: Final = Command(
    question=worth,
    options=p.FORMULAS,
    chart="Draw speedup and users against the length.",
    example="specroof worth Qwen/Qwen3-32B -H h100 --tp 2 --drafter block,cost=0.1,block=16\n"
    "--batch 32",
)
