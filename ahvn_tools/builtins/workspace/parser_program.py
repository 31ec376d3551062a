"""The process that parses source files of models' projects, which hostile files can neither hang nor harm.

It reads files from stdin and writes one line of JSON for each to stdout. It is started by its path, without the
packages of the host (`python -I -S`): it imports the standard library and, from the folders in its arguments, what a
file needs.
"""

from __future__ import annotations

import ast
import faulthandler
import importlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

READY = "ready"
"""The first line: the process has started, so that a later end is the fault of a file."""
MAX_DEFINITIONS = 1_000
"""The most definitions of one file."""
MAX_PROBLEMS = 20
"""The most syntax errors of one file: those after the first few are often consequences."""
_MAX_NAME_CHARS = 120
_MAX_SIGNATURE_CHARS = 240

LANGUAGES = {
    "C": (".c .h", "tree_sitter_c", "language"),
    "C++": (".cc .cpp .cxx .hh .hpp .hxx", "tree_sitter_cpp", "language"),
    "C#": (".cs", "tree_sitter_c_sharp", "language"),
    "Go": (".go", "tree_sitter_go", "language"),
    "Java": (".java", "tree_sitter_java", "language"),
    "JavaScript": (".js .mjs .cjs .jsx", "tree_sitter_javascript", "language"),
    "PHP": (".php", "tree_sitter_php", "language_php"),
    "Ruby": (".rb", "tree_sitter_ruby", "language"),
    "Rust": (".rs", "tree_sitter_rust", "language"),
    "TypeScript": (".ts .mts .cts", "tree_sitter_typescript", "language_typescript"),
    "TSX": (".tsx", "tree_sitter_typescript", "language_tsx"),
}
"""The extensions of each language, and the module of its tree-sitter grammar with the function that returns it."""
_BY_EXTENSION = {
    extension: language for language, (extensions, *_) in LANGUAGES.items() for extension in extensions.split()
} | dict.fromkeys((".py", ".pyi", ".pyw"), "Python")

_NODES = {
    "Class": "class_declaration abstract_class_declaration class_specifier class singleton_class",
    "Struct": "struct_specifier struct_declaration struct_item",
    "Union": "union_specifier union_item",
    "Record": "record_declaration",
    "Enum": "enum_specifier enum_declaration enum_item",
    "Interface": "interface_declaration annotation_type_declaration",
    "Trait": "trait_declaration trait_item",
    "Impl": "impl_item",
    "Namespace": "namespace_definition namespace_declaration internal_module",
    "Module": "module mod_item",
    "Macro": "macro_definition",
    "Type": "type_definition type_spec type_alias alias_declaration concept_definition delegate_declaration "
    "type_alias_declaration type_item",
    "Function": "function_definition function_declaration generator_function_declaration function_signature "
    "function_item function_signature_item local_function_statement declaration field_declaration",
    "Method": "method_declaration method_definition method_signature abstract_method_signature method_elem method "
    "singleton_method constructor_declaration compact_constructor_declaration",
    # They define something if their value is a function or a class.
    "Value": "variable_declarator assignment_expression field_definition public_field_definition",
}
_KINDS = {node_type: kind for kind, node_types in _NODES.items() for node_type in node_types.split()}
"""What the nodes of all grammars define, by their type. The `tags.scm` of the grammars name less: no constructors and
enums of Java, and no `impl` of Rust."""
_KINDS_BY_VALUE = {
    "arrow_function": "Function", "function_expression": "Function", "generator_function": "Function",
    "class": "Class", "struct_specifier": "Struct", "union_specifier": "Union", "enum_specifier": "Enum",
    "struct_type": "Struct", "interface_type": "Interface",
}  # fmt: skip
"""What a named value, or a type that gets a name in C and Go, is by the type of its node."""
_WITH_METHODS = frozenset({"Class", "Struct", "Union", "Interface", "Trait", "Impl", "Enum", "Record"})
_DECLARATOR_NAMES = frozenset({
    "identifier", "field_identifier", "type_identifier", "qualified_identifier", "destructor_name", "operator_name",
})  # fmt: skip
_TOML_PLACE = re.compile(r"^(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)


class Definition(NamedTuple):
    """A class, a function or something else that a file defines."""

    depth: int
    """How many definitions it is in."""
    kind: str
    name: str
    first_line: int
    last_line: int
    signature: str
    """Its source text before the body."""


class SyntaxProblem(NamedTuple):
    """A place where a file does not follow the syntax of its language."""

    line: int
    """From 1."""
    column: int
    """From 1."""
    message: str


def language_of(path: str) -> str | None:
    """Return the name of the language of a file, by its extension."""
    name = path.rpartition("/")[2]
    return _BY_EXTENSION.get(name[name.rfind(".") :].lower()) if "." in name else None


def on_one_line(text: str, max_chars: int) -> str:
    """Return a text without line breaks, and not longer than allowed."""
    line = " ".join(text.split())
    return line if len(line) <= max_chars else f"{line[:max_chars]}…"


def main(stdin: BinaryIO, stdout: BinaryIO, seconds: float) -> None:
    """Write READY, then answer each file: a line of JSON with `task`, `language` and `size`, and that many bytes.

    The process ends if one file takes longer than `seconds`.
    """
    stdout.write(READY.encode() + b"\n")
    stdout.flush()
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - one module less to import
        while header := stdin.readline():
            request = json.loads(header)
            content = stdin.read(request["size"])
            faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
            reply = _answer(request["task"], request["language"], content)
            faulthandler.cancel_dump_traceback_later()
            stdout.write(json.dumps(reply).encode() + b"\n")
            stdout.flush()


def _answer(task: str, language: str, content: bytes) -> dict[str, Any]:
    try:
        if task == "check":
            check = _CHECKS.get(language)
            return {"problems": list(check(content) if check else _tree_problems(content, language))}
        definitions = _python_definitions(content) if language == "Python" else _tree_definitions(content, language)
        found = list(islice(definitions, MAX_DEFINITIONS + 1))
        return {"definitions": found[:MAX_DEFINITIONS], "is_complete": len(found) <= MAX_DEFINITIONS}
    except SyntaxError as error:
        place = f" in line {error.lineno}" if error.lineno else ""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return {"reason": f"not valid Python {version}: {error.msg}{place}"}
    except UnicodeDecodeError:
        return {"reason": "not a UTF-8 text"}
    except (RecursionError, MemoryError):
        return {"reason": "nested too deeply to parse"}
    except ValueError as error:  # pragma: no cover - a NUL byte before Python 3.11.4, a grammar of another version
        return {"reason": f"cannot be parsed: {error}"}


def _python_definitions(content: bytes) -> Iterator[Definition]:
    """Yield what a Python file defines. Raises the errors of `ast.parse`, of which there are many."""
    remaining: list[tuple[ast.AST, int]] = [(ast.parse(content), 0)]
    while remaining:
        node, depth = remaining.pop()
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            kind = ("Method" if depth else "Function") if is_function else "Class"
            yield _definition(depth, kind, node.name, (first, node.end_lineno or node.lineno), _python_signature(node))
            depth += 1
        if not is_function:
            children = ast.iter_child_nodes(node)
            inner = [child for child in children if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case))]
            remaining += [(child, depth) for child in reversed(inner)]


