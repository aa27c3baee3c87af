"""One decision: table, schedule, flags, JSON and text of drawn advices say the same."""

import json
import os
import random
import shlex
from itertools import pairwise, takewhile
from typing import Any

import pytest
import yaml

from specroof import OptionError, advise
from specroof.policies.schedule import drafts_at
from specroof.quantities import ranges_spelt
from specroof.questions.advise import Advice
from tables import rows

#: What advice is drawn of.
DRAWN = rows("drawn_set_ups", "advice")
#: Draws, but for two that take as long as these together; SPECROOF_DRAWS=300 draws more.
MORE = os.environ.get("SPECROOF_DRAWS")
SEEDS = range(int(MORE)) if MORE else [*range(1, 6), *range(7, 12)]


def drawn(seed: int) -> Advice:
    """Return the advice on a drawn question."""
    rng = random.Random(seed)
    model = rng.choice([*DRAWN["models"]])
    call: dict[str, Any] = {
        "hardware": rng.choice(DRAWN["chips"]),
        "drafters": rng.sample(DRAWN["drafters"], rng.choice([1, 1, 2])),
        "tensor_parallel": DRAWN["models"][model],
        "concurrency": rng.choice(DRAWN["loads"]),
        "input_len": rng.choice([128, 1024, 8000]),
        "output_len": rng.choice([128, 512, 2000]),
        "framework": rng.choice([None, None, "vllm", "sglang", "tensorrt-llm"]),
        "tpot_ms": rng.choice([None, None, 10, 25]),
        "ttft_ms": rng.choice([None, None, 200, 2000]),
        "min_speedup": rng.choice([None, None, None, 1.1]),
        "server": rng.choice([None, None, None, "running=48", "memory=0.8"]),
        "draft_len": rng.choice([None, None, None, [1, 2, 3]]),
        "attention_data_parallel": rng.choice([1, 1, 1, 2]) if DRAWN["models"][model] > 1 else 1,
    }
    try:
        return advise(model, **call)
    except OptionError:  # no room on this chip: the next one
        return drawn(seed + 10_000)


@pytest.fixture(scope="module", params=SEEDS)
def advice(request: pytest.FixtureRequest) -> Advice:
    return drawn(request.param)


def length_in_flags(framework: str, flags: str, files: dict[str, str], running: float) -> int:
    """Return the drafts that a server makes for so many requests, by its flags."""
    words = shlex.split(flags)
    if framework == "vllm":
        config = json.loads(words[words.index("--speculative-config") + 1])
        table = config.get("num_speculative_tokens_per_batch_size")
        return drafts_at(table, running) if table else config["num_speculative_tokens"]
    if framework == "tensorrt-llm":
        return int(yaml.safe_load(files["speculation.yaml"])["speculative_config"]["max_draft_len"])
    if "--speculative-adaptive-config" in words:
        slots = json.loads(files["adaptive.json"])
        key = max((int(first) for first in slots if int(first) <= running), default=1)
        return int(slots[str(key)]["candidate_steps"][0])
    for flag, root in {
        "--speculative-num-steps": 0,
        "--speculative-dspark-block-size": 0,
        "--speculative-dflash-block-size": 1,
        "--speculative-num-draft-tokens": 1,
    }.items():
        if flag in words:
            return int(words[words.index(flag) + 1]) - root
    raise AssertionError(flags)


def advised(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in found["rows"] if row["drafter"] == found["choice"]["drafter"]]


