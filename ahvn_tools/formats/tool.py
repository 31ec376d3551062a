"""What formats of one family say of a tool: the parts of a definition in the form that their providers take."""

from __future__ import annotations

from collections.abc import Callable

from ahvn_tools.definition import JsonObject, ToolDefinition
from ahvn_tools.schema.root import flattened, plain, with_properties

Strict = Callable[[JsonObject], tuple[JsonObject, list[str]]]


def described(definition: ToolDefinition, strict: Strict | None) -> tuple[JsonObject, str, bool]:
    """Return the schema of the arguments, the description, and whether the schema is strict.

    The root is one plain object; what it cannot say is told in the description, and no grammar could enforce it. A
    schema for which `strict` has reasons is given as it is.
    """
    schema, rules = flattened(plain(definition.input_schema))
    if strict is not None and not rules:
        made, reasons = strict(schema)
        if not reasons:
            return made, definition.description, True
    return with_properties(schema), "\n\n".join(filter(None, [definition.description, " ".join(rules)])), False
