"""A MessageReader yields each line that a client sends, and never blocks the event loop for one that is silent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from ahvn_tools.mcp.server.standard_streams import claimed_stdin
from ahvn_tools.mcp.server.stdio_messages import MessageReader
from tests.mcp.serving import ENVIRONMENT, LONGEST

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="mcp reads the messages there")

SENT = "one\r\ngröße\n".encode() + b"x" * 300_000 + b"\n\n \t\r\n" + b"\n" * 100_000 + b"not \xff UTF-8\nlast"
LINES = ["one\r", "größe", "x" * 300_000, "not \ufffd UTF-8", "last"]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def send(descriptor: int, data: bytes) -> None:
    """Write to a descriptor from a thread, and close it."""
    while data:
        data = data[os.write(descriptor, data) :]
    os.close(descriptor)


async def read_all(reader: MessageReader) -> list[str]:
    return [line async for line in reader]


async def test_all_lines_of_a_pipe_arrive_in_order(pipe):
    sending = asyncio.to_thread(send, pipe[1], SENT)
    lines, _ = await asyncio.gather(read_all(MessageReader(pipe[0])), sending)
    assert lines == LINES


async def test_all_lines_of_a_socket_arrive_in_order():
    ours, theirs = socket.socketpair()
    with ours:
        sending = asyncio.to_thread(send, theirs.detach(), SENT)
        lines, _ = await asyncio.gather(read_all(MessageReader(ours.fileno())), sending)
    assert lines == LINES


async def test_all_lines_of_a_file_arrive_in_order(tmp_path):
    path = tmp_path / "messages"
    path.write_bytes(SENT)
    with path.open("rb") as file:
        assert await read_all(MessageReader(file.fileno())) == LINES


def test_the_null_device_has_no_lines():
    with Path(os.devnull).open() as null:
        assert asyncio.run(read_all(MessageReader(null.fileno()))) == []


async def test_a_terminal_is_read_line_by_line():
    ours, theirs = pty.openpty()
    try:
        os.write(ours, "größe\n\nzwei\n".encode())
        lines = aiter(MessageReader(theirs))
        assert [await anext(lines), await anext(lines)] == ["größe", "zwei"]
    finally:
        os.close(ours)
        os.close(theirs)


async def test_characters_that_arrive_in_parts_are_whole(pipe):
    lines = aiter(MessageReader(pipe[0]))
    waiting = asyncio.ensure_future(anext(lines))
    for byte in "größe\n".encode():
        os.write(pipe[1], bytes([byte]))
        await asyncio.sleep(0.001)
    assert await waiting == "größe"


async def test_a_line_arrives_although_the_next_one_is_not_complete(pipe):
    os.write(pipe[1], b"one\ntw")
    lines = aiter(MessageReader(pipe[0]))
    assert await anext(lines) == "one"
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    os.write(pipe[1], b"o\n")
    assert await waiting == "two"


async def test_several_lines_at_once_do_not_block_the_loop(pipe):
    lines: AsyncGenerator[str] = aiter(MessageReader(pipe[0]))
    os.write(pipe[1], b"one\ntwo\n")
    assert [await anext(lines), await anext(lines)] == ["one", "two"]
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0.02)
    assert not waiting.done(), "the pipe is empty, and the loop goes on"
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not asyncio.get_running_loop().remove_reader(pipe[0]), "nothing is left in the loop"


async def test_a_pipe_that_another_reader_has_emptied_is_waited_for(pipe):
    os.set_blocking(pipe[0], False)
    copy = os.dup(pipe[0])
    try:
        waiting = [asyncio.ensure_future(anext(aiter(MessageReader(descriptor)))) for descriptor in (pipe[0], copy)]
        await asyncio.sleep(0.01)
        os.write(pipe[1], b"one\n")  # wakes both
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.02)
        assert sorted(task.done() for task in waiting) == [False, True]
        os.write(pipe[1], b"two\n")
        assert sorted(await asyncio.gather(*waiting)) == ["one", "two"]
    finally:
        os.close(copy)


async def test_stop_ends_the_lines_while_the_client_is_silent(pipe):
    reader = MessageReader(pipe[0])
    reading = asyncio.ensure_future(read_all(reader))
    await asyncio.sleep(0.01)
    reader.stop()
    assert await reading == []
    reader.stop()
    assert not asyncio.get_running_loop().remove_reader(pipe[0]), "nothing is left in the loop"


async def test_stop_before_the_first_line_ends_the_lines(pipe):
    reader = MessageReader(pipe[0])
    reader.stop()
    assert await read_all(reader) == []


async def test_stop_ends_the_lines_although_the_client_sends_more(pipe):
    reader, lines = MessageReader(pipe[0]), []
    os.write(pipe[1], b"one\n")
    async for line in reader:
        lines.append(line)
        os.write(pipe[1], b"more\n")
        reader.stop()
    assert lines == ["one"]


# claimed_stdin

SCRIPT = """
import asyncio, os, subprocess, sys
from ahvn_tools.mcp.server.standard_streams import claimed_stdin

opened = os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd") else []

async def read(reader):
    return [await anext(aiter(reader))]

with claimed_stdin() as reader:
    assert sys.stdin.read() == "" and os.read(0, 10) == b""
    assert subprocess.run(["cat"], capture_output=True).stdout == b""
    lines = asyncio.run(read(reader))
assert not opened or os.listdir("/proc/self/fd") == opened
print(lines, os.read(0, 100), flush=True)
"""


def test_only_the_reader_gets_what_the_client_sends_and_standard_input_is_restored():
    command, pipe = [sys.executable, "-c", SCRIPT], subprocess.PIPE
    with subprocess.Popen(command, env=ENVIRONMENT, stdin=pipe, stdout=pipe) as started:
        output, _ = started.communicate("größe\n".encode(), LONGEST)
    assert output.decode() == "['größe'] b''\n"
    assert started.returncode == 0


def test_a_replaced_standard_input_is_left_to_mcp():
    original = sys.stdin
    with claimed_stdin() as reader:
        assert reader is None
        assert sys.stdin is original
