"""The 20 tools of Mutsumi's manager: each with the parameters of the original, and with paths that are not allowed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ApprovalRequest
from ahvn_tools.builtins import Shell, SubAgentTask, System, Workspace
from ahvn_tools.compat.mutsumi import ToolContext, ToolManager
from ahvn_tools.errors import ToolNotAvailableError

SECRET = "canary-8d1f33"

PARAMETERS: dict[str, tuple[set[str], set[str]]] = {
    "read_file": ({"uri"}, set()),
    "ls": ({"uri"}, set()),
    "partially_read_by_range": ({"uri", "start_line", "end_line"}, set()),
    "partially_read_around_keyword": ({"uri", "keyword", "lines_before", "lines_after"}, set()),
    "search_file_contains_keyword": ({"uri", "keyword"}, set()),
    "search_file_name_includes": ({"uri", "name_includes"}, set()),
    "get_file_size": ({"uri"}, set()),
    "get_env_var": ({"name"}, set()),
    "system_info": (set(), set()),
    "get_warning_error": (set(), {"uri"}),
    "project_outline": ({"uri"}, set()),
    "mkdir": ({"uri"}, set()),
    "create_file": ({"uri", "content"}, set()),
    "edit_file_full_replace": ({"uri", "new_content"}, set()),
    "edit_file_search_replace": ({"uri", "search_replace"}, set()),
    "shell_exec": ({"uri", "cmd"}, {"shell_path"}),
    "git_cmd": ({"uri", "args"}, set()),
    "self_fork": ({"context_summary", "sub_agents"}, set()),
    "get_available_models": (set(), set()),
    "task_finish": ({"context_summary"}, set()),
}
"""The required and the optional parameters of each tool of the original."""

BLOCK = "<<<<<<< SEARCH\nred\n=======\nblue\n>>>>>>> REPLACE"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace: only its folder `open` is allowed in the tests."""
    root = tmp_path / "work"
    (root / "open").mkdir(parents=True)
    (root / "closed").mkdir()
    (root / "open" / "tea.txt").write_text("red\ngreen\nblack\n")
    (root / "open" / "tea.py").write_text("class Tea:\n    def brew(self):\n        return undefined_name\n")
    (root / "closed" / "secret.txt").write_text(f"{SECRET}\n")
    (root / "closed" / "secret.py").write_text(f"class Canary:\n    name = '{SECRET}'\n    bad = (\n")
    (root / "open" / "link").symlink_to(root / "closed")
    return root


@pytest.fixture
def manager(folder: Path) -> ToolManager:
    return ToolManager(folder, approver=approve)


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(allowed_uris=["open"])


@pytest.fixture
def call(manager: ToolManager, context: ToolContext) -> Any:
    """Return a function that calls a tool."""

    async def call(tool: str, is_sub_agent: bool = False, **args: Any) -> str:
        return await manager.execute_tool(tool, args, context, is_sub_agent)

    return call


def approve(request: ApprovalRequest) -> bool:
    return True


@pytest.mark.parametrize("name", PARAMETERS)
def test_each_tool_has_the_parameters_of_the_original(manager, name):
    definition = next(tool for tool in manager.get_tools_definitions(True) if tool["function"]["name"] == name)
    schema = definition["function"]["parameters"]
    required, optional = PARAMETERS[name]
    assert required | optional <= set(schema["properties"])
    assert set(schema.get("required", [])) <= required


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {"uri": "open/tea.txt"}, "red\ngreen\nblack\n"),
    ("ls", {"uri": "open"}, "[LINK] link\n[FILE] tea.py\n[FILE] tea.txt"),
    ("partially_read_by_range", {"uri": "open/tea.txt", "start_line": 2, "end_line": 2}, "2: green"),
    (
        "partially_read_around_keyword",
        {"uri": "open/tea.txt", "keyword": "black", "lines_before": 1, "lines_after": 0},
        "2: green\n3: black",
    ),
    ("search_file_contains_keyword", {"uri": "open", "keyword": "green"}, "open/tea.txt:2:green"),
    ("search_file_name_includes", {"uri": "open", "name_includes": "TEA.p"}, "open/tea.py"),
    ("get_file_size", {"uri": "open/tea.txt"}, "Size: 0.02 KB (16 bytes)"),
    ("get_env_var", {"name": "LANG"}, "C.UTF-8"),
    ("system_info", {}, "Platform: "),
    ("project_outline", {"uri": "open"}, "File: open/tea.py\n- Class Tea [1-3]\n  - Method brew [2-3]"),
    ("mkdir", {"uri": "open/new/inner"}, "Directory created: open/new/inner"),
    ("create_file", {"uri": "open/new.txt", "content": "oolong\n"}, "File created successfully: open/new.txt"),
    ("shell_exec", {"uri": "open", "cmd": "cat tea.txt | tail -n 1", "shell_path": "/bin/sh"}, "STDOUT:\nblack"),
    ("get_available_models", {}, "No models configured."),
    ("task_finish", {"context_summary": "Done."}, "Task Finished. Report submitted."),
]
"""A call of a tool, and how its result begins."""


