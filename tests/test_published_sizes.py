"""Published checkpoints: elements, bytes and caches against what other people counted.

Whole checkpoints hold more than the language model. What they hold besides is counted here by
hand, from the shapes of its tensors, so that nothing is compared with itself.
"""

import json
from dataclasses import replace
from functools import cache
from math import ceil, prod
from pathlib import Path
from typing import Any, Final

import pytest

from conftest import _data_folder
from specroof.architecture.model import Architecture
from specroof.cost import kv_bytes_per_token, state_bytes
from specroof.cost.forward import kv_cache_bytes
from tables import rows, table
from tiny_configs import Config, anonymous, quantized, read_config

PUBLISHED: Final[dict[str, list[dict[str, Any]]]] = table("published_sizes")
FOLDER: Final = _data_folder("model_configs")
NAMES: Final = sorted(file.stem for file in FOLDER.glob("*.json"))

# Bytes of a stored weight, worked out by hand.
V4_FP8 = 1 + 1 / (128 * 128)  # an E8M0 byte per block
FP8, FP8_BLOCK = 1.0, 1 + 4 / (128 * 128)  # a float32 per tensor, or per 128 x 128
MXFP4 = 1 / 2 + 1 / 32  # half a byte, and an E8M0 byte per 32
NVFP4 = 1 / 2 + 1 / 16  # and a byte per 16
INT4_ZEROS = 1 / 2 + (2 + 1 / 2) / 128  # a float16 scale and a 4-bit zero per 128
INT4_32, INT8_32 = 1 / 2 + 2 / 32, 1 + (2 + 1) / 32  # a scale, and an 8-bit zero, per 32
BF16 = 2


@cache
def bundled(checkpoint: str) -> Architecture:
    return read_config(FOLDER / f"{checkpoint.replace('/', '--')}.json")


def over(rows: str) -> pytest.MarkDecorator:
    """Parametrise a test over the rows of one part of the file."""
    return pytest.mark.parametrize(
        "row", PUBLISHED[rows], ids=[row["checkpoint"] for row in PUBLISHED[rows]]
    )


#: The whole file that says what a bundled one says, where it goes by another name.
WHOLE: Final = rows("values", "whole_configs")


def test_bundled_configs_say_what_the_whole_ones_say(real_configs: Path) -> None:
    compared = 0
    for name in NAMES:
        stem = WHOLE.get(name, name)
        files = [
            folder / f"{stem}.json" for folder in (real_configs, real_configs / "reconstructed")
        ]
        file = next((file for file in files if file.exists()), None)
        if file is None:
            continue
        real = read_config(file, sidecar=not name.endswith("30B-A3B-BF16"))
        if name in {"google--gemma-3-4b-it", "google--gemma-3-12b-it"}:
            # Restated with the vocabulary of the text-only size; published files say none, which
            # is 262208, as their elements confirm.
            real = replace(real, vocab_size=bundled(name).vocab_size, head=bundled(name).head)
        if name.startswith("sgl-project"):
            real = replace(real, family=bundled(name).family)  # restated under another type
        assert anonymous(bundled(name)) == anonymous(real), name
        compared += 1
    assert compared >= 110


def test_bundled_configs_are_small_and_say_where_they_are_from() -> None:
    for name in NAMES:
        text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
        # 80 layers of Nemotron-Super differ one by one
        assert len(text) < (6000 if "block_configs" in text else 2000), name
        assert json.loads(text)["_source"].startswith("https://"), name


def test_every_bundled_model_is_measured_somewhere() -> None:
    parts = ("elements", "same_elements", "class_elements", "billions")
    measured = {row["checkpoint"].replace("/", "--") for part in parts for row in PUBLISHED[part]}
    # below, or in test_parsers_families.py
    others = {"MiniMaxAI--MiniMax-M3", "google--gemma-4-E2B", "google--gemma-4-E4B"}
    others |= {"zai-org--GLM-5.2", "zai-org--GLM-5.2-FP8", "nvidia--GLM-5.2-NVFP4"}
    assert set(NAMES) == measured | others


# --- what checkpoints hold beside the language model -------------------------------------------

