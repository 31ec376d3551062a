"""What `git_cmd` does: everyday work, what it refuses by permission, its approvals, limits and messages."""

from __future__ import annotations

import os
import threading

import pytest

from ahvn_tools import Toolkit
from ahvn_tools.builtins.git import Git
from ahvn_tools.builtins.processes.confinement import choose_sandbox
from ahvn_tools.builtins.workspace import Workspace
from ahvn_tools.errors import DefinitionError
from tests.builtins.git.repositories import git, git_kit, make_repository, run

MANY = "".join(f"../{number}\n" for number in range(50))
SANDBOXES = ["none", pytest.param("bubblewrap", marks=pytest.mark.exhaustive)]


def test_paths_may_have_the_name_of_a_root_that_is_a_link(tmp_path):
    make_repository(tmp_path / "disk")
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("disk")
    kit = Toolkit("git").add(Git([tmp_path / "other", tmp_path / "link"], approve="never"))
    (tmp_path / "disk" / "new").touch()
    shown = kit.call("git_cmd", {"uri": f"{tmp_path}/link/docs", "args": f"status --short {tmp_path}/link/new"})
    assert shown == "?? ../new"
    files = kit.call("git_status", {"uri": f"{tmp_path}/link"})["files"]
    assert f"{tmp_path}/link/new" in [file["path"] for file in files]
    outside = kit.exec("git_cmd", {"uri": f"{tmp_path}/link", "args": f"status {tmp_path}/link/../secret"})
    assert "leads out of the folders" in outside.text


@pytest.mark.skipif(choose_sandbox("auto") == "none", reason="bubblewrap does not work here")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to other users")
def test_a_failure_says_which_folder_of_another_user_the_sandbox_cannot_write_to(tmp_path):
    root = make_repository(tmp_path / "root")
    for path in (root, *root.rglob("*")):
        os.chown(path, 4711, 4711)
        path.chmod(0o755)
    kit = Toolkit("git").add(Git(root, approve="never", sandbox="bubblewrap"))
    text = run(kit, "add .")
    assert "Permission denied" in text
    assert text.endswith(
        f"Programs in this sandbox cannot write to '{root}': it belongs to another user, and they have no privileges "
        "of root. Tell the user."
    )
    assert "belongs to another user" not in run(kit, "log nothing")


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_day_of_work(sandbox, tmp_path):
    if sandbox == "bubblewrap" and choose_sandbox("auto") == "none":
        pytest.skip("bubblewrap does not work here")
    kit = git_kit(tmp_path, sandbox=sandbox)
    assert "Initialized empty Git repository" in run(kit, "init -b main")
    (tmp_path / "a b.txt").write_text("one\ntwo\n")
    (tmp_path / "ünïcode.txt").write_text("x\n")
    (tmp_path / "new\nline.txt").write_text("x\n")
    assert run(kit, "git add -A") == "Git command executed successfully with no output."
    assert "3 files changed" in run(kit, 'commit -m "First commit"')
    assert "new branch 'feature'" in run(kit, "checkout -b feature")
    (tmp_path / "a b.txt").write_text("one\n2\n")
    run(kit, "mv ünïcode.txt plain.txt")
    assert run(kit, "status --short").splitlines() == [' M "a b.txt"', "R  ünïcode.txt -> plain.txt"]
    assert "1 insertion(+), 1 deletion(-)" in run(kit, "commit -am 'Second commit'")
    run(kit, "switch -")
    assert (tmp_path / "ünïcode.txt").exists()
    assert "Fast-forward" in run(kit, "merge feature")
    run(kit, "branch -d feature")
    run(kit, 'tag -a v1 -m "Version 1"')
    assert run(kit, "tag -n").startswith("v1              Version 1")
    assert run(kit, "describe") == "v1"
    (tmp_path / "a b.txt").write_text("changed\n")
    run(kit, "stash push -m later")
    assert run(kit, "stash list") == "stash@{0}: On main: later"
    run(kit, "stash pop")
    run(kit, "restore 'a b.txt'")
    assert run(kit, "status --porcelain") == "Git command executed successfully with no output."
    run(kit, "revert --no-edit HEAD")
    run(kit, "reset --hard HEAD~1")
    run(kit, "branch -m main trunk")
    assert run(kit, "rev-parse --abbrev-ref HEAD") == "trunk"
    assert run(kit, "shortlog -sne") == "2\tBob <bob@example.com>" or "Bob <bob@example.com>" in run(
        kit, "shortlog -sne"
    )
    assert run(kit, "--no-pager log --oneline -1 --format=%s%d").startswith("Second commit (HEAD -> trunk")
    assert run(kit, "clean -n") == "Git command executed successfully with no output."
    assert not (tmp_path / ".git/index.lock").exists()