@pytest.mark.parametrize(("tool", "args", "text"), CALLS, ids=[tool for tool, _, _ in CALLS])
async def test_a_call_of_each_tool(call, monkeypatch, tool, args, text):
    monkeypatch.setenv("LANG", "C.UTF-8")
    assert (await call(tool, is_sub_agent=True, **args)).startswith(text)


class TestEachTool:
    async def test_line_endings_of_a_file_stay(self, call, folder):
        content = b"red\r\ngreen\nblack\r" + b"tea\r\n" * 20_000
        for content_of_file in (content[:20], content):  # whole, and cut
            (folder / "open" / "tea.txt").write_bytes(content_of_file)
            assert (await call("read_file", uri="open/tea.txt")).startswith("red\r\ngreen\nblack\r")
        search_replace = "<<<<<<< SEARCH\nred\r\ngreen\n=======\nblue\r\n>>>>>>> REPLACE"
        await call("edit_file_search_replace", uri="open/tea.txt", search_replace=search_replace)
        assert (folder / "open" / "tea.txt").read_bytes().startswith(b"blue\r\nblack\r")

    async def test_get_warning_error(self, call):
        assert "Tea" not in await call("get_warning_error", uri="open/tea.txt")
        assert "Checked by" in await call("get_warning_error", uri="open/tea.py")

    @pytest.mark.exhaustive
    async def test_get_warning_error_of_the_workspace(self, manager):
        text = await manager.execute_tool("get_warning_error", {}, ToolContext(allowed_uris=["."]))
        assert "closed/secret.py" in text

    async def test_files_are_changed(self, call, folder):
        await call("create_file", uri="open/new.txt", content="oolong\n")
        await call("edit_file_search_replace", uri="open/tea.txt", search_replace=BLOCK)
        assert (folder / "open" / "tea.txt").read_text() == "blue\ngreen\nblack\n"
        await call("read_file", uri="open/tea.txt")
        await call("edit_file_full_replace", uri="open/tea.txt", new_content="white\n")
        assert "ERROR" not in await call("shell_exec", uri="open", cmd="echo more >> new.txt")
        assert [(folder / "open" / name).read_text() for name in ("tea.txt", "new.txt")] == [
            "white\n",
            "oolong\nmore\n",
        ]

    @pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
    async def test_git_cmd(self, call):
        assert (await call("git_cmd", uri="open", args="init -b main")).startswith("STDOUT:\nInitialized empty Git")
        assert (await call("git_cmd", uri="open", args="git status --short tea.txt")) == "STDOUT:\n?? tea.txt"
        failed = await call("git_cmd", uri="open", args="log")
        assert failed.startswith("STDERR:\nfatal: ")
        assert failed.endswith("\nERROR CODE: 128\nMESSAGE: The command has failed.")
        silent = await call("git_cmd", uri="open", args="add tea.txt")
        assert silent == "Git command executed successfully with no output."

    async def test_get_available_models(self, folder, context):
        manager = ToolManager(folder, models={"small": "cheap", "large": ""})
        assert await manager.execute_tool("get_available_models", {}, context) == "small: cheap\nlarge"


