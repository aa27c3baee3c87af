"""Survival curves: dice, counting and exact fractions; typical curves and contexts."""

import math
import pickle
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from specroof import capacity, load_drafter, load_profile, load_profiles, speedup_curve
from specroof.acceptance import (
    Acceptance,
    acceptance_from_length,
    acceptance_notes,
    beta_acceptance,
    constant_acceptance,
    decay_acceptance,
    histogram_acceptance,
    lengths_acceptance,
    rate_acceptance,
    survival_acceptance,
)
from specroof.acceptance.curve import ContextAcceptance, context_acceptance, windowed_acceptance
from specroof.acceptance.law_fits import extrapolated_acceptance
from specroof.acceptance.published.profile import AcceptanceProfile
from specroof.acceptance.typical import FAMILIES, SHAPES, falling_odds_acceptance
from specroof.errors import OptionError
from tables import refusal

LONGEST = 4096
probabilities = st.floats(0.0, 1.0)
many_probabilities = st.lists(probabilities, min_size=1, max_size=20)
falling = many_probabilities.map(lambda values: sorted(values, reverse=True))
counts = st.lists(st.integers(0, 10**6), min_size=1, max_size=20).filter(any)
shapes = st.floats(1e-3, 1e3)
draft_lens = st.integers(0, 40)

#: A curve of each kind, with its shape left to chance.
curves = st.one_of(
    probabilities.map(constant_acceptance),
    many_probabilities.map(rate_acceptance),
    falling.map(survival_acceptance),
    st.integers(1, 20).flatmap(
        lambda drafts: st.floats(1.0, drafts + 1.0).map(
            lambda length: acceptance_from_length(length, drafts)
        )
    ),
    counts.map(histogram_acceptance),
    st.tuples(shapes, shapes).map(lambda shape: beta_acceptance(*shape)),
)


def known_lengths(curve: Acceptance, longest: int = 40) -> NDArray[np.intp]:
    """Return the draft lengths a curve knows about, as far as `longest`."""
    depth = longest if curve.max_draft_len is None else min(longest, curve.max_draft_len)
    return np.arange(depth + 1)


@given(curves)
def test_survival_falls_from_one_and_adds_up_to_the_tokens_of_a_round(curve: Acceptance) -> None:
    lengths = known_lengths(curve)
    survival, tokens = curve.survival(lengths), curve.tokens_per_round(lengths)
    assert survival[0] == 1.0
    assert np.all(np.diff(survival) <= 0.0)
    assert np.all((survival >= 0.0) & (survival <= 1.0))
    # γ = 0 is plain decoding: N = 1 to the last bit, so that its speedup is exactly 1.
    assert tokens[0] == 1.0
    assert np.all((tokens >= 1.0) & (tokens <= lengths + 1.0))
    # One more draft adds its survival, and the bonus token is no accepted draft.
    assert np.all(np.diff(tokens) >= 0.0)
    assert np.diff(tokens) == pytest.approx(survival[1:], rel=0, abs=1e-13)
    assert np.array_equal(tokens, 1.0 + curve.accepted_tokens(lengths))


@given(curves, st.lists(st.lists(draft_lens, min_size=3, max_size=3), min_size=1, max_size=4))
def test_an_array_answers_as_a_loop_does_and_past_the_depth_with_nothing(
    curve: Acceptance, lengths: list[list[int]]
) -> None:
    for answer in (curve.survival, curve.tokens_per_round, curve.accepted_tokens):
        loop = np.array([[float(answer(length)) for length in row] for row in lengths])
        whole = answer(lengths)
        assert whole.dtype == np.float64
        assert np.array_equal(whole, loop, equal_nan=True)
        depth = math.inf if curve.max_draft_len is None else curve.max_draft_len
        assert np.array_equal(np.isfinite(whole), np.array(lengths) <= depth)


@given(curves)
def test_a_curve_is_a_value_with_a_description_of_one_line(curve: Acceptance) -> None:
    copied = pickle.loads(pickle.dumps(curve))  # noqa: S301 - our own bytes
    assert copied == curve
    assert hash(copied) == hash(curve)
    assert np.array_equal(copied.survival(3), curve.survival(3), equal_nan=True)
    assert len(curve.description.splitlines()) == 1
    assert "np.float64" not in curve.description


