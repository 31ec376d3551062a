"""ImportedServer: one MCP server of a toolkit, and the tools that the toolkit has from it."""

import contextlib
import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, cast

from ahvn_tools.binding import bindable_parameters
from ahvn_tools.errors import BindError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.lint import find_in_texts
from ahvn_tools.mcp.client.connect_options import ConnectOptions
from ahvn_tools.mcp.client.remote_server import RemoteServer, resolve_servers
from ahvn_tools.mcp.trust.changes import Changes
from ahvn_tools.schema.dialects.finding import Finding
from ahvn_tools.settings import FLAG, TEXT, given_options, must_be
from ahvn_tools.spec import ToolSpec
from ahvn_tools.template import ToolTemplate
from ahvn_tools.toolkit.entry import ChangedSpec, Entry
from ahvn_tools.toolkit.entry_options import (
    NAMES,
    ON_DUPLICATE,
    OnDuplicate,
    SharedOptions,
    SingleToolOptions,
    add_single_options,
    are_names,
    definition_changes,
    is_pattern,
    matches_name,
    options_of_tool,
    refuse_unknown_options,
    to_key_bindings,
    to_name_set,
    validate_name,
    validate_single_options,
)
from ahvn_tools.toolkit.server_access import ServerAccess, declared_names, is_unsent
from ahvn_tools.toolkit.store import ToolStore

if TYPE_CHECKING:  # slow
    from mcp_types import Prompt


class ImportOptions(ConnectOptions, SharedOptions, total=False):
    """The options of `add_mcp`: those of the connection, and those of the tools that come from the server."""

    prefix: Annotated[str | None, TEXT]
    """Precedes each name; with several servers, each one's name and `_` by default."""
    include: Annotated[Collection[str], NAMES]
    """Only these tools: names as the server has them, or patterns such as `"get_*"`."""
    exclude: Annotated[Collection[str], NAMES]
    """Tools to leave out: names or patterns."""
    rename: Annotated[
        Mapping[str, str],
        must_be(
            'a mapping, {"old name": "new name"}',
            lambda names: isinstance(names, Mapping) and are_names(names.values()),
        ),
    ]
    """New names: the server's name -> the name here."""
    tools: Mapping[str, SingleToolOptions]
    """Options of single tools, now and later: their names in the toolkit, or patterns -> options. They replace those of
    the server, and add tags; those of later patterns have priority. A `preset` or a binding of a pattern is for the
    tools that have the parameter. `preset`, `may_receive` and bindings use the new names of `arguments`."""
    coerce_numbers_to_str: Annotated[bool, FLAG]
    """Whether a number is accepted, and made a text, where a tool wants a text (default)."""
    may_receive: Annotated[str | Collection[str], must_be('names of parameters: ["user"]', are_names)]
    """Parameters that bindings of the toolkit may fill in all tools of the server, now and later. Of the others, secret
    bindings fill none, and other bindings fill those that the tools have now."""
    on_duplicate: Annotated[OnDuplicate, ON_DUPLICATE]
    """What happens to a tool of the server whose name is taken, now or later: `"keep"` the other tool, `"rename"` this
    one, `"replace"` tools that were there before the server. `"raise"` is for the tools that the server has now; later
    ones are kept out. By default `"rename"` where the toolkit renames, else `"keep"`."""


