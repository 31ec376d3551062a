"""A `RunningProcess` runs while others work, and ends when it must."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits
from ahvn_tools.builtins.processes.private_folder import clean_environment
from ahvn_tools.builtins.processes.process import RunningProcess
from ahvn_tools.errors import ToolError
from tests.builtins.processes.left_over import open_descriptors, survivors, wait_until_none_survives

ECHO = ("sh", "-c", 'while read line; do echo "got $line"; done')


def read_until(process, *texts):
    """Return all that the process writes until it has written the texts."""
    seen = ""
    deadline = time.monotonic() + 60
    while not all(text in seen for text in texts) and time.monotonic() < deadline:
        process.wait_for_output(1)
        seen += "".join(process.read_new())
    return seen


def test_a_session_answers_what_is_written_to_it(start, confinement):
    process = start(*ECHO, confinement=confinement)

    process.write(b"one\n")
    assert read_until(process, "one") == "got one\n"
    process.write(b"two\n")
    assert read_until(process, "two") == "got two\n"
    assert process.is_running


def test_news_are_read_once_and_from_both_streams(start, confinement):
    process = start("sh", "-c", "echo out; echo err >&2; read line; echo more", confinement=confinement)

    assert sorted(read_until(process, "err", "out").split()) == ["err", "out"]
    assert process.read_new() == ("", "")
    process.write(b"\n")
    assert read_until(process, "more") == "more\n"


def test_the_end_of_a_process_has_all_of_its_output(start, confinement):
    process = start("sh", "-c", "echo out; echo err >&2; exit 4", confinement=confinement)

    result = process.wait(60)

    assert (result.exit_code, result.ended_by) == (4, "exit")
    assert (result.stdout.text, result.stderr.text) == ("out\n", "err\n")
    assert not process.is_running
    assert process.read_new() == ("out\n", "err\n")
    assert process.stop() is process.wait(0) is result


def test_waiting_ends_at_its_timeout_and_when_cancelled(start):
    process = start("sleep", "1000")

    assert process.wait(0.1) is None
    assert process.wait(60, is_cancelled=lambda: True) is None
    assert not process.wait_for_output(0.1)
    assert process.is_running


def test_stopping_ends_everything(start, confinement, mark):
    process = start("sh", "-c", "setsid sleep 1000 & echo ready; sleep 1000", confinement=confinement)
    read_until(process, "ready")

    result = process.stop()

    assert (result.exit_code, result.ended_by, result.stdout.text) == (None, "stopped", "ready\n")
    assert survivors(mark) == []
    assert process.stop() is result


def test_a_process_ends_at_its_timeout(start, confinement, mark):
    result = start("sleep", "1000", timeout=0.2, confinement=confinement).wait(60)

    assert (result.exit_code, result.ended_by) == (None, "timeout")
    assert survivors(mark) == []


def test_a_process_ends_when_nobody_refers_to_it(tmp_path, mark):
    process = _new(tmp_path, mark)
    assert process.is_running

    del process
    gc.collect()

    assert wait_until_none_survives(mark) == []
    for thread in threading.enumerate():
        if thread.name == "process reader":
            thread.join(30)
            assert not thread.is_alive()


def test_nothing_is_left_open_after_the_end(tmp_path, mark):
    descriptors, threads = open_descriptors(), threading.active_count()
    process = _new(tmp_path, mark)

    process.stop()

    assert open_descriptors() == descriptors
    assert threading.active_count() == threads


def test_output_that_nobody_reads_does_not_stop_the_process(start, confinement):
    process = start("sh", "-c", "seq 2000000; sleep 1000", kept_bytes=10_000, spooled_bytes=0, confinement=confinement)

    while not process.read_new()[0].endswith("2000000\n"):
        assert process.is_running
        process.wait_for_output(1)


def test_news_of_much_output_have_their_beginning_and_end(start):
    process = start("seq", "100000", kept_bytes=1000, spooled_bytes=0)
    process.wait(60)

    news = process.read_new()[0]

    assert news.startswith("1\n2\n")
    assert "bytes left out" in news
    assert news.endswith("100000\n")
    assert len(news) < 1100


def test_much_input_is_written_while_the_process_reads(start, confinement):
    process = start("sh", "-c", "head -c 5000000 | wc -c", confinement=confinement)

    process.write(b"x" * 5_000_000)

    assert process.wait(60).stdout.text.split() == ["5000000"]


def test_writing_to_a_process_that_does_not_read_can_be_cancelled(start):
    process = start("sleep", "1000")
    asked = []

    process.write(b"x" * 1_000_000, is_cancelled=lambda: len(asked) > 5 or asked.append(1))

    assert process.is_running


def test_writing_to_a_process_that_has_ended_is_an_error(start):
    process = start("true")
    process.wait(60)

    with pytest.raises(ToolError, match="has ended"):
        process.write(b"x")


def test_writing_to_a_closed_input_is_an_error(start):
    process = start("sh", "-c", "exec <&-; echo closed; sleep 1000")
    read_until(process, "closed")

    with pytest.raises(ToolError, match="does not read its input"):
        for _ in range(1000):  # its supervisor may close its copy of the input a moment later
            process.write(b"x")
            time.sleep(0.05)


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "./no-such-program"])
def test_a_program_that_does_not_exist_is_an_error(start, confinement, program):
    with pytest.raises(ToolError, match="could not be started: No such file or directory"):
        start(program, confinement=confinement)


def test_a_process_that_kills_its_supervisor_is_stopped(start, mark):
    process = start("sh", "-c", "setsid sleep 1000 & kill -9 $PPID; sleep 1000")

    assert process.wait(60).ended_by == "stopped"
    assert survivors(mark) == []


def _new(tmp_path, mark):
    return RunningProcess(
        ["sleep", "1000"], folder=tmp_path, confinement=Confinement(), limits=ProcessLimits(),
        environment=clean_environment(MARK=mark),
    )  # fmt: skip