def test_nothing_and_everything_accepted_are_exact() -> None:
    # α = 0: every round is one token of the target, whatever was drafted. α = 1: the closed form
    # is 0 / 0 there; the sum is γ drafts and the bonus token.
    lengths = np.arange(LONGEST + 1)
    for zero in (0, 0.0, -0.0):
        assert np.all(constant_acceptance(zero).tokens_per_round(lengths) == 1.0)
        assert constant_acceptance(zero).description == "constant acceptance 0 per draft token"
    assert np.array_equal(constant_acceptance(1).tokens_per_round(lengths), lengths + 1.0)
    assert constant_acceptance(1).tokens_per_round(10**6) == 10**6 + 1  # the longest
    # γ → ∞: 1 / (1 − α), here 1 / 0.25, reached once 0.75**γ is below a bit.
    assert float(constant_acceptance(0.75).tokens_per_round(LONGEST)) == pytest.approx(4.0)


@pytest.mark.parametrize("gap", [2.0**-53, 2.0**-40, 1e-9, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("draft_len", [1, 16, 256, LONGEST])
def test_nothing_cancels_where_nearly_everything_is_accepted(gap: float, draft_len: int) -> None:
    # (1 − α^(γ+1)) / (1 − α) subtracts near-equal numbers; fractions do not mind.
    rate = 1.0 - gap
    exact = Fraction(rate)
    power = Fraction(1)
    for _ in range(draft_len + 1):  # rounded to 200 bits, for speed
        power = Fraction(round(power * exact * 2**200), 2**200)
    expected = float((1 - power) / (1 - exact))
    tokens = float(constant_acceptance(rate).tokens_per_round(draft_len))
    assert tokens == pytest.approx(expected, rel=1e-12)


@given(probabilities, st.integers(1, 64))
def test_length_inverts_the_formula(rate: float, draft_len: int) -> None:
    # Below 1e-3 the length is 1 and a little, and has itself lost the digits of the rate.
    assume(rate == 0.0 or rate >= 1e-3)
    tokens = float(constant_acceptance(rate).tokens_per_round(draft_len))
    inferred = acceptance_from_length(tokens, draft_len, law="constant")
    assert float(inferred.survival(1)) == pytest.approx(rate, rel=0, abs=1e-14)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 16))
def test_beta_is_all_tokens_over_all_rounds(a: int, b: int, draft_len: int) -> None:
    # Equal answers: the rounds of a sequence are one over its tokens per round. Gauss-Legendre.
    nodes, weights = np.polynomial.legendre.leggauss(80)
    rates = (nodes + 1.0) / 2.0
    density = rates ** (a - 1) * (1.0 - rates) ** (b - 1)
    tokens = np.array([constant_acceptance(rate).tokens_per_round(draft_len) for rate in rates])
    average = 1.0 / np.average(1.0 / tokens, weights=weights * density)
    assert beta_acceptance(a, b).tokens_per_round(draft_len) == pytest.approx(average, rel=1e-12)


@given(st.floats(0.01, 0.99), st.sampled_from([1e9, 1e12, 1e300]))
def test_equal_sequences_are_a_constant_rate(mean: float, concentration: float) -> None:
    # a + b → ∞: the distribution closes in on its mean.
    curve = beta_acceptance(mean * concentration, (1.0 - mean) * concentration)
    lengths = np.arange(40)
    expected = constant_acceptance(mean).tokens_per_round(lengths)
    assert curve.tokens_per_round(lengths) == pytest.approx(expected, rel=1e-5)


@given(st.floats(0.01, 0.99))
def test_sequences_of_all_or_nothing_survive_alike_at_every_depth(mean: float) -> None:
    # a + b → 0: a sequence accepts everything or nothing, and takes 1 or γ + 1 rounds a token.
    lengths = np.array([1, 5, 40])
    tokens = beta_acceptance(mean * 1e-9, (1.0 - mean) * 1e-9).tokens_per_round(lengths)
    assert tokens == pytest.approx(1.0 / (1.0 - mean + mean / (lengths + 1.0)), rel=1e-6)


