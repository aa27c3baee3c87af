"""A model from its parts: each layer's mixer and feed-forward, then head and embedding."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

from specroof.architecture import (
    FEED_FORWARD_REPLICATED,
    TENSOR,
    Architecture,
    AttentionShape,
    Block,
    Experts,
    Layer,
    Linear,
    Shard,
    VisionTower,
    WeightFormat,
    gated_pair,
    grouped_query_block,
    stack_layers,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig, StatedReader
from specroof.parsers.traits import USUAL_NAMES, ExpertNames
from specroof.reading.json_text import MAX_LAYERS, Reader

# --- Lists with an entry per layer, which several families spell alike ---------------------------


def listed_kinds(
    keys: Reader, key: str, allowed: Collection[str], n_layers: int
) -> tuple[str, ...] | None:
    """Return each layer's kind by a list of texts; None where it is not given.

    Entries beyond the last layer describe draft layers.
    """
    if not keys.has(key):
        return None
    return keys.texts(key, allowed=allowed, at_least=n_layers)[:n_layers]


def flagged_layers(keys: Reader, key: str, n_layers: int) -> list[bool] | None:
    """Return which layers a list of 0 and 1 marks; None where it is not given.

    Examples
    --------
    >>> flagged_layers(Reader("c.json", {"moe_layer_freq": [0, 1, 1, 1]}), "moe_layer_freq", 3)
    [False, True, True]
    """
    if not keys.has(key):
        return None
    return [flag == 1 for flag in keys.ints(key, allowed=(0, 1), at_least=n_layers)[:n_layers]]


def listed_experts(keys: Reader, n_layers: int) -> list[bool] | None:
    """Return whether each layer has experts by ``mlp_layer_types``; None where it is not given.

    Examples
    --------
    >>> listed_experts(Reader("c.json", {"mlp_layer_types": ["dense", "sparse"]}), 2)
    [False, True]
    """
    kinds = listed_kinds(keys, "mlp_layer_types", ("dense", "sparse"), n_layers)
    return None if kinds is None else [kind == "sparse" for kind in kinds]


def experts_after_first(
    keys: Reader, n_layers: int, *, n_dense_default: int | None = None
) -> list[bool]:
    """Return whether each layer has experts: all but the first few, or every few of them.

    Source
        `DeepseekV3DecoderLayer.__init__` of the checkpoints' own `modeling_deepseek.py`, where
        ``moe_layer_freq`` is 1 by default; the family's configuration class may have a default
        of ``first_k_dense_replace``.
    """
    n_dense = keys.positive_int(
        "first_k_dense_replace", minimum=0, maximum=MAX_LAYERS, default=n_dense_default
    )
    stride = keys.positive_int("moe_layer_freq", default=1)
    return [index >= n_dense and index % stride == 0 for index in range(n_layers)]


def sliding_layers(keys: Reader, n_layers: int) -> list[bool] | None:
    """Return whether each layer slides by ``layer_types``; None where it is not given."""
    allowed = ("full_attention", "sliding_attention")
    kinds = listed_kinds(keys, "layer_types", allowed, n_layers)
    return None if kinds is None else [kind == "sliding_attention" for kind in kinds]


def layer_overrides(keys: Reader, n_layers: int, allowed: Collection[str]) -> list[Reader] | None:
    """Return what ``per_layer_config`` says of each layer; None where it is not given.

    transformers 5.23 writes layers that differ from the rest as an object by number of layer,
    with zeros in front: ``{"05": {"head_dim": 512}, "11": ...}``. A layer that is not named has
    the sizes of the file. A key that is not among `allowed` is refused: it would change a size.

    Source
        transformers 5.23, `integrations/heterogeneity/configuration_utils.py`.

    Examples
    --------
    >>> keys = Reader("c.json", {"per_layer_config": {"01": {"head_dim": 512}}})
    >>> [dict(layer.values) for layer in layer_overrides(keys, 2, ("head_dim",))]
    [{}, {'head_dim': 512}]
    """
    section = keys.section("per_layer_config")
    if section is None:
        return None
    layers: dict[int, Reader] = {}
    for name, layer in keys.sections("per_layer_config").items():
        index = int(name) if name.isascii() and name.isdecimal() and len(name) < 9 else n_layers
        if index >= n_layers or index in layers:
            section.refuse(name, f"numbers of layers below {n_layers}, each once")
        for key in layer.values.keys() - set(allowed):
            layer.refuse(key, f"in this family only {', '.join(sorted(allowed))}")
        layers[index] = layer
    plain = Reader(keys.source, {}, section.prefix)
    return [layers.get(index, plain) for index in range(n_layers)]


# --- Whether the head is the embedding table, which a multimodal file says at two levels ---------
# Which level counts is up to the class that is loaded, by the `model_type` of the whole file:
#
# - **the top** where the head lies beside the language model: the class asks the configuration of
#   the whole, and what the text says changes nothing. The class of the text has another default
#   at times, which a file saved again states: Qwen3-VL-MoE says true inside and false at the top.
# - **the text** for Llama 4, whose head is part of the language model.
# - **either** where the configuration class passes on what the text says (``__post_init__``).
# - **never** for Inkling: its classes tie nothing.
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
_TOP: Final = frozenset(
    [
        "gemma3",
        "gemma3n",
        "gemma4",
        "gemma4_unified",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_vl",
        "qwen3_vl_moe",
        "qwen4_exp",
        "step3p7",
    ]
)
_TEXT: Final = frozenset(("llama4",))
_EITHER: Final = frozenset(
    [
        "glm4v_moe",
        "minimax_m3",
        "minimax_m3_vl",
        "qwen2_5_vl",
        "qwen2_vl",
        "llava",
        "llava_onevision",
        "video_llama_3",
    ]
)
_NEVER: Final = frozenset(("inkling", "inkling_mm_model", "inkling_model"))


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
    if isinstance(text, StatedReader):  # no default of the family holds
        names = set()
        if not stated:
            text.expect(_KEY, default)
    if names & _NEVER:
        return False
    if names & _TOP:
        return default if outer is None else outer
    if names & _TEXT:
        return bool(inner)
    if names & _EITHER:
        return any(stated)
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


# --- Sizes that most families spell alike: heads of attention, and experts -----------------------

#: What transformers calls the number of experts in files that it saves again: the `attribute_map`
#: of a configuration class takes these names for the family's own.
SAVED_EXPERTS_KEYS: Final = ("num_local_experts", "num_experts", "n_routed_experts")


def head_counts(
    keys: Reader, *, heads_default: int | None = None, kv_default: int | None = None
) -> tuple[int, int]:
    """Return query heads and KV heads, which divide them; defaults are those of a config class."""
    n_heads = keys.positive_int("num_attention_heads", default=heads_default)
    n_kv_heads = keys.divisor(
        "num_key_value_heads", of=n_heads, called="num_attention_heads", default=kv_default
    )
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
    return keys.positive_int("head_dim", default=hidden_size // n_heads)


def read_attention(
    keys: Reader,
    head_dim: int | None = None,
    *,
    heads: tuple[int, int] | None = None,
    biased: bool = False,
) -> AttentionShape:
    """Return the sizes of grouped-query attention, with neither head norms nor sinks.

    Parameters
    ----------
    keys
        The config.
    head_dim
        Width of a head; None reads it, or takes the heads' share of the hidden size.
    heads
        Query and KV heads; None reads them.
    biased
        Whether the family has `attention_bias`, on all four projections and false by default.
    """
    bias = biased and keys.flag("attention_bias", default=False)
    return AttentionShape(
        keys.positive_int("hidden_size"),
        *(heads or head_counts(keys)),
        head_dim or split_head_dim(keys),
        qkv_bias=bias,
        out_bias=bias,
    )


def read_experts(
    keys: Reader,
    experts_key: str,
    *top_k_keys: str,
    width_key: str = "moe_intermediate_size",
    n_shared: int = 0,
    correction_bias: bool = False,
) -> ExpertsShape:
    """Return the sizes of experts; all shared ones of a layer are one wide expert.

    Parameters
    ----------
    keys
        The config; without the family's `experts_key` it may have a name that transformers saves.
    experts_key, top_k_keys, width_key
        Where it says how many experts there are, how many of them a token visits (by default
        `num_experts_per_tok`), and the inner width of one.
    n_shared
        Shared experts of a layer, as wide as the others.
    correction_bias
        Whether each expert has a bias that only the selection sees.
    """
    hidden_size = keys.positive_int("hidden_size")
    if experts_key not in keys.values:
        experts_key = next((key for key in SAVED_EXPERTS_KEYS if keys.has(key)), experts_key)
    n_experts = keys.positive_int(experts_key)
    top_k = keys.positive_int(*(top_k_keys or ("num_experts_per_tok",)), maximum=n_experts)
    width = keys.positive_int(width_key)
    return ExpertsShape(
        hidden_size,
        n_experts,
        top_k,
        width,
        shared_width=n_shared * width,
        correction_bias=correction_bias,
    )


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


def same_part(config: ModelConfig, build: BlockBuilder) -> LayerPart[None]:
    """Return a block that all layers have alike."""
    return LayerPart([None] * config.n_layers, lambda _, weights: build(weights))


def kinds_part(
    config: ModelConfig,
    kinds: Sequence[str],
    builders: Mapping[str, Callable[[ModelConfig], BlockBuilder]],
) -> LayerPart[str]:
    """Return the block of layers of several kinds; what a kind needs is read only if one has it."""
    built = {kind: builders[kind](config) for kind in dict.fromkeys(kinds)}
    return LayerPart(kinds, lambda kind, weights: built[kind](weights))


def attention_part(
    config: ModelConfig, shape: AttentionShape, windows: Sequence[int | None] | None = None
) -> LayerPart[AttentionShape]:
    """Return grouped-query attention, alike but for each layer's window (None: none has one)."""
    each = windows or [None] * config.n_layers
    return LayerPart([replace(shape, window=window) for window in each], attention_block)


