"""State spaces and gated recurrences: alone, with attention and experts, or between shared blocks.

Mamba 1 and 2, Jamba, Falcon-H1, Bamba, Granite 4, Nemotron-H, RecurrentGemma and Zamba.

Source
    Gu and Dao 2023, arXiv:2312.00752; Dao and Gu 2024, arXiv:2405.21060; transformers 5.24,
    `models/mamba/`, `models/falcon_mamba/`, `models/mamba2/`, `models/jamba/`, `models/bamba/`,
    `models/granitemoehybrid/`, `models/falcon_h1/` and `models/nemotron_h/` (`modeling_*.py`,
    `configuration_*.py`); Falcon-H1, Granite 4 and Nemotron in mlx-lm; the module names of the
    published quantisation lists.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    HEADS,
    TENSOR,
    Linear,
)
from specroof.architecture.experts import Experts
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.architecture.recurrent import Mamba2, SelectiveScan
from specroof.parsers.decoder import (
    BlockBuilder,
    ExpertsShape,
    LayerPart,
    LayerWeights,
    ModelConfig,
)
from specroof.parsers.model_config import DTYPES
from specroof.reading.json_text import MAX_LAYERS, Reader

# --- The mixers -----------------------------------------------------------------------------------


def read_mamba2(keys: Reader, head_dim: int, *, groups_default: int | None = 1) -> Mamba2:
    """Return the sizes of a Mamba 2 whose heads have a known width.

    Source
        `configuration_falcon_h1.py` and `configuration_granitemoehybrid.py` agree on these keys,
        and on mamba_n_groups 1, mamba_d_conv 4, mamba_conv_bias True.
    """
    n_heads = keys.positive_int("mamba_n_heads")
    kernel = keys.positive_int("mamba_d_conv", default=4)
    return Mamba2(
        n_heads,
        head_dim,
        keys.positive_int("mamba_d_state"),
        keys.divisor(
            "mamba_n_groups", of=n_heads, called="the Mamba heads", default=groups_default
        ),
        kernel,
        conv_columns=kernel - 1,
        conv_bias=keys.flag("mamba_conv_bias", default=True),
    )


def mamba2_builder(  # noqa: PLR0913 - what mixers differ in, by name
    hidden_size: int,
    core: Mamba2,
    *,
    in_bias: bool,
    out_bias: bool,
    gated_norm: bool = True,
    beside: bool = False,
    module: str = "mamba",
) -> BlockBuilder:
    """Return what builds a Mamba 2; one matrix makes gate, x, B, C and the step sizes.

    Vectors: A_log, D and dt_bias per head, and the norms.

    Parameters
    ----------
    hidden_size, core
        Width of the residual stream; heads, state and convolution.
    in_bias, out_bias
        Whether the projections have a bias.
    gated_norm
        Whether a norm of all channels stands behind it.
    beside
        Whether it runs beside the next block, behind one norm.
    module
        What the checkpoint calls the mixer inside a layer.
    """
    into = ("in_proj", hidden_size, core.inner_dim + core.sizes.convolved + core.n_heads)
    out = ("out_proj", core.inner_dim, hidden_size)
    vectors = 3 * core.n_heads
    vectors += (0 if beside else hidden_size) + (core.inner_dim if gated_norm else 0)
    return lambda weights: Block(
        "attention",
        (
            *weights.matrices(f"{module}.", HEADS, into, bias=in_bias),
            *weights.matrices(f"{module}.", HEADS, out, bias=out_bias),
        ),
        core,
        vector_params=vectors,
        joins_next=beside,
    )


def scan_builder(
    keys: Reader,
    hidden_size: int,
    channels: int,
    *,
    module: str = "mamba",
    normed: bool = False,
    heads: int = 1,
) -> BlockBuilder:
    """Return what builds a Mamba (1): gate and input, then what steps, B and C come from.

    Parameters
    ----------
    keys, hidden_size, channels
        The config, the width of the residual stream, and channels of the mixer.
    module
        What the checkpoint calls the mixer inside a layer.
    normed
        Whether step, B and C pass norms with elements.
    heads
        Heads that have matrices of their own for step, B and C (Zamba).
    """
    state = keys.positive_int("mamba_d_state", default=16)
    kernel = keys.positive_int("mamba_d_conv", default=4)
    rank = -(-hidden_size // 16)
    if keys.value("mamba_dt_rank") not in (None, "auto"):
        rank = keys.positive_int("mamba_dt_rank")
    bias = keys.flag("mamba_proj_bias", default=False)
    conv_bias = keys.flag("mamba_conv_bias", default=True)
    core = SelectiveScan(channels, state, kernel, kernel - 1, conv_bias=conv_bias)
    # A and D, and the norms
    vectors = hidden_size + channels * (state + 1) + (rank + 2 * state if normed else 0)

    def build(weights: LayerWeights) -> Block:
        def made(name: str, rows: int, columns: int, *, bias: bool, groups: int = 1) -> Linear:
            form = weights(f"{module}.{name}")
            return Linear(name, rows, columns, form, HEADS, groups=groups, bias=bias)

        linears = (
            made("in_proj", hidden_size, 2 * channels, bias=bias),
            made("x_proj", channels, heads * (rank + 2 * state), bias=False, groups=heads),
            made("dt_proj", heads * rank, channels, bias=True, groups=heads),
            made("out_proj", channels, hidden_size, bias=bias),
        )
        return Block("attention", linears, core, vector_params=vectors)

    return build


# --- Mamba, Falcon-Mamba, Mamba 2 and Jamba: alone, or beside attention and experts ---------------


def parse_mamba(config: ModelConfig) -> Architecture:
    """Return a Mamba or a Falcon-Mamba, whose norms of step, B and C have no elements."""
    keys, hidden_size = config.keys, config.hidden_size
    # what a file states beside it goes before: Falcon-Mamba states an expand of 16 that is not so
    expanded = keys.positive_int("mamba_expand", default=2) * hidden_size
    channels = keys.positive_int("intermediate_size", default=expanded)
    build = scan_builder(keys, hidden_size, channels, module="mixer")
    return config.decoder(config.same_part(build), state_dtype=None)


def parse_mamba2(config: ModelConfig) -> Architecture:
    """Return a Mamba 2."""
    keys, hidden_size = config.keys, config.hidden_size
    core = read_mamba2(keys, keys.positive_int("head_dim"), groups_default=None)
    if keys.positive_int("expand", default=2) * hidden_size != core.inner_dim:
        keys.refuse("expand", f"hidden_size times it is {core.inner_dim}, all heads")
    bias = keys.flag("use_bias", default=False)
    build = mamba2_builder(hidden_size, core, in_bias=bias, out_bias=bias, module="mixer")
    return config.decoder(config.same_part(build), state_dtype=None)


def parse_jamba(config: ModelConfig) -> Architecture:
    """Return a Jamba: attention every few layers, experts in every other."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    attends = _every(keys, "attn_layer_period", "attn_layer_offset", (8, 4), n_layers)
    n_experts = keys.positive_int("num_experts", "num_local_experts", default=16)
    sparse = _every(keys, "expert_layer_period", "expert_layer_offset", (2, 1), n_layers)
    width = keys.positive_int("intermediate_size")
    top_k = keys.positive_int("num_experts_per_tok", maximum=n_experts, default=min(2, n_experts))
    experts = ExpertsShape(hidden_size, n_experts, top_k, width)
    channels = keys.positive_int("mamba_expand", default=2) * hidden_size
    scan = scan_builder(keys, hidden_size, channels, normed=True)
    attention = config.read_attention()

    def mixer(is_attention: bool, weights: LayerWeights) -> Block:
        return weights.attention(attention) if is_attention else scan(weights)

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        if is_sparse and n_experts > 1:
            return weights.experts(experts, config.routing.names)
        return weights.feed_forward(hidden_size, width, module="feed_forward")

    return config.decoder(
        LayerPart(attends, mixer), LayerPart(sparse, feed_forward), state_dtype=None
    )


