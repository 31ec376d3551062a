"""Bodies that leave something running, and bodies that run after them. Workers import this module, so it is light."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


def get_pid() -> int:
    return os.getpid()


def leave_child(path: str, way: str = "same session") -> int:
    """Start a process that runs on, write its id to a file, and return the worker's id."""
    if way == "fork":
        child = os.fork()
        if child == 0:
            time.sleep(600)
        Path(path).write_text(f"{child}\n")
    elif way == "returning fork":
        child = os.fork()
        if child != 0:
            Path(path).write_text(f"{child}\n")
    elif way == "popen":
        Path(path).write_text(f"{subprocess.Popen(['sleep', '600']).pid}\n")
    else:
        program = "setsid sleep 600" if way == "new session" else "sleep 600"
        subprocess.run(f"{program} & echo $! > {path}; exit 0", shell=True, check=True)
    return os.getpid()


def sleep_long() -> None:
    time.sleep(600)


def wait_for(path: str) -> int:
    """Write the process id to a file, wait until it is deleted, and return the process id."""
    Path(path).write_text(f"{os.getpid()}\n")
    end = time.monotonic() + 60
    while Path(path).exists() and time.monotonic() < end:
        time.sleep(0.005)
    return os.getpid()


def count_up(to: int) -> Iterator[int]:
    """Yield the numbers below a limit."""
    yield from range(to)
