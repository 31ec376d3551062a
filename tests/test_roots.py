"""Roots: which paths a tool may use. A check either gives a path inside of the roots, or an error without paths."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from hypothesis import strategies as st

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.errors import ToolError, ToolkitError
from tests.property_checks import EXAMPLES, run_examples

OUTSIDE = "The path is outside"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a root, files around it, and links that lead from the root to them."""
    base = tmp_path.resolve()
    root, other = base / "root", base / "root-other"
    (root / "sub").mkdir(parents=True)
    other.mkdir()
    for file in (root / "a.txt", root / "sub" / "b c.txt", root / "ü%41.txt", base / "secret.txt", other / "x.txt"):
        file.write_text(file.name)
    (root / "~").mkdir()
    links = {
        "out": base / "secret.txt", "out_dir": base, "up": Path(".."), "chain": Path("out_dir"), "inside": root / "sub",
        "loop": Path("loop"), "ring": Path("ring2"), "ring2": Path("ring"), "broken": base / "nowhere" / "x",
        "hidden": Path("loop/../out"), "hidden2": Path("loop/../hidden"), "proc": Path("/proc/self/root"),
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)
    return base


def context_of(*roots: Path) -> ToolContext:
    return ToolContext(roots=roots)


ALLOWED = {
    "a.txt": "a.txt",
    "./a.txt": "a.txt",
    "sub/../a.txt": "a.txt",
    "sub//b c.txt": "sub/b c.txt",
    "new/deep/file.txt": "new/deep/file.txt",
    ".": ".",
    "sub/": "sub",
    "inside/b c.txt": "sub/b c.txt",
    "missing/../a.txt": "a.txt",
    "./~/x": "~/x",
    "...": "...",
    "{root}": ".",
    "{root}/": ".",
    "{root}/a.txt": "a.txt",
    "{root}/../root/a.txt": "a.txt",
    "../root/a.txt": "a.txt",
    "%2e%2e/a.txt": "%2e%2e/a.txt",
    "file://{root}/a.txt": "a.txt",
    "file:{root}/a.txt": "a.txt",
    "FILE://LOCALHOST{root}/a.txt": "a.txt",
    "file://{root}/sub/b%20c.txt": "sub/b c.txt",
    "file://{root}/%C3%BC%2541.txt": "ü%41.txt",
    "file://{root}/sub/%2e%2e/a.txt": "a.txt",
    "A.TXT": "A.TXT",
}

REFUSED = [
    "",
    "..",
    "../secret.txt",
    "../root-other/x.txt",
    "sub/../../secret.txt",
    "a.txt/../../secret.txt",
    "missing/../../secret.txt",
    "./././../secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "{root}-other/x.txt",
    "{root}/../secret.txt",
    "{root}/sub/../../secret.txt",
    "{base}",
    "out",
    "out_dir/secret.txt",
    "up/secret.txt",
    "chain/secret.txt",
    "chain/root/../secret.txt",
    "inside/../../secret.txt",
    "broken",
    "broken/new.txt",
    "hidden",
    "hidden2",
    "loop/../out",
    "loop/../hidden",
    "loop/../hidden2",
    "loop/../out_dir/secret.txt",
    "ring/../out",
    "proc/etc/passwd",
    "out_dir/new-file.txt",
    "~",
    "~/x",
    "~\\x",
    "a\0.txt",
    "\0",
    "sub/\ud800.txt",
    "C:",
    "C:\\Windows\\system.ini",
    "c:/Windows",
    "\\\\server\\share\\x",
    "\\\\?\\C:\\x",
    "file:",
    "file://",
    "file:///",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "file:a.txt",
    "file:./a.txt",
    "file://a.txt",
    "file://evil.example{root}/a.txt",
    "file://localhost:80{root}/a.txt",
    "file://user@localhost{root}/a.txt",
    "file://127.0.0.1{root}/a.txt",
    "file://{root}/..%2Fsecret.txt",
    "file://{root}/%2e%2e/secret.txt",
    "file://{root}/a.txt%00",
    "file://{root}/%ff.txt",
    "file://{root}/a.txt?x=1",
    "file://{root}/a.txt#x",
    "file://{root}/out",
    "http://localhost{root}/a.txt",
    "ftp://x/a.txt",
    "s3://bucket/a.txt",
    "x" * 5000,
    "a/" * 2000 + "../" * 2100,
]