def test_the_largest_shapes_do_not_overflow() -> None:
    assert float(beta_acceptance(1e308, 1e308).survival(1)) == pytest.approx(0.5)
    assert beta_acceptance(3, 1).description == "acceptance Beta(3, 1) over sequences, mean 0.75"
    assert beta_acceptance(5e-324, 5e-324).tokens_per_round(1) == pytest.approx(4 / 3)
    assert float(beta_acceptance(5e-324, 1e308).survival(1)) == 0.0


NOT_A_NUMBER = [True, np.True_, "0.5", b"0.5", None, [0.5], math.nan, math.inf, 1j, 10**400]
NO_LENGTHS = [-1, 1.5, math.nan, math.inf, True, "3", None, [1, -2], [[1], [2, 3]], 10**30]
NO_LENGTHS += [10**6 + 1]  # next to the longest
#: What takes a number, how one that cannot be is called, and those next to the ends.
NUMBERS: list[tuple[Callable[[Any], Any], str, Any, Any]] = [
    (constant_acceptance, "rate", -1e-9, 1 + 1e-9),
    (lambda value: rate_acceptance([0.9, value]), "rates[1]", -1e-9, 1 + 1e-9),
    (lambda value: survival_acceptance([value]), "survival[0]", -1e-9, 1 + 1e-9),
    (lambda value: histogram_acceptance([3, value, 4]), "counts[1]", -1e-9, -1),
    (lambda value: beta_acceptance(value, 2.0), "a", 0, -1),
    (lambda value: beta_acceptance(2.0, value), "b", 0, -1),
    (lambda value: decay_acceptance(value, 0.5, 0.5), "first_rate", -1e-9, 1 + 1e-9),
    (lambda value: decay_acceptance(0.5, value, 0.5), "last_rate", -1e-9, 1 + 1e-9),
    (lambda value: decay_acceptance(0.5, 0.5, value), "decay", -1e-9, 1 + 1e-9),
    (lambda value: falling_odds_acceptance(value, 0.5), "first_rate", -1e-9, 1 + 1e-9),
    (lambda value: falling_odds_acceptance(0.5, value), "power", -5 - 1e-9, 5 + 1e-9),
    (lambda value: acceptance_from_length(value, 3), "tokens_per_round", 1 - 1e-9, 4 + 1e-9),
    (lambda value: acceptance_from_length(1.0, value), "draft_len", 0, 10**6 + 1),
    (lambda value: windowed_acceptance(constant_acceptance(0.5), value), "window", 0, 1 - 1e-9),
]


@pytest.mark.parametrize(("make", "name", "below", "above"), NUMBERS)
def test_what_is_no_number_is_refused_in_one_line(
    make: Callable[[Any], Any], name: str, below: Any, above: Any
) -> None:
    for value in (*NOT_A_NUMBER, below, above):
        said = refusal(OptionError, make, value).partition(f"{name} is ")[2]
        assert "; allowed: " in said
    for answer in ("survival", "tokens_per_round", "accepted_tokens"):
        for value in NO_LENGTHS:
            line = refusal(OptionError, getattr(constant_acceptance(0.5), answer), value)
            assert re.match("draft_len is .*; allowed: whole numbers from 0 to ", line)


def test_lists_are_told_by_three_of_many_values_and_have_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("specroof.acceptance.curve.LONGEST_DRAFT", 5)
    for rates, told in (
        ([0.9, 0.8, 0.7, 0.6], "0.9, 0.8, 0.7, 0.6 "),
        ([0.9, 0.8, 0.7, 0.6, 0.5], "0.9, 0.8, 0.7, … (5 values) "),
    ):
        assert rate_acceptance(rates).description == f"conditional acceptance {told}by position"
    assert "at most 5 entries" in refusal(OptionError, rate_acceptance, iter([0.9] * 6))


