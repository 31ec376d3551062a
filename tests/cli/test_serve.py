"""`ahvn-tools serve` as a process: what it serves, to which clients, and what it refuses."""

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
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp.client.client import Client as SDKClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import ahvn_tools
from ahvn_tools.cli.app import main
from ahvn_tools.cli.serve import ServerOptions
from ahvn_tools.middleware.watched_calls import WatchedCalls
from ahvn_tools.toolkit.approval_rules import MODES
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
kit = Toolkit("shed").add_group("heavy").add_group("light", active=True)

@kit.tool
def greet(name: str, times: int = 1) -> str:
    '''Greet a person.'''
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
def reveal(secret: str) -> None:
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


# over stdio


async def test_a_client_over_stdio_lists_and_calls_tools_that_print(file):
    async with over_stdio(file) as client:
        assert client.server_info.name == "shed"
        assert [tool.name for tool in await client.list_tools()] == ["greet", "blow", "leave", "reveal", "count"]
        assert (await client.call_tool("greet", {"name": "Ann"})).data == "hello, Ann"
        wrong = await client.call_tool_mcp("greet", {"name": "Ann", "times": "often"})
        assert (wrong.is_error, "often" in wrong.content[0].text) == (True, False)
        left = await client.call_tool_mcp("leave", {})
        assert left.is_error
        failed = await client.call_tool_mcp("reveal", {"secret": "a canary"})
        assert (failed.is_error, "canary" in str(failed)) == (True, False)
        reports: list[float] = []

        async def record(progress: float, total: float | None, message: str | None) -> None:
            reports.append(progress)

        assert (await client.call_tool("count", progress_handler=record)).data == 3
        assert reports == [0, 1, 2]


async def test_the_calls_of_a_server_are_watched(file, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    watched = WatchedCalls()
    watched.look()
    async with over_stdio(file, "--watch", "--include", "g*", XDG_STATE_HOME=str(tmp_path)) as client:
        await client.call_tool("greet", {"name": "Ann"})
        await client.call_tool_mcp("greet", {"name": 1, "times": "often"})
    calls = watched.read()
    assert [(call["tool"], call["toolkit"], call["outcome"]) for call in calls] == [
        ("greet", "shed", "ok"),
        ("greet", "shed", "invalid_parameters"),
    ]
    assert len({call["session"] for call in calls}) == 1


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        pytest.param(
            ["--audience=staff", "--audience=owner"],
            ["greet", "blow", "fire", "sell", "leave", "reveal", "count"],
            marks=pytest.mark.exhaustive,
        ),
        (["--group", "heavy", "--group", "light"], ["lift", "blow"]),
        (["--mode", "read_only"], []),
    ],
)
@pytest.mark.exhaustive
async def test_audiences_and_groups_can_be_chosen(file, arguments, names):
    assert await listed(over_stdio(file, *arguments)) == names


