"""A tool definition as text: signature, docstring, prompt, and Python code that is always valid."""

from __future__ import annotations

import keyword
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import join_sentences, states_default
from ahvn_tools.schema.members import members
from ahvn_tools.schema.refs import resolve_ref

MAX_DEPTH = 4
"""In how many nested lists a reference is resolved for the name of one type."""

MAX_CHOICES = 10
"""How many values a Literal lists at most."""

_PLAIN_CHOICE = re.compile(r"[\w.+/ -]{0,40}")
_TYPES = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Entry:
    """What a docstring says about one parameter or about what is returned."""

    name: str = ""
    type: str
    text: str
    depth: int = 0
    """In how many other parameters or fields it is."""

    @property
    def head(self) -> str:
        return f"{self.name} ({self.type})" if self.name else self.type


def signature(definition: ToolDefinition, arguments: Mapping[str, Any], *, shows_optional: bool = False) -> str:
    """Return a call as text, with the repr of arguments and defaults, and the names of other required parameters.

    A required parameter after a keyword argument is `name=name`. An optional one without a value is left out, or
    `name=...` if `shows_optional`.
    """
    schema = definition.input_schema
    required = schema.get("required", ())
    parts = []
    for name, node in schema.get("properties", {}).items():
        if name in arguments:
            parts.append(f"{name}={arguments[name]!r}")
        elif isinstance(node, dict) and "default" in node:
            parts.append(f"{name}={node['default']!r}")
        elif name in required:
            parts.append(f"{name}={name}" if any("=" in part for part in parts) else name)
        elif shows_optional:
            parts.append(f"{name}=...")
    return f"{definition.name}({', '.join(parts)})"


def docstring(definition: ToolDefinition) -> str:
    """Return a Google-style docstring made from the definition, in the form that docstring parsers read."""
    parameters = [f"{entry.head}: {entry.text}".rstrip() for entry in _parameter_entries(definition)]
    returns = [f"{entry.head}: {entry.text or 'The return value'}" for entry in _return_entries(definition)]
    fields = [f"- {entry.head}: {entry.text}".rstrip() for entry in _field_entries(definition)]
    return _join_sections(definition, parameters, [*returns, *fields])


def prompt(definition: ToolDefinition) -> str:
    """Return the tool as one item of a list for a model: its signature, and below it a description like the docstring.

    Unlike in the docstring, the members of objects are listed below each parameter, and a line without a text states
    only the type, and is left out where the type is unknown.
    """
    parameters = _shorten_entries(_member_entries(definition.input_schema))
    fields = [f"- {line}" for line in _shorten_entries(_field_entries(definition))]
    body = _join_sections(definition, parameters, [*_shorten_entries(_return_entries(definition)), *fields])
    head = f"- `{signature(definition, {}, shows_optional=True)}`"
    return f"{head}:\n{textwrap.indent(body, '    ')}" if body else head


def code(definition: ToolDefinition) -> str:
    """Return a Python function definition with the docstring; names that are not valid in Python are changed."""
    text = docstring(definition)
    body = f"{_docstring_literal(text)}\n    pass" if text else "pass"
    return f"def {identifier(definition.name)}({_parameter_list(definition)}) -> {return_type(definition)}:\n    {body}"


def parameter_names(definition: ToolDefinition) -> dict[str, str]:
    """Return a unique Python name for each parameter."""
    taken: set[str] = set()
    names: dict[str, str] = {}
    for name in definition.input_schema.get("properties", {}):
        python = identifier(name)
        while python in taken:
            python += "_"
        taken.add(python)
        names[name] = python
    return names


def identifier(name: str) -> str:
    """Return a Python identifier similar to `name`."""
    plain = re.sub(r"\W", "_", unicodedata.normalize("NFKC", name)) or "_"
    if not plain.isidentifier():
        plain = f"_{plain}"
    if not plain.isidentifier():
        plain = "_" + re.sub(r"[^0-9A-Za-z_]", "_", name)
    return f"{plain}_" if keyword.iskeyword(plain) or plain == "__debug__" else plain


def type_name(node: Any, root: JsonObject | None = None, depth: int = MAX_DEPTH) -> str:
    """Return the Python type of the values that a schema describes, with `List`, `Dict` and `Literal` of `typing`.

    `root` is the schema that has the definitions. `Any` where a type has no such name.
    """
    if not isinstance(node, dict):
        return "Any"
    node = resolve_ref(node, root or {})
    choices = node.get("enum", [node["const"]] if "const" in node else [])
    if choices and len(choices) <= MAX_CHOICES and all(map(_is_plain_choice, choices)):
        return f"Literal[{', '.join(map(repr, choices))}]"
    alternatives = node.get("anyOf") or node.get("oneOf")
    kind = node.get("type")
    if isinstance(kind, list):
        alternatives = [{**node, "type": each} for each in kind]
    if isinstance(alternatives, list):
        return _union(type_name(each, root, depth - 1) for each in alternatives) if depth else "Any"
    if kind == "array":
        return f"List[{type_name(node.get('items'), root, depth - 1) if depth else 'Any'}]"
    if kind == "object":
        member = None if node.get("properties") else node.get("additionalProperties")
        return f"Dict[str, {type_name(member, root, depth - 1) if depth else 'Any'}]"
    return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def _union(names: Iterable[str]) -> str:
    """Return the name of a union, with None at its end."""
    distinct = sorted(dict.fromkeys(names), key="None".__eq__)
    return "Any" if not distinct or "Any" in distinct else " | ".join(distinct)


