"""A model from its parts: each layer's mixer and feed-forward, then head and embedding."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

from specroof.architecture import (
    TENSOR,
    Architecture,
    AttentionShape,
    Block,
    Layer,
    Linear,
    stack_layers,
)
from specroof.parsers.blocks import (
    USUAL_NAMES,
    ExpertNames,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import ModelConfig, vision_tower
from specroof.parsers.tied_heads import tied_embeddings

_Kind = TypeVar("_Kind", bound=Hashable)
#: Makes a block with the formats of a layer.
BlockBuilder: TypeAlias = Callable[[LayerWeights], Block]


@dataclass(frozen=True, slots=True)
class Part(Generic[_Kind]):
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


def same_part(config: ModelConfig, build: BlockBuilder) -> Part[None]:
    """Return a block that all layers have alike."""
    return Part([None] * config.n_layers, lambda _, weights: build(weights))


def kinds_part(
    config: ModelConfig,
    kinds: Sequence[str],
    builders: Mapping[str, Callable[[ModelConfig], BlockBuilder]],
) -> Part[str]:
    """Return the block of layers of several kinds; what a kind needs is read only if one has it."""
    built = {kind: builders[kind](config) for kind in dict.fromkeys(kinds)}
    return Part(kinds, lambda kind, weights: built[kind](weights))


def attention_part(
    config: ModelConfig, shape: AttentionShape, windows: Sequence[int | None] | None = None
) -> Part[AttentionShape]:
    """Return grouped-query attention, alike but for each layer's window (None: none has one)."""
    each = windows or [None] * config.n_layers
    return Part([replace(shape, window=window) for window in each], attention_block)


def dense_part(config: ModelConfig, *, bias: bool = False, module: str = "mlp") -> Part[None]:
    """Return a gated feed-forward that all layers have alike."""
    size, width = config.hidden_size, config.keys.positive_int("intermediate_size")
    return same_part(
        config, lambda weights: feed_forward_block(size, width, weights, bias=bias, module=module)
    )


def feed_forward_part(
    config: ModelConfig,
    experts: ExpertsShape | None,
    sparse: Sequence[bool] | None = None,
    *,
    names: ExpertNames = USUAL_NAMES,
    width_key: str = "intermediate_size",
) -> Part[bool]:
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

    return Part(sparse, build)


def decoder(  # noqa: PLR0913 - what families differ in around their layers, by name
    config: ModelConfig,
    *parts: Part[Any],
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
    return Architecture(
        name=config.name,
        family=config.family,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        layers=_layers(config, parts),
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
        vision=vision_tower(config.root),
    )


def _layers(config: ModelConfig, parts: Sequence[Part[Any]]) -> tuple[Layer, ...]:
    """Return the layers in order, equal ones merged.

    Each layer is built with the formats that its own module names have; layers of one kind that
    the checkpoint quantises alike are built once.
    """
    alike: dict[Hashable, list[int]] = {}
    for index, kinds in enumerate(zip(*(part.kinds for part in parts), strict=True)):
        alike.setdefault((kinds, config.quantization.layer_key(index)), []).append(index)
    layers = []
    for indices in alike.values():
        first = indices[0]
        weights = LayerWeights(config.quantization, first)
        blocks = (part.build(part.kinds[first], weights) for part in parts)
        layers.append(Layer(tuple(block for block in blocks if block is not None), len(indices)))
    return stack_layers(layers)
