"""No order of rules and no spelling of arguments lets through what a deny rule names, or reaches what none allows."""

import json
import os
import posixpath
import string
import unicodedata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahvn_tools import ApprovalRules, Toolkit
from ahvn_tools.builtins import Workspace
from ahvn_tools.toolkit.rule_values import fits, path_fits


def kit_of(**rules: Any) -> Toolkit:
    """Return a toolkit with tools for a command, a file, a text, an object and a list."""
    kit = Toolkit("values", rules=ApprovalRules(**rules))

    @kit.tool
    def run(cmd: str) -> str:
        """Run a command."""
        return cmd

    @kit.tool
    def write(path: str, content: str = "") -> str:
        """Write a file."""
        return path

    @kit.tool
    def say(text: str, count: int = 1) -> str:
        """Say something."""
        return text

    @kit.tool
    def send(options: dict[str, Any], to: list[str] | None = None) -> str:
        """Send something."""
        return str(options)

    @kit.tool
    def fetch(address: str) -> str:
        """Fetch a page."""
        return address

    return kit


def decision(rules: dict[str, Any], tool: str, **arguments: Any) -> str:
    """Return what happens to a call, as `explain` says and as `exec` does."""
    kit = kit_of(**rules)
    explained = kit.explain(tool, arguments).decision
    error = kit.exec(tool, arguments).error
    codes = {None: "allow", "approval_required": "ask", "rejected": "deny"}
    assert codes[error and error.code] == explained
    return explained


ALLOWS_GIT = {"allow": ['run(cmd: "git status*")', 'run(cmd: "git log *")', 'run(cmd: "make test")']}


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /",
        "git status && ls",
        "git status || ls",
        "git status | sh",
        "git status & ls",
        "git status\nls",
        "git status\r\nls",
        "git status $(ls)",
        "git status `ls`",
        'git status "$(ls)"',
        "git status >f",
        "git status > /etc/passwd",
        "git status < f",
        "git status <(ls)",
        "X=1 git status",
        "env git status",
        "sudo git status",
        "GIT_PAGER=sh git status",
        "git -c core.pager=sh status",
        "./git status",
        "/tmp/git status",
        "git status\\\n; ls",
        "git\u200b status; ls",
        "git status\x00; ls",
        "git status {a,b}",
        "git status ~(ls)",
        "git status !!",
        "git status # \n ls",
        "(git status; ls)",
        "git",
        "gi",
        "git push",
        "",
        " ",
        "git log --output=f",
        "git log -p --ext-diff",
        "make test; ls",
        "make test x",
        "make",
        "git status\u2028ls",
        "git status；ls",
        "GIT STATUS",
    ],
)
def test_no_command_line_gets_more_than_an_allow_rule_says(command: str):
    assert decision(ALLOWS_GIT, "run", cmd=command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status --short",
        " git  status -s ",
        "git 'status' x",
        "git status; git status -s",
        "make test",
    ],
)
def test_an_allow_rule_for_a_command_allows_it(command: str):
    assert decision(ALLOWS_GIT, "run", cmd=command) == "allow"


@pytest.mark.parametrize("rule", ["python *", "bash *", "*", "git* *", "sh -c *", "awk *"])
@pytest.mark.parametrize("command", ["python -c 'x'", "bash -c 'x'", "sh -c 'x'", "awk 'x'", "git -c a=b status"])
def test_a_wildcard_allows_no_program_that_runs_its_arguments(rule: str, command: str):
    assert decision({"allow": [f'run(cmd: "{rule}")']}, "run", cmd=command) == ("allow" if rule == "*" else "ask")


