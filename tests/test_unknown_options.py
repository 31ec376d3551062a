"""A misspelled option or attribute is answered with the one that was meant, wherever options are taken."""

from __future__ import annotations

import asyncio
import inspect

import pytest

import ahvn_tools
from ahvn_tools import AddOptions, Toolkit, ToolSpec, builtins, formats, load, middleware, serve

DOCUMENT = {"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {}}


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


kit = Toolkit("kit").add(add)
spec = ToolSpec.from_function(add)


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: Toolkit("k").add(add, timeut=3), "timeout"),
        (lambda: Toolkit("k").tool(add, grup="math"), "group"),
        (lambda: Toolkit("k").tool(desciption="Add.")(add), "description"),
        (lambda: Toolkit("k").add_mcp("python server.py", audiense="main"), "audience"),
        (lambda: Toolkit("k", middlewares=[]), "middleware"),
        (lambda: Toolkit("k").bind("a", defalt=1), "default"),
        (lambda: ahvn_tools.tool(timeut=3)(add), "timeout"),
        (lambda: ToolSpec.from_function(add, timeut=3), "timeout"),
        (lambda: ToolSpec.from_openapi(DOCUMENT, prefx="a"), "prefix"),
        (lambda: kit.select(tag="read"), "tags"),
        (lambda: kit.to("openai", strct=True), "strict"),
        (lambda: kit.to("openai", read_only=True, strct=True), "strict"),
        (lambda: spec.to("prompt", instrctions="Write JSON."), "instructions"),
        (lambda: kit.to_fastmcp_server(mask_error=False), "mask_errors"),
        (lambda: serve(kit, "http", prt=8000), "port"),
        (lambda: load("tools.py", trst=[]), "trust"),
        (lambda: asyncio.run(ahvn_tools.aload("tools.py", trst=[])), "trust"),
        (lambda: kit.run([], formt="openai"), "format"),
        (lambda: kit.call("add", {"a": 1}, timeut=1), "timeout"),
        (lambda: asyncio.run(kit.aexec("add", {"a": 1}, cal_id=None)), "call_id"),
        (lambda: middleware.retry(attempt=3), "attempts"),
        (lambda: middleware.cache(tool="add"), "tools"),
        (lambda: builtins.Workspace(".", read_onli=True), "read_only"),
    ],
)
def test_a_misspelled_option_is_answered_with_the_one_that_was_meant(call, meant):
    with pytest.raises((TypeError, ValueError, ahvn_tools.ToolSpecError), match=f"Did you mean '{meant}'") as raised:
        call()
    assert len(str(raised.value)) < 250


MAKERS = [
    *[getattr(middleware, name) for name in middleware.__all__ if name.islower()],
    *[
        getattr(builtins, name).__init__
        for name in ("Database", "Git", "Knowledge", "PythonRunner", "Shell", "SubAgents", "System", "Workspace")
    ],
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__qualname__)
def test_each_middleware_and_each_built_in_tool_suggests_its_options(make):
    option = [name for name, each in inspect.signature(make).parameters.items() if each.kind is not each.VAR_KEYWORD][
        -1
    ]
    with pytest.raises(TypeError, match=f"Unknown option '{option}z'. Did you mean .*'{option}'"):
        make(**{f"{option}z": 1})


def test_an_option_like_no_other_is_answered_with_where_they_are_listed():
    with pytest.raises(ahvn_tools.ToolSpecError, match=r"^Unknown option 'zzz'\. .* help\(Toolkit\.add\) lists"):
        Toolkit("k").add(add, zzz=1)


def test_the_arguments_of_a_tool_as_keywords_are_refused_with_the_right_form():
    for call in (kit.call, kit.exec, kit.stream, kit.astream):
        with pytest.raises(
            TypeError, match=r"Pass the arguments of a tool as one dict: call\('tool', \{'name': value\}"
        ):
            call("add", a=1)
    for call in (kit.acall, kit.aexec):
        with pytest.raises(TypeError, match="one dict"):
            asyncio.run(call("add", a=1))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tools", "list(kit)"),
        ("serve", "ahvn_tools.serve(kit)"),
        ("sesion", "'session'"),
        ("defintions", "'definitions'"),
    ],
)
def test_an_attribute_that_a_toolkit_does_not_have_is_answered_with_what_it_has(name, hint):
    for each in (kit, kit.session(), kit.select(names=["add"])):
        with pytest.raises(AttributeError) as raised:
            getattr(each, name)
        assert hint in str(raised.value)
        assert not hasattr(each, "__fspath__")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("preset_kwargs", "Did you mean 'preset'?"),
        ("group_name", "Did you mean 'group' or 'name'?"),
        ("desc", "Did you mean 'description' or 'description_separator'?"),
        ("func_description", "Did you mean 'description' or 'include_long_description'?"),
        ("execution_timeout", "Did you mean 'timeout'?"),
        ("des", "None of the"),
        ("zz", "None of the"),
    ],
)
def test_an_option_that_is_a_word_or_the_start_of_another_name_is_suggested(option, hint):
    with pytest.raises(ahvn_tools.errors.ToolkitError) as raised:
        Toolkit("options").add(lambda: None, **{option: "x"})
    assert str(raised.value).startswith(f"Unknown option '{option}'. {hint}")


def test_help_of_add_lists_every_option():
    missing = [name for name in AddOptions.__annotations__ if f"`{name}`" not in Toolkit.add.__doc__]
    assert missing == []


def test_an_error_inside_an_export_stays_as_it_is():
    class Broken:
        calls = results = choice = staticmethod(lambda *_: [])

        @staticmethod
        def export(definitions, *, strict=False):
            raise TypeError(f"inside, strict={strict}")

    formats.register("broken-for-options", Broken)
    with pytest.raises(TypeError, match=r"^inside, strict=True$"):
        kit.to("broken-for-options", strict=True)
