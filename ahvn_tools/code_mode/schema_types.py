"""SchemaTypes: JSON Schema as Python annotations. Each allows at least the values that the schema allows."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from typing import Any, Final

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.refs import resolve_pointer

_MAX_DEPTH: Final = 12
_MAX_NODES: Final = 3_000
"""How many parts of one schema are read; the others are Any."""
_MAX_LITERALS: Final = 100
_MAX_LITERAL_CHARS: Final = 2_000
_MAX_COMMENT: Final = 200
_WIDTH: Final = 110
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

_QUOTED: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_KINDS: Final = dict.fromkeys(("str", "int", "float", "bool", "Literal"), "scalar") | {"list": "list", "dict": "dict"}
"""How a program uses the values of an annotation. All other names are those of a TypedDict."""
_SHORTER: Final = {"Sequence": "list[", "Mapping": "dict["}


@dataclass(frozen=True, kw_only=True)
class Field:
    """A key of a TypedDict."""

    annotation: str
    is_required: bool
    comment: str


class SchemaTypes:
    """The annotations for one tool, and the TypedDicts that they use."""

    def __init__(self, prefix: str) -> None:
        """`prefix` begins the names of all types."""
        self._prefix = prefix
        self._types: dict[str, _TypedDict] = {}
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._nodes = 0

    def of(self, schema: JsonObject, *, is_input: bool) -> _Annotations:
        """Return what makes annotations for the parts of a schema. Inputs accept any mapping and sequence."""
        return _Annotations(self, schema, is_input=is_input)

    def checked_declarations(self) -> list[str]:
        """Return the declarations of the types for the type checker."""
        return [declared.text() for declared in self._types.values()]

    def declarations(self, longest_comment: int | None) -> list[str]:
        """Return the declarations of the types as a model reads them; None: with all descriptions of their keys."""
        longest = _MAX_COMMENT + 1 if longest_comment is None else longest_comment
        return [declared.shown(longest) for declared in self._types.values()]

    def new_name(self, name: str) -> str:
        """Return a name for a type that no other type of the tool has."""
        wanted = unique = f"{self._prefix}{_camel(name) or 'Type'}"
        while unique in self._names:
            self._numbers[wanted] = number = self._numbers.get(wanted, 1) + 1
            unique = f"{wanted}{number}"
        self._names.add(unique)
        return unique

    def declare(self, name: str, fields: dict[str, Field], extra: str | None) -> None:
        """Add a TypedDict. `extra` is the annotation of the values of other keys, if it may have them."""
        self._types[name] = _TypedDict(name=name, fields=fields, extra=extra)

    def fields(self, name: str) -> dict[str, Field]:
        """Return the keys of a type, as far as it is declared."""
        return self._types[name].fields if name in self._types else {}

    def count_node(self) -> bool:
        """Return whether another part of the schema may be read."""
        self._nodes += 1
        return self._nodes <= _MAX_NODES


class _Annotations:
    """The annotations for one schema."""

    def __init__(self, types: SchemaTypes, root: JsonObject, *, is_input: bool) -> None:
        self._types, self._root, self._is_input = types, root, is_input
        self._by_reference: dict[str, str] = {}

    def annotation(self, schema: Any, name: str, depth: int = 0) -> str:
        """Return the annotation for a subschema; `name` is the end of the name of a type that is declared for it."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or not self._types.count_node():
            return "Any"
        found = self._of_keywords(schema, name, depth)
        return self._union([found, "None"]) if schema.get("nullable") is True else found

    def _of_keywords(self, schema: JsonObject, name: str, depth: int) -> str:
        """Return what the first keyword says that says something: each alone allows what all of them allow."""
        if isinstance(reference := schema.get("$ref"), str):
            return self._referenced(reference, depth)
        if "const" in schema:
            return self._values([schema["const"]])
        if isinstance(values := schema.get("enum"), list):
            return self._values(values)
        if isinstance(merged := self._merge(schema, depth), dict):
            return self._object(merged, name, depth)
        branches = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(branches, list) and branches:
            parts = [self.annotation(part, f"{name}{index or ''}", depth + 1) for index, part in enumerate(branches)]
            if (united := self._union(parts)) != "Any":
                return united
        for part in _dicts(schema.get("allOf")):
            if (found := self.annotation(part, name, depth + 1)) != "Any":
                return found
        if isinstance(kinds := schema.get("type"), list):
            return self._union([self._of_type(str(kind), schema, name, depth) for kind in kinds])
        return self._of_type(str(schema.get("type")), schema, name, depth)

    def _of_type(self, kind: str, schema: JsonObject, name: str, depth: int) -> str:
        if kind == "array":
            return self._array(schema, name, depth)
        if kind == "object":
            return self._object(schema, name, depth)
        return _SCALARS.get(kind, "Any")

    def _values(self, values: list[Any]) -> str:
        """Return the annotation for a list of values."""
        literals = [value for value in values if value is None or isinstance(value, str | int)]
        text = ", ".join(dict.fromkeys(repr(value) for value in literals))
        kinds = {type(value) for value in values}
        if len(literals) > _MAX_LITERALS or len(text) > _MAX_LITERAL_CHARS:
            parts = [f"{'None' if kind is type(None) else kind.__name__}" for kind in (str, int, bool, type(None))
                     if kind in kinds]  # fmt: skip
        else:
            parts = [f"Literal[{text}]"] if literals else []
        if float in kinds:
            parts.append("float")
        if dict in kinds:
            parts.append(self._mapping("Any"))
        if list in kinds:
            parts.append(self._sequence("Any"))
        return self._union(parts)

    def _referenced(self, reference: str, depth: int) -> str:
        if reference in self._by_reference:
            return self._by_reference[reference]
        target = resolve_pointer(self._root, reference)
        if not isinstance(target, dict):
            return "Any"
        self._by_reference[reference] = "Any"  # of a reference that leads to itself
        title = reference.rsplit("/", 1)[-1]
        title = "Root" if title == "#" else title
        if "enum" not in target and "const" not in target and (merged := self._merge(target, depth)) is not None:
            declared = self._types.new_name(title)
            found = f"{declared} | Mapping[str, Any]" if self._is_input else declared
            found = self._union([found, "None"]) if target.get("nullable") is True else found
            self._by_reference[reference] = found  # before its fields, which may refer to it
            self._declare(declared, merged, title, depth)
            return found
        found = self._by_reference[reference] = self.annotation(target, title, depth + 1)
        return found

    def _merge(self, schema: JsonObject, depth: int) -> JsonObject | None:
        """Return one object schema for an object and all of its `allOf`; None if one of them is something else."""
        if depth > _MAX_DEPTH or not self._types.count_node():
            return None
        own = isinstance(schema.get("properties"), dict) and schema["properties"]
        if schema.get("type", "object") != "object" or not (own or "allOf" in schema):
            return None
        merged: JsonObject = {"properties": {}, "required": list(required_names(schema))}
        for part in _dicts(schema.get("allOf")):
            target = resolve_pointer(self._root, part["$ref"]) if isinstance(part.get("$ref"), str) else part
            found = self._merge(target, depth + 1) if isinstance(target, dict) else None
            if found is not None:
                merged["properties"].update(found["properties"])
                merged["required"].extend(found["required"])
                merged.setdefault("additionalProperties", found.get("additionalProperties", False))
        merged["properties"].update(own or {})
        if "additionalProperties" in schema or "patternProperties" in schema:
            merged["additionalProperties"] = extra_schema(schema)
        return merged if merged["properties"] else None

    def _array(self, schema: JsonObject, name: str, depth: int) -> str:
        items = schema.get("items", True)
        first = schema.get("prefixItems", items if isinstance(items, list) else [])
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        parts = [*first, *([] if first and rest is False else [rest])]
        return self._sequence(self._union([self.annotation(part, f"{name}Item", depth + 1) for part in parts]))

    def _object(self, schema: JsonObject, name: str, depth: int) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            return self._mapping(self.annotation(extra_schema(schema, default=True), f"{name}Value", depth + 1))
        declared = self._types.new_name(name)
        self._declare(declared, schema, name, depth)
        return f"{declared} | Mapping[str, Any]" if self._is_input else declared

    def _declare(self, declared: str, schema: JsonObject, name: str, depth: int) -> None:
        required, properties = required_names(schema), schema["properties"]
        fields = {
            key: Field(
                annotation=self.annotation(part, f"{name}{_camel(key)}", depth + 1),
                is_required=key in required,
                comment=description_of(part),
            )
            for key, part in properties.items()
        }
        for key in sorted(required - properties.keys()):
            fields[key] = Field(annotation="Any", is_required=True, comment="")
        extra = extra_schema(schema)
        others = None if extra is False else self.annotation(extra, f"{name}Value", depth + 1)
        self._types.declare(declared, fields, others)

    def _sequence(self, item: str) -> str:
        return f"Sequence[{item}]" if self._is_input else f"list[{item}]"

    def _mapping(self, value: str) -> str:
        return f"Mapping[str, {value}]" if self._is_input else f"dict[str, {value}]"

    def _union(self, parts: list[str]) -> str:
        """Return the union. That of results is Any where a program would have to test the type of a part first."""
        unique = dict.fromkeys(parts)
        if not unique or "Any" in unique:
            return "Any"
        united = " | ".join(unique)
        words = [] if self._is_input else [word for word in _outer_words(united) if word != "None"]
        kinds = {_KINDS.get(word, "TypedDict") for word in words}
        none = " | None" if "None" in _outer_words(united) else ""
        if len(kinds) > 1 or (kinds == {"TypedDict"} and self._differ(words)):
            return "Any"
        if len(words) > 1 and kinds == {"list"}:
            return f"list[Any]{none}"
        return f"dict[str, Any]{none}" if len(words) > 1 and kinds == {"dict"} else united

    def _differ(self, names: list[str]) -> bool:
        """Return whether types have a key in common whose values are not used in the same way."""
        annotations: dict[str, set[str]] = {}
        for name in dict.fromkeys(names):
            for key, field in self._types.fields(name).items():
                annotations.setdefault(key, set()).add(field.annotation)
        return any(
            _KINDS.get(word) != "scalar" and word != "None"
            for found in annotations.values()
            if len(found) > 1
            for annotation in found
            for word in _outer_words(annotation)
        )


