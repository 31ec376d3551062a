"""Record and replay: the middleware that writes calls and results to a file, and the one that answers from it."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, repeat
from os import PathLike
from pathlib import Path

from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.middleware.approve import ApprovalRequest, arguments_digest
from ahvn_tools.middleware.record import jsonl
from ahvn_tools.results import ErrorDetail, ToolResult


def record(path: str | PathLike[str]) -> Middleware:
    """Return middleware that appends every finished call, with its chunks and its result, to a JSONL file.

    Cancelled calls are not recorded. Each line is one append, so threads, loops and processes may write to the same
    file; it is closed after each line. A line that cannot be written is logged as an error; the call's result stays.
    Raises ToolSpecError if the file is not writable or not a recording.
    """
    file = Path(path).absolute()
    jsonl.prepare(file)

    @inline
    async def record_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        line = {
            "tool": call.name,
            "fingerprint": call.definition.fingerprint,
            "arguments": reporting.redact_arguments(call),  # before the body can change them
            "digest": arguments_digest(call.arguments),
        }
        chunks: list[ToolResult] = []
        try:
            result = await next(_collect_chunks(call, chunks))
        except Exception as error:
            _append_line(file, call, line, chunks, reporting.exception_result(call, error))
            raise
        is_cancelled = result.is_interrupted and (result.error is None or result.error.code == "cancelled")
        if not is_cancelled:
            _append_line(file, call, line, chunks, result)
        return result

    return record_call


def replay(path: str | PathLike[str], *, allow_changed: bool = False) -> Middleware:
    """Return middleware that answers calls from a recording; neither the tool nor inner middleware runs.

    A call matches a recording of the same tool with exactly the same arguments. Several recordings of one call are
    used in order, for all sessions together; the last one is repeated. A call without a recording is an error
    `not_available`. If the tool has changed since the recording, the call is an error `changed`; with `allow_changed`
    it is the recorded result with `meta["changed"]`, and a warning in the log.
    Raises ToolSpecError if the file is not readable or not a recording.
    """
    file = Path(path).absolute()
    lines: dict[tuple[str, str], list[JsonObject]] = {}
    for line in jsonl.read(file):
        lines.setdefault((line["tool"], line["digest"]), []).append(line)
    recordings = {key: chain(same_call, repeat(same_call[-1])) for key, same_call in lines.items()}

    @inline
    async def replay_call(call: Call, _next: Next) -> ToolResult:
        recorded = recordings.get((call.name, arguments_digest(call.arguments)))
        if recorded is None:
            which = " with these arguments" if call.name in {name for name, _ in recordings} else ""
            return _replay_error(call, "not_available", f"{file.name!r} has no call of tool {call.name!r}{which}.")
        line = next(recorded)  # atomic: threads do not receive the same one
        is_changed = line["fingerprint"] != call.definition.fingerprint
        if is_changed and not allow_changed:
            return _replay_error(call, "changed", f"Tool {call.name!r} has changed since {file.name!r} was recorded.")
        if call.emit is not None:
            for chunk in line["chunks"]:
                await call.emit(jsonl.load_result(chunk, id=call.id, is_last=False))
        result = jsonl.load_result(line["result"], id=call.id)
        if "approval" in result.meta:  # the recorded request has another call id and session
            result.meta["approval"] = ApprovalRequest.from_call(call).to_json()
        if is_changed:
            jsonl.logger.warning("Tool %r has changed since %r was recorded.", call.name, file.name)
            result.meta["changed"] = True
        return result

    return replay_call


def _replay_error(call: Call, code: str, message: str) -> ToolResult:
    return ToolResult(error=ErrorDetail(code=code, message=f"{message} Record it again."), id=call.id)


def _collect_chunks(call: Call, chunks: list[ToolResult]) -> Call:
    emit = call.emit
    if emit is None:
        return call

    async def emit_collected(chunk: ToolResult) -> None:
        chunks.append(chunk)
        await emit(chunk)

    return replace(call, emit=emit_collected)


def _append_line(file: Path, call: Call, line: JsonObject, chunks: list[ToolResult], result: ToolResult) -> None:
    redactor = reporting.Redactor(call)
    results = {
        "result": jsonl.dump_result(result, redactor),
        "chunks": [jsonl.dump_result(chunk, redactor) for chunk in chunks],
    }
    try:
        jsonl.append(file, {**line, **results})
    except OSError as error:
        jsonl.logger.error("Cannot record a call of tool %r in %r: %s.", call.name, file.name, error.strerror)
