"""Runs a request in a process of its own, which is killed at the time limit and on cancellation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

from ahvn_tools.builtins.database.deadline import POLL_SECONDS, Deadline
from ahvn_tools.builtins.database.request import Request, raise_error_of
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.json_types import JsonObject

_START: Final = "import sys; sys.path[:] = {path!r}; from ahvn_tools.builtins.database.program import main; main()"


def perform_in_process(engine: str, target: str, request: Request, context: ToolContext) -> JsonObject:
    """Return the answer. Raises ToolError, also if the process ends without one, and CallCancelledError."""
    deadline = Deadline(request.limits.timeout, context)
    data = json.dumps({"engine": engine, "target": target, "request": request.to_json()})
    process = subprocess.Popen(  # noqa: S603  # this interpreter
        [sys.executable, "-I", "-c", _START.format(path=[*map(os.path.abspath, sys.path)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        output = _communicate(process, data.encode(), deadline)
    finally:
        process.kill()
        process.communicate()
    if not output:
        raise ToolError("The database has ended without an answer: the statement may need too much memory.")
    answer: JsonObject = json.loads(output)
    raise_error_of(answer)
    return answer


def _communicate(process: subprocess.Popen[bytes], data: bytes, deadline: Deadline) -> bytes:
    remaining: bytes | None = data
    while True:
        try:
            return process.communicate(remaining, timeout=POLL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            remaining = None
            deadline.check()
