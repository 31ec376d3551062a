"""Bodies that leave something running, and bodies that run after them. Workers import this module, so it is light."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ahvn_tools import ToolContext

LATE_SECONDS = 0.3
"""When a thread that a body has left sends something."""


def get_pid() -> int:
    return os.getpid()


def send_late(word: str, context: ToolContext) -> int:
    """Return at once; a thread sends output and progress later."""

    def send() -> None:
        time.sleep(LATE_SECONDS)
        context.append_output(f"late {word}")
        context.report_progress(1, 2, f"late {word}")

    threading.Thread(target=send).start()
    return os.getpid()


def greet(name: str, context: ToolContext) -> str:
    """Greet after the time at which the thread of `send_late` sends."""
    context.append_output("hello")
    time.sleep(2 * LATE_SECONDS)
    return name


def greet_without_context(name: str) -> str:
    """Greet after the time at which the thread of `send_late` sends."""
    time.sleep(2 * LATE_SECONDS)
    return name


def count_slowly(to: int) -> Iterator[int]:
    """Yield numbers, also after the time at which the thread of `send_late` sends."""
    for number in range(to):
        yield number
        time.sleep(LATE_SECONDS)


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


def find_pipes() -> list[int]:
    """Return the pipes of this process that have high numbers."""
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208  # names are numbers
    return [number for number in descriptors if number > 255 and _is_pipe(number)]


def _is_pipe(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:")  # noqa: PTH115  # a constant folder
    except OSError:  # it was closed meanwhile
        return False


def write_to(descriptors: Iterable[int], content: bytes) -> None:
    """Write to those descriptors that can be written to."""
    for descriptor in descriptors:
        try:
            os.write(descriptor, content)
        except OSError:
            continue
