"""Running a cell of a notebook again: the new definition replaces the tool; anywhere else, a clash is an error."""

from __future__ import annotations

import sys

import pytest

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import ToolkitError

CELL = '''
def add(a: int, b: int = 1) -> int:
    """Add numbers."""
    return a + b + {extra}
'''


def cell(extra=0, module="__main__", text=CELL):
    """Run a cell; return the function that it defines."""
    namespace = {"__name__": module}
    exec(text.format(extra=extra), namespace)
    return namespace["add"]


@pytest.fixture
def interactive(monkeypatch):
    """A prompt sets this, and so does a notebook."""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)


@pytest.fixture(autouse=True)
def not_interactive(monkeypatch):
    monkeypatch.delattr(sys, "ps1", raising=False)


@pytest.mark.parametrize("policy", ["raise", "keep", "replace"])
def test_a_cell_that_runs_again_replaces_its_tool(interactive, policy):
    kit = Toolkit("k", on_duplicate=policy)
    kit.add(cell())
    kit.add(ToolSpec.from_code("def other(): ..."))
    session = kit.session()
    kit.tool(cell(100))
    assert kit.call("add", {"a": 1}) == session.call("add", {"a": 1}) == 102
    assert [spec.name for spec in kit] == ["add", "other"]


def test_a_cell_whose_tool_was_renamed_replaces_it_under_its_new_name(interactive):
    kit = Toolkit("k").add(cell(module="mathematics"))
    for extra in (1, 100):
        kit.add(cell(extra), on_duplicate="rename")
        if extra == 1:
            kit["add_2"].bind("b", default=5)
    assert [spec.name for spec in kit] == ["add", "add_2"]
    assert (kit.call("add_2", {"a": 1}), len(kit.duplicates)) == (106, 1)


def test_a_program_may_not_define_a_tool_twice():
    kit = Toolkit("k").add(cell())
    with pytest.raises(ToolkitError, match="two tools 'add'"):
        kit.add(cell(100))
    assert kit.call("add", {"a": 1}) == 2


def test_a_tool_from_another_place_still_clashes(interactive):
    kit = Toolkit("k").add(cell())
    other_name = "def plus(a: int) -> int:\n    return {extra}\nadd = plus"
    for other in (cell(module="mathematics"), ToolSpec.from_function(cell(text=other_name), name="add")):
        with pytest.raises(ToolkitError, match="two tools 'add'"):
            kit.add(other)


def test_functions_that_a_function_makes_still_clash(interactive):
    """All of them are defined in one place, and each is another tool."""
    local = "def make():\n    def add(a: int) -> int:\n        return {extra}\n    return add\nadd = make()"
    kit = Toolkit("k").add(cell(text=local))
    with pytest.raises(ToolkitError, match="two tools 'add'"):
        kit.add(cell(text=local))


def test_a_parameter_that_is_bound_here_stays_hidden(interactive):
    kit = Toolkit("k").add(cell())
    kit["add"].bind("b", default=7)
    kit.add(cell(100))
    assert list(kit["add"].params) == ["a"]
    assert kit.call("add", {"a": 1}) == 108


def test_a_binding_ends_with_its_parameter(interactive):
    kit = Toolkit("k").add(cell())
    kit["add"].bind("b", default=7)
    kit.add(cell(text="def add(a: int) -> int:\n    return a"))
    assert dict(kit["add"].binds) == {}
    assert kit.call("add", {"a": 1}) == 1
