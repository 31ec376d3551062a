"""The command in a separate process, which serves over HTTP on a free port until the test ends it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import ahvn_tools

ENVIRONMENT = {"PYTHONPATH": str(Path(ahvn_tools.__file__).parents[1])}
COMMAND = [sys.executable, "-m", "ahvn_tools"]
LONGEST = 30.0
"""Seconds that a server may take to start, or to end after a signal."""


def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end without input, and return its status and output."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env={**os.environ, **ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


class Served:
    """A server process, which ends with the context."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output: list[str] = []
        self.url = self._url()
        self._rest = threading.Thread(target=self.output.extend, args=(process.stderr,), daemon=True)
        self._rest.start()

    @classmethod
    def over_http(cls, target: object, *arguments: str, **environment: str) -> Self:
        return cls(
            subprocess.Popen(
                [*COMMAND, "serve", str(target), "--http", "--port", "0", *arguments],
                env={**os.environ, **ENVIRONMENT, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def _url(self) -> str:
        """Read the URL from stderr, or fail with the output."""
        watch = threading.Timer(LONGEST, self.process.kill)
        watch.start()
        for line in self.process.stderr or ():
            self.output.append(line)
            if found := re.search(r"http://\S+", line):
                watch.cancel()
                return found[0]
        self.process.wait()
        watch.cancel()
        raise AssertionError("".join(self.output))

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status of the process."""
        self.process.send_signal(number)
        try:
            return self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.end()
        self._rest.join()
        if self.process.stderr is not None:
            self.process.stderr.close()
