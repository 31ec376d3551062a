"""The schemas of a document as JSON Schema 2020-12, for what is sent or for what is received."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.merge import merge
from ahvn_tools.schema.keywords import SCHEMA_LIST_KEYWORDS, SCHEMA_MAP_KEYWORDS, iter_schemas, type_keyword, type_names
from ahvn_tools.schema.refs import DEFS_PREFIX, unused_name
from ahvn_tools.sources.budget import Budget
from ahvn_tools.sources.openapi.document import Document, DocumentError, Node

_KEPT = frozenset({
    "type", "title", "description", "examples", "deprecated", "format", "contentEncoding", "contentMediaType", "$ref",
    "properties", "items", "prefixItems", "allOf", "anyOf",
})  # fmt: skip


def relax(schema: JsonObject) -> JsonObject:
    """Return a schema that accepts missing and additional members, and any value of its types.

    Its subschemas must be relaxed already. The values of an `enum` become examples.
    """
    relaxed = {key: value for key, value in schema.items() if key in _KEPT}
    if isinstance(schema.get("additionalProperties"), dict) and "patternProperties" not in schema:
        relaxed["additionalProperties"] = schema["additionalProperties"]
    values = schema.get("enum", [schema["const"]] if "const" in schema else ())
    if values:
        relaxed["examples"] = list(values)
    # without their rules, several branches may match
    return _accept_several({**relaxed, "oneOf": schema["oneOf"]}) if "oneOf" in schema else relaxed


def _accept_several(schema: JsonObject) -> JsonObject:
    """Return a schema whose `oneOf` is an `anyOf`, of which several branches may match."""
    others = {key: value for key, value in schema.items() if key != "oneOf"}
    if "oneOf" not in schema:
        return schema
    if "anyOf" in schema:
        return {**others, "allOf": [*others.get("allOf", ()), {"anyOf": schema["oneOf"]}]}
    return {**others, "anyOf": schema["oneOf"]}


MAX_DEPTH: Final = 64
"""The maximum nesting of a schema, without its references."""

MAX_RELAXED_VALUES: Final = 2_000
"""When the definitions of a relaxed schema have more values, what further ones accept is left open."""

_VALUES_OF_MERGE: Final = 30
"""To merge schemas takes as much work as to copy so many values."""

Direction = Literal["request", "response"]

_ANNOTATIONS = frozenset({
    "title", "description", "default", "examples", "deprecated", "format", "contentEncoding", "contentMediaType",
})  # fmt: skip
_RULES = frozenset({
    "type", "enum", "const", "required", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains",
    "maxProperties", "minProperties", "dependentRequired",
})  # fmt: skip
_COPIED = _ANNOTATIONS | _RULES
_SCHEMA_KEYWORDS = frozenset({
    "items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "if",
    "then", "else", "not", "contentSchema",
})  # fmt: skip
"""Keywords whose value is one schema. Others, such as `xml` and `x-…`, mean nothing to a validator."""
_MAP_KEYWORDS = SCHEMA_MAP_KEYWORDS - {"$defs", "definitions", "dependencies"}
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_NUMBER_FORMATS = frozenset({"int32", "int64", "float", "double"})
_HIDDEN_BY = {"request": "readOnly", "response": "writeOnly"}
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")


class SchemaConverter:
    """Converts schemas of one document for one direction. What they refer to is converted once."""

    def __init__(self, direction: Direction, budget: Budget, *, is_relaxed: bool = False) -> None:
        """`is_relaxed`: names and types only; any member may be missing or null. See `relax`."""
        self._hidden_by = _HIDDEN_BY[direction]
        self.is_relaxed = is_relaxed
        self._budget = budget
        self._names: dict[tuple[str, bool], str] = {}
        self._nodes: dict[str, Node] = {}
        self._bases: set[str] = set()
        """The names of definitions that are a parent alone, as the `allOf` of its children means it."""
        self._children: dict[str, dict[str, list[Node]]] = {}
        """The schemas that inherit, by file and by the pointer of their parent."""
        self._definitions: dict[str, Any] = {}
        self._references: dict[str, set[str]] = {}
        self._sizes: dict[str, int] = {}

    def convert(self, node: Node) -> Any:
        """Return a schema, whose references lead to `#/$defs/…`; see `definitions_of`.

        Raises DocumentError for what is not a schema.
        """
        return self._convert(node, 1)

    def definitions_of(self, schema: Any) -> JsonObject:
        """Return the definitions that a converted schema refers to, through any number of references.

        Those of a relaxed schema have a limit: the nearest ones are kept, and the others accept any value. Raises
        DocumentError for a definition that is not a schema.
        """
        reached: JsonObject = {}
        size, max_size = 0, MAX_RELAXED_VALUES if self.is_relaxed else math.inf
        pending = sorted(_find_references(schema))
        while pending:
            following: set[str] = set()
            for name in pending:
                reached[name] = self._define(name) if size < max_size else {}
                if reached[name] != {}:
                    size += self._sizes[name]
                    following |= self._references[name]
            pending = sorted(following - reached.keys())
        return reached

    def resolve(self, schema: Any) -> Any:
        """Return a converted schema without a reference at its root."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            siblings = {key: value for key, value in schema.items() if key != "$ref"}
            target = self._define(schema["$ref"].removeprefix(DEFS_PREFIX))
            if not isinstance(target, dict) or not siblings.keys() <= _ANNOTATIONS:
                return schema
            schema = {**target, **siblings}
        return schema

    def merge(self, schema: Any, depth: int = 1) -> Any:
        """Return a converted schema without a reference and `allOf` at its root, if one schema says the same."""
        self._budget.spend(_VALUES_OF_MERGE)
        resolved = self.resolve(schema)
        if not isinstance(resolved, dict) or "allOf" not in resolved:
            return resolved
        if depth > MAX_DEPTH:  # perhaps it contains itself
            return schema
        rest = {key: item for key, item in resolved.items() if key != "allOf"}
        whole: JsonObject = {}
        for part in (rest, *resolved["allOf"]):
            flat = self.merge(part, depth + 1)
            self._budget.spend_size([whole, flat])  # both are compared and copied
            merged, omitted = merge(whole, flat) if isinstance(flat, dict) else (None, [])
            if merged is None or omitted:
                return schema
            whole = merged
        return whole

    def _define(self, name: str) -> Any:
        if name not in self._definitions:
            node = self._nodes[name]
            if name in self._bases:
                definition = self._convert(_without_union(node), 1)
            elif self._hidden_by == "readOnly" and (children := self._find_children(node)):
                definition = self._convert_parent(node, children)
            else:
                definition = self._convert(node, 1)
            self._references[name] = _find_references(definition)
            self._sizes[name] = _count_values(definition)
            self._definitions[name] = definition
        return self._definitions[name]

    def _refer(self, target: Node, *, is_base: bool = False) -> str:
        """Return the reference to a definition, whose name is made from the last step of its pointer."""
        key = target.pointer, is_base and bool(self._find_children(target))
        if key not in self._names:
            name = unused_name(_UNSAFE_CHARACTERS.sub("_", _schema_name(target)).strip("_") or "schema", self._nodes)
            self._names[key] = name
            self._nodes[name] = target
            if key[1]:
                self._bases.add(name)
        return DEFS_PREFIX + self._names[key]

    def _find_children(self, parent: Node) -> list[Node]:
        """Return the schemas that inherit from one with a discriminator: they name it in `allOf`."""
        if not isinstance(parent.value, dict) or "discriminator" not in parent.value:
            return []
        file = parent.document.file
        if file not in self._children:
            self._children[file] = _find_inheritance(parent.document)
        found: dict[str, Node] = {}
        pending = [*self._children[file].get(parent.pointer, ())]
        while pending:
            node = pending.pop(0)
            if node.pointer not in found:
                found[node.pointer] = node
                pending += self._children[file].get(node.pointer, ())
        return list(found.values())

    def _convert_parent(self, parent: Node, children: list[Node]) -> JsonObject:
        """Return the union of a parent and the schemas that inherit from it; the discriminator selects one."""
        discriminator = parent.child("discriminator")
        name = discriminator.read("propertyName", str, "")
        values_of = _DiscriminatorValues(discriminator, name)
        allowed = _DeclaredMember.find(parent, name).values
        taken: list[Any] = []
        branches = []
        for child in children:
            values = values_of.select_child(child, allowed)
            taken += values
            branches.append(_select_by(name, values, {"$ref": self._refer(child, is_base=True)}))
        own = values_of.select_child(parent, None) if allowed is None else allowed
        rest = [value for value in own if value not in taken]
        base = {"$ref": self._refer(parent, is_base=True)}
        if rest and (allowed is not None or not values_of.has_mapping or rest != [_schema_name(parent)]):
            branches.append(_select_by(name, rest, base))
        return {"anyOf": branches}

    def _convert(self, node: Node, depth: int) -> Any:
        if isinstance(node.value, bool):
            return node.value
        if depth > MAX_DEPTH:
            raise node.error(f"the schema is nested more than {MAX_DEPTH} levels deep; make it flatter.")
        if node.value is None:
            return {}
        node = _correct(node)
        value = node.value
        reference = value.get("$ref", value.get("$dynamicRef"))
        if isinstance(reference, str):
            return self._convert_reference(node, reference, depth)
        schema: JsonObject = {key: self._budget.copy(value[key]) for key in value if key in _COPIED}
        schema |= self._convert_parts(node, depth)
        self._convert_members(node, schema, depth)
        if "discriminator" in value and not self.is_relaxed:
            self._convert_discriminator(node, schema)
        _convert_bounds(schema)
        _convert_examples(node, schema)
        _convert_format(schema)
        if self.is_relaxed:
            schema = relax(schema)
        elif self._hidden_by == _HIDDEN_BY["request"]:  # the service decides which
            schema = _accept_several(schema)
        return accept_null(schema) if value.get("nullable") is True else schema

    def _convert_reference(self, node: Node, reference: str, depth: int, *, is_base: bool = False) -> Any:
        target = node.follow(reference)
        if target.resolve() is target and isinstance(target.value, bool):
            return target.value
        target.require(dict)
        siblings = {key: node.value[key] for key in node.value if key not in {"$ref", "$dynamicRef", "nullable"}}
        if node.document.minor == 0:  # it ignores what is beside a reference; texts and null are meant nevertheless
            siblings = {key: item for key, item in siblings.items() if key == "description"}
        beside = Node(document=node.document, value=siblings, pointer=node.pointer)
        schema = {"$ref": self._refer(target, is_base=is_base), **(self._convert(beside, depth) if siblings else {})}
        return accept_null(schema) if node.value.get("nullable") is True else schema

    def _convert_parts(self, node: Node, depth: int) -> JsonObject:
        """Return the keywords that contain schemas, but `properties`."""
        parts: JsonObject = {}
        for keyword in node.value:
            if keyword in _SCHEMA_KEYWORDS:
                parts[keyword] = self._convert(node.child(keyword), depth + 1)
            elif keyword in SCHEMA_LIST_KEYWORDS:
                part = node.child(keyword)
                nodes = [part.child(index) for index in range(len(part.require(list)))]
                convert = self._convert_parent_part if keyword == "allOf" else self._convert
                if nodes:
                    parts[keyword] = [convert(one, depth + 1) for one in nodes]
            elif keyword in _MAP_KEYWORDS and keyword != "properties":
                part = node.child(keyword)
                parts[keyword] = {name: self._convert(part.child(name), depth + 1) for name in part.require(dict)}
        return parts

    def _convert_parent_part(self, node: Node, depth: int) -> Any:
        """Return a part of `allOf`: a reference there means the parent alone."""
        reference = node.value.get("$ref") if isinstance(node.value, dict) else None
        if not isinstance(reference, str):
            return self._convert(node, depth)
        return self._convert_reference(node, reference, depth, is_base=True)

    def _convert_members(self, node: Node, schema: JsonObject, depth: int) -> None:
        """Set the members of an object, without those that only the other direction has."""
        hidden = set()
        if "properties" in node.value:
            schema["properties"] = {}
            members = node.child("properties")
            for name in members.require(dict):
                if self._is_hidden(members.child(name)):
                    hidden.add(name)
                else:
                    member = self._convert(members.child(name), depth + 1)
                    is_relaxed = self.is_relaxed and isinstance(member, dict)
                    schema["properties"][name] = accept_null(member) if is_relaxed else member
        if "required" in schema:
            schema["required"] = [name for name in dict.fromkeys(schema["required"]) if name not in hidden]
            if not schema["required"]:
                del schema["required"]

    def _is_hidden(self, node: Node) -> bool:
        """Whether a member is `readOnly` in what is sent, or `writeOnly` in what is received."""
        if not isinstance(node.value, dict):
            return False
        return node.value.get(self._hidden_by) is True or (
            isinstance(node.value.get("$ref"), str) and node.resolve().value.get(self._hidden_by) is True
        )

    def _convert_discriminator(self, node: Node, schema: JsonObject) -> None:
        """Say in each branch of a union which value of the discriminator selects it."""
        discriminator = node.child("discriminator")
        name = discriminator.read("propertyName", str, "")
        keyword = next((keyword for keyword in ("oneOf", "anyOf") if keyword in schema), None)
        if not name or keyword is None:
            return
        values_of = _DiscriminatorValues(discriminator, name)
        nodes = node.child(keyword)
        schema[keyword] = [
            _select_by(name, values_of.select(nodes.child(index)), branch)
            for index, branch in enumerate(schema[keyword])
        ]


