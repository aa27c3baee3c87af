"""The rooms: what each may import, and what lies in one room only."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml

import specroof
from source_trees import nodes, tree
from tables import rows, table

PACKAGE = Path(specroof.__file__).parent
TESTS = Path(__file__).parent
DOOR = "__init__"

TABLES = table("imports")
#: The import table, and what every room may import.
ROOMS: dict[str, set[str]] = {room: {*others} for room, others in TABLES["rooms"].items()}
EVERYWHERE = {"units", "errors", "arrays", "quantities"}
ROOMS[DOOR] = {*ROOMS} - {"cli", "__main__"}

FILES = sorted(PACKAGE.rglob("*.py"))
KNOWN_FILES = frozenset(FILES)


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_modules(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield the dotted name and line of every import among the nodes."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            dots = "." * node.level
            yield from (
                (f"{dots}{node.module or ''}.{alias.name}", node.lineno) for alias in node.names
            )


def imported_room(module: str) -> str | None:
    """Return the room that a dotted name leads to, if it leads into the package."""
    top, *rest = module.split(".")
    if top != "specroof":
        return None
    return rest[0] if rest and rest[0] in ROOMS else DOOR


def late_imports(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the room and the line of every import of the package inside of a function."""
    for function in nodes(file):
        if isinstance(function, ast.FunctionDef):
            for module, line in imported_modules(ast.walk(function)):
                if (room := imported_room(module)) is not None:
                    # The door names rooms that are no modules of the table, such as plot.
                    yield room if room != DOOR else module.rpartition(".")[2], line


def imports_of(file: Path) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, where it stands) for every import of a file but those of `LATE`."""
    late = {line for _, line in late_imports(file)}
    for module, line in imported_modules(nodes(file)):
        if line in late:
            continue
        yield module, f"{file.relative_to(PACKAGE.parent)}:{line} imports {module}"


def test_the_table_has_every_room_and_points_one_way() -> None:
    assert {room_of(file) for file in FILES} <= set(ROOMS)
    order = list(TopologicalSorter(ROOMS).static_order())  # raises CycleError on a circle
    assert order.index("cost") < order.index("latency") < order.index("speedup")


def test_rooms_import_only_what_the_table_allows() -> None:
    trespasses = {
        (room_of(file), room)
        for file in FILES
        for module, _ in imports_of(file)
        if (room := imported_room(module)) not in {None, room_of(file)}
        and room not in ROOMS.get(room_of(file), set()) | EVERYWHERE
    }
    assert trespasses == set()


def test_late_imports_only_grow_fewer() -> None:
    late = {
        str(file.relative_to(PACKAGE)): rooms
        for file in FILES
        if (rooms := {room for room, _ in late_imports(file)})
    }
    assert late == {file: {*rooms} for file, rooms in TABLES["late"].items()}


def file_of(module: str) -> Path | None:
    """Return the file that a dotted name of the package leads to, a name inside of it included."""
    parts = module.split(".")
    while parts[0] == "specroof":
        stem = PACKAGE.parent.joinpath(*parts)
        for file in (stem.with_suffix(".py"), stem / "__init__.py"):
            if file in KNOWN_FILES:
                return file
        parts = parts[:-1]
        if not parts:
            break
    return None


def test_no_two_files_need_one_another_to_be_imported() -> None:
    needed = {
        file: {
            found
            for node in tree(file).body
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If)
            for module, _ in imported_modules(ast.walk(node))
            if (found := file_of(module)) not in {None, file}
        }
        for file in FILES
    }
    TopologicalSorter(needed).prepare()  # raises CycleError on a circle


def test_libraries_stay_in_the_rooms_that_keep_them() -> None:
    strays = [
        where
        for file in FILES
        for module, where in imports_of(file)
        if room_of(file) not in TABLES["libraries"].get(module.split(".")[0], [room_of(file)])
    ]
    assert strays == []


def python(program: str, *words: str) -> tuple[str, str]:
    """Return what a program prints to standard output and to standard error; it must end well."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", program, *words]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout, run.stderr.strip()


def specroof_beside(unwanted: set[str], *words: str) -> tuple[str, str]:
    """Return what a command prints, and which of the unwanted modules it has imported."""
    imported = f"print(*sorted({unwanted!r} & set(sys.modules)), file=sys.stderr)"
    program = (
        f"import atexit, sys; from specroof.cli import main; atexit.register(lambda: {imported})"
    )
    return python(f"{program}; main()", *words)


@pytest.mark.parametrize(("module", "unwanted"), rows("values", "light_imports"))
def test_importing_stays_light(module: str, unwanted: list[str]) -> None:
    program = f"import sys, {module}; print(*sorted({{*{unwanted!r}}} & set(sys.modules)))"
    assert python(program) == ("\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("words", rows("values", "light_predictions"))
def test_a_prediction_from_bundled_files_stays_light(words: str) -> None:
    unwanted = {
        *("matplotlib", "huggingface_hub", "pydantic", "pydantic_core", "numpy.ma", "logging"),
        # Requests, servers' flags and measured profiles are for those who ask about them.
        *("specroof.serving.prefills", "specroof.serving.launch"),
        *("specroof.acceptance.published", "specroof.acceptance.law_fits", "specroof.montecarlo"),
    }
    printed, imported = specroof_beside(unwanted, *words.split())
    assert ("Qwen3-8B" in printed, imported) == (True, "")


def test_help_imports_no_command() -> None:
    printed, imported = specroof_beside({"numpy"}, "--help")
    assert ("doctor" in printed, imported) == (True, "")


def scale_factor(node: ast.AST) -> bool:
    """Tell whether an expression multiplies or divides by 1000, 1e9 … or spells 2**30 or 10**9.

    >>> [
    ...     scale_factor(ast.parse(one, mode="eval").body)
    ...     for one in ("x / 1000", "1e9 * x", "2**30", "x * 2", "1_000")
    ... ]
    [True, True, True, False, False]
    """
    if not isinstance(node, ast.BinOp):
        return False
    sides = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
    if isinstance(node.op, ast.Pow):
        return sides in ([2, 30], [2, 40], [10, 3], [10, 6], [10, 9], [10, 12])
    factors = {1e3, 1e6, 1e9, 1e12, 1e15, 1e-3, 1e-6, 1e-9, 1e-12, 2**30, 2**40}
    scaling = isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv)
    return scaling and any(isinstance(side, int | float) and side in factors for side in sides)


def test_every_file_of_tests_has_a_room() -> None:
    listed = yaml.safe_load((TESTS / "rooms.yaml").read_text())
    names = [name for room in listed.values() for name in room]
    assert sorted(names) == sorted(file.stem[5:] for file in TESTS.glob("test_*.py"))
    folders = {file.relative_to(TESTS).parts[0] for file in TESTS.glob("*/**/test_*.py")}
    assert {*listed, *folders} <= {*ROOMS, "whole"}


def test_scale_factors_live_in_units_only() -> None:
    found = [
        f"{file.relative_to(PACKAGE.parent)}:{node.lineno}"
        for file in FILES
        if room_of(file) != "units"
        for node in nodes(file)
        if isinstance(node, ast.BinOp) and scale_factor(node)
    ]
    assert found == []
