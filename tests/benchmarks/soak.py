"""Keep the package busy with mixed work, and check that nothing is wrong or left: `python -m tests.benchmarks.soak`."""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import functools
import gc
import itertools
import logging
import os
import platform
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ahvn_tools import execution
from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.execution import background_loop
from ahvn_tools.execution.threads import MAX_IDLE_THREADS
from ahvn_tools.execution.workers.worker_process import process_pool
from ahvn_tools.mcp.trust.limits import Limits
from tests.benchmarks import workload
from tests.benchmarks.workload import MAX_WAIT, Answer, Work

SERVER = (sys.executable, "-m", "tests.benchmarks.workload")
THREADS, LOOPS, TASKS = 3, 2, 2
"""Threads of sync work, threads with an event loop, and tasks in each loop."""
GUESTS = 40
"""Users of the server over HTTP: more than the 32 connections that stay open, so that some are closed for others."""
SETTLE_SECONDS = 60.0
"""How long what was closed may take to end."""
KILL_SECONDS = 3.0
"""How long a server process runs at least before it is killed."""
GROWTH_MB = 12.0
"""How much memory may grow after the first third. A toolkit remembers its used approvals, and a limit its sessions, up
to 100,000 of each: some hundred bytes a call, 2 MB in half an hour of a slow machine, 10 MB of a fast one. The rest is
what malloc does not return. A leak of one kilobyte in each call is more than 12 MB in a run of two minutes."""
Special = Callable[..., Any]
"""A method of Work."""


