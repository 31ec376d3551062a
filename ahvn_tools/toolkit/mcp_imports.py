"""Imports: the tools that a toolkit has from MCP servers, kept in step with what the servers tell."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ahvn_tools.binding import bindable_parameters
from ahvn_tools.errors import BindError, ToolkitError, ToolLookupError, near_misses
from ahvn_tools.execution.call import Middleware
from ahvn_tools.execution.threads import run_in_thread
from ahvn_tools.mcp.client.remote_server import ConnectOptions, RemoteServer, resolve_servers
from ahvn_tools.middleware.postprocess import Postprocess
from ahvn_tools.spec import ToolSpec
from ahvn_tools.toolkit.entry import Entry, EntryOptions, validate_name
from ahvn_tools.toolkit.locks import Exclusive

if TYPE_CHECKING:
    from ahvn_tools.mcp.trust.changes import Changes
    from ahvn_tools.template import ToolTemplate
    from ahvn_tools.toolkit.store import ToolStore

log = logging.getLogger(__name__)


class ImportOptions(ConnectOptions, total=False):
    """What `add_mcp` takes: what there is to say of the server, and of the tools that come from it."""

    prefix: str | None
    """Stands before each name; for several servers at once, each one's name and `_` by default."""
    include: Collection[str]
    """Take these tools alone: names as the server has them, or patterns such as `"get_*"`."""
    exclude: Collection[str]
    """Leave these out."""
    rename: Mapping[str, str]
    """New names: a server's -> here."""
    group: str
    tags: Collection[str]
    audience: str | Collection[str]
    preset: Mapping[str, Mapping[str, Any]]
    """Tool -> parameters that are fixed here; `"*"` stands for each tool that has them."""
    middleware: Sequence[Middleware]
    postprocess: Postprocess
    requires_approval: Any
    exclusive: Exclusive


_ENTRY_OPTION_NAMES = ("group", "tags", "audience", "middleware", "postprocess", "requires_approval", "exclusive")


@dataclass(eq=False)
class ImportedServer:
    """One server of a toolkit, and the tools that are here from it."""

    server: RemoteServer
    options: ImportOptions
    prefix: str
    timeout: float | None
    entries: dict[str, Entry] = field(default_factory=dict)
    """By the server's names."""
    clashes: dict[str, str] = field(default_factory=dict)
    """Tools whose names were taken here when the server added them."""
    missing_entries: dict[str, Entry] = field(default_factory=dict)
    """Tools with bindings of their own here that the server no longer has: they get them back if it has them again."""
    error: Exception | None = None
    """Why the server could not be asked, where it is one of several."""
    is_owned: bool = True
    """Whether it was connected here, and so is closed here."""
    is_removed: bool = False
    """Whether it has been removed, or was never wanted in the end."""
    unsubscribe_callbacks: list[Callable[[], None]] = field(default_factory=list)
    """Takes back what hears of the server's changes."""

    def is_included(self, name: str) -> bool:
        """Tell whether a tool of the server is wanted."""
        include, exclude = self.options.get("include", ()), self.options.get("exclude", ())
        return (not include or _matches(name, include)) and not _matches(name, exclude)

    def local_name(self, name: str) -> str:
        """Return what a tool of the server is called here."""
        return self.prefix + self.options.get("rename", {}).get(name, name)

    def new_entry(self, name: str, template: ToolTemplate, body: Any, store: ToolStore) -> Entry:
        """Return an entry for a tool of the server. Raises ToolkitError and BindError."""
        options = self._entry_options(name, bindable_parameters(template.inputs.parameters, template.bindings))
        origin = f"the MCP server {self.server.name!r}"
        return Entry(ToolSpec(template, body), self.local_name(name), origin, options, store.locks)

    def new_entries(self, store: ToolStore) -> dict[str, Entry]:
        """Return entries for the tools that are not here yet. Raises ToolkitError and BindError."""
        recipes = self.server.templates(timeout=self.timeout)
        return {
            name: self.new_entry(name, *made, store)
            for name, made in recipes.items()
            if name not in self.entries and self.is_included(name)
        }

    def subscribe(self, callback: Callable[[RemoteServer, Changes], Any]) -> None:
        """Let these hear of the server's changes: who follows them, then the host."""
        self.unsubscribe_callbacks.append(self.server.on_change(callback))
        if (listener := self.options.get("on_change")) is not None:
            self.unsubscribe_callbacks.append(self.server.on_change(listener))

    def unsubscribe(self) -> None:
        """Hear nothing more of the server."""
        self.is_removed = True
        for forget in self.unsubscribe_callbacks:
            forget()

    async def aclose(self) -> None:
        """Close the server, unless somebody else has connected it and may still use it."""
        if self.is_owned:
            await self.server.aclose()

    def _entry_options(self, name: str, parameters: Collection[str]) -> EntryOptions:
        given = {key: self.options[key] for key in _ENTRY_OPTION_NAMES if key in self.options}  # type: ignore[literal-required]  # the keys of both
        preset = self.options.get("preset", {})
        everywhere = {key: value for key, value in preset.get("*", {}).items() if key in parameters}
        return cast("EntryOptions", {**given, "preset": {**everywhere, **preset.get(name, {})}})


