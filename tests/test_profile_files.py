"""What engines and labs write about acceptance, read, and refused in one line where it is off."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specroof
from commands import refused
from specroof.acceptance.published.formats import parse_profiles
from specroof.catalog.profiles import load_profiles_file
from tables import refusal, rows

COUNTERS = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="org/m"} 600.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="org/m"} 400.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="org/m"} 1.78e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="org/m"} 3000.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="org/m"} 1300.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="org/m",position="0"} 500.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="org/m",position="0"} 300.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="org/m",position="1"} 400.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="org/m",position="2"} 1e+02
vllm:num_requests_running{engine="0"} 3.0
"""
VLLM_LINE = (
    "INFO 11-20 12:00:00 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: {mean}, "
    "Accepted throughput: 21.00 tokens/s, Drafted throughput: 60.00 tokens/s, Accepted: 101 "
    "tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft "
    "acceptance rate: 33.8%\n"
)
SGLANG_LINE = (
    "[2026-11-20 12:00:00] Decode batch. #running-req: 1, #token: 512, token usage: 0.01, accept "
    "len: {length}, cuda graph: True, gen throughput (token/s): 300.00, #queue-req: 0\n"
)
MODELOPT = {
    "num_speculative_tokens": 3,
    "conditional_accept_rates": [0.8, 0.5, 0.5],
    "marginal_accept_rates": [0.8, 0.4, 0.2],
    "mean_accept_length": 2.4,
    "acceptance_length_histogram": [20, 40, 20, 20],
    "measurement_conditions": {"model": "org/target", "dataset": "mt-bench"},
}


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


@given(st.lists(st.integers(0, 50), min_size=2, max_size=9).filter(any))
def test_tokens_per_round_of_a_histogram_are_its_mean_and_one(counts: list[int]) -> None:
    rounds = np.repeat(np.arange(len(counts)), counts)
    profile = one(json.dumps({"request": "a", "acceptance_histogram": counts}))
    assert profile.tokens_per_round == pytest.approx(rounds.mean() + 1)
    assert profile.n_rounds == len(rounds)


@pytest.mark.parametrize(
    "text",
    [
        '{"metrics": [{"acceptance_histogram": [1, 0, 2]}, {"acceptance_histogram": [0, 1]}]}',
        '{"acceptance_histogram": [1, 0, 2]}\n\n{"acceptance_histogram": {"1": 1}}\n',
        '[{"acceptance_histogram": {"2": 2, "0": 1}}, {"acceptance_histogram": [0, 1.0]}]',
        "[" * 28 + '{"acceptance_histogram": [1, 1, 2]}' + "]" * 28,
    ],
)
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
    # SGLang's windows show lengths alone; the draft length is asked for.
    text = SGLANG_LINE.format(length="2.50") + SGLANG_LINE.format(length="3.50")
    assert one(text, drafts=7).lengths == ((7, 3.0),)


def test_a_speculation_profile_says_whether_the_bonus_token_is_in() -> None:
    profile = one(json.dumps(MODELOPT))
    assert profile.survival == (0.8, 0.4, 0.2)
    assert (profile.model, profile.task, profile.n_rounds) == ("org/target", "mt-bench", 100)
    assert "the bonus token is in mean_accept_length" in profile.counted
    without = one(json.dumps(MODELOPT | {"mean_accept_length": 1.4}))
    assert "the bonus token is not in mean_accept_length" in without.counted
    assert without.tokens_per_round == profile.tokens_per_round == pytest.approx(2.4)


@pytest.mark.parametrize("left_out", ["conditional_accept_rates", "marginal_accept_rates"])
def test_either_kind_of_rates_will_do(left_out: str) -> None:
    kept = {key: value for key, value in MODELOPT.items() if key != left_out}
    kept |= {"acceptance_length_histogram": {"1": 0.2, "2": 0.8}, "measurement_conditions": None}
    del kept["mean_accept_length"]
    profile = one(json.dumps(kept))
    assert profile.survival == pytest.approx((0.8, 0.4, 0.2))
    assert profile.n_rounds is None


def test_golden_lengths_have_models_modes_and_whole_numbers() -> None:
    text = """
    # golden acceptance lengths
    GLM-5.2:
      thinking_on:
        1: 1.84
        2: 2.50
      thinking_off: {1: 1.9, 3: 3.1}
    Kimi-K3:
      default: {8: 3.9}
    """
    found = [(p.model, p.task, dict(p.lengths)) for p in parse_profiles(text, "file")]
    assert found == [
        ("GLM-5.2", "thinking_on", {1: 1.84, 2: 2.5}),
        ("GLM-5.2", "thinking_off", {1: 1.9, 3: 3.1}),
        ("Kimi-K3", "default", {8: 3.9}),
    ]