def _select_by(name: str, values: list[str], branch: Any) -> Any:
    """Return a branch of a union that only these values of the discriminator select; without values, the same one."""
    if not values or not isinstance(branch, dict):
        return branch
    selected: JsonObject = {"const": values[0]} if len(values) == 1 else {"enum": values}
    tag = {"type": "object", "properties": {name: {"type": "string", **selected}}, "required": [name]}
    return {"allOf": [branch, tag]}


class _DiscriminatorValues:
    """The values that select the branches of a union."""

    def __init__(self, discriminator: Node, name: str) -> None:
        """`name` is the property that the values are in."""
        self._discriminator = discriminator
        self._name = name

    def select(self, branch: Node) -> list[str]:
        """Return the values that select a branch and that its own schema does not state.

        Those are the values mapped to it, or else the name of its schema. There are none if the branch itself accepts
        no other values, or if it accepts none of these: then its own rule selects it.
        """
        if not isinstance(branch.value, dict) or not isinstance(branch.value.get("$ref"), str):
            return []
        target = branch.follow(branch.value["$ref"])
        schema_name = _schema_name(target)
        mapped = self._mapped([branch.value["$ref"], schema_name, target.pointer])
        own = _DeclaredMember.find(target.resolve(), self._name)
        if own.values is not None:
            mapped = [value for value in mapped if value in own.values]
            return mapped if len(mapped) < len(own.values) else []
        return mapped or ([schema_name] if own.is_text else [])

    def select_child(self, child: Node, allowed: list[Any] | None) -> list[Any]:
        """Return the values that select a schema that inherits from the one with the discriminator.

        `allowed` are the only ones that the parent accepts; None: it accepts any.
        """
        name = _schema_name(child)
        own = _DeclaredMember.find(child, self._name).values
        if own is not None and (allowed is None or len(own) < len(allowed)):
            return own
        mapped = self._mapped([name, child.pointer])
        return [value for value in mapped or [name] if allowed is None or value in allowed]

    @property
    def has_mapping(self) -> bool:
        """Whether the document maps values to schemas."""
        return bool(self._by_target)

    def _mapped(self, references: list[Any]) -> list[str]:
        return [value for reference in dict.fromkeys(references) for value in self._by_target.get(reference, ())]

    @functools.cached_property
    def _by_target(self) -> dict[Any, list[str]]:
        """The values of the mapping, by the name of a schema or by what a reference leads to."""
        values: dict[Any, list[str]] = {}
        for value, reference in self._discriminator.read("mapping", dict, {}).items():
            if not isinstance(reference, str):
                continue
            with contextlib.suppress(DocumentError):  # the others select their branches nevertheless
                is_name = "/" not in reference and "#" not in reference
                target = reference if is_name else self._discriminator.follow(reference).pointer
                values.setdefault(target, []).append(value)
        return values


