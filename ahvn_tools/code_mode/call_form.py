"""Whether a program awaits its calls, and which names it mentions."""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = re.compile(
    r'''"""(?:[^"\\]|\\.?|"(?!""))*+(?:""")?|\'\'\'(?:[^'\\]|\\.?|'(?!\'\'))*+(?:\'\'\')?'''
    r"""|"(?:[^"\\\n]|\\.?)*+"?|'(?:[^'\\\n]|\\.?)*+'?|\#[^\n\r]*""",
    re.DOTALL,
)
"""A text, to the end if it is not closed, or a comment."""
_TEXT_WITH_CODE: Final = re.compile(r"\b(?:[ft]r?|r[ft])['\"]", re.IGNORECASE)
_AWAITS: Final = re.compile(r"\b(?:await|async)\b|\basyncio\s*\.\s*(?:run|gather)\b")
_NAME: Final = re.compile(r"\w+")


def awaits_calls(code: str) -> bool:
    """Return whether a program has `await`, `async`, `asyncio.run` or `asyncio.gather`.

    Comments, and texts that are no f-strings, do not count. Any other program calls tools as plain functions, in turn.
    """
    if not _AWAITS.search(code):
        return False
    return bool(_TEXT_WITH_CODE.search(code) or _AWAITS.search(_TEXT.sub(" ", code)))


def find_names(code: str) -> frozenset[str]:
    """Return all identifiers of a program, and the words of its texts and comments."""
    return frozenset(_NAME.findall(code))
