"""Errors that end a command with a message to its user, without a traceback."""

from __future__ import annotations


class CommandError(Exception):
    """The command failed."""

    status = 1
    """The exit status."""


class UsageError(CommandError):
    """The command line is wrong."""

    status = 2
