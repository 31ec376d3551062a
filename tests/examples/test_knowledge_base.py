"""The knowledge base example: its tools, and the whole tour as a process."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ahvn_tools
from ahvn_tools import ToolError, ToolSpec

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOOLS = ["search", "read", "add", "update", "delete", "stats"]
TEXTS = {
    "guide.md": "# Guide\n\nA telescope shows [far] things. The telescope is on a tripod.",
    "deep/history.txt": "The first telescope was built in 1608. A café was near.",
    "milk.md": "Milk is white.",
    "tea.md": "Tea is made of leaves and hot water.",
}
SKIPPED = {
    "picture.png": "binary data, not text",
    "old.txt": "not UTF-8 text",
    "huge.txt": "larger than 2,000,000 bytes",
    "outside.md": "a link, and links are not followed",
    "outside": "a link, and links are not followed",
    "pipe.md": "not a regular file",
    "void.md": "empty",
    "two\N{REPLACEMENT CHARACTER}lines.md": "empty",
}


def write_folder(folder: Path) -> Path:
    """Make a folder with every kind of file that the example has to cope with."""
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / ".hidden.md").write_text("telescope")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    (folder / "old.txt").write_bytes("Ein schönes Fernrohr".encode("latin-1"))
    (folder / "huge.txt").write_text("telescope " * 200_001)
    (folder / "void.md").write_text(" \n")
    (folder / "two\nlines.md").write_text("")
    (folder / "outside.md").symlink_to(EXAMPLES / "knowledge_base.py")
    (folder / "outside").symlink_to(EXAMPLES, target_is_directory=True)
    os.mkfifo(folder / "pipe.md")
    return folder


def run(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the example, or a line of code that imports it, with the package under test."""
    start = [str(EXAMPLES / "knowledge_base.py")] if code is None else ["-c", code]
    colours = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    environment = {name: value for name, value in os.environ.items() if name not in colours}
    environment |= {"PYTHONPATH": str(Path(ahvn_tools.__file__).parents[1]), "COLUMNS": "160", "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, *start, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """One run over a folder with good and bad files."""
    return run(str(write_folder(tmp_path_factory.mktemp("folder"))))


def step(output: str, number: int) -> str:
    """Return what one step of the tour printed."""
    return re.split(r"^─+ \d\. .* ─+$", output, flags=re.MULTILINE)[number]


def answers(output: str, question: str) -> list[str]:
    """Return the indented lines below each occurrence of a question."""
    found = re.findall(rf"^{re.escape(question)}\n((?:    .*\n)*)", output, flags=re.MULTILINE)
    assert found, f"{question!r} was not asked"
    return found


@pytest.mark.timeout(150)
class TestTour:
    def test_ends_well(self, tour: subprocess.CompletedProcess[str]) -> None:
        """The run ends with exit code 0 and nothing on stderr but the server's greeting."""
        assert tour.returncode == 0, tour.stderr
        assert re.fullmatch(r"server process \d+ serves 6 tools\n", tour.stderr)

    def test_progress(self, tour: subprocess.CompletedProcess[str]) -> None:
        assert re.search(r"^Indexing .*100%", step(tour.stdout, 1), flags=re.MULTILINE)
        assert "4 of 12 files indexed" in step(tour.stdout, 1)

    @pytest.mark.parametrize("name", SKIPPED)
    def test_one_line_for_a_file_that_is_no_text(self, tour: subprocess.CompletedProcess[str], name: str) -> None:
        lines = [line for line in step(tour.stdout, 1).splitlines() if line.startswith("skipped ")]
        assert f"skipped {name}: {SKIPPED[name]}" in lines
        assert len(lines) == len(SKIPPED)

    def test_hidden_files_are_not_mentioned(self, tour: subprocess.CompletedProcess[str]) -> None:
        assert ".hidden" not in tour.stdout

    @pytest.mark.parametrize("name", TOOLS)
    def test_tool_list_and_prompt_name_every_tool(self, tour: subprocess.CompletedProcess[str], name: str) -> None:
        rows = [row for row in re.split(r"^├.*┤$", step(tour.stdout, 2), flags=re.MULTILINE) if name in row.split()]
        assert all(key in rows[0].split() for key in ("tenant", "user"))
        assert re.search(rf"^- `{name}\(", step(tour.stdout, 3), flags=re.MULTILINE)

    def test_prompt_has_no_bound_parameter(self, tour: subprocess.CompletedProcess[str]) -> None:
        assert not re.search(r"\b(context|tenant|self)\b", step(tour.stdout, 3))

    def test_schema_export(self, tour: subprocess.CompletedProcess[str]) -> None:
        """The export is JSON, strict, and has only the parameters of the model."""
        schema = json.loads(step(tour.stdout, 4))
        assert (schema["type"], schema["name"], schema["strict"]) == ("function", "search", True)
        assert list(schema["parameters"]["properties"]) == ["query", "limit", "offset", "tags", "source"]

    def test_sample_search_uses_a_word_of_the_text(self, tour: subprocess.CompletedProcess[str]) -> None:
        [answer] = answers(step(tour.stdout, 5), "ann: search(query='telescope', limit=3)")
        hits = [json.loads(line) for line in answer.splitlines()]
        assert {hit["name"] for hit in hits} == {"guide.md", "deep/history.txt"}
        assert any("**telescope** shows [far] things" in hit["excerpt"] for hit in hits)

    @pytest.mark.parametrize(("user", "own", "other"), [("ann", "Monday", "Friday"), ("bob", "Friday", "Monday")])
    def test_notes_do_not_mix(self, tour: subprocess.CompletedProcess[str], user: str, own: str, other: str) -> None:
        asked = step(tour.stdout, 5)
        [found] = answers(asked, f"{user}: search(query='launch', limit=1)")
        [text] = answers(asked, f"{user}: read(name='note://Launch')")
        [stats] = answers(asked, f"{user}: stats()")
        assert own in found + text
        assert other not in found + text
        assert json.loads(stats)["notes"] == 1

    def test_bound_parameter_is_refused(self, tour: subprocess.CompletedProcess[str]) -> None:
        [answer] = answers(step(tour.stdout, 6), "ann's model: search(query='telescope', user='bob')")
        assert answer.startswith("    refused (invalid_parameters): ")
        assert "user" in answer

    def test_query_without_words_is_refused(self, tour: subprocess.CompletedProcess[str]) -> None:
        [answer] = answers(step(tour.stdout, 6), """ann's model: search(query='"*"')""")
        assert answer.startswith("    refused (tool_error): The query has no words.")

    def test_client_process_lists_the_tools(self, tour: subprocess.CompletedProcess[str]) -> None:
        [listed] = re.findall(r"is connected and lists:\n((?:    .*\n)*)", step(tour.stdout, 7))
        assert listed.split("\n    ") == [
            "    search(query, limit, offset, tags, source)",
            "read(name, start)",
            "add(title, text, tags)",
            "update(name, text, tags)",
            "delete(name)",
            "stats()\n",
        ]

    def test_client_process_calls_the_tools(self, tour: subprocess.CompletedProcess[str]) -> None:
        """Over MCP it is the same user and the same database, with the note of step 5 and one more."""
        called = step(tour.stdout, 7)
        assert "telescope" in answers(called, "search(query='telescope', limit=2)")[0]
        assert "another process" in answers(called, "read(name='note://MCP')")[0]
        assert json.loads(answers(called, "stats()")[0])["notes"] == 2

    def test_client_process_is_refused_a_bound_parameter(self, tour: subprocess.CompletedProcess[str]) -> None:
        assert answers(step(tour.stdout, 7), "search(query='telescope', user='bob')")[0].startswith("    refused: ")

    def test_nothing_is_left_running(self, tour: subprocess.CompletedProcess[str]) -> None:
        processes = re.findall(r"(?:client|server) process (\d+)", tour.stdout + tour.stderr)
        assert len(set(processes)) == 2
        for process in processes:
            with pytest.raises(ProcessLookupError):
                os.kill(int(process), 0)

    def test_no_bound_value_is_printed(self, tour: subprocess.CompletedProcess[str]) -> None:
        assert "knowledge_base.db" not in tour.stdout + tour.stderr
        assert "<" not in step(tour.stdout, 5) + step(tour.stdout, 6), "an object was printed"


@pytest.mark.exhaustive
@pytest.mark.timeout(150)
def test_own_documentation_is_the_default() -> None:
    """Without an argument the project's README and docs are indexed."""
    finished = run()
    assert finished.returncode == 0, finished.stderr
    assert re.search(r"^[1-9]\d* of \d+ files indexed from", step(finished.stdout, 1), flags=re.MULTILINE)
    assert "client and server have ended" in finished.stdout


@pytest.mark.exhaustive
@pytest.mark.timeout(150)
def test_folder_without_any_text(tmp_path: Path) -> None:
    """When nothing can be indexed the run says so, keeps the list of files short, and goes on with notes."""
    for number in range(25):
        (tmp_path / f"data{number:02}.bin").write_bytes(bytes(range(256)))
    finished = run(str(tmp_path))
    assert finished.returncode == 0, finished.stderr
    lines = [line for line in finished.stdout.splitlines() if line.startswith("skipped ")]
    assert lines == [*(f"skipped data{number:02}.bin: binary data, not text" for number in range(20)), "skipped 5 more"]
    assert "There is no text to search, so the tour goes on with notes alone." in finished.stdout


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("absent", "there is no folder '{}'"),
        ("file.md", "there is no folder '{}'"),
        ("x" * 5000, "there is no folder '{}'"),
        ("bare", "the folder '{}' has no files: pass one with text or Markdown files"),
    ],
    ids=["missing", "file", "too long", "empty"],
)
@pytest.mark.exhaustive
def test_bad_folder(tmp_path: Path, argument: str, message: str) -> None:
    """A folder that cannot be used is one plain line on stderr and exit code 2."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "file.md").write_text("text")
    finished = run(str(tmp_path / argument))
    expected = f"knowledge_base.py: {message.format(tmp_path / argument)}\n"
    assert (finished.returncode, finished.stdout, finished.stderr) == (2, "", expected)


def test_empty_argument_is_not_the_current_folder() -> None:
    assert run("").stderr == "knowledge_base.py: there is no folder ''\n"


def test_database_that_is_none(tmp_path: Path) -> None:
    """A file that is not SQLite's is one plain line on stderr and exit code 2, and stays as it is."""
    (tmp_path / "text.md").write_text("text " * 100)
    finished = run(str(tmp_path), "--database", str(tmp_path / "text.md"))
    assert finished.returncode == 2
    assert finished.stderr == "knowledge_base.py: SQLite cannot work with the database: file is not a database\n"
    assert (tmp_path / "text.md").read_text() == "text " * 100


