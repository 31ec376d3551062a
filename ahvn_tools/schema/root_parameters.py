"""The parameters in an input schema, found in every schema that applies to all arguments together, and taken out of it.

A parameter may stand in `properties` of the root, and in its `allOf`, `anyOf`, `$ref` and the like, at any depth.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import SCHEMA_MAP_KEYWORDS, SUBSCHEMA_KEYWORDS, iter_objects, iter_schemas
from ahvn_tools.schema.refs import DEFS_PREFIX, ReferenceTargets, without_unused_definitions

MAX_REDIRECTED: Final = 50
"""How many references at most are changed because their target is no longer where it was."""

MAX_PASSES: Final = 10
"""How often the required names of a part are read again, because those of its references have become more."""

REFERENCEABLE_KEYWORDS: Final = frozenset({"$schema", "$id", "$defs", "definitions", "properties"})
"""The parts of the root that one property's schema may refer to; rules of the root about other properties are not."""

_ALWAYS, _SOMETIMES, _TESTED = range(3)
"""When a schema must match: always, depending on the arguments, or it decides about others, as in `not` and `if`."""

_APPLICATORS: Final = {
    "allOf": _ALWAYS, "anyOf": _SOMETIMES, "oneOf": _SOMETIMES, "then": _SOMETIMES, "else": _SOMETIMES,
    "dependentSchemas": _SOMETIMES, "dependencies": _SOMETIMES, "if": _TESTED, "not": _TESTED,
}  # fmt: skip
"""Keywords whose schemas apply to the same arguments, and when those must match."""


class UnsealableError(Exception):
    """A parameter cannot be taken out of a schema without a change of what the rest means; the text says why."""


def root_parameter_names(schema: JsonObject) -> list[str]:
    """Return the names of the parameters: those in `properties` of the root first, in their order.

    Every name counts that a schema for all arguments declares, requires or depends on. Where a part cannot be followed,
    every such name in the whole schema counts.
    """
    root = _RootSchemas(schema)
    nodes = iter_objects(schema) if root.is_opaque else iter(root.nodes)
    names = dict.fromkeys(properties_of(schema))
    for node in nodes:
        names.update(dict.fromkeys(mentioned_names(node)))
    return list(names)


def required_parameter_names(schema: JsonObject, names: Collection[str]) -> frozenset[str]:
    """Return those of the parameters whose absence may make arguments invalid."""
    nodes = _RootSchemas(schema).nodes
    if any(keyword in node for node in nodes for keyword in COUNTS):
        return frozenset(names)
    return frozenset(name for node in nodes for name in mentioned_names(node, declared=False)).intersection(names)


def find_parameter_schemas(schema: JsonObject, names: Collection[str]) -> dict[str, list[Any]]:
    """Return the schemas that are declared for each of these parameters."""
    found: dict[str, list[Any]] = {name: [] for name in names}
    for node in _RootSchemas(schema).nodes:
        for name, part in properties_of(node).items():
            if name in found:
                found[name].append(part)
    return found


def to_object_schema(schema: JsonObject) -> JsonObject:
    """Return the schema of arguments with the parameters of all parts in the root.

    A parameter of several parts may be as one of them says. Required is what each of the choices requires.
    """
    root = _RootSchemas(schema)
    declared = [name for node in root.nodes for name in properties_of(node)]
    required = root.find_required()
    parts = find_parameter_schemas(schema, dict.fromkeys([*declared, *sorted(required)]))
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
    root = _RootSchemas(schema)
    for name in sorted(present):
        root.value_constraints(name)
    return without_unused_definitions(root.rebuild(present))


def value_schema(schema: JsonObject, name: str) -> JsonObject:
    """Return the schema of an object that has nothing but this parameter. Raises UnsealableError."""
    kept: JsonObject = {key: value for key, value in schema.items() if key in REFERENCEABLE_KEYWORDS}
    parts = _RootSchemas(schema).value_constraints(name)
    return _redirect_refs(ReferenceTargets(schema), {**kept, **({"allOf": parts} if parts else {})})


