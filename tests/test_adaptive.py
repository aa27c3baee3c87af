"""Draft lengths that follow load or confidence: against closed forms, brute force, predictions."""

import json
import shlex
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from commands import invoked
from specroof import adaptive, advise, predict
from specroof.frameworks import AdaptiveSlot, release
from specroof.montecarlo.batch import confident_rounds
from specroof.policies.adaptive import (
    _THRESHOLDS,
    BatchCosts,
    PolicyOutcome,
    _Options,
    _options_of,
    _outcome,
    _Rounds,
    _up_to_each_length,
    adaptive_verification,
    beside,
    fixed_outcomes,
    fixed_rates,
    sglang_rounds,
    sglang_steps,
    simulated_policies,
)
from specroof.policies.schedule import drafts_at
from tables import present, rows

pytestmark = pytest.mark.slow

MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "h100", "eagle3,accept-length=2.8@3"
CURVE = (0.8, 0.5, 0.3)


def drawn(known: float, n: int = 40_000) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return confident_rounds(CURVE, known=known, shape=(n,), dice=np.random.default_rng(7))


# --- confidence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [0.0, 0.01, 0.3, 0.55, 0.9, 1.0])
def test_the_average_is_the_survival_whatever_is_known(known: float) -> None:
    worth, accepted = drawn(known)
    survived = (accepted[:, None] > np.arange(3)).mean(axis=0)
    # Five standard errors of a share over 40 000 rounds are 0.0125.
    assert survived == pytest.approx(CURVE, abs=0.0125)
    assert worth.mean(axis=0) == pytest.approx(CURVE, abs=0.0125)


def test_confidence_is_calibrated() -> None:
    worth, accepted = drawn(0.5)
    for low in (0.1, 0.3, 0.5, 0.7, 0.9):
        alike = (worth[:, 1] >= low) & (worth[:, 1] < low + 0.1)
        assert (accepted[alike] > 1).mean() == pytest.approx(worth[alike, 1].mean(), abs=0.05)


def test_who_knows_all_knows_the_outcome_and_who_knows_nothing_the_average() -> None:
    worth, accepted = drawn(1.0)
    assert np.array_equal(worth, (accepted[:, None] > np.arange(3)).astype(float))
    nothing, _ = drawn(0.0)
    assert np.array_equal(nothing, np.tile(np.cumprod([0.8, 0.625, 0.6]), (len(nothing), 1)))
    # What is known of one draft is that share of the variance of its outcome.
    some, _ = drawn(0.3)
    assert some[:, 0].var() / (0.8 * 0.2) == pytest.approx(0.3, abs=0.01)


def test_drafts_that_never_survive_never_do() -> None:
    dice = np.random.default_rng(0)
    worth, accepted = confident_rounds([1.0, 0.0, 0.0], known=0.5, shape=(50,), dice=dice)
    assert np.all(accepted == 1)
    assert worth[:, 0] == pytest.approx(1.0)
    assert np.all(worth[:, 2] == 0.0)


# --- policies ------------------------------------------------------------------------------------


def costs_of(batch: int, *, is_block: bool = False) -> BatchCosts:
    """Return verifications of 1, 1.5, 2 and 2.5 s, drafts of 0.2 s, and 0.1 s of the engine."""
    steps = np.full((3, batch + 1), 0.2)
    if is_block:
        steps[1:] = 0.0
    steps[:, 0] = 0.0
    return BatchCosts(np.linspace(1.0, 2.5, 3 * batch + 1), steps, 0.1, is_block)


def run(costs: BatchCosts, known: float, n_rounds: int = 40_000) -> dict[str, Any]:
    return simulated_policies(costs, CURVE, known=known, n_rounds=n_rounds, seed=3)


