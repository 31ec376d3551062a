"""The input side of a function: its parameters, their pydantic validation and their JSON Schema."""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, cast, get_origin

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreConfig, SchemaValidator, ValidationError

from ahvn_tools.errors import DefinitionError
from ahvn_tools.redaction import Secret, is_secret_annotation
from ahvn_tools.schema.annotations import UnresolvedAnnotation
from ahvn_tools.schema.arguments import ArgumentValidator
from ahvn_tools.schema.inputs import (
    BoundValueValidator,
    FastValidator,
    JsonObject,
    Parameter,
    ParameterKind,
    Validator,
    without_properties,
)
from ahvn_tools.schema.places import iter_property_names
from ahvn_tools.schema.titles import QuietSchemaGenerator, clean_schema, without_unused_definitions
from ahvn_tools.state import UNSET

EMPTY = inspect.Parameter.empty
VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD

_get_title_from_name = GenerateJsonSchema().get_title_from_name

_CONFIG = ConfigDict(allow_inf_nan=False)
_CORE_CONFIG = CoreConfig(allow_inf_nan=False, hide_input_in_errors=True)
_SCHEMA_ERRORS = (
    PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError,
    NameError,
)  # fmt: skip
_UNCERTAIN_TYPES = frozenset({"is-instance", "is-subclass", "callable", "function-plain"})
_EXACT_TYPES = (str, int, bool, bytes)
_MACHINE_WORD_LIMIT = 2**62
_NON_SCHEMA_KEYS = ("metadata", "serialization", "config", "default")


