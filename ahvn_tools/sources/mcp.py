"""MCP tools as a source: a FastMCP Tool of any kind, or an `mcp.types.Tool` with or without a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import ValidationError

from ahvn_tools.binding import Binding
from ahvn_tools.context import resolve_context, resolve_transport_context
from ahvn_tools.errors import DefinitionError, ToolConnectionError, refused_arguments_error
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.docstring import Texts
from ahvn_tools.schema.jsonschema import SchemaInputs
from ahvn_tools.schema.output import Output, to_object_schema
from ahvn_tools.settings import ToolSettings, refuse_unknown_bindings, to_definition_fields, validate_options
from ahvn_tools.sources.changed_parameters import convert_defaults
from ahvn_tools.sources.injection import needing_context
from ahvn_tools.state import StateKey
from ahvn_tools.template import ToolTemplate, validate_examples

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from mcp_types import Tool as WireTool

Body = Callable[..., Awaitable[Any]]

DEFAULT_TIMEOUT = 30.0
"""The default timeout of a remote call in seconds: a lost answer must not block its caller."""

_FUNCTION_ONLY_OPTIONS = frozenset({
    "parse_docstring", "include_long_description", "docstring_sections", "description_separator",
    "include_var_positional", "include_var_keyword", "run_in_thread", "external", "isolation", "ship", "ship_secrets",
    "keep_children", "convert", "output", "render",
})  # fmt: skip


def build_template(
    tool: Tool | WireTool,
    options: Mapping[str, Any],
    send: Body | None = None,
    *,
    context: str | None = None,
    is_repeatable: bool | None = None,
    is_caller_independent: bool = False,
    bindings: Mapping[str, Binding] | None = None,
) -> tuple[ToolTemplate, Body]:
    """Return the template of a tool, and the body that runs it.

    A FastMCP Tool runs itself; a wire tool runs through `send(**arguments)`, or raises ToolConnectionError without it.
    `context` is the name of the argument under which `send` receives the ToolContext; it must not be a property.

    A wire tool's annotations come from its server and are not trusted: the host sets `is_repeatable`.
    `is_caller_independent` means that the result of a call does not depend on its caller.
    """
    options = validate_options(options)
    for name in options:
        if name in _FUNCTION_ONLY_OPTIONS:
            raise DefinitionError(f"{name!r} is an option for Python functions, not for MCP tools; remove it.")
    is_wire = not hasattr(tool, "run")
    schema = getattr(tool, "input_schema" if is_wire else "parameters", None)
    if not isinstance(schema, dict):
        raise DefinitionError(f"A {type(tool).__name__} is not an MCP tool; pass a FastMCP Tool or an mcp.types.Tool.")
    body: Body = send or _UnconnectedBody(tool.name) if is_wire else _tool_body(tool)
    chosen = {name: value for name, value in options.items() if value is not None}
    name, meta = chosen.get("name", tool.name), chosen.get("meta", tool.meta)
    coerces = chosen.get("coerce_numbers_to_str", True)
    changes = ArgumentChanges.parse(chosen.get("arguments"))
    inputs = SchemaInputs(
        chosen.get("input_schema", schema), context_parameter=context, coerce_numbers_to_str=coerces, changes=changes
    )
    validate_examples(name, chosen.get("examples"), inputs)
    if is_repeatable is None and is_wire and "annotations" not in chosen:
        is_repeatable = False
    if bindings is None:
        binds = chosen.get("binds", {})
        refuse_unknown_bindings(name, binds, inputs.parameters)
        bindings = {name: Binding(parameter=name, key=StateKey.parse(key)) for name, key in binds.items()}
        if context is not None:
            resolver = resolve_transport_context if is_caller_independent else resolve_context
            bindings[context] = Binding(parameter=context, resolver=resolver, takes_state=True)
    convert_defaults(name, inputs, changes)
    own = {
        "title": tool.title,
        "tags": getattr(tool, "tags", None) or _wire_tags(meta),
        "annotations": tool.annotations,
        "meta": meta,
        "version": getattr(tool, "version", None),
        "icons": tool.icons,
    }
    template = ToolTemplate(
        name=name,
        texts=Texts(explicit_description=chosen.get("description", tool.description or "")),
        inputs=inputs,
        output=Output(schema=options.get("output_schema", _object_schema(tool.output_schema))),
        is_async=True,
        is_coroutine=True,
        is_movable=False,
        **to_definition_fields({**own, **chosen}),
        is_repeatable=is_repeatable,
        settings=ToolSettings.of({"timeout": None if send is None else DEFAULT_TIMEOUT, **options}),
        tool=None if is_wire else cast("Tool", tool),
        bindings=bindings,
        options={**options, **({"arguments": changes.by_name} if changes else {})},
        rebuild=_rebuild,
        rebuild_arguments={
            "tool": tool,
            "context": context,
            "is_repeatable": is_repeatable,
            "is_caller_independent": is_caller_independent,
        },
    )
    return template, body


def _object_schema(output_schema: Any) -> Any:
    return to_object_schema(output_schema) if isinstance(output_schema, dict) else output_schema


def _rebuild(
    _body: Body, options: Mapping[str, Any], *, tool: Tool | WireTool, **rebuild_arguments: Any
) -> tuple[ToolTemplate, Body]:
    """Build the template again, without a connection: a connection cannot be pickled."""
    return build_template(tool, options, **rebuild_arguments)


def _wire_tags(meta: Mapping[str, Any] | None) -> list[str]:
    for key in ("fastmcp", "_fastmcp"):
        inner = (meta or {}).get(key)
        if isinstance(inner, Mapping) and isinstance(inner.get("tags"), list):
            return [str(tag) for tag in inner["tags"]]
    return []


def _tool_body(tool: Any) -> Body:
    async def run(**arguments: Any) -> Any:
        from fastmcp.exceptions import ValidationError as FastMCPValidationError

        try:
            with needing_context(tool.name):
                return await tool.run(arguments)
        except FastMCPValidationError as error:
            cause = error.__cause__
            problems = cause.errors(include_input=False) if isinstance(cause, ValidationError) else ()
            known = tool.parameters.get("properties", {})
            raise refused_arguments_error(problems, known, tool=tool.name) from None

    return run


class _UnconnectedBody:
    """The body of a wire tool without a client: each call is an error."""

    is_connected = False

    def __init__(self, name: str) -> None:
        self._name = name

    async def __call__(self, /, **_arguments: Any) -> Any:
        """Raise ToolConnectionError."""
        raise ToolConnectionError(
            f"Tool {self._name!r} is not connected to its server.",
            tool=self._name,
            explanation=f"Tool {self._name!r} was created from a definition without a client; "
            "pass a connected one: from_mcp(tool, client=client), or await afrom_client(client, name).",
        )
