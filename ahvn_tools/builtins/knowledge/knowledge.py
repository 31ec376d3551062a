"""The tools of a knowledge base."""

from __future__ import annotations

import functools
import itertools
import json
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from ahvn_tools.builtins.approval import Action, Approval, Approve
from ahvn_tools.builtins.knowledge.store import (
    COUNT,
    DELETE,
    READ,
    SEARCH,
    UPDATE,
    TextStore,
    json_tags,
    plain_text,
)
from ahvn_tools.context import ToolContext
from ahvn_tools.errors import DefinitionError, ToolError, suggests_options
from ahvn_tools.registry import ToolRegistry, reg_toolspec
from ahvn_tools.search_words import find_words, fold, tokenize
from ahvn_tools.spec import ToolSpec

OWNER: Final = {"tenant": "tenant", "user": "user"}
"""Parameters that no model sees, and the keys of the state that have their values at each call."""
NOTE_PREFIX: Final = "note://"
MAX_WORDS: Final = 50
"""Words of a query that are searched for; in a script without spaces, each pair of characters is one."""
MAX_EXCERPT_WORDS: Final = 64
SEARCHED_CHARS: Final = 200_000
"""How much of a text is searched for an excerpt."""
_SCOPES: Final = {"all": (0, 2), "documents": (0, 1), "notes": (2, 2)}
_READS: Final = {"readOnlyHint": True, "openWorldHint": False}
_ADDS: Final = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
_CHANGES: Final = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}

Tag = Annotated[str, Field(min_length=1, max_length=50)]
Tags = Annotated[list[Tag], Field(max_length=20)]
Text = Annotated[str, Field(max_length=100_000)]
Name = Annotated[str, Field(max_length=4_000)]
Id = Annotated[str, Field(min_length=1)]
"""A tenant or a user; empty ones would share their notes."""
MAX_START: Final = 2**30
"""No text is longer, and SQLite takes no larger position."""


@dataclass(frozen=True)
class Hit:
    """A text that a search found."""

    name: Annotated[str, Field(description="The name, with which the text can be read.")]
    excerpt: Annotated[str, Field(description="The passage with the words, which are in **bold**.")]
    tags: Annotated[list[str], Field(description="The tags of the text.")]


@dataclass(frozen=True)
class Passage:
    """A piece of a text."""

    text: Annotated[str, Field(description="The piece.")]
    next_start: Annotated[int | None, Field(description="Where the next piece starts; null at the end.")]


@dataclass(frozen=True)
class Stats:
    """The size of what can be searched."""

    documents: Annotated[int, Field(description="Documents that you can read.")]
    notes: Annotated[int, Field(description="Your own notes.")]
    characters: Annotated[int, Field(description="The length of both together.")]


