"""Where the arguments of an HTTP tool are sent."""

from __future__ import annotations

import json

import pytest
from pydantic import SecretStr

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError
from ahvn_tools.sources.http.body import build_template
from ahvn_tools.sources.http.request import HTTPArgument, HTTPOptions, HTTPRequest
from tests.sources.http.service import Service

KEY_IN_QUERY = {"auth_method": "api_key_query", "api_key_name": "key", "api_key": "${KEY}"}


def make(service: Service, path: str = "/x", **options) -> ToolSpec:
    return ToolSpec.from_http("fetch", service.url + path, allow_private=True, **options)


def test_the_origin_of_a_tool_is_its_url_without_the_query():
    kit = Toolkit("kit")
    kit.add(ToolSpec.from_http("fetch", "https://x.example/users/{user_id}?account=7"))
    assert kit["fetch"].origin == "GET https://x.example/users/{user_id}"


def test_an_argument_of_the_path_is_percent_encoded(service):
    """Nothing in a value leaves its segment."""
    spec = make(service, "/users/{user_id}/notes")
    spec.call(user_id="a/b?c#d&e=f%2e ü")
    assert service.last.target == "/users/a%2Fb%3Fc%23d%26e%3Df%252e%20%C3%BC/notes"


@pytest.mark.parametrize("value", ["", ".", "..", "%2e%2e", "%252e%2E", "a/../b", "..\\x", "a\nb", "..;x=1"])
def test_a_value_that_would_change_the_path_is_refused(service, value):
    spec = make(service, "/users/{user_id}/notes")
    result = spec.exec(user_id=value)
    assert result.error.code == "tool_error"
    assert "'user_id'" in result.text
    assert service.received == []


def test_two_values_of_one_segment_cannot_become_dots(service):
    spec = make(service, "/a/{x}{y}")
    assert spec.exec(x=".", y=".").is_error
    assert spec.exec(x="a", y="b").value == {"ok": True}


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "OPTIONS"])
def test_other_arguments_of_a_method_without_a_body_are_sent_in_the_query(service, method):
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}}
    make(service, "/x?format=json", method=method, input_schema=schema).call(q="a&b=c", n=2)
    assert (service.last.method, service.last.target) == (method, "/x?format=json&q=a%26b%3Dc&n=2")
    assert service.last.body == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_other_arguments_of_a_method_with_a_body_are_its_json(service, method):
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "tags": {"type": "array"}}}
    make(service, "/items/{id}", method=method, input_schema=schema).call(id="7", tags=["ä", 1, None])
    assert service.last.target == "/items/7"
    assert json.loads(service.last.body) == {"tags": ["ä", 1, None]}
    assert service.last.headers["content-type"] == "application/json"


def test_arguments_are_sent_under_the_names_that_the_options_give(service):
    spec = make(service, "/x", method="POST", query={"page": "p"}, body={"text": "content"}, header={"tenant": "X-Org"})
    spec.bind("tenant", "tenant", "acme")
    spec.call(page="2", text="hello")
    assert service.last.target == "/x?p=2"
    assert json.loads(service.last.body) == {"content": "hello"}
    assert service.last.headers["x-org"] == "acme"


def test_a_template_in_the_query_is_a_required_argument(service):
    spec = make(service, "/search?q={text}&format=json")
    assert spec.definition.input_schema["required"] == ["text"]
    spec.call(text="a b")
    assert service.last.target == "/search?format=json&q=a%20b"


def test_an_argument_may_be_the_whole_body(service):
    schema = {"type": "object", "properties": {"items": {"type": "array"}, "dry": {"type": "boolean"}}}
    make(service, method="POST", body="items", input_schema=schema).call(items=[1, 2], dry=True)
    assert service.last.body == b"[1,2]"
    assert service.last.target == "/x?dry=true"


def test_a_form_is_encoded(service):
    make(service, method="POST", body_type="form", body=["a", "b"]).call(a="x y&z", b=[1, 2])
    assert service.last.body == b"a=x%20y%26z&b=1&b=2"
    assert service.last.headers["content-type"] == "application/x-www-form-urlencoded"


