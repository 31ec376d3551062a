"""ToolStub: one tool as the declaration of a Python function."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ahvn_tools.code_mode.identifiers import assign_identifiers, assign_parameters, type_prefix
from ahvn_tools.code_mode.schema_types import (
    SchemaTypes,
    escape,
    extra_schema,
    required_names,
    to_result_annotation,
)
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.schema.keywords import properties_of
from ahvn_tools.schema.root_parameters import to_object_schema

Level = Literal["brief", "typed", "full"]
"""How much of a tool is described: its first sentence, its types with short descriptions, or everything."""

HEADER: Final = (
    "from collections.abc import Mapping, Sequence\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
)
"""The imports that stubs need for the type checker."""

_WIDTH: Final = 110
_MAX_DEFAULT: Final = 60
"""How long a default is at most; `...` stands for a longer one."""
_MAX_SUMMARY: Final = 150
_SHORT: Final = 80
"""Up to how many characters the description of a parameter or key is in the level `typed`."""
_SENTENCE: Final = re.compile(r".*?(?<!e\.g)(?<!i\.e)[.!?](?=\s+[A-Z]|\s*\Z)")


@dataclass(frozen=True, kw_only=True)
class _Parameter:
    name: str
    annotation: str
    default: str
    """Empty for a required one."""
    comment: str

    def checked(self) -> str:
        """Return the declaration for the type checker. None for an optional one is as good as none, as in any call."""
        if not self.default:
            return f"{self.name}: {self.annotation}"
        none = "" if self.annotation == "Any" or self.annotation.endswith("None") else " | None"
        return f"{self.name}: {self.annotation}{none} = {self.default}"


@dataclass(frozen=True, kw_only=True)
class ToolStub:
    """One tool as the declaration of a Python function."""

    tool: str
    function: str
    parameters: Mapping[str, str]
    """The tool's name of each parameter, by its name in Python."""
    summary: str
    documentation: str
    types: SchemaTypes
    """The types that the annotations use."""
    arguments: tuple[_Parameter, ...]
    """The parameters, and the one for other arguments, in the order of the declaration."""
    returned: str
    checked: str
    """Everything after `def` in the declaration for the type checker."""
    checked_types: str

    @classmethod
    def of(cls, definition: ToolDefinition, function: str) -> ToolStub:
        """Return the stub of a tool under this name."""
        made: ToolStub = definition.share(("stub", function), _make, function)
        return made

    def declaration(self, *, awaits: bool = True) -> str:
        """Return the declaration for the type checker. It accepts what the schema accepts."""
        return f"{self.checked_types}{'async def' if awaits else 'def'} {self.checked}"

    def text(self, level: Level = "typed", *, has_descriptions: bool = True) -> str:
        """Return the declaration as a model reads it."""
        if level == "brief":
            return f"{self.function}: {self.summary}" if self.summary else self.function
        longest = (_SHORT if level == "typed" else None) if has_descriptions else 0
        lines = self.types.declarations(longest)
        parts, comments = [], []
        for each in self.arguments:
            default = f" = {each.default}" if each.default else ""
            parts.append(f"{each.name}: {to_result_annotation(each.annotation)}{default}")
            is_shown = each.comment and (longest is None or len(each.comment) <= longest)
            comments.append(f"  # {each.comment}" if is_shown else "")
        signature = f"({', '.join(parts)}) -> {self.returned}:"
        if parts and (any(comments) or len(signature) > _WIDTH):
            rows = [f"    {part},{comment}\n" for part, comment in zip(parts, comments, strict=True)]
            signature = f"(\n{''.join(rows)}) -> {self.returned}:"
        body = " ..."
        if self.documentation and has_descriptions:
            body = "\n" + textwrap.indent(_quote(self.documentation), "    ")
        return "\n".join([*lines, f"async def {self.function}{signature}{body}"])


def make_stubs(definitions: Iterable[ToolDefinition]) -> dict[str, ToolStub]:
    """Return the stubs of tools, by the names of their functions."""
    by_name = {definition.name: definition for definition in definitions}
    functions = assign_identifiers(by_name)
    return {function: ToolStub.of(by_name[name], function) for function, name in functions.items()}


