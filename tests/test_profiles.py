"""Published acceptance: the bundled library, files of engines, SPECs, laws fitted to them."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specroof
from specroof.acceptance import acceptance_from_length
from specroof.acceptance.curve import beta_quadrature
from specroof.acceptance.law_fits import EXTRAPOLATIONS, FITTED_LAWS
from specroof.acceptance.published import (
    AcceptanceProfile,
    draft_count,
    load_profiles,
    profile_names,
    typical_profiles,
)
from specroof.acceptance.published.formats import _varying, parse_profiles
from specroof.catalog.profiles import load_profiles_file
from specroof.errors import Assumed
from specroof.questions.acceptance import show_profiles
from tables import reads, refusal, rows

MTP = "qwen3.6-35b-a3b/mtp/speed-bench"
DFLASH = "qwen3.6-35b-a3b/dflash/speed-bench"


@pytest.mark.parametrize("profile", load_profiles(), ids=lambda profile: profile.name)
def test_every_profile_gives_a_curve_as_deep_as_it_was_measured(profile: AcceptanceProfile) -> None:
    curve = profile.acceptance()
    assert curve.max_draft_len == profile.draft_len
    assert curve.measured_on == profile.model != ""
    assert profile.drafter
    assert profile.task
    assert "https://" in profile.source
    assert "bonus" in profile.counted
    length = float(curve.tokens_per_round(profile.draft_len))
    # Separate runs scatter: published lengths that fall with more drafts cannot be met.
    assert length == pytest.approx(profile.tokens_per_round, abs=0.31)
    if profile.survival or len(profile.lengths) == 1:
        assert length == pytest.approx(profile.tokens_per_round, rel=1e-9)
    assert math.isnan(curve.survival(profile.draft_len + 1))


def test_names_are_unique_and_fit_into_a_spec_and_others_are_refused() -> None:
    names = profile_names()
    for unknown, said in ((MTP[:-2], r"did you mean .*speed-bench"), ("zzz", r"^profile 'zzz' ")):
        with pytest.raises(specroof.CatalogError, match=said):
            specroof.load_profile(unknown)
    assert len(names) == len(set(names)) == len(load_profiles())
    assert all(name == name.casefold() and not set(name) & set(",= ") for name in names)


def profile_of(length: float, **known: Any) -> AcceptanceProfile:
    return AcceptanceProfile(f"mine/eagle3/{length}", lengths=((3, length),), **known)


def test_typical_profiles_were_measured_alike() -> None:
    lengths = [1.1 + 0.1 * n for n in range(11)]
    many = [profile_of(length, temperature=0.0) for length in lengths]
    deep = AcceptanceProfile("mine/eagle3/deep", lengths=((7, 3.9),), temperature=0.0)
    lossless = [profile_of(3.5, temperature=0.0, rule="rejection") for _ in range(5)]

    def typical(*own: AcceptanceProfile, **beside: list[AcceptanceProfile]) -> list[Any]:
        return [*typical_profiles("eagle3", {"eagle3": own, **beside})]

    found = [one.tokens_per_round for one in typical(deep, *lossless, *reversed(many))]
    assert found == pytest.approx([1.2, 1.6, 2.0])  # the 10th, 50th and 90th percentile
    assert typical(lossless[0], deep)[1] == deep  # as many of each: what every server has
    assert typical(many[0], deep)[1] == deep  # as many: with more drafts
    assert typical(deep, *many, dflash=[deep])[0] == deep  # as the other kinds were


def test_drafters_without_acceptance_have_what_is_published_with_the_model() -> None:
    # Of nine texts with temperature 1 (arXiv:2607.05147, table 2): the 5th, 2nd and 8th in length.
    asked: dict[str, Any] = {"model": "Qwen/Qwen3-8B", "hardware": "h100", "engine": "sglang"}
    low, middle, high = (
        specroof.predict(**asked, drafters=f"eagle3,profile=qwen3-8b/eagle3/{text}")
        for text in ("mt-bench", "mbpp", "math500")
    )
    found = specroof.predict(**asked, drafters="eagle3")
    at = [one.rows[0].speedup for one in (found, low, middle, high)]
    assert at[0] == at[2]
    (ends,) = found.rows
    assert ends.speedup_low <= at[1] < at[2] < at[3] <= ends.speedup_high
    assert any("2.54" in note and "4.77" in note for note in found.notes)
    names = [drafter.name.partition("=")[2] for drafter in specroof.predict(**asked).drafters]
    compared = [specroof.load_profile(name) for name in names]
    assert {one.kind for one in compared} == {"eagle3", "dflash", "dspark"}
    assert len({(one.temperature, one.draft_len, one.engine) for one in compared}) == 1
    # Another temperature moves the other texts, too.
    cooler, alone = (
        specroof.predict(**asked, drafters=drafters, temperature=0.5).rows[0]
        for drafters in ("eagle3", middle.drafters[0])
    )
    assert cooler.speedup == alone.speedup
    assert cooler.speedup_low < alone.speedup_low
    # A server that does not accept drafts as they were measured does so in its own way.
    usual, named = (
        specroof.predict("Qwen/Qwen3-8B", "h100", drafters=spec, framework="tensorrt-llm")
        for spec in ("eagle3", "eagle3,profile=qwen3-8b/eagle3/mbpp")
    )
    assert usual.rows[0].speedup == named.rows[0].speedup
    for (moved,) in (usual.drafters, named.drafters):
        assert getattr(moved.acceptance, "rule", None) == "greedy"
    # Of kinds that it does not run none is compared.
    asked["engine"] = None
    kinds = {one.kind for one in specroof.predict(**asked, framework="tensorrt-llm").drafters}
    assert kinds == {"eagle3", "dflash"}
    # What solves for something else than acceptance, or follows the load, reads it, too.
    for name in (
        specroof.breakeven(**asked, drafter="eagle3", solve="batch").drafter.name,
        specroof.adaptive(**asked, drafter="eagle3", batch_size=1, n_rounds=50).drafter,
    ):
        assert name == middle.drafters[0].name
    # What says its acceptance stays as it is.
    (given,) = specroof.predict(**asked, drafters="eagle3,accept=0.5").drafters
    assert given.name == "eagle3,accept=0.5"


@pytest.mark.parametrize(("model", "drafters", "kind"), rows("values", "assumed_acceptance"))
def test_acceptance_that_is_not_published_with_a_model_is_that_of_others(
    model: str, drafters: str | None, kind: str
) -> None:
    answer = specroof.predict(model, "h200", drafters=drafters, tensor_parallel=8)
    (drafter,) = answer.drafters
    acceptance = drafter.acceptance
    assert isinstance(acceptance, specroof.Acceptance)
    assert drafter.kind == kind
    assert [type(note) for note in acceptance.caveats] == [Assumed]
    assert "acceptance is assumed" in answer.text()
    # At three drafts, of all that go as far: a tenth lies below the band, and a tenth above.
    ends = [float(end.tokens_per_round(3)) for end in acceptance.between]
    of_kind = [
        float(profile.acceptance().tokens_per_round(3))
        for profile in load_profiles()
        if profile.kind == kind and profile.draft_len >= 3 and profile.rule != "lossy"
    ]
    assert ends == pytest.approx(np.percentile(of_kind, [10, 90], method="nearest"), abs=0.03)


def test_mtp_layers_of_one_base_draft_alike() -> None:
    # DeepSeek-R1 and V3.1 have the sizes of V3 (but for V3.2's indexer), whose layer drafts 3.
    for model in ("deepseek-ai/DeepSeek-R1", "nvidia/DeepSeek-V3.1-NVFP4"):
        (drafter,) = specroof.predict(model, "b200", tensor_parallel=8).drafters
        acceptance = drafter.acceptance
        assert isinstance(acceptance, specroof.Acceptance)
        assert acceptance.max_draft_len == 3
        known = [one for one in load_profiles() if one.name.startswith("deepseek-v3")]
        lengths = sorted(one.tokens_per_round for one in known if one.kind == "mtp")
        low, high, middle = (
            float(one.tokens_per_round(3)) for one in (*acceptance.between, acceptance)
        )
        assert low == pytest.approx(lengths[0])
        assert middle == pytest.approx(float(np.median(lengths)))
        assert high > lengths[-1]  # other models draft better


@pytest.mark.parametrize(("name", "drafts", "tokens"), rows("values", "acceptance_lengths"))
def test_acceptance_lengths_as_published(name: str, drafts: int, tokens: float) -> None:
    profile = specroof.load_profile(name)
    assert profile.draft_len == drafts
    assert profile.tokens_per_round == pytest.approx(tokens, abs=0.011)


def test_rates_are_multiplied_up_and_shares_are_counted() -> None:
    # DSpark paper, figure 2, EAGLE-3 on chat: 0.5336, then 0.5894 of those.
    profile = specroof.load_profile("Qwen3-4B/EAGLE3/Chat")
    assert "(Eagle3 for Qwen3-4B on Chat average)" in profile.acceptance().description
    assert profile.survival[:2] == pytest.approx([0.5336, 0.5336 * 0.5894])
    # Shares in percent of 0 to 8 accepted drafts, as Finn 2026 prints them.
    shares = [18.7, 19.5, 13.8, 9.1, 7.0, 6.3, 4.1, 3.8, 17.8]
    mean = sum(n * share for n, share in enumerate(shares)) / sum(shares)
    profile = specroof.load_profile("qwen3.6-35b-a3b/mtp/speed-bench-histogram")
    assert profile.tokens_per_round == pytest.approx(1 + mean)


@pytest.mark.parametrize(("model", "noted"), rows("values", "profiled_models"))
def test_a_model_is_known_by_name_or_path(model: str, noted: bool) -> None:
    # On a metrics page it is named as it was served: vLLM's default is the name on the Hub.
    for measured_on in ("Qwen3-8B", "Qwen/Qwen3-8B", "/models/Qwen3-8B"):
        curve = replace(specroof.constant_acceptance(0.5), measured_on=measured_on)
        assert bool(specroof.acceptance.acceptance_notes(curve, model)) is noted


def test_past_the_measured_depth_a_name_must_be_given() -> None:
    spec = f"autoregressive,cost=0.1,profile={MTP}"

    def curve_of(spec: str, **more: Any) -> specroof.SpeedupCurve:
        return specroof.speedup_curve("Qwen/Qwen3-8B", "b200", drafter=spec, **more)

    curve = curve_of(spec)
    assert np.isnan(curve.speedup[0, 0, 9:]).all()
    with pytest.raises(specroof.OptionError, match="allowed: at most 8"):
        curve_of(spec, max_draft_len=9)
    for how in EXTRAPOLATIONS:
        longer = curve_of(f"{spec},extrapolate={how}", max_draft_len=9)
        assert longer.tokens_per_round[0, 0, :9] == pytest.approx(curve.tokens_per_round[0, 0, :9])
        assert np.isfinite(longer.speedup).all()
        assert f"extrapolated: {how}" in longer.acceptance_from


@pytest.mark.parametrize(("text", "drafts"), rows("values", "counted_drafts"))
def test_engines_count_drafts_in_their_own_way(text: str, drafts: int) -> None:
    assert draft_count(text) == drafts


def test_counts_that_leave_no_draft_or_are_no_number_are_refused() -> None:
    for text in ("0", "num_draft_tokens=1", "1000001", "x", "٣", "-1", "tokens=3"):
        assert "; allowed: a " in refusal(specroof.OptionError, draft_count, text)


def closest_falling(values: list[float]) -> list[float]:
    """Return the least squares fit of falling values, by the formula with no pooling in it.

    Robertson, Wright and Dykstra 1988, Order Restricted Statistical Inference, theorem 1.4.4: at
    each place the smallest, over starts before it, of the largest mean, over ends behind it.
    """
    places = range(len(values))
    return [
        min(
            max(float(np.mean(values[start : end + 1])) for end in places[place:])
            for start in places[: place + 1]
        )
        for place in places
    ]


@given(st.lists(st.tuples(st.integers(1, 4), st.floats(0, 1)), min_size=1, max_size=5))
def test_pooled_slopes_weigh_as_many_drafts_as_they_span(slopes: list[tuple[int, float]]) -> None:
    # Every draft counts once in the oracle, so a slope over four of them counts four times.
    each_draft = [slope for drafts, slope in slopes for _ in range(drafts)]
    lengths, drafts, length = {}, 0, 1.0
    for step, slope in slopes:
        drafts, length = drafts + step, length + step * slope
        lengths[drafts] = min(length, drafts + 1.0)
    curve = specroof.lengths_acceptance(lengths)
    survival = curve.survival(range(1, drafts + 1))
    assert survival == pytest.approx(closest_falling(each_draft), abs=1e-9)


def test_lengths_that_no_survival_gives_are_said() -> None:
    # InferenceX prints 3.77 tokens of 6 drafts and 3.47 of 8, with noise of 0.05.
    name = "deepseek-v4-pro-0813/dspark/speed-bench-coding-thinking-on"
    (said,) = show_profiles(name).notes
    assert "of 8 drafts 3.47 tokens per round were measured, and 3.77 are counted" in said
    assert said in " ".join(show_profiles(name).text().split())
    assert specroof.load_profile(name).acceptance().caveats
    for lengths in ({1: 1.8, 2: 2.4}, {1: 1.8, 2: 2.4, 3: 2.35}):
        assert not specroof.lengths_acceptance(lengths).caveats


def test_extrapolations_of_a_measured_block_drafter() -> None:
    # The DFlash curve of Finn 2026 cut at 8 of its 15 drafts: what is left out by each.
    whole = specroof.load_profile(DFLASH).survival
    cut = specroof.survival_acceptance(whole[:8])
    accepted = sum(whole[:8])
    rate = whole[7] / whole[6]
    geometric = accepted + whole[7] * sum(rate**step for step in range(1, 8))
    lengths = {
        how: float(specroof.extrapolated_acceptance(cut, how).accepted_tokens(15))
        for how in EXTRAPOLATIONS
    }
    assert lengths["zero"] == pytest.approx(accepted)
    assert lengths["geometric"] == pytest.approx(geometric)
    assert lengths["zero"] < lengths["decay"] < 3.42  # measured, with a heavier tail
    # As the docstring says, beside 3.42 accepted drafts that were measured: to half of the last
    # digit, since the first is 3.855 and which way that rounds depends on the Python.
    assert (1 + accepted, 1 + geometric) == pytest.approx((3.86, 4.36), abs=0.005 + 1e-9)


def test_a_decay_that_was_cut_off_goes_on_as_it_would_have() -> None:
    whole = specroof.decay_acceptance(0.9, 0.6, 0.7)
    cut = specroof.survival_acceptance(whole.survival(np.arange(1, 9)))
    longer = specroof.extrapolated_acceptance(cut, "decay")
    depths = np.arange(1, 15)
    assert longer.survival(depths) == pytest.approx(whole.survival(depths), rel=1e-3)


def test_a_curve_goes_on_in_ways_that_it_has_alone() -> None:
    profile, length = specroof.load_profile(MTP).acceptance(), acceptance_from_length(2.8, 3)
    for curve, how, allowed in (
        (profile, "constant", "geometric, decay, zero"),
        (length, "linear", "geometric, decay, zero, constant"),
        (specroof.constant_acceptance(0.5), "constant", "geometric, decay, zero"),
        (specroof.constant_acceptance(0.5), "zero", "one draft or more, not a law"),
    ):
        line = refusal(specroof.OptionError, specroof.extrapolated_acceptance, curve, how)
        assert line.endswith(allowed)


def test_extrapolation_keeps_what_ended_in_nothing() -> None:
    never = specroof.survival_acceptance([0.0, 0.0])
    assert specroof.extrapolated_acceptance(never, "geometric").survival(4) == 0.0


def test_a_fit_finds_the_law_that_made_a_curve() -> None:
    for law, curve in (
        ("constant", specroof.constant_acceptance(1.0)),
        ("constant", specroof.constant_acceptance(0.02)),
        ("beta", specroof.constant_acceptance(0.7)),  # sequences that are alike
        ("beta", specroof.survival_acceptance([0.3] * 14)),  # and that are all or nothing
        ("decay", specroof.decay_acceptance(0.5, 0.8, 0.8)),
    ):
        fit = specroof.fit_acceptance(curve.survival(np.arange(1, 11)), law)
        assert fit.depth == 10
        assert fit.worst_residual < 0.0015
        if law != "beta":
            assert fit.acceptance.survival(14) == pytest.approx(curve.survival(14), abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [(3.0, 1.5), (0.4, 0.2)])
def test_a_fit_to_counted_rounds_finds_the_rates_of_sequences(a: float, b: float) -> None:
    # 10 drafts of 2 million sequences, each with rounds as one over its tokens per round.
    dice = np.random.default_rng(3)
    table = dice.beta(a, b, 2_000_000)[:, None] ** np.arange(11)
    counted = np.average(table, axis=0, weights=1.0 / table.sum(axis=1))
    fit = specroof.fit_acceptance(counted[1:], "beta")
    assert fit.parameters == pytest.approx((a, b), rel=0.02)
    assert fit.acceptance.tokens_per_round(10) == pytest.approx(counted.sum(), rel=1e-3)
    assert abs(fit.length_residual) < 1e-3


@pytest.mark.parametrize("law", FITTED_LAWS)
def test_no_other_numbers_of_a_law_come_closer(law: str) -> None:
    measured = np.array(specroof.load_profile(DFLASH).survival)
    fit = specroof.fit_acceptance(measured, law)

    def by_sequences(a: float, b: float) -> Any:
        rates, weights = beta_quadrature(a, b)
        survival = rates[:, None] ** np.arange(16)
        return np.average(survival, axis=0, weights=weights / survival.sum(axis=1))[1:]

    makers: dict[str, Callable[..., Any]] = {
        "constant": lambda rate: specroof.constant_acceptance(rate).survival(np.arange(1, 16)),
        "decay": lambda *three: specroof.decay_acceptance(*three).survival(np.arange(1, 16)),
        "beta": by_sequences,
    }
    miss = makers[law](*fit.parameters) - measured
    assert fit.rms_residual == pytest.approx(math.sqrt(np.mean(miss**2)))
    assert fit.worst_residual == pytest.approx(np.abs(miss).max())
    assert fit.length_residual == pytest.approx(miss.sum())
    dice = np.random.default_rng(5)
    for _ in range(300):
        numbers = np.array(fit.parameters) * dice.uniform(0.8, 1.25, len(fit.parameters))
        numbers = numbers if law == "beta" else np.clip(numbers, 0, 1)
        miss = makers[law](*numbers.tolist()) - measured
        assert math.sqrt(np.mean(miss**2)) >= fit.rms_residual - 1e-9


# --- what engines and labs write about acceptance ------------------------------------------------

COUNTERS, VLLM_LINE, SGLANG_LINE, MODELOPT, GOLDEN = rows("values", "acceptance_files").values()


def one(text: str, drafts: int | None = None) -> specroof.AcceptanceProfile:
    (profile,) = parse_profiles(text, "file", drafts)
    return profile


def test_counters_are_added_up_over_the_engines_of_each_model() -> None:
    profile = one(COUNTERS)
    # 800, 400 and 100 of 1000 rounds; vLLM's own length is 1 + 1300 / 1000.
    assert profile.survival == (0.8, 0.4, 0.1)
    assert (profile.model, profile.n_rounds) == ("org/m", 1000)
    assert profile.tokens_per_round == pytest.approx(2.3)
    both = COUNTERS + COUNTERS.replace("org/m", "org/n")
    profiles = parse_profiles(both, "file")
    assert [profile.model for profile in profiles] == ["org/m", "org/n"]
    # As the golden lengths and trace banks of one file: rows of a table tell them apart.
    assert [profile.name for profile in profiles] == ["file/org/m", "file/org/n"]
    assert profile.name == "file"
    single = "vllm:spec_decode_num_drafts 1\n" + "".join(
        f'vllm:spec_decode_num_accepted_tokens_per_pos{{position="{place}"}} 1\n'
        for place in (0, 1)
    )
    assert (one(single).n_rounds, one(single).survival) == (1, (1.0, 1.0))


@given(st.lists(st.integers(0, 50), min_size=2, max_size=9).filter(any))
def test_tokens_per_round_of_a_histogram_are_its_mean_and_one(counts: list[int]) -> None:
    rounds = np.repeat(np.arange(len(counts)), counts)
    profile = one(json.dumps({"request": "a", "acceptance_histogram": counts}))
    assert profile.tokens_per_round == pytest.approx(rounds.mean() + 1)
    assert profile.n_rounds == len(rounds)


def test_the_longest_drafts_and_the_most_rounds_of_a_histogram() -> None:
    longest = one(json.dumps({"acceptance_histogram": [1] * 10_000}))
    assert (longest.draft_len, longest.n_rounds) == (9_999, 10_000)
    assert one(json.dumps({"acceptance_histogram": [0, 2**53]})).n_rounds == 2**53
    with pytest.raises(specroof.OptionError, match="a list of 1 to 10000 numbers"):
        one(json.dumps({"acceptance_histogram": [1] * 10_001}))


NESTED = '{"acceptance_histogram": [1, 1, 2]}'
DEEPEST = '[{"a":' * 15 + f"[{NESTED}]" + "}]" * 15


@pytest.mark.parametrize("text", [*rows("values", "nested_histograms"), DEEPEST])
def test_histograms_are_found_and_added_up_wherever_they_are(text: str) -> None:
    # 1, 1 and 2 rounds with 0, 1 and 2 accepted drafts
    assert one(text).survival == (0.75, 0.5)


def test_log_windows_weigh_by_their_rounds() -> None:
    # One 10 s window of Qwen3-32B with EAGLE-3: mean acceptance length 2.01, which is with bonus.
    line = VLLM_LINE.format(mean="2.01", drafted=300, rates="0.601, 0.286, 0.128")
    assert one(line).tokens_per_round == pytest.approx(2.01, abs=0.006)
    assert one(line).n_rounds == 100
    other = VLLM_LINE.format(mean="4.00", drafted=900, rates="1.000, 1.000, 1.000")
    assert one(line + "noise\n" + other).survival[0] == pytest.approx((0.601 + 3 * 1.0) / 4)
    # Rates below half of the last digit are printed as none.
    small = "Accepted: 3 tokens, Drafted: 30000 tokens, Per-position acceptance rate: 0.000, 0.000"
    assert one(small).n_rounds == 15_000
    single = "Accepted: 0 tokens, Drafted: 100 tokens, Per-position acceptance rate: 0.000"
    assert one(single).n_rounds == 100
    # Drafts of one length are counted to the token, whatever the rate was rounded to.
    exact = "Accepted: 667 tokens, Drafted: 2000 tokens, Per-position acceptance rate: 0.333"
    assert one(exact).n_rounds == 2000
    # One more or less of 500 may be rounding, of 0.5 in a thousand rounds, and half a token.
    text = "Accepted: {} tokens, Drafted: {} tokens, Per-position acceptance rate: {}"
    for accepted, drafted, rate, n_rounds in (
        (501, 1000, 0.5, 1000), (502, 1000, 0.5, 1004), (1, 1, 1.0, 1), (2**53, 2**53, 1.0, 2**53)
    ):  # fmt: skip
        assert one(text.format(accepted, drafted, rate)).n_rounds == n_rounds
    for accepted, drafted in ((1, 2**53 + 2), (2**53 + 2, 1)):
        refusal(specroof.OptionError, one, text.format(accepted, drafted, 1.0))
    # SGLang's windows show lengths alone; the draft length is asked for.
    for line in (SGLANG_LINE, "accept len: {length}\n"):  # which tells no requests
        text = SGLANG_LINE.format(length="2.50") + line.format(length="3.50")
        assert one(text, drafts=7).lengths == ((7, 3.0),)


def test_drafts_vary_where_they_are_over_a_hundredth_shorter() -> None:
    assert "mean 2.96 of 3" in _varying(296, 100, 3)
    for drafted, rounds in ((297, 100), (0, 100), (None, 100), (100, 0), (100, None)):
        assert _varying(drafted, rounds, 3) == ""


def test_a_speculation_profile_says_whether_the_bonus_token_is_in() -> None:
    profile = one(json.dumps(MODELOPT))
    assert profile.survival == (0.8, 0.4, 0.2)
    assert (profile.model, profile.task, profile.n_rounds) == ("org/target", "mt-bench", 100)
    assert "the bonus token is in mean_accept_length" in profile.counted
    without = one(json.dumps(MODELOPT | {"mean_accept_length": 1.4}))
    assert "the bonus token is not in mean_accept_length" in without.counted
    assert without.tokens_per_round == profile.tokens_per_round == pytest.approx(2.4)
    longer = MODELOPT | {"acceptance_length_histogram": [0, 20, 40, 20, 21]}  # than lengths by one
    assert one(json.dumps(longer)).n_rounds == 101


@pytest.mark.parametrize("left_out", ["conditional_accept_rates", "marginal_accept_rates"])
def test_either_kind_of_rates_will_do(left_out: str) -> None:
    kept = {key: value for key, value in MODELOPT.items() if key != left_out}
    kept |= {"acceptance_length_histogram": {"1": 0.2, "2": 0.8}, "measurement_conditions": None}
    del kept["mean_accept_length"]
    profile = one(json.dumps(kept))
    assert profile.survival == pytest.approx((0.8, 0.4, 0.2))
    assert profile.n_rounds is None


def test_golden_lengths_have_models_modes_and_whole_numbers() -> None:
    found = [(p.model, p.task, dict(p.lengths)) for p in parse_profiles(GOLDEN, "file")]
    assert found == [
        ("GLM-5.2", "thinking_on", {1: 1.84, 2: 2.5}),
        ("GLM-5.2", "thinking_off", {1: 1.0, 3: 3.1}),
        ("Kimi-K3", "default", {8: 9.0}),
    ]


def without(word: str) -> str:
    return "".join(f"{line}\n" for line in COUNTERS.splitlines() if word not in line)


def logged(*rates: str) -> str:
    return "".join(VLLM_LINE.format(mean="2", drafted=30, rates=one) for one in rates)


REFUSED = [
    *((COUNTERS.replace(old, new), message) for old, new, message in rows("refusals", "counters")),
    *(
        (json.dumps({"acceptance_histogram": counts}), message)
        for counts, message in rows("refusals", "histograms")
    ),
    *((logged(*rates), message) for rates, message in rows("refusals", "logs")),
    *(
        (json.dumps(MODELOPT | changed), message)
        for changed, message in rows("refusals", "speculation_profiles")
    ),
    (json.dumps(MODELOPT | {"mean_accept_length": 10**400}), "a number from 0 to 1e+20"),
    *rows("refusals", "acceptance_texts"),
    (without("per_pos"), "accepted_tokens_per_pos is []; allowed: every position from 0 on"),
    (without("accepted_tokens_total").replace("500.0", "5000.0"), "allowed: a number from 0 to 1"),
    (without("accepted_tokens_total").replace("1e+02", "9e+02"), "never rise"),
    (VLLM_LINE.format(mean="1", drafted=0, rates="0.0, 0.0"), "more than 0"),
    (SGLANG_LINE.format(length="2.50"), "num_draft_tokens=8"),
    ("[" * 100_000, ""),
    ('{"a":' * 200_000, ""),
    # Deeply nested JSON is not walked.
    ('[{"a":' * 16 + NESTED + "}]" * 16, "holds no"),
    ("commits,category,a0\n1," + "x" * 200_000 + ",.5", "allowed: plain CSV"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=lambda text: text[-30:])
def test_what_contradicts_itself_or_is_something_else_is_refused_in_one_line(
    text: str, message: str
) -> None:
    line = refusal(specroof.OptionError, parse_profiles, text, "file")
    assert line.startswith("file")
    assert message in line


def test_a_file_is_a_profile_in_a_spec(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text(COUNTERS)
    drafter = specroof.load_drafter(f"block,cost=0.1,drafts=3,profile={path}")
    assert isinstance(drafter.acceptance, specroof.Acceptance)
    assert drafter.acceptance.tokens_per_round(3) == pytest.approx(2.3)
    # The drafts that are told are those of the file, which counts three.
    assert [profile.draft_len for profile in load_profiles_file(path, drafts="3")] == [3]
    log = tmp_path / "server.log"
    log.write_text(SGLANG_LINE.format(length="2.50"))
    assert specroof.load_profile(log, drafts="num_draft_tokens=8").lengths == ((7, 2.5),)
    # A SPEC has no word for a file's drafts, but one for the length that the file holds.
    with pytest.raises(specroof.OptionError, match=r"or accept-length=2\.5@DRAFTS in a SPEC$"):
        specroof.load_drafter(f"eagle3,profile={log}")


def test_a_file_of_several_profiles_is_none(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text("m: {on: {1: 1.5}, off: {1: 1.6}}")
    assert len(load_profiles_file(path)) == 2
    with pytest.raises(specroof.CatalogError, match=r"holds 2 profiles \(.*/m/on, .*/m/off\);"):
        specroof.load_profile(path)


@pytest.mark.parametrize(
    ("text", "drafts", "says"),
    [
        (COUNTERS, "5", "drafts is 5, and …file says 3; …"),
        (COUNTERS, 5, "drafts is 5; allowed: drafts per round, as in…"),
        (SGLANG_LINE.format(length="3.00"), "1", "…file… is 3.0; allowed: … from 1 to 2…"),
    ],
)
def test_drafts_that_a_file_cannot_be_of_are_refused(
    text: str, drafts: Any, says: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text(text)
    line = refusal(specroof.OptionError, load_profiles_file, tmp_path / "file", drafts=drafts)
    assert reads(line, says), line
