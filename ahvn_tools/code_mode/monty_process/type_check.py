"""The check of a program's types, in a Monty session that knows the declarations of its functions.

Errors of code that fails whenever it runs refuse a program. The checker also reports what may fail, such as a `str` for
a parameter with three allowed texts, or a value that is None before a loop. A program with only such errors runs.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from ast import literal_eval
from dataclasses import dataclass, replace
from typing import Any, Final

import pydantic_monty as monty

from ahvn_tools.code_mode.call_form import awaits_calls
from ahvn_tools.code_mode.monty_process.messages import FILE_NAME, MAX_LINE_CHARS, START, to_readable, to_unsupported
from ahvn_tools.code_mode.sandbox import InvalidProgramError, SandboxError

_UNCHECKABLE: Final = "The check of the types takes too much time or memory. Make the program shorter or simpler."
_COMMENT: Final = re.compile(r"#[^\n]*")
_IGNORE: Final = re.compile(r"\b(type|ty):(?=\s*ignore\b)")
"""What would switch off the check of a line, in a comment."""
_CODE_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_REVEAL: Final = "reveal_type"
_STOP: Final[Any] = {"exc_type": "SystemExit", "message": ""}


def check_types(session: Any, code: str) -> None:
    """Raises InvalidProgramError for a program that does not fit, SandboxError if the session cannot check it.

    Monty has no check alone: it runs a call before the program, which ends it.
    """
    if (wrong := _find_gather_error(code)) is not None:
        raise InvalidProgramError(to_readable(wrong, is_check=True))
    try:
        state = _start(session, f"{START}()\n{_without_ignore(code)}")
    except monty.MontySyntaxError as error:
        raise InvalidProgramError(to_readable(error.display(), is_check=True)) from None
    except monty.MontyRuntimeError as error:
        if isinstance(error.exception(), NotImplementedError):  # what Monty's parser does not know
            raise InvalidProgramError(to_unsupported(error.display(), error.display("msg"))) from None
        raise SandboxError(_UNCHECKABLE) from None
    except monty.MontyCrashedError as error:
        if error.timed_out:
            raise InvalidProgramError(_UNCHECKABLE) from None
        raise
    _stop(state)


def _without_ignore(code: str) -> str:
    """Return a program of the same length without comments that switch off its check."""
    return _COMMENT.sub(lambda comment: _IGNORE.sub(r"\1 ", comment[0]), code)


def _start(session: Any, code: str) -> Any:
    try:
        return session.feed_start(code)
    except monty.MontyTypingError as error:
        errors = certain_errors(error.display(), code)
    if errors and (errors := confirmed_errors(errors, _check_second_form(session, code))):
        raise InvalidProgramError(to_readable("\n".join(error.line for error in errors), is_check=True))
    return session.feed_start(code, skip_type_check=True)


def _check_second_form(session: Any, code: str) -> list[CheckError] | None:
    second = _to_second_form(code)
    if second is None:
        return None
    try:
        _stop(session.feed_start(second))
    except monty.MontyTypingError as error:
        return certain_errors(error.display(), second)
    return []


def _stop(state: Any) -> None:
    with contextlib.suppress(monty.MontyRuntimeError):  # the SystemExit
        state.resume(_STOP)


def _find_gather_error(code: str) -> str | None:
    """Return what is wrong with the first wrong call of `gather`; None: nothing, or Python cannot read the program."""
    if "gather" not in code:
        return None
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    is_awaited = awaits_calls(code)
    statements = [node.value for node in nodes if isinstance(node, ast.Expr)]
    for call in _find_gather_calls(nodes):
        if not is_awaited or call in statements:
            return f"Line {call.lineno}: `gather` is not awaited."
        if any(option.arg == "return_exceptions" for option in call.keywords):
            return f"Line {call.lineno}: `gather` has no `return_exceptions`."
    return None


def _find_gather_calls(nodes: list[ast.AST]) -> list[ast.Call]:
    is_imported = any(isinstance(node, ast.ImportFrom) and node.module == "asyncio" for node in nodes)
    names = {"asyncio.gather", "gather"} if is_imported else {"asyncio.gather"}
    return [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in names]


def _to_second_form(code: str) -> str | None:
    """Return a second form of a program, in the same lines: without annotations, and with the types that it reads.

    A program ignores its annotations, which the type checker believes. And the checker reports that one of the types
    that a value may have has no keys, but not that there are others: `reveal_type` around each such value does. None if
    this version of Python cannot read it.
    """
    try:
        editor = _Editor(code.encode())
        editor.visit(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return editor.edited().decode()


class _Editor(ast.NodeVisitor):
    """Collects the changes of a program."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._lines = [0, *(match.end() for match in _CODE_LINE_END.finditer(code))]
        self._edits: list[tuple[int, int, str]] = []

    def edited(self) -> bytes:
        """Return the changed program."""
        parts, position = [], 0
        for start, end, text in sorted(self._edits):
            parts += [self._code[position:start], text.encode()]
            position = end
        return b"".join([*parts, self._code[position:]])

    def visit_Subscript(self, node: ast.Subscript) -> None:  # the name that ast wants
        start, end = self._span(node.value)
        self._edits += [(start, start, f"{_REVEAL}("), (end, end, ")")]
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Replace an f-string by its expressions: Python 3.11 does not know where they are."""
        values = [part.value for part in ast.walk(node) if isinstance(part, ast.FormattedValue)]
        self._replace(node, f"str(({''.join(f'{ast.unparse(_Revealing().visit(value))}, ' for value in values)}))")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._replace(node.annotation, "Any")
        for part in (node.target, node.value):
            if part is not None:
                self.visit(part)

    def visit_arg(self, node: ast.arg) -> None:
        if node.annotation is not None:
            self._replace(node.annotation, "Any")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.returns is not None:
            self._replace(node.returns, "Any")
            node.returns = None
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def _replace(self, node: ast.expr, text: str) -> None:
        """Replace an expression by another one with as many lines."""
        start, end = self._span(node)
        line_ends = "\n" * self._code.count(b"\n", start, end)
        self._edits.append((start, end, f"({text}{line_ends})"))

    def _span(self, node: ast.expr) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[end_line - 1] + end_column


class _Revealing(ast.NodeTransformer):
    """Puts `reveal_type` around what an expression reads a key or an item of."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        self.generic_visit(node)
        node.value = ast.Call(ast.Name(_REVEAL, ast.Load()), [node.value], [])
        return node


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
