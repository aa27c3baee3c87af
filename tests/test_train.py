"""What training a drafter costs, what it may bring, and when it has paid: by hand."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from commands import run
from specroof import forward_latency, load_model, predict, train
from specroof.acceptance import acceptance_from_length
from specroof.acceptance.published.trained import expected_length, trained_rows
from specroof.architecture.draft_heads import usual_eagle3, usual_mtp
from specroof.cost import ForwardPass
from specroof.drafters.training import training_work
from specroof.questions.train import _days
from tables import present, rows

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MODEL = "Qwen/Qwen3-8B"
ASKED: dict[str, Any] = {"drafter": "eagle3", "samples": 100_000}


def test_the_work_of_a_token_is_counted_by_hand() -> None:
    llama = load_model(LLAMA)
    work = training_work(llama, usual_eagle3(llama), 1, 7)
    layer = 4096 * (2 * 4096 + 2 * 2 * 1024 + 4096) + 3 * 4096 * 14336  # q and k, v of both; o; MLP
    head, fusion = 4096 * 32_000, 3 * 4096 * 4096
    attention = 4 * 4096  # one key, 32 heads of 128: scores and sums
    forward = 2 * (layer + head) + attention
    assert work.flops == pytest.approx(
        3 * (7 * forward + 2 * fusion) + 2 * 4096 * 128_256, rel=1e-3
    )
    assert work.stored_bytes == (3 + 1) * 4096 * 2
    assert training_work(llama, usual_mtp(llama), 1, 1).stored_bytes == 4096 * 2
    # A model of its own learns from the last hidden state alone; two taps keep it besides theirs.
    alone, two = (
        replace(usual_mtp(llama), target_size=None, taps=3),
        replace(usual_mtp(llama), taps=2),
    )
    assert training_work(llama, alone, 1, 1).stored_bytes == 4096 * 2
    assert training_work(llama, two, 1, 1).stored_bytes == 3 * 4096 * 2
    # Medusa's heads all lie in one pass: 5 of a square matrix and one over the vocabulary.
    heads = train(MODEL, "h100", drafter="medusa", samples=1e5, epochs=1, accept_length=2).training
    flops = 3 * 2 * 5 * (4096**2 + 4096 * 151_936) + 2 * 4096 * 151_936
    usual = flops * 1e5 * 540 / (0.044 * 989e12) / 3600
    assert heads.drafter_hours[1] == pytest.approx(usual, rel=0.01)


def test_the_printed_run_on_eight_h100_is_met() -> None:
    # 20 minutes and 1.2 TB for the hidden states of 68 000 samples, 30 minutes an epoch.
    found = train(LLAMA, "h100", drafter="eagle3", samples=68_000, epochs=1).training
    assert found.devices == 8
    assert found.storage_bytes == pytest.approx(1.2e12, rel=0.05)
    assert found.states_hours / 8 * 60 == pytest.approx(20, rel=0.05)
    assert found.drafter_hours[1] / 8 * 60 == pytest.approx(30, rel=0.05)
    # Eight nodes write eight times as fast.
    asked: dict[str, Any] = {"samples": 68_000, "epochs": 1, "training_devices": 64}
    assert train(LLAMA, "h100", **asked).training.states_hours == pytest.approx(found.states_hours)


@pytest.mark.parametrize(("model", "asked", "hours"), rows("values", "printed_trainings"))
def test_printed_runs_that_set_no_pace_are_within_their_range(
    model: str, asked: dict[str, Any], hours: float
) -> None:
    found = train(model, "h100", drafter="eagle3", capacity=False, **asked).training
    least, usual, most = (each / found.devices for each in found.drafter_hours)
    assert least < hours < most
    assert usual == pytest.approx(hours, rel=0.3)


def test_answers_are_written_at_the_rate_that_predict_says() -> None:
    load: dict[str, Any] = {"input_len": 100, "output_len": 200, "concurrency": 256}
    (written,) = predict(MODEL, "h100", drafters="ideal", **load, max_draft_len=1).rows
    hours = 100_000 * 200 / written.plain_tokens_per_s / 3600
    once, at_hand = (
        train(MODEL, "h100", **ASKED, sample_len=300, answer_len=answer_len)
        for answer_len in (200, 0)
    )
    assert once.training.answers_hours == pytest.approx(hours)
    assert once.training.hours == pytest.approx([one + hours for one in at_hand.training.hours])
    assert at_hand.training.answer_len == 0
    assert "answers: you have them already" in " ".join(str(at_hand).split())
    # On two devices a server, each token takes twice its device-hours.
    (two,) = predict(
        MODEL, "h100", drafters="ideal", **load, max_draft_len=1, tensor_parallel=2
    ).rows
    spread = train(MODEL, "h100", **ASKED, sample_len=300, answer_len=200, tensor_parallel=2)
    assert spread.training.answers_hours == pytest.approx(
        2 * 100_000 * 200 / two.plain_tokens_per_s / 3600
    )


def test_training_sets_that_the_line_has_not_seen_are_within_its_band(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached: dict[float, list[float]] = {}
    for row in (row for row in trained_rows() if row["kind"] == "eagle3"):
        curve = acceptance_from_length(
            row["accept_length"], int(row.get("draft_len", 3)), kind="eagle3"
        )
        reached.setdefault(row["samples"], []).append(float(curve.tokens_per_round(3)))
    samples, tokens = np.array(list(reached)), np.array([np.mean(one) for one in reached.values()])
    for left_out in range(1, len(samples) - 1):
        seen = np.arange(len(samples)) != left_out
        slope, start = np.polyfit(np.log10(samples[seen]), tokens[seen], 1)
        assert start + slope * np.log10(samples[left_out]) == pytest.approx(
            tokens[left_out], abs=0.3
        )
    line = np.polyfit(np.log10(samples), tokens, 1)
    for n in (5_000, 508_000, 1_420_000):  # from the least to the most
        middle = np.polyval(line, np.log10(n))
        assert expected_length("eagle3", n) == pytest.approx((middle - 0.3, middle, middle + 0.3))
    assert expected_length("dflash", 508_000) is None
    two = [{"kind": "mtp", "samples": n, "accept_length": n / 10} for n in (10.0, 20.0)]
    monkeypatch.setattr("specroof.acceptance.published.trained.trained_rows", lambda: two)
    assert expected_length("mtp", 20.0) == pytest.approx((1.7, 2.0, 2.3))  # two make a line


def test_what_is_saved_pays_for_the_training() -> None:
    served: dict[str, Any] = {"batch_size": 4, "tensor_parallel": 2}
    found = train(MODEL, "h100", **ASKED, **served, tokens_per_day=[3e8, 6e8], price_per_hour=2.0)
    for row in found.rows:
        plain = 2 / row.plain_tokens_per_s / 3600  # device-hours of a token
        saved = plain - 2 / row.tokens_per_s / 3600
        assert row.saved_hours_per_day == pytest.approx(saved * row.tokens_per_day)
        assert row.saved_usd_per_day == pytest.approx(2 * row.saved_hours_per_day)
        days = present(row.days_until_paid)
        assert days == pytest.approx(found.training.hours[1] / row.saved_hours_per_day)
        assert row.tokens_until_paid == pytest.approx(days * row.tokens_per_day)
        assert row.requests_until_paid is None
        # Savings that halve each half-life, summed over all days to come, are the cost.
        kept = 0.5 ** (np.arange(0, 40, 1e-3) + 5e-4) * 1e-3 * present(row.least_half_life_days)
        assert kept.sum() == pytest.approx(days, rel=1e-4)
        least, _, most = found.training.hours
        low, high = (plain * (1 - 1 / gain) * row.tokens_per_day for gain in row.bands["speedup"])
        assert row.bands["days_until_paid"] == pytest.approx((least / high, most / low))
    text = " ".join(str(found).split())  # a line of all traffics, and a column of each
    assert [text.count(_days(row)) for row in found.expected] == [2, 2]
    assert found.training.usd == pytest.approx([2 * hours for hours in found.training.hours])
    (alone,) = predict(MODEL, "h100", drafters="eagle3,accept-length=2.25@3", **served).rows
    assert found.expected[0].speedup == pytest.approx(alone.speedup, rel=0.01)
    assert [day.times_paid for day in found.days] == pytest.approx(
        [0, 0.25, 0.5, 0.75, 1, 0, 0.5, 1, 1.5, 2]
    )


def test_requests_that_arrive_are_answered_by_fewer_servers() -> None:
    asked: dict[str, Any] = {"input_len": 512, "output_len": 200, "requests": 40}
    few, many = (
        train(MODEL, "h100", **ASKED, **asked, rate=rate, tokens_per_day=1e9).rows[-1]
        for rate in (4, 1000)
    )
    assert math.isnan(many.speedup)  # more than are answered without drafts
    for row in (few, many):
        rates = 1 / present(row.plain_largest_stable_rate) - 1 / present(row.largest_stable_rate)
        assert row.saved_hours_per_day == pytest.approx(rates / 200 / 3600 * 1e9)
        assert row.requests_until_paid == pytest.approx((row.tokens_until_paid or 0) / 200)
    # The drafts are those that predict chooses, and so is the rate that is answered with them.
    for row, rate in ((few, 4), (many, 1000)):
        drafter = f"eagle3,accept-length={row.accept_length}@3"
        (alone,) = predict(MODEL, "h100", drafters=drafter, **asked, rate=rate).rows
        assert row.draft_len == alone.draft_len
        assert row.largest_stable_rate == pytest.approx(alone.largest_stable_rate, rel=0.01)


def test_layers_that_a_checkpoint_lacks_are_trained() -> None:
    trained: Any = train(MODEL, "h100", drafter="mtp", samples=100_000, framework="vllm")
    assert trained.drafter == "mtp"


def test_a_free_drafter_is_what_savings_are_beside() -> None:
    plain, free = (
        train(MODEL, "h100", **ASKED, tokens_per_day=1e9, against=against)
        for against in (None, "ngram,accept-length=1.5@3")
    )
    assert free.against == "ngram,accept-length=1.5@3"
    (looked_up,) = predict(MODEL, "h100", drafters=free.against, concurrency=32).rows
    for one, other in zip(plain.rows, free.rows, strict=True):
        assert other.saved_hours_per_day < one.saved_hours_per_day
        saved = 1 / looked_up.tokens_per_s - 1 / other.tokens_per_s  # seconds of a token
        assert other.saved_hours_per_day == pytest.approx(saved / 3600 * 1e9)
    close = train(MODEL, "h100", **ASKED, accept_length=2.0, against="eagle3,accept-length=1.9@3")
    assert "or more)" in str(close)  # within the band nothing is saved
    published: Any = train(MODEL, "h100", **ASKED, against="eagle3")
    assert published.against.startswith("eagle3,profile=qwen3-8b/eagle3/")
    never = train(MODEL, "h100", **ASKED, against="ideal").rows[0]
    assert (never.saved_hours_per_day, never.days_until_paid) == (0, None)


def test_a_training_that_never_pays_is_said_and_drawn() -> None:
    found = train(MODEL, "h100", **ASKED, accept_length=1)
    assert {row.days_until_paid for row in found.rows} == {None}
    assert "never paid" in str(found)
    assert any(text.get_text().startswith("Never paid") for text in found.plot().texts)


def test_hidden_states_that_are_not_kept_are_made_in_every_epoch() -> None:
    once, thrice = (
        train(MODEL, "h100", **ASKED, epochs=epochs, online=True).training for epochs in (1, 3)
    )
    assert (once.storage_bytes, thrice.storage_bytes) == (0, 0)
    assert thrice.states_hours == pytest.approx(3 * once.states_hours)
    # A pass of 8192 tokens holds 15 samples of 540, here on two devices.
    prompts = ForwardPass(batch_size=15, query_len=540, context_len=0, head_len=0)
    pass_s = forward_latency(MODEL, "h100", prompts, tensor_parallel=2).total_s
    two = train(MODEL, "h100", **ASKED, epochs=1, online=True, tensor_parallel=2).training
    assert two.states_hours == pytest.approx(2 * float(pass_s) * 100_000 / 15 / 3600)
    kept = train(MODEL, "h100", **ASKED).training
    assert kept.storage_bytes == 100_000 * 540 * 4 * 4096 * 2


def test_a_server_that_a_traffic_leaves_idle_is_said() -> None:
    few, many = (
        train(MODEL, "h100", **ASKED, tokens_per_day=tokens, tensor_parallel=2)
        for tokens in (1e7, 1e9)
    )
    plain: Any = few.rows[0].plain_tokens_per_s
    said = f"{1e7 / (24 * 3600 * plain):.0%} of the time"
    assert [any(said in note for note in found.notes) for found in (few, many)] == [True, False]


def test_a_kind_without_published_training_says_so() -> None:
    found = train(MODEL, "h100", drafter="dflash", samples=7, unrolled_steps=2, training_devices=1)
    assert (found.unrolled_steps, found.training.devices) == (2, 1)
    # Tutorial of speculators: 1.47 tokens a round on MT-Bench after 5k samples of ShareGPT.
    assert any("1.47 tokens per round of 5.00k samples is all" in note for note in found.notes)
    assert {row.accept_length for row in found.rows} == {2.0, 3.0, 4.0}
    for kind, steps in {"p_eagle": 7, "dflash": 16, "mtp": 1}.items():
        found = train(MODEL, "h100", drafter=kind, samples=7)
        assert found.unrolled_steps == steps
    assert any("nothing is known here of what mtp" in note for note in found.notes)


def test_the_batch_that_the_help_names_is_the_one_of_an_answer() -> None:
    shown = run("train --help", COLUMNS="250")
    (row, *_) = train(MODEL, "h100", drafter="eagle3", samples=100_000).rows
    assert f"1..128 doubles. [default: ({row.load:.0f})]" in shown
