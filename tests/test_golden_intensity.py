"""Published FLOP per byte: attention, states, and where a matrix turns compute bound."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from published_models import (
    chart_mxfp4,
    matrix,
    one_block,
    published,
    published_options,
    v4_flash_compressed,
    v4_flash_latent,
)
from specroof.architecture import (
    WEIGHT_FORMATS,
    Architecture,
    Experts,
    GatedDeltaNet,
    GroupedQueryAttention,
    WeightFormat,
)
from specroof.cost import ForwardPass, OpCost, Options, forward_cost

Vector = dict[str, Any]

MLA: Final = published("finn-2026-mla-intensity.yaml")
HCA: Final = published("finn-2026-hca-crossings.yaml")
CROSSOVERS: Final = published("finn-2026-query-crossovers.yaml")
KNEES: Final = published("finn-2026-knees.yaml")
TRAFFIC: Final = published("finn-2026-layer-traffic.yaml")

MLA_V4_FLASH: Final = one_block(v4_flash_latent())
HCA_V4_FLASH: Final = one_block(v4_flash_compressed())


def forward_pass(*, query_len: float, context_len: float, batch_size: float = 1.0) -> ForwardPass:
    """Return a pass of one sequence, unless more are asked for."""
    return ForwardPass(batch_size, query_len, context_len)


def only_op(model: Architecture, options: Options, **forward: float) -> OpCost:
    """Return the one operation that a model of one block has under these options."""
    (op,) = forward_cost(model, forward_pass(**forward), options)
    return op


def intensity(op: OpCost, query_bytes: float = 0.0) -> float:
    """Return FLOP per byte, with bytes that the library does not count."""
    return float(op.flops / (op.memory_bytes + query_bytes))


def crossing(rising: Callable[[float], float], level: float, low: float, high: float) -> float:
    """Return where a rising function reaches a level, by bisection."""
    assert rising(low) < level < rising(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return high


# --- attention ---------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("vector", MLA["vectors"], ids=str)
def test_absorbed_mla_has_the_published_intensity(vector: Vector) -> None:
    options, query_bytes = published_options(MLA), MLA["options"]["query_bytes"]
    predicted = [
        intensity(
            only_op(MLA_V4_FLASH, options, query_len=queries, context_len=vector["context_len"]),
            query_bytes * queries,
        )
        for queries in vector["query_len"]
    ]
    assert predicted == pytest.approx(vector["intensity"], rel=0, abs=MLA["tolerance"])


@pytest.mark.golden
@pytest.mark.parametrize("vector", HCA["vectors"], ids=str)
def test_hca_turns_compute_bound_at_the_published_context(vector: Vector) -> None:
    queries, ridge = vector["query_len"], HCA["options"]["ridge"]

    def of_a_fraction_of_entries(context_len: float) -> float:
        op = only_op(
            MLA_V4_FLASH, published_options(HCA), query_len=queries, context_len=context_len / 128
        )
        return intensity(op, HCA["options"]["query_bytes"] * queries)

    context_len = crossing(of_a_fraction_of_entries, ridge, 1024, 1 << 20)
    assert context_len == pytest.approx(vector["context_len"], rel=0, abs=HCA["tolerance"])


@pytest.mark.golden
@pytest.mark.parametrize("vector", HCA["vectors"], ids=str)
def test_hca_with_its_window_turns_compute_bound_earlier(vector: Vector) -> None:
    queries, ridge = vector["query_len"], HCA["options"]["ridge"]

    def of_the_layer(context_len: float) -> float:
        op = only_op(
            HCA_V4_FLASH, published_options(HCA), query_len=queries, context_len=context_len
        )
        return intensity(op, HCA["options"]["query_bytes"] * queries)

    context_len = crossing(of_the_layer, ridge, 128, 1 << 20)
    assert context_len == pytest.approx(vector["with_window"], rel=0, abs=HCA["tolerance"])
    assert context_len < vector["context_len"]


def queries_that_make_mla_compute_bound() -> float:
    """Return T at which f T S / (m_c S) is the ridge; no query bytes, as published."""
    options = published_options(CROSSOVERS)
    context_len = CROSSOVERS["options"]["context_len"]
    one_query = only_op(MLA_V4_FLASH, options, query_len=1, context_len=context_len)
    return float(CROSSOVERS["options"]["ridge"]) / intensity(one_query)


def queries_that_make_keys_per_head_cheaper() -> float:
    """Return T from which up-projecting keys and values once pays for cheaper pairs."""
    options, context_len = published_options(CROSSOVERS), CROSSOVERS["options"]["context_len"]
    sizes = CROSSOVERS["options"]["per_head"]
    n_heads = sizes["n_heads"]
    per_head = GroupedQueryAttention(
        n_heads,
        n_heads,
        head_dim=sizes["nope_dim"] + sizes["rope_dim"],
        value_dim=sizes["value_dim"],
    )
    up = n_heads * (sizes["nope_dim"] + sizes["value_dim"])
    once = only_op(
        one_block(None, matrix("kv_up_proj", sizes["latent_dim"] * up)),
        options,
        query_len=context_len,
        context_len=0,
    )
    pairs = {"query_len": 1, "context_len": context_len}
    absorbed = only_op(MLA_V4_FLASH, options, **pairs)
    saved = absorbed.flops - only_op(one_block(per_head), options, **pairs).flops
    return float(once.flops / saved)


@pytest.mark.golden
@pytest.mark.parametrize("vector", CROSSOVERS["vectors"], ids=str)
def test_attention_changes_sides_at_the_published_number_of_queries(vector: Vector) -> None:
    query_len = {
        "compute_bound": queries_that_make_mla_compute_bound,
        "keys_per_head": queries_that_make_keys_per_head_cheaper,
    }[vector["crossover"]]()
    tolerance = CROSSOVERS["tolerance"]
    assert query_len == pytest.approx(vector["query_len"], rel=0, abs=tolerance)


# --- matrices ----------------------------------------------------------------------------------


def knee_model(vector: Vector) -> Architecture:
    """Return a dense matrix, or the experts of DeepSeek-V4-Flash; their size cancels."""
    weight = {0.53: chart_mxfp4(), 1.0: WEIGHT_FORMATS["fp8"]}[vector["weight_bytes"]]
    assert weight.compute_dtype == vector["dtype"]
    if vector["matrix"] == "dense":
        return one_block(None, matrix("proj", 1 << 20, weight))
    return one_block(v4_flash_experts(weight))


def v4_flash_experts(weight: WeightFormat) -> Experts:
    """Return 256 experts of 3 * 4096 * 2048 weights, 6 of them and a shared one per token."""
    return Experts(256, 6, 4096, 2048, weight, n_shared=1)


@pytest.mark.golden
@pytest.mark.parametrize("vector", KNEES["vectors"], ids=str)
def test_a_matrix_turns_compute_bound_at_the_published_number_of_tokens(vector: Vector) -> None:
    model, options = knee_model(vector), published_options(KNEES)

    def at(tokens: float) -> float:
        return intensity(only_op(model, options, batch_size=tokens, query_len=1, context_len=0))

    tokens = crossing(at, KNEES["options"]["ridges"][vector["dtype"]], 1, 100_000)
    tolerance = KNEES["tolerance"][vector["matrix"]]
    assert tokens == pytest.approx(vector["tokens"], rel=0, abs=tolerance)


# --- Qwen3.6-35B-A3B ---------------------------------------------------------------------------


def full_attention() -> Architecture:
    """Return one of its attention layers, without projections."""
    sizes = TRAFFIC["options"]["full_attention"]
    head_dim = sizes["head_dim"]
    return one_block(
        GroupedQueryAttention(sizes["n_heads"], sizes["n_kv_heads"], head_dim, head_dim)
    )


def linear_attention(conv_columns: int) -> Architecture:
    """Return one of its Gated DeltaNet layers, without projections."""
    sizes = TRAFFIC["options"]["linear_attention"]
    head_dim = sizes["head_dim"]
    return one_block(
        GatedDeltaNet(
            sizes["n_key_heads"],
            sizes["n_value_heads"],
            head_dim,
            head_dim,
            conv_kernel=4,
            conv_columns=conv_columns,
        )
    )


@pytest.mark.golden
@pytest.mark.parametrize("query_len", [1, 2, 8, 16])
@pytest.mark.parametrize("layer", ["full_attention", "linear_attention"])
def test_attention_intensity_grows_with_queries_as_published(layer: str, query_len: int) -> None:
    model = full_attention() if layer == "full_attention" else linear_attention(conv_columns=0)
    op = only_op(model, published_options(TRAFFIC), query_len=query_len, context_len=4096)
    assert intensity(op) == TRAFFIC["options"]["intensity_per_query"][layer] * query_len


@pytest.mark.golden
def test_grouped_query_attention_is_memory_bound_until_the_published_queries() -> None:
    bound = TRAFFIC["options"]["compute_bound_query_len"]
    one = only_op(full_attention(), published_options(TRAFFIC), query_len=1, context_len=4096)
    query_len = bound["ridge"] / intensity(one)
    assert query_len == pytest.approx(bound["full_attention"], rel=0, abs=bound["tolerance"])


def read_bytes(context_len: float) -> tuple[float, float]:
    """Return what ten attention layers and thirty states read for one sequence and step."""
    options, forward = published_options(TRAFFIC), {"query_len": 1, "context_len": context_len}
    cache = only_op(full_attention(), options, **forward).memory_bytes
    state = only_op(linear_attention(conv_columns=4), options, **forward).memory_bytes
    return 10 * float(cache), 30 * float(state)


@pytest.mark.golden
@pytest.mark.parametrize("vector", TRAFFIC["vectors"], ids=str)
def test_a_sequence_reads_the_published_bytes(vector: Vector) -> None:
    predicted, tolerance = sum(read_bytes(vector["context_len"])), TRAFFIC["tolerance"]
    assert predicted == pytest.approx(vector["sequence_bytes"], rel=0, abs=tolerance)


@pytest.mark.golden
def test_attention_reads_as_much_as_the_states_at_the_published_context() -> None:
    cache, state = read_bytes(TRAFFIC["options"]["crossover_context_len"])
    assert cache == pytest.approx(state, rel=0, abs=TRAFFIC["tolerance"])
