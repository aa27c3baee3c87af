"""GGUF files, on this disk or on the Hub: their first megabytes, never their weights."""

import re
from pathlib import Path
from typing import Final

from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.model import Architecture
from specroof.catalog.files import is_file
from specroof.catalog.hub import fetch_part, files_on_hub
from specroof.errors import CatalogError, ConfigError, reject
from specroof.parsers.gguf import (
    MAX_HEADER_BYTES,
    GgufHeader,
    parse_gguf,
    parse_gguf_mtp,
    read_gguf,
)
from specroof.reading.yaml_text import shown

#: How a file in parts is called, the first of which says all but the tensors of the others.
_PART: Final = re.compile(
    r"(?P<stem>.*)-00001-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE
)
_MOST_PARTS: Final = 1000
_LATER_PART: Final = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
#: Words of names of files beside a model: vision, measurements, draft layers.
_SIDECARS: Final = ("mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-")
#: Bytes that are read at first, then 16 times as many: headers take 5 to 15 MB, those of later
#: parts a few kB.
_FIRST_BYTES: Final = 2**20
_HUB_FILE: Final = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)/(?P<file>[\w./ -]+)")


def load_gguf(name: str) -> Architecture:
    """Return the model of a GGUF file; of one in parts, by the name of the first.

    Parameters
    ----------
    name
        A path, or a file of the Hub: ``ORG/NAME/FILE.gguf``, or ``ORG/NAME:Q4_K_M`` for the first
        one of a format.

    Raises
    ------
    CatalogError
        If there is no such file.
    ConfigError
        If it is not one that specroof reads.
    """
    headers, stem = _headers(name)
    return parse_gguf(headers, name=stem)


def load_gguf_mtp(name: str) -> DraftHead:
    """Return the draft layer of a GGUF file, which is named as of `load_gguf`.

    Raises
    ------
    CatalogError
        If there is no such file.
    ConfigError
        If it holds no draft layer that specroof reads.
    """
    headers, stem = _headers(name)
    return parse_gguf_mtp(headers, name=stem)


def _headers(name: str) -> tuple[list[GgufHeader], str]:
    """Return the headers of a file's parts, and what to call the model."""
    if not name.casefold().endswith(".gguf"):
        name = _file_of(*name.split(":"))
    part = _PART.fullmatch(name)
    names = [name]
    if part is not None:
        count = int(part["count"])
        if not 1 <= count <= _MOST_PARTS:
            reject(f"{shown(name)}: {count} parts", f"1 to {_MOST_PARTS}", CatalogError)
        names = [
            f"{part['stem']}-{index:05}-of-{count:05}{part['suffix']}"
            for index in range(1, count + 1)
        ]
    stem = part["stem"] if part is not None else name[: -len(".gguf")]
    files = [Path(one).stat() for one in names if is_file(Path(one))]
    if len({(file.st_dev, file.st_ino) for file in files}) < len(files):
        reject(f"{shown(name)}: several parts are one file", "a file for each part", CatalogError)
    headers = [_header(one) for one in names]
    return headers, stem.replace("\\", "/").rpartition("/")[2]


def _file_of(repository: str, form: str) -> str:
    """Return the name of the file that llama.cpp takes for a repository and a format.

    Source
        llama.cpp as it ships with llama-cpp-python 0.3.36, ``common/download.cpp``,
        ``find_best_model``.
    """
    files = [file for file in files_on_hub(repository) if file.casefold().endswith(".gguf")]
    models = [
        file
        for file in files
        if not any(part in file.rpartition("/")[2] for part in _SIDECARS)
        and (not _LATER_PART.search(file) or _PART.fullmatch(file))
    ]
    wanted = re.compile(re.escape(form) + "[.-]", re.IGNORECASE)
    file = next((file for file in models if wanted.search(file)), None)
    if file is None:
        has = ", ".join(models) or "another repository: it has no GGUF files"
        reject(f"{repository} has no GGUF file of {form}", has, CatalogError)
    return f"{repository}/{file}"


def _read(name: str, start: int, stop: int) -> tuple[bytes, int]:
    """Return bytes of a file from one place to another, and the size of the whole."""
    path, on_hub = Path(name), _HUB_FILE.fullmatch(name)
    if is_file(path):
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(stop - start), path.stat().st_size
        except OSError as failure:
            reject(f"{name}: {failure.strerror}", "a readable file", ConfigError)
    if on_hub is None:
        message = f"model {name} is neither a file nor a file of the Hub (ORG/NAME/FILE.gguf)"
        raise CatalogError(message)
    fetched = fetch_part(on_hub["repository"], on_hub["file"], start, stop)
    if fetched is None:
        missing = f"{on_hub['repository']}: the repository has no {on_hub['file']}"
        reject(missing, "one of its files", CatalogError)
    return fetched


def _header(name: str) -> GgufHeader:
    """Return the header of a file, of which no more is read than it takes."""
    data, most = b"", _FIRST_BYTES
    while True:
        more, size = _read(name, len(data), most)
        data += more
        # A file that gives no more than this has no more, whatever is said of its size.
        file_bytes = size if more else len(data)
        header = read_gguf(data, source=name, file_bytes=file_bytes)
        if header is not None:
            return header
        most = min(16 * most, MAX_HEADER_BYTES)
