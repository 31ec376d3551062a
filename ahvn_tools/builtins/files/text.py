"""The text of a file: its encoding, byte order mark and line endings, which an edit keeps."""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Final

from ahvn_tools.errors import ToolError

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNUSUAL_CONTROLS: Final = re.compile("[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
"""Outside of Unicode they are taken for binary content, since any bytes could be a text of some encoding."""
_BINARY: Final = "The file is binary and no text, so it cannot be read or edited as text."
_DAMAGED: Final = "The file says that it is {encoding} text, but it is damaged. It cannot be read or edited as text."
_DECLARATION: Final = re.compile(rb"(?:coding|charset)\s{0,3}[:=]\s{0,3}[\"']?([A-Za-z0-9_-]{2,20})")
_C1_CONTROLS: Final = re.compile(rb"[\x80-\x9f]")
_DECLARATION_BYTES: Final = 1_024
"""Where a file says its encoding: Python in its first lines, HTML and XML in their head."""
_CANDIDATES: Final = ("gb18030", "big5", "cp932", "euc_jp", "cp949", "cp1251", "koi8-r", "cp1253")
"""The encodings of scripts that have hardly an ASCII letter between their own letters."""
_SAMPLE_BYTES: Final = 65_536
_MIN_HIGH_BYTES: Final = 10
"""Less of a text tells no encoding."""
_NOT_BETWEEN_CHARACTERS: Final = bytes(range(0x30, 0x100))
"""The bytes that may be a part of a character of several bytes."""
_REFUSED_CODECS: Final = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7")
"""They write a text as another text."""

GUESSED_ENCODINGS: Final = frozenset({
    "cp1252", "gbk", *_CANDIDATES,
    # what a file may declare besides
    *(f"iso8859-{part}" for part in range(1, 17) if part != 12), *(f"cp{page}" for page in range(1250, 1259)),  # noqa: PLR2004
    "gb2312", "big5hkscs", "shift_jis", "euc_kr", "koi8-u", "cp437", "cp850", "cp866", "mac-roman",
})  # fmt: skip
"""What a file without a byte order mark may be that is no UTF-8."""


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """How a text is written in a file."""

    encoding: str = "utf-8"
    """As Python names it; utf-16 and utf-32 with their byte order."""
    has_byte_order_mark: bool = False
    newline: str = "\n"
    """The line ending of most lines; a line feed without lines."""
    is_guess: bool = False
    """Whether neither the caller nor the file says the encoding, and it is no UTF-8."""

    @classmethod
    def named(cls, encoding: str, content: bytes | None = None) -> TextForm:
        """Return the form of new text, or of a content, in an encoding that a model has named.

        New UTF-16 and UTF-32 have a byte order mark, as `utf-8-sig` has. Raises ToolError for an unknown encoding, and
        for content with the byte order mark of another one.
        """
        codec = find_codec(encoding)
        family = codec.removesuffix("-sig")
        orders = (family, f"{family}-le", f"{family}-be")
        for mark, order in _MARKS:
            if order in orders and (content is None or content.startswith(mark)):
                has_mark = content is not None or codec in ("utf-8-sig", "utf-16", "utf-32")
                return cls(encoding=order, has_byte_order_mark=has_mark)
        if content is not None and (marked := _marked_form(content)) is not None:
            raise ToolError(f"The file is {marked.encoding} text, as its byte order mark says. Leave encoding out.")
        return cls(encoding=f"{family}-le" if family in ("utf-16", "utf-32") else family)

    def converted(self, encoding: str) -> TextForm:
        """Return the form of this text in an encoding that a model has named."""
        new = TextForm.named(encoding)
        keeps_mark = new.encoding == self.encoding and not new.has_byte_order_mark
        return replace(self if keeps_mark else new, newline=self.newline, is_guess=False)

    @property
    def label(self) -> str:
        """The encoding and the byte order mark in words."""
        return f"{self.encoding} with a byte order mark" if self.has_byte_order_mark else self.encoding

    @property
    def note(self) -> str:
        """A sentence for the reader of the text, if the encoding is a guess."""
        if not self.is_guess:
            return ""
        wrong = "If the text is wrong, name the encoding, as in encoding='gbk'."
        return f"(The file is no UTF-8, and its encoding is a guess: {self.encoding}. {wrong})"


def decode(content: bytes, encoding: str | None = None, *, fallback: str | None = None) -> tuple[str, TextForm]:
    """Return the text with its own line endings, and its form. Raises ToolError for binary content.

    `encoding` is tried alone. Without it a byte order mark decides. Else it is UTF-8; and what is no UTF-8 is in the
    encoding `fallback`, in the one that its first lines declare, in the one that charset-normalizer finds, in
    Windows-1252, or in Latin-1: the first of these that fits. Content with NUL characters is binary. `encode` with the
    form gives the same bytes again, but for a few characters of some East Asian encodings.
    """
    form = _find_form(content, fallback) if encoding is None else TextForm.named(encoding, content)
    text = _decoded(content[len(_mark_of(form)) :], form.encoding)
    if text is None and encoding is not None:
        reason = "Leave encoding out, or pass the encoding that the file has."
        raise ToolError(f"The file is no {form.encoding} text. {reason}")
    if text is None:
        raise ToolError(_DAMAGED.format(encoding=form.encoding.upper()))
    if "\0" in text:
        raise ToolError(_BINARY)
    return text, replace(form, newline=find_newline(text))


def encode(text: str, form: TextForm) -> bytes:
    """Return the content of a file. Raises ToolError for what `decode` would not read again."""
    try:
        content = text.encode(form.encoding)
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        if unicodedata.category(character) == "Cs":
            raise ToolError("The text has characters that cannot be written: surrogates. Remove them.") from None
        guess = " If it has another encoding in truth, pass that as encoding." if form.is_guess else ""
        raise ToolError(
            f"The file is {form.encoding} text, which has no character U+{ord(character):04X}. Write it without that "
            f"character, or replace its whole content with encoding='utf-8': then it is UTF-8.{guess}"
        ) from None
    if "\0" in text or (not form.encoding.startswith("utf") and _UNUSUAL_CONTROLS.search(text)):
        raise ToolError("With this text the file would be binary: it has NUL or other control characters. Remove them.")
    return _mark_of(form) + content


def find_codec(encoding: str) -> str:
    """Return Python's name of an encoding. Raises ToolError for what is none."""
    try:
        "".encode(encoding)  # raises LookupError also for codecs that are no encodings of texts
        codec = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        codec = ""
    if not codec or codec in _REFUSED_CODECS:
        raise ToolError("The encoding is unknown. Pass a name as in Python: utf-8, gbk, shift_jis, cp1251 ...")
    return codec


def find_encoding(head: bytes, encoding: str | None = None) -> TextForm:
    """Return the form that the beginning of a file shows, whose last character may be cut.

    Raises ToolError for a beginning that is binary.
    """
    if encoding is not None:
        return TextForm.named(encoding, head)
    if (marked := _marked_form(head)) is not None:
        return marked
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(head)
        head = head[: len(head) - len(decoder.getstate()[0])]
    except UnicodeDecodeError:
        head = head[: head.rfind(b"\n") + 1] or head
    return decode(head)[1]


def _marked_form(content: bytes) -> TextForm | None:
    marked = (TextForm(encoding=name, has_byte_order_mark=True) for mark, name in _MARKS if content.startswith(mark))
    return next(marked, None)


def _find_form(content: bytes, fallback: str | None) -> TextForm:
    if (marked := _marked_form(content)) is not None:
        return marked
    if _decoded(content, "utf-8") is not None:
        return TextForm()
    if fallback is not None and _decoded(content, (form := TextForm.named(fallback, content)).encoding) is not None:
        return form
    if _UNUSUAL_CONTROLS.search(content.decode("latin-1")):
        raise ToolError(_BINARY)
    declared = _declared(content)
    if declared is not None and _decoded(content, declared) is not None:
        return TextForm(encoding=declared)
    for encoding in (_detected(content), "cp1252"):
        if encoding is not None and _decoded(content, encoding) is not None:
            return TextForm(encoding=encoding, is_guess=True)
    return TextForm(encoding="iso8859-1", is_guess=True)


def _declared(content: bytes) -> str | None:
    """Return the encoding that the first lines of a file declare, if it is a usual one."""
    match = _DECLARATION.search(content[:_DECLARATION_BYTES])
    try:
        codec = "" if match is None else find_codec(match[1].decode())
    except ToolError:
        return None
    if codec == "iso8859-1" and _C1_CONTROLS.search(content):
        return "cp1252"  # as browsers read it
    return codec if codec in GUESSED_ENCODINGS else None


def _detected(content: bytes) -> str | None:
    """Return the encoding that charset-normalizer finds, where it is installed, for scripts that it can tell."""
    sample = b"\n".join(line for line in content.split(b"\n") if not line.isascii())
    if len(sample) > _SAMPLE_BYTES:
        sample = sample[:_SAMPLE_BYTES].rstrip(_NOT_BETWEEN_CHARACTERS)
    runs = [len(run) for run in re.findall(rb"[\x80-\xff]+", sample)]
    joined = sum(length for length in runs if length > 1)
    if joined < _MIN_HIGH_BYTES or joined * 2 <= sum(runs):  # letters with accents stand alone
        return None
    try:
        from charset_normalizer import from_bytes
    except ImportError:  # the extra `encodings`
        return None
    best = from_bytes(sample, cp_isolation=list(_CANDIDATES)).best()
    if best is not None and best.encoding == "gb18030" and _decoded(content, "gbk") is not None:
        return "gbk"  # its older part, which more programs read
    return None if best is None else codecs.lookup(best.encoding).name


def _decoded(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except UnicodeError:
        return None


def find_newline(text: str) -> str:
    """Return the line ending of most lines; of several that are equally frequent LF, then CRLF."""
    if "\r" not in text:
        return "\n"
    windows = text.count("\r\n")
    counts = {"\n": text.count("\n") - windows, "\r\n": windows, "\r": text.count("\r") - windows}
    return max(counts, key=lambda newline: counts[newline])


def _mark_of(form: TextForm) -> bytes:
    if not form.has_byte_order_mark:
        return b""
    return next(mark for mark, encoding in _MARKS if encoding == form.encoding)
