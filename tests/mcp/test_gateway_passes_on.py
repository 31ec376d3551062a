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
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ListRootsRequest,
    ListRootsResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    ResourceLink,
)

import ahvn_tools
from ahvn_tools import ToolCall, Toolkit, formats
from ahvn_tools.errors import ToolkitError
from tests.mcp import serving

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
    reserved = {name for name in received if name.startswith("io.modelcontextprotocol/")}
    assert reserved == {"io.modelcontextprotocol/logLevel"}  # which the gateway sends itself


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


async def test_a_strict_toolkit_does_not_pass_on_instructions_that_check_finds(caplog: Any) -> None:
    async with gateway(kit=Toolkit("gateway", strict=True)) as kit:  # they have an invisible character
        assert kit.to_fastmcp_server().instructions is None
        assert "invisible characters" in kit.servers["remote"].withheld["instructions"]
        assert "The instructions of the MCP server 'remote': it has invisible characters" in caplog.text
        assert kit.to_fastmcp_server(instructions="Mine.").instructions == "Mine."


async def test_instructions_of_a_server_with_pins_are_not_passed_on(tmp_path: Path) -> None:
    async with gateway(pin=tmp_path / "mcp.lock") as kit:
        assert kit.to_fastmcp_server().instructions is None
        assert "the pins hold only tools" in kit.servers["remote"].withheld["instructions"]


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


async def test_an_idle_timeout_starts_again_with_each_progress_message() -> None:
    async with gateway(notes, idle_timeout=0.4) as kit:
        assert await kit.acall("work", {"rounds": 12}) == "done"
        silent = await kit.aexec("work", {"rounds": 1, "seconds": 5})
    assert silent.error is not None
    assert silent.error.code == "timeout"
    assert "has sent no progress for 0.4 s" in silent.error.message


async def test_the_timeout_of_a_call_holds_whatever_progress_its_server_sends() -> None:
    async with gateway(notes, idle_timeout=0.4, timeout=0.5) as kit:
        endless = await kit.aexec("work", {"rounds": 1000})
    assert endless.error is not None
    assert endless.error.code == "timeout"


async def test_an_idle_timeout_stands_still_while_a_person_answers() -> None:
    async def answer_slowly(*_: Any) -> dict[str, str]:
        await asyncio.sleep(0.6)
        return {"value": "Ann"}

    @notes.tool
    async def ask(context: Context) -> str:
        return str((await context.elicit("Who?", response_type=str)).data)

    async with (
        gateway(notes, idle_timeout=0.5, mode="legacy") as kit,
        Client(kit.to_fastmcp_server(), elicitation_handler=answer_slowly) as client,
    ):
        assert (await client.call_tool("ask")).data == "Ann"


logging_server = FastMCP("logging")


@logging_server.tool
async def talk(who: str, context: Context, token: str = "", password: str = "") -> str:
    """Send log messages of several levels."""
    for level in ("debug", "info", "error"):
        data = {"who": f"{who}\u200b{token}", f"key {token}": password}
        params = LoggingMessageNotificationParams(level=level, logger="work", data=data)
        await context.send_notification(LoggingMessageNotification(params=params))
        await asyncio.sleep(0.01)
    return "done"


class Reader:
    """Reads the log messages of one client."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None, Any]] = []

    async def __call__(self, message: Any) -> None:
        self.seen.append((message.level, message.logger, message.data))


@modes
async def test_log_messages_of_a_server_reach_the_client_whose_call_has_caused_them(mode: str) -> None:
    readers = [Reader(), Reader()]

    async def call(target: Any, reader: Reader, who: str) -> None:
        async with Client(target, log_handler=reader, mode=mode) as client:
            await client.call_tool("talk", {"who": who, "password": "open-sesame"})

    async with gateway(logging_server, mode=mode, tools={"talk": {"preset": {"token": "secret-4242"}}}) as kit:
        target = kit.to_fastmcp_server()
        await asyncio.gather(call(target, readers[0], "a"), call(target, readers[1], "b"))
    for reader, who in zip(readers, "ab", strict=True):
        assert {logger for _, logger, _ in reader.seen} == {"remote.work"}
        assert {data["who"] for _, _, data in reader.seen} == {f"{who}\\u200b<token>"}
        assert {data["key <token>"] for _, _, data in reader.seen} == {"<password>"}
        assert {level for level, _, _ in reader.seen} >= {"info", "error"}


@modes
@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_a_client_gets_log_messages_of_the_level_that_it_wants(mode: str) -> None:
    reader = Reader()
    async with (
        gateway(logging_server, mode=mode) as kit,
        Client(kit.to_fastmcp_server(), log_handler=reader, mode=mode) as client,
    ):
        if mode == "legacy":
            await client.set_logging_level("error")
        await client.call_tool("talk", {"who": "a"}, meta={"io.modelcontextprotocol/logLevel": "error"})
    assert [level for level, _, _ in reader.seen] == ["error"]


async def test_a_server_floods_no_client_with_log_messages() -> None:
    flood = FastMCP("flood")

    @flood.tool
    async def pour(context: Context) -> str:
        for _ in range(1500):
            params = LoggingMessageNotificationParams(level="error", data="x")
            await context.send_notification(LoggingMessageNotification(params=params))
        params = LoggingMessageNotificationParams(level="error", data="x" * 20_000)
        await context.send_notification(LoggingMessageNotification(params=params))
        return "done"

    reader = Reader()
    async with gateway(flood) as kit, Client(kit.to_fastmcp_server(), log_handler=reader) as client:
        assert (await client.call_tool("pour")).data == "done"
    assert 0 < len(reader.seen) <= 1000
    assert {data for _, _, data in reader.seen} == {"x"}


@modes
async def test_a_gateway_serves_the_resources_to_which_its_tools_refer(mode: str) -> None:
    async with gateway(notes) as kit, Client(kit.to_fastmcp_server(), mode=mode) as client:
        with pytest.raises(MCPError):
            await client.read_resource("note://tea")  # nothing has referred to it
        await client.call_tool("find")
        assert (await client.read_resource("note://tea"))[0].text == "The text of tea."
        with pytest.raises(MCPError):
            await client.read_resource("note://cake")


async def test_a_linked_resource_is_served_to_the_client_that_was_referred_to_it_alone() -> None:
    async with (
        gateway(notes) as kit,
        serving.over_http(kit) as url,
        Client(url, mode="legacy") as ann,
        Client(url, mode="legacy") as bob,
    ):
        await ann.call_tool("find")
        assert (await ann.read_resource("note://tea"))[0].text == "The text of tea."
        with pytest.raises(MCPError):
            await bob.read_resource("note://tea")


async def test_a_linked_resource_is_not_served_to_a_client_that_may_not_see_the_tool() -> None:
    audience = ["clerk"]
    async with gateway(notes, audience="clerk") as kit:
        server_of_clerks = kit.to_fastmcp_server(audience=lambda _: audience[0])
        async with Client(server_of_clerks) as client:
            await client.call_tool("find")
            assert (await client.read_resource("note://tea"))[0].text == "The text of tea."
            audience[0] = "guest"
            with pytest.raises(MCPError):
                await client.read_resource("note://tea")
