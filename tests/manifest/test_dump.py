"""A toolkit is written as a manifest, which makes an equal toolkit again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ahvn_tools import ToolContext, Toolkit, ToolSpec, manifest, middleware
from ahvn_tools.code_mode import CodeLimits
from ahvn_tools.errors import ToolkitError
from ahvn_tools.loading.yaml_file import read_yaml
from ahvn_tools.manifest.dumping.yaml_text import to_yaml
from ahvn_tools.mcp.trust.limits import Limits
from tests.manifest import shelf

CANARY = "canary-57c1e0a2-with-more-than-16-characters"

CODE = "def twice(number: int) -> int:\n    '''Double a number: ${no} variable.'''\n    return 2 * number\n"


def facts(kit: Toolkit) -> dict[str, Any]:
    """Return what a host and its models see of a toolkit."""
    entries = kit._view.store.entries
    return {
        "name": kit.name,
        "definitions": [definition.fingerprint for definition in kit.definitions()],
        "names": [tool.name for tool in kit],
        "groups": {name: (kit.group(name).description, kit.group(name).notes, on) for name, on in kit.groups.items()},
        "toolsets": {
            name: (view.description, [tool.name for tool in kit.select(toolset=name, inactive=True)])
            for name, view in kit.toolsets.items()
        },
        "binds": {tool.name: dict(tool.binds) for tool in kit},
        "secret": sorted(name for name, binding in kit._view.store.bindings.items() if binding.is_secret),
        "labels": {
            name: (entry.group, entry.tags, entry.audience, entry.requires_approval, repr(entry.exclusive))
            for name, entry in entries.items()
        },
        "timeouts": {tool.name: tool.timeout for tool in kit},
        "limits": {name: entry.settings for name, entry in entries.items()},
        "preset": {
            name: {key: binding.default_value() for key, binding in entry.preset.items()}
            for name, entry in entries.items()
        },
        "middleware": [len(kit._view.store.middleware), *(len(entry.option_middleware) for entry in entries.values())],
        "settings": (kit.max_concurrency, kit._view.store.masks_errors, kit._view.store.timeout),
        "check": sorted(map(str, kit.check())),
    }


def round_trip(kit: Toolkit, folder: Path) -> str:
    """Dump, load and dump again, and check that all of it is equal. Return the text."""
    file = folder / "dumped.yaml"
    text = manifest.dump(kit, file)
    assert file.read_text(encoding="utf-8") == text
    loaded = manifest.load(str(file))
    try:
        assert facts(loaded) == facts(kit)
        assert manifest.dump(loaded, file) == text
    finally:
        for name in list(loaded.servers):
            loaded.remove_mcp(name)
    return text


def test_a_toolkit_that_was_built_in_code_is_written_by_import_paths(tmp_path):
    kit = Toolkit(
        "notes",
        timeout=20,
        max_concurrency=3,
        mask_errors=False,
        approver=shelf.approve_all,
        middleware=[middleware.log("notes", 10), shelf.audit, middleware.truncate(500)],
    )
    kit.add(shelf.find, requires_approval=True)
    kit.add(shelf.write, rename="put_down", description="Write ${it} down.", group="write", audience={"b", "a"})
    kit.add(shelf.Shelf(), prefix="shelf_", tags=["furniture"], timeout=3, exclusive="item")
    kit.add(shelf.large_box, middleware=[middleware.limit(per_second=3)], max_items=7)
    kit.add(shelf.later, arguments={"later": {"text": {"name": "note", "description": "The note."}}})
    kit.add(ToolSpec.from_code(CODE))
    kit.add(shelf.remind, preset={"day": "2026-01-02", "text": "1e5"})
    kit.add_group("write", "Writing.", notes="Be careful.\nAsk first.").add_group("empty")
    kit.add_toolset("reading", "Reads.", tags=["read"]).add_toolset("both", any_of=["reading", {"names": ["twice"]}])
    kit.add_toolset("listed", names=["twice", "find"], ordered=True)
    kit.bind("user", "session.user").bind("token", secret=True).tag("shelf_take_item", "rare")
    kit["shelf_put"].bind("user", "who")
    kit.add(kit.groups_tool()).add_search(["find"], search_tool={"name": "look_up"})
    assert round_trip(kit, tmp_path) == snapshot("""\
