"""TextFile: the content of a file as lines, and the way back to its content."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ahvn_tools.builtins.files.text import TextForm, decode, encode
from ahvn_tools.builtins.workspace.lines import split_lines


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A text with the form in which its file is written."""

    text: str
    """With its own line endings."""
    form: TextForm

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their endings."""
        return split_lines(self.text)

    @classmethod
    def from_content(cls, content: bytes, encoding: str | None = None, *, fallback: str | None = None) -> TextFile:
        """Return the text of a file, as `decode` does. Raises ToolError for binary content."""
        text, form = decode(content, encoding, fallback=fallback)
        return cls(text=text, form=form)

    def with_lines(self, lines: list[str]) -> bytes:
        """Return the content of the file with other lines, in the same form."""
        return encode("".join(lines), self.form)
