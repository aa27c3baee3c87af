"""Questions about prefill and decoding on their own workers: advice, predictions, studies."""

import itertools
import json
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from commands import refused, run
from specroof import advise, capacity, frontier, load_hardware, predict, sweep
from specroof.errors import OptionError, reject
from specroof.hardware.engine import UNMEASURED
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import Setup, engine_setup
from specroof.questions.request import workers_of
from specroof.questions.splits import candidate_splits, worker_schedule
from tables import present, rows

# --- advise ---------------------------------------------------------------------------------------

ASKED: dict[str, Any] = {
    "drafters": "eagle3,accept=0.7", "input_len": 3000, "output_len": 300, "concurrency": [1, 32]
}  # fmt: skip
MODEL, CHIP = "Qwen/Qwen3-8B", "h100"


def of_workers(question: Callable[..., Any], **changes: Any) -> Any:
    return question(MODEL, CHIP, **ASKED | changes)


@pytest.mark.parametrize("targets", [{}, {"tpot_ms": 4.0, "draft_len": [2, 3]}])
def test_the_best_split_is_the_best_of_all(targets: dict[str, Any]) -> None:
    asked = {"concurrency": [48], "framework": "vllm"} | targets
    best = of_workers(advise, devices=3, **asked).chips[0]

    def worth(chip: Any) -> tuple[bool, float]:
        row = chip.rows[0]
        in_time = bool(chip.plan.targets.met(row.ttft_s, row.tpot_s))
        return in_time, row.tokens_per_s

    others = [
        of_workers(advise, prefill=f"{p}x{a}", decode=f"{d}x{b}", **asked).chips[0]
        for p, a, d, b in itertools.product((1, 2), repeat=4)
        if p * a + d * b <= 3
    ]
    assert worth(best) == max(map(worth, others))
    # Speedups are over the best of all without drafts, three servers of one device among them.
    unsplit = [
        of_workers(advise, tensor_parallel=each, **asked | {"concurrency": 48 / n})
        for each, n in ((1, 3), (2, 1))
    ]
    plain = [chip.rows[0].plain_tokens_per_s for chip in others]
    plain += [
        n * one.chips[0].rows[0].plain_tokens_per_s for n, one in zip((3, 1), unsplit, strict=True)
    ]
    (row,) = best.rows
    if not targets:
        assert row.plain_tokens_per_s == pytest.approx(max(plain))
    assert row.speedup == pytest.approx(row.tokens_per_s / row.plain_tokens_per_s)


@pytest.mark.parametrize(
    ("model", "chip", "each"),
    # 8 devices do not divide 28 heads; one with 40 GB does not hold 32 billion weights.
    [("Qwen/Qwen2.5-7B", "h100", 4), ("Qwen/Qwen3-32B", "a100-40gb", 4)],
)
def test_nothing_without_drafts_is_better_than_the_baseline(
    model: str, chip: str, each: int
) -> None:
    asked = ASKED | {"concurrency": 16, "framework": "vllm"}
    (row,) = advise(model, chip, devices=8, link=25e9, **asked).chips[0].rows
    half = advise(model, chip, tensor_parallel=each, **asked | {"concurrency": 16 * each / 8})
    assert row.plain_tokens_per_s >= 8 / each * half.chips[0].rows[0].plain_tokens_per_s


def test_servers_without_a_split_are_candidates_too() -> None:
    asked = {"input_len": 10, "output_len": 1000, "concurrency": 64}
    chip = of_workers(advise, devices=4, **asked).chips[0]
    whole = of_workers(advise, tensor_parallel=1, **asked | {"concurrency": 16})
    (each,), (row,) = whole.chips[0].rows, chip.rows
    assert row.plain_tokens_per_s >= 4 * each.plain_tokens_per_s
    # Prompts of ten tokens keep no prefill worker busy.
    assert 4 * each.tokens_per_s > row.tokens_per_s
    assert "no split is the best use" in " ".join(chip.notes)


def test_prefill_limits_what_drafts_gain() -> None:
    asked = {"concurrency": [256], "framework": "vllm"}
    few, many = (
        of_workers(advise, prefill=f"{n}x1", decode="1x1", **asked).chips[0].rows[0] for n in (1, 6)
    )
    assert few.tried_speedup < many.tried_speedup
    assert few.limited_by == "prefill"


def test_workers_are_read_from_text_alone() -> None:
    assert workers_of("prefill", "12x8@my.yaml") == (12, 8, "my.yaml")
    for text in (2, "9" * 5000 + "x1", "1x" + "9" * 5000):
        with pytest.raises(OptionError, match=r"prefill is '?[129]"):
            workers_of("prefill", text)


