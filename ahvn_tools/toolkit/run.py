"""Run: the results of all calls of one answer, and the messages that answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Self, TypedDict, overload

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ahvn_tools import formats
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.outcome import is_cancellation
from ahvn_tools.formats.continuation import NO_CONTINUATION, Container, Continuation
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.pending import (
    FIRST_KEYS,
    FURTHER_KEY,
    PendingRequest,
    pending_requests,
    pending_result,
    read_request,
    without_requests,
)
from ahvn_tools.results import ToolCall, ToolResult, to_sendable, without_raw_value

Approved = bool | Mapping[str, bool]
"""Whether calls are approved: all of them, or each by its call id."""

Reason = str | Mapping[str, str] | None
"""Why calls are rejected: all of them, or each by its call id."""


class Decisions(TypedDict, total=False):
    """What `resume` does with the calls that wait."""

    approved: Approved | None
    """Whether calls that wait for an approval are approved."""
    results: Mapping[str, Any] | None
    """The values of external calls, by call id; an exception, or an error ToolResult, for a call that has failed."""
    arguments: Mapping[str, Any] | None
    """The approver's edits, of one request or by call id."""
    reason: Reason
    """For the model of a rejected call."""
    always: bool
    """Whether the rules of the approved requests are remembered."""


_ERROR_KEY: Final = "ahvn_tools_run"
"""The attribute of an exception that has the run which it has interrupted."""


def find_attached(error: BaseException, key: str) -> Any:
    """Return an attribute of an exception, or of the CancelledError that it has replaced; None without it."""
    while key not in vars(error):
        replaced = error.__cause__ or error.__context__
        if replaced is None or not is_cancellation(replaced):
            return None
        error = replaced
    return vars(error)[key]


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

    A Run has no truth value, because it has no messages while calls wait: use `is_done`, `pending` and
    `results`.
    """

    messages: list[JsonObject] = field(default_factory=list)
    results: list[tuple[ToolCall, ToolResult]] = field(default_factory=list)
    """Each call with its result, in the order of the answer. Empty if the model has made no call."""
    pending: list[PendingRequest] = field(default_factory=list)
    """The calls that wait for an approval or, those of external tools, for their result, for `Toolkit.resume`; several
    of one program have the same program. While there are any, there are no messages: providers accept one answer per
    call, and all answers at once."""
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

    @classmethod
    def from_error(cls, error: BaseException) -> Self | None:
        """Return the run that an exception has interrupted, such as a CancelledError or Ctrl-C; None for any other.

        It has the results of the calls that had ended. The others have the code `cancelled`. Also for the exception
        that replaces a CancelledError: asyncio.timeout raises a TimeoutError, asyncio.run a KeyboardInterrupt.
        """
        found: Self | None = find_attached(error, _ERROR_KEY)
        return found

    def attach_to(self, error: BaseException) -> None:
        """Let `from_error` return this run for an exception."""
        vars(error)[_ERROR_KEY] = self

    @property
    def is_done(self) -> bool:
        """Whether every call has its result: none waits."""
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
            "while calls wait, which are in `run.pending`."
        )

    def __repr__(self) -> str:
        count = len(self.results)
        waiting = f", {len(self.pending)} waiting" if self.pending else ""
        return f"<Run of {count} call{'' if count == 1 else 's'}{waiting}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: each call, its result and its duration in milliseconds."""
        from ahvn_tools import html  # only a notebook needs it

        rows = []
        for call, result in self.results:  # without the values of arguments, which may be secret
            duration = result.meta.get("duration")
            milliseconds = f"{duration * 1000:.1f}" if isinstance(duration, int | float) else ""
            shown = html.code(f"{call.name}({', '.join(call.arguments)})")
            rows.append((shown, html.Html(result._repr_html_()), milliseconds))
        return html.lines([repr(self), html.table(("call", "result", "ms"), rows)])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy what `to_json` contains, which are no secret arguments."""
        return Run.from_json, (self.to_json(),)

    def to_json(self) -> JsonObject:
        """Return the run as JSON data, to store it and go on after a restart: `from_json`, then `Toolkit.resume`.

        It contains the results of the calls that are finished, and the requests of those that wait. It contains no
        secret arguments, and of finished calls no arguments at all.
        """
        return _to_json(self.results, self.format, self.continuation)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the run that `to_json` exported. Raises ToolSpecError for any other data.

        >>> Run.from_json(Run(format="openai").to_json())
        <Run of 0 calls>
        """
        return cls.create(*_from_json(data))