def test_a_trace_bank_is_a_profile_for_each_category() -> None:
    text = "commits,category,a0,a1\n2,chat,.9,.8\n0,chat,.3,.2\n1,code,.9,.1\n"
    chat, code = parse_profiles(text, "file")
    assert (chat.task, chat.survival, chat.n_rounds) == ("chat", (0.5, 0.5), 2)
    assert (code.task, code.survival) == ("code", (1.0, 0.0))


def without(word: str) -> str:
    return "".join(f"{line}\n" for line in COUNTERS.splitlines() if word not in line)


#: Counters with one thing changed.
COUNTED: list[tuple[str, str, str]] = rows("refusals", "counters")
#: Histograms of accepted drafts.
HISTOGRAMS: list[tuple[object, str]] = rows("refusals", "histograms")
#: Rates by position in lines of vLLM's log.
LOGGED: list[tuple[list[str], str]] = rows("refusals", "logs")
#: Speculation profiles with keys changed.
PROFILED: list[tuple[dict[str, object], str]] = rows("refusals", "speculation_profiles")
#: Whole texts.
TEXTS: list[tuple[str, str]] = [
    *rows("refusals", "acceptance_texts"),
    (without("per_pos"), "accepted_tokens_per_pos is []; allowed: every position from 0 on"),
    (without("accepted_tokens_total").replace("500.0", "5000.0"), "allowed: a number from 0 to 1"),
    (without("accepted_tokens_total").replace("1e+02", "9e+02"), "never rise"),
    (VLLM_LINE.format(mean="1", drafted=0, rates="0.0, 0.0"), "more than 0"),
    (SGLANG_LINE.format(length="2.50"), "num_draft_tokens=8"),
    ("[" * 100_000, ""),
    ('{"a":' * 200_000, ""),
    # Deeply nested JSON is not walked.
    ("[" * 200 + '{"acceptance_histogram": [1, 1]}' + "]" * 200, "holds no"),
    ("commits,category,a0\n1," + "x" * 200_000 + ",.5", "allowed: plain CSV"),
]
REFUSED = [
    *((COUNTERS.replace(old, new), message) for old, new, message in COUNTED),
    *((json.dumps({"acceptance_histogram": one}), message) for one, message in HISTOGRAMS),
    *(
        ("".join(VLLM_LINE.format(mean="2", drafted=30, rates=one) for one in rates), message)
        for rates, message in LOGGED
    ),
    *((json.dumps(MODELOPT | changed), message) for changed, message in PROFILED),
    (json.dumps(MODELOPT | {"mean_accept_length": 10**400}), "a number from 0 to 1e+20"),
    *TEXTS,
]


@pytest.mark.parametrize(
    ("text", "message"),
    REFUSED,
    ids=[f"{n} {message[:30]}" for n, (_, message) in enumerate(REFUSED)],
)
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
    log = tmp_path / "server.log"
    log.write_text(SGLANG_LINE.format(length="2.50"))
    assert specroof.load_profile(log, drafts="num_draft_tokens=8").lengths == ((7, 2.5),)
    # A SPEC has no word for a file's drafts, but one for the length that the file holds.
    with pytest.raises(specroof.OptionError, match=r"or accept-length=2\.5@DRAFTS in a SPEC$"):
        specroof.load_drafter(f"eagle3,profile={log}")


def test_drafts_that_are_told_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text(COUNTERS)  # counts 3 positions
    assert [profile.draft_len for profile in load_profiles_file(path, drafts="3")] == [3]
    with pytest.raises(specroof.OptionError, match=r"^drafts is 5, and .*metrics\.txt says 3; "):
        load_profiles_file(path, drafts="5")
    line = refused("acceptance show qwen3-8b/eagle3/mbpp --drafts 5")
    assert line == "--drafts is '5'; allowed: beside a file that does not say them"


def test_a_file_of_several_profiles_is_none(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text("m: {on: {1: 1.5}, off: {1: 1.6}}")
    assert len(load_profiles_file(path)) == 2
    with pytest.raises(specroof.OptionError, match="drafts is 8; allowed: drafts per round, as in"):
        load_profiles_file(path, drafts=8)  # type: ignore[arg-type]
    with pytest.raises(specroof.CatalogError, match=r"holds 2 profiles \(.*/m/on, .*/m/off\);"):
        specroof.load_profile(path)


def test_a_length_beyond_the_drafts_that_are_told_is_refused() -> None:
    text = SGLANG_LINE.format(length="3.00")
    with pytest.raises(specroof.OptionError, match=r"^file.* is 3\.0; allowed: .* from 1 to 2"):
        parse_profiles(text, "file", 1)
