"""Which tools a document has, under which names, and what is wrong with documents and options."""

from __future__ import annotations

import datetime as dt
import logging
import re

import jsonschema_rs
import pytest
from pydantic import SecretStr

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import SourceError
from ahvn_tools.sources import budget
from ahvn_tools.sources.http.request import HTTPOptions
from tests.sources.openapi.documents import (
    RESOURCES,
    document,
    json_body,
    json_response,
    one_operation,
    parameter,
    ref,
    shop,
)

SHOP_SIZE = 5 * len(RESOURCES) + 2 + 5 + 7 + 2


def names(whole, **options):
    """Return the names of the tools of a document."""
    return list(ToolSpec.from_openapi(whole, **options))


def refusal(whole, **options):
    """Return the message of the error about a document."""
    with pytest.raises(SourceError) as caught:
        ToolSpec.from_openapi(whole, **options)
    return str(caught.value)


def skipped(operation, caplog, **members):
    """Return why an operation is skipped; another one is not."""
    whole = one_operation(operation, **members)
    whole["paths"]["/other"] = {"get": {"operationId": "other", "responses": {}}}
    with caplog.at_level(logging.WARNING):
        assert names(whole) == ["other"]
    return caplog.messages[-1]


@pytest.mark.parametrize("version", ["3.0.0", "3.0.4-rc1", "3.1.1", "3.2.0"])
def test_a_version_of_openapi_3_is_read(version):
    assert names(one_operation({}, version=version)) == ["call"]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_document_of_real_size_becomes_tools(version, caplog):
    specs = ToolSpec.from_openapi(shop(version))
    assert len(specs) == SHOP_SIZE
    assert caplog.messages == []
    assert specs["get_order"].output_schema["properties"]["lines"] == {
        "type": ["array", "null"],
        "items": {"$ref": "#/$defs/Line"},
    }


def test_every_format_exports_every_operation():
    chosen = ["orders", "articles", "search", "uploads"]
    kit = Toolkit("shop").add(*ToolSpec.from_openapi(shop(), tags=chosen).values())
    assert [finding for finding in kit.check() if finding.severity == "error"] == []
    for name in ("openai", "openai-responses", "anthropic", "gemini", "bedrock", "mistral", "ollama"):
        for strict in (False, True):
            assert kit.to(name, strict=strict)
    assert kit.to("mcp")
    assert kit.to("prompt")
    for spec in kit:
        assert spec.to_jsonschema(strict=True)
        assert spec.to_prompt()


def test_texts_and_tags_come_from_the_operation():
    spec = ToolSpec.from_openapi(shop(), operations=["get_order"])["get_order"]
    assert spec.description == "Get one of the orders\n\nReturns one of the orders by its number."
    assert spec.definition.tags == {"orders"}
    assert spec.input_schema["properties"]["orderId"]["description"] == "The number of the order."
    assert spec.output_schema["description"] == "It worked."


def test_a_description_that_begins_with_the_summary_is_not_repeated():
    whole = one_operation({"summary": "Get it.", "description": "Get it. Then go."})
    assert ToolSpec.from_openapi(whole)["call"].description == "Get it. Then go."
    assert ToolSpec.from_openapi(one_operation({}))["call"].description == "GET /things"


@pytest.mark.parametrize(
    ("method", "hints"),
    [
        ("get", {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}),
        ("head", {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}),
        ("put", {"readOnlyHint": False, "idempotentHint": True}),
        ("delete", {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}),
        ("post", {"readOnlyHint": False}),
    ],
)
def test_the_method_sets_the_hints(method, hints):
    annotations = ToolSpec.from_openapi(one_operation({}, method=method))["call"].definition.annotations
    assert annotations.items() >= {**hints, "openWorldHint": True}.items()


@pytest.mark.parametrize(
    ("operation_id", "name"),
    [
        ("getPet", "getPet"),
        ("pets/get.one", "pets_get_one"),
        ("Get a pet!", "Get_a_pet"),
        ("2nd", "_2nd"),
        (None, "get_things_id_parts"),
        ("x" * 70, "x" * 55 + "_c71bd109"),
    ],
)
def test_names_are_made_portable(operation_id, name):
    operation = {"responses": {}, "parameters": [parameter("id", "path")]}
    if operation_id:
        operation["operationId"] = operation_id
    made = names(document({"/things/{id}/parts": {"get": operation}}))
    assert made == [name]
    assert len(made[0]) <= 64


