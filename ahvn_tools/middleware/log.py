"""Log: one line for each finished call, with its tool, arguments, outcome, duration and result."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Collection
from time import perf_counter
from typing import Any, Final, Protocol

from ahvn_tools.encoders.loaded_classes import is_for_graph
from ahvn_tools.errors import ToolSpecError, suggests_options
from ahvn_tools.execution.call import Call, Middleware, Next
from ahvn_tools.execution.convert import summarize_exception
from ahvn_tools.middleware import reporting
from ahvn_tools.middleware.reporting import MAX_LOGGED_CHARS, to_single_line
from ahvn_tools.redaction.credentials import MASK
from ahvn_tools.redaction.texts import Mask
from ahvn_tools.results import ToolResult

_logger = logging.getLogger(__name__)

Write = Callable[[int, str, dict[str, Any]], None]
"""Writes a line with a level; the dict has the attributes of its record."""


class BoundLogger(Protocol):
    """A logger of structlog, or another with these methods."""

    def bind(self, **fields: Any) -> Any:
        """Return a logger whose records have these fields."""

    def log(self, level: int, event: str) -> Any:
        """Write a record."""


Logger = logging.Logger | BoundLogger | Callable[[str], Any]
"""What takes the lines of `log`."""

Redact = Collection[str | re.Pattern[str]] | Mask
"""What replaces secrets: regular expressions, whose matches become `***`, or a function of a text."""

_TAIL_CHARS: Final = 1_000
"""How many characters after a cut are read and not shown: a match that the cut divides is replaced whole."""


@suggests_options
def log(
    logger: Logger | str | None = None,
    level: int = logging.INFO,
    *,
    max_chars: int = 500,
    results: bool = True,
    traceback: bool = False,
    redact: Redact = (),
) -> Middleware:
    """Return middleware that logs every call when it ends, cancelled calls included.

    `logger` is a logger or its name, `ahvn_tools.calls` by default; or a logger of structlog, which receives the
    attributes of the record as fields; or a function of the line, such as `print`. What it raises is logged, and
    changes no result. Secret arguments, by mark or by name, are `***`; bound values are replaced by `<parameter>`.
    `redact` replaces other secrets: `***` is written for what its regular expressions match; a function returns what is
    written for a text. Arguments and result are cut after `max_chars` characters each; `results=False` omits the
    result. For an interrupted call the result is what it produced so far. With `traceback` the traceback of what the
    tool or a middleware raised follows the line, without variables; that of a ToolCallError only if another exception
    caused it. A log record also has the attributes `tool`, `call_id`, `session_id`, `outcome` (`ok`, the error code,
    or `passed to the graph`), `is_interrupted` and `duration` (seconds).

    Raises ToolSpecError for what cannot take a line, and for a `redact` that is neither patterns nor a function.
    """
    target = logging.getLogger(logger or "ahvn_tools.calls") if logger is None or isinstance(logger, str) else logger
    write_line = _without_errors(_make_write(target))
    mask = _to_mask(redact) if redact else str

    def describe(call: Call, result: ToolResult) -> str:
        text = ""
        if results:
            text = f": {_to_single_line(reporting.redact_result(call, result, mask), max_chars)}"
        if traceback and result.exception is not None:
            text += "\n".join(map(mask, reporting.redact_traceback(call, result.exception).split("\n")))
        return text

    async def log_call(call: Call, next: Next) -> ToolResult:  # noqa: A002  # the word for it
        if isinstance(target, logging.Logger) and not target.isEnabledFor(level):
            return await next(call)
        # before the body can change them
        shown = reporting.redact_arguments(call, mask)
        arguments = _to_single_line(reporting.as_text(shown), max_chars)
        started = perf_counter()

        def write(outcome: str, result: ToolResult | None, *, is_interrupted: bool) -> None:
            duration = perf_counter() - started
            ending = f"{outcome}, interrupted" if is_interrupted else outcome
            text = "" if result is None else describe(call, result)
            extra = {
                "tool": call.name,
                "call_id": call.id,
                "session_id": call.session_id,
                "outcome": outcome,
                "is_interrupted": is_interrupted,
                "duration": duration,
            }
            write_line(level, f"{call.name} {arguments} -> {ending} in {duration:.3f} s{text}", extra)

        try:
            result = await next(call)
        except Exception as error:
            write(reporting.exception_code(error), reporting.exception_result(call, error), is_interrupted=False)
            raise
        except BaseException as error:
            write(reporting.exception_code(error), call.interrupted, is_interrupted=True)
            raise
        if is_for_graph(result.exception):
            write("passed to the graph", None, is_interrupted=False)
        else:
            code = reporting.error_code(result) or "ok"
            asks_client = call.is_served and code == "input_required"  # the text is for a caller that is no client
            write(code, None if asks_client else result, is_interrupted=result.is_interrupted)
        return result

    return log_call


def _make_write(logger: Any) -> Write:
    """Return the function that passes a line to a logger."""
    if isinstance(logger, logging.Logger):
        return lambda level, line, fields: logger.log(level, "%s", line, extra=fields)
    if callable(getattr(logger, "bind", None)) and callable(getattr(logger, "log", None)):
        return lambda level, line, fields: logger.bind(**fields).log(level, line)
    if not callable(logger) or inspect.iscoroutinefunction(logger):
        raise ToolSpecError(
            f"`log` writes to a logger, to the logger of a name or to a function of the line that is not async, "
            f"not to a {type(logger).__name__}."
        )
    return lambda _, line, __: logger(line)


def _without_errors(write: Write) -> Write:
    """Return a function that logs what `write` raises: the call of which it writes has already run."""

    def write_anyway(level: int, line: str, fields: dict[str, Any]) -> None:
        try:
            write(level, line, fields)
        except Exception:
            _logger.exception("The log of the call of %r failed.", fields["tool"])

    return write_anyway


def _to_single_line(text: str, max_chars: int) -> str:
    """Return text, cut, with line breaks and other unprintable characters escaped."""
    cut = text if len(text) <= max_chars else f"{text[:max_chars]}…"
    return to_single_line(cut)


def _to_mask(redact: Redact) -> Mask:
    """Return a function that replaces what `redact` finds. It cuts a text after 4,000 characters.

    Raises ToolSpecError for what is neither regular expressions nor a function.
    """
    replace = _to_replace(redact)

    def mask(text: str) -> str:
        cut = text[: MAX_LOGGED_CHARS + _TAIL_CHARS]
        masked: Any
        try:
            masked = replace(cut)
        except Exception as error:  # noqa: BLE001  # of the host: a log must not fail the call
            _logger.warning("The function `redact` failed: %s", summarize_exception(error))  # its text may be secret
            return MASK
        if not isinstance(masked, str):
            _logger.warning("The function `redact` returned a %s, not a text.", type(masked).__name__)
            return MASK
        return masked if cut == text else f"{masked[:-_TAIL_CHARS]}…"

    return mask


def _to_replace(redact: Redact) -> Mask:
    if callable(redact) and not inspect.iscoroutinefunction(redact):
        return redact
    if callable(redact) or isinstance(redact, str) or not isinstance(redact, Collection):
        raise ToolSpecError(
            "`redact` is a list of regular expressions, or a function of a text that is not async, "
            f"not a {type(redact).__name__}."
        )
    patterns = list(map(_compile, redact))

    def replace_matches(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub(MASK, text)
        return text

    return replace_matches


def _compile(pattern: Any) -> re.Pattern[str]:
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(text, str):
        raise ToolSpecError(f"`redact` is a list of regular expressions for text, not {pattern!r}.")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ToolSpecError(f"{pattern!r} is no regular expression: {error}.") from error
