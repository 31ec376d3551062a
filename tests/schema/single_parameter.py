"""A tool with one parameter, the value that it receives, and types for it that several tests use."""

from __future__ import annotations

import enum
import inspect
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel
from typing_extensions import TypedDict

from ahvn_tools import ToolSpec
from ahvn_tools.errors import InvalidParametersError

ABSENT = inspect.Parameter.empty


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    lives: int | None = 1


class Pair(NamedTuple):
    first: int
    second: int = 5


class Settings(TypedDict, total=False):
    size: int
    colour: str


class SingleParameterTool:
    """A tool with one parameter `it` of a type; it records the values that its body receives."""

    def __init__(self, annotation: Any, default: Any = ABSENT, **options: Any) -> None:
        self.received: list[Any] = []

        def take(it):
            self.received.append(it)

        take.__annotations__ = {"it": annotation}
        take.__defaults__ = None if default is ABSENT else (default,)
        self.spec = ToolSpec.from_function(take, **options)

    def __call__(self, *values: Any) -> Any:
        """Call the tool with a value, or without one, and return what the body received."""
        self.spec.call(**({"it": values[0]} if values else {}))
        return self.received.pop()

    def refusal(self, value: Any) -> str:
        """Call the tool with a value that it must refuse and return the message."""
        result = self.spec.exec(it=value)
        assert self.received == []
        assert result.error is not None
        assert result.error.code == InvalidParametersError.code
        return result.error.message
