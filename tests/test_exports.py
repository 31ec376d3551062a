"""The exports of the package, when they are imported, and which imports a local tool needs."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
from typing import get_type_hints

import pytest

import ahvn_tools
from ahvn_tools import errors

ALIASES = {"Middleware", "Next"}
"""Public names of types that are no classes, so that they do not know their module."""


def test_every_public_name_is_the_object_of_its_module():
    for name in ahvn_tools.__all__:
        public = getattr(ahvn_tools, name)
        module = "ahvn_tools.middleware" if name in ALIASES else public.__module__
        assert getattr(sys.modules[module], name) is public
        assert module.startswith("ahvn_tools.")


def test_every_public_name_can_be_used_in_an_annotation():
    for name in sorted(set(ahvn_tools.__all__) - {"aload", "aserve", "load", "reg_toolspec", "serve", "tool"}):
        namespace: dict[str, object] = {}
        exec(f"from ahvn_tools import {name}\ndef use(value: {name}) -> None: ...", namespace)
        assert get_type_hints(namespace["use"])["value"] == getattr(ahvn_tools, name)


def test_the_import_of_an_error_that_is_elsewhere_says_where():
    with pytest.raises(ImportError, match=r"from ahvn_tools\.errors import ToolTimeoutError"):
        exec("from ahvn_tools import ToolTimeoutError")
    with pytest.raises(ImportError, match="cannot import name 'NoSuchError'"):
        exec("from ahvn_tools import NoSuchError")
    assert not hasattr(ahvn_tools, "NoSuchError")


def test_the_public_names_are_sorted_and_listed():
    assert sorted(ahvn_tools.__all__) == ahvn_tools.__all__
    assert set(ahvn_tools.__all__) <= set(dir(ahvn_tools))


def test_a_star_import_imports_the_public_names():
    namespace: dict[str, object] = {}
    exec("from ahvn_tools import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(ahvn_tools.__all__)


def test_type_checkers_see_the_public_names():
    source = inspect.getsource(ahvn_tools)
    imported = {
        name.strip()
        for line in source.splitlines()
        if line.startswith("    from ahvn_tools.")
        for name in line.partition(" import ")[2].split(",")
    }
    assert imported == set(ahvn_tools.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'ToolSpek'"):
        ahvn_tools.ToolSpek
    with pytest.raises(ImportError):
        from ahvn_tools import ToolSpek  # noqa: F401


def test_the_version_has_three_parts():
    assert ahvn_tools.__version__.count(".") == 2


LOCAL_WORK = """
import sys
from ahvn_tools import ToolSpec, ToolRegistry, reg_toolspec, tool, ToolResult, ToolError

@tool(tags={"math"}, binds={"token": "session.token"})
def add(a: int, b: int = 2, token: str = "none") -> int:
    '''Add two numbers.

    Args:
        a: The first.
    '''
    return a + b

class Notes(ToolRegistry):
    @reg_toolspec
    def put(self, text: str) -> dict[str, str]:
        '''Put a note.'''
        return {"text": text}

assert add(a="1") == 3
assert add.exec(a=1).value == 3
assert add.exec(a="x").is_error
assert [result.value for result in add.stream(a=1)][-1] == 3
assert Notes().toolspec("put")(text="x") == {"text": "x"}
add.to_jsonschema(), add.definition, add.definition.fingerprint, add.to_prompt(), add.code, add.docstring
add.signature(a=1), add.to_function()(1), add.clone(), add.input_schema, add.output_schema, repr(add)
add.bind("b", default=3).unbind("b").state
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