def test_a_second_operation_of_one_id_gets_a_number():
    assert names(shop(), operations=["twice"]) == ["twice", "twice_2"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rename": {"dup": "first", "dup_2": "second"}}, ["first", "second"]),
        ({"rename": {"dup_2": "second"}}, ["dup", "second"]),
        ({"rename": {"x_dup_2": "second"}, "prefix": "x_"}, ["x_dup", "second"]),
        ({"operations": ["dup_2"]}, ["dup_2"]),
        ({"operations": ["dup_2"], "rename": {"dup_2": "second"}}, ["second"]),
        ({"operations": ["x_dup_2"], "prefix": "x_"}, ["x_dup_2"]),
        ({"operations": ["get /b"]}, ["dup_2"]),
        ({"exclude": ["dup_2"]}, ["dup"]),
        ({"exclude": ["get /b"]}, ["dup"]),
    ],
)
def test_operations_of_one_id_are_chosen_and_renamed_by_the_names_of_their_tools(options, expected):
    whole = document({path: {"get": {"operationId": "dup"}} for path in ("/a", "/b")})
    assert names(whole, **options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"tags": ["invoices"]},
            ["list_invoices", "create_invoice", "get_invoice", "replace_invoice", "delete_invoice"],
        ),
        ({"tags": ["inv*"], "methods": ["GET"]}, ["list_invoices", "get_invoice"]),
        ({"operations": ["list_a*"]}, ["list_articles", "list_authors"]),
        ({"operations": ["GET /account/by_b*"]}, ["by_bearer", "by_basic", "by_both"]),
        ({"operations": ["get_order", "get_brand"]}, ["get_brand", "get_order"]),
        ({"tags": ["orders"], "exclude": ["delete_*", "PUT *"]}, ["list_orders", "create_order", "get_order"]),
        ({"tags": ["orders"], "methods": ["get"], "prefix": "shop_"}, ["shop_list_orders", "shop_get_order"]),
        (
            {"tags": ["orders"], "methods": ["get"], "rename": {"get_order": "order"}, "prefix": "x_"},
            ["x_list_orders", "order"],
        ),
        ({"operations": ["old"]}, ["old"]),
    ],
)
def test_options_choose_and_name_the_tools(options, expected):
    assert names(shop(), **options) == expected


