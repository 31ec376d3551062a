"""The program of the process that runs one statement: it reads a request from stdin, and writes an answer to stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ahvn_tools.builtins.database.request import Request, error_to_json
from ahvn_tools.builtins.database.statement import Session
from ahvn_tools.errors import ToolError


def main() -> None:
    """Answer one request."""
    data = json.load(sys.stdin)
    request = Request.from_json(data["request"])
    if hasattr(
        signal, "setitimer"
    ):  # pragma: no branch  # Windows has none; elsewhere it ends a process without parent
        signal.setitimer(signal.ITIMER_REAL, request.limits.timeout + 5)
    output = os.dup(1)
    os.dup2(2, 1)  # what a driver prints is no answer
    answer = json.dumps(_answer(data["engine"], data["target"], request))
    with os.fdopen(output, "w", encoding="utf-8") as stream:
        stream.write(answer)


def _answer(engine: str, target: str, request: Request) -> dict[str, Any]:
    try:
        session = _open(engine, target, request)
        try:
            return request.perform(session)
        finally:
            session.close()
    except ToolError as error:
        return error_to_json(error)
    except MemoryError:
        return error_to_json(ToolError("The statement needs too much memory. Read fewer rows, or shorter values."))


def _open(engine: str, target: str, request: Request) -> Session:
    if engine == "duckdb":
        from ahvn_tools.builtins.database.duckdb import DuckDBSession

        return DuckDBSession(Path(target), request.limits, may_write=request.may_write)
    if engine == "postgresql":
        from ahvn_tools.builtins.database.postgresql import PostgreSQLSession

        return PostgreSQLSession(target, request.limits, may_write=request.may_write)
    if engine == "sqlite":
        from ahvn_tools.builtins.database.sqlite import SQLiteSession

        return SQLiteSession(Path(target), request.limits, may_write=request.may_write)
    from ahvn_tools.builtins.database.other_dialects import OtherSession

    return OtherSession(target, request.limits)


if __name__ == "__main__":
    main()
