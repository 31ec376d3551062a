"""Security schemes: which credentials a request is sent with."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import SecretStr

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import ToolConnectionError
from ahvn_tools.middleware.retry import retry
from tests.sources.openapi.documents import one_operation
from tests.sources.openapi.echo_server import EchoServer

SCHEMES = {
    "headerKey": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "queryKey": {"type": "apiKey", "in": "query", "name": "key"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
}
STATE = {
    "hk": "value-of-key",
    "token": "value-of-token",
    "qk": "value-of-query",
    "user": "ann",
    "word": "value-of-word",
}
KEYS = {
    "headerKey": "hk",
    "queryKey": "qk",
    "bearer": "token",
    "basic_username": "user",
    "basic_password": "word",
}


def make(echo: EchoServer, security: Any, bound: list[str], **options: Any) -> Toolkit:
    """Return a toolkit with one tool, of whose credentials some are bound."""
    whole = one_operation({"security": security}, components={"securitySchemes": SCHEMES})
    kit = Toolkit("shop").add(*ToolSpec.from_openapi(whole, base_url=echo.url, **options).values())
    for name in bound:
        kit.bind(name, KEYS[name], secret=True)
    return kit


def sent(echo: EchoServer) -> dict[str, str]:
    """Return the credentials of the last request."""
    headers = echo.last["headers"]
    found = {"x-key": headers.get("x-key"), "authorization": headers.get("authorization"), "query": echo.last["query"]}
    return {name: value for name, value in found.items() if value}


class TestAlternatives:
    @pytest.mark.parametrize(
        ("security", "bound", "expected"),
        [
            ([{"headerKey": []}, {}], ["headerKey"], {"x-key": "value-of-key"}),
            ([{}, {"headerKey": []}], ["headerKey"], {"x-key": "value-of-key"}),
            ([{}, {"headerKey": []}], [], {}),
            ([{"bearer": []}, {"headerKey": []}], ["headerKey"], {"x-key": "value-of-key"}),
            ([{"bearer": []}, {"headerKey": []}], ["bearer", "headerKey"], {"authorization": "Bearer value-of-token"}),
            (
                [{"bearer": []}, {"headerKey": [], "queryKey": []}],
                ["headerKey", "queryKey"],
                {"x-key": "value-of-key", "query": "key=value-of-query"},
            ),
            ([{"bearer": []}, {"basic": []}], ["basic_username", "basic_password"], {"authorization": "Basic "}),
            ([{"bearer": [], "basic": []}], ["basic_username", "basic_password"], {"authorization": "Basic "}),
            ([{"basic": []}, {"headerKey": []}], ["basic_username", "headerKey"], {"x-key": "value-of-key"}),
        ],
    )
    async def test_the_first_with_all_credentials_is_sent(
        self, echo: EchoServer, security: Any, bound: list[str], expected: dict[str, str]
    ):
        session = make(echo, security, bound).session(**STATE)
        for result in (session.exec("call", {}), await session.aexec("call", {})):
            assert result.error is None
            assert {name: value[: len(expected[name])] for name, value in sent(echo).items()} == expected

    def test_each_session_sends_the_one_that_it_has_credentials_for(self, echo: EchoServer):
        kit = make(echo, [{"bearer": []}, {"headerKey": []}], ["bearer", "headerKey"])
        kit.session(hk="value-of-ann").call("call", {})
        assert sent(echo) == {"x-key": "value-of-ann"}
        kit.session(token="value-of-bob").call("call", {})
        assert sent(echo) == {"authorization": "Bearer value-of-bob"}

    def test_credentials_of_the_host_are_used_where_a_session_has_none(self, echo: EchoServer):
        auth = {"headerKey": SecretStr("value-of-host")}
        kit = make(echo, [{"bearer": []}, {"headerKey": []}], ["bearer"], auth=auth)
        kit.call("call", {})
        assert sent(echo) == {"x-key": "value-of-host"}
        kit.session(token="value-of-ann").call("call", {})
        assert sent(echo) == {"authorization": "Bearer value-of-ann"}

    def test_without_credentials_the_error_names_all_of_them(self, echo: EchoServer):
        kit = make(echo, [{"bearer": []}, {"headerKey": [], "queryKey": []}], ["headerKey"])
        with pytest.raises(ToolConnectionError) as caught:
            kit.session(**STATE).call("call", {})
        assert "needs a value for 'bearer', or 'headerKey' and 'queryKey'." in str(caught.value)
        assert "value-of" not in str(caught.value)
        assert echo.received == []

    def test_a_model_can_set_none_of_them(self, echo: EchoServer):
        places = [{"name": name, "in": place, "schema": {}} for name, place in (("X-Key", "header"), ("key", "query"))]
        whole = one_operation(
            {"security": [{"headerKey": []}, {"queryKey": []}, {}], "parameters": places},
            components={"securitySchemes": SCHEMES},
        )
        spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
        assert spec.params == {}
        assert spec.exec(headerKey="x").error.code == "invalid_parameters"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Bearer s3cret-1", "'bearer' of tool 'call' begins with 'bearer', which is sent before it: remove that."),
        ("bearer s3cret-1", "begins with 'bearer'"),
        ("s3cret-1\n", "'bearer' of tool 'call' begins or ends with a space or a line break: remove it."),
        (" s3cret-1", "begins or ends with a space or a line break"),
    ],
)
def test_a_token_that_cannot_be_meant_is_refused(echo: EchoServer, value: str, message: str):
    whole = one_operation({"security": [{"bearer": []}]}, components={"securitySchemes": SCHEMES})
    specs = ToolSpec.from_openapi(whole, base_url=echo.url, auth={"bearer": SecretStr(value)})
    error = specs["call"].exec().error
    assert (error.code, message in str(error.exception)) == ("connection", True)
    assert "s3cret" not in str(error.exception)
    assert echo.received == []


def test_a_call_without_a_credential_is_not_repeated(echo: EchoServer):
    kit = make(echo, [{"bearer": []}], [])
    kit.use(retry(initial_delay=0.001))
    result = kit.exec("call", {})
    assert (result.error.code, result.meta.get("attempts")) == ("connection", None)


def test_data_of_a_tool_has_its_alternatives(echo: EchoServer):
    whole = one_operation(
        {"security": [{"bearer": []}, {"headerKey": []}, {}]}, components={"securitySchemes": SCHEMES}
    )
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"].bind("headerKey", "hk", secret=True)
    for copy in (ToolSpec.from_dict(spec.to_dict(), trust=[echo.url, "<private>"]), pickle.loads(pickle.dumps(spec))):
        assert copy.body.request == spec.body.request


def test_a_secret_binding_reaches_a_document_from_a_url_where_the_host_names_the_scheme(echo: EchoServer):
    whole = one_operation({"security": [{"bearer": []}]}, components={"securitySchemes": SCHEMES}, server=echo.url)
    options = {"document_url": f"{echo.url}/openapi.json"}
    kit = Toolkit("k").add(*ToolSpec.from_openapi(whole, **options).values()).bind("bearer", "token", secret=True)
    error = kit.session(**STATE).exec("call", {}).error
    assert "Secret bindings of a toolkit do not reach a document from a URL" in str(error.exception)
    assert echo.received == []
    specs = ToolSpec.from_openapi(whole, **options, security_schemes={"bearer": SCHEMES["bearer"]})
    kit = Toolkit("k").add(*specs.values()).bind("bearer", "token", secret=True)
    assert kit.session(**STATE).exec("call", {}).error is None
    assert sent(echo) == {"authorization": "Bearer value-of-token"}
