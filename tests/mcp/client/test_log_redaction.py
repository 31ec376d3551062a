"""The protocol libraries log no bound value, credential or message of our connections, at any level."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import httpx2
import pytest
from fastmcp import FastMCP

from ahvn_tools import Toolkit, tool
from ahvn_tools.errors import ToolConnectionError
from tests.mcp.loopback import over_http
from tests.sources.http.service import respond, serve

BOUND, PASSWORD, KEY, HEADER = "bound-4242", "password-4242", "url-key-4242", "header-4242"

server = FastMCP("weather")


@server.tool
def weather(city: str, token: str) -> str:
    """Repeat the token, and so send it back."""
    return f"{city}: {token}"


@server.tool
def fails(city: str, token: str) -> str:
    """Repeat the token in an error."""
    raise ValueError(token)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Every record of every level."""
    caplog.set_level(logging.DEBUG)
    fastmcp_logger = logging.getLogger("fastmcp")  # it has handlers of its own
    before = fastmcp_logger.propagate, fastmcp_logger.level
    fastmcp_logger.propagate = True
    fastmcp_logger.setLevel(logging.DEBUG)
    yield caplog
    fastmcp_logger.propagate, fastmcp_logger.level = before


def logged(log: pytest.LogCaptureFixture) -> str:
    """Return what the background loop has logged, with tracebacks; the server has another thread, and may log more."""
    format_record = logging.Formatter("%(name)s %(message)s").format
    return "\n".join(format_record(record) for record in log.records if record.threadName == "ahvn-tools-loop")


def call_tools(target: object, **options: object) -> None:
    """Import the tools and call them with a bound token."""
    kit = Toolkit("kit").add_mcp(target, name="weather", **options)
    session = kit.bind("token").session(token=BOUND)
    assert session.call("weather", {"city": "Rome"}) == f"Rome: {BOUND}"
    assert session.exec("fails", {"city": "Rome"}).is_error
    kit.remove_mcp("weather")


def test_nothing_secret_is_logged_over_http(log: pytest.LogCaptureFixture) -> None:
    with over_http(server) as url:
        private = url.replace("//", f"//user:{PASSWORD}@") + f"?key={KEY}"
        call_tools(private, auth={"x-key": HEADER})
    text = logged(log)
    assert not [secret for secret in (BOUND, PASSWORD, KEY, HEADER) if secret in text]
    assert "mcp.client.streamable_http Sending client message: [not shown]" in text
    assert f'httpx2 HTTP Request: POST {url.removesuffix("mcp")}[not shown] "HTTP/1.1 200 OK"' in text
    assert "httpcore2.http11 receive_response_headers.complete return_value=[not shown]" in text


def test_nothing_secret_is_logged_by_a_server_in_this_process(log: pytest.LogCaptureFixture) -> None:
    call_tools(server)
    text = logged(log)
    assert BOUND not in text
    assert "[weather] Handler called: call_tool weather with [not shown]" in text


def test_requests_of_a_tool_are_logged_as_they_are(log: pytest.LogCaptureFixture) -> None:
    """A tool of the host may use the same library on the same event loop."""

    @tool
    async def status(url: str) -> int:
        async with httpx2.AsyncClient() as client:
            return (await client.get(url)).status_code

    with over_http(server) as url:
        call_tools(url)
        status(f"{url}?page=2")
    assert f"HTTP Request: GET {url}?page=2 " in logged(log)


def test_exception_in_a_record_is_named_without_its_text(log: pytest.LogCaptureFixture) -> None:
    odd = FastMCP("odd")
    library_logger = logging.getLogger("mcp.client.session_test")

    @odd.tool
    def write(token: str) -> str:
        try:
            raise ValueError(token)
        except ValueError as error:
            library_logger.exception("Error parsing an answer of %(what)s", {"what": error})
            library_logger.warning("%r took %.1f s from http:/%s", token, 1.5, token)
        return "written"

    kit = Toolkit("kit").add_mcp(odd).bind("token")
    assert kit.session(token=BOUND).call("write") == "written"
    kit.remove_mcp("odd")
    texts = [record.getMessage() for record in log.records if record.name == library_logger.name]
    assert texts == [
        "Error parsing an answer of [not shown] (ValueError)",
        "'[not shown]' took 1.5 s from http:/[not shown]",
    ]
    assert not any(record.exc_info for record in log.records if record.name == library_logger.name)


@pytest.mark.parametrize("auth", ["swordfish", {"X-Key": "swordfish"}])
def test_a_credential_in_the_reason_of_a_status_is_not_logged(
    log: pytest.LogCaptureFixture, auth: str | dict[str, str]
) -> None:
    with serve() as service:
        service.reply("/mcp", respond("swordfish", status="403 no swordfish today"))
        with pytest.raises(ToolConnectionError) as caught:
            Toolkit("kit").add_mcp(f"{service.url}/mcp", auth=auth)
    logging.getLogger("test").error("No connection.", exc_info=caught.value)
    text = logging.Formatter().format(log.records[-1]) + logged(log)
    assert "swordfish" not in text
    assert '403 no *** today"' in text
