"""Credentials of a connection reach neither a model nor a log when the server sends them back."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import sys
import urllib.parse
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError as FastMCPToolError
from fastmcp.server.dependencies import get_http_request
from pydantic import SecretStr

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import ToolConnectionError
from tests.mcp.loopback import over_http

CANARY = "canary/4242+é"
ENCODED = base64.b64encode(CANARY.encode()).decode()

ECHO = Path(__file__).with_name("echo_server.py")

REPLIES = {
    "error": {"error": {"code": -32602, "message": f"bad key {CANARY}", "data": {CANARY: CANARY}}},
    "json in an error": {"error": {"code": -32602, "message": json.dumps({"key": CANARY}).replace("+", "\\u002B")}},
    "error result": {"isError": True, "content": [{"type": "text", "text": f"bad key {CANARY}"}]},
    "base64": {"isError": True, "content": [{"type": "text", "text": f"Basic {ENCODED}"}]},
    "url": {"isError": True, "content": [{"type": "text", "text": f"/x?k={urllib.parse.quote(CANARY)}"}]},
    "result": {"content": [{"type": "text", "text": CANARY}], "structuredContent": {CANARY: [CANARY]}},
    "media": {
        "content": [
            {
                "type": "resource",
                "resource": {"uri": "a:b", "blob": base64.b64encode(f"<{CANARY}>".encode()).decode()},
            }
        ]
    },
}


def echoing(reply: Any, **events: Any) -> list[str]:
    """Return the command of a server that answers each call with this reply."""
    return [sys.executable, str(ECHO), json.dumps({"reply": reply, **events})]


@contextlib.contextmanager
def connected(server: Any, **options: Any) -> Iterator[Toolkit]:
    """Add a server to a toolkit, and remove it again."""
    kit = Toolkit("kit").add_mcp(server, name="server", **options)
    try:
        yield kit
    finally:
        kit.remove_mcp("server")


@pytest.mark.parametrize("name", REPLIES)
def test_a_credential_of_a_process_is_masked_in_each_answer(name: str) -> None:
    with connected(echoing(REPLIES[name]), env={"API_KEY": SecretStr(CANARY)}) as kit:
        result = kit.exec("talk")
    shown = result.text + repr(result) + repr(result.exception)
    shown += "".join(base64.b64decode(block.resource.blob).decode() for block in result.blocks or () if name == "media")
    assert "***" in shown
    assert "canary" not in shown
    assert ENCODED not in shown


@pytest.mark.parametrize(
    "options",
    [
        {"env": {"SERVICE": CANARY}},
        {"env": {"SERVICE": SecretStr(CANARY)}},
        {"env": {"DATABASE_URL": f"postgres://ann:{urllib.parse.quote(CANARY, safe='')}@localhost/x"}},
    ],
)
def test_any_variable_of_a_process_is_masked_in_errors(options: dict[str, Any]) -> None:
    with connected(echoing(REPLIES["error result"]), **options) as kit:
        assert kit.exec("talk").text == "bad key ***"


def test_a_variable_that_is_no_secret_stays_in_results() -> None:
    with connected(echoing(REPLIES["result"]), env={"FOLDER": CANARY, "TOKEN": "short"}) as kit:
        assert kit.call("talk") == {CANARY: [CANARY]}


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"SERVICE": "${CANARY}"}},
        {"args": ["--api-key", "${CANARY}"]},
        {"args": ["--header", "Authorization: Bearer ${input:key}"]},
        {"args": [f"--token={CANARY}"]},
    ],
)
def test_the_credentials_in_a_configuration_are_masked(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    command, *arguments = echoing(REPLIES["error"])
    entry = {**entry, "command": command, "args": [*arguments, *entry.get("args", ())]}
    with connected({"mcpServers": {"server": entry}}, inputs={"key": SecretStr(CANARY)}) as kit:
        assert kit.exec("talk").text == "bad key ***"


def test_credentials_are_masked_in_definitions_and_progress() -> None:
    tool = {"name": "talk", "description": f"for {CANARY}", "inputSchema": {"type": "object"}}
    server = echoing(REPLIES["result"], tool=tool, progress=f"using {CANARY}")
    with connected(server, env={"API_KEY": CANARY}) as kit:
        assert kit["talk"].definition.description == "for ***"
        chunks = list(kit.stream("talk"))
    assert "using ***" in str(chunks)
    assert "canary" not in str(chunks)


def test_credentials_are_masked_in_the_questions_of_a_server() -> None:
    asked = []

    def answer(message: str, *_: Any) -> None:
        asked.append(message)

    server = echoing(REPLIES["result"], question=f"Is {CANARY} right?")
    with connected(server, env={"API_KEY": CANARY}, elicitation=answer) as kit:
        kit.exec("talk")
    assert asked == ["Is *** right?"]


def test_credentials_are_masked_in_why_there_is_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ahvn_tools")
    server = echoing(None, refusal={"code": -32000, "message": f"bad key {CANARY}"})
    with pytest.raises(ToolConnectionError, match=r"bad key \*\*\*") as caught:
        Toolkit("kit").add_mcp(server, env={"SERVICE": CANARY})
    logging.getLogger("ahvn_tools.test").error("No server.", exc_info=caught.value)
    assert "canary" not in caplog.text


def test_what_a_process_writes_to_stderr_cannot_control_a_terminal_and_shows_no_credential(
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = f"\x1b]0;owned\x07\x1b[31mred\u202e ok é\nkey {CANARY}\nno end"
    with connected(echoing(REPLIES["result"], stderr=text), env={"SERVICE": CANARY}) as kit:
        kit.exec("talk")
    assert "\\x1b]0;owned\\x07\\x1b[31mred\\u202e ok é\nkey ***\nno end" in capfd.readouterr().err


def test_a_file_gets_the_stderr_of_a_process_as_it_is_without_credentials(tmp_path: Path) -> None:
    server = echoing(REPLIES["result"], stderr=f"\x1b[31m{CANARY}\n")
    with connected(server, env={"SERVICE": CANARY}, stderr=tmp_path / "log"):
        pass
    assert (tmp_path / "log").read_bytes() == b"\x1b[31m***\n"


def test_the_credentials_of_a_fastmcp_client_are_masked() -> None:
    command, *arguments = echoing(REPLIES["error result"])
    client = Client(StdioTransport(command, arguments, env={"SERVICE": CANARY}))
    with connected(client) as kit:
        assert kit.exec("talk").text == "bad key ***"


web = FastMCP("web")


@web.tool
def talk(is_error: bool = True) -> str:
    """Send back the credentials of the request."""
    request = get_http_request()
    sent = {**request.headers, **request.query_params}
    names = ("authorization", "x-key", "cookie", "token")
    text = " ".join(f"{name}={sent[name]}" for name in names if name in sent)
    text += "".join(f" {base64.b64decode(part).decode()}" for part in text.split() if part.endswith("="))
    if is_error:
        raise FastMCPToolError(text)
    return text


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server that sends back what it got."""
    with over_http(web) as address:
        yield address


