"""Two batches in one pass: matrices are read once for the tokens of both, attention runs apart."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specroof.cost.base import Array, Collective, OpCost


def joined_costs(first: Sequence[OpCost], second: Sequence[OpCost]) -> tuple[list[OpCost], ...]:
    """Return what one pass over two batches of the same model costs.

    Parameters
    ----------
    first, second
        Operations of each batch alone, from `specroof.cost.forward_cost`.

    Returns
    -------
    tuple of lists of OpCost
        What runs over the tokens of both, and what runs for the first and for the second alone.

    Counts
        the weights of a matrix once; the experts that either batch visits; attention, states and
        caches of each batch.
    Source
        vLLM and SGLang flatten chunks of prompts and decoded tokens into one row of tokens;
        Agrawal et al. 2024, arXiv:2403.02310, section 4.2.

    Examples
    --------
    >>> def up(tokens):
    ...     weights, zero = np.array(64.0), np.zeros(())
    ...     return OpCost("up_proj", "dense", 1, 64 * tokens, weights, zero, zero, "bf16")
    >>> ((op,), alone, beside) = joined_costs([up(np.array(2.0))], [up(np.array(6.0))])
    >>> float(op.flops), float(op.weight_bytes), alone, beside  # 8 tokens, one matrix
    (512.0, 64.0, [], [])
    """
    both, alone, beside = [], [], []
    for one, other in zip(first, second, strict=True):
        exchanged = _exchanged(one.collective, other.collective)
        if np.any(one.weight_bytes > 0):
            both.append(replace(_over_all_tokens(one, other), collective=exchanged))
        else:
            # What devices exchange is behind both: it is told once.
            alone.append(replace(one, collective=exchanged))
            beside.append(replace(other, collective=None))
    return both, alone, beside


def _over_all_tokens(one: OpCost, other: OpCost) -> OpCost:
    weights = np.maximum(one.weight_bytes, other.weight_bytes)
    rows, groups = one.rows, one.groups
    if one.experts is not None and one.groups is not None and other.groups is not None:
        groups = joined_groups(one.groups, other.groups, one.experts)
        weights = one.weight_bytes * (groups / one.groups)
        visits = one.groups * one.rows + other.groups * other.rows  # type: ignore[operator]  # with groups
        rows = visits / groups
    return replace(
        one,
        flops=np.asarray(one.flops + other.flops),
        weight_bytes=np.asarray(weights),
        cache_bytes=np.asarray(one.cache_bytes + other.cache_bytes),
        activation_bytes=np.asarray(one.activation_bytes + other.activation_bytes),
        rows=rows,
        groups=groups,
    )


def joined_groups(first: Array, second: Array, experts: tuple[int, int]) -> Array:
    r"""Return the experts that either of two batches visits, shared ones included.

    .. math:: D = E \left[ 1 - (1 - D_1 / E) (1 - D_2 / E) \right]

    Parameters
    ----------
    first, second
        Experts that each visits, with the shared ones.
    experts
        E, from which routing picks, and the shared ones, which every token visits.

    Counts
        batches that are routed independently of one another.
    Source
        Counting: an expert is missed if both miss it. For top-k this is
        `specroof.cost.experts.distinct_experts` of all tokens.

    Examples
    --------
    >>> float(joined_groups(np.array(3.0), np.array(5.0), (8, 1)))  # 1 + 8 (1 - 6/8 * 4/8)
    6.0
    """
    routed, shared = experts
    missed = (routed + shared - first) * (routed + shared - second) / routed
    return np.asarray(routed + shared - missed)


def _exchanged(one: Collective | None, other: Collective | None) -> Collective | None:
    if one is None or other is None:
        return None
    return replace(one, message_bytes=np.asarray(one.message_bytes + other.message_bytes))
