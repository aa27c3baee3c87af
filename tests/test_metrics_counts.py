"""Counters of vLLM and SGLang as load, acceptance and the time of a round."""

import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_pages import (
    SERVED,
    Life,
    give,
    line,
    ngram_page,
    replay,
    sglang_page,
    vllm_page,
    without_steps,
)
from specroof.acceptance import Acceptance
from specroof.catalog.pages import metrics_pages
from specroof.errors import CatalogError, MeasurementError, OptionError
from specroof.reading.metrics_text import Sample, parse_metrics
from specroof.serving.metrics import Counted, counted
from specroof.serving.observed import Observed, measured_acceptance, observed
from tables import refusal, rows


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

lives = st.builds(
    Life,
    seconds=st.floats(0.0, 1e5),
    running=st.floats(1.0, 500.0),
    round_s=st.floats(0.001, 0.5),
    survival=st.lists(st.floats(0.05, 1.0), min_size=1, max_size=8).map(
        lambda rates: tuple(np.cumprod(rates).tolist())
    ),
    input_len=st.floats(10, 1e5),
    output_len=st.floats(10, 1e4),
)


def test_a_page_without_counters_of_drafts_is_of_a_server_without_them() -> None:
    found = seen("llamacpp:tokens_predicted_total 5000\nllamacpp:requests_processing 1\n")
    assert (found.speculates, found.tokens_per_round) == (False, 1.0)


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
    assert curve.n_rounds == pytest.approx(found.rounds * (found.drafted_frac or 1.0))
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
    assert found.survival == pytest.approx(LIFE.survival)
    assert found.round_s == pytest.approx(0.024)
    (note,) = found.notes
    assert "2 ranks" in note
    # The first of them counts, where another writes its page a step later.
    copies = [
        sglang_page(life)
        + sglang_page(replace(life, waiting=3.0), tp_rank=1)
        + sglang_page(replace(life, waiting=3.0), pp_rank=1)
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
    assert seen(sglang_page(LIFE, dp_rank=0) + sglang_page(LIFE, dp_rank=1, tp_rank=4)).longest == 5


def test_a_gauge_is_the_mean_of_the_pages_that_show_it() -> None:
    pages = vllm_page(LIFE), vllm_page(replace(LATER, waiting=4.0))
    assert counts(*pages).gauges["waiting"] == 3.0
    assert counts(without(pages[0], "waiting"), pages[1]).gauges["waiting"] == 4.0


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
        vllm_page(Life(50.0), engine=0) + vllm_page(LIFE, engine=1),
        vllm_page(Life(20.0), engine=0) + vllm_page(LIFE.at(5000.0), engine=1),
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


@pytest.mark.parametrize(
    ("ended", "why"), [(False, "no request ended"), (True, "this release counts no verifications")]
)
def test_the_length_that_sglang_shows_stands_in_for_verifications(ended: bool, why: str) -> None:
    # 0.5.9 has no counter of them: its metrics_collector.py names none.
    pages = [sglang_page(replace(life, ended=ended)) for life in (LIFE, LATER)]
    found = seen(*(without(page, "spec_verify_calls") for page in pages), seconds=30.0)
    assert found.tokens_per_round == pytest.approx(3.04)
    assert found.length_from == f"as last shown: {why}"
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
    assert (found.longest, found.verified) == (drafts, verified or None)
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


def of_samples(
    samples: dict[str, float], seconds: float | None = None, server: str = ""
) -> Observed:
    page = [Sample(server + name, {}, value) for name, value in samples.items()]
    return observed(counted([page], sources=["page"]), seconds)


def test_counts_of_one_are_counts() -> None:
    # 40 verifications of requests that ended; their 31 tokens, 1 of them from a prefill: a round
    # gives one token at least.
    page = {
        "spec_num_steps": 3.0, "spec_num_draft_tokens": 4.0, "spec_verify_calls_total": 40.0,
        "generation_tokens_total": 31.0, "num_requests_total": 1.0,
    }  # fmt: skip
    assert of_samples(page, server="sglang:").tokens_per_round == 1.0
    del page["num_requests_total"]
    page["generation_tokens_total"] = 60.0
    assert of_samples(page, server="sglang:").tokens_per_round == 1.5
    # One gap is the time of a step.
    gap = "vllm:inter_token_latency_seconds"
    found = of_samples({f"{gap}_sum": 0.02, f"{gap}_count": 1.0}, 10.0)
    assert (found.round_s, found.running) == (0.02, 0.002)
    # One round has shares by position.
    spec = "vllm:spec_decode_num"
    at = [
        Sample(f"{spec}_accepted_tokens_per_pos_total", {"position": str(n)}, float(n == 0))
        for n in (1, 0)
    ]
    samples = [Sample(f"{spec}_drafts_total", {}, 1.0), *at]
    assert observed(counted([samples], sources=["page"]), None).survival == (1.0, 0.0)
    for name in (f"{spec}_drafts_total", "sglang:spec_verify_calls_total"):
        assert of_samples({name: 0.0}).rounds == 0


def test_outputs_of_a_server_that_counts_the_time_of_answers_alone() -> None:
    # 1000 tokens, 600 of them drafts: 400 outputs in 20 s of answers, 250 of them with 3 drafts.
    page = {"tokens_predicted_total": 1000.0, "tokens_predicted_seconds_total": 20.0}
    spec = "spec_decode_num_"
    drafts = {f"{spec}drafts_total": 250.0, f"{spec}draft_tokens_total": 750.0}
    drafts |= {f"{spec}accepted_tokens_total": 600.0}
    plain, found = (of_samples(one, 10.0, "llamacpp:") for one in (page, page | drafts))
    assert (plain.speculates, plain.round_s, plain.running) == (False, 20 / 1000, 2.0)
    assert (found.rounds, found.drafted_frac, found.tokens_per_round) == (400, 250 / 400, 2.5)
    assert (found.round_s, found.running, found.tokens_per_s) == (20 / 400, 2.0, 100.0)
    assert (found.draft_len, found.longest, found.prefix_hit_rate) == (3, 3, 0)
    page |= {"tokens_predicted_total": 599.0}  # none is an output: a round follows from the rate
    none = of_samples(page | drafts, 10.0, "llamacpp:")
    assert none.round_s == pytest.approx(2 * (1 + 600 / 250) / 59.9)
    curve = acceptance_of(found)
    assert curve.n_rounds == 250
    assert float(curve.tokens_per_round(3)) == pytest.approx(1 + 600 / 250)
    # Of counters that are read while the server counts on, one may be 5 % beyond what holds it.
    many = {f"vllm:{spec}{name}": 100.0 for name in ("drafts_total", "draft_tokens_total")}
    many |= {"vllm:prompt_tokens_cached_total": 12.0, "vllm:prompt_tokens_total": 10.0}
    read = of_samples(many | {f"vllm:{spec}accepted_tokens_total": 105.0})
    assert (read.tokens_per_round, read.prefix_hit_rate, read.longest) == (2.05, 1.0, 1)
    with pytest.raises(MeasurementError, match="106 drafts were accepted"):
        of_samples(many | {f"vllm:{spec}accepted_tokens_total": 106.0})


def test_without_times_between_tokens_a_round_follows_from_the_rate() -> None:
    texts = [without(vllm_page(life), "inter_token") for life in (LIFE, LATER)]
    found = seen(*texts, seconds=30.0)
    assert found.running == 40.0
    assert found.round_s == pytest.approx(0.024)
    assert found.round_from == "running × tokens per round ÷ tokens/s"
    assert found.drafted_frac is None  # rounds without a draft are counted nowhere
    assert acceptance_of(found).n_rounds == found.rounds
    assert seen(*texts).round_s is None


def test_vllm_may_count_rounds_without_positions() -> None:
    found = seen(without(vllm_page(LIFE), "per_pos"))
    assert (found.longest, found.survival) == (5, ())
    curve = acceptance_of(found)
    assert float(curve.tokens_per_round(5)) == pytest.approx(3.04)
    # Before the first round nobody has counted how many drafts it makes.
    started = seen('vllm:spec_decode_num_drafts_total{engine="0"} 0.0\n')
    assert (started.speculates, started.longest) == (True, None)


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


def test_acceptance_is_of_the_rounds_that_drafted() -> None:
    # 2.17 accepted where something is found
    half = replace(LIFE, survival=(0.75, 0.6, 0.45, 0.37), drafts=3.0)
    curve = acceptance_of(seen(ngram_page(half, 0.5)), "ngram")
    assert float(curve.tokens_per_round(3)) == pytest.approx(3.17)
    none = seen(ngram_page(LIFE, 0.0))
    assert (none.tokens_per_round, none.drafted_frac) == (1.0, 0.0)
    assert measured_acceptance(none, "ngram") is None
    even = acceptance_of(seen(ngram_page(LIFE, 0.5)), "ngram")
    assert even.survival(np.arange(1, 6)) == pytest.approx(LIFE.survival)
    # SGLang verifies what found nothing, too.
    assert seen(sglang_page(LIFE)).drafted_frac == 1.0
    assert seen(sglang_page(replace(LIFE, ended=False))).drafted_frac is None


def test_more_accepted_drafts_than_were_made_are_refused() -> None:
    page = vllm_page(replace(LIFE, survival=(1.0, 1.0)))
    assert seen(page).tokens_per_round == pytest.approx(3.0)
    damaged = page.replace("spec_decode_num_draft_tokens_total{", "other{")
    made = f'vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="{SERVED}"}} 12\n'
    with pytest.raises(MeasurementError, match=r"num_accepted_tokens_total: .*allowed: at most 12"):
        seen(damaged + made)


# --- pages from a server and from files -----------------------------------------------------------


def test_a_server_is_read_twice_at_its_usual_path() -> None:
    paths: list[str] = []

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        paths.append(f"{handler.command} {handler.path}")
        give(handler, f"up {number}\n".encode())

    with replay(answer) as url:
        pages: Any = metrics_pages([url], wait_s=0.05)
        assert pages.texts == ("up 0\n", "up 1\n")
        assert 0.05 <= pages.seconds < 1.0
        assert pages.sources == (f"{url}/metrics",) * 2
        once = metrics_pages([f"{url}/elsewhere?a=b#c"], wait_s=0)
        assert (once.texts, once.seconds) == (("up 2\n",), None)
        metrics_pages([f"{url}/"], wait_s=0)
    assert paths == ["GET /metrics", "GET /metrics", "GET /elsewhere?a=b", "GET /metrics"]


def test_a_server_without_such_a_page_is_not_asked_again() -> None:
    with replay(lambda handler, _number: give(handler, b"", 404)) as url:
        assert metrics_pages([url], wait_s=60).texts == (None,)


def test_a_server_may_move_its_page_but_not_to_another() -> None:
    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        port = handler.headers["Host"].rpartition(":")[2]
        moves = {
            "/metrics": "/metrics/",
            "/same": f"http://127.0.0.1:{port}/metrics/",
            "/host": f"http://localhost:{port}/metrics/",
            "/port": "http://127.0.0.1:1/metrics/",
            "/file": "file:///etc/hostname",
            "/round": "/round",
        }
        if handler.path in moves:
            give(handler, b"", 307, Location=moves[handler.path])
        else:
            give(handler, b"up 1\n")

    with replay(answer) as url:
        assert metrics_pages([url], wait_s=0).texts == ("up 1\n",)
        assert metrics_pages([f"{url}/same"], wait_s=0).texts == ("up 1\n",)
        for path in ("host", "port", "file"):
            with pytest.raises(CatalogError, match=rf"/{path}: .*; allowed: the same server"):
                metrics_pages([f"{url}/{path}"], wait_s=0)
        with pytest.raises(CatalogError, match=r"/round: .*307; allowed"):
            metrics_pages([f"{url}/round"], wait_s=0)


@pytest.mark.parametrize("stated", [True, False])
def test_a_page_of_a_gigabyte_is_not_read(stated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its size ends the reading, on a slow machine too.
    monkeypatch.setattr("specroof.catalog.pages.LONGEST_PAGE_S", 600)
    sent = 0

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        nonlocal sent
        handler.send_response(200)
        if stated:
            handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        chunk = b"up 1\n" * 20_000
        while sent < 1 << 30:
            handler.wfile.write(chunk)
            sent += len(chunk)

    with replay(answer) as url, pytest.raises(CatalogError, match=r"/metrics: .*16777216 bytes"):
        metrics_pages([url], wait_s=0)
    assert sent < 1 << 27


@pytest.mark.parametrize("in_body", [True, False])
def test_a_slow_drip_is_given_up(in_body: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specroof.catalog.pages.LONGEST_PAGE_S", 0.2)

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        if in_body:
            handler.send_response(200)
            handler.end_headers()
        for _ in range(1200):  # a minute; then a reader that waited has another error
            handler.wfile.write(b"x")
            if left.wait(0.05):
                break

    left = threading.Event()
    with replay(answer) as url:
        with pytest.raises(CatalogError, match=r"given up after 0\.2 seconds"):
            metrics_pages([url], wait_s=0)
        time.sleep(0.15)  # the reader ends too, once the next byte has come
        left.set()


def test_other_answers_are_refused() -> None:
    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        if handler.path == "/binary":
            give(handler, b"\xff\xfe")
        elif handler.path == "/garbage":
            handler.wfile.write(b"no such protocol\r\n\r\n")
        else:
            give(handler, b"", 503)

    with replay(answer) as url:
        for path, reason in {
            "binary": "byte 0 is not UTF-8",
            "garbage": "no such protocol",
            "other": "status 503; allowed: a page",
        }.items():
            with pytest.raises(CatalogError, match=reason):
                metrics_pages([f"{url}/{path}"], wait_s=0)
    with pytest.raises(CatalogError, match="refused; allowed: a server that answers"):
        metrics_pages([url], wait_s=0)


def test_files_are_read_as_they_are(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("up 1\n")
    second.write_text("up 2\n")
    both = metrics_pages([first, str(second)], wait_s=30)
    assert (both.texts, both.seconds) == (("up 1\n", "up 2\n"), 30.0)
    assert metrics_pages([first, second]).seconds is None
    assert metrics_pages([first], wait_s=30).seconds is None
    with pytest.raises(CatalogError, match="No such file"):
        metrics_pages([tmp_path / "c"])
    saved = tmp_path / "info.json"
    saved.write_text(' {"tp_size": 1}')
    beside = metrics_pages([first, saved, second], wait_s=30)
    assert (beside.sources, beside.seconds) == ((str(first), str(second)), 30.0)
    assert beside.others == {str(saved): ' {"tp_size": 1}'}
    many: list[list[str]] = [
        *([], [str(saved)], [str(first), "http://localhost"]),
        *([str(first), str(second), str(tmp_path / "d")], ["http://localhost", str(first)]),
    ]
    (tmp_path / "d").write_text("up 3\n")
    for places in many:
        with pytest.raises(OptionError, match=r"places .*allowed: one address"):
            metrics_pages(places)
    with pytest.raises(OptionError, match="wait_s is -1"):
        metrics_pages([first], wait_s=-1)


def test_what_a_server_says_beside_its_metrics_is_read_where_it_does() -> None:
    paths: list[str] = []

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        paths.append(handler.path)
        pages = {"/api/metrics": "up 1\n", "/api/old": "{}", "/api/both": "[]", "/api/key": ""}
        path = handler.path.partition("?")[0]
        status = 404 if path not in pages else 401 if path == "/api/key" else 200
        give(handler, pages.get(path, "").encode(), status)

    rows = (("/new", "/old"), ("/both", "/old"), ("/none",), ("/key",))
    with replay(answer) as url:
        found = metrics_pages([f"{url}/api/v1"], wait_s=0, others=rows)
        assert found.others == {f"{url}/api/old": "{}", f"{url}/api/both": "[]"}
        (reason,) = found.unread
        assert reason.startswith(f"{url}/api/key: status 401")
        again = metrics_pages([f"{url}/api/metrics?x=1"], wait_s=0.01, others=[["/both"]])
        assert (len(again.texts), again.others) == (2, {f"{url}/api/both": "[]"})
        elsewhere = metrics_pages([f"{url}/api/both"], wait_s=0, others=rows)
        assert (elsewhere.others, elsewhere.unread) == ({}, ())  # its root is unknown
    first = ["metrics", "new", "old", "both", "none", "key"]
    later = ["metrics?x=1", "both", "metrics?x=1", "both"]
    assert paths == [f"/api/{name}" for name in (*first, *later)]


# --- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("<html></html>", "a{", 'a{b="c} 1', "a b c", "{", '{"a": 1}', "\x00", "a{} x", 'a{b="c"'),
        *("a", "", "\n\n", "# a comment\n", "INFO SpecDecoding metrics: " + "x" * 9000 + "\n"),
    ],
)
def test_what_is_no_page_is_refused_in_one_line(text: str) -> None:
    line = refusal(MeasurementError, parse_metrics, text, source="page")
    assert re.search(r"^page: .*allowed: .*Prometheus", line)
    assert len(line) < 200


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.parser", None)
    with pytest.raises(MeasurementError, match=r"pip install prometheus-client"):
        parse_metrics("up 1\n", source="page")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_page_that_is_cut_short_is_refused(chunked: bool) -> None:
    page = vllm_page(Life(1000.0)).encode()

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        if chunked:
            handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        if chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        else:
            handler.send_header("Content-Length", str(len(page)))
        handler.end_headers()
        half = page[: len(page) // 2]
        handler.wfile.write(f"{len(page):x}\r\n".encode() + half if chunked else half)
        handler.close_connection = True

    words = "IncompleteRead" if chunked else rf"ends after \d+ bytes; allowed: {len(page)}"
    with replay(answer) as url, pytest.raises(CatalogError, match=words):
        metrics_pages([url], wait_s=0)


def test_a_line_of_more_labels_than_any_server_writes_is_not_parsed() -> None:
    labels = ",".join(f'l{number}="x"' for number in range(3000))
    with pytest.raises(
        MeasurementError, match=r"^page, line 2: .*\d+ characters; allowed: .*16384"
    ):
        parse_metrics(f"up 1\nup{{{labels}}} 1\n", source="page")


@pytest.mark.parametrize(("place", "path"), rows("values", "paths_of_metrics"))
def test_an_address_may_be_of_the_api_and_lack_its_scheme(place: str, path: str) -> None:
    with replay(["up 1\n"]) as url:
        for start in (url, url.removeprefix("http://")):
            assert metrics_pages([start + place], wait_s=0).sources == (url + path,)


def test_a_file_may_be_called_as_a_host_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("localhost:8000").write_text("up 1\n")
    assert metrics_pages(["localhost:8000"]).texts == ("up 1\n",)
    with pytest.raises(CatalogError, match="No such file"):
        metrics_pages(["page.txt"])


def test_a_key_is_sent_to_its_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str | None, str | None]] = []

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        sent.append((handler.headers["Authorization"], handler.headers["X-Api-Key"]))
        if handler.path == "/metrics":
            port = handler.headers["Host"].rpartition(":")[2]
            give(handler, b"", 307, Location=f"http://localhost:{port}/stolen")
        elif handler.headers["Authorization"] is None:
            give(handler, b"", 401)
        else:
            give(handler, b"up 1\n")

    with replay(answer) as url:
        with pytest.raises(CatalogError, match=r"401; allowed: .*--header or SPECROOF_TOKEN"):
            metrics_pages([f"{url}/page"], wait_s=0)
        monkeypatch.setenv("SPECROOF_TOKEN", "sesame\n")
        with pytest.raises(CatalogError, match=r"'.*/stolen'; allowed: the same server") as refusal:
            metrics_pages([url], wait_s=0, headers=["X-API-Key: open"])
        metrics_pages([f"{url}/page"], wait_s=0)
        metrics_pages([f"{url}/page"], wait_s=0, headers=["authorization: Basic mine"])
    assert "sesame" not in str(refusal.value)
    assert "open" not in str(refusal.value)
    assert sent == [
        (None, None),
        ("Bearer sesame", "open"),
        ("Bearer sesame", None),
        ("Basic mine", None),
    ]


@pytest.mark.parametrize(
    ("place", "headers", "token", "said"),
    [
        *(
            (place, [], "", r"allowed: http://HOST\[:PORT\]")
            for place in rows("refusals", "addresses")
        ),
        *(
            ("http://localhost:1", ["A: b", header], "", "^header 2 .*allowed: NAME: VALUE")
            for header in ("secret", "a b: secret", "X:", "X: secret\r\nY: 1", "X: ß", 5)
        ),
        ("http://localhost:1", [], "secret\ntoken", "^SPECROOF_TOKEN .*ASCII"),
        ("page.txt", ["A: secret"], "", "^header .*files; allowed"),
    ],
)
def test_what_no_server_is_asked_is_refused_unrepeated(
    place: str, headers: list[object], token: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECROOF_TOKEN", token)
    with pytest.raises(OptionError, match=said) as refusal:
        metrics_pages([place], wait_s=0, headers=headers)
    assert "secret" not in str(refusal.value)


def test_rounds_that_draft_accept_no_more_than_all_of_their_drafts() -> None:
    some = replace(seen(vllm_page(LIFE), vllm_page(LATER)), survival=(0.8, 0.35), drafted_frac=0.7)
    some = replace(some, draft_len=2.0, longest=2)
    assert acceptance_of(some).survival([1, 2]) == pytest.approx([1, 0.5])  # not 8/7