def test_a_multipart_body_has_a_part_for_each_argument(service):
    make(service, method="POST", body_type="multipart", body=["a", "b"]).call(a='x"\r\ny', b={"k": 1})
    assert service.last.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert b'name="a"\r\n\r\nx"\r\ny\r\n' in service.last.body
    assert b'name="b"\r\nContent-Type: application/json\r\n\r\n{"k":1}' in service.last.body


def test_a_file_of_a_multipart_body_is_base64_in_the_argument(service):
    places = {
        "photo": HTTPArgument(location="body", name="photo", is_file=True, content_type="image/png"),
        "tags": HTTPArgument(location="body", name="tags"),
    }
    request = HTTPRequest(method="POST", base_url=service.url, path="/x", arguments=places, body_type="multipart")
    schema = {"type": "object", "properties": {"photo": {"type": "string"}, "tags": {"type": "array"}}}
    spec = ToolSpec(*build_template("up", schema, request, {}, http_options=HTTPOptions(allow_private=True)))
    spec.call(photo="AAEC", tags=["a", 1])
    assert b'name="photo"; filename="photo"\r\nContent-Type: image/png\r\n\r\n\x00\x01\x02\r\n' in service.last.body
    assert service.last.body.count(b'name="tags"') == 2
    assert spec.exec(photo="no base64").text == "Invalid arguments: 'photo' must be base64."


@pytest.mark.parametrize(
    ("body_type", "value", "content", "content_type"),
    [
        ("json", "text", b'"text"', "application/json"),
        ("text", "Grüße", "Grüße".encode(), "text/plain; charset=utf-8"),
        ("binary", "AAEC", b"\x00\x01\x02", "application/octet-stream"),
        ("form", {"a": "x&y", "b": [1, 2]}, b"a=x%26y&b=1&b=2", "application/x-www-form-urlencoded"),
    ],
)
def test_a_whole_body_is_sent_as_its_type_says(service, body_type, value, content, content_type):
    make(service, method="PUT", body="data", body_type=body_type).call(data=value)
    assert (service.last.body, service.last.headers["content-type"]) == (content, content_type)


def test_a_whole_body_may_be_multipart(service):
    make(service, method="PUT", body="data", body_type="multipart").call(data={"a": 1, "b": None})
    assert service.last.body.count(b"form-data") == 1


def test_the_derived_schema_has_the_named_arguments_and_no_others(service):
    spec = make(service, "/users/{user_id}", query=["limit"], header={"tenant": "X-Org"})
    assert spec.definition.input_schema == {
        "type": "object",
        "properties": {"user_id": {"type": "string"}, "limit": {}},
        "required": ["user_id"],
        "additionalProperties": False,
    }
    assert spec.exec(user_id="a", headers={"X": "y"}).error.code == "invalid_parameters"
    assert spec.exec(user_id="a", tenant="evil").error.code == "invalid_parameters"


def test_a_renamed_argument_is_sent_in_its_place(service):
    spec = make(service, "/users/{user_id}").transform(arguments={"user_id": {"name": "who"}})
    spec.call(who="ann")
    assert service.last.target == "/users/ann"


def test_a_text_that_utf8_cannot_encode_is_refused(service):
    result = make(service, "/x?q={text}").exec(text="\ud800")
    assert result.error.code == "invalid_parameters"
    assert "half of a surrogate pair in 'text'" in result.text


def test_an_open_schema_sends_further_arguments_but_never_in_the_place_of_another(service):
    schema = {"type": "object", "properties": {"q": {}}, "additionalProperties": True}
    spec = make(service, "/x?format=json", query={"org": "org_id"}, input_schema=schema).bind("org", "org", "acme")
    spec.call(q="a", page=2)
    assert service.last.target == "/x?format=json&q=a&page=2&org_id=acme"
    assert list(spec.params) == ["q"]
    for name in ("org_id", "format"):
        assert spec.exec(**{name: "evil"}).is_error
    assert len(service.received) == 1


