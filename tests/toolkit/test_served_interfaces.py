"""MCP Apps: the pages of tools over MCP and through gateways, and tools that interfaces alone may call."""

from __future__ import annotations

import json

import pytest
from fastmcp import Client, FastMCP
from fastmcp.apps.config import AppConfig
from fastmcp.exceptions import ToolError as ClientError
from fastmcp.server.middleware import Middleware
from mcp.shared.exceptions import MCPError

from ahvn_tools import Toolkit
from ahvn_tools.results import ToolCall
from ahvn_tools.user_interface import HTML_TYPE

CSP = {"connectDomains": ["https://api.example"]}
ONLY_FOR_APPS = "The tool 'refresh' is for the interface of another tool, and not for models."
each_wire = pytest.mark.parametrize("wire", ["auto", "legacy"])


def desk() -> Toolkit:
    kit = Toolkit("desk")

    @kit.tool(ui={"text": "<p>orders</p>", "csp": CSP, "prefersBorder": True})
    def orders() -> list[str]:
        """List the orders."""
        return ["tea"]

    @kit.tool(ui={"visibility": ["app"]})
    def refresh() -> str:
        """Read the orders again."""
        return "fresh"

    return kit


def upstream(name: str, page: str = "ui://charts/chart.html") -> FastMCP:
    server: FastMCP = FastMCP(name)

    @server.tool(app=AppConfig(resource_uri=page), meta={"team": name})
    def chart() -> str:
        """Draw a chart."""
        return f"chart of {name}"

    @server.tool(app=AppConfig(resource_uri=page, visibility=["app"]))
    def zoom() -> str:
        """Zoom in."""
        return "larger"

    @server.resource(page, app=AppConfig(csp=CSP, domain=name))
    def html() -> str:
        return f"<p>{name}</p>"

    @server.resource("ui://charts/other.html")
    def other() -> str:
        return "no tool names it"

    return server


async def pages(client: Client) -> dict[str, tuple[str, str, dict]]:
    """Return, by tool, the text, the media type and the metadata of its page."""
    found = {}
    for tool in await client.list_tools():
        uri = (tool.meta or {}).get("ui", {}).get("resourceUri")
        if uri is not None:
            (content,) = await client.read_resource(uri)
            assert str(content.uri) == uri
            found[tool.name] = content.text, content.mime_type, (content.meta or {}).get("ui", {})
    return found


@each_wire
async def test_a_client_reads_the_page_of_a_tool_and_the_normal_result(wire):
    async with Client(desk().to_fastmcp_server(), mode=wire) as client:
        assert await pages(client) == {"orders": ("<p>orders</p>", HTML_TYPE, {"csp": CSP, "prefersBorder": True})}
        (listed,) = await client.list_resources()
        assert (listed.mime_type, listed.meta["ui"]) == (HTML_TYPE, {"csp": CSP, "prefersBorder": True})
        assert (await client.call_tool("orders")).data == ["tea"]
        assert (await client.call_tool("refresh")).data == "fresh"  # the host of the interface passes its calls on
        with pytest.raises(MCPError, match="ui://nowhere"):
            await client.read_resource("ui://nowhere/a.html")


async def test_the_server_says_that_it_has_interfaces():
    async with Client(desk().to_fastmcp_server(), mode="auto") as client:
        listed = {tool.name: tool.meta["ui"] for tool in await client.list_tools()}
    assert listed["refresh"] == {"visibility": ["app"]}
    assert listed["orders"].keys() == {"resourceUri"}


async def test_pages_of_servers_pass_through_a_gateway_and_stay_apart():
    """Two servers and the toolkit itself name the same URI, and each tool has its own page."""
    kit = desk().add(lambda: "own", name="own", ui={"text": "<p>own</p>", "resourceUri": "ui://charts/chart.html"})
    for name in ("bills", "maps"):
        await kit.aadd_mcp(upstream(name), name=name, prefix=f"{name}_")
    try:
        async with Client(kit.to_fastmcp_server()) as client:
            found = await pages(client)
            assert {name: text for name, (text, _, _) in found.items()} == {
                "orders": "<p>orders</p>",
                "own": "<p>own</p>",
                "bills_chart": "<p>bills</p>",
                "bills_zoom": "<p>bills</p>",
                "maps_chart": "<p>maps</p>",
                "maps_zoom": "<p>maps</p>",
            }
            assert found["maps_chart"][1:] == (HTML_TYPE, {"csp": CSP, "domain": "maps"})
            listed = [(resource.meta or {}).get("ui") for resource in await client.list_resources()]
            assert listed[:2] == [{"csp": CSP, "prefersBorder": True}, None]
            assert listed[2:] == [{"csp": CSP, "domain": name} for name in ("bills", "maps")]
            metas = {tool.name: tool.meta for tool in await client.list_tools()}
            assert metas["maps_chart"]["team"] == "maps"
            assert metas["maps_zoom"]["ui"]["visibility"] == ["app"]
            for unnamed in ("ui://charts/other.html", "ui://maps/charts/other.html"):
                with pytest.raises(MCPError):
                    await client.read_resource(unnamed)
    finally:
        await kit.aremove_mcp()