class Tally:
    """What the work has found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.problems: list[str] = []
        self.wrong = self.lost = self.kills = 0

    def count(self, kind: str, answer: Answer) -> None:
        """Count a piece of work, and compare its answer."""
        found, expected = answer
        with self._lock:
            self.calls[kind] += 1
        if found != expected:
            self.report(f"{kind}: {found!r} instead of {expected!r}")

    def report(self, problem: str) -> None:
        """Count what is wrong, and keep the first ones."""
        with self._lock:
            self.wrong += 1
            if len(self.problems) < 20:
                self.problems.append(problem)

    def fail(self, kind: str, error: Exception) -> None:
        """Count an exception; calls of the server that is killed may lose their connection."""
        if kind == "remote" and isinstance(error, ToolConnectionError):
            with self._lock:
                self.lost += 1
        else:
            self.report(f"{kind}: {''.join(traceback.format_exception(error))}")


@dataclass(frozen=True, kw_only=True)
class Level:
    """What the process holds between two rounds."""

    memory: float
    """MB, after a garbage collection."""
    server_memory: float
    """MB of the server over HTTP."""
    threads: int
    """Without idle worker threads."""
    workers: int
    """Worker threads, which stay for the next call."""
    descriptors: int
    children: int
    tasks: int
    """On the background loop."""
    bodies: int
    """Bodies of tools that run, or are counted as abandoned."""

    def exceeds(self, other: Level) -> list[str]:
        """Return the names of what is more than in another level; memory has its own limit."""
        names = ("threads", "descriptors", "children", "tasks", "bodies")
        return [name for name in names if getattr(self, name) > getattr(other, name)]

    @classmethod
    def read(cls, server: psutil.Process | None) -> Level:
        """Read it now."""
        gc.collect()
        process = psutil.Process()
        workers = sum(thread.name == "ahvn-tools-worker" for thread in threading.enumerate())
        return cls(
            memory=process.memory_info().rss / 1e6,
            server_memory=server.memory_info().rss / 1e6 if server else 0,
            threads=threading.active_count() - workers,
            workers=workers,
            descriptors=process.num_fds() if hasattr(process, "num_fds") else process.num_handles(),
            children=len(process.children(recursive=True)),
            tasks=len(asyncio.all_tasks(background_loop.get_loop())),
            bodies=workload.running.total() + execution.abandoned(),
        )


class Soak:
    """Rounds of work on one toolkit. Each round has its own threads, event loops and connections to servers."""

    def __init__(self) -> None:
        self.kit = workload.toolkit()
        self.work = Work(self.kit)
        self.tally = Tally()
        self.levels: list[Level] = []
        self.numbers = itertools.count()
        self.stop = threading.Event()
        self.settle_seconds = SETTLE_SECONDS
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            self.server = subprocess.Popen(
                [*SERVER, "http", str(listening.fileno())], pass_fds=[listening.fileno()], stderr=subprocess.DEVNULL
            )

    def round(self, seconds: float, base: Level | None) -> None:
        """Work for so many seconds, end it, and read the level."""
        self.kit.add_mcp(
            [*SERVER, "stdio"],
            name="remote",
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
            limits=Limits(connect=MAX_WAIT, listing=MAX_WAIT),
            timeout=MAX_WAIT,
        )
        self.kit.add_mcp(
            self.url,
            name="web",
            auth=lambda state: {"x-key": workload.key_of(state.get("user", ""))},
            limits=Limits(connect=MAX_WAIT, listing=MAX_WAIT),
            timeout=MAX_WAIT,
        )
        self.stop.clear()
        targets: list[Callable[[], None]] = [self._work] * THREADS + [self._work_in_loop] * LOOPS
        targets += [functools.partial(self._work, [tool], ()) for tool in Work.PROCESSES]
        targets.append(lambda: self._work(["isolated"], Work.KILLING))
        threads = [threading.Thread(target=target, daemon=True) for target in targets]
        for thread in threads:
            thread.start()
        try:
            self._kill_servers(seconds)
        finally:
            self.stop.set()
            self._join(threads)
            self.kit.remove_mcp("remote").remove_mcp("web")
            process_pool.end_idle()
        self.levels.append(self._settled(base))

    def close(self) -> Level:
        """End all that was started, and read the level."""
        self.server.terminate()
        try:
            self.server.wait(60)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        process_pool.end_idle()
        return Level.read(None)

    def _work(self, plain: Sequence[str] = Work.PLAIN, special: Sequence[Special] = Work.SYNC) -> None:
        for kind, function, user, number in self._pieces(plain, special):
            try:
                answer = function(self.work, user, number) if function else self.work.plain(kind, user, number)
            except Exception as error:
                self.tally.fail(kind, error)
            else:
                self.tally.count(kind, answer)

    def _work_in_loop(self) -> None:
        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(TASKS):
                    group.create_task(self._work_in_task(Work.PLAIN, Work.ASYNC))
                for tool in Work.PROCESSES:
                    group.create_task(self._work_in_task([tool], ()))
            await self._check_tasks()

        asyncio.run(work())

    async def _check_tasks(self) -> None:
        """Report the tasks that calls have left in this event loop; what they clean up may take a moment."""
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            _, left = await asyncio.wait(others, timeout=SETTLE_SECONDS)
            for task in left:
                self.tally.report(f"a task is left: {task!r}")

    async def _work_in_task(self, plain: Sequence[str], special: Sequence[Special]) -> None:
        for kind, function, user, number in self._pieces(plain, special):
            try:
                work = function(self.work, user, number) if function else self.work.plain_later(kind, user, number)
                answer = await work
            except Exception as error:
                self.tally.fail(kind, error)
            else:
                self.tally.count(kind, answer)

    def _pieces(
        self, plain: Sequence[str], special: Sequence[Special]
    ) -> Iterator[tuple[str, Special | None, str, int]]:
        """Yield the next piece of work until the round ends: half of them plain calls, as long as there are others."""
        choice = random.Random(next(self.numbers)).choice
        while not self.stop.is_set():
            number = next(self.numbers)
            function = choice(special) if special and number % 2 else None
            kind = function.__name__ if function else choice(plain)
            yield kind, function, self._user(kind, number), number

    @staticmethod
    def _user(kind: str, number: int) -> str:
        return f"guest {number % GUESTS}" if kind == "web" else f"user {number}"

    def _kill_servers(self, seconds: float) -> None:
        """Kill the server over stdio again and again, each time after it has answered."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            answered = self.tally.calls["remote"]
            time.sleep(min(KILL_SECONDS, left))
            if self.tally.calls["remote"] == answered:
                continue
            for child in psutil.Process().children():
                try:
                    if "stdio" in child.cmdline():
                        child.kill()
                        self.tally.kills += 1
                except psutil.NoSuchProcess:
                    continue

    def _join(self, threads: list[threading.Thread]) -> None:
        end = time.monotonic() + MAX_WAIT
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))
        if any(thread.is_alive() for thread in threads):
            faulthandler.dump_traceback()
            self.tally.report("a call has not ended")

    def _settled(self, base: Level | None) -> Level:
        """Return the level once it is as low as the first, or else after some time: what was closed may still end."""
        process = psutil.Process(self.server.pid)
        end = time.monotonic() + self.settle_seconds
        while True:
            level, previous = Level.read(process), base
            if base is None:
                time.sleep(1)
                previous, level = level, Level.read(process)
            is_quiet = not level.bodies and previous is not None and not level.exceeds(previous)
            if is_quiet:
                return level
            if time.monotonic() > end:
                self.settle_seconds = 0  # what is left now is left after the next rounds, too
                return level
            time.sleep(0.2)


