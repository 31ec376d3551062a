"""JSON files, and tools in them as MCP lists them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ahvn_tools.errors import SourceError, ToolConnectionError
from ahvn_tools.loading.json_file import read_json
from ahvn_tools.manifest import load


def refusal(data: bytes | None, tmp_path: Path) -> str:
    file = tmp_path / "f.json"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(SourceError) as caught:
        read_json(file, "f.json")
    assert caught.value.file == "f.json"
    return str(caught.value)


def test_comments_commas_and_a_byte_order_mark_are_allowed(tmp_path):
    file = tmp_path / "f.json"
    file.write_text('\ufeff{"a": "//", /* no */ "b": [1, 2,], // end\n}')
    assert read_json(file, "f.json") == {"a": "//", "b": [1, 2]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "f.json cannot be read: No such file or directory."),
        (b'{"a":\n 1', "f.json, line 2: this is not JSON: Expecting ',' delimiter."),
        (b'{\n"a": "\xe9"}', "f.json, line 2: this is not UTF-8: save the file in that encoding."),
        (b"[" * 100_000, "f.json, line 1: this is nested too deeply."),
        (b"9" * 5000, "f.json: a number in it is too long."),
    ],
)
def test_what_is_no_json_is_refused(data, message, tmp_path):
    assert refusal(data, tmp_path) == message


GITHUB = Path(__file__).resolve().parents[3] / "shared" / "corpora" / "github_mcp_tools.jsonl"
TOOL = {
    "name": "find",
    "description": "Find.",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("one.json", json.dumps(TOOL)),
        ("list.json", json.dumps([TOOL])),
        ("tools.json", json.dumps({"tools": [TOOL], "nextCursor": "x"})),
        ("answer.json", json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL]}})),
        ("lines.jsonl", json.dumps(TOOL) + "\n\n"),
    ],
)
def test_a_file_in_each_form_has_its_tools(file, text, write):
    kit = load(write(text, file))
    assert ([spec.name for spec in kit], kit.name) == (["find"], file.partition(".")[0])
    assert kit["find"].definition.input_schema["properties"] == {"q": {"type": "string"}}


def test_a_call_answers_that_there_is_no_connection(write):
    kit = load([TOOL])
    assert kit.exec("find", {"q": "x"}).error.code == "connection"
    with pytest.raises(ToolConnectionError):
        kit.call("find", {"q": "x"})


def test_tools_of_a_file_are_exported(write):
    exported = load({"tools": [TOOL]}).to("anthropic")
    assert [tool["name"] for tool in exported] == ["find"]


@pytest.mark.skipif(not GITHUB.exists(), reason=f"{GITHUB} is not here")
def test_the_117_tools_of_github_are_read():
    kit = load(GITHUB)
    assert (len(kit), kit.name, kit.load_errors) == (117, "github_mcp_tools", ())
    assert kit["get_me"].definition.annotations["readOnlyHint"]
    exported = {tool["function"]["name"] for tool in kit.to("openai")}
    assert {spec.name for spec in kit} - exported == {"ui_get"}  # for an interface alone


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("a.jsonl", json.dumps(TOOL) + "\n{", "a.jsonl, line 2: this is not JSON: "),
        ("a.jsonl", "", "a.jsonl has no tools."),
        ("a.jsonl", "3", "a.jsonl, line 1 is neither a tool of MCP nor a list of tools."),
        ("a.jsonl", '{"name": "x"}', "a.jsonl, line 1: tool 1 is not a tool of MCP: `inputSchema`: Field required."),
        ("a.json", '{"tools": []}', "a.json has no tools."),
        (
            "a.json",
            '{"tools": [{"name": "x", "inputSchema": []}]}',
            "a.json: tool 1 is not a tool of MCP: `inputSchema`: ",
        ),
        ("a.json", '{"tools": [{"name": "x", "inputSchema": {"type": "array"}}]}', "a.json: tool 1"),
    ],
)
def test_what_is_no_list_of_tools_is_refused_with_the_place(file, text, message, write):
    write(text, file)
    with pytest.raises(SourceError) as caught:
        load(file)
    assert str(caught.value).startswith(message)
