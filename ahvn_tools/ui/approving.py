"""The pages of what waits for a person: approvals, results of external calls, and questions to the user."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ahvn_tools import invisible
from ahvn_tools.errors import ToolkitError
from ahvn_tools.ui.trying import read_arguments, read_body

if TYPE_CHECKING:
    from ahvn_tools.middleware.inbox import Inbox, InboxItem

MAX_LISTED: Final = 100
"""How many requests a page shows of those that wait, and of those that have ended."""

Render = Callable[..., Response]


def routes(inbox: Inbox | None, render: Render) -> list[Route]:
    """Return the pages of an inbox; without one, a page that says how to have one."""

    def show_list(request: Request) -> Response:
        page, waiting, items, problem = _page_number(request), list[Any](), list[Any](), ""
        if inbox is not None:
            try:
                found = inbox.waiting(is_short=True)
                waiting = [*islice(found, (page - 1) * MAX_LISTED, page * MAX_LISTED + 1)]
                items = inbox.items(is_short=True)
            except ToolkitError as error:  # the file is locked, corrupt or deleted
                problem = str(error)
        ended = [item for item in items if item.state not in {"waiting", "unreadable"}][:MAX_LISTED]
        unreadable = sum(item.state == "unreadable" for item in items)
        values = {"unreadable": unreadable, "problem": problem, "ago": _ago, "clean": invisible.escape_line}
        values |= {"page": page, "has_more": len(waiting) > MAX_LISTED, "first": (page - 1) * MAX_LISTED + 1}
        shown = waiting[:MAX_LISTED]
        return render(request, "inbox.html", waiting=shown, ended=ended, status=503 if problem else 200, **values)

    def show_item(request: Request) -> Response:
        item, last = _find(inbox, request, with_previous=True)
        rows = _compare(item.arguments, None if last is None else last.arguments)
        return render(
            request,
            "approval.html",
            item=item,
            last=last,
            rows=rows,
            ago=_ago,
            clean=invisible.escape,
            line=invisible.escape_line,
        )

    async def decide(request: Request) -> Response:
        item, _ = await run_in_threadpool(_find, inbox, request)
        body, problem = read_arguments(await read_body(request))
        if problem is not None or not isinstance(body, dict):
            return JSONResponse({"is_error": True, "text": "This decision is no JSON object."})
        try:
            await run_in_threadpool(_decide, inbox, item, body)
        except ToolkitError as error:
            return JSONResponse({"is_error": True, "text": str(error)})
        return JSONResponse({"is_error": False, "text": ""})  # the page shows what becomes of it

    return [
        Route("/approvals", show_list),
        Route("/approvals/{id}", show_item),
        Route("/approvals/{id}", decide, methods=["POST"]),
    ]


def _page_number(request: Request) -> int:
    """Return which page of those that wait is shown, from 1."""
    found = re.fullmatch("[0-9]{1,4}", request.query_params.get("page", ""))
    return max(int(found[0]), 1) if found else 1


def _find(inbox: Inbox | None, request: Request, *, with_previous: bool = False) -> tuple[InboxItem, InboxItem | None]:
    """Return the request of a page, and what was decided before. Raises HTTPException."""
    try:
        if inbox is None:
            raise ToolkitError("There is no inbox.")
        item = inbox.item(request.path_params["id"])
        return item, inbox.previous(item) if with_previous else None
    except ToolkitError as error:
        raise HTTPException(404, str(error)) from None


def _decide(inbox: Any, item: InboxItem, body: dict[str, Any]) -> None:
    """Decide as a request says, on what its page showed. Raises ToolkitError."""
    action, arguments, digest = body.get("action"), body.get("arguments"), str(body.get("digest"))
    if action == "approve" and isinstance(arguments, dict | None):
        if arguments is not None and (missing := item.arguments.keys() - arguments.keys()):
            raise ToolkitError(f"An approver cannot remove an argument. Set {min(missing)!r}, or deny the call.")
        edits = None if arguments == item.arguments else arguments
        inbox.approve(item.id, edits, always=body.get("always") is True, digest=digest)
    elif action == "answer":
        inbox.answer(item.id, body.get("value"), digest=digest)
    elif action == "deny":
        inbox.deny(item.id, str(body.get("reason") or ""), digest=digest)
    else:
        raise ToolkitError("This is no decision.")


def _compare(now: dict[str, Any], last: dict[str, Any] | None) -> list[tuple[str, str, str, bool]]:
    """Return each argument as text: now and the last time, and whether it is another one."""
    names = dict.fromkeys([*now, *(last or {})])
    shown = [(name, _text(now, name), "" if last is None else _text(last, name)) for name in names]
    return [(name, one, other, last is not None and one != other) for name, one, other in shown]


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return invisible.escape(text) if name in arguments else "(not set)"


def _ago(moment: float | None) -> str:
    """Return how long ago something was, or how far away it is, in words."""
    seconds = round(time.time() - (moment or time.time()))
    number, unit = next(
        (abs(seconds) // size, name)
        for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
        if abs(seconds) >= size or size == 1
    )
    words = f"{number} {unit}{'' if number == 1 else 's'}"
    return f"in {words}" if seconds < 0 else f"{words} ago"