class Knowledge(ToolRegistry):
    """Tools over documents of everyone and private notes, in one SQLite file with full text search.

    One object serves all users: the parameters `tenant` and `user` of its tools are bound, so the state of the session
    says who is calling, and no model can see or set it.

    >>> import tempfile
    >>> from ahvn_tools import Toolkit
    >>> from ahvn_tools.builtins import Knowledge
    >>> knowledge = Knowledge(tempfile.mkdtemp() + "/knowledge.db")
    >>> knowledge.replace_documents([("tea.md", "Tea is made of leaves.")])
    1
    >>> ann = Toolkit("knowledge").add(knowledge).session(tenant="acme", user="ann")
    >>> ann.call("add", {"title": "Tea", "text": "I like green tea."})
    'note://Tea'
    >>> [hit["name"] for hit in ann.call("search", {"query": "tea"})]
    ['note://Tea', 'tea.md']
    """

    @suggests_options
    def __init__(
        self,
        path: str | PathLike[str],
        *,
        tenant: str | None = None,
        user: str | None = None,
        approve: Approve = "risky",
        passage_length: int = 2_000,
        excerpt_words: int = 16,
        max_notes: int = 10_000,
        timeout: float = 10.0,
    ) -> None:
        """Create the file if there is none. Raises DefinitionError if SQLite cannot use it.

        - `path`: the SQLite file.
        - `tenant`, `user`: make the tools those of one user, who needs no state.
        - `approve`: "always" asks for each change of a note; "risky" and "never" ask for none.
        - `passage_length`: characters of a piece of a document.
        - `excerpt_words`: words of an excerpt, at most 64.
        - `max_notes`: of each user.
        - `timeout`: seconds to wait for other writers.
        """
        if fspath(path) in ("", ":memory:"):
            raise DefinitionError("Each call opens the database, so it must be a file: pass a path.")
        if min(passage_length, excerpt_words, max_notes, timeout) <= 0 or excerpt_words > MAX_EXCERPT_WORDS:
            raise DefinitionError("The limits must be above 0, and excerpt_words at most 64.")
        if "" in (tenant, user):
            raise DefinitionError("`tenant` and `user` are names, and not empty. Leave them out to take the state's.")
        self.approval = Approval(approve)
        self.passage_length = passage_length
        self.excerpt_words = excerpt_words
        self.max_notes = max_notes
        self._owner = {"tenant": tenant, "user": user}
        self.store = TextStore(Path(path).absolute(), timeout=timeout)

    def replace_documents(
        self,
        documents: Iterable[tuple[str, str] | tuple[str, str, Sequence[str]]],
        *,
        tenant: str | None = None,
    ) -> int:
        """Store (name, text) or (name, text, tags) as the documents of everyone, or of a tenant; return their number.

        They replace the ones before, in one transaction. Notes stay. Of several with one name, the last one counts.
        """
        return self.store.replace_documents(documents, tenant)

    @reg_toolspec(binds=OWNER, annotations=_READS, tags={"knowledge", "read"})
    def search(
        self,
        tenant: Id,
        user: Id,
        query: str,
        *,
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
        offset: Annotated[int, Field(ge=0, le=10_000)] = 0,
        tags: Tags = [],  # noqa: B006  # never changed
        source: Literal["all", "documents", "notes"] = "all",
    ) -> list[Hit]:
        """Find documents and your own notes by words, best match first.

        Args:
            query: Plain words. A text with one of them is found, a text with more of them comes earlier.
            limit: How many texts to return at most.
            offset: How many texts to skip: 5 for the second page of 5.
            tags: Return texts with all of these tags only.
            source: Return documents or notes only.

        Returns:
            The name of each text, with which it can be read, and an excerpt of it.
        """
        terms = query_terms(query)
        first, last = _SCOPES[source]
        rows = self.store.select(
            SEARCH, context, tenant=tenant, user=user, words=" OR ".join(terms), searched_chars=SEARCHED_CHARS,
            limit=limit, offset=offset, tags=json.dumps(tags), min_scope=first, max_scope=last,
        )  # fmt: skip
        return [Hit(name, excerpt(body, terms, self.excerpt_words), json.loads(owned)) for name, owned, body in rows]

    @reg_toolspec(binds=OWNER, annotations=_READS, tags={"knowledge", "read"})
    def read(
        self, tenant: Id, user: Id, name: Name, context: ToolContext, start: Annotated[int, Field(ge=0)] = 0
    ) -> Passage:
        """Read a document or one of your own notes, piece by piece.

        Args:
            name: A name that a search has returned.
            start: The character to start at: 0, or the `next_start` of the piece before.
        """
        start = min(start, MAX_START)
        length = self.passage_length
        found = self.store.select(READ, context, tenant=tenant, user=user, name=name, start=start, length=length)
        if not found:
            raise ToolError(f"There is no text named {name[:200]!r}. Pass a name that search has returned.")
        piece, size = found[0]
        return Passage(piece, start + length if start + length < size else None)

    @reg_toolspec(binds=OWNER, annotations=_ADDS, tags={"knowledge", "write"})
    def add(
        self,
        tenant: Id,
        user: Id,
        title: Annotated[str, Field(max_length=100)],
        text: Text,
        *,
        context: ToolContext,
        tags: Tags = [],  # noqa: B006  # never changed
    ) -> str:
        """Save a private note.

        Args:
            title: A few words that name the note.
            text: What to remember.
            tags: Words to filter by.

        Returns:
            The name of the note, with which it can be read, changed and deleted.
        """
        if not title.strip() or not text.strip():
            raise ToolError("A note needs a title and a text. Pass both.")
        name = NOTE_PREFIX + " ".join(title.split())
        self.approval.require(context, Action(kind="write", text=f"Save {name!r}", details={"text": text[:2_000]}))
        note = {"tenant": tenant, "user": user, "name": plain_text(name), "body": plain_text(text)}
        if not self.store.add(context, max_notes=self.max_notes, tags=json_tags(tags), **note):
            raise ToolError(f"There is a note named {name!r}. Change that note, or pass another title.")
        return name

    @reg_toolspec(binds=OWNER, annotations=_CHANGES, tags={"knowledge", "write"})
    def update(
        self,
        tenant: Id,
        user: Id,
        name: Name,
        *,
        context: ToolContext,
        text: Text | None = None,
        tags: Tags | None = None,
    ) -> str:
        """Replace the text or the tags of one of your own notes.

        Args:
            name: The name of the note.
            text: The new text. Without it, the text stays.
            tags: The new tags. Without them, the tags stay.
        """
        if text is None and tags is None:
            raise ToolError("There is nothing to change. Pass a text or tags.")
        if text is not None and not text.strip():
            raise ToolError("The text is empty. Pass a text, or delete the note.")
        self.approval.require(
            context, Action(kind="write", text=f"Change {name[:200]!r}", details={"text": (text or "")[:2_000]})
        )
        new_text, new_tags = None if text is None else plain_text(text), None if tags is None else json_tags(tags)
        self._change(UPDATE, tenant, user, name, context, body=new_text, tags=new_tags)
        return f"{name} was changed."

    @reg_toolspec(binds=OWNER, annotations=_CHANGES, tags={"knowledge", "write"})
    def delete(self, tenant: Id, user: Id, name: Name, context: ToolContext) -> str:
        """Delete one of your own notes.

        Args:
            name: The name of the note.
        """
        self.approval.require(context, Action(kind="delete", text=f"Delete {name[:200]!r}"))
        self._change(DELETE, tenant, user, name, context)
        return f"{name} was deleted."

    @reg_toolspec(binds=OWNER, annotations=_READS, tags={"knowledge", "read"})
    def stats(self, tenant: Id, user: Id, context: ToolContext) -> Stats:
        """Count the documents, your own notes, and the characters in both."""
        return Stats(*self.store.select(COUNT, context, tenant=tenant, user=user)[0])

    def _change(
        self, statement: str, tenant: str, user: str, name: str, context: ToolContext, **values: str | None
    ) -> None:
        """Change or delete a note of the owner. Raises ToolError if there is none."""
        if self.store.change(statement, context, tenant=tenant, user=user, name=name, **values):
            return
        if self.store.select(READ, context, tenant=tenant, user=user, name=name, start=0, length=1):
            raise ToolError(f"{name[:200]!r} is a document. Only your own notes can be changed.")
        raise ToolError(f"You have no note named {name[:200]!r}. Pass a name that search has returned.")

    def to_toolspecs(self) -> dict[str, ToolSpec]:
        """Return the tools; those of one user need no state."""
        specs = super().to_toolspecs()
        for spec in specs.values():
            for parameter, value in self._owner.items():
                if value is not None:
                    spec.bind(parameter, resolver=functools.partial(str, value))
        return specs

    def __repr__(self) -> str:
        return "<Knowledge>"


