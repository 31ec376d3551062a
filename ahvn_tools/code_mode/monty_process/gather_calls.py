"""What is wrong with calls of `asyncio.gather` that would fail after the calls in them were made."""

from __future__ import annotations

import ast

from ahvn_tools.code_mode.call_form import awaits_calls


def find_gather_error(code: str) -> str | None:
    """Return what is wrong with the first wrong call of `gather`; None: nothing, or Python cannot read the program."""
    if "gather" not in code:
        return None
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    is_awaited = awaits_calls(code)
    statements = [node.value for node in nodes if isinstance(node, ast.Expr)]
    for call in _find_calls(nodes):
        if not is_awaited or call in statements:
            return f"Line {call.lineno}: `gather` is not awaited."
        if any(option.arg == "return_exceptions" for option in call.keywords):
            return f"Line {call.lineno}: `gather` has no `return_exceptions`."
    return None


def _find_calls(nodes: list[ast.AST]) -> list[ast.Call]:
    is_imported = any(isinstance(node, ast.ImportFrom) and node.module == "asyncio" for node in nodes)
    names = {"asyncio.gather", "gather"} if is_imported else {"asyncio.gather"}
    return [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in names]
