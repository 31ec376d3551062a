"""Running a server over HTTP: its options, addresses and allowed hosts."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ahvn_tools import Toolkit, aserve
from ahvn_tools.errors import ToolkitError, ToolSpecError
from ahvn_tools.mcp.server.run import log_to_stderr, run_server
from ahvn_tools.middleware import log
from ahvn_tools.toolkit.serve import to_toolkit
from tests.mcp.serving import ENVIRONMENT, LONGEST, over_http

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ACCEPTED = {"Accept": "application/json, text/event-stream"}


def create_kit() -> Toolkit:
    """Return a toolkit with a tool that returns its user."""
    kit = Toolkit("users")

    @kit.tool
    async def who(user: str, number: int = 0) -> list[str | int]:
        return [user, number]

    @kit.tool(audience="boss")
    def fire(name: str) -> str:
        return f"{name} is gone"

    return kit.bind("user")


def reversed_text(text: str) -> str:
    """Reverse a text."""
    return text[::-1]


async def test_foreign_hosts_and_origins_are_refused():
    async with over_http(Toolkit("safe").add(reversed_text)) as url:
        assert (await post_hello(url)).status_code == 200
        assert (await post_hello(url, Origin="https://evil.example")).status_code == 403
        assert (await post_hello(url, Host="evil.example")).status_code == 421


@pytest.mark.parametrize(
    "allowed",
    [
        {"allowed_hosts": ("tools.example",), "allowed_origins": ("https://app.example",)},
        {"allowed_hosts": "tools.example", "allowed_origins": "https://app.example"},
        {"allowed_hosts": "*.example", "allowed_origins": "https://*.example"},
    ],
    ids=["tuples", "strings", "wildcards"],
)
async def test_only_allowed_hosts_and_origins_are_served(allowed: dict[str, Any]):
    async with over_http(Toolkit("safe").add(reversed_text), **allowed) as url:
        assert (await post_hello(url, Host="tools.example", Origin="https://app.example")).status_code == 200
        assert (await post_hello(url, Host="evil.test")).status_code == 421
        assert (await post_hello(url, Origin="https://evil.test")).status_code == 403


async def test_the_name_that_a_server_listens_on_is_an_allowed_host():
    async with over_http(Toolkit("safe").add(reversed_text), host="tools.example") as url:
        assert (await post_hello(url, Host="tools.example:8000")).status_code == 200
        assert (await post_hello(url, Host="evil.example")).status_code == 421


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "mcp"}, "`path` must start with a slash, not be 'mcp'"),
        ({"host": None}, "`host` must be a string, not a NoneType"),
        ({"port": 70_000}, "`port` must be from 0 to 65535, not 70000"),
        ({"log_level": "loud"}, "`log_level` must be one of critical"),
        ({"session_idle_timeout": 0}, "`session_idle_timeout` must be a positive number of seconds, not 0"),
        ({"session_idle_timeout": "auto"}, "`session_idle_timeout` must be a positive number of seconds, not 'auto'"),
        ({"http": {"path": "/x"}}, r"pass \['path'\] as options of the server, not inside `http`"),
    ],
)
async def test_invalid_run_options_are_errors(options: dict[str, Any], message: str):
    with pytest.raises(ToolSpecError, match=message):
        await aserve(Toolkit("safe"), "http", **options)


async def post_hello(url: str, **headers: str) -> Any:
    """Start a session as a legacy client does, with additional headers."""
    async with httpx2.AsyncClient() as client:
        return await client.post(url, json=HELLO, headers={**ACCEPTED, **headers})


async def test_a_server_without_auth_that_the_network_can_reach_logs_a_warning(caplog: pytest.LogCaptureFixture):
    listener = socket.create_server(("0.0.0.0", 0))
    with listener:
        running = asyncio.create_task(aserve(reversed_text, "http", sockets=[listener]))
        async with asyncio.timeout(20):
            while not caplog.messages:  # noqa: ASYNC110  # logging sets no event
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait({running})
    assert "'reversed_text' is open to all that can reach 0.0.0.0" in caplog.text


async def test_an_unknown_transport_or_option_and_a_taken_port_are_errors():
    with pytest.raises(ToolSpecError, match="'stdio' or 'http', not over 'sse'"):
        await aserve(reversed_text, "sse")  # type: ignore[arg-type]
    with pytest.raises(ToolkitError, match="prot"):
        await aserve(reversed_text, "http", prot=1)  # type: ignore[call-arg]
    with pytest.raises(ToolSpecError, match="Did you mean 'port'"):
        await run_server(to_toolkit(reversed_text).to_fastmcp_server(), "http", prot=1)  # type: ignore[call-arg]
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await aserve(reversed_text, "http", port=taken.getsockname()[1])


async def test_the_session_of_a_client_that_left_ends_with_its_background_calls():
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        """Work until cancelled."""
        loop.call_soon_threadsafe(started.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(cancelled.set)
            raise

    loop = asyncio.get_running_loop()
    kit = Toolkit("desk").add(work)
    kit.add(*kit.background_tools())
    async with asyncio.timeout(20), over_http(kit, session_idle_timeout=0.1) as url, httpx2.AsyncClient() as http:
        headers = await open_session(http, url)
        await http.post(url, headers=headers, json=call_of("start_call", name="work", arguments={}))
        await started.wait()
        await cancelled.wait()
        answer = await http.post(url, headers=headers, json=call_of("work"))
        assert (answer.status_code, answer.json()["error"]["message"]) == (404, "Session not found")


async def test_a_session_with_a_running_call_does_not_end():
    released = asyncio.Event()

    async def wait() -> str:
        """Wait for the test."""
        await released.wait()
        return "done"

    kit = Toolkit("desk").add(wait)
    async with asyncio.timeout(20), over_http(kit, session_idle_timeout=0.4) as url, httpx2.AsyncClient() as http:
        idle, busy = await open_session(http, url), await open_session(http, url)
        call = asyncio.create_task(http.post(url, headers=busy, json=call_of("wait")))
        while (await http.post(url, headers=idle, json=call_of("wait", number=1))).status_code != 404:  # noqa: ASYNC110
            await asyncio.sleep(1)  # each request keeps the session, if it has not ended
        released.set()
        assert "done" in (await call).text


class NoGet:
    """ASGI middleware: no client can hold its session with an open stream."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        await (Response(status_code=405) if is_get else self._app)(scope, receive, send)


