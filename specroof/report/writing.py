"""Files that are written: each is whole or as it was before, whatever ends the run."""

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from specroof.errors import OutputError, reject

#: The list of the files that the last run wrote into a folder.
MANIFEST: Final = "specroof-manifest.json"

_ALLOWED: Final = "a file in a folder that can be written to"

#: Files without a name that are held open at once; systems allow some hundreds.
_MOST_OPEN: Final = 64

#: The name of a temporary holds its owner: a machine, and a process there.
_TEMPORARY: Final = re.compile(r"\.specroof-(?P<host>.+)-(?P<process>\d{1,9})-[0-9a-f]{8}\.tmp")

#: A file of a manifest: its name, and the SHA-256 of its content.
_Listed = tuple[str, str]


@dataclass(slots=True)
class _Staged:
    """The content of a place, on its disk already and not to be seen there yet.

    Parameters
    ----------
    path
        The place as it was asked for.
    data
        The content; all that a device, pipe or socket gets.
    target
        Where a regular file goes, links followed; None of a device, a FIFO, standard output.
    temporary
        The name that the file has or will have for a moment.
    descriptor
        The file itself as long as it has no name.
    """

    path: Path
    data: bytes
    target: Path | None = None
    temporary: Path = field(default_factory=Path)
    descriptor: int | None = None

    def write(self) -> None:
        """Put the content on the disk of its place, under no name where the system can do that."""
        if self.target is not None:
            with self.opened(self.target) as file:
                file.write(self.data)
                _keep_mode(self.target, file.fileno())

    @contextlib.contextmanager
    def opened(self, target: Path) -> Iterator[BinaryIO]:
        """Yield the file for the content, which is on the disk where the block ends well."""
        name = f".specroof-{os.uname().nodename}-{os.getpid()}-{os.urandom(4).hex()}.tmp"
        self.temporary = target.parent / name
        is_named = self.descriptor is None
        place = self.temporary if self.descriptor is None else self.descriptor
        with open(place, "xb" if is_named else "wb", closefd=is_named) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def appear(self) -> None:
        """Move the content to its place in one step; pour it into a device, pipe or socket."""
        if self.target is None:
            state = self.path.stat()
            # Standard output goes on where it stands; opened again, it would begin at the start.
            same = stat.S_ISREG(state.st_mode)
            with open(1 if same else self.path, "wb", closefd=not same) as file:
                file.write(self.data)
            return
        if self.descriptor is not None:
            link = f"/proc/self/fd/{self.descriptor}"
            # With a folder, which an absolute path ignores, Python follows the link.
            os.link(link, self.temporary, src_dir_fd=self.descriptor, follow_symlinks=True)
        self.temporary.replace(self.target)

    def discard(self) -> None:
        """Leave nothing behind; after `appear` there is nothing."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        if self.target is not None:
            with contextlib.suppress(OSError):
                self.temporary.unlink()


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files; each place holds its new content whole, or what it held before.

    What is promised:

    - All content is on disk before the first place changes. A refusal until then, such as a full
      disk or a folder that is not there, changes nothing.
    - Each place changes in one step. A run that is killed in between leaves each file whole, of
      this run or of an earlier one, and at most some of this run beside others of an earlier one
      (`write_folder` says which).
    - A killed run leaves nothing else where the system has files without names (Linux, on its
      own disks, up to 64 files at once), but for one that was just being named; elsewhere hidden
      temporaries. The next run in that folder takes them away.
    - A symbolic link stays, and the file that it leads to is replaced. Other names of that file
      (hard links, as backups have them) keep the old content, for nothing is written in place.
    - Files keep their mode and, where that is allowed, their owner; new ones have the mode that the
      umask leaves. Devices and FIFOs are written through.

    Raises
    ------
    OutputError
        Naming the first path that cannot be written.
    """
    with _staging(files) as staged:
        _swap(staged)


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written, before minutes are spent on its content.

    Raises
    ------
    OutputError
        As `write_files` does.
    """
    with _staging({path: b""}):
        pass


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of one run into a folder, in place of the files of the run before.

    What it promises beyond `write_files`: where the manifest says ``"complete": true``,
    every file that it lists is there with the size and SHA-256 it states, and all are of one run.
    It says false only while the files change places, and after a run that was killed just then.
    What an earlier run has listed and this one does not write is taken away, unless it has
    changed it since; files that no manifest lists are left alone.

    Parameters
    ----------
    folder
        Made if need be.
    files
        Contents by name.

    Raises
    ------
    OutputError
        Naming the first path that cannot be written.
    """
    with refused(folder, "a folder that can be written to"):
        folder.mkdir(parents=True, exist_ok=True)
    place = folder / MANIFEST
    written = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    before = _listed(place)
    now = {*written.items()}
    with (
        _staging({place: _manifest(now, complete=False, replaced=before)}) as start,
        _staging({folder / name: data for name, data in files.items()}) as staged,
        _staging({place: _manifest(now, complete=True)}) as end,
    ):
        _swap(start)
        _swap(staged)
        for name, content_sum in before:
            if name not in written:
                _take_away(folder / name, content_sum)
        _swap(end)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to; it appears at its path, in one step, where the block ends well.

    Links and modes are kept as `write_files` keeps them; a device or FIFO is refused.

    Raises
    ------
    OutputError
        If it cannot be written; nothing is left behind then.
    """
    with refused(path):
        target = _target(path)
    if target is None:
        reject(f"{path}: is a pipe, socket or device", _ALLOWED, OutputError)
    staged = _Staged(path, b"", target)
    try:
        staged.descriptor = _nameless(target.parent)
        with staged.opened(target) as file:
            yield file
            _keep_mode(target, file.fileno())
        staged.appear()
        _keep_names({target.parent})
    except OSError as failure:
        reject(f"{path}: {failure.strerror or failure}", _ALLOWED, OutputError)
    finally:
        staged.discard()


@contextlib.contextmanager
def _staging(files: Mapping[Path, bytes]) -> Iterator[list[_Staged]]:
    """Yield contents staged for their places, those that are poured first; leave nothing behind.

    Raises
    ------
    OutputError
        For a path that cannot be written, or two that lead to one file.
    """
    staged: list[_Staged] = []
    targets: set[Path] = set()
    try:
        for path, data in files.items():
            with refused(path):
                file = _Staged(path, data, _target(path))
                if file.target in targets:
                    reject(f"{path}: two outputs go there", "a file for each", OutputError)
                if file.target is not None:
                    targets.add(file.target)
                    if len(files) <= _MOST_OPEN:
                        file.descriptor = _nameless(file.target.parent)
                staged.append(file)
                file.write()
        for folder in {target.parent for target in targets}:
            clear_stale(folder)
        yield sorted(staged, key=lambda file: file.target is not None)
    finally:
        for file in staged:
            file.discard()


def _swap(staged: list[_Staged]) -> None:
    for file in staged:
        with refused(file.path):
            file.appear()
    _keep_names({file.target.parent for file in staged if file.target is not None})


def _keep_names(folders: Iterable[Path]) -> None:
    """Let a power cut keep the names in folders too; not every system can."""
    for folder in folders:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def refused(path: Path, allowed: str = _ALLOWED) -> Iterator[None]:
    """Turn what the system says of a path into one line; a NUL in it is a ValueError."""
    try:
        yield
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or failure
        reject(f"{path}: {reason}", allowed, OutputError)


def _target(path: Path) -> Path | None:
    """Return the place of a regular file, links followed; None for a device, pipe or socket.

    Raises
    ------
    OutputError
        For a folder.
    OSError
        For a file that may not be written to.
    """
    try:
        state = path.stat()
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    if stat.S_ISDIR(state.st_mode):
        reject(f"{path}: is a folder", "a file that can be written", OutputError)
    if not stat.S_ISREG(state.st_mode) or _is_standard_output(state):
        return None
    path.open("r+b").close()  # may it be written to?
    return Path(os.path.realpath(path))


def _is_standard_output(state: os.stat_result) -> bool:
    """Tell a file that standard output goes to: another in its place would get the rest."""
    try:
        return os.path.samestat(state, os.fstat(1))
    except OSError:  # it is closed
        return False


def _nameless(folder: Path) -> int | None:
    """Return a file without a name on the disk of a folder, or None where the system has none.

    Source
        open(2) of Linux, O_TMPFILE.
    """
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None:
        return None
    try:
        descriptor = os.open(folder, flag | os.O_WRONLY, 0o666)
    except OSError:  # network disks, old kernels
        return None
    if Path(f"/proc/self/fd/{descriptor}").exists():  # by which it gets its name
        return descriptor
    os.close(descriptor)
    return None


def _keep_mode(target: Path, descriptor: int) -> None:
    """Give a file the mode and the owner of the one whose place it takes."""
    try:
        state = target.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, state.st_uid, state.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(state.st_mode))


def clear_stale(folder: Path) -> None:
    """Take away temporaries of runs on this machine that have ended."""
    with contextlib.suppress(PermissionError):  # a folder that may not be listed
        for path in folder.iterdir():
            match = _TEMPORARY.fullmatch(path.name)
            if match and match["host"] == os.uname().nodename and _has_ended(int(match["process"])):
                path.unlink(missing_ok=True)


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)  # only asks
    except OSError as failure:
        return failure.errno == errno.ESRCH  # or it is another user's
    return False


def _manifest(
    files: Set[_Listed], *, complete: bool, replaced: Set[_Listed] = frozenset()
) -> bytes:
    """Return the list of a folder's files as the content of its manifest."""
    content: dict[str, Any] = {
        "format_version": 1,
        "complete": complete,
        "files": [{"name": name, "sha256": content_sum} for name, content_sum in sorted(files)],
    }
    if replaced:
        content["replaces"] = [{"name": n, "sha256": s} for n, s in sorted(replaced)]
    return json.dumps(content, indent=1).encode() + b"\n"


def _listed(place: Path) -> set[_Listed]:
    """Return the files that a manifest lists with their sums; none where it is not a manifest."""
    try:
        content = json.loads(place.read_bytes())
        rows = [*content["files"], *content.get("replaces", [])]
        pairs = {(row["name"], row["sha256"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
    return {pair for pair in pairs if _is_plain(pair[0]) and isinstance(pair[1], str)}


def _is_plain(name: object) -> bool:
    """Tell the name of a file in a folder from a way out of it."""
    return isinstance(name, str) and name not in {"", ".", ".."} and not set(name) & {"/", "\\"}


def _take_away(path: Path, content_sum: str) -> None:
    """Remove a file of an earlier run, unless it has another content by now."""
    with contextlib.suppress(OSError):
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == content_sum:
            path.unlink()
