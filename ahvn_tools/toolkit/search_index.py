"""Index: the words of tools, kept in SQLite's full-text index, and the tools ranked for a query."""

from __future__ import annotations

import json
import os
import re
import threading
import unicodedata
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError
from ahvn_tools.execution.compiled import CompiledTool

if TYPE_CHECKING:
    import sqlite3

MAX_QUERY_WORDS = 32
"""So many different words of a query are looked for."""

MAX_CANDIDATES = 1_000
"""When the rarest words of a query have found so many tools, the others only rank them: `the` chooses nothing."""

_CREATE = "CREATE VIRTUAL TABLE tools USING fts5(name, description, rest, tokenize='porter unicode61')"
_UPSERT = "INSERT OR REPLACE INTO tools(rowid, name, description, rest) VALUES (?, ?, ?, ?)"
_RANK = "SELECT rowid FROM tools WHERE tools MATCH ? {among} ORDER BY bm25(tools, 8.0, 3.0, 1.0), rowid LIMIT ?"
_ROWID_FILTER = "AND +rowid IN (SELECT value FROM json_each(?))"
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM tools WHERE tools MATCH ? LIMIT ?)"

_CJK = (
    r"\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_WORD = re.compile(f"(?P<cjk>[{_CJK}]+)|[^\\W_{_CJK}]+")
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_instances_lock = threading.Lock()
_instances: weakref.WeakSet[SearchIndex] = weakref.WeakSet()


class SearchIndex:
    """Which tools fit a query, best first. What has changed since the last query is indexed by the next.

    BM25; a name counts most, then the description, then parameters, tags and examples. English words are found in
    their other forms, too, and scripts without spaces by pairs of characters. Safe over threads.
    """

    def __init__(self) -> None:
        """Begin with nothing indexed: the database is made by the first query."""
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._rows: dict[str, tuple[int, CompiledTool]] = {}
        self._names: dict[int, str] = {}
        self._revision: Any = None
        self._last_row = 0
        with _instances_lock:
            _instances.add(self)

    def rank(
        self,
        query: str,
        limit: int,
        revision: Any,
        tools: Callable[[], Iterable[CompiledTool]],
        candidates: Collection[str],
    ) -> list[str]:
        """Return the names of at most `limit` of the tools that have a word of the query, best first.

        `among` names those that are asked for, `mark` is another whenever the tools are others. Raises ToolkitError
        where SQLite has no full-text index.
        """
        words = _query_terms(query)
        if not words:
            return []
        with self._lock:
            database = self._updated_database(revision, tools)
            matching = (
                " OR ".join(words) if len(candidates) <= MAX_CANDIDATES else self._match_expression(database, words)
            )
            if len(candidates) == len(self._rows):
                ranked = database.execute(_RANK.format(among=""), (matching, limit))
            else:  # no others are ranked, which is most of the work
                rows = json.dumps([self._rows[name][0] for name in candidates])
                ranked = database.execute(_RANK.format(among=_ROWID_FILTER), (matching, rows, limit))
            return [self._names[row] for (row,) in ranked]

    def _match_expression(self, database: sqlite3.Connection, words: list[str]) -> str:
        """Return a query in SQLite's words: a tool must have one of the rarest, and all that it has rank it."""
        whole = " OR ".join(words)
        counted = sorted((database.execute(_COUNT, (word, MAX_CANDIDATES)).fetchone()[0], word) for word in words)
        chosen: list[str] = []
        found = 0
        for count, word in counted:
            if not found or found + count <= MAX_CANDIDATES:
                chosen.append(word)
                found += count
        return f"({' OR '.join(chosen)}) AND ({whole})" if len(chosen) < len(words) else whole

    def _updated_database(self, revision: Any, tools: Callable[[], Iterable[CompiledTool]]) -> sqlite3.Connection:
        """Return the database with just these tools in it."""
        if self._database is None:
            self._database = _open_database()
            weakref.finalize(self, self._database.close)
        if revision != self._revision:
            self._update(self._database, {sealed.template.name: sealed for sealed in tools()})
            self._revision = revision
        return self._database

    def _update(self, database: sqlite3.Connection, tools: Mapping[str, CompiledTool]) -> None:
        database.execute("BEGIN")  # one commit for all rows: each of its own takes six times as long
        try:
            self._sync_rows(database, tools)
        finally:
            database.execute("COMMIT")  # what was done before an error is known in `_rows`

    def _sync_rows(self, database: sqlite3.Connection, tools: Mapping[str, CompiledTool]) -> None:
        for name in self._rows.keys() - tools.keys():
            row, _ = self._rows.pop(name)
            del self._names[row]
            database.execute("DELETE FROM tools WHERE rowid = ?", (row,))
        for name, sealed in tools.items():
            known = self._rows.get(name)
            if known is None or known[1] is not sealed:
                self._upsert(database, name, sealed)

    def _upsert(self, database: sqlite3.Connection, name: str, compiled: CompiledTool) -> None:
        columns = _columns(compiled.definition)
        known = self._rows.get(name)
        if known is None:
            self._last_row += 1
        row = self._last_row if known is None else known[0]
        database.execute(_UPSERT, (row, *columns))
        self._rows[name] = row, compiled
        self._names[row] = name


def _open_database() -> sqlite3.Connection:
    try:
        import sqlite3
    except ImportError as error:
        raise _missing_fts_error() from error
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        database.execute(_CREATE)
        database.execute("SELECT value FROM json_each('[]')")
    except sqlite3.Error as error:
        database.close()
        raise _missing_fts_error() from error
    return database


def _missing_fts_error() -> ToolkitError:
    return ToolkitError(
        "Search needs SQLite with FTS5 and JSON, and this Python has none; use a Python whose sqlite3 has it."
    )


def _query_terms(query: str) -> list[str]:
    """Return the words of a query, each in quotes, so that none is an operator of SQLite's."""
    return list(dict.fromkeys(word for _, words in _tokenize(query) for word in words))[:MAX_QUERY_WORDS]


def _columns(definition: ToolDefinition) -> tuple[str, str, str]:
    """Return what is indexed of a tool: its name, its description, and the rest."""
    whole = re.sub(r"[\W_]+", "", definition.name)
    rest = [
        *definition.tags,
        *_schema_texts(definition.input_schema),
        *_json_texts(definition.examples),
        definition.usage,
    ]
    description = f"{definition.title or ''}\n{definition.description}"
    return _to_index_text(f"{definition.name} {whole}"), _to_index_text(description), _to_index_text("\n".join(rest))


def _to_index_text(text: str) -> str:
    """Return a text as words with spaces between them."""
    return " ".join(word for run, _ in _tokenize(text) for word in run)


def _tokenize(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield, for each word of a text, the words to index and those to look for."""
    for found in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        word = found.group()
        if found["cjk"]:
            pairs = [word[place : place + 2] for place in range(len(word) - 1)]
            # the last character stands alone, too: so a single one is found anywhere as the beginning of a word
            yield [*pairs, word[-1]], [f'"{pair}"' for pair in pairs] or [f'"{word}" *']
        else:
            humps = _CAMEL_CASE_BOUNDARY.split(word)
            words = [word, *humps] if len(humps) > 1 else [word]
            yield words, [f'"{word}"' for word in words]


def _schema_texts(schema: Any) -> Iterator[str]:
    """Yield the names of properties at any depth, and what is said of them."""
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(reversed(node))
        elif isinstance(node, dict):
            if isinstance(description := node.get("description"), str):
                yield description
            if isinstance(properties := node.get("properties"), dict):
                yield from properties
            todo.extend(reversed(list(node.values())))


def _json_texts(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value."""
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict | list):
            todo.extend(reversed(list(node.values()) if isinstance(node, dict) else node))


def _before_fork() -> None:
    """Wait for queries under way: a child then finds every index whole and free."""
    _instances_lock.acquire()
    for index in list(_instances):
        index._lock.acquire()  # noqa: SLF001  # of its own module


def _after_fork() -> None:
    for index in list(_instances):
        index._lock.release()  # noqa: SLF001  # as above
    _instances_lock.release()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
