"""Writes a tool as data, and makes sure that the tool can be made from it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ahvn_tools import definition_lock
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.spec_data import tool_data
from ahvn_tools.spec_data.binds import secret_keys, write_binds
from ahvn_tools.spec_data.code import function_of, write_code
from ahvn_tools.spec_data.options import write_options
from ahvn_tools.spec_data.tool_data import ToolData
from ahvn_tools.state import StateKey


def write(
    compiled: CompiledTool,
    body: Any,
    state: Mapping[str, Any],
    secrets: Iterable[StateKey],
    *,
    spec_class: str | None,
    with_values: bool,
) -> JsonObject:
    """Return the data of a tool. Raises ToolSpecError, with the fix, for a part that is not data."""
    definition, keys = compiled.definition, secret_keys(compiled, secrets)
    data: JsonObject = {
        "version": tool_data.VERSION,
        "definition": definition_lock.to_json(definition),
        "fingerprint": definition.fingerprint,
        "code": write_code(compiled.template, body),
        "options": write_options(compiled),
        "binds": write_binds(compiled, state, keys, with_values=with_values),
    }
    if keys:
        data["secret_keys"] = sorted(key.text for key in keys)
    if spec_class is not None:
        data["spec_class"] = spec_class
    data = json.loads(json.dumps(data))
    data["digest"] = tool_data.digest(data)
    _require_complete(data, compiled, body)
    return data


def _require_complete(data: JsonObject, compiled: CompiledTool, body: Any) -> None:
    """Raise ToolSpecError if the data gives another tool, as for types that only the defining function knows."""
    tool = ToolData.read(data)
    name, bindings = compiled.template.name, {item.parameter: item.to_binding() for item in tool.binds}
    try:
        template, _ = tool.build(function_of(body), tool.options.load(), bindings)
        again = CompiledTool(template, template.bindings).definition
    except ToolSpecError as error:
        raise ToolSpecError(f"{name!r} cannot be made from data again: {error}") from error
    if again != compiled.definition:
        raise ToolSpecError(
            f"{name!r} would be another tool: {tool_data.describe_changes(compiled.definition, again)}. Pass as "
            "options what its function does not say itself, such as the description."
        )
