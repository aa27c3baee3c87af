"""Storage formats from what quantisation tools call them: algorithms, bits, groups.

Source
    The quantisation readers of transformers 5 (`quantizers/`) and vLLM
    (`model_executor/layers/quantization/`), and published checkpoints of each form.
"""

from typing import Final, NamedTuple

from specroof.architecture import BF16, FP32, WEIGHT_FORMATS, WeightFormat
from specroof.reading.json_object import Reader

#: Unquantised weights by the dtype of the activations, which they share.
PLAIN_FORMATS: Final = {"bf16": BF16, "fp16": WEIGHT_FORMATS["fp16"], "fp32": FP32}


class _Algorithm(NamedTuple):
    """A ModelOpt algorithm: bytes without scales, scale bytes per group, and its arithmetic.

    `compute_dtype` None means that only weights are narrow.
    """

    name: str
    element_bytes: float
    scale_bytes: float
    group_size: int
    compute_dtype: str | None


# NVIDIA ModelOpt; vLLM `modelopt.py`.
_ALGORITHMS: Final = {
    "FP8": _Algorithm("fp8", 1.0, 0.0, 1, "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": _Algorithm("fp8", 1.0, 0.0, 1, "fp8"),
    "MXFP8": _Algorithm("mxfp8", 1.0, 1.0, 32, "fp8"),
    "NVFP4": _Algorithm("nvfp4", 0.5, 1.0, 16, "fp4"),
    "W4A16_NVFP4": _Algorithm("nvfp4", 0.5, 1.0, 16, None),
}

# Arithmetic on weights and activations of both kinds.
_COMPUTE_DTYPES: Final = {
    ("float", 8): "fp8",
    ("float", 4): "fp4",
    ("int", 8): "int8",
    ("int", 4): "int4",
}
# Names of the 4 and 8 bit floats by whether they carry a scale per group of 16, 32 or none.
_FLOAT_NAMES: Final = {
    (4, 16): "nvfp4",
    (4, 32): "mxfp4",
    (8, 32): "mxfp8",
}


def modelopt_format(section: Reader, plain: WeightFormat) -> WeightFormat:
    """Return the format of a ``quant_algo`` and its ``group_size``."""
    algorithm = _ALGORITHMS[section.text("quant_algo", allowed=_ALGORITHMS)]
    group_size = algorithm.group_size
    if algorithm.scale_bytes:
        group_size = section.positive_int("group_size", default=group_size)
    return WeightFormat(
        algorithm.name,
        algorithm.element_bytes + algorithm.scale_bytes / group_size,
        algorithm.compute_dtype or plain.compute_dtype,
    )


def block_format(section: Reader, key: str) -> WeightFormat:
    """Return FP8 with a float32 scale per block of `key`, or one per tensor where it is null."""
    if not section.has(key):
        return WEIGHT_FORMATS["fp8"]
    block = section.ints(key, minimum=1)
    if len(block) != 2:
        section.refuse(key, "two whole numbers, such as [128, 128]")
    return WeightFormat("fp8-block", 1.0 + 4 / (block[0] * block[1]), "fp8")


def packed_format(section: Reader, plain: WeightFormat, *, zero_points: bool) -> WeightFormat:
    """Return the weight-only integers of AWQ and GPTQ.

    A group has a float16 scale and, with `zero_points`, one more integer. A `group_size` of -1 is
    a whole row: its scale is too small to count.
    """
    bits = section.positive_int("bits", "w_bit", maximum=8)
    group_size = section.positive_int("group_size", "q_group_size", minimum=-1)
    if group_size == 0:
        section.refuse("group_size", "-1 or a whole number from 1")
    scale_bytes = 2 + (bits / 8 if zero_points else 0.0)
    share = scale_bytes / group_size if group_size > 0 else 0.0
    return WeightFormat(f"int{bits}", bits / 8 + share, plain.compute_dtype)


def compressed_format(group: Reader, plain: WeightFormat) -> WeightFormat | None:
    """Return the format of a compressed-tensors group; None where it leaves weights alone."""
    weights = group.section("weights")
    if weights is None:
        return None
    number = weights.text("type", allowed=("float", "int"))
    bits = weights.positive_int("num_bits", maximum=8)
    if number == "float" and bits not in {4, 8}:
        weights.refuse("num_bits", "4 or 8 for floats")
    group_size = weights.optional_int("group_size") or 0
    if weights.has("block_structure"):
        return block_format(weights, "block_structure")
    return WeightFormat(
        _name(number, bits, group_size),
        bits / 8 + _scale_share(number, bits, group_size),
        _compute_dtype(group, plain),
    )


def _name(number: str, bits: int, group_size: int) -> str:
    if number == "int":
        return f"int{bits}"
    return _FLOAT_NAMES.get((bits, group_size), f"fp{bits}")


def _scale_share(number: str, bits: int, group_size: int) -> float:
    """Return scale bytes per weight: one byte a group for micro-scaled floats, else bf16.

    Without groups the scale belongs to a channel or tensor and is too small to count.
    """
    if not group_size:
        return 0.0
    return (1.0 if (bits, group_size) in _FLOAT_NAMES and number == "float" else 2.0) / group_size


def _compute_dtype(group: Reader, plain: WeightFormat) -> str:
    """Return the dtype of the arithmetic: the activations', which are never narrower."""
    activations = group.section("input_activations")
    if activations is None:
        return plain.compute_dtype
    kind = (
        activations.text("type", allowed=("float", "int")),
        activations.positive_int("num_bits", maximum=8),
    )
    if kind not in _COMPUTE_DTYPES:
        activations.refuse("num_bits", "4 or 8")
    return _COMPUTE_DTYPES[kind]
