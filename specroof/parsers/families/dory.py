"""Dory: layers in the middle run several times over, each time with a cache of their own.

Source
    transformers 5.24, `models/dory/modeling_dory.py` and `configuration_dory.py`; vLLM 0.33.0,
    `models/dory.py`, which reads the weights of a layer in each loop, too.
"""

from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture.attention import GroupedQueryAttention, SharedCacheAttention
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    attention_of,
    decoder,
    extended,
    feed_forward_block,
    layer_kinds,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import Traits
from specroof.reading.json_text import MAX_LAYERS, Reader

_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"
_MLP: Final = "mlp"
_BIAS: Final = ("attention_bias", False)
# configuration_dory.py: head_dim 256. No norm has elements; the rate of a sublayer has as many as
# one.
_TRAITS: Final = Traits(
    head_dim=256, kv_heads=None, qkv_bias=_BIAS, out_bias=_BIAS, output_gate="gate_proj"
)
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
    keys.pass_over("ngpt_alpha_init attention_output_gate_logit_scale_init")
    usual, plain = attention_of(config, _TRAITS)
    width = keys.positive_int("intermediate_size")
    mlp_bias = keys.flag("mlp_bias", default=False)
    visits, sublayers = _visits(keys, config.n_layers)
    window = keys.positive_int("sliding_window") if any(one.slides for one in visits) else None

    def attention(visit: _Visit, _: LayerWeights) -> Block:
        weights = LayerWeights(config.quantization, sublayers * visit.layer)
        shape = replace(usual, window=window if visit.slides else None)
        # scales of queries and of the gate
        scales = 2 * shape.n_heads * shape.head_dim
        block = replace(extended(plain(shape, weights), n_params=scales), stored=not visit.again)
        if visit.reads and isinstance(block.core, GroupedQueryAttention):
            return replace(block, core=SharedCacheAttention(block.core))
        return block

    def feed_forward(visit: _Visit, _: LayerWeights) -> Block:
        weights = LayerWeights(config.quantization, sublayers * (visit.layer + 1) - 1)
        block = feed_forward_block(hidden_size, width, weights, bias=mlp_bias)
        return replace(extended(block, n_params=2 * width), stored=not visit.again)

    n_again = sum(visit.again for visit in visits)
    notes = (f"layers that run again are counted as {n_again} more, stored once",)
    return decoder(
        config,
        LayerPart(visits, attention),
        LayerPart(visits, feed_forward),
        vector_params=keys.positive_int("vocab_size"),  # a scale of each logit
        notes=notes if n_again else (),
    )


def _visits(keys: Reader, n_listed: int) -> tuple[list[_Visit], int]:
    """Return every layer in the order in which they run, and how many entries of the list each has.

    Source
        `DoryConfig.__post_init__`: published files list attention and feed-forward apart.
    """
    listed = layer_kinds(keys, n_listed, (*[_SLIDING] * 3, _FULL), _MLP)
    sublayers = 2 if _MLP in listed else 1
    kinds = listed[::sublayers]
    if sublayers == 2 and (n_listed % 2 or _MLP in kinds or {*listed[1::2]} != {_MLP}):
        keys.refuse("layer_types", "attention and mlp by turns")
    before, behind = (
        _layers(keys, key, n_listed) // sublayers for key in ("n_input_layers", "n_output_layers")
    )
    n_loops = keys.positive_int("n_recurrent_loops", maximum=_MAX_LOOPS)
    if before + behind > len(kinds):
        keys.refuse("n_output_layers", f"layers of which all {len(kinds)} have room")
    middle = len(kinds) - before - behind
    if keys.has("n_recurrent_layers") and _layers(keys, "n_recurrent_layers", n_listed) != (
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


def _layers(keys: Reader, key: str, n_listed: int) -> int:
    return keys.positive_int(key, minimum=0, maximum=min(n_listed, MAX_LAYERS))
