"""Ollama's own chat: what differs from other formats."""

from __future__ import annotations

import base64
import json

import pytest
from mcp_types import ImageContent

from ahvn_tools import ToolCall, ToolDefinition, ToolResult, ToolSpec, formats
from ahvn_tools.errors import ToolLookupError, ToolSpecError
from ahvn_tools.formats import ollama

CALL = ToolCall(id="c1", name="look")


def look(place: str, near: list[str] | None = None) -> str:
    """Look at a place."""
    return place


LOOK = ToolSpec.from_function(look).definition


def image(data: bytes, media_type: str = "image/png") -> ImageContent:
    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=media_type)


# export


# calls

ITEM = {"function": {"name": "look", "arguments": {"place": "Rome"}}}


def test_the_servers_id_is_used_and_a_missing_one_is_created():
    first, second = ollama.calls({"message": {"tool_calls": [{"id": "call_p7o2gz50", **ITEM}, ITEM]}})
    assert (first.id, first.arguments, first.provider) == ("call_p7o2gz50", {"place": "Rome"}, {})
    assert second.id.startswith("call_")
    assert second.id != first.id


def test_a_message_or_its_calls_are_accepted():
    calls = [{"id": "call_1", **ITEM}]
    expected = ollama.calls({"message": {"role": "assistant", "tool_calls": calls}})
    assert ollama.calls({"role": "assistant", "tool_calls": calls}) == ollama.calls(calls) == expected


def test_a_stream_as_text_with_one_chunk_per_line_is_read():
    chunks = [
        {"message": {"role": "assistant", "thinking": "Hm."}, "done": False},
        {"message": {"role": "assistant", "tool_calls": [ITEM]}, "done": False},
        {"message": {"role": "assistant", "tool_calls": [ITEM]}, "done": False},
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "length"},
    ]
    text = "\n".join(map(json.dumps, chunks))
    for form in (text, text.encode(), chunks):
        assert [(call.name, call.error) for call in ollama.calls(form)] == [("look", None)] * 2


def test_a_call_comes_with_its_chunk():
    def arriving():
        yield {"message": {"tool_calls": [ITEM]}}
        pytest.fail("the next chunk was requested")

    assert next(iter(ollama.stream(arriving()))).name == "look"


# results


@pytest.mark.parametrize("data", [b"\x89PNG", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\x00\x00\x00\x00WEBP"])
def test_images_of_each_supported_media_type_are_sent(data):
    (message,) = ollama.results([(CALL, ToolResult(blocks=(image(data),)))])
    assert message == {
        "role": "tool",
        "tool_name": "look",
        "content": "",
        "images": [base64.b64encode(data).decode()],
    }


@pytest.mark.parametrize("data", ["/etc/passwd0", "/etc/ssl/key", "R0lG/../../etc/passwd", "not base64", "a", ""])
def test_a_tool_cannot_send_a_file_instead_of_an_image(data):
    """Ollama's SDK opens a text that is the path of a file."""
    block = ImageContent(type="image", data=data, mime_type="image/png")
    assert ollama.results([(CALL, ToolResult(blocks=(block,)))]) == [
        {"role": "tool", "tool_name": "look", "content": "[image (image/png), not shown]"}
    ]


@pytest.mark.parametrize("data", ["R0lGODlh", "R0lG\nODlh\n"])
def test_an_image_is_sent_in_canonical_base64(data):
    block = ImageContent(type="image", data=data, mime_type="image/gif")
    (message,) = ollama.results([(CALL, ToolResult(blocks=(block,)))])
    assert message["images"] == ["R0lGODlh"]


# choice


def test_only_auto_can_be_chosen():
    assert ollama.choice("auto", parallel=True) == {}
    with pytest.raises(ToolSpecError, match=r"no choice 'none'\. Leave the tools out of the request\."):
        ollama.choice("none")
    with pytest.raises(ToolSpecError, match=r"no choice 'required'\. Say in the prompt"):
        ollama.choice("required")
    with pytest.raises(ToolSpecError, match=r"no option that forces 'look' or 'ping'\. Export only that tool\."):
        ollama.choice(["look", "ping"])
    with pytest.raises(ToolSpecError, match="Leave `parallel` out"):
        ollama.choice("auto", parallel=False)


def test_an_unknown_name_is_reported_first():
    with pytest.raises(ToolLookupError, match="no tool 'lok'"):
        ollama.choice("lok", definitions=[LOOK])


def test_a_rule_on_all_parameters_is_in_the_tools_description():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "maxProperties": 1}
    definition = ToolDefinition(name="look", description="Look there.", input_schema=schema)
    (tool,) = ollama.export([definition])
    assert tool["function"]["description"] == "Look there. maxProperties: 1."
    assert tool["function"]["parameters"] == {"type": "object", "properties": {"a": {"type": "string"}}}
    (found,) = formats.portability(definition)["ollama"]
    assert (found.severity, str(found)) == ("note", "the schema: 'maxProperties' is not enforced")
