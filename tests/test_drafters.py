"""Drafters whose cost is given: paid per token or per block, of the plain step or of the round."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincc

from specroof.drafters import KINDS, Drafter, Round, ideal_drafter
from specroof.drafters.kinds import autoregressive_drafter, beta_tail, block_drafter
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


@given(shares, st.integers(1, 20), st.lists(st.integers(1, 100), min_size=1, max_size=9))
def test_drafts_are_paid_for_each_or_by_blocks_that_are_begun(
    cost: float, drafts: int, lengths: list[int]
) -> None:
    by_token, by_block = autoregressive_drafter(cost), block_drafter(cost, drafts=drafts)
    assert by_token.max_draft_len is None
    for drafter, begun in (
        (ideal_drafter(), [0 for _ in lengths]),
        (by_token, lengths),
        (by_block, [len(range(0, length, drafts)) for length in lengths]),
    ):
        # A step of 3 s, a verification of 7 s.
        for cost_of, whole_s in (("decode", 3.0), ("verify", 7.0)):
            expected = pytest.approx([cost * whole_s * times for times in begun])
            assert [serial_s(drafter, one, cost_of=cost_of) for one in lengths] == expected
            together = drafter.draft(a_round(lengths, cost_of=cost_of)).serial_s
            assert np.broadcast_to(together, len(lengths)).tolist() == expected
        assert drafter.is_ideal is (drafter.name == "ideal")


@given(st.floats(0, 1), st.floats(0.05, 60), st.floats(0.05, 60))
def test_confidence_above_a_threshold_is_the_incomplete_beta_function(
    least: float, a: float, b: float
) -> None:
    assert beta_tail(least, a, b) == pytest.approx(betaincc(a, b, least), rel=1e-9, abs=1e-12)


HUGE = pytest.param(10**400, id="huge")
BAD_COSTS = [-0.1, 100.1, math.nan, math.inf, -math.inf, HUGE, "0.1", None, True, 0.1j, [0.1]]


@pytest.mark.parametrize("cost", BAD_COSTS)
def test_a_cost_that_is_no_share_is_refused(cost: Any) -> None:
    for build in (autoregressive_drafter, partial(block_drafter, drafts=4)):
        with pytest.raises(OptionError, match=r"^cost is .*; allowed: a number from 0 to 100$"):
            build(cost)


def build(kind: str, values: Mapping[str, float], name: str = "") -> Drafter:
    return KINDS[kind].build(values, name)


def test_names_begin_with_their_kind() -> None:
    assert build("ideal", {}).name == "ideal"
    assert build("autoregressive", {"cost": 0.1}).name == "autoregressive,cost=0.1"
    assert build("block", {"cost": 0.1, "drafts": 16.0}).name == "block,cost=0.1,drafts=16"
    # Unless the SPEC has said more, such as its acceptance.
    spec = "block,cost=0.1,block=16,accept=0.8"
    assert build("block", {"cost": 0.1, "block": 16.0}, spec).name == spec
    # Numbers of NumPy are numbers.
    drafter = block_drafter(np.float32(0.5), drafts=np.int64(4))  # type: ignore[arg-type]
    assert (drafter.name, serial_s(drafter, 4)) == ("block,cost=0.5,drafts=4", 1.5)


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
