"""Code text as a source: its own namespace, its own module for as long as it runs, its own lines in tracebacks."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import textwrap
import traceback
from typing import Any

import pytest

from ahvn_tools import ToolSpec
from ahvn_tools.errors import DefinitionError

SUM = '''
def calculate_sum(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.

    Returns:
        int: The sum of a and b.
    """
    return a + b
'''


def made(code: str, *args: Any, **options: Any) -> ToolSpec:
    return ToolSpec.from_code(textwrap.dedent(code), *args, **options)


def test_the_basic_example_works():
    spec = ToolSpec.from_code(code=SUM, func_name="calculate_sum", env=None)
    assert spec(a=1, b="2") == 3
    assert spec.name == "calculate_sum"
    assert spec.params["a"]["description"] == "The first number."
    assert spec.source == SUM


def test_a_spec_from_another_source_has_no_code():
    assert ToolSpec.from_function(asyncio.sleep).source is None


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        ("x = 1", None, "defines no function"),
        ("from math import sqrt", None, "defines no function"),
        ("class A:\n    def f(self): ...", None, "defines no function"),
        ("def f(): ...\ndef g(): ...", None, r"several functions \(f, g\).*func_name"),
        ("def first(): ...", "frist", "Did you mean 'first'"),
        ("from math import sqrt\ndef f(): ...", "sqrt", "no function 'sqrt'"),
    ],
)
def test_none_several_and_unknown_are_value_errors(code, name, message):
    with pytest.raises(ValueError, match=message) as caught:
        made(code, name)
    assert isinstance(caught.value, DefinitionError)


@pytest.mark.parametrize("name", [None, "f"])
def test_code_with_its_own_tool_decorator_is_refused(name):
    with pytest.raises(DefinitionError, match=r"decorates 'f' with @tool itself; remove the decorator"):
        made("from ahvn_tools import tool\n@tool\ndef f(a: int) -> int:\n    return a", name)


def test_parameters_that_fastmcp_injects_are_hidden():
    spec = made(
        """
        from fastmcp.dependencies import Depends
        def noon() -> str:
            return "noon"
        def tell(text: str, now: str = Depends(noon)) -> str:
            return f"{text} {now}"
        """,
        "tell",
    )
    assert list(spec.params) == ["text"]
    assert spec(text="x") == "x noon"
    assert spec.exec(text="x", now="midnight").error.code == "invalid_parameters"
    assert pickle.loads(pickle.dumps(spec))(text="x") == "x noon"


def test_code_must_be_a_str():
    with pytest.raises(DefinitionError, match="from_function"):
        ToolSpec.from_code(len)


def test_func_name_chooses_and_name_renames():
    spec = made("def f() -> int: return 1\ndef g() -> int: return 2", "g", name="second")
    assert (spec.name, spec()) == ("second", 2)


def test_private_helpers_and_aliases_are_not_candidates():
    assert made("def _help(): return 1\ndef f() -> int: return _help()\ng = f").name == "f"
    assert made("def _only() -> int: return 1")() == 1


def test_a_decorated_function_is_a_function_of_the_code():
    spec = made("""
        import functools

        @functools.lru_cache
        def double(a: int) -> int:
            return 2 * a
    """)
    assert spec(a=4) == 8


def test_recursion_helpers_and_imports_work():
    spec = made(
        """
        import math
        from typing import List

        def square(a: float) -> float:
            return a * a

        def norm(values: List[float]) -> float:
            if len(values) > 1:
                return math.hypot(norm(values[:1]), norm(values[1:]))
            return math.sqrt(square(values[0]))
        """,
        "norm",
    )
    assert spec(values=[3, 4]) == 5


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_dataclasses_and_models_inside_work(future):
    code = future + textwrap.dedent("""
        from dataclasses import dataclass
        from typing import Optional
        from pydantic import BaseModel

        @dataclass
        class Point:
            x: int
            y: int = 0

        class Path(BaseModel):
            points: list[Point]
            parent: "Optional[Path]" = None

        @dataclass
        class Summary:
            longest: Point

        def last(path: Path) -> Summary:
            return Summary(path.points[-1])
    """)
    spec = ToolSpec.from_code(code)
    assert spec(path={"points": [{"x": 1}, {"x": 2, "y": 3}]}) == {"x": 2, "y": 3}
    assert list(spec.output_schema["properties"]) == ["longest"]
    assert spec.exec(path={"points": [{"x": "no"}]}).error.code == "invalid_parameters"


def test_an_annotation_is_an_object_unless_the_code_says_otherwise():
    assert made("def f(a: int): ...").function.__annotations__ == {"a": int}
    assert made("from __future__ import annotations\ndef f(a: int): ...").function.__annotations__ == {"a": "int"}


async def test_async_and_generator_functions_work():
    assert await made("async def f(a: int) -> int: return a").acall(a=1) == 1
    assert made("def f(n: int):\n    yield from range(n)")(n=3) == [0, 1, 2]
    assert await made("async def f(n: int):\n    for i in range(n):\n        yield i").acall(n=2) == [0, 1]


def test_env_provides_names_and_is_not_changed():
    env = {"rate": 2.0}
    spec = made("bonus = 1\ndef pay(hours: float) -> float: return hours * rate + bonus", env=env)
    assert spec(hours=3) == 7
    assert env == {"rate": 2.0}


def test_functions_of_the_env_are_no_candidates():
    def other() -> None: ...

    assert made("def f(): ...", env={"other": other}).name == "f"
    with pytest.raises(DefinitionError):
        made("x = 1", env={"other": other})


def test_the_callers_globals_as_env_leave_the_callers_module_alone():
    spec = made("def f() -> str: return __name__", env=globals())
    assert spec().startswith("tool_code_")
    assert sys.modules[__name__].__dict__ is globals()


def test_the_code_does_not_see_our_names():
    spec = made("def f() -> list[str]: return sorted(name for name in globals() if not name.startswith('__'))")
    assert spec() == ["f"]


def test_the_module_is_there_only_while_the_code_runs():
    spec = made("import sys\nseen = __name__ in sys.modules\ndef f() -> list: return [seen, __name__ in sys.modules]")
    assert spec() == [True, False]


@pytest.mark.parametrize("code", ["raise KeyError('k')", "import sys\nsys.exit(3)", "x = 1", "def f(a: nope): ..."])
def test_the_module_is_removed_if_the_code_fails(code):
    before = set(sys.modules)
    with pytest.raises(BaseException):  # whatever the code raises
        made(code)
    assert {name for name in set(sys.modules) - before if name.startswith("tool_code")} == set()


def test_code_may_remove_its_own_module():
    assert made("import sys\ndel sys.modules[__name__]\ndef f() -> int: return 1")() == 1


def test_the_caller_receives_the_exceptions_of_the_code():
    with pytest.raises(ZeroDivisionError):
        made("1 / 0")
    with pytest.raises(SyntaxError):
        made("def f(:")


def test_a_traceback_shows_the_line_of_the_code():
    spec = made("def f(a: int) -> float:\n    divisor = 0\n    return a / divisor  # the culprit")
    with pytest.raises(ZeroDivisionError) as caught:
        spec(a=1)
    assert "return a / divisor  # the culprit" in "".join(traceback.format_exception(caught.value))


def test_an_unresolvable_annotation_names_the_parameter_unless_it_is_bound():
    with pytest.raises(DefinitionError, match="'a'"):
        made("def f(a: 'nope'): ...")
    spec = made("def f(a: 'nope', b: int) -> int: return b", binds={"a": "a"})
    spec.state["a"] = object()
    assert spec(b=2) == 2


CODE = """
import dataclasses

@dataclasses.dataclass
class Point:
    x: int

def scale(by: int) -> int:
    return by * 2

def grow(point: Point, by: int = 1) -> Point:
    return Point(point.x + scale(by))
"""


def test_a_spec_from_code_can_be_pickled(tmp_path):
    spec = ToolSpec.from_code(CODE, "grow", name="wax").bind("by", "settings.by", 5)
    twin = pickle.loads(pickle.dumps(spec))
    assert (twin.name, twin.source, dict(twin.binds)) == ("wax", CODE, {"by": "settings.by"})
    assert twin(point={"x": 1}) == spec(point={"x": 1}) == 11
    (tmp_path / "spec.pickle").write_bytes(pickle.dumps(spec))
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))(point={'x': 1}))"
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "spec.pickle")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("11\n", "")
