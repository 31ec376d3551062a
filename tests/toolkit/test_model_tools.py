"""Tools for a model: it finds and calls the tools of its session, and switches groups for it."""

from __future__ import annotations

import json
import pickle

import pytest
from fastmcp import Client
from mcp_types import TextContent

from ahvn_tools import ToolCall, ToolContext, Toolkit, ToolResult, tool
from ahvn_tools.errors import PickleError, ToolError, ToolkitError, ToolLookupError, ToolNotAvailableError
from ahvn_tools.toolkit import model_tools
from ahvn_tools.toolkit.calls import CallOptions, aexecute
from tests.toolkit.subjects import add, asearch, count, noting, search


def kit() -> Toolkit:
    toolkit = Toolkit("k").add(search).add(asearch).add(add, group="math").add(count, audience="host")
    return toolkit.bind("user")


def listed(toolkit: Toolkit) -> list[str]:
    return [definition.name for definition in toolkit.definitions()]


def grouped_kit() -> Toolkit:
    toolkit = Toolkit("k").add_group("web", "Look around.", notes="Be kind to servers.")
    toolkit.add_group("math", "Count.", active=True).add(search, group="web").add(add, group="math")
    return toolkit.add(toolkit.groups_tool())


class TestSearchTools:
    def test_the_core_and_the_search_tools_are_listed_and_all_tools_stay_in_the_toolkit(self):
        toolkit = kit().add_search(["add"])
        assert listed(toolkit) == listed(toolkit.session()) == ["add", "search_tools", "call_tool"]
        assert [entry["function"]["name"] for entry in toolkit.to("openai")] == ["add", "search_tools", "call_tool"]
        assert len(toolkit) == 6
        assert "search" in toolkit

    def test_added_tools_do_not_change_the_list(self):
        toolkit = kit().add_search()
        before = toolkit.to("openai")
        toolkit.add(add, rename="plus")
        assert toolkit.to("openai") == before

    def test_only_visible_tools_of_the_core_are_listed(self):
        toolkit = kit().add_search(["add", "count"])
        assert listed(toolkit.select(audience="main")) == ["add", "search_tools", "call_tool"]
        assert listed(toolkit.session(audience="host").deactivate("math")) == ["count", "search_tools", "call_tool"]
        assert listed(toolkit.session().deactivate("math")) == ["search_tools", "call_tool"]
        toolkit.remove("add")
        assert listed(toolkit) == ["count", "search_tools", "call_tool"]

    def test_a_selection_without_the_search_tools_lists_every_visible_tool(self):
        toolkit = kit().add_search(group="searching")
        assert listed(toolkit.select(names=["add", "search"])) == ["search", "add"]
        session = toolkit.session(audience=None).deactivate("searching")
        assert listed(session) == ["search", "asearch", "add", "count"]
        toolkit.remove("call_tool")
        assert listed(toolkit) == ["search", "asearch", "add", "count", "search_tools"]

    def test_a_core_with_an_unknown_tool_adds_nothing(self):
        toolkit = kit()
        with pytest.raises(ToolLookupError, match="ad"):
            toolkit.add_search(["ad"])
        assert len(toolkit) == 4
        assert listed(toolkit) == ["search", "asearch", "add", "count"]

    def test_a_string_is_a_core_of_one_tool(self):
        assert listed(kit().add_search("add"))[0] == "add"

    def test_names_and_texts_of_the_search_tools_can_be_replaced(self):
        toolkit = kit().add_search(
            search_tool={"name": "find", "description": "Find. Then call it with `use`."}, call_tool={"name": "use"}
        )
        assert listed(toolkit) == ["find", "use"]
        assert toolkit["find"].description == "Find. Then call it with `use`."
        (found,) = toolkit.call("find", {"query": "add", "limit": 1})
        assert toolkit.call("use", {"name": found["name"], "arguments": {"a": 1}}) == 2

    def test_the_name_and_the_text_of_the_groups_tool_can_be_replaced(self):
        toolkit = Toolkit("k").add_group("web")
        toolkit.add(toolkit.groups_tool(name="equip", description="Take what you need."))
        toolkit.add_group("math")
        definition = toolkit["equip"].definition
        assert (definition.description, list(definition.input_schema["properties"])) == (
            "Take what you need.", ["web", "math"],
        )  # fmt: skip

    def test_the_groups_tool_says_which_groups_are_active_here(self):
        toolkit = Toolkit("k").add_group("web").add_group("math")
        toolkit.add(toolkit.groups_tool()).add(add, group="math")
        before = toolkit["set_groups"].definition.description
        session, other = toolkit.session(), toolkit.session()
        session.call("set_groups", {"math": True})
        assert session["set_groups"].definition.description == f"{before}\n\nActive groups: math."
        tools = session.to("openai", read_only=True)
        assert session.to("openai", read_only=True) is tools
        assert tools[0]["function"]["description"].endswith("Active groups: math.")
        session.activate("web")
        assert session["set_groups"].definition.description.endswith("Active groups: web, math.")
        assert other["set_groups"].definition.description == toolkit["set_groups"].definition.description == before
        session.call("set_groups", {})
        assert session["set_groups"].definition.description == before

    def test_a_taken_name_adds_nothing(self):
        toolkit = kit().add(add, rename="call_tool")
        with pytest.raises(ToolkitError, match="two tools 'call_tool'"):
            toolkit.add_search()
        assert "search_tools" not in toolkit

    def test_found_tools_have_name_description_and_schema(self):
        toolkit = kit().add_search()
        outcomes = toolkit.call("search_tools", {"query": "numbers"})
        assert outcomes == [
            {"name": "add", "description": "Add two numbers.", "input_schema": toolkit["add"].definition.input_schema}
        ]

    def test_a_bound_parameter_is_not_in_a_found_schema(self):
        outcomes = kit().add_search().call("search_tools", {"query": "notes", "limit": 1})
        assert "user" not in outcomes[0]["input_schema"]["properties"]

    def test_the_search_tools_are_not_found(self):
        toolkit = kit().add_search()
        assert toolkit.call("search_tools", {"query": "search_tools call_tool find tools"}) != []
        names = [tool["name"] for tool in toolkit.call("search_tools", {"query": "call search tool"})]
        assert not {"search_tools", "call_tool"}.intersection(names)

    def test_only_tools_that_the_caller_sees_are_found(self):
        toolkit = kit().add_search()
        assert toolkit.call("search_tools", {"query": "count"}) != []
        assert toolkit.select(audience="main").call("search_tools", {"query": "count"}) == []
        assert toolkit.session().deactivate("math").call("search_tools", {"query": "numbers"}) == []


