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
from ahvn_tools.execution.sealed import Sealed

if TYPE_CHECKING:
    import sqlite3

MOST_WORDS = 32
"""So many different words of a query are looked for."""

MOST_CHOSEN = 1_000
"""When the rarest words of a query have found so many tools, the others only rank them: `the` chooses nothing."""

_CREATE = "CREATE VIRTUAL TABLE tools USING fts5(name, description, rest, tokenize='porter unicode61')"
_PUT = "INSERT OR REPLACE INTO tools(rowid, name, description, rest) VALUES (?, ?, ?, ?)"
_RANK = "SELECT rowid FROM tools WHERE tools MATCH ? {among} ORDER BY bm25(tools, 8.0, 3.0, 1.0), rowid LIMIT ?"
_AMONG = "AND +rowid IN (SELECT value FROM json_each(?))"
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM tools WHERE tools MATCH ? LIMIT ?)"

_CJK = (
    r"\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_WORD = re.compile(f"(?P<cjk>[{_CJK}]+)|[^\\W_{_CJK}]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_birth = threading.Lock()
_alive: weakref.WeakSet[Index] = weakref.WeakSet()


class Index:
    """Which tools fit a query, best first. What has changed since the last query is indexed by the next.

    BM25; a name counts most, then the description, then parameters, tags and examples. English words are found in
    their other forms, too, and scripts without spaces by pairs of characters. Safe over threads.
    """

    def __init__(self) -> None:
        """Begin with nothing indexed: the database is made by the first query."""
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._rows: dict[str, tuple[int, Sealed]] = {}
        self._names: dict[int, str] = {}
        self._mark: Any = None
        self._last = 0
        with _birth:
            _alive.add(self)

    def ranked(
        self, query: str, limit: int, mark: Any, tools: Callable[[], Iterable[Sealed]], among: Collection[str]
    ) -> list[str]:
        """Return the names of at most `limit` of the tools that have a word of the query, best first.

        `among` names those that are asked for, `mark` is another whenever the tools are others. Raises ToolkitError
        where SQLite has no full-text index.
        """
        words = _wanted(query)
        if not words:
            return []
        with self._lock:
            database = self._current(mark, tools)
            matching = " OR ".join(words) if len(among) <= MOST_CHOSEN else self._matching(database, words)
            if len(among) == len(self._rows):
                ranked = database.execute(_RANK.format(among=""), (matching, limit))
            else:  # no others are ranked, which is most of the work
                rows = json.dumps([self._rows[name][0] for name in among])
                ranked = database.execute(_RANK.format(among=_AMONG), (matching, rows, limit))
            return [self._names[row] for (row,) in ranked]

    def _matching(self, database: sqlite3.Connection, words: list[str]) -> str:
        """Return a query in SQLite's words: a tool must have one of the rarest, and all that it has rank it."""
        whole = " OR ".join(words)
        counted = sorted((database.execute(_COUNT, (word, MOST_CHOSEN)).fetchone()[0], word) for word in words)
        chosen: list[str] = []
        found = 0
        for count, word in counted:
            if not found or found + count <= MOST_CHOSEN:
                chosen.append(word)
                found += count
        return f"({' OR '.join(chosen)}) AND ({whole})" if len(chosen) < len(words) else whole

    def _current(self, mark: Any, tools: Callable[[], Iterable[Sealed]]) -> sqlite3.Connection:
        """Return the database with just these tools in it."""
        if self._database is None:
            self._database = _database()
            weakref.finalize(self, self._database.close)
        if mark != self._mark:
            self._update(self._database, {sealed.recipe.name: sealed for sealed in tools()})
            self._mark = mark
        return self._database

    def _update(self, database: sqlite3.Connection, tools: Mapping[str, Sealed]) -> None:
        database.execute("BEGIN")  # one commit for all rows: each of its own takes six times as long
        try:
            self._keep(database, tools)
        finally:
            database.execute("COMMIT")  # what was done before an error is known in `_rows`

    def _keep(self, database: sqlite3.Connection, tools: Mapping[str, Sealed]) -> None:
        for name in self._rows.keys() - tools.keys():
            row, _ = self._rows.pop(name)
            del self._names[row]
            database.execute("DELETE FROM tools WHERE rowid = ?", (row,))
        for name, sealed in tools.items():
            known = self._rows.get(name)
            if known is None or known[1] is not sealed:
                self._put(database, name, sealed)

    def _put(self, database: sqlite3.Connection, name: str, sealed: Sealed) -> None:
        columns = _columns(sealed.definition)
        known = self._rows.get(name)
        if known is None:
            self._last += 1
        row = self._last if known is None else known[0]
        database.execute(_PUT, (row, *columns))
        self._rows[name] = row, sealed
        self._names[row] = name


def _database() -> sqlite3.Connection:
    try:
        import sqlite3
    except ImportError as error:
        raise _unable() from error
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        database.execute(_CREATE)
        database.execute("SELECT value FROM json_each('[]')")
    except sqlite3.Error as error:
        database.close()
        raise _unable() from error
    return database


def _unable() -> ToolkitError:
    return ToolkitError(
        "Search needs SQLite with FTS5 and JSON, and this Python has none; use a Python whose sqlite3 has it."
    )


def _wanted(query: str) -> list[str]:
    """Return the words of a query, each in quotes, so that none is an operator of SQLite's."""
    return list(dict.fromkeys(word for _, words in _runs(query) for word in words))[:MOST_WORDS]


def _columns(definition: ToolDefinition) -> tuple[str, str, str]:
    """Return what is indexed of a tool: its name, its description, and the rest."""
    whole = re.sub(r"[\W_]+", "", definition.name)
    rest = [*definition.tags, *_told(definition.input_schema), *_texts(definition.examples), definition.usage]
    description = f"{definition.title or ''}\n{definition.description}"
    return _indexed(f"{definition.name} {whole}"), _indexed(description), _indexed("\n".join(rest))


def _indexed(text: str) -> str:
    """Return a text as words with spaces between them."""
    return " ".join(word for run, _ in _runs(text) for word in run)


def _runs(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield, for each word of a text, the words to index and those to look for."""
    for found in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        word = found.group()
        if found["cjk"]:
            pairs = [word[place : place + 2] for place in range(len(word) - 1)]
            # the last character stands alone, too: so a single one is found anywhere as the beginning of a word
            yield [*pairs, word[-1]], [f'"{pair}"' for pair in pairs] or [f'"{word}" *']
        else:
            humps = _HUMP.split(word)
            words = [word, *humps] if len(humps) > 1 else [word]
            yield words, [f'"{word}"' for word in words]


def _told(schema: Any) -> Iterator[str]:
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


def _texts(value: Any) -> Iterator[str]:
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
    _birth.acquire()
    for index in list(_alive):
        index._lock.acquire()  # noqa: SLF001  # of its own module


def _after_fork() -> None:
    for index in list(_alive):
        index._lock.release()  # noqa: SLF001  # as above
    _birth.release()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