def _definition(depth: int, kind: str, name: str, lines: tuple[int, int], signature: str) -> Definition:
    name, signature = on_one_line(name, _MAX_NAME_CHARS), on_one_line(signature, _MAX_SIGNATURE_CHARS)
    return Definition(depth, kind, name, *lines, signature)


def _python_signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    try:
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(map(ast.unparse, [*node.bases, *node.keywords]))
            return f"{node.name}({bases})" if bases else node.name
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        return f"{prefix}{node.name}({ast.unparse(node.args)}){returns}"
    except RecursionError:  # a default value of many nested expressions
        return node.name


def _python_problems(content: bytes) -> Iterator[SyntaxProblem]:
    """Yield the syntax error that Python finds first."""
    try:
        compile(content, "<file>", "exec", dont_inherit=True)
    except SyntaxError as error:
        yield SyntaxProblem(error.lineno or 1, max(error.offset or 1, 1), f"{type(error).__name__}: {error.msg}")
    except ValueError as error:  # pragma: no cover - a NUL byte, before Python 3.11.4
        yield SyntaxProblem(1, 1, f"SyntaxError: {error}")


def _json_problems(content: bytes) -> Iterator[SyntaxProblem]:
    text = content.decode("utf-8-sig")
    try:
        json.loads(text, parse_int=float)  # a number of many digits is no error, and slow to convert
    except json.JSONDecodeError as error:
        yield SyntaxProblem(error.lineno, error.colno, error.msg)


def _toml_problems(content: bytes) -> Iterator[SyntaxProblem]:
    text = content.decode()
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_PLACE.match(str(error))
        message, line, column = found.groups() if found else (str(error), None, None)
        yield SyntaxProblem(int(line or text.count("\n") + 1), int(column or 1), message)


def _yaml_problems(content: bytes) -> Iterator[SyntaxProblem]:
    """Yield the first error of a YAML file. Aliases are not expanded and tags build nothing."""
    import yaml

    try:
        for _ in yaml.parse(content, Loader=yaml.SafeLoader):
            pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or str(error).partition("\n")[0]
        yield SyntaxProblem(mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, text)