def test_other_kinds_of_lists_are_refused_too() -> None:
    for make, name in (
        (rate_acceptance, "rates"), (survival_acceptance, "survival"), (histogram_acceptance, "counts")
    ):  # fmt: skip
        for value, says in (
            *((none, " is ") for none in (b"12", {0.9, 0.8}, np.array(0.5))),
            *((empty, " is empty") for empty in ((), np.array([]))),
            (np.array([True, False]), "[0] is True"),
        ):
            assert refusal(OptionError, make, value).startswith(f"{name}{says}")
    assert refusal(OptionError, rate_acceptance, np.array([0.5, 1.5])).startswith("rates[1] is 1.5")
    for no_lengths in ({}, [1.8], None):  # type: ignore[var-annotated]
        assert "holds no lengths" in refusal(OptionError, lengths_acceptance, no_lengths)
    for counts, total in (([0, 0], "0.0"), ([1e308] * 2, "inf")):
        assert f"add up to {total};" in refusal(OptionError, histogram_acceptance, counts)
    assert falling_odds_acceptance(1.0, 5.0).survival(3) == falling_odds_acceptance(
        0.0, -5.0
    ).survival(0)


# --- what one acceptance length says of other depths, and contexts -------------------------------

KINDS = ("", "mtp", "eagle3", "dflash", "dspark", "ngram", "medusa")


def tokens(first_rate: float, power: float, depth: int) -> float:
    """Return 1 + sum of products, written out from the odds."""
    total, survived = 1.0, 1.0
    for position in range(1, depth + 1):
        odds = first_rate / (1 - first_rate) * position**-power
        survived *= odds / (1 + odds)
        total += survived
    return total


def published_lengths() -> Iterator[tuple[str, str, dict[int, float]]]:
    for one in load_profiles():
        lengths = dict(enumerate((1 + np.cumsum(one.survival)).tolist(), 1)) or dict(one.lengths)
        lengths = {depth: length for depth, length in lengths.items() if depth <= 15}
        if len(lengths) > 1 and one.drafter_family:
            yield one.drafter_family, one.model, lengths


def first_rates(lengths: dict[int, float], power: float) -> Iterator[tuple[int, float]]:
    """Yield the drafts of each length that says something, and the rate of the first draft."""
    for depth, length in lengths.items():
        if depth > 1 and 1.001 < length < depth + 0.999:
            missed = partial(lambda d, n, rate: tokens(rate, power, d) - n, depth, length)
            yield depth, brentq(missed, 1e-12, 1 - 1e-12)


def own_power(lengths: dict[int, float]) -> float:
    def squares(power: float) -> float:
        return sum(
            math.log(tokens(first, power, b) / length) ** 2
            for a, first in first_rates(lengths, power)
            for b, length in lengths.items()
            if b > a
        )

    found = minimize_scalar(squares, bounds=(-5, 5), method="bounded", options={"xatol": 1e-3})
    return float(found.x)


@pytest.mark.parametrize("family", ["mtp", "dspark", "ngram"])
def test_the_table_of_shapes_follows_from_the_bundled_profiles(family: str) -> None:
    own = [own_power(lengths) for name, _, lengths in published_lengths() if name == family]
    assert len(own) == SHAPES[family].n_profiles
    pooled = SHAPES[""].power
    held = (len(own) * np.median(own) + 30 * pooled) / (len(own) + 30)
    expected = np.median(own) if family == "ngram" else held
    assert SHAPES[family].power == pytest.approx(float(expected), abs=0.011)


@pytest.mark.long
def test_four_fifths_of_what_one_length_says_of_a_model_left_out_lie_within_the_spread() -> None:
    profiles = [(*one, own_power(one[2])) for one in published_lengths() if one[0] != "ngram"]
    off: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for family, model, lengths, _ in profiles:
        others = [(name, power) for name, of, _, power in profiles if of != model]
        own = [power for name, power in others if name == family]
        pooled = np.median([power for _, power in others])
        power = float((len(own) * np.median(own) + 30 * pooled) / (len(own) + 30))
        for a, first in first_rates(lengths, power):
            for b, length in lengths.items():
                if a != b:
                    ratio = math.log(tokens(first, power, b) / length) / math.log(b / a)
                    off[family, b > a].append(abs(ratio))
                    off["", b > a].append(abs(ratio))
    for family in ("", "mtp", "eagle", "dflash", "dspark"):
        shape = SHAPES[family]
        spreads = (shape.spread_within, shape.spread_beyond)
        measured = [np.quantile(off[family, beyond], 0.8) for beyond in (False, True)]
        assert spreads == pytest.approx(measured, abs=0.0012)


