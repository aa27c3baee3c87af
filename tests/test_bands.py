"""How sure a speedup is: bands, verdicts, and what they are made of."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from specroof import (
    Drafter,
    SpeedupCurve,
    acceptance_from_length,
    constant_acceptance,
    load_drafter,
    load_hardware,
    load_model,
    speedup_curve,
)
from specroof.acceptance import context_acceptance
from specroof.cli import app
from specroof.scoring.bands import Miss, band_of, bands_of, width_scale
from specroof.speedup.result import band_ends, verdicts

MODEL = load_model("Qwen/Qwen3-8B")
CHIP = load_hardware("h200")
EAGLE3 = load_drafter("eagle3")


def curve(
    engine: str = "sglang", drafter: Drafter = EAGLE3, rate: float = 0.7, batch: float = 1.0
) -> SpeedupCurve:
    """Return a curve whose acceptance is certain."""
    return speedup_curve(
        MODEL,
        CHIP,
        drafter=drafter,
        acceptance=constant_acceptance(rate),
        batch_size=[batch],
        max_draft_len=6,
        engine=engine,
    )


# --- the curve ------------------------------------------------------------------------------------


def test_a_band_lies_as_far_below_as_above() -> None:
    made = curve()
    band = CHIP.engine("sglang").band("eagle3")
    assert band is not None
    assert band == CHIP.engine("sglang").bands["eagle3"]
    low, high = made.speedup_low, made.speedup_high
    assert low is not None
    assert high is not None
    assert np.log(made.speedup[..., 1:] / low[..., 1:]) == pytest.approx(band.width)
    assert np.log(high[..., 1:] / made.speedup[..., 1:]) == pytest.approx(band.width)
    assert low[0, 0, 0] == high[0, 0, 0] == 1  # plain decoding is what it is


def test_the_ideal_engine_has_no_band() -> None:
    made = curve("ideal")
    assert made.speedup_low is None
    assert made.speedup_high is None
    assert made.verdict is None
    assert made.best_within_band() is None


def test_a_drafter_that_nobody_measured_has_the_band_of_all() -> None:
    made = curve(drafter=load_drafter("autoregressive,cost=0.1"))
    assert made.band == CHIP.engine("sglang").bands["other"].width
    assert "autoregressive (errors of all drafters)" in " ".join(made.notes)


def test_the_acceptance_adds_to_the_band_as_squares_do() -> None:
    tokens = acceptance_from_length(2.5, 3)
    made = speedup_curve(
        MODEL, CHIP, drafter=EAGLE3, acceptance=tokens, max_draft_len=9, engine="sglang"
    )
    least, most = tokens.band(made.draft_len)
    expected = tokens.tokens_per_round(made.draft_len)
    assert most[9] > expected[9]  # beyond what was measured nothing is certain
    low, high = made.speedup_low, made.speedup_high
    assert low is not None
    assert high is not None
    width = made.band or 0.0
    below = math.hypot(width, math.log(expected[9] / least[9]))
    above = math.hypot(width, math.log(most[9] / expected[9]))
    assert math.log(made.speedup[0, 0, 9] / low[0, 0, 9]) == pytest.approx(below)
    assert math.log(high[0, 0, 9] / made.speedup[0, 0, 9]) == pytest.approx(above)
    # At the measured depth the engine alone is uncertain.
    assert math.log(high[0, 0, 3] / made.speedup[0, 0, 3]) == pytest.approx(width)


def test_each_context_has_the_spread_of_its_acceptance() -> None:
    short, long = acceptance_from_length(2.5, 3), constant_acceptance(0.5)
    made = speedup_curve(
        MODEL,
        CHIP,
        drafter=EAGLE3,
        acceptance=context_acceptance({1000.0: short, 8000.0: long}),
        context_len=[1000, 8000],
        max_draft_len=6,
        engine="sglang",
    )
    high = made.speedup_high
    assert high is not None
    width = np.log(high / made.speedup)[:, 0, 6]
    assert width[0] > width[1]
    assert width[1] == pytest.approx(made.band)


def test_what_was_measured_at_some_contexts_is_said_of_those_alone() -> None:
    curves = {1000.0: acceptance_from_length(2.5, 3), 8000.0: acceptance_from_length(2.2, 5)}
    made = speedup_curve(
        MODEL,
        CHIP,
        drafter=EAGLE3,
        acceptance=context_acceptance(curves),
        context_len=[500, 1000, 8000, 9000],
        max_draft_len=6,
        engine="sglang",
    )
    # Nothing is known at 500 and 9000; of the others the shorter measurement counts.
    assert made.measured_draft_len == 3
    assert np.isnan(made.speedup[[0, -1], :, 1:]).all()


def test_verdicts_follow_the_side_of_the_band() -> None:
    speedup = np.array([[1.0, 1.3, 1.2], [1.0, 1.05, 0.9], [1.0, 0.7, 0.6], [1.0, *[np.nan] * 2]])
    low, high = band_ends(speedup, 0.1, (0.0, 0.0))
    assert verdicts(speedup, low, high).tolist() == ["pays", "unclear", "loses", ""]


def test_nothing_drafted_is_no_verdict() -> None:
    plain = np.ones((2, 1))
    assert verdicts(plain, plain, plain).tolist() == ["", ""]


@given(st.floats(0.1, 10), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_wider_band_holds_a_narrower_one(s: float, w: float, below: float, above: float) -> None:
    speedup = np.array([1.0, s])
    low, high = band_ends(speedup, w, (below, above))
    assert low[1] <= s <= high[1]
    wider = band_ends(speedup, w + 0.1, (below, above))
    assert wider[0][1] <= low[1] <= high[1] <= wider[1][1]


def test_drafts_within_the_band_may_be_the_best() -> None:
    made = replace(curve(), band=0.1)
    within = made.best_within_band()
    assert within is not None
    shortest, longest = (int(end.item()) for end in within)
    best = float(made.best_speedup.item())
    reaching = [n for n in range(7) if made.speedup[0, 0, n] * math.exp(0.1) >= best]
    assert (shortest, longest) == (reaching[0], reaching[-1])


def test_json_and_tables_have_bands_and_the_ideal_engine_none() -> None:
    words = ["predict", "Qwen/Qwen3-8B", "-H", "h200", "--drafter", "eagle3,accept=0.7"]
    words += ["--max-draft-len", "3", "--batch", "1,8"]
    told = CliRunner().invoke(app, [*words, "--engine", "sglang", "--json"])
    (drafter,) = json.loads(told.stdout.splitlines()[-1])["drafters"]
    assert np.shape(drafter["speedup_low"]) == np.shape(drafter["speedup"]) == (1, 2, 4)
    assert drafter["speedup_high"][0][0][3] > drafter["speedup"][0][0][3]
    assert drafter["verdict"] == [["pays", "pays"]]
    assert np.shape(drafter["best_within_band"]) == (1, 2, 2)
    ideal = CliRunner().invoke(app, [*words, "--engine", "ideal", "--json"])
    (drafter,) = json.loads(ideal.stdout.splitlines()[-1])["drafters"]
    assert drafter["speedup_low"] is drafter["speedup_high"] is drafter["verdict"] is None
    text = CliRunner().invoke(app, [*words, "--engine", "sglang"]).stdout
    assert "80% band" in text
    assert "pays" in text
    assert "verdict" not in CliRunner().invoke(app, [*words, "--engine", "ideal"]).stdout
    one = CliRunner().invoke(app, [*words[:-2], "--engine", "sglang"]).stdout
    assert "80% band" in one


# --- what bands are made of -----------------------------------------------------------------------


def test_few_sources_borrow_from_their_neighbours() -> None:
    alike = [Miss(name, "vllm", "mtp", 0.1) for name in "abc"]
    others = [Miss(name, "sglang", "mtp", 0.2) for name in "de"]
    rest = [Miss(name, "sglang", "eagle3", 0.4) for name in "fg"]
    seen = [*alike, *others, *rest]
    own, borrowed, of_all = (
        band_of(seen, *cell) for cell in (("vllm", "mtp"), ("sglang", "mtp"), ("vllm", "eagle3"))
    )
    assert own is not None
    assert borrowed is not None
    assert of_all is not None
    assert own.width == pytest.approx(0.1)
    assert own.points == 3
    assert borrowed.points == 5  # two sources are too few: those of the other engine join
    assert 0.1 < borrowed.width <= 0.2
    assert of_all.points == 7
    assert own.mean_error == pytest.approx(math.exp(0.1) - 1)


def test_a_profile_holds_what_was_measured_often_enough() -> None:
    seen = [Miss(name, "vllm", "mtp", 0.1) for name in "abc"]
    seen += [Miss("a", "vllm", "medusa", 0.5)]
    bands = bands_of(seen, "vllm")
    assert list(bands) == ["mtp", "other"]
    assert bands["mtp"].width == pytest.approx(0.1)
    assert bands_of([], "vllm") == {}
    assert band_of([], "vllm", "mtp") is None


def test_bands_of_a_profile_are_in_the_order_of_their_names() -> None:
    kinds = ["dflash", "dspark", "eagle", "eagle3", "mtp", "ngram"]
    seen = [Miss(name, "vllm", kind, 0.1) for kind in kinds[::-1] for name in "abc"]
    assert list(bands_of(seen, "vllm")) == [*kinds, "other"]


def test_a_long_table_does_not_outweigh_the_others() -> None:
    long = [Miss("long", "vllm", "mtp", 0.01) for _ in range(10_000)]
    rest = [Miss(f"{n}", "vllm", "mtp", 0.5) for n in range(25)]
    band = band_of([*long, *rest], "vllm", "mtp")
    assert band is not None
    assert band.width == pytest.approx(0.5)


def test_bands_are_as_wide_as_the_sources_themselves_say() -> None:
    # Three of 1: 0.53 of a band of 1.9 that 1, 1 and 2 set. Of 2: twice the band of 1.
    seen = [Miss(name, "vllm", "mtp", off) for name, off in zip("abcd", (1, 1, 1, 2), strict=True)]
    shares = sorted([1 / 1.9] * 3 + [2 / 1.0])
    expected = shares[2] + 0.4 * (shares[3] - shares[2])  # 80 % of the way from first to last
    scale = width_scale(seen)
    assert scale == pytest.approx(expected)
    plain, scaled = (band_of(seen, "vllm", "mtp", scale=one) for one in (1.0, scale))
    assert plain is not None
    assert scaled is not None
    assert scaled.width == pytest.approx(expected * plain.width)
    assert scaled.mean_error == plain.mean_error
    assert {name: band.width for name, band in bands_of(seen, "vllm", scale=scale).items()} == {
        "mtp": scaled.width,
        "other": scaled.width,
    }


def test_one_source_cannot_say_how_wide_its_own_bands_are() -> None:
    assert width_scale([Miss("a", "vllm", "mtp", 0.1)] * 3) == 1.0
    assert width_scale([]) == 1.0
    # Nothing was off: how much of no width a miss takes is not known.
    assert width_scale([Miss(name, "vllm", "mtp", 0.0) for name in "ab"]) == 1.0


@pytest.mark.slow
@pytest.mark.long
def test_calibrated_bands_hold_what_they_promise_of_dice() -> None:
    # Long tables are measured more carefully than short ones.
    rng = np.random.default_rng(5)
    sizes = {f"{n}": 200 if n < 4 else 12 for n in range(24)}
    seen = [
        Miss(name, "vllm", "mtp", off)
        for name, size in sizes.items()
        for off in np.abs(rng.normal(0.0, 0.05 if size > 100 else 0.1, size)).tolist()
    ]
    held = {True: 0, False: 0}
    for name in sizes:
        others = [one for one in seen if one.source != name]
        for calibrated in held:
            scale = width_scale(others) if calibrated else 1.0
            band = band_of(others, "vllm", "mtp", scale=scale)
            assert band is not None
            held[calibrated] += sum(one.off <= band.width for one in seen if one.source == name)
    assert held[True] / len(seen) == pytest.approx(0.8, abs=0.05)
    assert held[False] / len(seen) > 0.88