# hidden size, query heads, KV heads, width of a head
QWEN_ATTENTION = {
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (2048, 16, 2, 256),
    "Qwen/Qwen3.6-35B-A3B": (2048, 16, 2, 256),
    "Qwen/Qwen3.5-4B": (2560, 16, 4, 256),
}
# routed experts, width of one, width of the shared one
QWEN_EXPERTS = {
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (512, 512, 512),
    "Qwen/Qwen3.6-35B-A3B": (256, 512, 512),
}
QWEN_DENSE_WIDTH = {"Qwen/Qwen3.5-4B": 9216}
# depth, width, width of its feed-forward, width of the language model it feeds
QWEN_VISION = {
    "Qwen/Qwen3.6-35B-A3B": (27, 1152, 4304, 2048),
    "Qwen/Qwen3.5-4B": (24, 1024, 4096, 2560),
    "Qwen/Qwen3.5-397B-A17B": (27, 1152, 4304, 4096),
}


def qwen_draft_layer(checkpoint: str) -> int:
    """Count `mtp.*`: a fully attending layer with the model's own kind of feed-forward."""
    hidden, n_heads, n_kv, head_dim = QWEN_ATTENTION[checkpoint]
    joining = 2 * hidden * hidden + 2 * hidden  # fc, and a norm of each of its halves
    attention = (
        hidden * 2 * n_heads * head_dim  # queries and their gates
        + 2 * hidden * n_kv * head_dim  # keys, values
        + n_heads * head_dim * hidden  # output
        + 2 * head_dim  # q_norm, k_norm
    )
    if checkpoint in QWEN_EXPERTS:
        n_experts, width, shared_width = QWEN_EXPERTS[checkpoint]
        experts = 3 * hidden * (n_experts * width + shared_width)
        feed_forward = n_experts * hidden + experts + hidden  # router, experts, gate of the shared
    else:
        feed_forward = 3 * hidden * QWEN_DENSE_WIDTH[checkpoint]
    return joining + attention + feed_forward + 3 * hidden  # two norms of the layer, a final one


def qwen_vision_tower(checkpoint: str) -> int:
    """Count `visual.*`: patches of 16 x 16 pixels of 2 frames of 3 colours, 2304 positions."""
    depth, width, mlp_width, out_width = QWEN_VISION[checkpoint]
    embedding = 3 * 2 * 16 * 16 * width + width + 2304 * width
    attention = 3 * width * width + 3 * width + width * width + width
    feed_forward = mlp_width * width + mlp_width + width * mlp_width + width
    block = 2 * 2 * width + attention + feed_forward  # two norms with weight and bias
    merged = 4 * width  # 2 x 2 patches become one token
    merger = 2 * width + merged * merged + merged + merged * out_width + out_width
    return embedding + depth * block + merger


# DeepSeek-V3: hidden 7168; 128 heads with 128 + 64 wide keys and 128 wide values; latents of 1536
# (queries) and 512 (+ 64 rotary). [out, in] of what is stored in FP8.
V3_ATTENTION = [
    (1536, 7168),  # q_a_proj
    (128 * 192, 1536),  # q_b_proj
    (576, 7168),  # kv_a_proj_with_mqa
    (128 * 256, 512),  # kv_b_proj
    (7168, 128 * 128),  # o_proj
]
V32_INDEXER = [(64 * 128, 1536), (128, 7168)]  # wq_b, wk
V3_DENSE = [(18432, 7168), (18432, 7168), (7168, 18432)]
V3_EXPERTS = [(2048, 7168), (2048, 7168), (7168, 2048)] * (256 + 1)  # one of them shared


def v3_attention(checkpoint: str) -> list[tuple[int, int]]:
    return V3_ATTENTION + (V32_INDEXER if checkpoint.endswith("V3.2") else [])


def deepseek_draft_layer(checkpoint: str) -> int:
    """Count layer 61: a whole decoder layer, eh_proj, norms, copies of embedding and head."""
    hidden, vocab = 7168, 129280
    matrices = sum(prod(shape) for shape in v3_attention(checkpoint) + V3_EXPERTS)
    router = 256 * hidden + 256  # with its correction bias
    norms = 2 * hidden + 1536 + 512
    # weights_proj [64, 7168] in bf16, k_norm with weight and bias
    index = 64 * hidden + 2 * 128 if checkpoint.endswith("V3.2") else 0
    joining = 2 * hidden + 2 * hidden * hidden + hidden  # enorm, hnorm, eh_proj, final norm
    return matrices + router + norms + index + joining + 2 * vocab * hidden