def query_terms(query: str) -> list[str]:
    """Return the terms of a query: AND, NEAR, `*`, quotes and column names are plain words and signs here."""
    terms = dict.fromkeys(term for _, terms in tokenize(query) for term in terms)
    if not terms:
        raise ToolError("The query has no words. Pass at least one word or number to search for.")
    return [*itertools.islice(terms, MAX_WORDS)]


def excerpt(text: str, terms: Iterable[str], size: int) -> str:
    """Return the first passage of `size` words that has the most of these terms, and mark them.

    Two characters of a script without spaces are a word. FTS5 has such a function, but its time is quadratic in the
    number of words that are found, and nothing ends it.
    """
    text = unicodedata.normalize("NFC", text)
    parts = [*_parts(text, {term.strip('"* ') for term in terms})]
    positions = [*itertools.accumulate((part[3] for part in parts), initial=0)]
    hits = [(position, term) for position, (_, _, term, _) in zip(positions, parts, strict=False) if term]
    first = bisect_left(positions, min(_best_start(hits, 2 * size), max(positions[-1] - 2 * size, 0)))
    shown = parts[first : bisect_left(positions, positions[first] + 2 * size)]
    pieces, position = [] if not first else ["… "], shown[0][0] if first else 0
    for start, end in _marks(shown):
        pieces += [text[position:start], f"**{text[start:end]}**"]
        position = end
    is_end = first + len(shown) == len(parts)
    pieces += [text[position:]] if is_end else [text[position : shown[-1][1]], " …"]
    return " ".join("".join(pieces).split())


def _parts(text: str, wanted: set[str]) -> Iterator[tuple[int, int, str, int]]:
    """Yield start and end of each word, which of the wanted terms it is, and its size: 2, or 1 for a character."""
    for match in find_words(text):
        word, start = fold(match.group()), match.start()
        if not match["unspaced"]:
            yield start, match.end(), word if word in wanted else "", 2
            continue
        if len(word) != match.end() - start:
            word = match.group()
        found = [""] * len(word)
        for term in wanted:
            index = word.find(term)
            while index >= 0:
                found[index : index + len(term)] = [term] * len(term)
                index = word.find(term, index + 1)
        yield from zip(itertools.count(start), itertools.count(start + 1), found, itertools.repeat(1), strict=False)


def _marks(parts: Iterable[tuple[int, int, str, int]]) -> list[list[int]]:
    """Return start and end of what is marked; parts without a space between them are marked together."""
    marks: list[list[int]] = []
    for start, end, term, _ in parts:
        if term and marks and marks[-1][1] == start:
            marks[-1][1] = end
        elif term:
            marks.append([start, end])
    return marks


def _best_start(hits: Sequence[tuple[int, str]], size: int) -> int:
    """Return the position of the first hit after which a passage of this size has the most different hits."""
    counts: Counter[str] = Counter()
    best, best_start, end, different = 0, 0, 0, 0
    for start, term in hits:
        while end < len(hits) and hits[end][0] < start + size:
            different += not counts[hits[end][1]]
            counts[hits[end][1]] += 1
            end += 1
        if different > best:
            best, best_start = different, start
        counts[term] -= 1
        different -= not counts[term]
    return best_start
