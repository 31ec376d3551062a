"""Google's Gemini."""

from __future__ import annotations

from typing import Any

from tests.formats.providers import Calls, as_input

CALL_DATA = {"id": "call00000", "thoughtSignature": "+/+/+w=="}


def _config(mode: str) -> dict[str, Any]:
    return {"toolConfig": {"functionCallingConfig": {"mode": mode}}}


CHOICES = {"auto": _config("AUTO"), "none": _config("NONE"), "required": _config("ANY")}


def response(calls: Calls) -> dict[str, Any]:
    parts = [{"text": "I look.", "thought": True}, *map(_part, calls)]
    return {"candidates": [_candidate(parts, finishReason="STOP")], "modelVersion": "gemini-3"}


def events(calls: Calls) -> list[dict[str, Any]]:
    chunks = [_candidate([_part(call)]) for call in calls]
    chunks = [_candidate([{"text": "I look."}]), *chunks, _candidate([{"text": ""}], finishReason="STOP")]
    return [{"candidates": [candidate], "modelVersion": "gemini-3"} for candidate in chunks]


def _candidate(parts: list[dict[str, Any]], **result_texts: Any) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": parts}, "index": 0, **result_texts}


def _part(call: tuple[str, str, str]) -> dict[str, Any]:
    call_id, name, arguments = call
    return {"functionCall": {"id": call_id, "name": name, "args": as_input(arguments)}, "thoughtSignature": "c2ln"}


def exported(tools: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(tool["name"], tool["parametersJsonSchema"]) for tool in tools]


def result_ids(messages: list[dict[str, Any]]) -> list[str]:
    return [response["id"] for response in _responses(messages)]


def result_texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [response["response"].get("output") for response in _responses(messages)]


def _responses(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    parts = [part for message in messages for part in message["parts"]]
    return [part["functionResponse"] for part in parts if "functionResponse" in part]


def forced_names(fields: dict[str, Any]) -> list[str]:
    return fields["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"]


def is_ours(row: dict[str, Any]) -> bool:
    return row["path"].lower().endswith("generatecontent")


def recorded_calls(response: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    parts = [part for candidate in response["candidates"] for part in candidate["content"]["parts"]]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return [(call.get("id"), call["name"], call["args"]) for call in calls]


def recorded_stream_calls(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [call[1:] for event in events for call in recorded_calls(event)]