@dataclass(eq=False)
class ImportedServer:
    """One server of a toolkit, and the entries of its tools."""

    server: RemoteServer
    store: ToolStore
    options: ImportOptions
    prefix: str
    timeout: float | None
    is_owned: bool
    """Whether the toolkit connected it, and so closes it."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """By the server's names; refused ones and those that the host has removed among them."""
    missing_entries: dict[str, Entry] = field(default_factory=dict)
    """Tools that the server no longer has: it may add them again, and then they are bound and tagged as before."""
    option_errors: dict[str, str] = field(default_factory=dict)
    """Why the options do not fit a tool that came later."""
    replaceable: Collection[Entry] = ()
    """The tools that were in the toolkit before: only these may be replaced."""
    tools_of_others: Collection[str] = ()
    """The names and patterns in the option `tools` that are also for other sources, such as those of a manifest."""
    error: Exception | None = None
    """Why the server could not be reached, where it is one of several. Its first tools count as added with it."""
    is_removed: bool = False
    """Whether it has been removed, or could not be added."""
    subscriptions: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def refused(self) -> Mapping[str, str]:
        """The tools that the toolkit cannot use, by the server's names, each with the reason."""
        refusals = {name: entry.refusal for name, entry in list(self.entries.items())}
        return {**self.option_errors, **{name: reason for name, reason in refusals.items() if reason is not None}}

    @property
    def receives(self) -> Mapping[str, Mapping[str, str | None]]:
        """The parameters that calls from the toolkit fill, by tool: each with its state key, or None for a preset."""
        filled = {name: self._filled_parameters(entry) for name, entry in list(self.entries.items())}
        return {name: parameters for name, parameters in filled.items() if parameters}

    @property
    def withheld(self) -> Mapping[str, str]:
        """The instructions and the listed prompts that are not passed on to clients, each with the reason."""
        refusals = {f"prompt {name}": self.prompt_refusal(one) for name, one in (self.server.prompts or {}).items()}
        refusals["instructions"] = self._instructions_refusal()
        return {name: reason for name, reason in refusals.items() if reason is not None}

    @property
    def passed_instructions(self) -> str | None:
        """The instructions of the server for the clients of a served toolkit."""
        return None if self._instructions_refusal() is not None else self.server.instructions

    def _instructions_refusal(self) -> str | None:
        if self.server.instructions is not None and self.server.has_pins:
            return "the pins hold only tools: read them, and serve with instructions=…"
        return self._refusal(self.find_in_instructions())

    def prompt_refusal(self, prompt: "Prompt") -> str | None:
        """Return why a prompt is not passed on; None if it is."""
        bound = {*self.store.bindings, *self.options.get("tools", {}).get("*", {}).get("preset", {})}
        for argument in prompt.arguments or ():
            if argument.name in bound:  # the client could set it
                return f"its argument {argument.name!r} is bound"
        return self._refusal(self.find_in_prompt(prompt))

    def _refusal(self, findings: Sequence[Finding]) -> str | None:
        return findings[0].problem if findings and self.store.finding_log.is_strict else None

    def find_in_instructions(self) -> list[Finding]:
        """Return what is wrong with the instructions of the server."""
        return self._find_in_texts("the instructions", [self.server.instructions])

    def find_in_prompt(self, prompt: "Prompt") -> list[Finding]:
        """Return what is wrong with the texts of a prompt as the server lists it."""
        arguments = [text for one in prompt.arguments or () for text in (one.name, one.description)]
        texts = [prompt.name, prompt.title, prompt.description, *arguments]
        return self._find_in_texts(f"the prompt {prompt.name!r}", texts)

    def _find_in_texts(self, what: str, texts: Iterable[str | None]) -> list[Finding]:
        place = f"{what} of the MCP server {self.server.name!r}"
        fix = "Find out why it says so. A strict toolkit does not pass it on to clients."
        return find_in_texts([(place, text) for text in texts if text], fix)

    def _filled_parameters(self, entry: Entry) -> dict[str, str | None]:
        bindings, timeout = self.store.bindings, self.store.timeout
        if self.store.entries.get(entry.name) is not entry or entry.is_blocked(bindings, timeout):
            return {}
        compiled = entry.compiled_tool(bindings, timeout)
        inputs = compiled.template.inputs
        return {
            inputs.parameters[name].body_name or name: None if binding.key is None else binding.key.text
            for name, binding in compiled.bindings.items()
            if name not in inputs.parameters_without_schema and not (is_unsent(binding) or binding.is_empty)
        }

    def new_entry(self, name: str, template: ToolTemplate, body: Any, *, is_accepted: bool = False) -> Entry:
        """Return an entry for a tool of the server. Raises ToolkitError and BindError.

        `is_accepted`: the host has added the tool with the parameters that it has now.
        """
        spec = self.new_spec(name, template, body)
        changed = spec.compiled.template
        parameters = bindable_parameters(changed.inputs.parameters, changed.bindings)
        local_name = self.local_name(name)
        single = options_of_tool(self.options.get("tools", {}), local_name, parameters)
        shared = {key: value for key, value in self.options.items() if key in SharedOptions.__annotations__}
        options = add_single_options(shared, single)
        access = ServerAccess(
            named=to_name_set("parameters in `may_receive`", self.options.get("may_receive", ())),
            accepted=declared_names(changed) if is_accepted else frozenset(),
        )
        origin = f"the MCP server {self.server.name!r}"
        locks = self.store.locks
        entry = Entry(spec, local_name, origin, options, locks, server_access=access, server_name=self.server.name)
        entry.own_bindings = to_key_bindings(spec, local_name, single.get("binds", {}))
        matching = [one for pattern, one in self.options.get("tools", {}).items() if matches_name(pattern, local_name)]
        entry.preset_names = frozenset(parameter for one in matching for parameter in one.get("preset", ()))
        # a clash of a tool that comes later has no caller to raise to
        entry.on_duplicate = "keep" if self.refuses_clashes else self.options.get("on_duplicate")
        entry.replaceable = self.replaceable
        return entry

    @property
    def refuses_clashes(self) -> bool:
        """Whether it cannot be added when a name of its tools is taken."""
        return self.options.get("on_duplicate") == "raise"

    def new_spec(self, name: str, template: ToolTemplate, body: Any) -> ToolSpec:
        """Return a tool of the server as the options change it. Raises DefinitionError."""
        spec = self.store.spec_class(template, body)
        single = options_of_tool(self.options.get("tools", {}), self.local_name(name), ())
        changes = definition_changes(single)
        if "coerce_numbers_to_str" in self.options:
            changes["coerce_numbers_to_str"] = self.options["coerce_numbers_to_str"]
        return ChangedSpec(spec, changes) if changes else spec

    def parameters(self) -> set[str]:
        """Return the parameters of all tools of the server, by their names in the toolkit."""
        tools = self.server.templates(timeout=self.timeout).items()
        inputs = [self.new_spec(name, *built).compiled.template.inputs for name, built in tools]
        return {name for one in inputs for name in one.parameters if name not in one.parameters_without_schema}

    def add_entries(self, entries: Mapping[str, Entry]) -> None:
        """Add tools by the server's names."""
        self.entries.update(entries)
        for name in entries:
            self.missing_entries.pop(name, None)

    def remember_missing(self, name: str) -> None:
        """Remove a tool that the server no longer lists, and remember it where the host has said something about it."""
        entry = self.entries.pop(name)
        entry.refusal = None
        if entry.own_bindings or entry.has_changed_tags or entry.has_accepted_parameters:
            self.missing_entries[name] = entry

    def new_templates(self) -> dict[str, tuple[ToolTemplate, Any]]:
        """Return the template and the body of each tool that the toolkit does not have yet."""
        return {
            name: built
            for name, built in self.server.templates(timeout=self.timeout).items()
            if name not in self.entries and self.is_included(name)
        }

    def unmatched_patterns(self) -> Iterator[tuple[str, str]]:
        """Yield the option and the pattern for each pattern in `include` and `exclude` that fits no tool.

        Of servers that were added together, the first one does so, for all of them.
        """
        together = self.added_together()
        if together[0] is not self:
            return
        known = [name for one in together for name in (*one.server.tools, *one.server.refused)]
        for option, patterns in (
            ("include", self.options.get("include", ())),
            ("exclude", self.options.get("exclude", ())),
        ):
            for pattern in _to_names(patterns):
                if not any(fnmatch.fnmatchcase(name, pattern) for name in known):
                    yield option, pattern

    def added_together(self) -> list["ImportedServer"]:
        """Return the servers that have these options, without those that could not be reached; at least this one."""
        servers = list(self.store.imported_servers.values())
        return [one for one in servers if one.options is self.options and one.error is None] or [self]

    def unmatched_tools(self) -> Iterator[str]:
        """Yield the names and patterns in the option `tools` that fit no tool of the toolkit or of the server."""
        names = (*self.local_names(), *self.store.entries)
        for pattern in self.options.get("tools", {}):
            if pattern not in self.tools_of_others and not any(matches_name(pattern, name) for name in names):
                yield pattern

    def local_names(self) -> list[str]:
        """Return the names in the toolkit of all tools that the server has, also of those that are left out."""
        return [self.local_name(name) for name in (*self.server.tools, *self.server.refused)]

    def local_parameters(self) -> dict[str, Collection[str]]:
        """Return the parameters of these tools by the same names; none for a tool that cannot be used."""
        templates = {name: template for name, (template, _) in self.server.templates(timeout=self.timeout).items()}
        templates |= {name: entry.spec.compiled.template for name, entry in list(self.entries.items())}
        parameters = {self.local_name(name): template.inputs.parameters for name, template in templates.items()}
        return {name: parameters.get(name, ()) for name in self.local_names()}

    def unmatched_parameters(self) -> Iterator[tuple[str, str, Collection[str]]]:
        """Yield each pattern in the option `tools`, with its parameters that no tool has which it matches."""
        known: dict[str, Collection[str]] = {
            name: entry.spec.compiled.template.inputs.parameters for name, entry in list(self.store.entries.items())
        }
        known |= self.local_parameters()
        for pattern, single in self.options.get("tools", {}).items():
            if not is_pattern(pattern):
                continue
            matching = [parameters for name, parameters in known.items() if matches_name(pattern, name)]
            own = {parameter for parameters in matching for parameter in parameters}
            for parameter in {**single.get("preset", {}), **single.get("binds", {})} if matching else ():
                if parameter not in own:
                    yield pattern, parameter, own

    def is_included(self, name: str) -> bool:
        """Return whether the options do not leave a tool of the server out."""
        include, exclude = self.options.get("include", ()), self.options.get("exclude", ())
        if (include and not _matches(name, include)) or _matches(name, exclude):
            return False
        return options_of_tool(self.options.get("tools", {}), self.local_name(name), ()).get("enabled", True)

    def local_name(self, name: str) -> str:
        """Return the name in the toolkit of a tool of the server."""
        return self.prefix + self.options.get("rename", {}).get(name, name)

    async def load(self) -> None:
        """List the server's tools, and remember the error when that fails."""
        try:
            await self.server.arefresh()
        except Exception as error:  # noqa: BLE001  # whatever fails here must not stop the other servers
            self.error = error

    def subscribe(self, callback: Callable[[RemoteServer, Changes], Any]) -> None:
        """Notify the callback of the server's changes, then the host's `on_change`; register this with the server."""
        self.subscriptions.callback(self.server.add_import(self))
        self.subscriptions.callback(self.server.on_change(callback))
        if (listener := self.options.get("on_change")) is not None:
            self.subscriptions.callback(self.server.on_change(listener))

    def unsubscribe(self) -> None:
        """Stop all notifications of the server's changes."""
        self.is_removed = True
        self.subscriptions.close()

    async def aclose(self) -> None:
        """Close the server, unless the host has connected it and may still use it."""
        if self.is_owned:
            await self.server.aclose()


