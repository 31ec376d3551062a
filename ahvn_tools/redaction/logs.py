"""What the protocol libraries log about our connections: without messages, arguments, credentials and session ids."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import re
from collections.abc import Iterator, Mapping

from ahvn_tools.redaction.texts import Mask

HIDDEN = "[not shown]"
"""Replaces data in a log record."""

_LIBRARIES = ("fastmcp", "httpcore2", "httpx2", "mcp")
"""The packages whose loggers may write data."""

_SESSION_LOGGER = "client"
"""The name of the logger of `mcp.client.session`."""

_LOGIN_LOGGER = "fastmcp.client.auth.oauth"
"""Writes the URL at which the user has to log in, and no credentials."""

_HARMLESS_TEXT = re.compile(r"[A-Za-z_/ ]{1,40}|HTTP/[0-9.]{1,3}")
"""Names of methods and protocols, and what an HTTP status means."""

_URL = re.compile(r"([a-z]+://)(?:[^/?#]*@)?([^/?#@]+)(?:[/?#].*)?", re.DOTALL)

_mask: contextvars.ContextVar[Mask | None] = contextvars.ContextVar("mask", default=None)
"""Hides data where it is set, and recognizes credentials in what would otherwise be shown."""


@contextlib.contextmanager
def hidden_logged_data(mask: Mask) -> Iterator[None]:
    """Hide data in the libraries' log records while a block of this task runs."""
    token = _mask.set(mask)
    try:
        yield
    finally:
        _mask.reset(token)


def hide_logged_data(mask: Mask) -> None:
    """Hide data in the libraries' log records of this task, and of the tasks that it starts.

    `mask` is for short texts that are shown, such as the reason of an HTTP status, which a service chooses. Other uses
    of these libraries are logged unchanged.
    """
    _mask.set(mask)


def add_log_filter() -> None:
    """Add the filter to the loggers that the libraries have made so far.

    A filter of a logger does not apply to its children. It sees only records of levels that the host has enabled, so it
    costs nothing otherwise.
    """
    for name in list(logging.root.manager.loggerDict):
        is_library = name == _SESSION_LOGGER or name.partition(".")[0] in _LIBRARIES
        if is_library and name != _LOGIN_LOGGER:
            logging.getLogger(name).addFilter(_redact)


def _redact(record: logging.LogRecord) -> bool:
    if (mask := _mask.get()) is not None:
        if isinstance(record.args, Mapping):
            record.args = {name: _redact_argument(value, mask) for name, value in record.args.items()}
        elif record.args:
            record.args = tuple(_redact_argument(value, mask) for value in record.args)
        else:
            record.msg = _hide_data(str(record.msg))
        if record.exc_info and record.exc_info[0] is not None:
            record.msg = f"{record.msg} ({record.exc_info[0].__name__})"
            record.exc_info = record.exc_text = None
    return True


def _redact_argument(value: object, mask: Mask) -> object:
    """Return what may be shown of an argument: a number, a harmless text, the scheme and host of a URL."""
    if isinstance(value, int | float | None):
        return value
    text = str(value) if isinstance(value, str) or type(value).__name__ == "URL" else ""
    if url := _URL.fullmatch(text):
        return f"{url[1]}{url[2]}/{HIDDEN}"
    return mask(text) if _HARMLESS_TEXT.fullmatch(text) else HIDDEN


def _hide_data(text: str) -> str:
    """Return a message without its data, which the libraries write after a colon or an equals sign."""
    for mark in (": ", "="):
        head, found, _ = text.partition(mark)
        if found:
            text = f"{head}{mark}{HIDDEN}"
    return text
