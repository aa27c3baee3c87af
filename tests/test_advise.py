"""Advice: what to do, on one page, as JSON and from Python."""

import json
import math
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from commands import answered, invoked, refused, run
from gridded import gridded
from specroof import Options, advise, load_hardware, load_model, predict
from specroof.outcomes.case import Case
from specroof.questions.advise import _conditions, _unreached, _why_on, chip_decision
from specroof.questions.advised_loads import AdvisedRow, Course, LoadPlan, Targets, _warnings
from specroof.questions.predict import predicted
from specroof.serving.workload import Load
from tables import rows

EXAMPLE = (
    "Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --input-len 3000 --output-len 500 "
    "--concurrency 1,8,32,64,128 --drafter eagle3,accept-length=2.8@3 --drafter ngram,accept=0.3 "
    "--steady"
)
SMALL: dict[str, Any] = {
    "drafters": "eagle3,accept-length=2.8@3", "input_len": 1000, "output_len": 500,
    "concurrency": [1, 8], "steady": True,
}  # fmt: skip


page = partial(run, "advise")
answer = partial(answered, "advise")


def advised(found: dict[str, Any]) -> list[dict[str, Any]]:
    loads = len(found["choice"]["break_even"])
    rows: list[dict[str, Any]] = found["rows"][:loads]
    assert {row["drafter"] for row in rows} == {found["choice"]["drafter"]}
    return rows


def test_rows_are_what_predict_says_of_each_load() -> None:
    found = answer(EXAMPLE)
    drafters = ["eagle3,accept-length=2.8@3", "ngram,accept=0.3"]
    # The limit is that of the largest load with drafts, or what memory holds of it to the end.
    held = answered(
        "capacity Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --context 3500 --drafter eagle3 "
        "--server running=128"
    )["rows"][-1]["largest_batch"]
    assert found["choice"]["raised"] == {"running": {"from": 48, "to": held}}
    predicted = predict(
        "Qwen/Qwen3-32B-FP8", "h100", drafters=drafters, tensor_parallel=2, input_len=3000,
        output_len=500, concurrency=[1, 8, 32, 64, 128], steady=True,
    )  # fmt: skip
    eagle, ngram = predicted.counted
    rows, others = found["rows"][:5], found["rows"][5:]
    assert [row["drafter"] for row in found["rows"]] == [drafters[0]] * 5 + [drafters[1]] * 5
    assert [row["concurrency"] for row in found["rows"]] == [1, 8, 32, 64, 128] * 2
    for i, (row, other) in enumerate(zip(rows, others, strict=True)):
        # The other drafter needs a server of its own, which keeps one length at any load.
        length = other["tried_draft_len"]
        assert length == others[0]["tried_draft_len"]
        assert other["tried_speedup"] == pytest.approx(ngram.speedup[0, i, length])
        limits = {name: row[name] for name in row if name.startswith("speedup_without_")}
        assert f"speedup_without_{row['limited_by']}" == max(limits, key=limits.__getitem__)
        assert min(limits.values()) >= row["speedup"] * (1 - 1e-9) or row["limited_by"] != "prefill"
        assert found["choice"]["own_lengths"][i] == {
            "concurrency": row["concurrency"],
            "rate": None,
            "draft_len": 3,
            "speedup": pytest.approx(eagle.speedup[0, i, 3]),
        }
    # The few ranges lose no more than a fifth of a percent for each.
    best = np.maximum(np.nanmax(eagle.speedup[0, :, :4], axis=-1), 1.0)  # measured with 3 drafts
    lost = np.mean([1 - row["speedup"] / most for row, most in zip(rows, best, strict=True)])
    assert found["choice"]["schedule_lost"] == pytest.approx(lost, abs=1e-9)
    assert lost < 0.004


@pytest.mark.parametrize(("schedule", "most", "reached", "says"), rows("values", "reached_loads"))
def test_flags_leave_out_loads_that_a_server_with_drafts_does_not_run(
    schedule: Any, most: int, reached: int, says: str
) -> None:
    schedule = tuple(map(tuple, schedule))
    room = {"speculative": {"largest_batch": most, "bound_by": "running"}}
    plan = LoadPlan((), (), None, 0, Course(schedule, None), 0, room, Targets(), ())
    assert plan.reached == schedule[:reached]
    told = " ".join(_unreached(plan))
    assert says in told
    assert bool(told) is bool(says)
    assert replace(plan, capacity=None).reached == schedule  # memory without an end


