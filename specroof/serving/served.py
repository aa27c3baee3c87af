"""The curve that every question asks for: decoding, within the room of a server, with prompts."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from specroof.acceptance import ContextAcceptance, accepted_at
from specroof.arrays import Array
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import expect
from specroof.hardware import IDEAL_ENGINE
from specroof.latency import Deployment, Setup, check_placement
from specroof.serving.capacity import (
    RoomRule,
    ServerRoom,
    running_curve,
    running_requests,
    server_room,
)
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.workload import Load
from specroof.speedup.curve import acceptance_of, decoding_curve, grid_axes
from specroof.speedup.result import SpeedupCurve
from specroof.speedup.round import proposals

if TYPE_CHECKING:
    from specroof.serving.split import Split


@dataclass(frozen=True, slots=True, eq=False)
class ServedCurve:
    """What speculative decoding gains on a server.

    Parameters
    ----------
    decoding
        Of decoding alone, within the room.
    room
        What the server has room for; None where memory is ignored.
    end_to_end
        With prefills; None where the load has no requests.
    """

    decoding: SpeedupCurve
    room: ServerRoom | None
    end_to_end: EndToEnd | None

    @property
    def curve(self) -> SpeedupCurve:
        """The curve with prefills where they count, else of decoding alone."""
        return self.decoding if self.end_to_end is None else self.end_to_end.curve

    @property
    def tpot_s(self) -> Array:
        """Seconds that a user waits for each token (of requests: after the first)."""
        if self.end_to_end is not None:
            return self.end_to_end.tpot_s
        return 1.0 / self.decoding.tokens_per_s_per_user


def room_rule(
    setup: Setup, capacity: bool | None, beyond: Literal["queue", "drop"] = "drop"
) -> RoomRule:
    """Return what becomes of requests that a server has no memory for.

    Parameters
    ----------
    setup
        Where passes run: the ideal engine has no server around it.
    capacity
        Whether memory counts; None for any engine but the ideal one.
    beyond
        What becomes of them where it counts.

    Raises
    ------
    OptionError
        For a `capacity` that is neither.
    """
    expect("capacity", capacity, bool | None, "True, False, or None")
    counts = setup.engine != IDEAL_ENGINE if capacity is None else capacity
    return beyond if counts else "ignore"


def served_curve(  # noqa: PLR0913 - what is served, to whom, within what
    deployment: Deployment,
    drafter: Drafter,
    load: Load,
    room: RoomRule,
    *,
    max_draft_len: int,
    acceptance: TokensPerRound | ContextAcceptance | None = None,
    split: "Split | None" = None,
) -> ServedCurve:
    """Return what a drafter gains on a server under a load.

    Parameters
    ----------
    deployment, drafter, load
        What is served where, what drafts, and for which requests.
    room
        What becomes of requests that the server has no memory for.
    max_draft_len
        The longest draft of the grid.
    acceptance
        How much of the drafts is accepted; the drafter's own if None.
    split
        The workers of prefill and of decoding; the deployment is then of one decode worker. None
        where one server does both.

    Raises
    ------
    SpecroofError
        As `specroof.speedup.curve.decoding_curve` does, and for prompts that are cached on a
        server that was told to keep none.

    Examples
    --------
    >>> from specroof import load_drafter, load_hardware, load_model
    >>> from specroof.latency import engine_setup
    >>> setup = engine_setup(load_hardware("h100"), "sglang", None, None)
    >>> deployment = Deployment(load_model("Qwen/Qwen3-8B"), setup)
    >>> mtp = load_drafter("mtp,accept=0.8")
    >>> found = served_curve(deployment, mtp, Load([8, 4096], [4096]), "drop", max_draft_len=2)
    >>> found.curve.speedup[0, :, 0].tolist()  # 4096 have no room
    [1.0, nan]
    """
    accepted = acceptance_of(drafter) if acceptance is None else acceptance
    priced = partial(
        decoding_curve,
        deployment,
        drafter,
        accepted,
        context_len=load.context_len,
        max_draft_len=max_draft_len,
    )
    held = None
    if split is None and room == "ignore":
        decoding = priced(load.batch_size)
    else:
        contexts, batches, drafts = grid_axes(load.context_len, load.batch_size, max_draft_len)
        check_placement(deployment.model, deployment.setup.placement)
        drafter.describe(deployment.model)  # refuses a model that the drafter does not fit
        verified = proposals(drafter, accepted_at(accepted, contexts[0]), drafts).verify_len
        held = server_room(deployment, drafter, contexts, verified, load.workload)
        if split is not None:
            from specroof.serving.split import split_curves  # noqa: PLC0415 - asked for seldom

            memory = None if room == "ignore" else held
            curves = split_curves(deployment, split, load, held, memory, priced)
            return ServedCurve(curves[0], memory, curves[1])
        running = running_requests(batches[None, :, None], held.largest[:, None, :], room)  # type: ignore[arg-type]  # counted
        decoding = running_curve(batches, running, priced)
    if load.workload is None:
        return ServedCurve(decoding, held, None)
    from specroof.serving.prefills import end_to_end  # noqa: PLC0415 - a cold start is felt

    return ServedCurve(decoding, held, end_to_end(decoding, deployment, load.workload))


def room_warnings(deployment: Deployment, drafter: Drafter, curve: SpeedupCurve) -> list[str]:
    """Return where a server has no room for batches that a curve prices all the same.

    Parameters
    ----------
    deployment, drafter
        What is served where, and what drafts.
    curve
        As if memory had no end.
    """
    room = server_room(deployment, drafter, curve.context_len, curve.verify_len)
    return [*room.warnings(curve, "larger batches are priced as if memory had no end")]
