"""What is wrong with calls of `asyncio.gather` that would fail after the calls in them were made."""

from __future__ import annotations

import ast

from ahvn_tools.code_mode.call_form import awaits_calls


def find_gather_error(code: str) -> str | None:
    """Return what is wrong with the first wrong call of `gather`; None: nothing, or Python cannot read the program."""
    is_awaited = awaits_calls(code)
    if "gather" not in code or (is_awaited and "return_exceptions" not in code):
        return None
    try:
        calls = _find_calls(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for call in calls:
        if not is_awaited:
            return f"Line {call.lineno}: `gather` is not awaited."
        if any(option.arg == "return_exceptions" for option in call.keywords):
            return f"Line {call.lineno}: `gather` has no `return_exceptions`."
    return None


def _find_calls(tree: ast.Module) -> list[ast.Call]:
    nodes = list(ast.walk(tree))
    is_imported = any(isinstance(node, ast.ImportFrom) and node.module == "asyncio" for node in nodes)
    names = {"asyncio.gather", "gather"} if is_imported else {"asyncio.gather"}
    return [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in names]