class FunctionInputs:
    """A function's parameters. Schemas and validators are made when asked for; the pydantic work is done once."""

    def __init__(
        self,
        name: str,
        signature: inspect.Signature,
        annotations: Mapping[str, Any],
        *,
        bound: frozenset[str] = frozenset(),
        descriptions: Callable[[], Mapping[str, str]] = dict,
        include_var_positional: bool = False,
        include_var_keyword: bool = False,
    ) -> None:
        """Build the core schema from resolved annotations; `descriptions` is asked when the schema is first read.

        Raises DefinitionError for a parameter that is not in `bound` and whose annotation cannot be resolved or has
        no JSON form.
        """
        self.function_name = name
        self._descriptions = descriptions
        included: dict[ParameterKind, bool] = {VAR_POSITIONAL: include_var_positional, VAR_KEYWORD: include_var_keyword}
        self._signature_parameters = [
            p for p in signature.parameters.values() if included.get(p.kind, True) or p.name in bound
        ]
        self._annotations = {name: Any if given is EMPTY else given for name, given in annotations.items()}
        failures: dict[str, Exception] = {
            p.name: given.error
            for p in self._signature_parameters
            if isinstance(given := annotations[p.name], UnresolvedAnnotation)
        }
        try:
            self._adapter = self._build_adapter(failures.keys())
        except _SCHEMA_ERRORS as error:
            failures |= self._schema_failures(failures.keys()) or {self.function_name: error}
            self._raise_for_unbound(failures, bound)
            self._adapter = self._build_adapter(failures.keys())
        else:
            self._raise_for_unbound(failures, bound)
        self.parameters_without_schema = frozenset(failures)
        self._core = _ArgumentsCoreSchema(self._adapter.core_schema)
        self.parameters: dict[str, Parameter] = {p.name: self._to_parameter(p) for p in self._signature_parameters}

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all parameters but `hidden`."""
        schema: JsonObject = json.loads(self._schema_text)
        gone = hidden & self.parameters.keys() - self.parameters_without_schema
        if not gone:
            return schema
        without_properties(schema, frozenset(self.parameters[name].property_name for name in gone))
        return without_unused_definitions(schema)

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of the arguments that a caller gives when `hidden` are bound."""
        fields = [field for name, field in self._core.fields.items() if name not in hidden]
        arguments = ArgumentValidator(
            self._core.validator([_replace_generators(field) for field in fields]),
            get_schema=functools.partial(self.schema, hidden),
            get_names=functools.partial(self._known_names, hidden),
        )
        return arguments.validate

    def fast_validator(self, hidden: frozenset[str]) -> FastValidator | None:
        """Compile pydantic's bare validator when all parameters are scalars: bounded, they refuse what is extreme."""
        fields = [field for name, field in self._core.fields.items() if name not in hidden]
        if not all(map(_is_scalar, fields)):
            return None
        quick: FastValidator = self._core.validator([_limit_integer(field) for field in fields]).validate_python
        return quick

    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the check of one bound value; None when pydantic cannot check its type."""
        if name in self.parameters_without_schema:
            return None
        if self._core.is_lazy(name):
            return _validate_iterable
        return functools.partial(_validate_bound_value, self._core.parameter_validator(name))

    @functools.cached_property
    def _schema_text(self) -> str:
        raw = self._adapter.json_schema(schema_generator=QuietSchemaGenerator)
        titles = {name: node.get("title") for name, node in raw.get("properties", {}).items() if isinstance(node, dict)}
        schema = clean_schema(raw)
        descriptions = self._descriptions()
        for name, node in schema.get("properties", {}).items():
            if isinstance(titles[name], str) and titles[name] != _get_title_from_name(name):
                node["title"] = titles[name]
            if name in descriptions:
                node.setdefault("description", descriptions[name])
        return json.dumps(schema)

    def _known_names(self, hidden: frozenset[str]) -> frozenset[str]:
        fields = [field for name, field in self._core.fields.items() if name not in hidden]
        return frozenset(iter_property_names(self.schema(hidden))) | frozenset(_named_tuple_fields(fields))

    def _build_adapter(self, excluded: Any) -> TypeAdapter[Any]:
        shown = [self._to_keyword_only(p) for p in self._signature_parameters if p.name not in excluded]
        adapter = _function_adapter(shown)
        if _has_uncertain_types(adapter.core_schema):
            adapter.json_schema(schema_generator=QuietSchemaGenerator)
        return adapter

    def _to_keyword_only(self, parameter: inspect.Parameter) -> inspect.Parameter:
        """Return the parameter as a keyword-only one; the collecting kinds become a list and an object."""
        annotation = self._annotations[parameter.name]
        default = parameter.default
        if parameter.kind is VAR_POSITIONAL:
            annotation, default = list[annotation], []  # type: ignore[valid-type]  # built at run time
        elif parameter.kind is VAR_KEYWORD:
            annotation, default = dict[str, annotation], {}  # type: ignore[valid-type]  # built at run time
        elif parameter.annotation is EMPTY:
            annotation = EMPTY
        annotation = _with_description(annotation)
        return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    def _schema_failures(self, known: Any) -> dict[str, Exception]:
        failures: dict[str, Exception] = {}
        for parameter in self._signature_parameters:
            if parameter.name in known:
                continue
            try:
                _function_adapter([self._to_keyword_only(parameter)]).json_schema(schema_generator=QuietSchemaGenerator)
            except _SCHEMA_ERRORS as error:
                failures[parameter.name] = error
        return failures

    def _raise_for_unbound(self, failures: Mapping[str, Exception], bound: frozenset[str]) -> None:
        for name, error in failures.items():
            if name in bound:
                continue
            annotation = _format_annotation(self._annotations.get(name, ""))
            is_told = isinstance(error, NameError) or type(error) is PydanticUserError  # which says what to write
            reason = str(error).split("\n")[0].rstrip(".") if is_told else "that type has no JSON form"
            missing = getattr(error, "name", None) if isinstance(error, NameError) else None
            fix = f"Define or import {missing!r}" if missing else "Annotate it with a type that a model can send"
            raise DefinitionError(
                f"Parameter {name!r} of {self.function_name!r} is annotated {annotation!r}: {reason}. "
                f"{fix}, or bind the parameter where the tool is made: "
                f"binds={{{name!r}: 'state.key'}}."
            ) from error

    def _to_parameter(self, parameter: inspect.Parameter) -> Parameter:
        annotation, default = self._annotations[parameter.name], parameter.default
        factory = None
        if isinstance(default, FieldInfo):
            factory, default = default.default_factory, EMPTY if default.is_required() else default.default
        elif getattr(type(default), "__hash__", None) is None:  # pydantic copies these for each call, too
            factory = functools.partial(copy.deepcopy, default)
        collects = parameter.kind in (VAR_POSITIONAL, VAR_KEYWORD)
        field = self._core.fields.get(parameter.name)
        is_required = field["schema"]["type"] != "default" if field else default is EMPTY
        return Parameter(
            name=parameter.name,
            property_name=_alias(field, parameter.name),
            kind=parameter.kind,
            annotation=annotation,
            fixed_default=UNSET if default is EMPTY else default,
            default_factory=cast("Callable[[], Any] | None", factory),
            exact_type=None if isinstance(parameter.default, FieldInfo) else _exact_type(annotation),
            is_required=is_required and not collects,
            is_secret=is_secret_annotation(annotation) or is_secret_annotation(parameter.annotation),
            expected=_format_annotation(annotation),
        )


class _ArgumentsCoreSchema:
    """The arguments part of a core schema, from which validators for fewer parameters are cut."""

    def __init__(self, schema: Any) -> None:
        self.definitions: list[Any] | None = None
        if schema["type"] == "definitions":
            self.definitions, schema = _replace_generators(schema["definitions"]), schema["schema"]
        self.fields: dict[str, Any] = {field["name"]: field for field in schema["arguments_schema"]["arguments_schema"]}

    def validator(self, fields: list[Any]) -> SchemaValidator:
        return self._compile({"type": "arguments", "arguments_schema": fields})

    def parameter_validator(self, name: str) -> SchemaValidator:
        return self._compile(self._without_default(name))

    def is_lazy(self, name: str) -> bool:
        """Whether pydantic would check the items while the body reads them."""
        is_generator: bool = self._without_default(name)["type"] == "generator"
        return is_generator

    def _without_default(self, name: str) -> Any:
        schema = self.fields[name]["schema"]
        return schema["schema"] if schema["type"] == "default" else schema

    def _compile(self, schema: Any) -> SchemaValidator:
        if self.definitions is not None:
            schema = {"type": "definitions", "schema": schema, "definitions": self.definitions}
        return SchemaValidator(schema, _CORE_CONFIG)


def _with_description(annotation: Any) -> Any:
    """Return `Annotated[type, "text"]` with the text as a description, as FastMCP reads it."""
    if get_origin(annotation) is not Annotated:
        return annotation
    metadata = [mark for mark in annotation.__metadata__ if mark is not Secret and not isinstance(mark, Secret)]
    if len(metadata) == 1 and isinstance(metadata[0], str):
        return Annotated[annotation.__origin__, Field(description=metadata[0])]
    return annotation


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a callable. Raises DefinitionError for one that has none."""
    is_static = isinstance(inspect.getattr_static(type(function), "__call__", None), staticmethod)
    try:  # of an instance with a static __call__, inspect would drop the first parameter
        return inspect.signature(getattr(function, "__call__") if is_static else function)  # noqa: B004, B009  # mypy
    except (ValueError, TypeError) as error:
        raise DefinitionError(
            f"{function!r} tells no signature; wrap it in a function of your own, with annotated parameters."
        ) from error


