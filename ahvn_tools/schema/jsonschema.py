"""The input side of a tool whose truth is a JSON Schema: from MCP, or written by hand. Checked by jsonschema-rs."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ahvn_tools.errors import DefinitionError, InvalidParametersError
from ahvn_tools.redaction import clip
from ahvn_tools.schema.parameters import SAFE_NAME, Check, JsonObject, Parameter, Validator, without_properties
from ahvn_tools.schema.repair import ROUNDS, Fault, Path, guard, repair
from ahvn_tools.schema.titles import without_unused_definitions

MOST_PROBLEMS = 5
"""A message lists this many problems at most."""

_CONTAINERS = frozenset({"array", "object"})
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
    """The properties of an object schema. Validators are compiled when asked for; no `$ref` is ever fetched."""

    unschemed: frozenset[str] = frozenset()

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Keep the schema. Raises DefinitionError when it does not describe an object."""
        if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), dict):
            raise DefinitionError("An input schema must describe an object: {'type': 'object', 'properties': {…}}.")
        self._text = json.dumps({"type": "object", **schema})
        required = frozenset(schema.get("required", ()))
        self.parameters: dict[str, Parameter] = {
            name: Parameter(name=name, property_name=name, is_required=name in required, expected=_expected(node))
            for name, node in schema.get("properties", {}).items()
        }

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all properties but `hidden`."""
        schema: JsonObject = json.loads(self._text)
        return without_unused_definitions(without_properties(schema, hidden)) if hidden else schema

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of the arguments that a caller gives when `hidden` are bound."""
        return _Arguments(self.schema(hidden), hidden).validate

    def check(self, name: str) -> Check | None:
        """Compile the check of one bound value, which is made JSON first."""
        whole = self.schema(frozenset())
        node = whole["properties"][name]
        if not isinstance(node, dict):
            return functools.partial(_bound, None)
        definitions: JsonObject = {key: whole[key] for key in ("$defs", "definitions") if key in whole}
        return functools.partial(_bound, compiled({**definitions, **node}))


def compiled(schema: JsonObject) -> Any:
    """Return jsonschema-rs's validator of a schema. Raises DefinitionError for a schema that is none."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise DefinitionError(
            f"Not a usable JSON Schema: {type(error).__name__}; it must be valid and hold all it refers to."
        ) from error


class _Arguments:
    def __init__(self, schema: JsonObject, hidden: frozenset[str]) -> None:
        self._schema = schema
        self._hidden = hidden
        self._compiled: Any = None

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as they are sent. Raises InvalidParametersError."""
        for name in arguments:
            if name in self._hidden:
                raise InvalidParametersError(f"Invalid arguments: unknown argument {name!r}.")
        if guard(arguments):
            raise InvalidParametersError("Invalid arguments: NaN and Infinity are no JSON numbers.")
        try:
            accepted: JsonObject = to_jsonable_python(arguments)
        except (PydanticSerializationError, ValueError) as error:
            raise InvalidParametersError("Invalid arguments: a value has no JSON form.") from error
        whole: JsonObject = whole_numbers(self._accepted(accepted), self._schema)
        return whole

    def _accepted(self, arguments: JsonObject) -> JsonObject:
        if self._compiled is None:
            self._compiled = compiled(self._schema)
        if self._compiled.is_valid(arguments):
            return arguments
        removed: set[Path] = set()
        for _ in range(ROUNDS):
            repaired = repair(arguments, _faults(self._compiled.iter_errors(arguments)), removed)
            if repaired is None:
                break
            guard(repaired)
            arguments = repaired
            if self._compiled.is_valid(arguments):
                return arguments
        raise InvalidParametersError(_describe(self._compiled.iter_errors(arguments), removed))


def whole_numbers(value: Any, schema: Any) -> Any:
    """Return the value with integral floats made integers where the schema's own type says integer."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return {name: whole_numbers(item, properties.get(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item, schema.get("items")) for item in value]
    return value


def _bound(validator: Any, value: Any) -> Any:
    accepted = to_jsonable_python(value)
    if validator is not None and not validator.is_valid(accepted):
        raise ValueError("it does not fit its schema")
    return accepted


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


def _describe(errors: Iterable[Any], removed: set[Path]) -> str:
    problems = list(dict.fromkeys(_problem(error, removed) for error in errors))
    listed = "; ".join(problems[:MOST_PROBLEMS])
    more = f"; and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
    return f"Invalid arguments: {listed}{more}."


def _problem(error: Any, removed: set[Path]) -> str:
    kind, path = error.kind, tuple(error.instance_path)
    if kind.name == "required":
        whole = (*path, kind.property)
        return f"{_where(whole)} {'must not be null' if whole in removed else 'is missing'}"
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        names = [repr(name) if SAFE_NAME.match(name) else "one with no plain name" for name in kind.unexpected]
        return f"unknown argument {', '.join(names)}" + (f" in {_where(path)}" if path else "")
    if kind.name in _TEXT_OF:
        wanted = kind.value
        shown = " or ".join(map(str, wanted)) if kind.name == "type" else json.dumps(wanted, ensure_ascii=False)
        return f"{_where(path)} {_TEXT_OF[kind.name]} {clip(shown, 200)}"
    return f"{_where(path)} does not fit the schema ({kind.name})"


def _where(path: Path) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif SAFE_NAME.match(step):
            text += f".{step}" if text else step
    return repr(text) if text else "a value"
