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
from tiny_configs import anonymous, read_config

PUBLISHED: Final[dict[str, list[dict[str, Any]]]] = table("published_sizes")
FOLDER: Final = _data_folder("model_configs")
NAMES: Final = sorted(file.stem for file in FOLDER.glob("*.json"))

# Bytes of a stored weight, worked out by hand.
V4_FP8 = 1 + 1 / (128 * 128)  # an E8M0 byte per block
MXFP4 = 1 / 2 + 1 / 32  # half a byte, and an E8M0 byte per 32
BF16 = 2
WIDTHS = {
    "fp8": 1.0,
    "fp8-block": 1 + 4 / (128 * 128),  # a float32 per 128 x 128
    "mxfp4": MXFP4,
    "nvfp4": 1 / 2 + 1 / 16,  # and a byte per 16
    "int4-zeros": 1 / 2 + (2 + 1 / 2) / 128,  # a float16 scale and a 4-bit zero per 128
    "int4-32": 1 / 2 + 2 / 32,  # a scale per 32
}


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
QWEN_ATTENTION = rows("published_sizes", "qwen_attention")
# routed experts, width of one, width of the shared one
QWEN_EXPERTS = rows("published_sizes", "qwen_experts")
QWEN_DENSE_WIDTH = {"Qwen/Qwen3.5-4B": 9216}
# depth, width, width of its feed-forward, width of the language model it feeds
QWEN_VISION = rows("published_sizes", "qwen_vision")


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


@pytest.mark.parametrize("name", PUBLISHED["narrow"])
def test_stored_bytes_are_the_matrices_at_their_width(name: str) -> None:
    model, (narrow, kv_dtype) = bundled(name), rows("published_sizes", "narrow")[name]
    saved = sum(
        prod(matrices) * (BF16 - WIDTHS[form]) for form in narrow for matrices in narrow[form]
    )
    assert model.weight_bytes == pytest.approx(BF16 * model.n_params - saved, rel=1e-12)
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
