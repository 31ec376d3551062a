"""Risky paths: files that run or are obeyed although nobody names them."""

from __future__ import annotations

import pytest

from ahvn_tools.builtins.files.risky_paths import is_risky

RISKY = """
.git .git/config .git/hooks/pre-commit sub/.git/HEAD .GIT/config .Git/hooks/post-checkout worktree/.git
.git/worktrees/x/gitdir repository.git/config repository.git/hooks/update vendor/repository.GIT/config hooks/pre-push
.hg/hgrc .gitmodules .gitconfig .hgrc .pre-commit-config.yaml .husky/pre-commit lefthook.yml
.github/workflows/ci.yml .github/copilot-instructions.md .gitlab-ci.yml .circleci/config.yml Jenkinsfile
azure-pipelines.yml conftest.py tests/unit/conftest.py CONFTEST.PY sitecustomize.py lib/usercustomize.py x.pth
lib/evil.PTH pkg/__pycache__/mod.cpython-311.pyc mod.pyc venv/lib/python3.11/site-packages/x.py .envrc .bashrc
.zshenv .profile home/.bash_profile .config/fish/config.fish .vscode/tasks.json .idea/workspace.xml x.code-workspace
.devcontainer/devcontainer.json .mcp.json .cursor/mcp.json AGENTS.md sub/AGENTS.md CLAUDE.md claude.local.md GEMINI.md
.claude/settings.json .cursorrules .npmrc .yarnrc.yml .pnpmfile.cjs .cargo/config.toml pip.conf .ssh/authorized_keys
.config/autostart/x.desktop .gdbinit .vimrc .emacs .dir-locals.el .inputrc autorun.inf GIT~1/config
.git./config vendor/x/HEAD .git.../config conftest.py. .git::$INDEX_ALLOCATION/config .git\\config sub\\conftest.py
sitecustomize/__init__.py lib/usercustomize/run.py sitecustomize.cpython-311-x86_64-linux-gnu.so usercustomize.pyc
python311._pth x.egg-link plugin.egg-info/entry_points.txt plugin.dist-info/entry_points.txt pyvenv.cfg
pytest.ini .pytest.ini tox.ini setup.cfg SETUP.CFG .coveragerc .flake8 .pylintrc mypy.ini .rspec .rspec-local
.rubocop.yml phpunit.xml build.rs crates/x/build.rs rust-toolchain.toml binding.gyp build.gradle app/build.gradle.kts
settings.gradle.kts init.gradle gradle.properties gradle/wrapper/gradle-wrapper.properties buildSrc/src/main/x.kt
GNUmakefile Directory.Build.props go.work compose.override.yaml docker-compose.override.yml .env .yarnrc .pnp.cjs
bunfig.toml uv.toml node_modules/.bin/tool eslint.config.mjs .eslintrc .eslintrc.json .prettierrc.cjs jest.config.ts
vite.config.js vitest.workspace.ts webpack.config.cjs babel.config.js .babelrc tailwind.config.js postcss.config.cjs
.mocharc.yml gulpfile.js karma.conf.js jupyter_server_config.py .pdbrc .ghci .latexmkrc .htaccess .helix/languages.toml
.gitea/workflows/x.yml ansible.cfg .aws/config .kube/config
"""

UNICODE_FORMS = {
    "space at the end": ".git /config",
    "dots and spaces at the end": "conftest.py. . ",
    "zero width": ".g\u200cit/config",
    "full width": "\uff0egit/config",
    "long s": "conftest.py".replace("s", "\u017f"),
    "kelvin": ".husKy/pre-commit".replace("K", "\u212a"),
    "mark": ".git\ufe0f/config",
    "direction mark": ".\u202egit/config",
}

HARMLESS = """
a.txt header.h src/main.py pyproject.toml setup.py Makefile package.json README.md docs/agents.html .gitignore
.gitattributes .editorconfig .env.example git/config github/x.yml digit/x my.gitter x.pth.txt test_conftest.py
conftest.pyx hooks/useState.ts hooks/index.js .python-version Dockerfile user.service.ts desktop.py path/to/x.py
Cargo.toml Cargo.lock pom.xml Gemfile Rakefile CMakeLists.txt Dockerfile compose.yaml go.mod requirements.txt noxfile.py
tasks.py justfile setup.cfg.txt src/build.rs.md src/app.config.ts config.js site.config.ts tsconfig.json ruff.toml
src/customize.py sitecustomize_test.py test_pytest.ini.py env.py gradle.md .env.example .eslintignore .prettierignore
docs/jest.config.md vite.config.test.ts egg-info.txt hooks/usePreCommit.ts
"""


def test_these_are_risky():
    assert [path for path in RISKY.split() if not is_risky(path)] == []


@pytest.mark.parametrize("path", UNICODE_FORMS.values(), ids=[name.replace(" ", "_") for name in UNICODE_FORMS])
def test_other_ways_to_write_a_name_are_risky(path):
    assert is_risky(path)


def test_every_day_files_are_not_risky():
    assert [path for path in HARMLESS.split() if is_risky(path)] == []


@pytest.mark.parametrize("path", ["", "/", ".", "..", "./", "\0"], ids=repr)
def test_any_text_has_an_answer(path):
    assert not is_risky(path)
