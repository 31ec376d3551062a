"""Mistakes of Mutsumi's tools that are none here, and behaviour that is the same."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahvn_tools.compat.mutsumi import ToolContext, ToolManager

HERE = ToolContext(allowed_uris=["."])


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that calls a tool for a workspace in which every action is approved."""
    manager = ToolManager(tmp_path, approver=lambda request: True)

    async def call(tool: str, **args: Any) -> str:
        return await manager.execute_tool(tool, args, HERE)

    return call


# Edits


@pytest.mark.parametrize(
    ("before", "search_replace", "after"),
    [
        *[("one\ntwo\n", block("one", text), f"{text}\ntwo\n") for text in ("$&", "$$", "$1", "$`", "\\1", "\\g<0>")],
        (
            "one\n=======\ntwo\n",
            "<<<<<<<<< SEARCH\n=======\n=========\n-------\n>>>>>>>>> REPLACE\n",
            "one\n-------\ntwo\n",
        ),
        ("one\ntwo\n", block("one", "1") + block("two", "2"), "1\n2\n"),
        ("    return index\n", block("    return index", "return index"), "return index\n"),
        ("one\ntwo\nthree\n", "<<<<<<< SEARCH\ntwo\n=======\n>>>>>>> REPLACE\n", "one\nthree\n"),
        ("one\n", "<<<<<<< SEARCH\n=======\ntwo\n>>>>>>> REPLACE\n", "one\n"),
        ("one\n", block("", "two"), "one\n"),
        ("one\ntwo\n", block("one", "x") + block("three", "3"), "one\ntwo\n"),
        ("x = find_index\n", block("index", "i"), "x = find_index\n"),
        ("one\none\n", block("one", "two"), "one\none\n"),
    ],
)
async def test_an_edit_changes_whole_lines_literally_or_nothing(call, tmp_path, before, search_replace, after):
    (tmp_path / "a.txt").write_text(before)
    text = await call("edit_file_search_replace", uri="a.txt", search_replace=search_replace)
    assert (tmp_path / "a.txt").read_text() == after
    assert text.startswith("Error executing tool: ") is (before == after)


