"""Routed experts: how many distinct ones a pass reads, and what they cost."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from specroof.architecture.base import (
    BF16,
    TENSOR,
    CacheDtypes,
    Core,
    Heads,
    Kept,
    OpCost,
    PassSettings,
    Routing,
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
    on_host
        Whether they lie in the memory of the host, whose CPU multiplies them.
    """

    n_experts: int
    top_k: int
    in_features: int
    hidden_features: int
    weight: WeightFormat = BF16
    n_matrices: int = 3
    bias_params: int = 0
    n_shared: int = 0
    on_host: bool = False

    label = "moe"
    kernel = "experts"
    overhead_kinds = ("experts",)
    heads = Heads()
    causal = True
    cache_kind = "nothing"
    window_len = 0
    by_sequence = False
    replayed = (0, 0)

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

    def costs(self, setting: PassSettings) -> list[OpCost]:
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
        >>> (op,) = core.costs(PassSettings(decode, Options(), "bf16", "fp32", "bf16"))
        >>> float(op.weight_bytes)  # 8 experts * 3 * 2048 * 512 * 2 bytes
        50331648.0
        """
        forward, options = setting.forward, setting.options
        tokens = forward.tokens
        if options.experts is None and setting.expert_locality is not None:
            tokens = independent_tokens(
                forward.batch_size, forward.query_len, setting.expert_locality
            )
        routed = distinct_experts(tokens, self.n_experts, self.top_k, options.experts or "exact")
        hit = routed + self.n_shared
        visits = (self.top_k + self.n_shared) * forward.matmul_tokens
        return [
            OpCost(
                name="experts_on_host" if self.on_host else "experts",
                kind="experts",
                count=1,
                flops=matmul_flops(self.matrix_params * visits),
                weight_bytes=hit * self.matrix_params * self.weight.element_bytes,
                cache_bytes=np.zeros(()),
                activation_bytes=np.zeros(()),
                compute_dtype=self.weight.compute_dtype,
                shard=TENSOR,
                rows=visits / hit,
                routing=Routing(self.n_experts, self.top_k, self.n_shared, tokens, hit),
                on_host=self.on_host,
                weight_parts=self.weight.parts,
                weight=self.weight.name,
            )
        ]

    def kept(self, _context_len: Array, _dtypes: CacheDtypes) -> Kept:
        """Return nothing: experts keep none of a sequence."""
        return Kept(TENSOR)


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


@cache
def _normal_maximum(count: int) -> tuple[float, float]:
    """Return the first two moments of the largest of `count` standard normal values."""
    values, step = np.linspace(-9.0, 9.0, 3601, retstep=True)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in values])
    density = np.exp(-(values**2) / 2) / math.sqrt(2 * math.pi)
    weights = step * count * density * below ** (count - 1)
    return float(weights @ values), float(weights @ values**2)


def fullest_device(routing: Routing, n_devices: int) -> tuple[Array, Array]:
    r"""Return how far the fullest device is above the mean where experts are spread over devices.

    Each of g devices holds :math:`m = E / g` whole experts. With :math:`q_1 = (1 - k/E)^t` for an
    expert that no token visits, :math:`q_2` for two of them, and :math:`c` and :math:`d` for the
    first two moments of the largest of g standard normal values, the fullest device has

    .. math:: m (1 - q_1) + c \sqrt{m (q_1 - q_2)} + s (2 q_1 - 1)

    experts that are visited, and

    .. math:: \frac{t k}{g} + c \sqrt{\frac{t k}{g} \frac{E - k}{E - 1}} + s \max(0, 1 - 2 k / E)

    visits, with :math:`s = (d - 1) / 6` for the skewness; neither is below one or above
    what there is.

    Parameters
    ----------
    routing
        How tokens pick experts.
    n_devices
        Devices that experts are spread over, g.

    Returns
    -------
    tuple of arrays
        Distinct experts visited, and visits, on the fullest device, in means of all devices.

    Counts
        uniform routing of independent tokens. Against dice, for 2 to 64 devices and 8 to 512
        experts: 3 % off at most (0.5 % on average) from four visits a device on, 7 % (2 %) from one
        on, 36 % (13 %), too high, below a half.
    Ignores
        popularity of single experts, beyond what it takes from the independent tokens; experts
        that are kept twice to level the load; numbers of experts that do not divide.
    Source
        Multivariate hypergeometric counts are exchangeable: with variance v and covariance w, the
        largest of g normal ones is :math:`c \sqrt{v - w}` above the mean (Owen and Steck 1962,
        Ann. Math. Stat. 33(4)); Cornish and Fisher 1938 for the skewness.

    Examples
    --------
    >>> tokens = np.array([1.0, 16.0, 1e6])
    >>> routing = Routing(256, 8, 0, tokens, hit=distinct_experts(tokens, 256, 8))
    >>> experts, visits = fullest_device(routing, 8)
    >>> experts.round(2).tolist(), visits.round(2).tolist()
    ([2.62, 1.31, 1.0], [2.62, 1.36, 1.0])
    """
    tokens, total, top_k = routing.tokens, routing.n_experts, routing.top_k
    holders = min(n_devices, total)  # the others have nothing to do
    held = total / holders
    first, second = _normal_maximum(holders)
    skewness = (second - 1) / 6
    missed = (1 - top_k / total) ** tokens
    both_missed = missed * max(0.0, 1 - top_k / max(1, total - 1)) ** tokens
    hit, visited = held * (1 - missed), tokens * (top_k / holders)
    most_hit = hit + first * np.sqrt(held * (missed - both_missed)) + skewness * (2 * missed - 1)
    variance = visited * ((total - top_k) / max(1, total - 1))
    most_visited = visited + first * np.sqrt(variance) + skewness * max(0.0, 1 - 2 * top_k / total)
    full = math.ceil(held)
    most_hit = np.clip(most_hit, np.maximum(hit, 1.0), np.minimum(full, total * (1 - missed)))
    most_visited = np.clip(most_visited, np.maximum(visited, 1.0), tokens * min(top_k, full))
    idle = n_devices / holders
    return np.asarray(idle * most_hit / hit), np.asarray(idle * most_visited / visited)
