"""`ahvn-tools list`, and the options that all commands with sources share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ahvn_tools.cli.app import main
from tests.cli.shop import SHOP


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return file


def names(capsys) -> list[str]:
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]


def test_a_pipe_gets_one_line_for_each_tool_with_all_columns(shop, capsys):
    assert main(["list", "shop.py"]) == 0
    printed = capsys.readouterr()
    rows = [[cell.strip() for cell in line.split("  ") if cell] for line in printed.out.splitlines()]
    assert rows == [
        ["NAME", "SIGNATURE", "DESCRIPTION", "GROUP", "TAGS", "HINTS", "AUDIENCE", "APPROVAL"],
        [
            "place",
            "(order: dict[str, Any], note: str = '') -> dict[str, int]",
            "Place an order.",
            "basic",
            "orders",
            "changes data, destructive, not idempotent",
            "staff",
            "allow",
        ],
        [
            "status",
            "(number: int) -> str",
            "Return the status of an order.",
            "basic",
            "orders, read",
            "read-only",
            "-",
            "allow",
        ],
        ["touch", "(name: str) -> Any", "Touch a thing.", "write", "-", "-", "-", "allow"],
    ]
    assert printed.err == "loaded\n"  # what a source prints while it is loaded


def test_json_is_one_document_of_all_tools(shop, capsys):
    assert main(["list", "shop.py", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [tool["name"] for tool in listed] == ["place", "status", "touch"]
    assert listed[1] == {
        "name": "status",
        "signature": "(number: int) -> str",
        "description": "Return the status of an order.",
        "group": "basic",
        "tags": ["orders", "read"],
        "audience": [],
        "visibility": ["model", "app"],
        "external": False,
        "requires_approval": False,
        "approval": "allow",
        "approval_reason": "No rule names it, and the mode is allow.",
        "annotations": {"readOnlyHint": True},
    }


GUARDED = """
from ahvn_tools import ApprovalRules, Toolkit

rules = ApprovalRules(mode="ask", allow=["free", "checked"], ask=["asked"], deny=["denied", 'some(x: "1")'])
kit = Toolkit("guarded", rules=rules)
for name in ("free", "asked", "denied", "some", "other"):
    kit.add(lambda x: x, name=name, description=name)