def deepseek_scales(checkpoint: str) -> int:
    """Count `*.weight_scale_inv`: one per block of 128 x 128, counting begun blocks."""

    def scales(shapes: list[tuple[int, int]]) -> int:
        return sum(ceil(rows / 128) * ceil(columns / 128) for rows, columns in shapes)

    attention = scales(v3_attention(checkpoint))
    # layers 0-2 are dense, 3-60 and the draft layer 61 have experts
    return 62 * attention + 3 * scales(V3_DENSE) + 59 * scales(V3_EXPERTS)


def v4_block(hidden: int, n_heads: int, rank: int, n_experts: int, width: int) -> float:
    """Return the bytes of a DeepSeek-V4 layer without compressor, as in its drafters."""
    groups = n_heads // 8
    attention = (
        hidden * rank  # wq_a
        + rank * n_heads * 512  # wq_b
        + hidden * 512  # wkv
        + n_heads * 512 * 1024  # wo_a: each group of 8 heads to its own 1024
        + groups * 1024 * hidden  # wo_b
    )
    expert = 3 * hidden * width
    mixing = 2 * 24 * 4 * hidden * 4  # hc_fn of both sublayers, float32
    router = n_experts * hidden * BF16
    return (attention + expert) * V4_FP8 + n_experts * expert * MXFP4 + mixing + router


def v4_draft_layer(_checkpoint: str) -> float:
    """Return the bytes of V4-Pro's `mtp.0`: a layer, and two square projections in front."""
    hidden = 7168
    return v4_block(hidden, 128, 1536, 384, 3072) + 2 * hidden * hidden * V4_FP8


def v4_dspark_drafter(_checkpoint: str) -> float:
    """Return the bytes of V4-Flash-0731's drafter.

    Three layers, a projection of three target layers, and a Markov head of rank 256 in bf16.
    """
    hidden, vocab = 4096, 129280
    joining = 3 * hidden * hidden * V4_FP8
    markov = 2 * vocab * 256 * BF16
    return 3 * v4_block(hidden, 64, 1024, 256, 2048) + joining + markov


# Hidden sizes of the language models below.
HIDDEN: Final[dict[str, int]] = rows("values", "hidden_keys")


def second_table(checkpoint: str) -> int:
    """Count the head of a small Qwen3, which is the embedding stored once more."""
    return 151_936 * HIDDEN[checkpoint]


def vision_layer(width: int, mlp_width: int) -> int:
    """Count a layer of a picture encoder with biases: four projections, two matrices, two norms."""
    projections = 4 * (width * width + width)
    return projections + 2 * width * mlp_width + mlp_width + width + 2 * 2 * width


def siglip(checkpoint: str) -> int:
    """Count Gemma 3's tower: patches of 14 x 14 pixels, 64 x 64 of them, and the way out of it."""
    hidden = HIDDEN[checkpoint]
    width = 1152
    embedding = 3 * 14 * 14 * width + width + 4096 * width
    layers = 27 * vision_layer(width, 4304) + 2 * width
    return embedding + layers + width * hidden + width


def pixtral(checkpoint: str) -> int:
    """Count Mistral Small 3.1's tower, which has no biases, and its projector of 2 x 2 patches."""
    hidden = HIDDEN[checkpoint]
    width, mlp_width = 1024, 4096
    layer = 4 * width * width + 3 * width * mlp_width + 2 * width
    tower = 3 * 14 * 14 * width + width + 24 * layer
    return tower + width + 4 * width * width + width * hidden + hidden * hidden


def llama4_tower(_checkpoint: str) -> int:
    """Count Llama 4's tower: 24 x 24 patches of 14 x 14 pixels and a class, no bias on patches."""
    hidden = 5120
    width, mlp_width = 1408, 5632
    embedding = 3 * 14 * 14 * width + width + (24 * 24 + 1) * width + 2 * 2 * width
    layers = 34 * vision_layer(width, mlp_width)
    return embedding + layers + mlp_width * 4096 + 4096 * 4096 + 4096 * hidden


