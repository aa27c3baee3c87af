"""What is the whole curve of one drafter, and what does one pass cost and take?"""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final

from specroof import cost
from specroof.acceptance import Acceptance, ContextAcceptance
from specroof.cost import ForwardPass, OpCost
from specroof.errors import expect, reject
from specroof.hardware.profile import Placement
from specroof.latency.pass_seconds import PassLatency
from specroof.latency.setup import Deployment, Setup, engine_setup
from specroof.questions import parameters as p
from specroof.questions.objects import Values, drafter_of, hardware_of, model_of, options_of
from specroof.questions.request import question
from specroof.speedup.curve import (
    DEFAULT_MAX_DRAFT_LEN,
    acceptance_of,
    decoding_curve,
    longest_draft,
    pass_latency,
)
from specroof.speedup.result import SpeedupCurve

_FORWARD_PASS: Final = p.Parameter("Batch, new positions and context; arrays broadcast.")


@dataclass(frozen=True)
class CostRequest:
    """Ask what one pass costs.

    Examples
    --------
    >>> from specroof import ForwardPass, forward_cost
    >>> ops = forward_cost("Qwen/Qwen3-8B", ForwardPass(1, 1, 0))
    >>> sum(float(op.count * op.flops) for op in ops) > 2 * 7e9  # two for each weight
    True
    """

    model: p.Model
    forward_pass: Annotated[ForwardPass, _FORWARD_PASS]
    options: p.OptionsGiven = None


@question(CostRequest)
def forward_cost(request: CostRequest) -> list[OpCost]:
    """Return what one pass of a model costs, operation by operation: FLOP and bytes."""
    expect("forward_pass", request.forward_pass, ForwardPass, "a ForwardPass")
    return cost.forward_cost(
        model_of(request.model), request.forward_pass, options_of(request.options)
    )


@dataclass(frozen=True)
class _Placed:
    """Ask about a model on some devices."""

    model: p.Model
    hardware: p.Hardware
    _: KW_ONLY
    placement: Annotated[
        Placement | None, p.Parameter("How devices share the model; one device if None.")
    ] = None
    tensor_parallel: Annotated[
        int | None, p.like(p.TensorParallel, in_python="In place of a placement.")
    ] = None
    engine: p.Engine = None
    options: p.OptionsGiven = None

    @property
    def setup(self) -> Setup:
        """Where passes run.

        Raises
        ------
        OptionError
            For a placement that is given in both ways, and anything else that is not allowed.
        """
        hardware, placement = hardware_of(self.hardware), self.placement
        expect("placement", placement, Placement | None, "a Placement, or None")
        expect("engine", self.engine, str | None, "the name of an engine of the hardware, or None")
        if self.tensor_parallel is not None:
            if placement is not None:
                reject("placement and tensor_parallel are both given", "one of them")
            placement = Placement(self.tensor_parallel)
        return engine_setup(hardware, self.engine, placement, options_of(self.options))


@dataclass(frozen=True)
class LatencyRequest(_Placed):
    """Ask how long one pass takes.

    Examples
    --------
    >>> from specroof import ForwardPass, forward_latency
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
    >>> latency = forward_latency("Qwen/Qwen3-8B", "b200", decode, engine="ideal")
    >>> round(float(latency.total_s) * 1e3, 1)  # 15.1 GB of weights, 0.6 GB of cache at 8 TB/s
    2.0
    """

    forward_pass: Annotated[ForwardPass, _FORWARD_PASS]


@question(LatencyRequest)
def forward_latency(request: LatencyRequest) -> PassLatency:
    """Return the seconds of one forward pass, and of each operation in it."""
    expect("forward_pass", request.forward_pass, ForwardPass, "a ForwardPass")
    return pass_latency(Deployment(model_of(request.model), request.setup), request.forward_pass)


@dataclass(frozen=True)
class CurveRequest(_Placed):
    """Ask for the whole curve of one drafter.

    Examples
    --------
    >>> from specroof import speedup_curve
    >>> curve = speedup_curve("Qwen/Qwen3-8B", "b200", drafter="ideal", batch_size=[1, 8])
    >>> curve.speedup.shape
    (1, 2, 17)
    """

    _: KW_ONLY
    drafter: p.OneDrafter
    acceptance: Annotated[
        Acceptance | ContextAcceptance | None,
        p.Parameter(
            "How many drafts are accepted; given here or in the SPEC, not in both. The ideal "
            "drafter takes none."
        ),
    ] = None
    batch_size: Annotated[Values, p.like(p.BatchSize)] = 1
    context_len: Annotated[Values, p.like(p.ContextLens)] = 4096
    max_draft_len: Annotated[
        int | None,
        p.Parameter(
            "Longest draft tried. If None, figures past the depth of drafter or acceptance are "
            "NaN; a number past that depth is an error.",
            shown=str(DEFAULT_MAX_DRAFT_LEN),
        ),
    ] = None


@question(CurveRequest)
def speedup_curve(request: CurveRequest) -> SpeedupCurve:
    """Return what speculative decoding gains over a grid of operating points."""
    deployment = Deployment(model_of(request.model), request.setup)
    drafter = drafter_of(request.drafter)
    acceptance = acceptance_of(drafter, request.acceptance)
    return decoding_curve(
        deployment,
        drafter,
        acceptance,
        batch_size=request.batch_size,
        context_len=request.context_len,
        max_draft_len=longest_draft(drafter, acceptance, request.max_draft_len),
    )
