"""What is common to the linters: a walk over a schema, its references, and rules that more than one provider has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE = frozenset({
    "items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "if",
    "then", "else", "not",
})  # fmt: skip
HOLDERS = NAMED | LISTED | SINGLE
DRAFT = "https://json-schema.org/draft/2020-12/schema"
OBJECT_WORDS = ("properties", "required", "additionalProperties")
LIMITS_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
LIMITS_OF_TEXTS = ("minLength", "maxLength")

Nodes = Iterator[tuple[str, Any]]


def inside(node: Any) -> Nodes:
    """Yield the schemas directly inside a schema, each with the steps that lead to it. Literal data is not entered."""
    if not isinstance(node, dict) or HOLDERS.isdisjoint(node):
        return
    for key, held in node.items():
        if key in SINGLE and isinstance(held, dict | bool):
            yield f"/{key}", held
        elif key in NAMED and isinstance(held, dict):
            yield from ((f"/{key}/{name}", child) for name, child in held.items())
        elif key in LISTED and isinstance(held, list):
            yield from ((f"/{key}/{index}", child) for index, child in enumerate(held))


def nodes(schema: Any) -> Nodes:
    """Yield a schema and all schemas in it, each with its place."""
    pending: list[tuple[str, Any]] = [("#", schema)]
    while pending:
        where, node = pending.pop()
        yield where, node
        pending.extend((where + steps, child) for steps, child in inside(node))


def objects(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas of a schema that are no booleans."""
    return ((where, node) for where, node in nodes(schema) if isinstance(node, dict))


def types(node: dict[str, Any]) -> list[Any]:
    """Return the types that a schema names."""
    kinds = node.get("type", [])
    return kinds if isinstance(kinds, list) else [kinds]


def is_object(node: dict[str, Any]) -> bool:
    """Return whether a schema describes objects, by its type or else by its keywords."""
    return "object" in types(node) or ("type" not in node and any(word in node for word in OBJECT_WORDS))


def fits_type(value: Any, kind: str) -> bool:
    """Return whether a value has a JSON Schema type."""
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    known: dict[str, Any] = {"string": str, "number": (int, float), "object": dict, "array": list, "null": type(None)}
    return isinstance(value, known.get(kind, ()))