@pytest.mark.parametrize("path", ALLOWED)
def test_a_path_inside_of_the_roots_is_returned_without_links_and_dots(place, path):
    root = place / "root"
    text = path.replace("{root}", str(root))
    assert context_of(root).check_path(text) == (root / ALLOWED[path]).absolute()
    if not text.lower().startswith("file:") and "~" not in text:
        assert context_of(root).check_path(Path(text)) == root / ALLOWED[path]


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: ascii(path)[:40])
def test_any_other_path_is_refused_without_naming_a_path(place, path):
    root = place / "root"
    text = path.replace("{root}", str(root)).replace("{base}", str(place))
    with pytest.raises(ToolError) as error:
        context_of(root).check_path(text)
    assert str(place) not in error.value.message
    assert "secret" not in error.value.message
    assert error.value.message.endswith(".")


@EXAMPLES
def test_whatever_is_checked_is_inside_or_refused(tmp_path_factory, max_examples):
    base = tmp_path_factory.mktemp("place").resolve()
    root = base / "root"
    (root / "sub").mkdir(parents=True)
    (base / "secret.txt").write_text("secret")
    for name, target in {"up": "..", "out": "../secret.txt", "loop": "loop", "h": "loop/../out", "in": "sub"}.items():
        (root / name).symlink_to(target)
    parts = st.sampled_from(["..", ".", "", "sub", "up", "out", "loop", "h", "in", "root", "secret.txt", "~", "%2e%2e"])
    prefixes = st.sampled_from(["", "/", f"{root}/", f"file://{root}/", "file:///", "file:", "~/", "C:/"])

    def check(prefix: str, names: list[str]) -> None:
        try:
            path = context_of(root).check_path(prefix + "/".join(names))
        except ToolError:
            return
        assert Path(os.path.realpath(path)).is_relative_to(root)
        assert not path.is_symlink() or path.name == "loop"

    run_examples(max_examples, check, prefixes, st.lists(parts, max_size=6))


def test_a_path_may_be_in_any_of_the_roots_and_a_relative_one_begins_in_the_first(place):
    context = context_of(place / "root", place / "root-other")
    assert context.check_path("x.txt") == place / "root" / "x.txt"
    assert context.check_path("../root-other/x.txt") == place / "root-other" / "x.txt"
    assert context.check_path(str(place / "root-other" / "x.txt")) == place / "root-other" / "x.txt"
    with pytest.raises(ToolError, match=OUTSIDE):
        context.check_path(place / "secret.txt")


def test_a_path_is_a_text_or_a_path(place):
    for wrong in (None, 5, b"a.txt"):
        with pytest.raises(TypeError):
            context_of(place).check_path(wrong)  # type: ignore[arg-type]


def reading_kit(**options: Any) -> Toolkit:
    kit = Toolkit("files", **options)

    @kit.tool
    def read(path: str, context: ToolContext) -> str:
        """Read a file."""
        return context.check_path(path).read_text()

    @kit.tool
    async def roots(context: ToolContext) -> list[str]:
        """List the roots."""
        return [root.name for root in context.roots]

    return kit


def test_without_roots_the_model_reads_what_is_wrong_and_the_log_says_how_to_fix_it(caplog):
    caplog.set_level(logging.WARNING)
    error = reading_kit().exec("read", {"path": "a.txt"}).error
    assert error is not None
    assert error.message == "This tool cannot use files, because no folder was made available to it."
    assert "Pass roots=… to the Toolkit, to the session or to the call." in caplog.text
    with pytest.raises(ToolError, match="roots=…"):
        ToolContext().check_path("a.txt")


