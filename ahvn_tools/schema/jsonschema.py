"""The input side of a tool whose truth is a JSON Schema: from MCP, or written by hand. Checked by jsonschema-rs."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ahvn_tools.errors import DefinitionError, InvalidParametersError
from ahvn_tools.redaction import clip, is_marked_secret
from ahvn_tools.schema.parameters import Check, JsonObject, Parameter, Validator, unknown, without_properties
from ahvn_tools.schema.places import Nodes, Path, Places, property_names
from ahvn_tools.schema.repair import ROUNDS, Fault, guard, repair
from ahvn_tools.schema.titles import without_unused_definitions

MOST_PROBLEMS = 5
"""A message lists this many problems at most."""

MOST_ERRORS = 50
"""A message is made from this many errors at most."""

LONGEST = 200
"""What is wanted of one value is told in this many characters at most."""

_CONTAINERS = frozenset({"array", "object"})
_CLOSED = frozenset({"additionalProperties", "unevaluatedProperties"})
_TEXT_OF = {
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

    def __init__(self, schema: Mapping[str, Any], *, context: str | None = None) -> None:
        """Keep the schema. `context` is a parameter beside it, for what the body is given and nobody else sees.

        Raises DefinitionError when it is none, or does not describe an object.
        """
        if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), dict):
            raise DefinitionError("An input schema must describe an object: {'type': 'object', 'properties': {…}}.")
        try:
            self._text = json.dumps({"type": "object", **schema}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DefinitionError("An input schema must be JSON.") from error
        self.unschemed = frozenset() if context is None else frozenset({context})
        self._compiled = compiled(self.schema(frozenset()))
        required = frozenset(schema.get("required", ()))
        self.parameters: dict[str, Parameter] = {
            name: Parameter(
                name=name,
                property_name=name,
                is_required=name in required,
                is_secret=is_marked_secret(node),
                expected=_expected(node),
            )
            for name, node in schema.get("properties", {}).items()
        }
        for name in self.unschemed:
            self.parameters[name] = Parameter(name=name, property_name=name)

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all properties but `hidden`."""
        schema: JsonObject = json.loads(self._text)
        hidden -= self.unschemed
        return without_unused_definitions(without_properties(schema, hidden)) if hidden else schema

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of the arguments that a caller gives when `hidden` are bound."""
        schema = self.schema(hidden)
        return _Arguments(schema, hidden, compiled(schema) if hidden - self.unschemed else self._compiled).validate

    def quick(self, _hidden: frozenset[str]) -> None:
        """Say that there is no shorter way than the validator."""

    def check(self, name: str) -> Check | None:
        """Compile the check of one bound value, which is made JSON first."""
        if name in self.unschemed:
            return None
        kept = {key: value for key, value in self.schema(frozenset()).items() if key in _REFERRED_TO}
        return functools.partial(_bound, compiled(kept), name)


_REFERRED_TO = frozenset({"$schema", "$id", "$defs", "definitions", "properties"})
"""What the schema of one property may refer to; what the root says of the others is left out."""


def compiled(schema: JsonObject) -> Any:
    """Return jsonschema-rs's validator of a schema. Raises DefinitionError for a schema that is none."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        place = "".join(f"[{step!r}]" for step in getattr(error, "instance_path", ()))
        reason = clip(getattr(error, "message", None) or str(error), LONGEST)
        raise DefinitionError(
            f"Not a usable JSON Schema{place and f' at {place}'}: {reason}. It must be valid and hold all it refers to."
        ) from error


