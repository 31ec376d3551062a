"""The pages of docs/ that are made from the code: `python -m tests.reference_pages` writes them.

Their texts are the docstrings of the package: correct a text there, and write the pages again.
"""

from __future__ import annotations

import ast
import functools
import html
import importlib
import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import docstring_parser

from ahvn_tools import builtins, errors, formats, middleware
from ahvn_tools.builtins.standard import GROUPS
from ahvn_tools.cli.app import COMMANDS, app
from ahvn_tools.cli.serve import ListenOptions, ServerOptions
from ahvn_tools.cli.sources import LoadingOptions, SourceOptions
from ahvn_tools.code_mode.code_limits import CodeLimits
from ahvn_tools.errors import ToolCallError, ToolSpecError
from ahvn_tools.manifest import model
from ahvn_tools.manifest.loader import LoadOptions
from ahvn_tools.manifest.middleware_table import MIDDLEWARE
from ahvn_tools.manifest.schema import json_schema
from ahvn_tools.mcp.client.connect_options import ConnectOptions
from ahvn_tools.mcp.server.run import ServerRunOptions
from ahvn_tools.mcp.trust.limits import Budgets, Limits
from ahvn_tools.registry import ToolRegistry
from ahvn_tools.schema.argument_changes import ArgumentChange
from ahvn_tools.settings import ToolOptions
from ahvn_tools.sources.http.options import HTTPToolOptions
from ahvn_tools.sources.http.request import HTTPOptions
from ahvn_tools.sources.openapi.options import OpenAPIOptions
from ahvn_tools.toolkit import Toolkit
from ahvn_tools.toolkit.calls import CallKeywords
from ahvn_tools.toolkit.conversation_loop import ConverseOptions
from ahvn_tools.toolkit.entry_options import AddOptions, SingleToolOptions, SkillOptions
from ahvn_tools.toolkit.imported_server import ImportOptions
from ahvn_tools.toolkit.mcp_server import ToolkitServerOptions
from ahvn_tools.toolkit.run import Decisions
from ahvn_tools.toolkit.selection import SelectionOptions
from tests.site.__main__ import ROOT, read_config, summary_of

DOCS = ROOT / "docs"

FOLDER = DOCS / "reference"

NOTE = "<!-- Made by `python -m tests.reference_pages` from the code and its docstrings. Change the text there. -->"


def code(text: str) -> str:
    """Return code for a cell of a table, where neither code hosts nor the site take its `|` as a border."""
    if "|" not in text:
        return f"`{text}`"
    escaped = html.escape(text, quote=False)
    for character, entity in (("|", "&#124;"), ("*", "&#42;"), ("_", "&#95;"), ("[", "&#91;")):
        escaped = escaped.replace(character, entity)
    return f"<code>{escaped}</code>"


def cell(text: object) -> str:
    """Return a text for a cell: in one line, without borders."""
    plain = " ".join(str(text).split())
    parts = re.split(r"(`[^`]+`)", plain)
    return "".join(
        code(part[1:-1]) if part.startswith("`") and len(part) > 1 else part.replace("|", "&#124;") for part in parts
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(line)} |") for line in lines)


def page(title: str, *parts: str) -> str:
    """Return the text of a page."""
    return "\n\n".join([f"# {title}", NOTE, *(part for part in parts if part)]) + "\n"


def split_union(kind: str) -> str:
    """Return a type as code, with `or` between the types of a union."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(kind):
        depth += (character in "[(") - (character in "])")
        if depth == 0 and kind.startswith(" | ", position):
            parts.append(kind[start:position])
            start = position + 3
    return " or ".join(map(code, [*parts, kind[start:]]))


@dataclass(frozen=True)
class Member:
    """A key of a TypedDict, a field of a dataclass, or a parameter of a function."""

    name: str
    kind: str
    default: str
    text: str


@functools.cache
def tree(source: type) -> tuple[str, ast.ClassDef]:
    """Return the source of a class, and its syntax."""
    text = textwrap.dedent(inspect.getsource(source))
    return text, ast.parse(text).body[0]  # type: ignore[return-value]


def to_kind(annotation: ast.expr) -> str:
    """Return the type in an annotation: without its check, and without quotes."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        annotation = annotation.slice.elts[0]  # type: ignore[attr-defined]
    return re.sub(r"'([A-Z]\w+(?:\[.*\])?)'", r"\1", ast.unparse(annotation)).strip("'")


