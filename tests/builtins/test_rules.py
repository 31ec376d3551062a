"""Rules for approvals with the built-in tools: what their arguments mean, and what rules leave to the tools."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import ApprovalRules, Toolkit
from ahvn_tools.builtins import Database, Git, PythonRunner, Shell, Workspace

WRITES = {
    "create_file": {"content": "x"},
    "write_text_file": {"content": "x"},
    "insert": {"line": 1, "content": "x"},
    "insert_text_file": {"line_number": 1, "content": "x"},
    "edit_file_full_replace": {"new_content": "x"},
    "edit_file_search_replace": {"search_replace": "x"},
    "mkdir": {},
    "delete": {},
}
"""The tools that write one file or folder, with their other arguments."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a repository with a file in `docs` and one in `src`."""
    subprocess.run(["git", "init", "-q", "-b", "main", tmp_path], check=True)
    for name in ("docs", "src"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("tea\n")
    return tmp_path


@pytest.fixture
def make_kit(folder: Path) -> Iterator[Any]:
    """Yield a function that returns a toolkit with all built-in tools for commands, code, files and databases."""
    closed: list[Shell] = []

    def make(*, python: bool = False, **rules: Any) -> Toolkit:
        workspace = Workspace(folder)
        closed.append(Shell(workspace, sandbox="none"))
        kit = Toolkit("desk", rules=ApprovalRules(**rules)).add(workspace).add(closed[-1])
        kit.add(Git(workspace, allow=("read", "write", "remote"), author=("Ann", "ann@example.com")))
        kit.add(Database(f"sqlite:///{folder / 'notes.db'}", read_only=False))
        return kit.add(PythonRunner(workspace, sandbox="none")) if python else kit

    yield make
    for shell in closed:
        shell.close()


GIT_PUSHES = [
    "push", "push origin main", "git push", "git  push x", "'push' x", '"push"', "pu''sh", "p\\ush", "PUSH", "\tpush",
    "\npush", "--no-pager push", "git --no-pager push", "git 'push'", "-C . push", "pu\u200bsh", "push # x",
]  # fmt: skip
REMOVALS = ["rm x", "'rm' x", "r\\m x", "ls; rm x", "sudo rm x", "/bin/rm x", "bash -c 'rm x'", "RM x", "ls\nrm x"]
DROPS = [
    "DROP TABLE notes", "drop  table notes", "drop\n\ttable notes", "/* x */ DROP TABLE notes", "DROP/**/TABLE notes",
    "-- x\nDROP TABLE notes", "SELECT 1; drop table notes", " ; drop table notes", "ＤＲＯＰ TABLE notes",
]  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "tool", "arguments", "name", "spellings"),
    [
        (['git_cmd(args: "push*")'], "git_cmd", {"uri": "."}, "args", GIT_PUSHES),
        (['git_cmd(args: "push *")'], "git_cmd", {"uri": "."}, "args", GIT_PUSHES),
        (['git_cmd(args: "git push *")'], "git_cmd", {"uri": "."}, "args", GIT_PUSHES),
        (['*(cmd: "rm *")'], "shell_exec", {}, "cmd", REMOVALS),
        (['*(cmd: "rm *")'], "start_job", {}, "cmd", REMOVALS),
        (['job_input(text: "rm *")'], "job_input", {"job_id": "x"}, "text", [f"{one}\n" for one in REMOVALS]),
        (['exec_sql(query: "DROP *")'], "exec_sql", {}, "query", DROPS),
        (['exec_sql(query: "drop table *")'], "exec_sql", {}, "query", DROPS),
    ],
)
def test_no_spelling_leads_around_a_deny_rule(
    make_kit: Any, rules: list[str], tool: str, arguments: dict[str, Any], name: str, spellings: list[str]
):
    kit = make_kit(mode="allow", deny=rules)
    decisions = {text: kit.explain(tool, {**arguments, name: text}).decision for text in spellings}
    assert decisions == dict.fromkeys(spellings, "deny")


PATHS = [
    "docs/a.txt",
    "./docs/a.txt",
    "docs/../docs/a.txt",
    "src/../docs/a.txt",
    "docs//a.txt",
    "link/a.txt",
    "%64ocs/a",
]


