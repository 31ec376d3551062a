"""Files that other programs execute or obey later, so that writing one needs an approval."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_FOLDERS: Final = frozenset({
    ".git", "git~1", ".hg", ".jj", ".bzr",  # hooks and settings of version control
    ".github", ".gitlab", ".circleci", ".buildkite", ".woodpecker", ".husky",  # what runs after a push or at a commit
    ".vscode", ".idea", ".devcontainer", ".zed", ".fleet",  # editors run tasks when a folder is opened
    ".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".continue", ".roo", ".clinerules",  # settings of agents
    ".cargo", ".bundle", ".yarn", ".mvn", ".ipython", ".jupyter", ".direnv", ".mise",  # tools read them in any folder
    ".ssh", ".gnupg", "__pycache__", "autostart", "systemd", "site-packages", "dist-packages",
})  # fmt: skip
"""A path with one of these parts is risky."""

_NAMES: Final = frozenset({
    # Python runs them at its start or when tests are collected
    "conftest.py", "sitecustomize.py", "usercustomize.py",
    # version control; with a file HEAD, a folder is a repository whose settings git obeys
    "head", ".gitmodules", ".gitconfig", ".hgrc", ".pre-commit-config.yaml", ".pre-commit-config.yml",
    "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml",
    # what runs on servers after a push
    ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", ".drone.yml", ".cirrus.yml", ".appveyor.yml", "appveyor.yml",
    "azure-pipelines.yml", "bitbucket-pipelines.yml", "jenkinsfile", ".woodpecker.yml", "codeowners",
    # shells, terminals and debuggers
    ".envrc", ".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".zshrc",
    ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".xprofile",
    ".xinitrc", ".xsession", ".inputrc", "config.fish", ".tmux.conf", ".screenrc", ".gdbinit", ".lldbinit",
    ".rvmrc", ".mise.toml", "mise.toml",
    # editors and interpreters
    ".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs", ".dir-locals.el", ".editrc", ".irbrc", ".pryrc", ".rprofile",
    # package managers and build tools that obey a file wherever they run
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", "pip.conf", "pip.ini", ".pip.conf",
    ".condarc", ".curlrc", ".wgetrc", ".bazelrc", ".gemrc", ".netrc",
    # instructions and servers of agents
    ".mcp.json", "mcp.json", "agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md",
    ".cursorrules", ".windsurfrules", ".roomodes", ".aider.conf.yml", "copilot-instructions.md",
    # Windows
    "autorun.inf", "desktop.ini",
})  # fmt: skip

_ENDINGS: Final = (".pth", ".pyc", ".pyo", ".code-workspace", ".desktop", ".service", ".lnk")
_HOOKS: Final = re.compile(r"(pre|post)-[a-z-]+|update|commit-msg|applypatch-msg|prepare-commit-msg|fsmonitor-watchman")


def is_risky(path: str) -> bool:
    """Return whether a path, relative to its root and with /, is such a file.

    These are files that nobody has to name: hooks and settings of version control, of editors, shells and package
    managers, pipelines that run after a push, modules that Python imports by itself, instructions of agents. Source
    files, build files (pyproject.toml, setup.py, package.json, Makefile) and scripts are not: somebody runs them on
    purpose, and editing them is the daily work. Upper case, Unicode forms, and dots and spaces at the end of a name
    make no difference, as on some file systems.
    """
    *folders, name = [plain for part in path.replace("\\", "/").split("/") if (plain := _to_plain(part))] or [""]
    if name in _NAMES or name.endswith(_ENDINGS):
        return True
    if any(part in _FOLDERS or part.endswith(".git") for part in (*folders, name)):
        return True  # also repository.git, which git uses without a folder .git
    return folders[-1:] == ["hooks"] and _HOOKS.fullmatch(name) is not None


def _to_plain(part: str) -> str:
    """Return a name as a file system that ignores the most would compare it."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", part).casefold())
    visible = "".join(character for character in folded if unicodedata.category(character) not in {"Cf", "Cc", "Mn"})
    return visible.split(":")[0].rstrip(". ")