def test_every_family_of_a_profile_and_of_a_kind_has_a_shape() -> None:
    assert {*FAMILIES.values(), ""} == {*SHAPES}
    assert {one.drafter_family for one in load_profiles()} <= {*SHAPES}
    for kind, family in (("eagle3", "eagle"), ("suffix", "ngram"), ("prompt_lookup", "ngram")):
        assert acceptance_from_length(2, 3, kind=kind) == acceptance_from_length(2, 3, kind=family)


def test_an_acceptance_of_one_is_said() -> None:
    curve = acceptance_from_length(4, 3, kind="eagle3")
    assert curve.tokens_per_round(16) == 17
    (caveat,) = curve.caveats
    assert "4 tokens per round (bonus included) at 3 drafts says that every draft" in caveat
    assert acceptance_from_length(3.99, 3).caveats == ()
    found = speedup_curve("Qwen/Qwen3-8B", "b200", drafter="eagle3,accept-length=4@3")
    assert caveat in found.notes


@given(st.integers(1, 16), st.floats(0, 1), st.sampled_from(KINDS))
def test_the_length_is_met_at_its_depth_where_the_band_closes_and_opens_away_from_it(
    draft_len: int, share: float, kind: str
) -> None:
    length = 1 + share * draft_len
    curve = acceptance_from_length(length, draft_len, kind=kind)
    assert curve.measured_depth == draft_len
    depths = np.arange(0, 17)
    low, high = curve.band(depths)
    expected = curve.tokens_per_round(depths)
    assert expected[draft_len] == pytest.approx(length, rel=1e-12)
    assert np.all((low <= expected) & (expected <= high))
    assert np.all((low >= 1) & (high <= depths + 1))
    assert low[draft_len] == expected[draft_len] == high[draft_len]
    assert np.all(np.diff((high / expected)[draft_len:]) >= -1e-12)


def test_the_band_has_the_error_of_counted_rounds() -> None:
    bins = np.array([20, 30, 20, 30])  # of 100 rounds: N = 1 + (30 + 2 * 20 + 3 * 30) / 100
    curve = histogram_acceptance(bins)
    drawn = np.random.default_rng(1).multinomial(100, bins / 100, size=50_000)
    dice = np.quantile(1 + np.minimum(np.arange(4), [[1], [3]]) @ drawn.T / 100, [0.1, 0.9], axis=1)
    assert np.array(curve.band([1, 3])) == pytest.approx(dice, rel=0.005)
    assert curve.band(3)[1] > 1.05 * curve.tokens_per_round(3)
    far = extrapolated_acceptance(curve, "geometric")  # what its depth leaves open, too: as squares
    sides = [
        math.log(one.band(6)[1] / one.tokens_per_round(6))
        for one in (replace(far, n_rounds=None), replace(far, spread=(0.0, 0.0)), far)
    ]
    assert math.hypot(*sides[:2]) == pytest.approx(sides[2])
    for uncounted in (bins / 100, [20, 30, 20, 30.5], [0, 1]):
        shares = histogram_acceptance(uncounted)
        assert shares.n_rounds is None
    profile = AcceptanceProfile("few", survival=(0.5,), n_rounds=64)
    # 1.2816 deviations of sqrt(0.5 * 0.5 / 64), over 1.5
    assert profile.acceptance("zero").band(1)[1] == pytest.approx(
        1.5 * math.exp(0.0801 / 1.5), rel=1e-4
    )
    # Of 4 rounds that were all alike 4.5 of 5 are (Jeffreys): sqrt(0.9 * 0.1 / 4), over 2.
    alike = histogram_acceptance([0, 4])
    assert alike.band(1)[0] == pytest.approx(2 * math.exp(-1.2816 * 0.15 / 2), rel=1e-4)
    assert not acceptance_notes(replace(profile, n_rounds=200).acceptance(), "Qwen3-8B")
    (note,) = acceptance_notes(replace(profile, n_rounds=199).acceptance(), "Qwen3-8B")
    assert "199 rounds" in note
    answer = speedup_curve("Qwen/Qwen3-8B", "h100", drafter="eagle3,histogram=2/3/2/3")
    assert any("10 rounds" in note for note in answer.notes)


