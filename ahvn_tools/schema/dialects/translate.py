"""Translation of a normalized schema to a dialect: unsupported keywords are replaced, or described for the model.

The tool itself still enforces what is only described.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import (
    EXACTLY_ONE,
    UNDESCRIBED_KEYWORDS,
    append_description,
    describe_default,
    describe_rule,
    to_json_text,
)
from ahvn_tools.schema.dialects.dialect import ANTHROPIC, MCP, Dialect
from ahvn_tools.schema.dialects.finding import NOT_ENFORCED_FIX, Finding, not_enforced
from ahvn_tools.schema.dialects.merge import are_exclusive, merge
from ahvn_tools.schema.keywords import map_subschemas, type_keyword, type_names, value_types
from ahvn_tools.schema.refs import DEFS_PREFIX, find_cyclic_refs, resolve_ref, without_unused_definitions

MAX_INLINED = 2_000
"""At most this many references are replaced by their targets; further ones are only described."""

MAX_RULE_CHARS = 1_000
"""A rule with more characters is not written into a description."""


def translate(schema: JsonObject, dialect: Dialect) -> tuple[JsonObject, list[Finding]]:
    """Return a normalized schema in a dialect, and findings on what the dialect cannot express."""
    if dialect in (ANTHROPIC, MCP):
        return schema, []
    translator = _Translator(schema, dialect)
    translated = translator.translate_node({key: value for key, value in schema.items() if key != "$defs"}, "")
    if dialect.supports_references and "$defs" in schema:
        translated["$defs"] = {
            name: translator.translate_definition(name, node) for name, node in schema["$defs"].items()
        }
    translated, losses = without_unused_definitions(translated), list[Finding]()
    if dialect.finalize is not None:
        translated, losses = dialect.finalize(translated)
    return translated, [*translator.findings, *losses]


_BESIDE_UNIONS = frozenset({"anyOf", "description", "default", *UNDESCRIBED_KEYWORDS})
"""The keywords that a dialect with single types may have beside a union, as they restrict no value."""
_ANY_VALUE: Final = Finding(
    severity="warning",
    place="",
    problem="it may be anything, but null and lists of lists or of null are not accepted",
    fix="State its type.",
    effect="narrower",
)
_OPEN_TUPLE: Final = Finding(
    severity="warning",
    place="",
    problem="further items may not be of any type",
    fix="State the type of further items in 'items', or their number in 'maxItems'.",
    effect="narrower",
)


class _Translator:
    """One walk through a schema; `findings` collects all that the dialect cannot express."""

    def __init__(self, schema: JsonObject, dialect: Dialect) -> None:
        self.findings: list[Finding] = []
        self._dialect = dialect
        self._definitions: JsonObject = schema.get("$defs", {})
        self._remaining_inlines = MAX_INLINED
        self._inlining: list[str] = []
        self._cyclic_references = find_cyclic_refs(schema) if dialect.requires_bare_references else set()

    def translate_definition(self, name: str, node: JsonObject) -> JsonObject:
        self._inlining = [DEFS_PREFIX + name]
        return self.translate_node(node, f"$defs.{name}")

    def translate_node(self, node: JsonObject, path: str, *, is_needed: bool = True) -> JsonObject:
        """Return a schema in the dialect. `is_needed`: every member on the path to it is required."""
        if "$ref" in node:
            return self._translate_reference(node, path, is_needed=is_needed)
        if "allOf" in node and not self._dialect.supports("allOf"):
            return self._merge_all_of(node, path, is_needed=is_needed)
        node = self._substitute_keywords(node, path)
        if self._dialect.has_single_types and "anyOf" in node and not node.keys() <= _BESIDE_UNIONS:
            return self._distribute_union(node, path, is_needed=is_needed)
        translated: JsonObject = {}
        sentences: list[str] = []
        for key, value in node.items():
            if self._supports(key, value):
                translated[key] = value
            elif key == "default":
                sentences += filter(None, [describe_default(node)])
            else:
                sentences += self._describe_keyword(key, value, path)
        if self._dialect.has_single_types and not translated.keys() & {"type", "anyOf"}:
            self.findings.append(replace(_ANY_VALUE, place=path))
        self._translate_subschemas(translated, path, is_needed=is_needed)
        append_description(translated, sentences)
        return translated

    def _substitute_keywords(self, node: JsonObject, path: str) -> JsonObject:
        """Replace keywords that the dialect does not support by equivalent ones, where there are any."""
        node = dict(node)
        supports = self._dialect.supports
        if "const" in node and not supports("const"):
            node["enum"] = [node.pop("const")]
        if "oneOf" in node and not supports("oneOf") and "anyOf" not in node:
            self._replace_one_of(node, path)
        if "prefixItems" in node and not self._dialect.supports_tuples:
            self._rewrite_tuple(node, path)
        if "patternProperties" in node and not supports("patternProperties"):
            node.pop("additionalProperties", None)  # it would forbid what the patterns allow
        if "enum" in node and self._dialect.enum_types is not None:
            _rewrite_enum(node)
        if node.get("type") == "integer":
            for exclusive, plain, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
                is_replaceable = type(node.get(exclusive)) is int and plain not in node
                if is_replaceable and supports(plain) and not supports(exclusive):
                    node[plain] = node.pop(exclusive) + step
        return node

    def _replace_one_of(self, node: JsonObject, path: str) -> None:
        """Write a `oneOf` as `anyOf`, in place, which is the same if the branches exclude each other."""
        node["anyOf"] = node.pop("oneOf")
        if not are_exclusive(node["anyOf"], lambda branch: resolve_ref(branch, {"$defs": self._definitions})):
            append_description(node, [EXACTLY_ONE])
            self.findings.append(not_enforced("oneOf", path))

    def _rewrite_tuple(self, node: JsonObject, path: str) -> None:
        """Write a tuple as an array whose items have any of its types; the description states their order."""
        items = node.pop("prefixItems")
        rest = [node["items"]] if isinstance(node.get("items"), dict) else []
        if not rest and node.get("maxItems", len(items) + 1) > len(items):
            self.findings.append(replace(_OPEN_TUPLE, place=path))
        distinct = list({to_json_text(item): item for item in [*items, *rest]}.values())
        node["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
        if len(distinct) > 1:
            types = [kind if isinstance(kind := item.get("type"), str) else "any" for item in items]
            append_description(node, [f"The items, in order: {', '.join(types)}."])
            self.findings.append(not_enforced("prefixItems", path))

    def _supports(self, key: str, value: Any) -> bool:
        dialect = self._dialect
        if key == "format" and dialect.formats is not None:
            return value in dialect.formats
        if key == "enum" and dialect.enum_types is not None:
            return all(type(item) in dialect.enum_types and item != "" for item in value)
        return dialect.supports(key)

    def _describe_keyword(self, key: str, value: Any, path: str) -> list[str]:
        """Return the sentences for a keyword that the dialect does not support."""
        if key in UNDESCRIBED_KEYWORDS or (key == "additionalProperties" and isinstance(value, bool)):
            return []
        self.findings.append(not_enforced(key, path))
        rule = describe_rule(key, self._without_references(key, value, path))
        too_long = f"The tool also checks a {key!r} rule that is too long to show here."
        return [rule if len(rule) <= MAX_RULE_CHARS else too_long]

    def _without_references(self, key: str, value: Any, path: str) -> Any:
        """Translate the schemas in a keyword's value where the dialect does not support references."""
        if self._dialect.supports_references:
            return value
        node = {key: value}
        self._translate_subschemas(node, path, is_needed=False)
        return node[key] if key in node else node["anyOf"]  # a translated `oneOf` may have become an `anyOf`

    def _translate_subschemas(self, node: JsonObject, path: str, *, is_needed: bool) -> None:
        finding_count = len(self.findings)
        required = node.get("required", ())
        if required and self._dialect.keywords is not None:
            properties = node.get("properties", {})
            if node.get("additionalProperties") is False and not properties.keys() >= set(required):
                self.findings.append(not_enforced("additionalProperties", path))
            others = node.get("additionalProperties")
            undeclared = others if isinstance(others, dict) else {}
            node["properties"] = {**properties, **{name: undeclared for name in required if name not in properties}}

        def convert(keyword: str, name: str, child: Any, child_path: str) -> Any:
            is_child_needed = is_needed and (keyword != "properties" or name in required)
            return (
                self.translate_node(child, child_path, is_needed=is_child_needed) if isinstance(child, dict) else child
            )

        map_subschemas(node, path, convert)
        if len(self.findings) > finding_count and "oneOf" in node and "anyOf" not in node:
            self._replace_one_of(node, path)  # branches that lost a rule may overlap
        self._add_missing_items(node)

    def _add_missing_items(self, node: JsonObject) -> None:
        if "array" in type_names(node) and not self._dialect.allows_untyped_items:
            node.setdefault("items", {})

    def _translate_reference(self, node: JsonObject, path: str, *, is_needed: bool) -> JsonObject:
        dialect, reference = self._dialect, node["$ref"]
        if dialect.supports_references and not dialect.requires_bare_references:
            return node
        siblings = {key: value for key, value in node.items() if key != "$ref" and key not in UNDESCRIBED_KEYWORDS}
        is_loop = reference in self._cyclic_references and (bool(self._inlining) or "#" in self._cyclic_references)
        if dialect.supports_references and not (is_needed and is_loop) and siblings.keys() <= {"description"}:
            bare = {"$ref": reference}
            return {**siblings, "anyOf": [bare]} if siblings else bare
        depth = len(self._inlining)
        translated = self.translate_node(self._inline(reference, siblings, path), path, is_needed=is_needed)
        del self._inlining[depth:]
        return translated

    def _inline(self, reference: str, siblings: JsonObject, path: str) -> JsonObject:
        """Return the target of a reference with the reference's siblings, or a description of the target.

        A target that is returned is added to `_inlining`, for the caller to remove.
        """
        name = reference.removeprefix(DEFS_PREFIX)
        target = self._definitions.get(name)
        self._remaining_inlines -= 1
        if target is not None and reference not in self._inlining and self._remaining_inlines >= 0:
            self._inlining.append(reference)
            return self._merge(siblings, target, path)
        problem = "it is recursive, or too large to repeat"
        self.findings.append(
            Finding(severity="note", place=path, problem=problem, fix=NOT_ENFORCED_FIX, effect="wider")
        )
        target = self._definitions.get(name, {"type": "object"})
        described = {"type": target["type"]} if "type" in target else {}
        self._add_missing_items(described)
        same = (
            "The same structure as the root object."
            if name == "#"
            else f"Another `{name}`, with the structure described above."
        )
        append_description(described, [siblings.get("description"), same])
        return described

    def _merge_all_of(self, node: JsonObject, path: str, *, is_needed: bool) -> JsonObject:
        """Translate a schema together with all branches of its `allOf`, merged into one schema."""
        depth = len(self._inlining)
        translated = self.translate_node(self._resolve_branch(node, path), path, is_needed=is_needed)
        del self._inlining[depth:]
        return translated

    def _resolve_branch(self, node: JsonObject, path: str) -> JsonObject:
        """Return a branch of an `allOf` with its reference replaced and its own branches merged."""
        if "$ref" in node:
            siblings = {key: value for key, value in node.items() if key != "$ref"}
            return self._resolve_branch(self._inline(node["$ref"], siblings, path), path)
        merged = {key: value for key, value in node.items() if key != "allOf"}
        for branch in node.get("allOf", ()):
            merged = self._merge(merged, self._resolve_branch(branch, path), path)
        return merged

    def _merge(self, first: JsonObject, second: JsonObject, path: str) -> JsonObject:
        """Return two schemas as one; the description states the keywords of the second that one schema cannot have."""
        merged, omitted = merge(first, second)
        if merged is None:  # no value can match both
            merged, omitted = dict(first), [key for key in second if key not in _BESIDE_UNIONS]
        sentences = [sentence for key in omitted for sentence in self._describe_keyword(key, second[key], path)]
        append_description(merged, sentences)
        return merged

    def _distribute_union(self, node: JsonObject, path: str, *, is_needed: bool) -> JsonObject:
        """Translate a union with rules beside it: each branch is merged with them, impossible ones are left out."""
        rules = {key: value for key, value in node.items() if key not in _BESIDE_UNIONS}
        branches: list[JsonObject] = []
        self._remaining_inlines -= len(node["anyOf"])
        for index, branch in enumerate(node["anyOf"] if self._remaining_inlines >= 0 else ()):
            depth, branch_path = len(self._inlining), f"{path}[{index}]"
            resolved = self._resolve_branch(branch, branch_path)
            if merge(resolved, rules)[0] is not None:
                merged = self._merge(resolved, rules, branch_path)
                branches.append(self.translate_node(merged, branch_path, is_needed=is_needed))
            del self._inlining[depth:]
        annotations = {key: value for key, value in node.items() if key in {"description", "default"}}
        if not branches:
            sentences = self._describe_keyword("anyOf", node["anyOf"], path)
            append_description(annotations, sentences)
            return self.translate_node({**rules, **annotations}, path, is_needed=is_needed)
        union: JsonObject = {"anyOf": list({to_json_text(branch): branch for branch in branches}.values())}
        append_description(union, [annotations.get("description"), describe_default(annotations)])
        return union


def _rewrite_enum(node: JsonObject) -> None:
    """Write the null of an enum as a type, and add the type of its other values."""
    values = [value for value in node["enum"] if value is not None]
    has_null = len(values) < len(node["enum"])
    types = value_types(values)
    if values and not has_null and "null" in type_names(node):  # the type allows null, the enum does not
        node["type"] = type_keyword([kind for kind in type_names(node) if kind != "null"])
    if values and has_null and "anyOf" in node:
        return
    if values and has_null:
        del node["enum"]
        node.pop("type", None)
        node["anyOf"] = [{"type": type_keyword(types), "enum": values}, {"type": "null"}]
        return
    if "type" not in node or has_null:
        node["type"] = type_keyword([*types, *(["null"] if has_null else [])])
    if has_null:
        del node["enum"]
