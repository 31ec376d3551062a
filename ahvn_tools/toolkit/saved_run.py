"""The calls of a run and their results as JSON data, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats.continuation import NO_CONTINUATION, Continuation
from ahvn_tools.formats.rendering.names import wire_name
from ahvn_tools.json_types import JsonObject
from ahvn_tools.middleware.approve import ApprovalRequest, pending_requests, pending_result, without_requests
from ahvn_tools.results import ToolCall, ToolResult, to_sendable, without_raw_value

VERSION: Final = 1
"""The version of the data."""

_WRONG_DATA: Final = "This is not a saved run. Pass the result of `Run.to_json()`."

Pair = tuple[ToolCall, ToolResult]


def to_json(results: list[Pair], format: str | None, continuation: Continuation) -> JsonObject:  # noqa: A002  # as the field of a run
    """Return calls with their results, and the format of their messages, without any argument that is secret."""
    calls = [_call_to_json(*pair) for pair in results]
    data: JsonObject = {"version": VERSION, "format": format, "calls": calls}
    return data if continuation == NO_CONTINUATION else {**data, "continuation": continuation.to_json()}


def from_json(data: Mapping[str, Any]) -> tuple[list[Pair], str | None, Continuation]:
    """Return what `to_json` was called with. Raises ToolSpecError for any other data."""
    try:
        if data["version"] != VERSION:
            raise ToolSpecError(_WRONG_DATA)
        continuation = Continuation.from_json(data["continuation"]) if "continuation" in data else NO_CONTINUATION
        return [_call_from_json(item) for item in data["calls"]], data["format"], continuation
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError):
        raise ToolSpecError(_WRONG_DATA) from None


def waiting_call(requests: Sequence[ApprovalRequest], **fields: Any) -> Pair:
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
    if "approval" in result.meta:
        return {**fields, "request": result.meta["approval"], "further": result.meta.get("further_approvals", [])}
    return {**fields, "id": call.id, "name": call.name, "error": call.error, "result": _result_to_json(result)}


def _call_from_json(item: Mapping[str, Any]) -> Pair:
    fields = {"provider": dict(item["provider"]), "wire_name": item["wire_name"], "format": item.get("format")}
    if "request" in item:
        meta = {"approval": item["request"], "further_approvals": item.get("further", [])}
        return waiting_call(pending_requests(meta), **fields)
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
        "is_unwrapped": result.is_unwrapped,
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
        is_unwrapped=data["is_unwrapped"],
        id=call_id,
        blocks=None if data["blocks"] is None else tuple(map(_block_from_json, data["blocks"])),
    )


def _block_from_json(data: Any) -> Any:
    from mcp_types import ContentBlock  # few results have blocks of their own
    from pydantic import TypeAdapter

    return TypeAdapter(ContentBlock).validate_python(data)
