"""Google's Gemini: what differs from other formats."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from inline_snapshot import snapshot
from mcp_types import ImageContent, TextContent

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, ToolSpec
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import ToolSpecError
from ahvn_tools.formats import gemini

PICTURE = ImageContent(type="image", data="cG5n", mime_type="image/png")
CALL = ToolCall(id="made", name="look")


class Place(pydantic.BaseModel):
    name: str
    near: list[Place] = []


def look(place: str, zoom: int = 2) -> str:
    """Look at a place."""
    return f"{place} {zoom}"


LOOK = ToolSpec.from_function(look).definition


def part(**call: Any) -> dict[str, Any]:
    return {"functionCall": call}


def content(*parts: dict[str, Any], **said: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **said}]}


# export


def test_a_form_that_gemini_does_not_have_is_refused():
    with pytest.raises(ToolSpecError, match=r"no form 'json'\. Choose one of 'parametersJsonSchema', 'parameters'\."):
        gemini.export([LOOK], form="json")


def test_an_output_schema_describes_what_results_sends():
    def number() -> int:
        return 3

    (tool,) = gemini.export([ToolSpec.from_function(number).definition], output_schema=True)
    assert tool["responseJsonSchema"] == snapshot(
        {
            "type": "object",
            "properties": {
                "output": {"type": "integer"},
                "error": {"type": "string", "description": "Why the call failed; replaces `output`."},
            },
        }
    )
    (tool,) = gemini.export([ToolSpec.from_function(number).definition], form="parameters", output_schema=True)
    assert tool["response"]["properties"]["output"] == {"type": "integer"}


def test_an_output_schema_is_exported_with_its_definitions():
    def find() -> Place:
        return Place(name="Rome")

    (tool,) = gemini.export([ToolSpec.from_function(find).definition], output_schema=True)
    schema = tool["responseJsonSchema"]
    assert schema["properties"]["output"] == snapshot(
        {
            "properties": {
                "name": {"type": "string"},
                "near": {"items": {"$ref": "#/$defs/Place"}, "type": "array", "description": "Default: []."},
            },
            "required": ["name"],
            "type": "object",
        }
    )
    assert list(schema["$defs"]) == ["Place"]


@pytest.mark.parametrize("reference", ["#", "#/properties/next"])
@pytest.mark.parametrize("form", ["parametersJsonSchema", "parameters"])
def test_an_output_schema_that_refers_to_its_root_is_left_out(reference, form):
    promised = {"type": "object", "properties": {"next": {"$ref": reference}, "name": {"type": "string"}}}
    (tool,) = gemini.export([ToolDefinition(name="chain", output_schema=promised)], form=form, output_schema=True)
    assert not tool.keys() & {"response", "responseJsonSchema"}


def test_an_output_schema_without_a_gemini_form_is_left_out():
    promised = {"type": "object", "properties": {"a": {"$ref": "#/$defs/Gone"}, "b": {"type": "string"}}}
    (tool,) = gemini.export([ToolDefinition(name="lost", output_schema=promised)], output_schema=True)
    assert "responseJsonSchema" not in tool


def test_a_tool_without_an_output_schema_has_no_response_schema():
    assert gemini.export([ToolDefinition(name="ping")], output_schema=True) == gemini.export(
        [ToolDefinition(name="ping")]
    )


# calls


def test_a_thought_signature_and_geminis_id_are_provider_data():
    signed = {**part(name="look", args={"place": "Rome"}, id="g1"), "thoughtSignature": "+/+/+w=="}
    first, second = gemini.calls(content(signed, part(name="look"), finishReason="STOP"))
    assert (first.id, first.provider) == ("g1", {"id": "g1", "thoughtSignature": "+/+/+w=="})
    assert (second.arguments, second.provider) == ({}, {})


@pytest.mark.parametrize("signature", ["-_-_-w==", b"\xfb\xff\xbf\xfb"])
def test_a_signature_has_the_wire_form_whatever_form_the_sdk_uses(signature):
    (call,) = gemini.calls({"parts": [{"function_call": {"name": "look"}, "thought_signature": signature}]})
    assert call.provider == {"thoughtSignature": "+/+/+w=="}


def test_a_response_a_content_and_its_parts_contain_the_same_calls():
    parts = [{"text": "I look."}, part(name="look", args={"place": "Rome"}), part(name="ping", args=None)]
    for form in (content(*parts), {"role": "model", "parts": parts}, parts, [content(*parts)], [{"parts": parts}]):
        assert [(call.name, call.arguments) for call in gemini.calls(form)] == [
            ("look", {"place": "Rome"}),
            ("ping", {}),
        ]


def test_the_sdks_list_of_calls_is_accepted():
    found = [{"id": None, "name": "look", "args": {"place": "Rome"}}, {"id": "g1", "name": "ping", "args": None}]
    assert [(call.name, call.arguments) for call in gemini.calls(found)] == [("look", {"place": "Rome"}), ("ping", {})]
    assert [call.provider for call in gemini.calls(found)] == [{}, {"id": "g1"}]


def test_the_first_candidate_with_calls_counts():
    texts = {"content": {"parts": [{"text": "No."}]}, "index": 0}
    first = {"content": {"parts": [part(name="look"), part(name="ping")]}, "index": 1}
    second = {"content": {"parts": [part(name="pong")]}, "index": 2}
    assert [call.name for call in gemini.calls({"candidates": [texts, first, second]})] == ["look", "ping"]
    chunks = [{"candidates": [texts]}, {"candidates": [first]}, {"candidates": [second]}, {"candidates": [first]}]
    assert [call.name for call in gemini.stream(chunks)] == ["look", "ping"] * 2


@pytest.mark.parametrize("reason", ["STOP", "UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL", None])
def test_calls_are_read_whatever_the_reason_for_finishing(reason):
    assert gemini.calls(content(part(name="look"), finishReason=reason))[0].error is None


def test_a_malformed_call_leaves_no_call():
    assert gemini.calls({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "look("}]}) == []


def test_a_call_at_the_length_limit_is_an_error():
    whole, last = gemini.calls(content(part(name="look"), part(name="look"), finishReason="MAX_TOKENS"))
    assert whole.error is None
    assert (last.arguments, last.error) == (
        {}, "The call was cut off because the response reached its length limit. Send a shorter call.",
    )  # fmt: skip
    (followed,) = gemini.calls(content(part(name="look"), {"text": "And"}, finishReason="MAX_TOKENS"))
    assert followed.error is None


def test_steps_of_an_interaction_are_read():
    steps = [{"type": "thought"}, {"type": "function_call", "id": "s1", "name": "look", "arguments": {"place": "Rome"}}]
    (call,) = gemini.calls({"id": "i1", "steps": steps})
    assert (call.id, call.name, call.arguments) == ("s1", "look", {"place": "Rome"})


# calls that arrive value by value


def pieces(*partial_args: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the chunks of a call that sends each of these in a separate part."""
    begun = content(part(name="look", willContinue=True, id="g1"))
    return [begun, *(content(part(partialArgs=[arg], willContinue=True)) for arg in partial_args), content(part())]


