"""Published counts of distinct experts, sizes of caches and seconds of collectives."""

from typing import Any, Final

import numpy as np
import pytest

from published_models import matrix, one_block, published
from specroof.architecture.attention import Indexer
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.experts import Experts, distinct_experts
from specroof.catalog import load_model
from specroof.cost import ForwardPass, OpCost, Options, forward_cost
from specroof.cost.forward import kv_cache_bytes
from specroof.latency.pass_seconds import all_reduce_s, all_to_all_s, hierarchical_all_reduce_s

pytestmark = pytest.mark.golden

Vector = dict[str, Any]

FINN: Final = published("finn-2026-distinct-experts.yaml")
MOESD: Final = published("arxiv-2505.19645-distinct-experts.yaml")
WIDTH_DEPTH: Final = published("finn-2026-width-depth.yaml")
CACHES: Final = published("deepseek-v4-cache-sizes.yaml")
COLLECTIVES: Final = published("inference-lab-collectives.yaml")


def experts_of(model_name: str) -> Experts:
    found = {
        block.core
        for layer in load_model(model_name).layers
        for block in layer.blocks
        if isinstance(block.core, Experts)
    }
    assert len(found) == 1
    return found.pop()


def distinct(experts: Experts, tokens: Any) -> Any:
    count = np.asarray(tokens, dtype=np.float64)
    return distinct_experts(count, experts.n_experts, experts.top_k, FINN["options"]["experts"])


@pytest.mark.parametrize("vector", FINN["vectors"], ids=lambda row: row["model"])
def test_tokens_read_the_published_number_of_experts(vector: Vector) -> None:
    experts, tolerance = experts_of(vector["model"]), FINN["tolerance"]
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
    cached = float(kv_cache_bytes(model, options["context_len"], options["kv_dtype"]))
    assert cached == pytest.approx(vector["bytes"], rel=0, abs=tolerance["bytes"])
    if "gibibytes" in vector:
        gibibytes = cached / 2**30
        assert gibibytes == pytest.approx(vector["gibibytes"], abs=tolerance["gibibytes"])


@pytest.mark.parametrize("vector", COLLECTIVES["vectors"], ids=lambda row: row["collective"])
def test_collectives_take_the_published_seconds(vector: Vector) -> None:
    options = COLLECTIVES["options"]
    sent, node, between = options["message_bytes"], options["node"], options["between_nodes"]
    found = {
        "ring": all_reduce_s(sent, **node),
        "in_switch": all_reduce_s(sent, **node, switch_reduces=True),
        "all_to_all": all_to_all_s(sent, **node),
        "two_nodes": hierarchical_all_reduce_s(
            sent,
            nodes=between["nodes"],
            node_devices=node["devices"],
            link_bytes_per_s=(node["link_bytes_per_s"], between["link_bytes_per_s"]),
            latency_s=(node["latency_s"], between["latency_s"]),
        ),
    }
    seconds, tolerance = float(found[vector["collective"]]), COLLECTIVES["tolerance"]
    assert seconds == pytest.approx(vector["seconds"], rel=0, abs=tolerance)
