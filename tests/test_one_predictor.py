"""One formula each for a pass, a round and requests; measured trees are drafted by theirs."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import specroof
from benchmark_points import CHIP, DRAFTER, TRUE, points, served
from source_trees import nodes
from specroof.engines.calibration import Problem
from specroof.evidence import drafter_of, load_measurements
from tables import rows

PACKAGE = Path(specroof.__file__).parent
WHERE = served(replace(CHIP, engines={"true": TRUE}, default_engine="true"))


def functions_that(reads: set[str]) -> set[str]:
    """Return the functions of the package whose code names all of some attributes."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in nodes(file):
            if isinstance(node, ast.FunctionDef):
                named = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
                if reads <= named:
                    found.add(f"{file.relative_to(PACKAGE).as_posix()}:{node.name}")
    return found


@pytest.mark.parametrize(("terms", "where"), rows("values", "formulas"))
def test_each_formula_is_written_once(terms: list[str], where: str) -> None:
    assert functions_that({*terms}) == {where}


def test_a_measured_tree_is_drafted_level_by_level() -> None:
    # 21 nodes in three levels: three children of each of three nodes a level, 3 + 9 + 9.
    tree = next(one for one in load_measurements() if one.verify_len == 22)
    assert "trees of 21 drafts" in drafter_of(tree).describe(WHERE.model)
    (proposed,) = (
        drafter_of(one).propose(specroof.constant_acceptance(0.5), np.array([3])) for one in (tree,)
    )
    assert proposed.verify_len.tolist() == [22]
    assert [(width, count.tolist()) for width, count in proposed.expansions] == [(3.0, [2.0])]
    # 6 nodes fit two a level; a stated width is taken at its word.
    six = replace(tree, verify_len=7)
    assert "top-k=2" in drafter_of(six).name
    assert "top-k=4" in drafter_of(replace(six, top_k=4)).name
    # 10 do, as 2 + 4 + 4, and 11 do not.
    assert "top-k=2" in drafter_of(replace(tree, verify_len=11)).name
    assert "top-k=3" in drafter_of(replace(tree, verify_len=12)).name
    assert drafter_of(replace(tree, verify_len=4)).name == "eagle3"
    # As many drafts as it is deep are a tree too, where each of them has several children.
    assert "top-k=3" in drafter_of(replace(tree, verify_len=4, top_k=3)).name
    assert drafter_of(replace(tree, verify_len=4, top_k=1)).name == "eagle3"


def test_siblings_add_nothing_to_what_was_measured() -> None:
    tree = specroof.load_drafter("eagle3,tree=3/1/1,siblings=.2/.1")
    (chain,) = (one for one in points((8,), (2048,), (3,)))
    (branched,) = Problem([chain], WHERE, tree).predicted(TRUE)
    (plain,) = Problem([chain], WHERE, DRAFTER).predicted(TRUE)
    # The same 2.5 tokens a round, and more positions verified for them.
    assert branched < plain