def test_deprecated_operations_are_left_out_unless_asked_for():
    assert names(shop(), operations=["ol*", "twice"]) == ["twice", "twice_2"]
    specs = ToolSpec.from_openapi(shop(), operations=["ol*"], deprecated=True)
    assert specs["old"].description == "Deprecated."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tags": ["ordres"]}, "tags: no operation has the tag 'ordres'. Did you mean 'orders'"),
        ({"operations": ["get_ordr"]}, "operations: no operation matches 'get_ordr'. Did you mean 'get_order'"),
        ({"exclude": ["get_ordr"]}, "exclude: no operation matches 'get_ordr'. Did you mean 'get_order'"),
        ({"methods": ["GETS"]}, "'GETS' is no method of an operation. Did you mean 'get'"),
        ({"rename": {"get_ordr": "x"}}, "rename: there is no operation 'get_ordr'. Did you mean 'get_order'"),
        ({"rename": {"get_order": "x", "get_brand": "x"}}, "rename: two tools would be named 'x'"),
        ({"tag": ["orders"]}, "Unknown option 'tag'. Did you mean 'tags'"),
        ({"tags": "orders"}, "tags must be a list of texts, not a str."),
        ({"auth": {"keys": "${X}"}}, "The document has no security scheme 'keys'. Did you mean 'key'?"),
        ({"auth": {"key": {"username": "x"}}}, "auth['key'] is one key or token, such as '${API_KEY}', not a dict."),
        ({"auth": {"basic": SecretStr("x")}}, "auth['basic'] is a dict with 'username' and 'password'."),
        (
            {"auth": {"machine": {"client_id": "${X}"}}},
            "auth['machine'] is a dict with 'client_id' and 'client_secret'.",
        ),
        ({"base_url": "shop.example"}, "base_url is an address such as 'https://api.example/v1', not 'shop.example'."),
        ({"responses": "some"}, "responses must be 'relaxed', 'exact' or 'none', not 'some'."),
        ({"variables": {"region": "eu"}}, "variables: no server's URL has the variable 'region'."),
        ({"auth": {"key": "s3cret"}}, "auth['key']: 'key' must not be a plain text"),
        ({"auth": {"bearer": "Bearer ${X}"}}, "auth['bearer']: 'bearer' must not be a plain text"),
        (
            {"auth": {"basic": {"username": "ann", "password": "s3cret"}}},
            "auth['basic']: 'basic_password' must not be a plain text",
        ),
        ({"auth": {"key": lambda one, two: one}}, "auth['key']: "),
        ({"headers": {"X-Key": "${A}${B}"}}, "headers['X-Key']: 'x_key_header' must not be a plain text"),
        ({"http": {"retry_count": -1}}, "http (`http_options` in a manifest): retry_count is a whole number"),
        ({"http": {"follow_redirects": True, "proxy": "environment"}}, "remove follow_redirects"),
        ({"http": {"allow_private": "127.0.0.1"}}, "allow_private must be True, or a list of hosts and networks"),
        ({"http": {"allow_private": 1}}, "allow_private must be True, or a list of hosts and networks, not a int."),
        ({"http": HTTPOptions(allow_private="127.0.0.1")}, "allow_private must be True, or a list"),  # type: ignore[arg-type]  # wrong on purpose
        ({"http": {"timeout": 0}}, "http (`http_options` in a manifest): timeout is a positive number"),
        ({"timeout": 0}, "timeout is a positive number of seconds, or None, not 0."),
        ({"timeout": -1, "http": {"timeout": 5}}, "timeout is a positive number of seconds, or None, not -1."),
        ({"http": {"retries": 3}}, "There is no option 'retries' in `http`"),
        ({"tags": ["orders"], "operations": ["get_brand"]}, "no operation"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options, message, caplog):
    error = refusal(shop(), **options)
    assert message in error
    assert "s3cret" not in error
    assert caplog.records == []


