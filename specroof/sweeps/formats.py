"""Tables as files: Parquet, CSV and JSON Lines, written some rows at a time."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, BinaryIO, Final

from specroof.errors import expect_word
from specroof.report.arrow import arrow_batch, data_library
from specroof.report.columns import Columns, listed_columns
from specroof.report.layout import columns_csv

#: Writes some rows of a table.
Write = Callable[[Columns], object]


@contextlib.contextmanager
def _csv(file: BinaryIO, _metadata: Mapping[str, str]) -> Iterator[Write]:
    first = True

    def write(columns: Columns) -> None:
        nonlocal first
        text = columns_csv([listed_columns(columns)], header=first)
        first = False
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
    pq = data_library("pyarrow.parquet")
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


FORMATS: Final[Mapping[str, Callable[[BinaryIO, Mapping[str, str]], Any]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "jsonl": _json_lines,
}


def best_format(asked: str | None) -> str:
    """Return a format: the one asked for; if None Parquet where pyarrow is installed, else CSV.

    Raises
    ------
    OptionError, OutputError
        For a format that there is not, or whose library is not installed.
    """
    if asked is None:
        return "csv" if find_spec("pyarrow") is None else "parquet"
    expect_word("form", asked, FORMATS)
    if asked == "parquet":
        data_library("pyarrow.parquet")
    return asked


def table_writer(
    name: str, file: BinaryIO, metadata: Mapping[str, str]
) -> contextlib.AbstractContextManager[Write]:
    """Return what writes a table into a file, some rows at a time.

    Parameters
    ----------
    name
        A key of `FORMATS`.
    file
        Open for writing.
    metadata
        What the file says of itself, where the format has room for it.
    """
    found: contextlib.AbstractContextManager[Write] = FORMATS[name](file, metadata)
    return found


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
        As for `table_writer`.
    """
    if name == "parquet":
        _join_parquet(file, parts, metadata)
        return
    for number, content in enumerate(parts):
        has_header = name == "csv" and number > 0
        file.write(content.partition(b"\n")[2] if has_header else content)


def _join_parquet(file: BinaryIO, parts: Iterator[bytes], metadata: Mapping[str, str]) -> None:
    pa, pq = data_library("pyarrow"), data_library("pyarrow.parquet")
    writer: Any = None
    for content in parts:
        table = pq.read_table(pa.BufferReader(content))
        if writer is None:
            schema = table.schema.with_metadata(dict(metadata))
            writer = pq.ParquetWriter(file, schema, compression="lz4")
        writer.write_table(table.cast(writer.schema))
    writer.close()
