"""What an engine profile predicts for the points of a benchmark."""

import numpy as np

from specroof.acceptance import acceptance_from_length, constant_acceptance
from specroof.architecture import Architecture
from specroof.calibrate.readers import BenchmarkPoint
from specroof.drafters import Drafter, TokensPerRound, ideal_drafter
from specroof.errors import MeasurementError
from specroof.latency import Setup
from specroof.rounds import proposals, round_times
from specroof.workload import end_to_end_tokens_per_s, request_s

__all__ = ["predicted_tokens_per_s"]


def predicted_tokens_per_s(
    point: BenchmarkPoint, model: Architecture, setup: Setup, drafter: Drafter | None
) -> float:
    """Return output tokens per second of the whole batch.

    Parameters
    ----------
    point
        The load; its prefills count where it says how long they are.
    model, setup
        What is served, and where.
    drafter
        What drafts; None if nothing does.

    Raises
    ------
    MeasurementError
        For a point with drafts, of which nobody says who makes them or how many are accepted.

    Source
        See `specroof.solver.speedup_curve` and `specroof.workload.end_to_end_tokens_per_s`.
    """
    who, tokens = _drafting(point, drafter)
    draft_lens = np.array([0, point.draft_len]) if point.draft_len else np.array([0])
    grid = (np.array([[[point.context_len]]]), np.array([[[point.batch_size]]]), draft_lens)
    proposed = proposals(who, tokens, draft_lens)
    _, _, round_s = round_times(model, setup, who, proposed, grid, {})
    token_s = float(round_s[0, 0, -1]) / float(proposed.tokens_per_round[-1])
    if not np.isfinite(token_s):
        message = f"{point.place}: {point.draft_len} drafts are more than {who.name} makes"
        raise MeasurementError(message)
    if point.input_len is None or point.output_len is None:
        return point.batch_size / token_s
    wait_s = request_s(model, setup, point.input_len)
    rate = end_to_end_tokens_per_s(
        point.batch_size,
        token_s,
        wait_s=wait_s,
        output_len=point.output_len,
        latency_s=setup.engine.request_latency_s,
    )
    return float(rate)


def _drafting(point: BenchmarkPoint, drafter: Drafter | None) -> tuple[Drafter, TokensPerRound]:
    """Return who drafts at a point, and how much of it is accepted."""
    if not point.draft_len:
        return ideal_drafter(), constant_acceptance(1.0)
    if drafter is None:
        message = f"{point.place}: has {point.draft_len} drafts; needs --drafter to price them"
        raise MeasurementError(message)
    if point.tokens_per_round is not None:
        return drafter, acceptance_from_length(point.tokens_per_round, point.draft_len)
    if drafter.acceptance is None:
        message = (
            f"{point.place}: has {point.draft_len} drafts and no acceptance length; needs one, "
            f"there or in the drafter's SPEC"
        )
        raise MeasurementError(message)
    return drafter, drafter.acceptance
