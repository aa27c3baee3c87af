"""Rollouts: against hand counts, token by token, the played server, and what must be kept."""

import json
import math
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from specroof import MeasurementError, OptionError, load_drafter, load_model, rollout, speedup_curve
from specroof.arrays import Array
from specroof.cli import app
from specroof.latency import Deployment, engine_setup
from specroof.policies.schedule import cheapest_schedule
from specroof.questions.request import hardware_of, server_of
from specroof.questions.rollout import (
    LAWS,
    decoded_batches,
    rollout_text,
    span_seconds,
    step_speedup,
)
from specroof.serving.capacity import in_server, prefill_rules
from specroof.serving.pass_prices import pass_prices
from specroof.serving.played import play
from specroof.serving.workload import trace
from specroof.speedup.curve import acceptance_of

MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "h100", "eagle3,accept-length=2.8@3"
TAILED = np.array([3000.0, 200.0, 900.0, 500.0, 1500.0, 250.0, 700.0, 400.0, 2000.0, 300.0])


def asked(**changes: Any) -> Any:
    """Return a small rollout."""
    given = {"drafters": SPEC, "lengths": TAILED, "max_draft_len": 6, **changes}
    return rollout(given.pop("model", MODEL), given.pop("hardware", CHIP), **given)


# --- the time of spans ---------------------------------------------------------------------------


def test_three_answers_by_hand() -> None:
    # A token of one answer takes 1 s, of two 1.5 s, of three 2 s: 2 x 2, then 2 x 1.5, then 1.
    batches = decoded_batches(np.array([2.0, 5.0, 4.0]), input_len=8.0, capacity=3)
    token_s = np.tile(np.array([1.0, 1.5, 2.0])[None, :, None], (2, 1, 1))
    seconds = span_seconds(batches, np.array([8.0, 13.0]), np.array([1.0, 2.0, 3.0]), token_s)
    assert seconds[:, 0].tolist() == [4.0, 3.0, 1.0]
    assert batches.left.tolist() == pytest.approx([1.0, 2 / 3, 1 / 3])


def test_the_third_waits_for_room_by_hand() -> None:
    # Two at a time: the third begins when the first has ended, at 2, and ends at 6.
    batches = decoded_batches(np.array([2.0, 5.0, 4.0]), input_len=8.0, capacity=2)
    token_s = np.tile(np.array([1.0, 1.5])[None, :, None], (2, 1, 1))
    seconds = span_seconds(batches, np.array([8.0, 13.0]), np.array([1.0, 2.0]), token_s)
    assert seconds.sum() == 5 * 1.5 + 1


def one_token_s(contexts: Array, token_s: Array, begin: float) -> float:
    """Return the seconds of a token, the context of which grows by one from `begin` on."""
    inside = contexts[(contexts > begin) & (contexts < begin + 1)]
    marks = np.array([begin, *inside, begin + 1])
    values = np.interp(marks, contexts, token_s)
    return float((np.diff(marks) * (values[1:] + values[:-1]) / 2).sum())


def token_by_token(
    lengths: Array, input_len: float, capacity: int, replicas: int, prices: tuple[Array, Array]
) -> float:
    """Return the makespan of servers that decode one token of each request after another."""
    contexts, by_batch = prices
    ends = []
    for replica in range(replicas):
        queue, running, clock = lengths[replica::replicas].tolist(), list[list[float]](), 0.0
        while queue or running:
            while queue and len(running) < capacity:
                running.append([queue.pop(0), input_len])
            mean = sum(context for _, context in running) / len(running)
            clock += one_token_s(contexts, by_batch[:, len(running) - 1], mean)
            running = [[left - 1, context + 1] for left, context in running if left > 1]
        ends.append(clock)
    return max(ends)


@pytest.mark.parametrize("seed", range(40))
def test_spans_add_up_to_what_token_by_token_takes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, capacity, replicas = (int(rng.integers(1, most)) for most in (30, 9, 4))
    replicas = min(replicas, count)
    lengths = rng.integers(1, 60, count).astype(np.float64)
    contexts = np.cumsum(rng.uniform(1.0, 40.0, 12)) + 5.0
    contexts[0], contexts[-1] = 6.0, 6.0 + lengths.max() + contexts[-1]
    by_batch = np.cumsum(rng.random((12, capacity)), axis=0)
    batches = decoded_batches(lengths, input_len=6.0, capacity=capacity, replicas=replicas)
    sizes = np.arange(1.0, capacity + 1)
    seconds = span_seconds(batches, contexts, sizes, by_batch[..., None])[:, 0]
    makespan_s = np.bincount(batches.replica, seconds).max()
    naive_s = token_by_token(lengths, 6.0, capacity, replicas, (contexts, by_batch))
    assert makespan_s == pytest.approx(naive_s, rel=1e-9)
    # Every token is decoded, and no server runs more than it has room for.
    assert (batches.batch * batches.tokens).sum() == lengths.sum()
    assert batches.batch.max() <= capacity