name: notes
sources:
  - module: tests.manifest.shelf:find
    requires_approval: true
  - module: tests.manifest.shelf:write
    rename:
      write: put_down
    group: write
    audience: [a, b]
  - module: tests.manifest.shelf:Shelf
    rename:
      put: shelf_put
      take_item: shelf_take_item
    timeout: 3
    exclusive: item
  - module: tests.manifest.shelf:large_box
    middleware:
      - limit:
          per_second: 3
    max_items: 7
  - module: tests.manifest.shelf:write
    rename:
      write: later
  - code: |
      def twice(number: int) -> int:
          '''Double a number: ${no} variable.'''
          return 2 * number
  - module: tests.manifest.shelf:remind
tools:
  put_down:
    description: Write $${it} down.
  shelf_put:
    tags: [furniture]
    binds:
      user: who
  shelf_take_item:
    tags: [furniture, rare]
  later:
    description: Write it later.
    arguments:
      text:
        name: note
        description: The note.
  remind:
    preset:
      day: '2026-01-02'
      text: '1e5'
groups:
  write:
    description: Writing.
    notes: |-
      Be careful.
      Ask first.
  empty: {}
toolsets:
  reading:
    description: Reads.
    tags: [read]
  both:
    any_of:
      - reading
      - tools: [twice]
  listed:
    tools: [twice, find]
    ordered: true
binds:
  user: session.user
  token:
    key: token
    secret: true
on_duplicate: raise
timeout: 20
max_concurrency: 3
mask_errors: false
approval:
  approver: tests.manifest.shelf:approve_all
middleware:
  - log:
      logger: notes
      level: debug
  - tests.manifest.shelf:audit
  - truncate:
      max_chars: 500
groups_tool: true
search:
  core: [find]
  search_tool:
    name: look_up
""")


def test_a_tool_of_a_file_is_written_by_its_path(folder):
    import notes

    kit = Toolkit("k").add(notes.find).add(notes._Archive())
    assert round_trip(kit, folder) == snapshot("""\
name: k
sources:
  - path: notes.py:find
  - path: notes.py:_Archive
on_duplicate: raise
""")


def test_tools_without_a_function_are_written_by_their_names_in_a_module(tmp_path):
    kit = Toolkit("k").add(shelf.user_page, rename="page", description="Read it.", tags=["read"])
    kit.add(*shelf.pages.values(), timeout=3).add(shelf.pages["list_news"], prefix="more_")
    kit.add(shelf.large_box).add(shelf.large_box, prefix="second_")
    assert round_trip(kit, tmp_path) == snapshot("""\
name: k
sources:
  - module: tests.manifest.shelf:user_page
    rename:
      user_page: page
    tags: [read]
  - module: tests.manifest.shelf:pages
    timeout: 3
  - module: tests.manifest.shelf:pages
    include: [list_news]
    rename:
      list_news: more_list_news
  - module: tests.manifest.shelf:large_box
  - module: tests.manifest.shelf:large_box
    rename:
      open_box: second_open_box
tools:
  page:
    description: Read it.
on_duplicate: raise
""")
    with pytest.raises(ToolkitError, match="assign it to a name at the top level of a module"):
        manifest.dump(Toolkit("k").add(ToolSpec.from_http("a", "https://notes.example")))


def test_tools_of_code_are_written_as_code(tmp_path):
    code = CODE + "\n\ndef thrice(number: int) -> int:\n    '''Treble.'''\n    return 3 * number\n"
    kit = Toolkit("k").add(ToolSpec.from_code(code, "thrice", name="three_times"))
    assert "include: [thrice]" in round_trip(kit, tmp_path)
    text = round_trip(manifest.load(code).tag("twice", "even"), tmp_path)
    assert ("path:" in text, text.count("code:")) == (False, 2)
    with pytest.raises(ToolkitError, match="its code uses 'factor' of `env`"):
        used = "def f(number: int) -> int:\n    '''F.'''\n    return factor * number\n"
        manifest.dump(Toolkit("k").add(ToolSpec.from_code(used, env={"factor": 3})))


def test_a_manifest_is_not_written_through_a_link(tmp_path):
    (tmp_path / "toolkit.yaml").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="It is a link"):
        manifest.dump(Toolkit("empty"), tmp_path / "toolkit.yaml")
    assert not (tmp_path / "other").exists()


def test_an_empty_toolkit_can_be_written(tmp_path):
    assert round_trip(Toolkit("empty"), tmp_path) == snapshot("""\