def test_values_that_arrive_one_by_one_are_set_at_their_paths():
    (call,) = gemini.stream(
        pieces(
            {"jsonPath": "$.place", "stringValue": "Ro", "willContinue": True},
            {"jsonPath": "$.place", "stringValue": "me"},
            {"jsonPath": "$.place"},
            {"jsonPath": "$.zoom", "numberValue": 2},
            {"jsonPath": "$['a.b'][\"it's\"]", "boolValue": False},
            {"jsonPath": "$['it\\'s']", "nullValue": None},
            {"jsonPath": "$.rows[0].cells[0]", "stringValue": "x"},
            {"jsonPath": "$.rows[0].cells[1]", "nullValue": "NULL_VALUE"},
            {"jsonPath": "$.rows[1].cells[0]", "stringValue": ""},
        )
    )
    assert (call.id, call.name, call.error) == ("g1", "look", None)
    assert call.arguments == {
        "place": "Rome",
        "zoom": 2,
        "a.b": {"it's": False},
        "it's": None,
        "rows": [{"cells": ["x", None]}, {"cells": [""]}],
    }


def test_snake_case_names_are_read():
    begun = {"function_call": {"name": "look", "will_continue": True}, "thought_signature": "c2ln"}
    more = {"function_call": {"partial_args": [{"json_path": "$.place", "string_value": "Rome"}]}}
    (call,) = gemini.calls([{"parts": [begun]}, {"parts": [more]}])
    assert (call.arguments, call.provider) == ({"place": "Rome"}, {"thoughtSignature": "c2ln"})