kit.add(lambda x: x, name="checked", description="checked", requires_approval=lambda arguments: True)
kit.add(lambda: 1, name="shown", annotations={"readOnlyHint": True}, ui={"visibility": ["app"]}, description="d")
kit.tool(name="far", external=True, description="far", requires_approval=True)(lambda x: x)
"""


def test_an_audit_sees_what_runs_what_asks_and_who_may_call_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "guarded.py").write_text(GUARDED)
    monkeypatch.chdir(tmp_path)
    assert main(["list", "guarded.py", "--json"]) == 0
    tools = {tool["name"]: tool for tool in json.loads(capsys.readouterr().out)}
    assert {name: (tool["approval"], tool["approval_reason"]) for name, tool in tools.items()} == {
        "free": ("allow", "The rule free allows it."),
        "asked": ("ask", "The rule asked asks for it."),
        "denied": ("deny", "The rule denied denies it."),
        "some": ("by arguments", "It depends on the arguments."),
        "other": ("ask", "No rule names it, and the mode is ask."),
        "checked": ("by arguments", "It depends on the arguments."),
        "shown": ("allow", "The mode is ask, and it only reads."),
        "far": ("ask", "The tool itself requires an approval."),
    }
    assert [name for name, tool in tools.items() if tool["external"]] == ["far"]
    assert {name: tool["requires_approval"] for name, tool in tools.items() if tool["requires_approval"]} == {
        "checked": "by arguments",
        "far": True,
    }
    assert [name for name, tool in tools.items() if tool["visibility"] == ["app"]] == ["shown"]
    assert main(["show", "guarded.py", "far"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "hints: external approval: ask: The tool itself requires an approval." in printed


def test_a_built_in_tool_that_asks_itself_is_not_listed_as_one_that_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for approve, expected in (("risky", "by arguments"), ("never", "allow")):
        Path("kit.yaml").write_text(f"sources: [{{builtins: [files, shell, git], roots: [.], approve: {approve}}}]")
        assert main(["list", "kit.yaml", "--json"]) == 0
        found = {tool["name"]: tool["approval"] for tool in json.loads(capsys.readouterr().out)}
        chosen = {name: found[name] for name in ("shell_exec", "delete", "git_cmd", "read_file")}
        assert chosen == dict.fromkeys(chosen, expected) | {"read_file": "allow"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tag", "read"], ["status"]),
        (["--group", "write"], ["touch"]),
        (["--audience", "other"], ["status", "touch"]),
        (["--include", "*t*", "--exclude", "touch"], ["status"]),
        (["--include", "place", "--include", "touch"], ["place", "touch"]),
    ],
)
def test_options_choose_the_tools(shop, capsys, options, expected):
    assert main(["list", "shop.py", *options]) == 0
    assert names(capsys) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tag", "red"], "error: --tag 'red' matches no tool. Did you mean 'read'?\n"),
        (["--group", "wirte"], "error: --group 'wirte' matches no tool. Did you mean 'write'?\n"),
        (["--include", "statu"], "error: --include 'statu' matches no tool. Did you mean 'status'?\n"),
        (
            ["--set", "a=b"],
            "error: Unknown option: --set. It is an option of: call, serve, ui. See ahvn-tools list --help.\n",
        ),
        (
            ["--state=a"],
            "error: Unknown option: --state. It is an option of: call, serve, ui. See ahvn-tools list --help.\n",
        ),
        (["--xyzzy"], "error: Unknown option: --xyzzy. See ahvn-tools list --help.\n"),
        (["--jsn"], "error: Unknown option: --jsn. Did you mean --json? See ahvn-tools list --help.\n"),
    ],
)
def test_an_option_that_matches_nothing_is_an_error_with_similar_names(shop, capsys, options, message):
    assert main(["list", "shop.py", *options]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.removeprefix("loaded\n")) == ("", message)


def test_a_command_and_a_source_that_do_not_exist(shop, capsys):
    assert main(["lsit", "shop.py"]) == 2
    assert 'Unknown command "lsit". Did you mean "list"?' in capsys.readouterr().err
    assert main(["list"]) == 2
    assert "A SOURCE is missing" in capsys.readouterr().err
    assert main(["list", "nowhere.py"]) == 1
    assert capsys.readouterr().err == "error: There is no file 'nowhere.py'.\n"


def test_several_sources_keep_the_first_of_two_tools_of_one_name(shop, tmp_path, capsys):
    (tmp_path / "garden.py").write_text(
        "from ahvn_tools import tool\n@tool\ndef status() -> str:\n    return ''\n"
        "@tool\ndef grow() -> str:\n    return ''\n"
    )
    assert main(["list", "shop.py", "garden.py"]) == 0
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()[1:]] == ["place", "status", "touch", "grow"]
    assert "warning: " in printed.err
    assert "status" in printed.err


@pytest.fixture
def partial(tmp_path, monkeypatch):
    """A document with an operation that cannot be a tool, as `api.json` in the current folder."""
    monkeypatch.chdir(tmp_path)
    operations = {"/a": {"get": {"operationId": "a", "description": "Get it.", "responses": {}}}, "/b": {"trace": {}}}
    document = {"openapi": "3.1.0", "servers": [{"url": "https://a.example"}], "paths": operations}
    (tmp_path / "api.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "api.json"],
        ["export", "api.json", "-f", "openai"],
        ["prompt", "api.json"],
        ["pin", "api.json"],
        ["diff", "api.json", "api.json"],
        ["check", "api.json"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_skipped_operation_does_not_stop_a_command_for_the_others(partial, capsys, arguments):
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "TRACE /b is skipped" in printed.err
    assert arguments[0] == "check" or "1 operation was skipped. --strict-load makes this an error." in printed.err
    assert main([*arguments, "--strict-load"]) == 1


def test_a_broken_file_of_a_folder_is_a_warning_and_the_exit_code_1(tmp_path, capsys):
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "garden.py").write_text("from ahvn_tools import tool\n@tool\ndef grow() -> str:\n    return ''\n")
    (folder / "hut.py").write_text("import no_such_module\n")
    assert main(["list", str(folder)]) == 1
    printed = capsys.readouterr()
    assert "grow" in printed.out
    assert printed.err.startswith("warning: ")
    assert len(printed.err.splitlines()) == 1
    assert "No module named 'no_such_module'" in printed.err
    assert main(["list", str(folder), "--verbose"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_error_is_one_line_and_verbose_prints_its_traceback(tmp_path, capsys):
    file = tmp_path / "hut.py"
    file.write_text("raise ValueError('first\\nsecond')\n")
    assert main(["list", str(file)]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "ValueError: first second" in err
    assert main(["list", str(file), "--verbose"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_tool_that_cannot_be_used_yet_is_listed_with_the_reason(tmp_path, capsys):
    file = tmp_path / "hut.py"
    file.write_text(
        "from ahvn_tools import tool\nclass Database: ...\n"
        "@tool\ndef query(db: Database, text: str) -> str:\n    return text\n"
    )
    assert main(["list", str(file)]) == 0
    assert "('db' must be bound)" in capsys.readouterr().out
    assert main(["show", str(file), "query", "--json"]) == 0
    assert "fingerprint" not in json.loads(capsys.readouterr().out)
