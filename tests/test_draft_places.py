"""Where a drafter runs and whether the target waits for it: overlap, own devices, links."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from published_drafters import Ledger, a_round, target_of
from specroof import load_drafter, speedup_curve
from specroof.acceptance import constant_acceptance
from specroof.architecture.base import WEIGHT_FORMATS
from specroof.drafters import Drafter
from specroof.drafters.heads import Where, head_drafter, overlapped_time
from specroof.engines.record import Record, case_of
from specroof.errors import OptionError
from specroof.evidence import Measurement
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import Deployment, engine_setup
from specroof.questions.request import DeploymentRequest
from specroof.serving.launch import launch
from specroof.speedup.result import SpeedupCurve
from strategies import device, real_engine

FAST: Final = device({"bf16": 1e15, "fp16": 1e15}, 1e12)
SLOW: Final = replace(device({"bf16": 1e15, "fp16": 1e15}, 1e11), name="slow device")
times = st.floats(0, 100)
shares = st.floats(0, 1)


TARGET, SMALL = target_of(40), target_of(4)


def curve(drafter: Drafter, hardware: HardwareProfile = FAST, **choices: Any) -> SpeedupCurve:
    return speedup_curve(
        TARGET, hardware, drafter=drafter, acceptance=constant_acceptance(0.8), max_draft_len=4,
        context_len=1000, **choices,
    )  # fmt: skip


def small(where: Where | None = None, **place: Any) -> Drafter:
    return head_drafter("model", SMALL, where=where or Where(**place))


@given(times, times, shares)
def test_a_round_takes_the_published_time(draft_s: float, verify_s: float, hit: float) -> None:
    # p max(t_v, t_d) + (1 - p)(t_v + t_d): SSD, arXiv:2603.03251, with the drafter as its backup.
    time = overlapped_time(np.asarray(draft_s), np.asarray(verify_s), hit)
    expected = hit * max(verify_s, draft_s) + (1 - hit) * (verify_s + draft_s)
    round_s = time.serial_s + np.maximum(verify_s, time.overlapped_s)
    assert float(round_s) == pytest.approx(expected)
    # PEARL waits for the longer of both.
    whole = overlapped_time(np.asarray(draft_s), np.asarray(verify_s), 1.0)
    assert (float(whole.serial_s), float(whole.overlapped_s)) == (0, draft_s)


def test_the_solver_overlaps_what_the_spec_says() -> None:
    in_line = curve(head_drafter("mtp"))
    hidden = curve(head_drafter("mtp", where=Where(hit_rate=1.0)))
    assert np.all(hidden.draft_s[..., 1:] < hidden.verify_s[..., 1:])
    assert hidden.round_s == pytest.approx(hidden.verify_s)
    assert in_line.round_s[..., 1:] == pytest.approx((in_line.verify_s + in_line.draft_s)[..., 1:])
    half = curve(head_drafter("mtp", where=Where(hit_rate=0.5)))
    assert half.round_s == pytest.approx((in_line.round_s + hidden.round_s) / 2)


def test_a_device_of_its_own_prices_the_draft() -> None:
    near = curve(small())
    far = curve(small(Where(SLOW, link_bytes_per_s=1e30, link_latency_s=0.0)))
    # A tenth of the memory's bytes per second, and small batches are bound by it.
    assert far.draft_s == pytest.approx(10 * near.draft_s)
    assert np.array_equal(far.verify_s, near.verify_s)
    with pytest.raises(ValueError, match="`on_own_devices`"):
        small(Where(SLOW)).draft(a_round(TARGET, Ledger()))


def test_the_link_carries_tokens_and_features_there_and_drafts_back() -> None:
    def elsewhere(hardware: Any, placement: Any) -> Ledger:
        assert (hardware, placement) == (SLOW, Placement(1))
        return Ledger()

    lengths = {"draft_len": 5, "batch_size": 8, "context_len": 50, "tokens_per_round": 3}
    round_ = a_round(TARGET, Ledger(), on_own_devices=elsewhere, **lengths)
    where = Where(SLOW, link_bytes_per_s=100.0, link_latency_s=7.0)
    # Five passes of one second. Twice the latency; to the drafter 8 * 3 tokens of 4 bytes, and to
    # a head three taps of 64 bf16 values each, back 8 * 5 tokens of 4 bytes.
    for drafter, taps in ((head_drafter("eagle3", where=where), 3), (small(where), 0)):
        moved = 8 * (3 * (4 + taps * 64 * 2) + 5 * 4)
        assert float(drafter.draft(round_).serial_s) == pytest.approx(5 + 14 + moved / 100)


def test_a_spec_says_how_late_its_link_is() -> None:
    spec = "eagle3,accept=0.7,device=h100,link=1e9,link-latency="
    early, late = (load_drafter(f"{spec}{seconds}") for seconds in (0, 0.25))
    rounds = [
        speedup_curve(
            "Qwen/Qwen3-8B", "h100", drafter=drafter, batch_size=1, context_len=100, max_draft_len=1
        ).round_s[0, 0, 1]
        for drafter in (early, late)
    ]
    assert rounds[1] - rounds[0] == pytest.approx(2 * 0.25)  # there and back


def test_a_drafter_may_use_fewer_of_the_targets_devices() -> None:
    alone = curve(small(tensor_parallel=1), placement=Placement(4))
    spread = curve(small(), placement=Placement(4))
    assert alone.draft_s == pytest.approx(curve(small()).draft_s)
    assert np.all(spread.draft_s[..., 1:] < alone.draft_s[..., 1:])
    assert np.array_equal(alone.verify_s, spread.verify_s)
    # Of a pipeline, those of the last stage.
    stages = Placement(2, pipeline_parallel=2)
    assert np.all(curve(small(tensor_parallel=2), placement=stages).draft_s[..., 1:] > 0)
    with pytest.raises(OptionError, match=r"^tp= of the drafter is 4; allowed: up to 2"):
        curve(small(tensor_parallel=4), placement=stages)


def test_heads_that_do_not_divide_are_refused_with_the_drafters_name() -> None:
    odd = target_of(4, n_heads=6)
    told = "^tensor_parallel is 4 .*allowed: groups of 1, 2, 6; or tp="
    with pytest.raises(OptionError, match=told):
        curve(head_drafter("model", odd), placement=Placement(4))
    alone = curve(
        head_drafter("model", odd, where=Where(tensor_parallel=1)), placement=Placement(4)
    )
    assert np.all(alone.draft_s[..., 1:] > 0)


def test_drafters_on_two_kinds_of_devices_are_each_timed_on_their_own() -> None:
    hardware = device({"bf16": 1e15, "fp16": 1e15}, 1e12, engine=real_engine())
    served = Deployment(TARGET, engine_setup(hardware, "real", None, None))
    point = Measurement(place="here", batch_size=1.0, context_len=100.0, draft_len=2)
    cases = []
    for overhead_s in (1.0, 5.0):  # of a pass of the drafter, of which there are two
        elsewhere = replace(hardware, engines={"real": real_engine(pass_overhead_s=overhead_s)})
        where = Where(elsewhere, link_bytes_per_s=1e30)
        drafter = head_drafter("model", SMALL, where=where)
        cases.append(case_of(point, served, (drafter, constant_acceptance(0.8))))
    assert Record(cases).rates().draft_s == pytest.approx([2.0, 10.0], rel=1e-3)


def test_the_drafters_device_runs_the_same_engine() -> None:
    engine = real_engine(pass_overhead_s=2.0)
    hardware = device({"bf16": 1e15, "fp16": 1e15}, 1e12, engine=engine)
    where = Where(hardware, link_bytes_per_s=1e30)
    found, ideal = (curve(small(where), hardware, engine=name) for name in ("real", "ideal"))
    passes = np.arange(5)
    assert found.draft_s[0, 0] - ideal.draft_s[0, 0] == pytest.approx(2.0 * passes, abs=1e-6)
    with pytest.raises(OptionError, match="engine is 'real'; slow device has ideal"):
        curve(small(Where(SLOW, link_bytes_per_s=1e30)), hardware, engine="real")


def test_a_dtype_that_the_drafters_device_lacks_is_noted() -> None:
    half = SMALL.with_weights(WEIGHT_FORMATS["fp16"])
    only_bf16 = replace(device({"bf16": 1e15, "fp32": 1e13}, 1e12), name="old device")
    where = Where(only_bf16, link_bytes_per_s=1e30)
    notes = curve(head_drafter("model", half, where=where)).notes
    assert "old device has no fp16 arithmetic: bf16 stands in" in notes


@pytest.mark.parametrize(
    ("spec", "untold"),
    [("dflash,steps=2", "steps=2"), ("dflash,steps=1", ""), ("eagle3,tp=2", "tp=2"), ("mtp", "")],
)
def test_flags_are_said_not_to_say_what_a_spec_does(spec: str, untold: str) -> None:
    request = DeploymentRequest("Qwen/Qwen3-8B", "h100")
    plan = request.speculation(load_drafter(spec), [(1, 8, 3)], "me/head")
    said = [note for note in launch(plan, "sglang").notes if "do not say" in note]
    assert [untold in note for note in said] == [True] * bool(untold)
