"""What can be seen of a middleware before its first call: how it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ahvn_tools.execution.call import Middleware


def find_problem(middleware: Callable[..., Any]) -> str | None:
    """Return why a callable cannot be a middleware, and what to do; None if nothing speaks against it."""
    function = _plain_function(middleware)
    name = type(middleware).__name__ if function is type(middleware).__call__ else function.__name__
    if isinstance(middleware, type):
        return f"{name!r} is a class. Pass an instance."
    if _returns_middleware(function):
        return f"{name!r} returns a middleware. Call it: {name}(…)."
    if not _takes_call_and_next(middleware):
        return f"{name!r} cannot be called with (call, next)."
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return f"{name!r} is a generator. Return one ToolResult; chunks of a stream pass through `call.emit`."
    return None


def _plain_function(middleware: Any) -> Any:
    """Return the function that runs: of a partial, of a method, or of an object with `__call__`."""
    while isinstance(middleware, functools.partial):
        middleware = middleware.func
    if not (inspect.isroutine(middleware) or isinstance(middleware, type)):
        return type(middleware).__call__
    return getattr(middleware, "__func__", middleware)


def _returns_middleware(function: Any) -> bool:
    try:
        annotation = function.__annotations__.get("return")
    except Exception:  # noqa: BLE001  # a callable without annotations, or with some that cannot be evaluated
        return False
    return bool(annotation in (Middleware, "Middleware"))


def _takes_call_and_next(middleware: Callable[..., Any]) -> bool:
    try:
        inspect.signature(middleware).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a callable without a signature
        return True
    return True
