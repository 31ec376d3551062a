"""`ahvn-tools serve` as the process that a client starts: what it serves, to whom, and how it says no."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp.client.client import Client as SDKClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import ahvn_tools
from ahvn_tools.cli.app import main
from tests.cli.served import COMMAND, ENVIRONMENT, LONGEST, Served, run

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

TOOLS = """
import os
import sys
from ahvn_tools import ToolContext, Toolkit

print("loaded")
kit = Toolkit("shed").group("heavy").group("light", active=True)

@kit.tool
def greet(name: str, times: int = 1) -> str:
    '''Greet somebody.'''
    print("greeting")
    return f"hello, {name}" * times

@kit.tool(group="heavy")
def lift(weight: int) -> int:
    return weight

@kit.tool(group="light")
def blow() -> str:
    return "puff"

@kit.tool(audience="staff")
def fire(who: str) -> str:
    return who

@kit.tool(audience="owner")
def sell() -> str:
    return "sold"

@kit.tool
def leave() -> None:
    sys.exit(3)

@kit.tool
def tell_on(secret: str) -> None:
    raise ValueError(secret)

@kit.tool
def count(context: ToolContext) -> int:
    for number in range(3):
        context.report_progress(number, 2)
    return 3

def pid() -> int:
    return os.getpid()
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("served") / "shed.py"
    written.write_text(TOOLS)
    return written


def over_stdio(*arguments: object, **environment: str) -> Client[Any]:
    command = ["-m", "ahvn_tools", "serve", *map(str, arguments)]
    transport = StdioTransport(sys.executable, command, env={**ENVIRONMENT, **environment}, keep_alive=False)
    return Client(transport, init_timeout=LONGEST, timeout=LONGEST)


async def listed(client: Client[Any]) -> list[str]:
    async with client:
        return [tool.name for tool in await client.list_tools()]


# what is served


async def test_a_client_over_stdio_lists_and_calls_and_no_print_reaches_it(file):
    async with over_stdio(file) as client:
        assert client.server_info.name == "shed"
        assert [tool.name for tool in await client.list_tools()] == ["greet", "blow", "leave", "tell_on", "count"]
        assert (await client.call_tool("greet", {"name": "Ann"})).data == "hello, Ann"
        wrong = await client.call_tool_mcp("greet", {"name": "Ann", "times": "often"})
        assert (wrong.is_error, "often" in wrong.content[0].text) == (True, False)
        left = await client.call_tool_mcp("leave", {})
        assert left.is_error
        told = await client.call_tool_mcp("tell_on", {"secret": "a canary"})
        assert (told.is_error, "canary" in str(told)) == (True, False)
        heard: list[float] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append(progress)

        assert (await client.call_tool("count", progress_handler=hear)).data == 3
        assert heard == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--audience=staff", "--audience=owner"], ["greet", "blow", "fire", "sell", "leave", "tell_on", "count"]),
        (["--group", "heavy", "--group", "light"], ["lift", "blow"]),
    ],
)
async def test_who_it_is_for_and_which_groups_it_has_can_be_chosen(file, arguments, names):
    assert await listed(over_stdio(file, *arguments)) == names


async def test_a_name_in_a_module_that_is_found_from_here_is_served_under_another(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    async with over_stdio("shed:kit", "--name", "other") as client:
        assert client.server_info.name == "other"
        assert "greet" in [tool.name for tool in await client.list_tools()]


@pytest.mark.parametrize(
    ("name", "neighbour"), [("mcp.py", None), ("fastmcp.py", None), ("shed.py", "uvicorn.py"), ("shed.py", "mcp.py")]
)
async def test_a_file_or_its_neighbour_may_have_the_name_of_what_serves_it(tmp_path, name, neighbour):
    written = tmp_path / name
    written.write_text("from ahvn_tools import tool\n\n@tool\ndef greet() -> str:\n    return 'hello'\n")
    if neighbour is not None:
        (tmp_path / neighbour).write_text("raise ImportError\n")
    assert await listed(over_stdio(written)) == ["greet"]


def test_what_tools_print_over_stdio_is_on_stderr_at_once_and_never_the_clients(tmp_path):
    written = tmp_path / "shed.py"
    written.write_text(
        "from ahvn_tools import tool\n\n@tool\ndef greet() -> str:\n    print('aloud')\n    print('half', end='')\n"
        "    return 'hello'\n"
    )
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet", "_meta": MODERN}}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, "serve", str(written)],
        env={**os.environ, **ENVIRONMENT},
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
    ) as serving:
        serving.stdin.write(json.dumps(call) + "\n")
        serving.stdin.flush()
        assert serving.stderr.readline() == "aloud\n"
        answer = json.loads(serving.stdout.readline())
        assert answer["result"]["structuredContent"] == {"result": "hello"}
        serving.stdin.close()
        assert serving.stdout.read() == ""
        assert serving.stderr.read() == "half"
        assert serving.wait(LONGEST) == 0


async def test_the_process_over_stdio_ends_with_its_client(file):
    transport = StdioTransport(
        sys.executable, ["-m", "ahvn_tools", "serve", f"{file}:pid"], env=ENVIRONMENT, keep_alive=False
    )
    async with Client(transport, init_timeout=LONGEST) as client:
        number = (await client.call_tool("pid")).data
        os.kill(number, 0)
    for _ in range(100):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.05)
    os.kill(number, signal.SIGKILL)
    pytest.fail("the server was left behind")