def members(source: type) -> list[Member]:
    """Return the members of a class and of its bases, in their order, each with the docstring after it."""
    found: dict[str, Member] = {}
    text, syntax = tree(source)
    for name in syntax.bases:  # a TypedDict does not remember its bases
        base = vars(sys.modules[source.__module__])[ast.unparse(name)]
        if base is not TypedDict:
            found.update({member.name: member for member in members(base)})
    for item, following in zip(syntax.body, [*syntax.body[1:], ast.Pass()], strict=True):
        if not (isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)):
            continue
        docstring = following.value.value if is_docstring(following) else ""
        default = "" if item.value is None else ast.get_source_segment(text, item.value) or ""
        found[item.target.id] = Member(item.target.id, to_kind(item.annotation), default, docstring)
    return list(found.values())


def is_docstring(item: ast.stmt) -> Any:
    """Return whether a statement is only a text."""
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)


def parameters(function: Callable[..., Any]) -> list[Member]:
    """Return the parameters of a function; their texts are in its docstring."""
    text = textwrap.dedent(inspect.getsource(function))
    arguments = ast.parse(text).body[0].args  # type: ignore[attr-defined]
    positional = [argument for argument in arguments.args if argument.arg != "self"]
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
    names = inspect.unwrap(function).__globals__
    return [
        Member(
            argument.arg, to_kind(argument.annotation), "" if default is None else to_default(default, text, names), ""
        )
        for argument, default in zip([*positional, *arguments.kwonlyargs], defaults, strict=True)
    ]


def to_default(default: ast.expr, text: str, names: Mapping[str, Any]) -> str:
    """Return a default as it is written; of a constant its value."""
    written = ast.get_source_segment(text, default) or ""
    return repr(names[written]) if written.isidentifier() and written.isupper() else written


def option_table(found: Iterable[Member], *, has_defaults: bool = False, word: str = "option") -> str:
    """Return the table of some options."""
    head = [word, "type", *(["default"] if has_defaults else []), "meaning"]
    rows = []
    for one in found:
        default = [code(one.default) if one.default else "required"] if has_defaults else []
        rows.append([f"`{one.name}`", split_union(one.kind), *default, cell(one.text)])
    return table(head, rows)


def docstring(source: Any) -> str:
    """Return a docstring without its examples."""
    return (inspect.getdoc(source) or "").split(">>>")[0].strip()


