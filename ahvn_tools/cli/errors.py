"""What ends a command: a text for whoever typed it, without a traceback."""

from __future__ import annotations


class CommandError(Exception):
    """The command cannot do what was asked."""

    status = 1
    """What the process ends with."""


class UsageError(CommandError):
    """The command was not written right."""

    status = 2
