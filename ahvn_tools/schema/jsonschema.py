"""The input side of a tool with a JSON Schema, from MCP or written by hand; jsonschema-rs validates."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ahvn_tools.error_detail import ArgumentProblem
from ahvn_tools.errors import DefinitionError, InvalidParametersError, ToolNotAvailableError, clip, near_misses
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.names import is_secret_schema
from ahvn_tools.redaction.values import reveal_secrets
from ahvn_tools.schema.argument_changes import ArgumentChanges, change_schema
from ahvn_tools.schema.inputs import BoundValueValidator, Inputs, Parameter, Validator
from ahvn_tools.schema.keywords import remove_secret_defaults, type_names
from ahvn_tools.schema.limits import ValidationCost, enforce_limits
from ahvn_tools.schema.problems import (
    MAX_ERRORS,
    MAX_PROBLEMS,
    format_location,
    join_problems,
    to_problem,
    unknown_argument,
    unknown_arguments_error,
    unknown_property,
)
from ahvn_tools.schema.repair import RepairCandidate, RepairingValidator
from ahvn_tools.schema.root_parameters import (
    REFERENCEABLE_KEYWORDS,
    UnsealableError,
    find_parameter_schemas,
    required_parameter_names,
    root_parameter_names,
    without_parameters,
)
from ahvn_tools.schema.subschemas import InstancePath, Nodes, SubschemaFinder, iter_property_names

MAX_DETAIL_CHARS = 200
"""A rule, or the reason why a schema is unusable, is cut to this many characters."""

MAX_LISTING_STEPS = 2_000
"""How often schemas may be applied to parts of arguments while their errors are listed …"""

LISTING_STEPS_PER_VALUE = 10
"""… in addition to this often for each value."""

_CONTAINER_TYPES = frozenset({"array", "object"})
_CLOSING_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties"})

_UNION_KEYWORDS = frozenset({"oneOf", "anyOf"})
_MAX_BRANCH_PROBLEMS = 3
MAX_NAME_CHARS = 64
"""The name of a branch of a union is cut to this many characters."""

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
    "minProperties": "should have at least this many properties:",
    "maxProperties": "should have at most this many properties:",
    "pattern": "should match the pattern",
    "format": "should have the format",
}
_FIXED_TEXTS = {
    "uniqueItems": "should not have the same item twice",
    "falseSchema": "is not allowed",
    "additionalItems": "has too many items",
    "unevaluatedItems": "has too many items",
}


class SchemaInputs(Inputs):
    """The properties of an object schema. Validators are compiled once; no `$ref` is ever fetched."""

    converts_scalars = False
    """Whether numbers and booleans are made of what pydantic converts to them, such as the text "1"."""

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        context_parameter: str | None = None,
        coerce_numbers_to_str: bool = True,
        changes: ArgumentChanges = ArgumentChanges(),  # noqa: B008  # it is frozen
    ) -> None:
        """`context_parameter` adds a parameter outside the schema, which only the body receives.

        `coerce_numbers_to_str`: a number is accepted where the schema wants a text. `changes` apply to the schema.

        Raises DefinitionError for a schema that is invalid or does not describe an object.
        """
        if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), dict):
            raise DefinitionError("An input schema must describe an object: {'type': 'object', 'properties': {…}}.")
        own_names = {changes.new_name(name): name for name in schema.get("properties", {})}
        schema = change_schema(schema, changes) if changes else schema
        names = root_parameter_names(dict(schema))
        if context_parameter in names:
            raise DefinitionError(f"No argument can be named {context_parameter!r} here: choose another name.")
        try:
            text = json.dumps({"type": "object", **schema}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DefinitionError("An input schema must be JSON.") from error
        self._coerce_numbers_to_str = coerce_numbers_to_str
        has_default = '"default"' in text
        self._schema_text = json.dumps(remove_secret_defaults(json.loads(text))) if has_default else text
        self.parameters_without_schema = frozenset() if context_parameter is None else frozenset({context_parameter})
        self._compiled = compile_validator(self.schema(frozenset()))
        required = required_parameter_names(dict(schema), names)
        self.accepts_other_names = schema.get("additionalProperties") is not False or "patternProperties" in schema
        self.parameters = {
            name: Parameter(
                name=name,
                property_name=name,
                body_name=None if own_names.get(name, name) == name else own_names[name],
                is_required=name in required,
                is_secret=any(map(is_secret_schema, nodes)),
                json_types="|".join(dict.fromkeys(kind for node in nodes for kind in _find_types(node))) or "any",
            )
            for name, nodes in find_parameter_schemas(dict(schema), names).items()
        }
        for name in self.parameters_without_schema:
            self.parameters[name] = Parameter(name=name, property_name=name)
        self._former_names = frozenset(own_names.values()) - own_names.keys()
        self._defaults = changes.defaults()
        for name, value in self._defaults.items():
            self.parameters[name] = replace(self.parameters[name], fixed_default=value)

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all parameters but `hidden`: of none, if these cannot be hidden."""
        schema: JsonObject = json.loads(self._schema_text)
        try:
            return without_parameters(schema, hidden - self.parameters_without_schema)
        except UnsealableError:
            return {"type": "object", "properties": {}, "additionalProperties": False}

    def find_obstacle(self, hidden: frozenset[str]) -> str | None:
        """Return why parameters cannot be hidden; None if they can."""
        names = hidden & self.parameters.keys() - self.parameters_without_schema
        if not names:
            return None
        try:
            compile_validator(without_parameters(json.loads(self._schema_text), names))
        except UnsealableError as error:
            return str(error)
        except DefinitionError:
            return "its input schema is not usable without it"
        return None

    def schema_text(self, hidden: frozenset[str]) -> str:
        """Return the schema as JSON text: the same object each time, if nothing is hidden."""
        return super().schema_text(hidden) if hidden else self._schema_text

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of a caller's arguments when `hidden` are bound."""
        if (obstacle := self.find_obstacle(hidden)) is not None:
            return functools.partial(_refuse_call, obstacle)
        schema = self.schema(hidden)
        own = self.parameters.keys() - self.parameters_without_schema
        compiled = self._compiled if hidden.isdisjoint(own) else compile_validator(schema)
        coerces, refused = self._coerce_numbers_to_str, hidden | self._former_names
        validate = _SchemaArgumentValidator(
            schema, refused, compiled, coerces=coerces, converts_scalars=self.converts_scalars
        ).validate
        defaults = {name: value for name, value in self._defaults.items() if name not in hidden}
        return (lambda arguments: {**copy.deepcopy(defaults), **validate(arguments)}) if defaults else validate

    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the check of one bound value, which is first converted to JSON."""
        if name in self.parameters_without_schema:
            return None
        if self.find_obstacle(frozenset({name})) is not None:
            return _refuse_bound_value
        return functools.partial(_validate_bound_value, self._properties_validator, name)

    @functools.cached_property
    def _properties_validator(self) -> Any:
        return _compile_properties(self.schema(frozenset()))


def _find_types(node: Any) -> list[str]:
    return type_names(node) if isinstance(node, dict) else []


def _refuse_call(obstacle: str, _arguments: JsonObject) -> NoReturn:
    raise ToolNotAvailableError(
        f"The tool is not available: a parameter is bound that cannot be, because {obstacle}. "
        "Only the host can correct that."
    )


def _refuse_bound_value(_value: Any) -> NoReturn:
    raise ValueError


def compile_validator(schema: JsonObject) -> Any:
    """Return jsonschema-rs's validator of a schema. Raises DefinitionError for an invalid schema."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        path = "".join(f"[{step!r}]" for step in getattr(error, "instance_path", ()))
        reason = clip(getattr(error, "message", None) or str(error), MAX_DETAIL_CHARS)
        raise DefinitionError(
            f"Not a usable JSON Schema{path and f' at {path}'}: {reason}. "
            "It must be valid and contain everything that it refers to."
        ) from error


