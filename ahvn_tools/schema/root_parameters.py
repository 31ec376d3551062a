"""The parameters in an input schema, found in every schema that applies to all arguments together, and taken out of it.

A parameter may stand in `properties` of the root, and in its `allOf`, `anyOf`, `$ref` and the like, at any depth. It
can be taken out if the root declares it, and nothing else in the schema says anything about it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import iter_objects, iter_subschemas, members_of, properties_of
from ahvn_tools.schema.refs import ReferenceTargets, without_properties

REFERENCEABLE_KEYWORDS: Final = frozenset({"$schema", "$id", "$defs", "definitions", "properties"})
"""The parts of the root that one property's schema may refer to; rules of the root about other properties are not."""

_APPLICATORS: Final = (
    "allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas", "dependencies", "if", "not",
)  # fmt: skip
"""Keywords whose schemas apply to the same arguments."""
_COUNTS: Final = ("minProperties", "maxProperties")
_COMMON_RULES: Final = (*_COUNTS, "const", "enum", "propertyNames", "patternProperties")
"""Keywords about all arguments, whatever their names are."""
_CLOSING_RULES: Final = ("additionalProperties", "unevaluatedProperties")
"""Keywords about the arguments that a schema does not declare."""
_DEPENDENCIES: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_OPAQUE_KEYWORDS: Final = ("$dynamicRef", "$recursiveRef")
"""References whose target depends on where they are used."""
_STRUCTURE: Final = frozenset({*_APPLICATORS, *REFERENCEABLE_KEYWORDS, "$anchor", "title", "description", "type"})


class UnsealableError(Exception):
    """A parameter cannot be taken out of a schema without a change of what the rest means; the text says why."""


def root_parameter_names(schema: JsonObject) -> list[str]:
    """Return the names of the parameters: those in `properties` of the root first, in their order.

    Every name counts that a schema for all arguments declares, requires or depends on. Where a part cannot be followed,
    every such name in the whole schema counts.
    """
    nodes, is_opaque = _find_schemas(schema)
    names = dict.fromkeys(properties_of(schema))
    for node in iter_objects(schema) if is_opaque else nodes:
        names.update(dict.fromkeys(_mentioned_names(node)))
    return list(names)


def required_parameter_names(schema: JsonObject, names: Collection[str]) -> frozenset[str]:
    """Return those of the parameters whose absence may make arguments invalid."""
    nodes, _ = _find_schemas(schema)
    if any(keyword in node for node in nodes for keyword in _COUNTS):
        return frozenset(names)
    return frozenset(name for node in nodes for name in _mentioned_names(node, declared=False)).intersection(names)


def find_parameter_schemas(schema: JsonObject, names: Collection[str]) -> dict[str, list[Any]]:
    """Return the schemas that are declared for each of these parameters."""
    nodes, _ = _find_schemas(schema)
    return {name: [properties_of(node)[name] for node in nodes if name in properties_of(node)] for name in names}


def to_object_schema(schema: JsonObject) -> JsonObject:
    """Return the schema of arguments with the parameters of all parts in the root, where each may be as one part says.

    Required is what the root, its `allOf` and its `$ref` require, and not what each choice of a union does.
    """
    required = {name for node in _find_schemas(schema, ("allOf",))[0] for name in _names_in(node.get("required"))}
    nodes, _ = _find_schemas(schema)
    declared = dict.fromkeys(name for node in nodes for name in properties_of(node))
    parts = find_parameter_schemas(schema, {**declared, **dict.fromkeys(sorted(required))})
    merged = {
        name: {} if not found else found[0] if all(part == found[0] for part in found) else {"anyOf": found}
        for name, found in parts.items()
    }
    return {**schema, "properties": merged, "required": sorted(required)}


def without_parameters(schema: JsonObject, names: Collection[str]) -> JsonObject:
    """Return a schema without parameters that each call has: it accepts the other arguments that the schema accepts.

    The schema itself is used up. Raises UnsealableError where there is no such schema.
    """
    present = frozenset(names).intersection(root_parameter_names(schema))
    if not present:
        return schema
    refuse_other_rules(schema, present)
    for keyword in schema.keys() - _STRUCTURE:  # such as examples and extensions
        if keyword != "required" and not present.isdisjoint(_texts_in(schema[keyword])):
            del schema[keyword]
    return without_properties(schema, present)


def _find_schemas(schema: JsonObject, applicators: Collection[str] = _APPLICATORS) -> tuple[list[JsonObject], bool]:
    """Return the schemas that apply to all arguments, the root first, and whether there are others, out of reach."""
    targets = ReferenceTargets(schema)
    nodes: dict[int, JsonObject] = {}
    pending, is_opaque = [schema], False
    for node in pending:
        if id(node) in nodes:
            continue
        nodes[id(node)] = node
        is_opaque |= (node is not schema and "$id" in node) or any(keyword in node for keyword in _OPAQUE_KEYWORDS)
        if "$ref" in node:
            target = targets.find(node["$ref"])
            is_opaque |= target is None or targets.has_other_bases
            pending += [target] if isinstance(target, dict) else []
        pending += iter_subschemas(node, applicators)
    return list(nodes.values()), is_opaque


def refuse_other_rules(schema: JsonObject, names: frozenset[str]) -> None:
    """Raise UnsealableError unless only `properties` and `required` of the root say something about parameters."""
    nodes, is_opaque = _find_schemas(schema)
    if is_opaque:
        raise UnsealableError("a part of its input schema cannot be followed")
    if not names <= properties_of(schema).keys():
        raise UnsealableError("its input schema does not declare it in `properties` at the top")
    for node in nodes:
        is_root = node is schema
        closing = () if is_root else [keyword for keyword in _CLOSING_RULES if node.get(keyword, {}) not in (True, {})]
        rules = [*(keyword for keyword in _COMMON_RULES if keyword in node), *closing]
        if rules:
            raise UnsealableError(f"`{rules[0]}` in its input schema is about all arguments")
        mentioned = _mentioned_names({key: node[key] for key in _DEPENDENCIES if key in node} if is_root else node)
        if not names.isdisjoint(mentioned):
            raise UnsealableError("a part of its input schema, such as `allOf`, says more about it")


def _mentioned_names(node: JsonObject, *, declared: bool = True) -> Iterator[str]:
    """Yield the names that one schema declares, requires or depends on."""
    if declared:
        yield from properties_of(node)
    yield from _names_in(node.get("required"))
    for keyword in _DEPENDENCIES:
        for name, needed in members_of(node, keyword).items():
            yield name
            yield from _names_in(needed)


def _names_in(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _texts_in(value: Any) -> set[str]:
    """Return every text in a JSON value, and every key."""
    texts: set[str] = set()
    pending = [value]
    for part in pending:
        if isinstance(part, dict):
            texts.update(part)
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, str):
            texts.add(part)
    return texts
