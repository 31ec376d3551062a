"""Selections: live views over the same tools."""

from __future__ import annotations

import pytest

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import ToolkitError, ToolLookupError, ToolNotAvailableError, ToolNotFoundError
from tests.toolkit.subjects import Notes, add, asearch, search


@pytest.fixture
def kit() -> Toolkit:
    return (
        Toolkit("k")
        .add(search, tags={"look"}, audience="main")
        .add(asearch, tags={"look", "slow"}, audience={"main", "sub"})
        .add(add, group="math")
        .add(Notes(), tags={"notes"}, audience="sub")
    )


def names(kit: Toolkit) -> list[str]:
    return [spec.name for spec in kit]


@pytest.mark.parametrize(
    ("selection", "admitted"),
    [
        ({}, ["search", "asearch", "add", "put", "get"]),
        ({"names": ["add", "get", "nothing"]}, ["add", "get"]),
        ({"names": []}, []),
        ({"tags": ["slow", "write"]}, ["asearch", "put"]),
        ({"tags": ["notes"]}, ["put", "get"]),
        ({"groups": ["math"]}, ["add"]),
        ({"groups": ["basic"]}, ["search", "asearch", "put", "get"]),
        ({"audience": "main"}, ["search", "asearch", "add"]),
        ({"audience": "sub"}, ["asearch", "add", "put", "get"]),
        ({"audience": "other"}, ["add"]),
        ({"where": lambda definition: "notes" in definition.description}, ["search", "asearch"]),
        ({"tags": ["look"], "audience": "sub"}, ["asearch"]),
        ({"names": (name for name in ["add", "get"])}, ["add", "get"]),
    ],
)
def test_a_selected_tool_meets_all_conditions(kit, selection, admitted):
    view = kit.select(**selection)
    assert names(view) == admitted
    assert [definition.name for definition in view.definitions()] == admitted
    assert [expected["name"] for expected in view.to("anthropic")] == admitted
    assert [name for name in names(kit) if name in view] == admitted
    assert len(view) == len(admitted)


def test_selections_nest(kit):
    assert names(kit.select(tags=["look"]).select(audience="sub")) == ["asearch"]
    assert names(kit.select(names=["add"]).select(names=["search"])) == []


def test_a_selection_follows_added_and_removed_tools(kit):
    view = kit.select(tags=["look"])
    kit.remove("search").add(search, rename="find", tags={"look"})
    assert names(view) == ["asearch", "find"]


def test_an_unselected_tool_is_not_available_and_an_unknown_one_is_not_found(kit):
    view = kit.select(audience="main")
    assert view.exec("get").error.code == "not_available"
    assert view.exec("get").text == "The tool 'get' is not available to the audience 'main'."
    assert kit.select(names=["add"]).exec("get").text == "The tool 'get' is not available in this selection."
    assert view.exec("gett").error.code == "not_found"
    with pytest.raises(ToolNotAvailableError) as hidden:
        view.call("get")
    with pytest.raises(ToolNotFoundError) as unknown:
        view.call("gett")
    assert (hidden.value.tool, unknown.value.tool) == ("get", "gett")


def test_no_message_names_an_unselected_tool(kit):
    view = kit.select(audience="main")
    assert "'put'" not in view.exec("putt").text
    with pytest.raises(ToolLookupError) as unknown:
        view["putt"]
    assert "'put'" not in str(unknown.value)
    with pytest.raises(ToolLookupError, match="There is no tool 'put' here"):
        view["put"]


def test_where_receives_the_definition_for_the_model():
    kit = Toolkit("k").add(search).bind("user")
    assert names(kit.select(where=lambda definition: "user" in definition.input_schema["properties"])) == []
    kit.unbind("user")
    assert names(kit.select(where=lambda definition: "user" in definition.input_schema["properties"])) == ["search"]


