"""Groups, registration, schemas and state of the toolkit, with their exact texts."""

import functools
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ahvn_tools.compat.agentscope import StateModule, ToolGroup, Toolkit, ToolResponse
from ahvn_tools.compat.agentscope.mcp import StatefulClientBase
from tests.compat.agentscope_calls import (
    add,
    answer_of,
    parameters_of,
    sums_client,
    text,
    texts_of,
)


class Answer(BaseModel):
    total: int


@pytest.fixture
def toolkit() -> Toolkit:
    return Toolkit()


class TestGroups:
    @pytest.mark.parametrize("name", ["web", "basic"])
    def test_a_group_is_defined_once(self, toolkit, name):
        toolkit.create_tool_group("web", "The web.")
        with pytest.raises(ValueError, match=f"^Tool group '{name}' is already registered in the toolkit\\.$"):
            toolkit.create_tool_group(name, "Again.")

    def test_a_switch_of_unknown_groups_is_ignored(self, toolkit):
        toolkit.create_tool_group("web", "The web.")
        toolkit.update_tool_groups(["wbe", "web"], True)
        assert toolkit.groups["web"].active

    def test_a_switch_of_the_basic_group_is_logged(self, toolkit, caplog):
        toolkit.update_tool_groups(["basic"], False)
        assert caplog.messages == ["The 'basic' tool group is always active, skipping it."]

    def test_groups_are_removed_by_one_name_or_by_a_list(self, toolkit):
        for name in ("a", "b", "c"):
            toolkit.create_tool_group(name, "")
        toolkit.remove_tool_groups("a")
        toolkit.remove_tool_groups(["b", "unknown"])
        assert list(toolkit.groups) == ["c"]

    def test_groups_are_not_removed_by_anything_else(self, toolkit):
        expected = r"^The group_names must be a list of strings, but got <class 'tuple'>\.$"
        with pytest.raises(TypeError, match=expected):
            toolkit.remove_tool_groups(("a",))

    def test_an_unknown_group_is_an_error_of_registration(self, toolkit):
        with pytest.raises(ValueError, match=r"^Tool group 'web' not found\.$"):
            toolkit.register_tool_function(add, "web")

    def test_groups_and_tools_are_readable_copies(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.create_tool_group("web", "The web.")
        toolkit.tools.clear()
        toolkit.groups.clear()
        assert (list(toolkit.tools), list(toolkit.groups)) == (["add"], ["web"])
        with pytest.raises(AttributeError):
            toolkit.groups["web"].active = True

    def test_no_active_group_has_notes(self, toolkit):
        assert toolkit.get_activated_notes() == ""


class TestNamesake:
    def test_arguments_have_the_positions_of_1_0_21(self, toolkit):
        toolkit.register_tool_function(
            add, "basic", {"b": 1}, "sum", "Other.", None, False, False, False, None, "raise"
        )
        (schema,) = toolkit.get_json_schemas()
        function = schema["function"]
        assert (function["name"], function["description"]) == ("sum", "Other.")
        with pytest.raises(ValueError, match="func_description"):
            toolkit.register_tool_function(add, "basic", {}, "Add two numbers.")

    def test_skip_keeps_the_first(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.register_tool_function(add, func_description="Other.", namesake_strategy="skip")
        assert toolkit.get_json_schemas()[0]["function"]["description"] == "Add two numbers."

    async def test_override_replaces_it(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.register_tool_function(add, preset_kwargs={"b": 10}, namesake_strategy="override")
        assert list(toolkit.tools) == ["add"]
        assert (await answer_of(toolkit, "add", a=1), toolkit.tools["add"].preset_kwargs) == ("11", {"b": 10})

    async def test_rename_finds_another_name(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.register_tool_function(add, preset_kwargs={"b": 10}, namesake_strategy="rename")
        first, second = toolkit.tools
        assert (first, second.startswith("add_")) == ("add", True)
        assert (await answer_of(toolkit, "add", a=1), await answer_of(toolkit, second, a=1)) == ("3", "11")
        assert toolkit.tools[second].json_schema["function"]["name"] == second

    async def test_a_name_is_free_again_after_removal(self, toolkit):
        for b in (10, 20):
            toolkit.register_tool_function(add, preset_kwargs={"b": b})
            assert await answer_of(toolkit, "add", a=1) == str(1 + b)
            toolkit.remove_tool_function("add")
        for b in (10, 20, 30):
            toolkit.register_tool_function(add, preset_kwargs={"b": b}, namesake_strategy="rename")
        second, third = list(toolkit.tools)[1:]
        toolkit.remove_tool_function(second)
        toolkit.register_tool_function(add, preset_kwargs={"b": 40}, namesake_strategy="rename")
        assert [tool.preset_kwargs["b"] for tool in toolkit.tools.values()] == [10, 30, 40]
        assert (await answer_of(toolkit, third, a=1), await answer_of(toolkit, second, a=1)) == ("31", "41")

    @pytest.mark.parametrize("strategy", ["skip", "override", "rename"])
    def test_a_free_name_is_used_whatever_the_strategy(self, toolkit, strategy):
        toolkit.register_tool_function(add, namesake_strategy=strategy)
        assert list(toolkit.tools) == ["add"]

    def test_another_strategy_is_an_error(self, toolkit):
        with pytest.raises(ValueError, match=r"namesake_strategy is one of .* not 'replace'"):
            toolkit.register_tool_function(add, namesake_strategy="replace")


class TestOriginalName:
    def test_it_is_the_name_of_the_function_of_a_tool_with_another_one(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.register_tool_function(add, func_name="sum")
        toolkit.register_tool_function(functools.partial(add, b=1), func_name="increase")
        toolkit.register_tool_function(add, func_name="sum", namesake_strategy="rename")
        toolkit.register_tool_function(add, namesake_strategy="rename")
        assert [tool.original_name for tool in toolkit.tools.values()] == [None, *["add"] * 4]

    def test_an_object_without_a_name(self, toolkit):
        class Add:
            def __call__(self, a: int) -> ToolResponse:
                return text(a)

        toolkit.register_tool_function(Add(), func_name="sum")
        assert toolkit.tools["sum"].original_name is None

    async def test_a_tool_of_an_mcp_client(self, toolkit, client):
        await toolkit.register_mcp_client(client, enable_funcs=["plus"])
        await toolkit.register_mcp_client(client, enable_funcs=["plus"], namesake_strategy="rename")
        assert [tool.original_name for tool in toolkit.tools.values()] == [None, "plus"]


class TestRemoval:
    def test_a_tool_is_removed(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.remove_tool_function("add")
        toolkit.remove_tool_function("add")
        assert toolkit.get_json_schemas() == []
        with pytest.raises(ValueError, match=r"^Tool function 'add' does not exist in the toolkit\.$"):
            toolkit.remove_tool_function("add", allow_not_exist=False)

    async def test_clear_removes_tools_and_groups_and_keeps_middleware(self, toolkit):
        toolkit.create_tool_group("web", "The web.")
        toolkit.register_tool_function(add)
        toolkit.register_tool_function(add, "web", func_name="w")
        seen = []

        async def watch(kwargs: dict, next_handler: Any) -> AsyncGenerator[ToolResponse, None]:
            seen.append(kwargs)
            async for response in await next_handler(**kwargs):
                yield response

        toolkit.register_middleware(watch)
        toolkit.clear()
        assert (toolkit.tools, toolkit.groups) == ({}, {})
        toolkit.register_tool_function(add)
        assert await answer_of(toolkit, "add", a=1) == "3"
        assert len(seen) == 1


@pytest.fixture
async def client() -> AsyncIterator[StatefulClientBase]:
    async with sums_client() as client:
        yield client


class TestSchemas:
    def test_what_is_empty_is_left_out(self, toolkit):
        def ping() -> ToolResponse:
            return text("pong")

        toolkit.register_tool_function(ping)
        function = {"name": "ping", "parameters": {"type": "object", "properties": {}}}
        assert toolkit.get_json_schemas() == [{"type": "function", "function": function}]

    def test_titles_of_an_explicit_schema_are_removed_at_any_depth_and_properties_stay(self, toolkit):
        part = {"type": "string", "title": "Part"}
        schema = {
            "title": "All",
            "type": "object",
            "properties": {
                "title": {**part, "default": "title"},
                "any": {"anyOf": [part, {"type": "null", "title": "None"}]},
                "all": {"allOf": [{"title": "Both"}], "title": "All"},
                "tuple": {"type": "array", "prefixItems": [part], "title": "Tuple"},
                "ref": {"$ref": "#/$defs/title"},
                "data": {"type": "object", "default": {"title": "kept"}, "additionalProperties": part},
            },
            "required": ["title"],
            "additionalProperties": False,
            "$defs": {"title": {"type": "object", "properties": {"title": part}, "title": "In"}},
        }
        toolkit.register_tool_function(
            lambda **arguments: text(arguments),
            json_schema={"type": "function", "function": {"name": "t", "parameters": schema}},
        )
        assert parameters_of(toolkit, "t") == {
            "type": "object",
            "properties": {
                "title": {"type": "string", "default": "title"},
                "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "all": {"allOf": [{}]},
                "tuple": {"type": "array", "prefixItems": [{"type": "string"}]},
                "ref": {"$ref": "#/$defs/title"},
                "data": {
                    "type": "object", "default": {"title": "kept"}, "additionalProperties": {"type": "string"},
                },
            },
            "required": ["title"],
            "additionalProperties": False,
            "$defs": {"title": {"type": "object", "properties": {"title": {"type": "string"}}}},
        }  # fmt: skip

    async def test_schemas_of_mcp_tools_have_no_titles(self, toolkit, client):
        await toolkit.register_mcp_client(client)
        assert "title" not in repr(parameters_of(toolkit, "plus"))

    def test_a_schema_that_is_changed_by_a_reader_stays_as_it_is(self, toolkit):
        toolkit.register_tool_function(add)
        toolkit.get_json_schemas()[0]["function"]["parameters"]["properties"].clear()
        assert list(parameters_of(toolkit, "add")["properties"]) == ["a", "b"]

    def test_schemas_that_did_not_change_are_not_made_again(self, toolkit):
        for number in range(20):
            toolkit.register_tool_function(add, func_name=f"add_{number}")
        first, called = toolkit.get_json_schemas(), []
        sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
        try:
            again = toolkit.get_json_schemas()
        finally:
            sys.setprofile(None)
        assert again == first
        assert len(called) < 20 * 12, called

    async def test_each_change_is_in_the_schemas(self, toolkit):
        def names() -> list[str]:
            functions = [schema["function"] for schema in toolkit.get_json_schemas()]
            return [f"{each['name']}({', '.join(each['parameters']['properties'])})" for each in functions]

        def subtract(a: int) -> ToolResponse:
            return text(-a)

        toolkit.register_tool_function(add)
        toolkit.create_tool_group("web", "The web.")
        toolkit.register_tool_function(add, "web", func_name="fetch", preset_kwargs={"b": 1})
        assert names() == ["add(a, b)"]
        toolkit.update_tool_groups("web", True)
        assert names() == ["add(a, b)", "fetch(a)"]
        assert [each["function"]["name"] for each in toolkit.get_json_schemas(["web"])] == ["fetch"]
        toolkit.set_extended_model("add", Answer)
        assert names() == ["add(a, b, total)", "fetch(a)"]
        toolkit.set_extended_model("add", None)
        toolkit.register_tool_function(subtract, func_name="add", namesake_strategy="override")
        assert names() == ["add(a)", "fetch(a)"]
        toolkit.register_tool_function(toolkit.reset_equipped_tools)
        assert names()[2] == "reset_equipped_tools(web)"
        await toolkit.reset_equipped_tools()
        assert names() == ["add(a)", "reset_equipped_tools(web)"]
        toolkit.clear()
        assert names() == []


class TestResetEquippedTools:
    @pytest.fixture
    def toolkit(self) -> Toolkit:
        toolkit = Toolkit()
        toolkit.create_tool_group("web", "The web.", notes="Cite.")
        toolkit.create_tool_group("disk", "The disk.", active=True)
        toolkit.register_tool_function(toolkit.reset_equipped_tools)
        return toolkit

    def test_it_has_a_boolean_for_each_group_that_exists_when_it_is_listed(self, toolkit):
        toolkit.create_tool_group("late night", "Later.")
        assert parameters_of(toolkit, "reset_equipped_tools")["properties"] == {
            "web": {"type": "boolean", "description": "The web.", "default": False},
            "disk": {"type": "boolean", "description": "The disk.", "default": False},
            "late night": {"type": "boolean", "description": "Later.", "default": False},
        }

    async def test_it_sets_all_groups_and_answers_with_the_notes(self, toolkit):
        assert await answer_of(toolkit, "reset_equipped_tools", web=True) == (
            "Now tool groups 'web' are activated. You MUST follow these notes to use these tools:\n"
            "<notes>## About Tool Group 'web'\nCite.</notes>"
        )
        assert {name: group.active for name, group in toolkit.groups.items()} == {"web": True, "disk": False}

    async def test_its_text_says_that_a_call_sets_all_groups_and_which_are_active(self, toolkit):
        def description() -> str:
            return toolkit.get_json_schemas()[0]["function"]["description"]

        assert "Each call sets the state of all groups" in description()
        assert description().endswith("Active groups: disk.")
        await toolkit.reset_equipped_tools(web=True)
        assert description().endswith("Active groups: web.")
        await toolkit.reset_equipped_tools()
        assert description().endswith("If none is named, none is active.")

    async def test_groups_without_notes(self, toolkit):
        assert await answer_of(toolkit, "reset_equipped_tools", disk=True) == "Now tool groups 'disk' are activated."

    async def test_no_group(self, toolkit):
        expected = "All tool groups are now deactivated currently."
        assert await answer_of(toolkit, "reset_equipped_tools") == expected
        assert not toolkit.groups["disk"].active

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({"web": "yes"}, "the argument web should be a bool value, but got <class 'str'>."),
            ({"web": True, "disk": 1}, "the argument disk should be a bool value, but got <class 'int'>."),
            ({"web": True, "wbe": True}, "there is no tool group 'wbe'."),
            ({"basic": False}, "there is no tool group 'basic'."),
        ],
        ids=["text", "number", "unknown", "basic"],
    )
    async def test_invalid_arguments_change_nothing(self, toolkit, arguments, problem):
        before = toolkit.groups
        assert await answer_of(toolkit, "reset_equipped_tools", **arguments) == f"Invalid arguments: {problem}"
        assert toolkit.groups == before

    @given(before=st.sets(st.sampled_from("abc")), chosen=st.dictionaries(st.sampled_from("abc"), st.booleans()))
    async def test_afterwards_exactly_the_chosen_groups_are_active(self, before, chosen):
        toolkit = Toolkit()
        for name in "abc":
            toolkit.create_tool_group(name, "", active=name in before)
        await toolkit.reset_equipped_tools(**chosen)
        active = {name for name, group in toolkit.groups.items() if group.active}
        assert active == {name for name, is_chosen in chosen.items() if is_chosen}

    async def test_the_host_may_call_it(self, toolkit):
        response = await toolkit.reset_equipped_tools(disk=True)
        assert texts_of(response) == ["Now tool groups 'disk' are activated."]

    async def test_a_group_may_have_the_name_of_a_parameter(self, toolkit):
        toolkit.create_tool_group("self", "Myself.")
        assert await answer_of(toolkit, "reset_equipped_tools", self=True) == "Now tool groups 'self' are activated."

    def test_it_may_have_another_name_and_description(self, toolkit):
        toolkit.register_tool_function(toolkit.reset_equipped_tools, func_name="equip", func_description="Equip.")
        function = toolkit.tools["equip"].json_schema["function"]
        assert function["description"] == "Equip.\n\nActive groups: disk."
        assert list(function["parameters"]["properties"]) == ["web", "disk"]


class TestState:
    def test_only_the_listed_groups_are_active_afterwards(self, toolkit):
        toolkit.create_tool_group("web", "The web.", active=True)
        toolkit.create_tool_group("disk", "The disk.")
        toolkit.load_state_dict({"active_groups": ["disk", "unknown"]})
        assert {name: group.active for name, group in toolkit.groups.items()} == {"web": False, "disk": True}

    @pytest.mark.parametrize(
        "state",
        [{}, {"active_groups": "web"}, {"groups": []}, 3, None],
        ids=["empty", "text", "none", "number", "null"],
    )
    def test_another_shape_is_an_error(self, toolkit, state):
        expected = (
            "The state_dict for toolkit must be a dictionary with active_groups key and its value must be a list, "
            f"but got {type(state)}."
        )
        with pytest.raises(ValueError, match=f"^{expected}$"):
            toolkit.load_state_dict(state)

    def test_other_keys_are_an_error_unless_not_strict(self, toolkit):
        toolkit.create_tool_group("web", "The web.")
        state = {"active_groups": ["web"], "more": 1}
        with pytest.raises(ValueError, match=r"^Get additional keys in the state_dict: \['more'\]"):
            toolkit.load_state_dict(state)
        assert not toolkit.groups["web"].active
        toolkit.load_state_dict(state, strict=False)
        assert toolkit.groups["web"].active

    def test_the_description_in_the_code_counts(self, toolkit):
        state = {"active_groups": [], "groups": [{"name": "web", "active": False, "description": "Old."}]}
        toolkit.create_tool_group("web", "New.")
        toolkit.load_state_dict(state)
        assert toolkit.groups == {"web": ToolGroup("web", False, "New.")}

    def test_presets_and_their_names_are_not_in_the_state(self, toolkit):
        toolkit.register_tool_function(add, preset_kwargs={"b": 4711})
        assert "4711" not in repr(toolkit.state_dict())

    def test_an_attribute_is_saved_with_its_converters(self):
        class Memory(StateModule):
            def __init__(self, notes: set[str]) -> None:
                super().__init__()
                self.notes = notes
                self.register_state("notes", custom_to_json=sorted, custom_from_json=set)

        memory = Memory({"b", "a"})
        assert memory.state_dict() == {"notes": ["a", "b"]}
        other = Memory(set())
        other.load_state_dict(memory.state_dict())
        assert other.notes == {"a", "b"}

    def test_a_missing_attribute_is_an_error_unless_not_strict(self):
        class Outer(StateModule):
            def __init__(self) -> None:
                super().__init__()
                self.inner = StateModule()
                self.count = 0
                self.register_state("count")

        outer = Outer()
        with pytest.raises(KeyError, match="inner"):
            outer.load_state_dict({"count": 3})
        assert outer.count == 0
        outer.load_state_dict({"count": 3}, strict=False)
        assert outer.count == 3

    @given(active=st.sets(st.sampled_from(["a", "b", "c", "d"])), known=st.sets(st.sampled_from(["a", "b", "c", "d"])))
    def test_a_state_that_is_loaded_is_the_state(self, active, known):
        first, second = Toolkit(), Toolkit()
        for name in sorted(active):
            first.create_tool_group(name, f"Group {name}.", active=True)
        for name in sorted(known):
            second.create_tool_group(name, f"Group {name}.", active=True)
        second.load_state_dict(first.state_dict())
        assert {name for name, group in second.groups.items() if group.active} == active