TOOLKIT_WORK = """
import sys
from ahvn_tools import Toolkit

kit = Toolkit("math")

@kit.tool(tags={"math"}, preset={"token": "none"})
def add(a: int, b: int = 2, token: str = "none") -> int:
    '''Add two numbers.'''
    return a + b

session = kit.bind("b").session(b=3).select(tags=["math"])
assert session.call("add", {"a": "1"}) == session["add"](1) == 4
assert session.exec("ad").is_error
assert [result.value for result in session.stream("add", {"a": 1})][-1] == 4
answer = {"tool_calls": [{"id": f"c{n}", "function": {"name": "add", "arguments": '{"a": 1}'}} for n in range(2)]}
assert len(session.run(answer, format="openai")) == 2
kit.to("openai"), kit.to_prompt(), kit.definitions(), repr(kit), kit["add"].clone(), list(kit)
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize("work", [LOCAL_WORK, TOOLKIT_WORK], ids=["spec", "toolkit"])
def test_a_local_tool_loads_no_mcp_and_no_sdk(work):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", work], capture_output=True, text=True, timeout=120, check=True
    )
    loaded = set(ran.stdout.split())
    assert {"ahvn_tools", "pydantic"} <= loaded
    slow = {"fastmcp", "mcp", "mcp_types", "httpx", "httpx2", "openai", "anthropic", "rich"}
    assert loaded & slow == set()
    of_other_sources = {f"ahvn_tools.sources.{name}" for name in ("langchain", "mcp", "http")}
    assert loaded & of_other_sources == set()


def test_importing_the_package_imports_none_of_its_modules():
    program = "import sys, ahvn_tools; print([name for name in sys.modules if name.startswith('ahvn_tools.')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == "[]\n"


def error_classes() -> list[type[Exception]]:
    return [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, Exception) and member.__module__ == "ahvn_tools.errors"
    ]


def test_every_error_belongs_to_one_of_the_two_families():
    for error in error_classes():
        families = [family for family in (errors.ToolSpecError, errors.ToolCallError) if issubclass(error, family)]
        assert len(families) == 1, error


def test_the_docstring_contains_every_error_and_its_builtin_base():
    drawn = errors.__doc__
    for error in error_classes():
        assert error.__name__ in drawn
        for base in error.__bases__:
            if base.__module__ == "builtins" and base is not Exception:
                assert base.__name__ in drawn


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("DefinitionError", ValueError),
        ("BindError", ValueError),
        ("StateKeyError", ValueError),
        ("ToolLookupError", KeyError),
        ("ToolkitError", ValueError),
        ("PickleError", TypeError),
        ("SyncCallError", RuntimeError),
        ("ToolTimeoutError", TimeoutError),
    ],
)
def test_an_error_is_also_a_builtin_error(name, builtin):
    assert issubclass(getattr(errors, name), builtin)


def test_codes_are_stable():
    assert {error.__name__: error.code for error in error_classes() if issubclass(error, errors.ToolCallError)} == {
        "ToolCallError": "tool_error",
        "ToolNotFoundError": "not_found",
        "ToolNotAvailableError": "not_available",
        "InvalidParametersError": "invalid_parameters",
        "UnboundStateError": "unbound_state",
        "InvalidResultError": "invalid_result",
        "ToolTimeoutError": "timeout",
        "CallCancelledError": "cancelled",
        "ApprovalRequiredError": "approval_required",
        "ResultRequiredError": "result_required",
        "CallRejectedError": "rejected",
        "InputRequiredError": "input_required",
        "ToolChangedError": "changed",
        "ToolConnectionError": "connection",
        "LimitExceededError": "limit_exceeded",
        "ToolError": "tool_error",
    }


def test_the_text_of_a_lookup_error_has_no_quotes():
    assert str(errors.ToolLookupError("no 'x'")) == "no 'x'"


def test_errors_of_a_call_keep_their_attributes_in_a_pickle():
    sent = errors.UnboundStateError("m", tool="t", parameter="p", key="k")
    loaded = pickle.loads(pickle.dumps(sent))
    assert (str(loaded), loaded.tool, loaded.parameter, loaded.key) == ("m", "t", "p", "k")
    late = pickle.loads(pickle.dumps(errors.ToolTimeoutError("m", tool="t", timeout=2)))
    assert (late.message, late.tool, late.timeout) == ("m", "t", 2)


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("serch", ["search", "read"], "Did you mean 'search'?"),
        ("zzz", ["search", "read"], "Known: 'search', 'read'."),
        ("zzz", [f"tool{i}" for i in range(99)], "None of the 99 known names is similar."),
        ("serch", [*(f"tool{i}" for i in range(9_999)), "search"], "Did you mean 'search'?"),
        ("zzz", [f"tool{i}" for i in range(9_999)], "None of the 9999 known names is similar."),
        ("zzz", [], "There are none."),
        ("search", ["search", "research"], "Did you mean 'research'?"),
        ("search" * 40, ["search" * 41], f"Known: {'search' * 41!r}."),
    ],
)
def test_near_misses_suggest_similar_names(name, known, text):
    assert errors.near_misses(name, known) == text


def test_every_module_has_a_docstring():
    for name in (
        "spec",
        "registry",
        "toolkit",
        "text",
        "errors",
        "sources.function",
        "sources.code",
        "sources.mcp",
        "mcp.client",
    ):
        assert importlib.import_module(f"ahvn_tools.{name}").__doc__


PLAIN_WORK = """
import sys
from ahvn_tools import ToolSpec

def add(left: int, right: int | None = 2, *, name: str = "", items: list[str] | None = None) -> int:
    return left + right

spec = ToolSpec.from_function(add)
assert spec(left="1") == 3
assert spec.exec(left="x").is_error
assert spec.to("openai")["function"]["parameters"]["required"] == ["left"]
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_a_tool_of_plain_types_needs_no_pydantic_but_its_core():
    imported = subprocess.run([sys.executable, "-c", PLAIN_WORK], capture_output=True, text=True, check=True).stdout
    assert {"pydantic_core"} == {"pydantic", "pydantic_core", "fastmcp"} & set(imported.split())
