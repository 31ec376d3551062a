"""The input side of a function: its parameters, their pydantic validation and their JSON Schema."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_origin

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreConfig, SchemaValidator, ValidationError

from ahvn_tools.errors import DefinitionError
from ahvn_tools.redaction import Secret, is_secret
from ahvn_tools.schema.annotations import Unresolved
from ahvn_tools.schema.arguments import Arguments
from ahvn_tools.schema.parameters import Check, JsonObject, Kind, Parameter, Validator, without_properties
from ahvn_tools.schema.repair import TOO_LARGE
from ahvn_tools.schema.titles import QuietGenerator, tidy, without_unused_definitions
from ahvn_tools.state import UNSET

EMPTY = inspect.Parameter.empty
VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD

_CONFIG = ConfigDict(allow_inf_nan=False)
_CORE_CONFIG = CoreConfig(allow_inf_nan=False, hide_input_in_errors=True)
_NO_SCHEMA = (
    PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError,
    NameError,
)  # fmt: skip
_SUSPECT = frozenset({"is-instance", "is-subclass", "callable", "function-plain"})
_PLAIN = (str, int, bool, bytes)


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
        included: dict[Kind, bool] = {VAR_POSITIONAL: include_var_positional, VAR_KEYWORD: include_var_keyword}
        self._signature = [p for p in signature.parameters.values() if included.get(p.kind, True) or p.name in bound]
        self._annotations = {name: Any if given is EMPTY else given for name, given in annotations.items()}
        failures: dict[str, Exception] = {
            p.name: given.error for p in self._signature if isinstance(given := annotations[p.name], Unresolved)
        }
        try:
            self._adapter = self._adapted(failures.keys())
        except _NO_SCHEMA as error:
            failures |= self._failures(failures.keys()) or {self.function_name: error}
            self._refuse(failures, bound)
            self._adapter = self._adapted(failures.keys())
        else:
            self._refuse(failures, bound)
        self.unschemed = frozenset(failures)
        self._core = _Core(self._adapter.core_schema)
        self.parameters: dict[str, Parameter] = {p.name: self._parameter(p) for p in self._signature}

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all parameters but `hidden`."""
        schema: JsonObject = json.loads(self._schema_text)
        gone = hidden & self.parameters.keys() - self.unschemed
        if not gone:
            return schema
        without_properties(schema, frozenset(self.parameters[name].property_name for name in gone))
        return without_unused_definitions(schema)

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of the arguments that a caller gives when `hidden` are bound."""
        fields = [_bounded(field) for name, field in self._core.fields.items() if name not in hidden]
        arguments = Arguments(self._core.validator(fields), known=functools.partial(self._known_names, hidden))
        return arguments.validate_scalars if all(map(_is_scalar, fields)) else arguments.validate

    def check(self, name: str) -> Check | None:
        """Compile the check of one bound value; None when pydantic cannot check its type."""
        if name in self.unschemed:
            return None
        annotation = self._annotations[name]
        if annotation in _PLAIN:
            return functools.partial(_check_plain, annotation, self._core.one(name))
        return functools.partial(_check_strictly, self._core.one(name))

    @functools.cached_property
    def _schema_text(self) -> str:
        raw = self._adapter.json_schema(schema_generator=QuietGenerator)
        titles = {name: node.get("title") for name, node in raw.get("properties", {}).items() if isinstance(node, dict)}
        schema = tidy(raw)
        title_of, descriptions = GenerateJsonSchema().get_title_from_name, self._descriptions()
        for name, node in schema.get("properties", {}).items():
            if isinstance(titles[name], str) and titles[name] != title_of(name):
                node["title"] = titles[name]
            if name in descriptions:
                node.setdefault("description", descriptions[name])
        return json.dumps(schema)

    def _known_names(self, hidden: frozenset[str]) -> frozenset[str]:
        return frozenset(_property_names(self.schema(hidden)))

    def _adapted(self, left_out: Any) -> TypeAdapter[Any]:
        shown = [self._shown(p) for p in self._signature if p.name not in left_out]
        adapter = _adapter(shown)
        if _has_suspects(adapter.core_schema):
            adapter.json_schema(schema_generator=QuietGenerator)
        return adapter

    def _shown(self, parameter: inspect.Parameter) -> inspect.Parameter:
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

    def _failures(self, known: Any) -> dict[str, Exception]:
        failures: dict[str, Exception] = {}
        for parameter in self._signature:
            if parameter.name in known:
                continue
            try:
                _adapter([self._shown(parameter)]).json_schema(schema_generator=QuietGenerator)
            except _NO_SCHEMA as error:
                failures[parameter.name] = error
        return failures

    def _refuse(self, failures: Mapping[str, Exception], bound: frozenset[str]) -> None:
        for name, error in failures.items():
            if name in bound:
                continue
            annotation = _shown_annotation(self._annotations.get(name, ""))
            reason = str(error).split("\n")[0] if isinstance(error, NameError) else "that type has no JSON form"
            raise DefinitionError(
                f"Parameter {name!r} of {self.function_name!r} is annotated {annotation!r}: {reason}. "
                f"Annotate it with a type that a model can send, or bind it where the tool is made: "
                f"binds={{{name!r}: 'state.key'}}."
            ) from error

    def _parameter(self, parameter: inspect.Parameter) -> Parameter:
        annotation, default = self._annotations[parameter.name], parameter.default
        if isinstance(default, FieldInfo):
            default = UNSET if default.is_required() else default.get_default(call_default_factory=True)
        collects = parameter.kind in (VAR_POSITIONAL, VAR_KEYWORD)
        field = self._core.fields.get(parameter.name)
        is_required = field["schema"]["type"] != "default" if field else default is EMPTY
        return Parameter(
            name=parameter.name,
            property_name=_alias(field, parameter.name),
            kind=parameter.kind,
            annotation=annotation,
            default=UNSET if default is EMPTY else default,
            is_required=is_required and not collects,
            is_secret=is_secret(annotation) or is_secret(parameter.annotation),
            expected=_shown_annotation(annotation),
        )


class _Core:
    """The arguments part of a core schema, from which validators for fewer parameters are cut."""

    def __init__(self, schema: Any) -> None:
        self.definitions: list[Any] | None = None
        if schema["type"] == "definitions":
            self.definitions, schema = schema["definitions"], schema["schema"]
        self.fields: dict[str, Any] = {field["name"]: field for field in schema["arguments_schema"]["arguments_schema"]}

    def validator(self, fields: list[Any]) -> SchemaValidator:
        return self._validator({"type": "arguments", "arguments_schema": fields})

    def one(self, name: str) -> SchemaValidator:
        schema = self.fields[name]["schema"]
        return self._validator(schema["schema"] if schema["type"] == "default" else schema)

    def _validator(self, schema: Any) -> SchemaValidator:
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


def _adapter(parameters: list[inspect.Parameter]) -> TypeAdapter[Any]:
    def shown() -> None:
        """Stand in for the function with the parameters that have a schema."""

    shown.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect.signature reads first
    shown.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not EMPTY}
    return TypeAdapter[Any](shown, config=_CONFIG)  # type: ignore[arg-type]  # pydantic takes a function as a type


def _shown_annotation(annotation: Any) -> str:
    return str(annotation.annotation) if isinstance(annotation, Unresolved) else inspect.formatannotation(annotation)


def _bounded(field: Any) -> Any:
    """Return an argument's core schema with a plain integer limited to what `repair.guard` lets through."""
    schema = field["schema"]
    if schema["type"] == "default":
        return {**field, "schema": {**schema, "schema": _bounded({"schema": schema["schema"]})["schema"]}}
    if schema["type"] != "int":
        return field
    low = {} if "ge" in schema or "gt" in schema else {"gt": -TOO_LARGE}
    high = {} if "le" in schema or "lt" in schema else {"lt": TOO_LARGE}
    return {**field, "schema": {**schema, **low, **high}}


