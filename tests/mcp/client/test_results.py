"""Answers: what a server says to a call is our result, checked, and never guessed at."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolResult, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents

from ahvn_tools.errors import DefinitionError, InvalidResultError
from ahvn_tools.mcp.client.results import MAX_ERROR_CHARS, ResultParser, sanitize_text
from ahvn_tools.mcp.trust import invisible

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


def test_the_one_property_of_the_schema_is_the_value_and_structured_content_stays():
    made = result(said(structured_content={"result": 5}), NUMBER)
    assert made.value == 5
    assert made.structured_content == {"result": 5}


def test_without_a_schema_one_member_is_no_reason_to_unwrap():
    assert result(said(structured_content={"result": 5})).value == {"result": 5}


def test_several_properties_are_one_object():
    assert result(said(structured_content={"a": 5}), PAIR).value == {"a": 5}


@pytest.mark.parametrize("text", ["5", "1e3", "true", "null", '{"a": 1}', "", "0x10"])
def test_a_text_is_a_text(text):
    assert result(said(text)).value == text


def test_texts_are_joined_and_what_they_hide_is_data():
    assert result(said("a\u200b", "b")).value == "a\u200b\nb"


@pytest.mark.parametrize("block", [IMAGE, LINK, RESOURCE], ids=lambda block: block.type)
def test_media_are_blocks(block):
    made = result(said("look", block))
    assert made.content[1] == block
    assert made.value == made.content


def test_nothing_is_none():
    made = result(said())
    assert (made.value, made.content, made.is_error) == (None, [], False)


def test_meta_data_stay():
    assert result(said("a", _meta={"x": 1})).meta == {"x": 1}


@pytest.mark.parametrize("structured", [[1, 2], 5, "text"])
def test_structured_content_that_is_no_object_is_the_value_alone(structured):
    made = result(said("text", structured_content=structured))
    assert made.value == structured
    assert made.structured_content is None


@pytest.mark.parametrize("structured", [{"result": "5"}, {"result": 5.5}, {}, {"other": 5}, [5]])
def test_what_the_output_schema_refuses_is_an_invalid_result(structured):
    with pytest.raises(InvalidResultError, match="does not fit its output schema") as caught:
        result(said("5", structured_content=structured), NUMBER)
    assert caught.value.tool == "add"


def test_an_invalid_result_does_not_say_what_the_server_said():
    with pytest.raises(InvalidResultError) as caught:
        result(said("SECRET-1", structured_content={"SECRET-2": 1, "result": "SECRET-3"}), NUMBER)
    assert "SECRET" not in str(caught.value)


def test_what_is_promised_has_to_come():
    with pytest.raises(InvalidResultError, match="no structured content"):
        result(said("5"), NUMBER)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_what_is_no_json_is_an_invalid_result(value):
    with pytest.raises(InvalidResultError, match="is no JSON"):
        result(said(structured_content={"a": [value]}))


def test_deep_nesting_is_an_invalid_result():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidResultError, match="is no JSON"):
        result(CallToolResult.model_construct(content=[], structured_content={"a": deep}, is_error=False, meta=None))


def test_an_output_schema_of_no_object_is_refused():
    with pytest.raises(DefinitionError):
        ResultParser("add", {"type": "array"})


def test_an_error_has_the_text_of_the_server():
    made = result(said("No such file.", "Try another.", is_error=True), NUMBER)
    assert made.error is not None
    assert (made.error.code, made.error.message) == ("tool_error", "No such file.\nTry another.")
    assert made.value is None
    assert [block.text for block in made.content] == ["No such file.\nTry another."]


def test_an_error_without_a_text_is_told_as_one():
    assert result(said(is_error=True)).text == "The tool failed."
    assert result(said("", is_error=True)).text == "The tool failed."


def test_the_text_of_an_error_is_capped_and_hides_nothing_wherever_it_stands():
    made = result(said("\x1b[31m" + "x" * 10_000_000, "\u202eb", IMAGE, is_error=True))
    assert len(made.text) < MAX_ERROR_CHARS + 50
    assert invisible.find(made.text) == []
    assert made.text.startswith(r"\x1b[31mxxx")
    assert [block.text for block in made.content] == [made.text]


@pytest.mark.parametrize("structured", [{"reason": "SECRET"}, ["SECRET"], "SECRET"])
def test_an_error_has_nothing_but_a_text(structured):
    """Bound values are masked in texts; a server may write what it was given anywhere."""
    made = result(said("no", IMAGE, structured_content=structured, is_error=True, _meta={"x": "SECRET"}), NUMBER)
    assert "SECRET" not in repr(made)
    assert (made.structured_content, made.meta, made.text) == (None, {}, "no")


@given(st.text(st.characters() | st.sampled_from("\u200b\x1b\ud800\r")), st.integers(0, 20))
def test_a_cleaned_text_hides_nothing_and_is_short(text, most):
    shown = sanitize_text(text, most)
    assert invisible.find(shown) == []
    assert len(shown.partition("… (")[0]) <= most or "…" in text
    if len(text) <= most and not invisible.find(text):
        assert shown == text


HOSTILE = """
from mcp_types import CallToolResult
from ahvn_tools.errors import InvalidResultError
from ahvn_tools.mcp.client.results import ResultParser
answers = ResultParser("x", {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
try:
    answers.parse(CallToolResult(content=[], structured_content={"a": "a" * 60 + "!"}))
except InvalidResultError:
    print("refused")
"""


def test_a_pattern_that_would_hold_pythons_re_for_ever_does_not():
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "refused\n"
