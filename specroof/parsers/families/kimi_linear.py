"""Linear attention beside latent attention: Kimi Linear, Kimi K3, GLM-5.3-Flash, Ling 2.5 and 3.

Source
    Kimi Linear report, arXiv:2510.26692; transformers 5, `models/kimi_linear/`; mlx-lm,
    `models/kimi_linear.py` and `models/kimi_k3.py`, with the names of the published tensors.
    Of the other families: see each.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from specroof.architecture.base import ATTENTION_REPLICATED, HEADS, Linear, Shard
from specroof.architecture.draft_heads import replicated
from specroof.architecture.model import Architecture, Block
from specroof.architecture.recurrent import KimiDeltaAttention, LightningAttention
from specroof.parsers.decoder import (
    BlockBuilder,
    LayerPart,
    LayerWeights,
    ModelConfig,
    stream_mixing,
)
from specroof.parsers.families.latent import FULL_INDEX, LatentShape, indexer_kinds, read_indexer
from specroof.reading.json_text import Reader

_LINEAR: Final = "linear_attention"
_FULL: Final = "full_attention"
_INDEXED: Final = "indexed_attention"

# --- Delta attention ------------------------------------------------------------------------------

#: Name, widths in and out, and shard of a matrix.
_Row: TypeAlias = tuple[str, int, int, Shard]


def _delta_builder(
    hidden_size: int, core: KimiDeltaAttention, rows: Sequence[_Row]
) -> BlockBuilder:
    """Return what builds delta attention with these projections.

    Vectors: the norm before it, A_log per head, dt_bias per channel, the gated norm of one head.
    """
    inner = core.n_heads * core.head_dim
    vectors = hidden_size + core.n_heads + inner + core.head_dim
    stored = {"qkv_proj": "q_proj"}  # three matrices of a checkpoint are one here

    def build(weights: LayerWeights) -> Block:
        linears = tuple(
            Linear(name, taken, made, weights(f"self_attn.{stored.get(name, name)}"), shard)
            for name, taken, made, shard in rows
        )
        return Block("attention", linears, core, vector_params=vectors)

    return build


def _kimi_delta(keys: Reader) -> BlockBuilder:
    """Return what builds delta attention whose decay comes through one head's width."""
    section, hidden_size = keys.section("linear_attn_config"), keys.positive_int("hidden_size")
    # configuration_kimi_linear.py: a kernel of 4
    if section is None:
        if not keys.has("linear_num_heads"):
            keys.refuse("linear_attn_config", "an object with num_heads and head_dim")
        n_heads = keys.positive_int("linear_num_heads")
        head_dim = keys.positive_int("linear_head_dim")
        kernel = keys.positive_int("linear_conv_kernel_dim", default=4)
    else:
        section.pass_over("kda_layers full_attn_layers gate_lower_bound")
        n_heads = section.positive_int("num_heads")
        head_dim = section.positive_int("head_dim")
        kernel = section.positive_int("short_conv_kernel_size", default=4)
    core = KimiDeltaAttention(n_heads, head_dim, kernel, conv_columns=kernel - 1)
    inner = n_heads * head_dim
    gate: list[_Row] = [
        ("g_a_proj", hidden_size, head_dim, ATTENTION_REPLICATED),
        ("g_b_proj", head_dim, inner, HEADS),
    ]
    # kimi_k3.py: the output gate is two matrices of one head's rank unless a key says so.
    if section is not None and section.flag("use_full_rank_gate", default=False):
        gate = [("g_proj", hidden_size, inner, HEADS)]
    rows = [
        ("qkv_proj", hidden_size, 3 * inner, HEADS),
        # Decay of each channel through one head's width, write strength of each head.
        ("f_a_proj", hidden_size, head_dim, ATTENTION_REPLICATED),
        ("f_b_proj", head_dim, inner, HEADS),
        ("b_proj", hidden_size, n_heads, HEADS),
        *gate,
        ("o_proj", inner, hidden_size, HEADS),
    ]
    return _delta_builder(hidden_size, core, rows)


# --- Kimi Linear and K3: latent attention every fourth layer --------------------------------------