DENIES_RM = {"mode": "allow", "deny": ['run(cmd: "rm *")', 'run(cmd: "git push*")']}


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "rm -rf /",
        "rm",
        "sudo rm x",
        "/bin/rm x",
        "env X=1 rm x",
        "X=1 rm x",
        "a && rm -rf b",
        "a; rm b",
        "a | rm b",
        'bash -c "rm x"',
        "bash -c 'rm x'",
        "sh -c rm\\ x",
        "xargs rm",
        "find . -exec rm {} ;",
        "r''m x",
        'r"m" x',
        "r\\m x",
        "r\\\nm x",
        "$(rm x)",
        "`rm x`",
        "nohup rm x &",
        "time rm x",
        "if true; then rm x; fi",
        "(rm x)",
        "{ rm x; }",
        "RM x",
        "rm\tx",
        "  rm   x",
        "\nrm x",
        "echo a\nrm x",
        "rm\u200b x",
        "ｒｍ x",
        "python -c \"os.system('rm x')\"",
        "git push",
        "git push origin",
        "git  push",
        "sudo git push",
        "cd x && git push -f",
        "\\rm x",
        "command rm x",
        "git 'push'",
        "busybox rm x",
        "ls >f; rm x",
        'echo "$(rm x)"',
        "rm $X",
        "! rm x",
    ],
)
def test_a_deny_rule_finds_its_command_in_each_command_line(command: str):
    assert decision(DENIES_RM, "run", cmd=command) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "$X y",
        "eval $Y",
        "echo cm0= | base64 -d | sh",
        "bash script.sh",
        "a $(b)",
        "python -c 'x'",
        "npm rm x",
        "other rm x",
        "./git commit -m 'rm x'",
        "git other 'rm x'",
        "echo 'rm x' | python3",
        "cat x; awk 'BEGIN { rm x }'",
        "r$@m x",
        "r{m,} x",
    ],
)
def test_what_cannot_be_read_is_asked_for_where_a_rule_may_deny_it(command: str):
    assert decision(DENIES_RM, "run", cmd=command) in {"ask", "deny"}


PLAIN = ("git commit -m 'rm x'", "git rm x", "echo 'rm x'", "grep rm x", "ls rm; git log --grep 'rm x'", "cat rm x")
"""Commands with the words of the rule in arguments that no program runs."""


def test_other_commands_are_not_touched_by_a_deny_rule():
    for command in ("ls", "git status", "ls | wc -l", "rmdir x", "git pull", "python build.py", "farm x", *PLAIN):
        assert decision(DENIES_RM, "run", cmd=command) == "allow"


SEPARATORS = st.sampled_from(["; ", " && ", " || ", " | ", "\n", " & ", ";\t"])
HARMLESS = st.sampled_from(["ls", "git status", "echo 'a b'", "cd /tmp", "wc -l"])
WRAPPERS = st.sampled_from(["", "sudo ", "env A=1 ", "/usr/bin/", "nohup ", "A=b ", "time ", "xargs ", "timeout 5 "])
QUOTED = st.sampled_from(["rm", "'rm'", '"rm"', "r'm'", "r\\m", 'r""m', "/bin/rm", "RM", "r\\\nm", "r\u200bm"])


@given(
    before=st.lists(HARMLESS, max_size=3),
    separator=SEPARATORS,
    wrapper=WRAPPERS,
    program=QUOTED,
    after=st.lists(HARMLESS, max_size=2),
)
@settings(max_examples=150, deadline=None)
def test_a_denied_command_is_found_among_others(
    before: list[str], separator: str, wrapper: str, program: str, after: list[str]
):
    line = separator.join([*before, f"{wrapper}{program} -rf x", *after])
    assert kit_of(**DENIES_RM).explain("run", {"cmd": line}).decision == "deny"


@given(st.text(alphabet="git status-rmls;&|$`()<>\\'\"\n x=/{}*~#!", max_size=30))
@settings(max_examples=300, deadline=None)
def test_what_an_allow_rule_allows_is_only_its_commands(line: str):
    from ahvn_tools.command_line import split_command_line

    if kit_of(**ALLOWS_GIT).explain("run", {"cmd": f"git status{line}"}).decision == "allow":
        assert all(command.words[0] == "git" for command in split_command_line(f"git status{line}"))


