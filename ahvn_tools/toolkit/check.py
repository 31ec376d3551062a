"""What a toolkit contains although it has no effect, or cannot be used as it is: findings for the host."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ahvn_tools import invisible
from ahvn_tools.errors import SkippedOperationError, clip, near_misses
from ahvn_tools.execution.compiled_tool import CompiledTool
from ahvn_tools.lint import (
    MAX_QUOTED_CHARS,
    find_bad_texts,
    find_name_clashes,
    find_similar,
    lint,
    make_finding,
    missing_description,
    require_rules,
)
from ahvn_tools.results import PROGRAMMATIC
from ahvn_tools.schema.dialects.finding import Finding, Severity
from ahvn_tools.toolkit.entry import Entry
from ahvn_tools.toolkit.entry_options import BASIC_GROUP
from ahvn_tools.toolkit.rule_values import fits
from ahvn_tools.toolkit.selection import Selection
from ahvn_tools.toolkit.server_access import is_missing
from ahvn_tools.toolkit.store import ToolStore
from ahvn_tools.toolkit.visibility import StoreView

if TYPE_CHECKING:
    from ahvn_tools.toolkit.imported_server import ImportedServer

_FOUND_IN_DEFINITIONS: Final = ("missing-description", "name-clash", "hidden-unicode", "prompt-injection")
"""Rules about definitions that are also reported when a toolkit is exported or served: the last two if it is strict."""


def report_changes(view: StoreView) -> None:
    """Report the findings about a toolkit whose tools, bindings or toolsets have changed since the last report."""
    store = view.store
    changed = [imported.server.changed for imported in list(store.imported_servers.values())]
    revision = store.tools_revision, store.bindings_revision, store.toolsets, changed
    if revision != store.finding_log.checked_revision:
        store.finding_log.report(_find_unlogged(view))
        store.finding_log.checked_revision = revision


def find_all(view: StoreView, *, formats: Iterable[str] | None = None, ignore: Iterable[str] = ()) -> list[Finding]:
    """Return the findings about the tools of a view, then those about the whole toolkit and the view's selections.

    `formats` are those that the tools are for; without it, all. Raises ToolSpecError for an unknown rule in `ignore`.
    """
    store, entries = view.store, list(view.store.entries.values())
    ignored, names = require_rules(ignore), {entry.name for entry in view.contained_entries()}
    usable = [entry for entry in view.contained_entries() if view.compiled_tool(entry).is_usable]
    in_definitions = lint([view.definition(entry) for entry in usable], formats=formats, ignore=ignored)
    own = {entry.name for entry in usable if _is_of_middleware(entry)}
    in_definitions = [one for one in in_definitions if not (one.tool in own and one.effect == "wider")]
    about_toolkit = [
        *_as_strict(store, [one for one in _find_unlogged(view) if one.rule not in _FOUND_IN_DEFINITIONS]),
        *_find_load_errors(store),
        *_find_lost_output_schemas(entries),
        *_find_unknown_documented_parameters(entries),
        *[finding for imported in store.imported_servers.values() for finding in _find_unused_tools(imported)],
        *[finding for imported in store.imported_servers.values() for finding in _find_in_other_texts(imported)],
        *[finding for one in view.selections for finding in _find_unknown_members("the selection", one, entries)],
        *_find_duplicates(store),
        *_find_in_skills(view),
    ]
    kept = [one for one in about_toolkit if one.rule not in ignored and (one.tool is None or one.tool in names)]
    logged = [one for one in in_definitions if one.rule in _FOUND_IN_DEFINITIONS]
    strict = dict(zip(logged, _as_strict(store, logged), strict=True))
    return [*[strict.get(one, one) for one in in_definitions], *dict.fromkeys(kept)]


def _is_of_middleware(entry: Entry) -> bool:
    """Return whether a tool is one that middleware of this package has added: it checks its arguments itself."""
    return str(getattr(entry.spec.function, "__module__", "")).startswith("ahvn_tools.middleware.")


def _as_strict(store: ToolStore, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings as errors if the toolkit is strict: it raises them when it is exported or served."""
    return [replace(finding, severity="error") if store.finding_log.is_strict else finding for finding in findings]


