"""Observe: a function of the host is called after each call, such as one of a metrics system."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

from ahvn_tools.errors import ToolSpecError, suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.middleware import reporting
from ahvn_tools.results import ToolResult

_logger = logging.getLogger(__name__)


class Observer(Protocol):
    """Receives, after a call, its tool, whether it did not fail, its duration in seconds, and the code of its error."""

    def __call__(self, tool: str, success: bool, duration: float, error_code: str | None, /) -> Any:
        """Take a call that has ended. The code is None after success, and `cancelled` if the caller has left.

        A call that waits for an approval, an answer or its result has not failed: the code says what it waits for.
        """


@suggests_options
def observe(observer: Observer) -> Middleware:
    """Return middleware that calls `observer(tool, success, duration, error_code)` after each call.

    That includes cancelled calls. The duration of a stream includes the time of its reader. `success` is true, too, for
    a call that waits for an approval, an answer or its result: the code says so. The observer must not
    block. What it raises is logged, and changes no result. Raises ToolSpecError for what is no function, or is async.
    """
    _validate(observer)

    async def observe_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        return await run_observed(call, next, functools.partial(_notify, observer, call))

    return observe_call


async def run_observed(call: Call, next: Next, end: Callable[[float, str | None], None]) -> ToolResult:  # noqa: A002  # as above
    """Run a call, and then `end(duration, error_code)`, however the call ended."""
    code: str | None = None
    started = perf_counter()
    try:
        result = await next(call)
        code = reporting.error_code(result)
        return result
    except BaseException as error:
        code = reporting.exception_code(error)
        raise
    finally:
        end(perf_counter() - started, code)


def _validate(observer: Any) -> None:
    if not callable(observer) or inspect.iscoroutinefunction(observer):
        raise ToolSpecError(
            f"`observe` takes a function of four arguments that is not async, not a {type(observer).__name__}."
        )


def _notify(observer: Observer, call: Call, duration: float, code: str | None) -> None:
    try:
        observer(call.name, code is None or reporting.is_waiting(call, code), duration, code)
    except Exception:
        _logger.exception("The observer of the call of %r failed.", call.name)
