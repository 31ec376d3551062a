"""The input side of a function: its parameters, their validation by pydantic and their JSON Schema."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import SchemaValidator, ValidationError

from ahvn_tools.encoders.loaded_classes import loaded_classes
from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.names import is_secret_annotation
from ahvn_tools.schema.argument_changes import ArgumentChange, change_property
from ahvn_tools.schema.arguments import ArgumentValidator
from ahvn_tools.schema.core_schema import ArgumentsCoreSchema
from ahvn_tools.schema.docstring import Texts
from ahvn_tools.schema.inputs import BoundValueValidator, FastValidator, Inputs, Parameter, Validator
from ahvn_tools.schema.keywords import remove_secret_defaults
from ahvn_tools.schema.plain_types import PlainParameters
from ahvn_tools.schema.refs import without_properties
from ahvn_tools.schema.subschemas import iter_property_names
from ahvn_tools.state import UNSET

if TYPE_CHECKING:
    from ahvn_tools.schema.pydantic_parameters import PydanticParameters

EMPTY = inspect.Parameter.empty
VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD

ABSENT: Final = object()
"""The default of a parameter that the body does not get if a call leaves it out, a member of `**options`."""

_NO_TEXTS: Final = Texts()
_EXACT_TYPES = (str, int, bool, bytes)
_IMMUTABLE_TYPES = frozenset({str, int, bool, float, types.NoneType})
_FUNCTIONS = (types.FunctionType, types.MethodType)


class FunctionInputs(Inputs):
    """A function's parameters. Schemas and validators are made on demand; pydantic builds the core schema once."""

    def __init__(
        self,
        name: str,
        signature: inspect.Signature,
        annotations: Mapping[str, Any],
        *,
        bound: frozenset[str] = frozenset(),
        texts: Texts = _NO_TEXTS,
        include_var_positional: bool = False,
        include_var_keyword: bool = False,
        coerce_numbers_to_str: bool = True,
        converts: bool = True,
        body_names: Mapping[str, str] = types.MappingProxyType({}),
        changes: Mapping[str, ArgumentChange] = types.MappingProxyType({}),
    ) -> None:
        """Take resolved annotations, and texts that describe the parameters by the body's names.

        Unless it `converts`, the body gets arguments as they came. `body_names` are those of parameters that the
        signature names otherwise, `changes` those of their schemas.

        A parameter whose type has no JSON form is in `parameters_without_schema`. Raises DefinitionError for one that
        is not in `bound` and whose annotation cannot be resolved, or is no valid type.
        """
        self._body_names = body_names
        self._changes = changes
        self._coerce_numbers_to_str = coerce_numbers_to_str
        self._converts = converts
        self._texts = texts
        parameters, resolved = [], {}
        self.accepts_other_names = False
        for p in signature.parameters.values():
            is_omitted = (p.kind is VAR_POSITIONAL and not include_var_positional) or (
                p.kind is VAR_KEYWORD and not include_var_keyword
            )
            if not is_omitted or p.name in bound:
                parameters.append(p)
                resolved[p.name] = Any if (annotation := annotations[p.name]) is EMPTY else annotation
                self.accepts_other_names |= p.kind is VAR_KEYWORD
        self._has_absent = False
        schemas: PlainParameters | PydanticParameters | None = PlainParameters.read(parameters, resolved)
        if schemas is None:
            from ahvn_tools.schema.pydantic_parameters import PydanticParameters  # slow, and few tools need it

            schemas = PydanticParameters(name, parameters, resolved, bound)
        self._schemas = schemas
        self.parameters_without_schema = schemas.without_schema
        self.parameters = {p.name: self._to_parameter(p, resolved[p.name]) for p in parameters}

    @functools.cached_property
    def _core(self) -> ArgumentsCoreSchema:
        return ArgumentsCoreSchema(self._schemas.core_schema)

    def schema(self, hidden: frozenset[str]) -> JsonObject:
        """Return a fresh JSON Schema of all parameters but `hidden`."""
        schema: JsonObject = json.loads(self._schema_text)
        removed = hidden & self.parameters.keys() - self.parameters_without_schema
        return without_properties(schema, (self.parameters[name].property_name for name in removed))

    def schema_text(self, hidden: frozenset[str]) -> str:
        """Return the schema as JSON text: the same object each time, if nothing is hidden."""
        return super().schema_text(hidden) if hidden else self._schema_text

    def validator(self, hidden: frozenset[str]) -> Validator:
        """Compile the check of a caller's arguments when `hidden` are bound."""
        validate = ArgumentValidator(
            functools.partial(self._core.validator, hidden, converts=self._converts),
            parameter_count=len(self.parameters),
            get_schema=functools.partial(self.schema, hidden),
            get_names=functools.partial(self._known_names, hidden),
            coerce_numbers_to_str=self._coerce_numbers_to_str,
            reads_scalar_texts=not self._converts,
        ).validate
        return functools.partial(_validate_present, validate) if self._has_absent else validate

    def fast_validator(self, hidden: frozenset[str]) -> FastValidator | None:
        """Compile pydantic's plain validator when all parameters are scalars; it refuses extreme integers."""
        validator = self._core.fast_validator(hidden) if self._converts and not self._has_absent else None
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
        schema, descriptions, secret = self._schemas.json_schema(), self._texts.details.parameters, list[str]()
        properties = schema.get("properties", {})
        for name, parameter in self.parameters.items():
            shown = parameter.property_name
            if parameter.is_secret:
                secret.append(shown)
            described = descriptions.get(parameter.body_name or name, descriptions.get(shown))
            if described is not None and shown in properties:
                properties[shown].setdefault("description", described)
            if name in self._changes and shown in properties:
                properties[shown] = change_property(properties[shown], self._changes[name])
        text = json.dumps(schema, allow_nan=False)
        may_be_secret = secret or '"writeOnly"' in text or '"password"' in text
        return json.dumps(remove_secret_defaults(schema, secret)) if may_be_secret and '"default"' in text else text

    def _known_names(self, hidden: frozenset[str]) -> frozenset[str]:
        return frozenset({*iter_property_names(self.schema(hidden)), *self._core.iter_named_tuple_fields(hidden)})

    def _to_parameter(self, parameter: inspect.Parameter, annotation: Any) -> Parameter:
        name, default = parameter.name, parameter.default
        factory, is_field = None, False
        if default is not EMPTY and type(default) not in _IMMUTABLE_TYPES:
            is_field = isinstance(default, loaded_classes("pydantic.fields", "FieldInfo"))
        if is_field:
            factory, default = default.default_factory, EMPTY if default.is_required() else default.default
        elif default is ABSENT:
            default, self._has_absent = EMPTY, True
        elif getattr(type(default), "__hash__", None) is None:  # pydantic copies these for each call, too
            factory = functools.partial(copy.deepcopy, default)
        is_exact, written = annotation in _EXACT_TYPES, parameter.annotation
        core = None if isinstance(self._schemas, PlainParameters) else self._core
        has_default = None if core is None else core.has_default(name)
        is_optional = parameter.kind in (VAR_POSITIONAL, VAR_KEYWORD) or (
            parameter.default is not EMPTY if has_default is None else has_default
        )
        return Parameter(
            name=name,
            property_name=name if core is None else core.property_name(name),
            body_name=self._body_names.get(name),
            kind=parameter.kind,
            annotation=annotation,
            fixed_default=UNSET if default is EMPTY else default,
            default_factory=cast("Callable[[], Any] | None", factory),
            exact_type=annotation if is_exact and not is_field else None,
            is_required=not is_optional,
            is_secret=(not is_exact and is_secret_annotation(annotation))
            or (written is not annotation and not isinstance(written, str) and is_secret_annotation(written)),
        )


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a callable. Raises DefinitionError for one that has none."""
    is_plain = isinstance(function, types.FunctionType)
    is_static = not is_plain and isinstance(inspect.getattr_static(type(function), "__call__", None), staticmethod)
    try:  # of an instance with a static __call__, inspect would drop the first parameter
        signature = inspect.signature(getattr(function, "__call__") if is_static else function)  # noqa: B004, B009  # mypy
        is_wrapper = hasattr(function, "__wrapped__") and isinstance(function, _FUNCTIONS)
        return _narrow(signature, inspect.signature(function, follow_wrapped=False)) if is_wrapper else signature
    except (ValueError, TypeError) as error:
        raise DefinitionError(
            f"{function!r} has no readable signature; wrap it in a function with annotated parameters."
        ) from error


def _narrow(wrapped: inspect.Signature, own: inspect.Signature) -> inspect.Signature:
    """Return the signature that callers of a wrapper may use: what the wrapped function takes, and the wrapper passes.

    `functools.wraps` gives the wrapper the annotations of the function.
    """
    kinds = {parameter.kind for parameter in own.parameters.values()}
    if not {VAR_POSITIONAL, VAR_KEYWORD} & kinds:
        return own.replace(return_annotation=wrapped.return_annotation)
    parameters = list(wrapped.parameters.values())
    if VAR_KEYWORD not in kinds:  # it passes values by position alone
        parameters = [p.replace(kind=p.POSITIONAL_ONLY) for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
    variadic = (VAR_POSITIONAL, VAR_KEYWORD)
    others = [p for p in own.parameters.values() if p.name not in wrapped.parameters]
    added = [p for p in others if p.default is EMPTY and p.kind not in variadic]
    return wrapped.replace(parameters=[*added, *parameters]) if added or VAR_KEYWORD not in kinds else wrapped


def _validate_present(validate: Validator, arguments: JsonObject) -> JsonObject:
    """Return the accepted arguments without those that the body does not get."""
    return {name: value for name, value in validate(arguments).items() if value is not ABSENT}


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