@pytest.mark.exhaustive
def test_a_rebase_with_a_conflict_can_be_finished(folder, kit):
    run(kit, "commit -am Third")
    run(kit, "switch other")
    (folder / "a.txt").write_text((folder / "a.txt").read_text().replace("line 20\n", "conflict 20\n"))
    run(kit, "commit -am Conflict")
    answer = run(kit, "rebase main")
    assert answer.startswith("ERROR CODE: 1\nMESSAGE: ")
    assert "CONFLICT (content)" in answer
    assert run(kit, "status -s a.txt") == "UU a.txt"
    (folder / "a.txt").write_text("solved\n")
    run(kit, "add a.txt")
    assert "Successfully rebased" in run(kit, "rebase --continue")
    assert run(kit, "log --format=%s -2") == "Conflict\nOther"


def test_a_repository_that_does_not_exist_is_an_error_with_the_fix(tmp_path):
    text = git_kit(tmp_path).exec("git_cmd", {"uri": ".", "args": "status"}).text
    assert text.endswith("Pass a folder of a repository, or make one with `init`.")
    assert str(tmp_path) not in text


def test_a_repository_above_the_folders_is_not_used(folder):
    assert "is in no git repository" in run(git_kit(folder / "docs"), "log")


def test_the_answer_is_what_git_says_or_why_it_was_not_asked(kit):
    for uri, args, beginning in (
        (".", "show nope", "ERROR CODE: 128\nMESSAGE: fatal: ambiguous argument 'nope'"),
        (".", "diff --exit-code --name-only", "ERROR CODE: 1\nMESSAGE: docs/b.txt"),
        (".", "--version", "git version"),
        ("a.txt", "log", "'a.txt' is no folder."),
        (".git", "log", "The path is inside of .git."),
        ("docs", "diff --name-only --relative", "b.txt"),
        ("docs", "diff --name-only ../docs/b.txt", "docs/b.txt"),
    ):
        assert run(kit, args, uri).startswith(beginning), args
    for args in ("--max-count 1 --format %s", "--max-count=1 --format=%s", "-n 1 --format=%s", "-1 --format=%s"):
        assert run(kit, f"log {args}") == "Second", args  # values of options are attached, or the next word


def test_a_detached_head_and_a_bare_repository_work(tmp_path, folder):
    kit = git_kit(tmp_path)
    assert "HEAD is now at" in run(kit, "checkout --detach HEAD", uri="work")
    assert kit.call("git_status", {"uri": "work"})["branch"] is None
    git(tmp_path, "clone", "-q", "--bare", str(folder), "bare.git")
    assert run(kit, "log --format=%s -1", uri="bare.git") == "Second"
    assert kit.call("git_log", {"uri": "bare.git"})["commits"][0]["subject"] == "Second"
    assert "ERROR CODE: 128" in run(kit, "status", uri="bare.git")
    run(kit, "init --bare new.git")
    assert (tmp_path / "new.git/HEAD").exists()
    assert "empty folder only" in run(kit, "init --bare bare.git")


def test_work_trees_and_submodules_inside_of_the_folders_work(tmp_path, folder):
    git(folder, "worktree", "add", "-q", str(tmp_path / "second"), "other")
    git(folder, "submodule", "add", "-q", str(folder), "sub")
    kit = git_kit(tmp_path)
    assert kit.call("git_status", {"uri": "second"})["branch"] == "other"
    (tmp_path / "second/a.txt").write_text("x\n")
    assert "1 file changed" in run(kit, "commit -am x", uri="second")
    assert kit.call("git_log", {"uri": "work/sub"})["commits"][0]["subject"] == "Second"
    assert "create mode 160000 sub" in run(kit, "commit -m sub", uri="work")


def test_objects_that_repositories_share_inside_of_the_folders_can_be_used(tmp_path, folder):
    git(tmp_path, "clone", "-q", "--shared", str(folder), "copy")
    assert run(git_kit(tmp_path), "log --format=%s -1", uri="copy") == "Second"
    assert "leads out of the folders" in run(git_kit(tmp_path / "copy"), "log")


def test_a_call_uses_only_its_own_roots(tmp_path):
    make_repository(tmp_path / "one")
    make_repository(tmp_path / "two")
    kit = git_kit(tmp_path).session(roots=[tmp_path / "one"])
    assert run(kit, "log --format=%s -1", uri=str(tmp_path / "one")) == "Second"
    assert kit.exec("git_cmd", {"uri": str(tmp_path / "two"), "args": "log"}).is_error
    assert kit.exec("git_log", {"uri": str(tmp_path / "two")}).is_error