def test_three_answers_on_the_ideal_engine() -> None:
    lengths = np.array([101.0, 401.0, 201.0])
    found = asked(lengths=lengths, engine="ideal", max_draft_len=2)
    curves = speedup_curve(
        MODEL,
        CHIP,
        drafter=SPEC,
        engine="ideal",
        batch_size=[1, 2, 3],
        context_len=(512 + np.arange(400) + 0.5).tolist(),
        max_draft_len=2,
    )
    token_s = curves.round_s / curves.tokens_per_round
    # The first token comes with the prompt: 100 tokens of three, 100 of two, 200 of one.
    by_hand = token_s[:100, 2].sum(0) + token_s[100:200, 1].sum(0) + token_s[200:, 0].sum(0)
    assert found.drafters[0].makespan_s - found.prompts_s == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("count", [96, 384])
def test_a_played_server_takes_as_long(engine: str, count: int) -> None:
    rng = np.random.default_rng(5)
    lengths = np.clip(np.rint(rng.lognormal(7.2, 0.8, count)), 1, 12_000)
    found = asked(lengths=lengths, engine=engine, max_draft_len=3).drafters[0]
    model, drafter = load_model(MODEL), load_drafter(SPEC)
    setup = engine_setup(hardware_of(CHIP), engine, None, None)
    deployment = Deployment(model, in_server(model, setup, server_of(None)))
    for drafts in (0, 3):
        rules = prefill_rules(deployment, "eagle3" if drafts else None)
        prices = pass_prices(
            deployment,
            rules,
            running=found.capacity[drafts],
            input_len=(512, 512),
            longest=512 + lengths.max(),
            drafting=(drafter, acceptance_of(drafter), drafts) if drafts else None,
        )
        requests = trace(0.0, 512 * np.ones(count), lengths)
        played = play(prices, requests, rules, found.capacity[drafts])
        # Prompts that share passes, answers of whole rounds, prices between points: 1.5 % in all.
        assert found.makespan_s[drafts] == pytest.approx(played.duration_s, rel=0.015)


# --- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["ideal", "sglang", "vllm"])
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_better_informed_policy_is_never_slower(engine: str, replicas: int) -> None:
    lengths = np.random.default_rng(1).lognormal(6.0, 1.0, 120)
    found = asked(lengths=lengths, engine=engine, replicas=replicas, server="running=24")
    off, fixed, schedule, oracle = (row.makespan_s for row in found.rows)
    by_length = found.drafters[0].makespan_s
    assert oracle <= schedule * (1 + 1e-11)
    assert schedule <= fixed == np.nanmin(by_length[: 3 + 1])  # measured with 3 drafts
    assert fixed <= off == by_length[0]


def test_a_schedule_is_the_cheapest_of_all() -> None:
    rng = np.random.default_rng(2)
    loads = [1, 2, 3, 4, 6, 8]
    for _ in range(20):
        cost = rng.random((6, 4))
        least = min(
            sum(
                cost[start:stop, k].sum() for start, stop, k in zip(cuts, ends, drafts, strict=True)
            )
            for inner in combinations(range(1, 6), 2)
            for cuts in [(0, *inner)]
            for ends in [(*inner, 6)]
            for drafts in product(range(4), repeat=3)
        )
        assert cheapest_schedule(loads, cost, most_ranges=3).lost == pytest.approx(least)


def test_a_schedule_drafts_less_at_large_batches() -> None:
    lengths = np.random.default_rng(1).lognormal(6.0, 1.2, 512)
    found = asked(lengths=lengths, engine="ideal", capacity=False, max_draft_len=8)
    schedule = found.rows[2]
    drafts = [k for _, _, k in schedule.ranges]
    assert len(drafts) > 1
    assert drafts == sorted(drafts, reverse=True)
    assert schedule.ranges[-1][1] == 512
    assert schedule.draft_len is None
    assert f"{drafts[0]} at 1-" in schedule.drafts


