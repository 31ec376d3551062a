"""What a response becomes."""

from __future__ import annotations

import gzip
import json
import logging
import zlib

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.errors import InvalidResultError, ToolConnectionError, ToolError
from tests.sources.http.service import Service, respond

OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def make(service: Service, **options) -> ToolSpec:
    return ToolSpec.from_http("fetch", f"{service.url}/x", **{"allow_private": True, "retry_count": 0, **options})


def test_json_is_the_value(service):
    service.reply("/x", respond('{"id": 1, "name": "ä"}'))
    assert make(service).call() == {"id": 1, "name": "ä"}


@pytest.mark.parametrize("content_type", ["application/vnd.api+json; charset=utf-8", "application/problem+json"])
def test_json_of_any_kind_is_recognized(service, content_type):
    service.reply("/x", respond("[1]", content_type=content_type))
    assert make(service).call() == [1]


def test_a_value_that_does_not_fit_the_output_schema_is_an_invalid_result(service):
    service.reply("/x", respond('{"id": 1}'), respond('{"id": "a"}'))
    spec = make(service, output_schema=OBJECT)
    assert spec.exec().structured_content == {"id": 1}
    assert spec.exec().error.code == "invalid_result"


def test_with_an_output_schema_a_text_that_is_json_counts_and_any_other_does_not(service):
    service.reply("/x", respond('{"id": 1}', content_type="text/plain"), respond("<p>", content_type="text/html"))
    spec = make(service, output_schema=OBJECT)
    assert spec.exec().structured_content == {"id": 1}
    with pytest.raises(InvalidResultError, match=r"\(text/html\) is not valid JSON"):
        spec.call()


def test_with_an_output_schema_an_image_is_an_invalid_result(service):
    service.reply("/x", respond(b"\x89PNG\r\n\x1a\n", content_type="image/png"))
    with pytest.raises(InvalidResultError, match="image/png instead of JSON"):
        make(service, output_schema=OBJECT).call()


@pytest.mark.parametrize("body", ["{", "NaN", "", '{"a": 1} x'])
def test_invalid_json_is_an_invalid_result(service, body):
    service.reply("/x", respond(body))
    if body:
        with pytest.raises(InvalidResultError, match="not valid JSON"):
            make(service).call()
    else:
        assert make(service).call() is None


def test_no_content_is_none(service):
    service.reply("/x", respond(status="204 No Content", content_type=None))
    assert make(service).call() is None


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain; charset=iso-8859-1", "Grüße".encode("latin-1")),
        ("text/plain; charset=unknown-8", "Grüße".encode()),
        ("text/plain; charset=base64", "Grüße".encode()),
        ("text/html", b"\xef\xbb\xbf" + "Grüße".encode()),
        ("application/xml", "Grüße".encode()),
        (None, "Grüße".encode()),
    ],
)
def test_a_text_is_decoded_with_its_character_set(service, content_type, body):
    service.reply("/x", respond(body, content_type=content_type))
    assert make(service).call() == "Grüße"


def test_bytes_that_are_no_text_do_not_fail_as_a_text(service):
    service.reply("/x", respond(b"a\xffb", content_type="text/plain"))
    assert make(service).call() == "a\ufffdb"


def test_images_and_other_data_are_content_blocks(service):
    service.reply(
        "/x", respond(b"\x89PNG\r\n\x1a\nabc", content_type="image/png"), respond(b"%PDF-1", content_type=None)
    )
    image, file = make(service).exec().content, make(service).exec().content
    assert (image[0].type, image[0].mime_type) == ("image", "image/png")
    assert (file[0].type, file[0].resource.mime_type) == ("resource", "application/pdf")