async def test_a_gateway_of_a_gateway_has_the_pages_too():
    inner = Toolkit("inner")
    await inner.aadd_mcp(upstream("bills"))
    outer = Toolkit("outer")
    await outer.aadd_mcp(inner.to_fastmcp_server(), name="inner", prefix="x_")
    try:
        async with Client(outer.to_fastmcp_server()) as client:
            assert (await pages(client))["x_chart"][0] == "<p>bills</p>"
            (listed,) = await client.list_resources()
            assert listed.meta["ui"] == {"csp": CSP, "domain": "bills"}
    finally:
        await outer.aremove_mcp()
        await inner.aremove_mcp()


async def test_a_server_that_lists_no_resources_has_its_pages(caplog):
    class Fails(Middleware):
        async def on_list_resources(self, context, call_next):
            raise RuntimeError("no")

    server = upstream("bills")
    server.add_middleware(Fails())
    gateway = await Toolkit("gateway").aadd_mcp(server)
    try:
        async with Client(gateway.to_fastmcp_server()) as client:
            (listed,) = await client.list_resources()
            assert (str(listed.uri), (listed.meta or {}).get("ui")) == ("ui://charts/chart.html", None)
            assert (await pages(client))["chart"][0] == "<p>bills</p>"
    finally:
        await gateway.aremove_mcp()
    assert "The resources of the MCP server 'bills' were not listed" in caplog.text


async def test_a_page_is_for_those_who_may_see_its_tool():
    kit = Toolkit("desk").add(lambda: "x", name="secret", audience="staff", ui={"text": "<p>secret</p>"})
    uri = kit["secret"].definition.meta["ui"]["resourceUri"]
    async with Client(kit.to_fastmcp_server(audience="staff")) as client:
        assert (await client.read_resource(uri))[0].text == "<p>secret</p>"
    async with Client(kit.to_fastmcp_server()) as client:
        assert await client.list_resources() == []
        with pytest.raises(MCPError):
            await client.read_resource(uri)


async def test_a_host_may_serve_the_page_itself():
    kit = Toolkit("desk").add(lambda: "x", name="orders", ui="ui://desk/orders.html")
    server = kit.to_fastmcp_server()
    server.resource("ui://desk/orders.html", app=AppConfig(csp=CSP))(lambda: "<p>host</p>")
    async with Client(server) as client:
        assert await pages(client) == {"orders": ("<p>host</p>", HTML_TYPE, {"csp": CSP})}


@pytest.mark.parametrize("format_name", ["openai", "openai-responses", "anthropic", "gemini", "bedrock", "mcp"])
def test_a_tool_for_interfaces_is_not_exported(format_name):
    exported = json.dumps(desk().to(format_name))
    assert "orders" in exported
    assert "refresh" not in exported


def test_a_model_neither_finds_nor_calls_a_tool_for_interfaces():
    kit = desk().add_search()
    kit.add(*kit.background_tools())
    assert "refresh" not in kit.to_prompt()
    assert "refresh" not in [tool.name for tool in kit.search("read the orders again")]
    assert "refresh" not in [tool.name for tool in kit.definitions()]
    run = kit.run([ToolCall(id="c1", name="refresh")])
    assert run.results[0][1].text == ONLY_FOR_APPS
    assert kit.exec("call_tool", {"name": "refresh"}).text == ONLY_FOR_APPS
    assert kit.exec("start_call", {"name": "refresh"}).text == ONLY_FOR_APPS
    assert kit.call("refresh") == "fresh"


async def test_a_served_model_does_not_reach_a_tool_for_interfaces_through_others():
    async with Client(desk().add_search().to_fastmcp_server()) as client:
        found = await client.call_tool("search_tools", {"query": "refresh read the orders again"})
        assert "refresh" not in found.content[0].text
        names = [tool.name for tool in await client.list_tools()]
        assert names == ["search_tools", "call_tool", "refresh"]  # for the host, which passes the calls of pages on
        with pytest.raises(ClientError, match="for the interface of another tool"):
            await client.call_tool("call_tool", {"name": "refresh"})


def test_a_program_does_not_call_a_tool_for_interfaces():
    pytest.importorskip("pydantic_monty")
    kit = desk().add_code_mode()
    assert "refresh" not in kit.exec("search_tools", {"query": "read the orders again"}).text
    assert kit.exec("run_code", {"code": "await refresh()"}).is_error


async def test_a_toolkit_that_takes_the_tools_serves_their_pages():
    outer = Toolkit("outer").add(desk(), prefix="desk_")
    assert "refresh" not in json.dumps(outer.to("openai"))
    async with Client(outer.to_fastmcp_server()) as client:
        assert await pages(client) == {"desk_orders": ("<p>orders</p>", HTML_TYPE, {"csp": CSP, "prefersBorder": True})}