ATTACKED: dict[str, dict[str, Any]] = {
    "read_file": {}, "ls": {}, "get_file_size": {}, "project_outline": {}, "get_warning_error": {}, "mkdir": {},
    "partially_read_by_range": {"start_line": 1, "end_line": 9},
    "partially_read_around_keyword": {"keyword": "canary", "lines_before": 1, "lines_after": 1},
    "search_file_contains_keyword": {"keyword": "canary"},
    "search_file_name_includes": {"name_includes": "s"},
    "create_file": {"content": "x"},
    "edit_file_full_replace": {"new_content": "x"},
    "edit_file_search_replace": {"search_replace": f"<<<<<<< SEARCH\n{SECRET}\n=======\nx\n>>>>>>> REPLACE"},
    "shell_exec": {"cmd": "cat secret.txt; ls"},
    "git_cmd": {"args": "init"},
}  # fmt: skip
"""The tools that take a path, with their other arguments."""

PATHS = {
    "relative": "closed{end}",
    "parent": "open/../closed{end}",
    "absolute": "{folder}/closed{end}",
    "uri": "file://{folder}/closed{end}",
    "escaped": "file://{folder}/open/%2e%2e/closed{end}",
    "link": "open/link{end}",
    "new": "closed/new",
    "upper": "OPEN",
    "root": "/",
    "workspace": ".",
    "system": "/etc",
}


def files_of(folder: Path) -> dict[str, str]:
    """Return all files and folders, with the texts."""
    return {str(path): path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ATTACKED)
async def test_a_path_that_is_not_allowed_is_refused(manager, context, folder, name, path):
    before = files_of(folder)
    is_folder = name in {"ls", "project_outline", "search_file_contains_keyword", "shell_exec", "git_cmd", "mkdir"}
    uri = PATHS[path].format(folder=folder, end="" if is_folder else "/secret.py")
    text = await manager.execute_tool(name, {"uri": uri, **ATTACKED[name]}, context)
    assert text.startswith("Error executing tool: "), text
    assert SECRET not in text
    assert "Canary" not in text
    assert "secret.txt" not in text
    assert files_of(folder) == before


@pytest.mark.parametrize("allowed", [[], ["missing"], ["OPEN"]], ids=["none", "missing", "upper"])
@pytest.mark.parametrize("name", ATTACKED)
@pytest.mark.default_cases(15)
async def test_nothing_can_be_used_where_no_folder_is_allowed(manager, folder, name, allowed):
    before = files_of(folder)
    for uri in ("open", "open/tea.txt", f"{folder}/closed/secret.py", "."):
        text = await manager.execute_tool(name, {"uri": uri, **ATTACKED[name]}, ToolContext(allowed_uris=allowed))
        assert text.startswith("Error executing tool: "), text
        assert SECRET not in text
    assert files_of(folder) == before


@pytest.mark.parametrize("name", ["project_outline", "get_warning_error"])
async def test_without_a_path_the_workspace_is_meant_and_may_be_refused(manager, context, name):
    text = await manager.execute_tool(name, {}, context)
    assert text.startswith("Error executing tool: The path is outside of the folders that this call may use")


async def test_a_search_of_an_allowed_folder_does_not_follow_links_out_of_it(call):
    assert SECRET not in await call("search_file_contains_keyword", uri="open", keyword="canary")
    assert "secret" not in await call("search_file_name_includes", uri="open", name_includes="secret")


async def test_an_allowed_folder_that_is_a_link_is_what_it_leads_to(manager):
    context = ToolContext(allowed_uris=["open/link"])
    assert SECRET in await manager.execute_tool("read_file", {"uri": "closed/secret.txt"}, context)
    assert "Error" in await manager.execute_tool("read_file", {"uri": "open/tea.txt"}, context)


