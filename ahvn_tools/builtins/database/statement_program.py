"""The program of the process that runs one statement: it reads a request from stdin, and writes an answer to stdout."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from ahvn_tools.builtins.database.session import DatabaseSession
from ahvn_tools.builtins.database.statement import TOO_MUCH_MEMORY, StatementLimits, StatementRequest
from ahvn_tools.errors import ToolError

_SESSIONS: Final = {
    "sqlite": ("sqlite", "SQLiteSession"),
    "duckdb": ("duckdb", "DuckDBSession"),
    "postgresql": ("postgresql", "PostgreSQLSession"),
    "other": ("other_dialects", "OtherSession"),
}


def main() -> None:
    """Answer one request."""
    data = json.load(sys.stdin)
    request = StatementRequest(**{**data["request"], "limits": StatementLimits(**data["request"]["limits"])})
    if hasattr(
        signal, "setitimer"
    ):  # pragma: no branch  # Windows has none; elsewhere it ends a process without parent
        signal.setitimer(signal.ITIMER_REAL, request.limits.timeout + 5)
    output = os.dup(1)
    os.dup2(2, 1)  # what a driver prints is no answer
    answer = json.dumps(_answer(data["engine"], data["target"], request))
    with os.fdopen(output, "w", encoding="utf-8") as stream:
        stream.write(answer)


def _answer(engine: str, target: str, request: StatementRequest) -> dict[str, Any]:
    try:
        module, name = _SESSIONS[engine]
        open_session = getattr(importlib.import_module(f"ahvn_tools.builtins.database.{module}"), name)
        session: DatabaseSession = open_session(target, request.limits, may_write=request.may_write)
        _limit_memory(request.limits.memory_bytes)
        try:
            return session.perform(request)
        finally:
            session.close()
    except ToolError as error:
        return {"error": type(error).__name__, "message": error.message, "explanation": error.explanation}
    except MemoryError:
        return {"error": "ToolError", "message": TOO_MUCH_MEMORY, "explanation": None}


def _limit_memory(memory_bytes: int) -> None:
    """Let this process take `memory_bytes` bytes more than it has now. Only Linux says how much that is."""
    sizes = Path("/proc/self/statm")
    if importlib.util.find_spec("resource") is None or not sizes.exists():  # pragma: no cover
        return
    resource = importlib.import_module("resource")
    present = int(sizes.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (present + memory_bytes, present + memory_bytes))
