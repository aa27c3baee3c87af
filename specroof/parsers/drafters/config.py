"""A drafter's config, opened: what every parser of drafters is handed."""

from dataclasses import dataclass, replace

from specroof.architecture.base import WeightFormat
from specroof.architecture.draft_heads import DraftShape
from specroof.parsers.decoder import head_counts, sliding_layers, split_head_dim
from specroof.parsers.formats import PLAIN_FORMATS, read_quantization
from specroof.parsers.model_config import (
    ModelConfig,
    activation_dtype,
    config_name,
    quantization_section,
)
from specroof.reading.json_text import Reader


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
    n_heads, n_kv_heads = head_counts(keys, kv_default=keys.positive_int("num_attention_heads"))
    head_dim = split_head_dim(keys)
    sinks = config.setting("attention_sink_bias")
    bias = keys.flag("attention_bias", default=False)
    shape = DraftShape(
        keys.positive_int("hidden_size"),
        n_heads,
        n_kv_heads,
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
    slides = sliding_layers(keys, n_layers)
    if slides is not None:
        window = keys.positive_int("sliding_window") if any(slides) else None
        return [window if is_sliding else None for is_sliding in slides]
    settings = config.setting("use_swa")
    if settings.flag("use_swa", default=False):
        return [settings.positive_int("swa_window_size")] * n_layers
    return [None] * n_layers
