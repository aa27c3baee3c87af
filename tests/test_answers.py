"""What every answer can do: records, frames, one line of text, HTML, and a chart."""

import csv
import io
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import specroof
from commands import answered
from schemas import command_of
from specroof.cli.schema import SCHEMAS
from specroof.errors import OptionError
from specroof.quantities import QUANTITIES, Row, in_cells
from specroof.questions.acceptance import find_profiles, fit_profiles, show_profiles
from specroof.questions.answer import rows_table
from specroof.questions.hardware import list_hardware, show_hardware
from specroof.questions.models import diff_models, list_models, show_model
from specroof.questions.simulate import sampling_is_exact, times_of_batches
from specroof.report.layout import on_screen, show_notes
from tables import table

pytestmark = pytest.mark.slow

MODEL, CHIP = "Qwen/Qwen3-8B", "h100"
EAGLE = "eagle3,accept=.7"
ANSWERS: dict[str, Any] = table("answers")


@cache
def answer_of(name: str) -> Any:
    call = times_of_batches if name == "acceptance-simulate-batch" else getattr(specroof, name)
    place = () if name in {"sweep", "explore"} else (MODEL, CHIP)
    return call(*place, **ANSWERS[name]["asks"])


@pytest.mark.parametrize("name", ANSWERS)
def test_a_copy_in_another_process_says_the_same(name: str) -> None:
    answer = answer_of(name)
    text = str(answer)
    assert str(pickle.loads(pickle.dumps(answer))) == text  # noqa: S301 - our own bytes


#: A page is its own chart.
WITHOUT_CHART = {"explore", "acceptance-simulate-batch"}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_a_table_and_a_chart(name: str) -> None:
    answer, frame = answer_of(name), answer_of(name).to_frame()
    assert (len(frame), frame.columns.is_unique) == (ANSWERS[name]["rows"], True)
    same_in_every_form(answer, name)
    for case in answer.to_dict()["case"].get("outcomes", [answer.to_dict()["case"]]):
        assert name == "explore" or {"model", "load"} <= {*case}
    if name not in WITHOUT_CHART:
        assert isinstance(answer.plot(), Figure)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("width", [None, 80, 110])
def test_an_answer_fits_a_screen_and_begins_with_what_was_asked(
    name: str, width: int | None
) -> None:
    answer = answer_of(name)
    with on_screen(width):
        short = answer.text().splitlines()
    assert len(short) <= 25 or width == 80
    assert width is None or max(len(line) for line in short if "://" not in line) <= width
    if "found" in ANSWERS[name]:
        assert short[0].startswith(f"{MODEL.partition('/')[2]} on ")
        found = next(line for line in short[1:] if not line.startswith("  "))  # behind the title
        assert found.startswith(ANSWERS[name]["found"])
        assert any(line.startswith("how sure: ") for line in short) == (name != "capacity")


def same_in_every_form(answer: Any, question: str) -> None:
    """Refuse an answer whose CSV, frame or JSON has other rows than its records."""
    assert re.fullmatch("<.{,198}>", repr(answer))
    assert str(answer) == answer.text() != repr(answer)
    assert answer._repr_html_()
    assert answer.to_arrow().column_names == answer.columns
    cells = in_cells(answer.records)
    read = list(csv.DictReader(io.StringIO(answer.to_csv())))
    assert (
        [list(row) for row in read] == [list(row) for row in cells] == [answer.columns] * len(read)
    )
    for frame, csv_row, row in zip(answer.to_frame().to_dict("records"), read, cells, strict=True):
        for column, value in row.items():
            spelt = "" if value is None else str(int(value) if isinstance(value, bool) else value)
            assert csv_row[column].removeprefix("'") == spelt
            assert (
                frame[column] == value
                or (value is None and frame[column] in {None, ""})
                or (value is None and frame[column] != frame[column])
            )
    printed = answer.to_dict()
    assert list(printed) == [
        *("version", "question", "asked", "case", "rows", "choice", "notes", "warnings")
    ]
    said = (printed["version"], printed["question"], printed["rows"])
    assert said == (3, question, answer.records)
    json.dumps(printed, allow_nan=False)


