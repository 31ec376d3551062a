"""A link of a body to its caller: answers reach who waits, nothing waits after a cancellation, and a clock stops."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ahvn_tools.errors import CallCancelledError
from ahvn_tools.execution.workers.link import Link
from tests.execution.entry_points import until


class SentLink(Link):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        super().__init__(self.sent.append)


@pytest.mark.parametrize("is_early", [True, False])
def test_cancelling_calls_the_function_whenever_that_was_given(is_early):
    link, called = SentLink(), threading.Event()
    for step in (
        (link.cancel, lambda: link.on_cancel(called.set))
        if is_early
        else (lambda: link.on_cancel(called.set), link.cancel)
    ):
        step()
    assert called.is_set()
    assert link.is_cancelled


@pytest.mark.parametrize(("method", "count"), [("send_chunk", 1), ("ask", 2)], ids=["chunk", "questions"])
def test_what_waits_and_what_would_wait_raises_after_a_cancellation(method, count):
    link = SentLink()
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(getattr(link, method), b"x") for _ in range(count)]
        assert until(lambda: link.sent)
        link.cancel()
        for future in waiting:
            with pytest.raises(CallCancelledError):
                future.result(10)
    with pytest.raises(CallCancelledError):
        getattr(link, method)(b"y")


def test_a_request_for_a_chunk_does_not_answer_a_question_nor_the_other_way():
    link = SentLink()
    with ThreadPoolExecutor(2) as threads:
        chunk, question = threads.submit(link.send_chunk, b"chunk"), threads.submit(link.ask, b"question")
        assert until(lambda: len(link.sent) == 2)
        link.answer(b"yes")
        assert question.result(10) == b"yes"
        assert not chunk.done()
        link.answer(b"")
        assert chunk.result(10) is None


def test_a_second_question_is_sent_when_the_first_one_was_answered():
    link = SentLink()
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(link.ask, question) for question in (b"1", b"2")]
        for number in (1, 2):
            assert until(lambda: len(link.sent) == number)
            link.answer(b"to " + link.sent[-1])
        assert [future.result(10) for future in asked] == [b"to 1", b"to 2"]


def answer_late(link: Link, *answers: bytes) -> None:
    for answer in answers:
        threading.Event().wait(0.35)
        link.answer(answer)


def test_the_clock_stops_while_the_body_waits_for_its_caller():
    link, expired = SentLink(), threading.Event()
    with ThreadPoolExecutor(1) as caller, link.limited(0.6, expired.set):
        caller.submit(answer_late, link, b"", b"answer")
        link.send_chunk(b"chunk")
        assert link.ask(b"question") == b"answer"
        link.send(b"output")
        assert not expired.is_set()
        assert expired.wait(5)
    assert link.sent == [b"chunk", b"question", b"output"]


@pytest.mark.parametrize("seconds", [None, 0.2], ids=["no limit", "limit"])
def test_after_the_block_nothing_expires(seconds):
    link, expired = SentLink(), threading.Event()
    with link.limited(seconds, expired.set):
        pass
    assert not expired.wait(0.25)


def test_the_time_before_a_wait_counts():
    link, expired = SentLink(), threading.Event()
    with link.limited(0.3, expired.set):
        for _ in range(8):
            threading.Event().wait(0.1)  # the body works
            link.answer(b"")
            link.send_chunk(b"chunk")
    assert expired.is_set()
