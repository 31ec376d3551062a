"""Resets in forked child processes."""

from __future__ import annotations

import gc
import os

import pytest

from ahvn_tools.after_fork import CAN_FORK, reset_after_fork

pytestmark = [
    pytest.mark.skipif(not CAN_FORK, reason="this platform does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

calls: list[str] = []


class Resource:
    """An object with a reset method."""

    def __init__(self, name: str) -> None:
        self.name = name

    def reset(self) -> None:
        calls.append(self.name)


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


def test_a_method_is_called_while_its_object_exists():
    resource = Resource("method")
    reset_after_fork(resource.reset)
    assert "method" in calls_in_a_child()
    del resource
    gc.collect()
    assert "method" not in calls_in_a_child()


def test_objects_register_nothing_with_the_system(monkeypatch: pytest.MonkeyPatch):
    registered: list[object] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **callbacks: registered.append(callbacks))
    resource = Resource("first")
    reset_after_fork(resource.reset)
    assert registered == []
    assert "first" in calls_in_a_child()


def test_a_reset_that_fails_does_not_keep_others_from_running():
    class Failing:
        def reset(self) -> None:
            raise ValueError("failed")

    failing, resource = Failing(), Resource("second")
    reset_after_fork(failing.reset)
    reset_after_fork(resource.reset)
    assert "second" in calls_in_a_child()
