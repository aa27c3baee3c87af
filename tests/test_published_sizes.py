"""Sizes of bundled models against what other people counted in the published checkpoints.

Whole checkpoints hold more than the language model. What they hold besides is counted here by
hand, from the shapes of its tensors, so that nothing is compared with itself.
"""

from collections.abc import Callable
from functools import cache
from math import ceil, prod
from pathlib import Path
from typing import Any

import pytest
import yaml

from recurrent_models import BUNDLED as RECURRENT
from specroof.architecture import Architecture
from specroof.parsers import parse_config
from test_dense_checkpoints import NAMES as DENSE
from test_mixture_checkpoints import NAMES as MIXTURES

PUBLISHED: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "published_sizes.yaml").read_text(encoding="utf-8")
)
GIBIBYTE = 2**30

# Bytes of a stored weight, worked out by hand.
FP8 = 1 + 1 / (128 * 128)  # an E8M0 byte per block
MXFP4 = 1 / 2 + 1 / 32  # half a byte, and an E8M0 byte per 32
BF16 = 2


@cache
def bundled(folder: Path, checkpoint: str) -> Architecture:
    """Return a bundled model, straight from the parser."""
    file = folder / f"{checkpoint.replace('/', '--')}.json"
    return parse_config(file.read_text(encoding="utf-8"), source=file.name)


def over(rows: str) -> pytest.MarkDecorator:
    """Parametrise a test over the rows of one part of the file."""
    return pytest.mark.parametrize(
        "row", PUBLISHED[rows], ids=[row["checkpoint"] for row in PUBLISHED[rows]]
    )


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
    return (attention + expert) * FP8 + n_experts * expert * MXFP4 + mixing + router


def v4_draft_layer(_checkpoint: str) -> float:
    """Return the bytes of V4-Pro's `mtp.0`: a layer, and two square projections in front."""
    hidden = 7168
    return v4_block(hidden, 128, 1536, 384, 3072) + 2 * hidden * hidden * FP8


def v4_dspark_drafter(_checkpoint: str) -> float:
    """Return the bytes of V4-Flash-0731's drafter.

    Three layers, a projection of three target layers, and a Markov head of rank 256 in bf16.
    """
    hidden, vocab = 4096, 129280
    joining = 3 * hidden * hidden * FP8
    markov = 2 * vocab * 256 * BF16
    return 3 * v4_block(hidden, 64, 1024, 256, 2048) + joining + markov


ELEMENTS: dict[str, Callable[[str], int]] = {
    function.__name__: function
    for function in (qwen_draft_layer, qwen_vision_tower, deepseek_draft_layer, deepseek_scales)
}
BYTES: dict[str, Callable[[str], float]] = {
    function.__name__: function for function in (v4_draft_layer, v4_dspark_drafter)
}


# --- the comparison ----------------------------------------------------------------------------


@over("elements")
def test_elements_are_those_of_the_checkpoint(
    row: dict[str, Any], model_configs_folder: Path
) -> None:
    model = bundled(model_configs_folder, row["checkpoint"])
    beside = sum(ELEMENTS[part](row["checkpoint"]) for part in row["beside"])
    assert model.n_params + beside == row["value"]


@over("class_elements")
def test_elements_are_those_of_the_class(row: dict[str, Any], model_configs_folder: Path) -> None:
    model = bundled(model_configs_folder, row["checkpoint"])
    assert (model.n_params, model.n_active_params) == (row["value"], row["active"])


@over("gibibytes")
def test_bytes_are_those_of_the_checkpoint(row: dict[str, Any], model_configs_folder: Path) -> None:
    model = bundled(model_configs_folder, row["checkpoint"])
    beside = sum(BYTES[part](row["checkpoint"]) for part in row["beside"])
    # What is left out here: float32 vectors, and the tables of the layers that hash token ids.
    assert (model.weight_bytes + beside) / GIBIBYTE == pytest.approx(row["value"], rel=1e-3)


def stated_range(stated: str, rounded_to: float | None = None) -> tuple[float, float]:
    """Return what a stated number of billions may have been rounded from.

    >>> stated_range("46.7")
    (46.65, 46.75)
    >>> stated_range("1600", 100)
    (1550.0, 1650.0)
    """
    half = (rounded_to or 10 ** -len(stated.partition(".")[2])) / 2
    return float(stated) - half, float(stated) + half


def agree(n_params: int, table_params: int, stated: tuple[float, float]) -> bool:
    """Tell whether a count is what was stated, embedding and head counted or left out."""
    low, high = stated
    return any(low <= (n_params - n * table_params) / 1e9 < high for n in (0, 1, 2))


@over("billions")
def test_sizes_are_what_the_publisher_says(row: dict[str, Any], model_configs_folder: Path) -> None:
    model = bundled(model_configs_folder, row["checkpoint"])
    total = stated_range(row["total"], row.get("rounded_to"))
    beside = sum(ELEMENTS[part](row["checkpoint"]) for part in row.get("beside", ()))
    assert agree(model.n_params + beside, model.embedding_params, total)
    active = stated_range(row["active"]) if "active" in row else total
    assert agree(model.n_active_params, model.embedding_params, active)


def test_a_dense_model_uses_all_of_itself(model_configs_folder: Path) -> None:
    for row in PUBLISHED["billions"]:
        model = bundled(model_configs_folder, row["checkpoint"])
        assert (model.n_active_params < model.n_params) == ("active" in row)


def test_every_bundled_model_is_measured_somewhere(model_configs_folder: Path) -> None:
    files = {file.stem for file in model_configs_folder.glob("*.json")}
    first = {
        row["checkpoint"].replace("/", "--")
        for row in (*PUBLISHED["billions"], *PUBLISHED["class_elements"])
    }
    assert files == first | set(DENSE) | set(MIXTURES) | set(RECURRENT)
