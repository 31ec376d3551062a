"""The server that imitates the services: what it answers, and what it refuses as the services do."""

from __future__ import annotations

import copy
import json
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from examples.loopback import Loopback
from tests.examples.histories import (
    GOOD,
    PATHS,
    SCHEMA,
    Body,
    anthropic,
    bedrock,
    chat,
    gemini,
    mistral,
    ollama,
    responses,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with Loopback({"city": "Oslo"}) as server:
        yield server


def post(server: Loopback, service: str, body: Any, path: str | None = None) -> tuple[int, str]:
    """Send a body; return the status and the answer."""
    url = f"{server.url(service)}/{path or PATHS[service]}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


REMOVED = object()


def changed(body: Body, path: str, to: Any = REMOVED) -> Body:
    """Return a copy with the value at a dotted path replaced or removed."""
    made = copy.deepcopy(body)
    *steps, last = (int(step) if step.isdecimal() else step for step in path.split("."))
    place: Any = made
    for step in steps:
        place = place[step]
    if to is REMOVED:
        del place[last]
    else:
        place[last] = to
    return made


@pytest.mark.parametrize("service", PATHS)
def test_a_history_with_results_is_answered_with_their_texts(server, service):
    status, text = post(server, service, GOOD[service]())
    assert status == 200
    assert "The tool said: " in text
    assert text.index("one") < text.index("two")


@pytest.mark.parametrize("service", PATHS)
def test_an_incomplete_request_is_refused(server, service):
    assert post(server, service, {"model": "m"})[0] == 400


LONG = "x" * 65
WRONG_ORDER = "must be a response to a preceding message"
AND = {"role": "user", "content": "And?"}
WELL = {"role": "assistant", "content": "Well."}
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
LATE = [{"type": "text", "text": "Here:"}, *anthropic()["messages"][2]["content"]]
TOO_STRICT = [{"name": f"t{number}", "strict": True, "input_schema": CLOSED} for number in range(21)]
ALLOWED = {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["look"]}}
NOT_ASCII = json.loads(json.dumps(bedrock()).replace("c1", "é1"))
REFUSED: dict[str, list[tuple[str, Body]]] = {
    "openai_chat": [
        ("These did not have response messages: c2", changed(chat(), "messages.3")),
        (WRONG_ORDER, changed(chat(), "messages.3.tool_call_id", "c3")),
        (WRONG_ORDER, changed(chat(), "messages.3.tool_call_id", "c1")),
        (WRONG_ORDER, changed(chat(), "messages.1")),
        ("These did not", changed(chat(), "messages.2", AND)),
        ("only text", changed(chat(), "messages.3.content", [{"type": "image_url"}])),
        ("string too long", chat("x" * 41)),
        ("Invalid tool name", changed(chat(), "tools.0.function.name", "look.it")),
        ("Invalid tool name", changed(chat(), "tools.0.function.name", LONG)),
        ("unique", changed(chat(), "tools", chat()["tools"] * 2)),
        ("maximum length 128", changed(chat(), "tools", chat()["tools"] * 129)),
        ("top level", changed(chat(), "tools.0.function.parameters.anyOf", [])),
        ("top level", changed(chat(), "tools.0.function.parameters.type", "array")),
        ("'additionalProperties' must be false", changed(chat(), "tools.0.function.strict", True)),
        ("'required' lacks", changed(chat(), "tools.0.function", {"name": "a", "strict": True, "parameters": OPEN})),
    ],
    "openai_responses": [
        ("No tool output found for function call c2", changed(responses(), "input.4")),
        ("No tool call found", changed(responses(), "input.4.call_id", "fc_1")),
        ("No tool call found", changed(responses(), "input.1")),
        ("too long", changed(responses(), "input.1.call_id", LONG)),
        ("Missing required", changed(responses(), "tools.0.strict")),
        ("Missing required", changed(responses(), "tools.0.parameters")),
        ("maximum length 128", changed(responses(), "tools", responses()["tools"] * 129)),
    ],
    "anthropic_messages": [
        ("without `tool_result` blocks", changed(anthropic(), "messages.2")),
        ("after: c2", changed(anthropic(), "messages.2.content.1")),
        ("unexpected", changed(anthropic(), "messages.2.content.1.tool_use_id", "c1")),
        ("must come first", changed(anthropic(), "messages.2.content", LATE)),
        ("Invalid tool_use.id", changed(anthropic(), "messages.1.content.0.id", "c.1")),
        ("max_tokens", changed(anthropic(), "max_tokens")),
        ("Extra inputs", changed(anthropic(), "tools.0.output_schema", {})),
        ("tool_choice.none", {**anthropic(), "tool_choice": {"type": "none", "name": "look"}}),
        ("must be false", changed(anthropic(), "tools.0.strict", True)),
        ("20 are allowed", changed(anthropic(), "tools", TOO_STRICT)),
    ],
    "bedrock_converse": [
        ("toolConfig field must be defined", changed(bedrock(), "toolConfig")),
        ("Expected toolResult", changed(bedrock(), "messages.2")),
        ("Expected toolResult", changed(bedrock(), "messages.2.content.1")),
        ("Invalid status", changed(bedrock(), "messages.2.content.0.toolResult.status", "x")),
        ("Invalid tool name", changed(bedrock(), "toolConfig.tools.0.toolSpec.name", "a.b")),
        ("Invalid toolUseId", NOT_ASCII),
    ],
    "gemini_generate": [
        ("number of function response parts", changed(gemini(), "contents.2.parts.1")),
        ("followed by", changed(gemini(), "contents.2")),
        ("thought_signature", changed(gemini(), "contents.1.parts.0.thoughtSignature")),
        ("thought_signature", changed(gemini(), "contents.1.parts.0.thoughtSignature", "b3RoZXI=")),
        ("does not match", changed(gemini(), "contents.2.parts.0.functionResponse.id", "c3")),
        ("does not match", changed(gemini(), "contents.2.parts.0.functionResponse.name", "a")),
        ("Invalid value", changed(gemini(), "contents.2.parts.0.functionResponse.response", 3)),
        ("Only one of", changed(gemini(), "tools.0.functionDeclarations.0.parameters", SCHEMA)),
        ("Invalid tool name", changed(gemini(), "tools.0.functionDeclarations.0.name", "1st")),
        (
            "Unknown name ['$schema']",
            changed(gemini(), "tools.0.functionDeclarations.0", {"name": "a", "parameters": {"$schema": "x"}}),
        ),
        (
            "not repeating",
            changed(gemini(), "tools.0.functionDeclarations.0", {"name": "a", "parameters": {"type": ["object"]}}),
        ),
        (
            "missing field",
            changed(gemini(), "tools.0.functionDeclarations.0", {"name": "a", "parameters": {"type": "ARRAY"}}),
        ),
        ("needs mode ANY", changed(gemini(), "toolConfig", ALLOWED)),
    ],
    "mistral_chat": [
        ("with a length of 9", chat("call_1234", "abcdefgh2")),
        ("with a length of 9", chat("abcdefgh", "abcdefgh2")),
        ("Not the same number", changed(mistral(), "messages.3")),
        ("Unexpected tool call id", changed(mistral(), "messages.3.tool_call_id", "abcdefgh9")),
        ("Unexpected role 'user' after role 'tool'", changed(mistral(), "messages", [*mistral()["messages"], AND])),
        ("but got assistant", changed(mistral(), "messages", [*mistral()["messages"], WELL])),
        ("Field required", changed(mistral(), "tools.0.function.parameters")),
    ],
    "ollama_chat": [
        ("missing results of look", changed(ollama(), "messages.3")),
        ("unexpected result", changed(ollama(), "messages.3.tool_name")),
        ("missing results", changed(ollama(), "messages.3", AND)),
        ("cannot unmarshal string", changed(ollama(), "messages.1.tool_calls.0.function.arguments", "{}")),
    ],
}


