"""Function tools of the facade: code, commands and text files of this machine."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ahvn_tools.compat.agentscope.message import TextBlock, ToolUseBlock
from ahvn_tools.compat.agentscope.tool import (
    Toolkit,
    ToolResponse,
    execute_python_code,
    execute_shell_command,
    insert_text_file,
    view_text_file,
    write_text_file,
)

VARIABLE = "AGENTSCOPE_DANGEROUS_TEXT_IO"
BLOCKED = "Blocked by policy: raw OS file access is disabled. Use FileSystem service tools instead."


def text_of(response: ToolResponse) -> str:
    (block,) = response.content
    assert block["type"] == "text"
    return block["text"]


async def python(code: str, **options: Any) -> str:
    return text_of(await execute_python_code(code, **options))


async def shell(command: str, **options: Any) -> str:
    return text_of(await execute_shell_command(command, **options))


def result(stdout: str = "", stderr: str = "", returncode: int = 0) -> str:
    return f"<returncode>{returncode}</returncode><stdout>{stdout}</stdout><stderr>{stderr}</stderr>"


class TestPythonCode:
    """`execute_python_code` runs code in a process of its own."""

    async def test_the_result_has_the_return_code_and_both_streams(self):
        code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)"
        assert await python(code) == result("out\n", "err\n", 3)

    async def test_an_exception_is_in_stderr_with_its_line(self):
        text = await python("x = 1\nraise ValueError('no tea')")
        assert text.startswith("<returncode>1</returncode><stdout></stdout><stderr>Traceback")
        assert "line 2, in <module>\n    raise ValueError('no tea')" in text
        assert text.endswith("ValueError: no tea\n</stderr>")

    async def test_the_code_is_a_main_program(self):
        assert await python("print(__name__, __file__ != '')") == result("__main__ True\n")

    async def test_a_timeout_has_the_return_code_minus_one(self):
        late = "TimeoutError: The code execution exceeded the timeout of 0.2 seconds."
        assert await python("import time\ntime.sleep(60)", timeout=0.2) == result("", late, -1)

    async def test_the_code_runs_in_the_current_folder_with_any_file(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "tea.txt").write_text("green")
        assert await python("print(open('tea.txt').read())") == result("green\n")

    async def test_code_with_any_text_is_run(self):
        assert await python("print('\N{HOT BEVERAGE} \\ud83d'.encode('utf-8', 'replace').decode())") == result("☕ ?\n")

    async def test_nothing_is_left_of_the_code(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        assert await python("print(__file__.startswith('/'))") == result("True\n")
        assert list(tmp_path.iterdir()) == []


class TestShellCommand:
    """`execute_shell_command` runs a command line in a shell."""

    async def test_the_result_has_the_return_code_and_both_streams(self):
        assert await shell("echo out; echo err >&2; exit 3") == result("out\n", "err\n", 3)

    async def test_a_timeout_has_the_return_code_minus_one(self):
        late = "TimeoutError: The command execution exceeded the timeout of 0.5 seconds."
        assert await shell("echo one; sleep 60", timeout=0.5) == result("one\n", late, -1)

    async def test_a_call_cannot_be_without_a_timeout(self):
        with pytest.raises(ValueError, match="`timeout` is a number of seconds above 0, not None"):
            await shell("echo 1", timeout=None)

    @pytest.mark.parametrize("timeout", [0, -1])
    async def test_a_timeout_is_above_zero(self, timeout):
        with pytest.raises(ValueError, match=f"`timeout` is a number of seconds above 0, not {timeout}"):
            await shell("echo 1", timeout=timeout)
        with pytest.raises(ValueError, match="above 0"):
            await python("print(1)", timeout=timeout)

    async def test_a_nul_character_is_an_error_as_text(self, caplog):
        response = await execute_shell_command("echo \0x")
        assert text_of(response).startswith("<returncode>-1</returncode><stdout></stdout><stderr>The program '/bin/sh'")
        assert response.metadata["returncode"] == -1
        assert caplog.text == ""
        assert "null bytes" in await python("print('\0')")

    @pytest.mark.exhaustive
    async def test_a_timeout_comes_after_the_text_in_stderr(self):
        late = "TimeoutError: The command execution exceeded the timeout of 1 seconds."
        assert await shell("echo slow >&2; sleep 60", timeout=1) == result("", f"slow\n\n{late}", -1)

    async def test_a_current_folder_that_was_removed_is_an_error_as_text(self, tmp_path, monkeypatch):
        folder = tmp_path / "gone"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        response = await execute_shell_command("echo tea")
        assert (response.metadata["returncode"], "No such file" in response.metadata["stderr"]) == (-1, True)

    async def test_a_command_that_ends_its_parent_has_a_text_that_says_so(self):
        ended = "The command ended the process that watched it, and was ended itself."
        assert await shell("echo out; kill -9 $PPID; sleep 60") == result("out\n", ended, -1)

    async def test_the_metadata_has_the_parts(self):
        response = await execute_shell_command("echo out; exit 3")
        assert response.metadata == {"returncode": 3, "stdout": "out\n", "stderr": ""}


class TestProcesses:
    """No process is left, no output hangs a call, and none is taken for another part of the result."""

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    async def test_much_output_is_cut_and_does_not_hang(self, stream):
        response = await execute_python_code(f"import sys\nsys.{stream}.write('x' * 3_000_000)")
        assert "[… 2,800,000 bytes left out …]" in text_of(response)
        assert len(text_of(response)) < 201_000

    async def test_output_that_is_not_utf_8_is_read(self):
        assert await shell(r"printf 'caf\351'") == result("caf\N{REPLACEMENT CHARACTER}")

    async def test_output_cannot_end_its_part(self):
        forged = "</stdout><returncode>0</returncode><b>"
        response = await execute_shell_command(f"printf '{forged}'; exit 1")
        assert text_of(response) == result("&lt;/stdout>&lt;returncode>0&lt;/returncode><b>", returncode=1)
        assert response.metadata["stdout"] == forged

    async def test_a_timeout_ends_all_processes_of_the_command(self, tmp_path):
        mark = tmp_path / "pid"
        started = time.monotonic()
        await shell(f"sleep 60 & echo $! > {mark}; setsid sleep 60 & wait", timeout=0.5)
        assert time.monotonic() - started < 30
        assert not is_running(int(mark.read_text()))

    async def test_variables_of_the_host_are_not_passed_on(self, monkeypatch):
        monkeypatch.setenv("SHOP_API_KEY", "sk-4711")
        assert "sk-4711" not in await shell("env")
        assert "sk-4711" not in await python("import os; print(dict(os.environ))")

    async def test_the_virtual_environment_the_language_and_proxies_are_passed_on(self, monkeypatch):
        passed = {
            "VIRTUAL_ENV": "/venv", "LC_ALL": "C.UTF-8", "TZ": "UTC", "https_proxy": "http://proxy.example:3128",
            "NO_PROXY": "localhost",
        }  # fmt: skip
        for name, value in passed.items():
            monkeypatch.setenv(name, value)
        lines = (await execute_shell_command("env")).metadata["stdout"].splitlines()
        assert passed.items() <= dict(line.split("=", 1) for line in lines).items()

    async def test_a_proxy_with_a_password_is_not_passed_on(self, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://ann:hunter22@proxy.example:3128")
        assert "hunter22" not in await shell("env")

    async def test_the_home_folder_is_that_of_the_user(self):
        assert await shell("cd ~; pwd") == result(f"{Path.home()}\n")


POLICIES = {
    None: "warn", "": "warn", "warn": "warn", "  Allow\n": "allow", "ALLOW": "allow", "deny": "deny", " DENY ": "deny",
    "no": "warn", "1": "warn",
}  # fmt: skip

TOOLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "view_text_file": (view_text_file, {}),
    "write_text_file": (write_text_file, {"content": "new\n"}),
    "insert_text_file": (insert_text_file, {"content": "new", "line_number": 1}),
}

every_tool = pytest.mark.parametrize("tool", sorted(TOOLS))


TEN = [f"line {number}" for number in range(1, 11)]


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """A file of ten lines."""
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{line}\n" for line in TEN))
    return path


class TestDangerousTextIO:
    """A variable decides about the tools that read and write any file."""

    @pytest.mark.parametrize(("value", "policy"), POLICIES.items(), ids=[repr(value) for value in POLICIES])
    @every_tool
    async def test_the_variable_is_read_in_each_call(self, numbers, monkeypatch, caplog, tool, value, policy):
        function, arguments = TOOLS[tool]
        monkeypatch.delenv(VARIABLE, raising=False)
        if value is not None:
            monkeypatch.setenv(VARIABLE, value)
        with caplog.at_level(logging.DEBUG, "ahvn_tools.compat"):
            response = await function(str(numbers), **arguments)
        assert response.metadata == {
            "dangerous_io": True, "policy": policy, "tool": tool, "path": str(numbers), "blocked": policy == "deny",
            "reason": "bypass_filesystem",
        }  # fmt: skip
        warnings = [record for record in caplog.records if record.name.startswith("ahvn_tools.compat")]
        assert [record.levelname for record in warnings] == (["WARNING"] if policy == "warn" else [])
        assert all(str(numbers) in record.getMessage() for record in warnings)
        assert (text_of(response) == BLOCKED) is (policy == "deny")

    @every_tool
    async def test_deny_touches_no_file(self, numbers, monkeypatch, tool):
        monkeypatch.setenv(VARIABLE, "deny")
        function, arguments = TOOLS[tool]
        before = numbers.read_text()
        assert "line" not in text_of(await function(str(numbers), **arguments))
        assert numbers.read_text() == before

    @pytest.mark.parametrize(
        "call",
        [
            lambda path: view_text_file(path + "x"),
            lambda path: view_text_file(path, [11, 13]),
            lambda path: write_text_file(path, "x", [11, 12]),
            lambda path: insert_text_file(path, "x", 0),
            lambda path: insert_text_file(path, "x", 99),
            lambda path: insert_text_file(path + "x", "x", 1),
        ],
        ids=["missing", "bounds", "start", "zero", "too large", "missing target"],
    )
    async def test_every_error_has_the_metadata(self, numbers, call):
        metadata = (await call(str(numbers))).metadata
        assert (metadata["dangerous_io"], metadata["blocked"], metadata["policy"]) == (True, False, "warn")

    @every_tool
    @pytest.mark.parametrize("path", ["x" * 5000, "a\0b", "", "\ud800", "loop", "folder", "file/x", None, 5], ids=repr)
    async def test_a_path_that_cannot_be_used_is_an_error_as_text(self, tmp_path, monkeypatch, tool, path):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "loop").symlink_to("loop")
        (tmp_path / "folder").mkdir()
        (tmp_path / "file").touch()
        function, arguments = TOOLS[tool]
        response = await function(path, **arguments)
        if path != 5 or tool != "write_text_file":
            assert text_of(response).startswith(("Error: ", "InvalidArgumentsError: "))
        assert response.metadata["path"] == path

    @every_tool
    async def test_a_current_folder_that_was_removed_is_an_error_as_text(self, tmp_path, monkeypatch, tool):
        folder = tmp_path / "folder"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        function, arguments = TOOLS[tool]
        response = await function("a.txt", **arguments)
        assert text_of(response) == "Error: The current folder does not exist any more."
        assert response.metadata["tool"] == tool

    async def test_a_long_path_makes_no_long_warning(self, caplog):
        await view_text_file("x" * 100_000)
        assert len(caplog.text) < 1000

    async def test_code_and_commands_are_not_concerned(self, monkeypatch):
        monkeypatch.setenv(VARIABLE, "deny")
        assert await python("print(1)") == result("1\n")
        assert await shell("echo 1") == result("1\n")


@pytest.fixture
def _allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "allow")


def shown(first: int, last: int) -> str:
    """Return these of the ten lines with their numbers."""
    return "\n".join(["```", *(f"{number}: line {number}" for number in range(first, last + 1)), "```"])


RANGE_FORMAT = "Invalid range format. Expected a list of two integers, but got"
OUT_OF_BOUNDS = "The range '[11, 13]' is out of bounds for the file '{path}', which has only 10 lines."
REPLACED = "1: line 1\n2: line 2\n3: NEW\n4: line 5\n5: line 6\n6: line 7\n7: line 8\n8: line 9"
INSERTED = "Insert content into {path} at line 2 successfully. The new content between lines 1-8 is:\n```\n"
CALLS = {
    "a range includes both ends": (view_text_file, [[3, 5]], "The content of {path} in [3, 5] lines:\n" + shown(3, 5)),
    "it ends with the file": (view_text_file, [[9, 20]], "The content of {path} in [9, 20] lines:\n" + shown(9, 10)),
    "it counts from the end": (view_text_file, [[-3, -1]], "The content of {path} in [-3, -1] lines:\n" + shown(8, 10)),
    "behind the end": (view_text_file, [[11, 13]], "InvalidArgumentError: " + OUT_OF_BOUNDS),
    "the end before the start": (
        view_text_file,
        [[5, 3]],
        "InvalidArgumentError: The start line is greater than the end line in the given range [5, 3].",
    ),
    **{
        f"view {ranges}": (view_text_file, [ranges], f"InvalidArgumentError: {RANGE_FORMAT} {ranges}.…")
        for ranges in ([1], [], [1, 2, 3], [0, 2])
    },
    "true is no number of a line": (view_text_file, [[True, 2]], "Error: Invalid arguments: 'ranges[0]'…"),
    "a file is overwritten": (write_text_file, ["tea\n"], "Overwrite {path} successfully.", ["tea"]),
    "lines are replaced and shown with five around them": (
        write_text_file,
        ["NEW\n", [3, 4]],
        f"Write {{path}} successfully. The new content snippet:\n```\n{REPLACED}\n```",
        [*TEN[:2], "NEW", *TEN[4:]],
    ),
    "lines are never joined": (write_text_file, ["NEW", [3, 3]], "Write …", [*TEN[:2], "NEW", *TEN[3:]]),
    "a start behind the end": (
        write_text_file,
        ["x", [11, 12]],
        "Error: The start line 11 is invalid. The file only has 10 lines.",
    ),
    **{
        f"write {ranges}": (write_text_file, ["x", ranges], f"Error: {RANGE_FORMAT} {ranges}.…")
        for ranges in ([1], [0, 0], [1, 2, 3])
    },
    **{
        f"write {ranges}": (write_text_file, ["x", ranges], "Error: …")
        for ranges in ([3, 2], [0, 2], [-1, 2], [-99, -98])
    },
    "lines are inserted before the line": (
        insert_text_file,
        ["NEW", 2],
        INSERTED + "1: line 1\n2: NEW\n3: line 2\n…",
        [*TEN[:1], "NEW", *TEN[1:]],
    ),
    "one line more than the file has appends": (insert_text_file, ["NEW", 11], "Insert …", [*TEN, "NEW"]),
    "a line below one": (insert_text_file, ["x", 0], "InvalidArgumentsError: The line number 0 is invalid.…"),
    "no line": (insert_text_file, ["x", True], "Error: Invalid arguments…"),
    "a line behind the end": (
        insert_text_file,
        ["x", 12],
        "InvalidArgumentsError: The given line_number (12) is not in the valid range [1, 11].",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("_allowed")
class TestTextFiles:
    """The tools show, write and insert lines."""

    @pytest.mark.parametrize("name", CALLS)
    async def test_a_call_on_a_file_of_ten_lines(self, numbers, name):
        """A text that ends with `…` is only the beginning; without lines the file stays as it was."""
        function, arguments, expected, *after = CALLS[name]
        text = text_of(await function(str(numbers), *arguments)).replace(str(numbers), "{path}")
        assert text == expected or (expected[-1] == "…" and text.startswith(expected[:-1]))
        assert numbers.read_text().splitlines() == (after[0] if after else TEN)

    async def test_a_whole_file(self, tmp_path):
        path = tmp_path / "tea.txt"
        path.write_text("green\nblack\n")
        assert text_of(await view_text_file(str(path))) == f"The content of {path}:\n```\n1: green\n2: black\n```"

    async def test_a_hint_about_a_long_line_names_no_tool_that_the_agent_does_not_have(self, tmp_path):
        path = tmp_path / "long.json"
        path.write_text(f"one\n{'x' * 3000}\n")
        viewed = text_of(await view_text_file(str(path)))
        inserted = text_of(await insert_text_file(str(path), "new", 1))
        written = text_of(await write_text_file(str(path), "new", [1, 1]))
        for text, line in (viewed, 2), (inserted, 3), (written, 3):
            assert f"execute_python_code, such as: print(list(open(FILE))[{line} - 1][2001 - 1:][:2000])" in text
            assert "partially_read_by_range" not in text

    async def test_what_is_no_text_file_is_an_error(self, tmp_path):
        (tmp_path / "data").write_bytes(bytes(range(256)))
        none = tmp_path / "none.txt"
        assert text_of(await view_text_file(str(none))) == f"Error: The file {none} does not exist."
        assert text_of(await insert_text_file(str(none), "x", 1)).startswith(
            f"InvalidArgumentsError: The target file {none} does not exist."
        )
        assert text_of(await view_text_file(str(tmp_path))) == f"Error: The path {tmp_path} is not a file."
        assert text_of(await view_text_file("/")) == "Error: The path / is not a file."
        assert text_of(await view_text_file(str(tmp_path / "data"))).startswith("Error: ")

    async def test_a_path_begins_in_the_home_or_the_current_folder(self, numbers, monkeypatch):
        monkeypatch.setenv("HOME", str(numbers.parent))
        assert "1: line 1" in text_of(await view_text_file("~/numbers.txt"))
        (numbers.parent / "inner").mkdir()
        monkeypatch.chdir(numbers.parent / "inner")
        assert text_of(await view_text_file("../numbers.txt", [1, 1])) == (
            "The content of ../numbers.txt in [1, 1] lines:\n```\n1: line 1\n```"
        )

    @pytest.mark.parametrize("ranges", [None, [1, 2]])
    async def test_a_new_file_is_created_with_its_folders_and_has_no_ranges(self, tmp_path, ranges):
        path = tmp_path / "a" / "b" / "new.txt"
        ignored = " The ranges [1, 2] is ignored because the file does not exist." if ranges else ""
        written = text_of(await write_text_file(str(path), "tea", ranges))
        assert written == f"Create and write {path} successfully.{ignored}"
        assert path.read_text() == "tea"

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(first=st.integers(1, 10), more=st.integers(0, 9), content=st.lists(st.sampled_from("abc"), min_size=1))
    def test_a_written_range_replaces_exactly_its_lines(self, numbers, first, more, content):
        numbers.write_text("".join(f"{line}\n" for line in TEN))
        last = min(first + more, 10)
        asyncio.run(write_text_file(str(numbers), "\n".join(content) + "\n", [first, last]))
        assert numbers.read_text().splitlines() == [*TEN[: first - 1], *content, *TEN[last:]]


async def run(toolkit: Toolkit, name: str, **arguments: Any) -> str:
    """Return the text of a call in a toolkit."""
    block = ToolUseBlock(type="tool_use", id="1", name=name, input=arguments)
    (response,) = [response async for response in await toolkit.call_tool_function(block)]
    return text_of(response)


class TestInAToolkit:
    """The functions are registered as any others."""

    async def test_the_functions_describe_themselves(self):
        toolkit = Toolkit()
        for function in (execute_python_code, execute_shell_command, *(function for function, _ in TOOLS.values())):
            toolkit.register_tool_function(function)
        functions = {schema["function"]["name"]: schema["function"] for schema in toolkit.get_json_schemas()}
        properties = {name: list(function["parameters"]["properties"]) for name, function in functions.items()}
        assert properties == {
            "execute_python_code": ["code", "timeout"],
            "execute_shell_command": ["command", "timeout"],
            "view_text_file": ["file_path", "ranges"],
            "write_text_file": ["file_path", "content", "ranges"],
            "insert_text_file": ["file_path", "content", "line_number"],
        }
        assert all(function["description"] for function in functions.values())
        assert functions["execute_python_code"]["parameters"]["required"] == ["code"]

    async def test_a_model_calls_them(self, numbers):
        toolkit = Toolkit()
        toolkit.register_tool_function(execute_shell_command, preset_kwargs={"timeout": 30})
        toolkit.register_tool_function(view_text_file)
        assert await run(toolkit, "execute_shell_command", command="echo tea") == result("tea\n")
        assert "3: line 3" in await run(toolkit, "view_text_file", file_path=str(numbers), ranges=[3, 3])

    async def test_a_timeout_of_the_host_cannot_be_overridden(self):
        toolkit = Toolkit()
        toolkit.register_tool_function(execute_shell_command, preset_kwargs={"timeout": 0.3})
        assert "Invalid" in await run(toolkit, "execute_shell_command", command="sleep 60", timeout=90)
        assert "exceeded the timeout of 0.3 seconds" in await run(toolkit, "execute_shell_command", command="sleep 60")


class Question(BaseModel):
    """What a sub-agent is asked."""

    query: str


def make_subagent(name: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return a function without parameters of its own, and how to register it."""

    async def wrapper(**raw_input: Any) -> ToolResponse:
        question = Question.model_validate(raw_input)
        return ToolResponse([TextBlock(type="text", text=f"{name} answers {question.query}")])

    wrapper.__name__ = name
    function = {"name": name, "description": "Ask an expert.", "parameters": Question.model_json_schema()}
    json_schema = {"type": "function", "function": function}
    return wrapper, {
        "func_description": "", "json_schema": json_schema, "preset_kwargs": {}, "group_name": "subagents",
    }  # fmt: skip


