"""The measured functions."""

from __future__ import annotations

from collections.abc import Callable


def add(left: int, right: int = 2) -> int:
    """Add two numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


async def add_later(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right


def add_for(left: int, right: int, tenant: str, user: str) -> int:
    """Add two numbers for a user of a tenant."""
    return left + right if tenant and user else 0


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