def _every(
    keys: Reader, period: str, offset: str, defaults: tuple[int, int], n_layers: int
) -> list[bool]:
    """Return which layers have something: every so many, from one on."""
    every = keys.positive_int(period, maximum=MAX_LAYERS, default=defaults[0])
    first = keys.positive_int(offset, minimum=0, maximum=MAX_LAYERS, default=defaults[1])
    if first >= every:
        keys.refuse(offset, f"a number below {period} ({every})")
    return [index % every == first for index in range(n_layers)]


# --- Falcon-H1, Bamba and Granite 4: Mamba 2 with attention ---------------------------------------


def parse_falcon_h1(config: ModelConfig) -> Architecture:
    """Return a Falcon-H1: the outputs of both mixers are summed before devices exchange them."""
    keys, hidden_size = config.keys, config.hidden_size
    feed_forward = config.feed_forwards()
    # configuration_falcon_h1.py: attention_bias, mamba_proj_bias, projectors_bias and
    # mamba_rms_norm False
    mamba = mamba2_builder(
        hidden_size,
        read_mamba2(keys, _head_dim(keys, hidden_size)),
        gated_norm=keys.flag("mamba_rms_norm", default=False),
        in_bias=keys.flag("mamba_proj_bias", default=False),
        out_bias=keys.flag("projectors_bias", default=False),
        beside=True,
    )
    attention = config.read_attention(biased=True)
    return config.decoder(
        config.same_part(mamba),
        config.same_part(lambda weights: weights.attention(attention)),
        feed_forward,
        state_dtype=None,
    )


