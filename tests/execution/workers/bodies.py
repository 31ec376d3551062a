"""Bodies that the tests of isolation share, and that programs of these tests import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from ahvn_tools import ToolSpec
from tests.execution.entry_points import until

LIMIT = 1.0
"""The timeout of bodies that hang, in seconds: enough to write a process id first."""


def isolated(body: Callable[..., Any], **options: Any) -> ToolSpec:
    return ToolSpec.from_function(body, isolation="process", **options)


def get_pid() -> int:
    return os.getpid()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def read_pids(path: Path, lines: int = 1) -> list[int]:
    """Wait until a file has so many process ids, and return them."""

    def has_all() -> bool:
        return path.exists() and len(path.read_text().split()) >= lines

    assert until(has_all)
    return [int(word) for word in path.read_text().split()]


def hang(path: str) -> None:
    """Write the process id to a file, then hang."""
    Path(path).write_text(f"{os.getpid()}\n")
    time.sleep(600)


def start_children(path: str, ignores_sigterm: bool = False) -> None:
    """Start three kinds of children, write all process ids to a file, then hang."""
    if ignores_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(path).write_text(f"{os.getpid()}\n")
    child = f"import os, time; print(os.getpid(), file=open({path!r}, 'a'), flush=True); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", child])
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    twice = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
    subprocess.run([sys.executable, "-c", twice], start_new_session=True, check=True)
    time.sleep(600)
