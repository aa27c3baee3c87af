"""Decoders of grouped-query attention that differ in a few traits: a row of data each.

Source
    transformers 5.23, `models/{hunyuan_v1_dense,hunyuan_v1_moe,hy_v3,solar_open,dots1,ernie4_5,
    ernie4_5_moe,afmoe,phimoe}/` (`modeling_*.py`, `configuration_*.py`); SGLang 0.5.23,
    `models/hunyuan.py`, for the lists of Hunyuan; of Ling vLLM 0.33.0, `models/bailing_moe.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture import HEADS, Architecture, AttentionShape, Block
from specroof.parsers.decoder import (
    USUAL_NAMES,
    ExpertNames,
    ExpertsShape,
    Part,
    attention_block,
    decoder,
    extended,
    feed_forward_part,
    head_counts,
    layer_windows,
    listed_experts,
    matrices,
    split_head_dim,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import MAX_LAYERS, Reader


@dataclass(frozen=True, slots=True)
class _Routing:
    """Where a config says what experts its layers have.

    `dense` and `shared` are a key, and its default (None: the key is required) of the first layers
    without experts and of the shared experts; an empty key means none.
    """

    experts: str
    top_k: str = "num_experts_per_tok"
    width: tuple[str, ...] = ("moe_intermediate_size",)
    shared: tuple[str, int | None] = ("", 0)
    dense: tuple[str, int | None] = ("", 0)
    correction_bias: bool = True
    names: ExpertNames = USUAL_NAMES


@dataclass(frozen=True, slots=True)
class _Traits:
    """What the layers of a family have.

    Parameters
    ----------
    head_dim
        Width of a head where no key says so; None: the heads' share of the hidden size.
    qk_norm
        Whether queries and keys pass a norm of one head's width, where neither `use_qk_norm` nor
        `qk_norm` says so.
    out_bias
        Whether `attention_bias` is on the output, too.
    output_gate
        The matrix whose output, as wide as all heads, gates attention; empty: none.
    norms
        Vectors of the hidden size in a sublayer: 2 where a second norm stands behind it, or where
        the norm has a bias.
    final_norms
        Vectors of the hidden size behind the last layer.
    tied
        Whether the head is the embedding where no key says so.
    routing
        Experts; None: all layers are dense.
    refused
        Flags that nothing here counts: biases of feed-forwards, caches shared by layers.
    passed_over
        Keys that change no cost in this family.
    """

    head_dim: int | None = None
    qk_norm: bool = False
    out_bias: bool = True
    output_gate: str = ""
    norms: int = 1
    final_norms: int = 1
    tied: bool = False
    routing: _Routing | None = None
    refused: tuple[str, ...] = ()
    passed_over: str = ""


#: Defaults are those of the `configuration_*.py`; what a family has is in its `modeling_*.py`.
_TRAITS: Final = {
    "afmoe": _Traits(
        head_dim=128,
        qk_norm=True,
        output_gate="gate_proj",
        norms=2,
        routing=_Routing(
            "num_experts", shared=("num_shared_experts", 2), dense=("num_dense_layers", 1)
        ),
        passed_over="route_norm route_scale score_func load_balance_coeff",
    ),
    "dots1": _Traits(
        qk_norm=True,
        routing=_Routing(
            "n_routed_experts",
            shared=("n_shared_experts", None),
            dense=("first_k_dense_replace", 0),
        ),
    ),
    "ernie4_5": _Traits(head_dim=128, tied=True, refused=("use_bias",)),
    "ernie4_5_moe": _Traits(
        tied=True,
        refused=("use_bias",),
        routing=_Routing("moe_num_experts", top_k="moe_k", shared=("moe_num_shared_experts", 2)),
        passed_over="moe_norm_min moe_capacity moe_gate moe_use_aux_free",
    ),
    "hunyuan_v1_dense": _Traits(qk_norm=True, refused=("mlp_bias", "use_cla")),
    "hunyuan_v1_moe": _Traits(
        qk_norm=True,
        refused=("mlp_bias", "use_cla"),
        routing=_Routing(
            "num_experts",
            top_k="moe_topk",
            width=("moe_intermediate_size", "intermediate_size"),
            shared=("num_shared_expert", 1),
            correction_bias=False,
            names=ExpertNames(
                shared_in="mlp.shared_mlp.gate_proj", shared_out="mlp.shared_mlp.down_proj"
            ),
        ),
    ),
    "hy_v3": _Traits(
        head_dim=128,
        qk_norm=True,
        refused=("mlp_bias",),
        routing=_Routing(
            "num_experts",
            # vLLM's hy_v3.py reads the second
            width=("moe_intermediate_size", "expert_hidden_dim"),
            shared=("num_shared_experts", 1),
            dense=("first_k_dense_replace", 1),
        ),
        passed_over="router_scaling_factor enable_moe_fp32_combine route_norm",
    ),
    "phimoe": _Traits(
        norms=2,
        final_norms=2,
        routing=_Routing(
            "num_local_experts",
            width=("intermediate_size",),
            correction_bias=False,
            names=ExpertNames(routed="block_sparse_moe.experts.0.w1"),
        ),
        passed_over="input_jitter_noise",
    ),
    "solar_open": _Traits(
        head_dim=128,
        out_bias=False,
        routing=_Routing("n_routed_experts", shared=("n_shared_experts", 1)),
        passed_over="intermediate_size",
    ),
}


def parse_usual_mixture(config: ModelConfig) -> Architecture:
    """Return the model of a family that is a row of `_TRAITS`."""
    return _decoder(config, _TRAITS[config.family])


def parse_hunyuan_v1(config: ModelConfig) -> Architecture:
    """Return a Hunyuan of the first version, which must say how wide a head is."""
    # sglang/srt/models/hunyuan.py: either key, and an error without
    config.keys.positive_int("head_dim", "attention_head_dim")
    return _decoder(config, _TRAITS[config.family])


def parse_dots1(config: ModelConfig) -> Architecture:
    """Return a dots.llm1; layers from `max_window_layers` on slide, if there are so many."""
    keys = config.keys
    # configuration_dots1.py: sliding_window 4096, max_window_layers 62
    window = keys.optional_int("sliding_window", missing=4096)
    n_full = keys.positive_int("max_window_layers", minimum=0, default=62)
    windows = layer_windows(keys, config.n_layers, window, lambda index: index >= n_full)
    return _decoder(config, _TRAITS["dots1"], windows)


def parse_afmoe(config: ModelConfig) -> Architecture:
    """Return a Trinity: all layers but every few slide."""
    keys = config.keys
    # configuration_afmoe.py: sliding_window 1024, global_attn_every_n_layers 4
    window = keys.optional_int("sliding_window", missing=1024)
    stride = keys.positive_int("global_attn_every_n_layers", default=4)
    windows = layer_windows(keys, config.n_layers, window, lambda index: (index + 1) % stride != 0)
    return _decoder(config, _TRAITS["afmoe"], windows)


def parse_phimoe(config: ModelConfig) -> Architecture:
    """Return a Phi-3.5-MoE; where the window is a number, all layers have it."""
    windows = [config.keys.optional_int("sliding_window")] * config.n_layers
    model = _decoder(config, _TRAITS["phimoe"], windows)
    # configuration_phimoe.py: lm_head_bias False
    biased = config.keys.flag("lm_head_bias", default=False)
    return replace(model, head=replace(model.head, bias=biased))


def parse_ernie4_5_moe(config: ModelConfig) -> Architecture:
    """Return an ERNIE 4.5 with experts, in every few layers from one to another."""
    keys, n_layers = config.keys, config.n_layers
    # configuration_ernie4_5_moe.py: from 1 to -1, the last, each
    first = keys.positive_int("moe_layer_start_index", minimum=0, maximum=MAX_LAYERS, default=1)
    last = keys.positive_int("moe_layer_end_index", minimum=-1, maximum=MAX_LAYERS, default=-1)
    stride = keys.positive_int("moe_layer_interval", default=1)
    stop = n_layers if last == -1 else last + 1
    sparse = [first <= index < stop and (index + 1) % stride == 0 for index in range(n_layers)]
    return _decoder(config, _TRAITS["ernie4_5_moe"], sparse=sparse)


def parse_bailing_moe(config: ModelConfig) -> Architecture:
    """Return a Ling or Ring up to version 2.0; biases and head norms are keys.

    A head norm is a layer norm, with a bias, unless `use_rmsnorm` is true; its 2 x 2 head_dim
    elements are counted as of a norm without.
    """
    keys = config.keys
    traits = _Traits(
        qk_norm=keys.flag("use_qk_norm", default=False),
        refused=("use_bias",),
        routing=_Routing(
            "num_experts",
            shared=("num_shared_experts", 0),
            dense=("first_k_dense_replace", 0),
            correction_bias=keys.flag("moe_router_enable_expert_bias", default=False),
        ),
        passed_over=(
            "norm_head norm_softmax router_type router_dtype score_function use_rmsnorm "
            "max_window_layers sliding_window"
        ),
    )
    return _decoder(config, traits)


def _decoder(
    config: ModelConfig,
    traits: _Traits,
    windows: Sequence[int | None] | None = None,
    sparse: Sequence[bool] | None = None,
) -> Architecture:
    """Return the model; `sparse` says which layers have experts where the traits do not."""
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    keys.pass_over(traits.passed_over)
    for key in traits.refused:
        if keys.flag(key, default=False):
            keys.refuse(key, "false")
    shape = _attention_shape(keys, traits)
    gate = (traits.output_gate, hidden_size, shape.n_heads * shape.head_dim)
    gates = (gate,) if traits.output_gate else ()
    more_norms = (traits.norms - 1) * hidden_size
    routing = traits.routing
    sparse = sparse or _sparse_layers(keys, n_layers, routing)
    experts = _experts_shape(keys, routing, n_layers) if routing and any(sparse) else None
    names = routing.names if routing else USUAL_NAMES
    feed_forward = feed_forward_part(config, experts, sparse, names=names)

    def attention(window: int | None, weights: LayerWeights) -> Block:
        block = attention_block(replace(shape, window=window), weights)
        gating = matrices(weights, "self_attn.", HEADS, *gates)
        return extended(block, *gating, n_params=more_norms)

    def behind(is_sparse: bool, weights: LayerWeights) -> Block | None:
        block = feed_forward.build(is_sparse, weights)
        return block and extended(block, n_params=more_norms)

    return decoder(
        config,
        Part(windows or [None] * n_layers, attention),
        Part(sparse, behind),
        tied_default=traits.tied,
        vector_params=traits.final_norms * hidden_size,
    )


def _attention_shape(keys: Reader, traits: _Traits) -> AttentionShape:
    # All these configuration classes have as many KV heads as query heads where nothing is said.
    heads = head_counts(keys, kv_default=keys.positive_int("num_attention_heads"))
    stated = keys.optional_int("attention_head_dim", missing=traits.head_dim)
    head_dim = keys.optional_int("head_dim", missing=stated) or split_head_dim(keys)
    bias = keys.flag("attention_bias", default=False)
    qk_norm = keys.flag("use_qk_norm", default=traits.qk_norm)
    return AttentionShape(
        keys.positive_int("hidden_size"),
        *heads,
        head_dim,
        qkv_bias=bias,
        out_bias=bias and traits.out_bias,
        qk_norm=keys.flag("qk_norm", default=qk_norm),
    )


def _sparse_layers(keys: Reader, n_layers: int, routing: _Routing | None) -> list[bool]:
    """Return which layers have experts: those that a list says, or all but the first few."""
    if routing is None:
        return [False] * n_layers
    listed = listed_experts(keys, n_layers)
    if listed is not None:
        return listed
    key, default = routing.dense
    n_dense = keys.positive_int(key, minimum=0, maximum=MAX_LAYERS, default=default) if key else 0
    return [index >= n_dense for index in range(n_layers)]


def _experts_shape(keys: Reader, routing: _Routing, n_layers: int) -> ExpertsShape:
    n_experts = keys.positive_int(routing.experts)
    top_k = _of_all_layers(keys, n_layers, routing.top_k)
    if top_k > n_experts:
        keys.refuse(routing.top_k, f"up to the {n_experts} experts")
    width = _of_all_layers(keys, n_layers, *routing.width)
    key, default = routing.shared
    n_shared = _of_all_layers(keys, n_layers, key, minimum=0, default=default) if key else 0
    # Ling's shared experts may have a width of their own.
    shared = keys.positive_int("moe_shared_expert_intermediate_size", default=width)
    return ExpertsShape(
        keys.positive_int("hidden_size"),
        n_experts,
        top_k,
        width,
        shared_width=n_shared * shared,
        correction_bias=routing.correction_bias,
    )


def _of_all_layers(
    keys: Reader, n_layers: int, *names: str, minimum: int = 1, default: int | None = None
) -> int:
    """Return a number that all layers have, stated once or in a list with one of each (Hunyuan)."""
    key = next((name for name in names if keys.has(name)), names[0])
    if not isinstance(keys.values.get(key), list):
        return keys.positive_int(key, minimum=minimum, default=default)
    numbers = set(keys.ints(key, minimum=minimum, at_least=n_layers)[:n_layers])
    if len(numbers) > 1:
        keys.refuse(key, "the same number for all layers")
    return numbers.pop()
