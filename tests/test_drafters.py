"""Drafters whose cost is given: paid per token or per block, of the plain step or of the round."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.drafters import KINDS, Drafter, Round, ideal_drafter
from specroof.drafters.kinds import autoregressive_drafter, block_drafter
from specroof.errors import OptionError

shares = st.floats(0, 100)


def a_round(draft_len: Any, *, cost_of: str = "decode") -> Round:
    """Return a round of a step of 3 s and a verification of 7 s, which may time no pass."""

    def pass_s(*_: object) -> Any:
        raise AssertionError("a fixed share needs no pass")

    return Round(
        draft_len=np.asarray(draft_len, dtype=np.float64),
        batch_size=np.array(8.0),
        context_len=np.array(100.0),
        tokens_per_round=np.array(2.0),
        decode_s=np.array(3.0),
        verify_s=np.array(7.0),
        cost_of=cost_of,
        pass_s=pass_s,
    )


def serial_s(drafter: Drafter, draft_len: int, *, cost_of: str = "decode") -> float:
    time = drafter.draft(a_round(draft_len, cost_of=cost_of))
    assert time.overlapped_s == 0
    return float(time.serial_s)


# --- seconds -------------------------------------------------------------------------------------


@given(st.integers(1, 100))
def test_the_ideal_drafter_takes_no_time(draft_len: int) -> None:
    assert serial_s(ideal_drafter(), draft_len) == 0
    assert ideal_drafter().is_ideal
    assert ideal_drafter().name == "ideal"


@given(shares, st.integers(1, 100))
def test_an_autoregressive_drafter_is_paid_for_each_token(cost: float, draft_len: int) -> None:
    drafter = autoregressive_drafter(cost)
    seconds = sum(cost * 3.0 for _ in range(draft_len))
    assert serial_s(drafter, draft_len) == pytest.approx(seconds)
    assert not drafter.is_ideal
    assert drafter.max_draft_len is None


@given(shares, st.integers(1, 20), st.integers(1, 100))
def test_a_block_drafter_is_paid_for_each_block_that_is_begun(
    cost: float, drafts: int, draft_len: int
) -> None:
    seconds = 0.0
    left = 0
    for _ in range(draft_len):
        if not left:
            seconds, left = seconds + cost * 3.0, drafts
        left -= 1
    assert serial_s(block_drafter(cost, drafts=drafts), draft_len) == pytest.approx(seconds)


def test_a_share_may_be_of_the_verification() -> None:
    # Two drafts at a tenth of 7 s each, and one block at a tenth.
    assert serial_s(autoregressive_drafter(0.1), 2, cost_of="verify") == pytest.approx(1.4)
    assert serial_s(block_drafter(0.1, drafts=4), 2, cost_of="verify") == pytest.approx(0.7)


@given(shares, st.integers(1, 8), st.lists(st.integers(1, 40), min_size=1))
def test_arrays_of_rounds_are_timed_like_each_round(
    cost: float, drafts: int, lengths: list[int]
) -> None:
    for drafter in (autoregressive_drafter(cost), block_drafter(cost, drafts=drafts)):
        together = drafter.draft(a_round(lengths)).serial_s
        assert together.tolist() == [serial_s(drafter, length) for length in lengths]


# --- what is refused -----------------------------------------------------------------------------

HUGE = pytest.param(10**400, id="huge")
BAD_COSTS = [-0.1, 100.1, math.nan, math.inf, -math.inf, HUGE, "0.1", None, True, 0.1j, [0.1]]


@pytest.mark.parametrize("cost", BAD_COSTS)
def test_a_cost_that_is_no_share_is_refused(cost: Any) -> None:
    for build in (autoregressive_drafter, partial(block_drafter, drafts=4)):
        with pytest.raises(OptionError, match=r"^cost is .*; allowed: a number from 0 to 100$"):
            build(cost)


def test_numbers_of_numpy_are_numbers() -> None:
    drafter = block_drafter(np.float32(0.5), drafts=np.int64(4))  # type: ignore[arg-type]
    assert drafter.name == "block,cost=0.5,drafts=4"
    assert serial_s(drafter, 4) == 1.5


# --- the kinds that a SPEC names -----------------------------------------------------------------


def build(kind: str, values: Mapping[str, float], name: str = "") -> Drafter:
    return KINDS[kind].build(values, name)


def test_names_begin_with_their_kind() -> None:
    assert build("ideal", {}).name == "ideal"
    assert build("autoregressive", {"cost": 0.1}).name == "autoregressive,cost=0.1"
    assert build("block", {"cost": 0.1, "drafts": 16.0}).name == "block,cost=0.1,drafts=16"
    # Unless the SPEC has said more, such as its acceptance.
    spec = "block,cost=0.1,block=16,accept=0.8"
    assert build("block", {"cost": 0.1, "block": 16.0}, spec).name == spec


def test_a_block_of_16_is_an_anchor_and_15_drafts() -> None:
    anchored = build("block", {"cost": 0.1, "block": 16.0})
    drafts = build("block", {"cost": 0.1, "drafts": 16.0})
    assert serial_s(anchored, 15) == serial_s(drafts, 15) == serial_s(drafts, 16)
    assert serial_s(anchored, 16) == 2 * serial_s(anchored, 15)
    assert serial_s(drafts, 17) == 2 * serial_s(drafts, 16)


@pytest.mark.parametrize(
    ("key", "value", "least"),
    [
        *(("block", value, "2") for value in (1.0, 0.0, 4098.0)),
        *(("drafts", value, "1 to 4096") for value in (0, -1, 4097)),
        *((key, value, "") for key in ("block", "drafts") for value in (1.5, math.nan, math.inf)),
    ],
)
def test_blocks_hold_a_whole_number_of_drafts_and_perhaps_an_anchor(
    key: str, value: float, least: str
) -> None:
    with pytest.raises(OptionError, match=f"^{key} is {value:g}; allowed: .*{least}"):
        build("block", {"cost": 0.1, key: value})
    if key == "drafts":
        for drafts in (value, "4", None, True):
            with pytest.raises(OptionError, match=r"^drafts is .*; allowed: .* from 1 to 4096"):
                block_drafter(0.1, drafts=drafts)  # type: ignore[arg-type]


def test_kinds_require_and_read_keys_that_they_have() -> None:
    for kind in KINDS.values():
        assert all(set(group) <= kind.keys.keys() for group in kind.required)
        assert all(kind.keys.values())
        assert set(kind.reads) >= {"config"} & set(kind.keys)
        # Acceptance is no key of a kind.
        assert not any("accept" in key for key in kind.keys)
