"""The first process of a sandbox, which has imported all that programs need and forks others; and these others.

Each of them answers the requests of the host, one at a time, until the host closes its socket.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import pydantic_monty as monty

from ahvn_tools.code_mode.monty_process import FORK, NUMBER, REAP
from ahvn_tools.code_mode.monty_process.messages import FILE_NAME
from ahvn_tools.code_mode.monty_process.monty_program import MontyProgram, time_limit
from ahvn_tools.code_mode.monty_process.type_check import check_types
from ahvn_tools.code_mode.sandbox import InvalidProgramError, ProgramError, SandboxError
from ahvn_tools.execution.workers.frames import read_frame, write_frame
from ahvn_tools.execution.workers.process_tree import adopt_orphans
from ahvn_tools.json_types import JsonObject

_MAX_IDLE_BYTES: Final = 50_000_000
"""An interpreter with more memory is not used again: it gives no memory back."""

_EXIT_SECONDS: Final = 0.5
"""How long an idle process has to end after the host."""


def spawn() -> None:
    """Answer requests on standard input, a socket, until the host closes it."""
    connection = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a host that ignores it would leave no return codes
    adopt_orphans()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    gc.freeze()  # the memory stays shared
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 1 + NUMBER.size, 1)
        if message == FORK:
            connection.sendall(NUMBER.pack(_try_fork(connection, *descriptors)))
        elif message[:1] == REAP:
            connection.sendall(NUMBER.pack(_reap(NUMBER.unpack(message[1:])[0])))
        else:  # the host has ended
            return


def _try_fork(connection: socket.socket, descriptor: int) -> int:
    """Start a process, and return its id, or a negative error number."""
    try:
        process_id = os.fork()
        if process_id == 0:
            connection.close()
            _run(descriptor)
        with contextlib.suppress(OSError):  # it has ended already
            os.setpgid(process_id, process_id)
    except OSError as error:
        return -(error.errno or errno.EAGAIN)
    finally:
        os.close(descriptor)
    return process_id


def _reap(process_id: int) -> int:
    """Wait for a process that was killed with its group, and return its return code; 0 if it is not known."""
    code = 0
    with contextlib.suppress(ChildProcessError):  # a spawner that was killed has started it
        code = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
    with contextlib.suppress(ChildProcessError):  # there is no other process in the group
        while True:
            os.waitpid(-process_id, 0)
    return code


def _run(descriptor: int) -> NoReturn:
    """Be the new process. An error is reported without its message, which could contain values of a program."""
    code = 0
    try:
        os.setpgid(0, 0)  # it is killed with its interpreter
        os.set_inheritable(descriptor, False)  # as other descriptors: only this process has it
        main(descriptor)
    except BaseException as error:  # noqa: BLE001  # the process ends
        code = 1
        traceback.print_tb(error.__traceback__)
        sys.stderr.write(f"{type(error).__name__}\n")
    finally:
        os._exit(code)


def main(connection: int) -> None:
    """Serve the host, at the other end of a socket."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a host that ignores or blocks it would switch time limits off
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    _end_with_host(connection)
    with (
        contextlib.suppress(ConnectionError),  # the host has ended
        monty.Monty(min_processes=0, max_processes=1, request_timeout=None) as pool,
    ):
        server = Server(pool)
        while (request := read_frame(connection)) is not None:
            write_frame(connection, json.dumps(server.reply(json.loads(request))).encode())


def _end_with_host(connection: int) -> None:
    """End this process and its interpreter when the host ends in the middle of a step."""

    def wait() -> None:
        poll = select.poll()
        poll.register(connection, select.POLLHUP)
        poll.poll()
        time.sleep(_EXIT_SECONDS)  # an idle process ends by itself
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _resident_bytes(process_id: int | None) -> int:
    """Return how much memory a process has; 0 where it is not known: it has ended, or the system has no /proc."""
    try:
        pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Server:
    """Answers requests for one program, then for the next."""

    def __init__(self, pool: monty.Monty) -> None:
        self._pool = pool
        self._session: Any = None
        self._program: MontyProgram | None = None
        self._handlers: dict[str, Callable[..., JsonObject]] = {
            "open": self._open,
            "check": self._check,
            "start": lambda **arguments: self._running().start(**arguments),
            "restore": lambda snapshot, functions: self._running().restore(base64.b64decode(snapshot), functions),
            "answer": lambda answer: self._running().answer(answer),
            "settle": lambda answers: self._running().settle(answers),
            "snapshot": lambda: {"snapshot": base64.b64encode(self._running().snapshot()).decode()},
            "close": self._close,
        }

    def reply(self, request: JsonObject) -> JsonObject:
        """Return the reply to a request, or its error. This process ends if it takes more than its `seconds`."""
        handler = self._handlers[request["do"]]
        try:
            with time_limit(request["seconds"]):
                reply = handler(**request["arguments"])
        except InvalidProgramError as error:
            reply = {"error": "invalid", "text": str(error)}
        except SandboxError as error:
            reply = {"error": "sandbox", "text": str(error)}
        except ProgramError as error:
            reply = {"error": "program", "text": str(error)}
        except monty.MontyCrashedError as error:
            reply = {"error": "crashed", "timed_out": error.timed_out}
        if self._program is not None and (printed := self._program.take_printed()):
            reply["printed"] = printed
        return reply

    def _open(self, options: JsonObject, value_bytes: int, output_chars: int) -> JsonObject:
        self._session = self._pool.checkout(script_name=FILE_NAME, **options).__enter__()
        self._program = MontyProgram(self._session, value_bytes=value_bytes, output_chars=output_chars)
        return {}

    def _close(self) -> JsonObject:
        session, self._session, self._program = self._session, None, None
        memory = _resident_bytes(session.worker_pid)
        session.__exit__(None, None, None)
        return {"is_reusable": memory <= _MAX_IDLE_BYTES}

    def _check(self, code: str) -> JsonObject:
        check_types(self._session, code)
        return {}

    def _running(self) -> MontyProgram:
        if self._program is None:
            raise SandboxError("The host has opened no program.")
        return self._program
