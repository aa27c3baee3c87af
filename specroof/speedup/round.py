"""One round of speculation: which passes it takes, and its seconds by those of its passes."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.arrays import Array, IntArray
from specroof.cost import ForwardPass
from specroof.drafters import (
    Drafter,
    DraftTime,
    PassTime,
    Proposals,
    Round,
    TokensPerRound,
)
from specroof.errors import OptionError, reject
from specroof.frameworks import LOCAL_FRAMEWORKS, those_where
from specroof.hardware import HardwareProfile, Placement
from specroof.latency import (
    Deployment,
    Setup,
    Work,
    check_placement,
    draft_placement,
    drafting_setup,
    micro_batches,
    model_work,
    pass_time,
)
from specroof.units import format_seconds


def proposals(drafter: Drafter, acceptance: TokensPerRound, draft_len: IntArray) -> Proposals:
    """Return what is verified and expected at each draft length, unknown past the depth.

    Parameters
    ----------
    drafter
        What proposes.
    acceptance
        How much of it is accepted.
    draft_len
        Whole numbers from 0.
    """
    found = drafter.propose(acceptance, draft_len)
    if drafter.max_draft_len is None:
        return found
    within = draft_len <= drafter.max_draft_len
    return replace(found, tokens_per_round=np.where(within, found.tokens_per_round, np.nan))


class PassSeconds(Protocol):
    """Seconds of a pass of a model, with what runs beside it; a drafter's if `drafts`."""

    def __call__(
        self, served: Deployment, forward: ForwardPass, /, *beside: Work, drafts: bool = False
    ) -> Array:
        """Return the seconds, in the shape that the fields of the pass broadcast to."""


def engine_pass_s(
    served: Deployment,
    forward: ForwardPass,
    /,
    *beside: Work,
    drafts: bool = False,
    notes: dict[str, None] | None = None,
) -> Array:
    """Return the seconds of a pass on an engine, and add what there is to say about it to `notes`.

    Parameters
    ----------
    served, forward, beside, drafts
        As of `PassSeconds`.
    notes
        Sentences for the reader, each once.
    """
    setup = drafting_setup(served.model, served.setup) if drafts else served.setup
    work = model_work(served.model, setup, forward, beside=beside, by_sequence=True)
    if notes is not None:
        notes.update(dict.fromkeys(work.notes))
    return pass_time(work, setup.engine, setup.options.granularity).total_s


def drafter_pass_s(
    setup: Setup,
    seconds: PassSeconds,
    architecture: Architecture,
    forward: ForwardPass,
    /,
    *beside: Work,
) -> Array:
    """Return the seconds of a pass of a drafter, by those of any pass.

    Parameters
    ----------
    setup
        Where the target runs, and the drafter beside it; or its own devices.
    seconds
        Of a pass in a setup.
    architecture, forward, beside
        As of `specroof.drafters.PassTime`.
    """
    try:
        placement = setup.placement
        if placement.decode_context_parallel > 1 or placement.pipeline_parallel > 1:
            placement = draft_placement(architecture, setup)
        check_placement(architecture, placement)
    except OptionError as refusal:
        message = (
            f"{refusal}; or tp= in the SPEC of the drafter, for other devices than the target's"
        )
        raise OptionError(message) from None
    return seconds(Deployment(architecture, setup), forward, *beside, drafts=True)


def own_setup(
    setup: Setup, hardware: HardwareProfile | Literal["cpu"] | None, placement: Placement | None
) -> Setup:
    """Return where a drafter runs that has hardware or a placement of its own, or the CPU.

    Raises
    ------
    OptionError
        For more of the target's devices than a stage of its pipeline has; for a CPU that is not
        named beside the chip, or an engine that cannot use it.
    """
    if hardware == "cpu":
        if not setup.release.uses_host:
            reject(
                f"device is cpu with engine {setup.engine.name}",
                those_where(lambda one: one.uses_host),
            )
        if setup.hardware.host is None:
            reject(
                f"device is cpu, and no CPU is named beside {setup.hardware.name}",
                "hardware as CHIP+CPU, as in CHIP+cpu-2ch-ddr5",
            )
        return replace(setup, placement=Placement(nodes=1), on_host=True)
    stage = setup.placement
    devices = 0 if hardware is not None or placement is None else placement.devices
    if devices > stage.tensor_parallel and stage.pipeline_parallel > 1:
        reject(
            f"tp= of the drafter is {devices}, and it runs on the last stage",
            f"up to the {stage.tensor_parallel} devices of a stage",
        )
    moved = replace(setup, placement=placement or stage)
    if hardware is None:
        return moved
    engine = hardware.engine(setup.engine.framework or setup.engine.name)
    return replace(moved, hardware=hardware, engine=engine)


