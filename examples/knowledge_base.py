"""A knowledge base whose tools are written once, then used by two people, a prompt, a schema and an MCP client.

Run it on this project's own documentation, or on any folder of text and Markdown files:

    python examples/knowledge_base.py
    python examples/knowledge_base.py ~/notes
    python examples/knowledge_base.py ~/notes --database notes.db    # saves the index and the notes

Read it from top to bottom: the database, the four tools over it, then the tour that uses them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console
from rich.progress import track
from rich.table import Table
from text_folder import SkippedFileError, find_files, name_of, read_text

from ahvn_tools import ToolError, ToolRegistry, ToolSpec, reg_toolspec

# A document belongs to everyone: its user is NULL. A note belongs to one user of one tenant.
CREATE = """
    CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(
        name, body, tenant UNINDEXED, user UNINDEXED, tokenize = 'unicode61 remove_diacritics 2')
"""
VISIBLE = "(user IS NULL OR (tenant = :tenant AND user = :user))"
# The next three queries consist of constants only; values are always passed as parameters.
SEARCH = f"""
    SELECT name, snippet(texts, 1, '**', '**', ' … ', :excerpt_words) AS excerpt
    FROM texts WHERE texts MATCH :words AND {VISIBLE} ORDER BY rank LIMIT :limit
"""  # noqa: S608
READ = f"SELECT body FROM texts WHERE name = :name AND {VISIBLE}"  # noqa: S608
COUNT = f"""
    SELECT count(*) - count(user) AS documents, count(user) AS notes, coalesce(sum(length(body)), 0) AS characters
    FROM texts WHERE {VISIBLE}
"""  # noqa: S608
FREQUENT_WORDS = """
    SELECT term FROM vocabulary WHERE term NOT GLOB '*[0-9]*'
    ORDER BY length(term) < 6, doc > (SELECT count(*) / 2 FROM texts), cnt DESC, term
"""
IN_DOCUMENTS = "SELECT 1 FROM texts WHERE texts MATCH ? AND user IS NULL"


class Database:
    """Documents and notes in one SQLite file with full text search."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.connect() as connection:
            connection.execute(CREATE)

    @contextlib.contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one piece of work: tools may run in any thread."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
            connection.row_factory = sqlite3.Row
            yield connection

    def replace_documents(self, documents: Iterable[tuple[str, str]]) -> int:
        """Store (name, body) pairs instead of the documents so far and return how many; notes stay."""
        with self.connect() as connection:
            connection.execute("DELETE FROM texts WHERE user IS NULL")
            return connection.executemany("INSERT INTO texts (name, body) VALUES (?, ?)", documents).rowcount

    def frequent_word(self) -> str | None:
        """Return a word that is typical of the documents: long, frequent, and not in most of them."""
        with self.connect() as connection:
            connection.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, texts, row)")
            for (term,) in connection.execute(FREQUENT_WORDS):
                if connection.execute(IN_DOCUMENTS, (f'body : "{term}"',)).fetchone():
                    return str(term)
        return None


SESSION = {"db": "db", "tenant": "tenant", "user": "user"}
"""Parameters that no model sees, and the keys of a tool's state whose values they have at each call."""


@dataclass(frozen=True)
class Hit:
    """A text that a search found."""

    name: Annotated[str, Field(description="The name to pass to `read`.")]
    excerpt: Annotated[str, Field(description="The passage with the words, which are in **bold**.")]


@dataclass(frozen=True)
class Passage:
    """A piece of a text."""

    text: Annotated[str, Field(description="The piece.")]
    next_start: Annotated[int | None, Field(description="Where the next piece starts; null at the end.")]


@dataclass(frozen=True)
class Stats:
    """The size of what can be searched."""

    documents: Annotated[int, Field(description="Texts of the folder.")]
    notes: Annotated[int, Field(description="Your own notes.")]
    characters: Annotated[int, Field(description="The length of both together.")]


