"""Requests in closed loop: closed forms against a server played through, and counts by hand."""

from dataclasses import dataclass, replace
from itertools import combinations, product
from math import ceil, comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import load_hardware, load_model
from specroof.architecture.base import Routing
from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.cost.forward import joined_routing
from specroof.hardware.engine import EngineProfile
from specroof.latency.model import Work, model_latency
from specroof.latency.setup import Deployment, engine_setup
from specroof.serving.capacity import PrefillRules
from specroof.serving.pass_prices import Grid, PassPrices
from specroof.serving.played import play
from specroof.serving.prefills import (
    RequestLoad,
    RequestTimes,
    answer_rounds,
    end_to_end_tokens_per_s,
    piece_pass,
    prompt_groups,
    prompts_together,
    request_timing,
    shared_passes,
)
from specroof.serving.workload import Workload, closed_loop, prefill_pass
from tables import rows

pytestmark = pytest.mark.slow

SERVED = Deployment(
    load_model("Qwen/Qwen3-8B"), engine_setup(load_hardware("h100"), "ideal", None, None)
)
NOTHING_ADDED = EngineProfile(name="bare")


@dataclass(frozen=True)
class Toy:
    """A server of some clients, whose answers vary by half of their mean."""

    clients: int
    prompt: int
    answer: int
    tokens_per_round: float = 1.0
    positions: int = 1
    chunk: int = 2048
    shares: bool = True
    drafts_beside: bool = True

    @property
    def draft_s(self) -> float:
        """Seconds of a round beside its pass."""
        return 0.004 if self.positions > 1 else 0.0

    @property
    def rules(self) -> PrefillRules:
        return PrefillRules(self.chunk, self.shares, self.drafts_beside)


def pass_s(tokens: Any) -> Any:
    """Return the seconds of a pass of so many tokens: a matrix to read, then arithmetic."""
    return np.hypot(0.01, 0.00006 * tokens)


def toy_s(
    _served: Deployment,
    forward: ForwardPass,
    /,
    *beside: Work,
    drafts: bool = False,  # noqa: ARG001 - as `PassSeconds`
) -> Array:
    """Return the seconds of a pass on the toy server: its tokens are all that counts."""
    tokens = forward.tokens + sum(one.forward_pass.tokens for one in beside)
    return np.asarray(pass_s(tokens))


def times_of(
    toy: Toy, *, engine: EngineProfile = NOTHING_ADDED
) -> tuple[RequestLoad, RequestTimes]:
    load = RequestLoad(
        new_len=float(toy.prompt),
        output_len=float(toy.answer),
        running=np.array([float(toy.clients)]),
        context_len=1.0,
        verify_len=float(toy.positions),
        tokens_per_round=np.array([toy.tokens_per_round]),
    )
    round_s = np.array([pass_s(toy.clients * toy.positions) + toy.draft_s])
    return load, request_timing(load, toy.rules)(SERVED, toy_s, round_s, engine)


def predicted(toy: Toy) -> tuple[float, float, float]:
    load, times = times_of(toy)
    rate = end_to_end_tokens_per_s(
        load.running, times.token_s, wait_s=times.wait_s, output_len=toy.answer
    )
    service_s = toy.clients * toy.answer / rate
    first_s = float(times.first_s[0])
    decoding_s = float(service_s[0]) - first_s
    return float(rate[0]) / toy.answer, first_s, decoding_s / (toy.answer - 1)


