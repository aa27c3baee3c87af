"""Models of latent attention: DeepSeek-V2 to V3.2 and their kin, with and without indexers.

Each keeps one latent of a token for all heads. They differ in what stands around that: the tokens
that an indexer picks, gates, norms, windows, several residual streams, two sublayers a layer.
DeepSeek-V2 to V3.2, Kimi K2, GLM 4.7 Flash and 5, Mistral 4 and Large, Sarvam, Youtu, MiniCPM3,
A.X, Hy4, dots3.note and LongCat-Flash.

Source
    DeepSeek-V2 technical report, arXiv:2405.04434, section 2; DeepSeek-V3 technical report,
    arXiv:2412.19437, section 2.1; DeepSeek-V3.2 report, section 2; transformers 5,
    `models/deepseek_v2/`, `models/deepseek_v3/`, `models/deepseek_v32/`, `models/mistral4/`
    and `models/youtu/` (`modeling_*.py`, `configuration_*.py`); the tensors of the published
    checkpoints; SGLang `models/mistral_large_3.py`, which renames Mistral's matrices to DeepSeek's.
    Of the other families: see each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture.attention import Indexer
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    HEADS,
    Linear,
    Shard,
)
from specroof.architecture.draft_heads import replicated
from specroof.architecture.experts import Experts
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import LayerPart, LayerWeights, ModelConfig, stream_mixing
from specroof.parsers.model_config import DSPARK_NOTE
from specroof.reading.json_text import MAX_LAYERS, Reader


@dataclass(frozen=True, slots=True)
class LatentShape:
    """Sizes of multi-head latent attention.

    Parameters
    ----------
    hidden_size
        Width of the residual stream.
    n_heads
        Query heads; the one latent serves all.
    query_rank, latent_dim
        Widths of the compressed query (None: queries are projected at once) and key-value latent.
    nope_dim, rope_dim, value_dim
        Per head: width of keys without and with rotary positions, and of values.
    bias
        Whether the down-projections and the output have a bias.
    indexer
        Present in V3.2.
    shared_top_k
        Present where the layer takes over what an earlier one's indexer picked (GLM-5.2).
    gate_dim, gate_name
        Outputs per head of the matrix that gates attention's output (0: none), and its name.
    window
        Tokens that a query sees; None for all.
    """

    hidden_size: int
    n_heads: int
    query_rank: int | None
    latent_dim: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    bias: bool = False
    indexer: Indexer | None = None
    shared_top_k: int | None = None
    gate_dim: int = 0
    gate_name: str = "g_proj"
    window: int | None = None

    @staticmethod
    def read(keys: Reader, *, value_dim: int | None = None, rotates: bool = True) -> "LatentShape":
        """Return the sizes of latent attention; a null `q_lora_rank` projects queries at once.

        `value_dim` is the width of a head's value where no key says so; None refuses such a config.
        Where no key `rotates`, the width of that part is 0, and stated.
        """
        if "q_lora_rank" not in keys.values:
            # Null means something (no compression), so leaving the key out does not.
            keys.mistake("q_lora_rank", "a whole number from 1, or null", instead=1)
        shape = LatentShape.read_plain(keys, value_dim=value_dim, rotates=rotates)
        return replace(shape, query_rank=keys.optional_int("q_lora_rank"))

    @staticmethod
    def read_plain(
        keys: Reader, *, value_dim: int | None = None, rotates: bool = True
    ) -> "LatentShape":
        """Return the sizes of latent attention whose queries are projected at once."""
        keys.pass_over("head_dim num_key_value_heads qk_head_dim")  # the cache has no heads
        return LatentShape(
            keys.positive_int("hidden_size"),
            keys.positive_int("num_attention_heads"),
            None,
            keys.positive_int("kv_lora_rank"),
            keys.positive_int("qk_nope_head_dim"),
            keys.positive_int("qk_rope_head_dim")
            if rotates
            else keys.positive_int("qk_rope_head_dim", minimum=0, maximum=0),
            keys.positive_int("v_head_dim", default=value_dim),
            # configuration_deepseek_v3.py: attention_bias False
            bias=keys.flag("attention_bias", default=False),
        )

    def sharing(self) -> "LatentShape":
        """Return attention to what an earlier layer's indexer has picked."""
        top_k = self.indexer.top_k if self.indexer else None
        return replace(self, indexer=None, shared_top_k=top_k)

    def block(self, weights: LayerWeights, *, module: str = "self_attn") -> Block:
        """Return latent attention with its projections; `module` is what the checkpoint calls it.

        The up-projection of the latent is one matrix here and is absorbed into queries and outputs
        by engines when they decode: the same weights and, per new token, the same arithmetic.
        """
        linears = tuple(
            Linear(name, in_features, out_features, weights(f"{module}.{name}"), shard, bias=bias)
            for name, in_features, out_features, shard, bias in _latent_matrices(self)
        )
        norms = self.hidden_size + (self.query_rank or 0) + self.latent_dim
        index_norm = 2 * self.indexer.head_dim if self.indexer else 0  # weight and bias
        gate = (self.gate_name, self.hidden_size, self.n_heads * self.gate_dim)
        return Block(
            "attention",
            (
                *linears,
                *_indexer_linears(self, weights),
                *weights.matrices(f"{module}.", HEADS, *((gate,) if self.gate_dim else ())),
            ),
            LatentAttention(
                self.n_heads,
                self.latent_dim,
                self.rope_dim,
                self.indexer,
                self.shared_top_k,
                head_dims=(self.nope_dim + self.rope_dim, self.value_dim),
                window=self.window,
            ),
            vector_params=norms + index_norm,
        )


