"""Runs a request in a process of its own, which is killed at the time limit and on cancellation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Final

from ahvn_tools.builtins.database.statement import (
    NotAllowedError,
    NotReadOnlyError,
    StatementRequest,
    UnreachableError,
    statement_timeout_error,
)
from ahvn_tools.builtins.processes.private_folder import as_file
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.json_types import JsonObject

_START: Final = (
    "import sys; sys.path[:] = {path!r}; from ahvn_tools.builtins.database.statement_program import main; main()"
)
_ERRORS: Final = {kind.__name__: kind for kind in (NotAllowedError, NotReadOnlyError, UnreachableError)}
_POLL_SECONDS: Final = 0.02
"""How often a wait looks whether the call was cancelled."""
_ROLL_BACK_SECONDS: Final = 10.0
"""How long a call waits at most until its change is undone."""


def perform_in_process(engine: str, target: str, request: StatementRequest, context: ToolContext) -> JsonObject:
    """Return the answer. Raises ToolError, also if the process ends without one, and CallCancelledError."""
    output = b""
    try:
        output = _run(engine, target, request, context)
    finally:
        if not output and engine == "sqlite" and request.may_write:
            _roll_back(target, request)
    answer: JsonObject = json.loads(output)
    if "error" in answer:
        raise _ERRORS.get(answer["error"], ToolError)(answer["message"], explanation=answer["explanation"])
    return answer


def _roll_back(target: str, request: StatementRequest) -> None:
    """Let SQLite undo a change whose process was killed: no connection that only reads could open the file before."""
    limits = replace(request.limits, timeout=_ROLL_BACK_SECONDS)
    reading = replace(request, limits=limits, query="SELECT 1 FROM sqlite_master LIMIT 1", parameters=None)
    with suppress(ToolError):  # the next connection that may write undoes it
        _run("sqlite", target, reading, ToolContext())


def _run(engine: str, target: str, request: StatementRequest, context: ToolContext) -> bytes:
    """Return the output of the process, which is never empty."""
    timeout = request.limits.timeout
    end = time.monotonic() + timeout
    request = replace(request, limits=replace(request.limits, end=time.time() + timeout))
    data = json.dumps({"engine": engine, "target": target, "request": asdict(request)})
    with as_file(data.encode()) as file:  # `communicate` loses input when its timeout is over before it writes
        process = subprocess.Popen(  # noqa: S603  # this interpreter
            [sys.executable, "-I", "-c", _START.format(path=[*map(os.path.abspath, sys.path)])],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                output, _ = process.communicate(timeout=_POLL_SECONDS)
                break
            context.check_cancelled()
            if time.monotonic() > end:
                raise statement_timeout_error(timeout, knows_locks=engine != "other")
    finally:
        process.kill()
        process.communicate()
    if not output:
        raise ToolError("The database has ended without an answer: the statement may need too much memory.")
    return output
