"""Which errors of Monty's type checker refuse a program: those of code that fails whenever it runs.

The checker also reports what may fail, such as a `str` for a parameter with three allowed texts, or a value that is
None before a loop. A program with only such errors runs.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from dataclasses import dataclass, replace
from typing import Final

from ahvn_tools.code_mode.monty_process.messages import FILE_NAME, MAX_LINE_CHARS

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ERROR: Final = re.compile(rf"^{re.escape(FILE_NAME)}:(\d+):(\d+): (\w+)\[([\w-]+)\] (.*)$")
_ARGUMENT: Final = re.compile(r"[Ee]xpected `(.*)`, found `(.*)`$")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
"""A value in a message, which the program may have chosen."""
_UNKNOWN_KEY: Final = re.compile(r'^Unknown key "(.*?)" for TypedDict `(.*?)`')
_REVEALED: Final = re.compile(r"^Revealed type: `(.*)`$")
_FRACTION: Final = re.compile(r"-?[\d_]*\.\d*[1-9]")
_CHANGED: Final = re.compile(r"^Invalid assignment to key .* with declared type `(.*)` on TypedDict")
"""The type of a key of a result, to which the program gives a value of another type."""
_REPLACED: Final = re.compile(r"is not assignable to `def (\w+)\(")
_NEVER_FAIL: Final = frozenset(
    {"invalid-assignment", "invalid-return-type", "invalid-parameter-default", "invalid-declaration", "empty-body"}
)
"""Rules about annotations, which a running program ignores."""
_MAY_FIT: Final = re.compile(
    r"in union `|may not be|object of type `None` with no|key of type `str`|"
    r"\(subscripted object has type `(?!\w+ \| None`)|"
    r"^No overload of|^Operator .*(?:type|and) `[^`]* \| |^Operator `[^`=<>!]+=`|of type `object`|"
    r"^Cannot (?:pop|delete) required|`AsyncGeneratorType\[|^Argument to bound method|"
    r"^`return` statement outside of a function"  # it ends the program
)
_OF_A_UNION: Final = re.compile(r"^(?!.*CoroutineType)(?:Cannot subscript|Method `__getitem__`|Unknown key)")
"""What the checker also reports if one of several types is meant."""
_TYPES: Final = re.compile(r"of type `([^`]*)`")
_OWN_CLASS: Final = re.compile(r"(?:of|on) type `(\w+)`")
_DASHED: Final = re.compile(r"\b[A-Za-z_]\w*(?:-[A-Za-z_]\w*)+(?=\()")
_UNDEFINED: Final = re.compile(r"^Name `(\w+)` used when not defined")
_BUILT_INS: Final = frozenset(
    {
        "FileExistsError", "FileNotFoundError", "ImportError", "IsADirectoryError", "ModuleNotFoundError",
        "NotADirectoryError", "PermissionError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError",
        "filter", "format", "getattr", "hasattr", "map", "setattr",
    }
)  # fmt: skip
"""What Monty has, and its type checker does not know."""
_ANY: Final = frozenset({"Any", "Unknown", "object", "Divergent", "Todo", "Never"})
_KINDS: Final = {
    "list": "Sequence", "tuple": "Sequence", "dict": "Mapping", "Sequence": "Sequence", "Mapping": "Mapping",
    "str": "str", "int": "int", "bool": "bool", "float": "float", "None": "None", "bytes": "bytes",
    "LiteralString": "str", "set": "Sequence", "frozenset": "Sequence", "deque": "Sequence",
    "GeneratorType": "Sequence", "Iterator": "Sequence", "zip": "Sequence", "enumerate": "Sequence",
}  # fmt: skip
_JSON_KINDS: Final[dict[str, type]] = {"Sequence": list, "Mapping": dict}
_TEXTS: Final = frozenset({"datetime", "date", "time", "timedelta", "Decimal"})
"""Classes whose values become texts in the arguments of a call."""


@dataclass(frozen=True, kw_only=True)
class CheckError:
    """An error that the checker reports."""

    line: str
    row: int = 0
    column: int = 0
    severity: str = "error"
    rule: str = ""
    message: str = ""


def certain_errors(display: str, code: str) -> list[CheckError]:
    """Return the errors that refuse a program, of all that the checker reports; empty: it may run.

    Of a program that cannot be read, these are the errors of its syntax.
    """
    errors = [_read(line) for line in display.strip().splitlines()]
    program = _Program(code, errors)
    found = [error for error in errors if program.fails_by(error)]
    return [error for error in found if error.rule == "invalid-syntax"] or [program.explained(error) for error in found]


def confirmed_errors(errors: list[CheckError], others: list[CheckError] | None) -> list[CheckError]:
    """Return the errors of a program that its second form has, too; None: it has no second form."""
    if others is None:
        return [error for error in errors if not _OF_A_UNION.search(error.message)]
    confirmed = {(error.row, error.rule) for error in others}
    return [error for error in errors if (error.row, error.rule) in confirmed]


def _read(line: str) -> CheckError:
    match = _ERROR.match(line)
    if match is None:
        return CheckError(line=line)
    row, column, severity, rule, message = match.groups()
    return CheckError(line=line, row=int(row), column=int(column), severity=severity, rule=rule, message=message)


class _Program:
    """A program, with what the checker reports of it."""

    def __init__(self, code: str, errors: list[CheckError]) -> None:
        self._code, self._lines = code, _LINE_END.split(code)
        self._replaced = [name for error in errors for name in _REPLACED.findall(error.line)]
        self._changed = {word for error in errors for kind in _CHANGED.findall(error.message) for word in _words(kind)}
        self._unions: dict[int, set[str]] = {}
        for error in errors:
            if match := _REVEALED.match(_TEXT.sub("", error.message)):
                kinds = _split(match[1].replace("float", "float | int | float*"), " | ")
                parts = [kind for kind in kinds if kind != "None"]
                self._unions.setdefault(error.row, set()).update(parts if len(parts) > 1 else [])

    def fails_by(self, error: CheckError) -> bool:
        """Return whether code with this error fails whenever it runs."""
        if error.severity == "warning":
            return error.rule == "unused-awaitable" and self._is_own_coroutine(error)
        words = _TEXT.sub("", error.message)
        if error.severity != "error" or error.rule in _NEVER_FAIL or _MAY_FIT.search(words):
            return False
        if any(f"`def {name}(" in words for name in self._replaced):  # the program has another value under the name
            return False
        if any(self._may_be_another(kind, error.row) for kind in _TYPES.findall(words)):
            return False
        if not self._changed.isdisjoint(_words(words)):
            return False
        if (name := _UNDEFINED.match(words)) and name[1] in _BUILT_INS:
            return False
        if error.rule == "unresolved-attribute" and (owner := _OWN_CLASS.search(words)) and self._defines(owner[1]):
            return False
        if key := _UNKNOWN_KEY.match(error.message):
            return self._reads(error) and not self._may_be_another(key[2], error.row) and not self._adds(key[1])
        return error.rule != "invalid-argument-type" or not self._may_fit_argument(error)

    def explained(self, error: CheckError) -> CheckError:
        """Return an error that says why a function is not defined: its name is a variable, or the name of a tool."""
        found = _UNDEFINED.match(error.message)
        line = self._lines[error.row - 1][:MAX_LINE_CHARS] if error.row <= len(self._lines) else ""
        name, reason = found[1] if found is not None else "", ""
        if name and re.match(rf"\s*{name}\s*(?::[^=]*)?=.*\b{name}\(", line):
            reason = f"`{name}` is a variable here, and not the function. Give the variable another name."
        for dashed in _DASHED.findall(line) if name else []:
            if name in dashed.split("-"):
                reason = f"`{dashed}` is no name in Python. Write `{dashed.replace('-', '_')}`."
        return replace(error, line=error.line.replace(error.message, reason)) if reason else error

    def _may_be_another(self, kind: str, row: int) -> bool:
        """Return whether a value of this type may have another one, there."""
        return len(_split(kind, " | ")) > 1 or kind in self._unions.get(row, ())

    def _may_fit_argument(self, error: CheckError) -> bool:
        types = _ARGUMENT.search(error.message)
        source = self._source(error)
        if types is None:
            return False
        if types[2] == "float*" and may_fit("int", types[1]):
            return _FRACTION.match(source) is None
        return source.startswith("*") or may_fit(types[2], types[1])

    def _is_own_coroutine(self, error: CheckError) -> bool:
        """Return whether it calls an async function of the program, which runs only if it is awaited."""
        name = re.match(r"(\w+)\(", self._source(error))
        return name is not None and re.search(rf"\basync\s+def\s+{name[1]}\b", self._code) is not None

    def _defines(self, name: str) -> bool:
        return re.search(rf"\bclass\s+{re.escape(name)}\b", self._code) is not None

    def _reads(self, error: CheckError) -> bool:
        """Return whether the key is in brackets after a value, and not one of a new dict."""
        before = self._lines[error.row - 1][: error.column - 1] if error.row <= len(self._lines) else ""
        return before.rstrip().endswith("[")

    def _adds(self, key: str) -> bool:
        """Return whether the program adds this key to a dict."""
        name = re.escape(key)
        added = rf"\[(['\"]){name}\1\]\s*=(?!=)|\bsetdefault\(\s*(['\"]){name}\2|(?:\bupdate\(|\|=)[^)]*\b{name}\b"
        return re.search(added, self._code) is not None

    def _source(self, error: CheckError) -> str:
        return self._lines[error.row - 1][error.column - 1 :] if error.row <= len(self._lines) else ""


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
    found = found.split(" & ", maxsplit=1)[0]  # int & ~AlwaysFalsy
    if found in _ANY or expected in _ANY or found == expected:
        return True
    if found.startswith("Literal[") and expected.startswith("Literal["):
        return not set(_literals(found)).isdisjoint(_literals(expected))
    expected_kind = _KINDS.get(_generic(expected)[0], "Mapping")
    if found.startswith("Literal["):
        return any(
            _KINDS.get(kind) == _KINDS.get(expected, expected) or _is_json(value, expected_kind)
            for kind, value in _literals(found)
        )
    if found in _TEXTS:
        return expected_kind in {"str", "int", "float"} or expected.startswith("Literal[")
    if expected.startswith("Literal["):
        return any(_KINDS.get(kind) == _KINDS.get(found, found) for kind, _ in _literals(expected))
    found_name, found_parts = _generic(found)
    kind, expected_parts = _KINDS.get(found_name, "Mapping"), _generic(expected)[1]
    if found_name not in _KINDS and ("[" in found or "(" in found or " " in found):  # such as a coroutine, a function
        return False
    if {kind, expected_kind} == {"float", "int"}:
        return not found.endswith("*")  # a number that may be whole
    if kind == "str" and expected_kind in _JSON_KINDS:
        return True  # JSON text
    if kind != expected_kind:
        return False
    return all(may_fit(part, one) for part, one in zip(found_parts, expected_parts, strict=False))


def _is_json(text: object, kind: str) -> bool:
    """Return whether a text is JSON data of this kind."""
    try:
        return isinstance(text, str) and type(json.loads(text)) is _JSON_KINDS.get(kind)
    except (ValueError, RecursionError):
        return False


def _words(text: str) -> set[str]:
    """Return the names in a type, apart from those of mappings and lists."""
    return set(re.findall(r"\w+", text)) - {"list", "dict", "None"}


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
