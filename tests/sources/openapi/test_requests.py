"""What the server receives: every location, style, media type and security scheme."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle

import pytest
from pydantic import SecretStr

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import SourceError, ToolConnectionError
from tests.sources.openapi.documents import json_body, json_response, one_operation, parameter
from tests.sources.openapi.echo_server import pairs

COLOR = {"R": 100, "G": 200}
ANY = {"type": "object"}
LIST = {"type": "array"}


def call(echo, operation, arguments, *, method="get", path="/things", **options):
    """Make the tool of an operation, call it, and return what the server received."""
    whole = one_operation(operation, path=path, method=method, server=f"{echo.url}/v1")
    options.setdefault("base_url", f"{echo.url}/v1")
    result = ToolSpec.from_openapi(whole, **options)["call"].exec(**arguments)
    assert result.error is None, result.error
    return echo.last


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("simple", False, 5, "5"),
        ("simple", False, [3, 4], "3,4"),
        ("simple", True, [3, 4], "3,4"),
        ("simple", False, COLOR, "R,100,G,200"),
        ("simple", True, COLOR, "R=100,G=200"),
        ("label", False, 5, ".5"),
        ("label", False, [3, 4], ".3,4"),
        ("label", True, [3, 4], ".3.4"),
        ("label", False, COLOR, ".R,100,G,200"),
        ("label", True, COLOR, ".R=100.G=200"),
        ("matrix", False, 5, ";value=5"),
        ("matrix", False, [3, 4], ";value=3,4"),
        ("matrix", True, [3, 4], ";value=3;value=4"),
        ("matrix", False, COLOR, ";value=R,100,G,200"),
        ("matrix", True, COLOR, ";R=100;G=200"),
        ("simple", False, "a/b ?#%", "a%2Fb%20%3F%23%25"),
        ("simple", False, ["a,b", "ü"], "a%2Cb,%C3%BC"),
        ("simple", False, True, "true"),
    ],
)
def test_styles_of_a_path(echo, style, explode, value, written):
    place = parameter("value", "path", {}, style=style, explode=explode)
    received = call(echo, {"parameters": [place]}, {"value": value}, path="/things/{value}/parts")
    assert received["path"] == f"/v1/things/{written}/parts"


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("form", True, "a b&c=d", "value=a%20b%26c%3Dd"),
        ("form", True, [3, 4], "value=3&value=4"),
        ("form", False, [3, 4], "value=3,4"),
        ("form", False, ["a,b", "c"], "value=a%2Cb,c"),
        ("form", True, COLOR, "R=100&G=200"),
        ("form", False, COLOR, "value=R,100,G,200"),
        ("spaceDelimited", False, [3, 4], "value=3%204"),
        ("pipeDelimited", False, [3, 4], "value=3%7C4"),
        ("deepObject", True, COLOR, "value%5BR%5D=100&value%5BG%5D=200"),
        ("form", True, True, "value=true"),
        ("form", True, 1.5, "value=1.5"),
        ("form", True, [], ""),
    ],
)
def test_styles_of_a_query(echo, style, explode, value, written):
    place = parameter("value", schema={}, style=style, explode=explode)
    assert call(echo, {"parameters": [place]}, {"value": value})["query"] == written


def test_the_styles_have_the_defaults_of_openapi(echo):
    places = [
        parameter("ids", "path", LIST),
        parameter("tags", schema=LIST),
        parameter("words", schema=LIST, style="spaceDelimited"),
        parameter("X-Ids", "header", LIST),
    ]
    arguments = {"ids": [1, 2], "tags": [3, 4], "words": [5, 6], "X-Ids": [7, 8]}
    received = call(echo, {"parameters": places}, arguments, path="/things/{ids}")
    assert received["path"] == "/v1/things/1,2"
    assert received["query"] == "tags=3&tags=4&words=5%206"
    assert received["headers"]["x-ids"] == "7,8"


def test_reserved_characters_stay_as_they_are_where_the_document_allows_it(echo):
    places = [parameter("url", allowReserved=True), parameter("other")]
    arguments = {"url": "https://a/b?c&d#e", "other": "a/b"}
    assert call(echo, {"parameters": places}, arguments)["query"] == "url=https://a/b?c%26d%23e&other=a%2Fb"


def test_a_parameter_with_content_is_json(echo):
    content = {"application/json": {"schema": ANY}}
    place = {"name": "filter", "in": "query", "content": content}
    header = {"name": "X-Filter", "in": "header", "content": content}
    text = {"name": "text", "in": "query", "content": content}
    arguments = {"filter": {"a": ["ü"]}, "X-Filter": {"b": 1}, "text": {}}
    received = call(echo, {"parameters": [place, header, text]}, arguments)
    assert pairs(received["query"]) == [("filter", '{"a":["ü"]}'), ("text", "{}")]
    assert json.loads(received["headers"]["x-filter"]) == {"b": 1}


def test_declared_headers_and_cookies_are_arguments(echo):
    places = [parameter("X-Trace", "header"), parameter("theme", "cookie"), parameter("X-Max", "header")]
    spec = ToolSpec.from_openapi(one_operation({"parameters": places}), base_url=echo.url)["call"]
    assert list(spec.params) == ["X-Trace", "X-Max", "theme"]
    spec.call(**{"X-Trace": "t-1", "theme": "dark"})
    assert echo.last["headers"]["x-trace"] == "t-1"
    assert echo.last["headers"]["cookie"] == "theme=dark"
    assert "x-max" not in echo.last["headers"]


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "host",
        "Cookie",
        "Content-Length",
        "Accept",
        "Proxy-Authorization",
        "X-Forwarded-For",
        "X-Original-URL",
    ],
)
def test_headers_of_the_protocol_are_never_arguments(echo, name):
    spec = ToolSpec.from_openapi(one_operation({"parameters": [parameter(name, "header")]}), base_url=echo.url)["call"]
    assert spec.params == {}
    assert spec.exec(**{name: "evil"}).error.code == "invalid_parameters"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "\x00"])
def test_no_value_of_a_header_adds_another_header(echo, value):
    whole = one_operation({"parameters": [parameter("X-A", "header"), parameter("c", "cookie")]})
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
    assert spec.exec(**{"X-A": value}).error.code == "tool_error"
    spec.exec(c=value)
    assert not any("x-evil" in request["headers"] for request in echo.received)


@pytest.mark.parametrize("value", ["..", ".", "../../admin", "%2e%2e", "..%2fadmin", "a/../b", ""])
def test_no_value_of_a_path_leads_to_another_path(echo, value):
    whole = one_operation({"parameters": [parameter("id", "path")]}, path="/things/{id}", method="delete")
    assert ToolSpec.from_openapi(whole, base_url=echo.url)["call"].exec(id=value).error.code == "tool_error"
    assert echo.received == []


def test_a_parameter_of_an_operation_replaces_that_of_its_path(echo):
    whole = one_operation({"parameters": [parameter("a", schema={"type": "integer"})]}, server=echo.url)
    whole["paths"]["/things"]["parameters"] = [parameter("a"), parameter("b")]
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
    assert spec.input_schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "string"}}
    spec.call(a=1, b="x")
    assert echo.last["query"] == "a=1&b=x"


def test_parameters_of_one_name_are_all_usable(echo):
    places = [parameter("id"), parameter("id", "path"), parameter("id", "header"), parameter("id", "cookie")]
    whole = one_operation({"parameters": places}, path="/things/{id}")
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
    assert spec.input_schema["properties"]["query_id"]["description"] == "The query parameter 'id'."
    spec.call(id="p", query_id="q", header_id="h", cookie_id="c")
    assert (echo.last["path"], echo.last["query"]) == ("/things/p", "id=q")
    assert (echo.last["headers"]["id"], echo.last["headers"]["cookie"]) == ("h", "id=c")


def test_an_argument_has_a_name_that_providers_accept(echo):
    places = [parameter("page[size]"), parameter("$filter"), parameter("page size")]
    spec = ToolSpec.from_openapi(one_operation({"parameters": places}), base_url=echo.url)["call"]
    assert list(spec.params) == ["page_size", "filter", "query_page_size"]
    spec.call(page_size="1", filter="f", query_page_size="2")
    assert pairs(echo.last["query"]) == [("page[size]", "1"), ("$filter", "f"), ("page size", "2")]


def test_members_of_a_json_body_are_arguments(echo):
    schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "tags": LIST}}
    operation = {"requestBody": json_body(schema), "parameters": [parameter("dry")]}
    received = call(echo, operation, {"name": "Ann", "tags": [1], "dry": "yes"}, method="post")
    assert json.loads(received["body"]) == {"name": "Ann", "tags": [1]}
    assert received["query"] == "dry=yes"
    assert received["headers"]["content-type"] == "application/json"


def test_members_of_all_parts_of_a_body_are_arguments(echo):
    parts = [{"type": "object", "properties": {name: {"type": "string"}}, "required": [name]} for name in "ab"]
    spec = ToolSpec.from_openapi(
        one_operation({"requestBody": json_body({"allOf": parts})}, method="post"), base_url=echo.url
    )["call"]
    assert spec.input_schema["required"] == ["a", "b"]
    spec.call(a="1", b="2")
    assert json.loads(echo.last["body"]) == {"a": "1", "b": "2"}
    bound = spec.transform(arguments={"b": {"name": "second"}}).bind("a", default="ann")
    assert list(bound.input_schema["properties"]) == ["second"]
    bound.call(second="2")
    assert json.loads(echo.last["body"]) == {"a": "ann", "b": "2"}
    assert bound.exec(a="eve", second="2").error.code == "invalid_parameters"


def test_members_with_the_name_of_a_parameter_stay_in_the_body(echo):
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "body": {"type": "string"}}}
    operation = {"requestBody": json_body(schema, description="The thing."), "parameters": [parameter("id", "path")]}
    spec = ToolSpec.from_openapi(one_operation(operation, method="put", path="/things/{id}"), base_url=echo.url)["call"]
    assert list(spec.params) == ["id", "body"]
    assert spec.input_schema["properties"]["body"]["description"] == "The thing."
    spec.call(id="7", body={"id": "8"})
    assert (echo.last["path"], json.loads(echo.last["body"])) == ("/things/7", {"id": "8"})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ({"type": "string"}, "text"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, {"a": 1, "b": 2}),
        ({"oneOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"type": "string"}]}, {"a": 1}),
        ({}, {"a": [None]}),
    ],
    ids=["list", "text", "map", "open object", "union", "anything"],
)
def test_any_other_json_is_one_argument(echo, schema, value):
    received = call(echo, {"requestBody": json_body(schema)}, {"body": value}, method="post")
    assert json.loads(received["body"]) == value


def test_an_optional_body_can_be_left_out(echo):
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
    operation = {"requestBody": {**json_body(schema), "required": False}}
    whole = one_operation(operation, method="post")
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
    assert spec.input_schema.get("required") is None
    assert spec.exec(body={}).error.code == "invalid_parameters"
    spec.call()
    assert echo.last["body"] == ""
    spec.call(body={"a": "1"})
    assert json.loads(echo.last["body"]) == {"a": "1"}


@pytest.mark.parametrize("media_type", ["application/vnd.api+json", "application/json; charset=utf-8"])
def test_json_keeps_its_media_type(echo, media_type):
    operation = {"requestBody": {"required": True, "content": {media_type: {"schema": LIST}}}}
    received = call(echo, operation, {"body": [1]}, method="post")
    assert (received["headers"]["content-type"], received["body"]) == (media_type, "[1]")


def test_json_is_preferred(echo):
    content = {name: {"schema": LIST} for name in ("text/plain", "multipart/form-data", "application/json")}
    received = call(echo, {"requestBody": {"required": True, "content": content}}, {"body": [1]}, method="post")
    assert received["headers"]["content-type"] == "application/json"


def test_a_form_is_encoded(echo):
    properties = {"name": {"type": "string"}, "tags": LIST, "color": ANY, "flat": LIST}
    media_type = {
        "schema": {"type": "object", "properties": properties},
        "encoding": {"flat": {"style": "form", "explode": False}},
    }
    operation = {"requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": media_type}}}
    arguments = {"name": "a&b", "tags": [1, 2], "color": COLOR, "flat": [3, 4]}
    received = call(echo, operation, arguments, method="post")
    assert received["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert pairs(received["body"]) == [
        ("name", "a&b"), ("tags", "1"), ("tags", "2"), ("color", '{"R":100,"G":200}'), ("flat", "3,4"),
    ]  # fmt: skip


def test_files_of_a_multipart_body_are_base64(echo):
    binary = {"type": "string", "format": "binary"}
    properties = {"file": binary, "files": {"type": "array", "items": binary}, "note": {"type": "string"}, "meta": ANY}
    content = {"multipart/form-data": {"schema": {"type": "object", "properties": properties}}}
    operation = {"requestBody": {"required": True, "content": content}, "parameters": [parameter("note")]}
    whole = one_operation(operation, method="post")
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
    assert list(spec.params) == ["note", "file", "files", "body_note", "meta"]
    data = bytes(range(256))
    encoded = base64.b64encode(data).decode()
    spec.call(file=encoded, files=[encoded, "YQ=="], body_note="hello", meta={"a": 1})
    body = echo.last["body"]
    assert echo.last["headers"]["content-type"].startswith("multipart/form-data; boundary=")
    assert body.count(data.decode("latin-1")) == 2
    assert body.count('name="files"; filename=') == 2
    assert 'name="note"\r\n\r\nhello' in body
    assert '{"a":1}' in body
    assert spec.exec(file="no base64!").error.code == "tool_error"


def test_other_bodies_are_base64_or_text(echo):
    binary = {"requestBody": {"required": True, "content": {"image/png": {"schema": {}}}}}
    received = call(echo, binary, {"body": "AAH/"}, method="put")
    assert (received["headers"]["content-type"], received["body"]) == ("image/png", "\x00\x01\xff")
    text = {"requestBody": {"required": True, "content": {"text/csv": {"schema": {"type": "string"}}}}}
    received = call(echo, text, {"body": "a;ü"}, method="put")
    assert (received["headers"]["content-type"], received["body"]) == ("text/csv", "a;ü".encode().decode("latin-1"))


@pytest.mark.parametrize("method", ["get", "put", "post", "delete", "options", "head", "patch"])
def test_every_method_is_sent(echo, method):
    assert call(echo, {}, {}, method=method)["method"] == method.upper()


SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "session"},
    "bearer": {"type": "http", "scheme": "Bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "machine": {
        "type": "oauth2",
        "flows": {"clientCredentials": {"tokenUrl": "https://shop.example/token", "scopes": {"read": "Read."}}},
    },
    "person": {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "https://x.example", "scopes": {}}}},
    "open": {"type": "openIdConnect", "openIdConnectUrl": "https://x.example"},
}


def secured(security, **members):
    """Return a document with one operation that needs this."""
    return one_operation({"security": security, **members}, components={"securitySchemes": SCHEMES})


@pytest.mark.parametrize(
    ("scheme", "credential", "place", "sent"),
    [
        ("key", SecretStr("s3cret-1"), "x-key", "s3cret-1"),
        ("cookie", SecretStr("s3cret-1"), "cookie", "session=s3cret-1"),
        ("bearer", SecretStr("s3cret-1"), "authorization", "Bearer s3cret-1"),
        ("person", SecretStr("s3cret-1"), "authorization", "Bearer s3cret-1"),
        ("open", SecretStr("s3cret-1"), "authorization", "Bearer s3cret-1"),
        ("machine", SecretStr("s3cret-1"), "authorization", "Bearer s3cret-1"),
        ("key", "${SHOP_KEY}", "x-key", "from the environment"),
        ("bearer", lambda: "resolved", "authorization", "Bearer resolved"),
        (
            "basic",
            {"username": SecretStr("ann"), "password": "${SHOP_KEY}"},
            "authorization",
            "Basic " + base64.b64encode(b"ann:from the environment").decode(),
        ),
    ],
)
def test_credentials_are_sent_as_the_scheme_says(echo, monkeypatch, scheme, credential, place, sent):
    monkeypatch.setenv("SHOP_KEY", "from the environment")
    spec = ToolSpec.from_openapi(secured([{scheme: []}]), base_url=echo.url, auth={scheme: credential})["call"]
    assert spec.params == {}
    result = spec.exec()
    assert echo.last["headers"][place] == sent
    for text in (repr(spec), str(spec.definition), result.text, repr(result)):
        assert "s3cret-1" not in text
        assert "from the environment" not in text


def test_a_key_in_the_query_is_sent(echo):
    spec = ToolSpec.from_openapi(secured([{"query": []}]), base_url=echo.url, auth={"query": SecretStr("s3cret&1")})
    spec["call"].call()
    assert echo.last["query"] == "key=s3cret%261"


def test_client_credentials_are_exchanged_for_a_token(echo):
    auth = {"client_id": SecretStr("me"), "client_secret": SecretStr("s3cret-1"), "token_url": f"{echo.url}/token"}
    specs = ToolSpec.from_openapi(secured([{"machine": ["read"]}]), base_url=echo.url, auth={"machine": auth})
    specs["call"].call()
    token_request, request = echo.received
    assert token_request["headers"]["authorization"] == "Basic " + base64.b64encode(b"me:s3cret-1").decode()
    assert ("scope", "read") in pairs(token_request["body"])
    assert request["headers"]["authorization"] == "Bearer t-" + "1" * 20


def test_an_operation_without_security_gets_no_credentials(echo):
    whole = secured([])
    whole["paths"]["/others"] = {"get": {"operationId": "other", "security": [{"key": []}]}}
    specs = ToolSpec.from_openapi(whole, base_url=echo.url, auth={"key": SecretStr("s3cret-1")})
    specs["call"].call()
    assert "x-key" not in echo.last["headers"]


def test_the_security_of_the_document_is_that_of_its_operations(echo):
    whole = one_operation({}, components={"securitySchemes": SCHEMES}, security=[{"key": []}])
    ToolSpec.from_openapi(whole, base_url=echo.url, auth={"key": SecretStr("s3cret-1")})["call"].call()
    assert echo.last["headers"]["x-key"] == "s3cret-1"


def test_several_schemes_are_sent_together(echo):
    auth = {"key": SecretStr("one"), "cookie": SecretStr("two")}
    ToolSpec.from_openapi(secured([{"key": [], "cookie": []}]), base_url=echo.url, auth=auth)["call"].call()
    assert (echo.last["headers"]["x-key"], echo.last["headers"]["cookie"]) == ("one", "session=two")


@pytest.mark.parametrize("alternatives", [[{"key": []}, {"bearer": []}], [{}, {"bearer": []}], [{"bearer": []}, {}]])
def test_the_alternative_with_credentials_is_used(echo, alternatives):
    specs = ToolSpec.from_openapi(secured(alternatives), base_url=echo.url, auth={"bearer": SecretStr("s3cret-1")})
    specs["call"].call()
    assert echo.last["headers"]["authorization"] == "Bearer s3cret-1"


def test_an_alternative_without_credentials_is_used_if_there_are_none(echo):
    ToolSpec.from_openapi(secured([{"bearer": []}, {}]), base_url=echo.url)["call"].call()
    assert "authorization" not in echo.last["headers"]


def test_without_credentials_a_call_fails_before_it_is_sent(echo):
    spec = ToolSpec.from_openapi(secured([{"bearer": []}]), base_url=echo.url)["call"]
    with pytest.raises(ToolConnectionError, match=r"'bearer'.*has no value; bind it"):
        spec.call()
    assert echo.received == []


def test_none_sends_nothing_for_a_scheme(echo):
    ToolSpec.from_openapi(secured([{"bearer": []}]), base_url=echo.url, auth={"bearer": None})["call"].call()
    assert "authorization" not in echo.last["headers"]


def test_each_session_can_have_its_own_credentials(echo):
    kit = Toolkit("shop").add(*ToolSpec.from_openapi(secured([{"bearer": []}]), base_url=echo.url).values())
    kit.bind("bearer", "user.token", secret=True)
    for name in ("ann", "bob"):
        kit.session(user={"token": f"token-of-{name}"}).call("call", {})
        assert echo.last["headers"]["authorization"] == f"Bearer token-of-{name}"


def test_a_parameter_that_carries_a_credential_is_no_argument(echo):
    places = [parameter("X-Key", "header"), parameter("key"), parameter("session", "cookie"), parameter("other")]
    specs = ToolSpec.from_openapi(secured([], parameters=places), base_url=echo.url)
    assert list(specs["call"].params) == ["other"]


def test_parameters_are_bound_like_those_of_any_tool(echo):
    places = [parameter("tenant", "path"), parameter("region"), parameter("X-User", "header"), parameter("q")]
    whole = one_operation({"parameters": places}, path="/{tenant}/things")
    kit = Toolkit("shop").add(*ToolSpec.from_openapi(whole, base_url=echo.url).values(), preset={"region": "north"})
    kit.bind("tenant").bind("X-User", "user.name")
    assert list(kit["call"].params) == ["q"]
    assert kit.exec("call", {"q": "x", "tenant": "evil"}).error.code == "invalid_parameters"
    kit.session(tenant="acme", user={"name": "ann"}).call("call", {"q": "tea"})
    assert (echo.last["path"], echo.last["headers"]["x-user"]) == ("/acme/things", "ann")
    assert sorted(pairs(echo.last["query"])) == [("q", "tea"), ("region", "north")]


def test_a_call_is_async_too_and_survives_pickling(echo):
    spec = ToolSpec.from_openapi(one_operation({"parameters": [parameter("q")]}), base_url=echo.url)["call"]
    asyncio.run(spec.acall(q="1"))
    pickle.loads(pickle.dumps(spec)).call(q="2")
    assert [request["query"] for request in echo.received] == ["q=1", "q=2"]


def test_a_pickle_has_no_credential(echo, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "s3cret-1")
    spec = ToolSpec.from_openapi(secured([{"key": []}]), base_url=echo.url, auth={"key": "${SHOP_KEY}"})["call"]
    data = pickle.dumps(spec)
    assert b"s3cret-1" not in data
    pickle.loads(data).call()
    assert echo.last["headers"]["x-key"] == "s3cret-1"


def test_real_answers_fit_relaxed_schemas(echo):
    thing = {
        "type": "object",
        "required": ["id", "name"],
        "additionalProperties": False,
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "kind": {"enum": ["a"]}},
    }
    whole = one_operation({"responses": json_response(thing)})
    answer = {"id": 1, "name": None, "kind": "new", "extra": True}
    echo.answer("/things", answer)
    relaxed = ToolSpec.from_openapi(whole, base_url=echo.url)["call"].exec()
    assert relaxed.structured_content == answer
    exact = ToolSpec.from_openapi(whole, base_url=echo.url, responses="exact")["call"].exec()
    assert exact.error.code == "invalid_result"
    echo.answer("/things", {"id": "one"})
    assert ToolSpec.from_openapi(whole, base_url=echo.url)["call"].exec().error.code == "invalid_result"
    assert ToolSpec.from_openapi(whole, base_url=echo.url, responses="none")["call"].call() == {"id": "one"}


def test_a_list_is_the_value(echo):
    whole = one_operation({"responses": json_response({"type": "array", "items": {"type": "integer"}})})
    echo.answer("/things", [1, 2])
    assert ToolSpec.from_openapi(whole, base_url=echo.url)["call"].call() == [1, 2]


def test_an_error_of_the_server_is_one_of_the_tool(echo):
    echo.answer("/things", {"detail": "There is none."}, status=404)
    error = ToolSpec.from_openapi(one_operation({}), base_url=echo.url)["call"].exec().error
    assert error.code == "tool_error"
    assert "404" in error.message
    assert "There is none." in error.message


def test_a_document_without_a_place_fails_at_the_call():
    whole = one_operation({}, server="/v1")
    assert ToolSpec.from_openapi(whole)["call"].exec().error.code == "connection"


def test_a_private_server_of_a_document_is_refused_unless_the_host_names_it(echo):
    whole = one_operation({}, server=echo.url)
    assert ToolSpec.from_openapi(whole)["call"].exec().error.code == "connection"
    assert echo.received == []
    ToolSpec.from_openapi(whole, http={"allow_private": True})["call"].call()
    ToolSpec.from_openapi(whole, base_url=echo.url)["call"].call()
    assert len(echo.received) == 2


def test_a_member_that_the_document_does_not_name_is_not_lost(echo):
    items = {"type": "object", "properties": {"items": {"type": "array"}}}
    answered = {"responses": {"200": {"description": "", "content": {"application/json": {"schema": items}}}}}
    whole = one_operation(answered, path="/page", method="get", server=f"{echo.url}/v1")
    spec = ToolSpec.from_openapi(whole, base_url=f"{echo.url}/v1")["call"]
    echo.answer("/v1/page", {"items": [1], "next": "p2"})
    assert spec.call() == {"items": [1], "next": "p2"}
    echo.answer("/v1/page", {"items": [1]})
    assert spec.call() == [1]


def secured_by(schemes, security, **members):
    """Return a document with one operation and these schemes."""
    return one_operation({"security": security}, components={"securitySchemes": schemes}, **members)


BEARER = {"type": "http", "scheme": "bearer"}
OAUTH = {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "https://x.example", "scopes": {}}}}


@pytest.mark.parametrize(
    ("scheme", "parameter"),
    [
        ("api-key", "api_key"),
        ("api.key", "api_key"),
        ("OAuth 2.0", "OAuth_2_0"),
        ("class", "class_"),
        ("2fa", "_2fa"),
        ("arguments", "arguments_2"),
        ("clé", "cl"),
        ("-", "__"),
    ],
)
def test_a_scheme_of_any_name_has_a_hidden_parameter(echo, scheme, parameter):
    whole = secured_by({scheme: BEARER}, [{scheme: []}])
    ToolSpec.from_openapi(whole, base_url=echo.url, auth={scheme: SecretStr("s3cret-1")})["call"].call()
    assert echo.last["headers"]["authorization"] == "Bearer s3cret-1"
    kit = Toolkit("shop").add(*ToolSpec.from_openapi(whole, base_url=echo.url).values())
    assert kit["call"].params == {}
    kit.bind(parameter, r"user.api-key\.v1", secret=True).session(user={"api-key.v1": "s3cret-2"}).call("call", {})
    assert echo.last["headers"]["authorization"] == "Bearer s3cret-2"


def test_basic_and_client_credentials_work_with_a_scheme_of_any_name(echo):
    flows = {"clientCredentials": {"tokenUrl": f"{echo.url}/token", "scopes": {}}}
    for scheme in ({"type": "http", "scheme": "basic"}, {"type": "oauth2", "flows": flows}):
        names = ("username", "password") if "scheme" in scheme else ("client_id", "client_secret")
        whole = secured_by({"log-in": scheme}, [{"log-in": []}])
        auth = {"log-in": dict(zip(names, (SecretStr("ann"), SecretStr("s3cret-1")), strict=True))}
        ToolSpec.from_openapi(whole, base_url=echo.url, auth=auth)["call"].call()
        spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
        spec.bind(f"log_in_{names[0]}", default="ann").bind(
            f"log_in_{names[1]}", default="s3cret-1", secret=True
        ).call()
    sent = [request["headers"]["authorization"].partition(" ")[0] for request in echo.received]
    assert sent == ["Basic", "Basic", "Basic", "Bearer", "Bearer"]


def test_schemes_whose_names_differ_in_one_character_have_two_parameters(echo):
    schemes = {f"api{mark}key": {"type": "apiKey", "in": "header", "name": f"X{mark}Key"} for mark in "-_"}
    specs = ToolSpec.from_openapi(secured_by(schemes, [{key: [] for key in schemes}]), base_url=echo.url)
    specs["call"].bind("api_key", default="s3cret-1").bind("api_key_2", default="s3cret-2").call()
    assert (echo.last["headers"]["x-key"], echo.last["headers"]["x_key"]) == ("s3cret-2", "s3cret-1")


@pytest.mark.parametrize("given", ["one", "two"])
def test_of_two_schemes_that_use_one_header_the_one_with_a_credential_is_sent(echo, given):
    whole = secured_by({"one": OAUTH, "two": OAUTH, "key": SCHEMES["key"]}, [{"one": [], "two": [], "key": []}])
    auth = {given: SecretStr("s3cret-1"), "key": SecretStr("s3cret-2")}
    ToolSpec.from_openapi(whole, base_url=echo.url, auth=auth)["call"].call()
    assert (echo.last["headers"]["authorization"], echo.last["headers"]["x-key"]) == ("Bearer s3cret-1", "s3cret-2")
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
    spec.bind("one", default="s3cret-3", secret=True).bind("key", default="s3cret-4", secret=True).call()
    assert echo.last["headers"]["authorization"] == "Bearer s3cret-3"


def test_headers_carry_credentials_of_a_document_without_security_schemes(echo, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "s3cret-1")
    whole = one_operation({"parameters": [parameter("X-Tenant", "header"), parameter("q")]})
    headers = {"Authorization": "Bearer ${SHOP_KEY}", "X-Tenant": "acme", "X-Key": SecretStr("s3cret-2")}
    spec = ToolSpec.from_openapi(whole, base_url=echo.url, headers=headers)["call"]
    assert list(spec.params) == ["q"]
    spec.call()
    received = echo.last["headers"]
    assert (received["authorization"], received["x-tenant"], received["x-key"]) == (
        "Bearer s3cret-1", "acme", "s3cret-2",
    )  # fmt: skip
    assert b"s3cret" not in pickle.dumps(spec)


def test_a_header_of_the_host_replaces_that_of_a_scheme(echo):
    headers = {"authorization": SecretStr("Token s3cret-1")}
    ToolSpec.from_openapi(secured([{"bearer": []}]), base_url=echo.url, headers=headers)["call"].call()
    assert echo.last["headers"]["authorization"] == "Token s3cret-1"


def test_the_error_about_auth_names_headers_where_a_document_has_no_schemes():
    with pytest.raises(SourceError, match=r"no security schemes, so there is no 'token'.*headers=\{'Authorization'"):
        ToolSpec.from_openapi(one_operation({}), auth={"token": "${TOKEN}"})


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"Host": "x"}, "'Host' cannot be a header"),
        ({"Content-Type": "x"}, "Content-Type"),
        ({"X-Api-Key": "plain"}, "is a credential"),
        (["X"], "headers must be a dict"),
    ],
)
def test_headers_that_cannot_be_sent_are_one_error(headers, problem):
    with pytest.raises(SourceError, match=problem):
        ToolSpec.from_openapi(one_operation({}), headers=headers)


def test_a_secret_header_is_not_sent_where_a_document_of_a_url_leads():
    whole = one_operation({}, server="https://elsewhere.example")
    options = {"document_url": "https://shop.example/openapi.json", "headers": {"X-Key": "${SHOP_KEY}"}}
    with pytest.raises(SourceError, match="base_url"):
        ToolSpec.from_openapi(whole, **options)


@pytest.mark.parametrize(
    "options",
    [{"auth": {"log-in": None}}, {"headers": {"Authorization": SecretStr("Digest s3cret-1")}}],
    ids=["nothing", "header"],
)
def test_a_scheme_of_any_kind_can_be_left_out_or_replaced(echo, options):
    whole = secured_by({"log-in": {"type": "http", "scheme": "digest"}}, [{"log-in": []}])
    with pytest.raises(SourceError, match=r"'digest' is not supported.*headers=\{'Authorization'"):
        ToolSpec.from_openapi(whole, base_url=echo.url)
    ToolSpec.from_openapi(whole, base_url=echo.url, **options)["call"].call()
    expected = "Digest s3cret-1" if "headers" in options else None
    assert echo.last["headers"].get("authorization") == expected
    whole = secured_by({"log-in": {"type": "mutualTLS"}}, [{"log-in": []}])
    with pytest.raises(SourceError, match=r"'mutualTLS' is not supported.*pass None in `auth`"):
        ToolSpec.from_openapi(whole, base_url=echo.url)
    ToolSpec.from_openapi(whole, base_url=echo.url, auth={"log-in": None})["call"].call()
