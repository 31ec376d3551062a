"""What a model reads in code mode: the tools for programs, declarations, and answers about names that do not exist."""

from __future__ import annotations

import ast
from typing import Any, Literal

import pytest
from typing_extensions import TypedDict

from ahvn_tools import Toolkit, ToolSpec
from ahvn_tools.definition import ToolDefinition
from ahvn_tools.errors import ToolkitError, ToolLookupError

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import MontySandbox  # as above
from ahvn_tools.code_mode.stubs import HEADER, make_stubs


def echo(schema: Any) -> ToolSpec:
    """Return a tool that returns its arguments."""
    return ToolSpec.from_schema("echo", schema, lambda **arguments: arguments, description="Return the arguments.")


def open_kit(sandbox: MontySandbox, extra: Any) -> Toolkit:
    schema = {"type": "object", "properties": {"a-b": {"type": "integer"}, "user": {}}, "required": ["a-b"]}
    kit = Toolkit("k", state={"user": "canary-ann"})
    kit.add(echo({**schema, "additionalProperties": extra}))
    kit["echo"].bind("user")
    return kit.add_code_mode(sandbox=sandbox)


def big(number: int) -> str:
    """Do nothing."""
    return str(number)


class Found(TypedDict):
    name: str
    note: str | None


def many(count: int, length: int) -> list[ToolSpec]:
    return [ToolSpec.from_function(big, name=f"big_{n}", description="word " * (length // 5)) for n in range(count)]


def test_programs_for_more_than_200_tools_are_checked_against_those_that_they_name(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(*many(201, 10)).add_code_mode(sandbox=sandbox)
    assert kit.call("run_code", {"code": "await big_7(1), f'{await big_200(2)}'"}) == ["1", "2"]
    assert "Expected `int`" in kit.exec("run_code", {"code": "await big_200('a')"}).text
    assert "Did you mean 'big_200'" in kit.exec("run_code", {"code": "await bigg_200(1)"}).text


def test_other_arguments_are_declared_and_passed_by_their_own_names(sandbox: MontySandbox) -> None:
    kit = open_kit(sandbox, {"type": "string"})
    text = kit.call("describe_tools", {"names": ["echo"]})
    assert "    **kwargs: str,  # Other" in text
    assert "    a_b: int,  # Its name in the tool is 'a-b'" in text
    assert "# Other arguments. Pass one whose name is no identifier as" in text
    code = "await echo(1, city='Oslo', **{'x-y': 'z'})"
    assert kit.call("run_code", {"code": code}) == {"a-b": 1, "city": "Oslo", "x-y": "z", "user": "canary-ann"}
    assert "Expected `str`" in kit.exec("run_code", {"code": "await echo(1, city=2)"}).text


@pytest.mark.parametrize("code", ["echo(1, user='eve')", "echo(1, **{'user': 'eve'})", "echo(1, **dict(user='eve'))"])
def test_a_bound_parameter_is_not_passed_as_another_argument(sandbox: MontySandbox, code: str) -> None:
    result = open_kit(sandbox, True).exec("run_code", {"code": f"await {code}"})
    assert result.is_error
    assert "eve" not in result.text.split("File")[0]


def test_unknown_functions_are_named_beside_the_known_ones(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big).add_code_mode(sandbox=sandbox)
    text = kit.call("describe_tools", {"names": ["big", "bigg", "big"], "level": "typed"})
    assert text.split("\n\n") == [
        "1 of 1 functions:",
        'async def big(number: int) -> str:\n    """Do nothing."""',
        "There is no function 'bigg'. Did you mean 'big'?",
    ]
    assert "Did you mean 'big'?" in kit.exec("describe_tools", {"names": ["bigg"]}).error.message


def test_a_long_answer_ends_with_a_whole_declaration_and_the_names_of_the_others(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(*many(10, 9_000)).add_code_mode(sandbox=sandbox)
    text = kit.call("describe_tools", {"names": [f"big_{n}" for n in range(10)]})
    assert len(text) < 41_000
    assert text.startswith("4 of 10 functions:")
    assert text.endswith("6 functions are left out: big_4, big_5, big_6, big_7, big_8, big_9.")
    assert "at most 200 functions" in kit.exec("describe_tools", {"names": ["big_1"] * 201}).text


def test_an_inline_catalog_has_long_descriptions_while_they_fit(sandbox: MontySandbox) -> None:
    part = {"type": "object", "properties": {"n": {"description": "word " * 40}, "m": {"description": "Short"}}}
    tools = [ToolSpec.from_schema(f"f{n}", part, lambda **arguments: 1, description="Do it.") for n in range(300)]
    kit = Toolkit("k").add(*tools[:2]).add_code_mode(sandbox=sandbox, inline=True)
    assert kit.definitions()[0].description.count("word word") > 2
    text = kit.add(*tools[2:]).definitions()[0].description
    assert (text.count("word"), text.count("# Short"), text.count("Do it.")) == (0, 300, 300)


def test_inline_declarations_follow_the_hosts_own_description(sandbox: MontySandbox) -> None:
    own = "Run it. Find them with `care`."
    kit = Toolkit("k").add(big).add_code_mode(sandbox=sandbox, inline=True, run_tool={"description": own})
    declaration = 'async def big(number: int) -> str:\n    """Do nothing."""'
    assert kit.definitions()[0].description == f"{own}\n\nFunctions:\n\n{declaration}"


def test_a_large_inline_catalog_has_types_only(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(*many(10, 9_000)).add_code_mode(sandbox=sandbox, inline=True)
    [definition] = kit.definitions()
    assert "async def big_9(number: int) -> str: ..." in definition.description
    assert len(definition.description) < 5_000
    assert "search_tools" not in definition.description
    kit.remove(*[f"big_{n}" for n in range(2, 10)])
    assert "word word" in kit.definitions()[0].description


def test_declarations_follow_the_toolkit(sandbox: MontySandbox) -> None:
    kit = Toolkit("k", state={"n": 1}).add(big).add_code_mode(sandbox=sandbox, inline=True)
    session = kit.session()
    for change, expected in [
        (lambda: kit.add(big, rename="bigger"), "def bigger(number: int)"),
        (lambda: kit["bigger"].bind("number", "n"), "def bigger() -> str"),
        (lambda: kit.add(big, rename="rare", group="rare"), "def big(number: int)"),
        (lambda: kit.activate("rare"), "def rare(number: int)"),
    ]:
        change()
        assert expected in session.definitions()[0].description
        assert expected in kit.definitions()[0].description
    assert kit.call("run_code", {"code": "[bigger(), rare(2)]"}) == ["1", "2"]
    kit.remove("bigger", "rare", "big")
    assert kit.definitions()[0].description.rstrip().endswith("There are no functions.")


def test_texts_have_the_names_that_the_tools_have(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big)
    kit.add_code_mode(sandbox=sandbox, search_tool={"name": "look"}, run_tool={"name": "python", "description": "Run."})
    look, describe, run = kit.definitions()
    assert look.description.startswith("Find functions for programs of `python`.")
    assert "`python`" in describe.description
    assert run.description == "Run."


def test_the_description_of_programs_names_what_surprises_models(sandbox: MontySandbox) -> None:
    text = Toolkit("k").add(big).add_code_mode(sandbox=sandbox).definitions()[-1].description
    for words in ("asyncio.gather", "RuntimeError", "yield", "del", "inheritance", "End with an expression"):
        assert words in text
    for statement in ("yield 1", "del x", "class A(Exception): pass"):
        kit = Toolkit("k").add(big).add_code_mode(sandbox=sandbox)
        assert "Line 2: Programs do not support " in kit.exec("run_code", {"code": f"def f(x):\n    {statement}"}).text


def test_the_modules_that_the_description_names_can_be_imported(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big).add_code_mode(sandbox=sandbox)
    named = kit.definitions()[-1].description.partition("such as ")[2].partition(".")[0]
    modules = " ".join(named.split()).replace(" and ", ", ").split(", ")
    assert len(modules) == 7
    assert kit.call("run_code", {"code": f"import {', '.join(modules)}\n1"}) == 1


@pytest.mark.parametrize("module", ["asyncio", "json", "datetime"])
def test_a_module_that_is_not_imported_is_answered_with_its_import(sandbox: MontySandbox, module: str) -> None:
    kit = Toolkit("k").add(big).add_code_mode(sandbox=sandbox)
    text = kit.exec("run_code", {"code": f"x = await big(1)\n{module}.x"}).text
    assert text == f"Line 2: Name `{module}` used when not defined\n{module}: Import it first: `import {module}`."


def test_wrong_options_of_code_mode_are_refused(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big)
    wrong: Any = MontySandbox
    with pytest.raises(ToolkitError, match="is a class: pass an object of it"):
        kit.add_code_mode(sandbox=wrong)
    wrong = "python"
    with pytest.raises(ToolkitError, match=r"The option `run_tool` is a dict such as .*, not 'python'"):
        kit.add_code_mode(sandbox=sandbox, run_tool=wrong)
    for count in (0, -1, 1.5, "2", True):
        wrong = count
        with pytest.raises(ToolkitError, match="max_processes"):
            MontySandbox(wrong)
    for core in ([big], [kit["big"]], None, 5):
        wrong = core
        with pytest.raises(ToolkitError, match="A tool is named by a text such as 'big', not by "):
            kit.add_code_mode(wrong, sandbox=sandbox)
    assert [tool.name for tool in kit.definitions()] == ["big"]


def test_an_answer_without_functions_says_what_to_do(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big).add_code_mode(sandbox=sandbox)
    assert kit.call("search_tools", {"query": "zebra"}) == "None of 1 functions was found. Try other words."
    assert kit.exec("describe_tools", {"names": []}).text == "Name at least one function. Known: 'big'."
    empty = Toolkit("e").add_code_mode(sandbox=sandbox)
    assert empty.call("search_tools", {"query": "zebra"}) == "There are no functions."
    [inline] = Toolkit("e").add_code_mode(inline=True, sandbox=sandbox).definitions()
    assert inline.description.endswith(" math and re.\n\nThere are no functions.")


def test_a_second_code_mode_and_a_taken_name_are_refused(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big).add_code_mode(sandbox=sandbox)
    with pytest.raises(ToolkitError, match="one `add_search` or one `add_code_mode`"):
        kit.add_code_mode(sandbox=sandbox)
    with pytest.raises(ToolkitError, match="one `add_search` or one `add_code_mode`"):
        kit.add_search()
    with pytest.raises(ToolkitError, match="There is a tool 'run_code' already"):
        Toolkit("k").add(big, rename="run_code").add_code_mode(sandbox=sandbox)
    with pytest.raises(ToolLookupError, match="Did you mean 'big'"):
        Toolkit("k").add(big).add_code_mode(["bigg"], sandbox=sandbox)
    with pytest.raises(ToolkitError, match="A session cannot change the toolkit: add code mode with `group=` for one"):
        Toolkit("k").add(big).session().add_code_mode(sandbox=sandbox)
    kit.remove("search_tools")
    with pytest.raises(ToolkitError, match=r"Remove the tools of the first before: 'describe_tools', 'run_code'\.$"):
        kit.add_code_mode(sandbox=sandbox)
    kit.remove("describe_tools", "run_code")
    assert "run_code" in kit.add_code_mode(sandbox=sandbox)


def test_code_mode_of_one_session_is_a_group_that_it_activates(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big).add_code_mode(sandbox=sandbox, group="programs", inline=True).deactivate("programs")
    session, other = kit.session().activate("programs"), kit.session()
    assert [tool.name for tool in session.definitions()] == ["run_code"]
    assert "async def big(number: int)" in session.definitions()[0].description
    assert session.call("run_code", {"code": "await big(2)"}) == "2"
    for view in (kit, other):
        assert [tool.name for tool in view.definitions()] == ["big"]
        assert "group 'programs' is not active" in view.exec("run_code", {"code": "await big(2)"}).text


def test_code_mode_of_a_selection_is_a_tag_that_it_has(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big, tags=["read"]).add(big, rename="write")
    kit.add_code_mode(["write"], sandbox=sandbox, tags=["programs"])
    assert [tool.name for tool in kit.select(tags=["read"]).definitions()] == ["big"]
    view = kit.select(tags=["read", "programs"]).session()
    assert [tool.name for tool in view.definitions()] == ["search_tools", "describe_tools", "run_code"]
    assert view.call("run_code", {"code": "await big(2)"}) == "2"
    assert "`write` used when not defined" in view.exec("run_code", {"code": "await write(2)"}).text
    assert view.call("search_tools", {"query": "write"}).startswith("None of 1 functions")


def described(tool: ToolSpec, sandbox: MontySandbox, **options: Any) -> str:
    kit = Toolkit("k").add(tool).add_code_mode(sandbox=sandbox)
    text: str = kit.call("describe_tools", {"names": [tool.name], **options})
    return text.partition("\n\n")[2]


def test_types_are_described_with_short_texts_and_full_with_all(sandbox: MontySandbox) -> None:
    long = "The city, and the country if there are several of that name, in English. Not the district."
    part = {
        "type": "object",
        "properties": {"x": {"type": "integer", "description": "Across"}, "y": {"description": long}},
    }
    properties = {
        "city": {"type": "string", "description": long},
        "day": {"type": "string", "format": "date", "description": "The day."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 10, "description": "At most 20"},
        "since": {"type": "string", "format": "date-time", "description": "ISO date-time"},
        "where": {"type": "array", "items": part},
        "options": {"type": "object", "description": "x" * 80},
    }
    schema = {"type": "object", "properties": properties, "required": ["city", "day"]}
    tool = ToolSpec.from_schema("plan", schema, lambda **arguments: 1, description="Plan a day. It takes long.")
    typed = [
        "class Plan_WhereItem(TypedDict):",
        "    x: NotRequired[int]  # Across",
        "    y: NotRequired[Any]",
        "async def plan(",
        "    city: str,",
        "    day: str,  # The day. Format: date.",
        "    limit: int = 10,  # At most 20. At least 1.",
        "    since: str = ...,  # ISO date-time",
        "    where: list[Plan_WhereItem] = ...,",
        f"    options: dict[str, Any] = ...,  # {'x' * 80}",
        ") -> Any:",
        '    """Plan a day. It takes long."""',
    ]
    assert described(tool, sandbox).splitlines() == typed
    full = described(tool, sandbox, level="full").splitlines()
    assert full == [f"{line}  # {long}" if line in (typed[2], typed[4]) else line for line in typed]
    assert described(tool, sandbox, level="brief") == "plan: Plan a day."


def test_a_declaration_says_what_is_returned_and_how_the_tool_is_named(sandbox: MontySandbox) -> None:
    def look(day: str) -> str:
        """Look it up.

        Returns:
            The first line.
        """
        return day

    text = described(ToolSpec.from_function(look, name="look-up"), sandbox)
    assert text == (
        'async def look_up(day: str) -> str:\n    """Look it up.\n'
        "    The tool's name is 'look-up'.\n    Returns: The first line.\"\"\""
    )


def test_a_search_answers_with_one_line_for_each_function(sandbox: MontySandbox) -> None:
    kit = Toolkit("k").add(big).add(big, rename="bigger").add_code_mode(sandbox=sandbox)
    text = kit.call("search_tools", {"query": "nothing"})
    assert text.splitlines() == ["2 of 2 functions:", "", "big: Do nothing.", "bigger: Do nothing."]
    assert kit.call("search_tools", {"query": "nothing", "limit": 1}).startswith("1 of 2 functions:")


@pytest.mark.parametrize(
    ("description", "summary"),
    [
        ("Find a tool. It is quick.", "Find a tool."),
        ("Find tools, e.g. Saws. More.", "Find tools, e.g. Saws."),
        ("Find\na tool\n\nMore.", "Find a tool"),
        ("Find version 1.5 of it! Now.", "Find version 1.5 of it!"),
        ("word " * 100, "word " * 30 + "…"),
    ],
    ids=["sentence", "e.g.", "paragraph", "number", "long"],
)
def test_a_search_answers_with_first_sentences(sandbox: MontySandbox, description: str, summary: str) -> None:
    assert described(ToolSpec.from_function(big, description=description), sandbox, level="brief") == f"big: {summary}"


@pytest.mark.parametrize(
    "description", ['ends with "', "\\", "a\x00b", "\u202e\u200b", '"""', "\ud800", "\x0c\r\u2028x"]
)
def test_a_strange_description_stays_inside_of_its_declaration(description: str) -> None:
    inner = {"type": "object", "properties": {"y": {"description": description}}}
    schema = {"type": "object", "properties": {"x": inner, "z": {"description": f"a {description}"}}}
    definition = ToolDefinition(name="f", description=description, input_schema=schema, returns=description)
    text = make_stubs([definition])["f"].text("full")
    [declared, function] = ast.parse(HEADER + text).body[2:]
    assert isinstance(declared, ast.ClassDef)
    assert isinstance(function, ast.AsyncFunctionDef)
    assert len(declared.body) == len(function.body) == 1
    assert [argument.arg for argument in function.args.args] == ["x", "z"]
    assert all(character.isprintable() or character == "\n" for character in text)


def test_more_than_255_parameters_and_large_enums_are_declared(sandbox: MontySandbox) -> None:
    properties = {f"p{n}": {"type": "integer", "default": n} for n in range(300)}
    properties["kind"] = {"enum": [f"kind {n}" for n in range(5_000)]}
    kit = Toolkit("k").add(echo({"type": "object", "properties": properties})).add_code_mode(sandbox=sandbox)
    assert kit.call("run_code", {"code": "await echo(p299=1, kind='kind 4999')"}) == {"p299": 1, "kind": "kind 4999"}
    assert "kind: str = ..." in kit.call("describe_tools", {"names": ["echo"], "level": "typed"})


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("for kind in ['a', 'b']:\n    await pick(kind)\nkind", "b"),
        ("kinds = ['a']\nkinds.append('b')\nawait pick_all(kinds)", "ab"),
        ("pick = await pick('a')\npick[0]", "a"),
        ("found = await find()\nfound['more'] = 1\nfound['more']", 1),
        ("best = None\nfor row in [await find()]:\n    if best is None:\n        best = row\nbest['name']", "n"),
        ("found = await find()\n[found[key] for key in found]", ["n", None]),
        ("await pick(**{'kind': 'a'})", "a"),
        ("rows = {'a': await find()}\nrows.get('a')['name']", "n"),
    ],
    ids=[
        "loop over texts",
        "list of texts",
        "same name",
        "new key",
        "None before a loop",
        "keys",
        "dict of arguments",
        "lookup",
    ],
)
@pytest.mark.default_cases(4)
def test_a_program_that_may_be_right_is_run(sandbox: MontySandbox, code: str, value: Any) -> None:
    kit = Toolkit("k")

    def pick(kind: Literal["a", "b"], count: int = 1) -> str:
        """Pick one."""
        return kind

    def pick_all(kinds: list[Literal["a", "b"]]) -> str:
        """Pick several."""
        return "".join(kinds)

    def find() -> Found:
        """Find one."""
        return {"name": "n", "note": None}

    kit.add(pick, pick_all, find).add_code_mode(sandbox=sandbox)
    assert kit.call("run_code", {"code": code}) == value