def target(reference: str, root: Any) -> tuple[bool, Any]:
    """Return whether a reference leads somewhere inside the schema, and where."""
    if reference == "#":
        return True, root
    if not reference.startswith("#/"):
        return False, None
    here = root
    for step in reference[2:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdigit() and int(name) < len(here):
            here = here[int(name)]
        elif isinstance(here, dict) and name in here:
            here = here[name]
        else:
            return False, None
    return True, here


def is_recursive(schema: dict[str, Any], *, is_followed: Any = lambda node, name: True) -> bool:
    """Return whether a reference leads back to its own schema; `is_followed(object, member)` leaves members out."""
    leads_to: dict[str, set[str]] = {}
    pending = ["#", *_references(schema, is_followed)]
    while pending:
        reference = pending.pop()
        if reference not in leads_to:
            leads_to[reference] = _references(target(reference, schema)[1], is_followed)
            pending.extend(leads_to[reference])
    leads_to = {reference: set(found) for reference, found in leads_to.items()}
    while done := {reference for reference, found in leads_to.items() if not found & leads_to.keys()}:
        leads_to = {reference: found for reference, found in leads_to.items() if reference not in done}
    return bool(leads_to)


def _references(schema: Any, is_followed: Any) -> set[str]:
    found: set[str] = set()
    pending = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        if isinstance(node.get("$ref"), str):
            found.add(node["$ref"])
        for steps, child in inside(node):
            kind, _, name = steps[1:].partition("/")
            if kind not in {"$defs", "definitions"} and (kind != "properties" or is_followed(node, name)):
                pending.append(child)
    return found


# rules


def json_only(value: Any) -> Iterator[str]:
    """Everything is plain JSON that UTF-8 can write, and reads back the same."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
        if json.loads(text) != value or _has_foreign(value):
            yield "it holds what is no JSON"
    except (TypeError, ValueError, RecursionError) as error:
        yield f"it has no JSON form: {type(error).__name__}"


def _has_foreign(value: Any) -> bool:
    pending = [value]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            if not all(type(key) is str for key in here):
                return True
            pending.extend(here.values())
        elif isinstance(here, list):
            pending.extend(here)
        elif here is not None and type(here) not in {str, int, float, bool}:
            return True
    return False


def only_keys(
    value: Any, required: Iterable[str], optional: Iterable[str] = (), where: str = "the tool"
) -> Iterator[str]:
    """An object has the members that it needs, and none that the provider does not know."""
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return
    for key in required:
        if key not in value:
            yield f"{where} lacks {key!r}"
    for key in value.keys() - {*required, *optional}:
        yield f"{where} has an unknown {key!r}"


def well_named(name: Any, pattern: str) -> Iterator[str]:
    """A name is text that fits the provider's pattern."""
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        yield f"the name {name!r} does not fit {pattern}"


def unique(names: Iterable[Any]) -> Iterator[str]:
    """No name is there twice."""
    seen = list(names)
    if len(seen) != len(set(map(str, seen))):
        yield "two tools have one name"


def described(value: dict[str, Any], longest: int | None = None, shortest: int = 0) -> Iterator[str]:
    """A description is text within the provider's limits."""
    if "description" not in value:
        return
    text = value["description"]
    if not isinstance(text, str):
        yield "the description is no text"
    elif len(text) < shortest or (longest is not None and len(text) > longest):
        yield f"the description has {len(text)} characters"


def valid(schema: Any) -> Iterator[str]:
    """The schema is valid JSON Schema 2020-12, whatever `$schema` it names."""
    if not isinstance(schema, dict):
        yield "the schema is no object"
    elif schema.get("$schema", DRAFT).rstrip("#") != DRAFT:
        yield f"the schema is written in {schema['$schema']!r}"
    elif not jsonschema_rs.meta.is_valid({**schema, "$schema": DRAFT}):
        yield "the schema is no valid JSON Schema 2020-12"


def led_somewhere(schema: Any) -> Iterator[str]:
    """Every reference leads to a schema inside the schema itself."""
    for where, node in objects(schema):
        if "$ref" not in node:
            continue
        is_found, found = target(node["$ref"], schema) if isinstance(node["$ref"], str) else (False, None)
        if not is_found or not isinstance(found, dict | bool):
            yield f"{where}: the reference {node['$ref']!r} leads nowhere"
    for where, node in objects(schema):
        for key in ("$dynamicRef", "$recursiveRef"):
            if key in node:
                yield f"{where}: {key!r} is not followed"


def object_at_root(schema: Any, forbidden: Iterable[str]) -> Iterator[str]:
    """The root is an object by its own `type`, without combinators."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield "the root is no object"
        return
    for key in forbidden:
        if key in schema:
            yield f"the root has {key!r}"


def only_keywords(schema: Any, allowed: Iterable[str]) -> Iterator[str]:
    """No schema says what the provider does not know."""
    known = frozenset(allowed)
    for where, node in objects(schema):
        for key in node.keys() - known:
            yield f"{where}: {key!r} is not supported"


def no_booleans(schema: Any, but: str = "additionalProperties") -> Iterator[str]:
    """No schema is a mere `true` or `false`."""
    for where, node in nodes(schema):
        if isinstance(node, bool) and not where.endswith(f"/{but}"):
            yield f"{where}: a schema is {node}"


def with_items(schema: Any) -> Iterator[str]:
    """Arrays say what their items are."""
    for where, node in objects(schema):
        if "array" in types(node) and "items" not in node:
            yield f"{where}: an array without 'items'"


def closed(schema: Any) -> Iterator[str]:
    """Objects name their members and take no others."""
    for where, node in objects(schema):
        if is_object(node) and node.get("additionalProperties") is not False:
            yield f"{where}: an object is not closed"


def formats(schema: Any, allowed: Iterable[str]) -> Iterator[str]:
    """Only formats that the provider enforces."""
    known = frozenset(allowed)
    for where, node in objects(schema):
        if "format" in node and node["format"] not in known:
            yield f"{where}: the format {node['format']!r} is not supported"


def alone(schema: Any, *companions: str) -> Iterator[str]:
    """A `$ref` has no other keywords next to it."""
    for where, node in objects(schema):
        for key in node.keys() - {"$ref", *companions} if "$ref" in node else ():
            yield f"{where}: '$ref' has {key!r} next to it"


def typed_enums(schema: Any) -> Iterator[str]:
    """The values of an enum, or of a const, are of the type that the schema names."""
    for where, node in objects(schema):
        values = [*(node.get("enum") or ()), *([node["const"]] if "const" in node else ())]
        if "type" in node and not all(any(fits_type(value, kind) for kind in types(node)) for value in values):
            yield f"{where}: a value of the enum is not of the type {node['type']!r}"


def simple_patterns(schema: Any, forbidden: str) -> Iterator[str]:
    """No pattern uses what the provider's engine does not know."""
    for where, node in objects(schema):
        if isinstance(node.get("pattern"), str) and re.search(forbidden, node["pattern"]):
            yield f"{where}: the pattern is too complex"


LOOKAROUND = r"\(\?(?:=|!|<=|<!)"
BACKREFERENCE = r"\\[1-9]|\(\?P=|\\k<"
