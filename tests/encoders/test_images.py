"""Pillow and matplotlib: images and figures as image blocks."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest

from ahvn_tools.formats import anthropic
from ahvn_tools.results import ToolCall
from tests.encoders.subjects import each_entry_point, returning
from tests.execution.entry_points import EntryPoint

PillowImage = pytest.importorskip("PIL.Image", exc_type=ImportError)


def opened(block: Any) -> Any:
    return PillowImage.open(io.BytesIO(base64.b64decode(block.data)))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "HSV", "F", "I"])
def test_an_image_is_an_image_block(mode: str) -> None:
    [block] = returning(PillowImage.new(mode, (3, 2))).exec().content
    assert (block.type, block.mime_type, opened(block).size) == ("image", "image/png", (3, 2))


@each_entry_point
def test_an_image_in_a_list_is_a_block_among_texts(entry_point: EntryPoint) -> None:
    result = entry_point(returning(["A square:", PillowImage.new("RGB", (1, 1))], PillowImage.Image))
    assert [block.type for block in result.content] == ["text", "image"]


def test_a_photo_stays_a_jpeg() -> None:
    data = io.BytesIO()
    PillowImage.new("RGB", (3, 2)).save(data, format="JPEG")
    [block] = returning(PillowImage.open(data)).exec().content
    assert (block.mime_type, opened(block).format) == ("image/jpeg", "JPEG")


def test_an_image_inside_of_data_is_an_invalid_result() -> None:
    result = returning({"image": PillowImage.new("RGB", (1, 1))}).exec()
    assert (result.error.code, "as an item of a list" in str(result.exception)) == ("invalid_result", True)


def test_providers_receive_an_image_and_no_repr() -> None:
    result = returning(PillowImage.new("RGB", (1, 1))).exec()
    assert result.text == "[image]"
    [message] = anthropic.results([(ToolCall(id="t1", name="body"), result)])
    [block] = message["content"][0]["content"]
    assert (block["type"], block["source"]["media_type"]) == ("image", "image/png")


@each_entry_point
@pytest.mark.default_cases(2)
def test_a_figure_is_an_image_block(entry_point: EntryPoint) -> None:
    figure = pytest.importorskip("matplotlib.figure", exc_type=ImportError).Figure(figsize=(1, 1), dpi=50)
    figure.add_subplot().plot([1, 2])
    [block] = entry_point(returning(figure)).content
    assert (block.mime_type, opened(block).size) == ("image/png", (50, 50))
