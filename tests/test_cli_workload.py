"""Requests and mocks on the command line."""

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import specroof
from gridded import gridded
from specroof.cli import app
from specroof.plot import curves as curve_charts
from specroof.quantities import QUANTITIES, cell_of

PREDICT = "predict Qwen/Qwen3-8B -H b200 --engine ideal --drafter autoregressive,accept=.8,cost=.05"


def run(words: str) -> str:
    """Return what a command prints; it must succeed."""
    done = CliRunner().invoke(app, shlex.split(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(words: str) -> str:
    """Return the one line that a refused command leaves on standard error."""
    done = CliRunner().invoke(app, shlex.split(words))
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    return line


def result(words: str) -> dict[str, Any]:
    value = json.loads(run(f"{words} --json").splitlines()[-1], parse_constant=pytest.fail)
    assert isinstance(value, dict)
    return value


def test_requests_stand_for_a_context_and_a_batch() -> None:
    found = result(
        f"{PREDICT} --input-len 4000 --output-len 1000 --concurrency 1,8 --steady --grid"
    )
    plain = result(f"{PREDICT} --context 4500 --batch 1,8 --grid")
    load = found["case"]["load"]
    lengths = {"input_len": 4000, "output_len": 1000, "prefix_hit_rate": 0}
    assert load.items() >= {"context_len": [4500], "concurrency": [1, 8], **lengths}.items()
    for name in ("tokens_per_round", "draft_s", "verify_s", "round_s", "verify_len"):
        assert gridded(found, name).tolist() == gridded(plain, name).tolist()
    # By hand: a prefill and 999 steps at batch 1 without drafts.
    seconds = 999 * gridded(plain, "round_s")[0, 0, 0] + load["wait_s"]
    assert gridded(found, "tokens_per_s")[0, 0, 0] == pytest.approx(1000 / seconds)
    speedups = gridded(found, "speedup")[0]
    assert speedups[1, 0] == 1
    for row, lengths_of_load in zip(found["rows"], speedups, strict=True):
        assert lengths_of_load[row["draft_len"]] == row["speedup"] == np.nanmax(lengths_of_load)


def test_depths_without_a_value_are_null_with_prefills_too() -> None:
    words = PREDICT.replace("accept=.8", "survival=.9/.7")
    found = result(f"{words} --input-len 64 --output-len 64 --grid")
    assert np.isnan(gridded(found, "speedup")[0, 0, 3])


def test_requests_stand_beside_throughput() -> None:
    words = f"{PREDICT} --input-len 4000 --output-len 100 --concurrency 1,8 --steady"
    rows = result(words)["rows"]
    lines = [line.split() for line in run(words).splitlines()]
    place = next(i for i, cells in enumerate(lines) if "TTFT" in cells)
    shown = ("concurrency", "draft_len", "speedup", "decision")
    for row, cells in zip(rows, lines[place + 1 : place + 3], strict=True):
        spelt = [cell_of(QUANTITIES[name], row[name]) for name in shown]
        assert [cell for cell in cells if cell in spelt][:4] == spelt
        for name in ("tpot_s", "ttft_s", "tokens_per_s"):
            assert cell_of(QUANTITIES[name], row[name]) in " ".join(cells)
    (row,) = result(f"{PREDICT} --input-len 4000 --output-len 1")["rows"]
    assert row["tpot_s"] is row["plain_tpot_s"] is None  # there is no token after the first


def test_the_table_shows_what_prefills_leave() -> None:
    text = run(f"{PREDICT} --input-len 4000 --output-len 100 --concurrency 1,8 --steady --notes")
    assert "prefills counted, " in text
    assert ": passes that stop the batch; a prompt alone takes " in text
    assert "loses" not in text
    # An engine that was measured loses time around each request, too.
    words = (
        "predict Qwen/Qwen3-8B -H b200 --drafter eagle3,accept=.8 --input-len 64 --output-len 64"
    )
    ends = r"; a prompt alone takes [\d.]+ ms, and each request loses [\d.]+ ms\n"
    for told, how in {
        "": "passes of 16384 tokens that stop the batch",
        "--server mixed=on,chunk=1024": (
            "passes of 1024 tokens shared with decoding, which then drafts nothing"
        ),
        "--engine vllm": "passes of 16384 tokens shared with decoding",
    }.items():
        assert re.search(f": {how}{ends}", run(f"{words} {told} --notes"))


STUDY = """
format_version: 1
targets:
  - {model: Qwen/Qwen3-8B, hardware: [b200, h200], tensor_parallel: 2}
drafters: ["autoregressive,accept=.8,cost=.05", "autoregressive,cost=0.1,survival=.9/.7"]
batch_size: [1, 8]
workload: [{input_len: 4000, output_len: 1000}, {input_len: 64, output_len: 32}]
engine: ideal
"""


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_points_are_those_of_the_grid(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    words = f"{PREDICT} --input-len 4000 --output-len 1000 --concurrency 1,8 --max-draft-len 3"
    found = result(f"{words} --grid --points {path}")
    rows = read_csv(path)
    assert len(rows) == 2 * 4
    for row in rows:
        place = found["grid"]["coords"]["concurrency"].index(int(row["batch_size"]))
        for name in found["grid"]["quantities"]:
            expected = gridded(found, name)[0, place, int(row["draft_len"])]
            assert np.isnan(expected) if row[name] == "" else float(row[name]) == expected
    run(f"{PREDICT} --points {path}")
    assert not [name for name in read_csv(path)[0] if name in {"steady", "ttft_s", "requests"}]


def test_a_study_of_workloads_writes_what_predict_prints(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    run(f"sweep {tmp_path / 'study.yaml'} -o {tmp_path / 'out'} --format csv")
    files = sorted((tmp_path / "out" / "points").iterdir())
    rows = [row for path in files for row in read_csv(path)]
    # 2 chips x 2 workloads x 2 drafters x 2 batch sizes x draft lengths 0 to 16
    assert len(rows) == 2 * 2 * 2 * 2 * 17
    assert {(row["context_len"], row["input_len"], row["output_len"]) for row in rows} == {
        ("4500", "4000", "1000"),
        ("80", "64", "32"),
    }
    unknown = [row for row in rows if row["speedup"] == ""]
    assert {row["drafter"] for row in unknown} == {"autoregressive,cost=0.1,survival=.9/.7"}
    assert {int(row["draft_len"]) for row in unknown} == set(range(3, 17))  # two were measured
    study = yaml.safe_load(STUDY)
    drafters = " ".join(f"--drafter {one}" for one in study["drafters"])
    last = "predict Qwen/Qwen3-8B -H h200 --tp 2 --engine ideal --isl 64 --osl 32 --concurrency 1,8"
    found = result(f"{last} {drafters} --steady --grid")
    of_last = [row for row in rows if row["input_len"] == "64" and "H200" in row["hardware"]]
    assert len(of_last) == 2 * 2 * 17
    for row in of_last:
        place = [1, 8].index(int(row["batch_size"])), int(row["draft_len"])
        told = gridded(found, "speedup", study["drafters"].index(row["drafter"]))[0][place]
        np.testing.assert_equal(float(row["speedup"] or "nan"), told)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The curves that each kind of chart is drawn of, in the course of a test."""
    seen: dict[str, list[Any]] = {}

    def spied(name: str) -> Any:
        figure_of = getattr(curve_charts, name)

        def spy(curves: Any, **more: Any) -> Any:
            seen.setdefault(name, []).extend(curves)
            return figure_of(curves, **more)

        return spy

    for name in ("plot_speedup_by_draft_len", "plot_by_batch"):
        monkeypatch.setattr(curve_charts, name, spied(name))
    return seen


def test_charts_of_requests_show_what_prefills_leave(
    tmp_path: Path, drawn: dict[str, list[Any]]
) -> None:
    words = f"{PREDICT} --input-len 4000 --output-len 1000 --grid --plot {tmp_path / 'a.png'}"
    found = result(words)
    ((curve,),) = drawn.values()
    assert curve.speedup.tolist() == gridded(found, "speedup").tolist()


def test_the_overview_of_a_study_of_workloads_has_prefills(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    run(f"sweep {tmp_path / 'study.yaml'} -o {tmp_path / 'out'} --plot")
    found = specroof.read_results(tmp_path / "out")
    # 2 chips, 2 drafters, 2 workloads
    assert [one.requests for one in found.overviews] == 4 * [
        "4000 tokens in, 1000 out",
        "64 tokens in, 32 out",
    ]
    charts = sorted(path.name for path in (tmp_path / "out" / "charts").iterdir())
    assert charts == [
        "best-speedup-by-batch-workload-1.png",
        "best-speedup-by-batch-workload-2.png",
    ]


def test_results_of_a_mock_calibrate(tmp_path: Path) -> None:
    # What vLLM would save, drafts said in the file, lengths from its totals.
    rows = [
        {
            "model_id": "Qwen/Qwen3-8B",
            "max_concurrency": batch,
            "duration": 10.0,
            "completed": 10,
            "total_input_tokens": 1000,
            "total_output_tokens": 10 * rate,
            "output_throughput": float(rate),
        }
        for batch, rate in ((1, 100), (8, 700), (64, 3000))
    ]
    bench = tmp_path / "bench.jsonl"
    bench.write_text("\n".join(map(json.dumps, rows)))
    words = f"calibrate {bench} -H b200 --engine ideal --model"
    found = result(f"{words} Qwen/Qwen3-8B")
    assert [one["name"] for one in found["case"]["fitted"]] == [
        "pass_overhead_s",
        "sequence_overhead_s",
    ]
    assert found["rows"][2]["place"].endswith("bench.jsonl, line 3")
    assert "is of model 'Qwen/Qwen3-8B'; model is" in refused(f"{words} Qwen/Qwen3-4B")
