"""The tools in objects."""

from __future__ import annotations

import types

import pytest

from ahvn_tools import Toolkit, ToolRegistry, ToolSpec, reg_toolspec
from ahvn_tools.errors import SourceError
from ahvn_tools.manifest import load


def greet(name: str) -> str:
    """Greet."""
    return f"hello, {name}"


class Shop(ToolRegistry):
    @reg_toolspec
    def price(self) -> int:
        return 3


spec = ToolSpec.from_function(greet)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (greet, ["greet"]),
        (spec, ["greet"]),
        (Shop(), ["price"]),
        (Shop, ["price"]),
        ([greet, Shop], ["greet", "price"]),
        ({"any": (spec, Shop())}, ["greet", "price"]),
        (spec.to_mcp(), ["greet"]),
    ],
)
def test_tools_are_sources(source, names):
    assert [spec.name for spec in load(source)] == names


def test_a_toolkit_is_returned_itself():
    kit = Toolkit("tea")
    assert load(kit) is kit


def test_a_module_is_read_like_its_file():
    module = types.ModuleType("garden")
    module.spec = spec
    module.plain = greet
    assert ([spec.name for spec in load(module)], load(module).name) == (["greet"], "garden")
    with pytest.raises(SourceError, match="The module 'hut' has no tools: pass one of its members"):
        load(types.ModuleType("hut"))


def test_a_tool_of_langchain_is_a_source():
    pytest.importorskip("langchain_core")
    from langchain_core.tools import tool

    @tool
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    assert load([shout]).call("shout", {"text": "a"}) == "A"


@pytest.mark.parametrize("kind", ["server", "client", "transport"])
def test_a_fastmcp_server_client_or_transport_is_a_server(kind):
    from fastmcp import Client, FastMCP
    from fastmcp.client.transports import FastMCPTransport

    server = FastMCP("clock")
    server.tool(greet)
    source = {"server": lambda: server, "client": lambda: Client(server), "transport": lambda: FastMCPTransport(server)}
    kit = load(source[kind]())
    assert kit.call("greet", {"name": "Ann"}) == "hello, Ann"
    kit.remove_mcp(next(iter(kit.servers)))


def test_the_server_class_of_mcp_and_a_connected_server_are_servers():
    from mcp.server import MCPServer

    from ahvn_tools import mcp

    server = MCPServer("clock")
    server.tool()(greet)
    with mcp.connect(server) as connected:
        for source in (server, connected):
            kit = load(source)
            assert kit.call("greet", {"name": "Ann"}) == "hello, Ann"
            kit.remove_mcp("clock")


def test_lists_that_contain_themselves_end():
    circle = [greet]
    circle.append(circle)
    assert [spec.name for spec in load(circle)] == ["greet"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "The source: a value of the type 'int' is no tool. Name a ToolSpec, "),
        (None, "The source: a value of the type 'NoneType' is no tool."),
        ([], "The source has no tools: it is an empty list."),
        ({"a": [greet, 3]}, "The source: a value of the type 'int' is no tool."),
        (b"def f(): pass", "The source: a value of the type 'bytes' is no tool."),
    ],
)
def test_what_is_no_tool_is_refused(source, message):
    with pytest.raises(SourceError) as caught:
        load(source)
    assert str(caught.value).startswith(message)


def test_the_repr_of_a_server_source_does_not_show_credentials():
    from ahvn_tools.loading.read_options import ReadOptions
    from ahvn_tools.loading.servers import read

    config = {"mcpServers": {"a": {"url": "http://127.0.0.1:1", "headers": {"Authorization": "hidden-token"}}}}
    assert "hidden-token" not in repr(read(config, ReadOptions()))
