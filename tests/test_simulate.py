"""The algorithm with dice: exact, as often accepted as the formula says, and how times spread."""

import math

import numpy as np
import pytest

import specroof
from specroof.montecarlo import exactness, random_distributions
from specroof.montecarlo.exactness import chi_squared_p_value, chi_squared_test
from tables import rows

# --- the chi-squared test ----------------------------------------------------------------------


@pytest.mark.parametrize(("freedom", "statistic", "p_value"), rows("values", "p_values"))
def test_p_values_are_those_of_the_tables(freedom: int, statistic: float, p_value: float) -> None:
    rel = 2e-4 if 0 < p_value < 1 else 0  # as many digits as are printed
    assert chi_squared_p_value(statistic, freedom) == pytest.approx(p_value, rel=rel)


def test_outcomes_that_are_rare_are_counted_as_one() -> None:
    counts = np.array([60.0, 30.0, 1.0, 2.0, 7.0])
    expected = np.array([50.0, 40.0, 2.0, 2.0, 6.0])
    # 10^2 / 50 + 10^2 / 40, and 10 that came of 10 that should
    assert chi_squared_test(counts, expected) == (4.5, 2)
    # Two that are rare each, and together are not, leave the third alone.
    statistic, freedom = chi_squared_test(np.array([49.0, 6, 4, 2]), np.array([50.0, 5, 3, 3]))
    assert statistic == pytest.approx(1 / 50 + 1 / 5)
    assert freedom == 2
    assert chi_squared_test(np.array([6.0, 2.0]), np.array([4.0, 4.0])) == (0.0, 0)
    assert chi_squared_test(np.array([3.0, 0.0]), np.array([3.0, 0.0])) == (0.0, 0)
    assert chi_squared_test(np.array([9.0, 1.0]), np.array([10.0, 0.0])) == (math.inf, 1)
    never = np.array([5.0, 5.0, 0.0])
    assert chi_squared_test(np.array([5.0, 4.0, 1.0]), never) == (math.inf, 2)


# --- exactness ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize(("closeness", "draft_len"), [(0.0, 1), (0.5, 4), (0.9, 8)])
def test_the_output_follows_the_target_whatever_is_drafted(
    seed: int, contexts: bool, closeness: float, draft_len: int
) -> None:
    pair = random_distributions(12, closeness, contexts=contexts, seed=seed)
    result = specroof.simulate_exactness(*pair, draft_len=draft_len, n_tokens=60_000, seed=seed)
    assert result.n_tokens >= 60_000
    # One in ten thousand, for 18 runs of three claims each.
    assert result.p_value > 1e-4
    assert abs(result.acceptance_z) < 4.5
    assert abs(result.tokens_per_round_z) < 4.5
    if contexts:  # each token before has distributions of its own
        assert [len({*map(tuple, table.tolist())}) for table in pair] == [12, 12]
    else:
        distance = 0.5 * np.abs(pair[0] - pair[1]).sum()
        assert result.expected_acceptance_rate == pytest.approx(1 - distance)
        formula = specroof.constant_acceptance(1 - distance).tokens_per_round(draft_len)
        assert result.expected_tokens_per_round == pytest.approx(float(formula))


def test_expected_lengths_of_a_chain_are_those_of_all_its_paths() -> None:
    # All paths of two drafts by hand: what is drafted and accepted leads to the next context.
    target = np.array([[0.6, 0.4], [0.3, 0.7]])
    draft = np.array([[0.8, 0.2], [0.5, 0.5]])
    shared = np.minimum(target, draft)
    result = specroof.simulate_exactness(target, draft, draft_len=2, n_tokens=400_000)
    by_start = [
        1 + sum(shared[start, x] * (1 + shared[x].sum()) for x in range(2)) for start in range(2)
    ]
    # 1 + 0.8 + (0.6 * 0.8 + 0.2 * 0.8) = 2.44, whatever the start, as both rows overlap by 0.8
    assert by_start == pytest.approx([2.44, 2.44])
    assert result.expected_tokens_per_round == pytest.approx(2.44)
    assert result.tokens_per_round == pytest.approx(2.44, abs=0.01)


def test_a_refused_draft_replaced_from_the_target_itself_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The mistake that is easily made: after a refusal sample from p, not from what is left of it.
    monkeypatch.setattr(exactness, "_residual", lambda target, _draft: target)
    result = specroof.simulate_exactness([0.5, 0.3, 0.2], [0.2, 0.3, 0.5])
    assert result.p_value < 1e-9


