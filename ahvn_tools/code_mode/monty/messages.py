"""The messages of Monty, with lines of the program and without its own names."""

from __future__ import annotations

import re
from typing import Final

FILE_NAME: Final = "program.py"
END: Final = "end_of_program_"
"""A function that the check calls after the program, so that no program ends in it."""

_POSITION: Final = re.compile(rf"^{re.escape(FILE_NAME)}:(\d+):\d+: (?:error|warning)\[[\w-]+\] ", re.MULTILINE)
_FRAME: Final = re.compile(r'File "<python-input-\d+>"')


def to_readable(text: str) -> str:
    """Return a message as a model reads it."""
    return _FRAME.sub(f'File "{FILE_NAME}"', _POSITION.sub(r"Line \1: ", text)).strip()
