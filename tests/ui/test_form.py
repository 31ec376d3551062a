"""The form in a browser: it keeps every value, and an edit of one field changes nothing else."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ahvn_tools import Toolkit, ToolSpec
from tests.ui.desk import open_desk
from tests.ui.values import make_value

CORPORA = Path(__file__).resolve().parents[3] / "shared" / "corpora"
VALUES_PER_SCHEMA = 3
BATCH = 40

CHECK = """
async ([base, cases]) => {  // as text: Playwright loses the name `__proto__`
  const { Form, isExact } = await import(`${base}/static/form.js`);
  return JSON.stringify(JSON.parse(cases).map(([schema, value]) => {
    if (!isExact(value)) return null;
    const element = document.body.appendChild(document.createElement("div"));
    let reported;
    const form = new Form(element, schema, (edited) => { reported = edited; });
    form.show(value);
    const fields = () => [...element.querySelectorAll("[data-pointer]")];
    const shown = fields().map((field) => [field.dataset.pointer, field.dataset.widget, field.value ?? null]);
    const edits = [];
    const typed = shown.filter(([, widget]) => ["text", "number", "json"].includes(widget));
    for (const [pointer, widget] of typed.slice(0, 12)) {
      const field = fields().find((each) => each.dataset.pointer === pointer);
      field.value = widget === "number" ? "7.5" : widget === "json" ? '{"edited": [1]}' : "edited\\n";
      reported = undefined;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      edits.push([pointer, widget, reported]);
      form.show(value);
    }
    const kept = form.value;
    element.remove();
    return { kept, shown, edits };
  }));
}
"""
EDITED = {"text": "edited\n", "number": 7.5, "json": {"edited": [1]}}


def steps_of(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def inner_value(value: Any, pointer: str) -> Any:
    for step in steps_of(pointer):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def with_edit(value: Any, pointer: str, new: Any) -> Any:
    if not pointer:
        return new
    edited = copy.deepcopy(value)
    *path, last = steps_of(pointer)
    parent = inner_value(edited, "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path))
    parent[int(last) if isinstance(parent, list) else last] = new
    return edited


def keeps_values(page: Any, address: str, cases: list[tuple[dict[str, Any], Any]]) -> int:
    """Check values in the form, and return how many edits were checked."""
    edits = 0
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        found_values = json.loads(page.evaluate(CHECK, [address, json.dumps(batch)]))
        for (schema, value), found in zip(batch, found_values, strict=True):
            if found is None:
                continue
            assert found["kept"] == value, schema
            for pointer, widget, text in found["shown"]:
                expected = inner_value(value, pointer)
                if widget == "text":
                    assert text == expected, (pointer, schema)
                elif widget == "json":
                    assert json.loads(text) == expected, (pointer, schema)
                elif widget == "number" and not isinstance(expected, str):
                    assert float(text) == expected, (pointer, schema)
            for pointer, widget, reported in found["edits"]:
                assert reported == with_edit(value, pointer, EDITED[widget]), (pointer, value, schema)
                edits += 1
    return edits


NODE = {"$ref": "#/$defs/Node"}
TEXT_OR_NUMBER = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}
HAND_MADE: dict[str, tuple[Any, list[Any]]] = {
    "texts": ({"a": {"type": "string"}}, [{"a": ""}, {"a": "x\ny "}, {"a": "\r\n"}, {"a": "\x00"}, {"a": None}, {}]),
    "numbers": (
        {"i": {"type": "integer"}, "n": {"type": "number"}},
        [{"i": 0, "n": -0.5}, {"n": 1e21}, {"i": "5"}, {"i": 1.5}, {"n": None}],
    ),
    "nullable": (
        {"a": {"type": ["string", "null"]}, "b": {"type": "integer", "nullable": True}},
        [{"a": None, "b": None}],
    ),
    "absent, null and empty": ({"a": TEXT_OR_NUMBER}, [{}, {"a": None}, {"a": ""}, {"a": 0}, {"a": "0"}]),
    "enums": ({"a": {"enum": ["x", 1, None, {"b": 2}]}}, [{"a": "x"}, {"a": {"b": 2}}, {"a": "unknown"}, {"a": None}]),
    "booleans": ({"a": {"type": "boolean"}}, [{"a": True}, {"a": False}, {"a": "true"}]),
    "recursive": (
        {"n": NODE},
        [{"n": {"next": {"next": {"next": None, "v": 1}}}}, {"n": {"v": "wrong"}}, {"n": None}],
    ),
    "free objects": (
        {"m": {"type": "object", "additionalProperties": {"type": "integer"}}},
        [{"m": {}}, {"m": {"a/b~c": 1, "__proto__": 2, "constructor": 3, "": 4}}],
    ),
    "patterns": (
        {"m": {"type": "object", "patternProperties": {"^x": {"type": "string"}}}},
        [{"m": {"xa": "1", "y": 2}}],
    ),
    "tuples": (
        {"t": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}},
        [{"t": ["a", 1, None]}],
    ),
    "all of": ({"a": {"allOf": [NODE, {"properties": {"w": {"type": "string"}}}]}}, [{"a": {"v": 1, "w": "b"}}]),
    "any value": ({"a": {}, "b": True}, [{"a": [1, {"c": None}], "b": "x"}, {"a": None}]),
    "unions of objects": (
        {"s": {"oneOf": [{"properties": {"k": {"const": "a"}}}, {"properties": {"k": {"const": "b"}, "v": NODE}}]}},
        [{"s": {"k": "b", "v": {"v": 3}}}, {"s": {"k": "c"}}, {"s": 3}],
    ),
    "broken references": ({"a": {"$ref": "#/$defs/None"}, "b": {"$ref": "#/$defs/Loop"}}, [{"a": 1, "b": {"c": 2}}]),
}


def schema_of(properties: Any) -> dict[str, Any]:
    node = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [NODE, {"type": "null"}]}}}
    loop = {"$ref": "#/$defs/Loop"}
    return {"type": "object", "properties": properties, "$defs": {"Node": node, "Loop": loop}}


def test_hand_made_values_stay_as_they_are(page: Any, address: str) -> None:
    page.goto(address)
    cases = [(schema_of(schema), value) for schema, values in HAND_MADE.values() for value in values]
    assert keeps_values(page, address, cases) > 20


def test_schemas_that_grow_without_end_are_shown(page: Any, address: str) -> None:
    """Of a server that is not trusted: what a schema contains many times is looked at once."""
    page.goto(address)
    levels = {f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 20} for n in range(20)}
    many = {f"p{n}": {"$ref": "#/$defs/Many"} for n in range(20)}
    definitions = {
        **levels,
        "L20": {"type": "string"},
        "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}] * 9},
        "All": {"allOf": [{"$ref": "#/$defs/All"}] * 9},
        "Many": {"type": "object", "properties": many, "required": list(many)},
    }
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in ("L0", "Loop", "All", "Many")}
    schema = {"type": "object", "properties": properties, "required": list(properties), "$defs": definitions}
    values: list[Any] = [{}, {"L0": "a", "Loop": 1, "All": {"b": 2}, "Many": {"p0": {"p1": 3}}}]
    begin = "async ([base, schema]) => new (await import(`${base}/static/form.js`)).Form(null, schema).value"
    assert page.evaluate(begin, [address, schema])["Many"]["p0"]
    assert keeps_values(page, address, [(schema, value) for value in values]) > 2


def recorded_schemas() -> Iterator[dict[str, Any]]:
    """The input schemas of GitHub's tools, of functions of BFCL, and of the operations of vendors."""
    for file, key in (("github_mcp_tools.jsonl", "inputSchema"), ("bfcl_functions.jsonl", "parameters")):
        lines = (CORPORA / file).read_text("utf-8").splitlines()
        yield from (json.loads(line)[key] for line in lines[:150])
    for file in ("box.json", "pagerduty.json", "qdrant.json", "twilio.json"):
        document = json.loads((CORPORA / "openapi" / file).read_text("utf-8"))
        specs: list[ToolSpec] = list(ToolSpec.from_openapi(document, base_url="https://api.example").values())
        yield from (spec.input_schema for spec in specs[:: max(len(specs) // 60, 1)])


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
@pytest.mark.skipif(not CORPORA.is_dir(), reason="the recorded definitions are not beside the project")
def test_values_of_recorded_schemas_stay_as_they_are(page: Any, address: str) -> None:
    page.goto(address)
    chance = random.Random(1)
    cases = [
        (schema, made)
        for schema in recorded_schemas()
        for _ in range(VALUES_PER_SCHEMA)
        if isinstance(made := make_value(schema, schema, chance), dict)
    ]
    assert len(cases) > 1000
    assert keeps_values(page, address, cases) > 1000


def test_numbers_are_typed_digit_by_digit(page: Any, serve: Any) -> None:
    page.goto(serve(open_desk()) + "/try/count")
    page.get_by_label("send to").check()
    field = page.locator("[data-pointer='/to']")
    for typed, sent in [("-1.05", -1.05), ("1e3", 1000), ("1.0", 1), ("12345678901234567890", "12345678901234567890")]:
        field.fill("")
        field.press_sequentially(typed)
        assert field.input_value() == typed
        assert json.loads(page.locator("#json").input_value()) == {"to": sent}


def test_a_chosen_alternative_stays_although_another_fits_too(page: Any, serve: Any) -> None:
    options = [{"title": name, "type": "object", "properties": {name: {"type": "string"}}} for name in ("one", "two")]
    schema = {"type": "object", "properties": {"a": {"anyOf": options}}, "required": ["a"]}
    kit = Toolkit("pick").add(ToolSpec.from_schema("pick", schema, lambda **values: values))
    page.goto(serve(kit) + "/try/pick")
    page.get_by_label("alternative of a").select_option(label="two")
    page.get_by_label("send two").check()
    assert json.loads(page.locator("#json").input_value()) == {"a": {"two": ""}}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"kind": "square", "side": "wide"}, "Square"),
        ({"kind": "square"}, "Square"),
        ({"radius": None}, "Circle"),
        ({"members": 3}, "Group"),
        ({"members": [], "kind": "square", "side": 1}, "Square"),
    ],
)
def test_a_value_with_mistakes_has_the_alternative_that_it_is_like(
    page: Any, address: str, shape: Any, expected: str
) -> None:
    page.goto(f"{address}/try/draw")
    page.locator("#json").fill(json.dumps({"shape": shape}))
    chosen = page.get_by_label("alternative of shape")
    assert chosen.evaluate("select => select.selectedOptions[0].textContent") == expected


def test_members_and_items_are_added_and_removed(page: Any, serve: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"additionalProperties": {"type": "integer"}},
        },
        "required": ["list", "map"],
    }
    kit = Toolkit("pick").add(ToolSpec.from_schema("pick", schema, lambda **values: values))
    page.goto(serve(kit) + "/try/pick")
    for text in ("a", "b", "c"):
        page.get_by_role("button", name="Add an item").click()
        page.locator("[data-widget='text']").last.fill(text)
    page.get_by_role("button", name="remove item 2").click()
    page.get_by_label("name of a member to add").fill("__proto__")
    page.get_by_role("button", name="Add a member").click()
    assert json.loads(page.locator("#json").input_value()) == {"list": ["a", "c"], "map": {"__proto__": 0}}
    page.get_by_label("send __proto__").click()
    assert json.loads(page.locator("#json").input_value())["map"] == {}