def test_acceptance_and_length_that_disagree_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = exactness._round

    def shortened(*words: object) -> tuple[np.ndarray, np.ndarray]:
        tokens, accepted = honest(*words)  # type: ignore[arg-type]
        return tokens, np.minimum(accepted, 1)

    monkeypatch.setattr(exactness, "_round", shortened)
    result = specroof.simulate_exactness([0.5, 0.3, 0.2], [0.2, 0.3, 0.5])
    assert result.acceptance_z < -10
    assert result.tokens_per_round_z < -10
    monkeypatch.setattr(
        exactness, "_round", lambda *words: (honest(*words)[0], honest(*words)[1] * 0)
    )
    sure = specroof.simulate_exactness([0.5, 0.5], [0.5, 0.5], n_tokens=2000)
    assert math.isinf(sure.tokens_per_round_z)


# --- a batch round by round --------------------------------------------------------------------


def test_plain_decoding_has_no_spread() -> None:
    plain = specroof.simulate_batch(
        specroof.constant_acceptance(0.5), [0.002, 0.003], draft_len=0, output_len=10, n_batches=3
    )
    for spread in (plain.between_tokens, plain.between_bursts, plain.per_token):
        assert (spread.mean_s, spread.p50_s, spread.p99_s) == pytest.approx((0.003,) * 3)
    assert plain.batch.mean_s == pytest.approx(0.03)
    assert (plain.tokens_per_round, plain.n_sequences) == (1.0, 6)


def test_rounds_of_one_sequence_follow_the_curve() -> None:
    curve = specroof.survival_acceptance([0.8, 0.5, 0.2])
    run = specroof.simulate_batch(curve, 0.01, draft_len=3, output_len=3000, n_batches=40, seed=4)
    # N = 1 + 0.8 + 0.5 + 0.2; of N tokens one waits a round, 1.5 come with it
    assert run.tokens_per_round == pytest.approx(2.5, abs=0.02)
    assert run.per_token.mean_s == pytest.approx(0.01 / 2.5, rel=0.01)
    assert run.between_tokens.mean_s == pytest.approx(0.01 / 2.5, rel=0.01)
    assert run.between_tokens.p50_s == 0.0
    assert run.between_tokens.p95_s == pytest.approx(0.01)
    assert run.between_bursts.p99_s == pytest.approx(0.01)


def test_percentiles_of_two_rounds_are_those_of_all_cases() -> None:
    # Answers of two tokens with one draft: one round with probability 0.3, else two.
    curve = specroof.constant_acceptance(0.3)
    run = specroof.simulate_batch(curve, 1.0, draft_len=1, output_len=2, n_batches=20_000, seed=9)
    assert run.per_token.mean_s == pytest.approx(0.3 * 0.5 + 0.7 * 1.0, abs=0.01)
    assert (run.per_token.p50_s, run.per_token.p99_s) == (1.0, 1.0)
    # The second round has one token left to commit, whatever is accepted: 2 tokens in 1.7 rounds.
    assert run.tokens_per_round == pytest.approx(2 / 1.7, abs=0.01)


def test_rounds_get_shorter_as_sequences_finish() -> None:
    # Dice by hand: two sequences of one draft and two tokens, 1 s alone and 3 s together. Both are
    # done after one round (p = 1/4), both need two (1/4), or one is left alone (1/2).
    run = specroof.simulate_batch(
        specroof.constant_acceptance(0.5), [1.0, 3.0], draft_len=1, output_len=2, n_batches=20_000
    )
    assert run.batch.mean_s == pytest.approx(3 / 4 + 6 / 4 + (3 + 1) / 2, abs=0.03)


def test_sequences_that_differ_have_a_longer_tail() -> None:
    words = {"draft_len": 4, "output_len": 400, "n_batches": 400}
    alike = specroof.simulate_batch(specroof.constant_acceptance(0.7), 0.01, **words)
    differing = specroof.simulate_batch(specroof.beta_acceptance(3.5, 1.5), 0.01, **words)
    assert differing.per_token.p95_s > 1.3 * alike.per_token.p95_s


# Beyond what a float holds: an OverflowError.
ENDLESS = {"draft_len": 10**310}, "draft_len is 10+...0+; allowed: a whole number from 0 to 1024"


@pytest.mark.parametrize(("words", "message"), [*rows("refusals", "simulated_batches"), ENDLESS])
def test_a_batch_out_of_range_is_refused(words: dict[str, object], message: str) -> None:
    given = {"round_s": [0.01], "draft_len": 2} | words
    with pytest.raises(specroof.OptionError, match=message):
        specroof.simulate_batch(specroof.survival_acceptance([0.5, 0.2]), **given)  # type: ignore[arg-type]