VERSION: Final = 1
"""The version of the data."""

_WRONG_DATA: Final = "This is not a saved run. Pass the result of `Run.to_json()`."

Pair = tuple[ToolCall, ToolResult]


def _to_json(results: list[Pair], format: str | None, continuation: Continuation) -> JsonObject:  # noqa: A002  # as the field of a run
    """Return calls with their results, and the format of their messages, without any argument that is secret."""
    calls = [_call_to_json(*pair) for pair in results]
    data: JsonObject = {"version": VERSION, "format": format, "calls": calls}
    return data if continuation == NO_CONTINUATION else {**data, "continuation": continuation.to_json()}


def _from_json(data: Mapping[str, Any]) -> tuple[list[Pair], str | None, Continuation]:
    """Return what `to_json` was called with. Raises ToolSpecError for any other data."""
    try:
        if data["version"] != VERSION:
            raise ToolSpecError(_WRONG_DATA)
        continuation = Continuation.from_json(data["continuation"]) if "continuation" in data else NO_CONTINUATION
        return [_call_from_json(item) for item in data["calls"]], data["format"], continuation
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        raise ToolSpecError(_WRONG_DATA) from None


def pending_call(requests: Sequence[PendingRequest], **fields: Any) -> Pair:
    """Return the call of these requests, with the further `fields` of a call, and the result that says that it waits.

    There are several requests only for one program.
    """
    request = requests[0]
    if (program := request.program) is not None:
        call = ToolCall(id=program["call_id"], name=program["tool"], arguments={"code": program["code"]}, **fields)
    else:
        call = ToolCall(id=request.call_id, name=request.tool, arguments=request.arguments, **fields)
    return call, pending_result(*requests)


def _call_to_json(call: ToolCall, result: ToolResult) -> JsonObject:
    fields = {"provider": call.provider, "wire_name": call.wire_name or wire_name(call.name), "format": call.format}
    request = next((result.meta[key] for key in FIRST_KEYS if key in result.meta), None)
    if request is not None:
        return {**fields, "request": request, "further": result.meta.get(FURTHER_KEY, [])}
    return {**fields, "id": call.id, "name": call.name, "error": call.error, "result": _result_to_json(result)}


def _call_from_json(item: Mapping[str, Any]) -> Pair:
    fields = {"provider": dict(item["provider"]), "wire_name": item["wire_name"], "format": item.get("format")}
    if "request" in item:
        first = read_request(item["request"])
        meta = {first.meta_key: item["request"], FURTHER_KEY: item.get("further", [])}
        return pending_call(pending_requests(meta), **fields)
    call = ToolCall(id=item["id"], name=item["name"], error=item["error"], **fields)
    return call, _result_from_json(item["result"], call.id)


def _result_to_json(result: ToolResult) -> JsonObject:
    sendable = to_sendable(without_raw_value(result))
    blocks, error = sendable.blocks, sendable.error
    return {
        "value": _value_to_json(sendable.value),
        "structured_content": to_jsonable_python(sendable.structured_content),
        "blocks": None if blocks is None else [b.model_dump(mode="json", by_alias=True) for b in blocks],
        "error": None if error is None else {"code": error.code, "message": error.message},
        "meta": to_jsonable_python(sendable.meta),
        "is_interrupted": result.is_interrupted,
        "is_unwrapped": result._is_unwrapped,  # noqa: SLF001  # of this package
    }


def _value_to_json(value: Any) -> Any:
    """Return the JSON form of a value; None for one that has none, whose result has content for the model."""
    try:
        return to_jsonable_python(value, by_alias=True)
    except PydanticSerializationError:
        return None


def _result_from_json(data: Mapping[str, Any], call_id: str) -> ToolResult:
    return ToolResult(
        data["value"],
        structured_content=data["structured_content"],
        error=None if data["error"] is None else ErrorDetail(**data["error"]),
        meta=without_requests(data["meta"]),  # it is finished
        is_interrupted=data["is_interrupted"],
        _is_unwrapped=data["is_unwrapped"],
        id=call_id,
        blocks=None if data["blocks"] is None else tuple(map(_block_from_json, data["blocks"])),
    )


def _block_from_json(data: Any) -> Any:
    from mcp_types import ContentBlock  # few results have blocks of their own
    from pydantic import TypeAdapter

    return TypeAdapter(ContentBlock).validate_python(data)
