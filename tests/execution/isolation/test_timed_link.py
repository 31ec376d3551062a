"""The clock of a body in another process stops while it waits for its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ahvn_tools.execution.isolation.timed_link import TimedLink


class SlowLink:
    """A link whose caller takes a long time."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        cancel()

    def send(self, reply: bytes) -> None:
        self.sent.append(reply)

    def send_chunk(self, reply: bytes) -> None:
        self.sent.append(reply)
        threading.Event().wait(0.15)

    def ask(self, question: bytes) -> bytes:
        self.send_chunk(question)
        return b"answer"


def test_the_clock_stops_while_the_body_waits_for_its_caller():
    link, expired = SlowLink(), threading.Event()
    with TimedLink(link, 0.1, expired.set) as timed:
        timed.send_chunk(b"chunk")
        assert timed.ask(b"question") == b"answer"
        timed.send(b"output")
        assert not expired.is_set()
        assert expired.wait(5)
    assert link.sent == [b"chunk", b"question", b"output"]


@pytest.mark.parametrize("seconds", [None, 0.2], ids=["no limit", "limit"])
def test_after_the_block_nothing_expires(seconds):
    expired, cancelled = threading.Event(), threading.Event()
    with TimedLink(SlowLink(), seconds, expired.set) as timed:
        timed.on_cancel(cancelled.set)
    assert cancelled.is_set()
    assert not expired.wait(0.25)


def test_the_time_before_a_wait_counts():
    expired = threading.Event()
    with TimedLink(SlowLink(), 0.3, expired.set) as timed:
        for _ in range(8):
            threading.Event().wait(0.1)  # the body works
            with timed._paused():
                assert timed._timer is None
    assert expired.is_set()
