"""One formula each for a pass, a round and requests: prediction, validation and fits call it."""

import ast
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import specroof
from benchmark_points import CHIP, DRAFTER, TRUE, points, served
from fitting.parameters import fitted_parameters
from fitting.shared_fit import Points
from source_trees import nodes, tree
from specroof import speedup_curve
from specroof.engines.calibration import Problem
from specroof.evidence import drafter_of, kind_of, load_measurements
from specroof.latency.pass_seconds import pass_time
from specroof.scoring import validation
from specroof.scoring.own_results import own_validation
from specroof.serving.prefills import end_to_end, end_to_end_tokens_per_s
from specroof.serving.workload import Workload
from specroof.speedup.curve import round_time
from tables import rows

PACKAGE = Path(specroof.__file__).parent
WHERE = served(replace(CHIP, engines={"true": TRUE}, default_engine="true"))
BENCH = points((8,), (2048,), (0, 3), prefills=True)
PUBLISHED = [
    next(
        one
        for one in load_measurements()
        if kind_of(one)[0] == kind and one.includes_prefill and one.engine == "sglang"
    )
    for kind in ("plain", "speedup")
]


def predicted() -> float:
    """Tokens per second of a grid, prefills counted."""
    curve = speedup_curve(
        WHERE.model, WHERE.setup.hardware, drafter=DRAFTER, batch_size=8, context_len=2048,
        acceptance=specroof.acceptance_from_length(2.5, 3), max_draft_len=3,
    )  # fmt: skip
    workload = Workload(input_len=1638.4, output_len=819.2)
    return float(end_to_end(curve, WHERE, workload).tokens_per_s[0, 0, 3])


def validated() -> float:
    """What is predicted beside a published measurement with drafts."""
    return validation(PUBLISHED).points[-1].predicted


def validated_own() -> float:
    """What is predicted beside a user's result with drafts."""
    return own_validation(BENCH, WHERE, DRAFTER).points[-1].rate.predicted


def fitted() -> float:
    """What a shared fit predicts, in logarithms: of a measurement with drafts."""
    return float(Points(PUBLISHED).predicted(fitted_parameters())[-1])


def calibrated() -> float:
    """What a user's calibration predicts, in logarithms."""
    return float(Problem(BENCH, WHERE, DRAFTER).predicted(TRUE)[-1])


def longer_pass(*how: Any) -> Any:
    found = pass_time(*how)
    return replace(found, overheads_s={**found.overheads_s, "another": np.asarray(1e-3)})


def longer_round(*how: Any, **more: Any) -> Any:
    return round_time(*how, **more) + 1e-3


def longer_requests(batch_size: Any, token_s: Any, **how: Any) -> Any:
    return end_to_end_tokens_per_s(batch_size, token_s, **{**how, "wait_s": how["wait_s"] + 0.1})


EVERYWHERE = {
    "pass_time": longer_pass,
    "round_time": longer_round,
    "end_to_end_tokens_per_s": longer_requests,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize(
    "asked", [predicted, validated, validated_own, fitted, calibrated], ids=lambda one: one.__name__
)
def test_a_term_that_changes_in_one_place_moves_everything(
    name: str, asked: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asked()
    patched = 0
    for file in PACKAGE.rglob("*.py"):
        module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        if imports_or_defines(file, name):
            loaded = import_module(module.removesuffix(".__init__"))
            monkeypatch.setattr(loaded, name, EVERYWHERE[name])
            patched += 1
    assert patched >= 2
    assert asked() < before


def imports_or_defines(file: Path, name: str) -> bool:
    """Tell whether a file has a function under its own name."""
    for node in tree(file).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return True
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return True
    return False


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
