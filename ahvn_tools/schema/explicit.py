"""The input side of a function that comes with a JSON Schema of its own: the schema is shown and enforced first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ahvn_tools.errors import DefinitionError, near_misses
from ahvn_tools.schema.inputs import BoundValueValidator, Inputs, JsonObject, Parameter, Validator
from ahvn_tools.schema.jsonschema import SchemaInputs


class ExplicitSchemaInputs:
    """A function's parameters behind a given schema."""

    def __init__(self, function: Inputs, schema: Mapping[str, Any]) -> None:
        """Raises DefinitionError when the schema is none, or has a property that the function does not take."""
        self._function = function
        self._explicit = SchemaInputs(schema)
        taken = {parameter.property_name for parameter in function.parameters.values()}
        for name in (*self._explicit.parameters, *schema.get("required", ())):
            if name not in taken:
                raise DefinitionError(
                    f"input_schema has the property {name!r}, which is no parameter. {near_misses(name, taken)}"
                )
        self.parameters_without_schema = function.parameters_without_schema

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The function's parameters."""
        return self._function.parameters

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh copy of the given schema without `hidden`."""
        return self._explicit.schema(self._property_names(hidden))

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check against the given schema, followed by the function's own."""
        given, own = self._explicit.validator(self._property_names(hidden)), self._function.validator(hidden)
        return lambda arguments: own(given(arguments))

    def fast_validator(self, _hidden: frozenset[str]) -> None:
        """Say that there is no shorter way than the validator."""

    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the function's own check of one bound value."""
        return self._function.bound_value_validator(name)

    def _property_names(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(self.parameters[name].property_name for name in names if name in self.parameters)