def first_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence of a text, and the rest."""
    plain = " ".join(text.split())
    match = re.match(r"(.+?[.:])(?:\s+(?=[A-Z`])|$)(.*)", plain)
    return (match[1], match[2]) if match else (plain, "")


# options.md

TAKEN_BY = {
    "tool": (ToolOptions, "`@tool`, `@reg_toolspec`, `ToolSpec.from_…` and `transform`"),
    "add": (AddOptions, "`Toolkit.add`, and `@kit.tool`"),
    "mcp": (ImportOptions, "`Toolkit.add_mcp`, for all tools of the server"),
    "single": (SingleToolOptions, "`tools={…}` of `add_mcp`, for one tool"),
}


def all_tool_options() -> str:
    """Return one table of the options of a tool, with the functions that take each."""
    of_connections = {member.name for member in members(ConnectOptions)}
    found: dict[tuple[str, str], list[Any]] = {}
    for mark, (source, _) in TAKEN_BY.items():
        for member in members(source):
            if mark == "mcp" and member.name in of_connections | own_names(ImportOptions):
                continue
            found.setdefault((member.name, member.kind), [member, []])[1].append(mark)
    ordered = sorted(found.values(), key=lambda pair: pair[0].name)
    rows = [
        [f"`{member.name}`", split_union(member.kind), ", ".join(marks), cell(member.text)] for member, marks in ordered
    ]
    return table(["option", "type", "taken by", "meaning"], rows)


def own_names(source: type) -> set[str]:
    """Return the members that a class itself declares."""
    return {item.target.id for item in tree(source)[1].body if isinstance(item, ast.AnnAssign)}  # type: ignore[union-attr]


def http_options() -> Iterator[Member]:
    """Yield the options that only HTTP tools have; those of requests have their texts in HTTPOptions."""
    of_requests = {member.name: member for member in members(HTTPOptions)}
    for member in members(HTTPToolOptions):
        if member.name in own_names(HTTPToolOptions):
            yield replace(member, text=member.text or of_requests[member.name].text)


def options_page() -> str:
    own = [member for member in members(ImportOptions) if member.name in own_names(ImportOptions)]
    legend = table(["taken by", "function"], ([mark, text] for mark, (_, text) in TAKEN_BY.items()))
    return page(
        "Options",
        "All options are keyword arguments, and may be left out. An unknown one is an error that names similar ones.",
        "## Toolkits",
        "`Toolkit(name, …)` takes these.",
        constructor_table(Toolkit),
        "## Tools",
        legend,
        all_tool_options(),
        "### Changes of an argument",
        "What `arguments` has for each argument:",
        option_table(members(ArgumentChange), word="key"),
        "## MCP servers",
        "`add_mcp` also takes the options of tools that have the mark `mcp` above.",
        option_table(own),
        "### Connections",
        "`add_mcp` and `mcp.connect` take these.",
        option_table(members(ConnectOptions)),
        "### Limits",
        docstring(Limits),
        option_table(members(Limits), has_defaults=True, word="field"),
        "### Budgets",
        docstring(Budgets),
        option_table(members(Budgets), has_defaults=True, word="field"),
        "## OpenAPI documents",
        "`ToolSpec.from_openapi` takes these.",
        option_table(members(OpenAPIOptions)),
        "## HTTP tools",
        "`ToolSpec.from_http` takes these, and the options of a tool.",
        option_table(http_options()),
        "### Requests",
        "The fields of `HTTPOptions`, the option `http` of HTTP tools and OpenAPI documents.",
        option_table(members(HTTPOptions), has_defaults=True, word="field"),
        "## Load",
        docstring(LoadOptions),
        option_table(members(LoadOptions)),
        "## Skills",
        docstring(SkillOptions),
        option_table(members(SkillOptions)),
        "## Selections",
        docstring(SelectionOptions),
        option_table(members(SelectionOptions)),
        "## Calls",
        docstring(CallKeywords),
        option_table(members(CallKeywords)),
        "## Calls that wait",
        "`resume` and `aresume` take these.",
        option_table(members(Decisions)),
        "## Conversations",
        "`converse`, `stream_converse` and their async twins take these, and those of calls that wait.",
        option_table(member for member in members(ConverseOptions) if member.name in own_names(ConverseOptions)),
        "## Programs",
        "The fields of `CodeLimits`, the option `limits` of `add_code_mode`.",
        option_table(members(CodeLimits), has_defaults=True, word="field"),
        "## Servers",
        "`to_fastmcp_server`, `serve` and `aserve` take these.",
        option_table(members(ToolkitServerOptions)),
        "### How a server runs",
        "`serve` and `aserve` also take these. All but `log_level` are for HTTP.",
        option_table(members(ServerRunOptions)),
    )


# errors.md


def subclasses(source: type) -> Iterator[type]:
    """Yield the errors below one in the order of the module."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, source) and kind is not source:
            yield kind


