"""What a body writes to the pipe of its worker is never taken for the answer of another call."""

from __future__ import annotations

import os
import pickle
import threading
import time

import pytest

from ahvn_tools.execution.isolation import protocol
from tests.execution.entry_points import until
from tests.execution.isolation.bodies import is_gone, isolated
from tests.execution.isolation.leaving import find_pipes, get_pid, write_to

pytestmark = pytest.mark.timeout(120)

FORGED = protocol.make_call_id() + len(pickled := pickle.dumps(("value", False, "forged"))).to_bytes(8, "big") + pickled


def test_a_frame_has_the_id_of_its_call() -> None:
    reading, writing = os.pipe()
    try:
        first, second = protocol.make_call_id(), protocol.make_call_id()
        protocol.write_frames(writing, first, b"text")
        assert protocol.read_frame(reading, first) == (first, b"text")
        protocol.write_frames(writing, first, b"text")
        with pytest.raises(protocol.ForeignFrameError):
            protocol.read_frame(reading, second)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows numbers descriptors in order")
def test_the_pipe_has_no_low_number() -> None:
    def body() -> int:
        write_to(range(3, 256), FORGED)
        return os.getpid()

    assert isolated(body)() == isolated(get_pid)()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="a body cannot list its descriptors")  # noqa: PTH112  # a constant
class TestForgedFrames:
    def test_during_its_own_call_they_end_the_worker(self) -> None:
        def body() -> int:
            write_to(find_pipes(), FORGED)
            return os.getpid()

        error = isolated(body).exec().error
        assert error.code == "connection"
        assert "killed, as it sent data that is not part of the call" in error.message
        assert isolated(get_pid)() != os.getpid()

    @pytest.mark.parametrize("content", [FORGED, protocol.READY, b"x" * 100], ids=["answer", "short", "text"])
    @pytest.mark.default_cases(1)
    def test_before_the_next_call_they_are_dropped_with_the_worker(self, content: bytes) -> None:
        def body(content: str) -> int:
            def write() -> None:
                time.sleep(0.2)
                write_to(find_pipes(), bytes.fromhex(content))

            threading.Thread(target=write, name="ahvn-tools-worker", daemon=True).start()
            return os.getpid()

        pid = isolated(body)(content=content.hex())
        time.sleep(0.5)
        assert isolated(get_pid, timeout=60)() not in {pid, os.getpid()}
        assert until(lambda: is_gone(pid))

    def test_during_the_next_call_they_are_an_error(self) -> None:
        def body(content: str) -> int:
            def write() -> None:
                time.sleep(0.2)
                write_to(find_pipes(), bytes.fromhex(content))

            threading.Thread(target=write, name="ahvn-tools-worker", daemon=True).start()
            return os.getpid()

        def greet() -> str:
            time.sleep(600)
            return "hello"

        isolated(body)(content=FORGED.hex())
        assert isolated(greet, timeout=60).exec().error.code == "connection"
