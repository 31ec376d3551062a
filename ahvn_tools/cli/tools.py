"""`ahvn-tools list`, `show` and `search`: what tools there are, without any value that is bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from ahvn_tools.cli.output import (
    print_data,
    print_heading,
    print_json,
    print_message,
    print_pairs,
    print_table,
    print_text,
)
from ahvn_tools.cli.sources import (
    Flag,
    MoreSources,
    Source,
    SourceParameters,
    Sources,
    find_tool,
    load_status,
    open_toolkit,
)
from ahvn_tools.json_types import JsonObject
from ahvn_tools.schema.dialects.description import join_sentences
from ahvn_tools.schema.members import members
from ahvn_tools.user_interface import is_for_apps, resource_uri

if TYPE_CHECKING:
    from ahvn_tools.spec import ToolSpec


def list_tools(*sources: Sources, json: Flag = False, options: SourceParameters = None) -> int:
    """List the tools of sources, those of inactive groups too, and the skills.

    Parameters
    ----------
    sources
        Python files, modules, folders, manifests, MCP servers, OpenAPI documents.
    json
        Print a list of tools as JSON.
    """
    with open_toolkit(sources, options) as kit:
        _print_tools(list(kit), "There is no tool.", is_json=json)
        if kit.skills and not json:
            print_text("")
            print_table(("skill", "description"), [(skill.name, skill.description) for skill in kit.skills.values()])
        return load_status(kit, options)


def search(
    source: Source,
    query: Annotated[str, Parameter(name="QUERY")],
    /,
    *more_words: Annotated[str, Parameter(name="MORE-WORDS")],
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 10,
    json: Flag = False,
    source_: MoreSources = None,
    options: SourceParameters = None,
) -> int:
    """Find tools by words in their names, descriptions, parameters, tags and examples; best match first.

    Only tools of active groups are found. The exit status is 1 if there is none.

    Parameters
    ----------
    source
        Where the tools are, as for `list`.
    query
        Words to look for. One match is enough.
    more_words
        More words, so that a query of several words needs no quotes.
    limit
        How many tools are printed at most.
    json
        Print a list of tools as JSON.
    source_
        Another source. Can be repeated.
    """
    with open_toolkit([source, *(source_ or ())], options) as kit:
        found = kit.search(" ".join([query, *more_words]), limit)
        _print_tools(found, f"None of the {len(kit)} tools matches.", is_json=json)
        return 0 if found else 1


def _print_tools(specs: Sequence[ToolSpec], nothing: str, *, is_json: bool) -> None:
    if is_json:
        print_json([to_data(spec) for spec in specs])
    elif specs:
        print_table(HEADINGS, map(to_row, specs))
    else:
        print_message(nothing)


def show(
    source: Source,
    tool: Annotated[str, Parameter(name="TOOL")],
    /,
    *,
    json: Flag = False,
    source_: MoreSources = None,
    options: SourceParameters = None,
) -> None:
    """Show one tool: its signature, parameters, bindings, labels, schemas and fingerprint.

    Parameters
    ----------
    source
        Where the tool is, as for `list`.
    tool
        The name of the tool.
    json
        Print one JSON object.
    source_
        Another source. Can be repeated.
    """
    with open_toolkit([source, *(source_ or ())], options) as kit:
        spec = find_tool(kit, tool)
        if json:
            print_json(to_full_data(spec))
        else:
            _print_tool(spec)


def to_full_data(spec: Any) -> dict[str, Any]:
    """Return a tool as JSON. A tool that cannot be used yet has no definition, and so neither schemas nor fingerprint.

    `bound` has the state key of each bound parameter, and null for a constant. `credentials` has where each hidden
    parameter with a credential is sent.
    """
    template = spec.compiled.template
    data = {
        "name": spec.name,
        "title": spec.title,
        "signature": signature(spec),
        "description": spec.description,
        **labels(spec),
        "annotations": template.annotations or {},
        "bound": bound_keys(spec),
        "credentials": credentials(spec),
        "examples": spec.examples or [],
        "origin": spec.origin,
    }
    if spec.compiled.plan.unbound_parameter is not None:
        return data
    definition = spec.definition
    return data | {
        "input_schema": definition.input_schema,
        "output_schema": definition.output_schema,
        "version": definition.version,
        "meta": definition.meta,
        "fingerprint": definition.fingerprint,
    }


def bound_keys(spec: Any) -> dict[str, str | None]:
    """Return the bound parameters and their state keys; None for a constant, such as a toolkit's preset."""
    constants = {
        name: None
        for name, binding in spec.compiled.bindings.items()
        if binding.is_constant and binding.resolver is None and name != "self"
    }
    return {**spec.binds, **constants}