def test_a_schedule_that_is_off_at_large_batches_is_told_of() -> None:
    lengths = np.random.default_rng(1).lognormal(6.0, 1.2, 1024)
    found = asked(
        lengths=lengths,
        engine="ideal",
        capacity=False,
        drafters="autoregressive,cost=0.3,accept=0.4",
    )
    assert found.rows[2].ranges[-1][2] == 0
    assert any("cache" in note for note in found.notes)


def test_servers_share_the_answers_and_the_slowest_ends_the_rollout() -> None:
    alone = asked(lengths=TAILED[0::2], engine="ideal")
    other = asked(lengths=TAILED[1::2], engine="ideal")
    both = asked(engine="ideal", replicas=2)
    slower = np.maximum(alone.drafters[0].makespan_s, other.drafters[0].makespan_s)
    assert both.drafters[0].makespan_s == pytest.approx(slower, rel=1e-3)  # points of contexts
    assert "2 servers" in both.title
    assert asked(engine="ideal", replicas=99).prompts_s < both.prompts_s


def test_answers_of_one_token_come_with_their_prompts() -> None:
    found = asked(lengths=[1, 1], engine="ideal")
    assert found.drafters[0].makespan_s == pytest.approx([found.prompts_s] * 7)
    assert {row.speedup for row in found.rows} == {1.0}


def test_time_and_tokens_go_up_to_the_makespan() -> None:
    for row in asked(engine="vllm").rows:
        assert row.time_s[-1] == pytest.approx(row.makespan_s)
        assert row.tokens[-1] == TAILED.sum()
        assert row.running[0] == len(TAILED)
        assert row.running[-1] == 0
        assert np.all(np.diff(row.time_s) > 0)


def test_the_tail_is_the_time_of_the_last_tenth() -> None:
    # Ten answers: the longest alone, from 2000 to 3000 tokens.
    found = asked(engine="ideal", capacity=False).rows[0]
    last = found.time_s[-1] - found.time_s[-2]
    assert found.tail_share == pytest.approx(last / found.makespan_s)


def test_cached_prompts_and_shorter_ones_take_less() -> None:
    whole, cached = asked(engine="vllm"), asked(engine="vllm", prefix_hit_rate=0.875)
    assert cached.prompts_s < whole.prompts_s
    assert cached.rows[0].makespan_s < whole.rows[0].makespan_s
    assert asked(engine="vllm", input_len=64).prompts_s < cached.prompts_s * 1.5


def test_bands_hold_the_speedup_and_the_ideal_engine_has_none() -> None:
    off, *drafting = asked(engine="sglang").rows
    assert off.verdict == ""
    assert off.makespan_low < off.makespan_s < off.makespan_high
    for row in drafting:
        assert row.speedup_low < row.speedup < row.speedup_high
        assert row.makespan_low < row.makespan_s < row.makespan_high
        assert row.verdict == "pays"
    ideal = asked(engine="ideal")
    assert math.isnan(ideal.rows[1].speedup_low)
    assert ideal.records[1]["speedup_low"] is None
    assert ideal.rows[1].verdict == ""


def test_memory_limits_what_runs_and_without_limits_all_run() -> None:
    limited = asked(lengths="500", n_requests=200, engine="sglang", server="running=48")
    assert limited.drafters[0].capacity[1] == 48  # SGLang's limit with drafts
    assert "running" in limited.warnings[0]
    free = asked(lengths="500", n_requests=200, engine="sglang", capacity=False)
    assert set(free.drafters[0].capacity) == {200}
    assert free.rows[1].makespan_s < limited.rows[1].makespan_s


def test_a_drafter_without_room_leaves_plain_decoding() -> None:
    found = asked(
        model="Qwen/Qwen3-32B",
        engine="vllm",
        drafters="model,config=Qwen/Qwen3-8B,accept=0.8",
        max_draft_len=2,
    )
    assert found.drafters[0].capacity[1:] == (0, 0)
    assert np.isnan(found.drafters[0].makespan_s[1:]).all()
    assert {row.speedup for row in found.rows} == {1.0}


def test_what_does_not_fit_at_all_is_refused() -> None:
    with pytest.raises(OptionError, match="not one request"):
        asked(model="Qwen/Qwen3-235B-A22B", engine="vllm")


# --- the training step and drift -----------------------------------------------------------------


