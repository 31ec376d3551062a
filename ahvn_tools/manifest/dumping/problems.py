"""Problems: what cannot be written to a manifest, collected so that one error names all of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ahvn_tools.errors import ToolkitError, ToolSpecError


class UndumpableError(ToolSpecError):
    """A part that cannot be written. The message says why and ends with the fix."""


class Problems:
    """The parts of one toolkit that cannot be written."""

    def __init__(self) -> None:
        """Begin without a problem."""
        self._lines: list[str] = []

    @contextlib.contextmanager
    def of(self, place: str) -> Iterator[None]:
        """Collect what cannot be written of one part, which is left out."""
        try:
            yield
        except ToolSpecError as error:
            self._lines.append(f"- {place}: {error}")

    def refuse(self, toolkit: str) -> None:
        """Raise ToolkitError for the problems."""
        if self._lines:
            lines = "\n".join(dict.fromkeys(self._lines))
            raise ToolkitError(f"The toolkit {toolkit!r} cannot be written as a manifest:\n{lines}")
