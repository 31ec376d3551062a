"""Outline and syntax errors of Python files, by the standard library."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .definitions import Definitions
from .problems import SyntaxProblem

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_INNER = (ast.stmt, ast.excepthandler, ast.match_case)


def outline(content: bytes) -> Definitions:
    """Return what a file defines. Raises the errors of `ast.parse`, of which there are many."""
    definitions = Definitions()
    remaining: list[tuple[ast.AST, int, str]] = [(ast.parse(content), 0, "")]
    while remaining:
        node, depth, outer_kind = remaining.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            _add(definitions, node, depth, outer_kind)
            depth, outer_kind = depth + 1, "Class"
        if not isinstance(node, _FUNCTIONS):
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, _INNER)]
            remaining += [(child, depth, outer_kind) for child in reversed(inner)]
    return definitions


def problems(content: bytes) -> Iterator[SyntaxProblem]:
    """Yield the syntax error that Python finds first."""
    try:
        compile(content, "<file>", "exec", dont_inherit=True)
    except SyntaxError as error:
        yield SyntaxProblem(error.lineno or 1, max(error.offset or 1, 1), f"{type(error).__name__}: {error.msg}")
    except ValueError as error:  # pragma: no cover - a NUL byte, before Python 3.11.4
        yield SyntaxProblem(1, 1, f"SyntaxError: {error}")


def _add(
    definitions: Definitions, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, depth: int, outer_kind: str
) -> None:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = first, node.end_lineno or node.lineno
    kind = "Class" if isinstance(node, ast.ClassDef) else "Function"
    definitions.add(
        depth=depth, kind=kind, outer_kind=outer_kind, name=node.name, lines=lines, signature=_signature(node)
    )


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    try:
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(map(ast.unparse, [*node.bases, *node.keywords]))
            return f"{node.name}({bases})" if bases else node.name
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        return f"{prefix}{node.name}({ast.unparse(node.args)}){returns}"
    except RecursionError:  # a default value of many nested expressions
        return node.name
