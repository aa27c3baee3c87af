"""Each formula of a pass and a round is written once."""

import ast
from pathlib import Path

import pytest

import specroof
from source_trees import nodes
from tables import rows

PACKAGE = Path(specroof.__file__).parent


def functions_that(reads: set[str]) -> set[str]:
    """Return the functions of the package whose code names all of some attributes."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in nodes(file) if all(name in text for name in reads) else ():
            if isinstance(node, ast.FunctionDef):
                named = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
                if reads <= named:
                    found.add(f"{file.relative_to(PACKAGE).as_posix()}:{node.name}")
    return found


@pytest.mark.parametrize(("terms", "where"), rows("values", "formulas"))
def test_each_formula_is_written_once(terms: list[str], where: str) -> None:
    assert functions_that({*terms}) == {where}
