"""Attacks through HTTP tools: by the arguments that a model sends, and by the service that answers."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import pickle
import socket
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from pydantic import SecretStr

from ahvn_tools import ToolResult, ToolSpec
from ahvn_tools.sources.http import connections
from ahvn_tools.sources.http.body import build_template
from ahvn_tools.sources.http.request import HTTPArgument, HTTPOptions, HTTPRequest
from tests.attacks.attack import CANARY, Attack, all_of, ends_with, equals, fails_silently, rows, shows_nothing
from tests.sources.http.service import Received, Reply, Service, redirect, respond, serve

Act = Callable[[Service], Any]


@pytest.fixture(autouse=True)
def short_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close unused connections soon, so that no test waits for it."""
    monkeypatch.setattr(connections, "KEEPALIVE_SECONDS", 0.1)


def at_service(act: Act) -> Callable[[], Any]:
    """Attack with a service that runs."""

    def attack() -> Any:
        with serve() as service:
            return act(service)

    return attack


def make(service: Service, path: str = "/x", **options: Any) -> ToolSpec:
    defaults = {"allow_private": True, "retry_count": 0, "auth_method": "api_key", "api_key": SecretStr(CANARY)}
    return ToolSpec.from_http("fetch", service.url + path, **{**defaults, **options})


def target_of(path: str, **arguments: Any) -> Callable[[], Any]:
    """Return the target that the service got; None if it got no request."""

    def act(service: Service) -> str | None:
        make(service, path).exec(**arguments)
        return service.last.target if service.received else None

    return at_service(act)


def target_with_key(*, input_schema: dict[str, Any], **arguments: Any) -> Callable[[], Any]:
    """Return the target that the service got of a tool whose credential is `key` in the query; None if it got none."""

    def act(service: Service) -> str | None:
        make(service, auth_method="api_key_query", api_key_name="key", input_schema=input_schema).exec(**arguments)
        return service.last.target if service.received else None

    return at_service(act)


def headers_of(options: dict[str, Any], state: dict[str, Any] | None = None, **arguments: Any) -> Callable[[], Any]:
    """Return the names of the headers that the service got beside the usual ones; None without a request."""
    usual = {"host", "accept", "accept-encoding", "user-agent", "authorization", "content-length", "content-type"}

    def act(service: Service) -> list[str] | None:
        spec = make(service, **options)
        spec.state = state or {}
        spec.exec(**arguments)
        return sorted(service.last.headers.keys() - usual) if service.received else None

    return at_service(act)


def result_of(reply: Reply, **options: Any) -> Callable[[], Any]:
    """Return the result of a call that the service answers so."""

    def act(service: Service) -> ToolResult:
        service.reply("/x", reply)
        return make(service, **options).exec()

    return at_service(act)


def body_of(options: dict[str, Any], state: dict[str, Any] | None = None, **arguments: Any) -> Callable[[], Any]:
    """Return the JSON body that the service got, or the text of a form; None without a request."""

    def act(service: Service) -> Any:
        spec = make(service, method="POST", **options)
        spec.state = state or {}
        spec.exec(**arguments)
        if not service.received:
            return None
        return service.last.body.decode() if options.get("body_type") == "form" else json.loads(service.last.body)

    return at_service(act)


def to_address(host: str) -> Callable[[], Any]:
    """Return the result of a call to a host of the service, which is not allowed, and how often it was connected to."""

    def act(service: Service) -> Any:
        spec = ToolSpec.from_http("fetch", f"http://{host}:{service.port}/x", retry_count=0)
        return asyncio.run(spec.aexec()), service.connections

    return at_service(act)


def leaks_nothing(outcome: Any) -> bool:
    """The redirect was followed, and the other service got no credential."""
    return CANARY not in str(outcome.value) and len(outcome.value[1]) == 1


def stays(outcome: Any) -> bool:
    """The redirect was not followed."""
    result, received = outcome.value
    return result.is_error and not received


def is_refused(outcome: Any) -> bool:
    """The call failed, and nothing was connected to."""
    if outcome.error is not None:
        return False
    result, connected = outcome.value
    return result.is_error and connected == 0


def rebind(service: Service) -> Any:
    """Answer the first question about a name with an allowed address, and all others with that of the service."""
    answers = [["192.0.2.1"], ["127.0.0.1"]]

    def getaddrinfo(_host: str, port: int, *_arguments: Any, **_options: Any) -> list[Any]:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    options = {"allow_private": ["192.0.2.0/24"], "timeout": 0.5, "retry_count": 0}
    with mock.patch.object(socket, "getaddrinfo", getaddrinfo):
        spec = ToolSpec.from_http("fetch", f"http://api.example:{service.port}/x", **options)
        return asyncio.run(spec.aexec()), service.connections


def redirected(location: str, **options: Any) -> Callable[[], Any]:
    """Return the result of a call that is redirected, and what another service got of it."""

    def act(service: Service) -> Any:
        with serve() as other:
            service.reply("/x", redirect(location.replace("OTHER", f"127.0.0.1:{other.port}"), "307 X"))
            result = make(service, **options).exec()
            return result, [f"{request}{request.headers}{request.body!r}" for request in other.received]

    return at_service(act)


