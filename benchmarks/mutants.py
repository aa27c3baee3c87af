"""Break the package in small ways, one at a time, and list what no test notices.

    make mutants [MUTANTS=200] [SEED=36]

or, with a map of which test reaches which line that is there already:

    python benchmarks/mutants.py --coverage .build/mutants/coverage [--mutants 200] [--seed 36]

A mutant is one function with one operator, comparison, bound, number or branch of its body changed.
Messages, annotations, defaults and docstrings are not touched, nor is what a module computes when
it is imported. Tests are collected once; each mutant is a copy of that process (so this runs on
Unix) in which the function has the other code. First the tests of the mutant's room run that reach
its line, with the doctests of its file; if none fails, all other tests that reach it, the quickest
first, each stage for at most LIMIT_S seconds of processor; where few tests reach it, the others of
the room too, which may have found its result in a cache. Tests that start a process of their own
see the package unbroken there. `equivalent_mutants.csv` beside this lists those that change nothing
that a test could see, each with its reason; they are not counted. With `--unbroken` nothing is
changed, and every one has to survive: a test that fails then fails because it is run this way, and
says nothing of mutants.
"""

import argparse
import ast
import copy
import csv
import functools
import gc
import importlib
import json
import linecache
import os
import random
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

from figures import room_of

HERE: Final = Path(__file__).resolve().parents[1]
ROOMS: Final = (
    "latency", "serving", "speedup", "drafters", "acceptance", "cost", "policies", "outcomes",
)  # fmt: skip
EQUIVALENT: Final = Path(__file__).with_name("equivalent_mutants.csv")

#: Seconds of processor that the wider tests of one mutant may take.
LIMIT_S: Final = 240.0
#: Where fewer tests reach a line, others may have found its result in a cache.
FEW: Final = 20

