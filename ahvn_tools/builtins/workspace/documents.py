"""Tools that read pictures and PDF files, each in a process with limits: decoders fail in every way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from ahvn_tools.builtins.processes.confinement import choose_sandbox
from ahvn_tools.builtins.processes.process import module_folder, run_isolated_python
from ahvn_tools.builtins.workspace import document_program
from ahvn_tools.builtins.workspace.folder_tools import READS, FolderTools, explained_misses, shown
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError
from ahvn_tools.registry import reg_toolspec
from ahvn_tools.results import ToolResult

SECONDS: Final = 30.0
_MEMORY_BYTES: Final = 1_500_000_000
_MAX_PIXELS: Final = 100_000_000
_MAX_EDGE: Final = 1_568
"""Pixels. Providers make larger pictures smaller themselves, or refuse them."""
_MAX_IMAGE_BYTES: Final = 3_500_000
"""As base64 below the 5 MB that providers accept."""
_MODULES: Final = {"image": ("PIL",), "pdf": ("pypdfium2", "pypdfium2_raw")}


class DocumentTools(FolderTools):
    """Tools that read pictures and PDF files."""

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def read_image(self, uri: str, context: ToolContext) -> ToolResult:
        """Look at a picture: a PNG, JPEG, GIF, WebP, BMP or TIFF file. A large one is made smaller.

        Args:
            uri: The path or file: URI of the file.
        """
        options = {"max_pixels": _MAX_PIXELS, "max_edge": _MAX_EDGE, "max_bytes": _MAX_IMAGE_BYTES}
        replies, is_complete = self._read(uri, "image", options, context)
        if not is_complete or len(replies) != 1:
            raise ToolError(f"{shown(uri)!r} takes too much time or memory to read. Read a smaller picture.")
        return _picture(shown(uri), replies[0])

    @reg_toolspec(annotations=READS, tags={"files", "read"}, output_schema=None)
    def read_pdf(
        self, uri: str, context: ToolContext, start_page: int = 1, end_page: int | None = None,
        start_character: int = 1,
    ) -> str:  # fmt: skip
        """Read the text of a PDF file. If the text is long, the result ends with how to read the rest.

        Args:
            uri: The path or file: URI of the file.
            start_page: The number of the first page, from 1.
            end_page: The number of the last page, which is read, too. Without it, the last page of the file.
            start_character: The first character that is read of the first page, to go on in a long page.
        """
        if start_page < 1 or start_character < 1 or (end_page is not None and end_page < start_page):
            raise ToolError("Pass a start_page and start_character of at least 1, and an end_page that is not smaller.")
        options = {"start_page": start_page, "end_page": end_page, "start_character": start_character}
        options["max_chars"] = self.max_output_chars
        replies, is_complete = self._read(uri, "pdf", options, context)
        too_slow = f"{shown(uri)!r} takes too much time or memory to read."
        if not replies:
            raise ToolError(f"{too_slow} Read a smaller file.")
        count = replies[0]["pages"]
        if start_page > count:
            raise ToolError(f"There is no page {start_page} in {shown(uri)!r}: the file has only {count:,} pages.")
        if len(replies) == 1:
            raise ToolError(f"Page {start_page} of {too_slow} Read other pages.")
        last_page = min(end_page or count, count)
        return _pages(replies[1:], count, start_character, self.max_output_chars, last_page, is_complete=is_complete)

    def _read(
        self, uri: str, kind: Literal["image", "pdf"], options: Mapping[str, Any], context: ToolContext
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the replies of the process, and whether it has come to its end. Raises ToolError for its errors."""
        if any(module_folder(module) is None for module in _MODULES[kind]):
            needs = 'needs `pip install "ahvn-tools[documents]"` where the tool runs.'
            raise ToolError(f"{'A picture' if kind == 'image' else 'A PDF file'} {needs}")
        folders = self.folders.for_call(context)
        program = Path(document_program.__file__)
        with explained_misses(folders, uri), folders.open(uri) as (file, _):
            done = run_isolated_python(
                [str(program), json.dumps({"kind": kind, "options": options})],
                folder=program.parent, modules=_MODULES[kind], timeout=SECONDS, memory_bytes=_MEMORY_BYTES,
                sandbox=choose_sandbox("auto", untrusted=[*self.folders.roots, *folders.roots]),
                stdin=file, is_cancelled=lambda: context.cancelled,
            )  # fmt: skip
        context.check_cancelled()
        lines = done.stdout.head.split("\n")[:-1]  # the last may be cut off
        if not lines and done.ended_by != "timeout":
            raise ToolError("The file cannot be read, because the process that reads it could not be started.")
        replies = [json.loads(line) for line in lines[1:]]
        if replies and "error" in replies[-1]:
            raise ToolError(f"{shown(uri)!r} {replies[-1]['error']}.")
        return replies, done.exit_code == 0


def _picture(name: str, reply: dict[str, Any]) -> ToolResult:
    from mcp_types import ImageContent, TextContent

    (width, height), (shown_width, shown_height) = reply["size"], reply["shown"]
    text = f"{name}: {reply['format']}, {width} x {height} pixels"
    if [shown_width, shown_height] != [width, height]:
        text += f", shown with {shown_width} x {shown_height} pixels"
    if reply["is_first_frame"]:
        text += ", the first of several frames"
    image = ImageContent(type="image", data=reply["data"], mime_type=reply["mime_type"])
    return ToolResult(text, blocks=(TextContent(type="text", text=text), image))


def _pages(
    replies: list[dict[str, Any]], count: int, start_character: int, max_chars: int, last_page: int, *,
    is_complete: bool,
) -> str:  # fmt: skip
    """Return the texts of pages with their numbers, and how to go on if they are not all."""
    parts: list[str] = []
    size = 0
    for reply in replies:
        page, text = reply["page"], reply["text"]
        is_continued = start_character > 1 and not parts
        heading = f"Page {page} of {count}{f' (from character {start_character})' if is_continued else ''}"
        part = f"{heading}:\n{_text_of_page(text, max_chars, is_continued=is_continued)}"
        size += len(part) + 2
        if parts and size > max_chars:
            break
        parts.append(part)
        if text and len(text) > max_chars:
            rest = start_character + max_chars
            return f"{part}\n\n(The page is longer. Go on with start_page={page}, start_character={rest}.)"
    end = replies[0]["page"] + len(parts) - 1
    if not is_complete and len(parts) == len(replies):
        parts.append(f"(Page {end + 1} takes too much time or memory to read. Go on with start_page={end + 2}.)")
    elif end < last_page:
        parts.append(f"(The result would be too long. Go on with start_page={end + 1}.)")
    return "\n\n".join(parts)


def _text_of_page(text: str | None, max_chars: int, *, is_continued: bool) -> str:
    if text is None:
        return "(This page is damaged.)"
    nothing = (
        "(The page has no more text.)" if is_continued else "(There is no text on this page. It may be a picture.)"
    )
    return text[:max_chars].strip("\n") or nothing
