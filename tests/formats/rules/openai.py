"""OpenAI's rules: Chat Completions, and the rules for schemas that Responses shares.

Non-strict schemas may say nearly anything below the root; strict ones are a small language of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.formats.rules import schema as common

NAME = r"[a-zA-Z0-9_-]{1,64}"
LONGEST_DESCRIPTION = 1_048_576
NOT_AT_ROOT = ("oneOf", "anyOf", "allOf", "enum", "const", "not", "$ref")
STRICT_KEYWORDS = (
    "type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf", "$ref",
    "$defs", "definitions", "enum", "const", "pattern", "format", "minItems", "maxItems", *common.LIMITS_OF_NUMBERS,
    *common.LIMITS_OF_TEXTS,
)  # fmt: skip
STRICT_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_ENUM_VALUES = 1_000
MAX_CHARACTERS = 120_000
LARGE_ENUM = 250
MAX_CHARACTERS_OF_LARGE_ENUM = 15_000


def broken(export: list[Any], strict: bool = False) -> list[str]:
    """Return what an export for Chat Completions breaks."""
    found = [*common.json_only(export)]
    for tool in export:
        found += common.only_keys(tool, ("type", "function"))
        function = tool.get("function")
        found += _function(function, strict)
        if tool.get("type") != "function":
            found.append("the type is not 'function'")
    return [*found, *common.unique(name_of(tool) for tool in export)]


def name_of(tool: dict[str, Any]) -> Any:
    """Return the name under `function`, where there is one."""
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else None


def _function(function: Any, strict: bool) -> Iterator[str]:
    yield from common.only_keys(function, ("name",), ("description", "parameters", "strict"), "the function")
    if isinstance(function, dict):
        yield from declared(function, strict, must_say=strict)


def declared(function: dict[str, Any], strict: bool, *, must_say: bool) -> Iterator[str]:
    """Yield what a function's name, description, strictness and schema break."""
    yield from common.well_named(function.get("name"), NAME)
    yield from common.described(function, LONGEST_DESCRIPTION)
    if must_say and not isinstance(function.get("strict"), bool):
        yield "it does not say whether it is strict"
    if function.get("strict") and not strict:
        yield "it is strict without being requested"
    if function.get("parameters") is None:
        return
    yield from parameters(function["parameters"])
    if function.get("strict"):
        yield from strict_parameters(function["parameters"])


def parameters(schema: Any) -> Iterator[str]:
    """Yield what a schema breaks of the rules for every function."""
    yield from common.valid(schema)
    yield from common.object_at_root(schema, NOT_AT_ROOT)
    yield from common.led_somewhere(schema)
    yield from common.with_items(schema)
    for where, node in common.objects(schema):
        if "object" in common.types(node) and not isinstance(node.get("properties"), dict):
            yield f"{where}: an object without 'properties'"


def strict_parameters(schema: dict[str, Any]) -> Iterator[str]:
    """Yield what a schema breaks of the rules for strict functions."""
    yield from common.only_keywords(schema, STRICT_KEYWORDS)
    yield from common.no_booleans(schema)
    yield from common.closed(schema)
    yield from common.formats(schema, STRICT_FORMATS)
    yield from common.alone(schema)
    yield from common.simple_patterns(schema, common.LOOKAROUND)
    yield from common.typed_enums(schema)
    for where, node in common.objects(schema):
        yield from _strict_node(where, node)
    yield from _sizes(schema)


def _strict_node(where: str, node: dict[str, Any]) -> Iterator[str]:
    if not node.keys() & {"type", "anyOf", "$ref"}:
        yield f"{where}: it has no type"
    if common.is_object(node) and sorted(node.get("required", ())) != sorted(node.get("properties", ())):
        yield f"{where}: required is not what the object has"
    if "object" in common.types(node) and not isinstance(node.get("required"), list):
        yield f"{where}: an object without 'required'"
    reference = node.get("$ref", "#")
    if reference != "#" and not (reference.startswith(("#/$defs/", "#/definitions/")) and reference.count("/") == 2):
        yield f"{where}: the reference {reference!r} is not to a definition"


def _sizes(schema: dict[str, Any]) -> Iterator[str]:
    every = [node for _, node in common.objects(schema)]
    enums = [node["enum"] for node in every if isinstance(node.get("enum"), list)]
    if sum(len(node.get("properties", ())) for node in every) > MAX_PROPERTIES:
        yield f"it has more than {MAX_PROPERTIES} properties"
    if sum(map(len, enums)) > MAX_ENUM_VALUES:
        yield f"it has more than {MAX_ENUM_VALUES} enum values"
    names = [name for node in every for key in ("properties", "$defs", "definitions") for name in node.get(key, ())]
    values = [value for enum in enums for value in enum] + [node["const"] for node in every if "const" in node]
    if sum(len(str(text)) for text in [*names, *values]) > MAX_CHARACTERS:
        yield f"its names and values have more than {MAX_CHARACTERS} characters"
    for enum in enums:
        texts = [value for value in enum if isinstance(value, str)]
        if len(enum) > LARGE_ENUM and sum(map(len, texts)) > MAX_CHARACTERS_OF_LARGE_ENUM:
            yield f"an enum of more than {LARGE_ENUM} values has more than {MAX_CHARACTERS_OF_LARGE_ENUM} characters"
    parts = [{key: value for key, value in schema.items() if key not in {"$defs", "definitions"}}]
    parts += [part for key in ("$defs", "definitions") for part in schema.get(key, {}).values()]
    if any(levels(part) > MAX_LEVELS for part in parts):
        yield f"it nests more than {MAX_LEVELS} levels deep"


def levels(schema: Any) -> int:
    """Return how deep objects and arrays are nested; references are not followed."""
    deepest = 0
    pending = [(schema, 0)]
    while pending:
        node, level = pending.pop()
        if not isinstance(node, dict):
            continue
        level += bool({"object", "array"} & set(common.types(node)))
        deepest = max(deepest, level)
        pending.extend((child, level) for _, child in common.inside(node))
    return deepest
