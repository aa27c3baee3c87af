"""Print the test files that concern what was edited, one a line: what `make check` runs.

    python benchmarks/changed_tests.py [--since COMMIT]

Edited is what differs from COMMIT (HEAD), files that git does not know yet included. An edit in
specroof/ROOM/ concerns the tests of that room (`room_of` in figures.py) and the doctests of the
file; one of a question, the tests in which the question's name stands; a test file itself; a file
that tests share, those that import it; a page, the tests of pages. This is a guess that costs
seconds: an edit can break a test of any other room, which `make test` runs.
"""

import argparse
import re
import subprocess
from pathlib import Path

from figures import HERE, room_of


def edited(since: str) -> set[str]:
    """Return the files that differ from a commit, those that are gone left out."""
    calls = (
        ["git", "diff", "--name-only", "--no-renames", "--diff-filter=d", since],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    runs = [
        subprocess.run(call, cwd=HERE, capture_output=True, text=True, check=True) for call in calls
    ]
    return {name for run in runs for name in run.stdout.splitlines()}


def concerned(files: set[str], tests: dict[str, str]) -> set[str]:
    """Return what of the tests, texts by name, concerns edited files; and files with doctests."""
    found: set[str] = set()
    for name in files:
        path = Path(name)
        folder, *inner = path.parts
        if name in tests:
            found.add(name)
        elif folder == "tests" and path.suffix == ".py":
            imports = re.compile(rf"^(?:from|import) {path.stem}\b", re.MULTILINE)
            found |= {test for test, text in tests.items() if imports.search(text)}
        elif folder in {"docs", "README.md"}:
            found |= {"tests/test_docs.py", "tests/test_readme.py"} & {*tests}
        elif name.startswith("benchmarks/fitting/"):
            found |= {test for test in tests if room_of(HERE / test) == "engines"}
        elif folder in {"hardware", "model_configs"}:
            room = "hardware" if folder == "hardware" else "parsers"
            found |= {test for test in tests if room_of(HERE / test) == room}
        elif folder == "specroof" and path.suffix == ".py":
            found.add(name)
            called = re.compile(rf"\b{path.stem}\b")
            found |= {
                test
                for test, text in tests.items()
                if (room_of(HERE / test) == inner[0] if inner[0] != "questions" else
                    room_of(HERE / test) == "questions" and called.search(text))
                or Path(test).stem == f"test_{path.stem}"
            }  # fmt: skip
    return found


def main() -> None:
    """Print the test files that concern what was edited."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--since", default="HEAD")
    words = parser.parse_args()
    tests = {
        str(path.relative_to(HERE)): path.read_text()
        for folder in ("tests", "benchmarks/fitting")
        for path in (HERE / folder).rglob("test_*.py")
    }
    print("\n".join(sorted(concerned(edited(words.since), tests))))


if __name__ == "__main__":
    main()
