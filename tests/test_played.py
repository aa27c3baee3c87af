"""A server played through: against passes one by one, queueing theory, and what must be kept."""

import csv
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import OptionError, load_drafter, load_hardware, load_model, predict
from specroof.acceptance import accepted_at
from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.drafters import Drafter
from specroof.hardware.profile import Placement
from specroof.latency.model import Work
from specroof.latency.setup import Deployment, engine_setup
from specroof.serving.capacity import PrefillRules, prefill_rules
from specroof.serving.pass_prices import Grid, PassPrices, _axis, pass_prices
from specroof.serving.played import Memory, _ratio_after_loss, joined, play
from specroof.serving.prefills import prompt_groups
from specroof.serving.workload import (
    Requests,
    Workload,
    closed_loop,
    open_loop,
    prefill_pass,
    trace,
)
from specroof.speedup.curve import acceptance_of, decoding_curve, engine_pass_s, prompt_read_s
from tables import refusal, rows

STOPS = PrefillRules(chunk=64, shares_passes=False, drafts_beside=False)
SHARES = PrefillRules(chunk=64, shares_passes=True, drafts_beside=True)
TIMES = ("sent_s", "reached_s", "started_s", "first_s", "end_s")


def drawn_prices(rng: np.random.Generator, **changes: Any) -> PassPrices:
    """Return prices that grow with what a pass does, as steeply as dice say."""

    def grid(x: list[float], y: list[float]) -> Grid:
        steps = rng.random((len(x), len(y)))
        return Grid(x, y, 1e-3 * (1.0 + np.cumsum(np.cumsum(steps, axis=0), axis=1)))

    batches, contexts, tokens = [1.0, 2.0, 5.0, 16.0], [0.0, 20.0, 70.0, 200.0], [1.0, 9.0, 64.0]
    prices = PassPrices(
        round_s=grid(batches, contexts),
        prompt_s=grid(tokens, contexts),
        sharing_s=grid(batches, tokens),
        context_s=grid(batches, contexts),
    )
    return replace(prices, **changes)


def flat_prices(round_s: float = 1.0, prompt_s: float = 1.0) -> PassPrices:
    rounds, prompts, nothing = (
        Grid([1.0, 2.0], [0.0, 1.0], np.full((2, 2), value)) for value in (round_s, prompt_s, 0.0)
    )
    return PassPrices(rounds, prompts, nothing, nothing)


# Requests of a server that keeps nothing but them: their lengths, and their times once they know.
Naive = dict[str, float]


def send(everyone: list[Naive], concurrency: float, prices: PassPrices, clock: float) -> None:
    in_flight = sum("sent_s" in request and "end_s" not in request for request in everyone)
    for request in everyone:
        if "sent_s" not in request and in_flight < concurrency:
            request["sent_s"] = max(request["arrival"], clock)
            read_s = max((other.get("reached_s", 0.0) for other in everyone), default=0.0)
            read_s = max(read_s, request["sent_s"] + prices.request_latency_s)
            request["reached_s"] = read_s + prices.tokenize_s * request["prompt"]
            in_flight += 1


def commit(decoding: list[Naive], tokens: float, clock: float) -> None:
    for request in decoding:
        request["made"] += tokens
        if request["made"] > request["answer"] - 1e-5:
            request["end_s"] = clock


def take(
    queue: list[Naive], left: float, clock: float, fits: Callable[[Naive], bool], groups: int = 1
) -> tuple[list[Naive], float, float]:
    """Return the prompts that a pass finishes, its tokens, and what these attend to in all."""
    tokens = attended = 0.0
    through = []
    rooms = [left / groups] * groups
    for request in queue:
        if max(rooms) <= 1e-6 or not fits(request):
            break
        request.setdefault("started_s", clock)
        emptiest = rooms.index(max(rooms))
        piece = min(request["prompt"] - request["computed"], rooms[emptiest])
        tokens += piece
        attended += piece * (request["computed"] + piece / 2)
        request["computed"] += piece
        rooms[emptiest] -= piece
        if request["computed"] == request["prompt"]:
            through.append(request)
    return through, tokens, attended


def context_of(request: Naive) -> float:
    """Return the cached tokens of a request that runs, or is to start."""
    made = max(request["made"], request["again"] + 1)
    return request["prompt"] + made - request["again"] - 1


def held(memory: Memory, requests: list[Naive], ratio: float | None = None) -> float:
    """Return what requests hold of the memory, and with a ratio also what is reserved of it.

    All of a request that ended; that share of what may come of those that decode; and all that may
    come of the others, which are prompts.
    """
    tokens = 0.0
    for request in requests:
        if "end_s" in request:
            tokens += request["prompt"] + request["answer"] - request["again"] - 1
            continue
        tokens += context_of(request)
        if ratio is not None:
            rest = request["first"] + request["most"] - 1 - context_of(request)
            share = ratio if request["made"] > request["again"] else 1.0
            tokens += share * min(rest, memory.most_len)
    return memory.token * tokens + memory.request * len(requests)


