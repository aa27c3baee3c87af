"""One round of speculation: what a drafter proposes, what drafting and verification take."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.cost import ForwardPass
from specroof.drafters import Drafter, Price, Proposals, Round, TokensPerRound, Work
from specroof.hardware import HardwareProfile, Placement
from specroof.latency import Setup
from specroof.latency.model import check_placement, drafting_setup, model_latency

__all__ = ["draft_price", "proposals", "round_times"]

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def proposals(drafter: Drafter, tokens: TokensPerRound, draft_len: IntArray) -> Proposals:
    """Return what is verified and expected at each draft length, unknown past the depth.

    Parameters
    ----------
    drafter
        What proposes.
    tokens
        How much of it is accepted.
    draft_len
        Whole numbers from 0.
    """
    found = drafter.propose(tokens, draft_len)
    if drafter.max_draft_len is None:
        return found
    within = draft_len <= drafter.max_draft_len
    return replace(found, tokens_per_round=np.where(within, found.tokens_per_round, np.nan))


def draft_price(setup: Setup, notes: dict[str, None]) -> Price:
    """Return the prices of a drafter's passes; what there is to say about them goes to `notes`."""
    drafting = drafting_setup(setup)

    def price(architecture: Architecture, forward: ForwardPass, /, *beside: Work) -> Array:
        check_placement(architecture, drafting.placement)
        works = tuple((work.architecture, work.forward_pass, work.times) for work in beside)
        latency = model_latency(architecture, drafting, forward, beside=works)
        notes.update(dict.fromkeys(latency.notes))
        return latency.total_s

    return price


def _elsewhere(
    setup: Setup, notes: dict[str, None]
) -> Callable[[HardwareProfile | None, Placement | None], Price]:
    """Return the prices on other devices, where the same engine runs, or over fewer of them."""

    def elsewhere(hardware: HardwareProfile | None, placement: Placement | None) -> Price:
        moved = replace(setup, placement=placement or setup.placement)
        if hardware is not None:
            engine = hardware.engine(setup.engine.name)
            moved = replace(moved, hardware=hardware, engine=engine)
        return draft_price(moved, notes)

    return elsewhere


def round_times(
    model: Architecture,
    setup: Setup,
    drafter: Drafter,
    proposed: Proposals,
    grid: tuple[Array, Array, IntArray],
    notes: dict[str, None],
) -> tuple[Array, Array, Array]:
    """Return seconds of drafting, verification and round; draft length 0 is the plain step.

    Parameters
    ----------
    model, setup
        What is served, where.
    drafter, proposed
        What drafts, and what it proposes at each draft length.
    grid
        Contexts, batch sizes and draft lengths, as arrays that broadcast in this order.
    notes
        Where sentences for the reader go.
    """
    contexts, batches, draft_lens = grid
    expected = proposed.tokens_per_round
    verify = model_latency(model, setup, ForwardPass(batches, proposed.verify_len, contexts))
    notes.update(dict.fromkeys(verify.notes))
    shape = np.broadcast_shapes(contexts.shape, batches.shape, draft_lens.shape)
    verify_s = np.broadcast_to(verify.total_s, shape)
    drafted = np.maximum(draft_lens, 1)  # a drafter is never asked for nothing
    time = drafter.draft(
        Round(
            draft_len=drafted.astype(np.float64),
            batch_size=batches,
            context_len=contexts,
            tokens_per_round=expected,
            decode_s=verify_s[..., :1],
            verify_s=verify_s,
            cost_of=setup.options.cost_of,
            price=draft_price(setup, notes),
            target=model,
            elsewhere=_elsewhere(setup, notes),
            expansions=proposed.expansions,
        )
    )
    speculates = draft_lens > 0
    known = np.where(np.isfinite(expected), 1.0, np.nan)  # no depth, no time
    serial_s = np.where(speculates, time.serial_s, 0.0)
    felt_s = np.maximum(verify_s, np.where(speculates, time.overlapped_s, 0.0))
    engine = setup.engine
    per_round_s = engine.round_overhead_s + engine.round_sequence_overhead_s * batches
    added_s = np.where(speculates, per_round_s, 0.0)
    draft_s = np.where(speculates, time.serial_s + time.overlapped_s, 0.0)
    return draft_s * known, verify_s * known, (serial_s + felt_s + added_s) * known
