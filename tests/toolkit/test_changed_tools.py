"""Tools that a toolkit describes otherwise than their authors, by `arguments` and `tools` of `add` and `add_mcp`."""

from __future__ import annotations

import pytest
from fastmcp import FastMCP

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError, ToolkitError, ToolLookupError, ToolSpecError
from tests.toolkit.subjects import Notes, add, search

TOOLS = {
    "n_find": {
        "description": "Find what a user wrote.",
        "arguments": {"q": {"name": "query", "description": "What for."}, "usr": {"name": "user"}},
    }
}


def server() -> FastMCP:
    notes = FastMCP("notes")

    @notes.tool
    def find(q: str, usr: str, limit: int = 3) -> str:
        """Find."""
        return f"{usr}:{q}:{limit}"

    @notes.tool
    def wipe(usr: str) -> str:
        """Wipe."""
        return usr

    return notes


def test_tools_of_a_server_are_described_renamed_and_bound_by_their_new_names():
    kit = Toolkit("k", state={"user": "ann"}).bind("user").add_mcp(server(), tools=TOOLS, prefix="n_")
    tool = kit["n_find"]
    assert (tool.description, list(tool.params)) == ("Find what a user wrote.", ["query", "limit"])
    assert tool.params["query"]["description"] == "What for."
    assert kit.call("n_find", {"query": "tea"}) == "ann:tea:3"
    assert "unknown argument 'q'" in kit.exec("n_find", {"q": "tea"}).text
    assert "unknown argument 'usr'" in kit.exec("n_find", {"query": "tea", "usr": "bob"}).text
    assert list(kit["n_wipe"].params) == ["usr"]
    assert dict(kit.servers["notes"].receives) == {"find": {"usr": "user"}}
    assert kit.to("openai")[0]["function"]["parameters"]["required"] == ["query"]


def test_presets_and_binds_of_a_server_use_the_new_names_and_are_sent():
    changes = {"usr": {"name": "user"}}
    kit = Toolkit("k", state={"user": "ann"}).bind("user", secret=True)
    kit.add_mcp(
        server(),
        include=["find"],
        may_receive=["user"],
        tools={"*": {"preset": {"q": "tea"}}, "find": {"arguments": changes, "preset": {"limit": 9}}},
    )
    assert (dict(kit["find"].params), kit.call("find")) == ({}, "ann:tea:9")
    assert dict(kit.servers["notes"].receives) == {"find": {"q": None, "usr": "user", "limit": None}}


def test_tools_of_a_server_may_refuse_numbers_for_texts():
    kit = Toolkit("k").add_mcp(server(), include=["wipe"], coerce_numbers_to_str=False)
    lenient = Toolkit("k").add_mcp(server(), include=["wipe"])
    assert kit.exec("wipe", {"usr": 1}).error.code == "invalid_parameters"
    assert lenient.call("wipe", {"usr": 1}) == "1"


def test_a_tool_of_a_server_in_an_inner_toolkit_is_bound_by_its_name_in_the_outer_one():
    inner = Toolkit("inner").add_mcp(server(), include=["find"])
    outer = Toolkit("outer", state={"user": "ann"}).bind("user")
    outer.add(inner, arguments={"usr": {"name": "user"}, "q": {"name": "query"}})
    assert (list(outer["find"].params), outer.call("find", {"query": "tea"})) == (["query", "limit"], "ann:tea:3")
    assert inner.call("find", {"q": "tea", "usr": "bob"}) == "bob:tea:3"


def test_a_new_definition_of_the_server_keeps_the_changes_and_the_binding():
    notes = server()
    kit = Toolkit("k", state={"user": "ann"}).bind("user")
    kit.add_mcp(notes, tools={"wipe": {"arguments": {"usr": {"name": "user"}}}})
    assert kit.call("wipe") == "ann"
    notes.local_provider.remove_tool("wipe")

    @notes.tool
    def wipe(usr: str, all: bool = False) -> str:
        """Wipe more."""
        return f"{usr} {all}"

    kit.refresh_mcp("notes")
    assert (kit.call("wipe"), list(kit["wipe"].params)) == ("ann False", ["all"])


