"""A module with one tool, which has an import path."""

from __future__ import annotations

from ahvn_tools import tool


@tool
def find(query: str, user: str = "nobody") -> str:
    """Find a note."""
    return f"{user}: {query}"