def test_a_response_that_is_too_large_is_an_invalid_result(service):
    service.reply("/x", respond("1" * 1001), respond("1" * 1000))
    spec = make(service, max_response_bytes=1000)
    with pytest.raises(InvalidResultError, match="larger than 1,000 bytes"):
        spec.call()
    assert spec.exec().value == int("1" * 1000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_response_is_read_and_its_size_counts_uncompressed(service, encoding):
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    small, bomb = compress(b'{"a": 1}'), compress(b"0" * 5_000_000)
    service.reply("/x", *(respond(data, Content_Encoding=encoding) for data in (small, bomb, bomb[:-20], b"nonsense")))
    spec = make(service, max_response_bytes=10_000)
    assert spec.call() == {"a": 1}
    for text in ("larger than 10,000", "larger than 10,000", "cannot be read"):
        with pytest.raises(InvalidResultError, match=text):
            spec.call()


def test_a_truncated_or_unknown_compression_is_an_invalid_result(service):
    replies = respond(gzip.compress(b"123456")[:-4], Content_Encoding="gzip"), respond(b"x", Content_Encoding="br")
    service.reply("/x", *replies)
    for text in ("cannot be read", "was not asked for"):
        with pytest.raises(InvalidResultError, match=text):
            make(service).call()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("404 Not Found", "HTTP 404 Not Found: no such user"),
        ("422 X", "HTTP 422 Unprocessable Entity: no such user"),
        ("599 X", "HTTP 599: no such user"),
        ("401 X", "HTTP 401 Unauthorized: the service requires credentials, which the tool's host has not provided"),
    ],
)
def test_an_error_status_is_a_tool_error_with_the_reason_and_a_part_of_the_body(service, status, text):
    service.reply("/x", respond("no such  user\n", status=status, content_type="text/plain"))
    result = make(service).exec()
    assert result.error.code == "tool_error"
    assert result.text.startswith(text)
    with pytest.raises(ToolError):
        make(service).call()


@pytest.mark.parametrize("body", ["Not Found", "not found.\n", "404 Not Found"])
def test_a_body_that_repeats_the_reason_of_the_status_is_not_shown(service, body):
    service.reply("/x", respond(body, status="404 Not Found", content_type="text/plain"))
    assert make(service).exec().text == "HTTP 404 Not Found."


def test_the_text_of_an_error_is_cut_and_shows_no_binary_data(service):
    service.reply(
        "/x",
        respond("x" * 5_000 + "\u202e", status="400 Bad Request", content_type="text/plain"),
        respond(b"\x00\x01\xff", status="400 Bad Request", content_type="image/png"),
    )
    spec = make(service)
    text = spec.exec().text
    assert text == f"HTTP 400 Bad Request: {'x' * 500}… (the beginning of 5,001 characters)"
    assert spec.exec().text == "HTTP 400 Bad Request."


def test_a_connection_that_breaks_is_a_connection_error(service):
    service.reply("/x", lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nabc")
    with pytest.raises(ToolConnectionError, match="was lost"):
        make(service).call()
    service.reply("/x", lambda _: b"")
    assert make(service).exec().error.code == "connection"
    service.reply("/x", lambda _: b"nonsense\r\n\r\nConnection: close")
    assert make(service).exec().error.code == "connection"


def test_a_service_that_does_not_run_is_a_connection_error(service):
    spec = ToolSpec.from_http("fetch", "http://127.0.0.1:1/x", allow_private=True, retry_count=0)
    with pytest.raises(ToolConnectionError, match="cannot be reached"):
        spec.call()


def test_a_slow_service_is_a_timeout_and_its_connection_is_closed(service):
    service.reply("/x", lambda _: b"x" * service.release.wait(60))
    spec = make(service, timeout=0.3)
    assert spec.exec().error.code == "timeout"
    service.release.set()
    assert service.closed.wait(60)


def test_the_log_has_no_value_of_a_call(service, caplog):
    service.reply("/x", respond('{"a": "canary-1"}', Set_Cookie="sid=canary-2"))
    spec = make(service, query=["q"])
    with caplog.at_level(logging.DEBUG):
        assert json.dumps(spec.call(q="canary-3"))
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("status", "headers", "text"),
    [
        ("429 Too Many Requests", {"Retry_After": "30"}, "HTTP 429 Too Many Requests: try again in 30 seconds."),
        ("503 Service Unavailable", {"Retry_After": "1"}, "HTTP 503 Service Unavailable: try again in 1 seconds."),
        ("503 Service Unavailable", {"Retry_After": "soon"}, "HTTP 503 Service Unavailable."),
        ("400 Bad Request", {"Retry_After": "30"}, "HTTP 400 Bad Request."),
    ],
)
def test_a_model_reads_how_long_it_has_to_wait(service, status, headers, text):
    service.reply("/x", respond(status=status, **headers))
    assert make(service).exec().text == text
