"""Published checkpoints of DeepSeek, Kimi, GLM, MiniMax, Mistral Large and the larger Qwen.

Their real configs parse, with their sidecars; bundled ones say the same in fewer words; sizes are
those of the names; whatever somebody breaks in a config is refused in one line.
"""

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import bounded
from specroof.architecture import Architecture
from specroof.cost import ForwardPass, forward_cost, kv_bytes_per_token
from specroof.errors import ConfigError
from specroof.parsers import parse_config
from tiny_configs import TINY_COMPRESSED, TINY_LATENT, Config
from tiny_mixtures import DEEPSEEK_V2, GLM_4_5, GLM_5, MIMO, MINIMAX_M2, MINIMAX_M3, STEP


class Size(NamedTuple):
    """What a publisher says, in billions, and what that counts beside the language model."""

    total: float
    active: float
    rounded_to: float = 1.0
    beside: float = 0.0


# Sizes are in the names, or on the model cards of the series.
DEEPSEEK_V3 = Size(671, 37)  # arXiv:2412.19437, abstract
DEEPSEEK_V4_FLASH = Size(284, 13)
KIMI_K2 = Size(1000, 32, rounded_to=100)  # "1T-A32B"
# arXiv:2508.06471, table 1: the draft layer counts, embedding and head do not. The layer is
# attention, 161 experts and a router, a joining matrix of 5120 x 10240.
GLM_4_5_SIZE = Size(355, 32, beside=0.136 + 161 * 0.02359 + 0.0008 + 0.0524)
GLM_5_SIZE = Size(744, 40)
MINIMAX_M2_SIZE = Size(230, 10, rounded_to=10)
QWEN_122B = Size(122, 10)
SIZES = {
    "Qwen--Qwen3-235B-A22B": Size(235, 22),
    "Qwen--Qwen3-30B-A3B-FP8": Size(30, 3),
    "Qwen--Qwen3-Coder-480B-A35B-Instruct": Size(480, 35),
    "Qwen--Qwen3-Coder-Next": Size(80, 3),
    "Qwen--Qwen3.5-122B-A10B-FP8": QWEN_122B,
    "deepseek-ai--DeepSeek-R1": DEEPSEEK_V3,
    "MiniMaxAI--MiniMax-M2": MINIMAX_M2_SIZE,
    "MiniMaxAI--MiniMax-M2.7": MINIMAX_M2_SIZE,
    # The name counts a vision encoder of 48 layers: 4 * 1664^2 + 3 * 1664 * 8192 each.
    "mistralai--Mistral-Large-3-675B-Base-2512": Size(675, 39, beside=2.5),
    "moonshotai--Kimi-K2-Instruct": KIMI_K2,
    "moonshotai--Kimi-K2.5": KIMI_K2,
    "nvidia--DeepSeek-V3.1-NVFP4": DEEPSEEK_V3,
    "nvidia--DeepSeek-V3.2-NVFP4": DEEPSEEK_V3,
    "nvidia--DeepSeek-V4-Flash-NVFP4": DEEPSEEK_V4_FLASH,
    "nvidia--GLM-5-NVFP4": GLM_5_SIZE,
    "nvidia--Kimi-K2.5-NVFP4": KIMI_K2,
    "nvidia--Kimi-K2.7-Code-NVFP4": KIMI_K2,
    "nvidia--MiniMax-M2.5-NVFP4": MINIMAX_M2_SIZE,
    "nvidia--MiniMax-M2.7-NVFP4": MINIMAX_M2_SIZE,
    "nvidia--Qwen3-235B-A22B-NVFP4": Size(235, 22),
    # 396.35 without the vision tower of 0.45
    "nvidia--Qwen3.5-397B-A17B-NVFP4": Size(397, 17, beside=0.45),
    "nvidia--Qwen3.6-27B-NVFP4": Size(27, 27),
    "nvidia--Qwen3.6-35B-A3B-NVFP4": Size(35, 3),
    "sgl-project--DeepSeek-V4-Flash-FP8": DEEPSEEK_V4_FLASH,
    "sgl-project--DeepSeek-V4-Pro-FP8": Size(1600, 49, rounded_to=100),
    "zai-org--GLM-4.5": GLM_4_5_SIZE,
    "zai-org--GLM-4.7": GLM_4_5_SIZE,
    "zai-org--GLM-5": GLM_5_SIZE,
    "zai-org--GLM-5-FP8": GLM_5_SIZE,
    "zai-org--GLM-5.1": GLM_5_SIZE,
    "zai-org--GLM-5.1-FP8": GLM_5_SIZE,
}
#: No size to compare with, and where theirs is counted instead.
UNNAMED = {
    # "2.4B active" cuts 2.45; test_families_latent.py has all of its elements.
    "deepseek-ai--DeepSeek-V2-Lite",
    # GLM-5 without the indexers of 57 layers: test_families_latent.py.
    "zai-org--GLM-5.2",
    "zai-org--GLM-5.2-FP8",
    "nvidia--GLM-5.2-NVFP4",
    # test_families_mixtures.py has all of its elements.
    "MiniMaxAI--MiniMax-M3",
}
NAMES = sorted(UNNAMED | set(SIZES))


