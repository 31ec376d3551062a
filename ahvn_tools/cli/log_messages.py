"""What is logged while sources are loaded, as messages on stderr."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator

from ahvn_tools.cli.output import print_message, print_traceback


@contextlib.contextmanager
def log_to_stderr(*, tracebacks: bool) -> Generator[None]:
    """Print the warnings of this package to stderr, each on one line; with `tracebacks`, those below the line.

    mcp's client logs nothing meanwhile: the error about a server says what is wrong.
    """
    client_logger = logging.getLogger("mcp.client")
    level = client_logger.level
    client_logger.setLevel(logging.CRITICAL)
    logger = logging.getLogger("ahvn_tools")
    handler = _MessageHandler(tracebacks=tracebacks)
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False  # a source may configure the root logger
    try:
        yield
    finally:
        client_logger.setLevel(level)
        logger.removeHandler(handler)
        logger.propagate = propagates


class _MessageHandler(logging.Handler):
    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__(logging.WARNING)
        self._tracebacks = tracebacks

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message, and the traceback of the exception that it is about."""
        print_message(f"{record.levelname.lower()}: {record.getMessage()}")
        if self._tracebacks and record.exc_info and record.exc_info[1] is not None:
            print_traceback(record.exc_info[1])
