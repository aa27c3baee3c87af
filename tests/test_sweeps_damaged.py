"""Sweeps and what ends or damages them: interrupts, damaged folders, odd places, lost clusters."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from commands import refused
from folders import contents
from fuzzing import bounded
from specroof import OptionError, OutputError, read_results, write_sweep
from specroof.errors import CatalogError, SpecroofError
from specroof.questions.sweep import study_of
from specroof.sweeps import run as workers
from specroof.sweeps.run import MANIFEST
from tables import rows

pytestmark = pytest.mark.slow

CONTENT: dict[str, Any] = rows("values", "small_studies")["damaged"]


def fill(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    assert write_sweep(CONTENT, folder, form="csv").done
    return contents(folder)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a sweep that was stopped after the first of two files."""
    folder = tmp_path_factory.mktemp("half")
    assert not write_sweep(CONTENT, folder, form="csv", stop=lambda: True).done
    return contents(folder)


# --- interrupts ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _as_at_a_terminal() -> Iterator[None]:
    """Let what is started hear interrupts: a shell in the background starts all deaf to them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


#: `specroof`, whose workers run this file too: each says that it has begun, and then waits.
WORKERS_THAT_WAIT = """
import os, time
from pathlib import Path
from specroof.sweeps import run as workers

def wait_for_hours(*words):
    (Path(os.environ["BEGUN"]) / str(os.getpid())).touch()
    time.sleep(36000)

workers.write_partition = wait_for_hours

if __name__ == "__main__":
    from specroof.__main__ import main
    main()
"""


def test_a_second_interrupt_ends_the_workers_at_once(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(CONTENT))
    (tmp_path / "run.py").write_text(WORKERS_THAT_WAIT)
    words = ["sweep", "study.yaml", "-o", "out", "--format", "csv", "--workers", "2"]
    run: Any = subprocess.Popen(
        [sys.executable, "run.py", *words], cwd=tmp_path, env=os.environ | {"BEGUN": str(begun)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while len(pids := [int(path.name) for path in begun.iterdir()]) < 2:
        assert run.poll() is None, run.communicate()
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGINT)  # Ctrl-C: every process of the group hears it
    assert run.stderr.readline().startswith("interrupted: ")
    os.killpg(run.pid, signal.SIGINT)
    try:
        out, err = run.communicate(timeout=120)
    finally:
        if run.poll() is None:  # it hangs
            os.killpg(run.pid, signal.SIGKILL)
    assert (run.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "the same command goes on" in err
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert write_sweep(CONTENT, tmp_path / "out").done
    assert contents(tmp_path / "out") == whole


def test_a_worker_ends_when_the_pipe_of_its_parent_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(os, "_exit", lambda _code: ended.set())
    before = signal.getsignal(signal.SIGINT)
    reader, writer = multiprocessing.Pipe(duplex=False)
    try:
        workers._follow_parent(reader)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert not ended.is_set()
        writer.close()
        assert ended.wait(60)
    finally:
        signal.signal(signal.SIGINT, before)


def started(
    *words: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, cwd=folder,
        env=os.environ | environment,
    )  # fmt: skip


PREDICT = ["predict", "Qwen/Qwen3-8B", "-H", "b200", "--drafter", "ideal", "--plot", "c.png"]

INTERRUPTED_IMPORT = """
import os, runpy, signal, sys

module = sys.argv.pop(1)