def _schema_name(schema: Node) -> str:
    return schema.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _without_union(parent: Node) -> Node:
    """Return a schema without its list of what inherits from it, which would make each check of a child endless."""
    value = {key: item for key, item in parent.value.items() if key not in {"oneOf", "anyOf", "discriminator"}}
    return Node(document=parent.document, value=value, pointer=parent.pointer)


def _find_inheritance(document: Document) -> dict[str, list[Node]]:
    """Return the schemas under `components` that name another one in their `allOf`, by the key of that one."""
    components = document.node.get("components")
    schemas = None if components is None else components.get("schemas")
    children: dict[str, list[Node]] = {}
    for _, schema in () if schemas is None else schemas.members():
        parts = schema.value.get("allOf") if isinstance(schema.value, dict) else None
        for part in parts if isinstance(parts, list) else ():
            reference = part.get("$ref") if isinstance(part, dict) else None
            if isinstance(reference, str):
                try:
                    children.setdefault(schema.follow(reference).pointer, []).append(schema)
                except DocumentError:  # its own error says so where the schema is used
                    continue
    return children


@dataclass(frozen=True, kw_only=True)
class _DeclaredMember:
    """What a schema says of one of its members."""

    is_text: bool
    """Whether it may be any text, as far as the schema says."""
    values: list[Any] | None = None
    """The only values that it may have."""

    @classmethod
    def find(cls, schema: Node, name: str, depth: int = 1) -> _DeclaredMember:
        """Look for a member in the properties of a schema and of the parts of its `allOf`."""
        value = schema.value
        if not isinstance(value, dict) or depth > MAX_DEPTH:
            return cls(is_text=True)
        members = schema.get("properties")
        member = None if members is None else members.get(name)
        found = [] if member is None else [cls._read(member)]
        parts = schema.child("allOf").items() if isinstance(value.get("allOf"), list) else ()
        found += [cls.find(part, name, depth + 1) for part in parts]
        stated = [one for one in found if one.values is not None]
        if stated:
            return min(stated, key=lambda one: len(one.values or ()))
        may_differ = member is None and not {"oneOf", "anyOf"}.isdisjoint(value)  # each branch states its own
        return cls(is_text=all(one.is_text for one in found) and not may_differ)

    @classmethod
    def _read(cls, member: Node) -> _DeclaredMember:
        value = member.value if isinstance(member.value, dict) else {}
        if "const" in value:
            return cls(is_text=True, values=[value["const"]])
        if isinstance(value.get("enum"), list):
            return cls(is_text=True, values=value["enum"])
        return cls(is_text="string" in (type_names(value) or ["string"]))