def _compile_properties(schema: JsonObject) -> Any:
    """Return the check of single properties, without the rules of the root about all of them."""
    return compile_validator({key: value for key, value in schema.items() if key in REFERENCEABLE_KEYWORDS})


class _SchemaArgumentValidator(RepairingValidator[None, Any]):
    """The check by a compiled JSON Schema.

    To list the errors takes much longer than to find out whether there are any, for some schemas exponentially: all are
    listed for small arguments, the first one for larger ones, and none where even that takes too many steps.
    """

    def __init__(
        self, schema: JsonObject, hidden: frozenset[str], validator: Any, *, coerces: bool, converts_scalars: bool
    ) -> None:
        super().__init__(lambda: schema, coerce_numbers_to_str=coerces)
        self._converts_scalars = converts_scalars
        self._schema = schema
        self._hidden = hidden
        self._compiled = validator
        self._properties: JsonObject = schema.get("properties", {})
        self._known = root_parameter_names(schema)
        self._is_closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")

    @functools.cached_property
    def _validation_cost(self) -> ValidationCost | None:
        """The cost of the schema; None if its references cannot be followed."""
        try:
            return ValidationCost(self._schema)
        except DefinitionError:
            return None

    def validate(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments in JSON form, repaired. Raises InvalidParametersError."""
        for name in arguments:
            if name in self._hidden:
                raise unknown_arguments_error([name], self._known)
        if self._is_closed and len(arguments) > len(self._properties) + MAX_ERRORS:
            raise unknown_arguments_error(self._find_unknown(arguments), self._properties)
        size = enforce_limits(arguments)
        if size.has_non_finite:
            raise InvalidParametersError("Invalid arguments: NaN and Infinity are not JSON numbers.")
        try:
            json_arguments = to_jsonable_python(arguments)
        except UnicodeEncodeError:  # of a name
            raise InvalidParametersError(self._describe_unsendable(arguments)) from None
        except (PydanticSerializationError, ValueError):
            raise InvalidParametersError("Invalid arguments: a value has no JSON form.") from None
        accepted, _ = self._check(json_arguments, size.value_count)
        if accepted is None:
            accepted, size = self._repair_and_check(json_arguments, None, size)
        if not size.has_floats:
            return accepted
        integral: JsonObject = _convert_integral_floats(accepted, self._finder.root, self._finder)
        return integral

    def _check(self, arguments: JsonObject, _value_count: int) -> tuple[JsonObject | None, None]:
        if not _is_sendable(arguments):  # jsonschema-rs raises, or does not notice it and the call cannot be sent
            raise InvalidParametersError(self._describe_unsendable(arguments))
        return (arguments if self._compiled.is_valid(arguments) else None), None

    def _describe_unsendable(self, arguments: JsonObject) -> str:
        broken = [name for name, value in arguments.items() if not _is_sendable({name: value})]
        names = [repr(name) for name in broken[:MAX_PROBLEMS] if name in self._known]
        place = f"in {', '.join(names)}" if names else "in the name of an argument"
        return join_problems([f"half of a surrogate pair {place}, which is no character: send the whole character"])

    def _list_errors(
        self, arguments: JsonObject, _failure: None, value_count: int, *, collects: bool
    ) -> tuple[list[Any], bool]:
        """Return all errors, the first one or none, and whether these are all."""
        max_steps = MAX_LISTING_STEPS + LISTING_STEPS_PER_VALUE * value_count
        cost = self._validation_cost
        if cost is None or cost.takes_more_steps(arguments, value_count + 1, max_steps):
            return [], False
        if collects:
            return list(self._compiled.iter_errors(arguments)), True
        return [error for error in [_find_first_error(self._compiled, arguments)] if error is not None], False

    def _repair_candidates(self, errors: Iterable[Any]) -> Iterable[RepairCandidate]:
        """Yield a candidate for each error and for each error inside the branches of a union."""
        for error in errors:
            wanted = error.kind.types if error.kind.name == "type" else ()
            wants_text = "string" in wanted and self._coerce_numbers_to_str
            wants_container = not _CONTAINER_TYPES.isdisjoint(wanted)
            types = wanted if self._converts_scalars else ()
            yield RepairCandidate(
                tuple(error.instance_path), wants_container, wants_text=wants_text, scalar_types=types
            )
            for branch in getattr(error.kind, "context", ()):
                yield from self._repair_candidates(branch)

    def _find_unknown(self, arguments: JsonObject) -> list[str]:
        return [name for name in arguments if name not in self._properties]

    def _to_error(
        self, errors: list[Any], arguments: JsonObject, removed: set[InstancePath], *, is_complete: bool
    ) -> InvalidParametersError:
        names = frozenset(iter_property_names(self._schema))

        def describe(error: Any) -> _Description:
            kind, path = error.kind, tuple(error.instance_path)
            location = format_location(path, arguments, names)
            if kind.name == "required":
                member = (*path, kind.property)
                problem = "must not be null" if member in removed else "is missing"
                return _at(member, f"{format_location(member, arguments, names | {kind.property})} {problem}")
            if kind.name in _UNION_KEYWORDS:
                return _describe_union(error, location, self._schema, describe)
            if _CLOSING_KEYWORDS.intersection(list(error.schema_path)[-1:]):
                unknown = list(self._find_unknown_members(error, arguments, location))
                return "; ".join(problem.text for problem in unknown), unknown
            if kind.name == "propertyNames":
                return _at(path, f"a key in {location} {_format_requirement(kind.error.kind)}")
            return _at(path, f"{location} {_format_requirement(kind)}")

        described = list(map(describe, errors[:MAX_ERRORS])) or self._find_mismatches(arguments)
        texts = dict.fromkeys(text for text, _ in described)
        problems = dict.fromkeys(problem for _, problems in described for problem in problems)
        return InvalidParametersError(join_problems(list(texts), is_complete=is_complete), problems=tuple(problems))

    def _find_unknown_members(self, error: Any, arguments: JsonObject, location: str) -> Iterator[ArgumentProblem]:
        """Yield the problem of each member that an object may not have."""
        path = tuple(error.instance_path)
        known = self._finder.find_property_names(path) if path else [*self._properties]
        declared = frozenset(known)
        members: Any = functools.reduce(lambda value, step: value[step], path, arguments)
        found = getattr(error.kind, "unexpected", None) or [name for name in members if name not in declared]
        patterns = [
            pattern for node in self._finder.find_subschemas(path) for pattern in node.get("patternProperties", ())
        ]
        texts = clip(" or ".join(map(json.dumps, patterns)), MAX_DETAIL_CHARS)
        options: Any = {"none_known": f"names match {texts}"} if patterns else {}
        for name in found[:MAX_PROBLEMS]:
            text = (
                unknown_property(location, name, known, **options) if path else unknown_argument(name, known, **options)
            )
            yield to_problem((*path, name), text)

    def _find_mismatches(self, arguments: JsonObject) -> list[_Description]:
        """Return which properties do not match, without the reasons."""
        unknown = self._find_unknown(arguments)[:MAX_PROBLEMS] if self._is_closed else ()
        found = [_at([name], unknown_argument(name, self._properties)) for name in unknown]
        missing = [name for name in self._schema.get("required", ()) if name not in arguments]
        found += [_at([name], f"{name!r} is missing") for name in missing]
        properties_validator = _compile_properties(self._schema)
        for name in self._properties.keys() & arguments.keys():
            if not properties_validator.is_valid({name: arguments[name]}):
                found.append(_at([name], f"{name!r} does not match its schema"))
        return found or [_at([], "they do not match the schema")]


_Description = tuple[str, list[ArgumentProblem]]
"""What a message says about an error, and its problems: those in the nearest branch of a union."""


def _at(path: Iterable[str | int], text: str) -> _Description:
    return text, [to_problem(path, text)]


def _is_sendable(value: JsonObject) -> bool:
    """Return whether JSON data can be encoded; a lone surrogate cannot."""
    try:
        to_json(value)
    except PydanticSerializationError:
        return False
    return True


def _find_first_error(validator: Any, arguments: JsonObject) -> Any:
    import jsonschema_rs

    try:
        validator.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return error
    return None


def _describe_union(
    error: Any, location: str, schema: JsonObject, describe: Callable[[Any], _Description]
) -> _Description:
    """Return why a value matches no branch of a union: the values of its tag, or the nearest branch and its errors.

    A tag is a member for which each branch allows other values. The nearest branch is the one that has the value's type
    and its tag, and of these the one with the fewest errors.
    """
    path, branches = list(error.instance_path), [list(branch) for branch in error.kind.context]
    if not branches:
        return _at(path, f"{location} {_format_requirement(error.kind)}")
    if not all(branches):
        return _at(path, f"{location} matches several alternatives, and must match exactly one")
    tags = [
        {
            tuple(one.instance_path): one
            for one in branch
            if one.kind.name in {"const", "enum"} and len(one.instance_path) == len(path) + 1
        }
        for branch in branches
    ]
    for member, first in tags[0].items():
        if all(member in branch for branch in tags):
            kinds = [branch[member].kind for branch in tags]
            values = [v for kind in kinds for v in (kind.options if kind.name == "enum" else [kind.expected_value])]
            texts = ", ".join(dict.fromkeys(map(json.dumps, values)))
            label = describe(first)[0].partition(" should be ")[0]
            return _at(member, f"{label} should be one of {clip(f'[{texts}]', MAX_DETAIL_CHARS)}")
    types = [one.kind.types for branch in branches for one in branch if _is_type_error(one, path)]
    if len(types) == len(branches):
        wanted = dict.fromkeys(str(name) for names in types for name in names)
        return _at(path, f"{location} {_REQUIREMENT_TEXTS['type']} {' or '.join(wanted)}")

    def distance(index: int) -> tuple[bool, bool, int]:
        has_other_type = any(_is_type_error(one, path) for one in branches[index])
        return has_other_type, bool(tags[index]), len(branches[index])

    nearest = min(range(len(branches)), key=distance)
    described = list(map(describe, branches[nearest]))
    causes = list(dict.fromkeys(text for text, _ in described))[:_MAX_BRANCH_PROBLEMS]
    name = _name_branch(schema, [*error.schema_path, nearest])
    message = f"{location} does not match its alternative {name}: {', '.join(causes)}"
    return message, [problem for _, problems in described for problem in problems]


def _is_type_error(error: Any, path: list[Any]) -> bool:
    return error.kind.name == "type" and list(error.instance_path) == path


def _name_branch(schema: JsonObject, path: Iterable[Any]) -> str:
    """Return the name of a branch: that of its definition, its title, or its number."""
    branch: Any = schema
    number = 0
    for step in path:
        number = step
        try:
            branch = branch[step]
        except (KeyError, IndexError, TypeError):  # the path leads through another schema
            return f"number {number + 1}" if isinstance(number, int) else "number 1"
    parts = [branch, *(branch.get("allOf") or ())] if isinstance(branch, dict) else []
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            return repr(clip(part["$ref"].rpartition("/")[2], MAX_NAME_CHARS))
        if isinstance(part, dict) and isinstance(part.get("title"), str):
            return repr(clip(part["title"], MAX_NAME_CHARS))
    return f"number {number + 1}"


def describe_first_error(validator: Any, arguments: JsonObject) -> str:
    """Return which rule of a compiled schema some arguments break first, without any value; "" for valid ones."""
    error = _find_first_error(validator, arguments)
    return "" if error is None else _format_requirement(error.kind)


def _format_requirement(kind: Any) -> str:
    if kind.name in _FIXED_TEXTS:
        return _FIXED_TEXTS[kind.name]
    if kind.name not in _REQUIREMENT_TEXTS:
        return f"does not match the schema ({kind.name})"
    wanted = kind.value
    text = " or ".join(map(str, wanted)) if kind.name == "type" else json.dumps(wanted, ensure_ascii=False)
    return f"{_REQUIREMENT_TEXTS[kind.name]} {clip(text, MAX_DETAIL_CHARS)}"


def _convert_integral_floats(value: Any, nodes: Nodes, finder: SubschemaFinder) -> Any:
    """Convert integral floats to integers where the schema allows integers and no other numbers."""
    if isinstance(value, float):
        kinds = {kind for node in nodes for kind in type_names(node)}
        return int(value) if value.is_integer() and "integer" in kinds and "number" not in kinds else value
    if isinstance(value, dict):
        return {
            name: _convert_integral_floats(item, finder.find_children(nodes, name), finder)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_convert_integral_floats(item, finder.find_children(nodes, i), finder) for i, item in enumerate(value)]
    return value


def _validate_bound_value(validator: Any, name: str, value: Any) -> Any:
    accepted = to_jsonable_python(reveal_secrets(value))
    if not _is_sendable({name: accepted}):
        raise ValueError("it has half of a surrogate pair")
    if not validator.is_valid({name: accepted}):
        raise ValueError("it does not match its schema")
    return accepted


class ExplicitSchemaInputs(Inputs):
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
                raise unknown_arguments_error(list(typed), visible)
            return {**validate_typed(typed), **others}

        return validate

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


@dataclass(frozen=True, kw_only=True)
class UntypedArguments:
    """The arguments that a body takes as validated JSON, by the body's own names."""

    names: frozenset[str] = frozenset()
    takes_any_name: bool = False
    """Whether the body has `**arguments`, which take what has no parameter."""
    secret_names: frozenset[str] = frozenset()
    """Those that the function's annotations mark as secret."""
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The function's own values for arguments that a call leaves out."""
    reserved: frozenset[str] = frozenset()
    """Names that `**arguments` cannot take from a caller."""
    are_all: bool = False
    """Whether callers set no typed parameter: these are bound, or have a default."""

    def accepts(self, name: str) -> bool:
        """Return whether the body takes an argument without a typed parameter."""
        return name not in self.reserved and (self.takes_any_name or name in self.names)
