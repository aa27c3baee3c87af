"""Decoders of grouped queries that differ by keys: a row of data each.

`decoder.py` makes the model of a row. A family of another shape has a function in `families/`.

Source
    transformers 5.23, `models/FAMILY/configuration_FAMILY.py` for what is so where no key says it,
    and `modeling_FAMILY.py` for matrices, biases and norms; SGLang 0.5.23, `models/hunyuan.py`, for
    the lists of Hunyuan; vLLM 0.33.0, `models/bailing_moe.py`, of Ling, and `models/commandr.py`,
    which exchanges the sum of both branches of a Cohere layer once. Sizes in configuration classes
    are those of an example model and no defaults: a config without them is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from specroof.reading.json_text import Reader

#: What a family always or never has, or the keys that say so, the first first, and their default.
Flag: TypeAlias = bool | tuple[str, bool] | tuple[str, str, bool]
#: A number under a key, or the first of several words, with its default (None: the key is
#: required); an empty key has the default.
Number: TypeAlias = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """What a family calls the matrices of its experts inside a layer.

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


USUAL_NAMES: Final = ExpertNames()
#: As Mixtral has them, and those that follow it.
BLOCK_SPARSE_NAMES: Final = ExpertNames(
    routed="block_sparse_moe.experts.0.w1",
    shared_in="block_sparse_moe.shared_experts.gate_proj",
    shared_out="block_sparse_moe.shared_experts.down_proj",
)
#: What Qwen calls the matrices of its one shared expert.
SHARED_EXPERT_NAMES: Final = ExpertNames(
    shared_in="mlp.shared_expert.gate_proj", shared_out="mlp.shared_expert.down_proj"
)
#: What Granite calls the matrices of its experts.
GRANITE_NAMES: Final = ExpertNames(
    routed="block_sparse_moe.input_linear",
    shared_in="shared_mlp.input_linear",
    shared_out="shared_mlp.output_linear",
)


@dataclass(frozen=True, slots=True)
class Windows:
    """Which layers see the last `sliding_window` tokens only.

    Parameters
    ----------
    size
        The window where the key is missing; None: there is none. A null key is none, too.
    full_every, first_full
        Where no list says so, every so many-th layer attends fully, this one among them (-1: the
        last); 0: all layers have the window.
    stride_keys
        Where a config says how many; letters such as LLLG for EXAONE.
    since, until
        The first layer with a window, and the first without.
    switch
        Whether `use_sliding_window` switches it on; many configs carry a window that is off.
    listed
        Whether `layer_types` says which layers have it.
    last_full
        Whether the last layer attends fully, whatever its number.
    dense_stride_key
        Where a config says every how many-th (1) of the layers before the first with experts
        attends fully, in a family that counts the two apart.
    """

    size: int | None = 4096
    full_every: int = 0
    first_full: int | None = None
    stride_keys: tuple[str, ...] = ()
    since: Number = ("", 0)
    until: Number = ("", None)
    switch: bool = False
    listed: bool = True
    last_full: bool = False
    dense_stride_key: str = ""


@dataclass(frozen=True, slots=True)
class ExpertTraits:
    """What experts the layers have, and which layers have some.

    Parameters
    ----------
    experts, top_k, width
        Keys of the number of experts (the first of several words), of how many a token visits, and
        of the width of one.
    shared, each_shared
        The number of shared experts, and keys of the width of one, with whether one is required:
        where no key says so each is as wide as the others.
    shared_width
        The width of the one shared expert, where the family has this instead of a number.
    shared_gate
        Whether a gate of one row weighs the shared expert.
    correction_bias
        Whether each expert has a bias that only the selection sees.
    biases
        Whether router and experts have biases.
    listed
        Whether `mlp_layer_types` says which layers have experts.
    dense
        The first layers without.
    named, every, stride
        A list of layers without, in the place of the first, and every how many-th of the others has
        experts, counted from 1 and from 0.
    flagged, numbered
        A list of 1 and 0, one a layer, and one of the numbers of layers with experts.
    span
        The first layer with experts, the last one (-1: of the model), and every how many-th.
    dense_width
        The width of layers without, where one of these keys says so.
    inner
        The key of the width that routed experts work at, where a config has it, and the
        matrices from the hidden size to it and back; None: they work at that size.
    inner_norms
        Norms of that width.
    names
        Of the matrices.
    """

    experts: str
    top_k: tuple[str, ...] = ("num_experts_per_tok",)
    width: tuple[str, ...] = ("moe_intermediate_size",)
    shared: Number = ("", 0)
    each_shared: tuple[str, bool] = ("", False)
    shared_width: Number = ("", 0)
    shared_gate: bool = False
    correction_bias: Flag = False
    biases: bool = False
    listed: bool = True
    dense: Number = ("", 0)
    named: str = ""
    every: str = ""
    stride: str = ""
    flagged: str = ""
    numbered: str = ""
    span: tuple[str, str, str] | None = None
    dense_width: tuple[str, ...] = ("intermediate_size",)
    inner: tuple[str, str, str] | None = None
    inner_norms: tuple[Flag, ...] = ()
    names: ExpertNames = USUAL_NAMES


