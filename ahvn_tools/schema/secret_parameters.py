"""Functions without the defaults of their secret parameters, for pickles."""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any, NoReturn

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ahvn_tools.errors import MISSING_VALUE, UnboundStateError
from ahvn_tools.redaction.names import is_secret_annotation
from ahvn_tools.redaction.values import reveal_secrets
from ahvn_tools.schema.annotations import UnresolvedAnnotation, annotation_namespace, try_resolve


class RemovedDefault:
    """Takes the place of a secret default that a pickle left out."""

    def __init__(self, parameter: str) -> None:
        self._parameter = parameter

    def __call__(self) -> NoReturn:
        """Raise UnboundStateError: there is no default any more."""
        name = self._parameter
        raise UnboundStateError(
            MISSING_VALUE,
            parameter=name,
            key=name,
            explanation=f"Parameter {name!r} has no default here: it is secret and was left out of the pickle. "
            "Bind the parameter, or pass it.",
        )


_DATA_TYPES = (str, bytes, bytearray, int, float, dict, list, tuple, set, frozenset, BaseModel)


def without_secret_defaults(function: FunctionType) -> FunctionType:
    """Return a function whose secret parameters have no default, the same one if it has none.

    An empty default such as None stays, and so does an object that is no data, such as a dependency.
    """
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    removed = {p.name: _removed(p) for p in parameters if _is_secret_default(p.default) and _is_secret(function, p)}
    if not removed:
        return function
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    defaults = tuple(removed.get(p.name, p.default) for p in positional if p.default is not p.empty)
    public = FunctionType(function.__code__, function.__globals__, function.__name__, defaults, function.__closure__)
    public.__kwdefaults__ = {name: removed.get(name, value) for name, value in (function.__kwdefaults__ or {}).items()}
    functools.update_wrapper(public, function)
    public.__dict__ = dict(function.__dict__)  # without `__wrapped__`, which is the function with its defaults
    return public


def _removed(parameter: inspect.Parameter) -> Any:
    """Return a field without the default, but with what else the parameter's own field says."""
    factory = RemovedDefault(parameter.name)
    if not isinstance(parameter.default, FieldInfo):
        return Field(default_factory=factory)
    attributes = {**parameter.default.asdict()["attributes"], "default_factory": factory}
    field = Field(**{name: value for name, value in attributes.items() if name != "default"})
    field.metadata = parameter.default.metadata
    return field


def _is_secret_default(default: Any) -> bool:
    if isinstance(default, FieldInfo):
        return default.default is not PydanticUndefined and _is_secret_default(default.default)
    return (
        default is not inspect.Parameter.empty
        and isinstance(revealed := reveal_secrets(default), _DATA_TYPES)
        and bool(revealed)
    )


def _is_secret(function: FunctionType, parameter: inspect.Parameter) -> bool:
    annotation = try_resolve(parameter.annotation, annotation_namespace(function, None))
    if isinstance(annotation, UnresolvedAnnotation):  # of a name that is known only where the tool was made
        return "Secret" in str(annotation.annotation)
    return is_secret_annotation(annotation)
