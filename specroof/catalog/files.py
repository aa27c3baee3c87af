"""Files that are read: those that travel with the package, and those from outside."""

import difflib
from pathlib import Path
from typing import Final

from specroof.errors import SpecroofError

__all__ = [
    "bundled",
    "bundled_names",
    "data_folder",
    "read_text",
    "suggestion",
]

#: Larger than any published file (the longest real config has 90 KB), small enough to read.
_MAX_FILE_BYTES: Final = 16 * 2**20


def data_folder(name: str) -> Path:
    """Return a folder of data: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parents[1]
    packed = package / "data" / name
    return packed if packed.is_dir() else package.parent / name


def read_text(path: Path, error: type[SpecroofError]) -> str:
    """Return the text of a file from outside, refused if it is no small text file.

    Raises
    ------
    SpecroofError
        Of the type `error`: for a missing, unreadable, too large or non-UTF-8 file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as failure:
        message = f"{path}: {failure.strerror or failure}; allowed: a readable file"
        raise error(message) from None
    if len(data) > _MAX_FILE_BYTES:
        message = f"{path}: larger than {_MAX_FILE_BYTES} bytes; allowed: a config of that size"
        raise error(message)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        message = f"{path}: byte {failure.start} is not UTF-8; allowed: UTF-8 text"
        raise error(message) from None


def bundled(folder: str, suffix: str) -> dict[str, Path]:
    """Return the bundled files by stem, sorted."""
    return {path.stem: path for path in sorted(data_folder(folder).glob(f"*{suffix}"))}


def bundled_names(folder: str) -> list[str]:
    """Return the names of bundled configs, ``ORG/NAME``."""
    return [stem.replace("--", "/", 1) for stem in bundled(folder, ".json")]


def suggestion(name: str, known: list[str]) -> str:
    """Return the end of a message that names what `name` may have been meant for."""
    close = difflib.get_close_matches(name.casefold(), [entry.casefold() for entry in known], n=3)
    spelled = [entry for entry in known if entry.casefold() in close]
    return f"; did you mean {' or '.join(spelled)}?" if spelled else ""