def _make(definition: ToolDefinition, function: str) -> ToolStub:
    types = SchemaTypes(type_prefix(function))
    schema, output = to_object_schema(definition.input_schema), definition.output_schema
    names = {name: python for python, name in assign_parameters(properties_of(schema)).items()}
    arguments = _arguments(schema, types, names)
    returned = "Any"
    if output is not None:
        returned = types.of(output, is_input=False).annotation(_result_schema(output), "Result")
        is_unwrapped = len(properties_of(output)) == 1
        if is_unwrapped and returned != "Any" and output.get("additionalProperties", False) is not False:
            returned += " | dict[str, Any]"  # an object with other members is the value as a whole
    parts = ", ".join(each.checked() for each in arguments)
    description = definition.description.strip()
    return ToolStub(
        tool=definition.name,
        function=function,
        parameters={names[name]: name for name in _ordered(schema)},
        summary=_summary(description),
        documentation=_documentation(definition, description, function),
        types=types,
        arguments=tuple(arguments),
        returned=returned,
        checked=f"{function}({parts}) -> {returned}: ...",
        checked_types="".join(f"{text}\n" for text in types.checked_declarations()),
    )


def _arguments(schema: dict[str, Any], types: SchemaTypes, names: dict[str, str]) -> list[_Parameter]:
    """Return the parameters of the declaration; `names` are their Python names."""
    inputs, properties, required = types.of(schema, is_input=True), properties_of(schema), required_names(schema)
    arguments = [
        _Parameter(
            name=names[name],
            annotation=inputs.annotation(properties[name], name),
            default="" if name in required else _default(properties[name]),
            comment=_comment(name, names[name], properties[name]),
        )
        for name in _ordered(schema)
    ]
    if (extra := extra_schema(schema)) is not False:
        name = "kwargs"
        while name in names.values():
            name += "_"
        annotation = inputs.annotation(extra, "Others")
        arguments.append(_Parameter(name=f"**{name}", annotation=annotation, default="", comment=_OTHERS))
    return arguments


def _ordered(schema: dict[str, Any]) -> list[str]:
    """Return the names of the parameters, the required ones first."""
    required = required_names(schema)
    return sorted(properties_of(schema), key=lambda name: name not in required)


_OTHERS: Final = "Other arguments. Pass one whose name is no identifier as `**{'its-name': 1}`."


def _default(schema: Any) -> str:
    """Return the default of a parameter. `...` stands for one that is not known, or is long."""
    value = schema.get("default", ...) if isinstance(schema, dict) else ...
    text = "..." if value is ... else repr(value)
    return text if len(text) <= _MAX_DEFAULT else "..."


def _result_schema(output: dict[str, Any]) -> Any:
    """Return the schema of what a call returns: of the one property, where the output has exactly one."""
    properties = properties_of(output)
    return next(iter(properties.values())) if len(properties) == 1 else output


def _summary(description: str) -> str:
    """Return the first sentence of a description in one line, cut if it is long."""
    line = escape(" ".join(description.split("\n\n", 1)[0].split()))
    sentence = match[0] if (match := _SENTENCE.match(line)) else line
    return sentence if len(sentence) <= _MAX_SUMMARY else f"{sentence[:_MAX_SUMMARY]}…"


def _documentation(definition: ToolDefinition, description: str, function: str) -> str:
    parts = [description]
    if function != definition.name:
        parts.append(f"The tool's name is {definition.name!r}.")
    if definition.returns:
        parts.append(f"Returns: {definition.returns}")
    return "\n".join(part for part in parts if part)


def _comment(name: str, python: str, schema: Any) -> str:
    """Return the description of a parameter with what its annotation cannot say, in one line."""
    notes = [f"Its name in the tool is {name!r}."] if python != name else []
    if isinstance(schema, dict):
        description = " ".join(str(schema.get("description", "")).split())
        notes += [description, *_notes(schema, said=description)]
    text = " ".join(note if note[-1] in ".!?:" else f"{note}." for note in notes if note)
    return escape(text.removesuffix(".") if text.count(".") == 1 else text)


def _notes(schema: dict[str, Any], *, said: str) -> list[str]:
    """Return what the annotation of a parameter cannot say, and the description does not."""
    kind = schema.get("format")
    notes = [f"Format: {kind}."] if isinstance(kind, str) and kind not in said else []
    bounds = [(words, schema[key]) for key, words in _BOUNDS.items() if isinstance(schema.get(key), int | float | str)]
    return notes + [
        f"{words} {value}."
        for words, value in bounds
        if not re.search(rf"(?<![\w.]){re.escape(str(value))}(?!\w)", said)
    ]


_BOUNDS: Final = {
    "minimum": "At least", "maximum": "At most", "exclusiveMinimum": "More than", "exclusiveMaximum": "Less than",
    "multipleOf": "A multiple of", "minLength": "Minimum length:", "maxLength": "Maximum length:",
    "minItems": "Minimum number of items:", "maxItems": "Maximum number of items:", "pattern": "Pattern:",
}  # fmt: skip


def _quote(text: str) -> str:
    """Return a text as a docstring. Invisible and control characters are escaped."""
    escaped = re.sub(r'"(?="|\Z)', r'\\"', text.replace("\\", "\\\\"))
    return f'"""{escape(escaped, kept=chr(10) + chr(9))}"""'
