"""The same document as tools of ours and of FastMCP's OpenAPI provider: the server receives the same requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from fastmcp import Client, FastMCP
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ahvn_tools import ToolSpec
from tests.sources.openapi.documents import json_body, one_operation, parameter, shop
from tests.sources.openapi.echo_server import pairs

ARTICLE = {"name": "Tea", "subtitle": None, "price": 2.5, "parts": [{"name": "Leaf", "price": 1}], "kind": "food"}
ORDER = {"note": "soon", "lines": [{"article": 1, "count": 2}], "payment": {"method": "card", "number": "4111"}}

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_articles", {"limit": 5, "tags": ["a", "b c"], "X-Tenant": "acme"}),
    ("list_orders", {}),
    ("create_order", {**ORDER, "X-Tenant": "acme"}),
    ("get_invoice", {"invoiceId": 7}),
    ("replace_brand", {"brandId": 7, **{key: item for key, item in ARTICLE.items() if item is not None}}),
    ("delete_review", {"reviewId": 7}),
    ("anonymous", {}),
    ("upload_text", {"body": "a;ü"}),
    ("upload_list", {"body": [1, 2]}),
    ("upload_login", {"user": "a&b", "roles": ["x", "y"]}),
]
"""Operations that FastMCP sends as OpenAPI says. It does not write `label`, `matrix`, lists in a path or objects in a
header by their style, does not tell a file from a text, sends no credentials, and leaves null out of a body."""

READ_ONLY = {"id"}
"""Members of bodies that FastMCP lets a model send although they are read-only."""


def sent(echo: Any) -> dict[str, Any]:
    """Return what matters of the last request."""
    request = echo.last
    headers = request["headers"]
    body = request["body"]
    media_type = headers.get("content-type", "").partition(";")[0]
    return {
        "method": request["method"],
        "path": request["path"],
        "query": pairs(request["query"]),
        "tenant": headers.get("x-tenant"),
        "body": json.loads(body) if media_type == "application/json" else pairs(body) if "form" in media_type else body,
        "media type": media_type,
    }


async def call_with_fastmcp(whole: Any, url: str, name: str, arguments: dict[str, Any]) -> None:
    """Call an operation through FastMCP's provider."""
    async with httpx2.AsyncClient(base_url=url) as http:
        server = FastMCP.from_openapi(whole, client=http, validate_output=False)
        async with Client(server) as client:
            (tool,) = [tool for tool in await client.list_tools() if tool.name == name]
            unknown = [key for key in arguments if key not in tool.input_schema["properties"]]
            if unknown:  # it names the whole body by the title of its schema, or otherwise
                (own,) = [key for key in tool.input_schema["properties"] if key not in arguments]
                arguments = {own: arguments[unknown[0]]}
            await client.call_tool(name, arguments)


@pytest.fixture(scope="module")
def whole():
    """The shop, without credentials."""
    made = shop()
    del made["security"]
    return made


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
def test_the_server_receives_what_fastmcp_sends(echo, whole, name, arguments):
    spec = ToolSpec.from_openapi(whole, base_url=f"{echo.url}/v1", operations=[name], responses="none")[name]
    result = spec.exec(**arguments)
    assert result.error is None, result.error
    ours = sent(echo)
    paths = {path: item for path, item in whole["paths"].items() if name in str(item)}
    asyncio.run(call_with_fastmcp({**whole, "paths": paths}, f"{echo.url}/v1", name, arguments))
    assert len(echo.received) == 2
    assert ours == sent(echo)


@pytest.mark.exhaustive
def test_there_are_the_same_tools_with_the_same_arguments(whole):
    specs = ToolSpec.from_openapi(whole, deprecated=True)

    async def list_tools() -> dict[str, Any]:
        async with (
            httpx2.AsyncClient(base_url="https://shop.example") as http,
            Client(FastMCP.from_openapi(whole, client=http)) as client,
        ):
            return {tool.name: tool for tool in await client.list_tools()}

    theirs = asyncio.run(list_tools())
    named = {name: spec for name, spec in specs.items() if name in theirs}
    assert len(theirs) - len(named) == 1  # the name that is made of method and path
    others = {"search", "upload_form", "upload_raw", "upload_text", "upload_list"}
    for name, spec in named.items():
        if name not in others and "list" not in name:
            expected = theirs[name].input_schema
            assert set(spec.params) == expected["properties"].keys() - READ_ONLY, name
            assert set(spec.input_schema.get("required", ())) == set(expected.get("required", ())) - READ_ONLY, name


