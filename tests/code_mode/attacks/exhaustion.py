"""Programs that try to use up time, memory, calls or output, of the sandbox or of its host."""

from __future__ import annotations

from typing import Final

from tests.code_mode.attacks.hostile_program import HostileProgram as P
from tests.code_mode.attacks.hostile_program import fails, prints, returns

SHORT: Final = {"seconds": 0.1}
TOO_LARGE: Final = "A value has more than 1,000,000 bytes"
TOO_DEEP: Final = "nested more than 100 levels deep"

LAUGHS: Final = "a = ['ha']\nfor _ in range(60):\n    a = [a, a]\n"
DEEP: Final = "a = []\nfor _ in range(20_000):\n    a = [a]\n"
SHARED: Final = "a = list(range(1000))\na = [a] * 1000\n"

TIME: Final = [
    P("loops", "while True:\n    pass", fails("time limit"), SHORT),
    P(
        "catches everything in a loop",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        fails("time limit"),
        SHORT,
    ),
    P("counts in C", "sum(range(10**12))", fails("time limit"), SHORT),
    P("sorts with a slow key", "sorted(range(10**4), key=lambda x: sum(range(10**4)))", fails("time limit"), SHORT),
    P("yields control for ever", "import asyncio\nwhile True:\n    await asyncio.sleep(0)", fails("Error"), SHORT),
    P("matches a hostile pattern", "import re\nre.match(r'(a+)+$', 'a' * 5000 + 'b')", returns(None)),
    P("compiles a huge pattern", "import re\nre.compile('((a{1000}){1000}){1000}')", fails("PatternError")),
    P("nests groups in a pattern", "import re\nre.compile('(' * 5000 + ')' * 5000)", fails("PatternError")),
    P("collides hashes", "len({i * (2**61 - 1): 0 for i in range(3000)})", returns(3000)),
    P("writes a huge integer", "str(10**100_000)", fails("4300 digits")),
    P("reads a huge integer", "int('9' * 100_000)", fails("4300 digits")),
    P("waits for itself", "async def f():\n    await f()\nawait f()", fails("RecursionError")),
    P("awaits a call twice", "c = ping(1)\n[await c, await c]", returns([1, 1])),
    P("awaits nothing", "await None", fails("Line 1")),
    P(
        "waits for calls that fail",
        "import asyncio\nawait asyncio.gather(fail('a'), fail('b'))",
        fails("Error calling"),
    ),
]

MEMORY: Final = [
    P("repeats a text", "'x' * 10**9", fails("MemoryError")),
    P("repeats a list", "[0] * 10**9", fails("MemoryError")),
    P("makes many texts", "a = []\nwhile True:\n    a.append(str(len(a)))", fails("MemoryError")),
    P("makes dicts", "d = {}\nwhile True:\n    d[len(d)] = {1: 1}", fails("MemoryError")),
    P("makes a list of a range", "list(range(10**9))", fails("MemoryError")),
    P("powers an integer", "2 ** 10**9", fails("MemoryError")),
    P("squares an integer", "x = 3\nwhile True:\n    x = x * x", fails("MemoryError"), is_slow=True),
    P("shifts an integer", "1 << 10**10", fails("Error")),
    P("joins", "','.join(['x' * 10_000] * 100_000)", fails("MemoryError")),
    P("replaces", "('a' * 10**6).replace('a', 'b' * 10_000)", fails("MemoryError")),
    P("pads", "'x'.ljust(10**9)", fails("MemoryError")),
    P("formats a width", "'%1000000000d' % 1", fails("MemoryError")),
    P("formats a width in an f-string", "f'{1:1000000000}'", fails("MemoryError")),
    P("recurses", "def f(n):\n    return f(n + 1)\nf(0)", fails("RecursionError")),
    P("recurses in a lambda", "f = lambda n: f(n + 1)\nf(0)", fails("RecursionError")),
    P(
        "catches the end of its memory",
        "a = []\nwhile True:\n    try:\n        a.append('x' * 10**6)\n    except MemoryError:\n        pass",
        fails("Error"),
        SHORT,
    ),
]

OUTPUT: Final = [
    P("prints for ever", "while True:\n    print('x' * 100)", fails("time limit"), SHORT),
    P("prints one huge text", "print('x' * 5_000_000)", prints("x" * 1000)),
    P("prints many lines", "for i in range(20_000):\n    print(i)", prints("0\n1\n2\n")),
    P("prints a huge separator", "print(*range(1000), sep='y' * 1000)", prints("0yyy")),
    P("fails with a huge text", "raise ValueError('x' * 5_000_000)", fails("ValueError: xxx")),
    P("fails with many lines", "raise ValueError('x\\n' * 50_000)", fails("more lines")),
    P("fails in a long line", f"1 / 0  # {'x' * 50_000}", fails("ZeroDivisionError")),
]

