"""Walks: which files they find, in which order, and what they survive."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess

import pytest

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.errors import CallCancelledError, ToolError
from tests.builtins.files.place import within

NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def root(tmp_path):
    return tmp_path.resolve()


@pytest.fixture
def folders(root):
    return ConfinedFolders(root)


def write(root, *paths):
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)


def paths_of(files):
    return [file.path for file in files]


class TestFiles:
    def test_files_are_sorted_by_path(self, folders, root):
        write(root, "b.txt", "a/b", "a.txt", "a-b", "a0", "a/a/a", "A", "ä")
        found = list(walk(folders, "."))
        assert paths_of(found) == sorted(["b.txt", "a/b", "a.txt", "a-b", "a0", "a/a/a", "A", "ä"])
        assert found[0].size == 1

    def test_paths_are_relative_to_the_folder_of_the_walk(self, folders, root):
        write(root, "x/y/z.txt")
        for folder in ("x", "x/", "./x", str(root / "x"), f"file://{root}/x"):
            assert paths_of(walk(folders, folder)) == ["y/z.txt"]

    def test_links_and_what_is_no_file_are_left_out(self, base):
        found = paths_of(walk(ConfinedFolders(base / "root"), "."))
        assert found == ["a.txt", "giant", "hard", "sub/b.txt", "sub/deep/c.txt"]

    def test_a_folder_that_is_named_by_a_link_is_walked(self, folders, root):
        write(root, "x/a.txt")
        (root / "link").symlink_to("x")
        assert paths_of(walk(folders, "link")) == ["a.txt"]

    def test_hidden_files_are_left_out_unless_asked_for(self, folders, root):
        write(root, ".env", ".config/x", "a/.b/c", "a/d", ".git/config", "a/.git", ".x")
        assert paths_of(walk(folders, ".")) == ["a/d"]
        assert paths_of(walk(folders, ".", hidden=True)) == [".config/x", ".env", ".x", "a/.b/c", "a/d"]
        assert paths_of(walk(folders, ".config")) == ["x"]

    def test_only_a_folder_can_be_walked(self, folders, root):
        write(root, "a.txt")
        for path, text in {"a.txt": "no folder", "missing": "does not exist", "..": "outside"}.items():
            with pytest.raises(ToolError, match=text):
                next(walk(folders, path))

    def test_what_disappears_during_a_walk_is_left_out(self, folders, root):
        write(root, "a/a", "b/b", "c/c")
        walking = walk(folders, ".")
        assert next(walking).path == "a/a"
        shutil.rmtree(root / "b")
        assert paths_of(walking) == ["c/c"]

    def test_a_folder_that_became_a_link_during_a_walk_is_left_out(self, folders, root):
        write(root, "in/a/a", "in/b/b", "other/secret")
        walking = walk(folders, "in")
        assert next(walking).path == "a/a"
        shutil.rmtree(root / "in" / "b")
        (root / "in" / "b").symlink_to(root / "other")
        assert paths_of(walking) == []

    def test_a_cancelled_walk_ends(self, folders, root):
        write(root, "a/a", "b/b")
        answers = iter([False, False, True])
        walking = walk(folders, ".", is_cancelled=lambda: next(answers))
        assert next(walking).path == "a/a"
        with pytest.raises(CallCancelledError):
            next(walking)

    def test_a_folder_is_left_soon_because_hostile_rules_are_slow(self, folders, root):
        write(root, *(f"{number:02}" for number in range(40)))
        answers = iter([False] * 3 + [True])
        with pytest.raises(CallCancelledError):
            list(walk(folders, ".", is_cancelled=lambda: next(answers)))


class TestSize:
    @pytest.mark.exhaustive
    def test_a_tree_of_1000_folders_is_walked(self, folders, root):
        current = os.open(root, os.O_RDONLY)
        for _ in range(1000):
            os.mkdir("d", dir_fd=current)
            inner = os.open("d", os.O_RDONLY, dir_fd=current)
            os.close(current)
            current = inner
        os.close(os.open("deep.txt", os.O_CREAT | os.O_WRONLY, dir_fd=current))
        os.close(current)
        try:
            assert paths_of(within(60, lambda: list(walk(folders, ".")))) == ["d/" * 1000 + "deep.txt"]
            assert folders.read("d/" * 1000 + "deep.txt", max_bytes=1)[0] == b""
        finally:
            subprocess.run(["rm", "-rf", str(root / "d")], check=True)

    @pytest.mark.exhaustive
    def test_a_folder_of_100_000_files_is_walked(self, root):
        folders = ConfinedFolders(root)
        folder = os.open(root, os.O_RDONLY)
        for number in range(100_000):
            os.close(os.open(f"{number:06}", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        os.close(folder)
        assert len(list(walk(folders, "."))) == 100_000
        assert paths_of(itertools.islice(walk(folders, "."), 2)) == ["000000", "000001"]
        assert len(folders.scan(".")) == 100_000
        answers = iter([False] * 10 + [True])
        with pytest.raises(CallCancelledError):
            list(walk(folders, ".", is_cancelled=lambda: next(answers)))


class TestGitignore:
    @pytest.mark.parametrize(
        ("files", "rules", "found"),
        [
            (
                "a.pyc a.py build/x src/build/y src/a.pyc dist doc/dist/z keep.pyc",
                {".gitignore": "# comment\n*.pyc\nbuild/\n/dist\n!keep.pyc\n\n"},
                {".": "a.py doc/dist/z keep.pyc"},
            ),
            (
                "a.log x/a.log x/b.tmp x/y/a.log z/b.tmp",
                {".gitignore": "*.log\n", "x/.gitignore": "!a.log\n*.tmp\n", "x/y/.gitignore": "/a.log\n"},
                {".": "x/a.log z/b.tmp"},
            ),
            (
                ".git/info/x a/b/c.log a/b/d.txt a/b/e.tmp a/b/f.bak a/b/only/g",
                {".git/info/exclude": "*.bak\n", ".gitignore": "*.log\na/b/only\n", "a/.gitignore": "b/*.tmp\n"},
                {"a/b": "d.txt"},
            ),
            ("repository/.git/x repository/a.log b.log", {".gitignore": "*.log\n"}, {"repository": "a.log"}),
            (
                ".git/x build/a.txt build/b.log",
                {".gitignore": "build/\n*.txt", "build/.gitignore": "*.log"},
                {".": "", "build": "a.txt"},
            ),
            ("a b", {".gitignore": "x\n" * 999 + "a\nb\n"}, {".": "b"}),
        ],
        ids=["patterns", "inner files", "outer files", "above the repository", "an ignored folder", "1000 lines"],
    )
    def test_what_files_name_is_left_out(self, folders, root, files, rules, found):
        write(root, *files.split())
        for name, text in rules.items():
            (root / name).write_text(text)
        assert {place: " ".join(paths_of(walk(folders, place))) for place in found} == found
        every = {path for path in files.split() if ".git" not in path}
        assert every <= set(paths_of(walk(folders, ".", respect_gitignore=False)))

    def test_files_above_the_root_are_not_read(self, root):
        write(root, ".git/x", "inner/a.log")
        (root / ".gitignore").write_text("*.log\n")
        assert paths_of(walk(ConfinedFolders(root / "inner"), ".")) == ["a.log"]

    def test_unusable_files_and_lines_are_skipped(self, folders, root):
        write(root, "a.txt", "b.txt", "x/a.txt", "y/a.txt", "z/a.txt")
        (root / ".gitignore").write_bytes(b"\xef\xbb\xbfb.txt\r\n!\n//\n[z-a]x\nc\\\n\xff\xfe\n")
        (root / "x" / ".gitignore").mkdir()
        os.mkfifo(root / "y" / ".gitignore")
        (root / "z" / ".gitignore").symlink_to("/etc/passwd")
        assert within(30, lambda: paths_of(walk(folders, "."))) == ["a.txt", "x/a.txt", "y/a.txt", "z/a.txt"]
        assert within(30, lambda: paths_of(walk(folders, "y"))) == ["a.txt"]

    def test_a_file_of_more_than_64_kilobytes_does_not_count(self, folders, root):
        write(root, "a.txt", "x/b.txt")
        for place, size in ((root, 64_000), (root / "x", 64_001)):
            (place / ".gitignore").write_text("*.txt\n".ljust(size, "#"))
        assert paths_of(walk(folders, "x")) == []
        (root / ".gitignore").write_text("*.txt\n".ljust(64_001, "#"))
        assert paths_of(walk(folders, ".")) == ["a.txt", "x/b.txt"]

    def test_hostile_patterns_do_not_hang(self, folders, root):
        write(root, *(f"{'a' * 250}{number}" for number in range(20)), "/".join("a" * 200) + "/b")
        lines = ["a*" * 40 + "b", "*a" * 40, "**/a/" * 20 + "c", "a**" * 30 + "x", "[a]*" * 30 + "y", "?*" * 30 + "z"]
        (root / ".gitignore").write_text("\n".join([*lines, "*" * 1000 + "c", "a" * 10_000, "*a*a*b", "**/a/**/a/b/c"]))
        assert len(within(30, lambda: list(walk(folders, ".")))) == 21


@NEEDS_GIT
class TestAgainstGit:
    """The same files as git, in random trees with random patterns."""

    NAMES = ("a", "b", "ab", "a.py", "b.pyc", "build", "x y", ".h", "#a", "!b", "[c]")
    PATTERNS = (
        "a", "/a", "a/", "*.py", "*.py[co]", "!a", "!/b", "!*.pyc", "build/", "/build", "a/b", "a/*", "**/b", "a/**",
        "**/build/**", "a/**/b", "*", "!*/", "*/", "?", "[ab]", "[!a]", "x y", "x\\ y", "\\#a", "\\!b", "# c", "", "  ",
        "a ", "b\\ ", "/*", "!/a", ".*", "!.h", "\\[c\\]", "[[]c[]]", "/a/b/", "*b*", "a?", "//", "/", "***", "a/***/b",
        "a**", "**a", "a**b", "[^a]", "[]a]", "[!]a]", "[[:alpha:]]", "[a-", "c\\", "a\\b", "**/", "/**", "a*/b", "a\t",
    )  # fmt: skip

    def compare(self, root, folders):
        program = [
            "git",
            "-c",
            "core.quotePath=off",
            "-c",
            "core.excludesFile=/dev/null",
            "ls-files",
            "-coz",
            "--exclude-standard",
        ]
        done = subprocess.run(program, cwd=root, capture_output=True, check=True)
        expected = sorted(path for path in done.stdout.decode().split("\0") if path)
        assert paths_of(walk(folders, ".", hidden=True)) == expected
        for inner in ("a", "build"):
            if (root / inner).is_dir() and not self.is_ignored(root, inner):
                found = [f"{inner}/{path}" for path in paths_of(walk(folders, inner, hidden=True))]
                assert found == [path for path in expected if path.startswith(f"{inner}/")]

    def is_ignored(self, root, path):
        return subprocess.run(["git", "check-ignore", "-q", path], cwd=root, check=False).returncode == 0

    @pytest.mark.parametrize(
        "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(4, 50))]
    )
    def test_random_trees(self, root, seed):
        choose = random.Random(seed)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        for _ in range(40):
            parts = [choose.choice(self.NAMES) for _ in range(choose.randint(1, 4))]
            with_file = root.joinpath(*parts)
            if not any(parent.is_file() for parent in with_file.parents) and not with_file.exists():
                write(root, "/".join(parts))
        places = [root, *(path for path in sorted(root.rglob("*")) if path.is_dir() and ".git" not in path.parts)]
        for place in [*choose.sample(places, min(len(places), 4)), root]:
            lines = [choose.choice(self.PATTERNS) for _ in range(choose.randint(1, 5))]
            (place / ".gitignore").write_text("\n".join(lines) + "\n")
        self.compare(root, ConfinedFolders(root))
