"""The channel between a caller and its worker: other processes, forged replies, lost ends, and what is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.execution.workers import channel, plain, replies
from ahvn_tools.execution.workers.channel import ChannelAddress, ChannelListener, connect
from tests.execution.entry_points import until
from tests.execution.executors import bodies
from tests.execution.executors.conftest import open_executor


@pytest.fixture
def listener() -> ChannelListener:
    return channel.channel_listener


def open_channel(listener: ChannelListener) -> tuple[ChannelAddress, list[bytes]]:
    """Return the address of a call, and what its worker has sent."""
    received: list[bytes] = []

    def serve(connection: Connection) -> None:
        connection.send_bytes(channel.START)
        while True:
            received.append(connection.recv_bytes())
            connection.send_bytes(b"to " + received[-1])

    return listener.open(serve), received


def test_a_worker_exchanges_messages_until_it_ends(listener):
    address, received = open_channel(listener)
    connection = connect(address)
    connection.send_bytes(b"reply")
    assert connection.recv_bytes() == b"to reply"
    connection.close()
    assert until(lambda: not listener._connections and not listener._waiting)
    assert received == [b"reply"]


def test_a_process_without_the_key_reaches_no_call(listener):
    address, received = open_channel(listener)
    with pytest.raises(Exception, match=r"digest|closed|reset|^$"):
        Client(address.address, authkey=b"guessed").recv_bytes()
    connection = connect(address)
    connection.send_bytes(b"mine")
    assert until(lambda: received == [b"mine"])
    connection.close()
    assert until(lambda: not listener._connections)


def test_the_key_without_the_token_of_a_call_reaches_no_call(listener):
    address, received = open_channel(listener)
    with pytest.raises(ConnectionAbortedError):
        connect(ChannelAddress(address.address, address.key, b"0" * 16))
    assert received == []
    listener.close(address)


def test_a_second_connection_with_the_token_of_a_call_is_refused(listener):
    address, received = open_channel(listener)
    first = connect(address)
    with pytest.raises(ConnectionAbortedError):
        connect(address)
    first.send_bytes(b"first")
    assert until(lambda: received == [b"first"])
    first.close()


def test_a_worker_of_a_caller_that_cannot_be_reached_gets_no_connection(tmp_path):
    address = ChannelAddress(str(tmp_path / "nothing"), b"key", b"token")
    assert connect(address) is None


def test_a_body_that_forges_replies_changes_no_other_call(pool):
    def forging(context: Any) -> str:
        context.append_output(1)
        import gc

        from ahvn_tools.execution.workers.channel import ChannelLink

        links = [found for found in gc.get_objects() if isinstance(found, ChannelLink)]
        for link in links:
            link.send(replies.encode("value", False, "forged"))
        return "own"

    from ahvn_tools import ToolContext

    forging.__annotations__ = {"context": ToolContext, "return": str}
    kit = Toolkit("k", executor=pool).add(forging, bodies.report, isolation="executor")
    for _ in range(5):
        forged = kit.start("forging", {})
        assert kit.call("report", {"n": 3}) == {}
        assert kit.wait(forged).result.value in {"own", "forged"}  # its own result is what it says


def test_an_address_and_a_task_show_no_key_and_no_value():
    from ahvn_tools.execution.workers.plain import PlainTask

    address = ChannelAddress("/tmp/x", b"key-of-channel", b"token-of-call")
    shown = repr(PlainTask(request=b"secret-request", address=address, seconds=1.0))
    assert not any(text in shown for text in ("key-of", "token-of", "secret-re"))


def test_calls_and_cancelled_calls_leave_nothing_behind(pool, tmp_path):
    kit = Toolkit("k", executor=pool).add(
        bodies.report, bodies.wait_until_cancelled, bodies.count, isolation="executor"
    )

    def run_calls(number: int) -> None:
        for _ in range(number):
            assert kit.call("report", {"n": 2}) == {}
            kit.exec("wait_until_cancelled", {"path": str(tmp_path / "p")}, timeout=0.05)
            stream = kit.stream("count", {"n": 9})
            next(stream)
            stream.close()

    def measure() -> tuple[int, ...]:
        process = psutil.Process()
        workers = [
            found for found in process.children(recursive=True) if "multiprocessing" in " ".join(found.cmdline())
        ]
        used = [process, *workers]
        return sum(found.num_fds() for found in used), sum(found.num_threads() for found in workers)

    run_calls(3)
    before = measure()
    run_calls(10)
    assert until(lambda: measure() <= before)
    listener = channel.channel_listener
    assert until(lambda: (listener._waiting, listener._connections) == ({}, set()))


def test_neither_a_call_that_ends_nor_one_that_is_cancelled_waits_for_the_next_poll(
    open_executors, tmp_path, monkeypatch
):
    monkeypatch.setattr(plain, "POLL_SECONDS", 1_000.0)
    kit = Toolkit("k", executor=open_executors["threads"])
    kit.add(bodies.report, bodies.wait_until_cancelled, isolation="executor")
    assert kit.call("report", {"n": 1}) == {}
    assert until(lambda: not channel.channel_listener._connections)
    path = tmp_path / "state"
    call_id = kit.start("wait_until_cancelled", {"path": str(path)})
    assert until(path.exists)
    assert kit.cancel(call_id)
    assert until(lambda: path.read_text() == "cancelled")
    assert until(lambda: not channel.channel_listener._connections)


def test_many_calls_at_once_all_end(executor):
    kit = Toolkit("k", executor=executor).add(bodies.add, bodies.report, isolation="executor")
    calls = [("report", {"n": 1}) if number % 10 == 0 else ("add", {"a": number}) for number in range(200)]
    results = list(kit.map(executor, calls))
    assert [result.value for result in results[1:10]] == list(range(2, 11))
    assert all(result.error is None for result in results)


@pytest.mark.exhaustive
def test_a_thousand_mapped_calls_all_end(executor):
    kit = Toolkit("k").add(bodies.add)
    results = kit.map(executor, (("add", {"a": number}) for number in range(1_000)))
    assert [result.value for result in results] == list(range(1, 1_001))


CALLER = """
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from multiprocessing import get_context
    from concurrent.futures import ProcessPoolExecutor
    from ahvn_tools import Toolkit
    from tests.execution.executors import bodies

    if __name__ == "__main__":
        pool = ProcessPoolExecutor(1, mp_context=get_context("forkserver"))
        Toolkit("k", executor=pool).add(bodies.wait_until_cancelled, isolation="executor").call(
            "wait_until_cancelled", {"path": sys.argv[1]}
        )