def one_by_one(  # noqa: C901, PLR0912, PLR0915 - a whole server, step by step
    schedule: dict[int, PassPrices],
    requests: Requests,
    rules: PrefillRules,
    capacity: int,
    overlap: bool,
    memory: Memory,
) -> tuple[dict[str, list[float]], int]:
    """Play pass by pass and token by token; return times, and how often memory was lost."""
    alone = requests.most_len is not None  # answers end by themselves
    most = requests.output_len if requests.most_len is None else requests.most_len
    lengths = (requests.input_len, requests.cached_len, requests.output_len, most)
    fields = (requests.arrival_s, requests.input_len, *lengths)
    names = ("arrival", "first", "prompt", "cached", "answer", "most")
    columns = [np.asarray(values).tolist() for values in fields]
    rows = zip(*columns, strict=True)
    everyone: list[Naive] = [
        dict(zip(names, row, strict=True)) | {"made": 0.0, "again": 0.0, "computed": row[3]}
        for row in rows
    ]
    clock = seen = 0.0
    rounds = losses = gathered = 0
    running: list[Naive] = []  # by their last start
    line: list[Naive] = []  # of those that wait
    leaving: list[Naive] = []
    # SGLang: whether it knows that nobody has room, and what of answers it reserves.
    eased = 0.3 if rules.groups > 1 else 1.0
    stuck, ratio = False, 0.7 * eased if alone else 1.0
    keeps = memory.reserves and not math.isfinite(memory.most_len)
    while any("end_s" not in request for request in everyone):
        send(everyone, requests.concurrency or math.inf, schedule[1], clock)
        looks = rounds % rules.receive_interval == 0
        looks = looks or not any(r["made"] > r["again"] for r in running)
        for request in everyone:
            if looks and "known" not in request and request.get("reached_s", math.inf) <= seen:
                request["known"] = True
                line.append(request)
        kept = True
        cut = any(r["made"] == r["again"] for r in running)
        while len(running) > 1 and held(memory, running + leaving) > 1:
            if keeps or (memory.reserves and cut):
                break
            request = running[-1]
            if memory.reserves:
                shortest = min(round(r["made"], 6) for r in running)
                of_these = [r for r in running if round(r["made"], 6) == shortest]
                longest = max(r["first"] for r in of_these)
                request = [r for r in of_these if r["first"] == longest][-1]
            running.remove(request)
            request |= {"prompt": request["prompt"] + request["made"] - request["again"]}
            request |= {"again": request["made"], "computed": request["cached"]}
            line.insert(len(line) if memory.reserves else 0, request)
            kept = stuck = False
            losses += 1
        if not kept and alone:
            made = sum(r["made"] for r in running)
            ratio = min((made + 20 * len(running)) / (1 + sum(r["most"] for r in running)), 1.0)
        decoding = [r for r in running if r["made"] > r["again"]]
        prices = schedule[max(least for least in schedule if least <= max(len(decoding), 1))]

        def fits(request: Naive) -> bool:
            if request in running:  # noqa: B023
                return True
            nonlocal stuck
            if not kept or len(running) >= capacity:  # noqa: B023 - asked in this pass
                return False
            reserved = ratio if memory.reserves else None  # noqa: B023
            if running:  # noqa: B023
                after = held(memory, [*running, *leaving, request], reserved)  # noqa: B023
                stuck = memory.reserves and (stuck or after > 1)
                if stuck or after > 1:
                    return False
            stuck = False
            running.append(request)  # noqa: B023
            return True

        left = rules.groups * (rules.chunk or math.inf)
        beside = decoding if rules.shares_passes else []
        left -= prices.positions * len(beside)
        begun = [r for r in running if r not in decoding]
        # Prompts wait for one in every group, but not for ever.
        gathers = len(decoding) >= rules.groups > len(line) > 0 == len(begun) and left > 1e-6
        gathers = gathers and gathered < rules.gathering_passes and len(running) < capacity
        if gathers and kept and not stuck:
            asked = ratio if memory.reserves else None
            gathers = held(memory, [*running, *leaving, line[0]], asked) <= 1
        else:
            gathers = False
        queue = [] if gathers else begun + line
        through, tokens, attended = take(queue, left, clock, fits, rules.groups)
        line = [r for r in line if r not in running]
        began = clock
        context = float(
            np.mean([r["prompt"] + r["made"] - r["again"] - 1 for r in decoding] or [0])
        )
        if tokens and beside:
            clock += prices.mixed_s(len(beside), context, tokens, attended / tokens)
        elif tokens:
            clock += prices.prompt_s.at(tokens, attended / tokens)
        elif decoding:
            clock += prices.round_s.at(len(decoding), context)
            commit(decoding, prices.tokens_per_round, clock)
            rounds += 1
            gathered += gathers
            if alone and kept:
                ratio = max(ratio - eased * (0.7 - 0.14 * 0.7) / 600, eased * 0.14 * 0.7)
        else:
            ratio = 0.7 * eased if alone else 1.0
            comes = min(r["reached_s"] for r in everyone if r.get("reached_s", 0.0) > seen)
            clock = began = max(clock, comes)
        clock += len(through) * prices.request_overhead_s
        if tokens:
            rounds = gathered = 0
            commit(beside, prices.tokens_per_round if rules.drafts_beside else 1.0, clock)
        commit(through, 1.0, clock)
        seen = began if overlap else clock
        for request in through:
            request.setdefault("first_s", clock)
        ended = [r for r in running if "end_s" in r]
        if leaving or (ended and not overlap):
            stuck = False
        leaving = ended if overlap else []
        running = [r for r in running if "end_s" not in r]
    return {name: [request[name] for request in everyone] for name in TIMES}, losses


def drawn_load(rng: np.random.Generator) -> tuple[Requests, PrefillRules, int]:
    count = int(rng.integers(1, 14))
    arrival_s = np.sort(rng.random(count)) * rng.choice([0.0, 0.1, 1.0])
    prompts = rng.integers(1, 150, count)
    requests = trace(
        arrival_s,
        prompts,
        rng.integers(1, 60, count),
        np.floor(rng.random(count) * prompts * rng.integers(0, 2)),
        concurrency=None if rng.random() < 0.5 else int(rng.integers(1, 8)),
    )
    shares, beside = rng.random(2) < 0.6
    rules = PrefillRules(int(rng.choice([0, 8, 64])), bool(shares), bool(shares and beside))
    rules = replace(rules, receive_interval=int(rng.choice([1, 1, 3, 10])))
    others = rng.spawn(1)[0]
    groups, gathering = int(others.choice([1, 1, 2, 4])), int(others.choice([0, 3, 20]))
    rules = replace(rules, groups=groups, gathering_passes=gathering)
    return requests, rules, int(rng.integers(1, 9))


