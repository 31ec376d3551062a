"""A locked file: one at a time, threads and processes alike, and never for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from ahvn_tools.errors import ToolkitError
from ahvn_tools.mcp.trust.file_lock import file_lock

HOLDER = """
import sys, time
from pathlib import Path
from ahvn_tools.mcp.trust.file_lock import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_thread_waits_for_the_first(tmp_path):
    path, inside, most = tmp_path / "a.lock", 0, 0
    guard = threading.Lock()

    def work():
        nonlocal inside, most
        with file_lock(path):
            with guard:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with guard:
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_another_process_holds_it_until_it_ends_however_it_ends(tmp_path):
    path = tmp_path / "pins"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(ToolkitError, match=r"locked for 0\.1 seconds"), file_lock(path, 0.1):
                pass
        finally:
            holder.kill()
    with file_lock(path, 5):
        pass


def test_an_error_inside_lets_go(tmp_path):
    with pytest.raises(ZeroDivisionError), file_lock(tmp_path / "a"):
        raise ZeroDivisionError
    with file_lock(tmp_path / "a", 0.1):
        pass


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ToolkitError, match="cannot be written"), file_lock(tmp_path / "no" / "a"):
        pass