class Login(httpx2.Auth):
    """An authentication that makes its token at the first request."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        request.headers["x-key"] = "canary-login-token"
        yield request


@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize(
    "auth",
    [
        "canary-4242",
        SecretStr("canary-4242"),
        {"X-Key": "canary-4242"},
        {"Authorization": SecretStr("Bearer canary-4242"), "Cookie": "a=canary-1; b=canary-2"},
        httpx2.BasicAuth("ann", "canary-4242"),
        Login(),
        lambda state: state.get("key"),
    ],
)
@pytest.mark.default_cases(4)
def test_credentials_over_http_are_masked_in_answers(url: str, auth: Any, is_error: bool) -> None:
    with connected(url, auth=auth) as kit:
        shown = kit.session(key="canary-user").exec("talk", {"is_error": is_error}).text
    assert "***" in shown
    assert "canary" not in shown
    assert base64.b64encode(b"ann:canary-4242").decode() not in shown


@pytest.mark.parametrize("target", ["{scheme}://ann:canary-4242@{rest}", "{url}?token=canary-4242"])
def test_credentials_in_a_url_are_masked_in_answers(url: str, target: str) -> None:
    scheme, _, rest = url.partition("://")
    with connected(target.format(url=url, scheme=scheme, rest=rest)) as kit:
        shown = kit.exec("talk").text
    assert "***" in shown
    assert "canary" not in shown
    assert base64.b64encode(b"ann:canary-4242").decode() not in shown


def test_the_token_of_a_fastmcp_client_is_masked(url: str) -> None:
    client = Client(StreamableHttpTransport(url, headers={"X-Key": "canary-4242"}, auth="canary-token"))
    with connected(client) as kit:
        shown = kit.exec("talk").text
    assert "authorization=Bearer *** x-key=***" in shown


def test_users_see_no_credential_of_their_own_connection_only(url: str) -> None:
    """A text that is the credential of another user is an ordinary text."""
    with connected(url, auth=lambda state: {"X-Key": state["key"]} if "key" in state else None) as kit:
        ann, bob = kit.session(key="canary-ann"), kit.session(key="canary-bob")
        assert [one.exec("talk").text for one in (ann, bob, ann)] == ["x-key=***"] * 3


@pytest.mark.parametrize("is_error", [True, False])
async def test_the_credentials_of_a_connected_client_are_masked(url: str, is_error: bool) -> None:
    client = Client(StreamableHttpTransport(url, headers={"X-Key": "canary-4242"}, auth="canary-token"))
    async with client:
        spec = await ToolSpec.afrom_client(client, "talk")
        result = await spec.aexec(is_error=is_error)
    assert "authorization=Bearer ***" in result.text
    assert "canary-token" not in result.text
    assert ("canary-4242" in result.text) is not is_error  # `X-Key` may be no secret


@pytest.mark.parametrize("name", ["error", "error result"])
async def test_the_variables_of_a_connected_client_are_masked_in_errors(name: str) -> None:
    command, *arguments = echoing(REPLIES[name])
    async with Client(StdioTransport(command, arguments, env={"SERVICE": CANARY})) as client:
        result = await (await ToolSpec.afrom_client(client, "talk")).aexec()
    assert result.text == "bad key ***"