async def test_an_imported_tool_runs_once_after_its_session_has_ended():
    numbers: list[int] = []

    def append(number: int) -> None:
        """Append a number."""
        numbers.append(number)

    options = {"session_idle_timeout": 0.4, "http": {"middleware": [Middleware(NoGet)]}}
    async with asyncio.timeout(20), over_http(Toolkit("list").add(append), **options) as url:
        gateway = await Toolkit("gateway").aadd_mcp(Client(url, mode="legacy"), name="remote")
        assert (await gateway.aexec("append", {"number": 0})).error is None
        await asyncio.sleep(1)  # the session ends meanwhile
        assert (await gateway.aexec("append", {"number": 1})).error is None
        await gateway.aremove_mcp("remote")
    assert numbers == [0, 1]


async def open_session(http: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """Return the headers of a new session."""
    answer = await http.post(url, json=HELLO, headers=ACCEPTED)
    headers = {**ACCEPTED, "mcp-session-id": answer.headers["mcp-session-id"]}
    await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return headers


def call_of(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def test_a_server_can_listen_on_a_unix_socket(tmp_path: Path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        running = asyncio.create_task(aserve(reversed_text, "http", sockets=[listener]))
        async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=path)) as client:
            answer = await client.post("http://localhost/mcp", json=HELLO, headers=ACCEPTED)
        assert answer.status_code == 200
        running.cancel()
        await asyncio.wait({running})


async def test_an_answer_is_sent_at_once():
    """Otherwise its last packet waits up to 48 ms for the client to acknowledge the one before."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, listener.dup() as kept:
        running = asyncio.create_task(aserve(reversed_text, "http", sockets=[listener]))
        async with Client(f"http://127.0.0.1:{kept.getsockname()[1]}/mcp") as client:
            assert len(await client.list_tools()) == 1
        running.cancel()
        await asyncio.wait({running})
        kept.settimeout(5)
        with socket.create_connection(kept.getsockname()), kept.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_server_prints_its_url(capfd: pytest.CaptureFixture[str]):
    for host, url_host in (("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "[::1]")):
        running = asyncio.create_task(aserve(create_kit(), "http", host=host, port=0, path="/tools"))
        printed = ""
        while "/tools\n" not in printed:
            await asyncio.sleep(0.01)
            printed += capfd.readouterr().err
        url = printed.strip().rpartition(" ")[2]
        assert url.startswith(f"http://{url_host}:")
        async with Client(url) as client:
            assert len(await client.list_tools()) == 1
        running.cancel()
        await asyncio.wait({running})


CALLS = logging.getLogger("ahvn_tools.calls")
OWN = logging.getLogger("ahvn_tools")


@pytest.fixture
def unconfigure(monkeypatch):
    """Return a function that takes away the handlers with which pytest configures logging, as each test starts."""
    return lambda: monkeypatch.setattr(logging.getLogger(), "handlers", [])


def emit() -> None:
    """Write one record of each level."""
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        CALLS.log(level, "%s", logging.getLevelName(level))


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (None, ["INFO", "WARNING", "ERROR"]),
        (logging.ERROR, ["ERROR"]),
        (logging.DEBUG, ["DEBUG", "INFO", "WARNING", "ERROR"]),
    ],
)
def test_records_of_a_level_are_written_to_stderr_while_the_server_runs(unconfigure, level, shown, capsys):
    unconfigure()
    with log_to_stderr(level):
        emit()
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in lines] == shown
    assert all(f" {text} ahvn_tools.calls: " in line for line, text in zip(lines, shown, strict=True))
    assert (OWN.handlers, OWN.level) == ([], logging.NOTSET)
    CALLS.info("later")
    assert capsys.readouterr().err == ""


def test_a_host_that_has_configured_logging_keeps_its_handlers_and_levels(caplog, capsys):
    with log_to_stderr(None):
        emit()
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    with log_to_stderr(logging.INFO):
        emit()
    assert [record.levelname for record in caplog.records[2:]] == ["INFO", "WARNING", "ERROR"]
    assert capsys.readouterr().err == ""


def test_a_level_that_the_host_has_set_is_kept(unconfigure, monkeypatch, capsys):
    unconfigure()
    monkeypatch.setattr(OWN, "level", logging.ERROR)
    with log_to_stderr(None):
        OWN.warning("hidden")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("level", [None, "info"])
async def test_a_served_call_is_logged_on_stderr(unconfigure, level, capsys):
    unconfigure()
    kit = Toolkit("kit", middleware=[log()]).add(lambda word: word, rename="echo")
    options = {} if level is None else {"log_level": level}
    async with over_http(kit, **options) as url, Client(url) as client:
        await client.call_tool("echo", {"word": "tea"})
    assert 'INFO ahvn_tools.calls: echo {"word": "tea"} -> ok in ' in capsys.readouterr().err


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_unknown_level_is_an_error(transport):
    with pytest.raises(ToolSpecError, match="`log_level` must be one of critical"):
        await asyncio.wait_for(aserve(Toolkit("kit"), transport, log_level="loud"), LONGEST)


@pytest.mark.parametrize(
    ("arguments", "is_logged", "is_file"),
    [
        ([], True, True),
        pytest.param([], True, False, marks=pytest.mark.exhaustive),
        pytest.param(["--log-level", "error"], False, False, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_the_command_answers_a_call_before_the_end_of_input_and_logs_it_on_stderr(
    tmp_path, arguments, is_logged, is_file
):
    file = tmp_path / "shed.py"
    file.write_text(
        "from ahvn_tools import Toolkit\nfrom ahvn_tools.middleware import log\n\n"
        "kit = Toolkit('shed', middleware=[log()])\n\n\n@kit.tool\ndef greet() -> str:\n    return 'hello'\n"
    )
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet", "_meta": meta}}
    messages = tmp_path / "messages"
    messages.write_text(json.dumps(call) + "\n")
    with messages.open() as opened:
        source = {"stdin": opened} if is_file else {"input": messages.read_text()}
        served = _run([sys.executable, "-m", "ahvn_tools", "serve", str(file), *arguments], **source)
    assert json.loads(served.stdout)["result"]["structuredContent"] == {"result": "hello"}
    assert ("ahvn_tools.calls: greet {} -> ok in " in served.stderr) == is_logged


def _run(command, **source):
    return subprocess.run(
        command,
        **source,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


@pytest.mark.parametrize(("options", "level"), [({}, logging.INFO), ({"log_level": "error"}, logging.ERROR)])
async def test_the_levels_of_a_uvicorn_that_runs_the_program_change_only_with_a_log_level(options, level, caplog):
    names = ("uvicorn.error", "uvicorn.access")
    for name in names:
        caplog.set_level(logging.INFO, name)  # as the outer server does
    async with over_http(create_kit(), **options) as url, Client(url) as client:
        await client.list_tools()
        assert [logging.getLogger(name).level for name in names] == [level, level]
