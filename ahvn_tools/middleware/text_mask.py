"""Masking: what the host replaces in the texts of a log, by regular expressions or by a function of its own."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import Any, Final

from ahvn_tools.errors import ToolSpecError
from ahvn_tools.execution.convert import summarize_exception
from ahvn_tools.middleware.reporting import MAX_LOGGED_CHARS
from ahvn_tools.redaction import MASK, mask_pieces

Replace = Callable[[str], str]
"""Returns a text without its secrets."""

Redact = Collection[str | re.Pattern[str]] | Replace
"""What replaces secrets: regular expressions, whose matches become `***`, or a function."""

_TAIL_CHARS: Final = 1_000
"""How many characters after a cut are read and not shown: a match that the cut divides is replaced whole."""

_logger = logging.getLogger(__name__)


class TextMask:
    """Replaces secrets in the texts of one value, as far as a log shows them; any text after that is `***`."""

    def __init__(self, replace: Replace) -> None:
        self._replace = replace
        self._shown = 0

    def __call__(self, text: str) -> str:
        """Return a text without its secrets, cut after 4,000 characters."""
        if self._shown > MAX_LOGGED_CHARS:
            return MASK
        masked = _mask_text(self._replace, text)
        self._shown += len(masked) + 1
        return masked

    def mask_pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        """Return the pieces of a text without the secrets in several of them, as far as a log shows the text."""
        lengths = accumulate(map(len, pieces))
        count = sum(length <= MAX_LOGGED_CHARS + _TAIL_CHARS for length in lengths)
        return [*mask_pieces(pieces[:count], self._mask_all), *pieces[count:]]

    def _mask_all(self, text: str) -> str:
        return _mask_text(self._replace, text)


class Masking:
    """The option `redact` of a log."""

    def __init__(self, redact: Redact) -> None:
        """Raise ToolSpecError for what is neither regular expressions nor a function."""
        self._replace = _to_replace(redact) if redact else None

    def new_mask(self) -> TextMask | None:
        """Return the mask for one value; None if there is nothing to replace."""
        return None if self._replace is None else TextMask(self._replace)

    def mask_lines(self, text: str) -> str:
        """Return a text of many short lines without its secrets."""
        if self._replace is None:
            return text
        return "\n".join(_mask_text(self._replace, line) for line in text.split("\n"))


def _mask_text(replace: Replace, text: str) -> str:
    """Return a text without its secrets, cut after 4,000 characters. If the function fails, that is `***`."""
    cut = text[: MAX_LOGGED_CHARS + _TAIL_CHARS]
    masked: Any
    try:
        masked = replace(cut)
    except Exception as error:  # noqa: BLE001  # of the host: a log must not fail the call
        _logger.warning("The function `redact` failed: %s", summarize_exception(error))  # its text may have the secret
        return MASK
    if not isinstance(masked, str):
        _logger.warning("The function `redact` returned a %s, not a text.", type(masked).__name__)
        return MASK
    return masked if cut == text else f"{masked[:-_TAIL_CHARS]}…"


def _to_replace(redact: Redact) -> Replace:
    if callable(redact) and not inspect.iscoroutinefunction(redact):
        return redact
    if callable(redact) or isinstance(redact, str) or not isinstance(redact, Collection):
        raise ToolSpecError(
            "`redact` is a list of regular expressions, or a function of a text that is not async, "
            f"not a {type(redact).__name__}."
        )
    patterns = [_compile(pattern) for pattern in redact]

    def replace_matches(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub(MASK, text)
        return text

    return replace_matches


def _compile(pattern: Any) -> re.Pattern[str]:
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(text, str):
        raise ToolSpecError(f"`redact` is a list of regular expressions for text, not {pattern!r}.")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ToolSpecError(f"{pattern!r} is no regular expression: {error}.") from error
