"""The output of a terminal program has the last state of each line."""

from __future__ import annotations

import pytest

from ahvn_tools.builtins.processes.terminal_text import to_readable

OUTPUTS = {
    "a progress bar": ("1 %\r2 %\r3 %\n", "3 %\n", 2),
    "one that ends without a line feed": ("1 %\r2 %\r", "2 %", 1),
    "a shorter state": ("100 left\r5 left", "5 left", 1),
    "line endings of Windows": ("a\r\nb\r\r\nc\r\n", "a\nb\nc\n", 0),
    "backspaces": ("at 50 %\b\b\b\b60 %", "at 60 %", 0),
    "a spinner": ("|\b/\b-\b\\", "\\", 0),
    "bold and underlined text of a manual": ("N\bNA\bAM\bM _\bo", "NAM o", 0),
    "a line that is erased": ("a bar\r\x1b[Kdone\n", "done\n", 1),
    "a whole line that is erased": ("a bar\x1b[2K\x1b[1Gdone\n", "done\n", 1),
    "a bar that is blanked": ("1 %\r   \rdone", "done", 1),
    "the end of a line that is erased after each color": ("\x1b[31mred\x1b[m\x1b[K\n", "red\n", 0),
    "a sequence that is none": ("\x1bPA\r\x1b[99999A", "\\x1bPA", 0),
    "where bytes are left out": (
        "1 %\r2 %\n[… 9,000 bytes left out …]\n3 %\r4 %\n",
        "2 %\n[… 9,000 bytes left out …]\n4 %\n", 2
    ),
    "movements, which are left out": ("\b\x1b[A\x1b[9Da\x1b[99Gb", "ab", 0),
}  # fmt: skip


@pytest.mark.parametrize(("text", "shown", "overwritten"), OUTPUTS.values(), ids=OUTPUTS)
def test_each_line_has_its_last_state(text: str, shown: str, overwritten: int) -> None:
    assert to_readable(text) == (shown, overwritten)
    assert to_readable(shown)[1] == 0
