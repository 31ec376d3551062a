"""The input side of a tool whose truth is a JSON Schema: from MCP, or written by hand. Checked by jsonschema-rs."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ahvn_tools.errors import DefinitionError, InvalidParametersError
from ahvn_tools.redaction import clip, is_secret_schema
from ahvn_tools.schema.inputs import (
    BoundValueValidator,
    JsonObject,
    Parameter,
    Validator,
    unknown_argument_message,
    without_properties,
)
from ahvn_tools.schema.places import InstancePath, Nodes, SubschemaFinder, iter_property_names
from ahvn_tools.schema.repair import MAX_ROUNDS, RepairCandidate, enforce_limits, repair
from ahvn_tools.schema.titles import without_unused_definitions

MAX_PROBLEMS = 5
"""A message lists this many problems at most."""

MAX_ERRORS = 50
"""A message is made from this many errors at most."""

MAX_DETAIL_CHARS = 200
"""What is wanted of one value is told in this many characters at most."""

_CONTAINER_TYPES = frozenset({"array", "object"})
_CLOSING_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties"})
_REQUIREMENT_TEXTS = {
    "type": "should be of type",
    "enum": "should be one of",
    "const": "should be",
    "minimum": "should be at least",
    "maximum": "should be at most",
    "exclusiveMinimum": "should be greater than",
    "exclusiveMaximum": "should be less than",
    "multipleOf": "should be a multiple of",
    "minLength": "should have at least this many characters:",
    "maxLength": "should have at most this many characters:",
    "minItems": "should have at least this many items:",
    "maxItems": "should have at most this many items:",
    "pattern": "should match the pattern",
    "format": "should have the format",
}


class SchemaInputs:
    """The properties of an object schema. Validators are compiled once; no `$ref` is ever fetched."""

    def __init__(self, schema: Mapping[str, Any], *, context_parameter: str | None = None) -> None:
        """Keep the schema. `context` is a parameter beside it, for what the body is given and nobody else sees.

        Raises DefinitionError when it is none, or does not describe an object.
        """
        if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), dict):
            raise DefinitionError("An input schema must describe an object: {'type': 'object', 'properties': {…}}.")
        try:
            self._schema_text = json.dumps({"type": "object", **schema}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DefinitionError("An input schema must be JSON.") from error
        self.parameters_without_schema = frozenset() if context_parameter is None else frozenset({context_parameter})
        self._compiled = compile_validator(self.schema(frozenset()))
        required = frozenset(schema.get("required", ()))
        self.parameters: dict[str, Parameter] = {
            name: Parameter(
                name=name,
                property_name=name,
                is_required=name in required,
                is_secret=is_secret_schema(node),
                expected=_format_type(node),
            )
            for name, node in schema.get("properties", {}).items()
        }
        for name in self.parameters_without_schema:
            self.parameters[name] = Parameter(name=name, property_name=name)

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all properties but `hidden`."""
        schema: JsonObject = json.loads(self._schema_text)
        hidden -= self.parameters_without_schema
        return without_unused_definitions(without_properties(schema, hidden)) if hidden else schema

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of the arguments that a caller gives when `hidden` are bound."""
        schema = self.schema(hidden)
        return _SchemaArgumentValidator(
            schema, hidden, compile_validator(schema) if hidden - self.parameters_without_schema else self._compiled
        ).validate

    def fast_validator(self, _hidden: frozenset[str]) -> None:
        """Say that there is no shorter way than the validator."""

    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the check of one bound value, which is made JSON first."""
        if name in self.parameters_without_schema:
            return None
        kept = {key: value for key, value in self.schema(frozenset()).items() if key in _REFERENCEABLE_KEYWORDS}
        return functools.partial(_validate_bound_value, compile_validator(kept), name)


_REFERENCEABLE_KEYWORDS = frozenset({"$schema", "$id", "$defs", "definitions", "properties"})
"""What the schema of one property may refer to; what the root says of the others is left out."""


