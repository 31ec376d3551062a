"""Program: a program with limits, what it writes, and how it ends."""

from __future__ import annotations

import errno
import os
import selectors
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Literal

from ahvn_tools.builtins.processes.bubblewrap import SandboxedCommand, bubblewrap_command
from ahvn_tools.builtins.processes.confinement import Confinement, ProcessLimits
from ahvn_tools.builtins.processes.private_folder import clean_environment
from ahvn_tools.builtins.processes.result import EndReason, ProcessResult, RecordedStream
from ahvn_tools.builtins.processes.supervision import Supervision
from ahvn_tools.errors import DefinitionError, ToolError
from ahvn_tools.roots import without_dots

StreamName = Literal["stdout", "stderr"]

_CHUNK = 262_144
_CODES_OF_SIGNALS = range(129, 193)
_READS_AFTER_END = 64
"""More than a pipe holds. A process that could not be killed may write forever."""


class Program:
    """A program with limits. One thread calls `run`; others may read its news and request its end."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        confinement: Confinement,
        limits: ProcessLimits,
        environment: Mapping[str, str] | None,
        stdin: int | IO[bytes],
        news_bytes: int,
    ) -> None:
        """Start it. Raises ToolError if it cannot be started."""
        if os.name != "posix":
            raise DefinitionError("The built-in tools that run programs need Linux or macOS.")
        if not folder.is_dir():
            raise ToolError("The folder in which the program should run does not exist.")
        self.result: ProcessResult | None = None
        self.changed = threading.Condition()
        """Notified when the program writes or ends. Hold it to take news."""
        self.streams: dict[StreamName, RecordedStream] = {
            name: RecordedStream(
                name, kept_bytes=limits.kept_bytes, spooled_bytes=limits.spooled_bytes, news_bytes=news_bytes
            )
            for name in ("stdout", "stderr")
        }
        self._is_sandboxed = confinement.sandbox == "bubblewrap"
        if self._is_sandboxed and command[0].startswith("/"):
            command = [str(without_dots(command[0])), *command[1:]]  # the folders before a `..` are not visible
        self._command, self._statement = command[0], confinement.statement
        variables = clean_environment() if environment is None else environment
        if (shown := confinement.shown(folder)) != folder:
            variables = {**variables, "PWD": str(shown)}  # shells take it for the name of their folder if it is one
        self._started = time.monotonic()
        with self._prepare(command, folder, confinement, variables) as prepared:
            try:
                self._supervision = Supervision(
                    prepared.arguments, folder="/" if self._is_sandboxed else str(folder), environment=variables,
                    limits=limits, stdin=stdin, descriptors=prepared.descriptors, new_privileges=self._is_sandboxed,
                )  # fmt: skip
            except OSError as error:
                raise self._start_error(error.strerror or "the system does not allow it", str(error)) from error
        for _, pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)

    def _prepare(
        self, command: Sequence[str], folder: Path, confinement: Confinement, environment: Mapping[str, str]
    ) -> AbstractContextManager[SandboxedCommand]:
        """Return what to start: the command, or the sandbox with it. Raises ToolError for a program that is missing."""
        if not self._is_sandboxed:
            return nullcontext(SandboxedCommand([*command]))
        place = str(folder / command[0]) if "/" in command[0] else command[0]
        if shutil.which(place, path=environment.get("PATH", os.defpath)) is None:
            missing = "/" not in place or not os.path.lexists(place)
            raise self._start_error(os.strerror(errno.ENOENT if missing else errno.EACCES))
        return bubblewrap_command(command, folder=folder, confinement=confinement, environment=environment)

    @property
    def is_own(self) -> bool:
        """Whether this Python process started it, and not the one of which this is a forked copy."""
        return self._supervision.is_own

    def request_end(self, reason: EndReason) -> None:
        """Kill it and everything that it started, soon. Safe to call twice and from any thread."""
        self._supervision.request_end(reason)

    def run(self, on_wake: Callable[[], None], *, seconds: float) -> ProcessResult:
        """Read until nothing of the program is left, and call `on_wake` every `seconds`.

        Nothing is left either when it raises.
        """
        try:
            self._read_until_end(on_wake, seconds)
        except BaseException:
            self.request_end("cancelled")
            self._read_until_end(lambda: None, seconds)
            raise
        finally:
            self._supervision.abandon()  # does nothing unless it was interrupted again
            result = self._close()
        return result

    def _read_until_end(self, on_wake: Callable[[], None], seconds: float) -> None:
        supervision = self._supervision
        next_wake = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(supervision.control, selectors.EVENT_READ)
            for name, pipe in self._pipes():
                selector.register(pipe, selectors.EVENT_READ, name)
            while supervision.reason is None:
                for key, _ in selector.select(max(next_wake - time.monotonic(), 0)):
                    if key.data is None:
                        supervision.read_answers()
                    elif not self._read(key.data, key.fd):
                        selector.unregister(key.fileobj)
                if time.monotonic() >= next_wake:
                    next_wake = time.monotonic() + seconds
                    supervision.end_if_late()
                    on_wake()

    def _pipes(self) -> list[tuple[StreamName, IO[bytes]]]:
        return [("stdout", self._supervision.stdout), ("stderr", self._supervision.stderr)]

    def _read(self, name: StreamName, descriptor: int) -> bool:
        """Record what can be read at once. Return whether there was anything."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        with self.changed:
            self.streams[name].add(data)
            self.changed.notify_all()
        return bool(data)

    def _close(self) -> ProcessResult:
        """Read what is left in the pipes, which is not much, and return how the program ended."""
        for name, pipe in self._pipes():
            for _ in range(_READS_AFTER_END):
                if not self._read(name, pipe.fileno()):
                    break
        supervision = self._supervision
        supervision.close()
        with self.changed:
            self.result = ProcessResult(
                exit_code=self._exit_code(supervision.exit_code),
                ended_by=supervision.reason or "stopped",
                stdout=self.streams["stdout"].close(),
                stderr=self.streams["stderr"].close(),
                duration=time.monotonic() - self._started,
                has_left_processes=supervision.has_left_processes,
            )
            self.changed.notify_all()
        return self.result

    def _exit_code(self, code: int | None) -> int | None:
        """Return the number of the signal that ended the program as a negative one, as without a sandbox."""
        is_signal = self._is_sandboxed and code is not None and code in _CODES_OF_SIGNALS
        return 128 - code if is_signal and code is not None else code

    def check_sandbox(self, result: ProcessResult) -> None:
        """Raise ToolError if bubblewrap could not start the program: it writes one line then, and nothing runs."""
        if self._is_sandboxed and result.exit_code == 1 and not result.stdout.size:
            prefix, separator, reason = result.stderr.text.partition(f"bwrap: execvp {self._command}: ")
            if separator and not prefix:
                raise self._start_error(reason.strip())
            if result.stderr.text.startswith("bwrap: "):
                reason = self._statement or "Tell the user."
                raise ToolError(
                    f"The sandbox could not be started, so nothing was run. {reason}",
                    explanation=f"{result.stderr.text.strip()}. With sandbox='none' programs run without a sandbox.",
                )

    def _start_error(self, reason: str, explanation: str | None = None) -> ToolError:
        message = f"The program {self._command!r} could not be started: {reason}."
        return ToolError(message, explanation=explanation and f"{message} {explanation}")
