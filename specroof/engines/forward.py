"""What an engine profile predicts for the points of a benchmark."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.acceptance import acceptance_from_length, constant_acceptance
from specroof.architecture import Architecture
from specroof.cost import Options
from specroof.drafters import Drafter, TokensPerRound, ideal_drafter
from specroof.errors import MeasurementError
from specroof.evidence.points import BenchmarkPoint
from specroof.evidence.stated import refuse_other_drafts, refuse_other_setup
from specroof.hardware import IDEAL_ENGINE
from specroof.latency import Setup
from specroof.latency.model import check_placement, engine_setup
from specroof.serving.requests import end_to_end_tokens_per_s, request_s
from specroof.speedup.round import proposals, round_times

__all__ = ["ideal_rates", "predicted_tokens_per_s"]

Array = npt.NDArray[np.float64]

#: A measurement may beat the ideal roofline by its own noise, not by more.
_FASTEST: Final = 1.1
#: Engines are 2 to 20 times slower than it, one sequence at a time; other units are a thousand.
_SLOWEST: Final = 1 / 200


def predicted_tokens_per_s(
    points: Sequence[BenchmarkPoint], model: Architecture, setup: Setup, drafter: Drafter | None
) -> Array:
    """Return output tokens per second of the whole batch, one for each point.

    Points with the same drafts and the same acceptance length are priced in one call.

    Parameters
    ----------
    points
        The loads; prefills count where a point says how long they are.
    model, setup
        What is served, and where.
    drafter
        What drafts; None if nothing does.

    Raises
    ------
    MeasurementError
        For a point with drafts, of which nobody says who makes them or how many are accepted.

    Source
        See `specroof.speedup.curve.speedup_curve` and
        `specroof.serving.requests.end_to_end_tokens_per_s`.
    """
    alike: dict[tuple[int, float | None], list[int]] = {}
    for index, point in enumerate(points):
        alike.setdefault((point.draft_len, point.tokens_per_round), []).append(index)
    token_s = np.empty(len(points))
    for rows in alike.values():
        token_s[rows] = _token_s([points[row] for row in rows], model, setup, drafter)
    prompts = {point.input_len for point in points if point.input_len is not None}
    wait_s = {prompt: request_s(model, setup, prompt) for prompt in prompts}
    latency_s = setup.engine.request_latency_s
    return np.array(
        [
            _with_prefills(point, float(seconds), wait_s, latency_s)
            for point, seconds in zip(points, token_s, strict=True)
        ]
    )


def ideal_rates(
    points: Sequence[BenchmarkPoint], model: Architecture, setup: Setup, drafter: Drafter | None
) -> Array:
    """Return what the ideal engine predicts for each point, once they can be compared with it.

    Parameters
    ----------
    points
        What was measured.
    model, setup, drafter
        Of what, where; of the setup the engine does not matter, nor any option but the formats
        of weights and cache.

    Raises
    ------
    MeasurementError
        One line with the place of a point that was served in another way than is priced, or of a
        throughput that cannot be: above what the ideal roofline allows, or less than a 200th.
    OptionError
        For a placement or a drafter that the model does not fit.
    """
    check_placement(model, setup.placement)
    if drafter is not None:
        drafter.describe(model)  # refuses a model that the drafter does not fit
    refuse_other_setup(points, model, setup)
    for point in points:
        if point.draft_len:
            refuse_other_drafts(point, *_drafting(point, drafter))
    stored = Options(kv_dtype=setup.options.kv_dtype, weight_dtype=setup.options.weight_dtype)
    ideal = engine_setup(setup.hardware, IDEAL_ENGINE.name, setup.placement, stored)
    rates = predicted_tokens_per_s(points, model, ideal, drafter)
    for point, rate in zip(points, rates.tolist(), strict=True):
        if not _SLOWEST <= point.tokens_per_s / rate <= _FASTEST:
            beyond = "more" if point.tokens_per_s > rate else "less than a 200th"
            than = "than" if point.tokens_per_s > rate else "of"
            message = (
                f"{point.place}: {point.tokens_per_s:g} tokens/s is {beyond} {than} the "
                f"{rate:.4g} that {model.name} reaches on {setup.placement.devices} x "
                f"{setup.hardware.name} at best; other units, another model, or other devices?"
            )
            raise MeasurementError(message)
    return rates


def _token_s(
    points: Sequence[BenchmarkPoint], model: Architecture, setup: Setup, drafter: Drafter | None
) -> Array:
    """Return seconds per token of each sequence, for points with the same drafts and acceptance."""
    first = points[0]
    who, tokens = _drafting(first, drafter)
    draft_lens = np.array([0, first.draft_len]) if first.draft_len else np.array([0])
    contexts = np.array([point.context_len for point in points])[:, None, None]
    batches = np.array([point.batch_size for point in points])[:, None, None]
    proposed = proposals(who, tokens, draft_lens)
    _, _, round_s = round_times(model, setup, who, proposed, (contexts, batches, draft_lens), {})
    token_s = round_s[:, 0, -1] / float(proposed.tokens_per_round[-1])
    if not np.all(np.isfinite(token_s)):
        message = f"{first.place}: {first.draft_len} drafts are more than {who.name} makes"
        raise MeasurementError(message)
    return np.asarray(token_s)


def _with_prefills(
    point: BenchmarkPoint, token_s: float, wait_s: Mapping[float, float], latency_s: float
) -> float:
    """Return the throughput of a point; prefills of its prompt count where it says how long."""
    if point.input_len is None or point.output_len is None:
        return point.batch_size / token_s
    rate = end_to_end_tokens_per_s(
        point.batch_size,
        token_s,
        wait_s=wait_s[point.input_len],
        output_len=point.output_len,
        latency_s=latency_s,
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
