"""Is a better drafter worth training: what does each further accepted token bring?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Final

import numpy as np

from specroof.acceptance import acceptance_from_length
from specroof.arrays import fields_of, number_within, real_number
from specroof.drafters import Drafter
from specroof.errors import OptionError, refuse, reject
from specroof.hardware import Placement
from specroof.latency import Deployment
from specroof.outcomes.choose import choose
from specroof.outcomes.outcomes import Outcomes, outcomes
from specroof.policies.decision import LoadDecision
from specroof.questions.answer import Charted
from specroof.questions.capacity import usual_drafts
from specroof.questions.played_loads import beyond_warnings, played_load, told
from specroof.questions.request import (
    BATCH,
    DRAFTER,
    FORMULAS,
    TPOT,
    Command,
    ContextLen,
    DrafterLike,
    MemoryLimits,
    Parameter,
    PlayedRequest,
    PricePerHour,
    Values,
    as_list,
    drafter_of,
    load_of,
    numbers,
    question,
    refuse_one_token,
    usd_per_hour,
)
from specroof.report.layout import figure, format_table, page
from specroof.serving.capacity import RoomRule
from specroof.serving.played import largest_rate, played_server
from specroof.serving.served import raised_notes, room_rule, served_curve
from specroof.serving.workload import Load, Workload, workload_json
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, grid_slices
from specroof.speedup.price import usd_per_million_tokens
from specroof.units import format_drafts, format_price, format_seconds

#: Default acceptance lengths, and the most users to try.
USUAL_LENGTHS: Final = tuple(range(3, 10))
_MOST_USERS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class WorthRequest(PlayedRequest):
    """Ask what better drafters would bring.

    Examples
    --------
    >>> from specroof import worth
    >>> found = worth("Qwen/Qwen3-8B", "b200", drafter="block,cost=0.1,drafts=15", engine="ideal")
    >>> [row.accept_length for row in found.rows]
    [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    """

    drafter: Annotated[
        DrafterLike,
        replace(DRAFTER, about="KIND[,key=value…], as in predict; needs no acceptance."),
    ]
    accept_length: Annotated[
        Values | None,
        Parameter(
            "Acceptance lengths to compare, bonus included, a number or a list.",
            about_flag="Acceptance lengths to compare, bonus included, comma-separated.",
            read=numbers,
            shown="3 to 9",
        ),
    ] = None
    draft_len: Annotated[
        int | None,
        Parameter(
            "Drafts that acceptance lengths are measured with.",
            "--measured-draft-len",
            shown="all that the drafter makes, up to 16",
            former="--draft-len",
        ),
    ] = None
    batch_size: Annotated[Values | None, replace(BATCH, shown="1")] = None
    context_len: ContextLen = None
    tpot_s: Annotated[float | None, replace(TPOT, shown="the time of plain decoding")] = None
    price_per_hour: PricePerHour = None
    capacity: MemoryLimits = None


@dataclass(frozen=True, slots=True)
class WorthRow:
    """What one acceptance length brings.

    Parameters
    ----------
    accept_length
        Tokens per round, bonus included, at the draft length that it is measured with.
    best_draft_len, enough_drafts
        The best draft length, and the shortest within 1% of it: longer ones hardly help.
    speedup
        At the best draft length, against plain decoding; None where there is a `reason`.
    gain_per_token
        Speedup for each token of acceptance since the row before; None for the first.
    tokens_per_s, usd_per_million_tokens
        Of the whole server; the price is None where unknown.
    users
        The most that wait no longer per token than they may.
    batch_size, tpot_s
        The load, and the seconds per token that users may wait there. Of requests that come by
        themselves, those that run on average without drafts.
    decision
        On, off or unclear, as `specroof.outcomes.choose` has it.
    rate, largest_rate
        Of requests at a rate that are played through: those that arrive in a second, and the most
        of which 99% wait no longer per token than they may. None of other loads.
    reason
        Why there is no speedup: ``unsustained`` where requests arrive faster than the server
        answers them without drafts. Empty where there is one.
    largest_stable_rate, plain_largest_stable_rate
        Requests per second that the server answers at most with these drafts, and without; None
        where none arrive.
    """

    accept_length: float
    best_draft_len: int
    enough_drafts: int
    speedup: float | None
    gain_per_token: float | None
    tokens_per_s: float
    usd_per_million_tokens: float | None
    users: int
    batch_size: float = math.nan
    tpot_s: float = math.nan
    decision: LoadDecision = "off"
    rate: float | None = None
    largest_rate: float | None = None
    reason: str = ""
    largest_stable_rate: float | None = None
    plain_largest_stable_rate: float | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Worth(Charted):
    """What better drafters would bring.

    Attributes
    ----------
    model, hardware, engine, drafter
        Names.
    placement
        The devices.
    batch_size, context_len, workload
        The load; `workload` is None unless requests were asked about. Of several batch sizes, a
        tuple.
    draft_len, tpot_s
        The drafts that lengths are measured with, and what users may wait: of several batch
        sizes, a tuple.
    rows
        By batch size and acceptance length.
    notes, warnings
        Sentences for the reader.
    """

    model: str
    hardware: str
    engine: str
    placement: Placement
    drafter: str
    batch_size: float | tuple[float, ...]
    context_len: float
    workload: Workload | None
    draft_len: int
    tpot_s: float | tuple[float, ...]
    rows: tuple[WorthRow, ...]

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        load = self.workload.requests if self.workload else f"context {self.context_len:g}"
        batches = ", ".join(f"{key:g}" for key in self.by_load)
        batches = f"{batches} requests/s" if self.rows[0].rate else f"batch {batches}"
        return (
            f"{self.model} on {self.placement.devices} x {self.hardware}, engine {self.engine}, "
            f"{batches}, {load}: {self.drafter}"
        )

    def text(self) -> str:
        """Return a row for each acceptance length, and what the columns mean."""
        return worth_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of speedups and users."""
        return {"": worth_chart(self)}

    @property
    def by_load(self) -> dict[float, list[WorthRow]]:
        """The rows of each batch size, or of each rate."""
        parts: dict[float, list[WorthRow]] = {}
        for row in self.rows:
            parts.setdefault(row.rate or row.batch_size, []).append(row)
        return parts

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each batch size and acceptance length."""
        return [asdict(row) for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return {
            **fields_of(self, "model", "hardware", "engine"),
            "placement": asdict(self.placement),
            **fields_of(self, "drafter", "batch_size", "context_len", "draft_len", "tpot_s"),
            **workload_json(self.workload),
            "rows": self.records,
            **self.messages,
        }


def _length(given: object, drafts: int) -> float:
    length = real_number(given)
    if not 1 <= length <= drafts + 1:
        refuse("accept_length", given, f"numbers from 1 to {drafts + 1}")
    return length


@question(WorthRequest)
def worth(request: WorthRequest) -> Worth:
    """Show the speedup, price and users of better drafters, by acceptance length."""
    batches = 1.0 if request.batch_size is None else request.batch_size
    if not as_list(batches):
        refuse("batch_size", request.batch_size, "at least one batch size")
    load = load_of(request, batches, request.context_len)
    if request.is_played:
        load = played_load(request, load)
    refuse_one_token(load.workload)
    if len(load.context_len) != 1:
        refuse("context_len", request.context_len, "one number")
    answers = [_at_load(request, load.part(place)) for place in range(len(load.batch_size))]
    first = answers[0]
    rows = tuple(row for answer in answers for row in answer.rows)
    if len(answers) == 1:
        return first
    loads = [answer.rows[0] for answer in answers]
    return replace(
        first,
        batch_size=tuple(row.batch_size for row in loads),
        tpot_s=tuple(row.tpot_s for row in loads),
        rows=rows,
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
        warnings=tuple(dict.fromkeys(text for answer in answers for text in answer.warnings)),
    )


def _at_load(request: WorthRequest, load: Load) -> Worth:
    """Return what better drafters would bring at one load."""
    drafter = drafter_of(request.drafter)
    if drafter.is_ideal:
        message = "drafter is 'ideal', which nothing improves; allowed: another drafter"
        raise OptionError(message)
    deployment = request.resolved()
    drafts = min(drafter.max_draft_len or DEFAULT_MAX_DRAFT_LEN, DEFAULT_MAX_DRAFT_LEN)
    if request.draft_len is not None:
        drafts = usual_drafts(drafter, deployment.model, request.draft_len)
    room = room_rule(
        deployment.setup, request.capacity, "drop" if load.workload is None else "queue"
    )
    if request.accept_length is None:
        lengths = [float(one) for one in USUAL_LENGTHS if one <= drafts + 1]
    else:
        lengths = sorted({_length(one, drafts) for one in as_list(request.accept_length)})
    if not lengths:
        message = f"accept_length has none up to {drafts + 1}; allowed: lengths of {drafts} drafts"
        raise OptionError(message)
    better = [
        replace(drafter, acceptance=acceptance_from_length(length, drafts, kind=drafter.kind))
        for length in lengths
    ]
    wanted_s = None
    if request.tpot_s is not None:
        wanted_s = number_within("tpot_s", request.tpot_s, "tpot_s")
    usd = usd_per_hour(deployment.setup.hardware, request.price_per_hour)
    case = _Question(deployment, load, room, drafts, wanted_s, usd)
    seen = [outcomes(deployment, each, load, room, max_draft_len=drafts) for each in better]
    served, curve = seen[0], seen[0].curve
    if not np.isfinite(curve.speedup[..., 0]).all():
        place = f"{curve.placement.devices} x {curve.hardware}"
        if load.requests:
            reject(f"{curve.model} leaves no room for a request on {place}", "more devices")
        refuse(
            "batch_size",
            load.batch_size[0],
            f"batches that {place} have memory for, or --no-capacity",
        )
    rows = _rows(case, better, seen)
    pairs = list(zip(lengths, rows, strict=True))
    further = [
        replace(
            after,
            gain_per_token=None
            if before.speedup is None or after.speedup is None
            else (after.speedup - before.speedup) / (length - shorter),
        )
        for (shorter, before), (length, after) in pairwise(pairs)
    ]
    rows = [
        replace(row, accept_length=length)
        for length, row in zip(lengths, [rows[0], *further], strict=True)
    ]
    notes = list(curve.notes)
    if usd is None:
        name = deployment.setup.hardware.name
        notes.insert(0, f"price of {name} unknown: --price-per-hour USD")
    notes += [] if served.played else served.state_notes
    notes += raised_notes(served, curve.batch_size.tolist())
    return Worth(
        **fields_of(curve, "model", "hardware", "engine", "placement"),
        drafter=drafter.name,
        batch_size=rows[0].batch_size,
        context_len=float(curve.context_len[0]),
        workload=load.steady.workload,
        draft_len=drafts,
        tpot_s=rows[0].tpot_s,
        rows=tuple(rows),
        notes=tuple(notes),
        warnings=() if served.played is None else tuple(beyond_warnings([served.played])),
    )


@dataclass(frozen=True, slots=True)
class _Question:
    """What is served where, one load, drafts at most, the target, and the price of a device."""

    deployment: Deployment
    load: Load
    room: RoomRule
    max_draft_len: int
    tpot_s: float | None
    usd: float | None

    def row(self, one: Outcomes, **more: Any) -> WorthRow:
        """Return the row of a drafter."""
        ((choice, decision),), tokens_per_s = choose(one), one.tokens_per_s[0, 0]
        best, deciding = choice.draft_len, one.deciding[0][0, 0]
        off, on = one.stable_rates(choice.tried) or (None, None)
        rate, price = float(tokens_per_s[best]), None
        if self.usd is not None:
            devices = self.deployment.setup.placement.devices
            price = float(usd_per_million_tokens(rate, devices=devices, usd_per_hour=self.usd))
        return WorthRow(
            accept_length=math.nan,
            best_draft_len=best,
            enough_drafts=int(np.argmax(deciding >= 0.99 * deciding[best])),
            speedup=None if choice.reason else float(deciding[best]),
            decision=decision,
            reason=choice.reason,
            largest_stable_rate=on,
            plain_largest_stable_rate=off,
            gain_per_token=None,
            tokens_per_s=rate,
            usd_per_million_tokens=price,
            **more,
        )


#: Shares of the largest stable rate between which that within a target is looked for.
_LEAST_SHARE: Final = 0.01


def _rows(case: _Question, better: Sequence[Drafter], seen: Sequence[Outcomes]) -> list[WorthRow]:
    """Return a row for each drafter, without its acceptance."""
    load, first = case.load, seen[0]
    tpot_s = case.tpot_s
    if tpot_s is None:
        waits_s = first.tpot_s if first.played is None else first.played.figures["p99_tpot_s"]
        tpot_s = float(np.ravel(waits_s[..., 0])[0])
    rows = []
    for each, one in zip(better, seen, strict=True):
        largest = None
        if load.rate:
            server = played_server(
                case.deployment, each, load, case.room, max_draft_len=case.max_draft_len
            )
            ends = [_LEAST_SHARE * server.answers(0), float(np.nanmax(server.stable_rate))]
            between = replace(load, rate=ends)
            largest = largest_rate(server, between, server.choices, (math.inf, tpot_s))
        rows.append(
            case.row(
                one,
                users=_users(case, each, tpot_s),
                batch_size=float(one.curve.batch_size[0]),
                tpot_s=tpot_s,
                rate=load.rate[0] if load.rate else None,
                largest_rate=None if largest is None else largest[0],
            )
        )
    return rows


def _users(case: _Question, drafter: Drafter, tpot_s: float) -> int:
    """Return the largest batch whose users wait at most so long per token; 0 if there is none."""
    load, most = case.load.steady, case.max_draft_len
    batches = np.arange(1.0, _MOST_USERS + 1)
    # Who waits for room is not served fast.
    room: RoomRule = "ignore" if case.room == "ignore" else "drop"
    for _, columns in reversed(list(grid_slices((1, _MOST_USERS, most + 1)))):
        part = replace(load, batch_size=batches[columns].tolist())
        served = served_curve(case.deployment, drafter, part, room, max_draft_len=most)
        fast = served.tpot_s[0] <= tpot_s * (1 + 1e-12)
        enough = np.flatnonzero(fast.any(axis=-1))
        if enough.size:
            return int(served.curve.batch_size[enough[-1]])
    return 0


# --- The gains of better drafters, as a table ----------------------------------------------------

_COLUMNS: Final[dict[str, Callable[[WorthRow], str]]] = {
    "tokens/round": lambda row: f"{row.accept_length:g}",
    "speedup": lambda row: row.reason or f"{row.speedup:.2f}x",
    "decision": lambda row: row.decision,
    "per token": lambda row: "" if row.gain_per_token is None else f"{row.gain_per_token:+.2f}x",
    "best γ": lambda row: str(row.best_draft_len),
    "enough": lambda row: str(row.enough_drafts),
    "tok/s": lambda row: f"{row.tokens_per_s:.0f}",
    "$/Mtok": lambda row: figure(row.usd_per_million_tokens, format_price),
    "users": lambda row: str(row.users),
}


def worth_text(answer: Worth) -> str:
    """Return a row for each acceptance length, and what the columns mean."""
    by_load = answer.by_load
    columns = dict(_COLUMNS)
    if answer.rows[0].rate:
        columns = {"req/s in": lambda row: f"{row.rate:g}", **_COLUMNS}
        columns["most req/s"] = lambda row: figure(row.largest_rate, "{:.3g}".format)
    elif len(by_load) > 1:
        columns = {"batch": lambda row: f"{row.batch_size:g}", **_COLUMNS}
    rows = [[cell(row) for cell in columns.values()] for row in answer.rows]
    targets = dict.fromkeys(rows[0].tpot_s for rows in by_load.values())
    waits = ", ".join(map(format_seconds, targets))
    meaning = (
        f"tokens/round as measured with {format_drafts(answer.draft_len)}; per token: speedup for each "
        f"further one;\nenough: drafts beyond these bring less than 1%; users: at most "
        f"{waits} per token"
    )
    if answer.rows[0].rate:
        meaning += "; most req/s: the largest rate of which p99 waits no longer"
    return page(answer, format_table([*columns], rows, left=[]), meaning)


# --- The chart ------------------------------------------------------------------------------------


def worth_chart(answer: Worth) -> Any:
    """Draw speedup above the users that are served fast enough, both against acceptance length."""
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        chart = style.new_chart(answer.title, width=8, height=5.4)
        upper, lower = chart.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        keys = [style.plain_line(upper)]
        by_load = answer.by_load
        unit = "requests/s" if answer.rows[0].rate else "batch"
        for i, (load, rows) in enumerate(by_load.items()):
            lengths = [row.accept_length for row in rows]
            known = [row for row in rows if row.speedup is not None]
            upper.plot(
                [row.accept_length for row in known],
                [row.speedup for row in known],
                **style.look(i),
            )
            for row in known:
                upper.annotate(
                    f"γ {row.best_draft_len}",
                    (row.accept_length, row.speedup or 0.0),
                    xytext=(0, 7),
                    textcoords="offset points",
                    ha="center",
                )
            own = style.look(i) if len(by_load) > 1 else style.look(1)
            lower.plot(lengths, [row.users for row in rows], **own)
            if len(by_load) > 1:
                keys.append(style.line_key(f"{unit} {load:g}", **own))
        upper.margins(y=0.2)
        upper.set_ylabel("Best speedup (×)")
        lower.set_ylim(0, 1.1 * max(1, *(row.users for row in answer.rows)))
        lower.set_ylabel("Users served fast enough")
        lower.set_xlabel(
            f"Acceptance length with {answer.draft_len} drafts (tokens, bonus included)"
        )
        style.add_legend(chart, keys)
        return chart


COMMAND: Final = Command(
    question=worth,
    options=FORMULAS,
    each_chip=True,
    told=told,
    chart="Draw speedup and users against the length.",
    example="specroof worth Qwen/Qwen3-32B -H h100 --tp 2 --drafter block,cost=0.1,block=16\n"
    "--batch 32",
)
