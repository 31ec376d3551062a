"""No argument of a model becomes an option that executes, writes elsewhere or reads elsewhere."""

from __future__ import annotations

import pytest

from ahvn_tools.builtins.git.command_line import SUB_COMMANDS
from tests.builtins.git.repositories import commit_all, git, git_kit, make_repository, run

DANGEROUS = [
    "--output=x", "--outpu=x", "--output x", "-ox", "--output-directory=x", "--upload-pack=x", "--upload-p=x",
    "--exec=x",
    "--receive-pack=x", "--config=a.b=c", "--config-env=a=b", "--git-dir=x", "--work-tree=x", "--no-index",
    "--ext-diff",
    "--textconv", "-Ox", "--open-files-in-pager=x", "--template=x", "--separate-git-dir=x", "--recurse-submodules",
    "--exec-path=x", "--file=x", "--pathspec-from-file=x", "--contents=x", "--interactive", "--patch-with", "--stdin",
    "--batch", "--filters", "--gpg-sign=x", "--local-user=x", "--edit", "--strategy=x", "--reference=x", "--trailer=x",
    "--ignore-revs-file=x", "--orderfile=x", "--show-signature", "--submodule=log", "--namespace=x", "--help", "-h=1",
    "--end-of-options", "--server-option=x", "--push-option=x", "--super-prefix=x", "--paginate",
    "--bundle-uri=x", "-\x00",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("git") / "work")


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in {"diff", "add", "commit", "fetch"} else pytest.mark.exhaustive)
    for name in SUB_COMMANDS
])  # fmt: skip
def test_dangerous_options_of_a_sub_command_are_refused(name, folder):
    kit = git_kit(folder, allow=("read", "write", "remote"))
    for option in DANGEROUS:
        for args in (f"{name} {option}", f"git {name} HEAD {option}", f"{name} -q{option[1:]}"):
            result = kit.exec("git_cmd", {"uri": ".", "args": args})
            assert result.is_error, args
    assert not (folder / "x").exists()


BEFORE_THE_SUB_COMMAND = [
    "-c core.pager=x log", "-C docs status", "--git-dir=x log", "--work-tree=/ add -A", "--exec-path=/tmp log",
    "-p log", "--paginate log", "--config-env=a=b log", "--bare log", "--namespace=x log", "--list-cmds=main",
    "--html-path", "-v",
]  # fmt: skip
OTHER_SUB_COMMANDS = [
    "config", "grep", "apply", "am", "submodule", "worktree", "filter-branch", "bisect", "archive", "bundle", "daemon",
    "difftool", "mergetool", "send-email", "fast-import", "hash-object", "update-index", "update-ref",
    "update-server-info", "upload-pack", "receive-pack", "shell", "instaweb", "gui", "notes", "maintenance", "gc",
    "fsck", "replace", "help", "credential", "diff-files", "for-each-repo", "format-patch", "remote-ext", "lfs",
    "stash store", "remote update", "remote show", "reflog expire", "st", "Status", "./status", "stash pop x y",
]  # fmt: skip
FOR_A_SHELL = [
    "status; touch x", "status && touch x", "status | tee x", "status > x", "status `touch x`", "status $(touch x)",
    "status & touch x", "status\ntouch x", "log 2>&1", "add -A && git commit -m x",
]  # fmt: skip
NOT_PARSED = ["", "git", "   ", "commit -m 'x", "log -n", "commit -m", "commit -m ''", "log --graph=x"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (BEFORE_THE_SUB_COMMAND, "Begin with a sub-command"),
        ([f"{name} --all" for name in OTHER_SUB_COMMANDS], "cannot be used"),
        (FOR_A_SHELL[-1:], "no shell runs this command"),
        (NOT_PARSED, ""),
    ],
    ids=["options before it", "other sub-commands", "syntax of shells", "not parsed"],
)
def test_what_is_no_command_of_git_is_refused_with_the_fix(lines, reason, folder):
    kit = git_kit(folder, allow=("read", "write", "remote"))
    for line in lines:
        result = kit.exec("git_cmd", {"uri": ".", "args": line})
        assert result.is_error, line
        assert reason in result.text, line
        assert result.text.rstrip().endswith((".", "`.", "?")), line