def draft_time(
    served: Deployment,
    drafter: Drafter,
    proposed: Proposals,
    load: tuple[Array, Array, npt.NDArray[np.float64] | IntArray],
    target_s: tuple[Array, Array],
    seconds: PassSeconds,
) -> DraftTime:
    """Return what drafting takes in one round.

    Parameters
    ----------
    served
        The target.
    drafter, proposed
        What drafts, and what it proposes at each draft length.
    load
        Contexts, batch sizes and draft lengths, as arrays that broadcast.
    target_s
        Seconds of the target's plain step, and of its verification.
    seconds
        Of each pass that the drafter asks for.
    """
    contexts, batches, draft_lens = load
    decode_s, verify_s = target_s
    setup = served.setup

    def on_own_devices(
        hardware: HardwareProfile | Literal["cpu"] | None, placement: Placement | None
    ) -> PassTime:
        return partial(drafter_pass_s, own_setup(setup, hardware, placement), seconds)

    keeps = setup.engine.rules in LOCAL_FRAMEWORKS
    all_accepted = proposed.all_accepted if keeps else None
    return drafter.draft(
        Round(
            draft_len=np.maximum(draft_lens, 1).astype(np.float64),  # never asked for nothing
            batch_size=batches,
            context_len=contexts,
            tokens_per_round=proposed.tokens_per_round,
            decode_s=decode_s,
            verify_s=verify_s,
            cost_of=setup.options.cost_of,
            pass_s=partial(drafter_pass_s, setup, seconds),
            target=served.model,
            on_own_devices=on_own_devices,
            expansions=proposed.expansions,
            all_accepted=None if all_accepted is None else np.nan_to_num(all_accepted),
        )
    )


def engine_round_s(
    setup: Setup, drafter: Drafter, proposed: Proposals, batch_size: npt.ArrayLike
) -> Array:
    r"""Return what an engine adds to a round: :math:`t_{round} + B \, t_{sequence} + t_{tree}`.

    B are the sequences of a group of data-parallel attention, which has a scheduler of its own.
    Where drafts are looked up, a share of the first two that the engine states. A round that waits
    for the host takes :math:`t_{host} + B \, t_{host,sequence}` more.

    Parameters
    ----------
    setup
        Where the target runs.
    drafter, proposed
        What drafts, and what it proposes.
    batch_size
        Sequences of the round, over all groups.

    Examples
    --------
    >>> from specroof import constant_acceptance, load_drafter, load_hardware
    >>> from specroof.hardware import EngineProfile
    >>> from specroof.latency import engine_setup
    >>> two_groups = Placement(tensor_parallel=2, attention_data_parallel=2)
    >>> engine = EngineProfile(name="e", round_overhead_s=1.0, round_sequence_overhead_s=0.5)
    >>> setup = replace(engine_setup(load_hardware("h100"), None, two_groups, None), engine=engine)
    >>> drafter = load_drafter("ideal")
    >>> chain = proposals(drafter, constant_acceptance(1.0), np.array([1]))
    >>> engine_round_s(setup, drafter, chain, [2, 16])
    array([1.5, 5. ])
    """
    engine = setup.engine
    batch = np.asarray(batch_size) / setup.placement.attention_data_parallel
    model_s = engine.round_overhead_s + engine.round_sequence_overhead_s * batch
    frac = engine.lookup_round_frac if proposed.looked_up else 1.0
    tree_s = engine.tree_round_overhead_s * proposed.branches
    host_s = waits_for_host(setup, drafter) * (engine.host_s + engine.host_sequence_s * batch)
    return np.asarray(frac * model_s + tree_s + host_s)


def waits_for_host(setup: Setup, drafter: Drafter) -> bool:
    """Return whether rounds of a drafter wait for a host that works beside plain steps."""
    if setup.engine.overlap is not True:
        return setup.engine.overlap == "plain"
    return setup.server is not None and drafter.kind in setup.server.synchronous


