"""The input side of a function: its parameters, their validation by pydantic and their JSON Schema."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, cast, get_origin

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError, SchemaValidator, ValidationError

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction import Secret, is_secret_annotation
from ahvn_tools.schema.annotations import UnresolvedAnnotation
from ahvn_tools.schema.argument_changes import ArgumentChange, change_property
from ahvn_tools.schema.arguments import ArgumentValidator
from ahvn_tools.schema.core_schema import ArgumentsCoreSchema, has_uncertain_types
from ahvn_tools.schema.inputs import BoundValueValidator, FastValidator, Parameter, ParameterKind, Validator
from ahvn_tools.schema.parameter_texts import field_texts, schema_texts
from ahvn_tools.schema.plain_types import PlainParameters
from ahvn_tools.schema.refs import without_properties
from ahvn_tools.schema.secret_defaults import remove_secret_defaults
from ahvn_tools.schema.subschemas import iter_property_names
from ahvn_tools.schema.titles import QuietSchemaGenerator, clean_schema, get_title_from_name
from ahvn_tools.state import UNSET

EMPTY = inspect.Parameter.empty
VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD

_CONFIG = ConfigDict(allow_inf_nan=False)
_SCHEMA_ERRORS = (PydanticUserError, SchemaError, NameError)
"""What pydantic raises for a parameter without a schema; its other errors about schemas are subclasses of these."""
_NO_JSON_FORM_ERRORS = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema)
"""Those among them that a type without a JSON form causes, and not a mistake."""
_TYPING_MODULES = frozenset({"types", "typing", "typing_extensions"})
_UNTYPED = (EMPTY, Any, Annotated[Any, Secret])
_EXACT_TYPES = (str, int, bool, bytes)


class FunctionInputs:
    """A function's parameters. Schemas and validators are made on demand; pydantic builds the core schema once."""

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
        coerce_numbers_to_str: bool = True,
        converts: bool = True,
        body_names: Mapping[str, str] = types.MappingProxyType({}),
        changes: Mapping[str, ArgumentChange] = types.MappingProxyType({}),
    ) -> None:
        """Build the core schema from resolved annotations; the first read of the schema calls `descriptions`.

        Unless it `converts`, the body gets arguments as they came.

        `body_names` are those of parameters that the signature names otherwise, `changes` those of their schemas.

        A parameter whose type has no JSON form is in `parameters_without_schema`. Raises DefinitionError for one that
        is not in `bound` and whose annotation cannot be resolved, or is no valid type.
        """
        self._function_name = name
        self._body_names = body_names
        self._changes = changes
        self._coerce_numbers_to_str = coerce_numbers_to_str
        self._converts = converts
        self._descriptions = descriptions
        included: dict[ParameterKind, bool] = {VAR_POSITIONAL: include_var_positional, VAR_KEYWORD: include_var_keyword}
        self._signature_parameters = [
            p for p in signature.parameters.values() if included.get(p.kind, True) or p.name in bound
        ]
        self._annotations = {
            name: Any if annotation is EMPTY else annotation for name, annotation in annotations.items()
        }
        failures: dict[str, Exception] = {
            p.name: annotation.error
            for p in self._signature_parameters
            if isinstance(annotation := annotations[p.name], UnresolvedAnnotation)
        }
        try:
            self._adapter = self._build_adapter(failures)
        except _SCHEMA_ERRORS as error:
            failures |= self._find_failures(failures) or {name: _without_frames(error)}
            self._refuse_mistakes(failures, bound)
            self._adapter = self._build_adapter(failures)
        else:
            self._refuse_mistakes(failures, bound)
        self.parameters_without_schema = frozenset(failures)
        self._core = ArgumentsCoreSchema(self._adapter.core_schema)
        self.parameters: dict[str, Parameter] = {p.name: self._to_parameter(p) for p in self._signature_parameters}

    @functools.cached_property
    def runs_foreign_code(self) -> bool:
        """Whether validation runs validators or default factories of other code, which may block, or takes long."""
        return self._core.runs_foreign_code() or self._core.has_nested_unions()

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all parameters but `hidden`."""
        schema: JsonObject = json.loads(self._schema_text)
        removed = hidden & self.parameters.keys() - self.parameters_without_schema
        return without_properties(schema, (self.parameters[name].property_name for name in removed))

    def texts(self, hidden: frozenset[str]) -> Iterable[str]:
        """Return the names and descriptions of all parameters but `hidden`, and of the properties in them."""
        if self._changes:
            return schema_texts(self.schema(hidden))
        descriptions = self._descriptions()
        found: list[str] = []
        for name, field in self._core.visible_fields(hidden):
            property_name = self.parameters[name].property_name
            texts = field_texts(field, descriptions.get(property_name))
            if texts is None:
                return schema_texts(self.schema(hidden))
            found += property_name, *texts
        return found

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of a caller's arguments when `hidden` are bound."""
        return ArgumentValidator(
            functools.partial(self._core.validator, hidden, converts=self._converts),
            parameter_count=len(self.parameters),
            get_schema=functools.partial(self.schema, hidden),
            get_names=functools.partial(self._known_names, hidden),
            coerce_numbers_to_str=self._coerce_numbers_to_str,
            reads_scalar_texts=not self._converts,
        ).validate

    def fast_validator(self, hidden: frozenset[str]) -> FastValidator | None:
        """Compile pydantic's plain validator when all parameters are scalars; it refuses extreme integers."""
        validator = self._core.fast_validator(hidden) if self._converts else None
        return cast("FastValidator", validator.validate_python) if validator else None

    def bound_value_validator(self, name: str) -> BoundValueValidator | None:
        """Compile the check of one bound value; None when pydantic cannot check its type."""
        if name in self.parameters_without_schema:
            return None
        if self._core.is_generator(name):
            return _validate_iterable
        validate = _validate_bound_value if self._converts else _validate_only
        return functools.partial(validate, self._core.parameter_validator(name))

    @functools.cached_property
    def _schema_text(self) -> str:
        schema = self._generate_schema()
        descriptions = self._descriptions()
        for name, node in schema.get("properties", {}).items():
            if name in descriptions:
                node.setdefault("description", descriptions[name])
        for name in self._changes.keys() & schema.get("properties", {}).keys():
            schema["properties"][name] = change_property(schema["properties"][name], self._changes[name])
        secret = [parameter.property_name for parameter in self.parameters.values() if parameter.is_secret]
        text = json.dumps(schema)
        may_be_secret = secret or '"writeOnly"' in text or '"password"' in text
        return json.dumps(remove_secret_defaults(schema, secret)) if may_be_secret and '"default"' in text else text

    def _generate_schema(self) -> JsonObject:
        """Return the JSON Schema of all parameters, with those titles that the annotations state."""
        generated = self._adapter.json_schema(schema_generator=QuietSchemaGenerator)
        if isinstance(self._adapter, PlainParameters):
            return generated
        titles = {
            name: node.get("title") for name, node in generated.get("properties", {}).items() if isinstance(node, dict)
        }
        schema = clean_schema(generated)
        for name, node in schema.get("properties", {}).items():
            if isinstance(titles[name], str) and titles[name] != get_title_from_name(name):
                node["title"] = titles[name]
        return schema

    def _known_names(self, hidden: frozenset[str]) -> frozenset[str]:
        return frozenset({*iter_property_names(self.schema(hidden)), *self._core.iter_named_tuple_fields(hidden)})

    def _build_adapter(self, excluded: Collection[str]) -> TypeAdapter[Any] | PlainParameters:
        adapter = _function_adapter(
            [self._to_keyword_only(p) for p in self._signature_parameters if p.name not in excluded]
        )
        if not isinstance(adapter, PlainParameters) and has_uncertain_types(adapter.core_schema):
            adapter.json_schema(schema_generator=QuietSchemaGenerator)
        return adapter

    def _to_keyword_only(self, parameter: inspect.Parameter) -> inspect.Parameter:
        """Make a parameter keyword-only: `*args` becomes a list, `**kwargs` an object."""
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

    def _find_failures(self, known: Collection[str]) -> dict[str, Exception]:
        """Return the error of each parameter that has no JSON Schema by itself."""
        failures: dict[str, Exception] = {}
        for parameter in self._signature_parameters:
            if parameter.name in known:
                continue
            try:
                _function_adapter([self._to_keyword_only(parameter)]).json_schema(schema_generator=QuietSchemaGenerator)
            except _SCHEMA_ERRORS as error:
                failures[parameter.name] = _without_frames(error)
        return failures

    def _refuse_mistakes(self, failures: Mapping[str, Exception], bound: frozenset[str]) -> None:
        """Raise DefinitionError for an annotation that is wrong. A type without a JSON form may be bound later."""
        for name, error in failures.items():
            if name in bound or (isinstance(error, _NO_JSON_FORM_ERRORS) and _is_type(self._annotations.get(name))):
                continue
            annotation = _format_annotation(self._annotations.get(name, ""))
            has_fix = isinstance(error, NameError) or type(error) is PydanticUserError  # its text says what to write
            reason = str(error).split("\n")[0].rstrip(".") if has_fix else _mistake(error)
            missing = getattr(error, "name", None) if isinstance(error, NameError) else None
            fix = f"Define or import {missing!r}" if missing else "Annotate it with a type that a model can send"
            refusal = DefinitionError(
                f"Parameter {name!r} of {self._function_name!r} is annotated {annotation!r}: {reason}. "
                f"{fix}, or bind the parameter when you create the tool: binds={{{name!r}: 'state.key'}}."
            )
            refusal.reason = error
            raise refusal from None

    def _to_parameter(self, parameter: inspect.Parameter) -> Parameter:
        name, annotation, default = parameter.name, self._annotations[parameter.name], parameter.default
        factory = None
        if isinstance(default, FieldInfo):
            factory, default = default.default_factory, EMPTY if default.is_required() else default.default
        elif getattr(type(default), "__hash__", None) is None:  # pydantic copies these for each call, too
            factory = functools.partial(copy.deepcopy, default)
        is_exact = any(annotation is kind for kind in _EXACT_TYPES)
        has_default = self._core.has_default(name)
        is_optional = parameter.kind in (VAR_POSITIONAL, VAR_KEYWORD) or (
            default is not EMPTY if has_default is None else has_default
        )
        return Parameter(
            name=name,
            property_name=self._core.property_name(name),
            body_name=self._body_names.get(name),
            kind=parameter.kind,
            annotation=annotation,
            fixed_default=UNSET if default is EMPTY else default,
            default_factory=cast("Callable[[], Any] | None", factory),
            exact_type=annotation if is_exact and not isinstance(parameter.default, FieldInfo) else None,
            is_required=not is_optional,
            is_secret=is_secret_annotation(annotation) or is_secret_annotation(parameter.annotation),
            expected=_format_annotation(annotation),
        )


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a callable. Raises DefinitionError for one that has none."""
    is_plain = isinstance(function, types.FunctionType)
    is_static = not is_plain and isinstance(inspect.getattr_static(type(function), "__call__", None), staticmethod)
    try:  # of an instance with a static __call__, inspect would drop the first parameter
        return inspect.signature(getattr(function, "__call__") if is_static else function)  # noqa: B004, B009  # mypy
    except (ValueError, TypeError) as error:
        raise DefinitionError(
            f"{function!r} has no readable signature; wrap it in a function with annotated parameters."
        ) from error


def _without_frames(error: Exception) -> Exception:
    """Return a caught error, without the frames that its tracebacks keep alive with all their variables."""
    chained: BaseException | None = error
    while chained is not None:
        chained.__traceback__ = None
        chained = chained.__cause__ or chained.__context__
    return error


def _mistake(error: Exception) -> str:
    is_constraint = isinstance(error, SchemaError)  # its text has the whole core schema
    return "one of its constraints is not valid" if is_constraint else "that is not a type"


def _is_type(annotation: Any) -> bool:
    """Return whether an annotation is a type, and not a value or a function such as `any`."""
    is_form = get_origin(annotation) is not None or type(annotation).__module__ in _TYPING_MODULES
    return is_form or isinstance(annotation, type)


def _with_description(annotation: Any) -> Any:
    """Read the text of `Annotated[type, "text"]` as a description, as FastMCP does."""
    if get_origin(annotation) is not Annotated:
        return annotation
    marks = [mark for mark in annotation.__metadata__ if mark is Secret or isinstance(mark, Secret)]
    texts = [mark for mark in annotation.__metadata__ if mark not in marks]
    if len(texts) == 1 and isinstance(texts[0], str):
        return Annotated[annotation.__origin__, Field(description=texts[0]), *marks]
    return annotation


def _function_adapter(parameters: list[inspect.Parameter]) -> TypeAdapter[Any] | PlainParameters:
    if (plain := PlainParameters.from_parameters(parameters)) is not None:
        return plain
    is_untyped = all(
        any(p.annotation is kind for kind in _UNTYPED) and (p.default is EMPTY or p.default is None) for p in parameters
    )
    return _untyped_adapter(tuple(parameters)) if is_untyped else _make_adapter(parameters)


@functools.lru_cache(maxsize=256)
def _untyped_adapter(parameters: tuple[inspect.Parameter, ...]) -> TypeAdapter[Any]:
    """Return the adapter of parameters of any type: the tools of one API have the same credentials."""
    return _make_adapter(parameters)


def _make_adapter(parameters: Sequence[inspect.Parameter]) -> TypeAdapter[Any]:
    def function() -> None:
        """Replace the real function for pydantic, with only the parameters that have a schema."""

    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect reads this first
    function.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not EMPTY}
    return TypeAdapter[Any](function, config=_CONFIG)  # type: ignore[arg-type]  # pydantic takes a function as a type


def _format_annotation(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return f"Annotated[{_format_annotation(annotation.__origin__)}, …]"
    if isinstance(annotation, UnresolvedAnnotation):
        return str(annotation.annotation)
    return inspect.formatannotation(annotation)


def _validate_iterable(value: Any) -> Any:
    """Return the object itself: to check its items would consume it."""
    iter(value)
    return value


def _validate_only(validator: SchemaValidator, value: Any) -> Any:
    """Return the object itself. Raises ValueError."""
    validator.validate_python(value)
    return value


def _validate_bound_value(validator: SchemaValidator, value: Any) -> Any:
    """Return the object itself when it needs no conversion, else the converted value. Raises ValueError."""
    try:
        checked = validator.validate_python(value, strict=True)
    except ValidationError:
        return validator.validate_python(value)
    return value if isinstance(value, type(checked)) and checked == value else checked