PROFILE = "qwen3.6-35b-a3b/mtp/speed-bench"
#: Lists in the shell, and the same calls in Python.
LISTS: dict[str, Callable[[], Any]] = {
    "models": list_models,
    f"models show {MODEL}": lambda: show_model(MODEL),
    f"models diff {MODEL} Qwen/Qwen3-30B-A3B": lambda: diff_models(MODEL, "Qwen/Qwen3-30B-A3B"),
    "hardware": list_hardware,
    f"hardware show {CHIP}": lambda: show_hardware(CHIP),
    f"acceptance show {PROFILE}": lambda: show_profiles(PROFILE),
    "acceptance list --find qwen3.6-27b": lambda: find_profiles("qwen3.6-27b"),
    f"acceptance fit {PROFILE} --law constant": lambda: fit_profiles(PROFILE, law="constant"),
    "acceptance simulate --tokens 2000": lambda: sampling_is_exact(n_tokens=2000),
    f"acceptance simulate batch {MODEL} -H {CHIP} --drafter ideal --batch 2 --batches 3": (
        lambda: times_of_batches(MODEL, CHIP, drafter="ideal", batch_size=2, n_batches=3)
    ),
}


@pytest.mark.parametrize("words", LISTS)
def test_lists_are_the_same_in_every_form_and_in_the_shell(words: str) -> None:
    name, answer = command_of(words.split()), LISTS[words]()
    same_in_every_form(answer, name)
    assert answer.records
    assert answered(words) == json.loads(json.dumps(answer.to_dict()))
    assert name in SCHEMAS  # JSON names the schema of its answers


def test_a_figure_whose_band_says_too_little_stands_beside_notes_only() -> None:
    (row,) = specroof.predict(MODEL, CHIP, drafters=EAGLE).rows
    wide = replace(row, bands={**row.bands, "tpot_s": (row.tpot_s / 10, row.tpot_s * 10)})
    with on_screen(None):
        briefly = rows_table([wide], ["speedup", "tpot_s"])
        show_notes()
        whole = rows_table([wide], ["speedup", "tpot_s"])
    assert briefly.split()[-1] == "?" != whole.split()[-1]


def test_a_figure_is_declared_once_and_rows_have_no_other() -> None:
    register = Path(specroof.__file__).with_name("quantities.csv").read_text(encoding="utf-8")
    assert len(register.splitlines()) == 1 + len(QUANTITIES)

    @dataclass(frozen=True, kw_only=True)
    class Misspelt(Row):
        speedpu: float

    with pytest.raises(KeyError, match="speedpu"):
        Misspelt.column_names()
    (row,) = specroof.predict(MODEL, CHIP, drafters="ideal").rows
    for name in ("tokens", "speedup_middle", "draft_low"):
        with pytest.raises(AttributeError, match=name):
            getattr(row, name)


def test_a_table_is_of_rows_or_of_points() -> None:
    answer: Any = specroof.worth(MODEL, CHIP, drafter="eagle3", accept_length=3)
    assert answer.to_frame("points").to_dict() == answer.to_frame().to_dict()  # it has no grid
    with pytest.raises(OptionError, match="of is 'grid'; allowed: rows or points"):
        answer.to_frame("grid")


def test_an_answer_of_single_values_is_one_row() -> None:
    found = sampling_is_exact(n_tokens=2000)
    assert found.records == [asdict(found.result)] == [found.summary]


def test_results_of_benchmarks_are_tables_and_charts(tmp_path: Path) -> None:
    rates = {1: 100.0, 4: 380.0, 16: 1300.0, 64: 3500.0}
    lines = [f"{batch},1024,0,{rate}" for batch, rate in rates.items()]
    bench = tmp_path / "bench.csv"
    bench.write_text("\n".join(["batch_size,context_len,draft_len,tokens_per_s", *lines, ""]))
    fitted = specroof.calibrate(bench, MODEL, CHIP)
    assert fitted.to_frame().measured.tolist() == list(rates.values())
    same_in_every_form(fitted, "calibrate")
    assert isinstance(fitted.plot(), Figure)
    scored = specroof.validate(bench, MODEL, CHIP)
    assert scored.to_frame().batch_size.tolist() == list(rates)
    same_in_every_form(scored, "validate")
    page = tmp_path / "metrics.txt"
    page.write_text("vllm:num_requests_running 8.0\n")
    same_in_every_form(specroof.doctor(MODEL, CHIP, pages=page), "doctor")