def errors_page() -> str:
    codes = []
    for kind in subclasses(ToolCallError):
        meaning, advice = first_sentence(docstring(kind))
        codes.append([f"`{kind.code}`<br>`{kind.__name__}`", cell(meaning), cell(advice)])  # type: ignore[attr-defined]
    mistakes = []
    for kind in subclasses(ToolSpecError):
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        mistakes.append([f"`{kind.__name__}`", bases, cell(docstring(kind))])
    return page(
        "Errors",
        "Import them from `ahvn_tools.errors`: `from ahvn_tools.errors import ToolTimeoutError`.",
        "## Codes of failed calls",
        "`exec` returns a result with `error.code`. `call` raises the exception, a `ToolCallError`. Codes are stable.",
        table(["code, exception", "meaning", "what to do"], codes),
        "An exception that a tool raises is `tool_error`, too. A `ToolError` reaches the model with its "
        "text; the text of any other exception is hidden unless the toolkit has `mask_errors=False`.",
        "## Mistakes of the developer",
        "Each is a `ToolSpecError`, and is raised where the mistake is made.",
        table(["exception", "is also", "meaning"], mistakes),
    )


# formats.md

SAMPLE = ToolSpecError  # the error of a choice that a provider has no option for


def export_options(name: str) -> dict[str, str]:
    """Return the options of an export, each with the text of its docstring."""
    function = formats.get(name).export
    texts = dict.fromkeys([member.name for member in parameters(function)][1:], "")
    for item in re.findall(r"^- (.*(?:\n  .*)*)", docstring(function), re.MULTILINE):
        if (match := re.match(r"`(\w+)[`=]", item)) and match[1] in texts:
            texts[match[1]] = item
    return texts


def chooses(name: str, *arguments: Any, **options: Any) -> str:
    """Return whether a format can say this choice."""
    try:
        formats.get(name).choice(*arguments, **options)
    except SAMPLE:
        return "refused"
    return "in words" if name == "prompt" else "yes"


def formats_page() -> str:
    names = formats.BUILT_IN
    supported: dict[str, dict[str, str]] = {}
    for name in names:
        for option, text in export_options(name).items():
            supported.setdefault(option, {})[name] = "–" if "has no effect" in text else "yes"
    head = ["", *(f"`{name}`" for name in names)]
    choices = {
        '`"auto"`': lambda name: chooses(name, "auto"),
        '`"required"`': lambda name: chooses(name, "required"),
        '`"none"`': lambda name: chooses(name, "none"),
        "one tool": lambda name: chooses(name, "add"),
        "one of several": lambda name: chooses(name, ["add", "find"]),
        "`parallel=False`": lambda name: chooses(name, "auto", parallel=False),
    }
    parts = []
    for name in names:
        module = formats.get(name)
        parts += [f"## {name}", (module.__doc__ or "").split("\n\n", maxsplit=1)[0]]
        for function in ("export", "calls", "message", "results", "choice"):
            options = [one.name for one in parameters(getattr(module, function)) if one.default]
            shown = ", ".join(f"`{option}`" for option in options if option not in {"definitions", "text"})
            parts += [f"**`{function}`**{f' ({shown})' if shown else ''}: {docstring(getattr(module, function))}"]
    return page(
        "Formats",
        "## Options of export",
        "`spec.to(format, …)` and `kit.to(format, …)` pass these options to `export` of the format.",
        table(head, ([f"`{option}`", *(row.get(name, "–") for name in names)] for option, row in supported.items())),
        "## Choices",
        "What `choice` accepts. A refused choice raises `ToolSpecError`, which names an alternative.",
        table(head, ([label, *map(says, names)] for label, says in choices.items())),
        *parts,
    )


# middleware.md


def mentions(text: str, name: str) -> str:
    """Return the sentences of a text that name a parameter."""
    sentences = re.split(r"(?<=[.;])\s+(?=[A-Z`])", " ".join(text.split()))
    return " ".join(sentence for sentence in sentences if re.search(rf"`{name}\b", sentence))