def to_imported_servers(
    store: ToolStore, server: Any, name: str | None, timeout: float | None, options: ImportOptions
) -> list[ImportedServer]:
    """Return the servers that the first argument of `add_mcp` describes. Raises ToolkitError for invalid options."""
    options = cast("ImportOptions", given_options(options))
    connect_options = _validate_import_options(name, options)
    for one in (options, *options.get("tools", {}).values()):
        if "group" in one:
            store.require_defined_group(validate_name("group of a tool", one["group"]))
    is_owned = not isinstance(server, RemoteServer)
    if not is_owned and (connect_options or name is not None):
        misplaced = sorted(connect_options) + (["name"] if name is not None else [])
        raise ToolkitError(f"The server {server.name!r} is connected already: pass {misplaced} to `mcp.connect`.")
    servers = resolve_servers(server, name, connect_options) if is_owned else [server]
    prefix = options.get("prefix", "" if len(servers) == 1 else None)
    return [
        ImportedServer(remote, store, options, f"{remote.name}_" if prefix is None else prefix, timeout, is_owned)
        for remote in servers
    ]


def _validate_import_options(name: str | None, options: ImportOptions) -> ConnectOptions:
    """Return the options of the connection. Raises ToolkitError for invalid options."""
    refuse_unknown_options(options, ImportOptions)
    validate_single_options(options.get("tools", {}))
    if name is not None:
        validate_name("name of a server", name)
    known = ConnectOptions.__annotations__.keys() - {"on_change"}  # it is called when the toolkit is up to date
    return cast("ConnectOptions", {key: value for key, value in options.items() if key in known})


