"""The cost of exports: the first of a tool, compared with LangChain's converter; and repeated ones."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ahvn_tools import ToolDefinition, ToolSpec
from ahvn_tools.formats import openai
from tests.benchmarks.measure import plain, side_by_side, timing_of
from tests.benchmarks.rows import Row, at_most, faster
from tests.benchmarks.subjects import add, fresh_function

try:
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ModuleNotFoundError:
    sys.exit('The exports are measured against LangChain: pip install -e ".[benchmarks]"')

PydanticAITool = import_module("pydantic_ai").Tool if find_spec("pydantic_ai") else None

TOOLS = 1_000
ROUNDS = 7


def export_again() -> Row:
    """The second export of 1,000 tools, compared with their first."""
    pairs = []
    for _ in range(ROUNDS):
        definitions = [_definition(number) for number in range(TOOLS)]
        first, again = _seconds(openai.export, definitions), _seconds(openai.export, definitions)
        pairs.append((again, first))
    return faster(10, "export of 1,000 unchanged tools: how much faster", "their first export", timing_of(pairs))


def read_only_export() -> Row:
    """A repeated read-only export, compared with Pydantic AI's where it is installed, else with a bare method."""
    export = plain('spec.to("openai", read_only=True)', spec=ToolSpec.from_function(add))
    what, number = 'to("openai", read_only=True), again', 20_000
    if PydanticAITool is None:
        timing = side_by_side(export, plain("kept.get()", kept=_Kept({"name": "add"})), number=number)
        return at_most(15, what, "a method that returns an attribute", timing)
    timing = side_by_side(export, plain("tool.tool_def", tool=PydanticAITool(add)), number=number)
    return at_most(1, what, "pydantic-ai Tool.tool_def", timing)


class _Kept:
    def __init__(self, exported: dict[str, str]) -> None:
        self._exported = exported

    def get(self) -> dict[str, str]:
        return self._exported


def first_export() -> Row:
    """The first export of an existing tool, compared with LangChain."""
    pairs = []
    for _ in range(ROUNDS):
        functions = [fresh_function() for _ in range(TOOLS // 10)]
        definitions = [ToolSpec.from_function(function).definition for function in functions]
        tools = [StructuredTool.from_function(function) for function in functions]
        ours = _seconds(lambda: [openai.export([definition]) for definition in definitions])
        theirs = _seconds(lambda: [convert_to_openai_tool(tool) for tool in tools])
        pairs.append((ours / len(functions), theirs / len(functions)))
    return at_most(1, "first OpenAI export of a tool", "langchain-core convert_to_openai_tool", timing_of(pairs))


def first_export_of_a_function() -> Row:
    """From a function to OpenAI's form, compared with LangChain."""
    pairs = []
    for _ in range(ROUNDS):
        functions = [fresh_function() for _ in range(TOOLS // 10)]
        ours = _seconds(lambda: [ToolSpec.from_function(function).to("openai") for function in functions])
        theirs = _seconds(lambda: [convert_to_openai_tool(function) for function in functions])
        pairs.append((ours / len(functions), theirs / len(functions)))
    return at_most(1, "… from a function", "langchain-core convert_to_openai_tool", timing_of(pairs))


def _seconds(run: Callable[..., Any], *arguments: Any) -> float:
    start = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - start


def _definition(number: int) -> ToolDefinition:
    """Make a typical tool of a server: a few parameters, one of them a list of objects."""
    place = {
        "type": "object",
        "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]+$"}},
        "required": ["street"],
    }
    return ToolDefinition(
        name=f"ship_{number}",
        description="Ship a parcel to one or more places, in the order of the list.",
        input_schema={
            "type": "object",
            "properties": {
                "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}, "minItems": 1},
                "weight": {"type": "number", "description": "In kilograms.", "default": 1.5},
                "mode": {"enum": ["air", "sea", "road"], "default": "road"},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
            "required": ["places"],
            "$defs": {"Place": place},
        },
    )