class TestCallTool:
    @pytest.mark.parametrize("name", ["search", "asearch"])
    async def test_it_calls_for_the_session_that_calls_it(self, name):
        toolkit = kit().add_search()
        ann, bob = toolkit.session(user="ann"), toolkit.session(user="bob")
        call = {"name": name, "arguments": {"query": "tea"}}
        assert ann.call("call_tool", call).startswith("ann:tea")
        assert (await bob.acall("call_tool", call)).startswith("bob:tea")

    def test_groups_and_audiences_apply(self):
        toolkit = kit().add_search().deactivate("math")
        call = {"name": "add", "arguments": {"a": 1}}
        assert toolkit.exec("call_tool", call).error == toolkit.exec("add", {"a": 1}).error
        assert toolkit.exec("call_tool", call).error.code == "not_available"
        assert toolkit.session().activate("math").call("call_tool", call) == 2
        main = toolkit.select(audience="main")
        with pytest.raises(ToolNotAvailableError, match="not available to the audience 'main'"):
            main.call("call_tool", {"name": "count", "arguments": {"until": 1}})
        assert toolkit.exec("call_tool", {"name": "nothing"}).error.code == "not_found"

    def test_arguments_are_validated_as_in_any_call(self):
        toolkit = kit().add_search()
        refused = toolkit.exec("call_tool", {"name": "add", "arguments": {"a": 1, "c": 2}})
        assert refused.error == toolkit.exec("add", {"a": 1, "c": 2}).error
        bound = toolkit.exec("call_tool", {"name": "search", "arguments": {"query": "tea", "user": "eve"}})
        assert bound.error.code == "invalid_parameters"

    def test_arguments_may_be_left_out_or_come_as_text(self):
        toolkit = Toolkit("k").add(tool(name="now")(lambda: "noon")).add(add).add_search()
        assert toolkit.call("call_tool", {"name": "now"}) == "noon"
        assert toolkit.call("call_tool", {"name": "add", "arguments": '{"a": 3}'}) == 4

    def test_middleware_wraps_the_inner_call(self):
        """Around `call_tool` it would also see secrets of the inner tool, and count each call twice."""
        log = []

        toolkit = kit().add_search()
        toolkit.use(noting(log, lambda call: (call.name, call.session_id)))
        session = toolkit.session(session_id="s")
        session.call("call_tool", {"name": "add", "arguments": {"a": 1}})
        assert log == [("add", "s")]

    @pytest.mark.parametrize("is_shown", [True, False])
    async def test_a_served_call_reveals_no_more_than_a_direct_call_of_the_tool(self, is_shown):
        def leave() -> None:
            raise SystemExit

        def fail() -> None:
            raise ValueError("sk-secret")

        toolkit = Toolkit("k").add(leave).add(fail).add_search()
        terms = CallOptions(is_served=True, masks_errors=not is_shown, id="c1")
        for name in ("leave", "fail"):
            result = await aexecute(toolkit._view, "call_tool", {"name": name}, terms)
            assert result.error == (await aexecute(toolkit._view, name, {}, terms)).error
            assert ("sk-secret" in result.text) == (is_shown and name == "fail")

    def test_progress_of_the_called_tool_is_reported(self):
        def step(context: ToolContext) -> str:
            context.report_progress(1, 2, "half")
            return "done"

        results = list(Toolkit("k").add(step).add_search().stream("call_tool", {"name": "step"}))
        assert [(result.value, result.meta.get("progress")) for result in results] == [
            ("half", {"progress": 1, "total": 2}),
            ("done", None),
        ]

    def test_it_does_not_call_itself(self):
        toolkit = kit().add_search()
        itself = {"name": "call_tool", "arguments": {"name": "add", "arguments": {"a": 1}}}
        with pytest.raises(ToolError, match="does not call itself"):
            toolkit.call("call_tool", itself)

    def test_a_result_passes_through_unchanged(self):
        block = TextContent(type="text", text="whole")

        def make(context: ToolContext) -> ToolResult:
            context.end_session()
            return ToolResult({"a": 1}, {"a": 1}, meta={"seen": True}, blocks=(block,))

        result = Toolkit("k").add(make).add_search().exec("call_tool", {"name": "make"})
        assert (result.value, result.structured_content, result.content) == ({"a": 1}, {"a": 1}, [block])
        assert result.meta["seen"] is True
        assert result.meta["ends_session"] is True

    @pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}'])
    async def test_a_call_that_needs_an_approval_continues_under_the_models_id(self, arguments):
        toolkit = Toolkit("k").add(add, requires_approval=True).add_search()
        session = toolkit.session()
        function = {"name": "call_tool", "arguments": json.dumps({"name": "add", "arguments": arguments})}
        answer = {"tool_calls": [{"id": "c1", "function": function}]}
        run, *others = [session.run(answer, format="openai") for _ in range(5)]
        assert [(request.tool, request.call_id, request.arguments) for request in run.pending] == [
            ("add", "c1", {"a": 1})
        ]
        message = {"role": "tool", "tool_call_id": "c1", "content": "2"}
        assert list(session.resume(run, approved=True)) == [message]
        assert list(await session.aresume(others[0], approved=True)) == [message]
        assert session.resume(others[1], approved=True, arguments={"c1": {"a": 5}})[0]["content"] == "6"
        assert "rejected" in session.resume(others[2], approved=False)[0]["content"]
        assert session.resume(others[3].pending[0], approved=True).results[0][1].value == 2

    def test_a_stream_yields_only_the_whole_result(self):
        toolkit = kit().add_search()
        results = list(toolkit.stream("call_tool", {"name": "count", "arguments": {"until": 2}}))
        assert [(result.value, result.is_last) for result in results] == [(["guest0", "guest1"], True)]

    @pytest.mark.parametrize("function", model_tools.SEARCH_TOOLS)
    def test_outside_a_toolkit_it_says_that_it_needs_one(self, function):
        with pytest.raises(ToolError, match="works in a toolkit only"):
            tool(function).call("anything")