# paths


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with `docs`, `secrets`, and links to the second one; it is that of the process."""
    for name in ("docs", "secrets", "secrets/deep"):
        (tmp_path / name).mkdir()
    (tmp_path / "docs" / "link").symlink_to(tmp_path / "secrets")
    (tmp_path / "alias").symlink_to("secrets")
    (tmp_path / "secrets" / "key.txt").write_text("k")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spellings(path: str, folder: str) -> list[str]:
    """Return other ways to write the relative path of a file."""
    absolute = posixpath.join(folder, path)
    head, _, tail = path.rpartition("/")
    return [
        path,
        f"./{path}",
        f"x/../{path}",
        f".//{head}///{tail}",
        f"{head}/./{tail}",
        f"docs/../{path}",
        absolute,
        f"/{absolute}",
        absolute.replace("/", "//"),
        f"{folder}/../{posixpath.basename(folder)}/{path}",
        f"file://{absolute}",
        f"file:{absolute}",
        f"FILE://localhost{absolute}",
        f"file://{quote(absolute)}",
        f"file://{folder}/" + "".join(f"%{ord(one):02x}" for one in path),
        quote(path, safe=""),
        quote(quote(path, safe="")),
        path.upper(),
        path.swapcase(),
        path.replace("/", "\\"),
        f"{path[0]}\u200b{path[1:]}",
        f"{path}\u2060",
        f"docs/link/{tail}",
        f"alias/{tail}",
        f"docs/link/../{path}",
        f"docs/link/../secrets/{tail}",
        f" {path}",
        "".join(chr(ord(one) + 0xFEE0) if one.isalpha() else one for one in path),
        f"docs/\n/../../{path}",
        f"{path}\0.txt",
        f"{path}%00.txt",
    ]


PATTERNS = ["secrets/**", "./secrets/**", "secrets/*", "**/secrets/**", "SECRETS/**", "*secrets*", "secrets/key.txt"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_spelling_of_a_path_leads_around_a_deny_rule(folder: Path, pattern: str):
    kit = kit_of(mode="allow", deny=[f"write(path: {json.dumps(pattern)})", "run"], allow=["write"])
    for spelling in spellings("secrets/key.txt", str(folder)):
        assert kit.explain("write", {"path": spelling}).decision == "deny", spelling
    assert kit.explain("write", {"path": "docs/a.txt"}).decision == "allow"


@pytest.mark.parametrize("pattern", ["alias/**", "docs/link/*", "docs/link/**"])
def test_a_deny_rule_for_a_link_is_one_for_what_it_leads_to(folder: Path, pattern: str):
    kit = kit_of(mode="allow", deny=[f"write(path: {json.dumps(pattern)})"])
    for spelling in spellings("secrets/key.txt", str(folder)):
        if spelling.isascii() and Path(spelling).exists():
            assert kit.explain("write", {"path": spelling}).decision == "deny", spelling
    assert kit.explain("write", {"path": "docs/a.txt"}).decision == "allow"


PARTS = st.sampled_from(["docs", "..", ".", "", "secrets", "x", "docs/link", "deep", "alias"])


@given(parts=st.lists(PARTS, max_size=6), is_absolute=st.booleans(), is_uri=st.booleans())
@settings(max_examples=300, deadline=None)
def test_whatever_leads_into_a_denied_folder_is_denied_and_nothing_else_is_allowed(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], is_absolute: bool, is_uri: bool
):
    folder = _shared_folder(tmp_path_factory)
    path = "/".join([*parts, "key.txt"])
    path = f"{folder}/{path}" if is_absolute or is_uri else path.lstrip("/")
    path = f"file://{path}" if is_uri else path
    kit = Toolkit(
        "paths", roots=folder, rules=ApprovalRules(deny=['w(path: "secrets/**")'], allow=['w(path: "docs/**")'])
    )

    @kit.tool
    def w(path: str) -> str:
        """Write."""
        return path

    real = Path(os.path.realpath(folder / path.removeprefix("file://")))
    got = kit.explain("w", {"path": path}).decision
    if real.is_relative_to(folder / "secrets"):
        assert got == "deny"
    if got == "allow":
        assert real.is_relative_to(folder / "docs")
        assert real != folder / "docs"


_FOLDERS: list[Path] = []


def _shared_folder(factory: pytest.TempPathFactory) -> Path:
    if not _FOLDERS:
        folder = factory.mktemp("paths").resolve()
        for name in ("docs", "secrets", "secrets/deep", "x"):
            (folder / name).mkdir()
        (folder / "docs" / "link").symlink_to("../secrets")
        (folder / "alias").symlink_to("secrets")
        _FOLDERS.append(folder)
    return _FOLDERS[0]


def test_paths_of_a_workspace_begin_in_its_folder(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "link").symlink_to("/etc")
    rules = ApprovalRules(allow=['create_file(uri: "docs/**")'], deny=['*(uri: "docs/private/**")'])
    kit = Toolkit("files", rules=rules).add(Workspace(tmp_path, approve="never"))
    assert kit.exec("create_file", {"uri": "docs/a.txt", "content": "x"}).value
    for uri in (f"{tmp_path}/docs/b.txt", f"file://{tmp_path}/docs/c.txt", "./docs//d.txt"):
        assert kit.explain("create_file", {"uri": uri, "content": ""}).decision == "allow"
    for uri in ("a.txt", "docs/../a.txt", "/etc/x", "docs/link/x", "docs", "~/docs/x", "https://docs/x"):
        assert kit.explain("create_file", {"uri": uri, "content": ""}).decision == "ask", uri
    for uri in ("docs/private/x", "docs/x/../private/x", "docs/PRIVATE/x", "docs/private"):
        assert kit.explain("create_file", {"uri": uri, "content": ""}).decision == "deny", uri
    session = kit.session(roots=tmp_path / "docs")
    assert session.explain("create_file", {"uri": "docs/private/x", "content": ""}).decision == "deny"


# texts, numbers, lists and objects

TEXTS = st.text(alphabet=string.ascii_letters + " äÅﬁ①é.", min_size=1, max_size=12).filter(
    lambda text: text.strip() == text
)


@given(
    text=TEXTS,
    form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    hidden=st.sampled_from(["", "\u200b", "\u2060", "\ufeff"]),
    order=st.randoms(),
)
@settings(max_examples=200, deadline=None)
def test_no_spelling_of_a_text_and_no_order_of_rules_leads_around_a_deny_rule(
    text: str, form: Any, hidden: str, order: Any
):
    rules = ['say(text: "other")', f"say(text: {json.dumps(text)})", "say(count: 7)"]
    order.shuffle(rules)
    written = unicodedata.normalize(form, text)
    written = hidden.join([written[:1], written[1:].swapcase()])
    kit = kit_of(mode="allow", allow=["say", "*"], deny=rules)
    for sent in (written, f" {written}", quote(written)):
        assert kit.explain("say", {"text": sent}).decision == "deny"


@pytest.mark.parametrize("count", [1, "1", 1.0, "1.0", None])
def test_a_number_is_denied_however_it_is_written_and_when_it_is_the_default(count: Any):
    arguments = {"text": "x"} if count is None else {"text": "x", "count": count}
    assert decision({"mode": "allow", "deny": ["say(count: 1)"]}, "say", **arguments) == "deny"


@pytest.mark.parametrize(
    "options",
    [
        {"force": True},
        {"force": "true"},
        {"force": "TRUE"},
        {"Force": True},
        {"for\u200bce": True},
        {"ｆｏｒｃｅ": "ｔｒｕｅ"},
        '{"force": true}',
        '{"force": "true"}',
        {"force": [False, True]},
        {"force": {"a": True}},
        '{"a": 1, "force": true}',
    ],
)
def test_a_member_of_an_object_is_denied_in_each_form(options: Any):
    assert decision({"mode": "allow", "deny": ['send(options.force: "true")']}, "send", options=options) == "deny"


def test_of_a_list_any_item_is_denied_and_each_must_be_allowed():
    rules = {"mode": "ask", "allow": ['send(to: "*@example.org")'], "deny": ['send(to: "bob@*")']}
    cases: dict[str, list[Any]] = {
        "allow": [["ann@example.org"], ["ann@example.org", "eve@example.org"]],
        "ask": [[], ["ann@example.org", "x@evil.com"], ["x@evil.com, ann@example.org", "<a>;ann@example.org"], None],
        "deny": [["ann@example.org", "bob@example.org"], ["BOB@x"], '["bob@x"]', ["bob%40x"]],
    }
    for expected, values in cases.items():
        for value in values:
            assert decision(rules, "send", options={}, to=value) == expected, value


@pytest.mark.parametrize(
    ("address", "allowed", "denied"),
    [
        ("https://docs.example.org/a/b", True, False),
        ("HTTPS://DOCS.example.org/a", True, False),
        ("https://docs.example.org/a?q=1", True, False),
        ("https://docs.example.org/../a", False, False),
        ("https://docs.example.org/%2e%2e/a", False, False),
        ("https://docs.example.org.evil.com/a", False, False),
        ("https://docs.example.org@evil.com/", False, True),
        ("https://evil.com/a", False, True),
        ("HTTPS://EVIL.com/a", False, True),
        ("https://evil.com:443/a", False, True),
        ("https://evil.com./a", False, True),
        ("https://user:pw@evil.com/a", False, True),
        ("https:\\\\evil.com\\a", False, True),
        ("https:/evil.com/a", False, True),
        ("https://ｅvil.com/a", False, True),
        ("https://evil%2ecom/a", False, True),
        (" https://evil.com/a", False, True),
        ("//evil.com/a", False, True),
        ("evil.com", False, True),
        ("https://evil.com/a%00.x", False, True),
        ("https://ev\u00adil.com/a", False, True),
        ("https:///evil.com/a", False, True),
        ("https://evil.com", False, True),
    ],
)
def test_addresses_are_read_as_a_client_reads_them(address: str, allowed: bool, denied: bool):
    allow, deny = 'fetch(address: "https://docs.example.org/**")', 'fetch(address: "https://evil.com/**")'
    assert decision({"allow": [allow]}, "fetch", address=address) == ("allow" if allowed else "ask")
    assert decision({"mode": "allow", "deny": [deny]}, "fetch", address=address) == ("deny" if denied else "allow")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://a.example.org/x", "allow"),
        ("https://a.example.org:8443/x", "ask"),
        ("https://evil.com;.example.org/x", "ask"),
        ("https://evil.com:80.example.org/x", "ask"),
        ("https://evil.com\\.example.org/x", "ask"),
        ("https:///a.example.org/x", "ask"),
        ("https:/a.example.org/x", "ask"),
        ("https://a.example.org/x\n", "ask"),
        ("https://evil.com/?.example.org/x", "ask"),
        ("https://evil.com#.example.org/x", "ask"),
        ("xhttps://a.example.org/x", "ask"),
    ],
)
def test_a_wildcard_in_a_host_stands_for_names_of_hosts(address: str, expected: str):
    assert decision({"allow": ['fetch(address: "https://*.example.org/**")']}, "fetch", address=address) == expected


# patterns


@given(pattern=st.text(alphabet="ab*", max_size=8), text=st.text(alphabet="ab", max_size=10))
def test_a_star_stands_for_any_text(pattern: str, text: str):
    import re

    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert fits(pattern, text) is expected


@given(
    pattern=st.lists(st.sampled_from(["a", "b", "*", "**"]), max_size=5),
    parts=st.lists(st.sampled_from(["a", "b"]), max_size=6),
)
def test_two_stars_stand_for_any_parts_of_a_path(pattern: list[str], parts: list[str]):
    def check(wanted: list[str], found: list[str]) -> bool:
        if not wanted:
            return not found
        if wanted[0] == "**":
            least = 1 if len(wanted) == 1 else 0
            return any(check(wanted[1:], found[count:]) for count in range(least, len(found) + 1))
        return bool(found) and wanted[0] in {"*", found[0]} and check(wanted[1:], found[1:])

    assert path_fits(pattern, parts) is check(pattern, parts)


def test_a_pattern_with_many_stars_takes_no_longer_than_the_text():
    assert not fits("*a" * 50 + "b", "a" * 200_000)