def test_memory_is_drawn_as_it_is_counted(tmp_path: Path) -> None:
    # 16 GB hold no model of 15 GiB of weights: the pool is less than nothing, and not drawn.
    found = specroof.capacity(MODEL, "t4", drafters="eagle3")
    (axes,) = found.plot(tmp_path / "chart.png").axes
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OptionError, match="path is 7; allowed: a file"):
        found.plot(7)  # type: ignore[arg-type]
    widths = [bar.get_width() for bar in axes.patches]
    sizes = [
        max(size, 0.0) / 2**30
        for row in found.rows
        for size in (
            *(row.reserved_bytes, row.weight_bytes, row.vision_weight_bytes),
            *(row.draft_weight_bytes, row.state_pool_bytes, row.cache_pool_bytes),
        )
        if size is not None
    ]
    assert widths == pytest.approx(sizes)
    assert found.rows[0].largest_batch == 0
    assert [text.get_text() for text in axes.texts] == ["0, limited by cache"] * 2


@pytest.mark.usefixtures("asked_for_validated")
def test_bundled_measurements_have_a_row_for_each_source() -> None:
    found = specroof.validate()
    assert [row["source"] for row in found.records] == [*found.validation.sources]


def test_keywords_may_be_spelt_as_flags_and_have_their_units() -> None:
    spelt: dict[str, Any] = {"drafter": EAGLE, "tp": 2, "batch": [1, 8], "kv_cache": "fp8"}
    spelt |= {"options": specroof.Options(granularity="pass"), "weight_dtype": "fp8"}
    found = specroof.predict(MODEL, CHIP, **spelt)
    choices = {"granularity": "pass", "kv_dtype": "fp8", "weight_dtype": "fp8"}
    named: dict[str, Any] = {"drafters": EAGLE, "tensor_parallel": 2, "batch_size": [1, 8]}
    assert found.to_dict() == specroof.predict(MODEL, CHIP, options=choices, **named).to_dict()
    asked: Any = {"drafter": EAGLE, "batch": "1..8", "isl": 512, "osl": 64}
    assert specroof.frontier(MODEL, CHIP, **{**asked, "tpot": 20}).tpot_s == 0.02
    assert specroof.frontier(MODEL, CHIP, **asked, tpot_s=0.02).tpot_s == 0.02


def test_an_unknown_keyword_is_named() -> None:
    with pytest.raises(TypeError, match="'kv_dtype'; allowed: hardware"):  # it has no options
        show_hardware(CHIP, kv_dtype="fp8")  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["predict", "worth", "breakeven", "train"])
def test_an_answer_on_several_chips_has_the_rows_of_each(name: str) -> None:
    chips, ask, asked = [CHIP, "b200"], getattr(specroof, name), ANSWERS[name]["asks"]
    both, *each = ask(MODEL, chips, **asked), *(ask(MODEL, chip, **asked) for chip in chips)
    assert both.rows == (*each[0].rows, *each[1].rows)
    found = both.to_dict()
    told = [{"hardware": one.setup.hardware.name, **row} for one in each for row in one.records]
    assert found["rows"] == told
    assert both.to_frame()["hardware"].tolist() == [row["hardware"] for row in told]
    points, of_one = both.to_frame("points"), [one.to_frame("points") for one in each]
    chip_of_each = np.repeat([one.setup.hardware.name for one in each], [*map(len, of_one)])
    assert points["hardware"].tolist() == chip_of_each.tolist()
    expected = pd.concat(of_one, ignore_index=True)
    pd.testing.assert_frame_equal(points[list(expected)], expected, check_dtype=False)
    assert all(one.title in both.title for one in each)
    assert len(both.to_csv().splitlines()) == 1 + len(told)
    assert found["asked"]["hardware"] == chips
    first, second = (one.to_dict()["case"] for one in each)
    assert found["case"] == first | {"other_chips": [second]}
    assert str(both) == "\n\n".join(map(str, each))
    assert {f"-{chip}" for chip in chips} <= {*both.figures()}
    assert isinstance(both.plot(), Figure)
    assert ask(MODEL, chips[:1], **asked).rows == each[0].rows