@dataclass(frozen=True, slots=True)
class Traits:
    """What tells a family from Llama.

    Parameters
    ----------
    spelled
        The family's own names of usual keys.
    head_dim
        Width of a head where no key says it; None is the heads' share of the hidden size.
    head_dim_keys
        Keys that say it; none: it is always the heads' share.
    states_head_dim
        Whether a config without is refused.
    listed_heads
        Where a config lists the query heads of each layer.
    heads, kv_heads
        Query heads, and KV heads, where no key says it: ``"heads"`` is as many as query heads,
        ``"all"`` that in every model of the family, ``"multi_query"`` one where this key says so,
        None refuses such a config.
    qkv_bias, out_bias, mlp_bias, head_bias
        Of queries, keys and values; of the output; of dense feed-forwards; of the head.
    qk_norm, norm_span
        Whether queries and keys pass a norm, and whether it is of one head's width for all
        (``"head"``), or of the width of all heads (``"heads"``).
    sinks
        Whether every head has an attention sink.
    query_gate
        Whether the matrix of queries makes a gate of attention's output, too.
    output_gate, gate_kinds, gate_bias
        The matrix whose output gates attention (empty: none); the key that says whether it gates
        each head or each element (empty: always the latter); whether every head has a bias of it.
    windows
        None where all layers attend to all tokens.
    mlp, mlp_names, gated
        What checkpoints call a dense feed-forward inside a layer, and its first and last matrix in
        it; whether it has a gate.
    width
        The key of its inner width (empty: none), and how many times the hidden size it is where no
        key says so.
    activation_params
        Elements of the activation function in a layer.
    norms, norm_vectors
        Norms around attention and around a feed-forward, with gates of the residual stream, and
        vectors of each: 2 with a bias, 0 without elements.
    more_norms
        Norms around a sublayer where a key says that there are two.
    inner_norms
        Whether the last matrix of each sublayer takes the output of a norm.
    parallel, one_norm
        Whether both branches of a layer take the same input, and the output of one norm.
    positions, first_position
        Rows of a table of learned positions, or of words beside the embedding, and how many precede
        the first.
    embedding_norm
        Whether the embedding passes a norm.
    tied, vocab_size
        Whether head and embedding are one table, and its rows, where no key says so.
    head_rows
        Where a config says that the head has fewer rows than the embedding.
    routing
        Experts; None: all layers are dense.
    refused
        Flags that nothing here counts: biases of feed-forwards, caches shared by layers.
    passed_over
        Keys that change no cost in this family.
    note
        A sentence for the reader of every model of the family.
    """

    spelled: Mapping[str, str] = field(default_factory=dict)
    head_dim: int | None = None
    head_dim_keys: tuple[str, ...] = ("head_dim",)
    states_head_dim: bool = False
    listed_heads: str = ""
    heads: int | None = None
    kv_heads: int | Literal["heads", "all", "multi_query"] | None = "heads"
    qkv_bias: Flag = False
    out_bias: Flag = False
    mlp_bias: Flag = False
    head_bias: Flag = False
    qk_norm: Flag = False
    norm_span: Literal["head", "heads"] = "head"
    sinks: bool = False
    query_gate: Flag = False
    output_gate: str = ""
    gate_kinds: str = ""
    gate_bias: bool = False
    windows: Windows | None = None
    mlp: str = "mlp"
    mlp_names: tuple[str, str] = ("gate_proj", "down_proj")
    gated: bool = True
    width: Number = ("intermediate_size", None)
    activation_params: int = 0
    norms: tuple[int, int] = (1, 1)
    norm_vectors: int = 1
    more_norms: Flag = False
    inner_norms: bool = False
    parallel: Flag = False
    one_norm: bool = True
    positions: Number = ("", 0)
    first_position: int = 0
    embedding_norm: bool = False
    tied: bool = False
    vocab_size: int | None = None
    head_rows: str = ""
    routing: ExpertTraits | None = None
    refused: tuple[str, ...] = ()
    passed_over: str = ""
    note: str = ""


_BIAS: Final = ("attention_bias", False)
_BIASED: Final = ("attention_bias", True)
_MLP_BIAS: Final = ("mlp_bias", False)
_ANY_BIAS: Final = ("bias", False)
_MULTIPLIERS: Final = "attention_multiplier residual_multiplier"

