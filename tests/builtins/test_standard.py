"""The standard toolkit: which tools it has, for whom, and over MCP, a manifest and the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fastmcp import Client

from ahvn_tools import Toolkit, load
from ahvn_tools.builtins import Database, Knowledge, Shell, System, Workspace, standard_toolkit
from ahvn_tools.builtins.sub_agents import SubAgentTask
from ahvn_tools.errors import DefinitionError, SourceError

COMMON = {
    "read_file", "ls", "shell_exec", "edit_file_full_replace", "edit_file_search_replace", "partially_read_by_range",
    "partially_read_around_keyword", "search_file_contains_keyword", "search_file_name_includes", "get_file_size",
    "get_env_var", "system_info", "mkdir", "create_file", "git_cmd", "project_outline", "get_warning_error",
    "self_fork", "get_available_models",
}  # fmt: skip
"""The tools that main agents and sub-agents have."""


async def finish(task: SubAgentTask) -> str:
    await task.toolkit.acall("task_finish", {"context_summary": task.prompt})
    return "done"


def names(kit: Toolkit) -> set[str]:
    return {tool.name for tool in kit}


def test_main_agents_and_sub_agents_have_the_common_tools(tmp_path: Path) -> None:
    kit = standard_toolkit(tmp_path, runner=finish)
    main, sub = names(kit.select(audience="main")), names(kit.select(audience="sub"))
    assert main >= COMMON
    assert sub - main == {"task_finish"}
    assert main - sub == set()


def test_each_kind_of_tool_is_in_a_group_that_can_be_switched_off(tmp_path: Path) -> None:
    kit = standard_toolkit(tmp_path, runner=finish, text_files=True, database=Database("sqlite://", read_only=False))
    assert list(kit.groups) == [
        "basic", "files", "text_files", "shell", "python", "git", "system", "database", "agents",
    ]  # fmt: skip
    session = kit.session().deactivate("shell", "python")
    assert session.exec("shell_exec", {"cmd": "ls"}).error.code == "not_available"
    assert names(kit.select(groups=["text_files"])) == {"view_text_file", "write_text_file", "insert_text_file"}


def test_the_tools_of_knowledge_have_a_prefix_because_files_are_deleted_too(tmp_path: Path) -> None:
    kit = standard_toolkit(tmp_path, knowledge=Knowledge(tmp_path / "knowledge.db"), runner=finish)
    assert {"delete", "knowledge_delete", "knowledge_search"} <= names(kit)
    session = kit.session(tenant="acme", user="ann")
    assert session.call("knowledge_add", {"title": "Tea", "text": "It is hot."}) == "note://Tea"


def test_kinds_can_be_left_out_and_replaced(tmp_path: Path) -> None:
    kit = standard_toolkit(
        tmp_path, shell=Shell(tmp_path, allow=["echo *"]), python=False, git=False, system=System(environment=["LANG"])
    )
    assert {"files", "shell", "system"} <= set(kit.groups)
    assert not {"python", "git"} & set(kit.groups)
    assert "tea" in kit.exec("shell_exec", {"cmd": "echo tea"}).text


def test_only_the_tools_of_a_list_can_be_included(tmp_path: Path) -> None:
    kit = standard_toolkit(tmp_path, include=["ls", "git_cmd"])
    assert names(kit) == {"ls", "git_cmd"}
    assert "self_fork" not in kit
    agents = standard_toolkit(tmp_path, include=["self_fork", "task_finish"])
    assert names(agents) == {"self_fork", "task_finish"}
    assert agents.exec("self_fork", {"context_summary": "", "sub_agents": [{"prompt": "p"}]}).is_error
    with pytest.raises(DefinitionError, match="There is no tool 'sl' to include"):
        standard_toolkit(tmp_path, include=["sl"])


def test_a_file_that_is_executed_later_is_risky_in_the_folders_of_a_call_too(tmp_path: Path) -> None:
    for name in ("work", "other/.git/hooks"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other" / "link").symlink_to(tmp_path / "other" / ".git" / "hooks")
    (tmp_path / "other" / "innocent").mkdir()
    (tmp_path / "other" / "innocent" / "conf").symlink_to(tmp_path / "other" / "conftest.py")
    kit = standard_toolkit(tmp_path / "work", call_roots="replace", approver=lambda request: False)
    for name in ("link/post-commit", "innocent/conf", "conftest.py"):
        uri = str(tmp_path / "other" / name)
        result = kit.exec("create_file", {"uri": uri, "content": "x"}, roots=tmp_path / "other")
        assert result.error.code == "rejected", name
    assert not (tmp_path / "other" / "conftest.py").exists()


def test_the_folders_of_a_call_can_replace_those_of_the_workspace(tmp_path: Path) -> None:
    for name in ("work", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tea.txt").write_text(f"{name}\n")
    kit = standard_toolkit(tmp_path / "work", call_roots="replace", approver=lambda request: True)
    other = kit.session(roots=tmp_path / "other")
    assert kit.call("read_file", {"uri": "tea.txt"}) == "work\n"
    assert other.call("read_file", {"uri": "../other/tea.txt"}) == "other\n"
    assert other.exec("read_file", {"uri": "tea.txt"}).is_error
    assert "other" in other.exec("shell_exec", {"uri": str(tmp_path / "other"), "cmd": "cat tea.txt"}).text
    assert other.exec("shell_exec", {"cmd": "cat tea.txt"}).is_error
    assert "Initialized" in other.call("git_cmd", {"uri": str(tmp_path / "other"), "args": "init"})
    assert other.exec("git_cmd", {"uri": ".", "args": "init"}).is_error
    assert (
        "other"
        in other.exec(
            "execute_python_code", {"code": f"print(open({str(tmp_path / 'other' / 'tea.txt')!r}).read())"}
        ).text
    )


def test_options_are_those_of_a_toolkit(tmp_path: Path) -> None:
    kit = standard_toolkit(tmp_path, name="mine", timeout=3, approver=lambda request: False)
    assert kit.name == "mine"
    assert kit.exec("create_file", {"uri": "conftest.py", "content": ""}).error.code == "rejected"
    assert not (tmp_path / "conftest.py").exists()


def test_a_read_only_workspace_has_no_tool_that_writes_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    kit = standard_toolkit(Workspace(tmp_path, read_only=True), approver=lambda request: False)
    assert not names(kit) & {"create_file", "edit_file_full_replace", "edit_file_search_replace", "mkdir", "delete"}
    for name, arguments in {
        "shell_exec": {"cmd": "touch b.txt"},
        "execute_python_code": {"code": "open('b.txt', 'w')"},
        "git_cmd": {"uri": ".", "args": "init"},
    }.items():
        kit.exec(name, arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_folders_of_a_session_are_a_limit_for_every_tool(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "secret.txt").write_text("canary-57c1e0a2")
    kit = standard_toolkit(tmp_path, approver=lambda request: True).session(roots=tmp_path / "inner")
    attempts = {
        "read_file": {"uri": str(tmp_path / "secret.txt")},
        "ls": {"uri": str(tmp_path)},
        "search_file_contains_keyword": {"uri": str(tmp_path), "keyword": "canary"},
        "project_outline": {"uri": str(tmp_path)},
        "shell_exec": {"cmd": "cat secret.txt", "uri": str(tmp_path)},
        "git_status": {"uri": str(tmp_path)},
        "git_cmd": {"uri": str(tmp_path), "args": "status"},
        "create_file": {"uri": str(tmp_path / "new.txt"), "content": "x"},
    }
    for name, arguments in attempts.items():
        result = kit.exec(name, arguments)
        assert result.is_error, name
        assert "canary" not in result.text, name
    assert not (tmp_path / "new.txt").exists()


async def test_an_mcp_client_uses_the_tools(tmp_path: Path) -> None:
    (tmp_path / "tea.txt").write_text("green\n")
    async with Client(standard_toolkit(tmp_path, runner=finish).to_fastmcp_server()) as client:
        listed = {tool.name for tool in await client.list_tools()}
        assert listed >= COMMON
        assert "task_finish" not in listed
        result = await client.call_tool("read_file", {"uri": "tea.txt"})
        assert result.content[0].text == "green\n"
        models = await client.call_tool("get_available_models", {})
        assert models.content[0].text == "No models configured."


def test_no_tool_of_the_standard_toolkit_has_a_finding(tmp_path: Path) -> None:
    kit = standard_toolkit(tmp_path, runner=finish, text_files=True, database=Database("sqlite://", read_only=False))
    assert kit.check(formats=["openai", "anthropic"], ignore=["not-enforced", "not-strict"]) == []


def test_load_needs_folders_for_the_built_in_tools(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="roots"):
        load("builtins")
    with pytest.raises(SourceError, match="no folder"):
        load("builtins", roots=tmp_path / "missing")
    with pytest.raises(SourceError, match="'builtins'"):
        load("def f(): ...\n", roots=tmp_path)
    assert names(load("builtins", roots=tmp_path)) >= COMMON - {"self_fork", "get_available_models"}


def test_a_manifest_has_built_in_tools_as_a_source_with_roots(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tea.txt").write_text("green\n")
    manifest = tmp_path / "kit.yaml"
    manifest.write_text(
        "sources:\n  - builtins: [files, git]\n    roots: [notes]\n    read_only: true\n    prefix: my_\n",
        encoding="utf-8",
    )
    kit = load(manifest)
    assert kit.call("my_read_file", {"uri": "tea.txt"}) == "green\n"
    assert "my_create_file" not in kit
    assert "my_shell_exec" not in kit
    assert "my_git_status" in kit
    manifest.write_text("roots: [notes]\nsources:\n  - builtins\n", encoding="utf-8")
    assert load(manifest).call("read_file", {"uri": "tea.txt"}) == "green\n"
    manifest.write_text("sources:\n  - builtins: standard\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"kit\.yaml.*need folders"):
        load(manifest)


@pytest.mark.exhaustive
def test_the_command_serves_the_built_in_tools_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "tea.txt").write_text("green\n")
    command = [sys.executable, "-m", "ahvn_tools"]
    options = ["--root", str(tmp_path)]
    listed = subprocess.run(
        [*command, "list", "builtins", *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert "read_file" in listed.stdout, listed.stderr
    called = subprocess.run(
        [*command, "call", "builtins", "read_file", *options, "uri=tea.txt"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "green" in called.stdout, called.stderr
    without = subprocess.run([*command, "list", "builtins"], capture_output=True, text=True, timeout=60, check=False)
    assert without.returncode != 0
    assert "--root" in without.stderr
    kit = Toolkit("client").add_mcp([*command, "serve", "builtins", *options], name="builtins")
    try:
        assert kit.call("read_file", {"uri": "tea.txt"}) == "green\n"
    finally:
        kit.remove_mcp("builtins")
