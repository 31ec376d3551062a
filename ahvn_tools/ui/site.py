"""The ASGI app of the playground: its pages, and what each request must pass."""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import secrets
from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, urlsplit

try:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError('ahvn_tools.ui needs Jinja: pip install "ahvn-tools[ui]"', name=missing.name) from missing
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ahvn_tools.errors import ToolLookupError
from ahvn_tools.json_types import JsonObject
from ahvn_tools.ui import approving, facts, servers, trying
from ahvn_tools.ui.watching import watch_routes

if TYPE_CHECKING:
    from ahvn_tools.middleware.inbox import Inbox
    from ahvn_tools.toolkit import Toolkit
    from ahvn_tools.toolkit.tool import ToolkitTool

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""The host names under which the pages are reached by default."""

TOOLS_PER_PAGE = 20
"""How many tools the page about providers judges at a time: each takes some milliseconds."""

_FOLDER = Path(__file__).parent
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-cache",
}

_NO_STATE: Final = {"type": "object", "properties": {}, "additionalProperties": False}


def app(
    kit: Toolkit,
    *,
    token: str | None = None,
    hosts: Collection[str] = LOOPBACK,
    inbox: Inbox | None = None,
    connect_to: Toolkit | None = None,
    read_only: bool = False,
    watched: str | PathLike[str] | None = None,
    show_state: bool = False,
    edit_state: bool = False,
    setup: str = "",
) -> ASGIApp:
    """Return the playground of a toolkit, a session or a selection as an ASGI app, also to mount under a prefix.

    Whoever reaches the app sees the tools and runs them: it has no users. `hosts` are the host names that requests may
    use; those of this machine by default. With `token`, a browser must first open the app with `?token=…`, an address
    that servers and proxies may log; without one, the app that mounts it decides who reaches it. The page Watch shows
    the calls in the file `watched`, by default that of `watch()`; the middleware is added to a toolkit, and must be in
    that of a session or a selection already.
    What waits in `inbox` is decided there. `connect_to` is the toolkit to which the pages may add MCP servers, also
    commands, which they run; by default they add none. With `read_only` the pages show everything, and do nothing.
    `show_state` shows the values of bound parameters that are not secret. With `edit_state`, the page Try may set the
    state of its calls, such as the user that a tool acts for. `setup` is the Python code that makes `kit`,
    with which copied calls and tests begin.

    >>> from ahvn_tools import Toolkit, ui
    >>> playground = ui.app(Toolkit("math").add(abs, name="size"))
    """
    pages = _Pages(kit, setup, show_state=show_state, edit_state=edit_state)
    routes = [
        Route("/", pages.list_tools),
        Route("/providers", pages.list_verdicts),
        Route("/tool/{name:path}", pages.show_tool),
        Route("/provider/{name:path}", pages.show_exports),
        Route("/try/{name:path}", pages.try_tool),
        Route("/validate/{name:path}", pages.validate, methods=["POST"]),
        Route("/run/{name:path}", pages.run, methods=["POST"]),
        Route("/cancel/{call_id}", pages.cancel, methods=["POST"]),
        *approving.routes(inbox, _render),
        *servers.routes(kit, connect_to, _render),
        *watch_routes(kit, watched, _render),
        Mount("/static", StaticFiles(directory=_FOLDER / "static")),
    ]
    site = Starlette(routes=routes, exception_handlers={HTTPException: _show_error})
    site.state.read_only, site.state.has_inbox = read_only, inbox is not None
    return _Guard(site, token, frozenset(hosts), read_only=read_only)


class _Guard:
    """Refuses requests for other hosts, from other sites and without the token, and adds the headers of safety."""

    def __init__(self, site: ASGIApp, token: str | None, hosts: frozenset[str], *, read_only: bool) -> None:
        self._site, self._read_only = site, read_only
        self._token = token
        self._hosts = hosts
        self._cookie, self._pass = f"ahvn_tools_ui_{_digest(token, 'name')[:12]}", _digest(token, "value")
        """The name of the cookie, so that several apps of one host differ, and its value, which is not the token."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._site(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        answer = self._check(HTTPConnection(scope)) or self._site
        await answer(scope, receive, send_with_headers)

    def _check(self, request: HTTPConnection) -> Response | None:
        """Return the answer to a request that is not passed on."""
        host = request.headers.get("host", "")
        if _host_name(host) not in self._hosts:
            text = "This host name is not allowed. Open the address that was printed, or add the name to `hosts`."
            return PlainTextResponse(text, 421)
        is_reading = request.scope["method"] in {"GET", "HEAD"}
        if not is_reading and request.headers.get("origin") != f"{request.url.scheme}://{host}":
            text = "The request comes from another site. A server behind a proxy must read the scheme from its headers."
            return PlainTextResponse(text, 403)
        if not is_reading and self._read_only:
            return PlainTextResponse("These pages are read-only: they run, decide and connect nothing.", 403)
        if self._token is None:
            return None
        sent = parse_qs(request.url.query).get("token", [""])[0]
        if is_reading and _is_same(sent, self._token):
            root = request.scope.get("root_path", "")
            answer = RedirectResponse(f"{root}/", 303)
            is_secure = request.url.scheme == "https"
            path = root or "/"
            answer.set_cookie(self._cookie, self._pass, path=path, httponly=True, samesite="lax", secure=is_secure)
            return answer
        if _is_same(request.cookies.get(self._cookie, ""), self._pass):
            return None
        return PlainTextResponse("The token is missing. Open the address that was printed, with its token.", 401)


