"""Budget: how much work and text the loading of one document may take, with all that it refers to and repeats."""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.errors import SourceError
from ahvn_tools.redaction import clip
from ahvn_tools.schema.complexity import pattern_size

MAX_VALUES: Final = 3_000_000
"""How many values are read, copied or merged."""

MAX_CHARS: Final = 50_000_000
"""How many characters the texts have that are repeated or copied."""

VALUES_OF_PART: Final = 300
"""A part that takes more work than a value counts as this many: a tool, a source, a group, a middleware."""

PATTERN_CHARS_OF_VALUE: Final = 10
"""So much of a regular expression, with its repetitions written out, counts as one value."""

MAX_NAME_CHARS: Final = 200


class BudgetError(SourceError):
    """A document takes more than its budget. Nothing else of it is loaded."""


class Budget:
    """What is left of the work and the text of one document.

    Whatever copies values spends first, so that a few lines that refer to each other cannot become gigabytes.
    """

    def __init__(self, document: str) -> None:
        """`document` is how the error names it."""
        self._document = clip(document, MAX_NAME_CHARS)
        self._values = MAX_VALUES
        self._chars = MAX_CHARS

    def spend(self, values: int = 1, chars: int = 0) -> None:
        """Take values and characters from the budget. Raises BudgetError if it has fewer."""
        self._values -= values
        self._chars -= chars
        if self._values < 0 or self._chars < 0:
            limit = f"{MAX_VALUES:,} values" if self._values < 0 else f"{MAX_CHARS:,} characters"
            problem = f"{self._document} is too large: with what it refers to and repeats it has more than {limit}"
            raise BudgetError(f"{problem}. Split it, or repeat less.", file=self._document)

    def spend_parts(self, count: int = 1) -> None:
        """Take the work of some tools, sources or the like from the budget. Raises BudgetError if it has less."""
        self.spend(count * VALUES_OF_PART)

    def spend_size(self, value: Any) -> None:
        """Take a JSON value from the budget, with all that is in it. Raises BudgetError if it has less."""
        pending = [value]
        while pending:
            part = pending.pop()
            if isinstance(part, str):
                self.spend(0, len(part))
            elif isinstance(part, dict):
                self.spend(1 + len(part), sum(map(len, part)))
                if isinstance(pattern := part.get("pattern"), str):
                    self.spend_pattern(pattern)
                pending.extend(part.values())
            elif isinstance(part, list):
                self.spend(1 + len(part))
                pending.extend(part)

    def spend_pattern(self, pattern: str) -> None:
        """Take the work to compile a regular expression from the budget. Raises BudgetError if it has less."""
        self.spend(pattern_size(pattern) // PATTERN_CHARS_OF_VALUE)

    def copy(self, value: Any) -> Any:
        """Return a copy of a JSON value, which counts. Raises BudgetError."""
        if isinstance(value, dict):
            self.spend(1 + len(value), sum(len(key) for key in value if isinstance(key, str)))
            return {key: self.copy(item) for key, item in value.items()}
        if isinstance(value, list):
            self.spend(1 + len(value))
            return [self.copy(item) for item in value]
        if isinstance(value, str):
            self.spend(0, len(value))
        return value