def test_a_selection_shares_the_state_of_its_toolkit_or_session():
    kit = Toolkit("k").add(search).bind("user")
    view = kit.select(names=["search"])
    kit.state["user"] = "ann"
    assert (view.state is kit.state, view.call("search", {"query": "q"})) == (True, "ann:q:3")
    session = kit.session(user="bob").select(names=["search"])
    assert session.call("search", {"query": "q"}) == "bob:q:3"


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"tag": ["add"]}, "Unknown option 'tag'. Did you mean 'tags'"),
        ({"names": "add"}, "put 'add' in one"),
        ({"tags": "read"}, "is a list of names"),
        ({"groups": "math"}, "is a list of names"),
        ({"audience": ["main", "sub"]}, "'audience' of a selection is one name"),
        ({"toolset": ["a"]}, "'toolset' of a selection is one name"),
        ({"names": 3}, "'names' of a selection is a list of names"),
        ({"tags": [None]}, "The tags of a selection are names"),
        ({"where": "add"}, "'where' of a selection is a function"),
        ({"any_of": "reading"}, "'any_of' of a selection is a list; put 'reading' in one"),
        ({"any_of": {"names": ["add"]}}, "'any_of' of a selection is a list; put"),
        ({"any_of": 3}, "'any_of' of a selection is a list"),
        ({"any_of": [["add"]]}, "names of toolsets, and conditions such as .*, not a list"),
        ({"any_of": [{"name": ["add"]}]}, "Unknown option 'name'. Did you mean 'names'"),
        ({"any_of": [{"any_of": []}]}, "Unknown option 'any_of'. Known: 'names', 'tags'"),
        ({"any_of": [{"names": "add"}]}, "put 'add' in one"),
    ],
)
def test_an_invalid_selection_is_refused_by_select(kit, selection, message):
    for ask in (kit.select, lambda **options: kit.add_toolset("new", **options)):
        with pytest.raises(ToolkitError, match=message):
            ask(**selection)


