"""What each sequence of a batch does alone is counted for one: the same seconds, fewer numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specroof.acceptance import constant_acceptance
from specroof.architecture.base import Linear
from specroof.architecture.model import Architecture, Block, Layer
from specroof.cost import ForwardPass, Options, forward_cost
from specroof.drafters import Round
from specroof.drafters.base import chain_proposals
from specroof.hardware.engine import EngineProfile
from specroof.hardware.profile import Placement
from specroof.latency.model import model_work
from specroof.latency.pass_seconds import pass_time, weighted_total
from specroof.latency.setup import Setup
from strategies import Grid, amounts, architectures, device, grids, options, placements, real_engine

ENGINES = st.sampled_from(
    [real_engine(), real_engine(overlap_norm=2), real_engine(overlap_norm=1.5)]
)


@given(architectures(), options, grids)
def test_one_sequence_times_the_batch_is_the_whole_batch(
    model: Architecture, choices: Options, grid: Grid
) -> None:
    whole = forward_cost(model, grid.forward, choices)
    alone = forward_cost(model, grid.forward, choices, by_sequence=True)
    for all_of_it, one in zip(whole, alone, strict=True):
        assert (one.name, one.kind, one.count) == (all_of_it.name, all_of_it.kind, all_of_it.count)
        assert all_of_it.sequences is None
        times = 1.0 if one.sequences is None else one.sequences
        for name, amount in amounts(one).items():
            factor = 1.0 if name == "message_bytes" else times
            expected = np.broadcast_to(amounts(all_of_it)[name], grid.shape)
            np.testing.assert_allclose(
                np.broadcast_to(amount * factor, grid.shape), expected, rtol=1e-12
            )


@given(architectures(), placements(), grids, ENGINES, st.sampled_from(["op", "dtype", "pass"]))
def test_a_pass_takes_the_same_either_way(
    model: Architecture, placement: Placement, grid: Grid, engine: EngineProfile, granularity: str
) -> None:
    # Data-parallel attention with fewer sequences than groups among them: its busiest group counts.
    setup = Setup(device(engine=engine), engine, placement, Options())
    both = [
        pass_time(
            model_work(model, setup, grid.forward, by_sequence=by_sequence), engine, granularity
        ).total_s
        for by_sequence in (False, True)
    ]
    whole, alone = (np.broadcast_to(seconds, grid.shape) for seconds in both)
    np.testing.assert_allclose(alone, whole, rtol=1e-12)


def test_weights_of_one_shape_and_value_are_one() -> None:
    row, column = np.array([[2.0, 3.0]]), np.array([[2.0], [3.0]])
    # By hand: [[2, 3], [2, 3]] + [[2, 2], [3, 3]] + 1. The two have the same bytes.
    found = weighted_total([(row, np.array(1.0)), (column, np.array(1.0)), (None, np.array(1.0))])
    assert found.tolist() == [[5.0, 6.0], [6.0, 7.0]]
    assert weighted_total([]).tolist() == 0


def a_round(context_len: Any) -> Round:
    draft_len = np.array([1.0, 2.0, 3.0])
    chain = chain_proposals(constant_acceptance(0.5), draft_len)
    return Round(
        draft_len=draft_len,
        batch_size=np.array([[1.0], [8.0]]),
        context_len=np.asarray(context_len, dtype=float)[:, None, None],
        tokens_per_round=chain.tokens_per_round,
        decode_s=np.ones(()),
        verify_s=np.ones(()),
        cost_of="decode",
        pass_s=lambda _model, forward, *_beside: np.zeros(forward.tokens.shape),
    )


def test_what_is_read_again_has_an_axis_of_contexts_only_where_they_matter() -> None:
    # Drafts of 1, 2 and 3 at 0.5: 1.5, 1.75 and 1.875 tokens; one fits into a context of 0.
    committed = [1.5, 1.75, 1.875]
    assert a_round([1, 100]).read_len.tolist() == committed
    assert a_round([0, 100]).read_len.tolist() == [[[1.0, 1.0, 1.0]], [committed]]


def test_a_pass_of_one_sequence_keeps_what_else_it_is() -> None:
    # Padded rows of matrices and the head are of the whole batch, whatever is counted alone.
    layer = Layer((Block("attention", (Linear("q_proj", 4, 4),)),))
    model = Architecture("toy", "llama", 4, 9, (layer,), Linear("lm_head", 4, 9, kind="head"))
    padded = replace(ForwardPass([2.0, 3.0], 1, 5), matmul_len=np.array([2.0, 4.0]))
    for by_sequence in (False, True):
        projection, head = forward_cost(model, padded, by_sequence=by_sequence)
        # 2 FLOP * 16 weights * (4, 12) rows, and 36 weights.
        assert projection.flops.tolist() == [128.0, 384.0]
        assert head.flops.tolist() == [288.0, 864.0]
