"""Gemma 3n: four residual streams, a low-rank branch, embeddings per layer, shared caches.

Source
    transformers 5.23, `models/gemma3n/modeling_gemma3n.py` and `configuration_gemma3n.py`.
    Activation sparsity sets elements to zero and spares no arithmetic.
"""

from dataclasses import dataclass, replace

from specroof.architecture import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    Architecture,
    AttentionShape,
    Block,
    Linear,
)
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    extended,
    feed_forward_block,
    head_counts,
    matrices,
    read_attention,
    sliding_layers,
)
from specroof.parsers.families.gemma4 import per_layer_linears, shared_cache_block, shared_layers
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import Reader


@dataclass(frozen=True, slots=True)
class _AltUpStreams:
    """Sizes of what runs beside attention and feed-forward.

    Parameters
    ----------
    hidden_size
        Width of one residual stream.
    n_streams
        Residual streams, of which layers compute one and predict the others (AltUp).
    rank
        Of the branch beside attention (LAuReL).
    per_layer_dim
        Width of the embedding that each layer has of a token.
    """

    hidden_size: int
    n_streams: int
    rank: int
    per_layer_dim: int


def parse_gemma3n(config: ModelConfig) -> Architecture:
    """Return the language model of a Gemma 3n."""
    keys, n_layers = config.keys, config.n_layers
    keys.pass_over(
        "activation_sparsity_pattern altup_active_idx altup_coef_clip altup_correct_scale"
    )
    # configuration_gemma3n.py: head_dim 256, num_attention_heads 8, num_key_value_heads 2,
    # attention_bias False, sliding_window 512, num_kv_shared_layers 15, altup_num_inputs 4,
    # laurel_rank 64, hidden_size_per_layer_input 256, vocab_size_per_layer_input 262144,
    # vocab_size 262400.
    head_dim = keys.positive_int("head_dim", default=256)
    heads = head_counts(keys, heads_default=8, kv_default=2)
    shape = replace(read_attention(keys, head_dim, heads=heads, biased=True), qk_norm=True)
    # Every fifth layer attends fully.
    usual = [(index + 1) % 5 != 0 for index in range(n_layers)]
    slides = sliding_layers(keys, n_layers) or usual
    window = keys.positive_int("sliding_window", default=512)
    windows = [window if is_sliding else None for is_sliding in slides]
    shared = shared_layers(keys, slides, default=15)
    streams = _AltUpStreams(
        config.hidden_size,
        keys.positive_int("altup_num_inputs", default=4),
        keys.positive_int("laurel_rank", default=64),
        keys.positive_int("hidden_size_per_layer_input", default=256),
    )
    per_layer_vocab = keys.positive_int("vocab_size_per_layer_input", default=262_144)
    # The first layer makes the streams from the embedding, behind the last one they are joined.
    n_projections = [(index == 0) + (index == n_layers - 1) for index in range(n_layers)]

    def attention(kind: tuple[int | None, bool], weights: LayerWeights) -> Block:
        return _attention_block(replace(shape, window=kind[0]), streams, weights, shares=kind[1])

    def feed_forward(kind: tuple[int, int], weights: LayerWeights) -> Block:
        return _feed_forward_block(kind[0], streams, weights, n_projections=kind[1])

    return decoder(
        config,
        LayerPart(list(zip(windows, shared, strict=True)), attention),
        LayerPart(list(zip(_widths(keys, n_layers), n_projections, strict=True)), feed_forward),
        tied_default=True,
        vocab_default=262_400,
        # the last norm, and the one of all embeddings per layer
        vector_params=config.hidden_size + streams.per_layer_dim,
        lookup_params=per_layer_vocab * n_layers * streams.per_layer_dim,
    )


def _widths(keys: Reader, n_layers: int) -> list[int]:
    """Return the inner width of each layer's feed-forward, which a list or one number says."""
    if not isinstance(keys.values.get("intermediate_size"), list):
        return [keys.positive_int("intermediate_size")] * n_layers
    widths = keys.ints("intermediate_size", minimum=1, at_least=n_layers)
    return list(widths[:n_layers])


def _attention_block(
    shape: AttentionShape, streams: _AltUpStreams, weights: LayerWeights, *, shares: bool
) -> Block:
    """Return attention with what stands around it: the mixing of streams, the low-rank branch.

    Vectors: a second norm, the norm of the branch, and of the streams the norm of their router
    and the scale of the corrected one.
    """
    block = attention_block(shape, weights)
    if shares:
        block = shared_cache_block(shape, block)
    size, n_streams = streams.hidden_size, streams.n_streams
    mixing = tuple(
        Linear(name, taken, made, weights.plain, ATTENTION_REPLICATED, kind="residual")
        for name, taken, made in (
            # once for the prediction, once for the correction
            ("altup.modality_router", size, n_streams),
            ("altup.prediction_coefs", n_streams, n_streams**2),
            ("altup.correction_coefs", n_streams, n_streams),
        )
    )
    branch = matrices(
        weights,
        "laurel.",
        ATTENTION_REPLICATED,
        ("linear_left", size, streams.rank),
        ("linear_right", streams.rank, size),
    )
    # Attention's last matrix stays last: the exchange between devices belongs to it.
    block = replace(block, linears=(*mixing, *branch, *block.linears))
    return extended(block, n_params=4 * size)


def _feed_forward_block(
    width: int, streams: _AltUpStreams, weights: LayerWeights, *, n_projections: int
) -> Block:
    """Return the feed-forward with the embedding of the layer; vectors: a norm behind each."""
    size = streams.hidden_size
    block = feed_forward_block(size, width, weights)
    outer = tuple(
        Linear(f"altup_projections.{index}", size, size, weights.plain, FEED_FORWARD_REPLICATED)
        for index in range(n_projections * (streams.n_streams - 1))
    )
    linears = (*outer, *per_layer_linears(size, streams.per_layer_dim, weights), *block.linears)
    return extended(replace(block, linears=linears), n_params=2 * size)
