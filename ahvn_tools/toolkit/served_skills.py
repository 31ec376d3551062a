"""The skills of a served toolkit as resources, as FastMCP's providers serve theirs: `skill://NAME/SKILL.md`."""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp_types import BlobResourceContents, ReadResourceResult, TextResourceContents

from ahvn_tools import invisible
from ahvn_tools.skills import SKILL_FILE, SKILL_SCHEME
from ahvn_tools.skills.server import MANIFEST, ServerFiles
from ahvn_tools.skills.skill import Skill
from ahvn_tools.toolkit.visibility import StoreView

_TEXT_TYPE: Final = "text/markdown"
_MANIFEST_TYPE: Final = "application/json"


def list_skills(view: StoreView) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the URIs and the fields of the instructions and the list of files of each skill that can be read here."""
    resources: list[tuple[str, Mapping[str, Any]]] = []
    for name, added in view.skills().items():
        for file, kind in ((SKILL_FILE, _TEXT_TYPE), (MANIFEST, _MANIFEST_TYPE)):
            text = invisible.escape(added.skill.description) if file == SKILL_FILE else f"The files of {name!r}."
            fields = {"name": f"{name}/{file}", "description": text, "mime_type": kind}
            resources.append((_uri(name, file), fields))
    return resources


def find_file(view: StoreView, uri: str) -> tuple[Skill, str] | None:
    """Return the skill that a URI is of, if it can be read here, and the path of the file."""
    name, _, path = uri.removeprefix(SKILL_SCHEME).partition("/")
    added = view.skills().get(unquote(name))
    return None if added is None or not path else (added.skill, unquote(path))


async def read_file(skill: Skill, path: str, state: Mapping[str, Any]) -> ReadResourceResult:
    """Return a file of a skill, or the list of its files. Raises ToolCallError."""
    uri = _uri(skill.name, path)
    if path == MANIFEST:
        text = json.dumps({"skill": skill.name, "files": await _describe_files(skill, state)})
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_MANIFEST_TYPE, text=text)])
    content = await _read(skill, path, state)
    kind = _TEXT_TYPE if path.endswith(".md") else mimetypes.guess_type(path)[0]
    try:
        text_content = TextResourceContents(uri=uri, mime_type=kind or "text/plain", text=content.decode())
        return ReadResourceResult(contents=[text_content])
    except UnicodeDecodeError:
        data = base64.b64encode(content).decode()
        blob = BlobResourceContents(uri=uri, mime_type=kind or "application/octet-stream", blob=data)
        return ReadResourceResult(contents=[blob])


def _uri(name: str, path: str) -> str:
    return f"{SKILL_SCHEME}{quote(name, safe='')}/{quote(path, safe='/')}"


async def _read(skill: Skill, path: str, state: Mapping[str, Any]) -> bytes:
    """Return the content of a file; of a skill that is not trusted, with invisible characters of a text escaped."""
    assert skill.files is not None  # noqa: S101  # for mypy: skills of a toolkit have files
    content = await skill.files.read(path, state)
    if skill.is_trusted:
        return content
    try:
        return invisible.escape(content.decode()).encode()
    except UnicodeDecodeError:
        return content


async def _describe_files(skill: Skill, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return path, size and digest of each file; of files on a server what that says, since each were a request."""
    if isinstance(skill.files, ServerFiles):
        digests = skill.files.digests.items()
        return [{"path": path} if digest is None else {"path": path, "hash": digest} for path, digest in digests]
    assert skill.files is not None  # noqa: S101  # for mypy: skills of a toolkit have files
    described = []
    for path in await skill.files.names():
        content = await _read(skill, path, state)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        described.append({"path": path, "size": len(content), "hash": digest})
    return described
