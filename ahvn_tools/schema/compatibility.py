"""Compatibility of two JSON Schemas: why a value that fits the first may not fit the second.

The rule is conservative: every keyword of the second schema must follow from one of the first, and what cannot be
decided is a reason. An object whose schema declares properties is assumed to have no others, unless
`additionalProperties` or `patternProperties` describe them.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import JSON_TYPES, SCHEMA_MAP_KEYWORDS, SUBSCHEMA_KEYWORDS, type_names
from ahvn_tools.schema.ref_graph import RefGraph

Schema = JsonObject | bool
Schemas = list[JsonObject]
"""Schemas that all apply to one value."""

MAX_STEPS: Final = 50_000
"""A comparison that looks at more subschemas than this is too complex."""

_DEFAULT_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF_ONLY_DRAFTS: Final = ("http://json-schema.org/draft-06/schema", "http://json-schema.org/draft-07/schema")
"""In these drafts a `$ref` hides the keywords next to it."""
_COMPARABLE_DRAFTS: Final = (_DEFAULT_DRAFT, "https://json-schema.org/draft/2019-09/schema", *_REF_ONLY_DRAFTS)

_BOUNDS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), operator.le),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), operator.ge),
}
"""Keywords with a bound, each with the test whether a new bound follows from an old one."""
_EXCLUSIVE_BOUNDS: Final = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}

_ANNOTATION_KEYWORDS: Final = frozenset({
    "$anchor", "$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description",
    "discriminator", "examples", "readOnly", "title", "writeOnly",
})  # fmt: skip
_COMPARED_KEYWORDS: Final = _BOUNDS.keys() | {
    "$ref", "additionalProperties", "allOf", "anyOf", "const", "enum", "items", "properties", "required", "type",
}  # fmt: skip
"""Keywords that are compared by meaning. All others must be the same in both schemas, or absent from the second."""
_REF_ELSEWHERE: Final = re.compile(r'"(\$dynamicRef|\$recursiveRef|\$ref": "(?!#/(\$defs|definitions)/))')
"""Matches a reference that does not lead into the definitions, in the JSON of a schema."""


def find_incompatibilities(before: JsonObject, after: JsonObject, *, allow_removed: bool = True) -> tuple[str, ...]:
    """Return why a value that fits `before` may not fit `after`; nothing when every value does.

    With `allow_removed=False` a property that `after` no longer declares is a reason, too.

    >>> find_incompatibilities({"type": "string"}, {"type": ["string", "null"]})
    ()
    >>> find_incompatibilities({"properties": {"a": {}}}, {"properties": {"a": {"enum": [1]}}})
    ("'a' accepts certain values only",)
    """
    if json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True):
        return ()
    try:
        return tuple(dict.fromkeys(_Comparison(before, after, allow_removed=allow_removed).compare()))
    except _TooComplexError:
        return ("it is too complex to compare",)
    except (DefinitionError, TypeError, ValueError, AttributeError, RecursionError):
        return ("it cannot be compared",)


class _TooComplexError(Exception):
    pass


class _Side:
    """One of the two schemas, with its references resolved."""

    def __init__(self, schema: JsonObject) -> None:
        self.root = schema
        self.draft = str(schema.get("$schema", _DEFAULT_DRAFT)).rstrip("#")
        self._graph = RefGraph(schema)
        self._steps_left = MAX_STEPS
        self.definitions = self.to_text(
            {"allOf": [{"properties": schema.get(key, {})} for key in ("$defs", "definitions")]}
        )

    def spend(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise _TooComplexError

    def to_text(self, schema: Schema) -> str:
        """Return the JSON of a schema without annotations."""
        text = json.dumps(_strip_annotations(schema), sort_keys=True)
        self.spend(3 + len(text) // 100)
        return text

    def flatten(self, schemas: list[Schema]) -> Schemas | None:
        """Return schemas with their `$ref` targets and `allOf` parts, which apply as well; None if one is false."""
        nodes: dict[int, JsonObject] = {}
        pending = list(schemas)
        for schema in pending:  # `pending` grows meanwhile
            self.spend(1)
            if schema is False:
                return None
            if schema is True or id(schema) in nodes:
                continue
            if "$ref" in schema:
                pending.append(self._graph.resolve_ref(schema["$ref"]))
            if "$ref" not in schema or self.draft not in _REF_ONLY_DRAFTS:
                nodes[id(schema)] = schema
                pending.extend(schema.get("allOf", ()))
        return list(nodes.values())

    def iter_alternatives(self, schemas: list[Schema], chosen: frozenset[Any] = frozenset()) -> Iterator[Schemas]:
        """Yield a flat list for every choice of union branches: a value that fits `schemas` fits one of the lists."""
        nodes = self.flatten(schemas)
        if nodes is None:
            return
        unions = (((id(node), key), node[key]) for node in nodes for key in ("anyOf", "oneOf") if key in node)
        key, branches = next((union for union in unions if union[0] not in chosen), (None, ()))
        if key is None:
            yield nodes
        for branch in branches:
            yield from self.iter_alternatives([*nodes, branch], chosen | {key})

    def find_property_names(self, schemas: list[Schema]) -> set[str]:
        """Return the names of the properties that schemas declare, in any branch."""
        nodes = (node for nodes in self.iter_alternatives(schemas) for node in nodes)
        return {name for node in nodes for name, part in node.get("properties", {}).items() if part is not False}


class _Comparison:
    """One comparison. Its methods return reasons; `path` is the place of the value that they are about.

    At each place, old schemas that all apply there are compared with one new schema.
    """

    def __init__(self, before: JsonObject, after: JsonObject, *, allow_removed: bool) -> None:
        self._before, self._after = _Side(before), _Side(after)
        self._allow_removed = allow_removed
        self._assumed: set[tuple[frozenset[int], frozenset[int]]] = set()

    def compare(self) -> list[str]:
        before, after = self._before, self._after
        if before.draft == after.draft and self._has_same([before.root], after.root):
            return []
        if before.draft != after.draft or before.draft not in _COMPARABLE_DRAFTS:
            return [f"it uses another JSON Schema draft: {after.draft!r}"]
        return self._compare_values([before.root], after.root, "")

    def _has_same(self, olds: Schemas, new: Schema) -> bool:
        """Return whether one of the old schemas equals the new one, apart from annotations."""
        text, definitions = self._after.to_text(new), self._after.definitions
        if '"$ref"' in text and (definitions != self._before.definitions or _REF_ELSEWHERE.search(definitions)):
            return False
        return not _REF_ELSEWHERE.search(text) and any(self._before.to_text(old) == text for old in olds)

    def _compare_values(self, olds: list[Schema], new: Schema, path: str) -> list[str]:
        reasons: list[str] = []
        if not self._allow_removed:
            removed = self._before.find_property_names(olds) - self._after.find_property_names([new])
            reasons += [f"{_quote(path, name)} is gone" for name in sorted(removed)]
        for nodes in self._before.iter_alternatives(olds):
            reasons += self._compare_schemas(nodes, new, path)
        return reasons

    def _compare_schemas(self, olds: Schemas, new: Schema, path: str) -> list[str]:
        news = self._after.flatten([new])
        if news is None:
            return [f"{_quote(path)} accepts nothing"]
        pair = frozenset(map(id, olds)), frozenset(map(id, news))
        if pair in self._assumed or self._has_same(olds, new):
            return []  # an assumed pair is part of a recursive schema, and being compared already
        self._assumed.add(pair)
        try:
            return [reason for node in news for reason in self._compare_keywords(olds, node, path)]
        finally:
            self._assumed.discard(pair)

    def _compare_keywords(self, olds: Schemas, new: JsonObject, path: str) -> Iterator[str]:
        name, types = _quote(path), _find_types(olds)
        if refused := types - _parse_types(new):
            yield f"{name} no longer accepts {' or '.join(sorted(refused))}"
        old_enums = [enum for old in olds for enum in _iter_enums(old)]
        if any(not any(old <= enum for old in old_enums) for enum in _iter_enums(new)):
            yield f"{name} accepts certain values only"
        for keyword in new.keys() & _BOUNDS:
            stricter = {keyword, _EXCLUSIVE_BOUNDS.get(keyword, keyword)}
            bounds = (old[key] for old in olds for key in stricter & old.keys())
            if not any(_BOUNDS[keyword](new[keyword], bound) for bound in bounds):
                yield f"{name} has another {keyword!r}"
        if "anyOf" in new and all(self._compare_schemas(olds, choice, path) for choice in new["anyOf"]):
            yield f"{name} has other choices"
        if rest := _select_other_keywords(new):
            is_decided = not any(keyword.startswith("unevaluated") for keyword in rest)
            if not (is_decided and self._has_same([_select_other_keywords(old) for old in olds], rest)):
                yield f"{name} has another {' or '.join(map(repr, sorted(rest)))}"
        if "array" in types and "items" in new:
            items = [old["items"] for old in olds if "items" in old and not _has_prefix(old)]
            yield from self._compare_values(items, new["items"], f"{path}[]")
        if "object" in types:
            yield from self._compare_properties(olds, new, path)

    def _compare_properties(self, olds: Schemas, new: JsonObject, path: str) -> Iterator[str]:
        required = {name for old in olds for name in old.get("required", ())}
        yield from (f"{_quote(path, name)} is required" for name in new.get("required", ()) if name not in required)
        properties, others = new.get("properties", {}), new.get("additionalProperties", True)
        removed = {name for old in olds for name in old.get("properties", {}) if name not in properties}
        for name in [*properties, *sorted(removed)] if others is not True else properties:
            self._before.spend(len(olds))
            schema = properties.get(name, others)
            yield from self._compare_values(_find_property_schemas(olds, name), schema, _join(path, name))
        patterns = new.get("patternProperties", {}).keys()
        unmatched = [old for old in olds if old.get("patternProperties", {}).keys() <= patterns]
        old_others = [old.get("additionalProperties", True) for old in unmatched]
        if others is False and False not in old_others:
            yield f"{_quote(path)} accepts no other members"
        elif others is not False:
            yield from self._compare_values(old_others, others, f"{path}.*")


def _find_property_schemas(olds: Schemas, name: str) -> list[Schema]:
    """Return the schemas that one property has to fit: False if none declares it and it is assumed to be absent."""
    declared = [old["properties"][name] for old in olds if name in old.get("properties", {})]
    if not any("additionalProperties" in old or "patternProperties" in old for old in olds):
        return declared or [not any("properties" in old for old in olds)]
    free = [old for old in olds if name not in old.get("properties", {}) and "patternProperties" not in old]
    return [*declared, *(old.get("additionalProperties", True) for old in free)]


def _find_types(nodes: Schemas) -> frozenset[str]:
    """Return the types of the values that may fit all of some schemas; "number" means one with a fraction."""
    enums = [enum for node in nodes for enum in _iter_enums(node)]
    return _parse_types({}).intersection(*map(_parse_types, nodes), *(map(_get_type, enum) for enum in enums))


def _parse_types(node: JsonObject) -> frozenset[str]:
    types = frozenset(type_names(node) if "type" in node else JSON_TYPES.values())
    return types | {"integer"} if "number" in types else types


def _get_type(text: str) -> str:
    value = json.loads(text)
    return "integer" if isinstance(value, float) and value.is_integer() else JSON_TYPES[type(value)]


def _iter_enums(node: JsonObject) -> Iterator[set[str]]:
    """Yield the sets of values that a schema allows, as JSON."""
    for values in (node.get("enum"), [node["const"]] if "const" in node else None):
        if values is not None:
            yield {json.dumps(value, sort_keys=True) for value in values}


def _has_prefix(schema: JsonObject) -> bool:
    return "prefixItems" in schema or isinstance(schema.get("items"), list)


def _select_other_keywords(schema: JsonObject) -> JsonObject:
    """Return the part of a schema that is not compared by meaning."""
    compared = _COMPARED_KEYWORDS - {"items"} if _has_prefix(schema) else _COMPARED_KEYWORDS
    return {key: value for key, value in schema.items() if key not in compared and not _is_annotation(key)}


def _is_annotation(keyword: str) -> bool:
    return keyword in _ANNOTATION_KEYWORDS or keyword.startswith("x-")


def _strip_annotations(schema: Any) -> Any:
    """Return a schema, or a list of schemas, without annotations and definitions."""
    if isinstance(schema, list):
        return [_strip_annotations(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    stripped = {key: value for key, value in schema.items() if not _is_annotation(key)}
    for key in stripped.keys() & SUBSCHEMA_KEYWORDS:
        value, is_map = stripped[key], key in SCHEMA_MAP_KEYWORDS
        stripped[key] = {k: _strip_annotations(value[k]) for k in value} if is_map else _strip_annotations(value)
    return stripped


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quote(path: str, name: str = "") -> str:
    return repr(_join(path, name) if name else path) if path or name else "it"