def middleware_page() -> str:
    parts = []
    for name in sorted(name for name in middleware.__all__ if name.islower()):
        function = inspect.unwrap(getattr(middleware, name))
        text = docstring(function)
        described = MIDDLEWARE[name].model_fields if name in MIDDLEWARE else {}
        found = []
        for one in parameters(function):
            in_yaml = described[one.name].description or "" if one.name in described else ""
            is_same = one.name in described and "manifest" not in in_yaml and "environment" not in in_yaml
            said = in_yaml if is_same else mentions(text, one.name)
            found.append(replace(one, text=said))
        parts += [f"## {name}", text]
        parts += [option_table(found, has_defaults=True, word="parameter")] if found else []
    return page(
        "Middleware",
        "Each function of `ahvn_tools.middleware` returns a middleware for `Toolkit(middleware=[…])`, `kit.use`, and "
        "the option `middleware` of a tool. [Middleware](../how-to/middleware.md) shows how to use them.",
        *parts,
    )


# cli-commands.md


def command_options(name: str) -> Iterator[tuple[Any, str]]:
    """Yield each argument of a command, without those that load sources, with its text."""
    module, function = COMMANDS[name][0].split(":")
    command = getattr(importlib.import_module(f"ahvn_tools.cli.{module}"), function)
    texts = {one.arg_name: one.description or "" for one in docstring_parser.parse(command.__doc__ or "").params}
    texts |= (
        {one.name: one.text for one in (*members(ListenOptions), *members(ServerOptions))} if name == "serve" else {}
    )
    loading = {one.name for one in members(SourceOptions if name == "serve" else LoadingOptions)}
    for argument in app[name].assemble_argument_collection():
        if argument.show and not (argument.keys and argument.keys[0] in loading):
            yield argument, texts.get(argument.field_info.name, "")


def cli_page() -> str:
    parts = []
    for name, (path, _) in COMMANDS.items():
        module, function = path.split(":")
        command = getattr(importlib.import_module(f"ahvn_tools.cli.{module}"), function)
        parsed = docstring_parser.parse(command.__doc__ or "")
        rows, usage, loads = [], [f"ahvn-tools {name}"], "options" in inspect.signature(command).parameters
        for argument, text in command_options(name):
            is_option = argument.names[0].startswith("-")
            if not is_option:
                word = argument.names[0]
                usage.append(word if argument.required else f"[{word}]")
            default = argument.field_info.default
            has_default = not (default in (None, False, (), inspect.Parameter.empty) or str(default) == ".")
            names = ", ".join(f"`{one}`" for one in argument.names)
            choices = (
                f" One of {', '.join(f'`{one}`' for one in sorted(argument.get_choices()))}."
                if argument.get_choices()
                else ""
            )
            rows.append([names, f"`{default}`" if has_default else "", cell(f"{text}{choices}")])
        parts += [f"## {name}", f"```bash\n{' '.join(usage)} [OPTIONS]\n```"]
        parts += [text for text in (parsed.short_description, parsed.long_description) if text]
        parts += [table(["argument", "default", "meaning"], rows)] if rows else []
        but = ", but not `--strict-load`" if name == "serve" else ""
        parts += [f"It takes the [options that load sources](#options-that-load-sources){but}."] if loads else []
    loading = [[f"`--{one.name.replace('_', '-')}`", cell(one.text)] for one in members(LoadingOptions)]
    return page(
        "Commands",
        "`ahvn-tools COMMAND --help` prints the same texts. The [command line](cli.md) has examples.",
        table(
            ["command", "what it does"], ([f"[`{name}`](#{name})", cell(text)] for name, (_, text) in COMMANDS.items())
        ),
        "## Options that load sources",
        table(["option", "meaning"], loading),
        *parts,
    )


# manifest-keys.md

WORDS = {
    "string": "text", "boolean": "`true` or `false`", "integer": "number", "number": "number", "array": "list",
    "object": "mapping", "null": "`null`",
}  # fmt: skip


def yaml_kind(schema: Mapping[str, Any]) -> str:
    """Return what YAML may have, in words."""
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        target = schema["$ref"].rpartition("/")[2]
        return "" if target == "Variable" else "mapping"
    if "anyOf" in schema:
        kinds = [kind for part in schema["anyOf"] if part.get("type") != "null" and (kind := yaml_kind(part))]
        return " or ".join(dict.fromkeys(kinds))
    return WORDS.get(schema.get("type", ""), "any value")


