"""Database: the tools that query a database, read-only unless its host allows more."""

from ahvn_tools.builtins.database.rendering import render_records

__all__ = ["render_records"]
