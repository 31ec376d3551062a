"""Record and replay: the middleware that writes calls and results to a file, and the one that answers from it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain, repeat
from os import PathLike
from pathlib import Path
from typing import Any

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.middleware.approve import ApprovalRequest, arguments_digest
from ahvn_tools.middleware.factory import remember_options
from ahvn_tools.middleware.record import jsonl
from ahvn_tools.results import ToolResult
from ahvn_tools.secret_key import SecretKey


@remember_options
@suggests_options
def record(path: str | PathLike[str], *, secret_key: str | bytes | None = None) -> Middleware:
    """Return middleware that appends every finished call, with its chunks and its result, to a JSONL file.

    Cancelled calls are not recorded. Each line is one append, so threads, loops and processes may write to the same
    file; it is closed after each line. A line that cannot be written is logged as an error; the call's result stays.

    `secret_key`, at least 16 bytes and by default the toolkit's own if it was set, makes calls distinguishable whose
    arguments differ only in secrets: their HMAC is written. Without a key nothing is written that depends on a secret.
    Raises ToolSpecError for a short key, and if the file is not writable or not a recording.
    """
    file, own_key = Path(path).absolute(), _own_key(secret_key)
    jsonl.prepare(file)

    @inline
    async def record_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        line = {
            "tool": call.name,
            "fingerprint": call.definition.fingerprint,
            "arguments": reporting.redact_arguments(call),  # before the body can change them
            "digest": _digest(call, own_key),
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


@remember_options
@suggests_options
def replay(
    path: str | PathLike[str], *, allow_changed: bool = False, secret_key: str | bytes | None = None
) -> Middleware:
    """Return middleware that answers calls from a recording; neither the tool nor inner middleware runs.

    A call matches a recording of the same tool with the same arguments: exactly the same ones if it was recorded with
    the `secret_key` that is used here, else those that the recording shows, with `***` for secrets. Several recordings
    of one call are used in order, for all sessions together; the last one is repeated. A call without a recording is
    an error `not_available`. If the tool has changed since the recording, the call is an error `changed`; with
    `allow_changed` it is the recorded result with `meta["changed"]`, and a warning in the log.
    Raises ToolSpecError for a short key, and if the file is not readable or not a recording.
    """
    file, own_key = Path(path).absolute(), _own_key(secret_key)
    lines: dict[tuple[str, str], list[JsonObject]] = {}
    for line in jsonl.read(file):
        lines.setdefault((line["tool"], line["digest"] or _shown(line["arguments"])), []).append(line)
    recordings = {key: chain(same_call, repeat(same_call[-1])) for key, same_call in lines.items()}

    @inline
    async def replay_call(call: Call, _next: Next) -> ToolResult:
        digest = _digest(call, own_key)
        recorded = recordings.get((call.name, digest)) if digest else None
        recorded = recorded or recordings.get((call.name, _shown(reporting.redact_arguments(call))))
        if recorded is None:
            same_tool = [line for (name, _), same_call in lines.items() if name == call.name for line in same_call]
            return _replay_error(call, "not_available", _missing_text(file, call, same_tool))
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
            result.meta.pop("further_approvals", None)
        if is_changed:
            jsonl.logger.warning("Tool %r has changed since %r was recorded.", call.name, file.name)
            result.meta["changed"] = True
        return result

    return replay_call


def _missing_text(file: Path, call: Call, same_tool: list[JsonObject]) -> str:
    """Return what a recording does not have; `same_tool` are its lines of the tool."""
    other = ", or it was recorded with another secret_key" if any(line["digest"] for line in same_tool) else ""
    which = f" with these arguments{other}" if same_tool else ""
    return f"{file.name!r} has no call of tool {call.name!r}{which}."


def _own_key(secret_key: str | bytes | None) -> SecretKey | None:
    return None if secret_key is None else SecretKey.create(secret_key)


def _digest(call: Call, own_key: SecretKey | None) -> str | None:
    """Return the keyed digest of the exact arguments; None without a key that another process can have."""
    key = own_key or call.secret_key
    return None if key.is_random else arguments_digest(call.arguments, key)


def _shown(arguments: Any) -> str:
    """Return redacted arguments as text: equal for equal ones."""
    return json.dumps(arguments, sort_keys=True)


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
        "result": jsonl.dump_results([result], redactor)[0],
        "chunks": jsonl.dump_results(chunks, redactor),
    }
    try:
        jsonl.append(file, {**line, **results})
    except OSError as error:
        jsonl.logger.error("Cannot record a call of tool %r in %r: %s.", call.name, file.name, error.strerror)
