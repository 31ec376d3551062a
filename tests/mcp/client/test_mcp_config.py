"""mcp.json as different programs write it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools.errors import DefinitionError
from ahvn_tools.mcp.client.mcp_config import ServerEntry, parse_entries, read_config

HERE = Path("/some/project")


def read_entries(config: Any, **options: dict[str, str]) -> dict[str, ServerEntry]:
    return parse_entries(config, HERE, env=options.get("env", {}), inputs=options.get("inputs", {}))


def entry(value: Any, **options: dict[str, str]) -> ServerEntry:
    return read_entries({"mcpServers": {"one": value}}, **options)["one"]


@pytest.mark.parametrize(
    "config",
    [
        {"mcpServers": {"one": {"command": "x"}}},
        {"servers": {"one": {"command": "x"}}, "inputs": []},
        {"mcp": {"servers": {"one": {"command": "x"}}}, "editor.fontSize": 12},
        {"one": {"command": "x"}},
    ],
)
def test_every_known_layout_is_read(config: Any) -> None:
    assert read_entries(config)["one"].command == ("x",)


@pytest.mark.parametrize("config", [{}, {"one": 1}, {"mcp": {}}, {"mcpServers": []}])
def test_other_objects_are_refused(config: Any) -> None:
    with pytest.raises(DefinitionError, match=r"not an mcp\.json"):
        read_entries(config)


def test_mcp_json_may_have_no_servers() -> None:
    assert read_entries({"mcpServers": {}}) == {}


@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
def test_disabled_server_is_left_out_without_being_parsed(off: dict[str, bool]) -> None:
    assert list(read_entries({"mcpServers": {"one": {"url": "${MISSING}", **off}, "two": {"url": "x"}}})) == ["two"]


def test_command_has_arguments_and_environment_as_strings() -> None:
    read = entry({"command": "x", "args": ["-a", 1], "env": {"PORT": 80, "ON": True}, "cwd": "/there"})
    assert read.command == ("x", "-a", "1")
    assert read.env == {"PORT": "80", "ON": "true"}
    assert read.cwd == "/there"
    assert entry({"command": ["x", "y"], "args": None}).command == ("x", "y")


def test_env_file_is_read_and_the_entrys_env_has_priority(tmp_path: Path) -> None:
    text = "# ours\n\nTOKEN=a=b # why\nHASH=a#b\nexport NAME = ann\nQUOTED='x y'\nDOUBLE=\"z\"\nEMPTY=\nSAME=file\n"
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    config = {"one": {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"SAME": "entry"}}}
    seen = parse_entries(config, tmp_path, env={}, inputs={})["one"].env
    assert seen == {
        "TOKEN": "a=b", "HASH": "a#b", "NAME": "ann", "QUOTED": "x y", "DOUBLE": "z", "EMPTY": "", "SAME": "entry",
    }  # fmt: skip
    near = {"one": {"command": "x", "envFile": ".env"}}
    assert parse_entries(near, tmp_path, env={}, inputs={})["one"].env["SAME"] == "file"


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_url_has_headers_type_and_token(key: str) -> None:
    read = entry({key: "http://x", "headers": {"a": "b"}, "type": "sse", "auth": "oauth"})
    assert (read.url, read.headers, read.transport, read.auth) == ("http://x", {"a": "b"}, "sse", "oauth")
    assert entry({key: "http://x", "transport": "http", "auth": {}}).transport == "http"
    assert entry({key: "http://x", "type": 1}).transport is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${NAME}", "value"),
        ("a ${NAME} b ${NAME}", "a value b value"),
        ("${env:NAME}", "value"),
        ("${NAME:-other}", "value"),
        ("${NONE:-other}", "other"),
        ("${NONE:-}", ""),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${env:NONE:-a:-b}", "a:-b"),
        ("${input:key}", "typed"),
        ("${workspaceFolder}", str(HERE)),
        ("${workspaceFolderBasename}", "project"),
        ("${userHome}", str(Path.home())),
        ("${/}${pathSeparator}", os.sep * 2),
        ("$NAME $${", "$NAME $${"),
    ],
)
def test_variables_are_replaced_once(text: str, value: str) -> None:
    given = {"env": {"NAME": "value", "EMPTY": "", "OUTER": "${NAME}"}, "inputs": {"key": "typed"}}
    for filled in (
        entry({"command": text}, **given).command[0],
        entry({"command": "x", "args": [text]}, **given).command[1],
        entry({"command": "x", "env": {"a": text}}, **given).env["a"],
        entry({"url": "x", "headers": {"a": text}}, **given).headers["a"],
    ):
        assert filled == value
    assert entry({"url": "${OUTER}"}, **given).url == "${NAME}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"command": "${NONE}"}, "'one' needs the environment variable 'NONE'"),
        ({"url": "x", "headers": {"a": "${env:NONE}"}}, "needs the environment variable 'NONE'"),
        ({"command": "x", "env": {"a": "${input:token}"}}, r"asks for the input 'token'; pass inputs=\{'token'"),
        ({"command": "x", "env": {"a": "${input:kez}"}}, "Known: 'key'"),
        ({}, "either a `command` or a `url`"),
        ({"command": "x", "url": "y"}, "either a `command` or a `url`"),
        ([], "'one' is not a JSON object"),
        ({"command": "x", "env": []}, None),
        ({"command": "x", "env": ["a"]}, "`env` is not a JSON object"),
        ({"command": "x", "args": [{}]}, "`args` has a value that is not a string"),
        ({"command": {}}, "`args` has a value that is not a string"),
        (
            {"command": "x", "envFile": "nowhere.env"},
            r"'one': 'nowhere\.env' cannot be read: No such file or directory",
        ),
    ],
)
def test_invalid_entry_error_names_the_server(value: Any, message: str | None) -> None:
    if message is None:
        assert entry(value).env == {}
        return
    with pytest.raises(DefinitionError, match=message):
        entry(value, inputs={"key": "secret"})


def test_error_contains_no_value() -> None:
    with pytest.raises(DefinitionError) as error:
        entry({"command": "x", "env": {"A": "sesame", "B": "${NONE}"}}, env={"C": "sesame"}, inputs={"d": "sesame"})
    assert "sesame" not in str(error.value)


def test_comments_and_trailing_commas_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    text = '{ // what\n "servers": { /* "x" */ "a": {"url": "http://x/*,*/y//z", "headers": {"q": "\\"//,}"},}, }, }'
    file.write_text(text, encoding="utf-8-sig")
    config, folder = read_config(file)
    assert config == {"servers": {"a": {"url": "http://x/*,*/y//z", "headers": {"q": '"//,}'}}}}
    assert folder == tmp_path


@pytest.mark.parametrize(
    ("content", "message"), [(b"{", "is not JSON"), (b"[]", "not contain a JSON object"), (b"\xff", "not UTF-8")]
)
def test_invalid_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(content)
    with pytest.raises(DefinitionError, match=message):
        read_config(file)
