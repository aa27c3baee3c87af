"""Matrices that every token meets: projections, dense feed-forward, router, LM head.

Ignores
    Activations that a matmul reads and writes, but for the logits: a fused engine keeps most of
    them on the chip. Counted in full they would add ``2 (in + out) t`` bytes to
    ``2 in out`` of bf16 weights: 1% at 20 tokens and a width of 4 096, and above a thousand
    tokens, where they would weigh, arithmetic is the bound. Queries of attention are left out
    for the same reason.
"""

import numpy as np

from specroof.architecture import Linear
from specroof.cost.base import Array, OpCost, matmul_flops


def linear_cost(linear: Linear, *, tokens: Array, block: str, count: int) -> OpCost:
    r"""Return the cost of one matrix for `tokens` positions.

    .. math:: F = 2 \, d_{in} d_{out} \, t / g \qquad M = b \, d_{in} d_{out} / g

    Counts
        each weight once per pass, whatever the number of tokens; block scales.
    Ignores
        biases (one element per row of thousands) and activations (see the module).
    Source
        Kaplan et al. 2020, arXiv:2001.08361, table 1 (2 FLOP per weight and token).

    Examples
    --------
    >>> q_proj = Linear("q_proj", 4096, 4096)
    >>> op = linear_cost(q_proj, tokens=np.array([1.0, 8.0]), block="attention", count=32)
    >>> op.flops, float(op.weight_bytes)
    (array([3.35544320e+07, 2.68435456e+08]), 33554432.0)
    """
    return OpCost(
        name=f"{block}.{linear.name}",
        kind=linear.kind,
        count=count,
        flops=matmul_flops(linear.matrix_params * tokens),
        weight_bytes=np.asarray(linear.matrix_params * linear.weight.element_bytes),
        cache_bytes=np.zeros(()),
        activation_bytes=np.zeros(()),
        compute_dtype=linear.weight.compute_dtype,
        shard=linear.shard,
    )


def logit_bytes(vocab_size: int, positions: Array) -> Array:
    r"""Return the bytes of the logits that a pass writes, in float32.

    .. math:: M = 4 \, V \, t

    Ignores
        the sampler, which reads them again: as much once more.
    Source
        Engines sample from float32 logits (vLLM ``LogitsProcessor``, SGLang ``Sampler``).

    Examples
    --------
    >>> float(logit_bytes(248_320, np.array(2048.0))) / 1e9  # GB
    2.03423744
    """
    return np.asarray(4.0 * vocab_size * positions)
