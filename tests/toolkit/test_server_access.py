"""Which bindings of a toolkit reach the tools of an MCP server, and which tools wait until the host accepts them."""

from __future__ import annotations

import logging
from typing import Annotated

import pytest
from fastmcp import Client

from ahvn_tools import Secret, Toolkit, ToolSpec, mcp
from ahvn_tools.errors import BindError, ToolkitError
from tests.toolkit.changing_server import ChangingServer

KEY = "sk-live-4711"

TAKES_KEY = {"weather": "city! api_key"}


@pytest.fixture
def kit() -> Toolkit:
    """A toolkit whose state has a key and a user."""
    return Toolkit("k", state={"api_key": KEY, "user": "ann"})


def parameters(kit: Toolkit, name: str) -> list[str]:
    return list(kit[name].params)


class TestSecretBindings:
    @pytest.mark.parametrize("is_bound_first", [True, False])
    def test_a_secret_binding_does_not_reach_a_server_for_which_it_was_not_named(self, kit, is_bound_first):
        server = ChangingServer(**TAKES_KEY)
        if is_bound_first:
            kit.bind("api_key", secret=True).add_mcp(server.fastmcp)
        else:
            kit.add_mcp(server.fastmcp).bind("api_key", secret=True)
        assert parameters(kit, "weather") == ["city"]
        assert kit.exec("weather", {"city": "Oslo"}).error is None
        assert kit.exec("weather", {"city": "Oslo", "api_key": "x"}).error.code == "invalid_parameters"
        assert server.calls == [("weather", {"city": "Oslo"})]
        assert kit.servers["remote"].receives == {}

    @pytest.mark.parametrize("is_bound_first", [True, False])
    def test_a_secret_binding_reaches_the_tools_of_a_server_for_which_it_was_named(self, kit, is_bound_first):
        server, other = ChangingServer(**TAKES_KEY), ChangingServer("other", guess="api_key")
        if is_bound_first:
            kit.bind("api_key", secret=True)
        kit.add_mcp(server.fastmcp, may_receive=["api_key"]).add_mcp(other.fastmcp)
        if not is_bound_first:
            kit.bind("api_key", secret=True)
        kit.call("weather", {"city": "Oslo"})
        kit.call("guess")
        kit.session(api_key="sk-of-bob").call("weather", {"city": "Rome"})
        assert server.calls == [
            ("weather", {"city": "Oslo", "api_key": KEY}),
            ("weather", {"city": "Rome", "api_key": "sk-of-bob"}),
        ]
        assert other.calls == [("guess", {})]
        assert kit.servers["remote"].receives == {"weather": {"api_key": "api_key"}}
        assert kit.servers["other"].receives == {}

    def test_without_its_required_secret_a_tool_is_not_called_and_the_error_says_what_to_do(self, kit):
        server = ChangingServer(weather="city! api_key!")
        kit.bind("api_key", secret=True).add_mcp(server.fastmcp)
        result = kit.exec("weather", {"city": "Oslo"})
        assert (result.error.code, server.calls) == ("unbound_state", [])
        assert "may_receive=['api_key']" in str(result.exception)

    def test_a_secret_binding_of_the_tool_itself_reaches_it(self, kit):
        server = ChangingServer(**TAKES_KEY)
        kit.add_mcp(server.fastmcp).bind("api_key", secret=True)
        kit["weather"].bind("api_key", secret=True)
        kit.call("weather", {"city": "Oslo"})
        assert server.calls == [("weather", {"city": "Oslo", "api_key": KEY})]

    def test_a_binding_that_a_local_tool_marks_as_secret_is_secret_for_servers(self, kit):
        def local(api_key: Annotated[str, Secret]) -> str:
            return "local"

        early, late = ChangingServer("early", one="api_key"), ChangingServer("late", two="api_key")
        kit.bind("api_key").add_mcp(early.fastmcp)
        assert kit.servers["early"].receives == {"one": {"api_key": "api_key"}}
        kit.add(local).add_mcp(late.fastmcp)
        for name in ("one", "two"):
            kit.call(name)
        assert (early.calls, late.calls) == ([("one", {})], [("two", {})])
        kit.unbind("api_key").bind("api_key")
        kit.call("one")
        assert early.calls[-1] == ("one", {})

    @pytest.mark.parametrize("is_secret_first", [True, False])
    def test_a_state_key_that_is_secret_somewhere_is_secret_for_servers(self, kit, is_secret_first):
        server = ChangingServer(weather="credential user")
        kit.add_mcp(server.fastmcp).bind("user")
        binds = [lambda: kit.bind("api_key", secret=True), lambda: kit.bind("credential", "api_key")]
        for bind in binds if is_secret_first else reversed(binds):
            bind()
        kit.call("weather")
        assert server.calls == [("weather", {"user": "ann"})]

    def test_a_server_does_not_decide_what_is_secret_for_others(self, kit):
        sly, server = ChangingServer("sly"), ChangingServer(find="user")
        sly.put("take", properties={"user": {"type": "string", "format": "password", "writeOnly": True}})
        kit.bind("user").add_mcp(sly.fastmcp).add_mcp(server.fastmcp)
        kit["take"].bind("user")
        kit.call("find")
        assert server.calls == [("find", {"user": "ann"})]

    def test_a_preset_is_named_for_its_server(self, kit):
        server = ChangingServer(**TAKES_KEY)
        kit.bind("api_key", secret=True).add_mcp(server.fastmcp, tools={"*": {"preset": {"api_key": "of the host"}}})
        server.put("forecast", "api_key")
        kit.refresh_mcp()
        kit.call("weather", {"city": "Oslo"})
        kit.call("forecast")
        assert [arguments.get("api_key") for _, arguments in server.calls] == ["of the host"] * 2
        assert kit.servers["remote"].receives == {"weather": {"api_key": None}, "forecast": {"api_key": None}}

    async def test_specs_of_servers_and_of_clients_receive_a_secret_only_by_their_own_binding(self, kit):
        server = ChangingServer(weather="api_key", forecast="api_key")
        async with await mcp.aconnect(server.fastmcp) as connected, Client(server.fastmcp) as client:
            kit.bind("api_key", secret=True).bind("user")
            kit.add(ToolSpec.from_server(connected)["weather"])
            kit.add(await ToolSpec.afrom_client(client, "forecast"))
            await kit.acall("weather")
            await kit.acall("forecast")
            assert server.calls == [("weather", {}), ("forecast", {})]
            kit["weather"].bind("api_key", secret=True)
            bound = (await ToolSpec.afrom_client(client, "forecast")).bind("api_key", secret=True)
            kit.add(bound, rename="bound")
            await kit.acall("weather")
            await kit.acall("bound")
            assert server.calls[2:] == [("weather", {"api_key": KEY}), ("forecast", {"api_key": KEY})]