def _is_scalar(field: Any) -> bool:
    schema = field["schema"]
    return (schema["schema"] if schema["type"] == "default" else schema)["type"] in ("int", "float", "str", "bool")


def _alias(field: Any, name: str) -> str:
    alias = (field or {}).get("alias", name)
    while isinstance(alias, list):
        alias = alias[0]
    return str(alias)


def _has_suspects(node: Any) -> bool:
    pending = [node]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            if here.get("type") in _SUSPECT:
                return True
            pending.extend(value for key, value in here.items() if key not in ("metadata", "serialization", "config"))
        elif isinstance(here, list | tuple):
            pending.extend(here)
    return False


def _property_names(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict):
            yield from node["properties"]
        for child in node.values():
            yield from _property_names(child)
    elif isinstance(node, list):
        for child in node:
            yield from _property_names(child)


def _check_plain(kind: type, validator: SchemaValidator, value: Any) -> Any:
    return value if type(value) is kind else _check_strictly(validator, value)


def _check_strictly(validator: SchemaValidator, value: Any) -> Any:
    """Return the object itself when it fits as it is, what it converts to otherwise. Raises ValueError."""
    try:
        checked = validator.validate_python(value, strict=True)
    except ValidationError:
        return validator.validate_python(value)
    return value if type(checked) is type(value) and checked == value else checked