def test_a_tool_that_loses_a_changed_argument_is_blocked():
    notes = server()
    kit = Toolkit("k").add_mcp(notes, tools={"wipe": {"arguments": {"usr": {"default": "nobody"}}}})
    assert kit.call("wipe") == "nobody"
    notes.local_provider.remove_tool("wipe")

    @notes.tool
    def wipe(user: str) -> str:
        """Wipe."""
        return user

    kit.refresh_mcp("notes")
    assert ("wipe" in kit, kit.servers["notes"].changed) == (False, {"wipe"})
    assert kit.exec("wipe", {"user": "x"}).error.code == "changed"
    kit.servers["notes"].accept("wipe")
    assert ("wipe" in kit, kit.exec("wipe").error.code) == (False, "changed")
    notes.local_provider.remove_tool("wipe")
    notes.add_tool(_wipe_as_before())
    kit.refresh_mcp("notes")
    assert kit.call("wipe") == "nobody"


def _wipe_as_before():
    from fastmcp.tools import Tool

    def wipe(usr: str) -> str:
        """Wipe."""
        return usr

    return Tool.from_function(wipe)


def test_a_spec_a_registry_and_a_toolkit_are_changed_where_they_are_added_only():
    spec = ToolSpec.from_function(search)
    tools = {
        "p_search": {"arguments": {"query": {"name": "text"}}},
        "*_put": {"arguments": {"text": {"name": "note"}}},
        "p_get": {"description": "Read."},
    }
    inner = Toolkit("inner").add(add)
    kit = Toolkit("k").add(spec, Notes(), inner, tools=tools, preset={"b": 1}, prefix="p_")
    assert [list(tool.params) for tool in kit] == [["text", "user", "limit"], ["note"], ["number"], ["a"]]
    assert (kit.call("p_search", {"text": "q"}), kit.call("p_put", {"note": "n"}), kit.call("p_add", {"a": 1})) == (
        "guest:q:3",
        1,
        2,
    )
    assert kit["p_get"].description == "Read."
    assert (list(spec.params), list(inner["add"].params)) == (["query", "user", "limit"], ["a", "b"])
    spec.bind("user", default="ann")
    assert kit.call("p_search", {"text": "q"}) == "ann:q:3"
    assert kit["p_search"].clone()(text="q") == "ann:q:3"


def test_a_function_and_its_later_bindings_use_the_new_names():
    kit = Toolkit("k", state={"who": "ann"}).add(search, arguments={"user": {"name": "owner"}})
    kit["search"].bind("owner", "who")
    assert kit.call("search", {"query": "q"}) == "ann:q:3"
    kit.unbind("owner")
    with pytest.raises(ToolkitError, match="Change it where it is added"):
        kit["search"].transform(description="x")


def test_the_tool_that_switches_groups_is_changed_where_it_is_made():
    kit = Toolkit("k")
    with pytest.raises(ToolkitError, match="Pass description to `groups_tool`, which makes 'set_groups'"):
        kit.add(kit.groups_tool(), description="Switch.")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"describe": {"find": "x"}}, ToolkitError, "describe"),
        ({"arguments": "x"}, ToolkitError, "arguments must be a mapping, argument -> its"),
        ({"arguments": {"q": "x"}}, ToolkitError, "arguments must be a mapping, argument -> its"),
        ({"tools": {"fnd": {"arguments": {}}}}, ToolLookupError, "Did you mean 'find'"),
        ({"arguments": {"qq": {"name": "x"}}}, DefinitionError, "There is no argument 'qq' to change"),
        ({"arguments": {"q": {"name": "usr"}}}, DefinitionError, "would be named 'usr'"),
        ({"coerce_numbers_to_str": "no"}, ToolSpecError, "coerce_numbers_to_str must be True or False"),
    ],
)
def test_changes_that_do_not_fit_are_refused_and_nothing_is_added(options, error, message):
    kit = Toolkit("k")
    with pytest.raises(error, match=message):
        kit.add(ToolSpec.from_function(lambda q, usr: q, name="find"), **options)
    assert list(kit) == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tools": {"find": {"description": 5}}}, ToolkitError, "'find': description must be"),
        ({"tools": {"find": {"arguments": "x"}}}, ToolkitError, "'find': arguments must be a mapping, argument -> its"),
        ({"tools": {"find": {"arguments": {"qq": {"name": "x"}}}}}, DefinitionError, "There is no argument 'qq' to"),
        ({"tools": {"find": {"arguments": {"q": {"name": "usr"}}}}}, DefinitionError, "would be named 'usr'"),
        ({"coerce_numbers_to_str": "no"}, ToolSpecError, "coerce_numbers_to_str must be True or False"),
    ],
)
def test_changes_of_a_server_that_do_not_fit_are_refused_and_nothing_is_added(options, error, message):
    kit = Toolkit("k")
    with pytest.raises(error, match=message):
        kit.add_mcp(server(), **options)
    assert (list(kit), kit.servers) == ([], {})
