"""Trace: an OpenTelemetry span around each call, by the GenAI semantic conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.middleware import redaction
from ahvn_tools.results import ToolResult

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


def trace(tracer: Tracer | None = None, *, content: bool = False) -> Middleware:
    """Return the middleware that puts a span `execute_tool {name}` around each call.

    The span is the current one inside the call, so spans that the tool opens are its children; the reader of a stream
    never sees it. A failed call has the status of an error and its code as `error.type`; a cancelled one is
    `cancelled`. `content` adds arguments and result, masked and cut. Without a tracer, the global provider's is used.
    """
    from opentelemetry import context
    from opentelemetry import trace as otel

    spans = otel.get_tracer("ahvn_tools") if tracer is None else tracer

    @inline
    async def traced(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        span = spans.start_span(f"execute_tool {call.name}", attributes=_span_attributes(call))
        if is_shown := content and span.is_recording():
            span.set_attribute("gen_ai.tool.call.arguments", redaction.as_text(redaction.redact_arguments(call)))
        token = context.attach(otel.set_span_in_context(span))
        failure: str | None = None
        try:
            result = await next(call)
            failure = redaction.error_code(result)
            if is_shown:
                span.set_attribute("gen_ai.tool.call.result", redaction.redact_result(call, result))
            return result
        except BaseException as error:
            failure = redaction.exception_code(
                error
            )  # the exception itself is not recorded: its text may show anything
            raise
        finally:
            if failure is not None:
                span.set_attribute("error.type", failure)
                span.set_status(otel.StatusCode.ERROR)
            if otel.get_current_span() is span:  # else a loop has died, and this runs outside of the call's context
                context.detach(token)
            span.end()

    return traced


def _span_attributes(call: Call) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call.id,
    }
    if description := call.definition.description:
        attributes["gen_ai.tool.description"] = redaction.as_text(description)
    if call.session_id is not None:
        attributes["gen_ai.conversation.id"] = call.session_id
    return attributes
