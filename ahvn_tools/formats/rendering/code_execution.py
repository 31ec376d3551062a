"""Anthropic's code execution: the provider's own tool in an export, and who may be called from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import DefinitionError, ToolSpecError, near_misses
from ahvn_tools.formats.rendering.callers import programmatic_names
from ahvn_tools.json_types import JsonObject
from ahvn_tools.results import DIRECT, PROGRAMMATIC
from ahvn_tools.schema.refs import find_cyclic_refs

_DEFAULT: Final = "code_execution_20260120"
_INTERCHANGEABLE: Final = (_DEFAULT, "code_execution_20260521")
"""Anthropic accepts one of these as a caller where the request has the other."""
_VERSIONS: Final = (*_INTERCHANGEABLE, "code_execution_20250825")
"""The versions whose programs can call tools."""
CODE_EXECUTION_NAME: Final = "code_execution"
"""The name of Anthropic's own tool."""


def to_version(code_execution: bool | str) -> str | None:
    """Return the version that an export adds; None for none. Raises ToolSpecError for an unknown one."""
    if isinstance(code_execution, bool):
        return _DEFAULT if code_execution else None
    if code_execution not in _VERSIONS:
        near = near_misses(str(code_execution), _VERSIONS)
        raise ToolSpecError(f"There is no code execution {code_execution!r} that can call tools. {near}")
    return code_execution


def caller_words(version: str | None) -> dict[str, str]:
    """Return the callers that an export with this version accepts, each with Anthropic's word for it."""
    versions = _VERSIONS if version is None else _INTERCHANGEABLE if version in _INTERCHANGEABLE else (version,)
    return {DIRECT: DIRECT, PROGRAMMATIC: version or _DEFAULT, **{name: name for name in versions}}


def without_recursive(
    callers: Mapping[str, list[str]], tools: Iterable[JsonObject], definitions: Iterable[ToolDefinition]
) -> dict[str, list[str]]:
    """Return the callers of each tool; of one with a recursive schema only the model itself.

    Anthropic refuses programs that could call it. Raises ToolSpecError if the model may not call it, either.
    """
    allowed = {**callers}
    programmatic = programmatic_names(callers)
    for tool, definition in zip(tools, definitions, strict=True):
        name = definition.name
        if name in programmatic and is_recursive(definition, tool["input_schema"]):
            if DIRECT not in allowed[name]:
                raise ToolSpecError(
                    f"Anthropic refuses programs that call {name!r}, because its schema is recursive. "
                    "Allow it the caller 'direct', too, or limit its nesting."
                )
            allowed[name] = [DIRECT]
    return allowed


def is_recursive(definition: ToolDefinition, exported_schema: JsonObject) -> bool:
    """Return whether the exported schema of a tool is recursive."""
    return definition.share(_has_cycle, _has_cycle, exported_schema)


def _has_cycle(_: ToolDefinition, exported_schema: JsonObject) -> bool:
    return bool(find_cyclic_refs(exported_schema))


def with_code_execution(tools: list[JsonObject], version: str) -> list[JsonObject]:
    """Return the tools and, as the last, Anthropic's own. Raises DefinitionError if one of them has its name."""
    if any(tool["name"] == CODE_EXECUTION_NAME for tool in tools):
        raise DefinitionError(
            f"A tool and Anthropic's own would both be called {CODE_EXECUTION_NAME!r}. Rename the tool."
        )
    return [*tools, {"type": version, "name": CODE_EXECUTION_NAME}]