@pytest.mark.parametrize(
    "argument",
    [
        {"jsonPath": "$.place[2]", "stringValue": "x"},
        {"jsonPath": "$.zoom.x", "stringValue": "x"},
        {"jsonPath": "$[0]", "stringValue": "x"},
        {"jsonPath": "$.rows.x", "stringValue": "x"},
        {"jsonPath": "$.rows[9]", "stringValue": "x"},
        {"jsonPath": "$..x", "stringValue": "x"},
        {"jsonPath": "$.rows[*]", "stringValue": "x"},
        {"jsonPath": "place", "stringValue": "x"},
        {"jsonPath": "$" + ".a" * 50_000, "stringValue": "x"},
        {"stringValue": "x"},
        {"jsonPath": "$", "stringValue": "x"},
    ],
)
@pytest.mark.default_cases(4)
def test_a_value_with_an_impossible_path_is_an_error_on_the_call(argument):
    known = [{"jsonPath": "$.zoom", "numberValue": 2}, {"jsonPath": "$.rows[0]", "numberValue": 2}]
    (call,) = gemini.stream(pieces(*known, argument))
    assert (call.name, call.arguments) == ("look", {})
    assert call.error.startswith("The arguments are not a JSON object.")


def test_calls_that_arrive_value_by_value_are_distinguished():
    first, second = pieces({"jsonPath": "$.place", "stringValue": "Rome"}), [content(part(name="ping", args={}))]
    assert [(call.name, call.error) for call in gemini.stream([*first, *second])] == [("look", None), ("ping", None)]
    broken, whole = gemini.stream([*first[:-1], *second])
    assert (broken.name, broken.arguments, whole.name, whole.error) == ("look", {}, "ping", None)
    assert broken.error.startswith("The call was cut off")


@pytest.mark.parametrize("end", [1, 2])
def test_a_call_with_missing_values_is_not_run(end):
    (call,) = gemini.stream(pieces({"jsonPath": "$.place", "stringValue": "Ro"})[:end])
    assert (call.arguments, call.error[:20]) == ({}, "The call was cut off")


# results


def test_all_results_are_in_one_content_with_only_geminis_ids():
    pairs = [
        (ToolCall(id="g1", name="look", provider={"id": "g1"}), ToolResult({"a": [1.5, True]})),
        (ToolCall(id="made", name="notes.add"), ToolResult(error=ErrorDetail(code="tool_error", message="disk full"))),
    ]
    assert gemini.results(pairs) == snapshot(
        [
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "g1", "name": "look", "response": {"output": {"a": [1.5, True]}}}},
                    {"functionResponse": {"name": "notes_add_e1253ccd", "response": {"error": "disk full"}}},
                ],
            }
        ]
    )


def test_images_follow_in_a_second_content_or_are_inline():
    pairs = [
        (CALL, ToolResult("plain")),
        (CALL, ToolResult(blocks=(PICTURE, TextContent(type="text", text="Rome")))),
        (CALL, ToolResult(blocks=(PICTURE,))),
    ]
    assert gemini.results(pairs) == snapshot(
        [
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "look", "response": {"output": "plain"}}},
                    {
                        "functionResponse": {
                            "name": "look",
                            "response": {
                                "output": """\
Rome
[The images of this result are in the next user message.]\
"""
                            },
                        }
                    },
                    {
                        "functionResponse": {
                            "name": "look",
                            "response": {"output": "[The images of this result are in the next user message.]"},
                        }
                    },
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"text": "Images of function response 2 (look):"},
                    {"inlineData": {"mimeType": "image/png", "data": "cG5n"}},
                    {"text": "Images of function response 3 (look):"},
                    {"inlineData": {"mimeType": "image/png", "data": "cG5n"}},
                ],
            },
        ]
    )
    assert gemini.results(pairs[2:], inline_images=True) == snapshot(
        [
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "name": "look",
                            "response": {"output": ""},
                            "parts": [{"inlineData": {"mimeType": "image/png", "data": "cG5n"}}],
                        }
                    }
                ],
            }
        ]
    )


