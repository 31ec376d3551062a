"""What holds for each facade: it stays small, and it is written against the public interface alone."""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ahvn_tools

FACADES = Path(ahvn_tools.__file__).parent / "compat"
MAX_LINES = {"agently": 158, "agentheaven": 119, "agentscope": 955, "mutsumi": 139, "toolsystem": 265}
"""Lines of code of each facade: without blank lines, comments and docstrings. What does not fit belongs in the core."""

LAYOUT = {
    tokenize.COMMENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.INDENT, tokenize.NEWLINE, tokenize.NL,
}  # fmt: skip

every_facade = pytest.mark.parametrize("facade", sorted(MAX_LINES))


def files_of(facade: str) -> list[Path]:
    package = FACADES / facade
    return sorted(package.rglob("*.py")) if package.is_dir() else [package.with_suffix(".py")]


def nodes_of(facade: str, kind: type[ast.AST]) -> Iterator[tuple[Path, Any]]:
    for path in files_of(facade):
        yield from ((path, node) for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, kind))


def docstring_lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            match statement:
                case ast.Expr(value=ast.Constant(value=str())):
                    yield from range(statement.lineno, statement.end_lineno + 1)


def lines_of_code(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for token in tokens if token.type not in LAYOUT for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - set(docstring_lines(ast.parse(text))))


def is_public(module: str, name: str) -> bool:
    """Return whether a name of this package may be imported by its users from that module."""
    if module.startswith("ahvn_tools.compat.") or module == "ahvn_tools.errors":
        return True
    package = FACADES.parent.parent.joinpath(*module.split("."), "__init__.py")
    return package.is_file() and name in names_of(package)


def names_of(package: Path) -> list[str]:
    """Return `__all__` of a package, which may need an extra to be imported."""
    for statement in ast.parse(package.read_text("utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=names):
                return list(ast.literal_eval(names))
    return []


def is_private(node: ast.AST) -> bool:
    """Return whether code reads or sets a private attribute of something other than itself."""
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return False
        case ast.Attribute(attr=name):
            return name.startswith("_") and not name.startswith("__")
    return False


def test_lines_of_code_leave_out_blank_lines_comments_and_docstrings():
    text = '"""Docs."""\n\n# a comment\nx = (\n    1  # one\n)\n\n\ndef f():\n    """Docs\n    of f."""\n    return x\n'
    assert lines_of_code(text) == 5


def test_every_facade_has_a_limit():
    assert {path.stem for path in FACADES.iterdir() if path.stem.strip("_") == path.stem} == set(MAX_LINES)


@every_facade
def test_a_facade_stays_small(facade):
    assert sum(lines_of_code(path.read_text("utf-8")) for path in files_of(facade)) <= MAX_LINES[facade]


@every_facade
def test_a_facade_imports_public_names_only(facade):
    private = [
        f"{path.name}: {node.module}.{alias.name}"
        for path, node in nodes_of(facade, ast.ImportFrom)
        if (node.module or "").startswith("ahvn_tools")
        for alias in node.names
        if not is_public(node.module or "", alias.name)
    ]
    assert private == []


@every_facade
def test_a_facade_imports_no_other_facade(facade):
    others = tuple(f"ahvn_tools.compat.{other}" for other in MAX_LINES if other != facade)
    modules = [node.module or "" for _, node in nodes_of(facade, ast.ImportFrom)]
    modules += [alias.name for _, node in nodes_of(facade, ast.Import) for alias in node.names]
    assert [module for module in modules if module.startswith(others)] == []


@every_facade
def test_a_facade_uses_no_private_attribute(facade):
    attributes = nodes_of(facade, ast.Attribute)
    assert [f"{path.name}:{node.lineno} {node.attr}" for path, node in attributes if is_private(node)] == []
