"""Canaries: a host whose values, files and variables no program may reach, and how to see whether one did."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import psutil
from pydantic import Field

from ahvn_tools import Secret, Toolkit, ToolResult
from ahvn_tools.code_mode import CodeLimits, Sandbox
from tests.attacks.attack import CANARY

VARIABLE = "AHVN_CANARY"
WAIT = 30.0
"""Seconds that a program takes at most, with everything."""

LIMITS = {"seconds": 2.0, "memory_bytes": 20_000_000, "value_bytes": 1_000_000, "calls": 20, "output_chars": 3000}
WORKER_BYTES = 400_000_000
"""How much memory a worker process may have had at its peak: that of checks is larger than that of programs."""

module_global = CANARY
"""What no program may read or change."""


class Host:
    """A toolkit whose bound values are canaries, and the calls that its tools received."""

    def __init__(self, sandbox: Sandbox, **limits: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.kit = Toolkit(
            "host", state={"user": CANARY, "team": {"owner": CANARY}, "token": CANARY}, secret_key=b"k" * 32
        )
        self.kit.add(self.list_issues, self.note, self.ping, self.fail, self.large, self.deep, self.many, self.forward)
        self.kit.add(self.send, requires_approval=True)
        self.kit.add(self.fire_everybody, audience="clerk")
        self.kit.bind("user").bind("owner", "team.owner").bind("token", secret=True)
        self.kit.add_code_mode(sandbox=sandbox, limits=CodeLimits(**{**LIMITS, **limits}))

    def list_issues(self, user: str, owner: str, state: Literal["open", "closed"] = "open") -> list[dict[str, Any]]:
        """List issues."""
        self.calls.append(("list_issues", user, owner, state))
        return [{"id": 1}]

    def note(self, token: str, text: Any, number: int = 0) -> str:
        """Take a note."""
        self.calls.append(("note", token, text, number))
        return f"a note of {len(token)} letters"

    async def ping(self, number: int) -> int:
        """Return the number."""
        return number

    def fail(self, text: str, token: Annotated[str, Secret]) -> str:
        """Fail."""
        raise ValueError(f"{text} {token}")

    def large(self, size: int) -> str:
        """Return a large text."""
        return "x" * size

    def deep(self, depth: int) -> Any:
        """Return a deep list."""
        value: list[Any] = []
        for _ in range(depth):
            value = [value]
        return value

    def many(self, count: int) -> list[int]:
        """Return many numbers."""
        return list(range(count))

    def forward(self, from_: Annotated[Any, Field(alias="from")] = None) -> str:
        """Forward."""
        return "forwarded"

    def send(self, user: str, to: str, text: str) -> str:
        """Send a message."""
        self.calls.append(("send", user, to, text))
        return f"sent to {to}"

    def fire_everybody(self) -> str:
        """Fire everybody."""
        self.calls.append(("fire_everybody",))
        return "all are fired"

    def run(self, code: str) -> ToolResult:
        """Run a program as a model of the audience `main`."""
        return self.kit.select(audience="main").exec("run_code", {"code": code}, timeout=WAIT)

    @property
    def is_obeyed(self) -> bool:
        """Whether all calls had the bound values, and no tool of others was called."""
        bound = {"list_issues": 2, "note": 1, "send": 1}
        return all(call[0] in bound and set(call[1 : 1 + bound[call[0]]]) == {CANARY} for call in self.calls)


class Canaries:
    """What a program of the host's must not reach: a file, a variable, a socket and a module's global."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "canary.txt"
        self.file.write_text(CANARY)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.modules = set(sys.modules)
        self.folder = sorted(folder.iterdir())

    @classmethod
    @contextmanager
    def set_up(cls, folder: Path) -> Iterator[Canaries]:
        """Set up the canaries for a block."""
        os.environ[VARIABLE] = CANARY
        canaries = cls(folder)
        try:
            yield canaries
        finally:
            del os.environ[VARIABLE]
            canaries.socket.close()

    def code(self, code: str) -> str:
        """Return a program with the path and the port of the canaries."""
        return code.replace("CANARY_FILE", str(self.file)).replace("CANARY_PORT", str(self.socket.getsockname()[1]))

    @property
    def are_untouched(self) -> bool:
        """Whether they are as they were, and nobody has connected."""
        try:
            self.socket.accept()
        except BlockingIOError:
            is_file_same = self.file.read_text() == CANARY and sorted(self.file.parent.iterdir()) == self.folder
            return is_file_same and os.environ[VARIABLE] == CANARY and module_global == CANARY
        return False


def everything_of(result: ToolResult) -> str:
    """Return all texts of a result."""
    return f"{result!r}{result.value!r}{result.text}{result.structured_content}{result.content}{result.meta}"


def peaks() -> list[int]:
    """Return how many bytes each worker process has had at its peak."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:  # it has ended meanwhile
            continue
        found += [int(line.split()[1]) * 1000 for line in lines if line.startswith("VmHWM")]
    return found


async def served(host: Host, code: str) -> Any:
    """Run a program over MCP, and return the result of the client."""
    from fastmcp import Client

    async with Client(host.kit.to_fastmcp_server()) as client:
        return await asyncio.wait_for(client.call_tool("run_code", {"code": code}, raise_on_error=False), WAIT)