def parse_latent(config: ModelConfig) -> Architecture:
    """Return a model whose layers attend alike, to all tokens.

    `num_key_value_heads` says nothing about its cache; V2-Lite does not compress its queries.
    """
    return _latent_decoder(config, [LatentShape.read(config.keys)] * config.n_layers)


def parse_deepseek_v32(config: ModelConfig) -> Architecture:
    """Return a DeepSeek-V3.2: every layer attends to the tokens that its indexer picks."""
    return _latent_decoder(config, [_searching_shape(config.keys)] * config.n_layers)


def _searching_shape(keys: Reader) -> LatentShape:
    """Return the sizes of latent attention with an indexer, which every layer has.

    transformers names the kind of each layer; the indexer's queries come from the compressed one.
    """
    if not keys.has("q_lora_rank"):
        keys.mistake("q_lora_rank", "a whole number from 1", instead=1)
    keys.texts("layer_types", allowed=("deepseek_sparse_attention", "indexed_attention"))
    return replace(LatentShape.read(keys), indexer=read_indexer(keys))


def read_indexer(keys: Reader) -> Indexer:
    """Return the sizes of a lightning indexer."""
    return Indexer(
        keys.positive_int("index_n_heads"),
        keys.positive_int("index_head_dim"),
        keys.positive_int("index_topk"),
    )


def _latent_decoder(config: ModelConfig, attentions: Sequence[LatentShape]) -> Architecture:
    return config.decoder(LayerPart(attentions, LatentShape.block), config.feed_forwards())


def _latent_matrices(shape: LatentShape) -> Iterator[tuple[str, int, int, Shard, bool]]:
    """Yield name, widths, shard and bias of each projection."""
    query_dim = shape.n_heads * (shape.nope_dim + shape.rope_dim)
    key_value_dim = shape.n_heads * (shape.nope_dim + shape.value_dim)
    if shape.query_rank is None:
        yield "q_proj", shape.hidden_size, query_dim, HEADS, False
    else:
        yield "q_a_proj", shape.hidden_size, shape.query_rank, ATTENTION_REPLICATED, shape.bias
        yield "q_b_proj", shape.query_rank, query_dim, HEADS, False
    cached_dim = shape.latent_dim + shape.rope_dim
    yield "kv_a_proj_with_mqa", shape.hidden_size, cached_dim, ATTENTION_REPLICATED, shape.bias
    yield "kv_b_proj", shape.latent_dim, key_value_dim, HEADS, False
    yield "o_proj", shape.n_heads * shape.value_dim, shape.hidden_size, HEADS, shape.bias


