"""`ahvn-tools serve` with several sources, manifests and `--reload`."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from ahvn_tools.cli.app import main
from tests.cli.served import ENVIRONMENT, LONGEST, Served

psutil = pytest.importorskip("psutil", reason="psutil is not installed")

MANIFEST = """
name: house
sources:
  - garden.py
binds:
  token: {key: token, secret: true, default: "${HOUSE_TOKEN}"}
tools:
  dig: {audience: [owner]}
profiles:
  prod:
    tools:
      water: {enabled: false}
"""

GARDEN = """
from ahvn_tools import tool

@tool
def water(token: str = "") -> str:
    "Water."
    return "wet"

@tool
def dig(token: str = "") -> str:
    "Dig."
    raise ValueError(token)
"""

HUT = """
from ahvn_tools import tool
from part import VALUE

@tool
def value() -> str:
    "Return the value."
    return VALUE
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "house.yaml").write_text(MANIFEST)
    (tmp_path / "garden.py").write_text(GARDEN)
    (tmp_path / "hut.py").write_text(HUT)
    (tmp_path / "part.py").write_text("VALUE = 'first'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def over_stdio(*arguments: str) -> Client[Any]:
    command = ["-m", "ahvn_tools", "serve", *arguments]
    transport = StdioTransport(
        sys.executable, command, env={**ENVIRONMENT, "HOUSE_TOKEN": "canary-token"}, keep_alive=False
    )
    return Client(transport, init_timeout=LONGEST, timeout=LONGEST)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["house.yaml", "hut.py"], ["water", "value"]),
        (["house.yaml", "hut.py", "--audience", "owner"], ["water", "dig", "value"]),
        (["house.yaml", "--profile", "prod", "--audience", "owner"], ["dig"]),
        (["garden.py", "hut.py", "--include", "*a*", "--exclude", "water"], ["value"]),
    ],
)
async def test_several_sources_and_manifests_are_served_with_their_audiences(folder, arguments, names):
    async with over_stdio(*arguments) as client:
        assert [tool.name for tool in await client.list_tools()] == names


@pytest.mark.exhaustive
def test_a_secret_of_a_manifest_is_in_no_log(folder):
    arguments = ("--audience", "owner", "--log-level", "debug", "--path", "/tools")
    with Served.over_http(folder / "house.yaml", *arguments, HOUSE_TOKEN="canary-token") as served:
        assert served.url.endswith("/tools")

        async def dig() -> Any:
            async with Client(served.url, init_timeout=LONGEST) as client:
                return await client.call_tool_mcp("dig", {})

        assert asyncio.run(dig()).is_error
        served.end()
    assert "canary-token" not in "".join(served.output)


def test_a_restart_over_stdio_is_refused(capsys):
    assert main(["serve", "tools.py", "--reload"]) == 2
    assert capsys.readouterr().err.startswith("error: --reload needs --http: over stdio the server is a child process ")


# reload


async def read_value(url: str) -> str:
    async with Client(url, init_timeout=LONGEST, timeout=LONGEST) as client:
        return (await client.call_tool("value")).data


def wait_for(lines: list[str], text: str, *, count: int = 1) -> None:
    deadline = time.monotonic() + 2 * LONGEST
    while sum(text in line for line in lines) < count:
        assert time.monotonic() < deadline, "".join(lines)
        time.sleep(0.05)


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_a_change_is_served_at_the_same_address_and_a_broken_file_is_not(folder):
    with Served.over_http(folder / "hut.py", "--reload") as served:
        port = int(served.url.partition("127.0.0.1:")[2].partition("/")[0])
        assert asyncio.run(read_value(served.url)) == "first"
        (folder / "part.py").write_text("VALUE = 'second one'\n")
        wait_for(served.output, "Serving ", count=2)
        assert asyncio.run(read_value(served.url)) == "second one"
        (folder / "part.py").write_text("VALUE = \n")
        wait_for(served.output, "The former server goes on.")
        assert asyncio.run(read_value(served.url)) == "second one"
        (folder / "data.json").write_text("{}")  # data of a tool
        (folder / "part.py").write_text("VALUE = 'third'\n")
        wait_for(served.output, "Serving ", count=3)
        wait_until(lambda: asyncio.run(read_value(served.url)) == "third")
        processes = psutil.Process(served.process.pid).children(recursive=True)
        assert served.end(signal.SIGINT) == 130
        assert psutil.wait_procs(processes, LONGEST)[1] == []
        assert all(str(port) in line for line in served.output if "Serving " in line)
    assert "Traceback" not in "".join(served.output)
    assert not any("data.json" in line for line in served.output)
    assert main(["serve", "hut.py", "--http", "--port", str(port), "--reload", "--host", "256.0.0.1"]) == 1


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_broken_file_waits_for_its_repair_and_the_server_ends_with_the_command(folder, number):
    (folder / "part.py").write_text("VALUE = \n")
    process = subprocess.Popen(
        [sys.executable, "-m", "ahvn_tools", "serve", "hut.py", "--http", "--port", "0", "--reload"],
        env={**ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if "Nothing is served." in line:
            (folder / "part.py").write_text("VALUE = 'first'\n")
        if "Serving " in line:
            break
    processes = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    assert process.wait(LONGEST) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert psutil.wait_procs(processes, LONGEST)[1] == []
    process.stderr.close()
    assert any("cannot be loaded" in line for line in lines)


def wait_until(condition) -> None:
    deadline = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


STATEFUL = """
from ahvn_tools import Toolkit

kit = Toolkit("trips")
kit.bind("user", "session.user").bind("home")

@kit.tool
def plan(city: str, user: str, home: str) -> str:
    "Plan a trip."
    return f"{user} from {home} to {city}"
"""


@pytest.mark.exhaustive
async def test_the_state_of_a_served_toolkit_is_read_from_a_file_and_options(folder):
    (folder / "trips.py").write_text(STATEFUL)
    (folder / "state.yaml").write_text("session: {user: ann}\nhome: Oslo\n")
    async with over_stdio("trips.py", "--state", "state.yaml", "--set", "home=Rome") as client:
        assert (await client.call_tool("plan", {"city": "Bonn"})).data == "ann from Rome to Bonn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "home"], "error: Write --set as KEY=VALUE."),
        (["--state", "none.json"], "error: The state file 'none.json' cannot be read"),
    ],
)
def test_a_wrong_state_of_a_server_is_refused(folder, capsys, arguments, message):
    assert main(["serve", "hut.py", *arguments]) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_a_file_of_a_folder_that_is_saved_half_written_leaves_the_former_tools(folder):
    for name in ("garden.py", "house.yaml", "part.py"):
        (folder / name).unlink()
    (folder / "broken.py").write_text("VALUE = \n")
    (folder / "hut.py").write_text(HUT.replace("from part import VALUE", "VALUE = 'first'"))
    with Served.over_http(folder, "--reload") as served:
        assert asyncio.run(read_value(served.url)) == "first"
        (folder / "hut.py").write_text(HUT.replace("from part import VALUE", "VALUE = ("))
        wait_for(served.output, "The former server goes on.")
        assert any("hut.py: cannot be loaded any more." in line for line in served.output)
        assert asyncio.run(read_value(served.url)) == "first"
        (folder / "hut.py").write_text(HUT.replace("from part import VALUE", "VALUE = 'second'"))
        wait_for(served.output, "Serving ", count=2)
        wait_until(lambda: asyncio.run(read_value(served.url)) == "second")
