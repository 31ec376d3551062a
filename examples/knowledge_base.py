"""A knowledge base whose tools are used by two people, a prompt, a schema and an MCP client.

Run it on this project's own documentation, or on any folder of text and Markdown files:

    python examples/knowledge_base.py
    python examples/knowledge_base.py ~/notes
    python examples/knowledge_base.py ~/notes --database notes.db    # saves the index and the notes

Read it from top to bottom: the tools of one user, then the tour that uses them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table
from text_folder import SkippedFileError, find_files, name_of, read_text

from ahvn_tools import ToolSpec
from ahvn_tools.builtins import Knowledge
from ahvn_tools.errors import DefinitionError

FREQUENT_WORDS = """
    SELECT term FROM vocabulary WHERE term NOT GLOB '*[0-9]*'
    ORDER BY length(term) < 6, doc > (SELECT count(*) / 2 FROM knowledge_texts), cnt DESC, term
"""
IN_DOCUMENTS = """
    SELECT 1 FROM knowledge_index JOIN knowledge_texts t ON t.id = knowledge_index.rowid
    WHERE knowledge_index MATCH ? AND t.scope = 0
"""


def frequent_word(knowledge: Knowledge) -> str | None:
    """Return a word that is typical of the documents: long, frequent, and not in most of them."""
    with contextlib.closing(sqlite3.connect(knowledge.store.path)) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, knowledge_index, row)")
        for (term,) in connection.execute(FREQUENT_WORDS):
            if connection.execute(IN_DOCUMENTS, (f'body : "{term}"',)).fetchone():
                return str(term)
    return None


def tools_of(knowledge: Knowledge, *, tenant: str, user: str) -> dict[str, ToolSpec]:
    """Return the tools of one user: the state says who is calling."""
    tools = knowledge.to_toolspecs()
    for tool in tools.values():
        tool.state = {"tenant": tenant, "user": user}
    return tools


class Tour:
    """A tour of the tools, printed step by step."""

    max_files = 5_000
    max_skipped_lines = 20
    client_timeout = 120.0
    """Seconds for the MCP client and its server together, on a slow machine."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.console = Console()
        self.ann = tools_of(knowledge, tenant="acme", user="ann")
        self.bob = tools_of(knowledge, tenant="acme", user="bob")

    def run(self, root: Path, sources: Sequence[Path]) -> int:
        """Take all steps and return the exit code."""
        self.console.rule("1. Index a folder")
        self.index(root, sources)
        word = frequent_word(self.knowledge) or "launch"
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
        """Put the texts of the sources into the knowledge base."""
        files = list(itertools.islice(itertools.chain.from_iterable(map(find_files, sources)), self.max_files))
        count = self.knowledge.replace_documents(self.read_texts(root, files))
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
        notes = {"ann": "Ann has heard that the launch is on Monday.", "bob": "Bob knows: the launch is on Friday."}
        for user, tools in {"ann": self.ann, "bob": self.bob}.items():
            tools["delete"].exec(name="note://Launch")  # if an earlier tour has left one
            self.call(user, tools["add"], title="Launch", text=notes[user])
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
        arguments = ["client", str(self.knowledge.store.path), "--tenant", "acme", "--user", "ann", "--query", word]
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
            return Tour(Knowledge(options.database or Path(temporary, "knowledge_base.db"))).run(root, sources)
    except KeyboardInterrupt:
        return fail("stopped", code=130)
    except DefinitionError as error:
        return fail(str(error))


if __name__ == "__main__":
    sys.exit(main())