@pytest.mark.parametrize("seed", range(560))
def test_jumps_from_event_to_event_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    requests, rules, capacity = drawn_load(rng)
    host = {
        "request_overhead_s": rng.random() * 1e-3,
        "request_latency_s": float(rng.choice([0.0, 3e-3])),
        "tokenize_s": float(np.random.default_rng((seed, 1)).choice([0.0, 1e-4])),
    }
    schedule = {}
    for least in (1, 2, 5)[: int(rng.integers(1, 4))]:
        survival = tuple(np.sort(rng.random(int(rng.integers(0, 4))))[::-1].tolist())
        positions = 1.0 + len(survival) * rules.drafts_beside
        schedule[least] = drawn_prices(rng, survival=survival, positions=positions, **host)
    prices = schedule if len(schedule) > 1 else schedule[1]
    overlap = bool(rng.random() < 0.5)
    memory = Memory(0.0, 0.0)
    if seed >= 240:  # of three mean requests or so
        token = rng.random() / 300
        memory = Memory(30 * rng.random() * token, token, reserves=bool(rng.random() < 0.3))
    if seed >= 480:  # answers so long that a ratio lets too many in
        prompts, answers = np.ceil(requests.input_len / 8), 4 * requests.output_len
        requests = replace(requests, input_len=prompts, cached_len=0 * prompts, output_len=answers)
    if seed >= 360:  # SGLang's: so much of an answer is reserved at most, or may come at most
        memory = replace(memory, reserves=True, most_len=float(rng.integers(2, 80)))
        if rng.random() < 0.6:
            most_len = requests.output_len + rng.integers(0, 60, len(requests.output_len))
            requests = replace(requests, most_len=most_len)
    if seed >= 540:  # more than any answer has, in little memory
        memory = Memory(token=3 * memory.token, reserves=True, most_len=4096.0)
        requests = replace(requests, most_len=requests.output_len + 0.0)
    found = play(prices, requests, rules, capacity, memory=memory, overlap=overlap)
    wanted, losses = one_by_one(schedule, requests, rules, capacity, overlap, memory)
    if not memory.token:
        bare = play(prices, requests, rules, capacity, overlap=overlap)
        assert np.array_equal(bare.end_s, found.end_s)
    assert (losses > 0) <= (memory.token > 0 and (not memory.reserves or seed >= 360))
    for name in TIMES:
        assert getattr(found, name) == pytest.approx(wanted[name], rel=1e-9, abs=1e-9), name
    assert found.running.max() <= capacity


@pytest.mark.parametrize("room", range(90, 250, 4))
def test_a_round_of_many_tokens_takes_the_memory_of_several(room: int) -> None:
    rng = np.random.default_rng(room)
    prices = drawn_prices(rng, survival=(1.0,) * 4, positions=5.0)  # 8 requests grow by 40 tokens
    requests = trace(1e-9 * np.arange(8), [2] * 8, [40] * 8)
    memory = Memory(3 / (room + 0.5), 1 / (room + 0.5))  # no sum of tokens fills it to the last bit
    found = play(prices, requests, SHARES, 8, memory=memory)
    wanted, losses = one_by_one({1: prices}, requests, SHARES, 8, False, memory)
    assert losses > 0
    assert found.end_s == pytest.approx(wanted["end_s"], rel=1e-9)


#: Loads that vLLM 0.33.0's own scheduler played, with these prices: benchmarks/vllm_scheduler.py.
VLLM_TABLE = Path(__file__).parent / "data" / "vllm_scheduler.csv"
VLLM = list(csv.DictReader(VLLM_TABLE.read_text(encoding="utf-8").splitlines()))


def bilinear(*values: float) -> Grid:
    return Grid([0, values[0]], [0, 1000], np.array(values[1:]).reshape(2, 2))


@pytest.mark.parametrize("row", VLLM, ids=lambda row: "-".join([*row.values()][:8]))
def test_clients_see_what_vllms_own_scheduler_gives(row: dict[str, str]) -> None:
    load = {name: float(value) for name, value in row.items()}
    drafts = int(load["draft_len"])
    prices = PassPrices(
        round_s=bilinear(100, 6e-3, 6e-3, 8e-3, 14e-3),
        prompt_s=bilinear(1000, 5e-3, 5e-3, 29e-3, 31e-3),
        sharing_s=bilinear(100, 0, 0, 2e-3, 2e-3),
        context_s=bilinear(100, 0, 0, 0, 6e-3),
        positions=1.0 + drafts,
        survival=(1.0,) * drafts,
        request_overhead_s=1e-3,
        request_latency_s=2e-2,
    )
    work, drawn = Workload(load["input_len"], load["output_len"]), (load["least"], 1.0)
    sent = closed_loop(work, max(int(load["clients"]), 1), 200, length_range=drawn, seed=2)
    sent = replace(sent, turnaround_s=None)
    if load["rate"]:
        sent = open_loop(work, load["rate"], 200, length_range=drawn, seed=2)
    token = 1 / (int(load["blocks"]) * 16)  # half of a block is left on average
    memory = Memory((1.0 + drafts + 7.5) * token, token)
    rules = PrefillRules(load["chunk"], shares_passes=True, drafts_beside=True)
    found = play(prices, sent, rules, 1024, memory=memory, overlap=True).figures()
    for name in [*row][9:]:
        off = 0.1 if name.startswith("p99") else 0.05
        exact = not load["preemptions"] and not drafts
        assert found[name] == pytest.approx(load[name], rel=1e-8 if exact else off), name


def in_flight_at(starts: Array, ends: Array, times: Array) -> Array:
    return np.array([np.sum((starts <= time) & (time < ends)) for time in times])


