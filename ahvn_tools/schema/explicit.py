"""The input side of a function with an explicit JSON Schema, which is exported and validated first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.inputs import BoundValueValidator, Inputs, Parameter, Validator
from ahvn_tools.schema.jsonschema import SchemaInputs


class ExplicitSchemaInputs:
    """A function's parameters behind an explicit schema."""

    def __init__(self, function: Inputs, schema: Mapping[str, Any]) -> None:
        """Raises DefinitionError for an invalid schema, or one with a property that is not a parameter."""
        self._function = function
        self._explicit = SchemaInputs(schema)
        known = {parameter.property_name for parameter in function.parameters.values()}
        for name in (*self._explicit.parameters, *schema.get("required", ())):
            if name not in known:
                raise DefinitionError(
                    f"input_schema has the property {name!r}, which is not a parameter. {near_misses(name, known)}"
                )
        self.parameters_without_schema = function.parameters_without_schema

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The function's parameters."""
        return self._function.parameters

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh copy of the explicit schema without `hidden`."""
        return self._explicit.schema(self._property_names(hidden))

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check against the explicit schema, followed by the function's own check."""
        validate_explicit = self._explicit.validator(self._property_names(hidden))
        validate_function = self._function.validator(hidden)
        return lambda arguments: validate_function(validate_explicit(arguments))

    def fast_validator(self, _hidden: frozenset[str]) -> None:
        """Return None: the validator is the only check."""

    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the function's own check of one bound value."""
        return self._function.bound_value_validator(name)

    def _property_names(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(self.parameters[name].property_name for name in names if name in self.parameters)
