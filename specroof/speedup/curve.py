"""Where work meets probability: a round, and the curve over context, batch and draft length."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.acceptance import Acceptance, ContextAcceptance, acceptance_notes, constant_acceptance
from specroof.architecture.model import Architecture
from specroof.arrays import Array, IntArray, array_within, whole_within
from specroof.cost import ForwardPass
from specroof.drafters import (
    Drafter,
    DraftTime,
    PassTime,
    PromptRead,
    Proposals,
    Round,
    TokensPerRound,
)
from specroof.errors import OptionError, expect, refuse, reject
from specroof.frameworks import LOCAL_FRAMEWORKS, InputSlots
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.model import (
    Work,
    engine_notes,
    memory_notes,
    micro_batches,
    model_latency,
    model_work,
    padded_pass,
    setup_notes,
    without_launches,
)
from specroof.latency.pass_seconds import PassLatency, pass_time
from specroof.latency.setup import (
    Deployment,
    Setup,
    check_placement,
    draft_placement,
    drafting_setup,
    expect_host,
    reading_notes,
)
from specroof.speedup.reach import evidence_engine, evidence_notes
from specroof.speedup.result import SpeedupCurve, best_index, tokens_spread
from specroof.units import MOST_POINTS, format_seconds

# --- One round of speculation: which passes it takes, and its seconds by those of its passes ------


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
        check_placement(architecture, draft_placement(architecture, setup))
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
        For more of the target's devices than it has, or a stage of its pipeline; for a CPU that is
        not named beside the chip, or an engine that cannot use it.
    """
    if hardware == "cpu":
        expect_host("device is cpu", setup.hardware, setup.engine.name, setup.release)
        return replace(setup, placement=Placement(nodes=1), on_host=True)
    stage = setup.placement
    devices = 0 if hardware is not None or placement is None else placement.devices
    if devices > stage.tensor_parallel:
        where = "a stage" if stage.pipeline_parallel > 1 else "the target"
        reject(
            f"tp= of the drafter is {devices}",
            f"up to {stage.tensor_parallel}, the devices of {where}; device= for others",
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
    again = setup.release.reads_verified
    keeps = setup.engine.rules in LOCAL_FRAMEWORKS and not again
    all_accepted = proposed.all_accepted if keeps else None
    verified_len = None
    if setup.release.rereads_rejected:
        slots = setup.release.input_slots.get(drafter.kind, InputSlots())
        verified_len = np.asarray(proposed.verify_len + float(slots.first))
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
            on_own_devices=partial(_pass_time_on, setup, seconds),
            expansions=proposed.expansions,
            all_accepted=None if all_accepted is None else np.nan_to_num(all_accepted),
            reads_verified=again,
            verified_len=verified_len,
        )
    )


def _pass_time_on(
    setup: Setup,
    seconds: PassSeconds,
    hardware: HardwareProfile | Literal["cpu"] | None,
    placement: Placement | None,
) -> PassTime:
    """Return the seconds of passes of a drafter that has hardware or a placement of its own."""
    return partial(drafter_pass_s, own_setup(setup, hardware, placement), seconds)


