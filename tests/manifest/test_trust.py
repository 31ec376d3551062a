"""What a manifest may run: only what it names, and of this only what `trust=` allows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ahvn_tools import load
from ahvn_tools.errors import SourceError
from tests.manifest.conftest import Load

EVIL = """
from pathlib import Path
from ahvn_tools import tool
Path(__file__).with_suffix(".ran").touch()

@tool
def find(query: str) -> str:
    return query

async def middleware(call, next):
    return await next(call)

def approver(request):
    return True
"""


@pytest.fixture(autouse=True)
def evil(folder: Path) -> Path:
    """Make a module that leaves a file when it is imported."""
    (folder / "evil.py").write_text(EVIL)
    (folder / "tools").mkdir()
    (folder / "tools" / "one.py").write_text(EVIL)
    (folder / "inner.yaml").write_text("sources: [evil.py]")
    (folder / "mcp.json").write_text('{"mcpServers": {"a": {"command": "touch", "args": ["evil.ran"]}}}')
    return folder / "evil.ran"


KEYS = [
    "sources: [evil.py]",
    "sources: [./evil.py]",
    "sources: ['evil.py:find']",
    "sources: [evil]",
    "sources: ['evil:find']",
    "sources: [inner.yaml]",
    "sources: [mcp.json]",
    "sources: ['touch evil.ran']",
    "sources: ['mcp:touch evil.ran']",
    "sources: [\"from pathlib import Path\\nPath('evil.ran').touch()\"]",
    "sources: [{source: evil.py}]",
    "sources: [{source: evil.py}]",
    "sources: [{source: tools/../evil.py}]",
    "sources: [{source: evil}]",
    "sources: [{source: 'evil:find'}]",
    "sources: [{manifest: inner.yaml}]",
    'sources: [{code: \'open("evil.ran", "w")\'}]',
    "sources: [{server: touch evil.ran}]",
    "sources: [{server: [touch, evil.ran]}]",
    "sources: [{server: evil.py}]",
    "sources: [{server: {command: touch, args: [evil.ran]}}]",
    "sources: [{server: {mcpServers: {a: {command: touch, args: [evil.ran]}}}}]",
    "sources: [{server: mcp.json}]",
    "sources: [{source: notes.py, middleware: ['evil:middleware']}]",
    "tools: {find: {middleware: ['evil:middleware']}}",
    "middleware: ['evil:middleware']",
    "middleware: [{'evil:middleware': {a: 1}}]",
    "middleware: ['evil.py:middleware']",
    "approval: {approver: 'evil:approver'}",
    "profiles: {dev: {middleware: ['evil:middleware']}}",
    "audiences: {sub: {approval: {approver: 'evil.py:approver'}}}",
]


@pytest.mark.parametrize("text", KEYS)
def test_no_key_runs_what_is_not_trusted(text: str, load_text: Load, evil: Path) -> None:
    options = {"profile": "dev"} if "profiles" in text else {"audience": "sub"} if "audiences" in text else {}
    with pytest.raises(SourceError, match=r"(is|are) not trusted: add .* to trust="):
        load_text(text, trust=["notes.py", "notes", "python"], **options)
    assert "evil" not in sys.modules
    assert not evil.exists()
    assert not list(evil.parent.rglob("*.ran"))


def test_files_of_a_folder_that_are_not_trusted_are_skipped(load_text: Load, evil: Path) -> None:
    for text in ("sources: [tools]", "sources: [{source: tools}]"):
        kit = load_text(text, trust=["notes.py"])
        assert (len(kit), len(kit.load_errors)) == (0, 1)
    assert not list(evil.parent.rglob("*.ran"))


@pytest.mark.parametrize(
    ("text", "trust"),
    [
        ("sources: [notes.py]", ["notes.py"]),
        ("sources: [notes]", ["notes", "notes.py"]),
        ("sources: [notes]", ["note*", "."]),
        ("sources: [{source: notes.py}]", ["."]),
        ("sources: [{code: 'def f(): return 1'}]", ["<code>"]),
        ("sources: [notes.py]\nmiddleware: ['notes:shout', log]\napproval: {approver: 'notes:ask'}", ["notes", "*.py"]),
    ],
)
def test_what_is_trusted_runs(text: str, trust: list[str], load_text: Load) -> None:
    assert len(load_text(text, trust=trust)) > 0


def test_a_manifest_imports_only_what_it_names(folder: Path) -> None:
    """Neither the files beside it nor its unused profiles."""
    (folder / "kit.yaml").write_text(
        "sources: ['notes.py:find']\nprofiles: {dev: {sources: [evil.py]}}\n"
        "audiences: {sub: {middleware: ['evil:middleware']}}"
    )
    assert len(load("kit.yaml")) == 1
    assert "evil" not in sys.modules


def test_nothing_is_imported_that_a_source_does_not_need(folder: Path) -> None:
    """A Python file needs no YAML, which would double the start of a command; a manifest without code imports none."""
    (folder / "kit.yaml").write_text("name: kit\ngroups: {a: b}\n")
    script = (
        "import sys, ahvn_tools; ahvn_tools.load('notes.py'); "
        "print(*[n for n in ('yaml', 'ahvn_tools.manifest.model', 'fastmcp', 'mcp') if n in sys.modules]); "
        "ahvn_tools.load('kit.yaml'); print(*[n for n in ('evil', 'fastmcp') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100, cwd=folder
    )
    assert done.stdout == "\n\n"


def test_yaml_has_no_python_tags(load_text: Load, evil: Path) -> None:
    for tag in ("!!python/object/apply:os.system", "!!python/name:os.system", "!!python/module:evil", "!evil"):
        with pytest.raises(SourceError, match=r"kit.yaml, line 1: the tag '.*' is not supported"):
            load_text(f"name: {tag} [touch evil.ran]")
    assert not evil.exists()


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{here}: &{here} [{', '.join([f'*{below}'] * 10)}]\n"
            for below, here in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "a: " + "[" * 5_000,
        "a: " + "{a: " * 5_000,
        "sources: " + "[" * 90 + "]" * 90,
        "a: &a [*a]",
    ],
    ids=["a billion laughs", "deep lists", "deep mappings", "deep but complete", "a cycle"],
)
def test_hostile_yaml_is_refused_at_once(text: str, load_text: Load) -> None:
    with pytest.raises(SourceError):
        load_text(text)


def test_a_path_may_lead_out_of_the_folder_unless_trust_forbids_it(folder: Path) -> None:
    """A manifest names any file, as a Python file imports any; `trust` is what limits it."""
    (folder / "sub").mkdir()
    (folder / "sub" / "kit.yaml").write_text("sources: [../notes.py]")
    assert len(load("sub/kit.yaml")) == 3
    with pytest.raises(SourceError, match="is not trusted"):
        load("sub/kit.yaml", trust=["sub/"])
    (folder / "sub" / "link.py").symlink_to(folder / "evil.py")
    (folder / "sub" / "kit.yaml").write_text("sources: [link.py]")
    with pytest.raises(SourceError, match="is not trusted"):
        load("sub/kit.yaml", trust=["sub/"])


def test_all_that_is_not_trusted_is_one_error_before_anything_runs_or_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inner.py").write_text("from pathlib import Path\nPath('ran.txt').touch()\ndef find() -> int:\n    return 1")
    Path("inner.yaml").write_text("sources: [inner.py]")
    Path("kit.yaml").write_text("""
