"""Dialects: the part of JSON Schema that a provider takes, and a schema said in it.

What a dialect has no word for is told in the description, for the model; the tool itself still enforces it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ahvn_tools.schema.dialects.describe import NOT_ENFORCED, append_description, to_json_text
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.schema.dialects.normalize import JSON_TYPES
from ahvn_tools.schema.dialects.ollama import to_ollama
from ahvn_tools.schema.dialects.openapi import to_openapi
from ahvn_tools.schema.refs import DEFS_PREFIX, find_cyclic_refs
from ahvn_tools.schema.titles import without_unused_definitions

JsonObject = dict[str, Any]

MAX_INLINED = 2_000
"""So many schemas are written in the place of references; further ones are only named."""

MAX_RULE_CHARS = 1_000
"""A rule of more characters is not told in a description."""

_SILENTLY_DROPPED = frozenset(
    {"title", "examples", "example", "discriminator", "deprecated", "readOnly", "writeOnly", "$comment"}
)
_CORE_KEYWORDS = frozenset({"type", "description", "properties", "required", "items", "anyOf", "enum"})
_RANGE_KEYWORDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
_SCHEMA_KEYWORDS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SCHEMA_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA_MAP_KEYWORDS = ("patternProperties", "dependentSchemas")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a provider takes of JSON Schema 2020-12."""

    keywords: frozenset[str] | None = None
    """The keywords that it knows; None: all, unknown ones included."""
    formats: frozenset[str] | None = None
    """The values of `format` that it knows; None: all."""
    enum_types: tuple[type, ...] | None = None
    """The kinds of values that an enum may hold; None: all."""
    supports_references: bool = True
    """Whether `$ref` is understood; otherwise what it leads to is written in its place."""
    requires_bare_references: bool = False
    """Whether a `$ref` must stand alone, and may lead back to itself only through members that are not required."""
    supports_tuples: bool = True
    """Whether `prefixItems` is understood."""
    allows_untyped_items: bool = True
    """Whether an array may leave open what is in it."""
    finalize: Callable[[JsonObject], tuple[JsonObject, list[Finding]]] | None = None
    """What is done to a schema at last, in place; gives what it loses by that."""

    def supports(self, keyword: str) -> bool:
        """Tell whether a keyword is understood."""
        return self.keywords is None or keyword in self.keywords


OPENAI: Final = Dialect(supports_tuples=False, allows_untyped_items=False)
"""OpenAI without strict, and the hosts that speak like it."""
ANTHROPIC: Final = Dialect()
"""JSON Schema 2020-12 as it is."""
MCP: Final = Dialect()
"""JSON Schema 2020-12 as it is."""
BEDROCK: Final = Dialect(supports_references=False, supports_tuples=False, allows_untyped_items=False)
"""What the models of all families behind Converse take; some do not see `$defs`."""
GEMINI: Final = Dialect(
    keywords=_CORE_KEYWORDS | _RANGE_KEYWORDS | {"$ref", "$defs", "prefixItems", "additionalProperties"},
    formats=frozenset(),
    enum_types=(str, int, float),
    requires_bare_references=True,
    allows_untyped_items=False,
)
"""Gemini's `parametersJsonSchema`."""
GEMINI_PARAMETERS: Final = Dialect(
    keywords=_CORE_KEYWORDS
    | _RANGE_KEYWORDS
    | {"format", "pattern", "minLength", "maxLength", "minProperties", "maxProperties"},
    formats=frozenset({"date-time"}),
    enum_types=(str,),
    supports_references=False,
    supports_tuples=False,
    allows_untyped_items=False,
    finalize=to_openapi,
)
"""Gemini's older `parameters`, a part of OpenAPI's schemas."""
OLLAMA: Final = Dialect(
    supports_references=False, supports_tuples=False, allows_untyped_items=False, finalize=to_ollama
)
"""What Ollama's own SDK leaves of a schema."""


