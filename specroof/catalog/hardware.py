"""Hardware profiles: the user's own files, then the bundled ones."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from specroof.catalog.files import bundled, is_file, is_folder, name_text, read_text, suggestion
from specroof.errors import CatalogError, ProfileError, reject
from specroof.hardware import (
    Generic,
    HardwareProfile,
    LeftOutFits,
    parse_generic,
    parse_hardware,
    parse_left_out_fits,
)
from specroof.reading.yaml_text import shown

HARDWARE_PATH_VARIABLE: Final = "SPECROOF_HARDWARE_PATH"

#: The generic engine, for chips without measurements; `benchmarks/fit_engines.py` writes it.
_GENERIC: Final = "generic.json"

#: Profiles that were fitted without a source of measurements; written by the same script.
_LEFT_OUT: Final = "left_out.json"


def hardware_names() -> list[str]:
    """Return the names of all hardware files: the bundled ones, then the user's own."""
    return list(_hardware_files())


def load_hardware(name: str | os.PathLike[str], *, check: bool = False) -> HardwareProfile:
    """Return a hardware profile from a path, the user's folder or the bundled files.

    Parameters
    ----------
    name
        A YAML file; else a file name without suffix, or an alias, in the folder that
        ``SPECROOF_HARDWARE_PATH`` names or among the bundled profiles; capitals do not matter.

    check
        Hold bundled files, too, against everything that a file from outside must pass; the tests
        do, and a prediction starts faster without.

    Raises
    ------
    CatalogError
        If there is no such file, name or alias.
    ProfileError
        If the file is not a valid profile.

    Examples
    --------
    >>> load_hardware("H200").peak.memory_bytes_per_s
    4800000000000.0
    """
    text = name_text("name", name)
    path = Path(text)
    if is_file(path):
        return _parse_hardware(path, trusted=False)
    found = _found(text, check=check)
    if found is None:
        message = f"hardware {shown(text)} is neither a file nor a bundled name or alias"
        msg = f"{message}{suggestion(text, hardware_names())}; see: specroof hardware"
        raise CatalogError(msg)
    return found[1]


def _found(name: str, *, check: bool = False) -> tuple[Path, HardwareProfile] | None:
    """Return the file that a name or an alias finds, and what it describes."""
    wanted, files = name.casefold(), _hardware_files()
    for stem, (known, is_bundled) in files.items():
        if stem.casefold() == wanted:
            return known, _parse_hardware(known, trusted=is_bundled and not check)
    for known, is_bundled in files.values():
        # Parsing is slow and aliases stand in plain text: parse only files that hold the word.
        if wanted in _folded(known, known.stat().st_mtime_ns):
            profile = _parse_hardware(known, trusted=is_bundled and not check)
            if wanted in (alias.casefold() for alias in profile.aliases):
                return known, profile
    return None


def taken_aliases(file: str | os.PathLike[str]) -> dict[str, str]:
    """Return the aliases of a hardware file that find another one, and the name of that one.

    Parameters
    ----------
    file
        A YAML file.

    Examples
    --------
    >>> taken_aliases(_hardware_files()["b200"][0])
    {}
    """
    own = Path(name_text("file", file))
    found = {alias: _found(alias) for alias in load_hardware(own).aliases}
    others = {alias: one[0] for alias, one in found.items() if one is not None}
    return {alias: path.stem for alias, path in others.items() if not path.samefile(own)}


@lru_cache(maxsize=256)
def _folded(path: Path, _changed_ns: int) -> str:
    """Return the text of a file without capitals, which is read again when it has changed."""
    return read_text(path, ProfileError).casefold()


def _hardware_files() -> dict[str, tuple[Path, bool]]:
    """Return the hardware files by stem, each with whether it is a bundled one."""
    files = {stem: (path, True) for stem, path in bundled("hardware", ".yaml").items()}
    own = os.environ.get(HARDWARE_PATH_VARIABLE)
    if own:  # an empty one is none, not the folder that the shell stands in
        files |= {path.stem: (path, False) for path in _yaml_files(Path(own))}
    return files


def _yaml_files(folder: Path) -> Iterator[Path]:
    if not is_folder(folder):
        reject(f"{HARDWARE_PATH_VARIABLE} is {shown(str(folder))}", "a folder", CatalogError)
    yield from (path for path in sorted(folder.glob("*.yaml")) if is_file(path))


def _parse_hardware(path: Path, *, trusted: bool) -> HardwareProfile:
    """Return what a file describes, with the engines that stand in where it has none."""
    profile = _parsed(path, trusted=trusted)
    link = profile.interconnect
    stand_ins = _generic().on_chip(
        profile.name,
        memory_bytes_per_s=profile.peak.memory_bytes_per_s,
        link_bytes_per_s=None if link is None else link.link_bytes_per_s,
    )
    return replace(profile, generic=stand_ins)


@cache
def _generic() -> Generic:
    text = Path(__file__).with_name(_GENERIC).read_text(encoding="utf-8")
    return parse_generic(json.loads(text))


def _parsed(path: Path, *, trusted: bool) -> HardwareProfile:
    text = read_text(path, ProfileError)
    if trusted:
        try:
            return parse_hardware(text, source=str(path), trusted=True)
        except (KeyError, TypeError, ValueError, AttributeError):
            pass  # a bundled file is being edited: the checks say what is wrong with it
    return parse_hardware(text, source=str(path))


@cache
def left_out_fits() -> LeftOutFits:
    """Return the engine profiles that were fitted without a source, which `validate` needs.

    Examples
    --------
    >>> left_out_fits().family_of("NVIDIA H200 SXM 141GB")
    'hopper'
    """
    text = Path(__file__).with_name(_LEFT_OUT).read_text(encoding="utf-8")
    return parse_left_out_fits(json.loads(text))
