"""Matrices: how their weights are stored, how they divide over devices."""

from dataclasses import dataclass
from typing import Final

from specroof.units import dtype_bytes

#: More devices than anything is ever split over: "divides without end".
_UNLIMITED: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored, and which arithmetic multiplies them.

    Parameters
    ----------
    name
        What people call it, such as ``"mxfp4"``.
    element_bytes
        Bytes of one weight, its share of the block scales included.
    compute_dtype
        The dtype of `specroof.units.DTYPE_BYTES` at whose peak the matmul runs. Weight-only
        formats name the dtype of the activations.
    """

    name: str
    element_bytes: float
    compute_dtype: str


BF16: Final = WeightFormat("bf16", 2.0, "bf16")
# Engines multiply the few float32 matrices on tensor cores (tf32 or bf16), not at the vector rate.
FP32: Final = WeightFormat("fp32", 4.0, "bf16")

#: Formats by name, as the command line spells them. Scales: MXFP4 and MXFP8 one E8M0 byte per 32
#: weights; NVFP4 one E4M3 byte per 16; FP8 blocks one float32 per 128 x 128; INT4 one bf16 scale
#: per 128 (OCP Microscaling v1.0; NVIDIA NVFP4; DeepSeek-V3 report, section 3.3; AWQ).
WEIGHT_FORMATS: Final[dict[str, WeightFormat]] = {
    form.name: form
    for form in (
        BF16,
        FP32,
        WeightFormat("fp16", 2.0, "fp16"),
        WeightFormat("fp8", 1.0, "fp8"),
        WeightFormat("fp8-block", 1.0 + 4 / 16384, "fp8"),
        WeightFormat("mxfp8", 1.0 + 1 / 32, "fp8"),
        WeightFormat("int8", 1.0, "int8"),
        WeightFormat("fp4", 0.5, "fp4"),
        WeightFormat("mxfp4", 0.5 + 1 / 32, "fp4"),
        WeightFormat("nvfp4", 0.5 + 1 / 16, "fp4"),
        WeightFormat("int4", 0.5 + 2 / 128, "bf16"),
    )
}


@dataclass(frozen=True, slots=True)
class Shard:
    """Over how many devices, at most, each part of an operation divides.

    Parameters
    ----------
    group
        ``"attention"``: divides over a tensor-parallel group, and sequences over the
        data-parallel groups of attention; ``"feed_forward"``: divides over all devices.
    compute_ways, weight_ways, cache_ways
        The most devices that arithmetic, weights and cached bytes are split over; 1 means that
        every device of the group repeats them.
    """

    group: str
    compute_ways: int = _UNLIMITED
    weight_ways: int = _UNLIMITED
    cache_ways: int = _UNLIMITED


#: Feed-forward matrices, experts and the vocabulary-parallel head.
TENSOR: Final = Shard("feed_forward")
#: Query-side projections: split by heads, whose number tensor parallelism must divide.
HEADS: Final = Shard("attention")
#: Down-projections to a latent, the indexer: every device of the group runs all of it.
ATTENTION_REPLICATED: Final = Shard("attention", 1, 1, 1)
#: The router: a few rows, computed by everybody.
FEED_FORWARD_REPLICATED: Final = Shard("feed_forward", 1, 1, 1)


def by_kv_heads(n_kv_heads: int) -> Shard:
    """Return the shard of key and value projections: beyond `n_kv_heads` devices they repeat."""
    return Shard("attention", n_kv_heads, n_kv_heads, n_kv_heads)


def cache_only(cache_ways: int) -> Shard:
    """Return the shard of attention itself: arithmetic by query heads, the cache over fewer."""
    return Shard("attention", cache_ways=cache_ways)


@dataclass(frozen=True, slots=True)
class Linear:
    """One matrix that every token (or every verified position) is multiplied by.

    Parameters
    ----------
    name
        Its role, such as ``"q_proj"``.
    in_features, out_features
        Widths, so that one token costs ``2 * in_features * out_features / groups`` FLOP.
    weight
        Storage format and arithmetic.
    shard
        How it divides over devices.
    kind
        ``"dense"``, ``"router"``, ``"compressor"``, ``"residual"`` or ``"head"``: what a count
        of operations may leave out.
    groups
        Blocks of a block-diagonal matrix.
    bias
        Whether `out_features` bias elements are stored beside it (stored, not computed with).
    """

    name: str
    in_features: int
    out_features: int
    weight: WeightFormat = BF16
    shard: Shard = HEADS
    kind: str = "dense"
    groups: int = 1
    bias: bool = False

    @property
    def matrix_params(self) -> int:
        """Elements of the matrix."""
        return self.in_features * self.out_features // self.groups

    @property
    def n_params(self) -> int:
        """Elements of the matrix and its bias."""
        return self.matrix_params + (self.out_features if self.bias else 0)

    @property
    def stored_bytes(self) -> float:
        """Bytes in a checkpoint, block scales included."""
        return self.matrix_params * self.weight.element_bytes + (
            self.out_features * dtype_bytes("bf16") if self.bias else 0.0
        )
