"""Where a sweep writes: a folder of this machine, or any place that fsspec reaches."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, TypeVar

from specroof.errors import OutputError, expect, expect_word, optional_library, refuse, reject
from specroof.report.columns import Columns, arrow_batch, listed_columns
from specroof.report.layout import columns_csv
from specroof.report.writing import clear_stale, refused, whole_file

_Answer = TypeVar("_Answer")

#: Who needs pyarrow.
_PARQUET: Final = "parquet, unlike csv and jsonl,"
_TO_READ: Final = "a folder that can be read"
_TO_WRITE: Final = "a folder that can be written to"
#: How a URL of a folder of this machine begins.
_LOCAL: Final = re.compile("^(file|local)://")


def place_of(folder: object) -> "Place":
    """Return a folder by its path, or by a URL such as s3://bucket/folder.

    Raises
    ------
    OptionError, OutputError
        For anything but text or a path object, and a URL that fsspec does not reach.
    """
    allowed = "a folder, or a URL that fsspec reaches"
    expect("folder", folder, str | bytes | os.PathLike, allowed)
    url = os.fsdecode(folder)  # type: ignore[arg-type]  # checked
    if not url:
        refuse("folder", folder, allowed)
    return _Folder(url) if "://" not in url or _LOCAL.match(url) else _Remote(url)


def sha256_of(place: "Place", name: str) -> str | None:
    """Return the sum of a file's content; None where there is none."""
    if place.size(name) is None:
        return None
    with place.open_to_read(name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


class _Folder:
    """A folder of this machine; it may be a link itself, what is below it may not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._path = Path(_LOCAL.sub("", url))

    def _at(self, name: str) -> Path:
        """Return a path below the folder.

        Raises
        ------
        OutputError
            If a part of it is a link: whoever made the folder would choose what it leads to.
        """
        path = self._path
        for part in Path(name).parts:
            path /= part
            with refused(path, _TO_READ):
                is_link = path.is_symlink()
            if is_link:
                reject(f"{path}: is a link", "files and folders of the sweep itself", OutputError)
        return path

    def prepare(self, *folders: str) -> None:
        """Make the folder and these in it."""
        for name in ("", *folders):
            path = self._at(name)
            with refused(path, _TO_WRITE):
                path.mkdir(parents=True, exist_ok=True)
                clear_stale(path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other sweeps out."""
        with refused(self._path, _TO_WRITE):
            descriptor = os.open(self._path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            reject(
                f"{self.url}: another sweep writes there", "another folder, or later", OutputError
            )
        except OSError:  # network disks without locks
            pass
        try:
            yield
        finally:
            os.close(descriptor)

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Return a file to write to, which appears when the block ends well."""
        return whole_file(self._at(name))

    def open_to_read(self, name: str) -> BinaryIO:
        """Return a file that is there, to read from."""
        path = self._at(name)
        with refused(path, _TO_READ):
            if not stat.S_ISREG(path.stat().st_mode):  # nobody may ever write to a pipe
                message = "is not a regular file"
                raise OSError(message)
            return path.open("rb")

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None where there is none."""
        if self.size(name) is None:
            return None
        with self.open_to_read(name) as file:
            return file.read()

    def size(self, name: str) -> int | None:
        """Return the bytes of a file; None where there is none."""
        return self._found(name, lambda path: path.stat().st_size)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order."""
        return sorted(file.name for file in self._found(folder, os.scandir) or ())

    def remove(self, folder: str) -> None:
        """Take a folder away."""
        self._found(folder, shutil.rmtree, _TO_WRITE)

    def _found(
        self, name: str, ask: Callable[[Path], _Answer], allowed: str = _TO_READ
    ) -> _Answer | None:
        """Return what `ask` says of a file or folder; None where there is none."""
        path = self._at(name)
        with refused(path, allowed):
            try:
                return ask(path)
            except FileNotFoundError:
                return None


class _Remote:
    """A place that fsspec reaches."""

    def __init__(self, url: str) -> None:
        fsspec = optional_library("fsspec", url, refusal=OutputError)
        self.url = url
        with self._refused("a place that fsspec reaches"):
            self._files, self._root = fsspec.url_to_fs(url)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    def prepare(self, *folders: str) -> None:
        for name in ("", *folders):
            with self._refused():
                self._files.makedirs(self._at(name), exist_ok=True)

    def lock(self) -> AbstractContextManager[None]:
        """Return nothing: files of two sweeps of one study are the same, and others are refused."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        # What is closed appears, whole or not: so under another name until it is whole.
        temporary = self._at(f"{name}-{os.urandom(4).hex()}.tmp")
        with self._refused():
            opened = self._files.open(temporary, "wb")
        try:
            with self._refused(kind=OSError), opened as file:
                yield file
            with self._refused():
                self._files.mv(temporary, self._at(name))
        except BaseException:
            with contextlib.suppress(Exception):
                self._files.rm(temporary)
            raise

    def open_to_read(self, name: str) -> BinaryIO:
        with self._refused("a place that can be read"):
            file: BinaryIO = self._files.open(self._at(name), "rb")
        return file

    def read(self, name: str) -> bytes | None:
        content: bytes | None = self._found(name, self._files.cat_file)
        return content

    def size(self, name: str) -> int | None:
        self._files.invalidate_cache()
        state = self._found(name, self._files.info)
        return None if state is None else int(state["size"] or 0)

    def names(self, folder: str) -> list[str]:
        paths = self._found(folder, self._files.ls, detail=False)
        return sorted(path.rsplit("/", 1)[-1] for path in paths or ())

    def remove(self, folder: str) -> None:
        self._found(folder, self._files.rm, recursive=True)

    def _found(self, name: str, ask: Callable[..., Any], **how: bool) -> Any:
        """Return what `ask` says of a file or folder; None where there is none."""
        with self._refused():
            try:
                return ask(self._at(name), **how)
            except FileNotFoundError:
                return None

    @contextlib.contextmanager
    def _refused(
        self, allowed: str = "a place that can be written to", kind: type[Exception] = Exception
    ) -> Iterator[None]:
        """Turn what a file system says into one line: each has errors of its own."""
        try:
            yield
        except kind as failure:
            reject(f"{self.url}: {str(failure) or type(failure).__name__}", allowed, OutputError)


#: A folder in which files appear whole; what its methods do, `_Folder` says.
Place: TypeAlias = _Folder | _Remote


# --- Tables as files: Parquet, CSV and JSON Lines, written some rows at a time -------------------

#: Writes some rows of a table.
Write = Callable[[Columns], object]


@contextlib.contextmanager
def _csv(file: BinaryIO, _metadata: Mapping[str, str]) -> Iterator[Write]:
    def write(columns: Columns) -> None:
        text = columns_csv([listed_columns(columns)], header=file.tell() == 0)
        file.write(text.encode())

    yield write


@contextlib.contextmanager
def _json_lines(file: BinaryIO, _metadata: Mapping[str, str]) -> Iterator[Write]:
    def write(columns: Columns) -> None:
        lists = listed_columns(columns)
        rows = zip(*lists.values(), strict=True)
        file.writelines(
            json.dumps(dict(zip(lists, row, strict=True)), allow_nan=False).encode() + b"\n"
            for row in rows
        )

    yield write


@contextlib.contextmanager
def _parquet(file: BinaryIO, metadata: Mapping[str, str]) -> Iterator[Write]:
    pq = optional_library("pyarrow.parquet", _PARQUET, refusal=OutputError)
    writer: Any = None

    def write(columns: Columns) -> None:
        nonlocal writer
        batch = arrow_batch(columns)
        if writer is None:
            schema = batch.schema.with_metadata(dict(metadata))
            measured = [field.name for field in schema if str(field.type) == "double"]
            writer = pq.ParquetWriter(
                file,
                schema,
                compression="lz4",
                use_dictionary=[field.name for field in schema if field.name not in measured],
                use_byte_stream_split=measured,
            )
        writer.write_batch(batch.cast(writer.schema))

    try:
        yield write
    except BaseException:
        # The file is given up: its end would be written, and complained of, after it is closed.
        if writer is not None:
            writer.is_open = False
        raise
    writer.close()


#: What writes a table into a file that is open, some rows at a time, by the name of its format. It
#: takes what the file says of itself, for formats that have room for that.
FORMATS: Final[
    Mapping[str, Callable[[BinaryIO, Mapping[str, str]], AbstractContextManager[Write]]]
] = {
    "parquet": _parquet,
    "csv": _csv,
    "jsonl": _json_lines,
}


def best_format(form: str | None) -> str:
    """Return a format: the one asked for; if None Parquet where pyarrow is installed, else CSV.

    Raises
    ------
    OptionError, OutputError
        For a format that there is not, or whose library is not installed.
    """
    if form is None:
        return "csv" if find_spec("pyarrow") is None else "parquet"
    expect_word("form", form, FORMATS)
    if form == "parquet":
        optional_library("pyarrow.parquet", _PARQUET, refusal=OutputError)
    return form


def joined(name: str, file: BinaryIO, parts: Iterator[bytes], metadata: Mapping[str, str]) -> None:
    """Write the tables of several files as one.

    Parameters
    ----------
    name
        A key of `FORMATS`.
    file
        Open for writing.
    parts
        The contents of the files.
    metadata
        What the file says of itself, where the format has room for it.
    """
    if name == "parquet":
        pa = optional_library("pyarrow", _PARQUET, refusal=OutputError)
        pq = optional_library("pyarrow.parquet", _PARQUET, refusal=OutputError)
        tables = (pq.read_table(pa.BufferReader(content)) for content in parts)
        first = next(tables)
        schema = first.schema.with_metadata(dict(metadata))
        with pq.ParquetWriter(file, schema, compression="lz4") as writer:
            for table in chain([first], tables):
                writer.write_table(table.cast(schema))
        return
    for number, content in enumerate(parts):
        has_header = name == "csv" and number > 0
        file.write(content.partition(b"\n")[2] if has_header else content)
