"""How an HTTP tool authenticates, and where its credentials never are."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import time
from urllib.parse import parse_qs

import pytest
from pydantic import SecretStr

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError, ToolConnectionError, ToolError, UnboundStateError
from tests.sources.http.service import Service, respond

KEY = "canary-key-1"


def make(service: Service, **options) -> ToolSpec:
    return ToolSpec.from_http("fetch", f"{service.url}/x", **{"allow_private": True, "retry_count": 0, **options})


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("FETCH_KEY", KEY)


@pytest.mark.parametrize(
    ("options", "header", "value"),
    [
        ({"auth_method": "api_key", "api_key": SecretStr(KEY)}, "authorization", f"Bearer {KEY}"),
        ({"auth_method": "api_key", "api_key": "${FETCH_KEY}"}, "authorization", f"Bearer {KEY}"),
        ({"auth_method": "api_key_header", "api_key": lambda: KEY}, "x-api-key", KEY),
        ({"auth_method": "api_key_header", "api_key_name": "X-K", "api_key": lambda state: state["k"]}, "x-k", KEY),
        (
            {"auth_method": "basic", "username": "ann", "password": SecretStr(KEY)},
            "authorization",
            f"Basic {base64.b64encode(f'ann:{KEY}'.encode()).decode()}",
        ),
        ({"headers": {"Authorization": "Token ${FETCH_KEY}"}}, "authorization", f"Token {KEY}"),
        ({"headers": {"X-Org": SecretStr(KEY)}}, "x-org", KEY),
    ],
)
def test_a_credential_is_sent_and_shown_nowhere(service, environment, caplog, options, header, value):
    spec = make(service, **options)
    spec.state = {"k": KEY}
    service.reply("/x", lambda request: respond(json.dumps(request.headers))(request))
    with caplog.at_level(logging.DEBUG):
        result = spec.exec()
    assert service.last.headers[header] == value
    assert list(spec.params) == []
    spec.state = {}
    shown = (
        f"{spec!r}{spec.body!r}{vars(spec.body)}{spec.definition!r}{spec.compiled.bindings!r}{result!r}{caplog.text}"
    )
    for secret in (KEY, value, base64.b64encode(f"ann:{KEY}".encode()).decode()):
        assert secret not in shown
        assert secret.encode() not in pickle.dumps(spec)


async def test_an_async_resolver_gives_the_credential(service):
    async def find() -> str:
        await asyncio.sleep(0)
        return KEY

    await make(service, auth_method="api_key", api_key=find).acall()
    assert service.last.headers["authorization"] == f"Bearer {KEY}"


def test_a_key_may_be_sent_in_the_query(service):
    service.reply("/x", lambda request: respond(request.target, status="400 X", content_type="text/plain")(request))
    spec = make(service, auth_method="api_key_query", api_key_name="key", api_key=SecretStr("canary/key"), query=["q"])
    result = spec.exec(q="a")
    assert service.last.target == "/x?q=a&key=canary%2Fkey"
    assert "canary" not in result.text
    with pytest.raises(ToolError) as caught:
        spec.call(q="a")
    assert "canary" not in str(caught.value)


def test_each_session_may_have_its_own_credential(service):
    kit = Toolkit("t")
    kit.add(make(service, auth_method="api_key", binds={"api_key": "user.token"}))
    for name in ("ann", "bob"):
        kit.session(user={"token": f"token-{name}"}).call("fetch")
        assert service.last.headers["authorization"] == f"Bearer token-{name}"


def test_a_toolkit_never_sends_another_credential_to_the_service(service, environment):
    kit = Toolkit("t").bind("api_key", "weather.key", "weather-key", secret=True)
    for credential in ("${FETCH_KEY}", SecretStr(KEY), lambda: KEY):
        kit.add(make(service, auth_method="api_key", api_key=credential), on_duplicate="replace")
        kit.call("fetch")
        assert service.last.headers["authorization"] == f"Bearer {KEY}"


def test_only_secrets_are_masked_in_what_the_service_sends_back(service):
    service.reply("/x", respond('{"user": "ann-smith", "org": "acme-corp"}'))
    spec = make(service, auth_method="basic", username="ann-smith", password=SecretStr(KEY), header={"org": "X-Org"})
    assert spec.bind("org", "org", "acme-corp").call() == {"user": "ann-smith", "org": "acme-corp"}


def test_a_missing_variable_is_named_to_the_host_and_not_to_the_model(service, caplog, monkeypatch):
    monkeypatch.delenv("FETCH_KEY", raising=False)
    spec = make(service, auth_method="api_key", api_key="${FETCH_KEY}")
    result = spec.exec()
    assert result.error.code == "unbound_state"
    assert "FETCH_KEY" not in result.text
    assert "FETCH_KEY" in caplog.text
    with pytest.raises(UnboundStateError, match="FETCH_KEY"):
        spec.call()
    assert service.received == []


def test_a_pickled_tool_reads_its_variable_again_and_has_no_secret_value(service, environment):
    by_name = pickle.loads(pickle.dumps(make(service, auth_method="api_key", api_key="${FETCH_KEY}")))
    by_name.call()
    assert service.last.headers["authorization"] == f"Bearer {KEY}"
    by_value = pickle.loads(pickle.dumps(make(service, auth_method="api_key", api_key=SecretStr(KEY))))
    with pytest.raises(UnboundStateError, match="left out of the pickle"):
        by_value.call()


@pytest.mark.parametrize("value", ["", "a\r\nX-Admin: 1", 5])
def test_a_credential_that_no_header_takes_is_a_connection_error(service, value, caplog):
    result = make(service, auth_method="api_key", api_key=lambda: value).exec()
    assert result.error.code in {"connection", "unbound_state"}
    assert "'api_key'" in caplog.text
    assert "Admin" not in caplog.text + result.text
    assert service.received == []


@pytest.mark.parametrize(
    ("status", "text"), [("401 X", "refused the credentials"), ("403 X", "refused the credentials")]
)
def test_refused_credentials_are_told_without_showing_them(service, status, text):
    service.reply("/x", respond(f"bad key {KEY}", status=status, content_type="text/plain"))
    result = make(service, auth_method="api_key", api_key=SecretStr(KEY)).exec()
    assert result.error.code == "tool_error"
    assert text in result.text
    assert "bad key ***" in result.text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"auth_method": "bearer"}, "auth_method must be"),
        ({"auth_method": "api_key"}, "needs 'api_key'"),
        ({"auth_method": "api_key", "api_key": "canary-1"}, "must not be a plain text"),
        ({"api_key": SecretStr("canary-1")}, "is for auth_method='api_key' or"),
        ({"auth_method": "basic", "username": "ann"}, "needs 'password'"),
        ({"auth_method": "basic", "username": "ann", "password": "canary-1"}, "must not be a plain text"),
        ({"auth_method": "oauth", "client_id": "a", "client_secret": SecretStr("canary-1")}, "needs 'token_url'"),
        (
            {"auth_method": "oauth", "client_id": "a", "client_secret": SecretStr("canary-1"), "token_url": "x"},
            "begins with https://",
        ),
        ({"auth_method": "api_key", "api_key": "${K}", "query": ["api_key"]}, "is an argument and a credential"),
        ({"headers": {"X": 5}}, "must not be a plain text"),
    ],
)
def test_wrong_credentials_are_refused_where_the_tool_is_made(options, text):
    with pytest.raises(DefinitionError) as caught:
        ToolSpec.from_http("fetch", "https://x.example", **options)
    assert text in str(caught.value)
    assert "canary" not in str(caught.value)


def test_credentials_are_never_sent_without_encryption():
    options = {"auth_method": "api_key", "api_key": "${K}"}
    with pytest.raises(DefinitionError, match="use https"):
        ToolSpec.from_http("fetch", "http://x.example", **options)
    ToolSpec.from_http("fetch", "http://10.0.0.1", allow_private=["10.0.0.1"], **options)


def oauth(service: Service, **options) -> ToolSpec:
    return make(
        service,
        **{
            "auth_method": "oauth",
            "client_id": "client-1",
            "client_secret": SecretStr(KEY),
            "token_url": f"{service.url}/token",
            "scope": "read write",
            **options,
        },
    )


def token(text: str, expires_in: int = 3600) -> str:
    return json.dumps({"access_token": text, "token_type": "Bearer", "expires_in": expires_in})


def test_a_token_is_fetched_once_and_sent_with_each_request(service):
    service.reply("/token", respond(token("token-1")))
    spec = oauth(service, client_id="client-a")
    spec.call()
    spec.call()
    assert [request.target for request in service.received] == ["/token", "/x", "/x"]
    request = service.received[0]
    assert request.headers["authorization"] == f"Basic {base64.b64encode(f'client-a:{KEY}'.encode()).decode()}"
    assert parse_qs(request.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["read write"]}
    assert service.last.headers["authorization"] == "Bearer token-1"


def test_the_client_may_authenticate_in_the_body(service):
    service.reply("/token", respond(token("token-1")))
    oauth(service, client_id="b", client_authentication="client_secret_post", token_audience="api", scope="").call()
    assert parse_qs(service.received[0].body.decode()) == {
        "grant_type": ["client_credentials"],
        "client_id": ["b"],
        "client_secret": [KEY],
        "audience": ["api"],
    }


def test_an_expired_token_and_one_that_the_service_refuses_are_fetched_again(service):
    service.reply("/token", respond(token("t-1", 10)), respond(token("t-2")), respond(token("t-3")))
    service.reply("/x", respond("{}"), respond("{}"), respond(status="401 X"), respond("{}"))
    spec = oauth(service, client_id="client-c")
    for _ in range(3):
        spec.call()
    sent = [request.headers["authorization"] for request in service.received if request.target == "/x"]
    assert sent == ["Bearer t-1", "Bearer t-2", "Bearer t-2", "Bearer t-3"]


async def test_concurrent_calls_fetch_one_token(service):
    service.reply("/token", respond(token("token-1")))
    spec = oauth(service, client_id="client-d")
    await asyncio.gather(*(spec.acall() for _ in range(20)))
    assert sum(request.target == "/token" for request in service.received) == 1


@pytest.mark.parametrize(
    "reply",
    [
        respond('{"error": "invalid_client", "error_description": "canary-key-1"}', status="401 X"),
        respond("canary-key-1", status="500 X", content_type="text/plain"),
        respond('{"access_token": ""}'),
        respond('{"access_token": "a\\r\\nb"}'),
        respond('{"access_token": "abc", "token_type": "mac"}'),
        respond("{"),
        respond(status="302 Found", location="/elsewhere"),
        respond("x" * 200_000),
    ],
)
def test_a_token_endpoint_that_fails_is_a_connection_error_without_the_secret(service, reply, caplog):
    service.reply("/token", reply)
    spec = oauth(service, client_id="client-e", auth_method="oauth")
    with caplog.at_level(logging.DEBUG):
        result = spec.exec()
    assert result.error.code == "connection"
    with pytest.raises(ToolConnectionError) as caught:
        spec.call()
    assert KEY not in f"{result!r}{caplog.text}{caught.value}"
    assert all(request.target == "/token" for request in service.received)


def test_the_token_is_masked_in_what_the_service_sends_back(service):
    service.reply("/token", respond(token("canary-token")))
    service.reply("/x", lambda request: respond(json.dumps(request.headers))(request))
    assert "canary" not in oauth(service, client_id="client-f").exec().text


def test_a_token_is_kept_no_longer_than_it_is_valid(service, monkeypatch):
    service.reply("/token", respond(token("t-1", 100)), respond(token("t-2")))
    spec = oauth(service, client_id="client-g")
    spec.call()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 80)
    spec.call()
    assert service.last.headers["authorization"] == "Bearer t-2"


@pytest.mark.parametrize("status", ["200 OK", "400 X"])
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"key": "canary\\/1+2"}', "application/json"),
        (b'{"key": "canary\\u002f1\\u002B2"}', "application/json"),
        ('{"key": "canary/1+2"}'.encode("utf-16"), "application/json; charset=utf-16"),
        (b"canary/1+2", "text/plain; charset=latin-1"),
        (b"canary/1+2", None),
        (b"canary%2F1%2B2", "text/html"),
    ],
)
def test_a_credential_is_masked_in_each_encoding_of_a_response(service, status, body, content_type):
    service.reply("/x", respond(body, status=status, content_type=content_type))
    result = make(service, auth_method="api_key", api_key=SecretStr("canary/1+2")).exec()
    assert "canary" not in result.text
    assert "***" in result.text
