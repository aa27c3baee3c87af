"""Small configs of each family (data/tiny_configs.yaml), and how tests look into models."""

import copy
import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import yaml

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import Linear
from specroof.architecture.experts import Experts
from specroof.architecture.model import Architecture
from specroof.errors import ConfigError
from specroof.parsers import parse_config
from tables import refusal

Config = dict[str, Any]

DATA: Final = Path(__file__).parent / "data"
CONFIGS: Final[dict[str, Config]] = yaml.safe_load((DATA / "tiny_configs.yaml").read_text("utf-8"))
TINY, TINY_EXPERTS, TINY_HYBRID = (
    CONFIGS[name] for name in ("TINY", "TINY_EXPERTS", "TINY_HYBRID")
)
TINY_LATENT, TINY_COMPRESSED = CONFIGS["TINY_LATENT"], CONFIGS["TINY_COMPRESSED"]
STATED, FP8_BLOCKS = CONFIGS["STATED"], CONFIGS["FP8_BLOCKS"]


def of(name: str, *gone: str, **keys: Any) -> Config:
    """Return a small config without some of its keys and with others."""
    return {key: value for key, value in (CONFIGS[name] | keys).items() if key not in gone}


def changed(config: Config, changes: Config) -> Config:
    """Return a config with values at a/b changed, which stand inside of sections; $GONE drops."""
    whole = copy.deepcopy(config)
    for path, value in changes.items():
        *sections, last = (int(key) if key.isdigit() else key for key in path.split("/"))
        place: Any = whole
        for key in sections:
            place = place[key]
        if value == "$GONE":
            del place[last]
        else:
            place[last] = value
    return whole


def parse(config: Config, sidecar: Config | None = None, **options: str) -> Architecture:
    """Return what the text of a config becomes."""
    quantization_text = None if sidecar is None else json.dumps(sidecar)
    return parse_config(
        json.dumps(config),
        source=options.pop("source", "config.json"),
        quantization_text=quantization_text,
        **options,
    )


def model_of(name: str, *gone: str, **keys: Any) -> Architecture:
    """Return the model of a small config that is changed."""
    return parse(of(name, *gone, **keys))


def quantized(config: Config, section: Config) -> Architecture:
    """Return the model of a config with a section on quantisation."""
    return parse(config | {"quantization_config": section})


def refused(config: Config, **options: Any) -> str:
    """Return the one line with which a config is refused, from its key on."""
    line = refusal(ConfigError, parse, config, **options)
    assert line.startswith("config.json: ")
    return line.removeprefix("config.json: ")


def left_out(model: Architecture) -> tuple[str, ...]:
    """Return the notes of a model but that of unread keys, which small configs have many of."""
    return tuple(note for note in model.notes if not note.startswith("not understood"))


def linears(model: Architecture, layer: int = 0) -> dict[str, Linear]:
    """Return the matrices of one of the distinct layers by name."""
    blocks = model.layers[layer].blocks
    return {linear.name: linear for linear in chain(*(block.linears for block in blocks))}


def labelled(model: Architecture, label: str) -> dict[str, Linear]:
    """Return the matrices of the first layer that has a block of this label, by name."""
    blocks = [block for layer in model.layers for block in layer.blocks if block.label == label]
    return {linear.name: linear for linear in blocks[0].linears}


def shapes(matrices: dict[str, Linear]) -> dict[str, tuple[int, int]]:
    """Return [out, in] of matrices."""
    return {name: (one.out_features, one.in_features) for name, one in matrices.items()}


def cores(model: Architecture) -> list[Any]:
    """Return the core of each distinct layer's mixer."""
    return [layer.blocks[0].core for layer in model.layers]


def experts(model: Architecture) -> list[Experts]:
    """Return the experts of each distinct layer that has some."""
    return [core for _, core in model.counted_cores if isinstance(core, Experts)]


def windows(model: Architecture) -> dict[int | None, int]:
    """Return how many layers have each window."""
    found: dict[int | None, int] = {}
    for count, core in model.counted_cores:
        if isinstance(core, GroupedQueryAttention):
            found[core.window] = found.get(core.window, 0) + count
    return found


def formats(model: Architecture) -> set[str]:
    """Return the names of all formats inside layers."""
    blocks = [block for layer in model.layers for block in layer.blocks]
    cored = {block.core.weight.name for block in blocks if isinstance(block.core, Experts)}
    return cored | {linear.weight.name for block in blocks for linear in block.linears}


def plain(model: Architecture, layer: int = 0) -> set[str]:
    """Return the matrices of a distinct layer that stay in 16 bits, but for its router."""
    found = linears(model, layer).items()
    return {name for name, linear in found if linear.weight.name == "bf16"} - {"router"}


def anonymous(model: Architecture) -> Architecture:
    """Return a model without what depends on where its config came from."""
    family = model.family.removesuffix("_text")
    return replace(model, name="", notes=(), family=family, vision=None)


def read_config(file: Path, *, sidecar: bool = True) -> Architecture:
    """Return a config file with the sidecar beside it, if there is one."""
    beside = file.with_suffix(".hf_quant_config.json")
    text = beside.read_text(encoding="utf-8") if sidecar and beside.exists() else None
    return parse_config(file.read_text(encoding="utf-8"), source=file.name, quantization_text=text)
