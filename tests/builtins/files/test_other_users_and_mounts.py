"""What a user may do who is not root, and file systems that are mounted in a root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

NOBODY = 65534
OTHER_OWNER = (
    "The file belongs to another user, and would belong to the user of this tool after the change. It was not changed. "
    "Ask the user to change the file, or its owner."
)
SCRIPT = """
import os, sys
from pathlib import Path
from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.walk import walk
from ahvn_tools.errors import ToolError
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
folders = ConfinedFolders(sys.argv[1])
def attempt(operation):
    try:
        return operation()
    except ToolError as error:
        return str(error)
print(attempt(lambda: folders.read("unreadable.txt", max_bytes=100)))
print(attempt(lambda: folders.status("unreadable.txt").size))
print(attempt(lambda: folders.create("locked/x.txt", b"x")))
print(attempt(lambda: folders.delete("locked/a.txt")))
print(attempt(lambda: folders.scan("closed")))
for name in ("own.txt", "readable.txt", "shared.txt"):
    print(attempt(lambda: folders.update(name, lambda content, status: content + b"!", max_bytes=100).mode))
print([file.path for file in walk(folders, ".")])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start programs of another user")
def test_a_user_without_permissions_gets_clear_errors():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o777)
        for name in ("locked", "closed"):
            (root / name).mkdir()
            (root / name / "a.txt").write_text("a")
        (root / "closed").chmod(0)
        for name, mode in {
            "unreadable.txt": 0o600,
            "own.txt": 0o664,
            "readable.txt": 0o664,
            "shared.txt": 0o666,
        }.items():
            (root / name).write_text(name)
            (root / name).chmod(mode)
        os.chown(root / "own.txt", NOBODY, -1)
        program = [sys.executable, "-c", SCRIPT, folder, str(NOBODY)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        denied = "cannot be used: the system denies the permission."
        assert done.stdout.splitlines() == [
            f"'unreadable.txt' {denied}",
            "14",
            f"'locked/x.txt' {denied}",
            f"'locked/a.txt' {denied}",
            f"'closed' {denied}",
            str(0o644),  # the group could not be kept
            "'readable.txt' is read-only, so it was not changed. Ask the user to make it writable.",
            OTHER_OWNER,
            "['locked/a.txt', 'own.txt', 'readable.txt', 'shared.txt', 'unreadable.txt']",
        ], done.stderr
        assert (root / "own.txt").read_text() == "own.txt!"
        assert [(root / name).stat().st_uid for name in ("own.txt", "readable.txt", "shared.txt")] == [NOBODY, 0, 0]
        assert (root / "shared.txt").read_text() == "shared.txt"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_file_system_that_is_mounted_in_a_root_is_a_part_of_it(base):
    (base / "root" / "mount").mkdir()
    (base / "outside" / "in.txt").write_text("mounted")
    script = (
        "import sys; from ahvn_tools.builtins.files.folders import ConfinedFolders;"
        "folders = ConfinedFolders(sys.argv[1]);"
        "print(folders.read('mount/in.txt', max_bytes=100)[0]); folders.create('mount/new.txt', b'new')"
    )
    mount = ["bwrap", "--dev-bind", "/", "/", "--bind", str(base / "outside"), str(base / "root" / "mount")]
    program = [*mount, sys.executable, "-c", script, str(base / "root")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if "bwrap:" in done.stderr:
        pytest.skip("bubblewrap does not work here")
    assert done.stdout == "b'mounted'\n", done.stderr
    assert (base / "outside" / "new.txt").read_text() == "new"