def _indexer_linears(shape: LatentShape, weights: LayerWeights) -> tuple[Linear, ...]:
    indexer = shape.indexer
    if indexer is None:
        return ()
    quantised = weights.matrices(
        "self_attn.indexer.",
        ATTENTION_REPLICATED,
        ("wq_b", shape.query_rank or shape.hidden_size, indexer.n_heads * indexer.head_dim),
        ("wk", shape.hidden_size, indexer.head_dim),
    )
    named = (replace(linear, name=f"indexer_{linear.name}") for linear in quantised)
    return (*named, index_weights(shape.hidden_size, indexer, weights))


def index_weights(hidden_size: int, indexer: Indexer, weights: LayerWeights) -> Linear:
    """Return the matrix of the heads' weights, which stays unquantised in FP8 checkpoints."""
    return replicated("indexer_weights_proj", hidden_size, indexer.n_heads, weights.plain)


# --- MiniCPM3 -------------------------------------------------------------------------------------
#
# Source
#     transformers 5.23, `models/minicpm3/` (`modeling_*.py`, `configuration_*.py`).


def parse_minicpm3(config: ModelConfig) -> Architecture:
    """Return a MiniCPM3, a dense one."""
    value_dim = config.hidden_size // config.keys.positive_int("num_attention_heads")
    shape = LatentShape.read(config.keys, value_dim=value_dim)
    return _latent_decoder(config, [shape] * config.n_layers)


# --- A.X-K1 and K2: DeepSeek-V3's layers with a norm behind experts; V3.2's with gates ------------
#
# Source
#     transformers 5.24, `models/axk1/` and `models/axk2/` (`modeling_*.py`, `configuration_*.py`).


def parse_axk1(config: ModelConfig) -> Architecture:
    """Return an A.X-K1, whose experts' output passes a norm."""

    def normed(is_sparse: bool, block: Block, _: LayerWeights) -> Block:
        return block.extended(n_params=config.hidden_size if is_sparse else 0)

    return config.decoder(
        LayerPart([LatentShape.read(config.keys)] * config.n_layers, LatentShape.block),
        config.feed_forwards().changed(normed),
    )


def parse_axk2(config: ModelConfig) -> Architecture:
    """Return an A.X-K2: the norms before attention and experts, and attention's output, are gated.

    Queries and the gate of the output come from one matrix, which takes the compressed query twice,
    with and without its norm.
    """
    keys, hidden_size = config.keys, config.hidden_size
    rank = keys.positive_int("gated_norm_rank", default=16)  # configuration_axk2.py

    def gated_norm(block: Block, shard: Shard, weights: LayerWeights, norm: str) -> Block:
        rows = ("fc1", hidden_size, rank), ("fc2", rank, hidden_size)
        return block.extended(*weights.matrices(f"{norm}.mlp.", shard, *rows))

    def attention(shape: LatentShape, weights: LayerWeights) -> Block:
        block = shape.block(weights)
        rows = shape.n_heads * (shape.nope_dim + shape.rope_dim + shape.value_dim)
        taken, form = 2 * (shape.query_rank or 0), weights("self_attn.q_gate_proj")
        fused = Linear("q_gate_proj", taken, rows, form, HEADS)
        linears = (fused if linear.name == "q_b_proj" else linear for linear in block.linears)
        block = replace(block, linears=tuple(linears))
        return gated_norm(block, ATTENTION_REPLICATED, weights, "input_layernorm")

    def feed_forward(is_sparse: bool, block: Block, weights: LayerWeights) -> Block:
        if not is_sparse:
            return block
        return gated_norm(block, FEED_FORWARD_REPLICATED, weights, "post_attention_layernorm")

    return config.decoder(
        LayerPart([_searching_shape(keys)] * config.n_layers, attention),
        config.feed_forwards().changed(feed_forward),
    )


# --- GLM 5 to 5.2, Hy4 and Mistral Large 4: layers that take over what an earlier one picked ------
#
# Source
#     transformers 5, `models/glm4_moe_lite/` and `models/glm_moe_dsa/` (`modeling_*.py`,
#     `configuration_*.py`); SGLang `configs/model_config.py` (`dsa_layer_skips_topk`); the tensors
#     of the published checkpoints. transformers 5.23, `models/hy_v4/modeling_hy_v4.py` and
#     `configuration_hy_v4.py`; vLLM 0.33.0, `transformers_utils/configs/hy_v4.py`, for the keys of
#     its published file. transformers 5.24, `models/mistral_large4/modeling_mistral_large4.py` and
#     `configuration_mistral_large4.py`.


