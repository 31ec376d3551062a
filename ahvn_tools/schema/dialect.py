"""Dialects: the part of JSON Schema that a provider takes, and a schema said in it.

What a dialect has no word for is told in the description, for the model; the tool itself still enforces it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ahvn_tools.schema.finding import Finding
from ahvn_tools.schema.flat import flat
from ahvn_tools.schema.openapi import openapi
from ahvn_tools.schema.references import PREFIX, cycles
from ahvn_tools.schema.standard import JSON_TYPES
from ahvn_tools.schema.telling import NOT_ENFORCED, tell, text
from ahvn_tools.schema.titles import without_unused_definitions

JsonObject = dict[str, Any]

MOST_INLINED = 2_000
"""So many schemas are written in the place of references; further ones are only named."""

LONGEST_RULE = 1_000
"""A rule of more characters is not told in a description."""

_SILENT = frozenset(
    {"title", "examples", "example", "discriminator", "deprecated", "readOnly", "writeOnly", "$comment"}
)
_CORE = frozenset({"type", "description", "properties", "required", "items", "anyOf", "enum"})
_SIZES = frozenset({"minimum", "maximum", "minItems", "maxItems"})
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_BRANCHES = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("patternProperties", "dependentSchemas")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a provider takes of JSON Schema 2020-12."""

    keywords: frozenset[str] | None = None
    """The keywords that it knows; None: all, unknown ones included."""
    formats: frozenset[str] | None = None
    """The values of `format` that it knows; None: all."""
    enums: tuple[type, ...] | None = None
    """The kinds of values that an enum may hold; None: all."""
    has_references: bool = True
    """Whether `$ref` is understood; otherwise what it leads to is written in its place."""
    has_bare_references: bool = False
    """Whether a `$ref` must stand alone, and may lead back to itself only through members that are not required."""
    has_tuples: bool = True
    """Whether `prefixItems` is understood."""
    has_untyped_items: bool = True
    """Whether an array may leave open what is in it."""
    finish: Callable[[JsonObject], tuple[JsonObject, list[Finding]]] | None = None
    """What is done to a schema at last, in place; gives what it loses by that."""

    def takes(self, keyword: str) -> bool:
        """Tell whether a keyword is understood."""
        return self.keywords is None or keyword in self.keywords


OPENAI: Final = Dialect(has_tuples=False, has_untyped_items=False)
"""OpenAI without strict, and the hosts that speak like it."""
ANTHROPIC: Final = Dialect()
"""JSON Schema 2020-12 as it is."""
MCP: Final = Dialect()
"""JSON Schema 2020-12 as it is."""
BEDROCK: Final = Dialect(has_references=False, has_tuples=False, has_untyped_items=False)
"""What the models of all families behind Converse take; some do not see `$defs`."""
GEMINI: Final = Dialect(
    keywords=_CORE | _SIZES | {"$ref", "$defs", "prefixItems", "additionalProperties"},
    formats=frozenset(),
    enums=(str, int, float),
    has_bare_references=True,
    has_untyped_items=False,
)
"""Gemini's `parametersJsonSchema`."""
GEMINI_PARAMETERS: Final = Dialect(
    keywords=_CORE | _SIZES | {"format", "pattern", "minLength", "maxLength", "minProperties", "maxProperties"},
    formats=frozenset({"date-time"}),
    enums=(str,),
    has_references=False,
    has_tuples=False,
    has_untyped_items=False,
    finish=openapi,
)
"""Gemini's older `parameters`, a part of OpenAPI's schemas."""
OLLAMA: Final = Dialect(has_references=False, has_tuples=False, has_untyped_items=False, finish=flat)
"""What Ollama's own SDK leaves of a schema."""


def spoken(schema: JsonObject, dialect: Dialect) -> tuple[JsonObject, list[Finding]]:
    """Return a schema in standard form as the dialect says it, and what it loses by that."""
    if dialect in (ANTHROPIC, MCP):
        return schema, []
    work = _Speaker(schema, dialect)
    made = work.node({key: value for key, value in schema.items() if key != "$defs"}, "")
    if dialect.has_references and "$defs" in schema:
        made["$defs"] = {name: work.definition(name, node) for name, node in schema["$defs"].items()}
    made, losses = (dialect.finish or _as_it_is)(without_unused_definitions(made))
    return made, [*work.findings, *losses]


def _as_it_is(schema: JsonObject) -> tuple[JsonObject, list[Finding]]:
    return schema, []


