"""The table of families: complete, and paid for only by who uses a family."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from specroof import parsers
from specroof.parsers import PARSERS

FAMILIES = {
    file.stem
    for file in (Path(parsers.__file__).parent / "families").glob("*.py")
    if file.stem != "__init__"
}


def test_every_row_leads_to_a_function_and_every_family_has_a_row() -> None:
    files = set()
    for row in PARSERS.values():
        file, function = row.split(":")
        assert function.startswith("parse_")
        assert callable(getattr(import_module(f"specroof.parsers.families.{file}"), function))
        files.add(file)
    assert files == FAMILIES


@pytest.mark.parametrize(
    ("program", "loaded"),
    [
        ("import specroof.cli", set()),
        ("import specroof; specroof.load_model('Qwen/Qwen3-8B')", {"llama"}),
    ],
)
def test_only_the_family_of_a_model_is_imported(program: str, loaded: set[str]) -> None:
    names = [f"specroof.parsers.families.{family}" for family in sorted(FAMILIES)]
    command = f"{program}; import sys; print(*(m for m in {names!r} if m in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert {name.split(".")[-1] for name in run.stdout.split()} == loaded
