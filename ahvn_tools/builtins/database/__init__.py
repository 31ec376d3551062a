"""Database: the tools that query a database, read-only unless its host allows more."""

from __future__ import annotations

from ahvn_tools.builtins.database.tools import Database

__all__ = ["Database"]
