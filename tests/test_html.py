"""HTML for notebooks: escaping, limits, images; and what specs, results, toolkits and runs show."""

from __future__ import annotations

import base64
from types import SimpleNamespace

import pytest
from mcp_types import AudioContent, ImageContent, TextContent

from ahvn_tools import ToolCall, Toolkit, ToolResult, ToolSpec, html
from ahvn_tools.error_detail import ErrorDetail
from ahvn_tools.toolkit import Run

EVIL = "<script>alert('x')</script>"
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n one pixel").decode()
VALUE = "warm-and-very-private"


def greet(name: str, tone: str = "plain") -> str:
    """Greet a <person>."""
    return f"{tone}: {name}"


def fail(name: str) -> str:
    """Fail."""
    raise ValueError(name)


def image(data: str = PIXEL, mime_type: str = "image/png") -> ImageContent:
    return ImageContent(type="image", data=data, mime_type=mime_type)


class TestParts:
    def test_every_text_is_escaped(self):
        page = html.lines([EVIL, html.code(EVIL), html.table([EVIL], [[EVIL]]), html.bindings({EVIL: EVIL})])
        page += html.block(TextContent(type="text", text=EVIL)) + html.block(SimpleNamespace(type=EVIL))
        page += html.block(image(data=f'"{EVIL}')) + html.block(image(mime_type=EVIL))
        assert "<script" not in page
        assert page.count("&lt;script&gt;") == 10
        assert 'base64,"' not in page

    @pytest.mark.parametrize("mark", ["\u202e", "\u2067", "\u200f", "\u061c", "\u200b"], ids=ascii)
    def test_what_changes_the_direction_or_is_invisible_is_shown_as_an_escape(self, mark):
        evil = f"gnp{mark}exe"
        page = html.lines([evil, html.code(evil), html.table([evil], [[evil]]), html.bindings({evil: evil})])
        page += html.block(TextContent(type="text", text=evil)) + html.block(SimpleNamespace(type=evil))
        page += html.block(image(mime_type=evil))
        page += ToolResult({evil: evil})._repr_html_()
        page += ToolResult(error=ErrorDetail(code="tool_error", message=evil))._repr_html_()
        schema = {"type": "object", "properties": {"name": {"type": "string", "description": evil, "default": evil}}}
        spec = ToolSpec.from_schema("greet", schema, lambda name="": name, description=evil)
        page += spec._repr_html_() + Toolkit(evil).add(spec, tags={evil})._repr_html_()
        page += Run(results=[(ToolCall(id="c", name="greet", arguments={evil: 1}), ToolResult(evil))])._repr_html_()
        assert mark not in page
        assert page.count(ascii(mark).strip("'")) >= 15

    def test_text_of_another_direction_and_emoji_stay(self):
        for words in ("שלום", "مرحبا", "می\u200cخواهم", "👩\u200d💻", "a\r\nb\tc"):
            assert words in html.text(words)

    def test_a_long_text_is_cut(self):
        shown = html.text("x" * (html.MAX_TEXT_CHARS + 1_234))
        assert shown.count("x") == html.MAX_TEXT_CHARS
        assert "… 1,234 more characters" in shown

    def test_a_long_table_is_cut(self):
        shown = html.table(["n"], [[str(n)] for n in range(html.MAX_ROWS + 7)])
        assert shown.count("<td style") == html.MAX_ROWS
        assert "… 7 more" in shown

    def test_an_image_is_shown(self):
        assert f'<img alt="image" src="data:image/png;base64,{PIXEL}">' in html.block(image())

    @pytest.mark.parametrize(
        "block",
        [image(mime_type="image/svg+xml"), AudioContent(type="audio", data=PIXEL, mime_type="audio/wav")],
        ids=["svg", "audio"],
    )
    def test_other_content_is_named(self, block):
        shown = html.block(block)
        assert "<img" not in shown
        assert block.mime_type in shown

    def test_an_image_that_is_too_large_is_named(self, monkeypatch):
        monkeypatch.setattr(html, "MAX_IMAGE_CHARS", 3)
        assert html.block(image()) == "[image image/png]"


class TestObjects:
    def test_a_spec_shows_its_signature_its_parameters_and_what_is_bound(self):
        spec = ToolSpec.from_function(greet).bind("tone", "style.tone", VALUE)
        shown = spec._repr_html_()
        assert "greet(name: str) -&gt; str" in shown
        assert "Greet a &lt;person&gt;." in shown
        assert "tone ← style.tone" in shown
        assert VALUE not in shown + repr(spec)

    def test_a_spec_without_parameters_has_no_table(self):
        assert "<table" not in ToolSpec.from_code("def ping(): ...")._repr_html_()

    def test_a_toolkit_shows_a_table_of_its_tools(self):
        kit = Toolkit("desk", state={"tone": VALUE}).add(greet, tags={"a<b"}, group="g<h").bind("tone")
        for view in (kit, kit.session(tone=VALUE), kit.select(tags=["a<b"])):
            shown = view._repr_html_()
            assert "<code>greet</code>" in shown
            assert "<code>name</code>" in shown
            assert "tone ← tone" in shown
            assert "a&lt;b" in shown
            assert "g&lt;h" in shown
            assert VALUE not in shown + repr(view)
            assert "\n" not in repr(view)

    @pytest.mark.parametrize(
        ("result", "expected"),
        [
            (ToolResult("a < b"), "a &lt; b"),
            (ToolResult({"a": 1}), "{&quot;a&quot;: 1}"),
            (ToolResult(error=ErrorDetail(code="tool_error", message="<b>")), "tool_error: &lt;b&gt;"),
            (ToolResult(blocks=(TextContent(type="text", text="<i>"), image())), f"base64,{PIXEL}"),
        ],
        ids=["text", "json", "error", "blocks"],
    )
    def test_a_result_shows_its_value_or_its_error(self, result, expected):
        assert expected in result._repr_html_()

    def test_a_run_shows_each_call_with_its_result_and_milliseconds(self):
        kit = Toolkit("desk").add(greet).add(fail)
        calls = [
            ToolCall(id="c1", name="greet", arguments={"name": "<Ann>"}),
            ToolCall(id="c2", name="fail", arguments={"name": VALUE}),
        ]
        run = kit.run(calls)
        shown = run._repr_html_()
        assert "greet(name)" in shown
        assert "plain: &lt;Ann&gt;" in shown
        assert "tool_error" in shown
        assert VALUE not in shown + repr(run)
        assert "\n" not in repr(run)
        timed = ToolResult(1, meta={"duration": 0.0125})
        assert ">12.5<" in Run(results=[(calls[0], timed)])._repr_html_()
        assert "greet(name)" in Run(results=[(calls[0], ToolResult(1))])._repr_html_()
