"""Parameters whose schemas pydantic makes: those of all types that are not plain."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic_core import PydanticOmit, PydanticSerializationError, SchemaError

from ahvn_tools.errors import DefinitionError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.redaction.names import Secret
from ahvn_tools.schema.annotations import UnresolvedAnnotation, format_annotation
from ahvn_tools.schema.generated import QuietSchemaGenerator, clean_schema
from ahvn_tools.schema.plain_types import get_title_from_name
from ahvn_tools.schema.tags import require_tags

EMPTY = inspect.Parameter.empty

_CONFIG = ConfigDict(allow_inf_nan=False)
_NO_JSON_FORM_ERRORS = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema)
"""Those among them that a type without a JSON form causes, and not a mistake."""
_TYPING_MODULES = frozenset({"types", "typing", "typing_extensions"})
_UNIONS = (Union, types.UnionType)
_CONTAINERS = (list, set, frozenset, dict, tuple)
_UNTYPED = (EMPTY, Any, Annotated[Any, Secret])


class PydanticParameters:
    """The parameters of a function, as keyword-only ones. Pydantic builds their core schema once."""

    def __init__(
        self,
        function_name: str,
        parameters: Sequence[inspect.Parameter],
        annotations: Mapping[str, Any],
        bound: frozenset[str],
    ) -> None:
        """Raises DefinitionError for a parameter that is not in `bound` and whose annotation is no valid type."""
        self._function_name = function_name
        self._parameters = parameters
        self._annotations = annotations
        try:
            self._adapter, failures = self._build(bound)
            self.core_schema: Any = self._adapter.core_schema
            """The core schema of a function with all parameters that have a schema."""
        except PydanticUserError as error:
            refusal = DefinitionError(
                f"{function_name!r} has a parameter type that is incomplete: define every type that it names, or call "
                "its `model_rebuild()`."
            )
            refusal.reason = error
            raise refusal from None
        self.without_schema = frozenset(failures)
        """The parameters whose type has no JSON form."""

    def _build(self, bound: frozenset[str]) -> tuple[TypeAdapter[Any], Collection[str]]:
        """Return the adapter, and the parameters that are not in it. Raises DefinitionError for a mistake."""
        failures: dict[str, Exception] = {
            p.name: annotation.error
            for p in self._parameters
            if isinstance(annotation := self._annotations[p.name], UnresolvedAnnotation)
        }
        try:
            adapter = self._build_adapter(failures)
        except Exception as error:
            if getattr(error, "code", None) == "class-not-fully-defined":
                raise
            failures |= self._find_failures(failures) or {self._function_name: _without_frames(error)}
            self._refuse_mistakes(failures, bound)
            return self._build_adapter(failures), failures
        self._refuse_mistakes(failures, bound)
        return adapter, failures

    def json_schema(self) -> JsonObject:
        """Return the clean JSON Schema, with those titles that the annotations state."""
        made = vars(self).pop("_generated", None)  # it is needed once, and large
        generated = made or self._adapter.json_schema(schema_generator=QuietSchemaGenerator)
        titles = {
            name: node.get("title") for name, node in generated.get("properties", {}).items() if isinstance(node, dict)
        }
        schema = require_tags(clean_schema(generated))
        for name, node in schema.get("properties", {}).items():
            if isinstance(titles[name], str) and titles[name] != get_title_from_name(name):
                node["title"] = titles[name]
        return schema

    def _build_adapter(self, excluded: Collection[str]) -> TypeAdapter[Any]:
        adapter = _to_adapter([self._to_keyword_only(p) for p in self._parameters if p.name not in excluded])
        _ = adapter.core_schema["type"]  # of an incomplete type, pydantic raises only now
        self._generated = adapter.json_schema(schema_generator=QuietSchemaGenerator)
        return adapter

    def _to_keyword_only(self, parameter: inspect.Parameter) -> inspect.Parameter:
        """Make a parameter keyword-only: `*args` becomes a list, `**kwargs` an object."""
        annotation, default = self._annotations[parameter.name], parameter.default
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            annotation, default = list[annotation], []  # type: ignore[valid-type]  # built at run time
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            annotation, default = dict[str, annotation], {}  # type: ignore[valid-type]  # built at run time
        elif parameter.annotation is EMPTY:
            annotation = EMPTY
        annotation = _with_description(annotation)
        return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    def _find_failures(self, known: Collection[str]) -> dict[str, Exception]:
        """Return the error of each parameter that has no JSON Schema by itself."""
        failures: dict[str, Exception] = {}
        for parameter in self._parameters:
            if parameter.name in known:
                continue
            try:
                _to_adapter([self._to_keyword_only(parameter)]).json_schema(schema_generator=QuietSchemaGenerator)
            except Exception as error:  # noqa: BLE001  # as above
                failures[parameter.name] = _without_frames(error)
        return failures

    def _refuse_mistakes(self, failures: Mapping[str, Exception], bound: frozenset[str]) -> None:
        """Raise DefinitionError for an annotation that is wrong. A type without a JSON form may be bound later."""
        for name, error in failures.items():
            if name in bound or (isinstance(error, _NO_JSON_FORM_ERRORS) and _is_type(self._annotations.get(name))):
                continue
            annotation = format_annotation(self._annotations.get(name, ""))
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


def _without_frames(error: Exception) -> Exception:
    """Return a caught error, without the frames that its tracebacks keep alive with all their variables."""
    chained: BaseException | None = error
    while chained is not None:
        chained.__traceback__ = None
        chained = chained.__cause__ or chained.__context__
    return error


def _mistake(error: Exception) -> str:
    """Return what is wrong, without the error's own text: it may have the whole core schema, or a default."""
    if isinstance(error, PydanticOmit):
        return "it is hidden from models, and has no default"
    if isinstance(error, PydanticSerializationError):
        return "one of its values has no JSON form"
    if isinstance(error, SchemaError):
        return "one of its constraints is not valid"
    if isinstance(error, PydanticUserError):
        return "that is not a type"
    return f"to make its JSON Schema raises {type(error).__name__}"