@pytest.mark.parametrize("rules", [STOPS, SHARES])
@pytest.mark.parametrize("rate", [2.0, 6.0])
def test_no_request_is_lost_and_littles_law_holds_at_every_instant(
    rules: PrefillRules, rate: float
) -> None:
    prices = drawn_prices(np.random.default_rng(3), request_latency_s=0.01)
    requests = open_loop(Workload(60, 40), rate, 300, length_range=(0.2, 1.0), seed=4)
    run = play(prices, requests, rules, 12)
    # The running batch is what started and did not end, from each event on.
    assert np.array_equal(in_flight_at(run.started_s, run.end_s, run.event_s), run.running)
    assert run.running[-1] == 0
    assert run.running.max() <= 12
    # Little 1961: the mean number is the rate times the mean time, of those that run and that wait.
    service_s = np.mean(run.end_s - run.started_s)
    assert run.mean_running == pytest.approx(run.requests_per_s * service_s, rel=1e-9)
    waiting = in_flight_at(run.reached_s, run.started_s, np.unique([run.reached_s, run.started_s]))
    spans_s = np.diff(np.unique([run.reached_s, run.started_s]))
    assert run.queue_s.sum() == pytest.approx(np.sum(waiting[:-1] * spans_s), rel=1e-9)
    # Those of a part of the run by what they overlap with it.
    running = run.running_over_time()
    edges = np.linspace(run.sent_s.min(), run.end_s.max(), len(running) + 1)
    starts = np.maximum(run.started_s, edges[:-1, None])
    ends = np.minimum(run.end_s, edges[1:, None])
    overlap_s = np.maximum(ends - starts, 0.0).sum(axis=1)
    assert running == pytest.approx(overlap_s / np.diff(edges), abs=1e-9)


def test_what_servers_side_by_side_answer_is_joined() -> None:
    one, other = (
        play(flat_prices(), trace(0.0, 8, answers), STOPS, 2) for answers in ([3, 1], [2])
    )
    assert joined([one]) is one
    both = joined([one, other])
    assert both.end_s.tolist() == [*one.end_s, *other.end_s]
    # A pass gives all three their first token, which one of them ends with; others end after it.
    assert (both.event_s.tolist(), both.running.tolist()) == ([0, 1, 2, 3], [3, 2, 1, 0])


def test_an_answer_of_hardly_more_than_a_token_takes_a_round() -> None:
    run = play(flat_prices(), trace(0.0, 8, [1 + 1e-7, 1.0]), STOPS, 2)
    assert run.end_s.tolist() == [2.0, 1.0]
    assert run.tokens_per_s == pytest.approx(1)  # two tokens in two seconds
    alone = play(flat_prices(), trace(0.0, 8, 1), STOPS, 1)
    assert "tpot_s" not in alone.summary()
    assert alone.figures(1.0, 1e-9)["good_requests_per_s"] == 1.0  # which no TPOT is too long for
    assert repr(alone) == "<Played: 1 requests in 1.00 s, 1 tokens/s>"


@pytest.mark.parametrize(
    ("tokens", "latency_s", "reach_s"),
    [(101, 0.5, 0.003), (3, 0.001, 0.001), (1, 0.5, 0.5), (3, 0.5, 0.3), (2, 1.25, 1.15)],
)
def test_clients_are_back_before_a_step_and_their_first_token_is_a_little_late(
    tokens: int, latency_s: float, reach_s: float
) -> None:
    prices = replace(flat_prices(), request_latency_s=latency_s)
    rules = PrefillRules(chunk=100, shares_passes=False, drafts_beside=False)
    # A prompt of a second and steps of one, twice.
    two = play(prices, closed_loop(Workload(10, tokens), 1, 2), rules, 1)
    assert two.sent_s == pytest.approx([0.0, tokens + reach_s])
    assert two.reached_s - two.sent_s == pytest.approx([reach_s] * 2)
    assert two.ttft_s == pytest.approx([1.0 + latency_s] * 2)
    # Little's law: one client, whose requests follow each other.
    assert two.latency_s == pytest.approx([tokens + reach_s] * 2)


def test_a_prompt_leaves_a_pipeline_after_the_next_pass_has_entered() -> None:
    # Passes of 3 s, 2 of which fill an empty pipeline; rounds of 1 s.
    filling = Grid([1.0, 2.0], [0.0, 1.0], np.full((2, 2), 2.0))
    prices = replace(flat_prices(prompt_s=3.0), filling_s=filling)
    two = play(prices, trace([0, 3], [10, 10], [4, 2]), SHARES, 2)
    # At 3 s the first decodes beside the second's prompt, whose next pass enters at 4 s.
    assert [*two.first_s, *two.end_s] == [3.0, 6.0, 6.0, 7.0]


def test_groups_take_prompts_side_by_side() -> None:
    # Passes of a second. One chunk of 100 takes A (150) twice, and B (80), C (40), D (10) behind.
    # Two groups: A 100, B 80 and C 20; then A 50, C 20 and D 10.
    requests = trace([0, 0, 0, 0], [150, 80, 40, 10], [1, 1, 1, 1])
    for groups, first_s in ((1, [2, 3, 3, 3]), (2, [2, 1, 2, 2])):
        rules = PrefillRules(100, shares_passes=False, drafts_beside=False, groups=groups)
        found = play(flat_prices(), requests, rules, 4)
        assert found.first_s.tolist() == first_s
    # Of the last request that began the memory is lost, be it cut or not.
    rules = PrefillRules(100, shares_passes=True, drafts_beside=True, groups=2)
    tight = Memory(token=1 / 330)
    lost = play(flat_prices(), trace([0, 0], [150, 170], [20, 2]), rules, 2, memory=tight)
    assert lost.first_s.tolist() == [2, 2]
    assert np.all(lost.end_s >= lost.first_s)