middleware:
  - {record: {path: calls.jsonl}}
  - {keep_large: {folder: kept}}
  - missing_module:audit
approval: {approver: "gone:ask", store: store.db}
sources:
  - code: |
      from pathlib import Path
      Path("ran.txt").touch()
      def one() -> int:
          return 1
  - {server: "https://tools.example/mcp", auth: "${TOKEN}", env: {OTHER: x}}
  - {server: [evil, --now], stderr: log.txt}
  - {http: {name: a, api_url: "https://api.example", proxy: "https://proxy.example"}}
  - {builtins: [shell, git], roots: [/], network: true}
  - {manifest: inner.yaml}
  - no_such_file.py
""")
    trusted = ["<code>", "./calls.jsonl", "./kept", "inner.py", "./store.db"]
    with pytest.raises(SourceError) as caught:
        load("kit.yaml", trust=trusted, env={"TOKEN": "the-secret-token", "OTHER": ""})
    text = str(caught.value)
    for pattern in (
        "missing_module", "gone", "https://tools.example", "${TOKEN}", "${OTHER}", "evil", "log.txt", "./log.txt",
        "https://api.example", "https://proxy.example", "<builtins:shell>", "<builtins:git>", "<network>", "/",
    ):  # fmt: skip
        assert pattern in text, pattern
    assert "no_such_file.py" in text  # what is wrong otherwise is in the same error
    assert "the-secret-token" not in text
    names = [line for line in text.splitlines() if line.startswith("In all, trust=[…] lacks")]
    assert ["'${TOKEN}'" in names[0], "'<builtins:shell>'" in names[0], len(names)] == [True, True, 1]
    made = ("ran.txt", "calls.jsonl", "kept", "store.db", "log.txt")
    assert [name for name in made if Path(name).exists()] == []
    with pytest.raises(SourceError, match="<code>") as caught:
        load("kit.yaml", trust=[])
    assert all(name in str(caught.value) for name in ("calls.jsonl", "inner.py"))


def test_of_several_sources_the_first_does_not_run_if_another_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "from pathlib import Path\nPath('ran.txt').touch()\ndef one() -> int:\n    return 1"
    Path("one.py").write_text(code)
    Path("two.py").write_text("x = 1")
    with pytest.raises(SourceError, match=r"https://tools\.example.*\n.*two.py.*\n.*trust=\[…\] lacks"):
        load(code, "one.py", "https://tools.example/mcp", "two.py", trust=["<code>", "one.py"])
    assert not Path("ran.txt").exists()