VALUES: Final = [
    P("returns what doubles", f"{LAUGHS}a", fails(TOO_LARGE)),
    P("passes what doubles", f"{LAUGHS}note(a)", fails(TOO_LARGE)),
    P("passes what doubles by name", f"{LAUGHS}note(text=a)", fails(TOO_LARGE)),
    P("passes what doubles in an unpacked dict", f"{LAUGHS}b = {{'text': a}}\nnote(**b)", fails(TOO_LARGE)),
    P("doubles dicts", "a = {'x': 1}\nfor _ in range(60):\n    a = {'a': a, 'b': a}\na", fails(TOO_LARGE)),
    P("returns what is shared", f"{SHARED}a", fails(TOO_LARGE)),
    P("passes what is shared", f"{SHARED}note(a)", fails(TOO_LARGE)),
    P("shares a long text", "a = 'x' * 100_000\n[a] * 1000", fails(TOO_LARGE)),
    P("returns a long text", "'x' * 2_000_000", fails(TOO_LARGE)),
    P("passes a long text", "note('x' * 2_000_000)", fails(TOO_LARGE)),
    P("passes long bytes", "note(b'x' * 2_000_000)", fails(TOO_LARGE)),
    P("returns a deep list", f"{DEEP}a", fails(TOO_DEEP)),
    P("passes a deep list", f"{DEEP}note(a)", fails(TOO_DEEP)),
    P("returns a deep dict", "a = {}\nfor _ in range(20_000):\n    a = {'a': a}\na", fails(TOO_DEEP)),
    P("prints a deep list", f"{DEEP}print(a)", prints("[[[")),
    P("returns a list that contains itself", "a = []\na.append(a)\na", returns(["[...]"])),
    P("passes a dict that contains itself", "a = {}\na['a'] = a\nnote(a)", returns("a note of 13 letters")),
    P("returns a huge integer", "10**5000", fails("more than 4300 digits")),
    P("returns NaN", "float('nan')", fails("The result contains nan")),
    P("returns a nested Infinity", "{'a': [float('-inf')]}", fails("The result contains -inf")),
    P("reads a huge result", "len(large(25_000_000))", fails("cannot receive its result")),
    P("reads a long result", "len(large(3_000_000))", returns(3_000_000)),
    P("reads a deep result", "deep(20_000)", fails("invalid result")),
    P("reads a result of many parts", "many(300_000)", fails("cannot receive its result"), is_slow=True),
]

CALLS: Final = [
    P(
        "calls for ever",
        "while True:\n    try:\n        ping(1)\n    except RuntimeError:\n        pass",
        fails("Error"),
    ),
    P("calls more often than it may", "[ping(i) for i in range(100)]", fails("at most 20 calls")),
    P(
        "awaits more calls than it may",
        "import asyncio\nawait asyncio.gather(*[ping(i) for i in range(10**6)])",
        fails("at most 20 calls"),
    ),
    P("awaits none of its calls", "calls = [ping(i) for i in range(10**6)]\nawait ping(1)", fails("at most 20 calls")),
    P(
        "calls undefined functions",
        "for _ in range(10**6):\n    try:\n        exit()\n    except RuntimeError:\n        pass",
        fails("Error"),
    ),
    P(
        "fails calls for ever",
        "while True:\n    try:\n        fail('x')\n    except RuntimeError:\n        pass",
        fails("Error"),
    ),
    P(
        "collects arguments",
        "calls = [note('x' * 900_000, i) for i in range(20)]\nawait ping(1)",
        fails("Unanswered calls have more than 10,000,000 bytes"),
        {"memory_bytes": 10_000_000},
    ),
    P(
        "collects results",
        "import asyncio\ncalls = [large(3_000_000 + i) for i in range(15)]\nawait asyncio.gather(*calls)\n1",
        fails("Error"),
    ),
]

CHECKS: Final = [
    P("is too long", "x = 1\n" * 20_000, fails("too long")),
    P("nests parentheses", "(" * 300 + "1" + ")" * 300, returns(1)),
    P("nests more parentheses", "(" * 5000 + "1" + ")" * 5000, fails("Error")),
    P("nests lists", "[" * 10_000 + "]" * 10_000, fails("Error")),
    P("negates", "-" * 20_000 + "1", fails("Error")),
    P("adds", "1" + "+1" * 10_000, fails("Error")),
    P("reads attributes in a chain", "a" + ".a" * 10_000, fails("Error")),
    P("calls in a chain", "f" + "()" * 10_000, fails("Error")),
    P("nests lambdas", "lambda: " * 2000 + "1", fails("Error")),
    P("nests f-strings", "f'{" * 40 + "1" + "}'" * 40, returns("1")),
    P("indents", "".join(" " * i + "if 1:\n" for i in range(300)) + " " * 300 + "1", fails("Error")),
    P("doubles a type", "x = (1,)\n" + "x = (x, x)\n" * 12 + "ping(x)", fails("Line 14")),
    P("doubles a type without end", "x = (1,)\n" + "x = (x, x)\n" * 60 + "ping(x)", fails("check"), is_slow=True),
    P("assigns to many names", "a = " * 12_000 + "1", returns(None), is_slow=True),
    P("has many lines", "x = 1\n" * 8000, returns(None), is_slow=True),
    P("has a huge literal", f"x = {list(range(5000))}\nlen(x)", returns(5000), is_slow=True),
    P("declares recursive types", "class A:\n    b: 'B'\nclass B:\n    a: 'A'\n" * 20, returns(None)),
    P("has many errors", "\n".join(f"undefined_{i}" for i in range(2000)), fails("more lines")),
    P("does not end a text", "'''" + "\n" * 20_000, fails("Line")),
    P("does not end a bracket", "(" + "\n" * 20_000, fails("Line")),
    P("has many backslashes", "\\\n" * 10_000 + "1", returns(1)),
]

EXHAUSTION: Final = [*TIME, *MEMORY, *OUTPUT, *VALUES, *CALLS, *CHECKS]