def _find_unlogged(view: StoreView) -> list[Finding]:
    """Return the findings that nothing else logs: the refusal of a server's tool is logged when it happens."""
    store = view.store
    entries = list(store.entries.values())
    servers: list[ImportedServer] = list(store.imported_servers.values())
    return [
        *_find_unused_bindings(store, entries),
        *_find_empty_groups(store, entries),
        *_find_unmatched_toolsets(StoreView(store, view.session_states[-1:]), entries),
        *find_name_clashes(entry.name for entry in entries),
        *[finding for entry in entries for finding in _find_in_tool(store, entry)],
        *_find_bad_texts(view, entries),
        *_find_unlisted_tools(store, entries),
        *_find_unused_middleware(store, entries),
        *_find_unmatched_rules(StoreView(store, view.session_states[-1:]), entries),
        *store.load_findings,
        *[finding for imported in servers for finding in _find_unmatched_options(imported, entries)],
    ]


def find_in_server(imported: ImportedServer) -> list[Finding]:
    """Return the findings about one MCP server and its tools."""
    entries = [entry for entry in imported.entries.values() if entry.refusal is None]
    undescribed = [entry.name for entry in entries if not entry.spec.compiled.template.texts.is_described]
    bad_texts = _find_bad_texts(StoreView(imported.store, ()), entries)
    return [*map(missing_description, undescribed), *bad_texts, *_find_unmatched_options(imported, None)]


def not_exported(
    entry: Entry,
    format: str,  # noqa: A002  # the word for it
    reason: str,
) -> Finding:
    """Return the finding about a server's tool without which the tools are exported."""
    fix = "Exclude or rename it, or change who may call it."
    return make_finding(
        "refused", "", f"it is not exported for {format!r}: {reason}", fix, tool=entry.name, severity="warning"
    )


def _find_load_errors(store: ToolStore) -> Iterator[Finding]:
    """Yield the parts of the sources that were skipped; `load` has logged them."""
    for error in store.load_errors:
        place = error.file or "a source"
        problem = str(error).removeprefix(f"{place}: ")
        severity: Severity = "warning" if isinstance(error, SkippedOperationError) else "error"
        yield make_finding(
            "load-error", place, problem, "Correct it, or leave it out of the sources.", severity=severity
        )


def _find_unused_bindings(store: ToolStore, entries: list[Entry]) -> Iterator[Finding]:
    known: dict[str, object] = {}  # in order, so that a finding is the same each time
    for entry in entries:
        known.update(entry.spec.compiled.template.inputs.parameters)
    for name in sorted(store.bindings.keys() - known.keys()):
        problem = "no tool has this parameter"
        yield make_finding("unused-binding", f"the binding of {name!r}", problem, near_misses(name, known))


def _find_in_tool(store: ToolStore, entry: Entry) -> Iterator[Finding]:
    """Yield what is wrong with one tool in this toolkit."""
    template, compiled = entry.spec.compiled.template, entry.compiled_tool(store.bindings, store.timeout)
    found = functools.partial(make_finding, tool=entry.name)
    if not template.texts.is_described:
        yield missing_description(entry.name)
    if entry.server_access is not None:
        yield from _find_in_tool_of_server(store, entry, compiled)
    if template.output.is_unreadable:
        problem = "models cannot read its raw results, whose type has no JSON form"
        fix = "Add it with render=…, a function that returns what models read, or use register_encoder."
        yield found("unreadable-result", "", problem, fix)
    if not compiled.is_usable and (parameter := compiled.plan.unbound_parameter) is not None:
        problem = f"its parameter {parameter.name!r} is not bound, and {parameter.expected!r} has no JSON form"
        fix = f"Bind it: toolkit.bind({parameter.name!r}), or add the tool with preset={{{parameter.name!r}: …}}."
        yield found("unbound-parameter", "", problem, fix)
    if compiled.plan.isolation == "executor" and store.executor is None and entry.executor is None:
        problem = 'it has isolation="executor", and the toolkit has no executor'
        yield found("no-executor", "", problem, "Pass one: Toolkit(…, executor=…), or load(…, executor=…).")


