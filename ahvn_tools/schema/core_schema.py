"""Pydantic's core schema of a function's parameters, and the validators that are compiled from parts of it.

Pydantic does all validation. Its schemas are changed so that a model's arguments cannot make it work for long. For
parameters that are all scalars there is also a validator that only accepts or refuses: without it, a sync call takes
3.4 times as long, an async one 4.0 times, and a call with two bound values 2.2 times.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NoReturn

from pydantic_core import (
    CoreConfig,
    PydanticKnownError,
    PydanticSerializationError,
    SchemaValidator,
    core_schema,
    to_jsonable_python,
)

from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.inputs import UnknownNameError
from ahvn_tools.schema.keywords import JSON_TYPES, iter_objects
from ahvn_tools.state import copy_containers

_CONFIG = CoreConfig(allow_inf_nan=False, hide_input_in_errors=True)
_TRUSTED_MODULES = sys.stdlib_module_names | {"pydantic", "pydantic_core", "ahvn_tools"}
_CHOICE_TYPES = ("enum", "literal")
_SCALAR_TYPES: Final = frozenset({"int", "float", "str", "bool"})
_MACHINE_WORD_LIMIT = 2**62

MAX_ATTEMPTS: Final = 100_000
"""How often alternatives of nested unions may be tried for one set of arguments, in addition to twice for each
alternative and value: at most about half a second of work."""

MAX_COLLECTING_ATTEMPTS: Final = 2_000
"""The same while all errors are collected: each failed attempt adds errors."""

NO_ALTERNATIVE: Final = "no_alternative"
"""The error type of a nested union that nothing matches; it replaces the errors of all alternatives."""

# before pydantic 2.13 models always use the validators that pydantic has compiled for them, without limits inside
_OWN_VALIDATORS: Final[dict[str, Any]] = (
    {"_use_prebuilt": False} if "_use_prebuilt" in (SchemaValidator.__text_signature__ or "") else {}
)

NON_SCHEMA_KEYS: Final = frozenset({"metadata", "serialization", "config", "default"})

_SEQUENCE_TYPES = frozenset({"list", "tuple", "set", "frozenset", "deque", "generator"})
_MAPPING_TYPES = frozenset({"dict", "frozendict", "ordered-dict", "counter"})
_FAIL_FAST_TYPES = _SEQUENCE_TYPES | _MAPPING_TYPES
_OBJECT_TYPES = _MAPPING_TYPES | {"model", "dataclass", "typed-dict", "named-tuple", "call"}
_COMPOSITE_TYPES = _SEQUENCE_TYPES | _OBJECT_TYPES

_remaining_attempts: ContextVar[list[int] | None] = ContextVar("remaining_attempts", default=None)

NO_TAG: Final = "no_tag"
"""The error type of a union of which no alternative has the tag of the value."""

_JSON_SCALARS: Final = frozenset(JSON_TYPES.keys() - {dict, list})
_STRICT_ABOUT_PYTHON: Final = frozenset({
    "bytes", "complex", "dataclass", "date", "datetime", "decimal", "enum", "frozenset", "lax-or-strict", "model",
    "multi-host-url", "set", "tagged-union", "time", "timedelta", "tuple", "union", "url", "uuid",
})  # fmt: skip
"""Types that refuse, if they are strict, the Python value of JSON that they accept; or whose alternatives do."""
_KEY_TYPES: Final = frozenset({"bool", "float", "int", *_STRICT_ABOUT_PYTHON})
"""Types that refuse, if they are strict, the key of a JSON object, which is a text."""

_CHANGING_TYPES: Final = frozenset({"json", "function-before", "function-wrap", "chain"})
"""Types whose inner schema may validate another value than the one that came."""


class ArgumentsCoreSchema:
    """The core schemas of all parameters of one function, by name."""

    def __init__(self, schema: Any) -> None:
        self._definitions: list[Any] = []
        if schema["type"] == "definitions":
            self._definitions, schema = schema["definitions"], schema["schema"]
        self._fields: dict[str, Any] = {
            field["name"]: field for field in schema["arguments_schema"]["arguments_schema"]
        }

    def validator(self, hidden: frozenset[str], *, collects_errors: bool, converts: bool = True) -> CountingValidator:
        """Compile the validator of all parameters but `hidden`: one that stops early, or one that collects errors.

        Unless it `converts`, it returns the values as they came.
        """
        fields, definitions = self._visible_fields(hidden), self._definitions
        if not converts:
            fields, definitions = list(map(without_conversion, fields)), with_strict_scalars(definitions)
        limiter = CoreSchemaLimiter(definitions, collects_errors=collects_errors)
        return limiter.compile(_to_arguments_schema(fields), _CONFIG)

    def fast_validator(self, hidden: frozenset[str]) -> SchemaValidator | None:
        """Compile a validator that also refuses extreme integers, or None unless all parameters are scalars.

        It stops at the first unknown name.
        """
        fields = self._visible_fields(hidden)
        if any("default_factory" in field["schema"] for field in fields):
            return None
        if not all(_without_default(field["schema"])["type"] in _SCALAR_TYPES for field in fields):
            return None
        limited = [{**field, "schema": _limit_integer(field["schema"])} for field in fields]
        refuse = core_schema.no_info_plain_validator_function(_refuse_unknown_name)
        return SchemaValidator({**_to_arguments_schema(limited), "var_kwargs_schema": refuse}, _CONFIG)

    def parameter_validator(self, name: str) -> SchemaValidator:
        """Compile the validator of one parameter's value."""
        limiter = CoreSchemaLimiter(self._definitions, collects_errors=True)
        return limiter.compile(_without_default(self._fields[name]["schema"]), _CONFIG).validator

    def is_generator(self, name: str) -> bool:
        """Whether pydantic would check the items only while the body reads them."""
        return bool(_without_default(self._fields[name]["schema"])["type"] == "generator")

    def has_default(self, name: str) -> bool | None:
        """Whether a parameter has a default; None for a parameter without a core schema."""
        return self._fields[name]["schema"]["type"] == "default" if name in self._fields else None

    def property_name(self, name: str) -> str:
        """Return a parameter's name in the schema: its alias if it has one, and not several or a path."""
        alias = self._fields.get(name, {}).get("alias", name)
        return alias if isinstance(alias, str) else name

    def iter_named_tuple_fields(self, hidden: frozenset[str]) -> Iterator[str]:
        """Yield the field names of named tuples, which their JSON Schema does not contain."""
        for node in iter_objects(self._visible_fields(hidden), NON_SCHEMA_KEYS):
            if node.get("type") == "named-tuple-field":
                yield node["name"]

    def _visible_fields(self, hidden: frozenset[str]) -> list[Any]:
        return [field for name, field in self._fields.items() if name not in hidden]


