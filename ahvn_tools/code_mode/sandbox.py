"""Sandbox: what runs programs. A program sees nothing of the host: it stops at each call, and the host answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ahvn_tools.code_mode.code_limits import CodeLimits


@dataclass(frozen=True, kw_only=True)
class SandboxProgram:
    """A program, and what it may use."""

    code: str
    stubs: str
    """Declarations of the functions that it may call, which are type-checked before it runs."""
    functions: Collection[str]
    """The names of these functions."""
    limits: CodeLimits
    awaits: bool
    """Whether it awaits its calls."""


@dataclass(frozen=True)
class Value:
    """The answer to a call: what the function returns in the program."""

    value: Any


@dataclass(frozen=True)
class Failure:
    """The answer to a call: the text of the RuntimeError that the function raises in the program."""

    message: str


@dataclass(frozen=True)
class Later:
    """The answer to a call: the function returns an awaitable, which `settle` answers."""


Answer = Value | Failure


@dataclass(frozen=True, kw_only=True)
class FunctionCall:
    """The program has called a function, and stands still until `answer`."""

    id: int
    function: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_awaited: bool = False
    """Whether the program awaits it at once and has nothing else to do, so that `answer` need not be Later first."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """All of the program waits for calls that were answered with Later; it stands still until `settle`."""

    ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The program has ended."""

    value: Any
    """The value of its last expression; None without one."""


Event = FunctionCall | Waiting | Finished


class ProgramError(Exception):
    """The program is wrong or has failed; the text is for the model."""


class InvalidProgramError(ProgramError):
    """The program was not started: its syntax or a type is wrong."""


class SandboxError(ProgramError):
    """The sandbox has failed, and not the program: its process has ended, or there is no free one."""


class SandboxBusyError(SandboxError):
    """No program can start now, and this one has not: it may continue later."""


class SandboxSession(Protocol):
    """One program. One task calls its methods, one at a time, and never after one that raised.

    They raise ProgramError when the program fails, with a text for the model, and SandboxError when the sandbox does:
    `start` and `restore` raise SandboxBusyError when the program may begin or continue later.
    They must not block the event loop, and must end in a limited time. A method that is cancelled ends the program.
    """

    async def start(self, program: SandboxProgram, write: Callable[[str], None]) -> Event:
        """Run the program to its first event. `write` receives what it prints, from any thread."""

    async def restore(self, snapshot: bytes, functions: Collection[str], write: Callable[[str], None]) -> Event:
        """Continue a program where `snapshot` was made, and return the event of that moment with the same ids.

        It is called instead of `start`. The snapshot is one that this version has made, and was not changed.
        """

    async def answer(self, answer: Answer | Later) -> Event:
        """Answer the FunctionCall, and run to the next event. The answer to an awaited call is not Later."""

    async def settle(self, answers: Mapping[int, Answer]) -> Event:
        """Answer at least one of the calls that the program waits for, and run to the next event."""

    async def snapshot(self) -> bytes:
        """Return the whole state of the program, which stands still and can go on afterwards."""


@runtime_checkable
class Sandbox(Protocol):
    """Runs programs that are not trusted, so that they reach nothing of the host.

    Several toolkits, event loops and threads may use one at the same time.
    """

    @property
    def version(self) -> str:
        """The format of its snapshots: a program continues only in a sandbox with an equal version."""

    def open(self, limits: CodeLimits) -> AbstractAsyncContextManager[SandboxSession]:
        """Return the context of one program. Leaving it ends the program, also in the middle of a call.

        The sandbox enforces the `seconds`, `memory_bytes` and `recursion` of the limits; the toolkit does the others.
        """

    async def check(self, program: SandboxProgram) -> None:
        """Check a program without running it. Raises InvalidProgramError."""
