"""Calls of the tools of a Workspace over stdio, compared with the official MCP server for files on the same folder."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

import ahvn_tools
from tests.benchmarks.rows import Row, seconds

SERVER = os.environ.get("FILESYSTEM_SERVER", "mcp-server-filesystem")
"""The program of @modelcontextprotocol/server-filesystem."""
ROUNDS = 101
WARM_UP = 4
"""Rounds that are not measured."""
START_TIMEOUT = 60.0
MEMORY = "/dev/shm"
"""Where the folder is: ours waits until the disk has an edited file, theirs does not, and this compares no disks."""
SHORTEST = 1e-5
"""Seconds: a call that seems to take less than an empty call was measured on a busy machine."""
OURS, THEIRS = "ours", "theirs"

Call = tuple[str, dict[str, Any]]


def is_installed() -> bool:
    """Return whether the official server can be started: install it with npm, and name it in FILESYSTEM_SERVER."""
    return shutil.which(SERVER) is not None and shutil.which("node") is not None


def search_files() -> Row:
    """Find files by a part of their names in the whole tree."""
    return _row("find files by name over stdio", _search)


def read_file() -> Row:
    """Read a file of 100 kB."""
    return _row("read a file of 100 kB over stdio", _read)


def list_folder() -> Row:
    """List a folder of 1,000 files."""
    return _row("list a folder of 1,000 files over stdio", _list)


def edit_file() -> Row:
    """Replace a line in a file of 3,000 lines, and back."""
    return _row("edit a file of 3,000 lines over stdio", _edit)


def _search(whose: str, top: Path, number: int) -> Call:
    if whose == OURS:
        return "search_file_name_includes", {"uri": ".", "name_includes": "test_s", "max_results": 1000}
    return "search_files", {"path": str(top), "pattern": "**/*test_s*"}


def _read(whose: str, top: Path, number: int) -> Call:
    if whose == OURS:
        return "read_file", {"uri": "large.txt"}
    return "read_text_file", {"path": str(top / "large.txt")}


def _list(whose: str, top: Path, number: int) -> Call:
    return ("ls", {"uri": "many"}) if whose == OURS else ("list_directory", {"path": str(top / "many")})


def _edit(whose: str, top: Path, number: int) -> Call:
    old, new = _old_and_new(number)
    if whose == OURS:
        block = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
        return "edit_file_search_replace", {"uri": "ours.txt", "search_replace": block}
    return "edit_file", {"path": str(top / "theirs.txt"), "edits": [{"oldText": old, "newText": new}]}


MakeCall = Callable[[str, Path, int], Call]
"""Returns a call of one of both servers, for the folder, with a number that counts the rounds."""

Taken = dict[tuple[str, MakeCall], list[float]]
"""The seconds of each call of each server, by round."""


FILE_ROWS = (search_files, read_file, list_folder, edit_file)


def _nothing(whose: str, top: Path, number: int) -> Call:
    """Return the call that costs least: the protocol, which Python speaks for ours, and Node for theirs."""
    return ("nothing", {}) if whose == OURS else ("list_allowed_directories", {})


def _old_and_new(number: int) -> tuple[str, str]:
    lines = "line 1500 of the file", "another line 1500"
    return lines if number % 2 == 0 else (lines[1], lines[0])


def _row(what: str, make_call: MakeCall) -> Row:
    """Return a row that compares the times without those of an empty call, and names both."""
    with tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None) as folder:
        top = Path(folder).resolve() / "tree"
        _write_tree(top)
        taken = asyncio.run(_seconds_of_calls(top, make_call))
    ours, theirs = (_without_empty_call(taken, who, make_call) for who in (OURS, THEIRS))
    return Row(
        what=what,
        against="the official MCP server for files (Node), each without its empty call",
        ours=_described(taken, OURS, make_call),
        baseline=_described(taken, THEIRS, make_call),
        measured=theirs / ours,
        limit=1.0,
        is_floor=True,
    )


def _without_empty_call(taken: Taken, who: str, make_call: MakeCall) -> float:
    """Return the median of what a call takes longer than the empty call just before it."""
    differences = [call - empty for call, empty in zip(taken[who, make_call], taken[who, _nothing], strict=True)]
    return max(statistics.median(differences), SHORTEST)


def _described(taken: Taken, who: str, make_call: MakeCall) -> str:
    whole, empty = (seconds(statistics.median(taken[who, make])) for make in (make_call, _nothing))
    return f"{whole} - {empty}"


def _write_tree(top: Path) -> None:
    """Copy the sources of this package and its tests, and add files of a known size."""
    root = Path(ahvn_tools.__file__).parents[1]
    for name in ("ahvn_tools", "tests", "docs", "examples"):
        shutil.copytree(root / name, top / name, ignore=shutil.ignore_patterns("__pycache__"))
    (top / "large.txt").write_text("a line of a text of 40 characters, long\n" * 2_450)
    for name in ("ours.txt", "theirs.txt"):
        (top / name).write_text("".join(f"line {number} of the file\n" for number in range(3_000)))
    (top / "many").mkdir()
    for number in range(1_000):
        (top / "many" / f"file_{number:04}.txt").write_text("x")


async def _seconds_of_calls(top: Path, make_call: MakeCall) -> Taken:
    """Call both servers in turn, and alternate which one is first."""
    async with _connected(OURS, top) as ours, _connected(THEIRS, top) as theirs:
        clients = {OURS: ours, THEIRS: theirs}
        taken: Taken = {}
        gc.collect()
        for number in range(ROUNDS + WARM_UP):
            for who in [OURS, THEIRS] if number % 2 else [THEIRS, OURS]:
                for make in (_nothing, make_call):
                    call = make(who, top, number)
                    taken.setdefault((who, make), []).append(await _seconds(clients[who], call))
    return {key: each[WARM_UP:] for key, each in taken.items()}


async def _seconds(client: Client[Any], call: Call) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    result = await client.call_tool_mcp(*call)
    taken = time.perf_counter() - start
    if result.is_error:
        raise AssertionError(result)
    return taken


@contextlib.asynccontextmanager
async def _connected(whose: str, top: Path) -> AsyncIterator[Client[Any]]:
    """Start a server process, and connect to it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command, arguments = (
        (sys.executable, ["-m", "tests.benchmarks.file_server", str(top)]) if whose == OURS else (SERVER, [str(top)])
    )
    log = Path(os.devnull)
    started = StdioTransport(command, arguments, env=environment, keep_alive=False, log_file=log)
    async with Client(started, init_timeout=START_TIMEOUT) as client:
        yield client