def _host_name(host: str) -> str | None:
    """Return the name in a Host header; None if it has anything but a name and a port."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and "@" not in host else None


def _digest(token: str | None, purpose: str) -> str:
    """Return a digest for the cookie with the token as its key: the same in all processes of an app."""
    return hmac.new((token or "").encode(), purpose.encode(), hashlib.sha256).hexdigest()


def _is_same(text: str, expected: str) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "replace"), expected.encode())


async def _show_error(request: Request, error: Exception) -> Response:
    text = getattr(error, "detail", "")
    return _render(request, "error.html", status=getattr(error, "status_code", 500), text=text)


@functools.cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["path"] = functools.partial(quote, safe="", errors="replace")
    environment.filters["pretty"] = functools.partial(json.dumps, indent=2, ensure_ascii=False)
    return environment


def _render(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    base = request.scope.get("root_path", "").rstrip("/")
    values |= {"base": base, "status": status, "read_only": request.app.state.read_only}
    values["has_inbox"] = request.app.state.has_inbox
    text = _templates().get_template(template).render(values)
    return HTMLResponse(text.encode("utf-8", "replace"), status)


class _Pages:
    """The pages of one toolkit. Those that only read run in threads, because exports of many tools take long."""

    def __init__(self, kit: Toolkit, setup: str, *, show_state: bool, edit_state: bool) -> None:
        self._kit, self._setup = kit, setup
        self._all = kit.select(inactive=True)
        """The tools of inactive groups are shown, too."""
        self._show_state, self._edit_state = show_state, edit_state

    def _find(self, request: Request) -> ToolkitTool:
        try:
            return self._all[request.path_params["name"]]
        except ToolLookupError as error:
            raise HTTPException(404, str(error)) from None

    def _facts(self, tool: ToolkitTool) -> JsonObject:
        return facts.tool_facts(tool, self._all.groups)

    def list_tools(self, request: Request) -> Response:
        """Show all tools; the page filters them."""
        rows = [facts.list_row(tool, self._all.groups) for tool in self._all]
        choices = {
            "group": sorted({row["group"] for row in rows}),
            "tag": sorted({tag for row in rows for tag in row["tags"]}),
            "audience": sorted({name for row in rows for name in row["audience"]}),
            "source": sorted({row["source"] for row in rows}),
        }
        return _render(request, "tools.html", kit=self._kit.name, rows=rows, choices=choices)

    def show_tool(self, request: Request) -> Response:
        """Show what a model sees of a tool, and what is bound."""
        tool = self._find(request)
        values = facts.shown_values(self._kit, tool) if self._show_state else None
        bound = facts.bound_rows(tool)
        return _render(request, "tool.html", page="tool", **self._facts(tool), bound=bound, values=values)

    def list_verdicts(self, request: Request) -> Response:
        """Show what each provider does with each tool, some tools at a time."""
        tools = list(self._all)
        start = _to_number(request.query_params.get("start", "0"))
        shown = tools[start : start + TOOLS_PER_PAGE]
        rows = [(tool.name, facts.verdicts(tool)) for tool in shown]
        return _render(
            request,
            "providers.html",
            kit=self._kit.name,
            rows=rows,
            formats=facts.FORMATS,
            start=start,
            end=start + len(shown),
            count=len(tools),
            size=TOOLS_PER_PAGE,
        )

    def show_exports(self, request: Request) -> Response:
        """Show a tool as one provider receives it, and what is to be said about that."""
        tool = self._find(request)
        name, strict = request.query_params.get("format", "openai"), request.query_params.get("strict") == "1"
        if name not in facts.FORMATS:
            raise HTTPException(404, f"There is no format {name!r}.")
        return _render(
            request,
            "provider.html",
            page="provider",
            **self._facts(tool),
            format=name,
            strict=strict,
            formats=facts.FORMATS,
            verdicts=facts.verdicts(tool),
            **facts.export_facts(tool, name, strict=strict),
        )

    def try_tool(self, request: Request) -> Response:
        """Show the form of a tool, where it can be run."""
        if request.app.state.read_only:
            raise HTTPException(403, "These pages are read-only: tools are not tried here.")
        tool = self._find(request)
        state = facts.state_schema(tool) if self._edit_state else _NO_STATE
        session = secrets.token_hex(16)
        return _render(request, "try.html", page="try", **self._facts(tool), state=state, session=session)

    async def validate(self, request: Request) -> Response:
        """Return the problems of arguments, or what a call would pass on."""
        arguments, problem = trying.read_arguments(await trying.read_body(request))
        if problem is not None:
            return JSONResponse(problem)
        return JSONResponse(trying.describe_check(self._kit.validate(request.path_params["name"], arguments)))

    async def run(self, request: Request) -> Response:
        """Run a call; its chunks and its result are events. The call ends when the browser disconnects."""
        sent, problem = trying.read_run(await trying.read_body(request), edit_state=self._edit_state)
        return trying.stream(self._kit, request.path_params["name"], sent, problem, self._setup)

    async def cancel(self, request: Request) -> Response:
        """Cancel a call that runs."""
        return JSONResponse({"is_cancelled": self._kit.cancel(request.path_params["call_id"])})


def _to_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0  # noqa: PLR2004  # digits