def refuse_unknown_names(imported_servers: Sequence[ImportedServer], options: ImportOptions) -> None:
    """Raise ToolLookupError for a name in the options that none of the servers has."""
    known = {name for imported in imported_servers for name in (*imported.server.tools, *imported.server.refused)}
    idempotent = options.get("idempotent", ())
    named = {*options.get("rename", {})}
    for patterns in (options.get("include", ()), options.get("exclude", ())):
        named.update(name for name in _to_names(patterns) if not any(character in name for character in "*?["))
    named.update(() if isinstance(idempotent, bool) else _to_names(idempotent))
    for name in sorted(named - known):
        servers = " or ".join(repr(imported.server.name) for imported in imported_servers)
        hint = near_misses(name, known)
        for prefix in [imported.prefix for imported in imported_servers if imported.prefix]:
            if name.startswith(prefix) and name.removeprefix(prefix) in known:
                hint = f"Names are without the prefix: {name.removeprefix(prefix)!r}."
        raise ToolLookupError(f"The MCP server {servers} has no tool {name!r}. {hint}")


def refuse_unknown_parameters(imported_servers: Iterable[ImportedServer], options: ImportOptions) -> None:
    """Raise BindError for a parameter in `may_receive` that no tool of the servers has, left out or not."""
    wanted = to_name_set("parameters in `may_receive`", options.get("may_receive", ()))
    known = {name for imported in imported_servers if wanted for name in imported.parameters()}
    for name in sorted(wanted - known):
        raise BindError(f"No tool of the server has a parameter {name!r}. {near_misses(name, known)}")


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _to_names(patterns))


def _to_names(names: Collection[str]) -> Collection[str]:
    return [names] if isinstance(names, str) else names
