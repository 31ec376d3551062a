"""Functions that read and write any text file of this machine that its user may, unless a variable forbids it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from ahvn_tools.compat.agentscope.tool.response import ToolResponse, text_response

log = logging.getLogger(__name__)

VARIABLE = "AGENTSCOPE_DANGEROUS_TEXT_IO"
"""What happens to a call: `deny` blocks it, `warn` (the default) logs a warning, `allow` only runs it."""
BLOCKED = "Blocked by policy: raw OS file access is disabled. Use FileSystem service tools instead."

REST_HINT = "Go on with execute_python_code, such as: print(list(open(FILE))[{line} - 1][{character} - 1:][:2000])"
"""These functions read whole lines only."""


async def view_text_file(file_path: str, ranges: list[int] | None = None) -> ToolResponse:
    """View a text file with the numbers of its lines.

    Args:
        file_path: The path of the file.
        ranges: The first and the last line to view, as in [1, 100]; negative ones count from the end, so that
            [-100, -1] are the last 100 lines. Without it, the whole file.
    """
    return await _call("view_text_file", file_path, ranges=ranges)


async def write_text_file(file_path: str, content: str, ranges: list[int] | None = None) -> ToolResponse:
    """Create a text file, replace its whole content, or replace some of its lines.

    Args:
        file_path: The path of the file.
        content: The new text.
        ranges: The first and the last line that the content replaces, as in [1, 100]; negative ones count from the end.
            Without it, the whole file is replaced.
    """
    return await _call("write_text_file", file_path, content=content, ranges=ranges)


async def insert_text_file(file_path: str, content: str, line_number: int) -> ToolResponse:
    """Insert lines into a text file.

    Args:
        file_path: The path of the file.
        content: The new lines.
        line_number: The number of the line before which the content is inserted, from 1; the number of lines plus 1
            inserts it at the end.
    """
    return await _call("insert_text_file", file_path, content=content, line_number=line_number)


async def _call(tool: str, file_path: str, **arguments: Any) -> ToolResponse:
    from ahvn_tools.builtins import Workspace  # few programs need it

    policy = os.environ.get(VARIABLE, "").strip().lower()
    policy = policy if policy in {"deny", "allow"} else "warn"
    metadata = {
        "dangerous_io": True, "policy": policy, "tool": tool, "path": file_path, "blocked": policy == "deny",
        "reason": "bypass_filesystem",
    }  # fmt: skip
    if policy == "deny":
        return text_response(BLOCKED, metadata=metadata)
    if policy == "warn":
        log.warning("%s uses %.500r outside of any workspace. Set %s to deny or allow.", tool, file_path, VARIABLE)
    if not _has_current_folder():
        return text_response("Error: The current folder does not exist any more.", metadata=metadata)
    files = Workspace([".", "/"], approve="never", hard_links="allow")
    files.rest_hint = REST_HINT
    path = _expand(file_path)
    result = await files.toolspec(tool).aexec(uri=path, **arguments)
    text = result.text if result.error is None else _error_text(tool, path, result.text)
    return text_response(text, metadata=metadata)


def _has_current_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _expand(path: Any) -> Any:
    if not isinstance(path, str | os.PathLike):  # the tool says what it is
        return path
    return os.path.expanduser(path)  # noqa: PTH111  # Path would change the spelling of other paths


def _error_text(tool: str, path: Any, text: str) -> str:
    if tool == "write_text_file":
        return f"Error: {text.removeprefix('InvalidArgumentError: ')}"
    if text.startswith("InvalidArgument"):
        return text
    has_path = isinstance(path, str) and os.path.lexists(path)  # Path raises for some paths
    if has_path and not os.path.isfile(path):  # noqa: PTH113  # as above
        return f"Error: The path {path} is not a file."
    return f"Error: The file {path} does not exist." if text.startswith("There is no file") else f"Error: {text}"
