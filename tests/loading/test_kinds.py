"""Which kind a source is, and how it is read."""

from __future__ import annotations

import concurrent.futures
import json
from pathlib import Path

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.errors import SourceError
from ahvn_tools.loading.kinds import classify
from ahvn_tools.manifest.loader import aload, load

TOOL = {"name": "find", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("source", "kind", "location"),
    [
        ("openapi:https://x.example/docs", "openapi", "https://x.example/docs"),
        ("mcp:server.py", "server", "server.py"),
        ("def f():\n  pass", "code", "def f():\n  pass"),
        ("https://x.example/mcp", "server", "https://x.example/mcp"),
        ("HTTP://x.example/v1/openapi.JSON", "openapi", "HTTP://x.example/v1/openapi.JSON"),
        ("https://x.example/spec.yaml?v=1", "openapi", "https://x.example/spec.yaml?v=1"),
        ("https://x.example/openapi/", "openapi", "https://x.example/openapi/"),
        ("npx -y some-server", "server", "npx -y some-server"),
        ("my tools.py", "python", "my tools.py"),
        ("my tools.py:kit", "python", "my tools.py:kit"),
        ("python my.py", "server", "python my.py"),
        ("npx --key " + "x" * 500, "server", "npx --key " + "x" * 500),
        ("nowhere.py", "python", "nowhere.py"),
        ("nowhere.py:kit", "python", "nowhere.py:kit"),
        ("no/where", "python", "no/where"),
        ("acme.tools", "module", "acme.tools"),
        ("acme.tools:kit", "module", "acme.tools:kit"),
        (".", "folder", "."),
        ("folder", "folder", "folder"),
        (Path("my tools.py"), "python", "my tools.py"),
        (Path("mcp.json"), "server", "mcp.json"),
        ("server.js", "server", "server.js"),
        ("mcp.json", "server", "mcp.json"),
        ("mcp.json:github", "server", "mcp.json:github"),
        ("api.json", "openapi", "api.json"),
        ("api.yaml", "openapi", "api.yaml"),
        ("old.yaml", "openapi", "old.yaml"),
        ("flow.yaml", "openapi", "flow.yaml"),
        ("one.json", "wire", "one.json"),
        ("many.json", "wire", "many.json"),
        ("list.json", "wire", "list.json"),
        ("answer.json", "wire", "answer.json"),
        ("lines.jsonl", "wire", "lines.jsonl"),
        ("tool.yaml", "manifest", "tool.yaml"),
        ("mcp/kit.yaml", "manifest", "mcp/kit.yaml"),
        ("kit.yaml", "manifest", "kit.yaml"),
        ("empty.yaml", "manifest", "empty.yaml"),
    ],
)
def test_a_text_or_path_is_classified(source, kind, location, write):
    files = {
        "my tools.py": "",
        "server.js": "",
        "folder/x": "",
        "mcp.json": '{"mcpServers": {"github": {"url": "http://x"}}, // comment\n}',
        "api.json": '{"openapi": "3.1.0"}',
        "api.yaml": "# a comment\nopenapi: 3.1.0",
        "old.yaml": "'swagger': '2.0'",
        "flow.yaml": '{"openapi": "3.1.0"}',
        "one.json": json.dumps(TOOL),
        "many.json": json.dumps({"tools": [TOOL]}),
        "list.json": json.dumps([TOOL]),
        "answer.json": json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL]}}),
        "lines.jsonl": "",
        "tool.yaml": "name: x\nkind: http",
        "mcp/kit.yaml": "name: x\nsources: []",
        "kit.yaml": "sources:\n  - kind: x\n    openapi: y",
        "empty.yaml": "",
    }
    for name, text in files.items():
        write(text, name)
    assert classify(source) == (kind, location)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (3, "object"),
        ({"a": ToolSpec.from_function(len)}, "object"),
        ({"mcp": ToolSpec.from_function(len)}, "object"),
        ({"mcpServers": {}}, "server"),
        ({"openapi": "3.1.0"}, "openapi"),
        ({"tools": [TOOL]}, "wire"),
        ([TOOL], "wire"),
        ([], "object"),
    ],
)
def test_an_object_is_classified(source, kind):
    assert classify(source) == (kind, source)


def test_paths_are_relative_to_a_folder(write, tmp_path):
    write("", "deep/x/y")
    assert classify("x", tmp_path / "deep") == ("folder", "x")
    assert classify("x") == ("module", "x")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "A source is empty: name a file, a folder, "),
        (" \n", "A source is empty: name a file, a folder, "),
        (["a.py", "b.py"], "A list of texts is no source: pass several sources as load(first, second)."),
        ("x" * 5000, "'xxxxx"),
        ("~nobody-here/tools.json", "There is no file '~nobody-here/tools.json'."),
        ("a\0.py", "'a\\x00.py' is no path: "),
        ("https://[x/mcp", "The URL of the source cannot be read: Invalid IPv6 URL."),
        ("nowhere.json", "There is no file 'nowhere.json'."),
        ("nowhere.json:github", "There is no file 'nowhere.json'."),
        ("nowhere.yaml", "There is no file 'nowhere.yaml'."),
        (
            "package.json",
            "package.json is neither an mcp.json, nor an OpenAPI document, nor a list of MCP tools.",
        ),
        ("broken.json", "broken.json, line 2: this is not JSON: Expecting value."),
        ("README.md", "README.md is no file with tools: a source is a .py file, "),
        (Path("script"), "script is no file with tools: a source is a .py file, "),
    ],
)
def test_what_is_none_of_these_is_an_error(source, message, write):
    write('{"name": "x"}', "package.json")
    write('{"name":\n}', "broken.json")
    write("", "README.md")
    write("", "script")
    with pytest.raises(SourceError) as caught:
        classify(source)
    assert str(caught.value).startswith(message)


NAMED_TOOL = "from ahvn_tools import tool\n@tool\ndef {name}() -> str:\n    return '{name}'\n"


async def test_sources_are_loaded_in_a_loop_and_in_a_worker_thread_of_it(write):
    write(NAMED_TOOL.format(name="one"), "kit/one.py")
    write("import asyncio\nasyncio.run(asyncio.sleep(0))\n" + NAMED_TOOL.format(name="two"), "two.py")
    assert [spec.name for spec in load("kit")] == ["one"]
    kit = await aload("kit", "two.py", "x = 1\ndef three(): pass")
    assert [spec.name for spec in kit] == ["one", "two", "three"]
    assert await kit.acall("two") == "two"


def test_two_threads_load_different_folders_at_once(write):
    for folder in ("a", "b"):
        for number in range(3):
            write(NAMED_TOOL.format(name=f"{folder}{number}"), f"{folder}/file{number}.py")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        kits = list(pool.map(load, ["a", "b", "a", "b"]))
    assert [[spec.name for spec in kit] for kit in kits] == [["a0", "a1", "a2"], ["b0", "b1", "b2"]] * 2
