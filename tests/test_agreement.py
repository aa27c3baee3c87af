"""One load has one answer, whichever question is asked."""

import random
from typing import Any, Final

import numpy as np
import pytest

from specroof import OptionError, advise, breakeven, frontier, predict, worth

#: What a load is drawn from: models that fit a device or two, chips, servers, drafters, requests.
MODELS: Final = [
    ("Qwen/Qwen3-8B", 1),
    ("Qwen/Qwen3-8B", 2),
    ("Qwen/Qwen3-32B", 2),
    ("Qwen/Qwen3-30B-A3B", 1),
    ("meta-llama/Llama-3.1-8B-Instruct", 1),
    ("openai/gpt-oss-20b", 1),
]
CHIPS: Final = ["h100", "h200", "b200", "mi300x"]
DRAFTERS: Final = ["eagle3", "model,config=Qwen/Qwen3-0.6B", "block,cost=0.2,drafts=5"]
SIZES: Final = [(2000, 500), (300, 900), (8000, 200), (30_000, 400)]
CLIENTS: Final = [1, 8, 40, 64, 100, 256, 1000]


def drawn(seed: int) -> tuple[dict[str, Any], str, float, int, float]:
    """Return a deployment with its requests, a drafter's SPEC, tokens a round, drafts, clients."""
    draw = random.Random(seed)
    model, devices = draw.choice(MODELS)
    spec, drafts = draw.choice(DRAFTERS), draw.choice([1, 2, 3, 5])
    if "config" in spec and "Qwen" not in model:
        spec = "eagle3"
    length = round(1 + draw.uniform(0.3, 0.8) * drafts, 2)
    prompt, answer = draw.choice(SIZES)
    asked = {
        "model": model,
        "hardware": draw.choice(CHIPS),
        "engine": draw.choice(["vllm", "sglang"]),
        "tensor_parallel": devices,
        "input_len": prompt,
        "output_len": answer,
    }
    return asked, spec, length, drafts, float(draw.choice(CLIENTS))


@pytest.mark.parametrize("seed", range(16))
def test_every_question_gives_the_same_figures(seed: int) -> None:
    asked, spec, length, drafts, clients = drawn(seed)
    drafter = f"{spec},accept-length={length}@{drafts}"
    whole = predict(**asked, drafters=drafter, concurrency=clients).end_to_end[0]
    curve = whole.curve
    best = int(curve.best_draft_len[0, 0])
    gains = curve.speedup[0, 0, 1 : drafts + 1]
    if np.isnan(gains).all():  # no room with drafts: each says so
        assert breakeven(**asked, drafter=drafter, batch_size=clients).rows[0].speedup is None
        return
    tried = 1 + int(np.nanargmax(gains))
    speedup = float(gains[tried - 1])
    at = (0, 0, best)

    now = breakeven(**asked, drafter=drafter, batch_size=clients).rows[0].speedup
    assert now == pytest.approx(speedup, rel=1e-9)

    points = frontier(**asked, drafters=drafter, batch_size=clients, max_draft_len=16)
    made = [
        point.tokens_per_s_per_device
        for one in points.series[1 if best else 0 :]
        for point in one.points
        if point.draft_len == best
    ]
    devices = asked["tensor_parallel"]
    assert any(one * devices == pytest.approx(whole.tokens_per_s[at], rel=1e-9) for one in made)

    (row,) = worth(
        **asked,
        drafter=spec,
        accept_length=length,
        draft_len=drafts,
        batch_size=clients,
        tpot_s=1.0,
    ).rows
    assert row.speedup == pytest.approx(max(speedup, 1.0), rel=1e-9)
    assert row.tokens_per_s == pytest.approx(whole.tokens_per_s[at], rel=1e-9)

    try:
        advised = advise(**asked, drafters=drafter, concurrency=clients).chips[0].rows[0]
    except OptionError:
        return  # no flags of a server for such drafts, or no room for a request
    assert advised.choice.tried == tried
    assert advised.choice.speedup == pytest.approx(speedup, rel=1e-9)
    taken = (0, 0, advised.draft_len)
    for name in ("tokens_per_s", "ttft_s", "tpot_s"):
        expected = float(getattr(whole, name)[taken])
        assert getattr(advised.times, name) == pytest.approx(expected, rel=1e-9), name
    if advised.draft_len:
        assert advised.draft_len == tried


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_requests_that_are_played_have_the_same_figures(seed: int) -> None:
    asked, spec, length, drafts, clients = drawn(seed)
    clients = min(clients, 64.0)
    drafter = f"{spec},accept-length={length}@{drafts}"
    asked |= {"input_len": 600, "output_len": 60, "requests": "2x"}
    played = predict(**asked, drafters=drafter, concurrency=clients).played[0]
    tried = 1 + int(np.nanargmax(played.speedup[0, 1 : drafts + 1]))
    speedup = float(played.speedup[0, tried])

    now = breakeven(**asked, drafter=drafter, batch_size=clients).rows[0].speedup
    assert now == pytest.approx(speedup, rel=1e-9)
    best = tried if speedup > 1 else 0
    (row,) = worth(
        **asked,
        drafter=spec,
        accept_length=length,
        draft_len=drafts,
        batch_size=clients,
        tpot_s=1.0,
    ).rows
    assert row.speedup == pytest.approx(max(speedup, 1.0), rel=1e-9)
    rate = float(played.figures["tokens_per_s"][0, best])
    assert row.tokens_per_s == pytest.approx(rate, rel=1e-9)
    points = frontier(**asked, drafters=drafter, batch_size=clients, max_draft_len=drafts)
    made = [
        point.tokens_per_s_per_device * asked["tensor_parallel"]
        for one in points.series
        for point in one.points
        if point.draft_len == best
    ]
    assert any(one == pytest.approx(rate, rel=1e-9) for one in made)