_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string", "null")
_TYPE_NAMES: Final = {
    "int": "integer", "int32": "integer", "int64": "integer", "long": "integer", "float": "number", "double": "number",
    "decimal": "number", "bool": "boolean", "str": "string", "text": "string", "date": "string", "datetime": "string",
    "date-time": "string", "uuid": "string", "uri": "string", "url": "string", "email": "string", "file": "string",
    "list": "array", "dict": "object", "map": "object", "hash": "object", "none": "null",
}  # fmt: skip
"""What documents write instead of a type of JSON Schema."""
_COUNTS: Final = (
    "maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains", "maxProperties", "minProperties",
)  # fmt: skip
_TEXTS: Final = ("title", "description", "format", "contentEncoding", "contentMediaType", "pattern")


def _correct(node: Node) -> Node:
    """Return a schema without the values that JSON Schema does not allow: an API that has them works nevertheless.

    Raises DocumentError for what is no schema at all.
    """
    value = node.require(dict)
    wrong = {key for key, item in value.items() if key in _VALID and not _VALID[key](item)}
    changed = {key: _MEANT[key](value[key]) for key in wrong & _MEANT.keys()}
    if isinstance(value.get("items"), list):  # as in earlier versions of JSON Schema
        wrong.add("items")
        changed["prefixItems"] = value["items"]
    changed |= {key: [value[key]] for key in SCHEMA_LIST_KEYWORDS if isinstance(value.get(key), dict)}
    if not wrong and not changed:
        return node
    kept = {key: item for key, item in value.items() if key not in wrong}
    kept |= {key: item for key, item in changed.items() if item is not None}
    return Node(document=node.document, value=kept, pointer=node.pointer)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value % 1 == 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(name in _TYPES for name in value) and len(set(value)) == len(value)
    return value in _TYPES


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _meant_type(value: Any) -> Any:
    """Return the type of JSON Schema that is meant; None: it is not known, and any value is accepted."""
    names = [name.lower() if isinstance(name, str) else "" for name in (value if isinstance(value, list) else [value])]
    known = [name if name in _TYPES else _TYPE_NAMES.get(name) for name in names]
    return type_keyword(list(dict.fromkeys(filter(None, known)))) if known and None not in known else None


