"""Sides: one of two schemas that are compared, with its references followed and its wording taken away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from ahvn_tools.schema.ref_graph import REF_KEYWORDS, RefGraph, find_subschemas

JsonObject = dict[str, Any]
Schema = JsonObject | bool
T = TypeVar("T")

DEFAULT_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
"""What a schema is written in that does not say so."""

_REF_ONLY_DRAFTS: Final = ("http://json-schema.org/draft-06/schema", "http://json-schema.org/draft-07/schema")
"""Dialects in which a `$ref` speaks alone."""

COMPARABLE_DRAFTS: Final = (DEFAULT_DRAFT, "https://json-schema.org/draft/2019-09/schema", *_REF_ONLY_DRAFTS)
"""Dialects whose keywords mean what is taken for granted here; others are only compared as a whole."""

_MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_SCHEMA_KEYWORDS = (
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "additionalProperties", "unevaluatedProperties",
    "propertyNames", "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
)  # fmt: skip
_ASSERTION_KEYWORDS = (
    "$ref", "$dynamicRef", "$recursiveRef", "type", "enum", "const", "required", "dependentRequired", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format",
    "contentEncoding", "contentMediaType", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
    "minProperties", "maxProperties",
)  # fmt: skip
_BRANCH_KEYWORDS = ("allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas")
_KEYWORD_GROUPS: Final = (
    ("if", "then", "else"),
    ("contains", "minContains", "maxContains"),
    ("items", "prefixItems", "additionalItems"),
)
"""Keywords that mean something together only."""


class NormalizedSchema:
    """One of the two schemas. Made anew for each comparison: what it gives twice is the same object."""

    def __init__(self, schema: JsonObject) -> None:
        """Look its references up. Raises DefinitionError for one that leads out of the schema, or to nothing."""
        self.root = schema
        self.draft = str(schema.get("$schema", DEFAULT_DRAFT)).rstrip("#")
        self._graph = RefGraph(schema)
        self._cache: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def split_conjunction(self, node: JsonObject) -> list[Schema]:
        """Return the schemas that have to hold where `node` has to: it without its `$ref` and `allOf`, and these."""
        return self._memoize(("parts", id(node)), node, lambda: self._split_conjunction(node))

    def merge(self, node: JsonObject) -> JsonObject:
        """Return what `node` says at least, as one schema: of what its parts say differently, what the first says."""
        if "$ref" not in node and "allOf" not in node:
            return node
        return self._memoize(("merged", id(node)), node, lambda: self._merge([node]))

    def omit_keywords(self, node: JsonObject, keywords: tuple[str, ...]) -> JsonObject:
        """Return a schema without some keywords."""
        left = {key: value for key, value in node.items() if key not in keywords}
        return node if len(left) == len(node) else self._memoize(("without", id(node), keywords), node, lambda: left)

    def select_branch(self, node: JsonObject, keyword: str, index: int) -> Schema:
        """Return a merged schema with one branch of a union in the place of the union."""

        def make() -> Schema:
            chosen = node[keyword][index]
            rest = {key: value for key, value in node.items() if key != keyword}
            return chosen if isinstance(chosen, bool) else self._merge([chosen, rest])

        return self._memoize((keyword, id(node), index), node, make)

    def find_property_names(self, node: Schema) -> frozenset[str]:
        """Return the names of the members that an object may have by what is declared, in any choice."""
        return self._memoize(("declared", id(node)), node, lambda: frozenset(self._iter_property_names(node)))

    def to_canonical_json(self, node: Schema, keywords: tuple[str, ...] | None = None) -> str:
        """Return a text that schemas that mean the same have in common, wording apart; or some keywords of theirs."""
        return self._memoize(("whole", id(node), keywords), node, lambda: self._to_canonical_json(node, keywords))

    def _memoize(self, key: tuple[Any, ...], owner: Any, make: Callable[[], T]) -> T:
        if key not in self._cache:
            self._cache[key] = owner, make()  # the holder stays alive, so that its id stays its own
        made: T = self._cache[key][1]
        return made

    def _iter_property_names(self, node: Schema) -> Iterator[str]:
        pending, seen = [node], set[int]()
        while pending:
            here = pending.pop()
            if isinstance(here, dict) and id(here) not in seen:
                seen.add(id(here))
                yield from (name for name, part in here.get("properties", {}).items() if part is not False)
                pending.extend(find_subschemas(here, _BRANCH_KEYWORDS))
                pending.extend([self._graph.resolve_ref(here["$ref"])] if "$ref" in here else [])

    def _split_conjunction(self, node: JsonObject) -> list[Schema]:
        if isinstance(node.get("$ref"), str):
            target = self._graph.resolve_ref(node["$ref"])
            if self.draft in _REF_ONLY_DRAFTS:
                return [target]
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return [rest, target]
        return [{key: value for key, value in node.items() if key != "allOf"}, *node.get("allOf", ())]

    def _merge(self, nodes: list[JsonObject]) -> JsonObject:
        merged: JsonObject = {}
        for part in self._iter_conjuncts(nodes):
            if part is False:
                return {"enum": []}
            for key, value in (part if isinstance(part, dict) else {}).items():
                if key == "required":
                    merged[key] = [*merged.get(key, ()), *value]
                elif key == "properties":
                    merged[key] = {**value, **merged.get(key, {})}
                else:
                    merged.setdefault(key, value)
        return merged

    def _iter_conjuncts(self, nodes: list[JsonObject]) -> Iterator[Schema]:
        seen: list[frozenset[str]] = []
        for node in nodes:
            pending: list[Schema] = [node]
            while pending:
                part = pending.pop(0)
                if isinstance(part, dict) and ("$ref" in part or "allOf" in part):
                    pending[:0] = self.split_conjunction(part)
                    continue
                if isinstance(part, dict):
                    taken = {
                        key for group in _KEYWORD_GROUPS for key in group if any(other & {*group} for other in seen)
                    }
                    part = {key: value for key, value in part.items() if key not in taken}
                    seen.append(frozenset(part))
                yield part

    def _to_canonical_json(self, node: Schema, keywords: tuple[str, ...] | None) -> str:
        if isinstance(node, dict) and keywords is not None:
            node = {key: node[key] for key in keywords if key in node}
        found: dict[str, Any] = {}
        pending = [node]
        while pending:
            for reference in _iter_refs(pending.pop()):
                if reference not in found:
                    target = self._graph.resolve_ref(reference)
                    found[reference] = _strip_annotations(target)
                    pending.append(target)
        return json.dumps([_strip_annotations(node), found], sort_keys=True)


def _strip_annotations(value: Any) -> Any:
    """Return a schema, or a list or mapping of schemas, with the keywords alone that refuse something."""
    if isinstance(value, list):
        return [_strip_annotations(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    bare = {key: value[key] for key in _ASSERTION_KEYWORDS if key in value}
    bare.update({key: _strip_annotations(value[key]) for key in _SCHEMA_KEYWORDS if key in value})
    bare.update(
        {
            key: {name: _strip_annotations(part) for name, part in value[key].items()}
            for key in _MAP_KEYWORDS
            if key in value
        }
    )
    return bare


def _iter_refs(schema: Schema) -> Iterator[str]:
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield from (node[key] for key in REF_KEYWORDS if isinstance(node.get(key), str))
            pending.extend(find_subschemas(node))