_BIASES: Final = Traits(qkv_bias=_BIAS, out_bias=_BIAS)
_LLAMA: Final = Traits(qkv_bias=_BIAS, out_bias=_BIAS, mlp_bias=_MLP_BIAS)
_QWEN_WINDOWS: Final = Windows(switch=True, since=("max_window_layers", 28))
_QWEN_2: Final = Traits(
    kv_heads=None,
    qkv_bias=True,
    windows=_QWEN_WINDOWS,
    passed_over="use_qk_norm",
)
_QWEN_3: Final = replace(_QWEN_2, head_dim=128, qkv_bias=_BIAS, out_bias=_BIAS, qk_norm=True)
_QWEN_EXPERTS: Final = ExpertTraits(
    "num_experts", listed=False, named="mlp_only_layers", every="decoder_sparse_step"
)
#: With a shared expert, which a gate weighs.
GATED_EXPERTS: Final = replace(
    _QWEN_EXPERTS,
    shared_width=("shared_expert_intermediate_size", None),
    shared_gate=True,
    names=SHARED_EXPERT_NAMES,
)
_QWEN_3_MOE: Final = replace(
    _QWEN_3, head_dim=None, windows=Windows(switch=True, listed=False), routing=_QWEN_EXPERTS
)
_ALL_IN_WINDOW: Final = Windows(listed=False)
_WINDOW_IF_STATED: Final = Windows(None, listed=False)
_GLM_EXPERTS: Final = ExpertTraits(
    "n_routed_experts",
    listed=False,
    shared=("n_shared_experts", 1),
    dense=("first_k_dense_replace", 1),
    correction_bias=True,
)
_GLM_4_MOE: Final = Traits(
    kv_heads=None, qkv_bias=_BIAS, qk_norm=("use_qk_norm", False), routing=_GLM_EXPERTS
)
_GEMMA: Final = Traits(
    head_dim=256,
    kv_heads=None,
    tied=True,
    refused=("use_bidirectional_attention",),
)
_GEMMA_2: Final = replace(
    _GEMMA,
    qkv_bias=_BIAS,
    out_bias=_BIAS,
    norms=(2, 2),
    windows=Windows(full_every=2),
    passed_over="sliding_window_size",
    refused=(),
)
_GEMMA_3: Final = replace(
    _GEMMA_2,
    heads=8,
    kv_heads=4,
    qk_norm=True,
    vocab_size=262_208,
    windows=Windows(
        full_every=6, stride_keys=("sliding_window_pattern", "_sliding_window_pattern")
    ),
    refused=("use_bidirectional_attention",),
)
_GRANITE_MOE: Final = replace(
    _LLAMA,
    mlp_bias=False,
    passed_over=_MULTIPLIERS,
    routing=ExpertTraits(
        "num_local_experts",
        width=("intermediate_size",),
        listed=False,
        shared_width=("shared_intermediate_size", 0),
        names=GRANITE_NAMES,
    ),
)
_DENSE: Final = Traits(
    qkv_bias=_BIAS,
    out_bias=_BIAS,
    refused=("use_bidirectional_attention",),
    passed_over=f"{_MULTIPLIERS} sliding_window_pattern layer_types",
)
_PATTERN: Final = Windows(full_every=4, stride_keys=("sliding_window_pattern",))
_HUNYUAN: Final = Traits(
    # sglang/srt/models/hunyuan.py: either key, and an error without
    head_dim_keys=("head_dim", "attention_head_dim"),
    states_head_dim=True,
    qkv_bias=_BIAS,
    out_bias=_BIAS,
    qk_norm=("qk_norm", "use_qk_norm", True),
    refused=("mlp_bias", "use_cla"),
)
#: Shared experts of Ling may have a width of their own.
LING_SHARED: Final = ("moe_shared_expert_intermediate_size", False)
_BAILING: Final = Traits(
    qkv_bias=_BIAS,
    out_bias=_BIAS,
    # A layer norm, with a bias, unless `use_rmsnorm` is true; its 2 x 2 head_dim elements are
    # counted as of a norm without.
    qk_norm=("use_qk_norm", False),
    refused=("use_bias",),
    routing=ExpertTraits(
        "num_experts",
        shared=("num_shared_experts", 0),
        each_shared=LING_SHARED,
        dense=("first_k_dense_replace", 0),
        correction_bias=("moe_router_enable_expert_bias", False),
    ),
    passed_over=(
        "norm_head norm_softmax router_type router_dtype score_function use_rmsnorm "
        "max_window_layers sliding_window"
    ),
)
_DEEPSEEK_OCR: Final = replace(
    _LLAMA,
    head_dim_keys=(),
    routing=ExpertTraits(
        "n_routed_experts", shared=("n_shared_experts", 2), dense=("first_k_dense_replace", 0)
    ),
    passed_over="head_dim",
)
_NORMED: Final = ("qk_norm", "use_qk_norm", True)
_GPT: Final = Traits(
    head_dim_keys=(),
    kv_heads="all",
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
    gated=False,
    norm_vectors=2,
)
_N_EMBED: Final = {
    "hidden_size": "n_embed",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
}
_GPT_2: Final = replace(
    _GPT,
    spelled=_N_EMBED | {"hidden_size": "n_embd"},
    width=("n_inner", 4),
    positions=("n_positions", 1024),
    tied=True,
    refused=("add_cross_attention",),
    passed_over=(
        "n_ctx n_positions activation_function summary_type summary_use_proj summary_proj_to_labels "
        "summary_first_dropout resid_pdrop embd_pdrop attn_pdrop scale_attn_by_inverse_layer_idx "
        "reorder_and_upcast_attn attention_softmax_in_fp32 scale_attention_softmax_in_fp32"
    ),
)
_GPT_J: Final = replace(
    _GPT_2,
    qkv_bias=False,
    out_bias=False,
    head_bias=True,
    positions=("", 0),
    parallel=True,
    tied=False,
)
_OLMOE: Final = Traits(
    qkv_bias=_BIAS,
    out_bias=_BIAS,
    qk_norm=True,
    norm_span="heads",
    routing=ExpertTraits("num_experts", width=("intermediate_size",), listed=False),
    passed_over="clip_qkv",
)

