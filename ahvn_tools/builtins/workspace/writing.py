"""What all tools that write have in common: permission, approval, and edits that do not overwrite unknown content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from ahvn_tools.builtins.approval import Action, ActionKind
from ahvn_tools.builtins.files.folders import ConfinedFolders, FileStatus
from ahvn_tools.builtins.files.text import TextForm, encode
from ahvn_tools.builtins.workspace.changes import DIFF_IS_CUT, Change
from ahvn_tools.builtins.workspace.folder_tools import FolderTools, explained_misses, shown
from ahvn_tools.builtins.workspace.lines import split_lines, with_newline
from ahvn_tools.builtins.workspace.target import Target
from ahvn_tools.builtins.workspace.text_file import TextFile
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError

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


@dataclass(frozen=True)
class Edit:
    """What an edit has changed."""

    name: str
    """The path of the file as models read it."""
    change: Change
    note: str
    """The old and the new encoding in words, if they differ."""


@dataclass(frozen=True)
class PlannedEdit:
    """What an edit makes of the content that a file has now."""

    before: bytes
    after: bytes
    encoding: str
    """That of the content after the edit."""
    edit: Edit
    action: Action


class WritingTools(FolderTools):
    """What all tools that write have in common."""

    def folders_to_write(self, context: ToolContext) -> ConfinedFolders:
        """Return the folders of a call that writes. Raises ToolError in a read-only workspace."""
        if self.read_only:
            raise ToolError("These folders are read-only, so nothing was changed.")
        return self.folders.for_call(context)

    def target(self, folders: ConfinedFolders, uri: str) -> Target:
        """Return what a path means. Raises ToolError for a path outside."""
        return Target.located(folders, uri, self.folders)

    def approve(
        self, context: ToolContext, kind: ActionKind, text: str, *, is_risky: bool, details: Mapping[str, Any]
    ) -> None:
        """Ask for the approval of an action on files or folders, if it needs one."""
        self.approval.require(context, Action(kind=kind, text=text, is_risky=is_risky, details=details))

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
        if must_be_read and not self.versions.is_known(*known):
            reason = "its whole content would be replaced, and you have not seen it."
            raise ToolError(f"Read {shown(uri)!r} first: {reason}")
        if is_stale:
            raise _stale(uri)

        def plan(content: bytes) -> PlannedEdit:
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

        def change(content: bytes) -> PlannedEdit:
            if content != planned.before:
                done[0] = plan(content)
                if self.approval.is_needed(planned.action) or self.approval.is_needed(done[0].action):
                    raise ToolError(f"{shown(uri)!r} has changed since its edit was approved. Read it again.")
            return done[0]

        self._replace(folders, target, change, context)
        return done[0].edit

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
    ) -> Target:
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
        self, folders: ConfinedFolders, target: Target, change: Callable[[bytes], PlannedEdit], context: ToolContext
    ) -> None:
        """Replace the content of a file while no other edit of it runs."""
        known = context.session_id, target.place
        written: list[PlannedEdit] = []
        with ExitStack() as writing:

            def replace(content: bytes, _: FileStatus) -> bytes:
                writing.enter_context(self.versions.locked(*known))  # until what was written is remembered
                if self.versions.is_stale(*known, content):
                    raise _stale(target.uri)
                written.append(change(content))
                return written[0].after

            folders.update(target.uri, replace, max_bytes=self.max_bytes, is_cancelled=lambda: context.cancelled)
            self.versions.remember(*known, written[0].after, written[0].encoding)


def _planned(target: Target, content: bytes, file: TextFile, form: TextForm, change_lines: ChangeLines) -> PlannedEdit:
    change = Change(file.lines, change_lines(file))
    after = encode("".join(change.after), form)
    note = "" if form.label == file.form.label else f" (from {file.form.label} to {form.label})"
    edit = Edit(target.name, change, note)
    return PlannedEdit(content, after, form.encoding, edit, _action("Edit", target, change, note))


def _action(verb: str, target: Target, change: Change, note: str) -> Action:
    diff = change.diff(target.name)
    cut = " (the diff shows only the beginning)" if diff.endswith(f"\n{DIFF_IS_CUT}") else ""
    details = {"path": target.name, "diff": diff}
    text = f"{verb} {target.name}{note}{cut}"
    return Action(kind="write", text=text, is_risky=target.is_risky, details=details)


def _stale(uri: str) -> ToolError:
    return ToolError(f"{shown(uri)!r} has changed since you read it. Read it again, then edit it.")