class TestGroupsTool:
    def test_it_has_one_boolean_for_each_group_but_basic(self):
        assert grouped_kit()["set_groups"].input_schema == {
            "type": "object",
            "properties": {
                "web": {"type": "boolean", "default": False, "description": "Look around."},
                "math": {"type": "boolean", "default": False, "description": "Count."},
            },
            "additionalProperties": False,
        }

    def test_its_parameters_follow_the_groups(self):
        toolkit = grouped_kit()
        before = toolkit["set_groups"].definition
        toolkit.add_group("e-mail & more").remove_group("math")
        assert list(toolkit["set_groups"].input_schema["properties"]) == ["web", "e-mail & more"]
        assert toolkit["set_groups"].definition.fingerprint != before.fingerprint
        toolkit.call("set_groups", {"e-mail & more": True})
        assert toolkit.groups == {"basic": True, "web": False, "e-mail & more": True}
        assert toolkit.exec("set_groups", {"math": True}).error.code == "invalid_parameters"

    def test_it_sets_the_whole_state_of_the_session_that_calls_it(self):
        toolkit = grouped_kit()
        session, other = toolkit.session(), toolkit.session()
        assert session.call("set_groups", {"web": True}) == "Active groups: web.\n\n## web\nBe kind to servers."
        assert session.groups == {"basic": True, "web": True, "math": False}
        assert other.groups == toolkit.groups == {"basic": True, "web": False, "math": True}
        assert session.call("set_groups") == "No group is active."
        assert session.groups == {"basic": True, "web": False, "math": False}

    @pytest.mark.parametrize("arguments", [{"web": "maybe"}, {"web": True, "wob": True}, {"web": 1}, {"basic": False}])
    def test_wrong_arguments_change_nothing(self, arguments):
        session = grouped_kit().session()
        assert session.exec("set_groups", arguments).error.code == "invalid_parameters"
        assert session.groups == {"basic": True, "web": False, "math": True}

    @pytest.mark.parametrize("name", ["context", "group_", "self", "name", "数学", "a b", "user"])
    def test_a_group_may_have_any_name(self, name):
        toolkit = Toolkit("k", state={"user": True}).add_group(name).bind("user")
        toolkit.add(toolkit.groups_tool())
        session = toolkit.session()
        session.call("set_groups", {name: True})
        assert session.groups == {"basic": True, name: True}

    def test_it_takes_a_name_a_group_and_an_audience_like_any_tool(self):
        toolkit = Toolkit("k").add_group("web")
        toolkit.add(toolkit.groups_tool(), rename="reset_equipped_tools", audience="main")
        assert toolkit.select(audience="main").call("reset_equipped_tools", {"web": True}) == "Active groups: web."
        assert "reset_equipped_tools" not in toolkit.select(audience="sub")

    def test_when_it_is_exclusive_later_calls_of_the_answer_see_the_switched_groups(self):
        toolkit = Toolkit("k").add_group("math").add(add, group="math")
        toolkit.add(toolkit.groups_tool(), exclusive=True)
        calls = [("add", {"a": 1}), ("set_groups", {"math": True}), ("add", {"a": 1})]
        run = toolkit.session().run([ToolCall(id=name, name=name, arguments=passed) for name, passed in calls])
        assert [result.is_error for _, result in run.results] == [True, False, False]

    def test_it_is_not_pickled_and_needs_a_toolkit(self):
        spec = grouped_kit().groups_tool()
        with pytest.raises(PickleError, match="toolkit"):
            pickle.dumps(spec)
        with pytest.raises(ToolError, match="works in a toolkit only"):
            spec.call(web=True)

    def test_it_works_from_another_toolkit_that_it_was_added_to(self):
        outer = Toolkit("outer").add(grouped_kit())
        outer.call("set_groups", {"web": True})
        assert outer.groups == {"basic": True, "web": True, "math": False}


