"""Llama 4: attention in chunks with full layers between, experts with a shared one.

Source
    transformers 5, `models/llama4/modeling_llama4.py` and `configuration_llama4.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from specroof.architecture.chunked import ChunkedAttention
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    feed_forward_of,
    listed_kinds,
    read_attention,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertNames, ExpertTraits, Traits
from specroof.reading.json_text import Reader

_CHUNKED: Final = "chunked_attention"
_FULL: Final = "full_attention"
#: Llama4TextConfig.__post_init__: the layers of ``moe_layers``, else every
#: ``interleave_moe_layer_step`` th (1).
_ROUTING: Final = ExpertTraits(
    "num_local_experts",
    width=("intermediate_size",),
    shared=("", 1),
    listed=False,
    every="interleave_moe_layer_step",
    numbered="moe_layers",
    dense_width=("intermediate_size_mlp",),
    names=ExpertNames(
        routed="feed_forward.experts.0.gate_proj",
        shared_in="feed_forward.shared_expert.gate_proj",
        shared_out="feed_forward.shared_expert.down_proj",
    ),
)


def parse_llama4(config: ModelConfig) -> Architecture:
    """Return a Llama 4.

    `intermediate_size` is the width of an expert and of the shared expert, `intermediate_size_mlp`
    the width of a dense layer.
    """
    keys = config.keys
    keys.pass_over(
        "attn_scale attn_temperature_tuning floor_scale no_rope_layers no_rope_layer_interval "
        "interleave_moe_layer_step intermediate_size_mlp use_qk_norm"
    )
    # configuration_llama4.py: attention_bias False, head_dim 128, a share of hidden_size where it
    # is null. The norm of queries and keys (use_qk_norm) has no weights.
    head_dim = keys.optional_int("head_dim", missing=128)
    attention = read_attention(keys, head_dim, biased=True)
    # configuration_llama4.py: attention_chunk_size 8192; null means no chunks.
    chunk = keys.optional_int("attention_chunk_size", missing=8192)

    def mixer(kind: str, weights: LayerWeights) -> Block:
        block = attention_block(attention, weights)
        if kind == _FULL or chunk is None:
            return block
        heads = attention.n_heads, attention.n_kv_heads, attention.head_dim
        return replace(block, core=ChunkedAttention(*heads, attention.head_dim, chunk))

    mixers = _mixers(keys, config.n_layers)
    notes = []
    if chunk is not None and _CHUNKED in mixers:
        notes.append(
            f"chunked attention sees the current {chunk} tokens: its cost begins anew at every "
            "multiple of them"
        )
    return decoder(
        config,
        LayerPart(mixers, mixer),
        feed_forward_of(config, Traits(mlp="feed_forward", routing=_ROUTING)),
        notes=notes,
    )


def _mixers(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return each layer's attention: layers that know positions see their chunk only.

    Source
        `Llama4TextConfig.__post_init__`: ``layer_types``, else ``no_rope_layers`` (1: has rotary
        positions), else every ``no_rope_layer_interval`` th layer (4) is full.
    """
    if listed := listed_kinds(keys, "layer_types", (_CHUNKED, _FULL), n_layers):
        return listed
    if keys.values.get("no_rope_layers"):
        rotary = keys.ints("no_rope_layers", allowed=(0, 1), at_least=n_layers)
        return [_CHUNKED if uses_rope else _FULL for uses_rope in rotary[:n_layers]]
    interval = keys.positive_int("no_rope_layer_interval", default=4)
    return [_CHUNKED if (index + 1) % interval else _FULL for index in range(n_layers)]