@dataclass(frozen=True, kw_only=True)
class _TypedDict:
    name: str
    fields: dict[str, Field]
    extra: str | None

    def text(self) -> str:
        """Return the declaration in one line: a class, unless a key is no name of a field."""
        header, keys = self._header(), self._keys()
        if header is None:
            members = ", ".join(f"{key!r}: {text}" for key, text in keys.items())
            extra = "" if self.extra is None else f", extra_items={self.extra}"
            return f"{self.name} = TypedDict({self.name!r}, {{{members}}}{extra})"
        return f"{header} {'; '.join(f'{key}: {text}' for key, text in keys.items())}"

    def shown(self, longest_comment: int) -> str:
        """Return the declaration as a model reads it, with one line for each key if one has a comment."""
        comments = {
            key: field.comment for key, field in self.fields.items() if 0 < len(field.comment) <= longest_comment
        }
        header = self._header()
        text = self.text()
        if header is None or not (comments or len(text) > _WIDTH):
            return to_result_annotation(text)
        lines = [header]
        for key, annotation in self._keys().items():
            comment = f"  # {comments[key]}" if key in comments else ""
            lines.append(f"    {key}: {to_result_annotation(annotation)}{comment}")
        return "\n".join(lines)

    def _header(self) -> str | None:
        """Return how the class begins; None if a key is no name of a field, or hides a name in an annotation."""
        keys = self._keys()
        words = set(re.findall(r"\w+", _QUOTED.sub("", " ".join(keys.values()))))
        if not all(_is_field(key) and key not in words for key in keys):
            return None
        return f"class {self.name}(TypedDict{'' if self.extra is None else f', extra_items={self.extra}'}):"

    def _keys(self) -> dict[str, str]:
        return {
            key: field.annotation if field.is_required else f"NotRequired[{field.annotation}]"
            for key, field in self.fields.items()
        }