def test_a_credential_is_never_a_plain_text(caplog):
    assert "must not be a plain text" in refusal(shop(), operations=["get_order"], auth={"key": "abcdef-secret"})
    assert "abcdef-secret" not in refusal(shop(), auth="abcdef-secret")
    assert "abcdef-secret" not in caplog.text


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        ({"swagger": "2.0", "paths": {}}, "This is a document of Swagger 2.0; only OpenAPI 3 is read. Convert it"),
        ({"paths": {}}, "it has no member `openapi`"),
        ({"openapi": "4.0.0", "paths": {}}, "There is no support for OpenAPI '4.0.0'; use a version of 3.0 to 3.2."),
        ({"openapi": "3.1.0"}, "#: an OpenAPI document needs `paths`"),
        ({"openapi": "3.1.0", "paths": []}, "#/paths: it must be an object, not a list."),
        ({"openapi": "3.1.0", "paths": {}}, "The document has no operation that becomes a tool."),
        ({"openapi": "3.1.0", "paths": {"https://a.example": {}}}, "a path begins with a slash; the server of its"),
        ([], "An OpenAPI document is an object with `openapi` and `paths`, not a list."),
    ],
)
def test_what_is_no_document_of_openapi_3_is_refused(whole, message):
    assert message in refusal(whole)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            {"parameters": [{"name": "a", "in": "body"}]},
            "parameters/0/in: GET /things is skipped: a parameter is in 'body'; use path, query, header or cookie.",
        ),
        (
            {"parameters": [parameter("a", style="matrix")]},
            "#/paths/~1things/get/parameters/0/style: GET /things is skipped: a parameter in query has no style",
        ),
        (
            {"parameters": [parameter("a", schema=ref("Nowhere"))]},
            "/schema: GET /things is skipped: it refers to '#/components/schemas/Nowhere', where nothing is: correct",
        ),
        (
            {"parameters": [parameter("a", schema={"$ref": "https://evil.example/a.json"})]},
            "it refers to 'https://evil.example/a.json', which is outside of the document; nothing is fetched.",
        ),
        (
            {"parameters": [parameter("a", schema={"$ref": "/etc/passwd"})]},
            "it refers to '/etc/passwd', which is outside of the document; nothing is fetched.",
        ),
        ({"parameters": [parameter("a", schema="text")]}, "it must be an object, not a text."),
        (
            {"requestBody": {"content": {"multipart/form-data": {"schema": {"type": "string"}}}}},
            "a form needs a schema of `type: object`",
        ),
        ({"parameters": {"a": 1}}, "#/paths/~1things/get/parameters: GET /things is skipped: it must be a list"),
        (
            {"parameters": [parameter("a", schema={"type": "object", "properties": {"\u200b": {}}})]},
            "invisible characters",
        ),
    ],
)
def test_an_operation_that_cannot_be_a_tool_is_skipped_and_logged(operation, message, caplog):
    assert message in skipped(operation, caplog)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"GET": {}}, "#/paths/~1b/GET: GET /b is skipped: there is no method 'GET': write 'get'."),
        ({"delte": {}}, "#/paths/~1b/delte: DELTE /b is skipped: there is no method 'delte': write 'delete'."),
        ({"get": None}, "#/paths/~1b/get: GET /b is skipped: it is empty"),
        ({"query": {}}, "#/paths/~1b/query: QUERY /b is skipped: there is no support for the method QUERY."),
        ({"additionalOperations": {"LINK": {}}}, "there is no support for other methods."),
        (
            {"parameter": [], "get": {}},
            "#/paths/~1b/parameter: there is no member 'parameter' here: write 'parameters'.",
        ),
        (
            {"post": {"requestbody": {}}},
            "POST /b is skipped: there is no member 'requestbody' here: write 'requestBody'.",
        ),
        ({"post": {"request_body": {}}}, "there is no member 'request_body' here: write 'requestBody'."),
        ({"post": {"Parameters": []}}, "there is no member 'Parameters' here: write 'parameters'."),
        ({"post": {"requestBody": {}}}, "#/paths/~1b/post/requestBody: POST /b is skipped: a body needs `content`"),
        (
            {"post": {"requestBody": {"content": {}}}},
            "#/paths/~1b/post/requestBody/content: POST /b is skipped: a body needs `content` with a media type",
        ),
    ],
    ids=str,
)
def test_a_misspelt_member_costs_its_operation_and_is_logged(change, message, caplog):
    assert names(document({"/a": {"get": {"operationId": "a"}}, "/b": change})) == ["a"]
    assert [message in record.getMessage() for record in caplog.records] == [True]


def test_members_of_a_path_that_no_request_depends_on_cost_nothing(caplog):
    extra = {"x-gett": {}, "tag": [], "note": {}, "consumes": [], "response": {}, "operationID": "b"}
    whole = document({"/a": {"get": {"operationId": "a", **extra}, "note": {}, "x-posts": {}}})
    assert names(whole) == ["a"]
    assert caplog.records == []


def test_a_credential_that_no_operation_needs_is_refused():
    components = {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}}
    message = refusal(one_operation({}, components=components), auth=KEY)
    assert "auth: no operation of the document needs the security scheme 'key'" in message
    assert "security_schemes={'key': {'type': 'apiKey', 'in': 'header', 'name': 'X-Key'}}" in message
    assert "s3cret" not in message
    whole = one_operation({}, components=components)
    specs = ToolSpec.from_openapi(whole, auth=KEY, security_schemes=components["securitySchemes"])
    assert specs["call"].body.request.credential_parameters == ("key",)
    assert names(whole, auth={"key": None}) == ["call"]


def test_a_credential_may_be_for_operations_that_are_not_chosen():
    paths = {"/a": {"get": {"operationId": "a"}}, "/b": {"get": {"operationId": "b", "security": [{"key": []}]}}}
    assert names(document(paths, components=SCHEMES), auth=KEY, operations=["a"]) == ["a"]


def test_a_document_whose_only_operation_is_skipped_is_refused():
    assert "GET /things is skipped" in refusal(one_operation({"parameters": 1}))


def test_references_in_a_circle_are_refused(caplog):
    circle = {"parameters": {"A": ref("B", "parameters"), "B": ref("A", "parameters")}}
    message = skipped({"parameters": [ref("A", "parameters")]}, caplog, components=circle)
    assert "its references lead in a circle" in message