def test_no_shell_runs_a_command(folder):
    for line in FOR_A_SHELL:
        run(git_kit(folder), line)
    assert not (folder / "x").exists()


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """A repository with a link to the folder above it, where another file is."""
    above = tmp_path_factory.mktemp("above")
    (above / "outside.txt").write_text("OUTSIDE\n")
    folder = make_repository(above / "work")
    (folder / "out").symlink_to(above)
    commit_all(folder, "With a link")
    return folder


@pytest.mark.parametrize(
    "command", ["diff a.txt", "diff", "diff --", "blame", "log --", "mv a.txt", "add", "rm", "show"]
)
def test_paths_outside_of_the_folders_are_refused(command, linked):
    paths = [
        "/etc/passwd",
        "../outside.txt",
        "docs/../../outside.txt",
        "out/outside.txt",
        "out/",
        "x:/../../outside.txt",
    ]
    for path in [*paths, ":(top)x/../../../outside.txt"]:
        result = git_kit(linked).exec("git_cmd", {"uri": ".", "args": f"{command} {path}"})
        assert result.is_error, path
        assert "OUTSIDE" not in result.text
        assert "passwd:" not in result.text
    assert (linked.parent / "outside.txt").exists()
    assert (linked / "a.txt").exists()


def test_the_value_of_an_option_is_never_an_option(tmp_path):
    folder = make_repository(tmp_path / "work")
    kit = git_kit(folder)
    assert "1 file changed" in run(kit, "commit -a -m --output=x")
    assert run(kit, "log -1 --format=%s") == "--output=x"
    assert "ERROR CODE" in run(kit, "branch -f --track=--output=x y")
    assert not (folder / "x").exists()


@pytest.mark.exhaustive
def test_names_that_look_like_options_are_names(tmp_path):
    folder = make_repository(tmp_path / "work")
    kit = git_kit(folder)
    for name in ("-Ofile", "--output=x", "--", "-"):
        (folder / name).write_text("content\n")
    assert run(kit, "add -- -Ofile --output=x -- -").startswith("Git command executed")
    assert "4 files changed" in run(kit, 'commit -m "Odd names"')
    for name in ("-Ofile", "--output=x", "--", "-"):
        assert kit.call("git_log", {"uri": name})["commits"][0]["subject"] == "Odd names"
        assert [file["path"] for file in kit.call("git_show", {"uri": name})["diff"]["files"]] == [name]
    assert not (folder / "x").exists()


@pytest.mark.parametrize(
    "revision", ["--output=x", "-p", "--all", "--exec=x", "-", "--", "HEAD --output=x", "^HEAD", "HEAD\n", ""]
)
@pytest.mark.default_cases(3)
def test_a_revision_of_a_tool_is_never_an_option(revision, folder):
    kit = git_kit(folder)
    for name, arguments in (("git_log", {}), ("git_diff", {}), ("git_show", {})):
        result = kit.exec(name, {**arguments, "revision": revision})
        assert result.is_error or revision in ("", "HEAD\n"), (name, revision)
        assert "There is no commit" in result.text or not result.is_error
    assert not (folder / "x").exists()


def test_a_branch_that_is_named_like_an_option_is_a_branch(tmp_path):
    folder = make_repository(tmp_path / "work")
    git(folder, "update-ref", "refs/heads/--output=x", "HEAD")
    assert git_kit(folder).call("git_log", {"revision": "--output=x"})["commits"][0]["subject"] == "Second"
    assert not (folder / "x").exists()


@pytest.mark.parametrize("uri", ["--", "--output=x", "-O", "nope", "a.txt", "..", "/", "", "\0", "file:///etc"])
def test_a_folder_that_is_none_is_an_error(uri, folder):
    result = git_kit(folder).exec("git_cmd", {"uri": uri, "args": "status"})
    assert result.is_error
    assert "/etc" not in result.text
