"""What can be seen of a middleware before its first call: how it is called, and whether it returns anything."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
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
    if _returns_nothing(function):
        return f"{name!r} returns nothing. End it with `return await next(call)`."
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


def _returns_nothing(function: Any) -> bool:
    """Return whether every `return` of a function, also the one at its end, returns None."""
    if not inspect.isfunction(function):
        return False
    instructions = list(dis.get_instructions(function))
    returned = [
        (instruction.opname == "RETURN_CONST" and instruction.argval is None)
        or (before.opname == "LOAD_CONST" and before.argval is None and not instruction.is_jump_target)
        for before, instruction in itertools.pairwise(instructions)
        if instruction.opname in {"RETURN_VALUE", "RETURN_CONST"}
    ]
    return bool(returned) and all(returned)
