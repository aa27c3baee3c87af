"""A model as numbers: what it stores, by hand and layer by layer; experts by enumeration."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import WEIGHT_FORMATS, Linear, OpCost
from specroof.architecture.experts import Experts, distinct_experts
from specroof.architecture.model import Architecture, Block, Layer, stack_layers
from strategies import batches, contexts, experts, forward_pass, setting, small
from tables import present

MXFP4 = WEIGHT_FORMATS["mxfp4"]

#: One dense layer and two of experts; hidden size 8, vocabulary 10.
MOE = Architecture(
    name="moe",
    family="mixtral",
    hidden_size=8,
    vocab_size=10,
    layers=(
        Layer(
            (
                Block(
                    "attention",
                    (Linear("q_proj", 8, 16, bias=True), Linear("o_proj", 16, 8, groups=4)),
                    GroupedQueryAttention(4, 2, 4, 4),
                    vector_params=8,
                ),
                Block("feed_forward", (Linear("up_proj", 8, 32, MXFP4),)),
            )
        ),
        Layer(
            (
                Block(
                    "feed_forward",
                    (Linear("router", 8, 4, kind="router"),),
                    Experts(4, 1, 8, 16, MXFP4, bias_params=3, n_shared=1),
                ),
            ),
            count=2,
        ),
    ),
    head=Linear("lm_head", 8, 10, kind="head"),
    vector_params=8,
)


def test_elements_by_hand() -> None:
    # q_proj 8 * 16 + 16 biases, o_proj 16 * 8 / 4, norm 8: 184. up_proj 256.
    # Router 32; an expert 3 * 8 * 16 + 3 biases = 387, five of them: 1967. Two such layers.
    # Embedding and head 80 each, final norm 8.
    assert MOE.n_params == 184 + 256 + 2 * 1967 + 80 + 80 + 8
    # A token visits one of four routed experts, and the shared one.
    assert MOE.n_active_params == MOE.n_params - 2 * 3 * 387
    assert MOE.n_layers == 3
    assert MOE.embedding_params == 80


def test_bytes_by_hand() -> None:
    # In bf16: q_proj 128 + 16, o_proj 32, norm 8 and 8, two routers of 32, embedding, head 80.
    in_bf16 = 144 + 32 + 8 + 8 + 64 + 80 + 80
    # In MXFP4, 17 bytes per 32 weights: up_proj 256, ten experts of 384. Their biases in bf16.
    in_mxfp4 = (256 + 10 * 384) * 17 / 32
    assert MOE.weight_bytes == 2 * in_bf16 + in_mxfp4 + 2 * 10 * 3
    # The embedding is stored like activations.
    assert replace(MOE, activation_dtype="fp32").weight_bytes - MOE.weight_bytes == 80 * 2


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


def cost(core: Experts, *sizes: int) -> OpCost:
    (op,) = core.costs(setting(forward_pass(*sizes)))
    return op


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
    op = cost(core, batch, queries, context)
    visits = batch * queries * (core.top_k + core.n_shared)
    weights = core.n_matrices * core.in_features * core.hidden_features
    assert op.flops == 2 * weights * visits
    read = core.n_shared + expected(batch * queries, core.n_experts, core.top_k, "exact")
    assert float(op.weight_bytes) == pytest.approx(read * weights * core.weight.element_bytes)
    assert (op.compute_dtype, op.kind) == (core.weight.compute_dtype, "experts")
    assert float(present(op.rows) * present(op.routing).hit) == pytest.approx(visits)
