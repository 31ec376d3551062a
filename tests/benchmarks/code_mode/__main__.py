"""Measure code mode beside plain calls and other packages: `python -m tests.benchmarks.code_mode --help`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.benchmarks.code_mode import table
from tests.benchmarks.code_mode.packages import PACKAGES, CodePackage
from tests.benchmarks.code_mode.results import Results
from tests.benchmarks.code_mode.rows import ROWS
from tests.benchmarks.peers import page, rounds
from tests.benchmarks.peers import table as peers_table
from tests.benchmarks.peers.__main__ import WIDTH, common_options
from tests.benchmarks.peers.environments import python_of
from tests.benchmarks.peers.packages import OURS
from tests.benchmarks.peers.results import this_machine
from tests.benchmarks.peers.worker_process import WorkerProcess

WORKER = "tests.benchmarks.code_mode.worker"
CORPUS = "GITHUB_MCP_TOOLS"
"""The environment variable with the path of the recorded tools."""
BEGIN = "<!-- code mode: written by `python -m tests.benchmarks.code_mode --write` -->"
END = "<!-- end of code mode -->"
LIMITS = {"three": 0.010}
"""Seconds that ours may take."""


def options() -> ArgumentParser:
    """Return the options of the command."""
    names = (row.name for row in ROWS), (package.name for package in PACKAGES)
    parser = common_options("python -m tests.benchmarks.code_mode", __doc__, *names)
    parser.add_argument(
        "--tools",
        type=Path,
        default=os.environ.get(CORPUS),
        help=f"GitHub's recorded tools, as MCP lists them, one a line; by default the path in {CORPUS}",
    )
    return parser


async def run(arguments: Namespace, console: Console) -> Results:
    """Install the packages and measure everything."""
    results = Results(machine=this_machine())
    async with contextlib.AsyncExitStack() as stack:
        workers = {}
        for package in _packages(arguments):
            worker = await stack.enter_async_context(_worker(package, arguments, console))
            workers[package.name] = worker
            answer = await _ask(worker, package=package.environment.removeprefix("code-mode-"))
            results.versions[package.environment.removeprefix("code-mode-")] = answer["version"]
        ours = await _ask(workers[OURS], rounds=arguments.rounds)
        results.twenty, results.approval = ours["conversations"], ours["approval"]
        if arguments.tools is None:
            console.print(f"Not measured: the task with recorded tools, because neither --tools nor {CORPUS} is given.")
        else:
            for worker in workers.values():
                answer = await _ask(worker, corpus=str(arguments.tools.resolve(strict=True)))
                results.github += answer["conversations"]
        for row in ROWS if arguments.rows is None else [row for row in ROWS if row.name in arguments.rows]:
            start = time.perf_counter()
            results.rows[row.name] = await rounds.measure(row, workers, arguments.rounds)
            console.print(f"{row.name}: {time.perf_counter() - start:.0f} s", style="dim")
    return results


async def _ask(worker: WorkerProcess, **request: Any) -> dict[str, Any]:
    answer = await worker.ask(**request)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def _packages(arguments: Namespace) -> list[CodePackage]:
    return [each for each in PACKAGES if arguments.peers is None or each.name in {OURS, *arguments.peers}]


def _worker(package: CodePackage, arguments: Namespace, console: Console) -> WorkerProcess:
    with console.status(f"environment of {package.name}"):
        named = replace(package, name=package.environment)
        python = python_of(named, arguments.environments, is_fresh=arguments.fresh)
    return WorkerProcess(package, python, WORKER)


def missed(results: Results) -> list[str]:
    """Return a line for each limit that was exceeded, and for rows in which FastMCP's code mode takes less time."""
    lines = []
    for name, limit in LIMITS.items():
        costs = results.rows.get(name)
        if costs is not None and costs.cost(OURS) > limit:
            lines.append(f"{name}: {costs.cost(OURS):.4f} s, and at most {limit} s are allowed.")
        if costs is not None and "fastmcp" in costs.by_package and costs.ratio("fastmcp").median <= 1:
            lines.append(f"{name}: FastMCP's code mode takes no more time than ours.")
    return lines


def main(texts: list[str]) -> int:
    """Do what the options say; return 1 if a package failed in a row, or a limit was exceeded."""
    arguments = options().parse_args(texts)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if arguments.no_run:
        results = Results.load(arguments.json)
    else:
        results = asyncio.run(run(arguments, console))
        if arguments.json:
            results.save(arguments.json)
    for sheet in table.sheets(results):
        console.print(peers_table.terminal(sheet))
    for line in table.not_first(results):
        console.print(f"not first: {line}")
    if arguments.write:
        whole = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(page.replaced(whole, table.text(results), BEGIN, END), encoding="utf-8")
    problems = [*(f"failed: {line}" for line in peers_table.failures(results.rows)), *missed(results)]
    for line in problems:
        console.print(line, style="red")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
