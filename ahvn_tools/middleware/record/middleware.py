"""Record and replay: calls and their results to a file and back, for tests and evals."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.middleware import redaction
from ahvn_tools.middleware.approve import ApprovalRequest
from ahvn_tools.middleware.record import jsonl
from ahvn_tools.results import ErrorDetail, ToolResult

log = logging.getLogger(__name__)

JsonObject = dict[str, Any]


def record(path: str | PathLike[str]) -> Middleware:
    """Return the middleware that appends every call that ends, with its chunks and its result, to a JSONL file.

    A call that is cancelled leaves no line. Each line is one append, so threads, loops and processes may write to one
    file; nothing is kept open. A line that cannot be written is an error in the log: the call has been made, and its
    result counts. Raises ToolSpecError when the file cannot be written, or holds something else.
    """
    file = Path(path).absolute()
    jsonl.prepare(file)

    @inline
    async def recorded(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        line = {
            "tool": call.name,
            "fingerprint": call.definition.fingerprint,
            "arguments": redaction.redact_arguments(call),  # before the body can change them
            "digest": redaction.arguments_digest(call.arguments),
        }
        chunks: list[ToolResult] = []
        try:
            result = await next(_collect_chunks(call, chunks))
        except Exception as error:
            _append_line(file, call, line, chunks, redaction.exception_result(call, error))
            raise
        if not _is_cancelled(result):
            _append_line(file, call, line, chunks, result)
        return result

    return recorded


def replay(path: str | PathLike[str], *, allow_changed: bool = False) -> Middleware:
    """Return the middleware that answers calls from a recording; no tool runs, and no middleware behind it.

    A call is found by its tool and its exact arguments. Where it was recorded several times, its recordings come in
    their order, then the last again, whatever session asks. A call that was not recorded is an error `not_available`.
    One whose tool has changed since is an error `changed`, or with `allow_changed` what was recorded, with
    `meta["changed"]` and a warning in the log.
    Raises ToolSpecError when the file cannot be read, or is no recording.
    """
    file = Path(path).absolute()
    known = _group_by_call(file)

    @inline
    async def replayed(call: Call, next: Next) -> ToolResult:  # noqa: A002, ARG001  # nothing behind it is asked
        turns = known.get((call.name, redaction.arguments_digest(call.arguments)))
        if turns is None:
            which = " with these arguments" if call.name in {name for name, _ in known} else ""
            return _replay_error(call, "not_available", f"{file.name!r} holds no call of tool {call.name!r}{which}.")
        line = turns.next_line()
        is_changed = line["fingerprint"] != call.definition.fingerprint
        if is_changed and not allow_changed:
            return _replay_error(call, "changed", f"Tool {call.name!r} has changed since {file.name!r} was recorded.")
        if call.emit is not None:
            for chunk in line["chunks"]:
                await call.emit(jsonl.load_result(chunk, id=call.id, is_last=False))
        result = jsonl.load_result(line["result"], id=call.id)
        if "approval" in result.meta:  # that of this call, under its id and in its session
            result.meta["approval"] = ApprovalRequest.from_call(call).to_json()
        if is_changed:
            log.warning("Tool %r has changed since %r was recorded.", call.name, file.name)
            result.meta["changed"] = True
        return result

    return replayed


class _Recordings:
    """All recordings of one call, in their order."""

    def __init__(self) -> None:
        self.lines: list[JsonObject] = []
        self._positions = itertools.count()

    def next_line(self) -> JsonObject:
        """Return the next one, or the last again. Any thread may ask: `count` takes each step once."""
        return self.lines[min(next(self._positions), len(self.lines) - 1)]


def _group_by_call(file: Path) -> dict[tuple[str, str], _Recordings]:
    known: dict[tuple[str, str], _Recordings] = {}
    for line in jsonl.read(file):
        known.setdefault((line["tool"], line["digest"]), _Recordings()).lines.append(line)
    return known


def _replay_error(call: Call, code: str, message: str) -> ToolResult:
    return ToolResult(error=ErrorDetail(code=code, message=f"{message} Record it anew."), id=call.id)


def _is_cancelled(result: ToolResult) -> bool:
    """Tell whether a result is only what there was when the call was cancelled."""
    return result.is_interrupted and (result.error is None or result.error.code == "cancelled")


def _collect_chunks(call: Call, chunks: list[ToolResult]) -> Call:
    """Return the call with its chunks noted as they pass."""
    emit = call.emit
    if emit is None:
        return call

    async def emit_noted(chunk: ToolResult) -> None:
        chunks.append(chunk)
        await emit(chunk)

    return replace(call, emit=emit_noted)


def _append_line(file: Path, call: Call, line: JsonObject, chunks: list[ToolResult], result: ToolResult) -> None:
    mask = redaction.Redactor(call)
    made = {
        **line,
        "result": jsonl.dump_result(result, mask),
        "chunks": [jsonl.dump_result(chunk, mask) for chunk in chunks],
    }
    try:
        jsonl.append(file, made)
    except OSError as error:
        log.error("A call of tool %r was not recorded in %r: %s.", call.name, file.name, error.strerror)  # noqa: TRY400  # the path says enough
