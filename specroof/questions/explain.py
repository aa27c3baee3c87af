"""Where does one pass spend its time?"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from specroof.architecture import Architecture
from specroof.cost import ForwardPass
from specroof.errors import OptionError, expect
from specroof.latency import Setup
from specroof.questions.answer import Answer
from specroof.questions.request import Served, question
from specroof.serving.requests import prefill_pass, time_to_first_token_s
from specroof.speedup.curve import PassLatency, pass_latency

__all__ = ["ExplainRequest", "Explanation", "explain"]


@dataclass(frozen=True)
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

    Examples
    --------
    >>> from specroof import explain
    >>> float(explain("Qwen/Qwen3-8B", "b200", engine="ideal").latency.communication_s)
    0.0
    """

    _: KW_ONLY
    batch_size: float = 1
    context_len: float | None = None
    query_len: int | None = None
    prefill: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class Explanation(Answer):
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
    """

    model: Architecture
    setup: Setup
    forward: ForwardPass
    latency: PassLatency
    first_token_s: float | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = field(default=())

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

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        from specroof.report import explain_rows  # noqa: PLC0415 - reports import answers

        first = self.first_token_s
        return {
            "model": self.model.name,
            "hardware": self.setup.hardware.name,
            "engine": self.setup.engine.name,
            "total_s": float(self.latency.total_s),
            **({} if first is None else {"time_to_first_token_s": first}),
            "notes": list(self.notes),
            "ops": explain_rows(self.latency),
        }

    def plot(self) -> Any:
        """Draw the roofline, with a mark for each operation."""
        from specroof.plot import pass_figures  # noqa: PLC0415 - matplotlib is slow to import

        return pass_figures(self)[""]


@question(ExplainRequest)
def explain(request: ExplainRequest) -> Explanation:
    """Show where one pass spends its time: FLOP, bytes, bound and seconds per operation."""
    expect("prefill", request.prefill, bool, "True or False")
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
    return Explanation(model, setup, forward, latency, first_token_s, latency.notes)


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
