"""Which requests are sent again, and when."""

from __future__ import annotations

import asyncio
import email.utils
import time
from types import SimpleNamespace

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.errors import ToolError
from ahvn_tools.sources.http import sending
from ahvn_tools.sources.http.responses import retry_after_seconds
from tests.sources.http.service import Service, respond

TEMPORARY = ["429 X", "502 X", "503 X", "504 X"]


def make(service: Service, **options) -> ToolSpec:
    return ToolSpec.from_http("fetch", f"{service.url}/x", **{"allow_private": True, "retry_delay": 0, **options})


@pytest.mark.parametrize("status", TEMPORARY)
def test_a_temporary_status_is_tried_again(service, status):
    service.reply("/x", respond(status=status), respond(status=status), respond("1"))
    assert make(service).call() == 1
    assert len(service.received) == 3


def test_a_lost_connection_is_tried_again(service):
    service.reply("/x", lambda _: b"", respond("1"))
    assert make(service).call() == 1


@pytest.mark.parametrize("status", ["400 X", "404 X", "500 X", "501 X"])
def test_another_error_is_not_tried_again(service, status):
    service.reply("/x", respond(status=status))
    with pytest.raises(ToolError):
        make(service).call()
    assert len(service.received) == 1


def test_the_last_attempt_counts(service):
    service.reply("/x", respond("busy", status="503 X", content_type="text/plain"))
    result = make(service, retry_count=2).exec()
    assert result.text == "HTTP 503 Service Unavailable: busy"
    assert len(service.received) == 3


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_request_that_may_have_an_effect_twice_is_sent_once(service, method):
    service.reply("/x", respond(status="503 X"))
    assert make(service, method=method).exec().is_error
    service.reply("/x", lambda _: b"")
    assert make(service, method=method).exec().error.code == "connection"
    assert len(service.received) == 2


@pytest.mark.parametrize("hint", ["idempotentHint", "readOnlyHint"])
def test_a_tool_that_says_so_is_repeated_whatever_its_method_is(service, hint):
    service.reply("/x", respond(status="503 X"), respond("1"))
    assert make(service, method="POST", annotations={hint: True}).call() == 1


def test_a_request_that_was_never_sent_is_repeated_whatever_its_method_is(monkeypatch):
    delays = []

    async def sleep(seconds):
        delays.append(seconds)

    monkeypatch.setattr(sending, "asyncio", SimpleNamespace(sleep=sleep))
    spec = ToolSpec.from_http("fetch", "http://127.0.0.1:1/x", method="POST", allow_private=True, retry_count=2)
    assert asyncio.run(spec.aexec()).error.code == "connection"
    assert len(delays) == 2
    assert 1 <= delays[0] <= 1.25
    assert 2 <= delays[1] <= 2.25


def test_the_service_says_how_long_to_wait(service, monkeypatch):
    delays = []

    async def sleep(seconds):
        delays.append(seconds)

    date = email.utils.formatdate(time.time() + 20, usegmt=True)
    replies = [respond(status="429 X", Retry_After=value) for value in ("7", date, "soon")]
    service.reply("/x", *replies, respond("1"))
    monkeypatch.setattr(sending, "asyncio", SimpleNamespace(sleep=sleep))
    assert asyncio.run(make(service).acall()) == 1
    assert delays[0] == 7
    assert 10 < delays[1] <= 20
    assert delays[2] == 0


@pytest.mark.parametrize("timeout", [30, None])
def test_a_wait_that_does_not_fit_the_timeout_or_is_very_long_is_not_begun(service, timeout):
    service.reply("/x", respond(status="429 X", Retry_After="3600"))
    result = make(service, timeout=timeout).exec()
    assert result.text == "HTTP 429 Too Many Requests: try again in 3600 seconds."
    assert len(service.received) == 1


@pytest.mark.parametrize(
    ("header", "seconds"), [(None, None), ("", None), ("5", 5.0), ("-5", None), ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0)]
)
def test_the_header_retry_after_is_read(header, seconds):
    assert retry_after_seconds(header) == seconds