def test_no_repository_is_made_inside_of_the_files_of_another(kit):
    run(kit, "init --bare bare.git")
    for folder in ("--bare .git/hooks/x", ".git/x", "bare.git/hooks", ".GIT/y"):
        assert "cannot be made inside of .git" in run(kit, f"init {folder}")


def test_a_repository_can_be_made_twice_and_not_through_a_file_that_leads_out(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    kit = git_kit(root)
    run(kit, "init -q new/deep", uri=".")
    assert run(kit, "init", uri="new/deep").startswith("Reinitialized existing Git repository")
    (root / "evil").mkdir()
    (root / "evil/.git").write_text(f"gitdir: {tmp_path}/outside.git\n")
    (tmp_path / "outside.git").mkdir()
    assert "leads out of the folders" in run(kit, "init evil")
    assert list((tmp_path / "outside.git").iterdir()) == []
    assert "takes one folder" in run(kit, "init a b")


@pytest.mark.parametrize(("break_it", "text"), [
    (lambda git_dir: (git_dir / "config").write_text("[core\n"), "cannot be read"),
    (lambda git_dir: (git_dir / "objects/info/alternates").write_text("../x\n# comment\n\n../x\n"), "Second"),
    (lambda git_dir: (git_dir / "objects/info/alternates").write_text(MANY), "too many"),
    (lambda git_dir: git_dir.rename(f"{git_dir}x") and git_dir.write_text("gitdir: a.txt\n"), "leads to no folder"),
    (lambda git_dir: git_dir.rename(f"{git_dir}x") and git_dir.write_text("gitdir: .gitx\n"), "Second"),
])  # fmt: skip
def test_a_repository_with_odd_parts_is_read_or_refused_with_the_reason(break_it, text, folder, kit):
    (folder / ".git/objects/info").mkdir(exist_ok=True)
    break_it(folder / ".git")
    assert text in run(kit, "log -1 --format=%s")


def test_a_bare_repository_can_be_changed(tmp_path, folder):
    git(tmp_path, "clone", "-q", "--bare", str(folder), "x.git")
    assert run(git_kit(tmp_path / "x.git"), "branch new other") == "Git command executed successfully with no output."


def test_nothing_is_written_through_a_file_with_two_names(tmp_path, folder, kit):
    (tmp_path / "outside.txt").write_text("x\n")
    os.link(tmp_path / "outside.txt", folder / ".git/FETCH_HEAD")
    assert "'FETCH_HEAD' in .git has several names" in run(kit, "commit -am x")


def test_an_unfinished_rebase_that_runs_programs_is_not_continued(folder, kit):
    (folder / ".git/rebase-merge").mkdir()
    (folder / ".git/rebase-merge/git-rebase-todo").write_text(f"pick 1234 x\n  exec touch {folder}/ran\n")
    assert "would run programs" in run(kit, "rebase --continue")
    assert not (folder / "ran").exists()


def test_the_progress_of_a_command_has_its_last_state(kit):
    run(kit, "commit -am x")
    assert run(kit, "rebase main other") == "Successfully rebased and updated refs/heads/other."


@pytest.fixture
def user(tmp_path, monkeypatch):
    """Return a function that writes the configuration of the user. At first it has nothing, as that of the system."""
    for variable in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL", "CONFIG_GLOBAL"):
        monkeypatch.delenv(f"GIT_{variable}", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return (tmp_path / "home/.gitconfig").write_text


ANN_AND_PROGRAMS = """
[user]
    name = Ann
    email = ann@example.com
[alias]
    commit = "!touch {ran}"
[core]
    hooksPath = {hooks}
    fsmonitor = touch {ran}
[commit]
    gpgSign = true
    template = {hooks}/pre-commit
[merge]
    ff = false
"""


def test_commits_have_the_name_and_address_of_the_user_and_use_nothing_else_of_the_configuration(
    user, tmp_path, folder
):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "pre-commit").chmod(0o755)
    user(ANN_AND_PROGRAMS.format(ran=tmp_path / "ran", hooks=hooks))
    kit = git_kit(folder, author=None)
    assert "1 file changed" in run(kit, "commit -am x")
    assert run(kit, "log -1 --format=%an:%ae:%cn:%ce") == "Ann:ann@example.com:Ann:ann@example.com"
    run(kit, "switch -qc side HEAD~1")
    assert "Fast-forward" in run(kit, "merge main")
    assert not (tmp_path / "ran").exists()


@pytest.mark.exhaustive
def test_whatever_makes_a_commit_or_a_tag_has_an_author(user, folder):
    user("[user]\nname = Ann\nemail = ann@example.com\n")
    kit = git_kit(folder, author=None)
    lines = [
        "stash", "stash pop", "commit -am One", "tag -a v1 -m v1", "merge -m Merge other", "revert --no-edit v1",
        "commit --amend -m Two", "switch -qc side other", "cherry-pick v1", "rebase --onto other~1 other side",
    ]  # fmt: skip
    for line in lines:
        assert "ERROR" not in run(kit, line), line
    assert git(folder, "log", "--all", "--format=%cn", "other..", "^main~3").split() != []
    assert git(folder, "for-each-ref", "--format=%(taggername)", "refs/tags/v1").strip() == "Ann"


def test_the_address_of_the_user_may_depend_on_the_repository(user, tmp_path, folder):
    """Conditional includes of the user count as for git itself."""
    (tmp_path / "work.config").write_text("[user]\nemail = ann@work.example\n")
    condition = f'[includeIf "gitdir:{tmp_path}/work/"]\npath = {tmp_path}/work.config\n'
    user(f"[user]\nname = Ann\nemail = ann@private.example\n{condition}")
    kit = git_kit(folder, author=None)
    run(kit, "commit -am x")
    assert run(kit, "log -1 --format=%ce") == "ann@work.example"


def test_the_repository_and_the_variables_of_the_host_come_before_the_user(user, monkeypatch, folder):
    user("[user]\nname = Ann\nemail = ann@example.com\n")
    git(folder, "config", "user.name", "Carl")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "robot@example.com")
    kit = git_kit(folder, author=None)
    run(kit, "commit -am x")
    assert run(kit, "log -1 --format=%an:%ae:%cn:%ce") == "Carl:ann@example.com:Carl:robot@example.com"