def parse_bamba(config: ModelConfig) -> Architecture:
    """Return a Bamba; without a list of layers with attention, all are Mamba."""
    attends = frozenset(config.keys.ints("attn_layer_indices"))
    mixers = ["attention" if n in attends else "mamba" for n in range(config.n_layers)]
    mixer = config.kinds_part(mixers, _GRANITE_MIXERS)
    return config.decoder(mixer, config.feed_forwards(), state_dtype=None)


def parse_granitemoehybrid(config: ModelConfig) -> Architecture:
    """Return a Granite 4; `intermediate_size` is the width of an expert."""
    keys, n_layers = config.keys, config.n_layers
    key = next((key for key in ("layer_types", "layers_block_type") if keys.has(key)), None)
    # configuration_granitemoehybrid.py: all layers are Mamba
    mixers = ["mamba"] * n_layers
    if key is not None:
        mixers = [_KINDS[kind] for kind in keys.texts(key, allowed=_MIXERS, at_least=n_layers)]
    return config.decoder(
        config.kinds_part(mixers[:n_layers], _GRANITE_MIXERS),
        config.same_part(_granite_feed_forward(config)),
        state_dtype=None,
    )


def _head_dim(keys: Reader, hidden_size: int) -> int:
    """Return the width of a head, stated or the heads' share of all channels.

    The channels are `mamba_d_ssm` where it is given (Falcon-H1), not `mamba_expand` times the
    hidden size. Both classes: mamba_d_head "auto", mamba_expand 2.
    """
    n_heads = keys.positive_int("mamba_n_heads")
    if keys.value("mamba_d_head") not in (None, "auto"):
        head_dim = keys.positive_int("mamba_d_head")
        if keys.has("mamba_d_ssm") and keys.positive_int("mamba_d_ssm") != n_heads * head_dim:
            keys.refuse("mamba_d_ssm", f"mamba_n_heads times mamba_d_head ({n_heads * head_dim})")
        return head_dim
    expanded = keys.positive_int("mamba_expand", default=2) * hidden_size
    inner_dim = keys.positive_int("mamba_d_ssm", default=expanded)
    if inner_dim % n_heads:
        keys.refuse("mamba_n_heads", f"a divisor of the {inner_dim} Mamba channels")
    return inner_dim // n_heads


def _granite_mamba(config: ModelConfig) -> BlockBuilder:
    keys, hidden_size = config.keys, config.hidden_size
    core = read_mamba2(keys, _head_dim(keys, hidden_size))
    if keys.has("mamba_expand"):
        expanded = keys.positive_int("mamba_expand") * hidden_size
        if expanded != core.inner_dim:
            keys.refuse("mamba_expand", f"hidden_size times it is {core.inner_dim}, all heads")
    # configuration_granitemoehybrid.py: mamba_proj_bias False
    bias = keys.flag("mamba_proj_bias", default=False)
    return mamba2_builder(hidden_size, core, in_bias=bias, out_bias=bias)


