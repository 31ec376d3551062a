"""Files that other programs execute or obey later, so that writing one needs an approval.

The rule: a common command (`git`, `python`, `pytest`, `npm`, `cargo`, a shell that enters a folder, an editor
that opens it, a push) executes the file or a program that it names, nobody has named the file, and to edit it is not
the daily work. Source files, scripts and the files that list what a project is made of (pyproject.toml, setup.py,
package.json, Cargo.toml, pom.xml, Makefile, Gemfile, Rakefile, CMakeLists.txt) are not risky. Those of Gradle are:
editors execute them when they open the folder.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_FOLDERS: Final = frozenset({
    # version control: hooks and settings
    ".git", "git~1", ".hg", ".jj", ".bzr", ".husky",
    # what runs after a push
    ".github", ".gitlab", ".gitea", ".forgejo", ".circleci", ".buildkite", ".woodpecker", ".semaphore", ".tekton",
    ".azure-pipelines", ".builds",
    # editors run tasks and servers when a folder is opened
    ".vscode", ".vs", ".idea", ".devcontainer", ".zed", ".fleet", ".nova", ".theia", ".helix", ".emacs.d",
    # settings of agents
    ".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".continue", ".roo", ".clinerules",
    # tools read them in any folder, or in the home folder
    ".cargo", ".bundle", ".yarn", ".mvn", ".gradle", "buildsrc", ".ipython", ".jupyter", ".direnv", ".mise", ".ssh",
    ".gnupg", ".aws", ".kube", ".docker",
    # code that is imported from where it was installed
    "__pycache__", "site-packages", "dist-packages", "node_modules", "sitecustomize", "usercustomize",
    # what the system starts
    "autostart", "systemd", "launchagents", "launchdaemons", "cron.d", "init.d",
})  # fmt: skip
"""A path with one of these parts is risky."""

_NAMES: Final = frozenset({
    # version control; with a file HEAD, a folder is a repository whose settings git obeys
    "head", ".gitmodules", ".gitconfig", ".hgrc", ".pre-commit-config.yaml", ".pre-commit-config.yml",
    ".pre-commit-hooks.yaml", "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", "lefthook-local.yml",
    ".overcommit.yml", ".simple-git-hooks.json", "simple-git-hooks.json",
    # what runs on servers after a push
    ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", ".drone.yml", ".cirrus.yml", ".appveyor.yml", "appveyor.yml",
    "azure-pipelines.yml", "bitbucket-pipelines.yml", "jenkinsfile", ".woodpecker.yml", "codeowners", ".build.yml",
    "buildspec.yml", "cloudbuild.yaml", "cloudbuild.yml", "codemagic.yaml", "bitrise.yml", "netlify.toml",
    "vercel.json", ".readthedocs.yaml", ".readthedocs.yml",
    # test runners, linters and type checkers load the code and the plugins that these name
    "conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", ".coveragerc", ".flake8", ".pylintrc",
    "pylintrc", "mypy.ini", ".mypy.ini", ".rspec", ".rspec-local", ".rubocop.yml", ".simplecov", ".yardopts",
    "phpunit.xml", "phpunit.xml.dist", ".proverc", ".golangci.yml", ".golangci.yaml", ".luacheckrc", "karma.conf.js",
    # builds execute them, or what they name
    "build.rs", "rust-toolchain", "rust-toolchain.toml", "binding.gyp", "gradle.properties",
    "gradle-wrapper.properties", "gradle-wrapper.jar", "gnumakefile", "directory.build.props",
    "directory.build.targets", "directory.build.rsp", "directory.packages.props", "nuget.config", "go.work",
    "gulpfile.js", "gruntfile.js", ".latexmkrc", "latexmkrc", "ansible.cfg", "nodemon.json", "pyvenv.cfg",
    "compose.override.yaml", "compose.override.yml", "docker-compose.override.yaml", "docker-compose.override.yml",
    # package managers and downloaders obey them wherever they run
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", ".pnp.cjs", ".pnp.loader.mjs", "bunfig.toml",
    "pip.conf", "pip.ini", ".pip.conf", "uv.toml", ".pypirc", ".pydistutils.cfg", ".condarc", ".curlrc", ".wgetrc",
    ".bazelrc", ".gemrc", ".netrc",
    # shells and terminals
    ".env", ".envrc", ".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases",
    ".bash_completion", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".xonshrc", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", ".inputrc",
    "config.fish", ".tmux.conf", ".screenrc", ".rvmrc", ".mise.toml", "mise.toml", "profile.ps1",
    "microsoft.powershell_profile.ps1",
    # editors, debuggers and interpreters
    ".vimrc", "_vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".lazy.lua", ".emacs", ".dir-locals.el",
    ".dir-locals-2.el", ".kakrc", ".ycm_extra_conf.py", ".editrc", ".gdbinit", ".gdbearlyinit", ".lldbinit", ".jdbrc",
    ".perldb", ".pdbrc", ".pdbrc.py", ".pythonrc", ".pythonrc.py", "ipython_config.py", ".irbrc", ".pryrc",
    ".rprofile", ".renviron", ".rdata", ".ghci", ".ocamlinit", ".erlang", ".iex.exs", ".octaverc", ".sqliterc",
    ".psqlrc",
    # web servers obey them in any folder
    ".htaccess", ".user.ini", "web.config",
    # instructions and servers of agents
    ".mcp.json", "mcp.json", "agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md",
    ".cursorrules", ".windsurfrules", ".roomodes", ".aider.conf.yml", "copilot-instructions.md",
    # Windows
    "autorun.inf", "desktop.ini",
})  # fmt: skip

_ENDINGS: Final = (
    ".pth", "._pth", ".egg-link", ".pyc", ".pyo", ".gradle", ".gradle.kts", ".code-workspace", ".desktop", ".service",
    ".lnk",
)  # fmt: skip
_FOLDER_ENDINGS: Final = (".git", ".egg-info", ".dist-info")
"""Git uses repository.git without a folder .git. Python's packages load the entry points that the others name."""
_JAVASCRIPT_TOOLS: Final = (
    "astro|babel|commitlint|cypress|eslint|jest|lint-staged|metro|next|nuxt|playwright|postcss|prettier|release|rollup"
    "|stylelint|svelte|tailwind|tsup|vite|vitest|vue|webpack"
)
_PATTERNS: Final = re.compile(
    r"(site|user)customize\..+"
    r"|jupyter_([a-z]+_)?config\.(py|json)"
    rf"|({_JAVASCRIPT_TOOLS})\.(config|workspace)\.[cm]?[jt]s"
    r"|\.(babel|commitlint|eslint|lintstaged|mocha|nyc|postcss|prettier|release|stylelint)rc(\..+)?"
)
_HOOKS: Final = re.compile(r"(pre|post)-[a-z-]+|update|commit-msg|applypatch-msg|prepare-commit-msg|fsmonitor-watchman")


def is_risky(path: str) -> bool:
    """Return whether a path, relative to its root and with /, is such a file.

    Upper case, Unicode forms, and dots and spaces at the end of a name make no difference, as on some file systems.
    """
    *folders, name = [plain for part in path.replace("\\", "/").split("/") if (plain := _to_plain(part))] or [""]
    if name in _NAMES or name.endswith(_ENDINGS) or _PATTERNS.fullmatch(name):
        return True
    if any(part in _FOLDERS or part.endswith(_FOLDER_ENDINGS) for part in (*folders, name)):
        return True
    return folders[-1:] == ["hooks"] and _HOOKS.fullmatch(name) is not None


def _to_plain(part: str) -> str:
    """Return a name as a file system that ignores the most would compare it."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", part).casefold())
    visible = "".join(character for character in folded if unicodedata.category(character) not in {"Cf", "Cc", "Mn"})
    return visible.split(":")[0].rstrip(". ")
