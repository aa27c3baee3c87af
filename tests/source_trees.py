"""Files of the package as Python reads them, each parsed once."""

import ast
from functools import cache
from pathlib import Path

__all__ = ["nodes", "tree"]


@cache
def tree(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file."""
    return tuple(ast.walk(tree(file)))