def prompt_read_s(
    served: Deployment,
    drafter: Drafter,
    prompts: ForwardPass,
    seconds: PassSeconds = engine_pass_s,
) -> Array:
    """Return the seconds in which a drafter reads prompts, behind the target's pass over them.

    Parameters
    ----------
    served, drafter
        The target, and what drafts for it.
    prompts
        The target's pass.
    seconds
        Of each pass that the drafter asks for.

    Examples
    --------
    >>> from specroof import load_drafter, load_hardware, load_model
    >>> from specroof.latency.setup import engine_setup
    >>> prompt = ForwardPass(1, 8192, 0, head_len=1, settled=True)
    >>> setup = engine_setup(load_hardware("h100"), "vllm", None, None)
    >>> served = Deployment(load_model("Qwen/Qwen3-8B"), setup)
    >>> shares = (
    ...     prompt_read_s(served, load_drafter(kind), prompt) / engine_pass_s(served, prompt)
    ...     for kind in ("eagle3", "dflash", "ngram")
    ... )
    >>> [round(float(share), 3) for share in shares]
    [0.041, 0.025, 0.0]
    """
    setup = served.setup
    return drafter.read(
        PromptRead(
            prompts,
            served.model,
            partial(drafter_pass_s, setup, seconds),
            partial(_pass_time_on, setup, seconds),
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
    >>> from specroof.hardware.engine import EngineProfile
    >>> from specroof.latency.setup import engine_setup
    >>> two_groups = Placement(tensor_parallel=2, attention_data_parallel=2)
    >>> engine = EngineProfile(name="e", round_overhead_s=1.0, round_sequence_overhead_s=0.5)
    >>> setup = replace(engine_setup(load_hardware("h100"), None, two_groups, None), engine=engine)
    >>> drafter = load_drafter("ideal")
    >>> chain = proposals(drafter, constant_acceptance(1.0), np.array([1]))
    >>> engine_round_s(setup, drafter, chain, [2, 16])
    array([1.5, 5. ])
    >>> slow = replace(setup, engine=replace(engine, tree_round_overhead_s=2.0))
    >>> engine_round_s(slow, drafter, replace(chain, branches=np.array([True])), [2, 16])
    array([3.5, 7. ])
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
    return np.maximum(through_s, micro_batches(verification.batch_size, setup) * busy_s)


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
        together = batches / micro_batches(batches, served.setup)
    load = (contexts, together, draft_lens)
    drafting = draft_time(served, drafter, proposed, load, target_s, passes)
    added_s = engine_round_s(served.setup, drafter, proposed, together)
    round_s = round_time(verify_s, drafting, added_s)
    if placement.pipeline_parallel > 1:
        round_s = staged_round_time(served, verification, drafting, added_s)
    notes, engine = tuple(said), served.setup.engine
    if engine.host_s and waits_for_host(served.setup, drafter):
        host = f"{drafter.kind} is scheduled synchronously: a round waits "
        host += f"{format_seconds(engine.host_s)} for the host, and "
        notes += (f"{host}{format_seconds(engine.host_sequence_s)} for each sequence",)
    draft_s, verify_s, round_s = (
        np.array(np.broadcast_to(seconds, shape))
        for seconds in (drafting.serial_s + drafting.overlapped_s, verify_s, round_s)
    )
    draft_s[..., 0], round_s[..., 0] = 0.0, verify_s[..., 0]
    for seconds in (draft_s, verify_s, round_s):
        # Past the depth, neither tokens nor seconds are known.
        seconds[..., ~np.isfinite(proposed.tokens_per_round)] = np.nan
    return RoundTimes(draft_s, verify_s, round_s, notes)


# --- The axes of a grid: contexts, batch sizes and draft lengths, checked before any is priced ---

#: Contexts, batch sizes and draft lengths of a grid.
Axes: TypeAlias = tuple[Array, Array, IntArray]

#: Bytes of a point over those of decoding alone, about 100: with the times of requests 290, and as
#: lists and text 600 (JSON) or 430 (CSV), or 1 270 with requests; a row of an answer 4 000.
REQUEST_WEIGHT: Final = 3
TEXT_WEIGHT: Final = 6
ROW_WEIGHT: Final = 40

#: Operating points that are computed at once: their temporaries stay within some tens of MB.
_CHUNK_POINTS: Final = 1 << 18
#: An array of so many numbers, 31.5 MB, is freed before a grid is computed: glibc's `malloc` keeps
#: up to twice the largest array that was freed so far. Without it, it returns each temporary to
#: Linux and has its pages cleared for the next one, which takes longer than all arithmetic.
_FREED_NUMBERS: Final = 15 * _CHUNK_POINTS


def grid_axes(context_len: npt.ArrayLike, batch_size: npt.ArrayLike, max_draft_len: int) -> Axes:
    """Return the axes of a grid.

    Parameters
    ----------
    context_len
        Cached tokens of each sequence: a number or a list of numbers.
    batch_size
        Sequences in flight: a number or a list of numbers.
    max_draft_len
        The longest draft; the last axis runs from 0 to it.

    Raises
    ------
    OptionError
        For an axis that is not a list of numbers within their bounds, or for more points than the
        memory of a machine holds.

    Examples
    --------
    >>> grid_axes(4096, [1, 8], 2)
    (array([4096.]), array([1., 8.]), array([0, 1, 2]))
    """
    contexts, batches = (
        np.atleast_1d(array_within(name, values, name))
        for name, values in (("context_len", context_len), ("batch_size", batch_size))
    )
    for name, axis in (("context_len", contexts), ("batch_size", batches)):
        if axis.ndim != 1:
            reject(f"{name} has shape {axis.shape}", "a number or a list of numbers")
    refuse_many_points((len(contexts), len(batches), max_draft_len + 1))
    return contexts, batches, np.arange(max_draft_len + 1, dtype=np.int64)


def refuse_many_points(
    shape: Sequence[int], *, curves: int = 1, weight: int = 1, why: str = ""
) -> None:
    """Refuse more points than the memory of a machine holds, before they are held.

    Parameters
    ----------
    shape
        Contexts, batch sizes and draft lengths of each curve.
    curves
        Curves that are held at a time: drafters, on each chip.
    weight
        What a point is held in, in points of a curve of decoding: `REQUEST_WEIGHT`, `TEXT_WEIGHT`,
        or their product.
    why
        What makes it heavier, for the refusal.

    Raises
    ------
    OptionError
        For more than `MOST_POINTS` of that weight.

    Examples
    --------
    >>> refuse_many_points([30, 300, 1025], weight=TEXT_WEIGHT, why=" as JSON")
    Traceback (most recent call last):
    specroof.errors.OptionError: the grid has 30 x 300 x 1025 points (contexts, batch sizes and
    draft lengths) as JSON; allowed: up to 1666666
    """
    if math.prod(shape) * curves * weight > MOST_POINTS:
        sizes = " x ".join(str(size) for size in shape)
        each = f" on each of {curves} curves" if curves > 1 else ""
        reject(
            f"the grid has {sizes} points (contexts, batch sizes and draft lengths){each}{why}",
            f"up to {MOST_POINTS // weight}{' in all' * (curves > 1)}",
        )


def grid_slices(shape: tuple[int, int, int]) -> Iterator[tuple[slice, slice]]:
    """Yield slices of the first two axes that hold at most `_CHUNK_POINTS` points each."""
    contexts, batches, drafts = shape
    columns = max(1, min(batches, _CHUNK_POINTS // drafts))
    rows = max(1, min(contexts, _CHUNK_POINTS // (drafts * columns)))
    for row in range(0, contexts, rows):
        for column in range(0, batches, columns):
            yield slice(row, row + rows), slice(column, column + columns)


DEFAULT_MAX_DRAFT_LEN: Final = 16


def decoding_curve(  # noqa: PLR0913 - a grid, and what requests reach beyond it
    deployment: Deployment,
    drafter: Drafter,
    acceptance: TokensPerRound | ContextAcceptance,
    batch_size: npt.ArrayLike,
    *,
    context_len: npt.ArrayLike,
    max_draft_len: int,
    longest: float = 0.0,
) -> SpeedupCurve:
    r"""Return what speculative decoding gains over a grid of operating points.

    Memory has no end here, and no prompt is computed: `specroof.serving.served.served_curve`
    counts both.

    .. math:: \text{speedup} = \frac{N(\gamma) \; t_1}
        {t_{serial}(\gamma) + \max(t_{verify}(\gamma + 1), t_{overlapped}(\gamma)) + t_{over}}

    Parameters
    ----------
    deployment
        What is served, and where.
    drafter, acceptance
        What drafts, and how much of it is accepted: see `acceptance_of`. Acceptance by context
        leaves contexts unknown that it does not reach.
    batch_size, context_len
        A number or a list each, above 0 and at least 0: sequences in flight over all devices,
        and cached tokens of each.
    max_draft_len
        The longest draft of the grid, with NaN past the depth of drafter or acceptance.
    longest
        Tokens of requests at their end, of which contexts are means.

    Returns
    -------
    SpeedupCurve
        Its arrays have the axes (context_len, batch_size, draft_len).

    Raises
    ------
    OptionError
        For values outside of what is allowed, and a placement that does not divide the model.
    ProfileError
        If the device cannot compute a dtype.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8; Sadhukhan et al. 2024,
        arXiv:2408.11049, section 3, with the cost of verification.
    """
    check_placement(deployment.model, deployment.setup.placement)
    contexts, batches, draft_lens = axes = grid_axes(context_len, batch_size, max_draft_len)
    if not isinstance(acceptance, ContextAcceptance):
        return _curve_at(axes, deployment, drafter, acceptance, longest)
    # Each context has an acceptance of its own.
    curves = [
        _curve_at(
            (np.array([at]), batches, draft_lens),
            *(deployment, drafter, acceptance.at_context(at), longest),
        )
        for at in contexts.tolist()
    ]
    of_points = ("tokens_per_round", "draft_s", "verify_s", "round_s", "launched")
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(curve, name) for curve in curves]) for name in of_points
    }
    below, above = (np.stack([curve.spread[end] for curve in curves])[:, None] for end in (0, 1))
    return replace(
        curves[0],
        context_len=contexts,
        **joined,
        notes=tuple(dict.fromkeys(note for curve in curves for note in curve.notes)),
        measured_draft_len=acceptance.measured_depth,
        spread=(below, above),
        acceptance_from=acceptance.description,
    )


def _curve_at(
    axes: Axes,
    deployment: Deployment,
    drafter: Drafter,
    acceptance: TokensPerRound,
    longest: float,
) -> SpeedupCurve:
    """Return the curve over a grid on which acceptance does not depend on the context."""
    contexts, batches, draft_lens = axes
    model, setup, kind = deployment.model, deployment.setup, drafter.kind
    cost_from = drafter.describe(model)  # refuses a model that the drafter does not fit
    evidence = evidence_engine(deployment)
    proposed = proposals(drafter, acceptance, draft_lens)
    shape = (len(contexts), len(batches), len(draft_lens))
    times: dict[str, Any] = {name: np.empty(shape) for name in ("draft_s", "verify_s", "round_s")}
    of_passes: list[str] = []
    np.empty(_FREED_NUMBERS)
    for rows, columns in grid_slices(shape):
        grid = (contexts[rows, None, None], batches[None, columns, None], draft_lens)
        part = round_times(deployment, drafter, proposed, grid)
        for name, seconds in times.items():
            seconds[rows, columns] = getattr(part, name)
        of_passes += part.notes
    launched = np.ones(shape)
    if (least := without_launches(model, setup)) is not None:
        # Batches that graphs hold, at all draft lengths, have no launches to leave out.
        verification = ForwardPass(batches[:, None], proposed.verify_len, 0.0)
        eager = padded_pass(verification, setup)[1]
        launching = np.flatnonzero(eager.any(axis=-1))
        for rows, columns in grid_slices((len(contexts), len(launching), len(draft_lens))):
            some = launching[columns]
            grid = (contexts[rows, None, None], batches[None, some, None], draft_lens)
            without = round_times(Deployment(model, least), drafter, proposed, grid)
            launched[rows, some] = times["round_s"][rows, some] / without.round_s
    notes = (
        *model.notes,
        *setup_notes(model, setup),
        *reading_notes(model, setup),
        *of_passes,
        *acceptance_notes(acceptance, model.name),
        *engine_notes(setup),
        *evidence_notes(deployment, kind, contexts, batches, evidence),
        *memory_notes(model, setup, contexts, batches, longest=longest, drafting=drafter.own_model),
    )
    return SpeedupCurve(
        model=model.name,
        hardware=setup.hardware.name,
        engine=setup.engine.name,
        drafter=drafter.name,
        placement=setup.placement,
        context_len=contexts,
        batch_size=batches,
        draft_len=draft_lens,
        verify_len=proposed.verify_len,
        tokens_per_round=np.broadcast_to(proposed.tokens_per_round, shape),
        **times,
        notes=tuple(dict.fromkeys(notes)),
        cost_from=cost_from,
        acceptance_from=acceptance.description,
        measured_draft_len=acceptance.measured_depth,
        band=evidence.band(kind),
        spread=tokens_spread(acceptance, draft_lens),
        launched=launched,
        served_bands=evidence.served_bands,
    )


def pass_latency(deployment: Deployment, forward_pass: ForwardPass) -> PassLatency:
    """Return the seconds of one forward pass, and of each operation in it.

    Parameters
    ----------
    deployment
        What runs, and where.
    forward_pass
        Batch, new positions and context; arrays broadcast.

    Returns
    -------
    PassLatency
        ``total_s`` has the shape that the fields of `forward_pass` broadcast to.

    Raises
    ------
    OptionError
        For a placement that does not divide the model.
    ProfileError
        If the device cannot compute a dtype.

    Source
        See `specroof.latency.pass_seconds.pass_time`.
    """
    model, setup = deployment.model, deployment.setup
    check_placement(model, setup.placement)
    latency = model_latency(model, setup, forward_pass)
    shape = np.broadcast_shapes(forward_pass.tokens.shape, forward_pass.context_len.shape)
    # A prompt is cached by its own pass; what a verification adds is a few tokens.
    added = forward_pass.query_len if forward_pass.settled else 0.0
    held = memory_notes(model, setup, forward_pass.context_len + added, forward_pass.batch_size)
    notes = (
        *model.notes,
        *setup_notes(model, setup),
        *latency.notes,
        *engine_notes(setup),
        *held,
    )
    return replace(latency, work_s=np.broadcast_to(latency.work_s, shape), notes=notes)


def acceptance_of(
    drafter: Drafter, acceptance: Acceptance | ContextAcceptance | None = None
) -> TokensPerRound | ContextAcceptance:
    """Return the one acceptance that was given: here or in the drafter's SPEC.

    Raises
    ------
    OptionError
        If there is none, or more than one.
    """
    expect("drafter", drafter, Drafter, "a Drafter, from load_drafter")
    kinds = Acceptance | ContextAcceptance | None
    expect("acceptance", acceptance, kinds, "an Acceptance, as of constant_acceptance")
    if drafter.is_ideal:
        if acceptance is not None:
            msg = "acceptance is given with drafter 'ideal', which accepts everything"
            raise OptionError(msg)
        return constant_acceptance(1.0)
    if acceptance is not None and drafter.acceptance is not None:
        msg = f"acceptance is given twice: as an argument and in drafter {drafter.name!r}"
        raise OptionError(msg)
    given = acceptance or drafter.acceptance
    if given is None:
        msg = (
            f"drafter {drafter.name!r} has no acceptance; give one, as in {drafter.name},accept=0.8 "
            "or profile=NAME (`specroof acceptance` lists measured ones)"
        )
        raise OptionError(msg)
    return given


def draft_depth(drafter: Drafter, acceptance: TokensPerRound | ContextAcceptance) -> float:
    """Return the longest draft that drafter and acceptance know; inf where there is no end."""
    depths = (drafter.max_draft_len, acceptance.max_draft_len)
    return min(math.inf if depth is None else depth for depth in depths)


def longest_draft(
    drafter: Drafter,
    acceptance: TokensPerRound | ContextAcceptance,
    max_draft_len: int | None,
    *,
    name: str = "max_draft_len",
) -> int:
    """Return the longest draft of the grid, which must be within the depth if it was chosen.

    Parameters
    ----------
    drafter, acceptance
        What drafts, and how much of it is accepted.
    max_draft_len
        The longest draft; the default if None.
    name
        How refusals call it.

    Raises
    ------
    OptionError
        Unless `max_draft_len` is a whole number within the depth.
    """
    if max_draft_len is None:
        return DEFAULT_MAX_DRAFT_LEN
    drafts = whole_within(name, max_draft_len, "draft_len")
    depth = draft_depth(drafter, acceptance)
    if drafts > depth:
        refuse(name, max_draft_len, f"at most {depth:g}, the depth of {drafter.name!r}")
    return drafts


def drafting_gain(curve: SpeedupCurve, draft_len: int | None) -> tuple[Array, IntArray]:
    """Return the speedup of rounds that do draft, and their draft length, axes (context, batch).

    Parameters
    ----------
    curve
        What drafting gains.
    draft_len
        Drafts per round; None for the best from 1 on, within the measured depth.

    Returns
    -------
    tuple
        The speedup, -inf where the server does not run these drafts, and the draft length.

    Source
        `SpeedupCurve.best_speedup`, where drafting is optional; here it is not.

    Examples
    --------
    >>> from specroof import speedup_curve
    >>> loses = speedup_curve("Qwen/Qwen3-8B", "b200", drafter="block,accept=0,cost=1,drafts=4")
    >>> gains, drafts = drafting_gain(loses, None)
    >>> bool(gains[0, 0] < 0.5), loses.best_speedup.item(), drafts.tolist()
    (True, 1.0, [[1]])
    """
    speedup = np.where(np.isnan(curve.speedup), -np.inf, curve.speedup)
    if draft_len is not None:
        return speedup[..., draft_len], np.full(speedup.shape[:2], draft_len)
    best = best_index(curve.choices[..., 1:]) + 1
    return np.take_along_axis(speedup, best[..., None], axis=-1)[..., 0], best
