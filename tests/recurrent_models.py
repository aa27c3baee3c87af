"""The bundled and real configs of families with Mamba2, Kimi delta or lightning attention."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from specroof.architecture import Architecture, Linear
from specroof.parsers import parse_config

Config = dict[str, Any]

KIMI: Final = "moonshotai--Kimi-Linear-48B-A3B-Instruct"
K3: Final = "moonshotai--Kimi-K3"
H56: Final = "nvidia--Nemotron-H-56B-Base-8K"
NANO: Final = "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
NANO_FP4: Final = "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"
SUPER: Final = "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-BF16"
ULTRA: Final = "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"
M1: Final = "MiniMaxAI--MiniMax-M1-80k"
M1_SHORT: Final = "MiniMaxAI--MiniMax-M1-40k"
GRANITE_1B: Final = "ibm-granite--granite-4.0-h-1b"
GRANITE_TINY: Final = "ibm-granite--granite-4.0-h-tiny"
FALCON_HALF: Final = "tiiuae--Falcon-H1-0.5B"
FALCON_3B: Final = "tiiuae--Falcon-H1-3B"
FALCON_7B: Final = "tiiuae--Falcon-H1-7B"

BUNDLED: Final = (
    *(KIMI, K3, H56, NANO, NANO_FP4, SUPER, ULTRA, M1, M1_SHORT),
    *(GRANITE_1B, GRANITE_TINY, FALCON_HALF, FALCON_3B, FALCON_7B),
)

#: The whole file that says the same as a bundled one, where it goes by another name.
REAL_NAMES: Final = {
    NANO: NANO_FP4,  # without its sidecar
    SUPER: "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",  # whose sidecar is not there
    M1_SHORT: M1,
    **{
        name: f"reconstructed/{name}"
        for name in (GRANITE_1B, GRANITE_TINY, FALCON_HALF, FALCON_3B, FALCON_7B)
    },
}

FAMILIES: Final = frozenset(
    {"kimi_linear", "nemotron_h", "falcon_h1", "granitemoehybrid", "minimax_m1"}
)


def parse(config: Config, sidecar: Config | None = None) -> Architecture:
    return parse_config(
        json.dumps(config),
        source="some/config.json",
        quantization_text=None if sidecar is None else json.dumps(sidecar),
    )


def load(folder: Path, name: str) -> Config:
    config: Config = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return config


def read(folder: Path, name: str, *, with_sidecar: bool = True) -> Architecture:
    file, sidecar = (folder / f"{name}{end}" for end in (".json", ".hf_quant_config.json"))
    text = sidecar.read_text(encoding="utf-8") if with_sidecar and sidecar.exists() else None
    return parse_config(file.read_text(encoding="utf-8"), source=file.name, quantization_text=text)


def without_name(model: Architecture) -> Architecture:
    return replace(model, name="", notes=())


def linears(model: Architecture, label: str) -> dict[str, Linear]:
    """Return the matrices of the first layer that has a block of this label, by name."""
    blocks = [block for layer in model.layers for block in layer.blocks if block.label == label]
    return {linear.name: linear for linear in blocks[0].linears}


def shapes(model: Architecture, label: str) -> dict[str, tuple[int, int]]:
    """Return [out, in] of those matrices."""
    return {
        name: (linear.out_features, linear.in_features)
        for name, linear in linears(model, label).items()
    }
