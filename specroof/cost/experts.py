"""Routed experts: how many distinct ones a pass reads, and what they cost."""

import math

import numpy as np

from specroof.architecture import TENSOR, Experts
from specroof.arrays import Array
from specroof.cost.base import OpCost, Setting, matmul_flops


def distinct_experts(tokens: Array, n_experts: int, top_k: int, method: str = "exact") -> Array:
    r"""Return the expected number of distinct experts that `tokens` tokens visit.

    .. math:: D(t) = E \left[ 1 - (1 - k/E)^t \right]

    Parameters
    ----------
    tokens
        Tokens of the pass, t.
    n_experts, top_k
        E and k.
    method
        ``"exact"``: each token draws k different experts; ``"replacement"``: k·t independent
        draws, :math:`E [1 - (1 - 1/E)^{tk}]`, as one published simulator has it.

    Counts
        uniform and independent routing.
    Ignores
        popularity and the locality of neighbouring tokens, which lower the number: 29% for a run
        of 8 tokens of Qwen3.6-35B-A3B (Finn 2026, "Width vs. depth").
    Source
        MoESD, arXiv:2505.19645, section 3; Finn 2026, "The economics of speculative decoding".

    Examples
    --------
    >>> float(distinct_experts(np.array(4.0), n_experts=512, top_k=10))
    38.84
    >>> float(distinct_experts(np.array(1.0), n_experts=256, top_k=8, method="replacement"))
    7.89
    """
    if method == "replacement":
        miss, draws = 1 / n_experts, tokens * top_k
    else:
        miss, draws = top_k / n_experts, tokens
    if miss == 1:
        return np.full(np.shape(tokens), float(n_experts))
    return -n_experts * np.expm1(draws * math.log1p(-miss))


def independent_tokens(batch_size: Array, query_len: Array, locality: tuple[float, float]) -> Array:
    r"""Return how many independent tokens visit as many experts as a batch of runs does.

    .. math:: t' = B^b \, T^r

    A run of T tokens visits :math:`D_{run} = E [1 - (1 - k/E)^{T^r}]` experts; a run counted as
    one token that draws :math:`D_{run}` of E, B^b of them visit
    :math:`E [1 - (1 - D_{run}/E)^{B^b}]`, which is :math:`D(t')`.

    Parameters
    ----------
    batch_size, query_len
        B sequences with T tokens each.
    locality
        r, along a sequence, and b, across the batch; 1 and 1 for independent routing.

    Ignores
        that the exponents belong to one model: they were read off Qwen3.6-35B-A3B.
    Source
        Finn 2026, "Width vs. depth": distinct experts of runs and of unrelated sequences, which
        0.737 and 0.909 reproduce to 1.2 % and 5 %.

    Examples
    --------
    >>> float(independent_tokens(np.array(16.0), np.array(4.0), locality=(0.5, 0.75)))  # 8 * 2
    16.0
    """
    run, batch = locality
    return np.asarray(batch_size**batch * query_len**run)


def expert_costs(core: Experts, setting: Setting) -> list[OpCost]:
    r"""Return the cost of the routed experts of one layer.

    .. math:: F = 2 \, (k + k_s) \, w_e \, t \qquad M = b \, w_e \, (D(t) + k_s)

    Counts
        each distinct expert's weights once per pass, block scales included; the locality of
        routing where the setting has one.
    Ignores
        expert biases, the permutation of tokens, and padding to tiles.
    Source
        MoESD, arXiv:2505.19645, section 3.

    Examples
    --------
    >>> from specroof.cost.base import ForwardPass, Options
    >>> core = Experts(n_experts=256, top_k=8, in_features=2048, hidden_features=512)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=0)
    >>> (op,) = expert_costs(core, Setting(decode, Options(), "bf16", "fp32", "bf16"))
    >>> float(op.weight_bytes)  # 8 experts * 3 * 2048 * 512 * 2 bytes
    50331648.0
    """
    forward, options = setting.forward, setting.options
    tokens = forward.tokens
    if options.experts is None and setting.expert_locality is not None:
        tokens = independent_tokens(forward.batch_size, forward.query_len, setting.expert_locality)
    routed = distinct_experts(tokens, core.n_experts, core.top_k, options.experts or "exact")
    groups = routed + core.n_shared
    visits = (core.top_k + core.n_shared) * forward.matmul_tokens
    return [
        OpCost(
            name="experts",
            kind="experts",
            count=1,
            flops=matmul_flops(core.matrix_params * visits),
            weight_bytes=groups * core.matrix_params * core.weight.element_bytes,
            cache_bytes=np.zeros(()),
            activation_bytes=np.zeros(()),
            compute_dtype=core.weight.compute_dtype,
            shard=TENSOR,
            rows=visits / groups,
            groups=groups,
            experts=(core.n_experts, core.n_shared),
        )
    ]
