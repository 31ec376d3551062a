"""The kinds of servers that can be passed, and the targets that they resolve to."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import (
    ClientTransport,
    FastMCPTransport,
    PythonStdioTransport,
    SSETransport,
    StdioTransport,
    StreamableHttpTransport,
)
from fastmcp.client.transports.config import MCPConfigTransport
from mcp.server.mcpserver import MCPServer
from pydantic import SecretStr

from ahvn_tools import Toolkit
from ahvn_tools.errors import DefinitionError, SourceError, ToolConnectionError
from ahvn_tools.mcp.client.client_settings import ClientSettings
from ahvn_tools.mcp.client.connection import ConnectionPool
from ahvn_tools.mcp.client.http import BoundedHTTPFactory
from ahvn_tools.mcp.client.stdio import BoundedStdioTransport
from ahvn_tools.mcp.client.targets import Target, resolve_targets

RAW = Path(__file__).parents[1] / "raw_server.py"


def one(server: Any, **options: Any) -> Target:
    (target,) = resolve_targets(server, **options)
    return target


def site(headers: dict[str, str]) -> dict[str, Any]:
    """Return a configuration with one server over HTTP."""
    return {"site": {"url": "http://127.0.0.1:1/mcp", "headers": headers}}


def transport(target: Target, **headers: str) -> Any:
    """What a client of the target would send through."""
    return target.make_client(ClientSettings(headers=headers)).transport.inner


async def environment(target: Target) -> dict[str, str]:
    connection = ConnectionPool(target)
    try:
        seen: dict[str, str] = (await connection.call("env", {})).structured_content["result"]
    finally:
        await connection.aclose()
    return seen


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "https://tools.example/mcp"])
def test_url_is_reached_over_http(url: str) -> None:
    target = one(url)
    assert target.takes_headers
    assert target.name in url
    assert isinstance(transport(target), StreamableHttpTransport)
    assert transport(target).url == url


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        ("http://127.0.0.1:1/sse", "SSETransport"),
        ({"one": {"url": "http://127.0.0.1:1/x", "type": "sse"}}, "SSETransport"),
        ({"one": {"url": "http://127.0.0.1:1/sse", "type": "http"}}, "StreamableHttpTransport"),
    ],
)
def test_sse_url_or_type_is_reached_over_sse(server: Any, kind: str) -> None:
    assert type(transport(one(server))).__name__ == kind


def test_clients_share_no_transport() -> None:
    target = one("http://127.0.0.1:1/mcp")
    assert transport(target) is not transport(target)


def test_headers_and_token_are_sent_to_a_url() -> None:
    target = one(site({"X-Api-Key": "k"}), auth="t")
    assert transport(target).headers == {"x-api-key": "k"}
    assert transport(target).auth is not None


def test_headers_can_be_passed_as_auth() -> None:
    assert transport(one("http://127.0.0.1:1/mcp", auth={"X-Api-Key": "k"})).headers == {"x-api-key": "k"}


async def test_pydantic_secrets_are_revealed_in_token_header_and_env() -> None:
    assert transport(one("http://127.0.0.1:1/mcp", auth=SecretStr("t"))).auth is not None
    keyed = one("http://127.0.0.1:1/mcp", auth={"X-Api-Key": SecretStr("k")})
    assert transport(keyed).headers == {"x-api-key": "k"}
    assert (await environment(one(RAW, env={"TOKEN": SecretStr("t")})))["TOKEN"] == "t"


def test_headers_of_a_call_have_priority() -> None:
    target = one(site({"X-Api-Key": "k", "other": "o"}), auth="t")
    made = transport(target, **{"x-api-key": "call", "Authorization": "Bearer call"})
    assert made.headers == {"x-api-key": "call", "other": "o", "authorization": "Bearer call"}
    assert made.auth is None  # the server's token would overwrite the call's


def test_one_login_serves_all_clients() -> None:
    target = one("http://127.0.0.1:1/mcp", auth="oauth")
    with pytest.warns(UserWarning, match="in-memory token storage"):
        assert isinstance(transport(target).auth, httpx2.Auth)
    assert transport(target).auth is transport(target).auth


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (f"{sys.executable} '{RAW}'", "raw_server"),
        ([sys.executable, str(RAW)], "raw_server"),
        ((sys.executable, RAW), "raw_server"),
        (RAW, "raw_server"),
        (str(RAW), "raw_server"),
    ],
)
async def test_command_or_script_is_started(server: Any, name: str) -> None:
    target = one(server)
    assert (target.name, target.takes_headers) == (name, False)
    assert isinstance(transport(target), BoundedStdioTransport)
    assert (await environment(target))["PATH"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @modelcontextprotocol/server-memory", "server-memory"),
        ("uvx mcp-server-time@2026.1 --zone UTC", "mcp-server-time"),
        ("uv run server.py", "server"),
        ("/usr/bin/mcp-server-git --repository .", "mcp-server-git"),
        ("python", "python"),
        ("node build/index.js", "index"),
    ],
)
def test_name_of_a_command_is_the_program_that_runs(command: str, name: str) -> None:
    assert one(command).name == name


async def test_server_process_sees_only_the_passed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SECRET", "hidden")
    seen = await environment(one(RAW, env={"PLACE": "passed"}))
    assert seen["PLACE"] == "passed"
    assert "OUR_SECRET" not in seen


@pytest.mark.parametrize("kind", [FastMCP, MCPServer])
async def test_server_object_is_called_in_memory(kind: Any) -> None:
    server = kind("inside")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    target = one(server)
    assert (target.name, target.takes_headers) == ("inside", False)
    assert isinstance(transport(target), FastMCPTransport)
    connection = ConnectionPool(target)
    assert (await connection.call("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    await connection.aclose()


async def test_client_is_cloned_and_stays_unchanged() -> None:
    server = FastMCP("inside")

    @server.tool
    def number() -> int:
        return 1

    async with Client(server, name="theirs") as client:
        connection = ConnectionPool(one(client))
        assert connection.target.name == "theirs"
        assert [tool.name for tool in await connection.tools()] == ["number"]
        await connection.aclose()
        assert client.is_connected()
        assert (await client.call_tool("number")).data == 1


async def test_clients_process_is_not_shared() -> None:
    command = StdioTransport(sys.executable, [str(RAW)], env={"PLACE": "theirs"})
    target = one(Client(command))
    assert target.name == "raw_server"
    assert isinstance(transport(target), BoundedStdioTransport)
    assert (await environment(target))["PLACE"] == "theirs"
    assert command._connect_task is None


async def test_handlers_of_a_client_still_work(tmp_path: Path) -> None:
    theirs: list[Any] = []

    async def hear(message: Any) -> None:
        theirs.append(message)

    async def elicit(*_: Any) -> dict[str, str]:
        return {"colour": "theirs"}

    with (tmp_path / "errors").open("w") as errors:
        command = StdioTransport(sys.executable, [str(RAW), "grumble"], log_file=errors)
        client = Client(command, message_handler=hear, elicitation_handler=elicit)
        ours: list[str] = []
        connection = ConnectionPool(one(client), on_list_changed=lambda: ours.append("changed"))
        await connection.call("change", {"times": 1})
        answer = await connection.call("elicit", {})
        await asyncio.sleep(0.2)
        await connection.aclose()
    assert [type(message).__name__ for message in theirs] == ["ToolListChangedNotification"]
    assert ours == ["changed"]
    assert answer.structured_content["result"]["content"] == {"colour": "theirs"}
    assert (tmp_path / "errors").read_text() == "what a nuisance\n"


async def test_passed_handler_has_priority_over_the_clients(tmp_path: Path) -> None:
    async def theirs(*_: Any) -> Any:
        return {"colour": "theirs"}

    def ours(*_: Any) -> Any:
        return {"colour": "ours"}

    command = StdioTransport(sys.executable, [str(RAW), "grumble"], log_file=tmp_path / "errors")
    client = Client(command, elicitation_handler=theirs)
    settings = ClientSettings(elicitation=ours, sampling=lambda *_: "ours")
    connection = ConnectionPool(one(client), settings)
    asked = await connection.call("elicit", {})
    sampled = await connection.call("sample", {})
    await connection.aclose()
    assert asked.structured_content["result"]["content"] == {"colour": "ours"}
    assert sampled.structured_content["result"]["content"]["text"] == "ours"
    assert (tmp_path / "errors").read_text() == "what a nuisance\n"


def test_url_and_headers_of_a_client_are_used() -> None:
    client = Client(StreamableHttpTransport("http://somewhere.example/mcp", headers={"a": "1"}))
    target = one(client)
    assert (target.name, target.takes_headers) == ("somewhere.example", True)
    assert transport(target, b="2").headers == {"a": "1", "b": "2"}
    assert client.transport.headers == {"a": "1"}


@pytest.mark.parametrize("own", [{"auth": "own"}, {"headers": {"Authorization": "Bearer own"}}])
def test_credentials_of_a_call_have_priority_over_those_of_a_client(own: dict[str, Any]) -> None:
    target = one(Client(StreamableHttpTransport("http://127.0.0.1:1/mcp", **own)))
    made = transport(target, authorization="Bearer call")
    assert (made.headers, made.auth) == ({"authorization": "Bearer call"}, None)
    kept = transport(target, other="o")
    assert kept.headers["other"] == "o"
    assert kept.auth is not None or kept.headers["authorization"] == "Bearer own"


def test_client_of_a_configuration_resolves_to_its_servers() -> None:
    two = {"mcpServers": {"a": {"url": "http://127.0.0.1:1"}, "b": {"command": "server", "args": ["x"]}}}
    found = resolve_targets(Client(two, name="both"))
    assert [(target.name, target.takes_headers, type(transport(target))) for target in found] == [
        ("a", True, StreamableHttpTransport),
        ("b", False, BoundedStdioTransport),
    ]


def test_client_whose_configuration_transforms_tools_is_used_unchanged() -> None:
    entry = {"url": "http://127.0.0.1:1", "tools": {"find": {"name": "search"}}}
    two = {"mcpServers": {"a": entry, "b": {"url": "http://127.0.0.1:1"}}}
    client = one(Client(two, name="both")).make_client(ClientSettings())
    assert type(client.transport).__name__ == "MCPConfigTransport"


async def test_the_command_of_a_transport_is_started_with_limits(tmp_path: Path) -> None:
    command = PythonStdioTransport(RAW, env={"PLACE": "theirs"}, log_file=tmp_path / "log")
    target = one(command)
    assert target.name == "raw_server"
    assert isinstance(transport(target), BoundedStdioTransport)
    assert (await environment(target))["PLACE"] == "theirs"
    assert (await environment(one(command, env={"PLACE": "ours"})))["PLACE"] == "ours"
    assert command._connect_task is None
    assert (tmp_path / "log").exists()


@pytest.mark.parametrize("kind", [StreamableHttpTransport, SSETransport])
@pytest.mark.parametrize("verify", [None, False])
def test_the_url_and_credentials_of_a_transport_are_used_with_limits(kind: Any, verify: Any) -> None:
    theirs = kind("http://somewhere.example/mcp", headers={"a": "1", "b": "1"}, auth="token", verify=verify)
    target = one(theirs)
    made = transport(target, B="2")
    assert (target.name, target.takes_headers) == ("somewhere.example", True)
    assert (type(made), made.url, made.headers) == (kind, theirs.url, {"a": "1", "b": "2"})
    assert isinstance(made.httpx_client_factory, BoundedHTTPFactory)
    assert made.auth.token.get_secret_value() == "token"
    assert transport(target, Authorization="mine").auth is None
    assert transport(one(theirs, auth="other")).auth.token.get_secret_value() == "other"
    assert made.httpx_client_factory()._transport._pool._ssl_context.check_hostname is (verify is None)


async def test_the_server_of_a_transport_is_called_in_memory() -> None:
    server = FastMCP("inside")

    @server.tool
    def number() -> int:
        return 1

    connection = ConnectionPool(one(FastMCPTransport(server)))
    assert connection.target.name == "inside"
    assert [tool.name for tool in await connection.tools()] == ["number"]
    await connection.aclose()


def test_the_configuration_of_a_transport_resolves_to_its_servers() -> None:
    two = {"mcpServers": {"a": {"url": "http://127.0.0.1:1"}, "b": {"command": "python", "args": ["-V"]}}}
    found = resolve_targets(MCPConfigTransport(two))
    assert [target.name for target in found] == ["a", "b"]
    assert isinstance(transport(found[1]), BoundedStdioTransport)


class OwnTransport(ClientTransport):
    """A transport with its own code."""

    async def connect_session(self, **options: Any) -> Any:
        """Connect."""


class OwnStdioTransport(StdioTransport):
    """A process that is talked to by its own code."""

    async def connect_session(self, **options: Any) -> Any:
        """Connect."""


TRANSFORMED = {"mcpServers": {"a": {"url": "http://127.0.0.1:1", "tools": {"find": {"name": "search"}}}}}


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (OwnTransport(), "A OwnTransport connects by its own code"),
        (OwnStdioTransport("python", []), "A OwnStdioTransport connects by its own code"),
        (
            StreamableHttpTransport("http://x", httpx_client_factory=httpx2.AsyncClient),
            "`httpx_client_factory` makes its own HTTP clients",
        ),
        (MCPConfigTransport(TRANSFORMED), "The configuration of a MCPConfigTransport changes tools"),
    ],
)
def test_a_transport_whose_messages_cannot_be_limited_is_refused(server: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=rf"{message}.* pass fastmcp\.Client\(transport\)"):
        resolve_targets(server)


def test_a_transport_takes_the_options_of_what_it_connects_to() -> None:
    with pytest.raises(DefinitionError, match="takes no auth"):
        resolve_targets(StdioTransport("python", []), auth="t")
    with pytest.raises(DefinitionError, match="A FastMCP takes no auth"):
        resolve_targets(FastMCPTransport(FastMCP("inside")), auth="t")


def test_name_can_be_passed_for_one_server() -> None:
    assert one("http://127.0.0.1:1/mcp", name="mine").name == "mine"
    with pytest.raises(DefinitionError, match="there are 2"):
        resolve_targets({"a": {"url": "http://x"}, "b": {"url": "http://y"}}, name="mine")


@pytest.mark.parametrize(
    ("server", "options", "message"),
    [
        ("", {}, "no words"),
        ([], {}, "no words"),
        ("server 'x", {}, "cannot be split into words"),
        (Path("nowhere.py"), {}, "no file 'nowhere.py'"),
        (Path("server.exe"), {}, "is not a server"),
        (3, {}, "A int is not an MCP server"),
        (b"http://x", {}, "A bytes is not an MCP server"),
        ("nowhere.json", {}, "cannot be read: No such file or directory"),
        ("mcp-server-git", {"auth": "t"}, "takes no auth"),
        ("mcp-server-git", {"auth": {"a": "b"}}, "takes no auth"),
        (FastMCP("inside"), {"auth": "t"}, "A FastMCP takes no auth"),
        ("http://x", {"auth": 5}, "`auth` is a token, .*, not a int"),
        ("http://x", {"auth": ("ann", "pass")}, "`auth` is a token, .*, not a tuple"),
        ("http://x", {"auth": "a\nb"}, "cannot be sent as a header"),
        ("http://x", {"auth": {"X-Key": 5}}, "cannot be sent as a header"),
        ("http://x", {"auth": {"X Key": "k"}}, "cannot be sent as a header"),
        ({"a": {"url": "http://x", "headers": {"X-Key": "k\u00e9"}}}, {}, "'X-Key' .*cannot be sent as a header"),
        ("mcp-server-git", {"env": {"PORT": 5}}, "`env` has a int for 'PORT'"),
        ("mcp-server-git", {"name": "a\ud83d"}, r"The name 'a\\ud83d' of a server has half of a surrogate pair"),
        ({"a\ud83d": {"command": "x"}}, {}, "half of a surrogate pair"),
    ],
)
def test_invalid_server_is_refused(server: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        resolve_targets(server, **options)


@pytest.mark.parametrize(
    ("entry", "options"),
    [
        ({"command": "x", "envFile": "${KEY}"}, {}),
        ({"command": "x", "envFile": "a\0${KEY}"}, {}),
        ({"command": "${KEY}"}, {"auth": "t"}),
        ({"url": "http://${KEY}/"}, {"auth": "a\nb"}),
        ({"command": "x", "cwd": "${KEY}"}, {}),
        ({"command": "${KEY}"}, {}),
        ({"url": "${KEY}"}, {}),
        ({"url": "http://127.0.0.1:${KEY}/"}, {}),
    ],
)
def test_no_error_of_an_entry_has_the_value_of_a_variable(
    entry: dict[str, Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "s3cret-value")
    with pytest.raises((DefinitionError, SourceError, ToolConnectionError)) as caught:
        Toolkit("k").add_mcp({"mcpServers": {"a": entry}}, **options)
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in shown


def test_repr_of_a_target_contains_no_secret() -> None:
    assert "sesame" not in repr(resolve_targets(site({"k": "sesame"}), auth="sesame"))


def test_mcp_json_can_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://y"}}}))
    assert [target.name for target in resolve_targets(file)] == ["a", "b"]
    assert [target.name for target in resolve_targets(str(file))] == ["a", "b"]


async def test_entrys_command_environment_and_folder_are_used(tmp_path: Path) -> None:
    entry = {
        "command": sys.executable,
        "args": ["${workspaceFolder}/server.py"],
        "env": {"A": "entry", "B": "${B:-default}"},
        "cwd": "${workspaceFolder}",
    }
    (tmp_path / "server.py").write_text(RAW.read_text())
    (tmp_path / ".vscode").mkdir()
    file = tmp_path / ".vscode" / "mcp.json"
    file.write_text(json.dumps({"servers": {"raw": entry}}))
    seen = await environment(one(file, env={"A": "passed"}))
    assert (seen["A"], seen["B"]) == ("passed", "default")


def test_entrys_headers_and_token_are_used() -> None:
    entry = {"url": "http://127.0.0.1:1/mcp", "headers": {"k": "entry", "l": "entry"}, "auth": "token"}
    made = transport(one({"mcpServers": {"a": entry}}, auth={"k": "passed"}))
    assert made.headers == {"k": "passed", "l": "entry"}
    assert made.auth is not None
