"""The cost of making tools: one from a function, and those of a registry's second instance."""

from __future__ import annotations

from fastmcp.tools import Tool

from ahvn_tools import ToolRegistry, ToolSpec, reg_toolspec
from tests.benchmarks.measure import plain, side_by_side
from tests.benchmarks.rows import Row, at_most, within
from tests.benchmarks.subjects import fresh_function

TOOLS = 20


def from_function() -> Row:
    """A tool from a new function, compared with FastMCP."""
    timing = side_by_side(
        plain("make(function())", make=ToolSpec.from_function, function=fresh_function),
        plain("make(function())", make=Tool.from_function, function=fresh_function),
        number=10,
        rounds=41,
    )
    return at_most(0.4, "from_function", "fastmcp Tool.from_function", timing)


def second_instance() -> Row:
    """The tools of another instance of a class whose tools are compiled, in seconds."""
    Desk = type("Desk", (ToolRegistry,), {f"method_{number}": _method(number) for number in range(TOOLS)})
    Desk().to_toolspecs()
    timing = side_by_side(
        plain("Desk().to_toolspecs()", Desk=Desk),
        plain("Desk()", Desk=Desk),
        number=200,
    )
    return within(3, "to_toolspecs() on the second instance, a tool", timing.ours / TOOLS * 1e6, "µs", 2)


def _method(number: int) -> object:
    def method(self: object, left: int, right: int = 2) -> int:
        """Add two numbers."""
        return left + right

    return reg_toolspec(name=f"method_{number}")(method)