def test_importing_it_does_nothing(tmp_path: Path) -> None:
    """The module can be imported for its class: nothing is printed or written, and FastMCP is not loaded."""
    code = (
        f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path.insert(0, {str(EXAMPLES)!r}); "
        "import knowledge_base; sys.exit('fastmcp' in sys.modules)"
    )
    finished = run(code=code)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """The example as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield importlib.import_module("knowledge_base")


ToolsOf = Callable[..., dict[str, ToolSpec]]


@pytest.fixture
def database(example: ModuleType, tmp_path: Path) -> Any:
    """A database with a few documents."""
    database = example.Knowledge(tmp_path / "texts.db")
    assert database.replace_documents(TEXTS.items()) == len(TEXTS)
    return database


@pytest.fixture
def tools_of(example: ModuleType, database: Any) -> ToolsOf:
    """Return a function that makes the tools of a user over one database."""

    def of(user: str, tenant: str = "acme") -> dict[str, ToolSpec]:
        tools: dict[str, ToolSpec] = example.tools_of(database, tenant=tenant, user=user)
        return tools

    return of


def names(hits: list[dict[str, Any]]) -> set[str]:
    """Return the names of the texts that were found."""
    return {hit["name"] for hit in hits}


@pytest.mark.parametrize("query", ["", " \n", '"', '""', "*", "()", "_", "-- ;", "🙂", "\0"])
def test_query_without_words_is_refused_with_a_hint(tools_of: ToolsOf, query: str) -> None:
    with pytest.raises(ToolError, match="Pass at least one word or number"):
        tools_of("ann")["search"](query=query)


@pytest.mark.parametrize("parameter", ["context", "tenant", "user", "self"])
@pytest.mark.parametrize("tool", TOOLS)
def test_no_tool_takes_a_bound_parameter(tools_of: ToolsOf, tool: str, parameter: str) -> None:
    spec = tools_of("ann")[tool]
    assert parameter not in spec.params
    result = spec.exec(**{parameter: "bob"})
    assert result.error is not None
    assert result.error.code == "invalid_parameters"


@pytest.mark.parametrize(("user", "tenant"), [("bob", "acme"), ("ann", "other"), ("Ann", "acme")])
def test_note_is_found_by_its_user_in_its_tenant_only(tools_of: ToolsOf, user: str, tenant: str) -> None:
    ann, other = tools_of("ann"), tools_of(user, tenant)
    name = ann["add"](title="  Secret \n plan ", text="Buy a lighthouse.")
    assert name == "note://Secret plan"
    assert names(ann["search"](query="lighthouse")) == {name}
    assert ann["read"](name=name) == {"text": "Buy a lighthouse.", "next_start": None}
    assert other["search"](query="lighthouse secret plan note") == []
    assert other["stats"]()["notes"] == 0
    with pytest.raises(ToolError, match="no text named"):
        other["read"](name=name)


def test_documents_are_replaced_and_notes_stay(tools_of: ToolsOf, database: Any) -> None:
    ann = tools_of("ann")
    ann["add"](title="Tea", text="I like tea.")
    database.replace_documents([("new.md", "Tea with milk.")])
    assert names(ann["search"](query="tea")) == {"new.md", "note://Tea"}
    assert ann["stats"]() == {"documents": 1, "notes": 1, "characters": len("Tea with milk.I like tea.")}


def test_frequent_word_comes_from_the_documents(example: ModuleType, tools_of: ToolsOf, database: Any) -> None:
    """A note's words are private, however often they are used."""
    tools_of("ann")["add"](title="Notes", text="lighthouse " * 50)
    assert example.frequent_word(database) == "telescope"
    database.replace_documents([])
    assert example.frequent_word(database) is None
