"""SearchIndex: the words of tools in SQLite's full-text index, which ranks the tools for a query."""

from __future__ import annotations

import inspect
import json
import re
import threading
import weakref
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_jsonable_python

from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError, quote_name
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.schema.subschemas import schema_texts
from ahvn_tools.search_words import TOKENIZER, index_text, tokenize

if TYPE_CHECKING:
    import sqlite3


MAX_QUERY_WORDS = 32
"""At most this many different words of a query are used."""

MAX_CANDIDATES = 1_000
"""When the rarest words of a query have found this many tools, the other words only rank them."""

STOP_WORDS: Final = frozenset({
    "a", "about", "am", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do",
    "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "if", "in", "into", "is", "it",
    "its", "like", "me", "my", "need", "of", "on", "or", "our", "please", "see", "she", "should", "so", "some",
    "someone", "something", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to",
    "us", "want", "was", "we", "were", "what", "when", "where", "which", "who", "whose", "will", "with", "would",
    "you", "your",
})  # fmt: skip
"""Words that a query may contain in any sentence: they do not rank, unless the query has no others."""

_CREATE = f"CREATE VIRTUAL TABLE tools USING fts5(name, description, rest, tokenize='porter {TOKENIZER}')"
_UPSERT = "INSERT OR REPLACE INTO tools(rowid, name, description, rest) VALUES (?, ?, ?, ?)"
_RANK = "SELECT rowid FROM tools WHERE tools MATCH ? {candidates} ORDER BY bm25(tools, 8.0, 3.0, 1.0), rowid LIMIT ?"
_ROWID_FILTER = "AND +rowid IN (SELECT value FROM json_each(?))"
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM tools WHERE tools MATCH ? LIMIT ?)"

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_CAMEL_CASE = re.compile(r"[a-z0-9][A-Z]|[A-Z][A-Z][a-z]")
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class SearchIndex:
    """Ranks tools for a query. The next query indexes what has changed since the last one.

    BM25; a name counts most, then the description, then parameters, tags and examples. English words match
    their other forms, too, and scripts without spaces match by pairs of characters. Safe across threads.
    """

    def __init__(self) -> None:
        self._database: sqlite3.Connection | None = None
        self._rows: dict[str, tuple[int | None, CompiledTool]] = {}
        self._names: dict[int | None, str] = {}
        self._revision: Any = None
        self._lock = threading.Lock()

    def rank(
        self, query: str, limit: int, revision: Any, tools: Iterable[CompiledTool], candidates: Collection[str]
    ) -> list[str]:
        """Return the names of at most `limit` of the tools that contain a word of the query, best first.

        Only `candidates` are ranked; `revision` differs whenever `tools` differ. Raises ToolkitError where SQLite has
        no full-text index.
        """
        words = _query_terms(query)
        if not words:
            return []
        with self._lock:
            database = self._updated_database(revision, tools)
            match = _any_of(words) if len(candidates) <= MAX_CANDIDATES else _match_rarest(database, words)
            if len(candidates) == len(self._rows):
                ranked = database.execute(_RANK.format(candidates=""), (match, limit))
            else:  # ranking is most of the work, so only the candidates are ranked
                rows = json.dumps([self._rows[name][0] for name in candidates])
                ranked = database.execute(_RANK.format(candidates=_ROWID_FILTER), (match, rows, limit))
            return [self._names[row] for (row,) in ranked]

    def _updated_database(self, revision: Any, tools: Iterable[CompiledTool]) -> sqlite3.Connection:
        """Return the database, which contains just these tools."""
        if self._database is None:
            self._database = _open_database()
            weakref.finalize(self, self._database.close)
        if revision != self._revision:
            self._database.execute("BEGIN")  # one transaction: one per row takes six times as long
            try:
                self._sync_rows(self._database, {compiled.template.name: compiled for compiled in tools})
            finally:
                self._database.execute("COMMIT")  # `_rows` contains what was done before an error
            self._revision = revision
        return self._database

    def _sync_rows(self, database: sqlite3.Connection, tools: Mapping[str, CompiledTool]) -> None:
        for name in self._rows.keys() - tools.keys():
            row, _ = self._rows.pop(name)
            del self._names[row]
            database.execute("DELETE FROM tools WHERE rowid = ?", (row,))
        for name, compiled in tools.items():
            row, indexed = self._rows.get(name, (None, None))
            if indexed is not compiled:
                row = database.execute(_UPSERT, (row, *_columns(compiled))).lastrowid
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
    """Return the words of a query in quotes, so that SQLite reads none of them as an operator; no stop words."""
    terms = (term for _, terms in tokenize(_with_camel_case_parts(query)) for term in terms)
    words = list(dict.fromkeys(terms))
    telling = [word for word in words if word.strip('"') not in STOP_WORDS]
    return (telling or words)[:MAX_QUERY_WORDS]