@pytest.mark.parametrize(
    ("service", "message", "body"),
    [
        pytest.param(service, message, body, id=f"{service}-{message[:24]}")
        for service, rows in REFUSED.items()
        for message, body in rows
    ],
)
def test_what_a_service_would_refuse_is_refused(server, service, message, body):
    status, text = post(server, service, body)
    assert status == 400
    assert message in json.dumps(json.loads(text), ensure_ascii=False)


def test_responses_to_numbered_calls_come_in_any_order(server):
    body = gemini()
    body["contents"][2]["parts"].reverse()
    assert post(server, "gemini_generate", body)[0] == 200


def test_an_older_model_sees_no_images_in_responses(server):
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    body = changed(gemini(), "contents.2.parts.0.functionResponse.parts", [image])
    assert post(server, "gemini_generate", body)[0] == 200
    path = PATHS["gemini_generate"].replace("gemini-3-pro", "gemini-2.5-flash")
    status, text = post(server, "gemini_generate", body, path)
    assert (status, "does not support media" in text) == (400, True)


@pytest.mark.parametrize(("service", "path"), [("openai_chat", "v1/models"), ("unknown", "v1/messages")])
def test_an_unknown_path_is_not_found(server, service, path):
    assert post(server, service, {}, path)[0] == 404


