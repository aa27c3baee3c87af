"""Counters of vLLM and SGLang as load, acceptance and the time of a round."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_pages import SERVED, Life, line, ngram_page, sglang_page, vllm_page, without_steps
from specroof.acceptance import Acceptance
from specroof.errors import MeasurementError
from specroof.reading.metrics_text import Sample, parse_metrics
from specroof.serving.metrics import Counted, counted
from specroof.serving.observed import Observed, measured_acceptance, observed
from tables import rows


def counts(*texts: str, model: str | None = None) -> Counted:
    pages = [parse_metrics(text, source="page") for text in texts]
    return counted(pages, sources=["page"] * len(pages), model=model)


def seen(*texts: str, seconds: float | None = None, model: str | None = None) -> Observed:
    return observed(counts(*texts, model=model), seconds)


def acceptance_of(found: Observed, kind: str = "eagle3") -> Acceptance:
    curve = measured_acceptance(found, kind)
    assert curve is not None
    return curve


def without(page: str, word: str) -> str:
    return "".join(f"{one}\n" for one in page.splitlines() if word not in one)


LIFE = Life(1000.0)
LATER = LIFE.at(1030.0)

survivals = st.lists(st.floats(0.05, 1.0), min_size=1, max_size=8).map(
    lambda rates: tuple(np.cumprod(rates).tolist())
)
lives = st.builds(
    Life,
    seconds=st.floats(0.0, 1e5),
    running=st.floats(1.0, 500.0),
    round_s=st.floats(0.001, 0.5),
    survival=survivals,
    input_len=st.floats(10, 1e5),
    output_len=st.floats(10, 1e4),
)


@given(life=lives, wait_s=st.floats(5.0, 600.0), framework=st.sampled_from(["vllm", "sglang"]))
def test_a_page_gives_back_the_life_that_it_was_made_of(
    life: Life, wait_s: float, framework: str
) -> None:
    page = vllm_page if framework == "vllm" else sglang_page
    found = seen(page(life), page(life.at(life.seconds + wait_s)), seconds=wait_s)
    assert found.framework == framework
    assert found.running == pytest.approx(life.running, rel=1e-6)
    assert found.waiting == life.waiting
    assert found.round_s == pytest.approx(life.round_s, rel=1e-6)
    assert found.tokens_per_round == pytest.approx(life.tokens_per_round, rel=1e-6)
    rate = life.running * life.tokens_per_round / life.round_s
    assert found.tokens_per_s == pytest.approx(rate, rel=1e-6)
    assert found.input_len == pytest.approx(life.input_len, rel=1e-6)
    assert found.output_len == pytest.approx(life.output_len, rel=1e-6)
    assert found.longest == len(life.survival)
    assert found.draft_len == pytest.approx(len(life.survival), rel=1e-6)
    curve = acceptance_of(found)
    depth = len(life.survival)
    assert float(curve.tokens_per_round(depth)) == pytest.approx(life.tokens_per_round, rel=1e-6)
    if framework == "vllm":
        assert curve.survival(np.arange(1, depth + 1)) == pytest.approx(life.survival, rel=1e-6)
        assert found.survival == pytest.approx(life.survival, rel=1e-6)
    else:
        assert found.survival == ()
        assert curve.measured_depth == depth


def test_ranks_are_added_up_and_copies_are_not() -> None:
    both = [vllm_page(life, engine=0) + vllm_page(life, engine=1) for life in (LIFE, LATER)]
    found = seen(*both, seconds=30.0)
    assert found.ranks == 2
    assert found.running == pytest.approx(80.0)
    assert found.round_s == pytest.approx(0.024)
    (note,) = found.notes
    assert "2 ranks" in note
    copies = [
        sglang_page(life) + sglang_page(life, tp_rank=1) + sglang_page(life, pp_rank=1)
        for life in (LIFE, LATER)
    ]
    found = seen(*copies, seconds=30.0)
    assert (found.ranks, found.waiting, found.longest) == (1, 2.0, 5)
    assert found.tokens_per_s == pytest.approx(40 * 3.04 / 0.024)


def test_ranks_of_data_parallel_attention_have_requests_of_their_own() -> None:
    # Without running requests a rank shows no settings: a mean over ranks leaves it out.
    idle = sglang_page(Life(0.0, running=0.0, survival=()), dp_rank=1, tp_rank=4)
    scheduler = [text for text in idle.splitlines() if "tp_rank" in text]
    found = seen(sglang_page(LIFE, dp_rank=0) + "\n".join(scheduler) + "\n")
    assert (found.ranks, found.running, found.waiting, found.longest) == (2, 40.0, 4.0, 5)
    assert found.tokens_per_round == pytest.approx(3.04)


def test_a_class_of_requests_is_not_counted_twice() -> None:
    name = "sglang:num_running_reqs"
    labels = {"model_name": SERVED, "tp_rank": 0}
    page = "\n".join(
        line(name, value, labels | {"priority": one})
        for one, value in {"": 40.0, "0": 30.0, "1": 10.0}.items()
    )
    assert seen(page + "\n").running == 40.0


def test_one_of_several_models_is_named() -> None:
    page = vllm_page(LIFE) + vllm_page(Life(1000.0, running=8.0), model="small")
    with pytest.raises(
        MeasurementError, match=r"^page: .*allowed: one of Qwen/Qwen3-8B, small .served_name"
    ):
        counts(page)
    with pytest.raises(
        MeasurementError, match=r"^page: .*'large'; allowed: one of Qwen/Qwen3-8B, small"
    ):
        counts(page, model="large")
    found = seen(page, model="small")
    assert (found.model, found.running, found.ranks) == ("small", 8.0, 1)


@pytest.mark.parametrize("page", [vllm_page, sglang_page])
def test_a_server_that_began_anew_has_no_rates(page: Callable[[Life], str]) -> None:
    found = seen(page(LIFE), page(LIFE.at(20.0)), seconds=30.0)
    assert found.seconds is found.tokens_per_s is None
    assert found.running == 40.0
    assert found.round_s == pytest.approx(0.024)
    assert found.tokens_per_round == pytest.approx(3.04)
    assert found.notes[0].startswith("the server restarted between the two reads")


def test_one_rank_that_began_anew_is_seen_behind_one_that_goes_on() -> None:
    both = [
        vllm_page(LIFE, engine=0) + vllm_page(Life(50.0), engine=1),
        vllm_page(LIFE.at(5000.0), engine=0) + vllm_page(Life(20.0), engine=1),
    ]
    found = counts(*both)
    assert found.restarted
    assert found.counts["rounds"] == pytest.approx(40 / 0.024 * (4000 + 20))


@pytest.mark.parametrize(("text", "reason"), rows("refusals", "other_software"))
def test_other_software_is_refused(text: str, reason: str) -> None:
    with pytest.raises(MeasurementError, match=reason):
        counts(text)


def test_two_pages_are_of_one_server() -> None:
    with pytest.raises(MeasurementError, match=r"vllm and sglang; allowed: .* one server"):
        counts(vllm_page(LIFE), sglang_page(LATER))


@pytest.mark.parametrize("framework", ["vllm", "sglang"])
def test_without_speculation_a_step_has_a_time(framework: str) -> None:
    plain = replace(LIFE, survival=(), round_s=0.015)
    texts = [
        vllm_page(life, off=True) if framework == "vllm" else sglang_page(life)
        for life in (plain, plain.at(1030.0))
    ]
    found = seen(*texts, seconds=30.0)
    assert not found.speculates
    assert (found.draft_len, found.longest, found.survival) == (None, None, ())
    assert found.round_s == pytest.approx(0.015)
    assert found.tokens_per_s == pytest.approx(40 / 0.015)
    assert measured_acceptance(found, "eagle3") is None
    assert found.notes == ()


@pytest.mark.parametrize("page", [vllm_page, sglang_page])
def test_no_round_between_the_reads_is_said(page: Callable[[Life], str]) -> None:
    quiet = replace(LIFE, running=0.0, ended=False)
    texts = [page(quiet), page(quiet.at(1030.0))]
    if page is sglang_page:  # which goes on to show the last length, but after a restart
        texts = [without(text, "accept_length") for text in texts]
    found = seen(*texts, seconds=30.0)
    assert found.speculates
    assert found.longest == 5
    assert found.round_s is found.tokens_per_round is found.input_len is None
    assert measured_acceptance(found, "eagle3") is None
    (note,) = found.notes
    assert "no round " in note


def test_the_length_that_sglang_shows_stands_in_until_requests_end() -> None:
    texts = [sglang_page(replace(life, ended=False)) for life in (LIFE, LATER)]
    found = seen(*texts, seconds=30.0)
    assert found.tokens_per_round == pytest.approx(3.04)
    assert found.length_from == "as last shown: no request ended"
    assert found.rounds == 0


def test_shares_by_position_are_too_low_where_drafts_vary() -> None:
    # Half of the rounds with 1 draft, half with 5: a mean of 3.
    mixed = replace(LIFE, survival=(0.8, 0.25, 0.2, 0.1, 0.05), drafts=3.0)
    found = seen(vllm_page(mixed))
    assert found.draft_len == pytest.approx(3.0)
    assert found.longest == 5
    assert found.notes[0].startswith("drafts vary (mean 3.00 of 5): shares by position are too low")
    curve = acceptance_of(found)
    assert float(curve.tokens_per_round(3)) == pytest.approx(2.4)
    assert curve.max_draft_len is None


@pytest.mark.parametrize(("steps", "verified", "drafts"), rows("values", "sglang_positions"))
def test_sglang_counts_positions_in_several_ways(
    steps: float, verified: float, drafts: int | None
) -> None:
    life = replace(LIFE, survival=(0.8,))
    found = seen(sglang_page(life, steps=steps, verified=verified))
    assert found.longest == drafts
    trees = [note for note in found.notes if note.startswith("a tree")]
    assert trees == ([f"a tree: {steps} steps, 8 positions verified"] if verified == 8 else [])


@pytest.mark.parametrize("ended", [True, False])
def test_sglang_drafts_that_accepts_although_it_shows_no_steps(ended: bool) -> None:
    found = seen(without_steps(sglang_page(replace(LIFE, ended=ended))))
    assert found.speculates
    assert (found.longest, found.draft_len) == (None, None)
    assert found.tokens_per_round == pytest.approx(3.04)
    assert measured_acceptance(found, "eagle3") is None
    assert found.notes[0].startswith("the server drafts, and its metrics do not show how many")
    plain = seen(without_steps(sglang_page(replace(LIFE, survival=()))))
    assert (plain.speculates, plain.notes) == (False, ())


def test_a_draft_length_that_changes_is_that_of_the_second_read() -> None:
    found = seen(sglang_page(LIFE, steps=3, verified=4), sglang_page(LATER), seconds=30.0)
    assert found.longest == 5
    (note,) = found.notes
    assert "draft length" in note


def test_lengths_that_drafts_cannot_give_are_cut() -> None:
    # A request that ends is counted with all of its rounds, others with none.
    life = replace(LIFE, survival=(1.0, 1.0, 1.0))
    found = seen(sglang_page(life, steps=1, verified=2))
    assert found.tokens_per_round == pytest.approx(4.0)
    curve = acceptance_of(found, "mtp")
    assert float(curve.tokens_per_round(1)) == 2.0


def of_samples(samples: dict[str, float], seconds: float | None = None) -> Observed:
    page = [Sample(name, {}, value) for name, value in samples.items()]
    return observed(counted([page], sources=["page"]), seconds)


def test_counts_of_one_are_counts() -> None:
    # 40 verifications of requests that ended; their 31 tokens, 1 of them from a prefill: a round
    # gives one token at least.
    page = {
        "spec_num_steps": 3.0, "spec_num_draft_tokens": 4.0, "spec_verify_calls_total": 40.0,
        "generation_tokens_total": 31.0, "num_requests_total": 1.0,
    }  # fmt: skip
    few = of_samples({f"sglang:{name}": value for name, value in page.items()})
    assert few.tokens_per_round == 1.0
    # One gap is the time of a step.
    gap = "vllm:inter_token_latency_seconds"
    found = of_samples({f"{gap}_sum": 0.02, f"{gap}_count": 1.0}, 10.0)
    assert (found.round_s, found.running) == (0.02, 0.002)
    # One round has shares by position.
    spec = "vllm:spec_decode_num"
    at = [
        Sample(f"{spec}_accepted_tokens_per_pos_total", {"position": str(n)}, float(n == 0))
        for n in (0, 1)
    ]
    samples = [Sample(f"{spec}_drafts_total", {}, 1.0), *at]
    assert observed(counted([samples], sources=["page"]), None).survival == (1.0, 0.0)
    for name in (f"{spec}_drafts_total", "sglang:spec_verify_calls_total"):
        assert of_samples({name: 0.0}).rounds == 0


def test_without_times_between_tokens_a_round_follows_from_the_rate() -> None:
    texts = [without(vllm_page(life), "inter_token") for life in (LIFE, LATER)]
    found = seen(*texts, seconds=30.0)
    assert found.running == 40.0
    assert found.round_s == pytest.approx(0.024)
    assert found.round_from == "running × tokens per round ÷ tokens/s"
    assert seen(*texts).round_s is None


def test_vllm_may_count_rounds_without_positions() -> None:
    found = seen(without(vllm_page(LIFE), "per_pos"))
    assert (found.longest, found.survival) == (5, ())
    curve = acceptance_of(found)
    assert float(curve.tokens_per_round(5)) == pytest.approx(3.04)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_values_that_are_no_counts_are_left_out(value: str) -> None:
    labels = f'{{engine="1",model_name="{SERVED}"}}'
    page = vllm_page(LIFE) + f"vllm:num_requests_running{labels} {value}\nvllm:other 1\n"
    found = seen(page + f"vllm:another{labels} NaN\n")
    assert (found.running, found.ranks) == (40.0, 1)
    (note,) = found.notes
    assert note.endswith(": vllm:num_requests_running")


def test_positions_without_a_number_and_servers_without_requests_count_for_nothing() -> None:
    at = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    found = counted([[Sample(at, {"position": "x"}, 1.0)]], sources=["page"])
    assert (found.accepted_at, found.counts, found.gauges, found.ranks) == ((), {}, {}, 1)
    assert observed(found, 5.0).running is None


HALF = replace(LIFE, survival=(0.75, 0.6, 0.45, 0.37))  # 2.17 accepted where something is found


def test_a_mean_of_drafts_that_vary_is_of_the_rounds_that_drafted() -> None:
    found = seen(ngram_page(replace(HALF, drafts=3.0), 0.5))
    curve = acceptance_of(found, "ngram")
    assert float(curve.tokens_per_round(3)) == pytest.approx(3.17)


def test_rounds_that_all_lacked_a_draft_say_nothing_of_acceptance() -> None:
    found = seen(ngram_page(LIFE, 0.0))
    assert (found.tokens_per_round, found.drafted_frac) == (1.0, 0.0)
    assert measured_acceptance(found, "ngram") is None


def test_sglang_verifies_what_found_nothing_too() -> None:
    assert seen(sglang_page(LIFE)).drafted_frac == 1.0
    assert seen(sglang_page(replace(LIFE, ended=False))).drafted_frac is None


def test_more_accepted_drafts_than_were_made_are_refused() -> None:
    page = vllm_page(replace(LIFE, survival=(1.0, 1.0)))
    assert seen(page).tokens_per_round == pytest.approx(3.0)
    damaged = page.replace("spec_decode_num_draft_tokens_total{", "other{")
    made = f'vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="{SERVED}"}} 12\n'
    with pytest.raises(MeasurementError, match=r"num_accepted_tokens_total: .*allowed: at most 12"):
        seen(damaged + made)