class _RootSchemas:
    """The schemas in one schema that apply to all arguments together."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self.nodes: list[JsonObject] = []
        self.is_opaque = False
        """Whether there is a part that cannot be followed."""
        self._targets = ReferenceTargets(schema)
        self._places: dict[int, set[int]] = {}
        self._parents: dict[int, list[JsonObject]] = {}
        pending = deque([(schema, _ALWAYS)])
        while pending:
            node, place = pending.popleft()
            places = self._places.setdefault(id(node), set())
            if not places:
                self.nodes.append(node)
            if place in places:
                continue
            places.add(place)
            for child, child_place in self._find_children(node):
                self._parents.setdefault(id(child), []).append(node)
                pending.append((child, max(place, child_place)))

    def find_required(self) -> set[str]:
        """Return the names that are required whichever choice is taken."""
        found: dict[int, set[str]] = {id(node): set(names_in(node.get("required"))) for node in self.nodes}
        for _ in range(MAX_PASSES):
            before = sum(map(len, found.values()))
            for node in reversed(self.nodes):
                names = found[id(node)]
                target = self._targets.find(node.get("$ref"))
                names.update(found.get(id(target), ()))
                names.update(*(found[id(part)] for part in _schemas_under("allOf", node.get("allOf", ()))))
                for keyword in ("anyOf", "oneOf"):
                    choices = [found[id(part)] for part in _schemas_under(keyword, node.get(keyword, ()))]
                    names.update(set.intersection(*choices) if choices else ())
            if sum(map(len, found.values())) == before:
                break
        return found[id(self._schema)]

    def value_constraints(self, name: str) -> list[JsonObject]:
        """Return what the value of a parameter must match, in schemas of an object with that parameter alone.

        Raises UnsealableError where that depends on other arguments, or they depend on it.
        """
        if self.is_opaque:
            raise UnsealableError("a part of its input schema cannot be followed")
        always: dict[str, JsonObject] = {}
        sometimes: dict[str, JsonObject] = {}
        for node in self.nodes:
            self._check(node, name)
            if (constraint := find_constraint(node, name)) is not None:
                text = json.dumps(constraint, sort_keys=True)
                (always if _ALWAYS in self._places[id(node)] else sometimes)[text] = constraint
        others = [constraint for text, constraint in sometimes.items() if text not in always]
        if len(others) > (0 if always else 1) or any(constraint.keys() != {"properties"} for constraint in others):
            raise UnsealableError("what it may be depends on other arguments")
        return list({**always, **sometimes}.values())

    def _check(self, node: JsonObject, name: str) -> None:
        """Raise UnsealableError for a rule whose outcome depends on whether the parameter is there, or on its value."""
        if _TESTED in self._places[id(node)] and (
            name in mentioned_names(node) or find_constraint(node, name) is not None
        ):
            raise UnsealableError("`not` or `if` tests it")
        if "const" in node or "enum" in node:
            raise UnsealableError("`const` or `enum` lists all arguments together")
        if name in texts_in(node.get("propertyNames")):
            raise UnsealableError("`propertyNames` names it")
        is_declared = name in properties_of(node)
        if node.get("additionalProperties") is False and not is_declared and not node.get("patternProperties"):
            raise UnsealableError("`additionalProperties` of a part that does not declare it refuses it")
        if node.get("unevaluatedProperties", True) is not True and not (
            is_declared or (node is self._schema and self._is_always_declared(name))
        ):
            raise UnsealableError("`unevaluatedProperties` decides about it")

    def _is_always_declared(self, name: str) -> bool:
        return any(_ALWAYS in self._places[id(node)] and name in properties_of(node) for node in self.nodes)

    def rebuild(self, names: frozenset[str]) -> JsonObject:
        """Return the schema without parameters. Parts that do not name them are shared with the old one.

        Raises UnsealableError.
        """
        if any(node.get("maxProperties", len(names)) < len(names) for node in self.nodes):
            raise UnsealableError("`maxProperties` refuses it")
        changed = self._find_changed(names)
        rebuilt: dict[int, JsonObject] = {key: {} for key in changed}
        definitions: JsonObject = dict(members_of(self._schema, "$defs"))
        renamed: dict[str, str] = {}
        unused = (name for name in _numbered("Arguments") if name not in definitions and name not in names)
        for node in self.nodes:
            if id(node) not in changed:
                continue
            new = without_names(node, names)
            for keyword in _APPLICATORS.keys() & new.keys():
                new[keyword] = _replace_schemas(keyword, new[keyword], rebuilt)
            target = self._targets.find(node.get("$ref"))
            if id(target) in changed and target is not self._schema:
                reference = node["$ref"]
                if reference not in renamed:
                    renamed[reference] = next(unused)
                    definitions[renamed[reference]] = rebuilt[id(target)]
                new["$ref"] = f"{DEFS_PREFIX}{renamed[reference]}"
            if node is not self._schema:  # the old schema has the anchor
                new = {key: value for key, value in new.items() if key not in ANCHORS}
            rebuilt[id(node)].update(new)
        schema = rebuilt[id(self._schema)] if changed else self._schema
        if renamed:
            schema["$defs"] = definitions
        return _redirect_refs(self._targets, schema)

    def _find_changed(self, names: frozenset[str]) -> set[int]:
        """Return the `id` of each schema that names one of the parameters, counts them, or leads to such a schema."""
        pending = [node for node in self.nodes if depends_on(node, names)]
        changed: set[int] = set()
        while pending:
            node = pending.pop()
            if id(node) not in changed:
                changed.add(id(node))
                pending.extend(self._parents.get(id(node), ()))
        return changed

    def _find_children(self, node: JsonObject) -> Iterator[tuple[JsonObject, int]]:
        """Yield the schemas that a schema applies to the same arguments."""
        if (node is not self._schema and "$id" in node) or any(keyword in node for keyword in OPAQUE_KEYWORDS):
            self.is_opaque = True
        if "$ref" in node:
            target = self._targets.find(node["$ref"])
            self.is_opaque |= target is None or self._targets.has_other_bases
            if isinstance(target, dict):
                yield target, _ALWAYS
        for keyword, place in _APPLICATORS.items():
            if keyword in node:
                yield from ((part, place) for part in _schemas_under(keyword, node[keyword]))


def _redirect_refs(targets: ReferenceTargets, changed: JsonObject) -> JsonObject:
    """Let the references in a changed schema lead to what they led to before, in place; references to the root stay.

    Raises UnsealableError where too many have to be redirected.
    """
    new_targets = ReferenceTargets(changed)
    redirected: dict[str, str] = {}
    definitions: JsonObject = dict(members_of(changed, "$defs"))
    pending = [node for node in iter_schemas(changed) if "$ref" in node]
    while pending:
        node = pending.pop()
        reference = node["$ref"]
        target = targets.find(reference)
        if reference == "#" or target is None or target is new_targets.find(reference):
            continue
        if reference not in redirected:
            if len(redirected) == MAX_REDIRECTED:
                raise UnsealableError("too many other parts refer to it")
            redirected[reference] = next(name for name in _numbered("Shared") if name not in definitions)
            definitions[redirected[reference]] = target
            changed["$defs"] = definitions
            if isinstance(target, dict):
                pending.extend(part for part in iter_schemas(target) if "$ref" in part)
        node["$ref"] = f"{DEFS_PREFIX}{redirected[reference]}"
    return changed


def _numbered(name: str) -> Iterator[str]:
    """Yield names for definitions."""
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(2))


def _replace_schemas(keyword: str, value: Any, rebuilt: Mapping[int, JsonObject]) -> Any:
    """Return the value of an applicator with the rebuilt schemas."""
    if isinstance(value, list):
        return [rebuilt.get(id(part), part) for part in value]
    if keyword in SCHEMA_MAP_KEYWORDS:
        return {name: rebuilt.get(id(part), part) for name, part in value.items()}
    return rebuilt.get(id(value), value)


def _schemas_under(keyword: str, value: Any) -> Iterator[JsonObject]:
    """Yield the schemas in the value of an applicator. Others than objects, such as False, are left out."""
    value = value if isinstance(value, dict | list) else ()
    if keyword in SCHEMA_MAP_KEYWORDS:
        value = list(value.values()) if isinstance(value, dict) else ()
    yield from (part for part in ([value] if isinstance(value, dict) else value) if isinstance(part, dict))


_DEPENDENCIES: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_MEMBER_KEYWORDS: Final = ("patternProperties", "additionalProperties", "propertyNames")
COUNTS: Final = ("minProperties", "maxProperties")
"""Keywords about how many arguments there are."""
OPAQUE_KEYWORDS: Final = ("$dynamicRef", "$recursiveRef")
"""References whose target depends on where they are used."""
ANCHORS: Final = ("$anchor", "$dynamicAnchor", "$recursiveAnchor")
"""Keywords that name a schema for references."""
_TEXTS: Final = frozenset({"title", "description", "default", "examples", "$comment"})
_KNOWN: Final = frozenset({
    *SUBSCHEMA_KEYWORDS, *_DEPENDENCIES, *COUNTS, *ANCHORS, *OPAQUE_KEYWORDS, "required", "type", "const", "enum",
    "$ref", "$schema", "$id", "$vocabulary", "title", "description", "$comment",
})  # fmt: skip
"""Keywords that are kept, each with its own rule. Others say nothing about what is valid."""


def mentioned_names(node: JsonObject, *, declared: bool = True) -> Iterator[str]:
    """Yield the names that one schema declares, requires or depends on."""
    if declared:
        yield from properties_of(node)
    yield from names_in(node.get("required"))
    for keyword in _DEPENDENCIES:
        for name, needed in members_of(node, keyword).items():
            yield name
            yield from names_in(needed)


def depends_on(node: JsonObject, names: frozenset[str]) -> bool:
    """Return whether one schema says something about parameters, or about how many there are."""
    is_named = not names.isdisjoint(mentioned_names(node)) or any(keyword in node for keyword in COUNTS)
    return is_named or any(not names.isdisjoint(texts_in(node[keyword])) for keyword in node.keys() - _KNOWN)


def find_constraint(node: JsonObject, name: str) -> JsonObject | None:
    """Return what one schema says about the value of a parameter, as a schema of an object; None if nothing."""
    declared = _without_texts(properties_of(node).get(name, True))
    constraint = {keyword: node[keyword] for keyword in _MEMBER_KEYWORDS if node.get(keyword, True) not in ({}, True)}
    if name in properties_of(node) and "patternProperties" not in constraint:
        constraint.pop("additionalProperties", None)  # it is about others
    if name in properties_of(node) and (constraint or declared not in ({}, True)):
        constraint["properties"] = {name: declared}
    return constraint or None


def _without_texts(schema: Any) -> Any:
    """Return a schema without what documents it."""
    return {key: value for key, value in schema.items() if key not in _TEXTS} if isinstance(schema, dict) else schema


def without_names(node: JsonObject, names: frozenset[str]) -> JsonObject:
    """Return one schema without parameters that are there, and match. The schemas in it are as they were."""
    new: JsonObject = {}
    for keyword, value in node.items():
        if keyword in ("properties", "default", *_DEPENDENCIES):
            new[keyword] = _without_keys(value, names)
        elif keyword == "examples" and isinstance(value, list):
            new[keyword] = [_without_keys(item, names) for item in value]
        elif keyword in COUNTS:
            new[keyword] = max(0, value - len(names))
        elif keyword in _KNOWN or names.isdisjoint(texts_in(value)):
            new[keyword] = value
    for keyword in _DEPENDENCIES:
        _add_needed(new, [part for name, part in members_of(node, keyword).items() if name in names])
    for keyword in ("required", *_DEPENDENCIES):
        if keyword in new and not _remove_items(new, keyword, names):
            del new[keyword]
    return new


def _add_needed(node: JsonObject, needed: list[Any]) -> None:
    """Add, in place, what a schema demands where some parameters are there."""
    for part in needed:
        keyword = "required" if isinstance(part, list) else "allOf"
        node[keyword] = [*node.get(keyword, ()), *(part if isinstance(part, list) else [part])]


def _remove_items(node: JsonObject, keyword: str, names: frozenset[str]) -> Any:
    """Remove names from lists of required ones, in place, and return what remains."""
    value = node[keyword]
    if isinstance(value, dict):
        parts = {name: _without_items(part, names) for name, part in value.items()}
        remaining: Any = {name: part for name, part in parts.items() if part != []}
    else:
        remaining = list(dict.fromkeys(_without_items(value, names)))
    node[keyword] = remaining
    return remaining


def properties_of(node: JsonObject) -> JsonObject:
    """Return the declared properties of a schema, by name."""
    return members_of(node, "properties")


def members_of(node: JsonObject, keyword: str) -> JsonObject:
    """Return the value of a keyword if it is an object; else an empty one."""
    members = node.get(keyword)
    return members if isinstance(members, dict) else {}


def names_in(value: Any) -> list[str]:
    """Return the texts in a list; none of what is no list."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _without_keys(value: Any, names: frozenset[str]) -> Any:
    return {key: item for key, item in value.items() if key not in names} if isinstance(value, dict) else value


def _without_items(value: Any, names: frozenset[str]) -> Any:
    return [item for item in value if item not in names] if isinstance(value, list) else value


def texts_in(value: Any) -> set[str]:
    """Return every text in a JSON value, and every key."""
    texts: set[str] = set()
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            texts.add(part)
        elif isinstance(part, dict):
            texts.update(part)
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return texts
