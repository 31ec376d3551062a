"""Workspace as a whole: its tools, read-only ones, concurrency, sync, async and served."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from ahvn_tools import Toolkit
from ahvn_tools.builtins import Workspace
from ahvn_tools.errors import DefinitionError, ToolLookupError
from tests.mcp.serving import ENVIRONMENT

READING = [
    "read_file", "partially_read_by_range", "partially_read_around_keyword", "get_file_size",
    "ls", "search_file_name_includes", "search_file_contains_keyword", "view_text_file",
]  # fmt: skip
WRITING = [
    "mkdir", "create_file", "edit_file_full_replace", "edit_file_search_replace", "insert", "delete", "move",
    "write_text_file", "insert_text_file",
]  # fmt: skip


def test_every_tool_says_what_it_does_and_whether_it_only_reads(tmp_path):
    tools = Workspace(tmp_path).to_toolspecs()
    assert set(READING + WRITING) <= set(tools)
    for name in READING + WRITING:
        definition = tools[name].definition
        assert definition.description
        assert definition.annotations["readOnlyHint"] is (name in READING)
        assert ("read" if name in READING else "write") in tools[name].tags
        assert "context" not in definition.input_schema["properties"]
        assert all(each.get("description") for each in definition.input_schema["properties"].values())


@pytest.mark.parametrize(
    ("tool", "required"),
    [
        ("read_file", ["uri"]),
        ("ls", ["uri"]),
        ("partially_read_by_range", ["uri", "start_line", "end_line"]),
        ("partially_read_around_keyword", ["uri", "keyword"]),
        ("search_file_contains_keyword", ["uri", "keyword"]),
        ("search_file_name_includes", ["uri", "name_includes"]),
        ("get_file_size", ["uri"]),
        ("mkdir", ["uri"]),
        ("create_file", ["uri", "content"]),
        ("edit_file_full_replace", ["uri", "new_content"]),
        ("edit_file_search_replace", ["uri", "search_replace"]),
        ("insert", ["uri", "line", "content"]),
        ("delete", ["uri"]),
        ("move", ["uri", "target_uri"]),
        ("view_text_file", ["uri"]),
        ("write_text_file", ["uri", "content"]),
        ("insert_text_file", ["uri", "content", "line_number"]),
    ],
)
def test_the_required_parameters_of_a_tool(tmp_path, tool, required):
    assert Workspace(tmp_path).toolspec(tool).definition.input_schema["required"] == required


def test_a_read_only_workspace_has_no_tools_that_write(tmp_path):
    workspace = Workspace(tmp_path, read_only=True)
    assert set(READING) <= set(workspace.list_toolspecs()) == set(workspace.to_toolspecs())
    assert not set(WRITING) & set(workspace.list_toolspecs())
    with pytest.raises(ToolLookupError, match="read-only"):
        workspace.toolspec("insert")


@pytest.mark.parametrize("tool", WRITING)
def test_a_read_only_workspace_writes_nothing_when_a_method_is_called(tmp_path, tool):
    (tmp_path / "a.txt").write_text("one\n")
    writable = Workspace(tmp_path).toolspec(tool)
    workspace = Workspace(tmp_path, read_only=True, approve="never")
    kit = Toolkit("kit").add(getattr(workspace, tool))
    text = {"uri": "a.txt", "target_uri": "b.txt"}
    arguments = {name: text.get(name, 1 if name in ("line", "line_number") else "x") for name in writable.params}
    arguments = {n: v for n, v in arguments.items() if n in writable.definition.input_schema["required"]}
    assert kit.exec(tool, arguments).text == "These folders are read-only, so nothing was changed."
    assert (tmp_path / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("options", [{"max_bytes": 0}, {"max_output_chars": 0}, {"approve": "yes"}], ids=str)
def test_a_mistake_of_the_host_is_an_error_at_once(tmp_path, options):
    with pytest.raises(DefinitionError):
        Workspace(tmp_path, **options)


async def test_the_tools_run_from_async_code(tmp_path):
    kit = Toolkit("kit").add(Workspace(tmp_path))
    assert await kit.acall("create_file", {"uri": "a.txt", "content": "one"}) == "File created successfully: a.txt"
    assert await kit.acall("read_file", {"uri": "a.txt"}) == "one"


def test_two_hundred_edits_of_twenty_files_at_once_lose_nothing(tmp_path):
    kit = Toolkit("kit").add(Workspace(tmp_path))
    session = kit.session()
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text("start\nend\n")
        session.call("read_file", {"uri": f"{number}.txt"})
    edits = [(f"{number % 20}.txt", f"line {number}") for number in range(200)]

    def edit(change):
        name, line = change
        if line.endswith(("1", "3", "5")):
            return session.exec("insert", {"uri": name, "line": 2, "content": line})
        block = f"<<<<<<< SEARCH\nend\n=======\n{line}\nend\n>>>>>>> REPLACE"
        return session.exec("edit_file_search_replace", {"uri": name, "search_replace": block})

    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(edit, edits))
    assert [result.text for result in results if result.is_error] == []
    for number in range(20):
        lines = (tmp_path / f"{number}.txt").read_text().splitlines()
        assert sorted(lines) == sorted(["start", "end", *(line for name, line in edits if name == f"{number}.txt")])


def test_the_edits_of_one_answer_run_in_their_order(tmp_path):
    workspace = Workspace(tmp_path)
    (tmp_path / "a.txt").write_text("")
    kit = Toolkit("kit").add(workspace, exclusive=workspace.file_key)
    uris = ["a.txt", "./a.txt", str(tmp_path / "a.txt"), (tmp_path / "a.txt").as_uri()]
    answer = {
        "tool_calls": [
            {
                "id": f"c{number}",
                "function": {
                    "name": "insert",
                    "arguments": f'{{"uri": "{uris[number % 4]}", "line": {number + 1}, "content": "{number}"}}',
                },
            }
            for number in range(12)
        ]
    }
    run = kit.run(answer, format="openai")
    assert not any(result.is_error for _, result in run.results)
    assert (tmp_path / "a.txt").read_text() == "".join(f"{number}\n" for number in range(12))


SERVER = """
import sys
from ahvn_tools import Toolkit, serve
from ahvn_tools.builtins import Workspace
serve(Toolkit("files").add(Workspace(sys.argv[1])), "stdio")
"""


@pytest.mark.exhaustive
async def test_the_tools_are_served(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    started = StdioTransport(sys.executable, ["-c", SERVER, str(tmp_path)], env=ENVIRONMENT, keep_alive=False)
    async with Client(started, init_timeout=60) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools["read_file"].annotations.read_only_hint is True
        assert tools["delete"].annotations.destructive_hint is True
        assert tools["read_file"].output_schema is None

        async def call(name, **arguments):
            result = await client.call_tool_mcp(name, arguments)
            return result.is_error, result.content[0].text

        assert await call("read_file", uri="a.txt") == (False, "one\n")
        assert (await call("insert", uri="a.txt", line=2, content="two"))[0] is False
        (tmp_path / "a.txt").write_text("changed\n")
        is_error, text = await call("insert", uri="a.txt", line=1, content="three")
        assert is_error
        assert "has changed since you read it" in text
        is_error, text = await call("read_file", uri="../a.txt")
        assert is_error
        assert "outside" in text
        is_error, _ = await call("delete", uri="a.txt")
        assert is_error
    assert (tmp_path / "a.txt").read_text() == "changed\n"