def test_one_length_is_tokens_over_the_time_of_a_round() -> None:
    # 1.8 / 1.8, 2.3 / 2.5, 2.6 / 3.2 a sequence
    assert fixed_rates(costs_of(4), CURVE) == pytest.approx(
        [4.0, 4.0, 4 * 2.3 / 2.5, 4 * 2.6 / 3.2]
    )
    assert fixed_rates(costs_of(4, is_block=True), CURVE)[3] == pytest.approx(4 * 2.6 / 2.8)
    assert fixed_outcomes(np.array([[1.0, 2.0]]), [1]) == (PolicyOutcome(2.0, 0.0, 1.0),)


def test_without_confidence_nothing_beats_the_best_length() -> None:
    costs = costs_of(4)
    cheap = BatchCosts(costs.verify_s / 2 + 0.5, costs.draft_step_s, 0.0)
    rates = fixed_rates(cheap, CURVE)
    found = run(cheap, 0.0)
    for policy in ("stopping", "batch confidence", "sequence confidence"):
        one = found[policy]
        assert one.tokens_per_s == pytest.approx(rates.max(), abs=4 * one.error)
        assert one.draft_len == rates.argmax()
    assert 0 < found["oracle"].error < 0.01 * rates.max()


@pytest.mark.long
@pytest.mark.parametrize("is_block", [False, True])
def test_an_oracle_of_one_sequence_is_that_of_the_closed_form(is_block: bool) -> None:
    costs = costs_of(1, is_block=is_block)
    found = run(costs, 0.5)["oracle"]
    chances = np.array([0.2, 0.3, 0.2, 0.3])  # of 0, 1, 2 and 3 accepted drafts
    full = costs.draft_step_s[0, 1] + costs.draft_step_s[1, 1] * np.arange(3)
    seconds = np.concatenate([[1.0], costs.verify_s[1:4] + full + 0.1])
    # How many drafts to make of 0, 1, 2, 3 that would be accepted.
    every = map(np.array, product(*(range(n + 1) for n in range(4))))
    best = max(chances @ (1 + lengths) / (chances @ seconds[lengths]) for lengths in every)
    assert found.tokens_per_s == pytest.approx(best, abs=4 * found.error)


def test_a_round_costs_what_is_drafted_and_verified() -> None:
    costs = BatchCosts(
        np.array([1.0, 1.5, 2.0, 3.0, 4.0]), np.array([[0.0, 0.5, 0.6], [0.0, 0.7, 0.9]]), 0.25
    )
    # Of two sequences both draft once and one twice: 3 drafts, 3.0 s.
    drafting = np.array([2, 1])
    assert costs.seconds([0, 2, 3], drafting) == pytest.approx(
        [1.0, 2.0 + 0.6 + 0.25, 3.0 + 0.6 + 0.7 + 0.25]
    )
    # Nobody drafts: a plain step at every length.
    assert costs.seconds([0, 0, 0], np.array([0, 0])) == pytest.approx([1.0, 1.0, 1.0])
    assert (costs.batch_size, costs.max_draft_len) == (2, 2)


def test_policies_gain_in_stages_that_take_turns_what_they_gain_on_one_card() -> None:
    told: dict[str, Any] = {"drafter": "eagle3,accept=0.7", "batch_size": 2, "n_rounds": 500}
    one, two = (
        adaptive(MODEL, "rtx-4090", engine="llama.cpp", pipeline_parallel=stages, **told)
        for stages in (1, 2)
    )
    gains = [row.gain for row in one.rows]
    assert [row.gain for row in two.rows] == pytest.approx(gains, abs=0.01)


