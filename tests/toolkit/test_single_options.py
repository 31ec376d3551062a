"""The option `tools` of `Toolkit.add`: options of single tools among those that are added."""

import pytest

from ahvn_tools import Toolkit, ToolRegistry, reg_toolspec
from ahvn_tools.errors import BindError, DefinitionError, ToolkitError, ToolLookupError


class Files(ToolRegistry):
    @reg_toolspec(tags={"own"})
    def read(self, path: str, user: str = "all") -> str:
        """Read a file."""
        return f"{user}: {path}"

    @reg_toolspec(name="rm")
    def remove(self, path: str) -> str:
        """Remove a file."""
        return f"removed {path}"


def test_one_method_of_a_registry_needs_an_approval():
    kit = Toolkit("files").add(Files(), tools={"rm": {"requires_approval": True}})
    assert kit.call("read", {"path": "a"}) == "all: a"
    assert kit.exec("rm", {"path": "a"}).error.code == "approval_required"


def test_later_patterns_have_priority_and_all_names_are_those_of_the_toolkit():
    tools = {
        "f_*": {"tags": "file", "timeout": 5, "binds": {"user": "name"}},
        "f_read": {"title": "Read", "arguments": {"path": {"name": "file"}}, "group": "reading", "audience": "ops"},
    }
    kit = Toolkit("files", state={"name": "ann"}).add_group("reading", active=True)
    kit.add(Files(), prefix="f_", tags={"all"}, tools=tools)
    read, remove = kit["f_read"], kit["f_rm"]
    assert (read.tags, remove.tags) == ({"own", "all", "file"}, {"all", "file"})
    assert (read.timeout, read.title, read.group, read.audience) == (5, "Read", "reading", {"ops"})
    assert (remove.title, remove.group) == (None, "basic")
    assert kit.call("f_read", {"file": "a"}) == "ann: a"


def test_options_apply_to_functions_and_to_the_tools_of_another_toolkit():
    inner = Toolkit("inner").add(Files(), requires_approval=True)
    kit = Toolkit("outer").add(inner, repr, tools={"read": {"preset": {"user": "bob"}}, "rm": {"enabled": False}})
    assert [tool.name for tool in kit] == ["read", "repr"]
    assert kit["read"].labels["requires_approval"] is True
    assert list(kit["read"].params) == ["path"]


@pytest.mark.parametrize(
    ("tools", "error", "text"),
    [
        ({"remove": {"timeout": 3}}, ToolLookupError, "There is no tool 'remove' in what is added"),
        ({"x*": {"timeout": 3}}, ToolLookupError, "There is no tool 'x.*' in what is added"),
        ({"*": {"preset": {"usr": 3}}}, BindError, "No tool that matches '.*' has a parameter 'usr'"),
        ({"rm": {"binds": {"user": "u"}}}, BindError, "'rm' has no parameter 'user' to bind"),
        ({"rm": {"timeuot": 3}}, ToolkitError, "'rm': Unknown option 'timeuot'. Did you mean 'timeout'"),
        (["rm"], ToolkitError, "`tools` is a mapping by tool"),
        ({"rm": {"group": "wiki"}}, ToolLookupError, "There is no group 'wiki'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_nothing_is_added(tools, error, text):
    kit = Toolkit("files").add_group("reading")
    with pytest.raises(error, match=text):
        kit.add(Files(), tools=tools)
    assert list(kit) == []


class Unmarked(ToolRegistry):
    def find(self) -> int: ...


def test_what_has_no_tools_is_refused_with_the_fix():
    kit = Toolkit("kit")
    with pytest.raises(DefinitionError, match=r"'Unmarked' has no tools: mark its methods with @reg_toolspec"):
        kit.add(Unmarked())
    with pytest.raises(DefinitionError, match=r"A dict is no tool\. Add the tools in it: add\(\*tools\.values\(\)\)"):
        kit.add(Files().to_toolspecs())
    assert list(kit) == []
    assert len(kit.add(*Files().to_toolspecs().values())) == 2
