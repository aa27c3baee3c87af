"""How a prediction prints what has no room: tables, JSON and the words for it."""

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from commands import answered, run
from gridded import gridded
from specroof import OptionError, capacity, worth
from specroof import predict as predicted
from tables import rows

PREDICT = "predict Qwen/Qwen3.5-27B -H h200"
predict = partial(run, PREDICT)
#: What `capacity`, which has goldens of its own, says of that server.
PLAIN = capacity("Qwen/Qwen3.5-27B", "h200", engine="sglang", context_len=4096).rows[0]


def test_tables_mark_what_has_no_room() -> None:
    words = "--engine sglang --max-draft-len 4 --drafter mtp,accept=0.8"
    text = predict(f"{words} --batch 1,32,64")
    rows = [line.split() for line in text.splitlines() if line.strip().startswith("4096")]
    assert rows[1][2:6] == ["0", "1.00x", "-", "off"]  # plain runs, drafts do not
    assert rows[2][2:6] == ["0", "memory", "-", "-"]
    for load in ("", " --input-len 4000 --output-len 500 --steady"):
        text = predict(f"{words} --concurrency 1,64{load} --notes")
        assert " running " in text  # fewer than are in flight
    little = f"{words} --server memory=0.3"
    load = "--concurrency 4 --input-len 400 --output-len 50"
    assert "not one request fits: " in predict(little, load)
    assert "none, since no draft fits" in predict(f"{little} --batch 1,4 --notes")
    one = predict(f"{words} --server running=1 --batch 1,4 --notes")
    assert ": 1 without drafts (running), 1 with 1 draft of" in one
    assert "on at batch 1, no room (a limit of the server) at batch 4" in one
    with pytest.raises(OptionError, match="is 4; allowed: at most 1, the limit of the server"):
        worth("Qwen/Qwen3.5-27B", "h200", drafter="mtp", batch_size=4, server="running=1")


def test_json_has_holes_and_what_bounds() -> None:
    words = "--engine sglang --max-draft-len 2 --drafter mtp,accept=0.8 --json"
    found = answered(PREDICT, words, "--batch 1,64 --grid")
    assert np.isnan(gridded(found, "speedup")[0, 1]).all()
    assert np.isnan(gridded(found, "tokens_per_s")[0, 1]).all()
    row = found["rows"][1]
    assert (row["reason"], row["speedup"], row["decision"]) == ("memory", None, None)
    assert row["near_best"] is row["plain_tpot_s"] is None
    # The smallest of what memory and a stated limit allow tells which of them binds.
    beyond = PLAIN.largest_batch + 1
    stated = answered(PREDICT, words, f"--batch 1,8,{beyond} --server running=4")
    assert [row["reason"] for row in stated["rows"]] == [None, "limit", "limit"]
    most = answered(PREDICT, words, f"--batch 1,{beyond} --server running=999")
    assert [row["reason"] for row in most["rows"]] == [None, "memory"]
    case, limits = found["case"], {"largest_batch": [PLAIN.largest_batch], "bound_by": ["state"]}
    assert case["room"] == {"queues": False, **limits}
    (drafter,) = case["drafters"]
    assert len(drafter["largest_batch"][0]) == 3
    assert (case["server"]["framework"], case["server"]["running"]) == ("sglang", None)
    assert drafter["server"]["running"] == 48
    free = answered(PREDICT, words, "--batch 1,64 --no-capacity --grid")
    assert free["case"]["room"] is None
    assert gridded(free, "speedup")[0, 1, 0] == 1.0


@pytest.mark.parametrize(
    ("chip", "context_len", "asked", "devices"), rows("values", "devices_that_hold")
)
def test_a_model_without_room_names_the_devices_that_hold_a_request(
    chip: str, context_len: Any, asked: dict[str, Any], devices: list[str]
) -> None:
    asked = {"drafters": "ideal", "framework": "sglang", "context_len": context_len} | asked
    found = predicted("Qwen/Qwen2.5-7B-Instruct", chip, **asked)
    assert re.findall(r"--tp (\d+)", "".join(found.warnings)) == devices


def test_a_load_is_refused_for_what_it_lacks_without_drafts() -> None:
    # Four requests fit beside the model, and none beside the drafter, too.
    def asked(batch: int, **more: Any) -> Any:
        more |= {"drafter": "eagle3", "engine": "sglang"}
        load: Any = {"batch_size": batch, "context_len": 2000, "accept_length": 3}
        return worth("Qwen/Qwen2.5-7B-Instruct", "a10g", **load, **more).rows[0].reason

    assert asked(2, server="running=2") == "memory"
    with pytest.raises(OptionError, match="allowed: what 1 x NVIDIA A10G have memory for, or --no"):
        asked(9)
    with pytest.raises(OptionError, match="is 9; allowed: at most 2, the limit of the server, or"):
        asked(9, server="running=2")
