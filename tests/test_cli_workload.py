"""Requests and mocks on the command line."""

import re

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
