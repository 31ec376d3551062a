"""Tools, registries and middleware that have an import path."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from ahvn_tools import Secret, ToolRegistry, ToolSpec, reg_toolspec, tool


@tool(tags={"read"})
def find(query: str, user: str = "nobody") -> str:
    """Find a note."""
    return f"{user}: {query}"


def write(text: str, user: str = "nobody", token: Annotated[str, Secret] = "") -> str:
    """Write a note."""
    return f"{user} wrote {text}"


def remind(day: dt.date, text: str = "") -> str:
    """Remind somebody."""
    return f"{day}: {text}"


class Shelf(ToolRegistry):
    """Two tools, without arguments of the class."""

    @reg_toolspec(tags={"shelf"})
    def put(self, item: str, user: str = "nobody") -> str:
        """Put an item on the shelf."""
        return f"{user}: {item}"

    @reg_toolspec(name="take_item")
    def take(self, item: str) -> str:
        """Take an item."""
        return item


class Box(ToolRegistry):
    """One tool, with arguments of the class."""

    def __init__(self, size: int = 1) -> None:
        self.size = size

    @reg_toolspec
    def open_box(self) -> int:
        """Open it."""
        return self.size


large_box = Box(3)

later = ToolSpec.from_function(write, name="later", description="Write it later.")


user_page = ToolSpec.from_http("user_page", "https://notes.example/users/{user}", description="Read a page.")

pages = ToolSpec.from_openapi(
    {
        "openapi": "3.1.0",
        "info": {"title": "Pages", "version": "1"},
        "servers": [{"url": "https://pages.example"}],
        "paths": {
            "/pages": {"get": {"operationId": "list_pages", "summary": "List pages.", "responses": {}}},
            "/news": {"get": {"operationId": "list_news", "summary": "List news.", "responses": {}}},
        },
    }
)


def approve_all(request: object) -> bool:
    """Approve everything."""
    return True


async def audit(call, next):
    """Pass on."""
    return await next(call)


def is_long(arguments: dict[str, object]) -> bool:
    """Return True."""
    return True


class NoSandbox:
    """Has the methods of a sandbox, and runs nothing."""

    version = "0"

    def open(self, limits: Any) -> Any:
        """Refuse."""
        raise NotImplementedError

    async def check(self, program: Any) -> None:
        """Refuse."""
        raise NotImplementedError
