"""How lists and objects are written in a URL, a header and a cookie: the examples of the OpenAPI specification."""

from __future__ import annotations

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.sources.http.body import build_template
from ahvn_tools.sources.http.building import cookie_text, header_text, path_text, query_pairs
from ahvn_tools.sources.http.request import ApiKey, HTTPArgument, HTTPOptions, HTTPRequest

LIST = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}


def argument(location, style=None, explode=None, **options) -> HTTPArgument:
    return HTTPArgument(location=location, name="color", style=style, explode=explode, **options)


@pytest.mark.parametrize(
    ("style", "explode", "text", "items", "members"),
    [
        ("simple", False, "blue", "blue,black,brown", "R,100,G,200,B,150"),
        ("simple", True, "blue", "blue,black,brown", "R=100,G=200,B=150"),
        ("label", False, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
        ("label", True, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
        ("matrix", False, ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
        ("matrix", True, ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
    ],
)
def test_styles_of_a_path(style, explode, text, items, members):
    place = argument("path", style, explode)
    assert [path_text(place, value) for value in ("blue", LIST, OBJECT)] == [text, items, members]
    assert "%2F%2C" in path_text(place, "/,")


@pytest.mark.parametrize(
    ("style", "explode", "items", "members"),
    [
        ("form", True, "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        ("form", None, "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        ("form", False, "color=blue,black,brown", "color=R,100,G,200,B,150"),
        ("spaceDelimited", False, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", None, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
        (
            "deepObject",
            True,
            "color%5B0%5D=blue&color%5B1%5D=black&color%5B2%5D=brown",
            "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
        ),
    ],
)
def test_styles_of_the_query(style, explode, items, members):
    place = argument("query", style, explode)

    def query(value) -> str:
        return "&".join(f"{name}={text}" for name, text in query_pairs(place, value))

    assert [query(value) for value in ("a&b", LIST, OBJECT, None, True)] == [
        "color=a%26b",
        items,
        members,
        "",
        "color=true",
    ]


def test_a_value_may_be_sent_as_json_text():
    assert query_pairs(argument("query", content_type="application/json"), {"a": [1]}) == [
        ("color", "%7B%22a%22%3A%5B1%5D%7D")
    ]


def test_headers_and_cookies():
    assert header_text(argument("header"), LIST) == "blue,black,brown"
    assert header_text(argument("header", explode=True), OBJECT) == "R=100,G=200,B=150"
    assert cookie_text("a; b=c\r\nd") == "a%3B%20b=c%0D%0Ad"
    assert cookie_text(["a", 1]) == "a%2C1"
    assert cookie_text({"a": 1}) == "a%2C1"


def test_an_object_cannot_set_another_parameter_of_the_query(service):
    places = {
        "filter": HTTPArgument(location="query", name="filter"),
        "org": HTTPArgument(location="query", name="org_id"),
    }
    request = HTTPRequest(method="GET", base_url=service.url, path="/x", arguments=places, query=(("v", "1"),))
    schema = {"type": "object", "properties": {"filter": {"type": "object"}}}
    spec = ToolSpec(*build_template("find", schema, request, {}, http_options=HTTPOptions(allow_private=True)))
    spec.bind("org", "org", "acme")
    for name in ("org_id", "v"):
        assert "contains the name of another parameter" in spec.exec(filter={name: "evil"}).text
    spec.call(filter={"a b": "c"})
    assert service.last.target == "/x?v=1&a%20b=c&org_id=acme"


def test_cookies_are_sent_in_one_header(service):
    request = HTTPRequest(
        method="GET",
        base_url=service.url,
        path="/x",
        arguments={"lang": HTTPArgument(location="cookie", name="lang")},
        security=(ApiKey(location="cookie", name="sid"),),
    )
    schema = {"type": "object", "properties": {"lang": {"type": "string"}}}
    options = HTTPOptions(allow_private=True)
    spec = ToolSpec(
        *build_template("x", schema, request, {}, http_options=options, credentials={"api_key": lambda: "s"})
    )
    assert list(spec.params) == []
    spec.bind("lang", "lang", "de; sid=evil").call()
    assert service.last.headers["cookie"] == "lang=de%3B%20sid=evil; sid=s"