def test_chips_without_a_link_split_into_single_devices() -> None:
    advice = advise("Qwen/Qwen3-8B", "gh200", devices=3, link=3e9, **ASKED)
    split: Any = advice.chips[0].split
    assert split.prefill.placement.devices == advice.chips[0].setup.placement.devices == 1
    assert split.prefill_workers + split.decode_workers == 3


def test_workers_of_a_budget_hold_the_model_and_divide_it() -> None:
    def divides(_profile: HardwareProfile, devices: int, _is_prefill: bool) -> Setup:
        if devices == 2:
            reject("tensor_parallel is 2", "another")
        return engine_setup(load_hardware(CHIP), "sglang", Placement(devices), None)

    def splits(devices: int) -> list[tuple[int, int, int, int]]:
        found = candidate_splits(
            *(devices, None, load_hardware("h100"), divides),
            lambda setup, is_prefill: is_prefill or setup.placement.devices > 1,
        )
        return [
            (
                one.prefill_workers,
                one.prefill.placement.devices,
                one.decode_workers,
                each.placement.devices,
            )
            for each, one in found
        ]

    assert splits(4) == []
    assert splits(6) == [(1, 1, 1, 4), (2, 1, 1, 4)]
    assert (1, 4, 1, 4) in splits(8)
    # Single devices for prefill: every number up to 16, then steps of an eighth.
    many = [count for count, size, _, each in splits(32) if (size, each) == (1, 4)]
    assert many == [*range(1, 17), 18, 20, 22, 24, 27]


def test_a_schedule_of_flags_counts_requests_of_one_worker() -> None:
    advice = of_workers(advise, prefill="2x1", decode="2x1")
    prediction = advice.chips[0].prediction
    workers: Any = prediction.end_to_end[0].workers
    loads = list(prediction.load.batch_size)
    most = workers.decode_batch[0, loads.index(32.0), 2]
    middle = workers.decode_batch[0, loads.index(8.0), 4]
    ranges = worker_schedule([(1, 8, 4), (9, 32, 2)], prediction, 0)
    assert ranges == ((1, round(middle), 4), (round(middle) + 1, round(most), 2))
    # Loads that leave a worker with the same batch: the first, unless it has no drafts.
    assert worker_schedule([(1, 1, 4), (2, 2, 3)], prediction, 0) == ((1, 1, 4),)
    assert worker_schedule([(1, 1, 0), (2, 2, 3)], prediction, 0) == ((1, 1, 3),)


def test_flags_and_limits_are_those_of_one_worker() -> None:
    asked = ASKED | {"drafters": "eagle3,accept-length=4@6", "output_len": 500}
    asked |= {"concurrency": [1, 8, 32, 64, 128]}
    chip = advise("Qwen/Qwen3-32B", "h100", prefill="2x2", decode="1x4", **asked).chips[0]
    words = shlex.split(chip.worker_launches["vllm"]["decode"].text)
    config = json.loads(words[words.index("--speculative-config") + 1])
    drafts, prediction = chip.plan.schedule[-1][2], chip.prediction
    workers: Any = prediction.end_to_end[0].workers
    ranges = config["num_speculative_tokens_per_batch_size"]
    assert ranges[-1] == [ranges[-2][1] + 1, round(workers.decode_batch[0, -1, drafts]), drafts]
    assert ranges[-1][1] < chip.plan.schedule[-1][1] == 128
    # SGLang runs 48 requests with drafts by default: 40 on each of two workers need no more.
    two: Any = of_workers(advise, prefill="8x1", decode="2x1", **asked | {"concurrency": 80})
    assert two.chips[0].raised == {}
    assert not any("at most" in warning for warning in two.warnings)
    largest = two.chips[0].prediction.limits[0].largest[0, 0]
    assert two.chips[0].plan.capacity["plain"]["largest_batch"] == 2 * largest
    one = of_workers(advise, prefill="8x1", decode="1x1", **asked | {"concurrency": 80})
    assert one.chips[0].raised == {"running": (48, 80)}


# --- Other questions ------------------------------------------------------------------------------

WORKERS: dict[str, Any] = {"prefill": "2x1", "decode": "2x2"}


