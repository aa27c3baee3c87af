"""A capped card: joules and speeds beside those of an RTX 5090 under three caps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specroof import load_hardware, predict
from specroof.arrays import Array
from specroof.hardware.profile import DevicePower
from tables import rows

#: Joules of a token, tokens a second and tokens a round of Qwen3.8-27B UD-Q4_K_XL by cap in W, 0 to
#: 6 drafts; llama.cpp b10451, https://github.com/sudoingX/qwen38-mtp/pull/47. Qwen3.6-27B has the
#: same layers.
MEASURED = rows("values", "power_caps")
ASKED: dict[str, Any] = {"framework": "llama.cpp", "options": {"weight_dtype": "q4_k_m"}}


def _predicted(cap: int) -> Array:
    """Return joules a token and tokens a second, by drafts."""
    found = []
    for drafts, length in enumerate(MEASURED[cap][2]):
        spec = f"mtp,accept-length={length}@{drafts}" if drafts else "mtp,accept=0"
        answer = predict(
            "Qwen/Qwen3.6-27B", "rtx-5090", drafters=spec, **ASKED, power_cap=cap,
            max_draft_len=max(drafts, 1), context_len=2000,
        )  # fmt: skip
        (points,) = answer.point_columns()
        names = ("joules_per_million_tokens", "tokens_per_s")
        found.append([np.ravel(points[name])[drafts] for name in names])
    return np.asarray(np.array(found, dtype=np.float64).T / [[1e6], [1.0]])


def test_joules_and_speeds_are_those_that_were_measured() -> None:
    found = {cap: _predicted(cap) for cap in MEASURED}
    errors = np.array([found[cap] / MEASURED[cap][:2] - 1 for cap in MEASURED])
    joules = np.abs(errors[:, 0])
    # With a limit of 600 W the card draws 537 W in plain steps, 602 W in drafted rounds.
    assert np.all(joules.max(axis=1) < [0.053, 0.045, 0.07])
    assert joules.mean() < 0.035
    assert np.abs(errors[:, 1]).max() < 0.041
    # What a cap costs: speeds under it over those at 600 W.
    for cap in (400, 500):
        lost = found[cap][1] / found[600][1]
        assert np.abs(lost / np.divide(MEASURED[cap][1], MEASURED[600][1]) - 1).max() < 0.039
    # The best length moves with the cap, and is as good as the one that was measured.
    best = {cap: int(found[cap][1].argmax()) for cap in MEASURED}
    assert best[400] == np.argmax(MEASURED[400][1]) == 3
    assert best[400] < best[500] < best[600]
    for cap, drafts in best.items():
        assert MEASURED[cap][1][drafts] > 0.98 * max(MEASURED[cap][1])
        assert found[cap][0].argmin() == drafts


def test_the_clock_is_what_the_cap_leaves() -> None:
    power = DevicePower(board_watts=300, fixed_watts=100, core_watts=200)
    core_s, total_s = np.array([0.0, 1.0, 2.0, 4.0]), np.array(4.0)
    assert power.lost_s(core_s, total_s) == pytest.approx(0.0)
    assert replace(power, cap_watts=900).watts == 300
    capped = replace(power, cap_watts=200)
    lost_s = capped.lost_s(core_s, total_s)
    assert lost_s[0] == pytest.approx(0.0, abs=1e-9)
    # A quarter of the pass draws 50 W of 200 at the highest clock, a half all that the cap leaves.
    assert lost_s[1:3] == pytest.approx(0.0)
    assert lost_s[3] == pytest.approx(4 * (2**0.5 - 1))
    # Where the board itself is a cap, the clock before is less than the highest.
    throttled = DevicePower(board_watts=300, fixed_watts=100, core_watts=800, cap_watts=200)
    for spent_s, lost in zip(core_s, throttled.lost_s(core_s, total_s), strict=True):
        before = min(1.0, (200 / 800 * total_s / max(spent_s, 1e-9)) ** 0.5)
        clock = before * spent_s / (spent_s + lost) if spent_s else 1.0
        slowed = spent_s + lost
        assert 800 * clock**2 * slowed / (total_s + lost) <= 100 * (1 + 1e-9)
    chip = load_hardware("rtx-5090").capped(400)
    assert chip.capped(400) == chip
    assert chip.peak == load_hardware("rtx-5090").peak