def compile_validator(schema: JsonObject) -> Any:
    """Return jsonschema-rs's validator of a schema. Raises DefinitionError for a schema that is none."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        place = "".join(f"[{step!r}]" for step in getattr(error, "instance_path", ()))
        reason = clip(getattr(error, "message", None) or str(error), MAX_DETAIL_CHARS)
        raise DefinitionError(
            f"Not a usable JSON Schema{place and f' at {place}'}: {reason}. It must be valid and hold all it refers to."
        ) from error


class _SchemaArgumentValidator:
    """The check of the arguments of one set of visible properties."""

    def __init__(self, schema: JsonObject, hidden: frozenset[str], validator: Any) -> None:
        self._schema = schema
        self._hidden = hidden
        self._compiled = validator

    @functools.cached_property
    def _finder(self) -> SubschemaFinder:
        return SubschemaFinder(self._schema)

    def _get_finder(self) -> SubschemaFinder:
        return self._finder

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as they are sent. Raises InvalidParametersError."""
        for name in arguments:
            if name in self._hidden:
                raise InvalidParametersError(
                    f"Invalid arguments: {unknown_argument_message(name, self._schema.get('properties', {}))}."
                )
        if enforce_limits(arguments):
            raise InvalidParametersError("Invalid arguments: NaN and Infinity are no JSON numbers.")
        accepted = self._repair_and_validate(_to_json_object(arguments))
        whole: JsonObject = convert_integral_floats(accepted, self._finder.root, self._finder)
        return whole

    def _repair_and_validate(self, arguments: JsonObject) -> JsonObject:
        if self._compiled.is_valid(arguments):
            return arguments
        removed: set[InstancePath] = set()
        for _ in range(MAX_ROUNDS):
            faults = _repair_candidates(self._compiled.iter_errors(arguments))
            repaired = repair(arguments, faults, self._get_finder, removed)
            if repaired is None:
                break
            enforce_limits(repaired)
            arguments = repaired
            if self._compiled.is_valid(arguments):
                return arguments
        raise InvalidParametersError(self._describe(arguments, removed))

    def _describe(self, arguments: JsonObject, removed: set[InstancePath]) -> str:
        parameters = self._schema.get("properties", {})
        extra = [unknown_argument_message(name, parameters) for name in arguments if name not in parameters]
        names = frozenset(iter_property_names(self._schema))
        errors = itertools.islice(self._compiled.iter_errors(arguments), MAX_ERRORS)
        problems = list(dict.fromkeys(_format_error(error, names, extra, removed) for error in errors))
        listed = "; ".join(problems[:MAX_PROBLEMS])
        more = f"; and {len(problems) - MAX_PROBLEMS} more" if len(problems) > MAX_PROBLEMS else ""
        return f"Invalid arguments: {listed}{more}."


def convert_integral_floats(value: Any, nodes: Nodes, finder: SubschemaFinder) -> Any:
    """Return the value with integral floats made integers where the schema has integers and no other numbers."""
    if isinstance(value, float):
        kinds = {kind for node in nodes for kind in _type_names(node)}
        return int(value) if value.is_integer() and "integer" in kinds and "number" not in kinds else value
    if isinstance(value, dict):
        return {
            name: convert_integral_floats(item, finder.find_children(nodes, name), finder)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [convert_integral_floats(item, finder.find_children(nodes, i), finder) for i, item in enumerate(value)]
    return value


def _type_names(node: JsonObject) -> tuple[str, ...]:
    kind = node.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def _to_json_object(arguments: JsonObject) -> JsonObject:
    try:
        accepted: JsonObject = to_jsonable_python(arguments)
    except (PydanticSerializationError, ValueError):
        raise InvalidParametersError("Invalid arguments: a value has no JSON form.") from None
    return accepted


def _validate_bound_value(validator: Any, name: str, value: Any) -> Any:
    accepted = to_jsonable_python(_reveal_secrets(value))
    if not validator.is_valid({name: accepted}):
        raise ValueError("it does not fit its schema")
    return accepted


def _reveal_secrets(value: Any) -> Any:
    """Return a bound value with pydantic's secret types opened, as deep as containers go: their JSON form is stars."""
    if hasattr(value, "get_secret_value"):
        return _reveal_secrets(value.get_secret_value())
    if isinstance(value, Mapping):
        return {name: _reveal_secrets(item) for name, item in value.items()}
    return [_reveal_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def _format_type(node: Any) -> str:
    kind = node.get("type", "any") if isinstance(node, dict) else "any"
    return kind if isinstance(kind, str) else "|".join(map(str, kind))


def _repair_candidates(errors: Iterable[Any]) -> Iterator[RepairCandidate]:
    """Yield what may be repaired: at each error, and at each error inside the branches of a union."""
    for error in errors:
        wanted = error.kind.types if error.kind.name == "type" else ()
        yield RepairCandidate(
            location=tuple(error.instance_path), wants_container=not _CONTAINER_TYPES.isdisjoint(wanted)
        )
        for branch in getattr(error.kind, "context", ()):
            yield from _repair_candidates(branch)


def _format_error(error: Any, names: frozenset[str], extra: list[str], removed: set[InstancePath]) -> str:
    kind, path = error.kind, tuple(error.instance_path)
    if kind.name == "required":
        whole = (*path, kind.property)
        return f"{_format_location(whole, names)} {'must not be null' if whole in removed else 'is missing'}"
    if _CLOSING_KEYWORDS.intersection(list(error.schema_path)[-1:]):
        return (
            f"{_format_location(path, names)} has a member that is not known"
            if path
            else "; ".join(extra[:MAX_PROBLEMS])
        )
    if kind.name in _REQUIREMENT_TEXTS:
        wanted = kind.value
        text = " or ".join(map(str, wanted)) if kind.name == "type" else json.dumps(wanted, ensure_ascii=False)
        return f"{_format_location(path, names)} {_REQUIREMENT_TEXTS[kind.name]} {clip(text, MAX_DETAIL_CHARS)}"
    return f"{_format_location(path, names)} does not fit the schema ({kind.name})"


def _format_location(path: InstancePath, names: frozenset[str]) -> str:
    """Return the place in words; keys of free objects are the input's own and not shown."""
    text, is_inside = "", False
    for step in path:
        is_inside = False
        if isinstance(step, int):
            text += f"[{step}]"
        elif step in names:
            text += f".{step}" if text else step
        else:
            is_inside = True
    shown = repr(text) if text else "the whole"
    return f"a value in {shown}" if is_inside else shown