def _find_bad_texts(view: StoreView, entries: Iterable[Entry]) -> Iterator[Finding]:
    """Yield the findings about texts of tools, which a strict toolkit raises; nothing reads those of a blocked tool."""
    store = view.store
    for entry in entries if store.finding_log.is_strict else ():
        if view.compiled_tool(entry).is_usable and not entry.is_blocked(store.bindings, store.timeout):
            yield from find_bad_texts(view.definition(entry))


def _find_in_tool_of_server(store: ToolStore, entry: Entry, compiled: CompiledTool) -> Iterator[Finding]:
    """Yield why calls fail: a bound parameter cannot be taken out of the input schema, or is a secret that is not sent.

    Such a secret was not named for the server.
    """
    if (obstacle := compiled.template.inputs.find_obstacle(frozenset(compiled.bindings))) is not None:
        problem = f"no one can call it: a bound parameter cannot be taken out of its input schema, because {obstacle}"
        fix = "Unbind the parameter, or remove the tool."
        yield make_finding("refused-tool", "", problem, fix, tool=entry.name)
    for name, binding in compiled.bindings.items() if not entry.is_blocked(store.bindings, store.timeout) else ():
        if is_missing(binding):
            problem = (
                f"each call fails: its parameter {name!r} is bound to a secret that its MCP server may not receive"
            )
            fix = f"Set may_receive=[{name!r}] in add_mcp or in the server's source of a manifest, or bind the tool."
            yield make_finding("unsent-secret", "", problem, fix, tool=entry.name)


def warn_of_missing_approver(view: StoreView, entries: Iterable[Entry], *, is_served: bool = False) -> None:
    """Log which of these tools need an approval or a result that nobody supplies to a client or a graph.

    `is_served`: the user of a client decides on what rules ask.
    """
    entries = list(entries)
    for rule, names, problem, fix in (
        (
            "no-approver",
            [entry.name for entry in entries if _has_no_approver(view, entry, is_served=is_served)],
            "calls that need an approval do not run, because the toolkit has no approver",
            "Pass an approver to the Toolkit, or resume the request that is in the `meta` of the result.",
        ),
        (
            "external-tool",
            [entry.name for entry in entries if entry.spec.compiled.template.is_external],
            "calls of external tools end without a result, which nothing here waits for",
            "Leave them out here, or resume the call that is in the `meta` of the result.",
        ),
    ):
        if names:
            place = f"the tool{'' if len(names) == 1 else 's'} {', '.join(map(repr, names))}"
            view.store.finding_log.log(make_finding(rule, place, problem, fix, severity="warning"))


def _has_no_approver(view: StoreView, entry: Entry, *, is_served: bool) -> bool:
    may_ask = entry.requires_approval is not False or (
        not is_served and view.has_rules(entry) and view.rules_for(entry).may_ask(view.approval_mode)
    )
    return may_ask and view.store.approver is None


def _find_empty_groups(store: ToolStore, entries: list[Entry]) -> Iterator[Finding]:
    used = {entry.group for entry in entries} | {one.group for one in store.skills.values()} | {BASIC_GROUP}
    for name in list(store.groups):
        if name not in used:
            fix = "Add a tool with group=…, or remove the group."
            yield make_finding("empty-group", f"the group {name!r}", "it has no tool", fix)


