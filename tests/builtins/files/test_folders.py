"""ConfinedFolders: what each operation does with files, links, permissions, names and roots."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from ahvn_tools import ToolContext
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.errors import DefinitionError, ToolError
from tests.builtins.files.place import GIANT, open_descriptors

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root may give files to other users")


@pytest.fixture
def root(base):
    return base / "root"


@pytest.fixture
def folders(root):
    return ConfinedFolders(root)


class TestReading:
    def test_a_file_is_read_with_its_status(self, folders, root):
        content, status = folders.read("sub/b.txt", max_bytes=20)
        assert content == b"content of sub/b.txt"
        system = (root / "sub" / "b.txt").stat()
        assert (status.kind, status.size, status.links) == ("file", 20, 1)
        assert (status.inode, status.modified_ns, status.mode) == (system.st_ino, system.st_mtime_ns, 0o644)
        (root / "nothing").touch()
        assert folders.read("nothing", max_bytes=0)[0] == b""

    def test_a_larger_file_is_refused_with_its_size(self, folders):
        with pytest.raises(
            ToolError, match=r"'sub/b.txt' has 20 bytes, more than 19\. Larger files can only be read by parts\."
        ):
            folders.read("sub/b.txt", max_bytes=19)

    def test_a_giant_is_refused_unread_but_a_part_of_it_can_be_read(self, folders):
        with pytest.raises(ToolError, match=f"{GIANT:,} bytes"):
            folders.read("giant", max_bytes=10_000_000)
        with folders.open("giant") as (file, status):
            file.seek(GIANT - 10)
            assert file.read() == bytes(10)
            assert status.size == GIANT

    @pytest.mark.skipif(not Path("/proc/version").exists(), reason="there is no /proc")
    def test_files_without_a_size_are_read_up_to_the_limit(self):
        folders = ConfinedFolders("/proc")
        assert folders.read("version", max_bytes=1000)[0]
        with pytest.raises(ToolError, match="more than 5"):
            folders.read("version", max_bytes=5)

    def test_what_is_no_file_is_named(self, folders):
        for path, text in {"sub": "is a folder", "fifo": "no regular file", "socket": "cannot be used"}.items():
            with pytest.raises(ToolError, match=text):
                folders.read(path, max_bytes=100)

    def test_a_folder_is_listed_with_kinds_and_without_following_links(self, folders):
        kinds = folders.scan(".")
        assert kinds["a.txt"] == "file"
        assert kinds["sub"] == "folder"
        assert kinds["out"] == kinds["out_dir"] == kinds["loop"] == "link"
        assert kinds["fifo"] == kinds["socket"] == "other"

    def test_the_status_is_that_of_what_a_link_leads_to(self, folders, root):
        (root / "in").symlink_to("a.txt")
        assert folders.status("in") == folders.status("a.txt")
        assert folders.status("to_fifo").kind == "other"
        assert folders.status(".").kind == "folder"


class TestWriting:
    def test_a_new_file_is_made_with_its_folders(self, folders, root):
        status = folders.create("new/deep/x.txt", b"new")
        assert (root / "new" / "deep" / "x.txt").read_bytes() == b"new"
        assert status == folders.status("new/deep/x.txt")

    def test_a_new_file_has_the_usual_permissions(self, folders, root):
        folders.create("x.txt", b"new")
        (root / "usual.txt").touch()
        assert (root / "x.txt").stat().st_mode == (root / "usual.txt").stat().st_mode

    def test_an_existing_file_is_overwritten_only_when_asked(self, folders, root):
        with pytest.raises(ToolError, match=r"'a.txt' exists already\. Nothing was written\."):
            folders.create("a.txt", b"new")
        assert (root / "a.txt").read_text() == "content of a.txt"
        folders.create("a.txt", b"new", overwrite=True)
        assert (root / "a.txt").read_text() == "new"

    def test_a_folder_is_never_overwritten(self, folders):
        for path in (".", "sub"):
            with pytest.raises(ToolError, match=r"is a folder|exists already"):
                folders.create(path, b"new", overwrite=True)

    @pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
    def test_permissions_stay(self, folders, root, mode):
        (root / "a.txt").chmod(mode)
        folders.update("a.txt", lambda content, _: content + b"!", max_bytes=100)
        assert stat.S_IMODE((root / "a.txt").stat().st_mode) == mode
        folders.create("a.txt", b"new", overwrite=True)
        assert stat.S_IMODE((root / "a.txt").stat().st_mode) == mode

    def test_a_read_only_file_is_not_replaced(self, folders, root):
        (root / "a.txt").chmod(0o444)
        with pytest.raises(ToolError, match=r"'a\.txt' is read-only, so it was not changed"):
            folders.update("a.txt", lambda content, _: content + b"!", max_bytes=100)
        with pytest.raises(ToolError, match="read-only"):
            folders.create("a.txt", b"new", overwrite=True)
        assert (root / "a.txt").read_text() == "content of a.txt"

    def test_setuid_and_setgid_do_not_stay(self, folders, root):
        (root / "a.txt").chmod(0o6755)
        folders.update("a.txt", lambda content, _: content + b"!", max_bytes=100)
        assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o755

    @AS_ROOT
    def test_the_owner_stays(self, folders, root):
        os.chown(root / "a.txt", 12345, 54321)
        folders.update("a.txt", lambda content, _: content + b"!", max_bytes=100)
        status = (root / "a.txt").stat()
        assert (status.st_uid, status.st_gid) == (12345, 54321)

    def test_a_link_stays_a_link(self, folders, root):
        (root / "in").symlink_to("sub/b.txt")
        folders.update("in", lambda content, _: b"new", max_bytes=100)
        assert (root / "in").readlink() == Path("sub/b.txt")
        assert (root / "sub" / "b.txt").read_text() == "new"

    def test_a_link_to_a_file_that_is_missing_makes_that_file(self, folders, root):
        (root / "in").symlink_to("sub/new.txt")
        folders.create("in", b"new")
        assert (root / "in").is_symlink()
        assert (root / "sub" / "new.txt").read_text() == "new"

    def test_a_write_that_the_system_stops_leaves_the_old_content(self, root):
        """A limit of the process ends the write in the middle."""
        program = (
            "import resource, sys; from ahvn_tools.builtins.files.folders import ConfinedFolders;"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
            "ConfinedFolders(sys.argv[1]).create('a.txt', bytes(5000), overwrite=True)"
        )
        done = subprocess.run([sys.executable, "-c", program, str(root)], capture_output=True, text=True, check=False)
        assert "'a.txt' is too large" in done.stderr
        assert (root / "a.txt").read_text() == "content of a.txt"
        assert not list(root.glob(".ahvn-*"))


class TestHardLinks:
    @pytest.mark.parametrize(
        ("policy", "is_read", "is_written"),
        [("allow", True, True), ("read", True, False), ("refuse", False, False)],
        ids=["allow", "read", "refuse"],
    )
    def test_a_file_with_other_names(self, root, base, policy, is_read, is_written):
        folders = ConfinedFolders(root, hard_links=policy)
        operations = {
            lambda: folders.read("hard", max_bytes=100): is_read,
            lambda: folders.update("hard", lambda content, _: b"new", max_bytes=100): is_written,
            lambda: folders.create("hard", b"new", overwrite=True): is_written,
        }
        for operation, is_allowed in operations.items():
            if is_allowed:
                operation()
            else:
                with pytest.raises(ToolError, match="hard links"):
                    operation()
        assert (base / "SECRET.txt").read_text() == "SECRET"
        assert any(file.path == "hard" for file in walk(folders, ".")) == is_read

    def test_a_name_can_be_deleted(self, folders, base, root):
        folders.delete("hard")
        assert not (root / "hard").exists()
        assert (base / "SECRET.txt").read_text() == "SECRET"


class TestDeletingAndMoving:
    def test_a_file_and_an_empty_folder_are_deleted(self, folders, root):
        folders.delete("a.txt")
        folders.delete("empty/")
        folders.delete("fifo")
        assert not any((root / name).exists() for name in ("a.txt", "empty", "fifo"))

    def test_a_full_folder_is_not_deleted(self, folders, root):
        with pytest.raises(ToolError, match="not empty"):
            folders.delete("sub")
        assert (root / "sub" / "b.txt").exists()

    @pytest.mark.parametrize("name", ["out", "out_dir", "loop", "dangling", "zero"])
    def test_a_link_is_deleted_and_not_what_it_leads_to(self, folders, root, base, name):
        folders.delete(name)
        assert not (root / name).is_symlink()
        assert (base / "SECRET.txt").exists()
        assert (base / "outside" / "SECRET.txt").exists()

    @pytest.mark.parametrize("path", [".", "{root}", "sub/..", "sub/deep/../..", "../root", "{root}/", "file://{root}"])
    def test_a_root_is_neither_deleted_nor_moved(self, folders, root, path):
        path = path.replace("{root}", str(root))
        for operation in (folders.delete, lambda path: folders.move(path, "x"), lambda path: folders.move("sub", path)):
            with pytest.raises(ToolError, match="stays where it is"):
                operation(path)

    def test_a_folder_that_contains_a_root_stays(self, root):
        folders = ConfinedFolders([root, root / "sub" / "deep"])
        for path in ("sub", "sub/deep"):
            with pytest.raises(ToolError, match="stays where it is"):
                folders.move(path, "x")

    def test_files_folders_and_links_are_moved(self, folders, root):
        folders.move("a.txt", "new/folder/z.txt")
        folders.move("sub", "empty/sub2")
        folders.move("out", "empty/out2")
        assert (root / "new" / "folder" / "z.txt").read_text() == "content of a.txt"
        assert (root / "empty" / "sub2" / "b.txt").exists()
        assert (root / "empty" / "out2").is_symlink()

    @pytest.mark.parametrize("target", ["sub", "sub/b.txt", "out", "loop", "a.txt", "empty"])
    def test_nothing_is_overwritten_by_a_move(self, folders, root, target):
        before = sorted(root.iterdir())
        with pytest.raises(ToolError, match=f"{target}' exists already"):
            folders.move("a.txt", target)
        assert sorted(root.iterdir()) == before

    def test_a_folder_is_not_moved_into_itself(self, folders, root):
        (root / "in").symlink_to("sub")
        for target in ("sub/x", "sub/deep/x", "sub/new/deep/x", "in/x"):
            with pytest.raises(ToolError, match="cannot be moved into itself"):
                folders.move("sub", target)
        assert not (root / "sub" / "new").exists()

    def test_a_missing_source_is_named(self, folders, root):
        with pytest.raises(ToolError, match="'missing' does not exist"):
            folders.move("missing", "new/x")
        assert not (root / "new").exists()

    def test_folders_are_made_with_their_parents_and_stay(self, folders, root):
        folders.make_folder("x/y/z")
        folders.make_folder("x/y/z")
        folders.make_folder(".")
        assert (root / "x" / "y" / "z").is_dir()
        with pytest.raises(ToolError, match="no folder"):
            folders.make_folder("a.txt/x")


class TestNames:
    def test_twins_in_unicode_are_two_files(self, folders, root):
        composed, decomposed = (unicodedata.normalize(form, "é.txt") for form in ("NFC", "NFD"))
        folders.create(composed, b"composed")
        folders.create(decomposed, b"decomposed")
        assert folders.read(composed, max_bytes=100)[0] == b"composed"
        assert {composed, decomposed} <= folders.scan(".").keys()

    @pytest.mark.parametrize(
        "name", ["a\nb", "tab\t", " space ", "%41", "'quoted\"", "-rf", "*", "\u202eabc", "ü 漢 🎉"]
    )
    def test_unusual_names_are_names(self, folders, root, name):
        folders.create(name, b"x")
        assert folders.read(name, max_bytes=1)[0] == b"x"
        assert name in folders.scan(".")
        assert name in {file.path for file in walk(folders, ".")}
        folders.move(name, f"empty/{name}")
        folders.delete(f"empty/{name}")

    def test_names_that_are_no_utf_8_are_shown_escaped_and_are_skipped_by_walks(self, folders, root):
        (root / os.fsdecode(b"bad-\xff\xfe.txt")).touch()
        (root / os.fsdecode(b"bad-\xff")).mkdir()
        names = folders.scan(".").keys()
        assert {"bad-\\xff\\xfe.txt", "bad-\\xff"} <= names
        assert all(name.encode() for name in names)
        assert not any("bad" in file.path for file in walk(folders, "."))

    def test_messages_name_a_path_as_it_was_written(self, folders, root):
        for path in ("missing.txt", f"{root}/missing.txt", f"file://{root}/missing.txt", "sub/../missing.txt"):
            with pytest.raises(ToolError) as caught:
                folders.read(path, max_bytes=1)
            assert str(caught.value) == f"{path!r} does not exist. Check the path, or list the folder."


class TestRoots:
    def test_relative_paths_begin_in_the_first_root(self, base):
        (base / "second").mkdir()
        (base / "second" / "a.txt").write_text("second")
        folders = ConfinedFolders([base / "second", base / "root"])
        assert folders.read("a.txt", max_bytes=100)[0] == b"second"
        assert folders.read(str(base / "root" / "a.txt"), max_bytes=100)[0] == b"content of a.txt"
        assert folders.read("../root/a.txt", max_bytes=100)[0] == b"content of a.txt"
        assert folders.display("a.txt") == "a.txt"
        assert folders.display("../root/a.txt") == f"{base}/root/a.txt"
        folders.move("a.txt", "../root/moved.txt")
        assert (base / "root" / "moved.txt").read_text() == "second"

    def test_paths_of_a_root_that_is_a_link_have_the_name_that_the_host_used(self, base, root):
        (base / "name").symlink_to("root")
        folders = ConfinedFolders([base / "outside", base / "name"])
        assert folders.roots == (base / "outside", root)
        for known in (folders, pickle.loads(pickle.dumps(folders)), ConfinedFolders(folders.roots)):
            assert known.display(f"{base}/name/sub/b.txt") == f"{base}/name/sub/b.txt"
            assert known.display(str(root)) == f"{base}/name"
            assert known.read(f"{base}/name/sub/b.txt", max_bytes=100) == known.read(f"{root}/sub/b.txt", max_bytes=100)

    def test_links_from_one_root_to_another_are_followed(self, base):
        folders = ConfinedFolders([base / "root", base / "outside"])
        assert folders.read("out_dir/SECRET.txt", max_bytes=100)[0] == b"SECRET"
        assert folders.read("out_dir_rel/SECRET.txt", max_bytes=100)[0] == b"SECRET"
        with pytest.raises(ToolError, match="outside"):
            folders.read("out_sub/../../SECRET.txt", max_bytes=100)

    def test_roots_may_overlap(self, base):
        root = base / "root"
        for roots in ([root, root / "sub"], [root / "sub", root]):
            folders = ConfinedFolders(roots)
            assert folders.read(str(root / "sub" / "b.txt"), max_bytes=100)[0] == b"content of sub/b.txt"
            assert folders.read(str(root / "sub" / ".." / "a.txt"), max_bytes=100)[0] == b"content of a.txt"

    def test_a_root_may_be_the_whole_file_system(self, tmp_path):
        folders = ConfinedFolders("/")
        (tmp_path / "a.txt").write_text("a")
        for path in (str(tmp_path / "a.txt"), str(tmp_path / "a.txt")[1:], f"/../..{tmp_path}/a.txt"):
            assert folders.read(path, max_bytes=100)[0] == b"a"
        folders.create(str(tmp_path / "new" / "b.txt"), b"b")
        assert (tmp_path / "new" / "b.txt").read_text() == "b"
        for path in ("dev/zero", "dev/null", "/dev/tty"):
            with pytest.raises(ToolError):
                folders.read(path, max_bytes=100)
        with pytest.raises(ToolError, match="stays"):
            folders.delete("/")

    @pytest.mark.parametrize("change", ["deleted", "a link", "another folder", "a file"])
    def test_a_root_that_was_replaced_is_a_clear_error(self, base, change):
        folders = ConfinedFolders(base / "root")
        (base / "root").rename(base / "old")
        if change == "a link":
            (base / "root").symlink_to("outside")
        elif change == "another folder":
            shutil.copytree(base / "outside", base / "root")
        elif change == "a file":
            (base / "root").touch()
        for operation in (
            lambda: folders.read("SECRET.txt", max_bytes=100),
            lambda: folders.scan("."),
            lambda: list(walk(folders, ".")),
            lambda: folders.create("x", b""),
            lambda: folders.make_folder("x/y"),
            lambda: folders.delete("SECRET.txt"),
        ):
            with pytest.raises(ToolError, match=r"was deleted or replaced|outside"):
                operation()

    def test_a_root_below_a_folder_that_became_a_link_is_a_clear_error(self, base):
        folders = ConfinedFolders(base / "outside" / "sub")
        (base / "outside").rename(base / "old")
        (base / "evil" / "sub").mkdir(parents=True)
        (base / "evil" / "sub" / "a.txt").write_text("evil")
        (base / "outside").symlink_to("evil")
        with pytest.raises(ToolError, match=r"was deleted or replaced|outside"):
            folders.read("a.txt", max_bytes=100)

    def test_the_current_folder_may_be_gone(self, base):
        program = (
            "import os, sys; from ahvn_tools.builtins.files.folders import ConfinedFolders;"
            "os.mkdir(sys.argv[1] + '/gone'); os.chdir(sys.argv[1] + '/gone'); os.rmdir(sys.argv[1] + '/gone');"
            "folders = ConfinedFolders(sys.argv[1]);"
            "print(folders.read('a.txt', max_bytes=100)[0], folders.create('b/c.txt', b'x').size)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(base / "root")], capture_output=True, text=True, check=False
        )
        assert done.stdout == "b'content of a.txt' 1\n", done.stderr

    @pytest.mark.parametrize(
        ("roots", "options", "message"),
        [
            (["missing"], {}, r"root .*Make the folder first"),
            (["a.txt"], {}, r"root .*is no folder"),
            ([], {}, "Without a root"),
            (["."], {"hard_links": "write"}, "'allow', 'read' or 'refuse', not 'write'"),
            (["."], {"call_roots": "add"}, "'narrow' or 'replace'"),
        ],
    )
    def test_a_mistake_of_the_host_is_an_error(self, base, roots, options, message):
        with pytest.raises(DefinitionError, match=message):
            ConfinedFolders([base / "root" / name for name in roots], **options)


class TestNarrowing:
    def test_a_call_uses_the_part_that_both_allow(self, base):
        root = base / "root"
        folders = ConfinedFolders(root)
        inner = folders.for_call(ToolContext(roots=(root / "sub",)))
        assert inner.roots == (root / "sub",)
        assert inner.read("b.txt", max_bytes=100)[0] == b"content of sub/b.txt"
        assert inner.create("new.txt", b"new").size == 3
        with pytest.raises(ToolError, match="outside"):
            inner.read("../a.txt", max_bytes=100)
        assert folders.for_call(ToolContext()) is folders

    def test_wider_roots_of_a_call_give_nothing(self, base):
        folders = ConfinedFolders(base / "root")
        assert folders.for_call(ToolContext(roots=(base,))).roots == (base / "root",)

    def test_roots_of_a_call_that_are_elsewhere_leave_no_folder(self, base):
        folders = ConfinedFolders(base / "root")
        nothing = folders.for_call(ToolContext(roots=(base / "root-evil",)))
        assert nothing.roots == ()
        for operation in (lambda: nothing.scan("."), lambda: nothing.create("a", b""), lambda: nothing.delete("a")):
            with pytest.raises(ToolError, match="No folder may be used"):
                operation()

    @pytest.mark.parametrize("call_roots", ["narrow", "replace"])
    def test_a_call_whose_host_forbids_files_uses_none(self, base, call_roots):
        folders = ConfinedFolders(base / "root", call_roots=call_roots)
        assert folders.for_call(ToolContext()) is folders
        nothing = folders.for_call(ToolContext(forbids_files=True))
        assert nothing.roots == ()
        with pytest.raises(ToolError, match="No folder may be used"):
            nothing.scan(".")

    def test_a_narrow_root_that_became_a_link_is_not_used(self, base):
        root = base / "root"
        inner = ConfinedFolders(root).for_call(ToolContext(roots=(root / "sub",)))
        (root / "sub").rename(root / "sub2")
        (root / "sub").symlink_to(base / "outside")
        for operation in (lambda: inner.read("SECRET.txt", max_bytes=100), lambda: inner.scan(".")):
            with pytest.raises(ToolError, match=r"was deleted or replaced|outside"):
                operation()


class TestReplacing:
    @pytest.fixture
    def folders(self, base):
        return ConfinedFolders(base / "root", call_roots="replace")

    def test_a_call_uses_its_own_roots(self, folders, base):
        inner = folders.for_call(ToolContext(roots=(base / "outside",)))
        assert inner.roots == (base / "outside",)
        assert inner.scan(str(base / "outside"))
        for path in ("a.txt", str(base / "root" / "a.txt"), ".", "../root/a.txt"):
            with pytest.raises(ToolError, match="outside of the folders that this call may use"):
                inner.read(path, max_bytes=100)

    def test_relative_paths_begin_in_the_first_folder_of_the_host(self, folders, base):
        inner = folders.for_call(ToolContext(roots=(base / "outside", base / "root" / "sub")))
        assert inner.base == base / "root"
        assert inner.read("sub/b.txt", max_bytes=100)[0] == b"content of sub/b.txt"
        assert inner.display(str(base / "root" / "sub" / "b.txt")) == "sub/b.txt"
        assert inner.display(str(base / "outside")) == str(base / "outside")
        assert inner.create("sub/new.txt", b"new").size == 3

    @pytest.mark.parametrize("call_roots", ["narrow", "replace"])
    def test_what_the_host_says_about_hard_links_holds_in_each_call(self, base, call_roots):
        hard = base / "root" / "sub" / "hard.txt"
        os.link(base / "root" / "a.txt", hard)
        folders = ConfinedFolders(base / "root", call_roots=call_roots, hard_links="refuse")
        with pytest.raises(ToolError, match="hard links"):
            folders.for_call(ToolContext(roots=(base / "root" / "sub",))).read(str(hard), max_bytes=100)

    def test_the_root_folder_of_the_system_allows_everything(self, folders, base):
        everything = folders.for_call(ToolContext(roots=(Path("/"),)))
        assert everything.read("a.txt", max_bytes=100)[0] == b"content of a.txt"
        assert everything.scan(str(base / "outside"))

    def test_a_root_that_is_missing_or_a_link_cannot_be_used(self, folders, base):
        (base / "root" / "leads").symlink_to(base / "outside")
        for name in ("missing", "leads"):
            inner = folders.for_call(ToolContext(roots=(base / "root" / name,)))
            with pytest.raises(ToolError, match=r"deleted or replaced|outside of the folders"):
                inner.scan(name)


class TestObject:
    def test_it_has_no_descriptors_between_calls(self, base):
        before = open_descriptors()
        folders = ConfinedFolders(base / "root")
        folders.create("x/y.txt", b"x")
        folders.update("x/y.txt", lambda content, _: b"y", max_bytes=100)
        folders.scan("x")
        walking = walk(folders, ".")
        next(walking)
        del walking
        assert open_descriptors() <= before

    def test_its_repr_names_the_roots(self, folders, root):
        assert repr(folders) == f"<ConfinedFolders [{str(root)!r}] hard_links='read'>"
