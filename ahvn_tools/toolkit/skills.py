"""The skills of a toolkit: which of them a view has, their list for a prompt, and the tool that reads them."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools import invisible
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import SourceError, ToolError, ToolLookupError, near_misses, quote_name
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.mcp.client.remote_server import RemoteServer
from ahvn_tools.redaction.texts import clip
from ahvn_tools.skills import SKILL_FILE
from ahvn_tools.skills.folders import FolderFiles, find_package, find_package_folder, find_skill_folders, read_folder
from ahvn_tools.skills.server import read_server
from ahvn_tools.skills.skill import MAX_DESCRIPTION_CHARS, Skill, check_file_name, decode, split_text
from ahvn_tools.toolkit.entry import READS_SKILLS, Entry
from ahvn_tools.toolkit.entry_options import BASIC_GROUP, SkillOptions, refuse_unknown_options, to_names
from ahvn_tools.toolkit.mcp_imports import MCPImports
from ahvn_tools.toolkit.model_tools import require_toolkit
from ahvn_tools.toolkit.store import ToolkitSkill, ToolStore
from ahvn_tools.toolkit.visibility import StoreView

MAX_PAGE_CHARS: Final = 50_000
"""How much of a file one call of `read_skill` returns."""
MAX_PROMPT_CHARS: Final = 30_000
"""How long the list of skills for a prompt is."""
_MAX_LISTED: Final = 100
"""How many files of a skill, and how many tools, an answer lists."""

_PROMPT: Final = (
    "Skills are instructions for kinds of tasks. If a task fits the description of a skill, call {tool} with its name "
    "before you begin, and follow what it says."
)


@dataclass(kw_only=True)
class FoundSkills:
    """What the arguments of `Toolkit.add_skills` lead to."""

    skills: list[Skill] = field(default_factory=list)
    errors: list[SourceError] = field(default_factory=list)
    """Why others were skipped."""

    def add(self, skills: Iterable[Skill], errors: Sequence[SourceError], nothing: str) -> None:
        """Add the skills of one source. Raises SourceError if it has none: the first error, or the text `nothing`."""
        before = len(self.skills)
        self.skills += skills
        self.errors += errors
        if len(self.skills) == before:
            raise errors[0] if errors else SourceError(nothing)


async def add(store: ToolStore, imports: MCPImports, sources: Sequence[Any], options: SkillOptions) -> None:
    """Add the skills of folders, packages and MCP servers, and the tool that reads them; all or nothing."""
    refuse_unknown_options(options, SkillOptions)
    group, audience = options.get("group", BASIC_GROUP), to_names(options.get("audience", ()))
    store.group(group)
    connected: list[RemoteServer] = []
    try:
        found = await _find_skills(imports, connected, sources, options.get("trust"))
        if store.skill_reader is None:
            spec = store.spec_class.from_function(read_skill, annotations={"readOnlyHint": True})
            entry = Entry(spec, spec.name, __name__, {}, store.locks)
            entry.on_duplicate = "raise"
            store.add([entry], {})
            if (listing := store.search_listing) is not None:  # the prompt says that the tool can be called
                store.search_listing = replace(listing, core=(*listing.core, entry.name))
        store.add_skills(ToolkitSkill(skill=skill, group=group, audience=audience) for skill in found.skills)
    except BaseException:
        for server in connected:
            await imports.remove(server.name)
        raise
    store.load_errors = (*store.load_errors, *found.errors)


async def _find_skills(
    imports: MCPImports, connected: list[RemoteServer], sources: Sequence[Any], trust: bool | None
) -> FoundSkills:
    """Return the skills of these sources. A server that is not connected is added to the toolkit, without its tools."""
    found = FoundSkills()
    for source in sources:
        is_url = isinstance(source, str) and re.match(r"https?://", source, re.IGNORECASE)
        if isinstance(source, str | os.PathLike) and not is_url:
            (await run_in_thread(lambda _, source=source: _read_folders(found, source, trust))).get()  # type: ignore[misc]
            continue
        servers = [source] if isinstance(source, RemoteServer) else []
        if not servers:
            servers = await imports.add(source, None, None, {"tools": {"*": {"enabled": False}}})
            connected += servers
        for server in servers:
            skills, errors = await read_server(server, is_trusted=trust is True)
            found.add(
                skills, errors, f"The MCP server {server.name!r} has no skill: no resource skill://NAME/SKILL.md."
            )
    return found


def _read_folders(found: FoundSkills, source: str | os.PathLike[str], trust: bool | None) -> None:
    shown = os.fspath(source)
    is_package = isinstance(source, str) and find_package(source, Path()) is not None
    folder = find_package_folder(shown) if is_package else Path(shown).expanduser()
    is_trusted = not is_package if trust is None else trust
    if not folder.is_dir():
        hint = " Name the folder of the file." if folder.is_file() else ""
        raise SourceError(f"There is no folder {shown!r} with skills.{hint}", file=shown)
    skills: list[Skill] = []
    errors: list[SourceError] = []
    for inner in find_skill_folders(folder, follows_links=is_trusted):
        try:
            skills.append(
                read_folder(inner, os.path.normpath(shown / inner.relative_to(folder)), is_trusted=is_trusted)
            )
        except (SourceError, OSError, RuntimeError) as error:
            errors.append(
                error if isinstance(error, SourceError) else SourceError(f"{inner}: {error}", file=str(inner))
            )
    found.add(skills, errors, f"The folder {shown!r} has no SKILL.md file, and no folder in it has one.")


def to_prompt(view: StoreView) -> str:
    """Return the names and descriptions of the skills that can be read here, as a text for a model; "" if none can."""
    reader, skills = view.store.skill_reader, view.skills()
    if reader is None or not skills or not view.is_visible(reader):
        return ""
    lines = [_PROMPT.format(tool=f"`{reader.name}`"), "", "<available_skills>"]
    chars = 0
    for count, added in enumerate(skills.values()):
        name, description = _to_line(added.skill.name), _to_line(added.skill.description)
        text = f"<skill>\n<name>{name}</name>\n<description>{description}</description>\n</skill>"
        if (chars := chars + len(text)) > MAX_PROMPT_CHARS:
            lines.append(f"<!-- {len(skills) - count} more skills are not listed -->")
            break
        lines.append(text)
    return "\n".join([*lines, "</available_skills>"])


def _to_line(text: str) -> str:
    return html.escape(invisible.escape_line(" ".join(clip(text, MAX_DESCRIPTION_CHARS).split())), quote=False)


async def read_skill(name: str, context: ToolContext, file: str = SKILL_FILE, start: int = 0) -> str:
    """Read the instructions of a skill, or another file of it. Read the instructions before you use the skill.

    Args:
        name: The name of the skill.
        file: The path of a file in the skill, as its instructions name it. By default the instructions.
        start: The position of the character to begin with, to go on with a text that was cut.
    """
    view = require_toolkit(context)._view  # noqa: SLF001  # of this package
    skills = view.skills()
    if name not in skills:
        raise ToolError(f"There is no skill {quote_name(name)}. {near_misses(name, skills)}")
    skill, path = skills[name].skill, check_file_name(file)
    assert skill.files is not None  # noqa: S101  # for mypy: skills of a toolkit have files
    text = decode(await skill.files.read(path, context.state), path)
    is_main = path == SKILL_FILE
    if is_main:
        text = split_text(text)[1]
    page = _cut(text if skill.is_trusted else invisible.escape(text), start)
    if not is_main or start > 0:
        return page
    notes = _activate(view, skill) if skill.is_trusted and not context.is_anonymous else []
    return "\n\n".join(filter(None, [page, *await _describe(skill, context), *notes]))


setattr(read_skill, READS_SKILLS, True)


def _cut(text: str, start: int) -> str:
    """Return a page of a text, up to the end of a line, and how to go on."""
    start = max(start, 0)
    if start and start >= len(text):
        raise ToolError(f"The text has {len(text):,} characters, and none at {start:,}.")
    end = min(start + MAX_PAGE_CHARS, len(text))
    if end < len(text):
        end = text.rfind("\n", start, end) + 1 or end
    rest = f"\n\n(This is a part of {len(text):,} characters. Go on with start={end}.)" if end < len(text) else ""
    return text[start:end].rstrip("\n") + rest


async def _describe(skill: Skill, context: ToolContext) -> list[str]:
    """Return what the skill needs, and where its files are."""
    assert skill.files is not None  # noqa: S101  # as above
    names = [invisible.escape_line(name) for name in await skill.files.names() if name != SKILL_FILE]
    notes = [] if skill.compatibility is None else [f"It needs: {_to_line(skill.compatibility)}"]
    if names:
        more = f" … and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        notes.append(f"Files of the skill, to be read with `{context.tool}`: {', '.join(names[:_MAX_LISTED])}{more}")
    if isinstance(skill.files, FolderFiles) and any(skill.files.root.is_relative_to(root) for root in context.roots):
        notes.append(f"The skill is in the folder {str(skill.files.root)!r}.")
    return notes


def _activate(view: StoreView, skill: Skill) -> list[str]:
    """Activate the groups that a skill names, or of whose tools it names one; return what the model should know."""
    groups = view.groups()
    names = dict.fromkeys(group for tool in skill.allowed_tools if (group := _find_group(view, tool)) in groups)
    inactive = [name for name in names if not groups[name].is_active]
    if not inactive:
        return []
    try:
        view.set_groups(dict.fromkeys(inactive, True))
    except ToolLookupError:  # the host has removed a group at this moment
        return []
    tools = [entry.name for entry in view.visible_entries() if entry.group in inactive][:_MAX_LISTED]
    notes = [f"## {name}\n{groups[name].notes}" for name in inactive if groups[name].notes]
    return [f"These tools are available now: {', '.join(tools)}", *notes]


def _find_group(view: StoreView, tool: str) -> str | None:
    """Return the group of a tool of the view by how a skill calls it, or the group of that name."""
    name = tool.partition("(")[0]
    entry = view.store.entries.get(name)
    if entry is not None:
        return entry.group if view.is_selected(entry) else None
    return name if name in view.groups() else None