def test_drafts_that_change_nothing_are_no_gain() -> None:
    # Where prefill workers are busy all the time, no drafter makes more tokens per second, and one
    # that reads the prompts, too, makes fewer.
    reads, looks_up = (
        advise(
            "Qwen/Qwen3-32B", "h100", prefill="1x2", decode="1x2", framework="vllm", input_len=8000,
            output_len=200, concurrency=[1, 8, 128], drafters=drafter,
        )
        for drafter in ("eagle3,accept-length=2.8@3", "ngram,accept=0.7")
    )  # fmt: skip
    assert [row.decision for row in reads.rows] == ["on", "on", "off"]
    (chip,) = looks_up.chips
    assert "drafting stays on at 128 in flight: it changes nothing there" in _conditions(chip)
    assert _why_on(replace(chip.rows[-1], speedup=0.98), Targets()).startswith("it loses there")
    gains = replace(chip.rows[-1], speedup=1.4)  # for a target alone
    assert _why_on(gains, Targets(min_speedup=1.5)) == "less than 1.5x"
    assert "targets" in _why_on(gains, Targets(tpot_ms=20, min_speedup=1.5))


def test_a_server_that_holds_no_sequence_of_all_positions_starts_with_fewer() -> None:
    # 40 960 tokens of 64 layers, 8 heads of 128 keys and values in bf16: 10 GiB, beside 62 of 80.
    asked: Any = {"framework": "vllm", "input_len": 1000, "output_len": 500, "concurrency": 4}
    for model, is_told in (("Qwen/Qwen3-32B", True), ("Qwen/Qwen3-8B", False)):
        found = advise(model, "h100", drafters="eagle3,accept=0.7", **asked)
        assert ("--max-model-len auto" in str(found)) is is_told
    # Nor is anything said where memory does not count.
    found = advise("Qwen/Qwen3-32B", "h100", drafters="eagle3,accept=0.7", capacity=False, **asked)
    assert "vllm serve" in str(found)
    assert "--max-model-len auto" not in str(found)


@pytest.mark.parametrize(("framework", "weights", "is_served"), rows("values", "served_weights"))
def test_weights_that_the_command_does_not_serve_are_named(
    framework: str, weights: str, is_served: bool
) -> None:
    found = advise(
        "Qwen/Qwen3-8B", "h100", framework=framework, options=Options(weight_dtype=weights), input_len=100,
        output_len=50, concurrency=1, drafters="eagle3,accept-length=2.8@3",
    )  # fmt: skip
    assert f"checkpoint with weights in {weights}" in found.text() or is_served
    assert "checkpoint with weights" not in found.text() or not is_served


def test_a_drafter_that_the_server_refuses_is_no_choice() -> None:
    # deepseek_v4_hook.py: EAGLE and DSPARK; the best by far would be dflash.
    words = "deepseek-ai/DeepSeek-V4-Flash -H b200 --tp 4 --isl 9 --osl 9 --concurrency 4 --steady"
    refused = ["dflash,accept=0.97", "eagle3,accept=0.95"]
    given = " --drafter ".join(["", *refused, "mtp,accept=0.6"])
    found = answer(f"{words} --framework sglang{given}")
    choice = found["choice"]
    assert (choice["drafter"], [*choice["refused"]]) == ("mtp,accept=0.6", refused)
    assert choice["engine_config"]["sglang"].startswith("--speculative-algorithm EAGLE ")
    # A share of time stands for any drafter, and vLLM runs all of these.
    shares = f"{words} --framework sglang --drafter autoregressive,cost=0.05,accept=0.8"
    assert answer(shares)["choice"]["refused"] == {}
    assert answer(f"{words} --framework vllm{given}")["choice"]["drafter"] == refused[0]


def test_layers_of_mtp_from_elsewhere_are_to_be_filled_in() -> None:
    # MiMo-7B has such layers, of the width of Qwen3-8B, whose own checkpoint has none.
    words = "advise Qwen/Qwen3-8B -H h100 --isl 1000 --osl 100 --concurrency 1 --framework vllm"
    found = answered(f"{words} --drafter mtp,config=XiaomiMiMo/MiMo-7B-Base,accept=0.7")
    told = found["choice"]["engine_config"]["vllm"]
    assert '"method": "mtp", "model": "<YOUR-DRAFT-MODEL>"' in told


def flags_of(words: str, framework: str) -> list[str]:
    """Return the words of the flags that a call prints for a framework."""
    found = answer(f"{words} --isl 9 --osl 9 --concurrency 4 --steady --framework {framework}")
    return shlex.split(found["choice"]["engine_config"][framework])


def test_weights_of_mtp_are_told_where_the_user_names_them() -> None:
    words = "google/gemma-4-31B-it -H b200 --draft-model me/assistant --drafter mtp,accept=0.7"
    assert json.loads(flags_of(words, "vllm")[1])["model"] == "me/assistant"
    flags = flags_of(words, "sglang")
    assert flags[flags.index("--speculative-draft-model-path") + 1] == "me/assistant"
    # With another kind to choose from, they are that kind's.
    both = "Qwen/Qwen3.5-9B -H b200 --draft-model me/head --drafter eagle3,accept=0.2"
    assert "model" not in json.loads(flags_of(f"{both} --drafter mtp,accept=0.8", "vllm")[1])


