"""Toolkit as a collection: what can be added, under which names, and how it is listed."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from fastmcp.tools import Tool
from mcp_types import Tool as WireTool
from pydantic import BaseModel

from ahvn_tools import ToolContext, Toolkit, ToolRegistry, ToolResult, ToolSpec, reg_toolspec, tool
from ahvn_tools.errors import (
    BindError,
    DefinitionError,
    PickleError,
    StateKeyError,
    ToolkitError,
    ToolLookupError,
    ToolTimeoutError,
)
from tests.toolkit.subjects import Notes, add, asearch, count, fail, noting, search


def names(kit: Toolkit) -> list[str]:
    return [spec.name for spec in kit]


# what can be added


def test_a_spec_is_not_copied_so_later_bindings_of_it_apply():
    spec = ToolSpec.from_function(search)
    kit = Toolkit("k").add(spec)
    assert kit.call("search", {"query": "tea", "user": "ann"}) == "ann:tea:3"
    spec.bind("user", default="bob")
    assert kit.call("search", {"query": "tea"}) == "bob:tea:3"
    assert kit.exec("search", {"query": "tea", "user": "ann"}).error.code == "invalid_parameters"
    spec.unbind("user")
    assert kit.call("search", {"query": "tea", "user": "ann"}) == "ann:tea:3"


def test_all_tools_of_a_registry_are_added():
    notes = Notes()
    kit = Toolkit("k").add(notes)
    assert names(kit) == ["put", "get"]
    kit.call("put", {"text": "milk"})
    assert (kit.call("get"), notes.texts) == ("milk", ["milk"])


def test_a_fastmcp_tool_is_added():
    kit = Toolkit("k").add(Tool.from_function(add), rename="plus")
    assert kit.call("plus", {"a": 2, "b": 3}) == 5


def test_an_mcp_tool_description_is_added_and_exported():
    wire = WireTool(name="far", description="Far away.", input_schema={"type": "object", "properties": {}})
    kit = Toolkit("k").add(wire)
    assert kit.to("openai")[0]["function"]["name"] == "far"
    assert kit.exec("far").error.code == "connection"


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (3, "A int is no tool. Add a ToolSpec, a function, an instance of a ToolRegistry"),
        (None, "A NoneType is no tool"),
        ("search", "A str is no tool"),
        ([add], r"A list is no tool.*; add several with add\(first, second\)"),
        (Notes, r"'Notes' is a class of tools; add an instance, such as Notes\(\)"),
        (dict, "'dict' is a class"),
    ],
)
def test_an_object_that_is_no_tool_is_refused(thing, message):
    kit = Toolkit("k")
    with pytest.raises(DefinitionError, match=message):
        kit.add(thing)
    assert len(kit) == 0


def test_the_decorated_function_stays_a_function():
    kit = Toolkit("k")

    @kit.tool
    def one() -> int:
        return 1

    @kit.tool(tags={"even"})
    def two() -> int:
        return 2

    assert (one(), two()) == (1, 2)
    assert (kit.call("one"), kit.call("two")) == (1, 2)
    assert names(kit.select(tags=["even"])) == ["two"]


def test_a_decorated_tool_stays_a_tool():
    kit = Toolkit("k")

    @kit.tool
    @tool
    def one() -> int:
        return 1

    assert isinstance(one, ToolSpec)
    assert kit.call("one") == 1


# options of a definition


class Db:
    """A type without a JSON form."""


def look(query: str, db: Db, limit: int = 3) -> str:
    """Look.

    Args:
        query: What for.
    """
    return f"{query} in {db} {limit}"


def test_add_and_the_decorator_take_the_options_of_tool():
    schema = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
    options = {
        "name": "find",
        "title": "Find",
        "description": "Find it.",
        "annotations": {"readOnlyHint": True},
        "examples": [{"query": "tea"}],
        "binds": {"db": "db"},
        "output_schema": schema,
        "meta": {"team": "core"},
        "version": "2",
        "icons": [{"src": "https://example.com/i.png"}],
        "tags": {"read"},
        "timeout": 5.0,
    }
    expected = tool(**options)(look).definition
    kit = Toolkit("k", state={"db": Db()}).add(look, **options)
    decorated = Toolkit("k")
    decorated.tool(**options)(look)
    for toolkit in (kit, decorated):
        assert toolkit["find"].definition == expected
        assert dict(toolkit["find"].binds) == {"db": "db"}
    assert Toolkit("k").add(Tool.from_function(add), title="Plus")["add"].title == "Plus"


@pytest.mark.parametrize("options", [{"include_long_description": False}, {"parse_docstring": False}])
def test_options_about_the_docstring_apply_to_a_function_and_to_a_spec(options):
    expected = ToolSpec.from_function(search, **options).definition
    assert Toolkit("k").add(search, **options)["search"].definition == expected
    assert Toolkit("k").add(ToolSpec.from_function(search), **options)["search"].definition == expected


def test_options_of_a_definition_change_a_spec_in_this_toolkit_only():
    spec = ToolSpec.from_function(search)
    kit = Toolkit("k").add(spec, name="find", description="Find it.", title="Find", binds={"user": "name"})
    found = kit["find"].definition
    assert (found.name, found.description, found.title) == ("find", "Find it.", "Find")
    assert (spec.name, spec.description, spec.title, dict(spec.binds)) == ("search", "Search the notes.", None, {})
    spec.bind("limit", default=9)
    assert list(kit["find"].params) == ["query"]
    assert kit.session(name="ann").call("find", {"query": "q"}) == "ann:q:9"
    clone = kit["find"].clone()
    assert (clone.definition, type(clone)) == (kit["find"].definition, ToolSpec)
    assert pickle.loads(pickle.dumps(clone)).definition == clone.definition


def test_options_of_a_definition_apply_to_all_tools_of_a_registry_and_of_a_toolkit():
    kit = Toolkit("k").add(Notes(), meta={"team": "core"}).add(Toolkit("inner").add(add), version="2")
    assert [tool.definition.meta for tool in kit.select(tags=["read", "write"])] == [{"team": "core"}] * 2
    assert kit["add"].definition.version == "2"


def test_what_an_inner_toolkit_demands_of_a_tool_stays_when_its_definition_is_changed():
    inner = Toolkit("inner", state={"user": "ann"}).add(search, audience="boss", requires_approval=True).bind("user")
    kit = Toolkit("k").add(inner, description="Find it.", name="find")
    assert [tool.name for tool in kit.select(audience="other")] == []
    assert kit.exec("find", {"query": "q"}).error.code == "approval_required"
    assert list(kit["find"].params) == ["query", "limit"]
    inner.bind("limit")
    assert list(kit["find"].params) == ["query"]


@pytest.mark.parametrize(
    ("things", "options", "error", "message"),
    [
        ((), {}, ToolkitError, "There is nothing to add"),
        ((add, search), {"description": "x"}, ToolkitError, "'description' describes one tool, and there are 2"),
        ((Notes(),), {"examples": [{}]}, ToolkitError, "'examples' describes one tool"),
        ((add, search), {"name": "x"}, ToolkitError, "'x' is one name for 2 tools; pass a mapping"),
        ((Notes(),), {"rename": "note", "on_duplicate": "keep"}, ToolkitError, "'note' is one name for 2 tools"),
        ((Notes(),), {"rename": {"putt": "x"}}, ToolLookupError, r"no tool 'putt' to rename\. Did you mean 'put'\?"),
        ((Notes(),), {"rename": {"put": "x", "get": "x"}}, ToolkitError, r"Notes\.put and from Notes\.get"),
        ((add,), {"rename": 3}, ToolkitError, "is a new name, or a mapping"),
        ((add,), {"rename": [("add", "plus")]}, ToolkitError, "is a new name, or a mapping"),
        ((add,), {"prefix": 3}, ToolkitError, "A prefix is a text"),
        ((add,), {"prefix": None}, ToolkitError, "A prefix is a text"),
        ((add,), {"name": "x", "rename": "y"}, ToolkitError, "`name` and `rename` are both"),
        ((add,), {"desciption": "x"}, ToolkitError, "Unknown option"),
        ((tool(add),), {"binds": {"c": "c"}}, BindError, "'add' has no parameter 'c' to bind. Known: 'a', 'b'"),
        ((tool(add),), {"binds": ["a"]}, ToolkitError, "binds must be a mapping"),
        ((tool(add),), {"examples": [{"c": 1}]}, DefinitionError, "there is no parameter 'c'"),
        ((Tool.from_function(add),), {"parse_docstring": False}, DefinitionError, "for Python functions"),
    ],
)
def test_options_of_a_definition_that_do_not_fit_are_refused_and_nothing_is_added(things, options, error, message):
    kit = Toolkit("k")
    with pytest.raises(error, match=message):
        kit.add(*things, **options)
    assert len(kit) == 0


def test_several_tools_are_added_at_once_with_the_same_options():
    kit = Toolkit("k").add(add, Notes(), tool(search), Toolkit("inner").add(fail), prefix="p_", tags={"all"})
    assert names(kit.select(tags=["all"])) == ["p_add", "p_put", "p_get", "p_search", "p_fail"]
    with pytest.raises(ToolkitError, match="There are two tools"):
        kit.add(count, add, rename={"count": "n", "add": "p_add"})
    assert "n" not in kit


def test_annotations_may_name_what_is_local_where_the_tool_is_added():
    class Note(BaseModel):
        text: str

    def read(note: Note) -> str:
        return note.text

    kit = Toolkit("k").add(read)

    @kit.tool
    def again(note: Note) -> str:
        return note.text

    @kit.tool(tags={"x"})
    def once_more(note: Note) -> str:
        return note.text

    for name in ("read", "again", "once_more"):
        assert kit.call(name, {"note": {"text": "milk"}}) == "milk"


# names


@pytest.mark.parametrize(
    ("thing", "options", "expected"),
    [
        (Notes(), {"prefix": "notes_"}, ["notes_put", "notes_get"]),
        (add, {"rename": "plus", "prefix": "my_"}, ["my_plus"]),
        (Notes(), {"rename": {"put": "write"}}, ["write", "get"]),
        (Toolkit("inner").add(add).add(search), {"prefix": "in_"}, ["in_add", "in_search"]),
        (Toolkit("inner").add(Notes()).add(add).select(tags=["read"]), {}, ["get"]),
    ],
    ids=["prefix", "name", "names", "toolkit", "selection"],
)
def test_tools_are_added_under_new_names(thing, options, expected):
    assert names(Toolkit("k").add(thing, **options)) == expected


def test_the_new_name_is_the_one_that_models_and_errors_see():
    spec = ToolSpec.from_function(add)
    kit = Toolkit("k").add(spec, rename="plus")
    assert kit["plus"].definition.name == "plus"
    assert "plus(" in kit.to_prompt()
    with pytest.raises(ToolTimeoutError, match="'plus'"):
        kit.call("plus", {"a": 1}, timeout=1e-9)
    assert spec.name == "add"


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_name_is_a_string_that_is_not_empty(name):
    for prefix in ("", "with_"):
        with pytest.raises(ToolkitError, match="The name of a tool must be a string"):
            Toolkit("k").add(add, rename={"add": name}, prefix=prefix)
    with pytest.raises(ToolkitError, match="The name of a toolkit must be a string"):
        Toolkit(name)


def test_a_new_name_is_the_name_of_a_function_that_has_none():
    kit = Toolkit("k").add(lambda x: x, rename="same").add(lambda x: x, rename="it", prefix="just_")
    assert ([tool.name for tool in kit], kit.call("same", {"x": 1})) == (["same", "just_it"], 1)


# removing and finding


def test_a_removed_tool_is_gone_and_can_be_added_again():
    kit = Toolkit("k").add(add).add(search)
    kit.remove("add")
    assert (names(kit), "add" in kit, len(kit)) == (["search"], False, 1)
    assert kit.exec("add", {"a": 1}).error.code == "not_found"
    assert names(kit.add(add)) == ["search", "add"]


def test_removing_an_unknown_tool_removes_none():
    kit = Toolkit("k").add(add).add(search)
    with pytest.raises(ToolLookupError, match=r"There is no tool 'serch'\. Did you mean 'search'\?"):
        kit.remove("add", "serch")
    assert names(kit) == ["add", "search"]


def test_membership_is_by_name():
    kit = Toolkit("k").add(add)
    assert "add" in kit
    assert "plus" not in kit
    assert add not in kit
    assert ["add"] not in kit


@pytest.mark.parametrize("name", ["ad", 0, ["add"], None])
def test_an_unknown_name_is_a_lookup_error(name):
    with pytest.raises(ToolLookupError, match="There is no tool"):
        Toolkit("k").add(add)[name]


def test_iteration_is_in_order_of_adding_and_ignores_later_changes():
    kit = Toolkit("k").add(search).add(add)
    seen_names = []
    for spec in kit:
        seen_names.append(spec.name)
        kit.add(asearch, prefix=f"{spec.name}_")
    assert seen_names == ["search", "add"]
    assert names(kit) == ["search", "add", "search_asearch", "add_asearch"]


def test_a_toolkit_without_tools_is_true():
    assert bool(Toolkit("k"))
    assert len(Toolkit("k")) == 0
    assert list(Toolkit("k")) == []


# duplicates


def test_a_duplicate_name_is_refused_with_both_origins_and_the_fixes():
    kit = Toolkit("k").add(Notes())

    def get() -> int:
        return 1

    with pytest.raises(ToolkitError) as refused:
        kit.add(get)
    message = str(refused.value)
    assert "two tools 'get'" in message
    assert "Notes.get" in message
    assert f"{__name__}.{get.__qualname__}" in message
    for way in ("prefix=", "rename=", "on_duplicate=", "keep", "replace", "'rename'"):
        assert way in message


def test_add_adds_all_tools_or_none():
    kit = Toolkit("k").add(add, rename="get")
    with pytest.raises(ToolkitError):
        kit.add(Notes(), group="notes")
    assert names(kit) == ["get"]
    assert "notes" not in kit.groups


@pytest.mark.parametrize("most", [0, -1, 2.5, float("nan"), "3", True, None])
def test_max_concurrency_is_at_least_one(most):
    kit = Toolkit("k")
    for limit in (lambda: Toolkit("k", max_concurrency=most), lambda: setattr(kit, "max_concurrency", most)):
        with pytest.raises(ToolkitError, match="a whole number, at least 1"):
            limit()
    assert kit.max_concurrency == 16


def test_max_concurrency_applies_to_all_sessions_and_can_be_changed():
    kit = Toolkit("k", max_concurrency=3)
    session = kit.session().select()
    kit.max_concurrency = 2
    assert (kit.max_concurrency, session.max_concurrency) == (2, 2)


def test_one_path_is_one_root(tmp_path):
    for roots in (str(tmp_path), tmp_path, [tmp_path]):
        kit = Toolkit("k", roots=roots)

        @kit.tool
        def folders(context: ToolContext) -> list[str]:
            """List the folders."""
            return [str(root) for root in context.roots]

        assert kit.call("folders") == [str(tmp_path.resolve())]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"approver": 3}, "An approver is a function"),
        ({"timeout": "3"}, "timeout must be a number of seconds greater than 0"),
    ],
)
def test_invalid_options_of_a_toolkit_are_refused(options, message):
    with pytest.raises(ToolkitError, match=message):
        Toolkit("k", **options)


# a toolkit in a toolkit


def test_the_states_of_an_inner_toolkit_are_read_after_the_outer_ones():
    inner = Toolkit("inner", state={"user": "inner", "n": 1}).add(ToolSpec.from_function(search)).bind("user")
    inner.bind("limit", "n")
    outer = Toolkit("outer").add(inner)
    assert outer.call("search", {"query": "q"}) == "inner:q:1"
    inner.state["n"] = 2
    assert outer.call("search", {"query": "q"}) == "inner:q:2"
    outer.state = {"user": "outer"}
    assert outer.call("search", {"query": "q"}) == "outer:q:2"
    assert outer.session(user="session").call("search", {"query": "q"}) == "session:q:2"
    assert inner.call("search", {"query": "q"}) == "inner:q:2"


def test_a_session_can_be_added_with_its_state():
    inner = Toolkit("inner").add(search).bind("user")
    outer = Toolkit("outer").add(inner.session(user="ann"), prefix="ann_").add(inner.session(user="bob"), prefix="bob_")
    assert outer.call("ann_search", {"query": "q"}) == "ann:q:3"
    assert outer.call("bob_search", {"query": "q"}) == "bob:q:3"


def test_adding_a_toolkit_copies_its_labels():
    inner = Toolkit("inner").add(add, audience="sub", group="math", tags={"pure"})
    for outer in (Toolkit("outer").add(inner), Toolkit("outer").add(inner["add"])):
        assert outer.groups == {"basic": True, "math": True}
        assert names(outer.select(audience="main")) == []
        assert names(outer.select(audience="sub", groups=["math"], tags=["pure"])) == ["add"]


def test_labels_in_the_options_win_over_those_of_an_inner_toolkit():
    inner = Toolkit("inner").add(add, audience="sub", group="math")
    outer = Toolkit("outer").add(inner, audience="main", group="sums")
    assert names(outer.select(audience="main", groups=["sums"])) == ["add"]
    assert outer.groups == {"basic": True, "sums": True}


def test_adding_a_toolkit_copies_its_groups():
    inner = Toolkit("inner").add_group("math", notes="Be exact.").add(add, group="math").add(search)
    outer = Toolkit("outer").add(inner)
    assert (names(outer.select()), outer.groups) == (["search"], {"basic": True, "math": False})
    outer.activate("math")
    assert (names(outer.select()), outer.notes) == (["add", "search"], "## math\nBe exact.")
    assert names(inner.select()) == ["search"]


def test_a_group_of_the_outer_toolkit_is_not_replaced():
    inner = Toolkit("inner").add_group("math", active=True, notes="Be exact.").add(add, group="math")
    outer = Toolkit("outer").add_group("math").add(inner)
    assert (outer.groups["math"], outer.activate("math").notes) == (False, "")


def test_a_preset_of_an_inner_toolkit_stays_fixed():
    inner = Toolkit("inner").add(search, preset={"user": "ann"})
    outer = Toolkit("outer", state={"user": "bob"}).add(inner).bind("user")
    assert outer.call("search", {"query": "q"}) == "ann:q:3"
    with pytest.raises(BindError):
        Toolkit("outer").add(inner, preset={"user": "bob"})


def test_middleware_of_an_inner_toolkit_wraps_calls_in_the_outer_one():
    log: list[str] = []
    of = {name: [noting(log, lambda call, name=name: name)] for name in ("inner", "tool", "outer", "added")}
    inner = Toolkit("inner", middleware=of["inner"]).add(add, middleware=of["tool"])
    for outer in (Toolkit("outer"), Toolkit("outer", middleware=of["outer"])):
        outer.add(inner, middleware=of["added"])
        assert outer.call("add", {"a": 1}) == 2
    assert log == ["added", "inner", "tool", "outer", "added", "inner", "tool"]


def test_later_middleware_of_an_inner_toolkit_wraps_calls_in_the_outer_one():
    names: list[str] = []

    inner = Toolkit("inner").add(add)
    outer = Toolkit("outer").add(Toolkit("middle").add(inner), prefix="outer_")
    undo = inner.use(noting(names))
    outer.call("outer_add", {"a": 1})
    undo()
    outer.call("outer_add", {"a": 1})
    assert names == ["outer_add"]


def test_a_result_passes_through_the_inner_toolkits_postprocess_first():
    def marking(mark: str) -> Any:
        return lambda call, result: ToolResult(value=f"{mark}({result.value})")

    inner = Toolkit("inner").add(add, postprocess=marking("inner"))
    outer = Toolkit("outer").add(inner, postprocess=marking("outer"))
    assert outer.call("add", {"a": 1}) == "outer(inner(2))"


async def test_a_key_of_an_inner_toolkit_is_held_before_that_of_the_outer_one():
    """Otherwise a call through the outer toolkit and a nested one could wait for each other."""
    inner, outer = Toolkit("inner"), Toolkit("outer")
    started, waits = asyncio.Event(), asyncio.Event()

    @inner.tool(exclusive="path")
    async def write(path: str, is_nested: bool = False) -> str:
        if not is_nested:
            started.set()
            await waits.wait()
            await asyncio.sleep(0.01)
            await outer.acall("write", {"path": path, "is_nested": True})
        return path

    outer.add(inner)
    first = asyncio.create_task(inner.acall("write", {"path": "a"}))
    await started.wait()
    second = asyncio.create_task(outer.acall("write", {"path": "a", "is_nested": True}))
    waits.set()
    assert await asyncio.wait_for(asyncio.gather(first, second), 5) == ["a", "a"]


def test_a_tool_that_needs_an_approval_in_an_inner_toolkit_needs_one_in_the_outer_one():
    inner = Toolkit("inner").add(add, requires_approval=True)
    assert Toolkit("outer").add(inner).exec("add", {"a": 1}).error.code == "approval_required"
    assert Toolkit("outer").add(inner, requires_approval=False).call("add", {"a": 1}) == 2


def test_a_toolkit_may_be_added_to_itself():
    kit = Toolkit("k").add(add)
    kit.add(kit, prefix="again_")
    assert kit.call("again_add", {"a": 1}) == 2


# shown


def test_exports_are_in_the_order_of_the_definitions():
    kit = Toolkit("k").add(search).add(add).bind("user")
    assert [definition.name for definition in kit.definitions()] == ["search", "add"]
    assert [tool["function"]["name"] for tool in kit.to("openai")] == ["search", "add"]
    assert kit.to("anthropic", strict=True)[0]["name"] == "search"
    assert list(kit.to("openai")[0]["function"]["parameters"]["properties"]) == ["query", "limit"]


def test_the_prompt_contains_each_tools_prompt_in_order():
    kit = Toolkit("k").add(search).add(add)
    assert kit.to_prompt() == "\n".join(spec.to_prompt() for spec in kit)
    assert Toolkit("k").to_prompt() == ""


def test_an_unknown_format_is_a_lookup_error():
    with pytest.raises(ToolLookupError, match="'opnai'"):
        Toolkit("k").to("opnai")


def test_the_repr_says_name_session_and_how_many_tools():
    kit = Toolkit("k").add(add)
    assert repr(kit) == "<Toolkit 'k' of 1 tool>"
    assert repr(kit.session(session_id="s1").select(names=[])) == "<Toolkit 'k' session 's1' of 0 tools>"


# the state


def test_the_state_can_be_changed_and_replaced():
    state: dict[str, Any] = {"user": "ann"}
    kit = Toolkit("k", state=state).add(search).bind("user")
    assert kit.state is state
    state["user"] = "bob"
    assert kit.call("search", {"query": "q"}) == "bob:q:3"
    kit.state = {"user": "cy"}
    assert kit.call("search", {"query": "q"}) == "cy:q:3"


@pytest.mark.parametrize("state", ["user", [("user", "ann")], 3])
def test_a_state_must_be_a_mapping(state):
    kit = Toolkit("k")
    with pytest.raises(TypeError, match="state must be a mapping"):
        kit.state = state
    with pytest.raises(TypeError, match="state must be a mapping"):
        Toolkit("k", state=state)
    with pytest.raises(TypeError, match="state must be a mapping"):
        kit.session(state)


class ReadOnly(Mapping[str, Any]):
    """A mapping of the host that can only be read."""

    def __init__(self, **values: Any) -> None:
        self.values_by_name = values

    def __getitem__(self, name: str) -> Any:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


@pytest.mark.parametrize("kind", [ReadOnly, lambda **values: MappingProxyType(values)])
async def test_a_state_that_is_only_read_may_be_read_only(kind):
    state = kind(user="ann")
    kit = Toolkit("k", state=state).add(search).bind("user")
    session = kit.session(kind(user="bob"))
    assert kit.state is state
    assert kit.call("search", {"query": "q"}) == await kit.acall("search", {"query": "q"}) == "ann:q:3"
    assert session.call("search", {"query": "q"}) == await session.acall("search", {"query": "q"}) == "bob:q:3"
    assert [result.value for result in session.stream("search", {"query": "q"})] == ["bob:q:3"]
    assert session.state_dict()["state"] == {"user": "bob"}
    assert session.load_state_dict(kit.session().state_dict()) is session
    kit.state = kind(user="cy")
    assert kit.call("search", {"query": "q"}) == "cy:q:3"


@pytest.mark.parametrize("kind", [ReadOnly, lambda **values: MappingProxyType(values)])
def test_a_write_to_a_read_only_state_says_what_to_pass_and_changes_nothing(kind):
    kit = Toolkit("k", state=kind(user="ann")).add(search).bind("user").add_group("math")
    session = kit.session(kind())
    with pytest.raises(ToolkitError, match=r"which cannot be changed: pass dict\(state\) as the state"):
        kit.session(kind(), user="bob")
    with pytest.raises(ToolkitError, match=r"which cannot be changed: pass dict\(state\) as the state"):
        session.load_state_dict(kit.session(user="bob").activate("math").state_dict())
    assert not session.groups["math"]
    with pytest.raises(
        StateKeyError, match=r"needs a dict or another mutable mapping\. Set the value in the state first"
    ):
        kit.bind("limit", default=5)
    assert session.call("search", {"query": "q", "limit": 2}) == "ann:q:2"


# travelling


@pytest.mark.parametrize("travel", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("derive", [lambda kit: kit, lambda kit: kit.session(), lambda kit: kit.select()])
def test_a_toolkit_is_not_copied_and_the_error_says_what_to_do(travel, derive):
    with pytest.raises(PickleError, match=r"toolkit 'k' .*add\(toolkit\)"):
        travel(derive(Toolkit("k").add(add)))


def test_a_preset_for_several_tools_is_for_those_that_have_the_parameter():
    class Notes(ToolRegistry):
        @reg_toolspec
        def find(self, user: str, query: str) -> str:
            return f"{user}: {query}"

        @reg_toolspec
        def count(self, folder: str) -> str:
            return folder

    kit = Toolkit("k").add(Notes(), preset={"user": "ann"})
    assert (list(kit["find"].params), list(kit["count"].params)) == (["query"], ["folder"])
    with pytest.raises(BindError, match="None of these tools has a parameter 'usr'"):
        Toolkit("k").add(Notes(), preset={"usr": "ann"})


def test_tags_lists_the_tags_here_each_with_its_tools() -> None:
    kit = Toolkit("k").add_group("off")
    kit.add(lambda: 1, name="b", tags={"y", "x"}).add(lambda: 1, name="a", tags={"x"}).add(lambda: 1, name="none")
    kit.add(lambda: 1, name="inactive", tags={"x"}, group="off")
    assert kit.tags == {"x": ["b", "a", "inactive"], "y": ["b"]}
    assert list(kit.tags) == ["x", "y"]
    assert kit.session().tags == {"x": ["b", "a"], "y": ["b"]}
    assert kit.tag("none", "z").select(names=["none"]).tags == {"z": ["none"]}
    kit.tags["x"].clear()
    assert kit.tags["x"] == ["b", "a", "inactive"]
