"""The notebooks: each runs from top to bottom, and through the public door only."""

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PROJECT = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
LIBRARIES = {"importlib", "matplotlib", "numpy", "pandas", "pathlib"}

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def imports(source: str) -> Iterator[str]:
    """Yield the dotted module of every import in a cell; a name from it does not count."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def figures(notebook: nbformat.NotebookNode) -> list[float]:
    """Return the numbers that code cells print and show as text."""
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    texts = [one.get("text", "") or one.get("data", {}).get("text/plain", "") for one in outputs]
    return [float(one) for one in re.findall(r"\d+(?:\.\d+)?(?:e[+-]\d+)?", "\n".join(texts))]


def errors(notebook: nbformat.NotebookNode) -> list[str]:
    """Return what went wrong in the outputs of a notebook."""
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return [output.ename for output in outputs if output.output_type == "error"]


@every_notebook
def test_a_notebook_installs_the_clone_that_it_lies_in(path: Path) -> None:
    notebook = read(path)
    assert "OWNER" not in path.read_text(encoding="utf-8")  # a badge to nowhere
    commands: list[tuple[str, str]] = []
    shell = type("Shell", (), {"run_line_magic": lambda _, *words: commands.append(words)})
    known = {"get_ipython": shell}
    source = code_cells(notebook)[0].source
    exec(source, dict(known))  # noqa: S102 - a cell of ours
    assert commands == []
    exec(source.replace('"specroof")', '"no_such_module")'), dict(known))  # noqa: S102
    ((magic, words),) = commands
    assert magic == "pip"
    folder, _, extras = words.split()[2].partition("[")
    assert (FOLDER / folder / "pyproject.toml").is_file()
    assert set(extras.rstrip("]").split(",")) <= EXTRAS


@every_notebook
def test_a_notebook_enters_by_the_public_door(path: Path) -> None:
    modules = {module for cell in code_cells(read(path)) for module in imports(cell.source)}
    assert {m for m in modules if m != "specroof" and m.split(".")[0] not in LIBRARIES} == set()


@every_notebook
def test_a_notebook_asks_one_question_in_ten_cells_and_is_stored_with_outputs(path: Path) -> None:
    notebook = read(path)
    assert notebook.cells[0].source.startswith("# ")
    assert len(notebook.cells) < 10
    assert any(cell.outputs for cell in code_cells(notebook))
    assert errors(notebook) == []


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookClient]:
    """Yield a kernel for all notebooks: to start one takes longer than most of them run."""
    client = NotebookClient(
        nbformat.v4.new_notebook(), timeout=None, kernel_name="python3", record_timing=False
    )
    with pytest.MonkeyPatch.context() as patch:
        # Charts are shown in the notebook, and no coverage is measured in the kernel.
        for name in ("MPLBACKEND", "COVERAGE_PROCESS_CONFIG"):
            patch.delenv(name, raising=False)
        with client.setup_kernel():
            yield client


@pytest.mark.slow
@every_notebook
def test_a_notebook_runs_and_says_what_is_stored(
    path: Path, tmp_path: Path, kernel: NotebookClient
) -> None:
    # SPECROOF_STORE=1 keeps what it says now: the prose beside it is to be read again then.
    notebook, stored = read(path), figures(read(path))
    anew = f"import os\nos.chdir({str(tmp_path)!r})\nget_ipython().reset()"
    kernel.nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(anew)])
    kernel.execute_cell(kernel.nb.cells[0], 0, store_history=False)
    kernel.nb = notebook
    for number, cell in enumerate(notebook.cells):
        kernel.execute_cell(cell, number)
    assert errors(notebook) == []
    if os.environ.get("SPECROOF_STORE"):
        notebook.metadata["language_info"] = read(path).metadata["language_info"]
        nbformat.write(notebook, path)
    assert figures(notebook) == pytest.approx(stored, abs=0.011)  # a last digit