@pytest.mark.parametrize("tree", ["tree=2/1/1,siblings=.2", "tree=sequoia,nodes=8,siblings=.2"])
def test_trees_of_a_shape_that_no_engine_grows_have_no_flags(tree: str) -> None:
    words = f"Qwen/Qwen3-8B -H h100 --isl 9 --osl 500 --drafter eagle3,accept=0.7,{tree}"
    found = answer(f"{words} --concurrency 1")
    assert found["choice"]["engine_config"] == {"vllm": None, "sglang": None}
    assert any("tree=eagle2" in warning for warning in found["warnings"])


def test_a_chip_takes_as_few_devices_as_hold_the_model() -> None:
    found = advise("Qwen/Qwen3-32B", ["b200", "l4", "h100"], **SMALL)
    devices = {c.setup.hardware.name: c.setup.placement.devices for c in found.chips}
    # 65.5 GB of weights, and the drafter: one H100 of 80 GB holds them; four L4 of 24 GB do not
    # leave room for their share of 16.4 GB and activations.
    assert devices["NVIDIA B200 SXM"] == 1
    assert devices["NVIDIA L4"] * 24e9 > 65.5e9
    prices = [c.rows[-1].usd_per_million_tokens for c in found.chips]
    assert prices == sorted(prices, key=lambda usd: usd or 0)
    # An engine that is only a bound comes last, whatever it promises.
    bound = replace(load_hardware("l4"), generic=None)
    found_too = advise("Qwen/Qwen3-32B", [bound, "b200"], **SMALL)
    assert [c.setup.hardware.name for c in found_too.chips] == ["NVIDIA B200 SXM", "NVIDIA L4"]
    # What all chips share is said once, without their names.
    assert sum("<YOUR-DRAFT-MODEL>" in one for one in found.warnings) == 1
    fixed = advise("Qwen/Qwen3-8B", ["b200", "h100"], tensor_parallel=4, **SMALL)
    assert [c.setup.placement.devices for c in fixed.chips] == [4, 4]


def test_a_chip_that_the_model_fits_nowhere_on_is_left_out_beside_others() -> None:
    # 145 GB of weights on a chip of 137 GB without a link to another.
    found = advise("Qwen/Qwen2.5-72B-Instruct", ["jetson-thor", "b200"], **SMALL)
    assert len(found.chips) == 1
    assert found.warnings[0].startswith(
        "Qwen2.5-72B-Instruct does not fit on up to 1 x NVIDIA Jets"
    )


def test_a_budget_of_devices_may_be_cut_into_stages() -> None:
    (chip,) = advise("Qwen/Qwen3-8B", "h100", devices=8, pipeline_parallel=2, **SMALL).chips
    assert chip.split is not None
    prefill = chip.split.prefill.placement.devices * chip.split.prefill_workers
    assert prefill + chip.setup.placement.devices * chip.split.decode_workers <= 8


def test_the_ideal_engine_counts_no_memory() -> None:
    words = "Qwen/Qwen2.5-72B-Instruct -H h100 --tp 1 --isl 100 --osl 10 --drafter eagle3,accept=.7"
    assert answer(f"{words} --engine ideal")["case"]["capacity"] is None


def test_a_head_count_that_does_not_divide_is_passed_over() -> None:
    # Qwen3-32B has 64 query heads; attention in groups of 2 leaves one device out.
    found = advise("Qwen/Qwen3-8B", "h100", attention_data_parallel=2, **SMALL)
    assert found.chips[0].setup.placement.devices == 2


def test_targets_out_of_reach_give_the_ceiling() -> None:
    found = answer(f"{EXAMPLE} --ttft 1 --tpot 0.1 --min-speedup 9")
    assert sum("is out of reach: the " in warning for warning in found["warnings"]) == 3
    assert found["choice"]["decision"] == "off"
    assert {row["meets_targets"] for row in found["rows"]} == {"no"}
    # What is advised against at every load is in no schedule, and has no flags.
    assert found["choice"]["schedule"] == [[1, 128, 0]]
    assert set(found["choice"]["engine_config"].values()) == {""}


@pytest.mark.parametrize(("targets", "said"), rows("values", "targets_out_of_reach"))
def test_targets_that_no_load_meets_are_named_with_the_best(
    targets: dict[str, float], said: list[str]
) -> None:
    loads: Any = (
        SimpleNamespace(load=n, unit="in flight", ttft_s=ttft_s, tpot_s=0.02, tried_speedup=gain)
        for n, ttft_s, gain in ((1, 0.2, 1.2), (8, 0.4, 1.5), (64, math.nan, math.nan))
    )
    assert _warnings([*loads], Targets(**targets)) == said


