"""Layers and experts that a token skips, what stands in for layers, and layers that run again.

Llama 3.2 Vision, ERNIE 4.5 VL, Llama-Nemotron and Dory; for sources see each.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import HEADS, TENSOR, Linear, Shard
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import ExpertsShape, LayerPart, LayerWeights, ModelConfig
from specroof.parsers.traits import USUAL_NAMES
from specroof.reading.json_text import MAX_LAYERS, MAX_SIZE, Reader

# --- Llama 3.2 Vision, ERNIE 4.5 VL: layers and experts of images, which text alone skips ---------
#
# Source
#     transformers 5.24, `models/mllama/` and `models/ernie4_5_vl_moe/` (`modeling_*.py`,
#     `configuration_*.py`); vLLM 0.33.0, `models/ernie45_vl_moe.py`, for the pairs of numbers, of
#     text and of images, that published files have.

#: `MllamaTextModel.embed_tokens`: rows of the table beyond those of the head.
_MORE_ROWS: Final = 8


def parse_mllama(config: ModelConfig) -> Architecture:
    """Return the language model of a Llama 3.2 Vision, as it answers requests without images."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    crossing = frozenset(keys.ints("cross_attention_layers") or (3, 8, 13, 18, 23, 28, 33, 38))
    skipped = [index in crossing for index in range(n_layers)]
    shape = config.read_attention()
    width = keys.positive_int("intermediate_size")

    def attention(is_skipped: bool, weights: LayerWeights) -> Block:
        if not is_skipped:
            return weights.attention(shape)
        block = weights.attention(replace(shape, qk_norm=True), module="cross_attn")
        # with the gates of both branches
        return _skipped(replace(block, core=None).extended(n_params=2))

    def feed_forward(is_skipped: bool, weights: LayerWeights) -> Block:
        block = weights.feed_forward(hidden_size, width)
        return _skipped(block) if is_skipped else block

    return config.decoder(
        LayerPart(skipped, attention),
        LayerPart(skipped, feed_forward),
        lookup_params=_MORE_ROWS * hidden_size,
    )


def _skipped(block: Block) -> Block:
    return replace(block, linears=(), idle=block.linears)


def parse_ernie4_5_vl_moe(config: ModelConfig) -> Architecture:
    """Return an ERNIE 4.5 VL, as tokens of text pass it."""
    keys, hidden_size = config.keys, config.hidden_size
    sparse = _ernie_sparse(keys, config.n_layers)
    n_experts = _ernie_number(keys, "moe_num_experts", 64, minimum=1)
    width, image_width = _ernie_pair(keys, "moe_intermediate_size", (1536, 512), minimum=1)
    n_shared = keys.positive_int("moe_num_shared_experts", minimum=0, default=2)
    top_k = keys.positive_int("moe_k", maximum=n_experts, default=min(6, n_experts))
    experts = ExpertsShape(
        hidden_size, n_experts, top_k, width, shared_width=n_shared * width, correction_bias=True
    )
    dense_width = 0 if all(sparse) else keys.positive_int("intermediate_size")
    keys.pass_over("intermediate_size")

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        if not is_sparse:
            return weights.feed_forward(hidden_size, dense_width)
        images = Linear("image_experts", hidden_size, 3 * n_experts * image_width, shard=TENSOR)
        of_images = (
            # with the bias that only the selection sees
            weights.router("image_router", hidden_size, n_experts, bias=True),
            replace(images, weight=weights(USUAL_NAMES.routed)),
        )
        return replace(weights.experts(experts), idle=of_images)

    attention = config.read_attention()
    return config.decoder(
        config.same_part(lambda weights: weights.attention(attention)),
        LayerPart(sparse, feed_forward),
    )


def _ernie_sparse(keys: Reader, n_layers: int) -> list[bool]:
    """Return which layers have experts: by transformers' list, or from one to another."""
    bounds = ("moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval")
    if listed := keys.listed_kinds("mlp_layer_types", ("dense", "sparse"), n_layers):
        keys.pass_over(" ".join(bounds))
        return [kind == "sparse" for kind in listed]
    first = _ernie_number(keys, bounds[0], 1)
    # ends beyond the last layer are the last
    ends = {
        min(end, n_layers - 1) for end in _ernie_pair(keys, bounds[1], (MAX_LAYERS, MAX_LAYERS))
    }
    if len(ends) > 1:
        keys.refuse(bounds[1], "the same layers for text and for images")
    last = ends.pop()
    every = keys.positive_int(bounds[2], default=1)
    return [first <= index <= last and (index + 1) % every == 0 for index in range(n_layers)]


