"""Blocks that families share: grouped-query attention, gated feed-forward, experts.

Source
    The modules of transformers 5 (`models/llama/modeling_llama.py`,
    `models/qwen3_moe/modeling_qwen3_moe.py`, `models/gpt_oss/modeling_gpt_oss.py`) and the
    tensors of the published checkpoints.
"""

from dataclasses import dataclass
from typing import Final

from specroof.architecture import (
    FEED_FORWARD_REPLICATED,
    HEADS,
    TENSOR,
    Block,
    Experts,
    GroupedQueryAttention,
    Linear,
    by_kv_heads,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.reading.json_object import Reader

__all__ = [
    "AttentionShape",
    "ExpertNames",
    "ExpertsShape",
    "attention_block",
    "experts_block",
    "feed_forward_block",
    "head_counts",
    "listed_windows",
    "split_head_dim",
    "top_k_experts",
]


#: What transformers calls the number of experts in files that it saves again: the `attribute_map`
#: of a configuration class takes these names for the family's own.
_SAVED_EXPERTS_KEYS: Final = ("num_local_experts", "num_experts", "n_routed_experts")


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes of grouped-query attention that all layers share.

    Parameters
    ----------
    hidden_size
        Width of the residual stream.
    n_heads, n_kv_heads, head_dim
        Query heads, key and value heads, width of each.
    qkv_bias, out_bias
        Whether the projections have a bias.
    qk_norm
        Whether queries and keys pass a norm of one head's width.
    gated
        Whether the query projection also makes an output gate, and is twice as wide.
    sinks
        Whether each query head has a learned sink.
    value_dim
        Width of a value; that of a key if None.
    module
        What the checkpoint calls attention inside a layer.
    """

    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    gated: bool = False
    sinks: bool = False
    value_dim: int | None = None
    module: str = "self_attn"

    @property
    def vector_params(self) -> int:
        """Elements of the norm before attention, of the head norms and of the sinks."""
        head_norms = 2 * self.head_dim if self.qk_norm else 0
        return self.hidden_size + head_norms + (self.n_heads if self.sinks else 0)


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """What a family calls its experts' matrices inside a layer.

    Parameters
    ----------
    routed
        Any one matrix of any one expert, for all of them.
    shared_in, shared_out
        Of the shared expert: its first matrix (beside which others lie fused), and its last.
    """

    routed: str = "mlp.experts.0.gate_proj"
    shared_in: str = "mlp.shared_experts.gate_proj"
    shared_out: str = "mlp.shared_experts.down_proj"


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


def head_counts(
    keys: Reader, *, heads_default: int | None = None, kv_default: int | bool = False
) -> tuple[int, int]:
    """Return query heads and KV heads, which divide them.

    The defaults are those of the family's config class; a `kv_default` of True takes as many KV
    heads as query heads where the key is missing.
    """
    n_heads = keys.positive_int("num_attention_heads", default=heads_default)
    default = n_heads if kv_default is True else (kv_default or None)
    n_kv_heads = keys.positive_int("num_key_value_heads", default=default)
    if n_heads % n_kv_heads:
        keys.refuse("num_key_value_heads", f"a divisor of num_attention_heads ({n_heads})")
    return n_heads, n_kv_heads


def split_head_dim(keys: Reader) -> int:
    """Return `head_dim`, or where it is missing the heads' share of the hidden size."""
    if keys.has("head_dim"):
        return keys.positive_int("head_dim")
    hidden_size = keys.positive_int("hidden_size")
    n_heads = keys.positive_int("num_attention_heads")
    if hidden_size % n_heads:
        allowed = f"a divisor of hidden_size ({hidden_size}), or a head_dim beside it"
        keys.refuse("num_attention_heads", allowed)
    return hidden_size // n_heads


def listed_windows(keys: Reader, n_layers: int, window: int | None) -> list[int | None] | None:
    """Return each layer's window where `layer_types` says which layers have it, else None."""
    if not keys.has("layer_types"):
        return None
    kinds = keys.texts(
        "layer_types", allowed=("full_attention", "sliding_attention"), at_least=n_layers
    )
    return [window if kind == "sliding_attention" else None for kind in kinds[:n_layers]]


def top_k_experts(keys: Reader, experts_key: str, *top_k_keys: str) -> tuple[int, int]:
    """Return the number of experts, and how many of them a token visits.

    A file without the family's `experts_key` may have one of the names that transformers saves.
    """
    if experts_key not in keys.values:
        experts_key = next((key for key in _SAVED_EXPERTS_KEYS if keys.has(key)), experts_key)
    n_experts = keys.positive_int(experts_key)
    return n_experts, keys.positive_int(*top_k_keys, maximum=n_experts)


def attention_block(shape: AttentionShape, window: int | None, weights: LayerWeights) -> Block:
    """Return grouped-query attention with its projections; a `window` None sees everything."""
    n_heads, n_kv_heads, head_dim = shape.n_heads, shape.n_kv_heads, shape.head_dim
    value_dim = shape.value_dim or head_dim
    kv_shard = by_kv_heads(n_kv_heads)

    def projection(name: str, in_features: int, out_features: int, *, bias: bool) -> Linear:
        # Phi-3 stores queries, keys and values as one matrix, and names that.
        stored = "o_proj" if name == "o_proj" else "qkv_proj"
        return Linear(
            name,
            in_features,
            out_features,
            weight=weights(f"{shape.module}.{name}", f"{shape.module}.{stored}"),
            shard=kv_shard if name in {"k_proj", "v_proj"} else HEADS,
            bias=bias,
        )

    q_features = (2 if shape.gated else 1) * n_heads * head_dim
    return Block(
        "attention",
        (
            projection("q_proj", shape.hidden_size, q_features, bias=shape.qkv_bias),
            projection("k_proj", shape.hidden_size, n_kv_heads * head_dim, bias=shape.qkv_bias),
            projection("v_proj", shape.hidden_size, n_kv_heads * value_dim, bias=shape.qkv_bias),
            projection("o_proj", n_heads * value_dim, shape.hidden_size, bias=shape.out_bias),
        ),
        GroupedQueryAttention(n_heads, n_kv_heads, head_dim, value_dim, window),
        vector_params=shape.vector_params,
    )


def feed_forward_block(
    hidden_size: int,
    width: int,
    weights: LayerWeights,
    *,
    bias: bool = False,
    module: str = "mlp",
) -> Block:
    """Return a gated feed-forward; gate and up are one matrix, as engines multiply them.

    `module` is what the checkpoint calls it inside a layer.
    """
    return Block(
        "feed_forward",
        (
            Linear(
                "gate_up_proj",
                hidden_size,
                2 * width,
                weight=weights(f"{module}.gate_proj", f"{module}.gate_up_proj"),
                shard=TENSOR,
                bias=bias,
            ),
            Linear(
                "down_proj",
                width,
                hidden_size,
                weight=weights(f"{module}.down_proj"),
                shard=TENSOR,
                bias=bias,
            ),
        ),
        vector_params=hidden_size,
    )


def experts_block(
    shape: ExpertsShape, weights: LayerWeights, names: ExpertNames = ExpertNames()
) -> Block:
    """Return routed experts with their router, and the shared expert where there is one.

    Routers stay unquantised: every published list ignores them.
    """
    router = Linear(
        "router",
        shape.hidden_size,
        shape.n_experts,
        weight=weights.plain,
        shard=FEED_FORWARD_REPLICATED,
        kind="router",
        bias=shape.biases,
    )
    experts = Experts(
        shape.n_experts,
        shape.top_k,
        shape.hidden_size,
        shape.width,
        weight=weights(names.routed),
        # gate, up and down have 2 f + h outputs
        bias_params=2 * shape.width + shape.hidden_size if shape.biases else 0,
    )
    correction = shape.n_experts if shape.correction_bias else 0
    return Block(
        "feed_forward",
        (router, *_shared_expert(shape, weights, names)),
        experts,
        vector_params=shape.hidden_size + correction,
    )


def _shared_expert(
    shape: ExpertsShape, weights: LayerWeights, names: ExpertNames
) -> tuple[Linear, ...]:
    if not shape.shared_width:
        return ()
    gate = Linear(
        "shared_expert_gate",
        shape.hidden_size,
        1,
        weight=weights.plain,
        shard=FEED_FORWARD_REPLICATED,
        kind="router",
    )
    matrices = (
        Linear(
            "shared_gate_up_proj",
            shape.hidden_size,
            2 * shape.shared_width,
            weight=weights(names.shared_in),
            shard=TENSOR,
        ),
        Linear(
            "shared_down_proj",
            shape.shared_width,
            shape.hidden_size,
            weight=weights(names.shared_out),
            shard=TENSOR,
        ),
    )
    return (*matrices, gate) if shape.shared_gate else matrices
