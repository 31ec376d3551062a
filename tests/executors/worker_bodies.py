"""Bodies that the tests of executors share. Workers import this module, so it is light."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from ahvn_tools import ToolContext

WAIT = 30.0
"""How many seconds a body waits for something that should happen at once."""


class OddError(ValueError):
    """An exception with data."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return OddError, (self.args[0], self.number)


def add(a: int, b: int) -> int:
    return a + b


async def add_later(a: int, b: int) -> int:
    return a + b


def get_pid() -> int:
    return os.getpid()


def count(to: int) -> Iterator[int]:
    yield from range(to)


async def count_later(to: int) -> AsyncIterator[int]:
    for number in range(to):
        yield number


def wait_for(path: str) -> None:
    """Wait until a file exists."""
    end = time.monotonic() + WAIT
    while not Path(path).exists():
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.01)


def yield_and_wait(gate: str) -> Iterator[str]:
    """Yield, wait for a file, and yield again."""
    yield "before"
    wait_for(gate)
    yield "after"


def talk(lines: int, context: ToolContext) -> str:
    """Send output and progress, and return the last line."""
    for line in range(lines):
        context.append_output(f"line {line}")
        context.report_progress(line, lines, f"progress {line}")
    return f"line {lines}"


def output_and_wait(gate: str, context: ToolContext) -> str:
    """Send output, wait for a file, and return."""
    context.append_output("before")
    wait_for(gate)
    return "after"


async def deploy(target: str, context: ToolContext) -> str:
    """Ask, and return."""
    await context.aask(f"deploy to {target}", {"target": target})
    return f"deployed to {target}"


def fail(text: str) -> None:
    raise OddError(text, 7)


def append_pids(path: str) -> int:
    """Append the ids of this process and of its parent to a file, and return how many did so."""
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()} {os.getppid()}\n")
    return len(Path(path).read_text().splitlines())


def append_pids_and_wait(path: str, gate: str) -> None:
    """Append the process ids to a file, and wait for another file."""
    append_pids(path)
    wait_for(gate)


def hang(path: str) -> None:
    """Start a process and one in a session of its own; append all ids to a file, and hang."""
    child = f"import os, time; print(os.getpid(), file=open({path!r}, 'a'), flush=True); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", child])
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(600)


def hang_with_context(path: str, context: ToolContext) -> None:
    hang(path)


def yield_and_hang(path: str) -> Iterator[int]:
    yield 1
    hang(path)


def hang_once(path: str) -> int:
    """Append the process ids to a file; hang in the first run, and return the number of runs in the others."""
    runs = append_pids(path)
    if runs == 1:
        time.sleep(600)
    return runs


def die_once(path: str) -> int:
    """Append the process ids to a file; end the process in the first run, and return the number of runs later."""
    runs = append_pids(path)
    if runs == 1:
        os._exit(3)
    return runs


def read_state(context: ToolContext) -> dict[str, Any]:
    """Return what is there of the state."""
    return dict(context.state)


def read_state_and_wait(gate: str, context: ToolContext) -> dict[str, Any]:
    """Send output, wait for a file, and return what is there of the state."""
    context.append_output("started")
    wait_for(gate)
    return dict(context.state)


def return_bytes(size: int) -> bytes:
    """Return so many bytes."""
    return bytes(size)


def watch_context(path: str, context: ToolContext) -> str:
    """Wait until the call is cancelled, and say so in a file."""
    append_pids(f"{path}.started")
    end = time.monotonic() + WAIT
    while not context.cancelled and time.monotonic() < end:
        time.sleep(0.01)
    Path(path).write_text(str(context.cancelled))
    return "over"


def list_modules() -> list[str]:
    """Return the packages of MCP that are loaded."""
    return [name for name in ("fastmcp", "mcp") if name in sys.modules]