def test_requests_wait_until_several_slots_are_free_where_blocks_are_drafted() -> None:
    # Eight run. Rounds and passes take a second: the first ends at 2 s, and the next begins; the
    # second ends after its second round, at 4 s. Two at a time begin at 3 s, when both have ended.
    requests = trace([0] * 10, [10] * 10, [2, 3, 9, 9, 9, 9, 9, 9, 2, 2])
    rules = PrefillRules(100, shares_passes=False, drafts_beside=False)
    for holds, started in ((False, [2, 4]), (True, [3, 3])):
        found = play(flat_prices(), requests, replace(rules, holds_back=holds), 8)
        assert found.started_s[8:].tolist() == started
    flash = deployment("Qwen/Qwen3-8B", "h100", "sglang", 1)
    assert [prefill_rules(flash, kind).holds_back for kind in ("dflash", "eagle3")] == [True, False]


def test_rounds_are_decoded_between_two_passes_of_prompts() -> None:
    # Rounds and passes of a second. The first has its token at 1 s; three rounds come before the
    # second's first chunk, which waited from 1.5 s on, and three before its second one.
    rules = PrefillRules(100, shares_passes=False, drafts_beside=False, rounds_between=3)
    two = play(flat_prices(), trace([0, 1.5], [10, 150], [9, 1]), rules, 2)
    assert two.started_s.tolist() == [0, 4]
    assert [*two.first_s, two.end_s[0]] == [1, 9, 11]
    # Nobody decodes: prompts follow one another.
    alone = play(flat_prices(), trace([0, 0], [150, 10], [1, 1]), rules, 2)
    assert alone.first_s.tolist() == [2, 2]
    words = (("Qwen/Qwen3-VL-32B-Instruct", "h100", 22), ("Qwen/Qwen3-VL-32B-Instruct", "b200", 0))
    for name, chip, rounds in (*words, ("Qwen/Qwen3-32B", "h100", 0)):
        served = deployment(name, chip, "sglang", 1)
        assert prefill_rules(served).rounds_between == rounds


def test_a_pass_of_all_groups_takes_what_that_of_one_takes() -> None:
    # Each group has a chunk, which it attends to alone; experts see all of them.
    placement = Placement(8, 8, attention_data_parallel=8)
    setup = engine_setup(load_hardware("h200"), "sglang", placement, None)
    served = Deployment(load_model("deepseek-ai/DeepSeek-V3"), setup)
    rules = prefill_rules(served)
    # SGLang cuts 8192 tokens by eight. Without drafts the groups without prompts decode beside.
    assert (rules.chunk, rules.groups, rules.shares_passes) == (1024, 8, True)
    drafting = prefill_rules(served, "mtp")
    assert (drafting.chunk, drafting.groups, drafting.shares_passes) == (1024, 8, False)
    (prices,) = priced(served, rules)
    for prompts in (1, 3, 8):
        forward = prefill_pass(1024.0, batch_size=prompts, context_len=2048)
        all_s = float(engine_pass_s(served, forward))
        assert prices.prompt_s.at(1024 * prompts, 2048 + 512) == pytest.approx(all_s, rel=0.04)
    # Three prompts of 8192 take eight passes, side by side, and one takes as many.
    assert [float(one) for one in prompt_groups(8192, 3, rules.chunk, rules.groups)] == [3, 8]
    vllm = engine_setup(load_hardware("h200"), "vllm", placement, None)
    each = prefill_rules(Deployment(served.model, vllm))
    assert (each.chunk, each.groups, each.shares_passes) == (8192, 8, True)


@pytest.mark.parametrize("rules", [SHARES, STOPS])
def test_prompts_follow_one_another_through_a_pipeline(rules: PrefillRules) -> None:
    # Three stages of 1 s: the n-th prompt is through after n + 2, and no decoding is needed.
    filling = Grid([1.0, 2.0], [0.0, 1.0], np.full((2, 2), 2.0))
    prices = replace(flat_prices(prompt_s=3.0), filling_s=filling)
    one_by_one = trace([0] * 4, [rules.chunk] * 4, [1] * 4)
    assert play(prices, one_by_one, rules, 4).first_s.tolist() == [3.0, 4.0, 5.0, 6.0]
    # So are the chunks of one prompt.
    (whole,) = play(prices, trace([0], [4 * rules.chunk], [1]), rules, 4).first_s
    assert whole == 6.0


def test_lengths_are_drawn_evenly_and_by_the_seed() -> None:
    requests = closed_loop(
        Workload(1000, 100, prefix_hit_rate=0.5), 400, length_range=(0.8, 1.0), seed=1
    )
    assert requests.input_len.shape == (4000,)
    for lengths, most in ((requests.input_len, 1000), (requests.output_len, 100)):
        values = np.asarray(lengths)
        assert np.all(values == np.rint(values))
        assert (values.min(), values.max()) == (0.8 * most, most)
        assert values.mean() == pytest.approx(0.9 * most, rel=0.005)
    assert requests.cached_len == pytest.approx(np.asarray(requests.input_len) / 2)
    other = closed_loop(Workload(1000, 100), 400, length_range=(0.8, 1.0), seed=2)
    assert not np.array_equal(other.input_len, requests.input_len)
    assert closed_loop(Workload(921.6, 0.5 + 1), 1, 2).input_len.tolist() == [921.6, 921.6]


def test_gaps_are_drawn_or_even() -> None:
    gaps = np.diff(open_loop(Workload(8, 8), 2.0, 50_000).arrival_s)
    assert gaps.mean() == pytest.approx(0.5, rel=0.03)
    assert gaps.var() == pytest.approx(0.25, rel=0.05)
    even = open_loop(Workload(8, 8), 2.0, 5, even=True)
    assert even.arrival_s == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.5])
    slow, fast = (open_loop(Workload(8, 8), rate, 9, seed=3).arrival_s for rate in (1.0, 4.0))
    assert np.asarray(slow) == pytest.approx(4 * np.asarray(fast))


