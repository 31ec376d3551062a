"""IgnoreRules: which files of a folder the .gitignore files leave out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from ahvn_tools.builtins.files.gitignore_pattern import subject_of, to_expression

MAX_RULES_BYTES: Final = 64_000
"""The size of a .gitignore file above which it is not read: a hostile one would take seconds."""
MAX_LINES: Final = 1000
"""How many lines of a .gitignore file count: each file is compared with all of them."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of several .gitignore files, the outermost first. Paths are relative to the folder of the first."""

    files: tuple[tuple[int, _Rules], ...] = ()
    """The length of the path of the folder that the file is in, with its / at the end, and its rules."""

    def extended(self, folder: str, content: bytes) -> IgnoreRules:
        """Return the rules with those of a file in a folder; "" is the folder of the first."""
        rules = _compile(content)
        return IgnoreRules((*self.files, (len(folder) + 1 if folder else 0, rules))) if rules.is_ignored else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a file or folder is left out. What is in a folder that is left out must not be asked for."""
        for start, rules in reversed(self.files):
            decision = rules.decide(subject_of(path[start:], is_folder=is_folder))
            if decision is not None:
                return decision
        return False


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one file as one regular expression, the last pattern first, since the last that fits decides."""

    expression: re.Pattern[str]
    is_ignored: tuple[bool, ...]
    """For each group of the expression, which has the patterns of some lines, whether it leaves out or takes back."""

    def decide(self, subject: str) -> bool | None:
        """Return whether the last pattern that fits leaves a file out; None if no pattern fits."""
        found = self.expression.match(subject)
        return None if found is None or found.lastindex is None else self.is_ignored[found.lastindex - 1]


@lru_cache(maxsize=256)
def _compile(content: bytes) -> _Rules:
    """Return the rules of a file. Lines that match nothing are skipped, and those after the first thousand."""
    lines = content.decode("utf-8-sig", errors="surrogateescape").split("\n")[:MAX_LINES]
    patterns = [pattern for line in reversed(lines) if (pattern := to_expression(line)) is not None]
    runs = [(is_ignored, list(run)) for is_ignored, run in groupby(patterns, key=lambda pattern: pattern[1])]
    expression = "|".join(f"({'|'.join(expression for expression, _ in run)})" for _, run in runs)
    return _Rules(re.compile(expression, re.DOTALL), tuple(is_ignored for is_ignored, _ in runs))