def test_one_length_stands_in_table_schedule_flags_and_json(advice: Advice) -> None:
    found = advice.to_dict()
    schedule = found["choice"]["schedule"]
    assert schedule[0][0] == 1
    assert all(after[0] == before[1] + 1 for before, after in pairwise(schedule))
    on = [row for row in advised(found) if row["draft_len"]]
    for row in advised(found):
        assert row["draft_len"] == drafts_at(schedule, row["concurrency"])
        assert row["draft_len"] in {0, row["tried_draft_len"]}
        assert (row["decision"] == "off") == (row["draft_len"] == 0)
        if row["draft_len"]:
            assert row["speedup"] == row["tried_speedup"]
        else:
            assert row["tokens_per_s"] == row["plain_tokens_per_s"]
    for framework, flags in found["choice"]["engine_config"].items():
        if not on:
            assert flags == ""
        elif flags is None:
            assert any(
                "no flag" in one or "no mtp" in one or "allowed" in one for one in found["warnings"]
            )
        for row in on if flags else ():
            room = found["case"]["capacity"]["speculative"]["largest_batch"]
            running = min(row["concurrency"], room)
            told = length_in_flags(framework, flags, found["choice"]["engine_files"], running)
            assert told == row["draft_len"], (framework, flags, schedule)
    if not on:
        assert found["choice"]["engine_files"] == {}


def test_the_decision_of_all_loads_is_that_of_each(advice: Advice) -> None:
    found = advice.to_dict()
    decisions = {row["decision"] for row in advised(found)}
    if found["choice"]["decision"] in {"on", "off"}:
        assert decisions == {found["choice"]["decision"]}
    else:
        assert (found["choice"]["decision"] == "depends") == ("on" in decisions)
    loads = sorted((row["concurrency"], row["decision"]) for row in advised(found))
    on = [load for load, _ in takewhile(lambda one: one[1] == "on", loads)]
    assert found["choice"]["on_up_to"] == (max(on) if on else None)
    for row in advice.rows:
        if row.decision == "on":
            low, _ = row.bands.get("tried_speedup", (row.tried_speedup, None))
            assert row.reason or low > advice.targets.least_speedup
            assert row.ttft_s is not None
            assert row.plain_ttft_s is not None
            assert row.ttft_s <= 10 * row.plain_ttft_s
    text = " ".join(advice.text().split())
    line = advice.text().splitlines()[1]
    assert line.startswith(f"decision: {advice.rows[0].decision}")
    assert all(decision in line for decision in decisions)
    ranges = ranges_spelt([(*entry,) for entry in found["choice"]["schedule"]])
    assert (f"drafts by load: {ranges} " in text) == (decisions != {"off"})


def test_targets_hold_at_the_load_that_ranks(advice: Advice) -> None:
    found, targets = advice.to_dict(), advice.targets
    best = advice.chips[0].plan.best
    told = found["choice"]["best"] and (
        found["choice"]["best"]["concurrency"],
        found["choice"]["best"]["tokens_per_s"],
    )
    assert told == (best and (best.concurrency, best.tokens_per_s))
    rows = advice.chips[0].rows
    meeting = [row for row in rows if targets.met(row.ttft_s, row.tpot_s)]
    if best is None:
        assert not meeting
        return
    assert targets.met(best.ttft_s, best.tpot_s)
    rates = [row.tokens_per_s for row in meeting if row.waits <= best.waits]
    assert best.tokens_per_s >= max(rates, default=0.0)
    for row in advice.chips[0].rows:  # off does not miss what drafts would meet, nor the reverse
        plain_meets = targets.met(row.plain_ttft_s, row.plain_tpot_s)
        assert targets.met(row.ttft_s, row.tpot_s) or not plain_meets


def test_limits_that_are_raised_are_in_the_flags_of_the_server(advice: Advice) -> None:
    (chip,) = advice.chips
    for framework, flags in chip.engine_config.items():
        if flags and framework == chip.setup.engine.rules and framework != "tensorrt-llm":
            flag = {"sglang": "--max-running-requests", "vllm": "--max-num-seqs"}[framework]
            words = shlex.split(flags)
            told = int(words[words.index(flag) + 1]) if flag in words else None
            raised = chip.raised.get("running", (None, None))[1]
            assert told in {raised, chip.setup.user_settings.running}
    for row in chip.rows:
        if row.default is not None:
            # On average fewer run than may at a time: a run fills and drains.
            assert row.default.running <= row.running or row.draft_len
            assert row.default.running <= min(chip.raised["running"])
