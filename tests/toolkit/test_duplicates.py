"""Two tools of one name: what `on_duplicate` of a toolkit, of `add` and of `add_mcp` does about them."""

from __future__ import annotations

import pytest

from ahvn_tools import Toolkit, ToolRegistry, ToolSpec, reg_toolspec
from ahvn_tools.errors import ToolkitError
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.toolkit import store
from tests.toolkit.changing_server import ChangingServer

POLICIES = ["raise", "keep", "replace", "rename"]
HERE = f"{__name__}.giving.<locals>.tool"


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("k")


def giving(value: str, name: str = "find") -> ToolSpec:
    def tool() -> str:
        return value

    return ToolSpec.from_function(tool, name=name)


class Shelf(ToolRegistry):
    """Another tool called `find`."""

    @reg_toolspec
    def find(self) -> str:
        """Find a book."""
        return "book"

    @reg_toolspec
    def put(self) -> str:
        """Put a book."""
        return "put"


def values(kit: Toolkit) -> dict[str, str]:
    return {tool.name: tool.call() for tool in kit}


def decisions(kit: Toolkit) -> list[tuple[str, str, str, str, str | None]]:
    return [(found.name, found.action, found.kept, found.other, found.new_name) for found in kit.duplicates]


class TestAdd:
    @pytest.mark.parametrize(
        ("policy", "tools", "recorded"),
        [
            ("keep", {"find": "first", "put": "put"}, ("find", "keep", HERE, "Shelf.find", None)),
            ("replace", {"find": "book", "put": "put"}, ("find", "replace", "Shelf.find", HERE, None)),
            (
                "rename",
                {"find": "first", "find_2": "book", "put": "put"},
                ("find", "rename", HERE, "Shelf.find", "find_2"),
            ),
        ],
    )
    def test_the_policy_of_a_toolkit_or_of_one_call_decides(self, caplog, policy, tools, recorded):
        caplog.set_level("DEBUG", "ahvn_tools.toolkit")
        of_call = Toolkit("k").add(giving("first")).add(Shelf(), on_duplicate=policy)
        of_toolkit = Toolkit("k", on_duplicate=policy).add(giving("first")).add(Shelf())
        other_call = Toolkit("k", on_duplicate="raise").add(giving("first")).add(Shelf(), on_duplicate=policy)
        warned = [record.levelname for record in caplog.records].count("WARNING")
        assert warned == (1 if policy == "replace" else 3)
        for kit in (of_call, of_toolkit, other_call):
            assert (values(kit), decisions(kit)) == (tools, [recorded])
            assert kit.duplicates == kit.session().duplicates == kit.select(names=[]).duplicates
        assert len(caplog.messages) == 3
        assert all(HERE in text and "Shelf.find" in text for text in caplog.messages)

    def test_a_replacement_is_a_warning_unless_the_call_asks_for_it(self, caplog):
        caplog.set_level("DEBUG", "ahvn_tools.toolkit")
        kit = Toolkit("k", on_duplicate="replace").add(giving("first"))
        kit.add(giving("second")).add(giving("third"), on_duplicate="replace")
        assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG"]

    def test_an_option_of_one_call_is_not_for_the_next(self):
        kit = Toolkit("k").add(giving("first")).add(giving("second"), on_duplicate="keep")
        with pytest.raises(ToolkitError, match="two tools 'find'"):
            kit.add(giving("third"))
        with pytest.raises(ToolkitError, match="two tools 'find'"):
            Toolkit("k", on_duplicate="keep").add(giving("1")).add(giving("2"), on_duplicate="raise")

    def test_a_decorated_function_has_the_option_too(self):
        kit = Toolkit("k").add(giving("first"))

        @kit.tool(on_duplicate="rename")
        def find() -> str:
            """Find."""
            return "second"

        assert values(kit) == {"find": "first", "find_2": "second"}
        assert find() == "second"

    def test_new_names_are_the_first_free_numbers(self):
        kit = Toolkit("k", on_duplicate="rename").add(giving("a"), giving("b"), giving("x", "find_3"), giving("c"))
        assert values(kit) == {"find": "a", "find_2": "b", "find_3": "x", "find_4": "c"}
        assert [found.new_name for found in kit.duplicates] == ["find_2", "find_4"]

    def test_a_renamed_tool_is_called_exported_searched_and_selected_by_its_new_name(self):
        kit = Toolkit("k").add(giving("a")).add(giving("b"), on_duplicate="rename", tags={"new"})
        assert [tool["name"] for tool in kit.to("anthropic")] == ["find", "find_2"]
        assert [tool.name for tool in kit.select(names=["find_2"], tags=["new"])] == ["find_2"]
        assert [tool.name for tool in kit.search("find_2", 1)] == ["find_2"]
        assert kit.call("find_2") == kit["find_2"].call() == "b"
        kit.remove("find_2")
        assert values(kit) == {"find": "a"}

    def test_two_of_one_call_are_decided_in_their_order(self):
        for policy, expected in (("keep", "a"), ("replace", "c")):
            kit = Toolkit("k").add(giving("a"), giving("b"), giving("c"), on_duplicate=policy)
            assert values(kit) == {"find": expected}

    def test_removing_the_kept_tool_does_not_bring_back_the_other(self):
        kit = Toolkit("k").add(giving("a")).add(giving("b"), on_duplicate="keep").remove("find")
        assert (values(kit), len(kit.duplicates)) == ({}, 1)
        assert values(kit.add(giving("c"))) == {"find": "c"}

    def test_a_decision_that_is_made_again_is_listed_once(self):
        kit = Toolkit("k", on_duplicate="replace")
        for number in range(5):
            kit.add(giving(str(number)))
        assert (values(kit), len(kit.duplicates)) == ({"find": "4"}, 1)

    @pytest.mark.parametrize("wrong", ["overwrite", True, ["keep"]])
    def test_an_unknown_policy_is_an_error_that_names_the_others(self, wrong):
        kit = Toolkit("k")
        adding = (
            lambda: Toolkit("k", on_duplicate=wrong),
            lambda: kit.add(giving("a"), on_duplicate=wrong),
            lambda: kit.tool(on_duplicate=wrong)(len),
            lambda: kit.add_mcp(ChangingServer(find="").fastmcp, on_duplicate=wrong),
        )
        for add in adding:
            with pytest.raises(ToolkitError, match="must be 'raise', 'keep', 'replace' or 'rename', not"):
                add()
        assert len(kit) == 0

    def test_search_tools_are_listed_under_the_names_that_they_get(self):
        kit = Toolkit("k", on_duplicate="rename").add(giving("own", "search_tools")).add_search()
        assert [definition.name for definition in kit.definitions()] == ["search_tools_2", "call_tool"]

    def test_another_toolkits_tools_are_renamed_too(self):
        inner = Toolkit("inner").add(giving("inner"))
        outer = Toolkit("outer").add(giving("outer")).add(inner, on_duplicate="rename")
        assert values(outer) == {"find": "outer", "find_2": "inner"}
        assert decisions(outer)[0][3] == "the toolkit 'inner'"

    def test_a_new_name_that_a_tool_of_the_same_call_has_renames_that_one(self):
        inner = Toolkit("inner").add(giving("b"), giving("x", "find_2"))
        kit = Toolkit("k").add(giving("a")).add(inner, on_duplicate="rename")
        assert values(kit) == {"find": "a", "find_2": "b", "find_2_2": "x"}
        assert values(inner) == {"find": "b", "find_2": "x"}

    def test_one_wire_name_of_two_tools_of_the_host_is_no_duplicate(self):
        wire = wire_name("a.b")
        kit = Toolkit("k").add(giving("1", "a.b"), giving("2", wire), giving("3", wire), on_duplicate="rename")
        assert values(kit) == {"a.b": "1", wire: "2", f"{wire}_2": "3"}