def test_prefill_on_another_chip_is_paid_and_fed_there() -> None:
    asked: dict[str, Any] = {"max_draft_len": 3, "decode": "1x1", **ASKED}
    mixed = of_workers(predict, prefill="1x1@h200", **asked)
    prices = [present(load_hardware(chip).price).usd_per_hour for chip in ("h100", "h200")]
    usd = sum(prices) / 3600 * 1e6
    assert mixed.money.of(1.0)["usd_per_million_tokens"] == pytest.approx(usd)
    unknown = of_workers(predict, prefill="1x1@a100-40gb", link=25e9, **asked)
    assert unknown.money.of(1.0)["usd_per_million_tokens"] is None


def test_bands_of_workers_are_wider_and_reach_says_so() -> None:
    asked: dict[str, Any] = {"max_draft_len": 3, "engine": "vllm", **ASKED}
    one = of_workers(predict, tensor_parallel=2, **asked)
    many = of_workers(predict, **WORKERS, **asked)
    near, far = (found.curves[0].band for found in (one, many))
    assert near is not None
    assert far is not None
    assert far.width == pytest.approx(math.hypot(near.width, UNMEASURED["split"][0]))
    assert many.curves[0].served_bands == one.curves[0].served_bands
    ideal = of_workers(predict, **WORKERS, **asked | {"engine": "ideal"})
    assert not any("bands" in note for note in ideal.notes)


def test_a_frontier_of_workers_ends_where_requests_wait_for_memory() -> None:
    asked: dict[str, Any] = {"drafters": "eagle3,accept=0.7", "input_len": 500, "output_len": 500}
    asked |= {"engine": "sglang", "max_draft_len": 3, "prefill": "8x1", "decode": "2x1"}
    asked["batch_size"] = [1, 32, 160]
    few = frontier("Qwen/Qwen3-8B", "h100", server="running=8", **asked)
    assert {one.concurrency for series in few.series for one in series.points} == {1, 32}
    # SGLang runs 48 with drafts by default: more take a limit of a worker's share of them.
    told = {
        one.concurrency: one.running_limit
        for one in frontier("Qwen/Qwen3-8B", "h100", **asked).series[1].points
    }
    assert told == {1: None, 32: None, 160: 80}


def test_memory_of_workers_is_that_of_servers_of_their_size() -> None:
    asked: dict[str, Any] = {"context_len": 8192, "engine": "vllm"}
    found = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", **WORKERS, **asked)
    alone = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", tensor_parallel=2, **asked)
    prefill = capacity("Qwen/Qwen3-8B", "h100", **asked)
    kept = [{**row, "worker": None, "workers": None} for row in found.records]
    absent = {"draft_weight_bytes": None, "worker": None, "workers": None}
    assert kept == [absent | row for row in (*alone.records, *prefill.records)]
    assert [row.worker for row in found.rows] == ["decode", "decode", "prefill"]
    assert found.to_dict()["case"]["split"]["decode"]["workers"] == 2
    assert "split" not in alone.to_dict()["case"]


TARGETS: list[dict[str, Any]] = [
    {"model": "Qwen/Qwen3-8B", "hardware": "h100", "engine": "vllm", **WORKERS},
    {"model": "Qwen/Qwen3-8B", "hardware": "h100", "engine": "vllm", "tensor_parallel": 2},
]
STUDY: dict[str, Any] = {
    "format_version": 1,
    "drafters": ["eagle3,accept=0.7"],
    "batch_size": [1, 32],
    "workload": {"input_len": 3000, "output_len": 300},
    "max_draft_len": 3,
}


def test_studies_take_workers(tmp_path: Path) -> None:
    found = sweep({**STUDY, "targets": TARGETS})
    split, one = (outcome.prediction for outcome in found.outcomes)
    own = of_workers(predict, max_draft_len=3, engine="vllm", **WORKERS)
    assert (split.case, split.records) == (own.case, own.records)
    assert one.split is None
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**STUDY, "targets": TARGETS}))
    for form in ("parquet", "csv"):
        run(f"sweep {tmp_path}/study.yaml -o {tmp_path}/{form} --format {form}")
    # A sweep of other workers is another one.
    again = yaml.safe_dump({**STUDY, "targets": [TARGETS[0] | {"link": 1e9}, TARGETS[1]]})
    (tmp_path / "study.yaml").write_text(again)
    assert "split_sha256" in refused(f"sweep {tmp_path}/study.yaml -o {tmp_path}/csv")
    first, second = found.overviews()
    assert (first.devices, second.devices) == (6, 2)
    # Prices are of all devices.
    usd = split.rows[1].usd_per_million_tokens
    assert first.usd_per_million_tokens[0, 1] == pytest.approx(usd)
    rows = list(found.frames())
    assert rows[0]["devices"].unique().tolist() == [6]
    assert "devices" not in rows[1]


