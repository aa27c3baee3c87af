"""Prices of passes between the points of a grid: against the passes themselves."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import load_drafter, load_hardware, load_model
from specroof.cost import ForwardPass
from specroof.drafters import Drafter
from specroof.hardware.profile import Placement
from specroof.latency.model import Work
from specroof.latency.setup import Deployment, engine_setup
from specroof.serving.capacity import PrefillRules, prefill_rules
from specroof.serving.pass_prices import Grid, PassPrices, _axis, pass_prices
from specroof.serving.workload import prefill_pass
from specroof.speedup.curve import acceptance_of, decoding_curve, engine_pass_s

#: Dense, latent attention and experts, windows, recurrent layers; all three schedulers.
SERVED = [
    ("Qwen/Qwen3-8B", "h100", "vllm", 1),
    ("deepseek-ai/DeepSeek-R1", "b200", "sglang", 8),
    ("openai/gpt-oss-120b", "h200", "tensorrt-llm", 2),
    ("Qwen/Qwen3.5-27B", "h100", "vllm", 2),
]
#: Requests and tokens of the grid.
RUNNING, SHORTEST, PROMPT, LONGEST = 256, 800, 8192, 9216


def deployment(model: str, chip: str, engine: str, devices: int) -> Deployment:
    placement = Placement(tensor_parallel=devices)
    return Deployment(load_model(model), engine_setup(load_hardware(chip), engine, placement, None))


def priced(
    served: Deployment,
    rules: PrefillRules,
    drafter: Drafter | None = None,
    drafts: int = 0,
    **bounds: Any,
) -> tuple[PassPrices, ...]:
    usual: dict[str, Any] = {
        "running": RUNNING,
        "input_len": (SHORTEST, PROMPT),
        "longest": LONGEST,
    }
    drafting = (drafter, acceptance_of(drafter), drafts) if drafter and drafts else None
    return tuple(pass_prices(served, rules, drafting=drafting, **usual | bounds))


@pytest.mark.parametrize("where", SERVED)
def test_passes_between_the_points_take_what_they_take(where: tuple[str, str, str, int]) -> None:
    served = deployment(*where)
    rules = prefill_rules(served)
    (prices,), rng = priced(served, rules), np.random.default_rng(0)
    for _ in range(40):
        batch = int(np.exp(rng.uniform(0, np.log(RUNNING))))
        context = rng.uniform(SHORTEST, LONGEST)
        decode = ForwardPass(batch, 1.0, context)
        alone_s = float(engine_pass_s(served, decode))
        assert prices.round_s.at(batch, context) == pytest.approx(alone_s, rel=0.01)
        # One chunk of a prompt that is partly cached; several whole prompts of a pass.
        tokens, cached = rng.uniform(1024, rules.chunk), rng.uniform(0, 6000)
        prompts = rng.integers(2, 9)
        chunk = prefill_pass(tokens, context_len=cached)
        whole = prefill_pass(tokens / prompts, batch_size=prompts)
        for prompt, attended in ((chunk, cached + tokens / 2), (whole, tokens / prompts / 2)):
            prompt_s = float(engine_pass_s(served, prompt))
            assert prices.prompt_s.at(tokens, attended) == pytest.approx(prompt_s, rel=0.01)
            beside = Work(served.model, prompt, kind="prompts")
            both_s, mixed_s = (
                float(engine_pass_s(served, decode, beside)),
                prices.mixed_s(batch, context, tokens, attended),
            )
            assert mixed_s == pytest.approx(both_s, rel=0.01)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("spec", ["eagle3,accept=0.7", "medusa,rates=.5/.4"])
def test_draft_lengths_are_priced_together_as_one_by_one(engine: str, spec: str) -> None:
    served, drafter = deployment("Qwen/Qwen3-8B", "h100", engine, 1), load_drafter(spec)
    rules = prefill_rules(served, drafter.kind)
    bounds = {"running": 16, "longest": 2048, "input_len": (800, 1000)}
    together = priced(served, rules, drafter, 3, **bounds)
    assert len(together) == (4 if "eagle" in spec else 3)  # the drafter ends before
    for drafts, prices in enumerate(together):
        alone = priced(served, rules, drafter, drafts, **bounds)[-1]
        for name in ("round_s", "prompt_s", "sharing_s", "context_s"):
            one, other = getattr(prices, name).values, getattr(alone, name).values
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15, err_msg=name)
        assert prices.survival == pytest.approx(alone.survival)
        assert prices.positions == alone.positions == (drafts + 1 if rules.drafts_beside else 1)


@pytest.mark.parametrize("drafts_beside", [True, False])
def test_rounds_are_those_of_a_curve_and_mixed_passes_draft_as_the_server_does(
    drafts_beside: bool,
) -> None:
    served, drafter = deployment(*SERVED[0]), load_drafter("eagle3,accept=0.7")
    rules = PrefillRules(8192, shares_passes=True, drafts_beside=drafts_beside)
    prices = priced(served, rules, drafter, drafts=3)[-1]
    assert prices.survival == pytest.approx((0.7, 0.49, 0.343))
    assert prices.tokens_per_round == pytest.approx(2.533)
    assert prices.positions == (4 if drafts_beside else 1)
    curve = decoding_curve(
        served, drafter, acceptance_of(drafter), [1, 24, 200], context_len=[1000, 7000],
        max_draft_len=3,
    )  # fmt: skip
    chunk = Work(served.model, prefill_pass(2048), kind="prompts")
    for i, context in enumerate(curve.context_len):
        for j, batch in enumerate(curve.batch_size):
            round_s = curve.round_s[i, j, -1]
            assert prices.round_s.at(batch, context) == pytest.approx(round_s, rel=0.01)
            decode = ForwardPass(batch, prices.positions, context)
            wanted = float(engine_pass_s(served, decode, chunk))
            if drafts_beside:
                wanted += round_s - curve.verify_s[i, j, -1]
            assert prices.mixed_s(batch, context, 2048, 1024) == pytest.approx(wanted, rel=0.01)


def test_a_tree_keeps_its_tokens_per_round() -> None:
    served = deployment(*SERVED[0])
    drafter = load_drafter("eagle3,accept=0.6,tree=3/2/1,siblings=.1/.05")
    prices = priced(served, prefill_rules(served, "eagle3"), drafter, drafts=3)[-1]
    curve = decoding_curve(
        served, drafter, acceptance_of(drafter), [8], context_len=[4096], max_draft_len=3
    )
    assert prices.tokens_per_round == pytest.approx(curve.tokens_per_round[0, 0, -1])
    assert list(prices.survival) == sorted(prices.survival, reverse=True)
    assert 0 <= min(prices.survival) <= max(prices.survival) <= 1


def test_one_request_and_prompts_in_one_piece_have_a_grid() -> None:
    served = deployment(*SERVED[0])
    whole = PrefillRules(0, shares_passes=False, drafts_beside=False)
    bounds: Any = {"input_len": (512, 512), "longest": 512}
    (prices,) = priced(served, whole, running=1, **bounds)
    assert prices.prompt_s.at(512, 256) == pytest.approx(
        float(engine_pass_s(served, prefill_pass(512))), rel=0.01
    )
    assert prices.round_s.at(1, 512) == pytest.approx(
        float(engine_pass_s(served, ForwardPass(1, 1, 512)))
    )
    engine = served.setup.engine
    assert prices.request_overhead_s == engine.request_overhead_s
    assert prices.request_latency_s == engine.request_latency_s
    assert prices.tokenize_s == engine.tokenize_s
    # More requests while answers are short: the points of fewer stay where they are.
    few, many = (priced(served, whole, running=1, **bounds, most=n)[0].round_s.x for n in (1, 40))
    assert few == prices.round_s.x == [1, 2]
    assert (many[:2], many[-1]) == ([1, 2], 40)


def test_a_grid_is_linear_between_its_points_and_beyond() -> None:
    x, y = [1.0, 2.0, 7.0], [0.0, 3.0, 4.0, 9.0]
    plane = Grid(x, y, 2.0 + 3.0 * np.array(x)[:, None] - 0.5 * np.array(y))
    rng = np.random.default_rng(1)
    for _ in range(50):
        at_x, at_y = rng.uniform(-3, 12), rng.uniform(-3, 12)
        assert plane.at(at_x, at_y) == pytest.approx(2.0 + 3.0 * at_x - 0.5 * at_y)
        assert plane.row(at_x) == pytest.approx([2.0 + 3.0 * at_x - 0.5 * at for at in y])
    values = rng.random((3, 4))
    grid = Grid(x, y, values)
    assert [[grid.at(a, b) for b in y] for a in x] == pytest.approx(values)
    assert grid.at(4.5, 3.5) == pytest.approx(values[1:, 1:3].mean())


@given(st.floats(1, 50), st.floats(1.01, 1e4), st.floats(1.05, 4), st.booleans())
def test_points_of_a_grid_reach_its_ends_in_steps(
    first: float, share: float, step: float, whole: bool
) -> None:
    first = float(np.ceil(first)) if whole else first
    last = float(np.ceil(first * share)) if whole else first * share
    points = _axis(first, last, step, whole=whole)
    assert points[[0, -1]] == pytest.approx([first, last])
    assert np.all(points[1:] <= (step * points[:-1] + whole) * (1 + 1e-9))
    assert not whole or np.all(points == np.rint(points))
    assert np.all(np.diff(points) > 0)
    assert first * step ** (len(points) - 2) < last * (1 + 1e-9)  # no more than that takes