@pytest.mark.parametrize("body", [3, "", None, [1]])
def test_a_body_that_is_not_a_json_object_is_refused(server, body):
    assert post(server, "ollama_chat", body) == (400, '{"error": "The body is no JSON object."}')


def test_a_client_that_leaves_early_is_not_logged(server, capfd):
    body = json.dumps({**ollama(), "stream": True}).encode()
    head = f"POST /ollama_chat/api/chat HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for sent in (head, head + body):
        with socket.create_connection(("127.0.0.1", int(server.url("").split(":")[2][:-1])), timeout=5) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(sent)
    assert post(server, "ollama_chat", ollama())[0] == 200
    assert capfd.readouterr().err == ""


def test_requests_are_saved_with_the_refused_ones():
    with Loopback({}) as server:
        post(server, "ollama_chat", ollama())
        post(server, "ollama_chat", {"messages": 3})
        assert server.requests == [ollama(), {"messages": 3}]


def test_a_model_makes_the_calls_of_its_turns_in_order_and_then_says_what_the_tool_said():
    with Loopback(turns=[("look", {"city": "Oslo"}), ("look", {"city": "Bergen"})]) as server:
        answers = [json.loads(post(server, "openai_chat", chat())[1])["choices"][0]["message"] for _ in range(3)]
    made = [json.loads(call["function"]["arguments"]) for each in answers[:2] for call in each["tool_calls"]]
    assert made == [{"city": "Oslo"}, {"city": "Bergen"}]
    assert answers[2]["content"] == "The tool said: one | two"


def test_a_refused_request_leaves_the_turn_to_the_next_one():
    with Loopback(turns=[("look", {"city": "Oslo"})]) as server:
        assert post(server, "anthropic_messages", {**anthropic(), "max_tokens": None, "messages": 3})[0] == 400
        message = json.loads(post(server, "anthropic_messages", anthropic())[1])
    assert [(block["name"], block["input"]) for block in message["content"]] == [("look", {"city": "Oslo"})]


def test_a_turn_that_calls_a_tool_of_which_the_model_knows_nothing_is_refused():
    with Loopback(turns=[("leap", {})]) as server:
        status, text = post(server, "ollama_chat", ollama())
    assert (status, "'leap', and the request has no such tool" in text) == (400, True)


def test_a_new_question_after_an_answer_is_a_first_turn(server):
    """Results before the last message of the model are not repeated."""
    body = chat()
    body["messages"] += [{"role": "assistant", "content": "Well."}, {"role": "user", "content": "And in Oslo?"}]
    _, text = post(server, "openai_chat", body)
    (call,) = json.loads(text)["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}


def test_the_server_ends_with_its_block_and_leaves_no_thread():
    before = threading.active_count()
    with Loopback() as server:
        post(server, "ollama_chat", ollama())
        port = int(server.url("ollama_chat").split(":")[2].split("/")[0])
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    assert threading.active_count() <= before


def test_a_silent_client_does_not_block_the_server():
    with Loopback() as server:
        port = int(server.url("x").split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            assert post(server, "ollama_chat", ollama())[0] == 200
