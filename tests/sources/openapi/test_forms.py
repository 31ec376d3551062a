"""Forms and other bodies, as a server reads them: parsed by Starlette and python-multipart."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from hypothesis import strategies as st
from starlette.requests import Request

from ahvn_tools import ToolSpec
from ahvn_tools.errors import SourceError
from tests.property_checks import EXAMPLES, run_examples
from tests.sources.openapi.documents import one_operation, parameter
from tests.sources.openapi.echo_server import pairs

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
TEXT = {"type": "string"}
BINARY = {"type": "string", "format": "binary"}
DEEP = {"style": "deepObject", "explode": True}


def obj(required=(), **properties):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def body(content_type, schema, *, required=True, **media_type):
    """Return the `requestBody` of one media type."""
    return {"required": required, "content": {content_type: {"schema": schema, **media_type}}}


def make(echo, request_body, *, method="post", **members):
    whole = one_operation({"requestBody": request_body}, method=method, **members)
    return ToolSpec.from_openapi(whole, base_url=echo.url)["call"]


def parse(received):
    """Return the form that a server reads: names and texts, or name, content and media type of files."""

    async def receive():
        return {"type": "http.request", "body": received["body"].encode("latin-1"), "more_body": False}

    async def read():
        headers = [(name.encode(), text.encode("latin-1")) for name, text in received["headers"].items()]
        async with Request({"type": "http", "method": "POST", "headers": headers}, receive).form() as form:
            return [
                (name, item if isinstance(item, str) else (item.filename, await item.read(), item.content_type))
                for name, item in form.multi_items()
            ]

    return asyncio.run(read())


def send(echo, request_body, arguments, **options):
    """Call the tool of an operation with this body, and return the form that the server reads."""
    result = make(echo, request_body, **options).exec(**arguments)
    assert result.error is None, result.error
    return parse(echo.last)


@pytest.mark.parametrize("method", ["get", "delete", "post", "head"])
@pytest.mark.parametrize("content_type", [FORM, MULTIPART])
def test_a_form_without_members_is_no_body(echo, method, content_type):
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    spec = make(echo, body(content_type, schema, required=False, encoding={}), method=method)
    assert spec.params == {}
    assert spec.exec().error is None
    assert echo.last["body"] == ""
    assert "content-type" not in echo.last["headers"]


@pytest.mark.parametrize("method", ["get", "delete", "options"])
@pytest.mark.parametrize(("content_type", "sent"), [(FORM, "a=1"), ("application/json", '{"a":"1"}')])
def test_a_body_is_sent_with_any_method(echo, method, content_type, sent):
    make(echo, body(content_type, obj(a=TEXT), required=False), method=method).call(a="1")
    assert (echo.last["method"], echo.last["body"]) == (method.upper(), sent)


def test_a_form_that_is_a_union_is_one_argument(echo):
    schema = {
        "oneOf": [
            obj(("grant_type", "username"), grant_type={"enum": ["password"]}, username=TEXT),
            obj(("grant_type", "token"), grant_type={"enum": ["refresh"]}, token=TEXT),
        ]
    }
    spec = make(echo, body(FORM, schema))
    assert list(spec.params) == ["body"]
    spec.call(body={"grant_type": "refresh", "token": "a&b"})
    assert parse(echo.last) == [("grant_type", "refresh"), ("token", "a&b")]
    assert echo.last["headers"]["content-type"] == FORM
    assert spec.exec(body={"grant_type": "refresh"}).error.code == "invalid_parameters"


def test_the_members_of_a_union_are_written_as_their_encoding_says(echo):
    schema = {"anyOf": [obj(filter=obj(a=TEXT)), {"$ref": "#/components/schemas/Other"}]}
    components = {"schemas": {"Other": obj(tags={"type": "array", "items": TEXT}, other={"type": "object"})}}
    encoding = {"filter": DEEP, "tags": {"explode": False}}
    request_body = body(FORM, schema, encoding=encoding)
    arguments = {"filter": {"a": "1"}, "tags": ["x", "y"], "other": {"b": 2}}
    assert send(echo, request_body, {"body": arguments}, components=components) == [
        ("filter[a]", "1"), ("tags", "x,y"), ("other", '{"b":2}'),
    ]  # fmt: skip


@pytest.mark.parametrize("schema", [True, {}, {"type": "object"}, {"type": "object", "additionalProperties": TEXT}])
@pytest.mark.parametrize("content_type", [FORM, MULTIPART])
def test_a_form_with_any_members_is_one_argument(echo, schema, content_type):
    assert send(echo, body(content_type, schema), {"body": {"a": "1", "b c": "ü"}}) == [("a", "1"), ("b c", "ü")]


def test_values_in_a_deep_object_have_brackets_at_any_depth(echo):
    items = {"type": "array", "items": obj(price=TEXT, tags={"type": "array"})}
    schema = obj(shipping=obj(address=obj(city=TEXT)), expand={"type": "array"}, items=items, metadata={})
    request_body = body(FORM, schema, encoding=dict.fromkeys(schema["properties"], DEEP))
    arguments = {
        "shipping": {"address": {"city": "Oslo & ü", "zip": None}},
        "expand": ["a", None, "b"],
        "items": [{"price": "p1", "tags": ["x"]}, {"price": "p2"}],
        "metadata": {"a[b]": True, "n": 1.5},
    }
    expected = [
        ("shipping[address][city]", "Oslo & ü"), ("expand[0]", "a"), ("expand[1]", "b"), ("items[0][price]", "p1"),
        ("items[0][tags][0]", "x"), ("items[1][price]", "p2"), ("metadata[a[b]]", "true"), ("metadata[n]", "1.5"),
    ]  # fmt: skip
    assert send(echo, request_body, arguments) == expected
    assert send(echo, request_body, {"metadata": ""}) == [("metadata", "")]
    assert send(echo, request_body, {"expand": [], "shipping": {}}) == []
    places = [parameter(name, schema={}, **DEEP) for name in arguments]
    spec = ToolSpec.from_openapi(one_operation({"parameters": places}), base_url=echo.url)["call"]
    spec.call(**arguments)
    assert pairs(echo.last["query"]) == expected


@pytest.mark.parametrize("style", ["form", "spaceDelimited", "pipeDelimited"])
def test_lists_in_a_form_are_written_in_the_style_of_the_document(echo, style):
    request_body = body(FORM, obj(a={"type": "array"}), encoding={"a": {"style": style, "explode": False}})
    delimiter = {"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}[style]
    assert send(echo, request_body, {"a": ["x", None, "y&z"]}) == [("a", f"x{delimiter}y&z")]
    assert send(echo, body(FORM, obj(a={"type": "array"})), {"a": ["x", "y"]}) == [("a", "x"), ("a", "y")]


def test_a_member_of_a_form_is_json_where_the_document_says_so(echo):
    encoding = {"a": {"contentType": "application/json"}}
    request_body = body(FORM, obj(a={"type": "array"}, b={}), encoding=encoding)
    assert send(echo, request_body, {"a": ["x", 1], "b": {"c": [None]}}) == [("a", '["x",1]'), ("b", '{"c":[null]}')]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_part_is_written_in_the_style_of_the_document(echo, version):
    encoding = {"link": DEEP, "expand": DEEP, "flat": {"style": "form", "explode": False}}
    schema = obj(file=BINARY, link=obj(create={"type": "boolean"}), expand={"type": "array"}, flat={"type": "array"})
    request_body = body(MULTIPART, schema, encoding=encoding)
    arguments = {"file": "AAH/", "link": {"create": True, "x": "a&b"}, "expand": ["ü"], "flat": ["1", "2"]}
    assert send(echo, request_body, arguments, version=version) == [
        ("file", ("file", b"\x00\x01\xff", "application/octet-stream")),
        ("link[create]", "true"), ("link[x]", "a&b"), ("expand[0]", "ü"), ("flat", "1,2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "schema",
    [
        BINARY,
        {"$ref": "#/components/schemas/File"},
        {"type": "string", "contentMediaType": "application/octet-stream"},
        {"anyOf": [BINARY, {"type": "null"}]},
    ],
    ids=["binary", "reference", "media type", "or null"],
)
def test_a_multipart_body_that_is_a_file_is_the_part_file(echo, schema):
    components = {"schemas": {"File": BINARY}}
    expected = ("file", b"\x00\x01", "application/octet-stream")
    assert send(echo, body(MULTIPART, schema), {"file": "AAE="}, components=components) == [("file", expected)]
    request_body = body(MULTIPART, {"type": "array", "items": schema})
    sent = send(echo, request_body, {"file": ["AAE=", "AAE="]}, components=components)
    assert sent == [("file", expected), ("file", expected)]
    request_body = body(MULTIPART, obj(document=schema))
    assert send(echo, request_body, {"document": "AAE="}, components=components)[0][1][0] == "document"


def test_a_file_has_the_name_and_so_the_type_that_the_caller_gives(echo):
    encoding = {"image": {"contentType": "image/png, image/jpeg"}, "files": {"contentType": "image/*"}}
    schema = obj(file=BINARY, files={"type": "array", "items": BINARY}, image={})
    request_body = body(MULTIPART, schema, encoding=encoding)
    arguments = {
        "file": {"content": "YQ==", "filename": 'ü "1".pdf'},
        "files": [{"content": "YQ==", "filename": "a.gif"}, "YQ==", {"content": "YQ==", "filename": "a.pdf"}],
        "image": {"content": "YQ==", "filename": "a.jpg"},
    }
    assert send(echo, request_body, arguments) == [
        ("file", ("ü %221%22.pdf", b"a", "application/pdf")),
        ("files", ("a.gif", b"a", "image/gif")),
        ("files", ("files", b"a", "application/octet-stream")),
        ("files", ("a.pdf", b"a", "application/octet-stream")),
        ("image", ("a.jpg", b"a", "image/jpeg")),
    ]
    assert send(echo, request_body, {"image": "YQ=="}) == [("image", ("image", b"a", "image/png"))]


@pytest.mark.parametrize("value", [{"content": "YQ==", "filename": "a\r\nX: 1"}, {"content": "no base64"}, "no base64"])
def test_a_file_that_cannot_be_sent_is_an_error_of_the_call(echo, value):
    spec = make(echo, body(MULTIPART, obj(file=BINARY)))
    assert spec.exec(file=value).error.code == "tool_error"
    assert spec.exec(file={"filename": "a"}).error.code == "invalid_parameters"
    assert echo.received == []


def test_files_in_a_multipart_body_that_is_a_union_are_base64(echo):
    schema = {"oneOf": [obj(("file",), file=BINARY, note=TEXT), obj(("url",), url=TEXT)]}
    request_body = body(MULTIPART, schema)
    data = base64.b64encode(bytes(range(256))).decode()
    sent = send(echo, request_body, {"body": {"file": {"content": data, "filename": "a.bin"}, "note": "n"}})
    assert sent == [("file", ("a.bin", bytes(range(256)), "application/octet-stream")), ("note", "n")]
    assert send(echo, request_body, {"body": {"url": "https://a.example"}}) == [("url", "https://a.example")]


def test_parts_have_the_media_type_of_the_document(echo):
    encoding = {"texts": {"contentType": "text/csv"}, "list": {"contentType": "application/json"}}
    schema = obj(meta=obj(a=TEXT), texts={"type": "array"}, list={"type": "array"}, objects={"type": "array"})
    arguments = {"meta": {"a": "1"}, "texts": ["x", "y"], "list": ["x"], "objects": [{"b": 1}, {"c": 2}]}
    assert send(echo, body(MULTIPART, schema, encoding=encoding), arguments) == [
        ("meta", '{"a":"1"}'), ("texts", "x"), ("texts", "y"), ("list", '["x"]'), ("objects", '{"b":1}'),
        ("objects", '{"c":2}'),
    ]  # fmt: skip
    assert echo.last["body"].count("Content-Type: application/json") == 4
    assert echo.last["body"].count("Content-Type: text/csv") == 2


def test_a_form_survives_as_data(echo):
    schema = {"oneOf": [obj(("file",), file=BINARY), obj(("link",), link={"type": "object"})]}
    spec = make(echo, body(MULTIPART, schema, encoding={"link": DEEP}))
    again = ToolSpec.from_dict(spec.to_dict(), trust=[echo.url, "private"])
    again.call(body={"link": {"a": "1"}})
    assert parse(echo.last) == [("link[a]", "1")]


ANY_OBJECT = {"type": "object"}
MERGE, PATCH, STRATEGIC = (
    f"application/{name}+json" for name in ("merge-patch", "json-patch", "strategic-merge-patch")
)
OPERATIONS = [{"op": "add", "path": "/a", "value": 1}]


def patched(echo, media_types, schema, value):
    """Return the media type and the JSON that the server receives."""
    content = {name: {"schema": schema} for name in media_types}
    result = make(echo, {"required": True, "content": content}, method="patch").exec(body=value)
    assert result.error is None, result.error
    return echo.last["headers"]["content-type"], json.loads(echo.last["body"])


@pytest.mark.parametrize(
    ("media_types", "sent"),
    [
        ((PATCH, MERGE, STRATEGIC, "application/apply-patch+yaml"), MERGE),
        ((PATCH, STRATEGIC), STRATEGIC),
        ((PATCH, "application/json"), "application/json"),
        ((PATCH, "*/*"), "application/json"),
    ],
)
def test_an_object_is_a_merge_patch_and_a_list_is_a_json_patch(echo, media_types, sent):
    value = {"metadata": {"labels": {"a": None}}}
    assert patched(echo, media_types, ANY_OBJECT, value) == (sent, value)
    assert patched(echo, media_types, ANY_OBJECT, OPERATIONS) == (PATCH, OPERATIONS)


def test_a_json_patch_alone_is_a_list_of_operations(echo):
    assert patched(echo, [PATCH], ANY_OBJECT, OPERATIONS) == (PATCH, OPERATIONS)
    content = {PATCH: {"schema": ANY_OBJECT}}
    spec = make(echo, {"required": True, "content": content}, method="patch")
    assert spec.exec(body={"a": 1}).error.code == "invalid_parameters"
    assert spec.exec(body=[{"op": "replace"}]).error.code == "invalid_parameters"
    own = {"type": "array", "items": {"type": "string"}}
    assert patched(echo, [PATCH], own, ["x"]) == (PATCH, ["x"])


def test_a_list_is_plain_json_where_the_plain_schema_has_lists(echo):
    assert patched(echo, [PATCH, "application/json"], {"type": "array"}, OPERATIONS)[0] == "application/json"


@pytest.mark.parametrize("content_type", [FORM, MULTIPART])
def test_no_object_in_a_form_has_the_name_of_another_member(echo, content_type):
    schema = obj(owner=TEXT, filter={"type": "object"}, **{"deep[a]": TEXT}, deep={"type": "object"})
    encoding = {"filter": {"explode": True}, "deep": DEEP}
    spec = make(echo, body(content_type, schema, encoding=encoding)).bind("owner", default="ann")
    for arguments in ({"filter": {"owner": "evil"}}, {"deep": {"a": "1"}}):
        assert spec.exec(**arguments).error.code == "tool_error"
    assert echo.received == []
    spec.call(filter={"color": "red"}, deep={"b": "1"})
    assert sorted(parse(echo.last)) == [("color", "red"), ("deep[b]", "1"), ("owner", "ann")]


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ({"style": "simple"}, "encoding/a/style: POST /things is skipped: a form has no style 'simple'"),
        ({"explode": "yes"}, "encoding/a/explode: POST /things is skipped: it must be true or false"),
        ({"contentType": []}, "encoding/a/contentType: POST /things is skipped: it must be a text"),
        ([], "encoding/a: POST /things is skipped: it must be an object"),
    ],
)
def test_a_wrong_encoding_is_an_error_of_the_document(echo, encoding, message):
    with pytest.raises(SourceError) as caught:
        make(echo, body(MULTIPART, obj(a=TEXT), encoding={"a": encoding}))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("version", "schema"),
    [("3.0.3", {"type": "string", "format": "byte"}), ("3.1.0", {"type": "string", "contentEncoding": "base64"})],
)
def test_a_body_that_is_base64_text_is_sent_as_that_text(echo, version, schema):
    request_body = body("image/jpeg", {**schema, "required": True})
    make(echo, request_body, version=version).call(body="AAH/")
    assert (echo.last["headers"]["content-type"], echo.last["body"]) == ("image/jpeg", "AAH/")
    assert send(echo, body(MULTIPART, obj(image=schema)), {"image": "AAH/"}, version=version) == [("image", "AAH/")]


@pytest.mark.parametrize(
    ("media_type", "schema", "value", "sent"),
    [
        ("application/x-ndjson", TEXT, '{"a":1}\n{"b":"ü"}\n', "application/x-ndjson"),
        ("text/*", TEXT, "ü", "text/plain; charset=utf-8"),
        ("image/*", BINARY, "YQ==", "application/octet-stream"),
        ("*/*", {"type": "object"}, {"a": "ü"}, "application/json"),
        ("application/x-www-form-urlencoded; charset=utf-8", {"type": "object"}, {"a": "ü"}, f"{FORM}; charset=utf-8"),
    ],
)
def test_a_body_has_a_media_type_that_is_none_of_many(echo, media_type, schema, value, sent):
    make(echo, body(media_type, schema)).call(body=value)
    assert echo.last["headers"]["content-type"] == sent


@pytest.mark.parametrize("media_type", ["text/plain\r\nX-Evil: 1", "text/plän"])
def test_no_media_type_of_a_document_adds_a_header(echo, media_type):
    encoding = {"a": {"contentType": media_type}}
    for request_body in (body(media_type, TEXT), body(MULTIPART, obj(a=TEXT), encoding=encoding)):
        with pytest.raises(SourceError, match="there is no media type"):
            make(echo, request_body)


def unbracket(received):
    """Return the object that a server reads from names with brackets; lists have the keys `0`, `1`, …"""
    whole = {}
    for name, text in received:
        outer, *keys = name.replace("]", "").split("[")
        inner = whole
        path = [outer, *keys]
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = text
    return whole


def as_read(value):
    """Return a value with lists as `unbracket` reads them."""
    if isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
    return {key: as_read(item) for key, item in value.items()} if isinstance(value, dict) else value


keys = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters='[]"\\'), min_size=1)
texts = st.text(st.characters(codec="utf-8"))
nested = st.recursive(
    texts,
    lambda parts: st.lists(parts, min_size=1, max_size=3) | st.dictionaries(keys, parts, min_size=1, max_size=3),
    max_leaves=6,
)


@EXAMPLES
def test_a_server_reads_a_deep_object_as_it_was_given(echo, max_examples):
    form, multipart = (make(echo, body(kind, obj(value={}), encoding={"value": DEEP})) for kind in (FORM, MULTIPART))
    place = parameter("value", schema={}, **DEEP)
    query = ToolSpec.from_openapi(one_operation({"parameters": [place]}), base_url=echo.url)["call"]

    def check(value):
        for spec in (form, multipart, query):
            assert spec.exec(value=value).error is None
            read = pairs(echo.last["query"]) if spec is query else parse(echo.last)
            assert unbracket(read) == as_read({"value": value})

    run_examples(max_examples // 4, check, nested)
