"""Routed experts: how many distinct ones a pass reads, and what they cost."""

import math
from dataclasses import dataclass

import numpy as np

from specroof.architecture.base import (
    BF16,
    TENSOR,
    Core,
    OpCost,
    PassSettings,
    WeightFormat,
    matmul_flops,
)
from specroof.arrays import Array
from specroof.units import dtype_bytes


@dataclass(frozen=True, slots=True)
class Experts(Core):
    """The routed experts of one layer.

    Parameters
    ----------
    n_experts, top_k
        Experts, and how many of them a token visits.
    in_features, hidden_features
        Widths of one expert's matrices.
    weight
        Storage format and arithmetic.
    n_matrices
        3 for a gated expert (gate, up, down), 2 for a plain one.
    bias_params
        Bias elements of one expert (stored, not computed with).
    n_shared
        Shared experts of the same size and format that run in the same grouped matmul; parsers
        leave this 0 and list shared experts among the block's matrices.
    """

    n_experts: int
    top_k: int
    in_features: int
    hidden_features: int
    weight: WeightFormat = BF16
    n_matrices: int = 3
    bias_params: int = 0
    n_shared: int = 0

    label = "moe"
    overhead_kinds = ("experts",)

    @property
    def matrix_params(self) -> int:
        """Elements of one expert's matrices."""
        return self.n_matrices * self.in_features * self.hidden_features

    @property
    def expert_params(self) -> int:
        """Elements of one expert, biases included."""
        return self.matrix_params + self.bias_params

    @property
    def n_params(self) -> int:
        """Elements of all experts."""
        return (self.n_experts + self.n_shared) * self.expert_params

    @property
    def idle_params(self) -> int:
        """Elements of the experts that a token does not visit."""
        return (self.n_experts - self.top_k) * self.expert_params

    @property
    def stored_bytes(self) -> float:
        """Bytes of all experts, block scales included."""
        expert = self.matrix_params * self.weight.element_bytes
        count = self.n_experts + self.n_shared
        return count * (expert + self.bias_params * dtype_bytes("bf16"))


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


def expert_costs(core: Experts, setting: PassSettings) -> list[OpCost]:
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
    >>> from specroof.architecture.base import ForwardPass, Options
    >>> core = Experts(n_experts=256, top_k=8, in_features=2048, hidden_features=512)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=0)
    >>> (op,) = expert_costs(core, PassSettings(decode, Options(), "bf16", "fp32", "bf16"))
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