name: empty
on_duplicate: raise
""")


UNWRITABLE = {
    "lambda": lambda kit: kit.add(lambda a: a, name="anonymous", description="A."),
    "local function": lambda kit: kit.add(_local()),
    "class with arguments": lambda kit: kit.add(shelf.Box(4)),
    "preset": lambda kit: kit.add(shelf.write, preset={"token": CANARY}),
    "resolver": lambda kit: kit.add(shelf.write).bind("token", resolver=lambda: CANARY),
    "own resolver": lambda kit: kit.add(shelf.write)["write"].bind("token", resolver=lambda: CANARY),
    "approval": lambda kit: kit.add(shelf.find, requires_approval=shelf.is_long),
    "exclusive": lambda kit: kit.add(shelf.find, exclusive=lambda arguments: 1),
    "postprocess": lambda kit: kit.add(shelf.find, postprocess=lambda call, result: None),
    "middleware": lambda kit: kit.use(middleware.log(print)),
    "secret of middleware": lambda kit: kit.use(middleware.record("calls.jsonl", secret_key=CANARY)),
    "lost tag": lambda kit: kit.add(shelf.find).untag("find", "read"),
    "function of a toolset": lambda kit: kit.add(shelf.find).add_toolset("t", where=bool),
    "option of a definition": lambda kit: kit.add(shelf.write, output="raw", name="raw_write"),
    "search": lambda kit: kit.add(shelf.find).add_search(rank=lambda query, tools: []),
    "sandbox": lambda kit: kit.add(shelf.find).add_code_mode(sandbox=shelf.NoSandbox()),
    "pattern": lambda kit: kit.add(shelf.find, rename="find[1]"),
    "other toolkit": lambda kit: kit.add(Toolkit("inner").add(shelf.find)),
}


def _local() -> Any:
    def inner(text: str) -> str:
        """Inner."""
        return text

    return inner


@pytest.mark.parametrize("roots", [None, [], ["."], ["sub"]])
def test_roots_are_written_and_loaded(tmp_path, roots):
    (tmp_path / "sub").mkdir()
    folders = None if roots is None else [tmp_path / root for root in roots]
    text = round_trip(Toolkit("kit", roots=folders), tmp_path)
    assert ("roots" in text) == (roots is not None)
    loaded = manifest.load(tmp_path / "dumped.yaml")

    @loaded.tool
    def look(context: ToolContext) -> str:
        return f"{[root.relative_to(tmp_path).as_posix() for root in context.roots]} {context.forbids_files}"

    assert loaded.call("look") == f"{roots or []} {roots == []}"


def test_a_root_that_is_a_link_is_written_as_the_host_named_it(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    assert "roots: [link]" in round_trip(Toolkit("kit", roots=tmp_path / "link"), tmp_path)


def test_no_limit_is_written_and_loaded(tmp_path):
    kit = Toolkit("k", approval_expiry=None)
    kit.add(shelf.Shelf()).add(shelf.find, max_items=None, max_bytes=None).add(shelf.large_box, max_items=None)
    kit._view.store.entries["take_item"].settings["max_items"] = None
    round_trip(kit, tmp_path)
    again = manifest.load(str(tmp_path / "dumped.yaml"))
    assert again._view.store.approval_expiry is None
    limits = {name: entry.settings for name, entry in again._view.store.entries.items()}
    no_items = {"max_items": None}
    assert limits == {"put": {}, "take_item": no_items, "find": {**no_items, "max_bytes": None}, "open_box": no_items}


@pytest.mark.parametrize("callers", [["direct"], ["direct", "programmatic"]], ids=["one", "both"])
def test_who_may_call_a_tool_is_written_and_loaded(tmp_path, callers):
    kit = Toolkit("kit").add(shelf.find, allowed_callers=callers).add(shelf.write)
    assert "allowed_callers" in round_trip(kit, tmp_path)
    loaded = manifest.load(tmp_path / "dumped.yaml")
    assert [entry.allowed_callers for entry in loaded._view.store.entries.values()] == [frozenset(callers), None]


def test_how_clients_may_call_a_tool_is_written_and_loaded(tmp_path):
    kit = Toolkit("k").add(shelf.find, task="optional").add(shelf.large_box, task="required").add(shelf.Shelf())
    round_trip(kit, tmp_path)
    again = manifest.load(str(tmp_path / "dumped.yaml"))
    modes = {name: entry.task for name, entry in again._view.store.entries.items()}
    assert modes == {"find": "optional", "open_box": "required", "put": None, "take_item": None}


@pytest.mark.parametrize("build", UNWRITABLE.values(), ids=UNWRITABLE)
def test_what_cannot_be_written_is_an_error_that_names_it_and_the_fix(build, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kit = Toolkit("k")
    build(kit)
    with pytest.raises(ToolkitError) as error:
        manifest.dump(kit, tmp_path / "kit.yaml")
    assert not (tmp_path / "kit.yaml").exists()
    assert CANARY not in str(error.value)
    lines = str(error.value).splitlines()
    assert lines[0] == "The toolkit 'k' cannot be written as a manifest:"
    assert [line[:2] for line in lines[1:]] == ["- "] * (len(lines) - 1)
    assert ": " in lines[1]


def test_all_problems_are_in_one_message(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kit = Toolkit("k", approver=lambda request: True, secret_key=CANARY, approval_expiry=None, middleware=[_audit()])
    kit.add(lambda a: a, name="anonymous", description="A.").add(shelf.Box(4)).add(_local())
    kit.bind("a", resolver=lambda: CANARY).add_toolset("t", where=bool)
    with pytest.raises(ToolkitError) as error:
        manifest.dump(kit)
    assert str(error.value) == snapshot("""\