def _ernie_pair(
    keys: Reader, key: str, default: tuple[int, int], *, minimum: int = 0
) -> tuple[int, int]:
    """Return what holds for text and for images: two numbers, or one for both."""
    if not keys.has(key):
        return default
    if not isinstance(keys.values[key], list):
        number = keys.positive_int(key, minimum=minimum)
        return number, number
    text, images, *others = keys.ints(key, minimum=minimum, at_least=2)
    if others:
        keys.refuse(key, "two numbers, of text and of images")
    return text, images


def _ernie_number(keys: Reader, key: str, default: int, *, minimum: int = 0) -> int:
    """Return a number that text and images share, as all published files have it."""
    text, images = _ernie_pair(keys, key, (default, default), minimum=minimum)
    if text != images:
        keys.refuse(key, "the same number for text and for images")
    return text


# --- Llama-Nemotron of neural architecture search: each layer has its own attention and width -----
#
# Source
#     Bercovich et al. 2024, arXiv:2411.19146 (Puzzle); mlx-lm, `models/nemotron-nas.py`, after the
#     checkpoints' own `modeling_decilm.py`.

_WIDTH_MULTIPLE: Final = 256
#: The size of a block that is one square matrix.
_SQUARE: Final = 0


def parse_nemotron_nas(config: ModelConfig) -> Architecture:
    """Return a Llama-Nemotron; `num_key_value_heads` and `intermediate_size` are null in it."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    n_heads = keys.positive_int("num_attention_heads")
    # The checkpoints' configuration_decilm.py, after configuration_llama.py: both biases False.
    shape = config.read_attention(heads=(n_heads, n_heads), biased=True)
    mlp_bias = keys.flag("mlp_bias", default=False)

    def square(name: str, weights: LayerWeights, shard: Shard, *, bias: bool) -> Block:
        module = "self_attn" if name == "attention" else "mlp"
        (linear,) = weights.matrices("", shard, (module, hidden_size, hidden_size), bias=bias)
        return Block(name, (replace(linear, name="linear"),), vector_params=hidden_size)

    def attention(n_kv_heads: int | None, weights: LayerWeights) -> Block | None:
        if n_kv_heads is None:
            return None
        if n_kv_heads == _SQUARE:
            return square("attention", weights, HEADS, bias=shape.out_bias)
        return weights.attention(replace(shape, n_kv_heads=n_kv_heads))

    def feed_forward(width: int | None, weights: LayerWeights) -> Block | None:
        if width is None:
            return None
        if width == _SQUARE:
            return square("feed_forward", weights, TENSOR, bias=mlp_bias)
        return weights.feed_forward(hidden_size, width, bias=mlp_bias)

    def kv_heads(part: Reader) -> int:
        for key in ("window_length", "num_sink_tokens", "sparsify"):
            if part.has(key):
                part.refuse(key, "null")
        return n_heads // part.divisor("n_heads_in_group", of=n_heads, called="num_attention_heads")

    blocks = keys.objects("block_configs", at_least=n_layers)[:n_layers]
    if not blocks:
        keys.refuse("block_configs", "a list of objects, one a layer")
    heads = [_nas_size(block, "attention", kv_heads) for block in blocks]
    widths = [
        _nas_size(block, "ffn", lambda part: _nas_width(part, hidden_size)) for block in blocks
    ]
    return config.decoder(LayerPart(heads, attention), LayerPart(widths, feed_forward))


def _nas_size(block: Reader, key: str, read: Callable[[Reader], int]) -> int | None:
    """Return the size of one half of a layer, both of which a config states; None for no half."""
    part = block.required_section(key)
    if part.flag("no_op", default=False):
        return None
    return _SQUARE if part.flag("replace_with_linear", default=False) else read(part)


def _nas_width(feed_forward: Reader, hidden_size: int) -> int:
    """Return the width of a feed-forward: two thirds of the multiplier, rounded up to 256.

    Source
        ``_ffn_mult_to_intermediate_size`` and ``FFNConfig`` of mlx-lm's `nemotron-nas.py`.
    """
    if feed_forward.has("sparsify"):
        feed_forward.refuse("sparsify", "null")
    multiplier = round(feed_forward.positive_number("ffn_mult", maximum=MAX_SIZE), 6)
    width = int(2 * multiplier * hidden_size / 3)
    width += -width % _WIDTH_MULTIPLE
    if not 0 < width <= MAX_SIZE:
        feed_forward.refuse("ffn_mult", f"a number that makes a width from 1 to {MAX_SIZE}")
    return width


# --- Dory: layers in the middle run several times over, each time with a cache of their own -------
#
# Source
#     transformers 5.24, `models/dory/modeling_dory.py` and `configuration_dory.py`; vLLM 0.33.0,
#     `models/dory.py`, which reads the weights of a layer in each loop, too.

_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"
_MLP: Final = "mlp"
#: More than any file has; a strange one must not make a model of a million layers.
_MAX_LOOPS: Final = 64


@dataclass(frozen=True, slots=True)
class _Visit:
    """A layer in one of its loops.

    `slides` is whether it has a window, `again` whether an earlier loop ran it, `reads` whether it
    reads what a later loop has cached, and keeps nothing.
    """

    layer: int
    slides: bool
    again: bool = False
    reads: bool = False


def parse_dory(config: ModelConfig) -> Architecture:
    """Return a Dory: weights that several loops share are stored once and read in each."""
    keys, hidden_size = config.keys, config.hidden_size
    usual, plain = config.attention()
    width = keys.positive_int("intermediate_size")
    mlp_bias = keys.flag("mlp_bias", default=False)
    visits, sublayers = _dory_visits(keys, config.n_layers)
    window = keys.positive_int("sliding_window") if any(one.slides for one in visits) else None

    def attention(visit: _Visit, _: LayerWeights) -> Block:
        weights = LayerWeights(config.quantization, sublayers * visit.layer)
        shape = replace(usual, window=window if visit.slides else None)
        # scales of queries and of the gate
        scales = 2 * shape.n_heads * shape.head_dim
        block = replace(plain(shape, weights).extended(n_params=scales), stored=not visit.again)
        if visit.reads and isinstance(block.core, GroupedQueryAttention):
            return replace(block, core=replace(block.core, shares_cache=True))
        return block

    def feed_forward(visit: _Visit, _: LayerWeights) -> Block:
        weights = LayerWeights(config.quantization, sublayers * (visit.layer + 1) - 1)
        block = weights.feed_forward(hidden_size, width, bias=mlp_bias)
        return replace(block.extended(n_params=2 * width), stored=not visit.again)

    n_again = sum(visit.again for visit in visits)
    notes = (f"layers that run again are counted as {n_again} more, stored once",)
    return config.decoder(
        LayerPart(visits, attention),
        LayerPart(visits, feed_forward),
        vector_params=keys.positive_int("vocab_size"),  # a scale of each logit
        notes=notes if n_again else (),
    )


def _dory_visits(keys: Reader, n_listed: int) -> tuple[list[_Visit], int]:
    """Return every layer in the order in which they run, and how many entries of the list each has.

    Source
        `DoryConfig.__post_init__`: published files list attention and feed-forward apart.
    """
    listed = keys.layer_kinds(n_listed, (*[_SLIDING] * 3, _FULL), _MLP)
    sublayers = 2 if _MLP in listed else 1
    kinds = listed[::sublayers]
    if sublayers == 2 and (n_listed % 2 or _MLP in kinds or {*listed[1::2]} != {_MLP}):
        keys.refuse("layer_types", "attention and mlp by turns")
    before, behind = (
        _dory_layers(keys, key, n_listed) // sublayers
        for key in ("n_input_layers", "n_output_layers")
    )
    n_loops = keys.positive_int("n_recurrent_loops", maximum=_MAX_LOOPS)
    if before + behind > len(kinds):
        keys.refuse("n_output_layers", f"layers of which all {len(kinds)} have room")
    middle = len(kinds) - before - behind
    if keys.has("n_recurrent_layers") and _dory_layers(keys, "n_recurrent_layers", n_listed) != (
        sublayers * middle
    ):
        keys.refuse("n_recurrent_layers", f"the other layers ({sublayers * middle})")
    modes = ("per_loop", "last_loop")
    mode = keys.text("recurrent_kv_cache_mode", allowed=modes, default="per_loop")
    once = [_Visit(layer, kind == _SLIDING) for layer, kind in enumerate(kinds)]
    loops = [
        replace(visit, again=loop > 0, reads=mode == "last_loop" and loop < n_loops - 1)
        for loop in range(n_loops)
        for visit in once[before : before + middle]
    ]
    return [*once[:before], *loops, *once[before + middle :]], sublayers


def _dory_layers(keys: Reader, key: str, n_listed: int) -> int:
    return keys.positive_int(key, minimum=0, maximum=min(n_listed, MAX_LAYERS))
