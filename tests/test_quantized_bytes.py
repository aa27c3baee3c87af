"""Bytes of quantised checkpoints against the matrices of the same checkpoint in 16 bits.

Every number of elements is worked out by hand from the sizes in the config, every width from what
the format stores per group. What is not listed keeps its two bytes.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specroof.architecture import Architecture
from specroof.catalog import load_model
from specroof.parsers import parse_config
from tiny_configs import Config

# Bytes of a weight with its share of the scales, which cost this much per group:
FP8 = 1.0  # one float32 per tensor: nothing
FP8_BLOCK = 1 + 4 / (128 * 128)  # a float32 per 128 x 128
FP8_CHANNEL = 1.0  # a bf16 per row: 1/2560 of it at 5120 columns, and not counted
MXFP4 = 0.5 + 1 / 32  # one byte per 32
NVFP4 = 0.5 + 1 / 16  # one byte per 16
INT4_ZEROS = 0.5 + (2 + 0.5) / 128  # a float16 scale and a 4-bit zero per 128
INT4_32 = 0.5 + 2 / 32  # a bf16 scale per 32

# Qwen3-32B, 64 layers: q and o 5120 x 8192, k and v 5120 x 1024, three matrices 5120 x 25600.
QWEN3_32B = 64 * (2 * 5120 * 8192 + 2 * 5120 * 1024 + 3 * 5120 * 25600)
# Qwen3-30B-A3B, 48 layers: q and o 2048 x 4096, k and v 2048 x 512, 128 experts of three 2048 x
# 768; the routers stay.
QWEN3_30B = 48 * (2 * 2048 * 4096 + 2 * 2048 * 512 + 128 * 3 * 2048 * 768)
# Qwen3-235B-A22B, 94 layers: q and o 4096 x 8192, k and v 4096 x 512, 128 experts of 1536.
QWEN3_235B = 94 * (2 * 4096 * 8192 + 2 * 4096 * 512 + 128 * 3 * 4096 * 1536)
# DeepSeek-V3: latent attention 7168 -> 1536 -> 128 heads of 192, 7168 -> 576, 512 -> 128 heads of
# 256, 128 heads of 128 -> 7168; 3 dense layers of 18432; 58 of 256 + 1 experts of 2048.
LATENT = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
DEEPSEEK_V3 = 61 * LATENT + 3 * 3 * 7168 * 18432 + 58 * 257 * 3 * 7168 * 2048
# Devstral Small 2, 40 layers: q and o 5120 x 4096, k and v 5120 x 1024, three of 5120 x 32768.
DEVSTRAL = 40 * (2 * 5120 * 4096 + 2 * 5120 * 1024 + 3 * 5120 * 32768)
# Llama-3.1-70B, 80 layers: q and o 8192 x 8192, k and v 8192 x 1024, three of 8192 x 28672.
LLAMA_70B = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
# Qwen3.6-27B: in fp8 the projections of 48 linear (q, k, v, z to 16384 channels; 6144 back) and
# of 16 full attentions (gated q, k, v, o); in nvfp4 64 feed-forwards of 17408, and the head.
QWEN36_FP8 = 48 * 5120 * (16384 + 6144) + 16 * 5120 * (12288 + 1024 + 1024 + 6144)
QWEN36_NVFP4 = 64 * 3 * 5120 * 17408 + 5120 * 248320

#: Elements and bytes of each, of a published checkpoint.
SHIPPED: dict[str, list[tuple[int, float]]] = {
    # fp8 per block, with a list of what stays
    "Qwen--Qwen3-30B-A3B-FP8": [(QWEN3_30B, FP8_BLOCK)],
    # ... without one, and with the router of every layer left out by convention
    "deepseek-ai--DeepSeek-V3.1": [(DEEPSEEK_V3, FP8_BLOCK)],
    # fp8 per tensor: of transformers, of ModelOpt without a method, in a sidecar only
    "mistralai--Devstral-Small-2-24B-Instruct-2512": [(DEVSTRAL, FP8)],
    "Qwen--Qwen3-32B-FP8-Static-PerTensor": [(QWEN3_32B, FP8)],
    "nvidia--Llama-3.1-70B-Instruct-FP8": [(LLAMA_70B, FP8)],
    # NVFP4 in a sidecar only; and in both files, for the feed-forwards alone
    "nvidia--Qwen3-235B-A22B-NVFP4": [(QWEN3_235B, NVFP4)],
    "nvidia--Gemma-4-31B-IT-NVFP4": [(60 * 3 * 5376 * 21504, NVFP4)],
    # a format for each module
    "nvidia--Qwen3.6-27B-NVFP4": [(QWEN36_FP8, FP8), (QWEN36_NVFP4, NVFP4)],
    # MXFP4 of gpt-oss, 24 layers of 32 experts of three 2880 x 2880; their biases stay
    "openai--gpt-oss-20b": [(24 * 32 * 3 * 2880 * 2880, MXFP4)],
    "Qwen--Qwen3-32B-AWQ": [(QWEN3_32B, INT4_ZEROS)],
    # compressed-tensors: int4 and packed MXFP4 of routed experts, all else ignored by expression
    "moonshotai--Kimi-K2.5": [(60 * 384 * 3 * 7168 * 2048, INT4_32)],
    "moonshotai--Kimi-K3": [(92 * 896 * 3 * 3584 * 3072, MXFP4)],
}


def without_quantization(config: Config) -> Config:
    """Return a config that says nothing of quantisation, at either level."""
    return {
        key: without_quantization(value) if key == "text_config" else value
        for key, value in config.items()
        if key != "quantization_config"
    }


def parsed(config: Config) -> Architecture:
    """Return the model of a config without a sidecar."""
    return parse_config(json.dumps(config), source="config.json")


def saved(parts: list[tuple[int, float]]) -> float:
    """Return the bytes that the narrow matrices save over two bytes each."""
    return sum(elements * (2 - width) for elements, width in parts)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_checkpoint_saves_what_its_narrow_matrices_do(
    name: str, real_configs: Path
) -> None:
    file = real_configs / f"{name}.json"
    wide = parsed(without_quantization(json.loads(file.read_text(encoding="utf-8"))))
    narrow = load_model(file)
    assert wide.weight_bytes - narrow.weight_bytes == pytest.approx(saved(SHIPPED[name]), rel=1e-12)
    assert wide.n_params == narrow.n_params


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("Qwen--Qwen3-30B-A3B-FP8", "Qwen--Qwen3-30B-A3B"),
        ("Qwen--Qwen3-32B-FP8-Static-PerTensor", "Qwen--Qwen3-32B"),
        ("Qwen--Qwen3-32B-AWQ", "Qwen--Qwen3-32B"),
        ("nvidia--Qwen3-235B-A22B-NVFP4", "Qwen--Qwen3-235B-A22B"),
        ("nvidia--Gemma-4-31B-IT-NVFP4", "google--gemma-4-31B-it"),
        ("nvidia--Qwen3.6-27B-NVFP4", "Qwen--Qwen3.6-27B"),
    ],
)
def test_a_quantised_checkpoint_is_its_original_in_fewer_bytes(
    narrow: str, wide: str, real_configs: Path
) -> None:
    before, after = (load_model(real_configs / f"{name}.json") for name in (wide, narrow))
    assert before.weight_bytes - after.weight_bytes == pytest.approx(
        saved(SHIPPED[narrow]), rel=1e-12
    )
    assert (before.n_params, before.layer_kinds) == (after.n_params, after.layer_kinds)


def test_the_awq_file_of_qwen3_32b_has_its_published_size(real_configs: Path) -> None:
    # 18.00 GiB of safetensors: 16.212e9 of int4, and embedding and head of 151936 x 5120 each
    model = load_model(real_configs / "Qwen--Qwen3-32B-AWQ.json")
    assert model.weight_bytes == pytest.approx(18.00 * 2**30, rel=0.005 / 18)


def test_another_format_for_the_experts_of_deepseek_v4_adds_its_scales(real_configs: Path) -> None:
    # 43 layers of 256 experts of three 4096 x 2048: a scale per 16 in the place of one per 32
    own, nvidia = (
        load_model(real_configs / f"{name}.json")
        for name in ("deepseek-ai--DeepSeek-V4-Flash", "nvidia--DeepSeek-V4-Flash-NVFP4")
    )
    added = 43 * 256 * 3 * 4096 * 2048 / 32
    assert nvidia.weight_bytes - own.weight_bytes == pytest.approx(added, rel=1e-12)


# What is published in forms of which the folder has no whole file: the sections as such
# checkpoints have them, put into the config that they were made from.

GPTQ_INT4: Config = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 128,
    "desc_act": False,
    "sym": True,
    "true_sequential": True,
}
# Qwen2.5-7B, 28 layers: 28 heads of 128 on 3584, 4 KV heads, three matrices 3584 x 18944.
ATTENTION_7B = 28 * (2 * 3584 * 3584 + 2 * 3584 * 512)
FEED_FORWARD_7B = 28 * 3 * 3584 * 18944
FP8_DYNAMIC: Config = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "ignore": ["re:.*lm_head", "re:.*self_attn", "re:.*router", "re:.*vision_model.*"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "group_size": None},
            "input_activations": {"num_bits": 8, "type": "float", "dynamic": True},
        }
    },
}
#: GPTQModel's settings per expression, and the list of AutoGPTQ.
SKIPPED_ATTENTION: Config = {"dynamic": {"-:.*self_attn.*": {}, "lm_head": {}}}
WIDER_DOWN: Config = {"dynamic": {r"+:.*\.down_proj": {"bits": 8, "group_size": 32}}}
LISTED: Config = {
    "modules_in_block_to_quantize": [
        ["mlp.up_proj", "mlp.gate_proj"],
        ["mlp.down_proj"],
    ]
}
INT8_32 = 1 + (2 + 1) / 32  # a float16 scale and an 8-bit zero per 32


@pytest.mark.parametrize(
    ("base", "section", "parts"),
    [
        (
            "Qwen--Qwen2.5-7B-Instruct",
            GPTQ_INT4,
            [(ATTENTION_7B + FEED_FORWARD_7B, INT4_ZEROS)],
        ),
        (
            "Qwen--Qwen2.5-7B-Instruct",
            GPTQ_INT4 | SKIPPED_ATTENTION,
            [(FEED_FORWARD_7B, INT4_ZEROS), (3584 * 152064, INT4_ZEROS)],
        ),
        (
            "Qwen--Qwen2.5-7B-Instruct",
            GPTQ_INT4 | WIDER_DOWN,
            [
                (ATTENTION_7B + FEED_FORWARD_7B * 2 // 3, INT4_ZEROS),
                (FEED_FORWARD_7B // 3, INT8_32),
            ],
        ),
        ("Qwen--Qwen2.5-7B-Instruct", GPTQ_INT4 | LISTED, [(FEED_FORWARD_7B, INT4_ZEROS)]),
        (
            "Qwen--Qwen2.5-7B-Instruct",
            GPTQ_INT4 | {"modules_in_block_to_quantize": ["mlp"], "lm_head": True},
            [(FEED_FORWARD_7B + 3584 * 152064, INT4_ZEROS)],
        ),
        # 48 layers of 16 experts and a shared one, of three 5120 x 8192
        (
            "meta-llama--Llama-4-Scout-17B-16E-Instruct",
            FP8_DYNAMIC,
            [(48 * 17 * 3 * 5120 * 8192, FP8_CHANNEL)],
        ),
    ],
    ids=[
        "gptq",
        "gptq-dynamic-skip",
        "gptq-dynamic-own",
        "gptq-listed",
        "gptq-head",
        "fp8-dynamic",
    ],
)
def test_a_published_form_saves_what_its_narrow_matrices_do(
    base: str, section: Config, parts: list[tuple[int, float]], real_configs: Path
) -> None:
    config = json.loads((real_configs / f"{base}.json").read_text(encoding="utf-8"))
    wide, narrow = parsed(config), parsed(config | {"quantization_config": section})
    assert wide.weight_bytes - narrow.weight_bytes == pytest.approx(saved(parts), rel=1e-12)
    assert replace(narrow, layers=(), head=wide.head) == replace(wide, layers=())
