"""Gemma 4 and 3n: two shapes of attention, shared caches, embeddings per layer, experts.

Source
    transformers 5, `models/gemma4/` and `models/gemma4_unified/` (`modeling_*.py`,
    `configuration_*.py`), and the names of the published checkpoints.
"""

from collections.abc import Sequence
from dataclasses import replace

from specroof.architecture.base import ATTENTION_REPLICATED, FEED_FORWARD_REPLICATED, Linear
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.parsers.decoder import ExpertsShape, LayerPart, LayerWeights, ModelConfig
from specroof.reading.json_text import MAX_LAYERS, Reader


def parse_gemma4(config: ModelConfig) -> Architecture:
    """Return a Gemma 4."""
    # configuration_gemma4.py: sliding_window 512, hidden_size_per_layer_input 256,
    # vocab_size_per_layer_input 262144, enable_moe_block False.
    keys = config.keys
    per_layer_dim = keys.positive_int("hidden_size_per_layer_input", minimum=0, default=256)
    per_layer_vocab = keys.positive_int("vocab_size_per_layer_input", default=262_144)
    experts = None
    if keys.flag("enable_moe_block", default=False):
        experts = config.routed_experts()
    return _gemma4(config, experts, per_layer_dim, per_layer_vocab, window_default=512)


def parse_gemma4_unified(config: ModelConfig) -> Architecture:
    """Return a Gemma 4 whose pictures and sounds need no tower; it has no experts."""
    # configuration_gemma4_unified.py: sliding_window 1024; knows no embeddings per layer.
    return _gemma4(config, None, 0, 0, window_default=1024)


def _gemma4(
    config: ModelConfig,
    experts: ExpertsShape | None,
    per_layer_dim: int,
    per_layer_vocab: int,
    *,
    window_default: int,
) -> Architecture:
    """Return a Gemma 4 with embeddings of some width for each layer; 0 where there are none.

    Where values are the projected keys there is no v_proj in full layers. Keys are then rotated
    and values are not, so that both are cached all the same.
    """
    keys, size = config.keys, config.hidden_size
    width = keys.positive_int("intermediate_size")
    wide = 2 * width if keys.flag("use_double_wide_mlp", default=False) else width
    if keys.has("use_bidirectional_attention"):
        keys.text("use_bidirectional_attention", allowed=("vision",))  # "all" is not a decoder
    # `Gemma4TextConfig`: every sixth layer is full by default, and the last one always.
    usual = [(index + 1) % 6 != 0 for index in range(config.n_layers)]
    slides = [*(keys.sliding_layers(config.n_layers) or usual)[:-1], False]
    shared = shared_layers(keys, slides)
    keys_are_values = keys.flag("attention_k_eq_v", default=False)
    shapes = _attentions(config, slides, window_default, keys_are_values=keys_are_values)
    shapes = _sharing(shapes, shared)

    def attention(shape: AttentionShape, weights: LayerWeights) -> Block:
        # a second norm stands behind it
        block = weights.attention(shape).extended(n_params=size)
        return block.without("v_proj") if keys_are_values and shape.window is None else block

    def feed_forward(width: int, weights: LayerWeights) -> Block:
        """Return the dense feed-forward with what runs beside and after it, as one block.

        Vectors: a norm before and after, and the layer's scalar; beside experts, three more norms,
        the router's scale, and one of each expert; after the embedding of the layer, one more norm.
        """
        block = weights.feed_forward(size, width).extended(n_params=size + 1)
        if experts is not None:
            routed = weights.experts(experts, config.routing.names)
            vectors = 4 * size + experts.n_experts
            block = replace(block, core=routed.core).extended(*routed.linears, n_params=vectors)
        if per_layer_dim:
            # First, since the exchange between devices belongs to the last matrix of a block.
            first = per_layer_linears(size, per_layer_dim, weights)
            block = replace(block, linears=(*first, *block.linears)).extended(n_params=size)
        return block

    return config.decoder(
        LayerPart(shapes, attention),
        LayerPart([wide if shares else width for shares in shared], feed_forward),
        # the last norm, and the one of all embeddings per layer
        vector_params=size + per_layer_dim,
        lookup_params=per_layer_vocab * config.n_layers * per_layer_dim,
    )


