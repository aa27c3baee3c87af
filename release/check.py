"""Build what a release uploads, and try it as users will: `make release-check` runs this.

The wheel and the source distribution are built twice, in two places, and must be equal byte for
byte. The wheel is then installed into empty environments, one for each Python that is found, with
the newest and the oldest supported dependencies, and must give one answer in all of them, outside
of the checkout. What cannot be tried on this machine is skipped, with the reason.

Needs the Python that runs it, with build, hatchling, twine, uv, pipx and cyclonedx-bom beside it.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[1]
#: What the wheel may hold: code, data, and the page's own files; no tests and no drawings.
SUFFIXES: Final = {".py", ".json", ".yaml", ".csv", ".js", ".css", ".html", ".typed"}
#: Bytes of the wheel: a first `uvx` waits for them.
LARGEST_WHEEL_BYTES: Final = 2_000_000
#: The question that every environment answers.
QUESTION: Final = (
    *("predict", "Qwen/Qwen3-32B", "-H", "h100", "--tp", "2", "--engine", "vllm"),
    *("--batch", "1,64", "--drafter", "eagle3,accept-length=2.8@3", "--json"),
)
#: What is found by the answers alone; no setting of this machine may help.
ENVIRONMENT: Final = {
    name: value
    for name, value in os.environ.items()
    if name not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MAKEFLAGS"}
} | {"HF_HUB_OFFLINE": "1"}
TOOLS: Final = Path(sys.executable).parent


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def run(*words: object, folder: Path = ROOT, settings: Mapping[str, str] = ENVIRONMENT) -> str:
    """Return what a command prints.

    Raises
    ------
    SystemExit
        With the command and what it printed, if it fails.
    """
    command = [str(word) for word in words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=settings
    )
    if done.returncode:
        sys.exit(f"release-check: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(is_right: object, what: str) -> None:
    """Say what holds, or stop.

    Raises
    ------
    SystemExit
        If it does not hold.
    """
    if not is_right:
        sys.exit(f"release-check: not so: {what}")
    say(f"ok       {what}")


# --- Building ------------------------------------------------------------------------------------


def source_epoch() -> str:
    """Return the seconds of the version's date in the changelog: the time of all packed files."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version = str(project()["version"])
    day = re.search(rf"^## \[{re.escape(version)}\] - (\d+)-(\d+)-(\d+)$", changelog, re.MULTILINE)
    if day is None:
        sys.exit(f"release-check: CHANGELOG.md has no dated section of version {version}")
    year, month, date = map(int, day.groups())
    return str(int(datetime(year, month, date, tzinfo=UTC).timestamp()))


