"""The input side of a function with an explicit JSON Schema, which is exported and enforced."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ahvn_tools.errors import DefinitionError, InvalidParametersError, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.argument_changes import ArgumentChanges
from ahvn_tools.schema.inputs import BoundValueValidator, Inputs, Parameter, Validator
from ahvn_tools.schema.jsonschema import SchemaInputs
from ahvn_tools.schema.parameter_texts import schema_texts
from ahvn_tools.schema.problems import unknown_arguments
from ahvn_tools.schema.secret_defaults import remove_secret_defaults
from ahvn_tools.schema.untyped import UntypedArguments


class ExplicitSchemaInputs:
    """A function's parameters behind an explicit schema, which is validated first.

    What the function has no typed parameter for, only the schema validates, and the body gets the JSON.
    """

    def __init__(
        self,
        function: Inputs,
        schema: Mapping[str, Any],
        untyped: UntypedArguments,
        *,
        coerce_numbers_to_str: bool = True,
        changes: ArgumentChanges = ArgumentChanges(),  # noqa: B008  # it is frozen
    ) -> None:
        """Raises DefinitionError for an invalid schema, or one with a property that the function does not take."""
        self._function = function
        self._untyped = untyped
        self._explicit = SchemaInputs(schema, coerce_numbers_to_str=coerce_numbers_to_str, changes=changes)
        typed = {parameter.property_name for parameter in function.parameters.values()}
        others = {name: item for name, item in self._explicit.parameters.items() if name not in typed}
        required = [name for name in schema.get("required", ()) if changes.new_name(name) not in typed]
        declared = {changes.new_name(name) for name in schema.get("properties", {})}
        for name in (*(item.body_name or name for name, item in others.items() if name in declared), *required):
            if not untyped.accepts(name):
                known = typed | untyped.names
                raise DefinitionError(
                    f"input_schema has the property {name!r}, which is not a parameter. {near_misses(name, known)} "
                    "Add the parameter, or `**kwargs` for properties without one."
                )
        self._others = {
            name: _complete(item, untyped) for name, item in others.items() if name in declared or untyped.accepts(name)
        }
        self._typed_names = {
            name for p in function.parameters.values() for name in (p.name, p.property_name, p.body_name)
        }
        self.parameters = {**function.parameters, **self._others}
        self.accepts_other_names = self._explicit.accepts_other_names
        self.parameters_without_schema = function.parameters_without_schema
        if untyped.are_all:
            self.parameters = {**self._others, **function.parameters}
            required_names = (parameter.name for parameter in function.parameters.values() if parameter.is_required)
            self.parameters_without_schema = frozenset(required_names)

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh copy of the explicit schema without `hidden`, and without defaults of secret parameters."""
        secret = [parameter.property_name for parameter in self.parameters.values() if parameter.is_secret]
        return remove_secret_defaults(self._explicit.schema(self._property_names(hidden)), secret)

    def find_obstacle(self, hidden: frozenset[str]) -> str | None:
        """Return why parameters cannot be hidden; None if they can."""
        return self._explicit.find_obstacle(self._property_names(hidden))

    def schema_text(self, hidden: frozenset[str]) -> str:
        """Return it as JSON text."""
        return json.dumps(self.schema(hidden))

    def texts(self, hidden: frozenset[str]) -> Iterable[str]:
        """Yield the names and descriptions of all properties but `hidden`, and of those in them."""
        return schema_texts(self.schema(hidden))

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check against the explicit schema, followed by the function's own check."""
        refused = hidden | self._function.parameters.keys() if self._untyped.are_all else hidden
        validate_schema = self._explicit.validator(self._property_names(refused) | self._untyped.reserved)
        validate_typed = self._function.validator(hidden)
        if not (self._others or self._untyped.takes_any_name):
            return lambda arguments: validate_typed(validate_schema(arguments))

        def validate(arguments: JsonObject) -> JsonObject:
            accepted = validate_schema(arguments)
            others = {name: value for name, value in accepted.items() if self._is_untyped(name)}
            typed = {name: value for name, value in accepted.items() if name not in others}
            if typed and self._untyped.are_all:
                visible = [name for name in self._others if name not in hidden]
                raise InvalidParametersError(unknown_arguments(list(typed), visible))
            return {**validate_typed(typed), **others}

        return validate

    def fast_validator(self, _hidden: frozenset[str]) -> None:
        """Return None: the validator is the only check."""

    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the check of one bound value: by the function's type, or by the schema where there is no type."""
        inputs = self._explicit if name in self._others else self._function
        return inputs.bound_value_validator(name)

    def _is_untyped(self, name: str) -> bool:
        return name in self._others or (self._untyped.takes_any_name and name not in self._typed_names)

    def _property_names(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(self.parameters[name].property_name for name in names if name in self.parameters)


def _complete(parameter: Parameter, untyped: UntypedArguments) -> Parameter:
    """Return a parameter with what the function says about it: that it is secret, and its default."""
    name = parameter.body_name or parameter.name
    is_secret = parameter.is_secret or name in untyped.secret_names
    return replace(parameter, is_secret=is_secret, fixed_default=untyped.defaults.get(name, parameter.fixed_default))
