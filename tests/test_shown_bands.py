"""How questions print bands: the ends of every figure, and a sentence where none is known."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import answered, run
from gridded import gridded
from specroof import load_hardware
from specroof.hardware.engine import Band, EngineProfile, Reach
from specroof.hardware.written import calibrated_yaml
from specroof.questions.predict import served_bands_line
from specroof.serving.workload import TURNAROUND_S
from tables import reads, rows

CHIP = load_hardware("h200")
WIDE = Band(width=0.4, mean_error=0.2, points=90, engines={"vllm": 90})
EAGLE3 = "Qwen/Qwen3-8B -H h200 --drafter eagle3,accept=0.7"


def test_json_and_tables_have_bands_and_the_ideal_engine_none() -> None:
    words = f"predict {EAGLE3} --max-draft-len 3 --batch"
    found = answered(f"{words} 1,8 --engine sglang --grid")
    low, middle, high = (gridded(found, f"speedup{end}") for end in ("_low", "", "_high"))
    assert low.shape == middle.shape == high.shape == (1, 2, 4)
    assert (low[..., 1:] < middle[..., 1:]).all()
    assert (middle[..., 1:] < high[..., 1:]).all()
    assert [row["decision"] for row in found["rows"]] == ["on", "on"]
    found = answered(f"{words} 1,8 --engine ideal --grid")
    assert "speedup_low" not in found["grid"]["quantities"]
    assert found["rows"][0]["speedup_low"] is found["rows"][0]["speedup_high"] is None
    # Without lengths to draft there is nothing to be unsure of.
    (row,) = answered(f"predict {EAGLE3} --max-draft-len 0 --engine sglang")["rows"]
    assert (row["draft_len"], row["speedup"], row["tried_speedup_low"]) == (0, 1.0, None)


def test_json_has_the_ends_of_every_figure(tmp_path: Path) -> None:
    reach = Reach(
        family="hopper", engines=("sglang",), chips=(CHIP.name,), formats=("bf16",),
        attention=("full_attention",), placements=("one device",),
    )  # fmt: skip
    bands = {name: {"any": WIDE} for name in ("tpot_s", "ttft_s", "tokens_per_s")}
    fast = replace(CHIP.engine("sglang"), served_bands=bands, reach=reach)
    file = tmp_path / "mine.yaml"
    file.write_text(calibrated_yaml(replace(CHIP, aliases=()), fast, name="mine", source="made up"))
    words = EAGLE3.replace("h200", str(file)) + " --input-len 1000 --output-len 200"
    answer = answered(f"predict {words} --max-draft-len 2 --grid")
    assert answer["case"]["reach"]["chip"] == "measured"
    names = ("tokens_per_s", "usd_per_million_tokens", "ttft_s", "tpot_s")
    for name in names:
        low, at, high = (gridded(answer, f"{name}{end}") for end in ("_low", "", "_high"))
        assert low.shape == at.shape == high.shape == (1, 1, 3), name
        assert np.all((low < at) & (at < high)), name
        # The first token is late by what has no band, and the 199 behind it follow sooner by that.
        late = (fast.request_latency_s - TURNAROUND_S) / 199 if name == "tpot_s" else 0.0
        ends = high[0, 0, 0] + late, at[0, 0, 0] + late
        assert math.log(ends[0] / ends[1]) == pytest.approx(0.4), name
    answer = answered(f"advise {words} --concurrency 1,8")
    assert answer["choice"]["reach"]["batch"]["asked"] == [1, 8]
    for row in answer["rows"]:
        for name in names:
            assert row[f"plain_{name}_low"] < row[f"plain_{name}_high"]


@pytest.mark.parametrize(
    ("engine", "bands", "batch", "asked", "says"), rows("values", "lines_of_bands")
)
def test_an_engine_without_served_loads_says_so_and_the_ideal_one_has_no_server(
    engine: str, bands: dict[str, Any], batch: list[int], asked: dict[str, bool], says: str
) -> None:
    served = {
        name: {load: Band(**band) for load, band in cells.items()} for name, cells in bands.items()
    }
    profile = EngineProfile(name=engine, served_bands=served)
    assert reads(served_bands_line(profile, batch, **asked), says)


def test_the_flag_that_plays_requests_is_named_where_it_helps() -> None:
    words = EAGLE3.replace("h200", "h100") + " --input-len 512 --output-len 64 --concurrency 1"
    for more, named in (("--steady", True), ("", False), ("--prefill 1x1 --decode 1x1", False)):
        for question in ("predict --engine vllm", "advise --framework vllm"):
            said = " ".join(run(f"{question} {words} {more} --notes").split())
            assert ("start together" in said) is named, (question, more)
