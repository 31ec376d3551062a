"""Texts: encodings, byte order marks and line endings survive an edit."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import strategies as st

from ahvn_tools.builtins.files.text import TextForm, decode, encode
from ahvn_tools.errors import ToolError
from tests.property_checks import EXAMPLES, run_examples

MARKS = [b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-16", "utf-32", "cp1252", "latin-1", "gbk", "koi8-r"]
SEVERAL_WAYS = ("cp932", "big5")
"""Encodings that write some characters in several ways."""


@EXAMPLES
def test_whatever_is_decoded_is_encoded_to_the_same_bytes(max_examples):
    def check(mark, content):
        try:
            text, form = decode(mark + content)
        except ToolError:
            return
        assert encode(text, form) == mark + content or form.encoding in SEVERAL_WAYS

    run_examples(max_examples, check, st.sampled_from(MARKS), st.binary(max_size=40))


@EXAMPLES
def test_every_text_survives_every_encoding_byte_by_byte(max_examples):
    def check(encoding, text):
        content = text.encode(encoding, errors="ignore")
        try:
            decoded, form = decode(content)
        except ToolError:
            return
        assert encode(decoded, form) == content or form.encoding in SEVERAL_WAYS

    run_examples(max_examples, check, st.sampled_from(ENCODINGS), st.text(max_size=30))


@EXAMPLES
def test_a_text_without_nul_is_read_as_it_was_written(max_examples):
    def check(text):
        assert decode(text.encode())[0] == text
        for mark, encoding in (
            (codecs.BOM_UTF8, "utf-8"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF32_BE, "utf-32-be"),
        ):
            decoded, form = decode(mark + text.encode(encoding))
            assert decoded == text
            assert form.has_byte_order_mark
            assert form.encoding == encoding

    texts = st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"]), max_size=30)
    run_examples(max_examples, check, texts)


@pytest.mark.parametrize(
    ("content", "text", "form"),
    [
        (b"", "", TextForm()),
        (b"a\nb", "a\nb", TextForm()),
        (b"a\r\nb\r\n", "a\r\nb\r\n", TextForm(newline="\r\n")),
        (b"a\rb\r", "a\rb\r", TextForm(newline="\r")),
        (b"a\r\nb\nc\n", "a\r\nb\nc\n", TextForm(newline="\n")),
        (b"a\r\nb\r\nc\n", "a\r\nb\r\nc\n", TextForm(newline="\r\n")),
        (b"a\r\nb\n", "a\r\nb\n", TextForm(newline="\n")),
        ("ü€".encode(), "ü€", TextForm()),
        (b"\xef\xbb\xbfa", "a", TextForm(has_byte_order_mark=True)),
        (b"\xef\xbb\xbf", "", TextForm(has_byte_order_mark=True)),
        (b"\xff\xfea\0\r\0\n\0", "a\r\n", TextForm(encoding="utf-16-le", has_byte_order_mark=True, newline="\r\n")),
        (b"\xfe\xff\0a", "a", TextForm(encoding="utf-16-be", has_byte_order_mark=True)),
        (b"\xff\xfe\0\0a\0\0\0", "a", TextForm(encoding="utf-32-le", has_byte_order_mark=True)),
        (b"caf\xe9 \x80", "café €", TextForm(encoding="cp1252", is_guess=True)),
        (b"caf\xe9 \x81", "café \x81", TextForm(encoding="iso8859-1", is_guess=True)),
        (b"\x1b[31mred\x1b[0m\x0c", "\x1b[31mred\x1b[0m\x0c", TextForm()),
    ],
    ids=lambda value: repr(value) if isinstance(value, bytes) else "",
)  # fmt: skip
def test_the_form_of_a_text_is_found(content, text, form):
    assert decode(content) == (text, form)
    assert encode(text, form) == content


@pytest.mark.parametrize(
    "content",
    [
        b"a\0b", b"\0", b"\x89PNG\r\n\x1a\n", b"\x7fELF\x02\x01\x01\0", b"PK\x03\x04\x80", b"\x1f\x8b\x08\x00",
        b"GIF89a\x80\x01\x02", "utf-16 without a mark".encode("utf-16-le"), b"\xff\xfea\0\0\0", b"\xca\xfe\xba\xbe\0\0",
    ],
    ids=repr,
)  # fmt: skip
def test_binary_content_is_refused(content):
    with pytest.raises(ToolError, match="binary"):
        decode(content)


@pytest.mark.parametrize(
    "content", [b"\xff\xfea", b"\xef\xbb\xbf\xff", b"\xff\xfe\x00\xd8", b"\xfe\xff\xd8\x00"], ids=repr
)
def test_damaged_text_is_refused(content):
    with pytest.raises(ToolError, match="damaged"):
        decode(content)


def test_characters_that_an_encoding_does_not_have_are_named():
    with pytest.raises(ToolError, match=r"cp1252 text, which has no character U\+6F22"):
        encode("漢", TextForm(encoding="cp1252"))
    with pytest.raises(ToolError, match="surrogates"):
        encode("\ud800", TextForm())
