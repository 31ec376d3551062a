"""Outline and syntax errors of files in languages with a tree-sitter grammar."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from .definitions import Definitions, on_one_line
from .languages import Language, Rule
from .problems import MAX_PROBLEMS, SyntaxProblem

_NAMES = frozenset({
    "identifier", "field_identifier", "type_identifier", "qualified_identifier", "destructor_name", "operator_name",
})  # fmt: skip


def outline(content: bytes, language: Language) -> Definitions:
    """Return what a file defines."""
    definitions = Definitions()
    remaining: list[tuple[Any, int, str]] = [(_parse(content, language), 0, "")]
    while remaining:
        node, depth, outer_kind = remaining.pop()
        rule = language.rules.get(node.type) if node.is_named else None
        found = _definition(node, rule) if rule else None
        if rule and found:
            kind, name = found
            outer_kind = definitions.add(
                depth=depth, kind=kind, outer_kind=outer_kind, name=name, lines=_lines(node),
                signature=_signature(node, content),
            )  # fmt: skip
            depth += 1
            if rule.is_leaf or outer_kind in {"Function", "Method"}:
                continue
        remaining += [(child, depth, outer_kind) for child in reversed(node.named_children)]
    return definitions


def problems(content: bytes, language: Language) -> Iterator[SyntaxProblem]:
    """Yield the first places that the grammar does not know."""
    remaining = [_parse(content, language)]
    count = 0
    while remaining and count < MAX_PROBLEMS:
        node = remaining.pop()
        if node.is_error or node.is_missing:
            count += 1
            yield SyntaxProblem(node.start_point.row + 1, node.start_point.column + 1, _message(node))
        elif node.has_error:
            remaining += reversed(node.children)


def _parse(content: bytes, language: Language) -> Any:
    import tree_sitter

    grammar = getattr(importlib.import_module(language.module), language.function)
    return tree_sitter.Parser(tree_sitter.Language(grammar())).parse(content).root_node


def _message(node: Any) -> str:
    if node.is_missing:
        return f"Syntax error: {node.type!r} is missing."
    return f"Syntax error at {on_one_line(_text(node)[:200], 40)!r}."


def _definition(node: Any, rule: Rule) -> tuple[str, str] | None:
    """Return the kind and the name; None if the node defines nothing."""
    name = node.child_by_field_name(rule.name)
    if name is None or (rule.needs and node.child_by_field_name(rule.needs) is None):
        return None
    kind = rule.kind
    if rule.kinds:
        decisive = node.child_by_field_name(rule.kind_field)
        kind = rule.kinds.get(decisive.type, kind) if decisive is not None else kind
    text = _NAME_FORMS[rule.name_form](node, name)
    return (kind, text) if kind and text else None


def _text(node: Any) -> str:
    text: bytes = node.text or b""
    return text.decode(errors="replace")


def _function_name(_node: Any, declarator: Any) -> str | None:
    """Return the name in a C declarator such as `*name(int)`; None if it declares no function."""
    if declarator.type == "operator_cast":  # a conversion in C++
        return _text(declarator).partition("(")[0]
    is_function = False
    while declarator is not None and declarator.type not in _NAMES:
        is_function = is_function or declarator.type == "function_declarator"
        if declarator.type == "parenthesized_declarator":  # a pointer to a function
            return None
        inner = declarator.child_by_field_name("declarator")
        declarator = inner if inner is not None else next(iter(declarator.named_children), None)
    return _text(declarator) if is_function and declarator is not None else None


def _method_name(node: Any, name: Any) -> str:
    """Return the name of a Go method with the type of its receiver."""
    receiver = _text(node.child_by_field_name("receiver")).strip("() \t\n").split()
    return f"{receiver[-1].lstrip('*')}.{_text(name)}" if receiver else _text(name)


def _implementation_name(node: Any, name: Any) -> str:
    trait = node.child_by_field_name("trait")
    return _text(name) if trait is None else f"{_text(trait)} for {_text(name)}"


_NAME_FORMS = {
    "text": lambda _node, name: _text(name),
    "declarator": _function_name,
    "receiver": _method_name,
    "implementation": _implementation_name,
}


def _lines(node: Any) -> tuple[int, int]:
    end = node.end_point.row + (1 if node.end_point.column else 0)
    return node.start_point.row + 1, max(end, node.start_point.row + 1)


def _signature(node: Any, content: bytes) -> str:
    """Return the text of a definition before its body."""
    body = node.child_by_field_name("body")
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if body is None and value is not None:
        body = value.child_by_field_name("body")
    end = min(body.start_byte if body is not None else node.end_byte, node.start_byte + 1_000)
    return content[node.start_byte : end].decode(errors="replace").rstrip(" \t\r\n;{")
