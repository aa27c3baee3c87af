"""Where work meets probability: the whole speedup curve over context, batch and draft length."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.acceptance import (
    Acceptance,
    ContextAcceptance,
    acceptance_notes,
    constant_acceptance,
)
from specroof.arrays import Array, IntArray, array_within, whole_within
from specroof.cost import ForwardPass
from specroof.drafters import Drafter, TokensPerRound
from specroof.errors import OptionError, expect, refuse, reject
from specroof.latency import (
    Deployment,
    PassLatency,
    check_placement,
    engine_notes,
    memory_notes,
    model_latency,
    reading_notes,
    setup_notes,
    without_launches,
)
from specroof.speedup.reach import evidence_engine, reach_notes
from specroof.speedup.result import SpeedupCurve, band_notes, best_index, tokens_spread
from specroof.speedup.round import proposals, round_times
from specroof.units import MOST_POINTS

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


def decoding_curve(
    deployment: Deployment,
    drafter: Drafter,
    acceptance: TokensPerRound | ContextAcceptance,
    batch_size: npt.ArrayLike,
    *,
    context_len: npt.ArrayLike,
    max_draft_len: int,
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
        return _curve_at(axes, deployment, drafter, acceptance)
    # Each context has an acceptance of its own.
    curves = [
        _curve_at(
            (np.array([at]), batches, draft_lens), deployment, drafter, acceptance.at_context(at)
        )
        for at in contexts.tolist()
    ]
    notes = dict.fromkeys(note for curve in curves for note in curve.notes)
    below, above = (np.stack([curve.spread[end] for curve in curves])[:, None] for end in (0, 1))
    return replace(
        curves[0],
        context_len=contexts,
        tokens_per_round=np.concatenate([curve.tokens_per_round for curve in curves]),
        draft_s=np.concatenate([curve.draft_s for curve in curves]),
        verify_s=np.concatenate([curve.verify_s for curve in curves]),
        round_s=np.concatenate([curve.round_s for curve in curves]),
        launched=np.concatenate([curve.launched for curve in curves]),
        notes=tuple(notes),
        measured_draft_len=acceptance.measured_depth,
        spread=(below, above),
        acceptance_from=acceptance.description,
    )


def _curve_at(
    axes: Axes, deployment: Deployment, drafter: Drafter, acceptance: TokensPerRound
) -> SpeedupCurve:
    """Return the curve over a grid on which acceptance does not depend on the context."""
    contexts, batches, draft_lens = axes
    model, setup, kind = deployment.model, deployment.setup, drafter.kind
    cost_from = drafter.describe(model)  # refuses a model that the drafter does not fit
    evidence = evidence_engine(deployment)
    proposed = proposals(drafter, acceptance, draft_lens)
    shape = (len(contexts), len(batches), len(draft_lens))
    times = {name: np.empty(shape) for name in ("draft_s", "verify_s", "round_s")}
    of_passes: list[str] = []
    least, launched = without_launches(model, setup), np.ones(shape)
    for rows, columns in grid_slices(shape):
        grid = (contexts[rows, None, None], batches[None, columns, None], draft_lens)
        part = round_times(deployment, drafter, proposed, grid)
        for name, seconds in times.items():
            seconds[rows, columns] = getattr(part, name)
        of_passes += part.notes
        if least is not None:
            without = round_times(Deployment(model, least), drafter, proposed, grid)
            launched[rows, columns] = part.round_s / without.round_s
    notes = (
        *model.notes,
        *setup_notes(model, setup),
        *reading_notes(model, setup),
        *of_passes,
        *acceptance_notes(acceptance, model.name),
        *engine_notes(setup),
        *band_notes(evidence, kind),
        *reach_notes(deployment, kind, contexts, batches),
        *memory_notes(model, setup, contexts, batches),
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
        tokens_per_round=np.broadcast_to(proposed.tokens_per_round, times["round_s"].shape),
        draft_s=times["draft_s"],
        verify_s=times["verify_s"],
        round_s=times["round_s"],
        notes=tuple(dict.fromkeys(notes)),
        cost_from=cost_from,
        acceptance_from=getattr(acceptance, "description", ""),
        measured_draft_len=getattr(acceptance, "measured_depth", None),
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
        See `specroof.latency.pass_time`.
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
