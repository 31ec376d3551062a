"""Runs a request in a process of its own, which is killed at the time limit and on cancellation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ahvn_tools.builtins.database.deadline import POLL_SECONDS, Deadline
from ahvn_tools.builtins.database.request import Request, raise_error_of
from ahvn_tools.builtins.processes.private_folder import as_file
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.json_types import JsonObject

_START: Final = "import sys; sys.path[:] = {path!r}; from ahvn_tools.builtins.database.program import main; main()"

_ROLL_BACK_SECONDS: Final = 10.0
"""How long a call waits at most until its change is undone."""


def perform_in_process(engine: str, target: str, request: Request, context: ToolContext) -> JsonObject:
    """Return the answer. Raises ToolError, also if the process ends without one, and CallCancelledError."""
    output = b""
    try:
        deadline = Deadline(request.limits.timeout, context, knows_locks=engine != "other")
        output = _run(engine, target, request, deadline)
    finally:
        if not output and engine == "sqlite" and request.may_write:
            _roll_back(target, request)
    answer: JsonObject = json.loads(output)
    raise_error_of(answer)
    return answer


def _roll_back(target: str, request: Request) -> None:
    """Let SQLite undo a change whose process was killed: no connection that only reads could open the file before."""
    limits = replace(request.limits, timeout=_ROLL_BACK_SECONDS)
    reading = replace(request, limits=limits, query="SELECT 1 FROM sqlite_master LIMIT 1", parameters=None)
    with suppress(ToolError):  # the next connection that may write undoes it
        _run("sqlite", target, reading, Deadline(limits.timeout, ToolContext()))


def _run(engine: str, target: str, request: Request, deadline: Deadline) -> bytes:
    """Return the output of the process, which is never empty."""
    request = replace(request, limits=replace(request.limits, end=time.time() + request.limits.timeout))
    data = json.dumps({"engine": engine, "target": target, "request": request.to_json()})
    with as_file(data.encode()) as file:  # `communicate` loses input when its timeout is over before it writes
        process = subprocess.Popen(  # noqa: S603  # this interpreter
            [sys.executable, "-I", "-c", _START.format(path=[*map(os.path.abspath, sys.path)])],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    try:
        output = _read(process, deadline)
    finally:
        process.kill()
        process.communicate()
    if not output:
        raise ToolError("The database has ended without an answer: the statement may need too much memory.")
    return output


def _read(process: subprocess.Popen[bytes], deadline: Deadline) -> bytes:
    while True:
        try:
            return process.communicate(timeout=POLL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            deadline.check()
