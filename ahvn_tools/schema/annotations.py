"""Annotations with their strings, forward references and type variables resolved, when a tool is created."""

from __future__ import annotations

import builtins
import contextlib
import inspect
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from typing_extensions import TypeAliasType, is_typeddict

Namespace = Mapping[str, Any]

_OWN_MODULES = f"{__name__.partition('.')[0]}."
"""How the names of this package's modules begin."""


def annotation_namespace(
    function: Callable[..., Any], namespace: Namespace | None, parent_namespace: Namespace | None = None
) -> Namespace:
    """Return the names that a function's annotations may use.

    They are searched in this order: closure, `parent_namespace` (where the function was written), globals, builtins,
    `namespace` (where the function is used).
    """
    plain = inspect.unwrap(function)
    plain = getattr(plain, "__func__", plain)
    plain = plain if hasattr(plain, "__globals__") else getattr(plain, "__call__", plain)  # noqa: B004  # the method is wanted
    closure = _closure_variables(plain) if getattr(plain, "__closure__", None) else {}
    own: tuple[Any, ...] = (closure, parent_namespace or {}, getattr(plain, "__globals__", {}))
    used: Any = namespace or {}
    return ChainMap(*own, vars(builtins), used)


def resolve_annotation(annotation: Any, namespace: Namespace) -> Any:
    """Return the annotation with every string in it evaluated. Raises what the evaluation raises, mostly NameError."""
    named = namespace.get(annotation) if isinstance(annotation, str) else annotation
    if isinstance(named, type) and not hasattr(named, "__args__"):
        return named
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    return get_type_hints(holder, globalns={}, localns=namespace, include_extras=True)["it"]


def unwrap_annotation(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type behind type aliases and `Annotated`, and the metadata of all `Annotated`."""
    metadata: tuple[Any, ...] = ()
    while isinstance(annotation, TypeAliasType) or get_origin(annotation) is Annotated:
        if isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        else:
            annotation, *more = get_args(annotation)
            metadata = (*more, *metadata)
    return annotation, metadata


def find_unsupported_typed_dict(annotation: Any) -> str | None:
    """Return the name of a `typing.TypedDict` in an annotation, where pydantic has no schema for it."""
    return _find_typed_dict(annotation, set()) if sys.version_info < (3, 12) else None


def _find_typed_dict(annotation: Any, seen: set[Any]) -> str | None:
    if type(annotation) is type and not _has_fields(annotation):
        return None
    annotation, _ = unwrap_annotation(annotation)
    parts: Iterable[Any] = get_args(annotation)
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and kind not in seen:
        seen.add(kind)
        is_typed_dict = is_typeddict(kind)
        if is_typed_dict and type(kind).__module__ == "typing":
            return kind.__qualname__
        if is_typed_dict or _has_fields(kind):
            with contextlib.suppress(NameError):  # a name that is not known yet
                parts = (*parts, *get_type_hints(kind, include_extras=True).values())
    return next((name for part in parts if (name := _find_typed_dict(part, seen)) is not None), None)


def _has_fields(kind: type) -> bool:
    """Return whether a class is a dataclass or a NamedTuple."""
    return hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_field_defaults")


def caller_locals() -> Namespace:
    """Return the locals of the nearest caller, of the function that calls this, outside of this package."""
    frame = sys._getframe(2)  # noqa: SLF001  # `typing` and `collections` do the same
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OWN_MODULES):
        frame = frame.f_back
    return frame.f_locals


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnresolvedAnnotation:
    """An annotation that could not be resolved, and the error."""

    annotation: Any
    error: Exception


def try_resolve(annotation: Any, namespace: Namespace) -> Any:
    """Return the resolved annotation, or an UnresolvedAnnotation."""
    if annotation is inspect.Parameter.empty or type(annotation) is type:
        return annotation
    try:
        return resolve_annotation(annotation, namespace)
    except Exception as error:  # noqa: BLE001  # a string annotation is code and may raise anything
        return UnresolvedAnnotation(annotation, error.with_traceback(None))  # its frames hold the locals of the caller


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


def _closure_variables(function: Any) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
        with contextlib.suppress(ValueError):  # the cell is still empty
            variables[name] = cell.cell_contents
    return variables


def _substitute(annotation: Any, type_arguments: Mapping[Any, Any]) -> Any:
    if isinstance(annotation, TypeVar):
        return type_arguments.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if not variables or isinstance(annotation, type):
        return annotation
    return annotation[tuple(type_arguments.get(variable, variable) for variable in variables)]


def format_annotation(annotation: Any) -> str:
    """Return an annotation as text, without the metadata of `Annotated`."""
    if get_origin(annotation) is Annotated:
        return f"Annotated[{format_annotation(annotation.__origin__)}, …]"
    if isinstance(annotation, UnresolvedAnnotation):
        return str(annotation.annotation)
    return inspect.formatannotation(annotation)