CHANGES = {
    "add": lambda view: view.add(add, rename="plus"),
    "tool": lambda view: view.tool(add),
    "remove": lambda view: view.remove("search"),
    "bind": lambda view: view.bind("user"),
    "unbind": lambda view: view.unbind("user"),
    "group": lambda view: view.add_group("new"),
    "remove_group": lambda view: view.remove_group("math"),
    "toolset": lambda view: view.add_toolset("new"),
    "tag": lambda view: view.tag("search", "new"),
    "untag": lambda view: view.untag("search", "look"),
    "bind a tool": lambda view: view["search"].bind("user"),
    "search": lambda view: view.add_search(),
    "add_mcp": lambda view: view.add_mcp("server"),
    "remove_mcp": lambda view: view.remove_mcp(),
    "max_concurrency": lambda view: setattr(view, "max_concurrency", 1),
    "unbind a tool": lambda view: view["search"].unbind("user"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    ("derive", "kind"),
    [
        (lambda kit: kit.session(audience=None), "session"),
        (lambda kit: kit.select(), "selection"),
        (lambda kit: kit.session(audience=None).session(), "session"),
        (lambda kit: kit.select().session(audience=None), "selection"),
    ],
    ids=["session", "selection", "session of a session", "session of a selection"],
)
def test_a_session_or_selection_cannot_change_the_toolkit_and_says_where_to_do_it(kit, change, derive, kind):
    before = (names(kit), kit.groups, dict(kit["search"].binds))
    with pytest.raises(ToolkitError, match=f"A {kind} cannot change the toolkit: .* on the toolkit itself"):
        change(derive(kit))
    assert (names(kit), kit.groups, dict(kit["search"].binds)) == before


def test_any_of_is_the_union_of_toolsets_and_conditions(kit):
    kit.add_toolset("lookers", tags=["look"]).add_toolset("numbers", groups=["math"])
    agent = {"tools": ["get", "search"], "tool_sets": ["lookers"]}
    view = kit.select(any_of=[{"names": agent["tools"]}, *agent["tool_sets"]])
    expected = [tool.name for tool in kit if tool.name in {"get", "search"} or "look" in tool.tags]
    assert names(view) == expected
    assert len(expected) == len(set(expected)) > 2
    kit.tag("add", "look")
    assert [tool.name for tool in view.select(inactive=True)] == [
        tool.name for tool in kit if tool.name in {*expected, "add"}
    ]


def test_any_of_is_one_condition_among_others(kit):
    alternatives = [{"names": ["search"]}, {"names": ["add"], "tags": ["no such tag"]}]
    view = kit.select(any_of=alternatives, names=["search", "add"])
    assert names(view) == ["search"]
    assert names(view.select(any_of=[{"names": ["add"]}])) == names(kit.select(any_of=[])) == []
    assert view.exec("add", {"a": 1}).error.code == "not_available"


def test_any_of_follows_a_toolset_and_refuses_unknown_ones_and_circles(kit):
    kit.add_toolset("one", names=["search"]).add_toolset("two", any_of=["one", {"names": ["get"]}])
    view = kit.select(toolset="two")
    assert set(names(view)) == {"search", "get"}
    kit.add_toolset("one", names=["put"])
    assert set(names(view)) == {"put", "get"}
    for ask in (kit.select, lambda **options: kit.add_toolset("new", **options)):
        with pytest.raises(ToolLookupError, match="Did you mean 'two'"):
            ask(any_of=["one", "twos"])
    with pytest.raises(ToolkitError, match="'one' cannot be made of itself"):
        kit.add_toolset("one", any_of=[{"names": ["put"]}, "two"])
    assert set(names(view)) == {"put", "get"}


def test_a_spec_is_not_changed_by_its_labels_in_a_toolkit():
    spec = ToolSpec.from_function(search, tags={"own"})
    kit = Toolkit("k").add(spec, tags={"here"}, rename="find", timeout=3)
    assert (kit["find"].tags, kit["find"].timeout) == ({"own", "here"}, 3)
    assert (spec.tags, spec.name, spec.timeout) == ({"own"}, "search", None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"names": ["search", "find", "add"]}, ["search", "find", "add"]),
        ({"names": ("search", "search", "other", "add")}, ["search", "add"]),
        ({"any_of": [{"names": ["add"]}, "listed"]}, ["add", "search", "find"]),
        ({"any_of": [{"names": ["find", "add"]}, "listed"]}, ["find", "add", "search"]),
        ({"any_of": ["listed", {"tags": ["sum", "count"]}]}, ["search", "find", "add"]),
        ({"any_of": [{"tags": ["sum", "count"]}, "listed"]}, ["add", "search", "find"]),
        ({"any_of": ["unlisted", {"names": ["add"]}]}, ["find", "search", "add"]),
        ({"toolset": "unlisted", "names": ["search", "find"]}, ["search", "find"]),
        ({"toolset": "unlisted"}, ["find", "search"]),
        ({"toolset": "listed", "names": ["find", "search"], "ordered": False}, ["search", "find"]),
    ],
)
def test_an_ordered_selection_has_its_tools_in_the_order_of_its_lists(options, expected):
    kit = Toolkit("k").add(asearch, rename="find").add(add, tags=["sum"]).add(search)
    kit.add_toolset("listed", names=["search", "find"], ordered=True).add_toolset("unlisted", names=["search", "find"])
    kit.add_toolset("chosen", **{"ordered": True, **options})
    restored = Toolkit("r").add(kit).load_state_dict(kit.state_dict())
    for view in (
        kit.select(toolset="chosen"),
        kit.session().select(toolset="chosen"),
        restored.select(toolset="chosen"),
    ):
        assert names(view) == [tool["name"] for tool in view.to("anthropic")] == expected
        assert names(Toolkit("other").add(view)) == expected
        assert names(view.select(tags=["sum"])) == ["add"] * ("add" in expected)
    assert [tool.name for tool in kit.toolset("chosen").tools] == expected
    assert names(kit) == ["find", "add", "search"]
    assert names(kit.select(toolset="unlisted")) == ["find", "search"]


def test_the_order_of_a_selection_is_asked_for_by_true_or_false(kit):
    with pytest.raises(ToolkitError, match="`ordered` of a selection must be True or False, not 1"):
        kit.select(names=["add"], ordered=1)
    with pytest.raises(ToolkitError, match="Unknown option"):
        kit.select(any_of=[{"names": ["add"], "ordered": True}])
    for options in ({"names": {"add"}}, {"any_of": ["listed", {"names": frozenset({"add"})}]}):
        with pytest.raises(ToolkitError, match="A set has no order"):
            kit.select(**options, ordered=True)
