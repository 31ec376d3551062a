"""What all tools of a workspace share: the folders, the limits, the approvals, and what sessions know of files."""

from __future__ import annotations

import hashlib
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from ahvn_tools import invisible
from ahvn_tools.builtins.approval import Approval, Approve
from ahvn_tools.builtins.files.folders import CallRoots, ConfinedFolders, HardLinks
from ahvn_tools.builtins.workspace.lines import TextFile
from ahvn_tools.builtins.workspace.near_lines import describe_near_name
from ahvn_tools.context import ToolContext
from ahvn_tools.encoders.binary import guess_mime_type
from ahvn_tools.errors import DefinitionError, ToolError, ToolLookupError, near_misses, suggests_options
from ahvn_tools.registry import ArgumentKind, ToolRegistry
from ahvn_tools.roots import Roots
from ahvn_tools.spec import ToolSpec

Key = tuple[str | None, Path]

_LOCKS: Final = 64
"""Several files share a lock."""


class KnownVersions:
    """The content and encoding of each file as each session last read or wrote it: of the most recent files only."""

    def __init__(self, max_files: int = 10_000) -> None:
        """`max_files` counts all sessions together; what was read and written least recently is forgotten first."""
        self._known: OrderedDict[Key, tuple[bytes, str]] = OrderedDict()
        self._max_files = max_files
        self._lock = threading.Lock()
        self._file_locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def locked(self, session: str | None, file: Path) -> threading.Lock:
        """Return the lock of a file in a session, for a read or write and what is remembered of it.

        Without it, a read of the old content could be remembered after an edit that has ended meanwhile. A call that
        has the lock must not wait for another lock.
        """
        return self._file_locks[hash((session, file)) % _LOCKS]

    def remember(self, session: str | None, file: Path, content: bytes, encoding: str) -> None:
        """Store that the session has read or written this content in this encoding."""
        known = _digest(content), encoding
        with self._lock:
            self._known[session, file] = known
            self._known.move_to_end((session, file))
            while len(self._known) > self._max_files:
                self._known.popitem(last=False)

    def encoding(self, session: str | None, file: Path) -> str | None:
        """Return the encoding in which the session has read or written the file last; None if it has not."""
        with self._lock:
            return self._known.get((session, file), (b"", None))[1]

    def is_stale(self, session: str | None, file: Path, content: bytes) -> bool:
        """Return whether the session has read or written the file, and it has another content now."""
        with self._lock:
            known = self._known.get((session, file))
        return known is not None and known[0] != _digest(content)

    def move(self, session: str | None, file: Path, target: Path) -> None:
        """Know a file under its new path."""
        with self._lock:
            if (known := self._known.pop((session, file), None)) is not None:
                self._known[session, target] = known


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def similar_names(folders: ConfinedFolders, uri: str) -> str | None:
    """Return a sentence with the similar names in its folder; None if the file exists or its folder is outside."""
    try:
        missing = folders.locate(uri)
    except ToolError:
        return None
    folder = missing.parent
    while True:
        try:
            names = list(folders.scan(str(folder)))
            break
        except ToolError:
            missing = folder
            folder = folder.parent
            if folder == missing:
                return None
    if missing.name in names:
        return None
    near = describe_near_name(missing.name, names)
    near = near or near_misses(invisible.escape_line(missing.name), map(invisible.escape_line, names))
    if missing == folders.locate(uri):
        return near if names else "Its folder is empty."
    return f"{_subject(folders, folder)} has no {invisible.escape_line(missing.name)!r}. {near}"


def _subject(folders: ConfinedFolders, folder: Path) -> str:
    name = folders.display(folder)
    return "The first folder" if name == "." else f"The folder {invisible.escape_line(name)!r}"


READS: Final = {"readOnlyHint": True, "openWorldHint": False}
"""The MCP annotations of tools that only read."""
_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff")
"""What `read_image` reads."""
_SIGNATURE_BYTES: Final = 16