def _granite_attention(config: ModelConfig) -> BlockBuilder:
    # configuration_granitemoehybrid.py: attention_bias False
    shape = config.read_attention(biased=True)
    return lambda weights: weights.attention(shape)


_GRANITE_MIXERS: Final[dict[str, Callable[[ModelConfig], BlockBuilder]]] = {
    "mamba": _granite_mamba,
    "attention": _granite_attention,
}


def _granite_feed_forward(config: ModelConfig) -> BlockBuilder:
    """Return the builder of experts with a shared one, or of the shared one where no others are."""
    keys, hidden_size = config.keys, config.hidden_size
    if keys.positive_int("num_local_experts", minimum=0):
        shape, names = config.routed_experts(), config.routing.names
        return lambda weights: weights.experts(shape, names)
    width = keys.positive_int("shared_intermediate_size")
    matrix_names = ("input_linear", "output_linear")
    return lambda weights: weights.feed_forward(
        hidden_size, width, module="shared_mlp", names=matrix_names
    )


# --- Nemotron-H and Nemotron 3: layers of one block each ------------------------------------------

#: Kinds of layers by every spelling: characters of `hybrid_override_pattern`, and entries of
#: `layers_block_type` before and after transformers 5.13 renamed them, of Granite, too.
_KINDS: Final = {
    **dict.fromkeys(("M", "mamba", "linear_attention"), "mamba"),
    **dict.fromkeys(("*", "attention", "full_attention"), "attention"),
    **dict.fromkeys(("-", "mlp"), "mlp"),
    **dict.fromkeys(("E", "moe"), "moe"),
}
_CHARACTERS: Final = tuple(spelling for spelling in _KINDS if len(spelling) == 1)
_TYPES: Final = tuple(spelling for spelling in _KINDS if len(spelling) > 1)
_MIXERS: Final = tuple(kind for kind in _TYPES if _KINDS[kind] in {"mamba", "attention"})


def parse_nemotron_h(config: ModelConfig) -> Architecture:
    """Return a Nemotron-H: a norm and one mixer a layer, nothing gated."""
    keys = config.keys
    # transformers: the list of layers, or else the pattern. Where `num_hidden_layers` contradicts
    # the list, engines disagree on which of the two counts.
    key = next((key for key in ("layers_block_type", "layer_types") if keys.has(key)), None)
    if key is None:
        key = "hybrid_override_pattern"
        spelled = tuple(keys.text(key))
        if not all(character in _CHARACTERS for character in spelled):
            keys.refuse(key, f"the characters {' '.join(_CHARACTERS)}, one a layer")
    else:
        spelled = keys.texts(key, allowed=_TYPES)
    n_layers = len(spelled)
    if not 1 <= n_layers <= MAX_LAYERS:
        keys.refuse(key, f"1 to {MAX_LAYERS} layers")
    if keys.positive_int("num_hidden_layers", default=n_layers) != n_layers:
        keys.refuse("num_hidden_layers", f"the {n_layers} layers of {key}")
    kinds = tuple(_KINDS[spelling] for spelling in spelled)
    # configuration_nemotron_h.py: mamba_ssm_cache_dtype float32
    state = keys.text("mamba_ssm_cache_dtype", allowed=DTYPES, default="float32")
    return config.decoder(config.kinds_part(kinds, _NEMOTRON_MIXERS), state_dtype=DTYPES[state])


def _nemotron_mamba(config: ModelConfig) -> BlockBuilder:
    keys = config.keys
    # configuration_nemotron_h.py: conv_kernel 4, use_conv_bias True, use_bias False
    core = read_mamba2(keys, keys.positive_int("mamba_head_dim"), groups_default=None)
    bias = keys.flag("use_bias", default=False)
    return mamba2_builder(config.hidden_size, core, in_bias=bias, out_bias=bias, module="mixer")