def read(file: Path) -> Architecture:
    """Return a config file with the sidecar beside it, if there is one."""
    sidecar = file.with_suffix(".hf_quant_config.json")
    return parse_config(
        file.read_text(encoding="utf-8"),
        source=file.name,
        quantization_text=sidecar.read_text(encoding="utf-8") if sidecar.exists() else None,
    )


def real_file(folder: Path, name: str) -> Path:
    """Return the real config, or the one that somebody restated."""
    file = folder / f"{name}.json"
    return file if file.exists() else folder / "reconstructed" / file.name


def assert_sound(model: Architecture) -> None:
    """Price a few passes: every amount is a finite number, and there is work and traffic."""
    forward = ForwardPass(
        batch_size=np.array([1.0, 64.0])[:, None, None],
        query_len=np.array([1.0, 8.0])[:, None],
        context_len=np.array([0.0, 4096.0, 1e6]),
    )
    flops = moved = np.zeros(())
    for op in forward_cost(model, forward):
        for amount in (op.flops, op.weight_bytes, op.cache_bytes, op.activation_bytes):
            assert np.all(np.isfinite(amount))
            assert np.all(amount >= 0)
        flops = flops + op.count * op.flops
        moved = moved + op.count * op.memory_bytes
    assert np.all(flops > 0)
    assert np.all(moved > 0)
    assert math.isfinite(kv_bytes_per_token(model))


# --- real configs --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_real_config_gives_a_sound_pass(name: str, real_configs: Path) -> None:
    assert_sound(read(real_file(real_configs, name)))


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_config_says_what_the_real_one_says(
    name: str, real_configs: Path, model_configs_folder: Path
) -> None:
    real = read(real_file(real_configs, name))
    bundled = read(model_configs_folder / f"{name}.json")
    if name.startswith("sgl-project"):
        real = replace(real, family=bundled.family)  # restated under another type
    assert replace(bundled, name="", notes=()) == replace(real, name="", notes=())


@pytest.mark.parametrize("name", ["stepfun-ai--Step-3.7-Flash", "stepfun-ai--Step-3.7-Flash-FP8"])
def test_a_config_that_somebody_trimmed_is_refused_in_one_line(
    name: str, real_configs: Path
) -> None:
    with pytest.raises(
        ConfigError, match=f"^{name}.json: attention_other_setting is missing; allowed: an object"
    ):
        read(real_file(real_configs, name))


def test_minimax_m3_is_the_same_under_its_other_type(real_configs: Path) -> None:
    # restated with the keys of the language model at the root
    flat = read(real_configs / "reconstructed" / "MiniMaxAI--MiniMax-M3.json")
    nested = read(real_configs / "MiniMaxAI--MiniMax-M3.json")
    assert (flat.family, nested.family) == ("minimax_m3", "minimax_m3_vl")
    assert flat.layers == nested.layers


def test_a_converted_deepseek_v4_says_what_it_takes_for_granted(real_configs: Path) -> None:
    model = read(real_file(real_configs, "sgl-project--DeepSeek-V4-Flash-FP8"))
    assert model.notes[-1].startswith("expert_dtype is not given: fp8")
    mxfp4 = read(real_configs / "deepseek-ai--DeepSeek-V4-Flash.json")
    assert model.n_params == mxfp4.n_params
    assert model.weight_bytes > 1.8 * mxfp4.weight_bytes


# --- sizes ---------------------------------------------------------------------------------------


@cache
def bundled(folder: Path, name: str) -> Architecture:
    return read(folder / f"{name}.json")


def agrees(n_params: int, model: Architecture, stated: float, within: float) -> bool:
    """Tell whether a count rounds to what is stated, embedding and head counted or left out."""
    tables = [n * model.embedding_params for n in (0, 1, 2)]
    return any(abs((n_params - table) / 1e9 - stated) <= within / 2 for table in tables)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_sizes_are_those_of_the_name(name: str, model_configs_folder: Path) -> None:
    model, size = bundled(model_configs_folder, name), SIZES[name]
    total = model.n_params + round(size.beside * 1e9)
    assert agrees(total, model, size.total, size.rounded_to)
    assert agrees(model.n_active_params, model, size.active, 1.0)


# --- quantised builds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kv_dtype"),
    [(name, "fp8" if "NVFP4" in name and "V4" not in name else "bf16") for name in NAMES],
)
def test_only_nvfp4_builds_narrow_the_cache(
    name: str, kv_dtype: str, model_configs_folder: Path
) -> None:
    assert bundled(model_configs_folder, name).kv_dtype == kv_dtype


#: Bytes of a weight, worked out by hand.
BF16, FP8, NVFP4, INT4_32 = 2.0, 1 + 4 / 16384, 0.5 + 1 / 16, 0.5 + 2 / 32