def round_time(verify_s: Array, drafting: DraftTime, engine_s: Array) -> Array:
    r"""Return the seconds of a round: the one formula that everything calls.

    .. math:: t = t_{serial} + \max(t_{verify}, t_{overlapped}) + t_{engine}

    Parameters
    ----------
    verify_s
        Of the verification.
    drafting
        Before the verification, and while it runs.
    engine_s
        What the engine adds: see `engine_round_s`.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8; Sadhukhan et al. 2024,
        arXiv:2408.11049, section 3, with the cost of verification.

    Examples
    --------
    >>> drafting = DraftTime(np.array(2.0), overlapped_s=np.array(5.0))
    >>> float(round_time(np.array(4.0), drafting, np.array(5.0)))  # 2 + 5 + 5
    12.0
    """
    felt_s = np.maximum(verify_s, drafting.overlapped_s)
    return np.asarray(drafting.serial_s + felt_s + engine_s)


def staged_round_time(
    served: Deployment, verification: ForwardPass, drafting: DraftTime, engine_s: Array
) -> Array:
    r"""Return the seconds in which every sequence of a pipeline has one round.

    .. math:: \max \left( t_{round}(t_{verify}), \; m \, t_{round}(t_{stage}) \right)

    A micro-batch is verified in all stages and drafts in the last: its next round waits for both.
    Meanwhile the last stage has the m micro-batches one after another, with the drafts of each.

    Parameters
    ----------
    served, verification
        The target, and the pass over all sequences.
    drafting, engine_s
        Of a micro-batch: see `round_time`.

    Source
        Counting. vLLM 0.33.0 ``config/speculative.py`` and SGLang 0.5.23 ``managers/scheduler.py``,
        ``maybe_init_draft_worker``: drafters run on the last stage.
    """
    setup = served.setup
    work = model_work(served.model, setup, verification, by_sequence=True)
    latency = pass_time(work, setup.engine, setup.options.granularity)
    through_s = round_time(latency.total_s - latency.waiting_s, drafting, engine_s)
    busy_s = round_time(np.asarray(latency.stage_s), drafting, engine_s)
    return np.maximum(through_s, micro_batches(verification.batch_size, setup.placement) * busy_s)


@dataclass(frozen=True, slots=True, eq=False)
class RoundTimes:
    """Seconds of rounds over a grid; draft length 0 is the plain step.

    Parameters
    ----------
    draft_s, verify_s, round_s
        Of drafting, of verification, and of the whole round.
    notes
        What there is to say about the passes.
    """

    draft_s: Array
    verify_s: Array
    round_s: Array
    notes: tuple[str, ...]


def round_times(
    served: Deployment,
    drafter: Drafter,
    proposed: Proposals,
    grid: tuple[Array, Array, IntArray],
) -> RoundTimes:
    """Return seconds of drafting, verification and round over a grid.

    Parameters
    ----------
    served
        The target.
    drafter, proposed
        What drafts, and what it proposes at each draft length.
    grid
        Contexts, batch sizes and draft lengths, as arrays that broadcast in this order; draft
        lengths begin with 0.
    """
    contexts, batches, draft_lens = grid
    said: dict[str, None] = {}
    passes = partial(engine_pass_s, notes=said)
    verification = ForwardPass(batches, proposed.verify_len, contexts)
    verify_s = passes(served, verification)
    shape = np.broadcast_shapes(contexts.shape, batches.shape, draft_lens.shape)
    verify_s = np.broadcast_to(verify_s, shape)
    target_s = (verify_s[..., :1], verify_s)
    placement, together = served.setup.placement, batches
    if placement.pipeline_parallel > 1:  # rounds are of micro-batches
        together = batches / micro_batches(batches, placement)
    load = (contexts, together, draft_lens)
    drafting = draft_time(served, drafter, proposed, load, target_s, passes)
    speculates = draft_lens > 0
    added_s = engine_round_s(served.setup, drafter, proposed, together)
    round_s = round_time(verify_s, drafting, added_s)
    if placement.pipeline_parallel > 1:
        round_s = staged_round_time(served, verification, drafting, added_s)
    draft_s = drafting.serial_s + drafting.overlapped_s
    notes, engine = tuple(said), served.setup.engine
    if engine.host_s and waits_for_host(served.setup, drafter):
        host = f"{drafter.kind} is scheduled synchronously: a round waits "
        host += f"{format_seconds(engine.host_s)} for the host, and "
        notes += (f"{host}{format_seconds(engine.host_sequence_s)} for each sequence",)
    # Past the depth, neither tokens nor seconds are known.
    known = np.where(np.isfinite(proposed.tokens_per_round), 1.0, np.nan)
    return RoundTimes(
        draft_s=np.where(speculates, draft_s, 0.0) * known,
        verify_s=verify_s * known,
        round_s=np.where(speculates, round_s, verify_s) * known,
        notes=notes,
    )
