"""Files that are written: whole, or not at all."""

from collections.abc import Mapping
from pathlib import Path

from specroof.errors import OutputError

__all__ = ["joined_files", "write_files"]


def joined_files(*groups: Mapping[Path, bytes]) -> dict[Path, bytes]:
    """Return the files of all groups.

    Raises
    ------
    OutputError
        If two outputs go to one place: one would replace the other without a word.
    """
    files: dict[Path, bytes] = {}
    for path, data in (entry for group in groups for entry in group.items()):
        if path in files:
            message = f"{path}: two outputs go there; allowed: a file for each"
            raise OutputError(message)
        files[path] = data
    return files


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
