"""Groups and toolsets of a toolkit, shared by all of its sessions."""

from __future__ import annotations

import pytest

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import ToolkitError, ToolLookupError, ToolNotAvailableError
from tests.toolkit.subjects import add, search


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit("k").add_group("math", "Numbers.", notes="Be exact.").add(add, group="math").add(search)


def names(kit: Toolkit) -> list[str]:
    return [spec.name for spec in kit]


def test_a_group_is_not_active_until_it_is_switched_on(kit):
    session = kit.session()
    assert (names(session), "add" in session, len(session)) == (["search"], False, 1)
    assert names(session.activate("math")) == ["add", "search"]
    assert names(session.deactivate("math")) == ["search"]
    kit.activate("math")
    assert names(kit.session()) == ["add", "search"]


def test_the_toolkit_itself_finds_iterates_and_binds_tools_of_inactive_groups(kit):
    assert (names(kit), "add" in kit, len(kit)) == (["add", "search"], True, 2)
    assert kit["add"].bind("b", default=5).binds == {"b": "b"}
    assert kit.activate("math").call("add", {"a": 1}) == 6


async def test_a_tool_of_an_inactive_group_that_the_host_finds_is_neither_exported_nor_called(kit):
    tool = kit["add"]
    assert [tool["name"] for tool in kit.to("anthropic")] == ["search"]
    assert [found.name for found in kit.search("add numbers")] == []
    assert kit.to_prompt() == kit["search"].to_prompt()
    codes = [tool.exec(1).error.code, (await tool.aexec(1)).error.code, next(tool.stream(1)).error.code]
    assert codes == ["not_available"] * 3
    with pytest.raises(ToolNotAvailableError):
        tool(1)


def test_a_selection_contains_tools_of_inactive_groups_when_it_says_so(kit):
    everything = kit.session().select(inactive=True)
    assert (names(everything), "add" in everything, len(everything)) == (["add", "search"], True, 2)
    assert list(everything["add"].params) == ["a", "b"]
    assert names(everything.select(names=["add"])) == names(everything.session().select(groups=["math"])) == ["add"]
    assert [definition.name for definition in everything.definitions()] == ["search"]
    assert everything.exec("add", {"a": 1}).error.code == "not_available"


def test_a_group_can_be_read_by_the_words_that_it_is_defined_with(kit):
    group = kit.group("math")
    assert (group.name, group.description, group.notes, group.active) == ("math", "Numbers.", "Be exact.", False)
    assert [tool.name for tool in group.tools] == ["add"]
    assert repr(group) == "<group 'math' of 1 tool, inactive>"
    basic = kit.group("basic")
    assert (basic.description, basic.notes, basic.active, [tool.name for tool in basic.tools]) == (
        "", None, True, ["search"],
    )  # fmt: skip


def test_a_group_is_read_as_it_is_now_and_here(kit):
    session = kit.session(a=1)
    here, there = session.group("math"), kit.group("math")
    session.activate("math")
    kit.add(search, rename="find", group="math").add_group("math", "Sums.")
    assert (here.active, there.active, here.description, here.notes) == (True, False, "Sums.", None)
    assert [tool.name for tool in here.tools] == ["add", "find"]
    assert [tool.name for tool in kit.select(names=["find"]).group("math").tools] == ["find"]
    kit.remove_group("math")
    for read in (lambda: here.tools, lambda: here.active, lambda: here.notes, lambda: here.description):
        with pytest.raises(ToolLookupError, match="no group 'math'"):
            read()


def test_the_tools_of_an_inactive_group_are_found_in_a_session_and_bound_on_the_toolkit(kit):
    tool = kit.session().group("math").tools[0]
    assert (tool.name, tool.exec(1).error.code) == ("add", "not_available")
    with pytest.raises(ToolkitError, match="A session cannot change the toolkit"):
        tool.bind("b")
    kit.group("math").tools[0].bind("b", default=5)
    assert kit.session().activate("math").call("add", {"a": 1}) == 6


def test_an_unknown_group_or_toolset_is_an_error_that_names_the_others_and_the_way_to_define_one(kit):
    kit.add_toolset("looking", names=["search"])
    with pytest.raises(ToolLookupError, match=r"no group 'mat'\. Did you mean 'math'\? .*add_group"):
        kit.group("mat")
    with pytest.raises(ToolLookupError, match=r"no toolset 'loking'\. Did you mean 'looking'\? .*add_toolset"):
        kit.toolset("loking")


