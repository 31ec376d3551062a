"""Budget: how much work and text the loading of one document may take, with all that it refers to and repeats."""

from __future__ import annotations

from typing import Any, Final

from ahvn_tools.errors import SourceError, clip
from ahvn_tools.schema.limits import pattern_size

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

    def __init__(self, document: str, max_values: int | None = None) -> None:
        """`document` is how the error names it. With `max_values`, the limit of characters changes in proportion.

        Raises SourceError unless `max_values` is a positive integer.
        """
        if max_values is not None and (type(max_values) is not int or max_values < 1):
            raise SourceError(f"max_values is a positive integer, not {max_values!r}.")
        self._document = clip(document, MAX_NAME_CHARS)
        self._max_values = self._values = MAX_VALUES if max_values is None else max_values
        self._max_chars = self._chars = self._max_values * MAX_CHARS // MAX_VALUES

    def spend(self, values: int = 1, chars: int = 0) -> None:
        """Take values and characters from the budget. Raises BudgetError if it has fewer."""
        self._values -= values
        self._chars -= chars
        if self._values < 0 or self._chars < 0:
            limit = f"{self._max_values:,} values" if self._values < 0 else f"{self._max_chars:,} characters"
            problem = f"{self._document} is too large: with what it refers to and repeats it has more than {limit}"
            fix = "Split it, repeat less, or pass a larger max_values, if you trust it."
            raise BudgetError(f"{problem}. {fix}", file=self._document)

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
