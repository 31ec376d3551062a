"""Random programs of calls, each of which has a number, and what a program returns when each call is made once."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from ahvn_tools import ToolContext, Toolkit
from ahvn_tools.errors import ToolError
from tests.toolkit.program_desk import KEY

Shape = int | list["Shape"]
"""The number of a call, or a list of such."""

APPROVED_TOOLS = ("pay", "pay_alone", "ask", "ask_twice")
TOOLS = ("read", "read_later", "fail", "write", "write_alone", *APPROVED_TOOLS)

CAUGHT = """
try:
    {name} = {call}
except RuntimeError as error:
    {name} = str(error)
"""

LOOP = """
{name} = []
for number in [{first}, {second}]:
    try:
        {name}.append({call})
    except RuntimeError as error:
        {name}.append(str(error))
"""


class NumberedCalls:
    """Toolkits whose tools remember the numbers of the calls that they received."""

    def __init__(self, sandbox: Any, store: Any) -> None:
        self.sandbox, self.store = sandbox, store
        self.made: list[int] = []

    def make_kit(self, max_concurrency: int = 16) -> Toolkit:
        kit = Toolkit("desk", secret_key=KEY, approval_store=self.store, max_concurrency=max_concurrency)
        kit.add(self.read, self.read_later, self.fail, self.ask, self.ask_twice)
        kit.add(self.write, exclusive="number").add(self.write_alone, exclusive=True)
        kit.add(self.pay, requires_approval=True).add(self.pay_alone, requires_approval=True, exclusive=True)
        return kit.add_code_mode(sandbox=self.sandbox)

    def read(self, number: int, note: str = "") -> str:
        """Read."""
        self.made.append(number)
        return f"read {number}{note}"

    async def read_later(self, number: int, note: str = "") -> str:
        """Read after others."""
        self.made.append(number)
        for _ in range(number % 5):
            await asyncio.sleep(0)
        return f"read_later {number}{note}"

    def fail(self, number: int, note: str = "") -> str:
        """Fail."""
        self.made.append(number)
        raise ToolError(f"fail {number}{note}")

    async def write(self, number: int, note: str = "") -> str:
        """Write."""
        self.made.append(number)
        return f"write {number}{note}"

    async def write_alone(self, number: int, note: str = "") -> str:
        """Write alone."""
        self.made.append(number)
        return f"write_alone {number}{note}"

    def pay(self, number: int, note: str = "") -> str:
        """Pay."""
        self.made.append(number)
        return f"pay {number}{note}"

    async def pay_alone(self, number: int, note: str = "") -> str:
        """Pay alone."""
        self.made.append(number)
        return f"pay_alone {number}{note}"

    async def ask(self, number: int, context: ToolContext, note: str = "") -> str:
        """Ask."""
        await context.aask("do it", {"number": number})
        self.made.append(number)
        return f"ask {number}{note}"

    async def ask_twice(self, number: int, context: ToolContext, note: str = "") -> str:
        """Ask twice."""
        await context.aask("do it", {"number": number})
        await context.aask("go on", {"number": number})
        self.made.append(number)
        return f"ask_twice {number}{note}"


@dataclass
class RandomProgram:
    """A program of random calls: in turn, gathered, started and awaited later, in functions and in loops."""

    random: random.Random
    awaits: bool
    tools: dict[int, str] = field(default_factory=dict)
    """The tool of each call, by its number."""
    functions: list[str] = field(default_factory=list)
    names: int = 0

    def __post_init__(self) -> None:
        """Make the program."""
        body, names, self.shape = self._make_block(level=0)
        imports = ["import asyncio"] if self.awaits else []
        self.code = "\n".join([*imports, *self.functions, body, f"[{', '.join(names)}]"])

    def result(self, rejected: set[int], notes: dict[int, str], shape: Shape | None = None) -> Any:
        """Return what the program returns when calls with these numbers were rejected, or approved with notes."""
        shape = self.shape if shape is None else shape
        if isinstance(shape, list):
            return [self.result(rejected, notes, part) for part in shape]
        if shape in rejected:
            return f"The call of {self.tools[shape]!r} was rejected: no {shape}"
        return f"{self.tools[shape]} {shape}{notes.get(shape, '')}"

    def _make_block(self, level: int) -> tuple[str, list[str], list[Shape]]:
        """Return statements, the names of their results, and the shapes of these."""
        parts = [self._make_part(level) for _ in range(self.random.randint(1 if level else 3, 3))]
        lines = [part[0] for part in parts] + [part[3] for part in parts]
        return "\n".join(line for line in lines if line), [part[1] for part in parts], [part[2] for part in parts]

    def _make_part(self, level: int) -> tuple[str, str, Shape, str]:
        """Return a statement, the name and the shape of its result, and a statement for the end of the block."""
        kinds = [self._call, self._loop]
        if self.awaits:
            kinds += (
                [self._started] if level > 2 or len(self.tools) > 8 else [self._started, self._gather, self._gather]
            )
        return self.random.choice(kinds)(level)

    def _call(self, level: int) -> tuple[str, str, Shape, str]:
        name, number = self._name(), self._number()
        return CAUGHT.format(name=name, call=self._await(f"{self.tools[number]}({number})")), name, number, ""

    def _started(self, level: int) -> tuple[str, str, Shape, str]:
        """A call that is awaited after the other statements of its block."""
        name, number = self._name(), self._number()
        start = f"started_{name} = {self.tools[number]}({number})"
        return start, name, number, CAUGHT.format(name=name, call=f"await started_{name}")

    def _loop(self, level: int) -> tuple[str, str, Shape, str]:
        name, first = self._name(), self._number()
        second = self._number(self.tools[first])
        call = self._await(f"{self.tools[first]}(number)")
        return LOOP.format(name=name, first=first, second=second, call=call), name, [first, second], ""

    def _gather(self, level: int) -> tuple[str, str, Shape, str]:
        name, calls, shapes = self._name(), [], []
        for _ in range(self.random.randint(1, 3)):
            function = self._name()
            body, names, shape = self._make_block(level + 1)
            lines = [f"async def {function}():", *body.splitlines(), f"return [{', '.join(names)}]"]
            self.functions.append("\n    ".join(lines))
            calls.append(f"{function}()")
            shapes.append(shape)
        return f"{name} = await asyncio.gather({', '.join(calls)})", name, [*shapes], ""

    def _await(self, call: str) -> str:
        return f"await {call}" if self.awaits else call

    def _name(self) -> str:
        self.names += 1
        return f"name_{self.names}"

    def _number(self, tool: str | None = None) -> int:
        number = len(self.tools) + 1
        self.tools[number] = tool or self.random.choice(TOOLS)
        return number
