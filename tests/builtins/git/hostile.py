"""Hostile repositories: each makes plain git execute a program, write outside, or show what lies outside."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.builtins.git.repositories import commit_all, git, make_repository

MARK = "HOSTILE-PROGRAM-RAN"
SECRET = "OUTSIDE-SECRET-7"


@dataclass
class Hostile:
    """One repository in `root`, and what must stay as it is in `outside`."""

    base: Path
    root: Path = field(init=False)
    outside: Path = field(init=False)

    def __post_init__(self) -> None:
        self.root, self.outside = self.base / "root", self.base / "outside"
        make_repository(self.root)
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(f"{SECRET}\n")
        self.program = self.root / "program.sh"
        self.program.write_text(f"#!/bin/sh\necho {MARK[:8]}''{MARK[8:]} >&2\ntouch {self.base}/ran {self.root}/ran\n")
        self.program.chmod(0o755)

    def config(self, key: str, value: str, *, file: str | None = None) -> None:
        git(self.root, "config", *(["--file", file] if file else []), "--add", key, value)

    def attributes(self, text: str) -> None:
        (self.root / ".gitattributes").write_text(text)

    def hook(self, name: str, folder: str = ".git/hooks") -> None:
        path = self.root / folder / name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(self.program, path)

    def outside_repository(self) -> str:
        """Make a repository outside, and return the hash of its commit, whose file has the secret."""
        git(self.outside, "init", "-q", "-b", "main")
        return commit_all(self.outside, f"Commit of {SECRET}")

    def has_run(self) -> bool:
        return (self.base / "ran").exists() or (self.root / "ran").exists()

    def state_outside(self) -> dict[str, tuple[bytes, int]]:
        """Return what lies outside: content and number of names of each file."""
        files = [path for path in sorted(self.outside.rglob("*")) if path.is_file()]
        return {str(path.relative_to(self.outside)): (path.read_bytes(), path.stat().st_nlink) for path in files}


Attack = Callable[[Hostile], None]
ATTACKS: dict[str, tuple[Attack, tuple[str, ...]]] = {}
"""By name: what makes a repository hostile, and commands with which plain git falls for it."""


def attack(*lines: str) -> Callable[[Attack], Attack]:
    def add(function: Attack) -> Attack:
        ATTACKS[function.__name__] = function, lines
        return function

    return add


CONFIGURED: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "fsmonitor": (("status",), {"core.fsmonitor": "{program}"}),
    "external_diff": (("diff",), {"diff.external": "{program}"}),
    "diff_driver": (("diff",), {"diff.evil.command": "{program}", "*.txt": "diff=evil"}),
    "textconv": (("diff", "log -p"), {"diff.evil.textconv": "{program}", "*.txt": "diff=evil"}),
    "filter_clean": (("add -A",), {"filter.evil.clean": "{program}", "*.txt": "filter=evil"}),
    "filter_smudge": (("checkout -f HEAD~1",), {"filter.evil.smudge": "{program}", "*.txt": "filter=evil"}),
    "filter_process": (("add -A",), {"filter.evil.process": "{program}", "*.txt": "filter=evil"}),
    "filter_of_two_dots": (
        ("add -A",),
        {"filter.Ev.i l.CLEAN": "{program}", "filter.Ev.i.CLEAN": "{program}", "*.txt": "filter=Ev.i"},
    ),
    "signing_program": (
        ("commit -am x",), {"gpg.program": "{program}", "commit.gpgSign": "true", "tag.gpgSign": "true"},
    ),
    "ssh_command": (
        ("fetch host",), {"core.sshCommand": "{program}", "remote.host.url": "ssh://localhost:1/x.git"},
    ),
    "editor": (("commit -a -e -m x",), {"core.editor": "{program}"}),
    "credential_helper": ((), {
        "credential.helper": "!{program}", "credential.http://127.0.0.1.helper": "!{program}",
        "remote.origin.url": "http://127.0.0.1:1/x.git",
    }),
    "work_tree_outside": (("add -A", "diff --cached"), {"core.worktree": "{outside}"}),
    "helper_address": (("fetch evil",), {
        "remote.evil.url": "ext::{program} %S", "remote.evil.pushurl": "ext::{program} %S",
        "protocol.ext.allow": "always", "branch.main.remote": "evil",
    }),
    "upload_program": (("fetch near",), {
        "remote.near.url": "{root}", "remote.near.uploadpack": "{program}", "remote.near.receivepack": "{program}",
        "branch.main.remote": "near",
    }),
    "rewritten_address": (
        ("fetch https://example.com/x.git",),
        {"url.ext::{program} %S .insteadOf": "https://", "protocol.ext.allow": "always"},
    ),
    "merge_driver": (("merge --no-edit other",), {"merge.evil.driver": "{program} %A", "*.txt": "merge=evil"}),
    "ignored_revisions_outside": (("blame a.txt",), {"blame.ignoreRevsFile": "{outside}/secret.txt"}),
    "template_outside": (
        ("-c core.editor=: commit -q --allow-empty --allow-empty-message", "log -1"),
        {"commit.template": "{outside}/secret.txt"},
    ),
    "ignored_names_outside": (
        ("check-ignore -v OUTSIDE-SECRET-7",),
        dict.fromkeys(("core.excludesFile", "core.attributesFile", "mailmap.file"), "{outside}/secret.txt"),
    ),
    "trailer_program": (("commit --allow-empty -m x --trailer evil=1",), {"trailer.evil.command": "{program}"}),
    "archive_program": (("archive --format=evil HEAD",), {"tar.evil.command": "{program}"}),
}  # fmt: skip
"""Attacks that are keys of the configuration, and attributes of files (`*.txt`) that use them."""


def configure(it, settings):
    places = {"program": it.program, "outside": it.outside, "root": it.root}
    for key, value in settings.items():
        if key.startswith("*"):
            it.attributes(f"{key} {value}\n")
        else:
            it.config(key.format(**places), value.format(**places))


ATTACKS.update({
    name: (functools.partial(configure, settings=settings), lines) for name, (lines, settings) in CONFIGURED.items()
})  # fmt: skip


@attack("merge other --no-ff", "log -1")
def merge_options(it):
    git(it.root, "stash")
    it.config("branch.main.mergeOptions", f"-F {it.outside / 'secret.txt'}")


@attack("commit -am x")
def hook_pre_commit(it):
    it.hook("pre-commit")


@attack("checkout -f other")
def hook_post_checkout(it):
    it.hook("post-checkout")


@attack("branch new")
def hook_reference_transaction(it):
    it.hook("reference-transaction")


@attack("add -A")
def hook_post_index_change(it):
    it.hook("post-index-change")


@attack("commit -am x")
def hooks_of_the_tree(it):
    for name in (
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "post-merge",
        "pre-rebase",
        "post-rewrite",
        "pre-push",
    ):
        it.hook(name, ".githooks")
    it.config("core.hooksPath", ".githooks")


@attack("log")
def signature_check(it):
    lines = git(it.root, "cat-file", "commit", "HEAD").split("\n\n", 1)
    signed = f"{lines[0]}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{lines[1]}"
    commit = git(it.root, "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed).strip()
    git(it.root, "update-ref", "refs/heads/main", commit)
    it.config("log.showSignature", "true")
    for key in ("gpg.program", "gpg.openpgp.program", "gpg.ssh.program", "gpg.x509.program"):
        it.config(key, str(it.program))


@attack("st")
def alias(it):
    it.config("alias.st", f"!{it.program}")
    for name in ("status", "log", "add", "grep", "config"):
        it.config(f"alias.{name}", f"!{it.program}")


@attack("rebase -i HEAD~1")
def editors(it):
    git(it.root, "checkout", "-q", "docs/b.txt")
    for key in (
        "core.editor",
        "sequence.editor",
        "core.pager",
        "pager.log",
        "pager.status",
        "pager.diff",
        "core.askPass",
    ):
        it.config(key, str(it.program))


@attack("status")
def include(it):
    (it.root / "more.config").write_text(f'[core]\nfsmonitor = "{it.program}"\n')
    it.config("include.path", "../more.config")


@attack("status")
def conditional_include(it):
    (it.root / "more.config").write_text(f'[core]\nfsmonitor = "{it.program}"\n[filter "x"]\nclean = "{it.program}"\n')
    it.config("includeIf.gitdir:**.path", "../more.config")


@attack("add -A")
def work_tree_configuration(it):
    it.config("extensions.worktreeConfig", "true")
    it.config("filter.evil.clean", str(it.program), file=".git/config.worktree")
    it.attributes("*.txt filter=evil\n")


@attack("-c protocol.ext.allow=always submodule update --init")
def submodule_with_helper(it):
    (it.root / ".gitmodules").write_text(f'[submodule "s"]\npath = s\nurl = "ext::{it.program}"\n')
    it.config("submodule.s.update", f"!{it.program}")
    git(it.root, "update-index", "--add", "--cacheinfo", f"160000,{git(it.root, 'rev-parse', 'HEAD').strip()},s")


@attack("status", "add -u")
def submodule_with_filter(it):
    make_repository(it.root / "sub")
    git(it.root / "sub", "config", "filter.evil.clean", str(it.program))
    git(it.root / "sub", "config", "core.fsmonitor", str(it.program))
    (it.root / "sub/.gitattributes").write_text("*.txt filter=evil\n")
    (it.root / ".gitmodules").write_text('[submodule "s"]\npath = sub\nurl = ./x\nignore = none\n')
    git(
        it.root,
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{git(it.root / 'sub', 'rev-parse', 'HEAD').strip()},sub",
    )


@attack("log -p")
def git_file_that_leads_out(it):
    it.outside_repository()
    shutil.rmtree(it.root / ".git")
    (it.root / ".git").write_text("gitdir: ../outside/.git\n")


@attack("log -p")
def git_link_that_leads_out(it):
    it.outside_repository()
    shutil.rmtree(it.root / ".git")
    (it.root / ".git").symlink_to("../outside/.git")


@attack("log -p --all")
def common_folder_outside(it):
    it.outside_repository()
    (it.root / ".git/commondir").write_text("../../outside/.git\n")


@attack("log -p taken")
def objects_of_another(it):
    commit = it.outside_repository()
    (it.root / ".git/objects/info").mkdir(exist_ok=True)
    (it.root / ".git/objects/info/alternates").write_text(f"{it.outside}/.git/objects\n")
    (it.root / ".git/refs/heads/taken").write_text(f"{commit}\n")


@attack("log -p taken")
def object_folder_that_leads_out(it):
    commit = it.outside_repository()
    for path in (it.outside / ".git/objects").glob("??"):
        mine = it.root / ".git/objects" / path.name
        if not mine.exists():
            mine.symlink_to(path)
        else:
            for name in path.iterdir():
                (mine / name.name).symlink_to(name)
    (it.root / ".git/refs/heads/taken").write_text(f"{commit}\n")


@attack("show HEAD:docs/b.txt")
def missing_objects(it):
    it.config("remote.near.url", str(it.root))
    it.config("remote.near.promisor", "true")
    it.config("remote.near.partialclonefilter", "blob:none")
    it.config("remote.near.uploadpack", str(it.program))
    it.config("core.repositoryFormatVersion", "1")
    it.config("extensions.partialClone", "near")
    blob = git(it.root, "rev-parse", "HEAD:docs/b.txt").strip()
    (it.root / ".git/objects" / blob[:2] / blob[2:]).unlink()


@attack("commit -m x --allow-empty")
def message_link(it):
    (it.root / ".git/COMMIT_EDITMSG").unlink(missing_ok=True)
    (it.root / ".git/COMMIT_EDITMSG").symlink_to(it.outside / "secret.txt")


@attack("commit -m x --allow-empty")
def message_with_two_names(it):
    (it.root / ".git/COMMIT_EDITMSG").unlink(missing_ok=True)
    os.link(it.outside / "secret.txt", it.root / ".git/COMMIT_EDITMSG")


@attack("add -A")
def index_link(it):
    shutil.move(it.root / ".git/index", it.outside / "index")
    (it.root / ".git/index").symlink_to(it.outside / "index")


@attack("commit -m x --allow-empty")
def log_link(it):
    (it.root / ".git/logs/HEAD").unlink()
    (it.root / ".git/logs/HEAD").symlink_to(it.outside / "secret.txt")


@attack("rebase --continue")
def unfinished_rebase(it):
    git(it.root, "checkout", "-q", "docs/b.txt")
    git(it.root, "rebase", "-q", "-x", "false", "HEAD~1", check=False)
    todo = it.root / ".git/rebase-merge/git-rebase-todo"
    todo.write_text(f"exec {it.program}\n{todo.read_text()}")


@attack("blame links/secret.txt", "mv a.txt links/")
def folder_link_in_the_tree(it):
    (it.root / "links").mkdir()
    (it.root / "links/secret.txt").write_text("plain\n")
    commit_all(it.root, "With a folder")
    shutil.rmtree(it.root / "links")
    (it.root / "links").symlink_to(it.outside)


@attack("-C bare.git status", "-C bare.git --work-tree=. status")
def bare_repository_in_the_tree(it):
    git(it.root, "init", "-q", "--bare", "bare.git")
    it.config("core.bare", "false", file="bare.git/config")
    it.config("core.worktree", "..", file="bare.git/config")
    it.config("core.fsmonitor", str(it.program), file="bare.git/config")
    it.config("filter.evil.clean", str(it.program), file="bare.git/config")


@attack("difftool -y --tool=evil", "mergetool -y")
def tools(it):
    for kind in ("difftool", "mergetool", "browser", "man", "guitool"):
        it.config(f"{kind}.evil.cmd", str(it.program))
    it.config("diff.tool", "evil")


@attack()
def configuration_that_blocks(it):
    (it.root / ".git/config").unlink()
    os.mkfifo(it.root / ".git/config")


@attack()
def git_file_that_blocks(it):
    shutil.rmtree(it.root / ".git")
    os.mkfifo(it.root / ".git")