def mimo_draft_layer(checkpoint: str) -> int:
    """Count MiMo's `mtp_layers.0`: a layer as the others, five norms, and the joining matrix."""
    hidden = HIDDEN[checkpoint]
    attention = 2 * hidden * hidden + hidden + 2 * (hidden * 1024 + 1024)
    return attention + 3 * hidden * 11008 + 2 * hidden * hidden + 5 * hidden


def beside(row: dict[str, Any]) -> float:
    named = row.get("beside", ())
    parts = [function(row["checkpoint"]) for function in BESIDE if function.__name__ in named]
    assert len(parts) == len(named)
    return float(sum(parts) + 1e9 * row.get("beside_billions", 0))


BESIDE: Final[list[Any]] = [
    *(qwen_draft_layer, qwen_vision_tower, deepseek_draft_layer, deepseek_scales),
    *(v4_draft_layer, v4_dspark_drafter),
    *(second_table, siglip, pixtral, llama4_tower, mimo_draft_layer),
]


# --- sizes ---------------------------------------------------------------------------------------


@over("elements")
def test_elements_are_those_of_the_checkpoint(row: dict[str, Any]) -> None:
    assert bundled(row["checkpoint"]).n_params + beside(row) == row["value"]


@over("same_elements")
def test_builds_of_one_model_have_its_elements(row: dict[str, Any]) -> None:
    model, other = bundled(row["checkpoint"]), bundled(row["like"])
    assert (model.n_params, model.n_active_params) == (other.n_params, other.n_active_params)


@over("class_elements")
def test_elements_are_those_of_the_class(row: dict[str, Any]) -> None:
    model = bundled(row["checkpoint"])
    assert (model.n_params, model.n_active_params) == (row["value"], row["active"])


@over("gibibytes")
def test_bytes_are_those_of_the_checkpoint(row: dict[str, Any]) -> None:
    # What is left out here: float32 vectors, and the tables of the layers that hash token ids.
    stored = bundled(row["checkpoint"]).weight_bytes + beside(row)
    assert stored / 2**30 == pytest.approx(row["value"], rel=1e-3)


def agree(n_params: float, table_params: int, stated: str, rounded_to: float | None = None) -> bool:
    """Tell whether a count rounds to stated billions, embedding and head counted or left out."""
    half = (rounded_to or 10 ** -len(stated.partition(".")[2])) / 2
    off = [(n_params - n * table_params) / 1e9 - float(stated) for n in (0, 1, 2)]
    return any(-half <= one <= half for one in off)


@over("billions")
def test_sizes_are_what_the_publisher_says(row: dict[str, Any]) -> None:
    model = bundled(row["checkpoint"])
    total, table = row["total"], model.embedding_params
    assert agree(model.n_params + beside(row), table, total, row.get("rounded_to"))
    assert agree(model.n_active_params, table, row.get("active", total))
    assert (model.n_active_params < model.n_params) == ("active" in row)


def test_gemma_has_the_parameters_of_its_reports() -> None:
    # arXiv:2503.19786, table 1: "non-embedding parameters"
    for size, millions in (("1b", 698), ("4b", 3_209), ("12b", 10_759), ("27b", 25_600)):
        model = bundled(f"google/gemma-3-{size}-it")
        assert round((model.n_params - model.embedding_params) / 1e6) == millions
    # Model card of Gemma 4: 2.3 (5.1 with embeddings) and 4.5 (8); towers for pictures of 0.15
    # and for sound of 0.3 are in the second number. E4B is 4.64: its card says half billions.
    for size, effective, total, digit in (("E2B", 2.3, 5.1, 0.1), ("E4B", 4.5, 8, 0.5)):
        model = bundled(f"google/gemma-4-{size}")
        assert abs((model.n_params - model.lookup_params) / 1e9 - effective) <= digit / 2
        assert abs(model.n_params / 1e9 + 0.15 + 0.3 - total) <= digit / 2


