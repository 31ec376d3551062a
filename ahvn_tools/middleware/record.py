"""Record and replay: the middleware that writes calls and results to a file, and the one that answers from it.

The file is JSONL, with one line for each finished call:
`{"recording": 3, "tool", "fingerprint", "arguments", "digest", "bound", "result", "chunks"}`. Secret arguments are
`***`, bound values are `<parameter>`. The digest is the HMAC of the exact arguments, or null without a key. `bound` is
the HMAC of the bound values, null without a key, and "" for a tool that has none.
"""

from __future__ import annotations

import copy
import errno
import io
import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import FileIO
from itertools import chain, repeat
from os import PathLike
from pathlib import Path
from typing import IO, Any, Final

from ahvn_tools.binding import chain_scopes
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolSpecError, suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.middleware.cache import CONTEXT_RESOLVERS, lasting_text, with_bound_values
from ahvn_tools.middleware.pending import FIRST_KEYS, FURTHER_KEY, arguments_digest
from ahvn_tools.redaction.texts import JsonRedactor
from ahvn_tools.regular_file import MAX_BYTES, open_regular
from ahvn_tools.results import ToolResult, without_raw_value
from ahvn_tools.secret_key import SecretKey
from ahvn_tools.state import MISSING

logger = logging.getLogger("ahvn_tools.middleware.record")

VERSION: Final = 3
"""The version of the line format."""

_BOUND_PURPOSE: Final = "bound values of a recorded call"

_UNBOUND: Final = ""
"""The `bound` of a call that has no bound values."""

_LINE_START = b'{"recording":'
"""The beginning of every line, which identifies a line whose writer was killed."""

_LINE_TYPES: Final[dict[str, Any]] = {
    "recording": int,
    "tool": str,
    "fingerprint": str,
    "arguments": dict,
    "digest": str | None,
    "bound": str | None,
    "result": dict,
    "chunks": list,
}
_RESULT_TYPES: Final[dict[str, Any]] = {
    "value": object,
    "is_content": bool,
    "structured_content": dict,
    "error": dict,
    "meta": dict,
    "is_interrupted": bool,
    "is_unwrapped": bool,
    "blocks": list,
}


_FIXED_KEYS: Final = frozenset(
    {*_RESULT_TYPES, "code", "message", "type", "text", "data", "mimeType", "uri", "resource", "blob", "name", "title"}
    | {"description", "size", "icons", "annotations", "audience", "priority", "lastModified", "_meta"}
)
"""The members of a line and of MCP's content blocks, whose names are no text of a tool."""


def prepare_file(file: Path) -> None:
    """Create the file if it is missing. Raises ToolSpecError if it is not writable or not a recording."""
    try:
        with io.BufferedReader(_open_to_append(file)) as lines:
            lines.seek(0)
            first = next(_iterate_lines(lines), b"")
    except OSError as error:
        fix = "Choose a writable regular file in an existing folder."
        raise ToolSpecError(f"Cannot record to {str(file)!r}: {error.strerror}. {fix}") from error
    if first:
        _parse_line(file, 1, first)


def append_line(file: Path, line: JsonObject) -> None:
    """Append a line with one write, after a newline if the last line is unfinished. Raises OSError.

    Of two writers at once, one may take the other's line for unfinished; the result is an empty line between the two.
    """
    text = json.dumps({"recording": VERSION, **line}, separators=(",", ":")).encode() + b"\n"
    with _open_to_append(file) as lines:
        size = lines.seek(0, 2)
        lines.seek(max(size - 1, 0))
        if size and lines.read(1) != b"\n":
            text = b"\n" + text
        while text:  # one write is enough, unless the disk is full or a signal arrives
            text = text[lines.write(text) :]


def read_lines(file: Path) -> Iterator[JsonObject]:
    """Yield the lines of a recording. Logs a warning for an unfinished line, whose writer was killed.

    Raises ToolSpecError for a file that is not readable or not a recording.
    """
    try:
        with os.fdopen(open_regular(os.path.realpath(file), os.O_RDONLY), "rb") as lines:
            for number, text in enumerate(_iterate_lines(lines), 1):
                line = _parse_line(file, number, text)
                if line is not None:
                    yield line
                elif text.strip():
                    logger.warning("Line %d of %r is incomplete: its call is not replayed.", number, file.name)
    except OSError as error:
        raise ToolSpecError(f"Cannot replay {str(file)!r}: {error.strerror}. Record it first.") from error


