"""Where does one pass spend its time, and why does a round of speculation pay or lose?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.arrays import fields_of, grouped, number_within
from specroof.cost import ForwardPass
from specroof.errors import OptionError, expect, refuse
from specroof.latency.pass_seconds import AMOUNTS, OpLatency, PassLatency
from specroof.outcomes.case import Case, served_case
from specroof.outcomes.choose import decided
from specroof.outcomes.outcomes import outcomes
from specroof.outcomes.rows import LoadRow, load_fields
from specroof.outcomes.solve import Solution, Wish, expect_known, solve
from specroof.questions import parameters as p
from specroof.questions.answer import (
    UNSURE,
    Charted,
    ServedAnswer,
    decision_line,
    is_told,
    rows_table,
)
from specroof.questions.objects import DrafterLike, absent_layers, money_of
from specroof.questions.request import Command, DeploymentRequest, question
from specroof.report.layout import format_table, shows_notes
from specroof.serving.capacity import prefill_rules
from specroof.serving.workload import Load, prefill_pass
from specroof.speedup.curve import acceptance_of, drafting_gain, longest_draft, pass_latency
from specroof.speedup.reach import how_sure
from specroof.speedup.waterfall import RoundParts, round_parts
from specroof.units import format_seconds, plain_number


@dataclass(frozen=True, kw_only=True)
class ExplainRequest(DeploymentRequest):
    """Ask where one pass spends its time.

    Examples
    --------
    >>> from specroof import explain
    >>> float(explain("Qwen/Qwen3-8B", "b200", engine="ideal").latency.communication_s)
    0.0
    """

    batch_size: Annotated[float, p.Parameter("Sequences in the pass.", "--batch --concurrency")] = 1
    context_len: Annotated[float | None, p.like(p.ContextLen, shown="4096; 0 with --prefill")] = (
        None
    )
    query_len: Annotated[
        int | None,
        p.Parameter(
            "New positions of each sequence: 1 decodes, γ + 1 verifies; of a prefill, the tokens "
            "of the prompt.",
            about_flag="New positions of each sequence: 1 decodes, γ + 1 verifies. With --prefill, "
            "the tokens of the prompt.",
            shown="1",
        ),
    ] = None
    prefill: Annotated[
        bool,
        p.Parameter(
            "Time a prompt of query_len tokens: logits and recurrent state of its last position "
            "only.",
            about_flag="Time a prompt of --query-len tokens: logits and recurrent state of its "
            "last position only. Shows the time to the first token.",
        ),
    ] = False
    drafter: Annotated[
        DrafterLike | None,
        p.like(
            p.OneDrafter,
            about="Compare a round of this drafter with a plain step.",
        ),
    ] = None
    draft_len: p.DraftLen = None


@dataclass(frozen=True, kw_only=True)
class OperationRow(q.Row):
    """An operation of a pass, over all layers that hold it at the same cost.

    FLOP and bytes are totals over these layers and all devices; seconds are of a device. What is
    not an operation (collectives, each overhead of the engine, the wait for other micro-batches in
    the slowest stage) has seconds alone.
    """

    op: str
    kind: str
    count: int
    flops: float | None = None
    weight_bytes: float | None = None
    cache_bytes: float | None = None
    activation_bytes: float | None = None
    moved_bytes: float | None = None
    intensity: float | None = None
    compute_dtype: str | None = None
    compute_s: float | None = None
    memory_s: float | None = None
    bound: str
    seconds: float
    share: float


@dataclass(frozen=True, repr=False, eq=False)
class Explanation(ServedAnswer, Charted):
    """Where one pass spends its time.

    Attributes
    ----------
    about, forward
        What runs, where, and the pass.
    latency
        Seconds of each operation and of the whole pass.
    first_token_s
        Seconds from sending a prompt, or as many as the pass has, to the first token of the last on
        an idle server, which takes a long prompt in several passes. None for other passes.
    notes, warnings
        Sentences for the reader.
    round
        The round of speculation that the pass verifies, part by part; None for a pass alone.
    load_row
        What becomes of the load with these drafts, as `predict` has it; None for a pass alone.
    break_even
        The least acceptance rate at which that round pays; None of a drafter whose
        acceptance is given.
    """

    forward: ForwardPass
    latency: PassLatency
    first_token_s: float | None
    round: RoundParts | None = None
    load_row: LoadRow | None = None
    break_even: Solution | None = None

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        forward = self.forward
        sizes = (forward.query_len, forward.batch_size, forward.context_len)
        tokens, batch, context = (plain_number(float(size)) for size in sizes)
        what = f"verifying {tokens} tokens" if forward.query_len > 1 else "a plain step"
        if self.first_token_s is not None:
            what = f"a prompt of {tokens} tokens"
        return f"{self.served}; {what}, batch {batch}, context {context}"

    @property
    def sureness(self) -> str:
        """How near measurements are, in one sentence."""
        forward = self.forward
        kinds = [] if self.round is None else [self.round.drafter.partition(",")[0]]
        return how_sure(self.deployment, kinds, forward.context_len, forward.batch_size)

    def text(self) -> str:
        """Return the operations of the pass, longest first, or the parts of the round."""
        if self.round is not None and self.load_row is not None:
            return _round_text(self, self.round, self.load_row)
        total = f"the pass takes {format_seconds(float(self.latency.total_s))}"
        if self.first_token_s is not None:
            total += f"; time to first token: {format_seconds(self.first_token_s)}"
        rows = self.rows
        shown = rows if shows_notes() or len(rows) <= _MOST_ROWS + 1 else rows[:_MOST_ROWS]
        rest = ""
        if len(shown) < len(rows):
            share = sum(row.share for row in rows[_MOST_ROWS:])
            rest = f"and {len(rows) - len(shown)} more rows, {share:.1%} of the time (--notes)"
        table = "\n".join(filter(None, [rows_table(shown, _SHOWN), rest]))
        return self.as_page(table, found=[total])

    def figures(self) -> dict[str, Any]:
        """Return the roofline, and the time of each operation; a round's waterfall first."""
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        peak = self.setup.hardware.peak
        roofline = plot.plot_roofline(
            self.latency,
            flops_per_s=peak.flops_per_s,
            memory_bytes_per_s=peak.memory_bytes_per_s,
            devices=self.setup.placement.tensor_parallel,  # a stage at a time
            title=self.title,
        )
        time = plot.plot_time_per_op(self.latency, title=self.title)
        if self.round is None:
            return {"": roofline, "-time": time}
        waterfall = plot.plot_waterfall(self.round, title=f"{self.title}\n{self.decision}")
        return {"": waterfall, "-roofline": roofline, "-time": time}

    @property
    def rows(self) -> tuple[OperationRow, ...]:
        """The operations, of equal cost as one, and what is none, the longest first."""

        def cost(one: OpLatency) -> tuple[str, ...]:
            each_s = f"{float(one.seconds) / one.op.count:.9g}"
            return one.op.name, one.op.kind, one.compute_dtype, each_s

        total_s = float(self.latency.total_s)
        rows = [_row(ops, total_s) for ops in grouped(self.latency.ops, cost).values()]
        rows += [
            OperationRow(
                op=name, kind=kind, count=1, bound=kind, seconds=seconds, share=seconds / total_s
            )
            for name, kind, seconds in self.latency.beside_ops_s
        ]
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        forward = self.forward
        case = self.served_json(context_len=float(forward.context_len))
        case["load"] |= {
            "batch_size": float(forward.batch_size),
            "query_len": float(forward.query_len),
        }
        case["total_s"] = float(self.latency.total_s)
        if self.first_token_s is not None:
            case["time_to_first_token_s"] = self.first_token_s
        if self.round is not None and self.load_row is not None:
            parts, least, (low, high) = self.round, self.break_even, _band(self.load_row)
            names = ("drafter", "draft_len", "decode_s", "round_s", "tokens_per_round")
            case["round"] = {
                **fields_of(parts, *names),
                **fields_of(self.load_row, "decision", "reason"),
                "speedup": parts.speedup,
                "speedup_low": low,
                "speedup_high": high,
                "break_even_tokens": parts.steps,
                "break_even_acceptance": None if least is None else least.value,
                "added_s": dict(parts.added_s),
                "decode_parts_s": dict(parts.decode_parts_s),
                "why": self.why,
            }
        return self.envelope(case)

    @property
    def decision(self) -> str:
        """What `predict` decides on these drafts at this load; nothing for a pass alone."""
        return "" if self.load_row is None else decision_line([self.load_row])

    @property
    def why(self) -> str:
        """Why the round pays or loses here, in short sentences; nothing for a pass alone."""
        if self.round is None:
            return ""
        parts, rate = self.round, ""
        if self.break_even is not None:
            least = self.break_even.value
            rate = ", more than any acceptance gives"
            rate = rate if least is None else f", an acceptance of {least:.2f}"
        largest = [f"{name} ({steps:.2f} of a step)" for name, steps in parts.largest()]
        terms = " and ".join(filter(None, [", ".join(largest[:-1]), *largest[-1:]]))
        adds = f" It adds mostly {terms}." if terms else ""
        return (
            f"A round yields {parts.tokens_per_round:.2f} tokens and takes {parts.steps:.2f} plain "
            f"steps.{adds} Break-even: {parts.steps:.2f} tokens per round{rate}."
        )