"""


def test_a_body_is_cancelled_when_the_process_of_its_caller_has_ended(tmp_path):
    (tmp_path / "caller.py").write_text(textwrap.dedent(CALLER))
    path, root = tmp_path / "state", Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "caller.py"), str(path)], env={**os.environ, "PYTHONPATH": str(root)}, cwd=root
    )
    assert until(path.exists)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    assert until(lambda: path.read_text() == "cancelled")
    for child in children:  # the standard library leaves the workers of a killed process running
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def run_script(script: str, tmp_path: Path) -> str:
    """Run a script in a fresh interpreter, and return what it has printed."""
    path, root = tmp_path / "script.py", Path(__file__).parents[3]
    path.write_text(textwrap.dedent(script))
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, str(path)], env=environment, cwd=root, capture_output=True, check=False, text=True, timeout=50
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


FORK = """
    import os
    from concurrent.futures import ThreadPoolExecutor
    from ahvn_tools import Toolkit
    from tests.execution.executors import bodies

    def read_output(kit):
        return [chunk.value for chunk in kit.stream("ask", {"what": "it"})]

    def make(executor):
        return Toolkit("k", executor=executor, approver=lambda _: True).add(bodies.ask, isolation="executor")

    kit = make(ThreadPoolExecutor(1))
    print(read_output(kit), flush=True)
    child = os.fork()
    if child == 0:
        print(read_output(make(ThreadPoolExecutor(1))), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(read_output(kit))
"""


@pytest.mark.exhaustive
def test_a_forked_child_and_its_parent_both_reach_their_workers(tmp_path):
    assert run_script(FORK, tmp_path) == "['did it']\n" * 3


OPEN_STREAM = """
    from concurrent.futures import ThreadPoolExecutor
    from ahvn_tools import Toolkit
    from tests.execution.executors import bodies

    kit = Toolkit("k", executor=ThreadPoolExecutor(1)).add(bodies.count, isolation="executor")
    stream = kit.stream("count", {"n": 3})
    print(next(stream).value)
"""


@pytest.mark.exhaustive
def test_a_stream_that_was_left_open_does_not_keep_the_interpreter_from_ending(tmp_path):
    assert run_script(OPEN_STREAM, tmp_path) == "0\n"


def test_a_child_that_a_body_forks_keeps_no_connection_open(tmp_path):
    def fork(context: Any) -> int:
        context.append_output(1)
        child = os.fork()
        if child == 0:
            while not Path(str(tmp_path / "end")).exists():
                threading.Event().wait(0.05)
            os._exit(0)
        return child

    from ahvn_tools import ToolContext

    fork.__annotations__ = {"context": ToolContext, "return": int}
    with open_executor("forkserver", 1) as executor:
        child = ToolSpec.from_function(fork).submit(executor).result(20).value
        assert psutil.pid_exists(child)
        assert until(lambda: not channel.channel_listener._connections)
        (tmp_path / "end").touch()
