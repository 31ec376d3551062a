"""Answer: reads the calls of a model's answer, and finds out which format it is in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ahvn_tools import formats
from ahvn_tools.errors import ToolkitError
from ahvn_tools.formats import detection
from ahvn_tools.formats.continuation import NO_CONTINUATION, Continuation
from ahvn_tools.formats.parsing.tool_calls import INVALID_RESPONSE
from ahvn_tools.results import DIRECT, ToolCall
from ahvn_tools.toolkit.visibility import StoreView

_NO_ANSWER = (
    "None is no answer. Pass the response or its message: a message without calls has no `tool_calls`, "
    "and needs none to be run."
)
_ADVICE = "Pass the response, its message or the list of its calls as the provider's SDK returns them."


class SdkObject(Protocol):
    """An object of a provider's SDK, which is a pydantic model."""

    def model_dump(self) -> dict[str, Any]:
        """Return the object as JSON data."""
        ...


class TextMessage(Protocol):
    """A message that is no pydantic model, for `format="prompt"`."""

    @property
    def content(self) -> Any:
        """The text."""


ModelAnswer = SdkObject | TextMessage | ToolCall | Mapping[str, Any] | Iterable[Any] | bytes
"""What `run` reads: an object of an SDK, JSON data or its text, a stream of events, or calls."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A model's answer, as far as its calls are concerned."""

    calls: Sequence[ToolCall] = ()
    format: str | None = None
    """The format of the messages that answer the calls; None: there are none."""
    continuation: Continuation = NO_CONTINUATION


def parse_answer(view: StoreView, answer: Any, format: str | None) -> Answer:  # noqa: A002  # the word for it
    """Return the calls of an answer, and the format of their messages; none for calls that are ToolCalls.

    Raises ToolkitError for an answer that is not in the format or, without one, in no or more than one known format.
    """
    if format is not None:
        formats.get(format)  # an unknown format raises before anything has run
    if isinstance(answer, ToolCall):
        return _to_answer([answer], format)
    if isinstance(answer, list | tuple) and all(isinstance(call, ToolCall) for call in answer):
        return _to_answer(answer, format)
    if answer is None:
        raise ToolkitError(_NO_ANSWER)
    answer = detection.read_events(answer)
    if format is None:
        format = _detect_format(answer)  # noqa: A001  # as above
        if format is None:
            return Answer()
    # a call of any tool, visible or not, gets the tool's own name
    try:
        calls = formats.get(format).calls(answer, view.known_definitions())
    except TypeError:  # no answer at all, or an SDK's object of another format
        if format in (detection.matching_formats(answer) or [format]):
            raise
        raise ToolkitError(_mismatch(format, answer)) from None
    is_unreadable = [call.error for call in calls] == [INVALID_RESPONSE]
    if is_unreadable or (not calls and not detection.fits_without_calls(format, answer)):
        raise ToolkitError(_mismatch(format, answer))
    read = getattr(formats.get(format), "continuation", None)
    return _to_answer(calls, format, NO_CONTINUATION if read is None else read(answer))


def _to_answer(
    calls: Sequence[ToolCall],
    format: str | None,  # noqa: A002  # as above
    continuation: Continuation = NO_CONTINUATION,
) -> Answer:
    """Return an answer with the time until which a program waits for the results, if one has made a call."""
    caller = next((call for call in calls if call.caller != DIRECT), None)
    if caller is not None:
        continuation = replace(continuation, answer_by=continuation.answer_by_for(caller.format, time.time()))
    return Answer(calls=calls, format=format, continuation=continuation)


def _detect_format(answer: Any) -> str | None:
    """Return the one format that an answer looks like; None for an answer without calls that fits several formats."""
    names = detection.matching_formats(answer)
    if not names:
        raise ToolkitError(f'The answer is in no known format. {_ADVICE} For calls in plain text pass format="prompt".')
    if len(names) == 1:
        return names[0]
    if any(formats.get(name).calls(answer) for name in names):
        fitting = ", ".join(map(repr, names))
        raise ToolkitError(f"The answer fits the formats {fitting}. Say which it is: run(answer, format={names[0]!r}).")
    return None


def _mismatch(format: str, answer: Any) -> str:  # noqa: A002  # as above
    names = [name for name in detection.matching_formats(answer) if name != format]
    if not names:
        return f"The answer is not in the format {format!r}. {_ADVICE}"
    return (
        f"The answer is not in the format {format!r}: it looks like {' or '.join(map(repr, names))}. "
        f"Pass format={names[0]!r}."
    )
