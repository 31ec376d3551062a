"""Make the core's tool of a function, and of the schema that describes it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

from ahvn_tools import ToolSpec
from ahvn_tools.compat.agentscope.tool.registered_function import RegisteredTool
from ahvn_tools.errors import DefinitionError


def from_schema(function: Any, schema: Any, presets: dict[str, Any], options: dict[str, Any]) -> ToolSpec:
    """Return the tool that a function schema describes. Raises TypeError for a schema that is none."""
    match schema:
        case {"type": "function", "function": {"parameters": {"properties": dict(properties)}}}:
            options["binds"] = bind_hidden(function, presets, properties)
        case {"type": "function", "function": dict()}:
            options["binds"] = bind_hidden(function, presets, ())
        case _:
            raise TypeError('A json_schema is {"type": "function", "function": {"name": …, "parameters": {…}}}.')
    try:
        return RegisteredTool.from_openai(schema, function, **options)
    except DefinitionError as error:
        raise TypeError(f"The json_schema cannot be used. {error}") from error


def bind_hidden(
    function: Callable[..., Any], presets: dict[str, Any], properties: Collection[str] | None = None
) -> dict[str, str]:
    """Return the option `binds` for presets that no argument could be; in `presets`, put those of `**kwargs` together.

    `properties` are the names of the arguments, by default those of the parameters.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return {}  # the error of the tool says what is wrong
    named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    names = named if properties is None else {*properties}
    variadic = [parameter.name for parameter in parameters if parameter.name not in named]
    others = [name for name in presets if name not in named | names]
    if variadic and others and not hasattr(function, "mcp_name"):  # a server takes what it says, and no more
        fixed = function.keywords if isinstance(function, functools.partial) else {}
        of_partial = {name: value for name, value in fixed.items() if name not in named}
        presets[variadic[0]] = of_partial | {name: presets.pop(name) for name in others}
    return {name: name for name in presets if name in {*named, *variadic} - names}
