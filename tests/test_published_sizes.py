"""Published checkpoints: elements, bytes and caches against what other people counted.

Whole checkpoints hold more than the language model. What they hold besides is listed by hand, by
the shapes of its tensors (`beside` of the data), so that nothing is compared with itself.
"""

import json
from dataclasses import replace
from functools import cache
from math import prod
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
BF16 = 2
WIDTHS: Final[dict[str, float]] = {
    "fp32": 4,
    "bf16": BF16,
    "v4-fp8": 1 + 1 / (128 * 128),  # an E8M0 byte per block
    "fp8": 1.0,
    "fp8-block": 1 + 4 / (128 * 128),  # a float32 per 128 x 128
    "mxfp4": 1 / 2 + 1 / 32,  # half a byte, and an E8M0 byte per 32
    "nvfp4": 1 / 2 + 1 / 16,  # and a byte per 16
    "int4-zeros": 1 / 2 + (2 + 1 / 2) / 128,  # a float16 scale and a 4-bit zero per 128
    "int4-32": 1 / 2 + 2 / 32,  # a scale per 32
}


@cache
def bundled(checkpoint: str) -> Architecture:
    return read_config(FOLDER / f"{checkpoint.replace('/', '--')}.json")


def over(*parts: str) -> pytest.MarkDecorator:
    """Parametrise a test over the rows of some parts of the file."""
    rows = [row for part in parts for row in PUBLISHED[part]]
    return pytest.mark.parametrize("row", rows, ids=[row["checkpoint"] for row in rows])


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
    others = {"google--gemma-4-E2B", "google--gemma-4-E4B"}
    others |= {"zai-org--GLM-5.2-FP8", "nvidia--GLM-5.2-NVFP4"}
    assert set(NAMES) == measured | others


# --- what checkpoints hold beside the language model -------------------------------------------


def counted(parts: list[Any]) -> float:
    total = 0.0
    for part in parts:
        if isinstance(part, dict):
            times = WIDTHS[part["form"]] if "form" in part else part["times"]
            total += times * counted(part["of"])
        else:
            total += prod(part)
    return total


def beside(row: dict[str, Any]) -> float:
    kinds: dict[str, dict[str, list[Any]]] = rows("published_sizes", "beside")
    parts = [counted(kinds[kind][row["checkpoint"]]) for kind in row.get("beside", ())]
    return sum(parts) + 1e9 * float(row.get("beside_billions", 0))


# --- sizes ---------------------------------------------------------------------------------------


@over("elements", "class_elements")
def test_elements_are_those_of_the_checkpoint_or_its_class(row: dict[str, Any]) -> None:
    model = bundled(row["checkpoint"])
    assert model.n_params + beside(row) == row["value"]
    assert model.n_active_params == row.get("active", model.n_active_params)


@over("same_elements")
def test_builds_of_one_model_have_its_elements(row: dict[str, Any]) -> None:
    model, other = bundled(row["checkpoint"]), bundled(row["like"])
    assert (model.n_params, model.n_active_params) == (other.n_params, other.n_active_params)


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


# --- stored bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED["narrow"])
def test_stored_bytes_are_the_matrices_at_their_width(name: str) -> None:
    model, (narrow, kv_dtype) = bundled(name), rows("published_sizes", "narrow")[name]
    saved = sum(
        prod(matrices) * (BF16 - WIDTHS[form]) for form in narrow for matrices in narrow[form]
    )
    assert model.weight_bytes == pytest.approx(BF16 * model.n_params - saved, rel=1e-12)
    assert model.kv_dtype == kv_dtype


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
