"""What lies in a folder."""

from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder by name, hidden ones included."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
