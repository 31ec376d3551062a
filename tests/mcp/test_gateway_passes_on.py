"""What passes through a served toolkit to the servers behind it, and back, apart from calls and questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.tools.base import ToolResult as FastMCPResult
from mcp_types import (
    ListRootsRequest,
    ListRootsResult,
    ResourceLink,
)

import ahvn_tools
from ahvn_tools import ToolCall, Toolkit, formats
from ahvn_tools.errors import ToolkitError

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

server = FastMCP("remote", instructions="Call `meta` first.\u200b " + "x" * 10_000)
modes = pytest.mark.parametrize("mode", ["legacy", "auto"])


@server.tool
def meta(context: Context) -> FastMCPResult:
    """Return the `_meta` of the request."""
    received = dict(context.request_context.meta or {})
    return FastMCPResult(content="done", structured_content={"received": received}, meta={"traceparent": TRACE})


@server.tool
async def roots(context: Context) -> list[str]:
    """Return the roots of the client."""
    answer = await context.session.send_request(ListRootsRequest(), ListRootsResult)
    return [str(root.uri) for root in answer.roots]


@asynccontextmanager
async def gateway(target: Any = server, kit: Toolkit | None = None, **options: Any) -> AsyncIterator[Toolkit]:
    kit = await (kit or Toolkit("gateway")).aadd_mcp(target, name="remote", **options)
    try:
        yield kit
    finally:
        await kit.aremove_mcp("remote")


@modes
async def test_the_meta_of_a_request_reaches_the_server_and_that_of_its_result_the_client(mode: str) -> None:
    sent = {"traceparent": TRACE, "example.com/user": {"id": 7}}
    async with gateway(mode=mode) as kit, Client(kit.to_fastmcp_server(), mode=mode) as client:
        result = await client.call_tool("meta", meta=sent)
        too_large = await client.call_tool("meta", meta={"example.com/user": "x" * 100_000})
    received = result.structured_content["received"]
    assert {name: received[name] for name in sent} == sent
    assert result.meta["traceparent"] == TRACE
    assert "example.com/user" not in too_large.structured_content["received"]


async def test_the_meta_of_one_client_does_not_reach_the_call_of_another() -> None:
    async def call(kit: Toolkit, name: str) -> Any:
        async with Client(kit.to_fastmcp_server()) as client:
            results = [await client.call_tool("meta", meta={"name": name}) for _ in range(3)]
            return {result.structured_content["received"]["name"] for result in results}

    async with gateway() as kit:
        assert await asyncio.gather(*(call(kit, name) for name in "abc")) == [{"a"}, {"b"}, {"c"}]
        async with Client(kit.to_fastmcp_server()) as client:
            plain = await client.call_tool("meta")
    assert "name" not in plain.structured_content["received"]


@modes
async def test_the_client_protocol_of_a_request_is_not_passed_on(mode: str) -> None:
    async with gateway(mode="legacy") as kit, Client(kit.to_fastmcp_server(), mode=mode) as client:
        received = (await client.call_tool("meta")).structured_content["received"]
    assert not [name for name in received if name.startswith("io.modelcontextprotocol/")]


@modes
async def test_the_instructions_of_a_server_are_part_of_those_of_the_gateway(mode: str) -> None:
    kit = Toolkit("gateway").add_group("own", "Own tools.", notes="Be careful.", active=True)
    kit.add(len, name="count", group="own")
    async with gateway(kit=kit), Client(kit.to_fastmcp_server(), mode=mode) as client:
        text = client.instructions or ""
    assert text.startswith(
        "Be careful.\n\nInstructions of the MCP server 'remote' for its tools:\nCall `meta` first.\\u200b"
    )
    assert len(text) < 4_200


async def test_instructions_of_a_server_whose_tools_the_client_may_not_see_are_not_sent() -> None:
    async with gateway(audience="clerk") as kit:
        assert kit.to_fastmcp_server().instructions is None
        assert "Call `meta`" in (kit.to_fastmcp_server(audience="clerk").instructions or "")
        assert kit.to_fastmcp_server(audience="clerk", instructions="Mine.").instructions == "Mine."


@modes
async def test_the_folders_of_a_toolkit_are_the_roots_of_its_servers(mode: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    async with gateway(mode="legacy", kit=Toolkit("gateway", roots=[tmp_path])) as kit:
        assert await kit.acall("roots") == [tmp_path.as_uri()]
        assert await kit.session(roots=[tmp_path / "inner"]).acall("roots") == [(tmp_path / "inner").as_uri()]
        async with Client(kit.to_fastmcp_server(), mode=mode) as client:
            assert (await client.call_tool("roots")).data == [tmp_path.as_uri()]


async def test_a_toolkit_without_folders_has_no_roots() -> None:
    async with gateway(mode="legacy") as kit:
        assert (await kit.aexec("roots")).is_error


@modes
async def test_the_server_and_the_client_say_the_name_and_the_version_of_this_package(mode: str) -> None:
    seen: list[Any] = []

    @server.tool
    def who(context: Context) -> str:
        seen.append(context.session.client_params.client_info)
        return "done"

    async with gateway(mode=mode) as kit, Client(kit.to_fastmcp_server(), mode=mode) as client:
        await client.call_tool("who")
        info = client.server_info
    assert (info.name, info.version) == ("gateway", ahvn_tools.__version__)
    assert (seen[0].name, seen[0].version) == ("ahvn-tools", ahvn_tools.__version__)
    assert Toolkit("x").to_fastmcp_server(version="7").version == "7"


notes = FastMCP("notes")


@notes.resource("note://{name}")
def read_note(name: str) -> str:
    return f"The text of {name}."


@notes.tool
def find() -> Any:
    """Find a note."""
    return [ResourceLink(type="resource_link", uri="note://tea", name="tea", description="About tea.")]


@notes.tool
async def work(context: Context, rounds: int, seconds: float = 0.05) -> str:
    """Report progress in each round."""
    for number in range(rounds):
        await asyncio.sleep(seconds)
        await context.report_progress(number)
    return "done"


@pytest.mark.parametrize(
    "format_name", ["openai", "openai-responses", "anthropic", "gemini", "bedrock", "mistral", "ollama", "prompt"]
)
async def test_a_model_reads_the_name_and_the_description_of_a_linked_resource(format_name: str) -> None:
    async with gateway(notes) as kit:
        result = await kit.aexec("find")
    expected = "[resource 'tea' at note://tea: About tea.]"
    assert result.text == expected
    written = json.dumps(formats.get(format_name).results([(ToolCall(id="1", name="find"), result)]))
    assert expected in written


async def test_a_model_reads_a_resource_by_a_tool_that_the_host_has_asked_for() -> None:
    async with (
        gateway(notes, resource_tool="read_note", prefix="my_") as kit,
        Client(kit.to_fastmcp_server()) as client,
    ):
        assert list(kit["my_read_note"].params) == ["uri"]
        assert (await kit.aexec("my_read_note", {"uri": "note://tea"})).text == "The text of tea."
        served = await client.call_tool("my_read_note", {"uri": "note://tea"})
        unknown = await kit.aexec("my_read_note", {"uri": "other://tea"})
        refused = await kit.aexec("my_read_note", {"uri": "x" * 3000})
    assert served.content[0].resource.text == "The text of tea."
    assert unknown.is_error
    assert refused.error is not None
    assert refused.error.code == "invalid_parameters"
    async with gateway(notes) as kit:
        assert "read_resource" not in kit
    with pytest.raises(ToolkitError, match="resource_tool must be the name of a tool, not 7"):
        await Toolkit("x").aadd_mcp(notes, resource_tool=7)


async def test_a_server_cannot_take_the_name_of_the_tool_that_reads_its_resources() -> None:
    async with gateway(notes, resource_tool="find") as kit:
        assert (await kit.aexec("find", {"uri": "note://tea"})).text == "The text of tea."
        assert list(kit.servers["remote"].refused) == ["find (2)"]


async def test_the_timeout_of_a_call_holds_whatever_progress_its_server_sends() -> None:
    async with gateway(notes, timeout=0.5) as kit:
        endless = await kit.aexec("work", {"rounds": 1000})
    assert endless.error is not None
    assert endless.error.code == "timeout"