def played(toy: Toy, requests: int = 9000) -> tuple[float, float, float]:
    """Return what `predicted` does, of a server that is played: the first quarter is warm-up."""
    batches, tokens = np.arange(1.0, toy.clients + 2), np.linspace(0, toy.chunk, 129)
    beside = toy.positions if toy.drafts_beside else 1
    alone_s = pass_s(tokens)

    def grid(x: Array, y: Array, seconds: Array) -> Grid:
        return Grid(x.tolist(), y.tolist(), np.asarray(seconds))

    either, nothing = np.array([0.0, 1e6]), np.zeros((len(batches), 2))  # whatever the context
    # Passes that prompts share with decoding draft for those that are through, too.
    drafts_s = toy.draft_s if toy.shares and toy.drafts_beside else 0.0
    prices = PassPrices(
        round_s=grid(
            batches, either, nothing + pass_s(batches * toy.positions)[:, None] + toy.draft_s
        ),
        prompt_s=grid(tokens, either, alone_s[:, None] + np.full(2, drafts_s)),
        sharing_s=grid(batches, tokens, pass_s(batches[:, None] * beside + tokens) - alone_s),
        context_s=grid(batches, either, nothing),
        positions=beside,
        survival=(1.0, toy.tokens_per_round - 2, 0.0) if toy.positions > 1 else (),
    )
    dice = np.random.default_rng(20261122)
    load = closed_loop(
        Workload(toy.prompt, toy.answer), toy.clients, requests, ramp_s=toy.answer / 20
    )
    answers = dice.integers(toy.answer // 2, toy.answer + toy.answer // 2 + 1, requests)
    load = replace(load, output_len=answers.astype(float), turnaround_s=None)
    run = play(prices, load, toy.rules, toy.clients, seed=1)
    late = np.argsort(run.end_s)[requests // 4 : -toy.clients or None]
    ends_s = run.end_s[late]
    tpot_s = np.sum((run.end_s - run.first_s)[late]) / np.sum(answers[late] - 1)
    rate = (len(late) - 1) / (ends_s[-1] - ends_s[0])
    return float(rate), float(run.ttft_s[late].mean()), float(tpot_s)


SERVERS = {name: Toy(**sizes) for name, sizes in rows("values", "toy_servers").items()}
#: Just below full passes the queue of prompts is as long as the spread of answers makes it, which
#: the closed form takes for that of arrivals without memory.
SPREAD = "shared, nearly full of prompts"


@pytest.mark.long
@pytest.mark.parametrize("name", SERVERS)
def test_rates_and_times_are_those_of_a_server_that_is_played(name: str) -> None:
    # 6750 answers whose lengths spread by 29 %: 0.4 % of noise, and 3 % for mean passes in the
    # place of those that differ.
    measured, (rate, ttft_s, tpot_s) = played(SERVERS[name]), predicted(SERVERS[name])
    assert rate == pytest.approx(measured[0], rel=0.04)
    assert tpot_s == pytest.approx(measured[2], rel=0.06 if name == SPREAD else 0.04)
    assert ttft_s == pytest.approx(measured[1], rel=0.3 if name == SPREAD else 0.08)


def test_what_a_request_takes_delays_those_that_start_with_it() -> None:
    slow = EngineProfile(name="slow", request_overhead_s=0.001)
    toy = Toy(64, 2048, 64, chunk=8192)
    (_, free), (_, taken) = (times_of(toy, engine=one) for one in (NOTHING_ADDED, slow))
    # Whoever starts is taken alone.
    assert taken.first_s - free.first_s == pytest.approx(0.001)
    assert taken.wait_s - free.wait_s == pytest.approx(0.001)


@given(st.integers(1, 9), st.integers(2, 400))
def test_rounds_of_an_answer_are_the_mean_over_lengths(tokens: int, first: int) -> None:
    # The first token is the prefill's; any N lengths in a row end at each place of a round once.
    lengths = range(first, first + tokens)
    rounds = [ceil((length - 1) / tokens) for length in lengths]
    found = answer_rounds(np.array(lengths), tokens)
    assert np.all(found >= 1)
    if first > tokens:
        assert found.mean() == pytest.approx(np.mean(rounds))


def test_an_answer_of_one_token_is_not_decoded() -> None:
    assert answer_rounds(1, [1.0, 3.0]).tolist() == [0, 0]
    assert answer_rounds(2, 4.0) == 1


@given(st.integers(1, 12), st.integers(1, 30))
def test_prompts_that_start_together_are_counted(running: int, rounds: int) -> None:
    p = 1 / rounds
    chances = [comb(running, k) * p**k * (1 - p) ** (running - k) for k in range(running + 1)]
    mean = sum(k * one for k, one in enumerate(chances))
    together, found = prompts_together(running, rounds)
    assert together == pytest.approx(mean / (1 - chances[0]))
    # Whoever starts is one of k with k times the chance.
    assert found == pytest.approx(sum(k * k * one for k, one in enumerate(chances)) / mean)


@given(
    st.integers(1, 300), st.floats(1, 400), st.floats(1, 20_000), st.floats(64, 16_384),
    st.integers(1, 9), st.floats(1, 6),
)  # fmt: skip
def test_a_steady_state_keeps_its_counts(
    running: int, rounds: float, new_len: float, budget: float, positions: int, slowed: float
) -> None:
    found = shared_passes(
        running, rounds, new_len=new_len, budget=budget, positions=positions, slowed=slowed
    )
    # Little: what starts in a pass, times the passes of each, is what runs.
    assert found.started * found.passes == pytest.approx(running, rel=1e-9)
    assert found.waited >= 1 - 1e-6
    assert rounds <= found.decoded <= rounds * slowed * (1 + 1e-9)
    assert 0 < found.mixed_frac <= 1
    # No pass takes more tokens of prompts than it has room for beside those that decode.
    left = max(budget - positions * float(found.started) * rounds, 1.0)
    piece = new_len / float(found.pieces)
    assert found.started * new_len <= left * (1 + 1e-6)
    assert found.prompts * piece <= max(left, piece) * (1 + 1e-9)
    assert found.own_prompts >= 1 - 1e-9


def test_a_pass_without_end_takes_every_prompt_at_once() -> None:
    found = shared_passes(64, 100.0, new_len=5000, budget=1e12, positions=4)
    assert found.waited == pytest.approx(1, abs=1e-6)
    assert found.started == pytest.approx(64 / 101, rel=1e-6)
    # One request alone is in one pass of 101 with its prompt.
    alone = shared_passes(1, 100.0, new_len=5000, budget=1e12, positions=4)
    assert alone.mixed_frac == pytest.approx(1 / 101)
    assert alone.prompts == pytest.approx(1)
    # A prompt of a little more than a pass is in two of 102.
    longer = shared_passes(1, 100.0, new_len=5000, budget=4900, positions=4)
    assert longer.pieces == 2
    assert longer.mixed_frac == pytest.approx(2 / 102)
    # Another one is beside it in no more passes than it takes itself.
    two = shared_passes(2, 100.0, new_len=5000, budget=4900, positions=4)
    assert 1 < two.own_prompts < 1 + 2 / 102


def test_plain_tokens_beside_prompts_slow_a_request_down() -> None:
    shape = {"new_len": 1000, "budget": 8192, "positions": 1}
    drafts = shared_passes(32, 50.0, **shape)
    plain = shared_passes(32, 50.0, **shape, slowed=4.0)
    share = float(plain.mixed_frac)
    # 200 tokens, four in a pass without prompts and one in a pass with them.
    assert plain.decoded == pytest.approx(200 / (4 - 3 * share))
    assert plain.decoded > drafts.decoded
    assert plain.started < drafts.started


@pytest.mark.parametrize(("total", "shared"), [(5, 0), (5, 2)])
def test_experts_of_two_batches_are_counted_over_all_choices(total: int, shared: int) -> None:
    for one, other in product(range(total + 1), repeat=2):
        pairs = product(combinations(range(total), one), combinations(range(total), other))
        visited = [len({*first, *second}) for first, second in pairs]
        batches = [
            Routing(total, 1, shared, np.array(1.0), np.array(hit + shared)) for hit in (one, other)
        ]
        assert joined_routing(*batches).hit == pytest.approx(np.mean(visited) + shared)


def test_prompts_pass_together_as_far_as_a_pass_has_room() -> None:
    # Four prompts of 500 tokens fit a pass of 2048, all of them one without a limit.
    for count, chunk, new_len, together, pieces in (
        (3, 2048, 500, 3, 1),
        (40, 0, 500, 40, 1),
        (8.192, 2048, 500, 4.096, 1),  # two passes of 4.096
        (2, 2048, 5000, 1, 3),  # long ones take 3 passes each, one prompt after another
    ):
        groups = [float(number) for number in prompt_groups(new_len, count, chunk)]
        assert groups == pytest.approx([together, pieces])


@pytest.mark.parametrize(
    ("running", "new_len", "chunk", "all_s", "first_s"), rows("values", "prompt_groups")
)
def test_groups_of_prompts_pass_one_after_another(
    running: float, new_len: float, chunk: float, all_s: float, first_s: float
) -> None:
    # Answers of one round start together, and a pass takes a second.
    load = RequestLoad(
        new_len=new_len, output_len=2.0, running=np.array(running), context_len=1.0,
        verify_len=1.0, tokens_per_round=np.ones(()),
    )  # fmt: skip
    timing = request_timing(load, PrefillRules(chunk, shares_passes=False, drafts_beside=False))
    times = timing(SERVED, lambda *_, **__: np.ones(()), np.ones(()), NOTHING_ADDED)
    assert float(times.wait_s * running) == pytest.approx(all_s)
    assert float(times.first_s) == pytest.approx(first_s)


def test_a_piece_of_a_prompt_stands_in_its_middle() -> None:
    middle = piece_pass(5000.0, 0.0, 3.0, 1.0)
    assert middle.batch_size == 1
    assert middle.query_len == pytest.approx(5000 / 3)
    # Of three pieces the middle one is the mean one; what is cached stands before all of them.
    assert middle.context_len == pytest.approx(5000 / 3)
    behind = piece_pass(5000.0, 100.0, 3.0, 1.0)
    assert behind.context_len == pytest.approx(5000 / 3 + 100)


def test_equal_pieces_take_what_whole_chunks_and_a_rest_do() -> None:
    model, setup = SERVED.model, engine_setup(load_hardware("h100"), "sglang", None, None)
    chunks, done, exact_s = [2048] * 9 + [1568], 0, 0.0
    for tokens in chunks:
        chunk = prefill_pass(tokens, context_len=done)
        exact_s += float(model_latency(model, setup, chunk).total_s)
        done += tokens
    _, pieces = prompt_groups(20_000.0, 1.0, 2048)
    assert pieces == 10
    mean = piece_pass(20_000.0, 0.0, pieces, 1.0)
    assert 10 * float(model_latency(model, setup, mean).total_s) == pytest.approx(exact_s, rel=5e-3)