The toolkit 'k' cannot be written as a manifest:
- the tool 'anonymous': a lambda has no import path: define the function at the top level of a module
- the tool 'open_box': 'Box' is made with arguments: assign the instance to a name in 'tests.manifest.shelf'
- the tool 'inner': a function inside another one has no import path: define the function at the top level of a module
- the toolset 't': its `where` is a function: select by names, tags or groups
- the binding of 'a': it has a resolver, which is a function: bind it to a state key
- the approver: it has no import path: define it at the top level of a module
- the `secret_key` of the toolkit: it is a secret: load the manifest with approval: {secret_key: ${VARIABLE}}
- the toolkit's middleware: '_audit.<locals>.audit': it has no import path: define it at the top level of a module\
""")


def _audit() -> Any:
    async def audit(call, next):
        return await next(call)

    return audit


def test_no_state_default_or_secret_is_written(tmp_path):
    kit = Toolkit("k", state={"user": CANARY}).add(shelf.find).add(shelf.write)
    kit.bind("user", default=CANARY).bind("token", default=CANARY, secret=True)
    kit["write"].bind("user", "who", default=CANARY)
    text = manifest.dump(kit, tmp_path / "kit.yaml")
    assert CANARY not in text
    loaded = manifest.load(str(tmp_path / "kit.yaml"))
    assert dict(loaded["write"].binds) == {"user": "who", "token": "token"}
    assert loaded.state == {}


def test_a_failed_dump_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "kit.yaml"
    manifest.dump(Toolkit("k").add(shelf.find), file)
    before = file.read_text()
    with pytest.raises(ToolkitError):
        manifest.dump(Toolkit("k").add(lambda a: a, name="anonymous"), file)
    assert file.read_text() == before
    file.chmod(0o640)
    manifest.dump(Toolkit("other").add(shelf.find), str(file))
    assert (file.stat().st_mode & 0o777, "other" in file.read_text()) == (0o640, True)
    assert [path.name for path in tmp_path.glob("*.yaml*")] == ["kit.yaml"]
    with pytest.raises(OSError, match="missing"):
        manifest.dump(Toolkit("k"), tmp_path / "missing" / "kit.yaml")


def test_a_view_cannot_be_dumped():
    kit = Toolkit("k").add(shelf.find)
    for view in (kit.session(), kit.select(names=["find"])):
        with pytest.raises(ToolkitError, match="dump the toolkit itself"):
            manifest.dump(view)