def test_a_draft_to_be_made_is_worth_what_those_before_it_are_times_its_average() -> None:
    worth = np.array([[[0.9, 0.45, 0.45]]])
    rounds = _Rounds(worth, worth > 0.5, np.array([0.75, 0.95, 0.4]), costs_of(1))
    verified = _options_of("stopping", rounds).verified.reshape(len(_THRESHOLDS), 4)
    # It sees 0.75, 0.9 x 0.95, and 0.45 x 0.4 = 0.18; who knows them all sees 0.9, 0.45 and 0.45.
    # Where the first is not made, nor is the second.
    for least, longest in {0.15: 3, 0.2: 2, 0.7: 2, 0.8: 0}.items():
        assert verified[_THRESHOLDS.index(least)].tolist() == [min(k, longest) for k in range(4)]
    known = _options_of("sequence confidence", rounds).verified.reshape(len(_THRESHOLDS), 4)
    assert known[_THRESHOLDS.index(0.4)].tolist() == [0, 1, 2, 3]
    assert known[_THRESHOLDS.index(0.9)].tolist() == [0, 1, 1, 1]
    block = replace(rounds, costs=costs_of(1, is_block=True))
    nobody = _up_to_each_length(block, np.zeros(worth.shape, dtype=np.bool_))
    assert nobody.seconds.tolist() == [[1.0] * 4]  # no block is made for nobody
    assert np.array_equal(
        _options_of("stopping", block).verified.reshape(len(_THRESHOLDS), 4), known
    )


def test_stopping_has_one_threshold_and_one_longest_draft_for_all_rounds() -> None:
    costs, dice = replace(costs_of(1), verify_s=np.linspace(1.0, 1.6, 4)), np.random.default_rng(7)
    worth, accepted = confident_rounds(CURVE, known=0.5, shape=(40_000, 1), dice=dice)
    survived = accepted[..., None] > np.arange(3)
    rounds = _Rounds(worth, survived, np.array([0.8, 0.625, 0.6]), costs)
    options = _options_of("stopping", rounds)
    rates = options.committed.sum(axis=0) / options.seconds.sum(axis=0)
    found = run(costs, 0.5)["stopping"]
    assert 0 < found.error < 0.005 * rates.max()
    assert found.tokens_per_s == pytest.approx(rates.max(), abs=4 * found.error)


def test_the_standard_error_is_that_of_a_ratio_by_hand() -> None:
    # Rounds of 2 tokens in 1 s and of 4 in 1.5 s: 2.4 tokens/s, of which they are 0.4 below and
    # above; the square root of 0.32 over the 2.5 s of both.
    taken = np.array([1, 0])
    options = _Options(
        expected=np.ones((2, 2)),
        committed=np.array([[9.0, 2.0], [4.0, 9.0]]),
        seconds=np.array([[9.0, 1.0], [1.5, 9.0]]),
        verified=np.array([[0.0, 3.0], [5.0, 0.0]]),
    )
    outcome = _outcome(options, taken, 2)
    assert outcome.tokens_per_s == pytest.approx(2.4)
    assert outcome.error == pytest.approx(0.32**0.5 / 2.5)
    assert outcome.draft_len == pytest.approx((3 + 5) / 2 / 2)


# --- what engines do by themselves ---------------------------------------------------------------


def test_alike_drafts_are_verified_at_one_length() -> None:
    # Nothing is known of single drafts: the likeliest are the first of all, then the second.
    costs = costs_of(4, is_block=True)
    one = adaptive_verification(costs, CURVE, draft_len=3, known=0.0, n_rounds=40_000, seed=3)
    # 0.3 s of drafting, whatever is verified: (4 + sums of survival) / (1.3 + drafts / 8).
    survival = np.repeat(CURVE, 4)
    rates = (4 + np.append(0.0, np.cumsum(survival))) / (1.3 + np.arange(13) / 8)
    assert one.draft_len == rates.argmax() / 4
    assert one.tokens_per_s == pytest.approx(rates.max(), abs=4 * one.error)
    # Two of three drafts, one after another, take 0.5 s.
    two = adaptive_verification(costs_of(4), CURVE, draft_len=2, known=0.0, n_rounds=40_000, seed=3)
    rates = (4 + np.append(0.0, np.cumsum(survival[:8]))) / (1.5 + np.arange(9) / 8)
    assert two.tokens_per_s == pytest.approx(rates.max(), abs=4 * two.error)
    # Where rounds take as long whatever is verified, who knows all commits what the oracle does.
    free = BatchCosts(np.ones(13), np.zeros((3, 5)), 0.0, is_block=True)
    sure: dict[str, Any] = {"known": 1.0, "n_rounds": 400, "seed": 3}
    oracle = simulated_policies(free, CURVE, **sure)["oracle"]
    known = adaptive_verification(free, CURVE, draft_len=3, **sure)
    assert known.tokens_per_s == pytest.approx(oracle.tokens_per_s, rel=1e-12)


