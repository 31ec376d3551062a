"""Gemini's generateContent. The third generation numbers its calls, signs them, and sees images in results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from . import frames
from .rules import check_name, check_root, check_unique, new_id, refuse

ROUTE = re.compile(r"v1\w*/models/(?P<model>[^:]+):(?P<stream>stream)?[gG]enerateContent")
CONTENT_TYPE = frames.SERVER_SENT
NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBsb29wYmFjayBzZXJ2ZXI="
NO_SIGNATURE = "skip_thought_signature_validator"
"""What Gemini accepts in the place of a signature, for calls that it has not made."""
RAW = {"args", "parametersJsonSchema", "response", "responseJsonSchema"}
"""Members whose insides are the tools' own."""

SCHEMA_KEYS = {
    "additionalProperties", "anyOf", "default", "description", "enum", "example", "format", "items", "maxItems",
    "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "nullable",
    "pattern", "properties", "propertyOrdering", "required", "title", "type",
}  # fmt: skip
"""What the older form of a schema is made of."""


def tool_names(request: dict[str, Any]) -> list[str]:
    """Return the names of the functions of all tools."""
    tools = _camel(request.get("tools", []))
    functions = [function for tool in tools for function in tool.get("functionDeclarations", ())]
    for function in functions:
        check_name(function.get("name"), NAME)
        refuse(
            "parameters" in function and "parametersJsonSchema" in function,
            "Only one of parameters and parameters_json_schema can be set.",
        )
        if "parametersJsonSchema" in function:
            check_root(function["parametersJsonSchema"])
        check_schema(function.get("parameters", {}))
    return check_unique([function["name"] for function in functions])


def check_schema(schema: dict[str, Any]) -> None:
    """Refuse what the older form does not know."""
    unknown = sorted(schema.keys() - SCHEMA_KEYS)
    refuse(unknown, f"Invalid JSON payload received. Unknown name {unknown} at 'parameters': Cannot find field.")
    refuse(isinstance(schema.get("type"), list), "Proto field is not repeating, cannot start list.")
    refuse(schema.get("type") in {"array", "ARRAY"} and "items" not in schema, "items: missing field.")
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for part in [*inner, schema["items"]] if "items" in schema else inner:
        check_schema(part)


def required_tool(request: dict[str, Any]) -> str | None:
    """Return the function that is allowed by its name."""
    config = request.get("toolConfig", {}).get("functionCallingConfig", {})
    names = config.get("allowedFunctionNames", [])
    refuse(names and config.get("mode") not in {"ANY", "VALIDATED"}, "allowed_function_names needs mode ANY.")
    return "none" if config.get("mode") == "NONE" else next(iter(names), None)


def results(request: dict[str, Any]) -> list[str]:
    """Return the results; one content answers all calls of the content before it, with their names and ids."""
    waiting: list[dict[str, Any]] = []
    texts: list[str] = []
    for content in _camel(request["contents"]):
        parts = content["parts"]
        found = [part["functionResponse"] for part in parts if "functionResponse" in part]
        refuse(
            len(found) != len(waiting),
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn.",
        )
        refuse(_keys(found) != _keys(waiting), "A function response does not match its function call.")
        new_texts = [_text(response, request["model"]) for response in found]
        images = [_describe(part["inlineData"]) for part in parts if "inlineData" in part]
        texts = [] if content["role"] == "model" else [*texts, *new_texts, *images]
        waiting = [part["functionCall"] for part in parts if "functionCall" in part]
        if waiting and _is_third(request["model"]):
            signed = next(part for part in parts if "functionCall" in part).get("thoughtSignature")
            refuse(
                signed not in {SIGNATURE, NO_SIGNATURE},
                "Function call is missing a thought_signature in functionCall parts.",
            )
    refuse(waiting, "Please ensure that function call turn is followed by a function response turn.")
    return texts


def _camel(value: Any) -> Any:
    """Return JSON with members in one spelling: Google's SDK writes some as Python does, and the service reads both."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    spelled = {re.sub("_([a-z])", lambda letter: letter[1].upper(), name): member for name, member in value.items()}
    return {name: member if name in RAW else _camel(member) for name, member in spelled.items()}


def _keys(items: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Return what a response and its call have in common; with ids, their order does not matter."""
    keys = [(item["name"], item.get("id")) for item in items]
    return sorted(keys) if all(item.get("id") for item in items) else keys


def _text(response: dict[str, Any], model: str) -> str:
    refuse(not isinstance(response.get("response"), dict), "Invalid value at 'function_response.response'.")
    media = [part["inlineData"] for part in response.get("parts", ())]
    refuse(media and not _is_third(model), "This model does not support media in function responses.")
    new_texts = [f"an error, {value}" if key == "error" else str(value) for key, value in response["response"].items()]
    return " ".join([*new_texts, *map(_describe, media)])


def _describe(data: dict[str, Any]) -> str:
    return f"[{data['mimeType']}, {len(data['data'])} characters]"


def _is_third(model: str) -> bool:
    return model.startswith("gemini-3")


def answer(calls: list[tuple[str, dict[str, Any]]], text: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a response: a part for each call, the first one signed; it ends in STOP either way."""
    parts: list[dict[str, Any]] = [{"functionCall": {"name": name, "args": arguments}} for name, arguments in calls]
    if parts and _is_third(request["model"]):
        parts[0]["thoughtSignature"] = SIGNATURE
        for part in parts:
            part["functionCall"]["id"] = new_id(length=8)
    content = {"role": "model", "parts": parts or [{"text": text}]}
    return {
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "modelVersion": request["model"],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }


def malformed_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer whose call was discarded."""
    candidate = {"index": 0, "content": {"role": "model", "parts": []}, "finishReason": "MALFORMED_FUNCTION_CALL"}
    return {**answer, "candidates": [candidate]}


def events(answer: dict[str, Any]) -> Iterator[bytes]:
    """Yield a chunk for each part, and one that ends it."""
    (candidate,) = answer["candidates"]
    for part in candidate["content"]["parts"]:
        content = {"role": "model", "parts": [part]}
        yield frames.server_sent({"candidates": [{"index": 0, "content": content}]})
    ended = {"role": "model", "parts": [{"text": ""}]}
    yield frames.server_sent({**answer, "candidates": [{**candidate, "content": ended}]})


def error_body(message: str) -> dict[str, Any]:
    """Return an error."""
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