def test_the_process_over_stdio_ends_well_when_nobody_speaks_to_it(file):
    ran = run("serve", str(file))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "loaded\n")


# over HTTP


async def test_a_client_over_http_lists_and_calls(file):
    with Served.over_http(file) as served:
        async with Client(served.url, init_timeout=LONGEST) as client:
            assert (await client.call_tool("greet", {"name": "Ann"})).data == "hello, Ann"
        assert served.said[-1] == f"Serving 'shed' at {served.url}\n"


async def test_over_http_only_who_sends_the_token_is_served(file):
    with Served.over_http(file, "--auth-token-env", "SHED_TOKEN", SHED_TOKEN=" a canary \n") as served:
        async with Client(served.url, auth="a canary", init_timeout=LONGEST) as client:
            assert "greet" in [tool.name for tool in await client.list_tools()]
        for headers in ({}, {"Authorization": "Bearer another"}, {"Authorization": "Bearer a"}):
            async with httpx2.AsyncClient(trust_env=False) as plain:
                answer = await plain.post(served.url, json={}, headers=headers)
            assert (answer.status_code, "canary" in answer.text) == (401, False)
        served.end()
    assert "canary" not in "".join(served.said)


async def test_over_http_only_known_names_of_the_server_are_answered(file):
    refused = {"evil.example": True, "shed.example": False, "localhost": False, "127.0.0.1": False}
    with Served.over_http(file, "--allowed-host", "shed.example") as served:
        async with httpx2.AsyncClient(trust_env=False) as plain:
            answers = {host: await plain.get(served.url, headers={"Host": host}) for host in refused}
    assert {host: answer.status_code == 421 for host, answer in answers.items()} == refused


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_server_over_http_ends_when_it_is_told_to(file, number, status):
    with Served.over_http(file) as served:
        assert served.end(number) == status
    assert "Traceback" not in "".join(served.said)


# other clients


async def test_the_protocols_own_client_lists_and_calls_over_both_transports(file):
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "ahvn_tools", "serve", str(file)], env=ENVIRONMENT
    )
    with Served.over_http(file) as served:
        for transport in (stdio_client(server), streamable_http_client(served.url)):
            async with asyncio.timeout(LONGEST), SDKClient(transport) as client:
                assert "greet" in [tool.name for tool in (await client.list_tools()).tools]
                result = await client.call_tool("greet", {"name": "Ann"})
                assert (result.structured_content, result.is_error) == ({"result": "hello, Ann"}, False)


# no


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["nowhere.py"], 1, "error: There is no file 'nowhere.py'.\n"),
        (["shed.py:shop"], 1, "error: shed.py has no 'shop'. "),
        (["shed.py", "--group", "hevy"], 1, "error: There is no group 'hevy'. Did you mean 'heavy'?\n"),
        (["shed.py", "--port", "1"], 2, "error: --port is about serving over HTTP: give --http, too.\n"),
        (["shed.py", "--auth-token-env", "X"], 2, "error: --auth-token-env is about serving over HTTP: give --http, "),
        (["shed.py", "--http", "--auth-token-env", "NO"], 1, "error: The environment variable 'NO' holds no token: "),
        (["shed.py", "--http", "--port", "99999"], 2, 'error: Invalid value "99999" for '),
        (["shed.py", "--http", "--host", "256.0.0.1"], 1, "error: Cannot serve at 256.0.0.1:8000: "),
        (["shed.py", "--htp"], 2, "error: Unknown option: "),
        ([], 2, "error: "),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line_and_by_the_status(file, arguments, status, told, capsys, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert main(["serve", *arguments]) == status
    printed = capsys.readouterr()
    error = printed.err.removeprefix("loaded\n")
    assert (printed.out.removeprefix("loaded\n"), error.count("\n")) == ("", 1)
    assert error.startswith(told)


def test_a_port_that_is_taken_is_told(file):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve", str(file), "--http", "--port", str(port))
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"loaded\nerror: Cannot serve at 127.0.0.1:{port}: [Errno 98] Address already in use")


def test_an_address_that_others_reach_is_warned_about(file):
    with Served.over_http(file, "--host", "0.0.0.0") as served:
        served.end()
    assert any("is open to whoever reaches 0.0.0.0" in line for line in served.said)


# the command itself


def test_the_command_tells_its_help(capsys):
    for arguments in ([], ["--help"], ["serve", "--help"]):
        assert main(arguments) == 0
        printed = capsys.readouterr()
        assert ("serve" in printed.out, printed.err) == (True, "")


def test_the_command_and_the_package_are_one_and_tell_the_version():
    assert run("--version").stdout == f"{ahvn_tools.__version__}\n"


def test_the_installed_script_is_the_command():
    script = Path(sysconfig.get_path("scripts")) / "ahvn-tools"
    if not script.exists():
        pytest.skip("the package is not installed: it is run from its folder")
    ran = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=LONGEST, check=True)
    assert ran.stdout == f"{ahvn_tools.__version__}\n"
    assert shutil.which("ahvn-tools", path=script.parent)
