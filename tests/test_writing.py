"""Writing: what is there is whole, whatever ends the run and whatever lies in the place."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from folders import contents
from specroof.errors import OutputError
from specroof.report.writing import MANIFEST, write_files, write_folder
from tables import refusal as of_call
from tables import rows

AS_ROOT = os.geteuid() == 0


def refusal(path: Path, data: bytes = b"new") -> str:
    return of_call(OutputError, write_files, {path: data})


def test_a_fifo_is_written_through_and_stays(tmp_path: Path) -> None:
    fifo, read = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()
    write_files({fifo: b"points", tmp_path / "beside": b"1"})
    assert fifo.is_fifo()  # before the wait: where it was replaced, nobody writes to the reader
    reader.join(timeout=600)
    assert (read, (tmp_path / "beside").read_bytes()) == ([b"points"], b"1")


def device(folder: Path, minor: int) -> Path:
    """Return a device of memory, which only root may make, and not in every container."""
    node = folder / "device"
    try:
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        node.open("wb").close()
    except PermissionError:
        pytest.skip("only root may make a device, and not in every container")
    return node


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    null = device(tmp_path, 3)
    write_files({null: b"points"})
    assert null.is_char_device()


def test_a_full_device_is_refused_and_changes_nothing_else(tmp_path: Path) -> None:
    shared = Path("/dev/full")
    full = shared if shared.is_char_device() and not AS_ROOT else device(tmp_path, 7)
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(OutputError, match="No space left on device"):
        write_files({tmp_path / "a": b"new", full: b"new"})
    assert (tmp_path / "a").read_bytes() == b"old"
    assert full.is_char_device()


def test_links_stay_and_their_targets_change(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old.csv").write_bytes(b"old")
    to_old, to_new = tmp_path / "to-old", tmp_path / "to-new"
    to_old.symlink_to("real/old.csv")
    to_new.symlink_to("real/new.csv")  # leads nowhere yet
    write_files({to_old: b"1", to_new: b"2"})
    assert to_old.is_symlink()
    assert to_new.is_symlink()
    assert contents(tmp_path / "real") == {"old.csv": b"1", "new.csv": b"2"}


def test_two_names_of_one_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    with pytest.raises(OutputError, match=r"/b: .*allowed: a file for each"):
        write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert not (tmp_path / "b").exists()


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_files_are_closed_with_the_mode_that_they_had_or_the_umask_leaves(
    tmp_path: Path, umask: int
) -> None:
    old = tmp_path / "old"
    old.write_bytes(b"")
    old.chmod(0o604)
    before = open_descriptors()
    # More than may lie open without names, so that those with names are seen too.
    for count in (2, 80):
        new = [tmp_path / f"new-{count}-{number}" for number in range(count)]
        write_files({old: b"1"} | dict.fromkeys(new, b"2"))
        assert stat.S_IMODE(old.stat().st_mode) == 0o604
        assert {stat.S_IMODE(path.stat().st_mode) for path in new} == {0o666 & ~umask}
        assert open_descriptors() == before


@pytest.mark.skipif(not AS_ROOT, reason="only root may give files away")
def test_root_leaves_a_file_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    write_files({path: b"new"})
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


@pytest.mark.skipif(AS_ROOT, reason="root may write anywhere")
def test_a_file_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o444)
    assert "Permission denied" in refusal(path)
    assert contents(tmp_path) == {"a": b"old"}


@pytest.mark.parametrize("name", ["x" * 256, "no/such/folder/a", "a\0b", "circle"])
def test_a_name_that_no_file_can_have_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    assert "allowed" in refusal(tmp_path / name)
    assert contents(tmp_path) == {}


def test_what_goes_to_standard_output_as_a_file_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "other").touch()
    run_python(
        "import os, sys; from pathlib import Path; from specroof.report.writing import write_files\n"
        "print('before', flush=True)\n"
        "write_files({Path(sys.argv[1]): b'written\\n'})\n"
        "print('after', flush=True)\n"
        "os.close(1); write_files({Path(sys.argv[2]): b'written'})",
        str(out),
        str(tmp_path / "other"),
        stdout=out,
    )
    assert out.read_text().split() == ["before", "written", "after"]
    assert (tmp_path / "other").read_bytes() == b"written"


def run_python(program: str, *words: str, stdout: Path | None = None) -> str:
    """Return what a program prints that has to end well."""
    with (stdout or Path(os.devnull)).open("wb") as file:
        run = subprocess.run(
            [sys.executable, "-c", program, *words],
            check=False,
            stdout=file if stdout else subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    assert (run.returncode, run.stderr.decode()) == (0, "")
    return "" if stdout else run.stdout.decode()


OLD = {"results.csv": b"old" * 1000, "chart-1.png": b"old", "chart-2.png": b"old too"}
NEW = {"results.csv": b"new" * 2000, "chart-1.png": b"new", "chart-3.png": b"new too"}

# Each file of the package that is opened, linked, renamed or removed is a moment; a child process
# dies just before the n-th of them.
EACH_MOMENT = """
import os, signal, sys
from pathlib import Path
from specroof.report.writing import write_folder

