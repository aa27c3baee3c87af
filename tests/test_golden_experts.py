"""Published counts of experts, sizes of caches, seconds of collectives, FLOP per byte."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from known_passes import on_links_s
from published_models import (
    chart_mxfp4,
    crossing,
    matrix,
    one_block,
    published,
    published_options,
    v4_flash_compressed,
    v4_flash_latent,
)
from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import WEIGHT_FORMATS
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.experts import Experts, distinct_experts
from specroof.architecture.model import Architecture
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.catalog import load_model
from specroof.cost import ForwardPass, OpCost, Options, forward_cost
from specroof.cost.forward import kv_cache_bytes
from specroof.hardware.engine import Collective
from specroof.hardware.profile import Interconnect, Placement
from tiny_configs import experts as experts_in

pytestmark = pytest.mark.golden

Vector = dict[str, Any]

FINN: Final = published("finn-2026-distinct-experts.yaml")
MOESD: Final = published("arxiv-2505.19645-distinct-experts.yaml")
WIDTH_DEPTH: Final = published("finn-2026-width-depth.yaml")
CACHES: Final = published("deepseek-v4-cache-sizes.yaml")
COLLECTIVES: Final = published("inference-lab-collectives.yaml")


def distinct(experts: Experts, tokens: Any) -> Any:
    count = np.asarray(tokens, dtype=np.float64)
    return distinct_experts(count, experts.n_experts, experts.top_k, FINN["options"]["experts"])


@pytest.mark.parametrize("vector", FINN["vectors"], ids=lambda row: row["model"])
def test_tokens_read_the_published_number_of_experts(vector: Vector) -> None:
    (experts,), tolerance = {*experts_in(load_model(vector["model"]))}, FINN["tolerance"]
    if "tokens" in vector:
        predicted = distinct(experts, vector["tokens"])
        assert predicted == pytest.approx(vector["distinct"], rel=0, abs=tolerance["distinct"])
    # Below the knee, tokens hardly share: one more still reads exp(-1) of top-k fresh experts.
    knee = experts.n_experts / experts.top_k
    fresh = distinct(experts, knee + 1) - distinct(experts, knee)
    assert knee == pytest.approx(vector["knee_tokens"], rel=0, abs=tolerance["knee"])
    assert fresh == pytest.approx(experts.top_k * np.exp(-1), rel=0.02)
    if "half_tokens" in vector:
        around = vector["half_tokens"] + np.array([-tolerance["half"], tolerance["half"]])
        below, above = distinct(experts, around)
        assert below < experts.n_experts / 2 < above


@pytest.mark.parametrize("vector", MOESD["vectors"], ids=str)
def test_moesd_expects_as_many_experts(vector: Vector) -> None:
    tokens, method = np.array(float(vector["tokens"])), MOESD["options"]["experts"]
    predicted = distinct_experts(tokens, vector["n_experts"], vector["top_k"], method)
    assert predicted == pytest.approx(vector["distinct"], rel=0, abs=MOESD["tolerance"])


@pytest.mark.parametrize("vector", WIDTH_DEPTH["vectors"], ids=str)
def test_uniform_draws_read_the_published_number_and_more_than_was_measured(vector: Vector) -> None:
    uniform, tokens = WIDTH_DEPTH["options"]["uniform"], np.array(float(vector["tokens"]))
    predicted = distinct_experts(tokens, **uniform)
    assert predicted == pytest.approx(vector["uniform"], rel=0, abs=WIDTH_DEPTH["tolerance"])
    exact = distinct_experts(tokens, uniform["n_experts"], uniform["top_k"])
    assert exact * (1 + 1e-12) >= vector["measured_width"] >= vector["measured_depth"]


def experts_op(sizes: Vector, tokens: Any) -> OpCost:
    core = Experts(sizes["n_experts"], sizes["top_k"], 1024, 1024, n_shared=sizes["n_shared"])
    (op,) = forward_cost(one_block(core), ForwardPass(tokens, 1, 0), Options(count="attention+ffn"))
    return op


def test_one_more_token_raises_the_bytes_of_experts_as_published() -> None:
    sizes, step = FINN["options"]["elasticity"], 1e-4
    fewer, more = np.log(experts_op(sizes, np.array([1 - step, 1 + step])).weight_bytes)
    elasticity = (more - fewer) / np.log((1 + step) / (1 - step))
    tolerance = FINN["tolerance"]["elasticity"]
    assert elasticity == pytest.approx(sizes["at_one_token"], rel=0, abs=tolerance)


def test_saturated_experts_are_as_far_from_a_dense_matrix_as_published() -> None:
    sizes, tokens = FINN["options"]["saturated_slope"], 100_000.0
    (dense,) = forward_cost(
        one_block(None, matrix("proj", 3 * 1024 * 1024)), ForwardPass(tokens, 1, 0), Options()
    )[:1]
    ratio = float(experts_op(sizes, tokens).intensity / dense.intensity)
    assert ratio == pytest.approx(sizes["ratio"], rel=0, abs=FINN["tolerance"]["slope"])


@pytest.mark.parametrize("vector", CACHES["vectors"], ids=str)
def test_a_million_tokens_take_the_published_bytes(vector: Vector) -> None:
    options, tolerance = CACHES["options"], CACHES["tolerance"]
    if "model" in vector:
        model = load_model(vector["model"])
    else:
        sizes = options[vector["layers"]]
        index = [sizes[key] for key in ("index_heads", "index_dim", "top_k") if key in sizes]
        indexer = Indexer(*index) if index else None
        model = one_block(
            CompressedAttention(128, 512, 64, window=128, ratio=sizes["ratio"], indexer=indexer)
        )
    cached = float(
        kv_cache_bytes(model, options["context_len"], Options(kv_dtype=options["kv_dtype"]))
    )
    assert cached == pytest.approx(vector["bytes"], rel=0, abs=tolerance["bytes"])
    if "gibibytes" in vector:
        gibibytes = cached / 2**30
        assert gibibytes == pytest.approx(vector["gibibytes"], abs=tolerance["gibibytes"])


@pytest.mark.parametrize("vector", COLLECTIVES["vectors"], ids=lambda row: row["collective"])
def test_collectives_take_the_published_seconds(vector: Vector) -> None:
    options = COLLECTIVES["options"]
    node, between = options["node"], options["between_nodes"]
    sent, devices = options["message_bytes"], node["devices"]
    ring = Interconnect(
        link_bytes_per_s=node["link_bytes_per_s"],
        max_devices=devices,
        scale_out_bytes_per_s=between["link_bytes_per_s"],
    )
    reached = Collective(latency_s=node["latency_s"], scale_out_latency_s=between["latency_s"])
    # In order: links, devices, and the exchange of which the collective is the only one.
    name, tolerance = vector["collective"], COLLECTIVES["tolerance"]
    links, count, block = {
        "ring": (ring, devices, "attention"),
        "in_switch": (replace(ring, switch_reduces=True), devices, "attention"),
        "all_to_all": (ring, devices, "context"),
        "two_nodes": (ring, between["nodes"] * devices, "attention"),
    }[name]
    placement = Placement(count, decode_context_parallel=count)
    seconds = on_links_s(links, reached, placement, sent, block=block)
    assert seconds == pytest.approx(vector["seconds"], rel=0, abs=tolerance)


# --- FLOP per byte, and where a matrix turns compute bound ---------------------------------------


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


def test_attention_changes_sides_at_the_published_number_of_queries() -> None:
    options, asked = published_options(CROSSOVERS), CROSSOVERS["options"]
    pairs = {"query_len": 1, "context_len": asked["context_len"]}
    absorbed = only_op(MLA_V4_FLASH, options, **pairs)
    # Up-projecting keys and values once pays for cheaper pairs from some number of queries on.
    sizes = asked["per_head"]
    n_heads, value_dim = sizes["n_heads"], sizes["value_dim"]
    key_dim = sizes["nope_dim"] + sizes["rope_dim"]
    per_head = one_block(GroupedQueryAttention(n_heads, n_heads, key_dim, value_dim))
    up = n_heads * (sizes["nope_dim"] + value_dim)
    once = only_op(
        one_block(None, matrix("kv_up_proj", sizes["latent_dim"] * up)),
        options,
        query_len=asked["context_len"],
        context_len=0,
    )
    query_len = {
        # f T S / (m_c S) is the ridge; no query bytes, as published
        "compute_bound": asked["ridge"] / intensity(absorbed),
        "keys_per_head": once.flops / (absorbed.flops - only_op(per_head, options, **pairs).flops),
    }
    for vector in CROSSOVERS["vectors"]:
        found = float(query_len[vector["crossover"]])
        assert found == pytest.approx(vector["query_len"], rel=0, abs=CROSSOVERS["tolerance"])


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
