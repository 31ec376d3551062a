"""The schemas of a document as JSON Schema 2020-12, for what is sent or for what is received."""

from __future__ import annotations

import functools
import re
from typing import Any, Final, Literal

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.merge import merge
from ahvn_tools.schema.keywords import SCHEMA_LIST_KEYWORDS, SCHEMA_MAP_KEYWORDS, iter_schemas, type_keyword, type_names
from ahvn_tools.schema.refs import DEFS_PREFIX, unused_name
from ahvn_tools.sources.budget import Budget
from ahvn_tools.sources.openapi.document import Node
from ahvn_tools.sources.openapi.relaxed import relax

MAX_DEPTH: Final = 64
"""The maximum nesting of a schema, without its references."""

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
        self._names: dict[tuple[str, str], str] = {}
        self._nodes: dict[str, Node] = {}
        self._definitions: dict[str, Any] = {}
        self._references: dict[str, set[str]] = {}

    def convert(self, node: Node) -> Any:
        """Return a schema, whose references lead to `#/$defs/…`; see `definitions_of`.

        Raises DocumentError for what is not a schema.
        """
        return self._convert(node, 1)

    def definitions_of(self, schema: Any) -> JsonObject:
        """Return the definitions that a converted schema refers to, through any number of references.

        Raises DocumentError for a definition that is not a schema.
        """
        reached: JsonObject = {}
        pending = sorted(_find_references(schema), reverse=True)
        while pending:
            name = pending.pop()
            if name in reached:
                continue
            reached[name] = self._define(name)
            pending += sorted(self._references[name] - reached.keys(), reverse=True)
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
            definition = self._convert(self._nodes[name], 1)
            self._references[name] = _find_references(definition)
            self._definitions[name] = definition
        return self._definitions[name]

    def _refer(self, target: Node) -> str:
        """Return the reference to a definition, whose name is made from the last step of its pointer."""
        if target.key not in self._names:
            last = target.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
            name = unused_name(_UNSAFE_CHARACTERS.sub("_", last).strip("_") or "schema", self._nodes)
            self._names[target.key] = name
            self._nodes[name] = target
        return DEFS_PREFIX + self._names[target.key]

    def _convert(self, node: Node, depth: int) -> Any:
        if isinstance(node.value, bool):
            return node.value
        if depth > MAX_DEPTH:
            raise node.error(f"the schema is nested more than {MAX_DEPTH} levels deep; make it flatter.")
        value = node.require(dict)
        reference = value.get("$ref", value.get("$dynamicRef"))
        if isinstance(reference, str):
            return self._convert_reference(node, reference, depth)
        schema: JsonObject = {key: self._budget.copy(value[key]) for key in value if key in _COPIED}
        _check_rules(node)
        if isinstance(schema.get("required"), bool):
            del schema["required"]
        schema |= self._convert_parts(node, depth)
        self._convert_members(node, schema, depth)
        if "discriminator" in value and not self.is_relaxed:
            self._convert_discriminator(node, schema)
        if node.document.minor == 0:
            _convert_bounds(schema)
        _convert_examples(node, schema)
        _convert_format(schema)
        if value.get("nullable") is True:
            schema = _accept_null(schema)
        return relax(schema) if self.is_relaxed else schema

    def _convert_reference(self, node: Node, reference: str, depth: int) -> Any:
        target = node.follow(reference)
        if target.resolve() is target and isinstance(target.value, bool):
            return target.value
        target.require(dict)
        siblings = {key: node.value[key] for key in node.value if key not in {"$ref", "$dynamicRef", "nullable"}}
        if node.document.minor == 0:  # it ignores what is beside a reference; texts and null are meant nevertheless
            siblings = {key: item for key, item in siblings.items() if key == "description"}
        beside = Node(document=node.document, value=siblings, pointer=node.pointer)
        schema = {"$ref": self._refer(target), **(self._convert(beside, depth) if siblings else {})}
        return _accept_null(schema) if node.value.get("nullable") is True else schema

    def _convert_parts(self, node: Node, depth: int) -> JsonObject:
        """Return the keywords that contain schemas, but `properties`."""
        parts: JsonObject = {}
        for keyword in node.value:
            if keyword in _SCHEMA_KEYWORDS:
                parts[keyword] = self._convert(node.child(keyword), depth + 1)
            elif keyword in SCHEMA_LIST_KEYWORDS:
                part = node.child(keyword)
                parts[keyword] = [self._convert(part.child(i), depth + 1) for i in range(len(part.require(list)))]
                if not parts[keyword]:
                    del parts[keyword]
            elif keyword in _MAP_KEYWORDS and keyword != "properties":
                part = node.child(keyword)
                parts[keyword] = {name: self._convert(part.child(name), depth + 1) for name in part.require(dict)}
        return parts

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
                    schema["properties"][name] = _accept_null(member) if is_relaxed else member
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
        values_of = _DiscriminatorValues(discriminator)
        branches = []
        for index, branch in enumerate(schema[keyword]):
            values = values_of.select(node.child(keyword).child(index))
            if isinstance(branch, dict) and values:
                selected: JsonObject = {"const": values[0]} if len(values) == 1 else {"enum": values}
                tag = {"type": "object", "properties": {name: {"type": "string", **selected}}, "required": [name]}
                branch = {"allOf": [branch, tag]}  # noqa: PLW2901  # the changed branch
            branches.append(branch)
        schema[keyword] = branches


