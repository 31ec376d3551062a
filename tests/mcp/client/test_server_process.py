"""Server processes: how they end, and that they end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from ahvn_tools.mcp.client import server_process
from tests.mcp.serving import LONGEST, process


@pytest.fixture
async def started() -> AsyncIterator[list[asyncio.subprocess.Process]]:
    made: list[asyncio.subprocess.Process] = []
    yield made
    for one in made:
        server_process.kill_group(one.pid)
        await one.wait()


async def start(started: list[asyncio.subprocess.Process], code: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE, start_new_session=True
    )
    started.append(process)
    server_process.track_group(process.pid)
    return process


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; sys.exit(3)", "the server process has ended with exit code 3"),
        ("", "the server process has ended with exit code 0"),
        ("import os; os.kill(os.getpid(), 9)", "the server process was ended by SIGKILL"),
        ("import os; os.kill(os.getpid(), 40)", "the server process was ended by signal 40"),
    ],
)
async def test_exit_reason_describes_how_the_process_ended(
    started: list[asyncio.subprocess.Process], code: str, reason: str
) -> None:
    process = await start(started, f"import time; time.sleep(0.3); {code or 'pass'}")
    assert server_process.get_exit_reason(process) is None
    seen = None
    for _ in range(5_000):
        await asyncio.sleep(0.001)
        if (seen := server_process.get_exit_reason(process)) is not None:
            break
    assert seen in {
        reason,
        "the server process has ended",
    }  # asyncio reaps the process and sets the return code a moment later
    await process.wait()
    assert server_process.get_exit_reason(process) == await server_process.wait_for_exit_reason(process) == reason


async def test_running_process_has_only_closed_its_output(started: list[asyncio.subprocess.Process]) -> None:
    process = await start(started, "import time; time.sleep(60)")
    assert await server_process.wait_for_exit_reason(process) == "the server has closed its output"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdin.read()",
        "import time; time.sleep(60)",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)",
    ],
)
async def test_stop_takes_bounded_time(started: list[asyncio.subprocess.Process], code: str) -> None:
    process = await start(started, code)
    await asyncio.sleep(0.2)
    since = time.monotonic()
    await server_process.stop_process(process, 0.3)
    assert process.returncode is not None
    assert time.monotonic() - since < 30


async def test_all_remaining_groups_can_be_killed(started: list[asyncio.subprocess.Process]) -> None:
    for _ in range(3):
        await start(started, "import time; time.sleep(60)")
    server_process.kill_all_groups()
    assert {await process.wait() for process in started} == {-9}


CLOSING = """
import signal, sys, time
from ahvn_tools import Toolkit
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may ignore it
Toolkit("host").add_mcp([sys.executable, sys.argv[1], sys.argv[2]])
print("ends", flush=True)
"""

STUBBORN = """
import os, signal, sys, time
from pathlib import Path
Path(sys.argv[1]).write_text(str(os.getpid()))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
exec(Path({server!r}).read_text())
time.sleep(300)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("numbers", "seconds"),
    [
        (["SIGTERM"], 0.2),
        (["SIGHUP"], 2.0),
        (["SIGINT"], 0.2),
        (["SIGINT", "SIGINT"], 2.0),
        (["SIGHUP", "SIGTERM"], 0.2),
    ],
)
def test_a_signal_while_the_process_closes_its_servers_leaves_none(
    tmp_path: Path, numbers: list[str], seconds: float
) -> None:
    """The server does not end when its input is closed."""
    script = tmp_path / "stubborn.py"
    script.write_text(STUBBORN.format(server=str(Path(__file__).parent / "asking_server.py")))
    with process(CLOSING, str(script), str(tmp_path / "pid")) as started:
        assert started.stdout.readline() == "ends\n"
        server = psutil.Process(int((tmp_path / "pid").read_text()))
        time.sleep(seconds)
        for number in numbers:
            started.send_signal(getattr(signal, number))
            time.sleep(0.05)
        started.wait(LONGEST)
        assert psutil.wait_procs([server], 5)[1] == []
