"""The filter of system calls in the sandbox: no file gets the setuid or setgid bit, which would outlive the sandbox.

With such a file, another user of this machine would have the rights of the user who runs the sandbox. bubblewrap hands
the filter to the kernel (seccomp(2), a program in classic BPF). Calls that the filter cannot look into, openat2 and
io_uring, do not exist in the sandbox. The numbers are those of the kernel's tables and of linux/audit.h.
"""

from __future__ import annotations

import errno
import functools
import os
import platform
import struct
from typing import Final

_SETUID_OR_SETGID: Final = 0o6000
_MAKES_A_FILE: Final = os.O_CREAT | 0x400000
"""The flags with which open(2) reads its mode: O_CREAT and O_TMPFILE."""

_LOAD, _IS_EQUAL, _IS_AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions of classic BPF."""
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
"""Results of a filter; the second contains the number of an error."""
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where the parts of a call are in what a filter reads. An argument has 8 bytes, the lower ones first."""
_X32: Final = 0x40000000
"""Calls of x86-64 from this number on are those of x32."""

_Conditions = tuple[tuple[int, int], ...]
"""Arguments, counted from 0, and bits. A call is refused if each argument has one of its bits."""
_CHMOD: Final[dict[str, _Conditions]] = {
    name: ((index, _SETUID_OR_SETGID),)
    for name, index in {
        "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2,
    }.items()
}  # fmt: skip
_CONDITIONS: Final[dict[str, _Conditions]] = _CHMOD | {
    "open": ((1, _MAKES_A_FILE), (2, _SETUID_OR_SETGID)),
    "openat": ((2, _MAKES_A_FILE), (3, _SETUID_OR_SETGID)),
}
_MISSING: Final = ("openat2", "io_uring_setup")

_NEW: Final = {"openat2": 437, "io_uring_setup": 425, "fchmodat2": 452}
"""The same in all architectures."""
_GENERIC: Final = {**_NEW, "fchmod": 52, "fchmodat": 53, "mknodat": 33, "openat": 56}
_INTEL_32: Final = {
    **_NEW, "open": 5, "creat": 8, "mknod": 14, "chmod": 15, "fchmod": 94, "openat": 295, "mknodat": 297,
    "fchmodat": 306,
}  # fmt: skip
_INTEL_64: Final = {
    **_NEW, "open": 2, "creat": 85, "chmod": 90, "fchmod": 91, "mknod": 133, "openat": 257, "mknodat": 259,
    "fchmodat": 268,
}  # fmt: skip
_ARM_32: Final = {
    **_NEW, "open": 5, "creat": 8, "mknod": 14, "chmod": 15, "fchmod": 94, "openat": 322, "mknodat": 324,
    "fchmodat": 333,
}  # fmt: skip
_ARCHITECTURES: Final[dict[str, dict[int, dict[str, int]]]] = {
    "x86_64": {0xC000003E: _INTEL_64, 0x40000003: _INTEL_32},
    "aarch64": {0xC00000B7: _GENERIC, 0x40000028: _ARM_32},
    "riscv64": {0xC00000F3: _GENERIC},
}
"""By machine: the architectures of its programs, and their numbers of the calls. Programs of others do not run."""


def open_system_call_filter() -> int | None:
    """Return a descriptor of the filter for `bwrap --seccomp`; None on a machine whose calls are unknown here."""
    program = _program(platform.machine())
    if program is None:
        return None
    descriptor = os.memfd_create("filter")
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@functools.cache
def _program(machine: str) -> bytes | None:
    if machine not in _ARCHITECTURES:
        return None
    program = _instruction(_LOAD, _ARCHITECTURE)
    for architecture, numbers in _ARCHITECTURES[machine].items():
        program += _if(_IS_EQUAL, architecture, _filter(numbers))
    return program + _refuse(errno.ENOSYS)


def _filter(numbers: dict[str, int]) -> bytes:
    """Return the filter of one architecture."""
    program = _instruction(_LOAD, _NUMBER)
    if numbers is _INTEL_64:
        program += _if(_IS_AT_LEAST, _X32, _refuse(errno.ENOSYS))
    for name, number in numbers.items():
        body = _refuse(errno.ENOSYS) if name in _MISSING else _refuse_where(_CONDITIONS[name])
        program += _if(_IS_EQUAL, number, body)
    return program + _instruction(_RETURN, _ALLOW)


def _refuse_where(conditions: _Conditions) -> bytes:
    body = _refuse(errno.EPERM)
    for argument, bits in reversed(conditions):
        body = _instruction(_LOAD, _ARGUMENTS + 8 * argument) + _if(_HAS_BITS, bits, body)
    return body + _instruction(_RETURN, _ALLOW)


def _refuse(error: int) -> bytes:
    return _instruction(_RETURN, _FAIL | error)


def _if(test: int, value: int, body: bytes) -> bytes:
    """Return the test, and what runs only if it holds."""
    return _instruction(test, value, otherwise=len(body) // 8) + body


def _instruction(code: int, value: int, *, otherwise: int = 0) -> bytes:
    """Return one instruction. `otherwise` is how many of the next ones are skipped where a test does not hold."""
    return struct.pack("HBBI", code, 0, otherwise, value)
