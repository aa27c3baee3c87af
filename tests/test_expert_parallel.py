"""Experts spread over devices: the fullest one by dice, and what is sent to it by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import Options, Placement, forward_cost, load_hardware, load_model
from specroof.architecture.base import Linear, Routing
from specroof.architecture.experts import Experts, distinct_experts, fullest_device
from specroof.architecture.model import Architecture, Block, Layer
from specroof.hardware.engine import Collective, EngineProfile
from specroof.hardware.profile import Interconnect
from specroof.latency.model import model_latency
from specroof.latency.pass_seconds import _Links
from specroof.latency.setup import Setup
from strategies import forward_pass
from tables import present, rows


def fullest(n_experts: int, top_k: int, tokens: float, devices: int) -> tuple[float, float]:
    """Return experts hit and visits of the fullest device, in means of all."""
    count = np.array(float(tokens))
    routing = Routing(n_experts, top_k, 0, count, distinct_experts(count, n_experts, top_k))
    experts, visits = fullest_device(routing, devices)
    return float(experts), float(visits)


def thrown(
    n_experts: int, top_k: int, tokens: int, devices: int, rounds: int
) -> tuple[float, float]:
    """Return the same by dice, with the mean of all devices as counted."""
    dice = np.random.default_rng(20_261)
    device_of = np.arange(n_experts) * devices // n_experts
    hit, visits = np.zeros((2, rounds, devices))
    for row in range(rounds):
        scores = dice.random((tokens, n_experts))
        chosen = np.argpartition(scores, top_k - 1, axis=-1)[:, :top_k]
        visits[row] = np.bincount(device_of[chosen.ravel()], minlength=devices)
        hit[row] = np.bincount(device_of[np.unique(chosen)], minlength=devices)
    return tuple(counts.max(axis=1).mean() / counts.mean() for counts in (hit, visits))


@pytest.mark.parametrize(
    ("n_experts", "top_k", "tokens", "devices", "off"), rows("values", "fullest_devices")
)
def test_the_fullest_device_is_that_of_dice(
    n_experts: int, top_k: int, tokens: int, devices: int, off: float
) -> None:
    expected = thrown(n_experts, top_k, tokens, devices, rounds=1500 if tokens < 100 else 200)
    assert fullest(n_experts, top_k, tokens, devices) == pytest.approx(expected, rel=off)


@given(st.integers(1, 512), st.data(), st.integers(2, 256), st.floats(1, 4096), st.floats(1, 100))
def test_more_tokens_never_make_the_fullest_device_relatively_fuller(
    n_experts: int, data: st.DataObject, devices: int, tokens: float, factor: float
) -> None:
    top_k = data.draw(st.integers(1, n_experts))
    few = fullest(n_experts, top_k, tokens, devices)
    many = fullest(n_experts, top_k, tokens * factor, devices)
    for less, more in zip(many, few, strict=True):
        assert less * (1 + 1e-12) >= 1
        assert less <= more * (1 + 1e-9)
        # One device has all that there is, at most.
        assert more <= devices * (1 + 1e-9)


def test_one_token_and_a_device_for_each_expert() -> None:
    # k of E devices have one visit each; of twice as many devices half have nothing to do.
    assert fullest(64, 8, 1, 64) == pytest.approx((8, 8))
    assert fullest(64, 8, 1, 128) == pytest.approx((16, 16))
    # All experts are visited by every token: nothing is left to chance.
    assert fullest(8, 8, 3, 4) == pytest.approx((1, 1))
    assert fullest(1, 1, 3, 1) == pytest.approx((1, 1))


QWEN = "Qwen/Qwen3-30B-A3B"  # 128 experts, 8 of them for a token


def experts_of(engine: str, placement: Placement, tokens: int) -> tuple[float, float, float]:
    """Return seconds of the experts' arithmetic and memory, and the rows of one that is hit."""
    chip = load_hardware("h100")
    setup = Setup(chip, chip.engine(engine), placement, Options(experts="exact"))
    ops = model_latency(load_model(QWEN), setup, forward_pass(tokens, 1, 100)).ops
    (experts,) = (op for op in ops if op.op.kind == "experts")
    return float(experts.compute_s), float(experts.memory_s), float(present(experts.op.rows))


