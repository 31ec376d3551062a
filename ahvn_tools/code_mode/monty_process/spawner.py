"""A process that forks the processes in which programs run: it has imported all that they need."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import signal
import socket
import sys
import traceback
from typing import NoReturn

from ahvn_tools.code_mode.monty_process.frames import FORK, NUMBER, REAP
from ahvn_tools.code_mode.monty_process.main import main


def spawn() -> None:
    """Answer requests on standard input, a socket, until the host closes it."""
    connection = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a host that ignores it would leave no return codes
    _adopt_orphans()
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


def _adopt_orphans() -> None:
    """On Linux, become the parent of the interpreters of killed processes: process 1 of a container may reap none."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


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
        main(socket.socket(fileno=descriptor))
    except BaseException as error:  # noqa: BLE001  # the process ends
        code = 1
        traceback.print_tb(error.__traceback__)
        sys.stderr.write(f"{type(error).__name__}\n")
    finally:
        os._exit(code)
