"""The skills of a toolkit: which of them a view has, their list for a prompt, and the tool that reads them."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ahvn_tools import invisible
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import ToolError, ToolLookupError, clip, near_misses, quote_name
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.mcp.client.remote_server import RemoteServer
from ahvn_tools.middleware.external import may_wait
from ahvn_tools.skills import SKILL_FILE
from ahvn_tools.skills.folders import FolderFiles, read_folders
from ahvn_tools.skills.server import read_server
from ahvn_tools.skills.skill import MAX_DESCRIPTION_CHARS, FoundSkills, Skill, check_file_name, decode, split_text
from ahvn_tools.toolkit.entry import NEEDS_SESSION, READS_SKILLS, Entry
from ahvn_tools.toolkit.entry_options import BASIC_GROUP, SkillOptions, refuse_unknown_options, to_names
from ahvn_tools.toolkit.mcp_imports import MCPImports
from ahvn_tools.toolkit.model_tools import require_toolkit
from ahvn_tools.toolkit.sessions import CANNOT_SWITCH
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


async def add(store: ToolStore, imports: MCPImports, sources: Sequence[Any], options: SkillOptions) -> None:
    """Add the skills of folders, packages and MCP servers, and the tool that reads them; all or nothing."""
    refuse_unknown_options(options, SkillOptions)
    group, audience = options.get("group", BASIC_GROUP), to_names(options.get("audience", ()))
    store.group(group)
    connected: list[RemoteServer] = []
    new_reader: list[Entry] = []
    try:
        found = [await _read_source(source, imports, connected, options.get("trust")) for source in sources]
        if store.skill_reader is None:
            new_reader.append(_make_reader(store))
            store.add(new_reader, {})
        skills = [skill for one in found for skill in one.skills]
        store.add_skills(ToolkitSkill(skill=skill, group=group, audience=audience) for skill in skills)
    except BaseException:
        store.remove_entries(new_reader)
        for server in connected:
            await imports.remove(server.name)
        raise
    if new_reader and (listing := store.search_listing) is not None:  # the prompt says that the tool can be called
        store.search_listing = replace(listing, core=(*listing.core, new_reader[0].name))
    store.load_errors = (*store.load_errors, *(error for one in found for error in one.errors))


def _make_reader(store: ToolStore) -> Entry:
    spec = store.spec_class.from_function(read_skill, annotations={"readOnlyHint": True})
    entry = Entry(spec, spec.name, __name__, {}, store.locks)
    entry.on_duplicate = "raise"
    return entry


async def _read_source(
    source: Any, imports: MCPImports, connected: list[RemoteServer], trust: bool | None
) -> FoundSkills:
    """Return the skills of a source. A server that is not connected is added to the toolkit, without its tools.

    Raises SourceError for a source without skills that can be used.
    """
    if isinstance(source, str | os.PathLike) and not re.match(r"https?://", str(source), re.IGNORECASE):
        found = await call_in_thread(read_folders, source, trust)
        return found.require(f"The folder {os.fspath(source)!r} has no SKILL.md file, and no folder in it has one.")
    servers = [source] if isinstance(source, RemoteServer) else []
    if not servers:
        servers = await imports.add(source, None, None, {"tools": {"*": {"enabled": False}}})
        connected += servers
    found = FoundSkills()
    for server in servers:
        await read_server(server, found, is_trusted=trust is True)
    names = ", ".join(repr(server.name) for server in servers)
    return found.require(f"The MCP server {names} has no skill: no resource skill://NAME/SKILL.md.")


def to_prompt(view: StoreView) -> str:
    """Return the names and descriptions of the skills that can be read here, as a text for a model; "" if none can."""
    reader, skills = view.store.skill_reader, view.skills()
    if reader is None or not skills or not view.is_visible(reader):
        return ""
    lines = [_PROMPT.format(tool=f"`{reader.name}`"), "", "<available_skills>"]
    chars = 0
    for count, added in enumerate(skills.values()):
        name, description = (
            html.escape(_to_line(text), quote=False) for text in (added.skill.name, added.skill.description)
        )
        text = f"<skill>\n<name>{name}</name>\n<description>{description}</description>\n</skill>"
        if (chars := chars + len(text)) > MAX_PROMPT_CHARS:
            lines.append(f"<!-- {len(skills) - count} more skills are not listed -->")
            break
        lines.append(text)
    return "\n".join([*lines, "</available_skills>"])


def tools_without_commands(view: StoreView) -> dict[str, str]:
    """Return why tools of a view cannot be called by a command each, or are not listed, by their names."""
    reasons: dict[str, str] = {}
    for entry in view.contained_entries():
        body = entry.spec.body
        if entry.is_of_middleware or getattr(body, NEEDS_SESSION, False):
            reasons[entry.name] = "it needs a session of several calls"
        elif may_wait(view.compiled_tool(entry).plan, body):
            reasons[entry.name] = "a program or a person supplies its result"
        elif not view.is_active(entry.group):
            reasons[entry.name] = f"its group {entry.group!r} is not active"
    return reasons


def _to_line(text: str) -> str:
    return invisible.escape_line(" ".join(clip(text, MAX_DESCRIPTION_CHARS).split()))


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
    files = skill.files
    assert files is not None  # noqa: S101  # for mypy: skills of a toolkit have files
    text = decode(await files.read(path, context.state), path)
    is_main = path == SKILL_FILE
    if is_main:
        text = split_text(text)[1]
    page = _cut(text if skill.is_trusted else invisible.escape(text), start)
    if not is_main or start > 0:
        return page
    notes = _activate(view, skill, is_anonymous=context.is_anonymous) if skill.is_trusted else []
    return "\n\n".join(filter(None, [page, *_describe(skill, await files.names(), context), *notes]))


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


def _describe(skill: Skill, names: Sequence[str], context: ToolContext) -> list[str]:
    """Return what the skill needs, and where its files are."""
    others = [invisible.escape_line(name) for name in names if name != SKILL_FILE]
    notes = [] if skill.compatibility is None else [f"It needs: {_to_line(skill.compatibility)}"]
    if others:
        more = f" … and {len(others) - _MAX_LISTED} more" if len(others) > _MAX_LISTED else ""
        notes.append(f"Files of the skill, to be read with `{context.tool}`: {', '.join(others[:_MAX_LISTED])}{more}")
    if isinstance(skill.files, FolderFiles) and (place := _visible_folder(skill.files.root, context)) is not None:
        notes.append(f"The skill is in the folder {place!r}.")
    return notes


def _visible_folder(folder: Path, context: ToolContext) -> str | None:
    """Return the path of a folder as tools of the call take it: for clients of a server, relative to the first root."""
    if context.is_served:
        first = next((root for root in context.roots[:1] if folder.is_relative_to(root)), None)
        return None if first is None else folder.relative_to(first).as_posix()
    return str(folder) if any(folder.is_relative_to(root) for root in context.roots) else None


def _activate(view: StoreView, skill: Skill, *, is_anonymous: bool) -> list[str]:
    """Activate the groups that a skill names, or of whose tools it names one; return what the model should know.

    For a client that the server cannot distinguish from others nothing can be switched.
    """
    groups = view.groups()
    names = dict.fromkeys(group for tool in skill.allowed_tools if (group := _find_group(view, tool)) in groups)
    inactive = [name for name in names if not groups[name].is_active]
    if not inactive:
        return []
    if is_anonymous:
        listed = ", ".join(quote_name(name) for name in inactive)
        return [f"Tools of these groups are not available: {listed}. {CANNOT_SWITCH}"]
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
