"""Studies, by path or bundled name."""

from pathlib import Path

from specroof.catalog.files import is_file
from specroof.errors import CatalogError
from specroof.reading.yaml_text import shown

__all__ = ["study_path"]


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
    bundled = {
        file.stem: file
        for file in (Path(__file__).parents[1] / "questions" / "studies").glob("*.yaml")
    }
    if name in bundled:
        return bundled[name]
    message = f"study {shown(name)} is neither a file nor a bundled study ({', '.join(bundled)})"
    raise CatalogError(message)