def _print_tool(spec: Any) -> None:

    data = to_full_data(spec)
    print_heading(f"{spec.name}{data['signature']}")
    if data["title"]:
        print_text(data["title"])
    if data["description"]:
        print_text(f"\n{data['description']}")
    if rows := parameter_rows(data.get("input_schema") or {}):
        print_text("")
        print_table(PARAMETER_HEADINGS, rows)
    if bound := data["bound"]:
        print_text("")
        print_table(("bound parameter", "state key"), [(name, key or "(a constant)") for name, key in bound.items()])
    if sent := data["credentials"]:
        bindings = spec.compiled.bindings
        status = {name: "bound" if name in bindings else f"no value: --bind {name}=KEY, or `auth`" for name in sent}
        print_text("")
        print_table(("credential", "sent as", "value"), [(name, text, status[name]) for name, text in sent.items()])
    print_text("")
    print_pairs([(name, text) for name, text in _facts(spec, data) if text])
    for name in ("examples", "input_schema", "output_schema"):
        if data.get(name):
            print_heading(f"\n{name.replace('_', ' ').capitalize()}")
            print_data(data[name])


def _facts(spec: Any, data: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("group", data["group"]),
        ("tags", ", ".join(data["tags"])),
        ("audience", ", ".join(data["audience"])),
        ("hints", ", ".join(hints(spec))),
        ("approval", f"{data['approval']}: {data['approval_reason']}"),
        ("interface", resource_uri(data.get("meta")) or ""),
        ("version", data.get("version") or ""),
        ("origin", data["origin"]),
        ("fingerprint", data.get("fingerprint", "")),
    ]


HINTS: Final = {
    "readOnlyHint": ("read-only", "changes data"),
    "destructiveHint": ("destructive", "not destructive"),
    "idempotentHint": ("idempotent", "not idempotent"),
    "openWorldHint": ("open-world", "closed-world"),
}
"""The words for MCP's hints that are true, and for those that are false."""


def signature(spec: ToolSpec) -> str:
    """Return the parameters and the return type in Python syntax; of a tool that cannot be used yet, why."""
    from ahvn_tools.signature import python_signature

    unbound = spec.compiled.plan.unbound_parameter
    return (
        f"({unbound.name!r} must be bound)" if unbound is not None else _shorten(str(python_signature(spec.definition)))
    )


def type_text(annotation: Any) -> str:
    """Return a type in Python syntax."""
    import inspect

    return _shorten(inspect.formatannotation(annotation))


def _shorten(text: str) -> str:
    return text.replace("typing.", "")


def summary(spec: ToolSpec) -> str:
    """Return the first line of the description."""
    return spec.description.strip().partition("\n")[0]


def hints(spec: ToolSpec) -> list[str]:
    """Return the hints of the annotations, and whether the tool is external, has an interface, or is for one."""
    template = spec.compiled.template
    annotations, meta = template.annotations or {}, template.meta
    hints = [HINTS[key][not value] for key, value in annotations.items() if key in HINTS and isinstance(value, bool)]
    if template.is_external:
        hints.append("external")
    if is_for_apps(meta):
        return [*hints, "only for interfaces"]
    return hints if resource_uri(meta) is None else [*hints, "has an interface"]


