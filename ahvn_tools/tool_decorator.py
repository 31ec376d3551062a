"""The decorator `@tool`, and what type checkers know about the spec that it makes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from enum import Enum
from typing import Any, Protocol, TypeVar, Unpack, overload

from typing_extensions import ParamSpec

from ahvn_tools.schema.annotations import caller_locals
from ahvn_tools.settings import ToolOptions, UnboundToolOptions
from ahvn_tools.sources import function as function_source
from ahvn_tools.spec import ToolSpec, validate_spec_class

P = ParamSpec("P")
Spec = TypeVar("Spec", bound=ToolSpec)
J = TypeVar(
    "J",
    bound=str | int | float | list[str] | list[int] | list[float] | list[bool]
    | list[list[str]] | list[list[int]] | list[list[float]] | list[dict[str, str]] | list[dict[str, int]]
    | dict[str, str] | dict[str, int] | dict[str, float] | dict[str, bool] | dict[str, list[str]] | None,
)  # fmt: skip
"""A type that is its own JSON form, so that a call returns what the function returns.

A list or dict of Any fits, too. A list of models does not: a call returns dicts for them.
"""


class ToolDecorator(Protocol):
    """Makes a ToolSpec that has the function's parameters, and its type of value if that is its own JSON form."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, Enum] | Enum], /) -> ToolSpec[P, Any]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, J]], /) -> ToolSpec[P, J]: ...
    @overload
    def __call__(self, function: Callable[P, J], /) -> ToolSpec[P, J]: ...
    @overload
    def __call__(self, function: Callable[P, AsyncIterator[J] | Iterator[J]], /) -> ToolSpec[P, list[J]]: ...
    @overload
    def __call__(self, function: Callable[P, object], /) -> ToolSpec[P, Any]: ...


class BindingToolDecorator(Protocol):
    """Makes a ToolSpec with bound parameters; which others a call has is unknown."""

    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, Enum] | Enum], /) -> ToolSpec: ...
    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, J]], /) -> ToolSpec[..., J]: ...
    @overload
    def __call__(self, function: Callable[..., J], /) -> ToolSpec[..., J]: ...
    @overload
    def __call__(self, function: Callable[..., AsyncIterator[J] | Iterator[J]], /) -> ToolSpec[..., list[J]]: ...
    @overload
    def __call__(self, function: Callable[..., object], /) -> ToolSpec: ...


@overload
def tool(function: Callable[P, Coroutine[Any, Any, Enum] | Enum], /) -> ToolSpec[P, Any]: ...
@overload
def tool(function: Callable[P, Coroutine[Any, Any, J]], /) -> ToolSpec[P, J]: ...
@overload
def tool(function: Callable[P, J], /) -> ToolSpec[P, J]: ...
@overload
def tool(function: Callable[P, AsyncIterator[J] | Iterator[J]], /) -> ToolSpec[P, list[J]]: ...
@overload
def tool(function: Callable[P, object], /) -> ToolSpec[P, Any]: ...
@overload
def tool(*, spec_class: type[Spec], **options: Unpack[ToolOptions]) -> Callable[[Callable[..., object]], Spec]: ...
@overload
def tool(*, binds: Mapping[str, str], **options: Unpack[UnboundToolOptions]) -> BindingToolDecorator: ...
@overload
def tool(**options: Unpack[UnboundToolOptions]) -> ToolDecorator: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    spec_class: type[ToolSpec] = ToolSpec,
    **options: Unpack[ToolOptions],
) -> Any:
    """Make a ToolSpec from the decorated function, which remains available as `spec.function`.

    `spec_class` is a subclass of ToolSpec to make instead.

    >>> @tool(tags={"math"})
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add(1, 2), add.function(1, 2)
    (3, 3)
    """
    namespace = caller_locals()
    validate_spec_class(spec_class)

    def decorate(function: Callable[..., Any]) -> ToolSpec:
        return spec_class(*function_source.build_template(function, options, namespace=namespace))

    return decorate if function is None else decorate(function)
