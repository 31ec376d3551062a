"""TextStore: texts of everyone, of a tenant and of one user, in one SQLite file with full text search."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError
from ahvn_tools.regular_file import open_regular
from ahvn_tools.search_words import TOKENIZER, index_text

_VERSION: Final = int(unicodedata.unidata_version.replace(".", ""))
"""Another version of Unicode may find other words in a text; then the index is made again."""
_TEXTS: Final = """
    CREATE TABLE IF NOT EXISTS knowledge_texts (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, body TEXT NOT NULL, tags TEXT NOT NULL DEFAULT '[]',
        scope INTEGER NOT NULL, tenant TEXT NOT NULL DEFAULT '', user TEXT NOT NULL DEFAULT '',
        UNIQUE (name, scope, tenant, user));
    CREATE INDEX IF NOT EXISTS knowledge_owners ON knowledge_texts (scope, tenant, user);
"""
_INSERT: Final = """
    INSERT INTO knowledge_index (rowid, name, body, tags)
    VALUES (new.id, index_text(new.name), index_text(new.body), index_text(new.tags));
"""
_REMOVE: Final = """
    INSERT INTO knowledge_index (knowledge_index, rowid, name, body, tags)
    VALUES ('delete', old.id, index_text(old.name), index_text(old.body), index_text(old.tags));
"""
_INDEX: Final = f"""
    DROP TRIGGER IF EXISTS knowledge_added;
    DROP TRIGGER IF EXISTS knowledge_deleted;
    DROP TRIGGER IF EXISTS knowledge_changed;
    DROP TABLE IF EXISTS knowledge_index;
    CREATE VIRTUAL TABLE knowledge_index USING fts5(name, body, tags, content = '', tokenize = '{TOKENIZER}');
    INSERT INTO knowledge_index (rowid, name, body, tags)
        SELECT id, index_text(name), index_text(body), index_text(tags) FROM knowledge_texts;
    CREATE TRIGGER knowledge_added AFTER INSERT ON knowledge_texts BEGIN {_INSERT} END;
    CREATE TRIGGER knowledge_deleted AFTER DELETE ON knowledge_texts BEGIN {_REMOVE} END;
    CREATE TRIGGER knowledge_changed AFTER UPDATE ON knowledge_texts BEGIN {_REMOVE} {_INSERT} END;
    PRAGMA user_version = {_VERSION};
"""  # noqa: S608  # constants
"""The index has no copy of the texts, so that the words of a text are made again to remove them."""
_EVERYONE, _TENANT, _USER = 0, 1, 2
"""The values of `scope`."""
_VISIBLE: Final = """
    (t.scope = 0 OR (t.scope = 1 AND t.tenant = :tenant) OR (t.scope = 2 AND t.tenant = :tenant AND t.user = :user))
"""
_OWN: Final = "t.scope = 2 AND t.tenant = :tenant AND t.user = :user"
# These queries consist of constants only; values are always passed as parameters.
SEARCH: Final = f"""
    SELECT found.name, found.tags, substr(texts.body, 1, :searched_chars)
    FROM (SELECT t.id, t.name, t.tags, bm25(knowledge_index, 3.0, 1.0, 2.0) AS score
          FROM knowledge_index JOIN knowledge_texts t ON t.id = knowledge_index.rowid
          WHERE knowledge_index MATCH :words AND {_VISIBLE} AND t.scope BETWEEN :min_scope AND :max_scope
          AND NOT EXISTS (SELECT 1 FROM json_each(:tags) wanted
                          WHERE wanted.value NOT IN (SELECT owned.value FROM json_each(t.tags) owned))
          ORDER BY score, t.id LIMIT :limit OFFSET :offset) found
    JOIN knowledge_texts texts ON texts.id = found.id ORDER BY found.score, found.id
"""  # noqa: S608
READ: Final = f"""
    SELECT substr(t.body, :start + 1, :length), length(t.body) FROM knowledge_texts t
    WHERE t.name = :name AND {_VISIBLE} ORDER BY t.scope DESC LIMIT 1
"""  # noqa: S608
COUNT: Final = f"""
    SELECT coalesce(sum(t.scope < 2), 0), coalesce(sum(t.scope = 2), 0), coalesce(sum(length(t.body)), 0)
    FROM knowledge_texts t WHERE {_VISIBLE}
"""  # noqa: S608
_COUNT_NOTES: Final = f"SELECT count(*) FROM knowledge_texts t WHERE {_OWN}"  # noqa: S608
_ADD: Final = """
    INSERT INTO knowledge_texts (name, body, tags, scope, tenant, user)
    VALUES (:name, :body, :tags, 2, :tenant, :user) ON CONFLICT DO NOTHING
"""
UPDATE: Final = f"""
    UPDATE knowledge_texts AS t SET body = coalesce(:body, t.body), tags = coalesce(:tags, t.tags)
    WHERE t.name = :name AND {_OWN}
