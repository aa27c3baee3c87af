"""What people see: text as wide as their terminal, sources in brief."""

import pickle
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from commands import run
from screens import COLORS, COLUMNS, SCREENS, on_a_terminal, written_in
from specroof.cli import colors
from specroof.errors import Note
from specroof.report.layout import fitted, format_table, on_screen
from tables import rows

pytestmark = pytest.mark.slow

DRAFTER = "--drafter eagle3,accept-length=2.8@3"
PREDICT = f"predict Qwen/Qwen3-8B -H b200 --batch 1,32 {DRAFTER}"
WORDS = PREDICT.split()
LOADS = f"{DRAFTER} --concurrency 1,32 --input-len 1000 --output-len 500"


@pytest.mark.parametrize(
    "words",
    [
        PREDICT,
        f"advise Qwen/Qwen3-8B -H b200 {LOADS}",
        f"capacity Qwen/Qwen3-8B -H b200 --context 4096 --notes {DRAFTER}",
    ],
)
def test_a_pipe_is_as_wide_as_columns_says_and_has_whole_lines_without(words: str) -> None:
    whole = run(words)
    lines = run(words, COLUMNS="80").splitlines()
    assert max(map(len, whole.splitlines())) > 80 >= max(map(len, lines))
    assert {*" ".join(lines).split()} - {*whole.split()} <= {"\\"}
    assert on_a_terminal(80, *words.split()).splitlines() == lines


STYLE = re.compile(r"\x1b\[([0-9;]*)m")


def test_colors_change_no_letter() -> None:
    plain, colored = on_a_terminal(80, *WORDS), on_a_terminal(80, *WORDS, **COLORS)
    assert "\x1b" not in plain
    assert STYLE.sub("", colored) == plain
    assert "decision: \x1b[1;32mon\x1b[0m" in colored
    assert "\x1b[" not in on_a_terminal(80, *WORDS, TERM="dumb")
    assert "\x1b" not in on_a_terminal(80, *WORDS, "--json", **COLORS)


@pytest.mark.parametrize(("text", "marked"), rows("values", "marks_on_a_screen"))
def test_what_is_looked_for_is_marked(text: str, marked: dict[str, str]) -> None:
    found = Text(text)
    colors.Answers().highlight(found)
    spans = {
        str(one.style).removeprefix("answer."): text[one.start : one.end] for one in found.spans
    }
    assert spans == marked


@pytest.mark.parametrize("name", SCREENS)
def test_pictures_in_the_docs_are_of_what_is_printed_now(name: str) -> None:
    picture = Path("docs/pages/screens", f"{name}.svg").read_text(encoding="utf-8")
    words = SCREENS[name]
    printed = on_a_terminal(COLUMNS, *shlex.split(words)[1:])
    assert written_in(picture).replace("\\", "") == re.sub(r"[\s\\]", "", f"${words}{printed}")
    assert "http" not in re.sub(r'xmlns="[^"]*"|<!--.*?-->', "", picture)


def test_json_stays_on_one_line_on_a_narrow_terminal() -> None:
    assert len(on_a_terminal(40, "hardware", "show", "b200", "--json").splitlines()) == 1


def test_a_word_wider_than_the_screen_is_not_broken() -> None:
    with on_screen(10):
        assert fitted("see https://example.com/a-b now") == "see\n  https://example.com/a-b\n  now"


@pytest.mark.parametrize(
    ("width", "titles", "cells", "how", "lines"), rows("values", "screen_tables")
)
def test_a_table_fits_its_screen(
    width: int, titles: list[str], cells: list[list[str]], how: dict[str, Any], lines: list[str]
) -> None:
    with on_screen(width):
        shown = format_table(titles, cells, **{"left": []} | how)
    assert shown.split("\n") == lines


def test_sources_are_brief_unless_asked_for() -> None:
    brief, full, again = (run(PREDICT, more) for more in ("--notes", "--sources", "--notes"))
    assert "note: " not in run(PREDICT)
    assert "https://" not in brief
    assert "--sources" in brief
    assert len(re.findall("https://", full)) >= 3
    assert again == brief
    assert "https://" in run(PREDICT, "--json")


def test_a_note_keeps_both_lengths_in_another_process() -> None:
    copy = pickle.loads(pickle.dumps(Note("a, b and c", short="a")))  # noqa: S301 - our own
    assert (copy, copy.short, type(copy)) == ("a, b and c", "a", Note)


def test_help_only_names_textbook_choices_unless_all_is_asked_for() -> None:
    choices = "Take max(compute, memory) over each of these."
    brief, every = (run(f"explain {flag}", COLUMNS="300") for flag in ("--help", "--help-all"))
    assert (choices in brief, choices in every) == (False, True)