def _to_arguments_schema(fields: list[Any]) -> Any:
    return {"type": "arguments", "arguments_schema": fields}


def _refuse_unknown_name(_value: Any) -> NoReturn:
    raise UnknownNameError


def is_foreign(function: Any) -> bool:
    """Whether a validator or serializer is neither pydantic's nor built in, nor the class of a named tuple."""
    while isinstance(function, functools.partial):
        function = function.func
    if not callable(function) or (isinstance(function, type) and issubclass(function, tuple)):
        return False
    return (getattr(function, "__module__", None) or "builtins").partition(".")[0] not in _TRUSTED_MODULES


def _without_default(schema: Any) -> Any:
    return schema["schema"] if schema["type"] == "default" else schema


def _limit_integer(schema: Any) -> Any:
    """Limit a plain integer to a machine word; the full validator decides on larger ones."""
    if schema["type"] == "default":
        return {**schema, "schema": _limit_integer(schema["schema"])}
    if schema["type"] != "int":
        return schema
    low = {} if "ge" in schema or "gt" in schema else {"gt": -_MACHINE_WORD_LIMIT}
    high = {} if "le" in schema or "lt" in schema else {"lt": _MACHINE_WORD_LIMIT}
    return {**schema, **low, **high}


class TooManyAttemptsError(Exception):
    """The alternatives of unions were tried too often. It ends the whole validation."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CountingValidator:
    """A compiled core schema whose nested unions count their attempts."""

    validator: SchemaValidator
    max_alternatives: int
    """Of the unions that count; 0 if none counts."""
    stops_early: bool
    """Whether there may be more errors than a ValidationError contains."""

    def validate(self, arguments: JsonObject, max_attempts: int, value_count: int) -> Any:
        """Validate as pydantic does, and count the attempts. Raises TooManyAttemptsError, too."""
        token = _remaining_attempts.set([max_attempts + 2 * self.max_alternatives * value_count])
        try:
            return self.validator.validate_python(arguments)
        finally:
            _remaining_attempts.reset(token)


def is_no_schema(node: Any, key: str) -> bool:
    """Return whether a part of a core schema contains none that validates; a field may have any name."""
    return key in NON_SCHEMA_KEYS and isinstance(node.get("type"), str)


class CoreSchemaLimiter:
    """Rewrites core schemas that share definitions. It changes copies."""

    def __init__(self, definitions: list[Any], *, collects_errors: bool) -> None:
        """`collects_errors`: containers and unions report all errors, and every union of containers counts."""
        self._collects_errors = collects_errors
        self._nested = _NestedUnions(definitions)
        self._max_alternatives = 0
        self._stops_early = False
        self._definitions = [self._rewrite(definition) for definition in definitions]

    def compile(self, schema: Any, config: Any) -> CountingValidator:
        """Compile a schema with limits."""
        schema = self._rewrite(schema)
        if self._definitions:
            schema = {"type": "definitions", "schema": schema, "definitions": self._definitions}
        validator = SchemaValidator(schema, config, **_OWN_VALIDATORS)
        return CountingValidator(validator, self._max_alternatives, self._stops_early)

    def _rewrite(self, node: Any, *, is_in_text: bool = False, is_strict: bool = False) -> Any:
        """Return a schema with limits, which accepts JSON. `is_strict`: as the config around it says.

        Inside of JSON text, errors are never collected: its size is not known.
        """
        is_in_text = is_in_text or (isinstance(node, dict) and node.get("type") == "json")
        if isinstance(node, list | tuple):
            return type(node)(self._rewrite(child, is_in_text=is_in_text, is_strict=is_strict) for child in node)
        if not isinstance(node, dict):
            return node
        kind = node.get("type")
        if isinstance(kind, str) and isinstance(node.get("config"), dict):
            is_strict = node["config"].get("strict") is True
        made = {
            key: value if is_no_schema(node, key) else self._rewrite(value, is_in_text=is_in_text, is_strict=is_strict)
            for key, value in node.items()
        }
        if not isinstance(kind, str):  # a field of the name "type"
            return made
        made = accept_json(made, is_strict=is_strict)
        if kind == "generator":  # pydantic would check the items only while the body reads them
            made["type"] = "list"
        if kind in _FAIL_FAST_TYPES and (is_in_text or not self._collects_errors):
            made["fail_fast"] = self._stops_early = True
        if kind == "union" and (_is_composite(node) if self._collects_errors else self._nested.multiplies(node)):
            return self._count_attempts(made)
        return made

    def _count_attempts(self, union: Any) -> Any:
        alternatives = len(union["choices"])
        self._max_alternatives = max(self._max_alternatives, alternatives)
        reference = {"ref": union.pop("ref")} if "ref" in union else {}
        if not self._collects_errors and "custom_error_type" not in union:
            union["custom_error_type"] = NO_ALTERNATIVE
            union["custom_error_message"] = "Input should match an alternative of the union"
            self._stops_early = True
        count = functools.partial(_count_attempts, alternatives)
        return {
            "type": "function-before", "function": {"type": "no-info", "function": count}, "schema": union, **reference
        }  # fmt: skip


class _NestedUnions:
    """Finds the unions for which the number of attempts may multiply with each level of the input."""

    def __init__(self, definitions: list[Any]) -> None:
        self._reaching: set[str] = set()
        """The definitions that contain a union of containers, at any depth."""
        pending = {definition["ref"]: definition for definition in definitions}
        while found := [ref for ref, definition in pending.items() if self._reaches_union(definition)]:
            self._reaching.update(found)
            pending = {ref: definition for ref, definition in pending.items() if ref not in self._reaching}

    def multiplies(self, union: Any) -> bool:
        """Whether two alternatives may accept the same value and contain a union of containers again."""
        reaching = [choice for choice in _iter_choices(union) if self._reaches_union(choice)]
        sequences = sum(_leaf_type(choice) in _SEQUENCE_TYPES for choice in reaching)
        return sequences > 1 or len(reaching) - sequences > 1

    def _reaches_union(self, schema: Any) -> bool:
        return any(
            _is_composite(node) if node.get("type") == "union" else node.get("schema_ref") in self._reaching
            for node in iter_objects(schema, NON_SCHEMA_KEYS)
        )


def _count_attempts(alternatives: int, value: Any) -> Any:
    """Count the attempts of one union at one value. Raises TooManyAttemptsError."""
    remaining = _remaining_attempts.get()
    if remaining is not None:
        remaining[0] -= alternatives
        if remaining[0] < 0:
            raise TooManyAttemptsError
    return value


def _iter_choices(union: Any) -> Iterator[Any]:
    for choice in union["choices"]:
        yield choice[0] if isinstance(choice, tuple) else choice


def _is_composite(union: Any) -> bool:
    """Whether an alternative of a union is a container, a model or a reference."""
    kinds = map(_leaf_type, _iter_choices(union))
    return any(kind in _COMPOSITE_TYPES or kind == "definition-ref" for kind in kinds)


def _leaf_type(schema: Any) -> str:
    """Return the type of a schema behind validator functions, defaults and the like."""
    while schema["type"] not in _COMPOSITE_TYPES and isinstance(inner := schema.get("schema"), dict):
        schema = inner
    return str(schema["type"])


def accept_json(node: Any, *, is_strict: bool) -> Any:
    """Return a core schema, changed in place, that accepts JSON; `is_strict` as the config around it says."""
    kind = node["type"]
    if (is_strict or node.get("strict")) and kind in _STRICT_ABOUT_PYTHON:
        node["strict"] = False
    if kind == "literal":
        return _accept_json_of_members(node, [(member, member) for member in node["expected"]], "literal_error")
    if kind == "enum":
        return _accept_json_of_members(node, [(member, member.value) for member in node["members"]], "enum")
    if kind == "tagged-union":
        _accept_json_tags(node)
    elif kind == "dict" and "keys_schema" in node:
        keys = node["keys_schema"]
        if (is_strict or keys.get("strict")) and keys["type"] in _KEY_TYPES:
            node["keys_schema"] = {**keys, "strict": False}
    else:
        _accept_names(node)
    return node


def _accept_names(node: Any) -> None:
    """Accept, in place, the names that the JSON Schema has for fields and parameters with several aliases, or paths."""
    if node["type"] in ("model-fields", "typed-dict"):
        for name, field in node["fields"].items():
            _accept_name(field, name)
    elif node["type"] == "dataclass-args":
        for field in node["fields"]:
            _accept_name(field, field["name"])
    elif node["type"] == "arguments":
        for field in node["arguments_schema"]:
            if isinstance(field.get("alias"), list):  # the schema has the name of the parameter, whatever the paths are
                field["alias"] = [*_to_paths(field["alias"]), [field["name"]]]


def list_choices(values: Iterable[Any]) -> str:
    """Return JSON values in words: `'a', 'b' or 3`."""
    texts = [repr(value) if isinstance(value, str) else json.dumps(value) for value in values]
    return " or ".join([part for part in (", ".join(texts[:-1]), texts[-1]) if part])


def _accept_json_of_members(node: Any, members: list[tuple[Any, Any]], error_type: str) -> Any:
    """Return a literal or an enum that accepts the JSON of each member, too, if that is not the member's own value."""
    if all(type(value) in _JSON_SCALARS for _, value in members):
        return node
    forms = []
    for member, value in members:
        try:
            forms.append((_to_key(form := to_jsonable_python(value)), form, member))
        except (PydanticSerializationError, ValueError):
            return node  # it has no JSON Schema either, so its parameter is bound
    by_key = {key: member for key, _, member in forms}

    def to_member(value: Any) -> Any:
        try:
            return by_key.get(_to_key(value), value)
        except (TypeError, ValueError, RecursionError):  # no JSON: the member itself, or another mistake
            return value

    reference = {"ref": node.pop("ref")} if "ref" in node else {}
    return {
        "type": "custom-error",
        "schema": core_schema.no_info_before_validator_function(to_member, node),
        "custom_error_type": error_type,
        "custom_error_context": {"expected": list_choices(form for _, form, _ in forms)},
        **reference,
    }


