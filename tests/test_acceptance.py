"""Survival curves: dice, counting and exact fractions against the closed forms."""

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from specroof.acceptance import (
    Acceptance,
    acceptance_from_length,
    beta_acceptance,
    constant_acceptance,
    histogram_acceptance,
    rate_acceptance,
    survival_acceptance,
)
from specroof.errors import OptionError

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
    assert beta_acceptance(5e-324, 5e-324).tokens_per_round(1) == pytest.approx(4 / 3)
    assert float(beta_acceptance(5e-324, 1e308).survival(1)) == 0.0


NOT_A_NUMBER = [True, np.True_, "0.5", b"0.5", None, [0.5], math.nan, math.inf, 1j, 10**400]
NO_LISTS = [0.5, "0.9/0.8", b"12", None, {0: 5, 1: 3}, {0.9, 0.8}, np.array(0.5), [[0.9], [0.8]]]
EMPTY = [[], (), np.array([])]
NO_LENGTHS = [-1, 1.5, math.nan, math.inf, True, "3", None, [1, -2], [[1], [2, 3]], 10**30, 10**7]
HALF = constant_acceptance(0.5)
LISTS: list[tuple[Callable[..., Any], str]] = [
    (rate_acceptance, "rates"), (survival_acceptance, "survival"), (histogram_acceptance, "counts"),
]  # fmt: skip

#: What is called, with what, what the refusal begins with, and what it allows.
REFUSED: list[tuple[Callable[..., Any], list[Any], str, str]] = [
    (constant_acceptance, [*NOT_A_NUMBER, -0.1, 1.0000001, 75], "rate is ", "a number from 0 to 1"),
    (lambda value: rate_acceptance([0.9, value]), [*NOT_A_NUMBER, -0.1, 75], "rates[1] is ", ""),
    (rate_acceptance, [np.array([0.5, 1.5])], "rates[1] is 1.5; ", "a number from 0 to 1"),
    (lambda value: survival_acceptance([value]), [*NOT_A_NUMBER, 75], "survival[0] is ", "to 1"),
    # Three right drafts include two right drafts: somebody took conditional rates for survival.
    (survival_acceptance, [[0.9, 0.7, 0.8]], "survival[2] is 0.8, above 0.7", ""),
    (
        lambda value: histogram_acceptance([3, value, 4]), [*NOT_A_NUMBER, -1, -1e-9],
        "counts[1] is ", "not negative",
    ),
    (histogram_acceptance, [[0, 0], [1e308, 1e308]], "counts add up to ", "a finite sum above 0"),
    (lambda value: beta_acceptance(value, 2.0), [*NOT_A_NUMBER, 0, -1], "a is ", "above 0"),
    (lambda value: beta_acceptance(2.0, value), [*NOT_A_NUMBER, 0, -1], "b is ", "above 0"),
    (
        lambda value: acceptance_from_length(value, 3), [*NOT_A_NUMBER, 0.99, 0, -2, 4.01],
        "tokens_per_round is ", "from 1 to 4",
    ),
    # With 0 drafts the length is 1 for every rate, and says nothing.
    (
        lambda value: acceptance_from_length(1.0, value), [*NOT_A_NUMBER, 0, -1, 2.5, 10**7],
        "draft_len is ", "a whole number",
    ),
    *((make, NO_LISTS, name, "") for make, name in LISTS),
    *((make, EMPTY, f"{name} is empty", "") for make, name in LISTS),
    *((make, [np.array([True, False])], f"{name}[0] is True", "") for make, name in LISTS),
    *(
        (answer, NO_LENGTHS, "draft_len is ", "whole numbers from 0 to ")
        for answer in (HALF.survival, HALF.tokens_per_round, HALF.accepted_tokens)
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "value", "said", "allowed"),
    [(call, value, said, allowed) for call, values, said, allowed in REFUSED for value in values],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:12],
)
def test_what_says_no_acceptance_is_refused_in_one_line(
    call: Callable[..., Any], value: Any, said: str, allowed: str
) -> None:
    with pytest.raises(OptionError) as refusal:
        call(value)
    message = str(refusal.value)
    assert message.startswith(said)
    assert len(message.splitlines()) == 1
    assert allowed in message.partition("allowed: ")[2]
    assert "allowed: " in message
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__