@pytest.mark.parametrize("path", [*PATHS, "file:docs/a.txt", "{root}/docs/a.txt", "file://{root}/docs/a.txt"])
def test_each_parameter_for_a_path_is_compared_as_a_path(make_kit: Any, folder: Path, path: str):
    (folder / "link").symlink_to("docs")
    kit = make_kit(
        mode="allow", deny=['*(uri: "docs/**")', '*(target_uri: "docs/**")', '*(shell_path: "docs/**")'], python=True
    )
    checked = []
    for spec in kit:
        for name in {"uri", "target_uri", "shell_path"} & set(spec.params):
            others = {n: "x" for n, schema in spec.params.items() if n != name and "default" not in schema}
            others = {n: 1 if "line" in n else value for n, value in others.items()}
            call = {**others, name: path.format(root=folder)}
            assert kit.explain(spec.name, call).decision == "deny", (spec.name, name)
            checked.append((spec.name, name))
    assert len(checked) > 25


@pytest.mark.parametrize(
    ("args", "ask", "read_only"),
    [
        ("status", "allow", "allow"),
        ("log --oneline", "allow", "allow"),
        ("git diff", "allow", "allow"),
        ("branch", "allow", "allow"),
        ("branch new", "ask", "deny"),
        ("commit -m x", "ask", "deny"),
        ("push", "ask", "deny"),
        ("status --unknown", "ask", "deny"),
        ("'", "ask", "deny"),
    ],
)
def test_a_git_command_that_only_reads_runs_in_each_mode(make_kit: Any, args: str, ask: str, read_only: str):
    arguments = {"uri": ".", "args": args}
    assert make_kit(mode="ask")["git_cmd"].approval is None
    assert make_kit(mode="ask").explain("git_cmd", arguments).decision == ask
    assert make_kit(mode="read_only").explain("git_cmd", arguments).decision == read_only
    assert make_kit(mode="allow", deny=["git_cmd"]).explain("git_cmd", arguments).decision == "deny"


def test_an_allow_rule_says_nothing_about_paths_commands_and_code_that_it_does_not_name(make_kit: Any):
    kit = make_kit(allow=['*(uri: "docs/**")'], python=True)
    for tool, others in WRITES.items():
        assert kit.explain(tool, {"uri": "docs/x", **others}).decision == "allow", tool
        assert kit.explain(tool, {"uri": "src/x", **others}).decision == "ask", tool
    for tool, arguments in {
        "shell_exec": {"cmd": "curl x"},
        "start_job": {"cmd": "sh"},
        "git_cmd": {"args": "push"},
        "move": {"target_uri": "src/x"},
    }.items():
        assert kit.explain(tool, {"uri": "docs/x", **arguments}).decision == "ask", tool