_VALID: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "required": _are_names,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("maximum", "minimum"), _is_number),
    **dict.fromkeys(_BOUNDS, lambda value: isinstance(value, int | float)),
    **dict.fromkeys(_COUNTS, _is_count),
    **dict.fromkeys(("uniqueItems", "deprecated"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(_TEXTS, _is_text),
    **dict.fromkeys(("dependentRequired", *_MAP_KEYWORDS), lambda value: isinstance(value, dict)),
    **dict.fromkeys(_SCHEMA_KEYWORDS, lambda value: isinstance(value, dict | list | bool)),
    **dict.fromkeys(SCHEMA_LIST_KEYWORDS, lambda value: isinstance(value, dict | list)),
}
"""What the value of a keyword must be."""
_MEANT: Final[dict[str, Callable[[Any], Any]]] = {
    "type": _meant_type,
    "required": lambda value: [name for name in value if isinstance(name, str)] if isinstance(value, list) else None,
    "title": lambda value: str(value) if _is_number(value) else None,
    "description": lambda value: str(value) if _is_number(value) else None,
}
"""What a wrong value means; None: nothing that is known."""


def _convert_bounds(schema: JsonObject) -> None:
    """Replace the boolean `exclusiveMinimum` and `exclusiveMaximum` of OpenAPI 3.0, which many 3.1 documents have."""
    for exclusive, bound in _BOUNDS.items():
        is_exclusive = schema.get(exclusive)
        if isinstance(is_exclusive, bool):
            del schema[exclusive]
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)