@pytest.mark.exhaustive
async def test_a_toolkit_in_a_module_can_be_served_under_another_name(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    async with over_stdio("shed:kit", "--name", "other") as client:
        assert client.server_info.name == "other"
        assert "greet" in [tool.name for tool in await client.list_tools()]


@pytest.mark.parametrize(
    ("name", "neighbour"),
    [
        ("shed.py", "mcp.py"),
        pytest.param("fastmcp.py", None, marks=pytest.mark.exhaustive),
        pytest.param("mcp.py", None, marks=pytest.mark.exhaustive),
        pytest.param("shed.py", "uvicorn.py", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
async def test_a_file_or_its_neighbour_may_have_the_name_of_a_dependency(tmp_path, name, neighbour):
    written = tmp_path / name
    written.write_text("from ahvn_tools import tool\n\n@tool\ndef greet() -> str:\n    return 'hello'\n")
    if neighbour is not None:
        (tmp_path / neighbour).write_text("raise ImportError\n")
    assert await listed(over_stdio(written)) == ["greet"]


@pytest.mark.exhaustive
def test_output_of_tools_over_stdio_is_written_to_stderr_at_once(tmp_path):
    written = tmp_path / "shed.py"
    written.write_text(
        "from ahvn_tools import tool\n\n@tool\ndef greet() -> str:\n    '''Greet.'''\n    print('aloud')\n"
        "    print('half', end='')\n    return 'hello'\n"
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


@pytest.mark.exhaustive
async def test_a_process_over_stdio_ends_with_its_client(file):
    transport = StdioTransport(
        sys.executable, ["-m", "ahvn_tools", "serve", f"{file}:pid"], env=ENVIRONMENT, keep_alive=False
    )
    async with Client(transport, init_timeout=LONGEST) as client:
        number = (await client.call_tool("pid")).data
        os.kill(number, 0)
    for _ in range(400):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.05)
    os.kill(number, signal.SIGKILL)
    pytest.fail("the server still runs")


def test_values_that_the_state_does_not_have_are_named_at_the_start(tmp_path):
    file = tmp_path / "hut.py"
    file.write_text(
        "from ahvn_tools import Toolkit\n\n"
        "def a(user: str) -> str:\n    return user\n\n"
        "kit = Toolkit('hut').add(a).add(a, rename='b').bind('user')\n"
    )

    def warnings(*options: str) -> list[str]:
        served = subprocess.run(
            [*COMMAND, "serve", str(file), *options],
            check=True,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        return [line for line in served.stderr.splitlines() if line.startswith("warning:")]

    (warning,) = warnings()
    assert warning.endswith("set state key 'user'. Pass it with --set user=VALUE, or --state FILE.")
    assert warnings("--set", "user=ann") == []


@pytest.mark.exhaustive
def test_a_process_over_stdio_without_input_ends_normally(file):
    ran = run("serve", str(file))
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.startswith("loaded\n")
    assert "Traceback" not in ran.stderr


# over HTTP


@pytest.mark.exhaustive
async def test_a_client_over_http_calls_a_tool(file):
    with Served.over_http(file) as served:
        async with Client(served.url, init_timeout=LONGEST) as client:
            assert (await client.call_tool("greet", {"name": "Ann"})).data == "hello, Ann"
        assert served.output[-1] == f"Serving 'shed' at {served.url}\n"


@pytest.mark.exhaustive
async def test_only_clients_with_the_token_are_served_over_http(file):
    with Served.over_http(file, "--auth-token-env", "SHED_TOKEN", SHED_TOKEN=" a canary \n") as served:
        async with Client(served.url, auth="a canary", init_timeout=LONGEST) as client:
            assert "greet" in [tool.name for tool in await client.list_tools()]
        for headers in ({}, {"Authorization": "Bearer another"}, {"Authorization": "Bearer a"}):
            async with httpx2.AsyncClient(trust_env=False) as plain:
                answer = await plain.post(served.url, json={}, headers=headers)
            assert (answer.status_code, "canary" in answer.text) == (401, False)
        served.end()
    assert "canary" not in "".join(served.output)


@pytest.mark.exhaustive
async def test_only_allowed_host_names_are_served_over_http(file):
    refused = {"evil.example": True, "shed.example": False, "localhost": False, "127.0.0.1": False}
    with Served.over_http(file, "--allowed-host", "shed.example") as served:
        async with httpx2.AsyncClient(trust_env=False) as plain:
            answers = {host: await plain.get(served.url, headers={"Host": host}) for host in refused}
    assert {host: answer.status_code == 421 for host, answer in answers.items()} == refused


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 0, marks=pytest.mark.exhaustive)]
)
@pytest.mark.exhaustive
def test_a_signal_ends_a_server_over_http(file, number, status):
    with Served.over_http(file) as served:
        assert served.end(number) == status
    assert "Traceback" not in "".join(served.output)


# other clients


@pytest.mark.exhaustive
async def test_the_client_of_the_mcp_sdk_calls_a_tool_over_both_transports(file):
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "ahvn_tools", "serve", str(file)], env=ENVIRONMENT
    )
    with Served.over_http(file) as served:
        for transport in (stdio_client(server), streamable_http_client(served.url)):
            async with asyncio.timeout(LONGEST), SDKClient(transport) as client:
                assert "greet" in [tool.name for tool in (await client.list_tools()).tools]
                result = await client.call_tool("greet", {"name": "Ann"})
                assert (result.structured_content, result.is_error) == ({"result": "hello, Ann"}, False)


