"""Compare ahvn-tools with other packages: `python -m tests.benchmarks.peers --help`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from tests.benchmarks.peers import page, rounds, table
from tests.benchmarks.peers.environments import default_folder, python_of
from tests.benchmarks.peers.packages import OURS, PACKAGES, Package
from tests.benchmarks.peers.results import Results, this_machine
from tests.benchmarks.peers.rows import ROWS, Row
from tests.benchmarks.peers.worker_process import WorkerProcess

WIDTH = 170
"""Columns of the tables where there is no terminal."""


def common_options(prog: str, description: str | None, rows: Iterable[str], packages: Iterable[str]) -> ArgumentParser:
    """Return the options of a comparison with other packages."""
    parser = ArgumentParser(prog=prog, description=description)
    parser.add_argument("--rows", nargs="*", choices=list(rows), help="measure only these rows")
    parser.add_argument("--peers", nargs="*", choices=list(packages), help="only these packages")
    parser.add_argument("--rounds", type=int, default=15, help="rounds for each row (15); slow rows take fewer")
    parser.add_argument("--environments", type=Path, default=default_folder(), help="the folder of the environments")
    parser.add_argument("--fresh", action="store_true", help="make the environments anew, with the newest versions")
    parser.add_argument("--json", type=Path, help="keep the results here")
    parser.add_argument("--write", type=Path, help="write the tables into this page, between its marks")
    parser.add_argument("--no-run", action="store_true", help="measure nothing: show and write what --json holds")
    return parser


def options() -> ArgumentParser:
    """Return the options of the command."""
    parser = common_options("python -m tests.benchmarks.peers", __doc__, (row.name for row in ROWS), _names())
    parser.add_argument("--plot", type=Path, help="write a plot here, as PNG and as SVG: the path without an ending")
    return parser


async def run(arguments: Namespace, results: Results, console: Console) -> None:
    """Install the packages, measure the rows, and keep the results after each row."""
    chosen = [package for package in PACKAGES if package.name in {OURS, *(arguments.peers or _names())}]
    results.machine = this_machine()
    async with contextlib.AsyncExitStack() as stack:
        workers = {}
        for package in chosen:
            workers[package.name] = await stack.enter_async_context(_worker(package, arguments, console))
            results.packages[package.name] = await rounds.facts(package.name, workers[package.name])
            console.print(f"{package.name} {results.packages[package.name].version}")
        for row in _rows(arguments):
            start = time.perf_counter()
            results.rows[row.name] = await rounds.measure(row, workers, arguments.rounds)
            console.print(f"{row.name}: {time.perf_counter() - start:.0f} s", style="dim")
            if arguments.json:
                results.save(arguments.json)


def _worker(package: Package, arguments: Namespace, console: Console) -> WorkerProcess:
    with console.status(f"environment of {package.name}"):
        python = python_of(package, arguments.environments, is_fresh=arguments.fresh)
    return WorkerProcess(package, python)


def _rows(arguments: Namespace) -> list[Row]:
    return [row for row in ROWS if not arguments.rows or row.name in arguments.rows]


def _names() -> list[str]:
    return [package.name for package in PACKAGES]


def main(texts: list[str]) -> int:
    """Do what the options say; return 1 if a package failed in a row."""
    arguments = options().parse_args(texts)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    results = Results.load(arguments.json) if arguments.json else Results()
    if not arguments.no_run:
        asyncio.run(run(arguments, results, console))
    for sheet in table.sheets(results):
        console.print(table.terminal(sheet))
    for line in table.ahead_lines(results):
        console.print(f"not first: {line}")
    if arguments.write:
        page.write(arguments.write, results)
    if arguments.plot:
        from tests.benchmarks.peers import plot

        plot.write(arguments.plot, results)
    failed = table.failures(results.rows)
    for line in failed:
        console.print(f"failed: {line}", style="red")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