async def test_line_endings_stay(call, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    await call("edit_file_search_replace", uri="a.txt", search_replace=block("one", "1\n1"))
    assert (tmp_path / "a.txt").read_bytes() == b"1\r\n1\r\ntwo\r\n"


async def test_edits_need_no_notebook_and_no_temporary_file_beside_others(call, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.txt").write_text("one\n")
    edits = [
        call("edit_file_search_replace", uri=f"{folder}/same.txt", search_replace=block("one", folder))
        for folder in ("a", "b")
    ]
    await asyncio.gather(*edits)
    assert [(tmp_path / folder / "same.txt").read_text() for folder in ("a", "b")] == ["a\n", "b\n"]


async def test_a_file_is_not_overwritten_by_create_file(call, tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    assert "Error" in await call("create_file", uri="a.txt", content="two")
    assert (tmp_path / "a.txt").read_text() == "one\n"


# Reads and searches


async def test_a_missing_number_of_lines_still_finds_matches(call, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    assert "2: two" in await call("partially_read_around_keyword", uri="a.txt", keyword="two")


async def test_long_results_are_cut_and_say_so(call, tmp_path):
    (tmp_path / "a.txt").write_text("tea and a longer text\n" * 10_000)
    assert len(await call("read_file", uri="a.txt")) < 120_000
    assert len((await call("search_file_contains_keyword", uri=".", keyword="tea")).splitlines()) < 250


async def test_a_name_is_searched_as_a_text_and_not_as_a_pattern(call, tmp_path):
    for name in ("a[1].txt", "a1.txt", "b.txt"):
        (tmp_path / name).write_text("")
    assert await call("search_file_name_includes", uri=".", name_includes="[1]") == "a[1].txt"
    assert await call("search_file_name_includes", uri=".", name_includes="*") == "No files found."


async def test_searches_leave_out_what_gitignore_names(call, tmp_path):
    (tmp_path / ".gitignore").write_text("node_modules/\n")
    (tmp_path / "node_modules").mkdir()
    for path in ("node_modules/tea.js", "tea.js"):
        (tmp_path / path).write_text("tea\n")
    assert await call("search_file_name_includes", uri=".", name_includes="tea") == "tea.js"
    assert await call("search_file_contains_keyword", uri=".", keyword="tea") == "tea.js:1:tea"


@pytest.mark.parametrize(
    ("tool", "args", "text"),
    [
        ("ls", {"uri": "empty"}, "(Empty Directory)"),
        ("partially_read_around_keyword", {"uri": "a.txt", "keyword": "x"}, 'No matches found for "x".'),
        ("search_file_contains_keyword", {"uri": ".", "keyword": "xyz"}, "No matches found."),
        ("search_file_contains_keyword", {"uri": "empty", "keyword": "x"}, "No files found in directory."),
        ("search_file_name_includes", {"uri": ".", "name_includes": "xyz"}, "No files found."),
        ("get_file_size", {"uri": "big.bin"}, "Size: 1.23 KB (1260 bytes)"),
        ("get_env_var", {"name": "TZ"}, "Environment variable 'TZ' is not set."),
        ("get_available_models", {}, "No models configured."),
        ("mkdir", {"uri": "new"}, "Directory created: new"),
        ("get_warning_error", {"uri": "a.json"}, "No warnings or errors found."),
    ],
)
async def test_texts_that_are_the_same(call, tmp_path, monkeypatch, tool, args, text):
    monkeypatch.delenv("TZ", raising=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("tea\n")
    (tmp_path / "a.json").write_text("{}\n")
    (tmp_path / "big.bin").write_bytes(b"x" * 1260)
    assert (await call(tool, **args)).startswith(text)


async def test_ls_lists_folders_first_and_hidden_files(call, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "inner.txt").write_text("")
    (tmp_path / "a.txt").write_text("")
    (tmp_path / ".hidden").write_text("")
    assert await call("ls", uri=".") == "[DIR ] b\n[FILE] .hidden\n[FILE] a.txt"


async def test_problems_are_sorted_by_file_and_line(call, tmp_path):
    (tmp_path / "b.json").write_text("{\n")
    (tmp_path / "a.json").write_text('{"a": 1,}\n')
    lines = (await call("get_warning_error")).splitlines()
    assert lines[0] == "Found 2 problems in 2 files:"
    assert [line for line in lines if line.startswith("FILE: ")] == ["FILE: a.json", "FILE: b.json"]
    assert any(line.startswith("[Error] Line 1:9 - ") for line in lines)


# Secrets, commands and Git


@pytest.mark.parametrize("name", ["API_KEY", "GITHUB_TOKEN", "HOME", "AWS_SECRET_ACCESS_KEY"])
async def test_secrets_of_the_environment_are_not_read(call, monkeypatch, name):
    monkeypatch.setenv(name, "canary-71b0")
    assert "canary" not in await call("get_env_var", name=name)
    assert "canary" not in await call("shell_exec", uri=".", cmd="env")


async def test_a_command_has_a_time_limit(call):
    text = await call("shell_exec", uri=".", cmd="sleep 30", timeout=0.2)
    assert "were stopped after" in text
    assert "(timeout)" in text


async def test_a_command_may_write_much(call):
    text = await call("shell_exec", uri=".", cmd="yes tea | head -c 3000000")
    assert "tea" in text
    assert len(text) < 100_000


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_git_runs_through_no_shell(call, tmp_path):
    await call("git_cmd", uri=".", args="init")
    for args in ("status; touch evil", "status && touch evil", "status `touch evil`", "status $(touch evil)",
                 "log | tee evil", "status > evil", "-c alias.x=!touch\\ evil x"):  # fmt: skip
        await call("git_cmd", uri=".", args=args)
    assert not (tmp_path / "evil").exists()


# Allowed URIs


@pytest.mark.skipif(sys.platform == "darwin", reason="names of both cases are one file")
async def test_names_that_differ_in_case_are_different_folders(tmp_path):
    for name in ("p", "P"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    manager = ToolManager(tmp_path)
    context = ToolContext(allowed_uris=[tmp_path / "p"])
    assert await manager.execute_tool("read_file", {"uri": "p/a.txt"}, context) == "p"
    assert "Error" in await manager.execute_tool("read_file", {"uri": "P/a.txt"}, context)


async def test_a_folder_whose_name_begins_like_an_allowed_one_is_not_allowed(tmp_path):
    for name in ("src", "src-secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    context = ToolContext(allowed_uris=["src"])
    manager = ToolManager(tmp_path)
    assert "Error" in await manager.execute_tool("read_file", {"uri": "src-secret/a.txt"}, context)


segments = st.sampled_from(["open", "closed", "..", ".", "link", "OPEN", "a.txt", "", "~", "%2e%2e"])


@given(parts=st.lists(segments, max_size=6), form=st.sampled_from(["{}", "/{}", "{folder}/{}", "file://{folder}/{}"]))
def test_no_path_leads_out_of_the_allowed_folder(tmp_path_factory, parts, form):
    folder = tmp_path_factory.getbasetemp() / "mutsumi-paths"
    if not folder.exists():
        for name in ("open", "closed"):
            (folder / name).mkdir(parents=True)
            (folder / name / "a.txt").write_text(name)
        (folder / "open" / "link").symlink_to(folder / "closed")
    uri = form.format("/".join(parts), folder=folder)
    manager = ToolManager(folder)
    context = ToolContext(allowed_uris=["open"])
    text = asyncio.run(manager.execute_tool("read_file", {"uri": uri}, context))
    assert text == "open" or text.startswith("Error executing tool: ")
    listed = asyncio.run(manager.execute_tool("ls", {"uri": uri}, context))
    assert "closed" not in listed.replace(uri, "").splitlines()


async def test_no_task_is_left_after_a_call(tmp_path):
    manager = ToolManager(tmp_path)
    for signal in (None, asyncio.Event()):
        await manager.execute_tool("ls", {"uri": "."}, ToolContext(allowed_uris=["."], abort_signal=signal))
    assert len(asyncio.all_tasks()) == 1
