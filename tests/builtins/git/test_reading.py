"""The tools that read a repository return values: status, diff, log, show."""

from __future__ import annotations

import shutil

import pytest

from ahvn_tools.builtins.git import Git
from tests.builtins.git.repositories import commit_all, git, git_kit, make_repository, run


@pytest.fixture
def folder(tmp_path):
    return make_repository(tmp_path / "work")


def test_the_tools_have_names_that_fit_into_a_large_toolkit(tmp_path):
    assert Git(tmp_path).list_toolspecs() == ["git_cmd", "git_status", "git_diff", "git_log", "git_show"]
    assert Git(tmp_path).toolspec("status").name == "git_status"


def test_the_schemas_hide_the_context_and_describe_each_parameter(tmp_path):
    for spec in Git(tmp_path).to_toolspecs().values():
        properties = spec.definition.input_schema["properties"]
        assert "context" not in properties
        assert all(schema["description"] for schema in properties.values())


def test_folders_that_were_deleted_are_an_error(folder, kit):
    shutil.rmtree(folder)
    assert kit.exec("git_status", {}).error.code == "tool_error"
    assert kit.exec("git_cmd", {"uri": ".", "args": "status"}).error.code == "tool_error"


def test_a_revision_that_is_too_long_is_no_commit(kit):
    assert kit.exec("git_show", {"revision": "x" * 2_000}).text.startswith("There is no commit")


def test_reading_tools_are_marked_as_such(tmp_path):
    specs = Git(tmp_path).to_toolspecs()
    assert all(specs[name].definition.annotations["readOnlyHint"] for name in specs if name != "git_cmd")


