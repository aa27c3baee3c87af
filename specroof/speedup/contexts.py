"""Curves whose acceptance depends on the context: one for each context, joined."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specroof.acceptance import Acceptance, ContextAcceptance
from specroof.arrays import Array
from specroof.speedup.result import SpeedupCurve

__all__ = ["joined_contexts"]


def joined_contexts(
    contexts: Array,
    acceptance: ContextAcceptance,
    curve_at: Callable[[float, Acceptance], SpeedupCurve],
) -> SpeedupCurve:
    """Return the curve over several contexts, each with the acceptance that belongs to it.

    Parameters
    ----------
    contexts
        The axis, shape (contexts,).
    acceptance
        What is accepted at which context.
    curve_at
        The curve at one context with one acceptance.
    """
    curves = [curve_at(one, acceptance.at_context(one)) for one in contexts.tolist()]
    notes = dict.fromkeys(note for one in curves for note in one.notes)
    # Outside the contexts of the measurement nothing is known of any draft: 0.
    measured = [one.measured_draft_len for one in curves if one.measured_draft_len]
    below, above = (np.stack([one.spread[end] for one in curves])[:, None] for end in (0, 1))
    return replace(
        curves[0],
        context_len=contexts,
        tokens_per_round=np.concatenate([one.tokens_per_round for one in curves]),
        draft_s=np.concatenate([one.draft_s for one in curves]),
        verify_s=np.concatenate([one.verify_s for one in curves]),
        round_s=np.concatenate([one.round_s for one in curves]),
        notes=tuple(notes),
        measured_draft_len=min(measured, default=None),
        spread=(below, above),
        acceptance_from=acceptance.description,
    )
