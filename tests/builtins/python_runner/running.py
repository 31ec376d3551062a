"""Runs code, and finds what is left of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ahvn_tools import Toolkit, ToolResult
from ahvn_tools.builtins.processes.confinement import choose_sandbox
from ahvn_tools.builtins.processes.private_folder import private_folder
from ahvn_tools.builtins.python_runner import PythonRunner

LONGEST = 60.0
"""Seconds that code which ends by itself may take on a busy machine."""


def has_bubblewrap() -> bool:
    return choose_sandbox("auto") == "bubblewrap"


SANDBOXES = [
    pytest.param("bubblewrap", marks=pytest.mark.skipif(not has_bubblewrap(), reason="bubblewrap does not work here")),
    pytest.param("none", marks=pytest.mark.exhaustive if has_bubblewrap() else ()),
]


def run_once(code: str, *, session_id: str | None = None, **options: object) -> ToolResult:
    """Run code with a runner of its own, which asks nobody, and end the runner."""
    runner = PythonRunner(**{"approve": "never", "timeout": LONGEST, **options})
    try:
        return Toolkit("code").add(runner).exec("execute_python_code", {"code": code})
    finally:
        runner.close()


def left_processes() -> list[str]:
    """Return the command lines of all processes that were started with a temporary folder of this test process."""
    mark, left = os.fsencode(str(private_folder.path)), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if mark in (folder / "environ").read_bytes():
                    left.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # it has ended meanwhile
    return left


def left_folders() -> list[str]:
    """Return the temporary folders of interpreters that still exist."""
    return [path.name for path in private_folder.path.glob("python-*")]


def left_threads() -> list[threading.Thread]:
    """Return the threads that read the output of processes, and those that wait for idle sessions."""
    return [t for t in threading.enumerate() if isinstance(t, threading.Timer) or t.name == "process reader"]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
