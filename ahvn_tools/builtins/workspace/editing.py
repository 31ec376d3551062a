"""Tools that make, change, move and delete files and folders."""

from __future__ import annotations

from ahvn_tools.builtins.files.folders import ConfinedFolders
from ahvn_tools.builtins.files.risky_paths import is_risky
from ahvn_tools.builtins.workspace.folder_tools import exists, explained_misses, shown
from ahvn_tools.builtins.workspace.lines import content_lines, replace_lines
from ahvn_tools.builtins.workspace.search_replace import apply_blocks, parse_blocks
from ahvn_tools.builtins.workspace.text_file import TextFile
from ahvn_tools.builtins.workspace.writing import ADDS, CHANGES, Edit, WritingTools
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec


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
        self.approve(context, "write", text, is_risky=target.is_risky, details=details)
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
        if not exists(folders, uri):
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
            self.approve(context, "delete", f"Delete {shown(uri)}{protected}", is_risky=True, details={"path": uri})
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
        if exists(folders, target_uri):
            reason = "Pass another target_uri: the whole new path, with the name."
            raise ToolError(f"{shown(target_uri)!r} exists. {reason}")
        protected = _protection(folders, uri)
        text = f"Move {shown(uri)} to {target.name}{protected}"
        details = {"path": uri, "target": target.name}
        makes_hooks = is_folder and is_risky(f"{target.place.name}/pre-commit")  # of the files in a folder `hooks`
        risky = source.is_risky or target.is_risky or makes_hooks or bool(protected)  # its path is free then
        self.approve(context, "write", text, is_risky=risky, details=details)
        folders.move(uri, target_uri, is_cancelled=lambda: context.cancelled)
        self.versions.move(context.session_id, source.place, target.place)
        return f"Moved {shown(uri)} to {target.name}"


def _protection(folders: ConfinedFolders, uri: str) -> str:
    """Return what a person must know before a file is moved or deleted that its permissions protect from edits."""
    return " (the file is read-only)" if folders.is_read_only(uri) else ""


def _check_deletion(folders: ConfinedFolders, uri: str) -> None:
    """Raise ToolError for what cannot be deleted, before a person is asked. A link may lead to nothing."""
    parent, slash, name = uri.rstrip("/").rpartition("/")
    if any(entry.name == name and entry.status.kind == "link" for entry in folders.scan(parent or slash or ".")):
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
