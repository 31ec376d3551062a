"""`ahvn-tools show`: all that there is to know about one tool, without the values that are bound."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from ahvn_tools.cli.output import print_data, print_heading, print_json, print_pairs, print_table, print_text
from ahvn_tools.cli.sources import Flag, MoreSources, Source, SourceParameters, find_tool, open_toolkit
from ahvn_tools.cli.tool_facts import credentials, hints, labels, signature


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
    tool
        The name of the tool.
    json
        Print one JSON object.
    """
    with open_toolkit([source, *(source_ or ())], options) as kit:
        spec = find_tool(kit, tool)
        if json:
            print_json(to_data(spec))
        else:
            _print(spec)


def to_data(spec: Any) -> dict[str, Any]:
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


def _print(spec: Any) -> None:
    from ahvn_tools.cli.parameter_rows import HEADINGS, parameter_rows

    data = to_data(spec)
    print_heading(f"{spec.name}{data['signature']}")
    if data["title"]:
        print_text(data["title"])
    if data["description"]:
        print_text(f"\n{data['description']}")
    if rows := parameter_rows(data.get("input_schema") or {}):
        print_text("")
        print_table(HEADINGS, rows)
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
        ("version", data.get("version") or ""),
        ("origin", data["origin"]),
        ("fingerprint", data.get("fingerprint", "")),
    ]
