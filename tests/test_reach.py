"""How near the measurements behind an engine are to what is asked."""

import re
from collections.abc import Iterator
from dataclasses import replace
from operator import gt
from typing import Any

import pytest

from specroof import Options, hardware_names, load_hardware, load_model, predict
from specroof.architecture.base import Linear
from specroof.architecture.model import Architecture
from specroof.errors import ProfileError
from specroof.frameworks import known_releases
from specroof.hardware.engine import EngineProfile, Reach
from specroof.hardware.profile import HardwareProfile, Placement, parse_hardware
from specroof.hardware.written import calibrated_yaml
from specroof.latency.setup import Deployment, engine_setup
from specroof.speedup.reach import (
    deployment_words,
    evidence_engine,
    evidence_notes,
    how_sure,
    nearness,
)
from tables import present, rows

CHIP = load_hardware("h200")
REACH = Reach(
    family="hopper",
    engines=("vllm",),
    chips=(CHIP.name,),
    attention=("full_attention",),
    formats=("bf16",),
    placements=("one device", "tp"),
    batch_size=256,
    context_len=9000,
    drafters=("eagle3", "mtp"),
    drafted_batch_size=32,
    drafted_context_len=1500,
)

NO_BANDS = EngineProfile(name="mine")


def deployment(
    reach: Reach | None,
    *,
    chip: HardwareProfile = CHIP,
    model: str = "Qwen/Qwen3-8B",
    placement: Placement | None = None,
    options: Options | None = None,
) -> Deployment:
    profile = replace(CHIP.engine("vllm"), framework=None, reach=reach)
    made = replace(chip, engines={"vllm": profile})
    return Deployment(load_model(model), engine_setup(made, "vllm", placement, options))


def near_of(served: Deployment, *load: Any, drafter: str = "eagle3") -> dict[str, Any]:
    return present(nearness(served, [drafter], *load))


def test_nothing_lies_outside_of_what_was_measured() -> None:
    near = nearness(deployment(REACH), ["eagle3"], 1500, [1, 32])
    words = ("chip", "framework", "release", "attention", "format", "placement")
    assert near == dict.fromkeys(words, "measured") | {
        "batch": {"asked": [1, 32], "measured_to": 32, "plain_measured_to": 256},
        "context": {"asked": [1500], "measured_to": 1500, "plain_measured_to": 9000},
        "text": "near measurements",
    }
    for context_len, widens in ((1500, False), (1501, True)):
        assert ("widen" in how_sure(deployment(REACH), ["eagle3"], context_len, 1)) is widens
    # An engine that knows no evidence says nothing.
    assert nearness(deployment(None), ["eagle3"], 1, 1) is None
    assert list(evidence_notes(deployment(None), "eagle3", 1, 1, NO_BANDS)) == []


@pytest.mark.parametrize(("changes", "load", "said"), rows("values", "reach"))
def test_what_lies_outside_is_said(
    changes: dict[str, Any], load: tuple[Any, Any], said: list[str]
) -> None:
    text = near_of(deployment(replace(REACH, **changes)), *load)["text"]
    assert all(words in text for words in said)
    assert text.count(" and ") == len(said) - 1