@pytest.mark.parametrize(
    ("rule", "tool", "arguments", "decision"),
    [
        ('move(uri: "docs/**")', "move", {"uri": "docs/a", "target_uri": "docs/b"}, "ask"),
        ('move(uri: "docs/**", target_uri: "docs/**")', "move", {"uri": "docs/a", "target_uri": "docs/b"}, "allow"),
        ('move(uri: "docs/**", target_uri: "docs/**")', "move", {"uri": "docs/a", "target_uri": "src/b"}, "ask"),
        ('shell_exec(cmd: "git status*")', "shell_exec", {"cmd": "git status"}, "allow"),
        ('shell_exec(cmd: "git status*")', "shell_exec", {"cmd": "git status", "uri": "."}, "allow"),
        ('shell_exec(cmd: "git status*")', "shell_exec", {"cmd": "git status", "uri": "docs"}, "ask"),
        ('shell_exec(cmd: "git status*")', "shell_exec", {"cmd": "git status", "shell_path": "/bin/sh"}, "ask"),
        ('shell_exec(cmd: "git status*", uri: "*")', "shell_exec", {"cmd": "git status", "uri": "docs"}, "allow"),
        ("shell_exec", "shell_exec", {"cmd": "curl x", "uri": "docs"}, "allow"),
        ('shell_exec(uri: "docs/**")', "shell_exec", {"cmd": "ls", "uri": "docs/x"}, "ask"),
        ('git_cmd(args: "add *", uri: ".")', "git_cmd", {"uri": ".", "args": "add x"}, "allow"),
        ('git_cmd(args: "git add *", uri: ".")', "git_cmd", {"uri": ".", "args": "add x"}, "allow"),
        ('git_cmd(args: "add *", uri: ".")', "git_cmd", {"uri": ".", "args": "commit -m add"}, "ask"),
        ("create_file(overwrite: false)", "create_file", {"uri": "x", "content": ""}, "ask"),
        ('shell_exec(cmd: "ls*")', "shell_exec", {"cmd": "ls"}, "allow"),
        ('shell_exec(cmd: "ls*")', "shell_exec", {"cmd": "ls -l docs"}, "allow"),
        ('shell_exec(cmd: "ls*")', "shell_exec", {"cmd": "lsof"}, "ask"),
        ('shell_exec(cmd: "ls *")', "shell_exec", {"cmd": "ls"}, "allow"),
        ('shell_exec(cmd: "ls")', "shell_exec", {"cmd": "ls -l"}, "ask"),
        ('job_input(job_id: "x")', "job_input", {"job_id": "x", "text": "rm x\n"}, "ask"),
        ('exec_sql(query: "SELECT *")', "exec_sql", {"query": "SELECT 1"}, "allow"),
        ('exec_sql(query: "SELECT *")', "exec_sql", {"query": "SELECT 1; DROP TABLE x"}, "ask"),
    ],
)
def test_what_an_allow_rule_allows(make_kit: Any, rule: str, tool: str, arguments: dict[str, Any], decision: str):
    assert make_kit(allow=[rule]).explain(tool, arguments).decision == decision


@pytest.mark.parametrize(
    ("rule", "severity", "problem"),
    [
        ('shell_exec(cmd: "ls*")', None, ""),
        ('shell_exec(cmd: "ls *")', None, ""),
        ('shell_exec(cmd: "*")', None, ""),
        ('shell_exec(cmd: "*ls*")', "error", "because it must begin with the whole name of a program"),
        ('shell_exec(cmd: "python *")', "error", "runs what its first argument names"),
        ('git_cmd(uri: ".", args: "status*")', None, ""),
        ('move(uri: "docs/**")', "error", "it allows no call of 'move', because it does not name 'target_uri'"),
        ('*(uri: "docs/**")', "note", "of 'shell_exec', because it does not name 'cmd'"),
    ],
)
def test_check_finds_rules_that_allow_nothing(make_kit: Any, rule: str, severity: str | None, problem: str):
    found = [one for one in make_kit(allow=[rule]).check() if one.rule == "unmatched-rule"]
    assert [one.severity for one in found] == ([] if severity is None else [severity])
    assert all(problem in one.problem for one in found)


LATER = ["docs/.git/config", "docs/HEAD", "docs/conftest.py", "docs/.envrc", "docs/x.pth", "docs/hooks/pre-commit"]
"""Files that programs execute or obey later."""


def exec_code(kit: Toolkit, tool: str, arguments: dict[str, Any]) -> str | None:
    """Run a call, and return the code of its error."""
    error = kit.exec(tool, arguments).error
    return error and error.code


@pytest.mark.parametrize("path", LATER)
@pytest.mark.parametrize(
    "tool", ["create_file", "write_text_file", "insert_text_file", "mkdir", "move", "edit_file_full_replace"]
)
def test_no_rule_allows_a_file_that_runs_later(make_kit: Any, folder: Path, tool: str, path: str):
    allow = ['*(uri: "docs/**")', 'move(uri: "docs/**", target_uri: "docs/**")']
    for rules in (allow, ["*"]):
        kit = make_kit(allow=rules)
        if tool == "mkdir":
            path, arguments = "docs/.git/hooks", {"uri": "docs/.git/hooks"}
        elif tool == "move":
            arguments = {"uri": "docs/a.txt", "target_uri": path}
        else:
            arguments = {"uri": path, **WRITES[tool]}
        if tool in {"insert_text_file", "edit_file_full_replace"}:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("old\n")
            assert kit.exec("read_file", {"uri": path}).error is None
        before = (folder / path).read_text() if (folder / path).is_file() else None
        assert exec_code(kit.session(), tool, arguments) in {"approval_required", "tool_error"}
        assert ((folder / path).read_text() if (folder / path).is_file() else None) == before


