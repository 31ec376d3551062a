"""Standard input has no empty lines, can be ended while a thread reads it, and is restored afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ahvn_tools.mcp.server.standard_streams import interruptible_stdin
from tests.mcp.serving import ENVIRONMENT, LONGEST

SCRIPT = """
import os, sys, threading
from ahvn_tools.mcp.server.standard_streams import interruptible_stdin

def count_descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0

before = sys.stdin
opened = count_descriptors()
with interruptible_stdin() as end:
    replacement = sys.stdin
    assert replacement is not before
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(replacement))
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
assert count_descriptors() == opened
print(lines, os.read(0, 100), flush=True)
"""


def run(**options: object) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SCRIPT], env=ENVIRONMENT, stdin=pipe, stdout=pipe, **options)


def test_ending_the_input_ends_the_thread_that_reads_it_and_closes_what_was_opened():
    with run() as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(b"\n\n \r\n" + "größe\n".encode() + b"\n" * 100_000 + b"zwei\n")
        started.stdin.flush()
        assert started.stdout.readline() == b"ready\n"
        output, _ = started.communicate(None, LONGEST)
    assert output.decode() == "['größe\\n', 'zwei\\n'] b''\n"
    assert started.returncode == 0


def count_descriptors() -> int:
    """Return the number of open file descriptors, on systems that list them."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_a_replaced_standard_input_is_unchanged():
    original = sys.stdin
    opened = count_descriptors()
    with interruptible_stdin() as end:
        assert sys.stdin is original
        end()
    assert sys.stdin is original
    assert count_descriptors() == opened