def key_table(part: type, without: Iterable[str] = ()) -> str:
    """Return the keys of a part of a manifest."""
    definitions = {**json_schema()["$defs"], "Manifest": json_schema()}
    properties = definitions.get(part.__name__, part.model_json_schema()).get("properties", {})  # type: ignore[attr-defined]
    rows = []
    for name, field in part.model_fields.items():  # type: ignore[attr-defined]
        if name in without:
            continue
        default = field.get_default(call_default_factory=True)
        if field.is_required():
            shown = "required"
        elif default in (None, [], {}, "") or not isinstance(default, str | int | float):
            shown = ""
        else:
            shown = f"`{str(default).lower() if isinstance(default, bool) else default}`"
        rows.append([f"`{name}`", cell(yaml_kind(properties.get(name, {}))), shown, cell(field.description or "")])
    return table(["key", "value", "default", "meaning"], rows)


def manifest_page() -> str:
    shared = set(model.SourceModel.model_fields)
    local = set(model.LocalOptions.model_fields)
    kinds = [
        ("source", model.TextSource), ("server", model.ServerSourceModel), ("openapi", model.OpenAPISource),
        ("http", model.HTTPSource), ("external", model.ExternalSource), ("code", model.CodeSource),
        ("manifest", model.ManifestSource), ("builtins", model.BuiltinsSource),
    ]  # fmt: skip
    locations = [[f"`{key}`", cell(kind.model_fields[key].description or "")] for key, kind in kinds]
    parts = [
        ("Groups", model.GroupModel), ("Toolsets", model.ToolsetModel), ("Skills", model.SkillsModel),
        ("Bindings", model.Bind), ("Approval", model.ApprovalModel), ("Search", model.Search),
        ("Code mode", model.CodeModeModel), ("Limits of programs", model.ProgramLimits),
        ("Tools for models", model.ModelTool),
    ]  # fmt: skip
    described = [text for title, part in parts for text in (f"## {title}", docstring(part), key_table(part))]
    options = []
    for name, part in MIDDLEWARE.items():
        options += [f"### {name}", docstring(part), key_table(part) if part.model_fields else "It has no options."]
    return page(
        "Manifest keys",
        "A [manifest](../how-to/manifest.md) is a mapping with these keys. Numbers, `true`, `false` and choices may "
        "also be a variable of the environment, `${NAME}` or `${NAME:default}`.",
        key_table(model.Manifest),
        "A profile has the same keys without `profiles`. An audience has neither `profiles` nor `audiences`.",
        "## Sources",
        "A source is a text, as `load` takes it, or a mapping with one of these keys:",
        table(["key", "the source is"], locations),
        "### All sources",
        key_table(model.SourceModel),
        "### All but MCP servers",
        key_table(model.LocalOptions, shared),
        "### MCP servers",
        key_table(model.ServerSourceModel, shared - {"timeout"}),
        "### OpenAPI documents",
        key_table(model.OpenAPISource, local),
        "### External tools",
        key_table(model.ExternalTool),
        "### Other manifests",
        key_table(model.ManifestSource, local),
        "### Built-in tools",
        key_table(model.BuiltinsSource, local),
        "## Single tools",
        docstring(model.Tool),
        key_table(model.Tool),
        *described,
        "## Middleware",
        "An item of `middleware` is a name, one name with its options, or the import path of a middleware of your own.",
        *options,
    )


# builtin-tools.md


def builtin_registries(folder: str) -> Iterator[tuple[str, ToolRegistry]]:
    """Yield an object of each class of built-in tools, with its group."""
    files = builtins.Workspace(folder)
    yield "files", files
    yield "shell", builtins.Shell(files, sandbox="none", shells=["/bin/sh"])
    yield "python", builtins.PythonRunner(files, sandbox="none", keep_session=True)
    yield "git", builtins.Git(files, allow=["read", "write", "remote"], sandbox="none")
    yield "system", builtins.System()
    yield "user", builtins.AskUser()
    yield "database", builtins.Database(f"sqlite:///{folder}/data.db", read_only=False)
    yield "knowledge", builtins.Knowledge(f"{folder}/knowledge.db")
    yield "agents", builtins.SubAgents(None, Toolkit("agents"))


