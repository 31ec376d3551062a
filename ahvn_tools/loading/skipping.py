"""Skipping: a file of a folder that cannot be loaded is logged with its traceback, and costs only itself."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from ahvn_tools.errors import SourceError, ToolCallError, ToolSpecError
from ahvn_tools.sources.budget import BudgetError

log = logging.getLogger(__name__)


@contextlib.contextmanager
def skipping(file: str | None, remember: Callable[[SourceError], None]) -> Iterator[None]:
    """Log what is wrong with a file and pass it to `remember`, instead of raising it; without a file raise it.

    Errors of tools, servers and files are meant, and no others.
    """
    try:
        yield
    except BudgetError:  # nothing is left for the other files
        raise
    except (ToolSpecError, ToolCallError, OSError) as error:
        if file is None:
            raise
        cause = error.__cause__ if isinstance(error, SourceError) else error  # our own frames explain no mistake
        is_code = not isinstance(cause, ToolCallError)  # a server that cannot be reached is no mistake in code
        log.warning("%s was skipped: %s", file, error, exc_info=cause if is_code else None)
        message = str(error) if file in str(error) else f"{file}: {error}"
        skipped = SourceError(message, file=file, line=getattr(error, "line", None))
        skipped.__cause__ = error
        remember(skipped)
