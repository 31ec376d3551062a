"""Programs as models write them: each runs, or fails with a message that says how to write it instead."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel

from ahvn_tools import Toolkit, ToolResult

pytest.importorskip("pydantic_monty", reason="programs need the extra `code`")

from ahvn_tools.code_mode import CodeLimits, MontySandbox  # as above


class Issue(BaseModel):
    id: int
    title: str
    state: Literal["open", "closed"] = "open"
    labels: list[str] = []


ISSUES = [
    Issue(id=1, title="Login fails", labels=["bug"]),
    Issue(id=2, title="Typo 7", state="closed", labels=["docs", "bug"]),
]


def list_issues(state: Literal["open", "closed", "all"] = "all") -> list[Issue]:
    """List the issues."""
    return [issue for issue in ISSUES if state in ("all", issue.state)]


async def get_issue(number: int) -> Issue:
    """Get an issue."""
    return ISSUES[number - 1]


def run(sandbox: MontySandbox, code: str) -> ToolResult:
    kit = Toolkit("desk").add(list_issues, get_issue).add_code_mode(sandbox=sandbox)
    return kit.exec("run_code", {"code": code})


RUNS = {
    "format": (
        "f'{len(await list_issues())} issues: {3.14159:.2f} {1000000:,} {\"a\":>3}'",
        "2 issues: 3.14 1,000,000   a",
    ),
    "comprehension": ("{i['id']: i['title'].upper() for i in await list_issues('open')}", {"1": "LOGIN FAILS"}),
    "sort": ("[i['id'] for i in sorted(await list_issues(), key=lambda i: (i['state'], -i['id']))]", [2, 1]),
    "try": (
        """\
try:
    await get_issue(9)
except Exception as e:
    r = type(e).__name__
else:
    r = ''
r""",
        "RuntimeError",
    ),
    "datetime": (
        """\
from datetime import datetime, timedelta
(datetime.fromisoformat('2026-01-31') + timedelta(days=1)).isoformat()""",
        "2026-02-01T00:00:00",
    ),
    "json": (
        """\
import json
json.loads(json.dumps({'a': [1, None]}, indent=2))['a']""",
        [1, None],
    ),
    "re": (
        """\
import re
[int(m[1]) for i in await list_issues() if (m := re.search(r'(\\d+)$', i['title']))]""",
        [7],
    ),
    "dataclass": (
        """\
from dataclasses import dataclass, field

@dataclass
class Row:
    id: int
    tags: list[str] = field(default_factory=list)

[Row(i['id']) for i in await list_issues('open')]""",
        [{"id": 1, "tags": []}],
    ),
    "class": (
        """\
class Sum:
    def __init__(self):
        self.n = 0
    def add(self, k):
        self.n += k
        return self
Sum().add(2).add(3).n""",
        5,
    ),
    "with": (
        """\
class Timer:
    def __enter__(self):
        return self
    def __exit__(self, *a):
        return False
with Timer():
    x = 1
x""",
        1,
    ),
    "match": (
        """\
match await get_issue(1):
    case {'state': 'open', 'id': n}:
        r = n
    case _:
        r = 0
r""",
        1,
    ),
    "gather": (
        """\
import asyncio

async def one(i):
    return (await get_issue(i['id']))['title']

await asyncio.gather(*(one(i) for i in await list_issues()))""",
        ["Login fails", "Typo 7"],
    ),
    "main": (
        """\
async def main() -> int:
    return len(await list_issues())

await main()""",
        2,
    ),
    "run main": (
        """\
import asyncio

async def main():
    return len(await list_issues())

asyncio.run(main())""",
        2,
    ),
    "if main": (
        """\
import asyncio

async def main():
    print(len(await list_issues()))

if __name__ == '__main__':
    asyncio.run(main())""",
        None,
    ),
    "print": (
        """\
for i in await list_issues():
    print(i['id'], i['title'], sep=': ')""",
        None,
    ),
    "hints": (
        """\
from typing import Any, Optional
issues: list[dict[str, Any]] = await list_issues()
def first(x: list[Any], other: Optional[int] = None) -> int | None:
    return x[0]['id'] if x else other
first(issues)""",
        1,
    ),
    "decorator": (
        """\
def twice(f):
    def g(*a, **k):
        return f(*a, **k) * 2
    return g

@twice
def h(x):
    return x

h(4)""",
        8,
    ),
    "sets": ("sorted({l for i in await list_issues() for l in i['labels']} - {'docs'} | {'x'})", ["bug", "x"]),
    "slices": ("[i['id'] for i in (await list_issues())[::-1][:1]], 'abcdef'[-3:]", [[2], "def"]),
    "counter": (
        """\
from collections import Counter, defaultdict
d = defaultdict(list)
for i in await list_issues():
    d[i['state']].append(i['id'])