def _match_rarest(database: sqlite3.Connection, words: list[str]) -> str:
    """Return the SQLite query for tools with one of the rarest words; their other words only rank them."""
    counts = sorted((database.execute(_COUNT, (word, MAX_CANDIDATES)).fetchone()[0], word) for word in words)
    rarest: list[str] = []
    total = 0
    for count, word in counts:
        if not total or total + count <= MAX_CANDIDATES:
            rarest.append(word)
            total += count
    return f"({_any_of(rarest)}) AND ({_any_of(words)})" if len(rarest) < len(words) else _any_of(words)


def _any_of(words: list[str]) -> str:
    return " OR ".join(words)


def _columns(compiled: CompiledTool) -> tuple[str, str, str]:
    """Return the texts to index of a tool: its name, its description, and the rest.

    They are those of its definition, which takes ten times as long to make.
    """
    compiled.require_bound()
    template, hidden = compiled.template, frozenset(compiled.bindings)
    name = template.name + " " + re.sub(r"[\W_]+", "", template.name)
    description = f"{template.title or ''}\n{template.texts.description}"
    examples = to_jsonable_python(template.visible_examples(hidden, in_full=True)) if template.examples else None
    parameters = schema_texts(template.inputs.schema(hidden))
    rest = "\n".join([*template.tags, *parameters, *_json_texts(examples), template.texts.details.examples])
    return _to_index_text(name), _to_index_text(description), _to_index_text(rest)


def _to_index_text(text: str) -> str:
    """Return a text whose words SQLite finds, with the parts of words in camel case."""
    return index_text(_with_camel_case_parts(text))


def _with_camel_case_parts(text: str) -> str:
    if _CAMEL_CASE.search(text) is None:  # as most texts: a third of the time
        return text
    camel_case = [word for word in _ASCII_WORD.findall(text) if _CAMEL_CASE_BOUNDARY.search(word)]
    return " ".join([text, *(part for word in camel_case for part in _CAMEL_CASE_BOUNDARY.split(word))])


def _json_texts(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict | list):
            pending.extend(node.values() if isinstance(node, dict) else node)


Rank = Callable[[str, Sequence[ToolDefinition]], Iterable[str] | Awaitable[Iterable[str]]]
"""Returns, for a query, the names of the tools that fit, best first; sync or async. It may leave tools out."""


def rank_names(rank: Rank, query: str, definitions: Sequence[ToolDefinition]) -> list[str]:
    """Return the names that the host's function returns. Raises ToolkitError for anything but names of these tools."""
    if inspect.iscoroutinefunction(rank) or inspect.iscoroutinefunction(getattr(rank, "__call__", None)):  # noqa: B004  # the method itself
        from ahvn_tools.execution import background_loop
        from ahvn_tools.execution.runner import capture_outcome

        names = background_loop.run(capture_outcome, rank, query, definitions).get()
    else:
        names = rank(query, definitions)
    known = {definition.name for definition in definitions}
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ToolkitError(f"`rank` returns the names of tools, best first, not a {type(names).__name__}.")
    ranked = list(names)
    for name in ranked:
        if not (isinstance(name, str) and name in known):
            raise ToolkitError(f"`rank` returned {quote_name(name)}, which is no name of a tool that it received.")
    return ranked


Describe = Callable[[Any, ToolDefinition], ToolDefinition]
"""Takes the view of one toolkit, session or selection, and returns the definition of a tool as that shows it."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SearchListing:
    """The tools that are listed to a model which finds the others by search."""

    core: tuple[str, ...]
    """The names of tools that are listed nevertheless."""
    search_tool_names: tuple[str, ...]
    """The names of the tools that find and call the others."""
    rank: Rank | None = None
    """The host's own ranking; None: by words."""
    describe: Describe | None = None
    """Completes the definition of the last of these tools; None: it is complete."""


def refuse_second_listing(listing: SearchListing | None, names: Container[str]) -> None:
    """Raise ToolkitError if a toolkit with tools of these `names` has `add_search` or `add_code_mode` already."""
    if listing is not None and (left := [name for name in listing.search_tool_names if name in names]):
        raise ToolkitError(
            "A toolkit has one `add_search` or one `add_code_mode`. Remove the tools of the first before: "
            f"{', '.join(map(repr, left))}."
        )


def refuse_taken_names(wanted: Iterable[str], names: Container[str]) -> None:
    """Raise ToolkitError for a name of a tool for models that another tool of the toolkit has."""
    for name in wanted:
        if name in names:
            raise ToolkitError(f"There is a tool {name!r} already: give one of them another `name`.")
