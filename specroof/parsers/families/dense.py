"""Dense decoders that differ from Llama in what a row of a table can say.

Source
    transformers 5.23, `models/FAMILY/configuration_FAMILY.py` for what is so where no key says it,
    and `modeling_FAMILY.py` for matrices and norms; vLLM `model_executor/models/commandr.py`, which
    exchanges the sum of both branches of a Cohere layer once. Sizes in configuration classes are
    those of an example model and no defaults: a config without them is refused.
"""

from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture import TENSOR, Architecture, AttentionShape, Block
from specroof.parsers.decoder import (
    BlockBuilder,
    Part,
    attention_block,
    decoder,
    extended,
    feed_forward_block,
    head_counts,
    layer_windows,
    matrices,
    read_attention,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import Reader


@dataclass(frozen=True, slots=True)
class DenseFamily:
    """What tells a family from Llama.

    Parameters
    ----------
    head_dim
        Width of a head where no key says it; None is the heads' share of the hidden size.
    kv_as_heads
        Whether there are as many KV heads as query heads where no key says it; else it must.
    tied
        Whether head and embedding are one table where no key says so.
    attention_bias
        Of the projections, where no key says it; None where the family has no such key.
    out_bias_key
        Key of the bias of the last projection; None where `attention_bias` says it.
    mlp_bias
        Of the feed-forward, where no key says it; None where the family has no such key.
    gated
        Whether the feed-forward has a gate.
    activation_params
        Elements of the activation function in a layer.
    qk_norm
        How far the norms of queries and keys reach: ``"head"`` is one head's width for all,
        ``"heads"`` the width of all heads, ``"use_qk_norm"`` that where this key says so.
    parallel
        Whether both branches of a layer take the output of one norm.
    norm_bias
        Whether norms have a bias.
    full_every
        Which layers attend fully where no list says so, of those with a window; 0 where the family
        has no windows.
    """

    head_dim: int | None = None
    kv_as_heads: bool = True
    tied: bool = False
    attention_bias: bool | None = False
    out_bias_key: str | None = None
    mlp_bias: bool | None = None
    gated: bool = True
    activation_params: int = 0
    qk_norm: str | None = None
    parallel: bool = False
    norm_bias: bool = False
    full_every: int = 0


FAMILIES: Final = {
    # XIELUActivation stores four numbers.
    "apertus": DenseFamily(gated=False, activation_params=4, qk_norm="head"),
    "arcee": DenseFamily(mlp_bias=False, gated=False),
    "cohere": DenseFamily(tied=True, qk_norm="use_qk_norm", parallel=True),
    "cohere2": DenseFamily(tied=True, parallel=True, full_every=4),
    "exaone4": DenseFamily(kv_as_heads=False, attention_bias=None, qk_norm="head", full_every=4),
    "gemma": DenseFamily(head_dim=256, kv_as_heads=False, tied=True),
    "granite": DenseFamily(mlp_bias=False),
    "jais2": DenseFamily(attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
    "olmo2": DenseFamily(qk_norm="heads"),
    "olmo3": DenseFamily(qk_norm="heads", full_every=4),
    "seed_oss": DenseFamily(
        head_dim=128,
        kv_as_heads=False,
        attention_bias=True,
        out_bias_key="attention_out_bias",
        mlp_bias=False,
    ),
}


def parse_dense(config: ModelConfig) -> Architecture:
    """Return a model of one of `FAMILIES`."""
    family, keys, hidden_size = FAMILIES[config.family], config.keys, config.hidden_size
    keys.pass_over("attention_multiplier residual_multiplier")
    if keys.flag("use_bidirectional_attention", default=False):
        keys.refuse("use_bidirectional_attention", "false; others are not decoders")
    shape = _shape(keys, family)
    norm_params = (2 if family.norm_bias else 1) * hidden_size
    head_norms = 0
    if family.qk_norm == "heads" or (
        family.qk_norm == "use_qk_norm" and keys.flag("use_qk_norm", default=False)
    ):
        head_norms = (shape.n_heads + shape.n_kv_heads) * shape.head_dim

    def attention(window: int | None, weights: LayerWeights) -> Block:
        block = attention_block(replace(shape, window=window), weights)
        block = extended(block, n_params=norm_params - hidden_size + head_norms)
        return replace(block, joins_next=family.parallel)

    return decoder(
        config,
        Part(_windows(keys, config.n_layers, family), attention),
        same_part(config, _feed_forward(config, family, norm_params)),
        tied_default=family.tied,
        vector_params=norm_params,
    )


def _shape(keys: Reader, family: DenseFamily) -> AttentionShape:
    n_heads = keys.positive_int("num_attention_heads")
    heads = head_counts(keys, kv_default=n_heads if family.kv_as_heads else None)
    head_dim = family.head_dim
    if head_dim is not None:
        head_dim = keys.positive_int("head_dim", default=head_dim)
    bias = family.attention_bias
    bias = bias is not None and keys.flag("attention_bias", default=bias)
    key = family.out_bias_key
    return replace(
        read_attention(keys, head_dim, heads=heads),
        qkv_bias=bias,
        out_bias=bias if key is None else keys.flag(key, default=False),
        qk_norm=family.qk_norm == "head",
    )


def _feed_forward(config: ModelConfig, family: DenseFamily, norm_params: int) -> BlockBuilder:
    keys, size = config.keys, config.hidden_size
    width = keys.positive_int("intermediate_size")
    bias = family.mlp_bias is not None and keys.flag("mlp_bias", default=family.mlp_bias)
    vectors = (0 if family.parallel else norm_params) + family.activation_params

    def build(weights: LayerWeights) -> Block:
        if family.gated:
            block = feed_forward_block(size, width, weights, bias=bias)
            return replace(block, vector_params=vectors)
        rows = ("up_proj", size, width), ("down_proj", width, size)
        linears = matrices(weights, "mlp.", TENSOR, *rows, bias=bias)
        return Block("feed_forward", linears, vector_params=vectors)

    return build


def _windows(keys: Reader, n_layers: int, family: DenseFamily) -> list[int | None]:
    """Return each layer's window.

    Source
        `__post_init__` of the configuration classes: sliding_window 4096 where the key is missing,
        none where it is null; without a list every `full_every`-th layer attends fully, or every
        ``sliding_window_pattern``-th, which EXAONE 4 spells as letters: ``"LLLG"`` (sliding three
        times, then full; SGLang `models/exaone4.py`).
    """
    window = keys.optional_int("sliding_window", missing=4096) if family.full_every else None
    if window is None:
        keys.pass_over("sliding_window_pattern layer_types")
        return [None] * n_layers
    full_every = family.full_every
    if isinstance(keys.values.get("sliding_window_pattern"), str):
        pattern = keys.text("sliding_window_pattern")
        full_every = len(pattern)
        if pattern != "L" * (full_every - 1) + "G":
            keys.refuse("sliding_window_pattern", "a number, or letters such as LLLG")
    elif keys.has("sliding_window_pattern"):
        full_every = keys.positive_int("sliding_window_pattern")
    return layer_windows(keys, n_layers, window, lambda index: (index + 1) % full_every != 0)
