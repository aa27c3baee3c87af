"""Factors of servers and chips: by hand, found again in made-up loads, blind to left-out ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fitting.parameters import (
    ALL,
    FACTORS,
    PREFILL_LAUNCH,
    fitted_parameters,
    own_engine,
    shared_engine,
    stored_fits,
)
from fitting.served_fit import (
    PAIRS,
    ServedPoints,
    factors_at,
    fit_factors,
    fitted_loads,
    pair_of,
    prefill_launch_s,
    served_engine,
)
from fitting.shared_fit import Points
from known_passes import on_links_s
from specroof import load_hardware
from specroof.architecture.base import WEIGHT_FORMATS, Linear
from specroof.architecture.experts import Experts
from specroof.architecture.model import Architecture, Block, Layer
from specroof.cost import ForwardPass
from specroof.evidence import Measurement, load_measurements
from specroof.hardware.profile import Placement
from specroof.latency.model import model_latency
from specroof.latency.setup import engine_setup
from specroof.scoring.left_out import SERVED_GROUPS, served_group
from specroof.scoring.served import plain_scores

pytestmark = pytest.mark.slow

#: Whose factors TensorRT-LLM on Hopper has.
WHOSE = ("all", "tensorrt-llm", "hopper", "tensorrt-llm hopper")


@pytest.fixture(scope="module")
def shared() -> dict[str, float]:
    """Return what all servers share, without the factors of any."""
    return {key: value for key, value in fitted_parameters().items() if " of " not in key}


@pytest.fixture(scope="module")
def loads() -> list[Measurement]:
    """Return some loads of vLLM on Hopper and of SGLang on CDNA4."""
    wanted = {("vllm", "hopper"): 12, ("sglang", "cdna4"): 12}
    found: list[Measurement] = []
    for pair, count in wanted.items():
        found += [load for load in fitted_loads() if PAIRS[pair_of(load)] == pair][:count]
    return found


@pytest.fixture(scope="module")
def drafted() -> Points:
    """Return a few measurements with drafts, which the factors of other pairs would move."""
    points = [point for point in load_measurements() if point.source == "eagle3-table3"]
    return Points(points)


def test_factors_of_all_of_a_server_of_a_family_and_of_both_multiply(
    shared: dict[str, float],
) -> None:
    engine = shared_engine("vllm", "hopper", shared)
    factors = {"layer of all": 2.0, "layer of vllm": 3.0, "memory of vllm hopper": 0.5}
    own = own_engine(engine, ("all", "vllm", "hopper", "vllm hopper"), factors)
    assert own.layer_overhead_s == pytest.approx(6 * engine.layer_overhead_s)
    assert own.memory_frac == pytest.approx(engine.memory_frac / 2)
    # Layers with experts, blocks in fp8 and those in fp4 have factors of their own.
    seconds, before = own.layer_kind_overhead_s, engine.layer_kind_overhead_s
    assert seconds["experts"] == before["experts"]
    assert seconds["sparse_index"] == pytest.approx(6 * before["sparse_index"])
    assert own_engine(engine, ("all", "sglang"), {"layer of vllm": 3.0}) == own_engine(
        engine, (), {}
    )


@pytest.mark.parametrize(
    ("server", "chip", "timed_us"),
    # aiconfigurator-core 0.12.0, Kimi-K2.5 in int4, routing by power_law_1.01, 4 tokens, tensor
    # parallel 8: vLLM 0.24.0 and SGLang 0.5.14.
    [("vllm", "h200", 74.5), ("vllm", "b200", 66.9), ("sglang", "h200", 59.0)],
)
def test_experts_of_int4_weights_take_what_was_timed(
    shared: dict[str, float], server: str, chip: str, timed_us: float
) -> None:
    weight = replace(WEIGHT_FORMATS["int4"], element_bytes=0.5625)
    layer = Layer((Block("feed_forward", (), Experts(384, 8, 7168, 2048, weight=weight)),))
    model = Architecture("toy", "llama", 8, 9, (layer,), Linear("lm_head", 8, 9))
    engine = served_engine(server, chip, shared)
    hardware = replace(load_hardware(chip), engines={server: engine})
    setup = engine_setup(hardware, server, Placement(8), None)
    (op, _) = model_latency(model, setup, ForwardPass(4, 1, 0)).ops
    # What a layer with experts takes on top holds a part of the floor.
    seconds = float(op.seconds) + engine.layer_kind_overhead_s["experts"]
    assert seconds * 1e6 == pytest.approx(timed_us, rel=0.15)


def test_indexers_of_tokens_take_what_was_timed(shared: dict[str, float]) -> None:
    # SGLang 0.5.14 on B200, GLM-5 in fp8, 8 heads, 4 sequences of 4096 tokens: 79.2 us, and 39.4
    # without; 100.8 and 54.9 on H200. Some 2 us are its matrices'.
    for chip, timed_us in (("b200", 37.8), ("h200", 43.9)):
        seconds = served_engine("sglang", chip, shared).layer_kind_overhead_s["token_index"]
        assert seconds * 1e6 == pytest.approx(timed_us, rel=0.15)


def test_no_factor_moves_all_reduces_that_were_timed_alone(shared: dict[str, float]) -> None:
    factors = {f"{name} of {whose}": 2.0 for name in ("collective", "link") for whose in WHOSE}
    link: Any = load_hardware("h200").interconnect
    reached: Any = served_engine("tensorrt-llm", "h200", {**shared, **factors}).collective
    # TensorRT-LLM 1.3.0rc20 on 4 and 8 H200, 8 KiB to 1 MiB (aiconfigurator).
    for devices, size, timed_us in ((4, 8192, 3.18), (4, 65536, 3.61), (8, 2**20, 25.7)):
        seconds = on_links_s(link, reached, Placement(devices), size)
        assert seconds * 1e6 == pytest.approx(timed_us, rel=0.1)


@pytest.mark.parametrize(("chip", "timed_us"), [("h200", 4.8), ("b200", 7.4), ("a100-80gb", 6.0)])
@pytest.mark.parametrize("server", ["vllm", "sglang"])
def test_short_all_reduces_take_what_was_timed(
    shared: dict[str, float], server: str, chip: str, timed_us: float
) -> None:
    # vLLM 0.14 to 0.24, SGLang 0.5.9 and 0.5.10 on 4 devices, 8 KiB, in graphs (aiconfigurator).
    reached: Any = served_engine(server, chip, shared).collective
    seconds = reached.latency_s + 3 * reached.device_latency_s
    assert seconds * 1e6 == pytest.approx(timed_us, rel=0.05)


def made_up(loads: list[Measurement], parameters: dict[str, float]) -> list[Measurement]:
    """Return loads as a server with these parameters would have run them."""
    points = ServedPoints(loads, parameters)
    tpot_s, ttft_s = np.exp(points.off(parameters) + points.measured)
    measured = zip(points.loads, tpot_s, ttft_s, strict=True)
    return [replace(load, tpot_s=float(tpot), ttft_s=float(ttft)) for load, tpot, ttft in measured]


def test_a_factor_is_found_again(
    shared: dict[str, float], loads: list[Measurement], drafted: Points
) -> None:
    loads = [replace(load, ttft_s=load.ttft_s or 1.0) for load in loads]
    truth = {**shared, "layer of sglang cdna4": 1.6}
    served = ServedPoints(made_up(loads, truth), shared)
    found = {**shared, **fit_factors(shared, served, drafted, lambda point: not point.ttft_s)}
    before, after = (abs(served.off(parameters)[0]).mean() for parameters in (shared, found))
    assert after < before / 4
    fitted, whole = (served_engine("sglang", "mi355x", one) for one in (found, shared))
    assert fitted.layer_overhead_s == pytest.approx(1.6 * whole.layer_overhead_s, rel=0.15)


def test_what_is_left_out_says_nothing(
    shared: dict[str, float], loads: list[Measurement], drafted: Points
) -> None:
    # Of whatever group: a fit is only told which measurements do not count.
    def without(point: Measurement) -> bool:
        return point.model == loads[0].model

    poisoned = [
        replace(load, tpot_s=9 * (load.tpot_s or 1)) if without(load) else load for load in loads
    ]
    fits = [
        fit_factors(shared, ServedPoints(measured, shared), drafted, without)
        for measured in (loads, poisoned)
    ]
    assert fits[0] == fits[1]
    assert fits[0] != factors_at(np.zeros(len(fits[0])))


def test_launches_of_prompts_are_read_off_a_server_without_graphs_for_them(
    shared: dict[str, float],
) -> None:
    loads = fitted_loads()
    where = ("deepseek-ai/DeepSeek-R1", "h200", "sglang")
    launched = [load for load in loads if (load.model, load.hardware, load.engine) == where]
    # Four loads of SGLang 0.5.9 on H200, up to 8 clients, prompts of 1024 tokens: TTFT of 148.7,
    # 149.4, 156.3 and 156.5 ms, a quarter below 149.24; DeepSeek-R1 is 1270 calls. Those of 0.5.12
    # have graphs.
    lost_s = shared["request_latency_s"] + 0.9 * 1024 * 2.6e-6  # of 0.8 to 1 of 1024 tokens
    by_hand = (0.14924 - lost_s) / 1270
    assert prefill_launch_s(launched, shared) == pytest.approx(by_hand, rel=1e-3)
    graphs = [load for load in launched if load.engine_version == "0.5.12"]
    assert prefill_launch_s(graphs, shared) == 0


def test_what_a_fit_leaves_out_has_not_said_how_long_launches_take(
    shared: dict[str, float],
) -> None:
    loads = fitted_loads()
    # Groups that leave out none of the loads that say how long leave all that is said.
    saying = [load for load in loads if prefill_launch_s([load], shared)]
    of_all = prefill_launch_s(loads, shared)
    for by in SERVED_GROUPS:
        for group in dict.fromkeys(served_group(load, by) for load in loads):
            rest = [load for load in saying if served_group(load, by) != group]
            expected = of_all if len(rest) == len(saying) else prefill_launch_s(rest, shared)
            stored = stored_fits()[group][PREFILL_LAUNCH]
            assert stored == pytest.approx(expected), group


def test_stored_fits_have_a_factor_of_each_kind() -> None:
    names = {name.partition(" of ")[0] for name in fitted_parameters(ALL) if " of " in name}
    assert names == {*FACTORS}


def test_loads_are_fitted_as_they_are_played() -> None:
    # Their steady state has more between tokens than a play: first tokens are late there.
    where = ("meta-llama/Llama-3.1-8B-Instruct", "h100", "tensorrt-llm", 8, 2048.0)
    loads = [
        load
        for load in fitted_loads()
        if (load.model, load.hardware, load.engine, load.tensor_parallel, load.input_len) == where
    ]
    fit = stored_fits()[served_group(loads[0], "model")]
    served = ServedPoints(loads, fit)
    played, steady = (
        {score.point.place: score.off for score in plain_scores(loads, "model", played=way)}
        for way in (True, False)
    )
    for figure, found in zip(("tpot_s", "ttft_s"), served.off(fit), strict=True):
        wanted = [played[load.place][figure] for load in served.loads]
        assert found == pytest.approx(wanted, abs=0.02)
        in_closed_form = [steady[load.place][figure] for load in served.loads]
        assert np.median(np.abs(np.subtract(in_closed_form, wanted))) > 0.04