class TestStatus:
    def test_all_kinds_of_changes_have_names(self, folder, kit):
        (folder / "gone.txt").write_text("gone\n")
        (folder / "old name.txt").write_text("content of some length\n" * 5)
        commit_all(folder, "More")
        git(folder, "mv", "old name.txt", "new name.txt")
        (folder / "gone.txt").unlink()
        (folder / "a.txt").write_text("changed\n")
        (folder / "added.txt").write_text("x\n")
        git(folder, "add", "added.txt")
        (folder / "ünt\nracked.txt").write_text("x\n")
        (folder / "new").mkdir()
        (folder / "new/x.txt").write_text("x\n")
        files = {file["path"]: (file["staged"], file["unstaged"], file["old_path"])
                 for file in kit.call("git_status", {})["files"]}  # fmt: skip
        assert files == {
            "new name.txt": ("renamed", None, "old name.txt"),
            "gone.txt": (None, "deleted", None),
            "a.txt": (None, "modified", None),
            "added.txt": ("added", None, None),
            "ünt\nracked.txt": (None, "untracked", None),
            "new/": (None, "untracked", None),
        }

    def test_a_conflict_is_unmerged(self, folder, kit):
        git(folder, "checkout", "-q", "docs/b.txt")
        git(folder, "checkout", "-q", "-b", "third", "HEAD~1")
        (folder / "a.txt").write_text("all else\n")
        commit_all(folder, "Third")
        git(folder, "merge", "-q", "main", check=False)
        assert kit.call("git_status", {})["files"] == [
            {"path": "a.txt", "staged": "unmerged", "unstaged": "both modified", "old_path": None}
        ]

    def test_a_conflict_says_what_each_side_did(self, folder, kit):
        git(folder, "checkout", "-q", "docs/b.txt")
        git(folder, "checkout", "-q", "-b", "ours")
        git(folder, "rm", "-q", "docs/b.txt")
        (folder / "new.txt").write_text("ours\n")
        commit_all(folder, "Ours")
        git(folder, "checkout", "-q", "-b", "theirs", "HEAD~1")
        (folder / "docs/b.txt").write_text("changed\n")
        (folder / "new.txt").write_text("theirs\n")
        commit_all(folder, "Theirs")
        git(folder, "merge", "-q", "ours", check=False)
        files = {file["path"]: (file["staged"], file["unstaged"])
                 for file in kit.call("git_status", {})["files"]}  # fmt: skip
        assert files == {"docs/b.txt": ("unmerged", "deleted by them"), "new.txt": ("unmerged", "both added")}

    def test_a_submodule_with_another_commit_has_new_commits(self, folder, kit):
        git(folder, "clone", "-q", ".", "inner")
        git(folder, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
        commit_all(folder, "Inner")
        commit_all(folder / "inner", "More")
        status = {"path": "inner", "staged": None, "unstaged": "new commits", "old_path": None}
        assert kit.call("git_status", {})["files"] == [status]
        git(folder, "add", "inner")
        assert kit.call("git_status", {})["files"] == [{**status, "staged": "modified", "unstaged": None}]

    def test_the_branch_its_commit_and_its_upstream_are_there(self, folder, kit):
        git(folder, "branch", "-q", "--set-upstream-to", "other")
        status = kit.call("git_status", {})
        assert (status["branch"], status["upstream"], status["ahead"], status["behind"]) == ("main", "other", 1, 1)
        assert status["commit"] == git(folder, "rev-parse", "HEAD").strip()

    def test_files_come_in_pages(self, folder, kit):
        for number in range(25):
            (folder / f"new{number:02}.txt").write_text("x\n")
        first = kit.call("git_status", {"max_count": 20})
        rest = kit.call("git_status", {"max_count": 20, "skip": first["next_skip"]})
        assert (len(first["files"]), first["next_skip"], len(rest["files"]), rest["next_skip"]) == (20, 20, 6, None)

    def test_a_folder_limits_the_files(self, folder, kit):
        (folder / "new.txt").write_text("x\n")
        assert [file["path"] for file in kit.call("git_status", {"uri": "docs"})["files"]] == ["docs/b.txt"]
        assert kit.call("git_status", {"uri": "a.txt"})["files"] == []

    def test_paths_are_those_that_other_tools_take(self, tmp_path):
        make_repository(tmp_path / "one/work")
        make_repository(tmp_path / "two")
        kit = git_kit([tmp_path / "one", tmp_path / "two"])
        assert kit.call("git_status", {"uri": "work"})["files"][0]["path"] == "work/docs/b.txt"
        second = str(tmp_path / "two")
        assert kit.call("git_status", {"uri": second})["files"][0]["path"] == f"{second}/docs/b.txt"

    def test_nothing_is_written(self, folder, kit):
        before = (folder / ".git/index").read_bytes()
        (folder / "a.txt").touch()
        for name in ("git_status", "git_log", "git_show"):
            kit.call(name, {})
        assert (folder / ".git/index").read_bytes() == before


class TestDiff:
    def test_unstaged_and_staged_changes(self, folder, kit):
        (folder / "a.txt").write_text("x\n")
        git(folder, "add", "a.txt")
        unstaged, staged = kit.call("git_diff", {}), kit.call("git_diff", {"staged": True})
        assert unstaged["files"] == [
            {"path": "docs/b.txt", "state": "modified", "added": 1, "deleted": 0, "old_path": None}
        ]
        assert unstaged["patch"].endswith("@@ -1 +1,2 @@\n b\n+changed\n")
        assert [(file["path"], file["added"], file["deleted"]) for file in staged["files"]] == [("a.txt", 1, 20)]

    @pytest.mark.parametrize(("revision", "paths"), [
        ("HEAD", ["docs/b.txt"]), ("HEAD~1", ["a.txt", "docs/b.txt"]), ("main..other", ["a.txt"]),
        ("main...other", ["a.txt"]),
        ("HEAD~1..", ["a.txt"]), ("..other", ["a.txt"]), ("main..main", []),
    ])  # fmt: skip
    @pytest.mark.default_cases(3)
    def test_commits_and_ranges(self, revision, paths, kit):
        diff = kit.call("git_diff", {"revision": revision})
        assert [file["path"] for file in diff["files"]] == paths

    def test_renamed_and_binary_files(self, folder, kit):
        git(folder, "mv", "a.txt", "tab\tand\nline.txt")
        (folder / "b.bin").write_bytes(bytes(range(256)))
        git(folder, "add", "-A")
        files = {file["path"]: file for file in kit.call("git_diff", {"staged": True})["files"]}
        assert (files["b.bin"]["added"], files["b.bin"]["state"]) == (None, "added")
        renamed = files["tab\tand\nline.txt"]
        assert (renamed["old_path"], renamed["state"], renamed["added"]) == ("a.txt", "renamed", 0)

    def test_the_patch_comes_in_pages_that_make_the_whole(self, folder, kit):
        (folder / "a.txt").write_text("".join(f"new {number}\n" for number in range(3000)))
        pages, start = [], 1
        while start is not None:
            page = kit.call("git_diff", {"uri": "a.txt", "start_line": start, "max_lines": 700})
            pages.append(page["patch"])
            start = page["next_start_line"]
        assert len(pages) == 5
        assert "".join(pages) == git(folder, "diff", "a.txt")

    def test_long_lines_and_large_patches_are_cut(self, folder, kit):
        (folder / "a.txt").write_text("x" * 100_000 + "\n" + ("y" * 1900 + "\n") * 3000)
        page = kit.call("git_diff", {"uri": "a.txt", "max_lines": 1000})
        assert len(page["patch"]) < 52_000
        assert "… (100,001 characters)" in page["patch"]
        last = kit.call("git_diff", {"uri": "a.txt", "start_line": 5000})
        assert (last["patch"], last["next_start_line"], last["is_cut"]) == ("", None, True)

    def test_many_files_are_counted(self, folder, kit):
        for number in range(320):
            (folder / f"{number}.txt").write_text("x\n")
        git(folder, "add", "-A")
        diff = kit.call("git_diff", {"staged": True})
        assert (len(diff["files"]), diff["omitted_files"]) == (300, 21)

    def test_a_repository_without_commits(self, tmp_path):
        git(tmp_path, "init", "-q")
        (tmp_path / "a.txt").write_text("x\n")
        git(tmp_path, "add", "a.txt")
        assert git_kit(tmp_path).call("git_diff", {"staged": True})["files"][0]["state"] == "added"


class TestLog:
    def test_pages_after_the_end_are_empty(self, kit):
        for skip in (1000, 2**31, 2**63, 10**30):
            assert kit.call("git_log", {"skip": skip}) == {"commits": [], "next_skip": None}

    @pytest.mark.parametrize("name", ["author", "message", "since", "revision"])
    def test_characters_that_no_argument_can_have_are_refused(self, name, kit):
        for text in ("a\0b", "a\ud800b"):
            result = kit.exec("git_log", {name: text})
            assert result.error.code in ("tool_error", "invalid_parameters"), result.text
            assert "NUL" in result.text or "unicode" in result.text

    def test_a_commit_has_all_its_fields(self, folder, kit):
        git(
            folder,
            "commit",
            "-qam",
            "Subject ü\n\nBody\n\nmore",
            "--author",
            "Zoë <z@example.com>",
            "--date",
            "2026-01-02T03:04:05+0100",
        )
        git(folder, "tag", "v1")
        commit = kit.call("git_log", {"max_count": 1})["commits"][0]
        assert commit == {
            "hash": git(folder, "rev-parse", "HEAD").strip(),
            "parents": [git(folder, "rev-parse", "HEAD~1").strip()],
            "author": "Zoë",
            "email": "z@example.com",
            "date": "2026-01-02T03:04:05+01:00",
            "subject": "Subject ü",
            "body": "Body\n\nmore",
            "refs": ["HEAD -> main", "tag: v1"],
        }

    def test_commits_come_in_pages(self, folder, kit):
        for number in range(7):
            git(folder, "commit", "-q", "--allow-empty", "-m", f"Number {number}")
        subjects, skip = [], 0
        while skip is not None:
            page = kit.call("git_log", {"max_count": 4, "skip": skip})
            subjects += [commit["subject"] for commit in page["commits"]]
            skip = page["next_skip"]
        assert subjects == [*(f"Number {number}" for number in range(6, -1, -1)), "Second", "First"]

    @pytest.mark.parametrize(("arguments", "subjects"), [
        ({"revision": "main..other"}, ["Other"]), ({"revision": "other"}, ["Other", "First"]),
        ({"uri": "docs"}, ["First"]),
        ({"uri": "docs/b.txt"}, ["First"]), ({"message": "SEC"}, ["Second"]), ({"message": ".*"}, []),
        ({"author": "ann@"}, ["Second", "First"]),
        ({"author": "nobody"}, []), ({"since": "2099-01-01"}, []), ({"since": "2 weeks ago"}, ["Second", "First"]),
        ({"uri": "never.txt"}, []),
    ])  # fmt: skip
    @pytest.mark.default_cases(5)
    def test_filters(self, arguments, subjects, kit):
        assert [commit["subject"] for commit in kit.call("git_log", arguments)["commits"]] == subjects

    def test_a_file_that_is_deleted_has_a_history(self, folder, kit):
        git(folder, "rm", "-qf", "a.txt")
        git(folder, "commit", "-qm", "Gone")
        assert kit.call("git_log", {"uri": "a.txt"})["commits"][0]["subject"] == "Gone"

    def test_a_repository_without_commits_has_an_empty_history(self, tmp_path):
        git(tmp_path, "init", "-q")
        assert git_kit(tmp_path).call("git_log", {}) == {"commits": [], "next_skip": None}

    def test_patterns_in_names_are_plain_text(self, folder, kit):
        (folder / "[ab]*.txt").write_text("x\n")
        commit_all(folder, "Odd")
        assert len(kit.call("git_log", {"uri": "[ab]*.txt"})["commits"]) == 1

    def test_a_long_message_is_cut(self, folder, kit):
        git(folder, "commit", "-q", "--allow-empty", "-m", "x\n\n" + "y" * 10_000)
        assert len(kit.call("git_log", {})["commits"][0]["body"]) == 4_001


class TestShow:
    def test_a_commit_and_its_changes(self, kit):
        shown = kit.call("git_show", {"revision": "other"})
        assert shown["commit"]["subject"] == "Other"
        assert [(file["path"], file["added"], file["deleted"]) for file in shown["diff"]["files"]] == [("a.txt", 1, 1)]
        assert shown["diff"]["patch"].endswith("@@ -1,4 +1,4 @@\n-line 1\n+other 1\n line 2\n line 3\n line 4\n")

    def test_the_first_commit_and_a_tag_can_be_shown(self, folder, kit):
        git(folder, "tag", "-a", "v0", "-m", "Tag", "HEAD~1")
        shown = kit.call("git_show", {"revision": "v0"})
        assert {file["state"] for file in shown["diff"]["files"]} == {"added"}

    def test_a_merge_is_compared_with_its_first_parent(self, folder, kit):
        git(folder, "checkout", "-q", "docs/b.txt")
        git(folder, "merge", "-q", "other", "-m", "Merge")
        shown = kit.call("git_show", {})
        assert len(shown["commit"]["parents"]) == 2
        assert "+other 1" in shown["diff"]["patch"]
        assert "main 20" not in shown["diff"]["patch"]


def test_ignored_revisions_are_read_inside_of_the_folders_only(folder, kit):
    (folder / "ignored").write_text(git(folder, "rev-parse", "HEAD"))
    git(folder, "config", "blame.ignoreRevsFile", "ignored")
    assert run(kit, "blame a.txt").count("\n") == 19
    for path in ("/etc/passwd", "~/x", ":(optional)/etc/passwd", "../x"):
        git(folder, "config", "blame.ignoreRevsFile", path)
        assert "leads out of the folders" in run(kit, "blame a.txt")
