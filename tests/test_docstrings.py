"""The docstrings: a formula says where it comes from and shows a number to check on paper."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import specroof
from specroof.questions import QUESTIONS

# The rooms that hold published formulas.
FORMULA_ROOMS = ("acceptance", "architecture", "cost", "latency")

# Public functions of those rooms that add up or hand on the formulas of others, so that there is
# no source to name. Each still has an example.
WITHOUT_SOURCE: frozenset[str] = frozenset({"specroof.acceptance.curve.acceptance_notes"})

# Public functions of those rooms that are no formulas: they look up, refuse, or say something.
NO_FORMULAS: frozenset[str] = frozenset(
    f"specroof.{module}.{name}"
    for module, names in {
        "acceptance.curve": (
            "draft_lengths number_from numbers_from length_of some "
            # what the constructors of curves tabulate; each constructor names its source
            "constant_law listed_law decay_law beta_law survival_of_rates rates_of_survival"
        ),
        "acceptance.published.profile": "bundled_profile load_profiles profile_names",
        "architecture.base": "by_kv_heads cache_only",
    }.items()
    for name in names.split()
)
# Modules that put blocks, layers and drafters together, and compute nothing.
NO_FORMULAS_IN = ("specroof.architecture.draft_heads", "specroof.architecture.model")

# What may head a section: numpydoc's headings, and the house's own.
HEADINGS = {
    *("Attributes", "Counts", "Examples", "Ignores", "Notes", "Parameters", "Raises"),
    *("References", "Returns", "See Also", "Source", "Warnings", "Yields"),
}

Function = Callable[..., Any]


def public_functions(*rooms: str) -> Iterator[tuple[str, Function]]:
    """Yield every public function with the module that defines it, of some rooms or of all."""
    for found in pkgutil.walk_packages(specroof.__path__, prefix="specroof."):
        path = found.name.split(".")
        if path[-1] == "__main__" or (rooms and path[1] not in rooms):
            continue
        module = importlib.import_module(found.name)
        names = [name for name in vars(module) if name[0] != "_"]
        if path[1] != "questions":  # whose lists only hand on names of other rooms
            names = getattr(module, "__all__", names)
        for name in names:
            value = getattr(module, name, None)
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                yield f"{module.__name__}.{name}", value


def section(doc: str, heading: str) -> str:
    """Return the text under a heading of a docstring, "" where it is missing or empty.

    >>> section(
    ...     "Say it.\\n\\nSource\\n    A paper, eq. 3.\\n\\nExamples\\n--------\\n>>> 1\\n1\\n",
    ...     "Source",
    ... )
    '    A paper, eq. 3.'
    """
    current, found = "", []
    for line in doc.splitlines():
        if line in HEADINGS:
            current = line
        elif current == heading and not re.fullmatch("-+", line):
            found.append(line)
    return "\n".join(found).strip("\n")


def documented_parameters(doc: str) -> list[str]:
    """Return the names in a numpydoc `Parameters` section, [] where there is none.

    >>> documented_parameters("Add.\\n\\nParameters\\n----------\\nx, y : float\\n    Terms.\\n")
    ['x', 'y']
    """
    lines = section(doc, "Parameters").splitlines()
    names = [line.split(":")[0] for line in lines if line and not line[0].isspace()]
    return [name.strip().lstrip("*") for line in names for name in line.split(",")]


ASKED = {*QUESTIONS, "speedup_curve", "forward_cost", "forward_latency"}
FORMULAS = [
    (name, function)
    for name, function in public_functions(*FORMULA_ROOMS)
    if name not in NO_FORMULAS and not name.startswith(NO_FORMULAS_IN)
]
FUNCTIONS = list(public_functions())


def test_formulas_are_found() -> None:
    found = {name.split(".")[1] for name, _ in FORMULAS}
    assert found == set(FORMULA_ROOMS)  # else the tests below would pass by testing nothing


@pytest.mark.parametrize(("name", "function"), FORMULAS, ids=[name for name, _ in FORMULAS])
def test_a_formula_shows_an_example_and_names_its_source(name: str, function: Function) -> None:
    doc = inspect.getdoc(function) or ""
    assert ">>>" in section(doc, "Examples"), f"{name} has no Examples section with a doctest"
    assert section(doc, "Source") or name in WITHOUT_SOURCE, f"{name} has no Source section"


def test_every_public_function_has_a_docstring() -> None:
    assert [name for name, function in FUNCTIONS if not inspect.getdoc(function)] == []


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_documented_parameters_are_the_real_ones(name: str, function: Function) -> None:
    documented = documented_parameters(inspect.getdoc(function) or "")
    # Most formulas say what their arguments are by their names; what users ask says all.
    if documented or function.__name__ in ASKED:
        assert documented == list(inspect.signature(function).parameters), name


def test_no_exception_outlives_its_function() -> None:
    assert {name for name, _ in FORMULAS} >= WITHOUT_SOURCE
    assert {name for name, _ in FUNCTIONS} >= NO_FORMULAS
