"""Whether a program awaits its calls, and which names it mentions."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CallForm:
    """What the words of a program say."""

    awaits: bool
    """Whether calls are awaited. A program without `await` and `async` calls tools as plain functions, in turn."""
    names: frozenset[str]
    """All identifiers in it."""

    @classmethod
    def of(cls, code: str) -> CallForm:
        """Read a program. One that cannot be read has all words that come before the error."""
        names: set[str] = set()
        try:
            for token in tokenize.generate_tokens(io.StringIO(code).readline):
                if token.type == tokenize.NAME:
                    names.add(token.string)
        except (tokenize.TokenError, SyntaxError):  # the sandbox says what is wrong
            names.add("await")
        return cls(awaits=not names.isdisjoint({"await", "async"}), names=frozenset(names))