def layers(n_layers: int, hidden: int, *parts: int) -> int:
    """Count layers of two norms and so many elements beside them."""
    return n_layers * (2 * hidden + sum(parts))


def test_mixtures_without_a_published_count_are_counted_by_hand() -> None:
    # 48 and 96 query heads of 128 on 8 KV heads; their norms, or biases and norms of a head.
    m2 = layers(62, 3072, 3072 * (6144 + 2 * 1024) + 6144 * 3072 + 6144 + 1024)
    m2 += 62 * (256 * 3072 + 256 + 256 * 3 * 1536 * 3072)
    assert bundled("MiniMaxAI/MiniMax-M2").n_params == m2 + (2 * 200064 + 1) * 3072
    glm = layers(92, 5120, 5120 * (12288 + 2048) + 12288 * 5120 + 12288 + 2048 + 2 * 128)
    glm += 3 * 3 * 12288 * 5120 + 89 * (160 * 5120 + 160 + 161 * 3 * 1536 * 5120)
    assert bundled("zai-org/GLM-4.5").n_params == glm + (2 * 151552 + 1) * 5120
    # 64 query heads on 4; an indexer of 4 heads and a key in 57 layers; 3 dense layers of 12288
    m3 = layers(60, 6144, 6144 * (8192 + 2 * 512) + 8192 * 6144 + 2 * 128) + 3 * 3 * 12288 * 6144
    m3 += 57 * ((4 + 1) * 128 * 6144 + 2 * 128 + 128 * 6144 + 128 + 129 * 3 * 3072 * 6144)
    model = bundled("MiniMaxAI/MiniMax-M3")
    assert model.n_params == m3 + (2 * 200064 + 1) * 6144
    assert model.n_active_params == model.n_params - 57 * (128 - 4) * 3 * 3072 * 6144


# --- stored bytes --------------------------------------------------------------------------------

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
# Kimi K2: the experts of 60 layers, 384 routed and one shared, and one dense layer.
KIMI_EXPERTS = 60 * 384 * 3 * 7168 * 2048
# Mistral Small 3, 40 layers: q and o 5120 x 4096, k and v 5120 x 1024, three of 5120 x 32768.
MISTRAL_24B = 40 * (2 * 5120 * 4096 + 2 * 5120 * 1024 + 3 * 5120 * 32768)
# Llama-3.1-70B, 80 layers: q and o 8192 x 8192, k and v 8192 x 1024, three of 8192 x 28672.
LLAMA_70B = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
# Qwen3.6-27B: in fp8 the projections of 48 linear (q, k, v, z to 16384 channels; 6144 back) and
# of 16 full attentions (gated q, k, v, o); in nvfp4 64 feed-forwards of 17408, and the head.
QWEN36_FP8 = 48 * 5120 * (16384 + 6144) + 16 * 5120 * (12288 + 1024 + 1024 + 6144)
QWEN36_NVFP4 = 64 * 3 * 5120 * 17408 + 5120 * 248320
# GLM-5: 75 layers of 256 experts of 2048 and a shared one; 3 dense layers of 12288.
GLM_5_EXPERTS, GLM_5_DENSE = 75 * 256 * 3 * 6144 * 2048, 3 * 6144 * (75 * 2048 + 3 * 12288)
# Nemotron 3 Nano: experts and shared experts of 23 layers; Mamba but for that of six layers.
NANO = 23 * (128 * 2 * 2688 * 1856 + 2 * 2688 * 3712)
NANO += (23 - 6) * (2688 * (4096 + 6144 + 64) + 4096 * 2688)