"""  # noqa: S608
DELETE: Final = f"DELETE FROM knowledge_texts AS t WHERE t.name = :name AND {_OWN}"  # noqa: S608
_PUT_DOCUMENT: Final = """
    INSERT INTO knowledge_texts (name, body, tags, scope, tenant) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET body = excluded.body, tags = excluded.tags
"""

_WAIT_SECONDS: Final = 0.01
_INSTRUCTIONS_PER_CHECK: Final = 1_000
"""Few, because one instruction may read a long text."""


class TextStore:
    """Texts in one SQLite file. Each piece of work has a connection and a transaction of its own."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        """Create the file if there is none. `timeout`: seconds to wait for other connections.

        Raises DefinitionError if SQLite cannot use the file.
        """
        self.path = path
        self._timeout = timeout
        try:
            os.close(open_regular(path, os.O_RDWR | os.O_CREAT, 0o644))
            with self.connect() as connection:
                self._create(connection)
        except (sqlite3.Error, OSError) as error:
            raise DefinitionError(f"SQLite cannot work with the database: {error}") from error

    def _create(self, connection: sqlite3.Connection) -> None:
        _execute(connection, _TEXTS)
        if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            _execute(connection, _INDEX)

    @contextlib.contextmanager
    def connect(self, context: ToolContext | None = None, *, may_write: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a connection and a transaction for one piece of work; it is committed at the end of the block."""
        database = (
            f"{self.path.absolute().as_uri()}?mode=rw"  # SQLite never makes a file where a link has just been put
        )
        with contextlib.closing(sqlite3.connect(database, timeout=0, isolation_level=None, uri=True)) as connection:
            connection.create_function("index_text", 1, index_text, deterministic=True)
            self._begin(connection, context, may_write=may_write)
            if context is not None:
                connection.set_progress_handler(lambda: context.cancelled, _INSTRUCTIONS_PER_CHECK)
            try:
                yield connection
            except BaseException:
                connection.rollback()
                if context is not None:
                    context.check_cancelled()
                raise
            self._repeat(connection, "COMMIT", None)  # once it has begun, a cancellation comes too late

    def _begin(self, connection: sqlite3.Connection, context: ToolContext | None, *, may_write: bool) -> None:
        if may_write:
            self._repeat(connection, "BEGIN IMMEDIATE", context)
        else:
            connection.execute("BEGIN")
            self._repeat(connection, "SELECT 1 FROM sqlite_master LIMIT 1", context)

    def _repeat(self, connection: sqlite3.Connection, statement: str, context: ToolContext | None) -> None:
        """Execute a statement; while another connection has locked the file, try again."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute(statement).fetchall()
                return
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() > end:
                    raise ToolError("The knowledge base is busy. Try again later.") from None
            if context is not None:
                context.check_cancelled()
            time.sleep(_WAIT_SECONDS)

    def select(self, query: str, context: ToolContext, **values: Any) -> list[Any]:
        """Return the rows of a query."""
        with self.connect(context, may_write=False) as connection:
            return connection.execute(query, values).fetchall()

    def change(self, statement: str, context: ToolContext, **values: Any) -> bool:
        """Return whether a statement has changed a text."""
        with self.connect(context) as connection:
            return connection.execute(statement, values).rowcount == 1

    def add(self, context: ToolContext, *, max_notes: int, **values: str) -> bool:
        """Store a note. Return False if the owner has one of this name. Raises ToolError after `max_notes`."""
        with self.connect(context) as connection:
            if connection.execute(_COUNT_NOTES, values).fetchone()[0] >= max_notes:
                raise ToolError(f"There are {max_notes:,} notes, which is the limit. Delete one first.")
            return connection.execute(_ADD, values).rowcount == 1

    def replace_documents(
        self, documents: Iterable[tuple[str, str] | tuple[str, str, Sequence[str]]], tenant: str | None
    ) -> int:
        """Store documents in the place of the ones of everyone, or of the tenant, and return how many there are."""
        scope = (_EVERYONE, "") if tenant is None else (_TENANT, tenant)
        rows = (
            (plain_text(name), plain_text(body), json_tags(rest[0] if rest else ()), *scope)
            for name, body, *rest in documents
        )
        with self.connect() as connection:
            connection.execute("DELETE FROM knowledge_texts WHERE scope = ? AND tenant = ?", scope)
            connection.executemany(_PUT_DOCUMENT, rows)
            query = "SELECT count(*) FROM knowledge_texts WHERE scope = ? AND tenant = ?"
            return int(connection.execute(query, scope).fetchone()[0])


def plain_text(text: str) -> str:
    """Return a text without NUL, at which SQLite's `substr` and `length` end."""
    return text.replace("\0", " ")


def json_tags(tags: Sequence[str]) -> str:
    """Return tags as JSON, each once."""
    return json.dumps(list(dict.fromkeys(tags)), ensure_ascii=False)


def _execute(connection: sqlite3.Connection, script: str) -> None:
    """Execute the statements of a script: `executescript` would commit the transaction."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
