"""Two tools whose names clash, as they are or as models see them: a tool of a server gives way to any other."""

from __future__ import annotations

import json
import threading

import pytest

from ahvn_tools import ToolCall, Toolkit, ToolSpec, formats, mcp
from ahvn_tools.errors import DefinitionError, ToolkitError
from ahvn_tools.formats.rendering.names import wire_name
from tests.toolkit.changing_server import ChangingServer

DOTTED = "a.b"
SAME_ON_THE_WIRE = wire_name(DOTTED)
OWN = "notes.find"


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("k")


def own_tool(name: str) -> ToolSpec:
    def tool() -> str:
        return "ours"

    return ToolSpec.from_function(tool, name=name)


def exported_names(kit: Toolkit) -> list[str]:
    """Return the names that models see. Every format can export them."""
    names = [tool["function"]["name"] for tool in kit.to("openai")]
    for name in formats.BUILT_IN:
        assert json.dumps(kit.to(name))
    return names


class TestServersTools:
    def test_a_server_that_lists_a_wire_name_of_its_own_loses_that_tool_alone(self, kit):
        server = ChangingServer(**{DOTTED: "", "other": ""})
        kit.add(own_tool("mine")).add_mcp(server.fastmcp)
        server.put(SAME_ON_THE_WIRE)
        kit.refresh_mcp()
        assert exported_names(kit) == ["mine", SAME_ON_THE_WIRE, "other"]
        assert DOTTED in kit.servers["remote"].refused[SAME_ON_THE_WIRE]
        calls = [ToolCall(id=name, name=name) for name in ("mine", DOTTED, "other", SAME_ON_THE_WIRE)]
        results = kit.run(calls, format="openai").results
        assert [None if result.error is None else result.error.code for _, result in results] == [
            None, None, None, "not_found",
        ]  # fmt: skip
        assert [name for name, _ in server.calls] == [DOTTED, "other"]

    @pytest.mark.parametrize("name", [OWN, wire_name(OWN)])
    def test_a_tool_of_the_host_keeps_its_name(self, kit, name, caplog):
        """Whether the server has the name when it is added, lists it later, or had it before the host."""
        first, later, squatter = ChangingServer("first", x=""), ChangingServer("later"), ChangingServer("squatter")
        first.put(name)
        squatter.put(name)
        early = Toolkit("early").add_mcp(squatter.fastmcp).add(own_tool(OWN))
        kit.add(own_tool(OWN)).add_mcp(first.fastmcp).add_mcp(later.fastmcp)
        later.put(name)
        kit.refresh_mcp()
        assert exported_names(kit) == [wire_name(OWN), "x"]
        assert exported_names(early) == [wire_name(OWN)]
        assert kit.call(OWN) == early.call(OWN) == "ours"
        for remote in (kit.servers["first"], kit.servers["later"], early.servers["squatter"]):
            assert OWN in remote.refused[name]
        assert caplog.text.count("is not used") == 3
        early.remove_mcp("squatter")
        assert early.call(OWN) == "ours"

    @pytest.mark.parametrize("policy", ["raise", "replace", "keep"])
    def test_whatever_the_policy_is(self, policy):
        server = ChangingServer(find="", other="")
        before = Toolkit("before", on_duplicate=policy).add(own_tool("find")).add_mcp(server.fastmcp)
        after = Toolkit("after", on_duplicate=policy).add_mcp(server.fastmcp).add(own_tool("find"))
        for kit in (before, after):
            assert sorted(spec.name for spec in kit) == ["find", "other"]
            assert kit.call("find") == "ours"
            assert list(kit.servers["remote"].refused) == ["find"]
            kit.remove_mcp("remote")
            assert [spec.name for spec in kit] == ["find"]

    def test_of_two_servers_the_first_keeps_the_name(self, kit):
        first, second = ChangingServer("first", find=""), ChangingServer("second", find="", seek="")
        kit.add_mcp(first.fastmcp).add_mcp(second.fastmcp)
        first.put("seek")
        kit.refresh_mcp()
        kit.call("find")
        kit.call("seek")
        assert ([name for name, _ in first.calls], [name for name, _ in second.calls]) == (["find"], ["seek"])
        assert [list(kit.servers[name].refused) for name in ("first", "second")] == [["seek"], ["find"]]

    @pytest.mark.parametrize("comes_back", [False, True])
    def test_a_refused_tool_is_used_with_its_bindings_once_the_name_is_free(self, kit, comes_back):
        server = ChangingServer(find="user", other="")
        kit.state["user"] = "ann"
        kit.add_mcp(server.fastmcp)
        kit["find"].bind("user")
        if comes_back:  # while its name is taken
            server.drop("find")
            kit.refresh_mcp()
        kit.add(own_tool("find"))
        if comes_back:
            server.put("find", "user")
        kit.refresh_mcp()
        assert kit.call("find") == "ours"
        kit.remove("find")
        kit.refresh_mcp()
        assert dict(kit.servers["remote"].refused) == {}
        kit.call("find")
        assert server.calls == [("find", {"user": "ann"})]

    def test_a_refused_tool_that_the_server_removes_is_not_reported_any_more(self, kit):
        server = ChangingServer(find="", other="")
        kit.add(own_tool("find")).add_mcp(server.fastmcp)
        server.drop("find")
        kit.refresh_mcp()
        assert (dict(kit.servers["remote"].refused), kit.call("find")) == ({}, "ours")

    def test_a_tool_that_the_host_removed_stays_removed(self, kit):
        server = ChangingServer(find="", other="")
        kit.add_mcp(server.fastmcp).remove("find")
        kit.refresh_mcp()
        assert [spec.name for spec in kit] == ["other"]

    def test_new_names_and_prefixes_clash_like_others(self, kit):
        server = ChangingServer(**{"b": "", SAME_ON_THE_WIRE.removeprefix("a_"): ""})
        kit.add(own_tool("a.x")).add_mcp(server.fastmcp, prefix="a_", rename={"b": "x_" + wire_name("a.x")[-8:]})
        assert list(kit.servers["remote"].refused) == ["b"]
        kit.add(own_tool(DOTTED))
        assert sorted(exported_names(kit)) == sorted([wire_name("a.x"), SAME_ON_THE_WIRE])

    def test_tools_for_finding_others_can_be_added_whatever_a_server_lists(self, kit):
        server = ChangingServer(search_tools="", call_tool="", find="")
        kit.add_mcp(server.fastmcp).add_search()
        assert [spec.name for spec in kit] == ["find", "search_tools", "call_tool"]
        assert kit.servers["remote"].refused.keys() == {"search_tools", "call_tool"}

    def test_an_inner_toolkits_server_costs_the_outer_one_nothing(self, kit):
        server = ChangingServer(**{wire_name(OWN): "", "find": "", "other": ""})
        inner = kit.add_mcp(server.fastmcp)
        before = Toolkit("before").add(own_tool(OWN)).add(own_tool("find")).add(inner)
        after = Toolkit("after").add(inner).add(own_tool(OWN)).add(own_tool("find"))
        for outer in (before, after):
            assert sorted(exported_names(outer)) == sorted(["find", wire_name(OWN), "other"])
            assert outer.call(OWN) == outer.call("find") == "ours"
        assert len(inner) == 3

    def test_a_tool_whose_options_do_not_fit_costs_no_other_tool(self, kit, caplog):
        server = ChangingServer(find="limit")
        kit.add_mcp(server.fastmcp, tools={"*": {"preset": {"limit": "3"}}})
        server.put("flag", properties={"limit": {"type": "boolean"}})
        server.put("good", "limit")
        for _ in range(2):
            kit.refresh_mcp()
        assert [spec.name for spec in kit] == ["find", "good"]
        assert "'limit' of 'flag' does not fit" in kit.servers["remote"].refused["flag"]
        assert caplog.text.count("'flag'") == 2  # once, and once in the reason