Cells = tuple[str, str, str, str, str, bool]
"""What was checked; at the start, after a third, at the end; what it must be, and whether it holds."""


def rows_of(soak: Soak, warm: int, last: Level) -> list[Cells]:
    """Return what was checked. The start is the end of the first round; growth counts from the first third on."""
    tally, later = soak.tally, soak.levels[warm:]
    silent = ", ".join(kind for kind in (*Work.PLAIN, *Work.PROCESSES) if not tally.calls[kind]) or "none"
    workers = max(level.workers for level in later)
    left = last.children + last.bodies
    return [
        ("wrong values and unexpected errors", "", "", f"{tally.wrong}", "0", not tally.wrong),
        ("tools that have never answered", "", "", silent, "none", silent == "none"),
        ("server processes killed", "", "", f"{tally.kills}", "≥ 1", tally.kills > 0),
        ("calls that lost their connection", "", "", f"{tally.lost}", "", True),
        *(_memory_row(soak.levels, warm, name) for name in ("memory", "server_memory")),
        *(_count_row(soak.levels, warm, name) for name in ("threads", "descriptors", "children", "tasks", "bodies")),
        ("idle worker threads", "", "", f"{workers}", f"≤ {MAX_IDLE_THREADS}", workers <= MAX_IDLE_THREADS),
        ("processes and bodies after the end", "", "", f"{left}", "0", not left),
    ]


def _memory_row(levels: list[Level], warm: int, name: str) -> Cells:
    values = [getattr(level, name) for level in levels]
    third = max(len(values[warm:]) // 3, 1)
    base, end = statistics.median(values[warm:][:third]), statistics.median(values[-third:])
    holds = end - base <= GROWTH_MB
    what = f"{name.replace('_', ' ')}, MB"
    return what, f"{values[0]:.1f}", f"{base:.1f}", f"{end:.1f}", f"+ {GROWTH_MB:.0f}", holds


def _count_row(levels: list[Level], warm: int, name: str) -> Cells:
    values = [getattr(level, name) for level in levels]
    base, most = values[warm - 1], max(values[warm:])
    end = f"{values[-1]}" if most <= base else f"{values[-1]}, at most {most}"
    return f"{name}, after a round", f"{values[0]}", f"{base}", end, f"≤ {base}", most <= base


def main(seconds: float) -> int:
    """Work for so many seconds, and print what was found."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("ahvn_tools").setLevel(logging.CRITICAL)  # tools fail on purpose, and servers are killed
    sys.setswitchinterval(0.0002)  # threads take turns often: more orders of events, and no thread waits long
    console = Console()
    rounds = int(min(max(seconds // 20, 6), 30))
    warm = rounds // 3
    soak = Soak()
    try:
        end = time.monotonic() + seconds
        for number in track(range(rounds), "working", console=console, transient=True):
            left = max(end - time.monotonic(), 0) / (rounds - number)
            soak.round(left, soak.levels[warm - 1] if number >= warm else None)
    finally:
        last = soak.close()
    rows = rows_of(soak, warm, last)
    title = f"Python {platform.python_version()}, {seconds:g} seconds in {rounds} rounds"
    table = Table("what", "start", "after a third", "end", "to hold", "", title=title, box=SIMPLE)
    for kind, count in sorted(soak.tally.calls.items()):
        table.add_row(f"[dim]{kind}[/]", "", "", f"{count:,}")
    for *cells, holds in rows:
        table.add_row(*cells, "[green]ok[/]" if holds else "[bold red]no[/]")
    for problem in soak.tally.problems:
        console.print(problem, markup=False, highlight=False)
    console.print(table)
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    try:
        sys.exit(main(parser.parse_args().seconds))
    except KeyboardInterrupt:
        sys.exit(130)
