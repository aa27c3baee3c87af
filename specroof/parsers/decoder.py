"""A model from its parts: each layer's mixer and feed-forward, then head and embedding."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    FP32,
    HEADS,
    TENSOR,
    Linear,
    Shard,
    WeightFormat,
)
from specroof.architecture.experts import Experts
from specroof.architecture.model import (
    Architecture,
    AttentionShape,
    Block,
    Layer,
    VisionTower,
    gated_pair,
    ordered_layers,
)
from specroof.parsers.formats import Quantization
from specroof.parsers.traits import (
    TIED_BY,
    USUAL_NAMES,
    USUAL_TRAITS,
    ExpertNames,
    ExpertTraits,
    Flag,
    Number,
    Traits,
    Windows,
)
from specroof.reading.json_text import MAX_LAYERS, Reader, StatedReader

# --- Whether the head is the embedding table, which a multimodal file says at two levels ---------
# Which level counts is up to the class that is loaded, by the `model_type` of the whole file:
#
# - **the top** where the head lies beside the language model: the class asks the configuration of
#   the whole, and what the text says changes nothing. The class of the text has another default
#   at times, which a file saved again states: Qwen3-VL-MoE says true inside and false at the top.
# - **the text** for Llama 4, whose head is part of the language model.
# - **either** where the configuration class passes on what the text says (``__post_init__``).
# - **never** for Inkling, Muse Spark and Cosmos 3 Edge: their classes tie nothing.
#
# Mistral 3 and Kimi K2.5 ask the top, where the default is true. Their published checkpoints have
# heads of their own (24.0 billion elements of Mistral Small 3.1 are 23.57 of its text with a head
# and 0.44 of its vision tower), which loaders keep, and saving such a file again writes true at the
# top and false inside. So there, as in files of unknown classes, a level that says false has a
# head; a level that says nothing leaves it to the other one, and then to the family's default.
#
# Source
#     transformers 5.23, `get_expanded_tied_weights_keys` and `tie_weights` of `modeling_utils.py`,
#     and the configuration classes; tied parameters were counted on models built of each class,
#     for true, false and nothing at both levels. vLLM 0.33.0 copies the top into the text, too
#     (`VllmConfig.with_hf_config`), and both keep a head that the checkpoint has.

_KEY: Final = "tie_word_embeddings"


def tied_embeddings(root: Reader, text: Reader, family: str, *, default: bool) -> bool:
    """Return whether head and embedding are one table.

    Parameters
    ----------
    root, text
        The whole file, and the keys of its language model, which may be the same.
    family
        The `model_type` of the language model.
    default
        Of the family's class.

    Examples
    --------
    >>> top, text = Reader("c.json", {_KEY: True}), Reader("c.json", {_KEY: False})
    >>> tied_embeddings(top, text, "gemma3_text", default=True)
    True
    >>> tied_embeddings(top, text, "mistral", default=False)
    False
    """
    names = {str(root.values.get("model_type")), family.removesuffix("_text")}
    outer, inner = (
        level.flag(_KEY, default=default) if level.has(_KEY) else None for level in (root, text)
    )
    stated = {level for level in (outer, inner) if level is not None}
    levels = {TIED_BY.get(name) for name in names}
    if isinstance(text, StatedReader):  # no default of the family holds
        levels = set()
        if not stated:
            text.expect(_KEY, default)
    if "never" in levels:
        return False
    if "top" in levels:
        return default if outer is None else outer
    if "text" in levels:
        return bool(inner)
    if "either" in levels:
        # The class of the whole ties by default where it is of the same family alone.
        whole = default and root.values.get("model_type") in {family, family.removesuffix("_text")}
        return (whole if outer is None else outer) or (default if inner is None else inner)
    return all(stated) if stated else default


# --- Blocks that families share: grouped-query attention, gated feed-forward, experts ------------
# Source
#     The modules of transformers 5 (`models/llama/modeling_llama.py`,
#     `models/qwen3_moe/modeling_qwen3_moe.py`, `models/gpt_oss/modeling_gpt_oss.py`) and the
#     tensors of the published checkpoints.


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


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """The formats inside one layer, and its blocks in them: call it with the name(s) of a matrix.

    Parameters
    ----------
    quantization
        Of the whole checkpoint.
    layer
        Index of the layer.
    """

    quantization: Quantization
    layer: int

    def __call__(self, *names: str) -> WeightFormat:
        """Return the format of a matrix that goes by `names`."""
        return self.quantization.weight_format(self.layer, *names)

    @property
    def plain(self) -> WeightFormat:
        """The format of what is never quantised, such as a router."""
        return self.quantization.plain

    def matrices(
        self, prefix: str, shard: Shard, *rows: tuple[str, int, int], bias: bool = False
    ) -> tuple[Linear, ...]:
        """Return matrices that divide alike, from the name, width in and width out of each.

        `prefix` stands before their names in the checkpoint.
        """
        return tuple(Linear(*row, self(prefix + row[0]), shard, bias=bias) for row in rows)

    def router(self, name: str, hidden_size: int, rows: int, *, bias: bool = False) -> Linear:
        """Return a matrix that weighs experts; every published list of formats ignores them."""
        shard = FEED_FORWARD_REPLICATED
        return Linear(name, hidden_size, rows, self.plain, shard, kind="router", bias=bias)

    def attention(self, shape: AttentionShape, *, module: str = "self_attn") -> Block:
        """Return grouped-query attention; `module` is what checkpoints call it inside a layer."""
        # Phi-3 stores queries, keys and values as one matrix, and names that.
        stored = {"o_proj": "o_proj"}
        return shape.block(
            lambda name: self(f"{module}.{name}", f"{module}.{stored.get(name, 'qkv_proj')}")
        )

    def feed_forward(
        self,
        hidden_size: int,
        width: int,
        *,
        bias: bool = False,
        module: str = "mlp",
        names: tuple[str, str] = ("gate_proj", "down_proj"),
    ) -> Block:
        """Return a gated feed-forward; `module` is what the checkpoint calls it inside a layer.

        `names` are those of its first matrix, beside which another may lie fused, and of its last.
        """
        first, last = names
        into = self(f"{module}.{first}", f"{module}.gate_up_proj")
        pair = gated_pair(hidden_size, width, into, self(f"{module}.{last}"), bias=bias)
        return Block("feed_forward", pair, vector_params=hidden_size)

    def experts(self, shape: ExpertsShape, names: ExpertNames = USUAL_NAMES) -> Block:
        """Return routed experts with their router, and the shared expert where there is one."""
        experts = Experts(
            shape.n_experts,
            shape.top_k,
            shape.hidden_size,
            shape.width,
            weight=self(names.routed),
            # gate, up and down have 2 f + h outputs
            bias_params=2 * shape.width + shape.hidden_size if shape.biases else 0,
        )
        linears = [self.router("router", shape.hidden_size, shape.n_experts, bias=shape.biases)]
        if shape.shared_width:
            into, out = self(names.shared_in), self(names.shared_out)
            pair = gated_pair(shape.hidden_size, shape.shared_width, into, out, prefix="shared_")
            linears += pair
        if shape.shared_width and shape.shared_gate:
            linears.append(self.router("shared_expert_gate", shape.hidden_size, 1))
        correction = shape.n_experts if shape.correction_bias else 0
        vectors = shape.hidden_size + correction
        return Block("feed_forward", tuple(linears), experts, vector_params=vectors)


def stream_mixing(block: Block, width: int, rows: int) -> Linear:
    """Return the float32 matrix that looks at residual streams of some `width` before it (mHC)."""
    attends = block.name == "attention"
    name, shard = (
        ("attn_hc_fn", ATTENTION_REPLICATED) if attends else ("ffn_hc_fn", FEED_FORWARD_REPLICATED)
    )
    return Linear(name, width, rows, FP32, shard, kind="residual")


#: What transformers calls the number of experts in files that it saves again: the `attribute_map`
#: of a configuration class takes these names for the family's own.
SAVED_EXPERTS_KEYS: Final = ("num_local_experts", "num_experts", "n_routed_experts")


_Kind = TypeVar("_Kind", bound=Hashable)
#: Makes a block with the formats of a layer.
BlockBuilder: TypeAlias = Callable[[LayerWeights], Block]


@dataclass(frozen=True, slots=True)
class LayerPart(Generic[_Kind]):
    """One block of every layer, such as its mixer.

    Parameters
    ----------
    kinds
        Of each layer, in order: layers of one kind have equal blocks.
    build
        Makes the block of a kind with the formats of a layer; None where such layers lack it.
    """

    kinds: Sequence[_Kind]
    build: Callable[[_Kind, LayerWeights], Block | None]

    def changed(self, change: Callable[[_Kind, Block, LayerWeights], Block]) -> "LayerPart[_Kind]":
        """Return a part with its blocks changed, where layers have them."""

        def build(kind: _Kind, weights: LayerWeights) -> Block | None:
            block = self.build(kind, weights)
            return block and change(kind, block, weights)

        return LayerPart(self.kinds, build)


# --- One opened config, the input of every family parser, and what its model is made of ----------


@dataclass(frozen=True, slots=True, eq=False)
class ModelConfig:
    """A config file, opened.

    Parameters
    ----------
    name, family
        What outputs call the model, and the `model_type` it is read as.
    keys
        The keys of the language model: those of `text_config`, or the root's.
    root
        The whole file.
    quantization
        How its matrices are stored.
    activation_dtype
        Of what flows between them.
    notes
        Sentences for the reader.
    states_quantization
        Whether the file itself has a `quantization_config`, sidecar or not.
    is_foreign
        Whether the file names another `model_type` than it is read as, or none.
    traits
        The row of its family.
    """

    name: str
    family: str
    keys: Reader
    root: Reader
    quantization: Quantization
    activation_dtype: str
    notes: tuple[str, ...] = ()
    states_quantization: bool = False
    is_foreign: bool = False
    traits: Traits = USUAL_TRAITS

    @property
    def routing(self) -> ExpertTraits:
        """What experts its family has, if it has some."""
        return self.traits.routing or ExpertTraits("num_experts")

    def of_row(self, traits: Traits) -> "ModelConfig":
        """Return the config as one of a family with these traits, and its own names of keys."""
        return replace(self, traits=traits, keys=replace(self.keys, spelled=traits.spelled))

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return self.keys.positive_int("hidden_size")

    @property
    def n_layers(self) -> int:
        """Layers of the model, those of a draft head apart."""
        return self.keys.positive_int("num_hidden_layers", maximum=MAX_LAYERS)

    def head_counts(
        self, *, heads_default: int | None = None, kv_default: int | None = None
    ) -> tuple[int, int]:
        """Return query heads and KV heads, which divide them; defaults are of a config class."""
        n_heads = self.keys.positive_int("num_attention_heads", default=heads_default)
        n_kv_heads = self.keys.divisor(
            "num_key_value_heads", of=n_heads, called="num_attention_heads", default=kv_default
        )
        return n_heads, n_kv_heads

    def split_head_dim(self) -> int:
        """Return `head_dim`, or where it is missing the heads' share of the hidden size."""
        if self.keys.has("head_dim"):
            return self.keys.positive_int("head_dim")
        hidden_size = self.keys.positive_int("hidden_size")
        n_heads = self.keys.positive_int("num_attention_heads")
        if hidden_size % n_heads:
            allowed = f"a divisor of hidden_size ({hidden_size}), or a head_dim beside it"
            self.keys.refuse("num_attention_heads", allowed)
        return self.keys.positive_int("head_dim", default=hidden_size // n_heads)

    def read_attention(
        self,
        head_dim: int | None = None,
        *,
        heads: tuple[int, int] | None = None,
        biased: bool = False,
    ) -> AttentionShape:
        """Return the sizes of grouped-query attention, with neither head norms nor sinks.

        Parameters
        ----------
        head_dim
            Width of a head; None reads it, or takes the heads' share of the hidden size.
        heads
            Query and KV heads; None reads them.
        biased
            Whether the family has `attention_bias`, on all four projections and false by default.
        """
        bias = biased and self.keys.flag("attention_bias", default=False)
        return AttentionShape(
            self.keys.positive_int("hidden_size"),
            *(heads or self.head_counts()),
            head_dim or self.split_head_dim(),
            qkv_bias=bias,
            out_bias=bias,
        )

    def same_part(self, build: BlockBuilder) -> LayerPart[None]:
        """Return a block that all layers have alike."""
        return LayerPart([None] * self.n_layers, lambda _, weights: build(weights))

    def kinds_part(
        self,
        kinds: Sequence[str],
        builders: "Mapping[str, Callable[[ModelConfig], BlockBuilder]]",
    ) -> LayerPart[str]:
        """Return the block of layers of several kinds; of these only what is there is read."""
        built = {kind: builders[kind](self) for kind in dict.fromkeys(kinds)}
        return LayerPart(kinds, lambda kind, weights: built[kind](weights))

    def decoder(
        self,
        *parts: LayerPart[Any],
        head_name: str = "lm_head",
        vector_params: int | None = None,
        lookup_params: int = 0,
        state_dtype: str | None = "fp32",
        notes: Sequence[str] = (),
    ) -> Architecture:
        """Return the model whose layers have these parts, one behind the other.

        Parameters
        ----------
        parts
            The blocks of the layers.
        head_name
            The head's name in the checkpoint.
        vector_params
            Elements outside of layers; None is one norm.
        lookup_params
            Elements of tables besides the embedding.
        state_dtype
            Of recurrent state.
        notes
            Sentences to add.
        """
        hidden_size, traits = self.hidden_size, self.traits
        vocab_size = self.keys.positive_int("vocab_size", default=traits.vocab_size)
        head = self.quantization.weight_format(None, head_name)
        # Each layer has the formats of its own module names; without any, one of a kind is built.
        built: dict[Hashable, Layer] = {}
        layers = []
        for index, kinds in enumerate(zip(*(part.kinds for part in parts), strict=True)):
            alike = kinds, index if self.quantization.rules else None
            if alike not in built:
                weights = LayerWeights(self.quantization, index)
                blocks = (
                    part.build(kind, weights) for part, kind in zip(parts, kinds, strict=True)
                )
                built[alike] = Layer(tuple(block for block in blocks if block is not None))
            layers.append(built[alike])
        distinct, order = ordered_layers(layers)
        # Servers reserve memory for a vision tower by its sizes.
        tower = self.root.section("vision_config")
        tower_sizes = ("num_hidden_layers", "hidden_size", "depth", "embed_dim")
        if tower is not None and tower.optional_int("vt_hidden_size"):
            tower_sizes = ("vt_num_hidden_layers", "vt_hidden_size", "depth", "embed_dim")
        return Architecture(
            name=self.name,
            family=self.family,
            hidden_size=hidden_size,
            vocab_size=vocab_size,
            layers=distinct,
            head=Linear("lm_head", hidden_size, vocab_size, head, TENSOR, kind="head"),
            tied_embeddings=tied_embeddings(self.root, self.keys, self.family, default=traits.tied),
            vector_params=hidden_size if vector_params is None else vector_params,
            lookup_params=lookup_params,
            activation_dtype=self.activation_dtype,
            kv_dtype=self.quantization.kv_dtype or self.activation_dtype,
            state_dtype=state_dtype or "fp32",
            leaves_state=state_dtype is None,
            notes=(*self.notes, *notes),
            vision=None if tower is None else VisionTower(*map(tower.optional_int, tower_sizes)),
            layer_order=order,
            quantization=self.quantization.method,
        )

    def attention(
        self,
    ) -> tuple[AttentionShape, Callable[[AttentionShape, LayerWeights], Block]]:
        """Return the sizes of attention, and what makes the block of one with a window."""
        keys, traits, hidden_size = self.keys, self.traits, self.hidden_size
        usual = _attention_shape(self)
        parallel = _holds(keys, traits.parallel)
        norm_params, _ = _norm_params(self)
        all_heads_norm = traits.norm_span == "heads" and _holds(keys, traits.qk_norm)
        gate_dim = _gate_dim(keys, traits, usual.head_dim)

        def attention(shape: AttentionShape, weights: LayerWeights) -> Block:
            block = weights.attention(shape)
            head_norms = 2 * (traits.norm_vectors - 1) * shape.head_dim if shape.qk_norm else 0
            if all_heads_norm:
                head_norms = (shape.n_heads + shape.n_kv_heads) * shape.head_dim
            inner = shape.n_heads * shape.head_dim if traits.inner_norms else 0
            gate = (traits.output_gate, hidden_size, shape.n_heads * gate_dim)
            gating = weights.matrices("self_attn.", HEADS, *((gate,) if gate_dim else ()))
            more = norm_params - hidden_size + head_norms + inner
            more += shape.n_heads if traits.gate_bias else 0
            return replace(block.extended(*gating, n_params=more), joins_next=parallel)

        return usual, attention

    def feed_forwards(self, norm_params: int | None = None) -> LayerPart[bool]:
        """Return the feed-forwards of all layers, with experts or without.

        What layers without experts need is read only if there are some, and what experts need only
        if a layer has them. Of attention nothing is read.

        Parameters
        ----------
        norm_params
            Elements of the norms before it; None is one norm without biases.
        """
        keys, traits, hidden_size = self.keys, self.traits, self.hidden_size
        sparse = self.expert_layers() if traits.routing else [False] * self.n_layers
        experts = self.routed_experts() if any(sparse) else None
        if all(sparse):
            keys.pass_over(" ".join(self.routing.dense_width))
        width = 0 if all(sparse) else _width(keys, hidden_size, traits)
        mlp_bias, names = _holds(keys, traits.mlp_bias), traits.mlp_names
        dense_params = traits.activation_params + (width if traits.inner_norms else 0)
        more_params = 0 if norm_params is None else norm_params - hidden_size

        def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
            if is_sparse and experts:
                block = weights.experts(experts, self.routing.names)
                return _at_inner_width(self, block, weights).extended(n_params=more_params)
            if traits.gated:
                block = weights.feed_forward(
                    hidden_size, width, bias=mlp_bias, module=traits.mlp, names=names
                )
            else:
                rows = ("up_proj", hidden_size, width), ("down_proj", width, hidden_size)
                linears = weights.matrices(f"{traits.mlp}.", TENSOR, *rows, bias=mlp_bias)
                block = Block("feed_forward", linears, vector_params=hidden_size)
            return block.extended(n_params=more_params + dense_params)

        return LayerPart(sparse, feed_forward)

    def routed_experts(self) -> ExpertsShape:
        """Return the sizes of experts; all shared ones of a layer are one wide expert."""
        keys, routing = self.keys, self.routing
        experts = routing.experts.split()
        if keys.values.keys().isdisjoint(experts):
            experts = [key for key in SAVED_EXPERTS_KEYS if keys.has(key)] or experts
        n_experts = keys.positive_int(*experts)
        top_k = _of_all_layers(self, *routing.top_k, maximum=n_experts)
        width = _of_all_layers(self, *routing.width)
        names, n_shared = routing.shared
        if names:
            n_shared = _of_all_layers(self, *names.split(), minimum=0, default=n_shared)
        shared = n_shared or 0
        if shared:
            key, required = routing.each_shared
            each = None if required else width
            shared *= keys.positive_int(*key.split(), default=each) if key else width
        names, default = routing.shared_width
        if names:
            shared = keys.positive_int(
                *names.split(), minimum=int(default is None), default=default
            )
        return ExpertsShape(
            self.hidden_size,
            n_experts,
            top_k,
            width,
            shared_width=shared,
            shared_gate=routing.shared_gate,
            correction_bias=_holds(keys, routing.correction_bias),
            biases=routing.biases,
        )

    def expert_layers(self) -> list[bool]:
        """Return which layers have experts.

        Source
            transformers 5.23: `Qwen3MoeDecoderLayer.__init__` for lists of layers without and every
            how many-th has some; `DeepseekV3DecoderLayer` for the first few, and the checkpoints'
            own `modeling_deepseek.py` for ``moe_layer_freq``; `Ernie4_5_MoeConfig` for those from
            one to another.
        """
        keys, n_layers, routing = self.keys, self.n_layers, self.routing
        if routing.listed:
            keys.pass_over(f"{routing.dense[0] or ''} {routing.stride} {routing.flagged}")
            if listed := keys.listed_kinds("mlp_layer_types", ("dense", "sparse"), n_layers):
                return [kind == "sparse" for kind in listed]
        if routing.flagged and (flags := keys.flagged_layers(routing.flagged, n_layers)):
            return flags
        if routing.numbered and keys.has(routing.numbered):
            numbered = _layer_numbers(keys, routing.numbered)
            return [index in numbered for index in range(n_layers)]
        last = -1
        if routing.last:
            last = keys.positive_int(routing.last, minimum=-1, maximum=MAX_LAYERS, default=-1)
        stop = n_layers if last == -1 else last + 1
        without = frozenset(
            keys.ints(routing.named)
            if routing.named and keys.has(routing.named)
            else range(_number(keys, routing.dense))
        )
        every, stride = (
            keys.positive_int(key, default=1) if key else 1
            for key in (routing.every, routing.stride)
        )
        return [
            index < stop
            and index not in without
            and (index + 1) % every == 0
            and index % stride == 0
            for index in range(n_layers)
        ]


# --- The model of a row: grouped queries, feed-forwards or experts, their norms -------------------


def decoder_of(config: ModelConfig) -> Architecture:
    """Return the model of a config whose family is a row and nothing else."""
    keys, traits, hidden_size = config.keys, config.traits, config.hidden_size
    parallel = _holds(keys, traits.parallel)
    _, norm_params = _norm_params(config)
    shape, attention = config.attention()
    norms_before = 0 if parallel and traits.one_norm else norm_params
    feed_forward = config.feed_forwards(norms_before)
    positions = _number(keys, traits.positions, maximum=2**31) + traits.first_position
    embedding_norms = 2 if traits.embedding_norm else 1
    model = config.decoder(
        LayerPart(_attentions(keys, traits, shape, feed_forward.kinds), attention),
        feed_forward,
        vector_params=embedding_norms * traits.norm_vectors * hidden_size,
        lookup_params=positions * hidden_size,
    )
    rows = keys.optional_int(traits.head_rows) if traits.head_rows else None
    if rows and (model.tied_embeddings or rows > model.vocab_size):
        keys.refuse(traits.head_rows, "null, or rows of a head of its own")
    head_bias = _holds(keys, traits.head_bias)
    # A head that is the embedding stores its bias alone.
    alone = model.vocab_size if head_bias and model.tied_embeddings else 0
    return replace(
        model,
        head=replace(model.head, out_features=rows or model.vocab_size, bias=head_bias),
        vector_params=model.vector_params + alone,
    )


def _norm_params(config: ModelConfig) -> tuple[int, int]:
    """Return the elements of the norms around attention, and around a feed-forward."""
    traits = config.traits
    norms = (2, 2) if _holds(config.keys, traits.more_norms) else traits.norms
    attention, feed_forward = (n * traits.norm_vectors * config.hidden_size for n in norms)
    return attention, feed_forward


def _at_inner_width(config: ModelConfig, block: Block, weights: LayerWeights) -> Block:
    """Return experts between two matrices, where they work at another width than the layer.

    Every device runs those in full, and no published list of formats names them: checkpoints hold
    them in bfloat16, as SGLang 0.5.23 does (`models/muse_spark.py`).
    """
    routing = config.routing
    key, into, out = routing.inner or ("", "", "")
    width = config.keys.optional_int(key) if key else None
    if width is None or block.experts is None:
        return block
    form, hidden_size, shard = weights.plain, config.hidden_size, FEED_FORWARD_REPLICATED
    norms = sum(_holds(config.keys, norm) for norm in routing.inner_norms)
    return replace(block, core=replace(block.experts, in_features=width)).extended(
        Linear(into, hidden_size, width, form, shard),
        Linear(out, width, hidden_size, form, shard),
        n_params=norms * width,
    )


def _holds(keys: Reader, flag: Flag) -> bool:
    """Return what a family has always, or as the first of some keys says."""
    if isinstance(flag, bool):
        return flag
    *names, holds = flag
    for name in reversed(names):
        holds = keys.flag(str(name), default=bool(holds))
    return bool(holds)


def _number(keys: Reader, number: Number, *, maximum: int = MAX_LAYERS) -> int:
    names, default = number
    if names:
        return keys.positive_int(*names.split(), minimum=0, maximum=maximum, default=default)
    return default or 0


def _attention_shape(config: ModelConfig) -> AttentionShape:
    keys, traits = config.keys, config.traits
    n_heads = keys.positive_int("num_attention_heads", default=traits.heads)
    kv_heads = traits.kv_heads
    if kv_heads == "all":
        heads = n_heads, n_heads
    elif kv_heads == "multi_query":
        heads = n_heads, 1 if keys.flag("multi_query", default=True) else n_heads
    else:
        kv_default = n_heads if isinstance(kv_heads, str) else kv_heads
        heads = config.head_counts(heads_default=traits.heads, kv_default=kv_default)
    return AttentionShape(
        keys.positive_int("hidden_size"),
        *heads,
        _head_dim(config, heads[0]),
        qkv_bias=_holds(keys, traits.qkv_bias),
        out_bias=_holds(keys, traits.out_bias),
        qk_norm=traits.norm_span == "head" and _holds(keys, traits.qk_norm),
        gated=_holds(keys, traits.query_gate),
        sinks=traits.sinks,
    )


def _attentions(
    keys: Reader, traits: Traits, shape: AttentionShape, sparse: Sequence[bool]
) -> list[AttentionShape]:
    """Return each layer's attention: its window, and its query heads where a list has them."""
    n_layers, heads = len(sparse), [shape.n_heads] * len(sparse)
    if traits.listed_heads and keys.has(traits.listed_heads):
        heads = list(keys.ints(traits.listed_heads, minimum=1, at_least=n_layers)[:n_layers])
        for n_heads in heads:
            if n_heads % shape.n_kv_heads:
                allowed = f"multiples of num_key_value_heads ({shape.n_kv_heads})"
                keys.refuse(traits.listed_heads, allowed, n_heads)
    windows = _windows(keys, traits.windows, sparse)
    return [
        replace(shape, n_heads=n_heads, window=window)
        for n_heads, window in zip(heads, windows, strict=True)
    ]


def _gate_dim(keys: Reader, traits: Traits, head_dim: int) -> int:
    """Return how many outputs the gate of a head has; 0 without a gate."""
    if not traits.output_gate:
        return 0
    kind = keys.values.get(traits.gate_kinds, True) if traits.gate_kinds else "per-element"
    if kind == "per-element":
        return head_dim
    if kind is not True and kind != "per-head":
        keys.refuse(traits.gate_kinds, "true, per-head or per-element")
    return 1


def _head_dim(config: ModelConfig, n_heads: int) -> int:
    """Return the width of a head; null is the heads' share of the hidden size."""
    keys, traits = config.keys, config.traits
    if not traits.head_dim_keys:
        hidden_size = keys.positive_int("hidden_size")
        return hidden_size // keys.divisor(
            "num_attention_heads", of=hidden_size, called="hidden_size", default=n_heads
        )
    if traits.states_head_dim:
        return keys.positive_int(*traits.head_dim_keys)
    return keys.optional_int("head_dim", missing=traits.head_dim) or config.split_head_dim()


