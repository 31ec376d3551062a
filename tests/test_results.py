"""ToolResult and content: what a body may hand over as it is, and what a reader gets of it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
from typing import Any

import pytest
from fastmcp.tools.base import ToolResult as FastMCPResult
from fastmcp.utilities.types import Audio, File, Image
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from ahvn_tools import ToolCall, ToolError, ToolResult, ToolSpec, formats
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.errors import InvalidResultError
from ahvn_tools.results import to_final_result
from tests.execution.entry_points import ENTRY_POINTS, RESULT_ENTRY_POINTS, VALUE_ENTRY_POINTS, EntryPoint, run

each_entry_point = pytest.mark.parametrize("entry_point", RESULT_ENTRY_POINTS.values(), ids=RESULT_ENTRY_POINTS)
each_value_entry_point = pytest.mark.parametrize("entry_point", VALUE_ENTRY_POINTS.values(), ids=VALUE_ENTRY_POINTS)


def returning(value: Any, **options: Any) -> ToolSpec:
    def body() -> Any:
        return value

    return ToolSpec.from_function(body, **options)


TEXT = TextContent(type="text", text="block")
IMAGE = ImageContent(type="image", data="cG5n", mime_type="image/png")
SOUND = AudioContent(type="audio", data="d2F2", mime_type="audio/wav")
LINK = ResourceLink(type="resource_link", uri="file:///a", name="a")
RESOURCE = EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a", text="a"))


@pytest.mark.parametrize("block", [IMAGE, SOUND, LINK, RESOURCE], ids=lambda block: block.type)
@each_entry_point
def test_a_block_is_its_own_content(entry_point: EntryPoint, block: Any) -> None:
    result = entry_point(returning(block))
    assert (result.content, result.value, result.structured_content) == ([block], [block], None)


@each_entry_point
def test_the_value_of_text_blocks_is_their_text(entry_point: EntryPoint) -> None:
    assert entry_point(returning(TEXT)).value == "block"
    assert entry_point(returning([TEXT, TEXT])).value == "block\nblock"


@pytest.mark.parametrize(
    ("media", "kind"),
    [
        (Image(data=b"png", format="png"), ImageContent),
        (Audio(data=b"wav", format="wav"), AudioContent),
        (File(data=b"text", format="plain", name="a"), EmbeddedResource),
    ],
    ids=["Image", "Audio", "File"],
)
@each_entry_point
def test_media_become_blocks(entry_point: EntryPoint, media: Any, kind: type) -> None:
    result = entry_point(returning(media))
    assert [type(block) for block in result.content] == [kind]
    assert result.value == result.content


@each_entry_point
def test_a_mixed_list_is_content_in_its_order(entry_point: EntryPoint) -> None:
    result = entry_point(returning(["text", IMAGE, {"a": 1}, Image(data=b"png", format="png"), ["b"], None]))
    assert [block.type for block in result.content] == ["text", "image", "text", "image", "text", "text"]
    assert [block.text for block in result.content if block.type == "text"] == ["text", '{"a": 1}', '["b"]', "null"]


@each_entry_point
def test_results_in_a_list_contribute_their_content(entry_point: EntryPoint) -> None:
    result = entry_point(returning([ToolResult("ours"), FastMCPResult(content="theirs"), ToolResult({"a": 1})]))
    assert [block.text for block in result.content] == ["ours", "theirs", '{"a": 1}']
    assert result.value == 'ours\ntheirs\n{"a": 1}'


@each_entry_point
def test_a_plain_list_is_no_content(entry_point: EntryPoint) -> None:
    result = entry_point(returning(["a", {"b": 1}]))
    assert (result.value, [block.text for block in result.content]) == (["a", {"b": 1}], ['["a", {"b": 1}]'])


@pytest.mark.parametrize(
    ("made", "value", "structured"),
    [
        (FastMCPResult(structured_content={"a": 1}, meta={"cost": 2}), {"a": 1}, {"a": 1}),
        (FastMCPResult(content="text", meta={"cost": 2}), "text", None),
        (FastMCPResult(content=[IMAGE], meta={"cost": 2}), [IMAGE], None),
        (CallToolResult(content=[TEXT], structured_content={"a": 1}, _meta={"cost": 2}), {"a": 1}, {"a": 1}),
        (CallToolResult(content=[TEXT], _meta={"cost": 2}), "block", None),
        (ToolResult({"a": 1}, {"a": 1}, meta={"cost": 2}), {"a": 1}, {"a": 1}),
    ],
    ids=["structured", "text", "blocks", "mcp structured", "mcp text", "ours"],
)
@each_entry_point
def test_a_result_is_returned_unchanged(entry_point: EntryPoint, made: Any, value: Any, structured: Any) -> None:
    result = entry_point(returning(made))
    assert (result.value, result.structured_content, result.meta["cost"]) == (value, structured, 2)
    assert result.content == list(made.content)
    assert "duration" in result.meta


@each_entry_point
def test_a_result_is_not_changed_by_being_returned(entry_point: EntryPoint) -> None:
    for result in (FastMCPResult(structured_content={"a": 1}, meta={"cost": 2}), ToolResult(1, meta={"cost": 2})):
        entry_point(returning(result))
        assert result.meta == {"cost": 2}


ERRORS = {
    "FastMCP's": FastMCPResult(content="it failed", is_error=True),
    "mcp's": CallToolResult(content=[TextContent(type="text", text="it failed")], is_error=True),
    "ours": ToolResult(error=ErrorDetail(code="tool_error", message="it failed")),
}


@pytest.mark.parametrize("result", ERRORS.values(), ids=ERRORS)
@each_value_entry_point
def test_call_raises_an_error_result_as_a_tool_error(entry_point: EntryPoint, result: Any) -> None:
    with pytest.raises(ToolError, match="it failed"):
        entry_point(returning(result))


@pytest.mark.parametrize("made", ERRORS.values(), ids=ERRORS)
@each_entry_point
def test_exec_returns_an_error_result_as_an_error_result(entry_point: EntryPoint, made: Any) -> None:
    result = entry_point(returning(made))
    assert (result.error, result.value) == (ErrorDetail(code="tool_error", message="it failed"), None)
    assert [block.text for block in result.content] == ["it failed"]


def test_an_error_result_without_a_text_says_that_it_failed() -> None:
    assert returning(CallToolResult(content=[IMAGE], is_error=True)).exec().text == "The tool failed."


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_media_that_cannot_be_read_are_an_invalid_result(entry_point: EntryPoint) -> None:
    def items() -> Any:
        yield Image(path="/nowhere/at/all.png")

    for spec in (returning(Image(path="/nowhere/at/all.png")), ToolSpec.from_function(items)):
        try:
            error = entry_point(spec).error
        except InvalidResultError as invalid:
            error = invalid
        assert error.code == "invalid_result"
        assert "nowhere" not in error.message


def test_content_is_made_from_the_value() -> None:
    assert [block.text for block in ToolResult("text").content] == ["text"]
    assert [block.text for block in ToolResult({"ü": [1, None]}).content] == ['{"ü": [1, null]}']
    assert [block.text for block in ToolResult(0).content] == ["0"]
    assert [block.text for block in ToolResult("").content] == [""]
    assert ToolResult(None).content == []


def test_content_is_a_fresh_list() -> None:
    result = ToolResult(1, blocks=(TEXT,))
    result.content.clear()
    assert result.content == [TEXT]


def test_to_mcp_equals_what_a_server_sends() -> None:
    sent = ToolResult(5, {"result": 5}, meta={"duration": 0.5, "attempts": 2}).to_mcp()
    assert sent.model_dump(by_alias=True, exclude_none=True) == {
        "_meta": {"attempts": 2},
        "content": [{"type": "text", "text": "5"}],
        "structuredContent": {"result": 5},
        "isError": False,
        "resultType": "complete",
    }


def test_to_mcp_returns_an_error_result() -> None:
    sent = ToolResult(error=ErrorDetail(code="timeout", message="too late")).to_mcp()
    assert (sent.is_error, sent.content[0].text, sent.structured_content) == (True, "too late", None)


LONE = "caf\udce9"
"""A file name that is no UTF-8, as Python reads it: a text that UTF-8 has no form for."""


@pytest.mark.parametrize("value", [LONE, [LONE], {"a": {"b": LONE}}], ids=ascii)
@each_entry_point
def test_an_unencodable_text_is_a_local_value_and_costs_a_character_where_it_is_sent(
    entry_point: EntryPoint, value: Any
) -> None:
    result = entry_point(returning(value))
    assert (result.is_error, result.value, len(result.content)) == (False, value, 1)
    sent = result.to_mcp()
    assert sent.is_error is False
    assert "caf\ufffd" in sent.content[0].text
    assert sent.model_dump_json()


def test_an_unencodable_text_of_a_block_or_of_structured_content_costs_a_character_where_it_is_sent() -> None:
    sent = ToolResult(1, {LONE: [LONE]}, blocks=(TextContent(type="text", text=LONE), IMAGE)).to_mcp()
    assert (sent.is_error, sent.structured_content) == (False, {"caf\ufffd": ["caf\ufffd"]})
    assert (sent.content[0].text, sent.content[1]) == ("caf\ufffd", IMAGE)


@each_entry_point
def test_an_unencodable_key_is_an_invalid_result(entry_point: EntryPoint) -> None:
    assert entry_point(returning({LONE: 1})).error.code == "invalid_result"


def test_unencodable_meta_is_an_error_without_it() -> None:
    sent = ToolResult(1, meta={"attempts": 2, "path": LONE, "object": object()}).to_mcp()
    assert (sent.is_error, sent.meta) == (True, {"attempts": 2})
    failed = ToolResult(error=ErrorDetail(code="timeout", message="too late"), meta={"object": object()}).to_mcp()
    assert (failed.is_error, failed.content[0].text, failed.meta) == (True, "too late", None)


def test_a_foreign_value_without_a_text_is_a_served_error() -> None:
    sent = ToolResult(10**5000).to_mcp()
    assert (sent.is_error, "cannot be sent" in sent.content[0].text) == (True, True)
    assert returning(ToolResult(10**5000)).exec().error.code == "invalid_result"


def test_unencodable_characters_in_an_error_are_escaped() -> None:
    assert ErrorDetail(code="tool_error", message=f"no file {LONE}").message == "no file caf\\udce9"
    assert ErrorDetail(code="tool_error", message="naïve \U0001f600").message == "naïve \U0001f600"


def test_a_remote_result_without_content_is_none() -> None:
    for made in (CallToolResult(content=[]), FastMCPResult(content=[])):
        result = returning(made).exec()
        assert (result.value, result.structured_content, result.content) == (None, None, [])


def test_a_result_over_mcp_and_back_is_the_same() -> None:
    for value in ("text", 5, [1, 2], {"a": 1, "b": 2}):
        first = returning(value).exec()
        again = returning(first.to_mcp()).exec()
        assert again.content == first.content
        assert again.structured_content == first.structured_content


def test_a_result_is_a_frozen_value() -> None:
    result = ToolResult(5, {"result": 5})
    assert result == ToolResult(5, {"result": 5})
    assert result != ToolResult(6, {"result": 6})
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.value = 6
    assert (result.is_error, result.is_last, result.is_interrupted, result.id, result.meta) == (
        False, True, False, None, {},
    )  # fmt: skip


def test_a_result_can_be_replaced_field_by_field() -> None:
    result = ToolResult(5, {"result": 5}, None, {"a": 1}, False, True, "id-1", (TEXT,))
    changed = dataclasses.replace(result, meta={"a": 2})
    assert (changed.value, changed.meta, changed.is_last, changed.is_interrupted, changed.id, changed.blocks) == (
        5, {"a": 2}, False, True, "id-1", (TEXT,),
    )  # fmt: skip
    changed = dataclasses.replace(result, value=6)
    assert (changed.value, changed.structured_content, changed.blocks) == (6, {"result": 6}, None)


def test_a_repr_fits_one_line_and_shows_no_blocks() -> None:
    assert "png" not in repr(ToolResult(1, blocks=(IMAGE,)))


def test_a_call_is_a_value() -> None:
    assert ToolCall(id="1", name="add", arguments={"a": 1}) == ToolCall(id="1", name="add", arguments={"a": 1})
    assert (ToolCall(id="1", name="add").arguments, ToolCall(id="1", name="add").provider) == ({}, {})


def test_served_blocks_arrive_unchanged() -> None:
    result = run(returning([TEXT, IMAGE]).to_fastmcp().run, {})
    assert result.content == [TEXT, IMAGE]


def test_to_final_result_changes_only_the_id_and_is_last():
    chunk = ToolResult([1], {"result": [1]}, meta={"a": 1}, is_last=False, is_interrupted=True, id="b")
    whole = ToolResult([1], {"result": [1]}, meta={"a": 1}, is_last=True, is_interrupted=True, id="c")
    assert (to_final_result(chunk, "c"), chunk.id, chunk.is_last) == (whole, "b", False)


@dataclasses.dataclass
class Opaque:
    """A class whose repr shows a password; it is no data, because a lock is none."""

    lock: Any
    password: str = "hunter2"


def test_a_value_without_json_form_never_becomes_a_text() -> None:
    for value in (Opaque(threading.Lock()), [Opaque(threading.Lock())], {"a": Opaque(threading.Lock())}):
        result = ToolResult(value)
        assert result.text == "The tool returned a value that cannot be sent."
        assert (result.to_mcp().is_error, "hunter2" in str(result.to_mcp())) == (True, False)
        assert returning(ToolResult(value)).exec().error.code == "invalid_result"


@pytest.mark.parametrize("name", formats.BUILT_IN)
def test_no_format_sends_a_value_without_json_form(name: str, caplog: pytest.LogCaptureFixture) -> None:
    opaque = Opaque(threading.Lock())
    results = [ToolResult(opaque), ToolResult(1, {"a": opaque}, blocks=(IMAGE,)), ToolResult(1, meta={"a": opaque})]
    pairs = [(ToolCall(id=f"c{n}", name="a", provider={"id": "c"}), result) for n, result in enumerate(results)]
    sent = str(formats.get(name).results(pairs))
    assert ("cannot be sent" in sent, "hunter2" in sent, "hunter2" in caplog.text) == (True, False, False)


def test_a_value_of_a_result_is_sent_as_if_the_tool_had_returned_it() -> None:
    day = dt.date(2024, 5, 6)
    assert ToolResult(day).text == "2024-05-06"
    assert ToolResult({"day": [day]}).text == '{"day": ["2024-05-06"]}'
    assert returning(ToolResult(day)).call() == "2024-05-06"


def test_models_read_the_whole_object_only_where_the_value_was_taken_from_it() -> None:
    unwrapped = ToolResult(21.5, {"celsius": 21.5}, _is_unwrapped=True)
    assert (unwrapped.text, ToolResult(21.5, {"celsius": 21.5}).text) == ('{"celsius": 21.5}', "21.5")
    assert dataclasses.replace(unwrapped, value=3).text == "3"
    assert dataclasses.replace(unwrapped, structured_content={"celsius": 21.5, "city": "Rome"}).text == (
        '{"celsius": 21.5, "city": "Rome"}'
    )
    assert ToolResult(1, {"result": 1}, _is_unwrapped=True).text == '{"result": 1}'


class TestReason:
    """`ErrorDetail.reason` is the message without the type of the tool's exception."""

    def test_of_an_exception_of_the_tool(self):
        def fail(key: str) -> None:
            raise ValueError(f"the key {key} is unknown")

        error = ToolSpec.from_function(fail).bind("key", default="hunter2000").exec().error
        assert (error.message, error.reason) == (
            "ValueError: the key <key> is unknown",
            "the key <key> is unknown",
        )

    def test_of_a_refused_call_is_the_message(self):
        def double(number: int) -> int:
            return 2 * number

        error = ToolSpec.from_function(double).exec(number="x").error
        assert error.reason == error.message

    def test_of_an_exception_without_a_text_is_its_type(self):
        def fail() -> None:
            raise ZeroDivisionError

        assert ToolSpec.from_function(fail).exec().error.reason == "ZeroDivisionError"

    def test_only_one_type_is_removed(self):
        def fail() -> None:
            raise ValueError("ValueError: twice")

        assert ToolSpec.from_function(fail).exec().error.reason == "ValueError: twice"
