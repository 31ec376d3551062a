"""A tool of a toolkit as a ToolSpec."""

from __future__ import annotations

import copy
import pickle

import pytest
from fastmcp import Client, FastMCP

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import PickleError, ToolkitError
from tests.toolkit.subjects import acount, add, asearch, count, passing, search


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("k", state={"user": "ann"}).add(search, prefix="my_").bind("user")


def test_a_tool_of_a_toolkit_is_a_spec_with_the_toolkits_name_bindings_and_state(kit):
    tool = kit["my_search"]
    assert isinstance(tool, ToolSpec)
    assert (tool.name, dict(tool.binds), list(tool.params)) == ("my_search", {"user": "user"}, ["query", "limit"])
    assert (tool.definition.name, tool.state is kit.state) == ("my_search", True)
    assert tool.signature(query="q") == "my_search(query='q', limit=3)"
    assert tool.to_function().__name__ == "my_search"
    assert tool.to("openai")["function"]["name"] == "my_search"
    assert repr(tool) == "<ToolkitTool 'my_search' binds={'user': 'user'}>"
    assert tool.function is search


def test_its_labels_can_be_read():
    tool = Toolkit("k").add(add, group="math", audience="sub", tags={"pure"})["add"]
    assert (tool.group, tool.audience, tool.tags) == ("math", {"sub"}, {"pure"})
    assert (Toolkit("k").add(add)["add"].group, Toolkit("k").add(add)["add"].audience) == ("basic", frozenset())


async def test_all_call_methods_of_a_session_read_its_state():
    kit = Toolkit("k").add(search).add(asearch).add(count).add(acount).bind("user")
    bob = kit.session(user="bob")
    assert bob["search"]("q", limit=1) == bob["search"].call("q", 1) == bob["search"].exec("q", 1).value == "bob:q:1"
    assert await bob["asearch"].acall("q") == (await bob["asearch"].aexec(query="q")).value == "bob:q"
    assert [chunk.value for chunk in bob["count"].stream(2)] == ["bob0", "bob1", ["bob0", "bob1"]]
    assert [chunk.value async for chunk in bob["acount"].astream(1)] == ["bob0", ["bob0"]]


def test_its_state_can_be_changed_but_not_replaced(kit):
    with pytest.raises(ToolkitError, match=r"set to a dict: set `toolkit\.state`"):
        kit["my_search"].state = {"user": "bob"}
    kit["my_search"].state["user"] = "bob"
    assert kit.call("my_search", {"query": "q"}) == "bob:q:3"


async def test_it_can_be_served_and_reads_the_state_of_its_session(kit):
    server = FastMCP("s")
    server.add_tool(kit.session(user="bob")["my_search"].to_fastmcp())
    async with Client(server) as client:
        assert (await client.call_tool("my_search", {"query": "q"})).data == "bob:q:3"
        kit.remove("my_search")
        gone = await client.call_tool("my_search", {"query": "q"}, raise_on_error=False)
        assert (gone.is_error, gone.content[0].text.startswith("There is no tool 'my_search'.")) == (True, True)


@pytest.mark.parametrize("middleware", [[], [passing]], ids=["bare", "behind middleware"])
async def test_an_exception_of_a_served_tool_is_masked_and_does_not_end_the_server(middleware):
    def leak(user: str) -> str:
        raise ValueError("an inner matter")

    def leave() -> None:
        raise SystemExit(3)

    kit = Toolkit("k", state={"user": "ann"}, middleware=middleware).add(leak).add(leave).bind("user")
    server = FastMCP("s")
    for name in ("leak", "leave"):
        server.add_tool(kit[name].tool)
    async with Client(server) as client:
        for name in ("leak", "leave"):
            result = await client.call_tool(name, {}, raise_on_error=False)
            assert (result.is_error, result.content[0].text) == (True, f"Error calling tool {name!r}")


def test_it_is_not_pickled_and_the_error_says_what_to_do(kit):
    with pytest.raises(PickleError, match=r"'my_search' belongs to a toolkit.*`tool\.clone\(\)`"):
        pickle.dumps(kit["my_search"])


def test_a_copy_belongs_to_no_toolkit(kit):
    for twin in (copy.copy(kit["my_search"]), copy.deepcopy(kit["my_search"]), kit["my_search"].clone()):
        assert type(twin) is ToolSpec
        twin.state = {"user": "twin"}
        assert twin("q") == "twin:q:3"
    assert kit.call("my_search", {"query": "q"}) == "ann:q:3"


def test_a_clone_is_of_the_class_of_the_spec():
    class Special(ToolSpec):
        note = "mine"

    spec = Special.from_function(add)
    spec.note = "yours"
    clone = Toolkit("k").add(spec, rename="plus")["plus"].clone()
    assert (type(clone), clone.note, clone.name) == (Special, "yours", "plus")


def test_clearing_the_cache_changes_nothing(kit):
    kit["my_search"]._clear_cache()
    assert kit["my_search"]("q") == "ann:q:3"
