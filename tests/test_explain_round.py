"""How `explain` shows a round against a plain step: lines, JSON, bars and refusals."""

from pathlib import Path
from typing import Any

import pytest

from commands import run
from specroof import OptionError, explain, plot, predict
from specroof.speedup.waterfall import RoundParts
from tables import rows

CHIP = "h100"
EXPLAIN = f"explain Qwen/Qwen3-8B -H {CHIP} --drafter"


def test_the_shell_prints_the_waterfall_and_draws_it(tmp_path: Path) -> None:
    found = explain("Qwen/Qwen3-8B", CHIP, drafter="eagle3,accept=0.7", draft_len=3)
    printed = run(f"{EXPLAIN} eagle3,accept=0.7 --draft-len 3 --plot", tmp_path / "w.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "w-roofline.png", "w-time.png", "w.png"
    ]  # fmt: skip
    assert f"{found.decision}\n{found.why}" in printed
    assert "never (" in run(f"{EXPLAIN} block,accept=.9,cost=5,drafts=3 --draft-len 2")
    assert "acceptance that breaks even" not in run(f"{EXPLAIN} ideal")


@pytest.mark.parametrize(("model", "chip", "spec", "more"), rows("values", "explained_rounds"))
def test_the_decision_is_that_of_predict(
    model: str, chip: str, spec: str, more: dict[str, Any]
) -> None:
    asked: Any = predict(model, chip, drafters=spec, **more)
    (row,) = asked.rows
    found: Any = explain(model, chip, drafter=spec, **more)
    assert found.decision == asked.text().splitlines()[1]
    assert {note for note in asked.notes if note.startswith("acceptance of")} <= {*found.notes}
    told = found.to_dict()["case"]["round"]
    assert (told["decision"], told["reason"]) == (row.decision, row.reason)
    band = row.bands.get("tried_speedup", (None, None))
    assert (told["speedup_low"], told["speedup_high"]) == band
    # Of a length that is asked for, the same grid has the band.
    one = explain(model, chip, drafter=spec, draft_len=3, **more).to_dict()["case"]["round"]
    curve = asked.curves[0]
    ends = [end[0, 0, 3] for end in (curve.speedup_low, curve.speedup_high)]
    if row.decision is not None:
        assert [one["speedup_low"], one["speedup_high"]] == ends
        pays = curve.speedup[0, 0, 3] > 1
        assert one["decision"] == ("on" if ends[0] > 1 else "unclear" if pays else "off")


@pytest.mark.parametrize(("model", "spec", "framework"), rows("refusals", "unserved_drafters"))
def test_no_question_prices_what_the_server_that_is_named_does_not_run(
    model: str, spec: str, framework: str
) -> None:
    chip, tp = ("m4-max", 1) if framework == "mlx" else ("h200", 8)
    how: Any = {"tp": tp, "framework": framework}
    with pytest.raises(OptionError) as asked:
        predict(model, chip, drafters=f"{spec},accept=0.5", **how)
    with pytest.raises(OptionError) as found:
        explain(model, chip, drafter=f"{spec},accept=0.5", **how)
    assert str(found.value) == str(asked.value)


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