def test_a_served_tool_tells_its_client_why_a_path_is_refused(place):
    kit = reading_kit(roots=place / "root")

    async def run() -> list[Any]:
        async with Client(kit.to_fastmcp_server(), roots=["file:///"]) as client:
            return [
                (await client.call_tool("read", {"path": path}, raise_on_error=False)).content[0].text
                for path in ("a.txt", "../secret.txt", "/etc/passwd")
            ]

    texts = asyncio.run(run())
    assert texts[0] == "a.txt"
    assert all(text.startswith(OUTSIDE) for text in texts[1:])


def test_the_roots_of_a_call_replace_those_of_its_session_and_these_those_of_the_toolkit(place):
    kit = reading_kit(roots=place / "root")
    session = kit.session({"roots": "a value"}, roots=[place / "root-other", place])
    assert (kit.call("roots"), session.call("roots")) == (["root"], ["root-other", place.name])
    assert session.session(user="ann").select(names=["roots"]).call("roots") == ["root-other", place.name]
    assert session.session(roots=[]).call("roots") == []
    assert kit.session().call("roots") == ["root"]
    assert session.state == {"roots": "a value"}
    given = {"roots": (place / "root" / "sub").as_uri()}
    assert [session.call("roots", **given), session.exec("roots", **given).value] == [["sub"], ["sub"]]
    assert [result.value for result in session.stream("roots", **given)] == [["sub"]]

    async def run() -> list[Any]:
        called = [await session.acall("roots", **given), (await session.aexec("roots", **given)).value]
        return called + [result.value async for result in session.astream("roots", **given)]

    assert asyncio.run(run()) == [["sub"]] * 3
    assert session.call("roots") == ["root-other", place.name]


def test_what_a_tool_calls_in_its_toolkit_has_the_roots_of_its_call(place):
    kit = reading_kit(roots=place).add_search()

    @kit.tool
    def ask_another(context: ToolContext) -> list[Any]:
        """Call another tool, also in a session of its own."""
        inner = context.toolkit
        return [inner.call("roots"), inner.session().call("roots"), inner.select(names=["roots"]).call("roots")]

    given = {"roots": place / "root"}
    assert kit.call("ask_another", **given) == [["root"]] * 3
    found = kit.exec("call_tool", {"name": "roots"}, **given)
    assert found.structured_content == {"result": ["root"]}
    assert kit.session().call("ask_another") == [[place.name]] * 3


def test_a_served_session_keeps_its_roots(place):
    session = reading_kit(roots=place).session(roots=place / "root")

    async def run() -> Any:
        async with Client(session.to_fastmcp_server(), roots=["file:///"]) as client:
            return (await client.call_tool("roots")).data

    assert asyncio.run(run()) == ["root"]


@pytest.mark.parametrize(
    ("roots", "match"),
    [
        (5, "`roots` is a folder or a list of folders, not a int"),
        ([5], "A root is the path of a folder or a file: URI, not 5"),
        ("", "The path is empty"),
        ("~/work", "~ does not mean a home folder here"),
        (b"/x", "A root is the path"),
        ("http://x/y", "no other URIs"),
        ("a\0b", "NUL"),
    ],
)
def test_wrong_roots_are_refused_where_they_are_set(roots, match):
    kit = reading_kit()
    for use in (reading_kit, kit.session, lambda **wrong: kit.exec("roots", **wrong)):
        with pytest.raises(ToolkitError, match=match):
            use(roots=roots)


@pytest.mark.exhaustive
def test_a_body_in_a_worker_process_checks_paths_too(place):
    kit = Toolkit("files", roots=place / "root").add(checked, isolation="process")
    assert kit.call("checked", {"path": "sub/../a.txt"}) == "a.txt"
    error = kit.exec("checked", {"path": "../secret.txt"}).error
    assert error is not None
    assert error.message.startswith(OUTSIDE)


def checked(path: str, context: ToolContext) -> str:
    return context.check_path(path).read_text()
