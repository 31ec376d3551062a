"""SecretTexts: what a service sends back of the credentials that it got."""

from __future__ import annotations

import base64
import copy
import html
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.redaction.texts import SecretTexts

SECRET = 'sk/ab+c"d é&z\\q'


def secrets_of(*texts: str, **options: bool) -> SecretTexts:
    """Return secrets with these texts."""
    secrets = SecretTexts()
    for text in texts:
        secrets.add(text, **options)
    return secrets


ENCODERS = {
    "plain": str,
    "json": lambda text: json.dumps(text)[1:-1],
    "json with unicode": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json in json": lambda text: json.dumps(json.dumps(text))[3:-3],
    "json of PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "json of .NET": lambda text: json.dumps(text)[1:-1].replace("+", "\\u002B").replace('\\"', "\\u0022"),
    "url": lambda text: urllib.parse.quote(text, safe=""),
    "url in lower case": lambda text: urllib.parse.quote(text, safe="").lower(),
    "path": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "html": html.escape,
    "repr": lambda text: repr(text)[1:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "base64": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 of URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("encode", ENCODERS.values(), ids=list(ENCODERS))
def test_a_secret_is_masked_in_each_encoding(encode):
    text = f"bad key {encode(SECRET)}!"
    assert secrets_of(SECRET).mask(text) == "bad key ***!"
    assert secrets_of(SECRET).mask_bytes(text.encode()) == b"bad key ***!"


@given(st.text(min_size=6, max_size=30), st.sampled_from(list(ENCODERS)))
def test_any_text_is_masked_in_each_encoding(secret, name):
    try:
        text = ENCODERS[name](secret)
    except UnicodeEncodeError:  # a lone surrogate
        return
    if name != "url in lower case" or secret == secret.lower():
        masked = secrets_of(secret).mask(f"<{text}>")
        assert masked.replace("\\", "") == "<***>"  # the escape of its first character may be left


def test_texts_without_the_secret_stay():
    assert secrets_of(SECRET, "123456").mask_json({"a": [1234567, True, None, "sk/ab", 1.5]}) == {
        "a": ["***7", True, None, "sk/ab", 1.5]
    }
    assert secrets_of("short").mask("a short text") == "a short text"
    assert secrets_of("......").mask("......") == "***"


def test_each_line_of_a_secret_is_masked():
    assert secrets_of("BEGIN KEY\nabcdefgh\nxyz").mask("abcdefgh and xyz") == "*** and xyz"


def test_what_is_masked_only_in_errors_stays_in_results_until_it_is_a_secret():
    secrets = secrets_of("eu-west-1", only_in_errors=True)
    assert secrets.mask("eu-west-1") == "eu-west-1"
    assert secrets.mask("eu-west-1", is_error=True) == "***"
    copied = copy.copy(secrets)
    copied.add("eu-west-1")
    copied.add("eu-west-1", only_in_errors=True)
    assert copied.mask("eu-west-1") == "***"
    assert secrets.mask("eu-west-1") == "eu-west-1"


@pytest.mark.parametrize(
    ("name", "value", "text", "masked"),
    [
        ("Authorization", "Bearer canary-1", "Bearer canary-1, canary-1", "Bearer ***, ***"),
        ("Authorization", "canary-1", "canary-1", "***"),
        ("Authorization", "Basic YW5uOmNhbmFyeS0x", "ann canary-1 ann:canary-1 YW5uOmNhbmFyeS0x", "ann *** *** ***"),
        ("Authorization", "Basic canary", "canary", "***"),
        ("Cookie", "a=canary-1; b=canary-2", "canary-2 canary-1", "*** ***"),
        ("X-Pass", "correct horse", "correct horse", "***"),
    ],
)
def test_a_header_is_masked_whole_and_in_parts(name, value, text, masked):
    secrets = SecretTexts()
    secrets.add_header(name, value)
    assert secrets.mask(text) == masked


@pytest.mark.parametrize(
    ("url", "text", "masked"),
    [
        ("https://ann:canary%2F1@host/x", "ann canary/1 canary%2F1", "ann *** ***"),
        ("https://canary-1@host/x", "canary-1", "***"),
        ("ssh://deploy@host/x", "deploy", "deploy"),
        ("http://[canary-1", "canary-1", "canary-1"),
        ("https://host/x?token=canary-1&region=eu-west-1", "canary-1 eu-west-1", "*** eu-west-1"),
        ("https://host/x?sig=canary-1", "canary-1", "***"),
    ],
)
def test_the_credentials_in_a_url_are_masked(url, text, masked):
    secrets = SecretTexts()
    secrets.add_url(url)
    assert secrets.mask(text) == masked


@pytest.mark.parametrize("encode", [str, repr, json.dumps, lambda text: json.dumps(text, ensure_ascii=False)])
def test_a_very_long_text_is_masked_as_it_is_and_as_a_literal(encode):
    text = "größe 'of' \"all\" things\n" * 1_000
    assert len(SecretTexts({"doc": text}).mask(f"see {encode(text)}!")) <= len("see '<doc>'!")


@pytest.mark.parametrize("part", ["\\", "\\\\n", "&amp;", "%5c", "\\u005c", "a\\"])
def test_a_long_text_is_searched_in_linear_time(part):
    """With backtracking over the escapes this would take forever."""
    secrets = secrets_of("\\" * 30 + "a&b", "a" + "\\\n" * 20 + "&")
    assert "end" in secrets.mask(part * 50_000 + "a&b end")


def test_several_values_are_shown_by_their_names_and_no_replacement_is_masked():
    secrets = SecretTexts({"api_key": "secret-value", "other": "api_key", "number": 12345678})
    assert secrets.mask("secret-value, 12345678, c2VjcmV0LXZhbHVl") == "<api_key>, <number>, <api_key>"
    assert secrets.mask_json({"secret-value": [12345678, 1.5]}) == {"<api_key>": ["<number>", 1.5]}
