"""Compatibility of two JSON Schemas: why a value that fits the first may not fit the second.

The rule is conservative: every keyword of the second schema must follow from the same keyword of the first, and what
cannot be decided is a reason. An object whose schema declares properties is assumed to have no others, unless
`additionalProperties` or `patternProperties` describe them.
"""

from __future__ import annotations

import copy
import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.keywords import JSON_TYPES, iter_schemas, join_path, type_names
from ahvn_tools.schema.limits import RefGraph

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
    "$comment", "default", "deprecated", "description", "discriminator", "examples", "readOnly", "title", "writeOnly",
})  # fmt: skip
_REFERENCE_KEYWORDS: Final = frozenset({"$anchor", "$defs", "$id", "$schema", "definitions"})
_COMPARED_KEYWORDS: Final = _BOUNDS.keys() | {
    "additionalProperties", "allOf", "anyOf", "const", "enum", "items", "properties", "required", "type",
}  # fmt: skip
"""Keywords that are compared by meaning. All others must be the same in both schemas, or absent from the second."""
_REF_ELSEWHERE: Final = re.compile(r'"(\$dynamicRef|\$recursiveRef|\$ref": "(?!#/(\$defs|definitions)/))')
"""Matches a reference that does not lead into the definitions, in the JSON of a schema."""
_ANYTHING: Final[JsonObject] = {}


def find_incompatibilities(before: JsonObject, after: JsonObject, *, allow_removed: bool = True) -> tuple[str, ...]:
    """Return why a value that fits `before` may not fit `after`; nothing when every value does.

    With `allow_removed=False` a property that `after` no longer declares is a reason, too.

    >>> find_incompatibilities({"type": "string"}, {"type": ["string", "null"]})
    ()
    >>> find_incompatibilities({"properties": {"a": {}}}, {"properties": {"a": {"enum": [1]}}})
    ("'a' accepts certain values only",)
    """
    try:
        before, after = _without_annotations(before), _without_annotations(after)
        if _to_text(before) == _to_text(after):
            return ()
        drafts = [str(root.get("$schema", _DEFAULT_DRAFT)).rstrip("#") for root in (before, after)]
        if drafts[0] != drafts[1] or drafts[0] not in _COMPARABLE_DRAFTS:
            return (f"it uses another JSON Schema draft: {drafts[1]!r}",)
        comparison = _Comparison(before, after, drafts[0], allow_removed=allow_removed)
        return tuple(dict.fromkeys(comparison.compare_values(before, after, "")))
    except _TooComplexError:
        return ("it is too complex to compare",)
    except (DefinitionError, TypeError, ValueError, AttributeError, RecursionError):
        return ("it cannot be compared",)


class _TooComplexError(Exception):
    pass