scalars = st.one_of(
    st.integers(-9, 9), st.booleans(), st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False)
)


@pytest.mark.exhaustive
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.one_of(scalars, st.lists(scalars, min_size=1, max_size=4)), other=st.text(max_size=5))
def test_any_value_of_a_query_is_what_fastmcp_sends(echo, value, other):
    whole = one_operation({"parameters": [parameter("value", schema={}), parameter("other")]})
    arguments = {"value": value, "other": other}
    spec = ToolSpec.from_openapi(whole, base_url=echo.url)["call"]
    assert spec.exec(**arguments).error is None
    ours = sent(echo)
    asyncio.run(call_with_fastmcp(whole, echo.url, "call", arguments))
    assert ours == sent(echo)


members = st.dictionaries(
    st.text("abc_ü", min_size=1, max_size=4), st.text("ab,;=&/ü% ", min_size=1, max_size=4), min_size=1
)
items = st.lists(st.text("ab,;=&/|ü% ", min_size=1, max_size=4), min_size=1, max_size=4)


def split(text: str, separator: str) -> list[str]:
    """Return the decoded parts of a value: each was encoded by itself."""
    return [unquote(part) for part in text.split(separator)]


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=items)
def test_a_server_reads_back_the_list_of_any_style(echo, value):
    separators = {("form", False): ",", ("spaceDelimited", False): "%20", ("pipeDelimited", False): "%7C"}
    names = [f"{style}_{explode}" for style, explode in [*separators, ("form", True)]]
    places = [parameter(name, schema={}, style=name.partition("_")[0], explode=name.endswith("True")) for name in names]
    spec = ToolSpec.from_openapi(one_operation({"parameters": places}), base_url=echo.url)["call"]
    assert spec.exec(**dict.fromkeys(names, value)).error is None
    raw = [pair.partition("=")[::2] for pair in echo.last["query"].split("&")]
    for (style, explode), separator in separators.items():
        (written,) = [text for name, text in raw if name == f"{style}_{explode}"]
        if separator == "," or not any(mark in item for mark in "| " for item in value):
            assert split(written, separator) == value
    assert [item for name, item in pairs(echo.last["query"]) if name == "form_True"] == value


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=members)
def test_a_server_reads_back_the_object_of_any_style(echo, value):
    places = [
        parameter("deep", schema={}, style="deepObject", explode=True),
        parameter("flat", schema={}, explode=False),
        parameter("path", "path", {}, style="matrix", explode=True),
    ]
    spec = ToolSpec.from_openapi(one_operation({"parameters": places}, path="/a/{path}/b"), base_url=echo.url)["call"]
    assert spec.exec(deep=value, flat=value, path=value).error is None
    query = pairs(echo.last["query"])
    assert {name[5:-1]: item for name, item in query if name.startswith("deep[")} == value
    (flat,) = [
        text for name, _, text in (pair.partition("=") for pair in echo.last["query"].split("&")) if name == "flat"
    ]
    parts = split(flat, ",")
    assert dict(zip(parts[::2], parts[1::2], strict=True)) == value
    matrix = echo.last["path"].removeprefix("/a/;").removesuffix("/b").split(";")
    assert dict(split(pair, "=") for pair in matrix) == value


bodies = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=bodies)
def test_any_json_arrives_as_it_was_passed(echo, value):
    spec = ToolSpec.from_openapi(
        one_operation({"requestBody": json_body({})}, method="post"), base_url=echo.url, responses="none"
    )["call"]
    assert spec.exec(body=value).error is None
    assert json.loads(echo.last["body"].encode("latin-1")) == value