dict(d), Counter(['a', 'a', 'b']).most_common(1)""",
        [{"open": [1], "closed": [2]}, [["a", 2]]],
    ),
    "groupby": (
        """\
from itertools import groupby
key = lambda i: i['state']
{k: [i['id'] for i in g] for k, g in groupby(sorted(await list_issues(), key=key), key=key)}""",
        {"closed": [2], "open": [1]},
    ),
    "unpacking": (
        """\
first, *rest = await list_issues()
{**{'id': first['id']}, 'rest': len([*rest])}""",
        {"id": 1, "rest": 1},
    ),
    "comment at the end": (
        """\
len(await list_issues())  # the number

# done""",
        2,
    ),
    "no await": ("[get_issue(i['id'])['title'] for i in list_issues()]", ["Login fails", "Typo 7"]),
    "nonlocal": (
        """\
n = 0
def inc():
    global n
    n += 1

while n < 3:
    inc()
n""",
        3,
    ),
    "fence": (
        """\
```python
len(await list_issues())
```""",
        2,
    ),
    "fence without a language": (
        """\

```
len(await list_issues())
```

""",
        2,
    ),
    "longer fence with words": ('~~~~Python title="x"\n1 + 1\n~~~~', 2),
    "fence on its lines": ("```py\r\nx = '''```'''\r\nx\r\n```", "```"),
}


@pytest.mark.parametrize(("code", "value"), RUNS.values(), ids=RUNS)
@pytest.mark.default_cases(8)
def test_a_typical_program_runs(sandbox: MontySandbox, code: str, value: object) -> None:
    result = run(sandbox, code)
    assert not result.is_error, result.text
    assert result.value == value


def test_lines_in_a_fence_keep_their_numbers(sandbox: MontySandbox) -> None:
    assert run(sandbox, "\n```python\nx = 1\nget_isue(x)\n```").text.startswith("Line 4: Name `get_isue`")


_MODULES = "Modules that can be imported: asyncio, base64, bisect, collections,"
FAILS = {
    "yield": (
        """\
def f():
    yield 1""",
        "Line 2: Programs do not support yield expressions.",
    ),
    "del": (
        """\
d = {}
del d['a']""",
        "Line 2: Programs do not support the 'del' statement.",
    ),
    "inheritance": (
        """\
class A(Exception):
    pass""",
        "Line 1: Programs do not support class inheritance and metaclasses.",
    ),
    "property": (
        """\
class A:
    @property
    def x(self):
        return 1""",
        "Line 2: Programs do not support method decorators",
    ),
    "wildcard": ("from typing import *", "Line 1: Wildcard imports (`from ... import *`) are not supported"),
    "built-in": ("dir()", "dir: Programs do not have this built-in."),
    "file": (
        """\
with open('a') as f:
    f.read()""",
        "open: Programs do not have this built-in.",
    ),
    "module": ("import pandas as pd", _MODULES),
    "module of the standard library": ("from contextlib import suppress", _MODULES),
    "name of a module": ("from dataclasses import asdict", "dataclasses has `dataclass`, `field` and `is_dataclass`."),
    "name of typing": ("from typing import cast", "Leave annotations out."),
    "module that the checker does not know": (
        """\
import enum
enum.auto()""",
        _MODULES,
    ),
    "tools as a module": ("from tools import get_issue", "The functions of tools need no import."),
    "task group": (
        """\
import asyncio
asyncio.create_task(get_issue(1))""",
        "asyncio has `gather` and `run`.",
    ),
    "options of gather": (
        """\
import asyncio
await asyncio.gather(get_issue(1), return_exceptions=True)""",
        "Catch errors in an async function around each call",
    ),
    "next": ("next((i for i in list_issues()), None)", "Generator expressions are lists: write `next(iter(…), None)`."),
    "missing await": (
        """\
import asyncio
for i in list_issues():
    await get_issue(i['id'])""",
        "Await the call.",
    ),
    "await in a function": (
        "def count():\n    return len([i for i in list_issues()])\nasync def main():\n    return count()\nawait main()",
        "is not iterable\nAwait the call. A function that awaits begins with `async def`.",
    ),
    "function as a variable": (
        "async def main():\n    list_issues = await list_issues()\nawait main()",
        "Line 2: `list_issues` is a variable here, and not the function. Give the variable another name.",
    ),
    "name of a tool": ("await get-issue(1)", "Line 1: `get-issue` is no name in Python. Write `get_issue`."),
    "gather without await": (
        "import asyncio\nasyncio.gather(get_issue(1), get_issue(2))",
        "Write `await asyncio.gather(…)`, or call the functions directly, without asyncio.",
    ),
    "variable as a function": (
        "list_issues = await list_issues()\nawait list_issues()",
        "A variable may have the name of a function: use another name.",
    ),
    "sleep of time": (
        "import time\ntime.sleep(1)",
        "Programs have no files, network, environment and sleep. Leave it out.",
    ),
    "call in a call": ("list(map(get_issue, [1]))", "get_issue() cannot be called by another function"),
    "method": ("counts = {'a': 1}\nmax(counts, key=counts.get)", "write `lambda x: x.lower()` or"),
    "method of a class": (
        "sorted(['a'], key=str.lower)",
        "A method can only be called: write `lambda x: x.lower()` or",
    ),
    "module of functions": ("functions.get_issue(1)", "Call a function by its name alone."),
    "exception": ("try:\n    get_issue(1)\nexcept ToolError:\n    1", "A call that fails raises RuntimeError."),
    "loop over a dict": ("for i in get_issue(1):\n    i['title']", 'Line 2: A value of type `str` has no key "title"'),
    "loop over a dict that is not checked": (
        "import json\nfor i in json.loads('{\"a\": 1}'):\n    i['title']",
        "A loop over a dict gives its keys. Loop over the list in it.",
    ),
    "key that is not there": ("import json\njson.loads('{}')['a']", "Print the keys that are there:"),
    "value as JSON text": (
        "import json\nfor i in json.loads('[{}]'):\n    json.loads(i)",
        "Results are values: leave `json.loads` out.",
    ),
    "JSON in the program": ("{'a': true}", "Write True, False and None."),
    "name of another host": ("mcp__desk__get_issue(1)", "Call a function by its name alone."),
    "key of a list": ("list_issues()['title']", "Read an item first: `values[0]['title']`."),
    "item of a dict": ("get_issue(1)[0]", "Line 1: A value of type `GetIssue_Result` has no key 0"),
    "method with the name of a key": ("[i for i in get_issue(1).items]", "Read a key as `value['title']`."),
    "attribute": ("[i.title for i in await list_issues()]", "Read a key as `value['title']`."),
    "attribute of what is not checked": (
        """\
import json
json.loads('{}').title""",
        "Read a key as `value['title']`.",
    ),
    "fence of another language": ("```bash\nls\n```", "Pass only the program, without text or ``` around it."),
    "text around a fence": (
        """\
Here it is:
```python
1
```""",
        "Pass only the program, without text or ``` around it.",
    ),
    "sleep": (
        """\
import asyncio
await asyncio.sleep(1)""",
        "'system.async_sleep' is not supported",
    ),
}


