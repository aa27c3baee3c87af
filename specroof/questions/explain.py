"""Where does one pass spend its time, and why does a round of speculation pay or lose?"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from specroof.architecture import Architecture
from specroof.arrays import fields_of
from specroof.cost import ForwardPass
from specroof.errors import OptionError, expect, refuse
from specroof.latency import Setup
from specroof.latency.pass_seconds import PassLatency
from specroof.questions.answer import Charted, place_of
from specroof.questions.request import DrafterLike, Served, drafter_of, question
from specroof.serving.prefills import prefill_pass, time_to_first_token_s
from specroof.speedup.curve import Point, acceptance_of, drafting_gain, longest_draft, pass_latency
from specroof.speedup.inverses import Threshold, least_rate
from specroof.speedup.waterfall import RoundParts, round_parts
from specroof.units import format_drafts


@dataclass(frozen=True, kw_only=True)
class ExplainRequest(Served):
    """Ask where one pass spends its time.

    Parameters
    ----------
    batch_size
        Sequences in the pass.
    context_len
        Cached tokens of each; 4096 if None, 0 for a prefill.
    query_len
        New positions of each: 1 decodes, γ + 1 verifies; for a prefill the tokens of the prompt.
    prefill
        Whether the pass is a prefill: logits and recurrent state of the last position only.
    drafter, draft_len
        A SPEC with its acceptance, or a `Drafter`, and its drafts (the best number if None): the
        pass verifies them, and the round around it stands against a plain step.

    Examples
    --------
    >>> from specroof import explain
    >>> float(explain("Qwen/Qwen3-8B", "b200", engine="ideal").latency.communication_s)
    0.0
    """

    batch_size: float = 1
    context_len: float | None = None
    query_len: int | None = None
    prefill: bool = False
    drafter: DrafterLike | None = None
    draft_len: int | None = None


#: What a pass is of, as JSON has it.
_PASS: Final = ("batch_size", "context_len", "query_len")


@dataclass(frozen=True, repr=False, eq=False)
class Explanation(Charted):
    """Where one pass spends its time.

    Attributes
    ----------
    model, setup, forward
        What runs, where, and the pass.
    latency
        Seconds of each operation and of the whole pass.
    first_token_s
        Seconds to the first token of a prefill; None for other passes.
    notes, warnings
        Sentences for the reader.
    round
        The round of speculation that the pass verifies, part by part; None for a pass alone.
    break_even
        The least acceptance rate at which that round pays; None where SciPy is missing.
    """

    _chart = "pass_figures"

    model: Architecture
    setup: Setup
    forward: ForwardPass
    latency: PassLatency
    first_token_s: float | None
    round: RoundParts | None = None
    break_even: Threshold | None = None

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        setup, forward = self.setup, self.forward
        return (
            f"{self.model.name} on {setup.placement.devices} x {setup.hardware.name}, "
            f"batch {forward.batch_size:g}, context {forward.context_len:g}, "
            f"{forward.query_len:g} new per sequence, engine {setup.engine.name}"
            f"{'' if self.first_token_s is None else ' (prefill)'}"
        )

    @property
    def records(self) -> list[dict[str, Any]]:
        """A row for each operation, the longest first."""
        from specroof.report.operations import explain_rows  # noqa: PLC0415 - reports import answers

        return explain_rows(self.latency)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        first = self.first_token_s
        return {
            **place_of(self.model, self.setup),
            **{name: float(getattr(self.forward, name)) for name in _PASS},
            "total_s": float(self.latency.total_s),
            **({} if first is None else {"time_to_first_token_s": first}),
            "notes": list(self.notes),
            "ops": self.records,
            **({} if self.round is None else {"round": self._round_dict(self.round)}),
        }

    def _round_dict(self, parts: RoundParts) -> dict[str, Any]:
        least = self.break_even
        return {
            **fields_of(parts, "drafter", "draft_len", "decode_s", "round_s", "tokens_per_round"),
            "speedup": parts.speedup,
            "break_even_tokens": parts.steps,
            "break_even_acceptance": None if least is None else least.value,
            "added_s": dict(parts.added_s),
            "decode_parts_s": dict(parts.decode_parts_s),
            "why": self.why,
        }

    @property
    def why(self) -> str:
        """Why the round pays or loses here, in one sentence; nothing for a pass alone."""
        if self.round is None:
            return ""
        parts = self.round
        says = "pays" if parts.speedup >= 1 else "loses"
        if round(parts.speedup, 2) == 1.0:
            says = "neither pays nor loses"
        largest = [f"{name} ({steps:.2f} of a step)" for name, steps in parts.largest()]
        terms = " and ".join(filter(None, [", ".join(largest[:-1]), *largest[-1:]]))
        bring = f"{format_drafts(parts.draft_len)} {'brings' if parts.draft_len == 1 else 'bring'}"
        sentence = (
            f"It {says} here ({parts.speedup:.2f}x): {bring} "
            f"{parts.tokens_per_round:.2f} tokens in a round of {parts.steps:.2f} plain steps"
        )
        if terms:
            sentence += f", and most of what it adds is {terms}"
        return f"{sentence}; it breaks even at {parts.steps:.2f} tokens{self._rate}."

    @property
    def _rate(self) -> str:
        least = self.break_even
        if least is None:
            return ""
        if least.value is None:
            return ", which no acceptance gives"
        return f", an acceptance of {least.value:.2f}"


@question(ExplainRequest)
def explain(request: ExplainRequest) -> Explanation:
    """Show where one pass spends its time: FLOP, bytes, bound and seconds per operation."""
    expect("prefill", request.prefill, bool, "True or False")
    if request.drafter is not None:
        return _explained_round(request, request.drafter)
    if request.draft_len is not None:
        refuse("draft_len", request.draft_len, "with a drafter; a pass alone has query_len")
    model, setup = request.resolved()
    forward = _forward_pass(request)
    latency = pass_latency(model, setup, forward)
    first_token_s = None
    if request.prefill:
        first_token_s = time_to_first_token_s(
            float(latency.total_s),
            batch_size=request.batch_size,
            request_overhead_s=setup.engine.request_overhead_s,
        )
    return Explanation(model, setup, forward, latency, first_token_s, notes=latency.notes)


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
    drafter = drafter_of(drafter_like)
    model, setup = request.resolved()
    tokens = acceptance_of(drafter)
    asked = longest_draft(drafter, tokens, request.draft_len, name="draft_len")
    if asked < 1:
        refuse("draft_len", request.draft_len, "from 1 on: plain decoding has no round")
    context = 4096 if request.context_len is None else request.context_len
    point = Point(model, setup, drafter, request.batch_size, context, asked, request.draft_len)
    curve = point.drafted
    drafts = int(drafting_gain(curve, request.draft_len)[1][0, 0])
    parts, latency = round_parts(point, drafts)
    notes, least = list(curve.notes), None
    if not drafter.is_ideal:
        try:
            least = least_rate(replace(point, draft_len=drafts, longest=drafts), 1.0)
        except OptionError as refusal:  # without SciPy all the rest is known
            notes.append(f"the acceptance that breaks even is left out: {refusal}")
    query_len = float(np.asarray(curve.verify_len)[drafts])
    forward = ForwardPass(request.batch_size, query_len, context)
    return Explanation(
        model, setup, forward, latency, None, parts, break_even=least, notes=tuple(notes)
    )


def _forward_pass(request: ExplainRequest) -> ForwardPass:
    """Return the pass that a request asks about.

    Raises
    ------
    OptionError
        For a prefill without the length of its prompt, and numbers that no pass has.
    """
    batch, new, context = request.batch_size, request.query_len, request.context_len
    try:
        if not request.prefill:
            return ForwardPass(
                batch, 1 if new is None else new, 4096 if context is None else context
            )
        if new is None:
            message = "query_len is missing; needed for a prefill: the tokens of the prompt"
            raise OptionError(message)
        return prefill_pass(new, batch_size=batch, context_len=context or 0)
    except ValueError as refusal:
        raise OptionError(str(refusal)) from None
