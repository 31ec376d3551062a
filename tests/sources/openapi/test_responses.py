"""What becomes of responses: those that the document describes, and others."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client

from ahvn_tools import Toolkit, ToolSpec
from tests.sources.openapi.documents import json_body, json_response, one_operation
from tests.sources.openapi.echo_server import EchoServer

PET = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
PETS = {"type": "array", "items": PET}


def make(echo: EchoServer, schema: Any = PET, status: str = "200", **options: Any) -> ToolSpec:
    """Return the tool of an operation that documents JSON of this schema."""
    responses = {status: json_response(schema)["200"]}
    whole = one_operation({"operationId": "add_pet", "responses": responses}, method="post")
    return ToolSpec.from_openapi(whole, base_url=echo.url, **options)["add_pet"]


class TestRelaxed:
    @pytest.mark.parametrize("status", [200, 201, 204])
    @pytest.mark.parametrize(("schema", "content"), [(PET, {}), (PETS, {"result": None})], ids=["object", "list"])
    async def test_a_response_without_a_body_is_none(self, echo: EchoServer, status: int, schema: Any, content: Any):
        echo.answer("/things", None, status=status)
        spec = make(echo, schema)
        for result in (spec.exec(), await spec.aexec()):
            assert (result.error, result.value, result.structured_content) == (None, None, content)
        assert spec.call() is None

    async def test_a_client_of_mcp_accepts_it(self, echo: EchoServer):
        echo.answer("/things", None, status=204)
        async with Client(Toolkit("k").add(make(echo)).to_fastmcp_server()) as client:
            result = await client.call_tool("add_pet", {})
        assert (result.is_error, result.structured_content) == (False, {})

    def test_a_status_that_is_not_documented_may_have_any_body(self, echo: EchoServer):
        echo.answer("/things", {"id": "job-1"}, status=202)
        result = make(echo).exec()
        assert (result.error, result.value, result.text) == (None, {"id": "job-1"}, '{"id": "job-1"}')
        echo.answer("/things", b"queued", status=202, media_type="text/plain")
        assert make(echo).call() == "queued"

    @pytest.mark.parametrize("status", ["200", "2XX", "2xx"])
    def test_a_status_that_is_documented_must_fit(self, echo: EchoServer, status: str):
        echo.answer("/things", {"id": "job-1"})
        assert make(echo, status=status).exec().error.code == "invalid_result"


@pytest.mark.parametrize("status", [200, 204])
def test_an_exact_response_has_a_body(echo: EchoServer, status: int):
    echo.answer("/things", None, status=status)
    assert make(echo, responses="exact").exec().error.code == "invalid_result"


def test_the_error_about_a_response_says_what_was_expected_and_how_to_accept_it(echo: EchoServer):
    echo.answer("/things", {"id": "s3cret"})
    error = make(echo).exec().error
    assert error.message == (
        "The service has processed the request, but its response is not one that the tool may return."
    )
    explanation = error.exception.explanation
    assert "the output schema is that of the responses with status 200 of POST /things in the document." in explanation
    assert "'properties/id/anyOf'" in explanation or "properties/id" in explanation
    assert "The request has been processed." in explanation
    assert "responses='none'" in explanation
    assert "s3cret" not in explanation
    echo.answer("/things", {"id": "s3cret"})
    assert make(echo, responses="none").call() == {"id": "s3cret"}


class TestAlternatives:
    SOURCE = {"oneOf": [{"type": "object", "properties": {name: {"type": "string"}}} for name in ("card", "iban")]}

    @pytest.mark.parametrize("strict", [False, True])
    def test_overlapping_alternatives_of_a_request_are_accepted(self, echo: EchoServer, strict: bool):
        body = json_body({"type": "object", "properties": {"source": self.SOURCE, "amount": {"type": "integer"}}})
        kit = Toolkit("k").add(
            *ToolSpec.from_openapi(one_operation({"requestBody": body}, method="post"), base_url=echo.url).values()
        )
        assert "oneOf" not in str(kit.to("openai", strict=strict))
        for source in ({"card": "1"}, {"iban": "2"}):
            assert kit.exec("call", {"source": source}).error is None
        assert kit.exec("call", {"source": 5}).error.code == "invalid_parameters"