@pytest.mark.parametrize(
    ("model", "chip", "engine", "drafter", "drafts"), rows("values", "clients_out_of_step")
)
@pytest.mark.parametrize(("prompt", "answer"), [(1024, 1024), (8192, 512)])
def test_clients_out_of_step_get_what_the_steady_state_says(
    model: str, chip: str, engine: str, drafter: str, drafts: int, prompt: int, answer: int
) -> None:
    clients, found = [4, 32], load_drafter(drafter)
    steady = predict(
        model, chip, drafters=found, engine=engine, concurrency=clients, input_len=0.9 * prompt,
        output_len=0.9 * answer, max_draft_len=max(drafts, 1), capacity=False, steady=True,
    )  # fmt: skip
    rules = prefill_rules(steady.deployment, found.kind if drafts else None)
    prices = pass_prices(
        steady.deployment, rules, running=max(clients), input_len=(0.8 * prompt, prompt),
        longest=prompt + answer, drafting=(found, accepted(found), drafts) if drafts else None,
    )[-1]  # fmt: skip
    for place, count in enumerate(clients):
        tpot_s, latency_s = (
            float(getattr(steady.counted[0], name)[0, place, drafts])
            for name in ("tpot_s", "answer_s")
        )
        load = closed_loop(Workload(prompt, answer), count, 40 * count, length_range=(0.8, 1.0))
        load = replace(load, arrival_s=latency_s * np.minimum(np.arange(40 * count) / count, 1))
        run = play(prices, load, rules, count)
        middle = slice(10 * count, 30 * count)  # all clients are at work
        assert tpot_s == pytest.approx(run.tpot_s[middle].mean(), rel=0.01)
        assert latency_s == pytest.approx(run.latency_s[middle].mean(), rel=0.02)


# --- Dice ----------------------------------------------------------------------------------------


def played_rounds(survival: tuple[float, ...], tokens: int, count: int, seed: int) -> Array:
    """Return the rounds of answers, of a second each where nothing else takes time."""
    prices = replace(flat_prices(1.0, 0.0), survival=survival)
    run = play(prices, trace(np.zeros(count), 8, tokens + 1), STOPS, count, seed=seed)
    return run.end_s - run.first_s


def test_dice_commit_tokens_as_often_as_the_survival_curve_says() -> None:
    survival, tokens = (0.8, 0.5, 0.4), 13
    rounds = played_rounds(survival, tokens, 20_000, 7)
    # Exactly: the chance that n rounds have not yet committed them all, by convolution.
    one = -np.diff([1.0, *survival, 0.0])
    left, mean, square, passed = np.zeros(tokens), 0.0, 0.0, 0
    left[0] = 1.0
    while left.sum() > 1e-12:
        mean, square = mean + left.sum(), square + (2 * passed + 1) * left.sum()
        passed += 1
        left = np.convolve(left, np.concatenate([[0.0], one]))[:tokens]
    assert rounds.mean() == pytest.approx(mean, rel=0.005)
    assert rounds.var() == pytest.approx(square - mean**2, rel=0.03)
    assert rounds.min() >= 4
    assert rounds.max() <= 13
    assert np.array_equal(rounds, played_rounds(survival, tokens, 20_000, 7))
    assert not np.array_equal(rounds, played_rounds(survival, tokens, 20_000, 8))
    # Few requests take as many rounds in all, whatever the seed.
    few = [played_rounds(survival, tokens, 10, seed).sum() for seed in range(5)]
    assert few == pytest.approx([10 * mean] * 5, abs=1.0)
    # Where the length follows the batch, the dice are those of the longest: from two requests on.
    long = replace(flat_prices(1.0, 0.0), survival=survival)
    both, load = {1: replace(long, survival=()), 2: long}, trace([0, 0], 8, [14, 99])
    drafted, alone = (play(prices, load, STOPS, 2, seed=7) for prices in (both, long))
    assert drafted.end_s[0] == alone.end_s[0]
    assert drafted.end_s[1] > alone.end_s[1]


@pytest.mark.parametrize(("tokens", "rounds"), [(1, 1.0), (2, 1.1), (5, 1.4), (9, 1.8)])
def test_answers_of_less_than_a_round_end_in_one_where_its_drafts_are_accepted(
    tokens: int, rounds: float
) -> None:
    # Each token before the last ends its round with a chance of 0.1, while drafts are left.
    survival = tuple((0.9 ** np.arange(1, 9)).tolist())
    assert played_rounds(survival, tokens, 10_000, 3).mean() == pytest.approx(rounds, abs=0.01)


def test_dice_change_nothing_where_nothing_is_drawn() -> None:
    prices = drawn_prices(np.random.default_rng(2))
    requests = open_loop(Workload(60, 40), 4.0, 50, length_range=(0.2, 1.0), seed=4)
    plain, drawn = (play(prices, requests, SHARES, 9, seed=seed) for seed in (None, 3))
    assert drawn.end_s == pytest.approx(plain.end_s, rel=1e-12)


def test_contexts_of_drawn_rounds_end_at_the_length_of_the_answer() -> None:
    # A round of one sequence takes its context in seconds: the sum says which contexts it had.
    contexts = Grid([1.0, 2.0], [0.0, 1e3], np.array([[0.0, 1e3], [0.0, 1e3]]))
    prices = replace(flat_prices(1.0, 0.0), round_s=contexts, survival=(0.5,))
    run = play(prices, trace(0.0, 100, 41), STOPS, 1, seed=1)
    rounds = int(played_rounds((0.5,), 40, 1, 1)[0])
    mean = 100 + (40 / rounds) * (rounds - 1) / 2
    assert run.end_s[0] == pytest.approx(rounds * mean)


