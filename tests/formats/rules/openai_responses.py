"""The rules of OpenAI's Responses: a flat tool that says whether it is strict; schemas as in Chat Completions."""

from __future__ import annotations

from typing import Any

from tests.formats.rules import openai
from tests.formats.rules import schema as common

CALLERS = {"direct", "programmatic"}


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export breaks."""
    found = [*common.json_only(export)]
    for tool in export:
        optional = ("description", "output_schema", "defer_loading", "allowed_callers", "async")
        found += common.only_keys(tool, ("type", "name", "parameters", "strict"), optional)
        if tool.get("type") != "function":
            found.append("the type is not 'function'")
        found += openai.declared(tool, strict, must_say=True)
        if tool.get("output_schema") is not None:
            found += [f"output_schema: {problem}" for problem in common.valid(tool["output_schema"])]
        if not isinstance(tool.get("defer_loading", False), bool):
            found.append("'defer_loading' is no boolean")
        if not CALLERS.issuperset(tool.get("allowed_callers", ())):
            found.append("an unknown caller")
    return [*found, *common.unique(tool.get("name") for tool in export)]
