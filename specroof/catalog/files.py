"""Files: those that travel with the package, those from outside, those that are written."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from specroof.errors import OutputError, SpecroofError

__all__ = [
    "bundled",
    "bundled_names",
    "data_folder",
    "read_text",
    "suggestion",
    "write_files",
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


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files whole, or none of them.

    Each is written beside its place under another name, and all are moved there at the end, so
    that a reader never sees half a file and a refusal leaves what was there before.

    Raises
    ------
    OutputError
        Naming the first path that cannot be written.
    """
    if not files:
        return
    import tempfile  # noqa: PLC0415 - most predictions write nothing, and a cold start is felt

    written: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            if path.is_dir():
                message = f"{path}: is a folder; allowed: a file that can be written"
                raise OutputError(message)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
                written[path] = Path(file.name)
                file.write(data)
            written[path].chmod(0o644)
        for path, temporary in written.items():
            temporary.replace(path)
    except OSError as failure:
        reason = failure.strerror or failure
        message = f"{path}: {reason}; allowed: a file in a folder that can be written to"
        raise OutputError(message) from None
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)


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
