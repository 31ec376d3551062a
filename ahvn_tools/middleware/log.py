"""Log: one line for each call that has ended: the tool, its arguments, how it ended and how long it took."""

from __future__ import annotations

import logging
from time import perf_counter

from ahvn_tools.execution.call import Call, Middleware, Next, inline
from ahvn_tools.middleware import redaction
from ahvn_tools.results import ToolResult


def log(
    logger: logging.Logger | str | None = None, level: int = logging.INFO, *, max_chars: int = 500, results: bool = True
) -> Middleware:
    """Return the middleware that logs every call when it has ended, a cancelled one, too.

    `logger` is a logger or the name of one, `ahvn_tools.calls` by default. Secret arguments, marked or named so, are
    `***`; values that were bound in the call are replaced by `<parameter>`. What else there is in arguments and result
    is cut after `most` characters each; `results=False` leaves the results out. Of a call that was cut off, what there
    was so far is shown. A record has `tool`, `call_id`,
    `session_id`, `outcome` (`ok`, or the code of the failure), `is_interrupted` and `duration` (seconds), too.
    """
    target = logger if isinstance(logger, logging.Logger) else logging.getLogger(logger or "ahvn_tools.calls")

    def tell(
        call: Call, arguments: str, outcome: str, started: float, made: ToolResult | None, *, is_interrupted: bool
    ) -> None:
        duration = perf_counter() - started
        told = (
            f": {_to_single_line(redaction.redact_result(call, made), max_chars)}"
            if results and made is not None
            else ""
        )
        extra = {
            "tool": call.name,
            "call_id": call.id,
            "session_id": call.session_id,
            "outcome": outcome,
            "is_interrupted": is_interrupted,
            "duration": duration,
        }
        ended = f"{outcome}, interrupted" if is_interrupted else outcome
        target.log(level, "%s %s -> %s in %.3f s%s", call.name, arguments, ended, duration, told, extra=extra)

    @inline
    async def logged(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if not target.isEnabledFor(level):
            return await next(call)
        arguments = _to_single_line(
            redaction.as_text(redaction.redact_arguments(call)), max_chars
        )  # before the body can change them
        started = perf_counter()
        try:
            result = await next(call)
        except BaseException as error:
            is_cut = not isinstance(error, Exception)
            made = redaction.exception_result(call, error) if isinstance(error, Exception) else call.interrupted
            tell(call, arguments, redaction.exception_code(error), started, made, is_interrupted=is_cut)
            raise
        is_cut = result.is_interrupted
        tell(call, arguments, redaction.error_code(result) or "ok", started, result, is_interrupted=is_cut)
        return result

    return logged


def _to_single_line(text: str, max_chars: int) -> str:
    """Return text, cut, as a part of one line: what would break it, or hide a part of it, is spelled out."""
    cut = text if len(text) <= max_chars else f"{text[:max_chars]}…"
    return "".join(part if part.isprintable() else part.encode("unicode_escape").decode() for part in cut)
