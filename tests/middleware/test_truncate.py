"""Truncate: what the model sees of a long result, and what the host keeps."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools import ToolError, Toolkit, ToolSpecError, formats
from ahvn_tools.middleware.truncate import truncate
from ahvn_tools.results import ToolCall, ToolResult

PIXEL = base64.b64encode(b"\x89PNG\r\n").decode()


def seen(returned, *args, **options) -> tuple[ToolResult, list[str]]:
    """Return a result and the texts that a model is shown of it."""

    def give():
        return returned

    kit = Toolkit("kit", middleware=[truncate(*args, **options)])
    kit.add(give)
    result = kit.exec("give")
    return result, [block.text for block in result.content if block.type == "text"]


def test_a_model_receives_head_and_tail_and_the_host_the_whole_text():
    whole = "".join(f"{n:04}" for n in range(250))
    result, texts = seen(whole, 100, head_ratio=0.7)
    assert texts == [f"{whole[:70]}\n[… 900 characters left out …]\n{whole[-30:]}"]
    assert result.value == result.text == whole
    assert result.meta["omitted_chars"] == 900


@pytest.mark.parametrize(("outer", "left_out"), [(100, 900), (101, 900), (50, 950)])
def test_characters_that_inner_middleware_omitted_are_counted_once(outer, left_out):
    whole = "".join(f"{n:04}" for n in range(250))
    kit = Toolkit("kit", middleware=[truncate(outer)])

    @kit.tool(middleware=[truncate(100)])
    def give() -> str:
        return whole

    result = kit.exec("give")
    (block,) = result.content
    assert f"[… {left_out} characters left out …]" in block.text
    assert block.text.count("left out") == 1
    assert result.meta["omitted_chars"] == left_out


def test_a_note_in_the_tools_own_text_is_not_ours():
    result, (text,) = seen(ToolResult("x" * 200, meta={"omitted_chars": "a lot"}), 100)
    assert "[… 100 characters left out …]" in text
    assert result.meta["omitted_chars"] == 100


@pytest.mark.parametrize("returned", ["x" * 100, {"a": 1}, None, 7])
def test_a_short_result_is_not_changed(returned):
    result, _ = seen(returned, 100)
    assert result.blocks is None
    assert "omitted_chars" not in result.meta


def test_an_object_is_cut_as_json_and_stays_complete_for_the_host():
    rows = {"rows": list(range(1000))}
    result, texts = seen(rows, 50)
    assert result.value == result.structured_content == rows
    assert texts[0].startswith('{"rows": [0, 1')
    assert texts[0].endswith("999]}")


@pytest.mark.parametrize("head", [0, 1])
def test_the_head_may_be_all_or_nothing(head):
    _, (text,) = seen("a" * 50 + "b" * 50, 10, head_ratio=head)
    assert text.strip("\n").startswith("a" * 10 if head else "[…")
    assert text.strip("\n").endswith("…]" if head else "b" * 10)


def test_images_stay_and_texts_around_them_are_cut_as_one():
    from mcp_types import ImageContent, TextContent

    image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
    texts = [TextContent(type="text", text=letter * 40) for letter in "abc"]
    result, shown = seen([texts[0], image, texts[1], texts[2]], 60, head_ratio=0.5)
    assert [block.type for block in result.content] == ["text", "image", "text"]
    assert shown == ["a" * 30 + "\n[… 60 characters left out …]\n", "c" * 30]


def test_the_text_of_a_file_is_cut_and_other_files_stay():
    from mcp_types import BlobResourceContents, EmbeddedResource, TextResourceContents

    text = EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a.txt", text="x" * 500))
    blob = EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///a.bin", blob=PIXEL))
    result, shown = seen([text, blob], 10)
    assert [block.type for block in result.content] == ["text", "resource"]
    assert len(shown[0]) < 60


def test_a_short_file_stays_a_file():
    from mcp_types import EmbeddedResource, TextContent, TextResourceContents

    files = [
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a.txt", text=letter * 5))
        for letter in "ab"
    ]
    result, _ = seen([files[0], TextContent(type="text", text="x" * 100), files[1]], 20, head_ratio=0.5)
    assert [block.type for block in result.content] == ["resource", "text", "resource"]


def test_an_object_with_images_is_cut_as_its_json_text():
    from mcp_types import CallToolResult, ImageContent

    image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
    whole = {"rows": ["x" * 1000]}
    result, shown = seen(CallToolResult(content=[image], structured_content=whole), 40)
    assert [block.type for block in result.content] == ["image", "text"]
    assert len(shown[0]) < 100
    assert result.structured_content == whole


def test_errors_and_chunks_are_not_changed():
    def fail() -> str:
        raise ToolError("x" * 500)

    def count() -> list[str]:
        yield "y" * 500

    kit = Toolkit("kit", middleware=[truncate(10)])
    kit.add(fail).add(count)
    assert kit.exec("fail").error.message == "x" * 500
    chunk, last = kit.stream("count")
    assert chunk.content[0].text == "y" * 500
    assert len(last.content[0].text) < 60
    assert last.value == ["y" * 500]


@pytest.mark.parametrize("name", sorted(formats.BUILT_IN))
def test_every_format_sends_the_short_text_to_its_model(name):
    result, _ = seen({"rows": ["middle-" * 500]}, 200)
    call = ToolCall(id="c1", name="give")
    if name in {"langchain", "mcp"}:  # they carry the object for the client's program, too
        result = replace(result, structured_content=None)
    sent = json.dumps(formats.get(name).results([(call, result)]))
    assert len(sent) < 1000
    assert "left out" in sent


@pytest.mark.parametrize("options", [{"max_chars": 0}, {"head_ratio": 1.1}, {"head_ratio": -0.1}])
def test_invalid_limits_are_refused(options):
    with pytest.raises(ToolSpecError):
        truncate(**options)


@pytest.mark.exhaustive
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=5), most=st.integers(1, 60), head=st.floats(0, 1))
def test_head_and_tail_have_their_exact_length(texts, most, head):
    from mcp_types import TextContent

    _, shown = seen([TextContent(type="text", text=text) for text in texts], most, head_ratio=head)
    whole, said = "".join(texts), "".join(shown)
    if len(whole) <= most:
        assert said == whole
        return
    note = f"\n[… {len(whole) - most} characters left out …]\n"
    begin = round(most * head)
    assert said == whole[:begin] + note + whole[len(whole) - most + begin :]