def _nemotron_attention(config: ModelConfig) -> BlockBuilder:
    keys = config.keys
    # configuration_nemotron_h.py: attention_bias False, head_dim 128; the first models call it
    # attention_head_dim.
    head_dim = keys.positive_int("head_dim", "attention_head_dim", default=128)
    shape = config.read_attention(head_dim, biased=True)
    return lambda weights: weights.attention(shape, module="mixer")


def _nemotron_mlp(config: ModelConfig) -> BlockBuilder:
    hidden_size, bias = config.hidden_size, _mlp_bias(config.keys)
    rows = _plain_mlp(hidden_size, config.keys.positive_int("intermediate_size"))
    return lambda weights: Block(
        "feed_forward",
        weights.matrices("mixer.", TENSOR, *rows, bias=bias),
        vector_params=hidden_size,
    )


def _nemotron_experts(config: ModelConfig) -> BlockBuilder:
    """Return the builder of expert layers; experts may work on a latent of the hidden state."""
    keys, hidden_size = config.keys, config.hidden_size
    latent = keys.optional_int("moe_latent_size")
    shape = config.routed_experts()
    # configuration_nemotron_h.py: n_shared_experts 1, as in every published config.
    n_shared = keys.positive_int("n_shared_experts", minimum=0, maximum=1, default=1)
    shared_width = keys.positive_int("moe_shared_expert_intermediate_size") if n_shared else 0
    bias = _mlp_bias(keys)

    def build(weights: LayerWeights) -> Block:
        linears = [weights.router("router", hidden_size, shape.n_experts)]
        if shared_width:
            rows = _plain_mlp(hidden_size, shared_width)
            shared = weights.matrices("mixer.shared_experts.", TENSOR, *rows, bias=bias)
            linears += (replace(linear, name=f"shared_{linear.name}") for linear in shared)
        if latent:
            # Every device runs the matrices to the experts' latent and back in full.
            down = ("fc1_latent_proj", hidden_size, latent)
            up = ("fc2_latent_proj", latent, hidden_size)
            shard = FEED_FORWARD_REPLICATED
            linears += weights.matrices("mixer.", shard, down, up, bias=bias)
        experts = Experts(
            shape.n_experts,
            shape.top_k,
            latent or hidden_size,
            shape.width,
            weight=weights("mixer.experts.0.up_proj"),
            n_matrices=2,
        )
        # The norm, and e_score_correction_bias.
        return Block("feed_forward", tuple(linears), experts, hidden_size + shape.n_experts)

    return build


def _mlp_bias(keys: Reader) -> bool:
    return keys.flag("mlp_bias", default=False)  # configuration_nemotron_h.py


def _plain_mlp(hidden_size: int, width: int) -> tuple[tuple[str, int, int], ...]:
    """Return the two matrices of a feed-forward without a gate (squared ReLU)."""
    return ("up_proj", hidden_size, width), ("down_proj", width, hidden_size)


_NEMOTRON_MIXERS: Final[dict[str, Callable[[ModelConfig], BlockBuilder]]] = {
    "mamba": _nemotron_mamba,
    "attention": _nemotron_attention,
    "mlp": _nemotron_mlp,
    "moe": _nemotron_experts,
}


# --- RecurrentGemma (Griffin): gated linear recurrences, every third layer attends to a window ----
#
# Source
#     De et al. 2024, arXiv:2402.19427, section 2; transformers 5.24,
#     `models/recurrent_gemma/modeling_recurrent_gemma.py` and `configuration_recurrent_gemma.py`.

_GRIFFIN_MODULE: Final = "temporal_block"