def _to_key(value: Any) -> str:
    """Return a text that is the same for the same JSON."""
    return json.dumps(value, sort_keys=True)


def _accept_json_tags(node: Any) -> None:
    """Add, in place, the JSON of tags that are members of enums, and an error that names the tag and its values."""
    tags = [(tag.value if isinstance(tag, Enum) else tag, choice) for tag, choice in node["choices"].items()]
    node["choices"] = {**node["choices"], **dict(tags)}
    if "custom_error_type" not in node:
        place = _name_of_tag(node["discriminator"])
        values = list_choices(dict(tags))
        node["custom_error_type"] = NO_TAG
        node["custom_error_message"] = (
            f"Input has no known tag {place!r}; expected {values}"
            if place
            else f"Input matches none of the alternatives {values}"
        )


def _name_of_tag(discriminator: Any) -> str | None:
    """Return the property that is the tag; None if a function reads the tag."""
    while isinstance(discriminator, list):
        discriminator = discriminator[0]
    return discriminator if isinstance(discriminator, str) else None


def _accept_name(field: Any, name: str) -> None:
    """Accept, in place, the name of a field whose only aliases are paths into other values."""
    if isinstance(alias := field.get("validation_alias"), list) and all(len(path) > 1 for path in _to_paths(alias)):
        field["validation_alias"] = [*_to_paths(alias), [name]]