# --- Refusals ------------------------------------------------------------------------------------


def test_a_load_that_cannot_be_is_refused() -> None:
    work = Workload(8, 8)
    assert "rate" in refusal(OptionError, open_loop, work, 0.0, 5)
    assert "requests" in refusal(OptionError, closed_loop, work, 1, 0)
    assert "length_range" in refusal(OptionError, closed_loop, work, 1, length_range=(1.5, 1.0))
    load = closed_loop(work, 1)
    assert "capacity" in refusal(OptionError, play, flat_prices(), load, STOPS, math.nan)
    for schedule in ({}, {2: flat_prices()}):
        assert "prices" in refusal(OptionError, play, schedule, load, STOPS, 8)


# --- prices of passes between the points of a grid ------------------------------------------------

#: Dense, latent attention and experts, windows, recurrent layers; all three schedulers.
SERVED = [
    ("Qwen/Qwen3-8B", "h100", "vllm", 1),
    ("deepseek-ai/DeepSeek-R1", "b200", "sglang", 8),
    ("openai/gpt-oss-120b", "h200", "tensorrt-llm", 2),
    ("Qwen/Qwen3.5-27B", "h100", "vllm", 2),
]
#: Requests and tokens of the grid.
RUNNING, SHORTEST, LONGEST = 256, 800, 9216
BOUNDS: dict[str, Any] = {"running": RUNNING, "input_len": (SHORTEST, 8192), "longest": LONGEST}


def deployment(model: str, chip: str, engine: str, devices: int) -> Deployment:
    placement = Placement(tensor_parallel=devices)
    return Deployment(load_model(model), engine_setup(load_hardware(chip), engine, placement, None))


def accepted(drafter: Drafter) -> Any:
    return accepted_at(acceptance_of(drafter), LONGEST / 2)


def priced(
    served: Deployment,
    rules: PrefillRules,
    drafter: Drafter | None = None,
    drafts: int = 0,
    **bounds: Any,
) -> tuple[PassPrices, ...]:
    drafting = (drafter, accepted(drafter), drafts) if drafter and drafts else None
    return tuple(pass_prices(served, rules, drafting=drafting, **BOUNDS | bounds))


@pytest.mark.parametrize("where", SERVED)
def test_passes_between_the_points_take_what_they_take(where: tuple[str, str, str, int]) -> None:
    served = deployment(*where)
    rules = prefill_rules(served)
    (prices,), rng = priced(served, rules), np.random.default_rng(0)
    for _ in range(40):
        batch = int(np.exp(rng.uniform(0, np.log(RUNNING))))
        context = rng.uniform(SHORTEST, LONGEST)
        decode = ForwardPass(batch, 1.0, context)
        alone_s = float(engine_pass_s(served, decode))
        assert prices.round_s.at(batch, context) == pytest.approx(alone_s, rel=0.01)
        # One chunk of a prompt that is partly cached; several whole prompts of a pass.
        tokens, cached = rng.uniform(1024, rules.chunk), rng.uniform(0, 6000)
        prompts = rng.integers(2, 9)
        chunk = prefill_pass(tokens, context_len=cached)
        whole = prefill_pass(tokens / prompts, batch_size=prompts)
        for prompt, attended in ((chunk, cached + tokens / 2), (whole, tokens / prompts / 2)):
            prompt_s = float(engine_pass_s(served, prompt))
            assert prices.prompt_s.at(tokens, attended) == pytest.approx(prompt_s, rel=0.01)
            beside = Work(served.model, prompt, kind="prompts")
            both_s = float(engine_pass_s(served, decode, beside))
            mixed_s = prices.mixed_s(batch, context, tokens, attended)
            assert mixed_s == pytest.approx(both_s, rel=0.01)


@pytest.mark.parametrize("drafts_beside", [True, False])
def test_rounds_are_those_of_a_curve_and_mixed_passes_draft_as_the_server_does(
    drafts_beside: bool,
) -> None:
    served, drafter = deployment(*SERVED[0]), load_drafter("eagle3,accept=0.7")
    rules = PrefillRules(8192, shares_passes=True, drafts_beside=drafts_beside)
    every = priced(served, rules, drafter, drafts=3)
    curve = decoding_curve(
        served, drafter, acceptance_of(drafter), [1, 24, 200], context_len=[1000, 7000],
        max_draft_len=3,
    )  # fmt: skip
    chunk = Work(served.model, prefill_pass(2048), kind="prompts")
    read_s = float(prompt_read_s(served, drafter, prefill_pass(2048)))
    if drafts_beside:  # a pass of the drafter that reads them and begins the drafts
        read_s -= float(prompt_read_s(served, drafter, prefill_pass(1)))
    assert len(every) == 4
    for drafts, prices in enumerate(every):
        assert prices.survival == pytest.approx((0.7, 0.49, 0.343)[:drafts])
        assert prices.tokens_per_round == pytest.approx((1, 1.7, 2.19, 2.533)[drafts])
        assert prices.positions == (drafts + 1 if drafts_beside else 1)
        for i, j in np.ndindex(2, 3):
            context, batch = float(curve.context_len[i]), float(curve.batch_size[j])
            round_s = curve.round_s[i, j, drafts]
            assert prices.round_s.at(batch, context) == pytest.approx(round_s, rel=0.01)
            decode = ForwardPass(batch, prices.positions, context)
            wanted = float(engine_pass_s(served, decode, chunk)) + read_s * (drafts > 0)
            if drafts_beside:
                wanted += round_s - curve.verify_s[i, j, drafts]
            assert prices.mixed_s(batch, context, 2048, 1024) == pytest.approx(wanted, rel=0.01)