#: XIELUActivation stores four numbers.
_APERTUS: Final = replace(_DENSE, gated=False, activation_params=4, qk_norm=True)
#: Norms of queries and keys and of the embedding have no elements.
_MUSE: Final = replace(
    _BIASES,
    head_dim=128,
    kv_heads=None,
    output_gate="gate_proj",
    norms=(2, 2),
    windows=Windows(2048, full_every=4, first_full=-1),
    passed_over="qk_scale_factor output_multiplier layer_rope_theta",
)
#: The norm behind attention has no elements; gates of the residual stream stand behind both.
_MUSE_SPARK: Final = replace(
    _MUSE,
    head_dim=64,
    norms=(2, 3),
    routing=ExpertTraits(
        "num_local_experts",
        correction_bias=True,
        inner=("moe_hidden_size", "pre_expert_proj", "post_expert_proj"),
        inner_norms=(True, True),
    ),
    passed_over=f"{_MUSE.passed_over} intermediate_size residual_gate_temperature",
)


def _falcon(keys: Reader) -> Traits:
    """Return a Falcon: of both branches or one after the other, behind one norm or two.

    Only the new decoder asks how many KV heads there are.
    """
    # configuration_falcon.py: new_decoder_architecture False, parallel_attn True
    is_new = keys.flag("new_decoder_architecture", default=False)
    norms = keys.positive_int("num_ln_in_parallel_attn", maximum=2, default=2 if is_new else 1)
    return replace(
        _GPT,
        # n_embed goes before hidden_size
        spelled=_N_EMBED | ({"num_key_value_heads": "num_kv_heads"} if is_new else {}),
        kv_heads="heads" if is_new else "multi_query",
        qkv_bias=_ANY_BIAS,
        out_bias=_ANY_BIAS,
        mlp_bias=_ANY_BIAS,
        width=("ffn_hidden_size", 4),
        parallel=keys.flag("parallel_attn", default=True),
        one_norm=norms == 1,
        tied=True,
        passed_over=(
            "activation alibi apply_residual_connection_post_layernorm hidden_size num_kv_heads"
        ),
    )


def _molmo2(keys: Reader) -> Traits:
    """Return a Molmo 2, with norms of queries and keys as Qwen 3 or OLMo 2 has them.

    Its head has no rows for words of images, which stand beside the embedding.

    Source
        transformers 5.24, `models/molmo2/modeling_molmo2.py` and `configuration_molmo2.py`.
    """
    keys.expect_flags("use_qk_norm", value=True)
    kind = keys.text("qk_norm_type", allowed=("qwen3", "olmo"), default="qwen3")
    return Traits(
        head_dim=128,
        kv_heads=None,
        # published files have the first, and so do OLMo's: no bias behind attention
        qkv_bias=("qkv_bias", "attention_bias", False),
        qk_norm=True,
        norm_span="head" if kind == "qwen3" else "heads",
        positions=("additional_vocab_size", 128),
        passed_over="norm_after rope_scaling_layers qk_norm_type",
    )


