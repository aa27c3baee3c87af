"""The model of a row of `TRAITS`: grouped queries, feed-forwards or experts, norms around them."""

from collections.abc import Sequence
from dataclasses import replace

from specroof.architecture import HEADS, TENSOR, Architecture, AttentionShape, Block
from specroof.parsers.decoder import (
    SAVED_EXPERTS_KEYS,
    ExpertsShape,
    LayerPart,
    attention_block,
    decoder,
    experts_block,
    extended,
    feed_forward_block,
    head_counts,
    listed_experts,
    matrices,
    sliding_layers,
    split_head_dim,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import TRAITS, ExpertTraits, Flag, Number, Traits, Windows
from specroof.reading.json_text import MAX_LAYERS, Reader


def decoder_of(config: ModelConfig, traits: Traits | None = None) -> Architecture:
    """Return the model of a config whose family has these traits, or its row of `TRAITS`."""
    traits = traits or TRAITS[config.family]
    keys = replace(config.keys, spelled=traits.spelled)
    config = replace(config, keys=keys)
    hidden_size, n_layers, routing = config.hidden_size, config.n_layers, traits.routing
    keys.pass_over(traits.passed_over)
    for key in traits.refused:
        if keys.flag(key, default=False):
            keys.refuse(key, "false")
    shape = _attention_shape(keys, traits)
    parallel = _holds(keys, traits.parallel)
    norms = 2 if _holds(keys, traits.more_norms) else traits.norms
    norm_params = norms * traits.norm_vectors * hidden_size
    head_norms = 2 * (traits.norm_vectors - 1) * shape.head_dim if shape.qk_norm else 0
    if traits.norm_span == "heads" and _holds(keys, traits.qk_norm):
        head_norms = (shape.n_heads + shape.n_kv_heads) * shape.head_dim
    gate = (traits.output_gate, hidden_size, shape.n_heads * shape.head_dim)
    gates = (gate,) if traits.output_gate else ()
    inner = shape.n_heads * shape.head_dim if traits.inner_norms else 0

    def attention(window: int | None, weights: LayerWeights) -> Block:
        block = attention_block(replace(shape, window=window), weights)
        gating = matrices(weights, "self_attn.", HEADS, *gates)
        more = norm_params - hidden_size + head_norms + inner
        return replace(extended(block, *gating, n_params=more), joins_next=parallel)

    sparse = expert_layers(config, routing) if routing else [False] * n_layers
    experts = routed_experts(config, routing) if routing and any(sparse) else None
    width = 0 if all(sparse) else _width(keys, hidden_size, traits)
    mlp_bias = _holds(keys, traits.mlp_bias)
    dense_params = traits.activation_params + (width if traits.inner_norms else 0)
    norms_before = 0 if parallel and traits.one_norm else norm_params

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        if is_sparse and experts and routing:
            block = experts_block(experts, weights, routing.names)
        elif traits.gated:
            module = routing.names.dense if routing else "mlp"
            block = feed_forward_block(hidden_size, width, weights, bias=mlp_bias, module=module)
        else:
            rows = ("up_proj", hidden_size, width), ("down_proj", width, hidden_size)
            linears = matrices(weights, "mlp.", TENSOR, *rows, bias=mlp_bias)
            block = Block("feed_forward", linears, vector_params=hidden_size)
        more = norms_before - hidden_size + (0 if is_sparse else dense_params)
        return extended(block, n_params=more)

    positions = _number(keys, traits.positions, maximum=2**31) + traits.first_position
    embedding_norms = 2 if traits.embedding_norm else 1
    model = decoder(
        config,
        LayerPart(_windows(keys, n_layers, traits.windows, sparse), attention),
        LayerPart(sparse, feed_forward),
        tied_default=traits.tied,
        vocab_default=traits.vocab_size,
        vector_params=embedding_norms * traits.norm_vectors * hidden_size,
        lookup_params=positions * hidden_size,
    )
    return replace(model, head=replace(model.head, bias=_holds(keys, traits.head_bias)))


def _holds(keys: Reader, flag: Flag) -> bool:
    """Return what a family has always, or as the first of some keys says."""
    if isinstance(flag, bool):
        return flag
    *names, holds = flag
    for name in reversed(names):
        holds = keys.flag(str(name), default=bool(holds))
    return bool(holds)


def _number(keys: Reader, number: Number, *, maximum: int = MAX_LAYERS) -> int:
    key, default = number
    if key:
        return keys.positive_int(key, minimum=0, maximum=maximum, default=default)
    return default or 0


def _attention_shape(keys: Reader, traits: Traits) -> AttentionShape:
    n_heads = keys.positive_int("num_attention_heads", default=traits.heads)
    kv_heads = traits.kv_heads
    if kv_heads == "all":
        heads = n_heads, n_heads
    elif kv_heads == "multi_query":
        heads = n_heads, 1 if keys.flag("multi_query", default=True) else n_heads
    else:
        kv_default = n_heads if kv_heads == "heads" else kv_heads
        heads = head_counts(keys, heads_default=traits.heads, kv_default=kv_default)
    return AttentionShape(
        keys.positive_int("hidden_size"),
        *heads,
        _head_dim(keys, heads[0], traits),
        qkv_bias=_holds(keys, traits.qkv_bias),
        out_bias=_holds(keys, traits.out_bias),
        qk_norm=traits.norm_span == "head" and _holds(keys, traits.qk_norm),
        sinks=traits.sinks,
    )


def _head_dim(keys: Reader, n_heads: int, traits: Traits) -> int:
    """Return the width of a head; null is the heads' share of the hidden size."""
    if not traits.head_dim_keys:
        hidden_size = keys.positive_int("hidden_size")
        return hidden_size // keys.divisor(
            "num_attention_heads", of=hidden_size, called="hidden_size", default=n_heads
        )
    if traits.states_head_dim:
        return keys.positive_int(*traits.head_dim_keys)
    return keys.optional_int("head_dim", missing=traits.head_dim) or split_head_dim(keys)


