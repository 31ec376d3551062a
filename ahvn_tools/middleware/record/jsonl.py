"""Recording: a JSONL file of calls and their results. A line is one call that has ended.

`{"recording": 1, "tool", "fingerprint", "arguments", "digest", "result", "chunks"}`: secret arguments stand as `***`,
values that were bound in the call as `<parameter>`; the digest is that of the exact arguments.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.middleware import redaction
from ahvn_tools.results import ErrorDetail, ToolResult

log = logging.getLogger(__name__)

JsonObject = dict[str, Any]

VERSION: Final = 1
"""Of the lines."""

_LINE_START = b'{"recording":'
"""How every line begins, and so what is left of one whose writer was killed."""

_LINE_KEYS = {"tool", "fingerprint", "arguments", "digest", "result", "chunks"}


def prepare(file: Path) -> None:
    """Make the file where there is none. Raises ToolSpecError when it cannot be written, or holds something else."""
    try:
        with file.open("a+b", buffering=0) as lines:
            lines.seek(0)
            first = lines.readline()
    except OSError as error:
        fix = "Give a file that can be written, in a folder that exists."
        raise ToolSpecError(f"Cannot record to {str(file)!r}: {error.strerror}. {fix}") from error
    if first:
        _parse_line(file, 1, first)


def append(file: Path, line: JsonObject) -> None:
    """Append a line in one write. What an earlier writer has left unfinished is ended first. Raises OSError.

    A writer who looks while another's line is half there ends that, too: then an empty line stands between the two.
    """
    text = json.dumps({"recording": VERSION, **line}, separators=(",", ":")).encode() + b"\n"
    with file.open("a+b", buffering=0) as lines:
        size = lines.seek(0, 2)
        lines.seek(max(size - 1, 0))
        if size and lines.read(1) != b"\n":
            text = b"\n" + text
        while text:  # a file takes it whole; only a full disk, or a signal, makes it two
            text = text[lines.write(text) :]


def read(file: Path) -> Iterator[JsonObject]:
    """Yield the lines of a recording. What is left of a line whose writer was killed is told in the log.

    Raises ToolSpecError for a file that cannot be read, or is no recording.
    """
    try:
        with file.open("rb") as lines:
            for number, text in enumerate(lines, 1):
                line = _parse_line(file, number, text)
                if line is not None:
                    yield line
                elif text.strip():
                    log.warning("Line %d of %r is cut off: its call is not replayed.", number, file.name)
    except OSError as error:
        raise ToolSpecError(f"Cannot replay {str(file)!r}: {error.strerror}. Record it first.") from error


def dump_result(result: ToolResult, redactor: redaction.Redactor) -> JsonObject:
    """Return a result as JSON, without what says nothing."""
    error, blocks = result.error, result.blocks
    is_content = blocks is not None and result.value == list(blocks)
    parts = {
        "value": None if is_content else redactor(redaction.as_json(result.value)),
        "is_content": is_content or None,
        "structured_content": redactor(redaction.as_json(result.structured_content)),
        "error": None if error is None else {"code": error.code, "message": redactor(error.message)},
        "meta": redactor(redaction.as_json(result.meta), redact_keys=False),
        "is_interrupted": result.is_interrupted or None,
        "blocks": None if blocks is None else [_dump_block(block, redactor) for block in blocks],
    }
    return {name: part for name, part in parts.items() if part is not None}


def load_result(line: JsonObject, *, id: str, is_last: bool = True) -> ToolResult:  # noqa: A002  # the field's name
    """Return the result that was written, of its own: nothing that is done to it reaches another."""
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


def _dump_block(block: Any, redactor: redaction.Redactor) -> JsonObject:
    made: JsonObject = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**redactor(made, redact_keys=False), "type": made["type"]}


def _parse_line(file: Path, number: int, text: bytes) -> JsonObject | None:
    """Return a line, or None for an empty or unfinished one. Raises ToolSpecError for anything else."""
    text = text.strip()
    try:
        line = json.loads(text)
    except ValueError:
        if text.startswith(_LINE_START) or _LINE_START.startswith(text):
            return None
        line = None
    if not isinstance(line, dict) or not line.keys() >= _LINE_KEYS:
        raise ToolSpecError(f"Line {number} of {str(file)!r} is no recorded call. Give a file that `record` has made.")
    if line.get("recording") != VERSION:
        raise ToolSpecError(f"{str(file)!r} was recorded by another version of the package. Record it anew.")
    return line
