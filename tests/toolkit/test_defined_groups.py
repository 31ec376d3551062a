from __future__ import annotations

import pytest
from fastmcp import FastMCP

from ahvn_tools import Toolkit, load
from ahvn_tools.errors import SourceError, ToolkitError, ToolLookupError


def find() -> str:
    """Find."""
    return "found"


def drop() -> str:
    """Drop a table."""
    return "dropped"


def defined() -> Toolkit:
    return Toolkit("k").add_group("danger", "Destroys data.")


ADDITIONS = {
    "add": lambda kit, group: kit.add(drop, group=group),
    "tool": lambda kit, group: kit.tool(group=group)(drop),
    "add_search": lambda kit, group: kit.add_search(group=group),
    "add_mcp": lambda kit, group: kit.add_mcp(server(), group=group),
    "a pattern of add_mcp": lambda kit, group: kit.add_mcp(server(), tools={"nothing*": {"group": group}}),
    "a toolkit": lambda kit, group: kit.add(Toolkit("other").add(drop, group=group)),
    "a tool of a toolkit": lambda kit, group: kit.add(Toolkit("other").add(drop, group=group)["drop"]),
    "select": lambda kit, group: kit.select(groups=[group]),
    "an alternative of select": lambda kit, group: kit.select(any_of=[{"groups": [group]}]),
    "add_toolset": lambda kit, group: kit.add_toolset("some", groups=[group]),
    "activate": lambda kit, group: kit.session().activate(group),
    "deactivate": lambda kit, group: kit.deactivate(group),
}


def server() -> FastMCP:
    app = FastMCP("shop")
    app.tool(drop)
    return app


@pytest.mark.parametrize("way", ADDITIONS)
def test_a_group_that_is_not_defined_beside_one_that_is_raises_and_adds_nothing(way):
    kit = defined()
    with pytest.raises(ToolLookupError, match=r"no group 'dangr'\. Did you mean 'danger'\?"):
        ADDITIONS[way](kit, "dangr")
    assert len(kit) == 0
    assert dict(kit.servers) == {}
    ADDITIONS[way](kit, "danger")


@pytest.mark.parametrize("way", [way for way in ADDITIONS if way not in {"activate", "deactivate"}])
def test_a_toolkit_that_defines_no_group_uses_names_of_groups_as_labels(way):
    kit = Toolkit("k")
    ADDITIONS[way](kit, "dangr")


def test_a_group_is_not_defined_while_tools_have_another_one_that_is_not():
    kit = Toolkit("k").add(find).add(drop, group="dangr")
    with pytest.raises(ToolkitError, match=r"'dangr' of the tool 'drop' is not defined.* Did you mean 'danger'\?"):
        kit.add_group("danger")
    assert list(kit.groups) == ["basic", "dangr"]
    kit.add_group("dangr").add_group("danger")
    assert [tool.name for tool in kit.session()] == ["find"]


def test_the_tools_that_a_definition_comes_with_are_added_to_no_label():
    kit = Toolkit("k").add(find, group="dangr")
    with pytest.raises(ToolkitError, match="'dangr' of the tool 'find' is not defined"):
        kit.add(defined().add(drop, group="danger"))
    assert [tool.name for tool in kit] == ["find"]


def test_a_toolset_of_a_label_stays_when_a_group_is_defined():
    kit = Toolkit("k").add_toolset("some", groups=["dangr"]).add(find).add_group("danger")
    assert kit.toolset("some").tools == []
    assert len(kit.select(toolset="some")) == 0
    assert "no tool has the group 'dangr'" in [finding.problem for finding in kit.check()]


def test_a_definition_that_comes_with_a_tool_replaces_a_label():
    source = defined().add(drop, group="danger")
    kit = Toolkit("k").add(find, group="danger").add(source["drop"])
    assert kit.groups == {"basic": True, "danger": False}
    assert kit.exec("find").error.code == "not_available"


def test_a_tool_that_a_server_adds_later_enters_no_group_that_was_removed():
    app = server()
    kit = Toolkit("k").add_group("rare").add_group("other", active=True)
    kit.add_mcp(app, tools={"late*": {"group": "rare"}}).remove_group("rare")
    app.tool(find, name="late_find")
    kit.refresh_mcp()
    assert [tool.name for tool in kit] == ["drop"]
    assert "no group 'rare'" in kit.servers["shop"].refused["late_find"]


TOOLS = """
from ahvn_tools import tool
@tool
def drop(): "Drop."
@tool
def find(): "Find."
"""
MANIFESTS = {
    "a source": "sources:\n  - {source: tools.py, group: dangr}",
    "a tool": "sources: [tools.py]\ntools: {drop: {group: dangr}}",
    "a pattern": "sources: [tools.py]\ntools: {'d*': {group: dangr}}",
    "a toolset": "sources: [tools.py]\ntoolsets: {some: {groups: [dangr]}}",
    "the toolkit of a source": "sources: [kit.py]",
}


@pytest.mark.parametrize("part", MANIFESTS)
@pytest.mark.default_cases(4)
def test_a_manifest_with_groups_refuses_another_group_and_names_the_line(part, tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "kit.py").write_text(
        f"from ahvn_tools import Toolkit\n{TOOLS}\nkit = Toolkit('k').add(drop, group='dangr')"
    )
    (tmp_path / "m.yaml").write_text(f"groups: {{danger: {{active: false}}}}\n{MANIFESTS[part]}\n")
    with pytest.raises(SourceError, match=r"m.yaml:\d: .*no group 'dangr'\. Did you mean 'danger'"):
        load(str(tmp_path / "m.yaml"))
