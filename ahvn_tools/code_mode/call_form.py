"""The text of a program: the fence around it, whether it awaits its calls, and which names it mentions."""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = re.compile(
    r"(?P<prefix>\b(?:[fFtT][rR]?|[rR][fFtT]))?"
    r'''(?:"""(?:[^"\\]|\\.?|"(?!""))*+(?:""")?|\'\'\'(?:[^'\\]|\\.?|'(?!\'\'))*+(?:\'\'\')?'''
    r"""|"(?:[^"\\\n]|\\.?)*+"?|'(?:[^'\\\n]|\\.?)*+'?)|\#[^\n\r]*""",
    re.DOTALL,
)
"""A text, to the end if it is not closed, or a comment. `prefix`: it may have code in braces."""
_BRACES: Final = re.compile(r"\{([^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+)\}")
_INNER_TEXT: Final = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_AWAITS: Final = re.compile(r"\b(?:await|async)\b|\basyncio\s*\.\s*(?:run|gather)\b")
_NAME: Final = re.compile(r"\w+")
_FENCED: Final = re.compile(
    r"\s*(`{3,}|~{3,})(?:python3?|py3?|ipython|tool_code)?(?:[ \t][^\n]*)?\r?\n(?P<code>.*)\1\s*",
    re.DOTALL | re.IGNORECASE,
)
"""A program in a Markdown fence, as models write one. A fence of another language stays, and is a syntax error."""


def without_fence(code: str) -> str:
    """Return a program without the Markdown fence around it. Its lines keep their numbers."""
    fenced = _FENCED.fullmatch(code)
    return code if fenced is None else "\n" * code.count("\n", 0, fenced.start("code")) + fenced["code"]


def awaits_calls(code: str) -> bool:
    """Return whether a program has `await`, `async`, `asyncio.run` or `asyncio.gather`, outside of comments and texts.

    Comments, and texts that are no f-strings, do not count. Any other program calls tools as plain functions, in turn.
    """
    return bool(_AWAITS.search(code) and _AWAITS.search(_TEXT.sub(_to_code, code)))


def _to_code(text: re.Match[str]) -> str:
    """Return the code in the braces of an f-string, and nothing of another text; `await` where that is not sure."""
    if text["prefix"] is None:
        return " "
    content = text[0][len(text["prefix"]) + 1 : -1]
    if "{{" in content or "}}" in content or not (_is_even(content) and _is_even(_INNER_TEXT.sub("", content))):
        return " await "
    return " ".join(_TEXT.sub(" ", braces) for braces in _BRACES.findall(content))


def _is_even(text: str) -> bool:
    return text.count("{") == text.count("}")


def find_names(code: str) -> frozenset[str]:
    """Return all identifiers of a program, and the words of its texts and comments."""
    return frozenset(_NAME.findall(code))