def _width(keys: Reader, hidden_size: int, traits: Traits) -> int:
    """Return the inner width of a dense feed-forward."""
    key, factor = traits.width
    if not key and factor:
        return factor * hidden_size
    names = traits.routing.dense_width if traits.routing else (key,)
    return keys.positive_int(*names, default=factor and factor * hidden_size)


def _layer_numbers(keys: Reader, key: str) -> set[int]:
    """Return numbers of layers from 0, of a list or of text with commas between them (Step)."""
    if isinstance(keys.values[key], list):
        return set(keys.ints(key))
    words = [word.strip() for word in keys.text(key).split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 9 for word in words if word):
        keys.refuse(key, "whole numbers from 0 with commas between them")
    return {int(word) for word in words if word}


def _of_all_layers(
    config: ModelConfig,
    *names: str,
    minimum: int = 1,
    maximum: int = 2**24,
    default: int | None = None,
) -> int:
    """Return a number that all layers have, stated once or in a list with one of each (Hunyuan)."""
    keys = config.keys
    key = next((name for name in names if keys.has(name)), names[0])
    if not isinstance(keys.values.get(key), list):
        return keys.positive_int(*names, minimum=minimum, maximum=maximum, default=default)
    n_layers = config.n_layers
    numbers = set(keys.ints(key, minimum=minimum, at_least=n_layers)[:n_layers])
    if len(numbers) > 1:
        keys.refuse(key, "the same number for all layers")
    number = numbers.pop()
    if number > maximum:
        keys.refuse(key, f"up to the {maximum} experts")
    return number


