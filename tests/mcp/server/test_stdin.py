"""Standard input can be ended under a thread that reads it, and is put back as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ahvn_tools.mcp.server.stdin import interruptible_stdin
from tests.mcp.serving import ENVIRONMENT, LONGEST

SCRIPT = """
import os, sys, threading
from ahvn_tools.mcp.server.stdin import interruptible_stdin

before = sys.stdin
with interruptible_stdin() as end:
    wire = sys.stdin
    assert wire is not before
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(wire))
    reader.start()
    print("ready", flush=True)
    while len(lines) < 2:
        reader.join(0.01)
    assert sys.stdin is before
    assert sys.stdin.read() == "" and os.read(0, 10) == b""
    end()
    reader.join(5)
    assert not reader.is_alive()
    end()
assert sys.stdin is before
print(lines, os.read(0, 100), flush=True)
"""


def run(**options: object) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SCRIPT], env=ENVIRONMENT, stdin=pipe, stdout=pipe, **options)


def test_a_reading_thread_is_ended_and_the_rest_is_left_where_it_was():
    with run() as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write("größe\nzwei\n".encode())
        started.stdin.flush()
        assert started.stdout.readline() == b"ready\n"
        told, _ = started.communicate(None, LONGEST)
    assert told.decode() == "['größe\\n', 'zwei\\n'] b''\n"
    assert started.returncode == 0


def descriptors() -> int:
    """Count the open file descriptors, where the system tells."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_an_input_that_is_not_the_processs_own_stays():
    kept = sys.stdin
    opened = descriptors()
    with interruptible_stdin() as end:
        assert sys.stdin is kept
        end()
    assert sys.stdin is kept
    assert descriptors() == opened
