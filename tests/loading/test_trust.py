"""`trust=` limits what may be imported and started, whatever kind of source asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ahvn_tools.errors import SourceError
from ahvn_tools.loading.trust import Trust
from ahvn_tools.manifest import load

TOOL = "from ahvn_tools import tool\n@tool\ndef greet() -> str: return 'hello'\n"


def test_without_a_list_everything_that_a_source_names_may_run(tmp_path):
    trust = Trust()
    trust.require_module("acme")
    trust.require_file(tmp_path)
    trust.require_program("npx")
    trust.require_code()


def test_nothing_may_run_with_an_empty_list(write, tmp_path):
    write(TOOL)
    write(TOOL, "folder/hut.py")
    write('{"mcpServers": {"a": {"command": "python", "args": ["-c", ""]}}}', "mcp.json")
    write("kind: function\nfunction: shed.py:greet", "tool.yaml")
    write("kind: mcp\ncommand: python -c 1", "server.yaml")
    sources = ["shed.py", "shed", "shed.py:greet", "colorsys", "mcp:shed.py", "python -c 1", "mcp.json", "tool.yaml"]
    for source in [*sources, "server.yaml", "def f():\n  pass", {"mcpServers": {"a": {"command": "python"}}}]:
        with pytest.raises(SourceError, match=r"is not trusted: add .+ to trust=\[…\], or remove the source"):
            load(source, trust=[])
    kit = load("folder", trust=[])
    assert (len(kit), [error.file for error in kit.load_errors]) == (0, ["folder/hut.py"])


@pytest.mark.parametrize(
    ("pattern", "is_trusted"),
    [
        ("shed.py", True),
        (Path("shed.py"), True),
        (".", True),
        ("*.py", True),
        ("*", True),
        ("hut.py", False),
        ("she", False),
        ("shed", False),
        ("<code>", False),
    ],
)
def test_files_are_trusted_by_path_by_folder_or_by_pattern(pattern, is_trusted, tmp_path):
    for file in (Path("shed.py"), tmp_path / "shed.py", Path("x/../shed.py")):
        if is_trusted:
            Trust([pattern]).require_file(file)
        else:
            with pytest.raises(SourceError):
                Trust([pattern]).require_file(file)


def test_a_link_counts_as_the_file_that_it_leads_to(write, tmp_path):
    write(TOOL, "outside/hut.py")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/link.py").symlink_to(tmp_path / "outside/hut.py")
    with pytest.raises(SourceError, match="is not trusted"):
        load("inside/link.py", trust=["inside"])


def test_the_packages_of_a_file_must_be_trusted_too(write):
    write("", "house/__init__.py")
    write(TOOL, "house/hall.py")
    with pytest.raises(SourceError, match=r"__init__.py' is not trusted"):
        load("house/hall.py", trust=["house/hall.py"])
    assert len(load("house/hall.py", trust=["house"])) == 1


@pytest.mark.parametrize(
    ("pattern", "name", "is_trusted"),
    [
        ("acme", "acme", True),
        ("acme", "acme.tools", False),
        ("acme.*", "acme.tools", True),
        ("acme.*", "acme", False),
        ("acme*", "acmeevil", True),
        ("Acme", "acme", False),
    ],
)
def test_modules_are_trusted_by_name_or_pattern(pattern, name, is_trusted):
    if is_trusted:
        Trust([pattern]).require_module(name)
    else:
        with pytest.raises(SourceError):
            Trust([pattern]).require_module(name)


def test_a_program_in_a_folder_is_not_trusted_by_its_name():
    trust = Trust(["npx", "bin/run"])
    trust.require_program("npx")
    trust.require_program("./bin/run")
    with pytest.raises(SourceError):
        trust.require_program("./npx")


def test_code_is_trusted_by_a_pattern_of_its_own():
    assert len(load("def f():\n  pass", trust=["<code>"])) == 1


def test_one_text_is_one_pattern():
    Trust("shed.py").require_file(Path("shed.py"))


@pytest.mark.parametrize("pattern", ["", "  ", 3, b"x"])
def test_a_pattern_that_is_no_text_is_refused(pattern):
    with pytest.raises(SourceError, match="trust= lists modules, files, folders and programs as texts; "):
        Trust([pattern])
