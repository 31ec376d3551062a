"""Which errors of Monty's type checker refuse a program: those of code that fails whenever it runs.

The checker also reports what may fail, such as a `str` for a parameter with three allowed texts, or a value that is
None before a loop. A program with only such errors runs.
"""

from __future__ import annotations

import re
from ast import literal_eval
from typing import Final

from ahvn_tools.code_mode.monty_process.messages import FILE_NAME

_ERROR: Final = re.compile(rf"^{re.escape(FILE_NAME)}:(\d+):(\d+): (\w+)\[([\w-]+)\] (.*)$")
_ARGUMENT: Final = re.compile(r"[Ee]xpected `(.*)`, found `(.*)`$")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
"""A value in a message, which the program may have chosen."""
_UNKNOWN_KEY: Final = re.compile(r'^Unknown key "(.*?)" for TypedDict')
_REPLACED: Final = re.compile(r"is not assignable to `def (\w+)\(")
_NEVER_FAIL: Final = frozenset(
    {"invalid-assignment", "invalid-return-type", "invalid-parameter-default", "invalid-declaration", "empty-body"}
)
"""Rules about annotations, which a running program ignores."""
_MAY_FIT: Final = re.compile(
    r"in union `|may not be|object of type `None` with no|key of type `str`|\(subscripted object has type|"
    r"^No overload of|^Operator .*(?:type|and) `[^`]* \| "
)
_ANY: Final = frozenset({"Any", "Unknown", "object", "Divergent", "Todo", "Never"})
_KINDS: Final = {
    "list": "Sequence", "tuple": "Sequence", "dict": "Mapping", "Sequence": "Sequence", "Mapping": "Mapping",
    "str": "str", "int": "int", "bool": "bool", "float": "float", "None": "None", "bytes": "bytes",
}  # fmt: skip


def certain_errors(display: str, code: str) -> str:
    """Return the errors that refuse a program, of all that the checker reports, one a line; empty: it may run."""
    lines = display.strip().splitlines()
    replaced = [name for line in lines for name in _REPLACED.findall(line)]
    program = code.splitlines()
    return "\n".join(line for line in lines if _is_certain(line, program, code, replaced))


def _is_certain(line: str, program: list[str], code: str, replaced: list[str]) -> bool:
    match = _ERROR.match(line)
    if match is None:
        return True
    row, column, severity, rule, message = match.groups()
    words = _TEXT.sub("", message)
    if severity != "error" or rule in _NEVER_FAIL or _MAY_FIT.search(words):
        return False
    if any(f"`def {name}(" in words for name in replaced):  # the program has another value under the name
        return False
    if key := _UNKNOWN_KEY.match(message):
        return not re.search(rf"\[(['\"]){re.escape(key[1])}\1\]\s*=(?!=)", code)  # the program adds it
    if rule == "invalid-argument-type" and (types := _ARGUMENT.search(message)):
        source = program[int(row) - 1] if int(row) <= len(program) else ""
        return not (source[int(column) - 1 :].startswith("*") or may_fit(types[2], types[1]))
    return True


def may_fit(found: str, expected: str) -> bool:
    """Return whether a value of one type can be one of the other, as the checker writes them.

    >>> may_fit("str", 'Literal["open"]'), may_fit("int | None", "int"), may_fit("list[str]", "Sequence[int]")
    (True, True, False)
    """
    wanted, given = _split(expected, " | "), _split(found, " | ")
    if len(given) > 1 and any(_generic(one)[0] not in _KINDS and not one.startswith("Literal[") for one in wanted):
        return True  # such as a protocol
    return any(_overlaps(part.strip("()"), one.strip("()")) for part in given for one in wanted)


def _overlaps(found: str, expected: str) -> bool:
    if found in _ANY or expected in _ANY or found == expected:
        return True
    if found.startswith("Literal[") and expected.startswith("Literal["):
        return not set(_literals(found)).isdisjoint(_literals(expected))
    if found.startswith("Literal["):
        return any(_KINDS.get(kind) == _KINDS.get(expected, expected) for kind, _ in _literals(found))
    if expected.startswith("Literal["):
        return any(_KINDS.get(kind) == _KINDS.get(found, found) for kind, _ in _literals(expected))
    found_name, found_parts = _generic(found)
    expected_name, expected_parts = _generic(expected)
    kind, expected_kind = _KINDS.get(found_name, "Mapping"), _KINDS.get(expected_name, "Mapping")
    if found_name not in _KINDS and ("[" in found or "(" in found or " " in found):  # such as a coroutine, a function
        return False
    if {kind, expected_kind} == {"float", "int"}:
        return not found.endswith("*")  # a number that may be whole
    if kind != expected_kind:
        return False
    return all(may_fit(part, one) for part, one in zip(found_parts, expected_parts, strict=False))


def _literals(text: str) -> list[tuple[str, object]]:
    """Return the values of `Literal[…]`, with the names of their classes."""
    try:
        values = literal_eval(f"({text.removeprefix('Literal[').removesuffix(']')},)")
    except (ValueError, SyntaxError):
        return [("str", text)]
    return [("None" if value is None else type(value).__name__, value) for value in values]


def _generic(text: str) -> tuple[str, list[str]]:
    name, bracket, rest = text.rstrip("*").partition("[")
    return name, _split(rest.removesuffix("]"), ", ") if bracket else []


def _split(text: str, separator: str) -> list[str]:
    """Split a text outside of brackets and quotes."""
    parts, start, depth, quote = [], 0, 0, ""
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote and text[index - 1] != "\\" else quote
        elif character in "\"'":
            quote = character
        elif character in "[(<{":
            depth += 1
        elif character in "])>}" and text[index - 1 : index] != "-":  # no arrow
            depth -= 1
        elif depth == 0 and text.startswith(separator, index):
            parts.append(text[start:index])
            start = index + len(separator)
    return [*parts, text[start:]]
