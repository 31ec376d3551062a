"""The log of a running server: records of this package on stderr, if the host has not configured logging."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Generator
from typing import Final

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@contextlib.contextmanager
def log_to_stderr(level: int | None) -> Generator[None]:
    """Write the records of this package of at least this level to stderr, until the end of the block.

    A host that has configured logging keeps its handlers and, without a `level`, its levels. Otherwise the level is
    INFO by default, that of the middleware `log`.
    """
    logger, handlers = logging.getLogger(__package__.partition(".")[0]), []
    before = logger.level
    if not logger.hasHandlers():
        handlers = [logging.StreamHandler(sys.stderr)]
        handlers[0].setFormatter(logging.Formatter(_FORMAT))
        level = logging.INFO if level is None and before == logging.NOTSET else level
    if level is not None:
        logger.setLevel(level)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)