def labels(spec: Any) -> dict[str, Any]:
    """Return the group, tags and audience of a tool in a toolkit, who may call it, and what happens to its calls.

    `visibility` is that of MCP Apps. `approval` is allow, ask or deny, or "by arguments" if it depends on those.
    """
    template, required = spec.compiled.template, spec.labels["requires_approval"]
    ui = (template.meta or {}).get("ui")
    return {
        "group": spec.group,
        "tags": sorted(spec.tags),
        "audience": sorted(spec.audience),
        "visibility": (ui.get("visibility") if isinstance(ui, dict) else None) or ["model", "app"],
        "external": template.is_external,
        "requires_approval": BY_ARGUMENTS if callable(required) else required,
        **_approval(spec),
    }


BY_ARGUMENTS: Final = "by arguments"


def _approval(spec: Any) -> dict[str, str]:
    """Return what happens to all calls of a tool, and why."""
    from ahvn_tools.builtins.approval import Approval

    decision, own = spec.approval, getattr(getattr(spec.function, "__self__", None), "approval", None)
    if decision is None:
        return {"approval": BY_ARGUMENTS, "approval_reason": "It depends on the arguments."}
    may_ask = isinstance(own, Approval) and own.may_ask
    if (
        decision.decision == "allow"
        and may_ask
        and (spec.compiled.template.annotations or {}).get("readOnlyHint") is not True
    ):
        return {"approval": BY_ARGUMENTS, "approval_reason": f"{decision.reason} The tool asks, by its `approve`."}
    return {"approval": decision.decision, "approval_reason": decision.reason}


def credentials(spec: Any) -> dict[str, str]:
    """Return where each credential of an HTTP tool is sent, by the hidden parameter that has it."""
    from ahvn_tools.sources.http.body import HTTPBody

    if not isinstance(spec.body, HTTPBody):
        return {}
    return {name: item.sent_as for item in spec.body.request.all_security for name in item.parameters}


def to_row(spec: Any) -> tuple[str, ...]:
    """Return a row of the table with these `HEADINGS`."""
    tags, audience = ", ".join(sorted(spec.tags)), ", ".join(sorted(spec.audience))
    shown = ", ".join(hints(spec))
    return spec.name, signature(spec), summary(spec), spec.group, tags, shown, audience, labels(spec)["approval"]


HEADINGS: Final = ("name", "signature", "description", "group", "tags", "hints", "audience", "approval")


def to_data(spec: Any) -> dict[str, Any]:
    """Return the same as JSON, with the whole description and the annotations."""
    return {
        "name": spec.name,
        "signature": signature(spec),
        "description": spec.description,
        **labels(spec),
        "annotations": spec.compiled.template.annotations or {},
    }


PARAMETER_HEADINGS: Final = ("parameter", "type", "default", "rules", "description")

_RULES: Final = {
    "minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}",
    "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}", "minLength": "at least {} characters",
    "maxLength": "at most {} characters", "pattern": "matches {}", "format": "{}", "minItems": "at least {} items",
    "maxItems": "at most {} items", "uniqueItems": "no item twice",
}  # fmt: skip


Row = tuple[str, str, str, str, str]


def parameter_rows(schema: JsonObject) -> list[Row]:
    """Return a row for each parameter, and for each member of an object in it: `lines[].color`."""
    from ahvn_tools.signature import python_type  # slow: the command line is parsed without it

    rows = []
    for member in members(schema):
        kind = type_text(python_type(member.node, schema))
        text = str(member.node.get("description") or member.node.get("title") or "")
        text = join_sentences(text, f"The same fields as {member.same_as}." if member.same_as else "")
        rows.append((member.place, kind, _default(member.node, member.is_required), _rules(member.node), text))
    return rows


def _default(node: JsonObject, is_required: bool) -> str:
    if is_required:
        return "required"
    return json.dumps(node["default"], ensure_ascii=False) if "default" in node else ""


def _rules(node: JsonObject) -> str:
    rules = [text.format(node[key]) for key, text in _RULES.items() if node.get(key) not in (None, False)]
    return ", ".join(rules)
