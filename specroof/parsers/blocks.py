"""Blocks that families share: grouped-query attention, gated feed-forward, experts.

Source
    The modules of transformers 5 (`models/llama/modeling_llama.py`,
    `models/qwen3_moe/modeling_qwen3_moe.py`, `models/gpt_oss/modeling_gpt_oss.py`) and the
    tensors of the published checkpoints.
"""

from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture import (
    FEED_FORWARD_REPLICATED,
    AttentionShape,
    Block,
    Experts,
    Linear,
    Shard,
    WeightFormat,
    gated_pair,
    grouped_query_block,
)
from specroof.parsers.formats.quantization import LayerWeights


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """What a family calls the matrices of its feed-forwards inside a layer.

    Parameters
    ----------
    routed
        Any one matrix of any one expert, for all of them.
    shared_in, shared_out
        Of the shared expert: its first matrix (beside which others lie fused), and its last.
    dense
        The feed-forward of layers without experts.
    """

    routed: str = "mlp.experts.0.gate_proj"
    shared_in: str = "mlp.shared_experts.gate_proj"
    shared_out: str = "mlp.shared_experts.down_proj"
    dense: str = "mlp"


USUAL_NAMES: Final = ExpertNames()
#: As Mixtral has them, and those that follow it.
BLOCK_SPARSE_NAMES: Final = ExpertNames(
    routed="block_sparse_moe.experts.0.w1",
    shared_in="block_sparse_moe.shared_experts.gate_proj",
    shared_out="block_sparse_moe.shared_experts.down_proj",
)


@dataclass(frozen=True, slots=True)
class ExpertsShape:
    """Sizes of a mixture of experts that all its layers share.

    Parameters
    ----------
    hidden_size
        Width of the residual stream.
    n_experts, top_k, width
        Routed experts, how many a token visits, and the inner width of one.
    shared_width
        Inner width of the shared expert; 0 where there is none.
    shared_gate
        Whether a gate of one row weighs the shared expert.
    correction_bias
        Whether each expert has a bias that only the selection sees.
    biases
        Whether router and experts have biases.
    """

    hidden_size: int
    n_experts: int
    top_k: int
    width: int
    shared_width: int = 0
    shared_gate: bool = False
    correction_bias: bool = False
    biases: bool = False


def matrices(
    weights: LayerWeights,
    prefix: str,
    shard: Shard,
    *rows: tuple[str, int, int],
    bias: bool = False,
) -> tuple[Linear, ...]:
    """Return matrices that divide alike, from the name, width in and width out of each.

    `prefix` stands before their names in the checkpoint.
    """
    return tuple(
        Linear(name, in_features, out_features, weights(prefix + name), shard, bias=bias)
        for name, in_features, out_features in rows
    )


def router(
    name: str, hidden_size: int, rows: int, weights: LayerWeights, *, bias: bool = False
) -> Linear:
    """Return a matrix that weighs experts; none is quantised: every published list ignores them."""
    shard = FEED_FORWARD_REPLICATED
    return Linear(name, hidden_size, rows, weights.plain, shard, kind="router", bias=bias)


def extended(block: Block, *linears: Linear, n_params: int = 0) -> Block:
    """Return a block with more matrices, or vectors such as the norm that its output passes."""
    return replace(
        block,
        linears=(*block.linears, *linears),
        vector_params=block.vector_params + n_params,
    )


def attention_block(
    shape: AttentionShape, weights: LayerWeights, *, module: str = "self_attn"
) -> Block:
    """Return grouped-query attention; `module` is what the checkpoint calls it inside a layer."""

    def weight_of(name: str) -> WeightFormat:
        # Phi-3 stores queries, keys and values as one matrix, and names that.
        stored = name if name == "o_proj" else "qkv_proj"
        return weights(f"{module}.{name}", f"{module}.{stored}")

    return grouped_query_block(shape, weight_of)


def feed_forward_block(
    hidden_size: int,
    width: int,
    weights: LayerWeights,
    *,
    bias: bool = False,
    module: str = "mlp",
) -> Block:
    """Return a gated feed-forward; `module` is what the checkpoint calls it inside a layer."""
    into = weights(f"{module}.gate_proj", f"{module}.gate_up_proj")
    pair = gated_pair(hidden_size, width, into, weights(f"{module}.down_proj"), bias=bias)
    return Block("feed_forward", pair, vector_params=hidden_size)


def experts_block(
    shape: ExpertsShape, weights: LayerWeights, names: ExpertNames = USUAL_NAMES
) -> Block:
    """Return routed experts with their router, and the shared expert where there is one."""
    experts = Experts(
        shape.n_experts,
        shape.top_k,
        shape.hidden_size,
        shape.width,
        weight=weights(names.routed),
        # gate, up and down have 2 f + h outputs
        bias_params=2 * shape.width + shape.hidden_size if shape.biases else 0,
    )
    linears = [router("router", shape.hidden_size, shape.n_experts, weights, bias=shape.biases)]
    if shape.shared_width:
        linears += _shared_expert(shape, weights, names)
    correction = shape.n_experts if shape.correction_bias else 0
    vectors = shape.hidden_size + correction
    return Block("feed_forward", tuple(linears), experts, vector_params=vectors)


def _shared_expert(
    shape: ExpertsShape, weights: LayerWeights, names: ExpertNames
) -> tuple[Linear, ...]:
    size, width = shape.hidden_size, shape.shared_width
    into, out = weights(names.shared_in), weights(names.shared_out)
    pair = gated_pair(size, width, into, out, prefix="shared_")
    return (*pair, router("shared_expert_gate", size, 1, weights)) if shape.shared_gate else pair