@pytest.mark.parametrize(
    ("version", "batch", "accepted", "initial", "shares"), rows("values", "sglang_steps")
)
def test_steps_settle_where_the_rule_of_sglang_leaves_them(
    version: str, batch: int, accepted: list[float], initial: int, shares: dict[int, float]
) -> None:
    slots = release(f"sglang@{version}").adaptive_steps
    found = sglang_rounds(slots, batch, accepted, initial)
    assert {step: share for step, share in enumerate(found.tolist()) if share} == shares


def test_steps_begin_in_the_middle_and_end_with_what_is_known() -> None:
    slots = [AdaptiveSlot(requests=1, drafts=(1, 3, 5))]
    # 0.58 of 3 drafts are above half of one, and 0.5 of one are not: either stays.
    for begins, stays in ((2, 3), (3, 3), (1, 1)):  # 2 is none of 1 and 3
        found = sglang_rounds(slots, 1, [0, 0.5, 0.55, 0.58], begins)
        assert found.tolist() == [float(k == stays) for k in range(4)]
    assert sglang_rounds(slots, 1, [0, 1, 2, 3, 4], 3).tolist() == [0, 0, 0, 1, 0]
    # After a round without drafts the least is tried.
    slots = [AdaptiveSlot(requests=1, drafts=(0, 1, 3))]
    assert sglang_rounds(slots, 1, [0, 0.3, 0.35, 0.4], 1).tolist() == [0.5, 0.5, 0, 0]
    slots = [AdaptiveSlot(requests=1, drafts=(0, 1), hysteresis=0.5)]
    assert sglang_rounds(slots, 1, [0, 0], 1).tolist() == [0.5, 0.5]  # no more than 0.5 less 0.5
    # Rounds of one token in 1 s, and as many of 1.4 tokens in 1.8 s.
    slots = [AdaptiveSlot(requests=1, drafts=(0, 1))]
    seen = sglang_steps(costs_of(1), [0.4, 0.0, 0.0], slots, initial=1, sizes=())
    assert (seen.tokens_per_s, seen.draft_len) == pytest.approx((2.4 / 2.8, 0.5))


def test_lengths_by_load_are_those_of_the_flags() -> None:
    loads = [1, 4, 16, 32, 64]  # of single loads, 5 drafts are best at 4 and 16, by a hair
    answer: Any = adaptive(MODEL, CHIP, drafter=SPEC, batch_size=loads, n_rounds=500, engine="vllm")
    config = json.loads(shlex.split(answer.launch.text)[1])
    usual = [[1, loads[-1], config["num_speculative_tokens"]]]
    table = config.get("num_speculative_tokens_per_batch_size", usual)
    assert [drafts_at(table, load) for load in loads] == [*answer.load_draft_len]


def test_loads_beyond_the_room_wait_and_batches_are_refused() -> None:
    loads: dict[str, Any] = {"drafter": SPEC, "n_rounds": 500}
    answer = adaptive(MODEL, CHIP, concurrency=[8, 256], **loads)
    room = adaptive(MODEL, CHIP, concurrency=4096, **loads).rows[0].running
    # SGLang's limit of 48 with drafts is raised.
    assert [row.running for row in answer.policies["oracle"]] == [8, min(room, 256)]
    assert any("wait" in warning for warning in answer.warnings)
    free = adaptive(MODEL, CHIP, batch_size=[8, 256], **loads, capacity=False)
    assert [row.running for row in free.policies["fixed"]] == [8, 256]