@pytest.mark.usefixtures("user")
def test_a_commit_without_an_author_is_an_error_that_names_no_user(folder):
    kit = git_kit(folder, author=None)
    answer = run(kit, "commit -am x")
    assert "ERROR CODE: 128" in answer
    assert "author=(name, address)" in answer
    assert "user.name and user.email" in answer
    assert os.uname().nodename not in answer
    git(folder, "config", "user.name", "Carl")
    git(folder, "config", "user.email", "carl@example.com")
    run(kit, "commit -am x")
    assert run(kit, "log -1 --format=%an:%cn") == "Carl:Carl"


def test_the_host_decides_which_commands_are_allowed(folder):
    for allow, refused, allowed in (
        ((), ["version"], []),
        (("write",), ["log"], []),
        (
            ("read",),
            ["branch new", "branch -d other", "tag v1", "stash", "clean -f", "add ."],
            ["log", "branch", "branch -a --list x*", "tag -l", "stash list", "clean -n", "version"],
        ),
        (("read", "write"), ["fetch", "clone https://example.com/x.git"], ["add ."]),
    ):
        kit = git_kit(folder, allow=allow)
        assert [args for args in refused + allowed if "is not allowed here" in run(kit, args)] == refused


def test_a_workspace_shares_its_folders_and_a_read_only_one_allows_no_writes(folder):
    assert Git(Workspace(folder)).folders.roots == (folder.resolve(),)
    kit = Toolkit("code").add(Git(Workspace(folder, read_only=True), allow=("read", "write", "remote")))
    assert "`git commit` is not allowed here: it changes repositories." in run(kit, "commit -am x")
    assert run(kit, "log -1 --format=%s") == "Second"


def test_commands_that_lose_work_need_an_approval(folder):
    actions = []
    kit = git_kit(folder, approve=lambda action: actions.append(action) or True)
    lines = [
        "reset --hard", "restore a.txt", "checkout a.txt", "checkout -- docs/b.txt", "checkout -f other",
        "switch -f other", "clean -fd", "stash drop", "stash clear", "branch -D other", "tag -d v1", "rm -f a.txt",
        "checkout HEAD docs/b.txt",
    ]  # fmt: skip
    for line in lines:
        assert kit.exec("git_cmd", {"uri": ".", "args": line}).is_error
    assert [action.details["command"] for action in actions] == [f"git {line}" for line in lines]
    assert {(action.kind, action.is_risky) for action in actions} == {("delete", True)}
    assert (folder / "docs/b.txt").read_text() == "b\nchanged\n"


