"""Configs of drafters to `DraftHead`: draft layers of targets, heads, small models, blocks.

Source
    The config classes of vllm-project/speculators, SafeAILab/EAGLE, sgl-project/SpecForge,
    z-lab/dflash, deepseek-ai/DeepSpec, FasterDecoding/Medusa and AMD-AGI/PARD, and published
    files of each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import WeightFormat
from specroof.architecture.draft_heads import (
    DraftHead,
    DraftShape,
    MedusaHeads,
    block_head,
    draft_layer,
    draft_model,
    eagle3_head,
    eagle_head,
    markov_step,
    replicated,
    with_first,
)
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import (
    Architecture,
    AttentionShape,
    Block,
    Layer,
    gated_pair,
    stack_layers,
)
from specroof.errors import expect_word
from specroof.parsers.decoder import LayerWeights, ModelConfig
from specroof.parsers.families.latent import LatentShape
from specroof.parsers.formats import PLAIN_FORMATS, read_quantization
from specroof.parsers.model_config import (
    activation_dtype,
    config_name,
    mtp_modules,
    open_config,
    parse_family,
    quantization_section,
)
from specroof.parsers.traits import DRAFT_LAYERS, DRAFTER_FILES
from specroof.reading.json_text import MAX_LAYERS, Reader, read_json, read_whole

# --- A drafter's config, opened: what every parser of drafters is handed --------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DraftConfig(ModelConfig):
    """A drafter's config file, opened; it has no family.

    Its `keys` are those of its layers: of `transformer_layer_config` or `text_config`, or the
    root's.

    Parameters
    ----------
    settings
        The keys of its method: those of `dflash_config` or `eagle_config`, or the root's.
    sidecar
        The `hf_quant_config.json` beside it.
    """

    settings: Reader
    sidecar: Reader | None

    @property
    def weight(self) -> WeightFormat:
        """The format of its matrices, one for all: published drafters are quantised whole."""
        return self.quantization.weight_format(0, "mlp.gate_proj")

    @property
    def plain(self) -> WeightFormat:
        """The format of what lies around the layers: fusion and head."""
        return self.quantization.plain

    def setting(self, key: str) -> Reader:
        """Return where a key of the method stands: in its own section, or in the root."""
        return self.settings if self.settings.has(key) else self.root


def open_draft_config(root: Reader, *, name: str | None, sidecar: Reader | None) -> DraftConfig:
    """Return the opened config, with what is common to all kinds read."""
    keys = root.section("transformer_layer_config") or root.section("text_config") or root
    settings = root.section("dflash_config") or root.section("eagle_config") or root
    dtype = activation_dtype(keys, root)
    section = quantization_section(keys, root)
    return DraftConfig(
        name=name or config_name(root),
        family="",
        keys=keys,
        root=root,
        settings=settings,
        sidecar=sidecar,
        activation_dtype=dtype,
        quantization=read_quantization(section, sidecar, PLAIN_FORMATS[dtype]),
    )


def layer_shapes(config: DraftConfig, *, qk_norm: bool, causal: bool = True) -> list[DraftShape]:
    """Return the sizes of each layer, which differ in their windows only.

    Source
        speculators, z-lab/dflash and SpecForge: a Llama or Qwen3 layer, whatever `model_type`
        says; KV heads as many as query heads and `head_dim` their share where a key is missing
        (`configuration_llama.py`).
    """
    keys = config.keys
    heads = config.head_counts(kv_default=keys.positive_int("num_attention_heads"))
    head_dim = config.split_head_dim()
    sinks = config.setting("attention_sink_bias")
    bias = keys.flag("attention_bias", default=False)
    shape = DraftShape(
        keys.positive_int("hidden_size"),
        *heads,
        head_dim,
        width=keys.positive_int("intermediate_size"),
        value_dim=keys.positive_int("v_head_dim", default=head_dim),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=qk_norm,
        sinks=sinks.flag("attention_sink_bias", default=False),
        causal=causal,
        weight=config.weight,
        plain=config.plain,
        dtype=config.activation_dtype,
    )
    return [replace(shape, window=window) for window in _windows(config)]


def _windows(config: DraftConfig) -> list[int | None]:
    """Return each layer's window, None for one that sees everything.

    Source
        `layer_types` says which layers have one (`use_sliding_window` false takes it from all);
        else ``use_swa`` gives all layers the window ``swa_window_size`` (vLLM's DFlash).
    """
    keys, n_layers = config.keys, config.n_layers
    if not keys.flag("use_sliding_window", default=True):
        return [None] * n_layers
    if slides := keys.sliding_layers(n_layers):
        window = keys.positive_int("sliding_window") if any(slides) else None
        return [window if is_sliding else None for is_sliding in slides]
    settings = config.setting("use_swa")
    has_window = settings.flag("use_swa", default=False)
    return [settings.positive_int("swa_window_size") if has_window else None] * n_layers


# --- Draft layers that a target's own checkpoint holds: multi-token prediction -------------------
# A draft layer is one of the model's own kind, so its family's parser reads it: from the same
# config, with the draft layer in the place of the model's layers.
#
# Source
#     DeepSeek-V3 report, arXiv:2412.19437, section 2.2; vLLM ``deepseek_mtp.py``,
#     ``qwen3_next_mtp.py``, ``glm4_moe_mtp.py``, ``mimo_mtp.py``; MiMo-V2-Flash report; the tensors
#     of the published checkpoints.

#: Families whose checkpoints hold one draft layer that no key mentions.
_UNMENTIONED: Final = ("qwen3_next",)


def parse_mtp(config: DraftConfig) -> DraftHead:
    """Return the multi-token-prediction layer of a target, from the target's config.

    Counts
        a merge of embedding and hidden state, unquantised, before one layer of the model's kind.
        Several modules have separate layers and make one draft each.
    """
    model = open_target(config)
    if model.family not in DRAFT_LAYERS:
        typed = model.keys if model.keys.has("model_type") else model.root
        typed.refuse("model_type", f"one whose draft layers are known: {', '.join(DRAFT_LAYERS)}")
    default = 1 if model.family in _UNMENTIONED else None
    modules = mtp_modules(model.keys, minimum=1, default=default)
    # The keys that describe a family's draft layer in the place of the model's layers.
    changes = {"num_hidden_layers": 1, **DRAFT_LAYERS[model.family]}
    listed, spelled = changes.pop("where_stated", {}), changes.pop("spelled", {})
    changes |= {key: value for key, value in listed.items() if model.keys.has(key)}
    # Of Nemotron the config spells out the blocks of the draft layer.
    key = next((key for key, own in spelled.items() if model.keys.has(own)), None)
    if key is not None:
        changes |= {**dict.fromkeys(spelled), key: model.keys.values[spelled[key]]}
    elif spelled:
        model.keys.refuse("mtp_hybrid_override_pattern", "the blocks of the draft layer")
    drafted = draft_layers(model, changes)
    size = drafted.hidden_size
    merge = replicated("eh_proj", 2 * size, size, model.quantization.plain)
    # one norm each for embedding, hidden state and output
    draft = replace(
        _pass_of(f"{config.name} MTP", "mtp", drafted),
        layers=with_first(drafted.layers, [merge]),
        vector_params=3 * size,
    )
    return DraftHead("mtp", draft, target_size=size, modules=modules)


def _pass_of(name: str, kind: str, drafted: Architecture) -> Architecture:
    """Return a pass of draft layers that were read as a model."""
    return draft_model(
        name,
        kind,
        drafted.hidden_size,
        drafted.layers,
        activation_dtype=drafted.activation_dtype,
        kv_dtype=drafted.kv_dtype,
    )


def open_target(config: DraftConfig) -> ModelConfig:
    """Return a drafter's config opened as a model's config."""
    return open_config(config.root, name=config.name, family=None, sidecar=config.sidecar)


def draft_layers(model: ModelConfig, changes: Mapping[str, object]) -> Architecture:
    """Return the model that has the draft layers only: the config with `changes` to its keys."""
    stored = model.keys.positive_int("num_hidden_layers", maximum=MAX_LAYERS, default=MAX_LAYERS)
    changed = replace(
        model,
        keys=replace(model.keys, values={**model.keys.values, **changes}),
        quantization=replace(model.quantization, draft_layer=stored, method=""),
    )
    return parse_family(changed)


# --- Drafters that go token by token: EAGLE, EAGLE-3, P-EAGLE, Medusa, PARD, Gemma ----------------
#
# Source
#     SafeAILab/EAGLE ``model/cnets*.py``; vLLM ``llama_eagle*.py`` and ``medusa.py``; speculators
#     ``eagle3``; AMD-AGI/PARD; transformers 5, `models/gemma4_assistant/`.

_MOST_HEADS: Final = 64


def parse_eagle(config: DraftConfig) -> DraftHead:
    """Return an EAGLE-1 or -2 head: published files look like a Llama of one layer."""
    shapes = layer_shapes(config, qk_norm=False)
    if len(shapes) != 1:
        config.keys.refuse("num_hidden_layers", "1, as EAGLE heads have")
    return eagle_head(shapes[0], name=config.name)


def parse_eagle3(config: DraftConfig, kind: str = "eagle3") -> DraftHead:
    """Return an EAGLE-3 head, or one with several layers that makes all drafts at once: P-EAGLE."""
    shapes = layer_shapes(config, qk_norm=False)
    if len(set(shapes)) > 1:
        config.keys.refuse("layer_types", "one kind of attention for all layers")
    vocab_size = config.keys.positive_int("vocab_size")
    # nebius calls it truncated; where both are missing or null the head has all tokens.
    place = next(
        (
            reader
            for reader in (config.root, config.keys)
            if reader.has("draft_vocab_size") or reader.has("truncated_vocab_size")
        ),
        config.root,
    )
    drafted = place.positive_int(
        "draft_vocab_size", "truncated_vocab_size", maximum=vocab_size, default=vocab_size
    )
    # Engines merge three hidden states of the target by default.
    settings = config.setting("eagle_aux_hidden_state_layer_ids")
    if not config.settings.flag("use_aux_hidden_state", default=True):
        config.settings.refuse("use_aux_hidden_state", "true: without it the head is not EAGLE-3")
    return eagle3_head(
        shapes[0],
        name=config.name,
        vocab_size=drafted,
        kind=kind,
        n_layers=len(shapes),
        taps=len(settings.ints("eagle_aux_hidden_state_layer_ids")) or 3,
        target_size=config.root.positive_int("target_hidden_size", default=shapes[0].hidden_size),
    )


def parse_medusa(config: DraftConfig) -> MedusaHeads:
    """Return Medusa heads; the widths are the target's, which most files do not repeat."""
    root = config.root
    return MedusaHeads(
        config.name,
        n_heads=root.positive_int("medusa_num_heads", "num_heads", maximum=_MOST_HEADS),
        n_layers=root.positive_int(
            "medusa_num_layers", "num_hidden_layers", minimum=0, maximum=_MOST_HEADS
        ),
        vocab_size=root.positive_int("truncated_vocab_size", "vocab_size")
        if root.has("truncated_vocab_size") or root.has("vocab_size")
        else None,
        target_size=root.positive_int("hidden_size") if root.has("hidden_size") else None,
    )


def parse_pard(config: DraftConfig) -> DraftHead:
    """Return a PARD drafter: a small model, in PARD-2 with a projection of target features."""
    root, model = config.root, parse_family(open_target(config))
    head = DraftHead("pard", model, vocab_size=model.vocab_size)
    if not root.has("pard2_target_dim"):
        return head
    taken = root.positive_int("pard2_target_dim")
    taps = len(root.ints("pard2_target_layers", minimum=-_MOST_HEADS)) or 1
    if taken % taps:
        root.refuse("pard2_target_dim", f"a multiple of the {taps} pard2_target_layers")
    projection = replicated("target_proj", taken, model.hidden_size, config.plain)
    biased = replace(projection, bias=root.flag("pard2_proj_bias", default=False))
    return replace(head, fusion=(biased,), taps=taps, target_size=taken // taps)


def parse_assistant(config: DraftConfig) -> DraftHead:
    """Return a Gemma 4 assistant: layers without keys and values, which read the target's cache.

    Counts
        a projection of embedding and hidden state before the layers, one back to the target's
        width behind them; with ordered embeddings the centroids and the rows of the best clusters
        in the place of the whole head. The table is stored whole.
    Source
        transformers 5, `models/gemma4_assistant/modeling_gemma4_assistant.py`.
    """
    keys, root = config.keys, config.root
    size, backbone = keys.positive_int("hidden_size"), root.positive_int("backbone_hidden_size")
    vocab_size = keys.positive_int("vocab_size")
    first = replicated("pre_projection", 2 * backbone, size, config.plain)
    layers = with_first(stack_layers(_assistant_layers(config)), [first])
    last = replicated("post_projection", size, backbone, config.plain)
    layers = (*layers, Layer((Block("feed_forward", (last,), joins_next=True),)))
    n_centroids, n_scored = 0, vocab_size
    if root.flag("use_ordered_embeddings", default=False):
        n_centroids = root.divisor("num_centroids", of=vocab_size, called="vocab_size")
        best = root.positive_int("centroid_intermediate_top_k", maximum=n_centroids)
        n_scored = best * (vocab_size // n_centroids)
    head_rows = n_centroids + n_scored
    model = draft_model(
        config.name,
        "assistant",
        size,
        layers,
        head_rows=head_rows,
        weight=config.plain,
        # The head counts its rows; the table has all of them.
        lookup_params=(vocab_size + n_centroids - head_rows) * size,
        dtype=config.activation_dtype,
    )
    return DraftHead("mtp", model, target_size=backbone, vocab_size=vocab_size, rereads=False)


def _assistant_layers(config: DraftConfig) -> list[Layer]:
    keys, weight = config.keys, config.weight
    slides = keys.sliding_layers(config.n_layers)
    if not slides:
        keys.refuse("layer_types", "a list of full_attention and sliding_attention")
    heads = config.head_counts()
    head_dim = keys.positive_int("head_dim", default=256)  # configuration_gemma4.py
    full_dim = keys.positive_int("global_head_dim", default=512)
    window = keys.positive_int("sliding_window", default=512)
    size, width = keys.positive_int("hidden_size"), keys.positive_int("intermediate_size")
    full = AttentionShape(size, *heads, full_dim, qk_norm=True, shares_cache=True)
    sliding = replace(full, head_dim=head_dim, window=window)

    def layer(shape: AttentionShape) -> Layer:
        attention = shape.block(lambda _: weight)
        pair = gated_pair(size, width, weight, weight)
        # a second norm behind attention; and behind the feed-forward, with a scale of the layer
        feed_forward = Block("feed_forward", pair, vector_params=2 * size + 1)
        return Layer((attention.extended(n_params=size), feed_forward))

    return [layer(sliding if is_sliding else full) for is_sliding in slides]


# --- Block drafters: DFlash, DFlash2, DSpark, and DSpark inside of DeepSeek-V4 --------------------
#
# Source
#     z-lab/dflash, ``model.py``; vLLM ``qwen3_dflash.py``; speculators ``dflash`` and ``dspark``;
#     deepseek-ai/DeepSpec; ROCm/ATOM ``deepseek_v4_dspark.py``.

_MOST_POSITIONS: Final = 4096
_TAP_KEYS: Final = (
    "target_layer_ids",
    "aux_hidden_state_layer_ids",
    "eagle_aux_hidden_state_layer_ids",
)
_HEAD_TYPES: Final = ("vanilla", "gated", "rnn")


def parse_dflash(config: DraftConfig) -> DraftHead:
    """Return a DFlash drafter: layers that see the block both ways, the target's head."""
    return _block_head(config, "dflash", _layers(config), anchor_default=False)


def parse_dflash2(config: DraftConfig) -> DraftHead:
    """Return a DFlash2 drafter: convolutions over the block, and a selector of candidates.

    Counts
        before and behind each sublayer the matrix that makes a convolution's kernel from the
        hidden state; the selector's projection; its two tables (stored; few rows are read).
    Ignores
        the convolutions themselves (two taps), and choosing among the candidates.
    """
    settings = config.settings
    size = config.keys.positive_int("hidden_size")
    kernel = settings.positive_int("conv_kernel_size")
    group = settings.divisor("conv_group_size", of=size, called="hidden_size")
    rows = 2 * kernel * (size // group)
    base = 2 * kernel * size

    def convolved(block: Block) -> Block:
        name = "attention_conv" if block.name == "attention" else "mlp_conv"
        return block.extended(replicated(f"{name}_kernel", size, rows, config.plain), n_params=base)

    layers = [layer.with_blocks(convolved) for layer in _layers(config)]
    rank = settings.positive_int("selector_rank")
    selector = replicated("selector_proj", size, rank, config.plain)
    layers.append(Layer((Block("feed_forward", (selector,), joins_next=True),)))
    tables = 2 * config.keys.positive_int("vocab_size") * rank
    head = _block_head(config, "dflash", layers, anchor_default=False)
    return replace(head, model=replace(head.model, lookup_params=tables))


def parse_dspark(config: DraftConfig) -> DraftHead:
    """Return a DSpark drafter: the layers of DFlash, then a Markov head for each draft."""
    # deepseek-ai/DeepSpec, ``Gemma4DSparkModel``: layers of the Gemma 4 family
    layers = (
        [*parse_family(open_target(config)).with_blocks(_both_ways).layers]
        if config.keys.has("global_head_dim")
        else _layers(config)
    )
    head = _block_head(config, "dspark", layers, anchor_default=True)
    # The Markov head of a DSpark drafter.
    place = config.setting("markov_rank")
    key = "markov_rank" if place.has("markov_rank") else "dspark_markov_rank"
    kind = config.setting("markov_head_type")
    confidence = config.setting("enable_confidence_head")
    vocab_size = config.keys.positive_int("vocab_size")
    return replace(
        head,
        serial=markov_step(
            config.name,
            hidden_size=head.model.hidden_size,
            vocab_size=config.root.positive_int("draft_vocab_size", default=vocab_size),
            rank=place.positive_int(key),
            table_rows=vocab_size,
            head_type=kind.text("markov_head_type", allowed=_HEAD_TYPES, default="vanilla"),
            confidence=confidence.flag("enable_confidence_head", default=False),
        ),
    )


def parse_v4_dspark(config: DraftConfig) -> DraftHead:
    """Return the DSpark drafter inside of a DeepSeek-V4 checkpoint: V4 layers with a window."""
    model = open_target(config)
    keys = model.keys
    n_layers = len(keys.ints("compress_ratios")) - model.n_layers
    if n_layers < 1:
        keys.refuse("compress_ratios", "entries for draft layers behind those of the model")
    changes = {
        "num_hidden_layers": n_layers,
        "compress_ratios": [0] * n_layers,
        "num_hash_layers": 0,
    }
    drafted = draft_layers(model, changes)
    size = drafted.hidden_size
    pass_ = _pass_of(f"{config.name} DSpark", "dspark", drafted)
    taps = len(keys.ints("dspark_target_layer_ids"))
    if not taps:
        keys.refuse("dspark_target_layer_ids", "a list of layers of the target")
    vocab_size = keys.positive_int("vocab_size")
    serial = markov_step(
        pass_.name,
        hidden_size=size,
        vocab_size=vocab_size,
        rank=keys.positive_int("dspark_markov_rank"),
    )
    return block_head(
        "dspark",
        pass_,
        taps=taps,
        target_size=size,
        block=keys.positive_int("dspark_block_size", maximum=_MOST_POSITIONS),
        anchor_drafts=True,
        serial=serial,
    )


def _block_head(
    config: DraftConfig, kind: str, layers: Sequence[Layer], *, anchor_default: bool
) -> DraftHead:
    keys, root = config.keys, config.root
    size = keys.positive_int("hidden_size")
    vocab_size = keys.positive_int("vocab_size")
    drafted = root.positive_int("draft_vocab_size", maximum=vocab_size, default=vocab_size)
    own = drafted != vocab_size
    model = draft_model(
        config.name,
        kind,
        size,
        stack_layers(layers),
        # Only a smaller vocabulary comes with a separate head.
        head_rows=drafted if own else 0,
        weight=config.plain,
        dtype=config.activation_dtype,
    )
    anchors, sized = config.setting("sample_from_anchor"), config.setting("block_size")
    block = None  # engines choose it
    if sized.has("block_size"):
        block = sized.positive_int("block_size", minimum=2, maximum=_MOST_POSITIONS)
    # z-lab/dflash, ``build_target_layer_ids``: one tap per draft layer where none are listed.
    listed = (config.setting(key).ints(key) for key in _TAP_KEYS)
    taps = next(filter(None, map(len, listed)), config.n_layers)
    return block_head(
        kind,
        model,
        taps=taps,
        target_size=root.positive_int("target_hidden_size", default=size),
        block=block,
        anchor_drafts=anchors.flag("sample_from_anchor", default=anchor_default),
        vocab_size=drafted if own else None,
        weight=config.plain,
    )


def _layers(config: DraftConfig) -> list[Layer]:
    """Return the layers of a Qwen3-like drafter, or of one with latent attention."""
    settings = config.settings
    mode = settings.text("attention_mode", allowed=("gqa", "mla"), default="gqa")
    causal = any(config.setting(key).flag(key, default=False) for key in ("is_causal", "causal"))
    if mode == "mla":  # kimi-k3-dflash2, counted without a window
        keys, weights = config.keys, LayerWeights(config.quantization, 0)
        size, width = keys.positive_int("hidden_size"), keys.positive_int("intermediate_size")
        attention = LatentShape.read(keys).block(weights)
        attention = attention if causal else _both_ways(attention)
        layer = Layer((attention, weights.feed_forward(size, width)))
        return [layer] * config.n_layers
    return [draft_layer(shape) for shape in layer_shapes(config, qk_norm=True, causal=causal)]


def _both_ways(block: Block) -> Block:
    if not isinstance(block.core, GroupedQueryAttention | LatentAttention):
        return block
    return replace(block, core=replace(block.core, causal=False))


# --- What kind a file is, and who reads it --------------------------------------------------------

_Parser = Callable[[DraftConfig], DraftHead | MedusaHeads]

#: For each kind of a SPEC, the forms of file that describe one, and their parsers.
DRAFTER_KINDS: Final[dict[str, dict[str, _Parser]]] = {
    "mtp": {"target": parse_mtp, "assistant": parse_assistant},
    "eagle": {"eagle": parse_eagle, "plain": parse_eagle},
    "eagle3": {"eagle3": parse_eagle3},
    "medusa": {"medusa": parse_medusa},
    "dflash": {"dflash": parse_dflash, "dflash2": parse_dflash2},
    "dspark": {"dspark": parse_dspark, "v4_dspark": parse_v4_dspark},
    "p_eagle": dict.fromkeys(("p_eagle", "eagle3"), partial(parse_eagle3, kind="p_eagle")),
    "pard": {"plain": parse_pard, "target": parse_pard},
}

#: Drafters that no parser reads, whatever their files look like.
_UNKNOWN: Final = ("DominoDraftModel",)


def parse_drafter_config(
    text: str,
    *,
    source: str,
    kind: str,
    name: str | None = None,
    quantization_text: str | None = None,
) -> DraftHead | MedusaHeads:
    """Return the drafter that a config describes.

    Parameters
    ----------
    text
        The whole file: a drafter's config, or for ``mtp`` and ``dspark`` the config of a target
        whose checkpoint holds its own draft layers.
    source
        What messages call it; its stem is the drafter's name where no `name` is given.
    kind
        What a SPEC calls the drafter.
    name
        What outputs call it.
    quantization_text
        The `hf_quant_config.json` beside it.

    Raises
    ------
    ConfigError
        If the file cannot be read, is of another kind, lacks a key that determines cost, or has a
        value that describes no drafter.
    OptionError
        If `kind` has no config.

    Examples
    --------
    >>> layer = '"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4'
    >>> vocab = '"vocab_size": 1000, "draft_vocab_size": 100, "num_hidden_layers": 1'
    >>> text = '{"architectures": ["LlamaForCausalLMEagle3"], ' + layer + ", " + vocab + "}"
    >>> head = parse_drafter_config(text, source="tiny.json", kind="eagle3")
    >>> head.name, head.vocab_size, head.taps
    ('tiny', 100, 3)
    """
    expect_word("kind", kind, DRAFTER_KINDS)
    sidecar = None
    if quantization_text is not None:
        sidecar = read_json(quantization_text, source=f"hf_quant_config.json of {source}")
    root = read_json(text, source=source)

    def read() -> DraftHead | MedusaHeads:
        config = open_draft_config(root, name=name, sidecar=sidecar)
        parsers = DRAFTER_KINDS[kind]
        form = _form(config)
        if form not in parsers:
            key = "speculators_model_type" if "speculators_model_type" in root.values else None
            allowed = f"a config of a drafter of kind {kind}; this one is {form}"
            root.refuse(key or "architectures", allowed)
        return parsers[form](config)

    return read_whole(read)


def _form(config: DraftConfig) -> str:
    """Return what kind of file a config is: by its class, or by keys that only one form has."""
    root = config.root
    known, speculators = DRAFTER_FILES["architectures"], DRAFTER_FILES["speculators"]
    if root.has("speculators_model_type"):
        return speculators[root.text("speculators_model_type", allowed=speculators)]
    names = root.texts("architectures")
    if any(name in _UNKNOWN for name in names):
        root.refuse("architectures", f"one of {', '.join(known)}", next(iter(names)))
    for name in names:
        if name in known:
            return known[name]
    for key, form in DRAFTER_FILES["marks"].items():
        if root.has(key) or config.keys.has(key):
            return form
    one_layer = config.keys.values.get("num_hidden_layers") == 1
    return "plain" if one_layer else "target"