def pay(amount: int) -> int:
    """Pay."""
    return amount


class TestGroupsOfAnotherAudience:
    """A group whose tools are all for another audience does not exist for a view."""

    @staticmethod
    def kit() -> Toolkit:
        toolkit = grouped_kit().add_group("money", "Wire transfers.", notes="Ask Canary first.", active=True)
        toolkit.add_group("later", "It has no tool yet.").add(pay, group="money", audience="main")
        return toolkit.add_search(["set_groups"])

    @pytest.mark.parametrize(
        "selection",
        [{"audience": "sub"}, {"names": ["set_groups", "search", "add"]}, {"where": lambda tool: tool.name != "pay"}],
    )
    def test_nothing_shows_it(self, selection):
        toolkit = self.kit()
        selected = toolkit.select(**selection)
        for view in (selected, selected.session(), toolkit.session().select(**selection), toolkit.session()):
            assert list(view.groups) == ["basic", "web", "math", "later"]
            assert list(view["set_groups"].params) == ["web", "math", "later"]
            assert "Canary" not in view.notes
            texts = view.call("set_groups"), view.exec("set_groups", {"x": True}).text
            shown = [view.to("openai"), view.to("prompt"), view.definitions(), view.search("wire transfers"), texts]
            assert not any(word in repr(shown) for word in ("money", "Wire", "Canary"))

    def test_those_who_have_a_tool_of_it_and_the_host_see_it(self):
        toolkit = self.kit()
        for view in (toolkit, toolkit.session(audience=None), toolkit.session(audience="main")):
            assert list(view["set_groups"].params) == ["web", "math", "money", "later"]
            assert view.group("money").notes == "Ask Canary first."
        toolkit.add(count, group="money")
        assert toolkit.select(audience="sub").groups["money"]

    def test_to_switch_it_is_refused_in_the_words_for_an_unknown_group(self):
        toolkit = self.kit()
        sub = toolkit.session().select(audience="sub")

        def texts(name: str) -> list[str]:
            found, both = [sub.exec("set_groups", {name: True}).text], {"web": True, name: False}
            for switch in (lambda: sub.activate(name), lambda: sub.set_groups(both), lambda: sub.group(name)):
                with pytest.raises(ToolLookupError) as caught:
                    switch()
                found.append(str(caught.value))
            return found

        assert texts("money") == [text.replace("xyzzy", "money") for text in texts("xyzzy")]
        assert sub.groups == {"basic": True, "web": False, "math": True, "later": False}

    def test_a_call_leaves_it_as_it_is(self):
        session = self.kit().session(audience=None)
        session.select(audience="sub").call("set_groups", {"web": True})
        assert session.groups == {"basic": True, "web": True, "math": False, "money": True, "later": False}
        session.select(audience="main").call("set_groups", {"web": True})
        assert not session.groups["money"]

    def test_the_error_of_a_tool_of_it_does_not_name_it(self):
        toolkit = self.kit().deactivate("money")
        assert toolkit.select(audience="sub").exec("pay", {"amount": 1}).text == (
            "The tool 'pay' is not available to the audience 'sub'."
        )

    def test_another_toolkit_that_it_was_added_to_hides_it_too(self):
        outer = Toolkit("outer").add(self.kit())
        assert list(outer.select(audience="sub")["set_groups"].params) == ["web", "math", "later"]
        assert list(outer.select(audience="main")["set_groups"].params) == ["web", "math", "money", "later"]

    async def test_a_client_of_another_audience_does_not_see_it(self):
        toolkit = self.kit()
        server = toolkit.to_fastmcp_server(
            audience=lambda request: request.meta.get("role") or "sub", session=lambda _: "s-1"
        )
        assert "Canary" not in (server.instructions or "")
        assert "Canary" in (toolkit.to_fastmcp_server(audience="main").instructions or "")
        async with Client(server) as client:
            [listed] = [found for found in await client.list_tools() if found.name == "set_groups"]
            assert list(listed.input_schema["properties"]) == ["web", "math", "later"]
            with pytest.raises(Exception, match=r"unknown argument 'money' \(known: 'web', 'math', 'later'\)"):
                await client.call_tool("set_groups", {"money": True})
            result = await client.call_tool("set_groups", {"money": True}, meta={"role": "main"})
            assert "Ask Canary first." in str(result.content)