@pytest.mark.parametrize(("args", "kind"), [
    ("status", "read"), ("add .", "write"), ("commit -am x", "write"), ("checkout -b new", "write"),
    ("restore --staged .", "write"), ("branch -d other", "write"), ("stash", "write"), ("reset", "write"),
])  # fmt: skip
def test_other_commands_need_no_approval_by_default(args, kind, folder):
    actions = []
    kit = git_kit(folder, approve=lambda action: actions.append(action) or False)
    run(kit, args)
    assert [(action.kind, action.is_risky) for action in actions] == [(kind, False)]


def test_an_approver_sees_the_command_and_decides(tmp_path):
    asked = []

    def approver(request):
        asked.append((request.action, dict(request.details or {})))
        return "reset" not in request.action

    folder = make_repository(tmp_path / "work")
    kit = Toolkit("code", approver=approver).add(Git(folder, author=("Bob", "b@example.com")))
    assert kit.exec("git_cmd", {"uri": ".", "args": "reset --hard"}).error.code == "rejected"
    assert (folder / "docs/b.txt").read_text() == "b\nchanged\n"
    run(kit, "restore docs")
    assert (folder / "docs/b.txt").read_text() == "b\n"
    assert asked[0] == (
        "Run `git reset --hard` in '.'", {"folder": ".", "command": "git reset --hard", "addresses": []}
    )  # fmt: skip


def test_long_output_is_cut_and_says_how_to_read_the_rest(folder):
    (folder / "long.txt").write_text("".join(f"{number}\n" for number in range(100_000)))
    kit = git_kit(folder, max_bytes=10_000)
    run(kit, "add -A")
    answer = run(kit, "diff --cached")
    assert len(answer) < 11_000
    assert "bytes left out" in answer
    assert answer.endswith("Read the rest with a narrower command: pass a path, -n, --skip or --stat.")


def test_a_command_that_takes_too_long_is_stopped(folder):
    (folder / ".git/index").unlink()
    os.mkfifo(folder / ".git/index")
    kit = git_kit(folder, timeout=0.5)
    assert "was stopped after 0.5 s" in kit.exec("git_status", {}).text


def test_a_cancelled_command_ends(folder, kit):
    (folder / ".git/index").unlink()
    os.mkfifo(folder / ".git/index")
    result = kit.exec("git_status", {}, timeout=0.3)
    assert result.error.code == "timeout"
    assert not [thread for thread in threading.enumerate() if "git" in thread.name]


def test_credentials_in_addresses_are_not_shown(kit):
    run(kit, "remote add origin https://ann:hunter22@example.com/x.git")
    assert "hunter22" not in run(kit, "remote -v")
    assert "https://***@example.com/x.git" in run(kit, "remote get-url origin")


@pytest.mark.parametrize("options", [
    {"allow": ("reads",)}, {"protocols": ("file",)}, {"sandbox": "jail"},
    {"approve": "sometimes"},
])  # fmt: skip
def test_a_mistake_of_the_host_is_a_definition_error(options, tmp_path):
    with pytest.raises(DefinitionError):
        Git(tmp_path, **options)


def test_a_machine_without_git_is_an_error_for_the_model(tmp_path, monkeypatch, kit):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(kit, "status").startswith("git is not installed")


def test_with_an_author_the_configuration_of_the_user_is_not_read(tmp_path, monkeypatch, kit):
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Secret User\n[alias]\nst = status\n[core]\nexcludesFile = ~/x\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Secret User")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.fsmonitor=/bin/false'")
    run(kit, "commit -am x")
    assert run(kit, "log -1 --format=%an") == "Bob"


def test_the_refusal_of_a_configuration_names_the_key_and_the_repository(tmp_path, folder):
    git(folder, "config", "filter.lfs.clean", "git-lfs clean")
    text = git_kit(tmp_path).exec("git_status", {"uri": "work"}).text
    assert text == (
        "The configuration of the repository 'work' has 'filter.lfs.clean', with which git could run other programs or "
        "reach other places. Git tools work when a person has removed it."
    )


def test_options_of_merge_in_the_configuration_are_refused_by_merge_alone(folder, kit):
    git(folder, "config", "branch.main.mergeOptions", "--no-ff")
    assert kit.call("git_status", {})["branch"] == "main"
    assert "1 file changed" in run(kit, "commit -am x")
    assert "branch.main.mergeoptions" in kit.exec("git_cmd", {"uri": ".", "args": "merge other"}).text


def test_a_git_entry_that_leads_nowhere_is_named(folder, kit):
    (folder / "sub").mkdir()
    (folder / "sub/.git").write_text("nothing")
    assert "'sub' leads to no folder" in kit.exec("git_cmd", {"uri": ".", "args": "add -A"}).text