LOADED = """\
# a comment
sources:
- notes.py
- {module: 'tests.manifest.shelf:Shelf', prefix: s_, include: [put]}
- module: tests.manifest.shelf:write
  presets:
    write: {token: '${NOTES_TOKEN}'}
groups:
  rare: Rare tools.
tools:
  'del*': {group: rare, tags: [danger]}
toolsets:
  all: [find, delete]
agents:
  ann: {tools: [delete, find], tool_sets: [all]}
binds:
  user: {key: session.user, default: nobody}
middleware: [trace, {retry: {attempts: '${ATTEMPTS:4}'}}, 'notes:shout']
profiles:
  prod: {timeout: 9}
"""

CHANGES = {
    "name": lambda kit: setattr(kit, "name", "other"),
    "added tool": lambda kit: kit.add(shelf.find, rename="find_more", tags=["x"]),
    "replaced tool": lambda kit: kit.add(shelf.remind, rename="find", on_duplicate="replace"),
    "code": lambda kit: kit.add(ToolSpec.from_code(CODE)),
    "removed tool": lambda kit: kit.remove("find"),
    "tag": lambda kit: kit.tag(["find", "delete"], "new", "danger"),
    "tagged and untagged": lambda kit: kit.tag("delete", "new").untag("delete", "new"),
    "bind": lambda kit: kit.bind("limit", "limits.notes").bind("user", "who"),
    "unbind": lambda kit: kit.unbind("user"),
    "own bind": lambda kit: kit["find"].bind("limit", "my.limit"),
    "secret": lambda kit: kit.bind("note", secret=True),
    "group": lambda kit: kit.add_group("rare", "More rare.", active=True).add_group("new", "New.", notes="N."),
    "activated": lambda kit: kit.activate("rare"),
    "removed group": lambda kit: kit.remove_group("rare"),
    "toolset": lambda kit: kit.add_toolset("all", tags=["danger"]).add_toolset("new", names=["find"]),
    "agent": lambda kit: kit.add_toolset("ann", any_of=[{"names": ["find"]}, "all"], ordered=True),
    "agent as a toolset": lambda kit: kit.add_toolset("ann", groups=["rare"]),
    "middleware": lambda kit: kit.use(middleware.limit(per_run=3)),
    "concurrency": lambda kit: setattr(kit, "max_concurrency", 2),
    "search": lambda kit: kit.add(kit.groups_tool()).add_search(["find"]),
    "code mode": lambda kit: add_code_mode(kit, ["find"], limits=CodeLimits(calls=3), run_tool={"name": "python"}),
    "inline code mode": lambda kit: add_code_mode(kit, inline=True, run_tool={"description": "Run it."}),
}


@pytest.fixture
def loaded(folder, monkeypatch) -> Toolkit:
    monkeypatch.setenv("NOTES_TOKEN", CANARY)
    (folder / "kit.yaml").write_text(LOADED)
    return manifest.load("kit.yaml")


def add_code_mode(kit: Toolkit, *core: Any, **options: Any) -> Toolkit:
    pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")
    return kit.add_code_mode(*core, **options)


def test_the_limits_of_programs_are_written(folder):
    kit = add_code_mode(Toolkit("k").add(shelf.find), limits=CodeLimits(calls=3))
    assert "code_mode:\n  limits:\n    calls: 3\n" in manifest.dump(kit, folder / "kit.yaml")


def reload(kit: Toolkit, folder: Path) -> Toolkit:
    """Dump a toolkit that was loaded, and load that."""
    text = manifest.dump(kit, folder / "again.yaml")
    assert CANARY not in text
    again = manifest.load("again.yaml", name=kit.name)
    assert manifest.dump(again) == text or kit.name not in text
    return again


def test_a_loaded_toolkit_is_written_as_its_manifest(loaded, folder):
    text = manifest.dump(loaded)
    assert text == snapshot("""\
sources:
  - notes.py
  - module: tests.manifest.shelf:Shelf
    prefix: s_
    include: [put]
  - module: tests.manifest.shelf:write
    presets:
      write:
        token: ${NOTES_TOKEN}
groups:
  rare: Rare tools.
tools:
  del*:
    group: rare
    tags: [danger]
toolsets:
  all: [find, delete]
agents:
  ann:
    tools: [delete, find]
    tool_sets: [all]
binds:
  user:
    key: session.user
    default: nobody
middleware:
  - trace
  - retry:
      attempts: ${ATTEMPTS:4}
  - notes:shout
profiles:
  prod:
    timeout: 9
""")
    assert facts(reload(loaded, folder)) == facts(loaded)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.default_cases(10)