# refusals


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["nowhere.py"], 1, "error: There is no file 'nowhere.py'.\n"),
        (["shed.py:shop"], 1, "error: shed.py has no 'shop'. "),
        (["shed.py", "--group", "hevy"], 1, "error: There is no group 'hevy'. Did you mean 'heavy'?\n"),
        (["shed.py", "--port", "1"], 2, "error: These options are for serving over HTTP: --host, --port, "),
        (["shed.py", "--auth-token-env", "X"], 2, "error: These options are for serving over HTTP: --host, "),
        (
            ["shed.py", "--http", "--auth-token-env", "NO"],
            1,
            "error: The environment variable 'NO' contains no token: ",
        ),
        (["shed.py", "--tasks", "NO"], 1, "error: The environment variable 'NO' contains no URL: "),
        pytest.param(
            ["shed.py", "--tasks", "http://a"],
            1,
            "error: `tasks` is True, 'memory://' or the URL of a Redis, ",
            marks=pytest.mark.skipif(find_spec("fastmcp_tasks") is None, reason="needs the extra `tasks`"),
        ),
        (["shed.py", "--http", "--port", "99999"], 2, 'error: Invalid value "99999" for '),
        (["shed.py", "--http", "--host", "256.0.0.1"], 1, "error: Cannot serve at 256.0.0.1:8000: "),
        (["shed.py", "--htp"], 2, "error: Unknown option: "),
        ([], 2, "error: "),
    ],
)
@pytest.mark.default_cases(4)
def test_a_failure_is_one_line_on_stderr_and_a_status(file, arguments, status, message, capsys, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert main(["serve", *arguments]) == status
    printed = capsys.readouterr()
    error = printed.err.removeprefix("loaded\n")
    assert (printed.out.removeprefix("loaded\n"), error.count("\n")) == ("", 1)
    assert error.startswith(message)


def test_a_taken_port_is_an_error(file, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(file), "--http", "--port", str(port)]) == 1
    error = capsys.readouterr().err.removeprefix("loaded\n")
    assert error.startswith(f"error: Cannot serve at 127.0.0.1:{port}: [Errno 98] Address already in use")


@pytest.mark.exhaustive
def test_an_address_that_the_network_can_reach_causes_a_warning(file):
    with Served.over_http(file, "--host", "0.0.0.0") as served:
        served.end()
    assert any("is open to all that can reach 0.0.0.0" in line for line in served.output)


# the command itself


def test_the_command_prints_its_help(capsys):
    for arguments in ([], ["--help"], ["serve", "--help"]):
        assert main(arguments) == 0
        printed = capsys.readouterr()
        assert ("serve" in printed.out, printed.err) == (True, "")


def test_the_command_prints_the_version_of_the_package():
    assert run("--version").stdout == f"{ahvn_tools.__version__}\n"


@pytest.mark.exhaustive
def test_the_installed_script_runs_the_command():
    script = Path(sysconfig.get_path("scripts")) / "ahvn-tools"
    if not script.exists():
        pytest.skip("the package is not installed")
    ran = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=LONGEST, check=True)
    assert ran.stdout == f"{ahvn_tools.__version__}\n"
    assert shutil.which("ahvn-tools", path=script.parent)


def test_the_modes_of_serve_are_those_of_a_toolkit():
    (mode, _) = get_args(get_type_hints(ServerOptions)["mode"])
    assert get_args(mode) == MODES
