"""Requests and mocks on the command line."""

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
    lengths = "--input-len 64 --output-len 64 --notes"
    assert "loses" not in run(f"{PREDICT} {lengths}")  # as engines do that were measured
    words = f"predict Qwen/Qwen3-8B -H b200 --drafter eagle3,accept=.8 {lengths}"
    for told, tokens in {"": 16384, "--server mixed=on,chunk=1024": 1024}.items():
        assert f": passes of {tokens} tokens " in run(f"{words} {told}")
