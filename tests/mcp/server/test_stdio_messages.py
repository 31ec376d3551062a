"""What a server over stdio reads and writes is whole, and never blocks its event loop for a client that is silent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest

from ahvn_tools.mcp.server.standard_streams import claimed_stdin
from ahvn_tools.mcp.server.stdio_messages import MessageWriter, StdioMessageReader
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


async def read_all(reader: StdioMessageReader) -> list[str]:
    return [line async for line in reader]


@pytest.fixture(params=["pipe", "socket", "file"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A descriptor to read from, and one to write to."""
    made: tuple[int, int]
    if request.param == "socket":
        one, other = socket.socketpair()
        made = one.detach(), other.detach()
    elif request.param == "pipe":
        made = os.pipe()
    else:
        (tmp_path / "messages").touch()
        made = os.open(tmp_path / "messages", os.O_RDONLY), os.open(tmp_path / "messages", os.O_WRONLY)
    yield made
    for descriptor in made:
        with contextlib.suppress(OSError):
            os.close(descriptor)


async def test_all_lines_arrive_in_order(ends, request):
    sending = asyncio.to_thread(send, ends[1], SENT)
    if "file" in request.node.name:  # whose end is where the writer has come to
        await sending
        assert await read_all(StdioMessageReader(ends[0])) == LINES
        return
    lines, _ = await asyncio.gather(read_all(StdioMessageReader(ends[0])), sending)
    assert lines == LINES


def test_the_null_device_has_no_lines():
    with Path(os.devnull).open() as null:
        assert asyncio.run(read_all(StdioMessageReader(null.fileno()))) == []


async def test_a_terminal_is_read_line_by_line():
    ours, theirs = pty.openpty()
    try:
        os.write(ours, "größe\n\nzwei\n".encode())
        lines = aiter(StdioMessageReader(theirs))
        assert [await anext(lines), await anext(lines)] == ["größe", "zwei"]
    finally:
        os.close(ours)
        os.close(theirs)


async def test_characters_that_arrive_in_parts_are_whole(pipe):
    lines = aiter(StdioMessageReader(pipe[0]))
    waiting = asyncio.ensure_future(anext(lines))
    for byte in "größe\n".encode():
        os.write(pipe[1], bytes([byte]))
        await asyncio.sleep(0.001)
    assert await waiting == "größe"


async def test_a_line_arrives_although_the_next_one_is_not_complete(pipe):
    os.write(pipe[1], b"one\ntw")
    lines = aiter(StdioMessageReader(pipe[0]))
    assert await anext(lines) == "one"
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    os.write(pipe[1], b"o\n")
    assert await waiting == "two"


async def test_several_lines_at_once_do_not_block_the_loop(pipe):
    lines: AsyncGenerator[str] = aiter(StdioMessageReader(pipe[0]))
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
        waiting = [
            asyncio.ensure_future(anext(aiter(StdioMessageReader(descriptor)))) for descriptor in (pipe[0], copy)
        ]
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
    reader = StdioMessageReader(pipe[0])
    reading = asyncio.ensure_future(read_all(reader))
    await asyncio.sleep(0.01)
    reader.stop()
    assert await reading == []
    reader.stop()
    assert not asyncio.get_running_loop().remove_reader(pipe[0]), "nothing is left in the loop"


async def test_stop_before_the_first_line_ends_the_lines(pipe):
    reader = StdioMessageReader(pipe[0])
    reader.stop()
    assert await read_all(reader) == []


async def test_stop_ends_the_lines_although_the_client_sends_more(pipe):
    reader, lines = StdioMessageReader(pipe[0]), []
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


MESSAGES = ["short\n", "größe\n", "x" * 300_000 + "\n", "short again\n"]
WHOLE = "".join(MESSAGES).encode()


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


async def test_all_messages_are_written(ends):
    writing = asyncio.create_task(write_all(MessageWriter(ends[1])))
    assert await asyncio.to_thread(read, ends[0], len(WHOLE)) == WHOLE
    await writing


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


def run_claiming(prepare: Callable[[], None] | None = None) -> tuple[bytes, bytes]:
    """Return what a process writes; `prepare` closes a descriptor of it."""
    command = [sys.executable, "-c", CLAIMING]
    ended = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, timeout=LONGEST, check=True, preexec_fn=prepare
    )
    return ended.stdout, ended.stderr


def test_only_messages_reach_the_client_and_standard_output_is_restored():
    assert run_claiming() == (b"message\nafter\n", b"printed\nechoed\n")
    assert run_claiming(lambda: os.close(2))[0] == b"message\nafter\n"  # what others print is dropped


def test_a_replaced_standard_output_is_left_to_mcp():
    code = """
import io, sys
from ahvn_tools.mcp.server.standard_streams import claimed_stdout
sys.stdout = io.StringIO()
with claimed_stdout() as writer:
    assert writer is None
"""
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, timeout=LONGEST, check=True)
