"""Published loads of servers: what the tables hold, how they are scored, which source disagrees."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import specroof
from specroof import load_hardware, load_model, predict
from specroof.arrays import Array
from specroof.catalog import left_out_fits
from specroof.evidence import Measurement, base_model, load_measurements, load_served
from specroof.evidence.measurement import refuse_repeats
from specroof.hardware.engine import EngineProfile
from specroof.hardware.profile import LeftOutFits
from specroof.questions.validate import served_json, served_text
from specroof.scoring import left_out, served
from specroof.scoring.left_out import left_out_served
from specroof.scoring.served import (
    Disagreement,
    ServedScore,
    ServedValidation,
    disagreeing_sources,
    plain_scores,
    served_errors,
    served_validation,
)
from specroof.serving.capacity import PrefillRules
from specroof.serving.played import Played, play
from specroof.serving.workload import TURNAROUND_S, Workload, closed_loop
from tables import present, rows

TABLES = Path(specroof.__file__).parent / "evidence" / "measurements" / "served"

ROWS = {source: sum(counts) for source, counts in rows("values", "rows_of_sources").items()}

#: A load on one H100; TPOT and the rest are what a test is about.
LOAD = Measurement(**rows("values", "served_load"))
DRAFTED = replace(LOAD, method="mtp", draft_len=3, model="Qwen/Qwen3.5-27B")


def answered(load: Measurement, clients: Sequence[int], drafter: str = "ideal") -> dict[str, Any]:
    """Return what `predict` says of a load, by another way than scores take: axes (load, draft)."""
    mean = (1 + load.shortest) / 2
    (requests,) = predict(
        load.model or "",
        load.hardware or "",
        drafters=drafter,
        concurrency=list(clients),
        steady=True,
        input_len=mean * (load.input_len or 0),
        output_len=mean * (load.output_len or 0),
        tensor_parallel=load.tensor_parallel or 1,
        expert_parallel=load.expert_parallel or 1,
        attention_data_parallel=load.attention_data_parallel or 1,
        engine=load.engine,
        server={"running": max(clients)},
        options={"weight_dtype": load.quantization, "kv_dtype": load.kv_cache},
        max_draft_len=max(load.draft_len or 0, 1),
    ).end_to_end
    return {name: getattr(requests, name)[0] for name in ("tpot_s", "tokens_per_s", "ttft_s")}


# --- the tables ----------------------------------------------------------------------------------


def test_every_table_holds_the_rows_of_its_source() -> None:
    assert Counter(load.source for load in load_served()) == ROWS
    drafted = Counter(load.source for load in load_served() if load.drafts)
    counted = rows("values", "drafted_rows_of_sources")
    assert drafted == {source: sum(counts) for source, counts in counted.items()}


def test_a_run_counts_once() -> None:
    refuse_repeats(load_served())
    sources = defaultdict(set)
    for load in load_served():
        setup = (load.model, load.quantization, load.hardware, load.engine, load.tensor_parallel)
        split = (load.expert_parallel, load.attention_data_parallel, load.method, load.draft_len)
        requests = (load.input_len, load.output_len, load.concurrency, load.task, load.date)
        sources[*setup, *split, *requests].add(load.source)
    assert {names for names in map(frozenset, sources.values()) if len(names) > 1} == set()


def test_shared_fits_see_no_served_load() -> None:
    assert not {load.source for load in load_measurements()} & ROWS.keys()
    assert all(point.tpot_s is None for point in load_measurements())


def test_formats_of_one_model_have_one_base() -> None:
    for model in {load.model for load in load_served()}:
        base, own = load_model(base_model(replace(LOAD, model=model))), load_model(str(model))
        assert (own.n_layers, own.hidden_size) == (base.n_layers, base.hidden_size)
        assert own.n_params == pytest.approx(base.n_params, rel=0.02)


def test_figures_are_those_that_the_sources_print() -> None:
    atom = next(load for load in load_served() if load.tpot_s == 0.0175)
    assert (atom.model, atom.hardware, atom.engine) == ("deepseek-ai/DeepSeek-R1", "mi300x", "atom")
    assert (atom.method, atom.draft_len, atom.tokens_per_s, atom.shortest) == ("mtp", 3, 6913, 0.8)
    eagle = next(load for load in load_served() if load.source == "angelslim" and load.drafts)
    assert (eagle.draft_len, eagle.hardware, eagle.engine_version) == (2, "h20", "0.11.2")
    medians = {load.source for load in load_served() if load.reading == "median"}
    assert medians == {"inferencex-deepseek-r1", "inferencex-medians", "inferencex-pr709"}


# --- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", rows("values", "scored_loads"))
def test_a_load_is_scored_by_what_predict_says(changes: dict[str, Any]) -> None:
    load = replace(LOAD, **changes)
    figures = answered(load, [16])
    tpot_s, tokens_per_s = (float(figures[name][0, 0]) for name in ("tpot_s", "tokens_per_s"))
    measured = replace(load, tpot_s=tpot_s * 1.25, tokens_per_s=tokens_per_s / 1.25)
    (score,) = served_validation([measured]).scores
    # No time to first token was printed.
    off = math.log(1.25)
    assert score.off == pytest.approx({"tpot_s": -off, "tokens_per_s": off})


def test_errors_by_hand() -> None:
    scores = [ServedScore(LOAD, {"tpot_s": math.log(x)}, True) for x in (0.5, 0.8, 1.1)]
    errors: Any = served_errors(scores)["tpot_s"]
    assert errors.n == 3
    assert (errors.median, errors.bias) == pytest.approx((0.2, -0.2))
    assert errors.mean == pytest.approx((0.5 + 0.2 + 0.1) / 3)
    assert errors.p90 == pytest.approx(0.2 + 0.8 * 0.3)  # between the second and the third


def drafted(ratios: Mapping[int, float], **changes: Any) -> list[Measurement]:
    plain = [replace(DRAFTED, method="ar", draft_len=0, concurrency=count) for count in ratios]
    return plain + [
        replace(DRAFTED, concurrency=count, tpot_s=0.01 * ratio, **changes)
        for count, ratio in ratios.items()
    ]


def ratios_off(loads: list[Measurement]) -> dict[float, float]:
    scores = [score for score in served_validation(loads).scores if "tpot_ratio" in score.off]
    return {score.point.concurrency or 0: score.off["tpot_ratio"] for score in scores}


def predicted_ratios(clients: Sequence[int], tokens_per_round: float) -> dict[int, float]:
    spec = f"mtp,accept-length={tokens_per_round}@3"
    tpot_s = answered(DRAFTED, clients, spec)["tpot_s"]
    return dict(zip(clients, (tpot_s[:, 3] / tpot_s[:, 0]).tolist(), strict=True))


def test_one_acceptance_is_free_in_a_group() -> None:
    ratios = predicted_ratios([64, 1, 8], 2.2)  # each of its own concurrency
    found = ratios_off(drafted(ratios))
    assert list(found.values()) == pytest.approx([0, 0, 0], abs=2e-3)
    # One load 30 % slower: of the rest a third of it is taken by the acceptance.
    off = math.log(1.3)
    slower = ratios_off(drafted(ratios | {8: ratios[8] * 1.3}))
    assert slower == pytest.approx({1: off / 3, 8: -2 * off / 3, 64: off / 3}, abs=0.03)


def test_a_known_acceptance_is_not_free() -> None:
    ratios = predicted_ratios([8], 2.2)
    assert ratios_off(drafted(ratios, tokens_per_round=2.2)) == pytest.approx({8: 0})
    assert ratios_off(drafted(ratios, tokens_per_round=3.0))[8] < math.log(2.2 / 3.0) / 2


def test_no_acceptance_is_beyond_none_and_all() -> None:
    clients = [1, 8, 64]
    none, every = (predicted_ratios(clients, length) for length in (1.0, 4.0))
    slow = ratios_off(drafted({count: ratio * 2 for count, ratio in none.items()}))
    fast = ratios_off(drafted({count: ratio / 2 for count, ratio in every.items()}))
    assert list(slow.values()) == pytest.approx([-math.log(2)] * 3)
    assert list(fast.values()) == pytest.approx([math.log(2)] * 3)


def test_a_ratio_is_over_the_load_of_its_own_source_and_version() -> None:
    ratios = predicted_ratios([8], 2.2)
    loads = drafted(ratios, tokens_per_round=2.2, engine_version="2")
    others = [
        replace(loads[0], source="other", tpot_s=0.03),
        replace(loads[0], engine_version="1", tpot_s=0.05),
    ]
    own = replace(loads[0], engine_version="2")
    assert ratios_off([own, loads[1], *others]) == pytest.approx({8: 0})
    # Without either, that of the source counts; without that, any.
    assert ratios_off([others[1], loads[1]]) == pytest.approx({8: math.log(5)})
    assert ratios_off([others[0], loads[1]]) == pytest.approx({8: math.log(3)})


def reasons(loads: list[Measurement]) -> list[str]:
    return [reason for _, reason in served_validation(loads).left_out]


def test_what_cannot_be_scored_is_left_out_with_its_reason() -> None:
    lone = replace(DRAFTED, tpot_s=0.005)
    assert reasons([lone]) == ["no load without drafts beside it"]
    assert "fewer than three" in reasons(drafted({1: 0.5, 8: 0.6}))[0]
    oss = replace(LOAD, model="openai/gpt-oss-120b", concurrency=512)
    assert "implausible" in reasons([oss])[0]
    assert reasons([replace(oss, concurrency=256, hardware="h200")]) == []
    # 64 prompts of 1000 tokens, 16.4 GFLOP each, in 0.5 s are 2.1 of the 1.979 PFLOP/s in fp8.
    prompts = replace(
        LOAD, model="Qwen/Qwen3-8B", hardware="h100", tensor_parallel=1, concurrency=64,
        input_len=1000, output_len=11, ttft_s=0.4,
    )  # fmt: skip
    assert "implausible" in reasons([replace(prompts, tpot_s=0.01)])[0]
    assert reasons([replace(prompts, tpot_s=0.02)]) == []
    (split,) = reasons([replace(LOAD, tensor_parallel=3)])  # 32 heads
    assert "tensor" in split
    large = replace(LOAD, model="deepseek-ai/DeepSeek-R1")  # 671 GB on one device
    assert reasons([large]) == ["no room for one request"]
    # Loads with drafts as those without.
    for changes, said in (({"tensor_parallel": 5}, "tensor"), ({"hardware": "l4"}, "no room")):
        loads = [replace(load, **changes) for load in drafted({1: 0.5, 8: 0.5, 64: 0.5})]
        assert [said in reason for reason in reasons(loads)] == [True] * 6


def test_loads_are_grouped_by_what_makes_a_set_up() -> None:
    one = ServedScore(replace(LOAD, engine_version="0.18.0rc1"), {"tpot_s": 0.0}, True)
    wide = replace(
        *(LOAD,), tensor_parallel=8, expert_parallel=8, attention_data_parallel=4,
        hardware="mi300x", quantization="mxfp4", input_len=None, concurrency=300,
    )  # fmt: skip
    long = replace(LOAD, input_len=10_000.0, concurrency=32)
    scores = (one, *(ServedScore(load, {"tpot_s": 0.1}, True) for load in (wide, long)))
    groups = {name: list(group) for name, group in ServedValidation(scores).groups.items()}
    assert groups == rows("values", "groups_of_loads")


# --- loads that are played through ---------------------------------------------------------------


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(("reading", "middle"), [("mean", np.mean), ("median", np.median)])
def test_requests_of_one_client_take_what_each_takes_alone(
    engine: str, reading: str, middle: Callable[[Array], float]
) -> None:
    load = replace(
        *(LOAD,), engine=engine, concurrency=1, shortest=0.3, reading=reading, tpot_s=1.0,
        ttft_s=1.0, tokens_per_s=1.0,
    )  # fmt: skip
    drawn = closed_loop(Workload(1000, 500), 1, length_range=(0.3, 1.0))
    assert len(drawn.output_len) == 10
    alone = [
        answered(replace(load, input_len=prompt, output_len=tokens, shortest=1.0), [1])
        for prompt, tokens in zip(drawn.input_len, drawn.output_len, strict=True)
    ]
    tpot_s, ttft_s, rate = (
        np.array([figures[name][0, 0] for figures in alone])
        for name in ("tpot_s", "ttft_s", "tokens_per_s")
    )
    seconds = drawn.output_len / rate
    (score,) = plain_scores([load], played=True)
    # First tokens are late, and answers as a whole are not: in a play the others follow by so much
    # sooner.
    late_s = load_hardware(LOAD.hardware or "").engine(engine).request_latency_s - TURNAROUND_S
    assert {name: math.exp(off) for name, off in score.off.items()} == pytest.approx(
        {
            "tpot_s": middle(tpot_s - late_s / (drawn.output_len - 1)),
            "ttft_s": middle(ttft_s),
            "tokens_per_s": drawn.output_len.sum() / seconds.sum(),
        },
        rel=0.01,
    )


def test_requests_join_a_server_that_overlaps_a_pass_later(monkeypatch: pytest.MonkeyPatch) -> None:
    load = replace(LOAD, shortest=0.5, ttft_s=1.0)
    seconds = []
    # vLLM 0.12 schedules between passes, whatever is asked for.
    ways: Any = ((True, "0.14.0"), ("plain", ""), (False, ""), (True, "0.12.0"))
    for overlap, version in ways:
        # A host that takes no time makes no pass longer.
        profile = EngineProfile(name="vllm", pass_overhead_s=1.0, overlap=overlap)
        monkeypatch.setattr(served, "left_out_served", lambda *_, fitted=profile: (fitted, True))
        (score,) = plain_scores([replace(load, engine_version=version)], played=True)
        seconds.append(math.exp(score.off["ttft_s"]))
    assert seconds[0] == seconds[1]
    assert seconds[2] == seconds[3]
    # Nine of ten requests come to a server at work, and wait for one more pass, of a second.
    assert seconds[0] - seconds[2] == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(("changes", "prompts"), rows("values", "prompts_of_sources"))
def test_passes_take_as_many_prompts_as_the_server_of_a_source(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], prompts: int
) -> None:
    seen = []

    def told(prices: Any, requests: Any, rules: PrefillRules, *rest: Any, **more: Any) -> Played:
        seen.append(rules.chunk)
        return play(prices, requests, rules, *rest, **more)

    monkeypatch.setattr(served, "play", told)
    load = replace(LOAD, ttft_s=1.0, **changes)
    assert len(plain_scores([load], played=True)) == 1
    assert seen[0] // (load.input_len or 1) == prompts
    # TensorRT-LLM cuts none: nothing is left of the budget beside those of all that decode.
    cuts = load.engine != "tensorrt-llm"
    assert (seen[0] - prompts * (load.input_len or 1) > 16) == cuts


@pytest.mark.parametrize(("clients", "interval"), [(8, 10), (40, 30)])
def test_a_server_that_looks_for_requests_seldom_begins_them_later(
    monkeypatch: pytest.MonkeyPatch, clients: int, interval: int
) -> None:
    # Passes of a second each, whatever they hold.
    fitted = EngineProfile(name="sglang", pass_overhead_s=1.0), True
    monkeypatch.setattr(served, "left_out_served", lambda *_: fitted)
    seconds = []
    for chip in ("h200", "b200"):
        # Prompts are short, so that all that wait are computed in one pass.
        load = replace(LOAD, hardware=chip, engine="sglang", input_len=10.0, shortest=0.5)
        (score,) = plain_scores([replace(load, concurrency=clients, ttft_s=1.0)], played=True)
        seconds.append(math.exp(score.off["ttft_s"]))
    # A prompt of another client resets the count: never more than half of the interval.
    assert 0.2 * interval < seconds[1] - seconds[0] < 0.5 * interval


def test_what_cannot_be_played_has_no_score() -> None:
    loads = [
        DRAFTED,
        replace(LOAD, model="openai/gpt-oss-120b", concurrency=512),
        replace(LOAD, tensor_parallel=3),
        replace(LOAD, model="deepseek-ai/DeepSeek-R1"),
    ]
    assert plain_scores(loads, played=True) == []
    assert [score.point for score in plain_scores([*loads, LOAD], played=True)] == [LOAD]


# --- profiles that have not seen a group ---------------------------------------------------------

OWN = EngineProfile(name="vllm", pass_overhead_s=1.0)
GENERIC_FITS = left_out_fits().generic


def stored(monkeypatch: pytest.MonkeyPatch, own: list[str], generic: list[str]) -> None:
    """Let fits without served loads be stored, by name, of vLLM on Hopper and of all chips."""
    fits = dict.fromkeys(own, OWN) | {"all": replace(OWN, pass_overhead_s=2.0)}
    found = LeftOutFits(
        engines={"vllm": {"hopper": fits}},
        generic=dict(GENERIC_FITS) | dict.fromkeys(generic, GENERIC_FITS["all"]),
    )
    monkeypatch.setattr(left_out, "left_out_fits", lambda: found)


def test_a_load_is_predicted_by_a_profile_without_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strange = replace(LOAD, hardware="mi250x")
    shipped = load_hardware("h100").engines["vllm"]
    stored(monkeypatch, [], [])
    assert left_out_served(LOAD, "model") == (shipped, True)  # no fit has seen a served load
    assert left_out_served(strange, "model")[1]
    stored(monkeypatch, ["served model Qwen/Qwen3-8B"], ["served chip mi250x"])
    assert left_out_served(LOAD, "model") == (OWN, True)
    assert left_out_served(LOAD, "chip") == (shipped, False)  # has seen it, for all that is known
    profile, unseen = left_out_served(strange, "chip")
    assert (profile.framework, unseen) == ("vllm", True)
    assert not left_out_served(strange, "engine")[1]
    sglang = left_out_served(replace(strange, engine="sglang"), "model")[0]
    assert sglang.framework == "sglang"  # its rules, without a fit
    # A server without a profile is the chip's default.
    atom = left_out_served(replace(strange, engine="atom"), "model")[0]
    assert atom == load_hardware("mi250x").engine()


def test_totals_without_the_chip_are_of_the_fit_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stored(monkeypatch, ["served chip h100"], ["served engine vllm"])
    found = served_validation([LOAD])
    assert found.other_totals.keys() == {"shipped", "family", "chip", "engine", "setup"}
    off: Any = served_errors(found.scores)["tpot_s"]
    slow: Any = found.other_totals["chip"]["tpot_s"]
    assert slow.bias > off.bias + 50  # a second more each pass, of 10 ms
    assert found.in_sample == 1
    played = served_validation([LOAD], played=True).other_totals
    assert played.keys() - found.other_totals.keys() == {"played", "played as shipped"}
    assert played["played"] == served_errors(plain_scores([LOAD], played=True))
    assert played["played as shipped"] == served_errors(plain_scores([LOAD], None, played=True))


def test_servers_without_graphs_of_prompts_launch_them() -> None:
    # DeepSeek-R1 on H200, prompts of 1024 tokens, 4 clients: 156 ms in SGLang 0.5.9, 85 in 0.5.12.
    loads = [
        load
        for load in load_served()
        if (load.model, load.hardware, load.engine) == ("deepseek-ai/DeepSeek-R1", "h200", "sglang")
        and (load.input_len, load.output_len, load.concurrency) == (1024, 1024, 4)
        and not load.drafts
    ]
    # Days before and after graphs of SGLang held passes over prompts.
    before, after = "2026-03-01", "2026-06-01"
    undated = [replace(loads[0], engine_version="", date=day) for day in (before, after)]
    for played in (False, True):
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for one in plain_scores([*loads, *undated], None, played=played):
            is_new = one.point.engine_version == "0.5.12" or one.point.date == after
            seconds[is_new].append(one.off["ttft_s"] + math.log(one.point.ttft_s or 1))
        assert len(seconds[True]) == len(seconds[False]) == 2
        assert max(seconds[True]) < min(seconds[False]) - math.log(1.3)


# --- sources that disagree -----------------------------------------------------------------------


def residuals(rng: random.Random) -> list[ServedScore]:
    """Return loads of four sources whose TPOT is 10 % off by chance, on chips that they share."""
    scores = []
    for source in ("one", "two", "three", "four"):
        for n in range(60):
            chip, model = ("h100", "h200", "b200")[n % 3], f"model {n % 2}"
            tpot_s = 0.005 * 2 ** (n % 7)
            load = replace(LOAD, source=source, hardware=chip, model=model, tpot_s=tpot_s)
            # A chip may be predicted badly: that is no fault of a source.
            off = rng.gauss(0.5 if chip == "b200" else 0.0, 0.1)
            scores.append(ServedScore(load, {"tpot_s": off}, True))
    return [*scores, ServedScore(LOAD, {"tpot_ratio": 3.0}, True)]


def remeasured(scores: list[ServedScore], tpot_s: Mapping[int, float]) -> list[ServedScore]:
    found = list(scores)
    for n, measured_s in tpot_s.items():
        off = scores[n].off["tpot_s"] + math.log(present(scores[n].point.tpot_s) / measured_s)
        found[n] = replace(scores[n], off={"tpot_s": off})
    return found


def test_sources_that_are_off_by_chance_agree() -> None:
    assert disagreeing_sources(residuals(random.Random(1))) == ()
    assert disagreeing_sources([]) == ()


@pytest.mark.parametrize("factor", [1.5, 1 / 1.5])
@pytest.mark.parametrize("source", ["one", "two", "three", "four"])
def test_a_poisoned_source_is_named_and_not_averaged_in(source: str, factor: float) -> None:
    scores = residuals(random.Random(2))
    poisoned = {
        n: (score.point.tpot_s or 0) * factor
        for n, score in enumerate(scores)
        if score.point.source == source
    }
    scores = remeasured(scores, poisoned)
    (found,) = disagreeing_sources(scores)
    assert found.source == source
    assert found.offset == pytest.approx(-math.log(factor), abs=0.08)
    assert abs(found.offset) > found.offset_bound
    validation = ServedValidation(tuple(scores), disagreeing=(found,))
    errors: Any = validation.total["tpot_s"]
    assert errors.n == 180
    assert validation.sources[source]["tpot_s"] is not None


def test_a_shuffled_source_is_named_by_its_scatter() -> None:
    rng = random.Random(3)
    scores = residuals(rng)
    places = [n for n, score in enumerate(scores) if score.point.source == "three"]
    figures = [scores[n].point.tpot_s or 0 for n in places]
    rng.shuffle(figures)
    (found,) = disagreeing_sources(remeasured(scores, dict(zip(places, figures, strict=True))))
    assert found.source == "three"
    assert found.scatter > found.scatter_bound


def test_a_source_on_a_chip_of_its_own_is_not_compared() -> None:
    scores = residuals(random.Random(4))
    alone = replace(LOAD, source="alone", hardware="gaudi3")
    far = [ServedScore(alone, {"tpot_s": 2.0}, True)] * 5
    assert disagreeing_sources([*scores, *far]) == ()


def test_other_models_of_a_chip_stand_in_for_one_that_no_other_source_has() -> None:
    scores = residuals(random.Random(5))
    own = replace(LOAD, source="own", model="a model of its own", hardware="h200")
    far = [ServedScore(own, {"tpot_s": 2.0 + 0.1 * n}, True) for n in range(5)]
    (found,) = disagreeing_sources([*scores, *far])
    assert found.source == "own"
    assert found.offset == pytest.approx(2.2, abs=0.05)


def test_a_wrong_source_is_named_and_not_those_that_it_is_compared_with() -> None:
    rng = random.Random(6)
    scores = []
    for chip, neighbour, off in (("h100", "a", 0.46), ("h200", "b", 0.4), ("b200", "c", 0.4)):
        for source, middle in (("hub", 0.0), (neighbour, off)):
            load = replace(LOAD, source=source, hardware=chip)
            scores += [
                ServedScore(load, {"tpot_s": rng.gauss(middle, 0.1)}, True) for _ in range(40)
            ]
    (found,) = disagreeing_sources(scores)  # a is farther from it than it is from all
    assert found.source == "hub"


def test_sources_without_any_scatter_must_be_the_same() -> None:
    scores = [
        ServedScore(replace(LOAD, source=source), {"tpot_s": off}, True)
        for source, off in (("one", 0.1), ("two", 0.1), ("three", 0.2))
    ]
    assert [found.source for found in disagreeing_sources(scores)] == ["three"]


# --- what is printed -----------------------------------------------------------------------------


def test_the_answer_has_tables_and_reasons() -> None:
    found = ServedValidation(
        scores=(
            ServedScore(LOAD, {"tpot_s": math.log(1.1)}, False),
            ServedScore(replace(LOAD, source="wrong"), {"tpot_s": math.log(3)}, True),
        ),
        left_out=((LOAD, "a reason"), (LOAD, "a reason")),
        disagreeing=(Disagreement("wrong", 1.0, 0.1, 0.3, 0.4),),
        other_totals={"chip": served_errors([])},
    )
    assert "wrong (not in total)" in served_text(found)
    content = served_json(found)
    assert content["total"]["tpot_s"]["median"] == pytest.approx(0.1)
    assert content["total"]["ttft_s"] is None
    assert content["groups"]["server"]["vllm hopper"]["tpot_s"]["n"] == 1
    assert content["left_out"] == [{"source": "mine", "reason": "a reason", "n": 2}]
    assert content["disagreeing"][0]["source"] == "wrong"
    assert content["in_sample"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("asked_for_validated")
def test_validate_scores_every_served_load(served_validated: ServedValidation) -> None:
    content = specroof.validate().to_dict()["case"]["served"]
    scored = sum(group["tpot_s"]["n"] for group in content["sources"].values())
    assert scored + sum(1 for score in served_validated.scores if "tpot_ratio" in score.off) + sum(
        cell["n"] for cell in content["left_out"]
    ) == sum(ROWS.values())
    for group in content["groups"].values():
        counted = sum(errors["tpot_s"]["n"] for errors in group.values() if errors["tpot_s"])
        assert counted == content["total"]["tpot_s"]["n"]
