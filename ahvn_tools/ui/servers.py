"""The pages of MCP servers: connect to one, see what was refused, and accept what has changed."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ahvn_tools import invisible
from ahvn_tools.errors import BindError, DefinitionError, ToolCallError, ToolLookupError, ToolSpecError, clip
from ahvn_tools.json_types import JsonObject
from ahvn_tools.mcp.trust.changes import compare
from ahvn_tools.ui.trying import read_arguments, read_body

if TYPE_CHECKING:
    from ahvn_tools.mcp.client.remote_server import RemoteServer
    from ahvn_tools.toolkit import Toolkit

MAX_ROWS: Final = 100
"""How many changed, and how many refused tools are shown: a hostile server may list ever more."""

MAX_TEXT_CHARS: Final = 300
"""How much of a name and of a reason is shown."""

MAX_DIFF_LINES: Final = 2_000
"""How many lines of a difference are shown; comparing takes long with more."""


def routes(kit: Toolkit, whole: Toolkit | None, render: Callable[..., Response]) -> list[Route]:
    """Return the pages of a toolkit's servers. `whole` is the toolkit to which servers may be added; None: none may."""

    def show_list(request: Request) -> Response:
        usable = Counter(tool.server_name for tool in kit)
        servers = list(kit.servers.values())
        return render(request, "servers.html", servers=servers, usable=usable, may_connect=whole is not None)

    def show_server(request: Request) -> Response:
        server = _find(kit, request)
        tools = [tool for tool in kit if tool.server_name == server.name]
        names, refused = sorted(server.changed & server.tools.keys()), server.refused
        values: dict[str, Any] = {
            "changed": [_describe_change(server, name) for name in names[:MAX_ROWS]],
            "refused": [(_shown(name), _shown(reason)) for name, reason in islice(refused.items(), MAX_ROWS)],
            "more": [max(len(names) - MAX_ROWS, 0), max(len(refused) - MAX_ROWS, 0)],
        }
        return render(request, "server.html", server=server, tools=tools, may_connect=whole is not None, **values)

    async def connect(request: Request) -> Response:
        if whole is None:
            raise HTTPException(403, "No server can be connected here: the host has to allow it with connect_to=….")
        known, body = {*whole.servers}, await _read(request)
        return await _answer(_connect(whole, body), "", lambda: _address(request, {*whole.servers} - known))

    async def change(request: Request) -> Response:
        server, body = _find(kit, request), await _read(request)
        action = body.get("action")
        if action == "accept":
            accepting = run_in_threadpool(_accept, server, str(body.get("tool")), str(body.get("digest")))
            return await _answer(accepting, "Accepted.")
        if action == "refresh":
            return await _answer(kit.arefresh_mcp(server.name), "Listed again.")
        if action == "disconnect" and whole is not None:
            return await _answer(whole.aremove_mcp(server.name), "", lambda: _address(request, ()))
        raise HTTPException(403, "This cannot be done here.")

    return [
        Route("/servers", show_list),
        Route("/servers", connect, methods=["POST"]),
        Route("/servers/{name:path}", show_server),
        Route("/servers/{name:path}", change, methods=["POST"]),
    ]


def _find(kit: Toolkit, request: Request) -> RemoteServer:
    name = request.path_params["name"]
    if (server := kit.servers.get(name)) is None:
        raise HTTPException(404, f"There is no MCP server {name!r}.")
    return server


async def _read(request: Request) -> JsonObject:
    body, _ = read_arguments(await read_body(request))
    return body if isinstance(body, dict) else {}


async def _answer(
    work: Coroutine[Any, Any, Any], text: str, find_address: Callable[[], str] = lambda: ""
) -> JSONResponse:
    """Do something, and return what to say, and the page to go to; or why it did not work, without a credential."""
    try:
        await work
    except (ToolSpecError, ToolCallError, DefinitionError, BindError, OSError) as error:
        return JSONResponse({"is_error": True, "text": str(error)})
    return JSONResponse({"is_error": False, "text": text, "address": find_address()})


def _address(request: Request, added: Any) -> str:
    """Return the page of the one server that was added, or the list."""
    base = f"{request.scope.get('root_path', '').rstrip('/')}/servers"
    return f"{base}/{quote(next(iter(added)), safe='')}" if len(added) == 1 else base


async def _connect(kit: Toolkit, body: JsonObject) -> None:
    """Add a server as a page describes it. Raises ToolkitError, ToolConnectionError and DefinitionError."""
    place, token, name, pin = (str(body.get(key) or "").strip() for key in ("server", "token", "name", "pin"))
    server: Any = place
    if place.startswith("{"):
        server, problem = read_arguments(place.encode())
        if problem is not None:
            raise DefinitionError(problem["text"].replace("The arguments are", "This mcp.json is"))
    options: dict[str, Any] = {key: value for key, value in (("auth", token), ("pin", pin)) if value}
    await kit.aadd_mcp(server, name=name or None, **options)


def _describe_change(server: RemoteServer, name: str) -> JsonObject:
    """Return what waits to be accepted, beside what was pinned."""
    before, now = server.pinned_definition(name), server.listed_definition(name)
    changes = compare([] if before is None else [before], [now])
    reasons = [*changes.breaking.get(name, ()), *changes.compatible.get(name, ())]
    lines = [] if before is None or before == now else list(_diff(_lines(before), _lines(now)))
    return {
        "name": name,
        "title": _shown(name),
        "is_known": before is not None,
        "is_breaking": name in changes.breaking,
        "reasons": [_shown(reason) for reason in reasons],
        "parameters": [] if before is None else _compare_parameters(before, now),
        "lines": lines or [(" ", line) for line in _lines(now)],
        "digest": _digest(now),
    }


def _shown(text: str) -> str:
    return invisible.escape_line(clip(text, MAX_TEXT_CHARS))


def _lines(wire: JsonObject) -> list[str]:
    text = json.dumps(wire, indent=2, ensure_ascii=False, sort_keys=True)
    lines = [invisible.escape(line) for line in text.split("\n")]
    left = len(lines) - MAX_DIFF_LINES
    note = [f"… {left} more lines, which are not shown and may have changed: see `pinned_definition` in Python"]
    return [*lines[:MAX_DIFF_LINES], *note] if left > 0 else lines


def _diff(before: list[str], now: list[str]) -> list[tuple[str, str]]:
    found = difflib.unified_diff(before, now, lineterm="", n=3)
    return [("@", "…") if line[0] == "@" else (line[0], line[1:]) for number, line in enumerate(found) if number > 1]


def _compare_parameters(before: JsonObject, now: JsonObject) -> list[tuple[str, str]]:
    """Return each parameter that was added, removed or changed, with that word."""
    old, new = ((wire.get("inputSchema") or {}).get("properties") or {} for wire in (before, now))
    words = {name: "added" if name not in old else "removed" for name in old.keys() ^ new.keys()}
    words |= {name: "changed" for name in old.keys() & new.keys() if old[name] != new[name]}
    return sorted((_shown(str(name)), word) for name, word in words.items())


def _digest(wire: JsonObject) -> str:
    return hashlib.sha256(json.dumps(wire, sort_keys=True).encode()).hexdigest()


def _accept(server: RemoteServer, name: str, digest: str) -> None:
    """Accept a definition that a person has seen. Raises ToolLookupError for another one."""
    tool = server.tools.get(name)
    if tool is None or _digest(server.listed_definition(name)) != digest:
        raise ToolLookupError(f"The tool {name!r} has changed again, or is gone: reload the page, and review it.")
    server.accept(tool)