def parse_recurrent_gemma(config: ModelConfig) -> Architecture:
    """Return a RecurrentGemma; of `intermediate_size`, half is the width of its feed-forward."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    # a pattern that repeats
    spelled = keys.texts("block_types", allowed=("recurrent", "attention"))
    pattern = spelled or ("recurrent", "recurrent", "attention")
    attends = [pattern[index % len(pattern)] == "attention" for index in range(n_layers)]
    n_heads = keys.positive_int("num_attention_heads")
    shape = AttentionShape(
        hidden_size,
        *config.head_counts(kv_default=n_heads),
        hidden_size // keys.divisor("num_attention_heads", of=hidden_size, called="hidden_size"),
        qkv_bias=keys.flag("attention_bias", default=False),
        out_bias=True,
        window=keys.positive_int("attention_window_size", default=2048),
    )
    width = keys.positive_int("lru_width", default=hidden_size)
    if width % n_heads:
        keys.refuse("lru_width", f"a multiple of the {n_heads} heads")
    kernel = keys.positive_int("conv1d_width", default=4)
    core = SelectiveScan(width, 1, kernel, conv_columns=kernel - 1)
    inner = keys.positive_int("intermediate_size", minimum=2) // 2

    def mixer(is_attention: bool, weights: LayerWeights) -> Block:
        if is_attention:
            return weights.attention(shape, module=_GRIFFIN_MODULE)
        into = [(name, hidden_size, width) for name in ("linear_y", "linear_x")]
        linears = weights.matrices(f"{_GRIFFIN_MODULE}.", HEADS, *into, bias=True)
        # a matrix of each head makes each of both gates
        gates = (
            Linear(name, width, width, weights.plain, HEADS, groups=n_heads, bias=True)
            for name in ("input_gate", "recurrent_gate")
        )
        out = weights.matrices(
            f"{_GRIFFIN_MODULE}.", HEADS, ("linear_out", width, hidden_size), bias=True
        )
        # the norm before it, and a decay of each channel
        return Block("attention", (*linears, *gates, *out), core, hidden_size + width)

    def feed_forward(weights: LayerWeights) -> Block:
        return weights.feed_forward(hidden_size, inner, bias=True, module="mlp_block")

    return config.decoder(LayerPart(attends, mixer), config.same_part(feed_forward))


# --- Zamba: Mamba in every layer, before which some layers run one of a few shared blocks ---------
# A shared block takes the hidden state beside the embedding. Its weights are stored once and read
# in each of its layers; Zamba 2 gives each of these layers adapters of its own.
#
# Source
#     Glorioso et al. 2024, arXiv:2405.16712 and arXiv:2411.15242; transformers 5.24,
#     `models/zamba/` and `models/zamba2/` (`modeling_*.py`, `configuration_*.py`).

_ZAMBA_MIXERS: Final = ("hybrid", "linear_attention", "mamba")
_ZAMBA_MODULE: Final = "shared_transformer"


@dataclass(frozen=True, slots=True)
class _ZambaBlocks:
    """Sizes of shared blocks: of attention over twice the hidden size, and of feed-forwards.

    Each layer has adapters of some `rank` (0: none), for `adapted` projections of attention, too.
    """

    shape: AttentionShape
    attention_size: int
    width: int
    bias: bool = False
    n_blocks: int = 1
    rank: int = 0
    adapted: tuple[str, ...] = ()


def parse_zamba(config: ModelConfig) -> Architecture:
    """Return a Zamba, which has one shared block."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    kinds = keys.texts("layers_block_type", allowed=_ZAMBA_MIXERS)
    if not kinds:
        period = keys.positive_int("attn_layer_period", default=6)
        offset = keys.positive_int("attn_layer_offset", minimum=0, default=4)
        listed = ["mamba", "mamba", "hybrid"]
        listed += ["hybrid" if n % period == offset else "mamba" for n in range(n_layers - 3)]
        kinds = tuple(listed[:n_layers])
    size = keys.positive_int("attention_hidden_size", default=2 * hidden_size)
    dim = keys.positive_int("attention_head_dim", default=_zamba_head_dim(keys, hidden_size))
    shape = AttentionShape(hidden_size, *config.head_counts(), dim)
    shared = _ZambaBlocks(shape, size, keys.positive_int("intermediate_size"))
    channels = keys.positive_int("mamba_expand", default=2) * hidden_size
    heads = keys.divisor("n_mamba_heads", of=channels, called="the Mamba channels", default=2)
    return _zamba(config, kinds, shared, scan_builder(keys, hidden_size, channels, heads=heads))


