"""What runs in the processes of MontySandbox: one that forks others, and in these an interpreter and its program."""

from __future__ import annotations

import struct
from typing import Final

FORK: Final = b"f"
"""Asks the first process for another one, with the socket that it serves. The reply is its id, or minus an errno."""

REAP: Final = b"r"
"""Asks it for the return code of a process that was killed, with its id after this byte."""

NUMBER: Final = struct.Struct(">q")
"""An id of a process, or a return code, which is negative for a signal."""
