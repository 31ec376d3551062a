"""Types of annotations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeAlias

from ahvn_tools.compat.agentscope.tool import ToolResponse

__all__ = ["JSONPrimitive", "JSONSerializableObject", "ToolFunction"]

JSONPrimitive: TypeAlias = str | int | float | bool | None
JSONSerializableObject: TypeAlias = JSONPrimitive | list["JSONSerializableObject"] | dict[str, "JSONSerializableObject"]

ToolFunction: TypeAlias = Callable[
    ...,
    ToolResponse
    | Awaitable[ToolResponse]
    | Generator[ToolResponse, None, None]
    | AsyncGenerator[ToolResponse, None]
    | Coroutine[Any, Any, AsyncGenerator[ToolResponse, None]]
    | Coroutine[Any, Any, Generator[ToolResponse, None, None]],
]
"""A function that may be registered: it returns or yields responses, or returns a generator of them."""
