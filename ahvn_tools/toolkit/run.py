"""Run: the results of all calls of one answer, and the messages that answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self, overload

from ahvn_tools import formats
from ahvn_tools.formats.continuation import NO_CONTINUATION, Container, Continuation
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.approve import ApprovalRequest, pending_requests
from ahvn_tools.results import ToolCall, ToolResult
from ahvn_tools.toolkit import saved_run


@dataclass(frozen=True, kw_only=True, repr=False)
class Run(Sequence[JsonObject]):
    """The provider's messages that answer every call, in order; as a sequence, a Run is these messages.

    >>> from ahvn_tools import Toolkit
    >>> kit = Toolkit("math")
    >>> @kit.tool
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> answer = {"tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}]}
    >>> list(kit.run(answer, format="openai"))
    [{'role': 'tool', 'tool_call_id': 'c1', 'content': '3'}]

    A Run has no truth value, because it has no messages while calls wait for an approval: use `is_done`, `pending` and
    `results`.
    """

    messages: list[JsonObject] = field(default_factory=list)
    results: list[tuple[ToolCall, ToolResult]] = field(default_factory=list)
    """Each call with its result, in the order of the answer. Empty if the model has made no call."""
    pending: list[ApprovalRequest] = field(default_factory=list)
    """The calls that wait for an approval, for `Toolkit.resume`; several of one program have the same program. While
    there are any, there are no messages: providers accept one answer per call, and all answers at once."""
    format: str | None = None
    """The format of the messages."""
    continuation: Continuation = NO_CONTINUATION
    """What the answer says about the next request; its `answer_by` is when a waiting program gives up."""

    @classmethod
    def create(
        cls,
        results: list[tuple[ToolCall, ToolResult]],
        format: str | None,  # noqa: A002  # the field's name
        continuation: Continuation = NO_CONTINUATION,
    ) -> Self:
        """Return the run of these calls; it has messages in the format unless some calls wait."""
        pending = [request for _, result in results for request in pending_requests(result.meta)]
        messages = [] if format is None or pending else formats.get(format).results(results)
        return cls(messages=messages, results=results, pending=pending, format=format, continuation=continuation)

    @property
    def is_done(self) -> bool:
        """Whether every call has its result: none waits for an approval."""
        return not self.pending

    @property
    def container(self) -> Container | None:
        """The provider's sandbox that the answer names: pass its `id` with the next request. None if it names none."""
        return self.continuation.container

    @property
    def is_paused(self) -> bool:
        """Whether the turn goes on with the next request: append the answer, and ask again, also without any call."""
        return self.continuation.is_paused

    @property
    def problem(self) -> str | None:
        """Why an answer without calls is not final, as a text for the model; None if nothing is wrong with it.

        The provider has discarded a malformed call or response. Do not append the answer: send the text as the user's
        message, and ask again.
        """
        return None if self.results else self.continuation.problem

    @property
    def ends_session(self) -> bool:
        """Whether a tool has asked to end the session."""
        return any(result.meta.get("ends_session") is True for _, result in self.results)

    @overload
    def __getitem__(self, index: int) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice) -> list[JsonObject]: ...
    def __getitem__(self, index: int | slice) -> JsonObject | list[JsonObject]:
        """Return one message, or several."""
        return self.messages[index]

    def __len__(self) -> int:
        return len(self.messages)

    def __bool__(self) -> NoReturn:
        """Raise TypeError: neither a run without calls nor one that waits is simply true or false."""
        raise TypeError(
            "A Run has no truth value. `run.results` is empty if the model has made no call; `run.is_done` is False "
            "while calls wait for an approval, which are in `run.pending`."
        )

    def __repr__(self) -> str:
        count = len(self.results)
        waiting = f", {len(self.pending)} waiting for approval" if self.pending else ""
        return f"<Run of {count} call{'' if count == 1 else 's'}{waiting}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: each call, its result and its duration in milliseconds."""
        from ahvn_tools.toolkit.html_tables import run_table  # only a notebook needs it

        return run_table(repr(self), self.results)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy what `to_json` contains, which are no secret arguments."""
        return Run.from_json, (self.to_json(),)

    def to_json(self) -> JsonObject:
        """Return the run as JSON data, to store it and go on after a restart: `from_json`, then `Toolkit.resume`.

        It contains the results of the calls that are finished, and the requests of those that wait. It contains no
        secret arguments, and of finished calls no arguments at all.
        """
        return saved_run.to_json(self.results, self.format, self.continuation)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the run that `to_json` exported. Raises ToolSpecError for any other data.

        >>> Run.from_json(Run(format="openai").to_json())
        <Run of 0 calls>
        """
        return cls.create(*saved_run.from_json(data))