@dataclass(frozen=True)
class KnowledgeBase(ToolRegistry):
    """Four tools over a Database. One object serves all users: the tool's state says who is calling."""

    excerpt_words: int = 16
    passage_length: int = 2_000

    @reg_toolspec(binds=SESSION)
    def search(
        self, db: Database, tenant: str, user: str, query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5
    ) -> list[Hit]:
        """Find documents and your own notes by words, best match first.

        Args:
            query: Plain words. A text with one of them is found, a text with more of them comes earlier.
            limit: How many texts to return at most.

        Returns:
            The name of each text, for `read`, and an excerpt of it.
        """
        values = {"words": match_any(query), "excerpt_words": self.excerpt_words, "limit": limit}
        with db.connect() as connection:
            rows = connection.execute(SEARCH, {**values, "tenant": tenant, "user": user}).fetchall()
        return [Hit(row["name"], " ".join(row["excerpt"].split())) for row in rows]

    @reg_toolspec(binds=SESSION)
    def read(self, db: Database, tenant: str, user: str, name: str, start: Annotated[int, Field(ge=0)] = 0) -> Passage:
        """Read a document or one of your own notes, piece by piece.

        Args:
            name: A name as `search` returns it.
            start: The character to start at: 0, or the `next_start` of the piece before.
        """
        with db.connect() as connection:
            row = connection.execute(READ, {"name": name, "tenant": tenant, "user": user}).fetchone()
        if row is None:
            raise ToolError(f"There is no text named {name!r}. Pass a name that search has returned.")
        end = start + self.passage_length
        return Passage(row["body"][start:end], end if end < len(row["body"]) else None)

    @reg_toolspec(binds=SESSION)
    def add_note(
        self,
        db: Database,
        tenant: str,
        user: str,
        title: Annotated[str, Field(max_length=100)],
        text: Annotated[str, Field(max_length=10_000)],
    ) -> str:
        """Save a private note. A note of the same title is replaced.

        Args:
            title: A few words that name the note.
            text: What to remember.

        Returns:
            The name of the note, for `read`.
        """
        if not title.strip() or not text.strip():
            raise ToolError("A note needs a title and a text. Pass both.")
        # The path of a document never holds two slashes in a row, so no document has this name.
        note = {"name": f"note://{' '.join(title.split())}", "body": text, "tenant": tenant, "user": user}
        with db.connect() as connection:
            connection.execute("DELETE FROM texts WHERE name = :name AND tenant = :tenant AND user = :user", note)
            connection.execute("INSERT INTO texts VALUES (:name, :body, :tenant, :user)", note)
        return note["name"]

    @reg_toolspec(binds=SESSION)
    def stats(self, db: Database, tenant: str, user: str) -> Stats:
        """Count the documents, your own notes, and the characters in both."""
        with db.connect() as connection:
            return Stats(**connection.execute(COUNT, {"tenant": tenant, "user": user}).fetchone())


def match_any(query: str) -> str:
    """Return the FTS5 expression for texts with any word of the query.

    Each word is quoted: AND, NEAR, `*`, quotes and column names are plain words and signs here, never syntax.
    """
    words = [word for word in re.findall(r"\w+", query) if word.strip("_")][:50]
    if not words:
        raise ToolError("The query has no words. Pass at least one word or number to search for.")
    return " OR ".join(f'"{word}"' for word in words)


def tools_of(database: Database, *, tenant: str, user: str) -> dict[str, ToolSpec]:
    """Return the tools of one user."""
    tools = KnowledgeBase().to_toolspecs()
    for tool in tools.values():
        tool.state = {"db": database, "tenant": tenant, "user": user}
    return tools


