"""Languages: by which names their files are found, and which nodes of their syntax trees define something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one type of node defines something."""

    kind: str | None
    """`Class`, `Method` … None: the node defines something only if `kinds` says so."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Other kinds, by the type of the node in the field `kind_field`."""
    kind_field: str = ""
    name: str = "name"
    """The field that has the name."""
    name_form: str = "text"
    """`text`: the name is the text of the field. `declarator`, `receiver`, `implementation`: C, Go, Rust."""
    needs: str = ""
    """A field without which the node only uses what is defined elsewhere."""
    is_leaf: bool = False
    """Whether what the node contains is not shown. Functions and methods never show what they contain."""


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language with a tree-sitter grammar."""

    name: str
    extensions: tuple[str, ...]
    module: str
    """The Python module of the grammar."""
    function: str = "language"
    """The function of the module that returns the grammar."""
    rules: Mapping[str, Rule]
    """By type of node."""


_FUNCTION, _METHOD = Rule(kind="Function"), Rule(kind="Method")
_CLASS, _INTERFACE, _ENUM = Rule(kind="Class"), Rule(kind="Interface"), Rule(kind="Enum")
_STRUCT, _TYPE, _NAMESPACE = Rule(kind="Struct"), Rule(kind="Type", is_leaf=True), Rule(kind="Namespace")
_MODULE, _TRAIT, _RECORD = Rule(kind="Module"), Rule(kind="Trait"), Rule(kind="Record")

_C_FUNCTION = Rule(kind="Function", name="declarator", name_form="declarator")
_C_TYPE = Rule(
    kind="Type", kinds={"struct_specifier": "Struct", "union_specifier": "Union", "enum_specifier": "Enum"},
    kind_field="type", name="declarator", is_leaf=True,
)  # fmt: skip
_C: Mapping[str, Rule] = {
    "function_definition": _C_FUNCTION,
    "declaration": _C_FUNCTION,
    "type_definition": _C_TYPE,
    "struct_specifier": Rule(kind="Struct", needs="body"),
    "union_specifier": Rule(kind="Union", needs="body"),
    "enum_specifier": Rule(kind="Enum", needs="body"),
}
_CPP: Mapping[str, Rule] = {
    **_C,
    "field_declaration": _C_FUNCTION,
    "class_specifier": Rule(kind="Class", needs="body"),
    "namespace_definition": _NAMESPACE,
    "alias_declaration": _TYPE,
    "concept_definition": _TYPE,
}
_FUNCTION_VALUES = {
    "arrow_function": "Function", "function_expression": "Function", "generator_function": "Function",
    "class": "Class",
}  # fmt: skip
_JAVASCRIPT: Mapping[str, Rule] = {
    "class_declaration": _CLASS,
    "function_declaration": _FUNCTION,
    "generator_function_declaration": _FUNCTION,
    "method_definition": _METHOD,
    "variable_declarator": Rule(kind=None, kinds=_FUNCTION_VALUES, kind_field="value"),
    "assignment_expression": Rule(kind=None, kinds=_FUNCTION_VALUES, kind_field="right", name="left"),
    "field_definition": Rule(kind=None, kinds=_FUNCTION_VALUES, kind_field="value", name="property"),
}
_TYPESCRIPT: Mapping[str, Rule] = {
    **_JAVASCRIPT,
    "abstract_class_declaration": _CLASS,
    "interface_declaration": _INTERFACE,
    "enum_declaration": _ENUM,
    "type_alias_declaration": _TYPE,
    "function_signature": _FUNCTION,
    "method_signature": _METHOD,
    "abstract_method_signature": _METHOD,
    "internal_module": _NAMESPACE,
    "module": _MODULE,
    "public_field_definition": Rule(kind=None, kinds=_FUNCTION_VALUES, kind_field="value"),
}

LANGUAGES: tuple[Language, ...] = (
    Language(name="C", extensions=(".c", ".h"), module="tree_sitter_c", rules=_C),
    Language(
        name="C++", extensions=(".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), module="tree_sitter_cpp", rules=_CPP
    ),
    Language(
        name="C#", extensions=(".cs",), module="tree_sitter_c_sharp",
        rules={
            "namespace_declaration": _NAMESPACE,
            "class_declaration": _CLASS,
            "struct_declaration": _STRUCT,
            "record_declaration": _RECORD,
            "interface_declaration": _INTERFACE,
            "enum_declaration": _ENUM,
            "delegate_declaration": _TYPE,
            "method_declaration": _METHOD,
            "constructor_declaration": _METHOD,
            "local_function_statement": _FUNCTION,
        },
    ),
    Language(
        name="Go", extensions=(".go",), module="tree_sitter_go",
        rules={
            "function_declaration": _FUNCTION,
            "method_declaration": Rule(kind="Method", name_form="receiver"),
            "type_spec": Rule(
                kind="Type", kinds={"struct_type": "Struct", "interface_type": "Interface"}, kind_field="type"
            ),
            "type_alias": _TYPE,
            "method_elem": _METHOD,
        },
    ),
    Language(
        name="Java", extensions=(".java",), module="tree_sitter_java",
        rules={
            "class_declaration": _CLASS,
            "record_declaration": _RECORD,
            "interface_declaration": _INTERFACE,
            "annotation_type_declaration": _INTERFACE,
            "enum_declaration": _ENUM,
            "method_declaration": _METHOD,
            "constructor_declaration": _METHOD,
            "compact_constructor_declaration": _METHOD,
        },
    ),
    Language(
        name="JavaScript", extensions=(".js", ".mjs", ".cjs", ".jsx"), module="tree_sitter_javascript",
        rules=_JAVASCRIPT,
    ),
    Language(
        name="PHP", extensions=(".php",), module="tree_sitter_php", function="language_php",
        rules={
            "namespace_definition": _NAMESPACE,
            "class_declaration": _CLASS,
            "interface_declaration": _INTERFACE,
            "trait_declaration": _TRAIT,
            "enum_declaration": _ENUM,
            "function_definition": _FUNCTION,
            "method_declaration": _METHOD,
        },
    ),
    Language(
        name="Ruby", extensions=(".rb",), module="tree_sitter_ruby",
        rules={
            "module": _MODULE,
            "class": _CLASS,
            "singleton_class": Rule(kind="Class", name="value"),
            "method": _METHOD,
            "singleton_method": _METHOD,
        },
    ),
    Language(
        name="Rust", extensions=(".rs",), module="tree_sitter_rust",
        rules={
            "mod_item": _MODULE,
            "struct_item": _STRUCT,
            "union_item": Rule(kind="Union"),
            "enum_item": _ENUM,
            "trait_item": _TRAIT,
            "impl_item": Rule(kind="Impl", name="type", name_form="implementation"),
            "type_item": _TYPE,
            "function_item": _FUNCTION,
            "function_signature_item": _FUNCTION,
            "macro_definition": Rule(kind="Macro", is_leaf=True),
        },
    ),
    Language(
        name="TypeScript", extensions=(".ts", ".mts", ".cts"), module="tree_sitter_typescript",
        function="language_typescript", rules=_TYPESCRIPT,
    ),
    Language(
        name="TSX", extensions=(".tsx",), module="tree_sitter_typescript", function="language_tsx", rules=_TYPESCRIPT
    ),
)  # fmt: skip

PYTHON_EXTENSIONS = (".py", ".pyi", ".pyw")
BY_NAME: Mapping[str, Language] = {language.name: language for language in LANGUAGES}
_BY_EXTENSION = {
    extension: language.name for language in LANGUAGES for extension in language.extensions
} | dict.fromkeys(PYTHON_EXTENSIONS, "Python")


def language_of(path: str) -> str | None:
    """Return the name of the language of a file, by its extension."""
    name = path.rpartition("/")[2]
    return _BY_EXTENSION.get(name[name.rfind(".") :].lower()) if "." in name else None