#: Defaults are those of the `configuration_*.py`; what a family has is in its `modeling_*.py`.
#: A row that keys of a config choose is a function of them.
TRAITS: Final[dict[str, Traits | Callable[[Reader], Traits]]] = {
    "afmoe": replace(
        _BIASES,
        head_dim=128,
        qk_norm=_NORMED,
        output_gate="gate_proj",
        norms=(2, 2),
        windows=Windows(1024, full_every=4, stride_keys=("global_attn_every_n_layers",)),
        routing=ExpertTraits(
            "num_experts",
            shared=("num_shared_experts", 2),
            dense=("num_dense_layers", 1),
            correction_bias=True,
        ),
        passed_over="route_norm route_scale score_func load_balance_coeff",
    ),
    "apertus": _APERTUS,
    "apertus1p5_text": replace(_APERTUS, head_rows="output_vocab_size"),
    "arcee": replace(_DENSE, mlp_bias=_MLP_BIAS, gated=False),
    "bailing_moe": _BAILING,
    "bailing_moe_v2": _BAILING,
    "cohere": replace(
        _DENSE, tied=True, qk_norm=("use_qk_norm", False), norm_span="heads", parallel=True
    ),
    "cohere2": replace(_DENSE, tied=True, parallel=True, windows=_PATTERN),
    "deepseek_ocr2_text": _DEEPSEEK_OCR,
    "dots1": replace(
        _BIASES,
        qk_norm=_NORMED,
        windows=Windows(since=("max_window_layers", 62)),
        routing=ExpertTraits(
            "n_routed_experts",
            shared=("n_shared_experts", None),
            dense=("first_k_dense_replace", 0),
            correction_bias=True,
        ),
    ),
    "ernie4_5": replace(
        _BIASES,
        head_dim=128,
        qk_norm=("qk_norm", "use_qk_norm", False),
        tied=True,
        refused=("use_bias",),
    ),
    "ernie4_5_moe": replace(
        _BIASES,
        qk_norm=("qk_norm", "use_qk_norm", False),
        tied=True,
        refused=("use_bias",),
        routing=ExpertTraits(
            "moe_num_experts",
            top_k=("moe_k",),
            shared=("moe_num_shared_experts", 2),
            span=("moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"),
            correction_bias=True,
        ),
        passed_over="moe_norm_min moe_capacity moe_gate moe_use_aux_free",
    ),
    "exaone4": replace(
        _DENSE, kv_heads=None, qkv_bias=False, out_bias=False, qk_norm=True, windows=_PATTERN
    ),
    "gemma": replace(_GEMMA, qkv_bias=_BIAS, out_bias=_BIAS, passed_over=_DENSE.passed_over),
    "gemma2": _GEMMA_2,
    "gemma3": _GEMMA_3,
    "gemma3_text": _GEMMA_3,
    "glm4_moe": _GLM_4_MOE,
    # Queries, keys and values have a bias, whatever `attention_bias` says.
    "glm4v_text": Traits(
        head_dim_keys=(), qkv_bias=True, norms=(2, 2), passed_over="attention_bias head_dim"
    ),
    "glm_ocr_text": Traits(norms=(2, 2)),
    "glm4v_moe": replace(_GLM_4_MOE, qkv_bias=_BIASED),
    "glm4v_moe_text": replace(_GLM_4_MOE, qkv_bias=_BIASED),
    "gpt_oss": Traits(
        head_dim=64,
        kv_heads=None,
        qkv_bias=_BIASED,
        out_bias=_BIASED,
        sinks=True,
        windows=Windows(128, full_every=2),
        routing=ExpertTraits(
            "num_local_experts",
            top_k=("num_experts_per_tok", "experts_per_token"),
            width=("intermediate_size",),
            listed=False,
            biases=True,
            names=ExpertNames(routed="mlp.experts.gate_up_proj"),
        ),
        passed_over="experts_per_token",
    ),
    "granite": replace(_DENSE, mlp_bias=_MLP_BIAS),
    "granitemoe": _GRANITE_MOE,
    "granitemoeshared": _GRANITE_MOE,
    "granite4_vision_text": replace(_DENSE, mlp_bias=_MLP_BIAS),
    "granite_docling_text": replace(_DENSE, mlp_bias=_MLP_BIAS, tied=True),
    "hunyuan_v1_dense": _HUNYUAN,
    "hunyuan_v1_moe": replace(
        _HUNYUAN,
        routing=ExpertTraits(
            "num_experts",
            top_k=("moe_topk",),
            width=("moe_intermediate_size", "intermediate_size"),
            shared=("num_shared_expert", 1),
            names=ExpertNames(
                shared_in="mlp.shared_mlp.gate_proj", shared_out="mlp.shared_mlp.down_proj"
            ),
        ),
    ),
    **dict.fromkeys(
        ("hunyuan_vl", "hunyuan_vl_text"),
        replace(_HUNYUAN, qk_norm=True, tied=True, passed_over="qk_norm use_qk_norm"),
    ),
    "hy_v3": replace(
        _BIASES,
        head_dim=128,
        qk_norm=_NORMED,
        refused=("mlp_bias",),
        routing=ExpertTraits(
            "num_experts",
            # vLLM's hy_v3.py reads the second
            width=("moe_intermediate_size", "expert_hidden_dim"),
            shared=("num_shared_experts", 1),
            dense=("first_k_dense_replace", 1),
            correction_bias=True,
        ),
        passed_over="router_scaling_factor enable_moe_fp32_combine route_norm",
    ),
    "jais2": replace(
        _DENSE,
        qkv_bias=_BIASED,
        out_bias=_BIASED,
        mlp_bias=("mlp_bias", True),
        gated=False,
        norm_vectors=2,
    ),
    "llama": _LLAMA,
    # A Qwen2, whose bias is not the config's to say.
    "mimo": replace(_QWEN_2, passed_over=_QWEN_2.passed_over + " attention_bias"),
    "ministral": Traits(kv_heads=None, windows=Windows()),
    "ministral3": Traits(head_dim=128, kv_heads=None, windows=_WINDOW_IF_STATED),
    "mistral": Traits(kv_heads=None, windows=_ALL_IN_WINDOW),
    "mistral3": Traits(kv_heads=None, windows=_ALL_IN_WINDOW),
    "mixtral": Traits(
        kv_heads=None,
        windows=_WINDOW_IF_STATED,
        routing=ExpertTraits(
            "num_local_experts",
            width=("intermediate_size",),
            listed=False,
            names=BLOCK_SPARSE_NAMES,
        ),
    ),
    "olmo2": replace(_DENSE, qk_norm=True, norm_span="heads"),
    "olmo3": replace(_DENSE, qk_norm=True, norm_span="heads", windows=_PATTERN),
    **dict.fromkeys(
        ("paddleocr_vl", "paddleocr_vl_text"),
        Traits(
            head_dim=128,
            qkv_bias=("use_bias", False),
            out_bias=("use_bias", False),
            mlp_bias=("use_bias", False),
            tied=True,
        ),
    ),
    # No matrix has a bias, whatever `attention_bias` says.
    **dict.fromkeys(("phi3", "phi4_multimodal"), Traits(windows=_WINDOW_IF_STATED)),
    # What the checkpoint of Phi-4-multimodal says, which vLLM's phi4mm.py reads as a Llama.
    "phi4mm": replace(
        _LLAMA,
        refused=("lm_head_bias",),
        passed_over=(
            "audio_processor embd_layer full_attn_mod img_processor interpolate_factor sliding_window"
        ),
    ),
    "phimoe": replace(
        _BIASES,
        head_bias=("lm_head_bias", False),
        qk_norm=("qk_norm", "use_qk_norm", False),
        norm_vectors=2,
        windows=_WINDOW_IF_STATED,
        routing=ExpertTraits(
            "num_local_experts",
            width=("intermediate_size",),
            names=ExpertNames(routed="block_sparse_moe.experts.0.w1"),
        ),
        passed_over="input_jitter_noise",
    ),
    **dict.fromkeys(
        (
            *("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"),
            "qwen2_5_omni_text",
        ),
        _QWEN_2,
    ),
    "qwen2_moe": replace(
        _QWEN_2,
        qkv_bias=("qkv_bias", True),
        # Where it is used, every other layer up to one has it.
        windows=Windows(switch=True, full_every=2, until=("max_window_layers", 28)),
        routing=GATED_EXPERTS,
    ),
    **dict.fromkeys(("qwen3", "qwen3_vl", "qwen3_vl_text"), _QWEN_3),
    **dict.fromkeys(
        ("qwen3_moe", "qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"), _QWEN_3_MOE
    ),
    "seed_oss": replace(
        _DENSE,
        head_dim=128,
        kv_heads=None,
        qkv_bias=_BIASED,
        out_bias=("attention_out_bias", False),
        mlp_bias=_MLP_BIAS,
    ),
    "solar_open": Traits(
        head_dim=128,
        qkv_bias=_BIAS,
        qk_norm=("qk_norm", "use_qk_norm", False),
        routing=ExpertTraits(
            "n_routed_experts", shared=("n_shared_experts", 1), correction_bias=True
        ),
    ),
    "aria_text": replace(
        _LLAMA,
        mlp_bias=False,
        refused=("mlp_bias",),
        routing=ExpertTraits(
            "moe_num_experts",
            top_k=("moe_topk",),
            width=("intermediate_size",),
            shared=("moe_num_shared_experts", 2),
            listed=False,
        ),
    ),
    "biogpt": replace(
        _GPT,
        width=("intermediate_size", None),
        positions=("max_position_embeddings", 1024),
        first_position=2,
        tied=True,
        passed_over=("scale_embedding layerdrop hidden_dropout_prob attention_probs_dropout_prob"),
    ),
    "beam": replace(
        _BIASES,
        head_dim=128,
        kv_heads=None,
        qk_norm=True,
        output_gate="gate_proj",
        gate_bias=True,
        norms=(2, 2),
        windows=Windows(512, full_every=6, last_full=True),
        routing=ExpertTraits("num_experts", dense=("", 3), correction_bias=True),
    ),
    # BitLinear's norms stand before the last matrix of attention and of feed-forward.
    "bitnet": Traits(kv_heads=None, qkv_bias=_BIAS, out_bias=_BIAS, inner_norms=True),
    "bloom": replace(
        _GPT,
        spelled=_N_EMBED,
        width=("", 4),
        embedding_norm=True,
        tied=True,
        passed_over=(
            "hidden_size num_attention_heads n_inner offset_alibi skip_bias_add "
            "skip_bias_add_qkv apply_residual_connection_post_layernorm slow_but_exact "
            "attention_softmax_in_fp32 bias_dropout_fusion masked_softmax_fusion unk_token_id "
        ),
    ),
    "codegen": _GPT_J,
    "cohere2_moe": replace(
        _DENSE,
        head_dim=128,
        tied=True,
        parallel=True,
        windows=replace(_PATTERN, dense_stride_key="prefix_dense_sliding_window_pattern"),
        routing=ExpertTraits(
            "num_experts",
            width=("intermediate_size",),
            shared=("num_shared_experts", 0),
            dense=("first_k_dense_replace", 0),
            dense_width=("prefix_dense_intermediate_size", "intermediate_size"),
        ),
        passed_over="shared_expert_combination_strategy expert_selection_fn",
    ),
    "cohere_compass_text": replace(
        _DENSE, tied=True, parallel=True, windows=Windows(full_every=1), passed_over="pooling"
    ),
    "ctrl": replace(
        _GPT_2,
        width=("dff", None),
        positions=("", 0),
        head_bias=True,
        passed_over="n_positions resid_pdrop embd_pdrop",
        refused=(),
    ),
    "cosmos3_edge_text": replace(_DENSE, head_dim=128, mlp_bias=_MLP_BIAS, gated=False),
    "cwm": Traits(
        head_dim=128,
        kv_heads=None,
        mlp_bias=_MLP_BIAS,
        windows=Windows(8192, full_every=4, first_full=0),
    ),
    "exaone": replace(_LLAMA, spelled={"num_hidden_layers": "num_layers"}, kv_heads=None),
    "exaone_moe": Traits(
        kv_heads=None,
        qk_norm=True,
        windows=_PATTERN,
        routing=ExpertTraits(
            "num_experts",
            shared=("num_shared_experts", 1),
            dense=("first_k_dense_replace", 1),
            correction_bias=True,
        ),
    ),
    "falcon": _falcon,
    "flex_olmo": _OLMOE,
    "flint": replace(
        _BIASES,
        head_dim=128,
        kv_heads=None,
        qk_norm=True,
        sinks=True,
        windows=Windows(513, full_every=4, first_full=1, since=("", 2), last_full=True),
        routing=replace(GATED_EXPERTS, shared_gate=False, dense=("", 2)),
    ),
    "glm": Traits(head_dim=128, kv_heads=None, qkv_bias=_BIASED),
    "glm4": Traits(head_dim=128, kv_heads=None, qkv_bias=_BIASED, norms=(2, 2)),
    "gpt2": _GPT_2,
    "gpt_bigcode": replace(_GPT_2, kv_heads="multi_query"),
    # Local layers mask what they do not see: their keys are kept and multiplied like all others.
    "gpt_neo": replace(
        _GPT,
        spelled={"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"},
        qkv_bias=False,
        width=("intermediate_size", 4),
        positions=("max_position_embeddings", 2048),
        tied=True,
        passed_over="attention_types attention_layers window_size activation_function",
    ),
    "gpt_neox": replace(
        _GPT,
        qkv_bias=_BIASED,
        out_bias=_BIASED,
        width=("intermediate_size", None),
        parallel=("use_parallel_residual", True),
        one_norm=False,
        passed_over="rotary_pct rotary_emb_base",
    ),
    "gptj": _GPT_J,
    "granite_swa": replace(
        _LLAMA,
        kv_heads=None,
        sinks=True,
        tied=True,
        windows=Windows(128, full_every=4, first_full=0),
        passed_over=f"{_MULTIPLIERS} layer_rope_theta",
    ),
    "granitemoe_swa": replace(
        _GRANITE_MOE,
        sinks=True,
        windows=Windows(128, full_every=4, first_full=0),
        passed_over=f"{_MULTIPLIERS} layer_rope_theta",
    ),
    "helium": Traits(head_dim=128, kv_heads=None, qkv_bias=_BIAS, mlp_bias=_MLP_BIAS),
    "hyperclovax": replace(_LLAMA, more_norms=("use_post_norm", True), passed_over=_MULTIPLIERS),
    "internlm3": replace(
        _LLAMA,
        head_dim=128,
        kv_heads=None,
        qkv_bias=("qkv_bias", "attention_bias", False),
        out_bias=("qkv_bias", "attention_bias", False),
        mlp_bias=("bias", "mlp_bias", False),
    ),
    "iquestcoder": replace(_LLAMA, head_dim=128, kv_heads=None),
    "kolibri1": Traits(
        head_dim=128,
        kv_heads=None,
        qk_norm=True,
        norms=(2, 2),
        windows=Windows(513, full_every=5),
        routing=ExpertTraits(
            "num_experts",
            shared_width=("shared_expert_intermediate_size", None),
            listed=False,
            correction_bias=True,
        ),
    ),
    "laguna": replace(
        _BIASES,
        head_dim=128,
        listed_heads="num_attention_heads_per_layer",
        kv_heads=None,
        qk_norm=True,
        output_gate="g_proj",
        gate_kinds="gating",
        windows=Windows(512, full_every=1),
        routing=ExpertTraits(
            "num_experts",
            shared_width=("shared_expert_intermediate_size", None),
            dense=("", 1),
            correction_bias=True,
            names=SHARED_EXPERT_NAMES,
        ),
        passed_over="moe_routed_scaling_factor moe_router_logit_softcapping moe_router_score_func",
    ),
    "mellum": replace(
        _QWEN_3,
        windows=Windows(1024, full_every=1),
        routing=ExpertTraits("num_experts"),
    ),
    "mpt": replace(
        _GPT,
        spelled={
            "hidden_size": "d_model",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
        },
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        width=("", 4),
        norm_vectors=1,
        tied=True,
        passed_over=(
            "attn_config expansion_ratio no_bias norm_type learned_pos_emb embedding_fraction "
            "init_device init_config verbose emb_pdrop resid_pdrop"
        ),
    ),
    "molmo2_text": _molmo2,
    **dict.fromkeys(("muse_glimmer", "muse_glimmer_text"), _MUSE),
    **dict.fromkeys(("muse_spark", "muse_spark_text"), _MUSE_SPARK),
    "nanochat": Traits(qkv_bias=_BIAS, out_bias=_BIAS, gated=False, norm_vectors=0),
    "nemotron": replace(_LLAMA, kv_heads=None, gated=False, norm_vectors=2),
    "olmo": Traits(qkv_bias=_BIAS, out_bias=_BIAS, norm_vectors=0, passed_over="clip_qkv"),
    "olmoe": _OLMOE,
    "persimmon": replace(_GPT, width=("intermediate_size", None), qk_norm=("qk_layernorm", True)),
    "phi": replace(
        _GPT,
        head_dim_keys=("head_dim",),
        kv_heads="heads",
        qk_norm=("qk_layernorm", False),
        width=("intermediate_size", None),
        parallel=True,
        head_bias=True,
        passed_over="resid_pdrop embd_pdrop",
    ),
    "sarvam_moe": replace(
        _GLM_4_MOE,
        head_dim=64,
        qkv_bias=("attention_bias", "use_qkv_bias", False),
        qk_norm=("use_qk_norm", True),
        refused=("use_bias",),
        routing=replace(
            _GLM_EXPERTS,
            shared=("n_shared_experts num_shared_experts", 1),
            each_shared=LING_SHARED,
        ),
        passed_over=_BAILING.passed_over + " moe_router_enable_expert_bias",
    ),
    "smollm3": replace(
        _LLAMA,
        kv_heads=None,
        tied=True,
        refused=("use_sliding_window",),
        passed_over="sliding_window layer_types max_window_layers no_rope_layers no_rope_layer_interval",
    ),
    "stablelm": Traits(
        head_dim_keys=(),
        kv_heads=None,
        qkv_bias=("use_qkv_bias", False),
        qk_norm=("qk_layernorm", False),
        norm_span="heads",
        norm_vectors=2,
        parallel=("use_parallel_residual", False),
    ),
    "starcoder2": Traits(
        kv_heads=None,
        qkv_bias=("use_bias", True),
        out_bias=("use_bias", True),
        mlp_bias=("use_bias", True),
        gated=False,
        norm_vectors=2,
        windows=_WINDOW_IF_STATED,
        tied=True,
        passed_over="residual_dropout embedding_dropout mlp_type",
    ),
    "unlimited_ocr_text": replace(
        _DEEPSEEK_OCR,
        routing=ExpertTraits(
            "n_routed_experts", shared=("n_shared_experts", 2), dense=("first_k_dense_replace", 1)
        ),
        passed_over="head_dim layer_types sliding_window",
        note="all cached tokens count as the prompt; of its answer a token sees the last ones alone",
    ),
    "vaultgemma": replace(
        _GEMMA, qkv_bias=_BIAS, out_bias=_BIAS, windows=Windows(full_every=2), refused=()
    ),
    "xglm": replace(
        _GPT,
        spelled={
            "hidden_size": "d_model",
            "num_hidden_layers": "num_layers",
            "num_attention_heads": "attention_heads",
        },
        width=("ffn_dim", None),
        tied=True,
        refused=("add_cross_attention",),
        passed_over="activation_function scale_embedding layerdrop",
    ),
}