class MCPImports:
    """The servers of one toolkit, by name."""

    def __init__(self, store: ToolStore, get_state: Callable[[], Mapping[str, Any]]) -> None:
        """Take the catalog that their tools are in, and what gives the toolkit's own state."""
        self._store = store
        self._get_state = get_state
        self._lock = store.import_lock
        self.by_name: dict[str, ImportedServer] = store.imported_servers

    @property
    def servers(self) -> dict[str, RemoteServer]:
        """The servers by name."""
        return {name: one.server for name, one in self.by_name.items()}

    async def add(self, server: Any, name: str | None, timeout: float | None, options: ImportOptions) -> None:
        """Connect to a server, or to all that a configuration names, and add their tools.

        Of several, those that cannot be reached are left for `refresh`, with a warning. Raises ToolConnectionError when
        none can be reached, ToolkitError for a name that is taken; nothing is added then, and nothing stays open.
        """
        made = _to_imported_servers(server, name, timeout, options)
        self._refuse_taken_names(made)
        for one in made:
            if one.is_owned:
                one.server.get_host_state = self._get_state
        try:
            await asyncio.gather(*map(_load, made))
            failed = [one for one in made if one.error is not None]
            if failed and len(failed) == len(made):
                raise failed[0].error or ToolkitError("No server could be reached.")
            for one in failed:
                log.warning("The MCP server %r cannot be reached: %s", one.server.name, one.error)
            # there may be many tools, and nobody is to wait for them
            (await run_in_thread(lambda _: self._register(made))).get()
        except BaseException:
            (await run_in_thread(lambda _: self._unregister(made))).get()  # cancelled, it may have been put in
            await asyncio.gather(*(one.aclose() for one in made), return_exceptions=True)
            raise

    def _refuse_taken_names(self, imported_servers: Sequence[ImportedServer]) -> None:
        """Raise ToolkitError for a server whose name is taken, or that whoever added it has given up by now."""
        for one in imported_servers:
            if one.is_removed or one.server.name in self.by_name:
                raise ToolkitError(f"There is a server {one.server.name!r} already. Give this one a name=….")

    def _register(self, imported_servers: Sequence[ImportedServer]) -> None:
        """Add all of these or none."""
        with self._lock:
            self._refuse_taken_names(imported_servers)  # another may have come in the meantime
            for one in imported_servers:  # whatever changes from now on is brought up to date when this is done
                one.subscribe(functools.partial(self._update_in_thread, one))
            self._add_entries(imported_servers)

    def _add_entries(self, imported_servers: Sequence[ImportedServer]) -> None:
        found = {one.server.name: {} if one.error else one.new_entries(self._store) for one in imported_servers}
        if imported_servers and not any(one.error for one in imported_servers):
            _refuse_unknown_names(imported_servers, imported_servers[0].options)
        self._store.add([entry for entries in found.values() for entry in entries.values()], {}, is_imported=True)
        for one in imported_servers:
            one.entries = found[one.server.name]
            self.by_name[one.server.name] = one

    async def remove(self, name: str) -> None:
        """Remove a server with its tools, and close it where it was connected here. Raises ToolLookupError."""
        one = self._find(name)
        (await run_in_thread(lambda _: self._unregister([one]))).get()
        await one.aclose()

    def _unregister(self, imported_servers: Sequence[ImportedServer]) -> None:
        """Take servers out with their tools, as far as they are in."""
        with self._lock:
            for one in imported_servers:
                one.unsubscribe()
                if self.by_name.get(one.server.name) is one:
                    del self.by_name[one.server.name]
                for entry in one.entries.values():
                    self._remove_entry(entry)

    def _remove_entry(self, entry: Entry) -> bool:
        """Remove a tool, and tell whether it was here: the host may have removed it, or have another of its name."""
        if self._store.entries.get(entry.name) is not entry:
            return False
        with contextlib.suppress(ToolLookupError):  # it was removed just now
            self._store.remove([entry.name])
        return True

    async def refresh(self, name: str | None) -> dict[str, Changes]:
        """Ask a server, or all, for their tools, and return what has changed. Raises ToolConnectionError for the one.

        A server that is one of several and cannot be reached is left out, with a warning.
        """
        if name is not None:
            return {name: await self._refresh_one(self._find(name))}
        asked = list(self.by_name.values())
        told = await asyncio.gather(*(self._refresh_one(one) for one in asked), return_exceptions=True)
        for one, changes in zip(asked, told, strict=True):
            if isinstance(changes, BaseException) and not one.is_removed:
                log.warning("The tools of the MCP server %r were not brought up to date: %s", one.server.name, changes)
        return {
            one.server.name: changes
            for one, changes in zip(asked, told, strict=True)
            if not isinstance(changes, BaseException)
        }

    async def _refresh_one(self, imported: ImportedServer) -> Changes:
        changes = await imported.server.arefresh()
        if imported.error is not None:
            imported.error = None
            await self._update_in_thread(imported)
        return changes

    async def _update_in_thread(
        self, imported: ImportedServer, _server: RemoteServer | None = None, _changes: Changes | None = None
    ) -> None:
        """Bring a server's tools here up to date."""
        (await run_in_thread(lambda _: self._update_entries(imported))).get()

    def _update_entries(self, imported: ImportedServer) -> None:
        """Bring a server's tools here up to date. What was removed here stays so, what was bound here stays bound."""
        with self._lock:
            if self.by_name.get(imported.server.name) is not imported:
                return  # it has been removed in the meantime
            recipes = imported.server.templates(timeout=imported.timeout)
            for name, entry in list(imported.entries.items()):
                if name in recipes:
                    self._update_entry(imported, name, entry, *recipes[name])
                elif self._remove_entry(entry):
                    del imported.entries[name]
                    if entry.has_entry_bindings:
                        imported.missing_entries[name] = entry
            self._add_new_entries(imported)

    def _update_entry(
        self, imported: ImportedServer, name: str, entry: Entry, template: ToolTemplate, body: Any
    ) -> None:
        """Let a tool follow its definition. One that has lost a parameter which is bound here is withheld."""
        old = entry.spec.compiled.template
        if template.rebuild_arguments == old.rebuild_arguments:
            return
        bound = entry.compiled_tool(self._store.bindings, None).bindings.keys() - old.inputs.parameters_without_schema
        lost = bound - template.inputs.parameters.keys()
        if lost:
            self._quarantine(imported, name, f"it has no parameter {min(lost)!r} any more, which is bound here")
        else:
            try:
                entry.copy_preset_from(imported.new_entry(name, template, body, self._store))
            except (ToolkitError, BindError) as error:
                self._quarantine(imported, name, f"what was said of it here does not fit it any more. {error}")
        entry.spec.replace_template(template, body)
        self._store.bindings_revision += 1

    @staticmethod
    def _quarantine(imported: ImportedServer, name: str, reason: str) -> None:
        imported.server.quarantine(name)
        log.warning(
            "The MCP tool %r of %r is not called until it is accepted: %s",
            name,
            imported.server.name,
            reason.rstrip("."),
        )

    def _add_new_entries(self, imported: ImportedServer) -> None:
        """Add what the server has added. A name that is taken here is never overwritten."""
        try:
            found = imported.new_entries(self._store)
        except (ToolkitError, BindError) as error:
            log.warning("New tools of the MCP server %r were not added: %s", imported.server.name, error)
            return
        for name, fresh in found.items():
            entry = imported.missing_entries.pop(name, fresh)
            if entry is not fresh:
                self._update_entry(imported, name, entry, fresh.spec.compiled.template, fresh.spec.body)
            try:
                self._store.add([entry], {}, is_imported=True)
            except ToolkitError:
                imported.clashes[name] = f"there is a tool {fresh.name!r} here already"
                log.warning(
                    "The new tool %r of %r was not added: %s.", name, imported.server.name, imported.clashes[name]
                )
            else:
                imported.entries[name] = entry

    def _find(self, name: str) -> ImportedServer:
        if name not in self.by_name:
            raise ToolLookupError(f"There is no MCP server {name!r} here. {near_misses(name, self.by_name)}")
        return self.by_name[name]