class _Arguments:
    """The check of the arguments of one set of visible properties."""

    def __init__(self, schema: JsonObject, hidden: frozenset[str], validator: Any) -> None:
        self._schema = schema
        self._hidden = hidden
        self._compiled = validator

    @functools.cached_property
    def _places(self) -> Places:
        return Places(self._schema)

    def _find_places(self) -> Places:
        return self._places

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as they are sent. Raises InvalidParametersError."""
        for name in arguments:
            if name in self._hidden:
                raise InvalidParametersError(f"Invalid arguments: {unknown(name, self._schema.get('properties', {}))}.")
        if guard(arguments):
            raise InvalidParametersError("Invalid arguments: NaN and Infinity are no JSON numbers.")
        accepted = self._accepted(_as_json(arguments))
        whole: JsonObject = whole_numbers(accepted, self._places.root, self._places)
        return whole

    def _accepted(self, arguments: JsonObject) -> JsonObject:
        if self._compiled.is_valid(arguments):
            return arguments
        removed: set[Path] = set()
        for _ in range(ROUNDS):
            faults = _faults(self._compiled.iter_errors(arguments))
            repaired = repair(arguments, faults, self._find_places, removed)
            if repaired is None:
                break
            guard(repaired)
            arguments = repaired
            if self._compiled.is_valid(arguments):
                return arguments
        raise InvalidParametersError(self._describe(arguments, removed))

    def _describe(self, arguments: JsonObject, removed: set[Path]) -> str:
        parameters = self._schema.get("properties", {})
        extra = [unknown(name, parameters) for name in arguments if name not in parameters]
        names = frozenset(property_names(self._schema))
        errors = itertools.islice(self._compiled.iter_errors(arguments), MOST_ERRORS)
        problems = list(dict.fromkeys(_problem(error, names, extra, removed) for error in errors))
        listed = "; ".join(problems[:MOST_PROBLEMS])
        more = f"; and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        return f"Invalid arguments: {listed}{more}."


def whole_numbers(value: Any, nodes: Nodes, places: Places) -> Any:
    """Return the value with integral floats made integers where the schema has integers and no other numbers."""
    if isinstance(value, float):
        kinds = {kind for node in nodes for kind in _kinds(node)}
        return int(value) if value.is_integer() and "integer" in kinds and "number" not in kinds else value
    if isinstance(value, dict):
        return {name: whole_numbers(item, places.inside(nodes, name), places) for name, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item, places.inside(nodes, i), places) for i, item in enumerate(value)]
    return value


def _kinds(node: JsonObject) -> tuple[str, ...]:
    kind = node.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def _as_json(arguments: JsonObject) -> JsonObject:
    try:
        accepted: JsonObject = to_jsonable_python(arguments)
    except (PydanticSerializationError, ValueError):
        raise InvalidParametersError("Invalid arguments: a value has no JSON form.") from None
    return accepted


def _bound(validator: Any, name: str, value: Any) -> Any:
    accepted = to_jsonable_python(_revealed(value))
    if not validator.is_valid({name: accepted}):
        raise ValueError("it does not fit its schema")
    return accepted


def _revealed(value: Any) -> Any:
    """Return a bound value with pydantic's secret types opened, as deep as containers go: their JSON form is stars."""
    if hasattr(value, "get_secret_value"):
        return _revealed(value.get_secret_value())
    if isinstance(value, Mapping):
        return {name: _revealed(item) for name, item in value.items()}
    return [_revealed(item) for item in value] if isinstance(value, list | tuple) else value


def _expected(node: Any) -> str:
    kind = node.get("type", "any") if isinstance(node, dict) else "any"
    return kind if isinstance(kind, str) else "|".join(map(str, kind))


def _faults(errors: Iterable[Any]) -> Iterator[Fault]:
    """Yield what may be repaired: at each error, and at each error inside the branches of a union."""
    for error in errors:
        wanted = error.kind.types if error.kind.name == "type" else ()
        yield Fault(location=tuple(error.instance_path), wants_container=not _CONTAINERS.isdisjoint(wanted))
        for branch in getattr(error.kind, "context", ()):
            yield from _faults(branch)


def _problem(error: Any, names: frozenset[str], extra: list[str], removed: set[Path]) -> str:
    kind, path = error.kind, tuple(error.instance_path)
    if kind.name == "required":
        whole = (*path, kind.property)
        return f"{_where(whole, names)} {'must not be null' if whole in removed else 'is missing'}"
    if _CLOSED.intersection(list(error.schema_path)[-1:]):
        return f"{_where(path, names)} has a member that is not known" if path else "; ".join(extra[:MOST_PROBLEMS])
    if kind.name in _TEXT_OF:
        wanted = kind.value
        text = " or ".join(map(str, wanted)) if kind.name == "type" else json.dumps(wanted, ensure_ascii=False)
        return f"{_where(path, names)} {_TEXT_OF[kind.name]} {clip(text, LONGEST)}"
    return f"{_where(path, names)} does not fit the schema ({kind.name})"


def _where(path: Path, names: frozenset[str]) -> str:
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
