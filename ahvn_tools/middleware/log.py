"""Log: one line for each finished call, with its tool, arguments, outcome, duration and result."""

from __future__ import annotations

import logging
from time import perf_counter

from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.middleware import reporting
from ahvn_tools.results import ToolResult


def log(
    logger: logging.Logger | str | None = None, level: int = logging.INFO, *, max_chars: int = 500, results: bool = True
) -> Middleware:
    """Return middleware that logs every call when it ends, cancelled calls included.

    `logger` is a logger or its name, `ahvn_tools.calls` by default. Secret arguments, by mark or by name, are `***`;
    bound values are replaced by `<parameter>`. Arguments and result are cut after `max_chars` characters each;
    `results=False` omits the result. For an interrupted call the result is what it produced so far. A log record also
    has the attributes `tool`, `call_id`, `session_id`, `outcome` (`ok`, or the error code), `is_interrupted` and
    `duration` (seconds).
    """
    target = logger if isinstance(logger, logging.Logger) else logging.getLogger(logger or "ahvn_tools.calls")

    @inline
    async def log_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if not target.isEnabledFor(level):
            return await next(call)
        # before the body can change them
        arguments = _to_single_line(reporting.as_text(reporting.redact_arguments(call)), max_chars)
        started = perf_counter()

        def write(outcome: str, result: ToolResult | None, *, is_interrupted: bool) -> None:
            duration = perf_counter() - started
            ending = f"{outcome}, interrupted" if is_interrupted else outcome
            text = ""
            if results and result is not None:
                text = f": {_to_single_line(reporting.redact_result(call, result), max_chars)}"
            extra = {
                "tool": call.name,
                "call_id": call.id,
                "session_id": call.session_id,
                "outcome": outcome,
                "is_interrupted": is_interrupted,
                "duration": duration,
            }
            target.log(level, "%s %s -> %s in %.3f s%s", call.name, arguments, ending, duration, text, extra=extra)

        try:
            result = await next(call)
        except Exception as error:
            write(reporting.exception_code(error), reporting.exception_result(call, error), is_interrupted=False)
            raise
        except BaseException as error:
            write(reporting.exception_code(error), call.interrupted, is_interrupted=True)
            raise
        write(reporting.error_code(result) or "ok", result, is_interrupted=result.is_interrupted)
        return result

    return log_call


def _to_single_line(text: str, max_chars: int) -> str:
    """Return text, cut, with line breaks and other unprintable characters escaped."""
    cut = text if len(text) <= max_chars else f"{text[:max_chars]}…"
    return "".join(part if part.isprintable() else part.encode("unicode_escape").decode() for part in cut)
