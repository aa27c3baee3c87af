"""How `explain` shows a round against a plain step: lines, JSON, bars and refusals."""

from pathlib import Path
from typing import Any

import pytest

from commands import run
from specroof import explain, plot
from specroof.speedup.waterfall import RoundParts

CHIP = "h100"
EXPLAIN = f"explain Qwen/Qwen3-8B -H {CHIP} --drafter"


def test_the_shell_prints_the_waterfall_and_draws_it(tmp_path: Path) -> None:
    found = explain("Qwen/Qwen3-8B", CHIP, drafter="eagle3,accept=0.7", draft_len=3)
    printed = run(f"{EXPLAIN} eagle3,accept=0.7 --draft-len 3 --plot", tmp_path / "w.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "w-roofline.png", "w-time.png", "w.png"
    ]  # fmt: skip
    assert found.why in printed
    assert "never (" in run(f"{EXPLAIN} block,accept=.9,cost=5,drafts=3 --draft-len 2")
    assert "acceptance that breaks even" not in run(f"{EXPLAIN} ideal")


def test_bars_run_from_the_step_to_the_round() -> None:
    found: Any = explain("Qwen/Qwen3-8B", CHIP, drafter="eagle3,accept=0.7", draft_len=3)
    axes = found.plot().axes[0]
    bars = [(float(bar.get_x()), float(bar.get_width())) for bar in axes.patches]
    assert bars[0] == (0.0, found.round.decode_s)
    assert bars[-1] == (0.0, found.round.round_s)
    assert bars[-2][0] + bars[-2][1] == pytest.approx(found.round.round_s)
    saves = RoundParts("x", 1, 1, 0, 1.0, 1.5, 2.0, {"a": 0.7, "b": -0.2}, {"c": 1.0})
    chart = plot.plot_waterfall(saves, title="one that saves")
    saved: Any = chart.axes[0].patches[2]
    assert saved.get_width() == pytest.approx(-0.2)
