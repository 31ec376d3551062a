"""Database: the tools that query a database, read-only unless its host allows more."""