class Interrupting:
    def find_spec(self, name, *rest):
        if name == module:
            del sys.meta_path[0]
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
runpy.run_module("specroof", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", rows("damages", "interrupted_imports"))
def test_an_interrupt_while_importing_is_no_traceback(tmp_path: Path, module: str) -> None:
    run = started("-c", INTERRUPTED_IMPORT, module, *PREDICT, folder=tmp_path)
    assert (run.returncode, run.stdout, run.stderr.strip()) == (130, "", "")
    assert contents(tmp_path) == {}


INTERRUPTED_EXIT = """
import atexit, os, runpy, signal

@atexit.register
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(9))  # where Python hears it

runpy.run_module("specroof", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["no-such-command"], 2)])
def test_an_interrupt_while_python_ends_changes_nothing(words: list[str], code: int) -> None:
    run = started("-c", INTERRUPTED_EXIT, *words)
    assert run.returncode == code
    assert "Traceback" not in run.stderr


def test_a_backend_that_matplotlib_does_not_know_is_one_line(tmp_path: Path) -> None:
    run = started("-m", "specroof", *PREDICT, folder=tmp_path, MPLBACKEND="nonsense")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("specroof: MPLBACKEND is 'nonsense'; allowed: ")
    assert contents(tmp_path) == {}


# --- damaged folders -----------------------------------------------------------------------------


def changed(content: bytes, **values: Any) -> bytes:
    found = json.loads(content) | values
    return json.dumps({key: value for key, value in found.items() if value != "…"}).encode()


DEEP = b"[" * 100_000
DAMAGED = [b"", b"{", b"[]", b"null", b"5", b"\xff\xfe", DEEP, b'{"a":' * 9000]
RECORDS: list[dict[str, Any]] = rows("damages", "records")


@pytest.mark.parametrize("damage", [*DAMAGED, *RECORDS], ids=lambda damage: repr(damage)[:30])
def test_a_damaged_record_is_computed_again(
    tmp_path: Path, half: dict[str, bytes], whole: dict[str, bytes], damage: Any
) -> None:
    name = ".unfinished/00001.json"
    record = damage if isinstance(damage, bytes) else changed(half[name], **damage)
    fill(tmp_path / "out", half | {name: record})
    assert write_sweep(CONTENT, tmp_path / "out").done
    assert contents(tmp_path / "out") == whole


def test_a_damaged_overview_is_refused_and_computed_again(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    manifest = json.loads(whole[MANIFEST])
    manifest["partitions"][0]["overviews"][0]["best_speedup"] = [[10**400, 1], [1, 1]]
    fill(tmp_path / "out", whole | {MANIFEST: json.dumps(manifest).encode()})
    with pytest.raises(CatalogError, match=r"manifest\.json: an overview"):
        read_results(tmp_path / "out").plot()
    assert write_sweep(CONTENT, tmp_path / "out").done
    assert contents(tmp_path / "out") == whole


MANIFESTS: list[dict[str, Any]] = rows("damages", "manifests")


@pytest.mark.parametrize("damage", [*DAMAGED, *MANIFESTS], ids=lambda damage: repr(damage)[:30])
def test_a_damaged_manifest_is_one_line(
    tmp_path: Path, whole: dict[str, bytes], damage: Any
) -> None:
    manifest = damage if isinstance(damage, bytes) else changed(whole[MANIFEST], **damage)
    fill(tmp_path / "out", whole | {MANIFEST: manifest})
    with pytest.raises(CatalogError, match=r"/out .*allowed: a folder"):
        read_results(tmp_path / "out")
    if isinstance(damage, bytes) or not damage.keys() & {"partitions", "done"}:
        with pytest.raises(OutputError, match=r"manifest.json .*allowed: another folder"):
            write_sweep(CONTENT, tmp_path / "out")


def test_files_of_results_that_are_missing_or_damaged_are_named(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    points, summary = "points/00002.csv", "summary.csv"
    for name, damage in (
        *((summary, b""), (summary, None), (summary, b"a\n1,2\n1,2,3\n")),
        *((points, b""), (points, None)),
    ):
        left = {other: data for other, data in whole.items() if other != name}
        fill(tmp_path, left if damage is None else left | {name: damage})
        results = read_results(tmp_path)
        with pytest.raises(CatalogError, match=rf"{name}.*allowed"):
            results.to_frame() if name == points else results.summary()
    assert write_sweep(CONTENT, tmp_path).done
    assert contents(tmp_path) == whole


@pytest.mark.parametrize("name", ["points/00001.csv", "summary.csv"])
def test_a_file_of_the_right_size_and_other_content_is_written_again(
    tmp_path: Path, half: dict[str, bytes], whole: dict[str, bytes], name: str
) -> None:
    for files in (whole, half | {name: whole[name]}):
        fill(tmp_path, files | {name: files[name].replace(b"1", b"2")})
        assert write_sweep(CONTENT, tmp_path).done
        assert contents(tmp_path) == whole


def test_a_sweep_that_has_just_begun_has_no_points_yet(
    tmp_path: Path, half: dict[str, bytes]
) -> None:
    fill(tmp_path, {MANIFEST: half[MANIFEST]})
    for table in (read_results(tmp_path).to_frame, read_results(tmp_path).to_arrow):
        with pytest.raises(CatalogError, match="allowed: run it again"):
            table()


json_junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.floats(),
        st.text(max_size=3),
        st.sampled_from([10**400, -(2**70), "csv", "00002", "../x"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=5,
)


def with_junk(value: Any, data: st.DataObject) -> Any:
    """Return a JSON value with junk in one of its places."""
    if isinstance(value, dict | list) and value and data.draw(st.integers(0, 5)):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        copy = value.copy()
        copy[key] = with_junk(value[key], data)
        return copy
    return data.draw(json_junk)


def damage(folder: Path, name: str, data: st.DataObject) -> None:
    path = folder / name
    content = path.read_bytes()
    how = data.draw(
        st.sampled_from(["junk", "junk", "cut", "flip", "gone", "folder", "fifo", "loop"])
    )
    if how == "junk" and path.suffix == ".json":
        path.write_text(json.dumps(with_junk(json.loads(content), data)))
    elif how == "junk":
        path.write_bytes(data.draw(st.binary(max_size=20)))
    elif how in {"cut", "flip"}:
        place = data.draw(st.integers(0, len(content) - 1))
        path.write_bytes(content[:place] + (b"\x00" + content[place + 1 :]) * (how == "flip"))
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how == "fifo":
            os.mkfifo(path)
        elif how == "loop":
            path.symlink_to(path.name)


def answered(call: Callable[[], Any]) -> Any:
    """Return what a call answers, None where it refuses in one line."""
    try:
        return call()
    except SpecroofError as refused:
        line = str(refused)
    assert line.splitlines() == [line]
    return None


@pytest.mark.fuzz
@bounded(60)
@given(st.data())
def test_damaged_folders_are_mended_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    half: dict[str, bytes],
    whole: dict[str, bytes],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "out"
    fill(folder, data.draw(st.sampled_from([half, whole])))
    names = st.sampled_from(sorted(contents(folder)))
    damaged = data.draw(st.lists(names, min_size=1, max_size=2, unique=True))
    for name in damaged:
        damage(folder, name, data)
    results = answered(lambda: read_results(folder))
    if results is not None:
        assert "\n" not in repr(results)
        for look in (results._repr_html_, results.to_frame, results.summary):
            answered(look)
        answered(lambda: results.overviews)
    run = answered(lambda: write_sweep(CONTENT, folder, form="csv"))
    if run is None:
        return
    assert run.done
    assert len(run.overviews) == 2
    # Of a manifest that can be read, all that it lists is known by its content.
    if MANIFEST not in damaged:
        assert contents(folder) == whole


# --- places --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["data", "dir", "reference", "jupyter", "generic", "nowhere"])
def test_a_place_that_fsspec_cannot_write_is_one_line(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec", reason="the extra `cluster` is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(CONTENT))
    assert "allowed: a place that" in refused(f"sweep study.yaml --format csv -o {kind}://x")
    with pytest.raises(SpecroofError, match="allowed: a"):
        read_results(f"{kind}://x")


@pytest.mark.parametrize(("name", "value"), rows("damages", "arguments"))
def test_an_argument_that_cannot_be_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"^{name} is "):
        write_sweep(CONTENT, **{"folder": tmp_path / "out", "form": "csv", name: value})
    assert contents(tmp_path) == {}
    if name == "folder":
        with pytest.raises(OptionError, match=r"^folder is "):
            read_results(value)


def test_more_workers_than_files_write_the_files(tmp_path: Path, whole: dict[str, bytes]) -> None:
    told: list[int] = []
    assert write_sweep(CONTENT, tmp_path, form="csv", workers=4096, advance=told.append).done
    assert read_results(tmp_path).to_arrow().num_rows == sum(told) == 2 * 4 * 3
    assert contents(tmp_path) == whole


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
@pytest.mark.parametrize("name", rows("damages", "links"))
def test_links_below_the_folder_are_refused_by_name(
    tmp_path: Path, half: dict[str, bytes], whole: dict[str, bytes], name: str, scheme: str
) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    fill(out, whole if name == "charts" else half)
    fill(kept, {"victim": b"old"})
    if name in half:  # to what it was: nothing tells but the link
        (out / name).replace(kept / "own")
    shutil.rmtree(out / name, ignore_errors=True)
    (out / name).symlink_to({"summary.csv": "../kept/victim"}.get(name, "../kept/own"))
    if name in {"points", ".unfinished", "charts"}:
        (kept / "own").mkdir()
    before = contents(kept)
    with pytest.raises(OutputError, match=rf"out/{name}: is a link"):
        write_sweep(CONTENT, f"{scheme}{out}", form="csv").write_charts({"a.png": b""})
    assert contents(kept) == before
    # The folder itself may be one: whoever runs the sweep has named it.
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("other")
    assert write_sweep(CONTENT, tmp_path / "link", form="csv").done
    assert contents(tmp_path / "other") == whole


def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "summary.csv")
    with pytest.raises(OutputError, match=r"summary\.csv: .*allowed: a file"):
        write_sweep(CONTENT, tmp_path, form="csv")
    assert (tmp_path / "summary.csv").is_fifo()
    (tmp_path / "summary.csv").unlink()
    (tmp_path / "summary.csv").mkdir()
    with pytest.raises(OutputError, match=r"summary\.csv: is a folder"):
        write_sweep(CONTENT, tmp_path, form="csv")


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx", "'=x", "'quoted'"])
def test_names_in_csv_are_no_formulas_and_are_read_back(tmp_path: Path, name: str) -> None:
    study = study_of(CONTENT)
    target = replace(study.targets[0], model=replace(study.targets[0].model, name=name))
    named = replace(study, targets=(target,))
    for form in ("csv", "jsonl"):
        write_sweep(named, tmp_path / form, form=form)
        results = read_results(tmp_path / form)
        for frame in (results.to_frame(), results.summary()):
            assert set(frame.model) == {name}
    text = (tmp_path / "csv" / "summary.csv").read_text()
    model = text.splitlines()[0].split(",").index("model")
    cells = {line.split(",")[model] for line in text.splitlines()[1:]}
    assert cells == {name if name == "'quoted'" else f"'{name}"}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a scheduler without workers in a process of its own; yield it and its address."""
    pytest.importorskip("distributed", reason="`cluster` is not installed")
    file = tmp_path / "scheduler.json"
    module = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    words = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
    run = subprocess.Popen([*module, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not file.exists() or not file.read_text():
            assert run.poll() is None
            time.sleep(0.05)
        yield run, json.loads(file.read_text())["address"].replace("tcp://", "dask://")
    finally:
        run.kill()
        run.wait()


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_is_killed_is_one_line(
    tmp_path: Path,
    scheduler: tuple[subprocess.Popen[bytes], str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import distributed  # noqa: PLC0415 - an extra

    process, address = scheduler
    as_completed = distributed.as_completed

    def killed(tasks: Any) -> Any:
        process.kill()
        return as_completed(tasks)

    monkeypatch.setattr(distributed, "as_completed", killed)
    with pytest.raises(OutputError, match=f"^{address}: .*allowed: a cluster of dask"):
        write_sweep(CONTENT, tmp_path / "out", form="csv", on=address)
    assert "Traceback" not in capfd.readouterr().err
    assert write_sweep(CONTENT, tmp_path / "out").done