def test_kinds_formats_and_ways_to_spread_are_told_apart() -> None:
    spread = deployment(
        REACH,
        model="deepseek-ai/DeepSeek-V3",
        placement=Placement(16, 8, 8, 2),
        options=Options(weight_dtype="fp4"),
    )
    assert deployment_words(spread) == {
        "attention": ("latent_attention",),
        "formats": ("fp4",),
        "placements": ("tp", "ep", "dp-attention", "dcp", "nodes"),
    }
    near = near_of(spread, 1, 1)
    assert [near[key] for key in ("attention", "format", "placement")] == ["none"] * 3
    assert "decode context parallelism" in near["text"]
    hybrid = deployment(REACH, model="Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert deployment_words(hybrid)["attention"] == ("full_attention", "linear_attention")


def test_the_format_is_that_of_most_bytes() -> None:
    # Of gpt-oss-120b, experts are in mxfp4 and the rest in bf16.
    assert load_model("openai/gpt-oss-120b").weight_format == "mxfp4"
    empty = Architecture("none", "llama", 8, 9, (), Linear("lm_head", 8, 9))
    assert empty.weight_format == "bf16"


def test_a_chip_of_the_family_is_nearer_than_one_of_no_family() -> None:
    other = replace(CHIP, name="another")
    for family, near_as in (("hopper", "family"), ("", "none")):
        served = deployment(replace(REACH, family=family), chip=other)
        assert near_of(served, 1, 1, drafter="mtp")["chip"] == near_as


def test_a_release_that_nobody_timed_is_said_and_never_surer() -> None:
    drifting = replace(REACH, versions=("v0.10", "v0.19"), speedup_drift=0.04, drift=0.1)
    for newest, is_new in (("v0.19", True), ("v0.33", False), ("v1.0", False)):
        timed = replace(drifting, versions=("v0.10", newest))
        near = near_of(deployment(timed), 1500, 32)
        assert near["release"] == ("none" if is_new else "measured")
        assert ("release 0.33.0" in near["text"]) == is_new
        assert (
            "bands here begin at" in how_sure(deployment(timed), ["eagle3"], 1500, 32)
        ) == is_new
    # A release that is named was timed.
    old = replace(CHIP.engine("vllm"), reach=drifting).of_release("0.19")
    chip = replace(CHIP, engines={"vllm": old})
    named = Deployment(load_model("Qwen/Qwen3-8B"), engine_setup(chip, "vllm", None, None))
    assert near_of(named, 1500, 32)["release"] == "measured"


@pytest.mark.parametrize(("batch", "context"), [(1, 1024), (32, 1024), (8, 32768)])
def test_no_band_is_wider_than_is_said_beside_it(batch: int, context: int) -> None:
    found = predict(
        *("Qwen/Qwen3-8B", "h100"),
        drafters="eagle3,accept-length=2.5@3",
        batch_size=batch,
        context_len=context,
    )
    (row,) = found.rows
    said = present(re.search(r"bands here begin at -\d+% to \+(\d+)%(.*)", found.sureness))
    is_wider = present(row.speedup_high) / row.speedup > 1.005 + int(said[1]) / 100
    assert not is_wider or said[2] == ", and widen"
    assert is_wider == (batch > 8 or context > 1050)  # as far as drafts were measured there


def widths(served: Deployment) -> Iterator[float]:
    engine = evidence_engine(served)
    yield from (band.width for band in engine.bands.values())
    yield from (band.width for cells in engine.served_bands.values() for band in cells.values())


def test_no_engine_is_surer_of_newer_releases_than_of_those_that_were_timed() -> None:
    known = 0
    for name in hardware_names():
        chip = load_hardware(name)
        for key, engine in chip.engines.items():
            reach = engine.reach
            if reach is None or not reach.versions or not known_releases(key):
                continue
            assert min(reach.drift, reach.speedup_drift) > 0
            new, seen = (
                Deployment(load_model("Qwen/Qwen3-8B"), engine_setup(made, key, None, None))
                for tag in ("v0.0", "v99.9")
                for made in [
                    replace(
                        chip, engines={key: replace(engine, reach=replace(reach, versions=(tag,)))}
                    )
                ]
            )
            assert all(map(gt, widths(new), widths(seen)))
            known += 1
    assert known > 5


#: The chip without its own engines.
BARE = replace(
    CHIP,
    engines={},
    default_engine=None,
    sources={key: text for key, text in CHIP.sources.items() if not key.startswith("engines.")},
)


def test_reach_and_bands_of_requests_are_read_as_they_are_written() -> None:
    served = deployment(REACH).setup
    text = calibrated_yaml(
        BARE, replace(served.engine, served_bands={}), name="mine", source="made up"
    )
    for trusted in (True, False):
        assert parse_hardware(text, source="mine", trusted=trusted).engine("mine").reach == REACH
    bands = "served_bands: {tpot_s: {any: {width: 0.1, mean_error: 0.1, points: 9}}}"
    text = text.replace("    reach:", f"    {bands}\n    reach:", 1)
    read = parse_hardware(text, source="mine").engine("mine")
    assert read.served_bands["tpot_s"]["any"].width == 0.1
    for wrong in (text.replace("tpot_s", "tpot"), text.replace("{any", "{to-5")):
        with pytest.raises(ProfileError, match="allowed"):
            parse_hardware(wrong, source="mine")
