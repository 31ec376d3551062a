"""ToolStub: one tool as the declaration of a Python function."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ahvn_tools.code_mode.identifiers import assign_identifiers, assign_parameters, type_prefix
from ahvn_tools.code_mode.schema_types import SchemaTypes, description_of, required_names
from ahvn_tools.definition import ToolDefinition

Level = Literal["brief", "typed", "full"]
"""How much of a tool is described: its first sentence, its types, or everything."""

HEADER: Final = (
    "from collections.abc import Mapping, Sequence\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
)
"""The imports that stubs need for the type checker."""

_WIDTH: Final = 110
_MAX_DEFAULT: Final = 60
"""How long a default is at most; `...` stands for a longer one."""


@dataclass(frozen=True, kw_only=True)
class ToolStub:
    """One tool as the declaration of a Python function."""

    tool: str
    function: str
    parameters: Mapping[str, str]
    """The tool's name of each parameter, by its name in Python."""
    signature: str
    """Everything after the name: `(a: int, b: str = 'x') -> int`."""
    types: tuple[str, ...]
    """Declarations of the types that the signature uses."""
    documented_types: tuple[str, ...]
    """The same with the descriptions of their keys."""
    summary: str
    documentation: str

    @classmethod
    def of(cls, definition: ToolDefinition, function: str) -> ToolStub:
        """Return the stub of a tool under this name."""
        made: ToolStub = definition.share(("stub", function), _make, function)
        return made

    def text(self, level: Level = "full", *, awaits: bool = True) -> str:
        """Return the declaration."""
        keyword = "async def" if awaits else "def"
        if level == "brief":
            return f"{self.function}: {self.summary}" if self.summary else self.function
        types = self.documented_types if level == "full" else self.types
        lines = [*types, f"{keyword} {self.function}{self.signature}:"]
        if level == "full" and self.documentation:
            lines.append(textwrap.indent(_quote(self.documentation), "    "))
        lines.append("    ...")
        return "\n".join(lines)


def make_stubs(definitions: Iterable[ToolDefinition]) -> dict[str, ToolStub]:
    """Return the stubs of tools, by the names of their functions."""
    by_name = {definition.name: definition for definition in definitions}
    functions = assign_identifiers(by_name)
    return {function: ToolStub.of(by_name[name], function) for function, name in functions.items()}


def _make(definition: ToolDefinition, function: str) -> ToolStub:
    types = SchemaTypes(type_prefix(function))
    schema, output = definition.input_schema, definition.output_schema
    inputs = types.of(schema, is_input=True)
    properties, required = _properties(schema), required_names(schema)
    names = {name: python for python, name in assign_parameters(properties).items()}
    ordered = sorted(properties, key=lambda name: name not in required)
    parts = []
    for name in ordered:
        text = f"{names[name]}: {inputs.annotation(properties[name], name)}"
        parts.append(text if name in required else f"{text} = {_default(properties[name])}")
    extra = schema.get("additionalProperties", False)
    if extra is not False:
        name = "kwargs"
        while name in names.values():
            name += "_"
        parts.append(f"**{name}: {inputs.annotation(extra, 'Others')}")
    returned = "Any"
    if output is not None:
        returned = types.of(output, is_input=False).annotation(_result_schema(output), "Result")
    signature = f"({', '.join(parts)}) -> {returned}"
    if len(signature) > _WIDTH:
        signature = "(\n" + "".join(f"    {part},\n" for part in parts) + f") -> {returned}"
    return ToolStub(
        tool=definition.name,
        function=function,
        parameters={names[name]: name for name in ordered},
        signature=signature,
        types=tuple(types.declarations(has_comments=False)),
        documented_types=tuple(types.declarations(has_comments=True)),
        summary=description_of({"description": definition.description.strip().split("\n", 1)[0]}),
        documentation=_documentation(definition, function, properties, names, has_extra=extra is not False),
    )


def _default(schema: Any) -> str:
    """Return the default of a parameter. `...` stands for one that is not known, or is long."""
    value = schema.get("default", ...) if isinstance(schema, dict) else ...
    text = "..." if value is ... else repr(value)
    return text if len(text) <= _MAX_DEFAULT else "..."


def _result_schema(output: dict[str, Any]) -> Any:
    """Return the schema of what a call returns: of the one property, where the output has exactly one."""
    properties = _properties(output)
    return next(iter(properties.values())) if len(properties) == 1 else output


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _documentation(
    definition: ToolDefinition, function: str, properties: dict[str, Any], names: dict[str, str], *, has_extra: bool
) -> str:
    parts = [definition.description.strip()]
    if function != definition.name:
        parts.append(f"The tool's name is {definition.name!r}.")
    described = []
    for name, schema in properties.items():
        notes = [f"Its name in the tool is {name!r}."] if names[name] != name else []
        if isinstance(schema, dict):
            notes += [str(schema.get("description", "")).strip(), *_notes(schema)]
        if text := " ".join(f"{note}." if note[-1].isalnum() else note for note in notes if note):
            described.append(f"    {names[name]}: {text}")
    if has_extra:
        described.append(
            "    Other arguments are allowed. Pass one whose name is no identifier as `**{'its-name': 1}`."
        )
    if described:
        parts.append("\n".join(["Args:", *described]))
    if definition.returns:
        parts.append(f"Returns:\n    {definition.returns}")
    return "\n\n".join(part for part in parts if part)


def _notes(schema: dict[str, Any]) -> list[str]:
    """Return what the annotation of a parameter cannot say."""
    notes = [f"Format: {kind}."] if isinstance(kind := schema.get("format"), str) else []
    bounds = [(words, schema[key]) for key, words in _BOUNDS.items() if isinstance(schema.get(key), int | float | str)]
    return notes + [f"{words} {value}." for words, value in bounds]


_BOUNDS: Final = {
    "minimum": "At least", "maximum": "At most", "exclusiveMinimum": "More than", "exclusiveMaximum": "Less than",
    "multipleOf": "A multiple of", "minLength": "Minimum length:", "maxLength": "Maximum length:",
    "minItems": "Minimum number of items:", "maxItems": "Maximum number of items:", "pattern": "Pattern:",
}  # fmt: skip


def _quote(text: str) -> str:
    """Return a text as a docstring. Invisible and control characters are escaped."""
    escaped = re.sub(r'"(?="|\Z)', r'\\"', text.replace("\\", "\\\\"))
    escaped = "".join(
        character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1] for character in escaped
    )
    return f'"""{escaped}"""'