async def test_a_command_in_an_allowed_folder_sees_no_other_folder(manager, folder, context):
    manager = ToolManager(folder, approver=approve)
    text = await manager.execute_tool("shell_exec", {"uri": "open", "cmd": f"cat {folder}/closed/*; ls .."}, context)
    assert SECRET not in text or "No sandbox" in text


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_git_uses_no_repository_above_the_allowed_folder(manager, folder, context):
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(folder)], check=True, timeout=20)
    text = await manager.execute_tool("git_cmd", {"uri": "open", "args": "status"}, context)
    assert text.startswith("Error executing tool: ")


class TestEverythingAllowed:
    async def test_files_and_commands_of_all_folders_can_be_used(self, manager, folder):
        context = ToolContext(allowed_uris=["/"])
        assert SECRET in await manager.execute_tool("read_file", {"uri": f"{folder}/closed/secret.txt"}, context)
        text = await manager.execute_tool("shell_exec", {"uri": "open", "cmd": "echo x > x.txt; pwd"}, context)
        assert text.startswith(f"STDOUT:\n{folder / 'open'}"), text
        assert (folder / "open" / "x.txt").read_text() == "x\n"


class TestApproval:
    async def test_without_an_approver_a_risky_action_does_not_run_and_says_how_to_allow_it(self, folder, context):
        manager = ToolManager(folder)
        for name, args in {
            "shell_exec": {"uri": "open", "cmd": "touch x"},
            "create_file": {"uri": "open/conftest.py", "content": "x"},
        }.items():
            text = await manager.execute_tool(name, args, context)
            assert f"The call of {name!r} was rejected" in text
            assert "ToolManager(approver=…)" in text
        assert not (folder / "open" / "x").exists()
        assert not (folder / "open" / "conftest.py").exists()

    @pytest.mark.parametrize("answer", [True, False, "Not today."])
    async def test_the_approver_decides(self, folder, context, answer):
        requests: list[ApprovalRequest] = []

        async def decide(request: ApprovalRequest) -> bool | str:
            requests.append(request)
            return answer

        manager = ToolManager(folder, approver=decide, approve="always")
        text = await manager.execute_tool("create_file", {"uri": "open/a.txt", "content": "x"}, context)
        assert (folder / "open" / "a.txt").exists() is (answer is True)
        assert ("Not today." in text) is (answer == "Not today.")
        assert "open/a.txt" in str(requests[0].action)

    async def test_the_signal_ends_the_wait_for_an_approver(self, folder):
        event = asyncio.Event()

        async def decide(request: ApprovalRequest) -> bool:
            event.set()
            await asyncio.sleep(60)
            return True

        context = ToolContext(allowed_uris=["open"], abort_signal=event)
        manager = ToolManager(folder, approver=decide, approve="always")
        text = await manager.execute_tool("mkdir", {"uri": "open/new"}, context)
        assert text == "Error executing tool: The call of 'mkdir' was cancelled."
        assert not (folder / "open" / "new").exists()

    async def test_approvals_can_be_left_out(self, folder, context):
        manager = ToolManager(folder, approve="never")
        await manager.execute_tool("create_file", {"uri": "open/conftest.py", "content": "x"}, context)
        assert (folder / "open" / "conftest.py").exists()


class TestOptions:
    async def test_kinds_of_tools_can_be_the_hosts_own(self, folder, context, monkeypatch):
        monkeypatch.setenv("APP_MODE", "test")
        shell = Shell(Workspace(folder, call_roots="replace"), allow=["echo *"], deny=["rm *"])
        manager = ToolManager(folder, shell=shell, system=System(environment=["APP_*"]), timeout=50)
        assert await manager.execute_tool("get_env_var", {"name": "APP_MODE"}, context) == "test"
        text = await manager.execute_tool("shell_exec", {"uri": "open", "cmd": "rm -r ."}, context)
        assert "not permitted" in text

    async def test_output_of_a_command_arrives_while_it_runs(self, manager):
        written: list[str] = []
        context = ToolContext(allowed_uris=["open"], append_output=written.append)
        await manager.execute_tool("shell_exec", {"uri": "open", "cmd": "echo one; echo two"}, context)
        assert "".join(written) == "one\ntwo\n"