def test_a_bound_argument_is_sent_wherever_it_belongs(service):
    spec = make(service, "/users/{user_id}", query=["limit"]).bind("user_id", "user.id").bind("limit", "limit")
    spec.state = {"user": {"id": "u/1"}, "limit": 5}
    assert list(spec.params) == []
    spec.call()
    assert service.last.target == "/users/u%2F1?limit=5"


def test_an_argument_that_no_model_sees_is_sent_where_it_is_named(service):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    places = {"query": ["page"], "body": ["org", "text"], "header": {"tenant": "X-Tenant"}}
    spec = make(service, method="POST", input_schema=schema, **places)
    assert list(spec.params) == ["text"]
    for name in ("page", "org", "tenant"):
        spec.bind(name, name, "b")
    spec.call(text="a")
    assert (service.last.target, json.loads(service.last.body)) == ("/x?page=b", {"text": "a", "org": "b"})
    assert service.last.headers["x-tenant"] == "b"


def test_a_missing_bound_value_of_the_path_is_told_to_the_host(service, caplog):
    spec = make(service, "/users/{user_id}", input_schema={"type": "object", "properties": {}})
    assert spec.exec().error.code == "connection"
    assert "'user_id' of 'fetch' is not in its input schema" in caplog.text
    assert spec.bind("user_id", "id", "7").exec().value == {"ok": True}


def test_a_bound_header_that_would_begin_another_one_is_refused(service):
    spec = make(service, header={"tenant": "X-Org"}).bind("tenant", "tenant")
    spec.state = {"tenant": "acme\r\nX-Admin: 1"}
    result = spec.exec()
    assert result.is_error
    assert "'tenant'" in result.text
    assert "acme" not in result.text
    assert service.received == []


def test_the_method_sets_the_hints(service):
    def hints(method: str) -> tuple[bool, ...]:
        annotations = make(service, method=method).definition.annotations
        assert annotations["openWorldHint"] is True
        return tuple(annotations[key] for key in ("readOnlyHint", "idempotentHint", "destructiveHint"))

    assert hints("GET") == hints("HEAD") == (True, True, False)
    assert hints("PUT") == (False, True, False)
    assert hints("DELETE") == (False, True, True)
    assert hints("POST") == hints("PATCH") == (False, False, False)
    assert make(service, method="POST", annotations={"readOnlyHint": True}).definition.annotations["readOnlyHint"]


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("ftp://x.example", {}, "begins with https://"),
        ("https://", {}, "begins with https://"),
        ("https://{host}/x", {}, "No argument can change the host"),
        ("https://user:pw@x.example/", {}, "no credentials"),
        ("https://x.example/a#b", {}, "fragment"),
        ("https://x.example/a/../b", {}, "'..'"),
        ("https://x.example/a b", {}, "spaces"),
        ("https://x.example/?a={b}c", {}, "whole value"),
        ("https://x.example/{}", {}, "name of an argument"),
        ("https://x.example:99999/", {}, "Port"),
        ("no url", {}, "must be a URL"),
        ("https://x.example/?api_key=sk-1", {}, "auth_method='api_key_query'"),
        ("https://x.example", {"method": "PUTT"}, "Did you mean 'PUT'"),
        ("https://x.example", {"methdo": "GET"}, "Did you mean 'method'"),
        ("https://x.example", {"query": "q"}, "a list of arguments"),
        ("https://x.example/{a}", {"query": ["a"]}, "two places"),
        ("https://x.example", {"query": {"a": "x", "b": "x"}}, "twice"),
        ("https://x.example?a=1", {"input_schema": {"properties": {"a": {}}}}, "twice"),
        ("https://x.example", {**KEY_IN_QUERY, "input_schema": {"properties": {"key": {}}}}, "twice"),
        ("https://x.example", {"header": {"a": "Host"}}, "cannot be a header"),
        ("https://x.example", {"header": {"a": "X\r\nY"}}, "cannot be a header"),
        ("https://x.example", {"header": {"a-b": "X-Y"}}, "Python name"),
        ("https://x.example", {"header": {"a": "Content-Type"}}, "body_type"),
        ("https://x.example", {"headers": {"Authorization": "Bearer sk-1"}}, "is a credential"),
        ("https://x.example", {"headers": {"X-A": "a\r\nb"}}, "in one line"),
        ("https://x.example", {"body_type": "xml"}, "body_type must be"),
        ("https://x.example", {"retry_count": -1}, "retry_count"),
        ("https://x.example", {"retry_delay": -1}, "retry_delay"),
        ("https://x.example", {"timeout": 0}, "timeout"),
        ("https://x.example", {"connect_timeout": 0}, "connect_timeout"),
        ("https://x.example", {"max_response_bytes": 0}, "max_response_bytes"),
        ("https://x.example", {"follow_redirects": "all"}, "follow_redirects"),
        ("https://x.example", {"allow_private": "10.0.0.0/8"}, "a list of hosts and networks"),
        ("https://x.example", {"allow_private": ["10.0.0.1/8"]}, "is no network"),
        ("https://x.example", {"proxy": "http://p.example", "follow_redirects": True}, "Behind a proxy"),
        ("https://x.example", {"input_schema": {"type": "array"}}, "must describe an object"),
        ("https://x.example", {"input_schema": "x"}, "must be a dict"),
        ("https://x.example/${id}", {}, "without a dollar sign"),
        ("https://[x/", {}, "cannot be read"),
        ("https://x.example/a{b", {}, "its templates are like"),
        ("https://x.example", {"query": 5}, "a list of arguments"),
        ("https://x.example", {"header": {"a": 5}}, "a dict of texts"),
        ("https://x.example", {"method": 5}, "method must be a text"),
        ("https://x.example", {"headers": ["a"]}, "names of headers"),
        ("https://x.example", {"body": "a", "query": {"a": "b"}}, "two places"),
        ("https://x.example", {"allow_private": ["http://x"]}, "lists hosts and networks"),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused_where_it_is_made(url, options, text):
    with pytest.raises(DefinitionError) as caught:
        ToolSpec.from_http("fetch", url, **options)
    assert text in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_a_header_is_sent_in_latin_1(service):
    spec = ToolSpec.from_http(
        "fetch", f"{service.url}/x", header={"city": "X-City"}, headers={"X-Region": "Île"}, allow_private=True
    )
    spec.bind("city", "city", "Orléans").call()
    assert (service.last.headers["x-city"], service.last.headers["x-region"]) == ("Orléans", "Île")


