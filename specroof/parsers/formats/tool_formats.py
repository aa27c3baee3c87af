"""Storage formats of AMD Quark, torchao, AutoRound and bitsandbytes.

Source
    vLLM 0.33 (`model_executor/layers/quantization/quark/quark.py`, `inc/inc.py`, `torchao.py`) and
    transformers 5.23 (`utils/quantization_config.py`).
"""

from typing import Final

from specroof.architecture import WEIGHT_FORMATS, WeightFormat
from specroof.parsers.formats.weight_formats import packed_format
from specroof.reading.json_object import Reader

# --- AMD Quark -----------------------------------------------------------------------------------

#: Bytes of an element, and the arithmetic of two such operands.
_QUARK_DTYPES: Final = {
    "fp8_e4m3": (1.0, "fp8"),
    "fp8_e5m2": (1.0, "fp8"),
    "fp6_e3m2": (0.75, "fp6"),
    "fp6_e2m3": (0.75, "fp6"),
    "fp4": (0.5, "fp4"),
    "int8": (1.0, "int8"),
    "uint8": (1.0, "int8"),
    "int4": (0.5, "int4"),
    "uint4": (0.5, "int4"),
}
#: By the size of a group, what floats with a scale of one byte per group are called.
_QUARK_GROUPED: Final = {
    ("fp4", 16): "nvfp4",
    ("fp4", 32): "mxfp4",
    ("fp6_e3m2", 32): "mxfp6",
    ("fp6_e2m3", 32): "mxfp6",
    ("fp8_e4m3", 32): "mxfp8",
}
_SCHEMES: Final = ("per_tensor", "per_channel", "per_group", "per_block")


def quark_format(scheme: Reader, plain: WeightFormat) -> WeightFormat | None:
    """Return the format of a Quark scheme; None where it leaves weights alone."""
    weight = _quark_tensor(scheme, "weight")
    if weight is None:
        return None
    name = weight.text("dtype", allowed=_QUARK_DTYPES)
    activations = _quark_tensor(scheme, "input_tensors")
    compute_dtype = plain.compute_dtype
    if activations is not None:
        compute_dtype = _QUARK_DTYPES[activations.text("dtype", allowed=_QUARK_DTYPES)][1]
    element_bytes = _QUARK_DTYPES[name][0]
    kind = weight.text("qscheme", allowed=_SCHEMES)
    if kind == "per_block":
        block = weight.ints("block_size", minimum=1)
        if len(block) != 2:
            weight.refuse("block_size", "two whole numbers, such as [128, 128]")
        share = 4 / (block[0] * block[1])  # a float32 per block
        return WeightFormat(f"{_short(name)}-block", element_bytes + share, compute_dtype)
    if kind != "per_group":  # the scale of a tensor or of a row is too small to count
        return WeightFormat(_short(name), element_bytes, compute_dtype)
    group_size = weight.positive_int("group_size")
    if name.startswith("fp"):
        called = _QUARK_GROUPED.get((name, group_size), _short(name))
        return WeightFormat(called, element_bytes + 1 / group_size, compute_dtype)
    # a float16 scale, and one more integer where zero is not in the middle
    zero = 0.0 if weight.flag("symmetric", default=True) else element_bytes
    return WeightFormat(_short(name), element_bytes + (2 + zero) / group_size, compute_dtype)


def quark_kv_dtype(section: Reader) -> str | None:
    """Return the dtype of cached keys and values: the output of the projections that make them."""
    export = section.section("export")
    groups = () if export is None else export.texts("kv_cache_group")
    schemes = section.sections("layer_quant_config")
    for group in groups:
        tensor = _quark_tensor(schemes[group], "output_tensors") if group in schemes else None
        if tensor is not None:
            return _QUARK_DTYPES[tensor.text("dtype", allowed=("fp8_e4m3", "int8"))][1]
    return None


def _quark_tensor(scheme: Reader, key: str) -> Reader | None:
    """Return how a tensor is stored: an object, or a list of them, whose narrowest counts.

    NVFP4 is listed as fp4 with a scale of its own scales, INT4 in FP8 arithmetic as fp8 and int4.
    """
    if not isinstance(scheme.values.get(key), list):
        return scheme.section(key)
    tensors = scheme.objects(key)
    if not tensors:
        scheme.refuse(key, "an object, or a list with one")
    names = [tensor.text("dtype", allowed=_QUARK_DTYPES) for tensor in tensors]
    return min(zip(names, tensors, strict=True), key=lambda pair: _QUARK_DTYPES[pair[0]][0])[1]


def _short(name: str) -> str:
    """Return a dtype as people call it: without the layout of its bits or its sign.

    Examples
    --------
    >>> _short("fp8_e4m3"), _short("uint4")
    ('fp8', 'int4')
    """
    return name.partition("_")[0].removeprefix("u")


