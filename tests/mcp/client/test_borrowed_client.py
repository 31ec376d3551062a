"""Tools of a connected MCP client: called like any other spec, from any thread and any event loop."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import PythonStdioTransport
from fastmcp.exceptions import ToolError as ForeignToolError
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult as FastMCPResult
from mcp_types import CallToolResult
from mcp_types import Tool as WireTool

from ahvn_tools import ToolSpec
from ahvn_tools.errors import (
    SyncCallError,
    ToolConnectionError,
    ToolError,
    ToolLookupError,
    ToolTimeoutError,
)

SERVER = '''
import asyncio
import os

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import ToolResult

server = FastMCP("shelf")


@server.tool(tags={"read"}, annotations={"readOnlyHint": True})
def search(query: str, limit: int = 10, user: str = "guest") -> dict:
    """Search the shelf.

    Args:
        query: What to look for.
    """
    return {"query": query, "limit": limit, "user": user}


@server.tool
def number(text: str):
    return text


@server.tool
def note(text: str) -> None:
    pass


@server.tool
def add(a: int, b: int) -> int:
    return a + b


@server.tool
def fail(secret: str, length: int = 0) -> str:
    raise ToolError(f"refused {secret} " + "x" * length)


@server.tool
async def sleep(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


@server.tool
def die() -> str:
    os._exit(3)


if __name__ == "__main__":
    server.run(show_banner=False)
'''


def in_memory() -> Any:
    namespace: dict[str, Any] = {"__name__": "shelf"}
    exec(compile(SERVER, "shelf.py", "exec", dont_inherit=True), namespace)
    return namespace["server"]


@pytest.fixture
async def memory() -> AsyncIterator[Any]:
    """A client of a server in this process."""
    async with Client(in_memory()) as connected:
        yield connected


@pytest.fixture(params=["memory", pytest.param("stdio", marks=pytest.mark.exhaustive)])
async def client(request, tmp_path) -> AsyncIterator[Any]:
    """A client of a server in this process, or of a server process."""
    if request.param == "memory":
        async with Client(in_memory()) as connected:
            yield connected
        return
    script = tmp_path / "shelf.py"
    script.write_text(SERVER)
    transport = PythonStdioTransport(script, python_cmd=sys.executable, keep_alive=False)
    async with Client(transport, init_timeout=60) as connected:
        yield connected


async def test_remote_tool_works_like_a_local_spec(client):
    spec = await ToolSpec.afrom_client(client, "search", examples=[{"query": "x"}])
    assert (spec.name, spec.description, spec.tags) == ("search", "Search the shelf.", {"read"})
    assert spec.definition.annotations == {"readOnlyHint": True}
    assert list(spec.params) == ["query", "limit", "user"]
    assert spec.params["query"]["description"] == "What to look for."
    assert spec.timeout == 30
    assert await spec.acall("x", 2) == {"query": "x", "limit": 2, "user": "guest"}
    assert (await spec.aexec(query="x")).structured_content["limit"] == 10
    assert (await spec.aexec()).error.code == "invalid_parameters"


async def test_bound_parameter_is_sent_but_absent_from_the_schema(client):
    spec = (await ToolSpec.afrom_client(client, "search")).bind("user", "session.user", "ann")
    assert list(spec.params) == ["query", "limit"]
    assert (await spec.acall(query="x"))["user"] == "ann"
    spec.state["session"]["user"] = "bob"
    assert (await spec.acall(query="x"))["user"] == "bob"
    assert (await spec.aexec(query="x", user="eve")).error.code == "invalid_parameters"


async def test_stream_of_a_remote_tool_is_its_last_result(memory):
    spec = await ToolSpec.afrom_client(memory, "add")
    assert [(result.value, result.is_last) async for result in spec.astream(a=1, b=2)] == [(3, True)]


async def test_unknown_tool_error_names_near_misses(memory):
    with pytest.raises(ToolLookupError, match=r"The server has no tool 'serch'. Did you mean 'search'"):
        await ToolSpec.afrom_client(memory, "serch")


async def test_sync_call_from_another_thread_works(client):
    spec = await ToolSpec.afrom_client(client, "add")
    assert await asyncio.to_thread(spec, a=1, b=2) == 3
    assert (await asyncio.to_thread(spec.exec, a=1, b=2)).value == 3
    assert await asyncio.to_thread(lambda: [result.value for result in spec.stream(a=1, b=2)]) == [3]


async def test_sync_call_in_the_clients_loop_raises_instead_of_hanging(client):
    spec = await ToolSpec.afrom_client(client, "add")
    with pytest.raises(SyncCallError, match="acall"):
        spec(a=1, b=2)
    assert await spec.acall(a=1, b=2) == 3


async def test_remote_error_is_cut_and_masks_bound_values(client):
    spec = (await ToolSpec.afrom_client(client, "fail")).bind("secret", default="classified")
    result = await spec.aexec()
    assert result.error.code == "tool_error"
    assert result.error.message.startswith("refused <secret>")
    assert "classified" not in str(result.to_mcp())
    with pytest.raises(ToolError, match="refused <secret>") as caught:
        await spec.acall()
    assert "classified" not in str(caught.value)
    long = await spec.aexec(length=100_000)
    assert len(long.error.message) < 3_000


async def test_timeout_is_on_time_and_keeps_the_session(client):
    spec = await ToolSpec.afrom_client(client, "sleep", timeout=0.2)
    with pytest.raises(ToolTimeoutError):
        await spec.acall(seconds=30)
    assert (await spec.aexec(seconds=30)).error.code == "timeout"
    patient = await ToolSpec.afrom_client(client, "sleep")
    assert await patient.acall(seconds=0) == "slept"


async def test_cancelled_call_leaves_the_session_usable(client):
    spec = await ToolSpec.afrom_client(client, "sleep")
    task = asyncio.create_task(spec.acall(seconds=30))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await spec.acall(seconds=0) == "slept"


async def test_from_client_checks_options_and_bindings():
    async with Client(in_memory()) as client:
        with pytest.raises(ValueError, match=r"'usr'.*'user'"):
            await ToolSpec.afrom_client(client, "search", binds={"usr": "user"})
        spec = await ToolSpec.afrom_client(client, "search", name="find", tags={"b"})
        assert (spec.name, spec.tags) == ("find", {"b"})
        assert (await spec.acall(query="x"))["query"] == "x"


# lost connections


async def test_spec_knows_whether_its_client_is_connected(memory):
    async with Client(in_memory()) as own:
        listed = (await own.list_tools())[0]
        spec = await ToolSpec.afrom_client(own, listed.name)
        assert spec.is_connected
        assert spec.clone().is_connected
    assert not spec.is_connected
    assert not ToolSpec.from_mcp(listed).is_connected
    assert not pickle.loads(pickle.dumps(spec)).is_connected
    assert ToolSpec.from_mcp(listed, client=memory.session).is_connected
    assert ToolSpec.from_function(in_memory).is_connected


async def test_closed_client_is_a_connection_error():
    async with Client(in_memory()) as client:
        spec = await ToolSpec.afrom_client(client, "add")
    result = await spec.aexec(a=1, b=2)
    assert result.error.code == "connection"
    with pytest.raises(ToolConnectionError, match="connect it again"):
        await spec.acall(a=1, b=2)


async def test_client_that_never_connected_is_a_connection_error():
    with pytest.raises(ToolConnectionError, match="connect it first"):
        await ToolSpec.afrom_client(Client(in_memory()), "add")


def test_client_that_is_entered_again_in_another_loop_works():
    client = Client(in_memory())

    async def make_spec() -> ToolSpec:
        async with client:
            spec = await ToolSpec.afrom_client(client, "add")
            assert await spec.acall(a=1, b=2) == 3
            return spec

    async def call_again(spec: ToolSpec) -> None:
        async with client:
            assert await asyncio.to_thread(spec, a=1, b=2) == 3  # through the loop of the client, not its own
            assert await spec.acall(a=1, b=2) == 3

    spec = asyncio.run(make_spec())
    assert spec.exec(a=1, b=2).error.code == "connection"
    asyncio.run(call_again(spec))
    with pytest.raises(ToolConnectionError, match="connect it again"):
        spec(a=1, b=2)


async def test_client_that_moves_between_running_loops_is_called_in_the_one_where_it_is_connected(memory):
    spec = await ToolSpec.afrom_client(memory, "add")
    await memory.close()

    async def call_in_another_loop() -> int:
        async with memory:
            return await spec.acall(a=1, b=2)

    assert await asyncio.to_thread(asyncio.run, call_in_another_loop()) == 3


@pytest.mark.exhaustive
async def test_server_that_dies_is_a_connection_error(tmp_path):
    script = tmp_path / "shelf.py"
    script.write_text(SERVER)
    transport = PythonStdioTransport(script, python_cmd=sys.executable, keep_alive=False)
    client = Client(transport, init_timeout=60)
    with contextlib.suppress(Exception):  # closing a dead connection may raise in the client
        async with client:
            die, add = await ToolSpec.afrom_client(client, "die"), await ToolSpec.afrom_client(client, "add")
            codes = [(await die.aexec()).error.code, (await add.aexec(a=1, b=2)).error.code]
            with pytest.raises(ToolConnectionError):
                await ToolSpec.afrom_client(client, "add")
    assert codes == ["connection", "connection"]


async def test_pickled_spec_has_no_connection():
    async with Client(in_memory()) as client:
        spec = (await ToolSpec.afrom_client(client, "search")).bind("limit", default=3)
        twin = pickle.loads(pickle.dumps(spec))
    assert twin.definition == spec.definition
    assert twin.exec(query="x").error.code == "connection"


# results

ANSWERS = {
    "seven": {"content": [], "structuredContent": {"n": "seven"}},
    "silent": {"content": [{"type": "text", "text": "7"}]},
    "failed": {"isError": True, "content": [{"type": "text", "text": "no\u202e \x1b[31m" + "z" * 9000}]},
    "fine": {"content": [], "structuredContent": {"n": 7}},
}


class UncheckedClient:
    """A client that does not check results."""

    async def list_tools(self) -> Any:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        return [WireTool(name=name, input_schema={"type": "object"}, output_schema=schema) for name in ANSWERS]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        return CallToolResult.model_validate(ANSWERS[name])


async def call_tool(client: Any, name: str) -> Any:
    return await (await ToolSpec.afrom_client(client, name)).aexec()


async def test_result_is_checked_and_sanitized_even_if_the_client_does_not():
    assert (await call_tool(UncheckedClient(), "fine")).value == 7
    assert (await call_tool(UncheckedClient(), "seven")).error.code == "invalid_result"
    assert (await call_tool(UncheckedClient(), "silent")).error.code == "invalid_result"
    message = (await call_tool(UncheckedClient(), "failed")).error.message
    assert (len(message) < 2_100, "\u202e" in message, "\x1b" in message) == (True, False, False)


@pytest.mark.parametrize("name", ["seven", "silent"])
async def test_result_refused_by_the_client_is_not_a_lost_connection(name):
    class InvalidTool(Tool):
        async def run(self, arguments: dict[str, Any]) -> Any:
            return FastMCPResult(content="x", structured_content=ANSWERS[name].get("structuredContent"))

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server = FastMCP("invalid")
    server.add_tool(InvalidTool(name=name, parameters={"type": "object"}, output_schema=schema))
    async with Client(server) as client:
        error = (await call_tool(client, name)).error
    assert (error.code, error.message) == ("invalid_result", f"The result of {name!r} does not fit its output schema.")


# other clients


class MinimalClient:
    """A client with only the two required methods, which return what mcp's session returns."""

    class Listed:
        def __init__(self, tools: list[Any]) -> None:
            self.tools = tools

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def list_tools(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.Listed([ToolSpec.from_function(lambda a: a, name="echo").to_mcp()])

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((name, arguments))
        if self.error is not None:
            raise self.error
        return ToolSpec.from_function(lambda a: a, name="echo").exec(**arguments).to_mcp()


async def test_any_object_with_the_two_client_methods_works():
    client = MinimalClient()
    spec = await ToolSpec.afrom_client(client, "echo", name="renamed")
    assert await spec.acall(a="1") == "1"
    assert client.calls == [("echo", {"a": "1"})]


async def test_other_client_errors_are_raised_unchanged():
    client = MinimalClient()
    spec = await ToolSpec.afrom_client(client, "echo")
    client.error = ForeignToolError("no such luck")
    with pytest.raises(ForeignToolError, match="no such luck"):
        await spec.acall(a="1")
    assert (await spec.aexec(a="1")).error.message == "no such luck"
    with pytest.raises(ForeignToolError):
        await ToolSpec.afrom_client(client, "echo")


async def test_transport_error_is_a_connection_error():
    import anyio

    client = MinimalClient()
    spec = await ToolSpec.afrom_client(client, "echo")
    for error in (anyio.ClosedResourceError(), ConnectionResetError(), RuntimeError("not connected")):
        client.error = error
        assert (await spec.aexec(a="1")).error.code == "connection"


def test_client_belongs_to_the_loop_of_its_first_call():
    client = MinimalClient()
    spec = ToolSpec.from_mcp(ToolSpec.from_function(lambda a: a, name="echo").to_mcp(), client=client)
    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(spec.acall(a="1")) == "1"
        assert spec.exec(a="1").error.code == "connection"
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        assert spec(a="2") == "2"
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        assert not thread.is_alive()
    finally:
        loop.close()


async def test_client_passed_inside_a_loop_belongs_to_that_loop():
    server = FastMCP("test")
    server.tool(lambda a: a, name="echo")
    async with Client(server) as client:
        (wire,) = await client.list_tools()
        spec = ToolSpec.from_mcp(wire, client=client)
        assert await asyncio.to_thread(spec, a="1") == "1"