class TestOtherTools:
    def test_a_spec_of_a_server_that_the_host_adds_is_an_error_at_once(self, kit):
        server = ChangingServer(**{DOTTED: "", SAME_ON_THE_WIRE: ""})
        with mcp.connect(server.fastmcp) as connected:
            one, other = ToolSpec.from_server(connected).values()
            kit.add(one)
            with pytest.raises(ToolkitError, match=r"both 'a\.b' from .* and 'a_b_\w+' .* rename="):
                kit.add(other)
            kit.add(other, rename="c")
            assert exported_names(kit) == [SAME_ON_THE_WIRE, "c"]

    def test_two_tools_of_the_host_are_an_error_of_the_export(self, kit):
        kit.add(own_tool(DOTTED)).add(own_tool(SAME_ON_THE_WIRE))
        with pytest.raises(DefinitionError, match="would both be called"):
            kit.to("openai")
        kit.remove(DOTTED)
        assert exported_names(kit) == [SAME_ON_THE_WIRE]


@pytest.mark.exhaustive
def test_of_threads_that_add_one_name_the_hosts_tool_always_wins():
    for _ in range(20):
        server, start = ChangingServer(x=""), threading.Barrier(2)
        kit = Toolkit("k").add_mcp(server.fastmcp)
        server.put("find")

        def add(kit: Toolkit = kit, start: threading.Barrier = start) -> None:
            start.wait(30)
            kit.add(own_tool("find"))

        thread = threading.Thread(target=add)
        thread.start()
        start.wait(30)
        kit.refresh_mcp()
        thread.join(30)
        kit.refresh_mcp()
        assert kit.call("find") == "ours"
        assert list(kit.servers["remote"].refused) == ["find"]
        kit.remove_mcp("remote")
