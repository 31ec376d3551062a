"""The rules of Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.formats.rules import schema as common

NAME = r"[a-zA-Z0-9_-]{1,64}"
KEYS = (
    "description", "type", "strict", "input_examples", "cache_control", "defer_loading", "allowed_callers",
    "eager_input_streaming",
)  # fmt: skip
NOT_AT_ROOT = ("oneOf", "anyOf", "allOf", "$ref")
STRICT_KEYWORDS = (
    "type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf", "$ref",
    "$defs", "enum", "const", "default", "pattern", "format", "minItems",
)  # fmt: skip
STRICT_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
MAX_STRICT = 20
MAX_OPTIONAL = 24
MAX_UNIONS = 16


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export breaks."""
    found = [*common.json_only(export)]
    for tool in export:
        found += common.only_keys(tool, ("name", "input_schema"), KEYS)
        found += _tool(tool, strict)
    found += _sizes([tool["input_schema"] for tool in export if tool.get("strict") is True])
    return [*found, *common.unique(tool.get("name") for tool in export)]


def _tool(tool: dict[str, Any], strict: bool) -> Iterator[str]:
    yield from common.well_named(tool.get("name"), NAME)
    yield from common.described(tool)
    yield from _options(tool)
    yield from input_schema(tool.get("input_schema"))
    if strict and not isinstance(tool.get("strict"), bool):
        yield "it does not say whether it is strict"
    if tool.get("strict") and not strict:
        yield "it is strict without being requested"
    if tool.get("strict"):
        yield from strict_input_schema(tool["input_schema"])


def _options(tool: dict[str, Any]) -> Iterator[str]:
    if tool.get("type", "custom") != "custom":
        yield "the type is not 'custom'"
    examples = tool.get("input_examples", [{}])
    if not isinstance(examples, list) or not all(isinstance(example, dict) for example in examples):
        yield "the examples are no list of objects"
    control = tool.get("cache_control", {"type": "ephemeral"})
    if control is not None and (control.get("type") != "ephemeral" or control.get("ttl", "5m") not in {"5m", "1h"}):
        yield "an unknown 'cache_control'"
    if not isinstance(tool.get("defer_loading", False), bool):
        yield "'defer_loading' is no boolean"


def input_schema(schema: Any) -> Iterator[str]:
    """Yield what a schema breaks of the rules for every tool."""
    yield from common.valid(schema)
    yield from common.object_at_root(schema, NOT_AT_ROOT)
    yield from common.led_somewhere(schema)
    for where, node in common.objects(schema):
        if str(node.get("$ref", "")).startswith(("#/definitions/", "#/components/")):
            yield f"{where}: references into old sections are not followed"


def strict_input_schema(schema: dict[str, Any]) -> Iterator[str]:
    """Yield what a schema breaks of the rules for strict tools."""
    yield from common.only_keywords(schema, STRICT_KEYWORDS)
    yield from common.no_booleans(schema)
    yield from common.closed(schema)
    yield from common.formats(schema, STRICT_FORMATS)
    yield from common.alone(schema)
    yield from common.typed_enums(schema)
    yield from common.simple_patterns(schema, f"{common.LOOKAROUND}|{common.BACKREFERENCE}")
    if common.is_recursive(schema):
        yield "it is recursive"
    for where, node in common.objects(schema):
        if not node.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
            yield f"{where}: it accepts any value"
        if node.get("minItems", 0) > 1:
            yield f"{where}: 'minItems' is more than 1"
        if "array" in common.types(node) and "items" not in node:
            yield f"{where}: an array without 'items'"


def _sizes(schemas: list[Any]) -> Iterator[str]:
    """Yield which limits the strict tools of one request break together; definitions do not count."""
    places = [place for schema in schemas for place in common.objects(schema)]
    every = [node for where, node in places if not where.startswith("#/$defs/")]
    optional = sum(len(node.get("properties", {}).keys() - set(node.get("required", ()))) for node in every)
    unions = sum("anyOf" in node or isinstance(node.get("type"), list) for node in every)
    if len(schemas) > MAX_STRICT:
        yield f"more than {MAX_STRICT} tools are strict"
    if optional > MAX_OPTIONAL:
        yield f"it has more than {MAX_OPTIONAL} optional members"
    if unions > MAX_UNIONS:
        yield f"it has more than {MAX_UNIONS} unions"