def translate(schema: JsonObject, dialect: Dialect) -> tuple[JsonObject, list[Finding]]:
    """Return a schema in standard form as the dialect says it, and what it loses by that."""
    if dialect in (ANTHROPIC, MCP):
        return schema, []
    work = _Translator(schema, dialect)
    made = work.translate_node({key: value for key, value in schema.items() if key != "$defs"}, "")
    if dialect.supports_references and "$defs" in schema:
        made["$defs"] = {name: work.translate_definition(name, node) for name, node in schema["$defs"].items()}
    made, losses = (dialect.finalize or _identity)(without_unused_definitions(made))
    return made, [*work.findings, *losses]


def _identity(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    return schema, []


class _Translator:
    """One walk through a schema; findings are collected, so that all are told at once."""

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

    def translate_node(self, node: JsonObject, where: str, *, is_needed: bool = True) -> JsonObject:
        """Return a schema as the dialect says it; `is_needed`: every member on the way to it is required."""
        if "$ref" in node:
            return self._translate_reference(node, where, is_needed=is_needed)
        if "allOf" in node and not self._dialect.supports("allOf"):
            return self._merge_all_of(node, where, is_needed=is_needed)
        made: JsonObject = {}
        sentences: list[str] = []
        for key, value in self._substitute_keywords(node, where).items():
            if self._supports(key, value):
                made[key] = value
            else:
                sentences += self._describe_keyword(key, value, where)
        self._translate_subschemas(made, where, is_needed=is_needed)
        append_description(made, sentences)
        return made

    def _substitute_keywords(self, node: JsonObject, where: str) -> JsonObject:
        """Say in other keywords what the dialect has other keywords for."""
        made = dict(node)
        takes = self._dialect.supports
        if "const" in made and not takes("const"):
            made["enum"] = [made.pop("const")]
        if "oneOf" in made and not takes("oneOf") and "anyOf" not in made:
            made["anyOf"] = made.pop("oneOf")
        if "prefixItems" in made and not self._dialect.supports_tuples:
            self._rewrite_tuple(made, where)
        if "patternProperties" in made and not takes("patternProperties"):
            made.pop("additionalProperties", None)  # it would forbid what the patterns allow
        if "enum" in made and self._dialect.enum_types is not None:
            self._rewrite_enum(made)
        if made.get("type") == "integer":
            for exclusive, plain, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
                if not takes(exclusive) and takes(plain) and type(made.get(exclusive)) is int and plain not in made:
                    made[plain] = made.pop(exclusive) + step
        return made

    def _rewrite_enum(self, made: JsonObject) -> None:
        """Say null as a type of its own, and the type of the other values."""
        values = [value for value in made["enum"] if value is not None]
        has_null = len(values) < len(made["enum"])
        types = list(dict.fromkeys(JSON_TYPES[type(value)] for value in values))
        if "type" not in made or has_null:
            kinds = [*types, *(["null"] if has_null else [])]
            made["type"] = kinds[0] if len(kinds) == 1 else kinds
        if values and not (has_null and "anyOf" in made):
            made["enum"] = values
        else:
            del made["enum"]
        if values and has_null and "anyOf" not in made:
            branch = {"type": types[0] if len(types) == 1 else types, "enum": made.pop("enum")}
            made.pop("type")
            made["anyOf"] = [branch, {"type": "null"}]

    def _rewrite_tuple(self, made: JsonObject, where: str) -> None:
        """Say a tuple as an array of any of its items; how many and in which order is told."""
        items = made.pop("prefixItems")
        rest = [made["items"]] if isinstance(made.get("items"), dict) else []
        distinct = list({to_json_text(item): item for item in [*items, *rest]}.values())
        made["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
        names = [kind if isinstance(kind := item.get("type"), str) else "any" for item in items]
        if len(distinct) > 1:
            append_description(made, [f"The items, in this order: {', '.join(names)}."])
            self._add_finding("warning", where, "'prefixItems' is not enforced", NOT_ENFORCED)

    def _supports(self, key: str, value: Any) -> bool:
        dialect = self._dialect
        if key == "format" and dialect.formats is not None:
            return value in dialect.formats
        if key == "enum" and dialect.enum_types is not None:
            return all(type(item) in dialect.enum_types and item != "" for item in value)
        return dialect.supports(key)

    def _describe_keyword(self, key: str, value: Any, where: str) -> list[str]:
        """Return what to tell of a keyword that the dialect does not take."""
        if key in _SILENTLY_DROPPED or (key == "additionalProperties" and isinstance(value, bool)):
            return []
        if key == "default":
            return [] if value is None else [f"Default: {to_json_text(value)}."]
        self._add_finding("warning", where, f"{key!r} is not enforced", NOT_ENFORCED)
        if key == "enum":
            rule = f"One of: {', '.join(map(to_json_text, value))}."
        else:
            rule = f"{key}: {to_json_text(self._without_references(key, value, where))}."
        return [rule if len(rule) <= MAX_RULE_CHARS else f"A rule on {key!r} is checked when the tool is called."]

    def _without_references(self, key: str, value: Any, where: str) -> Any:
        """Return what a keyword says, its schemas without references where the dialect has none."""
        if self._dialect.supports_references:
            return value
        holder = {key: value}
        self._translate_subschemas(holder, where, is_needed=False)
        return holder[key] if key in holder else holder["anyOf"]  # the branches of a `oneOf` may say less now

    def _translate_subschemas(self, made: JsonObject, where: str, *, is_needed: bool) -> None:
        """Say the schemas inside one."""
        found_before = len(self.findings)
        required = made.get("required", ())
        if required and self._dialect.keywords is not None:
            made["properties"] = {**made.get("properties", {}), **_undescribed_properties(made)}
        if "properties" in made:
            made["properties"] = {
                name: self.translate_node(
                    node, f"{where}.{name}" if where else name, is_needed=is_needed and name in required
                )
                for name, node in made["properties"].items()
            }
        for key in _SCHEMA_KEYWORDS:
            if isinstance(made.get(key), dict):
                made[key] = self.translate_node(made[key], f"{where}[]", is_needed=is_needed)
        for key in _SCHEMA_LIST_KEYWORDS:
            if key in made:
                made[key] = [
                    self.translate_node(node, f"{where}[{i}]", is_needed=is_needed) for i, node in enumerate(made[key])
                ]
        for key in _SCHEMA_MAP_KEYWORDS:
            if key in made:
                made[key] = {name: self.translate_node(node, f"{where}[{name}]") for name, node in made[key].items()}
        if len(self.findings) > found_before and "oneOf" in made and "anyOf" not in made:
            made["anyOf"] = made.pop("oneOf")  # branches that say less may overlap
        self._add_missing_items(made)

    def _add_missing_items(self, made: JsonObject) -> None:
        types = made.get("type", ())
        if "array" in ([types] if isinstance(types, str) else types) and not self._dialect.allows_untyped_items:
            made.setdefault("items", {})

    def _translate_reference(self, node: JsonObject, where: str, *, is_needed: bool) -> JsonObject:
        beside = {key: value for key, value in node.items() if key != "$ref" and key not in _SILENTLY_DROPPED}
        reference = node["$ref"]
        if self._dialect.supports_references and not self._dialect.requires_bare_references:
            return node
        is_loop = reference in self._cyclic_references and (bool(self._inlining) or "#" in self._cyclic_references)
        stays = self._dialect.supports_references and not (is_needed and is_loop)
        if stays and not beside:
            return {"$ref": reference}
        if stays and beside.keys() == {"description"}:
            return {"description": beside["description"], "anyOf": [{"$ref": reference}]}
        return self._inline_reference(reference, beside, where, is_needed=is_needed)

    def _inline_reference(self, reference: str, siblings: JsonObject, where: str, *, is_needed: bool) -> JsonObject:
        target = self._definitions.get(reference.removeprefix(DEFS_PREFIX))
        self._remaining_inlines -= 1
        if target is None or reference in self._inlining or self._remaining_inlines < 0:
            return self._describe_reference(reference, target, siblings, where)
        self._inlining.append(reference)
        made = self.translate_node({**target, **siblings}, where, is_needed=is_needed)
        self._inlining.pop()
        return made

    def _describe_reference(
        self, reference: str, target: JsonObject | None, siblings: JsonObject, where: str
    ) -> JsonObject:
        """Return what can be said of a schema without writing it once more."""
        self._add_finding("warning", where, "it contains itself, or very much", NOT_ENFORCED)
        said = {"type": "object"} if target is None else target
        made = {"type": said["type"]} if "type" in said else {}
        self._add_missing_items(made)
        if "description" in siblings:
            made["description"] = siblings["description"]
        name = reference.removeprefix(DEFS_PREFIX)
        append_description(
            made, ["The same form as the whole." if name == "#" else f"One more `{name}`, of the form told above."]
        )
        return made

    def _merge_all_of(self, node: JsonObject, where: str, *, is_needed: bool) -> JsonObject:
        """Return a schema and all parts of its `allOf` as one, as the dialect says it."""
        were_open = len(self._inlining)
        made = {key: value for key, value in node.items() if key != "allOf"}
        clashes: list[str] = []
        for branch in node["allOf"]:
            clashes += self._merge_branch(made, self._resolve_branch(branch, where), where)
        append_description(made, clashes)
        said = self.translate_node(made, where, is_needed=is_needed)
        del self._inlining[were_open:]
        return said

    def _resolve_branch(self, node: JsonObject, where: str) -> JsonObject:
        """Return what a part of an `allOf` says by itself: its reference followed, its own parts joined."""
        if "$ref" in node:
            reference, beside = node["$ref"], {key: value for key, value in node.items() if key != "$ref"}
            target = self._definitions.get(reference.removeprefix(DEFS_PREFIX))
            self._remaining_inlines -= 1
            if target is None or reference in self._inlining or self._remaining_inlines < 0:
                return self._describe_reference(reference, target, beside, where)
            self._inlining.append(reference)
            return self._resolve_branch({**target, **beside}, where)
        made = {key: value for key, value in node.items() if key != "allOf"}
        for branch in node.get("allOf", ()):
            append_description(made, self._merge_branch(made, self._resolve_branch(branch, where), where))
        return made

    def _merge_branch(self, made: JsonObject, part: JsonObject, where: str) -> list[str]:
        """Add a part to the whole. Return what to tell of keywords that clash."""
        clashes: list[str] = []
        for key, value in part.items():
            if key == "properties":
                made[key] = _merge_properties(made.get(key, {}), value)
            elif key == "required":
                made[key] = list(dict.fromkeys([*made.get(key, ()), *value]))
            elif key not in made:
                made[key] = value
            elif key != "description" and made[key] != value:
                clashes += self._describe_keyword(key, value, where)
        return clashes

    def _add_finding(self, severity: Any, where: str, problem: str, fix: str) -> None:
        self.findings.append(Finding(severity=severity, place=where, problem=problem, fix=fix))


def _undescribed_properties(node: JsonObject) -> JsonObject:
    """Return the members that a schema requires and does not describe: they may be anything."""
    return {name: {} for name in node["required"] if name not in node.get("properties", {})}


def _merge_properties(known: JsonObject, further: JsonObject) -> JsonObject:
    """Return the members of two parts; a member of both is what both say of it."""
    both = {
        name: {"allOf": [known[name], further[name]]}
        for name in known.keys() & further.keys()
        if known[name] != further[name]
    }
    return {**further, **known, **both}
