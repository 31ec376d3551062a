"""Results of remote tools: parsed, checked against the output schema, and never guessed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolResult, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents

from ahvn_tools import invisible
from ahvn_tools.errors import InvalidResultError
from ahvn_tools.mcp.client.errors import MAX_ERROR_CHARS, sanitize_text
from ahvn_tools.mcp.client.remote_results import ResultParser

IMAGE = ImageContent(type="image", data="AAAA", mimeType="image/png")
LINK = ResourceLink(type="resource_link", uri="http://169.254.169.254/x", name="x")
RESOURCE = EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///x", text="x"))
NUMBER = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
PAIR = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


def said(*parts, **fields):
    blocks = [TextContent(type="text", text=part) if isinstance(part, str) else part for part in parts]
    return CallToolResult(content=blocks, **fields)


def result(answer, schema=None):
    return ResultParser("add", schema).parse(answer)


def test_structured_content_comes_first():
    made = result(said("five", structured_content={"n": 5, "m": 6}))
    assert made.value == {"n": 5, "m": 6}
    assert made.structured_content == {"n": 5, "m": 6}
    assert [block.text for block in made.content] == ["five"]


def test_only_property_of_the_schema_is_the_value():
    made = result(said(structured_content={"result": 5}), NUMBER)
    assert made.value == 5
    assert made.structured_content == {"result": 5}


def test_single_member_without_a_schema_is_not_unwrapped():
    assert result(said(structured_content={"result": 5})).value == {"result": 5}


def test_object_with_several_properties_is_the_value():
    assert result(said(structured_content={"a": 5}), PAIR).value == {"a": 5}


@pytest.mark.parametrize("text", ["5", "1e3", "true", "null", '{"a": 1}', "", "0x10"])
def test_text_is_not_parsed(text):
    assert result(said(text)).value == text


def test_texts_are_joined_with_their_hidden_characters():
    assert result(said("a\u200b", "b")).value == "a\u200b\nb"


@pytest.mark.parametrize("block", [IMAGE, LINK, RESOURCE], ids=lambda block: block.type)
def test_media_are_returned_as_blocks(block):
    made = result(said("look", block))
    assert made.content[1] == block
    assert made.value == made.content


def test_empty_result_is_none():
    made = result(said())
    assert (made.value, made.content, made.is_error) == (None, [], False)


def test_meta_is_preserved():
    assert result(said("a", _meta={"x": 1})).meta == {"x": 1}


@pytest.mark.parametrize("structured", [[1, 2], 5, "text"])
def test_structured_content_that_is_not_an_object_is_only_the_value(structured):
    made = result(said("text", structured_content=structured))
    assert made.value == structured
    assert made.structured_content is None


@pytest.mark.parametrize("structured", [{"result": "5"}, {"result": 5.5}, {}, {"other": 5}, [5]])
def test_result_that_does_not_fit_the_output_schema_is_invalid(structured):
    with pytest.raises(InvalidResultError, match="does not fit its output schema") as caught:
        result(said("5", structured_content=structured), NUMBER)
    assert caught.value.tool == "add"


def test_invalid_result_error_quotes_only_the_text_of_the_server():
    with pytest.raises(InvalidResultError) as caught:
        result(said("Sent.", structured_content={"SECRET-2": 1, "result": "SECRET-3"}), NUMBER)
    assert "SECRET" not in str(caught.value)
    assert caught.value.message.endswith("The tool has run and answered: Sent.")


def test_missing_structured_content_is_an_invalid_result_with_the_text_of_the_server():
    with pytest.raises(InvalidResultError, match="no structured content") as caught:
        result(said("Issue 5 was", IMAGE, "created.\u202e"), NUMBER)
    assert caught.value.message.endswith("The tool has run and answered: Issue 5 was\ncreated.\\u202e")
    with pytest.raises(InvalidResultError, match=r"requires\.$"):
        result(said(IMAGE), NUMBER)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_result_that_is_not_json_is_invalid(value):
    with pytest.raises(InvalidResultError, match="is not JSON"):
        result(said(structured_content={"a": [value]}))


def test_deeply_nested_result_is_invalid():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidResultError, match="is not JSON"):
        result(CallToolResult.model_construct(content=[], structured_content={"a": deep}, is_error=False, meta=None))


TREE = {
    "$defs": {"tree": {"type": "object", "properties": {"parts": {"type": "array", "items": {"$ref": "#"}}}}},
    "$ref": "#/$defs/tree",
}
UNION = {"anyOf": [PAIR, {"$ref": "#/$defs/b"}], "$defs": {"b": {"type": "object", "required": ["b"]}}}
NESTED = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}, {"$ref": "#/$defs/word"}]}}
NESTED |= {"$defs": {"word": {"type": "string", "maxLength": 3}}}


@pytest.mark.parametrize(
    ("schema", "structured"),
    [
        (TREE, {"parts": [{"parts": []}]}),
        (UNION, {"a": 5}),
        (UNION, {"b": "x"}),
        (NESTED, [1, [2, ["abc"]], []]),
        ({"type": ["string", "null"]}, "text"),
        ({"oneOf": [{"type": "integer"}, PAIR]}, {"a": 5}),
        ({"$id": "http://x/y", "$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 5),
        ({}, [1]),
    ],
)
def test_output_schema_of_any_value_is_accepted(schema, structured):
    made = result(said("text", structured_content=structured), schema)
    assert made.value == structured
    assert made.structured_content in (structured, {"result": structured})


@pytest.mark.parametrize(
    ("schema", "structured"),
    [
        (TREE, {"parts": [5]}),
        (TREE, [{"parts": []}]),
        (UNION, {"a": "5"}),
        (NESTED, [1, [2, ["long"]]]),
        (NESTED, {"result": [1]}),
        ({"oneOf": [{"type": "integer"}, PAIR]}, "5"),
        ({"$id": "http://x/y", "$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "5"),
    ],
)
def test_value_that_does_not_fit_an_output_schema_of_any_value_is_invalid(schema, structured):
    with pytest.raises(InvalidResultError, match="does not fit its output schema"):
        result(said("text", structured_content=structured), schema)


def test_error_has_the_text_of_the_server():
    made = result(said("No such file.", "Try another.", is_error=True), NUMBER)
    assert made.error is not None
    assert (made.error.code, made.error.message) == ("tool_error", "No such file.\nTry another.")
    assert made.value is None
    assert [block.text for block in made.content] == ["No such file.\nTry another."]


def test_error_without_a_text_has_a_default_message():
    assert result(said(is_error=True)).text == "The tool failed."
    assert result(said("", is_error=True)).text == "The tool failed."


def test_error_text_is_cut_and_escaped_everywhere():
    made = result(said("\x1b[31m" + "x" * 10_000_000, "\u202eb", IMAGE, is_error=True))
    assert len(made.text) < MAX_ERROR_CHARS + 50
    assert invisible.find(made.text) == []
    assert made.text.startswith(r"\x1b[31mxxx")
    assert made.content[0].text == made.text


@pytest.mark.parametrize("structured", [{"reason": "SECRET"}, ["SECRET"], "SECRET"])
def test_error_result_has_a_text_and_media_and_nothing_else(structured):
    """Bound values are masked only in texts, and a server may write them anywhere."""
    made = result(said("no", IMAGE, structured_content=structured, is_error=True, _meta={"x": "SECRET"}), NUMBER)
    assert "SECRET" not in repr(made)
    assert (made.structured_content, made.meta, made.text) == (None, {}, "no")
    assert made.content[1:] == [IMAGE]


def test_error_text_has_the_texts_of_resources_and_the_addresses_of_links():
    made = result(said("See", RESOURCE, LINK, is_error=True))
    assert made.text == "See\nx\n[resource 'x' at http://169.254.169.254/x]"


@given(st.text(st.characters() | st.sampled_from("\u200b\x1b\ud800\r")), st.integers(0, 20))
def test_sanitized_text_is_escaped_and_cut(text, most):
    shown = sanitize_text(text, most)
    assert invisible.find(shown) == []
    assert len(shown.partition("… (")[0]) <= most or "…" in text
    if len(text) <= most and not invisible.find(text):
        assert shown == text


HOSTILE = """
from mcp_types import CallToolResult
from ahvn_tools.errors import InvalidResultError
from ahvn_tools.mcp.client.remote_results import ResultParser
answers = ResultParser("x", {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
try:
    answers.parse(CallToolResult(content=[], structured_content={"a": "a" * 60 + "!"}))
except InvalidResultError:
    print("refused")
"""


def test_pattern_with_catastrophic_backtracking_is_checked_quickly():
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "refused\n"