def _width(keys: Reader, hidden_size: int, traits: Traits) -> int:
    """Return the inner width of a dense feed-forward."""
    key, factor = traits.width
    if not key and factor:
        return factor * hidden_size
    names = traits.routing.dense_width if traits.routing else (key,)
    return keys.positive_int(*names, default=factor and factor * hidden_size)


def expert_layers(config: ModelConfig, routing: ExpertTraits) -> list[bool]:
    """Return which layers have experts.

    Source
        transformers 5.23: `Qwen3MoeDecoderLayer.__init__` for lists of layers without and every
        how many-th has some; `DeepseekV3DecoderLayer` for the first few; `Ernie4_5_MoeConfig` for
        those from one to another.
    """
    keys, n_layers = config.keys, config.n_layers
    if routing.listed and (listed := listed_experts(keys, n_layers)):
        keys.pass_over(routing.dense[0])
        return listed
    if routing.span is not None:
        start, end, interval = routing.span
        first = keys.positive_int(start, minimum=0, maximum=MAX_LAYERS, default=1)
        last = keys.positive_int(end, minimum=-1, maximum=MAX_LAYERS, default=-1)
        every = keys.positive_int(interval, default=1)
        stop = n_layers if last == -1 else last + 1
        return [first <= index < stop and (index + 1) % every == 0 for index in range(n_layers)]
    without = frozenset(
        keys.ints(routing.named)
        if routing.named and keys.has(routing.named)
        else range(_number(keys, routing.dense))
    )
    every = keys.positive_int(routing.every, default=1) if routing.every else 1
    return [index not in without and (index + 1) % every == 0 for index in range(n_layers)]


def routed_experts(config: ModelConfig, routing: ExpertTraits) -> ExpertsShape:
    """Return the sizes of experts; all shared ones of a layer are one wide expert."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    experts = routing.experts
    if experts not in keys.values:
        experts = next((key for key in SAVED_EXPERTS_KEYS if keys.has(key)), experts)
    n_experts = keys.positive_int(experts)
    top_k = _of_all_layers(keys, n_layers, *routing.top_k, maximum=n_experts)
    width = _of_all_layers(keys, n_layers, *routing.width)
    key, default = routing.shared
    n_shared = _of_all_layers(keys, n_layers, key, minimum=0, default=default) if key else 0
    shared_key, shared_default = routing.shared_width
    # Ling's shared experts may have a width of their own.
    shared = n_shared and n_shared * keys.positive_int(
        "moe_shared_expert_intermediate_size", default=width
    )
    if shared_key:
        shared = keys.positive_int(
            shared_key, minimum=shared_default is None, default=shared_default
        )
    return ExpertsShape(
        hidden_size,
        n_experts,
        top_k,
        width,
        shared_width=shared,
        shared_gate=routing.shared_gate,
        correction_bias=_holds(keys, routing.correction_bias),
        biases=routing.biases,
    )


def _of_all_layers(
    keys: Reader,
    n_layers: int,
    *names: str,
    minimum: int = 1,
    maximum: int = 2**24,
    default: int | None = None,
) -> int:
    """Return a number that all layers have, stated once or in a list with one of each (Hunyuan)."""
    key = next((name for name in names if keys.has(name)), names[0])
    if not isinstance(keys.values.get(key), list):
        return keys.positive_int(*names, minimum=minimum, maximum=maximum, default=default)
    numbers = set(keys.ints(key, minimum=minimum, at_least=n_layers)[:n_layers])
    if len(numbers) > 1:
        keys.refuse(key, "the same number for all layers")
    number = numbers.pop()
    if number > maximum:
        keys.refuse(key, f"up to the {maximum} experts")
    return number


def _windows(
    keys: Reader, n_layers: int, windows: Windows | None, sparse: Sequence[bool]
) -> list[int | None]:
    """Return each layer's window."""
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
    begins, dense_stride = 0, 1
    if windows.dense_stride_key:
        begins = [*sparse, True].index(True)
        dense_stride = keys.positive_int(windows.dense_stride_key, default=1)

    def slides(index: int) -> bool:
        if index < begins:
            return (index + 1) % dense_stride != 0
        attends_fully = full_every and (index - begins - first_full) % full_every == 0
        return since <= index < until and not attends_fully

    listed = sliding_layers(keys, n_layers) if windows.listed else None
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