def echo(request: Received) -> bytes:
    """Send back all that was received."""
    return respond(json.dumps([request.target, request.headers, request.body.decode()]))(request)


def echo_error(request: Received) -> bytes:
    """Send back all that was received, as an error."""
    return respond(json.dumps([request.target, request.headers]), status="400 X")(request)


def call_raises(reply: Reply) -> Callable[[], Any]:
    """Return the text of what `call` raises."""

    def act(service: Service) -> Any:
        service.reply("/x", reply)
        try:
            return make(service).call()
        except Exception as error:
            return f"{error}{error!r}{error.__cause__!r}"

    return at_service(act)


def pickled(service: Service) -> Any:
    """Return all that a pickle of a tool contains."""
    return repr(pickle.dumps(make(service)))


def listed(service: Service) -> Any:
    """Return all that is shown of a tool."""
    spec = make(service, header={"org": "X-Org"}).bind("org", "org", CANARY, secret=True)
    shown = [
        spec.to_jsonschema(),
        spec.to_prompt(),
        spec.definition,
        spec.body,
        vars(spec.body),
        spec.compiled.bindings,
    ]
    return f"{spec!r}{shown!r}"


def cookie_of(value: str) -> Callable[[], Any]:
    """Return the cookies that the service got with this bound value of one of them."""

    def act(service: Service) -> str:
        places = {"lang": HTTPArgument(location="cookie", name="lang")}
        request = HTTPRequest(method="GET", base_url=service.url, path="/x", arguments=places)
        made = build_template("fetch", {"type": "object"}, request, {}, http_options=HTTPOptions(allow_private=True))
        ToolSpec(*made).bind("lang", "lang", value).call()
        return service.last.headers["cookie"]

    return at_service(act)


def flood(service: Service) -> Any:
    """Send a response that never ends."""

    def answer(request: Received) -> bytes:
        with contextlib.suppress(OSError):
            request.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while True:
                request.connection.sendall(b"x" * 65_536)
        return b""

    service.reply("/x", answer)
    return make(service, max_response_bytes=1_000_000).exec()


ORG = {"header": {"org": "X-Org"}}
OPEN = {"type": "object", "properties": {}, "additionalProperties": True}

