"""The command line as people use it: tables, JSON, files, and one line when it refuses."""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import specroof
from commands import Terminal, answered, invoked, refused, run
from gridded import gridded
from specroof.cli import app
from tables import rows

MODEL = "Qwen/Qwen3-8B"
PREDICT = f"predict {MODEL} --engine ideal -H b200"
IDEAL = f"{PREDICT} --drafter ideal"


def test_predict_prints_json_with_the_keys_and_axes_of_the_contract() -> None:
    words = "--tp 2 --batch 1,8,32 --context 1024,8192 --max-draft-len 5 --grid"
    block = "--drafter block,accept=0.89,cost=0.10,drafts=16"
    result = answered(PREDICT, words, block, "--drafter ideal")
    assert [*result] == [
        *("version", "question", "asked", "case", "rows", "choice", "notes", "warnings", "grid")
    ]
    assert (result["version"], result["question"]) == (3, "predict")
    assert result["case"]["engine"] == "ideal"
    assert len(result["rows"]) == 2 * 2 * 3
    assert len(result["choice"]["loads"]) == 2 * 3
    grid = result["grid"]
    assert grid["dims"] == ["drafter", "context_len", "batch_size", "draft_len"]
    block, ideal = grid["coords"].pop("drafter")
    assert (block.split(",")[0], ideal) == ("block", "ideal")
    assert grid["coords"] == {
        "context_len": [1024, 8192],
        "batch_size": [1, 8, 32],
        "draft_len": [0, 1, 2, 3, 4, 5],
    }
    for name, values in grid["quantities"].items():
        assert np.shape(values) == (2, 2, 3, 6), name
    assert {"draft_s", "round_s", "tpot_s", "tokens_per_s", "is_best"} <= {*grid["quantities"]}
    assert gridded(result, "verify_len")[0, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert (gridded(result, "speedup")[..., 0] == 1).all()
    assert "grid" not in answered(IDEAL)


def test_where_no_draft_is_best_the_band_is_of_what_the_decision_judges() -> None:
    # It printed 1.00-1.00x, the band of no drafts, beside the verdict of one draft.
    for spec in ("eagle3,accept=0.12", "eagle3,accept=0"):
        words = f"predict {MODEL} -H h100 --batch 1,8 --drafter {spec}"
        found, table = answered(words, "--grid"), run(words)
        for b, row in enumerate(found["rows"]):
            tried = 1 + int(np.argmax(gridded(found, "speedup")[0, b, 1:]))
            assert (row["decision"], row["draft_len"], row["tried_draft_len"]) == ("off", 0, tried)
            assert row["tried_speedup"] == gridded(found, "speedup")[0, b, tried] < 1
            ends = [row[f"tried_speedup_{end}"] for end in ("low", "high")]
            assert ends == [
                gridded(found, f"speedup_{end}")[0, b, tried] for end in ("low", "high")
            ]
            assert f" {ends[0]:.2f}-{ends[1]:.2f}x" in table


def test_charts_are_drawn_for_what_the_grid_can_show(tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    run(IDEAL, "--batch 1,8 --context 1024,8192 --plot", path)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["chart-by-batch.png", "chart-map.png", "chart.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in tmp_path.iterdir())


def test_explain_lists_every_operation_with_its_bound() -> None:
    result, ops = explained(f"{MODEL} -H b200")
    assert ops["mlp.gate_up_proj"]["bound"] == "memory"
    assert result["case"]["total_s"] == pytest.approx(sum(op["seconds"] for op in result["rows"]))
    assert sum(op["share"] for op in result["rows"]) == pytest.approx(1)
    # What the engine adds stands term by term among the operations, the longest first.
    added_s = [op["seconds"] for op in result["rows"] if op["kind"] == "overhead"]
    assert sum(added_s) == pytest.approx(specroof.explain(MODEL, "b200").latency.overhead_s)
    assert [op["op"] for op in result["rows"]][:2] == ["layers", "mlp.gate_up_proj"]
    # Layers that differ, such as the two windows of one name, keep rows of their own.
    sizes, _ = explained("deepseek-ai/DeepSeek-V4-Flash -H b200")
    rows = [(op["op"], op["kind"], op["seconds"] / op["count"]) for op in sizes["rows"]]
    assert len(set(rows)) == len(rows)


def test_explain_names_what_a_device_does_beyond_its_share() -> None:
    # 32 heads of a sequence keep as many of 108 multiprocessors busy: 3.375 times as long.
    corrected, usual = (
        [note for note in explained(words)[0]["notes"] if " times as long as " in note]
        for words in ("Qwen/Qwen3-8B -H a100 --framework vllm --query-len 4", f"{MODEL} -H b200")
    )
    said = "idle multiprocessors: full_attention.core takes 3.38 times"
    assert (len(corrected), corrected[0].startswith(said), usual) == (1, True, [])


def explained(*words: object) -> tuple[dict[str, Any], dict[str, Any]]:
    result = answered("explain", *words)
    return result, {op["op"]: op for op in result["rows"]}


def test_explain_says_which_engine_prices_and_what_does_not_fit() -> None:
    words = "Qwen/Qwen2.5-72B-Instruct -H h100"
    result, _ = explained(words)
    assert result["case"]["engine"] == "sglang"
    (note,) = [note for note in result["notes"] if "does not fit" in note]
    assert "from batch size 1 at context 4096: 135 GiB of weights" in note  # 72.7e9 * 2 / 2**30
    # Four devices hold it.
    assert not [note for note in explained(words, "--tp 4")[0]["notes"] if "fit " in note]
    # A prompt is cached as it is read: 80 layers * 2 * 8 * 128 * 2 bytes * 800 000 tokens / 4.
    prompt = "--tp 4 --prefill --query-len 800000"
    (note,) = [note for note in explained(words, prompt)[0]["notes"] if "not fit" in note]
    assert "at context 800000: 33.9 GiB of weights and 61.0 GiB of cache per sequence" in note


def test_the_time_to_the_first_token_is_that_of_a_request_alone() -> None:
    words = f"{MODEL} -H h100 --engine sglang --prefill --query-len"
    engine = specroof.load_hardware("h100").engine("sglang")
    alone, four = (explained(words, f"1000 --batch {n}")[0]["case"] for n in (1, 4))
    lost_s = engine.request_latency_s + 1000 * engine.tokenize_s
    for count, case in ((1, alone), (4, four)):  # four share a pass of 8192 tokens
        in_passes_s = case["time_to_first_token_s"] - lost_s - count * engine.request_overhead_s
        assert in_passes_s == pytest.approx(case["total_s"])
    assert "time to first token: " in run("explain", words, "1000")
    # What `predict` has of it, where a pass takes less than a prompt, too.
    chunked = explained(words, "8192 --server chunk=512")[0]["case"]
    for length, server, case in ((1000, "", alone), (8192, "--server chunk=512", chunked)):
        requests = f"--input-len {length} --output-len 10 --concurrency 1 --steady {server}"
        found = answered(f"predict {MODEL} -H h100 --engine sglang --drafter ideal", requests)
        ttft_s = found["rows"][0]["plain_ttft_s"]
        assert case["time_to_first_token_s"] == pytest.approx(ttft_s)


def test_a_prompt_takes_the_passes_of_its_chunks() -> None:
    words = f"{MODEL} -H h100 --engine sglang --prefill --query-len"
    pieces = [explained(words, f"512 --context {512 * n}")[0]["case"]["total_s"] for n in range(16)]
    requests = "--input-len 8192 --output-len 100 --concurrency 1 --server chunk=512"
    case = answered(f"predict {MODEL} -H h100 --engine sglang --drafter ideal", requests)["case"]
    overhead_s = specroof.load_hardware("h100").engine("sglang").request_overhead_s
    assert case["load"]["wait_s"] == pytest.approx(sum(pieces) + overhead_s, rel=1e-3)


def test_an_alias_that_finds_another_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hardware_folder: Path
) -> None:
    text = (hardware_folder / "l4.yaml").read_text()
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace("aliases: [l4, l4-24gb]", "aliases: [mine, h100]"))
    told = run("hardware check", mine)
    assert told.splitlines()[1:] == ["note: alias h100 is one of h100-sxm, which -H h100 finds"]
    monkeypatch.setenv("SPECROOF_HARDWARE_PATH", str(tmp_path))
    assert run("hardware check", mine) == told  # its own aliases are its own
    bundled = hardware_folder / "h100-sxm.yaml"
    assert run("hardware check", bundled).count("\n") == 1


STUDY = """
format_version: 1
targets: [{model: openai/gpt-oss-20b, hardware: h100}]
drafters: [ideal, "autoregressive,accept=0.75,cost=0.10"]
engine: ideal
"""


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(STUDY)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "else")  # looks like room for a folder
    for place, says in (
        # Before anything is computed and printed.
        ("file/out", f"{tmp_path / 'file'} is a file"),
        ("file", f"{tmp_path / 'file'} is a file"),
        ("long" * 100, "File name too long"),
        ("link", "File exists"),
    ):
        line = refused("sweep", study, "-o", tmp_path / place)
        assert line.startswith(f"{tmp_path / place}: {says}; allowed: a folder")


