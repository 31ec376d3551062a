"""Serving toolkits, registries, tools and lists of tools."""

from __future__ import annotations

import pytest

from ahvn_tools import Toolkit, ToolRegistry, ToolSpec, aserve, reg_toolspec, serve, tool
from ahvn_tools.errors import DefinitionError, SyncCallError, ToolSpecError
from ahvn_tools.toolkit.serve import to_toolkit


def reversed_text(text: str) -> str:
    """Turn a text around."""
    return text[::-1]


class Shop(ToolRegistry):
    """A registry to be served."""

    @reg_toolspec
    def price(self, item: str) -> int:
        """Return the price of an item."""
        return len(item)


class Empty(ToolRegistry):
    """A registry without tools."""


def test_a_toolkit_is_made_of_each_kind_of_argument():
    kit = Toolkit("kit").add(reversed_text)
    assert to_toolkit(kit) is kit
    spec = tool(reversed_text)
    for thing, name, names in [
        (Shop(), "Shop", ["price"]),
        (spec, "reversed_text", ["reversed_text"]),
        (reversed_text, "reversed_text", ["reversed_text"]),
        ([Shop(), spec], "tools", ["price", "reversed_text"]),
        ((Toolkit("kit").add(len), ToolSpec.from_function(reversed_text)), "tools", ["len", "reversed_text"]),
    ]:
        served_kit = to_toolkit(thing)
        assert (served_kit.name, [tool.name for tool in served_kit]) == (name, names)
    with pytest.raises(DefinitionError, match="no tool"):
        to_toolkit(5)
    with pytest.raises(DefinitionError, match="no tool"):
        to_toolkit([5])


@pytest.mark.parametrize(
    ("nothing", "message"),
    [
        ([], "There is no tool to serve: pass a tool, or a Toolkit"),
        ((), "There is no tool to serve: pass a tool, or a Toolkit"),
        (Empty(), "'Empty' has no tools: mark its methods with @reg_toolspec"),
    ],
    ids=["list", "tuple", "registry"],
)
async def test_serving_no_tool_is_refused(nothing, message):
    with pytest.raises(ToolSpecError, match=message):
        await aserve(nothing)
    assert len(to_toolkit(Toolkit("later"))) == 0


async def test_serve_does_not_block_a_running_loop():
    with pytest.raises(SyncCallError, match="aserve"):
        serve(reversed_text)
