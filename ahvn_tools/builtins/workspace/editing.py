"""Tools that make, change, move and delete files and folders, and what all tools that write have in common."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ahvn_tools import invisible
from ahvn_tools.builtins.approval import Action
from ahvn_tools.builtins.files.folders import ConfinedFolders, FileStatus
from ahvn_tools.builtins.files.risky_paths import is_risky
from ahvn_tools.builtins.files.text import TextForm, encode
from ahvn_tools.builtins.workspace.folder_tools import FolderTools, explained_misses, shown
from ahvn_tools.builtins.workspace.lines import (
    TextFile,
    bare,
    content_lines,
    numbered_block,
    replace_lines,
    split_lines,
    with_newline,
)
from ahvn_tools.builtins.workspace.search_replace import apply_blocks, parse_blocks
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec

CONTEXT_LINES: Final = 3
"""Unchanged lines that are shown before and after a change."""
MAX_COMPARED_LINES: Final = 5_000
"""More changed lines are one change, because comparing them would be slow."""
MAX_SNIPPET_CHARS: Final = 4_000
MAX_DIFF_CHARS: Final = 20_000
DIFF_IS_CUT: Final = "... (the diff is longer)"
"""The last line of a diff that was cut. No other line of a diff can be the same."""


@dataclass(frozen=True)
class Region:
    """Lines that were replaced by others: indexes before and after."""

    start: int
    stop: int
    new_start: int
    new_stop: int


@dataclass(frozen=True)
class Change:
    """The lines of a file before and after an edit."""

    before: list[str]
    after: list[str]

    @cached_property
    def regions(self) -> list[Region]:
        """The lines that differ."""
        first = _count_equal(self.before, self.after)
        same = _count_equal(self.before[first:][::-1], self.after[first:][::-1])
        old, new = self.before[first : len(self.before) - same], self.after[first : len(self.after) - same]
        if not old and not new:
            return []
        if not old or not new or len(old) + len(new) > MAX_COMPARED_LINES:
            return [Region(first, first + len(old), first, first + len(new))]
        codes = difflib.SequenceMatcher(None, old, new).get_opcodes()
        return [Region(first + a, first + b, first + c, first + d) for tag, a, b, c, d in codes if tag != "equal"]

    @property
    def snippet(self) -> str:
        """The changed lines as they are now, with their numbers and the lines around them."""
        shown, left = [], MAX_SNIPPET_CHARS
        for group in self._groups():
            if left <= 0:
                shown.append("... (more changes)")
                break
            start = max(group[0].new_start - CONTEXT_LINES, 0)
            stop = min(group[-1].new_stop + CONTEXT_LINES, len(self.after))
            shown.append(numbered_block(self.after, start, stop, max_chars=left) or "(The file is empty.)")
            left -= len(shown[-1])
        return "\n...\n".join(shown)

    def diff(self, name: str) -> str:
        """Return a unified diff, whose last line is DIFF_IS_CUT if it is longer than a person can read."""
        lines = [f"--- {name}", f"+++ {name}"]
        left = MAX_DIFF_CHARS
        for group in self._groups():
            for line in self._hunk(group):
                visible = invisible.escape(line)  # what a terminal would not show, or show in another order
                lines.append(visible[:left])
                left -= len(visible) + 1
                if left < 0:
                    return "\n".join([*lines, DIFF_IS_CUT])
        return "\n".join(lines)

    def _hunk(self, group: list[Region]) -> list[str]:
        start = max(group[0].start - CONTEXT_LINES, 0)
        stop = min(group[-1].stop + CONTEXT_LINES, len(self.before))
        new_start = start + group[0].new_start - group[0].start
        new_stop = stop + group[-1].new_stop - group[-1].stop
        lines = [f"@@ -{_span(start, stop)} +{_span(new_start, new_stop)} @@"]
        position = start
        for region in group:
            lines += [f" {bare(line)}" for line in self.before[position : region.start]]
            lines += [f"-{bare(line)}" for line in self.before[region.start : region.stop]]
            lines += [f"+{bare(line)}" for line in self.after[region.new_start : region.new_stop]]
            position = region.stop
        return lines + [f" {bare(line)}" for line in self.before[position:stop]]

    def _groups(self) -> list[list[Region]]:
        """Return the regions, with those together whose context lines meet."""
        groups: list[list[Region]] = []
        for region in self.regions:
            if groups and region.start - groups[-1][-1].stop <= 2 * CONTEXT_LINES:
                groups[-1].append(region)
            else:
                groups.append([region])
        return groups


def _count_equal(one: list[str], other: list[str]) -> int:
    """Return how many lines at the beginning are equal: by halves, which is faster than line by line."""
    equal, end = 0, min(len(one), len(other))
    while equal < end:
        middle = (equal + end + 1) // 2
        if one[equal:middle] == other[equal:middle]:
            equal = middle
        else:
            end = middle - 1
    return equal


def _span(start: int, stop: int) -> str:
    return f"{start + 1 if stop > start else start},{stop - start}"


ADDS: Final = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
"""The MCP annotations of tools that destroy nothing."""
CHANGES: Final = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False}
"""The MCP annotations of tools that change or delete files."""

_NOT_RESTORED: Final = (
    "The file has characters that {encoding} writes in several ways, so an edit would change other lines, too. Replace "
    "its whole content, or name another encoding."
)

ChangeLines = Callable[[TextFile], list[str]]
"""Returns the new lines of a file, with their endings. Raises ToolError if the file does not fit the edit."""


@dataclass(frozen=True, kw_only=True)
class EditTarget:
    """A file or folder that a call is about to change."""

    uri: str
    """As the model wrote it."""
    place: Path
    """Its absolute path without links."""
    name: str
    """The path as models and persons read it."""
    is_risky: bool
    """Whether another program executes or obeys the file later, whichever root it is seen from."""

    @classmethod
    def located(cls, folders: ConfinedFolders, uri: str, all_folders: ConfinedFolders) -> EditTarget:
        """Return the target that a path means in the folders of a call, perhaps outside of all folders."""
        place, base = folders.locate(uri), folders.base
        name = place.relative_to(base) if place.is_relative_to(base) else place
        roots = (*all_folders.roots, *folders.roots)  # those of a call may lie outside of the others
        seen = (place.relative_to(root) for root in roots if place.is_relative_to(root))
        return cls(
            uri=uri,
            place=place,
            name=shown(name.as_posix()),
            is_risky=is_risky(uri) or any(is_risky(path.as_posix()) for path in seen),
        )


@dataclass(frozen=True)
class Edit:
    """What an edit makes of the content that a file has now."""

    name: str
    """The path of the file as models read it."""
    before: bytes
    after: bytes
    change: Change
    encoding: str
    """That of the content after the edit."""
    note: str
    """The old and the new encoding in words, if they differ."""
    action: Action


class WritingTools(FolderTools):
    """What all tools that write have in common."""

    def folders_to_write(self, context: ToolContext) -> ConfinedFolders:
        """Return the folders of a call that writes. Raises ToolError in a read-only workspace."""
        if self.read_only:
            raise ToolError("These folders are read-only, so nothing was changed.")
        return self.folders.for_call(context)

    def target(self, folders: ConfinedFolders, uri: str) -> EditTarget:
        """Return what a path means. Raises ToolError for a path outside."""
        return EditTarget.located(folders, uri, self.folders)

    def edit(
        self, folders: ConfinedFolders, uri: str, change_lines: ChangeLines, context: ToolContext, *,
        encoding: str | None = None, is_whole: bool = False, must_be_read: bool = False,
    ) -> Edit:  # fmt: skip
        """Change the lines of a file, all at once, after the approval of the difference.

        The file has the `encoding`, else that in which the session has read it, else the one that `decode` finds. An
        edit of the whole file converts it to the `encoding`. Raises ToolError if the session knows another content than
        the file has, and with `must_be_read` if it knows none. Edits of one file run one after the other; each works on
        the content that the last has left.
        """
        target = self.target(folders, uri)
        known = context.session_id, target.place
        with explained_misses(folders, uri), self.versions.locked(*known):
            content, _ = folders.read(uri, max_bytes=self.max_bytes)
            folders.check_update(uri)
            is_stale = self.versions.is_stale(*known, content)
        if must_be_read and self.versions.encoding(*known) is None:
            reason = "its whole content would be replaced, and you have not seen it."
            raise ToolError(f"Read {shown(uri)!r} first: {reason}")
        if is_stale:
            raise _stale(uri)

        def plan(content: bytes) -> Edit:
            read_as = self.versions.encoding(*known)
            if is_whole:
                file = TextFile.from_content(content, read_as, fallback=encoding)
                form = file.form if encoding is None else file.form.converted(encoding)
                return _planned(target, content, file, form, change_lines)
            file = TextFile.from_content(content, encoding or read_as)
            if not file.form.encoding.startswith("utf") and file.with_lines(file.lines) != content:
                raise ToolError(_NOT_RESTORED.format(encoding=file.form.encoding))
            return _planned(target, content, file, file.form, change_lines)

        planned = plan(content)
        self._check_size(planned.after)
        self.approval.require(context, planned.action)
        done = [planned]

        def change(content: bytes) -> Edit:
            if content != planned.before:
                done[0] = plan(content)
                if self.approval.is_needed(planned.action) or self.approval.is_needed(done[0].action):
                    raise ToolError(f"{shown(uri)!r} has changed since its edit was approved. Read it again.")
            return done[0]

        self._replace(folders, target, change, context)
        return done[0]

    def replace_content(
        self, folders: ConfinedFolders, uri: str, content: str, context: ToolContext, *, encoding: str | None,
        must_be_read: bool = False,
    ) -> Edit:  # fmt: skip
        """Replace all lines of a file, as `edit` does. Without an `encoding`, the form of the file stays."""

        def change(file: TextFile) -> list[str]:
            return split_lines(with_newline(content, file.form.newline))

        return self.edit(
            folders, uri, change, context, encoding=encoding, is_whole=True, must_be_read=must_be_read
        )  # fmt: skip

    def create(
        self, folders: ConfinedFolders, uri: str, content: str, context: ToolContext, *, encoding: str | None
    ) -> EditTarget:
        """Write a new file, after its approval; the session knows its content from then on."""
        form = TextForm() if encoding is None else TextForm.named(encoding)
        target, data = self.target(folders, uri), encode(content, form)
        self._check_size(data)
        note = "" if form == TextForm() else f" ({form.label})"
        self.approval.require(context, _action("Create", target, Change([], split_lines(content)), note))
        folders.create(uri, data, is_cancelled=lambda: context.cancelled)
        self.versions.remember(context.session_id, target.place, data, form.encoding)
        return target

    def _check_size(self, content: bytes) -> None:
        if (size := len(content)) > self.max_bytes:
            raise ToolError(f"The content has {size:,} bytes, more than {self.max_bytes:,}. Write a smaller file.")

    def _replace(
        self, folders: ConfinedFolders, target: EditTarget, change: Callable[[bytes], Edit], context: ToolContext
    ) -> None:
        """Replace the content of a file while no other edit of it runs."""
        known = context.session_id, target.place
        written: list[Edit] = []
        with ExitStack() as writing:

            def replace(content: bytes, _: FileStatus) -> bytes:
                writing.enter_context(self.versions.locked(*known))  # until what was written is remembered
                if self.versions.is_stale(*known, content):
                    raise _stale(target.uri)
                written.append(change(content))
                return written[0].after

            folders.update(target.uri, replace, max_bytes=self.max_bytes, is_cancelled=lambda: context.cancelled)
            self.versions.remember(*known, written[0].after, written[0].encoding)


def _planned(target: EditTarget, content: bytes, file: TextFile, form: TextForm, change_lines: ChangeLines) -> Edit:
    change = Change(file.lines, change_lines(file))
    after = encode("".join(change.after), form)
    note = "" if form.label == file.form.label else f" (from {file.form.label} to {form.label})"
    action = _action("Edit", target, change, note)
    return Edit(target.name, content, after, change, form.encoding, note, action)


def _action(verb: str, target: EditTarget, change: Change, note: str) -> Action:
    diff = change.diff(target.name)
    cut = " (the diff shows only the beginning)" if diff.endswith(f"\n{DIFF_IS_CUT}") else ""
    details = {"path": target.name, "diff": diff}
    text = f"{verb} {target.name}{note}{cut}"
    return _write(text, details, runs_later=target.is_risky)


def _write(text: str, details: Mapping[str, Any], *, runs_later: bool, is_risky: bool = False) -> Action:
    return Action(kind="write", text=text, is_risky=is_risky or runs_later, runs_later=runs_later, details=details)


def _stale(uri: str) -> ToolError:
    return ToolError(f"{shown(uri)!r} has changed since you read it. Read it again, then edit it.")


class EditingTools(WritingTools):
    """Tools that make, change, move and delete files and folders."""

    @reg_toolspec(annotations=ADDS, tags={"files", "write"}, output_schema=None)
    def mkdir(self, uri: str, context: ToolContext) -> str:
        """Make a folder, with the folders above it. Nothing happens if it exists.

        Args:
            uri: The path or file: URI of the folder.
        """
        folders = self.folders_to_write(context)
        target = self.target(folders, uri)
        text, details = f"Make the folder {target.name}", {"path": target.name}
        self.approval.require(context, _write(text, details, runs_later=target.is_risky))
        folders.make_folder(uri)
        return f"Directory created: {target.name}"

    @reg_toolspec(annotations=CHANGES, tags={"files", "write"}, output_schema=None)
    def create_file(
        self, uri: str, content: str, context: ToolContext, overwrite: bool = False, encoding: str | None = None
    ) -> str:
        """Create a text file, with the folders above it. An existing file is changed with `overwrite` only.

        Args:
            uri: The path or file: URI of the new file.
            content: The whole text of the file.
            overwrite: Whether the content of an existing file is replaced. Its line endings stay as they are.
            encoding: The encoding that the file gets, such as gbk. Without it, a new file is UTF-8, and an existing one
                keeps its encoding.
        """
        folders = self.folders_to_write(context)
        if not folders.exists(uri):
            target = self.create(folders, uri, content, context, encoding=encoding)
            return f"File created successfully: {target.name}"
        if not overwrite:
            edit = "Change it with edit_file_search_replace, or pass overwrite=true to replace it."
            raise ToolError(f"{shown(uri)!r} exists. {edit}")
        done = self.replace_content(folders, uri, content, context, encoding=encoding)
        return _report(done, f"Overwrote {done.name}")

    @reg_toolspec(annotations=CHANGES, tags={"files", "write"}, output_schema=None)
    def edit_file_full_replace(
        self, uri: str, new_content: str, context: ToolContext, encoding: str | None = None
    ) -> str:
        """Replace the whole content of an existing text file that you have read. Its line endings stay as they are.

        Args:
            uri: The path or file: URI of the file.
            new_content: The whole new text.
            encoding: The encoding that the file gets, such as utf-8. Without it, the encoding stays.
        """
        folders = self.folders_to_write(context)
        done = self.replace_content(folders, uri, new_content, context, encoding=encoding, must_be_read=True)
        return _report(done, f"Replaced the content of {done.name}")

    @reg_toolspec(annotations=CHANGES, tags={"files", "write"}, output_schema=None)
    def edit_file_search_replace(
        self, uri: str, search_replace: str, context: ToolContext, encoding: str | None = None
    ) -> str:
        """Replace lines of a text file by others. Either all blocks are applied, or nothing is changed.

        Args:
            uri: The path or file: URI of the file.
            search_replace: One or several blocks, which are applied in their order. A block is the line
                `<<<<<<< SEARCH`, the old lines, the line `=======`, the new lines, and the line `>>>>>>> REPLACE`. The
                old lines are whole lines of the file, with their indentation, and must be in the file exactly once.
                No new lines delete the old ones. If the lines contain such a marker, write the three markers of the
                block with 8 or more characters.
            encoding: The encoding of the file, such as gbk, if the tools guess it wrong.
        """
        folders = self.folders_to_write(context)
        blocks = parse_blocks(search_replace)

        def change(file: TextFile) -> list[str]:
            return apply_blocks(blocks, file.lines, file.form.newline)

        done = self.edit(folders, uri, change, context, encoding=encoding)
        count = f"{len(blocks)} block{'s' if len(blocks) > 1 else ''}"
        return _report(done, f"Edited {done.name} ({count})")

    @reg_toolspec(annotations=CHANGES, tags={"files", "write"}, output_schema=None)
    def insert(self, uri: str, line: int, content: str, context: ToolContext, encoding: str | None = None) -> str:
        """Insert lines into a text file.

        Args:
            uri: The path or file: URI of the file.
            line: The number of the line before which the content is inserted, from 1; the number of lines plus 1
                inserts it at the end.
            content: The new lines.
            encoding: The encoding of the file, such as gbk, if the tools guess it wrong.
        """
        folders = self.folders_to_write(context)

        def change(file: TextFile) -> list[str]:
            if not 1 <= line <= len(file.lines) + 1:
                raise ToolError(f"There is no line {line}: pass a line from 1 to {len(file.lines) + 1}.")
            return insert_lines(file, line, content)

        done = self.edit(folders, uri, change, context, encoding=encoding)
        return _report(done, f"Edited {done.name}")

    @reg_toolspec(annotations=CHANGES, tags={"files", "write"}, output_schema=None)
    def delete(self, uri: str, context: ToolContext) -> str:
        """Delete a file, a symbolic link or an empty folder.

        Args:
            uri: The path or file: URI of the file or folder.
        """
        folders = self.folders_to_write(context)
        with explained_misses(folders, uri):
            _check_deletion(folders, uri)
            status, protected = folders.status_of_name(uri), _protection(folders, uri)
            text, details = f"Delete {shown(uri)}{protected}", {"path": uri}
            self.approval.require(context, Action(kind="delete", text=text, is_risky=True, details=details))
            folders.delete(uri, approved=status, is_cancelled=lambda: context.cancelled)
        return f"Deleted: {shown(uri)}"

    @reg_toolspec(annotations=CHANGES, tags={"files", "write"}, output_schema=None)
    def move(self, uri: str, target_uri: str, context: ToolContext) -> str:
        """Move or rename a file or folder.

        Args:
            uri: The path or file: URI of the file or folder.
            target_uri: Its new path or file: URI, which must not exist.
        """
        folders = self.folders_to_write(context)
        with explained_misses(folders, uri):
            is_folder = folders.status(uri).kind == "folder"
        source, target = self.target(folders, uri), self.target(folders, target_uri)
        if folders.exists(target_uri):
            reason = "Pass another target_uri: the whole new path, with the name."
            raise ToolError(f"{shown(target_uri)!r} exists. {reason}")
        protected = _protection(folders, uri)
        text = f"Move {shown(uri)} to {target.name}{protected}"
        details = {"path": uri, "target": target.name}
        makes_hooks = is_folder and is_risky(f"{target.place.name}/pre-commit")  # of the files in a folder `hooks`
        runs_later = source.is_risky or target.is_risky or makes_hooks
        action = _write(text, details, runs_later=runs_later, is_risky=bool(protected))  # its path is free then
        self.approval.require(context, action)
        folders.move(uri, target_uri, is_cancelled=lambda: context.cancelled)
        self.versions.move(context.session_id, source.place, target.place)
        return f"Moved {shown(uri)} to {target.name}"


def _protection(folders: ConfinedFolders, uri: str) -> str:
    """Return what a person must know before a file is moved or deleted that its permissions protect from edits."""
    return " (the file is read-only)" if folders.is_read_only(uri) else ""


def _check_deletion(folders: ConfinedFolders, uri: str) -> None:
    """Raise ToolError for what cannot be deleted, before a person is asked. A link may lead to nothing."""
    parent, slash, name = uri.rstrip("/").rpartition("/")
    if folders.scan(parent or slash or ".").get(name) == "link":
        return
    if folders.status(uri).kind == "folder" and folders.scan(uri):
        raise ToolError(f"{shown(uri)!r} is a folder that is not empty. Delete its files first.")


def insert_lines(file: TextFile, number: int, content: str) -> list[str]:
    """Return the lines of a file with others before the line of this number. Raises ToolError for empty content."""
    texts = content_lines(content)
    if not texts:
        raise ToolError("The content is empty. Pass at least one line.")
    return replace_lines(file.lines, number - 1, number - 1, texts, file.form.newline)


def _report(done: Edit, what: str) -> str:
    if done.change.regions:
        return f"{what}{done.note}. The lines are now:\n{done.change.snippet}"
    return f"{what}{done.note}. No line has changed." if done.note else f"{what}: it had this content already."
