"""Requests: prefills counted, shares that add up, and the way back to decoding alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import (
    OptionError,
    Placement,
    constant_acceptance,
    load_hardware,
    load_model,
    speedup_curve,
)
from specroof.cost import ForwardPass
from specroof.drafters import autoregressive_drafter, ideal_drafter
from specroof.hardware import EngineProfile
from specroof.latency import engine_setup
from specroof.serving.requests import (
    Workload,
    decode_tokens_per_s,
    end_to_end,
    end_to_end_tokens_per_s,
    prefill_frac,
    request_s,
)
from specroof.speedup.curve import forward_latency

positive = st.floats(min_value=1e-4, max_value=10)


def test_the_mean_context_is_the_prompt_and_half_the_answer() -> None:
    assert Workload(1000, 500).mean_context_len == 1250


@pytest.mark.parametrize(("prompt", "answer"), [(0, 10), (10, 0.5), (float("nan"), 10)])
def test_a_request_without_tokens_is_refused(prompt: float, answer: float) -> None:
    with pytest.raises(OptionError, match=r"_len is .*; allowed: a number from 1 to 100000000"):
        Workload(prompt, answer)


def test_a_request_waits_for_one_pass_over_its_prompt() -> None:
    model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("b200")
    setup = engine_setup(chip, "ideal", None, None)
    prefill = ForwardPass(1, 2048, 0, head_len=1, settled=True)
    expected = float(forward_latency(model, chip, prefill, engine="ideal").total_s)
    assert request_s(model, setup, 2048) == expected
    # 2 flops x 6.9e9 weights in matmuls x 2048 tokens over 2.25 PFLOP/s, attention on top.
    assert expected == pytest.approx(2 * 6.95e9 * 2048 / 2.25e15, rel=0.1)


@given(st.integers(1, 64), positive, positive, st.integers(1, 4096), st.just(0.0) | positive)
def test_decoding_alone_is_what_is_left_of_a_throughput(
    batch: int, token_s: float, wait_s: float, output_len: int, latency_s: float
) -> None:
    amounts = {"wait_s": wait_s, "output_len": output_len, "latency_s": latency_s}
    whole = end_to_end_tokens_per_s(batch, token_s, **amounts)
    back = decode_tokens_per_s(batch, whole, **amounts)
    share = prefill_frac(batch, token_s, **amounts)
    # What prefills and the way in and out take is what decoding loses.
    per_answer_s = output_len * token_s + batch * wait_s + latency_s
    lost = float(share) + latency_s / per_answer_s
    assert float(share) == pytest.approx(batch * wait_s / per_answer_s)
    assert float(whole) == pytest.approx(batch / token_s * (1 - lost), rel=1e-6)
    if lost < 0.999:  # beyond, the difference of two large times is rounding
        assert float(back) == pytest.approx(batch / token_s, rel=1e-6)


def test_a_request_on_its_way_is_not_decoded_and_keeps_nobody_waiting() -> None:
    model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("b200")
    slow = EngineProfile(name="slow", request_latency_s=3.0)
    hardware = replace(chip, engines={"slow": slow})
    curve = speedup_curve(
        model, hardware, drafter=ideal_drafter(), batch_size=[4], context_len=250,
        max_draft_len=0, engine="slow",
    )  # fmt: skip
    found = end_to_end(curve, model, engine_setup(hardware, "slow", None, None), Workload(200, 100))
    # By hand: 100 steps and four prefills that all wait for, and 3 s that only the request feels.
    answer_s = 100 * float(curve.decode_s[0, 0]) + 4 * found.wait_s + 3.0
    assert float(found.tokens_per_s[0, 0, 0]) == pytest.approx(400 / answer_s)
    away = 4 * (found.wait_s + 3.0) / answer_s
    assert float(found.effective_batch[0, 0, 0]) == pytest.approx(4 - away)


def test_prefills_that_leave_no_time_are_refused() -> None:
    with pytest.raises(OptionError, match="leave no time to decode; allowed: below 100"):
        decode_tokens_per_s(2, 150.0, wait_s=1.0, output_len=100)
    # Two requests of 1 s that both wait for, and 2 s that each loses alone: 200 tokens in 4 s.
    amounts = {"wait_s": 1.0, "output_len": 100, "latency_s": 2.0}
    with pytest.raises(OptionError, match="leave no time to decode; allowed: below 50"):
        decode_tokens_per_s(2, 60.0, **amounts)
    assert float(decode_tokens_per_s(2, 49.0, **amounts)) > 0
    with pytest.raises(OptionError, match="allowed: below 100"):
        decode_tokens_per_s(2, 150.0, wait_s=0.0, output_len=100, latency_s=2.0)


def test_prefills_take_from_the_speedup_and_not_from_not_drafting() -> None:
    model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("b200")
    workload = Workload(4096, 512)
    curve = speedup_curve(
        model,
        chip,
        drafter=autoregressive_drafter(0.05),
        acceptance=constant_acceptance(0.8),
        batch_size=[1, 16],
        context_len=workload.mean_context_len,
        max_draft_len=4,
        placement=Placement(),
        engine="ideal",
    )
    found = end_to_end(curve, model, engine_setup(chip, "ideal", None, None), workload)
    assert found.speedup[..., 0] == pytest.approx(1)
    assert np.all(found.speedup[..., 1:] < curve.speedup[..., 1:])
    assert found.tokens_per_s.shape == curve.round_s.shape
    # By hand at batch 1 without drafts: 512 steps and one prefill.
    seconds = 512 * float(curve.decode_s[0, 0]) + found.wait_s
    assert float(found.tokens_per_s[0, 0, 0]) == pytest.approx(512 / seconds)
    assert float(found.effective_batch[0, 0, 0]) == pytest.approx(1 - found.wait_s / seconds)


def test_prefills_bound_the_free_lunch() -> None:
    model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("b200")
    workload = Workload(4096, 512)
    curve = speedup_curve(
        model,
        chip,
        drafter=autoregressive_drafter(0.05),
        acceptance=constant_acceptance(0.5),
        batch_size=[1, 16],
        context_len=workload.mean_context_len,
        max_draft_len=2,
        engine="ideal",
    )
    np.testing.assert_array_equal(curve.free_lunch, curve.tokens_per_round)
    found = end_to_end(curve, model, engine_setup(chip, "ideal", None, None), workload)
    assert found.curve.requests == "4096 tokens in, 512 out"
    # Sixteen answers of 512 tokens, 1.75 a round, each round as long as a plain step.
    step_s, prefills_s = float(curve.decode_s[0, 1]), 16 * found.wait_s
    lunch = (512 * step_s + prefills_s) / (512 / 1.75 * step_s + prefills_s)
    assert float(found.curve.free_lunch[0, 1, 2]) == pytest.approx(lunch)
    assert np.all(found.speedup <= found.curve.free_lunch)


def test_shares_with_drafts_by_hand() -> None:
    model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("b200")
    slow = EngineProfile(name="slow", request_overhead_s=0.25, request_latency_s=3.0)
    hardware = replace(chip, engines={"slow": slow})
    curve = speedup_curve(
        model, hardware, drafter=autoregressive_drafter(0.05), batch_size=[2, 4],
        acceptance=constant_acceptance(0.5), context_len=[250, 1000], max_draft_len=2,
        engine="slow",
    )  # fmt: skip
    found = end_to_end(curve, model, engine_setup(hardware, "slow", None, None), Workload(200, 100))
    assert found.wait_s > 0.25
    # Four answers of 100 tokens, 1.75 a round, at the longer context.
    answer_s = 100 / 1.75 * float(curve.round_s[1, 1, 2]) + 4 * found.wait_s + 3.0
    assert float(found.tokens_per_s[1, 1, 2]) == pytest.approx(400 / answer_s)
    assert float(found.prefill_frac[1, 1, 2]) == pytest.approx(4 * found.wait_s / answer_s)
    away = 4 * (found.wait_s + 3.0) / answer_s
    assert float(found.effective_batch[1, 1, 2]) == pytest.approx(4 - away)
    # Two of them at the shorter context, over the same without drafts.
    plain_s = 100 * float(curve.decode_s[0, 0]) + 2 * found.wait_s + 3.0
    assert float(found.speedup[0, 0, 2]) == pytest.approx(
        plain_s / (100 / 1.75 * float(curve.round_s[0, 0, 2]) + 2 * found.wait_s + 3.0)
    )