def _windows(keys: Reader, windows: Windows | None, sparse: Sequence[bool]) -> list[int | None]:
    """Return each layer's window."""
    n_layers = len(sparse)
    if windows is None:
        return [None] * n_layers
    if windows.switch:
        keys.pass_over("max_window_layers sliding_window")
    used = not windows.switch or keys.flag("use_sliding_window", default=False)
    window = keys.optional_int("sliding_window", missing=windows.size) if used else None
    keys.pass_over(" ".join(windows.stride_keys))
    # What describes windows is not read where there is none.
    full_every = 1 if window is None else _full_every(keys, windows)
    since = 0 if window is None else _number(keys, windows.since)
    until = n_layers - windows.last_full
    if window is not None and windows.until[0]:
        until = _number(keys, windows.until)
    first_full = full_every - 1 if windows.first_full is None else windows.first_full
    if first_full < 0:
        first_full += n_layers
    begins, dense_stride = 0, 1
    if windows.dense_stride_key:
        begins = [*sparse, True].index(True)
        dense_stride = keys.positive_int(windows.dense_stride_key, default=1)

    def slides(index: int) -> bool:
        if index < begins:
            return (index + 1) % dense_stride != 0
        attends_fully = full_every and (index - begins - first_full) % full_every == 0
        return since <= index < until and not attends_fully

    listed = keys.sliding_layers(n_layers) if windows.listed else None
    sliding = listed or [slides(index) for index in range(n_layers)]
    return [window if is_sliding else None for is_sliding in sliding]


def _full_every(keys: Reader, windows: Windows) -> int:
    """Return every how many-th layer attends fully, as a number or in letters: ``"LLLG"``.

    Source
        SGLang `models/exaone4.py`: sliding three times, then full.
    """
    key = next((key for key in windows.stride_keys if keys.has(key)), "")
    if not key:
        return windows.full_every
    if not isinstance(keys.values.get(key), str):
        return keys.positive_int(key)
    pattern = keys.text(key)
    if pattern != "L" * (len(pattern) - 1) + "G":
        keys.refuse(key, "a number, or letters such as LLLG")
    return len(pattern)