def _function_adapter(parameters: list[inspect.Parameter]) -> TypeAdapter[Any]:
    def shown() -> None:
        """Stand in for the function with the parameters that have a schema."""

    shown.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect.signature reads first
    shown.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not EMPTY}
    return TypeAdapter[Any](shown, config=_CONFIG)  # type: ignore[arg-type]  # pydantic takes a function as a type


def _exact_type(annotation: Any) -> type | None:
    return next((kind for kind in _EXACT_TYPES if annotation is kind), None)


def _format_annotation(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return f"Annotated[{_format_annotation(annotation.__origin__)}, …]"
    return (
        str(annotation.annotation)
        if isinstance(annotation, UnresolvedAnnotation)
        else inspect.formatannotation(annotation)
    )


def _limit_integer(field: Any) -> Any:
    """Return an argument's core schema with a plain integer limited to a machine word; larger ones go the long way."""
    schema = field["schema"]
    if schema["type"] == "default":
        return {**field, "schema": {**schema, "schema": _limit_integer({"schema": schema["schema"]})["schema"]}}
    if schema["type"] != "int":
        return field
    low = {} if "ge" in schema or "gt" in schema else {"gt": -_MACHINE_WORD_LIMIT}
    high = {} if "le" in schema or "lt" in schema else {"lt": _MACHINE_WORD_LIMIT}
    return {**field, "schema": {**schema, **low, **high}}


def _is_scalar(field: Any) -> bool:
    schema = field["schema"]
    return (schema["schema"] if schema["type"] == "default" else schema)["type"] in ("int", "float", "str", "bool")


def _alias(field: Any, name: str) -> str:
    alias = (field or {}).get("alias", name)
    while isinstance(alias, list):
        alias = alias[0]
    return str(alias)


def _has_uncertain_types(node: Any) -> bool:
    return any(here.get("type") in _UNCERTAIN_TYPES for here in _iter_core_nodes(node))


def _iter_core_nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every node of a core schema."""
    pending = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            yield here
            pending.extend(value for key, value in here.items() if key not in _NON_SCHEMA_KEYS)
        elif isinstance(here, list | tuple):
            pending.extend(here)


def _named_tuple_fields(node: Any) -> Iterator[str]:
    """Yield the field names of named tuples, which their JSON Schema does not tell."""
    for here in _iter_core_nodes(node):
        if here.get("type") == "named-tuple-field":
            yield here["name"]


def _replace_generators(node: Any) -> Any:
    """Return a core schema in which an Iterable is checked as a list: pydantic would check it while the body reads."""
    if isinstance(node, list):
        return [_replace_generators(child) for child in node]
    if not isinstance(node, dict):
        return node
    made = {key: value if key in _NON_SCHEMA_KEYS else _replace_generators(value) for key, value in node.items()}
    return {**made, "type": "list"} if made.get("type") == "generator" else made


def _validate_iterable(value: Any) -> Any:
    """Return the object itself: reading it to check its items would use it up."""
    iter(value)
    return value


def _validate_bound_value(validator: SchemaValidator, value: Any) -> Any:
    """Return the object itself when it fits as it is, what it converts to otherwise. Raises ValueError."""
    try:
        checked = validator.validate_python(value, strict=True)
    except ValidationError:
        return validator.validate_python(value)
    return value if isinstance(value, type(checked)) and checked == value else checked