@pytest.mark.parametrize("add_one", [Toolkit.add_group, Toolkit.add_toolset])
def test_a_description_is_a_text(kit, add_one):
    with pytest.raises(ToolkitError, match=r"is a text, not a list\. Pass other options by name"):
        add_one(kit, "new", ["search"])


def test_toolsets_are_listed_and_described(kit):
    kit.add_toolset("all", "Everything.").add_toolset("sums", names=["add"])
    session = kit.session()
    assert list(session.toolsets) == ["all", "sums"]
    assert {name: found.description for name, found in kit.toolsets.items()} == {"all": "Everything.", "sums": ""}
    assert [tool.name for tool in session.toolset("all").tools] == ["add", "search"]
    assert [tool.name for tool in session.select(names=["add"]).toolset("all").tools] == ["add"]
    held = kit.toolsets["sums"]
    kit.add_toolset("sums", "Other.", names=["search"])
    assert (held.description, [tool.name for tool in held.tools], repr(held)) == (
        "Other.", ["search"], "<toolset 'sums' of 1 tool>",
    )  # fmt: skip


def test_tags_are_added_and_removed_later_here_and_nowhere_else(kit):
    spec = ToolSpec.from_function(search, name="find", tags={"own"})
    other = Toolkit("other").add(spec)
    view = kit.add(spec, tags={"first"}).select(tags=["read"])
    held = kit["find"]
    kit.tag("find", "read", "fast").tag(["add", "search"], "read")
    assert names(view) == ["search", "find"]
    assert held.tags == held.definition.tags == {"own", "first", "read", "fast"}
    kit.untag("find", "own", "read")
    assert (kit["find"].tags, names(view)) == ({"first", "fast"}, ["search"])
    assert spec.tags == other["find"].tags == {"own"}


def test_search_and_bindings_follow_changed_tags(kit):
    kit.bind("user")
    assert kit.search("weather") == []
    kit.tag("search", "weather")
    assert [tool.name for tool in kit.search("weather")] == ["search"]
    assert (list(kit["search"].params), kit["search"].tags) == (["query", "limit"], {"weather"})
    kit.untag("search", "weather")
    assert kit.search("weather") == []


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda kit: kit.tag("serch", "x"), ToolLookupError, "Did you mean 'search'"),
        (lambda kit: kit.tag(["search", "ad"], "x"), ToolLookupError, "Did you mean 'add'"),
        (lambda kit: kit.untag(["search", "add"], "read"), ToolLookupError, "'add' has no tag 'read'. There are none"),
        (lambda kit: kit.untag("search", "red"), ToolLookupError, "Did you mean 'read'"),
        (lambda kit: kit.tag("search"), ToolkitError, "at least one tag"),
        (lambda kit: kit.untag("search"), ToolkitError, "at least one tag"),
        (lambda kit: kit.tag("search", ["x"]), ToolkitError, "The tags of a tool are names"),
        (lambda kit: kit.session().tag("search", "x"), ToolkitError, "A session cannot change the toolkit"),
        (lambda kit: kit.select().untag("search", "read"), ToolkitError, "A selection cannot change the toolkit"),
    ],
)
def test_a_wrong_tag_changes_nothing(kit, change, error, message):
    kit.tag("search", "read")
    with pytest.raises(error, match=message):
        change(kit)
    assert (kit["search"].tags, kit["add"].tags) == ({"read"}, frozenset())


def test_a_session_says_why_it_has_no_tool_of_an_inactive_group(kit):
    with pytest.raises(ToolLookupError, match="in the group 'math', which is not active here"):
        kit.session()["add"]
    with pytest.raises(ToolLookupError, match="There is no tool 'add' here"):
        kit.session().select(names=["search"])["add"]


def test_a_tool_of_an_inactive_group_cannot_be_called_and_the_result_says_why(kit):
    result = kit.exec("add", {"a": 1})
    assert result.error.code == "not_available"
    assert result.text == "The tool 'add' is not available: its group 'math' is not active."
    assert kit.activate("math").exec("add", {"a": 1}).value == 2


def test_a_group_that_was_never_defined_is_active():
    kit = Toolkit("k").add(add, group="math")
    assert (names(kit), kit.groups) == (["add"], {"basic": True, "math": True})


def test_a_group_can_be_defined_after_its_tools():
    kit = Toolkit("k").add(add, group="math").add_group("math", notes="Be exact.")
    assert (names(kit.select()), kit.notes) == ([], "")
    assert kit.activate("math").notes == "## math\nBe exact."


