"""Tools that the tests of `to_dict` and `from_dict` import by path."""

from __future__ import annotations

import os
import subprocess
from typing import Annotated, Any

from ahvn_tools import Secret, ToolContext, ToolRegistry, ToolSpec, reg_toolspec, tool

CALLS: list[str] = []
"""What ran here."""


def greet(name: str, tone: str = "plain") -> str:
    """Greet a person.

    Args:
        name: The person to greet.
        tone: How to greet.
    """
    return f"{tone}: hello, {name}"


async def greet_later(name: str) -> str:
    """Greet a person later."""
    return f"hello, {name}"


def count(limit: int):
    """Count."""
    yield from range(limit)


def search(query: str, token: Annotated[str, Secret] = "none") -> str:
    """Search."""
    return f"{query} {token}"


@tool(tags={"math", "fast"}, timeout=5)
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool
def with_context(number: int, context: ToolContext) -> bool:
    """Return whether there is a context."""
    return context.call_id is not None


def greet_all(name: str, tone: str = "plain", *others: str, **more: str) -> str:
    """Greet people."""
    return f"{tone}: hello, {name}, {others}, {more}"


def take_context_and_more(name: str, context: ToolContext, **more: str) -> str:
    """Greet a person of a context."""
    return f"{name} {more} {context.call_id}"


def render(value: Any) -> str:
    """Return a text for the model."""
    return f"rendered {value}"


def current_tone() -> str:
    """Return a tone."""
    CALLS.append("current_tone")
    return "resolved"


def tone_of(state: Any) -> str:
    """Return the tone of a state."""
    return state["style"]


def take_anything(**arguments: Any) -> Any:
    """Return the arguments."""
    return arguments


def name_a_later_type(value: Later) -> Any:  # noqa: F821  # the test defines it
    """Return a value."""
    return value


class Caller:
    """A callable object."""

    def __call__(self, number: int) -> int:
        """Return a number."""
        return number


class Lazy:
    """An object that does something when an attribute of it is read."""

    def __getattr__(self, name: str) -> Any:
        CALLS.append(name)
        return lambda: name


caller = Caller()
lazy = Lazy()
foreign = ToolSpec.from_function(os.getcwd)
"""A spec of a function that another module defines."""

_ = subprocess


class Shop(ToolRegistry):
    """A registry with a tool of each kind of method."""

    def __init__(self, prices: dict[str, int]) -> None:
        self.prices = prices

    @reg_toolspec
    def price(self, item: str) -> int:
        """Return the price of an item."""
        return self.prices[item]

    @reg_toolspec
    @classmethod
    def kind(cls) -> str:
        """Return the class."""
        return cls.__name__

    @reg_toolspec
    @staticmethod
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b


class Labelled(ToolSpec):
    """A subclass of ToolSpec."""