FULL_INDEX: Final = "full"
_SHARED: Final = "shared"
#: How `index_topk_pattern` abbreviates them.
_LETTERS: Final = {"F": FULL_INDEX, "S": _SHARED}


def parse_glm_moe_dsa(config: ModelConfig) -> Architecture:
    """Return a GLM-5: in GLM-5.2 three layers of four share the selection of the one before."""
    full, kinds = _searching_shape(config.keys), indexer_kinds(config.keys, config.n_layers)
    return _latent_decoder(config, _picking(full, kinds))


def _picking(full: LatentShape, kinds: Sequence[str]) -> list[LatentShape]:
    """Return the attention of each layer, which runs its indexer or takes over a selection."""
    shared = full.sharing()
    return [full if kind == FULL_INDEX else shared for kind in kinds]


def _listed_indexers(keys: Reader, n_layers: int) -> Sequence[str] | None:
    """Return ``"full"`` or ``"shared"`` of each layer by ``indexer_types``; None without."""
    kinds = keys.listed_kinds("indexer_types", (FULL_INDEX, _SHARED), n_layers)
    if kinds and kinds[0] == _SHARED:
        keys.refuse("indexer_types", "full first, before which nothing is selected")
    return kinds


def indexer_kinds(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return whether each layer runs its indexer or takes over an earlier layer's selection.

    Source
        `GlmMoeDsaConfig.__post_init__`: the list, else the pattern, else a stride that begins
        after some layers (``index_topk_freq`` 1 and ``index_skip_topk_offset`` 2 by default).
    """
    if listed := _listed_indexers(keys, n_layers):
        return listed
    if keys.has("index_topk_pattern"):
        pattern = keys.text("index_topk_pattern")
        if len(pattern) < n_layers or pattern[0] != "F" or not set(pattern) <= set(_LETTERS):
            keys.refuse("index_topk_pattern", "F and S, one a layer, F first")
        return [_LETTERS[letter] for letter in pattern[:n_layers]]
    stride = keys.positive_int("index_topk_freq", default=1)
    offset = keys.positive_int("index_skip_topk_offset", maximum=MAX_LAYERS, default=2)
    return [
        _SHARED if max(index - offset + 1, 0) % stride else FULL_INDEX for index in range(n_layers)
    ]


def parse_hy_v4(config: ModelConfig) -> Architecture:
    """Return a Hy4: most layers take over what was picked; gates, and several residual streams."""
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    full = _searching_shape(keys)
    # HYV4Config.__post_init__: the first layer runs its indexer, and every fourth from the second.
    usual = [FULL_INDEX if index == 0 or index % 4 == 1 else _SHARED for index in range(n_layers)]
    kinds = _listed_indexers(keys, n_layers) or usual
    # The class's file of vLLM: gated_mla and learnable_sink True, gating_type elementwise.
    gate_dims = {"elementwise": full.value_dim, "headwise": 1}
    gate_dim = gate_dims[keys.text("gating_type", allowed=gate_dims, default="elementwise")]
    if keys.flag("gated_mla", default=True):
        full = replace(full, gate_dim=gate_dim, gate_name="gate_proj")
    n_sinks = full.n_heads if keys.flag("learnable_sink", default=True) else 0
    n_streams = keys.positive_int("hc_mult", default=4)  # configuration_hy_v4.py

    def mixed(block: Block) -> Block:
        # Beside the mixing matrix of a sublayer, a base for each row, and two scales.
        mixing = stream_mixing(block, n_streams * hidden_size, 2 * n_streams)
        return block.extended(mixing, n_params=2 * n_streams + 2)

    def attention(shape: LatentShape, weights: LayerWeights) -> Block:
        return mixed(shape.block(weights).extended(n_params=n_sinks))

    # Behind the last layer the streams become one: a matrix, a base of each, and a scale.
    head_mixing = n_streams * n_streams * hidden_size + n_streams + 1
    return config.decoder(
        LayerPart(_picking(full, kinds), attention),
        config.feed_forwards().changed(lambda _, block, __: mixed(block)),
        vector_params=hidden_size + head_mixing,
    )


def parse_mistral_large4(config: ModelConfig) -> Architecture:
    """Return the language model of a Mistral Large 4, whose queries are not compressed.

    Every fourth layer has no positions. Their part of a key comes from the latent there, and is
    not cached.
    """
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    keys.texts("layer_types", allowed=("indexed_attention",))
    full = replace(LatentShape.read_plain(keys), indexer=read_indexer(keys))
    if keys.has("kv_source_layers") and [*keys.ints("kv_source_layers")] != [*range(n_layers)]:
        keys.refuse("kv_source_layers", "each layer's own number: no cache is shared")
    # MistralLarge4TextConfig.__post_init__
    every = keys.positive_int("no_rope_layer_interval", default=4)
    positions = keys.flagged_layers("no_rope_layers", n_layers) or [
        (index + 1) % every != 0 for index in range(n_layers)
    ]

    def attention(kind: tuple[LatentShape, bool], weights: LayerWeights) -> Block:
        shape, rotates = kind
        if not rotates:
            shape = replace(shape, nope_dim=shape.nope_dim + shape.rope_dim, rope_dim=0)
        # A scale and a bias of each head; before the indexer's queries a norm with a bias.
        n_params = 2 * shape.n_heads
        if shape.indexer:
            n_params += 2 * shape.indexer.n_heads + 2 * hidden_size
        return shape.block(weights).extended(n_params=n_params)

    shapes = _picking(full, indexer_kinds(keys, n_layers))
    return config.decoder(
        LayerPart([*zip(shapes, positions, strict=True)], attention),
        config.feed_forwards(),
        # Behind the final norm, a factor of each frequency of its positions.
        vector_params=hidden_size + full.rope_dim // 2,
        # The class leaves out `mtp_dspark.*`, which the checkpoint holds.
        notes=(DSPARK_NOTE,),
    )


# --- dots3.note: behind an indexer or in a window, with a gate of each head -----------------------
#
# Source
#     transformers 5.24, `models/dots3_note/modeling_dots3_note.py` and
#     `configuration_dots3_note.py`; vLLM 0.33.0, `transformers_utils/configs/dots3_note.py`: files
#     name no draft layer, and checkpoints hold one.

_INDEXED: Final = "indexed_attention"
_SLIDING: Final = "sliding_attention"
_FULL: Final = "full_attention"
#: Sizes of layers with a window, where no key says so (Dots3NoteTextConfig.__post_init__).
_IN_WINDOW: Final = {
    "num_attention_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def parse_dots3_note(config: ModelConfig) -> Architecture:
    """Return the language model of a dots3.note; layers with a window have sizes of their own."""
    keys, n_layers = config.keys, config.n_layers
    window = keys.positive_int("sliding_window", "sliding_window_size", default=512)
    kinds = _dots_kinds(keys, n_layers)
    indexer = read_indexer(keys) if _INDEXED in kinds else None

    def attention(shape: LatentShape, weights: LayerWeights) -> Block:
        # and a norm of the rotary key
        return shape.block(weights).extended(n_params=shape.rope_dim)

    shapes = [
        replace(
            shape,
            gate_dim=1,
            indexer=indexer if kind == _INDEXED else None,
            window=window if kind == _SLIDING else None,
        )
        for kind, shape in zip(kinds, _dots_shapes(keys, kinds), strict=True)
    ]
    return config.decoder(LayerPart(shapes, attention), config.feed_forwards())


def _dots_kinds(keys: Reader, n_layers: int) -> list[str]:
    """Return each layer's kind; published files call layers with an indexer ``full_attention``."""
    kinds = keys.listed_kinds("layer_types", (_INDEXED, _SLIDING, _FULL), n_layers)
    if kinds is None:
        slides = keys.flag("use_sliding_window", default=True)
        kinds = tuple(
            _SLIDING if slides and index >= 2 and index % 4 != 1 else _INDEXED
            for index in range(n_layers)
        )
    if keys.has("use_dsa") or not keys.has("per_layer_config"):
        searches = keys.flag("use_dsa", default=True)
        old, new = (_FULL, _INDEXED) if searches else (_INDEXED, _FULL)
        return [new if kind == old else kind for kind in kinds]
    return [*kinds]


def _dots_shapes(keys: Reader, kinds: list[str]) -> list[LatentShape]:
    """Return the sizes of each layer: one by one as transformers saves them, or of each kind."""
    overrides = keys.layer_overrides(len(kinds), (*_IN_WINDOW, "head_dim", "num_key_value_heads"))
    if overrides is not None:
        return [_dots_shape(keys, layer) for layer in overrides]
    plain = _dots_shape(keys, Reader(keys.source, {}))
    if _SLIDING not in kinds:
        return [plain] * len(kinds)
    own = {
        name: keys.positive_int(f"swa_{name}", default=size) for name, size in _IN_WINDOW.items()
    }
    sliding = _dots_shape(keys, Reader(keys.source, own))
    return [sliding if kind == _SLIDING else plain for kind in kinds]


def _dots_shape(keys: Reader, own: Reader) -> LatentShape:
    """Return the sizes of a layer, which are its own or those of the file."""
    own.pass_over("head_dim num_key_value_heads")
    heads, query_rank, latent_dim, nope_dim, rope_dim, value_dim = (
        (own if own.has(name) else keys).positive_int(name) for name in _IN_WINDOW
    )
    bias = keys.flag("attention_bias", default=False)
    hidden_size = keys.positive_int("hidden_size")
    return LatentShape(
        hidden_size, heads, query_rank, latent_dim, nope_dim, rope_dim, value_dim, bias
    )


# --- LongCat-Flash: two attentions and two dense feed-forwards a layer, experts beside them -------
#
# Source
#     LongCat-Flash report, arXiv:2509.01322, section 2; transformers 5.23,
#     `models/longcat_flash/modeling_longcat_flash.py` and `configuration_longcat_flash.py`.


def parse_longcat_flash(config: ModelConfig) -> Architecture:
    """Return a LongCat-Flash; each half of its layers is a layer here, as it is to its cache.

    Experts run beside the first half's dense feed-forward and all that is behind it. Of those that
    a token picks, some give back what they get and have no weights: as many as their share in all
    experts, where a token picks uniformly.
    """
    keys, hidden_size = config.keys, config.hidden_size
    n_layers = keys.positive_int("num_layers", maximum=MAX_LAYERS // 2)
    latent = LatentShape.read(keys)
    width = keys.positive_int("intermediate_size", "ffn_hidden_size")
    n_experts = keys.positive_int("n_routed_experts")
    # configuration_longcat_flash.py: zero_expert_num 256
    n_rows = n_experts + keys.positive_int("zero_expert_num", minimum=0, default=256)
    picked = keys.positive_int("moe_topk", "num_experts_per_tok", maximum=n_rows)
    top_k = max(1, round(picked * n_experts / n_rows))
    expert_width = keys.positive_int("expert_ffn_hidden_size", "moe_intermediate_size")
    router_bias = keys.flag("router_bias", default=False)

    # Formats are those of the whole layer, whose matrices go by the number of the half.
    def formats(half: int) -> LayerWeights:
        return LayerWeights(config.quantization, half // 2)

    def attention(half: int, _: LayerWeights) -> Block:
        return latent.block(formats(half), module=f"self_attn.{half % 2}")

    def experts(half: int, _: LayerWeights) -> Block | None:
        if half % 2:
            return None
        weights = formats(half)
        # They share the norm of the feed-forward; each row has a correction bias.
        return Block(
            "feed_forward",
            (weights.router("router", hidden_size, n_rows, bias=router_bias),),
            Experts(
                n_experts,
                top_k,
                hidden_size,
                expert_width,
                weight=weights("mlp.experts.0.gate_proj"),
            ),
            vector_params=n_rows,
            joins_next=True,
        )

    def feed_forward(half: int, _: LayerWeights) -> Block:
        module = f"mlps.{half % 2}"
        return formats(half).feed_forward(hidden_size, width, module=module)

    halves = range(2 * n_layers)
    note = (
        f"of the {picked} experts that a token picks, {top_k} are counted: "
        f"{n_rows - n_experts} of {n_rows} have no weights"
    )
    return config.decoder(
        LayerPart(halves, attention),
        LayerPart(halves, experts),
        LayerPart(halves, feed_forward),
        notes=(note,) if n_rows > n_experts else (),
    )