def test_a_step_is_published_to_follow_amdahl() -> None:
    # arXiv:2604.26779, table 1: generation 100.0 to 56.6 s of 151.2 s; the step falls to 107.5 s.
    assert step_speedup(100.0 / 56.6, 100.0 / 151.2) == pytest.approx(151.2 / 107.5, rel=0.01)
    assert step_speedup(133.6 / 87.0, 133.6 / 185.3) == pytest.approx(185.3 / 137.4, rel=0.015)


def test_a_step_gains_no_more_than_its_share() -> None:
    found = asked(step_share=0.7)
    for row in found.rows:
        assert row.step_speedup == pytest.approx(1 / (0.3 + 0.7 / row.speedup))
    assert asked(step_share=1.0).rows[1].step_speedup == pytest.approx(found.rows[1].speedup)
    assert math.isnan(asked().rows[1].step_speedup)


def test_drift_is_the_rollout_at_each_acceptance() -> None:
    found = asked(accept_length=[2.8, 2.4, 2.8, 1.6], step_share=0.5, engine="vllm").drafters[0]
    assert [row.step for row in found.steps] == [1, 2, 3, 4]
    assert found.steps[0].speedup == found.steps[2].speedup
    assert found.steps[0].speedup == pytest.approx(found.policies[1].speedup)
    for row in found.steps:
        own = asked(drafters=f"eagle3,accept-length={row.accept_length:g}@3", engine="vllm")
        kept = own.drafters[0].speedup[found.policies[1].draft_len]
        assert row.speedup == pytest.approx(kept)
        assert row.best_draft_len == own.rows[1].draft_len
        assert row.best_speedup == pytest.approx(own.rows[1].speedup)
        assert row.step_speedup == pytest.approx(1 / (0.5 + 0.5 / kept))