def _is_plain_choice(value: Any) -> bool:
    """Return whether a value may be in a Literal, also in a docstring, where a colon would end the type."""
    return value is None or isinstance(value, int) or (isinstance(value, str) and bool(_PLAIN_CHOICE.fullmatch(value)))


def _properties(schema: JsonObject) -> dict[str, JsonObject]:
    """Return the properties of a schema with their `$ref`s resolved; a boolean schema becomes an empty one."""
    properties = schema.get("properties", {})
    return {name: resolve_ref(node, schema) if isinstance(node, dict) else {} for name, node in properties.items()}


def _parameter_entries(definition: ToolDefinition) -> list[_Entry]:
    schema = definition.input_schema
    required = schema.get("required", ())
    return [
        _Entry(name=name, type=type_name(node, schema), text=_parameter_text(node, is_required=name in required))
        for name, node in _properties(schema).items()
    ]


def _member_entries(schema: JsonObject) -> list[_Entry]:
    """Return an entry for each parameter, followed by those of the members of objects in it."""
    entries = []
    for member in members(schema):
        text = _parameter_text(member.node, is_required=member.is_required)
        text = join_sentences(text, f"The same fields as `{member.same_as}`." if member.same_as else "")
        entries.append(_Entry(name=member.name, type=type_name(member.node, schema), text=text, depth=member.depth))
    return entries


def _parameter_text(node: JsonObject, *, is_required: bool) -> str:
    description, default = str(node.get("description", "")).strip(), node.get("default")
    if is_required:
        return description
    if default is None:
        note = "" if re.search(r"\boptional\b", description, re.IGNORECASE) else "Optional."
    else:
        note = "" if states_default(description, default) else f"Defaults to {default!r}."
    return join_sentences(description, note)


def _return_entries(definition: ToolDefinition) -> list[_Entry]:
    """Return one entry for the value that a tool returns; none where nothing is known about it."""
    schema, returns = definition.output_schema, " ".join(definition.returns.split())
    if schema is None:
        return [_Entry(type="Any", text=returns)] if returns else []
    properties = _properties(schema)
    if len(properties) > 1:
        return [_Entry(type="Dict[str, Any]", text=returns or "A dictionary containing:")]
    node = next(iter(properties.values()), schema)
    text = returns or str(node.get("description") or "")
    return [
        _Entry(type=type_name(node, schema), text=text or ("With these fields:" if _field_entries(definition) else ""))
    ]


def _field_entries(definition: ToolDefinition) -> list[_Entry]:
    """Return an entry for each field of the objects that a tool returns; a single field is the value itself."""
    schema = definition.output_schema or {}
    depth = 1 if len(schema.get("properties", {})) == 1 else 0
    return [
        _Entry(name=member.name, type=type_name(member.node, schema), text=str(member.node.get("description", "")))
        for member in members(schema)
        if member.depth == depth
    ]


def _shorten_entries(entries: Iterable[_Entry]) -> list[str]:
    """Return the entries as lines, of which those without a text are only a type."""
    return [
        "    " * entry.depth + (f"{entry.head}: {entry.text}" if entry.text else entry.head)
        for entry in entries
        if entry.text or entry.type != "Any" or entry.depth
    ]


def _join_sections(definition: ToolDefinition, parameters: list[str], returns: list[str]) -> str:
    sections = [
        f"{title}:\n" + "\n".join(map(_indent_entry, lines))
        for title, lines in (("Args", parameters), ("Returns", returns))
        if lines
    ]
    return "\n\n".join(filter(None, [definition.description, *sections]))


def _indent_entry(entry: str) -> str:
    first, *more = entry.split("\n")
    margin = " " * (8 + len(first) - len(first.lstrip()))
    return "\n".join([f"    {first}", *(f"{margin}{line.strip()}" if line.strip() else "" for line in more)])


def return_type(definition: ToolDefinition) -> str:
    """Return the Python type of what a call returns: of the one field, where the output schema has exactly one."""
    schema = definition.output_schema
    if schema is None:
        return "Any"
    properties = _properties(schema)
    return type_name(next(iter(properties.values())) if len(properties) == 1 else schema, schema)


def _parameter_list(definition: ToolDefinition) -> str:
    """Return the parameters in Python syntax; required ones after optional ones become keyword-only."""
    schema = definition.input_schema
    required = schema.get("required", ())
    names = parameter_names(definition)
    parts: list[str] = []
    has_optional = is_keyword_only = False
    for name, node in _properties(schema).items():
        annotation = type_name(node, schema)
        if name in required:
            if has_optional and not is_keyword_only:
                parts.append("*")
                is_keyword_only = True
            parts.append(f"{names[name]}: {annotation}")
            continue
        has_optional = True
        default = repr(node["default"]) if "default" in node else "None"
        if default == "None" and annotation != "Any" and not annotation.endswith("None"):
            annotation = f"{annotation} | None"
        parts.append(f"{names[name]}: {annotation} = {default}")
    return ", ".join(parts)


def _docstring_literal(text: str) -> str:
    """Return a docstring literal, indented by four. Lone surrogates, invalid in Python 3.13, are escaped."""
    escaped = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    escaped = "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in escaped
    )
    return '"""\\\n' + textwrap.indent(escaped, "    ") + '\n    """'
