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
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import WEIGHT_FORMATS
from specroof.architecture.experts import Experts
from specroof.architecture.model import Architecture
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.cost import ForwardPass, OpCost, Options, forward_cost

pytestmark = pytest.mark.golden

Vector = dict[str, Any]

MLA: Final = published("finn-2026-mla-intensity.yaml")
HCA: Final = published("finn-2026-hca-crossings.yaml")
CROSSOVERS: Final = published("finn-2026-query-crossovers.yaml")
KNEES: Final = published("finn-2026-knees.yaml")
TRAFFIC: Final = published("finn-2026-layer-traffic.yaml")

MLA_V4_FLASH: Final = one_block(v4_flash_latent())
HCA_V4_FLASH: Final = one_block(v4_flash_compressed())


def only_op(
    model: Architecture,
    options: Options,
    *,
    query_len: float,
    context_len: float,
    batch_size: float = 1.0,
) -> OpCost:
    (op,) = forward_cost(model, ForwardPass(batch_size, query_len, context_len), options)
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


@pytest.mark.parametrize("vector", HCA["vectors"], ids=str)
def test_hca_turns_compute_bound_at_the_published_context_and_earlier_with_its_window(
    vector: Vector,
) -> None:
    queries, options = vector["query_len"], published_options(HCA)
    query_bytes = HCA["options"]["query_bytes"] * queries

    def of_a_fraction_of_entries(context_len: float) -> float:
        op = only_op(MLA_V4_FLASH, options, query_len=queries, context_len=context_len / 128)
        return intensity(op, query_bytes)

    def of_the_layer(context_len: float) -> float:
        op = only_op(HCA_V4_FLASH, options, query_len=queries, context_len=context_len)
        return intensity(op, query_bytes)

    for rising, low, key in (
        (of_a_fraction_of_entries, 1024, "context_len"),
        (of_the_layer, 128, "with_window"),
    ):
        context_len = crossing(rising, HCA["options"]["ridge"], low, 1 << 20)
        assert context_len == pytest.approx(vector[key], rel=0, abs=HCA["tolerance"])
    assert vector["with_window"] < vector["context_len"]


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


@pytest.mark.parametrize("vector", CROSSOVERS["vectors"], ids=str)
def test_attention_changes_sides_at_the_published_number_of_queries(vector: Vector) -> None:
    query_len = {
        "compute_bound": queries_that_make_mla_compute_bound,
        "keys_per_head": queries_that_make_keys_per_head_cheaper,
    }[vector["crossover"]]()
    tolerance = CROSSOVERS["tolerance"]
    assert query_len == pytest.approx(vector["query_len"], rel=0, abs=tolerance)


def knee_model(vector: Vector) -> Architecture:
    """Return a dense matrix, or the experts of DeepSeek-V4-Flash; their size cancels."""
    weight = {0.53: chart_mxfp4(), 1.0: WEIGHT_FORMATS["fp8"]}[vector["weight_bytes"]]
    assert weight.compute_dtype == vector["dtype"]
    if vector["matrix"] == "dense":
        return one_block(None, matrix("proj", 1 << 20, weight))
    # 256 experts of 3 * 4096 * 2048 weights, 6 of them and a shared one per token.
    return one_block(Experts(256, 6, 4096, 2048, weight, n_shared=1))


@pytest.mark.parametrize("vector", KNEES["vectors"], ids=str)
def test_a_matrix_turns_compute_bound_at_the_published_number_of_tokens(vector: Vector) -> None:
    model, options = knee_model(vector), published_options(KNEES)

    def at(tokens: float) -> float:
        return intensity(only_op(model, options, batch_size=tokens, query_len=1, context_len=0))

    tokens = crossing(at, KNEES["options"]["ridges"][vector["dtype"]], 1, 100_000)
    tolerance = KNEES["tolerance"][vector["matrix"]]
    assert tokens == pytest.approx(vector["tokens"], rel=0, abs=tolerance)


def layer_of(kind: str, **columns: int) -> Architecture:
    sizes = dict(TRAFFIC["options"][kind])
    head_dim = sizes.pop("head_dim")
    if kind == "full_attention":
        return one_block(GroupedQueryAttention(**sizes, head_dim=head_dim, value_dim=head_dim))
    dims = {"key_dim": head_dim, "value_dim": head_dim}
    return one_block(GatedDeltaNet(**sizes, **dims, conv_kernel=4, **columns))


@pytest.mark.parametrize(
    "model", [layer_of("full_attention"), layer_of("linear_attention", conv_columns=0)]
)
def test_attention_intensity_grows_with_queries_as_published(model: Architecture) -> None:
    kind = "full_attention" if "full_attention" in model.layer_kinds else "linear_attention"
    per_query, options = TRAFFIC["options"]["intensity_per_query"], published_options(TRAFFIC)
    for query_len in (1, 2, 8, 16):
        op = only_op(model, options, query_len=query_len, context_len=4096)
        assert intensity(op) == per_query[kind] * query_len
    bound = TRAFFIC["options"]["compute_bound_query_len"]
    if kind in bound:  # at which memory no longer bounds it
        query_len = bound["ridge"] / per_query[kind]
        assert query_len == pytest.approx(bound[kind], rel=0, abs=bound["tolerance"])


def read_bytes(context_len: float) -> tuple[float, float]:
    """Return what ten attention layers and thirty states read for one sequence and step."""
    cache, state = (
        only_op(model, published_options(TRAFFIC), query_len=1, context_len=context_len)
        for model in (layer_of("full_attention"), layer_of("linear_attention", conv_columns=4))
    )
    return 10 * float(cache.memory_bytes), 30 * float(state.memory_bytes)


@pytest.mark.parametrize("vector", TRAFFIC["vectors"], ids=str)
def test_a_sequence_reads_the_published_bytes(vector: Vector) -> None:
    predicted, tolerance = sum(read_bytes(vector["context_len"])), TRAFFIC["tolerance"]
    assert predicted == pytest.approx(vector["sequence_bytes"], rel=0, abs=tolerance)
    cache, state = read_bytes(TRAFFIC["options"]["crossover_context_len"])
    assert cache == pytest.approx(state, rel=0, abs=tolerance)
