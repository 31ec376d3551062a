"""MCP clients of the facade, against servers that are processes of their own or reached over loopback."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp.types
import pytest
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_http_headers
from fastmcp.tools.base import ToolResult as FastMCPToolResult
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from ahvn_tools.compat.agentscope.mcp import (
    HttpStatefulClient,
    HttpStatelessClient,
    MCPClientBase,
    MCPToolFunction,
    StatefulClientBase,
    StdIOStatefulClient,
)
from ahvn_tools.compat.agentscope.message import ToolUseBlock
from ahvn_tools.compat.agentscope.tool import Toolkit, ToolResponse
from ahvn_tools.errors import (
    DefinitionError,
    ToolCallError,
    ToolConnectionError,
    ToolLookupError,
    ToolTimeoutError,
)
from tests.mcp.loopback import over_http

RAW_SERVER = Path(__file__).parents[1] / "mcp" / "raw_server.py"
NOT_CONNECTED = "The MCP client is not connected to the server. Use the `connect()` method first."


def make_server() -> FastMCP:
    server = FastMCP("shop")

    @server.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def fail(text: str) -> str:
        raise ValueError(text)

    @server.tool
    def header(key: str) -> str:
        return get_http_headers(include_all=True).get(key, "")

    @server.tool
    async def sleep(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "awake"

    @server.tool
    def plain() -> FastMCPToolResult:
        return FastMCPToolResult(content=[TextContent(type="text", text="tea")])

    @server.tool
    def mixed() -> FastMCPToolResult:
        return FastMCPToolResult(
            content=[
                TextContent(type="text", text="a text"),
                ImageContent(type="image", data="aW1hZ2U=", mime_type="image/png"),
                AudioContent(type="audio", data="c291bmQ=", mime_type="audio/wav"),
                EmbeddedResource(type="resource", resource=TextResourceContents(uri="note://1", text="a note")),
                EmbeddedResource(
                    type="resource",
                    resource=BlobResourceContents(uri="file://1", mime_type="application/pdf", blob="JVBERg=="),
                ),
                ResourceLink(type="resource_link", name="manual", uri="https://shop.example/manual"),
            ],
            structured_content={"total": 6},
            meta={"shop": "tea"},
        )

    return server


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """One server over both transports of HTTP."""
    with over_http(make_server()) as streamable, over_http(make_server(), transport="sse", path="/mcp") as sse:
        yield {"streamable_http": streamable, "sse": sse}


def stdio_client(name: str = "raw", *arguments: str, **options: Any) -> StdIOStatefulClient:
    return StdIOStatefulClient(name, sys.executable, [str(RAW_SERVER), *arguments], **options)


@pytest.fixture
async def raw() -> AsyncIterator[StdIOStatefulClient]:
    """A connected client of a server process."""
    client = stdio_client()
    await client.connect()
    yield client
    if client.is_connected:
        await client.close()


@pytest.fixture(scope="module")
def shop(urls: dict[str, str]) -> Iterator[HttpStatefulClient]:
    """A connected client of a URL, which any event loop may use."""
    client = HttpStatefulClient("shop", "streamable_http", urls["streamable_http"])
    asyncio.run(client.connect())
    yield client
    asyncio.run(client.close())


async def call(client: MCPClientBase, name: str, **arguments: Any) -> ToolResponse:
    response = await (await client.get_callable_function(name))(**arguments)
    assert isinstance(response, ToolResponse)
    return response


async def text_of(client: MCPClientBase, name: str, **arguments: Any) -> str:
    (block,) = (await call(client, name, **arguments)).content
    assert block["type"] == "text"
    return block["text"]


every_transport = pytest.mark.parametrize("transport", ["streamable_http", "sse"])
every_transport_at_length = pytest.mark.parametrize(
    "transport", ["streamable_http", pytest.param("sse", marks=pytest.mark.exhaustive)]
)


class TestClients:
    """MCP clients list the tools of a server, and return functions that call them."""

    async def test_a_client_of_a_process_lists_and_calls_tools(self, raw):
        assert "echo" in [tool.name for tool in await raw.list_tools()]
        assert await text_of(raw, "echo", word="tea") == '{"word": "tea"}'

    @every_transport
    async def test_a_stateful_client_of_a_url_lists_and_calls_tools(self, urls, transport):
        client = HttpStatefulClient("shop", transport, urls[transport])
        assert not client.is_connected
        await client.connect()
        assert client.is_connected
        assert "add" in [tool.name for tool in await client.list_tools()]
        assert await text_of(client, "add", a=1) == "3"
        await client.close()
        assert not client.is_connected

    @every_transport
    async def test_a_stateless_client_needs_no_connect(self, urls, transport):
        client = HttpStatelessClient("shop", transport=transport, url=urls[transport])
        assert client.is_connected
        assert "add" in [tool.name for tool in await client.list_tools()]
        assert await text_of(client, "add", a=1) == "3"

    async def test_the_headers_are_sent(self, urls):
        client = HttpStatelessClient("shop", "streamable_http", urls["streamable_http"], headers={"X-Shop": "tea"})
        assert await text_of(client, "header", key="x-shop") == "tea"

    @pytest.mark.parametrize("client_class", [HttpStatefulClient, HttpStatelessClient])
    async def test_an_option_that_does_not_exist_is_refused(self, urls, client_class):
        client = client_class("shop", "streamable_http", urls["streamable_http"], auht="token")
        with pytest.raises(DefinitionError, match="Unknown option 'auht'"):
            await (client.list_tools() if client_class is HttpStatelessClient else client.connect())

    def test_a_timeout_is_a_number(self, urls):
        with pytest.raises(DefinitionError, match="`connect` of Limits is a number"):
            HttpStatelessClient("shop", "streamable_http", urls["streamable_http"], timeout="5")

    async def test_a_client_takes_the_options_of_add_mcp(self, urls):
        client = HttpStatelessClient("shop", "streamable_http", urls["streamable_http"], auth="t-4711")
        assert await text_of(client, "header", key="authorization") == "Bearer ***"  # the answer has it masked
        assert "t-4711" not in repr(client)

    async def test_the_environment_and_the_folder_of_a_process_are_set(self, tmp_path):
        client = stdio_client("raw", "good", "mark", env={"GIVEN": "yes"}, cwd=tmp_path)
        await client.connect()
        (block,) = (await call(client, "env")).content
        assert '"GIVEN": "yes"' in block["text"]
        assert (tmp_path / "mark").exists()
        await client.close()

    async def test_listed_tools_are_those_of_mcp(self, raw):
        assert {type(tool) for tool in await raw.list_tools()} == {mcp.types.Tool}

    async def test_clients_have_two_base_classes(self, raw, urls):
        stateless = HttpStatelessClient("shop", "sse", urls["sse"])
        assert isinstance(raw, StatefulClientBase)
        assert isinstance(stateless, MCPClientBase)
        assert not isinstance(stateless, StatefulClientBase)


class TestFunctions:
    """`get_callable_function` returns an MCPToolFunction."""

    async def test_a_function_says_what_it_calls(self, shop):
        add = await shop.get_callable_function("add")
        assert isinstance(add, MCPToolFunction)
        assert (add.name, add.description, add.mcp_name) == ("add", "Add two numbers.", "shop")
        parameters = add.json_schema["function"].pop("parameters")
        assert add.json_schema == {"type": "function", "function": {"name": "add", "description": "Add two numbers."}}
        assert parameters["properties"] == {"a": {"type": "integer"}, "b": {"default": 2, "type": "integer"}}
        assert parameters["required"] == ["a"]

    async def test_a_changed_schema_changes_no_other_function(self, shop):
        first = await shop.get_callable_function("add")
        first.json_schema["function"]["parameters"]["properties"].clear()
        second = await shop.get_callable_function("add")
        assert "a" in second.json_schema["function"]["parameters"]["properties"]
        with pytest.raises(ToolCallError):
            await second(b=1)

    async def test_an_unknown_tool_is_an_error_with_the_near_ones(self, shop):
        with pytest.raises(ToolLookupError, match="'add'"):
            await shop.get_callable_function("adds")

    async def test_without_wrapping_the_result_is_that_of_mcp(self, shop):
        add = await shop.get_callable_function("add", wrap_tool_result=False)
        result = await add(a=1)
        assert isinstance(result, mcp.types.CallToolResult)
        assert (result.content[0].text, result.structured_content, result.is_error) == ("3", {"result": 3}, False)

    async def test_the_execution_timeout_limits_a_call(self, shop):
        sleep = await shop.get_callable_function("sleep", execution_timeout=0.05)
        with pytest.raises(ToolTimeoutError):
            await sleep(seconds=30)

    async def test_the_read_timeout_limits_calls_of_a_url(self, urls):
        client = HttpStatelessClient("shop", "streamable_http", urls["streamable_http"], sse_read_timeout=0.05)
        with pytest.raises(ToolTimeoutError):
            await (await client.get_callable_function("sleep"))(seconds=30)

    async def test_arguments_are_checked_before_they_are_sent(self, shop):
        with pytest.raises(ToolCallError, match="'a' should be of type integer"):
            await (await shop.get_callable_function("add"))(a="zzz")


class TestContent:
    """The content of a result becomes blocks."""

    async def test_each_block_of_a_result_is_a_block(self, shop):
        text, image, audio, note, file, link = (await call(shop, "mixed")).content
        assert text == {"type": "text", "text": "a text"}
        assert image == {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "aW1hZ2U="},
        }
        assert audio == {
            "type": "audio",
            "source": {"type": "base64", "media_type": "audio/wav", "data": "c291bmQ="},
        }
        assert note == {
            "type": "text",
            "text": '{\n  "uri": "note://1",\n  "text": "a note"\n}',
        }
        assert json.loads(file["text"]) == {"uri": "file://1", "mimeType": "application/pdf"}
        assert '"uri": "https://shop.example/manual"' in link["text"]

    async def test_the_data_of_a_file_is_not_sent_to_a_model(self, shop):
        assert "JVBERg==" not in str((await call(shop, "mixed")).content)
        raw = await (await shop.get_callable_function("mixed", wrap_tool_result=False))()
        assert raw.content[4].resource.blob == "JVBERg=="

    async def test_the_meta_of_a_result_is_its_metadata(self, shop):
        metadata = (await call(shop, "mixed")).metadata
        assert metadata is not None
        assert metadata["shop"] == "tea"

    async def test_structured_content_is_only_in_the_result_of_mcp(self, shop):
        response = await call(shop, "plain")
        assert response.content == [{"type": "text", "text": "tea"}]
        raw = await (await shop.get_callable_function("mixed", wrap_tool_result=False))()
        assert raw.structured_content == {"total": 6}


class TestErrors:
    """A failure never looks like a success."""

    async def test_a_failed_tool_returns_its_text(self, shop):
        response = await (await shop.get_callable_function("fail"))(text="no more tea")
        assert response.content == [{"type": "text", "text": "Error calling tool 'fail': no more tea"}]

    async def test_without_wrapping_a_failed_tool_returns_its_error(self, shop):
        result = await (await shop.get_callable_function("fail", wrap_tool_result=False))(text="no more tea")
        assert result.is_error
        assert "no more tea" in result.content[0].text

    async def test_without_wrapping_a_call_that_did_not_run_raises(self, shop):
        with pytest.raises(ToolCallError):
            await (await shop.get_callable_function("add", wrap_tool_result=False))(a="zzz")

    async def test_a_url_without_a_server_cannot_be_connected(self):
        client = HttpStatefulClient("shop", "streamable_http", "http://127.0.0.1:9/mcp", timeout=5)
        with pytest.raises(ToolConnectionError):
            await client.connect()
        assert not client.is_connected

    def test_other_transports_are_refused(self):
        with pytest.raises(ValueError, match="'sse' or 'streamable_http', not 'stdio'"):
            HttpStatefulClient("shop", "stdio", "http://127.0.0.1:9/mcp")

    def test_other_encodings_are_refused(self):
        with pytest.raises(ValueError, match="UTF-8, not 'latin-1'"):
            stdio_client(encoding="latin-1")

    @pytest.mark.parametrize("handler", ["strict", "ignore", "replace"])
    def test_every_error_handler_of_utf_8_is_accepted(self, handler):
        assert stdio_client(encoding="UTF-8", encoding_error_handler=handler).name == "raw"


class TestLifecycle:
    """Stateful clients connect, close and connect again."""

    async def test_a_client_that_is_not_connected_cannot_be_used(self):
        client = stdio_client()
        for use in (client.list_tools(), client.get_callable_function("echo"), client.close()):
            with pytest.raises(RuntimeError, match="not connected") as raised:
                await use
            assert str(raised.value) == NOT_CONNECTED

    async def test_a_client_connects_once(self, raw):
        with pytest.raises(RuntimeError, match="already connected"):
            await raw.connect()
        assert await text_of(raw, "echo") == "{}"

    async def test_a_client_closes_once(self, raw):
        await raw.close()
        with pytest.raises(RuntimeError, match="not connected"):
            await raw.close(ignore_errors=False)

    async def test_of_two_that_close_at_once_one_closes_it(self, raw):
        endings = await asyncio.gather(raw.close(), raw.close(), return_exceptions=True)
        assert [str(ending) for ending in endings if ending is not None] == [NOT_CONNECTED]
        assert not raw.is_connected

    async def test_a_closed_client_makes_no_functions_and_its_functions_fail(self, raw):
        function = await raw.get_callable_function("echo")
        await raw.close()
        for use in (raw.get_callable_function("echo"), function()):
            with pytest.raises(RuntimeError, match="not connected"):
                await use

    async def test_the_timeout_of_a_url_limits_connecting(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
            client = HttpStatefulClient("silent", "streamable_http", url, timeout=0.2)
            with pytest.raises(ToolConnectionError, match=r"no connection within 0\.2 s"):
                await asyncio.wait_for(client.connect(), 20)
        assert not client.is_connected

    async def test_a_client_that_connects_twice_at_once_has_one_connection(self, tmp_path):
        mark = tmp_path / "pids"
        client = stdio_client("raw", "good", str(mark))
        results = await asyncio.gather(client.connect(), client.connect(), return_exceptions=True)
        assert [type(result) for result in results] == [type(None), RuntimeError]
        await client.close()
        (pid,) = mark.read_text().split()
        assert not is_running(int(pid))

    @pytest.mark.exhaustive
    async def test_a_connect_that_is_cancelled_leaves_nothing(self, tmp_path):
        mark = tmp_path / "pid"
        client = stdio_client("raw", "slow_list", str(mark))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.connect(), 0.5)
        assert not client.is_connected
        assert not mark.exists() or not is_running(int(mark.read_text()))

    async def test_a_closed_client_connects_again(self, raw):
        function = await raw.get_callable_function("pid")
        first = (await function()).content
        await raw.close()
        with pytest.raises(RuntimeError, match="not connected"):
            await function()
        await raw.connect()
        assert (await function()).content != first

    async def test_closing_ends_the_process(self, raw):
        pid = int(await text_of(raw, "pid"))
        await raw.close()
        assert not is_running(pid)

    def test_a_client_may_be_used_in_several_event_loops(self):
        client = stdio_client()
        asyncio.run(client.connect())
        assert asyncio.run(text_of(client, "echo")) == "{}"
        asyncio.run(client.close())
        assert not client.is_connected


async def run(toolkit: Toolkit, name: str, **arguments: Any) -> str:
    """Return the text of a call in a toolkit."""
    block = ToolUseBlock(type="tool_use", id="1", name=name, input=arguments)
    (response,) = [response async for response in await toolkit.call_tool_function(block)]
    return response.content[0]["text"]


class TestInAToolkit:
    """A toolkit has the tools of its MCP clients."""

    async def test_a_client_must_be_connected_first(self):
        with pytest.raises(RuntimeError) as raised:
            await Toolkit().register_mcp_client(stdio_client())
        assert str(raised.value) == NOT_CONNECTED

    @every_transport_at_length
    async def test_a_stateless_client_may_be_registered_at_once(self, urls, transport):
        toolkit = Toolkit()
        await toolkit.register_mcp_client(HttpStatelessClient("shop", transport, urls[transport]))
        assert {"add", "fail", "mixed"} <= {tool["function"]["name"] for tool in toolkit.get_json_schemas()}
        assert await run(toolkit, "add", a=1) == "3"

    async def test_a_stateless_client_connects_once_for_all_its_functions(self, urls):
        listed = []
        client = HttpStatelessClient(
            "shop", "streamable_http", urls["streamable_http"], on_change=lambda server, _: listed.append(server.name)
        )
        await Toolkit().register_mcp_client(client)
        assert listed == ["shop"]

    async def test_the_result_is_that_of_the_server(self, raw):
        toolkit = Toolkit()
        await toolkit.register_mcp_client(raw, enable_funcs=["echo"])
        assert await run(toolkit, "echo", word="tea") == '{"word": "tea"}'

    async def test_a_preset_is_sent_and_not_shown(self, shop):
        toolkit = Toolkit()
        mapping = {"add": {"b": 40}}
        await toolkit.register_mcp_client(shop, enable_funcs=["add"], preset_kwargs_mapping=mapping)
        (schema,) = toolkit.get_json_schemas()
        assert list(schema["function"]["parameters"]["properties"]) == ["a"]
        assert await run(toolkit, "add", a=2) == "42"
        assert "Invalid" in await run(toolkit, "add", a=2, b=1)

    async def test_a_preset_is_in_no_text_of_an_error(self, shop):
        toolkit = Toolkit()
        await toolkit.register_mcp_client(
            shop, enable_funcs=["fail"], preset_kwargs_mapping={"fail": {"text": "sk-4711"}}
        )
        assert await run(toolkit, "fail") == "Error occurred when calling MCP tool: Error calling tool 'fail': <text>"

    async def test_the_error_of_a_tool_has_the_name_of_the_tool(self):
        server = FastMCP("weather")

        @server.tool
        def broken_forecast(city: str) -> str:
            raise ValueError(f"no station in {city}")

        client = StatefulClientBase("weather", server, 30)
        await client.connect()
        toolkit = Toolkit()
        await toolkit.register_mcp_client(client)
        expected = "Error occurred when calling MCP tool: Error calling tool 'broken_forecast': no station in Rome"
        assert await run(toolkit, "broken_forecast", city="Rome") == expected
        await client.close()

    async def test_the_error_of_a_tool_is_a_text(self, shop):
        toolkit = Toolkit()
        await toolkit.register_mcp_client(shop, enable_funcs=["fail"])
        text = await run(toolkit, "fail", text="no more tea")
        assert text.startswith("Error occurred when calling MCP tool: ")
        assert text.endswith("no more tea")

    async def test_a_closed_client_says_so_and_works_after_a_reconnect(self, raw):
        toolkit = Toolkit()
        await toolkit.register_mcp_client(raw, enable_funcs=["echo"])
        await raw.close()
        assert await run(toolkit, "echo") == f"Error occurred when calling MCP tool: {NOT_CONNECTED}"
        await raw.connect()
        assert await run(toolkit, "echo") == "{}"

    async def test_a_server_that_dies_is_an_error_and_is_started_again(self, raw):
        toolkit = Toolkit()
        await toolkit.register_mcp_client(raw, enable_funcs=["die", "echo"])
        text = await run(toolkit, "die")
        assert text.startswith("Error occurred when calling MCP tool: ")
        assert "exit code 3" in text
        assert await run(toolkit, "echo") == "{}"

    async def test_the_execution_timeout_limits_calls(self, shop):
        toolkit = Toolkit()
        await toolkit.register_mcp_client(shop, enable_funcs=["sleep"], execution_timeout=0.05)
        assert "0.05" in await run(toolkit, "sleep", seconds=30)

    async def test_a_postprocess_function_replaces_all_that_the_tool_said(self, shop):
        toolkit = Toolkit()

        def redact(_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
            return replace(response, content=[{"type": "text", "text": "REDACTED"}])

        await toolkit.register_mcp_client(shop, "basic", ["mixed"], None, None, redact, "rename", 30)
        block = ToolUseBlock(type="tool_use", id="1", name="mixed", input={})
        (response,) = [response async for response in await toolkit.call_tool_function(block)]
        assert response.content == [{"type": "text", "text": "REDACTED"}]
        assert "structured_content" not in response.metadata


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
