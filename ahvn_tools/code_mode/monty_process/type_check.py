"""The check of a program's types, in a Monty session that knows the declarations of its functions."""

from __future__ import annotations

import ast
import contextlib
import re
from typing import Any, Final

import pydantic_monty as monty

from ahvn_tools.code_mode.call_form import awaits_calls
from ahvn_tools.code_mode.monty_process.messages import START, to_readable, to_unsupported
from ahvn_tools.code_mode.monty_process.type_errors import CheckError, certain_errors, confirmed_errors
from ahvn_tools.code_mode.sandbox import InvalidProgramError, SandboxError

_UNCHECKABLE: Final = "The check of the types takes too much time or memory. Make the program shorter or simpler."
_COMMENT: Final = re.compile(r"#[^\n]*")
_IGNORE: Final = re.compile(r"\b(type|ty):(?=\s*ignore\b)")
"""What would switch off the check of a line, in a comment."""
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_REVEAL: Final = "reveal_type"
_STOP: Final[Any] = {"exc_type": "SystemExit", "message": ""}


def check_types(session: Any, code: str) -> None:
    """Raises InvalidProgramError for a program that does not fit, SandboxError if the session cannot check it.

    Monty has no check alone: it runs a call before the program, which ends it.
    """
    if (wrong := _find_gather_error(code)) is not None:
        raise InvalidProgramError(to_readable(wrong, is_check=True))
    try:
        state = _start(session, f"{START}()\n{_without_ignore(code)}")
    except monty.MontySyntaxError as error:
        raise InvalidProgramError(to_readable(error.display(), is_check=True)) from None
    except monty.MontyRuntimeError as error:
        if isinstance(error.exception(), NotImplementedError):  # what Monty's parser does not know
            raise InvalidProgramError(to_unsupported(error.display(), error.display("msg"))) from None
        raise SandboxError(_UNCHECKABLE) from None
    except monty.MontyCrashedError as error:
        if error.timed_out:
            raise InvalidProgramError(_UNCHECKABLE) from None
        raise
    _stop(state)


def _without_ignore(code: str) -> str:
    """Return a program of the same length without comments that switch off its check."""
    return _COMMENT.sub(lambda comment: _IGNORE.sub(r"\1 ", comment[0]), code)


def _start(session: Any, code: str) -> Any:
    try:
        return session.feed_start(code)
    except monty.MontyTypingError as error:
        errors = certain_errors(error.display(), code)
    if errors and (errors := confirmed_errors(errors, _check_second_form(session, code))):
        raise InvalidProgramError(to_readable("\n".join(error.line for error in errors), is_check=True))
    return session.feed_start(code, skip_type_check=True)


def _check_second_form(session: Any, code: str) -> list[CheckError] | None:
    second = _to_second_form(code)
    if second is None:
        return None
    try:
        _stop(session.feed_start(second))
    except monty.MontyTypingError as error:
        return certain_errors(error.display(), second)
    return []


def _stop(state: Any) -> None:
    with contextlib.suppress(monty.MontyRuntimeError):  # the SystemExit
        state.resume(_STOP)


def _find_gather_error(code: str) -> str | None:
    """Return what is wrong with the first wrong call of `gather`; None: nothing, or Python cannot read the program."""
    if "gather" not in code:
        return None
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    is_awaited = awaits_calls(code)
    statements = [node.value for node in nodes if isinstance(node, ast.Expr)]
    for call in _find_gather_calls(nodes):
        if not is_awaited or call in statements:
            return f"Line {call.lineno}: `gather` is not awaited."
        if any(option.arg == "return_exceptions" for option in call.keywords):
            return f"Line {call.lineno}: `gather` has no `return_exceptions`."
    return None


def _find_gather_calls(nodes: list[ast.AST]) -> list[ast.Call]:
    is_imported = any(isinstance(node, ast.ImportFrom) and node.module == "asyncio" for node in nodes)
    names = {"asyncio.gather", "gather"} if is_imported else {"asyncio.gather"}
    return [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in names]


def _to_second_form(code: str) -> str | None:
    """Return a second form of a program, in the same lines: without annotations, and with the types that it reads.

    A program ignores its annotations, which the type checker believes. And the checker reports that one of the types
    that a value may have has no keys, but not that there are others: `reveal_type` around each such value does. None if
    this version of Python cannot read it.
    """
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