OPERATORS: Final[dict[type[ast.AST], tuple[type[ast.AST], ...]]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
FUNCTIONS: Final = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all",
    "all": "any", "ceil": "floor", "floor": "ceil",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One function with one place changed."""

    file: str
    line: int
    function: str
    first_line: int
    before: str
    after: str
    #: Which node of the file's tree, and which of its changes.
    place: tuple[int, int]

    @property
    def room(self) -> str:
        """Return the room that it breaks."""
        return self.file.split("/")[1]

    @property
    def key(self) -> tuple[str, ...]:
        """Return what `equivalent_mutants.csv` knows it by, wherever its line stands."""
        line = linecache.getline(str(HERE / self.file), self.line).strip()
        return self.file, self.function, line, self.before, self.after

    @property
    def text(self) -> str:
        """Return it as a reader sees it."""
        return f"{self.file}:{self.line} in {self.function}: {self.before}  →  {self.after}"


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        for other in OPERATORS.get(type(node.op), ()):
            changed: Any = copy.deepcopy(node)
            changed.op = other()
            yield changed
    elif isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            for other in OPERATORS.get(type(op), ()):
                changed = copy.deepcopy(node)
                changed.ops[index] = other()
                yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.IfExp | ast.If | ast.While):
        changed = copy.deepcopy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield changed
    else:
        yield from changed_leaves(node)


def changed_leaves(node: ast.AST) -> Iterator[ast.AST]:
    """Yield other numbers in the place of a number, and the opposite of a bounding function."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int):
            yield ast.Constant(node.value + 1)
        elif isinstance(node.value, float):
            yield ast.Constant(node.value * 1.25 or 1.0)
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in FUNCTIONS:
            changed: Any = copy.deepcopy(node)
            changed.func = ast.parse(
                re.sub(rf"\b{name}$", FUNCTIONS[name], ast.unparse(node.func)), mode="eval"
            ).body
            yield changed


def touched(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one that may change: no messages, annotations or defaults."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "args"} and isinstance(
            node, ast.AnnAssign | ast.arg | ast.FunctionDef
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            if isinstance(child, ast.AST):
                yield child
                yield from touched(child)


def outer_functions(tree: ast.AST) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions of a file that stand in no other function, by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for name, function in outer_functions(node):
                yield f"{node.name}.{name}", function


def shown(node: ast.AST) -> str:
    """Return the code of a node, of a statement its first line."""
    return ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]


def mutants_of(path: Path) -> list[list[Mutant]]:
    """Return for each place of a file what it may be changed to."""
    tree = ast.parse(path.read_text())
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    places = []
    for name, function in outer_functions(tree):
        if name.split(".")[-1] in {"__repr__", "__str__"}:
            continue
        first = min([function.lineno, *(word.lineno for word in function.decorator_list)])
        for node in touched(function):
            found = [
                Mutant(
                    str(path.relative_to(HERE)), getattr(node, "lineno", 0), name, first,
                    shown(node), shown(changed), (numbers[id(node)], number),
                )
                for number, changed in enumerate(changes(node))
            ]  # fmt: skip
            if found:
                places.append(found)
    return places


def drawn(count: int, seed: int, rooms: tuple[str, ...]) -> list[Mutant]:
    """Return mutants of drawn places, each place at most once."""
    places = [
        place
        for room in rooms
        for path in sorted((HERE / "specroof" / room).rglob("*.py"))
        for place in mutants_of(path)
    ]
    dice = random.Random(seed)  # noqa: S311 - no secret
    return [dice.choice(place) for place in dice.sample(places, min(count, len(places)))]


@functools.cache
def code_objects(mutant: Mutant) -> dict[tuple[str, int], CodeType]:
    """Return the changed code of the mutant's function and of those in it, by name and line."""
    path = HERE / mutant.file
    tree = ast.parse(path.read_text())
    number, which = mutant.place
    node = next(node for at, node in enumerate(ast.walk(tree)) if at == number)
    changed = ast.copy_location([*changes(node)][which], node)

    class Exchange(ast.NodeTransformer):
        def visit(self, at: ast.AST) -> Any:
            return changed if at is node else self.generic_visit(at)

    def inside(code: CodeType) -> Iterator[CodeType]:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from inside(constant)

    module = compile(
        ast.fix_missing_locations(Exchange().visit(tree)), str(path), "exec", dont_inherit=True
    )
    (outer,) = (
        code
        for code in inside(module)
        if code.co_qualname == mutant.function and code.co_firstlineno == mutant.first_line
    )
    found = [((code.co_qualname, code.co_firstlineno), code) for code in inside(outer)]
    counts = Counter(key for key, _ in found)  # of two on a line nobody knows which is which
    return {key: code for key, code in found if counts[key] == 1}


def break_package(mutant: Mutant) -> None:
    """Give the mutant's function the other code, and forget what was computed before.

    So do functions that it has made already.
    """
    codes = code_objects(mutant)
    broken = 0
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            old = thing.__code__
            code = codes.get((old.co_qualname, old.co_firstlineno))
            if code is not None and old.co_filename.endswith(mutant.file):
                thing.__code__ = code
                broken += 1
        elif isinstance(thing, functools._lru_cache_wrapper):  # noqa: SLF001 - the only name
            thing.cache_clear()
    if not broken:
        message = f"no such function is there: {mutant.text}"
        raise LookupError(message)


KILLED, SURVIVED, UNFINISHED, BROKEN = range(4)


def run_child(mutant: Mutant | None, items: list[pytest.Item], seconds: dict[Any, float]) -> int:
    """Run tests in this process, which is a copy, until one fails."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    if mutant is not None:
        break_package(mutant)
    begun = time.process_time()
    for item, following in zip_longest(items, items[1:]):
        if time.process_time() - begun > LIMIT_S:
            return UNFINISHED
        # A loop without an end: ten times what the test took, and some seconds.
        signal.setitimer(signal.ITIMER_PROF, 20 + 10 * seconds.get(named(item), 1.0))
        if any(report.failed for report in runtestprotocol(item, False, following)):
            print("  noticed by", item.nodeid, flush=True)
            return KILLED
    return SURVIVED


def named(item: pytest.Item) -> tuple[str, str]:
    """Return a test as the map names it: file without ending, function."""
    return item.path.stem, getattr(item, "originalname", item.name)


class Reached:
    """Which tests reach which line, and how long each takes."""

    def __init__(self, coverage_file: Path, log: Path) -> None:
        from coverage import CoverageData  # noqa: PLC0415 - the tests are to be collected first

        self.data = CoverageData(str(coverage_file))
        self.data.read()
        # Not those of a wheel that is installed beside this checkout.
        own = f"{Path(__file__).parents[1]}/"
        files = [file for file in self.data.measured_files() if file.startswith(f"{own}specroof/")]
        self.files = {file.removeprefix(own): file for file in files}
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        row = re.compile(r"^ *([\d.]+)s (?:call|setup) +\S*?([\w-]+)\.py::(\w+)", re.MULTILINE)
        for spent, file, name in row.findall(log.read_text()):
            self.seconds[file, name] = max(self.seconds[file, name], float(spent))

    @functools.cache  # noqa: B019 - one for the life of the process
    def lines(self, file: str) -> dict[int, list[str]]:
        """Return the tests of each line of a file."""
        return self.data.contexts_by_lineno(self.files[file]) if file in self.files else {}

    def tests(self, mutant: Mutant) -> set[tuple[str, str]]:
        """Return the tests that reach a mutant's line, or the one that its statement begins on."""
        lines = self.lines(mutant.file)
        for line in range(mutant.line, mutant.first_line, -1):
            named = (context.split(".") for context in lines.get(line, []))
            found = {(parts[-2], parts[-1]) for parts in named if len(parts) > 1}
            if found:
                return found
        return set()


class Mutation:
    """The loop of a pytest session that runs mutants in place of tests."""

    def __init__(self, words: argparse.Namespace) -> None:
        self.words = words
        self.results: dict[str, list[Mutant]] = defaultdict(list)
        self.tests_run: Counter[str] = Counter()

    def stages(self, mutant: Mutant, items: list[pytest.Item], reached: Reached) -> Any:
        """Return the tests of the mutant's room that reach it, and the others."""
        names = reached.tests(mutant)
        room: list[pytest.Item] = []
        wider: list[pytest.Item] = []
        for item in items:
            if isinstance(item, pytest.DoctestItem):
                if str(item.path).endswith(mutant.file):
                    room.append(item)
            elif named(item) in names:
                (room if room_of(item.path) == mutant.room else wider).append(item)
            elif len(names) < FEW and room_of(item.path) == mutant.room:
                wider.append(item)
        for stage in (room, wider):
            stage.sort(key=lambda item: reached.seconds[named(item)])
        return room, wider

    def start(self, mutant: Mutant, items: list[pytest.Item], seconds: Any) -> int:
        """Start a copy of this process that runs tests on a mutant; return its number."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return pid
        try:
            code = run_child(None if self.words.unbroken else mutant, items, seconds)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the copy must end here
            print(f"  {type(error).__name__}: {error}", flush=True)
            code = BROKEN
        os._exit(code)

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Let Hypothesis search for what fails, and not make it small."""
        from hypothesis import HealthCheck, Phase, settings  # noqa: PLC0415 - pytest goes first

        settings.register_profile(
            "mutants", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow],
        )  # fmt: skip

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run every mutant, some at a time."""
        reached = Reached(self.words.coverage, self.words.coverage.with_suffix(".log"))
        drawn_ones = drawn(self.words.mutants, self.words.seed, tuple(self.words.rooms))
        for mutant in drawn_ones:
            importlib.import_module(mutant.file.removesuffix(".py").replace("/", "."))
        equivalent = {tuple(row[:5]) for row in csv.reader(EQUIVALENT.read_text().splitlines())}
        session.config.pluginmanager.getplugin("capturemanager").suspend_global_capture(in_=True)
        waiting = [
            (mutant, "room", *self.stages(mutant, session.items, reached)) for mutant in drawn_ones
        ]
        running: dict[int, Any] = {}
        gc.collect()
        while waiting or running:
            while waiting and len(running) < self.words.processes:
                mutant, stage, now, later = waiting.pop(0)
                if mutant.key in equivalent:
                    self.results["equivalent"].append(mutant)
                    continue
                running[self.start(mutant, now, reached.seconds)] = mutant, stage, now, later
            if not running:
                break
            pid, status = os.wait()
            if pid not in running:
                continue
            mutant, stage, now, later = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            if code == SURVIVED and stage == "room" and later:
                waiting.insert(0, (mutant, "wider tests", later, []))
                continue
            result = {
                SURVIVED: "survived", UNFINISHED: "survived, not all tests run", BROKEN: "broken",
            }.get(code, f"killed by {stage}")  # fmt: skip
            self.results[result].append(mutant)
            done = sum(map(len, self.results.values()))
            print(
                f"{done}/{len(drawn_ones)} {result} ({len(now)} tests): {mutant.text}", flush=True
            )
        return True

    def pytest_terminal_summary(self) -> None:
        """List who survived, and count."""
        for result, mutants in sorted(self.results.items()):
            if not result.startswith("killed"):
                for mutant in sorted(mutants, key=lambda one: one.text):
                    print(f"{result}: {mutant.text}")
        for room in [*self.words.rooms, ""]:
            counts = {
                result: sum(one.room == room or not room for one in mutants)
                for result, mutants in sorted(self.results.items())
            }
            print(f"{room or 'all':<12}", ", ".join(f"{n} {word}" for word, n in counts.items()))
        self.words.coverage.with_name("results.json").write_text(
            json.dumps({word: [one.text for one in ones] for word, ones in self.results.items()})
        )


def main() -> int:
    """Draw mutants and run the tests on them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--coverage", type=Path, default=HERE / ".build/mutants/coverage")
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--rooms", nargs="+", default=ROOMS, choices=ROOMS)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--unbroken", action="store_true")
    words = parser.parse_args()
    words.coverage = words.coverage.resolve()
    os.chdir(HERE)
    os.environ |= {"HYPOTHESIS_PROFILE": "mutants"}
    flags = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    chosen = ["-m", "not network and not long and not fuzz", "./tests", "./benchmarks/fitting"]
    rooms = [f"./specroof/{room}" for room in words.rooms]
    return pytest.main([*flags, *chosen, *rooms], plugins=[Mutation(words)])


if __name__ == "__main__":
    sys.exit(main())