#: What a quantised build stores narrower than in bf16: elements and bytes of each, and its cache.
NARROW: Final[dict[str, tuple[list[tuple[int, float]], str]]] = {
    # fp8 per block, with a list of what stays, and by convention
    "Qwen/Qwen3-30B-A3B-FP8": ([(QWEN3_30B, FP8_BLOCK)], "bf16"),
    "Qwen/Qwen3-32B-FP8": ([(QWEN3_32B, FP8_BLOCK)], "bf16"),
    "deepseek-ai/DeepSeek-V3.1": ([(DEEPSEEK_V3, FP8_BLOCK)], "bf16"),
    # fp8 per tensor: of transformers, of ModelOpt without a method, in a sidecar only
    "mistralai/Devstral-Small-2-24B-Instruct-2512": ([(MISTRAL_24B, FP8)], "bf16"),
    "Qwen/Qwen3-32B-FP8-Static-PerTensor": ([(QWEN3_32B, FP8)], "fp8"),
    "nvidia/Llama-3.1-70B-Instruct-FP8": ([(LLAMA_70B, FP8)], "fp8"),
    # NVFP4 of all, of feed-forwards, of experts, of all but attention
    "nvidia/Qwen3-235B-A22B-NVFP4": ([(QWEN3_235B, NVFP4)], "fp8"),
    "nvidia/Gemma-4-31B-IT-NVFP4": ([(60 * 3 * 5376 * 21504, NVFP4)], "fp8"),
    "nvidia/Gemma-4-26B-A4B-NVFP4": ([(30 * 128 * 3 * 2816 * 704, NVFP4)], "fp8"),
    "nvidia/GLM-5-NVFP4": ([(GLM_5_EXPERTS + GLM_5_DENSE, NVFP4)], "fp8"),
    "nvidia/GLM-5.2-NVFP4": ([(GLM_5_EXPERTS, NVFP4)], "fp8"),
    "nvidia/MiniMax-M2.7-NVFP4": ([(62 * 256 * 3 * 3072 * 1536, NVFP4)], "fp8"),
    "nvidia/Kimi-K2.5-NVFP4": (
        [(KIMI_EXPERTS + 60 * 3 * 7168 * 2048 + 3 * 7168 * 18432, NVFP4)],
        "fp8",
    ),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4": ([(NANO, NVFP4)], "fp8"),
    # a format for each module
    "nvidia/Qwen3.6-27B-NVFP4": ([(QWEN36_FP8, FP8), (QWEN36_NVFP4, NVFP4)], "fp8"),
    # MXFP4 of gpt-oss, 24 layers of 32 experts of three 2880 x 2880; their biases stay
    "openai/gpt-oss-20b": ([(24 * 32 * 3 * 2880 * 2880, MXFP4)], "bf16"),
    "Qwen/Qwen3-32B-AWQ": ([(QWEN3_32B, INT4_ZEROS)], "fp16"),
    # compressed-tensors: int4 and packed MXFP4 of routed experts, all else ignored by expression
    "moonshotai/Kimi-K2.5": ([(KIMI_EXPERTS, INT4_32)], "bf16"),
    "moonshotai/Kimi-K3": ([(92 * 896 * 3 * 3584 * 3072, MXFP4)], "bf16"),
}


def narrow_bytes(wide: Architecture, parts: list[tuple[int, float]]) -> object:
    """Return what a model of 16 bits stores with parts of it narrower."""
    stored = BF16 * wide.n_params + sum(size * (width - BF16) for size, width in parts)
    return pytest.approx(stored, rel=1e-12)


@pytest.mark.parametrize("name", NARROW)
def test_stored_bytes_are_the_matrices_at_their_width(name: str) -> None:
    model, (parts, kv_dtype) = bundled(name), NARROW[name]
    assert model.weight_bytes == narrow_bytes(model, parts)
    assert model.kv_dtype == kv_dtype


def test_the_awq_file_of_qwen3_32b_has_its_published_size() -> None:
    # 18.00 GiB of safetensors: https://huggingface.co/Qwen/Qwen3-32B-AWQ
    stored = bundled("Qwen/Qwen3-32B-AWQ").weight_bytes
    assert stored == pytest.approx(18.00 * 2**30, rel=0.005 / 18)


def test_another_format_for_the_experts_of_deepseek_v4_adds_its_scales() -> None:
    # 43 layers of 256 experts of three 4096 x 2048: a scale per 16 in the place of one per 32
    own, nvidia = map(bundled, ("deepseek-ai/DeepSeek-V4-Flash", "nvidia/DeepSeek-V4-Flash-NVFP4"))
    added = 43 * 256 * 3 * 4096 * 2048 / 32
    assert nvidia.weight_bytes - own.weight_bytes == pytest.approx(added, rel=1e-12)
    converted = bundled("sgl-project/DeepSeek-V4-Flash-FP8")
    assert converted.n_params == own.n_params
    assert converted.weight_bytes > 1.8 * own.weight_bytes


