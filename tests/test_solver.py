"""The speedup curve: limits, ties, grids, refusals, and dice against one closed form."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import forward_latency, speedup_curve
from specroof.acceptance import (
    Acceptance,
    acceptance_from_length,
    constant_acceptance,
    histogram_acceptance,
    rate_acceptance,
    survival_acceptance,
)
from specroof.architecture import (
    HEADS,
    TENSOR,
    WEIGHT_FORMATS,
    Architecture,
    Block,
    BlockSparseAttention,
    ChunkedAttention,
    CompressedAttention,
    Core,
    Experts,
    GatedDeltaNet,
    GroupedQueryAttention,
    Indexer,
    LatentAttention,
    Layer,
    Linear,
    SharedCacheAttention,
)
from specroof.cost import ForwardPass, Options
from specroof.drafters import Drafter, DraftTime, Round, ideal_drafter
from specroof.drafters.kinds import autoregressive_drafter, block_drafter
from specroof.errors import OptionError, ProfileError
from specroof.hardware import HardwareProfile, Placement
from specroof.speedup import curve as axes
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, grid_axes
from specroof.speedup.result import SpeedupCurve
from strategies import (
    acceptances,
    architectures,
    batches,
    contexts,
    device,
    devices,
    drafters,
    options,
    paid_drafters,
    placements,
    real_engine,
)

IDEAL = ideal_drafter()
ARRAYS = ("speedup", "tokens_per_s", "draft_s", "verify_s", "round_s", "tokens_per_round")

#: Every choice but `replay`: there a plain step writes the recurrent state and a verification does
#: not, which makes a verification cheaper than the step it replaces.
writing_options = options.filter(lambda choices: choices.recurrent_state != "replay")
batch_lists = st.lists(batches, min_size=1, max_size=3)
context_lists = st.lists(contexts, min_size=1, max_size=3)


def dense(
    *, in_features: int = 16, out_features: int = 16, core: Core | None = None
) -> Architecture:
    """Return one matrix; with the count of estimators it is all that is counted."""
    block = Block("feed_forward", (Linear("up_proj", in_features, out_features, shard=TENSOR),))
    blocks = (block,) if core is None else (Block("attention", (), core), block)
    head = Linear("lm_head", 16, 96, shard=TENSOR, kind="head")
    return Architecture("toy", "llama", 16, 96, (Layer(blocks),), head)


#: 16 * 16 weights in bf16: 512 bytes, and 512 FLOP per token.
TOY = dense()
MATRIX_ONLY = Options(count="attention+ffn")
#: Memory bound up to 64 tokens: 512 bytes at 8 bytes/s are 64 s, and so is 64 * 512 FLOP.
BALANCED = device({"bf16": 512.0}, 8.0)


def curve(
    drafter: Drafter = IDEAL,
    acceptance: Acceptance | None = None,
    *,
    model: Architecture = TOY,
    hardware: HardwareProfile = BALANCED,
    **choices: Any,
) -> SpeedupCurve:
    """Return a curve of the toy, with the count of estimators unless `choices` say otherwise."""
    return speedup_curve(
        model,
        hardware,
        drafter=drafter,
        acceptance=acceptance,
        **({"options": MATRIX_ONLY} | choices),
    )


def made(
    tokens_per_round: npt.ArrayLike, round_s: npt.ArrayLike, batch_size: npt.ArrayLike = 1
) -> SpeedupCurve:
    """Return a curve of given tokens and seconds, at one context and one batch size."""
    tokens = np.array(tokens_per_round, dtype=float)[None, None, :]
    seconds = np.array(round_s, dtype=float)[None, None, :]
    draft_len = np.arange(tokens.size)
    return SpeedupCurve(
        model="made",
        hardware="up",
        engine="ideal",
        drafter="by hand",
        placement=Placement(),
        context_len=np.array([1.0]),
        batch_size=np.atleast_1d(np.asarray(batch_size, dtype=float)),
        draft_len=draft_len,
        verify_len=draft_len + 1,
        tokens_per_round=tokens,
        draft_s=np.zeros_like(seconds),
        verify_s=seconds,
        round_s=seconds,
    )


def given_acceptance(drafter: Drafter, acceptance: Acceptance) -> Acceptance | None:
    return None if drafter.is_ideal else acceptance


# --- limits --------------------------------------------------------------------------------------


@given(
    architectures(),
    devices(),
    placements(),
    options,
    drafters,
    acceptances,
    batch_lists,
    context_lists,
)
def test_without_a_draft_the_speedup_is_exactly_one(
    model: Architecture,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
    drafter: Drafter,
    acceptance: Acceptance,
    several: list[int],
    lengths: list[int],
) -> None:
    found = speedup_curve(
        model,
        hardware,
        drafter=drafter,
        acceptance=given_acceptance(drafter, acceptance),
        batch_size=several,
        context_len=lengths,
        placement=placement,
        options=choices,
    )
    assert found.speedup.shape == (len(lengths), len(several), DEFAULT_MAX_DRAFT_LEN + 1)
    assert np.all(found.speedup[..., 0] == 1.0)
    assert np.all(found.draft_s[..., 0] == 0.0)
    assert np.all(found.tokens_per_round[..., 0] == 1.0)
    assert np.all(found.best_speedup >= 1.0)


@given(architectures(), devices(), writing_options, paid_drafters, batches, contexts)
def test_drafts_that_are_never_accepted_never_pay(
    model: Architecture,
    hardware: HardwareProfile,
    choices: Options,
    drafter: Drafter,
    batch: int,
    context: int,
) -> None:
    found = curve(
        drafter,
        constant_acceptance(0),
        model=model,
        hardware=hardware,
        batch_size=batch,
        context_len=context,
        options=choices,
    )
    assert np.all(found.speedup <= 1 + 1e-12)
    assert np.all(found.best_draft_len == 0)
    assert np.all(found.best_speedup == 1.0)


@given(
    architectures(),
    devices(),
    placements(),
    writing_options,
    drafters,
    acceptances,
    batches,
    contexts,
)
def test_the_speedup_never_exceeds_the_tokens_of_a_round(
    model: Architecture,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
    drafter: Drafter,
    acceptance: Acceptance,
    batch: int,
    context: int,
) -> None:
    # A verification does all that a plain step does; `replay` alone saves the state's write.
    found = curve(
        drafter,
        given_acceptance(drafter, acceptance),
        model=model,
        hardware=hardware,
        placement=placement,
        batch_size=batch,
        context_len=context,
        options=choices,
    )
    known = np.isfinite(found.tokens_per_round)
    assert np.all(found.speedup[known] <= found.tokens_per_round[known] * (1 + 1e-12))


def test_a_replayed_verification_may_gain_more_than_its_tokens() -> None:
    # State only: a plain step reads and writes it, a verification reads it and 24 bytes a token.
    core = GatedDeltaNet(1, 1, 64, 64, conv_kernel=4, conv_columns=0)
    model = replace(dense(core=core), layers=(Layer((Block("attention", (), core),)),))
    replayed = curve(model=model, options=Options(recurrent_state="replay", count="attention+ffn"))
    assert replayed.speedup[0, 0, 1] > replayed.tokens_per_round[0, 0, 1]


@pytest.mark.slow
@pytest.mark.long
@given(architectures(), devices(), options, paid_drafters, acceptances, batches, contexts)
def test_no_drafter_beats_the_ideal_one(
    model: Architecture,
    hardware: HardwareProfile,
    choices: Options,
    drafter: Drafter,
    acceptance: Acceptance,
    batch: int,
    context: int,
) -> None:
    point: dict[str, Any] = {
        "model": model,
        "hardware": hardware,
        "batch_size": batch,
        "context_len": context,
        "options": choices,
    }
    paid = curve(drafter, acceptance, **point).speedup
    free = curve(**point).speedup
    assert np.all(np.nan_to_num(paid) <= free * (1 + 1e-12))


@pytest.mark.slow
@pytest.mark.long
@given(architectures(), devices(), placements(), options, drafters, acceptances, batches, contexts)
def test_doubling_every_peak_halves_every_time_and_moves_no_optimum(
    model: Architecture,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
    drafter: Drafter,
    acceptance: Acceptance,
    batch: int,
    context: int,
) -> None:
    peak = hardware.peak
    doubled = device(
        {dtype: 2 * figure for dtype, figure in peak.flops_per_s.items()},
        2 * peak.memory_bytes_per_s,
        peak.memory_bytes,
    )
    slow, fast = (
        curve(
            drafter,
            given_acceptance(drafter, acceptance),
            model=model,
            hardware=chip,
            placement=placement,
            batch_size=batch,
            context_len=context,
            options=choices,
        )
        for chip in (hardware, doubled)
    )
    # A power of two changes no digit: this is exact.
    for name in ("draft_s", "verify_s", "round_s"):
        np.testing.assert_array_equal(getattr(slow, name), 2 * getattr(fast, name))
    np.testing.assert_array_equal(slow.speedup, fast.speedup)
    np.testing.assert_array_equal(slow.best_draft_len, fast.best_draft_len)


@pytest.mark.parametrize("cost", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("rate", [0.0, 0.6, 0.9, 1.0])
def test_while_verification_is_free_it_is_the_published_theorem(cost: float, rate: float) -> None:
    # Leviathan et al. 2022, theorem 3.8: (1 - α^(γ+1)) / ((1 - α)(γ c + 1)). Three sequences of at
    # most 17 tokens stay within the 64 that this device reads its matrix for.
    found = curve(autoregressive_drafter(cost), constant_acceptance(rate), batch_size=3)
    for draft_len in range(DEFAULT_MAX_DRAFT_LEN + 1):
        tokens = sum(rate**position for position in range(draft_len + 1))
        assert found.speedup[0, 0, draft_len] == pytest.approx(tokens / (draft_len * cost + 1))


def test_a_curve_by_hand() -> None:
    # A batch of 16: 512 bytes take 64 s; T tokens each take 16 T s of arithmetic: a step and
    # verifications of up to 4 tokens 64 s, of 5 and 6 tokens 80 and 96 s. A draft costs 6.4 s.
    found = curve(
        autoregressive_drafter(0.1), constant_acceptance(0.5), batch_size=16, max_draft_len=5
    )
    assert found.verify_s[0, 0].tolist() == [64, 64, 64, 64, 80, 96]
    assert found.draft_s[0, 0] == pytest.approx([0, 6.4, 12.8, 19.2, 25.6, 32])
    assert found.round_s[0, 0] == pytest.approx([64, 70.4, 76.8, 83.2, 105.6, 128])
    tokens = [1, 1.5, 1.75, 1.875, 1.9375, 1.96875]
    assert found.tokens_per_round[0, 0].tolist() == tokens
    speedup = [1, 1.5 / 1.1, 1.75 / 1.2, 1.875 / 1.3, 1.9375 / 1.65, 1.96875 / 2]
    assert found.speedup[0, 0] == pytest.approx(speedup)
    assert found.best_draft_len.tolist() == [[2]]
    assert found.best_speedup[0, 0] == pytest.approx(1.75 / 1.2)
    assert found.decode_s.tolist() == [[64]]
    # 16 sequences together, and one of them.
    per_user = np.array(tokens) / [64, 70.4, 76.8, 83.2, 105.6, 128]
    assert found.tokens_per_s_per_user[0, 0] == pytest.approx(per_user)
    assert found.tokens_per_s[0, 0] == pytest.approx(16 * per_user)


def test_a_curve_is_of_one_sequence_after_4096_tokens_unless_it_is_told() -> None:
    found = speedup_curve("Qwen/Qwen3-8B", "h100", drafter="ideal", engine="ideal")
    assert (found.context_len.tolist(), found.batch_size.tolist()) == ([4096], [1])
    assert found.draft_len.tolist() == list(range(17))


def test_a_curve_says_what_it_is_of() -> None:
    found = curve(
        autoregressive_drafter(0.1),
        constant_acceptance(0.5),
        batch_size=[1, 8],
        context_len=[128, 4096, 9],
        max_draft_len=4,
        placement=Placement(8, 4, 2),
    )
    assert (found.model, found.hardware, found.engine) == ("toy", "toy device", "ideal")
    assert found.drafter == "autoregressive,cost=0.1"
    assert found.placement == Placement(8, 4, 2, nodes=1)
    assert found.context_len.tolist() == [128, 4096, 9]
    assert found.batch_size.tolist() == [1, 8]
    assert found.draft_len.tolist() == [0, 1, 2, 3, 4]
    assert found.verify_len.tolist() == [1, 2, 3, 4, 5]
    for name in ARRAYS:
        assert getattr(found, name).shape == (3, 2, 5)
    assert found.best_draft_len.shape == found.best_speedup.shape == (3, 2)
    assert found.notes == ()


def test_one_number_is_a_grid_of_one() -> None:
    found = curve(batch_size=8, context_len=100, max_draft_len=2)
    assert found.speedup.shape == (1, 1, 3)
    listed = curve(batch_size=np.array([8]), context_len=(100,), max_draft_len=2)
    np.testing.assert_array_equal(found.speedup, listed.speedup)


# --- the best draft length -----------------------------------------------------------------------


def test_ties_go_to_the_shorter_draft() -> None:
    # The same tokens in the same time, whether three drafts or one.
    assert made([1, 1.5, 1.5, 1.5], [1, 1, 1, 1]).best_draft_len.tolist() == [[1]]
    assert made([1, 1, 1], [1, 1, 1]).best_draft_len.tolist() == [[0]]
    # A difference of rounding is no difference.
    assert made([1, 1.5, 1.5 * (1 + 1e-15)], [1, 1, 1]).best_draft_len.tolist() == [[1]]
    assert made([1, 1.5, 1.5 * (1 + 1e-9)], [1, 1, 1]).best_draft_len.tolist() == [[2]]


def test_a_free_draft_that_is_never_accepted_is_not_made() -> None:
    # The second draft is never accepted; while verification is free it costs nothing.
    found = curve(block_drafter(0, drafts=16), survival_acceptance([0.5, 0, 0, 0]))
    assert found.speedup[0, 0, :5].tolist() == [1, 1.5, 1.5, 1.5, 1.5]
    assert found.best_draft_len.tolist() == [[1]]
    assert [limit.tolist() for limit in found.near_best()] == [[[1]], [[4]]]


def test_near_best_by_hand() -> None:
    # Speedups 1, 1.98, 2, 1.96, 1.99, 1.5.
    found = made([1, 1.98, 2, 1.96, 1.99, 1.5], [1] * 6)
    for share, limits in ((0.0, (2, 2)), (0.006, (2, 4)), (0.0101, (1, 4)), (0.5001, (0, 5))):
        shortest, longest = found.near_best(share)
        assert (shortest.tolist(), longest.tolist()) == ([[limits[0]]], [[limits[1]]])
    # Nothing beside the best, but for rounding.
    shortest, longest = made([1, 1.5 * (1 + 1e-15), 1.5, 1.4], [1] * 4).near_best(0)
    assert (shortest.tolist(), longest.tolist()) == ([[1]], [[2]])
    # A hundredth, unless said: 1.98 would be just that.
    shortest, longest = made([1, 1.981, 2, 1.979], [1] * 4).near_best()
    assert (shortest.tolist(), longest.tolist()) == ([[1]], [[2]])


@given(paid_drafters, acceptances, batch_lists, st.floats(0, 0.99))
def test_the_best_lies_within_the_near_best(
    drafter: Drafter, acceptance: Acceptance, several: list[int], share: float
) -> None:
    found = curve(drafter, acceptance, batch_size=several)
    shortest, longest = found.near_best(share)
    assert np.all(shortest <= found.best_draft_len)
    assert np.all(found.best_draft_len <= longest)
    for index in np.ndindex(shortest.shape):
        speedups = found.speedup[index]
        assert found.best_speedup[index] == pytest.approx(max(speedups[np.isfinite(speedups)]))
        for limit in (shortest[index], longest[index]):
            assert speedups[limit] >= found.best_speedup[index] * (1 - share) * (1 - 1e-9)


@pytest.mark.parametrize("share", [-0.01, 1, 1.5, math.nan, math.inf])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(
        OptionError, match=r"^share is .*; allowed: a number from 0 to 1(, but not 1)?$"
    ):
        made([1, 2], [1, 1]).near_best(share)


# --- depth ---------------------------------------------------------------------------------------


def known(found: SpeedupCurve, name: str) -> list[bool]:
    return list(np.isfinite(getattr(found, name)[0, 0]))


@pytest.mark.parametrize(
    "acceptance",
    [
        rate_acceptance([0.9, 0.9, 0.9]),
        survival_acceptance([0.9, 0.9, 0.9]),
        histogram_acceptance([1, 1, 1, 97]),
    ],
)
def test_past_the_depth_of_the_acceptance_nothing_is_known(acceptance: Acceptance) -> None:
    found = curve(autoregressive_drafter(0), acceptance)
    for name in ARRAYS:
        assert known(found, name) == [True] * 4 + [False] * 13
    assert found.best_draft_len.tolist() == [[3]]
    assert [limit.tolist() for limit in found.near_best(0.9)] == [[[0]], [[3]]]


def test_an_inferred_rate_has_no_depth() -> None:
    found = curve(autoregressive_drafter(0), acceptance_from_length(3.4, 7))
    assert all(known(found, "speedup"))


def test_past_the_depth_of_the_drafter_nothing_is_known() -> None:
    short = replace(autoregressive_drafter(0), max_draft_len=2)
    found = curve(short, constant_acceptance(0.9))
    for name in ARRAYS:
        assert known(found, name) == [True] * 3 + [False] * 14
    assert found.best_draft_len.tolist() == [[2]]
    # The shorter of the two counts.
    found = curve(short, rate_acceptance([0.9]))
    assert known(found, "speedup") == [True] * 2 + [False] * 15


def test_asking_past_a_depth_is_an_error() -> None:
    measured = rate_acceptance([0.9, 0.9, 0.9])
    message = "max_draft_len is 4; allowed: at most 3, the depth of 'autoregressive,cost=0'"
    with pytest.raises(OptionError, match=message):
        curve(autoregressive_drafter(0), measured, max_draft_len=4)
    assert curve(autoregressive_drafter(0), measured, max_draft_len=3).draft_len[-1] == 3
    short = replace(autoregressive_drafter(0), max_draft_len=2)
    with pytest.raises(OptionError, match="max_draft_len is 3; allowed: at most 2"):
        curve(short, measured, max_draft_len=3)


def test_a_curve_may_be_long_or_end_at_once() -> None:
    assert curve(max_draft_len=1024).speedup.shape == (1, 1, 1025)
    alone = curve(max_draft_len=0)
    assert alone.speedup.tolist() == [[[1.0]]]
    assert alone.best_draft_len.tolist() == [[0]]
    assert [limit.tolist() for limit in alone.near_best()] == [[[0]], [[0]]]
    whole: Any = np.int64(3)
    assert curve(max_draft_len=whole).draft_len.tolist() == [0, 1, 2, 3]


# --- drafting ------------------------------------------------------------------------------------


def test_a_block_of_16_positions_and_a_block_of_16_drafts_part_at_the_sixteenth() -> None:
    # One block costs a tenth of 64 s; of 15 drafts, the sixteenth begins another.
    fifteen, sixteen = (
        curve(block_drafter(0.1, drafts=drafts), constant_acceptance(0.9)).draft_s[0, 0]
        for drafts in (15, 16)
    )
    assert fifteen == pytest.approx([0] + [6.4] * 15 + [12.8])
    assert sixteen == pytest.approx([0] + [6.4] * 16)


def test_a_share_of_the_verification_grows_with_it() -> None:
    # A batch of 16, as above: verifications of 64, 64, 64, 64, 80 and 96 s.
    found = curve(
        autoregressive_drafter(0.1),
        constant_acceptance(0.5),
        batch_size=16,
        max_draft_len=5,
        options=replace(MATRIX_ONLY, cost_of="verify"),
    )
    assert found.draft_s[0, 0] == pytest.approx([0, 6.4, 12.8, 19.2, 4 * 8, 5 * 9.6])


@pytest.mark.parametrize(("overlapped_s", "felt_s"), [(10.0, 64.0), (100.0, 100.0)])
def test_what_overlaps_is_felt_where_it_outlasts_the_verification(
    overlapped_s: float, felt_s: float
) -> None:
    drafter = Drafter(
        "toy", lambda _: DraftTime(np.array(5.0), overlapped_s=np.array(overlapped_s))
    )
    found = curve(drafter, constant_acceptance(0.5), max_draft_len=2)
    assert found.round_s[0, 0].tolist() == [64, 5 + felt_s, 5 + felt_s]
    assert found.draft_s[0, 0].tolist() == [0, 5 + overlapped_s, 5 + overlapped_s]
    assert found.verify_s[0, 0].tolist() == [64, 64, 64]


def test_an_engine_adds_to_each_round_but_not_to_a_plain_step() -> None:
    engine = real_engine(round_overhead_s=16.0, pass_overhead_s=1.0)
    hardware = device({"bf16": 512.0}, 8.0, engine=engine)
    found = curve(
        autoregressive_drafter(0.1),
        constant_acceptance(0.5),
        hardware=hardware,
        engine="real",
        max_draft_len=2,
    )
    # A step is 64 + 1 s, a round that much for its verification, a tenth per draft and 16 more.
    assert found.verify_s[0, 0].tolist() == [65, 65, 65]
    assert found.round_s[0, 0] == pytest.approx([65, 65 + 6.5 + 16, 65 + 13 + 16])
    assert found.engine == "real"


def test_the_default_engine_is_that_of_the_profile() -> None:
    hardware = device({"bf16": 512.0}, 8.0, engine=real_engine(pass_overhead_s=1.0))
    assert curve(hardware=hardware).engine == "ideal"
    hardware = replace(hardware, default_engine="real")
    assert curve(hardware=hardware).engine == "real"
    assert curve(hardware=hardware).decode_s.tolist() == [[65]]
    assert curve(hardware=hardware, engine="ideal").decode_s.tolist() == [[64]]
    forward = ForwardPass(batch_size=1, query_len=1, context_len=0)
    latency = forward_latency(TOY, hardware, forward, options=MATRIX_ONLY)
    assert latency.total_s == 65


def test_a_drafter_sees_the_round_it_is_for() -> None:
    seen: list[Round] = []

    def draft(round_: Round) -> DraftTime:
        seen.append(round_)
        return DraftTime(np.zeros(()))

    found = curve(
        Drafter("spy", draft),
        constant_acceptance(0.5),
        batch_size=[1, 16],
        context_len=[100, 200, 300],
        max_draft_len=5,
    )
    (one,) = seen
    shape = found.round_s.shape
    # Never asked for an empty draft: length 0 stands in as 1, and what is answered is not used.
    assert np.broadcast_to(one.draft_len, shape)[0, 0].tolist() == [1, 1, 2, 3, 4, 5]
    assert np.broadcast_to(one.batch_size, shape)[0, :, 0].tolist() == [1, 16]
    assert np.broadcast_to(one.context_len, shape)[:, 0, 0].tolist() == [100, 200, 300]
    np.testing.assert_array_equal(
        np.broadcast_to(one.tokens_per_round, shape), found.tokens_per_round
    )
    np.testing.assert_array_equal(np.broadcast_to(one.verify_s, shape), found.verify_s)
    decode_s = np.broadcast_to(one.decode_s, shape)
    np.testing.assert_array_equal(decode_s[..., 3], found.decode_s)


def test_a_drafter_times_its_own_model_where_the_target_runs() -> None:
    small = dense(out_features=4)
    hardware = device({"bf16": 512.0}, 8.0, engine=real_engine(pass_overhead_s=3.0))

    def draft(round_: Round) -> DraftTime:
        forward = ForwardPass(round_.batch_size, 1, round_.context_len)
        return DraftTime(round_.draft_len * round_.pass_s(small, forward))

    found = curve(
        Drafter("model", draft),
        constant_acceptance(0.5),
        hardware=hardware,
        engine="real",
        placement=Placement(2),
        max_draft_len=3,
    )
    # 16 * 4 weights of 2 bytes over two devices of 8 bytes/s: 8 s, and 3 s of the engine.
    assert found.draft_s[0, 0].tolist() == [0, 11, 22, 33]


# --- grids ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
@given(
    architectures(),
    devices(),
    placements(),
    options,
    drafters,
    acceptances,
    batch_lists,
    context_lists,
)
def test_a_grid_equals_the_loop_over_its_points(
    model: Architecture,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
    drafter: Drafter,
    acceptance: Acceptance,
    several: list[int],
    lengths: list[int],
) -> None:
    def at(context: Any, batch: Any) -> SpeedupCurve:
        return curve(
            drafter,
            given_acceptance(drafter, acceptance),
            model=model,
            hardware=hardware,
            placement=placement,
            batch_size=batch,
            context_len=context,
            options=choices,
        )

    whole = at(lengths, several)
    for row, column in np.ndindex(len(lengths), len(several)):
        point = at(lengths[row], several[column])
        for name in ARRAYS:
            np.testing.assert_allclose(
                getattr(whole, name)[row, column], getattr(point, name)[0, 0], rtol=1e-12
            )


def every_core() -> Iterator[Core]:
    yield GroupedQueryAttention(16, 4, 8, 8, window=50)
    yield LatentAttention(16, 32, 8)
    yield CompressedAttention(16, 64, 8, window=8, ratio=4)
    yield GatedDeltaNet(16, 16, 8, 8, conv_kernel=4, conv_columns=3)


def every_kind() -> Architecture:
    """Return a model with a layer of each kind of attention, and experts behind each."""
    layers = tuple(
        Layer(
            (
                Block("attention", (Linear("q_proj", 16, 32, shard=HEADS),), core),
                Block("feed_forward", (), Experts(32, 4, 16, 8)),
            ),
            count=count,
        )
        for count, core in enumerate(every_core(), start=1)
    )
    return replace(dense(), layers=layers)


@pytest.mark.parametrize("points", [1, 5, 6, 7, 17, 25, 60, 10**6])
def test_chunks_change_nothing(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    grid: dict[str, Any] = {
        "model": every_kind(),
        "hardware": device({"bf16": 1e6, "fp16": 1e6}, 1e4),
        "batch_size": [1, 3, 8, 50, 400],
        "context_len": [0, 9, 100, 5000],
        "max_draft_len": 5,
        "options": Options(),
    }
    whole = curve(autoregressive_drafter(0.1), constant_acceptance(0.7), **grid)
    monkeypatch.setattr(axes, "_CHUNK_POINTS", points)
    sliced = curve(autoregressive_drafter(0.1), constant_acceptance(0.7), **grid)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(sliced, name), getattr(whole, name))
    assert sliced.notes == whole.notes


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 9), st.integers(1, 200))
def test_chunks_cover_the_grid_once_within_their_bound(
    n_contexts: int, n_batches: int, n_drafts: int, points: int
) -> None:
    times = np.zeros((n_contexts, n_batches), dtype=int)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(axes, "_CHUNK_POINTS", points)
        for rows, columns in axes.grid_slices((n_contexts, n_batches, n_drafts)):
            block = times[rows, columns]
            # Bounded, but for one whole curve, which is never cut.
            assert block.size * n_drafts <= max(points, n_drafts)
            block += 1
    assert np.all(times == 1)


# --- acceptance ----------------------------------------------------------------------------------


def test_acceptance_may_come_with_the_drafter() -> None:
    half = constant_acceptance(0.5)
    own = replace(autoregressive_drafter(0.1), acceptance=half)
    np.testing.assert_array_equal(
        curve(own).speedup, curve(autoregressive_drafter(0.1), half).speedup
    )


def test_acceptance_is_given_exactly_once() -> None:
    half = constant_acceptance(0.5)
    own = replace(autoregressive_drafter(0.1), acceptance=half)
    with pytest.raises(OptionError, match=r"acceptance .*'autoregressive,cost=0.1'"):
        curve(own, half)
    with pytest.raises(OptionError, match=r"'autoregressive,cost=0.1' .*acceptance"):
        curve(autoregressive_drafter(0.1))
    with pytest.raises(OptionError, match=r"acceptance .*'ideal'"):
        curve(IDEAL, half)


def test_the_ideal_drafter_has_every_draft_accepted() -> None:
    found = curve()
    assert found.tokens_per_round[0, 0].tolist() == list(range(1, 18))
    # 64 tokens are free.
    assert found.speedup[0, 0].tolist() == list(range(1, 18))


# --- what is refused -----------------------------------------------------------------------------

WHOLE = "a whole number from 0 to 1024"


@pytest.mark.parametrize("name", ["batch_size", "context_len"])
@pytest.mark.parametrize(
    "value",
    [
        -1,
        math.nan,
        math.inf,
        [8, -1],
        [8, math.nan],
        1e12,
        pytest.param(10**400, id="huge"),
        "many",
        "8",
        [],
        [[1, 2], [3, 4]],
        [[1], [2, 3]],
        None,
        [None],
        {"a": 1},
        1j,
        object(),
        True,
    ],
)
def test_an_axis_of_anything_but_sizes_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as error:
        curve(**{name: value})
    message = str(error.value)
    assert message.startswith(f"{name} ")
    assert "; allowed: a number" in message
    assert "\n" not in message


def test_a_batch_of_nothing_is_refused() -> None:
    allowed = "a number from 1 to 10000000, or an array of such"
    for batch in (0, [8, 0], 0.5):
        with pytest.raises(OptionError) as error:
            curve(batch_size=batch)
        assert str(error.value) == f"batch_size is {float(np.min(batch))}; allowed: {allowed}"
    # A context of nothing is a prompt of one token.
    assert curve(context_len=0).speedup.shape == (1, 1, 17)


@pytest.mark.parametrize("value", [-1, 1.5, math.nan, math.inf, 1025, True, False, "4", [4], 4j])
def test_a_longest_draft_that_is_no_count_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match=rf"^max_draft_len is .*; allowed: {WHOLE}$"):
        curve(max_draft_len=value)


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_a_rate_that_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(OptionError, match=r"^rate is .*; allowed: a number from 0 to 1$"):
        curve(autoregressive_drafter(0.1), constant_acceptance(rate))


@pytest.mark.parametrize(
    "core",
    [
        GroupedQueryAttention(16, 4, 8, 8),
        SharedCacheAttention(GroupedQueryAttention(16, 4, 8, 8)),
        ChunkedAttention(16, 4, 8, 8, chunk=8),
        BlockSparseAttention(16, 4, 8, 8, Indexer(4, 8, top_k=2), block_len=4),
        LatentAttention(16, 32, 8),
        CompressedAttention(16, 64, 8, window=8, ratio=4),
    ],
    ids=lambda core: type(core).__name__,
)
def test_devices_that_do_not_divide_the_query_heads_are_refused(core: Core) -> None:
    model = dense(core=core)
    with pytest.raises(
        OptionError,
        match=r"^tensor_parallel is 32 .*16 query heads of toy; allowed: .* 1, 2, 4, 8, 16$",
    ):
        curve(model=model, placement=Placement(32))
    with pytest.raises(
        OptionError, match=r"^tensor_parallel is 6 .*allowed: groups of 1, 2, 4, 8, 16"
    ):
        curve(model=model, placement=Placement(6, attention_data_parallel=2))
    assert curve(model=model, placement=Placement(32, attention_data_parallel=2)).speedup.size


def test_an_engine_that_the_profile_lacks_is_refused() -> None:
    with pytest.raises(OptionError, match="engine is 'vllm'; toy device has ideal"):
        curve(engine="vllm")


def test_a_missing_dtype_is_an_error_under_strict_dtype_and_else_a_note() -> None:
    model = TOY.with_weights(WEIGHT_FORMATS["nvfp4"])
    with pytest.raises(ProfileError, match="no flops_per_s for 'fp4'"):
        curve(model=model, options=replace(MATRIX_ONLY, strict_dtype=True))
    found = curve(model=model, batch_size=[1, 2], context_len=[3, 4])
    assert found.notes == ("toy device has no fp4 arithmetic: bf16 stands in",)
    # The bytes are those stored: 256 weights of 0.5625 bytes at 8 bytes/s.
    assert found.decode_s.tolist() == [[18, 18], [18, 18]]


# --- memory --------------------------------------------------------------------------------------


def held(memory_bytes: float, **choices: Any) -> tuple[str, ...]:
    """Return the notes on the memory of a model of 1.5 MiB that caches 256 bytes a token.

    A projection of 512 * 512, an embedding and a head as large, in bf16; 8 KV heads of 8 + 8.
    """
    model = Architecture(
        "toy",
        "llama",
        512,
        512,
        (
            Layer(
                (
                    Block(
                        "attention",
                        (Linear("q_proj", 512, 512, shard=HEADS),),
                        GroupedQueryAttention(8, 8, 8, 8),
                    ),
                )
            ),
        ),
        Linear("lm_head", 512, 512, shard=TENSOR, kind="head"),
    )
    hardware = device(memory_bytes=memory_bytes)
    grid: dict[str, Any] = {"batch_size": [1, 2, 4, 8], "context_len": [16, 1024]}
    base: dict[str, Any] = {"model": model, "hardware": hardware, "options": Options()}
    notes = curve(**(base | grid | choices)).notes
    return tuple(note for note in notes if "does not fit" in note)


MEBIBYTE = 2.0**20


def test_a_model_that_does_not_fit_is_a_note_with_the_numbers() -> None:
    # At 1024 tokens a sequence caches 256 KiB: in 2 MiB there is room for two.
    assert held(2 * MEBIBYTE) == (
        "toy does not fit 1 x toy device from batch size 3 at context 1024: 1.50 MiB of weights "
        "and 256 KiB of cache per sequence on each device, which has 2.00 MiB",
    )
    # What just fits, fits.
    assert held(2 * MEBIBYTE, batch_size=[1, 2]) == ()
    assert held(2 * MEBIBYTE, batch_size=3)[0].startswith(
        "toy does not fit 1 x toy device from batch size 3 "
    )
    # The largest context counts, wherever it stands.
    assert held(2 * MEBIBYTE, context_len=[1024, 16]) == held(2 * MEBIBYTE)
    assert held(2 * MEBIBYTE, context_len=16) == ()


def test_weights_alone_may_not_fit() -> None:
    assert held(MEBIBYTE)[0].startswith("toy does not fit 1 x toy device from batch size 1 ")


def test_devices_share_weights_and_cache() -> None:
    # Two devices: 0.75 MiB and 128 KiB each; ten sequences fit 2 MiB.
    assert held(2 * MEBIBYTE, placement=Placement(2)) == ()
    assert held(2 * MEBIBYTE, placement=Placement(2), batch_size=[10, 11, 12]) == (
        "toy does not fit 2 x toy device from batch size 11 at context 1024: 768 KiB of weights "
        "and 128 KiB of cache per sequence on each device, which has 2.00 MiB",
    )


def test_narrower_formats_make_room() -> None:
    # 0.25 MiB of projection in fp8 beside 1 MiB of vocabulary, 128 KiB a sequence: six fit 2 MiB.
    narrow = Options(kv_dtype="fp8", weight_dtype="fp8")
    assert held(2 * MEBIBYTE, options=narrow, batch_size=6) == ()
    assert held(2 * MEBIBYTE, options=narrow, batch_size=[6, 7]) == (
        "toy does not fit 1 x toy device from batch size 7 at context 1024: 1.25 MiB of weights "
        "and 128 KiB of cache per sequence on each device, which has 2.00 MiB",
    )


# --- dice ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "draft_len"), [(1, 4), (16, 2), (16, 8), (40, 3)])
def test_rounds_of_dice_agree_with_the_curve(batch: int, draft_len: int) -> None:
    rate, cost, rounds = 0.7, 0.15, 40_000
    # A machine of its own: it reads 512 bytes at 8 bytes/s while it computes 512 FLOP per token
    # at 512 FLOP/s.
    step_s = max(64.0, float(batch))
    verify_s = max(64.0, float(batch * (draft_len + 1)))
    dice = np.random.default_rng(7 * batch + draft_len)
    hits = dice.random((rounds, batch, draft_len)) < rate
    # Drafts are kept up to the first miss, and the target adds a token of its own.
    accepted = np.where(hits.all(axis=-1), draft_len, np.argmin(hits, axis=-1))
    committed = (accepted + 1).sum(axis=1)
    clock = rounds * (draft_len * cost * step_s + verify_s)
    throughput = committed.sum() / clock
    error = committed.std() * np.sqrt(rounds) / clock

    found = curve(
        autoregressive_drafter(cost),
        constant_acceptance(rate),
        batch_size=batch,
        max_draft_len=draft_len,
    )
    assert found.tokens_per_s[0, 0, draft_len] == pytest.approx(throughput, abs=4 * error)
    assert found.tokens_per_s[0, 0, 0] == pytest.approx(batch / step_s)
    assert found.speedup[0, 0, draft_len] == pytest.approx(
        throughput / (batch / step_s), abs=4 * error * step_s / batch
    )


def test_a_grid_counts_plain_decoding_among_its_draft_lengths() -> None:
    contexts, batches = np.arange(1, 2501), np.arange(1, 41)
    assert [len(axis) for axis in grid_axes(contexts, batches, 99)] == [2500, 40, 100]  # 10 million
    with pytest.raises(OptionError, match=r"2500 x 40 x 101 points .*; allowed: up to 10000000$"):
        grid_axes(contexts, batches, 100)