@pytest.mark.parametrize(("mean", "ends", "p99", "outcome"), rows("values", "met_targets"))
def test_a_target_is_met_only_if_its_band_says_so(
    mean: float, ends: tuple[float | None, float | None], p99: float | None, outcome: str
) -> None:
    band = None if None in ends else tuple(np.array([[end]]) for end in ends)
    both, quick_s = ("ttft_s", "tpot_s"), np.array([[0.1]])
    for name, other in (both, both[::-1]):
        waits_s = {name: np.array([[mean]]), other: quick_s}
        requests = SimpleNamespace(**waits_s)
        one: Any = SimpleNamespace(end_to_end=requests, figure_ends={name: band, other: None})
        if p99 is not None:
            vars(requests).update({f"p99_{name}": np.array([[p99]]), f"p99_{other}": quick_s})
        assert Targets(**{f"{name[:4]}_ms": 1000.0}).outcomes(one) == [outcome]
        assert Targets().outcomes(one) == ["no" if math.isnan(mean) else "yes"]


def test_a_price_is_the_users_else_the_files_else_asked_for() -> None:
    own = answer(f"{EXAMPLE} --price-per-hour 10")["rows"][0]
    assert own["usd_per_million_tokens"] == pytest.approx(20e6 / (3600 * own["tokens_per_s"]))
    free = replace(load_hardware("h100"), price=None)
    found = advise(load_model("Qwen/Qwen3-8B"), free, **SMALL).to_dict()
    assert found["rows"][0]["usd_per_million_tokens"] is None
    table = str(advise("Qwen/Qwen3-8B", [free, "b200"], **SMALL))
    assert re.search(r"^NVIDIA H100 .* - +-$", table, re.MULTILINE)
    assert any("--price-per-hour" in one for one in found["warnings"])


def test_a_framework_without_a_fit_is_stood_in_for() -> None:
    words = EXAMPLE.replace("-H h100 --tp 2", "-H rtx-pro-6000")
    found = answer(f"{words} --framework sglang")
    assert list(found["choice"]["engine_config"]) == ["sglang"]
    assert found["case"]["engine"] == "generic"
    assert found["case"]["capacity"] is not None
    assert any("no fit of sglang" in one for one in found["warnings"])
    assert answer(f"{words} --framework vllm --engine generic")["case"]["engine"] == "generic"


def test_a_speedup_whose_band_says_too_little_has_no_figure() -> None:
    (chip,) = advise("Qwen/Qwen3-8B", "h100", **SMALL).chips
    unsure = [replace(row, bands={**row.bands, "tried_speedup": (0.4, 1.5)}) for row in chip.rows]
    told = chip_decision(replace(chip, plan=replace(chip.plan, rows=tuple(unsure))))
    assert "speedup not usefully predicted here at 1" in told


