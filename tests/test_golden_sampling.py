"""Acceptance by temperature, rule and context: dice, and what was measured."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import specroof
from published_models import published
from specroof.acceptance import ContextAcceptance, acceptance_from_length, constant_acceptance
from specroof.acceptance.curve import Acceptance
from specroof.acceptance.sampling import (
    USUAL_ENTROPY,
    _most_entropy,
    acceptance_at_entropy,
    accepted_rates,
    entropy_of_gap,
    gap_of_entropy,
    resampled_acceptance,
)
from specroof.catalog import load_drafter
from specroof.errors import OptionError, Urgent
from specroof.questions.objects import resampled_drafter
from specroof.questions.request import DeploymentRequest
from specroof.serving.launch import Speculation, launch
from tables import present, refusal, rows

GREEDY = replace(constant_acceptance(0.8), temperature=0.0)


def rate(at_zero: float, entropy: float, temperature: float, rule: str) -> float:
    """Return the rate of a drafter that has another one at temperature 0."""
    known = replace(constant_acceptance(at_zero), temperature=0.0, entropy=entropy)
    return float(resampled_acceptance(known, temperature, rule).survival(1))


# --- Dice ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["greedy", "rejection", "exact", "typical"])
@pytest.mark.parametrize(("at_zero", "temperature"), [(0.8, 1.0), (0.5, 0.6), (0.2, 1.0)])
def test_rates_are_what_dice_accept(rule: str, at_zero: float, temperature: float) -> None:
    rng, n = np.random.default_rng(7), 200_000
    close = max(np.sqrt(at_zero), 0.5)
    gaps, noise = rng.exponential(gap_of_entropy(0.3), n), rng.logistic(size=n)
    # Noise with which this share of the drafter's first tokens are the target's.
    spread, high = 1e-3, 1e5
    for _ in range(30):
        middle = float(np.sqrt(spread * high))
        agrees = np.mean(gaps + middle * noise > 0)
        spread, high = (middle, high) if agrees > close else (spread, middle)
    drafter = gaps + spread * noise
    target_first, drafter_first = (
        1 / (1 + np.exp(-np.clip(gap / temperature, -500, 500))) for gap in (gaps, drafter)
    )
    drafts_first = rng.random(n) < drafter_first
    if rule in {"greedy", "typical"}:
        drafts_first = drafter > 0
    hopeless = rng.random(n) > at_zero / close  # a token that the target never says
    p, q = (np.where(drafts_first, one, 1 - one) for one in (target_first, drafter_first))
    match rule:
        case "rejection":
            taken = rng.random(n) * q < p
        case "typical":
            h = -sum(one * np.log(one + 1e-300) for one in (target_first, 1 - target_first))
            taken = p > np.minimum(0.09, 0.3 * np.exp(-h))
        case _:
            taken = (rng.random(n) < target_first) == drafts_first
    accepted = np.mean(taken & ~hopeless)
    assert rate(at_zero, 0.3, temperature, rule) == pytest.approx(accepted, abs=0.006)


def test_rules_agree_at_temperature_0_and_are_bounded_above() -> None:
    for at_zero in (0.1, 0.5, 0.9):
        rates = {
            rule: [rate(at_zero, 0.3, t, rule) for t in (0.0, 0.001, 0.5, 1.0, 2.0)]
            for rule in ("greedy", "rejection", "exact", "typical")
        }
        for found in rates.values():
            assert found[:2] == pytest.approx([at_zero] * 2, abs=0.002)
        # The same sample twice needs more luck than min(p, q); greedy drafts fall with entropy.
        assert np.all(np.array(rates["exact"]) <= np.array(rates["rejection"]) + 1e-12)
        assert np.all(np.diff(rates["greedy"]) < 1e-4)
    for rule in ("rejection", "exact", "typical"):
        same = resampled_acceptance(GREEDY, 0.0, rule)
        assert (same.rule, same.caveats, same.between) == (rule, GREEDY.caveats, GREEDY.between)
    # No greedy draft is accepted more often than the likeliest token is said: 1 - 0.42 H nearly.
    gap = gap_of_entropy(0.1)
    assert accepted_rates(gap, 1.0, "greedy")[-1] == pytest.approx(1 - 0.42 * 0.1, abs=0.002)
    assert entropy_of_gap(gap) == pytest.approx(0.1, abs=1e-4)


def test_greedy_acceptance_falls_nearly_linearly_with_the_entropy() -> None:
    # As acceptance of MTP layers does (arXiv:2606.12370): within 0.012 of the line.
    entropies = np.linspace(0.1, 0.4, 7)
    for at_zero in (0.6, 0.7, 0.8, 0.9):
        rates = [rate(at_zero, entropy, 1.0, "greedy") for entropy in entropies.tolist()]
        line = np.polyval(np.polyfit(entropies, rates, 1), entropies)
        assert np.max(np.abs(line - rates)) < 0.012
        assert rates[-1] < rates[0] - 0.04


@pytest.mark.parametrize("rule", ["greedy", "rejection", "exact"])
def test_a_target_of_another_entropy_has_the_rate_of_the_same_drafter(rule: str) -> None:
    for before, after in ((0.3, 0.1), (0.15, 0.4)):
        measured = replace(
            constant_acceptance(rate(0.8, before, 1.0, rule)), temperature=1.0, rule=rule
        )
        now = acceptance_at_entropy(measured, before, after)
        assert float(now.survival(1)) == pytest.approx(rate(0.8, after, 1.0, rule), abs=0.005)
    with pytest.raises(OptionError, match=r"entropy is 0\.65; allowed: nearer to the 0\.1 "):
        acceptance_at_entropy(measured, 0.1, 0.65)
    with pytest.raises(OptionError, match="states no temperature"):
        acceptance_at_entropy(constant_acceptance(0.8), 0.1, 0.2)


@pytest.mark.parametrize("measured", [0.78, 0.85, 0.88, 0.9, 0.91, 0.93, 0.95, 0.96, 0.98, 0.99])
def test_no_target_has_more_entropy_than_the_best_drafter_allows(measured: float) -> None:
    # The best one has 95% at temperature 0, or misses half of what it misses as measured.
    best = max(0.95, (1 + measured) / 2)

    def above(entropy: float) -> float:
        return rate(best, entropy, 1.0, "greedy") - measured

    most = 0.4 if above(0.4) > 0 else brentq(above, 0.005, 0.4)
    found = _most_entropy(constant_acceptance(measured), (1.0, "greedy"))
    assert 0.82 * most < found <= most  # a step of the search is 18%
    if found > 0.12:  # a usual target
        silent = replace(constant_acceptance(measured), temperature=1.0)
        stated = replace(silent, entropy=min(USUAL_ENTROPY, found))
        moved, same = (resampled_acceptance(each, 0.0).survival(1) for each in (silent, stated))
        assert moved == same


# --- What was measured ---------------------------------------------------------------------------


def test_eleven_temperatures_of_llama_cpp() -> None:
    file = published("llama.cpp-27694-temperatures.yaml")
    at_zero, entropy, drafts = (file["options"][key] for key in ("rate", "entropy", "draft_len"))
    known = replace(constant_acceptance(at_zero), temperature=0.0, entropy=entropy)
    for vector in file["vectors"]:
        sampled, greedy = (
            float(resampled_acceptance(known, vector["temperature"], rule).tokens_per_round(drafts))
            for rule in ("rejection", "greedy")
        )
        gain = 100 * (sampled / greedy - 1)
        assert gain == pytest.approx(vector["gain"], abs=file["tolerance"])


def test_thirty_pairs_at_temperatures_0_and_1_lie_in_the_band() -> None:
    profiles = {one.name: one for one in specroof.load_profiles()}
    misses, inside = list[float](), 0
    for name, cold in profiles.items():
        hot = profiles.get(name.replace("-t0", "-t1"))
        if hot is None or (cold.temperature, hot.temperature) != (0.0, 1.0):
            continue
        moved = resampled_acceptance(cold.acceptance(), 1.0, "greedy")
        low, high = moved.band(cold.draft_len)
        inside += bool(low <= hot.tokens_per_round <= high)
        misses.append(float(moved.tokens_per_round(cold.draft_len)) / hot.tokens_per_round - 1)
    # As measured at temperature 0, they would be 16% too long on average.
    assert (len(misses), inside) == (30, 27)
    assert np.mean(np.abs(misses)) < 0.06


def test_windows_as_measured() -> None:
    file = published("speculators-684-windows.yaml")
    drafts, first = file["options"]["draft_len"], file["vectors"][0]["tokens_per_round"]
    spec = f"eagle3,accept-length={first}@{drafts},window={file['options']['window']}"
    acceptance = load_drafter(spec).acceptance
    assert isinstance(acceptance, ContextAcceptance)
    for vector in file["vectors"]:
        tokens = float(acceptance.at_context(vector["context"]).tokens_per_round(drafts))
        assert tokens == pytest.approx(vector["tokens_per_round"], abs=file["tolerance"])


def test_lossy_pairs_gain_what_their_rounds_commit() -> None:
    file = published("vllm-53987-lossy.yaml")
    misses = []
    for vector in file["vectors"]:
        exact, lossy = (
            specroof.load_profile(vector["profile"] + end).tokens_per_round for end in ("", "-fly")
        )
        misses.append(lossy / exact / (vector["lossy"] / vector["exact"]) - 1)
        assert misses[-1] == pytest.approx(0, abs=file["tolerance"])
    assert np.mean(np.abs(misses)) < 0.05


# --- SPECs and questions -------------------------------------------------------------------------


def test_what_is_stated_is_moved_and_says_how_far() -> None:
    moved = resampled_acceptance(GREEDY, 1.0)
    assert (moved.temperature, moved.rule, moved.max_draft_len) == (1.0, "greedy", None)
    low, high = moved.band([1, 3])
    assert np.all(low < moved.tokens_per_round([1, 3]))
    assert np.all(high > moved.tokens_per_round([1, 3]))
    assert isinstance(moved.caveats[-1], Urgent)
    assert "tokens per round of 1 draft become" in moved.caveats[-1]
    assert resampled_acceptance(moved, 0.0).tokens_per_round(3) == pytest.approx(
        float(GREEDY.tokens_per_round(3)), abs=0.002
    )
    # One whose entropy is stated has no such band; what is asked for as measured is not touched.
    known = resampled_acceptance(replace(GREEDY, entropy=USUAL_ENTROPY), 1.0)
    assert known.band(3) == (known.tokens_per_round(3), known.tokens_per_round(3))
    assert known.tokens_per_round(3) == moved.tokens_per_round(3)
    assert resampled_acceptance(GREEDY, 0.0, "greedy") is GREEDY
    # A rate that needs little entropy, and one that no target of the law reaches.
    for at_one in (0.92, 0.93, 0.97):
        hot = replace(constant_acceptance(at_one), temperature=1.0)
        cold = resampled_acceptance(hot, 0.0)
        low, high = cold.band(1)
        assert at_one < low - 1 < float(cold.survival(1)) <= high - 1 < 1.0
    sure = replace(constant_acceptance(0.999), temperature=1.0, entropy=0.4)
    assert resampled_acceptance(sure, 0.0).survival(1) == 1.0  # at most all are accepted
    nothing = replace(specroof.histogram_acceptance([5]), temperature=0.0)
    assert resampled_acceptance(nothing, 1.0) is nothing
    bounded = acceptance_from_length(2.8, 3)
    moved = resampled_acceptance(replace(bounded, temperature=0.0), 1.0)
    assert moved.measured_depth == 3
    assert "tokens per round of 3 drafts become" in moved.caveats[-1]


def test_what_is_looked_up_is_accepted_as_a_greedy_draft() -> None:
    # All probability lies on one token: 1 - TV(p, q) and p q both are what the target gives it.
    greedy, rejection, exact = (
        resampled_acceptance(GREEDY, 1.0, rule, kind="suffix").tokens_per_round(3)
        for rule in ("greedy", "rejection", "exact")
    )
    assert greedy == rejection == exact < GREEDY.tokens_per_round(3)
    usual, drawn = (
        acceptance_at_entropy(replace(GREEDY, temperature=1.0, rule=rule), 0.4, 0.2, kind="suffix")
        for rule in ("greedy", "rejection")
    )
    assert GREEDY.tokens_per_round(3) < usual.tokens_per_round(3) == drawn.tokens_per_round(3)
    hot = resampled_acceptance(GREEDY, 1.0, kind="ngram")
    assert resampled_acceptance(hot, 1.0, "rejection", kind="ngram") == replace(
        hot, rule="rejection"
    )


@pytest.mark.parametrize(("spec", "sampling"), rows("values", "stated_sampling"))
def test_specs_and_profiles_state_their_sampling(spec: str, sampling: list[object]) -> None:
    acceptance = load_drafter(spec).acceptance
    assert isinstance(acceptance, Acceptance)
    moved = len([said for said in acceptance.caveats if isinstance(said, Urgent)])
    assert [acceptance.temperature, acceptance.rule, acceptance.entropy, moved] == sampling


@pytest.mark.parametrize(("spec", "there", "said"), rows("values", "trained_windows"))
def test_what_sees_no_more_than_it_was_trained_on_keeps_its_acceptance(
    spec: str, there: float, said: bool
) -> None:
    acceptance = load_drafter(spec).acceptance
    assert isinstance(acceptance, ContextAcceptance)
    curve = acceptance.at_context(4700)
    assert curve.tokens_per_round(1) == pytest.approx(there)
    assert bool(curve.caveats) is said
    assert "trained on 10" in acceptance.description


@pytest.mark.parametrize(
    ("framework", "kind", "family", "rule", "flag", "noted"), rows("values", "acceptance_rules")
)
def test_a_rule_is_a_flag_or_said_to_have_none(
    framework: str, kind: str, family: str, rule: str, flag: str, noted: bool
) -> None:
    plan = Speculation(
        kind=kind, family=family, schedule=((1, 8, 3),), draft_model="me/head", rule=rule
    )
    told = launch(plan, framework)
    assert flag in told.text
    assert bool(re.search("rejection|sample_method", told.text)) is bool(flag)
    assert any(f"rule={rule}" in note for note in told.notes) is noted
    if rule == "lossy":  # vLLM: "FLy requires num_speculative_tokens to be at least 2"
        alone = launch(replace(plan, schedule=((1, 8, 1),)), framework)
        assert [flag in alone.text, any("rule=" in note for note in alone.notes)] == [
            not flag,
            True,
        ]


@pytest.mark.parametrize(("spec", "sampling", "rule"), rows("values", "told_rules"))
def test_a_server_is_told_the_rule_that_the_acceptance_counts_on(
    spec: str, sampling: dict[str, Any], rule: str
) -> None:
    request = DeploymentRequest("Qwen/Qwen3-8B", "h100", **sampling)
    assert request.speculation(request.sampled(spec), [(1, 8, 3)]).rule == rule


def test_a_rule_that_is_asked_for_is_refused_where_the_server_lacks_it() -> None:
    request = DeploymentRequest("Qwen/Qwen3-8B", "h100", framework="sglang@0.5.9", rule="rejection")
    line = refusal(OptionError, request.sampled, "eagle3,profile=qwen3-8b/eagle3/mbpp")
    assert line == "rule is 'rejection'; allowed: greedy, typical, lossy, with sglang@0.5.9"


def test_a_second_move_is_one_from_what_was_measured() -> None:
    measured = replace(GREEDY, between=(constant_acceptance(0.7),), caveats=("before",))
    moved = resampled_acceptance(measured, 1.0)
    assert resampled_acceptance(moved, 0.0) == measured
    asked = 0.5, "rejection"
    assert resampled_acceptance(moved, *asked) == resampled_acceptance(measured, *asked)
    known = replace(measured, entropy=0.4)
    assert resampled_acceptance(replace(moved, entropy=0.4), 1.0) == resampled_acceptance(
        known, 1.0
    )
    since = replace(moved, caveats=(*moved.caveats, "since"))
    assert resampled_acceptance(since, 0.0).caveats == ("before", "since")


@pytest.mark.parametrize(
    "spec",
    [
        "mtp,accept=0.8,temperature=0,window=1000",
        "mtp,profile=qwen3-8b/dflash-b16/gsm8k-t0@500+qwen3-8b/dflash-b16/math-500-t0@4000",
    ],
)
def test_a_band_of_a_move_goes_with_the_context(spec: str) -> None:
    drafter = resampled_drafter(load_drafter(spec), 1.0, None)
    assert isinstance(drafter.acceptance, ContextAcceptance)
    for context in (500, 2000, 4000):
        curve = drafter.acceptance.at_context(context)
        low, high = curve.band(3)
        assert 1 < low < curve.tokens_per_round(3) < high < 4


def test_questions_move_acceptance_and_warn_of_windows_and_of_lossy_rules() -> None:
    at: dict[str, Any] = {"batch_size": 1, "context_len": 4096}
    spec = "dflash,profile=qwen3-8b/dflash-b16/gsm8k-t0"
    cold, hot = (
        specroof.predict("Qwen/Qwen3-8B", "h100", drafters=spec, temperature=t, **at)
        for t in (None, 1.0)
    )
    assert hot.rows[0].speedup < cold.rows[0].speedup
    assert hot.rows[0].speedup_high / hot.rows[0].speedup > 1.05
    advice = specroof.advise(
        *("Qwen/Qwen3-8B", "h100"),
        drafters=["eagle3,accept-length=2.8@3,window=2048", "mtp,accept=0.8,rule=lossy"],
        concurrency=[4],
        input_len=8000,
        output_len=100,
    )
    for said in ("2048 tokens that the drafter was trained on", "accuracy as measured: not stated"):
        assert [type(note) for note in advice.notes if said in note] == [Urgent], said


def test_every_question_has_the_fall_beyond_a_window() -> None:
    at: dict[str, Any] = {"batch_size": 1, "context_len": 11_000}
    spec = "eagle3,accept-length=2.3@3,window=2048"
    length: dict[str, Any] = {"accept_length": [2.3], "draft_len": 3}
    told = specroof.predict("Qwen/Qwen3-8B", "h100", drafters=spec, **at, draft_len=3)
    worth = specroof.worth("Qwen/Qwen3-8B", "h100", drafter=spec, **at, **length).rows[0]
    sought = specroof.breakeven(
        "Qwen/Qwen3-8B", "h100", drafter=spec, **at, solve="accept-length", draft_len=3
    ).rows[0]
    (gain,) = {row.speedup for row in told.rows}
    assert (worth.speedup, sought.speedup) == (gain, gain)
    assert gain > 1.0 < present(sought.value) < 2.3  # which is of the window, as the SPEC is


def test_ends_of_a_band_that_state_no_temperature_stay_as_they_are() -> None:
    silent, stated = constant_acceptance(0.3), replace(constant_acceptance(0.9), temperature=0.0)
    moved = resampled_acceptance(replace(GREEDY, between=(silent, stated)), 1.0)
    assert silent in moved.between
    assert stated not in moved.between


def test_a_lossy_rule_asks_for_a_measurement_and_no_temperature() -> None:
    line = refusal(OptionError, resampled_acceptance, constant_acceptance(0.8), None, "lossy")
    assert line.startswith("rule is 'lossy' for an acceptance measured with rule 'greedy'")


@pytest.mark.parametrize(("measured", "asked"), [(1.0, 0.0), (1.0, 0.6), (0.0, 1.0)])
def test_a_drafter_that_is_accepted_more_often_is_so_at_any_temperature(
    measured: float, asked: float
) -> None:
    curves = [
        replace(constant_acceptance(rate), temperature=measured)
        for rate in np.linspace(0.5, 0.99, 50)
    ]
    moved = [float(resampled_acceptance(curve, asked).survival(1)) for curve in curves]
    assert np.all(np.diff(moved) >= 0)