def test_an_allow_rule_answers_what_a_tool_would_ask(make_kit: Any, folder: Path):
    allow = [
        *(f'{tool}(uri: "docs/**")' for tool in WRITES),
        'move(uri: "docs/**", target_uri: "docs/**")',
        'shell_exec(cmd: "git status*")',
        'shell_exec(cmd: "touch *")',
        'git_cmd(args: "restore *", uri: ".")',
        'exec_sql(query: "CREATE TABLE notes*")',
        'execute_python_code(code: "*")',
    ]
    kit = make_kit(allow=allow, python=True).session()
    for tool, arguments in (
        ("create_file", {"uri": "docs/new.txt", "content": "x"}),
        ("move", {"uri": "docs/new.txt", "target_uri": "docs/b.txt"}),
        ("delete", {"uri": "docs/b.txt"}),
        ("shell_exec", {"cmd": "git status"}),
        ("shell_exec", {"cmd": "touch x"}),
        ("execute_python_code", {"code": "1 + 1"}),
    ):
        assert exec_code(kit, tool, arguments) is None, (tool, arguments)
    assert exec_code(kit, "shell_exec", {"cmd": "touch x", "uri": "docs"}) == "approval_required"
    assert exec_code(kit, "delete", {"uri": "src/a.txt"}) == "approval_required"


def test_a_mode_answers_nothing_that_a_tool_asks(make_kit: Any):
    kit = make_kit(mode="allow")
    assert exec_code(kit, "create_file", {"uri": "src/b.txt", "content": "x"}) is None
    assert exec_code(kit, "delete", {"uri": "src/a.txt"}) == "approval_required"
    assert exec_code(kit, "shell_exec", {"cmd": "touch x"}) == "approval_required"


def test_a_person_is_asked_once_about_a_call(make_kit: Any, folder: Path):
    asked: list[str] = []
    rules = make_kit(mode="ask")
    for tool, arguments in (("delete", {"uri": "docs/a.txt"}), ("create_file", {"uri": ".envrc", "content": "x"})):
        run = rules.run([{"id": "1", "type": "tool_use", "name": tool, "input": arguments}])
        asked += [request.tool for request in run.pending]
        done = rules.resume(run, approved=True)
        assert done.is_done, done
        assert not done.results[0][1].is_error
    assert asked == ["delete", "create_file"]
    assert (folder / ".envrc").exists()
    assert not (folder / "docs" / "a.txt").exists()


def test_no_code_runs_through_a_repository_that_a_model_has_written(make_kit: Any, folder: Path):
    kit = make_kit(allow=['shell_exec(cmd: "git status*")', 'create_file(uri: "docs/**")']).session()
    core = f'repositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "touch {folder}/RAN; false"'
    files = {"HEAD": "ref: refs/heads/main\n", "config": f"[core]\n\t{core}\n", "objects/k": "", "refs/k": ""}
    for base in ("docs/.git", "docs"):
        for name, content in files.items():
            kit.exec("create_file", {"uri": f"{base}/{name}", "content": content})
        assert exec_code(kit, "shell_exec", {"cmd": "git status", "uri": "docs"}) == "approval_required"
        kit.exec("shell_exec", {"cmd": "git status"})
    assert not (folder / "RAN").exists()
    assert not (folder / "docs/HEAD").exists()


@pytest.mark.parametrize("approve", ["always", lambda action: True])
def test_what_the_host_wants_to_be_asked_is_asked_beside_rules(folder: Path, approve: Any):
    kit = Toolkit("desk", rules=ApprovalRules(allow=["*"])).add(Workspace(folder, approve=approve))
    assert exec_code(kit, "create_file", {"uri": "docs/b.txt", "content": "x"}) == "approval_required"
