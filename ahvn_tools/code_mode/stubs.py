"""ToolStub: one tool as the declaration of a Python function."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ahvn_tools.code_mode.identifiers import assign_identifiers, to_identifier
from ahvn_tools.code_mode.schema_types import SchemaTypes, required_names
from ahvn_tools.definition import ToolDefinition

Level = Literal["brief", "typed", "full"]
"""How much of a tool is described: its first sentence, its types, or everything."""

HEADER: Final = (
    "from collections.abc import Mapping, Sequence\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
)
"""The imports that stubs need for the type checker."""

_WIDTH: Final = 110


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
        lines = [*self.types, f"{keyword} {self.function}{self.signature}:"]
        if level == "full" and self.documentation:
            quoted = self.documentation.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
            lines.append(textwrap.indent(f'"""{quoted}"""', "    "))
        lines.append("    ...")
        return "\n".join(lines)


def make_stubs(definitions: Iterable[ToolDefinition]) -> dict[str, ToolStub]:
    """Return the stubs of tools, by the names of their functions."""
    by_name = {definition.name: definition for definition in definitions}
    functions = assign_identifiers(by_name)
    return {function: ToolStub.of(by_name[name], function) for function, name in functions.items()}


def _make(definition: ToolDefinition, function: str) -> ToolStub:
    prefix = "".join(part[:1].upper() + part[1:] for part in function.split("_"))
    inputs = SchemaTypes(prefix, definition.input_schema, is_input=True)
    properties = _properties(definition.input_schema)
    required = required_names(definition.input_schema)
    names = {name: python for python, name in assign_identifiers(properties).items()}
    ordered = sorted(properties, key=lambda name: name not in required)
    parts = [_parameter(names[name], properties[name], name in required, inputs) for name in ordered]
    output = definition.output_schema
    outputs = SchemaTypes(f"{prefix}Result", output or {}, is_input=False)
    returned = "Any" if output is None else outputs.annotation(_result_schema(output), "")
    signature = f"({', '.join(parts)}) -> {returned}"
    if len(signature) > _WIDTH:
        signature = "(\n" + "".join(f"    {part},\n" for part in parts) + f") -> {returned}"
    return ToolStub(
        tool=definition.name,
        function=function,
        parameters={names[name]: name for name in ordered},
        signature=signature,
        types=(*inputs.declarations.values(), *outputs.declarations.values()),
        summary=definition.description.strip().split("\n", 1)[0],
        documentation=_documentation(definition, properties, names),
    )


def _parameter(name: str, schema: Any, is_required: bool, types: SchemaTypes) -> str:
    text = f"{name}: {types.annotation(schema, name)}"
    if is_required:
        return text
    default = schema.get("default", ...) if isinstance(schema, dict) else ...
    return f"{text} = {_default(default)}"


def _default(value: Any) -> str:
    if value is ... or not (value is None or isinstance(value, str | int | float | bool)):
        return "..."
    return repr(value)


def _result_schema(output: dict[str, Any]) -> Any:
    """Return the schema of what a call returns: of the one property, where the output has exactly one."""
    properties = _properties(output)
    if len(properties) == 1 and "$ref" not in output:
        schema = next(iter(properties.values()))
        return {**schema, "$defs": output["$defs"]} if isinstance(schema, dict) and "$defs" in output else schema
    return output


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _documentation(definition: ToolDefinition, properties: dict[str, Any], names: dict[str, str]) -> str:
    parts = [definition.description.strip()]
    if to_identifier(definition.name) != definition.name:
        parts.append(f"The tool's name is {definition.name!r}.")
    described = [
        f"    {names[name]}: {text}"
        for name, schema in properties.items()
        if isinstance(schema, dict) and (text := str(schema.get("description", "")).strip())
    ]
    if described:
        parts.append("\n".join(["Args:", *described]))
    if definition.returns:
        parts.append(f"Returns:\n    {definition.returns}")
    return "\n\n".join(part for part in parts if part)
