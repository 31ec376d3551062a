"""A process that forks the processes in which programs run: it has imported all that they need."""

from __future__ import annotations

import gc
import os
import socket

from ahvn_tools.code_mode.monty_process.frames import FORK, NUMBER, REAP
from ahvn_tools.code_mode.monty_process.main import main


def spawn() -> None:
    """Answer requests on standard input, a socket, until the host closes it."""
    connection = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    gc.freeze()  # the memory stays shared
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 1 + NUMBER.size, 2)
        if message == FORK:
            connection.sendall(NUMBER.pack(_fork(connection, *descriptors)))
        elif message[:1] == REAP:
            _, status = os.waitpid(NUMBER.unpack(message[1:])[0], 0)
            connection.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
        else:  # the host has ended
            return


def _fork(connection: socket.socket, requests: int, replies: int) -> int:
    process_id = os.fork()
    if process_id == 0:
        try:
            os.setpgid(0, 0)  # it is killed with its interpreter
            connection.close()
            os.dup2(requests, 0)
            os.dup2(replies, 1)
            os.close(requests)
            os.close(replies)
            main()
        finally:
            os._exit(0)
    os.setpgid(process_id, process_id)
    os.close(requests)
    os.close(replies)
    return process_id
