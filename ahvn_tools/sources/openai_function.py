"""A definition for OpenAI and a function as a source: the inverse of the formats `openai` and `openai_responses`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.annotations import Namespace
from ahvn_tools.sources import schema_function
from ahvn_tools.template import ToolTemplate


def build_template(
    definition: Any, function: Any, options: Mapping[str, Any], *, namespace: Namespace | None = None
) -> tuple[ToolTemplate, Callable[..., Any]]:
    """Return the template and the body of a function that a definition describes.

    `namespace` resolves string annotations. Raises DefinitionError for another definition, and as
    `schema_function.build_template` does.
    """
    declared = _to_function(definition)
    name, parameters = declared.get("name"), declared.get("parameters")
    described = {} if declared.get("description") is None else {"description": declared["description"]}
    schema = {"type": "object", "properties": {}} if parameters is None else parameters
    options = {**described, **options}
    return schema_function.build_template(options.get("name", name), schema, function, options, namespace=namespace)


def _to_function(definition: Any) -> Mapping[str, Any]:
    """Return what describes the function. Raises DefinitionError for what is no definition of a function."""
    if isinstance(definition, Mapping) and definition.get("type") == "function":
        declared = definition.get("function", definition)
        if isinstance(declared, Mapping) and isinstance(declared.get("name"), str):
            return declared
    raise DefinitionError(
        "The definition must be {'type': 'function', 'function': {'name': …, 'parameters': {…}}}, as in Chat "
        "Completions, or {'type': 'function', 'name': …, 'parameters': {…}}, as in the Responses API."
    )