def _to_imported_servers(
    server: Any, name: str | None, timeout: float | None, options: ImportOptions
) -> list[ImportedServer]:
    unknown = options.keys() - ImportOptions.__annotations__.keys()
    if unknown:
        raise ToolkitError(f"Unknown options {sorted(unknown)}; known: {', '.join(ImportOptions.__annotations__)}.")
    of_server = {key: value for key, value in options.items() if key in ConnectOptions.__annotations__}
    of_server.pop("on_change", None)  # it hears of changes when they are here
    preset: Any = options.get("preset", {})
    if not (isinstance(preset, Mapping) and all(isinstance(given, Mapping) for given in preset.values())):
        raise ToolkitError('`preset` of a server says it by tool: {"tool": {"parameter": value}}.')
    if not ((listener := options.get("on_change")) is None or callable(listener)):
        raise ToolkitError(f"`on_change` of a server is a function, not a {type(listener).__name__}.")
    for new_name in (*options.get("rename", {}).values(), *([] if name is None else [name])):
        validate_name("new name of a server or of one of its tools", new_name)
    is_ours = not isinstance(server, RemoteServer)
    if not is_ours and (of_server or name is not None):
        said = sorted(of_server) + (["name"] if name is not None else [])
        raise ToolkitError(f"The server {server.name!r} is connected already: give {said} to `mcp.connect`.")
    servers = resolve_servers(server, name, cast("ConnectOptions", of_server)) if is_ours else [server]
    prefix = options.get("prefix")
    return [
        ImportedServer(
            one,
            options,
            (f"{one.name}_" if len(servers) > 1 else "") if prefix is None else prefix,
            timeout,
            is_owned=is_ours,
        )
        for one in servers
    ]


def _refuse_unknown_names(imported_servers: Sequence[ImportedServer], options: ImportOptions) -> None:
    """Raise ToolLookupError for names in the options that none of the servers has."""
    known = {name for one in imported_servers for name in (*one.server.tools, *one.server.refused)}
    idempotent = options.get("idempotent", ())
    wanted = {*options.get("rename", {}), *options.get("preset", {}).keys() - {"*"}}
    for patterns in (options.get("include", ()), options.get("exclude", ())):
        wanted.update(name for name in _to_names(patterns) if not _is_pattern(name))
    wanted.update(() if isinstance(idempotent, bool) else _to_names(idempotent))
    for name in sorted(wanted - known):
        where = " or ".join(repr(one.server.name) for one in imported_servers)
        raise ToolLookupError(f"The MCP server {where} has no tool {name!r}. {near_misses(name, known)}")


async def _load(imported: ImportedServer) -> None:
    try:
        await imported.server.arefresh()
    except Exception as error:  # noqa: BLE001  # whatever a server does, the others are not kept from coming in
        imported.error = error


def _matches(name: str, wanted: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _to_names(wanted))


def _to_names(names: Collection[str]) -> Collection[str]:
    return [names] if isinstance(names, str) else names


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")