@pytest.mark.parametrize(("target", "said"), rows("refusals", "study_workers"))
def test_workers_of_studies_that_cannot_be_are_refused(target: dict[str, Any], said: str) -> None:
    target = {"model": "Qwen/Qwen3-8B", "hardware": "h100", **target}
    with pytest.raises(OptionError, match=said):
        sweep({**STUDY, "targets": [target]})


def test_workers_are_given_once_to_a_study() -> None:
    with pytest.raises(OptionError, match=r"2x1 and 2x2 x NVIDIA H100.* is given twice"):
        sweep({**STUDY, "targets": [TARGETS[0], dict(TARGETS[0])]})
    load = {"input_len": 30, "output_len": 30, "requests": 3}
    with pytest.raises(OptionError, match=r"prefill is '2x1'; allowed: one server"):
        sweep({**STUDY, "targets": TARGETS[:1], "workload": load})
    without = {key: value for key, value in STUDY.items() if key != "workload"}
    with pytest.raises(OptionError, match=r"prefill is '2x1'; allowed: with a workload"):
        sweep({**without, "targets": TARGETS[:1]})


def test_the_ideal_engine_counts_no_memory_of_prefill_workers() -> None:
    asked = {"engine": "ideal", "max_draft_len": 1, "link": 1e9}
    found = of_workers(predict, prefill="1x1@t4", decode="1x1", **asked)
    assert found.end_to_end[0].workers is not None
    endless = of_workers(predict, **WORKERS, **asked | {"link": math.inf})
    assert endless.case["split"]["link_bytes_per_s"] is None


def test_advice_names_what_a_server_refuses() -> None:
    spread: dict[str, Any] = {"prefill": "1x8", "decode": "1x8", "decode_context_parallel": 2}
    advice = advise("deepseek-ai/DeepSeek-R1", "h200", framework="vllm", **spread, **ASKED)
    assert advice.to_dict()["choice"]["workers"]["flags"] == {}
    assert any("NixlConnector" in warning for warning in advice.warnings)
    tree = ASKED | {"drafters": "eagle3,accept=0.7,tree=eagle2,nodes=8,top-k=2,siblings=.3"}
    with pytest.raises(OptionError, match="trees of eagle3; allowed"):
        advise("Qwen/Qwen3-8B", "h100", prefill="1x1", decode="1x1", framework="vllm", **tree)


def test_workers_of_a_framework_that_refuses_the_drafter_have_no_flags() -> None:
    asked = {"drafters": "medusa,accept-length=2.5@3", "concurrency": 8}
    (chip,) = of_workers(advise, prefill="1x1", decode="1x1", **asked).chips
    assert chip.rows[0].draft_len
    assert set(chip.engine_config.values()) == {None}
    assert chip.worker_launches == {}


def test_a_band_is_as_wide_as_errors_of_decoding_and_of_prompts_make_it() -> None:
    def of_three_drafts(tokens: float, **more: Any) -> Any:
        asked: dict[str, Any] = {
            "prefill": "1x2", "decode": "1x2", "engine": "vllm", "input_len": 8000,
            "output_len": 200, "concurrency": [1, 4, 8, 32, 128], "max_draft_len": 3,
        }  # fmt: skip
        drafter = f"eagle3,accept-length={tokens}@3"
        return predict("Qwen/Qwen3-32B", "h100", drafters=drafter, **asked | more).outcomes[0]

    found = of_three_drafts(2.8)
    low, high = (end[0, :, 3] for end in found.speedup_ends)
    decoding = found.decoding.speedup_low[0, :, 3] / found.decoding.speedup[0, :, 3]
    # Fewer tokens a round are a slower round by so much, and more of them a faster one.
    slower, faster = (
        of_three_drafts(min(2.8 * decoding[0] ** way, 4)).curve.speedup[0, :, 3] for way in (1, -1)
    )
    assert decoding == pytest.approx(decoding[0])
    assert np.all(low <= slower)
    assert np.all(faster <= high)
    # With next to no prompts it is the band of decoding; where they alone limit, nearly a point.
    short = of_three_drafts(2.8, input_len=8, output_len=4000, concurrency=[1])
    assert short.speedup_ends[0] == pytest.approx(short.decoding.speedup_low, rel=0.01, nan_ok=True)
    assert high[-1] / low[-1] < 1.05
    # A token after the first is as sure as decoding is, whatever the prompts take.
    tpot = found.figure_ends["tpot_s"]
    assert np.all(tpot[1][0, :, 3] / tpot[0][0, :, 3] > decoding**-2)
