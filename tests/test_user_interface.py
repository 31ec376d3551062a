"""The option `ui`: the page of a tool, and what its metadata says."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.errors import DefinitionError, SourceError
from ahvn_tools.user_interface import MAX_HTML_BYTES, UserInterface, is_for_apps, resource_uri

PAGE = "<!doctype html><title>Orders — é</title>"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "my orders.html"
    file.write_text(PAGE, encoding="utf-8")
    return file


def orders() -> str:
    """List the orders."""
    return "tea"


def ui_of(spec: ToolSpec) -> dict:
    return spec.definition.meta["ui"]


@pytest.mark.parametrize("kind", [str, Path, lambda file: {"html": file}, lambda file: {"html": str(file)}])
def test_a_file_is_served_under_a_uri_of_its_content(page, kind):
    uri = ui_of(ToolSpec.from_function(orders, ui=kind(page)))["resourceUri"]
    assert uri.endswith("/my%20orders.html")
    assert resource_uri({"ui": {"resourceUri": uri}}) == uri
    page.write_text("another page")
    assert ui_of(ToolSpec.from_function(orders, ui=kind(page)))["resourceUri"] != uri


def test_other_metadata_stays(page):
    meta = {"team": "core", "ui": {"visibility": ["model"], "other": 1}}
    spec = ToolSpec.from_function(orders, meta=meta, ui="ui://desk/orders.html")
    assert spec.definition.meta == {"team": "core", "ui": {**meta["ui"], "resourceUri": "ui://desk/orders.html"}}
    assert meta == {"team": "core", "ui": {"visibility": ["model"], "other": 1}}
    assert spec.to_mcp().meta["ui"]["resourceUri"] == "ui://desk/orders.html"


@pytest.mark.parametrize(
    ("ui", "message"),
    [
        (3, "not a int"),
        (True, "not a bool"),
        ("orders.txt", "an .html file, not 'orders.txt'"),
        ("", "an .html file"),
        ("nowhere.html", "'nowhere.html', cannot be read: No such file"),
        ("http://a/b.html", "cannot be read"),
        ("ui://", "begins with 'ui://' and has no spaces"),
        ("ui://a b", "begins with 'ui://' and has no spaces"),
        ({"resourceUri": "https://a/b"}, "begins with 'ui://'"),
        ({"resourceUri": 3}, "'resourceUri' of ui is a text such as"),
        ({}, "ui names a page"),
        ({"csp": {}}, "ui names a page"),
        ({"html": None}, "an .html file, not None"),
        ({"text": None, "visibility": ["app"]}, "'text' of ui is the text of the page"),
        ({"htm": "a.html"}, "'htm', which is no key of it. Did you mean 'html'"),
        ({"html": "a.html", "text": "x"}, "pass one of them"),
        ({"html": 3}, "an .html file, not 3"),
        ({"text": "x", "visibility": ["everyone"]}, "a list of 'model' and 'app'"),
        ({"text": "x", "visibility": "app"}, "a list of 'model' and 'app'"),
        ({"visibility": []}, "a list of 'model' and 'app'"),
        ({"text": "x", "csp": ["https://a"]}, "'csp' of ui is a dict such as"),
        ({"text": "x", "prefersBorder": 1}, "'prefersBorder' of ui is True or False"),
    ],
)
def test_what_is_no_interface_is_refused(ui, message):
    with pytest.raises(DefinitionError, match=message):
        ToolSpec.from_function(orders, ui=ui)


def test_only_a_readable_file_of_limited_size_is_read(tmp_path):
    large, binary, pipe, link = (tmp_path / f"{name}.html" for name in ("large", "binary", "pipe", "link"))
    large.write_bytes(b" " * (MAX_HTML_BYTES + 1))
    binary.write_bytes(b"\xff\xfe")
    os.mkfifo(pipe)
    link.symlink_to(binary)
    (tmp_path / "folder.html").mkdir()
    expected = {
        large: "more than 4,000,000 bytes",
        binary: "no text in UTF-8",
        pipe: "no regular file",
        link: "a link",
        tmp_path / "folder.html": "Is a directory",
    }
    for file, message in expected.items():
        with pytest.raises(DefinitionError, match=message):
            ToolSpec.from_function(orders, ui=file)


def test_the_page_goes_with_the_tool(page, tmp_path):
    options = {"html": page, "visibility": ["app"], "csp": {"connectDomains": ["https://a.example"]}}
    spec = ToolSpec.from_function(orders, ui=options)
    page.unlink()
    for copy in (spec.transform(title="Orders"), spec.clone(), pickle.loads(pickle.dumps(spec))):
        interface = copy.compiled.template.options["ui"]
        assert (interface.html, interface.visibility) == (PAGE, ("app",))
        assert interface.resource_meta == {"csp": {"connectDomains": ["https://a.example"]}}
        assert ui_of(copy) == ui_of(spec)
    assert repr(interface) == f"<UserInterface {interface.uri!r}>"
    assert UserInterface.of(interface.to_data()) == interface


@pytest.mark.parametrize("ui", ["secret.html", "/etc/passwd", {"html": "secret.html"}, {"html": None}])
def test_data_of_a_tool_names_no_file(ui):
    data = ToolSpec.from_function(orders, ui={"text": PAGE}).to_dict()
    assert ToolSpec.from_dict(data, trust=["*"]).to_dict() == data
    data["options"]["ui"] = ui
    with pytest.raises(SourceError, match="names no file"):
        ToolSpec.from_dict(data, trust=["*"])


def test_a_toolkit_gives_a_tool_a_page(page):
    kit = Toolkit("desk").add(orders, ui=page)
    assert kit["orders"].definition.meta["ui"]["resourceUri"].startswith("ui://")


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (None, False),
        ({}, False),
        ({"ui": "x"}, False),
        ({"ui": {"visibility": None}}, False),
        ({"ui": {"visibility": ["model", "app"]}}, False),
        ({"ui": {"visibility": ["app"]}}, True),
        ({"ui": {"visibility": []}}, True),
        ({"ui": {"visibility": "app"}}, False),
    ],
)
def test_a_tool_for_apps_is_one_whose_visibility_lacks_models(meta, expected):
    assert is_for_apps(meta) is expected


@pytest.mark.parametrize(
    "meta", [None, {}, {"ui": []}, {"ui": {"resourceUri": 3}}, {"ui": {"resourceUri": "file:///a"}}]
)
def test_metadata_without_a_page(meta):
    assert resource_uri(meta) is None
