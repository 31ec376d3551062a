"""MCP tools as a source: a FastMCP Tool of any kind, or an `mcp.types.Tool` with or without a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ahvn_tools.binding import Binding
from ahvn_tools.errors import DefinitionError, ToolConnectionError, near_misses
from ahvn_tools.recipe import Recipe, Texts
from ahvn_tools.schema.jsonschema import SchemaInputs
from ahvn_tools.schema.output import Output
from ahvn_tools.sources.options import checked, wire_annotations, wire_icons
from ahvn_tools.state import Key

if TYPE_CHECKING:
    from fastmcp.tools import Tool
    from mcp_types import Tool as WireTool

Body = Callable[..., Awaitable[Any]]

_NOT_HERE = frozenset({
    "parse_docstring", "include_long_description", "include_var_positional", "include_var_keyword", "run_in_thread",
})  # fmt: skip


def recipe(
    tool: Tool | WireTool,
    options: Mapping[str, Any],
    send: Body | None = None,
    *,
    bindings: Mapping[str, Binding] | None = None,
) -> tuple[Recipe, Body]:
    """Return the recipe of a tool, and the body that runs it.

    A FastMCP Tool runs itself; a wire tool runs through `send(**arguments)`, or says what is missing.
    """
    checked(options)
    for name in options:
        if name in _NOT_HERE:
            raise DefinitionError(f"{name!r} is about a Python function; an MCP tool has none.")
    is_wire = not hasattr(tool, "run")
    body: Body = send or _unconnected(tool.name) if is_wire else _runner(tool)
    schema = options.get("input_schema") or (getattr(tool, "input_schema", None) if is_wire else tool.parameters)  # type: ignore[union-attr]  # is_wire tells the two apart
    meta = options.get("meta") or tool.meta
    inputs = SchemaInputs(schema or {})
    return (
        Recipe(
            name=options.get("name") or tool.name,
            texts=Texts(options.get("description") or tool.description or ""),
            inputs=inputs,
            output=Output(schema=options.get("output_schema") or tool.output_schema),
            is_async=True,
            is_coroutine=True,
            title=options.get("title") or tool.title,
            tags=frozenset(options.get("tags") or getattr(tool, "tags", None) or _wire_tags(meta)),
            annotations=wire_annotations(options.get("annotations") or tool.annotations),
            meta=meta,
            version=options.get("version") or getattr(tool, "version", None),
            icons=wire_icons(options.get("icons") or tool.icons),
            examples=options.get("examples"),
            timeout=options.get("timeout"),
            tool=None if is_wire else cast("Tool", tool),
            bindings=_bindings(options.get("binds") or {}, inputs) if bindings is None else bindings,
            options=dict(options),
            remake=_remade,
            hints={"tool": tool},
        ),
        body,
    )


def _remade(
    _body: Body, options: Mapping[str, Any], *, tool: Any, bindings: Mapping[str, Binding]
) -> tuple[Recipe, Body]:
    """Make the recipe again; a connection does not travel, so a remote tool is left without one."""
    return recipe(tool, options, bindings=bindings)


def _bindings(binds: Mapping[str, str], inputs: SchemaInputs) -> dict[str, Binding]:
    for name in binds:
        if name not in inputs.parameters:
            raise DefinitionError(
                f"binds names {name!r}, which the tool does not take. {near_misses(name, inputs.parameters)}"
            )
    return {name: Binding(parameter=name, key=Key.parse(key)) for name, key in binds.items()}


def _wire_tags(meta: Mapping[str, Any] | None) -> list[str]:
    for key in ("fastmcp", "_fastmcp"):
        inner = (meta or {}).get(key)
        if isinstance(inner, Mapping) and isinstance(inner.get("tags"), list):
            return [str(tag) for tag in inner["tags"]]
    return []


def _runner(tool: Any) -> Body:
    async def run(**arguments: Any) -> Any:
        return await tool.run(arguments)

    return run


def _unconnected(name: str) -> Body:
    async def run(**_arguments: Any) -> Any:
        raise ToolConnectionError(
            f"Tool {name!r} was made from a definition alone and has nothing to call through; "
            "give a connected client: from_mcp(tool, client=client), or await from_client(client, name).",
            tool=name,
        )

    return run
