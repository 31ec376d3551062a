"""A lock file has what models see of tools, always in the same text, and a file that was changed is refused."""

from __future__ import annotations

import json
import stat

import pytest

from ahvn_tools import ToolDefinition, Toolkit, definition_lock
from ahvn_tools.errors import SourceError

FIND = ToolDefinition(
    name="find",
    title="Find",
    description="Find ä \u202e note.",
    input_schema={"type": "object", "properties": {"b": {"type": "string"}, "a": {"default": 1}}},
    output_schema={"type": "object"},
    tags=frozenset({"y", "x"}),
    annotations={"readOnlyHint": True},
    examples=[{"inputs": {"a": 1}}],
    meta={"k": None},
    version="1",
    returns="A note.",
)
WRITE = ToolDefinition(name="write")


@pytest.fixture
def lock(tmp_path):
    file = tmp_path / "tools.lock"
    definition_lock.write(file, [FIND, WRITE])
    return file


def change(file, edit):
    data = json.loads(file.read_text())
    edit(data)
    file.write_text(json.dumps(data))


def test_definitions_are_the_same_after_a_round_trip(lock):
    assert definition_lock.read(lock) == [FIND, WRITE]


def test_the_text_depends_on_the_definitions_alone(lock):
    assert definition_lock.to_text([WRITE, FIND]) == lock.read_text()
    assert lock.read_text().isascii()


def test_a_bound_value_is_not_in_the_file():
    kit = Toolkit("notes", state={"token": "s3cret-value"}).bind("token", secret=True)
    kit.tool(lambda query, token: query, name="find")
    text = definition_lock.to_text(kit.definitions())
    assert "s3cret" not in text
    assert "token" not in text


def test_the_file_is_replaced_as_a_whole_and_keeps_its_permissions(lock):
    lock.chmod(0o600)
    definition_lock.write(lock, [FIND])
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert list(lock.parent.iterdir()) == [lock]


def test_a_failed_write_leaves_the_file_and_no_other(lock, monkeypatch):
    def fail(self, target):
        raise OSError("no space")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="no space"):
        definition_lock.write(lock, [])
    assert definition_lock.read(lock) == [FIND, WRITE]
    assert list(lock.parent.iterdir()) == [lock]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda data: data["tools"]["find"]["definition"].update(description="Do it."), "does not fit its fingerprint"),
        (lambda data: data["tools"]["find"].update(fingerprint="0" * 64), "does not fit its fingerprint"),
        (lambda data: data["tools"].update(other=data["tools"]["find"]), "'other' has no definition"),
        (lambda data: data["tools"]["find"]["definition"].update(more=1), "'find' is malformed"),
        (lambda data: data["tools"]["find"]["definition"].update(input_schema=[1]), "'find' is malformed"),
        (lambda data: data["tools"]["find"]["definition"].update(description=5), "'find' is malformed"),
        (lambda data: data["tools"].update(find=None), "'find' has no definition"),
        (lambda data: data["tools"]["find"]["definition"].update(tags=[[]]), "'find' is malformed"),
        (lambda data: data["tools"]["find"]["definition"].update(tags=3), "'find' is malformed"),
        (lambda data: data.update(version=2), "its version is 2, not 1"),
        (lambda data: data.update(tools=[]), "does not contain pinned tools"),
    ],
)
def test_a_file_that_was_changed_is_refused(lock, edit, reason):
    change(lock, edit)
    with pytest.raises(SourceError, match=reason):
        definition_lock.read(lock)


@pytest.mark.parametrize("text", ["", "[]", "{", "\ufeff", "[" * 100_000, '{"version": 1, "version": 1}'])
def test_another_file_is_refused(lock, text):
    lock.write_text(text)
    with pytest.raises(SourceError, match=r"cannot be used: .*Restore it, or write it"):
        definition_lock.read(lock)


def test_a_file_that_is_missing_or_no_text_is_refused(lock):
    with pytest.raises(SourceError, match=r"there is no such file. Write it with `ahvn-tools pin`"):
        definition_lock.read(lock.with_name("other.lock"))
    lock.write_bytes(b"\xff")
    with pytest.raises(SourceError, match="cannot be read"):
        definition_lock.read(lock)


def test_a_lock_file_is_recognized(lock, tmp_path):
    assert definition_lock.is_lock_file(lock)
    other = tmp_path / "pins.json"
    other.write_text(lock.read_text())
    assert definition_lock.is_lock_file(other)
    other.write_text('{"tools": []}')
    assert not definition_lock.is_lock_file(other)
    other.write_text("{")
    assert not definition_lock.is_lock_file(other)
    assert not definition_lock.is_lock_file("tools.py")


def test_changes_are_breaking_or_compatible():
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"default": 1}}, "required": ["b"]}
    before = [FIND, WRITE, ToolDefinition(name="old")]
    after = [
        ToolDefinition(name="find", input_schema=schema, output_schema={"type": "object"}),
        ToolDefinition(name="write", description="Write.", returns="Nothing.", tags=frozenset("t"), version="2"),
        ToolDefinition(name="new"),
    ]
    changes = definition_lock.compare(before, after)
    assert (changes.added, changes.removed) == (("new",), ("old",))
    assert changes.breaking == {"find": ("parameter 'b' is required",)}
    assert changes.compatible == {
        "write": (
            "the description changed",
            "the tags changed",
            "the version changed",
            "the description of the result changed",
        )
    }
    assert not definition_lock.compare(before, before)


def test_a_lock_file_has_every_field_of_a_definition():
    assert set(definition_lock.FIELDS) == set(ToolDefinition.__dataclass_fields__)


def test_a_lock_file_is_not_written_through_a_link_and_is_no_device(tmp_path):
    (tmp_path / "tools.lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="It is a link"):
        definition_lock.write(tmp_path / "tools.lock", [])
    assert not (tmp_path / "other").exists()
    with pytest.raises(SourceError, match="it cannot be read"):
        definition_lock.read("/dev/zero")
