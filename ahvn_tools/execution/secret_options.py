"""The options of a tool without the values of secret parameters that are bound: for pickles and data."""

from __future__ import annotations

import copy
from typing import Any

from ahvn_tools.execution.plan import CompiledTool
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.keywords import remove_secret_defaults


def bound_secrets(compiled: CompiledTool) -> frozenset[str]:
    """Return the bound parameters that are marked, named or bound as secret."""
    secret_names = compiled.plan.secret_names
    return frozenset(name for name, item in compiled.bindings.items() if item.is_secret or name in secret_names)


def removed_defaults(compiled: CompiledTool) -> frozenset[str]:
    """Return the parameters with a default in the option `arguments` that `without_secret_values` leaves out."""
    return bound_secrets(compiled) & _changes(compiled).defaults().keys()


def without_secret_values(compiled: CompiledTool) -> dict[str, Any]:
    """Return the options; those that have defaults or examples of secret parameters are copies without them."""
    options, secret = dict(compiled.template.options), bound_secrets(compiled)
    if secret and options.get("arguments"):
        changes = _changes(compiled)
        options["arguments"] = {
            name: {
                key: value
                for key, value in change.items()
                if key not in ("default", "examples") or changes.new_name(name) not in secret
            }
            for name, change in changes.by_name.items()
        }
    if isinstance(options.get("input_schema"), dict):
        options["input_schema"] = _without_secret_defaults(options["input_schema"], compiled, secret)
    return options


def _changes(compiled: CompiledTool) -> ArgumentChanges:
    return ArgumentChanges.parse(compiled.template.options.get("arguments"))


def _without_secret_defaults(schema: JsonObject, compiled: CompiledTool, secret: frozenset[str]) -> JsonObject:
    schema, parameters = copy.deepcopy(schema), compiled.template.inputs.parameters
    remove_secret_defaults(
        schema, [item.property_name for name, item in parameters.items() if item.is_secret or name in secret]
    )
    for name in secret & parameters.keys():
        node = schema.get("properties", {}).get(parameters[name].property_name)
        if isinstance(node, dict):
            node.pop("examples", None)  # of a property that a model sees, they stay
    return schema