def test_a_secret_header_is_sent_in_latin_1(service):
    options = {"headers": {"X-Key": SecretStr("clé-secrète")}, "allow_private": True}
    ToolSpec.from_http("fetch", f"{service.url}/x", **options).call()
    assert service.last.headers["x-key"] == "clé-secrète"


@pytest.mark.parametrize("city", ["東京", "€", "a\nb", "a\x00b", "\ud800"])
def test_a_header_with_other_characters_is_refused(service, city):
    spec = ToolSpec.from_http("fetch", f"{service.url}/x", header={"city": "X-City"}, allow_private=True)
    result = spec.bind("city", "city", city).exec()
    assert "cannot be sent in a header" in result.text
    assert city not in result.text
    assert not service.received


@pytest.mark.parametrize(
    "options",
    [{"header": {"org": "X-Org"}}, {"query": ["org"], "input_schema": {}}, {"body": ["org"], "input_schema": {}}],
    ids=["header", "query", "body"],
)
def test_an_argument_that_no_model_sets_needs_a_value(service, options):
    method = "POST" if "body" in options else "GET"
    spec = ToolSpec.from_http("x", f"{service.url}/x", method=method, allow_private=True, **options)
    error = spec.exec().error
    assert error.code == "connection"
    assert "'org' of 'x' is not in its input schema and has no value: bind it." in str(error.exception)
    assert service.received == []
    assert spec.bind("org", default="acme").exec().error is None


def test_an_argument_in_the_path_is_always_required(service):
    schema = {"type": "object", "properties": {"id": {"type": "string", "default": "1"}, "q": {"type": "string"}}}
    spec = ToolSpec.from_http("x", f"{service.url}/things/{{id}}", allow_private=True, input_schema=schema)
    assert spec.input_schema["required"] == ["id"]
    assert spec.exec().error.message == "Invalid arguments: 'id' is missing."
    assert "required" not in schema