class Tour:
    """A tour of the tools, printed step by step."""

    max_files = 5_000
    max_skipped_lines = 20
    client_timeout = 120.0
    """Seconds for the MCP client and its server together, on a slow machine."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.console = Console()
        self.ann = tools_of(database, tenant="acme", user="ann")
        self.bob = tools_of(database, tenant="acme", user="bob")

    def run(self, root: Path, sources: Sequence[Path]) -> int:
        """Take all steps and return the exit code."""
        self.console.rule("1. Index a folder")
        self.index(root, sources)
        word = self.database.frequent_word() or "launch"
        self.console.rule("2. The tools")
        self.show_tools()
        self.console.rule("3. The same tools as text for a prompt")
        self.say("\n".join(tool.to_prompt() for tool in self.ann.values()))
        self.console.rule("4. One of them as a schema for a model's API")
        self.say(json.dumps(self.ann["search"].to_jsonschema(), indent=2))
        self.console.rule("5. Two users, one knowledge base")
        self.compare_users(word)
        self.console.rule("6. What a model may not do")
        self.show_refusals(word)
        self.console.rule("7. The same tools over MCP, called from another process")
        return self.run_client(word)

    def index(self, root: Path, sources: Sequence[Path]) -> None:
        """Put the texts of the sources into the database."""
        files = list(itertools.islice(itertools.chain.from_iterable(map(find_files, sources)), self.max_files))
        count = self.database.replace_documents(self.read_texts(root, files))
        self.say(f"{count} of {len(files)} files indexed from {root}")
        if len(files) == self.max_files:
            self.say(f"There may be more: indexing stops at {self.max_files:,} files.")
        if count == 0:
            self.say("There is no text to search, so the tour goes on with notes alone.")

    def read_texts(self, root: Path, files: Sequence[Path]) -> Iterator[tuple[str, str]]:
        """Yield names and texts, with a progress bar; print one line for each file that is not text."""
        skipped = 0
        for path in track(files, description="Indexing", console=self.console):
            try:
                yield name_of(path, root), read_text(path)
            except SkippedFileError as reason:
                skipped += 1
                if skipped <= self.max_skipped_lines:
                    self.say(f"skipped {name_of(path, root)}: {reason}")
        if skipped > self.max_skipped_lines:
            self.say(f"skipped {skipped - self.max_skipped_lines} more")

    def show_tools(self) -> None:
        """Print which parameters the model and the state fill in."""
        table = Table("tool", "what it does", "from the model", "from the state", show_lines=True)
        for tool in self.ann.values():
            shown = [
                f"{name} = {schema['default']}" if "default" in schema else name for name, schema in tool.params.items()
            ]
            summary = tool.description.splitlines()[0]
            table.add_row(tool.name, summary, "\n".join(shown), "\n".join(tool.binds.values()))
        self.console.print(table)

    def compare_users(self, word: str) -> None:
        """Let two users write a note of the same title, and print what each of them finds."""
        self.call("ann", self.ann["search"], query=word, limit=3)
        self.call("ann", self.ann["add_note"], title="Launch", text="Ann has heard that the launch is on Monday.")
        self.call("bob", self.bob["add_note"], title="Launch", text="Bob knows: the launch is on Friday.")
        for user, tools in {"ann": self.ann, "bob": self.bob}.items():
            self.call(user, tools["search"], query="launch", limit=1)
            self.call(user, tools["read"], name="note://Launch")
            self.call(user, tools["stats"])

    def show_refusals(self, word: str) -> None:
        """Pass a bound parameter, then a query without words."""
        self.call("ann's model", self.ann["search"], query=word, user="bob")
        self.call("ann's model", self.ann["search"], query='"*"')

    def call(self, who: str, tool: ToolSpec, /, **arguments: Any) -> None:
        """Run one call and print it as question and answer."""
        written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        self.say(f"{who}: {tool.name}({written})")
        result = tool.exec(**arguments)
        if result.error:
            self.say(f"    refused ({result.error.code}): {result.error.message}")
            return
        items = result.value if isinstance(result.value, list) else [result.value]
        for item in items or ["nothing found"]:
            self.say(f"    {json.dumps(item, ensure_ascii=False)}")

    def run_client(self, word: str) -> int:
        """Start an MCP client process, which starts the server process that it talks to."""
        script = Path(__file__).with_name("knowledge_base_mcp.py")
        arguments = ["client", str(self.database.path), "--tenant", "acme", "--user", "ann", "--query", word]
        self.console.file.flush()
        try:
            return subprocess.run(  # noqa: S603
                [sys.executable, str(script), *arguments],
                stdin=subprocess.DEVNULL,
                timeout=self.client_timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return fail(f"the MCP client was stopped after {self.client_timeout:.0f} seconds", code=1)

    def say(self, text: str) -> None:
        """Print text as it is: square brackets in a document are not markup."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def accept_every_character() -> None:
    """Print a question mark for a character that the terminal cannot show, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def fail(message: str, *, code: int = 2) -> int:
    """Print one plain line on stderr and return the exit code."""
    print(f"{Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    return code


def main() -> int:
    """Read the command line and run the tour."""
    parser = argparse.ArgumentParser(description="Index a folder of text and Markdown files and use it through tools.")
    parser.add_argument("folder", nargs="?", help="default: the README and the docs of this project")
    parser.add_argument("--database", type=Path, help="a file for the index and the notes; default: none")
    options = parser.parse_args()
    accept_every_character()
    repository = Path(__file__).resolve().parent.parent
    folder = repository if options.folder is None else options.folder
    if not os.path.isdir(folder):  # noqa: PTH112
        return fail(f"there is no folder {str(folder)!r}")
    root = Path(folder)
    sources = [root] if options.folder else [repository / "README.md", repository / "docs"]
    if not any(True for source in sources for _ in find_files(source)):
        return fail(f"the folder {str(root)!r} has no files: pass one with text or Markdown files")
    try:
        with tempfile.TemporaryDirectory() as temporary:
            return Tour(Database(options.database or Path(temporary, "knowledge_base.db"))).run(root, sources)
    except KeyboardInterrupt:
        return fail("stopped", code=130)
    except sqlite3.Error as error:
        return fail(f"SQLite cannot work with the database: {error}")


if __name__ == "__main__":
    sys.exit(main())