def dense_part(config: ModelConfig, *, bias: bool = False, module: str = "mlp") -> LayerPart[None]:
    """Return a gated feed-forward that all layers have alike."""
    size, width = config.hidden_size, config.keys.positive_int("intermediate_size")
    return LayerPart(
        [None] * config.n_layers,
        lambda _, weights: feed_forward_block(size, width, weights, bias=bias, module=module),
    )


def feed_forward_part(
    config: ModelConfig,
    experts: ExpertsShape | None,
    sparse: Sequence[bool] | None = None,
    *,
    names: ExpertNames = USUAL_NAMES,
    width_key: str = "intermediate_size",
) -> LayerPart[bool]:
    """Return the feed-forward of all layers, dense ones and those with experts.

    Parameters
    ----------
    config
        The config, whose `width_key` is read only where a layer is dense.
    experts
        Sizes of the experts; None where no layer has any.
    sparse
        Whether each layer has experts; None: all have.
    names
        What the checkpoint calls its matrices.
    width_key
        Where the config says the inner width of a dense layer.
    """
    sparse = sparse or [True] * config.n_layers
    width = 0 if all(sparse) else config.keys.positive_int(width_key)

    def build(is_sparse: bool, weights: LayerWeights) -> Block:
        if is_sparse and experts is not None:
            return experts_block(experts, weights, names)
        return feed_forward_block(config.hidden_size, width, weights, module=names.dense)

    return LayerPart(sparse, build)


