"""Ollama's rules: what its SDK would drop without a word must not be there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.formats.rules import openai
from tests.formats.rules import schema as common

NAME = r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}"


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export breaks."""
    found = [*common.json_only(export)]
    for tool in export:
        found += common.only_keys(tool, ("type", "function"))
        if tool.get("type") != "function":
            found.append("the type is not 'function'")
        function = tool.get("function")
        found += common.only_keys(function, ("name", "parameters"), ("description",), "the function")
        if isinstance(function, dict):
            found += common.well_named(function.get("name"), NAME)
            found += common.described(function)
            found += _parameters(function.get("parameters"))
    return [*found, *common.unique(openai.name_of(tool) for tool in export)]


def _parameters(schema: Any) -> Iterator[str]:
    yield from common.valid(schema)
    yield from common.object_at_root(schema, ())
    yield from common.led_somewhere(schema)
    if not isinstance(schema, dict):
        return
    yield from common.only_keys(schema, ("type", "properties"), ("required", "items", "$defs"), "the root")
    for name, child in schema.get("properties", {}).items():
        where = f"the member {name!r}"
        yield from common.only_keys(child, (), ("type", "items", "description", "enum"), where)
        if not isinstance(child, dict):
            continue
        if not all(isinstance(kind, str) for kind in common.types(child)):
            yield f"{where} has no plain type"
        if not isinstance(child.get("enum", []), list):
            yield f"{where} has no list of values"