@pytest.mark.parametrize(("other", "names"), rows("values", "charts_of_studies"))
def test_a_study_of_any_shape_has_a_chart(
    tmp_path: Path, other: dict[str, Any], names: list[str]
) -> None:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(yaml.safe_load(STUDY) | other))
    run("sweep --plot", tmp_path / "study.yaml", "-o", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out" / "charts").iterdir()) == names


def test_progress_is_shown_to_people_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    done = invoked("sweep", tmp_path / "study.yaml")
    assert (done.exit_code, done.stderr) == (0, "")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(SystemExit) as ended:
        app(["sweep", str(tmp_path / "study.yaml")])
    assert ended.value.code == 0
    assert "34/34" in terminal.getvalue()  # 2 drafters x draft lengths 0 to 16
    assert "100%" in terminal.getvalue()
    assert capsys.readouterr().out == done.stdout


def test_the_schema_of_a_study_is_printed() -> None:
    (line,) = run("sweep --schema").splitlines()
    assert {"targets", "drafters"} <= set(json.loads(line)["properties"])


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version") == f"specroof {version('specroof')}\n"


def test_a_call_without_words_shows_the_help_and_nothing_else() -> None:
    done = invoked()
    assert done.exit_code == 2
    assert "Usage: specroof" in done.stdout
    assert done.stderr == ""
