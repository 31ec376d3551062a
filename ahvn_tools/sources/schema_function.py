"""A JSON Schema and a function as a source: the schema alone validates, and the function gets the JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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

    `namespace` resolves string annotations. Raises DefinitionError for a schema that does not describe an object or
    is not complete, and for a function that does not take its properties.
    """
    if not isinstance(name, str) or name == "":
        raise DefinitionError(f"The name of a tool must be a text that is not empty, not {name!r}.")
    if not isinstance(input_schema, dict):
        raise DefinitionError(
            f"input_schema must be a dict such as {{'type': 'object', 'properties': {{…}}}}, "
            f"not a {type(input_schema).__name__}."
        )
    options = {**options, "name": name, "input_schema": input_schema}
    return function_source.build_template(function, options, namespace=namespace, has_types=False)
