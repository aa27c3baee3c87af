"""Families and formats that the user chooses, and two models side by side, on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands import answered, refused, run
from tables import rows
from tiny_configs import STATED, TINY, Config

NOTE = "read as family llama: the config says model_type brand_new"


def write(folder: Path, name: str, config: Config) -> Path:
    path = folder / name
    path.write_text(json.dumps(config))
    return path


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """Return a config of a type that nobody knows, built like a llama."""
    return write(tmp_path, "new.json", TINY | STATED | {"model_type": "brand_new"})


def test_a_config_of_unknown_type_is_refused_without_a_family(unknown: Path) -> None:
    assert 'model_type is "brand_new"; allowed: ' in refused("models show", unknown)
    assert "family is 'lama'; allowed: " in refused("models show --family lama", unknown)


def test_explain_and_show_and_diff_say_which_family_stood_in(unknown: Path) -> None:
    result = answered("explain -H b200 --family llama", unknown)
    assert (result["case"]["model"], result["notes"][0]) == (f"{unknown} (as llama)", NOTE)
    found = answered("models show --family llama", unknown)
    assert (found["rows"][0]["family"], found["notes"]) == ("llama", [NOTE])
    diff = run("models diff", unknown, "Qwen/Qwen3-8B --family llama --notes")
    assert f"note: on a: {NOTE}" in diff


def test_the_family_that_the_config_has_is_no_news(tmp_path: Path) -> None:
    path = write(tmp_path, "tiny.json", TINY)
    found = answered("models show --family llama", path)
    assert found["notes"] == found["rows"][0]["notes"] == []


def test_full_windows_have_a_line_and_a_column() -> None:
    # 4096 tokens of 32 layers, keys and values of 8 heads of 128 in bf16
    assert 4096 * 32 * 2 * 8 * 128 * 2 == 512 * 2**20
    name, later = "mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-Instruct-v0.3"
    assert "512 MiB in bf16 per sequence" in run(f"models show {name}")
    (listed,) = (line for line in run("models").splitlines() if line.startswith(name))
    assert "512 MiB" in listed
    # The later one has no windows: 128 KiB a token.
    found = {row["name"]: row for row in answered(f"models diff {name} {later}")["rows"]}
    assert [found["window_bytes"][one] for one in ("first", "second")] == [512 * 2**20, 0]


def explained(*words: object) -> tuple[dict[str, dict[str, Any]], list[str]]:
    result = answered("explain", *words)
    return {op["op"]: op for op in result["rows"]}, result["notes"]


def test_formats_of_the_user_change_bytes_and_are_said() -> None:
    words, formats = "Qwen/Qwen3-8B -H b200 --engine ideal", "--weights fp8 --kv-cache fp8"
    own, no_notes = explained(words)
    chosen, notes = explained(words, formats)
    assert no_notes == []
    assert chosen["mlp.down_proj"]["weight_bytes"] == own["mlp.down_proj"]["weight_bytes"] / 2
    assert chosen["mlp.down_proj"]["compute_dtype"] == "fp8"
    assert chosen["lm_head"]["weight_bytes"] == own["lm_head"]["weight_bytes"]
    # 36 layers of keys and values of 8 heads of 128, for 4096 positions read and one written
    (attention,) = [op for name, op in chosen.items() if op["kind"] == "attention"]
    assert attention["cache_bytes"] == 36 * 2 * 8 * 128 * 4097
    assert [note.partition(" ")[0] for note in notes] == ["weights", "KV"]
    _, notes = explained("Qwen/Qwen3.5-27B -H b200 --state-dtype bf16")
    assert "recurrent state priced as bf16 instead of fp32" in notes
    # What is in this format anyway is no news.
    assert explained(words, "--kv-cache bf16")[1] == []


@pytest.mark.parametrize(
    ("section", "chip", "dtype", "note"), rows("values", "arithmetic_of_activations")
)
def test_arithmetic_is_that_of_the_activations_or_the_next_wider(
    section: Config, chip: str, dtype: str, note: str | None, tmp_path: Path
) -> None:
    config = TINY | {"torch_dtype": "float16", "quantization_config": section}
    ops, notes = explained(write(tmp_path, "tiny.json", config), f"-H {chip}")
    assert ops["mlp.down_proj"]["compute_dtype"] == dtype
    said = [one for one in notes if "arithmetic" in one]
    assert len(said) == (note is not None)
    assert all(one.endswith(str(note)) for one in said)


def test_a_quantised_copy_differs_in_formats_bytes_and_cache_alone(tmp_path: Path) -> None:
    plain = write(tmp_path, "plain.json", TINY)
    section = {"quant_algo": "FP8", "kv_cache_scheme": "FP8", "ignore": ["*.down_proj", "lm_head"]}
    narrow = write(tmp_path, "narrow.json", TINY | {"quantization_config": section})
    result = answered("models diff", plain, narrow)
    assert result["case"]["models"] == [str(plain), str(narrow)]
    assert result["notes"] == []
    found = {(row["group"], row["name"]): [row["first"], row["second"]] for row in result["rows"]}
    # two layers: q and o 64 x 64, k and v 64 x 32, gate and up 64 x 256, down 128 x 64
    inside, down, head = 2 * (2 * 4096 + 2 * 2048 + 16384), 2 * 8192, 64 * 1000
    assert found.pop(("formats", "params in bf16")) == [inside + down + head, down + head]
    assert found.pop(("formats", "params in fp8")) == [None, inside]
    wide, small = found.pop(("formats", "weight_bytes"))
    assert wide - small == inside
    assert found.pop(("cache", "kv_dtype")) == ["bf16", "fp8"]
    assert found.pop(("cache", "kv_bytes_per_token")) == [2 * 2 * 32 * 2, 2 * 2 * 32]
    of_dtype = "2 x [64, 64] {}".format
    assert found.pop(("layers", "full_attention.q_proj")) == [of_dtype("bf16"), of_dtype("fp8")]
    assert {name for _, name in found} == {
        *("full_attention.k_proj", "full_attention.v_proj", "full_attention.o_proj"),
        "mlp.gate_up_proj",
    }


def test_shapes_inside_of_parts_are_compared() -> None:
    words = "models diff deepseek-ai/DeepSeek-V3.2 deepseek-ai/DeepSeek-V4-Pro"
    found = {row["name"]: (row["first"], row["second"]) for row in answered(words)["rows"]}
    assert found["sparse_attention.indexer.top_k"] == ("61 x 2048", None)
    assert found["moe.weight"] == ("58 x fp8-block", "61 x mxfp4")


def test_two_models_of_one_kind_differ_in_nothing(tmp_path: Path) -> None:
    words = [write(tmp_path, name, TINY) for name in ("a.json", "b.json")]
    assert answered("models diff", *words)["rows"] == []
