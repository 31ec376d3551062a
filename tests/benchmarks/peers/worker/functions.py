"""What is asked about a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether a function is `async def`."""
    return inspect.iscoroutinefunction(function)
