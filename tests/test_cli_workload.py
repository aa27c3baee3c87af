"""Requests and mocks on the command line."""

import re
from pathlib import Path

import specroof
from commands import answered, run
from specroof.quantities import QUANTITIES, cell_of

PREDICT = "predict Qwen/Qwen3-8B -H b200 --engine ideal --drafter autoregressive,accept=.8,cost=.05"


def test_requests_stand_beside_throughput() -> None:
    words = f"{PREDICT} --input-len 4000 --output-len 100 --concurrency 1,8 --steady"
    rows = answered(words)["rows"]
    lines = [line.split() for line in run(words).splitlines()]
    place = next(i for i, cells in enumerate(lines) if "TTFT" in cells)
    shown = ("concurrency", "draft_len", "speedup", "decision")
    for row, cells in zip(rows, lines[place + 1 : place + 3], strict=True):
        spelt = [cell_of(QUANTITIES[name], row[name]) for name in shown]
        assert [cell for cell in cells if cell in spelt][:4] == spelt
        for name in ("tpot_s", "ttft_s", "tokens_per_s"):
            assert cell_of(QUANTITIES[name], row[name]) in " ".join(cells)
    (row,) = answered(f"{PREDICT} --input-len 4000 --output-len 1")["rows"]
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