#: Families with a function of their own: its file and name, and each `model_type` that it reads.
_OWN_FILES: Final = {
    "latent:parse_axk1": "axk1",
    "latent:parse_axk2": "axk2",
    "kimi_linear:parse_bailing_hybrid": "bailing_hybrid",
    "mamba:parse_bamba": "bamba",
    "latent:parse_latent": (
        "deepseek_v2 deepseek_v3 glm4_moe_lite kimi_k2 kimi_k25 mistral4 mistral_large3 sarvam_mla "
        "youtu"
    ),
    "latent:parse_deepseek_v32": "deepseek_v32",
    "deepseek_v4:parse_deepseek_v4": "deepseek_v4",
    "deepseek_v4:parse_deepseek_v4_converted": "deepseek_ref",
    "dbrx:parse_dbrx": "dbrx",
    "skipped:parse_dory": "dory",
    "latent:parse_dots3_note": "dots3_note dots3_note_text",
    "skipped:parse_ernie4_5_vl_moe": "ernie4_5_moe_vl ernie4_5_vl_moe_text",
    "mamba:parse_falcon_h1": "falcon_h1",
    "gemma4:parse_gemma3n": "gemma3n gemma3n_text",
    "gemma4:parse_gemma4": "gemma4 gemma4_text",
    "gemma4:parse_gemma4_unified": "gemma4_unified gemma4_unified_text",
    "latent:parse_glm_moe_dsa": "glm_moe_dsa",
    "kimi_linear:parse_glm5_next": "glm5_next glm5_next_text",
    "mamba:parse_granitemoehybrid": "granitemoehybrid",
    "latent:parse_hy_v4": "hy_v4 hy_v4_vl hy_v4_vl_text",
    "convolutions:parse_inkling": "inkling_mm_model inkling_model inkling_text",
    "convolutions:parse_inkling2": "inkling2 inkling2_text",
    "kimi_linear:parse_kimi_linear": "kimi_k3 kimi_linear",
    "convolutions:parse_lfm2": "lfm2",
    "convolutions:parse_lfm2_moe": "lfm2_moe",
    "convolutions:parse_lfm3": "lfm3",
    "windows:parse_llama4": "llama4 llama4_text",
    "latent:parse_longcat_flash": "longcat_flash",
    "mamba:parse_jamba": "jamba",
    "mamba:parse_mamba": "falcon_mamba mamba",
    "mamba:parse_mamba2": "mamba2",
    "windows:parse_mimo_v2": "mimo_v2 mimo_v2_flash",
    "latent:parse_minicpm3": "minicpm3",
    "latent:parse_mistral_large4": "mistral_large4 mistral_large4_text",
    "minimax:parse_minimax_m1": "minimax minimax_m1 minimax_text_01",
    "minimax:parse_minimax_m2": "minimax_m2",
    "minimax:parse_minimax_m3": "minimax_m3 minimax_m3_vl minimax_m3_vl_text",
    "skipped:parse_mllama": "mllama_text_model",
    "mamba:parse_nemotron_h": "nemotron_h",
    "skipped:parse_nemotron_nas": "nemotron-nas",
    "opt:parse_opt": "opt",
    "qwen3_next:parse_lara_mini": "lara_mini",
    "qwen3_next:parse_olmo_hybrid": "olmo_hybrid",
    "qwen3_next:parse_qwen3_5": "qwen3_5 qwen3_5_text",
    "qwen3_next:parse_qwen3_5_moe": "qwen3_5_moe qwen3_5_moe_text",
    "qwen3_next:parse_qwen3_next": "qwen3_next",
    "qwen3_next:parse_qwen4_exp": "qwen4_exp qwen4_exp_text",
    "mamba:parse_recurrent_gemma": "recurrent_gemma",
    "windows:parse_step3p5": "step3p5 step3p7",
    "mamba:parse_zamba": "zamba",
    "mamba:parse_zamba2": "zamba2",
    "convolutions:parse_zaya": "zaya",
}
#: Family parsers by `model_type`; of a multimodal file, by the type inside `text_config`. Rows of
#: `TRAITS` share one.
PARSERS: Final = dict.fromkeys(TRAITS, "decoder:decoder_of") | dict(
    sorted(
        (family, f"families.{parser}")
        for parser, names in _OWN_FILES.items()
        for family in names.split()
    )
)
