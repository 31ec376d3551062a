"""Nothing that a repository contains is executed, and nothing outside of the folders is written or shown."""

from __future__ import annotations

import threading

import psutil
import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.git import Git
from ahvn_tools.builtins.processes.confinement import choose_sandbox
from tests.builtins.git.hostile import ATTACKS, MARK, SECRET, Hostile
from tests.builtins.git.repositories import git

TOOLS = [
    ("git_status", {}),
    ("git_diff", {}),
    ("git_diff", {"revision": "HEAD~1"}),
    ("git_log", {}),
    ("git_log", {"revision": "taken"}),
    ("git_show", {"revision": "other"}),
    ("git_show", {"revision": "taken"}),
    ("git_status", {"uri": "bare.git"}),
    ("git_status", {"uri": "sub"}),
]

COMMON = ["diff", "log -p -3 --all", "add -A", "commit -am x", "checkout -f other"]

PRINCIPAL = [
    "fsmonitor", "textconv", "filter_clean", "filter_process", "hook_pre_commit", "hook_reference_transaction", "alias",
    "conditional_include", "submodule_with_filter", "git_file_that_leads_out", "objects_of_another", "message_link",
    "folder_link_in_the_tree", "configuration_that_blocks",
]  # fmt: skip
"""Those of the default run."""

LINES = [
    *COMMON,
    *"""
st
diff HEAD~1
log --format=%G?%GS -2
show HEAD
show HEAD:docs/b.txt
show taken
blame a.txt
blame links/secret.txt
branch new
branch -a -vv
tag -l
tag -a v1 -m x
add -u
rm --cached a.txt
commit --allow-empty --allow-empty-message
commit -m x --allow-empty
log -1
checkout -b another
switch main
restore .
reset --hard HEAD~1
stash
stash pop
stash list -p
merge other
merge --continue
rebase other
rebase --continue
cherry-pick other
revert HEAD
mv a.txt links/
mv a.txt c.txt
clean -n
clean -fdx -e program.sh
check-ignore -v OUTSIDE-SECRET-7
ls-files -m
ls-files -o
cat-file -p taken
reflog
shortlog -sn
describe --always
rev-parse HEAD
fetch
fetch origin
fetch evil
fetch near
fetch host
fetch https://127.0.0.1:1/x.git
fetch --all
pull
pull evil main
push near main
push evil main
ls-remote
ls-remote near
ls-remote host
remote -v
remote get-url evil
clone https://127.0.0.1:1/x.git copy
clone . copy
clone ext::sh copy
submodule update --init
archive --format=evil HEAD
difftool -y
mergetool
rebase -i HEAD~1
commit --trailer evil=1 -m x
grep -r line
config -l
init
init --bare
init new
""".strip().split("\n"),
]
"""What models run, and what they should not."""


@pytest.fixture(autouse=True)
def user(monkeypatch, tmp_path):
    """The author of commits comes from the configuration of the user, which is read for the hostile repository."""
    configuration = tmp_path / "user.config"
    configuration.write_text("[user]\nname = Bob\nemail = bob@example.com\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))


def check(hostile: Hostile, sandbox: str, lines: list[str]) -> None:
    """Run everything in a hostile repository, and see that nothing happens elsewhere."""
    before = hostile.state_outside()
    tools = Git(
        hostile.root, allow=("read", "write", "remote"), approve="never", sandbox=sandbox, timeout=30,
    )  # fmt: skip
    kit = Toolkit("code").add(tools)
    calls = [
        *(TOOLS if lines is LINES else TOOLS[:1] + TOOLS[6:9]),
        *(("git_cmd", {"uri": ".", "args": line}) for line in lines),
    ]
    calls += (
        []
        if lines is COMMON
        else [("git_cmd", {"uri": uri, "args": "status"}) for uri in ("bare.git", "sub", ".git", "links", "docs")]
    )
    kit.exec("git_status", {})  # what is opened once
    process = psutil.Process()
    open_files, threads = process.num_fds(), threading.active_count()
    for name, arguments in calls:
        result = kit.exec(name, arguments)
        assert not result.is_error or result.error.code == "tool_error", (name, arguments, result.error)
        assert MARK not in result.text, (name, arguments)
        assert SECRET not in result.text.replace("OUTSIDE-SECRET-7 is", ""), (name, arguments, result.text)
        assert not hostile.has_run(), (name, arguments)
        assert hostile.state_outside() == before, (name, arguments)
    assert (process.num_fds(), threading.active_count(), process.children(recursive=True)) == (open_files, threads, [])


@pytest.mark.parametrize("name", PRINCIPAL)
@pytest.mark.default_cases(4)
def test_common_commands_execute_and_reach_nothing(name, tmp_path):
    hostile = Hostile(tmp_path)
    ATTACKS[name][0](hostile)
    check(hostile, "none", COMMON)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "sandbox"), [*((name, "none") for name in ATTACKS), *((name, "bubblewrap") for name in PRINCIPAL)]
)
def test_no_command_executes_or_reaches_anything(name, sandbox, tmp_path):
    if sandbox == "bubblewrap" and choose_sandbox("auto") == "none":
        pytest.skip("bubblewrap does not work here")
    hostile = Hostile(tmp_path)
    ATTACKS[name][0](hostile)
    check(hostile, sandbox, LINES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name, (_, lines) in ATTACKS.items() if lines])
def test_plain_git_falls_for_the_attack(name, tmp_path):
    """So the tests above would notice it."""
    hostile = Hostile(tmp_path)
    ATTACKS[name][0](hostile)
    before = hostile.state_outside()
    output = "".join(git(hostile.root, *line.split(), check=False) for line in ATTACKS[name][1])
    assert hostile.has_run() or SECRET in output or hostile.state_outside() != before, output