class TestOtherBindings:
    @pytest.mark.parametrize("is_bound_first", [True, False])
    def test_a_binding_reaches_the_tools_that_were_there_when_the_server_was_added(self, kit, is_bound_first):
        server = ChangingServer(find="query! user")
        if is_bound_first:
            kit.bind("user").add_mcp(server.fastmcp)
        else:
            kit.add_mcp(server.fastmcp).bind("user")
        kit.call("find", {"query": "tea"})
        kit.session(user="bob").call("find", {"query": "tea"})
        assert [arguments["user"] for _, arguments in server.calls] == ["ann", "bob"]
        assert kit.servers["remote"].receives == {"find": {"user": "user"}}
        assert kit.servers["remote"].changed == frozenset()

    @pytest.mark.parametrize("is_bound_first", [True, False])
    @pytest.mark.parametrize("secret", [True, False])
    def test_a_tool_that_comes_later_waits_if_a_parameter_has_a_bound_name(self, kit, caplog, is_bound_first, secret):
        server = ChangingServer(find="query!")
        kit.add_mcp(server.fastmcp)
        if is_bound_first:
            kit.bind("user", secret=secret)
        server.put("delete", "user")
        kit.refresh_mcp()
        if not is_bound_first:
            assert parameters(kit, "delete") == ["user"]
            kit.bind("user", secret=secret)
        remote = kit.servers["remote"]
        assert (remote.changed, remote.receives) == ({"delete"}, {})
        assert "'delete' of 'remote' is not called until it is accepted: its parameter 'user' is bound" in caplog.text
        assert "delete" not in kit
        assert [tool["function"]["name"] for tool in kit.to("openai")] == ["find"]
        for arguments in ({}, {"user": "eve"}):
            assert kit.exec("delete", arguments).error.code == "changed"
            assert kit.session(user="eve").exec("delete", arguments).error.code == "changed"
        assert server.calls == []
        remote.accept(remote.tools["delete"])
        kit.call("delete")
        assert kit.exec("delete", {"user": "eve"}).error.code == "invalid_parameters"
        assert server.calls == [("delete", {} if secret else {"user": "ann"})]
        assert remote.receives == ({} if secret else {"delete": {"user": "user"}})

    def test_a_tool_that_gains_a_parameter_of_a_bound_name_waits(self, kit):
        server = ChangingServer(find="query! user", list="page")
        kit.bind("user").bind("api_key", secret=True).add_mcp(server.fastmcp)
        server.put("find", "query! user api_key")
        server.put("list", "page user")
        server.put("other", "page")
        kit.refresh_mcp()
        remote = kit.servers["remote"]
        assert (remote.changed, remote.receives) == ({"find", "list"}, {})
        assert [spec.name for spec in kit] == ["other"]
        remote.accept("list")
        kit.call("list")
        assert kit.exec("find", {"query": "tea"}).error.code == "changed"
        remote.accept()
        kit.call("find", {"query": "tea"})
        assert server.calls == [("list", {"user": "ann"}), ("find", {"query": "tea", "user": "ann"})]

    def test_an_accepted_tool_waits_again_when_it_gains_another_parameter(self, kit):
        server = ChangingServer(find="query!")
        kit.bind("user").bind("tenant").add_mcp(server.fastmcp)
        server.put("find", "query! user")
        kit.refresh_mcp()
        kit.servers["remote"].accept("find")
        server.put("find", "query! user tenant")
        kit.refresh_mcp()
        assert kit.servers["remote"].changed == {"find"}
        assert kit.exec("find", {"query": "tea"}).error.code == "changed"

    @pytest.mark.parametrize(
        "schema",
        [
            {"allOf": [{"properties": {"user": {"type": "string"}}}]},
            {"$ref": "#/$defs/more", "$defs": {"more": {"anyOf": [{"properties": {"user": {"type": "string"}}}]}}},
            {"required": ["user"]},
            {"dependentRequired": {"query": ["user"]}},
        ],
        ids=["union", "reference", "required", "dependent"],
    )
    def test_a_parameter_counts_wherever_the_schema_names_it(self, kit, schema):
        server = ChangingServer(find="query!")
        kit.bind("user").add_mcp(server.fastmcp)
        server.put("new", "query", **schema)
        kit.refresh_mcp()
        assert kit.servers["remote"].changed == {"new"}

    @pytest.mark.parametrize("is_bound_first", [True, False])
    @pytest.mark.parametrize("is_secret", [True, False])
    @pytest.mark.parametrize(
        "schema",
        [
            {"properties": {"query": {}, "user": {}}, "not": {"required": ["user", "query"]}},
            {"properties": {"query": {}}, "allOf": [{"properties": {"user": {}}, "required": ["user"]}]},
        ],
        ids=["not", "allOf"],
    )
    def test_a_tool_from_which_a_bound_parameter_cannot_be_taken_is_not_called_and_costs_no_other(
        self, kit, is_bound_first, is_secret, schema
    ):
        server = ChangingServer(other="query!")
        server.put("find", **schema)
        if is_bound_first:
            kit.bind("user", secret=is_secret).add_mcp(server.fastmcp)
        else:
            kit.add_mcp(server.fastmcp).bind("user", secret=is_secret)
        assert "user" not in str(kit.to("openai"))
        for arguments in ({"query": "tea"}, {"query": "tea", "user": "eve"}, {"user": "eve"}, {}):
            assert kit.exec("find", arguments).error.code in {"not_available", "invalid_parameters"}
        kit.call("other", {"query": "tea"})
        assert server.calls == [("other", {"query": "tea"})]
        assert [finding.tool for finding in kit.check() if finding.rule == "refused-tool"] == ["find"]

    def test_a_tool_from_which_a_bound_parameter_can_no_longer_be_taken_is_no_longer_called(self, kit):
        server = ChangingServer(find="query! user")
        kit.bind("user").add_mcp(server.fastmcp)
        kit.call("find", {"query": "tea"})
        server.put("find", "query! user", **{"not": {"required": ["user", "query"]}})
        kit.refresh_mcp()
        assert kit.exec("find", {"query": "tea"}).error.code == "not_available"
        assert kit.exec("find", {"query": "tea", "user": "eve"}).error.code == "not_available"
        assert "user" not in str(kit.to("openai"))
        assert server.calls == [("find", {"query": "tea", "user": "ann"})]

    def test_a_caller_cannot_pass_a_bound_name_as_an_undeclared_argument(self, kit):
        server = ChangingServer(find="query!")
        kit.bind("user").add_mcp(server.fastmcp)
        error = kit.exec("find", {"query": "tea", "user": "eve"}).error
        assert (error.code, "unknown argument 'user'" in error.message) == ("invalid_parameters", True)
        assert [result.error.code for result in kit.stream("find", {"query": "tea", "user": "eve"})] == [error.code]
        kit.call("find", {"query": "tea", "more": "x"})
        assert server.calls == [("find", {"query": "tea", "more": "x"})]

    def test_what_was_named_for_a_server_reaches_its_later_tools_at_once(self, kit):
        server = ChangingServer(**TAKES_KEY)
        kit.bind("api_key", secret=True).bind("user").add_mcp(server.fastmcp, may_receive=("api_key",))
        server.put("forecast", "city! api_key")
        server.put("history", "api_key user")
        kit.refresh_mcp()
        assert kit.servers["remote"].changed == {"history"}
        kit.call("forecast", {"city": "Oslo"})
        assert server.calls == [("forecast", {"city": "Oslo", "api_key": KEY})]

    def test_without_the_binding_an_accepted_tool_has_the_parameter_again(self, kit):
        server = ChangingServer(find="query!")
        kit.bind("user").add_mcp(server.fastmcp)
        server.put("delete", "user")
        kit.refresh_mcp()
        kit.unbind("user")
        assert kit.exec("delete", {"user": "eve"}).error.code == "changed"
        kit.servers["remote"].accept("delete")
        kit.call("delete", {"user": "eve"})
        assert server.calls == [("delete", {"user": "eve"})]

    def test_prefixes_new_names_and_views_change_nothing(self, kit):
        server = ChangingServer(find="query! user")
        kit.bind("user").add_mcp(server.fastmcp, prefix="r_", rename={"find": "seek"}, tags={"remote"})
        server.put("delete", "user")
        kit.refresh_mcp()
        view = kit.select(tags={"remote"}).session(user="bob")
        assert [spec.name for spec in view] == ["r_seek"]
        assert view.exec("r_delete", {"user": "eve"}).error.code == "changed"
        view.call("r_seek", {"query": "tea"})
        assert server.calls == [("find", {"query": "tea", "user": "bob"})]
        assert view.servers["remote"].receives == {"find": {"user": "user"}}

    @pytest.mark.parametrize(("parameters", "changed"), [("query! owner", {"find"}), ("query! user", frozenset())])
    def test_a_tool_that_comes_back_waits_if_it_lacks_its_bound_parameter(self, kit, parameters, changed):
        server = ChangingServer(find="query! user", other="")
        kit.bind("user").add_mcp(server.fastmcp)
        server.drop("find")
        kit.refresh_mcp()
        server.put("find", parameters)
        kit.refresh_mcp()
        assert kit.servers["remote"].changed == changed
        assert (kit.exec("find", {"query": "tea"}).error is None) is not bool(changed)
        assert server.calls == ([] if changed else [("find", {"query": "tea", "user": "ann"})])

    def test_of_several_servers_one_waits(self, kit):
        one, other = ChangingServer("one", find="user"), ChangingServer("other", seek="user")
        kit.bind("user").add_mcp(one.fastmcp).add_mcp(other.fastmcp)
        other.put("find_all", "user")
        kit.refresh_mcp()
        assert [spec.name for spec in kit] == ["find", "seek"]
        assert [dict(kit.servers[name].receives) for name in ("one", "other")] == [
            {"find": {"user": "user"}},
            {"seek": {"user": "user"}},
        ]


