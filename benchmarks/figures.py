"""Count the package and its tests, room by room: code lines, lines of tests, tests, their ratio.

    python benchmarks/figures.py [CHECKOUT] [--collect]

Lines of code hold code: no comments, docstrings or blank lines. Lines of tests are all lines of
Python below tests/, blank ones too, and what several files share counts for `whole`; the last row
has the lines of all other files there, too. Which room a test file belongs to says its folder, else
tests/rooms.yaml. `--collect` counts tests as pytest collects them, a drawn or parametrised one once
for each set of values, and takes a minute.
"""

import argparse
import ast
import functools
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import yaml

from house import code_lines

HERE: Final = Path(__file__).resolve().parents[1]
LOWER: Final = (
    "reading", "architecture", "parsers", "cost", "hardware", "latency", "acceptance", "drafters",
    "speedup", "serving",
)  # fmt: skip


@functools.cache
def _listed(tests: Path) -> dict[str, str]:
    """Return the room of each test file that lies in no folder."""
    rooms: dict[str, list[str]] = yaml.safe_load((tests / "rooms.yaml").read_text())
    return {name: room for room, names in rooms.items() for name in names}


def room_of(path: Path) -> str:
    """Return the room that a file of tests belongs to, `whole` for what several rooms share."""
    tests = next((folder for folder in path.parents if folder.name == "tests"), None)
    if tests is None:
        return "engines" if path.parent.name == "fitting" else "whole"
    if path.parent != tests:
        return path.relative_to(tests).parts[0]
    return _listed(tests).get(path.stem.removeprefix("test_"), "whole")


def collected(checkout: Path) -> Counter[str]:
    """Return how many tests each room has."""
    words = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "./tests"]
    run = subprocess.run(
        [sys.executable, *words],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=True,
    )
    files = re.findall(r"^(tests/\S+?\.py)::", run.stdout, re.MULTILINE)
    return Counter(room_of(checkout / file) for file in files)


def main() -> None:
    """Print a line for each room, for the lower rooms and for all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", default=HERE)
    parser.add_argument("--collect", action="store_true")
    words = parser.parse_args()
    checkout = words.checkout.resolve()
    code: Counter[str] = Counter()
    for file in (checkout / "specroof").rglob("*.py"):
        text = file.read_text()
        code[file.relative_to(checkout / "specroof").parts[0]] += code_lines(text, ast.parse(text))
    lines: Counter[str] = Counter()
    for file in (checkout / "tests").rglob("*.py"):
        lines[room_of(file)] += len(file.read_text().splitlines())
    tests = collected(checkout) if words.collect else Counter[str]()
    print(f"{'room':<14}{'code':>8}{'tests':>8}{'ratio':>8}{'collected':>11}")
    groups = {name: [name] for name in [*LOWER, *sorted({*code, *lines} - {*LOWER})]}
    for name, rooms in {**groups, "lower rooms": [*LOWER], "all": [*groups]}.items():
        n, of = (sum(counts[room] for room in rooms) for counts in (lines, code))
        ratio = f"{n / of:.2f}" if of else "-"
        print(f"{name:<14}{of:>8}{n:>8}{ratio:>8}{sum(tests[room] for room in rooms) or '-':>11}")
    others = (file for file in (checkout / "tests").rglob("*.*") if file.is_file())
    data = (file for file in others if file.suffix not in {".py", ".pyc"})
    n += sum(len(file.read_bytes().splitlines()) for file in data)
    print(f"{'with data':<14}{of:>8}{n:>8}{n / of:>8.2f}")


if __name__ == "__main__":
    main()