def _find_in_skills(view: StoreView) -> Iterator[Finding]:
    skills = view.skills(inactive=True)
    names = [*(entry.name for entry in view.usable_entries()), *view.groups()] if skills else []
    for name, other in find_similar(skills):
        problem = f"it is taken for the skill {other!r}"
        yield make_finding("similar-names", f"the skill {name!r}", problem, "Rename one of them.")
    for skill in (added.skill for added in skills.values()):
        yield from skill.problems
        for tool in skill.allowed_tools:
            name, _, pattern = tool.partition("(")
            place, shown = f"the skill {skill.name!r}", invisible.escape_line(clip(tool, MAX_QUOTED_CHARS))
            if name not in names:
                problem = f"`allowed-tools` names {shown!r}, which is no tool and no group here"
                yield make_finding("unmatched-skill-tool", place, problem, near_misses(name, names))
            elif not skill.is_trusted:
                problem = f"{shown!r} in `allowed-tools` has no effect, because the skill is not trusted"
                fix = "Read the skill, and add it with trust=True."
                yield make_finding("unmatched-skill-tool", place, problem, fix, severity="note")
            elif pattern:
                problem = f"the pattern of {shown!r} in `allowed-tools` has no effect"
                fix = "Require an approval for what the tool must not do."
                yield make_finding("unmatched-skill-tool", place, problem, fix, severity="note")


def _find_unmatched_toolsets(view: StoreView, entries: list[Entry]) -> Iterator[Finding]:
    selectable = [entry for entry in entries if not entry.is_of_middleware]
    for name, toolset in list(view.store.toolsets.items()):
        place = f"the toolset {name!r}"
        yield from _find_unknown_members(place, toolset.selection, entries)
        try:
            is_empty = not any(map(view.select(toolset.selection).is_selected, selectable))
        except Exception as error:  # noqa: BLE001  # `where` is the host's own function
            problem = f"its `where` raised {type(error).__name__}"
            yield make_finding("empty-toolset", place, problem, "Let it return True or False.")
            continue
        if is_empty:
            fix = "Change its conditions, or add a tool that meets them."
            yield make_finding("empty-toolset", place, "no tool matches it", fix)


def _find_unknown_members(place: str, selection: Selection, entries: list[Entry]) -> Iterator[Finding]:
    existing = {
        "tool": [entry.name for entry in entries],
        "tag": sorted({tag for entry in entries for tag in entry.tags}),
        "group": sorted({entry.group for entry in entries}),
    }
    for part in selection.parts():
        for kind, wanted in (("tool", part.names), ("tag", part.tags), ("group", part.groups)):
            for name in sorted((wanted or frozenset()).difference(existing[kind])):
                problem = f"there is no tool {name!r}" if kind == "tool" else f"no tool has the {kind} {name!r}"
                yield make_finding("unknown-member", place, problem, near_misses(name, existing[kind]))


