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
from specroof.errors import OptionError, refuse
from specroof.hardware import Placement
from specroof.latency import Deployment
from specroof.questions.answer import Charted
from specroof.questions.capacity import usual_drafts
from specroof.questions.request import (
    BATCH,
    DRAFTER,
    FORMULAS,
    TPOT,
    Command,
    ContextLen,
    DrafterLike,
    LoadRequest,
    MemoryLimits,
    Parameter,
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
from specroof.serving.served import room_rule, room_warnings, served_curve
from specroof.serving.workload import Load, Workload, workload_json
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, grid_slices
from specroof.speedup.price import usd_per_million_tokens
from specroof.speedup.result import SpeedupCurve
from specroof.units import format_drafts, format_price, format_seconds

#: Default acceptance lengths, and the most users to try.
USUAL_LENGTHS: Final = tuple(range(3, 10))
_MOST_USERS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class WorthRequest(LoadRequest):
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
        At the best draft length, against plain decoding.
    gain_per_token
        Speedup for each token of acceptance since the row before; None for the first.
    tokens_per_s, usd_per_million_tokens
        Of the whole server; the price is None where unknown.
    users
        The most that wait no longer per token than they may.
    batch_size, tpot_s
        The load, and the seconds per token that users may wait there.
    """

    accept_length: float
    best_draft_len: int
    enough_drafts: int
    speedup: float
    gain_per_token: float | None
    tokens_per_s: float
    usd_per_million_tokens: float | None
    users: int
    batch_size: float = math.nan
    tpot_s: float = math.nan


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
        batches = ", ".join(f"{batch:g}" for batch in as_list(self.batch_size))
        return (
            f"{self.model} on {self.placement.devices} x {self.hardware}, engine {self.engine}, "
            f"batch {batches}, {load}: {self.drafter}"
        )

    def text(self) -> str:
        """Return a row for each acceptance length, and what the columns mean."""
        return worth_text(self)

    def figures(self) -> dict[str, Any]:
        """Return the chart of speedups and users."""
        return {"": worth_chart(self)}

    @property
    def by_batch(self) -> dict[float, list[WorthRow]]:
        """The rows of each batch size."""
        parts: dict[float, list[WorthRow]] = {}
        for row in self.rows:
            parts.setdefault(row.batch_size, []).append(row)
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
    batches = as_list(1.0 if request.batch_size is None else request.batch_size)
    if not batches:
        refuse("batch_size", request.batch_size, "at least one batch size")
    answers = [_at_load(replace(request, batch_size=batch)) for batch in batches]
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
    )


def _at_load(request: WorthRequest) -> Worth:
    """Return what better drafters would bring at one batch size."""
    drafter = drafter_of(request.drafter)
    if drafter.is_ideal:
        message = "drafter is 'ideal', which nothing improves; allowed: another drafter"
        raise OptionError(message)
    deployment, load, drafts = _case(request, drafter)
    room = room_rule(deployment.setup, request.capacity)
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
    served = [
        served_curve(deployment, each, load, "ignore", max_draft_len=drafts) for each in better
    ]
    curves = [each.curve for each in served]
    first, tpot_s = curves[0], float(served[0].tpot_s[0, 0, 0])
    if request.tpot_s is not None:
        tpot_s = number_within("tpot_s", request.tpot_s, "tpot_s")
    users = [_users(deployment, each, load, room, drafts, tpot_s) for each in better]
    usd = usd_per_hour(deployment.setup.hardware, request.price_per_hour)
    batch = float(first.batch_size[0])
    rows = _rows(lengths, curves, users, usd)
    notes = list(first.notes)
    if usd is None:
        name = deployment.setup.hardware.name
        notes.insert(0, f"price of {name} unknown: --price-per-hour USD")
    if room != "ignore":
        notes += room_warnings(deployment, drafter, first)
    return Worth(
        **fields_of(first, "model", "hardware", "engine", "placement"),
        drafter=drafter.name,
        batch_size=batch,
        context_len=float(first.context_len[0]),
        workload=request.workload,
        draft_len=drafts,
        tpot_s=tpot_s,
        rows=tuple(replace(row, batch_size=batch, tpot_s=tpot_s) for row in rows),
        notes=tuple(notes),
    )


def _case(request: WorthRequest, drafter: Drafter) -> tuple[Deployment, Load, int]:
    """Return what is served where, the load, and the drafts that lengths are measured with."""
    deployment = request.resolved()
    drafts = min(drafter.max_draft_len or DEFAULT_MAX_DRAFT_LEN, DEFAULT_MAX_DRAFT_LEN)
    if request.draft_len is not None:
        drafts = usual_drafts(drafter, deployment.model, request.draft_len)
    batches = 1.0 if request.batch_size is None else request.batch_size
    load = load_of(request, batches, request.context_len)
    refuse_one_token(load.workload)
    if len(load.context_len) != 1:
        refuse("context_len", request.context_len, "one number")
    return deployment, load, drafts


def _rows(
    lengths: Sequence[float],
    curves: Sequence[SpeedupCurve],
    users: Sequence[int],
    usd: float | None,
) -> tuple[WorthRow, ...]:
    """Return a row for each length, with the gain per token since the length before."""
    gains = [float(curve.best_speedup[0, 0]) for curve in curves]
    ends = list(zip(lengths, gains, strict=True))
    further: list[float | None] = [None]
    further += [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(ends)]
    rows = []
    for length, curve, gain, more, most in zip(lengths, curves, gains, further, users, strict=True):
        best = int(curve.best_draft_len[0, 0])
        rate = float(curve.tokens_per_s[0, 0, best])
        price = None
        if usd is not None:
            devices = curve.placement.devices
            price = float(usd_per_million_tokens(rate, devices=devices, usd_per_hour=usd))
        useful = int(curve.near_best(0.01)[0][0, 0])
        rows.append(WorthRow(length, best, useful, gain, more, rate, price, most))
    return tuple(rows)


def _users(
    deployment: Deployment,
    drafter: Drafter,
    load: Load,
    room: RoomRule,
    max_draft_len: int,
    tpot_s: float,
) -> int:
    """Return the largest batch whose users wait at most so long per token; 0 if there is none."""
    batches = np.arange(1.0, _MOST_USERS + 1)
    for _, columns in reversed(list(grid_slices((1, _MOST_USERS, max_draft_len + 1)))):
        part = replace(load, batch_size=batches[columns].tolist())
        served = served_curve(deployment, drafter, part, room, max_draft_len=max_draft_len)
        fast = served.tpot_s[0] <= tpot_s * (1 + 1e-12)
        enough = np.flatnonzero(fast.any(axis=-1))
        if enough.size:
            return int(served.curve.batch_size[enough[-1]])
    return 0


# --- The gains of better drafters, as a table ----------------------------------------------------

_COLUMNS: Final[dict[str, Callable[[WorthRow], str]]] = {
    "tokens/round": lambda row: f"{row.accept_length:g}",
    "speedup": lambda row: f"{row.speedup:.2f}x",
    "per token": lambda row: "" if row.gain_per_token is None else f"{row.gain_per_token:+.2f}x",
    "best γ": lambda row: str(row.best_draft_len),
    "enough": lambda row: str(row.enough_drafts),
    "tok/s": lambda row: f"{row.tokens_per_s:.0f}",
    "$/Mtok": lambda row: figure(row.usd_per_million_tokens, format_price),
    "users": lambda row: str(row.users),
}


def worth_text(answer: Worth) -> str:
    """Return a row for each acceptance length, and what the columns mean."""
    by_batch = answer.by_batch
    columns = dict(_COLUMNS)
    if len(by_batch) > 1:
        columns = {"batch": lambda row: f"{row.batch_size:g}", **_COLUMNS}
    rows = [[cell(row) for cell in columns.values()] for row in answer.rows]
    targets = dict.fromkeys(rows[0].tpot_s for rows in by_batch.values())
    waits = ", ".join(map(format_seconds, targets))
    meaning = (
        f"tokens/round as measured with {format_drafts(answer.draft_len)}; per token: speedup for each "
        f"further one;\nenough: drafts beyond these bring less than 1%; users: at most "
        f"{waits} per token"
    )
    return page(answer, format_table([*columns], rows, left=[]), meaning)


# --- The chart ------------------------------------------------------------------------------------


def worth_chart(answer: Worth) -> Any:
    """Draw speedup above the users that are served fast enough, both against acceptance length."""
    from specroof.plot import style  # noqa: PLC0415 - matplotlib is slow to import

    with style.house_style():
        chart = style.new_chart(answer.title, width=8, height=5.4)
        upper, lower = chart.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        keys = [style.plain_line(upper)]
        by_batch = answer.by_batch
        for i, (batch, rows) in enumerate(by_batch.items()):
            lengths = [row.accept_length for row in rows]
            upper.plot(lengths, [row.speedup for row in rows], **style.look(i))
            for row in rows:
                upper.annotate(
                    f"γ {row.best_draft_len}",
                    (row.accept_length, row.speedup),
                    xytext=(0, 7),
                    textcoords="offset points",
                    ha="center",
                )
            own = style.look(i) if len(by_batch) > 1 else style.look(1)
            lower.plot(lengths, [row.users for row in rows], **own)
            if len(by_batch) > 1:
                keys.append(style.line_key(f"batch {batch:g}", **own))
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
    chart="Draw speedup and users against the length.",
    example="specroof worth Qwen/Qwen3-32B -H h100 --tp 2 --drafter block,cost=0.1,block=16\n"
    "--batch 32",
)
