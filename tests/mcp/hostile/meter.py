"""Measurements while a hostile server runs: how long event loops were blocked, and which processes are left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ahvn_tools.execution import background_loop

TICK = 0.01


@dataclass
class Stall:
    """The longest time in seconds for which a loop was blocked, without the time in which others had the processors."""

    worst: float = 0.0

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            began, waited = time.monotonic(), _queued() + _stolen()
            await asyncio.sleep(TICK)
            self.worst = max(self.worst, time.monotonic() - began - TICK - (_queued() + _stolen() - waited))


def _queued() -> float:
    """Return for how many seconds this thread was ready to run while another process had the processor."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError):  # not on Linux
        return 0.0


def _stolen() -> float:
    """Return for how many seconds other virtual machines had the processors of this one, all together."""
    return getattr(psutil.cpu_times(), "steal", 0.0)


@contextlib.asynccontextmanager
async def measured() -> AsyncIterator[tuple[Stall, Stall]]:
    """Measure the caller's loop and the background loop during a `with` block."""
    mine, background = Stall(), Stall()
    here = asyncio.create_task(mine.watch())
    there = asyncio.run_coroutine_threadsafe(background.watch(), background_loop.get_loop())
    await asyncio.sleep(2 * TICK)
    try:
        yield mine, background
        await asyncio.sleep(2 * TICK)  # the tick after a stall detects it
    finally:
        here.cancel()
        there.cancel()


async def count_resources() -> tuple[int, int]:
    """Return the number of open file descriptors, and of tasks on the background loop."""

    async def tasks() -> int:
        return len(asyncio.all_tasks()) - 1

    running = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(tasks(), background_loop.get_loop()))
    gc.collect()
    return psutil.Process().num_fds(), running


def find_processes(mark: str) -> list[psutil.Process]:
    """Return the processes with `mark` in their command line, orphans included, and zombies of this process."""
    return [process for process in psutil.process_iter(["ppid", "cmdline", "status"]) if _is_found(process.info, mark)]


def _is_found(about: dict[str, Any], mark: str) -> bool:
    is_zombie = about["status"] == psutil.STATUS_ZOMBIE and about["ppid"] == os.getpid()
    return is_zombie or mark in (about["cmdline"] or ())