class FolderTools(ToolRegistry):
    """What the tools of a workspace are allowed to do. `Workspace` inherits all of them."""

    argument_kinds: ClassVar[Mapping[str, ArgumentKind]] = {"uri": "path", "target_uri": "path"}

    @suggests_options
    def __init__(
        self,
        roots: Roots,
        *,
        read_only: bool = False,
        approve: Approve = "risky",
        max_bytes: int = 10_000_000,
        hard_links: HardLinks = "read",
        call_roots: CallRoots = "narrow",
        max_output_chars: int = 100_000,
    ) -> None:
        """Raise DefinitionError for an option that is wrong.

        - `roots`: folders that exist. Relative paths begin in the first one. The roots of a session or call narrow
          them.
        - `read_only`: removes the tools that write.
        - `approve`: "risky" asks for deletions, and for files that are executed later; "always" for each write, "never"
          for none.
        - `max_bytes`: larger files are read by parts only, and neither searched nor edited.
        - `hard_links`: "read" reads a file with several names, and does not write it; "allow" does, "refuse" neither.
        - `call_roots`: with "replace" the roots of a session or call are used instead of `roots`; relative paths still
          begin in the first of `roots`.
        - `max_output_chars`: about how many characters a result has at most.
        """
        for name, limit in (("max_bytes", max_bytes), ("max_output_chars", max_output_chars)):
            if limit < 1:
                raise DefinitionError(f"`{name}` is a number of at least 1, not {limit!r}.")
        self.folders = ConfinedFolders(roots, hard_links=hard_links, call_roots=call_roots)
        self.read_only = read_only
        self.approval = Approval(approve)
        self.max_bytes = max_bytes
        self.max_output_chars = max_output_chars
        self.versions = KnownVersions()

    def to_toolspecs(self) -> dict[str, ToolSpec]:
        """Return new specs by tool name; without the tools that write, if the workspace is read-only."""
        specs = super().to_toolspecs()
        return {name: spec for name, spec in specs.items() if not self.read_only or _only_reads(spec)}

    def toolspec(self, name: str) -> ToolSpec:
        """Return a new spec for one tool. Raises ToolLookupError for a tool that writes in a read-only workspace."""
        spec = super().to_toolspecs().get(name)
        if self.read_only and spec is not None and not _only_reads(spec):
            raise ToolLookupError(f"{name!r} writes, and this {type(self).__name__} is read-only.")
        return super().toolspec(name)

    def file_key(self, arguments: Mapping[str, Any]) -> str:
        """Return the file that a call is for.

        With `Toolkit.add(workspace, exclusive=workspace.file_key)`, the calls of one answer for one file run in their
        order.
        """
        path = str(arguments.get("uri") or ".")
        try:
            return str(self.folders.locate(path))
        except ToolError:
            return path

    def read_text(
        self, folders: ConfinedFolders, uri: str, context: ToolContext, encoding: str | None = None
    ) -> TextFile:
        """Return a text file, and remember that the session has read it."""
        known = context.session_id, folders.locate(uri)
        with explained_misses(folders, uri), explained_documents(folders, uri), self.versions.locked(*known):
            content, _ = folders.read(uri, max_bytes=self.max_bytes)
            file = TextFile.from_content(content, encoding)
            self.versions.remember(*known, content, file.form.encoding)
        return file


@contextmanager
def explained_misses(folders: ConfinedFolders, uri: str) -> Iterator[None]:
    """Add the similar names of its folder to the error about a file that does not exist."""
    try:
        yield
    except ToolError:
        hint = similar_names(folders, uri)
        if hint is None:
            raise
        raise ToolError(f"There is no file or folder {shown(uri)!r}. {hint}") from None


@contextmanager
def explained_documents(folders: ConfinedFolders, uri: str) -> Iterator[None]:
    """Add the tool that reads a picture or a PDF file to the error about a file that is no text."""
    try:
        yield
    except ToolError as error:
        tool = _document_tool(folders, uri)
        if tool is None:
            raise
        raise ToolError(f"{error} Read it with {tool}.") from None


def _document_tool(folders: ConfinedFolders, uri: str) -> str | None:
    try:
        with folders.open(uri) as (file, _):
            mime_type = guess_mime_type(file.read(_SIGNATURE_BYTES))
    except ToolError:
        return None
    return "read_image" if mime_type in _IMAGE_TYPES else "read_pdf" if mime_type == "application/pdf" else None


def shown(path: str) -> str:
    """Return a path as a text for models: on one line, with its invisible characters escaped."""
    return path if path.isascii() and path.isprintable() else invisible.escape_line(path)


def in_one_form(name: str) -> str:
    """Return a name in Unicode's composed form (NFC), as other names are compared with it."""
    return unicodedata.normalize("NFC", name)


def with_note(text: str, note: str) -> str:
    """Return the text of a file with a note on a line of its own, if there is one."""
    return f"{text.removesuffix(chr(10))}\n{note}" if note else text


def _only_reads(spec: ToolSpec) -> bool:
    return (spec.definition.annotations or {}).get("readOnlyHint") is True