def _is_type(annotation: Any) -> bool:
    """Return whether an annotation is a type, and not a value or a function such as `any`."""
    is_form = get_origin(annotation) is not None or type(annotation).__module__ in _TYPING_MODULES
    return is_form or isinstance(annotation, type)


def _with_description(annotation: Any) -> Any:
    """Read the one text in `Annotated[type, "text"]` as a description, as FastMCP does, also inside of the type.

    The text of one alternative of a union describes the union.
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, texts = _with_description(annotation.__origin__), _texts(annotation)
        marks = [mark for mark in annotation.__metadata__ if len(texts) != 1 or mark is not texts[0]]
        if len(texts) == 1 and not any(getattr(mark, "description", None) for mark in marks):
            marks = [Field(description=texts[0]), *marks]
        return Annotated[(inner, *marks)] if marks else inner
    if origin in _UNIONS:
        texts = [text for arm in get_args(annotation) for text in _texts(arm)]
        if len(texts) == 1:
            return Annotated[Union[tuple(map(_without_texts, get_args(annotation)))], Field(description=texts[0])]  # noqa: UP007  # made at run time
    elif origin in _CONTAINERS:
        arguments = get_args(annotation)
        described = tuple(map(_with_description, arguments))
        if any(one is not other for one, other in zip(arguments, described, strict=True)):
            return origin[described]
    return annotation


def _texts(annotation: Any) -> list[str]:
    is_annotated = get_origin(annotation) is Annotated
    return [mark for mark in annotation.__metadata__ if isinstance(mark, str)] if is_annotated else []


def _without_texts(annotation: Any) -> Any:
    if not _texts(annotation):
        return annotation
    marks = [mark for mark in annotation.__metadata__ if not isinstance(mark, str)]
    return Annotated[(annotation.__origin__, *marks)] if marks else annotation.__origin__


def _to_adapter(parameters: list[inspect.Parameter]) -> TypeAdapter[Any]:
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
