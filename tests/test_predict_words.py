"""What `predict` understands: engines' words, several chips, lengths side by side; its survey."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import specroof
from commands import answered, run
from specroof import advise, breakeven, frontier, load_drafter, predict, rollout, worth
from specroof.errors import Urgent
from specroof.questions.acceptance import find_profiles
from specroof.questions.predict import pays_lines
from tables import rows

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
BASE = "predict Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=.7"
CHIPS = ("h100", "b200")


def test_measurements_of_the_same_stand_in_its_chart() -> None:
    counts = {}
    for length in (2.4, 1.2):  # measured lengths are about 2.4
        spec = f"eagle3,accept-length={length}@3"
        found = predict(LLAMA, "h200", drafters=spec, engine="sglang", context_len=1000)
        drawn = found.plot().axes[0].lines
        counts[length] = sum(len(line.get_xdata()) for line in drawn if line.get_marker() == "*")
    assert counts[2.4] > 5
    assert counts[1.2] == 0


@pytest.mark.parametrize(("theirs", "ours"), rows("values", "spelt_kinds"))
def test_kinds_are_understood_in_engines_words(theirs: str, ours: str) -> None:
    words = ",accept=.7" + ",config=Qwen/Qwen3-0.6B" * (ours == "model")
    assert load_drafter(f"{theirs}{words}").name == load_drafter(f"{ours}{words}").name


def test_flags_and_engines_are_understood_in_others_words() -> None:
    ours = answered(f"{BASE} --tp 2 --input-len 1000 --output-len 100 --engine tensorrt-llm")
    theirs = answered(f"{BASE} --tensor-parallel-size 2 --isl 1000 --osl 100 --engine TRTLLM")
    assert theirs | {"asked": None} == ours | {"asked": None}
    assert answered(f"{BASE} --batch 1..8") == answered(f"{BASE} --batch 1,2,4,8")


@pytest.mark.parametrize(("model", "idle"), rows("values", "idle_options"))
def test_options_that_change_nothing_are_said(model: str, idle: list[str]) -> None:
    given = {"experts": "replacement", "state-dtype": "fp32", "recurrent-state": "read"}
    base = f"explain {model} -H b200 --tp 2 --batch 8 --query-len 4"
    plain = answered(base)["case"]["total_s"]
    for flag, word in given.items():
        found = answered(f"{base} --{flag} {word}")
        assert any(f"--{flag} changes nothing" in note for note in found["notes"]) == (flag in idle)
        if flag in idle:
            assert found["case"]["total_s"] == plain


def test_lengths_stand_side_by_side() -> None:
    printed = run(f"{BASE} --batch 4 --show-draft-len 3,1,20")
    curve = predict(
        "Qwen/Qwen3-8B", "h100", drafters="eagle3,accept=.7", batch_size=4, max_draft_len=20
    ).curves[0]
    cells = [f"{curve.speedup[0, 0, k]:.2f}x" for k in (1, 3, 20)]
    assert re.search(rf"^ +4096 +4 +{' +'.join(cells)}  eagle3", printed, re.MULTILINE)
    short = run(f"{BASE} --show-draft-len 2,5,30 --max-draft-len 2")
    assert re.search(r"^ +4096 +1 +[\d.]+x +- +-  eagle3", short, re.MULTILINE)


def test_sentences_have_loads_in_order_and_rows_as_they_are_asked_for() -> None:
    asked: dict[str, Any] = {"drafters": "eagle3,accept=.7", "input_len": 900, "output_len": 90}
    up, down = (
        predict("Qwen/Qwen3-8B", "h100", **asked, steady=True, concurrency=loads)
        for loads in ([2, 8, 99], [99, 2, 8])
    )
    assert [row.concurrency for row in down.rows] == [99, 2, 8]
    assert up.text().splitlines()[1] == down.text().splitlines()[1]


def test_contexts_beyond_those_of_an_acceptance_have_no_decision() -> None:
    profile = "qwen3-8b/eagle3/gsm8k@1024+qwen3-8b/eagle3/mbpp@16384"
    asked: dict[str, Any] = {"batch_size": [1, 8], "drafters": f"eagle3,profile={profile}"}
    found = predict("Qwen/Qwen3-8B", "h200", context_len=[8192, 32768], **asked)
    near, beyond = found.rows[:2], found.rows[2:]
    assert [(row.decision, row.reason) for row in near] == [("on", None)] * 2
    assert [(row.decision, row.reason) for row in beyond] == [(None, "acceptance")] * 2
    assert "unknown at 2 of 4 loads" in " ".join(str(found).split())
    assert [told["batch_size"] for told in found.choice["does_not_pay"]][1] == []
    assert "at context 32768: nothing is known of acceptance" in pays_lines(found.survey)


def test_every_question_says_where_no_acceptance_is_known() -> None:
    spec = "eagle3,profile=qwen3-8b/eagle3/mbpp@1024+qwen3-8b/eagle3/mbpp@8192"
    asked: dict[str, Any] = {"drafters": spec, "framework": "vllm", "input_len": 20000}
    plain, drafted = frontier("Qwen/Qwen3-8B", "h100", output_len=500, **asked).series
    assert [plain.reason, drafted.reason, drafted.points] == [None, "acceptance", ()]
    rolled = rollout("Qwen/Qwen3-8B", "h100", lengths=[500, 900], **asked)
    assert [(row.decision, row.reason) for row in rolled.rows[1:]] == [(None, "acceptance")] * 2
    assert "decision: unknown" in str(rolled)
    (chart,) = rolled.figures().values()
    assert "Nothing is known" in chart.get_suptitle()
    words = f"advise Qwen/Qwen3-8B -H h100 --framework vllm --drafter {spec} --input-len 20000"
    words += " --output-len 500 --concurrency 4"
    assert answered(words)["choice"]["decision"] is None
    printed = run(f"{words} --notes")
    assert "tok/s off" in printed
    assert "tok/s on" not in printed


def test_the_survey_says_where_drafting_does_not_pay() -> None:
    found = predict("Qwen/Qwen3-8B", "h100", drafters="ngram,accept=.1")
    (curve,) = found.survey
    assert curve.batch_size.tolist() == [2**power for power in range(11)]
    best = dict(zip(curve.batch_size.tolist(), curve.best_draft_len[0].tolist(), strict=True))
    lost = [batch for batch, drafts in best.items() if drafts == 0]
    (told,) = found.choice["does_not_pay"]
    runs = told["batch_size"]
    assert runs[0][0] == lost[0]
    # Beyond the last, drafts have no room: nothing is known of what they would gain.
    known = [batch for batch in best if batch <= runs[-1][1]]
    assert {b for b in known if any(low <= b <= high for low, high in runs)} == {*lost} & {*known}
    assert np.isnan(curve.best_speedup[0, -1])  # 1024 requests of 4096 tokens have no room


@pytest.mark.usefixtures("undrawn")
def test_charts_of_several_chips_are_files_of_each(tmp_path: Path) -> None:
    words = BASE.replace("h100", "h100,b200")
    found = answered(f"{words} --plot {tmp_path / 'curve.png'}")
    alone = [answered(BASE.replace("h100", chip)) for chip in CHIPS]
    assert found["choice"] == alone[0]["choice"] | {"other_chips": [alone[1]["choice"]]}
    assert {*found["notes"]} == {note for one in alone for note in one["notes"]}
    # Of a break-even no chart compares chips: each has its own alone.
    requests = "--input-len 64 --output-len 8 --concurrency 1"
    answered(f"{words} {requests} --plot {tmp_path / 'load.png'}")
    run(f"breakeven Qwen/Qwen3-8B -H h100,b200 --drafter eagle3 --plot {tmp_path / 'least.png'}")
    names = ("curve{}", "load{}", "load{}-requests", "load{}-running", "least{}")
    of_chips = (name.format(f"-{chip}") for name in names for chip in CHIPS)
    assert {path.stem for path in tmp_path.glob("*.png")} == {"curve", "load", *of_chips}


@pytest.mark.parametrize(("model", "drafter", "warned"), rows("values", "lacking_heads"))
def test_heads_that_a_model_lacks_are_said(model: str, drafter: str, warned: bool) -> None:
    load: Any = {"input_len": 1000, "output_len": 100, "concurrency": 8, "steady": True}
    answers: list[Any] = [predict(model, "b200", drafters=drafter, max_draft_len=1)]
    if warned:  # in every question
        answers += [
            advise(model, "b200", drafters=drafter, draft_len=1, **load),
            frontier(model, "b200", drafters=drafter, max_draft_len=1, batch_size=1),
            worth(model, "b200", drafter=drafter, draft_len=2),
            breakeven(model, "b200", drafter=drafter, draft_len=1),
        ]
    for found in answers:
        said = [one for one in found.notes if "names no multi-token-prediction layers" in one]
        assert [isinstance(one, Urgent) for one in said] == [True] * warned


def test_what_is_not_published_has_a_nearest() -> None:
    assert run("acceptance --find Kimi-K4").startswith(
        "nothing published for Kimi-K4; nearest: Kimi-K3"
    )
    assert find_profiles("zzz").notes == ("nothing published for zzz",)
    assert find_profiles("qwen3").notes == ()


@pytest.mark.parametrize(("chip", "titles"), rows("values", "shown_prices"))
def test_tables_show_what_is_known_of_price_and_energy(chip: str, titles: list[str]) -> None:
    words = BASE.replace("h100", chip) + " --no-capacity --batch 1,16"
    printed = run(f"{words} --notes")
    shown = [title for title in ("$/Mtok", "MJ/Mtok") if f" {title} " in printed]
    assert shown == titles
    known = answered(f"{words} --grid")["grid"]["quantities"]
    assert ("usd_per_million_tokens" in known) == ("$/Mtok" in titles)
    assert ("joules_per_million_tokens" in known) == ("MJ/Mtok" in titles)


@pytest.mark.parametrize(("question", "words"), rows("values", "left_out_of"))
def test_a_drafter_that_the_framework_lacks_is_left_out(
    question: str, words: dict[str, Any]
) -> None:
    drafters = ["dspark,accept=0.9", "eagle3,accept=0.7"]
    asked = {"drafters": drafters, "framework": "tensorrt-llm", **words}
    found = getattr(specroof, question)("Qwen/Qwen3-8B", "h100", **asked)
    shown = {row.get("drafter") for row in found.to_dict()["rows"]}
    assert "dspark" not in str(shown)
    assert "eagle3" in str(shown)
    assert sum("has no flag for dspark" in note for note in found.warnings) == 1
