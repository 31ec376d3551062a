"""Pins: a tool that is not what it was is noticed, and pins that are lost are never made up again."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Tool

from ahvn_tools.errors import ToolkitError
from ahvn_tools.mcp.trust.pins import Pins

WIRE = {
    "name": "transfer",
    "title": "Transfer",
    "description": "Moves money.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "amount": {"type": "number", "description": "How much.", "default": 1},
            "kind": {"enum": ["now", "later"]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["amount"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object", "properties": {"id": {"type": "string", "description": "Which."}}},
    "annotations": {"readOnlyHint": False, "destructiveHint": True, "title": "Move"},
    "icons": [{"src": "https://example.com/i.png", "sizes": ["48x48"]}],
    "execution": {"taskSupport": "optional"},
    "_meta": {"fastmcp": {"tags": ["money"], "version": "1"}, "own": [1, 2.5, True, None]},
}


def mutants(value):
    """Yield all values that differ from a JSON value in one place."""
    if isinstance(value, dict):
        for name in value:
            yield {key: part for key, part in value.items() if key != name}
            yield {(f"{key}_" if key == name else key): part for key, part in value.items()}
            for mutant in mutants(value[name]):
                yield {**value, name: mutant}
        yield {**value, "new": None}
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield value[:i] + value[i + 1 :]
            yield from ([*value[:i], mutant, *value[i + 1 :]] for mutant in mutants(item))
        yield [*value, None]
        if len(value) > 1:
            yield value[::-1]
    elif isinstance(value, bool):
        yield not value
        yield int(value)
    elif isinstance(value, int | float):
        yield value + 1
        yield str(value)
    elif isinstance(value, str):
        yield value + "\u200b"
        yield value.swapcase() + " "
    else:
        yield False
        yield {}


def same_name(wires):
    return [wire for wire in wires if isinstance(wire, dict) and wire.get("name") == WIRE["name"]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tools.lock"


def test_what_is_first_seen_is_trusted_and_the_next_time_known(path):
    assert Pins(path).check("bank", [WIRE]) == {}
    assert Pins(path).check("bank", [WIRE]) == {}


def test_every_change_of_one_place_is_noticed_and_told_by_its_field(path):
    pins = Pins(path)
    pins.check("bank", [WIRE])
    found = same_name(mutants(WIRE))
    assert len(found) > 150
    for mutant in found:
        (field,) = [
            key
            for key in WIRE | mutant
            if json.dumps(WIRE.get(key)) != json.dumps(mutant.get(key)) or (key in WIRE) != (key in mutant)
        ][:1]
        changed = pins.check("bank", [mutant])
        assert field in changed["transfer"]
    assert pins.check("bank", [WIRE]) == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_two_values_of_a_field_have_one_fingerprint_when_they_are_one_value_alone(tmp_path_factory, before, after):
    pins = Pins(tmp_path_factory.mktemp("pins") / "p")
    pins.check("s", [{"name": "a", "_meta": before}])
    is_same = json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)
    assert (pins.check("s", [{"name": "a", "_meta": after}]) == {}) == is_same


def test_the_order_of_members_is_no_change(path):
    pins = Pins(path)
    pins.check("bank", [WIRE])
    assert pins.check("bank", [dict(reversed(WIRE.items()))]) == {}


def test_a_parsed_tool_has_the_pins_of_its_wire_object(path):
    pins = Pins(path)
    pins.check("bank", [WIRE])
    assert pins.check("bank", [Tool.model_validate(WIRE)]) == {}


def test_a_changed_tool_stays_changed_until_it_is_accepted(path):
    now = {**WIRE, "description": "Moves all money."}
    Pins(path).check("bank", [WIRE])
    assert Pins(path).check("bank", [now]) == {"transfer": "description"}
    assert Pins(path).check("bank", [now]) == {"transfer": "description"}
    Pins(path).accept("bank", [now])
    assert Pins(path).check("bank", [now]) == {}
    assert Pins(path).check("bank", [WIRE]) == {"transfer": "description"}


def test_a_new_tool_is_pinned_and_one_that_is_gone_stays_pinned(path):
    pins, other = Pins(path), {**WIRE, "name": "balance"}
    pins.check("bank", [WIRE])
    assert pins.check("bank", [other]) == {}
    assert pins.check("bank", [other, {**WIRE, "title": "Back again"}]) == {"transfer": "title"}


def test_servers_have_pins_of_their_own(path):
    pins = Pins(path)
    pins.check("bank", [WIRE])
    assert pins.check("other", [{**WIRE, "title": "x"}]) == {}
    assert pins.check("bank", [{**WIRE, "title": "x"}]) == {"transfer": "title"}


def test_what_is_forgotten_is_trusted_anew(path):
    pins, now = Pins(path), {**WIRE, "title": "x"}
    pins.check("bank", [WIRE, {**WIRE, "name": "balance"}])
    pins.forget("bank", ["balance", "unknown"])
    pins.forget("unknown", ["transfer"])
    pins.forget("unknown")
    assert pins.check("bank", [now, {**now, "name": "balance"}]) == {"transfer": "title"}
    pins.forget("bank")
    assert pins.check("bank", [{**now, "title": "y"}]) == {}


def test_of_two_tools_of_one_name_the_first_is_pinned(path):
    pins = Pins(path)
    pins.check("bank", [WIRE, {**WIRE, "title": "second"}])
    assert pins.check("bank", [WIRE]) == {}


@pytest.mark.parametrize("thing", ["add", 5, None, [1], {}, {"name": 5}, {"name": ["add"]}, object()])
def test_what_has_no_name_is_not_pinned_and_keeps_no_other_from_it(path, thing):
    assert Pins(path).check("bank", [thing, WIRE]) == {}
    assert list(json.loads(path.read_text())["servers"]["bank"]) == [WIRE["name"]]


def test_the_file_is_json_in_order_without_what_was_pinned(path):
    pins = Pins(path)
    pins.check("b", [{"name": "z", "description": "Zebra"}, {"name": "a"}])
    pins.check("a", [])
    data = json.loads(path.read_text())
    assert list(data["servers"]) == ["a", "b"]
    assert list(data["servers"]["b"]) == ["a", "z"]
    assert "Zebra" not in path.read_text()


def test_the_file_is_not_written_when_nothing_is_new(path):
    Pins(path).check("a", [WIRE])
    before = path.stat()
    Pins(path).check("a", [WIRE])
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_nothing_is_left_beside_the_file_but_its_lock(path):
    Pins(path).check("a", [WIRE])
    assert sorted(file.name for file in path.parent.iterdir()) == ["tools.lock", "tools.lock.lock"]


def test_a_file_that_cannot_be_written_stays_as_it_was(path, monkeypatch):
    pins = Pins(path)
    pins.check("a", [WIRE])
    before = path.read_bytes()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        pins.accept("a", [{**WIRE, "title": "x"}])
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["tools.lock", "tools.lock.lock"]


def test_without_a_file_there_is_nothing_until_something_is_seen(path):
    Pins(path)
    assert not path.exists()
    Pins(path).check("a", [])
    assert path.exists()


def test_a_file_that_must_be_there_is_missed(path):
    with pytest.raises(ToolkitError, match="are gone"):
        Pins(path, must_exist=True)


@pytest.mark.parametrize("is_known_by", ["reading", "writing"])
def test_a_file_that_was_there_is_missed(path, is_known_by):
    pins = Pins(path)
    pins.check("a", [WIRE])
    if is_known_by == "reading":
        pins = Pins(path)
    path.unlink()
    with pytest.raises(ToolkitError, match="are gone"):
        pins.check("a", [{**WIRE, "title": "x"}])
    with pytest.raises(ToolkitError, match="are gone"):
        pins.accept("a", [])
    assert not path.exists()


GOOD = {"version": 1, "servers": {"a": {"t": {"name": "x"}}}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "[" * 100_000,
        "\ud800",
        *(json.dumps({**GOOD, **change}) for change in ({"version": 2}, {"version": None}, {"servers": []})),
        *(json.dumps({**GOOD, "servers": {"a": part}}) for part in (1, {"t": 1}, {"t": {"name": 1}})),
    ],
    ids=lambda text: ascii(text)[:50],
)
def test_a_file_that_holds_no_pins_is_an_error_and_stays(path, text):
    content = text.encode("utf-8", "surrogatepass")
    path.write_bytes(content)
    with pytest.raises(ToolkitError, match="cannot be read"):
        Pins(path)
    assert path.read_bytes() == content


def test_a_file_that_is_damaged_later_is_an_error(path):
    pins = Pins(path)
    pins.check("a", [WIRE])
    path.write_text("{}")
    with pytest.raises(ToolkitError, match="cannot be read"):
        pins.check("a", [WIRE])
    assert path.read_text() == "{}"


def test_a_folder_is_no_file_of_pins(tmp_path):
    with pytest.raises(ToolkitError, match="cannot be read"):
        Pins(tmp_path)


def test_pins_made_at_once_in_threads_are_all_there(path):
    threads = [threading.Thread(target=Pins(path).check, args=(f"s{i}", [copy.deepcopy(WIRE)])) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(path.read_text())["servers"]) == 8


WRITER = """
import sys
from ahvn_tools.mcp.trust.pins import Pins
pins = Pins(sys.argv[1])
for number in range(20):
    pins.check(sys.argv[2], [{"name": f"tool{number}"}])
"""


def test_two_processes_lose_no_pin_of_each_other(path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("a", "b")]
    assert [writer.wait(30) for writer in writers] == [0, 0]
    servers = json.loads(path.read_text())["servers"]
    assert {name: len(tools) for name, tools in servers.items()} == {"a": 20, "b": 20}
