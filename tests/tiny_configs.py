"""Small configs of each kind of attention and feed-forward, and how tests look into models."""

import json
from dataclasses import replace
from itertools import chain
from typing import Any

from specroof.architecture import Architecture, Experts, GroupedQueryAttention, Linear
from specroof.parsers import parse_config

Config = dict[str, Any]

TINY: Config = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}
#: What a config of an unknown type has to say itself.
STATED: Config = {"head_dim": 16, "hidden_act": "silu", "tie_word_embeddings": False}
TINY_EXPERTS: Config = {
    **TINY,
    "num_experts": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}
TINY_HYBRID: Config = {
    **TINY_EXPERTS,
    "num_hidden_layers": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}
TINY_LATENT: Config = {
    **TINY,
    "model_type": "deepseek_v3",
    "num_hidden_layers": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "index_n_heads": 3,
    "index_head_dim": 5,
    "index_topk": 7,
}
TINY_COMPRESSED: Config = {
    **TINY_LATENT,
    "model_type": "deepseek_v4",
    "num_key_value_heads": 1,
    "head_dim": 32,
    "o_groups": 2,
    "o_lora_rank": 10,
    "sliding_window": 128,
    "compress_ratios": [0, 4, 128, 4, 0],
}


def parse(config: Config, sidecar: Config | None = None, **options: str) -> Architecture:
    """Return what the text of a config becomes."""
    quantization_text = None if sidecar is None else json.dumps(sidecar)
    return parse_config(
        json.dumps(config),
        source=options.pop("source", "config.json"),
        quantization_text=quantization_text,
        **options,
    )


def left_out(model: Architecture) -> tuple[str, ...]:
    """Return the notes of a model but that of unread keys, which small configs have many of."""
    return tuple(note for note in model.notes if not note.startswith("not understood"))


def linears(model: Architecture, layer: int = 0) -> dict[str, Linear]:
    """Return the matrices of one of the distinct layers by name."""
    blocks = model.layers[layer].blocks
    return {linear.name: linear for linear in chain(*(block.linears for block in blocks))}


def cores(model: Architecture) -> list[Any]:
    """Return the core of each distinct layer's mixer."""
    return [layer.blocks[0].core for layer in model.layers]


def windows(model: Architecture) -> dict[int | None, int]:
    """Return how many layers have each window."""
    return {
        layer.blocks[0].core.window: layer.count
        for layer in model.layers
        if isinstance(layer.blocks[0].core, GroupedQueryAttention)
    }


def formats(model: Architecture) -> set[str]:
    """Return the names of all formats inside layers."""
    blocks = [block for layer in model.layers for block in layer.blocks]
    cored = {block.core.weight.name for block in blocks if isinstance(block.core, Experts)}
    return cored | {linear.weight.name for block in blocks for linear in block.linears}


def anonymous(model: Architecture) -> Architecture:
    """Return a model without what depends on where its config came from."""
    family = model.family.removesuffix("_text")
    return replace(model, name="", notes=(), family=family, vision=None)


FP8_BLOCKS: Config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