def test_a_tree_keeps_its_tokens_per_round() -> None:
    served = deployment(*SERVED[0])
    drafter = load_drafter("eagle3,accept=0.6,tree=3/2/1,siblings=.1/.05")
    prices = priced(served, prefill_rules(served, "eagle3"), drafter, drafts=3)[-1]
    curve = decoding_curve(
        served, drafter, acceptance_of(drafter), [8], context_len=[4096], max_draft_len=3
    )
    assert prices.tokens_per_round == pytest.approx(curve.tokens_per_round[0, 0, -1])
    assert list(prices.survival) == sorted(prices.survival, reverse=True)
    assert 0 <= min(prices.survival) <= max(prices.survival) <= 1


def test_one_request_and_prompts_in_one_piece_have_a_grid() -> None:
    served = deployment(*SERVED[0])
    whole = PrefillRules(0, shares_passes=False, drafts_beside=False)
    bounds: Any = {"input_len": (512, 512), "longest": 512}
    (prices,) = priced(served, whole, running=1, **bounds)
    prompt_s = float(engine_pass_s(served, prefill_pass(512)))
    assert prices.prompt_s.at(512, 256) == pytest.approx(prompt_s, rel=0.01)
    round_s = float(engine_pass_s(served, ForwardPass(1, 1, 512)))
    assert prices.round_s.at(1, 512) == pytest.approx(round_s)
    for name in ("request_overhead_s", "request_latency_s", "tokenize_s"):
        assert getattr(prices, name) == getattr(served.setup.engine, name)
    # More requests while answers are short: the points of fewer stay where they are.
    few, many = (priced(served, whole, running=1, **bounds, most=n)[0].round_s.x for n in (1, 40))
    assert few == prices.round_s.x == [1, 2]
    assert (many[:2], many[-1]) == ([1, 2], 40)
    few, many = (priced(served, whole, running=8, **bounds, most=n)[0].round_s.x for n in (1, 40))
    assert (many[: len(few)], many) == (few, sorted({*many}))
    # Contexts, tokens of a pass and what these attend to reach from the least to the most there is.
    for chunk, shortest, longest, ends in (
        (100, 400, 900, [400, 900, 1, 100]), (1, 512, 512, [512, 513, 1, 2]), (9, 1, 2, [1, 2, 1, 9]),
    ):  # fmt: skip
        bounds = {"running": 8, "input_len": (shortest, shortest + 1), "longest": longest}
        (prices,) = priced(served, replace(whole, chunk=chunk), **bounds)
        contexts, tokens, attended = prices.round_s.y, prices.prompt_s.x, prices.prompt_s.y
        assert [contexts[0], contexts[-1], tokens[0], tokens[-1]] == pytest.approx(ends)
        assert attended[-1] == pytest.approx(max(longest, 2 * attended[0]))
        assert [round(one) for one in tokens] == tokens


def test_a_grid_is_linear_between_its_points_and_beyond() -> None:
    x, y = [1.0, 2.0, 7.0], [0.0, 3.0, 4.0, 9.0]
    plane = Grid(x, y, 2.0 + 3.0 * np.array(x)[:, None] - 0.5 * np.array(y))
    rng = np.random.default_rng(1)
    for _ in range(50):
        at_x, at_y = rng.uniform(-3, 12), rng.uniform(-3, 12)
        assert plane.at(at_x, at_y) == pytest.approx(2.0 + 3.0 * at_x - 0.5 * at_y)
        assert plane.row(at_x) == pytest.approx([2.0 + 3.0 * at_x - 0.5 * at for at in y])
    values = rng.random((3, 4))
    grid = Grid(x, y, values)
    assert [[grid.at(a, b) for b in y] for a in x] == pytest.approx(values)
    assert grid.at(4.5, 3.5) == pytest.approx(values[1:, 1:3].mean())


def test_passes_that_take_longer_take_so_in_all_their_parts() -> None:
    prices = drawn_prices(np.random.default_rng(3))
    full = replace(prices, filling_s=prices.prompt_s.times(0.25))
    longer = full.times(2.0, 3.0)
    parts = {"round_s": 6, "prompt_s": 2, "filling_s": 2, "sharing_s": 2, "context_s": 6}
    for name, factor in parts.items():
        assert getattr(longer, name).at(3, 50) == pytest.approx(
            factor * getattr(full, name).at(3, 50)
        )
    assert prices.times(2.0).filling_s is None
    parts_s = 0.75 * prices.prompt_s.at(9, 30) + prices.sharing_s.at(3, 9)
    assert full.mixed_s(3, 50, 9, 30) == pytest.approx(parts_s + prices.context_s.at(3, 50))


@given(st.floats(1, 50), st.floats(1.01, 1e4), st.floats(1.05, 4), st.booleans())
def test_points_of_a_grid_reach_its_ends_in_steps(
    first: float, share: float, step: float, whole: bool
) -> None:
    first = float(np.ceil(first)) if whole else first
    last = float(np.ceil(first * share)) if whole else first * share
    points = _axis(first, last, step, whole=whole)
    assert points[[0, -1]] == pytest.approx([first, last])
    assert np.all(points[1:] <= (step * points[:-1] + whole) * (1 + 1e-9))
    assert not whole or np.all(points == np.rint(points))
    assert np.all(np.diff(points) > 0)
    assert first * step ** (len(points) - 2) < last * (1 + 1e-9)  # no more than that takes


def test_a_loss_leaves_reserved_what_answers_have_made_and_20_rounds_more() -> None:
    # 6 and 3 tokens of 91 and 31 are made.
    contexts, first_len, bound_len = [(0, 15.0), (1, 22.0)], [10.0, 20.0], [100.0, 50.0]
    assert _ratio_after_loss(contexts, first_len, bound_len) == (6 + 3 + 2 * 20) / (91 + 31 + 1)
    assert _ratio_after_loss(contexts[:1], first_len, [30.0]) == 1
