"""Raw results of tools in worker processes: the value is sent back, and rendered in the calling process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.execution.workers.bodies import isolated


@dataclass
class Account:
    name: str = "Ann"
    pid: int = field(default_factory=os.getpid)


def account() -> Account:
    return Account()


def accounts() -> Iterator[Account]:
    yield Account()


def lock() -> Any:
    return threading.Lock()


def describe(value: Account) -> str:
    return f"{value.name}, {value.pid != os.getpid()}"


def test_the_value_is_sent_back_and_rendered_here() -> None:
    result = isolated(account, output="raw", render=describe).exec()
    assert (type(result.value), result.text) == (Account, "Ann, True")
    chunk, last = isolated(accounts, output="raw", render=describe).stream()
    assert (chunk.value, chunk.text, last.value, last.text) == (last.value[0], "Ann, True", [chunk.value], "Ann, True")


def test_a_value_that_cannot_be_sent_back_is_an_invalid_result() -> None:
    result = isolated(lock, output="raw").exec()
    assert (result.error.code, "return plain values" in str(result.exception)) == ("invalid_result", True)
