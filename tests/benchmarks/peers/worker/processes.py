"""What is measured in fresh processes: the start of a program, and the memory that is resident in it."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.worker.adapter import NotOfferedError, PackageAdapter, value_of
from tests.benchmarks.peers.worker.subjects import fresh_function

TOOLS = 1_000
"""Tools that are made and used before the first reading, which fill what the imports left free, and after it."""
CONTEXTS = 5_000
"""Contexts, like tools."""
TIME_LIMIT = 120
"""Seconds that a process may take."""
STATM = Path("/proc/self/statm")
REPORT = f"print(open({str(STATM)!r}).read().split()[1])"
"""Prints the pages that are resident."""


def start_seconds(adapter: PackageAdapter) -> float:
    """Return the seconds of a process that imports the package, makes a tool and calls it once."""
    return _isolated(adapter.first_call)[1]


def start_memory(adapter: PackageAdapter) -> float:
    """Return the bytes that are resident in such a process before it ends."""
    _check_platform()
    return int(_isolated(f"{adapter.first_call}\n{REPORT}")[0]) * float(os.sysconf("SC_PAGE_SIZE"))


def reported(name: str, what: str) -> float:
    """Return what a fresh worker reports of itself."""
    _check_platform()
    answer = json.loads(_run("-m", "tests.benchmarks.peers.worker", name, what))
    if "not_offered" in answer:
        raise NotOfferedError(answer["not_offered"])
    return float(answer["cost"])


def tool_memory(adapter: PackageAdapter) -> float:
    """Return the resident bytes of each of many tools, made and exported once. It is for a fresh process."""
    return _growth(lambda: _used(adapter), TOOLS)


def context_memory(adapter: PackageAdapter) -> float:
    """Return the resident bytes of what holds the values of one user. It is for a fresh process."""
    numbers = iter(range(2 * CONTEXTS))
    return _growth(lambda: adapter.context(next(numbers)), CONTEXTS)


def _used(adapter: PackageAdapter) -> Any:
    tool = adapter.create(fresh_function())
    value_of(adapter.exporter(tool)())
    return tool


def _growth(make: Any, count: int) -> float:
    kept = [make() for _ in range(count)]
    gc.collect()
    before = _resident()
    kept += [make() for _ in range(count)]
    gc.collect()
    return (_resident() - before) / count


def _resident() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _check_platform() -> None:
    if not STATM.exists():
        raise NotOfferedError("cannot be measured on this system, which has no /proc")


def _isolated(program: str) -> tuple[str, float]:
    """Run a program without the folders of this one on the path; return its output and its seconds.

    It is a file, since some packages read the source of a function.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(program)
        start = time.perf_counter()
        return _run("-I", str(file)), time.perf_counter() - start


def _run(*arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    if finished.returncode:
        raise RuntimeError(f"A fresh process failed:\n{finished.stderr}")
    return finished.stdout