def _to_paths(alias: list[Any]) -> list[list[Any]]:
    return alias if all(isinstance(path, list) for path in alias) else [alias]


def without_conversion(field: Any) -> Any:
    """Return the core schema of a parameter whose value is validated and not converted. Its default stays as it is."""
    schema = field["schema"]
    if schema["type"] == "default":
        return {**field, "schema": {**schema, "schema": _keep_input(schema["schema"])}}
    return {**field, "schema": _keep_input(schema)}


def with_strict_scalars(node: Any) -> Any:
    """Return core schemas in which numbers, texts and booleans have their own JSON type, because none is converted."""
    if isinstance(node, list | tuple):
        return type(node)(map(with_strict_scalars, node))
    if not isinstance(node, dict):
        return node
    kind = node.get("type")
    kind = kind if isinstance(kind, str) else None  # else a field of the name "type"
    if kind in _CHOICE_TYPES:
        return _with_strict_choices(node)
    if kind in _CHANGING_TYPES and not _passes_input_on(node):
        return node
    changed = {key: item if _is_kept(node, key) else with_strict_scalars(item) for key, item in node.items()}
    return {**changed, "strict": True} if kind in _SCALAR_TYPES else changed


def _is_kept(node: Any, key: str) -> bool:
    """Return whether a part stays as it is, as the schema of keys does: all names in a JSON object are texts."""
    return is_no_schema(node, key) or (key == "keys_schema" and node.get("type") == "dict")


