"""Run: the results of all calls of one answer of a model, and the messages that answer them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

from ahvn_tools import formats
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.approve import ApprovalRequest
from ahvn_tools.results import ToolCall, ToolResult


@dataclass(frozen=True, kw_only=True)
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
    """

    messages: list[JsonObject] = field(default_factory=list)
    results: list[tuple[ToolCall, ToolResult]] = field(default_factory=list)
    """Each call with its result, in the order of the answer."""
    pending: list[ApprovalRequest] = field(default_factory=list)
    """The calls that wait for an approval, for `Toolkit.resume`. While there are any, there are no messages: providers
    accept one answer per call, and all answers at once."""
    format: str | None = field(default=None, repr=False)
    """The format of the messages."""

    @classmethod
    def from_results(cls, pairs: Sequence[tuple[ToolCall, ToolResult]], format_name: str | None) -> Run:
        """Return the run of these calls, with its messages unless some calls wait."""
        requests = [result.meta["approval"] for _, result in pairs if "approval" in result.meta]
        pending = [ApprovalRequest.from_json(request) for request in requests]
        messages = [] if format_name is None or pending else formats.get(format_name).results(pairs)
        return cls(messages=messages, results=list(pairs), pending=pending, format=format_name)

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
