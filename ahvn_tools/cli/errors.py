"""The errors of a command."""

from __future__ import annotations


class CommandError(Exception):
    """A failure that ends the command with this message to its user, without a traceback."""


class UsageError(Exception):
    """The command line is wrong."""