def parse_kimi_linear(config: ModelConfig) -> Architecture:
    """Return a Kimi Linear, or the language model of a Kimi K3.

    Attention to latents has no rotary positions, though their dimensions are cached; of K3 it has
    an output gate.

    Ignores
        the arithmetic of K3's block residuals: a dot product with each of up to eight earlier
        blocks, 0.3 MFLOP of a sublayer's 900; their weights are counted.
    """
    keys, hidden_size = config.keys, config.hidden_size
    latent = LatentShape.read(keys)
    # modeling_kimi_linear.py: no gate unless a key says so.
    if keys.flag("mla_use_output_gate", default=False):
        latent = replace(latent, gate_dim=latent.value_dim)
    delta = _kimi_delta(keys)
    feed_forward = config.feed_forwards()
    # Per sublayer, and once behind the last: a projection to one number, and a norm.
    residual_params = 0
    if keys.has("attn_res_block_size"):  # Kimi K3, whose classes are not those of its text's type
        config, residual_params = replace(config, family="kimi_k3"), 2 * hidden_size

    def mixer(kind: str, weights: LayerWeights) -> Block:
        block = latent.block(weights) if kind == _FULL else delta(weights)
        return block.extended(n_params=residual_params)

    return config.decoder(
        LayerPart(_kimi_kinds(config), mixer),
        feed_forward.changed(lambda _, block, __: block.extended(n_params=residual_params)),
        vector_params=hidden_size + residual_params,
    )


def _kimi_kinds(config: ModelConfig) -> tuple[str, ...]:
    """Return each layer's kind of attention; the published lists count layers from 1."""
    keys, n_layers = config.keys, config.n_layers
    if kinds := keys.listed_kinds("layer_types", (_LINEAR, _FULL), n_layers):
        return kinds
    section = keys.required_section(
        "linear_attn_config", "an object with kda_layers and full_attn_layers"
    )
    delta, full = (
        frozenset(section.ints(key, minimum=1)) for key in ("kda_layers", "full_attn_layers")
    )
    for number in range(1, n_layers + 1):
        if (number in delta) == (number in full):
            allowed = f"layer {number} in one of kda_layers and full_attn_layers"
            section.refuse("kda_layers", allowed)
    return tuple(_LINEAR if number in delta else _FULL for number in range(1, n_layers + 1))


# --- GLM-5.3-Flash: latents behind pooled index keys, several residual streams --------------------
#
# Source
#     transformers 5.24, `models/glm5_next/modeling_glm5_next.py` and `configuration_glm5_next.py`;
#     vLLM 0.33.0, `models/glm5next/`, for `mhc`, the draft layer and the pools that are cached.


def parse_glm5_next(config: ModelConfig) -> Architecture:
    """Return the language model of a GLM-5.3-Flash.

    Ignores
        that a query also sees the tokens of the unfinished pool, up to 15 beside 2048, which wait
        with their keys and gates.
    """
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    # Glm5NextTextConfig: hc_mult 4. vLLM's has a switch, which is off in draft layers.
    n_streams = keys.positive_int("hc_mult", default=4)
    rows = (2 + n_streams) * n_streams if keys.flag("mhc", default=True) else 0
    delta = _kimi_delta(keys)
    if not keys.has("q_lora_rank"):
        keys.mistake("q_lora_rank", "a whole number from 1", instead=1)
    searching = read_indexer(keys)
    # One key of the indexer stands for a pool of tokens.
    pool = keys.divisor("index_kpool", of=searching.top_k, called="index_topk", default=16)
    searching = replace(searching, key_tokens=pool)
    full = replace(LatentShape.read(keys, rotates=False), indexer=searching)
    shared = full.sharing()

    def mixed(block: Block) -> Block:
        if not rows:
            return block
        # Beside the matrix a base of each row, and three scales.
        mixing = stream_mixing(block, n_streams * hidden_size, rows)
        return block.extended(mixing, n_params=rows + 3)

    def mixer(kind: tuple[str, str], weights: LayerWeights) -> Block:
        attention, indexer = kind
        if attention == _LINEAR:
            return mixed(delta(weights))
        shape = full if indexer == FULL_INDEX else shared
        block = shape.block(weights)
        if shape.indexer is not None:
            # Gates and positions make one index key of a pool.
            head_dim = shape.indexer.head_dim
            gate = replicated("indexer_gate", shape.hidden_size, head_dim, weights.plain)
            block = block.extended(gate, n_params=shape.indexer.key_tokens * head_dim)
        return mixed(block)

    kinds = keys.layer_kinds(n_layers, (*[_LINEAR] * 3, _INDEXED), _FULL)
    return config.decoder(
        LayerPart([*zip(kinds, indexer_kinds(keys, n_layers), strict=True)], mixer),
        config.feed_forwards().changed(lambda _, block, __: mixed(block)),
    )


