"""`ahvn-tools call` as a process in a pipe: MCP servers, timeouts, signals, readers that end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.desk import DESK
from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST, Served, run

psutil = pytest.importorskip("psutil", reason="psutil is not installed")

SERVER = """
import os
from pathlib import Path

from fastmcp import FastMCP
from mcp_types import ImageContent, TextContent

server = FastMCP("far")

@server.tool
def add(a: int, b: int = 2) -> int:
    "Add."
    return a + b

@server.tool
def picture() -> list:
    "Return a picture."
    return [TextContent(type="text", text="far"), ImageContent(type="image", data="Zmlyc3Q=", mime_type="image/png")]

@server.tool
async def wait() -> str:
    "Wait."
    import asyncio
    Path("started").write_text(str(os.getpid()))
    await asyncio.sleep(600)
    return "waited"

server.run(show_banner=False, log_level="ERROR")
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "desk.py").write_text(DESK)
    (tmp_path / "far.py").write_text(SERVER)
    return tmp_path


def start(desk: Path, *words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    environment = {**os.environ, **ENVIRONMENT, "DESK_STARTED": str(desk / "started")}
    return subprocess.Popen([*COMMAND, "call", *words], cwd=desk, env=environment, stdout=pipe, stderr=pipe, text=True)


def wait_for_start(desk: Path) -> None:
    deadline = time.monotonic() + LONGEST
    while not ((desk / "started").exists() and (desk / "started").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_call_prints_its_result_alone_to_stdout(desk):
    ran = run("call", "desk.py", "greet", "name=Ann", "times=2", cwd=desk)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello Ann hello Ann \n", "printed by the tool\n")


@pytest.mark.exhaustive
def test_each_item_reaches_the_reader_at_once(desk):
    with start(desk, "desk.py", "count", "to=2", "seconds=600") as process:
        assert process.stdout.readline() == "0\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST) == 130


@pytest.mark.exhaustive
def test_a_reader_that_ends_ends_the_command_without_a_message(desk):
    with start(desk, "desk.py", "count", "to=100000") as process:
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(LONGEST) == 0
    assert "error" not in errors
    assert "Traceback" not in errors


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sleep"], "Tool 'sleep' did not finish within 0.3 seconds; its thread may still be running."),
        (["asleep"], "Tool 'asleep' did not finish within 0.3 seconds; it was cancelled."),
        (["isolated"], "Tool 'isolated' did not finish within 0.3 seconds; its process was ended."),
        (["count", "to=2", "seconds=600"], "Tool 'count' did not finish within 0.3 seconds"),
    ],
)
def test_a_timeout_ends_the_command_with_124_and_leaves_no_process(desk, words, message):
    with start(desk, "desk.py", *words, "--timeout", "0.3") as process:
        errors = process.stderr.read()
        assert process.wait(LONGEST) == 124
    assert message in errors
    assert desk_processes(desk) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", [["sleep"], ["asleep"], ["isolated"], ["count", "to=2", "seconds=600"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_stopped_leaves_no_process(desk, words, number):
    with start(desk, "desk.py", *words) as process:
        wait_for_start(desk)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        assert process.wait(LONGEST) == (130 if number == signal.SIGINT else -number)
        assert psutil.wait_procs(children, LONGEST)[1] == []


@pytest.mark.exhaustive
def test_the_server_of_a_call_ends_with_it(desk):
    source = f"{sys.executable} far.py"
    ran = run("call", source, "add", "a=1", cwd=desk)
    assert (ran.returncode, ran.stdout) == (0, "3\n")
    ran = run("call", source, "picture", cwd=desk)
    assert (ran.stdout, (desk / "result-picture.png").read_bytes()) == ("far\nresult-picture.png\n", b"first")
    ran = run("call", source, "add", "a=x", cwd=desk)
    assert (ran.returncode, ran.stderr) == (2, "error: 'a' should be an integer.\n")
    assert run("call", source, "wait", "--timeout", "0.5", cwd=desk).returncode == 124
    (desk / "started").unlink(missing_ok=True)
    with start(desk, source, "wait") as process:
        wait_for_start(desk)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST) == 130
        assert psutil.wait_procs(children, LONGEST)[1] == []


@pytest.mark.exhaustive
def test_a_tool_of_a_server_over_http_can_be_called(desk):
    with Served.over_http(desk / "desk.py") as served:
        ran = run("call", served.url, "greet", "name=Ann", "--json", cwd=desk)
        assert (ran.returncode, json.loads(ran.stdout)["structured_content"]) == (0, {"result": "hello Ann "})


def desk_processes(desk: Path) -> list[int]:
    """Return the processes that work in the folder of the test."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(desk) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
