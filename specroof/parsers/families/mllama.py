"""Llama 3.2 Vision: a Llama with layers that attend to images, which text alone skips.

Source
    transformers 5.24, `models/mllama/modeling_mllama.py` and `configuration_mllama.py`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    extended,
    feed_forward_block,
    read_attention,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig

NOTE: Final = "layers that attend to images are stored, and skipped as by requests of text alone"
#: `MllamaTextModel.embed_tokens`: rows of the table beyond those of the head.
_MORE_ROWS: Final = 8


def parse_mllama(config: ModelConfig) -> Architecture:
    """Return the language model, as it answers requests without images."""
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
        notes=[NOTE],
    )


def _skipped(block: Block) -> Block:
    return replace(block, linears=(), idle=block.linears)
