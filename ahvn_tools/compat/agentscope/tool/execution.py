"""Functions that run code and commands with the rights of this process, and leave no process behind."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ahvn_tools.compat.agentscope.tool.response import ToolResponse, text_response
from ahvn_tools.errors import ToolError

KEPT_BYTES = 200_000
"""How much of stdout, and of stderr, is returned: the beginning and the end of a longer output."""

_TAG = re.compile("<(?=/?(?:returncode|stdout|stderr)>)")
_PROXY = re.compile("(?:http|https|ftp|all|no)_proxy", re.IGNORECASE)


async def execute_python_code(code: str, timeout: float = 300, **kwargs: Any) -> ToolResponse:  # noqa: ARG001  # ignored
    """Execute Python code in a new process, and return its return code, standard output and standard error.

    Args:
        code: The Python code. Print what you need.
        timeout: Seconds after which the code and all that it started are stopped.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return await _execute([sys.executable, "-u", _write_script(folder, code)], timeout, "code")


async def execute_shell_command(command: str, timeout: float = 300, **kwargs: Any) -> ToolResponse:  # noqa: ARG001  # ignored
    """Execute a shell command, and return its return code, standard output and standard error.

    Args:
        command: The command line.
        timeout: Seconds after which the command and all that it started are stopped.
    """
    return await _execute(["/bin/sh", "-c", command], timeout, "command")


def _write_script(folder: str, code: str) -> str:
    script = Path(folder, "code.py")
    script.write_text(code, "utf-8", errors="surrogatepass")
    return str(script)


async def _execute(program: list[str], timeout: float, what: str) -> ToolResponse:
    from ahvn_tools.builtins import Confinement, ProcessLimits, arun_process, clean_environment  # few programs need it

    proxies = [name for name, value in os.environ.items() if _PROXY.fullmatch(name) and "@" not in value]
    try:
        done = await arun_process(
            program, folder=Path.cwd(), confinement=Confinement(sandbox="none"),
            limits=ProcessLimits(timeout=timeout, file_bytes=None, kept_bytes=KEPT_BYTES, spooled_bytes=0),
            environment=clean_environment("VIRTUAL_ENV", *proxies, HOME=str(Path.home()), PYTHONUTF8="1"),
        )  # fmt: skip
    except (ToolError, FileNotFoundError) as error:  # the latter: the current folder was removed
        return _to_response(-1, "", str(error))
    stderr = done.stderr.text
    if done.ended_by == "timeout":
        late = f"TimeoutError: The {what} execution exceeded the timeout of {timeout} seconds."
        stderr = f"{stderr}\n{late}" if stderr else late
    if done.ended_by == "stopped":
        stderr += f"The {what} ended the process that watched it, and was ended itself."
    return _to_response(-1 if done.exit_code is None else done.exit_code, done.stdout.text, stderr)


def _to_response(returncode: int, stdout: str, stderr: str) -> ToolResponse:
    parts = {"returncode": returncode, "stdout": stdout, "stderr": stderr}
    text = "".join(f"<{name}>{_TAG.sub('&lt;', str(part))}</{name}>" for name, part in parts.items())
    return text_response(text, metadata=parts)