def test_the_fullest_device_decides_what_spread_experts_take() -> None:
    _, sliced_s, rows = experts_of("vllm", Placement(8), 16)
    _, spread_s, spread_rows = experts_of("vllm", Placement(8, expert_parallel=8), 16)
    experts, visits = thrown(128, 8, 16, 8, rounds=1500)
    assert spread_s / sliced_s == pytest.approx(experts, rel=0.02)
    assert spread_rows / rows == pytest.approx(visits / experts, rel=0.02)
    # In many tokens chance evens out, and on the ideal engine it always has.
    for engine, tokens, off in (("vllm", 65536, 0.02), ("ideal", 16, 1e-12)):
        alike = [experts_of(engine, Placement(8, spread), tokens) for spread in (1, 8)]
        assert alike[0] == pytest.approx(alike[1], rel=off)


def test_shared_experts_in_the_same_matmul_are_divided_evenly() -> None:
    # Half of the visits are of the shared expert, so that half of the unevenness counts.
    core = Experts(n_experts=16, top_k=1, in_features=8, hidden_features=4, n_shared=1)
    layer = Layer((Block("feed_forward", (), core),))
    toy = Architecture("toy", "llama", 8, 9, (layer,), Linear("lm_head", 8, 9))
    chip = load_hardware("h100")
    setups = [
        Setup(chip, EngineProfile(name="vllm"), Placement(8, spread), Options())
        for spread in (1, 8)
    ]
    even, uneven = (model_latency(toy, setup, forward_pass(8, 1, 0)).ops[0] for setup in setups)
    experts, visits = fullest(16, 1, 8, 8)
    hit = float(distinct_experts(np.array(8.0), 16, 1))
    assert uneven.compute_s / even.compute_s == pytest.approx((visits + 1) / 2)
    assert uneven.memory_s / even.memory_s == pytest.approx((hit * experts + 1) / (hit + 1))


@pytest.mark.golden
@pytest.mark.parametrize(
    ("devices", "dispatch_us", "combine_us"),
    [(16, 118, 195), (32, 155, 273), (64, 173, 314), (128, 192, 369), (256, 194, 360)],
)
def test_tokens_are_sent_in_the_published_time(
    devices: int, dispatch_us: int, combine_us: int
) -> None:
    # DeepEP, docs/legacy.md, low-latency kernels: 128 tokens a device, 8 of 7168 elements in fp8
    # there and bf16 back, H800 with 160 GB/s in a node and 400 Gb/s each between them. The floors
    # come from 8 devices; its own share of the link falls from 64 devices on, by up to 17 %.
    kernels = present(EngineProfile(name="sglang").all_to_all(devices, 8))
    links = _Links(
        Interconnect(link_bytes_per_s=160e9, max_devices=8, scale_out_bytes_per_s=50e9),
        Collective(latency_s=1.0),
    )
    for token_bytes, latency_s, printed in (
        (7392, kernels.dispatch_latency_s, dispatch_us),
        (14336, kernels.combine_latency_s, combine_us),
    ):
        sent_bytes = np.array(128.0 * 8 * token_bytes)
        seconds = float(links.all_to_all(sent_bytes, devices, latency_s))
        assert 0.83 * printed <= seconds * 1e6 <= printed


def test_a_node_that_is_not_full_is_a_node() -> None:
    links = _Links(
        Interconnect(link_bytes_per_s=160e9, max_devices=8, scale_out_bytes_per_s=50e9),
        Collective(latency_s=1e-6, scale_out_latency_s=1e-5),
    )
    one, some, two = (float(links.all_reduce(np.array(1e6), devices)) for devices in (8, 12, 16))
    assert one < some == two


@pytest.mark.parametrize(
    ("name", "copies", "element_bytes"),
    [
        # Experts in fp8 blocks, in bf16 and in 4-bit floats of 16 to a scale.
        ("deepseek-ai/DeepSeek-R1", 8, 1 + 4 / 128),
        ("Qwen/Qwen3-30B-A3B", 8, 2),
        ("nvidia/DeepSeek-V3.1-NVFP4", 8, 0.5 + 1 / 16),
    ],
)
def test_bytes_of_dispatch_and_combine_by_hand(
    name: str, copies: int, element_bytes: float
) -> None:
    # 4 sequences with 2 tokens: on the way back each has `hidden_size` elements of two bytes.
    served = load_model(name)
    ops = forward_cost(served, forward_pass(4, 2, 100))
    exchanges = [op.collective for op in ops if op.collective is not None]
    (exchange,) = (exchange for exchange in exchanges if exchange.block == "experts")
    assert exchange.copies == copies
    assert float(exchange.message_bytes) == 4 * 2 * served.hidden_size * 2
    dispatched = exchange.message_bytes * exchange.dispatch_frac
    assert float(dispatched) == 4 * 2 * served.hidden_size * element_bytes