class TestServers:
    def test_by_default_the_tool_of_a_server_is_kept_out_and_listed(self, kit, caplog):
        server = ChangingServer(find="", other="")
        kit.add(giving("own")).add_mcp(server.fastmcp)
        assert (kit.call("find"), sorted(tool.name for tool in kit)) == ("own", ["find", "other"])
        assert decisions(kit) == [("find", "keep", HERE, "the MCP server 'remote'", None)]
        kit.refresh_mcp()
        kit.refresh_mcp()
        assert len(kit.duplicates) == caplog.text.count("is not used") == 1

    def test_raise_adds_nothing_and_later_tools_are_kept_out(self, kit):
        server = ChangingServer(find="")
        kit.add(giving("own"))
        with pytest.raises(ToolkitError, match=rf"two tools 'find': from {HERE} and from the MCP server 'remote'"):
            kit.add_mcp(server.fastmcp, on_duplicate="raise")
        assert (list(kit.servers), values(kit), kit.duplicates) == ([], {"find": "own"}, [])
        server.drop("find")
        server.put("other")
        kit.add_mcp(server.fastmcp, on_duplicate="raise")
        server.put("find")
        kit.refresh_mcp()
        assert (kit.call("find"), list(kit.servers["remote"].refused)) == ("own", ["find"])

    def test_the_list_has_the_latest_of_many_decisions(self, kit, monkeypatch):
        monkeypatch.setattr(store, "MAX_DUPLICATES", 3)
        server = ChangingServer()
        kit.add_mcp(server.fastmcp)
        for number in range(5):  # each listing has two names that models would see as the same
            server.put(wire_name(f"a.{number}"))
            server.put(f"a.{number}")
            kit.refresh_mcp()
        assert [duplicate.name for duplicate in kit.duplicates] == ["a.2", "a.3", "a.4"]

    @pytest.mark.parametrize("of_toolkit", [True, False])
    def test_rename_puts_the_servers_name_before_it(self, of_toolkit):
        kit = Toolkit("k", on_duplicate="rename") if of_toolkit else Toolkit("k")
        options = {} if of_toolkit else {"on_duplicate": "rename"}
        server = ChangingServer(find="", other="")
        kit.add(giving("own")).add_mcp(server.fastmcp, **options)
        assert [tool.name for tool in kit] == ["find", "remote_find", "other"]
        assert dict(kit.servers["remote"].refused) == {}
        kit.call("remote_find")
        assert (server.calls, kit.call("find")) == ([("find", {})], "own")
        kit.remove_mcp("remote")
        assert values(kit) == {"find": "own"}

    def test_a_servers_tool_is_renamed_when_the_hosts_tool_comes_later(self, kit):
        server = ChangingServer(find="user")
        kit.state["user"] = "ann"
        kit.add_mcp(server.fastmcp, on_duplicate="rename")
        kit["find"].bind("user")
        held = kit["find"]
        session = kit.session()
        kit.add(giving("own"))
        assert [tool.name for tool in session] == ["remote_find", "find"]
        held.call()
        assert (held.name, server.calls, session.call("find")) == ("remote_find", [("find", {"user": "ann"})], "own")
        kit.refresh_mcp()
        kit.remove("find").refresh_mcp()
        assert [tool.name for tool in kit] == ["remote_find"]

    def test_tools_that_a_server_adds_later_are_renamed_too(self, kit):
        server = ChangingServer(other="")
        kit.add(giving("own"), giving("mine", "remote_seek"), giving("seek", "seek"))
        kit.add_mcp(server.fastmcp, on_duplicate="rename")
        for name in ("find", "seek"):
            server.put(name)
        kit.refresh_mcp()
        assert {"find", "seek", "remote_find", "remote_seek", "remote_seek_2"} < {tool.name for tool in kit}
        server.drop("find")
        kit.refresh_mcp()
        assert "remote_find" not in kit
        assert kit.call("find") == "own"

    def test_a_server_that_lists_its_own_new_name_is_renamed_with_a_number(self, kit):
        server = ChangingServer(find="", remote_find="")
        kit.add(giving("own")).add_mcp(server.fastmcp, on_duplicate="rename")
        assert [tool.name for tool in kit] == ["find", "remote_find", "remote_find_2"]

    def test_one_wire_name_is_renamed_too(self, kit):
        server = ChangingServer(**{wire_name("a.b"): ""})
        kit.add(giving("own", "a.b")).add_mcp(server.fastmcp, on_duplicate="rename")
        assert [tool["name"] for tool in kit.to("anthropic")] == [wire_name("a.b"), f"remote_{wire_name('a.b')}"]
        assert (kit.duplicates[0].kept_name, kit.duplicates[0].name) == ("a.b", wire_name("a.b"))

    def test_only_an_import_that_says_so_replaces_a_tool_of_the_host(self, kit):
        server = ChangingServer(find="", other="")
        kit.add(giving("own"), giving("seek", "seek"), requires_approval=True)
        kit.add_mcp(server.fastmcp, on_duplicate="replace")
        assert kit.exec("find").value == "done"
        server.put("seek")
        kit.refresh_mcp()
        assert kit.exec("seek").value == "done"
        assert [found.action for found in kit.duplicates] == ["replace", "replace"]
        kit.remove_mcp("remote")
        assert list(kit) == []

    def test_a_replacement_by_a_server_is_always_a_warning(self, kit, caplog):
        caplog.set_level("DEBUG", "ahvn_tools.toolkit.store")
        kit.add(giving("own")).add_mcp(ChangingServer(find="").fastmcp, on_duplicate="replace")
        kit.add(giving("own again"), on_duplicate="replace")
        kit.add_mcp(ChangingServer("other", find="").fastmcp)
        levels = [record.levelname for record in caplog.records if "the name belongs to" in record.getMessage()]
        assert levels == ["WARNING", "DEBUG", "WARNING"]
        assert [found.action for found in kit.duplicates] == ["replace", "replace", "keep"]

    def test_it_never_replaces_what_the_host_has_added_after_it(self, kit):
        server = ChangingServer(find="", other="")
        kit.add_mcp(server.fastmcp, on_duplicate="replace").add(giving("own"), giving("seek", "seek"))
        server.put("seek")
        for _ in range(2):
            kit.refresh_mcp()
        assert (kit.call("find"), kit.call("seek")) == ("own", "seek")
        server.drop("find")
        kit.refresh_mcp()
        server.put("find", "again")
        kit.refresh_mcp()
        assert (kit.call("find"), sorted(kit.servers["remote"].refused)) == ("own", ["find", "seek"])

    def test_a_wire_name_alone_is_never_replaced(self, kit):
        server = ChangingServer(**{wire_name("a.b"): ""})
        kit.add(giving("own", "a.b")).add_mcp(server.fastmcp, on_duplicate="replace")
        assert (values(kit), list(kit.servers["remote"].refused)) == ({"a.b": "own"}, [wire_name("a.b")])

    def test_of_two_servers_the_second_may_replace_the_first(self, kit):
        first, second = ChangingServer("first", find=""), ChangingServer("second", find="")
        kit.add_mcp(first.fastmcp).add_mcp(second.fastmcp, on_duplicate="replace")
        for _ in range(2):
            kit.call("find")
            kit.refresh_mcp()
        assert (len(first.calls), len(second.calls)) == (0, 2)
        assert "the MCP server 'second'" in kit.servers["first"].refused["find"]
        kit.remove_mcp("second").refresh_mcp()
        kit.call("find")
        assert len(first.calls) == 1

    @pytest.mark.parametrize("policy", POLICIES)
    def test_a_tool_of_the_host_gets_its_name_from_a_server_whatever_add_says(self, policy):
        kit = Toolkit("k").add_mcp(ChangingServer(find="").fastmcp).add(giving("own"), on_duplicate=policy)
        assert values(kit) == {"find": "own"}
        assert decisions(kit) == [("find", "replace", HERE, "the MCP server 'remote'", None)]

    @pytest.mark.parametrize(
        ("policy", "names"),
        [("keep", ["find", "other"]), ("rename", ["remote_find", "other", "find"])],
    )
    def test_a_tool_of_the_host_in_the_same_call_comes_first_too(self, kit, policy, names):
        kit.add_mcp(ChangingServer(find="", other="").fastmcp)
        outer = Toolkit("outer", on_duplicate=policy).add(kit, giving("own"))
        assert (sorted(tool.name for tool in outer), outer.call("find")) == (sorted(names), "own")
        taken = Toolkit("taken", on_duplicate=policy).add(kit, giving("own"), giving("mine", "remote_find"))
        assert (taken.call("find"), taken.call("remote_find")) == ("own", "mine")
        assert ("remote_find_2" in taken) == (policy == "rename")

    def test_an_inner_toolkits_server_replaces_where_add_says_so(self, kit):
        server = ChangingServer(find="")
        kit.add_mcp(server.fastmcp)
        kept = Toolkit("kept", on_duplicate="replace").add(giving("own")).add(kit)
        replaced = Toolkit("replaced").add(giving("own")).add(kit, on_duplicate="replace")
        renamed = Toolkit("renamed").add(giving("own")).add(kit, on_duplicate="rename")
        assert (kept.call("find"), replaced.exec("find").value) == ("own", "done")
        assert [tool.name for tool in renamed] == ["find", "remote_find"]
        with pytest.raises(ToolkitError, match="two tools 'find'"):
            Toolkit("refused").add(giving("own")).add(kit, on_duplicate="raise")