class _DiscriminatorValues:
    """The values that select the branches of a union."""

    def __init__(self, discriminator: Node) -> None:
        self._discriminator = discriminator

    def select(self, branch: Node) -> list[str]:
        """Return the values that select a branch: those mapped to it, else the name of the schema."""
        if not isinstance(branch.value, dict) or not isinstance(branch.value.get("$ref"), str):
            return []
        target = branch.follow(branch.value["$ref"])
        schema_name = target.pointer.rpartition("/")[2]
        references = dict.fromkeys([branch.value["$ref"], schema_name, target.key])
        mapped = [value for reference in references for value in self._by_target.get(reference, ())]
        return mapped or [schema_name]

    @functools.cached_property
    def _by_target(self) -> dict[Any, list[str]]:
        """The values of the mapping, by the name of a schema or by what a reference leads to."""
        values: dict[Any, list[str]] = {}
        for value, reference in self._discriminator.read("mapping", dict, {}).items():
            if isinstance(reference, str):
                is_name = "/" not in reference and "#" not in reference
                target = reference if is_name else self._discriminator.follow(reference).key
                values.setdefault(target, []).append(value)
        return values


_KEYWORD_TYPES: Final = (("required", list), ("enum", list), ("properties", dict))


def _check_rules(node: Node) -> None:
    """Raise DocumentError for a keyword that is often written wrongly, with its place."""
    for keyword, kind in _KEYWORD_TYPES:
        if keyword == "required" and isinstance(node.value.get(keyword), bool):
            continue  # Swagger 2's `required` of a parameter, which means nothing in a schema
        if keyword in node.value and not isinstance(node.value[keyword], kind):
            node.child(keyword).require(kind)
    stated = node.value.get("type")
    for name in stated if isinstance(stated, list) else () if stated is None else [stated]:
        if name not in _TYPES:
            raise node.child("type").error(f"there is no type {name!r}; use one of {', '.join(_TYPES)}.")


_TYPES = ("array", "boolean", "integer", "number", "object", "string", "null")


def _convert_bounds(schema: JsonObject) -> None:
    """Replace OpenAPI 3.0's boolean `exclusiveMinimum` and `exclusiveMaximum` by the bounds."""
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


def _accept_null(schema: JsonObject) -> JsonObject:
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


def _find_references(schema: Any) -> set[str]:
    """Return the names of the definitions that a converted schema itself refers to."""
    nodes = iter_schemas(schema) if isinstance(schema, dict) else ()
    return {node["$ref"].removeprefix(DEFS_PREFIX) for node in nodes if "$ref" in node}
