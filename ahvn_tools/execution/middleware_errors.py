"""What the log says of a middleware that fails: its name, file and line, and the kind of its error."""

from __future__ import annotations

import os
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final

_PACKAGE: Final = f"{Path(__file__).parents[1]}{os.sep}"


class MiddlewareResultError(TypeError):
    """A middleware has not returned a ToolResult. The message has no values."""

    def __init__(self, middleware: Any, tool: str, what: str) -> None:
        place = _place(code.co_filename, code.co_firstlineno) if (code := _code(middleware)) is not None else ""
        super().__init__(
            f"The middleware {_name(middleware)}{place} of tool {tool!r} {what}: "
            "write it as `async def`, and end it with `return await next(call)`."
        )


def describe_failure(error: BaseException, tool: str, layer: CodeType) -> str:
    """Return a sentence on an exception that a middleware raised, without its text. `layer` is the code that called it.

    The place is that of the middleware itself or, for one of this package, of the host's function that it called.
    """
    if isinstance(error, MiddlewareResultError):
        return str(error)
    kind, frame = type(error).__name__, _failing_frame(error.__traceback__, layer)
    if frame is None:
        return f"A middleware of tool {tool!r} raised {kind}."
    code = frame.tb_frame.f_code
    place = _place(code.co_filename, frame.tb_lineno)
    return f"The middleware {code.co_qualname}{place} of tool {tool!r} raised {kind}."


def _failing_frame(trace: TracebackType | None, layer: CodeType) -> TracebackType | None:
    """Return the frame of the innermost middleware, outside of this package if possible."""
    inner: list[TracebackType] = []
    while trace is not None:
        if trace.tb_frame.f_code is layer:
            inner.clear()
        else:
            inner.append(trace)
        trace = trace.tb_next
    outside = [frame for frame in inner if not frame.tb_frame.f_code.co_filename.startswith(_PACKAGE)]
    return next(iter(outside or inner), None)


def _place(file: str, line: int) -> str:
    return f" ({Path(file).name}, line {line})"


def _name(middleware: Any) -> str:
    return str(getattr(middleware, "__qualname__", type(middleware).__qualname__))


def _code(middleware: Any) -> CodeType | None:
    function = middleware if hasattr(middleware, "__code__") else type(middleware).__call__
    return getattr(function, "__code__", None)