def test_a_security_scheme_that_cannot_be_used_fails_only_its_operations(caplog):
    schemes = {"securitySchemes": {"digest": {"type": "http", "scheme": "digest"}}}
    message = skipped({"security": [{"digest": []}]}, caplog, components=schemes)
    assert "#/components/securitySchemes/digest/scheme" in message
    assert "the HTTP scheme 'digest' is not supported; use bearer or basic." in message


def test_parts_of_operations_may_be_references():
    components = {
        "parameters": {"Id": parameter("id", "path")},
        "requestBodies": {"Thing": json_body(ref("Thing"))},
        "responses": {"Thing": json_response(ref("Thing"))["200"]},
        "schemas": {"Thing": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "pathItems": {
            "Thing": {
                "put": {
                    "operationId": "call",
                    "parameters": [ref("Id", "parameters")],
                    "requestBody": ref("Thing", "requestBodies"),
                    "responses": {"200": ref("Thing", "responses")},
                }
            }
        },
    }
    spec = ToolSpec.from_openapi(document({"/things/{id}": ref("Thing", "pathItems")}, components=components))["call"]
    assert list(spec.params) == ["id", "a"]
    assert list(spec.output_schema["properties"]) == ["a"]


def test_invisible_characters_in_texts_are_escaped():
    hidden = "Get\u202e it"
    operation = {"summary": hidden, "parameters": [parameter("a", schema={"type": "string", "description": hidden})]}
    spec = ToolSpec.from_openapi(one_operation(operation))["call"]
    assert spec.description == "Get\\u202e it"
    assert spec.input_schema["properties"]["a"]["description"] == "Get\\u202e it"


def test_a_document_cannot_write_lines_of_its_own_to_the_log(caplog):
    message = skipped({}, caplog, path="/a\nERROR: forged\u202e" + "x" * 5_000)
    assert "\n" not in message
    assert "\u202e" not in message
    assert len(message) < 2_000


def test_documents_have_limits(monkeypatch):
    deep = {}
    for _ in range(300):
        deep = {"a": deep}
    assert "nested more than 200 levels deep" in refusal({"openapi": "3.1.0", "paths": {}, "x-deep": deep})
    monkeypatch.setattr(budget, "MAX_VALUES", 5_000)
    many = {f"/p{number}": {method: {"responses": {}} for method in ("get", "put")} for number in range(9)}
    assert "more than 5,000 values" in refusal(document(many))
    laughs = ["ha"]
    for _ in range(40):
        laughs = [laughs] * 10
    assert "more than 5,000 values" in refusal({"openapi": "3.1.0", "paths": {}, "x-laughs": laughs})


def test_a_schema_has_limits(caplog):
    deep = {"type": "string"}
    for _ in range(80):
        deep = {"type": "array", "items": deep}
    assert "nested more than 64 levels deep" in skipped({"parameters": [parameter("a", schema=deep)]}, caplog)


@pytest.mark.parametrize(
    ("servers", "document_url", "expected"),
    [
        ([{"url": "https://a.example/v1/"}, {"url": "https://b.example"}], None, "https://a.example/v1"),
        ([{"url": "/v2"}], "https://c.example/docs/openapi.json", "https://c.example/v2"),
        ([{"url": "v2"}], "https://c.example/docs/openapi.json", "https://c.example/docs/v2"),
        ([], "https://c.example/docs/openapi.json", "https://c.example"),
        (None, "https://c.example/openapi.json", "https://c.example"),
        ([{"url": "//d.example/v1"}], "https://c.example/openapi.json", "https://d.example/v1"),
        ([{"url": "/v2"}], None, ""),
        ([{"url": "//d.example/v1"}], None, "https://d.example/v1"),
        (
            [{"url": "https://{region}.example/{v}", "variables": {"region": {"default": "eu"}, "v": {"default": 1}}}],
            None,
            "https://eu.example/1",
        ),
    ],
)
def test_the_first_server_is_called(servers, document_url, expected):
    whole = one_operation({}, servers=servers)
    if servers is None:
        del whole["servers"]
    options = {} if document_url is None else {"document_url": document_url}
    assert ToolSpec.from_openapi(whole, **options)["call"].body.request.base_url == expected


def test_servers_of_operations_and_paths_come_first_and_base_url_replaces_all():
    whole = document(
        {
            "/a": {"get": {"operationId": "a", "servers": [{"url": "https://own.example"}]}},
            "/b": {"servers": [{"url": "https://path.example"}], "get": {"operationId": "b"}},
            "/c": {"get": {"operationId": "c"}},
        }
    )
    urls = {name: spec.body.request.base_url for name, spec in ToolSpec.from_openapi(whole).items()}
    assert urls == {"a": "https://own.example", "b": "https://path.example", "c": "https://shop.example/v1"}
    replaced = ToolSpec.from_openapi(whole, base_url="https://mine.example/")
    assert {spec.body.request.base_url for spec in replaced.values()} == {"https://mine.example"}


def test_variables_of_a_server_are_checked():
    variables = {"region": {"default": "eu", "enum": ["eu", "us"]}}
    servers = [{"url": "https://{region}.example", "variables": variables}]
    specs = ToolSpec.from_openapi(one_operation({}, servers=servers), variables={"region": "us"})
    assert specs["call"].body.request.base_url == "https://us.example"
    message = refusal(one_operation({}, servers=servers), variables={"region": "evil.example/"})
    assert "variables: 'region' is one of ['eu', 'us'], not 'evil.example/'." in message


def test_a_server_of_one_operation_does_not_limit_the_options_of_all(caplog):
    servers = [{"url": "https://{region}.example", "variables": {"region": {"default": "eu"}}}]
    other = [{"url": "https://{zone}.example", "variables": {"zone": {"default": "eu"}}}]
    strict = [{"url": "https://{region}.other.example", "variables": {"region": {"default": "eu", "enum": ["eu"]}}}]
    paths = {
        "/a": {"get": {"operationId": "a"}},
        "/b": {"get": {"operationId": "b", "servers": other}},
        "/c": {"get": {"operationId": "c", "servers": strict}},
    }
    specs = ToolSpec.from_openapi(document(paths, servers=servers), variables={"region": "us"})
    assert [spec.body.request.base_url for spec in specs.values()] == ["https://us.example", "https://eu.example"]
    assert "GET /c is skipped: variables: 'region' is one of ['eu'], not 'us'." in caplog.text


def test_credentials_are_not_sent_to_the_other_server_of_one_operation(caplog):
    paths = {
        "/a": {"get": {"operationId": "a"}},
        "/b": {"get": {"operationId": "b", "servers": [{"url": "https://other.example"}]}},
        "/c": {"get": {"operationId": "c", "security": [], "servers": [{"url": "https://other.example"}]}},
    }
    whole = document(paths, server="https://good.example", components=SCHEMES, security=[{"key": []}])
    assert names(whole, document_url="https://good.example/openapi.json", auth=KEY) == ["a", "c"]
    assert "GET /b is skipped: credentials would be sent to https://other.example, which is not" in caplog.text
    headers = {"X-Key": SecretStr("s3cret-1")}
    assert names(whole, document_url="https://good.example/openapi.json", headers=headers) == ["a"]


def test_a_server_that_cannot_be_called_costs_no_tool(caplog):
    with caplog.at_level(logging.WARNING):
        spec = ToolSpec.from_openapi(one_operation({}, servers=[{"url": "https://{region}.example"}]))["call"]
    assert spec.body.request.base_url == ""
    assert "the variable 'region' of its url has no default: pass variables={'region': …}." in caplog.messages[0]
    servers = [{"url": "ftp://a.example"}, {"url": "https://user:x@b.example"}, {"url": " https://c.example/v1?a=1 "}]
    whole = one_operation({}, servers=servers)
    assert ToolSpec.from_openapi(whole)["call"].body.request.base_url == "https://c.example/v1"


@pytest.mark.parametrize(
    ("path", "parameters", "arguments", "url"),
    [
        ("/token#refresh", [], {}, "/token"),
        ("/answers?beta=true", [], {}, "/answers?beta=true"),
        ("/?Action=List&Id={id}#first", [parameter("id", "path")], {"Id": "a b"}, "/?Action=List&Id=a%20b"),
        ("/find?q={q}", [parameter("q")], {"q": "x"}, "/find?q=x"),
        ("/{tenant}/{tenant}/devices", [parameter("tenant", "path")], {"tenant": "t"}, "/t/t/devices"),
        ("/pets/{petId}", [], {"petId": "1"}, "/pets/1"),
        ("/pets/{petId}", [parameter("petid", "path")], {"petid": "1"}, "/pets/1"),
        ("/pets", [parameter("petId", "path")], {}, "/pets"),
        ("/all/{proxy+}", [parameter("proxy", "path")], {"proxy": "a"}, "/all/a"),
        ("pets", [], {}, "/pets"),
    ],
)
def test_paths_as_vendors_write_them_can_be_called(echo, path, parameters, arguments, url):
    spec = ToolSpec.from_openapi(one_operation({"parameters": parameters}, path=path), base_url=echo.url)["call"]
    assert spec.params.keys() == arguments.keys()
    assert spec.exec(**arguments).error is None
    assert echo.last["path"] + (f"?{echo.last['query']}" if echo.last["query"] else "") == url


def test_a_template_may_be_twice_in_the_url_of_an_http_tool(echo):
    spec = ToolSpec.from_http("x", f"{echo.url}/{{tenant}}/{{tenant}}", allow_private=True)
    assert spec.exec(tenant="t").error is None
    assert echo.last["path"] == "/t/t"


def test_trace_is_skipped_with_a_reason(caplog):
    whole = document({"/a": {"get": {"operationId": "a"}, "trace": {"operationId": "b"}}})
    with caplog.at_level(logging.WARNING):
        assert names(whole) == ["a"]
    assert "#/paths/~1a/trace: TRACE /a is skipped: a TRACE request is never sent" in caplog.messages[0]


def test_a_body_of_xml_is_a_text(echo):
    body = {"required": True, "content": {"application/xml": {"schema": {"type": "object", "properties": {"a": {}}}}}}
    whole = one_operation({"requestBody": body}, method="post")
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
    assert spec.input_schema["properties"]["body"]["description"] == "The whole body as a text of application/xml."
    assert spec.exec(body="<a/>").error is None
    assert (echo.last["body"], echo.last["headers"]["content-type"]) == ("<a/>", "application/xml")


HARMLESS_SCHEMAS = [
    {"type": "text"},
    {"type": ["String", "null"]},
    {"type": "file"},
    {"type": "string", "required": True},
    {"type": "string", "enum": "a"},
    {"type": "string", "maxLength": "ten", "minLength": -1, "pattern": 1, "format": None, "title": 1},
    {"type": "number", "minimum": "0", "multipleOf": 0, "exclusiveMinimum": True, "maximum": None},
    {"type": "array", "items": [{"type": "string"}], "uniqueItems": "true"},
    {"type": "array", "items": None},
    {"type": "object", "properties": None, "required": "a", "additionalProperties": "true"},
    {"type": "object", "properties": {"on": {"required": True}, "b": None}, "required": ["on", 1]},
    {"allOf": {"type": "string"}},
    {"discriminator": "kind", "oneOf": [{"type": "string"}]},
    {"nullable": True},
    {"type": "string", "example": dt.date(2026, 1, 1), "default": 1},
    None,
]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0", 3.1, "3.0.x", 3])
@pytest.mark.parametrize("schema", HARMLESS_SCHEMAS, ids=str)
@pytest.mark.default_cases(24)
def test_a_mistake_in_a_schema_costs_no_tool(schema, version):
    operation = {"parameters": [parameter("a", schema=schema)], "responses": json_response(schema)}
    whole = one_operation({**operation, "requestBody": json_body(schema)}, method="post", version=version)
    for responses in ("relaxed", "exact"):
        spec = ToolSpec.from_openapi(whole, responses=responses)["call"]
        jsonschema_rs.validator_for(spec.input_schema)


@pytest.mark.parametrize(
    "change",
    [
        {"tags": [1, {"name": "x"}, None]},
        {"summary": 5, "description": 1.5, "deprecated": "false", "operationId": 7},
        {"security": [{"nothing": []}]},
        {"responses": json_response(ref("Nowhere"))},
        {"responses": {200: {"description": "ok", "content": []}}},
        {"responses": None},
        {"parameters": [{"name": "a", "in": "query", "type": "string", "required": "true"}]},
        {"parameters": [parameter("a", style="simple", schema={"type": "array", "items": {"type": "string"}})]},
    ],
    ids=str,
)
def test_a_mistake_beside_the_request_costs_no_tool(change):
    whole = one_operation(change)
    del whole["info"]
    assert len(ToolSpec.from_openapi(whole)) == 1


def test_a_scheme_that_leads_nowhere_costs_no_tool():
    components = {
        "securitySchemes": {"lost": ref("Nowhere", "securitySchemes"), "key": SCHEMES["securitySchemes"]["key"]}
    }
    whole = one_operation({"security": [{"lost": []}, {"key": []}]}, components=components)
    assert ToolSpec.from_openapi(whole)["call"].body.request.credential_parameters == ("key",)


SCHEMES = {
    "securitySchemes": {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "machine": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://evil.example/token"}}},
    }
}
KEY = {"key": SecretStr("s3cret-1")}
MACHINE = {"machine": {"client_id": SecretStr("me"), "client_secret": SecretStr("s3cret-1")}}


def test_a_document_from_a_url_cannot_send_credentials_elsewhere():
    whole = one_operation({"security": [{"key": []}]}, components=SCHEMES, server="https://evil.example")
    url = "https://good.example/openapi.json"
    message = refusal(whole, document_url=url, auth=KEY)
    assert "would have credentials sent to https://evil.example, which is elsewhere" in message
    assert "base_url = 'https://evil.example'" in message
    assert "s3cret-1" not in message
    assert names(whole, document_url=url, auth=KEY, base_url="https://evil.example") == ["call"]
    assert names(whole, document_url="https://evil.example/openapi.json", auth=KEY) == ["call"]
    assert names(whole, auth=KEY) == ["call"]


def test_without_credentials_a_document_from_a_url_may_name_any_server():
    whole = one_operation({"security": [{"key": []}]}, components=SCHEMES, server="https://other.example")
    spec = ToolSpec.from_openapi(whole, document_url="https://good.example/openapi.json")["call"]
    assert spec.body.request.all_security == ()


def test_a_document_from_a_url_cannot_name_another_token_endpoint():
    whole = one_operation({"security": [{"machine": []}]}, components=SCHEMES, server="https://good.example")
    url = "https://good.example/openapi.json"
    message = refusal(whole, document_url=url, auth=MACHINE)
    assert "auth['machine']['token_url'] = 'https://evil.example/token'" in message
    own = {"machine": {**MACHINE["machine"], "token_url": "https://login.example/token"}}
    spec = ToolSpec.from_openapi(whole, document_url=url, auth=own)["call"]
    assert spec.body.request.all_security[0].token_url == "https://login.example/token"


def test_options_from_a_manifest_may_be_sealed():
    specs = ToolSpec.from_openapi(one_operation({}), base_url=SecretStr("https://mine.example"))
    assert specs["call"].body.request.base_url == "https://mine.example"


def test_the_timeout_is_that_of_each_tool():
    assert ToolSpec.from_openapi(one_operation({}))["call"].timeout == 30
    assert ToolSpec.from_openapi(one_operation({}), timeout=5)["call"].timeout == 5
    assert ToolSpec.from_openapi(one_operation({}), timeout=None)["call"].timeout is None


@pytest.mark.parametrize("option", ["tags", "operations", "methods", "exclude"])
def test_an_iterator_selects_what_its_items_do(option):
    names = ["get"] if option == "methods" else ["orders"] if option == "tags" else ["get_*"]
    selected = ToolSpec.from_openapi(shop(), **{option: names})
    assert 0 < len(selected) < len(ToolSpec.from_openapi(shop()))
    assert list(ToolSpec.from_openapi(shop(), **{option: iter(names)})) == list(selected)


def test_a_document_does_what_is_trusted_as_of_load():
    assert ToolSpec.from_openapi(
        shop(), operations=["get_brand"], trust=["https://*.example"], base_url="https://a.example"
    )
    assert ToolSpec.from_openapi(
        shop(), operations=["get_brand", "get_order"], trust=iter(["https://a.example"]), base_url="https://a.example"
    )
    with pytest.raises(SourceError, match="is no feature"):
        ToolSpec.from_openapi(shop(), trust=["<all>"])
    for trust, name in (([], "https://a.example', '${SHOP_KEY}"), (["https://a.example"], "${SHOP_KEY}")):
        with pytest.raises(SourceError, match=re.escape(f"not trusted: add '{name}' to trust=")):
            options = {"operations": ["get_order"], "auth": {"key": "${SHOP_KEY}"}, "base_url": "https://a.example"}
            ToolSpec.from_openapi(shop(), trust=trust, **options)
