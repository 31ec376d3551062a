"""A second form of a program for its check, in the same lines: without annotations, and with the types that it reads.

A program ignores its annotations, which the type checker believes. And the checker reports that one of the types that a
value may have has no keys, but not that there are others: `reveal_type` around each such value does.
"""

from __future__ import annotations

import ast
import re
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_REVEAL: Final = "reveal_type"


def to_second_form(code: str) -> str | None:
    """Return the second form of a program; None if this version of Python cannot read it."""
    try:
        editor = _Editor(code.encode())
        editor.visit(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return editor.edited().decode()


class _Editor(ast.NodeVisitor):
    """Collects the changes of a program."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._lines = [0, *(match.end() for match in _LINE_END.finditer(code))]
        self._edits: list[tuple[int, int, str]] = []

    def edited(self) -> bytes:
        """Return the changed program."""
        parts, position = [], 0
        for start, end, text in sorted(self._edits):
            parts += [self._code[position:start], text.encode()]
            position = end
        return b"".join([*parts, self._code[position:]])

    def visit_Subscript(self, node: ast.Subscript) -> None:  # the name that ast wants
        start, end = self._span(node.value)
        self._edits += [(start, start, f"{_REVEAL}("), (end, end, ")")]
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Replace an f-string by its expressions: Python 3.11 does not know where they are."""
        values = [part.value for part in ast.walk(node) if isinstance(part, ast.FormattedValue)]
        self._replace(node, f"str(({''.join(f'{ast.unparse(_Revealing().visit(value))}, ' for value in values)}))")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._replace(node.annotation, "Any")
        for part in (node.target, node.value):
            if part is not None:
                self.visit(part)

    def visit_arg(self, node: ast.arg) -> None:
        if node.annotation is not None:
            self._replace(node.annotation, "Any")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.returns is not None:
            self._replace(node.returns, "Any")
            node.returns = None
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def _replace(self, node: ast.expr, text: str) -> None:
        """Replace an expression by another one with as many lines."""
        start, end = self._span(node)
        line_ends = "\n" * self._code.count(b"\n", start, end)
        self._edits.append((start, end, f"({text}{line_ends})"))

    def _span(self, node: ast.expr) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[end_line - 1] + end_column


class _Revealing(ast.NodeTransformer):
    """Puts `reveal_type` around what an expression reads a key or an item of."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        self.generic_visit(node)
        node.value = ast.Call(ast.Name(_REVEAL, ast.Load()), [node.value], [])
        return node
