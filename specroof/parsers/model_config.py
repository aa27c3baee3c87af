"""One config, opened: what every family parser is handed."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from specroof.architecture import Architecture, VisionTower
from specroof.errors import ConfigError
from specroof.parsers.formats.quantization import Quantization, read_quantization
from specroof.parsers.formats.weight_formats import PLAIN_FORMATS
from specroof.reading.json_object import MAX_LAYERS, Reader, read_json
from specroof.units import format_binary_bytes

#: Torch's names of dtypes, with and without its prefix.
DTYPES: Final = {
    f"{prefix}{name}": dtype
    for prefix in ("", "torch.")
    for name, dtype in (("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "fp32"))
}

_DRAFT_LAYER_KEYS: Final = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_layers",
    "num_mtp_modules",
)
#: What is said of models that come with such layers.
MTP_NOTE: Final = "multi-token-prediction layer not counted among the model's weights"
DSPARK_NOTE: Final = "DSpark drafter not counted among the model's weights"
_OTHER_TOWERS: Final = {"vision_config": "vision tower", "audio_config": "audio tower"}

# What a checkpoint's name says about the storage of its weights.
_STORAGE_IN_NAME: Final = re.compile(
    r"(?<![a-z0-9])(?:fp8|fp4|nvfp4|mxfp4|int8|int4|awq|gptq)(?![a-z0-9])", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, eq=False)
class ModelConfig:
    """A config file, opened.

    Parameters
    ----------
    name, family
        What outputs call the model, and the `model_type` it is read as.
    keys
        The keys of the language model: those of `text_config`, or the root's.
    root
        The whole file.
    quantization
        How its matrices are stored.
    activation_dtype
        Of what flows between them.
    notes
        Sentences for the reader.
    states_quantization
        Whether the file itself has a `quantization_config`, sidecar or not.
    is_foreign
        Whether the file names another `model_type` than it is read as, or none.
    """

    name: str
    family: str
    keys: Reader
    root: Reader
    quantization: Quantization
    activation_dtype: str
    notes: tuple[str, ...] = ()
    states_quantization: bool = False
    is_foreign: bool = False

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return self.keys.positive_int("hidden_size")

    @property
    def n_layers(self) -> int:
        """Layers of the model, those of a draft head apart."""
        return self.keys.positive_int("num_hidden_layers", maximum=MAX_LAYERS)


def read_files(
    text: str, quantization_text: str | None, *, source: str
) -> tuple[Reader, Reader | None]:
    """Return a config and the `hf_quant_config.json` beside it, if there is one."""
    sidecar = None
    if quantization_text is not None:
        sidecar = read_json(quantization_text, source=f"hf_quant_config.json of {source}")
    return read_json(text, source=source), sidecar


def typed_section(root: Reader) -> Reader:
    """Return where a file says its `model_type`: in `text_config`, or at its top."""
    keys = root.section("text_config")
    return keys if keys is not None and keys.has("model_type") else root


def open_config(
    root: Reader,
    *,
    known: Collection[str],
    name: str | None,
    family: str | None,
    sidecar: Reader | None,
) -> ModelConfig:
    """Return the opened config, with what is common to all families read.

    A nested file is read by the `model_type` of its `text_config`. A `family` given by the user
    stands in for a type that is not one of `known`, or is missing.
    """
    keys = root.section("text_config") or root
    typed = typed_section(root)
    section = quantization_section(keys, root)
    dtype = activation_dtype(keys, root)
    name = name or config_name(root)
    stated = section is not None or sidecar is not None
    stand_in = _family_notes(typed, family)
    return ModelConfig(
        name=f"{name} (as {family})" if stand_in else name,
        family=family or typed.text("model_type", allowed=known),
        keys=keys,
        root=root,
        quantization=read_quantization(section, sidecar, PLAIN_FORMATS[dtype]),
        activation_dtype=dtype,
        notes=(
            *stand_in,
            *_part_notes(root, keys),
            *([] if stated else _storage_notes(name, dtype)),
        ),
        states_quantization=section is not None,
        is_foreign=bool(stand_in),
    )


def sidecar_notes(
    config: ModelConfig,
    model: Architecture,
    sidecar: Reader,
    parse: Callable[[ModelConfig], Architecture],
) -> list[str]:
    """Return what a reader must know where config and sidecar say different things.

    The two are compared by the models that they make, since they spell the same lists differently.
    """
    plain = PLAIN_FORMATS[config.activation_dtype]
    try:
        quantization = read_quantization(None, sidecar, plain)
        other = parse(replace(config, quantization=quantization, states_quantization=False))
    except ConfigError as refusal:
        return [f"quantization_config counts; the file beside it is not understood: {refusal}"]
    notes = []
    if (other.layers, other.head) != (model.layers, model.head):
        said = format_binary_bytes(other.weight_bytes)
        notes.append(
            "quantization_config and the hf_quant_config.json beside it differ: weights of "
            f"{format_binary_bytes(model.weight_bytes)} by the first, which counts, {said} by the "
            "second"
        )
    if quantization.kv_dtype not in {None, model.kv_dtype}:
        notes.append(
            f"quantization_config says a KV cache of {model.kv_dtype}, which counts, and the "
            f"hf_quant_config.json beside it {quantization.kv_dtype}"
        )
    return notes


def config_name(root: Reader) -> str:
    """Return the name that outputs use: the file ``ORG--NAME.json`` is ORG/NAME."""
    return PurePath(root.source).stem.replace("--", "/")


def quantization_section(keys: Reader, root: Reader) -> Reader | None:
    """Return what a file says about the storage of its matrices, at either level."""
    return keys.section("quantization_config") or root.section("quantization_config")


def activation_dtype(keys: Reader, root: Reader) -> str:
    """Return the dtype between matrices, as the keys of the layers or the root say."""
    stated = keys if keys.has("dtype") or keys.has("torch_dtype") else root
    # Published files without the key (gpt-oss) are bfloat16.
    return DTYPES[stated.text("dtype", "torch_dtype", allowed=DTYPES, default="bfloat16")]


def _family_notes(typed: Reader, family: str | None) -> list[str]:
    if family is None:
        return []
    model_type = typed.text("model_type", default="(missing)")
    if model_type.removesuffix("_text") == family.removesuffix("_text"):
        return []
    return [f"read as family {family}: the config says model_type {model_type}"]


def _storage_notes(name: str, dtype: str) -> list[str]:
    """Return what a reader must know where the file that says how weights are stored is missing."""
    found = _STORAGE_IN_NAME.search(name)
    if found is None:
        return []
    missing = "neither a quantization_config nor a hf_quant_config.json came with it"
    return [f"the name says {found[0]}, but {missing}: weights read as {dtype}"]


def vision_tower(root: Reader) -> VisionTower | None:
    """Return what reads images, in the two sizes by which servers reserve memory for it."""
    tower = root.section("vision_config")
    if tower is None:
        return None
    sizes = ("num_hidden_layers", "hidden_size", "depth", "embed_dim")
    return VisionTower(*(tower.optional_int(key) for key in sizes))


def _part_notes(root: Reader, keys: Reader) -> list[str]:
    notes = [f"{tower} left out" for key, tower in _OTHER_TOWERS.items() if root.has(key)]
    if keys.has("dspark_block_size"):
        notes.append(DSPARK_NOTE)
    elif any(keys.positive_int(key, minimum=0, default=0) for key in _DRAFT_LAYER_KEYS):
        notes.append(MTP_NOTE)
    return notes
