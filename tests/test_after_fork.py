"""Resets in forked child processes."""

from __future__ import annotations

import os

import pytest

from ahvn_tools.after_fork import CAN_FORK, reset_after_fork

pytestmark = [
    pytest.mark.skipif(not CAN_FORK, reason="this platform does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

calls: list[str] = []


def calls_in_a_child() -> list[str]:
    """Return the resets that run in a forked child, and none of the parent's."""
    calls.clear()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, " ".join(calls).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as output:
        names = output.read().split()
    os.waitpid(child, 0)
    assert calls == []
    return names


def test_a_function_is_called_in_the_child_only():
    @reset_after_fork
    def reset() -> None:
        calls.append("function")

    assert "function" in calls_in_a_child()
