"""How a prediction prints what has no room: tables, JSON and the words for it."""

import json

from typer.testing import CliRunner

from specroof import capacity
from specroof.cli import app

#: What `capacity`, which has goldens of its own, says of the server below.
PLAIN_ROOM = (
    capacity("Qwen/Qwen3.5-27B", "h200", engine="sglang", context_len=4096).rows[0].largest_batch
)


def shell(words: str) -> str:
    """Return what a call prints."""
    run = CliRunner().invoke(app, f"predict Qwen/Qwen3.5-27B -H h200 {words}".split())
    assert run.exit_code == 0, run.stderr
    return run.stdout


def test_tables_mark_what_has_no_room() -> None:
    words = "--engine sglang --max-draft-len 4 --drafter mtp,accept=0.8"
    text = shell(f"{words} --batch 1,32,64")
    rows = [line.split() for line in text.splitlines() if line.strip().startswith("4096")]
    assert rows[0][-1] == "1"
    assert rows[1][4:9] == ["none", "no", "room", "-", "-"]  # plain runs, drafts do not
    assert rows[2][2:] == ["no", "room", *["-"] * 10]
    assert "larger batches have no room" in text
    assert "context 4096, batch 64: no room" in shell(f"{words} --batch 64")
    text = shell(f"{words} --concurrency 64")
    assert f"batch 64: {PLAIN_ROOM} run, a plain step takes" in text
    text = shell(f"{words} --concurrency 1,64 --input-len 4000 --output-len 500 --steady")
    assert f"{PLAIN_ROOM}, " in text
    nowhere = shell(f"{words} --server memory=0.3 --concurrency 4 --input-len 400 --output-len 50")
    assert "not one request fits: " in nowhere
    assert "more would be needed on each device" in nowhere
    nowhere = shell(f"{words} --server memory=0.3 --batch 1,4")
    survey = nowhere.partition("does not pay at batch")[2].splitlines()
    assert survey[1].split()[:3] == ["no", "room", "4096"]
    assert "at most 0 requests run plain (cache)" in nowhere
    assert "nan" not in nowhere
    one = shell(f"{words} --server running=1 --batch 1,4")
    assert "at most 1 request runs plain (running), 1 with 1 draft of" in one
    survey = one.partition("does not pay at batch")[2].splitlines()
    assert survey[1].startswith("none; no room from 2 ")


def test_json_has_holes_and_what_bounds() -> None:
    words = "--engine sglang --max-draft-len 2 --drafter mtp,accept=0.8 --json"
    found = json.loads(shell(f"{words} --batch 1,64").splitlines()[-1])
    (drafter,) = found["drafters"]
    assert drafter["speedup"][0][1] == [None, None, None]
    assert drafter["best_draft_len"][0][1] is drafter["best_speedup"][0][1] is None
    assert drafter["near_best"][0][1] == [None, None]
    assert found["baseline"]["step_s"][0][1] is found["baseline"]["tokens_per_s"][0][1] is None
    assert found["capacity"] == {
        "queues": False,
        "largest_batch": [PLAIN_ROOM],
        "bound_by": ["state"],
    }
    assert len(drafter["capacity"]["largest_batch"][0]) == 3
    assert (found["server"]["framework"], found["server"]["running"]) == ("sglang", None)
    assert drafter["server"]["running"] == 48
    free = json.loads(shell(f"{words} --batch 1,64 --no-capacity").splitlines()[-1])
    assert free["capacity"] is None
    assert free["drafters"][0]["speedup"][0][1][0] == 1.0