# --- Ling and Ring 2.5 and 3: latent attention in the last layer of each group --------------------
#
# Source
#     transformers 5.23, `models/bailing_hybrid/` (`modeling_*.py`, `configuration_*.py`), which is
#     Ling 3; vLLM 0.33.0, `models/bailing_moe_v3.py`, `models/bailing_moe_linear.py` and
#     `layers/mamba/linear/bailing_linear_attn.py`; SGLang 0.5.23, `configs/bailing_hybrid.py`.


def parse_bailing_hybrid(config: ModelConfig) -> Architecture:
    """Return a Ling or Ring: of version 3 where it has short convolutions, else of version 2.5."""
    keys, n_layers = config.keys, config.n_layers
    has_delta = keys.has("short_conv_kernel_size")
    linear = _ling_delta(keys) if has_delta else _ling_lightning(keys)
    latent = LatentShape.read_plain(keys)
    # A gate is as wide as the heads, or as their values.
    gate_dims = {"head_wise": 1, "element_wise": latent.value_dim}
    granularity = "gated_attention_proj_granularity_type"
    gate = keys.text(granularity, allowed=gate_dims, default="head_wise" if has_delta else "")
    latent = replace(
        latent, query_rank=keys.optional_int("q_lora_rank"), gate_dim=gate_dims.get(gate, 0)
    )
    if not has_delta:
        routing = replace(
            config.routing,
            correction_bias=("moe_router_enable_expert_bias", False),
            dense=("first_k_dense_replace", 0),
        )
        config = config.of_row(replace(config.traits, routing=routing))

    def mixer(kind: str, weights: LayerWeights) -> Block:
        return latent.block(weights) if kind == _FULL else linear(weights)

    return config.decoder(
        LayerPart(_ling_kinds(keys, n_layers), mixer),
        config.feed_forwards(),
        state_dtype="fp32" if has_delta else None,
    )


def _ling_kinds(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return each layer's kind: by a list, or full attention in every last one of a group."""
    if listed := keys.listed_kinds("layer_types", (_LINEAR, _FULL), n_layers):
        return listed
    # SGLang: a list of 1 for linear attention and 0, or the number of layers of a group
    if isinstance(keys.values.get("layer_group_size"), list):
        flags = keys.ints("layer_group_size", allowed=(0, 1), at_least=n_layers)
        return [_LINEAR if flag else _FULL for flag in flags[:n_layers]]
    size = keys.positive_int("layer_group_size")
    if n_layers % size:
        keys.refuse("layer_group_size", f"a divisor of the {n_layers} layers")
    return [_LINEAR if (index + 1) % size else _FULL for index in range(n_layers)]


def _ling_delta(keys: Reader) -> BlockBuilder:
    """Return what builds Kimi delta attention whose decay and gate are whole matrices."""
    if not keys.flag("no_kda_lora", default=True):
        keys.refuse("no_kda_lora", "true, as vLLM expects")
    hidden_size = keys.positive_int("hidden_size")
    # A file that transformers saves has the rotary width as head_dim.
    head_dim = keys.positive_int("linear_head_dim", "head_dim", default=128)
    n_heads = keys.positive_int("linear_num_heads", "num_attention_heads")
    kernel = keys.positive_int("short_conv_kernel_size")
    inner = n_heads * head_dim
    rows = [
        *((name, hidden_size, inner, HEADS) for name in ("q_proj", "k_proj", "v_proj", "f_proj")),
        ("b_proj", hidden_size, n_heads, HEADS),
        ("g_proj", hidden_size, inner, HEADS),
        ("o_proj", inner, hidden_size, HEADS),
    ]
    core = KimiDeltaAttention(n_heads, head_dim, kernel, conv_columns=kernel - 1)
    return _delta_builder(hidden_size, core, rows)


def _ling_lightning(keys: Reader) -> BlockBuilder:
    """Return what builds lightning attention; its group norm spans all heads."""
    hidden_size, n_heads = (
        keys.positive_int("hidden_size"),
        keys.positive_int("num_attention_heads"),
    )
    core = LightningAttention(n_heads, keys.positive_int("head_dim"))
    inner = n_heads * core.head_dim
    rows = (
        ("query_key_value", hidden_size, 3 * inner),
        ("g_proj", hidden_size, inner),
        ("dense", inner, hidden_size),
    )
    head_norms = 2 * core.head_dim if keys.flag("use_qk_norm", default=False) else 0
    vectors = hidden_size + inner + head_norms
    return lambda weights: Block(
        "attention", weights.matrices("attention.", HEADS, *rows), core, vector_params=vectors
    )
