"""Files of llama.cpp and MLX: which tensor of a model has which format, by the name of the mix.

A mix such as Q4_K_M is a rule: most matrices have one format, and some that suffer from few bits
(values of attention, the way out of a feed-forward, the head) have a wider one in some layers.

Source
    llama.cpp, ``src/llama-quant.cpp`` as it ships with llama-cpp-python 0.3.36
    (``llama_tensor_get_type_impl``, ``tensor_type_fallback``, ``tensor_allows_quantization``) and
    ``ggml/src/ggml-common.h`` (blocks); MLX 0.32, ``mlx.core.quantize``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from specroof.architecture.base import (
    BF16,
    CACHE_BLOCKS,
    FP32,
    WEIGHT_FORMATS,
    Linear,
    WeightFormat,
)
from specroof.architecture.model import Architecture, Block, Layer, ordered_layers
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.reading.yaml_text import bundled_yaml

# --- Formats of one tensor ------------------------------------------------------------------------

_TABLES: Final = bundled_yaml(__file__, "mixes.yaml")
#: Weights and bytes of a block of GGUF. A row of a matrix is whole blocks.
GGUF_BLOCKS: Final = CACHE_BLOCKS | {
    name: (weights, size) for name, (weights, size) in _TABLES["blocks"].items()
}
#: Of MLX: groups with a scale and an offset of 16 bits each, or a scale of one byte.
MLX_BLOCKS: Final = {
    **{f"mlx-{bits}bit": (64, 8 * bits + 4) for bits in (2, 3, 4, 5, 6, 8)},
    "mlx-mxfp4": (32, 17),
    "mlx-nvfp4": (16, 9),
    "mlx-mxfp8": (32, 33),
}

#: Types of tensors in GGUF files. llama.cpp quantises activations to eight bits for each of them
#: and multiplies integers (``ggml-cuda/mmq.cu``, ``ggml-cpu/quants.c``); a chip without integer
#: arithmetic, such as Apple's GPUs, multiplies 16-bit floats in their place.
GGUF_FORMATS: Final = {
    "f32": FP32,
    "f16": WEIGHT_FORMATS["fp16"],
    "bf16": BF16,
    **{name: WeightFormat(name, size / n, "int8") for name, (n, size) in GGUF_BLOCKS.items()},
}
#: MLX expands its groups to the 16-bit floats of the activations.
_FORMATS: Final = GGUF_FORMATS | {
    name: WeightFormat(name, size / n, "bf16") for name, (n, size) in MLX_BLOCKS.items()
}
_BLOCKS: Final = GGUF_BLOCKS | MLX_BLOCKS


# --- Rules: which tensors of a mix have another format than most ----------------------------------


class _Place(NamedTuple):
    """Where a tensor stands: its layer of `n` with its kind, and what the model is like."""

    layer: int
    n: int
    gqa: float
    n_experts: int


def _more_bits(place: _Place) -> bool:
    """Whether a layer is among those with more bits: the first and last eighth, and a third."""
    eighth = place.n // 8
    return (
        place.layer < eighth or place.layer >= 7 * place.n // 8 or (place.layer - eighth) % 3 == 2
    )


#: Places by the names that `mixes.yaml` has for them.
_WHERE: Final[dict[str, Callable[[_Place], bool]]] = {
    "everywhere": lambda _place: True,
    "more bits": _more_bits,
    "more bits of 8 experts": lambda place: place.n_experts == _8_EXPERTS and _more_bits(place),
    "few KV heads": lambda place: place.gqa >= 4,
    "few KV heads or experts": lambda place: place.gqa >= 4 or place.n_experts >= 4,
    "first 2": lambda place: place.layer < 2,
    "first 4": lambda place: place.layer < 4,
    "first eighth": lambda place: place.layer < place.n // 8,
    "first sixteenth": lambda place: place.layer < place.n // 16,
    "middle": lambda place: place.n // 8 <= place.layer < 7 * place.n // 8,
}


@dataclass(frozen=True, slots=True)
class FormatMix:
    """Which tensor has which format.

    Parameters
    ----------
    base
        Of every matrix that no rule names.
    head
        Of the output matrix, and of an embedding that is the output matrix, too.
    embedding
        Of an embedding of its own; None is `base`.
    rules
        By kind of tensor: ``attn_q``, ``attn_k``, ``attn_v``, ``attn_output``, ``ffn_up`` (gate
        and up), ``ffn_down``, ``experts`` (all three matrices). Formats and where they are, the
        first that holds.
    with_8_experts
        Kinds of tensors of a model with exactly eight experts, which have these formats instead.
    vectors
        dtype of norms, biases and convolutions.
    router
        Format of the matrix that weighs experts; None leaves it as the checkpoint has it.
    """

    base: str
    head: str = "q6_k"
    embedding: str | None = None
    rules: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    with_8_experts: Mapping[str, str] = field(default_factory=dict)
    vectors: str = "fp32"
    router: WeightFormat | None = FP32


_8_EXPERTS: Final = 8
_WITH_8_EXPERTS: Final = {"": {}, **_TABLES["with_8_experts"]}
#: Mixes by the names of their files: llama.cpp's, then MLX's. Those of up to four bits are made
#: with an importance matrix, as the published ones are.
MIXES: Final = {
    name: FormatMix(**row | {"with_8_experts": _WITH_8_EXPERTS[row.get("with_8_experts", "")]})
    for name, row in _TABLES["mixes"].items()
} | {name: FormatMix(name, name, vectors="bf16", router=None) for name in MLX_BLOCKS}

# --- A model as such a file has it ----------------------------------------------------------------

#: Matrices of two tensors: the first of them, which holds the channels of the convolution, counts
#: as values of attention, as every tensor that holds queries, keys and values does.
_FUSED: Final = "in_proj_qkvz"
#: Families whose files hold queries, keys and values in one tensor.
_FUSED_FAMILIES: Final = frozenset(("phi3",))
#: Families of which llama.cpp calls a model of 80 layers "70B".
_70B_FAMILIES: Final = frozenset(("llama", "mistral", "nemotron-nas", "qwen2"))
_70B_LAYERS: Final = 80
#: Values of such a model are few.
_70B_VALUES: Final = {"q3_k": "q5_k", "q4_k": "q5_k"}
#: Matrices that keep their format.
_KEPT: Final = ("index", "per_layer_model_projection")


def mixed(model: Architecture, name: str) -> Architecture:
    """Return a model with its weights as a file of a mix has them.

    Parameters
    ----------
    model
        Any model; how its own checkpoint is stored does not matter.
    name
        One of `MIXES`.

    Counts
        blocks to the byte, for each tensor as the rules have it; norms, biases, convolutions and
        routers in float32 as GGUF files have them.
    Ignores
        layers that draft, which shift the rules of files that hold them by a layer; exceptions of
        Falcon and GLM-5-Next.
    Source
        As of this module.

    Examples
    --------
    >>> from specroof import load_model
    >>> model = mixed(load_model("meta-llama/Llama-3.1-8B"), "q4_k_m")
    >>> round(8 * model.weight_bytes / model.n_params, 4)  # llama.cpp, tools/quantize/README.md
    4.8944
    """
    mix = MIXES[name]
    n_experts, gqa = 1, 1.0
    for _, block in model.counted_blocks:
        if block.experts:
            n_experts = block.experts.n_experts
        elif block.core and block.core.kernel == "heads":
            gqa = max(gqa, block.core.heads.n_heads / block.core.heads.n_kv_heads)
    is_70b = model.family in _70B_FAMILIES and model.n_layers == _70B_LAYERS and gqa > 1
    values = _70B_VALUES if is_70b else {}
    order = model.order
    with_values = [_has_values(model.layers[place]) for place in order]

    def form(layer: int, kind: str, row_len: int) -> WeightFormat:
        if n_experts == _8_EXPERTS and kind in mix.with_8_experts:
            return _format(mix.with_8_experts[kind], row_len)
        index, n = layer, len(order)
        if kind == "attn_v":
            index, n = sum(with_values[:layer]), sum(with_values)
        place = _Place(index, n, gqa, n_experts)
        rules = mix.rules.get(kind, ())
        chosen = next((name for name, where in rules if _WHERE[where](place)), mix.base)
        return _format(values.get(chosen, chosen) if kind == "attn_v" else chosen, row_len)

    distinct, stored_order = ordered_layers(
        Layer(
            tuple(
                _mixed_block(block, partial(form, layer), mix, model.family)
                for block in model.layers[place].blocks
            )
        )
        for layer, place in enumerate(order)
    )
    width = model.hidden_size
    is_cut = mix.base in GGUF_FORMATS and width % _BLOCKS[mix.base][0] != 0
    head = _format("q8_0" if is_cut else mix.head, width)
    table = _format(mix.embedding or mix.base, width)
    return replace(
        model,
        layers=distinct,
        layer_order=stored_order,
        head=replace(model.head, weight=head),
        mtp_weight=None,
        embedding=blend(
            (head if model.tied_embeddings else table, model.vocab_size * width),
            (table, model.lookup_params),
        ),
        vector_dtype=mix.vectors,
    )


def _has_values(layer: Layer) -> bool:
    """Whether one of its tensors counts as values of attention."""
    names = {linear.name for block in layer.blocks for linear in block.linears}
    return not names.isdisjoint(("v_proj", _FUSED))


def _mixed_block(
    block: Block, form: Callable[[str, int], WeightFormat], mix: FormatMix, family: str
) -> Block:
    """Return a block of a layer; `form` takes the kind of a tensor and the length of its rows."""

    def weight(linear: Linear) -> WeightFormat:
        if linear.kind == "router":
            return mix.router or linear.weight
        if linear.kind != "dense" or linear.name.startswith(_KEPT):
            return linear.weight
        row_len = linear.in_features // linear.groups
        if linear.name == _FUSED and isinstance(block.core, GatedDeltaNet):
            channels = block.core.sizes.convolved
            return blend(
                (form("attn_v", row_len), channels),
                (form("", row_len), linear.out_features - channels),
            )
        kind = _TABLES["kinds"].get(linear.name, "")
        if family in _FUSED_FAMILIES and kind in {"attn_q", "attn_k"}:
            kind = "attn_v"
        return form(kind, row_len)

    core = block.core
    if experts := block.experts:
        into, out = ("experts", "experts") if "experts" in mix.rules else ("ffn_up", "ffn_down")
        core = replace(
            experts,
            weight=blend(
                (form(into, experts.in_features), experts.n_matrices - 1),
                (form(out, experts.hidden_features), 1),
            ),
        )
    linears = tuple(replace(linear, weight=weight(linear)) for linear in block.linears)
    return replace(block, linears=linears, core=core)


def _format(name: str, row_len: int) -> WeightFormat:
    """Return a format, or what stands in where rows are no whole blocks of it."""
    for stand_in in (name, _TABLES["narrower"].get(name, name)):
        if row_len % _BLOCKS[stand_in][0] == 0:
            return _FORMATS[stand_in]
    return BF16 if name in MLX_BLOCKS else GGUF_FORMATS["f16"]


def blend(*parts: tuple[WeightFormat, int]) -> WeightFormat:
    """Return what tensors have that are one matrix here: their mean bytes, by their elements.

    Parameters
    ----------
    parts
        Formats, and how many elements have each.

    Source
        Counting.

    Examples
    --------
    >>> blend((GGUF_FORMATS["q4_k"], 2), (GGUF_FORMATS["q6_k"], 1))
    WeightFormat(name='q4_k+q6_k', element_bytes=0.6484375, compute_dtype='int8')
    """
    elements = sum(count for _, count in parts)
    if not elements:  # tables of a draft layer, which has none
        return parts[0][0]
    shares = tuple((form.element_bytes, count / elements) for form, count in parts if count)
    names = dict.fromkeys(form.name for form, count in parts if count)
    return WeightFormat(
        "+".join(names),
        sum(form.element_bytes * count for form, count in parts) / elements,
        parts[0][0].compute_dtype,
        shares if len(names) > 1 else (),
    )