def test_what_has_changed_since_a_toolkit_was_loaded_is_written(loaded, folder, change):
    change(loaded)
    assert facts(reload(loaded, folder)) == facts(loaded)


def test_all_changes_together_are_written(loaded, folder):
    for name, change in CHANGES.items():
        if name not in {"removed group", "removed tool", "replaced tool", "code mode", "inline code mode"}:
            change(loaded)
    assert facts(reload(loaded, folder)) == facts(loaded)
    assert manifest.dump(loaded) == snapshot("""\
sources:
  - notes.py
  - module: tests.manifest.shelf:Shelf
    prefix: s_
    include: [put]
  - module: tests.manifest.shelf:write
    presets:
      write:
        token: ${NOTES_TOKEN}
  - module: tests.manifest.shelf:find
    rename:
      find: find_more
    tags: [x]
  - code: |
      def twice(number: int) -> int:
          '''Double a number: ${no} variable.'''
          return 2 * number
groups:
  rare:
    description: More rare.
    active: true
  new:
    description: New.
    notes: N.
tools:
  del*:
    group: rare
    tags: [danger]
  find:
    tags: [danger, new]
    binds:
      limit: my.limit
toolsets:
  all:
    tags: [danger]
  ann:
    groups: [rare]
  new:
    tools: [find]
binds:
  limit: limits.notes
  note:
    key: note
    secret: true
middleware:
  - trace
  - retry:
      attempts: ${ATTEMPTS:4}
  - notes:shout
  - limit:
      per_run: 3
profiles:
  prod:
    timeout: 9
name: other
groups_tool: true
search:
  core: [find]
max_concurrency: 2
""")


def test_the_audiences_are_written_with_a_profile(folder):
    (folder / "a.yaml").write_text(
        "sources: [notes.py]\nprofiles: {prod: {timeout: 9}}\naudiences: {guest: {tools: {delete: {enabled: false}}}}"
    )
    manifest.dump(manifest.load("a.yaml", profile="prod"), "b.yaml")
    assert "delete" not in [tool.name for tool in manifest.load("b.yaml", audience="guest")]


def test_the_manifest_of_a_profile_is_written_with_it(loaded, folder):
    kit = manifest.load("kit.yaml", profile="prod").bind("limit")
    text = manifest.dump(kit)
    assert ("timeout: 9" in text, "profiles" in text) == (True, False)
    assert ("timeout: 9" in manifest.dump(loaded), "profiles" in manifest.dump(loaded)) == (True, True)
    assert facts(reload(kit, folder)) == facts(kit)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda kit: kit.untag("find", "read"), "the tool 'find': its tag 'read' was removed here"),
        (lambda kit: kit.untag("delete", "danger"), "the tool 'delete': its tag 'danger' was removed here"),
        (lambda kit: kit.add(lambda a: a, name="anonymous"), "the tool 'anonymous': a lambda has no import path"),
        (lambda kit: kit.use(middleware.log(print)), "the toolkit's middleware: "),
        (lambda kit: kit.bind("limit", resolver=lambda: 1), "the binding of 'limit': it has a resolver"),
    ],
)
def test_a_change_that_cannot_be_written_is_an_error(loaded, change, message):
    change(loaded)
    with pytest.raises(ToolkitError) as error:
        manifest.dump(loaded)
    assert f"\n- {message}" in str(error.value)


def test_a_manifest_stays_in_its_folder(loaded, folder):
    (folder / "other").mkdir()
    with pytest.raises(ToolkitError, match="dump it in"):
        manifest.dump(loaded, folder / "other" / "kit.yaml")


def test_a_toolkit_of_one_audience_is_not_written(folder):
    (folder / "kit.yaml").write_text("sources: [notes.py]\naudiences: {admin: {timeout: 3}}\n")
    with pytest.raises(ToolkitError, match="it was loaded for the audience 'admin'"):
        manifest.dump(manifest.load("kit.yaml", audience="admin"))


SERVER = """
from fastmcp import FastMCP

server = FastMCP("notes")


@server.tool
def find(query: str, user: str = "nobody", token: str = "") -> str:
    '''Find a note.'''
    return f"{user}: {query}"


@server.tool
def write(text: str) -> str:
    '''Write a note.'''
    return text


server.run(show_banner=False)
"""


