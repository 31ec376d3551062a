"""The output of a terminal program as a text that shows everything that it contains."""

from __future__ import annotations

import re
from typing import Final

from ahvn_tools import invisible


def to_readable(text: str) -> str:
    r"""Return a text without colors and cursor movements, with every other control and invisible character escaped.

    A carriage return begins a new line, so that nothing is overwritten.

    >>> print(to_readable("\x1b[31mred\x1b[0m\x00"))
    red\x00
    """
    if "\r" in text:
        text = re.sub(r"\r+\n?", "\n", text)
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPE_SEQUENCE.sub("", text)
    return invisible.escape(text)


_ESCAPE_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colors and movements
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # titles and links of the terminal
    r"|\x1b[()*+][0-9A-Za-z]|\x1b[=>78cDEHM]"  # character sets, resets
)
