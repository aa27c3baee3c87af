"""What meets the terminal: full disks, closed pipes, small alphabets, hostile names."""

import csv
import io
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from commands import answered, invoked, refused, run
from screens import on_a_terminal
from specroof.report.layout import in_line, json_line, rows_csv
from tables import rows

pytestmark = pytest.mark.slow

PREDICT = ["predict", "Qwen/Qwen3-8B", "-H", "b200", "--drafter", "ideal"]
PNG = b"\x89PNG"
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.is_char_device(), reason="Linux has /dev/full")


def process(
    *words: str, line: str = 'exec "$@"', **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", line, "sh", sys.executable, "-m", "specroof", *words],
        check=False,
        capture_output=True,
        env={**os.environ, **environment},
    )


def one_line_of(stderr: bytes) -> str:
    (line,) = stderr.decode().splitlines()
    assert line.startswith("specroof: ")
    return line


@needs_full
@pytest.mark.parametrize("words", [["hardware"], ["--help"], [*PREDICT, "--csv", "-"]])
@pytest.mark.parametrize("place", ["/dev/full", "&-"])
def test_a_standard_output_that_takes_nothing_is_refused(words: list[str], place: str) -> None:
    done = process(*words, line=f'exec "$@" >{place}')
    assert done.returncode == 2
    assert "standard output" in one_line_of(done.stderr)


def test_a_pipe_that_nobody_reads_ends_in_1_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        [sys.executable, "-m", "specroof", "hardware"], stdout=write, stderr=subprocess.PIPE
    ) as run:
        os.close(write)
        _, stderr = run.communicate()
    assert (run.returncode, stderr) == (1, b"")


@needs_full
@pytest.mark.parametrize("place", ["/dev/full", "&-"])
def test_a_standard_error_that_takes_nothing_leaves_result_and_exit_code(
    tmp_path: Path, place: str
) -> None:
    path = tmp_path / "a.csv"
    done = process(*PREDICT, "--points", str(path), line=f'exec "$@" 2>{place}')
    assert done.returncode == 0
    assert path.read_text().count("\n") == 18  # a header, and drafts of 0 to 16
    done = process("predict", "no/such", line=f'exec "$@" 2>{place}')
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("locale", rows("values", "signs"))
def test_a_terminal_that_lacks_our_signs_gets_others(locale: dict[str, str]) -> None:
    done = process(*PREDICT, "--drafter", "block,cost=0.1,drafts=3,accept=0.8", **locale)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode("latin-1").splitlines()
    (header,) = [line for line in lines if line.startswith("context  batch   g ")]
    # Columns stay straight: the drafter's name stands below its title.
    assert lines[lines.index(header) + 1].index("ideal") == header.index("drafter")
    found = process(*PREDICT, "--json", **locale).stdout
    assert json.loads(found) == answered(*PREDICT)


def test_names_in_other_alphabets_reach_an_ascii_terminal_in_part() -> None:
    done = process("explain", "modèle-模", "-H", "b200", PYTHONIOENCODING="ascii")
    assert "modele-?" in one_line_of(done.stderr)


def test_a_dash_writes_data_or_a_chart_alone_to_standard_output(tmp_path: Path) -> None:
    done = invoked(*PREDICT, "--points -")
    assert done.exit_code == 0
    lengths = [row["draft_len"] for row in csv.DictReader(io.StringIO(done.stdout))]
    assert lengths == [str(number) for number in range(17)]
    assert "decision: " in done.stderr  # what people read is not lost
    assert "Qwen3-8B" in run(*PREDICT)  # and the next command has its own again
    done = invoked(*PREDICT, "--plot - --csv", tmp_path / "a.csv")
    assert (done.stdout_bytes[:4], (tmp_path / "a.csv").exists()) == (PNG, True)
    done = invoked("acceptance show qwen3.6-35b-a3b/mtp/speed-bench --plot -")
    assert done.stdout_bytes[:4] == PNG


HOSTILE = "chip\x1b]0;owned\x07\n\rnote: all is well\u202e\x9b2J"


def controls(text: str) -> set[str]:
    """Return the characters of a text that a terminal obeys, line breaks apart."""
    return {one for one in text if unicodedata.category(one)[0] == "C"} - {"\n"}


@pytest.fixture
def hostile_chip(tmp_path: Path) -> str:
    """Return a hardware file whose name holds what a terminal obeys."""
    path = tmp_path / "chip.yaml"
    path.write_text(
        f"format_version: 1\nname: {json.dumps(HOSTILE)}\n"
        "sources: {peak.flops_per_s: mine, peak.memory_bytes_per_s: mine, peak.memory_bytes: mine}\n"
        "peak:\n  flops_per_s: {bf16: 1.0e+15}\n  memory_bytes_per_s: 4.0e+12\n"
        "  memory_bytes: 8.0e+9\n"  # too small, so that a note has the name too
    )
    return str(path)


@pytest.mark.parametrize("words", rows("values", "shown_names"))
def test_names_in_files_do_not_steer_the_terminal(words: str, hostile_chip: str) -> None:
    done = invoked(words.replace("CHIP", hostile_chip))
    text = done.stdout + done.stderr
    assert "chip\\u001b]0;owned" in text
    assert controls(text) == set()
    assert not any(line.startswith("note: all is well") for line in text.splitlines())


def test_data_on_a_terminal_is_made_safe_and_a_chart_refused(hostile_chip: str) -> None:
    words = f"predict Qwen/Qwen3-8B -H {hostile_chip} --drafter ideal"
    shown = on_a_terminal(80, *words.split(), "--csv", "-")
    assert "chip\\u001b]0;owned" in shown
    assert controls(shown) == set()
    with pytest.raises(AssertionError):  # it ends in 2
        on_a_terminal(80, *words.split(), "--plot", "-")


def test_names_stay_what_they_are_in_json_and_csv(hostile_chip: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    words = f"predict Qwen/Qwen3-8B -H {hostile_chip} --drafter ideal --csv"
    assert answered(words, path)["case"]["hardware"] == HOSTILE
    with path.open(newline="", encoding="utf-8") as file:
        names = {row["hardware"] for row in csv.DictReader(file)}
    assert names == {HOSTILE.replace("\r", "\\u000d")}


def test_halves_of_characters_are_written_as_text_that_can_be_read() -> None:
    half = "a\ud800\rb"
    assert json.loads(json_line([half]).encode()) == [half]
    rows: list[dict[str, object]] = [{"name": half, "n": 1}, {"name": "plain", "n": None}]
    text = rows_csv(rows, ["name", "n"]).encode().decode()
    assert list(csv.reader(io.StringIO(text)))[1:] == [["a\\ud800\\u000db", "1"], ["plain", ""]]
    assert in_line("a\nb\ud800") == "a\\nb\\ud800"


def test_a_long_word_is_echoed_in_short() -> None:
    for words in (
        ["predict", "x" * 40_000, "--drafter ideal"],
        [*PREDICT, f"--batch '{'1 ,' * 20_000}'"],
        *([*PREDICT, flag, "x" * 40_000] for flag in ("--drafter", "--batch", "--tp")),
        *([group, "show", "x" * 40_000] for group in ("models", "hardware")),
        ["y" * 40_000],
    ):
        assert len(refused(*words)) < 2_090
