"""Count what a reader of the package must open: files, functions, circles, copies.

    python benchmarks/house.py [CHECKOUT] [--json]

CHECKOUT is a folder of a checkout (this one). Each question is asked by names in a process of its
own; the functions entered are those whose frames Python reports, comprehensions and lambdas left
out. What is counted of the source is read from its syntax trees: a function has one caller if its
name stands in one place of the package besides its definition, and an import is late if it stands
in a function.
"""

import argparse
import ast
import io
import json
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[1]

#: What is asked, each in a process of its own.
QUESTIONS: Final = {
    "predict": 'predict("Qwen/Qwen3-32B", "h100", drafters="eagle3,accept=0.7", '
    "batch_size=[1, 16, 64], tensor_parallel=2)",
    "advise": 'advise("Qwen/Qwen3-32B", "h100", drafters="eagle3,accept=0.7", input_len=1024, '
    "output_len=512, concurrency=[1, 64], tensor_parallel=2)",
    "frontier": 'frontier("Qwen/Qwen3-32B", "h100", drafters="eagle3,accept=0.7", '
    "batch_size=[1, 16, 64], devices=[2])",
    "capacity": 'capacity("Qwen/Qwen3-32B", "h100", context_len=8192, tensor_parallel=2)',
    "breakeven": 'breakeven("Qwen/Qwen3-32B", "h100", drafter="eagle3", tensor_parallel=2)',
    "explain": 'explain("Qwen/Qwen3-32B", "h100", batch_size=32, tensor_parallel=2)',
    "worth": 'worth("Qwen/Qwen3-32B", "h100", drafter="eagle3", tensor_parallel=2)',
}

#: Counts the frames of one question; prints a JSON object.
PROFILE: Final = """
import json, sys
import specroof
root = specroof.__path__[0]
entered, depth, deepest = set(), 0, 0

def watch(frame, event, _):
    global depth, deepest
    if event == "call":
        code = frame.f_code
        if code.co_filename.startswith(root):
            depth += 1
            deepest = max(deepest, depth)
            # The body of a class and comprehensions are no functions.
            if code.co_flags & 1 and "<" not in code.co_name.replace("<locals>", ""):
                entered.add((code.co_filename, code.co_qualname))
    elif event == "return" and frame.f_code.co_filename.startswith(root):
        depth -= 1

sys.setprofile(watch)
specroof.{call}
sys.setprofile(None)
print(json.dumps({{
    "files": len({{file for file, _ in entered}}), "functions": len(entered), "deep": deepest,
}}))
"""


def entered(checkout: Path, call: str) -> dict[str, int]:
    """Return the files and functions that a question enters, and its deepest stack."""
    run = subprocess.run(
        [sys.executable, "-c", PROFILE.format(call=call)],
        cwd=checkout,
        env={"PYTHONPATH": str(checkout), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    counts: dict[str, int] = json.loads(run.stdout)
    return counts


def code_lines(text: str, tree: ast.AST) -> int:
    """Return the lines that hold code: no comments, docstrings or blank lines."""
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type
        not in {
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        }
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return len(lines)


def names_used(tree: ast.AST) -> Counter[str]:
    """Return how often each name is read, called, imported or looked up."""
    uses: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Attribute):
            uses[node.attr] += 1
    return uses


def imports(tree: ast.Module, names: set[str]) -> tuple[set[str], int]:
    """Return the modules that a file imports, at its top or late, and how many are late."""
    needed: set[str] = set()
    late = 0
    at_top = {id(node) for node in tree.body}
    checking = {
        id(inner)
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom) or id(node) in checking:
            continue
        if isinstance(node, ast.ImportFrom):
            modules = {node.module or ""}
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        else:
            modules = {alias.name for alias in node.names}
        modules &= names
        needed |= modules
        late += bool(modules) and id(node) not in at_top
    return needed, late


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules each of which reaches every other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for need in sorted(graph[name]):
            if need not in index:
                visit(need)
            if need in stack:
                lowest[name] = min(lowest[name], lowest[need])
        if lowest[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                groups.append(group)

    for name in graph:
        if name not in index:
            visit(name)
    return groups


def counted(checkout: Path) -> dict[str, Any]:
    """Return every count of the source of a checkout."""
    package = checkout / "specroof"
    files = sorted(package.rglob("*.py"))
    texts = {file: file.read_text() for file in files}
    trees = {file: ast.parse(text) for file, text in texts.items()}
    sizes = [len(text.splitlines()) for text in texts.values()]
    modules = {}
    for file in files:
        parts = file.relative_to(checkout).with_suffix("").parts
        modules[file] = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    uses: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    n_functions = n_dataclasses = n_late = 0
    graph = {}
    for file, tree in trees.items():
        uses += names_used(tree)
        functions.update(n.name for n in tree.body if isinstance(n, ast.FunctionDef))
        for node in ast.walk(tree):
            n_functions += isinstance(node, ast.FunctionDef)
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
                n_dataclasses += any("dataclass" in ast.unparse(d) for d in node.decorator_list)
        needs, late = imports(tree, {*modules.values()})
        graph[modules[file]] = needs - {modules[file]}
        n_late += late
    return {
        "files": len(files),
        "code lines": sum(code_lines(texts[file], trees[file]) for file in files),
        "median lines of a file": median(sizes),
        "functions": n_functions,
        "module functions": sum(functions.values()),
        "module functions with one use": sum(
            count for name, count in functions.items() if uses[name] == 1
        ),
        "dataclasses": n_dataclasses,
        "class names defined twice": sorted(name for name, n in classes.items() if n > 1),
        "late imports of the package": n_late,
        "files in circles of imports": [len(circle) for circle in circles(graph)],
    }


def main() -> None:
    """Print the counts of a checkout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", default=HERE)
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    checkout = words.checkout.resolve()
    counts = {name: entered(checkout, call) for name, call in QUESTIONS.items()}
    source = counted(checkout)
    if words.json:
        print(json.dumps({"entered": counts, **source}))
        return
    print(f"{'question':<12}{'files':>7}{'functions':>11}{'frames deep':>13}")
    for name, row in counts.items():
        print(f"{name:<12}{row['files']:>7}{row['functions']:>11}{row['deep']:>13}")
    for name, value in source.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
