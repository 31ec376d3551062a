"""Type variables: the annotations of a method that a subclass of a generic class inherits, with its type arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args, get_origin

from ahvn_tools.schema.annotations import Namespace, try_resolve


def substitute_annotations(
    function: Callable[..., Any], type_arguments: Mapping[Any, Any], known: Mapping[str, Any], namespace: Namespace
) -> dict[str, Any]:
    """Return the annotations that contain type variables, with these replaced; `known` ones are resolved already."""
    if not type_arguments:
        return {}
    written = function.__annotations__
    resolved = {name: try_resolve(annotation, namespace) for name, annotation in written.items()} | dict(known)
    return {
        name: _substitute(annotation, type_arguments)
        for name, annotation in resolved.items()
        if isinstance(annotation, TypeVar) or hasattr(annotation, "__parameters__")
    }


def type_arguments(cls: type, base: type) -> dict[Any, Any]:
    """Return the type argument in `cls` for each type variable of `base`, which is `cls` or one of its bases."""
    if cls is base:
        return {}
    generic_bases = (*vars(cls).get("__orig_bases__", ()), *cls.__bases__)
    pairs = ((get_origin(generic) or generic, get_args(generic)) for generic in generic_bases)
    parent, arguments = next(
        (parent, arguments) for parent, arguments in pairs if isinstance(parent, type) and issubclass(parent, base)
    )
    own = dict(zip(getattr(parent, "__parameters__", ()), arguments, strict=False))
    inherited = type_arguments(parent, base)
    return {**own, **{variable: _substitute(annotation, own) for variable, annotation in inherited.items()}}


def _substitute(annotation: Any, type_arguments: Mapping[Any, Any]) -> Any:
    if isinstance(annotation, TypeVar):
        return type_arguments.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if not variables or isinstance(annotation, type):
        return annotation
    return annotation[tuple(type_arguments.get(variable, variable) for variable in variables)]
