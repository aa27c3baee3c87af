"""The table of families: complete, and paid for only by who uses a family."""

import subprocess
import sys
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
    functions = {model_type: PARSERS[model_type] for model_type in PARSERS}
    assert len(functions) == len(PARSERS)
    assert {parse.__module__.split(".")[-1] for parse in functions.values()} == FAMILIES
    assert all(parse.__name__.startswith("parse_") for parse in functions.values())


def test_a_type_without_a_row_is_a_key_error() -> None:
    assert "llama" in PARSERS
    assert "brand_new" not in PARSERS
    with pytest.raises(KeyError):
        PARSERS["brand_new"]


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