def project() -> dict[str, object]:
    """Return the table `project` of pyproject.toml."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def built(source: Path, place: Path) -> dict[str, Path]:
    """Return the files of a build by name: the source distribution, and the wheel made of it."""
    settings = {**ENVIRONMENT, "SOURCE_DATE_EPOCH": source_epoch()}
    words = ("-m", "build", "--no-isolation", "--outdir", place, source)
    run(sys.executable, *words, settings=settings)
    return {path.name: path for path in sorted(place.iterdir())}


def copy_of_sources(source_distribution: Path, place: Path) -> Path:
    """Return a folder with what a source distribution holds, its files dated now."""
    shutil.unpack_archive(source_distribution, place)
    (folder,) = place.iterdir()
    for path in folder.rglob("*"):
        os.utime(path)
    (folder / "PKG-INFO").unlink()
    return folder


def check_builds(out: Path, scratch: Path) -> Path:
    """Build twice, compare, and return the wheel."""
    shutil.rmtree(out, ignore_errors=True)
    first = built(ROOT, out)
    (source_distribution,) = (path for name, path in first.items() if name.endswith(".tar.gz"))
    copy = copy_of_sources(source_distribution, scratch / "sources")
    second = built(copy, scratch / "again")
    for name, path in first.items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        again = hashlib.sha256(second[name].read_bytes()).hexdigest()
        check(digest == again, f"{name}: two builds are equal, sha256 {digest}")
    run(sys.executable, "-m", "twine", "check", "--strict", *first.values())
    check(True, "twine check --strict")
    (wheel,) = (path for name, path in first.items() if name.endswith(".whl"))
    return wheel


def check_content(wheel: Path) -> None:
    """List what the wheel holds, and refuse what does not belong there."""
    with zipfile.ZipFile(wheel) as archive:
        files = [file for file in archive.infolist() if not file.is_dir()]
    folders = Counter[str]()
    for file in files:
        folders["/".join(file.filename.split("/")[:2])] += file.compress_size
    say(f"         {wheel.name}: {wheel.stat().st_size:,} bytes, {len(files)} files")
    for folder, n_bytes in folders.most_common():
        say(f"         {n_bytes:>9,}  {folder}")
    strays = [
        file.filename
        for file in files
        if ".dist-info/" not in file.filename
        and (Path(file.filename).suffix not in SUFFIXES or "tests" in Path(file.filename).parts)
    ]
    check(not strays, f"no tests, no drawings and no other strays in the wheel {strays or ''}")
    check(wheel.stat().st_size <= LARGEST_WHEEL_BYTES, f"at most {LARGEST_WHEEL_BYTES:,} bytes")
    check(wheel.name.endswith("-py3-none-any.whl"), "one pure-Python wheel for all systems")


# --- Using ---------------------------------------------------------------------------------------


def pythons() -> dict[str, Path | None]:
    """Return the Python of each supported version; None where this machine has none."""
    classifiers = project()["classifiers"]
    assert isinstance(classifiers, list)  # of pyproject.toml
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return {version: next(_working(version, kept), None) for version in versions}


def _working(version: str, kept: Path) -> Iterator[Path]:
    """Yield the Pythons of a version that start: on the path, else where pyenv keeps them."""
    on_path = shutil.which(f"python{version}")
    places = [Path(on_path)] if on_path else []
    if os.access(kept, os.R_OK):
        places += sorted(kept.glob(f"{version}.*/bin/python"))
    for place in places:
        words = [str(place), "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        if done.stdout.strip() == version:
            yield place


def answer(*command: object, folder: Path) -> list[float]:
    """Return the speedups that a command predicts."""
    found = json.loads(run(*command, *QUESTION, folder=folder).splitlines()[-1])
    return [float(row["speedup"]) for row in found["rows"]]


def check_environments(wheel: Path, scratch: Path) -> Path:
    """Install the wheel into empty environments; return one with the newest dependencies."""
    uv = TOOLS / "uv"
    outside = scratch / "outside"
    outside.mkdir()
    expected, newest = list[float](), Path()
    for version, python in pythons().items():
        if python is None:
            say(f"skipped  Python {version}: not found on this machine")
            continue
        for resolution in ("highest", "lowest-direct"):
            place = scratch / f"{version}-{resolution}"
            run(uv, "venv", "--quiet", "--python", python, place, folder=outside)
            into = (uv, "pip", "install", "--quiet", "--python", place / "bin" / "python")
            # The oldest that has a wheel for this Python: none is compiled.
            oldest = ("--resolution", resolution, "--only-binary", ":all:")
            run(*into, *oldest, "--requirements", ROOT / "pyproject.toml", folder=outside)
            run(*into, "--no-deps", wheel, folder=outside)
            run(uv, "pip", "check", "--quiet", "--python", place / "bin" / "python", folder=outside)
            found = answer(place / "bin" / "specroof", folder=outside)
            expected = expected or found
            same = all(abs(a / b - 1.0) < 1e-9 for a, b in zip(found, expected, strict=True))
            names = run(uv, "pip", "freeze", "--python", place / "bin" / "python", folder=outside)
            numpy = re.search(r"^numpy==(\S+)", names, re.MULTILINE)
            what = f"Python {version}, {resolution} dependencies (numpy {numpy and numpy[1]})"
            check(same, f"{what}: the answer is {[round(one, 2) for one in found]}")
            newest = place if resolution == "highest" else newest
    check(expected, "at least one Python was found")
    code = "from specroof.scoring.stored import digest, stored_scores; print(stored_scores()['digest'] == digest())"
    stored = run(newest / "bin" / "python", "-c", code, folder=outside).strip()
    check(stored == "True", "stored scores are of this code; else run benchmarks/store_scores.py")
    uvx = answer(uv, "tool", "run", "--from", wheel, "specroof", folder=outside)
    check(uvx == expected, "uvx --from WHEEL specroof")
    words = (TOOLS / "pipx", "run", "--spec", wheel, "specroof")
    homes = {"PIPX_HOME": str(scratch / "pipx"), "PIPX_BIN_DIR": str(scratch / "pipx-bin")}
    os.environ |= homes
    ENVIRONMENT.update(homes)
    check(answer(*words, folder=outside) == expected, "pipx run --spec WHEEL specroof")
    return newest


def main(arguments: Sequence[str] | None = None) -> None:
    """Build into a folder, and try what was built."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the folder for the wheel, the sources and the SBOM")
    out = parser.parse_args(arguments).out.resolve()
    with TemporaryDirectory() as place:
        scratch = Path(place)
        wheel = check_builds(out / "dist", scratch)
        check_content(wheel)
        newest = check_environments(wheel, scratch)
        bill = out / "sbom.cdx.json"
        words = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "-o", bill)
        listed = (TOOLS / "cyclonedx-py", "environment", newest, "--output-reproducible", *words)
        run(*listed, folder=scratch, settings={**ENVIRONMENT, "SOURCE_DATE_EPOCH": source_epoch()})
        text = bill.read_text(encoding="utf-8")
        parts = len(json.loads(text)["components"])
        check(parts, f"{bill.name}: CycloneDX list of the {parts} newest packages it runs with")
        check("file:" not in text, f"{bill.name}: no path of this machine")
    say(f"release-check: all is well; {out / 'dist'} holds what a release would upload")


if __name__ == "__main__":
    main()