def test_a_profile_that_is_extended_has_the_band_of_its_family() -> None:
    profile = load_profile("qwen3.6-35b-a3b/mtp/speed-bench")
    curve = profile.acceptance("geometric")
    low, high = curve.band([8, 16])
    expected = curve.tokens_per_round([8, 16])
    assert (low[0], high[0]) == (expected[0], expected[0])  # measured to 8 drafts
    assert high[1] / expected[1] == pytest.approx(2 ** SHAPES["mtp"].spread_beyond)
    own = extrapolated_acceptance(survival_acceptance([0.8, 0.6]), "geometric")
    assert float(own.survival(0)) == 1
    assert own.spread == (0.0, SHAPES[""].spread_beyond)


def test_a_profile_of_one_length_is_typical_of_its_family() -> None:
    profile = load_profile("qwen3.5-27b/dflash/longbench-qasper-4k")
    curve = profile.acceptance()
    wanted = acceptance_from_length(5.17, 15, kind="dflash")
    assert curve.survival([1, 7, 15]).tolist() == wanted.survival([1, 7, 15]).tolist()
    assert curve.max_draft_len == curve.measured_depth == 15
    assert curve.spread == (SHAPES["dflash"].spread_within, SHAPES["dflash"].spread_beyond)


STEM = "qwen3.5-27b/dflash/longbench-qasper-"
BY_CONTEXT = {
    float(context): load_profile(STEM + name).acceptance()
    for context, name in {1024: "1k", 4096: "4k", 16384: "16k"}.items()
}


def test_at_a_measured_context_the_curve_is_the_measured_one_and_outside_unknown() -> None:
    found = context_acceptance(BY_CONTEXT)
    assert found.max_draft_len == 15
    for context, curve in BY_CONTEXT.items():
        assert found.at_context(context) == curve
    for context in (0.0, 1023.0, 16385.0):
        curve = found.at_context(context)
        nothing = replace(BY_CONTEXT[1024], max_draft_len=0, measured_depth=0)
        assert replace(curve, caveats=()) == nothing
        assert curve.caveats[0].startswith("acceptance was measured at contexts from 1024 to 16384")


@given(st.floats(1024, 16384))
def test_between_contexts_tokens_lie_between(context: float) -> None:
    found = context_acceptance(BY_CONTEXT)
    lengths = found.at_context(context).tokens_per_round(15)
    assert 3.57 - 1e-9 <= lengths <= 5.27 + 1e-9  # of 16k and 1k tokens
    halfway = found.at_context(8192).tokens_per_round(15)  # 4k and 16k: 5.17 and 3.57
    assert float(halfway) == pytest.approx((5.17 + 3.57) / 2)


def test_curves_without_end_mix_without_end() -> None:
    curves = {
        context: replace(constant_acceptance(rate), between=(constant_acceptance(rate - 0.1),))
        for context, rate in ((1.0, 0.8), (100.0, 0.6))
    }
    found = context_acceptance(curves)
    assert found.max_draft_len is None
    between = found.at_context(10)
    assert between.max_draft_len is None
    assert float(between.survival(2)) == pytest.approx((0.64 + 0.36) / 2)
    assert between.band(1)[0] == pytest.approx(1 + (0.7 + 0.5) / 2)
    assert pickle.loads(pickle.dumps(between)) == between  # noqa: S301 - made here
    assert "measured at 1, 100 tokens" in found.description
    two, one = (
        replace(survival_acceptance(curve), measured_depth=len(curve), caveats=(f"{curve}",))
        for curve in ([0.8, 0.6], [0.5])
    )
    ends: dict[float, Any] = {1: FIXED, 4: two, 100: one, 400: two}
    some_end = context_acceptance(ends)
    at = [some_end.at_context(place) for place in (2, 10, 200)]
    assert [*(curve.max_draft_len for curve in at), some_end.max_draft_len] == [2, 1, 1, 1]
    assert [*(curve.measured_depth for curve in at), some_end.measured_depth] == [2, 1, 1, 1]
    assert [len(curve.caveats) for curve in at] == [1, 2, 2]
    assert windowed_acceptance(FIXED, 1).window == 1


