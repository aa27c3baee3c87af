"""Names and files as a shell hands them over: none is waited for, none ends in a traceback."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import refused
from specroof import catalog
from specroof.catalog.files import MAX_FILE_BYTES, is_file, is_folder, read_text
from specroof.catalog.names import HARDWARE_PATH_VARIABLE
from specroof.catalog.profiles import load_profile
from specroof.errors import CatalogError, SpecroofError
from tables import reads, refusal

LONG = "x" * 300

LOADERS: list[Callable[[str], object]] = [
    catalog.load_model,
    catalog.load_hardware,
    load_profile,
    catalog.study_path,
    lambda name: catalog.load_drafter(f"mtp,config={name},accept=0.5"),
    lambda name: catalog.load_drafter(f"ngram,profile={name}"),
    lambda name: catalog.load_drafter(f"model,draft={name},accept=0.5"),
]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    return path


def run(*words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specroof", *words],
        env=os.environ | environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,  # for a command that waits on a pipe; one that answers takes a second
    )


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("name", [LONG, f"{LONG}/{LONG}", "nul\0byte", "\udcff", ""])
def test_a_name_that_no_file_can_have_is_refused(load: Callable[[str], object], name: str) -> None:
    with pytest.raises(SpecroofError):
        load(name)


def test_a_folder_that_may_not_be_searched_hides_its_files_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h200").mkdir()
    monkeypatch.chdir(tmp_path)

    def stat(path: Path, **_: object) -> os.stat_result:
        if not path.is_absolute():
            raise PermissionError(13, "Permission denied")
        return os.stat(path)  # noqa: PTH116 - what is replaced here

    monkeypatch.setattr(Path, "stat", stat)  # not by its mode: root may search every folder
    assert not is_file(Path("h200"))
    assert not is_folder(Path("h200"))
    assert catalog.load_hardware("h200").name == "NVIDIA H200 SXM"


def test_a_pipe_is_not_waited_for(pipe: Path) -> None:
    assert not is_file(pipe)
    for path, says in (
        (pipe, "…pipe.yaml: …allowed: a readable file…"),
        (pipe.parent, "…is a folder…"),
        (Path("nul\0byte"), "…allowed: a readable file…"),
        (Path("/dev/zero"), "/dev/zero: …allowed: a readable file…"),
    ):
        assert reads(refusal(CatalogError, read_text, path, CatalogError), says)


def test_pipes_among_own_hardware_files_are_passed_over(pipe: Path) -> None:
    done = run("hardware", "show", "h200-sxm", SPECROOF_HARDWARE_PATH=str(pipe.parent))
    assert (done.returncode, done.stderr) == (0, "")


def test_an_empty_hardware_path_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HARDWARE_PATH_VARIABLE, "")
    assert "mine" not in catalog.hardware_names()
    monkeypatch.setenv(HARDWARE_PATH_VARIABLE, ".")
    assert "mine" in catalog.hardware_names()
    for folder in (LONG, "nothing-here"):
        monkeypatch.setenv(HARDWARE_PATH_VARIABLE, folder)
        with pytest.raises(CatalogError, match="allowed: a folder"):
            catalog.hardware_names()


def test_what_a_shell_pipes_in_is_read_to_its_end() -> None:
    log = '{"acceptance_histogram": [1, 1, 2]}'
    for name in ("/dev/stdin", "/dev/fd/0"):
        done = run("acceptance", "show", name, stdin=log)
        assert (done.returncode, done.stderr) == (0, "")
        assert "2.25 (bonus in)" in done.stdout


def test_standard_input_is_bounded_and_may_be_called_by_a_hyphen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(catalog.files, "_STANDARD_INPUT", f"/dev/fd/{reading}")

    def flood() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(b" " * (MAX_FILE_BYTES + 1))

    writer = threading.Thread(target=flood)
    writer.start()
    with pytest.raises(CatalogError, match="larger than 16777216 bytes"):
        read_text(Path("-"), CatalogError)
    os.close(reading)
    writer.join()


def test_no_name_of_a_file_reaches_the_terminal_as_it_is(tmp_path: Path) -> None:
    bad = tmp_path / "a\x1b[31mb.json"
    bad.write_text("{}")
    for words in (("models", "show", str(bad)), ("acceptance", "show", str(bad))):
        assert r"a\u001b[31mb" in refused(*words)
