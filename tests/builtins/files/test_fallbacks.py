"""What is done on systems without some calls: renames by a link, and locks within one process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ahvn_tools.builtins.files import atomic_write
from ahvn_tools.builtins.files.atomic_write import locked_folder

RENAMES = {"renameat2": atomic_write.rename_exclusive, "by a link": atomic_write.rename_by_link}


@pytest.fixture
def folder(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("rename", RENAMES.values(), ids=RENAMES)
def test_renames_move_files_folders_and_links(tmp_path, folder, rename):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("missing")
    for name in ("file", "folder", "link"):
        rename(folder, name, folder, f"new {name}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new file", "new folder", "new link"]
    assert (tmp_path / "new link").readlink() == Path("missing")
    assert (tmp_path / "new file").stat().st_nlink == 1


@pytest.mark.parametrize("rename", RENAMES.values(), ids=RENAMES)
def test_renames_never_overwrite(tmp_path, folder, rename):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("missing")
    for source in ("file", "folder", "link"):
        for target in ("file", "empty", "link"):
            with pytest.raises(FileExistsError):
                rename(folder, source, folder, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "folder", "link"]


@pytest.mark.parametrize("rename", RENAMES.values(), ids=RENAMES)
def test_renames_of_nothing_are_an_error(folder, rename):
    with pytest.raises(FileNotFoundError):
        rename(folder, "missing", folder, "target")


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="every descriptor of a folder can be locked here")
def test_folders_without_locks_are_locked_within_the_process(tmp_path):
    """A descriptor that was opened for its path alone cannot be locked, as a folder on NFS cannot."""
    descriptor = os.open(tmp_path, os.O_PATH)
    waits, entered = threading.Event(), threading.Event()

    def enter():
        with locked_folder(descriptor, is_cancelled=waits.set) as is_shared:
            assert not is_shared
            entered.set()

    second = threading.Thread(target=enter)
    with locked_folder(descriptor) as is_shared:
        assert not is_shared
        second.start()
        assert waits.wait(30)
        assert not entered.is_set()
    assert entered.wait(30)
    second.join()
    os.close(descriptor)


def test_a_system_whose_descriptors_do_not_lead_further_is_refused(tmp_path):
    program = (
        "import os, sys; os.supports_dir_fd.discard(os.open);"
        "from ahvn_tools.builtins.files.folders import ConfinedFolders; ConfinedFolders(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "DefinitionError: The built-in file tools need Linux or macOS" in done.stderr
