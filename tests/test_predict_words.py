"""What `predict` understands: engines' words, several chips, lengths side by side; its survey."""

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specroof import load_drafter, predict
from specroof.cli import app
from specroof.errors import OptionError
from specroof.questions.acceptance import find_profiles

BASE = "predict Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=.7"


def run(words: str) -> str:
    """Return what a call prints."""
    done = CliRunner().invoke(app, shlex.split(words))
    assert done.exit_code == 0, done.stderr
    return str(done.stdout)


def answer(words: str) -> dict[str, Any]:
    """Return the object that a call prints."""
    found: dict[str, Any] = json.loads(run(f"{words} --json").splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("EAGLE3", "eagle3"),
        ("eagle-3", "eagle3"),
        ("NEXTN", "mtp"),
        ("deepseek_mtp", "mtp"),
        ("NGRAM", "ngram"),
        ("DFLASH", "dflash"),
    ],
)
def test_kinds_are_understood_in_engines_words(theirs: str, ours: str) -> None:
    assert load_drafter(f"{theirs},accept=.7").name == f"{ours},accept=.7"


def test_a_model_that_drafts_has_engines_names_too() -> None:
    ours = load_drafter("model,accept=.7,config=Qwen/Qwen3-0.6B").name
    for theirs in ("draft_model", "STANDALONE", "Draft_Target"):
        assert load_drafter(f"{theirs},accept=.7,config=Qwen/Qwen3-0.6B").name == ours


def test_unknown_kinds_are_refused_as_they_are_spelt() -> None:
    with pytest.raises(OptionError, match="kind is 'Magic'"):
        load_drafter("Magic,accept=.7")


def test_flags_and_engines_are_understood_in_others_words() -> None:
    ours = answer(f"{BASE} --tp 2 --input-len 1000 --output-len 100 --engine tensorrt-llm")
    theirs = answer(f"{BASE} --tensor-parallel-size 2 --isl 1000 --osl 100 --engine TRTLLM")
    assert theirs == ours
    assert answer(f"{BASE} --batch 1..8") == answer(f"{BASE} --batch 1,2,4,8")


def test_lengths_stand_side_by_side() -> None:
    printed = run(f"{BASE} --batch 4 --show-draft-len 3,1,20")
    curve = predict(
        "Qwen/Qwen3-8B", "h100", drafters="eagle3,accept=.7", batch_size=4, max_draft_len=20
    ).curves[0]
    cells = [f"{curve.speedup[0, 0, k]:.2f}x" for k in (1, 3, 20)]
    assert re.search(rf"^ +4096 +4 +{' +'.join(cells)}  eagle3", printed, re.MULTILINE)
    short = run(
        f"{BASE.replace('accept=.7', 'rates=.7/.6')} --show-draft-len 2,5,30 --max-draft-len 2"
    )
    assert re.search(r"^ +4096 +1 +[\d.]+x +- +-  eagle3", short, re.MULTILINE)
    deep = run(f"{BASE.replace('accept=.7', 'rates=.7/.6')} --show-draft-len 5")
    assert re.search(r"^ +4096 +1 +-  eagle3", deep, re.MULTILINE)


@pytest.mark.parametrize("lengths", [0, [], [1.5], [-1]])
def test_lengths_are_whole_numbers_from_one(lengths: Any) -> None:
    with pytest.raises(OptionError, match="draft_len is"):
        predict("Qwen/Qwen3-8B", "h100", drafters="ideal", draft_len=lengths)


def test_the_survey_says_where_drafting_does_not_pay() -> None:
    found = answer(BASE.replace("eagle3,accept=.7", "ngram,accept=.1"))
    survey = found["survey"]
    (drafter,) = survey["drafters"]
    assert survey["batch_size"] == [2**power for power in range(11)]
    best = dict(zip(survey["batch_size"], drafter["best_draft_len"][0], strict=True))
    lost = [batch for batch, drafts in best.items() if drafts == 0]
    runs = drafter["does_not_pay"][0]
    assert runs[0][0] == lost[0]
    # Beyond the last, drafts have no room: nothing is known of what they would gain.
    known = [batch for batch in best if batch <= runs[-1][1]]
    assert {b for b in known if any(low <= b <= high for low, high in runs)} == {*lost} & {*known}
    assert None in drafter["best_speedup"][0]  # 1024 requests of 4096 tokens have no room


def test_several_chips_are_asked_together(tmp_path: Path) -> None:
    words = BASE.replace("h100", "h100,b200")
    table, plot = tmp_path / "points.csv", tmp_path / "curve.png"
    found = answer(f"{words} --csv {table} --plot {plot}")
    alone = [answer(BASE), answer(BASE.replace("h100", "b200"))]
    assert found == {"chips": alone}
    with table.open(encoding="utf-8") as file:
        assert {row["hardware"] for row in csv.DictReader(file)} == {
            one["hardware"] for one in alone
        }
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "curve-b200.png",
        "curve-h100.png",
    ]
    printed = run(words)
    assert all(one["hardware"] in printed for one in alone)


@pytest.mark.parametrize(
    ("model", "drafter", "warned"),
    [
        ("Qwen/Qwen3-8B", "mtp,accept=.7", True),
        ("Qwen/Qwen3-8B", "eagle3,accept=.7", False),
        ("Qwen/Qwen3.5-27B", "mtp,accept=.7", False),
        ("deepseek-ai/DeepSeek-V3", "mtp,accept=.7", False),
    ],
)
def test_heads_that_a_model_lacks_are_said(model: str, drafter: str, warned: bool) -> None:
    found = predict(model, "b200", drafters=drafter, tensor_parallel=8)
    said = [one for one in found.warnings if "names no multi-token-prediction layers" in one]
    assert bool(said) is warned


def test_what_is_not_published_has_a_nearest() -> None:
    assert run("acceptance --find V3.2").startswith(
        "nothing published for V3.2; nearest: DeepSeek-V4-Pro"
    )
    assert find_profiles("zzz").notes == ("nothing published for zzz",)
    assert find_profiles("qwen3").notes == ()