#: Of one pass, each is one number.
_OF_A_PASS: Final = {
    "batch_size": "pass_batch_size",
    "context_len": "pass_context_len",
    "query_len": "query_len",
}


@question(ExplainRequest)
def explain(request: ExplainRequest) -> Explanation:
    """Show where one pass spends its time: FLOP, bytes, bound and seconds per operation."""
    expect("prefill", request.prefill, bool, "True or False")
    for name, quantity in _OF_A_PASS.items():
        if getattr(request, name) is not None:
            number_within(name, getattr(request, name), quantity)
    if request.drafter is not None:
        return _explained_round(request, request.drafter)
    for name in ("draft_len", "temperature", "rule"):
        if getattr(request, name) is not None:
            refuse(name, getattr(request, name), "with a drafter")
    deployment, first_token_s = request.resolved(), None
    batch, new, context = request.batch_size, request.query_len, request.context_len
    if not request.prefill:
        forward = ForwardPass(
            batch, 1 if new is None else new, 4096 if context is None else context
        )
    elif new is None:
        message = "query_len is missing; needed for a prefill: the tokens of the prompt"
        raise OptionError(message)
    else:
        from specroof.serving.prefills import request_s  # noqa: PLC0415 - a cold start is felt

        forward = prefill_pass(new, batch_size=batch, context_len=context or 0)
        lost_s = deployment.setup.engine.lost_s(forward.query_len + forward.context_len)
        rules = prefill_rules(deployment)
        alone_s = request_s(deployment, forward, rules.chunk, rules.groups)
        first_token_s = float(alone_s + lost_s)
    latency = pass_latency(deployment, forward)
    notes = (*latency.notes, *correction_notes(latency))
    load = Load([batch], [float(forward.context_len)])
    return Explanation(Case(deployment, load), forward, latency, first_token_s, notes=notes)