def test_a_drafter_without_acceptance_begins_with_the_first_step() -> None:
    drifting = asked(drafters="eagle3", accept_length=[2.8, 2.0], draft_len=3)
    assert drifting.rows[1].speedup == pytest.approx(asked().rows[1].speedup)
    deep = asked(drafters="eagle3,accept=0.7", accept_length=[4.0]).drafters[0]
    assert deep.steps[0].best_speedup > 1  # measured with all 16


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"accept_length": [2.8, 4.5]}, ["accept_length[1]", "4.5", "1 to 4"]),
        ({"accept_length": [0.5]}, ["accept_length[0]", "0.5"]),
        ({"accept_length": "often"}, ["accept_length", "'often'", "a file"]),
        ({"accept_length": [2.0], "drafters": [SPEC, "ngram,accept=0.4"]}, ["drafters", "one"]),
        ({"accept_length": [2.0], "draft_len": 0}, ["draft_len", "0"]),
        ({"step_share": 1.5}, ["step_share", "1.5"]),
        ({"drafters": []}, ["drafters", "at least one"]),
        ({"lengths": [10.0, -1.0]}, ["lengths", "-1"]),
        ({"lengths": []}, ["lengths"]),
        ({"lengths": [[1.0, 2.0]]}, ["lengths", "(1, 2)"]),
        ({"lengths": "no-such-file.txt"}, ["lengths", "no-such-file.txt", "lognormal"]),
        ({"lengths": "lognormal=4000"}, ["lengths", "lognormal=4000", "two numbers"]),
        ({"lengths": "lognormal=0/4000"}, ["MEAN", "0"]),
        ({"lengths": "lognormal=4000/3000"}, ["P99 / MEAN", "0.75"]),
        ({"lengths": "lognormal=100/3000"}, ["P99 / MEAN", "30"]),
        ({"lengths": "pareto=100/1"}, ["INDEX", "1.0", "above 1"]),
        ({"n_requests": 0}, ["n_requests", "0"]),
        ({"n_requests": 10**6}, ["n_requests", "1000000", "100000"]),
        ({"max_output_len": 0}, ["max_output_len", "0"]),
        ({"input_len": 0}, ["input_len", "0"]),
        ({"prefix_hit_rate": 2}, ["prefix_hit_rate", "2"]),
        ({"replicas": 0}, ["replicas", "0"]),
        ({"seed": -1}, ["seed", "-1"]),
    ],
)
def test_wrong_input_is_refused_in_one_line(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(OptionError) as refused:
        asked(**changes)
    line = str(refused.value)
    assert "\n" not in line
    assert [word for word in words if word not in line] == []


# --- lengths -------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_a_law_has_its_mean_and_tail(law: str) -> None:
    draws = LAWS[law](np.random.default_rng(0), 400_000, 1000.0, 5.0 if law == "pareto" else 4000.0)
    assert draws.mean() == pytest.approx(1000, rel=0.01)
    if law == "pareto":
        # P(L > x) = (800 / x) ** 5: a hundredth beyond 800 * 100 ** 0.2.
        assert np.percentile(draws, 99) == pytest.approx(800 * 100**0.2, rel=0.01)
        assert draws.min() >= 800
    else:
        assert np.percentile(draws, 99) == pytest.approx(4000, rel=0.02)


def test_draws_are_whole_cut_and_the_same_with_the_same_seed() -> None:
    found = asked(lengths="lognormal=400/2000", n_requests=50, max_output_len=1000)
    assert len(found.output_len) == 50
    assert found.output_len.max() <= 1000
    assert np.all(found.output_len == np.rint(found.output_len))
    again = asked(lengths="lognormal=400/2000", n_requests=50, max_output_len=1000)
    assert np.array_equal(found.output_len, again.output_len)
    other = asked(lengths="lognormal=400/2000", n_requests=50, seed=1)
    assert not np.array_equal(found.output_len, other.output_len)
    assert len(asked(lengths="pareto=400/3").output_len) == 256


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.txt", "80\n90.0\n\n# the last\n100\n"),
        ("list.json", "[80, 90, 100]"),
        ("one.csv", "tokens\n80\n90\n100\n"),
        ("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n1,5,80\n2,6,90\n3,7,100\n"),
    ],
)
def test_a_file_of_lengths(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert asked(lengths=path, engine="ideal").output_len.tolist() == [80, 90, 100]
    drawn = asked(lengths=str(path), engine="ideal", n_requests=40).output_len
    assert set(drawn.tolist()) == {80, 90, 100}
    assert asked(lengths="80,90,100", n_requests=3).output_len.tolist() == [80, 90, 100]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["0 numbers"]),
        ("80\nmany\n", ["line 2", "'many'"]),
        ("80\n0\n", ["line 2", "0"]),
        ("in,out\n1,2\n", ["in, out", "output_len"]),
        ("input_len,output_len\n5,80\n6\n", ["line 3", "None"]),
        ("[80, null]", ["entry 1", "None"]),
        ("[80", ["JSON"]),
    ],
)
def test_a_file_that_holds_no_lengths_is_refused(
    text: str, words: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "lengths"
    path.write_text(text)
    with pytest.raises(MeasurementError) as refused:
        asked(lengths=path)
    assert [word for word in [str(path), *words] if word not in str(refused.value)] == []


# --- how it is shown -----------------------------------------------------------------------------

WORDS = ["rollout", MODEL, "-H", CHIP, "--drafter", SPEC, "--engine", "sglang"]


def test_the_shell_prints_what_python_answers(tmp_path: Path) -> None:
    flags = ["--lengths", "lognormal=600/3000", "--requests", "64", "--step-share", "0.7"]
    flags += ["--accept-length", "2.8,2.2", "--replicas", "2", "--max-output-len", "4000"]
    charts = tmp_path / "chart.svg"
    done = CliRunner().invoke(app, [*WORDS, *flags, "--json", "--plot", str(charts)])
    assert done.exit_code == 0, done.output
    answer = asked(
        engine="sglang",
        lengths="lognormal=600/3000",
        n_requests=64,
        step_share=0.7,
        accept_length=[2.8, 2.2],
        replicas=2,
        max_output_len=4000,
        max_draft_len=None,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == json.loads(
        json.dumps(answer.to_dict(), allow_nan=False)
    )
    assert charts.exists()
    assert (tmp_path / "chart-steps.svg").exists()
    text = rollout_text(answer)
    assert str(answer) == text
    for word in ("off", "fixed", "schedule", "oracle", "step speedup", "tail"):
        assert word in text
    assert list(answer.to_frame()["policy"]) == ["off", "fixed", "schedule", "oracle"]


def test_several_drafters_share_one_row_without_drafts() -> None:
    found = asked(drafters=[SPEC, "ngram,accept=0.4"])
    assert [row.policy for row in found.rows].count("off") == 1
    assert len(found.rows) == 7
    assert len(found.plot().axes) == 2
    assert "step" not in rollout_text(found).splitlines()[6]


def test_a_wrong_file_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("80\n-3\n")
    done = CliRunner().invoke(app, [*WORDS, "--lengths", str(path)])
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "line 2" in done.stderr