ATTACKS = [
    Attack("path: another segment", target_of("/u/{id}/notes", id="1/admin"), equals("/u/1%2Fadmin/notes")),
    Attack("path: parent", target_of("/u/{id}/notes", id=".."), equals(None)),
    Attack("path: encoded parent", target_of("/u/{id}/notes", id="%2e%2e"), equals(None)),
    Attack("path: parent encoded twice", target_of("/u/{id}/notes", id="%252e%252e"), equals(None)),
    Attack("path: parent inside", target_of("/u/{id}/notes", id="x/../../admin"), equals(None)),
    Attack("path: parent with a backslash", target_of("/u/{id}/notes", id="x\\..\\admin"), equals(None)),
    Attack("path: parent with a parameter", target_of("/u/{id}/notes", id="..;x"), equals(None)),
    Attack("path: parent of two arguments", target_of("/{a}{b}/x", a=".", b="."), equals(None)),
    Attack("path: empty", target_of("/u/{id}", id=""), equals(None)),
    Attack("path: a query", target_of("/u/{id}", id="1?admin=1"), equals("/u/1%3Fadmin%3D1")),
    Attack("path: a fragment", target_of("/u/{id}", id="1#x"), equals("/u/1%23x")),
    Attack("path: another host", target_of("/{id}", id="//evil.example/x"), equals("/%2F%2Fevil.example%2Fx")),
    Attack("path: a user before the host", target_of("/{id}", id="@evil.example"), equals("/%40evil.example")),
    Attack("path: another request", target_of("/{id}", id="x HTTP/1.1\r\nX: y"), equals(None)),
    Attack("path: zero byte", target_of("/{id}", id="a\0b"), equals(None)),
    Attack("query: another parameter", target_of("/x?q={q}", q="a&admin=1"), equals("/x?q=a%26admin%3D1")),
    Attack("query: a line", target_of("/x?q={q}", q="a\r\nX: y"), equals("/x?q=a%0D%0AX%3A%20y")),
    Attack("query: a surrogate", target_of("/x?q={q}", q="\ud800"), equals(None)),
    Attack("an argument named headers", headers_of({}, headers={"X-Admin": "1"}), equals(None)),
    Attack("an argument named as a bound header", headers_of(ORG, {"org": "a"}, org="evil"), equals(None)),
    Attack(
        "an argument named as a header, in an open schema", headers_of({"input_schema": OPEN}, Host="evil"), equals([])
    ),
    Attack("an argument named as the credential", headers_of({"input_schema": OPEN}, api_key="evil"), equals(None)),
    Attack("an argument named url", headers_of({}, api_url="http://evil.example"), equals(None)),
    Attack(
        "header: a line in a bound value",
        headers_of({**ORG, "binds": {"org": "org"}}, {"org": "a\r\nX: y"}),
        equals(None),
    ),
    Attack(
        "header: a line feed in a bound value",
        headers_of({**ORG, "binds": {"org": "org"}}, {"org": "a\nX: y"}),
        equals(None),
    ),
    Attack(
        "body: in the place of a bound member",
        body_of(
            {"body": {"org": "org_id"}, "input_schema": OPEN, "binds": {"org": "org"}}, {"org": "a"}, org_id="evil"
        ),
        equals(None),
    ),
    Attack(
        "body: the name of a bound member of a form, in an object",
        body_of(
            {"body_type": "form", "body": {"org": "org_id", "filter": "filter"}, "binds": {"org": "org"}},
            {"org": "a"},
            filter={"org_id": "evil"},
        ),
        equals("filter=%7B%22org_id%22%3A%22evil%22%7D&org_id=a"),
    ),
    Attack("query: the name of the credential", target_with_key(input_schema=OPEN, key="evil"), equals(None)),
    Attack("cookie: another cookie", cookie_of("de; admin=1"), equals("lang=de%3B%20admin=1")),
    Attack("cookie: a line", cookie_of("de\r\nX: y"), equals("lang=de%0D%0AX:%20y")),
    Attack("body: a member that the schema does not have", body_of({"body": ["a"]}, a=1, admin=True), equals(None)),
    Attack(
        "body: out of a text", body_of({"body": ["a"]}, a='","admin":true,"b":"'), equals({"a": '","admin":true,"b":"'})
    ),
    Attack("address: loopback", to_address("127.0.0.1"), is_refused),
    Attack("address: decimal", to_address("2130706433"), is_refused),
    Attack("address: octal", to_address("0177.0.0.1"), is_refused),
    Attack("address: hexadecimal", to_address("0x7f000001"), is_refused),
    Attack("address: short", to_address("127.1"), is_refused),
    Attack("address: zero", to_address("0"), is_refused),
    Attack("address: IPv6", to_address("[::1]"), is_refused),
    Attack("address: IPv4 in IPv6", to_address("[::ffff:127.0.0.1]"), is_refused),
    Attack("address: IPv4 by NAT64", to_address("[64:ff9b::7f00:1]"), is_refused),
    Attack("address: localhost", to_address("localhost"), is_refused),
    Attack("address: localhost with a dot", to_address("localhost."), is_refused),
    Attack("address: full-width digits", to_address("①②⑦.⓪.⓪.①"), is_refused),
    Attack("address: a name that changes its address", at_service(rebind), is_refused),
    Attack("redirect: to another server", redirected("http://OTHER/"), stays),
    Attack("redirect: to another server, without a scheme", redirected("//OTHER/"), stays),
    Attack("redirect: with the credential", redirected("http://OTHER/", follow_redirects=True), leaks_nothing),
    Attack(
        "redirect: to the metadata service",
        redirected("http://169.254.169.254/", follow_redirects=True, allow_private=["127.0.0.1"]),
        stays,
    ),
    Attack("redirect: to a file", redirected("file:///etc/passwd", follow_redirects=True), stays),
    Attack("response: the credential", result_of(echo), shows_nothing),
    Attack("response: the credential in an error", result_of(echo_error), fails_silently),
    Attack("response: the credential in an exception", call_raises(echo_error), shows_nothing),
    Attack("response: refused credentials", result_of(respond(f"bad {CANARY}", status="401 X")), fails_silently),
    Attack(
        "response: the credential in the reason",
        result_of(lambda _: f"HTTP/1.1 500 {CANARY}\r\nContent-Length: 0\r\n\r\n".encode()),
        fails_silently,
    ),
    Attack("response: a header with the credential", result_of(respond("1", X_Key=CANARY)), shows_nothing),
    Attack(
        "response: no HTTP",
        result_of(lambda _: f"{CANARY}\r\n\r\n".encode()),
        all_of(ends_with("connection"), fails_silently),
    ),
    Attack(
        "response: too large",
        result_of(respond("1" * 2_000_000), max_response_bytes=1_000_000),
        ends_with("invalid_result"),
    ),
    Attack("response: without an end", at_service(flood), ends_with("invalid_result")),
    Attack(
        "response: a bomb",
        result_of(respond(gzip.compress(b"0" * 30_000_000), Content_Encoding="gzip"), max_response_bytes=1_000_000),
        ends_with("invalid_result"),
    ),
    Attack(
        "response: a bomb in a bomb",
        result_of(respond(gzip.compress(gzip.compress(b"0" * 9_000_000)), Content_Encoding="gzip, gzip")),
        ends_with("invalid_result"),
    ),
    Attack("response: deep JSON", result_of(respond("[" * 500_000)), ends_with("invalid_result")),
    Attack("response: endless redirects", result_of(redirect("/x")), ends_with("tool_error")),
    Attack("the pickle of a tool", at_service(pickled), shows_nothing),
    Attack("all that is shown of a tool", at_service(listed), shows_nothing),
]


@pytest.mark.parametrize("attack", rows(ATTACKS))
def test_http(attack, carry_out):
    assert attack.holds(carry_out(attack))