def day_file(folder: Path, rows: list[float], unit: str = "concurrency") -> Path:
    path = folder / "day.csv"
    lines = [f"hour,{unit}", *(f"{hour},{load}" for hour, load in enumerate(rows))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_day_gets_one_schedule_and_its_gain_and_what_holding_the_drafts_gives(
    tmp_path: Path,
) -> None:
    path = day_file(tmp_path, [4, 60, 66, 60, 66, 60])
    drafter = "--drafter autoregressive,cost=0.05,accept=0.7"
    words = f"Qwen/Qwen3-8B -H h100 --engine ideal --isl 500 --osl 500 {drafter} --traffic {path}"
    found = answer(words)
    assert [row["concurrency"] for row in advised(found)] == [4, 60, 66]  # median
    assert found["choice"]["schedule_lost"] is None
    day = found["choice"]["traffic"]
    assert day["oracle_gain"] >= day["gain"] >= day["fixed_gain"] > 0
    assert (day["gain_of"], day["held_margin"]) == ("tokens", 0.1)
    assert day["held_changes"] < day["changes"]
    assert day["held_gain"] < day["gain"]
    assert f"or {day['held_changes']} times for {day['held_gain']:+.1%}" in page(words)


def test_arrivals_beyond_the_server_are_said(tmp_path: Path) -> None:
    path = day_file(tmp_path, [0.1, 1000], "requests_per_s")
    path.write_text(path.read_text().replace("\n1,", "\n9,").replace("\n0,", "\n8,"))
    printed = " ".join(page(f"{EXAMPLE} --traffic {path}").split())
    assert "in hours 9 more requests arrive than the server answers" in printed
    path.write_text("hour,requests_per_s\n9,1000\n")
    assert "no gain over no drafts is known; in hours 9" in page(f"{EXAMPLE} --traffic {path}")
    day = answer(f"{EXAMPLE} --traffic {path}")["choice"]["traffic"]
    assert (day["gain"], day["saturated_hours"], day["unsustained_hours"]) == (None, [9], [9])


def test_a_day_keeps_the_least_speedup_at_every_load(tmp_path: Path) -> None:
    words = f"{EXAMPLE.replace('--concurrency 1,8,32,64,128', '')} --traffic"
    words += f" {day_file(tmp_path, [2, 90, 20])} --min-speedup"
    free = [row["speedup"] for row in advised(answer(f"{words} 1"))]
    least = (min(free) + max(free)) / 2
    for row, speedup in zip(advised(answer(f"{words} {least}")), free, strict=True):
        assert (row["draft_len"] > 0) is (speedup > least)
    assert not any(row["draft_len"] for row in advised(answer(f"{words} {max(free) + 0.1}")))


def test_a_mix_takes_the_place_of_the_lengths(tmp_path: Path) -> None:
    path = tmp_path / "day.yaml"
    sizes = "[{input_len: 1000, output_len: 100, weight: 3}, {input_len: 3000, output_len: 500}]"
    path.write_text(f"hours: [{{hour: 9, concurrency: 8}}]\nmix: {sizes}\n", encoding="utf-8")
    words = "Qwen/Qwen3-8B -H h100 --drafter ngram,accept=.5 --prefix-hit-rate 0.5"
    found = answer(f"{words} --traffic {path}")
    mean = {"context_len": None, "input_len": 1500, "output_len": 200, "prefix_hit_rate": 0.5}
    assert found["case"]["load"] == mean
    lengths = "--isl 1500 --osl 200 --concurrency 8 --steady"
    ((row,), (same,)) = (one["rows"] for one in (found, answer(words, lengths)))
    assert (row["concurrency"], row["ttft_s"]) == (8, pytest.approx(same["ttft_s"]))
    assert "allowed: one of both" in refused("advise", words, f"--isl 9 --osl 9 --traffic {path}")


def test_no_acceptance_is_enough_for_a_drafter_that_is_too_slow() -> None:
    words = "Qwen/Qwen3-8B -H h100 --isl 100 --osl 500 --concurrency 4"
    printed = page(f"{words} --drafter autoregressive,accept=0.9,cost=3 --notes")
    assert "no acceptance is enough" in " ".join(printed.split())
    assert "--bench" not in printed


def test_the_point_to_measure_has_commands() -> None:
    found = answer(f"{EXAMPLE} --framework vllm")["choice"]["to_measure"]
    assert (found["concurrency"], found["drafter"]) == (128, "eagle3,accept-length=2.8@3")
    assert found["moved_by"] == max(found["swings"], key=found["swings"].__getitem__)
    assert "--speculative-config" in found["commands"][2]["command"]
    heads = answer("Qwen/Qwen3.5-9B -H h100 --isl 9 --osl 9 --steady --drafter mtp,accept=.7")
    assert "draft-model" not in str(heads["choice"]["to_measure"]["commands"])


@pytest.mark.parametrize("loads", [[48, 64, 96, 128, 256], [64, 128, 256, 512]])
def test_a_schedule_decides_no_load_otherwise_than_alone(loads: list[float]) -> None:
    asked: dict[str, Any] = {"drafters": "ngram,accept-length=1.35@3", "framework": "vllm"}
    asked |= {"input_len": 1000, "output_len": 300}
    for row in advise("Qwen/Qwen3-8B", "h100", **asked, concurrency=loads).chips[0].rows:
        at = asked | {"concurrency": row.concurrency}
        (alone,) = advise("Qwen/Qwen3-8B", "h100", **at).chips[0].rows
        assert (row.decision, row.draft_len > 0) == (alone.decision, alone.draft_len > 0)


@pytest.mark.parametrize("least", [1.0, 1.2, 1.3, 1.5])
def test_the_point_to_measure_is_the_least_certain(least: float) -> None:
    told = SMALL | {"concurrency": [1, 8, 32, 64, 128], "min_speedup": least}
    (chip,) = advise("Qwen/Qwen3-8B", "h100", **told).chips

    def doubt(row: AdvisedRow) -> float:
        """Return half the width of the band by the distance from what is wanted, in logarithms."""
        low, high = row.bands["tried_speedup"]
        return math.log(high / low) / 2 / abs(math.log(row.tried_speedup / least))

    assert chip.to_measure is not None
    assert chip.to_measure.concurrency == max(chip.rows, key=doubt).concurrency


def test_the_benchmark_to_run_serves_as_it_was_asked() -> None:
    words = "Qwen/Qwen3.5-35B-A3B -H h100 --tp 2 --isl 9 --osl 9 --steady --drafter mtp,accept=.7"
    stored = answer(f"{words} --weights fp8 --kv-cache fp8 --concurrency 4")["choice"]["to_measure"]
    for server in stored["commands"][:3:2]:
        words_of = shlex.split(server["command"])
        assert words_of[words_of.index("--tp-size") + 1] == "2"
        assert {"--quantization", "--kv-cache-dtype"} <= {*words_of}
    # No flag of these servers asks for these.
    for more in ("--ep 2", "--dp-attention 2", "--kv-cache int8", "--weights int4"):
        point = answer(f"{words} --concurrency 4 {more}")["choice"]["to_measure"]
        assert (point["commands"], bool(point["refused"])) == ([], True)
    tree = answer(f"{words},tree=2/1,siblings=.2 --concurrency 4")["choice"]["to_measure"]
    assert tree["commands"] == []


def test_where_no_length_can_be_nothing_is_to_measure() -> None:
    found = advise(
        "Qwen/Qwen3-8B", "h100", **SMALL | {"draft_len": 5, "drafters": "mtp,accept-length=2@2"}
    )
    (chip,) = found.chips
    assert found.decision == "off"
    assert chip.to_measure is None
    assert chip.advised is chip.plan  # a name of old
    assert "memory" not in str(found).splitlines()[1]
    assert [one.rate for one in chip.break_even] == [None, None]
    words = "Qwen/Qwen3-8B -H h100 --isl 9 --osl 9 --choose-draft-len 5 --notes"
    assert "break-even" not in page(f"{words} --drafter mtp,accept-length=2@2")


def test_flags_for_several_nodes_say_what_they_lack() -> None:
    words = SMALL | {"drafters": "ngram,accept=0.3", "concurrency": 1}
    for devices, told in ((8, False), (16, True)):
        found = advise("Qwen/Qwen3-235B-A22B", "h100", tensor_parallel=devices, **words)
        assert any("--node-rank" in one for one in found.warnings) == told
        assert ("--nnodes 2 --node-rank 0" in str(found)) == told


LONG = "Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --isl 1024 --osl 512"
TIGHT = (
    "openai/gpt-oss-120b -H h100 --tp 1 --isl 1024 --osl 512 --drafter eagle3,accept-length=2.4@3"
)


def test_a_default_that_binds_is_raised_and_both_are_priced() -> None:
    # SGLang runs 48 with drafts by default.
    words = f"{LONG} --concurrency 1,64 --drafter eagle3,accept-length=2.4@3"
    found = answer(words)
    assert found["choice"]["raised"] == {"running": {"from": 48, "to": 64}}
    _, many = found["rows"]
    (default,) = found["choice"]["by_default"]
    assert default["concurrency"] == many["concurrency"]
    assert default["running"] < 48 < many["running"] < 64  # on average, drain included
    assert default["tokens_per_s"] < many["tokens_per_s"]
    assert default["ttft_s"] > 2 * many["ttft_s"]
    kept = predict(
        "Qwen/Qwen3-32B-FP8", "h100", drafters="eagle3,accept-length=2.4@3", tensor_parallel=2,
        input_len=1024, output_len=512, concurrency=64,
    )  # fmt: skip
    load = Load([64.0], kept.load.context_len, kept.load.workload, requests=[640])
    runs = Case(kept.deployment, load, "queue", raises=False)
    (told,) = predicted(runs, kept.drafters).end_to_end
    assert default["ttft_s"] == pytest.approx(told.ttft_s[0, 0, many["draft_len"]])
    assert f"64 in flight get {default['tokens_per_s']:.0f} tok/s at $" in page(words)
    # Of a chip that nobody knows the wait has no figure that is of use.
    h100: Any = load_hardware("h100")
    unknown = replace(h100.generic, architecture=None)
    strange = replace(h100, engines={}, default_engine=None, generic=unknown)
    far = advise("Qwen/Qwen3-8B", strange, framework="sglang", **SMALL | {"concurrency": 64})
    assert "its default of 48, the others wait" in " ".join(str(far).split())
    # Of vLLM no default binds, and what the user states is kept.
    assert answer(f"{words} --framework vllm")["choice"]["raised"] == {}
    assert answer(f"{words} --server running=48")["choice"]["raised"] == {}


def test_a_raised_limit_of_a_server_that_drafts_is_none_of_a_plain_one() -> None:
    asked: dict[str, Any] = {"input_len": 1000, "output_len": 1000, "rate": 6, "requests": 300}
    found = advise(
        "Qwen/Qwen3-8B", "h100", framework="sglang", drafters="eagle3,accept-length=2.8@3", **asked
    ).chips[0]
    assert found.raised
    assert found.played is not None
    (row,) = found.rows
    assert found.played.stable_rates[0] == row.plain_largest_stable_rate
    assert found.played.plain["mean_tpot_s"][0] == pytest.approx(row.plain_tpot_s)


def test_a_limit_is_raised_where_a_server_turns_drafts_off_by_itself() -> None:
    # speculative_hook.py: 48, drafts or none; EAGLE-3 follows the load, DSpark is started anew.
    asked: dict[str, Any] = {"input_len": 8000, "output_len": 100, "concurrency": [1, 256]}
    for kind, follows in {"eagle3": True, "dspark": False}.items():
        found = advise(
            "Qwen/Qwen3.5-9B", "b200", framework="sglang", drafters=f"{kind},accept=0.7",
            draft_len=3, **asked,
        ).chips[0]  # fmt: skip
        off = found.plan.schedule[-1]
        assert off[2] == 0 < off[0] < 256 == off[1]
        assert ("--max-running-requests" in found.launches[0].text) == follows
        assert all(low == 48 and most >= off[0] for low, most in found.raised.values())
        assert any("raised limit: --server running=" in note for note in found.notes)


def test_a_limit_that_sizes_the_pool_of_states_is_raised_too() -> None:
    # Without a cache of prefixes SGLang has states for as many requests as may run.
    found = advise(
        "Qwen/Qwen3-Next-80B-A3B-Instruct", "h100", tensor_parallel=4, framework="sglang",
        drafters="mtp,accept-length=2.3@2", draft_len=2, input_len=1000, output_len=300,
        concurrency=128, server="prefix-cache=off", steady=True,
    ).chips[0]  # fmt: skip
    assert found.raised == {"running": (48, 128)}
    assert found.decision == "on"


def test_throughput_that_is_bought_with_waiting_is_not_simply_on() -> None:
    # The cache of gpt-oss-120b on one H100 has room for 47 without drafts, and for fewer with them.
    words = f"{TIGHT} --concurrency 1,47 --steady"
    found = answer(words)
    one, many = found["rows"]
    assert many["plain_running"] == 47
    assert (one["decision"], many["decision"]) == ("on", "unclear")
    assert many["draft_len"] > 0
    assert many["ttft_s"] > 10 * many["plain_ttft_s"]
    assert found["choice"]["decision"] == "depends"
    printed = " ".join(page(words).split())
    assert "of 47 run with drafts" in printed
    assert "at 47 in flight the first token comes later" in printed


def test_a_target_that_drafts_miss_turns_them_off_and_is_named() -> None:
    words = f"{TIGHT} --concurrency 47 --steady"
    found = answer(f"{words} --ttft 500")
    (row,) = found["rows"]
    assert (found["choice"]["decision"], row["draft_len"], row["ttft_s"] <= 0.5) == ("off", 0, True)
    assert row["limited_by"] == "TTFT target"
    assert row["tried_speedup"] > 1
    assert "drafts miss the TTFT target" in page(f"{words} --ttft 500")
    slow = f"{LONG} --concurrency 64 --drafter eagle3,accept=0.01"
    plain_ms = 1e3 * answer(slow)["rows"][0]["tpot_s"]
    (row,) = answer(f"{slow} --tpot {1.001 * plain_ms}")["rows"]
    assert (row["draft_len"], row["limited_by"]) == (0, "TPOT target")


def test_captured_sizes_that_cost_throughput_are_said_with_what_they_cost() -> None:
    asked: dict[str, Any] = {"drafters": "eagle3,accept-length=2.4@3", "framework": "vllm"}
    asked |= {"input_len": 1024, "output_len": 512, "concurrency": [8, 64]}

    def told(**server: Any) -> tuple[Any, list[str]]:
        found = advise("Qwen/Qwen3-8B", "h100", **asked, server=server)
        return found.chips[0], [line for line in found.warnings if "capture=" in line]

    free, _ = told()
    small, (line,) = told(capture=16)  # a verification of 8 x 4 tokens is larger
    rates = [chip.rows[0].tokens_per_s for chip in (small, free)]
    assert rates[1] > 1.1 * rates[0]
    assert all(f" {rate:.0f} " in line for rate in rates)
    assert told(capture=1024)[1] == []


def test_a_family_without_the_usual_head_is_asked_about_with_look_ups() -> None:
    # SGLang 0.5.23 has EAGLE-3 for no model of Beam's family (specroof/frameworks, refusals).
    asked: dict[str, Any] = {"tensor_parallel": 8, "input_len": 1000, "output_len": 300}
    beam = "reflection/Beam-1.0-501B-A23B"
    found = advise(beam, "b200", framework="sglang", concurrency=1, **asked)
    assert found.chips[0].drafter.kind == "ngram"
    found = advise(beam, "b200", framework="vllm", concurrency=1, **asked)
    assert found.chips[0].drafter.kind == "eagle3"


def test_an_engine_of_another_server_has_the_flags_of_that_server() -> None:
    asked: dict[str, Any] = {"concurrency": 1, "input_len": 50, "output_len": 100}
    for engine, servers in (
        ("llama.cpp", ["llama.cpp"]),
        ("tensorrt-llm", ["tensorrt-llm"]),
        ("sglang", ["vllm", "sglang"]),
    ):
        found = advise("Qwen/Qwen3-8B", "h100", engine=engine, drafters=SMALL["drafters"], **asked)
        assert [*found.chips[0].engine_config] == servers


# --- the benchmark to run -------------------------------------------------------------------------

LOAD = ("--input-len", 1024, "--output-len", 1024, "--concurrency", 1)
EAGLE = ("--drafter", "eagle3,accept=0.7")


def benched(*words: object) -> Any:
    fixed = ["advise", "Qwen/Qwen3-8B", "--draft-model", "org/eagle3", "--choose-draft-len", "3"]
    return invoked(*fixed, *words, "--bench")


def to_measure(*words: object) -> Any:
    done = benched(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[-1])["choice"]["to_measure"]


def test_what_to_do_with_the_results_repeats_what_was_asked(
    hardware_folder: Path, tmp_path: Path
) -> None:
    chip = tmp_path / "my chips" / "b200.yaml"
    chip.parent.mkdir()
    chip.write_text((hardware_folder / "b200.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    done = benched(
        *("-H", chip, *EAGLE, *LOAD, "--tp", 2, "--engine", "vllm"),
        *("--family", "qwen3", "--weights", "fp8", "--kv-cache", "fp8"),
    )
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stdout.splitlines() if line.startswith("specroof ")]
    validate, calibrate = map(shlex.split, lines)
    words = ["bench.jsonl", "-H", str(chip), "--model", "Qwen/Qwen3-8B"]
    words += ["--drafter", "eagle3,accept=0.7", "--draft-len", "3", "--tp", "2"]
    words += ["--family", "qwen3", "--engine", "vllm", "--server", "prefix-cache=False"]
    words += ["--kv-cache", "fp8", "--weights", "fp8"]
    assert validate == ["specroof", "validate", *words]
    assert calibrate == ["specroof", "calibrate", *words, "-o", "my-b200.yaml"]


def test_it_shows_what_predict_says_of_the_same_requests() -> None:
    words = ["-H", "b200", *EAGLE, "--concurrency", 8, "--input-len", 4000, "--output-len", 200]
    words += ["--weights", "fp8", "--kv-cache", "fp8"]
    found = to_measure(*words)
    grid = answered("predict Qwen/Qwen3-8B", *words, "--max-draft-len 3 --grid")
    rates = gridded(grid, "tokens_per_s")[0, 0, [0, 3]].tolist()
    assert [found["plain_tokens_per_s"], found["tokens_per_s"]] == pytest.approx(rates)
    assert len(found["commands"]) == 6
    assert "--random-input-len 4000 --random-output-len 200" in found["commands"][1]["command"]


@pytest.mark.parametrize(("chip", "words", "server"), rows("values", "bench_commands"))
def test_the_commands_are_those_of_the_server_that_predicts(
    chip: str, words: list[str], server: str
) -> None:
    found = to_measure("-H", chip, *EAGLE, *LOAD, *words)
    assert found["commands"][0]["title"].startswith(server)


def test_look_ups_say_what_they_need() -> None:
    done = benched("-H", "b200", "--drafter", "ngram,accept=0.5", *LOAD)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "# note: random prompts" in done.stdout


@pytest.mark.parametrize(("words", "said"), rows("refusals", "bench"))
def test_what_cannot_be_measured_is_refused_when_it_is_asked_for(
    words: list[object], said: str
) -> None:
    done = benched("-H", "h100", *LOAD, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert "--bench" not in run("advise Qwen/Qwen3-8B -H h100", *LOAD, *words)


#: Shares of memory and requests at a time, in the flags of servers.
FLAGS = {
    "vllm": ("--gpu-memory-utilization", "--max-num-seqs"),
    "sglang": ("--mem-fraction-static", "--max-running-requests"),
}


@pytest.mark.parametrize("framework", FLAGS)
def test_servers_are_started_with_the_settings_that_were_predicted(framework: str) -> None:
    asked = ["-H", "h100", *EAGLE, *LOAD, "--framework", framework]
    found = to_measure(*asked, "--server", "memory=0.7,running=24,prefix-cache=on")
    commands = [shlex.split(one["command"]) for one in found["commands"]]
    servers, reads = [commands[0], commands[2]], commands[-2:]
    for words in servers:
        assert [words[words.index(flag) + 1] for flag in FLAGS[framework]] == ["0.7", "24"]
        assert [words.count(flag) for flag in FLAGS[framework]] == [1, 1]
    for words in reads:
        assert words[words.index("--server") + 1] == "memory=0.7,running=24,prefix-cache=False"
