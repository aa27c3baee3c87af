"""A model as numbers: layers that are merged, experts by enumeration. Sizes: published ones."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import load_model
from specroof.architecture.base import WEIGHT_FORMATS, Linear
from specroof.architecture.experts import Experts, distinct_experts
from specroof.architecture.model import Block, Layer, stack_layers
from strategies import batches, contexts, experts, forward_pass, setting, small
from tables import present


def test_experts_by_hand() -> None:
    # An expert of 3 * 8 * 16 weights, in MXFP4 17 bytes for 32 of them, and 3 biases in bf16.
    core = Experts(4, 1, 8, 16, WEIGHT_FORMATS["mxfp4"], bias_params=3, n_shared=1)
    assert core.n_params == 5 * (384 + 3)
    assert core.idle_params == 3 * (384 + 3)
    assert core.stored_bytes == 5 * (384 * 17 / 32 + 3 * 2)


def test_an_embedding_is_stored_like_activations() -> None:
    model = load_model("Qwen/Qwen3-8B")
    wide = replace(model, activation_dtype="fp32")
    assert wide.weight_bytes - model.weight_bytes == 2 * 151_936 * 4096


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4))))
def test_equal_layers_are_merged_where_they_first_stand(listed: list[tuple[int, int]]) -> None:
    kinds = [(Block("feed_forward", (Linear("up_proj", 8, 8 + kind),)),) for kind in range(4)]
    layers = stack_layers(Layer(kinds[kind], count) for kind, count in listed)
    seen = list(dict.fromkeys(kind for kind, _ in listed))
    assert [layer.blocks for layer in layers] == [kinds[kind] for kind in seen]
    assert [layer.count for layer in layers] == [
        sum(count for kind, count in listed if kind == wanted) for wanted in seen
    ]


# --- routed experts: how many a pass reads, and what they cost -----------------------------------

methods = st.sampled_from(["exact", "replacement"])


def expected(tokens: int, n_experts: int, top_k: int, method: str) -> float:
    return float(distinct_experts(np.array(float(tokens)), n_experts, top_k, method))


@pytest.mark.parametrize(
    ("n_experts", "top_k", "tokens"), [(4, 1, 3), (4, 2, 3), (5, 2, 3), (6, 3, 2), (5, 5, 2)]
)
def test_experts_read_are_the_mean_over_all_routings(
    n_experts: int, top_k: int, tokens: int
) -> None:
    # Every token picks one of the sets of k different experts, each as likely; or draws them.
    sets = product(combinations(range(n_experts), top_k), repeat=tokens)
    draws = product(range(n_experts), repeat=top_k * tokens)
    exact = np.mean([len(set().union(*routing)) for routing in sets])
    assert expected(tokens, n_experts, top_k, "exact") == pytest.approx(exact)
    if n_experts ** (top_k * tokens) < 100_000:
        replaced = np.mean([len(set(drawn)) for drawn in draws])
        assert expected(tokens, n_experts, top_k, "replacement") == pytest.approx(replaced)


@given(st.integers(1, 512), st.data(), st.integers(1, 4096), methods)
def test_a_pass_reads_no_more_experts_than_there_are_or_are_drawn(
    n_experts: int, data: st.DataObject, tokens: int, method: str
) -> None:
    top_k = data.draw(st.integers(1, n_experts))
    hit = expected(tokens, n_experts, top_k, method)
    rounding = 1 + 1e-12
    assert hit * rounding >= 1
    assert hit <= min(n_experts, top_k * tokens) * rounding
    assert hit <= expected(tokens + 1, n_experts, top_k, method) * rounding
    # A token that draws with replacement may meet an expert twice, and reads no more for it.
    assert expected(tokens, n_experts, top_k, "replacement") <= (
        expected(tokens, n_experts, top_k, "exact") * rounding
    )


@given(experts(), batches, small, contexts)
def test_visits_decide_flops_and_distinct_experts_bytes(
    core: Experts, batch: int, queries: int, context: int
) -> None:
    (op,) = core.costs(setting(forward_pass(batch, queries, context)))
    visits = batch * queries * (core.top_k + core.n_shared)
    weights = core.n_matrices * core.in_features * core.hidden_features
    assert op.flops == 2 * weights * visits
    read = core.n_shared + expected(batch * queries, core.n_experts, core.top_k, "exact")
    assert float(op.weight_bytes) == pytest.approx(read * weights * core.weight.element_bytes)
    assert (op.compute_dtype, op.kind) == (core.weight.compute_dtype, "experts")
    assert float(present(op.rows) * present(op.routing).hit) == pytest.approx(visits)
