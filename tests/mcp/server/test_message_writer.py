"""A MessageWriter writes all messages in order, and never blocks the event loop for a client that does not read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from ahvn_tools.mcp.server.stdio_messages import MessageWriter
from tests.mcp.serving import ENVIRONMENT, LONGEST

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="mcp writes the messages there")

MESSAGES = ["short\n", "größe\n", "x" * 300_000 + "\n", "short again\n"]
WHOLE = "".join(MESSAGES).encode()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


async def write_all(writer: MessageWriter) -> None:
    for message in MESSAGES:
        await writer.write(message)
        await writer.flush()


def read(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(descriptor, size - len(data))
    return data


@pytest.mark.parametrize("is_blocking", [True, False], ids=["blocking", "non-blocking"])
async def test_messages_of_all_sizes_arrive_in_order_though_the_client_reads_late(pipe, is_blocking):
    os.set_blocking(pipe[1], is_blocking)
    writing = asyncio.create_task(write_all(MessageWriter(pipe[1])))
    await asyncio.sleep(0.02)
    assert not writing.done(), "the pipe is too small"
    assert await asyncio.to_thread(read, pipe[0], len(WHOLE)) == WHOLE
    await writing


async def test_a_full_pipe_does_not_block_the_loop_even_for_a_short_message(pipe):
    os.set_blocking(pipe[1], False)
    size = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            size += os.write(pipe[1], b"x" * 4096)
    os.set_blocking(pipe[1], True)
    writer = MessageWriter(pipe[1])
    await writer.write("short\n")
    writing = asyncio.create_task(writer.flush())
    await asyncio.sleep(0.02)
    assert not writing.done()
    assert await asyncio.to_thread(read, pipe[0], size + 6) == b"x" * size + b"short\n"
    await writing


async def test_a_socket_gets_all_messages():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writing = asyncio.create_task(write_all(MessageWriter(ours.fileno())))
        assert await asyncio.to_thread(read, theirs.fileno(), len(WHOLE)) == WHOLE
        await writing


async def test_a_file_gets_all_messages(tmp_path):
    with (tmp_path / "out").open("wb") as file:
        await write_all(MessageWriter(file.fileno()))
    assert (tmp_path / "out").read_bytes() == WHOLE


@pytest.mark.parametrize("message", ["short\n", "x" * 300_000], ids=["short", "long"])
async def test_a_client_that_has_closed_its_end_is_an_error(pipe, message):
    os.close(pipe[0])
    writer = MessageWriter(pipe[1])
    await writer.write(message)
    with pytest.raises(BrokenPipeError):
        await writer.flush()


CLAIMING = """
import asyncio, os, sys
from ahvn_tools.mcp.server.standard_streams import claimed_stdout

opened = os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd") else []

async def write(writer):
    await writer.write("message\\n")
    await writer.flush()

with claimed_stdout() as writer:
    print("printed", flush=True)
    os.system("echo echoed")
    asyncio.run(write(writer))
print("after", flush=True)
assert not opened or os.listdir("/proc/self/fd") == opened
"""


def run_claiming(prepare: Callable[[], None] | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", CLAIMING]
    return subprocess.run(
        command,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=LONGEST,
        check=True,
        preexec_fn=prepare,  # it closes a descriptor
    )


def test_only_messages_reach_the_client_and_standard_output_is_restored():
    finished = run_claiming()
    assert finished.stdout == b"message\nafter\n"
    assert finished.stderr == b"printed\nechoed\n"


def test_without_standard_error_what_others_print_is_dropped():
    finished = run_claiming(lambda: os.close(2))
    assert finished.stdout == b"message\nafter\n"


def test_a_replaced_standard_output_is_left_to_mcp():
    code = """
import io, sys
from ahvn_tools.mcp.server.standard_streams import claimed_stdout
sys.stdout = io.StringIO()
with claimed_stdout() as writer:
    assert writer is None
"""
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, timeout=LONGEST, check=True)
