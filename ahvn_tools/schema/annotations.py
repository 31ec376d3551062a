"""Annotations: strings and forward references resolved once, per parameter, when a tool is made."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

Namespace = Mapping[str, Any]


def annotation_namespace(
    function: Callable[..., Any], namespace: Namespace | None, parent_namespace: Namespace | None = None
) -> Namespace:
    """Return where a function's annotations are looked up: closure, `scope`, globals, builtins, then `namespace`.

    `scope` holds the names of where the function was written, `namespace` those of where it is used.
    """
    plain = inspect.unwrap(function)
    plain = getattr(plain, "__func__", plain)
    plain = plain if hasattr(plain, "__globals__") else getattr(plain, "__call__", plain)  # noqa: B004  # the method is wanted
    own = (_closure_variables(plain), dict(parent_namespace or {}), dict(getattr(plain, "__globals__", {})))
    return ChainMap(*own, vars(builtins), dict(namespace or {}))


def resolve_annotation(annotation: Any, namespace: Namespace) -> Any:
    """Return the annotation with every string in it evaluated. Raises what evaluating raises, NameError above all."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation
    holder = _AnnotatedObject()
    holder.__annotations__ = {"it": annotation}
    return get_type_hints(holder, globalns={}, localns=namespace, include_extras=True)["it"]


def caller_locals() -> Namespace:
    """Return the locals of whoever called the function that calls this."""
    return sys._getframe(2).f_locals  # noqa: SLF001  # the way to the caller that `typing` and `collections` take too


@dataclass(frozen=True, slots=True)
class UnresolvedAnnotation:
    """An annotation that could not be resolved, and why."""

    annotation: Any
    error: Exception


def try_resolve(annotation: Any, namespace: Namespace) -> Any:
    """Return the resolved annotation, or an Unresolved."""
    try:
        return annotation if annotation is inspect.Parameter.empty else resolve_annotation(annotation, namespace)
    except Exception as error:  # noqa: BLE001  # a string annotation is code and may raise anything
        return UnresolvedAnnotation(annotation, error.with_traceback(None))  # its frames hold what the definer holds


class _AnnotatedObject:
    """Something that has annotations, for `get_type_hints`."""


def _closure_variables(function: Any) -> dict[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=False) if _has_contents(cell)}


def _has_contents(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # reading an empty cell raises
    except ValueError:
        return False
    return True
