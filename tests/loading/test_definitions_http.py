"""A YAML file of the kind `http` is a tool that sends a request."""

from __future__ import annotations

import json

import pytest

from ahvn_tools import load
from ahvn_tools.errors import SourceError
from tests.sources.http.service import serve


@pytest.fixture
def service():
    with serve() as running:
        yield running


def test_a_definition_has_the_options_of_an_http_tool(write, service, monkeypatch):
    monkeypatch.setenv("NOTES_KEY", "canary-1")
    monkeypatch.setenv("NOTES_PORT", str(service.port))
    write(
        """
        kind: http
        name: add_note
        description: Add a note.
        api_url: http://127.0.0.1:${NOTES_PORT}/users/{user_id}/notes
        method: POST
        auth_method: api_key_header
        api_key: ${NOTES_KEY}
        headers: {X-Org: acme, X-Second: "Token ${NOTES_KEY}"}
        header: {tenant: X-Tenant}
        binds: {user_id: user.id, tenant: tenant}
        allow_private: [127.0.0.1]
        retry_count: 0
        timeout: 5s
        input_schema:
          type: object
          properties: {user_id: {type: string}, text: {type: string}}
          required: [user_id, text]
        """,
        "note.yaml",
    )
    kit = load("note.yaml")
    spec = kit["add_note"]
    assert (spec.description, spec.timeout, list(spec.params)) == ("Add a note.", 5, ["text"])
    assert spec.origin == "POST http://127.0.0.1:${NOTES_PORT}/users/{user_id}/notes"
    kit.state = {"user": {"id": "ann"}, "tenant": "t"}
    assert spec.call(text="hello") == {"ok": True}
    request = service.last
    assert (request.method, request.target) == ("POST", "/users/ann/notes")
    assert json.loads(request.body) == {"text": "hello"}
    assert {name: request.headers[name] for name in ("x-api-key", "x-org", "x-second", "x-tenant")} == {
        "x-api-key": "canary-1",
        "x-org": "acme",
        "x-second": "Token canary-1",
        "x-tenant": "t",
    }
    monkeypatch.delenv("NOTES_KEY")
    assert spec.exec(text="a").error.code == "unbound_state"


@pytest.mark.parametrize(
    ("file", "text", "method"),
    [
        ("a.yaml", "kind: http", "GET"),
        ("a.yaml", "tool_type: native", "POST"),
        ("tools/native/a.yaml", "", "POST"),
        ("tools/native/a.yaml", "kind: http", "GET"),
        ("tools/native/a.yaml", "method: put", "PUT"),
    ],
)
def test_a_native_tool_posts_by_default(write, file, text, method):
    write(f"{text}\napi_url: https://x.example/y\n", file)
    (spec,) = load(file)
    assert spec.body.request.method == method


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("auth_method: none", "has an `api_url`"),
        ("api_url: 5", "line 2: `api_url`: it is a URL such as"),
        ("api_url: https://x.example?key=${K}", "line 2: `api_url`: a variable in the query would be no secret"),
        ("api_url: https://${NOT_SET}", "line 2: `api_url`: The environment variable 'NOT_SET' is not set"),
        ("api_url: https://x.example\nurl: a", "line 3: `url`: a definition of the kind 'http' has no such key"),
        ("api_url: https://x.example\nauth_method: api_key\napi_key: canary-1", "'api_key' must not be a plain text"),
        ("api_url: https://x.example\nallow_private: 10.0.0.0/8", "line 3: `allow_private`: it is true, or a list"),
        ("api_url: https://x.example\nretry_count: many", "line 3: `retry_count`: it is a whole number, not a text"),
        ("api_url: https://x.example\nretry_count: -1", "retry_count is a whole number"),
    ],
)
def test_a_wrong_definition_is_an_error_of_the_file(write, text, message):
    write(f"kind: http\n{text}\n", "a.yaml")
    with pytest.raises(SourceError) as caught:
        load("a.yaml")
    assert str(caught.value).startswith("a.yaml")
    assert message in str(caught.value)
    assert "canary" not in str(caught.value)