def to_result_annotation(annotation: str) -> str:
    """Return the annotation of an argument as that of a result: its most common types, which are shorter.

    >>> to_result_annotation("Sequence[F_X | Mapping[str, Any]] | Literal['Sequence[']")
    "list[F_X] | Literal['Sequence[']"
    """
    parts = re.split(f"({_QUOTED.pattern})", annotation)
    for index in range(0, len(parts), 2):
        text = re.sub(r"(\w_\w*) \| Mapping\[str, Any\]", r"\1", parts[index])
        parts[index] = re.sub(r"\b(Sequence|Mapping)\[", lambda match: _SHORTER[match[1]], text)
    return "".join(parts)


def description_of(schema: Any) -> str:
    """Return the description of a part of a schema in one line, cut if it is long."""
    text = " ".join(str(schema.get("description", "")).split()) if isinstance(schema, dict) else ""
    text = escape(text)
    return text if len(text) <= _MAX_COMMENT else f"{text[:_MAX_COMMENT]}…"


def escape(text: str, kept: str = "") -> str:
    """Return a text whose invisible and control characters are escaped, apart from those in `kept`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else ascii(one)[1:-1] for one in text)


def required_names(schema: JsonObject) -> frozenset[str]:
    """Return the names of the properties that must be there."""
    names = schema.get("required")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def extra_schema(schema: JsonObject, default: bool = False) -> Any:
    """Return the schema of the values of keys that are no properties; `default`: where nothing is said of them."""
    extra, patterns = schema.get("additionalProperties", default), schema.get("patternProperties")
    if not isinstance(patterns, dict) or not patterns:
        return extra
    if extra is True or "additionalProperties" not in schema:
        return True
    return {"anyOf": [*patterns.values(), *([] if extra is False else [extra])]}


def _dicts(value: Any) -> list[JsonObject]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _outer_words(annotation: str) -> list[str]:
    """Return the parts of a union, without what is in brackets."""
    text = _QUOTED.sub("", annotation)
    while (outer := re.sub(r"\[[^\[\]]*\]", "", text)) != text:
        text = outer
    return text.split(" | ")


def _is_field(key: str) -> bool:
    return key.isidentifier() and key.isascii() and not keyword.iskeyword(key) and not key.startswith("__")


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))
