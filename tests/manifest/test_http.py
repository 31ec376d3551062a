"""HTTP tools and OpenAPI documents as sources of a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ahvn_tools import load
from ahvn_tools.errors import SourceError
from tests.sources.http.conftest import short_keepalive
from tests.sources.http.service import Service, serve
from tests.sources.openapi.echo_server import running

PETSTORE = Path(__file__).parents[1] / "sources" / "openapi" / "petstore.yaml"


__all__ = ["short_keepalive"]


@pytest.fixture
def service() -> Iterator[Service]:
    with serve() as running:
        yield running


def write(folder: Path, text: str) -> str:
    file = folder / "kit.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_an_http_source_is_one_tool(tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_KEY", "canary-57c1e0a2")
    monkeypatch.setenv("NOTES_PORT", str(service.port))
    kit = load(
        write(
            tmp_path,
            """
            sources:
              - http:
                  name: add_note
                  description: Add a note.
                  api_url: http://127.0.0.1:${NOTES_PORT}/notes
                  method: POST
                  auth_method: api_key_header
                  api_key: ${NOTES_KEY}
                  allow_private: [127.0.0.1]
                  input_schema: {type: object, properties: {text: {type: string}}, required: [text]}
                prefix: my_
                tags: [notes]
            """,
        )
    )
    assert [tool.name for tool in kit] == ["my_add_note"]
    assert kit.call("my_add_note", {"text": "tea"}) == {"ok": True}
    assert json.loads(service.last.body) == {"text": "tea"}
    assert service.last.headers["x-api-key"] == "canary-57c1e0a2"
    assert "canary" not in repr(kit.definitions())


def test_an_http_source_has_the_options_of_an_http_tool(tmp_path, service, monkeypatch):
    monkeypatch.setenv("NOTES_KEY", "canary-1")
    kit = load(
        write(
            tmp_path,
            f"""
            sources:
              - http:
                  name: add_note
                  api_url: {service.url}/users/{{user_id}}/notes
                  method: POST
                  headers: {{X-Org: acme, X-Second: "Token ${{NOTES_KEY}}"}}
                  header: {{tenant: X-Tenant}}
                  binds: {{user_id: user.id, tenant: tenant}}
                  allow_private: [127.0.0.1]
                  retry_count: 0
                  timeout: 5
                  input_schema: {{properties: {{user_id: {{type: string}}, text: {{type: string}}}}}}
            """,
        )
    )
    spec = kit["add_note"]
    assert (spec.timeout, list(spec.params)) == (5, ["text"])
    kit.state = {"user": {"id": "ann"}, "tenant": "t"}
    assert spec.call(text="hello") == {"ok": True}
    assert service.last.target == "/users/ann/notes"
    assert [service.last.headers[name] for name in ("x-org", "x-second", "x-tenant")] == ["acme", "Token canary-1", "t"]
    monkeypatch.delenv("NOTES_KEY")
    assert spec.exec(text="a").error.code == "unbound_state"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("http: {api_url: 'https://x.example/y'}", "sources[0]: An HTTP tool has a `name` and an `api_url`"),
        ("http: {name: a}", "An HTTP tool has a `name` and an `api_url`"),
        ("http: {name: a, api_url: 5}", "which are texts"),
        ("http: {name: a, api_url: x.example}", "api_url must be a URL such as"),
        ("http: {name: a, api_url: 'https://x.example', querry: b}", "'querry'. Did you mean 'query'?"),
        ("http: {name: a, api_url: 'https://x.example?k=${K:1}'}", "A variable in the query of api_url"),
        ("http: {name: a, api_url: 'https://x.example', allow_private: 10.0.0.0/8}", "allow_private must be True, or"),
        ("http: {name: a, api_url: 'https://x.example', retry_count: many}", "retry_count is a whole number"),
        ("http: {name: a, api_url: 'https://${NOT_SET}'}", "'NOT_SET' is not set"),
        (
            "http: {name: a, api_url: 'https://x.example', auth_method: api_key, api_key: canary-1}",
            "must not be a plain text",
        ),
    ],
)
def test_a_wrong_http_source_is_an_error_of_the_manifest(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        load(write(tmp_path, f"sources:\n  - {{{source}}}\n"))
    assert message in str(caught.value)
    assert "kit.yaml" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_an_openapi_source_has_the_options_of_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_KEY", "canary-57c1e0a2")
    with running() as echo:
        kit = load(
            write(
                tmp_path,
                f"""
                sources:
                  - openapi: {PETSTORE}
                    base_url: {echo.url}
                    operations: [getPetById]
                    operation_tags: [pet]
                    http_options: {{allow_private: true}}
                    auth: {{api_key: "${{PET_KEY}}"}}
                    headers: {{X-Token: "Token ${{PET_KEY}}", X-Tenant: acme}}
                """,
            )
        )
        assert [tool.name for tool in kit] == ["getPetById"]
        assert not kit.exec("getPetById", {"petId": 7}).is_error
        assert (echo.last["method"], echo.last["path"]) == ("GET", "/pet/7")
        received = echo.last["headers"]
        assert (received["api_key"], received["x-token"]) == ("canary-57c1e0a2", "Token canary-57c1e0a2")
        assert received["x-tenant"] == "acme"