HINTS = {
    "destructiveHint": "may destroy data",
    "idempotentHint": "may be repeated",
    "openWorldHint": "reaches other systems",
}


def hint_words(annotations: Mapping[str, Any] | None) -> str:
    """Return MCP's hints in words."""
    hints = annotations or {}
    first = "reads" if hints.get("readOnlyHint") else "writes"
    return ", ".join([first, *(words for hint, words in HINTS.items() if hints.get(hint))])


def schema_kind(schema: Mapping[str, Any]) -> str:
    """Return the type of an argument."""
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(schema_kind(part) for part in schema["anyOf"]))
    return str(schema.get("type", "any"))


def builtin_page() -> str:
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "data.db").touch()
        for group, registry in builtin_registries(folder):
            kind = type(registry)
            parts += [
                f"## {kind.__name__}",
                f"Group `{group}`: {GROUPS[group]}",
                re.sub(r"^- .*(\n  .*)*\n?", "", docstring(kind), flags=re.MULTILINE).strip(),
            ]
            parts += [constructor_table(kind)]
            for name, spec in registry.to_toolspecs().items():
                definition = spec.definition
                required = definition.input_schema.get("required", [])
                rows = [
                    [
                        f"`{parameter}`",
                        cell(schema_kind(schema)),
                        "required"
                        if parameter in required
                        else cell(f"`{schema['default']!r}`" if "default" in schema else ""),
                        cell(schema.get("description", "")),
                    ]
                    for parameter, schema in definition.input_schema.get("properties", {}).items()
                ]
                parts += [f"### {name}", f"*{hint_words(definition.annotations)}*", definition.description]
                parts += [table(["parameter", "type", "default", "meaning"], rows)] if rows else []
    return page(
        "Built-in tools and their parameters",
        "[Ready-made tools](../how-to/builtins.md) shows how to use them. The option `approve` says which calls need "
        "an approval.",
        *parts,
    )


def constructor_table(kind: type) -> str:
    """Return the table of the options of a class; its docstring, or that of its constructor, lists them."""
    text = f"{docstring(kind)}\n{docstring(kind.__init__)}"  # type: ignore[misc]
    listed: dict[str, str] = {}
    for names, meaning in re.findall(r"^- ((?:`\w+`(?:, )?)+): (.*(?:\n  .*)*)", text, re.MULTILINE):
        listed.update(dict.fromkeys(re.findall(r"\w+", names), f"{meaning[0].upper()}{meaning[1:]}"))
    found = [replace(one, text=listed[one.name]) for one in parameters(kind.__init__)]  # type: ignore[misc]
    return option_table(found, has_defaults=True)


# how-to/index.md


def how_to_page() -> str:
    """Return the list of the how-to pages, in the order of the site's navigation."""
    (sections,) = [part["How to"] for part in read_config()["nav"] if "How to" in part]
    parts = []
    for section in sections[1:]:  # the first page is this one
        ((group, pages),) = section.items()
        titles = [(summary_of((DOCS / name).read_text(encoding="utf-8"))[0], Path(name).name) for name in pages]
        parts.append(f"## {group}\n\n" + "\n".join(f"- [{title}]({name})" for title, name in titles))
    return page("How to", "Each page solves one task. Its examples run from top to bottom.", *parts)


PAGES: dict[str, Callable[[], str]] = {
    "options": options_page,
    "errors": errors_page,
    "formats": formats_page,
    "middleware": middleware_page,
    "cli-commands": cli_page,
    "manifest-keys": manifest_page,
    "builtin-tools": builtin_page,
    "../how-to/index": how_to_page,
}


if __name__ == "__main__":
    for name, make in PAGES.items():
        (FOLDER / f"{name}.md").write_text(make(), encoding="utf-8")