class _Speaker:
    """One walk through a schema; findings are collected, so that all are told at once."""

    def __init__(self, schema: JsonObject, dialect: Dialect) -> None:
        self.findings: list[Finding] = []
        self._dialect = dialect
        self._definitions: JsonObject = schema.get("$defs", {})
        self._left = MOST_INLINED
        self._open: list[str] = []
        self._cycles = cycles(schema) if dialect.has_bare_references else set()

    def definition(self, name: str, node: JsonObject) -> JsonObject:
        self._open = [PREFIX + name]
        return self.node(node, f"$defs.{name}")

    def node(self, node: JsonObject, where: str, *, is_needed: bool = True) -> JsonObject:
        """Return a schema as the dialect says it; `is_needed`: every member on the way to it is required."""
        if "$ref" in node:
            return self._reference(node, where, is_needed=is_needed)
        if "allOf" in node and not self._dialect.takes("allOf"):
            return self._joined(node, where, is_needed=is_needed)
        made: JsonObject = {}
        sentences: list[str] = []
        for key, value in self._said(node, where).items():
            if self._takes(key, value):
                made[key] = value
            else:
                sentences += self._sentence(key, value, where)
        self._inside(made, where, is_needed=is_needed)
        tell(made, sentences)
        return made

    def _said(self, node: JsonObject, where: str) -> JsonObject:
        """Say in other keywords what the dialect has other keywords for."""
        made = dict(node)
        takes = self._dialect.takes
        if "const" in made and not takes("const"):
            made["enum"] = [made.pop("const")]
        if "oneOf" in made and not takes("oneOf") and "anyOf" not in made:
            made["anyOf"] = made.pop("oneOf")
        if "prefixItems" in made and not self._dialect.has_tuples:
            self._tuple(made, where)
        if "patternProperties" in made and not takes("patternProperties"):
            made.pop("additionalProperties", None)  # it would forbid what the patterns allow
        if "enum" in made and self._dialect.enums is not None:
            self._enum(made)
        if made.get("type") == "integer":
            for exclusive, plain, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
                if not takes(exclusive) and takes(plain) and type(made.get(exclusive)) is int and plain not in made:
                    made[plain] = made.pop(exclusive) + step
        return made

    def _enum(self, made: JsonObject) -> None:
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

    def _tuple(self, made: JsonObject, where: str) -> None:
        """Say a tuple as an array of any of its items; how many and in which order is told."""
        items = made.pop("prefixItems")
        rest = [made["items"]] if isinstance(made.get("items"), dict) else []
        distinct = list({text(item): item for item in [*items, *rest]}.values())
        made["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
        names = [kind if isinstance(kind := item.get("type"), str) else "any" for item in items]
        if len(distinct) > 1:
            tell(made, [f"The items, in this order: {', '.join(names)}."])
            self._find("warning", where, "'prefixItems' is not enforced", NOT_ENFORCED)

    def _takes(self, key: str, value: Any) -> bool:
        dialect = self._dialect
        if key == "format" and dialect.formats is not None:
            return value in dialect.formats
        if key == "enum" and dialect.enums is not None:
            return all(type(item) in dialect.enums and item != "" for item in value)
        return dialect.takes(key)

    def _sentence(self, key: str, value: Any, where: str) -> list[str]:
        """Return what to tell of a keyword that the dialect does not take."""
        if key in _SILENT or (key == "additionalProperties" and isinstance(value, bool)):
            return []
        if key == "default":
            return [] if value is None else [f"Default: {text(value)}."]
        self._find("warning", where, f"{key!r} is not enforced", NOT_ENFORCED)
        if key == "enum":
            rule = f"One of: {', '.join(map(text, value))}."
        else:
            rule = f"{key}: {text(self._plainly(key, value, where))}."
        return [rule if len(rule) <= LONGEST_RULE else f"A rule on {key!r} is checked when the tool is called."]

    def _plainly(self, key: str, value: Any, where: str) -> Any:
        """Return what a keyword says, its schemas without references where the dialect has none."""
        if self._dialect.has_references:
            return value
        holder = {key: value}
        self._inside(holder, where, is_needed=False)
        return holder[key] if key in holder else holder["anyOf"]  # the branches of a `oneOf` may say less now

    def _inside(self, made: JsonObject, where: str, *, is_needed: bool) -> None:
        """Say the schemas inside one."""
        found_before = len(self.findings)
        required = made.get("required", ())
        if required and self._dialect.keywords is not None:
            made["properties"] = {**made.get("properties", {}), **_open_members(made)}
        if "properties" in made:
            made["properties"] = {
                name: self.node(node, f"{where}.{name}" if where else name, is_needed=is_needed and name in required)
                for name, node in made["properties"].items()
            }
        for key in _SINGLE:
            if isinstance(made.get(key), dict):
                made[key] = self.node(made[key], f"{where}[]", is_needed=is_needed)
        for key in _BRANCHES:
            if key in made:
                made[key] = [self.node(node, f"{where}[{i}]", is_needed=is_needed) for i, node in enumerate(made[key])]
        for key in _NAMED:
            if key in made:
                made[key] = {name: self.node(node, f"{where}[{name}]") for name, node in made[key].items()}
        if len(self.findings) > found_before and "oneOf" in made and "anyOf" not in made:
            made["anyOf"] = made.pop("oneOf")  # branches that say less may overlap
        self._name_items(made)

    def _name_items(self, made: JsonObject) -> None:
        types = made.get("type", ())
        if "array" in ([types] if isinstance(types, str) else types) and not self._dialect.has_untyped_items:
            made.setdefault("items", {})

    def _reference(self, node: JsonObject, where: str, *, is_needed: bool) -> JsonObject:
        beside = {key: value for key, value in node.items() if key != "$ref" and key not in _SILENT}
        reference = node["$ref"]
        if self._dialect.has_references and not self._dialect.has_bare_references:
            return node
        is_loop = reference in self._cycles and (bool(self._open) or "#" in self._cycles)
        stays = self._dialect.has_references and not (is_needed and is_loop)
        if stays and not beside:
            return {"$ref": reference}
        if stays and beside.keys() == {"description"}:
            return {"description": beside["description"], "anyOf": [{"$ref": reference}]}
        return self._inlined(reference, beside, where, is_needed=is_needed)

    def _inlined(self, reference: str, beside: JsonObject, where: str, *, is_needed: bool) -> JsonObject:
        target = self._definitions.get(reference.removeprefix(PREFIX))
        self._left -= 1
        if target is None or reference in self._open or self._left < 0:
            return self._named(reference, target, beside, where)
        self._open.append(reference)
        made = self.node({**target, **beside}, where, is_needed=is_needed)
        self._open.pop()
        return made

    def _named(self, reference: str, target: JsonObject | None, beside: JsonObject, where: str) -> JsonObject:
        """Return what can be said of a schema without writing it once more."""
        self._find("warning", where, "it contains itself, or very much", NOT_ENFORCED)
        said = {"type": "object"} if target is None else target
        made = {"type": said["type"]} if "type" in said else {}
        self._name_items(made)
        if "description" in beside:
            made["description"] = beside["description"]
        name = reference.removeprefix(PREFIX)
        tell(made, ["The same form as the whole." if name == "#" else f"One more `{name}`, of the form told above."])
        return made

    def _joined(self, node: JsonObject, where: str, *, is_needed: bool) -> JsonObject:
        """Return a schema and all parts of its `allOf` as one, as the dialect says it."""
        were_open = len(self._open)
        made = {key: value for key, value in node.items() if key != "allOf"}
        clashes: list[str] = []
        for branch in node["allOf"]:
            clashes += self._join(made, self._followed(branch, where), where)
        tell(made, clashes)
        said = self.node(made, where, is_needed=is_needed)
        del self._open[were_open:]
        return said

    def _followed(self, node: JsonObject, where: str) -> JsonObject:
        """Return what a part of an `allOf` says by itself: its reference followed, its own parts joined."""
        if "$ref" in node:
            reference, beside = node["$ref"], {key: value for key, value in node.items() if key != "$ref"}
            target = self._definitions.get(reference.removeprefix(PREFIX))
            self._left -= 1
            if target is None or reference in self._open or self._left < 0:
                return self._named(reference, target, beside, where)
            self._open.append(reference)
            return self._followed({**target, **beside}, where)
        made = {key: value for key, value in node.items() if key != "allOf"}
        for branch in node.get("allOf", ()):
            tell(made, self._join(made, self._followed(branch, where), where))
        return made

    def _join(self, made: JsonObject, part: JsonObject, where: str) -> list[str]:
        """Add a part to the whole. Return what to tell of keywords that clash."""
        clashes: list[str] = []
        for key, value in part.items():
            if key == "properties":
                made[key] = _joined_members(made.get(key, {}), value)
            elif key == "required":
                made[key] = list(dict.fromkeys([*made.get(key, ()), *value]))
            elif key not in made:
                made[key] = value
            elif key != "description" and made[key] != value:
                clashes += self._sentence(key, value, where)
        return clashes

    def _find(self, severity: Any, where: str, problem: str, fix: str) -> None:
        self.findings.append(Finding(severity=severity, place=where, problem=problem, fix=fix))


def _open_members(node: JsonObject) -> JsonObject:
    """Return the members that a schema requires and does not describe: they may be anything."""
    return {name: {} for name in node["required"] if name not in node.get("properties", {})}


def _joined_members(known: JsonObject, further: JsonObject) -> JsonObject:
    """Return the members of two parts; a member of both is what both say of it."""
    both = {
        name: {"allOf": [known[name], further[name]]}
        for name in known.keys() & further.keys()
        if known[name] != further[name]
    }
    return {**further, **known, **both}
