"""`ahvn-tools show`, `search`, `export` and `prompt`."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from ahvn_tools import load
from ahvn_tools.cli.app import main
from tests.cli.shop import SHOP
from tests.sources.openapi.echo_server import running


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return file


def test_show_lists_members_of_nested_objects_once_with_their_path(capsys):
    assert main(["show", "shop.py", "place"]) == 0
    printed = capsys.readouterr().out
    parameters = [line.split()[0] for line in printed.splitlines() if line.startswith(("order", "note"))]
    assert parameters == [
        "order",
        "order.lines",
        "order.lines[].sku",
        "order.lines[].count",
        "order.lines[].color",
        "order.parent",
        "note",
    ]
    assert "at least 1" in printed
    assert "Words for the shop." in printed


def test_show_names_what_is_bound_and_no_value(capsys):
    for options in ([], ["--json"]):
        assert main(["show", "shop.py", "place", *options]) == 0
        printed = capsys.readouterr()
        assert "canary" not in printed.out + printed.err
    data = json.loads(printed.out)
    assert data["bound"] == {"token": "token", "region": None}
    assert set(data["input_schema"]["properties"]) == {"order", "note"}


def test_show_prints_what_the_definition_says_as_json(capsys):
    assert main(["show", "shop.py", "status", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    spec = load("shop.py")["status"]
    assert data["fingerprint"] == spec.definition.fingerprint
    assert (data["input_schema"], data["output_schema"]) == (spec.input_schema, spec.output_schema)
    assert (data["tags"], data["annotations"]) == (["orders", "read"], {"readOnlyHint": True})
    assert data["origin"].endswith(".status")


def test_show_an_unknown_tool_is_a_usage_error_with_similar_names(capsys):
    assert main(["show", "shop.py", "stauts"]) == 2
    assert "error: There is no tool 'stauts'. Did you mean 'status'?" in capsys.readouterr().err


def test_show_finds_a_tool_of_a_second_source(tmp_path, capsys):
    (tmp_path / "garden.py").write_text("from ahvn_tools import tool\n@tool\ndef grow() -> str:\n    return ''\n")
    assert main(["show", "shop.py", "grow", "--source", "garden.py"]) == 0
    assert capsys.readouterr().out.startswith("grow() -> str\n")


def test_search_prints_the_best_match_first(capsys):
    assert main(["search", "shop.py", "status", "order"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["status", "place"]
    assert main(["search", "shop.py", "status order", "--limit", "1", "--json"]) == 0
    assert [tool["name"] for tool in json.loads(capsys.readouterr().out)] == ["status"]


def test_search_without_a_match_ends_with_1(capsys):
    assert main(["search", "shop.py", "zeppelin"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "loaded\nNone of the 3 tools matches.\n")


@pytest.mark.parametrize("name", ["anthropic", "openai", "gemini", "mcp", "prompt"])
def test_export_prints_what_the_toolkit_exports(capsys, name):
    assert main(["export", "shop.py", "--format", name, "--audience", "other"]) == 0
    assert json.loads(capsys.readouterr().out) == load("shop.py").select(audience="other").to(name)


def test_export_writes_a_whole_file_or_none(tmp_path, capsys):
    file = tmp_path / "tools.json"
    file.write_text("old")
    file.chmod(0o640)
    assert main(["export", "shop.py", "-f", "openai", "--strict", "-o", str(file), "--force"]) == 0
    assert json.loads(file.read_text()) == load("shop.py").to("openai", strict=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    written = file.read_text()
    assert main(["export", "shop.py", "-f", "openai", "-o", str(file), "--force", "--include", "no_tool"]) == 2
    assert file.read_text() == written
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["shop.py", "tools.json"]
    capsys.readouterr()
    assert main(["export", "shop.py", "-f", "openai", "-o", str(tmp_path / "no" / "tools.json")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_export_in_an_unknown_format_is_a_usage_error_with_similar_names(capsys):
    assert main(["export", "shop.py", "--format", "opnai"]) == 2
    assert capsys.readouterr().err == "error: There is no format 'opnai'. Did you mean 'openai'?\n"


def test_export_has_the_tools_of_a_group_that_is_named(capsys):
    assert main(["export", "shop.py", "--format", "openai"]) == 0
    assert [tool["function"]["name"] for tool in json.loads(capsys.readouterr().out)] == ["place", "status"]
    assert main(["export", "shop.py", "--format", "openai", "--group", "write"]) == 0
    assert [tool["function"]["name"] for tool in json.loads(capsys.readouterr().out)] == ["touch"]


def test_prompt_prints_the_texts_of_the_toolkit(capsys):
    assert main(["prompt", "shop.py"]) == 0
    assert capsys.readouterr().out == load("shop.py").to_prompt() + "\n"
    assert main(["prompt", "shop.py", "--calling"]) == 0
    assert capsys.readouterr().out == load("shop.py").to("prompt")[0]["content"] + "\n"
    assert main(["prompt", "shop.py", "--group", "write", "--notes"]) == 0
    assert capsys.readouterr().out.endswith("## write\nAsk before you write.\n")


API = """
openapi: 3.0.3
info: {title: Shop, version: "1"}
servers: [{url: "https://shop.example"}]
paths: {/orders: {get: {operationId: listOrders, security: [{api-key: []}], responses: {}}}}
components: {securitySchemes: {api-key: {type: apiKey, in: header, name: X-Key}}}
"""


def test_show_and_call_say_where_a_credential_comes_from(capsys, caplog):
    Path("api.yaml").write_text(API)
    assert main(["show", "api.yaml", "listOrders"]) == 0
    assert re.search(r"api_key +header X-Key +no value: --bind api_key=KEY", capsys.readouterr().out)
    assert main(["show", "api.yaml", "listOrders", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["credentials"] == {"api_key": "header X-Key"}
    assert main(["call", "api.yaml", "listOrders", "api_key=s3cret-1"]) == 2
    error = capsys.readouterr().err
    assert "pass --bind api_key=api_key --set api_key=VALUE" in error
    assert "s3cret-1" not in error
    assert main(["call", "api.yaml", "listOrders"]) == 1
    assert "--bind api_key=api_key --set api_key=VALUE" in caplog.text
    assert main(["call", "api.yaml", "listOrders", "limit=3"]) == 2
    assert "The tool has no parameters." in capsys.readouterr().err


def test_call_takes_a_credential_from_the_state(capsys):
    with running() as echo:
        Path("api.yaml").write_text(API)
        Path("kit.yaml").write_text(f"sources: [{{openapi: api.yaml, base_url: '{echo.url}'}}]")
        bind = ["--bind", r"api_key=keys.api-key\.v1"]
        assert main(["call", "kit.yaml", "listOrders", *bind, "--set", r"keys.api-key\.v1=s3cret-1"]) == 0
        assert echo.last["headers"]["x-key"] == "s3cret-1"
    assert "s3cret-1" not in capsys.readouterr().err


def test_call_sends_files_with_their_names(capsys):
    binary = "{type: string, format: binary}"
    schema = f"{{type: object, properties: {{file: {binary}, files: {{type: array, items: {binary}}}}}}}"
    operation = f"{{operationId: upload, requestBody: {{content: {{multipart/form-data: {{schema: {schema}}}}}}}}}"
    raw = f"{{operationId: raw, requestBody: {{content: {{image/png: {{schema: {binary}}}}}}}}}"
    Path("api.yaml").write_text(f"openapi: 3.0.3\npaths: {{/f: {{post: {operation}, put: {raw}}}}}")
    Path("a.png").write_bytes(b"\x89PNG")
    Path("b.txt").write_text("b")
    with running() as echo:
        Path("kit.yaml").write_text(f"sources: [{{openapi: api.yaml, base_url: '{echo.url}'}}]")
        assert main(["call", "kit.yaml", "upload", "file@=a.png", "files@=a.png", "files@=b.txt"]) == 0
        sent = echo.last["body"]
        assert sent.count('filename="a.png"\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n') == 2
        assert 'name="files"; filename="b.txt"' in sent
        assert main(["call", "kit.yaml", "upload", "files@=b.txt"]) == 0
        assert main(["call", "kit.yaml", "raw", "body@=a.png"]) == 0
        assert echo.last["body"] == "\x89PNG"
        assert main(["call", "kit.yaml", "upload", "file@=a.png", "file@=b.txt"]) == 2
        assert main(["call", "kit.yaml", "upload", "files@=a.png", "files=YQ=="]) == 2
        assert main(["call", "kit.yaml", "upload", "file@=nowhere"]) == 2
        assert len(echo.received) == 3
    assert "cannot be read" in capsys.readouterr().err


def test_the_interface_of_a_tool_is_shown_and_listed(tmp_path, capsys):
    tmp_path.joinpath("desk.py").write_text(
        "from ahvn_tools import tool\n"
        "@tool(ui='ui://desk/orders.html')\n"
        "def orders() -> str:\n    '''List the orders.'''\n"
        "@tool(ui={'visibility': ['app']})\n"
        "def refresh() -> str:\n    '''Read them again.'''\n"
    )
    assert main(["show", "desk.py", "orders"]) == 0
    assert re.search(r"^interface:\s+ui://desk/orders.html$", capsys.readouterr().out, re.MULTILINE)
    assert main(["list", "desk.py"]) == 0
    _, orders, refresh = capsys.readouterr().out.splitlines()
    assert "has an interface" in orders
    assert "only for interfaces" in refresh
