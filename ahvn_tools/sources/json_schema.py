"""A JSON Schema and a function as a source: the schema alone validates, and the function gets the JSON.

A definition for OpenAI has such a schema: it is the inverse of the formats `openai` and `openai_responses`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.annotations import Namespace
from ahvn_tools.sources import function as function_source
from ahvn_tools.template import ToolTemplate


def build_template(
    name: Any,
    input_schema: Any,
    function: Any,
    options: Mapping[str, Any],
    *,
    namespace: Namespace | None = None,
) -> tuple[ToolTemplate, Callable[..., Any]]:
    """Return the template of a function whose arguments are validated by a JSON Schema alone, and the body to call.

    `function` is None for an external tool. `namespace` resolves string annotations. Raises DefinitionError for a
    schema that does not describe an object or is not complete, and for a function that does not take its properties.
    """
    if not isinstance(name, str) or name == "":
        raise DefinitionError(f"The name of a tool must be a text that is not empty, not {name!r}.")
    if not isinstance(input_schema, dict):
        raise DefinitionError(
            f"input_schema must be a dict such as {{'type': 'object', 'properties': {{…}}}}, "
            f"not a {type(input_schema).__name__}."
        )
    if function is None and not options.get("external"):
        raise DefinitionError(f"{name!r} has no function: pass one, or external=True if its results come from outside.")
    function = function or external_body
    options = {**options, "name": name, "input_schema": input_schema}
    return function_source.build_template(function, options, namespace=namespace, has_types=False)


def external_body(**_arguments: Any) -> NoReturn:
    """Stand for the function of an external tool that has none. No call reaches it."""
    raise AssertionError


def build_openai_template(
    definition: Any, function: Any, options: Mapping[str, Any], *, namespace: Namespace | None = None
) -> tuple[ToolTemplate, Callable[..., Any]]:
    """Return the template and the body of a function that a definition describes.

    `namespace` resolves string annotations. Raises DefinitionError for another definition, and as
    `build_template` does.
    """
    declared = _to_function(definition)
    name, parameters = declared.get("name"), declared.get("parameters")
    described = {} if declared.get("description") is None else {"description": declared["description"]}
    schema = {"type": "object", "properties": {}} if parameters is None else parameters
    options = {**described, **options}
    return build_template(options.get("name", name), schema, function, options, namespace=namespace)


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