@pytest.mark.parametrize(("code", "message"), FAILS.values(), ids=FAILS)
@pytest.mark.default_cases(8)
def test_a_message_says_how_to_write_the_program_instead(sandbox: MontySandbox, code: str, message: str) -> None:
    result = run(sandbox, code)
    assert result.is_error
    assert message in result.text
    lines = result.text.splitlines()
    assert len(lines) == len(set(lines))


def test_a_hint_names_only_modules_that_exist(sandbox: MontySandbox) -> None:
    text = run(sandbox, "import pandas").text.partition("can be imported: ")[2].partition(".")[0]
    assert run(sandbox, f"import {text}\n1").value == 1


@pytest.mark.parametrize(
    "text",
    [
        "ModuleNotFoundError: No module named x",
        "a is not an iterator",
        "a\\nModuleNotFoundError: No module named x\\nb",
    ],
    ids=["module", "iterator", "a line of several"],
)
def test_the_text_of_an_error_of_the_program_has_no_hint(sandbox: MontySandbox, text: str) -> None:
    message = run(sandbox, f"raise ValueError('{text}')").text
    assert "Modules" not in message
    assert "iter(" not in message


def test_a_failed_program_says_how_many_calls_it_has_made(sandbox: MontySandbox) -> None:
    assert run(sandbox, "await get_issue(1)\nprint('a')\nawait get_issue(2)\n1 / 0").text.endswith(
        "ZeroDivisionError: division by zero\n\nCalls made before this: 2.\n\nPrinted:\na\n"
    )
    assert run(sandbox, "1 / 0").text.endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    ("code", "has_note"),
    [
        ("x = 1", True),
        ("x = await get_issue(1)", True),
        ("None", True),
        ("x = 1\nprint(x)", False),
        ("x = 1\nx", False),
    ],
)
@pytest.mark.default_cases(3)
def test_a_program_without_a_result_says_how_to_return_one(sandbox: MontySandbox, code: str, has_note: bool) -> None:
    assert ("end with it as an expression" in run(sandbox, code).text) is has_note


def test_a_program_that_takes_too_long_is_told_its_limit(sandbox: MontySandbox) -> None:
    kit = Toolkit("desk").add_code_mode(sandbox=sandbox, limits=CodeLimits(seconds=0.05))
    result = kit.exec("run_code", {"code": "while True: pass"})
    assert result.text == "TimeoutError: time limit exceeded: the program itself ran longer than 50ms"