def decoder(  # noqa: PLR0913 - what families differ in around their layers, by name
    config: ModelConfig,
    *parts: LayerPart[Any],
    tied_default: bool = False,
    head_name: str = "lm_head",
    vocab_default: int | None = None,
    vector_params: int | None = None,
    lookup_params: int = 0,
    state_dtype: str = "fp32",
    notes: Sequence[str] = (),
) -> Architecture:
    """Return the model whose layers have these parts, one behind the other.

    Parameters
    ----------
    config
        The opened config.
    parts
        The blocks of the layers.
    tied_default
        Whether head and embedding are one table where no key says so.
    head_name
        The head's name in the checkpoint.
    vocab_default
        Rows of the embedding where no key says so; None refuses such a config.
    vector_params
        Elements outside of layers; None is one norm.
    lookup_params
        Elements of tables besides the embedding.
    state_dtype
        Of recurrent state.
    notes
        Sentences to add.
    """
    hidden_size = config.hidden_size
    vocab_size = config.keys.positive_int("vocab_size", default=vocab_default)
    head = config.quantization.weight_format(None, head_name)
    # Each layer has the formats of its own module names; layers of one kind that the checkpoint
    # quantises alike are built once.
    alike: dict[Hashable, list[int]] = {}
    for index, kinds in enumerate(zip(*(part.kinds for part in parts), strict=True)):
        alike.setdefault((kinds, config.quantization.layer_key(index)), []).append(index)
    layers = []
    for indices in alike.values():
        first = indices[0]
        weights = LayerWeights(config.quantization, first)
        blocks = (part.build(part.kinds[first], weights) for part in parts)
        layers.append(Layer(tuple(block for block in blocks if block is not None), len(indices)))
    distinct = stack_layers(layers)
    places = {layer.blocks: place for place, layer in enumerate(distinct)}
    order = {
        index: places[layer.blocks]
        for layer, indices in zip(layers, alike.values(), strict=True)
        for index in indices
    }
    # Servers reserve memory for a vision tower by its sizes.
    tower = config.root.section("vision_config")
    tower_sizes = ("num_hidden_layers", "hidden_size", "depth", "embed_dim")
    return Architecture(
        name=config.name,
        family=config.family,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        layers=distinct,
        head=Linear("lm_head", hidden_size, vocab_size, head, TENSOR, kind="head"),
        tied_embeddings=tied_embeddings(
            config.root, config.keys, config.family, default=tied_default
        ),
        vector_params=hidden_size if vector_params is None else vector_params,
        lookup_params=lookup_params,
        activation_dtype=config.activation_dtype,
        kv_dtype=config.quantization.kv_dtype or config.activation_dtype,
        state_dtype=state_dtype,
        notes=(*config.notes, *notes),
        vision=None if tower is None else VisionTower(*map(tower.optional_int, tower_sizes)),
        layer_order=tuple(order[index] for index in range(len(order))),
    )