OLD, NEW = {old!r}, {new!r}
root, nameless = Path(sys.argv[1]), sys.argv[2] == "nameless"
moments = {{"os.link", "os.rename", "os.remove", "open", "os.mkdir"}}
if not nameless:
    del os.O_TMPFILE
for number in range(1000):
    folder = root / str(number)
    write_folder(folder, OLD)
    child = os.fork()
    if not child:
        left = [number]

        def hook(event, args):
            if event in moments:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        write_folder(folder, NEW)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(number)
"""


def listed(folder: Path) -> dict[str, str]:
    manifest = json.loads((folder / MANIFEST).read_text())
    files = manifest["files"] if manifest["complete"] else []
    return {one["name"]: one["sha256"] for one in files}


def check_folder(folder: Path) -> set[str]:
    """Check the promise of `write_folder`; return the hidden files."""
    found = contents(folder)
    hidden = {name for name in found if name.startswith(".")}
    for name in set(found) - hidden - {MANIFEST}:
        assert found[name] in {OLD.get(name), NEW.get(name)}, name
    complete = listed(folder)
    if complete:
        assert set(found) - hidden == {*complete, MANIFEST}
        assert complete == {name: hashlib.sha256(found[name]).hexdigest() for name in complete}
        assert {name: found[name] for name in complete} in (OLD, NEW)
    return hidden


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a fork of a process")
@pytest.mark.parametrize("how", ["nameless", "named"])
def test_a_folder_is_whole_whichever_step_a_kill_comes_before(how: str, tmp_path: Path) -> None:
    program = EACH_MOMENT.format(old=OLD, new=NEW)
    moments = int(run_python(program, str(tmp_path), how))
    assert moments >= 10  # three files and two manifests are moved, one file is removed
    left = []
    for number in range(moments):
        folder = tmp_path / str(number)
        left.append(len(check_folder(folder)))
        write_folder(folder, NEW)  # the next run puts all right
        assert check_folder(folder) == set()
        assert set(listed(folder)) == set(NEW)
    # Without names, only a file that is just getting its own can be left.
    assert max(left) <= (1 if how == "nameless" and hasattr(os, "O_TMPFILE") else 5)
    assert set(listed(tmp_path / str(moments))) == set(NEW)


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        # Opens the folder itself, which kernels refuse that do not know the flag.
        (os, "O_TMPFILE", os.O_WRONLY | os.O_DIRECTORY),
        (Path, "exists", lambda _: False),  # as without /proc: a nameless file gets no name
    ],
)
def test_a_system_without_nameless_files_does_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, value: Any
) -> None:
    monkeypatch.setattr(owner, name, value, raising=False)
    before = open_descriptors()
    write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert contents(tmp_path) == {"a": b"1", "b": b"2"}
    assert open_descriptors() == before


def test_temporaries_of_dead_runs_go_and_all_else_stays(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    host = os.uname().nodename
    dead = f".specroof-{host}-{ended.pid}-0123abcd.tmp"
    others = [
        f".specroof-{host}-{os.getpid()}-0123abcd.tmp",  # a thread of this very process
        f".specroof-{host}-1-0123abcd.tmp",  # runs as long as the machine does
        f".specroof-other{host}-{ended.pid}-0123abcd.tmp",
        ".specroof-mine",
    ]
    for name in [dead, *others]:
        (tmp_path / name).touch()
    write_files({tmp_path / "a": b""})
    assert set(contents(tmp_path)) == {"a", *others}


@pytest.mark.skipif(AS_ROOT, reason="root may list anything")
def test_a_folder_that_may_not_be_listed_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop").chmod(0o300)
    write_files({tmp_path / "drop" / "a": b"1"})
    (tmp_path / "drop").chmod(0o700)
    assert contents(tmp_path / "drop") == {"a": b"1"}


def test_what_somebody_changed_or_replaced_is_left_alone(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": b"1", "b": b"2", "c": b"3"})
    (tmp_path / "a").write_bytes(b"edited")
    (tmp_path / "b").unlink()
    os.mkfifo(tmp_path / "b")
    write_folder(tmp_path, {"d": b"4"})
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "d", MANIFEST}


@pytest.mark.parametrize("manifest", [*rows("damages", "manifests_of_strangers"), "[" * 100_000])
def test_a_manifest_of_a_stranger_removes_nothing(manifest: str, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "a" / "b"
    victim.write_bytes(b"precious")
    folder.mkdir(parents=True)
    content_sum = hashlib.sha256(b"precious").hexdigest()
    (folder / MANIFEST).write_text(manifest.replace("%s", content_sum))
    write_folder(folder, NEW)
    assert victim.read_bytes() == b"precious"
    assert set(listed(folder)) == set(NEW)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file/out"):
        write_folder(tmp_path / "file" / "out", NEW)