def test_policies_save_requests_what_they_save_of_each_token() -> None:
    # One client: of 500 tokens after 2000, rounds are those of one sequence at 2250.
    sizes: dict[str, Any] = {"drafter": SPEC, "n_rounds": 500}
    served = adaptive(MODEL, CHIP, concurrency=1, input_len=2000, output_len=500, **sizes)
    alone = adaptive(MODEL, CHIP, batch_size=1, context_len=2250, **sizes)
    assert {row.running for row in (*served.rows, *alone.rows)} == {1}
    base, rounds = (one.policies["fixed"][0].tokens_per_s for one in (served, alone))
    assert base < rounds  # prompts
    for policy in ("stopping", "sequence confidence", "adaptive steps", "oracle"):
        there, here = (one.policies[policy][0] for one in (served, alone))
        saved_s = 1 / rounds - 1 / here.tokens_per_s
        assert 1 / base - 1 / there.tokens_per_s == pytest.approx(saved_s, rel=1e-3)
    assert served.records[0]["concurrency"] == 1


def test_an_error_of_rounds_is_as_many_seconds_of_requests() -> None:
    # A token takes 1/100 s and 1/125 s, and of requests 1/50 s: 0.018 s are left, and the error of
    # 2 at 125, which is 2 / 125^2 s, is as many seconds there.
    fixed, policy = PolicyOutcome(50.0, 0.0, 3.0), PolicyOutcome(125.0, 2.0, 2.0)
    found = beside(fixed, 100.0, policy)
    assert found.tokens_per_s == pytest.approx(1 / 0.018)
    assert found.error == pytest.approx(2 / 125**2 / 0.018**2)
    assert found.draft_len == 2.0


def test_flags_are_for_servers_that_have_them() -> None:
    ideal = adaptive(MODEL, CHIP, drafter=SPEC, batch_size=1, n_rounds=200, engine="ideal")
    assert ideal.to_dict()["choice"]["launch"] is None
    none = adaptive(MODEL, CHIP, drafter="medusa,accept=0.7", batch_size=1, n_rounds=200)
    assert none.launch is None
    assert any(note.startswith("no flags") for note in none.notes)


@pytest.mark.parametrize(
    ("drafter", "has"),
    # config/vllm.py: model runner V1, which runs P-EAGLE, does not support it
    [("eagle3", True), ("p_eagle", False), ("block,cost=0.1,block=4", True)],
)
def test_only_what_vllm_can_trim_is_verified_in_part(drafter: str, *, has: bool) -> None:
    spec = f"{drafter},accept=0.7"
    found: Any = adaptive(MODEL, CHIP, drafter=spec, batch_size=8, n_rounds=200, engine="vllm")
    assert ("adaptive verification" in found.policies) == has


# --- the question --------------------------------------------------------------------------------


def test_the_total_is_in_tokens() -> None:
    found = adaptive(MODEL, CHIP, drafter=SPEC, batch_size=[8, 1, 1], n_rounds=2000)
    policy, fixed = found.policies["oracle"], found.policies["fixed"]
    made, base = (2 * one[0].tokens_per_s + one[1].tokens_per_s for one in (policy, fixed))
    total, error = found.total_gain("oracle")
    assert total == pytest.approx(made / base - 1)
    errors = [row.gain_error * one.tokens_per_s for row, one in zip(policy, fixed, strict=True)]
    assert error == pytest.approx((2 * errors[0] + errors[1]) / base)
    # Loads share their dice: totals of other dice scatter by as much as the error says.
    asked: dict[str, Any] = {"drafter": SPEC, "batch_size": [4, 8, 16], "n_rounds": 800}
    totals = [adaptive(MODEL, CHIP, seed=seed, **asked).total_gain("oracle") for seed in range(40)]
    gains, errors = map(list, zip(*totals, strict=True))
    assert np.std(gains) == pytest.approx(np.mean(errors), rel=0.3)