# --- torchao -------------------------------------------------------------------------------------

#: Bytes of an element, of what a group has besides, the usual group and the arithmetic (None: that
#: of the activations), by the name of the configuration class and by its older name.
_TORCHAO: Final = {
    "Int4WeightOnlyConfig": ("int4", 0.5, 4.0, 128, None),  # bf16 scale and zero
    "Int8WeightOnlyConfig": ("int8", 1.0, 0.0, 1, None),
    "Int8DynamicActivationInt8WeightConfig": ("int8", 1.0, 0.0, 1, "int8"),
    "Float8WeightOnlyConfig": ("fp8", 1.0, 0.0, 1, None),
    "Float8DynamicActivationFloat8WeightConfig": ("fp8", 1.0, 0.0, 1, "fp8"),
}
_TORCHAO_OLDER: Final = {
    "int4_weight_only": "Int4WeightOnlyConfig",
    "int8_weight_only": "Int8WeightOnlyConfig",
    "int8_dynamic_activation_int8_weight": "Int8DynamicActivationInt8WeightConfig",
    "float8_weight_only": "Float8WeightOnlyConfig",
    "float8_dynamic_activation_float8_weight": "Float8DynamicActivationFloat8WeightConfig",
}


def torchao_format(section: Reader, plain: WeightFormat) -> WeightFormat:
    """Return the format of a ``quant_type``: a name, or an object with a configuration class."""
    if section.flag("include_input_output_embeddings", default=False):
        section.refuse("include_input_output_embeddings", "false: tables are read unquantised")
    if isinstance(section.values.get("quant_type"), str):
        kind = _TORCHAO_OLDER[section.text("quant_type", allowed=_TORCHAO_OLDER)]
        options = section.section("quant_type_kwargs")
    else:
        outer = section.section("quant_type")
        default = None if outer is None else outer.section("default")
        if default is None:
            section.refuse("quant_type", "an object with a configuration under default")
        kind = default.text("_type", allowed=_TORCHAO)
        options = default.section("_data")
    name, element_bytes, group_bytes, group_size, compute_dtype = _TORCHAO[kind]
    if options is not None and group_bytes:
        group_size = options.positive_int("group_size", default=group_size)
    return WeightFormat(
        name, element_bytes + group_bytes / group_size, compute_dtype or plain.compute_dtype
    )


# --- AutoRound -----------------------------------------------------------------------------------

_MICRO_SCALED: Final = {4: "mxfp4", 8: "mxfp8"}


def auto_round_format(section: Reader, plain: WeightFormat) -> WeightFormat:
    """Return the format of AutoRound: packed integers, FP8 in blocks, or micro-scaled floats."""
    kind = section.text("data_type", default="int")
    bits = section.positive_int("bits", maximum=8)
    if kind == "int":
        return packed_format(section, plain, zero_points=True)  # packed as GPTQ does
    if kind in {"fp", "fp8"} and bits == 8 and isinstance(section.values.get("group_size"), list):
        block = section.ints("group_size", minimum=1)
        if len(block) != 2:
            section.refuse("group_size", "two whole numbers, such as [128, 128]")
        return WeightFormat("fp8-block", 1.0 + 4 / (block[0] * block[1]), "fp8")
    if not kind.startswith("mx_fp") or bits not in _MICRO_SCALED:
        section.refuse("data_type", "int, fp with 8 bits in blocks, or mx_fp with 4 or 8 bits")
    form = WEIGHT_FORMATS[_MICRO_SCALED[bits]]
    if section.positive_int("act_bits", default=16) > 8:
        return WeightFormat(form.name, form.element_bytes, plain.compute_dtype)
    return form


# --- bitsandbytes --------------------------------------------------------------------------------

#: Weights that share a scale, and scales that share one of their own (Dettmers et al. 2023,
#: arXiv:2305.14314, section 3: 0.127 bits per weight).
_BNB_BLOCK: Final = 64
_BNB_SCALES: Final = 256


def bitsandbytes_format(section: Reader, plain: WeightFormat) -> WeightFormat:
    """Return the eight or four bits of bitsandbytes, weights of four bits by themselves."""
    eight, four = (
        section.flag(key, default=section.flag(f"_{key}", default=False))
        for key in ("load_in_8bit", "load_in_4bit")
    )
    if eight == four:
        section.refuse("load_in_4bit", "true, or load_in_8bit, and not both")
    if eight:
        return WEIGHT_FORMATS["int8"]
    name = section.text("bnb_4bit_quant_type", allowed=("fp4", "nf4"), default="fp4")
    share = 4 / _BNB_BLOCK  # a float32
    if section.flag("bnb_4bit_use_double_quant", default=False):
        share = 1 / _BNB_BLOCK + 4 / (_BNB_BLOCK * _BNB_SCALES)
    return WeightFormat(name, 0.5 + share, plain.compute_dtype)
