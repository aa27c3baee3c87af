"""Files that are read: those that travel with the package, and those from outside."""

import difflib
import os
import re
import stat
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from specroof.errors import CatalogError, SpecroofError, refuse, reject
from specroof.reading.yaml_text import shown

#: Larger than any published file (the longest real config has 90 KB), small enough to read.
MAX_FILE_BYTES: Final = 16 * 2**20

#: What a shell puts in the place of a file: its own input, or the output of another command.
_STREAM: Final = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
#: How `-` is read, as people write it for standard input.
_STANDARD_INPUT: Final = "/dev/stdin"


def is_file(path: Path) -> bool:
    r"""Tell whether a path leads to something that `read_text` reads.

    That is a regular file, or what a shell hands over as one: ``/dev/stdin``, ``/dev/fd/63``. A
    name that no file can have, and a folder that may not be searched, lead to nothing.

    Examples
    --------
    >>> is_file(Path(__file__)), is_file(Path("x" * 300)), is_file(Path("nothing\0here"))
    (True, False, False)
    """
    mode = _mode(path)
    return stat.S_ISREG(mode) or (mode != 0 and _STREAM.fullmatch(str(path)) is not None)


def is_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder that can be looked at.

    Examples
    --------
    >>> is_folder(Path(__file__).parent), is_folder(Path("x" * 300))
    (True, False)
    """
    return stat.S_ISDIR(_mode(path))


def is_there(path: Path) -> bool:
    """Tell whether a path leads to anything that can be looked at."""
    return _mode(path) != 0


def _mode(path: Path) -> int:
    """Return what kind of thing a path leads to, 0 for nothing that can be looked at.

    Python tells nobody of a look; `specroof.cli.mcp` hears of this one, and may refuse it.
    """
    try:
        sys.audit("specroof.look", path)
        return path.stat().st_mode
    # Python's own tests raise for a name of more than 255 bytes and for a closed folder.
    except (OSError, ValueError):
        return 0


def name_text(argument: str, value: object) -> str:
    """Return the text of a name or path, which Python may spell as text, bytes or a path object.

    Raises
    ------
    OptionError
        For anything else.

    Examples
    --------
    >>> name_text("name", Path("config.json")), name_text("name", b"h200")
    ('config.json', 'h200')
    """
    try:
        return os.fsdecode(value)  # type: ignore[arg-type]  # what else it is, it refuses
    except TypeError:
        refuse(argument, value, "a name or a path, as text or a path object")


def read_text(path: Path, error: type[SpecroofError], most_bytes: int = MAX_FILE_BYTES) -> str:
    """Return the text of a file from outside, refused unless it is a small text file.

    Parameters
    ----------
    path
        A regular file, or a stream that the shell hands over; ``-`` is standard input. Anything
        else, such as a named pipe without a writer, is not waited for.
    error
        The exception to raise.
    most_bytes
        The largest file that is read.

    Raises
    ------
    SpecroofError
        Of the type `error`: for a missing, unreadable, too large or non-UTF-8 file.
    """
    place = Path(_STANDARD_INPUT) if str(path) == "-" else path
    # Opening a pipe waits for its writer unless told not to, and so does reading a device.
    is_stream = _STREAM.fullmatch(str(place)) is not None
    no_wait = 0 if is_stream else getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(place, os.O_RDONLY | no_wait)
        mode = os.fstat(descriptor).st_mode
        if not is_stream and not stat.S_ISREG(mode):
            os.close(descriptor)
            raise OSError("is a folder" if stat.S_ISDIR(mode) else "is a pipe, socket or device")  # noqa: TRY301 - worded below, with the place
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as failure:
        reject(f"{path}: {getattr(failure, 'strerror', None) or failure}", "a readable file", error)
    if len(data) > most_bytes:
        reject(f"{path}: larger than {most_bytes} bytes", "a smaller file", error)
    return decoded(data, str(path), error)


def decoded(data: bytes, source: str, error: type[SpecroofError]) -> str:
    """Return the text of bytes, which must be UTF-8; `source` is their place in messages."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        reject(f"{source}: byte {failure.start} is not UTF-8", "UTF-8 text", error)


@cache
def bundled(folder: str, suffix: str) -> Mapping[str, Path]:
    """Return the bundled files by stem, in alphabetical order; a folder is read once.

    Data lies inside an installed package, and beside the package in a checkout.
    """
    package = Path(__file__).parents[1]
    packed = package / "data" / folder
    data = packed if packed.is_dir() else package.parent / folder
    paths = {path.stem: path for path in data.glob(f"*{suffix}")}
    return {stem: paths[stem] for stem in sorted(paths, key=str.casefold)}


def bundled_names(folder: str) -> list[str]:
    """Return the names of bundled configs, ``ORG/NAME``."""
    return [stem.replace("--", "/", 1) for stem in bundled(folder, ".json")]


def study_path(name: str) -> Path:
    """Return the file of a study: an existing path, or a bundled study by name.

    Raises
    ------
    CatalogError
        If there is neither.
    """
    path = Path(name)
    if is_file(path):
        return path
    folder = Path(__file__).parents[1] / "questions" / "studies"
    studies = {file.stem: file for file in sorted(folder.glob("*.yaml"))}
    if name in studies:
        return studies[name]
    message = f"study {shown(name)} is neither a file nor a bundled study ({', '.join(studies)})"
    raise CatalogError(message)


def suggestion(name: str, known: list[str]) -> str:
    """Return the end of a message that names what `name` may have been meant for."""
    asked, spelled = name.casefold(), {entry.casefold(): entry for entry in known}
    owns = {one: one.rpartition("/")[2] for one in (asked, *spelled)}
    # One that goes on where another ends is mostly a later release of it, or it in another format.
    close = [one for one in spelled if owns[asked].startswith(owns[one])]
    close = sorted(close, key=lambda one: len(owns[one]))[-1:]
    close = close or difflib.get_close_matches(asked, [*spelled], n=3)
    return f"; did you mean {' or '.join(spelled[one] for one in close)}?" if close else ""