def test_loads_count_as_long_as_they_last() -> None:
    spec = "eagle3,accept=0.5"
    asked: dict[str, Any] = {"context_len": 512, "max_draft_len": 5}
    curve = predict(MODEL, CHIP, drafters=spec, batch_size=[1, 128], **asked).curves[0]
    once, long, alone = (
        adaptive(MODEL, CHIP, drafter=spec, batch_size=loads, n_rounds=500, **asked)
        for loads in ([1, 128], [1] * 999 + [128], [128])
    )
    rates = curve.tokens_per_s[0]
    for found, weights in ((once, [1, 1]), (long, [999, 1])):
        assert found.draft_len == np.argmax(weights @ rates)
    assert once.load_draft_len == (*rates.argmax(axis=1),) == (3, 2)
    assert long.load_draft_len == (3, 3)  # another range would gain nothing
    first, last = once.policies["by load"]
    assert (first.gain, last.gain) == pytest.approx((rates[0, 3] / rates[0, 2] - 1, 0))
    ends = [present(end)[0, 0, 3] for end in (curve.speedup_low, curve.speedup_high)]
    assert first.bands["speedup"] == pytest.approx(ends)
    # What policies reach at a load, and its error, are not of the one length beside them.
    for policy in ("stopping", "oracle"):
        own, *others = (
            (row.tokens_per_s, row.gain_error * fixed.tokens_per_s)
            for found in (alone, once, long)
            for row, fixed in [(found.policies[policy][-1], found.policies["fixed"][-1])]
        )
        assert others == [pytest.approx(own)] * 2


def test_steps_of_sglang_go_by_the_batch_that_it_pads_to() -> None:
    # It captures 30 and 32: 31 sequences have the lengths of 32, of which 1 is the longest.
    found = adaptive(MODEL, CHIP, drafter=SPEC, batch_size=[30, 31], n_rounds=500)
    assert [row.mean_draft_len for row in found.policies["adaptive steps"]] == [3, 1]


def test_a_block_drafter_is_drafted_whole() -> None:
    words = "dflash,accept-length=4@15"
    block = adaptive(MODEL, CHIP, drafter=words, batch_size=4, n_rounds=2000)
    assert block.draft_len <= 15
    assert not any("one draft at a time" in note for note in block.notes)
    # Two blocks: the second is paid by the ninth draft.
    two = adaptive(
        *(MODEL, CHIP), drafter="block,cost=0.1,drafts=8,accept=0.95", batch_size=4, n_rounds=2000
    )
    assert two.policies["oracle"][0].mean_draft_len > 8


# --- text, chart, the shell ----------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "said"), rows("refusals", "policies"))
def test_refusals_are_one_line(changes: str, said: str) -> None:
    words = f"adaptive {MODEL} -H {CHIP}" + f" --drafter {SPEC}" * ("--drafter" not in changes)
    done = invoked(f"{words} {changes}")
    former, line = done.stderr.splitlines()
    assert former == "note: specroof adaptive is specroof advise --policies now"
    assert (done.exit_code, done.stdout, said in line) == (2, "", True)


def test_advice_has_the_policies_of_its_own_loads() -> None:
    load: dict[str, Any] = {"input_len": 500, "output_len": 100, "concurrency": [1, 8]}
    how: dict[str, Any] = {"n_rounds": 300, "confidence": 0.3, "engine": "vllm"}
    advice: Any = advise(MODEL, CHIP, drafters=[SPEC], **load, **how, policies=True)
    expected = adaptive(MODEL, CHIP, drafter=SPEC, **load, **how)
    assert advice.policies.records == expected.records
    assert [*advice.figures()] == ["", "-policies"]
    plain = advise(MODEL, CHIP, drafters=[SPEC], **load, draft_len=1, engine="vllm")
    assert plain.to_dict()["choice"]["policies"] is None