def shared_layers(keys: Reader, slides: Sequence[bool], *, default: int = 0) -> list[bool]:
    """Return whether each layer reads another layer's cache.

    Source
        `Gemma4TextConfig` and `Gemma3nTextConfig`, ``kv_sharing_modes``: the last
        ``num_kv_shared_layers`` read the cache of the last layer of their kind before them, which
        must be there.
    """
    n_shared = keys.positive_int(
        "num_kv_shared_layers", minimum=0, maximum=MAX_LAYERS, default=default
    )
    first_shared = len(slides) - n_shared
    if first_shared <= 0 or set(slides[:first_shared]) != set(slides):
        allowed = "a number that leaves a layer of each kind with a cache"
        keys.refuse("num_kv_shared_layers", allowed)
    return [index >= first_shared for index in range(len(slides))]


def _sharing(shapes: Sequence[AttentionShape], shared: Sequence[bool]) -> list[AttentionShape]:
    return [
        replace(shape, shares_cache=shares) for shape, shares in zip(shapes, shared, strict=True)
    ]


def _attentions(
    config: ModelConfig, slides: Sequence[bool], window_default: int, *, keys_are_values: bool
) -> list[AttentionShape]:
    """Return the attention of each layer, given whether it slides.

    Source
        `Gemma4TextConfig`: head_dim 256, attention_k_eq_v and attention_bias False. Files that
        transformers 5.23 has saved say by ``per_layer_config`` which layers have heads of another
        width or number, and the keys that say so of full layers are then without meaning.
    """
    keys = config.keys
    head_dim = keys.positive_int("head_dim", default=256)
    usual = replace(config.read_attention(head_dim, biased=True), qk_norm=True)
    window = keys.positive_int("sliding_window", default=window_default)
    layers = keys.layer_overrides(len(slides), ("head_dim", "num_key_value_heads"))
    if layers is None:
        # `Gemma4TextConfig.__post_init__`: global_head_dim 512; num_global_key_value_heads counts
        # where keys are values, and is num_key_value_heads by default.
        n_kv_heads = usual.n_kv_heads
        if keys_are_values:
            n_kv_heads = _kv_heads(keys, "num_global_key_value_heads", usual)
        head_dim = keys.optional_int("global_head_dim", missing=512) or usual.head_dim
        full = replace(usual, n_kv_heads=n_kv_heads, head_dim=head_dim)
        shapes = [usual if is_sliding else full for is_sliding in slides]
    else:
        shapes = [
            replace(
                usual,
                n_kv_heads=_kv_heads(layer, "num_key_value_heads", usual),
                head_dim=layer.positive_int("head_dim", default=usual.head_dim),
            )
            for layer in layers
        ]
    return [
        replace(shape, window=window if is_sliding else None)
        for shape, is_sliding in zip(shapes, slides, strict=True)
    ]


def _kv_heads(keys: Reader, key: str, usual: AttentionShape) -> int:
    called, default = "num_attention_heads", usual.n_kv_heads
    return keys.divisor(key, of=usual.n_heads, called=called, default=default)


def per_layer_linears(hidden_size: int, dim: int, weights: LayerWeights) -> tuple[Linear, ...]:
    """Return the matrices around a layer's own embedding of the token.

    The model projects its first hidden state once for all layers; each layer has its share here:
    the same weights and the same arithmetic.
    """
    return weights.matrices(
        "",
        FEED_FORWARD_REPLICATED,
        ("per_layer_model_projection", hidden_size, dim),
        ("per_layer_input_gate", hidden_size, dim),
        ("per_layer_projection", dim, hidden_size),
    )


# --- Gemma 3n -------------------------------------------------------------------------------------
# Four residual streams, a low-rank branch, embeddings per layer, shared caches.
#
# Source
#     transformers 5.23, `models/gemma3n/modeling_gemma3n.py` and `configuration_gemma3n.py`.
#     Activation sparsity sets elements to zero and spares no arithmetic.