def test_an_image_that_gemini_does_not_accept_becomes_a_note():
    moving = ImageContent(type="image", data="Z2lm", mime_type="image/gif")
    (message,) = gemini.results([(CALL, ToolResult(blocks=(moving,)))])
    assert message["parts"][0]["functionResponse"]["response"] == {"output": "[image (image/gif), not shown]"}


def output(result: ToolResult) -> Any:
    (message,) = gemini.results([(CALL, result)])
    return message["parts"][0]["functionResponse"]["response"]["output"]


def test_a_value_is_sent_as_data_if_the_text_contains_nothing_more():
    text = TextContent(type="text", text='{"a": 1}')
    assert output(ToolResult({"a": 1}, {"a": 1}, blocks=(text,))) == {"a": 1}
    assert output(ToolResult(1, {"a": 1}, blocks=(text,), _is_unwrapped=True)) == {"a": 1}
    assert output(ToolResult(1, {"a": 1}, _is_unwrapped=True)) == {"a": 1}
    assert output(ToolResult(1, {"result": 1})) == 1
    assert output(ToolResult(2, {"a": 2}, blocks=(text,))) == '{"a": 1}'
    assert output(ToolResult("Rome", blocks=(TextContent(type="text", text="Rome"),))) == "Rome"


def test_large_integers_are_sent_as_texts():
    odd = {"a\ud800": [2**53, 10**15 - 1, -(10**15), ("x", "\ud800"), {1: None}]}
    assert output(ToolResult(odd)) == {
        "a\ufffd": ["9007199254740992", 999999999999999, "-1000000000000000", ["x", "\ufffd"], {"1": None}]
    }


@pytest.mark.parametrize("value", [Place, float("inf"), {"a": object()}], ids=["class", "infinity", "object"])
def test_a_value_without_json_form_is_an_error(value):
    (message,) = gemini.results([(CALL, ToolResult(value))])
    assert message["parts"][0]["functionResponse"]["response"] == {
        "error": "The tool returned a value that cannot be sent."
    }


# choice


def test_a_choice_is_a_mode():
    def mode(*arguments: Any, **options: Any) -> dict[str, Any]:
        return gemini.choice(*arguments, **options)["toolConfig"]["functionCallingConfig"]

    assert mode("look") == {"mode": "ANY", "allowedFunctionNames": ["look"]}
    assert mode(["look", "notes.add"], validated=True) == {
        "mode": "VALIDATED", "allowedFunctionNames": ["look", "notes_add_e1253ccd"],
    }  # fmt: skip
    assert mode("auto", validated=True, parallel=True) == {"mode": "VALIDATED"}
    assert [mode(word, validated=True)["mode"] for word in ("none", "required")] == ["NONE", "ANY"]


def test_one_call_at_a_time_is_refused():
    with pytest.raises(ToolSpecError, match="Leave `parallel` out"):
        gemini.choice("auto", parallel=False)


def test_the_older_form_does_not_allow_a_null_that_an_enum_excludes():
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x", "y"]}}}
    (declared,) = gemini.export([ToolDefinition(name="f", input_schema=schema)], form="parameters")
    assert declared["parameters"]["properties"]["a"] == {"type": "string", "enum": ["x", "y"]}


# message


def test_the_text_in_the_place_of_a_signature_is_written_for_the_first_call_and_is_no_provider_data():
    calls = [ToolCall(id="c1", name="look"), ToolCall(id="c2", name="look")]
    (content,) = gemini.message(calls, skip_signature_check=True)
    assert [part.get("thoughtSignature") for part in content["parts"]] == ["skip_thought_signature_validator", None]
    assert [call.provider for call in gemini.calls(content)] == [{}, {}]
    assert "thoughtSignature" not in gemini.message(calls)[0]["parts"][0]
    assert gemini.message([], skip_signature_check=True) == []


def test_a_signature_of_gemini_is_not_replaced():
    call = ToolCall(id="c1", name="look", provider={"thoughtSignature": "c2ln"})
    (content,) = gemini.message([call], skip_signature_check=True)
    assert content["parts"][0]["thoughtSignature"] == "c2ln"