@pytest.mark.exhaustive
def test_a_server_is_written_without_its_credentials(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES_TOKEN", CANARY)
    (tmp_path / "server.py").write_text(SERVER)
    command = [sys.executable, str(tmp_path / "server.py")]
    kit = Toolkit("k").add(shelf.find, rename="own")
    env = {"NOTES_TOKEN": CANARY}
    options: Any = {"tags": ["remote"], "rename": {"write": "put"}, "preset": {"*": {"user": "x"}}, "binds": ["token"]}
    kit.add_mcp(command, name="notes", prefix="n_", env=env, limits=Limits(connect=50), **options)
    kit.tag("n_find", "new").bind("token", secret=True)["n_put"].bind("text", "the.text")
    text = round_trip(kit, tmp_path)
    assert CANARY not in text
    assert "NOTES_TOKEN: ${NOTES_TOKEN}" in text
    loaded = manifest.load(str(tmp_path / "dumped.yaml"))
    loaded.remove("n_put").add_mcp(command, name="more", prefix="m_")
    again = manifest.dump(loaded, tmp_path / "again.yaml")
    assert CANARY not in again
    last = manifest.load(str(tmp_path / "again.yaml"))
    assert {**facts(last), "check": []} == {**facts(loaded), "check": []}
    for one in (kit, loaded, last):
        for name in list(one.servers):
            one.remove_mcp(name)


def add_unreached(kit: Toolkit, server: Any, **options: Any) -> Toolkit:
    """Add a server as `add_mcp` does, without a connection."""
    from ahvn_tools.toolkit.imported_server import to_imported_servers

    store = kit._view.store
    for imported in to_imported_servers(store, server, None, options.pop("timeout", 30), options):
        store.imported_servers[imported.server.name] = imported
    return kit


URL = "https://notes.example/mcp"


def mcp_json(**entry: Any) -> dict[str, Any]:
    return {"mcpServers": {"a": entry}}


@pytest.mark.parametrize(
    ("server", "options", "expected"),
    [
        (URL, {"auth": CANARY}, {"server": URL, "auth": "${TOKEN}"}),
        (URL, {"auth": "oauth", "timeout": 5}, {"timeout": 5, "auth": "oauth"}),
        (URL, {"auth": {"X-Auth": f"Bearer {CANARY}"}}, {"auth": {"X-Auth": "Bearer ${TOKEN}"}}),
        ("npx notes --all", {"env": {"TOKEN": CANARY}}, {"server": "npx notes --all", "env": {"TOKEN": "${TOKEN}"}}),
        (URL, {"mode": "legacy", "idle_timeout": 5}, {"mode": "legacy", "idle_timeout": 5}),
        (URL, {"resource_tool": "read"}, {"server": URL, "resource_tool": "read"}),
        (URL, {"prompts": False}, {"server": URL, "prompts": False}),
        (["npx", "${HOME}"], {"idempotent": ["find"]}, {"server": ["npx", "$${HOME}"], "idempotent": ["find"]}),
        (
            mcp_json(command="npx", args=["a"], env={"T": "${env:TOKEN}", "K": CANARY}),
            {"include": "find", "tags": {"b", "a"}},
            {
                "server": mcp_json(command="npx", args=["a"], env={"T": "$${env:TOKEN}", "K": "${TOKEN}"}),
                "include": ["find"],
                "tags": ["a", "b"],
            },
        ),
        (mcp_json(url=URL), {"exclude": ["x"], "on_duplicate": "rename"}, {"exclude": ["x"], "on_duplicate": "rename"}),
        (mcp_json(url=URL), {"pin": "pins.json", "limits": Limits(connect=3)}, {"limits": {"connect": 3}}),
    ],
)
def test_the_target_and_the_options_of_a_server_are_written(server, options, expected, folder, monkeypatch):
    monkeypatch.setenv("TOKEN", CANARY)
    text = manifest.dump(add_unreached(Toolkit("k"), server, **options))
    assert CANARY not in text
    [source] = read_yaml(text).value["sources"]
    assert {key: source[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("server", "options"),
    [
        ("https://notes.example/mcp", {"auth": CANARY}),
        ("https://notes.example/mcp", {"auth": lambda state: CANARY}),
        ("https://notes.example/mcp", {"auth": {"X-Key": CANARY}}),
        (f"https://ann:{CANARY}@notes.example/mcp", {}),
        (f"https://notes.example/mcp?api_key={CANARY}", {}),
        ("npx notes", {"env": {"TOKEN": CANARY}}),
        ({"mcpServers": {"a": {"url": "https://a.example", "headers": {"Authorization": CANARY}}}}, {}),
        ("npx notes", {"on_change": print}),
        ("npx notes", {"postprocess": print}),
        ("npx notes", {"requires_approval": shelf.is_long}),
    ],
)  # fmt: skip
def test_a_credential_or_function_of_a_server_is_an_error_without_its_value(server, options, folder):
    kit = add_unreached(Toolkit("k"), server, **options)
    with pytest.raises(ToolkitError, match="- the MCP server ") as error:
        manifest.dump(kit)
    assert CANARY not in str(error.value)


def test_a_tool_of_a_toolkit_with_servers_cannot_be_written():
    inner = add_unreached(Toolkit("inner").add(shelf.find), URL)
    inner._view.store.entries["find"].server_name = "notes.example"
    with pytest.raises(ToolkitError, match="the tool 'find': it belongs to another toolkit"):
        manifest.dump(Toolkit("k").add(inner))


def test_a_server_object_cannot_be_written():
    from fastmcp import FastMCP

    with pytest.raises(ToolkitError, match="a FastMCP is in this process only: pass its URL"):
        manifest.dump(add_unreached(Toolkit("k"), FastMCP("notes")))


NAMES = st.text("abc_", min_size=1, max_size=6).filter(str.isidentifier)
TEXTS = st.text(max_size=30)
TOOLS = [shelf.find, shelf.write, shelf.remind, shelf.Shelf, shelf.large_box, shelf.later, CODE]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "1", "null"]), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def toolkits(draw: st.DrawFn) -> Toolkit:
    """Return a toolkit that was built in code from tools with an import path."""
    kit = Toolkit(draw(TEXTS.filter(bool)), timeout=draw(st.none() | st.integers(1, 9)), on_duplicate="rename")
    tags, groups = st.lists(NAMES, max_size=2), st.sampled_from(["basic", "one", "two"])
    defined = draw(st.lists(NAMES, max_size=2))
    for name in [*defined, "one", "two"] if defined else ():
        kit.add_group(name, draw(TEXTS), active=draw(st.booleans()), notes=draw(st.none() | TEXTS))
    for thing in draw(st.lists(st.sampled_from(TOOLS), max_size=5, unique_by=str)):
        options: dict[str, Any] = {"tags": draw(tags), "group": draw(groups), "audience": draw(tags)}
        if draw(st.booleans()):
            options |= {"timeout": draw(st.floats(0.5, 5)), "requires_approval": draw(st.booleans())}
        if thing in (shelf.find, shelf.remind) and draw(st.booleans()):
            options |= {"description": draw(TEXTS), "rename": draw(NAMES)}
            options["preset"] = {"query" if thing is shelf.find else "text": draw(TEXTS)}
        tool = ToolSpec.from_code(CODE) if thing is CODE else thing() if thing is shelf.Shelf else thing
        kit.add(tool, **options)
    names = [tool.name for tool in kit]
    for name in draw(st.lists(NAMES, max_size=2)):
        chosen = draw(st.lists(st.sampled_from([*names, "unknown"]), max_size=4))
        selection = draw(st.sampled_from([{"names": chosen}, {"any_of": [{"names": chosen}]}, {"tags": ["a"]}, {}]))
        kit.add_toolset(name, draw(TEXTS), ordered=draw(st.booleans()), **selection)
    for name in draw(st.lists(st.sampled_from(["user", "token", "unknown"]), max_size=2)):
        kit.bind(name, draw(NAMES), secret=draw(st.booleans()))
    return kit


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(kit=toolkits())
def test_a_toolkit_that_is_written_and_loaded_is_equal(kit, tmp_path):
    round_trip(kit, tmp_path)


@example(data={"0": "a\x85\r\u2028", "1e5": "1e5", "~": "0o17", "a": "<<", "b": " x\n  y \n"})
@given(data=st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=4))
def test_any_data_is_read_as_it_was_written(data):
    assert read_yaml(to_yaml(data)).value == data