def _explained_round(request: ExplainRequest, drafter_like: DrafterLike) -> Explanation:
    """Return a verification, and the round around it against a plain step.

    Raises
    ------
    OptionError
        For a prefill or a number of new positions: the drafts say how many.
    """
    if request.prefill or request.query_len is not None:
        name = "prefill" if request.prefill else "query_len"
        refuse(name, getattr(request, name), "without a drafter, whose drafts are verified")
    (drafter,) = request.drafters_with_acceptance(request.drafter_or_usual(drafter_like))
    deployment = request.resolved()
    max_draft_len = longest_draft(
        drafter, acceptance_of(drafter), request.draft_len, name="draft_len"
    )
    if max_draft_len < 1:
        refuse("draft_len", request.draft_len, "from 1 on: plain decoding has no round")
    context = 4096 if request.context_len is None else request.context_len
    expect_known(drafter, context)
    case = served_case(deployment, Load([request.batch_size], [context]))
    one = outcomes(case, drafter, max_draft_len=max_draft_len)
    decision = decided(one, request.draft_len)
    (row,) = (
        LoadRow(**each)
        for each in load_fields(one, case.load, money_of(deployment.setup), decision)
    )
    # Of a round that memory does not hold, too, the parts are known.
    case = case.at(room="ignore")
    curve = outcomes(case, drafter, max_draft_len=max_draft_len).decoding
    drafts = row.tried_draft_len or int(drafting_gain(curve, request.draft_len)[1][0, 0])
    parts, latency = round_parts(deployment, drafter, curve, drafts)
    wish = Wish(draft_len=drafts, max_draft_len=drafts)
    least = None if drafter.is_ideal else solve(case, drafter, "accept", wish)
    query_len = float(np.asarray(curve.verify_len)[drafts])
    forward = ForwardPass(request.batch_size, query_len, context)
    notes = (
        *absent_layers(deployment.model, [drafter]),
        *one.raised_notes,
        *one.decoding.notes,
        *one.curve.measuring_notes,
    )
    warnings = tuple(one.warnings(case))
    return Explanation(
        case, forward, latency, None, parts, row, least, notes=notes, warnings=warnings
    )