def _iterate_lines(lines: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file. Raises OSError for one that is too long for the memory."""
    while text := lines.readline(MAX_BYTES + 1):
        if len(text) > MAX_BYTES:
            raise OSError(errno.EFBIG, f"It has a line of more than {MAX_BYTES:,} bytes")
        yield text


def _open_to_append(file: Path) -> FileIO:
    return os.fdopen(open_regular(file, os.O_RDWR | os.O_APPEND | os.O_CREAT), "a+b", buffering=0)


def dump_results(results: Iterable[ToolResult], redact: JsonRedactor) -> list[JsonObject]:
    """Return results as redacted JSON, without empty members; of a raw value, what models read.

    They are redacted together, because a secret may be in several chunks of a stream. Codes of errors and types of
    blocks stay.
    """
    plain = [_to_json(result) for result in results]
    redacted: list[JsonObject] = redact(plain)
    for parts, original in zip(redacted, plain, strict=True):
        if "error" in original:
            parts["error"]["code"] = original["error"]["code"]
        for block, original_block in zip(parts.get("blocks", ()), original.get("blocks", ()), strict=True):
            block["type"] = original_block["type"]
    return redacted


def _to_json(result: ToolResult) -> JsonObject:
    result = without_raw_value(result)
    error, blocks = result.error, result.blocks
    is_content = blocks is not None and result.value == list(blocks)
    parts = {
        "value": None if is_content else reporting.as_json(result.value),
        "is_content": is_content or None,
        "structured_content": reporting.as_json(result.structured_content),
        "error": None if error is None else {"code": error.code, "message": error.message},
        "meta": reporting.as_json(_without_programs(result.meta)),
        "is_interrupted": result.is_interrupted or None,
        "is_unwrapped": result._is_unwrapped or None,  # noqa: SLF001  # of this package
        "blocks": None if blocks is None else [_dump_block(block) for block in blocks],
    }
    return {name: part for name, part in parts.items() if part is not None}


def _without_programs(meta: JsonObject) -> JsonObject:
    """Return metadata without a program that waits for approvals: its state cannot be redacted."""
    key = next((key for key in FIRST_KEYS if isinstance(meta.get(key), dict)), None)
    if key is None or meta[key].get("program") is None:
        return meta
    others = {name: value for name, value in meta.items() if name != FURTHER_KEY}
    return {**others, key: {**meta[key], "program": None}}


def load_result(line: JsonObject, *, id: str, is_last: bool = True) -> ToolResult:  # noqa: A002  # the field's name
    """Return a recorded result as a new object."""
    parts = copy.deepcopy(line)
    is_content, is_unwrapped = parts.pop("is_content", False), parts.pop("is_unwrapped", False)
    if "error" in parts:
        parts["error"] = ErrorDetail(**parts["error"])
    if "blocks" in parts:
        from mcp_types import ContentBlock
        from pydantic import TypeAdapter

        parts["blocks"] = TypeAdapter(tuple[ContentBlock, ...]).validate_python(parts["blocks"])
        if is_content:
            parts["value"] = list(parts["blocks"])
    return ToolResult(**parts, id=id, is_last=is_last, _is_unwrapped=is_unwrapped)


def _dump_block(block: Any) -> JsonObject:
    dumped: JsonObject = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _parse_line(file: Path, number: int, text: bytes) -> JsonObject | None:
    """Return a line; None for an empty or unfinished one. Raises ToolSpecError for any other text."""
    text = text.strip()
    try:
        line = json.loads(text)
    except RecursionError:
        line = None
    except ValueError:
        if text.startswith(_LINE_START) or _LINE_START.startswith(text):
            return None
        line = None
    if isinstance(line, dict) and line.keys() >= _LINE_TYPES.keys() - {"bound"} and line["recording"] != VERSION:
        raise ToolSpecError(f"{str(file)!r} was recorded by another version of the package. Record it again.")
    if not _has_types(line, _LINE_TYPES) or not all(map(_is_result, [line["result"], *line["chunks"]])):
        raise ToolSpecError(f"Line {number} of {str(file)!r} is not a recorded call. Use a file written by `record`.")
    recorded: JsonObject = line
    return recorded


def _is_result(parts: Any) -> bool:
    """Return whether `load_result` can load a part of a line."""
    if not isinstance(parts, dict) or not _has_types(parts, {name: _RESULT_TYPES.get(name, ()) for name in parts}):
        return False
    if "error" in parts and not _has_types(parts["error"], {"code": str, "message": str}):
        return False
    try:
        load_result(parts, id="")
    except (ValueError, RecursionError):  # blocks that are no content of MCP
        return False
    return True


def _has_types(value: Any, types: dict[str, Any]) -> bool:
    """Return whether a value is an object with these members and no other, each of its type."""
    return (
        isinstance(value, dict)
        and value.keys() == types.keys()
        and all(isinstance(value[name], kind) for name, kind in types.items())
    )


@suggests_options
def record(path: str | PathLike[str], *, secret_key: str | bytes | None = None) -> Middleware:
    """Return middleware that appends every finished call, with its chunks and its result, to the JSONL file `path`.

    Cancelled calls are not recorded. Each line is one append, so threads, loops and processes may write to the same
    file; it is closed after each line. A line that cannot be written is logged as an error; the call's result stays.

    `secret_key`, at least 16 bytes and by default the toolkit's own if it was set, makes calls distinguishable that
    differ only in secret arguments or in bound values: their HMACs are written. Without a key nothing is written that
    depends on a secret, and calls with bound values are not replayed: the log has a warning for each such tool.
    Raises ToolSpecError for a short key, and if the file is not writable or not a recording.
    """
    file, own_key = Path(path).absolute(), _own_key(secret_key)
    prepare_file(file)
    warned: set[str] = set()

    async def record_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        key = _usable_key(call, own_key)
        line: JsonObject = {
            "tool": call.name,
            "fingerprint": call.definition.fingerprint,
            "arguments": reporting.redact_arguments(call),  # before the body can change them
            "digest": key and arguments_digest(call.arguments, key),
            "bound": None,
        }
        chunks: list[ToolResult] = []
        try:
            call, line["bound"] = await _digest_bound_values(call, key)
            if line["bound"] is None and call.name not in warned:
                warned.add(call.name)
                text = "Tool %r reads bound values or the state: a replay of its calls needs a secret_key."
                logger.warning(text, call.name)
            result = await next(_collect_chunks(call, chunks))
        except Exception as error:
            _append_line(file, call, line, chunks, reporting.exception_result(call, error))
            raise
        is_cancelled = result.is_interrupted and (result.error is None or result.error.code == "cancelled")
        if not is_cancelled:
            _append_line(file, call, line, chunks, result)
        return result

    return record_call


class _Recording:
    """The lines of a file, by call."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines: dict[tuple[str, str, str | None], list[JsonObject]] = {}
        for line in read_lines(file):
            call = line["tool"], line["digest"] or _shown(line["arguments"]), line["bound"]
            self._lines.setdefault(call, []).append(line)
        self._next_lines = {call: chain(lines, repeat(lines[-1])) for call, lines in self._lines.items()}

    def next_line(self, call: Call, key: SecretKey | None, bound: str | None) -> JsonObject | None:
        """Return the line that answers a call, each one once and then the last one again."""
        arguments = [] if key is None else [arguments_digest(call.arguments, key)]
        arguments.append(_shown(reporting.redact_arguments(call)))
        for shown in arguments if bound is not None else ():
            if (lines := self._next_lines.get((call.name, shown, bound))) is not None:
                return next(lines)  # atomic: threads do not receive the same one
        return None

    def missing_text(self, call: Call, bound: str | None) -> str:
        """Return why there is no line for a call."""
        name, tool = self._file.name, call.name
        lines = [line for (recorded, *_), lines in self._lines.items() if recorded == tool for line in lines]
        if not lines:
            return f"{name!r} has no call of tool {tool!r}."
        if bound is None:
            fix = "Pass the same secret_key to `record` and `replay`, or to the toolkits."
            return f"Calls of tool {tool!r} read bound values or the state, which only a secret_key can compare. {fix}"
        values = " and bound values" if bound else ""
        is_without_key = bool(bound) and any(line["bound"] is None for line in lines)
        other = ", or it was recorded with another secret_key" if any(line["digest"] for line in lines) else ""
        other = ", or it was recorded without a secret_key" if is_without_key else other
        return f"{name!r} has no call of tool {tool!r} with these arguments{values}{other}."


@suggests_options
def replay(
    path: str | PathLike[str], *, allow_changed: bool = False, secret_key: str | bytes | None = None
) -> Middleware:
    """Return middleware that answers calls from the recording `path`; neither the tool nor inner middleware runs.

    A call matches a recording of the same tool with the same arguments: exactly the same ones if it was recorded with
    the `secret_key` that is used here, else those that the recording shows, with `***` for secrets. Bound values must
    be the same, too: a call that has some is replayed only with the `secret_key` of its recording. Several recordings
    of one call are used in order, for all sessions together; the last one is repeated. A call without a recording is
    an error `not_available`. If the tool has changed since the recording, the call is an error `changed`; with
    `allow_changed` it is the recorded result with `meta["changed"]`, and a warning in the log.
    Raises ToolSpecError for a short key, and if the file is not readable or not a recording.
    """
    file, own_key = Path(path).absolute(), _own_key(secret_key)
    recording = _Recording(file)

    async def replay_call(call: Call, _next: Next) -> ToolResult:
        key = _usable_key(call, own_key)
        call, bound = await _digest_bound_values(call, key)
        line = recording.next_line(call, key, bound)
        if line is None:
            return _replay_error(call, "not_available", recording.missing_text(call, bound))
        is_changed = line["fingerprint"] != call.definition.fingerprint
        if is_changed and not allow_changed:
            return _replay_error(call, "changed", f"Tool {call.name!r} has changed since {file.name!r} was recorded.")
        if call.emit is not None:
            for chunk in line["chunks"]:
                await call.emit(load_result(chunk, id=call.id, is_last=False))
        result = load_result(line["result"], id=call.id)
        for name, kind in FIRST_KEYS.items():
            if name in result.meta:  # the recorded request has another call id and session
                result.meta[name] = kind.from_call(call).to_json()
                result.meta.pop(FURTHER_KEY, None)
        if is_changed:
            logger.warning("Tool %r has changed since %r was recorded.", call.name, file.name)
            result.meta["changed"] = True
        return result

    return replay_call


def _own_key(secret_key: str | bytes | None) -> SecretKey | None:
    return None if secret_key is None else SecretKey.create(secret_key)


def _usable_key(call: Call, own_key: SecretKey | None) -> SecretKey | None:
    """Return the key for digests; None without one that another process can have."""
    key = own_key or call.secret_key
    return None if key.is_random else key


async def _digest_bound_values(call: Call, key: SecretKey | None) -> tuple[Call, str | None]:
    """Return a call whose bound values were read, and their digest: `_UNBOUND` if it has none, None without a key.

    A value that is no data, such as a connection, counts by its type. For a tool that takes the ToolContext, the state
    is included.
    Raises as `runner.prepare` does.
    """
    state = dict(chain_scopes(call.state_scopes)) if call.plan.depends_on_context else {}
    if not state and all(bound.binding.resolver in CONTEXT_RESOLVERS for bound in call.plan.bound_parameters):
        return call, _UNBOUND
    if key is None:
        return call, None
    call, values = await with_bound_values(call)
    texts = [
        {name: lasting_text(value) for name, value in named.items() if value is not MISSING}
        for named in (values, state)
    ]
    return call, key.digest(_BOUND_PURPOSE, texts)


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
        if "waiting" not in chunk.meta:  # the id of a request that a replay does not have
            chunks.append(chunk)
        await emit(chunk)

    return replace(call, emit=emit_collected)


def _append_line(file: Path, call: Call, line: JsonObject, chunks: list[ToolResult], result: ToolResult) -> None:
    redact = reporting.make_redactor(call, fixed_keys=_FIXED_KEYS)
    results = {
        "result": dump_results([result], redact)[0],
        "chunks": dump_results(chunks, redact),
    }
    try:
        append_line(file, {**line, **results})
    except OSError as error:
        logger.error("Cannot record a call of tool %r in %r: %s.", call.name, file.name, error.strerror)  # noqa: TRY400