def test_defining_a_group_again_does_not_switch_it(kit):
    kit.activate("math").add_group("math", notes="Be quick.")
    assert (kit.groups["math"], kit.notes) == (True, "## math\nBe quick.")


def test_notes_are_those_of_active_groups_in_order(kit):
    assert kit.notes == ""
    kit.add_group("mail", active=True, notes="Be polite.").add_group("silent", active=True)
    assert kit.notes == "## mail\nBe polite."
    assert kit.activate("math").notes == "## math\nBe exact.\n\n## mail\nBe polite."


def test_the_basic_group_is_always_active(kit):
    with pytest.raises(ToolkitError, match="'basic' is always active"):
        kit.deactivate("basic")
    with pytest.raises(ToolkitError, match="'basic' always exists"):
        kit.add_group("basic")
    with pytest.raises(ToolkitError, match="'basic' cannot be removed"):
        kit.remove_group("basic")
    assert kit.activate("basic").groups["basic"]


def test_switching_an_unknown_group_switches_none(kit):
    with pytest.raises(ToolLookupError, match=r"There is no group 'maths'\. Did you mean 'math'\?"):
        kit.activate("math", "maths")
    with pytest.raises(ToolkitError):
        kit.set_groups({"math": True, "basic": False})
    assert kit.groups == {"basic": True, "math": False}


def test_several_groups_are_set_at_once(kit):
    kit.add_group("mail", active=True).set_groups({"math": True, "mail": False})
    assert kit.groups == {"basic": True, "math": True, "mail": False}


def test_a_removed_group_is_gone_with_its_tools(kit):
    kit.remove_group("math")
    assert (kit.groups, names(kit)) == ({"basic": True}, ["search"])
    assert kit.exec("add", {"a": 1}).error.code == "not_found"
    with pytest.raises(ToolLookupError, match="There is no group 'math'"):
        kit.remove_group("math")


def test_a_group_that_is_defined_again_after_removal_is_new_in_every_session(kit):
    session = kit.session().activate("math")
    inner = session.session().activate("math")
    kit.remove_group("math").add_group("math").add(add, group="math")
    assert [view.groups["math"] for view in (session, inner, kit)] == [False] * 3
    assert session.exec("add", {"a": 1}).error.code == "not_available"
    assert session.activate("math").call("add", {"a": 1}) == 2


def test_a_switch_of_a_removed_group_is_not_saved(kit):
    session = kit.session().activate("math")
    kit.remove_group("math")
    assert session.load_state_dict(session.state_dict()).state_dict()["groups"] == {}


@pytest.mark.parametrize("group", ["", 3])
def test_a_group_name_is_a_string(group):
    with pytest.raises(ToolkitError, match="group must be a text that is not empty"):
        Toolkit("k").add(add, group=group)
    with pytest.raises(ToolkitError, match="The name of a group must be a string"):
        Toolkit("k").add_group(group)


@pytest.mark.parametrize("active", ["no", 1, None])
def test_a_group_is_on_or_off(kit, active):
    for switch in (lambda: kit.set_groups({"math": active}), lambda: kit.add_group("math", active=active)):
        with pytest.raises(ToolkitError, match="The group 'math' is switched by True or False, not by"):
            switch()
    assert kit.groups["math"] is False


# toolsets


def test_a_toolset_that_is_saved_again_changes_in_every_view(kit):
    view = kit.add_toolset("some", names=["search"]).activate("math").select(toolset="some")
    kit.add_toolset("some", names=["add"])
    assert names(view) == ["add"]


def test_an_unknown_toolset_is_a_lookup_error(kit):
    for ask in (kit.select, lambda **options: kit.add_toolset("new", **options)):
        with pytest.raises(ToolLookupError, match="There is no toolset 'looking'"):
            ask(toolset="looking")


def test_a_toolset_never_refers_to_itself(kit):
    kit.add_toolset("a", names=["search"]).add_toolset("b", toolset="a").add_toolset("c", toolset="b")
    for inner in ("a", "b", "c"):
        with pytest.raises(ToolkitError, match="'a' cannot be made of itself"):
            kit.add_toolset("a", toolset=inner)
    assert names(kit.select(toolset="c")) == ["search"]


def test_a_nested_toolset_selects_tools_that_match_both(kit):
    kit.activate("math").add_toolset("a", names=["search", "add"]).add_toolset("b", toolset="a", groups=["math"])
    assert names(kit.select(toolset="b")) == ["add"]
