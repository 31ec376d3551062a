"""The recording file: JSONL, with one line for each finished call.

`{"recording": 2, "tool", "fingerprint", "arguments", "digest", "result", "chunks"}`: secret arguments are `***`, bound
values are `<parameter>`; the digest is the HMAC of the exact arguments, or null without a key.
"""

from __future__ import annotations

import copy
import errno
import io
import json
import logging
import os
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import IO, Any, Final

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware import reporting
from ahvn_tools.regular_file import MAX_BYTES, open_regular
from ahvn_tools.results import ToolResult, without_raw_value

logger = logging.getLogger("ahvn_tools.middleware.record")

VERSION: Final = 2
"""The version of the line format."""

_LINE_START = b'{"recording":'
"""The beginning of every line, which identifies a line whose writer was killed."""

_LINE_TYPES: Final[dict[str, Any]] = {
    "recording": int,
    "tool": str,
    "fingerprint": str,
    "arguments": dict,
    "digest": str | None,
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


def prepare(file: Path) -> None:
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


def append(file: Path, line: JsonObject) -> None:
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


def read(file: Path) -> Iterator[JsonObject]:
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


def dump_results(results: Iterable[ToolResult], redactor: reporting.Redactor) -> list[JsonObject]:
    """Return results as redacted JSON, without empty members; of a raw value, what models read.

    They are redacted together, because a secret may be in several chunks of a stream.
    """
    plain = [_to_json(result) for result in results]
    joined = redactor.redact_joined(plain)
    return [_redact(parts, original, redactor) for parts, original in zip(joined, plain, strict=True)]


def _redact(parts: JsonObject, original: JsonObject, redactor: reporting.Redactor) -> JsonObject:
    """Return the redacted parts of a result; the names of members that a protocol defines stay, and its types."""
    redacted: JsonObject = {
        name: redactor(part, redact_keys=name in {"value", "structured_content"}) for name, part in parts.items()
    }
    if "error" in original:
        redacted["error"]["code"] = original["error"]["code"]
    for block, plain_block in zip(redacted.get("blocks", ()), original.get("blocks", ()), strict=True):
        block["type"] = plain_block["type"]
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
        "is_unwrapped": result.is_unwrapped or None,
        "blocks": None if blocks is None else [_dump_block(block) for block in blocks],
    }
    return {name: part for name, part in parts.items() if part is not None}


def _without_programs(meta: JsonObject) -> JsonObject:
    """Return metadata without a program that waits for approvals: its state cannot be redacted."""
    approval = meta.get("approval")
    if not isinstance(approval, dict) or approval.get("program") is None:
        return meta
    others = {name: value for name, value in meta.items() if name != "further_approvals"}
    return {**others, "approval": {**approval, "program": None}}


def load_result(line: JsonObject, *, id: str, is_last: bool = True) -> ToolResult:  # noqa: A002  # the field's name
    """Return a recorded result as a new object."""
    parts = copy.deepcopy(line)
    is_content = parts.pop("is_content", False)
    if "error" in parts:
        parts["error"] = ErrorDetail(**parts["error"])
    if "blocks" in parts:
        from mcp_types import ContentBlock
        from pydantic import TypeAdapter

        parts["blocks"] = TypeAdapter(tuple[ContentBlock, ...]).validate_python(parts["blocks"])
        if is_content:
            parts["value"] = list(parts["blocks"])
    return ToolResult(**parts, id=id, is_last=is_last)


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
    if isinstance(line, dict) and line.keys() >= _LINE_TYPES.keys() and line["recording"] != VERSION:
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
