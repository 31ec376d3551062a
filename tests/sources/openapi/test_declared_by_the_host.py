"""What the host declares for a document: security schemes that it lacks, tags, and values that calls need."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastmcp import Client, FastMCP

from ahvn_tools import Toolkit, ToolSpec, load
from ahvn_tools.errors import SourceError
from ahvn_tools.middleware import keep_large
from tests.sources.openapi.echo_server import EchoServer

KEY = {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}}


def pets(**changes: Any) -> dict[str, Any]:
    tenant = {"name": "tenant", "in": "query", "schema": {"type": "string"}}
    operation = {"summary": "List pets", "parameters": [tenant], "tags": ["pets"]}
    paths = {
        "/pets": {"get": {**operation, "operationId": "listPets"}},
        "/open": {"get": {"operationId": "isOpen", "summary": "Is it open?", "security": []}},
    }
    return {"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "paths": paths, **changes}


def in_python(document: dict[str, Any], url: str, **options: Any) -> Toolkit:
    return Toolkit("pets").add(*ToolSpec.from_openapi(document, base_url=url, **options).values())


def in_a_manifest(document: dict[str, Any], url: str, **options: Any) -> Toolkit:
    Path("pets.json").write_text(yaml.safe_dump(document))
    Path("pets.yaml").write_text(yaml.safe_dump(document))
    source = {"openapi": "pets.yaml", "base_url": url, **options}
    Path("kit.yaml").write_text(yaml.safe_dump({"sources": [source]}))
    return load("kit.yaml")


@pytest.fixture(params=[in_python, in_a_manifest])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return request.param


class TestSecuritySchemes:
    def test_each_user_has_a_key_of_a_scheme_that_the_document_lacks(self, make: Any, echo: EchoServer):
        kit = make(pets(), echo.url, security_schemes=KEY).bind("key", "user.key", secret=True)
        kit.session(user={"key": "key-of-ann"}).call("listPets")
        assert echo.last["headers"]["x-api-key"] == "key-of-ann"
        assert "key" not in kit["listPets"].params
        kit.session(user={"key": "key-of-bob"}).call("isOpen")  # which says that it needs nothing
        assert "x-api-key" not in echo.last["headers"]

    def test_auth_is_the_key_for_all(self, make: Any, echo: EchoServer, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("PET_KEY", "key-of-all")
        make(pets(), echo.url, security_schemes=KEY, auth={"key": "${PET_KEY}"}).call("listPets")
        assert echo.last["headers"]["x-api-key"] == "key-of-all"

    def test_the_requirements_of_the_document_stay(self, make: Any, echo: EchoServer):
        token = {"token": {"type": "http", "scheme": "bearer"}}
        document = pets(components={"securitySchemes": token}, security=[{"token": [], "key": []}])
        kit = make(document, echo.url, security_schemes=KEY).bind("key").bind("token")
        kit.session(key="k", token="t").call("listPets")
        assert [echo.last["headers"][name] for name in ("x-api-key", "authorization")] == ["k", "Bearer t"]

    @pytest.mark.parametrize(
        ("schemes", "auth", "message"),
        [
            ({}, {"key": "${K}"}, "security_schemes={'key':"),
            (KEY, {"kye": "${K}"}, "is declared in `security_schemes`"),
            ({"x-key": KEY["key"]}, {}, "must not begin with 'x-'"),
            ({"key": {"type": "apiKey"}}, {}, "an API key needs a `name`"),
            ({"key": {"type": "magic"}}, {}, "is not supported"),
        ],
    )
    def test_what_does_not_fit_is_an_error(self, make: Any, schemes: Any, auth: Any, message: str):
        with pytest.raises(SourceError, match=message):
            make(pets(), "https://pets.example", security_schemes=schemes, auth=auth)


def test_tags_that_choose_nothing_in_a_manifest_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert len(in_a_manifest(pets(), "https://pets.example", tags=["pets"])) == 2
    assert "write `operation_tags: [pets]`" in caplog.text
    caplog.clear()
    assert len(in_a_manifest(pets(), "https://pets.example", tags=["animals"])) == 2
    assert len(in_a_manifest(pets(), "https://pets.example", tags=["pets"], operation_tags=["pets"])) == 1
    assert caplog.text == ""


def test_an_unknown_http_option_names_the_key_of_a_manifest(make: Any):
    name = "http" if make is in_python else "http_options"
    with pytest.raises(SourceError, match=r"`http` \(`http_options` in a manifest\)"):
        make(pets(), "https://pets.example", **{name: {"retries": 2}})


def local() -> ToolSpec:
    def list_pets(tenant: str = "all") -> str:
        """List pets."""
        return tenant

    return ToolSpec.from_function(list_pets, name="listPets")


def over_http(echo: EchoServer) -> ToolSpec:
    return ToolSpec.from_http(
        "listPets",
        f"{echo.url}/pets",
        allow_private=["127.0.0.1"],
        input_schema={"type": "object", "properties": {"tenant": {"type": "string"}}},
    )


KINDS = ("function", "openapi", "http", "mcp")


@pytest.fixture(params=KINDS)
async def kit(request: pytest.FixtureRequest, echo: EchoServer) -> Any:
    if request.param == "openapi":
        yield in_python(pets(), echo.url)
    elif request.param == "mcp":
        server = FastMCP("pets")
        server.tool(local().function, name="listPets")
        kit = Toolkit("pets")
        await kit.aadd_mcp(server, name="pets")
        yield kit
        await kit.servers["pets"].aclose()
    else:
        yield Toolkit("pets").add(local() if request.param == "function" else over_http(echo))


class TestRequiredBindings:
    @pytest.mark.parametrize("state", [{}, {"tenant": None}])
    async def test_a_call_without_a_value_fails_and_sends_nothing(self, kit: Toolkit, echo: EchoServer, state: Any):
        kit.bind("tenant", required=True)
        result = await kit.session(**state).aexec("listPets")
        assert result.error is not None
        assert result.error.code == "unbound_state"
        assert echo.received == []
        assert (await kit.session(tenant="acme").aexec("listPets")).error is None

    async def test_without_it_an_optional_parameter_is_left_out(self, kit: Toolkit):
        kit.bind("tenant")
        assert (await kit.session().aexec("listPets")).error is None


def test_copies_of_a_tool_need_the_value_too():
    spec = local().bind("tenant", required=True)
    copies = [spec.clone()]
    copies.append(Toolkit("kit").add(spec)["listPets"])
    for copy in copies:
        assert copy.exec().error.code == "unbound_state"
        copy.state["tenant"] = "acme"
        assert copy.exec().error is None


def test_data_and_pickles_of_a_tool_need_the_value_too(echo: EchoServer):
    spec = over_http(echo).bind("tenant", required=True)
    for copy in (pickle.loads(pickle.dumps(spec)), ToolSpec.from_dict(spec.to_dict(), trust=[echo.url, "<private>"])):
        assert copy.exec().error.code == "unbound_state"
        copy.state["tenant"] = "acme"
        assert copy.exec().error is None


def test_a_manifest_demands_a_value(echo: EchoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("pets.yaml").write_text(yaml.safe_dump(pets()))
    Path("kit.yaml").write_text(
        f"sources: [{{openapi: pets.yaml, base_url: '{echo.url}'}}]\n"
        "binds: {tenant: {key: user.tenant, required: true}}\n"
    )
    kit = load("kit.yaml")
    assert kit.exec("listPets").error.code == "unbound_state"
    assert echo.received == []
    kit.session(user={"tenant": "acme"}).call("listPets")
    assert echo.last["query"] == "tenant=acme"


@pytest.mark.parametrize(("responses", "is_sent"), [("relaxed", True), ("none", False)])
async def test_a_kept_result_is_sent_whole_only_with_an_output_schema(responses: str, is_sent: bool, echo: EchoServer):
    content = {"application/json": {"schema": {"type": "object", "properties": {"rows": {"type": "array"}}}}}
    document = pets()
    document["paths"]["/pets"]["get"]["responses"] = {"200": {"description": "Pets", "content": content}}
    kit = Toolkit("pets", middleware=[keep_large(1_000)])
    kit.add(*ToolSpec.from_openapi(document, base_url=echo.url, responses=responses).values())
    echo.answer("/pets", {"rows": list(range(5_000))})
    async with Client(kit.to_fastmcp_server()) as client:
        result = await client.call_tool("listPets")
    assert len(result.content[0].text) < 2_000
    assert (result.structured_content is not None) == is_sent


def test_what_the_options_leave_out_is_logged_with_the_reason(caplog: pytest.LogCaptureFixture):
    document = pets()
    document["paths"]["/old"] = {"get": {"operationId": "old", "deprecated": True}, "put": {"operationId": "set\nold"}}
    with caplog.at_level(logging.INFO, "ahvn_tools"):
        assert list(ToolSpec.from_openapi(document, methods=["get"], exclude=["isOpen"])) == ["listPets"]
    left_out = [line for line in caplog.messages if line.startswith("Left out")]
    assert left_out == [
        "Left out by `exclude`: GET /open.",
        "Left out because deprecated: GET /old.",
        "Left out by `methods`: PUT /old.",
    ]