def _keep_input(schema: Any) -> Any:
    return core_schema.no_info_wrap_validator_function(_validate_only, with_strict_scalars(schema))


def _validate_only(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Return a copy of the value, so that the function cannot change the caller's containers."""
    validate(value)
    return copy_containers(value)


def _with_strict_choices(node: Any) -> Any:
    """Return the schema of a Literal or an Enum that takes no other JSON type for an integer."""
    choices = [getattr(choice, "value", choice) for choice in (*node.get("expected", ()), *node.get("members", ()))]
    if any(isinstance(choice, float) for choice in choices):
        return node

    def refuse(value: Any) -> Any:
        """Refuse what pydantic would take for an integer: a boolean, a float, and a text for an IntEnum."""
        is_equal = isinstance(value, int) and value in choices
        if is_equal and type(value) not in {type(choice) for choice in choices if choice == value}:
            raise PydanticKnownError("int_type" if isinstance(value, bool) else "bool_type")
        is_text = node.get("sub_type") == "int" and isinstance(value, str)
        is_integral = is_text and value.isascii() and value.removeprefix("-").isdecimal()
        if is_integral or (isinstance(value, float) and value.is_integer()):
            raise PydanticKnownError("int_type")
        return value

    inner: Any = {key: item for key, item in node.items() if key != "ref"}
    return core_schema.no_info_before_validator_function(refuse, inner, ref=node.get("ref"))


def _passes_input_on(node: Any) -> bool:
    """Whether the inner schema validates the value itself, as in pydantic's schema of `Sequence`."""
    if node["type"] == "chain":
        return bool(node["steps"][0]["type"] == "is-instance")
    validator = node.get("function", {}).get("function")
    return (getattr(validator, "__module__", None) or "").partition(".")[0] == "pydantic"
