"""Text models whose checkpoints hold layers or experts of images: Llama 3.2 Vision, ERNIE 4.5 VL.

Source
    transformers 5.24, `models/mllama/` and `models/ernie4_5_vl_moe/` (`modeling_*.py`,
    `configuration_*.py`); vLLM 0.33.0, `models/ernie45_vl_moe.py`, for the pairs of numbers, of
    text and of images, that published files have.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.base import TENSOR, Linear
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    ExpertsShape,
    LayerPart,
    attention_block,
    decoder,
    experts_block,
    extended,
    feed_forward_block,
    listed_kinds,
    read_attention,
    router,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import USUAL_NAMES
from specroof.reading.json_text import MAX_LAYERS, Reader

#: `MllamaTextModel.embed_tokens`: rows of the table beyond those of the head.
_MORE_ROWS: Final = 8


def parse_mllama(config: ModelConfig) -> Architecture:
    """Return the language model of a Llama 3.2 Vision, as it answers requests without images."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    keys.pass_over("dropout")
    crossing = frozenset(keys.ints("cross_attention_layers") or (3, 8, 13, 18, 23, 28, 33, 38))
    skipped = [index in crossing for index in range(n_layers)]
    shape = read_attention(keys)
    width = keys.positive_int("intermediate_size")

    def attention(is_skipped: bool, weights: LayerWeights) -> Block:
        if not is_skipped:
            return attention_block(shape, weights)
        block = attention_block(replace(shape, qk_norm=True), weights, module="cross_attn")
        # with the gates of both branches
        return _skipped(extended(replace(block, core=None), n_params=2))

    def feed_forward(is_skipped: bool, weights: LayerWeights) -> Block:
        block = feed_forward_block(hidden_size, width, weights)
        return _skipped(block) if is_skipped else block

    return decoder(
        config,
        LayerPart(skipped, attention),
        LayerPart(skipped, feed_forward),
        lookup_params=_MORE_ROWS * hidden_size,
        notes=["layers that attend to images are stored, and skipped as by requests of text alone"],
    )


def _skipped(block: Block) -> Block:
    return replace(block, linears=(), idle=block.linears)


def parse_ernie4_5_vl_moe(config: ModelConfig) -> Architecture:
    """Return an ERNIE 4.5 VL, as tokens of text pass it."""
    keys, hidden_size = config.keys, config.hidden_size
    keys.pass_over(
        "moe_norm_min moe_capacity moe_gate moe_use_aux_free use_moe freq_allocation "
        "compression_ratio rope_3d im_patch_id pixel_hidden_size modality_detach"
    )
    keys.expect_flags("use_bias", value=False)
    sparse = _sparse_layers(keys, config.n_layers)
    n_experts = _of_both(keys, "moe_num_experts", 64, minimum=1)
    width, image_width = _pair(keys, "moe_intermediate_size", (1536, 512), minimum=1)
    n_shared = keys.positive_int("moe_num_shared_experts", minimum=0, default=2)
    top_k = keys.positive_int("moe_k", maximum=n_experts, default=min(6, n_experts))
    experts = ExpertsShape(
        hidden_size, n_experts, top_k, width, shared_width=n_shared * width, correction_bias=True
    )
    dense_width = 0 if all(sparse) else keys.positive_int("intermediate_size")
    keys.pass_over("intermediate_size")

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        if not is_sparse:
            return feed_forward_block(hidden_size, dense_width, weights)
        images = Linear("image_experts", hidden_size, 3 * n_experts * image_width, shard=TENSOR)
        of_images = (
            # with the bias that only the selection sees
            router("image_router", hidden_size, n_experts, weights, bias=True),
            replace(images, weight=weights(USUAL_NAMES.routed)),
        )
        return replace(experts_block(experts, weights), idle=of_images)

    return decoder(
        config,
        LayerPart([read_attention(keys)] * config.n_layers, attention_block),
        LayerPart(sparse, feed_forward),
        tied_default=True,
        notes=["experts of images are stored, and no token of text visits them"],
    )


def _sparse_layers(keys: Reader, n_layers: int) -> list[bool]:
    """Return which layers have experts: by transformers' list, or from one to another."""
    bounds = ("moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval")
    if listed := listed_kinds(keys, "mlp_layer_types", ("dense", "sparse"), n_layers):
        keys.pass_over(" ".join(bounds))
        return [kind == "sparse" for kind in listed]
    first = _of_both(keys, bounds[0], 1)
    # ends beyond the last layer are the last
    ends = {min(end, n_layers - 1) for end in _pair(keys, bounds[1], (MAX_LAYERS, MAX_LAYERS))}
    if len(ends) > 1:
        keys.refuse(bounds[1], "the same layers for text and for images")
    last = ends.pop()
    every = keys.positive_int(bounds[2], default=1)
    return [first <= index <= last and (index + 1) % every == 0 for index in range(n_layers)]


def _pair(keys: Reader, key: str, default: tuple[int, int], *, minimum: int = 0) -> tuple[int, int]:
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


def _of_both(keys: Reader, key: str, default: int, *, minimum: int = 0) -> int:
    """Return a number that text and images share, as all published files have it."""
    text, images = _pair(keys, key, (default, default), minimum=minimum)
    if text != images:
        keys.refuse(key, "the same number for text and for images")
    return text