def parse_zamba2(config: ModelConfig) -> Architecture:
    """Return a Zamba 2, whose shared blocks take turns."""
    keys, hidden_size = config.keys, config.hidden_size
    kinds = keys.texts("layers_block_type", allowed=_ZAMBA_MIXERS)
    dim, n_heads = _zamba_head_dim(keys, hidden_size), keys.positive_int("num_attention_heads")
    shape = AttentionShape(hidden_size, *config.head_counts(kv_default=n_heads), dim)
    width = keys.positive_int("intermediate_size", default=4 * hidden_size)
    bias = keys.flag("add_bias_linear", default=False)
    in_attention = keys.flag("use_shared_attention_adapter", default=False)
    shared = _ZambaBlocks(
        shape,
        2 * hidden_size,
        width,
        bias,
        n_blocks=keys.positive_int("num_mem_blocks", default=1),
        rank=keys.positive_int("adapter_rank", default=128),
        adapted=("q", "k", "v") if in_attention else (),
    )
    channels = keys.positive_int("mamba_expand", default=2) * hidden_size
    mamba_heads = keys.divisor("n_mamba_heads", of=channels, called="the Mamba channels")
    mixer = read_mamba2(keys, channels // mamba_heads)
    mamba = mamba2_builder(hidden_size, replace(mixer, conv_bias=True), in_bias=bias, out_bias=bias)
    return _zamba(config, kinds, shared, mamba)


def _zamba_head_dim(keys: Reader, hidden_size: int) -> int:
    size = 2 * hidden_size
    return size // keys.divisor("num_attention_heads", of=size, called="twice the hidden_size")


def _zamba(
    config: ModelConfig, kinds: Sequence[str], shared: _ZambaBlocks, mamba: BlockBuilder
) -> Architecture:
    if len(kinds) != config.n_layers:
        config.keys.refuse("layers_block_type", f"one for each of the {config.n_layers} layers")
    if not config.keys.flag("tie_word_embeddings", default=True):
        config.keys.refuse("tie_word_embeddings", "true: with false, transformers shares no block")
    hidden_size, size, rank = config.hidden_size, shared.attention_size, shared.rank
    hybrid = [index for index, kind in enumerate(kinds) if kind == "hybrid"]
    # the first layer of each shared block holds it
    holders = frozenset(hybrid[: shared.n_blocks])
    places = [(index in holders) if kind == "hybrid" else None for index, kind in enumerate(kinds)]

    def attention(stored: bool, weights: LayerWeights) -> Block:
        block = shared.shape.block(
            lambda name: weights(f"{_ZAMBA_MODULE}.self_attn.{name}"),
            in_features=size,
        )
        return replace(block, stored=stored)

    def feed_forward(stored: bool, weights: LayerWeights) -> Block:
        module = f"{_ZAMBA_MODULE}.feed_forward"
        width, bias = shared.width, shared.bias
        block = weights.feed_forward(hidden_size, width, bias=bias, module=module)
        return replace(block, stored=stored)

    def attention_adapters(_: bool, weights: LayerWeights) -> Block | None:
        rows = [
            row
            for name in shared.adapted
            for row in ((f"{name}_adapter_in", size, rank), (f"{name}_adapter_out", rank, size))
        ]
        linears = weights.matrices(f"{_ZAMBA_MODULE}.self_attn.", HEADS, *rows)
        return Block("attention", linears, joins_next=True) if rows else None

    def adapters(_: bool, weights: LayerWeights) -> Block | None:
        rows = ("adapter_in", hidden_size, rank), ("adapter_out", rank, 2 * shared.width)
        linears = weights.matrices(f"{_ZAMBA_MODULE}.feed_forward.", TENSOR, *rows)
        return Block("feed_forward", linears, joins_next=True) if rank else None

    def mixer(stored: bool | None, weights: LayerWeights) -> Block:
        if stored is None:
            return mamba(weights)
        rows = ("linear", hidden_size, hidden_size)
        return mamba(weights).extended(*weights.matrices("", ATTENTION_REPLICATED, rows))

    def in_hybrid(
        build: Callable[[bool, LayerWeights], Block | None],
    ) -> LayerPart[bool | None]:
        return LayerPart(
            places, lambda stored, weights: None if stored is None else build(stored, weights)
        )

    shared_parts = (attention_adapters, attention, adapters, feed_forward)
    parts = (*(in_hybrid(build) for build in shared_parts), LayerPart(places, mixer))
    return config.decoder(*parts, state_dtype=None)