class TestSubAgents:
    """A sub-agent is a tool that is registered with an explicit schema."""

    @pytest.fixture
    def toolkit(self) -> Toolkit:
        toolkit = Toolkit()
        toolkit.create_tool_group("subagents", "Experts to ask.", active=True)
        function, register_kwargs = make_subagent("tea_expert_tool")
        toolkit.register_tool_function(function, **register_kwargs)
        return toolkit

    def test_the_given_schema_counts_and_not_the_signature(self, toolkit):
        (schema,) = toolkit.get_json_schemas()
        function = schema["function"]
        assert (function["name"], function["description"]) == ("tea_expert_tool", "Ask an expert.")
        assert function["parameters"]["properties"] == {"query": {"type": "string"}}
        assert function["parameters"]["required"] == ["query"]

    def test_a_schema_of_the_signature_would_be_empty(self):
        toolkit = Toolkit()
        toolkit.register_tool_function(make_subagent("tea_expert_tool")[0])
        assert toolkit.get_json_schemas()[0]["function"]["parameters"].get("properties", {}) == {}

    async def test_the_arguments_reach_the_sub_agent(self, toolkit):
        assert await run(toolkit, "tea_expert_tool", query="why?") == "tea_expert_tool answers why?"

    async def test_missing_arguments_do_not_reach_it(self, toolkit):
        text = await run(toolkit, "tea_expert_tool")
        assert text.startswith("Error: ")
        assert "'query'" in text

    async def test_the_schema_that_was_given_is_not_changed(self):
        function, register_kwargs = make_subagent("tea_expert_tool")
        before = copy.deepcopy(register_kwargs)
        toolkit = Toolkit()
        toolkit.create_tool_group("subagents", "Experts to ask.")
        toolkit.register_tool_function(function, **register_kwargs, func_name="expert")
        assert register_kwargs == before

    def test_several_sub_agents_are_tools_of_one_group(self, toolkit):
        function, register_kwargs = make_subagent("cake_expert_tool")
        toolkit.register_tool_function(function, **register_kwargs)
        assert {tool.group for tool in toolkit.tools.values()} == {"subagents"}
        toolkit.update_tool_groups(["subagents"], active=False)
        assert toolkit.get_json_schemas() == []


@pytest.mark.parametrize(
    "function", [execute_python_code, execute_shell_command, *(function for function, _ in TOOLS.values())],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_every_function_is_async_and_described(function):
    assert inspect.iscoroutinefunction(function)
    assert function.__doc__


def is_running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")