class TestSubAgents:
    """self_fork with a runner that works through the manager, as an agent does."""

    @pytest.fixture
    def run(self, folder, context):
        """Return a function that forks sub-agents, each of which calls the tools of its prompt."""

        def make(script: Any, **options: Any) -> tuple[ToolManager, Any]:
            async def runner(task: SubAgentTask) -> str | None:
                sub_context = ToolContext(allowed_uris=task.roots, session_id=task.id)
                return await script(manager, task, sub_context)

            manager = ToolManager(folder, runner=runner, approver=approve, **options)

            async def fork(*sub_agents: dict[str, Any], given: ToolContext = context) -> str:
                args = {"context_summary": "Tea.", "sub_agents": list(sub_agents)}
                return await manager.execute_tool("self_fork", args, given)

            return manager, fork

        return make

    async def test_the_report_of_each_sub_agent_is_the_result(self, run):
        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> None:
            read = await manager.execute_tool("read_file", {"uri": task.prompt}, context, True)
            await manager.execute_tool("task_finish", {"context_summary": f"Read: {read}"}, context, True)

        _, fork = run(script)
        text = await fork(
            {"prompt": "open/tea.txt", "allowed_uris": ["open"], "name": "one"},
            {"prompt": "closed/secret.txt", "allowed_uris": ["open"], "name": "two"},
        )
        one, two = text.split("\n\n----------------\n\n")
        assert one == "### Sub-agent 'one' Finished:\nRead: red\ngreen\nblack\n"
        assert two.startswith("### Sub-agent 'two' Finished:\nRead: Error executing tool: The path is outside")

    async def test_the_folders_of_a_sub_agent_lie_in_those_of_its_parent(self, run):
        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> str:
            return "done"

        _, fork = run(script)
        for uri in ("closed", ".", "/", "open/../closed", "open/link", "..", "OPEN"):
            text = await fork({"prompt": "p", "allowed_uris": [uri]})
            assert text.startswith("Error executing tool: "), uri
        assert "Finished" in await fork({"prompt": "p", "allowed_uris": ["open"]})

    async def test_relative_folders_of_a_sub_agent_begin_in_the_workspace(self, run, folder):
        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> str:
            return str(task.roots)

        _, fork = run(script)
        everything = ToolContext(allowed_uris=["/"])
        for uri in ("open", f"{folder}/open", f"file://{folder}/open"):
            text = await fork({"prompt": "p", "allowed_uris": [uri]}, given=everything)
            assert f"{str(folder / 'open')!r}" in text

    async def test_an_itool_of_a_sub_agent_gets_the_folders_of_the_sub_agent(self, run, folder):
        class Where:
            name = "where"
            definition = {"type": "function", "function": {"name": "where", "parameters": {"type": "object"}}}

            def execute(self, args: Any, context: ToolContext) -> str:
                return str([str(uri) for uri in context.allowed_uris])

        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> str:
            return await task.toolkit.acall("where")

        manager, fork = run(script)
        manager.register_common(Where())
        given = ToolContext(allowed_uris=["/"])
        assert str([str(folder / "open")]) in await fork({"prompt": "p", "allowed_uris": ["open"]}, given=given)

    async def test_a_sub_agent_has_the_tools_of_sub_agents_and_cannot_start_others(self, run, folder):
        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> str:
            names = {tool.name for tool in task.toolkit}
            assert names == {tool["function"]["name"] for tool in manager.get_tools_definitions(True)}
            args = {"context_summary": "", "sub_agents": [{"prompt": "p", "allowed_uris": ["open"]}]}
            return await manager.execute_tool("self_fork", args, context, True)

        _, fork = run(script)
        assert "A sub-agent cannot start others here" in await fork({"prompt": "p", "allowed_uris": ["open"]})

    async def test_the_toolkit_of_a_sub_agent_has_its_own_tools_and_none_of_main_agents(self, run):
        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> str:
            assert {tool.name for tool in task.toolkit} >= {"read_file", "for_sub", "for_all", "task_finish"}
            with pytest.raises(ToolNotAvailableError):
                await task.toolkit.acall("for_main")
            assert "shell_exec" not in task.toolkit
            return await task.toolkit.acall("for_sub")

        def for_all() -> str:
            return "all"

        def for_main() -> str:
            return "main"

        def for_sub() -> str:
            return "sub"

        manager, fork = run(script)
        manager.register_common(for_all)
        manager.register_main(for_main)
        manager.register_sub(for_sub)
        manager.toolkit.remove("shell_exec")
        text = await fork({"prompt": "p", "allowed_uris": ["open"]})
        assert text == "### Sub-agent 'agent-1' Finished:\nsub"

    async def test_edits_of_two_agents_do_not_overwrite_each_other(self, run, folder, context):
        async def script(manager: ToolManager, task: SubAgentTask, sub_context: ToolContext) -> str:
            await manager.execute_tool("read_file", {"uri": "open/tea.txt"}, sub_context, True)
            new = {"uri": "open/tea.txt", "new_content": "sub\n"}
            return await manager.execute_tool("edit_file_full_replace", new, sub_context, True)

        manager, fork = run(script)
        await manager.execute_tool("read_file", {"uri": "open/tea.txt"}, context)
        await fork({"prompt": "p", "allowed_uris": ["open"]})
        new = {"uri": "open/tea.txt", "new_content": "main\n"}
        assert "Error" in await manager.execute_tool("edit_file_full_replace", new, context)
        assert (folder / "open" / "tea.txt").read_text() == "sub\n"

    async def test_the_signal_cancels_the_sub_agents(self, run):
        event = asyncio.Event()
        ended: list[str] = []

        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> str:
            event.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(task.name)
            return "done"

        _, fork = run(script)
        given = ToolContext(allowed_uris=["open"], abort_signal=event)
        text = await fork({"prompt": "p", "allowed_uris": ["open"]}, given=given)
        assert text == "Error executing tool: The call of 'self_fork' was cancelled."
        assert ended == ["agent-1"]

    async def test_without_a_runner_the_tools_are_listed_and_self_fork_says_why_it_fails(self, folder, context):
        manager = ToolManager(folder)
        args = {"context_summary": "", "sub_agents": [{"prompt": "p", "allowed_uris": ["open"]}]}
        text = await manager.execute_tool("self_fork", args, context)
        assert text == "Error executing tool: This program cannot run sub-agents. Do the task yourself."
        assert await manager.execute_tool("get_available_models", {}, context) == "No models configured."

    async def test_with_a_runner_task_finish_is_for_its_sub_agents(self, run, context):
        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> str:
            return "done"

        manager, _ = run(script)
        text = await manager.execute_tool("task_finish", {"context_summary": "x"}, context, True)
        assert text.startswith("Error executing tool: Only a sub-agent can finish its task with this tool.")

    async def test_an_unknown_model_and_an_empty_list_are_errors(self, run):
        async def script(manager: ToolManager, task: SubAgentTask, context: ToolContext) -> str:
            return f"model {task.model}"

        _, fork = run(script, models=["small"])
        assert "model small" in await fork({"prompt": "p", "allowed_uris": ["open"], "model": "small"})
        assert "There is no model 'smal'" in await fork({"prompt": "p", "allowed_uris": ["open"], "model": "smal"})
        assert (await fork()).startswith("Error executing tool: ")


def test_the_workspace_must_exist(tmp_path):
    from ahvn_tools.errors import DefinitionError

    with pytest.raises(DefinitionError, match="Make the folder first"):
        ToolManager(tmp_path / "missing")


@pytest.mark.skipif(os.name != "posix", reason="file names")
async def test_names_are_compared_exactly(tmp_path):
    (tmp_path / "Case").mkdir()
    (tmp_path / "Case" / "a.txt").write_text("upper")
    manager = ToolManager(tmp_path)
    for allowed, is_allowed in (("Case", True), ("case", False), ("Cas", False)):
        context = ToolContext(allowed_uris=[allowed])
        text = await manager.execute_tool("read_file", {"uri": "Case/a.txt"}, context)
        assert (text == "upper") is is_allowed
