"""The rules of Bedrock's Converse: its own wrapper and types, and the schema rules of the models behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.formats.rules import anthropic
from tests.formats.rules import schema as common

NAME = r"[a-zA-Z0-9_-]{1,64}"
NOT_IN_STRICT = (*common.LIMITS_OF_NUMBERS, "maxItems", "contains")


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export breaks."""
    found = [*common.json_only(export)]
    specs = [tool["toolSpec"] for tool in export if isinstance(tool, dict) and "toolSpec" in tool]
    for tool in export:
        found += _entry(tool, strict)
    return [*found, *common.unique(spec.get("name") for spec in specs)]


def _entry(tool: Any, strict: bool) -> Iterator[str]:
    if isinstance(tool, dict) and "cachePoint" in tool:
        yield from common.only_keys(tool, ("cachePoint",), (), "the cache point's entry")
        yield from common.only_keys(tool["cachePoint"], ("type",), ("ttl",), "the cache point")
        return
    yield from common.only_keys(tool, ("toolSpec",))
    spec = tool.get("toolSpec")
    yield from common.only_keys(spec, ("name", "inputSchema"), ("description", "strict"), "the toolSpec")
    if isinstance(spec, dict):
        yield from _spec(spec, strict)


def _spec(spec: dict[str, Any], strict: bool) -> Iterator[str]:
    yield from common.well_named(spec.get("name"), NAME)
    yield from common.described(spec, shortest=1)
    yield from common.only_keys(spec.get("inputSchema"), ("json",), (), "the inputSchema")
    schema: Any = (spec.get("inputSchema") or {}).get("json")
    yield from anthropic.input_schema(schema)
    if strict and not isinstance(spec.get("strict"), bool):
        yield "it does not say whether it is strict"
    if spec.get("strict") and not strict:
        yield "it is strict without being requested"
    if spec.get("strict"):
        yield from _strict_schema(schema)


def _strict_schema(schema: dict[str, Any]) -> Iterator[str]:
    yield from common.closed(schema)
    yield from common.simple_patterns(schema, f"{common.LOOKAROUND}|{common.BACKREFERENCE}")
    for where, node in common.objects(schema):
        for key in node.keys() & set(NOT_IN_STRICT):
            yield f"{where}: {key!r} is not supported"
        if node.get("minItems", 0) > 1:
            yield f"{where}: 'minItems' is more than 1"