@pytest.mark.parametrize(
    ("name", "plain", "widths"),
    [
        # attention, dense and shared experts, routed experts
        ("zai-org--GLM-5-FP8", "zai-org--GLM-5", (FP8, FP8, FP8)),
        ("nvidia--GLM-5-NVFP4", "zai-org--GLM-5", (BF16, NVFP4, NVFP4)),
        ("nvidia--GLM-5.2-NVFP4", "zai-org--GLM-5.2", (BF16, BF16, NVFP4)),
        ("moonshotai--Kimi-K2.5", "moonshotai--Kimi-K2-Instruct", (BF16, BF16, INT4_32)),
        ("nvidia--Kimi-K2.5-NVFP4", "moonshotai--Kimi-K2-Instruct", (BF16, NVFP4, NVFP4)),
        ("nvidia--MiniMax-M2.7-NVFP4", "MiniMaxAI--MiniMax-M2.7", (BF16, BF16, NVFP4)),
        ("nvidia--Qwen3-235B-A22B-NVFP4", "Qwen--Qwen3-235B-A22B", (NVFP4, NVFP4, NVFP4)),
    ],
)
def test_bytes_are_the_matrices_at_the_stated_widths(
    name: str, plain: str, widths: tuple[float, float, float], model_configs_folder: Path
) -> None:
    model = bundled(model_configs_folder, name)
    reference = bundled(model_configs_folder, plain)
    narrow = 0.0
    for layer in reference.layers:
        attention, feed_forward = layer.blocks
        dense = sum(one.matrix_params for one in feed_forward.linears if one.kind == "dense")
        experts = feed_forward.core.n_params if feed_forward.core else 0
        projections = sum(
            one.matrix_params for one in attention.linears if one.name != "indexer_weights_proj"
        )
        sizes = (projections, dense, experts)
        narrow += layer.count * sum(
            size * (BF16 - width) for size, width in zip(sizes, widths, strict=True)
        )
    assert model.n_params == reference.n_params
    assert model.weight_bytes == pytest.approx(BF16 * model.n_params - narrow, rel=1e-12)


# --- broken configs ------------------------------------------------------------------------------

MISSING = object()
VALUES = st.one_of(
    st.sampled_from([MISSING, None, True, False, 0, -1, 1, 2, 3, 7, 128, 1.5, math.inf, math.nan]),
    st.sampled_from([2**24, 2**24 + 1, 10**40, "", "full", "FSSF", "1,2", "x" * 5000, "\ud800"]),
    st.sampled_from([[], [0], [1] * 100, ["full"] * 100, ["sparse"] * 100, [None], {}, {"a": 1}]),
)
#: Families of which no checkpoint is bundled.
UNBUNDLED: tuple[Config, ...] = (
    *(DEEPSEEK_V2, GLM_4_5, GLM_5, MIMO, MINIMAX_M2, MINIMAX_M3, STEP),
    *({**TINY_LATENT, "model_type": name} for name in ("mistral4", "glm4_moe_lite", "kimi_k25")),
    {**STEP, "model_type": "step3p7", "moe_layers_enum": [1, 2]},
    {**TINY_COMPRESSED, "model_type": "deepseek_ref"},
)


def paths(config: Any) -> list[tuple[str, ...]]:
    """Return the way to every value of nested objects."""
    if not isinstance(config, dict):
        return []
    inner = [(key, *rest) for key, value in config.items() for rest in paths(value)]
    return [*((key,) for key in config), *inner]


def mutated(config: Config, path: tuple[str, ...], value: object) -> Config:
    """Return a copy with one value replaced or dropped."""
    key, *rest = path
    if rest:
        child = config.get(key)
        return (
            config | {key: mutated(child, tuple(rest), value)}
            if isinstance(child, dict)
            else config
        )
    kept = {name: old for name, old in config.items() if name != key}
    return kept if value is MISSING else kept | {key: value}


@pytest.mark.fuzz
@given(st.data())
@bounded(700)
def test_a_broken_config_is_read_soundly_or_refused_in_one_line(
    model_configs_folder: Path, data: st.DataObject
) -> None:
    source = data.draw(st.sampled_from([*NAMES, *range(len(UNBUNDLED))]))
    config = (
        json.loads((model_configs_folder / f"{source}.json").read_text(encoding="utf-8"))
        if isinstance(source, str)
        else UNBUNDLED[source]
    )
    for path in data.draw(st.lists(st.sampled_from(paths(config)), min_size=1, max_size=2)):
        config = mutated(config, path, data.draw(VALUES))
    try:
        model = parse_config(json.dumps(config), source="some/config.json")
    except ConfigError as refusal:
        message = str(refusal)
        assert message.startswith("some/config.json: ")
        assert message.isprintable()
    else:
        assert 0 < model.n_active_params <= model.n_params
        assert 0 < model.weight_bytes < math.inf
        assert_sound(model)
