"""Sentences that stopped readers do not come back: in messages, help, docs, README, templates."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import specroof
from source_trees import nodes
from tables import rows

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = Path(specroof.__file__).parent
STOPPERS: Final[list[str]] = rows("values", "stopping_words")


def literals(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings; what is put into them is ``{}``."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def stopping(text: str) -> list[str]:
    line = " ".join(text.split())
    # One word alone, as a key is, is no sentence.
    searched = STOPPERS if " " in line else ()
    return [found[0] for words in searched if (found := re.search(words, line))]


MODULES = [PACKAGE, *(path for path in PACKAGE.iterdir() if (path / "__init__.py").exists())]


@pytest.mark.parametrize("room", MODULES, ids=lambda path: path.name)
def test_no_message_and_no_help_stops_a_reader(room: Path) -> None:
    paths = room.glob("*.py") if room == PACKAGE else room.rglob("*.py")
    found = {
        f"{path.relative_to(PACKAGE)}: {text[:60]!r}": words
        for path in paths
        for text in literals(path)
        if (words := stopping(text))
    }
    assert found == {}


TEXTS = [
    *(ROOT / name for name in ("README.md", "SKILL.md", "llms.txt", "docs/answers.py")),
    *sorted((ROOT / "docs" / "pages").rglob("*.md")),
    PACKAGE / "page" / "page.html",
]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_page_stops_a_reader(path: Path) -> None:
    assert stopping(path.read_text(encoding="utf-8")) == []


def test_a_sentence_that_stops_is_found_in_a_message(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Is of no known kind."""\nsay(f"a chip that {who}\\nnobody  knows")\n')
    assert [words for text in literals(module) for words in stopping(text)] == ["nobody knows"] * 2