class _Comparison:
    """One comparison of two schemas without annotations; `path` is the place of the value that a reason is about."""

    def __init__(self, before: JsonObject, after: JsonObject, draft: str, *, allow_removed: bool) -> None:
        self._old_graph, self._new_graph = RefGraph(before), RefGraph(after)
        self._refs_hide_siblings = draft in _REF_ONLY_DRAFTS
        self._allow_removed = allow_removed
        self._steps_left = MAX_STEPS
        self._assumed: set[tuple[int, int]] = set()
        old_definitions, definitions = (
            _to_text([root.get(key) for key in ("$defs", "definitions")]) for root in (before, after)
        )
        self._has_same_definitions = old_definitions == definitions and not _REF_ELSEWHERE.search(definitions)

    def compare_values(self, old: Any, new: Any, path: str) -> list[str]:
        reasons: list[str] = []
        if not self._allow_removed:
            removed = self._find_property_names(old, self._old_graph) - self._find_property_names(new, self._new_graph)
            reasons += [f"{_quote(path, name)} is gone" for name in sorted(removed)]
        return reasons + self._compare_schemas(old, new, path)

    def _compare_schemas(self, old: Any, new: Any, path: str) -> list[str]:
        old, new = self._resolve(old, self._old_graph), self._resolve(new, self._new_graph)
        if old is False or new is True or self._is_same(old, new):
            return []
        if new is False:
            return [f"{_quote(path)} accepts nothing"]
        old = _ANYTHING if old is True else old
        pair = (id(old), id(new))
        if pair in self._assumed:
            return []  # it is part of a recursive schema, and being compared already
        self._assumed.add(pair)
        unions = [old[key] for key in ("anyOf", "oneOf") if old.keys() - _REFERENCE_KEYWORDS == {key}]
        if unions:
            reasons = [reason for branch in unions[0] for reason in self._compare_schemas(branch, new, path)]
        else:
            reasons = list(self._compare_keywords(old, new, path))
        self._assumed.discard(pair)
        return reasons

    def _compare_keywords(self, old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
        name, types = _quote(path), _find_types(old)
        if refused := types - _parse_types(new):
            yield f"{name} no longer accepts {' or '.join(sorted(refused))}"
        if any(not any(old_enum <= enum for old_enum in _iter_enums(old)) for enum in _iter_enums(new)):
            yield f"{name} accepts certain values only"
        for keyword in new.keys() & _BOUNDS:
            stricter = {keyword, _EXCLUSIVE_BOUNDS.get(keyword, keyword)}
            if not any(_BOUNDS[keyword](new[keyword], old[key]) for key in stricter & old.keys()):
                yield f"{name} has another {keyword!r}"
        if rest := _select_other_keywords(new):
            is_decided = not any(keyword.startswith("unevaluated") for keyword in rest)
            if not (is_decided and self._is_same(_select_other_keywords(old), rest)):
                yield f"{name} has another {' or '.join(map(repr, sorted(rest)))}"
        yield from self._compare_combinators(old, new, path)
        if "array" in types and "items" in new:
            items = True if "prefixItems" in old.keys() - new.keys() else old.get("items", True)
            yield from self.compare_values(items, new["items"], f"{path}[]")
        if "object" in types:
            yield from self._compare_properties(old, new, path)

    def _compare_combinators(self, old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
        if "allOf" in new and not self._is_same(old.get("allOf"), new["allOf"]):
            for part in new["allOf"]:
                yield from self._compare_schemas(old, part, path)
        is_same = "anyOf" not in new or self._is_same(old.get("anyOf"), new["anyOf"])
        if not is_same and all(self._compare_schemas(old, choice, path) for choice in new["anyOf"]):
            yield f"{_quote(path)} has other choices"

    def _compare_properties(self, old: JsonObject, new: JsonObject, path: str) -> Iterator[str]:
        required = old.get("required", ())
        yield from (f"{_quote(path, name)} is required" for name in new.get("required", ()) if name not in required)
        properties, others = new.get("properties", {}), new.get("additionalProperties", True)
        for name in properties if others is True else {**properties, **old.get("properties", {})}:
            schema = properties.get(name, others)
            yield from self.compare_values(_find_property_schema(old, name), schema, join_path(path, name))
        is_open = "patternProperties" in old.keys() - new.keys()
        old_others = True if is_open else old.get("additionalProperties", True)
        if others is False and old_others is not False:
            yield f"{_quote(path)} accepts no other members"
        elif others is not False:
            yield from self.compare_values(old_others, others, f"{path}.*")

    def _resolve(self, schema: Any, graph: RefGraph) -> Any:
        """Return the target of a schema that is nothing but a reference."""
        while isinstance(schema, dict) and "$ref" in schema:
            if not self._refs_hide_siblings and schema.keys() - _REFERENCE_KEYWORDS != {"$ref"}:
                break
            schema = graph.resolve_ref(schema["$ref"])
        return schema

    def _find_property_names(self, schema: Any, graph: RefGraph) -> set[str]:
        """Return the names of the properties that a schema declares, in any branch."""
        names: set[str] = set()
        pending = [schema]
        while pending:
            node = self._resolve(pending.pop(), graph)
            self._spend(1)
            if isinstance(node, dict):
                names |= {name for name, part in node.get("properties", {}).items() if part is not False}
                pending.extend(graph.find_in_place_subschemas(node))
        return names

    def _is_same(self, old: Any, new: Any) -> bool:
        old_text, text = _to_text(old), _to_text(new)
        self._spend(1 + (len(old_text) + len(text)) // 100)
        if old_text != text or _REF_ELSEWHERE.search(text):
            return False
        return self._has_same_definitions or '"$ref"' not in text

    def _spend(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise _TooComplexError


def _find_property_schema(old: JsonObject, name: str) -> Any:
    """Return the schema of one property: False if it is not declared and assumed to be absent."""
    properties = old.get("properties", {})
    if name in properties:
        return properties[name]
    return "patternProperties" in old or old.get("additionalProperties", "properties" not in old)


def _find_types(node: JsonObject) -> frozenset[str]:
    """Return the types of the values that may fit a schema; "number" means one with a fraction."""
    return _parse_types(node).intersection(*(map(_get_type, enum) for enum in _iter_enums(node)))


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
            yield set(map(_to_text, values))


def _select_other_keywords(schema: JsonObject) -> JsonObject:
    """Return the part of a schema that is not compared by meaning."""
    return {key: value for key, value in schema.items() if key not in _COMPARED_KEYWORDS | _REFERENCE_KEYWORDS}


def _without_annotations(schema: JsonObject) -> JsonObject:
    stripped = copy.deepcopy(schema)
    for node in iter_schemas(stripped):
        for key in [key for key in node if key in _ANNOTATION_KEYWORDS or key.startswith("x-")]:
            del node[key]
    return stripped


def _to_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _quote(path: str, name: str = "") -> str:
    return repr(join_path(path, name) if name else path) if path or name else "it"