# --- The operations of one pass, as rows and as a table ------------------------------------------

#: Rows that are shown without the notes.
_MOST_ROWS: Final = 15
_SHOWN: Final = (
    *("op", "count", "flops", "moved_bytes", "intensity", "compute_dtype", "bound", "seconds"),
    "share",
)


def correction_notes(latency: PassLatency) -> Iterator[str]:
    """Yield for each correction how many times as long operations take that are corrected."""
    found: dict[str, dict[str, str]] = {}
    for one in latency.ops:
        op = one.op
        amounts = AMOUNTS[:1] if one.compute_s > one.memory_s else AMOUNTS[1:]
        even = sum(float(getattr(op, amount)) for amount in amounts)
        for name, times in one.corrections.items():
            done = sum(float(getattr(op, amount) * times.get(amount, 1.0)) for amount in amounts)
            if done > even:
                found.setdefault(name, {})[op.name] = f"{op.name} takes {done / even:.2f} times"
    for name, longer in found.items():
        yield f"{name}: {', '.join(longer.values())} as long as its share of a device"


def _row(ops: Sequence[OpLatency], total_s: float) -> OperationRow:
    """Return operations of equal cost as one."""
    first = ops[0]
    amounts: dict[str, Any] = {
        name: sum(float(one.op.count * getattr(one.op, name)) for one in ops) for name in AMOUNTS
    }
    seconds: dict[str, Any] = {
        name: sum(float(getattr(one, name)) for one in ops)
        for name in ("compute_s", "memory_s", "seconds")
    }
    moved = float(first.op.memory_bytes)
    return OperationRow(
        op=first.op.name,
        kind=first.op.kind,
        count=sum(one.op.count for one in ops),
        **amounts,
        moved_bytes=amounts["weight_bytes"] + amounts["cache_bytes"] + amounts["activation_bytes"],
        intensity=float(first.op.flops) / moved if moved else None,
        compute_dtype=first.compute_dtype,
        bound="compute" if first.compute_s > first.memory_s else "memory",
        **seconds,
        share=seconds["seconds"] / total_s,
    )


#: Parts below this share of a plain step stand in one row, unless all notes are shown.
_SMALL_PART: Final = 0.005


def _band(row: LoadRow) -> tuple[float | None, float | None]:
    """Return the band of the speedup that is decided on; None where it has none."""
    return row.bands.get(q.TRIED_SPEEDUP.name, (None, None))


def _round_text(explanation: Explanation, parts: RoundParts, row: LoadRow) -> str:
    """Return a round against a plain step: what is added, part by part, and what it brings."""
    added = sorted(parts.added_s.items(), key=lambda part: -part[1])
    small = [s for _, s in added if abs(s) < _SMALL_PART * parts.decode_s]
    if len(small) > 1 and not shows_notes():
        added = [part for part in added if part[1] not in small]
        added.append((f"{len(small)} smaller parts", sum(small)))
    signed = [(f"{'+' if seconds > 0 else '-'} {name}", abs(seconds)) for name, seconds in added]
    rows = [
        [name, format_seconds(seconds), f"{seconds / parts.decode_s:.2f}"]
        for name, seconds in [("plain step", parts.decode_s), *signed, ("= round", parts.round_s)]
    ]
    rows.append(["tokens of the round", "", f"{parts.tokens_per_round:.2f}"])
    speedup = f"{parts.speedup:.2f}x" if is_told(*_band(row)) else UNSURE
    rows.append(["speedup", "", row.reason or speedup])
    least = explanation.break_even
    if least is not None:
        value = f"never ({least.ceiling:.2f}x)" if least.value is None else f"{least.value:.3f}"
        rows.append(["acceptance that breaks even", "", value])
    table = format_table(["", "time", "plain steps"], rows)
    return explanation.as_page(table, found=[explanation.decision, explanation.why])


COMMAND: Final = Command(
    question=explain,
    options=p.FORMULAS,
    chart="Draw the roofline, and time per operation (NAME-time); with --drafter first the waterfall "
    "of the round, then NAME-roofline and NAME-time.",
    example="specroof explain Qwen/Qwen3-8B -H b200 --batch 32 for a plain step, with\n"
    "--query-len 4 for the verification of 3 drafts; with --prefill --query-len 8192 for a prompt;\n"
    "with --drafter eagle3,accept=0.7 --draft-len 3 for a round against a plain step.",
)
