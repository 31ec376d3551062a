"""The parameters of a function with changed arguments: under their new names, with their new defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from keyword import iskeyword
from typing import Any

from ahvn_tools.binding import Binding
from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.errors import DefinitionError
from ahvn_tools.schema.argument_changes import ArgumentChange, ArgumentChanges
from ahvn_tools.schema.inputs import Inputs

EMPTY = inspect.Parameter.empty


def rename_bindings(bindings: Mapping[str, Binding], renames: Mapping[str, str]) -> dict[str, Binding]:
    """Return the bindings under the new names of their parameters."""
    return {
        renames.get(name, name): replace(binding, parameter=renames.get(name, name))
        for name, binding in bindings.items()
    }


def rename_parameters(
    signature: inspect.Signature, resolved: Mapping[str, Any], renames: Mapping[str, str]
) -> tuple[inspect.Signature, dict[str, Any]]:
    """Return the signature and its resolved annotations with the new names. Raises DefinitionError."""
    for own_name, name in renames.items():
        if own_name in signature.parameters and (not name.isidentifier() or iskeyword(name)):
            raise DefinitionError(f"A function's argument cannot be named {name!r}: choose a Python name.")
    parameters = [p.replace(name=renames.get(p.name, p.name)) for p in signature.parameters.values()]
    return _to_signature(parameters), {renames.get(name, name): annotation for name, annotation in resolved.items()}


def change_defaults(
    signature: inspect.Signature, changes: Mapping[str, ArgumentChange], defaults: Mapping[str, Any]
) -> inspect.Signature:
    """Return the signature with new defaults, and without those of arguments that are required now.

    All by the new names. Raises DefinitionError for a default that is a pydantic Field.
    """
    parameters = []
    for parameter in signature.parameters.values():
        change = changes.get(parameter.name, {})
        if change.get("required") or parameter.name in defaults:
            if isinstance(parameter.default, loaded_classes("pydantic.fields", "FieldInfo")):
                raise DefinitionError(
                    f"The default of {parameter.name!r} is a pydantic Field: write it as Annotated[…, Field(…)]."
                )
            parameter = parameter.replace(default=defaults.get(parameter.name, EMPTY))  # noqa: PLW2901  # the changed one
        parameters.append(parameter)
    return _to_signature(parameters)


def convert_defaults(tool: str, inputs: Inputs, changes: ArgumentChanges) -> dict[str, Any]:
    """Return the new defaults, by the new names, as the body takes them. Raises DefinitionError."""
    converted = {}
    for name, value in changes.defaults().items():
        parameter, validate = inputs.parameters[name], inputs.bound_value_validator(name)
        if parameter.is_secret:
            raise DefinitionError(f"{name!r} of {tool!r} is secret: bind it instead of a default.")
        converted[name] = value if validate is None else _convert(tool, name, parameter.expected, value, validate)
    return converted


def _convert(tool: str, name: str, expected: str, value: Any, validate: Callable[[Any], Any]) -> Any:
    try:
        return validate(value)
    except Exception:  # noqa: BLE001  # a validator's own error would show the value
        raise DefinitionError(f"The default of {name!r} of {tool!r} does not fit {expected!r}.") from None


def _to_signature(parameters: list[inspect.Parameter]) -> inspect.Signature:
    """Return a signature in which a parameter without a default may follow one that has one."""
    return inspect.Signature(parameters, __validate_parameters__=False)
