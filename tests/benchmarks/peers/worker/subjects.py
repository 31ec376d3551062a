"""The functions that all packages make tools of. Annotations are objects, since not every package resolves texts."""

import inspect
import time
from collections.abc import Callable
from typing import Any

ARGUMENTS = {"left": 1, "right": 2}
SLEEP = 0.01
"""Seconds that `rest` sleeps."""


def add(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


async def add_later(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


def rest(left: int, right: int = 2) -> int:
    """Add two numbers after a while.

    Args:
        left: The first number.
        right: The second number.
    """
    time.sleep(SLEEP)
    return left + right


def fresh_function() -> Callable[..., int]:
    """Make a function that no cache has seen."""

    def add(left: int, right: int = 2) -> int:
        """Add two numbers.

        Args:
            left: The first number.
            right: The second number.
        """
        return left + right

    return add


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether a function is `async def`."""
    return inspect.iscoroutinefunction(function)
