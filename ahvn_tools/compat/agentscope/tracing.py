"""Tracing: OpenTelemetry spans for the calls of a toolkit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from opentelemetry import trace as otel

from ahvn_tools.middleware import trace

__all__ = ["trace_toolkit"]

Method = TypeVar("Method", bound=Callable[..., Any])


def trace_toolkit(func: Method) -> Method:
    """Record a span `execute_tool {name}` for each tool that this method of a toolkit calls.

    It has the arguments and the result, without presets and secrets, and the status ERROR if the tool failed. The
    global tracer provider of OpenTelemetry receives it; without one nothing is recorded.
    """

    @functools.wraps(func)
    def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._is_traced and not isinstance(otel.get_tracer_provider(), otel.ProxyTracerProvider):
            self._is_traced = True
            self._kit.use(trace(content=True))
        return func(self, *args, **kwargs)

    return cast("Method", traced)