def parse_gemma3n(config: ModelConfig) -> Architecture:
    """Return the language model of a Gemma 3n."""
    keys, n_layers, size = config.keys, config.n_layers, config.hidden_size
    # configuration_gemma3n.py: head_dim 256, num_attention_heads 8, num_key_value_heads 2,
    # attention_bias False, sliding_window 512, num_kv_shared_layers 15, altup_num_inputs 4,
    # laurel_rank 64, hidden_size_per_layer_input 256, vocab_size_per_layer_input 262144.
    head_dim = keys.positive_int("head_dim", default=256)
    heads = config.head_counts(heads_default=8, kv_default=2)
    shape = replace(config.read_attention(head_dim, heads=heads, biased=True), qk_norm=True)
    # Every fifth layer attends fully.
    usual = [(index + 1) % 5 != 0 for index in range(n_layers)]
    slides = keys.sliding_layers(n_layers) or usual
    window = keys.positive_int("sliding_window", default=512)
    shapes = [replace(shape, window=window if is_sliding else None) for is_sliding in slides]
    shapes = _sharing(shapes, shared_layers(keys, slides, default=15))
    # Of the residual streams layers compute one and predict the others (AltUp); a branch of low
    # rank stands beside attention (LAuReL).
    n_streams = keys.positive_int("altup_num_inputs", default=4)
    rank = keys.positive_int("laurel_rank", default=64)
    per_layer_dim = keys.positive_int("hidden_size_per_layer_input", default=256)
    per_layer_vocab = keys.positive_int("vocab_size_per_layer_input", default=262_144)
    # The first layer makes the streams from the embedding, behind the last one they are joined.
    n_projections = [(index == 0) + (index == n_layers - 1) for index in range(n_layers)]

    def attention(shape: AttentionShape, weights: LayerWeights) -> Block:
        block = weights.attention(shape)
        mixing = tuple(
            Linear(name, taken, made, weights.plain, ATTENTION_REPLICATED, kind="mixing")
            for name, taken, made in (
                # once for the prediction, once for the correction
                ("altup.modality_router", size, n_streams),
                ("altup.prediction_coefs", n_streams, n_streams**2),
                ("altup.correction_coefs", n_streams, n_streams),
            )
        )
        rows = ("linear_left", size, rank), ("linear_right", rank, size)
        branch = weights.matrices("laurel.", ATTENTION_REPLICATED, *rows)
        # Attention's last matrix stays last: the exchange between devices belongs to it.
        block = replace(block, linears=(*mixing, *branch, *block.linears))
        # A second norm, the norm of the branch, and of the streams the norm of their router and
        # the scale of the corrected one.
        return block.extended(n_params=4 * size)

    def feed_forward(kind: tuple[int, int], weights: LayerWeights) -> Block:
        width, n_projections = kind
        block = weights.feed_forward(size, width)
        outer = tuple(
            Linear(f"altup_projections.{index}", size, size, weights.plain, FEED_FORWARD_REPLICATED)
            for index in range(n_projections * (n_streams - 1))
        )
        own = per_layer_linears(size, per_layer_dim, weights)
        # a norm behind each
        return replace(block, linears=(*outer, *own, *block.linears)).extended(n_params=2 * size)

    return config.decoder(
        LayerPart(shapes, attention),
        LayerPart([*zip(_widths(keys, n_layers), n_projections, strict=True)], feed_forward),
        # the last norm, and the one of all embeddings per layer
        vector_params=size + per_layer_dim,
        lookup_params=per_layer_vocab * n_layers * per_layer_dim,
    )


def _widths(keys: Reader, n_layers: int) -> list[int]:
    """Return the inner width of each layer's feed-forward, which a list or one number says."""
    if not isinstance(keys.values.get("intermediate_size"), list):
        return [keys.positive_int("intermediate_size")] * n_layers
    widths = keys.ints("intermediate_size", minimum=1, at_least=n_layers)
    return list(widths[:n_layers])