def _convert_examples(node: Node, schema: JsonObject) -> None:
    if "examples" in schema and not isinstance(schema["examples"], list):
        del schema["examples"]
    if "example" in node.value and "examples" not in schema:
        schema["examples"] = [node.document.budget.copy(node.value["example"])]
    if isinstance(schema.get("pattern"), str):
        node.document.budget.spend_pattern(schema["pattern"])
    if "pattern" in schema and not _is_pattern(schema["pattern"]):
        del schema["pattern"]  # one in another language's syntax; the server checks it


def _convert_format(schema: JsonObject) -> None:
    """Drop the formats that only OpenAPI has: no validator enforces them, and `byte` is an encoding."""
    if schema.get("format") in _NUMBER_FORMATS:
        del schema["format"]
    elif schema.get("format") == "byte":
        del schema["format"]
        schema["contentEncoding"] = "base64"


def _is_pattern(pattern: Any) -> bool:
    from ahvn_tools.schema.jsonschema import compile_validator

    try:
        compile_validator({"pattern": pattern})
    except DefinitionError:
        return False
    return True


def accept_null(schema: JsonObject) -> JsonObject:
    """Return a schema that also accepts null, as OpenAPI 3.0 writes it with `nullable`."""
    if "type" in schema:
        schema["type"] = type_keyword([*type_names(schema), "null"])
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if "const" in schema and schema["const"] is not None:
        schema["enum"] = [schema.pop("const"), None]
    others = {"$ref", "allOf", "anyOf", "oneOf", "not", "if"} & schema.keys()
    if not others:
        return schema
    if others == {"anyOf"} and "type" not in schema:
        branches = [branch for branch in schema["anyOf"] if branch != {"type": "null"}]
        return {**schema, "anyOf": [*branches, {"type": "null"}]}
    texts: JsonObject = {}
    for key in ("title", "description", "default", "deprecated"):
        if key in schema:
            texts[key] = schema.pop(key)
    return {**texts, "anyOf": [schema, {"type": "null"}]}


def _count_values(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count_values, parts))


def _find_references(schema: Any) -> set[str]:
    """Return the names of the definitions that a converted schema itself refers to."""
    nodes = iter_schemas(schema) if isinstance(schema, dict) else ()
    return {node["$ref"].removeprefix(DEFS_PREFIX) for node in nodes if "$ref" in node}
