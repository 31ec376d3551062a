"""Trace: an OpenTelemetry span for each call, by the GenAI semantic conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ahvn_tools.errors import suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.middleware import reporting
from ahvn_tools.results import ToolResult

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


@suggests_options
def trace(tracer: Tracer | None = None, *, content: bool = False) -> Middleware:
    """Return middleware that records a span `execute_tool {name}` for each call.

    Inside the call it is the current span, so spans that the tool opens are its children; it never becomes current in
    the reader of a stream. A failed call has an error status and its code as `error.type`; for a cancelled one that is
    `cancelled`. One that waits for an approval, an answer or its result has not failed: `ahvn_tools.outcome` is
    `waiting`. `content` adds arguments and result, redacted and cut. Without `tracer` it uses the global provider's.
    """
    from opentelemetry import context
    from opentelemetry import trace as otel

    spans = otel.get_tracer("ahvn_tools") if tracer is None else tracer

    async def trace_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        span = spans.start_span(f"execute_tool {call.name}", attributes=_span_attributes(call))
        if has_content := content and span.is_recording():
            span.set_attribute("gen_ai.tool.call.arguments", reporting.as_text(reporting.redact_arguments(call)))
        token = context.attach(otel.set_span_in_context(span))
        code: str | None = None
        try:
            result = await next(call)
            code = reporting.error_code(result)
            if has_content:
                span.set_attribute("gen_ai.tool.call.result", reporting.redact_result(call, result))
            return result
        except BaseException as error:
            code = reporting.exception_code(error)  # the exception itself is not recorded: its text may contain secrets
            raise
        finally:
            if reporting.is_waiting(call, code):
                span.set_attribute("ahvn_tools.outcome", "waiting")
            elif code is not None:
                span.set_attribute("error.type", code)
                span.set_status(otel.StatusCode.ERROR)
            context.detach(token)
            span.end()

    return trace_call


def _span_attributes(call: Call) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call.id,
    }
    if description := call.definition.description:
        attributes["gen_ai.tool.description"] = reporting.as_text(description)
    if call.session_id is not None:
        attributes["gen_ai.conversation.id"] = call.session_id
    return attributes
