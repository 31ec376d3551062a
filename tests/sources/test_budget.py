"""A document takes no more work and text than its budget, however short it is; one error names it and the limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ahvn_tools import ToolSpec, load
from ahvn_tools.errors import SourceError
from ahvn_tools.sources import budget
from tests.sources.openapi.documents import document

LEVELS = 40
LEAF = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture(autouse=True)
def small_budget(monkeypatch):
    """Limits that a test reaches at once."""
    monkeypatch.setattr(budget, "MAX_VALUES", 100_000)
    monkeypatch.setattr(budget, "MAX_CHARS", 1_000_000)


def reference(name):
    return {"$ref": f"#/components/schemas/{name}"}


def operation(body=None, answer=None, **members):
    """Return a path with one operation of this body and answer."""
    responses = {"200": {"description": "ok"}}
    if answer is not None:
        responses["200"]["content"] = {"application/json": {"schema": answer}}
    if body is not None:
        members["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return {"post": {"responses": responses, **members}}


def doubled(keyword, name="L{}", leaf=LEAF):
    """Return schemas, each of which refers twice to the next one."""
    levels = {name.format(i): {keyword: [reference(name.format(i + 1))] * 2} for i in range(LEVELS)}
    return {**levels, name.format(LEVELS): leaf}


def refusal(*sources, folder=None, **options):
    """Return the message of the error about sources, which is one short line."""
    with pytest.raises(SourceError) as caught:
        load(*sources, **options)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(folder: Path, files):
    """Write files with these contents, as JSON or as they are, and return the first."""
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return str(folder / next(iter(files)))


def exceeds(file, limit):
    return (
        f"{file} is too large: with what it refers to and repeats it has more than {limit}. "
        "Split it, repeat less, or pass a larger max_values, if you trust it."
    )


VALUES = "100,000 values"
CHARS = "1,000,000 characters"
TEXT = "x" * 20_000
LONG = {"type": "string", "description": TEXT}
MANY = range(200)


@pytest.mark.parametrize(
    ("paths", "components", "limit"),
    [
        pytest.param({"/a": operation(reference("L0"))}, {"schemas": doubled("allOf")}, VALUES, id="allOf-body"),
        pytest.param(
            {"/a": operation(None, reference("L0"))}, {"schemas": doubled("allOf")}, VALUES, id="allOf-answer"
        ),
        pytest.param(
            {"/a": operation(reference("A"))},
            {"schemas": {"A": {"allOf": [reference("B")] * 2}, "B": {"allOf": [reference("A")] * 2}}},
            VALUES,
            id="allOf-circle",
        ),
        pytest.param(
            {f"/{i}": operation(reference("S0")) for i in MANY},
            {"schemas": {f"S{i}": {"properties": {"next": reference(f"S{i + 1}")}} for i in MANY} | {"S200": LEAF}},
            VALUES,
            id="definitions-of-each-operation",
        ),
        pytest.param(
            {f"/{i}": operation(reference("long")) for i in MANY}, {"schemas": {"long": LONG}}, CHARS, id="schema"
        ),
        pytest.param(
            {f"/{i}": operation(parameters=[{"$ref": "#/components/parameters/long"}]) for i in MANY},
            {"parameters": {"long": {"name": "q", "in": "query", "description": TEXT}}},
            CHARS,
            id="parameter",
        ),
        pytest.param(
            {f"/{i}": {"$ref": "#/components/pathItems/long"} for i in MANY},
            {"pathItems": {"long": operation(description=TEXT)}},
            CHARS,
            id="path-item",
        ),
        pytest.param(
            {f"/{i}": {"post": {"responses": {"$ref": "#/components/responses/all"}}} for i in MANY},
            {"responses": {"all": operation(None, {**LEAF, "description": TEXT})["post"]["responses"]}},
            CHARS,
            id="responses",
        ),
    ],
)
@pytest.mark.default_cases(3)
def test_a_document_that_refers_to_much_is_refused(tmp_path, paths, components, limit):
    file = write(tmp_path, {"api.json": document(paths, components=components)})
    assert refusal(file) == exceeds(file, limit)


def test_data_of_a_document_are_refused_as_its_file_is():
    paths = {f"/{i}": operation(reference("long")) for i in MANY}
    with pytest.raises(SourceError, match="the document is too large"):
        ToolSpec.from_openapi(document(paths, components={"schemas": {"long": LONG}}))


def test_the_url_of_a_server_does_not_grow_without_end(tmp_path):
    server = {"url": "https://a.example/" + "{v}" * 1_000, "variables": {"v": {"default": "x" * 10_000}}}
    file = write(tmp_path, {"api.json": document({"/a": operation()}, servers=[server])})
    assert refusal(file) == exceeds(file, CHARS)


@pytest.mark.parametrize(
    "text",
    [
        f'x: &a "{TEXT}"\nsources: []\ntools:\n  "*": [' + "*a, " * 100 + "]",
        f'openapi: 3.1.0\nx: &a "{TEXT}"\npaths:\n' + "".join(f"  /{i}: {{get: {{summary: *a}}}}\n" for i in MANY),
        f"sources: []\nx: &a {{{TEXT[:1000]}: 1}}\ny: &b [" + "*a, " * 60 + "]\nz: [" + "*b, " * 60 + "]",
    ],
    ids=["manifest", "openapi", "keys"],
)
def test_long_texts_behind_aliases_are_refused(tmp_path, text):
    file = write(tmp_path, {"a.yaml": text})
    assert refusal(file) == exceeds(file, CHARS)


def test_manifests_that_include_each_other_twice_are_refused(tmp_path):
    files = {f"m{i}.yaml": f"sources: [m{i + 1}.yaml, m{i + 1}.yaml]" for i in range(18)} | {"m18.yaml": "sources: []"}
    file = write(tmp_path, files)
    assert refusal(file) == exceeds(file, VALUES)


def test_a_file_that_is_included_by_two_others_is_loaded(tmp_path):
    shared = "sources: [{http: {name: ping, api_url: 'https://a.example/ping'}}]"
    files = {"top.yaml": "sources: [a.yaml, b.yaml]", "a.yaml": "sources: [c.yaml]", "b.yaml": "sources: [c.yaml]"}
    assert [tool.name for tool in load(write(tmp_path, {**files, "c.yaml": shared}))] == ["ping"]


@pytest.mark.parametrize(
    ("schema", "files", "limit"),
    [
        pytest.param(
            {"$ref": "f0.json#/S"},
            {f"f{i}.json": {"S": {"allOf": [{"$ref": f"f{i + 1}.json#/S"}] * 2}} for i in range(LEVELS)},
            VALUES,
            id="twice",
        ),
        pytest.param(
            {"properties": {f"p{i}": {"$ref": f"f{i}.json#/S"} for i in range(400)}},
            {f"f{i}.json": {"S": LEAF} for i in range(400)},
            VALUES,
            id="many",
        ),
        pytest.param(
            {"properties": {f"p{i}": {"$ref": f"f{i}.json#/S"} for i in range(20)}},
            {f"f{i}.json": json.dumps({"S": LEAF}) + " " * 60_000 for i in range(20)},
            CHARS,
            id="large",
        ),
        pytest.param({"$ref": "f0.yaml#/S"}, {"f0.yaml": f"x: &a '{TEXT}'\nS: [{'*a, ' * 100}]"}, CHARS, id="aliases"),
        pytest.param({"$ref": "f0.json#/S"}, {"f0.json": "[" * 200_000}, VALUES, id="values"),
    ],
)
def test_files_of_a_document_count(tmp_path, schema, files, limit):
    manifest = {"m.yaml": "sources: [{openapi: api.json, external_files: true}]"}
    last = {f"f{LEVELS}.json": {"S": LEAF}} if len(files) == LEVELS else {}
    file = write(tmp_path, {**manifest, "api.json": document({"/a": operation(schema)}), **files, **last})
    assert refusal(file) == exceeds(file, limit)


@pytest.mark.parametrize(
    "text",
    [
        "sources:\n" + "- missing.py\n" * 1_000,
        "sources: []\ntools:\n" + "".join(f"  t{i}: {{timeout: 3}}\n" for i in range(1_000)),
        "sources: []\ngroups:\n" + "".join(f"  g{i}: text\n" for i in range(1_000)),
        "sources: []\nmiddleware:\n" + "- retry\n" * 1_000,
        "sources: []\ntoolsets:\n" + "".join(f"  t{i}: {{any_of: [t{i + 1}]}}\n" for i in range(50)) + "  t50: [a]",
        "sources:\n" + "- openapi: api.json\n" * 100,
    ],
    ids=["sources", "tools", "groups", "middleware", "toolsets", "documents"],
)
@pytest.mark.default_cases(2)
def test_a_manifest_with_too_many_parts_is_refused(tmp_path, text):
    api = document({f"/{i}": operation() for i in range(10)})
    file = write(tmp_path, {"m.yaml": text, "api.json": api})
    assert refusal(file) == exceeds(file, VALUES)


def test_a_manifest_does_not_repeat_a_variable_without_end(tmp_path):
    file = write(tmp_path, {"m.yaml": "sources: []\ntools:\n  '*': {preset: {p: '" + "${LONG}" * 100 + "'}}"})
    assert refusal(file, env={"LONG": TEXT}) == exceeds(file, CHARS)


def test_a_list_of_too_many_tools_is_refused(tmp_path):
    tools = [{"name": f"t{i}", "inputSchema": {"type": "object"}} for i in range(400)]
    file = write(tmp_path, {"tools.json": tools, "tools.jsonl": "\n".join(map(json.dumps, tools))})
    assert refusal(file) == exceeds(file, VALUES)
    assert refusal(f"{file}l") == exceeds(f"{file}l", VALUES)


def test_json_with_too_many_values_is_refused_before_it_is_read(tmp_path):
    file = write(tmp_path, {"a.json": '{"openapi": "3.1.0", "x": [' + "[], " * 100_000 + "[]]}"})
    assert refusal(file) == exceeds(file, VALUES)


def test_each_source_that_the_host_names_has_its_own_budget(tmp_path):
    paths = {f"/{i}": operation() for i in MANY}
    files = [write(tmp_path, {f"{name}.json": document(paths)}) for name in "abc"]
    assert len(list(load(*files))) == len(MANY)


def test_an_error_about_very_many_mistakes_shows_the_first(tmp_path):
    file = write(tmp_path, {"m.yaml": "sources: []\n" + "".join(f"k{i}: 1\n" for i in range(3_000))})
    with pytest.raises(SourceError) as caught:
        load(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == 101
    assert lines[0].startswith(f"{file}:2: k0: there is no such key.")
    assert lines[-1] == "There are 2,900 more problems."


@pytest.mark.parametrize("schemas", [
    {"A": {"$ref": "#/components/schemas/A/x"}},
    {"A": {"$ref": "#/components/schemas/B0"}}
    | {f"B{i}": {"$ref": f"#/components/schemas/B{i + 1}/x"} for i in range(2_000)}
    | {"B2000": {"x": LEAF}},
])  # fmt: skip
def test_pointers_through_references_without_end_are_an_error(tmp_path, schemas):
    file = write(tmp_path, {"api.json": document({"/a": operation(reference("A"))}, components={"schemas": schemas})})
    assert "let one of them lead to a value" in refusal(file)


def test_one_target_of_many_references_is_copied_once():
    letters = "propertie"
    spellings = [letters[:i] + f"%{ord(letter):02x}" + letters[i + 1 :] for i, letter in enumerate(letters)]
    members = {f"p{i}": {"$ref": f"#/{spelling}s/long"} for i, spelling in enumerate(spellings)}
    spec = ToolSpec.from_schema("t", {"type": "object", "properties": {"long": LONG, **members}}, lambda **_: None)
    assert json.dumps(spec.to("openai")).count(TEXT) == 2


@pytest.mark.parametrize("where", ["schema", "wire"])
def test_regular_expressions_that_repeat_much_are_refused(tmp_path, where):
    schema = {"type": "object", "properties": {f"p{i}": {"pattern": "((a{1,100}){1,100}){1,20}"} for i in range(20)}}
    tools = [{"name": f"t{i}", "inputSchema": schema} for i in range(10)]
    file = write(tmp_path, {"a.json": tools if where == "wire" else document({"/a": operation(schema)})})
    assert refusal(file) == exceeds(file, VALUES)


NAME = "k" * 1_000_000
TOOL = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "pattern": NAME + "("}}}}


@pytest.mark.parametrize(
    "content",
    [
        {"openapi": "3.1.0", "paths": {NAME: {}}},
        {"swagger": NAME},
        document({"/a": operation({"$ref": f"#/{NAME}"})}),
        [TOOL],
        f"? {NAME}\n: 1\n? {NAME}\n: 2",
        f"sources: [{{? {NAME} : 2}}]",
        f"sources: [{NAME}.py]",
        f"sources: []\ntoolsets: {{a: {{tools: 1, ? {NAME} : 2}}}}",
    ],
    ids=["path", "version", "reference", "pattern", "yaml", "source", "location", "toolset"],
)
def test_an_error_does_not_grow_with_a_name_in_the_document(tmp_path, monkeypatch, content):
    monkeypatch.setattr(budget, "MAX_CHARS", 10_000_000)
    file = write(tmp_path, {"a.yaml" if isinstance(content, str) else "a.json": content})
    with pytest.raises(SourceError) as caught:
        load(file)
    assert len(str(caught.value)) < 5_000


def many_operations():
    return document({f"/p{number}": operation(LEAF, operationId=f"op{number}") for number in range(400)})


@pytest.mark.exhaustive
def test_a_host_raises_the_budget_of_a_document_that_it_trusts(tmp_path):
    path = write(tmp_path, {"api.json": many_operations()})
    assert refusal(path) == exceeds(path, VALUES)
    assert len(load(path, max_values=1_000_000)) == 400
    with pytest.raises(SourceError, match="pass a larger max_values"):
        ToolSpec.from_openapi(many_operations())
    assert len(ToolSpec.from_openapi(many_operations(), max_values=1_000_000)) == 400


@pytest.mark.parametrize("limit", [0, -1, True, "9", 1.5])
def test_a_limit_of_values_that_is_no_positive_integer_is_an_error(limit, tmp_path):
    path = write(tmp_path, {"api.json": many_operations()})
    assert refusal(path, max_values=limit) == f"max_values is a positive integer, not {limit!r}."
    with pytest.raises(SourceError, match="max_values is a positive integer"):
        ToolSpec.from_openapi(many_operations(), max_values=limit)


def test_a_manifest_takes_the_limit_of_its_host_and_has_none_of_its_own(tmp_path):
    files = {"m.yaml": "sources: [{openapi: api.json}]", "api.json": many_operations()}
    path = write(tmp_path, files)
    assert refusal(path) == exceeds(path, VALUES)
    assert len(load(path, max_values=1_000_000)) == 400
    own = write(tmp_path, {"own.yaml": "sources: [{openapi: api.json, max_values: 1000000}]"})
    with pytest.raises(SourceError, match=r"sources\[0\]\.max_values: there is no such key"):
        load(own)


def test_operations_that_are_not_selected_count_only_with_their_own_size(tmp_path):
    files = {"m.yaml": "sources: [{openapi: api.json, operations: [op7]}]", "api.json": many_operations()}
    assert [tool.name for tool in load(write(tmp_path, files))] == ["op7"]
    assert list(ToolSpec.from_openapi(many_operations(), operations=["op7"])) == ["op7"]