def _find_lost_output_schemas(entries: Iterable[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if entry.spec.compiled.template.output.has_lost_schema:
            problem = "it has no output schema, because its return annotation has no JSON Schema or is not known"
            fix = "Annotate a type that pydantic can describe, pass output_schema, or say -> Any."
            yield make_finding("no-output-schema", "", problem, fix, tool=entry.name)


def _find_unknown_documented_parameters(entries: Iterable[Entry]) -> Iterator[Finding]:
    for entry in entries:
        template = entry.spec.compiled.template
        known = [*template.inputs.parameters]
        if not (described := template.texts.details.parameters.keys() - {*known}):
            continue
        parameters = inspect.signature(entry.spec.function).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            continue  # the docstring may describe what they accept
        known += [parameter.name for parameter in parameters if parameter.name not in known]
        for name in sorted(described.difference(known)):
            problem = f"its docstring describes a parameter {name!r}, which it does not have"
            fix = near_misses(name, known)
            yield make_finding("unknown-documented-parameter", "", problem, fix, tool=entry.name)


def _find_unlisted_tools(store: ToolStore, entries: list[Entry]) -> Iterator[Finding]:
    """Yield the findings about tools that programs may not call, and that code mode does not list to the model."""
    if (listing := store.search_listing) is None:
        return
    from ahvn_tools.toolkit.code_mode import is_code_tool  # only a search or code mode needs it

    if not any(is_code_tool(entry.spec) for entry in entries):
        return
    for entry in entries:
        if not entry.allows(PROGRAMMATIC) and entry.name not in listing.core and not is_code_tool(entry.spec):
            problem = "no model can call it: programs may not, and code mode does not list it"
            yield make_finding("unlisted-tool", "", problem, "Name it in `core` of add_code_mode.", tool=entry.name)


def _find_unused_middleware(store: ToolStore, entries: list[Entry]) -> Iterator[Finding]:
    """Yield each `retry` and `cache` that acts on no tool, and each middleware without the tools that it needs."""
    for layer in store.middleware if entries else ():
        yield from _find_unused_layer("the toolkit", layer, store, entries)
    for entry in entries:
        for layer in entry.option_middleware:
            yield from _find_unused_layer(f"the tool {entry.name!r}", layer, store, [entry])


def _find_unused_layer(owner: str, layer: Any, store: ToolStore, entries: list[Entry]) -> Iterator[Finding]:
    from ahvn_tools.middleware.repeatable import ForRepeatableCalls  # many toolkits have no middleware

    known = [entry.spec.function for entry in store.entries.values()]
    for function in getattr(layer, "tools", ()):
        if function not in known:
            place, name = f"the middleware of {owner}", function.__name__
            problem = f"its tool {name!r} was removed, so that models cannot use what it does"
            yield make_finding(
                "unused-middleware", place, problem, f"Do not remove {name!r}, or remove the middleware."
            )
    if not isinstance(layer, ForRepeatableCalls):
        return
    names = layer.names
    plans = {entry.name: entry.compiled_tool(store.bindings, store.timeout).plan for entry in entries}
    usable = [name for name, plan in plans.items() if layer.kind != "cache" or not plan.depends_on_context]
    if any(layer.all_tools or name in names or plans[name].may_repeat for name in usable):
        return
    place = f"the middleware {layer.kind!r} of {owner}"
    if plans and not usable:
        yield make_finding("unused-middleware", place, "it does nothing: each tool takes a ToolContext", "Remove it.")
        return
    problem = "it does nothing: no tool has `readOnlyHint` or `idempotentHint`"
    unknown = sorted(names - plans.keys())
    hint = (
        near_misses(unknown[0], plans) if unknown else f'Name the tools that may run twice: {layer.kind}(tools=["…"]).'
    )
    yield make_finding("unused-middleware", place, f"{problem}, and none is in `tools`", hint)


def _find_unmatched_rules(view: StoreView, entries: list[Entry]) -> Iterator[Finding]:
    """Yield the findings about rules for approvals that name no tool, or a parameter that none of these tools has."""
    if view.store.rules is None:
        return
    found = [(entry, view.rules_for(entry)) for entry in entries]
    names = [name for _, rules in found for name in (rules.name, *rules.server_names)]
    hidden = frozenset[str]().union(*(rules.hidden for _, rules in found))
    for option, all_rules in view.store.rules.by_option().items():
        for rule in all_rules:
            tools = [(entry, rules) for entry, rules in found if rule in rules.selected]
            place = f"the rule {rule.shown(hidden)!r} in `{option}`"
            if not tools:
                is_for_servers = option == "allow" and any(fits(rule.tool, rules.name) for _, rules in found)
                fix = "Write the name of their server before the *, as in notes/*." if is_for_servers else ""
                problem = "it allows no tool of a server" if is_for_servers else f"there is no tool {rule.tool!r}"
                yield make_finding("unmatched-rule", place, problem, fix or near_misses(rule.tool, names))
                continue
            known = sorted(frozenset[str]().union(*(rules.parameters for _, rules in tools)))
            is_open = any(entry.spec.compiled.template.inputs.accepts_other_names for entry, _ in tools)
            for name in () if is_open else sorted(rule.parameters.difference(known)):
                problem = f"no tool that it names has the parameter {name!r}"
                yield make_finding("unmatched-rule", place, problem, near_misses(name, known))
            if option == "allow" and all(rule.parameters & rules.hidden for _, rules in tools):
                problem = "it names a bound parameter, and so allows nothing"
                yield make_finding("unmatched-rule", place, problem, "Name parameters that models see.")
            elif option == "allow":
                unused = {rules.name: reason for _, rules in tools if (reason := rules.explain_unused(rule))}
                if unused:
                    what = "; ".join(f"of {name!r}, because {reason}" for name, reason in unused.items())
                    yield make_finding(
                        "unmatched-rule",
                        place,
                        f"it allows no call {what}",
                        "Name these parameters, too, or write a rule for each tool.",
                        severity="error" if len(unused) == len(tools) else "note",
                    )


def _find_unmatched_options(imported: ImportedServer, entries: list[Entry] | None) -> Iterator[Finding]:
    """Yield the findings about the options of `add_mcp`; an unknown name among them is refused when it is added.

    With the `entries` of the toolkit, also about `tools`, which may name tools that are added after the server.
    """
    if imported.error is not None:
        return
    own = (*imported.server.tools, *imported.server.refused)
    unmatched: list[tuple[str, str, Iterable[str]]] = [
        (f"no tool matches {pattern!r} in `{option}`", pattern, own)
        for option, pattern in imported.unmatched_patterns()
    ]
    if entries is not None:
        known = dict.fromkeys([*imported.local_names(), *(entry.name for entry in entries)])
        unmatched += [(f"no tool matches {one!r} in `tools`", one, known) for one in imported.unmatched_tools()]
        unmatched += [
            (f"no tool that matches {pattern!r} in `tools` has the parameter {name!r}", name, names)
            for pattern, name, names in imported.unmatched_parameters()
        ]
    for problem, name, names in unmatched:
        place = f"the MCP server {imported.server.name!r}"
        yield make_finding("unmatched-option", place, problem, near_misses(name, names))


def _find_unused_tools(imported: ImportedServer) -> Iterator[Finding]:
    """Yield that a server is left out, its tools that are refused, and those that wait to be accepted."""
    server = imported.server
    place = f"the MCP server {server.name!r}"
    if imported.error is not None:
        fix = f"Correct that, and call refresh_mcp({server.name!r}), or leave the server out."
        yield make_finding("unreachable-server", place, f"it is left out: {imported.error}", fix)
    invalid = {name: reason for name, reason in server.invalid_tools.items() if imported.is_included(name)}
    for name, reason in {**imported.refused, **invalid}.items():
        fix = "See `servers[…].refused`."
        shown = f"the tool '{name}' of {place}"  # invisible characters in it are escaped already
        yield make_finding("refused-tool", shown, f"it is not used: {reason}", fix)
    in_toolkit = {name for name, entry in imported.entries.items() if imported.store.entries.get(entry.name) is entry}
    for name in sorted(server.changed & in_toolkit):
        problem = "it is not used: it is new or has changed, or a bound parameter of it is not accepted"
        fix = f"Read `servers[{server.name!r}].tools[{name!r}]`, and accept it, or remove the tool."
        yield make_finding("blocked-tool", f"the tool {name!r} of {place}", problem, fix)


def _find_in_other_texts(imported: ImportedServer) -> Iterator[Finding]:
    """Yield what is wrong with the instructions of a server, and with the prompts that were listed."""
    yield from imported.find_in_instructions()
    for prompt in (imported.server.prompts or {}).values():
        yield from imported.find_in_prompt(prompt)


def _find_duplicates(store: ToolStore) -> Iterator[Finding]:
    for one in store.duplicates:
        if one.action == "keep":
            problem, fix = f"that from {one.other} is not used: {one.reason}", "Rename one, or add one with a prefix."
            yield make_finding("duplicate-tool", f"the tool {one.name!r}", problem, fix)