FIXED = constant_acceptance(0.5)
NO_CONTEXTS: list[object] = [0, -1, math.nan, math.inf, "4k", True]


@pytest.mark.parametrize(
    "curves",
    [{}, {4096: FIXED}, None, [1, 2], *({context: FIXED, 4096: FIXED} for context in NO_CONTEXTS)],
    ids=str,
)
def test_fewer_than_two_contexts_are_refused(curves: Any) -> None:
    with pytest.raises(OptionError, match=r"curves .*allowed: (two or more|a number)"):
        context_acceptance(curves)


def accepted(spec: str) -> Any:
    return load_drafter(spec).acceptance


def test_a_spec_takes_the_shape_of_its_kind_or_another_law() -> None:
    depths = np.arange(17)
    for kind in ("eagle3", "mtp", "ngram"):
        wanted = acceptance_from_length(2.8, 3, kind=kind).tokens_per_round(depths)
        found = accepted(f"{kind},accept-length=2.8@3").tokens_per_round(depths)
        assert found.tolist() == wanted.tolist()
    constant = accepted("eagle3,accept-length=2.8@3,extrapolate=constant")
    wanted = acceptance_from_length(2.8, 3, law="constant").tokens_per_round(depths)
    assert constant.tokens_per_round(depths) == pytest.approx(wanted)
    none = accepted("eagle3,accept-length=2.8@3,extrapolate=zero")
    assert none.tokens_per_round([3, 7]) == pytest.approx([2.8, 2.8])


def test_a_spec_takes_profiles_at_several_contexts() -> None:
    spec = f"dflash,profile={STEM}1k@1024+{STEM}16k@16384"
    found = accepted(spec)
    assert isinstance(found, ContextAcceptance)
    assert (found.contexts, found.max_draft_len) == ((1024, 16384), 15)
    assert accepted(f"{spec},extrapolate=zero").max_draft_len is None
    # Room is counted with the acceptance of the context: out of reach, and between.
    for context in (512, 4096):
        room = capacity("Qwen/Qwen3-8B", "b200", drafters=[spec], context_len=context)
        assert room.rows[1].largest_batch > 0


def test_a_curve_takes_each_context_with_its_own_acceptance() -> None:
    asked: dict[str, Any] = {"drafter": "dflash", "batch_size": [1, 8], "max_draft_len": 15}
    found, first = (
        speedup_curve("Qwen/Qwen3-8B", "b200", acceptance=one, context_len=lengths, **asked)
        for one, lengths in (
            (context_acceptance(BY_CONTEXT), [512, 1024, 16384]),
            (BY_CONTEXT[1024], [512, 1024, 16384]),
        )
    )
    assert np.isnan(found.speedup[0, :, 1:]).all()  # nothing was measured at 512 tokens
    assert found.speedup[0, :, 0].tolist() == [1, 1]
    assert found.best_draft_len[0].tolist() == [0, 0]
    assert found.round_s[1].tolist() == first.round_s[1].tolist()
    assert found.verify_s[2].tolist() == first.verify_s[2].tolist()
    for row, context in ((1, 1024), (2, 16384)):
        tokens = BY_CONTEXT[context].tokens_per_round(np.arange(16))
        assert found.tokens_per_round[row].tolist() == [tokens.tolist()] * 2
    assert any("nothing is known at 512" in note for note in found.notes)
    assert found.acceptance_from.startswith("by context, measured at 1024, 4096, 16384 tokens")