_CHECKS = {"Python": _python_problems, "JSON": _json_problems, "TOML": _toml_problems, "YAML": _yaml_problems}


def _tree_problems(content: bytes, language: str) -> Iterator[SyntaxProblem]:
    """Yield the first places that the grammar does not know."""
    remaining = [_parse(content, language)]
    count = 0
    while remaining and count < MAX_PROBLEMS:
        node = remaining.pop()
        if node.is_error or node.is_missing:
            count += 1
            missing = f"Syntax error: {node.type!r} is missing."
            message = missing if node.is_missing else f"Syntax error at {on_one_line(_text(node)[:200], 40)!r}."
            yield SyntaxProblem(node.start_point.row + 1, node.start_point.column + 1, message)
        elif node.has_error:
            remaining += reversed(node.children)


def _tree_definitions(content: bytes, language: str) -> Iterator[Definition]:
    remaining: list[tuple[Any, int, str]] = [(_parse(content, language), 0, "")]
    while remaining:
        node, depth, outer_kind = remaining.pop()
        kind, name = _kind_and_name(node) if node.is_named and node.type in _KINDS else ("", "")
        if kind and name:
            is_in_class = outer_kind in _WITH_METHODS or "::" in name
            outer_kind = "Method" if kind == "Function" and is_in_class else kind
            yield _definition(depth, outer_kind, name, _lines(node), _signature(node, content))
            depth += 1
            if outer_kind in {"Function", "Method", "Macro", "Type"} or node.type == "type_definition":
                continue  # what it contains is not shown
        remaining += [(child, depth, outer_kind) for child in reversed(node.named_children)]


def _parse(content: bytes, language: str) -> Any:
    import tree_sitter

    _, module, function = LANGUAGES[language]
    grammar = getattr(importlib.import_module(module), function)
    return tree_sitter.Parser(tree_sitter.Language(grammar())).parse(content).root_node


def _kind_and_name(node: Any) -> tuple[str, str]:
    """Return what a node defines; empty texts if it only uses what is defined elsewhere."""
    kind, named = _KINDS[node.type], _field(node, "name", "left", "property", "declarator", "type", "value")
    if node.type.endswith("_specifier") and not _field(node, "body"):
        return "", ""
    if kind in {"Value", "Type"}:
        value = _field(node, "value", "right", "type")
        kind = _KINDS_BY_VALUE.get("" if value is None else value.type, "" if kind == "Value" else kind)
    declarator = _field(node, "declarator") if kind == "Function" else None
    if declarator is not None or node.type in {"declaration", "field_declaration"}:
        return kind, _declared_function(declarator)
    if receiver := _field(node, "receiver"):  # a method of Go
        types = _text(receiver).strip("() \t\n").split()
        return kind, f"{types[-1].lstrip('*')}.{_text(named)}" if types else _text(named)
    trait = _field(node, "trait") if kind == "Impl" else None
    return kind, f"{_text(trait)} for {_text(named)}" if trait else _text(named)


def _field(node: Any, *names: str) -> Any:
    return next((child for name in names if (child := node.child_by_field_name(name)) is not None), None)


def _text(node: Any) -> str:
    return "" if node is None else (node.text or b"").decode(errors="replace")


def _declared_function(declarator: Any) -> str:
    """Return the name in a declarator of C such as `*name(int)`; an empty text if it declares no function."""
    if declarator is not None and declarator.type == "operator_cast":  # a conversion in C++
        return _text(declarator).partition("(")[0]
    is_function = False
    while declarator is not None and declarator.type not in _DECLARATOR_NAMES:
        is_function = is_function or declarator.type == "function_declarator"
        if declarator.type == "parenthesized_declarator":  # a pointer to a function
            return ""
        declarator = _field(declarator, "declarator") or next(iter(declarator.named_children), None)
    return _text(declarator) if is_function else ""


def _lines(node: Any) -> tuple[int, int]:
    end = node.end_point.row + (1 if node.end_point.column else 0)
    return node.start_point.row + 1, max(end, node.start_point.row + 1)


def _signature(node: Any, content: bytes) -> str:
    """Return the text of a definition before its body."""
    value = _field(node, "value", "right")
    body = _field(node, "body") or (_field(value, "body") if value is not None else None)
    end = min(body.start_byte if body is not None else node.end_byte, node.start_byte + 1_000)
    return content[node.start_byte : end].decode(errors="replace").rstrip(" \t\r\n;{")


if __name__ == "__main__":  # pragma: no cover  # in a process of its own
    sys.path += sys.argv[2:]
    main(sys.stdin.buffer, sys.stdout.buffer, float(sys.argv[1]))
