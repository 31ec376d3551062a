"""Skills of an MCP server: its resources `skill://NAME/SKILL.md`, and those beside them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote, unquote

from ahvn_tools import invisible
from ahvn_tools.errors import SourceError, ToolCallError, ToolChangedError, ToolError, near_misses
from ahvn_tools.execution.threads import call_in_thread
from ahvn_tools.mcp.client.remote_server import RemoteServer
from ahvn_tools.skills import SKILL_FILE, SKILL_SCHEME
from ahvn_tools.skills.skill import (
    MAX_FILES,
    MAX_SKILLS,
    FoundSkills,
    Skill,
    check_file_name,
    decode,
    find_missing_files,
    read_skill_text,
)

MANIFEST: Final = "_manifest"
"""The resource of FastMCP that lists the files of a skill, with their digests."""
_READ_SECONDS: Final = 30.0
_LIST_SECONDS: Final = 120.0
"""Seconds for the descriptions of all skills of one server."""
_READS_AT_ONCE: Final = 8
_MAX_URI_CHARS: Final = 2_000


@dataclass(frozen=True)
class ServerFiles:
    """The files of a skill on a server."""

    server: RemoteServer
    uri: str
    """The URI of the skill, with a slash at the end."""
    digests: Mapping[str, str | None] = field(default_factory=dict)
    """The files that the server lists, each with its SHA-256 if the server says it."""
    lists_all: bool = False
    """Whether it lists all of them, so that no other file is requested."""
    pinned_digest: str | None = None
    """The SHA-256 of `SKILL.md` if the server has pins: its files must stay what they were."""

    @property
    def location(self) -> str:
        """The URI."""
        return self.uri

    async def names(self) -> list[str]:
        """Return the paths that the server lists."""
        return list(self.digests)

    async def read(self, file: str, state: Mapping[str, Any]) -> bytes:
        """Return the content of a file. Raises ToolError, ToolChangedError and ToolConnectionError."""
        path = check_file_name(file)
        if self.lists_all and path not in self.digests:
            raise ToolError(f"The skill has no file {file!r}. {near_misses(file, self.digests)}")
        content = await self._read(path, state)
        if self.pinned_digest is not None:
            expected = self.pinned_digest if path == SKILL_FILE else self.digests.get(path)
            # a server that reads a file as text may change its line ends
            if expected not in {_digest(content), _digest(content.replace(b"\n", b"\r\n"))}:
                raise ToolChangedError(f"The file {file!r} of the skill is not what the host has accepted.")
        return content

    async def _read(self, path: str, state: Mapping[str, Any]) -> bytes:
        result = await self.server.aread_resource(self.uri + quote(path, safe="/"), state, _READ_SECONDS)
        for content in result.contents:
            if (text := getattr(content, "text", None)) is not None:
                return str(text).encode("utf-8", "surrogatepass")
            try:
                return base64.b64decode(getattr(content, "blob", ""), validate=True)
            except binascii.Error:
                break
        raise ToolError(f"The server sent {path!r} in a form that cannot be read.")

    async def described(self) -> tuple[ServerFiles, str]:
        """Return this object with the files that the server lists now, and the text of `SKILL.md`."""
        state = self.server.get_host_state()
        content = await self._read(SKILL_FILE, state)
        listed = None
        with contextlib.suppress(ToolCallError, ValueError, RecursionError):
            listed = dict(_read_manifest(await self._read(MANIFEST, state)))
        digests = {SKILL_FILE: None, **(self.digests if listed is None else listed)}
        pinned = _digest(content) if self.server.has_pins else None
        files = replace(self, digests=dict(sorted(digests.items())), lists_all=listed is not None, pinned_digest=pinned)
        return files, decode(content, SKILL_FILE)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _read_manifest(content: bytes) -> Iterator[tuple[str, str | None]]:
    """Yield the files of a manifest, as far as they have paths that can be used. Raises ValueError."""
    manifest = json.loads(content)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, list):
        raise ValueError(content)  # noqa: TRY004  # it is not the mistake of a caller
    for file in files[:MAX_FILES]:
        path, digest = (file.get("path"), file.get("hash")) if isinstance(file, dict) else (None, None)
        if isinstance(path, str) and _is_safe(path):
            yield path, digest if isinstance(digest, str) else None


def _is_safe(path: str) -> bool:
    try:
        return check_file_name(path) == path and not invisible.find_in_name(path)
    except ToolError:
        return False


async def read_server(server: RemoteServer, found: FoundSkills, *, is_trusted: bool = False) -> None:
    """Add the skills of a server to those that were found.

    Raises ToolConnectionError and others as listing tools does, ToolTimeoutError, and SourceError for too many skills.
    """
    listed = _find_skills(server, [str(resource.uri) for resource in await server.alist_resources()])
    if len(listed) > MAX_SKILLS:
        raise SourceError(f"The MCP server {server.name!r} lists more than {MAX_SKILLS:,} skills.")
    slots = asyncio.Semaphore(_READS_AT_ONCE)

    async def describe(files: ServerFiles, name: str) -> tuple[Skill, dict[str, Any]] | SourceError:
        place = f"{server.name}: {invisible.escape_line(files.uri)}{SKILL_FILE}"
        try:
            async with slots:
                files, text = await files.described()
                # in a thread: a large text would block the loop
                read = functools.partial(read_skill_text, text, place, name, is_trusted=is_trusted)
                skill, body = await call_in_thread(read)
        except ToolCallError as error:
            return SourceError(f"{place}: {error}", file=place)
        except SourceError as error:
            return error
        missing = find_missing_files(body, place, files.digests)
        wire = {"name": skill.name, "uri": files.uri, "text": text, "files": dict(files.digests)}
        return replace(skill, location=files.uri, files=files, problems=(*skill.problems, *missing)), wire

    try:
        async with asyncio.timeout(_LIST_SECONDS):
            outcomes = await asyncio.gather(*(describe(files, name) for files, name in listed))
    except TimeoutError:
        raise SourceError(f"The MCP server {server.name!r} did not send its skills in {_LIST_SECONDS:g} s.") from None
    found.errors += [outcome for outcome in outcomes if isinstance(outcome, SourceError)]
    described = [outcome for outcome in outcomes if not isinstance(outcome, SourceError)]
    changed = server.find_changed_skills([wire for _, wire in described])
    found.skills += [skill for skill, _ in described if skill.name not in changed]
    for name in sorted(changed):
        fix = f"Review it, and accept it: kit.servers[{server.name!r}].accept_skills({name!r}), then add_skills again."
        found.errors.append(
            SourceError(f"The skill {name!r} of the MCP server {server.name!r} is new or has changed. {fix}")
        )


def _find_skills(server: RemoteServer, uris: Iterable[str]) -> list[tuple[ServerFiles, str]]:
    """Return the files and the name in the URI of each skill, by the URIs of resources. Others are left out."""
    known = list(dict.fromkeys(uri for uri in uris if uri.startswith(SKILL_SCHEME) and len(uri) <= _MAX_URI_CHARS))
    found: dict[str, str] = {}
    for uri in known:
        path = unquote(uri.removeprefix(SKILL_SCHEME))
        *folders, file = path.split("/")
        if (
            file == SKILL_FILE
            and folders
            and _is_safe(path)
            and quote(path, safe="/") == uri.removeprefix(SKILL_SCHEME)
        ):
            found[uri.removesuffix(SKILL_FILE)] = folders[-1]
    files: dict[str, dict[str, str | None]] = {base: {} for base in found}
    for uri in known:
        base = next((base for base in _bases(uri) if base in files), None)
        if base is not None and _is_safe(path := unquote(uri.removeprefix(base))) and path != MANIFEST:
            files[base][path] = None
    return [(ServerFiles(server, base, dict(list(files[base].items())[:MAX_FILES])), found[base]) for base in found]


def _bases(uri: str) -> Iterator[str]:
    """Yield the URIs of the folders that a URI is in, the innermost first."""
    while (cut := uri.rstrip("/").rfind("/")) > len(SKILL_SCHEME) - 1:
        uri = uri[: cut + 1]
        yield uri