class TestNestedToolkits:
    @pytest.mark.parametrize(
        ("names", "is_bound_inside", "received"),
        [((), False, {}), ("api_key", False, {"api_key": "of the outer one"}), ((), True, {"api_key": KEY})],
        ids=["not named", "named", "bound inside"],
    )
    def test_a_secret_of_the_outer_toolkit_reaches_a_server_of_the_inner_one_if_that_named_it(
        self, kit, names, is_bound_inside, received
    ):
        server = ChangingServer(**TAKES_KEY)
        kit.add_mcp(server.fastmcp, may_receive=names)
        if is_bound_inside:
            kit["weather"].bind("api_key")
        outer = Toolkit("outer").add(kit).bind("api_key", "other_key", "of the outer one", secret=True)
        outer.call("weather", {"city": "Oslo"})
        assert server.calls == [("weather", {"city": "Oslo", **received})]
        assert parameters(outer, "weather") == ["city"]

    def test_a_tool_that_gains_a_parameter_which_only_the_outer_toolkit_binds_waits(self, kit):
        server = ChangingServer(find="query!")
        outer = Toolkit("outer", state={"user": "ann"}).add(kit.add_mcp(server.fastmcp)).bind("user")
        server.put("find", "query! user")
        kit.refresh_mcp()
        assert outer.exec("find", {"query": "tea"}).error.code == "changed"
        assert "find" not in outer
        kit.servers["remote"].accept("find")
        outer.call("find", {"query": "tea"})
        assert server.calls == [("find", {"query": "tea", "user": "ann"})]

    def test_a_server_in_two_toolkits_has_the_bindings_of_each(self):
        server = ChangingServer(find="query! user")
        with mcp.connect(server.fastmcp) as connected:
            one = Toolkit("one", state={"user": "ann"}).add_mcp(connected).bind("user")
            two = Toolkit("two").add_mcp(connected)
            one.call("find", {"query": "tea"})
            two.call("find", {"query": "tea", "user": "eve"})
            assert [arguments["user"] for _, arguments in server.calls] == ["ann", "eve"]
            assert connected.receives == {"find": {"user": "user"}}
            one.remove_mcp("remote")
            assert connected.receives == {}
            two.remove_mcp("remote")


