"""What is the whole curve of one drafter, and what does one pass cost and take?"""

from dataclasses import KW_ONLY, dataclass

from specroof import cost
from specroof.acceptance import Acceptance, ContextAcceptance
from specroof.cost import ForwardPass, OpCost
from specroof.errors import OptionError, expect
from specroof.hardware import Placement
from specroof.latency import Deployment, Setup, engine_setup
from specroof.latency.pass_seconds import PassLatency
from specroof.questions.request import (
    DrafterLike,
    HardwareLike,
    ModelLike,
    OptionsLike,
    Values,
    drafter_of,
    hardware_of,
    model_of,
    options_of,
    question,
)
from specroof.speedup.curve import acceptance_of, decoding_curve, longest_draft, pass_latency
from specroof.speedup.result import SpeedupCurve


@dataclass(frozen=True)
class CostRequest:
    """Ask what one pass costs.

    Parameters
    ----------
    model
        A path, a bundled name, a Hub name, or an `Architecture`.
    forward_pass
        Batch, new positions and context; arrays broadcast.
    options
        `Options`, or a mapping of their names.

    Examples
    --------
    >>> from specroof import ForwardPass, forward_cost
    >>> ops = forward_cost("Qwen/Qwen3-8B", ForwardPass(1, 1, 0))
    >>> sum(float(op.count * op.flops) for op in ops) > 2 * 7e9  # two for each weight
    True
    """

    model: ModelLike
    forward_pass: ForwardPass
    options: OptionsLike | None = None


@question(CostRequest)
def forward_cost(request: CostRequest) -> list[OpCost]:
    """Return what one pass of a model costs, operation by operation: FLOP and bytes."""
    expect("forward_pass", request.forward_pass, ForwardPass, "a ForwardPass")
    return cost.forward_cost(
        model_of(request.model), request.forward_pass, options_of(request.options)
    )


@dataclass(frozen=True)
class _Placed:
    """Ask about a model on some devices.

    Parameters
    ----------
    model
        A path, a bundled name, a Hub name, or an `Architecture`.
    hardware
        A path, a name, an alias, or a `HardwareProfile`.
    placement, tensor_parallel
        How many devices, in one of two ways; one device if neither is given.
    engine
        An engine of the hardware profile, or "ideal"; the profile's default if None.
    options
        `Options`, or a mapping of their names.
    """

    model: ModelLike
    hardware: HardwareLike
    _: KW_ONLY
    placement: Placement | None = None
    tensor_parallel: int | None = None
    engine: str | None = None
    options: OptionsLike | None = None

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
                message = "placement and tensor_parallel are both given; allowed: one of them"
                raise OptionError(message)
            placement = Placement(self.tensor_parallel)
        return engine_setup(hardware, self.engine, placement, options_of(self.options))


@dataclass(frozen=True)
class LatencyRequest(_Placed):
    """Ask how long one pass takes.

    Parameters
    ----------
    forward_pass
        Batch, new positions and context; arrays broadcast.

    Examples
    --------
    >>> from specroof import ForwardPass, forward_latency
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
    >>> latency = forward_latency("Qwen/Qwen3-8B", "b200", decode, engine="ideal")
    >>> round(float(latency.total_s) * 1e3, 1)  # 15.1 GB of weights, 0.6 GB of cache at 8 TB/s
    2.0
    """

    forward_pass: ForwardPass


@question(LatencyRequest)
def forward_latency(request: LatencyRequest) -> PassLatency:
    """Return the seconds of one forward pass, and of each operation in it."""
    expect("forward_pass", request.forward_pass, ForwardPass, "a ForwardPass")
    return pass_latency(Deployment(model_of(request.model), request.setup), request.forward_pass)


@dataclass(frozen=True)
class CurveRequest(_Placed):
    """Ask for the whole curve of one drafter.

    Parameters
    ----------
    drafter
        A SPEC, or a `Drafter`.
    acceptance
        How many drafts are accepted; given here or in the SPEC, not in both. The ideal drafter
        takes none.
    batch_size, context_len
        A number or a list each: sequences in flight over all devices, and cached tokens of each.
    max_draft_len
        The longest draft tried. If None, 16, with NaN past the depth of drafter or acceptance;
        a number past that depth is an error.

    Examples
    --------
    >>> from specroof import speedup_curve
    >>> curve = speedup_curve("Qwen/Qwen3-8B", "b200", drafter="ideal", batch_size=[1, 8])
    >>> curve.speedup.shape
    (1, 2, 17)
    """

    _: KW_ONLY
    drafter: DrafterLike
    acceptance: Acceptance | ContextAcceptance | None = None
    batch_size: Values = 1
    context_len: Values = 4096
    max_draft_len: int | None = None


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
