"""The speedup curve: limits, ties, grids, refusals, and dice against one closed form."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specroof import load_drafter, load_hardware, load_model, load_profile, speedup_curve
from specroof.acceptance import (
    Acceptance,
    acceptance_from_length,
    constant_acceptance,
    context_acceptance,
    histogram_acceptance,
    rate_acceptance,
    survival_acceptance,
)
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import HEADS, TENSOR, Linear
from specroof.architecture.model import Architecture, Block, Layer
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.cost import ForwardPass, Options
from specroof.drafters import Drafter, DraftTime, Round, ideal_drafter
from specroof.drafters.kinds import autoregressive_drafter
from specroof.errors import OptionError
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import Deployment, engine_setup
from specroof.speedup import curve as axes
from specroof.speedup.curve import DEFAULT_MAX_DRAFT_LEN, drafting_gain, grid_axes
from specroof.speedup.overview import Overview, _thinned
from specroof.speedup.result import SpeedupCurve, tokens_spread
from strategies import (
    acceptances,
    architectures,
    batches,
    contexts,
    device,
    devices,
    drafters,
    of_cores,
    of_model,
    options,
    paid_drafters,
    placements,
    real_engine,
)
from tables import refusal, rows

IDEAL = ideal_drafter()
ARRAYS = ("speedup", "tokens_per_s", "draft_s", "verify_s", "round_s", "tokens_per_round")

#: Every choice but `replay`: there a plain step writes the recurrent state and a verification does
#: not, which makes a verification cheaper than the step it replaces.
writing_options = options.filter(lambda choices: choices.recurrent_state != "replay")


def questions(
    drafting: SearchStrategy[Drafter] = drafters, choices: SearchStrategy[Options] = options
) -> SearchStrategy[dict[str, Any]]:
    """Draw all that a curve is of: the arguments of `speedup_curve`, of up to three loads each."""
    drawn: dict[str, SearchStrategy[Any]] = {
        "model": architectures(),
        "hardware": devices(),
        "placement": placements(),
        "options": choices,
        "drafter": drafting,
        "acceptance": acceptances,
        "batch_size": st.lists(batches, min_size=1, max_size=3),
        "context_len": st.lists(contexts, min_size=1, max_size=3),
    }
    return st.fixed_dictionaries(drawn).map(
        lambda asked: (
            asked
            | ({"acceptance": None} if asked["drafter"].is_ideal else {})
            | {"placement": of_model(asked["model"], asked["placement"])}
        )
    )


#: 16 * 16 weights in bf16: 512 bytes, and 512 FLOP per token. With the count of estimators this one
#: matrix is all that is counted.
MATRIX = Block("feed_forward", (Linear("up_proj", 16, 16, shard=TENSOR),))
HEAD = Linear("lm_head", 16, 96, shard=TENSOR, kind="head")
TOY = Architecture("toy", "llama", 16, 96, (Layer((MATRIX,)),), HEAD)
MATRIX_ONLY = Options(count="attention+ffn")
#: Memory bound up to 64 tokens: 512 bytes at 8 bytes/s are 64 s, and so is 64 * 512 FLOP.
BALANCED = device({"bf16": 512.0}, 8.0)
TENTH, HALF = autoregressive_drafter(0.1), constant_acceptance(0.5)


def curve(
    drafter: Drafter = IDEAL, acceptance: Acceptance | None = None, **choices: Any
) -> SpeedupCurve:
    toy: dict[str, Any] = {"model": TOY, "hardware": BALANCED, "options": MATRIX_ONLY}
    return speedup_curve(drafter=drafter, acceptance=acceptance, **(toy | choices))


def made(tokens_per_round: npt.ArrayLike, round_s: npt.ArrayLike = 1.0) -> SpeedupCurve:
    tokens = np.array(tokens_per_round, dtype=float)[None, None, :]
    seconds = np.broadcast_to(np.array(round_s, dtype=float), tokens.shape)
    one, draft_len = np.array([1.0]), np.arange(tokens.size)
    return SpeedupCurve(
        *("made", "up", "ideal", "by hand", Placement(), one, one, draft_len, draft_len + 1),
        *(tokens, np.zeros_like(seconds), seconds, seconds),
    )


# --- limits --------------------------------------------------------------------------------------


@given(questions(), st.floats(0, 0.99))
def test_a_curve_keeps_within_its_limits(asked: dict[str, Any], share: float) -> None:
    found = speedup_curve(**asked)
    loads = len(asked["context_len"]), len(asked["batch_size"])
    assert found.speedup.shape == (*loads, DEFAULT_MAX_DRAFT_LEN + 1)
    # Without a draft it is plain decoding.
    assert np.all(found.speedup[..., 0] == 1.0)
    assert np.all(found.draft_s[..., 0] == 0.0)
    assert np.all(found.tokens_per_round[..., 0] == 1.0)
    # A verification does all that a plain step does; `replay` alone saves the state's write.
    if asked["options"].recurrent_state != "replay":
        known = np.isfinite(found.tokens_per_round)
        assert np.all(found.speedup[known] <= found.tokens_per_round[known] * (1 + 1e-12))
    # No drafter beats the one that is free and always right.
    ideal = speedup_curve(**asked | {"drafter": IDEAL, "acceptance": None})
    assert np.all(np.nan_to_num(found.speedup) <= ideal.speedup * (1 + 1e-12))
    # The best is the best, and lies among those near it.
    shortest, longest = found.near_best(share)
    assert np.all((shortest <= found.best_draft_len) & (found.best_draft_len <= longest))
    for index in np.ndindex(shortest.shape):
        speedups = found.speedup[index]
        assert found.best_speedup[index] == pytest.approx(np.nanmax(speedups))
        for limit in (shortest[index], longest[index]):
            assert speedups[limit] >= found.best_speedup[index] * (1 - share) * (1 - 1e-9)


@given(questions(paid_drafters, writing_options))
def test_drafts_that_are_never_accepted_never_pay(asked: dict[str, Any]) -> None:
    found = speedup_curve(**asked | {"acceptance": constant_acceptance(0)})
    assert np.all(np.nan_to_num(found.speedup) <= 1 + 1e-12)
    assert np.all(found.best_draft_len == 0)
    assert np.all(found.best_speedup == 1.0)


def test_a_replayed_verification_may_gain_more_than_its_tokens() -> None:
    # State only: a plain step reads and writes it, a verification reads it and 24 bytes a token.
    core = GatedDeltaNet(1, 1, 64, 64, conv_kernel=4, conv_columns=0)
    choices = replace(MATRIX_ONLY, recurrent_state="replay")
    replayed = curve(model=of_cores(core), options=choices)
    assert replayed.speedup[0, 0, 1] > replayed.tokens_per_round[0, 0, 1]


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
    found = curve(TENTH, HALF, batch_size=16, max_draft_len=5)
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
    # A share of the verification grows with it.
    of_verify = replace(MATRIX_ONLY, cost_of="verify")
    found = curve(TENTH, HALF, batch_size=16, max_draft_len=5, options=of_verify)
    assert found.draft_s[0, 0] == pytest.approx([0, 6.4, 12.8, 19.2, 4 * 8, 5 * 9.6])


# --- the best draft length -----------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "share", "best", "near"), rows("values", "near_best"))
def test_the_best_is_the_shortest_that_no_other_beats(
    tokens: list[float], share: float | None, best: int, near: list[int]
) -> None:
    found = made(tokens)
    assert found.best_draft_len.tolist() == [[best]]
    limits = found.near_best() if share is None else found.near_best(share)
    assert [limit.item() for limit in limits] == near


def test_a_longer_draft_than_measured_is_worth_measuring_where_one_load_gains_by_it() -> None:
    # At 16 two drafts are best, and at 4096 none is.
    found = replace(curve(TENTH, HALF, batch_size=[16, 4096]), measured_draft_len=1)
    (note,) = found.measuring_notes
    assert "2 drafts" in note
    assert "batch 16," in note
    (note,) = replace(found, batch_size=np.array([15.54, 4096.0])).measuring_notes
    assert "batch 16," in note  # as many run on average, and none runs in part
    for measured in (None, 2):  # nothing, and what is best
        assert [*replace(found, measured_draft_len=measured).measuring_notes] == []


# --- depth ---------------------------------------------------------------------------------------

FREE = autoregressive_drafter(0)


@pytest.mark.parametrize(
    ("drafter", "acceptance", "depth"),
    [
        (FREE, rate_acceptance([0.9, 0.9, 0.9]), 3),
        (FREE, survival_acceptance([0.9, 0.9, 0.9]), 3),
        (FREE, histogram_acceptance([1, 1, 1, 97]), 3),
        (replace(FREE, max_draft_len=2), constant_acceptance(0.9), 2),
        # The shorter of the two counts.
        (replace(FREE, max_draft_len=2), rate_acceptance([0.9]), 1),
        # An inferred rate has no depth.
        (FREE, acceptance_from_length(3.4, 7), 16),
    ],
)
def test_past_the_depth_of_drafter_or_acceptance_nothing_is_known(
    drafter: Drafter, acceptance: Acceptance, depth: int
) -> None:
    found = curve(drafter, acceptance)
    for name in ARRAYS:
        known = np.isfinite(getattr(found, name)[0, 0])
        assert known.tolist() == [True] * (depth + 1) + [False] * (16 - depth)
    if depth < 16:
        assert found.best_draft_len.tolist() == [[depth]]
        assert [limit.tolist() for limit in found.near_best(0.9)] == [[[0]], [[depth]]]
        assert curve(drafter, acceptance, max_draft_len=depth).draft_len[-1] == depth
        message = f"max_draft_len is {depth + 1}; allowed: at most {depth}, the depth of 'auto"
        with pytest.raises(OptionError, match=message):
            curve(drafter, acceptance, max_draft_len=depth + 1)


# --- drafting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("overlapped_s", "felt_s"), [(10.0, 64.0), (100.0, 100.0)])
def test_what_overlaps_is_felt_where_it_outlasts_the_verification(
    overlapped_s: float, felt_s: float
) -> None:
    time = DraftTime(np.array(5.0), overlapped_s=np.array(overlapped_s))
    found = curve(Drafter("toy", lambda _: time), HALF, max_draft_len=2)
    assert found.round_s[0, 0].tolist() == [64, 5 + felt_s, 5 + felt_s]
    assert found.draft_s[0, 0].tolist() == [0, 5 + overlapped_s, 5 + overlapped_s]
    assert found.verify_s[0, 0].tolist() == [64, 64, 64]


def test_an_engine_adds_to_each_round_but_not_to_a_plain_step() -> None:
    engine = real_engine(round_overhead_s=16.0, pass_overhead_s=1.0)
    hardware = device({"bf16": 512.0}, 8.0, engine=engine)
    found = curve(TENTH, HALF, hardware=hardware, engine="real", max_draft_len=2)
    # A step is 64 + 1 s, a round that much for its verification, a tenth per draft and 16 more.
    assert found.verify_s[0, 0].tolist() == [65, 65, 65]
    assert found.round_s[0, 0] == pytest.approx([65, 65 + 6.5 + 16, 65 + 13 + 16])


def test_a_drafter_sees_the_round_it_is_for() -> None:
    seen: list[Round] = []

    def draft(round_: Round) -> DraftTime:
        seen.append(round_)
        return DraftTime(np.zeros(()))

    loads: dict[str, Any] = {"batch_size": [1, 16], "context_len": [100, 200, 300]}
    found = curve(Drafter("spy", draft), HALF, **loads, max_draft_len=5)
    (one,) = seen
    # Never asked for an empty draft: length 0 stands in as 1, and what is answered is not used.
    expected: dict[str, Any] = {
        "draft_len": [1, 1, 2, 3, 4, 5],
        "batch_size": np.array([1, 16])[:, None],
        "context_len": np.array([100, 200, 300])[:, None, None],
        "tokens_per_round": found.tokens_per_round,
        "verify_s": found.verify_s,
        "decode_s": found.decode_s[..., None],
    }
    for name, values in expected.items():
        asked = np.broadcast_to(getattr(one, name), found.round_s.shape)
        np.testing.assert_array_equal(asked, np.broadcast_to(values, asked.shape))


# --- grids ---------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(questions(), st.sampled_from([1, 20, 40, 10**6]))
def test_a_grid_equals_the_loop_over_its_points(asked: dict[str, Any], points: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(axes, "_CHUNK_POINTS", points)
        whole = speedup_curve(**asked)
    for row, context in enumerate(asked["context_len"]):
        for column, batch in enumerate(asked["batch_size"]):
            point = speedup_curve(**asked | {"context_len": context, "batch_size": batch})
            for name in ARRAYS:
                np.testing.assert_allclose(
                    getattr(whole, name)[row, column], getattr(point, name)[0, 0], rtol=1e-12
                )


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


@pytest.mark.parametrize(("batches", "step"), [(1 << 14, 2), (1 << 16, 1)])
def test_a_slab_holds_at_least_a_context_and_65536_rows_at_most(batches: int, step: int) -> None:
    wide = replace(curve(), round_s=np.broadcast_to(1.0, (3, batches, 2)))
    assert [*wide.slabs()] == [slice(n, n + step) for n in range(0, 3, step)]


def test_a_grid_counts_plain_decoding_among_its_draft_lengths() -> None:
    contexts, batches = np.arange(1, 2501), np.arange(1, 41)
    assert [len(axis) for axis in grid_axes(contexts, batches, 99)] == [2500, 40, 100]  # 10 million
    with pytest.raises(OptionError, match=r"2500 x 40 x 101 points .*; allowed: up to 10000000$"):
        grid_axes(contexts, batches, 100)


def test_lengths_without_room_or_depth_gain_nothing() -> None:
    curve = speedup_curve("Qwen/Qwen3-8B", "b200", drafter="block,rates=.9/.9,cost=.1,drafts=4")
    assert drafting_gain(curve, None)[0] == float(curve.speedup[0, 0, 2])
    running = np.full(curve.round_s.shape, np.nan)
    running[..., 0] = 1
    assert not replace(curve, running=running).drafts_run
    assert drafting_gain(replace(curve, running=running), None)[0] == -np.inf
    running[..., 1] = 1
    one = replace(curve, running=running)
    assert one.drafts_run
    gains, drafts = drafting_gain(one, None)
    assert (gains.item(), drafts.item()) == (curve.speedup[0, 0, 1], 1)


@given(st.lists(st.integers(1, 99), min_size=1, max_size=30), st.integers(2, 9))
def test_an_overview_keeps_the_ends_of_an_axis_and_as_many_places_as_may_be(
    values: list[int], most: int
) -> None:
    every, kept = sorted({*values}), _thinned(values, most).tolist()
    assert (kept[0], kept[-1], len(kept)) == (every[0], every[-1], min(most, len(every)))
    assert {*kept} <= {*every}


def test_an_overview_takes_the_loads_of_a_part_that_it_looks_at() -> None:
    loads: dict[str, Any] = {"context_len": [1000, 30000], "batch_size": [1, 8]}
    whole = Overview.of(curve(**loads), **loads, position=(1, 1, 1), devices=1)
    unknown = ("best_draft_len", "best_speedup", "tokens_per_s", "usd_per_million_tokens")
    for batch in (8.0, 9.0):  # of 9 sequences nothing is kept
        seen = np.array([[batch], [batch + 1]])
        part = dict.fromkeys((*unknown, "drafts_run", "pays"), seen) | {unknown[0]: None}
        whole.fill(part | {"context_len": np.array([500, 30000]), "batch_size": np.array([batch])})
    for name, empty in [*((name, np.nan) for name in unknown), ("drafts_run", 0), ("pays", 0)]:
        last = empty if name == unknown[0] else 9.0
        np.testing.assert_array_equal(getattr(whole, name), [[empty, empty], [empty, last]])


@pytest.mark.parametrize("damage", rows("damages", "overviews"), ids=repr)
def test_an_overview_is_read_as_it_was_written_and_refused_where_it_is_damaged(
    damage: dict[str, Any],
) -> None:
    loads: dict[str, Any] = {"context_len": [1000, 30000], "batch_size": [1, 8, 9]}
    good = Overview.of(curve(**loads), **loads, position=(1, 1, 1), devices=1).to_dict()
    assert Overview.from_dict(good).to_dict() == good
    with pytest.raises(ValueError):  # noqa: PT011 - of numpy, or ours
        Overview.from_dict(good | damage)


# --- acceptance ----------------------------------------------------------------------------------


def test_acceptance_is_given_exactly_once() -> None:
    own = replace(TENTH, acceptance=HALF)
    np.testing.assert_array_equal(curve(own).speedup, curve(TENTH, HALF).speedup)
    with pytest.raises(OptionError, match=r"acceptance .*'autoregressive,cost=0.1'"):
        curve(own, HALF)
    with pytest.raises(OptionError, match=r"'autoregressive,cost=0.1' .*acceptance"):
        curve(TENTH)
    with pytest.raises(OptionError, match=r"acceptance .*'ideal'"):
        curve(IDEAL, HALF)
    # The ideal drafter has every draft accepted, and 64 tokens are free.
    assert curve().tokens_per_round[0, 0].tolist() == list(range(1, 18))
    assert curve().speedup[0, 0].tolist() == list(range(1, 18))


# --- what is refused -----------------------------------------------------------------------------

NO_SIZES: list[Any] = [
    *(-1, math.nan, math.inf, [8, -1], [8, math.nan], 1e12, 10**400, "many", "8", None, [None]),
    *([], [[1, 2], [3, 4]], [[1], [2, 3]], {"a": 1}, 1j, object(), True),
]
NO_COUNTS: list[Any] = [-1, 1.5, math.nan, math.inf, 1025, True, False, "4", [4], 4j]
REFUSED: list[tuple[str, Any, str]] = [
    *((axis, value, "a number") for axis in ("batch_size", "context_len") for value in NO_SIZES),
    *(("batch_size", value, "a number from 1 to 10000000") for value in (0, [8, 0], 0.5)),
    *(("max_draft_len", value, "a whole number from 0 to 1024") for value in NO_COUNTS),
    ("engine", "vllm", "ideal"),
    *(("share", value, "a number ") for value in (-0.01, 1, 1.5, math.nan, math.inf)),
]


@pytest.mark.parametrize(
    ("name", "value", "allowed"), REFUSED, ids=lambda value: type(value).__name__
)
def test_what_is_no_load_is_refused_by_name(name: str, value: Any, allowed: str) -> None:
    call = made([1, 2]).near_best if name == "share" else curve
    message = refusal(OptionError, call, **{name: value})
    assert message.startswith(f"{name} ")
    assert allowed in message.partition("; ")[2]


# --- memory --------------------------------------------------------------------------------------

USUAL = {"batch_size": [1, 2, 4, 8], "context_len": [16, 1024]}


def held() -> Architecture:
    """Return 1.5 MiB that cache 256 bytes a token.

    A projection of 512 * 512, an embedding and a head as large, in bf16; 8 KV heads of 8 + 8.
    """
    projection = Linear("q_proj", 512, 512, shard=HEADS)
    block = Block("attention", (projection,), GroupedQueryAttention(8, 8, 8, 8))
    head = Linear("lm_head", 512, 512, shard=TENSOR, kind="head")
    return Architecture("toy", "llama", 512, 512, (Layer((block,)),), head)


@pytest.mark.parametrize(
    ("new", "context", "settled", "fits"),
    [
        (1, 1024, False, True),
        (1, 1025, False, False),
        (1025, 0, False, True),
        (1024, 0, True, True),
        (1025, 0, True, False),
    ],
)
def test_a_prompt_is_held_against_the_memory_of_what_it_leaves(
    new: int, context: int, settled: bool, fits: bool
) -> None:
    served = Deployment(held(), engine_setup(device(memory_bytes=2.0**21), None, None, None))
    notes = axes.pass_latency(served, ForwardPass(2, new, context, settled=settled)).notes
    assert any("does not fit" in note for note in notes) is not fits


@pytest.mark.parametrize(("choices", "first", "weights", "cache"), rows("values", "held_batches"))
def test_a_model_that_does_not_fit_is_a_note_with_the_numbers(
    choices: dict[str, Any], first: int | None, weights: str, cache: str
) -> None:
    dtype, devices = choices.get("dtype"), choices.get("devices", 1)
    asked: dict[str, Any] = {"model": held(), "hardware": device(memory_bytes=2.0 * 2**20)}
    asked |= {"options": Options(kv_dtype=dtype, weight_dtype=dtype)}
    asked |= {name: choices.get(name, usual) for name, usual in USUAL.items()}
    found = curve(**asked, placement=Placement(devices))
    notes = [note for note in found.notes if "does not fit" in note]
    words = (f"{devices} x toy device", f"batch size {first} at context 1024", weights, cache)
    assert len(notes) == (first is not None)
    assert all(word in note for note in notes for word in words)


# --- the ideal drafter is the bound of all others, but where captured sizes end -------------------

MIMO = load_model("XiaomiMiMo/MiMo-7B-Base")
B300 = load_hardware("b300")
LOOKUP = load_drafter("ngram,accept=0.373,match=0.5")


def speedups(chip: HardwareProfile, engine: str) -> tuple[SpeedupCurve, ...]:
    """Return the curves of a lookup that finds something in half of its rounds, and the ideal."""
    loads: dict[str, Any] = {"batch_size": [1, 512], "context_len": [1, 4096]}
    return tuple(
        speedup_curve(MIMO, chip, drafter=drafter, engine=engine, **loads)
        for drafter in (LOOKUP, IDEAL)
    )


def test_a_lookup_beats_the_ideal_drafter_only_where_it_alone_fits_a_captured_graph() -> None:
    vllm = B300.engine("vllm")
    graphs = vllm.graphs
    assert graphs is not None
    # Layers of some fifty kernels hide their launching in 1536 tokens; slow ones do not.
    lookup, ideal = speedups(B300, "vllm")
    assert np.all(lookup.speedup <= ideal.speedup)
    slow = replace(vllm, graphs=replace(graphs, eager_kernel_s=5.4e-5))
    lookup, ideal = speedups(replace(B300, engines={"vllm": slow}), "vllm")
    beaten = lookup.speedup > ideal.speedup
    # Two drafts: the lookup verifies 2 positions of a sequence on average, 1024 in all, which is
    # the largest captured size; the ideal drafter 3, 1536, which no graph holds.
    assert [tuple(place) for place in np.argwhere(beaten)] == [(0, 1, 2)]
    assert lookup.verify_len[2] * 512 == max(graphs.sizes) == 1024
    assert ideal.verify_len[2] * 512 == 1536
    assert np.all(lookup.best_speedup <= ideal.best_speedup)


@pytest.mark.parametrize("engine", ["ideal", "sglang", "tensorrt-llm", "vllm"])
def test_without_captured_sizes_of_tokens_nothing_beats_the_ideal_drafter(engine: str) -> None:
    engines = {name: replace(one, graphs=None) for name, one in B300.engines.items()}
    lookup, ideal = speedups(replace(B300, engines=engines), engine)
    assert np.all(lookup.speedup <= ideal.speedup)


def test_beyond_the_contexts_of_its_acceptance_nobody_knows_what_one_draft_gains() -> None:
    measured = context_acceptance({1000.0: HALF, 2000.0: constant_acceptance(0.4)})
    grid: dict[str, Any] = {"context_len": [999, 1500], "batch_size": [1, 8]}
    drafter = replace(TENTH, acceptance=measured)
    one = curve(drafter, max_draft_len=1, **grid)
    assert one.acceptance_unknown.tolist() == [[True, True], [False, False]]
    assert not curve(drafter, max_draft_len=0, **grid).acceptance_unknown.any()


def test_the_band_of_acceptance_by_context_is_that_of_each_context() -> None:
    stem, drafts, contexts = "qwen3.5-27b/dflash/longbench-qasper-", np.arange(4), [1024.0, 2000.0]
    measured = {1024: "1k", 4096: "4k"}
    accepted = context_acceptance(
        {at: load_profile(stem + name).acceptance() for at, name in measured.items()}
    )
    setup = engine_setup(load_hardware("h100"), "vllm", None, None)
    served = Deployment(load_model("Qwen/Qwen3-8B"), setup)
    curve = axes.decoding_curve(
        served, ideal_drafter(), accepted, [1], context_len=contexts, max_draft_len=3
    )
    for row, context in enumerate(contexts):  # what is below differs from what is above
        ends = tokens_spread(accepted.at_context(context), drafts)
        found = np.stack(curve.spread)[:, row, 0]
        assert found == pytest.approx(np.array(ends))


@pytest.mark.parametrize(
    ("kind", "engine", "positions"),
    # vLLM's first pass has the positions of the verification, those of rejected drafts among them
    # (propose of its speculators), and its draft model one more; masks of parallel drafts follow.
    # SGLang's has the tokens that were committed.
    [("eagle3", "vllm", 4), ("model,config=Qwen/Qwen3-0.6B", "vllm", 4 + 1), ("p_eagle", "vllm", 4 + 2),
     ("pard,config=Qwen/Qwen3-0.6B", "vllm", 4 + 3), ("eagle3", "sglang", 1 + 0.5 + 0.25 + 0.125)],
)  # fmt: skip
def test_what_a_drafter_reads_again_is_a_matter_of_its_server(
    kind: str, engine: str, positions: float
) -> None:
    seen: list[float] = []

    def seconds(_served: Any, forward: ForwardPass, *_: Any, **__: Any) -> Any:
        seen.append(float(np.max(forward.query_len)))
        return np.ones(())

    drafter, drafts = load_drafter(f"{kind},accept=0.5"), np.array([3])
    setup = engine_setup(load_hardware("h100"), engine, None, None)
    served = Deployment(load_model("Qwen/Qwen3-8B"), setup)
    proposed = axes.proposals(drafter, constant_acceptance(0.5), drafts)
    load, target_s = (np.array(100.0), np.array(1.0), drafts), (np.array(1.0), np.array(1.0))
    axes.draft_time(served, drafter, proposed, load, target_s, seconds)
    assert seen[0] == positions


@pytest.mark.parametrize(
    ("chip", "engine", "expected"),
    [
        # A token more after rounds of which all drafts were accepted; all that were verified.
        ("m4-max", "mlx", [1 + 0.9 * 4, 1 + 0.81 * 4 + 1]),
        ("rtx-4090", "llama.cpp", [1 + 5, 1 + 7 + 1]),
    ],
)
def test_what_a_local_draft_model_reads_again(
    chip: str, engine: str, expected: list[float]
) -> None:
    def seconds(_served: Any, forward: ForwardPass, *_: Any, **__: Any) -> Any:
        return np.interp(forward.query_len, [1, 2, 3], [1.0, 5.0, 7.0])

    drafter, drafts = load_drafter("model,config=Qwen/Qwen3-0.6B,accept=0.9"), np.array([1, 2])
    setup = engine_setup(load_hardware(chip), engine, None, None)
    served = Deployment(load_model("Qwen/Qwen3-8B"), setup)
    proposed = axes.proposals(drafter, constant_acceptance(0.9), drafts)
    load, target_s = (np.array(100.0), np.array(1.0), drafts), (np.array(1.0), np.array(1.0))
    found = axes.draft_time(served, drafter, proposed, load, target_s, seconds)
    assert found.serial_s == pytest.approx(expected)