class TestNames:
    @pytest.mark.parametrize("names", ["api_ky", ["city", "api_ky"]])
    def test_a_parameter_that_no_tool_has_is_an_error(self, kit, names):
        with pytest.raises(BindError, match=r"'api_ky'.*Did you mean 'api_key'"):
            kit.add_mcp(ChangingServer(**TAKES_KEY).fastmcp, may_receive=names)
        assert (len(kit), kit.servers) == (0, {})

    @pytest.mark.parametrize("names", [5, {"api_key": "key"}, [5], [""]])
    def test_names_that_are_no_names_are_errors(self, kit, names):
        with pytest.raises(ToolkitError, match=r"may_receive must be names"):
            kit.add_mcp(ChangingServer(**TAKES_KEY).fastmcp, may_receive=names)


def test_the_warning_about_a_waiting_tool_is_logged_once(kit, caplog):
    server = ChangingServer(find="query!")
    kit.bind("user").add_mcp(server.fastmcp)
    server.put("delete", "user")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            kit.refresh_mcp()
            assert kit.exec("delete").error.code == "changed"
    assert caplog.text.count("is not called until it is accepted") == 1


def test_check_names_a_required_secret_that_a_server_may_not_receive(kit, caplog):
    server = ChangingServer(weather="city! api_key!", map="city! api_key", own="api_key!")
    kit.add_mcp(server.fastmcp).bind("api_key", secret=True)
    kit["own"].bind("api_key", secret=True)
    (finding,) = [found for found in kit.check() if found.rule == "unsent-secret"]
    assert (finding.tool, finding.severity) == ("weather", "error")
    assert "may_receive=['api_key']" in finding.fix
    kit.to("openai")
    assert "'api_key' is bound to a secret that its MCP server may not receive" in caplog.text
    assert KEY not in caplog.text + str(finding)
    kit.remove_mcp("remote").add_mcp(server.fastmcp, may_receive=["api_key"])
    assert not [found for found in kit.check() if found.rule == "unsent-secret"]
