"""MCP tools as a source: a FastMCP Tool of any kind, or an `mcp.types.Tool` with or without a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import ValidationError

from ahvn_tools.binding import Binding
from ahvn_tools.context import resolve_context, resolve_transport_context
from ahvn_tools.errors import DefinitionError, ToolConnectionError, ToolError, near_misses
from ahvn_tools.schema.jsonschema import SchemaInputs
from ahvn_tools.schema.output import Output
from ahvn_tools.sources.options import to_wire_annotations, to_wire_icons, validate_options
from ahvn_tools.state import StateKey
from ahvn_tools.template import Texts, ToolTemplate

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from mcp_types import Tool as WireTool

Body = Callable[..., Awaitable[Any]]

DEFAULT_TIMEOUT = 30.0
"""Seconds a remote call may take unless told otherwise: a lost answer must not hang its caller."""

_FUNCTION_ONLY_OPTIONS = frozenset({
    "parse_docstring", "include_long_description", "include_var_positional", "include_var_keyword", "run_in_thread",
    "isolation",
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
    """Return the recipe of a tool, and the body that runs it.

    A FastMCP Tool runs itself; a wire tool runs through `send(**arguments)`, or says what is missing. `context` is the
    name under which `send` is given the ToolContext; no property of the tool has it.

    What a wire tool's annotations say is somebody else's word: `is_repeatable` is the host's.
    `is_caller_independent` says that the result of a call does not depend on who makes it.
    """
    validate_options(options)
    for name in options:
        if name in _FUNCTION_ONLY_OPTIONS:
            raise DefinitionError(f"{name!r} is about a Python function; an MCP tool has none.")
    is_wire = not hasattr(tool, "run")
    schema = getattr(tool, "input_schema" if is_wire else "parameters", None)
    if not isinstance(schema, dict):
        raise DefinitionError(f"A {type(tool).__name__} is no MCP tool; pass a FastMCP Tool or an mcp.types.Tool.")
    body: Body = send or _unconnected_body(tool.name) if is_wire else _tool_body(tool)
    given = {name: value for name, value in options.items() if value is not None}
    meta = given.get("meta", tool.meta)
    inputs = SchemaInputs(given.get("input_schema", schema), context_parameter=context)
    resolver = resolve_transport_context if is_caller_independent else resolve_context
    asked = {} if context is None else {context: Binding(parameter=context, resolver=resolver, takes_state=True)}
    if is_repeatable is None and is_wire and given.get("annotations") is None:
        is_repeatable = False
    return (
        ToolTemplate(
            name=given.get("name", tool.name),
            texts=Texts(given.get("description", tool.description or "")),
            inputs=inputs,
            output=Output(schema=given.get("output_schema", tool.output_schema)),
            is_async=True,
            is_coroutine=True,
            title=given.get("title", tool.title),
            tags=frozenset(given.get("tags", getattr(tool, "tags", None) or _wire_tags(meta))),
            annotations=to_wire_annotations(given.get("annotations", tool.annotations)),
            meta=meta,
            version=given.get("version", getattr(tool, "version", None)),
            icons=to_wire_icons(given.get("icons", tool.icons)),
            examples=given.get("examples"),
            is_repeatable=is_repeatable,
            timeout=options.get("timeout", None if send is None else DEFAULT_TIMEOUT),
            tool=None if is_wire else cast("Tool", tool),
            bindings={**_bindings(options.get("binds") or {}, inputs), **asked} if bindings is None else bindings,
            options=dict(options),
            rebuild=_rebuild,
            rebuild_arguments={
                "tool": tool,
                "context": context,
                "is_repeatable": is_repeatable,
                "is_caller_independent": is_caller_independent,
            },
        ),
        body,
    )


def _rebuild(
    _body: Body, options: Mapping[str, Any], *, bindings: Mapping[str, Binding], **rebuild_arguments: Any
) -> tuple[ToolTemplate, Body]:
    """Make the recipe again; a connection does not travel, so a remote tool is left without one."""
    return build_template(rebuild_arguments.pop("tool"), options, bindings=bindings, **rebuild_arguments)


def _bindings(binds: Mapping[str, str], inputs: SchemaInputs) -> dict[str, Binding]:
    for name in binds:
        if name not in inputs.parameters:
            raise DefinitionError(
                f"binds names {name!r}, which the tool does not take. {near_misses(name, inputs.parameters)}"
            )
    return {name: Binding(parameter=name, key=StateKey.parse(key)) for name, key in binds.items()}


def _wire_tags(meta: Mapping[str, Any] | None) -> list[str]:
    for key in ("fastmcp", "_fastmcp"):
        inner = (meta or {}).get(key)
        if isinstance(inner, Mapping) and isinstance(inner.get("tags"), list):
            return [str(tag) for tag in inner["tags"]]
    return []


def _tool_body(tool: Any) -> Body:
    async def run(**arguments: Any) -> Any:
        from fastmcp.exceptions import ValidationError as Refused

        try:
            return await tool.run(arguments)
        except Refused as error:
            raise ToolError(_validation_message(error, tool.parameters.get("properties", {}))) from None

    return run


def _validation_message(error: Exception, known: Mapping[str, Any]) -> str:
    """Say which arguments a tool's own validation refused; its text would show their values, and bound ones too."""
    faults = error.__cause__.errors(include_input=False) if isinstance(error.__cause__, ValidationError) else ()
    told = [f"{name!r} is not valid ({fault['type']})" for fault in faults if (name := str(fault["loc"][0])) in known]
    return f"Invalid arguments: {'; '.join(told) or 'the tool refused them'}."


def _unconnected_body(name: str) -> Body:
    async def run(**_arguments: Any) -> Any:
        raise ToolConnectionError(
            f"Tool {name!r} was made from a definition alone and has nothing to call through; "
            "give a connected client: from_mcp(tool, client=client), or await from_client(client, name).",
            tool=name,
        )

    return run