# What is published in forms of which no whole file is bundled: the sections as such checkpoints
# have them, put into the config that they were made from.

GPTQ_INT4: Final[Config] = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}
# Qwen2.5-7B, 28 layers: 28 heads of 128 on 3584, 4 KV heads, three matrices 3584 x 18944.
ATTENTION_7B = 28 * (2 * 3584 * 3584 + 2 * 3584 * 512)
FEED_FORWARD_7B = 28 * 3 * 3584 * 18944
HEAD_7B = 3584 * 152064
FP8_DYNAMIC: Final[Config] = {
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
QWEN_7B, SCOUT = "Qwen--Qwen2.5-7B-Instruct", "meta-llama--Llama-4-Scout-17B-16E-Instruct"


@pytest.mark.parametrize(
    ("base", "section", "parts"),
    [
        (QWEN_7B, GPTQ_INT4, [(ATTENTION_7B + FEED_FORWARD_7B, INT4_ZEROS)]),
        # GPTQModel's settings per expression, and the list of AutoGPTQ
        (
            QWEN_7B,
            GPTQ_INT4 | {"dynamic": {"-:.*self_attn.*": {}, "lm_head": {}}},
            [(FEED_FORWARD_7B + HEAD_7B, INT4_ZEROS)],
        ),
        (
            QWEN_7B,
            GPTQ_INT4 | {"dynamic": {r"+:.*\.down_proj": {"bits": 8, "group_size": 32}}},
            [
                (ATTENTION_7B + FEED_FORWARD_7B * 2 // 3, INT4_ZEROS),
                (FEED_FORWARD_7B // 3, INT8_32),
            ],
        ),
        (
            QWEN_7B,
            GPTQ_INT4
            | {
                "modules_in_block_to_quantize": [
                    ["mlp.up_proj", "mlp.gate_proj"],
                    ["mlp.down_proj"],
                ]
            },
            [(FEED_FORWARD_7B, INT4_ZEROS)],
        ),
        (
            QWEN_7B,
            GPTQ_INT4 | {"modules_in_block_to_quantize": ["mlp"], "lm_head": True},
            [(FEED_FORWARD_7B + HEAD_7B, INT4_ZEROS)],
        ),
        # 48 layers of 16 experts and a shared one, of three 5120 x 8192; a bf16 per row is not
        # counted: 1/2560 at 5120 columns
        (SCOUT, FP8_DYNAMIC, [(48 * 17 * 3 * 5120 * 8192, FP8)]),
    ],
)
def test_a_published_form_saves_what_its_narrow_matrices_do(
    base: str, section: Config, parts: list[tuple[int, float]]
) -> None:
    config = json.loads((FOLDER / f"{base}.json").read_text(encoding="utf-8"))
    assert quantized(config, section).weight_bytes == narrow_bytes(bundled(base), parts)


# --- what a sequence keeps -----------------------------------------------------------------------

CACHES: Final[dict[str, list[tuple[int, int, int, float]]]] = rows("values", "caches")


@pytest.mark.parametrize("name", CACHES)
def test_cached_bytes_are_counted_by_hand(name: str) -> None:
    for context in (100, 20_000):
        expected = sum(
            n_layers * 2 * n_heads * head_dim * 2 * min(context, kept)
            for n_layers, n_heads, head_dim, kept in CACHES[name]
        )
        assert kv_cache_bytes(bundled(name), context) == expected


@pytest.mark.parametrize("name", sorted({row["checkpoint"] for row in PUBLISHED["kept_bytes"]}))
def test_bytes_of_a_sequence_by_hand(name: str) -> None:
    (row,) = (row for row in PUBLISHED["kept_bytes"] if row["checkpoint"] == name)
    n_layers, *token = row["token"]
    assert kv_bytes_per_token(bundled(name)) == n_layers * prod(token)
    n_layers, state, columns = row["state"]
    assert state_bytes(bundled(name)) == n_layers * (prod(state) * 4 + columns * 3 * 2)
