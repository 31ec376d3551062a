"""Code in a manifest: the text of a module that has no file."""

from __future__ import annotations

import ast
import symtable
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ahvn_tools.manifest.dumping.problems import UndumpableError


def count_functions(code: str) -> int:
    """Return how many functions the code defines at its top level."""
    return sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.parse(code).body)


def refuse_environment(code: str, function: Callable[..., Any]) -> None:
    """Raise UndumpableError for a function that uses names which its code does not define."""
    symbols = symtable.symtable(code, "code", "exec").get_symbols()
    defined = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
    names = getattr(function, "__globals__", {})
    added = sorted(name for name in names if not name.startswith("__") and name not in defined)
    if added and "import *" not in code:
        raise UndumpableError(f"its code uses {added[0]!r} of `env`: import or define it in the code")


def find_code(module: str) -> str | None:
    """Return the text of a module that was made of code; None for one with a file."""
    found = sys.modules[module]
    file, get_source = getattr(found, "__file__", None), getattr(found.__loader__, "get_source", None)
    if file is None or get_source is None or Path(file).is_file():
        return None
    code: str | None = get_source(module)
    return code
